"""What runs beside the API: the scheduler's queue, and the clock that only Fairway has.

Source: pkg/scheduler/metrics/metrics.go (v1.36), stable-metrics-list.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.queue import ACTIVE, BACKING_OFF, PARKED
from fairway.twin.scheduler import SchedulerComponent

if TYPE_CHECKING:
    from fairway.apiserver.asking import Api
    from fairway.cluster.store import Store
    from fairway.twin.containment import Containment
    from fairway.twin.twin import Twin

_QUEUES = (("active", ACTIVE), ("backoff", BACKING_OFF), ("unschedulable", PARKED))


def collect(api: Api) -> Iterator[Metric]:
    yield from _clock(api)
    if api.cluster.twin is not None:
        yield _pending(api.store, api.cluster.twin)
    if api.cluster.containment is not None:
        yield from _contained(api.cluster.containment)


def of_scheduler(store: Store, twin: Twin) -> Iterator[Metric]:
    """What kube-scheduler's own page has."""
    yield _pending(store, twin)


def _contained(contained: Containment) -> Iterator[Metric]:
    failures = CounterMetricFamily(
        "fairway_component_failures_total",
        "Failures of components that were contained: each stopped nothing but the object it was about.",
        labels=("component",),
    )
    for name, count in sorted(contained.counts.items()):
        failures.add_metric((name,), count)
    yield failures
    failing = GaugeMetricFamily(
        "fairway_component_objects_left_out",
        "Objects that a component does without since it failed at them.",
        labels=("component",),
    )
    for name in sorted(contained.counts):
        failing.add_metric((name,), contained.left_out(name))
    yield failing


def _pending(store: Store, twin: Twin) -> Metric:
    pending = GaugeMetricFamily(
        "scheduler_pending_pods",
        "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means "
        "number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler "
        "attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never "
        "attempted to schedule because they are gated.",
        labels=("queue",),
    )
    found = [c.queue.counts() for c in twin.components if isinstance(c, SchedulerComponent)]
    for name, state in _QUEUES:
        pending.add_metric((name,), sum(counts[state] for counts in found))
    gated = sum(bool(pod["spec"].get("schedulingGates")) for pod in store.walk("Pod"))
    pending.add_metric(("gated",), gated)
    return pending


def _clock(api: Api) -> Iterator[Metric]:
    pump = api.cluster.pump
    speed = api.cluster.speed if pump is None else pump.speed
    paused = api.cluster.paused if pump is None else pump.paused
    lag_us = 0 if pump is None else pump.lag_us
    yield GaugeMetricFamily(
        "fairway_clock_time_seconds",
        "The cluster's time, in seconds since 1970.",
        value=api.store.now_us / SECOND_US,
    )
    yield GaugeMetricFamily("fairway_clock_speed", "Virtual seconds per second.", value=speed)
    yield GaugeMetricFamily(
        "fairway_clock_paused", "1 while time stands until it is told to go.", value=float(paused)
    )
    yield GaugeMetricFamily(
        "fairway_clock_lag_seconds", "How far the cluster is behind its clock.", value=lag_us / SECOND_US
    )
