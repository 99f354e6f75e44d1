"""Kueue's metrics: what `queuemeter` and Kueue's scheduler counted, and gauges of its objects and its books.

Source: Kueue pkg/metrics/metrics.go through `queueing.metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from prometheus_client.core import Metric

from fairway.apiserver.exporter.rendering import rendered
from fairway.kube.objects import labels_of, name_of, namespace_of
from fairway.queueing.control.settings import DEFAULT_KUEUE
from fairway.queueing.metrics.booked import booked
from fairway.queueing.metrics.families import families
from fairway.queueing.metrics.gauges import gauges

if TYPE_CHECKING:
    from fairway.apiserver.exporter.queuemeter import QueueMeter
    from fairway.cluster.store import Store
    from fairway.twin.kueue.component import Kueue
    from fairway.twin.twin import Twin

_QUEUE = "ClusterQueue.kueue.x-k8s.io"
_LOCAL_QUEUE = "LocalQueue.kueue.x-k8s.io"


def collect(store: Store, twin: Twin, meter: QueueMeter) -> Iterator[Metric]:
    """Nothing in a cluster that never had anything of Kueue's; of its objects alone where Kueue runs elsewhere."""
    samples, seen = meter.tally.samples(), meter.tally.observed()
    if not store.count(_QUEUE) and not samples:
        return
    kueue = cast("Kueue | None", twin.host.parts.get("kueue"))
    settings = DEFAULT_KUEUE if kueue is None else kueue.settings
    samples += gauges(store, settings.metrics)
    if kueue is not None:
        labels = {f"{namespace_of(q)}/{name_of(q)}": labels_of(q) for q in store.objects(_LOCAL_QUEUE)}
        samples += booked(kueue.backlog, kueue.ledger, labels)
        samples += kueue.cycles.tally.samples()
        seen += kueue.cycles.tally.observed()
    yield from rendered(families(), samples, seen)
