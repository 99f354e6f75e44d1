"""What happens in a small twin, moment by moment: every write, everything noted, and what was said in the end."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import ClassVar

from tests.histories import digests, told

from fairway.twin.eventlog import Record
from fairway.twin.twin import EPOCH_US, Twin

STORIES = Path(__file__).parent / "stories"


def lets_go_of_timers(twin: Twin) -> None:
    """No timer is called off that is not queued: whoever holds a ticket lets it go in time."""
    loop = twin.loop
    waiting = [e for s in loop._slots.values() for e in (s[s[0] :] if isinstance(s, list) else [s])]
    assert loop._cancelled <= {ticket for ticket, _, _ in waiting}, "what has happened is called off"


class Watched:
    """A twin, and how far it has been told. Times are seconds since the start.

    `whole`: of these kinds, and of what these components note, every line is told; of others a digest a moment.
    """

    goes_on_in_copies = False
    """Whether each moment is lived by a copy of the twin of the moment before: nobody should see a difference."""
    seen_by: ClassVar[list[Callable[[Twin], object]]] = []
    """Who looks at the twin after each moment."""

    def __init__(self, twin: Twin, whole: Container[str] | None = None) -> None:
        self.twin = twin
        self._whole = whole
        self._seen = twin.store.version
        self._noted: list[Record] = []
        twin.host.log.sinks.append(self._noted.extend)

    def until(self, at_s: float) -> Iterator[str]:
        """A heading for each moment at which something was written or noted, and that."""
        until_us = EPOCH_US + round(at_s * 1_000_000)
        yield from self._news()
        while (at_us := self.twin.loop.next_time()) is not None and at_us <= until_us:
            self.twin.run(at_us)
            yield from self._news()
            for look in self.seen_by:
                look(self.twin)
            if self.goes_on_in_copies:
                self.twin = self.twin.fork()
                self.twin.host.log.sinks.append(self._noted.extend)
        self.twin.run(until_us)

    def said(self) -> Iterator[str]:
        """Each event, as often as it came."""
        for one in self.twin.host.events.told():
            when = f"{one.times} times, {_s(one.first_us)} to {_s(one.last_us)}"
            yield f"{one.component} of {one.about.gk} {one.about.name}: {one.type} {one.reason}, {when}: {one.message}"

    def _news(self) -> Iterator[str]:
        self.twin.host.log.flush()
        changes = self.twin.store.log.since(self._seen)
        pairs = [(change.key.gk, line) for change in changes for line in told(change, is_brief=True)]
        pairs += [(one.component, f"noted {' '.join(map(str, one[1:]))}") for one in self._noted]
        whole = self._whole
        lines = [line for teller, line in pairs if whole is None or teller in whole]
        lines += digests([pair for pair in pairs if whole is not None and pair[0] not in whole])
        self._seen = self.twin.store.version
        self._noted.clear()
        if lines:
            yield f"== {_s(self.twin.now_us)}"
            yield from lines


def _s(at_us: int) -> str:
    return f"{(at_us - EPOCH_US) / 1_000_000:.15g} s"
