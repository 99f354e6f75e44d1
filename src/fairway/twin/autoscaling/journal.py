"""What autoscalers did: every change of a target's replicas, and why."""

from __future__ import annotations

from typing import Final, NamedTuple

# Changes kept; 10,000 targets that change ten times a day are a tenth of it.
KEPT: Final = 1_000_000


class Scaling(NamedTuple):
    """One change that an autoscaler made. `by`: `HorizontalPodAutoscaler/ns/name`, empty for somebody
    else; `target` likewise."""

    at_us: int
    by: str
    target: str
    before: int
    after: int
    ready: int
    metric: str
    why: str


class Journal:
    """In the order in which it happened."""

    def __init__(self) -> None:
        self.scalings: list[Scaling] = []
        self._last: dict[str, Scaling] = {}

    def note(self, scaling: Scaling) -> None:
        if len(self.scalings) < KEPT:
            self.scalings.append(scaling)
        self._last[scaling.target] = scaling

    def last_of(self, target: str) -> Scaling | None:
        return self._last.get(target)

    def fork(self) -> Journal:
        twin = Journal()
        twin.scalings = list(self.scalings)
        twin._last = dict(self._last)
        return twin
