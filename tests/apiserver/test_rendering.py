"""Families kept as data as Prometheus' text has them, each type with its samples."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest

from fairway.apiserver.exporter.rendering import buckets, rendered
from fairway.kube.metricfamilies import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Family, Observed, Sample

FAMILIES = {
    family.name: family
    for family in (
        Family("last_seconds", GAUGE, (), "Never said."),
        Family("made_total", COUNTER, ("of",), "Counted."),
        Family("made", COUNTER, ("of",), "Counted, by a name that is no counter's."),
        Family("here_total", GAUGE, (), "A gauge by a counter's name."),
        Family("wait_seconds", HISTOGRAM, ("queue",), "Of buckets.", (0.5, 1, 1e6)),
        Family("took_seconds", SUMMARY, (), "Of quantiles."),
    )
}
TEXT = """\
# HELP made_total Counted.
# TYPE made_total counter
made_total{of="a"} 2.0
made_total{of="b"} 3.0
# HELP made Counted, by a name that is no counter's.
# TYPE made untyped
made{of="a"} 1.0
# HELP here_total A gauge by a counter's name.
# TYPE here_total gauge
here_total 7.0
# HELP wait_seconds Of buckets.
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.5",queue="q"} 1.0
wait_seconds_bucket{le="1",queue="q"} 1.0
wait_seconds_bucket{le="1e+06",queue="q"} 3.0
wait_seconds_bucket{le="+Inf",queue="q"} 6.0
wait_seconds_count{queue="q"} 6.0
wait_seconds_sum{queue="q"} 12.5
# HELP took_seconds Of quantiles.
# TYPE took_seconds summary
took_seconds{quantile="0.5"} 1.0
took_seconds{quantile="0.99"} 4.0
took_seconds_count 5.0
took_seconds_sum 9.0
"""


class _Page:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def test_every_type_as_text_in_the_order_of_the_families() -> None:
    samples = [
        Sample("here_total", (), 7),
        Sample("made", ("a",), 1),
        Sample("made_total", ("a",), 2),
        Sample("made_total", ("b",), 3),
    ]
    seen = [
        Observed("took_seconds", (), (5,), 9.0, ((0.5, 1.0), (0.99, 4.0))),
        Observed("wait_seconds", ("q",), (1, 0, 2, 3), 12.5),
    ]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(list(rendered(FAMILIES, samples, seen))))
    assert generate_latest(registry).decode() == TEXT
    assert list(rendered(FAMILIES, [])) == []


def test_buckets_add_up() -> None:
    assert buckets((0.1,), (2, 3)) == [("0.1", 2.0), ("+Inf", 5.0)]
    assert buckets((), (4,)) == [("+Inf", 4.0)]
