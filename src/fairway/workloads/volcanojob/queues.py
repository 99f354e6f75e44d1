"""A Queue is open from the moment its controller sees it; one that is closing closes with its last PodGroup.

Source: volcano-sh/volcano pkg/controllers/queue/state/*.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.cluster.actions import NOTHING_TO_DO, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key
from fairway.workloads.controller import NO_KEYS, Controller
from fairway.workloads.volcanojob.gang import POD_GROUP

QUEUE = "Queue.scheduling.volcano.sh"
OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    queue = view.get(key)
    if queue is None:
        return NOTHING_TO_DO
    status = queue.get("status") or {}
    state = status.get("state") or OPEN
    if state == CLOSING and not any(
        ((g.get("spec") or {}).get("queue") or "default") == key.name for g in view.objects(POD_GROUP)
    ):
        state = CLOSED
    if state == status.get("state"):
        return NOTHING_TO_DO
    return Reconciliation((SetStatus(key, {**status, "state": state}),))


def changed_keys(view: View, change: Change) -> Sequence[Key]:
    if change.key.gk == QUEUE:
        return NO_KEYS if change.type == DELETED else (change.key,)
    if change.type != DELETED:
        return NO_KEYS
    return (Key(QUEUE, "", (change.obj.get("spec") or {}).get("queue") or "default"),)


CONTROLLER = Controller("vc-queue-controller", QUEUE, (QUEUE, POD_GROUP), changed_keys, reconcile)
