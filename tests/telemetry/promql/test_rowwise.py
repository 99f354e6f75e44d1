"""Queries over tables of series give what the same queries give over series one by one."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from fairway.catalog.catalog import load_catalog
from fairway.telemetry.dcgm.identity import Device, Holder
from fairway.telemetry.dcgm.source import DcgmSource, Stay
from fairway.telemetry.gpus import FleetBuilder, Use
from fairway.telemetry.gpus.boards import board_of
from fairway.telemetry.gpus.fleet import TICK_US, Row
from fairway.telemetry.promql import Matrix, query_range
from fairway.telemetry.rules.dividing import evaluate_long
from fairway.telemetry.rules.evaluating import Outcome, evaluate
from fairway.telemetry.rules.reading import Group, rules_of
from fairway.telemetry.store import Matcher, MemoryStore, Series, Union, labels

TICK_MS = TICK_US // 1000
START = 59_000_000
UTIL = "DCGM_FI_DEV_GPU_UTIL"


class OneByOne:
    """The same series, never as tables."""

    def __init__(self, source: DcgmSource) -> None:
        self._source = source

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        return self._source.select(matchers, start_ms, end_ms)


def fleet(seed: int) -> DcgmSource:
    """Devices that come and go, with pods that return, share and leave pauses of any length."""
    rng = np.random.default_rng(seed)
    board = board_of(load_catalog(), "NVIDIA-H100-80GB-HBM3")
    builder = FleetBuilder([board], seed)
    devices, stays = [], []
    for row in range(int(rng.integers(2, 7))):
        born = START + int(rng.integers(0, 3) == 0) * int(rng.integers(1, 200))
        dies = START + (600 if rng.integers(3) else int(rng.integers(210, 500)))
        part = bool(rng.integers(4) == 0)
        builder.add(
            Row(0, row, row % 8, f"n{row}", born * TICK_US, dies * TICK_US, share=0.5 if part else 1.0)
        )
        devices.append(Device(f"n{row // 2}", row, board.name, *(("3g.40gb", "1") if part else ("", ""))))
        at = born
        while at < dies:
            until = at + int(rng.integers(1, 130))
            holder = Holder(f"team-{rng.integers(2)}", f"p{rng.integers(4)}-{row}")
            use = Use(at * TICK_US, until * TICK_US, int(rng.integers(5)), 0.8, 9_000.0, is_linked=True)
            builder.use(row, use)
            stays.append(Stay(row, at, until, holder))
            if rng.integers(5) == 0:
                stays.append(Stay(row, at, until, Holder("team-2", f"beside-{row}-{at}")))
            at = until + int(rng.choice([0, 1, 3, 40]))
    return DcgmSource(builder.build(), devices, stays, (START + 600) * TICK_MS)


QUERIES = (
    UTIL,
    f"{UTIL} > 40",
    f"40 <= bool {UTIL}",
    f'{UTIL}{{namespace="team-1"}} * 2 < 90',
    f'{UTIL}{{pod=~"p[01].*"}} == 0',
    "DCGM_FI_PROF_SM_ACTIVE > 0.1",
    "dcgm_gpu_temp >= 40",
    f"avg_over_time({UTIL}[20m])",
    f"avg_over_time({UTIL}[20m] offset 3m) < 30",
    f"max_over_time({UTIL}[7m]) - 10",
    "min_over_time(DCGM_FI_DEV_POWER_USAGE[1h]) > 100",
    f'sum_over_time({UTIL}{{namespace=""}}[11m])',
    f"count_over_time({UTIL}[45m])",
    f"sum by (namespace) ({UTIL})",
    f"avg({UTIL} < 60)",
    f"count without (gpu, UUID, device, pci_bus_id) (avg_over_time({UTIL}[30m]) < 50)",
    "sum(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION)",
    f"group by (pod) ({UTIL})",
)


def same(one: Matrix, other: Matrix) -> None:
    assert sorted(one.labels) == sorted(other.labels)
    places = [other.labels.index(found) for found in one.labels]
    present = other.present[places]
    assert (one.present == present).all()
    assert one.values[one.present] == pytest.approx(other.values[places][present], rel=1e-9)


@pytest.mark.parametrize("query", QUERIES)
def test_tables_answer_as_series_do(query: str) -> None:
    some = 0
    for seed in range(3):
        source = fleet(seed)
        for first, step in ((150, 1), (0, 4), (313, 2)):
            span = (START + first) * TICK_MS, (START + 600) * TICK_MS, step * TICK_MS
            one, other = (query_range(s, query, *span) for s in (source, OneByOne(source)))
            assert isinstance(one, Matrix) and isinstance(other, Matrix)
            same(one, other)
            some += len(one.labels)
    assert some


def test_steps_between_samples_and_series_beside_the_tables() -> None:
    source, beside = fleet(3), MemoryStore()
    times = np.arange(START, START + 600, dtype=np.int64) * TICK_MS
    beside.extend(labels(UTIL, {"gpu": "x", "namespace": "team-1"}), times, np.arange(600) % 100 * 1.0)
    tabled, plain = Union((source, beside)), Union((OneByOne(source), beside))
    for query in QUERIES:
        for shift, step_ms in ((0, TICK_MS), (7_000, 45_000)):
            span = START * TICK_MS + shift, (START + 600) * TICK_MS, step_ms
            one, other = (query_range(s, query, *span) for s in (tabled, plain))
            assert isinstance(one, Matrix) and isinstance(other, Matrix)
            same(one, other)


def rules(interval: str) -> list[Group]:
    spec = {
        "name": "devices",
        "interval": interval,
        "rules": [
            {"record": "fleet:util", "expr": f"avg({UTIL})"},
            {"alert": "Idle", "expr": f"avg_over_time({UTIL}[15m]) < 20", "for": "10m"},
            {"alert": "Low", "expr": f"{UTIL} < 5", "for": "2m", "keep_firing_for": "6m"},
            {"alert": "Any", "expr": f"{UTIL} >= 0", "labels": {"pod": "all", "gpu": ""}},
            {"alert": "Fleet", "expr": "fleet:util < 30", "annotations": {"summary": "{{ $value }}"}},
        ],
    }
    return rules_of({"kind": "PrometheusRule", "metadata": {"name": "r"}, "spec": {"groups": [spec]}})[0]


def shown(found: Outcome) -> tuple[object, ...]:
    alerts = [
        (a.rule.alert, a.labels, a.active_ms, a.fired_ms, a.ended_ms, round(a.value, 6), a.annotations)
        for a in found.alerts
    ]
    failures = [(f.rule.name, f.first_ms, f.times, f.message) for f in found.failures]
    series = [
        (s.labels, s.times.tolist(), np.nan_to_num(s.values, nan=-1.0).round(6).tolist())
        for s in found.recorded.select((), 0, 2**50)
    ]
    return alerts, sorted(failures), sorted(series), found.evaluations


@pytest.mark.parametrize("interval", ["30s", "1m", "90s"])
def test_rules_over_tables_and_in_two_processes(interval: str) -> None:
    source = fleet(5)
    span = START * TICK_MS, (START + 600) * TICK_MS
    groups = rules(interval)
    plain = shown(evaluate(groups, OneByOne(source), *span))
    assert shown(evaluate(groups, source, *span)) == plain
    assert shown(evaluate_long(groups, source, *span, worth=0)) == plain
    assert plain[0]
