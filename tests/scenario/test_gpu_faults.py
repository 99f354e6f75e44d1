"""Scenarios whose GPUs break: by the timeline, by a fleet's rates, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.errors import InvalidInput
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

HEAD = """
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: x}
spec:
  duration: 40d
  nodes:
    - {name: "n-{i}", count: 16, gpuModel: NVIDIA-H100-80GB-HBM3, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}
"""


def scenario(tmp_path: Path, more: str) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(HEAD + more)
    return path


def test_a_fleets_rate_comes_out(tmp_path: Path) -> None:
    """128 cards in 40 days at a mean of 1,000 hours each: 123 are expected, and twice the same with one seed."""
    path = scenario(
        tmp_path, "  faults: [{kind: GPUFailure, fleet: llama3, meanTimeBetween: 1000h, repairTime: 1h}]\n"
    )
    runs = [run_scenario(load_scenario(path)) for _ in range(2)]
    counts = [sum(t.times for t in _told(r)) for r in runs]
    assert counts[0] == counts[1] and 90 < counts[0] < 160


def _told(run: object) -> list[object]:
    twin = run.twin  # type: ignore[attr-defined]
    return [e for e in twin.host.events.told() if e.component == "kernel-monitor"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("  faults: [{kind: GPUFailure, fleet: acme}]\n", "spec.faults[0].fleet"),
        ("  faults: [{kind: GPUFailure, after: 3h}]\n", "not with kind GPUFailure"),
        ("  faults: [{kind: SpotPreemption, after: 3h, repairTime: 1h}]\n", "expected replaceAfter"),
        ("  faults: [{kind: NodeFailure, after: 3h, replaceAfter: 1h}]\n", "expected repairTime"),
        (
            "  faults: [{kind: NodeFailure, meanTimeBetween: 3h, fleet: llama3}]\n",
            "only with kind GPUFailure",
        ),
        ("  timeline: [{at: 1h, breakGPU: {nodes: n-0}}]\n", "required: one of xid-13, xid-31"),
        ("  timeline: [{at: 1h, breakGPU: {nodes: n-0, cause: xid-99}}]\n", "breakGPU.cause"),
        ("  timeline: [{at: 1h, breakGPU: {nodes: n-0, cause: xid-79, gpu: 1000}}]\n", "breakGPU.gpu"),
    ],
)
def test_what_is_wrong_is_located(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        load_scenario(scenario(tmp_path, more))
    assert said in str(raised.value)


def test_a_card_that_is_not_there_is_told(tmp_path: Path) -> None:
    more = "  timeline: [{at: 1h, breakGPU: {nodes: n-0, cause: xid-79, gpu: 8}}]\n"
    finished = run_scenario(load_scenario(scenario(tmp_path, more)))
    assert any("it has 8 GPUs that are known by model" in str(t) for t in finished.status.troubles)
