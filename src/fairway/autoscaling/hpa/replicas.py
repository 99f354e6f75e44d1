"""How many replicas does one metric ask for?

Pure arithmetic over values by pod, or over one value. A pod without a metric is assumed to use all it may where there
would be fewer replicas, and nothing where there would be more; an unready one nothing where there would be more.
What then is within the tolerance, or would turn the direction round, changes nothing.

Source: pkg/controller/podautoscaler/replica_calculator.go, metrics/utilization.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fairway.autoscaling.hpa.podgroups import Groups
from fairway.autoscaling.hpa.wording import MAX_INT32, MAX_INT64, ceil32, ceil64, quotient, ratio
from fairway.autoscaling.source import PodValue

NO_METRICS = "did not receive metrics for targeted pods (pods might be unready)"
NO_PODS = "no pods returned by selector while calculating replica count"


class Tolerances(NamedTuple):
    """How far a ratio may be from 1 without a change."""

    down: float
    up: float

    def hold(self, usage: float) -> bool:
        return (1.0 - self.down) <= usage <= (1.0 + self.up)


class Fault(Exception):
    """No replica count can be computed. The text is the controller's."""


class Count(NamedTuple):
    """A proposal: replicas; the usage it rests on (thousandths a pod); utilization in percent where that is asked."""

    replicas: int
    usage: int
    utilization: int | None = None


Measured = tuple[float, int, int | None]
"""Ratio of usage to target, usage, utilization."""


def by_utilization(
    values: Mapping[str, PodValue],
    groups: Groups,
    requests: Callable[[], Mapping[str, int]],
    target: int,
    tolerances: Tolerances,
    current: int,
) -> Count:
    """A resource's usage against a percentage of what is requested. Raises: Fault, RequestFault."""
    known = _counted(values, groups)
    asked = requests()

    def measure(of: Mapping[str, int]) -> Measured:
        among = [name for name in of if name in asked]
        total, wanted = sum(of[name] for name in among), sum(asked[name] for name in among)
        if not wanted:
            raise Fault("no metrics returned matched known pods")
        percent = quotient(total * 100, wanted)
        return percent / target, quotient(total, len(among)), percent

    most = max(100, target)
    return _count(known, groups, measure, lambda name: quotient(asked[name] * most, 100), tolerances, current)


def by_value(
    values: Mapping[str, PodValue], groups: Groups, target: int, tolerances: Tolerances, current: int
) -> Count:
    """Values of pods against a target for each. Raises: Fault."""

    def measure(of: Mapping[str, int]) -> Measured:
        usage = quotient(sum(of.values()), len(of))
        return ratio(usage, target), usage, None

    return _count(_counted(values, groups), groups, measure, lambda _name: target, tolerances, current)


def _counted(values: Mapping[str, PodValue], groups: Groups) -> dict[str, int]:
    left_out = {*groups.ignored, *groups.unready}
    known = {name: metric.value for name, metric in values.items() if name not in left_out}
    if not known:
        raise Fault(NO_METRICS)
    return known


def _count(
    known: dict[str, int],
    groups: Groups,
    measure: Callable[[Mapping[str, int]], Measured],
    at_most: Callable[[str], int],
    tolerances: Tolerances,
    current: int,
) -> Count:
    usage_ratio, usage, percent = measure(known)
    up_with_unready = bool(groups.unready) and usage_ratio > 1.0
    if not up_with_unready and not groups.missing:
        if tolerances.hold(usage_ratio):
            return Count(current, usage, percent)
        return Count(ceil32(usage_ratio * groups.ready), usage, percent)
    if usage_ratio < 1.0:
        known |= {name: at_most(name) for name in groups.missing}
    elif usage_ratio > 1.0:
        known |= dict.fromkeys(groups.missing, 0)
    if up_with_unready:
        known |= dict.fromkeys(groups.unready, 0)
    assumed = measure(known)[0]
    turned = (usage_ratio < 1.0 < assumed) or (assumed < 1.0 < usage_ratio)
    if tolerances.hold(assumed) or turned:
        return Count(current, usage, percent)
    replicas = ceil32(assumed * len(known))
    if (assumed < 1.0 and replicas > current) or (assumed > 1.0 and replicas < current):
        return Count(current, usage, percent)
    return Count(replicas, usage, percent)


def by_total(
    usage: int, target: int, ready: Callable[[], int], tolerances: Tolerances, current: int
) -> Count:
    """One value against a target for all: the ready replicas times the ratio. Raises: Fault."""
    usage_ratio = ratio(usage, target)
    if not current:
        return Count(ceil32(usage_ratio), usage)
    if tolerances.hold(usage_ratio):
        return Count(current, usage)
    wanted = usage_ratio * ready()
    return Count(MAX_INT32 if wanted > MAX_INT32 else ceil32(wanted), usage)


def per_replica(
    usage: int, target: int, tolerances: Tolerances, replicas: int, *, capped: bool = True
) -> Count:
    """One value divided among the replicas there are, against a target for each.

    `capped`: as external metrics have it; those of objects do not look at overflows.
    """
    count = replicas
    if not tolerances.hold(ratio(usage, float(target) * replicas)):
        wanted = ratio(usage, target)
        count = MAX_INT32 if capped and wanted > MAX_INT32 else ceil32(wanted)
    if capped and float(usage) >= float(MAX_INT64):
        return Count(count, MAX_INT64)
    return Count(count, ceil64(ratio(usage, replicas)))


def total(values: Iterable[int]) -> int:
    """All series of an external metric, at most what an int64 holds."""
    return min(sum(values), MAX_INT64)
