"""PromQL asked inside a twin, in virtual time: what KEDA's prometheus trigger, Prometheus Adapter's rules and the
AnalysisRuns of a rollout ask, asked of one source.

What is there: the series, queues and pods of loads (series with their past), served models
(`twin.serving.series`), every GPU as dcgm-exporter has it, kube-state-metrics, and what the cluster's own rules record
(`twin.rules`). For all but these nothing is kept: what can be
derived of the past is derived when it is asked for, and what cannot has a sample of now.

Unlike Prometheus: loads are sampled when they are asked for and every 15 s before, not by a scrape's schedule; of GPUs
the holders of now are known, with what they did since they began; Kubernetes' objects have no past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fairway.autoscaling.source import NEVER_US
from fairway.kube.timestamps import SECOND_US
from fairway.telemetry.dcgm.counters import field_of
from fairway.telemetry.promql import Result, parse, query_instant
from fairway.telemetry.promql.nodes import Aggregation, Binary, Call, Negation, Node, Selector, Subquery
from fairway.telemetry.statemetrics.families import families
from fairway.telemetry.statemetrics.page import own_labels
from fairway.telemetry.store import NAME, Labels, Matcher, Series, fits, labels, name_of
from fairway.twin.components import Host

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling
    from fairway.twin.rules.component import Rules
    from fairway.twin.serving.component import Serving

SCRAPE_US: Final = 15 * SECOND_US
# How often rules are evaluated.
_EVALUATED_US: Final = 30 * SECOND_US
_MILLI: Final = 1000
# Samples of one series of a load: a day of them.
_SAMPLES_MOST: Final = 5_760
_OF_TIME: Final = frozenset(
    (
        *("time", "timestamp", "minute", "hour", "day_of_week", "day_of_month", "day_of_year"),
        *("days_in_month", "month", "year"),
    )
)


class Asked(NamedTuple):
    """An answer, and until when nobody needs to ask again. `missing`: metrics that nothing here has."""

    result: Result
    until_us: int
    missing: tuple[str, ...]


def ask(host: Host, query: str) -> Asked:
    """As of now. Raises: PromQLError."""
    now_us = host.loop.now_us
    node, source = parse(query), TwinSource(host)
    source.is_of_now = _is_of_now(node)
    result = query_instant(source, query, now_us // 1000)
    until_us = source.until_us if source.is_of_now else now_us + SCRAPE_US
    return Asked(result, until_us, tuple(sorted(source.missing)))


def _is_of_now(node: Node) -> bool:
    """Whether it looks at nothing but the last samples, so that it changes only with them."""
    match node:
        case Selector():
            return not node.range_ms and not node.offset_ms and node.at is None
        case Subquery():
            return False
        case Negation():
            return _is_of_now(node.inner)
        case Binary():
            return _is_of_now(node.left) and _is_of_now(node.right)
        case Aggregation():
            return _is_of_now(node.inner) and (node.parameter is None or _is_of_now(node.parameter))
        case Call():
            return node.name not in _OF_TIME and all(map(_is_of_now, node.arguments))
        case _:
            return True


class TwinSource:
    """Everything there is, for one question. `until_us`: when something that was selected may be another."""

    def __init__(self, host: Host, with_rules: bool = True) -> None:
        self._host = host
        self._rules: Rules | None = host.parts.get("prometheus") if with_rules else None  # type: ignore[assignment]
        self._now_us = host.loop.now_us
        self.until_us = NEVER_US
        self.is_of_now = False
        """Whether nothing but the last sample of each series is looked at."""
        self.missing: set[str] = set()

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        name = name_of(matchers)
        known = self._names() if name is None else (name,)
        wanted = [m for m in matchers if m.name == "__name__"]
        for one in known:
            if name is None and not all(m.matches(one) for m in wanted):
                continue
            makers = [make for has, make in self._makers() if has(one)]
            if not makers:
                self.missing.add(one)
            for make in makers:
                for found in make(one, matchers, start_ms, end_ms):
                    if fits(found.labels, matchers):
                        yield found

    def _makers(self) -> Iterator[tuple[Callable[[str], bool], Callable[..., Iterator[Series]]]]:
        """Who has which metrics."""
        room = self._room
        if room is not None:
            yield room.loads.has, self._of_loads
        serving = self._serving
        if serving is not None:
            yield lambda name: name in _served_names(), self._of_servers
        if self._rules is not None:
            yield self._rules.has, self._of_rules
        yield lambda name: field_of(name) is not None, self._of_gpus
        yield lambda name: name in families(), self._of_objects

    def _names(self) -> list[str]:
        """Of loads, served models and rules: what a pattern of names may mean."""
        found = set(self._room.loads.names()) if self._room is not None else set()
        found |= set(_served_names()) if self._serving is not None else set()
        return sorted(found | (set(self._rules.names()) if self._rules is not None else set()))

    @property
    def _room(self) -> Autoscaling | None:
        return self._host.parts.get("autoscaling")  # type: ignore[return-value]

    @property
    def _serving(self) -> Serving | None:
        return self._host.parts.get("serving")  # type: ignore[return-value]

    # Loads

    def _of_loads(
        self, name: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> Iterator[Series]:
        assert self._room is not None
        loads, now_ms = self._room.loads, self._now_us // 1000
        first = end_ms if self.is_of_now else max(start_ms, end_ms - _SAMPLES_MOST * SCRAPE_US // 1000)
        for given, one in loads.described(name):
            about = {} if one.about is None else {one.about[0].lower(): one.about[1]}
            found = _labelled(name, {**dict(one.labels), **about, "namespace": one.namespace})
            if not fits(found, matchers):
                continue
            times = _sampled(max(first, given.began_us // 1000), min(end_ms, now_ms), now_ms)
            values = [one.at(at * 1000 - given.began_us) / _MILLI for at in times.tolist()]
            self._holds(loads.until_us(given, one))
            yield Series(found, times, np.array(values, np.float64))
        now = np.array([now_ms], np.int64)
        for given_labels, value in loads.of_now(name):
            if start_ms <= now_ms <= end_ms and fits(found := _labelled(name, given_labels), matchers):
                self._holds(value.until_us)
                yield Series(found, now, np.array([value.milli / _MILLI]))

    def _holds(self, until_us: int) -> None:
        self.until_us = min(self.until_us, until_us)

    # Others

    def _of_rules(
        self, name: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> Iterator[Series]:
        assert self._rules is not None
        self._holds((self._now_us // _EVALUATED_US + 1) * _EVALUATED_US)
        named = [*matchers, Matcher(NAME, "=", name)]
        yield from self._rules.select(named, start_ms, end_ms)

    def _of_servers(
        self, name: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> Iterator[Series]:
        from fairway.twin.serving.series import ServingSource

        assert self._serving is not None
        self._serving.finish()
        self._holds(self._now_us + SCRAPE_US)
        yield from ServingSource(self._serving).select(matchers, start_ms, end_ms)

    def _of_gpus(
        self, name: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> Iterator[Series]:
        from fairway.twin.gpubreaks import broken_gpus
        from fairway.twin.gpupages import GpuPages

        self._holds(self._now_us + 2 * SCRAPE_US)
        pages = GpuPages(self._host.store, lambda: broken_gpus(self._host.parts))
        yield from pages.source(self._now_us // 1000).select(matchers, start_ms, end_ms)

    def _of_objects(
        self, name: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> Iterator[Series]:
        now_ms = self._now_us // 1000
        self._holds(self._now_us + 2 * SCRAPE_US)
        if not start_ms <= now_ms <= end_ms:
            return
        now, family = np.array([now_ms], np.int64), families()[name]
        scraped = {"job": "kube-state-metrics", "instance": "kube-state-metrics:8080"}
        for obj in self._host.store.walk(family.gk):
            own = {**own_labels(family.gk, obj), **scraped}
            for more, value in family.read(obj):
                yield Series(labels(name, {**own, **more}), now, np.array([value], np.float64))


def _labelled(name: str, given: dict[str, str]) -> Labels:
    return labels(name, {key: value for key, value in given.items() if key != "__name__"})


def _sampled(first_ms: int, last_ms: int, now_ms: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Now, and every 15 s before it, within a span."""
    step = SCRAPE_US // 1000
    begin = now_ms - (now_ms - first_ms) // step * step
    return np.arange(begin, last_ms + 1, step, dtype=np.int64)


def _served_names() -> tuple[str, ...]:
    from fairway.twin.serving.series import NAMES

    return NAMES
