"""The controller end to end: queue, backfill, limits, preemption, arrays, nodes."""

from __future__ import annotations

import pytest
from tests.slurm.slurmworld import World, world

from fairway.slurm import priority
from fairway.slurm.model.job import Job, JobRequest
from fairway.slurm.model.partition import Reservation
from fairway.slurm.words.errors import SlurmError


def gpus(job: Job) -> list[tuple[str, int]]:
    return [(name, share.gres.get("gpu", 0)) for name, share in zip(job.nodes, job.shares, strict=True)]


def test_jobs_take_the_lowest_free_devices_and_give_them_back() -> None:
    w = world()
    first, second = w.submit(4, gpus=2), w.submit(20, gpus=3)
    w.run(2)
    assert gpus(first) == [("n1", 0b11)] and gpus(second) == [("n1", 0b11100)]
    w.run(5)
    third = w.submit(5, gpus=4)
    w.run(2)
    assert first.state == "COMPLETED" and gpus(third) == [("n1", 0b1100011)]
    assert second.alloc_tres == {
        "cpu": 1,
        "mem": 1000,
        "node": 1,
        "billing": 1,
        "gres/gpu": 3,
        "gres/gpu:h100": 3,
    }


def test_backfill_starts_what_ends_before_the_first_job_waiting() -> None:
    w = world()
    w.submit(16, partition="p2", min_nodes=1, max_nodes=1, gpus=8, time_limit=3)
    w.run(1)
    head = w.submit(4, partition="p2", min_nodes=2, max_nodes=2, gpus=8)
    long = w.submit(3, partition="p2", gpus=8, time_limit=10)
    short = w.submit(3, partition="p2", gpus=8, time_limit=1)
    w.run(4)
    assert (short.state, short.scheduler) == ("RUNNING", "Backfill")
    assert (head.reason, long.reason) == ("Resources", "Priority")
    w.run(30)
    assert 16 <= w.start(head) <= 17 and w.start(long) >= w.start(head) + 4


def test_a_qos_pushes_another_aside_and_the_victim_comes_back() -> None:
    w = world("PreemptType=preempt/qos\nPreemptMode=REQUEUE\n")
    low = w.submit(60, qos="low", gpus=8)
    w.run(3)
    high = w.submit(5, user="carol", qos="high", gpus=8)
    w.run(3)
    assert high.state == "RUNNING" and (low.state, low.reason, low.restarts) == ("PENDING", "BeginTime", 1)
    assert [row.state for row in w.ctl.cluster.archive] == ["PREEMPTED"]
    w.run(125)
    assert low.state == "RUNNING"


def test_a_limit_keeps_a_job_waiting_without_holding_others_back() -> None:
    w = world()
    w.ctl.cluster.accounts.qos["normal"].limits.max_tres_per_user = {"gres/gpu": 4}
    first, second, other = w.submit(9, gpus=3), w.submit(3, gpus=3), w.submit(4, user="bob", gpus=3)
    w.run(2)
    assert (first.state, other.state) == ("RUNNING", "RUNNING")
    assert (second.state, second.reason) == ("PENDING", "QOSMaxGRESPerUser")
    w.run(12)
    assert second.state == "COMPLETED"


def test_an_array_starts_task_by_task_within_its_throttle() -> None:
    w = world()
    array = w.submit(3, array="1-5%2")
    following = w.submit(1, dependency=f"afterok:{array.job_id}")
    w.run(2)
    cluster = w.ctl.cluster
    assert sorted(job.label for job in cluster.running.values()) == ["1_1", "1_2"]
    assert (array.reason, following.reason) == ("JobArrayTaskLimit", "Dependency")
    w.run(20)
    assert [job.state for job in cluster.jobs.values()] == ["COMPLETED"] * 6


def test_a_node_set_down_requeues_its_jobs_and_comes_back() -> None:
    w = world()
    kept, lost = w.submit(10, gpus=4), w.submit(10, gpus=1, requeue=False)
    w.run(2)
    w.ctl.update_node(["n1"], {"state": "DOWN", "reason": "x"})
    w.run(3)
    assert (kept.state, kept.reason, lost.state) == ("PENDING", "BeginTime", "NODE_FAIL")
    assert w.ctl.cluster.nodes[0].state == "IDLE" and w.ctl.cluster.nodes[0].used_gres == {"gpu": 0}


