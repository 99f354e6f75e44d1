"""What must hold in any Slurm cluster, on random ones: nothing twice, limits kept, nobody delayed, all accounted."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.slurm.slurmworld import World, world

from fairway.slurm import backfill, priority
from fairway.slurm.cluster import use_of
from fairway.slurm.model.association import add_association, empty_accounts
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition
from fairway.slurm.placing import placing
from fairway.slurm.selecting import Looking, Verdict, _world, need_of

PREEMPTING = "PreemptType=preempt/qos\nPreemptMode=REQUEUE\n"
SEEDS = range(6)


def some_job(random: Random) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "partition": random.choice(["p1", "p2", "p4", "p1,p4"]),
        "time_limit": random.choice([1, 2, 5, 60]),
        "runs": random.randint(1, 90),
        "user": random.choice(["alice", "bob", "carol"]),
        "qos": random.choice([None, "low", "high"]),
        "gpus": random.choice([0, 1, 2, 3, 8]),
        "cpus_per_task": random.choice([1, 4, 16]),
    }
    kind = random.random()
    if kind < 0.15:
        asked |= {"min_nodes": 2, "max_nodes": 2, "partition": "p4"}
    elif kind < 0.25:
        asked |= {"array": "1-6%3"}
    elif kind < 0.3:
        asked |= {"exclusive": "node"}
    elif kind < 0.35:
        asked |= {"gpus": 0, "tres_per_job": {"gpu": random.randint(1, 12)}, "partition": "p4"}
    elif kind < 0.45:
        tasks = {"num_tasks": random.randint(1, 6), "tres_per_task": {"gpu": random.randint(1, 4)}}
        asked |= {"gpus": 0, "cpus_per_task": random.choice([1, 4]), "partition": "p4", **tasks}
    return asked


def check_nothing_twice(w: World) -> None:
    """No core, device or MiB is held by two; the accounts of nodes and the array of uses say the same."""
    cluster = w.ctl.cluster
    for node in cluster.nodes:
        cores = gpus = mem = 0
        for job_id in node.allocated:
            for share in cluster.jobs[job_id].shares:
                if share.node == node.index:
                    assert not cores & share.cores and not gpus & share.gres.get("gpu", 0)
                    cores, gpus, mem = cores | share.cores, gpus | share.gres.get("gpu", 0), mem + share.mem
        assert (cores, mem, gpus) == (node.used_cores, node.used_mem, node.used_gres.get("gpu", 0))
        assert mem <= node.conf.real_memory
        assert cluster.uses.exact[node.index] == use_of(node)
        assert cluster.uses.kinds[node.index] == cluster.fits.numbering.kind(node.index, use_of(node))


def check_limits(w: World, most: int) -> None:
    for user in ("alice", "bob", "carol"):
        held = [
            job.alloc_tres
            for job in w.ctl.cluster.running.values()
            if job.user == user and job.qos == "normal"
        ]
        assert sum(tres.get("gres/gpu", 0) for tres in held) <= most


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_held_twice_and_limits_are_kept(seed: int) -> None:
    random = Random(seed)
    w = world(PREEMPTING if seed % 2 else "")
    w.ctl.cluster.accounts.qos["normal"].limits.max_tres_per_user = {"gres/gpu": 10}
    for _ in range(60):
        w.submit(**some_job(random))
        w.run(random.choice([0.3, 1, 4, 15]))
        check_nothing_twice(w)
        check_limits(w, 10)
        if random.random() < 0.1:
            name = f"n{random.randint(1, 4)}"
            w.ctl.update_node([name], {"state": random.choice(["DRAIN", "DOWN"]), "reason": "x"})
            w.run(5)
            w.ctl.update_node([name], {"state": "IDLE" if not w.ctl._node(name).allocated else "UNDRAIN"})
            w.ctl.update_node([name], {"state": "UNDRAIN"})
    w.run(20_000)
    check_nothing_twice(w)
    cluster = w.ctl.cluster
    assert not cluster.running
    assert {job.reason for job in cluster.pending.values()} <= {"QOSMaxGRESPerUser"}
    for counts in [qos.counts for qos in cluster.counted().qos.values()]:
        assert counts.jobs == 0 and not any(counts.tres.values()) and not counts.nodes


@pytest.mark.parametrize("seed", SEEDS)
def test_backfill_never_delays_a_job_before(seed: int) -> None:
    """What backfill starts is over, at its limit, before any earlier job's planned start on its nodes."""
    random = Random(100 + seed)
    w = world(
        "SchedulerParameters=bf_interval=1000000,bf_resolution=1,batch_sched_delay=0,sched_interval=2\n"
    )
    ctl, cluster = w.ctl, w.ctl.cluster
    checked = 0

    def start(record: Job, part: Partition, verdict: Verdict, scheduler: str) -> Job:
        nonlocal checked
        planned = [one for one in cluster.pending.values() if one.start and one is not record]
        job = ctl._start(record, part, verdict, scheduler)
        for one in planned:  # in this cycle, before the job's turn came
            shared = set(one.scheduled_nodes) & set(job.nodes)
            assert not (shared and job.end > one.start and one.start + one.time_limit * 60 > job.start)
            checked += 1
        return job

    for _ in range(150):
        w.submit(**some_job(random) | {"qos": None})
        w.run(random.choice([0.5, 1, 3]))
        backfill.run_cycle(ctl._look(), ctl.backfill_settings, start, ctl._preempt)
    assert checked


