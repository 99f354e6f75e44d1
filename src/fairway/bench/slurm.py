"""How fast is a Slurm cluster in virtual time: 100,000 jobs over 1,000 nodes with backfill, and a year of a million?

Jobs of 100 users come at random, single GPUs, whole nodes, and up to sixteen nodes, with limits from half an hour to a
day, most of them far too long: at a rate the nodes carry, nearly all of them busy and few jobs waiting, or `crowded`,
faster than that, so that hundreds wait and the backfill scheduler looks far ahead every minute.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from random import Random
from time import perf_counter

from fairway.bench import BenchRow
from fairway.kube.collectorpause import collector_resting
from fairway.slurm.administration import Slurmctld
from fairway.slurm.clockwork import SECOND
from fairway.slurm.conf import read_configuration
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.association import User, add_association, empty_accounts
from fairway.slurm.model.job import JobRequest

JOBS, JOBS_QUICK, NODES = 100_000, 5_000, 1_000
LIMIT_S = 60.0
YEAR_JOBS, YEAR_LIMIT_S, YEAR_LIMIT_GIB = 1_000_000, 600.0, 4.0
_ACCOUNTS, _USERS = 20, 5
_START_US = 1_800_000_000 * SECOND
# Seconds between jobs that keep a thousand nodes nine tenths busy, measured with this mixture.
_BUSY_GAP_S = 5.2
_YEAR_GAP_S = 31.5
# Seconds between jobs that are a tenth more than the nodes carry: 360 wait after 12,500.
_CROWDED_GAP_S = 3.4
CROWDED_JOBS, CROWDED_QUICK = 12_500, 2_500

_CONF = f"""
ClusterName=bench
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU=4000
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=1000
SchedulerParameters=bf_max_job_test=100,bf_resolution=300,bf_interval=60
NodeName=n[1-{NODES}] CPUs=64 SocketsPerBoard=2 CoresPerSocket=32 RealMemory=1000000 Gres=gpu:8
PartitionName=p Nodes=ALL Default=YES MaxTime=7-0
"""


def run(quick: bool, setup: str = "") -> Iterator[BenchRow]:
    """One row of seconds; `crowded` another; `year` two others, of seconds and memory."""
    count = JOBS_QUICK if quick else JOBS
    if setup == "crowded":
        count = CROWDED_QUICK if quick else CROWDED_JOBS
        taken, limit = played(count, _CROWDED_GAP_S), LIMIT_S * count / JOBS
        name = f"slurm/crowded/{count}-jobs/{NODES}-nodes"
        yield BenchRow(name, taken, "s", limit / taken, f"{limit:g} s, a limit of ours")
        return
    if setup != "year":
        taken = played(count, _BUSY_GAP_S)
        limit = LIMIT_S * count / JOBS
        yield BenchRow(
            f"slurm/{count}-jobs/{NODES}-nodes", taken, "s", limit / taken, f"{limit:g} s, a limit of ours"
        )
        return
    count = YEAR_JOBS // 50 if quick else YEAR_JOBS
    taken = played(count, _YEAR_GAP_S)
    limit = YEAR_LIMIT_S * count / YEAR_JOBS
    yield BenchRow(f"slurm/year/{count}-jobs", taken, "s", limit / taken, f"{limit:g} s, a limit of ours")
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield BenchRow(
        "slurm/year/memory", gib, "GiB", YEAR_LIMIT_GIB / gib, f"{YEAR_LIMIT_GIB:g} GiB, a limit of ours"
    )


def played(count: int, gap_s: float) -> float:
    """Seconds it took to play so many jobs to their end."""
    gres = f"NodeName=n[1-{NODES}] Name=gpu File=/dev/nvidia[0-7]"
    conf = read_configuration({"slurm.conf": _CONF, "gres.conf": gres})
    accounts = empty_accounts("bench")
    users = []
    for number in range(_ACCOUNTS):
        add_association(accounts, f"a{number}", parent="root")
        for user in (f"u{number}-{one}" for one in range(_USERS)):
            accounts.users[user] = User(user, f"a{number}")
            add_association(accounts, f"a{number}", user, parent=f"a{number}")
            users.append(user)
    ctl = Slurmctld(conf, accounts, lambda job, now: Behaviour(job.request.extra["runs"]), _START_US)
    random = Random(1)
    began, at = perf_counter(), _START_US
    with collector_resting():  # as every replay
        for _ in range(count):
            at += int(random.expovariate(1 / gap_s) * SECOND)
            ctl.advance(at)
            ctl.submit(_request(random), random.choice(users))
        while ctl.cluster.pending or ctl.cluster.running:
            ctl.advance(ctl.next_event_us() or ctl.now_us)
    return perf_counter() - began


def _request(random: Random) -> JobRequest:
    limit = random.choice((30, 60, 120, 240, 480, 1440))
    runs = max(60, int(limit * 60 * random.choice((0.1, 0.3, 0.5, 0.8, 1.0)) * random.random()))
    asked = JobRequest(name="j", time_limit=limit, extra={"runs": runs}, cpus_per_task=4)
    kind = random.random()
    if kind < 0.15:
        asked.num_tasks = random.choice((1, 4, 16))
    elif kind < 0.75:
        asked.tres_per_node = {"gpu": random.choice((1, 1, 2, 4))}
    else:
        asked.cpus_per_task, asked.tres_per_node = 32, {"gpu": 8}
        if kind > 0.95:
            asked.min_nodes = asked.max_nodes = random.choice((2, 4, 8, 16))
    return asked
