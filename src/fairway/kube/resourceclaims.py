"""Which claims does a pod use, and who may use a claim?

Source: k8s.io/dynamic-resource-allocation/resourceclaim (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj, meta_of, spec_of, status_of

CLAIM: Final = "ResourceClaim.resource.k8s.io"
TEMPLATE: Final = "ResourceClaimTemplate.resource.k8s.io"
CLASS: Final = "DeviceClass.resource.k8s.io"
SLICE: Final = "ResourceSlice.resource.k8s.io"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
MAX_RESERVED: Final = 256
_ENDED: Final = ("Succeeded", "Failed")


class PodClaim(NamedTuple):
    """One entry of a pod's resourceClaims. `claim`: the claim's name; empty: not made yet; None: none is needed.
    `is_made`: it was made for the pod, who must own it."""

    name: str
    claim: str | None
    template: str
    is_made: bool


_Entries = tuple[list[Any], list[Any] | None, tuple[PodClaim, ...]]
_read_before: dict[tuple[int, int], _Entries] = {}
"""By the identities of a pod's lists, which are held so that they stay taken: whoever hears of a pod asks."""
_KEPT: Final = 16384


def pod_claims(pod: Obj) -> tuple[PodClaim, ...]:
    """In the pod's order."""
    entries: list[Any] | None = spec_of(pod).get("resourceClaims")
    if not entries:
        return ()
    statuses: list[Any] | None = status_of(pod).get("resourceClaimStatuses")
    key = (id(entries), id(statuses))
    known = _read_before.get(key)
    if known is not None:
        return known[2]
    if len(_read_before) >= _KEPT:
        _read_before.clear()
    read = _read(entries, statuses or ())
    _read_before[key] = (entries, statuses, read)
    return read


def _read(entries: Sequence[Any], statuses: Sequence[Any]) -> tuple[PodClaim, ...]:
    made = {s.get("name"): s.get("resourceClaimName") for s in statuses}
    found: list[PodClaim] = []
    for entry in entries:
        name, template = entry.get("name") or "", entry.get("resourceClaimTemplateName") or ""
        if entry.get("resourceClaimName") is not None:
            found.append(PodClaim(name, entry["resourceClaimName"], "", False))
        else:
            found.append(PodClaim(name, made.get(name, ""), template, True))
    return tuple(found)


def not_owned(pod: Obj, claim: str) -> str:
    """What is said where `is_for_pod` is not so. Source: IsForPod (v1.36)."""
    where = meta_of(pod).get("namespace") or ""
    return f"ResourceClaim {where}/{claim} was not created for Pod {where}/{meta_of(pod)['name']} (Pod is not owner)"


def is_for_pod(pod: Obj, claim: Obj) -> bool:
    """Whether a claim that was made for a pod was made for this one."""
    if (meta_of(claim).get("namespace") or "") != (meta_of(pod).get("namespace") or ""):
        return False
    uid = meta_of(pod).get("uid")
    for owner in meta_of(claim).get("ownerReferences") or ():
        if owner.get("controller") and owner.get("uid") == uid:
            return True
    return False


def is_reserved_for(pod: Obj, claim: Obj) -> bool:
    uid = meta_of(pod).get("uid")
    return any(r.get("uid") == uid for r in status_of(claim).get("reservedFor") or ())


def can_be_reserved(claim: Obj) -> bool:
    """Whether one more pod may use it."""
    return len(status_of(claim).get("reservedFor") or ()) < MAX_RESERVED


def allocation_of(claim: Obj) -> Obj | None:
    found: Obj | None = status_of(claim).get("allocation")
    return found


def consumer(pod: Obj) -> Obj:
    """The pod, as a claim's reservedFor names it."""
    meta = meta_of(pod)
    return {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}


def is_done(pod: Obj) -> bool:
    """Whether the pod will not run, or not again. Source: pkg/controller/resourceclaim isPodDone."""
    if status_of(pod).get("phase") in _ENDED:
        return True
    return "deletionTimestamp" in meta_of(pod) and not spec_of(pod).get("nodeName")
