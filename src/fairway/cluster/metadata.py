"""What the API server stamps on an object: identity, time, versions, and the status it is born with.

Source: apiserver registry/rest/create.go and update.go, pkg/registry/core/pod/strategy.go (v1.36).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Final

from fairway.kube.memos import memo
from fairway.kube.objects import Obj, dig, meta_of
from fairway.kube.podrequests import container_requests
from fairway.kube.resources import CPU, MEMORY, parse_resources
from fairway.kube.timestamps import rfc3339

# apimachinery utilrand.SafeEncodeString: no vowels, no look-alikes.
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_NAME_LENGTH: Final = 58

NAMESPACE_FINALIZER: Final = "kubernetes"

# Kinds that never carry metadata.generation. Source: their strategies do not set it.
_WITHOUT_GENERATION: Final = frozenset(
    {
        "Node",
        "Namespace",
        "ConfigMap",
        "Secret",
        "Event",
        "Service",
        "ServiceAccount",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ResourceQuota",
        "LimitRange",
        "Lease.coordination.k8s.io",
        "HorizontalPodAutoscaler.autoscaling",
        "CertificateSigningRequest.certificates.k8s.io",
        "CSIDriver.storage.k8s.io",
        "CSINode.storage.k8s.io",
        "VolumeAttachment.storage.k8s.io",
        "ResourceClaim.resource.k8s.io",
        "ResourceClaimTemplate.resource.k8s.io",
        "IPAddress.networking.k8s.io",
        "ServiceCIDR.networking.k8s.io",
        "APIService.apiregistration.k8s.io",
    }
)
_NOT_DESIRED: Final = ("metadata", "status")
# Kinds without a spec that carry it all the same.
_WITH_GENERATION: Final = frozenset(
    {
        "PriorityClass.scheduling.k8s.io",
        "EndpointSlice.discovery.k8s.io",
        "MutatingWebhookConfiguration.admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
    }
)


def uid_for(seed: int, serial: int) -> str:
    """The `serial`-th UID of a store: unique within it, shaped like a version 4 UUID, the same in every run."""
    return f"{serial:08x}{_uid_end(seed)}"


@lru_cache(maxsize=64)
def _uid_end(seed: int) -> str:
    return f"-{seed & 0xFFFF:04x}-4000-8000-{(seed >> 16) & 0xFFFFFFFFFFFF:012x}"


def generated_suffix(seed: int, serial: int, length: int = 5) -> str:
    """The random part of a generated name, in Kubernetes' alphabet, from the store's seed."""
    digest = hashlib.blake2b(f"{seed}/{serial}".encode(), digest_size=8).digest()
    n = int.from_bytes(digest, "big")
    letters = []
    for _ in range(length):
        n, i = divmod(n, len(_SAFE))
        letters.append(_SAFE[i])
    return "".join(letters)


def generated_name(base: str, seed: int, serial: int) -> str:
    return base[:_MAX_GENERATED_NAME_LENGTH] + generated_suffix(seed, serial)


def stamped(obj: Obj, *, gk: str, namespace: str, name: str, uid: str, version: int, now_us: int) -> Obj:
    """The object as it is first stored."""
    given = meta_of(obj)
    meta: dict[str, Any] = {**given, "name": name}
    if namespace:
        meta["namespace"] = namespace
    meta["uid"] = uid
    meta["resourceVersion"] = str(version)
    meta["creationTimestamp"] = rfc3339(now_us)
    if gk in _WITH_GENERATION or ("spec" in obj and gk not in _WITHOUT_GENERATION):
        meta["generation"] = 1
    meta.pop("deletionTimestamp", None)
    meta.pop("deletionGracePeriodSeconds", None)
    stored = {**obj, "metadata": meta}
    if gk == "Namespace":
        # It stays until the namespace controller has emptied it and lifts this.
        stored["spec"] = {**(obj.get("spec") or {}), "finalizers": [NAMESPACE_FINALIZER]}
    born = _status_at_birth(gk, obj)
    if born is not None:
        stored["status"] = born
    return stored


def _status_at_birth(gk: str, obj: Obj) -> dict[str, Any] | None:
    """What `status` becomes on create; None leaves it as given."""
    if gk == "Pod":
        status: dict[str, Any] = {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}
        if dig(obj, "spec", "schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        return status
    if gk == "Namespace":
        return {"phase": "Active"}
    if gk in ("PersistentVolume", "PersistentVolumeClaim"):
        return {"phase": "Pending"}
    if gk == "Node" or "status" not in obj:
        return None
    return {}


# Pods stamped from one template share their spec object. The spec is kept so that its id stays its own.
_QOS_OF: Final[dict[int, tuple[dict[str, Any], str]]] = memo()
_QOS_KEPT: Final = 1024


def qos_class(spec: dict[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort. Source: pkg/apis/core/v1/helper/qos."""
    known = _QOS_OF.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    if len(_QOS_OF) >= _QOS_KEPT:
        _QOS_OF.clear()
    found = _qos_class(spec)
    _QOS_OF[id(spec)] = (spec, found)
    return found


def _qos_class(spec: dict[str, Any]) -> str:
    if spec.get("resources"):
        containers = [spec]
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = False
    guaranteed = True
    for container in containers:
        resources = container.get("resources") or {}
        limits = parse_resources(resources.get("limits"))
        requests = container_requests(container)
        for name in (CPU, MEMORY):
            request, limit = requests.get(name, 0), limits.get(name, 0)
            asked = asked or request > 0 or limit > 0
            guaranteed = guaranteed and 0 < limit == request
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def bumps_generation(gk: str, old: Obj, new: Obj) -> bool:
    """Whether the desired state changed: anything but metadata and status."""
    if gk in _WITHOUT_GENERATION or "generation" not in (old.get("metadata") or {}):
        return False
    for field, value in new.items():
        if field not in _NOT_DESIRED and (field not in old or old[field] != value):
            return True
    return any(field not in new and field not in _NOT_DESIRED for field in old)
