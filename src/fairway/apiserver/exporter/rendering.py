"""How do families kept as data become prometheus-client's?

Unlike kube: a counter whose name does not end in `_total` is shown as untyped; prometheus-client can only write it so
without giving it another name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import Metric

from fairway.kube.metricfamilies import COUNTER, SUMMARY, Family, Observed, Sample

_TOTAL = "_total"


def rendered(
    families: Mapping[str, Family], samples: Iterable[Sample], observed: Iterable[Observed] = ()
) -> Iterator[Metric]:
    """Those that have something to say, in the order of `families`."""
    found: dict[str, Metric] = {}
    for sample in samples:
        family = families[sample.name]
        _of(found, family).add_sample(sample.name, _labels(family, sample.labels), sample.value)
    for seen in observed:
        _add_observed(_of(found, families[seen.name]), families[seen.name], seen)
    yield from (found[name] for name in families if name in found)


def _of(found: dict[str, Metric], family: Family) -> Metric:
    if family.name not in found:
        is_total = family.type == COUNTER and family.name.endswith(_TOTAL)
        kind = "unknown" if family.type == COUNTER and not is_total else family.type
        found[family.name] = Metric(family.name.removesuffix(_TOTAL if is_total else ""), family.help, kind)
    return found[family.name]


def _labels(family: Family, values: Sequence[str]) -> dict[str, str]:
    return dict(zip(family.labels, values, strict=True))


def _add_observed(metric: Metric, family: Family, seen: Observed) -> None:
    labels = _labels(family, seen.labels)
    if family.type == SUMMARY:
        for quantile, value in seen.quantiles:
            metric.add_sample(family.name, {**labels, "quantile": f"{quantile:g}"}, value)
    else:
        for bound, count in buckets(family.buckets, seen.counts):
            metric.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
    metric.add_sample(f"{family.name}_count", labels, sum(seen.counts))
    metric.add_sample(f"{family.name}_sum", labels, seen.total)


def buckets(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Counts of each bucket as Prometheus has them: all that are not larger."""
    found, total = [], 0
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        total += count
        found.append(("+Inf" if bound == float("inf") else _bound(bound), float(total)))
    return found


def _bound(value: float) -> str:
    """As Go prints it: `1`, `0.5`, `1e+06`."""
    return f"{value:g}"
