"""Futures played over states of nodes start everything when all engines do.

Of pods of one object that end on several nodes in one instant, all engines take one before the other: worlds here have
objects of one pod, and where gangs are, most starts agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from fairway.answers.forecasting.forecast import base_of
from fairway.answers.forecasting.futures import Block, QuickPlayer, TwinPlayer
from fairway.answers.forecasting.history import PastJob
from fairway.answers.forecasting.situation import Played, Situation, situation_of
from fairway.ground.ground import Moment
from fairway.kube.objects import Obj
from fairway.kube.timestamps import DAY_US, SECOND_US
from fairway.traces.arrival import Arrivals, objects_for
from fairway.traces.jobs import JobTrace, TraceJob
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

# A pod that found no room is tried again at most so long after room appears.
BACKOFF_US = 11 * SECOND_US


class World:
    """Nodes of different sizes, jobs that run and wait, and others to come, each with its run time. `is_tainted`: one
    node would rather be left alone."""

    def __init__(self, seed: int, *, is_tainted: bool = False, pods: tuple[int, ...] = (1,)) -> None:
        self.pods = pods
        random = Random(seed)
        self.twin = Twin(seed=seed, latency=latency_named("zero"), components=standard_components())
        nodes = [_node(n, random) for n in range(random.randrange(2, 5))]
        if is_tainted:
            nodes[0]["spec"] = {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}
        self.twin.apply(nodes)
        self.twin.run_for(0)
        for number in range(random.randrange(8, 20)):
            source = Arrivals(JobTrace("world", ()), "world")
            self.twin.apply(objects_for(source, self._job(random, f"job-{number}", self.twin.now_us)))
            self.twin.run_for(60 * SECOND_US)
        self.moment = Moment(self.twin)
        self.situation: Situation = situation_of(self.twin.store, self.twin.now_us)
        self.run_us = [random.randrange(7_200, 90_000) * SECOND_US for _ in self.situation.items]
        coming = [self._job(random, f"new-{n}", self.twin.now_us) for n in range(random.randrange(12))]
        self.jobs = [PastJob(f"Job/default/{job.job_id}", job) for job in coming]
        self.block = sorted(
            (random.randrange(60, 40_000) * SECOND_US, n, random.randrange(600, 40_000) * SECOND_US)
            for n in range(len(coming))
        )

    def play(self, player: QuickPlayer | TwinPlayer, seed: int = 0) -> Played:
        blocks: Iterator[Block] = iter([(9 * DAY_US, self.block)])
        return player.play(self.run_us, blocks, until_us=9 * DAY_US, grid_us=(), seed=seed)

    def _job(self, random: Random, name: str, at_us: int) -> TraceJob:
        gpus, pods = random.choice((0, 1, 1, 2, 4, 8)), random.choice(self.pods)
        cpu = random.choice((2, 4)) * max(gpus, 1)
        return TraceJob(name, at_us, 99 * DAY_US, 1000 * gpus, 1000 * cpu, max(gpus, 1) << 32, pods)

    def quick(self) -> QuickPlayer:
        return QuickPlayer(self.twin.store, self.situation, self.jobs)


def _node(number: int, random: Random) -> Obj:
    gpus = random.choice((4, 8))
    cpu = 8 * gpus + 16 * random.randrange(1, 9)
    allocatable = {"cpu": str(cpu), "memory": f"{64 * gpus + 7 * number}Gi", "pods": "110"}
    allocatable["nvidia.com/gpu"] = str(gpus)
    meta = {"name": f"node-{number}", "labels": {"kubernetes.io/hostname": f"node-{number}"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}


def _is_clear(found: Played) -> bool:
    """Whether nothing happens so close to something else that a back-off could decide."""
    ends = sorted({*found.start_us, *found.finish_us} - {0, -1})
    return all(b - a > BACKOFF_US for a, b in pairwise(ends))


def compare(world: World) -> list[bool]:
    """Of all that started after a wait, whether it did so at the same time in both; empty: nothing can be compared."""
    player = world.quick()
    found = [world.play(player, draw) for draw in range(3)]
    # Where it matters which of equally good nodes is drawn, two runs of all engines differ, too.
    if any(one != found[0] for one in found) or not _is_clear(found[0]):
        return []
    twin = world.play(TwinPlayer(base_of(world.moment, world.situation), world.situation, world.jobs))
    pairs = zip(found[0].start_us, twin.start_us, strict=True)
    return [abs(quick_us - twin_us) <= BACKOFF_US for quick_us, twin_us in pairs if twin_us or quick_us]


def test_states_of_nodes_start_everything_when_all_engines_do() -> None:
    compared = 0
    for seed in range(24):
        found = compare(World(seed))
        assert all(found), seed
        compared += len(found)
    assert compared >= 30


def test_of_gangs_most_start_at_the_same_time() -> None:
    found = [same for seed in range(24, 36) for same in compare(World(seed, pods=(1, 1, 2)))]
    assert len(found) >= 20 and sum(found) >= 0.8 * len(found)


def test_where_states_do_not_speak_kube_scheduler_is_asked_and_says_the_same() -> None:
    compared = 0
    for seed in range(100, 108):
        world = World(seed, is_tainted=True)
        assert world.quick().why_asked == "pods prefer some nodes"
        found = compare(world)
        assert all(found), seed
        compared += len(found)
    assert compared >= 10


def test_a_future_leaves_the_board_as_it_was() -> None:
    for is_tainted in (False, True):
        world = World(3, is_tainted=is_tainted)
        player = world.quick()
        assert world.play(player) == world.play(player)
