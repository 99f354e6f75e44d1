"""How much of the past does the server remember? By bytes, since one object may be as large as a thousand others.

The store's log holds every change that a watch may go back to, with the object before and after it; memos hold
objects that something was worked out from. Both are bounded in number by whoever keeps them, which says nothing:
2,500 updates of a ConfigMap of a megabyte were 5 GB. Here they are bounded by the bytes of JSON that went in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from fairway.apiserver.bodies import Bodies
from fairway.apiserver.statuses import too_many_requests
from fairway.cluster.changes import DELETED
from fairway.cluster.store import Store
from fairway.kube import memos
from fairway.kube.objects import Key

# JSON of the changes that are kept: 25,000 of pods, 40 of the largest objects there may be. As Python's objects a
# change takes up to five times that where it shares nothing with the one before.
LOG_BYTES = 64 * 1024 * 1024
# What waits for components whose time stands is kept, too, up to this: more is refused.
MOST_LOG_BYTES = 8 * LOG_BYTES
# What came in, in JSON, before memos are emptied: as often as once a minute under load, which costs nothing.
MEMO_BYTES = 64 * 1024 * 1024
# Bytes a change costs beside its object.
_AROUND = 256


class Memory:
    """`needed()` is the first version that somebody has yet to be told of: what follows it is kept in any case."""

    def __init__(self, store: Store, bodies: Bodies, needed: Callable[[], int]) -> None:
        self._store = store
        self._bodies = bodies
        self._needed = needed
        self._sizes: deque[tuple[int, int]] = deque()
        self._counted = store.version
        self.kept_bytes = 0
        self._came_in = 0

    def written(self, durable: int, sizes: dict[Key, int]) -> None:
        """Everything up to `durable` is on disk; of most objects that changed, the bytes of their latest JSON."""
        log = self._store.log
        for version in range(max(self._counted + 1, log.first), durable + 1):
            change = log.at(version)
            size = sizes.get(change.key, 0)
            if not size and change.type != DELETED:
                size = len(self._bodies.of(change.obj))
            self._sizes.append((version, size + _AROUND))
            self.kept_bytes += size + _AROUND
            self.came_in(size)
        self._counted = max(self._counted, durable)
        self._trim()

    def make_room(self, size: int) -> None:
        """A request of so many bytes wants to write.

        Raises: StatusError (429), where the cluster's time stands and the changes it has yet to see are too many.
        """
        if self.kept_bytes > MOST_LOG_BYTES:
            self._trim()
        if self.kept_bytes > MOST_LOG_BYTES:
            mib = self.kept_bytes // 2**20
            said = f"{mib} MiB of changes wait for the cluster's time to go on: fairway clock resume"
            raise too_many_requests(said, 1, [])
        self.came_in(size)

    def came_in(self, size: int) -> None:
        """So many bytes were read, and perhaps remembered."""
        self._came_in += size
        if self._came_in > MEMO_BYTES:
            self._came_in = 0
            memos.forget()
            self._store.accounts.shapes.forget()

    def _trim(self) -> None:
        sizes, log = self._sizes, self._store.log
        while sizes and sizes[0][0] < log.first:
            self.kept_bytes -= sizes.popleft()[1]
        if self.kept_bytes <= LOG_BYTES:
            return
        needed = self._needed()
        last = 0
        while sizes and self.kept_bytes > LOG_BYTES and sizes[0][0] < needed:
            last, size = sizes.popleft()
            self.kept_bytes -= size
        if last:
            log.compact(last)
