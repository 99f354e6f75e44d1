"""The StatefulSet controller's decision: create upwards, delete and update downwards, one at a time if ordered.

Source: pkg/controller/statefulset/stateful_set_control.go updateStatefulSet (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Create,
    Delete,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj
from fairway.workloads import claims, history, pods
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, is_desire_changed, owner_key
from fairway.workloads.history import HASH_LABEL, History
from fairway.workloads.podchanges import is_relevant
from fairway.workloads.statefulset import storage
from fairway.workloads.statefulset.identity import (
    Wishes,
    is_created,
    is_running_and_ready,
    is_unavailable,
    new_pod,
    ordinal_of,
    revision_of,
    wishes_of,
)
from fairway.workloads.statefulset.storage import COMPONENT

STATEFUL_SET = "StatefulSet.apps"


@dataclass(slots=True)
class Set:
    """One set while it is decided about. `replicas[i]` is pod `start + i`, planned where it is not there."""

    key: Key
    owner: Obj
    wishes: Wishes
    pods: list[Obj]
    replicas: list[Obj]
    condemned: list[Obj]
    actions: list[Action] = field(default_factory=list)

    def ordinal(self, pod: Obj) -> int:
        return ordinal_of(pod, self.owner["metadata"]["name"])


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one StatefulSet. O(its pods)."""
    owner = view.get(key)
    if owner is None:
        return NOTHING_TO_DO
    claimed = claims.claim(view, owner, "apps/v1", "StatefulSet")
    past = history.read(view, owner, "StatefulSet", hash_label=HASH_LABEL)
    current = _current(owner, past)
    one = _gather(key, owner, claimed.objects, current, past.update)
    one.actions.extend(claimed.actions)
    if "deletionTimestamp" not in owner["metadata"]:
        one.actions.extend(past.actions)
        _manage(view, one, past.update, now_us)
        live = [current["metadata"]["name"], *(revision_of(p) for p in one.pods)]
        one.actions.extend(history.truncated(past, live, one.wishes.history_limit))
    _write_status(one, current, past, now_us)
    again = pods.next_available_us(one.pods, one.wishes.min_ready_s, now_us)
    return Reconciliation(tuple(one.actions), again)


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After the creation of a pod was refused: say so, count what is there, try again later."""
    owner = view.get(key)
    if owner is None:
        return NOTHING_TO_DO
    past = history.read(view, owner, "StatefulSet", hash_label=HASH_LABEL)
    current = _current(owner, past)
    found = claims.controlled(view, owner["metadata"]["uid"])
    one = _gather(key, owner, found, current, past.update)
    pod = next((p["metadata"]["name"] for p in one.replicas if not is_created(p)), "")
    why = f"create Pod {pod} in StatefulSet {owner['metadata']['name']} failed error: {message}"
    one.actions.append(event(key, "FailedCreate", why, COMPONENT, WARNING))
    _write_status(one, current, past, now_us)
    return Reconciliation(tuple(one.actions), now_us + pods.RETRY_REFUSED_US)


def _write_status(one: Set, current: Obj, past: History, now_us: int) -> None:
    status = _next_status(one, current, past, now_us)
    if status != (one.owner.get("status") or {}):
        one.actions.append(SetStatus(one.key, status))


def _current(owner: Obj, past: History) -> Obj:
    """The revision the set is leaving; at first the one it has."""
    name = (owner.get("status") or {}).get("currentRevision")
    return next((r for r in past.revisions if r["metadata"]["name"] == name), past.update)


def _gather(key: Key, owner: Obj, found: list[Obj], current: Obj, update: Obj) -> Set:
    wishes = wishes_of(owner)
    name = owner["metadata"]["name"]
    by_ordinal = {o: p for p in found if (o := ordinal_of(p, name)) >= 0}
    # An ordered set makes one pod at a time; a parallel one comes back for those that are left out here.
    room = 1 if wishes.is_ordered else pods.MOST_AT_ONCE
    held = {o - wishes.start for o in by_ordinal if o >= wishes.start}
    replicas = [
        by_ordinal.get(o) or new_pod(owner, wishes, o, current, update)
        for o in (wishes.start + i for i in pods.wanted_indexes(wishes.replicas, held, room))
    ]
    condemned = [by_ordinal[o] for o in sorted(by_ordinal, reverse=True) if not wishes.has(o)]
    return Set(key, owner, wishes, list(by_ordinal.values()), replicas, condemned)


def _manage(view: View, one: Set, update: Obj, now_us: int) -> None:
    """Create what is missing, then stop what is too much, then update: each only once the one before is done."""
    is_ordered = one.wishes.is_ordered
    for pod in one.replicas:
        if _keep_up(view, one, pod, now_us) and is_ordered:
            return
    for pod in one.condemned:
        one.actions.extend(storage.retained(view, one.owner, pod, one.ordinal(pod), is_condemned=True))
    first_unhealthy = _first_unhealthy(one, now_us)
    for pod in one.condemned:
        _condemn(one, pod, first_unhealthy, now_us)
        if is_ordered:
            return
    if not one.wishes.is_on_delete:
        _update(one, update, now_us)


def _keep_up(view: View, one: Set, pod: Obj, now_us: int) -> bool:
    """Bring one pod about; whether an ordered set has to wait for it."""
    ordinal = one.ordinal(pod)
    if pods.is_terminal(pod):
        if not pods.is_deleting(pod):
            _delete(one, pod)
        return True
    if not is_created(pod):
        if storage.has_stale_claim(view, one.owner, ordinal):
            return True
        one.actions.extend(storage.missing_claims(view, one.key, one.owner, pod, ordinal))
        one.actions.append(Create(pod))
        name, set_name = pod["metadata"]["name"], one.owner["metadata"]["name"]
        message = f"create Pod {name} in StatefulSet {set_name} successful"
        one.actions.append(event(one.key, "SuccessfulCreate", message, COMPONENT))
        return True
    if pods.phase_of(pod) == pods.PENDING:
        one.actions.extend(storage.missing_claims(view, one.key, one.owner, pod, ordinal))
    if one.wishes.is_ordered and (
        pods.is_deleting(pod)
        or not is_running_and_ready(pod)
        or not pods.is_available(pod, one.wishes.min_ready_s, now_us)
    ):
        return True
    one.actions.extend(storage.retained(view, one.owner, pod, ordinal, is_condemned=False))
    return False


def _first_unhealthy(one: Set, now_us: int) -> Obj | None:
    """The pod an ordered set may stop although it is not healthy: the lowest of them."""
    for pod in (*one.replicas, *reversed(one.condemned)):
        if is_unavailable(pod, one.wishes.min_ready_s, now_us):
            return pod
    return None


def _condemn(one: Set, pod: Obj, first_unhealthy: Obj | None, now_us: int) -> None:
    """Stop a pod beyond the range, unless it goes already, or an ordered set waits until it is well."""
    if pods.is_deleting(pod):
        return
    if one.wishes.is_ordered and pod is not first_unhealthy:
        is_well = is_running_and_ready(pod) and pods.is_available(pod, one.wishes.min_ready_s, now_us)
        if not is_well:
            return
    _delete(one, pod)


def _update(one: Set, update: Obj, now_us: int) -> None:
    """Replace pods of another revision from the highest ordinal down to the partition."""
    wishes = one.wishes
    room = wishes.max_unavailable - sum(is_unavailable(p, wishes.min_ready_s, now_us) for p in one.replicas)
    for at in range(len(one.replicas) - 1, wishes.partition - 1, -1):
        if room <= 0:
            return
        pod = one.replicas[at]
        if not is_created(pod) or pods.is_deleting(pod) or pods.is_terminal(pod):
            continue
        if revision_of(pod) != update["metadata"]["name"]:
            _delete(one, pod)
            room -= 1


def _delete(one: Set, pod: Obj) -> None:
    meta = pod["metadata"]
    one.actions.append(Delete(Key("Pod", meta["namespace"], meta["name"]), meta["uid"]))
    message = f"delete Pod {meta['name']} in StatefulSet {one.owner['metadata']['name']} successful"
    one.actions.append(event(one.key, "SuccessfulDelete", message, COMPONENT))


def _next_status(one: Set, current: Obj, past: History, now_us: int) -> dict[str, Any]:
    """Counts of the pods that are there now."""
    update_name, current_name = past.update["metadata"]["name"], current["metadata"]["name"]
    ready = [p for p in one.pods if is_running_and_ready(p)]
    staying = [p for p in one.pods if not pods.is_deleting(p)]
    status: dict[str, Any] = {
        "replicas": len(one.pods),
        "readyReplicas": len(ready),
        "availableReplicas": sum(pods.is_available(p, one.wishes.min_ready_s, now_us) for p in ready),
        "currentReplicas": sum(revision_of(p) == current_name for p in staying),
        "updatedReplicas": sum(revision_of(p) == update_name for p in staying),
        "currentRevision": current_name,
        "updateRevision": update_name,
        "observedGeneration": one.owner["metadata"].get("generation", 0),
        "collisionCount": past.collision_count,
    }
    wanted = one.wishes.replicas
    all_updated = all(status[f] == wanted for f in ("replicas", "readyReplicas", "updatedReplicas"))
    if all_updated and not one.wishes.is_on_delete:
        status["currentReplicas"] = status["updatedReplicas"]
        status["currentRevision"] = update_name
    present = ("replicas", "availableReplicas", "collisionCount")
    return {k: v for k, v in status.items() if v or k in present}


def map_change(view: View, change: Change) -> Sequence[Key]:
    if change.key.gk == STATEFUL_SET:
        return (change.key,) if is_desire_changed(change) else NO_KEYS
    if not is_relevant(change):
        return NO_KEYS
    now = owner_key(change.obj, "StatefulSet", "apps", STATEFUL_SET)
    before = None if change.old is None else owner_key(change.old, "StatefulSet", "apps", STATEFUL_SET)
    return tuple(k for k in dict.fromkeys((now, before)) if k is not None)


CONTROLLER = Controller("statefulset", STATEFUL_SET, (STATEFUL_SET, "Pod"), map_change, reconcile, refused)