def test_quick_choosing_agrees_with_the_careful_one() -> None:
    """The arrays take the same nodes as _eval_nodes' port, on random uses."""

    for seed in range(8):
        random = Random(200 + seed)
        w = world(nodes=_UNLIKE)
        for _ in range(40):
            job = w.submit(**some_job(random) | {"qos": None, "array": None, "partition": "p4"})
            w.run(random.choice([0.5, 2]))
            part = w.ctl.cluster.partitions["p4"]
            need, look = need_of(w.ctl.cluster, job, part), Looking(w.ctl.cluster, w.ctl.rules, w.ctl.now)
            nodes = w.ctl.cluster.nodes_of(part)
            quick = placing.place(need, _world(look, job, part), nodes)
            careful_world = _world(look, job, part)
            careful_world.held = lambda node: 0
            assert quick == placing.place(need, careful_world, nodes)


_UNLIKE = """
NodeName=n[1-2,4-6] CPUs=32 SocketsPerBoard=2 CoresPerSocket=16 RealMemory=256000 Gres=gpu:h100:8
NodeName=n3 CPUs=16 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=64000 Gres=gpu:h100:8 Weight=5
PartitionName=p1 Nodes=n1 Default=YES MaxTime=INFINITE
PartitionName=p4 Nodes=n[1-6] MaxTime=INFINITE
"""


def test_the_fair_tree_ranks_accounts_before_their_users() -> None:
    accounts = empty_accounts("c")
    for account, shares in (("a", 1), ("b", 3)):
        add_association(accounts, account, parent="root", shares=shares)
        for number in range(2):
            add_association(accounts, account, f"{account}{number}", parent=account, shares=1 + number)
    for key, used in ((("a", "a0", ""), 10.0), (("b", "b0", ""), 50.0), (("b", "b1", ""), 1.0)):
        for one in accounts.up(accounts.associations[accounts.by_key[key]]):
            one.usage.raw += used
    priority.fair_tree(accounts)
    users = {one.user: one.fs_factor for one in accounts.associations.values() if one.user}
    order = sorted(users, key=lambda user: -users[user])
    assert order.index("a1") < order.index("a0") and order.index("b1") < order.index("b0")
    first = max((one for one in accounts.associations.values() if one.account in "ab" and not one.user),
                key=lambda one: one.level_fs).account  # fmt: skip
    mine = [users[f"{first}{n}"] for n in range(2)]
    assert min(mine) > max(value for user, value in users.items() if user[0] not in (first, "r"))
    assert sorted(users.values()) == [pytest.approx((n + 1) / 5) for n in range(5)]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_second_of_every_job_is_accounted_for(seed: int) -> None:
    """Without decay, usage is what the ended runs held times how long; the tree adds up."""
    random = Random(300 + seed)
    w = world(
        "PriorityType=priority/multifactor\nPriorityWeightFairshare=100\nPriorityDecayHalfLife=0\n"
        + PREEMPTING
    )
    for _ in range(40):
        w.submit(**some_job(random))
        w.run(random.choice([1, 5, 30]))
    w.run(20_000)
    cluster = w.ctl.cluster

    def seconds(jobs: list[Job], name: str) -> int:
        return sum(job.alloc_tres.get(name, 0) * (job.end - job.start - job.suspended_s) for job in jobs)

    for one in cluster.accounts.associations.values():
        below = {one.id} | {
            c.id for c in cluster.accounts.associations.values() if one in cluster.accounts.up(c)
        }
        mine = [job for job in cluster.archive if job.assoc_id in below and job.shares]
        for name in ("cpu", "gres/gpu", "mem"):
            assert one.usage.tres.get(name, 0.0) == pytest.approx(seconds(mine, name))


def test_spaces_ahead_never_overlap() -> None:
    random = Random(7)
    spaces = [backfill.Space(0, 10_000, 0xFFFF)]
    taken: list[tuple[int, int, int]] = []
    for _ in range(200):
        begin = random.randrange(0, 9_000)
        plan = (begin, begin + random.randrange(1, 900), 1 << random.randrange(16))
        backfill.add_plan(spaces, *plan, 1)
        taken.append(plan)
    assert [space.begin for space in spaces[1:]] == [space.end for space in spaces[:-1]]
    for second in range(0, 10_000, 7):
        free = 0xFFFF
        for begin, end, nodes in taken:
            free &= ~nodes if begin <= second < end else -1
        assert next(space.free for space in spaces if space.begin <= second < space.end) == free
