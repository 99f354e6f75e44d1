"""What is a metric, as data: a family (name, type, labels) and its samples, ready for an exporter."""

from __future__ import annotations

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


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
