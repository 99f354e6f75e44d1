"""What the vocabulary of assertions is made of: units, metrics, sets, fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Units, by what a literal looks like.
DURATION, RATIO, COUNT, GPUS, CPUS, BYTES = "duration", "%", "count", "GPUs", "CPUs", "bytes"
TEXT, FLAG = "text", "true or false"

PODS, WORKLOADS, NODES, CLUSTER = "pods", "workloads", "nodes", "cluster"
SCALINGS = "scalings"
SERVICES = "services"
"""Changes of replicas by autoscalers."""
ALERTS = "alerts"
"""What PrometheusRules of the scenario raised."""
QUEUED, QUOTAS, QUEUES = "queued workloads", "quotas", "cluster queues"
"""Kueue's Workloads; resources of flavors of ClusterQueues; ClusterQueues."""


@dataclass(frozen=True, slots=True)
class Metric:
    """`rows` says what it is measured on. Metrics of rows have a sample per row; those of the cluster are curves
    over time. `units` are the units a bound may have, the first one is how it is shown."""

    name: str
    rows: str
    units: tuple[str, ...]
    meaning: str
    is_curve: bool = False
    is_single: bool = False
    can_choose: bool = True
    """Whether `where` may restrict it."""
    chooses: str = PODS
    """Of a curve: the rows whose fields `where` speaks of."""


@dataclass(frozen=True, slots=True)
class Set:
    """Rows that `count` and `share` count. `at_us` is when a row became one of them."""

    name: str
    rows: str
    meaning: str
    has: Callable[[Any], bool]
    at_us: Callable[[Any], int | None]


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of a row. `type` is TEXT, FLAG or a unit."""

    type: str
    get: Callable[[Any], Any]
    meaning: str
