"""Node groups and pods that claim devices: groups grow where their nodes are known to have some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.scenario.building import build_twin
from fairway.scenario.entering import create_or_replace
from fairway.scenario.loading import load_scenario
from fairway.twin.twin import Twin

V1 = "resource.k8s.io/v1"
SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: groups}
spec:
  latency: zero
  cloud:
    provider: aws
    bootTime: 60s
    nodeGroups:
      - {name: known, instanceType: m5.2xlarge, zone: us-east-1a, size: 1, max: 4}
      - {name: empty, instanceType: m5.2xlarge, zone: us-east-1b, max: 4}
    autoscaler: {}
"""


def device_class() -> Obj:
    selectors = [{"cel": {"expression": "device.driver == 'fpga.example.com'"}}]
    return {
        "apiVersion": V1,
        "kind": "DeviceClass",
        "metadata": {"name": "fpga"},
        "spec": {"selectors": selectors},
    }


def template(count: int) -> Obj:
    exactly = {"deviceClassName": "fpga", "count": count}
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    meta = {"name": "some", "namespace": "default"}
    return {"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec}


def pod(name: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "f"}]}}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "f", "resourceClaimTemplateName": "some"}],
    }
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def slice_of(node: str, devices: int = 2) -> Obj:
    spec = {
        "driver": "fpga.example.com",
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": [{"name": f"d{i}"} for i in range(devices)],
    }
    return {"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": f"{node}-s"}, "spec": spec}


def a_twin(tmp_path: Path) -> Twin:
    (tmp_path / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(2 * MINUTE_US)
    return twin


def put(twin: Twin, *objects: Obj, minutes: int = 4) -> None:
    for obj in objects:
        create_or_replace(twin.host, obj)
    twin.wake()
    twin.run_for(minutes * MINUTE_US)


def nodes(twin: Twin) -> list[str]:
    return [str(n["metadata"]["name"]) for n in twin.store.objects("Node")]


def placed(twin: Twin) -> int:
    return sum(bool(p["spec"].get("nodeName")) for p in twin.store.objects("Pod", "default"))


def told(twin: Twin, reason: str) -> set[Any]:
    return {t.message for t in twin.host.events.told() if t.reason == reason}


def test_a_group_grows_as_its_nodes_have_devices(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    (first,) = nodes(twin)
    put(twin, device_class(), template(1), slice_of(first), *(pod(f"p{i}") for i in range(5)))
    assert placed(twin) == 2
    # Three more, two to a node; while new nodes have published nothing yet, no more are asked for.
    assert len(nodes(twin)) == 3
    assert told(twin, "TriggeredScaleUp") == {"pod triggered scale-up: [{known 1->3 (max: 4)}]"}
    put(twin, *(slice_of(n) for n in nodes(twin) if n != first))
    assert placed(twin) == 5
    assert len(nodes(twin)) == 3


def test_of_groups_whose_nodes_have_none_nothing_is_expected(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    put(twin, device_class(), template(1), pod("p"))
    assert len(nodes(twin)) == 1
    assert "pod didn't trigger scale-up: 2 cannot allocate all claims" in told(twin, "NotTriggerScaleUp")


def test_more_devices_than_a_node_has(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    (first,) = nodes(twin)
    put(twin, device_class(), template(3), slice_of(first), pod("p"))
    assert len(nodes(twin)) == 1
    assert "pod didn't trigger scale-up: 2 cannot allocate all claims" in told(twin, "NotTriggerScaleUp")
