"""Assertions over an outcome made by hand: every measure has a value one can compute in one's head."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fairway.kube.objects import Key
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.recorder.tables import (
    IntervalRow,
    NodeRow,
    Outcome,
    PodRow,
    SeriesRow,
    Table,
    WorkloadRow,
)
from fairway.scenario.assertions import parse
from fairway.scenario.assertions.evidence import Evidence
from fairway.scenario.assertions.grammar import Assertion, Reaching
from fairway.scenario.assertions.judging import Verdict, judge

START = 1_000 * HOUR_US
END = START + 4 * HOUR_US


def _filled(cls: type[Any], **known: Any) -> Any:
    """A row whose other fields are empty."""
    values = {}
    for field in dataclasses.fields(cls):
        kind = str(field.type)
        empty: Any = "" if kind == "str" else {} if "Mapping" in kind else () if "tuple" in kind else 0
        if "None" in kind:
            empty = None
        if kind == "bool":
            empty = False
        values[field.name] = known.get(field.name, empty)
    return cls(**values)


def pod(name: str, start_m: int | None, end_m: int | None, **known: Any) -> PodRow:
    """Created at minute `created`, bound and Running at `start_m`."""
    created_us = START + known.pop("created", 0) * MINUTE_US
    started = None if start_m is None else START + start_m * MINUTE_US
    ended = None if end_m is None else START + end_m * MINUTE_US
    values: dict[str, Any] = {
        "namespace": "team-a",
        "phase": "Succeeded" if ended else "Running" if started else "Pending",
        "gpu_milli": 1000,
        "cpu_milli": 4000,
        "memory_bytes": 2**30,
        "scheduled_us": started,
    }
    values.update(known)
    held = 0 if started is None else values["gpu_milli"] * ((ended or END) - started)
    return _filled(  # type: ignore[no-any-return]
        PodRow,
        name=name,
        created_us=created_us,
        started_us=started,
        finished_us=ended,
        held_gpu_milli_us=held,
        **values,
    )


PODS = [
    pod("a", 1, 61, priority_class="prod", labels={"team": "x"}),
    pod("b", 2, 122, priority_class="prod"),
    pod("c", 3, 63, priority_class="batch", gpu_milli=2000, phase="Failed", reason="OOMKilled"),
    pod("d", 60, 180, priority_class="batch", namespace="serving", created=30),
    pod("e", None, None, priority_class="batch", unschedulable="0/2 nodes are available"),
    pod("f", 10, 20, disruption="PreemptionByScheduler", preempted_by="team-a/b", phase="Failed", node="n1"),
]


def _intervals() -> list[IntervalRow]:
    return [
        _filled(
            IntervalRow,
            pod=i,
            namespace=p.namespace,
            name=p.name,
            gpu_milli=p.gpu_milli,
            cpu_milli=p.cpu_milli,
            memory_bytes=p.memory_bytes,
            start_us=p.scheduled_us,
            end_us=p.finished_us,
        )
        for i, p in enumerate(PODS)
        if p.scheduled_us is not None
    ]


def _workload(name: str, started_m: int, ended_m: int | None, outcome: str, **known: Any) -> WorkloadRow:
    values: dict[str, Any] = {"kind": "Job", "namespace": "team-a", "pods": 2, **known}
    return _filled(  # type: ignore[no-any-return]
        WorkloadRow,
        name=name,
        created_us=START,
        started_us=START + started_m * MINUTE_US,
        finished_us=None if ended_m is None else START + ended_m * MINUTE_US,
        outcome=outcome,
        **values,
    )


def _node(name: str, created_m: int, deleted_m: int | None) -> NodeRow:
    return _filled(  # type: ignore[no-any-return]
        NodeRow,
        name=name,
        gpu_milli=4000,
        cpu_milli=16_000,
        memory_bytes=64 * 2**30,
        gpu_model="H100",
        created_us=START + created_m * MINUTE_US,
        deleted_us=None if deleted_m is None else START + deleted_m * MINUTE_US,
    )


def _series(start_m: int, end_m: int, **known: Any) -> SeriesRow:
    return _filled(SeriesRow, start_us=START + start_m * MINUTE_US, end_us=START + end_m * MINUTE_US, **known)  # type: ignore[no-any-return]


def evidence(reached: Any = None) -> Evidence:
    series = [
        _series(
            0,
            120,
            gpu_milli_total=8000,
            gpu_milli_used=2000,
            gpu_milli_told=4000,
            queue_length=3,
            fragmentation=0.5,
        ),
        _series(120, 240, gpu_milli_total=8000, gpu_milli_used=6000, gpu_milli_told=8000, queue_length=1),
    ]
    outcome = Outcome(
        began_us=START,
        ended_us=END,
        status="complete",
        pods=Table.of(PodRow, PODS),
        workloads=Table.of(
            WorkloadRow,
            [
                _workload("train", 1, 61, "Complete"),
                _workload("sweep", 2, None, "Running"),
                _workload("inner", 2, 10, "Complete", owner_kind="CronJob"),
                _workload("web", 1, None, "Running", kind="Deployment"),
            ],
        ),
        nodes=Table.of(NodeRow, [_node("n1", 0, None), _node("n2", 0, 120)]),
        intervals=Table.of(IntervalRow, _intervals()),
        series=Table.of(SeriesRow, series),
        events=(),
        reasons=(),
        peaks={},
        integrals={},
    )
    return Evidence(outcome, reached or {}, lost_work_us=30 * SECOND_US)


def verdict(text: str, reached: Any = None) -> Verdict:
    return judge(Assertion(text, parse(text)), evidence(reached))


# text → passed, measured as shown, samples (None: not compared)
MEASURES: list[tuple[str, bool, str, int | None]] = [
    # Waits: 1, 2, 3, 30, 10 minutes, and e has waited 240 so far.
    ("wait p50 <= 3m", True, "3m", 6),
    ("wait p95 < 10m", False, "4h", 6),
    ('wait max < 3m where priorityClass == "prod"', True, "2m", 2),
    ("wait min == 1m", True, "1m", 6),
    ("wait mean < 48m", True, "47m40s", 6),
    ('wait max < 1h where namespace in ("serving")', True, "30m", 1),
    ('wait max < 1h where label("team") == "x"', True, "1m", 1),
    ("wait max < 1h between 20m and 40m", True, "30m", 1),
    ('wait max < 1h where namespace == "nowhere"', False, "nothing", 0),
    ("scheduling wait p50 <= 3m", True, "3m", 6),
    ("startup max == 0s", True, "0s", 5),
    ("run time max == 2h", True, "2h", 5),
    ("restarts total == 0", True, "0", 6),
    # Workloads that nobody owns: train, sweep (still running) and web.
    ("job wait max == 2m", True, "2m", 3),
    ('turnaround max < 2h where name == "train"', True, "1h1m", 1),
    ("turnaround max < 2h", False, "4h", 3),
    ("makespan == 1h1m", True, "1h1m", 1),
    # GPU·minutes held: a 60, b 120, c 120, d 120, f 10 = 430. Capacity: 4 × 240 + 4 × 120 = 1440.
    ("gpu allocated > 29%", True, "29.9%", None),
    ("gpu allocated max >= 60%", True, "62.5%", None),
    ("gpu allocated max == 5 GPUs", True, "5 GPUs", None),
    ("gpu allocated min == 0 GPUs", True, "0 GPUs", None),
    ("always gpu allocated <= 5 GPUs", True, "5 GPUs", None),
    ("always gpu allocated < 5 GPUs", False, "5 GPUs", None),
    ('gpu allocated max == 2 GPUs where priorityClass == "prod"', True, "2 GPUs", None),
    ("gpu allocated == 0% after 3h", True, "0.0%", None),
    ("gpu allocated max == 1 GPUs between 2h10m and 3h", True, "1 GPUs", None),
    ("cpu allocated max == 16 CPUs", True, "16 CPUs", None),
    ("memory allocated max == 4Gi", True, "4.0Gi", None),
    ("gpu used == 50%", True, "50.0%", None),
    ("gpu used max == 6 GPUs", True, "6 GPUs", None),
    ("gpu efficiency > 60%", True, "62.5%", None),
    ("fragmentation == 50%", True, "50.0%", None),
    ("queue length max == 3", True, "3", None),
    ("gpu pending max == 6 GPUs", True, "6 GPUs", None),
    ("pending max == 5", True, "5", None),
    ("always pending < 5", False, "5", None),
    ("always pending >= 1", True, "1", None),
    ('pending max == 2 where priorityClass == "prod"', True, "2", None),
    ("running max == 4", True, "4", None),
    ("starting max == 0", True, "0", None),
    ("nodes min == 1", True, "1", None),
    ("nodes == 1.5", True, "1.5", None),
    ("lost work < 1m", True, "30s", 1),
    # c and f wasted 120 + 10 of 430.
    ("wasted gpu < 31%", True, "30.2%", 6),
    ("count(pods) == 6", True, "6", 6),
    ("count(started) == 5", True, "5", 6),
    ("count(unschedulable) == 0", False, "1", 6),
    ("count(evicted) == 1", True, "1", 6),
    ("count(preempted) == 0", False, "1", 6),
    ("count(failed) == 2", True, "2", 6),
    ("count(failed) == 1 before 30m", True, "1", 6),
    ("share(failed) < 34%", True, "33.3%", 6),
    ('share(failed) < 34% where namespace == "nowhere"', False, "nothing", 0),
    ('count(evicted) == 0 where namespace == "nowhere"', True, "0", 0),
    ("count(jobs) == 2", True, "2", 3),
    ("count(workloads) == 3", True, "3", 3),
    ("count(unfinished jobs) == 2", True, "2", 3),
    ("count(completed) == 1", True, "1", 3),
    ('count(nodes) == 2 where gpuModel like "H*"', True, "2", 2),
    ("count(pods) == 1 where gpus >= 2", True, "1", 1),
    ("count(pods) == 1 where wait > 20m", True, "1", 1),
]


@pytest.mark.parametrize(("text", "passed", "shown", "samples"), MEASURES, ids=[m[0] for m in MEASURES])
def test_measures(text: str, passed: bool, shown: str, samples: int | None) -> None:
    found = verdict(text)
    assert (found.passed, found.shown) == (passed, shown)
    assert samples is None or found.samples == samples


def test_a_failure_names_the_three_worst() -> None:
    found = verdict("wait p50 < 2m")
    assert found.worst == ("team-a/e: at least 4h", "serving/d: 30m", "team-a/f: 10m")
    assert found.note == "1 of 6 not over: counted as they stood at the end"


def test_a_count_names_members_and_why() -> None:
    assert verdict("count(failed) == 0").worst == ("team-a/c: OOMKilled", "team-a/f: PreemptionByScheduler")


def test_a_curve_names_the_moment() -> None:
    assert verdict("always pending < 5").worst == ("5 at 0s",)
    assert verdict("gpu allocated max < 5 GPUs").worst == ("5 GPUs at 10m",)


def test_a_window_after_the_end_says_so() -> None:
    found = verdict("gpu allocated > 1% after 9h")
    assert not found.passed and found.note == "the run ended before the window began"


TRAIN = Key("Job.batch", "default", "train")
OTHER = Key("Job.batch", "default", "other")


def _reaching(text: str, found: dict[Key, tuple[int, int | None]]) -> Verdict:
    body = parse(text)
    assert isinstance(body, Reaching)
    return verdict(text, {body: found})


def test_within_counts_from_creation_and_before_from_the_start() -> None:
    found = {TRAIN: (START + HOUR_US, START + 3 * HOUR_US)}
    assert _reaching("eventually job/train Complete within 2h", found).passed
    late = _reaching("eventually job/train Complete before 2h", found)
    assert not late.passed
    assert late.shown == "3h" and late.worst == ("Job/default/train: after 3h",)


def test_eventually_wants_every_match() -> None:
    found = {TRAIN: (START, START + HOUR_US), OTHER: (START, None)}
    missing = _reaching("eventually job/* Complete", found)
    assert not missing.passed and missing.worst == ("Job/default/other: not in 4h",)


def test_eventually_wants_something_there_and_never_does_not() -> None:
    assert not _reaching("eventually job/* Complete", {}).passed
    assert _reaching("never job/* Complete", {}).passed


def test_never_names_who_did() -> None:
    found = _reaching("never job/train Failed", {TRAIN: (START, START + 90 * MINUTE_US)})
    assert not found.passed and found.worst == ("Job/default/train Failed at 1h30m",)
