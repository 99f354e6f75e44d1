"""The checklist finds the step that failed, whatever broke, and says nothing where all is well."""

from __future__ import annotations

import json

import pytest

from fairway.cli.main import main
from fairway.devices.checklist import checks
from fairway.kube.objects import Key
from fairway.kube.timestamps import MINUTE_US
from fairway.twin.devices.gpuhealth import break_gpu
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {"mig": {"strategy": "single"}},
}


def world(fault: str = "", gpus: str = "2 NVIDIA-H100-80GB-HBM3") -> Twin:
    notes = {"fairway.dev/gpu-fault": fault, "fairway.dev/gpus": gpus}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "annotations": {k: v for k, v in notes.items() if v}},
        "status": {"capacity": {"cpu": "64", "memory": "512Gi", "pods": "110"}},
    }
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    twin.apply(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}, node, POLICY]
    )
    twin.run_for(8 * MINUTE_US)
    return twin


def wrong(twin: Twin) -> list[str]:
    node = twin.store.get(Key("Node", "", "n"))
    assert node is not None
    return [f"{c.name}: {c.found}" for c in checks(twin.store, node) if not c.holds]


def test_all_is_well() -> None:
    assert wrong(world()) == []


@pytest.mark.parametrize(
    ("fault", "first"),
    [
        ("driver-failed", "nvidia-driver-daemonset: "),
        ("toolkit-failed", "nvidia-container-toolkit-daemonset: "),
        ("runtime-class", "nvidia-operator-validator: "),
        ("plugin-crash", "nvidia-operator-validator: Init:waits in plugin-validation"),
        ("plugin-unregistered", "nvidia-operator-validator: Init:waits in plugin-validation"),
    ],
)
def test_the_first_that_fails_is_the_cause(fault: str, first: str) -> None:
    found = wrong(world(fault))
    assert found[0].startswith("operator: state notReady: ClusterPolicy is not ready; states not ready")
    assert found[1].startswith(first), found
    assert "device plugin's registration: none" in found


def test_broken_cards_and_closed_nodes() -> None:
    twin = world()
    break_gpu(twin.host, "n", 1, "xid-79", drains=True)
    twin.run_for(MINUTE_US)
    assert wrong(twin) == ["health: nvidia.com/gpu 1 of 2, GPUMissing (cards 1)", "schedulable: cordoned"]


def test_a_machine_without_gpus() -> None:
    assert wrong(world(gpus=""))[0] == "hardware: no GPU that anything tells of"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    example = "examples/15-fifty-services"
    assert main(["gpus", "--on", example, "--at", "1m"]) == 1
    said = capsys.readouterr().out
    assert "big: " in said and "$ kubectl -n gpu-operator get pods -l app=nvidia-driver-daemonset" in said
    assert main(["gpus", "big", "--on", example, "--at", "20m", "-o", "json"]) == 0
    assert all(c["holds"] for c in json.loads(capsys.readouterr().out)["big"])
    assert main(["gpus", "other", "--on", example]) == 2
    assert "no node other: expected one of big, small" in capsys.readouterr().err
