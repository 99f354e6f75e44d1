"""Rules that a real 22.05.8 showed: the order of sched/builtin, jobs that come again, rows, memory for CPUs."""

from __future__ import annotations

import pytest
from tests.slurm.slurmworld import NODES, world

from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.job import Job

BUILTIN = "SchedulerType=sched/builtin\n"
BY_QOS = "PreemptType=preempt/qos\nPreemptMode=REQUEUE\n"
ROWS = """
NodeName=n[1-4] CPUs=32 SocketsPerBoard=2 CoresPerSocket=16 RealMemory=256000
PartitionName=mine Nodes=n1 Default=YES
PartitionName=rows Nodes=n1 OverSubscribe=YES:2
PartitionName=force Nodes=n1 OverSubscribe=FORCE:2
"""


def in_order_of_start(*jobs: Job) -> list[int]:
    return [job.job_id for job in sorted(jobs, key=lambda job: job.start)]


def test_builtin_takes_jobs_as_they_stand_whatever_their_priority() -> None:
    """A job that was held keeps its place, though release gave it a lower priority."""
    w = world(BUILTIN)
    first = w.submit(4, gpus=8)
    held, other = w.submit(3, gpus=8, hold="user"), w.submit(3, gpus=8)
    w.ctl.release(held.job_id, "alice")
    assert held.priority < other.priority
    w.run(30)
    assert in_order_of_start(first, held, other) == [first.job_id, held.job_id, other.job_id]


def test_what_is_left_of_an_array_stands_behind_in_builtin() -> None:
    w = world(BUILTIN)
    array, one = w.submit(4, gpus=8, array="1-3"), w.submit(3, gpus=8)
    w.run(40)
    tasks = [w.ctl.cluster.jobs[at] for at in w.ctl.cluster.arrays[array.job_id]]
    started = sorted(tasks, key=lambda task: task.start)
    assert [task.array_task for task in started] == [1, 2, 3]
    assert started[0].start < one.start < started[1].start


def test_partitions_of_two_tiers_go_by_tier_in_builtin_too() -> None:
    tiers = "PartitionName=lo Nodes=n1 Default=YES\nPartitionName=hi Nodes=n1 PriorityTier=9\n"
    w = world(BUILTIN, NODES.splitlines()[1] + "\n" + tiers)
    w.submit(4, gpus=8)
    low, high = w.submit(3, gpus=8), w.submit(3, gpus=8, partition="hi")
    w.run(30)
    assert in_order_of_start(low, high) == [high.job_id, low.job_id]


@pytest.mark.parametrize(
    ("code", "state", "reason", "flags"),
    [
        (7, "PENDING", "BeginTime", set()),
        (9, "PENDING", "JobHeldUser", {"SPECIAL_EXIT"}),
        (8, "FAILED", "NonZeroExitCode", set()),
    ],
    ids=("requeued", "held", "neither"),
)
def test_exit_codes_bring_a_job_back(code: int, state: str, reason: str, flags: set[str]) -> None:
    w = world("RequeueExit=5-7\nRequeueExitHold=9\n")
    job = w.submit(Behaviour(2, code), requeue=False)  # type: ignore[arg-type]
    w.run(6)
    assert (job.state, job.reason, job.flags) == (state, reason, flags)
    assert [(row.state, row.exit_code) for row in w.ctl.cluster.archive.recent] == [("FAILED", code)]


def test_a_cancelled_job_does_not_come_back_by_its_exit_code() -> None:
    w = world("RequeueExit=0-255\n")
    job = w.submit(60)
    w.run(2)
    w.ctl.cancel(job.job_id, "alice")
    w.run(5)
    assert job.state == "CANCELLED"


def test_a_job_is_left_alone_for_its_exempt_time_and_no_longer() -> None:
    w = world(BY_QOS + "PreemptExemptTime=00:00:15\n")
    low = w.submit(60, gpus=8, qos="low")
    w.run(3)
    high = w.submit(5, gpus=8, qos="high", user="carol")
    w.run(11)
    assert (low.state, high.state) == ("RUNNING", "PENDING")
    w.run(6)
    assert (low.state, high.state) == ("PENDING", "RUNNING")