REFUSED = {
    "INVALID_NODE_COUNT": {"min_nodes": 0},
    "INVALID_PARTITION_NAME": {"partition": "nowhere"},
    "INVALID_QOS": {"qos": "none"},
    "INVALID_ACCOUNT": {"account": "acctb"},
    "INVALID_GRES": {"tres_per_node": {"fpga": 1}},
    "REQUESTED_NODE_CONFIG_UNAVAILABLE": {"tres_per_node": {"gpu": 9}},
    "INVALID_NODE_NAME": {"nodelist": ("zzz",)},
    "INVALID_FEATURE": {"features": "v100"},
    "INVALID_ARRAY": {"array": "5-1"},
    "DEPENDENCY": {"dependency": "afterok:abc"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_slurm_refuses_leaves_nothing_behind(name: str) -> None:
    w = world()
    with pytest.raises(SlurmError) as refused:
        w.submit(**REFUSED[name])
    assert refused.value.name == name
    assert not w.ctl.cluster.pending
    assert all(job.state == "FAILED" for job in w.ctl.cluster.jobs.values())
    assert w.ctl.cluster.counted().qos["normal"].counts.submitted == 0


def test_a_refusal_says_what_no_node_has_enough_of() -> None:
    w = world()
    with pytest.raises(SlurmError) as refused:
        w.submit(mem_per_node=10**9)
    assert refused.value.notes == ("Memory specification can not be satisfied",)
    with pytest.raises(SlurmError) as refused:
        w.submit(nodelist=("n3",))
    assert refused.value.name == "REQUESTED_NODE_CONFIG_UNAVAILABLE"


def test_more_than_a_partition_has_is_accepted_and_waits() -> None:
    w = world()
    nodes, cpus = w.submit(min_nodes=3), w.submit(min_cpus=10**6)
    small = w.submit(1)
    w.run(4)
    assert (nodes.reason, cpus.reason) == ("PartitionNodeLimit", "PartitionConfig")
    assert small.state == "COMPLETED"


def test_a_task_of_an_array_is_cancelled_by_the_array_s_id_alone() -> None:
    w = world()
    array = w.submit(90, array="1-3%2")
    w.run(2)
    task = next(job for job in w.ctl.cluster.running.values() if job.job_id != array.job_id)
    with pytest.raises(SlurmError) as refused:
        w.ctl.cancel(task.job_id, "alice")
    assert (refused.value.name, task.state) == ("ALREADY_DONE", "RUNNING")
    w.ctl.cancel(array.job_id, "alice", task=task.array_task)
    assert task.state == "CANCELLED"


def test_a_finished_job_requeued_is_told_as_requeued_in_the_accounts() -> None:
    w = world()
    job = w.submit(1)
    w.run(4)
    w.ctl.requeue(job.job_id, "root")
    (row,) = w.ctl.cluster.archive
    assert (row.state, row.end, job.state, job.alloc_tres) == ("REQUEUED", w.ctl.now, "PENDING", {})


def test_a_count_for_each_node_goes_before_one_for_the_job() -> None:
    w = world()
    both = w.submit(
        tres_per_job={"gpu": 4},
        tres_per_node={"gpu": 2},
        num_tasks=4,
        min_nodes=2,
        max_nodes=2,
        partition="p4",
    )
    w.run(2)
    assert gpus(both) == [("n1", 0b11), ("n2", 0b11)]


def test_a_running_job_that_is_held_goes_on_and_stays_held_when_requeued() -> None:
    w = world()
    job = w.submit(90)
    w.run(2)
    w.ctl.hold(job.job_id, "alice")
    assert (job.state, job.priority, job.reason) == ("RUNNING", 0, "JobHeldUser")
    with pytest.raises(SlurmError) as refused:
        w.ctl.hold(job.job_id, "bob")
    assert refused.value.name == "USER_ID_MISSING"
    w.ctl.requeue(job.job_id, "root")
    w.run(200)
    assert (job.state, job.reason) == ("PENDING", "JobHeldUser")
    w.ctl.release(job.job_id, "alice")
    w.run(4)
    assert job.state == "RUNNING"


def test_a_start_that_is_only_asked_for_counts_the_work_that_waits_before_it() -> None:
    w = world()
    running = w.submit(600, min_nodes=1, exclusive="node", time_limit=10)
    w.run(2)
    first = w.ctl.test_only(JobRequest(time_limit=5), "alice")
    waits = w.submit(600, min_nodes=1, exclusive="node", time_limit=20)
    w.run(4)
    then = w.ctl.test_only(JobRequest(time_limit=5), "alice")
    assert running.state == "RUNNING" and waits.state == "PENDING"
    assert then.start - first.start == 20 * 60


def test_a_node_keeps_a_state_it_may_not_leave_and_the_others_change() -> None:
    w = world()
    nodes = w.ctl.cluster.nodes
    w.ctl.update_node(["n1", "n2"], {"state": "DRAIN", "reason": "fan"})
    w.ctl.update_node(["n2"], {"state": "FAIL", "reason": "fan"})
    assert [node.flags for node in nodes[:2]] == [{"DRAIN"}, {"FAIL"}]
    with pytest.raises(SlurmError) as refused:
        w.ctl.update_node([node.name for node in nodes], {"state": "RESUME"})
    assert refused.value.name == "INVALID_NODE_STATE"
    assert [(node.flags, node.reason) for node in nodes] == [(set(), "")] * 4
    assert [event[2:4] for event in nodes[0].events] == [("DRAIN", "fan")]


def test_active_features_are_a_subset_of_the_available_ones() -> None:
    w = world()
    node = w.ctl.cluster.nodes[0]
    for change in ({"features": ("slow",)}, {"active_features": ("slow",)}, {"features": ()}):
        with pytest.raises(SlurmError) as refused:
            w.ctl.update_node(["n1"], {**change, "weight": 9})
        assert refused.value.name == "ACTIVE_FEATURE_NOT_SUBSET" and node.weight == 1
    w.ctl.update_node(["n1"], {"features": ("h100", "slow"), "active_features": ("slow",), "weight": 9})
    assert (node.features, node.active_features, node.weight) == (("h100", "slow"), ("slow",), 9)


def reserved(w: World, *nodes: int, flags: tuple[str, ...] = ("SPEC_NODES",)) -> str:
    start = w.ctl.now
    one = Reservation("", start, start + 3600, nodes, ("bob",), (), (), flags, duration=3600)
    return w.ctl.create_reservation(one)


def test_a_job_kept_out_by_a_reservation_says_so_and_its_nodes_are_planned() -> None:
    w = world()
    name = reserved(w, 0)
    wide = w.submit(60, partition="p2", min_nodes=2, max_nodes=2)
    pinned = w.submit(60, partition="p2", nodelist=("n1",))
    inside = w.submit(60, user="bob", reservation=name)
    w.run(6)
    text = "ReqNodeNotAvail, May be reserved for other job"
    assert (pinned.reason_detail, wide.reason_detail, inside.state) == (text, text, "RUNNING")
    flags = [node.flags for node in w.ctl.cluster.nodes[:2]]
    assert "RESERVED" in flags[0] and "PLANNED" in flags[1]
    with pytest.raises(SlurmError) as refused:
        w.ctl.delete_reservation(name)
    assert refused.value.name == "RESERVATION_BUSY"
    w.ctl.cancel(inside.job_id, "bob")
    w.run(5)
    w.ctl.delete_reservation(name)
    w.run(5)
    assert (inside.reservation, wide.state) == ("", "RUNNING")


def test_maintenance_of_every_node_is_named() -> None:
    w = world()
    reserved(w, 0, 1, 2, 3, flags=("MAINT", "SPEC_NODES", "ALL_NODES"))
    job = w.submit(60, partition="p2")
    w.run(3)
    assert job.reason_detail == "ReqNodeNotAvail, Reserved for maintenance"


def test_one_jobs_run_is_charged_as_the_sum_over_running_jobs_is() -> None:
    seen = []
    for one_by_one in (True, False):
        w = world()
        job = w.submit(600, gpus=3)
        w.run(3)
        accounts = w.ctl.cluster.accounts
        if one_by_one:
            priority.charge_run(accounts, job, 77, 604_800)
        else:
            running = priority.Running()
            running.change(job, 1, 0)
            priority.add_usage(accounts, {(job.assoc_id, job.qos): running}, 77, 604_800)
        usages = [a.usage for a in accounts.associations.values()] + [q.usage for q in accounts.qos.values()]
        seen.append([(usage.raw, usage.wall, usage.tres) for usage in usages])
    assert seen[0] == seen[1] and any(raw for raw, _, _ in seen[0])


def test_gpus_for_each_task_go_where_they_leave_least_over() -> None:
    w = world()
    held = [
        w.submit(600, gpus=gpus, partition="p4", nodelist=(name,)) for name, gpus in (("n1", 7), ("n2", 4))
    ]
    w.run(3)
    job = w.submit(600, partition="p4", num_tasks=2, tres_per_task={"gpu:h100": 2})
    wide = w.submit(600, partition="p4", num_tasks=5, tres_per_task={"gpu": 4})
    w.run(3)
    assert [one.state for one in (*held, job, wide)] == ["RUNNING"] * 3 + ["PENDING"]
    assert [(share.node, share.gres["gpu"]) for share in job.shares] == [(1, 0xF0)]
    w.ctl.cancel(held[0].job_id, "alice")
    w.ctl.cancel(job.job_id, "alice")
    w.run(8)
    assert [(share.node, share.gres["gpu"].bit_count()) for share in wide.shares] == [(0, 4), (2, 8), (3, 8)]
