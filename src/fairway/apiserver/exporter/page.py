"""`/metrics`: everything in Prometheus' text, or OpenMetrics where that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from fairway.apiserver.exporter import components, machines, queues, requests
from fairway.apiserver.wire.messages import Request, Response

if TYPE_CHECKING:
    from fairway.apiserver.asking import Api


class Checks(Protocol):
    """Whoever knows how well the server is: (check, page, whether it is well)."""

    def results(self) -> list[tuple[str, str, bool]]: ...


class MetricsPage:
    """Its handler. The registry is its own: tests run many servers in one process."""

    def __init__(self, api: Api, checks: Checks) -> None:
        self._api = api
        self._checks = checks
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def collect(self) -> Iterator[Metric]:
        """prometheus-client's Collector."""
        yield from requests.collect(self._api)
        yield requests.health(self._checks.results())
        yield from components.collect(self._api)
        cluster = self._api.cluster
        if cluster.twin is not None:
            if cluster.queue_meter is not None:
                yield from queues.collect(self._api.store, cluster.twin, cluster.queue_meter)
            yield from machines.collect(cluster.twin, cluster.pod_meter)
            if cluster.alerts is not None:
                yield from cluster.alerts.families()

    def describe(self) -> list[Metric]:
        """Asked for at registration: names are known when they are collected."""
        return []

    def answer(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.header("accept"))
        return Response(200, encode(self._registry), content_type)
