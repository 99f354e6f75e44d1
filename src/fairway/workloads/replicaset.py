"""ReplicaSet: exactly this many pods of this template.

In: a ReplicaSet and its pods. Out: pods to create, or to delete in the order that disturbs least; its status.
The status counts what was there before this decision, as upstream's does; pods coming and going bring it back.

Source: pkg/controller/replicaset/replica_set.go, replica_set_utils.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
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
from fairway.kube.labels import set_selector
from fairway.kube.objects import Key, Obj, controller_of, labels_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads import claims, pods
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, is_desire_changed, owner_key
from fairway.workloads.podchanges import is_relevant
from fairway.workloads.podtemplate import fresh_names, generate_name_prefix, owned_by, pod_from_template

REPLICA_SET = "ReplicaSet.apps"
COMPONENT = "replicaset-controller"

# Pods created or deleted in one go. Source: BurstReplicas (v1.36).
BURST_REPLICAS = 500

# How long upstream waits before it tries a refused creation again. Source: client-go
# DefaultTypedControllerRateLimiter (5 ms doubling to 1000 s); below a second nothing would change.
MIN_RETRY_US = 1 * SECOND_US
MAX_RETRY_US = 1000 * SECOND_US


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one ReplicaSet. O(its pods; when pods are deleted, its siblings' as well)."""
    owner = view.get(key)
    if owner is None:
        return NOTHING_TO_DO
    return _decide(view, key, owner, now_us, refusal=None)


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After a creation was refused: say so in an event and in the ReplicaFailure condition."""
    owner = view.get(key)
    if owner is None:
        return NOTHING_TO_DO
    told = event(key, "FailedCreate", f"Error creating: {message}", COMPONENT, WARNING)
    decided = _decide(view, key, owner, now_us, refusal=message)
    waited = now_us - parse_rfc3339(owner["metadata"]["creationTimestamp"])
    retry = now_us + min(max(waited, MIN_RETRY_US), MAX_RETRY_US)
    return Reconciliation((told, *decided.actions), retry)


def _decide(view: View, key: Key, owner: Obj, now_us: int, *, refusal: str | None) -> Reconciliation:
    spec = owner.get("spec") or {}
    claimed = claims.claim(view, owner, "apps/v1", "ReplicaSet")
    active = [p for p in claimed.objects if pods.is_active(p)]
    wanted = _replicas(spec)
    actions: list[Action] = list(claimed.actions)
    again: int | None = None
    if "deletionTimestamp" not in owner["metadata"] and refusal is None:
        missing = wanted - len(active)
        if missing > 0:
            _create(actions, view, key, owner, min(missing, BURST_REPLICAS))
        elif missing < 0:
            _delete(actions, view, key, owner, active, min(-missing, BURST_REPLICAS), now_us)
        if abs(missing) > BURST_REPLICAS:
            again = now_us
    status = _next_status(owner, claimed.objects, active, refusal, now_us)
    if status != (owner.get("status") or {}):
        actions.append(SetStatus(key, status))
    min_ready_s = spec.get("minReadySeconds") or 0
    if again is None:
        again = pods.next_available_us(active, min_ready_s, now_us)
    return Reconciliation(tuple(actions), again)


def _replicas(spec: dict[str, Any]) -> int:
    replicas = spec.get("replicas")
    return 1 if replicas is None else int(replicas)


def _create(actions: list[Action], view: View, key: Key, owner: Obj, count: int) -> None:
    meta = owner["metadata"]
    prefix = generate_name_prefix(meta["name"])
    owners = owned_by(owner, "apps/v1", "ReplicaSet")
    names = fresh_names(view, "Pod", meta["namespace"], prefix, meta["uid"])
    template = (owner.get("spec") or {}).get("template") or {}
    for _ in range(count):
        name = next(names)
        pod = pod_from_template(
            template,
            namespace=meta["namespace"],
            owner_references=owners,
            name=name,
            generate_name=prefix,
        )
        actions.append(Create(pod))
        actions.append(event(key, "SuccessfulCreate", f"Created pod: {name}", COMPONENT))


def _delete(
    actions: list[Action], view: View, key: Key, owner: Obj, active: list[Obj], count: int, now_us: int
) -> None:
    chosen = active
    if count < len(active):
        ranks = _pods_per_node(view, owner, active)
        chosen = pods.in_ranked_deletion_order(active, ranks, now_us)[:count]
    for pod in chosen:
        meta = pod["metadata"]
        actions.append(Delete(Key("Pod", meta["namespace"], meta["name"]), meta["uid"]))
        actions.append(event(key, "SuccessfulDelete", f"Deleted pod: {meta['name']}", COMPONENT))


def _pods_per_node(view: View, owner: Obj, active: list[Obj]) -> dict[str, int]:
    """Active pods per node over all ReplicaSets of the same Deployment: crowded nodes are relieved first."""
    related = list(active)
    parent = controller_of(owner)
    if parent is not None:
        for sibling in claims.controlled(view, parent.get("uid", ""), REPLICA_SET):
            if sibling["metadata"]["uid"] != owner["metadata"]["uid"]:
                siblings = claims.controlled(view, sibling["metadata"]["uid"])
                related.extend(p for p in siblings if pods.is_active(p))
    counts: dict[str, int] = {}
    for pod in related:
        node = pods.node_of(pod)
        counts[node] = counts.get(node, 0) + 1
    return counts


def _next_status(
    owner: Obj, claimed: list[Obj], active: list[Obj], refusal: str | None, now_us: int
) -> dict[str, Any]:
    spec = owner.get("spec") or {}
    old = owner.get("status") or {}
    labels = set_selector(labels_of(spec.get("template") or {}))
    min_ready_s = spec.get("minReadySeconds") or 0
    status: dict[str, Any] = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labels.matches(labels_of(p)) for p in active),
        "readyReplicas": sum(pods.is_ready(p) for p in active),
        "availableReplicas": sum(pods.is_available(p, min_ready_s, now_us) for p in active),
    }
    # The API leaves zero counts out, but not `replicas` itself.
    status = {k: v for k, v in status.items() if v or k == "replicas"}
    status["terminatingReplicas"] = sum(pods.is_terminating(p) for p in claimed)
    if "generation" in owner["metadata"]:
        status["observedGeneration"] = owner["metadata"]["generation"]
    conditions = [c for c in old.get("conditions") or () if c.get("type") != "ReplicaFailure"]
    if refusal is not None:
        failing = next((c for c in old.get("conditions") or () if c.get("type") == "ReplicaFailure"), None)
        conditions.append(failing or _replica_failure(refusal, now_us))
    if conditions:
        status["conditions"] = conditions
    return status


def _replica_failure(message: str, now_us: int) -> dict[str, Any]:
    return {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": rfc3339(now_us),
        "reason": "FailedCreate",
        "message": message,
    }


def map_change(view: View, change: Change) -> Sequence[Key]:
    if change.key.gk == REPLICA_SET:
        return (change.key,) if is_desire_changed(change) else NO_KEYS
    if not is_relevant(change):
        return NO_KEYS
    now = owner_key(change.obj, "ReplicaSet", "apps", REPLICA_SET)
    before = None if change.old is None else owner_key(change.old, "ReplicaSet", "apps", REPLICA_SET)
    if now is None:
        return NO_KEYS if before is None else (before,)
    return (now,) if before in (None, now) else (now, before)


CONTROLLER = Controller(
    "replicaset", REPLICA_SET, (REPLICA_SET, "Pod"), map_change, reconcile, refused, slow_start=True
)
