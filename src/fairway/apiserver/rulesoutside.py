"""What the rules of a served cluster have beyond a twin's: other pages to see, and a disk.

Unlike Prometheus: kubelets and node-exporters are called by their node's name (`instance`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairway.kube.objects import Key, meta_of, name_of
from fairway.kube.timestamps import parse_rfc3339

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from fairway.apiserver.cluster import Cluster
    from fairway.apiserver.notified import Sent
    from fairway.apiserver.ruleskept import Kept
    from fairway.telemetry.alertmanager.dispatching import Log, Notification
    from fairway.telemetry.rules.evaluating import Past
    from fairway.telemetry.store import Labels, MemoryStore

FOLDER: Final = "alerts"


class RulesOutside:
    """Of one cluster. Nothing is loaded before the first rule is there."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder / FOLDER
        self._kept: Kept | None = None
        self._sent: Sent | None = None

    # Pages

    def pages(self) -> Iterator[Metric]:
        """What the control plane's controllers say."""
        from fairway.apiserver.exporter import components, machines, queues

        cluster = self._cluster
        if cluster.twin is not None and cluster.queue_meter is not None:
            yield from components.of_scheduler(cluster.store, cluster.twin)
            yield from queues.collect(cluster.store, cluster.twin, cluster.queue_meter)
            yield from machines.collect(cluster.twin, cluster.pod_meter)

    def of_nodes(self, wanted: frozenset[str]) -> Iterator[tuple[Labels, float]]:
        """What kubelets and node-exporters of simulated nodes say."""
        from prometheus_client.parser import text_string_to_metric_families

        from fairway.apiserver.scrapes.nodes import cadvisor, kubelet, node_exporter
        from fairway.telemetry.store import labels
        from fairway.twin.kubelet.usage import node_use

        store, kubelets = self._cluster.store, self._cluster.simulated_nodes()
        if kubelets is None:
            return
        for obj in store.walk("Node"):
            name, state = name_of(obj), kubelets.nodes.get(name_of(obj))
            if state is None or not (state.is_up and state.is_reachable):
                continue
            since_us, at_us = parse_rfc3339(meta_of(obj)["creationTimestamp"]), store.now_us
            use = node_use(state, kubelets.pods, since_us, at_us)
            keys = ((pod.namespace, pod.name) for pod in use.pods)
            pods = {key: pod for key in keys if (pod := store.get(Key("Pod", *key))) is not None}
            own = {"node": name, "instance": name}
            for job, blocks in (
                ("kubelet", kubelet(obj, use)),
                ("kubelet", cadvisor(obj, use, pods, at_us)),
                ("node-exporter", node_exporter(obj, use, since_us, at_us)),
            ):
                for block in blocks:
                    if block.name in wanted:
                        for family in text_string_to_metric_families("".join(block.lines)):
                            for one in family.samples:
                                yield labels(one.name, {"job": job, **own, **one.labels}), float(one.value)

    # The disk

    def load(self, now_ms: int, scraped: MemoryStore, recorded: MemoryStore) -> tuple[Past, Log]:
        return self._file().load(now_ms, scraped, recorded)

    def keep(
        self,
        at_ms: int,
        scraped: Iterable[tuple[Labels, float]],
        recorded: Iterable[tuple[Labels, float]],
        past: Past,
        log: Log,
    ) -> None:
        self._file().keep(at_ms, scraped, recorded, past, log)
        # The time goes on disk, too: what is kept of later than it would not count.
        self._cluster.journal.note("rules", str(at_ms))

    def forget(self, before_ms: int) -> None:
        self._file().forget(before_ms)

    def deliver(self, alertmanager: str, notes: Iterable[Notification]) -> None:
        from fairway.apiserver.notified import Sent

        if self._sent is None:
            self._sent = Sent(self._folder / "sent", self._cluster.outside)
        self._sent.deliver(alertmanager, notes)

    def stop(self) -> None:
        if self._sent is not None:
            self._sent.stop()

    def _file(self) -> Kept:
        from fairway.apiserver.ruleskept import Kept

        if self._kept is None:
            self._kept = Kept(self._folder / "kept")
        return self._kept
