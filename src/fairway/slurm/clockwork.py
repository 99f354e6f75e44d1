"""What moves a slurmctld in virtual time: timed events with named handlers, oldest first.

Events are (µs, sequence, name, data); two of one microsecond keep the order in which they were set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

SECOND = 1_000_000

Event = tuple[int, int, str, tuple[Any, ...]]


@dataclass(slots=True)
class Clockwork:
    """`now_us` since 1970."""

    now_us: int
    events: list[Event] = field(default_factory=list)
    sequence: int = 0
    singles: dict[str, int] = field(default_factory=dict)
    """Events of which one is enough: name → when it is due."""

    @property
    def now(self) -> int:
        """Whole seconds, as time(NULL)."""
        return self.now_us // SECOND

    def at(self, when_us: int, name: str, *data: Any) -> None:
        self.sequence += 1
        heappush(self.events, (max(when_us, self.now_us), self.sequence, name, data))

    def once(self, when_us: int, name: str) -> None:
        """Unless it is due by then anyway."""
        due = self.singles.get(name)
        if due is None or due > when_us:
            self.singles[name] = max(when_us, self.now_us)
            self.at(when_us, name)

    def next_us(self) -> int | None:
        return self.events[0][0] if self.events else None

    def pop(self, to_us: int) -> Event | None:
        """The next event until `to_us`, inclusive; a single that was brought forward is dropped where it was."""
        while self.events and self.events[0][0] <= to_us:
            event = heappop(self.events)
            if event[2] in self.singles:
                if self.singles[event[2]] != event[0]:
                    continue
                del self.singles[event[2]]
            self.now_us = event[0]
            return event
        self.now_us = max(self.now_us, to_us)
        return None
