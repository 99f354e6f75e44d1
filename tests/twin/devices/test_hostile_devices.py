"""Whatever stands in annotations, labels, policies and ConfigMaps of devices: nothing stops, copies go on alike."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.twin.devices.gpuhealth import break_gpu
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

TEXTS = (
    *(
        "",
        "x",
        "99999999999 H100",
        "-1 H100",
        "8 Mystery",
        "0=1g.10gb@0;0=zz@9;=;;9=",
        "0=4g.40gb@0,4g.40gb@0",
    ),
    *(
        "nvidia.com/gpu=8",
        "nvidia.com/gpu=8/9/x,=,/",
        "３/３",
        ";" * 300,
        "1,2,３,-4,99",
        "driver-failed,,mig-busy",
    ),
)
NOTES = (
    "gpu-layout",
    "gpu-unhealthy",
    "gpu-resources",
    "gpu-fault",
    "gpu-single-requests",
    "mig-config-tried",
)
LABELS = ("mig.config", "mig.config.state", "device-plugin.config", "gpu.product", "gpu-driver-upgrade-state")
VALUES = ("", "all-1g.10gb", "pending", "failed", "cordon-required", "pod-restart-required", "bogus")
CONFIG = {"config": {"name": "cm", "default": "a"}}
PARTS: tuple[Any, ...] = (None, {}, [], "x", 7, {"enabled": False}, CONFIG, {"version": {}})


def node(name: str, rng: random.Random) -> Obj:
    notes = {f"fairway.dev/{k}": rng.choice(TEXTS) for k in NOTES if rng.random() < 0.5}
    notes["fairway.dev/gpus"] = rng.choice(["2 NVIDIA-H100-80GB-HBM3", *TEXTS[:5]])
    labels = {f"nvidia.com/{k}": rng.choice(VALUES) for k in LABELS if rng.random() < 0.4}
    meta = {"name": name, "annotations": notes, "labels": labels}
    status = {"capacity": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def pod(name: str, rng: random.Random) -> Obj:
    said = rng.choice(["gpu-index", "gpu-instances"])
    meta = {"name": name, "namespace": "default", "annotations": {f"fairway.dev/{said}": rng.choice(TEXTS)}}
    limits = {rng.choice(["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"]): "1"}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("seed", range(12))
def test_nothing_stops(seed: int) -> None:
    rng = random.Random(seed)
    twin = Twin(seed=seed, latency=latency_named("zero"), components=standard_components())
    parts = ("driver", "toolkit", "devicePlugin", "migManager", "mig")
    spec = {k: rng.choice(PARTS) for k in parts if rng.random() < 0.6}
    meta = {"name": "cm", "namespace": "gpu-operator"}
    data = {"a": rng.choice(["", "[", "{sharing: {mps: 3}}"]), "config.yaml": "x"}
    twin.apply(
        [
            *(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}}
                for n in ("default", "gpu-operator")
            ),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data},
            *(node(f"n{i}", rng) for i in range(3)),
            *(pod(f"p{i}", rng) for i in range(4)),
            {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": spec},
        ]
    )
    twin.run_for(5_000_000)
    for i in range(3):
        break_gpu(
            twin.host, f"n{i}", rng.randint(0, 3), rng.choice(["xid-79", "thermal", "xid-31"]), drains=True
        )
    twin.run_for(300_000_000)
    copy = twin.fork()
    for one in (twin, copy):
        one.run_for(300_000_000)
    assert twin.digest() == copy.digest()
