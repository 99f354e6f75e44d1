"""ResourceClaims: made of templates for pods, reserved, given back when nobody uses them any more, and cleaned up.

`PODS` looks after pods that name claims: it makes what templates describe, writes the names into the pod's status, and
reserves claims for pods that were bound without a scheduler. `CLAIMS` looks after claims: pods that are gone or done
lose their reservation, and with the last one the claim loses its devices; a claim that was made for such a pod goes.

Source: pkg/controller/resourceclaim/controller.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Create,
    Delete,
    Patch,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.cluster.claimusers import claim_users
from fairway.cluster.metadata import generated_suffix
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, meta_of, quick_key, spec_of, status_of
from fairway.kube.resourceclaims import (
    CLAIM,
    FINALIZER,
    POD_CLAIM_ANNOTATION,
    TEMPLATE,
    PodClaim,
    allocation_of,
    can_be_reserved,
    consumer,
    is_done,
    is_for_pod,
    is_reserved_for,
    pod_claims,
)
from fairway.kube.timestamps import SECOND_US
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event

_POD: Final = "Pod"
_COMPONENT: Final = "resource_claim"
_RETRY_US: Final = 10 * SECOND_US
# Leaves space for a hyphen and five characters in a name of 63.
_MAX_BASE: Final = 57


# Pods


def _pods_of(view: View, change: Change) -> Sequence[Key]:
    gk = change.key.gk
    if gk == _POD:
        is_idle = change.type == DELETED or not spec_of(change.obj).get("resourceClaims")
        return NO_KEYS if is_idle or not _needs_work(view, change.obj) else (change.key,)
    if gk == TEMPLATE:
        return NO_KEYS if change.type != ADDED else _users(view, change.key)
    if change.type != DELETED and allocation_of(change.obj) is None:
        # Only who waited for it by name has work now: they may have to reserve it once it is allocated.
        is_made = POD_CLAIM_ANNOTATION in annotations_of(change.obj)
        return NO_KEYS if change.type != ADDED or is_made else _users(view, change.key)
    return _users(view, change.key)


def _users(view: View, key: Key) -> Sequence[Key]:
    pods = ((user, view.get(user)) for user in claim_users(view).of(key))
    return [user for user, pod in pods if pod is not None and _needs_work(view, pod)]


def _needs_work(view: View, pod: Obj) -> bool:
    """Whether there is a claim to be made or reserved. One that somebody else must make, or take away, keeps those
    behind it from being looked at.

    Source: podNeedsWork; that of a pod that is done nothing is made again is its cache's doing.
    """
    if "deletionTimestamp" in meta_of(pod) or is_done(pod):
        return False
    namespace = meta_of(pod)["namespace"]
    for entry in pod_claims(pod):
        if entry.claim is None:
            return False
        claim = view.get(quick_key(CLAIM, namespace, entry.claim)) if entry.claim else None
        if claim is None:
            return bool(entry.template)
        if entry.is_made and not is_for_pod(pod, claim):
            return False
        if _is_to_reserve(pod, claim):
            return True
    return False


def _is_to_reserve(pod: Obj, claim: Obj) -> bool:
    if not spec_of(pod).get("nodeName") or allocation_of(claim) is None:
        return False
    return not is_reserved_for(pod, claim) and can_be_reserved(claim)


def _reconcile_pod(view: View, key: Key, now_us: int) -> Reconciliation:
    pod = view.get(key)
    if pod is None or not _needs_work(view, pod):
        return NOTHING_TO_DO
    actions: list[Action] = []
    made: dict[str, str] = {}
    for entry in pod_claims(pod):
        if entry.claim is None or not entry.template or _is_there(view, pod, entry):
            continue
        found = _orphan(view, pod, entry)
        if found is None:
            template = view.get(Key(TEMPLATE, key.namespace, entry.template))
            if template is None:
                why = f'resourceclaimtemplate.resource.k8s.io "{entry.template}" not found'
                words = f'PodResourceClaim {entry.name}: resource claim template "{entry.template}": {why}'
                said = event(key, "FailedResourceClaimCreation", words, _COMPONENT, WARNING)
                return Reconciliation((*actions, said), now_us + _RETRY_US)
            claim = _claim_of(pod, entry, template, view.version + len(actions))
            actions.append(Create(claim))
            found = claim["metadata"]["name"]
        made[entry.name] = found
    if made:
        actions.append(_names_written(pod, key, made))
    actions += _reservations(view, pod, key.namespace)
    return Reconciliation(tuple(actions))


def _refused(view: View, key: Key, _now_us: int, message: str) -> Reconciliation:
    """What is told when the API does not take a claim: it has no name yet."""
    pod = view.get(key)
    if pod is None:
        return NOTHING_TO_DO
    for entry in pod_claims(pod):
        if entry.claim is None or not entry.template or _is_there(view, pod, entry):
            continue
        if _orphan(view, pod, entry) is None:
            words = f"PodResourceClaim {entry.name}: create ResourceClaim : {message}"
            return Reconciliation((event(key, "FailedResourceClaimCreation", words, _COMPONENT, WARNING),))
    return NOTHING_TO_DO


def _is_there(view: View, pod: Obj, entry: PodClaim) -> bool:
    claim = view.get(quick_key(CLAIM, meta_of(pod)["namespace"], entry.claim or ""))
    return claim is not None and is_for_pod(pod, claim)


def _orphan(view: View, pod: Obj, entry: PodClaim) -> str | None:
    """A claim that was made for this entry, and not written into the pod's status."""
    for key in view.dependents(meta_of(pod)["uid"]):
        claim = view.get(key) if key.gk == CLAIM else None
        if claim is not None and is_for_pod(pod, claim):
            annotations = meta_of(claim).get("annotations") or {}
            if annotations.get(POD_CLAIM_ANNOTATION) == entry.name:
                return key.name
    return None


