"""The partitioner in a twin: who waits for instances gets them by MIG Manager's way, and nobody who runs is lost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.nodegpus import gpus_of_node
from fairway.catalog.placements import fits
from fairway.cluster.actions import Patch, perform
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

NS = "gpu-operator"


def thing(kind: str, name: str, namespace: str = "", **parts: Any) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **parts}


def node() -> Obj:
    found = thing("Node", "gpu-1", status={"capacity": {"cpu": "64", "memory": "512Gi", "pods": "110"}})
    found["metadata"]["labels"] = {"kubernetes.io/hostname": "gpu-1", "kubernetes.io/os": "linux"}
    found["metadata"]["annotations"] = {"fairway.dev/gpus": "2 NVIDIA-H100-80GB-HBM3"}
    return found


def policy(setting: str = "mig", file: str = "mig-configs") -> Obj:
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy", "annotations": {"fairway.dev/gpu-partitioning": setting}},
        "spec": {
            "mig": {"strategy": "mixed"},
            "migManager": {"config": {"name": file, "default": "all-disabled"}},
        },
    }


def pod(name: str, resource: str, lasts: str = "forever") -> Obj:
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: "1"}}}
    found = thing("Pod", name, "default", spec={"containers": [container], "restartPolicy": "Never"})
    found["metadata"]["annotations"] = {"fairway.dev/run-time": lasts}
    return found


OFF = "{version: v1, mig-configs: {all-disabled: [{devices: all, mig-enabled: false}]}}"
BOMB = "a: &a [1]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghijkl")
)


def ready(setting: str = "mig", file: str = "mig-configs") -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    configs = thing("ConfigMap", "mig-configs", NS, data={"config.yaml": OFF})
    twin.apply(
        [thing("Namespace", "default"), thing("Namespace", NS), configs, node(), policy(setting, file)]
    )
    twin.run_for(8 * 60 * SECOND_US)
    return twin


def phase(twin: Twin, name: str) -> str:
    return str(status_of(twin.store.get(Key("Pod", "default", name)) or {}).get("phase"))


def found(twin: Twin) -> Obj:
    obj = twin.store.get(Key("Node", "", "gpu-1"))
    assert obj is not None
    return obj


def test_who_waits_gets_instances_and_who_runs_stays() -> None:
    twin = ready()
    twin.apply([pod("holder", "nvidia.com/gpu")])
    twin.run_for(20 * SECOND_US)
    twin.apply([pod(f"small-{i}", "nvidia.com/mig-1g.10gb", "600s") for i in range(3)])
    model = load_catalog().gpu("H100")
    assert model is not None
    for _ in range(420):
        twin.run_for(SECOND_US)
        assert phase(twin, "holder") == "Running"
        for layout in gpus_of_node(found(twin)).layouts:
            assert all(fits(model, layout[:i], one) for i, one in enumerate(layout or ()) if layout)
    assert [phase(twin, f"small-{i}") for i in range(3)] == ["Running"] * 3
    assert not spec_of(found(twin)).get("unschedulable")
    assert labels_of(found(twin))["nvidia.com/mig.config.state"] == "success"
    told = [e for e in twin.host.events.told() if e.reason == "Repartitioning"]
    assert len(told) == 1 and "3 instances wait" in told[0].message
    # Once they are gone, somebody wants a whole card: that card is one again.
    twin.apply([pod("whole", "nvidia.com/gpu")])
    twin.run_for(2400 * SECOND_US)
    assert (phase(twin, "whole"), phase(twin, "holder")) == ("Running", "Running")
    assert annotations_of(found(twin)).get("fairway.dev/gpu-layout", "") == ""


@pytest.mark.parametrize(
    "text", ["mig-configs: all", "[1, 2]", "mig-configs: {fairway-x: 7}", BOMB, "a: [", "\0"]
)
def test_a_file_that_mig_manager_refuses_is_left_as_it_is(text: str) -> None:
    twin = ready()
    file = Key("ConfigMap", NS, "mig-configs")
    perform(twin.store, Patch(file, {"data": {"config.yaml": text}}))
    twin.apply([pod("small", "nvidia.com/mig-1g.10gb")])
    twin.run_for(420 * SECOND_US)
    assert phase(twin, "small") == "Pending"
    assert (twin.store.get(file) or {})["data"]["config.yaml"] == text
    assert not spec_of(found(twin)).get("unschedulable")
    told = [e for e in twin.host.events.told() if e.reason == "UnreadableConfigMap"]
    assert told and "mig-configs: error parsing config file" in told[0].message


def test_it_does_nothing_where_nobody_asks_for_it() -> None:
    twin = ready("off")
    twin.apply([pod("small", "nvidia.com/mig-1g.10gb")])
    twin.run_for(600 * SECOND_US)
    assert phase(twin, "small") == "Pending"
    assert twin.component("gpu-partitioner").kinds == ("ClusterPolicy.nvidia.com",)


def test_without_a_file_to_write_it_says_so() -> None:
    twin = ready("mig", "")
    twin.apply([pod("small", "nvidia.com/mig-1g.10gb")])
    twin.run_for(60 * SECOND_US)
    assert phase(twin, "small") == "Pending"
    assert any(e.reason == "NoConfigMap" for e in twin.host.events.told())


def test_a_copy_goes_on_as_the_original() -> None:
    twin = ready()
    twin.apply([pod("small", "nvidia.com/mig-3g.40gb")])
    twin.run_for(100 * SECOND_US)
    copy = twin.fork()
    for one in (twin, copy):
        one.run_for(400 * SECOND_US)
        assert phase(one, "small") == "Running"
    assert annotations_of(found(twin)) == annotations_of(found(copy))
