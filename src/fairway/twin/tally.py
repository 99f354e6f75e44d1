"""What a component's metrics have come to: how often something happened, and how long it took, by label values."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from math import ceil, nan
from typing import Final

from fairway.kube.metricfamilies import GAUGE, HISTOGRAM, SUMMARY, Family, Observed, Sample
from fairway.kube.timestamps import MINUTE_US

# What a summary's quantiles are of: the last ten minutes, prometheus.DefMaxAge; and which, karpenter's
# metrics.SummaryObjectives.
RECENT_US: Final = 10 * MINUTE_US
QUANTILES: Final = (0.0, 0.5, 0.9, 0.99, 1.0)

Named = tuple[str, tuple[str, ...]]
"""A metric and its labels' values."""


class _Seen:
    """One series of a histogram or summary. `recent`: (when, value), of a summary's last ten minutes."""

    __slots__ = ("counts", "recent", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0
        self.recent: deque[tuple[int, float]] = deque()

    def copy(self) -> _Seen:
        twin = _Seen(0)
        twin.counts, twin.total, twin.recent = list(self.counts), self.total, deque(self.recent)
        return twin


class Tally:
    """O(1) a count, O(log buckets) an observation; samples come by name and labels."""

    def __init__(self, families: Mapping[str, Family]) -> None:
        self._families = families
        self._counts: dict[Named, float] = {}
        self._seen: dict[Named, _Seen] = {}

    def add(self, name: str, *labels: str, times: float = 1) -> None:
        if times:
            key = (name, labels)
            self._counts[key] = self._counts.get(key, 0) + times

    def begin(self, name: str, *labels: str) -> None:
        """Show a counter before anything happened."""
        self._counts.setdefault((name, labels), 0)

    def observe(self, name: str, value: float, *labels: str, now_us: int = 0) -> None:
        """`now_us`: when; a summary's quantiles need it."""
        key, family = (name, labels), self._families[name]
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen(len(family.buckets))
        seen.counts[bisect_left(family.buckets, value)] += 1
        seen.total += value
        if family.type == SUMMARY:
            _forget_old(seen, now_us)
            seen.recent.append((now_us, value))

    def take(self, samples: Iterable[Sample]) -> None:
        """A counter grows by a sample's value, a gauge shows it, a histogram observes it."""
        for name, labels, value in samples:
            kind = self._families[name].type
            if kind == HISTOGRAM:
                self.observe(name, value, *labels)
            elif kind == GAUGE:
                self._counts[name, labels] = value
            else:
                self.add(name, *labels, times=value)

    def samples(self) -> list[Sample]:
        return [Sample(name, labels, float(n)) for (name, labels), n in sorted(self._counts.items())]

    def observed(self, now_us: int = 0) -> list[Observed]:
        """Histograms and summaries; these with the quantiles of the ten minutes until now."""
        out = []
        for (name, labels), seen in sorted(self._seen.items(), key=lambda item: item[0]):
            is_summary = self._families[name].type == SUMMARY
            if is_summary:
                _forget_old(seen, now_us)
            quantiles = _quantiles(seen) if is_summary else ()
            out.append(Observed(name, labels, tuple(seen.counts), seen.total, quantiles))
        return out

    def copy(self) -> Tally:
        twin = Tally(self._families)
        twin._counts = dict(self._counts)
        twin._seen = {key: seen.copy() for key, seen in self._seen.items()}
        return twin


def _forget_old(seen: _Seen, now_us: int) -> None:
    while seen.recent and seen.recent[0][0] <= now_us - RECENT_US:
        seen.recent.popleft()


def _quantiles(seen: _Seen) -> tuple[tuple[float, float], ...]:
    """By nearest rank. Of nothing: NaN, as client_golang has it."""
    values = sorted(value for _, value in seen.recent)
    return tuple((q, values[max(ceil(q * len(values)) - 1, 0)] if values else nan) for q in QUANTILES)
