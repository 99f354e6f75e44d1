"""kube-apiserver's metrics: requests, watches, stored objects, health.

Source: kubernetes test/instrumentation/testdata/stable-metrics-list.yaml, documentation-list.yaml (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from fairway.apiserver.buildinfo import version
from fairway.apiserver.exporter.rendering import buckets
from fairway.apiserver.requestmeter import DURATIONS_S, SIZES_BYTES, About
from fairway.kube.kinds import kind_named

if TYPE_CHECKING:
    from fairway.apiserver.asking import Api

_LABELS = About._fields
_WITHOUT_DRY_RUN = tuple(name for name in _LABELS if name != "dry_run")


def collect(api: Api) -> Iterator[Metric]:
    """All of them, as they stand."""
    yield from _requests(api)
    yield from _in_flight(api)
    yield from _watches(api)
    yield from _objects(api)
    yield _build()


def _requests(api: Api) -> Iterator[Metric]:
    total = CounterMetricFamily(
        "apiserver_request",
        "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, "
        "scope, component, and HTTP response code.",
        labels=(*_LABELS, "code"),
    )
    durations = HistogramMetricFamily(
        "apiserver_request_duration_seconds",
        "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
        "subresource, scope and component.",
        labels=_LABELS,
    )
    sizes = HistogramMetricFamily(
        "apiserver_response_sizes",
        "[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope and "
        "component.",
        labels=_WITHOUT_DRY_RUN,
    )
    for about, series in list(api.meter.series.items()):
        for code, count in sorted(series.by_code.items()):
            total.add_metric((*about, str(code)), count)
        durations.add_metric(about, buckets(DURATIONS_S, series.durations), series.seconds)
        if about.verb in ("GET", "LIST") and not about.dry_run:
            labels = [value for name, value in zip(_LABELS, about, strict=True) if name != "dry_run"]
            sizes.add_metric(labels, buckets(SIZES_BYTES, series.sizes), series.size_total)
    yield from (total, durations, sizes)


def _in_flight(api: Api) -> Iterator[Metric]:
    """Writes that wait for the disk; of reads, this one: the server answers one after the other."""
    gauge = GaugeMetricFamily(
        "apiserver_current_inflight_requests",
        "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last "
        "second.",
        labels=("request_kind",),
    )
    gauge.add_metric(("mutating",), api.journal.waiting)
    gauge.add_metric(("readOnly",), 1)
    yield gauge
    longrunning = GaugeMetricFamily(
        "apiserver_longrunning_requests",
        "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, "
        "scope and component. Not all requests are tracked this way.",
        labels=_WITHOUT_DRY_RUN,
    )
    for about, count in list(api.meter.going_on.items()):
        labels = [value for name, value in zip(_LABELS, about, strict=True) if name != "dry_run"]
        longrunning.add_metric(labels, count)
    yield longrunning


def _watches(api: Api) -> Iterator[Metric]:
    events = CounterMetricFamily(
        "apiserver_watch_events",
        "[ALPHA] Number of events sent in watch clients",
        labels=("group", "version", "resource"),
    )
    for labels, count in sorted(api.watches.sent.items()):
        events.add_metric(labels, count)
    yield events


def _objects(api: Api) -> Iterator[Metric]:
    stored = GaugeMetricFamily(
        "apiserver_storage_objects",
        "[STABLE] [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the time "
        "of last check split by kind. In case of a fetching error, the value will be -1.",
        labels=("resource",),
    )
    resources = GaugeMetricFamily(
        "apiserver_resource_objects",
        "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the "
        "value will be -1.",
        labels=("group", "resource"),
    )
    for gk in sorted(api.store.kinds()):
        kind = kind_named(gk)
        count = api.store.count(gk)
        stored.add_metric((f"{kind.plural}.{kind.group}" if kind.group else kind.plural,), count)
        resources.add_metric((kind.group, kind.plural), count)
    yield from (stored, resources)
    size = GaugeMetricFamily(
        "apiserver_storage_size_bytes",
        "[STABLE] Size of the storage database file physically allocated in bytes.",
        labels=("storage_cluster_id",),
    )
    size.add_metric(("",), _size(api))
    yield size


def _size(api: Api) -> int:
    return sum(f.stat().st_size for f in api.journal.folder.iterdir() if f.is_file())


def _build() -> Metric:
    said = version()
    names = {
        "major": "major",
        "minor": "minor",
        "git_version": "gitVersion",
        "git_commit": "gitCommit",
        "git_tree_state": "gitTreeState",
        "build_date": "buildDate",
        "go_version": "goVersion",
        "compiler": "compiler",
        "platform": "platform",
    }
    build = GaugeMetricFamily(
        "kubernetes_build_info",
        "[ALPHA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, "
        "build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
        labels=tuple(names),
    )
    build.add_metric([said[name] for name in names.values()], 1)
    return build


def health(results: Iterable[tuple[str, str, bool]]) -> Metric:
    """`kubernetes_healthcheck`, of (check, page, whether it is well)."""
    found = GaugeMetricFamily(
        "kubernetes_healthcheck",
        "[STABLE] This metric records the result of a single healthcheck.",
        labels=("name", "type"),
    )
    for name, page, is_well in results:
        found.add_metric((name, page), float(is_well))
    return found
