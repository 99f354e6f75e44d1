"""Between a decision and its write: what was decided counts at once, and is taken back where it no longer applies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kueueworld import World, job, local_queue, node, priority_class, queue

from fairway.kube.objects import Key, meta_of
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.twin.distributions import constant
from fairway.twin.latency import NONE

SLOW = replace(NONE, api_write=constant(4 * SECOND_US))


def assumed() -> World:
    """A queue of 4 GPUs; `first` was given all of them, which nobody has written yet."""
    world = World(latency=SLOW).apply(node("n1", 8), queue("a", 4), local_queue("a")).run(30)
    world.apply(job("first", "a", gpus=4))
    for _ in range(40):
        world.run(1)
        if world.kueue.cycles.number and not world.admitted():
            break
    assert held(world) == 4
    assert world.admitted() == []
    return world


def held(world: World) -> int:
    world.kueue.backlog.accounts.settle()
    return sum(world.kueue.backlog.accounts.queues["a"].usage.values())


def key_of_workload(world: World, name: str) -> Key:
    meta = meta_of(world.workload(name))
    return Key(WORKLOAD, meta["namespace"], meta["name"])


def test_what_is_on_its_way_counts() -> None:
    world = assumed()
    world.apply(job("second", "a", gpus=4)).run(60)
    assert world.admitted() == ["first"]
    world.check_books()


@pytest.mark.parametrize("how", ["deactivated", "deleted"])
def test_what_no_longer_applies_gives_its_quota_back(how: str) -> None:
    world = assumed()
    key = key_of_workload(world, "first")
    if how == "deleted":
        world.delete("Job.batch", "first", "a")
        world.delete(WORKLOAD, key.name, key.namespace)
    else:
        world.patch(WORKLOAD, key.name, {"spec": {"active": False}}, key.namespace)
    world.apply(job("second", "a", gpus=4)).run(90)
    assert world.admitted() == ["second"]
    assert held(world) == 4
    world.check_books()


def test_one_that_comes_back_meanwhile_is_tried_anew() -> None:
    world = assumed()
    key = key_of_workload(world, "first")
    world.patch(WORKLOAD, key.name, {"spec": {"active": False}}, key.namespace)
    world.run(20)
    assert held(world) == 0
    world.patch(WORKLOAD, key.name, {"spec": {"active": True}}, key.namespace)
    world.run(60)
    assert world.admitted() == ["first"]
    world.check_books()


def test_a_preemption_on_its_way_is_not_asked_for_again() -> None:
    preempts = {"withinClusterQueue": "LowerPriority"}
    world = World(latency=SLOW).apply(node("n1", 8), priority_class("high", 100))
    world.apply(queue("a", 4, preemption=preempts), local_queue("a")).run(30)
    world.apply(job("low", "a", gpus=4)).run(60)
    assert world.admitted() == ["low"]
    world.apply(job("urgent", "a", gpus=4, priority="high"), job("more", "a", gpus=4, priority="high"))
    world.run(200)
    assert len(world.admitted()) == 1
    assert "low" not in world.admitted()
    assert len(world.events("Preempted")) == 1
    world.check_books()
