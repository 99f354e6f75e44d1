"""What a recorder of devices looked at: pods and claims, with made-up names as what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fairway.kube.objects import Obj, meta_of, name_of, spec_of, status_of
from fairway.kube.resourceclaims import CLAIM, EXTENDED_ANNOTATION, POD_CLAIM_ANNOTATION

if TYPE_CHECKING:
    from fairway.conformance.dra.playing import Player

_ENDED: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class Look:
    """Pods and claims by name, as far as the recorder wrote them down."""

    pods: dict[str, Obj] = field(default_factory=dict)
    claims: dict[str, Obj] = field(default_factory=dict)


def merged(look: Look, changed: Obj) -> None:
    """What was recorded of a step: entries that changed, and names that are gone."""
    look.pods.update({n: _pod_as_compared(p) for n, p in (changed.get("pods") or {}).items()})
    look.claims.update({n: _as_compared(c) for n, c in (changed.get("claims") or {}).items()})
    for name in changed.get("gone") or ():
        look.pods.pop(name, None)
        look.claims.pop(name, None)


def observe(player: Player) -> Look:
    store, names = player.twin.store, made_up_names(player)
    look = Look()
    for pod in store.objects("Pod"):
        look.pods[name_of(pod)] = _pod(pod, names)
    for claim in store.objects(CLAIM):
        look.claims[names.get(name_of(claim), name_of(claim))] = _claim(claim)
    return look


def made_up_names(player: Player) -> dict[str, str]:
    """Name → what it is. Claims that are gone are remembered."""
    for claim in player.twin.store.objects(CLAIM):
        meta = meta_of(claim)
        annotations = meta.get("annotations") or {}
        owner = next((o["name"] for o in meta.get("ownerReferences") or ()), "")
        if annotations.get(EXTENDED_ANNOTATION) == "true":
            player.names[meta["name"]] = f"ext:{owner}"
        elif POD_CLAIM_ANNOTATION in annotations:
            player.names[meta["name"]] = f"gen:{owner}/{annotations[POD_CLAIM_ANNOTATION]}"
    return player.names


def _pod(pod: Obj, names: Mapping[str, str]) -> Obj:
    status = status_of(pod)
    said: Obj = {"node": spec_of(pod).get("nodeName") or None}
    condition = next((c for c in status.get("conditions") or () if c["type"] == "PodScheduled"), None)
    if condition is not None:
        said["condition"] = {k: condition[k] for k in ("status", "reason", "message") if condition.get(k)}
    if status.get("nominatedNodeName"):
        said["nominated"] = status["nominatedNodeName"]
    if status.get("phase") in _ENDED:
        said["phase"] = status["phase"]
    if status.get("resourceClaimStatuses"):
        said["resourceClaimStatuses"] = status["resourceClaimStatuses"]
    if status.get("extendedResourceClaimStatus"):
        said["extendedResourceClaimStatus"] = status["extendedResourceClaimStatus"]
    return _pod_as_compared(_renamed(said, names))


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            k: names.get(v, v) if k == "resourceClaimName" else _renamed(v, names) for k, v in value.items()
        }
    return [_renamed(v, names) for v in value] if isinstance(value, list) else value


def _pod_as_compared(pod: Obj) -> Obj:
    """Lists whose order means nothing, by name."""
    said = {k: v for k, v in pod.items() if k != "disruption"}
    if "resourceClaimStatuses" in said:
        said["resourceClaimStatuses"] = sorted(said["resourceClaimStatuses"], key=lambda s: s["name"])
    return said


def _claim(claim: Obj) -> Obj:
    meta, status = meta_of(claim), status_of(claim)
    said: Obj = {k: status[k] for k in ("allocation", "devices") if status.get(k)}
    if status.get("reservedFor"):
        # The recording has them by name: d5030-p10 before d5030-p5, which was there first.
        users = sorted(status["reservedFor"], key=lambda user: str(user.get("name")))
        said["reservedFor"] = [{k: v for k, v in user.items() if k != "uid"} for user in users]
    if meta.get("finalizers"):
        said["finalizers"] = meta["finalizers"]
    if "deletionTimestamp" in meta:
        said["deleting"] = True
    if (meta.get("annotations") or {}).get(EXTENDED_ANNOTATION) == "true":
        said["spec"] = spec_of(claim)
    return _as_compared(said)


def _as_compared(claim: Obj) -> Obj:
    said = {k: v for k, v in claim.items() if k != "annotations"}
    if "allocation" in said:
        said["allocation"] = _without_chance(said["allocation"])
    if "devices" in said:
        said["devices"] = [_without_times(d) for d in said["devices"]]
    return said


def _without_chance(allocation: Obj) -> Obj:
    devices = allocation.get("devices") or {}
    results = [{**r, "shareID": "<uuid>"} if "shareID" in r else r for r in devices.get("results") or ()]
    made = {**devices, "results": results} if results else devices
    time = {"allocationTimestamp": "<time>"} if "allocationTimestamp" in allocation else {}
    return {**allocation, "devices": made, **time}


def _without_times(device: Obj) -> Obj:
    conditions = [
        {k: v for k, v in c.items() if k != "lastTransitionTime"} for c in device.get("conditions") or ()
    ]
    return {**device, "conditions": conditions} if conditions else device
