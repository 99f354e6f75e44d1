"""Workloads, nodes, series, reasons and events of a recorded run."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US
from fairway.recorder.reasons import reasons_in
from recorded import Recorded, seconds

S = 1000 * SECOND_US  # milli-GPU·µs of one GPU in one second


def _finish(world: Recorded, job: dict[str, Any], type_: str, reason: str = "") -> None:
    condition = {"type": type_, "status": "True", "reason": reason, "message": "said so"}
    world.store.set_status(Key("Job.batch", "a", job["metadata"]["name"]), {"conditions": [condition]})


def test_workloads() -> None:
    world = Recorded().node("n1", gpus=8)
    done, failed = world.workload("Job", "done"), world.workload("Job", "failed")
    world.workload("Job", "held", suspend=True)
    waiting = world.workload("Job", "waiting")
    world.workload("Job", "gone")
    world.pod("d1", gpus=2, owner=done).pod("d2", gpus=2, owner=done).pod("f", owner=failed).pod(
        "w", owner=waiting
    )
    world.at(2).bind("d1", "n1").bind("d2", "n1").bind("f", "n1").run("d1").run("f")
    world.at(4).run("d2").fail("f")
    _finish(world, failed, "Failed", "BackoffLimitExceeded")
    world.at(10).succeed("d1").succeed("d2")
    _finish(world, done, "Complete")
    world.at(11)
    world.store.delete(Key("Job.batch", "a", "gone"))
    rows = {w.name: w for w in world.at(12).outcome().workloads}
    assert {n: w.outcome for n, w in rows.items()} == {
        "done": "Complete",
        "failed": "Failed",
        "held": "Suspended",
        "waiting": "Waiting",
        "gone": "Deleted",
    }
    row = rows["done"]
    assert (seconds(row.created_us), seconds(row.started_us), seconds(row.finished_us)) == (0, 2, 10)
    assert (row.pods, row.pods_started, row.pods_succeeded, row.gpu_milli) == (2, 2, 2, 4000)
    assert row.held_gpu_milli_us == 2 * 2 * 8 * S
    assert (rows["failed"].reason, rows["failed"].pods_failed, rows["failed"].conditions) == (
        "BackoffLimitExceeded",
        1,
        ("Failed",),
    )


def test_what_owns_workloads_counts_theirs() -> None:
    world = Recorded().node("n1", gpus=8)
    deployment = world.workload("Deployment", "chat")
    old = world.workload("ReplicaSet", "chat-1", owner=deployment)
    new = world.workload("ReplicaSet", "chat-2", owner=deployment)
    world.pod("a1", gpus=1, owner=old, serving=True).bind("a1", "n1").run("a1")
    world.at(5).pod("b1", gpus=1, owner=new, serving=True).bind("b1", "n1").run("b1")
    world.at(6).delete("a1")
    rows = {w.name: w for w in world.at(10).outcome().workloads}
    assert (rows["chat"].pods, rows["chat"].gpu_milli, rows["chat-1"].gpu_milli) == (2, 2000, 1000)
    assert rows["chat"].held_gpu_milli_us == 11 * S
    assert rows["chat"].outcome == "Running"


def test_unknown_owners_are_workloads_too() -> None:
    world = Recorded()
    owner = {"apiVersion": "example.org/v1", "kind": "Trainer", "metadata": {"name": "t", "uid": "u-1"}}
    world.at(1).pod("p", owner=owner)
    row = world.outcome().workloads[0]
    assert (row.kind, row.name, row.pods, row.outcome) == ("Trainer", "t", 1, "Waiting")


def test_node_time_is_split() -> None:
    world = Recorded().node("n1", gpus=4, nvidia_com__gpu_product="A100")
    world.at(10).pod("p", gpus=1).bind("p", "n1").run("p")  # 1 held from 10 to 30
    world.at(12).pod("big", gpus=8)  # demand from 12 on
    world.at(20).cordon("n1")
    world.at(25).cordon("n1", False)
    world.at(30).succeed("p")
    world.at(35).delete("big")
    row = world.at(40).outcome().nodes[0]
    assert row.gpu_milli == 4000
    assert (row.capacity_gpu_milli_us, row.held_gpu_milli_us) == (160 * S, 20 * S)
    assert row.idle_closed_gpu_milli_us == 3 * 5 * S
    assert row.idle_in_demand_gpu_milli_us == (3 * 8 + 3 * 5 + 4 * 5) * S
    assert row.idle_no_demand_gpu_milli_us == (4 * 10 + 3 * 2 + 4 * 5) * S
    assert row.used_gpu_milli_us is None


def test_a_node_that_comes_back_is_another_row() -> None:
    world = Recorded().node("n1", gpus=1)
    world.at(10).lose("n1").at(20).node("n1", gpus=2)
    rows = world.at(30).outcome().nodes
    assert [(r.gpu_milli, r.lifetime_us // SECOND_US, seconds(r.deleted_us)) for r in rows] == [
        (1000, 10, 10),
        (2000, 10, None),
    ]


def test_a_node_may_share_its_gpus() -> None:
    world = Recorded().node("n1", gpus=4)
    world.store.patch(Key("Node", "", "n1"), {"status": {"allocatable": {"fairway.dev/gpu-milli": "4000"}}})
    assert world.at(1).outcome().nodes[0].gpu_milli == 4000


def test_series_are_exact_while_they_are_short() -> None:
    world = Recorded().node("n1", gpus=4)
    world.at(10).pod("p", gpus=2, use="50%").at(12).bind("p", "n1").at(15).run("p").at(40).succeed("p")
    outcome = world.at(50).outcome()
    columns = (
        "gpu_milli_allocated",
        "gpu_milli_used",
        "gpu_milli_pending",
        "pods_pending",
        "pods_starting",
        "pods_running",
    )
    found = {seconds(r.start_us): tuple(getattr(r, c) for c in columns) for r in outcome.series}
    assert found == {
        0: (0, 0, 0, 0, 0, 0),
        10: (0, 0, 2000, 1, 0, 0),
        12: (2000, 0, 0, 0, 1, 0),
        15: (2000, 1000, 0, 0, 0, 1),
        40: (0, 0, 0, 0, 0, 0),
    }
    assert outcome.integrals["gpu_milli_used"] == 25 * S
    assert outcome.mean("gpu_milli_allocated") == pytest.approx(2000 * 28 / 50)
    assert (outcome.peaks["gpu_milli_pending"].value, seconds(outcome.peaks["gpu_milli_pending"].at_us)) == (
        2000,
        10,
    )


def test_the_queue_counts_workloads_not_pods() -> None:
    world = Recorded().node("n1", gpus=8)
    job = world.workload("Job", "j")
    world.at(1).pod("a1", owner=job).pod("a2", owner=job).pod("alone")
    world.at(2).bind("a1", "n1")
    world.at(3).bind("a2", "n1").bind("alone", "n1")
    held = world.at(4).workload("Job", "held", suspend=True)
    world.at(6)
    world.store.patch(Key("Job.batch", "a", "held"), {"spec": {"suspend": False}})
    series = world.at(8).outcome().series
    assert held["spec"]["suspend"] is True
    assert {seconds(r.start_us): r.queue_length for r in series} == {0: 0, 1: 2, 2: 2, 3: 0, 4: 1, 6: 0}


def test_fragmentation_is_what_the_pods_of_the_run_cannot_use() -> None:
    world = Recorded().node("n1", gpus=4, cpu="8").node("n2", gpus=4, cpu="64")
    world.pod("p", gpus=4, cpu="16").bind("p", "n2").at(10).succeed("p")
    values = [r.fragmentation for r in world.at(20).outcome().series]
    # While it runs, the GPUs free are those of n1, where it does not fit; then half of all are.
    assert values == [1.0, 0.5]


@pytest.mark.parametrize(
    ("message", "want"),
    [
        ("0/4 nodes are available: 1 Insufficient memory, 3 node(s) had untolerated taint(s). preemption: "
         "0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 Preemption is not helpful.",
         ("Insufficient memory", "node(s) had untolerated taint(s)")),
        ("no nodes available to schedule pods", ("no nodes available to schedule pods",)),
        ("0/2 nodes are available: pod affinity terms conflict. preemption: 0/2", ("pod affinity terms conflict",)),
        ("0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints (missing required label).",
         ("node(s) didn't match pod topology spread constraints (missing required label)",)),
        ("", ()),
    ],
)  # fmt: skip
def test_reasons_in(message: str, want: tuple[str, ...]) -> None:
    assert reasons_in(message) == want


def test_reasons_are_ranked_by_the_pods_they_kept_waiting() -> None:
    world = Recorded().node("n1", gpus=1)
    cpu, both = (
        "0/1 nodes are available: 1 Insufficient cpu.",
        "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods.",
    )
    world.pod("a1").pod("a2").refuse("a1", both).refuse("a1", cpu).refuse("a2", both).at(1).bind("a2", "n1")
    reasons = world.outcome().reasons
    assert [(r.reason, r.told, r.pods, r.pods_never_placed) for r in reasons] == [
        ("Insufficient cpu", 3, 2, 1),
        ("Too many pods", 2, 1, 0),
    ]


def test_event_counts() -> None:
    world = Recorded()
    events = world.twin.host.events
    key = Key("Pod", "a", "p")
    events.emit(0, key, "u", "Normal", "Pulled", "x", "kubelet")
    events.emit(0, key, "u", "Warning", "BackOff", "x", "kubelet", times=3)
    counts = world.outcome().events
    assert [(e.component, e.type, e.reason, e.count) for e in counts] == [
        ("kubelet", "Warning", "BackOff", 3),
        ("kubelet", "Normal", "Pulled", 1),
    ]
