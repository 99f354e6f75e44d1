"""Counters of a component: how often something happened, by metric and label values."""

from __future__ import annotations

from fairway.kube.metricfamilies import Sample


class Tally:
    """O(1) a count; samples come by name and labels."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, tuple[str, ...]], int] = {}

    def add(self, name: str, *labels: str, times: int = 1) -> None:
        if times:
            key = (name, labels)
            self._counts[key] = self._counts.get(key, 0) + times

    def samples(self) -> list[Sample]:
        return [Sample(name, labels, float(n)) for (name, labels), n in sorted(self._counts.items())]

    def copy(self) -> Tally:
        twin = Tally()
        twin._counts = dict(self._counts)
        return twin
