"""Which changes of pods concern a scheduler, and how long may be what it says of one?"""

from __future__ import annotations

from typing import Final

from fairway.cluster.accounts import TERMINAL
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Obj, meta_of, status_of
from fairway.kube.podresizing import is_carried_out

NOTE_LENGTH: Final = 1024


def shortened(message: str) -> str:
    """As long as an event's note may be. Source: schedule_one.go truncateMessage."""
    return message if len(message) <= NOTE_LENGTH else message[: NOTE_LENGTH - 4] + " ..."


def is_to_schedule(pod: Obj) -> bool:
    if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("schedulingGates"):
        return False
    return bool(status_of(pod).get("phase", "Pending") == "Pending")


def changes_nothing_here(change: Change) -> bool:
    """A pod that is bound and stays what it was to its node: a report of its kubelet, most of the time."""
    old, pod = change.old, change.obj
    if old is None or change.type == DELETED or old["spec"] is not pod["spec"]:
        return False
    if not pod["spec"].get("nodeName") or status_of(pod).get("phase") in TERMINAL:
        return False
    if is_carried_out(old, pod):
        return False
    meta: Obj = pod["metadata"]
    before: Obj = old["metadata"]
    return meta.get("labels") is before.get("labels") and ("deletionTimestamp" in meta) == (
        "deletionTimestamp" in before
    )


def asks_the_same(old: Obj, new: Obj) -> bool:
    """Only its status changed: a queued pod keeps its place."""
    if old["spec"] is not new["spec"] and old["spec"] != new["spec"]:
        return False
    return bool(meta_of(old).get("labels") == meta_of(new).get("labels"))
