"""`board` and `kubelet` of a fleet: the guide's KubeletConfiguration acts; what keeps a kubelet down is located."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.errors import InvalidInput
from fairway.kube.objects import annotations_of
from fairway.scenario.loading import load_scenario

GUIDE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
topologyManagerPolicy: single-numa-node
cpuManagerPolicy: static
reservedSystemCPUs: "0-3"
"""


def scenario(tmp_path: Path, **fleet: Any) -> Path:
    (tmp_path / "kubelet.yaml").write_text(GUIDE)
    nodes = {
        "name": "gpu-{i}",
        "count": 2,
        "capacity": {"cpu": 192, "memory": "2Ti", "nvidia.com/gpu": 8},
        **fleet,
    }
    document = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "numa"},
        "spec": {"duration": "1m", "nodes": [nodes]},
    }
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def test_a_configuration_alone_is_nothing_to_run(tmp_path: Path) -> None:
    """Beside a scenario the file is left to who names it; run by itself it would have no effect, without a word."""
    (tmp_path / "kubelet.yaml").write_text(GUIDE)
    with pytest.raises(InvalidInput) as caught:
        load_scenario(tmp_path / "kubelet.yaml")
    (problem,) = caught.value.problems
    assert problem.line == 3 and "goes under a scenario's nodes: kubelet" in problem.expected


@pytest.mark.parametrize("said", ["kubelet.yaml", yaml.safe_load(GUIDE)])
def test_every_node_of_the_fleet_has_it(tmp_path: Path, said: Any) -> None:
    found = load_scenario(scenario(tmp_path, board="p5", kubelet=said, gpuModel="NVIDIA-H100-80GB-HBM3"))
    nodes = [o for o in found.objects if o["kind"] == "Node"]
    assert len(nodes) == 2
    for node in nodes:
        assert (
            '"topologyManagerPolicy": "single-numa-node"'
            in annotations_of(node)["fairway.dev/kubelet-configuration"]
        )
        assert annotations_of(node)["fairway.dev/board"] == "p5"


@pytest.mark.parametrize(
    ("fleet", "words"),
    [
        ({"board": "p4"}, 'nodes[0].board: "p4": did you mean p4d'),
        ({"board": "dgx-a100"}, None),
        ({"board": "dgx-a100", "kubelet": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}}, None),
        (
            {"board": "hgx-a100-16", "kubelet": {"topologyManagerPolicy": "restricted"}},
            "board: board hgx-a100-16 has 16 GPUs, the node says 8",
        ),
        ({"kubelet": "none.yaml"}, "cannot be read: No such file or directory"),
        ({"kubelet": "scenario.yaml"}, "expected a KubeletConfiguration"),
        ({"kubelet": {"topologyManagerPolicy": "x"}}, 'topologyManagerPolicy: unknown policy: "x"'),
        ({"kubelet": {"memoryManagerPolicy": "Static"}}, "you should specify the system reserved memory"),
        ({"kubelet": {"kind": "KubeProxyConfiguration"}}, "kind: expected a KubeletConfiguration"),
    ],
)
def test_what_does_not_add_up_is_located(tmp_path: Path, fleet: dict[str, Any], words: str | None) -> None:
    path = scenario(tmp_path, gpuModel="NVIDIA-A100-SXM4-40GB", **fleet)
    if words is None:
        load_scenario(path)
        return
    with pytest.raises(InvalidInput) as wrong:
        load_scenario(path)
    assert words in str(wrong.value)