def _claim_of(pod: Obj, entry: PodClaim, template: Obj, salt: int) -> Obj:
    meta, inner = meta_of(pod), spec_of(template)
    base = f"{meta['name']}-{entry.name}-"
    if len(base) > _MAX_BASE:
        name, of_claim, length = meta["name"], entry.name, len(base)
        base = f"{name[: len(name) * _MAX_BASE // length]}-{of_claim[: len(of_claim) * _MAX_BASE // length]}"
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    made: Obj = {
        "name": f"{base}{generated_suffix(hash_of(meta['uid']), salt)}",
        "generateName": base,
        "namespace": meta["namespace"],
        "ownerReferences": [owner],
        "annotations": {
            **(meta_of(inner).get("annotations") or {}),
            POD_CLAIM_ANNOTATION: entry.name,
        },
    }
    if labels_of(inner):
        made["labels"] = dict(labels_of(inner))
    # Claims of one template share their spec.
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": made,
        "spec": inner.get("spec") or {},
    }


def hash_of(uid: str) -> int:
    """A number of a uid, the same in every run."""
    return int.from_bytes(uid.encode()[-8:], "big")


def _names_written(pod: Obj, key: Key, made: dict[str, str]) -> SetStatus:
    """As an apply of this manager leaves the status: its earlier entries stay where they still hold."""
    status = {**status_of(pod)}
    before = {s.get("name"): s for s in status.get("resourceClaimStatuses") or ()}
    for name, claim in made.items():
        before[name] = {"name": name, "resourceClaimName": claim}
    order = [e.get("name") for e in spec_of(pod).get("resourceClaims") or ()]
    status["resourceClaimStatuses"] = [before[n] for n in order if n in before]
    return SetStatus(key, status)


def _reservations(view: View, pod: Obj, namespace: str) -> list[Action]:
    """A pod that has a node without kube-scheduler's doing reserves what is allocated."""
    found: list[Action] = []
    for entry in pod_claims(pod):
        key = Key(CLAIM, namespace, entry.claim or "")
        claim = view.get(key) if entry.claim else None
        if claim is None or (entry.is_made and not is_for_pod(pod, claim)) or not _is_to_reserve(pod, claim):
            continue
        status = status_of(claim)
        users = [*(status.get("reservedFor") or ()), consumer(pod)]
        found.append(SetStatus(key, {**status, "reservedFor": users}))
    return found


# Claims


