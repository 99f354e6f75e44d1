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
    def orphans(self, gk: str, namespace: str) -> list[Obj]: ...


# Not frozen, with constructors of their own: compiled, those that a frozen dataclass generates cost 1 µs each, and
# each look at an object makes a few. Nobody changes an action.


@dataclass(init=False, slots=True)
class Create:
    obj: Obj

    def __init__(self, obj: Obj) -> None:
        self.obj = obj


@dataclass(init=False, slots=True)
class Replace:
    """`obj` carries the resourceVersion it was computed from; a newer one in the store drops the action."""

    obj: Obj

    def __init__(self, obj: Obj) -> None:
        self.obj = obj


@dataclass(init=False, slots=True)
class SetStatus:
    key: Key
    status: dict[str, Any]

    def __init__(self, key: Key, status: dict[str, Any]) -> None:
        self.key = key
        self.status = status


@dataclass(init=False, slots=True)
class Patch:
    """A merge patch."""

    key: Key
    patch: dict[str, Any]

    def __init__(self, key: Key, patch: dict[str, Any]) -> None:
        self.key = key
        self.patch = patch


@dataclass(init=False, slots=True)
class Delete:
    key: Key
    uid: str
    grace_s: int | None
    propagation: str

    def __init__(
        self, key: Key, uid: str = "", grace_s: int | None = None, propagation: str = BACKGROUND
    ) -> None:
        self.key = key
        self.uid = uid
        self.grace_s = grace_s
        self.propagation = propagation


@dataclass(init=False, slots=True)
class Emit:
    """A core/v1 Event about `about`, from `component`."""

    about: Key
    type: str
    reason: str
    message: str
    component: str

    def __init__(self, about: Key, type: str, reason: str, message: str, component: str) -> None:  # noqa: A002 (as its field)
        self.about = about
        self.type = type
        self.reason = reason
        self.message = message
        self.component = component


Action = Create | Replace | SetStatus | Patch | Delete | Emit


@dataclass(init=False, slots=True)
class Reconciliation:
    """What to do now, in order, and when to come back even if nothing changes (None: when something does)."""

    actions: tuple[Action, ...]
    again_at_us: int | None

    def __init__(self, actions: tuple[Action, ...] = (), again_at_us: int | None = None) -> None:
        self.actions = actions
        self.again_at_us = again_at_us


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
