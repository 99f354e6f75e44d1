"""What pods hold by claims is on record as GPUs, and nodes that publish GPUs have them."""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.recorder.recorder import Recorder
from fairway.scenario.entering import create_or_replace
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

V1 = "resource.k8s.io/v1"


def node(name: str, gpus: int, **annotations: str) -> Obj:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": str(gpus)}
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    meta = {
        "name": name,
        "labels": labels,
        "annotations": {f"fairway.dev/{k.replace('_', '-')}": v for k, v in annotations.items()},
    }
    status = {"allocatable": amounts, "capacity": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def device_class(name: str, kind: str) -> Obj:
    expression = f"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{kind}'"
    selectors = [{"cel": {"expression": expression}}]
    return {
        "apiVersion": V1,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors},
    }


def template(name: str, **exactly: Any) -> Obj:
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    meta = {"name": name, "namespace": "d"}
    return {"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec}


def pod(name: str, claim: Obj) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **claim}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def recorded(*objects: Obj) -> tuple[Recorder, Twin]:
    twin = Twin(seed=1, latency=NONE, components=[*standard_components(), Recorder()])
    for obj in (device_class("gpu.nvidia.com", "gpu"), device_class("mig.nvidia.com", "mig"), *objects):
        create_or_replace(twin.host, obj)
    twin.wake()
    twin.run_for(10 * SECOND_US)
    found = twin.component("recorder")
    assert isinstance(found, Recorder)
    return found, twin


def held(recorder: Recorder) -> list[int]:
    return sorted(size[0] for size in recorder.pods.interval_sizes)


def offered(recorder: Recorder) -> int:
    return recorder.nodes.lives[0].offers[-1].gpu


def test_whole_gpus() -> None:
    two = template("two", deviceClassName="gpu.nvidia.com", count=2)
    found, twin = recorded(node("n", 4), two, pod("p", {"resourceClaimTemplateName": "two"}))
    assert twin.store.require(Key("Pod", "d", "p"))["spec"]["nodeName"] == "n"
    assert (offered(found), held(found)) == (4000, [2000])
    assert found.nodes.lives[0].devices == (("nvidia.com/gpu", 4),)
    assert found.pods.sorts[0].devices == (("fairway.dev/gpu-milli", 2000),)


def test_instances_are_parts() -> None:
    part = template("part", deviceClassName="mig.nvidia.com", count=1)
    cut = node("n", 1, gpu_layout="0=1g.10gb@0,3g.40gb@4")
    asking = [pod(f"p{i}", {"resourceClaimTemplateName": "part"}) for i in range(3)]
    found, _ = recorded(cut, part, *asking)
    assert (offered(found), held(found)) == (1000, [142, 428])


def test_a_claim_of_several_pods_counts_once() -> None:
    claim = template("one", deviceClassName="gpu.nvidia.com", count=1)
    claim = {**claim, "kind": "ResourceClaim", "spec": claim["spec"]["spec"]}
    asking = [pod(f"p{i}", {"resourceClaimName": "one"}) for i in range(3)]
    found, _ = recorded(node("n", 2), claim, *asking)
    assert held(found) == [0, 0, 1000]


def test_what_the_scheduler_could_not_find_out_is_why_a_pod_waits() -> None:
    selectors = [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].speed > 1"}}]
    odd = template("odd", deviceClassName="gpu.nvidia.com", count=1, selectors=selectors)
    found, _ = recorded(node("n", 1), odd, pod("p", {"resourceClaimTemplateName": "odd"}))
    assert "CEL runtime error: no such key: speed" in found.pods.refusal[0]
