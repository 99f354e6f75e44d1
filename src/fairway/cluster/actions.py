"""What a controller wants done: frozen data, and the one place that does it.

A controller is a pure function from a read-only `View` and the time to a `Reconciliation`: actions in order,
and when to look again. `perform` carries an action out against the store, re-checking it against fresh
state: what no longer applies is dropped, as a real controller's write would be refused and tried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from fairway.cluster.errors import ApiError
from fairway.cluster.store import BACKGROUND, Store
from fairway.kube.objects import Key, Obj


class View(Protocol):
    """What engines may read of a store."""

    @property
    def version(self) -> int: ...
    def get(self, key: Key) -> Obj | None: ...
    def objects(self, gk: str, namespace: str | None = None) -> list[Obj]: ...
    def by_uid(self, uid: str) -> Obj | None: ...
    def dependents(self, uid: str) -> list[Key]: ...


@dataclass(frozen=True, slots=True)
class Create:
    obj: Obj


@dataclass(frozen=True, slots=True)
class Replace:
    """`obj` carries the resourceVersion it was computed from; a newer one in the store drops the action."""

    obj: Obj


@dataclass(frozen=True, slots=True)
class SetStatus:
    key: Key
    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch."""

    key: Key
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    key: Key
    uid: str = ""
    grace_s: int | None = None
    propagation: str = BACKGROUND


@dataclass(frozen=True, slots=True)
class Emit:
    """A core/v1 Event about `about`, from `component`."""

    about: Key
    type: str
    reason: str
    message: str
    component: str


Action = Create | Replace | SetStatus | Patch | Delete | Emit


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What to do now, in order, and when to come back even if nothing changes (None: when something does)."""

    actions: tuple[Action, ...] = ()
    again_at_us: int | None = None


NOTHING_TO_DO: Final = Reconciliation()


def perform(store: Store, action: Action) -> Obj | None:
    """Carry out one action; `Emit` is the caller's (it owns how events are kept). Stale actions are dropped.

    Returns what was stored, or None where the action was dropped or removed something.
    """
    try:
        if isinstance(action, SetStatus):
            return store.set_status(action.key, action.status)
        if isinstance(action, Create):
            return store.create(action.obj)
        if isinstance(action, Delete):
            return store.delete(
                action.key, uid=action.uid, grace_s=action.grace_s, propagation=action.propagation
            )
        if isinstance(action, Patch):
            return store.patch(action.key, action.patch)
        if isinstance(action, Replace):
            return store.replace(action.obj)
    except ApiError as refused:
        if refused.code not in (404, 409):
            raise
    return None
