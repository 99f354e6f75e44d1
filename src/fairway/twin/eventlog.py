"""What happened, line by line, with a digest that two equal runs share.

A record is a flat tuple. Records are hashed and handed to sinks in batches, so that one costs well under a
microsecond; `digest` covers every record so far, in order.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.msgpack import Encoder

_BATCH: Final = 1024
# A third of the cost of a line of text, and a message with a tab in it is not two fields.
_encode: Final = Encoder().encode


class Record(NamedTuple):
    """One thing that happened. `namespace` is empty for cluster-scoped subjects."""

    time_us: int
    component: str
    kind: str
    namespace: str
    name: str
    reason: str
    message: str


Sink = Callable[[list[Record]], None]


class EventLog:
    """An append-only log that keeps a digest, a count and, on request, its last records."""

    def __init__(self, *, keep: int = 0) -> None:
        self.sinks: list[Sink] = []
        self._count = 0
        self._pending: list[tuple[int, str, str, str, str, str, str]] = []
        self._kept: deque[Record] = deque(maxlen=keep)
        self._hash = hashlib.blake2b(digest_size=16)

    def record(
        self,
        time_us: int,
        component: str,
        kind: str,
        namespace: str,
        name: str,
        reason: str,
        message: str = "",
    ) -> None:
        pending = self._pending
        pending.append((time_us, component, kind, namespace, name, reason, message))
        if len(pending) >= _BATCH:
            self.flush()

    def __len__(self) -> int:
        return self._count + len(self._pending)

    def digest(self) -> str:
        """32 hex digits over every record so far."""
        self.flush()
        return self._hash.hexdigest()

    def records(self) -> list[Record]:
        """The last `keep` records, oldest first."""
        self.flush()
        return list(self._kept)

    def flush(self) -> None:
        """Hash what is pending and hand it to the sinks."""
        batch = self._pending
        if not batch:
            return
        self._pending = []
        self._count += len(batch)
        self._hash.update(b"".join([_encode(record) for record in batch]))
        if not self._kept.maxlen and not self.sinks:
            return
        records = [tuple.__new__(Record, r) for r in batch]
        self._kept.extend(records)
        for sink in self.sinks:
            sink(records)

    def fork(self) -> EventLog:
        """A copy that goes on by itself; sinks stay with the original."""
        self.flush()
        twin = EventLog()
        twin._count = self._count
        twin._kept = self._kept.copy()
        twin._hash = self._hash.copy()
        return twin
