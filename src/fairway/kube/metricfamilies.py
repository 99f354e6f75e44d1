"""What is a metric, as data: a family (name, type, labels) and its samples, ready for an exporter."""

from __future__ import annotations

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM, SUMMARY = "counter", "gauge", "histogram", "summary"


class Family(NamedTuple):
    """One metric. `labels` in the order of the values of its samples; `buckets`: upper bounds, without +Inf."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


class Sample(NamedTuple):
    """`labels`: values in the order of the family's labels."""

    name: str
    labels: tuple[str, ...]
    value: float


class Observed(NamedTuple):
    """What a histogram or a summary has seen.

    `counts`: of each bucket by itself, +Inf last; of a summary the count of all. `quantiles`: (φ, value), a summary's.
    """

    name: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    total: float
    quantiles: tuple[tuple[float, float], ...] = ()
