"""Which page does a port of a pod, or of a kubelet, have?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairway.apiserver.controlplanepods import is_hosted
from fairway.kube.objects import Key, Obj, name_of, namespace_of, spec_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.telemetry.exposition import CONTENT_TYPE, Block, text
from fairway.twin.gpubreaks import broken_gpus

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from fairway.apiserver.asking import Api
    from fairway.twin.gpupages import GpuPages
    from fairway.twin.kubelet.usage import NodeUse

_IMAGE: Final = re.compile(r"(?:^|/)(dcgm-exporter|kube-state-metrics|node-exporter|node_exporter)(?:[:@]|$)")
# The counters that a dcgm-exporter takes from a ConfigMap: `-m gpu:metrics` or its volume. Source: its chart.
_COUNTERS: Final = ("metrics", "default-counters.csv", "dcgm-metrics.csv")


class Page(NamedTuple):
    status: int
    content_type: str
    body: bytes


class Exporters:
    """One a server. Each page is written when it is asked for."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._gpus: GpuPages | None = None

    def page_of_pod(self, pod: Obj, path: str) -> Page | None:
        """What an exporter's pod answers; None for a pod that is none."""
        for container in spec_of(pod).get("containers") or ():
            found = _IMAGE.search(str(container.get("image") or ""))
            if found is not None:
                return _answered(path, partial(_WRITERS[found[1].replace("_", "-")], self, pod))
        if is_hosted(pod):
            return _answered(path, partial(self._controller, pod))
        return None

    def page_of_kubelet(self, node: str, path: str) -> Page | None:
        """`/metrics` and `/metrics/cadvisor`; None for another path, or a node that does not answer."""
        writer = {"/metrics": self._kubelet, "/metrics/cadvisor": self._cadvisor}.get(f"/{path.strip('/')}")
        if writer is None:
            return None
        blocks = writer(node)
        return None if blocks is None else _metrics(blocks)

    # Writers

    def _dcgm(self, pod: Obj) -> Iterable[Block]:
        from fairway.telemetry.dcgm.counters import CountersError, parse_counters
        from fairway.twin.gpupages import GpuPages

        if self._gpus is None:
            self._gpus = GpuPages(self._api.store, self._broken)
        try:
            counters = parse_counters(self._counters(pod))
        except CountersError:
            # An exporter with such a file does not start.
            return ()
        return self._gpus.blocks(str(spec_of(pod).get("nodeName") or ""), counters)

    def _broken(self) -> Mapping[tuple[str, int, str, int], int | None]:
        twin = self._api.cluster.twin
        return {} if twin is None else broken_gpus(twin.host.parts)

    def _counters(self, pod: Obj) -> str:
        """The file of counters that a volume of the pod brings."""
        for volume in spec_of(pod).get("volumes") or ():
            named = (volume.get("configMap") or {}).get("name")
            if named:
                held = self._api.store.get(Key("ConfigMap", namespace_of(pod), named)) or {}
                data: dict[str, Any] = held.get("data") or {}
                found = next((data[key] for key in _COUNTERS if key in data), "")
                if found:
                    return str(found)
        return ""

    def _state(self, _pod: Obj) -> Iterable[Block]:
        from fairway.telemetry.statemetrics.page import blocks

        return blocks(self._api.store.walk)

    def _machine(self, pod: Obj) -> Iterable[Block]:
        from fairway.apiserver.scrapes.nodes import node_exporter

        node, use = self._use(str(spec_of(pod).get("nodeName") or ""))
        if node is None or use is None:
            return ()
        since_us = parse_rfc3339(node["metadata"]["creationTimestamp"])
        return node_exporter(node, use, since_us, self._api.store.now_us)

    def _kubelet(self, name: str) -> Iterable[Block] | None:
        from fairway.apiserver.scrapes.nodes import kubelet

        node, use = self._use(name)
        return None if node is None or use is None else kubelet(node, use)

    def _cadvisor(self, name: str) -> Iterable[Block] | None:
        from fairway.apiserver.scrapes.nodes import cadvisor

        node, use = self._use(name)
        if node is None or use is None:
            return None
        found = ((p.namespace, p.name) for p in use.pods)
        pods = {key: pod for key in found if (pod := self._api.store.get(Key("Pod", *key))) is not None}
        return cadvisor(node, use, pods, self._api.store.now_us)

    def _controller(self, pod: Obj) -> bytes:
        """The metrics of one of the cluster's own controllers, out of what `/metrics` has of all."""
        from prometheus_client.exposition import generate_latest

        from fairway.apiserver.exporter import components, machines, queues

        cluster, name = self._api.cluster, name_of(pod)
        found: Iterable[Metric] = ()
        if cluster.twin is not None:
            if name.startswith("kueue") and cluster.queue_meter is not None:
                found = queues.collect(self._api.store, cluster.twin, cluster.queue_meter)
            elif name.startswith(("karpenter", "cluster-autoscaler")):
                found = machines.collect(cluster.twin, cluster.pod_meter)
            elif name.startswith("kube-scheduler"):
                found = components.of_scheduler(self._api.store, cluster.twin)
        return generate_latest(_Collected(found))

    def _use(self, name: str) -> tuple[Obj | None, NodeUse | None]:
        node = self._api.store.get(Key("Node", "", name))
        use = None if node is None else self._api.kubelets.of(name).use(name, self._api.store.now_us)
        return node, use


class _Collected(NamedTuple):
    """What the client library takes for a registry."""

    metrics: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


_WRITERS: Final[dict[str, Callable[[Exporters, Obj], Iterable[Block]]]] = {
    "dcgm-exporter": Exporters._dcgm,
    "kube-state-metrics": Exporters._state,
    "node-exporter": Exporters._machine,
}


def _answered(path: str, write: Callable[[], Iterable[Block] | bytes]) -> Page:
    at = f"/{path.strip('/')}"
    if at == "/metrics":
        written = write()
        return Page(200, CONTENT_TYPE, written) if isinstance(written, bytes) else _metrics(written)
    if at in ("/", "/health", "/healthz", "/livez", "/readyz"):
        return Page(200, "text/plain; charset=utf-8", b"OK\n")
    return Page(404, "text/plain; charset=utf-8", b"404 page not found\n")


def _metrics(blocks: Iterable[Block]) -> Page:
    return Page(200, CONTENT_TYPE, text(blocks).encode())