def test_a_job_that_a_limit_keeps_out_pushes_nobody_aside() -> None:
    w = world(BY_QOS)
    accounts = w.ctl.cluster.accounts
    carol = accounts.associations[accounts.by_key["acctb", "carol", ""]]
    carol.limits.max_tres_per_job = {"gres/gpu": 4}
    low = w.submit(60, gpus=8, qos="low")
    w.run(3)
    high = w.submit(5, gpus=8, qos="high", user="carol")
    w.run(8)
    assert (low.state, high.state, high.reason) == ("RUNNING", "PENDING", "AssocMaxGRESPerJob")


@pytest.mark.parametrize("turns", [0, 1])
def test_components_that_waited_start_once_there_is_room(turns: int) -> None:
    """In every second turn what was thought of them is forgotten: another one follows, though nothing changed."""
    w = world()
    w.submit(5, gpus=8)
    w.ctl.cluster.backfills += turns
    _, said, _ = w.type("sbatch -p p1 --gres=gpu:4 -t 5 : -p p4 -t 5 --wrap true")
    leader = int(said.split()[-1])
    w.run(12)
    assert [w.ctl.cluster.jobs[at].state for at in (leader, leader + 1)] == ["RUNNING", "RUNNING"]


@pytest.mark.parametrize(
    ("there", "there_shares", "comes", "comes_shares", "runs"),
    [
        ("rows", True, "rows", True, True),
        ("rows", False, "rows", True, False),
        ("mine", False, "force", False, False),
        ("force", False, "mine", False, False),
        ("mine", False, "mine", False, True),
    ],
)
def test_sharing_jobs_and_others_do_not_meet_on_a_node(
    there: str, there_shares: bool, comes: str, comes_shares: bool, runs: bool
) -> None:
    w = world(nodes=ROWS, gres="")
    w.submit(60, partition=there, exclusive="ok" if there_shares else None, num_tasks=2)
    w.run(2)
    job = w.submit(60, partition=comes, exclusive="ok" if comes_shares else None, num_tasks=2)
    w.run(6)
    assert job.state == ("RUNNING" if runs else "PENDING")


@pytest.mark.parametrize(
    ("options", "cpus"),
    [
        ("--mem-per-cpu=6000", 1),
        ("--mem-per-cpu=8000 -c 3", 6),
        ("--mem=20000", 4),
        ("-n 2 --mem-per-cpu=12001", 6),
    ],
)
def test_memory_over_the_limit_takes_cpus(options: str, cpus: int) -> None:
    w = world("MaxMemPerCPU=6000\n")
    _, said, _ = w.type(f"sbatch -t 5 {options} --wrap true")
    w.run(2)
    job = w.ctl.cluster.jobs[int(said.split()[-1])]
    assert job.alloc_tres["cpu"] == cpus


def test_memory_that_takes_more_cpus_than_a_node_has_is_refused() -> None:
    code, _, said = world("MaxMemPerCPU=6000\n").type("sbatch -t 5 --mem=0 --wrap true")
    assert (code, said.splitlines()[0]) == (1, "sbatch: error: CPU count per node can not be satisfied")


def test_cores_that_are_reserved_are_not_planned_for_others() -> None:
    """The first needs more cores than a reservation leaves; what ends before it could start goes before."""
    w = world()
    make = "scontrol create reservation reservationname=r starttime=now duration=10 corecnt=24 nodes=n1 users=carol"
    assert w.type(make, "root")[0] == 0
    wide = w.submit(30, nodelist=("n1",), num_tasks=10, min_cpus=10)
    narrow = w.submit(30, nodelist=("n1",), num_tasks=4, min_cpus=4, time_limit=1)
    w.run(6)
    assert (wide.state, narrow.state) == ("PENDING", "RUNNING")


@pytest.mark.parametrize(
    ("options", "cores"),
    [
        ("-n 4", 2),
        ("-n 4 --hint=nomultithread", 4),
        ("-n 4 --hint=multithread", 2),
    ],
)
def test_a_hint_gives_tasks_cores_of_their_own(options: str, cores: int) -> None:
    w = world(nodes="NodeName=n1 CPUs=64 SocketsPerBoard=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=256000\n"
              "PartitionName=p1 Nodes=n1 Default=YES\n", gres="")  # fmt: skip
    _, said, _ = w.type(f"sbatch -t 5 {options} --wrap true")
    w.run(2)
    assert w.ctl.cluster.jobs[int(said.split()[-1])].shares[0].cores.bit_count() == cores


