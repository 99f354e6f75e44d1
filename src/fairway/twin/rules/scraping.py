"""What would a scrape of everything in this twin find now, of the metrics that rules ask for?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fairway.telemetry.dcgm.counters import field_of
from fairway.telemetry.statemetrics.families import families
from fairway.telemetry.statemetrics.page import own_labels
from fairway.telemetry.store import NAME, Labels, Matcher, labels
from fairway.twin.components import Host
from fairway.twin.gpubreaks import broken_gpus
from fairway.twin.gpupages import GpuPages
from fairway.twin.queries import TwinSource

if TYPE_CHECKING:
    from fairway.twin.rules.component import Outside

_OF_NODES: Final = ("container_", "kubelet_", "machine_", "node_")
_OF_OBJECTS: Final = {"job": "kube-state-metrics", "instance": "kube-state-metrics:8080"}


class Scraper:
    """Of one twin."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._gpus = GpuPages(host.store, lambda: broken_gpus(host.parts))

    def samples(self, names: Sequence[str], outside: Outside | None) -> Iterator[tuple[Labels, float]]:
        """Of metrics of these names, each series once."""
        others = []
        for name in names:
            if field_of(name) is not None:
                yield from self._gpus.samples(name)
            elif (family := families().get(name)) is not None:
                for obj in self._host.store.walk(family.gk):
                    own = {**own_labels(family.gk, obj), **_OF_OBJECTS}
                    for more, value in family.read(obj):
                        yield labels(name, {**own, **more}), value
            else:
                others.append(name)
        if others:
            yield from self._of_loads(others)
        if others and outside is not None:
            wanted = frozenset(others)
            if any(name.startswith(_OF_NODES) for name in others):
                yield from outside.of_nodes(wanted)
            found: Any
            for metric in outside.pages():
                for found in metric.samples:
                    if found.name in wanted:
                        yield labels(found.name, found.labels), float(found.value)

    def _of_loads(self, names: Sequence[str]) -> Iterator[tuple[Labels, float]]:
        """Series of loads and of served models."""
        now_ms = self._host.loop.now_us // 1000
        source = TwinSource(self._host, with_rules=False)
        for name in names:
            for series in source.select((Matcher(NAME, "=", name),), now_ms, now_ms):
                if len(series.values):
                    yield series.labels, float(series.values[-1])
