"""Usage that fades: weights in buckets that grow by 5 %, each sample worth half after a day.

Source: pkg/recommender/util/{histogram,decaying_histogram,histogram_options}.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from fairway.kube.timestamps import DAY_US

# Weights below count as nothing. Source: model/aggregations_config.go epsilon.
EPSILON: Final = 0.001 * 0.1
_GROWTH: Final = 1.05
# How many half lives weights may grow before all are scaled down. Source: maxDecayExponent.
_MAX_EXPONENT: Final = 100


@dataclass(frozen=True, slots=True)
class Buckets:
    """Bucket 0 holds what is below `first`; each further one is 5 % wider."""

    first: float
    count: int

    def of(self, value: float) -> int:
        if value < self.first:
            return 0
        return min(int(_log(value * (_GROWTH - 1) / self.first + 1)), self.count - 1)

    def start(self, bucket: int) -> float:
        return self.first * (math.pow(_GROWTH, bucket) - 1) / (_GROWTH - 1) if bucket else 0.0


def _log(value: float) -> float:
    return math.log(value) / math.log(_GROWTH)


def _buckets(most: float, first: float) -> Buckets:
    return Buckets(first, math.ceil(_log(most * (_GROWTH - 1) / first + 1)) + 1)


CPU: Final = _buckets(1000.0, 0.01)
"""Cores."""
MEMORY: Final = _buckets(1e12, 1e7)
"""Bytes."""


@dataclass(slots=True)
class Histogram:
    """`reference_us`: when a weight of 1 is worth 1."""

    buckets: Buckets
    weights: dict[int, float] = field(default_factory=dict)
    total: float = 0.0
    reference_us: int = 0
    half_life_us: int = DAY_US

    def copy(self) -> Histogram:
        return Histogram(self.buckets, dict(self.weights), self.total, self.reference_us, self.half_life_us)

    def add(self, value: float, weight: float, at_us: int) -> None:
        weight *= self._factor(at_us)
        bucket = self.buckets.of(value)
        self.weights[bucket] = self.weights.get(bucket, 0.0) + weight
        self.total += weight

    def subtract(self, value: float, weight: float, at_us: int) -> None:
        weight *= self._factor(at_us)
        bucket = self.buckets.of(value)
        self.total = _less(self.total, weight)
        self.weights[bucket] = _less(self.weights.get(bucket, 0.0), weight)

    def percentile(self, share: float) -> float:
        """The end of the bucket in which it lies; 0 without samples."""
        held = sorted(b for b, weight in self.weights.items() if weight >= EPSILON)
        if not held:
            return 0.0
        threshold, partial, bucket = share * self.total, 0.0, held[-1]
        for candidate in range(held[0], held[-1]):
            partial += self.weights.get(candidate, 0.0)
            if partial >= threshold:
                bucket = candidate
                break
        return self.buckets.start(min(bucket + 1, self.buckets.count - 1))

    def _factor(self, at_us: int) -> float:
        if at_us > self.reference_us + self.half_life_us * _MAX_EXPONENT:
            rounded = (at_us + self.half_life_us // 2) // self.half_life_us * self.half_life_us
            scale = math.ldexp(1.0, math.floor((self.reference_us - rounded) / self.half_life_us + 0.5))
            self.weights = {b: w * scale for b, w in self.weights.items() if w * scale >= EPSILON}
            self.total *= scale
            self.reference_us = rounded
        return math.exp2((at_us - self.reference_us) / self.half_life_us)


def _less(value: float, by: float) -> float:
    value -= by
    return 0.0 if value < EPSILON else value
