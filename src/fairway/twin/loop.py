"""What happens next? Virtual time in integer microseconds and one ordered queue of events.

An event is plain data: when, which registered handler, and an immutable argument. Nothing that waits is a
closure or a suspended generator, so a loop can be copied mid-run by copying its list, and the copy goes on
exactly as the original does. Events run in the order of `(time_us, priority, sequence)`.

This module knows no Kubernetes; `components` says who lives on the loop, `twin` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Final

from fairway.errors import BugError

Handler = Callable[[Any], None]
OnFailure = Callable[[int, Any, Exception], None]
"""Told of a handler's index, its data, and what it raised."""
Event = tuple[int, int, Any]
"""`(ticket, handler index, data)`; its time and priority are the slot it waits in."""
# Events of one time and priority wait in one slot: alone as they are, or several as a list whose first item
# is the index of the next one. The heap then compares plain integers, and a burst is one heap entry.
_Slot = Event | list[Any]

# What comes first among events of the same microsecond. With zero latency everything happens at one
# time, and this order is the order of a day: what users and faults do, what happens on nodes, what watchers
# see of all that (in one delivery), what controllers do about it, and the scheduler last, when the room is
# known.
INPUT: Final = 0
NODES: Final = 10
WATCH: Final = 20
CONTROLLERS: Final = 30
SCHEDULER: Final = 40
HOUSEKEEPING: Final = 50

# Where a time would be: nothing is planned, or has not been.
NO_TIME: Final = -1

# A slot's key is `time × 64 + priority`: priorities are 0 to 63. Times are too large for compiled code to multiply
# without objects; it shifts them as they are.
_PRIORITY_BITS: Final = 6

# Events handled by one `run_until` or `run_until_idle` before it says that nothing converges. 10^9 events
# are a day of computing; a loop that gets there at one virtual time is stuck far earlier (see below).
DEFAULT_LIMIT: Final = 1_000_000_000
# Events at one and the same microsecond. A million pods starting at once need a few million.
STUCK_LIMIT: Final = 50_000_000
# Cancelled timers stay queued until they are due or until they are this many and half of the queue.
_SWEEP_AT: Final = 1024


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
        "_slots",
        "_tickets",
        "_waiting",
        "after_event",
        "handled",
        "now_us",
        "on_failure",
        "on_time",
        "stopping",
    )

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us
        self.handled = 0
        self.stopping = False
        self.after_event: Callable[[], None] = _nothing
        self.on_time: Callable[[int], None] = _no_clock
        self.on_failure: OnFailure | None = None
        """Who contains what handlers raise; None: it is raised."""
        self._heap: list[int] = []
        self._slots: dict[int, _Slot] = {}
        self._tickets = 0
        self._waiting = 0
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
        self._tickets = ticket = self._tickets + 1
        if time_us < self.now_us:
            time_us = self.now_us
        key = (time_us << _PRIORITY_BITS) + priority
        self._waiting += 1
        slots = self._slots
        slot = slots.get(key)
        if slot is None:
            slots[key] = (ticket, handler, data)
            heappush(self._heap, key)
        elif type(slot) is list:
            slot.append((ticket, handler, data))
        else:
            slots[key] = [1, slot, (ticket, handler, data)]
        return ticket

    def cancel(self, ticket: int) -> None:
        """Drop a queued event. O(1) amortised. Cancelling what already happened does nothing."""
        cancelled = self._cancelled
        cancelled.add(ticket)
        if len(cancelled) > _SWEEP_AT and 2 * len(cancelled) > self._waiting:
            self._sweep()

    def _sweep(self) -> None:
        """Take cancelled events out of the queue. O(queued)."""
        cancelled = self._cancelled
        for key, slot in list(self._slots.items()):
            waiting = slot[slot[0] :] if type(slot) is list else [slot]
            kept = [e for e in waiting if e[0] not in cancelled]
            if not kept:
                del self._slots[key]
            elif len(kept) < len(waiting):
                self._slots[key] = [1, *kept]
        self._heap[:] = self._slots
        heapify(self._heap)
        cancelled.clear()
        self._waiting = sum(len(s) - s[0] if type(s) is list else 1 for s in self._slots.values())

    def next_time(self) -> int | None:
        """When the next event is due, or None when nothing is queued."""
        if self._cancelled:
            self._sweep()
        return self._heap[0] >> _PRIORITY_BITS if self._heap else None

    def next_slot(self) -> int | None:
        """As `next_time`, O(1): what is due then may have been cancelled."""
        return self._heap[0] >> _PRIORITY_BITS if self._heap else None

    @property
    def queued(self) -> int:
        """Events queued, including cancelled ones not yet swept."""
        return self._waiting

    def call(self, handler: int, data: Any) -> None:
        """Handle what an event with these data would, now."""
        self._handlers[handler](data)

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
        heap, slots, cancelled = self._heap, self._slots, self._cancelled
        handlers = self._handlers
        after_event = self.after_event
        horizon = ((until_us + 1) << _PRIORITY_BITS) - 1
        done = 0
        while done < limit and heap and not self.stopping:
            key = heap[0]
            if key > horizon:
                break
            slot = slots[key]
            if type(slot) is list:
                i = slot[0]
                ticket, handler, data = slot[i]
                if i + 1 < len(slot):
                    slot[i] = None
                    slot[0] = i + 1
                else:
                    heappop(heap)
                    del slots[key]
            else:
                ticket, handler, data = slot
                heappop(heap)
                del slots[key]
            self._waiting -= 1
            if cancelled and ticket in cancelled:
                cancelled.discard(ticket)
                continue
            time_us = key >> _PRIORITY_BITS
            if time_us != self.now_us:
                if time_us < self.now_us:
                    raise BugError(f"the clock would go back from {self.now_us} to {time_us}")
                self.now_us = time_us
                self.on_time(time_us)
            try:
                handlers[handler](data)
            except Exception as failed:
                if self.on_failure is None:
                    raise
                self.on_failure(handler, data, failed)
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
        following = self.next_slot()
        if following is not None and following < time_us:
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
        twin._slots = {key: list(s) if type(s) is list else s for key, s in self._slots.items()}
        twin._tickets = self._tickets
        twin._waiting = self._waiting
        twin._cancelled = set(self._cancelled)
        return twin

    def handler_names(self) -> tuple[str, ...]:
        return tuple(self._names)


_FOREVER_US: Final = 2**62
