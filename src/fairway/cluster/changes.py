"""What happened, in order: the log that every watcher follows.

A change's version is the store's resource version after it; versions rise by one a change. Old changes may
be compacted away, as etcd does; following from before that is `Expired` and means list again.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from fairway.cluster.errors import expired
from fairway.kube.objects import Key, Obj

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"


class Change(NamedTuple):
    """`old` is None for ADDED; `obj` is the last state for DELETED (with its final version)."""

    version: int
    type: str
    key: Key
    obj: Obj
    old: Obj | None


class Follower(Protocol):
    """A derived index. It sees each change once, in order, and each undone change as its inverse."""

    def apply(self, change: Change) -> None: ...


class ChangeLog:
    """Changes by version, from `first` on."""

    def __init__(self, first: int = 1) -> None:
        self.first = first
        self.next = first
        """The version the next change will carry."""
        self._changes: list[Change] = []

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self.next += 1

    def pop(self) -> Change:
        self.next -= 1
        return self._changes.pop()

    def since(self, version: int) -> list[Change]:
        """Every change after `version`.

        Raises: ApiError (410 Expired) when changes after `version` were compacted away.
        """
        start = version + 1 - self.first
        if start < 0:
            raise expired(self.first - 1)
        return self._changes[start:] if start else list(self._changes)

    def at(self, version: int) -> Change:
        return self._changes[version - self.first]

    def compact(self, before: int) -> None:
        """Forget changes up to and including version `before`."""
        drop = min(max(before + 1 - self.first, 0), len(self._changes))
        if drop:
            del self._changes[:drop]
            self.first += drop

    def __len__(self) -> int:
        return len(self._changes)

    def copy(self) -> ChangeLog:
        twin = ChangeLog(self.first)
        twin.next = self.next
        twin._changes = list(self._changes)
        return twin


def inverse(change: Change) -> Change:
    """What undoes it, for followers."""
    if change.type == ADDED:
        return Change(change.version, DELETED, change.key, change.obj, change.obj)
    if change.old is None:
        raise AssertionError("only an added object has no past")
    if change.type == DELETED:
        return Change(change.version, ADDED, change.key, change.old, None)
    return Change(change.version, MODIFIED, change.key, change.old, change.obj)