def _claims_of(view: View, change: Change) -> Sequence[Key]:
    if change.key.gk == CLAIM:
        return NO_KEYS if change.type == DELETED else (change.key,)
    pod = change.obj
    extended = (status_of(pod).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if not spec_of(pod).get("resourceClaims") and not extended:
        return NO_KEYS
    if change.type != DELETED and not is_done(pod):
        return NO_KEYS
    names = [entry.claim for entry in pod_claims(pod) if entry.claim]
    return [Key(CLAIM, change.key.namespace, name) for name in (*names, *([extended] if extended else ()))]


def _reconcile_claim(view: View, key: Key, _now_us: int) -> Reconciliation:
    claim = view.get(key)
    if claim is None:
        return NOTHING_TO_DO
    meta, status = meta_of(claim), status_of(claim)
    users: list[Obj] = status.get("reservedFor") or []
    kept = [user for user in users if _still_uses(view, key.namespace, user)]
    finalizers: list[str] = meta.get("finalizers") or []
    is_guarded = FINALIZER in finalizers
    actions: list[Action] = []
    if len(kept) < len(users):
        left = _given_back(status, kept, is_guarded=is_guarded)
        actions.append(SetStatus(key, left))
        if is_guarded and left.get("allocation") is None:
            actions.append(_unguarded(key, finalizers))
    elif is_guarded and "deletionTimestamp" in meta and not kept:
        if allocation_of(claim) is not None:
            actions.append(SetStatus(key, _given_back(status, kept, is_guarded=True)))
        actions.append(_unguarded(key, finalizers))
    if not kept and "deletionTimestamp" not in meta and _is_left_over(view, claim):
        actions.append(Delete(key, meta["uid"]))
    return Reconciliation(tuple(actions))


def _still_uses(view: View, namespace: str, user: Obj) -> bool:
    if user.get("apiGroup") or user.get("resource") != "pods":
        return True
    pod = view.get(quick_key(_POD, namespace, user.get("name") or ""))
    return pod is not None and meta_of(pod).get("uid") == user.get("uid") and not is_done(pod)


def _given_back(status: Obj, kept: list[Obj], *, is_guarded: bool) -> Obj:
    """Without those who left; with the last of them the devices go, and what drivers said of them."""
    left = {k: v for k, v in status.items() if k != "reservedFor"}
    if kept:
        left["reservedFor"] = kept
    elif is_guarded:
        left.pop("allocation", None)
        left.pop("devices", None)
    return left


def _unguarded(key: Key, finalizers: list[str]) -> Patch:
    rest = [f for f in finalizers if f != FINALIZER]
    return Patch(key, {"metadata": {"finalizers": rest or None}})


def _is_left_over(view: View, claim: Obj) -> bool:
    """Whether it was made for a pod that will not run."""
    meta = meta_of(claim)
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "Pod" and owner.get("apiVersion") == "v1":
            pod = view.get(Key(_POD, meta["namespace"], owner["name"]))
            return pod is not None and (meta_of(pod).get("uid") != owner.get("uid") or is_done(pod))
    return False


PODS: Final = Controller(
    "resourceclaim-pods", _POD, (_POD, CLAIM, TEMPLATE), _pods_of, _reconcile_pod, _refused
)
# kube-scheduler hears of a pod that left before its claims are given back.
_LAG_US: Final = 1000
CLAIMS: Final = Controller(
    "resourceclaim-claims", CLAIM, (_POD, CLAIM), _claims_of, _reconcile_claim, delay_us=_LAG_US
)
CONTROLLERS: Final = (PODS, CLAIMS)


def affected(view: View, change: Change) -> list[tuple[Controller, Key]]:
    """Who has to look at what after a change: of the pods most have no claims."""
    if change.key.gk == _POD:
        status = change.obj.get("status") or {}
        if "resourceClaims" not in change.obj["spec"] and "extendedResourceClaimStatus" not in status:
            return []
    gk = change.key.gk
    found = [(PODS, key) for key in _pods_of(view, change)] if gk in PODS.watches else []
    if gk in CLAIMS.watches:
        found += [(CLAIMS, key) for key in _claims_of(view, change)]
    return found
