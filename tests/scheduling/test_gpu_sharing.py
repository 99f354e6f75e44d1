"""GPUs in thousandths: which devices pods get, and who is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairway.cluster.devices import annotation_of, devices_of
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of
from fairway.scheduling.cycle import Diagnosis, Scheduler
from fairway.scheduling.gpushare.plugin import GpuPolicies
from fairway.scheduling.preemption import explain
from fairway.scheduling.profile import DEFAULT_PROFILE, GPU_POLICIES, Profile
from fairway.scheduling.verdict import Scheduled


def node(name: str, gpus: int = 2, shared: bool = True) -> Obj:
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    if shared:
        allocatable["fairway.dev/gpu-milli"] = str(gpus * 1000)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable},
    }


def pod(name: str, **asked: str) -> Obj:
    resources = {k.replace("__", "/"): v for k, v in asked.items()}
    container: dict[str, Any] = {"name": "c", "image": "i", "resources": {"limits": resources}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
    }


def share(name: str, milli: int) -> Obj:
    obj = pod(name)
    obj["spec"]["containers"][0]["resources"] = {"limits": {"fairway.dev/gpu-milli": str(milli)}}
    return obj


def whole(name: str, gpus: int) -> Obj:
    obj = pod(name)
    obj["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return obj


class Bench:
    """A store and a scheduler; `put` schedules and binds, as the twin does."""

    def __init__(self, *nodes: Obj, profile: Profile = DEFAULT_PROFILE) -> None:
        self.store = Store(seed=1)
        for n in nodes:
            self.store.create(n)
        self.scheduler = Scheduler(self.store.accounts, profile)

    def put(self, obj: Obj) -> tuple[str, str]:
        """(node, device indexes), or ("", message)."""
        created = self.store.create(obj)
        record = self.store.accounts.record(created, key_of(created))
        verdict = self.scheduler.place(record)
        if isinstance(verdict, Diagnosis):
            return "", explain(self.scheduler, record, verdict).message
        devices = annotation_of(verdict.devices)
        annotations = {"fairway.dev/gpu-index": devices} if devices else None
        self.store.bind(key_of(created), verdict.node, {"phase": "Running"}, annotations)
        return verdict.node, devices

    def free(self, name: str) -> list[int]:
        row = self.store.accounts.row_of[name]
        return self.store.accounts.devices.free[row].tolist()[:2]


def test_shares_pack_onto_the_tightest_device_that_fits() -> None:
    bench = Bench(node("n"))
    assert bench.put(share("a", 600)) == ("n", "0")
    assert bench.put(share("b", 500)) == ("n", "1")
    assert bench.put(share("c", 400)) == ("n", "0")
    assert bench.free("n") == [0, 500]


def test_a_whole_gpu_needs_a_device_nobody_shares() -> None:
    bench = Bench(node("n"))
    bench.put(share("a", 100))
    assert bench.put(whole("b", 1)) == ("n", "1")
    assert bench.put(whole("c", 1))[1].startswith(
        "0/1 nodes are available: 1 node(s) had no GPU with enough free capacity."
    )


def test_the_sum_may_fit_where_no_single_device_does() -> None:
    bench = Bench(node("n"))
    bench.put(share("a", 600))
    bench.put(share("b", 600))
    where, message = bench.put(share("c", 500))
    assert where == ""
    assert "no GPU with enough free capacity" in message


def test_more_than_a_thousand_milli_is_whole_devices() -> None:
    bench = Bench(node("n"))
    assert bench.put(share("a", 2000)) == ("n", "0,1")


def test_nodes_that_do_not_share_refuse_shares_by_resource() -> None:
    bench = Bench(node("n", shared=False))
    assert "1 Insufficient fairway.dev/gpu-milli" in bench.put(share("a", 100))[1]
    assert bench.put(whole("b", 2)) == ("n", "")


def test_a_pod_that_ends_gives_its_devices_back() -> None:
    bench = Bench(node("n"))
    bench.put(share("a", 600))
    bench.store.set_status(Key("Pod", "default", "a"), {"phase": "Succeeded"})
    assert bench.free("n") == [1000, 1000]


def test_undo_gives_devices_back_exactly() -> None:
    bench = Bench(node("n"))
    bench.put(share("a", 300))
    mark = bench.store.mark()
    before = bench.store.accounts.devices.free.copy()
    bench.put(share("b", 300))
    bench.put(whole("c", 1))
    bench.store.rewind(mark)
    assert (bench.store.accounts.devices.free == before).all()


@pytest.mark.parametrize("policy", GPU_POLICIES)
def test_every_policy_fills_a_node_without_over_allocating(policy: str) -> None:
    bench = Bench(node("a"), node("b"), profile=Profile(weights={policy: 1}))
    placed = sum(bench.put(share(f"p{i}", 450))[0] != "" for i in range(10))
    assert placed == 8
    assert min(bench.free("a") + bench.free("b")) >= 0


def test_fgd_keeps_whole_devices_whole() -> None:
    """With whole-GPU pods typical, shares gather on a broken device."""
    bench = Bench(node("a"), node("b"), profile=Profile(weights={"FGD": 1}))
    for i in range(4):
        bench.scheduler.place(
            bench.store.accounts.record(bench.store.create(whole(f"w{i}", 2)), Key("Pod", "default", f"w{i}"))
        )
    first = bench.put(share("s1", 400))
    assert bench.put(share("s2", 400)) == first


def test_policies_count_by_their_weights_and_the_first_by_name_gives_the_devices() -> None:
    bench = Bench(node("a"), node("b", gpus=1), node("c"))
    bench.put(share("there", 600))
    bench.scheduler = Scheduler(
        bench.store.accounts, Profile(weights={"GpuPacking": 2, "BestFit": 3, "NodeResourcesFit": 1})
    )
    created = bench.store.create(share("p", 400))
    record = bench.store.accounts.record(created, key_of(created))
    sheet = bench.scheduler.score_sheet(record)
    rows = np.array([bench.store.accounts.row_of[name] for name in sheet.nodes], np.int64)
    policies = GpuPolicies(bench.store.accounts)
    parts = {name: policies.scores(name, record, rows) for name in ("BestFit", "GpuPacking")}
    assert sheet.nodes == ("a", "b", "c")
    assert sheet.by_plugin["BestFit"] == tuple((3 * parts["BestFit"][0]).tolist())
    assert sheet.by_plugin["GpuPacking"] == tuple((2 * parts["GpuPacking"][0]).tolist())
    assert set(sheet.by_plugin) == {"Resources", "BestFit", "GpuPacking"}
    assert sheet.totals == tuple(map(sum, zip(*sheet.by_plugin.values(), strict=True)))
    assert len(set(sheet.by_plugin["BestFit"])) > 1 and len(set(sheet.by_plugin["GpuPacking"])) > 1
    placed = bench.scheduler.place(record)
    assert isinstance(placed, Scheduled)
    best = sheet.totals.index(max(sheet.totals))
    assert (placed.node, placed.total) == (sheet.nodes[best], sheet.totals[best])
    assert placed.devices == int(parts["BestFit"][1][best])


def test_scheduled_says_its_devices() -> None:
    bench = Bench(node("n"))
    created = bench.store.create(share("a", 10))
    verdict = bench.scheduler.place(bench.store.accounts.record(created, key_of(created)))
    assert isinstance(verdict, Scheduled)
    assert verdict.devices == 1


@pytest.mark.parametrize(
    ("text", "mask"), [("", 0), ("0", 1), ("0,2", 5), (" 1 , 3", 10), ("9", 512), ("16", 0), ("x", 0)]
)
def test_device_annotations(text: str, mask: int) -> None:
    assert devices_of({"fairway.dev/gpu-index": text}) == mask


def _nominate(bench: Bench, name: str, milli: int, where: str) -> None:
    raw = share(name, milli)
    raw["spec"]["priority"] = 10
    created = bench.store.create(raw)
    record = bench.store.accounts.record(created, key_of(created))
    bench.scheduler.nominated[record.key] = (record, where)


def test_a_nominated_pod_is_left_room_on_the_device_it_would_get_now() -> None:
    """On which device it would have been at an earlier look is forgotten: somebody took that one since."""
    bench = Bench(node("n"))
    _nominate(bench, "first", 600, "n")
    assert bench.put(share("a", 500)) == ("n", "0")
    assert bench.free("n") == [500, 1000]
    assert bench.put(share("b", 400)) == ("n", "0"), "the nominated one goes beside it"
    where, message = bench.put(share("c", 450))
    assert where == "" and "no GPU with enough free capacity" in message
    assert bench.put(share("d", 400)) == ("n", "1")
    assert bench.free("n") == [100, 600]


def test_a_nominated_pod_gets_the_tightest_device_of_its_node() -> None:
    bench = Bench(node("m"), node("n"))
    bench.put(share("a", 300))
    created = bench.store.create(share("p", 600))
    record = bench.store.accounts.record(created, key_of(created))
    (where,) = {"m", "n"} - {n for n in ("m", "n") if bench.free(n) == [1000, 1000]}
    bench.scheduler.nominated[record.key] = (record, where)
    assert bench.scheduler.place(record) == Scheduled(where, 0, 1, 1, 1, devices=0b1)
