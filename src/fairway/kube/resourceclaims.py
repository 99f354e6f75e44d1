"""Which claims does a pod use, and who may use a claim?

Source: k8s.io/dynamic-resource-allocation/resourceclaim (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
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


def pod_claims(pod: Obj) -> Iterator[PodClaim]:
    """In the pod's order."""
    entries: list[Any] = spec_of(pod).get("resourceClaims") or []
    if not entries:
        return
    made = {
        s.get("name"): s.get("resourceClaimName") for s in status_of(pod).get("resourceClaimStatuses") or ()
    }
    for entry in entries:
        name, template = entry.get("name") or "", entry.get("resourceClaimTemplateName") or ""
        if entry.get("resourceClaimName") is not None:
            yield PodClaim(name, entry["resourceClaimName"], "", False)
        else:
            yield PodClaim(name, made.get(name, ""), template, True)


def is_for_pod(pod: Obj, claim: Obj) -> bool:
    """Whether a claim that was made for a pod was made for this one."""
    if (meta_of(claim).get("namespace") or "") != (meta_of(pod).get("namespace") or ""):
        return False
    uid = meta_of(pod).get("uid")
    return any(
        o.get("controller") and o.get("uid") == uid for o in meta_of(claim).get("ownerReferences") or ()
    )


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
