"""What the recorder notes of a pod's life."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fairway.cluster.gpurequests import GpuResources
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US
from fairway.recorder.tables import PodRow
from fairway.twin.latency import DEFAULT
from recorded import Recorded, seconds


@dataclass
class Case:
    """What is done to pod `p`, and what its row says afterwards (times in seconds)."""

    story: Callable[[Recorded], object]
    want: dict[str, Any]


CASES: dict[str, Case] = {
    "a pod nobody looked at": Case(
        lambda w: w.at(3).pod("p", gpus=2),
        {
            "created_us": 3,
            "scheduled_us": None,
            "phase": "Pending",
            "node": "",
            "gpu_milli": 2000,
            "wait_us": None,
        },
    ),
    "a whole life": Case(
        lambda w: (
            w.at(1)
            .pod("p", gpus=1)
            .at(2)
            .bind("p", "n1")
            .at(5)
            .run("p")
            .at(65)
            .succeed("p")
            .at(70)
            .delete("p")
        ),
        {
            "created_us": 1,
            "scheduled_us": 2,
            "started_us": 5,
            "ready_us": 5,
            "finished_us": 65,
            "deleted_us": 70,
            "phase": "Succeeded",
            "node": "n1",
            "wait_us": 4,
            "run_us": 60,
            "held_gpu_milli_us": 63 * 1000,
            "is_wasted": False,
        },
    ),
    "what it asks for": Case(
        lambda w: w.pod("p", gpus=3, cpu="1500m", memory="2Gi"),
        {"gpu_milli": 3000, "cpu_milli": 1500, "memory_bytes": 2 * 2**30},
    ),
    "a share of a GPU": Case(
        lambda w: w.store.create(_sharing("p", 460)),
        {"gpu_milli": 460},
    ),
    "refused twice for two reasons, then placed": Case(
        lambda w: (
            w.pod("p", gpus=1)
            .at(1)
            .refuse("p", "0/1 nodes are available: 1 Insufficient cpu.")
            .at(2)
            .refuse("p", "0/1 nodes are available: 1 Insufficient cpu.")
            .at(3)
            .refuse("p", "0/1 nodes are available: 1 Insufficient memory.")
            .at(4)
            .bind("p", "n1")
        ),
        {
            "refusals": 2,
            "unschedulable": "0/1 nodes are available: 1 Insufficient memory.",
            "scheduled_us": 4,
        },
    ),
    "out of memory": Case(
        lambda w: (
            w.pod("p", gpus=1).bind("p", "n1").at(1).run("p").at(9).fail("p", reason="OOMKilled", code=137)
        ),
        {"phase": "Failed", "reason": "OOMKilled", "finished_us": 9, "is_wasted": True},
    ),
    "rejected before any container ran": Case(
        lambda w: (
            w.pod("p", gpus=1)
            .bind("p", "n1")
            .at(2)
            .status("p", "a", phase="Failed", reason="OutOfnvidia.com/gpu")
        ),
        {
            "started_us": None,
            "finished_us": 2,
            "reason": "OutOfnvidia.com/gpu",
            "is_wasted": False,
            "is_started": False,
        },
    ),
    "over between two looks": Case(
        lambda w: w.pod("p").bind("p", "n1").at(2).succeed("p"),
        {"started_us": 2, "finished_us": 2, "run_us": 0},
    ),
    "deleted while running": Case(
        lambda w: w.pod("p", gpus=1).bind("p", "n1").run("p").at(7).delete("p"),
        {"phase": "Running", "finished_us": 7, "deleted_us": 7, "is_wasted": True},
    ),
    "a serving pod deleted while running": Case(
        lambda w: w.pod("p", gpus=1, serving=True).bind("p", "n1").run("p").at(7).delete("p"),
        {"is_serving": True, "is_wasted": False, "is_evicted": False},
    ),
    "a serving pod scaled away: SIGTERM ends it with 143, and the kubelet says Failed before it goes": Case(
        lambda w: (
            w.pod("p", gpus=1, serving=True)
            .bind("p", "n1")
            .run("p")
            .at(7)
            .leave("p")
            .at(9)
            .fail("p", code=143)
            .delete("p")
        ),
        {
            "phase": "Running",
            "reason": "",
            "finished_us": 9,
            "deleted_us": 9,
            "held_gpu_milli_us": 9000,
            "is_wasted": False,
        },
    ),
    "a Job's pod sent away while it ran": Case(
        lambda w: (
            w.pod("p", gpus=1).bind("p", "n1").run("p").at(7).leave("p").at(9).fail("p", code=143).delete("p")
        ),
        {"phase": "Failed", "is_wasted": True},
    ),
    "a serving pod that was over before it was deleted": Case(
        lambda w: w.pod("p", serving=True).bind("p", "n1").run("p").at(7).fail("p").at(8).leave("p"),
        {"phase": "Failed", "is_wasted": True},
    ),
    "a serving pod evicted": Case(
        lambda w: (
            w.pod("p", serving=True)
            .bind("p", "n1")
            .run("p")
            .evict("p", reason="EvictionByEvictionAPI")
            .at(7)
            .delete("p")
        ),
        {"is_wasted": True, "is_evicted": True, "disruption": "EvictionByEvictionAPI", "preempted_by": ""},
    ),
    "preempted, by whom": Case(
        lambda w: (
            w.pod("p")
            .bind("p", "n1")
            .run("p")
            .pod("vip", priority=9, priorityClassName="vip")
            .evict("p", by="vip")
            .delete("p")
        ),
        {"disruption": "PreemptionByScheduler", "preempted_by": "a/vip"},
    ),
    "deleted before it was placed": Case(
        lambda w: w.pod("p", gpus=1).at(4).delete("p"),
        {"finished_us": 4, "deleted_us": 4, "held_gpu_milli_us": 0, "is_wasted": False},
    ),
    "restarts": Case(
        lambda w: w.pod("p").bind("p", "n1").run("p").at(5).run("p", restarts=3),
        {"restarts": 3, "started_us": 0},
    ),
    "priority, class and queue": Case(
        lambda w: w.pod(
            "p", priority=7, priorityClassName="gold", labels={"kueue.x-k8s.io/queue-name": "team"}
        ),
        {"priority": 7, "priority_class": "gold", "queue": "team"},
    ),
    "bound to a node that comes later": Case(
        lambda w: w.pod("p", gpus=1).bind("p", "n9").at(5).node("n9", gpus=1).at(8).succeed("p"),
        {"node": "n9", "scheduled_us": 0, "held_gpu_milli_us": 3 * 1000},
    ),
    "its node is lost": Case(
        lambda w: w.pod("p", gpus=1).bind("p", "n1").run("p").at(6).lose("n1").at(9).delete("p"),
        {"held_gpu_milli_us": 6 * 1000, "finished_us": 9},
    ),
    "resized in place": Case(
        lambda w: _resized(w.pod("p", cpu="1").bind("p", "n1").run("p").at(3)),
        {"cpu_milli": 4000},
    ),
    "tells how it uses its GPUs": Case(
        lambda w: (
            w.pod("p", gpus=2, use="0s:50%,10s:100%").bind("p", "n1").at(5).run("p").at(25).succeed("p")
        ),
        {"held_gpu_milli_us": 25 * 2000, "used_gpu_milli_us": 10 * 1000 + 10 * 2000},
    ),
    "tells nothing": Case(lambda w: w.pod("p", gpus=2).bind("p", "n1").run("p"), {"used_gpu_milli_us": None}),
    "created again under its name": Case(
        lambda w: w.pod("p").at(1).delete("p").at(2).pod("p"),
        {"created_us": 0, "deleted_us": 1},
    ),
}


def _sharing(name: str, milli: int) -> dict[str, Any]:
    limits = {"fairway.dev/gpu-milli": str(milli)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def _resized(world: Recorded) -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}]
    world.store.patch(Key("Pod", "a", "p"), {"spec": {"containers": containers}})


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_row(case: Case) -> None:
    world = Recorded().node("n1", gpus=8)
    case.story(world)
    row = next(p for p in world.at(100).outcome().pods if p.name == "p")
    assert {name: _value(row, name) for name in case.want} == case.want


def _value(row: PodRow, name: str) -> Any:
    value = getattr(row, name)
    if name in ("wait_us", "run_us"):
        return None if value is None else value / SECOND_US
    if name.endswith("gpu_milli_us"):
        return None if value is None else value / SECOND_US
    return seconds(value) if name.endswith("_us") else value


def test_owners_are_the_controller_and_the_topmost() -> None:
    world = Recorded()
    cron = world.workload("CronJob", "nightly")
    job = world.workload("Job", "nightly-1", owner=cron)
    world.pod("p", owner=job)
    row = world.outcome().pods[0]
    assert (row.owner_kind, row.owner_name, row.root_kind, row.root_name) == (
        "Job",
        "nightly-1",
        "CronJob",
        "nightly",
    )


def test_times_are_those_of_the_writes_not_of_the_watch() -> None:
    world = Recorded(DEFAULT).node("n1")
    world.at(3).pod("p").at(4).bind("p", "n1")
    row = world.at(5).outcome().pods[0]
    assert (seconds(row.created_us), seconds(row.scheduled_us)) == (3, 4)


def test_undone_writes_leave_no_trace() -> None:
    world = Recorded(DEFAULT)
    mark = world.store.mark()
    world.pod("what-if")
    world.store.rewind(mark)
    world.at(1).pod("p")
    rows = world.at(2).outcome().pods
    assert [(p.name, seconds(p.created_us)) for p in rows] == [("p", 1)]


def test_a_pod_with_a_past_keeps_it() -> None:
    world = Recorded().node("n1", gpus=1)
    world.at(3600)
    pod = _sharing("p", 1000)
    pod["metadata"]["creationTimestamp"] = "2026-01-04T23:00:00Z"
    pod["spec"]["nodeName"] = "n1"
    pod["status"] = {"phase": "Running", "startTime": "2026-01-04T23:30:00Z"}
    world.store.load(pod)
    outcome = world.at(7200).outcome()
    row = outcome.pods[0]
    assert (seconds(row.created_us), seconds(row.started_us)) == (-3600, -1800)
    assert row.wait_us == 1800 * SECOND_US
    # What it held before the run began is not this run's.
    assert row.held_gpu_milli_us == 3600 * SECOND_US * 1000
    assert [seconds(i.start_us) for i in outcome.intervals] == [3600]


def test_mig_instances_count_as_sevenths() -> None:
    gpus = GpuResources()
    assert gpus.capacity({"nvidia.com/mig-1g.5gb": 7}) == 1000
    assert gpus.capacity({"nvidia.com/gpu": 1, "nvidia.com/mig-3g.20gb": 2}) == 1857
    assert gpus.asked({"nvidia.com/mig-1g.5gb": 1}) == 142
    assert gpus.asked({"nvidia.com/mig-7g.40gb": 1, "cpu": 4}) == 1000
    assert gpus.devices({"cpu": 4, "nvidia.com/mig-2g.10gb": 1, "nvidia.com/gpu": 0}) == (
        ("nvidia.com/mig-2g.10gb", 1),
    )
    assert gpus.units({"nvidia.com/mig-2g.10gb": 2, "fairway.dev/gpu-milli": 1500}) == 4


def _cut(world: Recorded, gpus: int, **labels: str) -> Recorded:
    """A node whose `nvidia.com/gpu` is what these labels say, with as many pods of one each."""
    meta = {"name": "cut", "labels": {f"nvidia.com/{n.replace('_', '.')}": v for n, v in labels.items()}}
    status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}}
    world.store.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
    for number in range(gpus):
        world.pod(f"p{number}", gpus=1)
    world.at(1)
    for number in range(gpus):
        world.bind(f"p{number}", "cut").run(f"p{number}")
    return world.at(11)


@pytest.mark.parametrize(
    ("count", "product", "slices", "replicas", "whole_milli"),
    [
        (7, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", 1, 1, 1000),
        (3, "NVIDIA-H100-80GB-HBM3-MIG-2g.20gb", 2, 1, 857),
        (4, "NVIDIA-A30-MIG-1g.6gb", 1, 1, 1000),
        (28, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", 1, 4, 1000),
        (2, "NVIDIA-H100-80GB-HBM3", 7, 1, 2000),
    ],
)
def test_an_instance_under_the_single_strategy_counts_as_its_part_of_a_gpu(
    count: int, product: str, slices: int, replicas: int, whole_milli: int
) -> None:
    shared = {"gpu_sharing-strategy": "time-slicing", "gpu_replicas": str(replicas)} if replicas > 1 else {}
    cut = {"gpu_slices_gi": str(slices), "mig_strategy": "single"} if slices < 7 else {}
    outcome = _cut(Recorded(), count, gpu_product=product, **cut, **shared).outcome()
    assert next(iter(outcome.nodes)).gpu_milli == whole_milli
    held = sum(p.held_gpu_milli_us for p in outcome.pods)
    assert whole_milli * 0.98 <= held / (10 * SECOND_US) <= whole_milli