@pytest.mark.parametrize(
    ("parameters", "distribution", "cores"),
    [
        ("", "block", 0x30003),
        ("", "plane=2", 0xF),
        ("CR_CORE_DEFAULT_DIST_BLOCK", "block", 0xF),
        ("CR_CORE_DEFAULT_DIST_BLOCK", "block:cyclic", 0x30003),
    ],
)
def test_sockets_are_taken_in_turn_or_one_after_the_other(
    parameters: str, distribution: str, cores: int
) -> None:
    w = world(f"SelectTypeParameters=CR_Core_Memory,{parameters}\n")
    job = w.submit(9, num_tasks=4, min_cpus=4, distribution=distribution)
    w.run(2)
    assert job.shares[0].cores == cores


def test_an_association_without_priority_has_its_account_s() -> None:
    multifactor = "PriorityType=priority/multifactor\nPriorityWeightAssoc=1000\nPriorityWeightAge=0\n"
    w = world(multifactor)
    accounts = w.ctl.cluster.accounts
    accounts.associations[accounts.by_key["acctb", "", ""]].priority = 10
    accounts.associations[accounts.by_key["accta", "bob", ""]].priority = 20
    w.ctl.accounts_changed()
    jobs = [w.submit(9, user=user, gpus=8) for user in ("alice", "bob", "carol")]
    assert [job.factors["assoc"] for job in jobs] == [0, 1000, 500]


def test_size_relative_to_time_counts_a_node_s_mean_cpus_at_least() -> None:
    multifactor = "PriorityType=priority/multifactor\nPriorityWeightJobSize=128000\n"
    w = world(multifactor + "PriorityFlags=SMALL_RELATIVE_TO_TIME\n")
    small, large = w.submit(9), w.submit(9, num_tasks=64, min_cpus=64, partition="p4", time_limit=10)
    assert (small.factors["js"], large.factors["js"]) == (6400, 6400)


@pytest.mark.parametrize(("constraint", "accepted"), [("h100*1&h200*1", False), ("[h100*1&h200*1]", True)])
def test_counts_of_features_are_told_apart_in_brackets_alone(constraint: str, accepted: bool) -> None:
    more = "NodeName=n5 CPUs=32 RealMemory=256000 Feature=h200\nPartitionName=all Nodes=ALL\n"
    code, _, _ = world(nodes=NODES + more).type(f"sbatch -p all -N2 -C '{constraint}' -t 5 --wrap true")
    assert (code == 0) == accepted


@pytest.mark.parametrize(
    ("partition", "options", "cpus", "memory"),
    [
        ("of", "--gpus=2", 8, 16000),
        ("of", "--gpus=2 -c 1", 1, 16000),
        ("of", "--gres=gpu:2 --mem=500", 8, 500),
        ("of", "-n 1", 1, 1000),
        ("p1", "--gpus=2", 4, 4000),
    ],
)
def test_gpus_bring_cpus_and_memory(partition: str, options: str, cpus: int, memory: int) -> None:
    of = "PartitionName=of Nodes=n3 DefCpuPerGPU=4 DefMemPerGPU=8000\n"
    w = world("DefCPUPerGPU=2\n", NODES + of)
    assert not w.ctl.cluster.conf.problems
    _, said, _ = w.type(f"sbatch -p {partition} {options} -t 5 --wrap true")
    w.run(3)
    job = w.ctl.cluster.jobs[int(said.split()[-1])]
    assert (job.alloc_tres["cpu"], job.alloc_tres["mem"]) == (cpus, memory)


@pytest.mark.parametrize(
    ("options", "reason"), [("-c 2", "MaxMemPerLimit"), ("-c 1", "None"), ("-n 2", "None")]
)
def test_memory_of_all_cpus_counts_against_that_of_a_node(options: str, reason: str) -> None:
    w = world(nodes=NODES + "PartitionName=of Nodes=n3 MaxMemPerNode=10000\n")
    _, said, _ = w.type(f"sbatch -p of --mem-per-cpu=9000 {options} -t 5 --wrap true")
    w.run(3)
    assert w.ctl.cluster.jobs[int(said.split()[-1])].reason == reason
