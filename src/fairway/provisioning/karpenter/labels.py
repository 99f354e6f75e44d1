"""Karpenter's labels, annotations and taints, and which labels it knows well.

Source: pkg/apis/v1/labels.go, taints.go.
"""

from __future__ import annotations

GROUP = "karpenter.sh"
NODEPOOL = f"{GROUP}/nodepool"
CAPACITY_TYPE = f"{GROUP}/capacity-type"
REGISTERED = f"{GROUP}/registered"
INITIALIZED = f"{GROUP}/initialized"
DO_NOT_DISRUPT = f"{GROUP}/do-not-disrupt"
NODEPOOL_HASH = f"{GROUP}/nodepool-hash"
NODEPOOL_HASH_VERSION = f"{GROUP}/nodepool-hash-version"
MIN_VALUES_RELAXED = f"{GROUP}/nodeclaim-min-values-relaxed"
TERMINATION_TIMESTAMP = f"{GROUP}/nodeclaim-termination-timestamp"
TERMINATION_FINALIZER = f"{GROUP}/termination"
DISRUPTED_TAINT = f"{GROUP}/disrupted"
UNREGISTERED_TAINT = f"{GROUP}/unregistered"

SPOT, ON_DEMAND, RESERVED = "spot", "on-demand", "reserved"

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"

# What each cloud's provider says about a machine, after its prefix; machines of one's own get ours.
PROVIDER_PREFIXES = {
    "aws": "karpenter.k8s.aws/instance-",
    "gcp": "karpenter.k8s.gcp/instance-",
    "azure": "karpenter.azure.com/sku-",
}
OWN_PREFIX = "fairway.dev/instance-"
PROVIDER_LABELS = (
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
_OF_PROVIDERS = (
    f"{prefix}{name}" for prefix in (*PROVIDER_PREFIXES.values(), OWN_PREFIX) for name in PROVIDER_LABELS
)
WELL_KNOWN = frozenset(
    {NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD, *_OF_PROVIDERS}
)
KNOWN_VALUES: dict[str, tuple[str, ...]] = {CAPACITY_TYPE: (ON_DEMAND, RESERVED, SPOT)}
RESTRICTED = frozenset({HOSTNAME})
NORMALIZED = {
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
