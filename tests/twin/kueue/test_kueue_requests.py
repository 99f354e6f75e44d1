"""Kueue's requests are held back at its rate: who waits, for how long, and what is written then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kueueworld import GPU, KUEUE, World, job, local_queue, node, priority_class, queue

from fairway.kube.objects import Obj, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.facts import conditions as conds
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.twin.kueue.requests import Requests
from fairway.twin.latency import NONE

WAITS = [
    ("no limit", 0, 0, [0, 0, 0], [0, 0, 0]),
    ("a burst goes out at once", 10, 3, [0, 0, 0], [0, 0, 0]),
    ("beyond the burst one each tenth of a second", 10, 2, [0, 0, 0, 0], [0, 0, 100_000, 200_000]),
    ("time fills the bucket", 10, 2, [0, 0, 100_000, 150_000], [0, 0, 100_000, 200_000]),
    ("never beyond the burst", 10, 1, [0, 5_000_000, 5_000_000], [0, 5_000_000, 5_100_000]),
]


@pytest.mark.parametrize(("qps", "burst", "asked", "want"), [w[1:] for w in WAITS], ids=[w[0] for w in WAITS])
def test_a_request_goes_out_when_there_is_a_token(
    qps: int, burst: int, asked: list[int], want: list[int]
) -> None:
    requests = Requests()
    requests.limit(qps, burst)
    assert [requests.take(WORKLOAD, at) for at in asked] == want


@pytest.mark.parametrize(
    ("qps", "is_limited"), [(0, False), (1, True), (1_000_000, True), (2_000_000, False)]
)
def test_a_rate_limits_unless_it_is_none_or_beyond_the_clock(qps: int, is_limited: bool) -> None:
    requests = Requests()
    assert not requests.is_limited and requests.take(WORKLOAD, 7) == 7
    requests.limit(qps, 1)
    assert requests.is_limited is requests.copy().is_limited is is_limited
    assert requests.take(WORKLOAD, 7) == 7
    assert requests.take(WORKLOAD, 7) == 7 + (SECOND_US // qps if qps else 0)


def test_each_kind_has_a_bucket_of_its_own() -> None:
    requests = Requests()
    requests.limit(1, 1)
    assert requests.take("A", 0) == requests.take("B", 0) == 0
    copy = requests.copy()
    assert requests.take("A", 0) == SECOND_US
    assert copy.take("A", 0) == SECOND_US


def _world(qps: int, burst: int) -> World:
    world = World(latency=replace(NONE, kueue_qps=qps, kueue_burst=burst))
    return world.apply(node("n1", 8), queue("main", 8), local_queue("main")).run(10)


def _admitted_at_s(world: World, names: list[str]) -> list[float]:
    """When each was first seen admitted, looked at every tenth of a second of ten."""
    seen: dict[str, float] = {}
    for tick in range(1, 101):
        world.run(0.1)
        for name in world.admitted():
            seen.setdefault(name, tick / 10)
    return [seen.get(name, 0.0) for name in names]


def _workload(queue_name: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {GPU: "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]}
    meta = {"name": "w", "namespace": queue_name}
    return {"apiVersion": KUEUE, "kind": "Workload", "metadata": meta, "spec": spec}


def test_admissions_beyond_the_rate_wait_and_are_dated_when_they_were_decided() -> None:
    names = ("a", "b", "c", "d")
    world = World(latency=replace(NONE, kueue_qps=1, kueue_burst=2))
    for name in names:
        world.apply(queue(name, 8), local_queue(name))
    decided_us = world.run(10).twin.now_us
    world.apply(*(_workload(name) for name in names))
    found: list[list[int]] = []
    for _ in range(4):
        world.run(0.5)
        admitted = [conds.find(status_of(w), "Admitted") for w in world.objects(WORKLOAD)]
        found.append([conds.since_us(c) - decided_us for c in admitted if c is not None])
        world.run(0.5)
    assert found == [[0, 0], [0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_without_a_limit_nobody_waits() -> None:
    world = _world(0, 0)
    names = [f"j{i}" for i in range(3)]
    at_s = _admitted_at_s(world.apply(*(job(n, "main", gpus=1) for n in names)), names)
    assert at_s == [0.1, 0.1, 0.1]


def test_an_eviction_waits_for_its_request_too() -> None:
    world = _world(1, 1)
    low, high = priority_class("low", 1), priority_class("high", 100)
    world.apply(low, high, queue("main", 8, preemption={"withinClusterQueue": "LowerPriority"})).run(10)
    world.apply(*(job(f"low{i}", "main", gpus=4, priority="low") for i in range(2))).run(30)
    assert world.admitted() == ["low0", "low1"]
    world.apply(job("high", "main", gpus=8, priority="high"))
    world.run(0.5)
    assert "high" not in world.admitted()
    assert len(world.events("Preempted")) < 2
    world.run(60)
    assert world.admitted() == ["high"]
    assert len(world.events("Preempted")) == 2
    world.check_books()


@pytest.mark.parametrize("seconds", [0.5, 1.7, 3.1])
def test_a_fork_goes_on_with_what_is_held_back(seconds: float) -> None:
    world = _world(1, 1)
    world.apply(*(job(f"j{i}", "main", gpus=2, runs="2s") for i in range(9))).run(seconds)
    fork = world.twin.fork()
    world.run(60)
    fork.run_for(60 * SECOND_US)
    assert fork.digest() == world.twin.digest()
