"""Which labels does GPU Feature Discovery put on a node with these GPUs?

Source: gpu-feature-discovery (k8s-device-plugin) internal/lm/{nvml,resource,mig-strategy}.go; what the catalog knows of
the model, and a device plugin that shares nothing.
"""

from __future__ import annotations

from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import MIB


def feature_labels(instance_type: str) -> dict[str, str]:
    """Of a node of this type; none without GPUs, or where nobody knows the type."""
    catalog = load_catalog()
    kind = catalog.instance_type(instance_type)
    model = None if kind is None or not kind.gpus else catalog.gpu(kind.gpu)
    if kind is None or model is None:
        return {}
    said = {
        "present": "true",
        "count": str(kind.gpus),
        "product": model.product,
        "memory": str(model.memory_bytes // MIB),
        "family": model.architecture.lower().replace(" ", "-"),
        "replicas": "1",
        "sharing-strategy": "none",
    }
    found = {f"nvidia.com/gpu.{name}": value for name, value in said.items()}
    return {**found, "nvidia.com/mig.capable": str(model.is_mig_capable).lower()}
