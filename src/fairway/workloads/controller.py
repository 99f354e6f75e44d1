"""What a controller is: a pure decision, and which changes call for it.

`reconcile(view, key, now_us)` answers what to do about one object. `map_change(view, change)` answers which
keys a change concerns; `watches` names the group kinds it wants to hear of, so that whoever dispatches asks
only those. `refused` answers what to do after the API server refused one of the creations `reconcile` asked
for (a quota, an admission policy): without it, a count would claim pods that are not there.

Neither may read a clock, draw chance, log or write. Names of created pods are derived from the owner's UID
and the view's version, so that events can name them and two runs agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fairway.cluster.actions import Emit, Reconciliation, View
from fairway.cluster.changes import ADDED, MODIFIED, Change
from fairway.kube.objects import Key, Obj, meta_of

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

Reconcile = Callable[[View, Key, int], Reconciliation]
MapChange = Callable[[View, Change], Sequence[Key]]
AfterRefusal = Callable[[View, Key, int, str], Reconciliation]

NO_KEYS: Final[tuple[Key, ...]] = ()


@dataclass(frozen=True, slots=True)
class Controller:
    """One controller: `gk` is the kind of the keys it reconciles, `watches` the kinds whose changes it maps.

    `refused(view, key, now_us, message)` is asked once the runner has dropped a refused Create: `message` is
    the API server's sentence. None: nothing beyond trying again later. After a refusal the rest of the
    decision's actions are dropped. With `slow_start`, pods of the same batch (of 1, 2, 4, 8, …) are tried
    first, and it is asked about each one refused. `delay_us`: how long after a change its keys are looked at.
    """

    name: str
    gk: str
    watches: tuple[str, ...]
    map_change: MapChange
    reconcile: Reconcile
    refused: AfterRefusal | None = None
    delay_us: int = 0
    slow_start: bool = False


def is_desire_changed(change: Change) -> bool:
    """Whether a change of an own object is more than a write of its status.

    A controller's own status writes need no second look: each decision already reaches its fixed point.
    """
    if change.type != MODIFIED or change.old is None:
        return change.type == ADDED
    new: Obj = change.obj["metadata"]
    old: Obj = change.old["metadata"]
    return bool(
        new.get("generation") != old.get("generation")
        or new.get("deletionTimestamp") != old.get("deletionTimestamp")
        or new.get("labels") != old.get("labels")
        or new.get("annotations") != old.get("annotations")
        or new.get("finalizers") != old.get("finalizers")
    )


def event(about: Key, reason: str, message: str, component: str, type_: str = NORMAL) -> Emit:
    return Emit(about, type_, reason, message, component)


def owner_key(obj: Obj, kind: str, group: str, gk: str) -> Key | None:
    """The key of the controller this object names, if that is of this kind."""
    meta = meta_of(obj)
    references: list[Obj] = meta.get("ownerReferences") or []
    for ref in references:
        if ref.get("controller"):
            version: str = ref["apiVersion"]
            if ref["kind"] == kind and version.partition("/")[0] == group:
                return Key(gk, meta.get("namespace", ""), ref["name"])
            return None
    return None
