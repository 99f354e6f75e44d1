"""The benchmarks run what they say: their runners on small worlds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairway.bench import kueue, million
from fairway.bench.kueuerunner import Runner, Wait, WorkloadClass
from fairway.kube.timestamps import SECOND_US
from fairway.twin.distributions import Distribution, parse_distribution
from fairway.twin.kueue.component import Kueue
from fairway.twin.latency import NONE, Latency
from fairway.twin.twin import Twin


def _ran(*classes: WorkloadClass, latency: Latency = NONE, seed: int = 0) -> tuple[Runner, Twin]:
    setup = kueue.Setup(1, 1, classes, real_s=1, limit_s=1, real_wait_s={})
    runner = Runner(("cq-0-cohort-0",), classes)
    twin = Twin(seed=seed, latency=latency, components=[runner, Kueue(kueue._SETTINGS)])
    twin.apply(kueue.objects(setup))
    twin.run_for(3600 * SECOND_US)
    return runner, twin


def test_workloads_that_fit_run_at_once_and_one_after_another() -> None:
    runner, twin = _ran(WorkloadClass("small", 20, 1000, 500, 50, 20))
    assert runner.finished == 20
    assert runner.waits()["small"] == Wait(20, 0.0, 0)
    assert runner.finished_us - (twin.now_us - 3600 * SECOND_US) == 20_500_000


def test_the_evicted_run_anew_and_all_finish() -> None:
    low = WorkloadClass("low", 40, 100, 5000, 1, 1)
    high = WorkloadClass("high", 4, 3000, 1000, 100, 20)
    runner, _ = _ran(low, high)
    waits = runner.waits()
    assert runner.finished == 44
    assert waits["low"].evictions > 0
    assert waits["high"].evictions == 0
    assert waits["low"].mean_s > waits["high"].mean_s


@pytest.mark.parametrize("seed", range(3))
def test_all_finish_whatever_requests_take(seed: int) -> None:
    low, high = WorkloadClass("low", 60, 50, 300, 1, 5), WorkloadClass("high", 20, 150, 400, 100, 20)
    runner, _ = _ran(low, high, latency=kueue.TEST_LATENCY, seed=seed)
    assert runner.finished == 80


def test_the_setups_are_those_of_kueue() -> None:
    assert {name: setup.size for name, setup in kueue.SETUPS.items()} == {"baseline": 15_000, "large": 50_000}


def test_the_calibration_is_documented(documented: str) -> None:
    assert isinstance(kueue._WRITE, Distribution)
    assert "apiWrite: lognormal(15ms, 1)" in documented
    assert parse_distribution("lognormal(15ms, 1)") == kueue._WRITE
    assert "kueueQPS: 50" in documented
    assert "kueueBurst: 100" in documented


@pytest.fixture
def documented(request: pytest.FixtureRequest) -> str:
    return str((request.config.rootpath / "docs/latency.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("run", [million.run_jobs, million.run_workloads])
def test_what_comes_in_a_month_goes_again(
    run: Callable[[int], million.Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(million, "NODES", 4)
    monkeypatch.setattr(million, "COHORTS", 1)
    monkeypatch.setattr(million, "QUEUES", 2)
    assert run(30).finished == 30
