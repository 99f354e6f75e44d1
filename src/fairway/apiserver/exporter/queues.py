"""Kueue's metrics: what `queuemeter` counted, and gauges of its objects and the lines of its queues.

Source: Kueue pkg/metrics/metrics.go through `queueing.metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from prometheus_client.core import Metric

from fairway.apiserver.exporter.rendering import rendered
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
    counted = meter.tally.samples()
    if store.count(_QUEUE) or counted:
        yield from rendered(families(), [*counted, *gauges(store, _pending(twin))], meter.tally.observed())


def _pending(twin: Twin) -> dict[str, Pending]:
    """The lines of Kueue's queues; none where Kueue runs elsewhere."""
    kueue = cast("Kueue | None", twin.host.parts.get("kueue"))
    lines = {} if kueue is None else kueue.backlog.pending.queues
    return {name: Pending(len(line.active()), len(line.inadmissible())) for name, line in lines.items()}
