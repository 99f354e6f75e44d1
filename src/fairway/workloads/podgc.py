"""Pods nobody will ever look after again: on nodes that are gone, or deleted before they had one.

The threshold of terminated pods is not here: it is a matter of the whole cluster's size.

Source: pkg/controller/podgc/gc_controller.go gcOrphaned, gcUnscheduledTerminating (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.cluster.actions import NOTHING_TO_DO, Action, Delete, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.workloads import pods
from fairway.workloads.controller import NO_KEYS, Controller

# How long a node must be missing before its pods are. Source: quarantineTime (v1.36).
QUARANTINE_US = 40 * SECOND_US


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """Remove the pods of a node that is gone. O(pods). The key is the node's; a node that came back keeps them."""
    if view.get(key) is not None:
        return NOTHING_TO_DO
    actions: list[Action] = []
    for pod in view.objects("Pod"):
        if pods.node_of(pod) == key.name:
            actions.extend(_removal(pod, "PodGC: node no longer exists", now_us))
    return Reconciliation(tuple(actions)) if actions else NOTHING_TO_DO


def _removal(pod: Obj, why: str, now_us: int) -> list[Action]:
    """Mark the pod failed, so that its owner counts it, and delete it without grace."""
    meta = pod["metadata"]
    key = Key("Pod", meta["namespace"], meta["name"])
    actions: list[Action] = []
    if not pods.is_terminal(pod):
        status = pod.get("status") or {}
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": rfc3339(now_us),
            "reason": "DeletionByPodGC",
            "message": why,
        }
        others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
        actions.append(SetStatus(key, {**status, "phase": pods.FAILED, "conditions": [*others, target]}))
    actions.append(Delete(key, meta["uid"], grace_s=0))
    return actions


def map_change(view: View, change: Change) -> Sequence[Key]:
    return (change.key,) if change.type == DELETED else NO_KEYS


CONTROLLER = Controller(
    "pod-garbage-collector", "Node", ("Node",), map_change, reconcile, delay_us=QUARANTINE_US
)
