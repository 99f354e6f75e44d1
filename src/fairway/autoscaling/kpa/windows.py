"""Averages and maxima over the last seconds, as the autoscaler keeps them.

Times are µs of any epoch; one bucket holds a second. What was added to one bucket is summed.

Source: pkg/autoscaler/aggregation/bucketing.go, aggregation/max/window.go, metrics/collector.go.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, NamedTuple

from fairway.autoscaling.kpa.specs import RPS, Spec
from fairway.kube.timestamps import SECOND_US

_MIN_EXPONENT: Final = 0.2
_WEIGHT_PRECISION: Final = 0.9999
# Before any time that is recorded.
_NEVER: Final = -(2**62)


def smoothing(buckets: int) -> float:
    """How much the last of so many buckets weighs."""
    return max(1 - math.pow(1 - _WEIGHT_PRECISION, 1 / buckets), _MIN_EXPONENT)


def _rounded(value: float) -> float:
    """To six digits; Go rounds halves away from zero."""
    scaled = abs(value) * 1e6
    return math.copysign(math.floor(scaled + 0.5) / 1e6, value)


class Buckets:
    """A ring of sums. `first` and `last`: numbers of the first and last bucket written to."""

    def __init__(self, window_us: int, granularity_us: int = SECOND_US, *, is_weighted: bool = False) -> None:
        self.window_us = window_us
        self.granularity_us = granularity_us
        self.is_weighted = is_weighted
        self.values = [0.0] * -(-window_us // granularity_us)
        self.total = 0.0
        self.first = self.last = _NEVER

    def fork(self) -> Buckets:
        twin = Buckets(self.window_us, self.granularity_us, is_weighted=self.is_weighted)
        twin.values, twin.total = list(self.values), self.total
        twin.first, twin.last = self.first, self.last
        return twin

    def is_empty(self, now_us: int) -> bool:
        return now_us // self.granularity_us - self.last > len(self.values)

    def record(self, at_us: int, value: float) -> None:
        """Values a window old are passed over; a gap counts as zero, unless it is as long as the window."""
        number, size = at_us // self.granularity_us, len(self.values)
        if number != self.last:
            if number + size <= self.last:
                return
            if self.first == _NEVER or self.first > number:
                self.first = number
            if number - self.last >= size:
                self.first = self.last = number
                self.values = [0.0] * size
                self.total = 0.0
            elif number > self.last:
                for i in range(self.last + 1, number + 1):
                    self.total -= self.values[i % size]
                    self.values[i % size] = 0.0
                self.last = number
        self.values[number % size] += value
        self.total += value

    def average(self, now_us: int) -> float:
        now = now_us // self.granularity_us
        return self._weighted(now) if self.is_weighted else self._plain(now)

    def _plain(self, now: int) -> float:
        size = len(self.values)
        written = self.last - self.first + 1
        if now <= self.last:
            return _rounded(self.total / min(written, size))
        if now - self.last >= size:
            return 0.0
        left = self.total - sum(self.values[i % size] for i in range(self.last + 1, now + 1))
        return _rounded(left / min(written, size - (now - self.last)))

    def _weighted(self, now: int) -> float:
        size = len(self.values)
        if now - self.last > size:
            return 0.0
        each = weight = smoothing(size)
        silent = max(now - self.last, 0)
        if silent:
            weight *= math.pow(1 - each, silent)
        found = 0.0
        for i in range(size - silent):
            found += self.values[(self.last - i) % size] * weight
            weight *= 1 - each
        return found

    def resize(self, window_us: int, now_us: int) -> None:
        """Keep what the new window still covers."""
        if window_us == self.window_us:
            return
        old, size = self.values, -(-window_us // self.granularity_us)
        self.values, self.total, self.window_us = [0.0] * size, 0.0, window_us
        if now_us // self.granularity_us - self.last > len(old):
            self.first = _NEVER
            return
        for i in range(self.last, self.last - min(size, len(old)), -1):
            self.values[i % size] = old[i % len(old)]
            self.total += old[i % len(old)]
        self.first = self.last - (len(old) - 1)


class Maximum(NamedTuple):
    """The largest number of the last buckets: descending (bucket, value), newest last."""

    entries: tuple[tuple[int, int], ...] = ()

    def recorded(self, bucket: int, value: int, size: int) -> Maximum:
        """`bucket`s come in ascending order."""
        kept = deque(self.entries)
        while kept and kept[-1][1] <= value:
            kept.pop()
        while kept and bucket - kept[0][0] >= size:
            kept.popleft()
        if kept and kept[-1][0] == bucket:
            value = max(value, kept.pop()[1])
        kept.append((bucket, value))
        return Maximum(tuple(kept))

    @property
    def current(self) -> int:
        return self.entries[0][1]


NOTHING: Final = Maximum()


class Averages(NamedTuple):
    """Over the stable and over the panic window."""

    stable: float
    panic: float


class Measured:
    """What the autoscaler knows about the requests of one Revision."""

    def __init__(self, spec: Spec) -> None:
        self.by_rps = spec.metric == RPS
        self.stable = Buckets(spec.stable_window_us, is_weighted=spec.is_weighted)
        self.panic = Buckets(spec.panic_window_us, is_weighted=spec.is_weighted)

    def fork(self) -> Measured:
        twin: Measured = object.__new__(Measured)
        twin.by_rps, twin.stable, twin.panic = self.by_rps, self.stable.fork(), self.panic.fork()
        return twin

    def record(self, at_us: int, concurrency: float, rps: float) -> None:
        """One sample, summed over all pods and the activator; those of one second add up."""
        value = rps if self.by_rps else concurrency
        self.stable.record(at_us, value)
        self.panic.record(at_us, value)

    def averages(self, now_us: int, *, is_scraped: bool = True) -> Averages | None:
        """None: there is no data yet. `is_scraped`: pods are asked, as with any burst capacity but -1."""
        if is_scraped and self.stable.is_empty(now_us):
            return None
        return Averages(self.stable.average(now_us), self.panic.average(now_us))

    def resize(self, spec: Spec, now_us: int) -> None:
        self.stable.resize(spec.stable_window_us, now_us)
        self.panic.resize(spec.panic_window_us, now_us)
