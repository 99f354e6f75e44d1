"""Karpenter's labels, annotations and taints, and which labels it knows well.

Source: pkg/apis/v1/labels.go, taints.go.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "karpenter.sh"
NODEPOOL: Final = f"{GROUP}/nodepool"
CAPACITY_TYPE: Final = f"{GROUP}/capacity-type"
REGISTERED: Final = f"{GROUP}/registered"
INITIALIZED: Final = f"{GROUP}/initialized"
DO_NOT_DISRUPT: Final = f"{GROUP}/do-not-disrupt"
NODEPOOL_HASH: Final = f"{GROUP}/nodepool-hash"
NODEPOOL_HASH_VERSION: Final = f"{GROUP}/nodepool-hash-version"
MIN_VALUES_RELAXED: Final = f"{GROUP}/nodeclaim-min-values-relaxed"
TERMINATION_FINALIZER: Final = f"{GROUP}/termination"
DISRUPTED_TAINT: Final = f"{GROUP}/disrupted"
UNREGISTERED_TAINT: Final = f"{GROUP}/unregistered"

SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
RESERVED: Final = "reserved"

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"

# What each cloud's provider says about a machine, after its prefix; machines of one's own get ours.
PROVIDER_PREFIXES: Final = {
    "aws": "karpenter.k8s.aws/instance-",
    "gcp": "karpenter.k8s.gcp/instance-",
    "azure": "karpenter.azure.com/sku-",
}
OWN_PREFIX: Final = "fairway.dev/instance-"
PROVIDER_LABELS: Final = (
    "family",
    "size",
    "category",
    "generation",
    "cpu",
    "memory",
    "gpu-count",
    "gpu-manufacturer",
    "gpu-name",
    "gpu-memory",
)
_OF_PROVIDERS: Final = (
    f"{prefix}{name}" for prefix in (*PROVIDER_PREFIXES.values(), OWN_PREFIX) for name in PROVIDER_LABELS
)
WELL_KNOWN: Final = frozenset(
    {NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD, *_OF_PROVIDERS}
)
KNOWN_VALUES: Final[dict[str, tuple[str, ...]]] = {CAPACITY_TYPE: (ON_DEMAND, RESERVED, SPOT)}
RESTRICTED: Final = frozenset({HOSTNAME})
NORMALIZED: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}


def is_restricted(key: str, well_known: frozenset[str] = WELL_KNOWN) -> bool:
    """Whether a NodePool may not use this label. Source: IsRestrictedLabel."""
    if key in well_known:
        return False
    domain = key.partition("/")[0] if "/" in key else ""
    return domain == GROUP or domain.endswith(f".{GROUP}") or key in RESTRICTED


def restricted_text(key: str, well_known: frozenset[str] = WELL_KNOWN) -> str:
    known = " ".join(sorted(well_known))
    return (
        f"using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a "
        f"well known label: [{known}], or a custom label that does not use a restricted domain: [{GROUP}]"
    )
