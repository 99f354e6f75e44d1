"""A container that wants more memory than its GPU has ends with an error."""

from __future__ import annotations

import pytest
from kubeletworld import World, container, node, pod

from fairway.apiserver.kubelets.containerlogs import SimulatedLog

CASES = {
    "more than the card": (
        "NVIDIA-L4",
        {"nvidia.com/gpu": "1"},
        "0s:10Gi,1m:24Gi",
        "Failed 0/1 main=end:Error:1",
    ),
    "what the card has": ("NVIDIA-L4", {"nvidia.com/gpu": "1"}, "22Gi", "Succeeded 0/1 main=end:Completed:0"),
    "more than the MIG instance": (
        "NVIDIA-A100-SXM4-40GB",
        {"nvidia.com/mig-1g.5gb": "1"},
        "8Gi",
        "Failed 0/1 main=end:Error:1",
    ),
    "a card nobody knows": ("", {"nvidia.com/gpu": "1"}, "900Gi", "Succeeded 0/1 main=end:Completed:0"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_runs_out(name: str) -> None:
    product, limits, says, want = CASES[name]
    labels = {"nvidia.com/gpu.product": product} if product else {}
    has = node(more={next(iter(limits)): "1"}, labels=labels)
    asks = pod("p", container(resources={"limits": limits}), says={"run-time": "5m", "gpu-memory": says})
    world = World(asks, nodes=[has]).at(400)
    assert world.seen() == want
    log = SimulatedLog(world.twin.store, world.need(), "main", previous=False)
    said = [text for _, text in log.read()]
    assert ("RuntimeError: CUDA error: out of memory" in said) == ("Failed" in want)
