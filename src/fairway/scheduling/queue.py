"""Who is scheduled next, and what brings a refused pod back?

kube-scheduler keeps every pending pod in one of three places: active (to be tried, by priority and age),
backing off, or unschedulable until an event that its refusing plugins asked for. This queue keeps *lines*
instead: pods that any filter must judge alike (same shape, and same labels where labels matter) stand in one
line, and only its head is tried. When the head is refused, so would be the rest: the whole line parks, at the
cost of one cycle instead of one per pod. The order among pods that could be scheduled is the same.

Unlike kube: pods behind the head of a parked line keep the message of their own first attempt, their backoff
counters do not rise one by one, and a retry is skipped where the event cannot have helped.

Source: pkg/scheduler/backend/queue (v1.36): PrioritySort, backoff of 1 s doubling to 10 s, popping from the
backoff queue when nothing is active (SchedulerPopFromBackoffQ).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from fairway.cluster.records import PodRecord
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US

# KubeSchedulerConfiguration podInitialBackoffSeconds, podMaxBackoffSeconds.
INITIAL_BACKOFF_US: Final = 1 * SECOND_US
MAX_BACKOFF_US: Final = 10 * SECOND_US

ACTIVE: Final = "active"
BACKING_OFF: Final = "backing-off"
PARKED: Final = "parked"

LineKey = tuple[int, int, Key | None]


class QueuedPod:
    """One pending pod. `age` orders pods of equal priority: (time queued, sequence)."""

    __slots__ = ("attempts", "is_told", "queued_us", "record", "sequence")

    def __init__(
        self, record: PodRecord, queued_us: int, sequence: int, attempts: int = 0, *, is_told: bool = False
    ) -> None:
        self.record = record
        self.queued_us = queued_us
        self.sequence = sequence
        self.attempts = attempts
        self.is_told = is_told

    @property
    def key(self) -> Key:
        return self.record.key


class Line:
    """Pods judged alike, oldest first. `plugins` refused the last head; `refused_us` is when."""

    __slots__ = (
        "backoff_until_us",
        "heap",
        "key",
        "plugins",
        "priority",
        "refusals",
        "refused_us",
        "state",
        "ticket",
    )

    def __init__(self, key: LineKey, priority: int) -> None:
        self.key = key
        self.priority = priority
        self.heap: list[tuple[int, int, QueuedPod]] = []
        self.state = ACTIVE
        self.plugins: tuple[str, ...] = ()
        self.refusals = 0
        self.refused_us = 0
        self.backoff_until_us = 0
        self.ticket = 0

    def copy(self) -> Line:
        twin = Line(self.key, self.priority)
        twin.heap = [
            (t, s, QueuedPod(q.record.copy(), q.queued_us, q.sequence, q.attempts, is_told=q.is_told))
            for t, s, q in self.heap
        ]
        twin.state, twin.plugins, twin.refusals = self.state, self.plugins, self.refusals
        twin.refused_us, twin.backoff_until_us, twin.ticket = (
            self.refused_us,
            self.backoff_until_us,
            self.ticket,
        )
        return twin


class SchedulingQueue:
    """Pending pods of one scheduler. Time is always handed in."""

    def __init__(
        self, initial_backoff_us: int = INITIAL_BACKOFF_US, max_backoff_us: int = MAX_BACKOFF_US
    ) -> None:
        self.initial_backoff_us = initial_backoff_us
        self.max_backoff_us = max_backoff_us
        self._pods: dict[Key, tuple[QueuedPod, LineKey]] = {}
        self._lines: dict[LineKey, Line] = {}
        self._ready: list[tuple[int, int, int, int, LineKey]] = []
        self._backing: list[tuple[int, int, int, int, int, LineKey]] = []
        self._parked: dict[LineKey, None] = {}
        self._errors: list[tuple[int, int, LineKey]] = []
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: Key) -> bool:
        return key in self._pods

    def pods(self) -> list[QueuedPod]:
        """Every pending pod, in the order in which they would be tried."""
        return sorted(
            (q for q, _ in self._pods.values()),
            key=lambda q: (-q.record.shape.priority, q.queued_us, q.sequence),
        )

    def add(self, record: PodRecord, line: LineKey, now_us: int) -> None:
        """A pod to be tried as soon as its turn comes. A pod already queued is replaced."""
        self.remove(record.key)
        self._enqueue(QueuedPod(record, now_us, self._next()), line)

    def _enqueue(self, pod: QueuedPod, key: LineKey) -> None:
        self._pods[pod.key] = (pod, key)
        line = self._lines.get(key)
        was_head = None
        if line is None:
            line = self._lines[key] = Line(key, pod.record.shape.priority)
        else:
            was_head = line.heap[0]
        heappush(line.heap, (pod.queued_us, pod.sequence, pod))
        if line.state == ACTIVE and line.heap[0] is not was_head:
            self._activate(line)

    def untold(self, key: LineKey) -> Iterator[QueuedPod]:
        """Pods of a line that were never told why they wait (their first attempt is still due)."""
        line = self._lines.get(key)
        if line is not None:
            for _, _, pod in line.heap:
                if not pod.is_told and self._is_here(pod, key):
                    yield pod

    def pod(self, key: Key) -> QueuedPod | None:
        found = self._pods.get(key)
        return None if found is None else found[0]

    def line_of(self, key: Key) -> Line | None:
        found = self._pods.get(key)
        return None if found is None else self._lines.get(found[1])

    def remove(self, key: Key) -> None:
        """Forget a pod (bound, deleted, gated again)."""
        found = self._pods.pop(key, None)
        if found is None:
            return
        line = self._lines[found[1]]
        head_left = line.heap[0][2] is found[0]
        self._trim(line)
        if not line.heap:
            del self._lines[line.key]
            self._parked.pop(line.key, None)
        elif head_left and line.state == ACTIVE:
            self._activate(line)

    def _is_here(self, pod: QueuedPod, key: LineKey) -> bool:
        found = self._pods.get(pod.key)
        return found is not None and found[0] is pod and found[1] == key

    def _trim(self, line: Line) -> None:
        """Drop pods that left from the front."""
        while line.heap and not self._is_here(line.heap[0][2], line.key):
            heappop(line.heap)

    # Taking turns

    def head(self, now_us: int) -> QueuedPod | None:
        """The pod to try now; it stays queued until `remove`, `park` or `keep` says what came of it."""
        self._promote(now_us)
        while self._ready:
            line = self._lines.get(self._ready[0][-1])
            if line is not None and line.ticket == self._ready[0][-2]:
                return line.heap[0][2]
            heappop(self._ready)
        while self._backing:
            line = self._lines.get(self._backing[0][-1])
            if line is not None and line.ticket == self._backing[0][-2]:
                return line.heap[0][2]
            heappop(self._backing)
        return None

    def _promote(self, now_us: int) -> None:
        """Lines whose backoff is over become active."""
        while self._errors and self._errors[0][0] <= now_us:
            _, ticket, key = heappop(self._errors)
            line = self._lines.get(key)
            if line is not None and line.ticket == ticket:
                self._activate(line)
        while self._backing and self._backing[0][0] <= now_us:
            entry = heappop(self._backing)
            line = self._lines.get(entry[-1])
            if line is not None and line.ticket == entry[-2]:
                self._activate(line)

    def retry_at_us(self) -> int | None:
        """When a line that waits for time alone is to be tried again."""
        return self._errors[0][0] if self._errors else None

    def has_work(self, now_us: int) -> bool:
        return self.head(now_us) is not None

    def _next(self) -> int:
        """A number that nobody had before: of who comes, and of what happens to a line."""
        self._tickets += 1
        return self._tickets

    def _activate(self, line: Line) -> None:
        line.state, line.ticket = ACTIVE, self._next()
        self._parked.pop(line.key, None)
        queued_us, sequence, _ = line.heap[0]
        age = max(queued_us, line.refused_us)
        heappush(self._ready, (-line.priority, age, sequence, line.ticket, line.key))

    def park(self, pod: QueuedPod, plugins: tuple[str, ...], now_us: int) -> None:
        """The head was refused: its line waits for an event that one of these plugins cares about."""
        line = self._lines[self._pods[pod.key][1]]
        pod.attempts += 1
        line.state, line.plugins = PARKED, plugins
        self._parked[line.key] = None
        line.refusals += 1
        line.refused_us = now_us
        line.backoff_until_us = now_us + self.backoff_us(line.refusals)
        line.ticket = self._next()
        if not plugins:
            # Nobody to ask what would help (no nodes, an error): try again after the backoff, not before.
            heappush(self._errors, (line.backoff_until_us, line.ticket, line.key))

    def set_apart(self, pod: QueuedPod, now_us: int, plugins: tuple[str, ...]) -> None:
        """The head preempted: it leaves its line for one of its own, where it waits for its victims to go."""
        record, attempts = pod.record, pod.attempts
        self.remove(pod.key)
        own: LineKey = (record.shape.id, -1, record.key)
        alone = QueuedPod(record, now_us, self._next(), attempts, is_told=True)
        self._enqueue(alone, own)
        self.park(alone, plugins, now_us)

    def backoff_us(self, refusals: int) -> int:
        """1 s, 2 s, 4 s, 8 s, 10 s, 10 s, …"""
        if refusals < 1:
            return 0
        return min(self.initial_backoff_us << min(refusals - 1, 32), self.max_backoff_us)

    @property
    def ticket(self) -> int:
        """Grows with everything that happens here: lines parked after this moment have a greater one."""
        return self._tickets

    @property
    def has_parked(self) -> bool:
        """Whether anybody waits for an event."""
        return bool(self._parked)

    def parked(self) -> list[Line]:
        """Lines waiting for an event, oldest refusal first."""
        lines = [self._lines[key] for key in self._parked]
        if len(lines) > 1:
            lines.sort(key=lambda line: (line.refused_us, line.heap[0][1]))
        return lines

    def counts(self) -> dict[str, int]:
        """Pods by what they wait for: their turn, the end of a back-off, an event."""
        found = dict.fromkeys((ACTIVE, BACKING_OFF, PARKED), 0)
        for _, key in self._pods.values():
            # Not by the lengths of lines: who left one from its middle is taken out when its turn comes.
            found[self._lines[key].state] += 1
        return found

    def record_of(self, line: Line) -> PodRecord:
        """The head's record."""
        return line.heap[0][2].record

    def unpark(self, key: LineKey, now_us: int) -> None:
        """An event may have helped: active again, or first to the end of its backoff."""
        line = self._lines.get(key)
        if line is None or line.state != PARKED:
            return
        if line.backoff_until_us <= now_us:
            self._activate(line)
            return
        line.state, line.ticket = BACKING_OFF, self._next()
        self._parked.pop(line.key, None)
        queued_us, sequence, _ = line.heap[0]
        age = max(queued_us, line.refused_us)
        entry = (line.backoff_until_us, -line.priority, age, sequence, line.ticket, line.key)
        heappush(self._backing, entry)

    def retry(self, key: LineKey) -> None:
        """Try a parked line again at once, its backoff aside: a pod that joined it has not been tried yet."""
        line = self._lines.get(key)
        if line is not None and line.state == PARKED:
            self._activate(line)

    def unpark_all(self, now_us: int) -> None:
        for line in self.parked():
            self.unpark(line.key, now_us)

    def admitted(self, pod: QueuedPod) -> None:
        """The head got its node: the next in line is tried without waiting, its refusals forgotten."""
        line = self._lines[self._pods[pod.key][1]]
        line.refusals = 0
        self.remove(pod.key)

    def fork(self) -> SchedulingQueue:
        twin = SchedulingQueue(self.initial_backoff_us, self.max_backoff_us)
        twin._lines = {key: line.copy() for key, line in self._lines.items()}
        copies = {
            id(old[2]): new[2]
            for k, line in self._lines.items()
            for old, new in zip(line.heap, twin._lines[k].heap, strict=True)
        }
        twin._pods = {key: (copies[id(pod)], line) for key, (pod, line) in self._pods.items()}
        twin._ready, twin._backing = list(self._ready), list(self._backing)
        twin._errors = list(self._errors)
        twin._parked = dict(self._parked)
        twin._tickets = self._tickets
        return twin
