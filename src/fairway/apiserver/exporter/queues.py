"""Kueue's metrics: what `queuemeter` counted, and gauges of its objects and the lines of its queues.

Source: Kueue pkg/metrics/metrics.go through `queueing.metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from fairway.apiserver.exporter.requests import buckets
from fairway.kube.metricfamilies import COUNTER, HISTOGRAM, Family
from fairway.queueing.metrics.families import families
from fairway.queueing.metrics.gauges import Pending, gauges

if TYPE_CHECKING:
    from fairway.apiserver.exporter.queuemeter import QueueMeter
    from fairway.cluster.store import Store
    from fairway.twin.kueue.component import Kueue
    from fairway.twin.twin import Twin

_QUEUE = "ClusterQueue.kueue.x-k8s.io"


def collect(store: Store, twin: Twin, meter: QueueMeter) -> Iterator[Metric]:
    """Nothing in a cluster that never had anything of Kueue's."""
    if not store.count(_QUEUE) and not meter.counts:
        return
    found: dict[str, Metric] = {}
    for (name, labels), value in sorted(meter.counts.items()):
        cast(CounterMetricFamily, _family(found, name)).add_metric(labels, value)
    for (name, labels), (counts, total) in sorted(meter.observed.items()):
        shown = buckets(families()[name].buckets, counts)
        cast(HistogramMetricFamily, _family(found, name)).add_metric(labels, shown, total)
    for sample in gauges(store, _pending(twin)):
        cast(GaugeMetricFamily, _family(found, sample.name)).add_metric(sample.labels, sample.value)
    yield from found.values()


def _family(found: dict[str, Metric], name: str) -> Metric:
    if name not in found:
        found[name] = _made(families()[name])
    return found[name]


def _made(family: Family) -> Metric:
    if family.type == HISTOGRAM:
        return HistogramMetricFamily(family.name, family.help, labels=family.labels)
    if family.type == COUNTER:
        return CounterMetricFamily(family.name.removesuffix("_total"), family.help, labels=family.labels)
    return GaugeMetricFamily(family.name, family.help, labels=family.labels)


def _pending(twin: Twin) -> dict[str, Pending]:
    """The lines of Kueue's queues."""
    lines = cast("Kueue", twin.component("kueue")).backlog.pending.queues
    return {name: Pending(len(line.active()), len(line.inadmissible())) for name, line in lines.items()}
