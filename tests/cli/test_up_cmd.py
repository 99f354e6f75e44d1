"""`fairway up`, `status`, `clock`, `down`: one cluster's life from the command line, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.main import main

FLEET = """
nodes:
  - name: gpu-{i}
    count: 2
    gpuModel: NVIDIA-H100-80GB-HBM3
    capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}
"""


def said(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_a_cluster_from_up_to_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, fleet = str(tmp_path / "c"), tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    assert main(["up", "--detach", "--paused", "--data", data, "--fleet", str(fleet)]) == 0
    try:
        text = said(capsys)
        assert "Fairway serves Kubernetes at https://127.0.0.1:" in text
        assert f"export KUBECONFIG={data}/kubeconfig" in text
        assert main(["up", "--detach", "--data", data]) == 2
        assert "a server is running on this folder already at https://127.0.0.1:" in said(capsys)
        assert main(["status", "--data", data, "-o", "json"]) == 0
        before = json.loads(said(capsys))
        assert (before["running"], before["nodes"], before["paused"]) == (True, 2, True)
        assert before["components"]["kueue"] is True
        assert main(["status", "--data", data]) == 0
        table = said(capsys)
        assert "running     kube-controller-manager, kube-scheduler, kubelet" in table
        assert "off         karpenter, cluster-autoscaler" in table
        assert main(["clock", "advance", "8h", "--data", data, "-o", "json"]) == 0
        after = json.loads(said(capsys))
        assert after["nowUs"] - before["nowUs"] == 8 * 3_600_000_000
        assert main(["clock", "speed", "60", "--data", data]) == 0
        assert "paused" in said(capsys)
        node = ["clock", "run-until", "node/gpu-0", "--for", "condition=Ready", "--data", data]
        assert main(node) == 0
        never = ["clock", "run-until", "node/gpu-9", "--for", "create", "--limit", "1h", "--data", data]
        assert main(never) == 1
        assert "did not reach create within 1h" in said(capsys)
    finally:
        assert main(["down", "--data", data]) == 0
    assert "stopped (pid" in said(capsys)
    assert main(["status", "--data", data]) == 1
    assert main(["down", "--data", data, "--wipe"]) == 0
    assert [p.name for p in (tmp_path / "c").iterdir()] == []


WRONG: dict[str, tuple[list[str], str]] = {
    "a speed of nothing": (["up", "--speed", "0"], "--speed 0: expected more than 0"),
    "a fleet that is not there": (["up", "--fleet", "/nowhere.yaml"], "cannot be read"),
    "a cloud that is not there": (["up", "--cloud", "/nowhere.yaml"], "cannot be read"),
    "a latency nobody knows": (["up", "--latency", "fast"], "expected default, zero or a readable YAML file"),
    "a component that is none": (
        ["up", "--without", "kube-proxy"],
        "expected some of kube-scheduler, kubelet",
    ),
    "a duration that is none": (["clock", "advance", "soon"], "expected a duration such as 90s"),
    "a time that is none": (["clock", "run-until", "noon"], "expected a time such as"),
    "a clock of nobody": (["clock", "show"], "no server runs on"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_explained(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, want = WRONG[name]
    assert main([*arguments, "--data", str(tmp_path / "c")]) == 2
    assert want in said(capsys)
