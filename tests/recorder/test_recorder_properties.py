"""Under random lives of pods and nodes: every account of GPU time is the same, and all intervals end."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.timestamps import SECOND_US
from fairway.recorder import Outcome
from fairway.recorder.series import POINTS
from recorded import Recorded

SEEDS = st.integers(0, 10**9)


def played(seed: int, *, steps: int = 60, is_finished: bool = True) -> Recorded:
    """A random run: pods come, are placed wherever, run, end or are deleted; nodes come, go and come back."""
    luck = random.Random(seed)
    world = Recorded()
    nodes: list[str] = []
    waiting: list[str] = []
    bound: list[str] = []
    running: list[str] = []
    job = world.workload("Job", "j")
    now = 0.0
    for step in range(steps):
        # Often several things at one moment.
        now += luck.choice([0, 0, 1, 7, 0.25, 3600])
        world.at(now)
        deed = luck.random()
        if deed < 0.12 or not nodes:
            name = luck.choice([f"n{len(nodes)}", *[n for n in ("n0", "n1") if n not in nodes]])
            if name not in nodes:
                nodes.append(name)
                world.node(name, gpus=luck.choice([0, 4, 8]))
        elif deed < 0.16:
            world.lose(nodes.pop(luck.randrange(len(nodes))))
        elif deed < 0.20:
            world.cordon(luck.choice(nodes), luck.random() < 0.5)
        elif deed < 0.5:
            name = f"p{step}"
            use = luck.choice(["", "", "40%", "0s:10%,30s:90%"])
            world.pod(name, gpus=luck.choice([0, 1, 4]), owner=luck.choice([None, job]), use=use)
            waiting.append(name)
        elif waiting and deed < 0.7:
            name = waiting.pop(luck.randrange(len(waiting)))
            world.bind(name, luck.choice([*nodes, "n9"]))
            bound.append(name)
        elif bound and deed < 0.85:
            name = bound.pop(luck.randrange(len(bound)))
            world.run(name)
            running.append(name)
        elif running:
            name = running.pop(luck.randrange(len(running)))
            luck.choice([world.succeed, world.fail, world.delete])(name)
    if is_finished:
        world.at(now + 10)
        for name in waiting:
            world.delete(name)
        for name in (*bound, *running):
            world.succeed(name)
        world.at(now + 20)
    return world


def accounts_of(outcome: Outcome) -> dict[str, int]:
    intervals = outcome.intervals
    spans = zip(
        intervals.column("start_us"), intervals.column("end_us"), intervals.column("gpu_milli"), strict=True
    )
    return {
        "intervals": sum(((outcome.ended_us if e is None else e) - s) * g for s, e, g in spans),
        "series": outcome.integrals["gpu_milli_allocated"],
        "pods": sum(outcome.pods.column("held_gpu_milli_us")),
        "nodes": sum(outcome.nodes.column("held_gpu_milli_us")),
    }


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.booleans())
def test_gpu_time_is_the_same_in_every_account(seed: int, is_finished: bool) -> None:
    outcome = played(seed, is_finished=is_finished).outcome()
    accounts = accounts_of(outcome)
    assert len(set(accounts.values())) == 1, accounts
    rows = sum((r.end_us - r.start_us) * r.gpu_milli_allocated for r in outcome.series)
    assert rows == pytest.approx(accounts["series"])
    used = outcome.integrals["gpu_milli_used"]
    assert used == sum(u or 0 for u in outcome.pods.column("used_gpu_milli_us"))
    assert used == sum(u or 0 for u in outcome.nodes.column("used_gpu_milli_us"))
    assert used <= outcome.integrals["gpu_milli_told"] <= outcome.integrals["gpu_milli_allocated"]


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_nodes_time_adds_up(seed: int) -> None:
    outcome = played(seed).outcome()
    for node in outcome.nodes:
        idle = (
            node.idle_no_demand_gpu_milli_us,
            node.idle_in_demand_gpu_milli_us,
            node.idle_closed_gpu_milli_us,
        )
        assert node.held_gpu_milli_us + sum(idle) == node.capacity_gpu_milli_us
    capacity = sum(outcome.nodes.column("capacity_gpu_milli_us"))
    assert capacity == outcome.integrals["gpu_milli_total"]


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_finished_run_leaves_no_interval_open(seed: int) -> None:
    outcome = played(seed).outcome()
    assert None not in outcome.intervals.column("end_us")
    last = outcome.series[-1]
    assert (last.gpu_milli_allocated, last.pods_pending, last.pods_running, last.queue_length) == (0, 0, 0, 0)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 50))
def test_a_fork_goes_on_as_the_original_would(seed: int, more: int) -> None:
    world = played(seed, is_finished=False)
    fork = Recorded.__new__(Recorded)
    fork.twin = world.twin.fork()
    recorder = fork.twin.host.parts["recorder"]
    fork.recorder = recorder  # type: ignore[assignment]
    before = world.outcome()
    for each in (world, fork):
        each.at((each.twin.now_us - before.began_us) / SECOND_US + more)
        each.pod("later", gpus=1)
        each.at((each.twin.now_us - before.began_us) / SECOND_US + more)
    ours, theirs = world.outcome(), fork.outcome()
    for table in ("pods", "workloads", "nodes", "intervals", "series", "scalings", "services", "breaks"):
        assert list(getattr(ours, table)) == list(getattr(theirs, table))
    assert replace(ours, pods=theirs.pods, workloads=theirs.workloads, nodes=theirs.nodes,
                   intervals=theirs.intervals, series=theirs.series,
                   scalings=theirs.scalings, services=theirs.services, breaks=theirs.breaks) == theirs  # fmt: skip


def test_long_runs_have_a_bounded_series_and_exact_integrals() -> None:
    world = Recorded().node("n1", gpus=8)
    for i in range(700):
        world.life(f"p{i}", "n1", 10 * i, 10 * i + 1 + i % 8, gpus=1 + i % 8)
    outcome = world.at(7100).outcome()
    assert len(outcome.series) == POINTS
    held = sum((1 + i % 8) ** 2 for i in range(700)) * 1000 * SECOND_US
    assert outcome.integrals["gpu_milli_allocated"] == held
    assert sum((r.end_us - r.start_us) * r.gpu_milli_allocated for r in outcome.series) == pytest.approx(held)
