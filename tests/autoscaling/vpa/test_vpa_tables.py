"""VerticalPodAutoscaler's own test tables, played: `vpa_tables.yaml`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from fairway.autoscaling.vpa import updating
from fairway.autoscaling.vpa.histograms import Buckets, Histogram
from fairway.autoscaling.vpa.recommending import (
    Usage,
    _power,
    _scaled,
    add_cpu,
    add_memory,
    add_oom,
    recommend,
)
from fairway.autoscaling.vpa.updating import Priority
from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US, rfc3339

TABLES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "vpa_tables.yaml").read_text())
MI = 1024 * 1024
START_US = 10_000 * DAY_US


@dataclass(frozen=True)
class _Linear:
    """The buckets of VPA's tests of histograms: ten of one, and what is above."""

    count: int = 11

    def of(self, value: float) -> int:
        return max(min(int(value), self.count - 1), 0)

    def start(self, bucket: int) -> float:
        return float(bucket)


def _id(case: Any) -> str:
    return str(case[0])


def test_exponential_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairway.autoscaling.vpa import histograms

    told = TABLES["exponential"]
    monkeypatch.setattr(histograms, "_GROWTH", told["ratio"])
    buckets: Buckets = histograms._buckets(told["most"], told["first"])
    assert buckets.count == told["count"]
    assert [buckets.start(i) for i in range(told["count"])] == pytest.approx(told["starts"])
    assert [buckets.of(value) for value, _ in told["found"]] == [bucket for _, bucket in told["found"]]


@pytest.mark.parametrize("case", TABLES["percentiles"], ids=_id)
def test_percentiles(case: Any) -> None:
    _, samples, percentiles = case
    histogram = Histogram(cast(Buckets, _Linear()), reference_us=START_US, half_life_us=HOUR_US)
    for value, weight, half_lives in samples:
        histogram.add(value, weight, START_US + half_lives * HOUR_US)
    assert [histogram.percentile(p) for p, _ in percentiles] == [want for _, want in percentiles]


@pytest.mark.parametrize("case", TABLES["memory"], ids=_id)
def test_memory_peaks(case: Any) -> None:
    """What is left in the histogram are the peaks of the windows, each in its bucket."""
    _, steps, want = case
    usage = Usage()
    for step in steps:
        if isinstance(step, dict):
            ((at, requested),) = step.items()
            add_oom(usage, "p", requested * MI, START_US + int(at * DAY_US))
        else:
            add_memory(usage, "p", step[1] * MI, START_US + int(step[0] * DAY_US))
    found = sorted(bucket for bucket, weight in usage.memory.weights.items() if weight)
    assert found == sorted({usage.memory.buckets.of(size * MI) for size in want})
    peak = usage.peaks["p"]
    assert max(peak.bytes, peak.oom_bytes) == want[-1] * MI


@pytest.mark.parametrize("case", TABLES["confidence"], ids=_id)
def test_confidence(case: Any) -> None:
    _, base, multiplier, exponent, samples, want = case
    usage = Usage()
    for i in range(samples):
        add_cpu(usage, 1000, START_US + i * 2 * MINUTE_US)
    confidence = min((usage.last_us - usage.first_us) / DAY_US, usage.samples / 1440) if samples else 0.0
    if samples:
        assert confidence == 0.00625
    assert _scaled(base, _power(multiplier, exponent, confidence)) == pytest.approx(want, rel=1e-9)


def test_minimum_amounts_are_divided_among_containers() -> None:
    """TestMinResourcesApplied, TestMinResourcesSplitAcrossContainers."""
    for names in (["a"], ["a", "b"]):
        usages = {name: Usage() for name in names}
        for usage in usages.values():
            add_cpu(usage, 1, START_US)
            add_memory(usage, "p", 1_000_000, START_US)
        for found in recommend(usages).values():
            # What VPA keeps in thousandths of a core is cut off.
            assert found.target["cpu"] == math.floor(25 / len(names))
            assert found.target["memory"] == 250 * MI // len(names)


@pytest.mark.parametrize("case", TABLES["order"], ids=_id)
def test_order(case: Any) -> None:
    _, pods, want = case
    given = [({"metadata": {"name": n}}, Priority(False, up, difference)) for n, up, difference in pods]
    assert [p["metadata"]["name"] for p in updating.in_order(given)] == want


@pytest.mark.parametrize("case", TABLES["updated"], ids=_id)
def test_who_is_updated(case: Any) -> None:
    _, age_h, outside, difference, ran_minutes, want = case
    now_us = START_US + age_h * HOUR_US
    statuses = []
    if ran_minutes is not None:
        ended_us = now_us - 3 * MINUTE_US
        ended = {
            "reason": "OOMKilled",
            "finishedAt": rfc3339(ended_us),
            "startedAt": rfc3339(ended_us - ran_minutes * MINUTE_US),
        }
        statuses = [{"name": "c", "lastState": {"terminated": ended}}]
    pod = {"status": {"startTime": rfc3339(START_US), "containerStatuses": statuses}}
    found = updating.is_worth_it({"spec": {}}, pod, Priority(outside, True, difference), now_us)
    assert found == want


@pytest.mark.parametrize("case", TABLES["inplace"], ids=_id)
def test_in_place(case: list[Any]) -> None:
    _, told, may_disturb, minutes, want = case
    conditions = (
        [] if told is None else [{"type": told[0], "status": "True", "reason": told[1], "message": told[2]}]
    )
    pod = {"status": {"phase": "Running", "conditions": conditions}}
    now_us = START_US + round(minutes * MINUTE_US)
    assert updating.in_place(pod, may_disturb=may_disturb, since_us=START_US, now_us=now_us) == want
