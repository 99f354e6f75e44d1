"""One job in several ways: where it goes, what its steps take and cost, and why it may not go at all."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.answers.schemas import schemas
from fairway.answers.whatif.placements import Placement, Placements, compare_placements
from fairway.answers.whatif.whatiftext import placement_lines
from fairway.cli.main import main
from fairway.errors import UserError
from fairway.ground import open_ground
from fairway.kube.manifest import read_path
from fairway.kube.objects import Obj

SCENARIO = """
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {{name: two-leaves}}
spec:
  latency: zero
  duration: 1h
  nodes:
    - name: a-{{i}}
      count: 2
      gpuModel: NVIDIA-H100-80GB-HBM3
      labels: {{{label}: left, node.kubernetes.io/instance-type: p5.48xlarge}}
      capacity: {{cpu: 128, memory: 1Ti, nvidia.com/gpu: 8}}
    - name: b-{{i}}
      count: 2
      gpuModel: NVIDIA-H100-80GB-HBM3
      labels: {{{label}: right, node.kubernetes.io/instance-type: p5.48xlarge}}
      capacity: {{cpu: 128, memory: 1Ti, nvidia.com/gpu: 8}}
"""
LEAF = "network.topology.nvidia.com/leaf"


def scenario(folder: Path, label: str = LEAF) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "scenario.yaml").write_text(SCENARIO.format(label=label))
    return folder


def job(folder: Path, pods: int, gpus: int, step: bool = True) -> Path:
    steps = {"fairway.dev/step-time": "100ms", "fairway.dev/step-traffic": "all_reduce=4Gi"} if step else {}
    container = {
        "name": "main",
        "image": "train",
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
        "env": [{"name": "WORLD_SIZE", "value": str(pods)}],
    }
    pod = {
        "metadata": {"annotations": {"fairway.dev/run-time": "5h", **steps}},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    spec = {"completions": pods, "parallelism": pods, "completionMode": "Indexed", "template": pod}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    path = folder / "job.json"
    path.write_text(json.dumps(made))
    return path


def compared(folder: Path, path: Path) -> Placements:
    ground = open_ground(folder)
    objects: tuple[Obj, ...] = tuple(m.obj for m in read_path(path))
    found = compare_placements(ground.name, ground.at(None), objects)
    schema = schemas()["placements"]
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(found.as_json())))
    # The first names the ground, however long its path is.
    assert all(len(line) <= 100 for line in placement_lines(found)[1:])
    return found


def by_way(found: Placements) -> dict[str, Placement]:
    return {p.way: p for p in found.placements}


def test_packed_steps_are_shorter_and_cheaper_than_spread_ones(tmp_path: Path) -> None:
    folder = scenario(tmp_path / "world")
    found = compared(folder, job(tmp_path, 2, 4))
    ways = by_way(found)
    assert [p.way for p in found.placements] == ["as written", "spread", "packed", "aligned", "per rail"]
    assert all(p.feasible for p in found.placements)
    assert len(ways["spread"].nodes) == 2
    assert len(ways["packed"].nodes) == len(ways["aligned"].nodes) == 1
    spread, packed = ways["spread"], ways["packed"]
    assert spread.step_ms is not None
    assert packed.step_ms is not None
    assert 100 < packed.step_ms < spread.step_ms
    assert spread.usd_per_1000_steps is not None
    assert packed.usd_per_1000_steps is not None
    assert packed.usd_per_1000_steps < spread.usd_per_1000_steps / 2
    assert found.best in ("as written", "packed", "aligned", "per rail")


def test_a_rail_keeps_a_job_under_one_switch(tmp_path: Path) -> None:
    ways = by_way(compared(scenario(tmp_path / "world"), job(tmp_path, 2, 8)))
    assert {n.partition("-")[0] for n in ways["per rail"].nodes} in ({"a"}, {"b"})
    # Two whole nodes are no board of one.
    assert not ways["aligned"].feasible
    assert "didn't match pod affinity rules" in ways["aligned"].why


def test_what_nobody_says_is_not_guessed(tmp_path: Path) -> None:
    folder = scenario(tmp_path / "world", label="example.com/row")
    ways = by_way(compared(folder, job(tmp_path, 2, 8, step=False)))
    assert (ways["per rail"].feasible, ways["per rail"].why) == (
        False,
        "no node says under which leaf switch it is",
    )
    assert ways["spread"].step_ms is None
    assert ways["spread"].usd_per_1000_steps is None


def test_a_job_that_fits_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, path = scenario(tmp_path / "world"), job(tmp_path, 9, 8)
    assert main(["what-if", "--placements", "-f", str(path), "--on", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "it cannot be placed in any of these ways" in out
    assert "Insufficient nvidia.com/gpu" in " ".join(out.split())


@pytest.mark.parametrize(
    "objects", [(), ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},)]
)
def test_manifests_without_a_job_are_refused(tmp_path: Path, objects: tuple[Obj, ...]) -> None:
    ground = open_ground(scenario(tmp_path / "world"))
    with pytest.raises(UserError, match="none of the manifests has a pod template"):
        compare_placements(ground.name, ground.at(None), objects)


@pytest.mark.parametrize("arguments", [[], ["nodes=+1"]])
def test_placements_need_a_job_alone(tmp_path: Path, arguments: list[str]) -> None:
    folder = scenario(tmp_path / "world")
    more = ["-f", str(job(tmp_path, 1, 1))] if arguments else []
    assert main(["what-if", "--placements", *arguments, *more, "--on", str(folder)]) == 2


@settings(max_examples=6, deadline=None)
@given(pods=st.integers(1, 5), gpus=st.sampled_from((1, 4, 8)))
def test_ways_keep_their_promises(tmp_path_factory: pytest.TempPathFactory, pods: int, gpus: int) -> None:
    base = tmp_path_factory.mktemp("ways")
    ways = by_way(compared(scenario(base / "world"), job(base, pods, gpus)))
    assert ways["as written"].feasible == (pods * gpus <= 32)
    assert ways["spread"].feasible == (pods <= 4)
    assert not ways["spread"].feasible or len(ways["spread"].nodes) == pods
    assert ways["aligned"].feasible == (pods * gpus <= 8)
    assert not ways["aligned"].feasible or len(ways["aligned"].nodes) == 1
    assert not ways["per rail"].feasible or len({n[0] for n in ways["per rail"].nodes}) == 1
    if ways["packed"].feasible and ways["spread"].feasible:
        assert len(ways["packed"].nodes) <= len(ways["spread"].nodes)
