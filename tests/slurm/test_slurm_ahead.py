"""What backfill sees ahead in arrays is what it would see by letting jobs end one group after another, one by one."""

from __future__ import annotations

from random import Random

import pytest
from tests.slurm.slurmworld import World, world
from tests.slurm.test_properties import PREEMPTING, some_job

from fairway.slurm import backfill, preemption
from fairway.slurm.ahead import Ahead
from fairway.slurm.model.job import Job
from fairway.slurm.placing.need import Need
from fairway.slurm.placing.placing import World as Place
from fairway.slurm.placing.placing import place
from fairway.slurm.placing.uses import Uses, bitmap, bits, indexes
from fairway.slurm.selecting import need_of, without

NODES = """
NodeName=n[1-2,4-6] CPUs=32 SocketsPerBoard=2 CoresPerSocket=16 RealMemory=256000 Gres=gpu:h100:8
NodeName=n3 CPUs=16 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=64000 Gres=gpu:h100:8 Weight=5
PartitionName=p1 Nodes=n1 Default=YES MaxTime=INFINITE
PartitionName=p2 Nodes=n[1-3] MaxTime=INFINITE
PartitionName=p4 Nodes=n[1-6] MaxTime=INFINITE
"""
GRES = "NodeName=n[1-6] Name=gpu Type=h100 File=/dev/nvidia[0-7]\n"


def busy(random: Random, more: str = "") -> World:
    """Jobs come and go, some suspended, some with another limit."""
    w = world(more, NODES, GRES)
    for _ in range(40):
        w.submit(**some_job(random) | {"qos": random.choice(["low", "high"]) if more else None})
        w.run(random.choice([0.5, 1, 3]))
        running = [job for job in w.ctl.cluster.running.values() if job.state == "RUNNING"]
        if running and random.random() < 0.1:
            w.ctl.suspend(random.choice(running).job_id, "root")
        elif running and random.random() < 0.1:
            w.ctl.update_job(random.choice(running).job_id, {"time_limit": random.randint(1, 90)}, "root")
    return w


def groups_by_hand(ends: list[int], step: int) -> list[int]:
    """Where each group of jobs ends (_will_run_test): the index of its last one."""
    found, at, window, edge = [], 0, 30, ends[0] + (30 - ends[0] % 30) if ends else 0
    while at < len(ends):
        last = at
        for count, one in enumerate(range(at, len(ends))):
            last = one
            if one + 1 >= len(ends) or ends[one + 1] > edge + window or count > 200:
                break
        found.append(last)
        at = last + 1
        window = window + step if step else window * 2
        while at < len(ends) and ends[at] > edge + window:
            window = window + step if step else window * 2
    return found


def ahead_by_hand(w: World, free: int, step: int) -> list[tuple[int, Uses]]:
    """(time, every node's use) once each group of the jobs on these nodes has ended."""
    cluster = w.ctl.cluster
    jobs = [job for job in cluster.running.values() if any(free >> share.node & 1 for share in job.shares)]
    jobs.sort(key=lambda job: job.end)
    found, first, uses = [], 0, cluster.uses
    for last in groups_by_hand([job.end for job in jobs], step):
        uses = without(cluster, uses, jobs[first : last + 1])
        found.append((jobs[last].end, uses))
        first = last + 1
    return found


@pytest.mark.parametrize("seed", range(5))
def test_uses_ahead_are_those_after_each_group_has_ended(seed: int) -> None:
    random = Random(seed)
    w = busy(random)
    cluster, confs = w.ctl.cluster, w.ctl.cluster.fits.confs
    ahead, looked = Ahead(cluster.uses), 0
    for _ in range(25):
        w.submit(**some_job(random) | {"qos": None})
        w.run(random.choice([0.5, 2, 9]))
        ahead.follow(list(dict.fromkeys([*cluster.running, *ahead.known])), cluster.running, confs)
        for _ in range(4):
            free, step = random.randrange(1, 64), random.choice([0, 0, 60])
            steps = list(ahead.steps_on(indexes(free, len(cluster.nodes)), step))
            by_hand = ahead_by_hand(w, free, step)
            assert [time for _, time in steps] == [time for time, _ in by_hand]
            for (rank, _), (_, uses) in zip(steps, by_hand, strict=True):
                seen, kinds = ahead.uses_after(rank), ahead.kinds_after(rank)
                for node in bits(free):
                    assert seen.exact[node] == uses.exact[node]
                    assert kinds[node] == seen.kinds[node] == uses.kinds[node]
                looked += 1
    assert looked > 100


def earliest_by_hand(w: World, job: Job, need: Need, free: int) -> tuple[int, int] | None:
    """Try the placement now, with what may be preempted gone, and after each group of ends."""
    cluster, ctl = w.ctl.cluster, w.ctl

    def tried(uses: Uses) -> int:
        found = place(need, Place(cluster.fits, uses, cluster.weights), free, job.nodelist, exact=False)
        return 0 if found is None else bitmap(found.nodes)

    nodes = tried(cluster.uses)
    if not nodes and ctl.rules.enabled:
        victims = preemption.candidates(
            ctl.rules, cluster.accounts, cluster.partitions, cluster.running.values(),
            job, cluster.partitions["p4"], ctl.now,
        )  # fmt: skip
        nodes = tried(without(cluster, cluster.uses, victims)) if victims else 0
    if nodes:
        return ctl.now, nodes
    for time, uses in ahead_by_hand(w, free, 0):
        nodes = tried(uses)
        if nodes:
            return max(time, ctl.now + 1), nodes
    return None


@pytest.mark.parametrize("seed", range(6))
def test_the_earliest_start_is_the_first_at_which_a_placement_is_found(seed: int) -> None:
    random = Random(50 + seed)
    w = busy(random, PREEMPTING if seed % 3 == 2 else "")
    cluster, part = w.ctl.cluster, w.ctl.cluster.partitions["p4"]
    later = 0
    for _ in range(40):
        w.run(random.choice([0, 1, 5]))
        job = w.submit(**some_job(random) | {"qos": "high", "partition": "p4", "array": None})
        cycle = backfill.new_cycle(w.ctl._look(), w.ctl.backfill_settings)
        cycle.spaces[0].free = free = random.randrange(1, 64) & cluster.up
        found = backfill.earliest(cycle, job, part)
        assert found == earliest_by_hand(w, job, need_of(cluster, job, part), free)
        later += found is not None and found[0] > w.ctl.now
    assert later > 3
