"""What happens next? Virtual time in integer microseconds and one ordered queue of events.

An event is plain data: when, which registered handler, and an immutable argument. Nothing that waits is a
closure or a suspended generator, so a loop can be copied mid-run by copying its list, and the copy goes on
exactly as the original does. Events run in the order of `(time_us, priority, sequence)`.

This module knows no Kubernetes; `components` says who lives on the loop, `twin` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from fairway.errors import BugError

Handler = Callable[[Any], None]
Event = tuple[int, int, int, int, Any]
"""`(time_us, priority, sequence, handler index, data)`."""

# What comes first among events of the same microsecond. With zero latency everything happens at one
# time, and this order is the order of a day: what users and faults do, what happens on nodes, what watchers
# see of all that (in one delivery), what controllers do about it, and the scheduler last, when the room is
# known.
INPUT = 0
NODES = 10
WATCH = 20
CONTROLLERS = 30
SCHEDULER = 40
HOUSEKEEPING = 50

# Events handled by one `run_until` or `run_until_idle` before it says that nothing converges. 10^9 events
# are a day of computing; a loop that gets there at one virtual time is stuck far earlier (see below).
DEFAULT_LIMIT = 1_000_000_000
# Events at one and the same microsecond. A million pods starting at once need a few million.
STUCK_LIMIT = 50_000_000
# Cancelled timers stay queued until they are due or until they are this many and half of the queue.
_SWEEP_AT = 1024


class LoopLimit(BugError):
    """The loop did not come to an end within its limit."""


def _nothing() -> None:
    return None


def _no_clock(_now_us: int) -> None:
    return None


class Loop:
    """The clock and the queue. Owns neither handlers' state nor what their data mean.

    `after_event` is called after every event, `on_time` whenever the clock moves, before the event.
    """

    __slots__ = (
        "_cancelled",
        "_handlers",
        "_heap",
        "_names",
        "_sequence",
        "after_event",
        "handled",
        "now_us",
        "on_time",
        "stopping",
    )

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us
        self.handled = 0
        self.stopping = False
        self.after_event: Callable[[], None] = _nothing
        self.on_time: Callable[[int], None] = _no_clock
        self._heap: list[Event] = []
        self._sequence = 0
        self._cancelled: set[int] = set()
        self._handlers: list[Handler] = []
        self._names: list[str] = []

    def register(self, name: str, handler: Handler) -> int:
        """The index events name this handler by. A fork must register the same names in the same order."""
        if name in self._names:
            raise BugError(f"handler {name!r} is registered twice")
        self._names.append(name)
        self._handlers.append(handler)
        return len(self._handlers) - 1

    def at(self, time_us: int, handler: int, data: Any = None, priority: int = NODES) -> int:
        """Queue an event; returns its ticket for `cancel`. `data` must be immutable: forks share it.

        A time in the past means now: a component that was late acts at once.
        """
        self._sequence = sequence = self._sequence + 1
        if time_us < self.now_us:
            time_us = self.now_us
        heappush(self._heap, (time_us, priority, sequence, handler, data))
        return sequence

    def cancel(self, ticket: int) -> None:
        """Drop a queued event. O(1) amortised. Cancelling what already happened does nothing."""
        cancelled = self._cancelled
        cancelled.add(ticket)
        if len(cancelled) > _SWEEP_AT and 2 * len(cancelled) > len(self._heap):
            self._heap = [e for e in self._heap if e[2] not in cancelled]
            heapify(self._heap)
            self._cancelled = set()

    def next_time(self) -> int | None:
        """When the next event is due, or None when nothing is queued."""
        heap = self._heap
        while heap and heap[0][2] in self._cancelled:
            self._cancelled.discard(heappop(heap)[2])
        return heap[0][0] if heap else None

    @property
    def queued(self) -> int:
        """Events queued, including cancelled ones not yet swept."""
        return len(self._heap)

    def name_of(self, handler: int) -> str:
        return self._names[handler]

    def step(self) -> bool:
        """Handle one event; False when none is queued."""
        time_us = self.next_time()
        if time_us is None:
            return False
        return self.run_some(time_us, 1) == 1

    def run_some(self, until_us: int, limit: int) -> int:
        """Handle at most `limit` events due by `until_us`, fewer when `stopping`; returns how many.

        The clock stands at the last event handled.
        """
        # `_heap` and `_cancelled` are read anew on every turn: a sweep inside a handler replaces them.
        handlers = self._handlers
        after_event = self.after_event
        done = 0
        while done < limit and not self.stopping:
            heap = self._heap
            if not heap or heap[0][0] > until_us:
                break
            time_us, _priority, sequence, handler, data = heappop(heap)
            if self._cancelled and sequence in self._cancelled:
                self._cancelled.discard(sequence)
                continue
            if time_us != self.now_us:
                if time_us < self.now_us:
                    raise BugError(f"the clock would go back from {self.now_us} to {time_us}")
                self.now_us = time_us
                self.on_time(time_us)
            handlers[handler](data)
            after_event()
            done += 1
        self.handled += done
        return done

    def run_until(self, until_us: int, limit: int = DEFAULT_LIMIT) -> int:
        """Handle every event due by `until_us`, then set the clock to it; returns how many events.

        Raises: LoopLimit.
        """
        done = self.run_some(until_us, limit)
        if done == limit and (following := self.next_time()) is not None and following <= until_us:
            raise LoopLimit(
                f"{done} events did not reach {until_us} µs; the clock stands at {self.now_us} µs"
            )
        if not self.stopping:
            self.advance(until_us)
        return done

    def run_until_idle(self, limit: int = DEFAULT_LIMIT) -> int:
        """Handle events until none is queued; returns how many.

        Raises: LoopLimit.
        """
        done = self.run_some(_FOREVER_US, limit)
        if done == limit and self.next_time() is not None:
            raise LoopLimit(f"{done} events handled and {self.queued} still queued at {self.now_us} µs")
        return done

    def advance(self, time_us: int) -> None:
        """Let time pass without events; nothing may be due before `time_us`."""
        following = self.next_time()
        if following is not None and following < time_us:
            raise BugError(f"an event is due at {following} µs, before {time_us} µs")
        if time_us > self.now_us:
            self.now_us = time_us
            self.on_time(time_us)

    def fork(self) -> Loop:
        """An independent copy of clock and queue, O(queued); handlers and hooks must be registered anew."""
        twin = Loop(self.now_us)
        twin.handled = self.handled
        twin._heap = list(self._heap)
        twin._sequence = self._sequence
        twin._cancelled = set(self._cancelled)
        return twin

    def handler_names(self) -> tuple[str, ...]:
        return tuple(self._names)


_FOREVER_US = 2**62
