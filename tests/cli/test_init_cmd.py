"""A first scenario: whatever is answered, what comes out runs as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fairway.cli.main import main

SMALL = ["--nodes", "2", "--gpus", "4"]


@pytest.mark.parametrize(
    "given",
    [
        SMALL,
        [*SMALL, "--team", "a"],
        ["--nodes", "1", "--gpus", "1", "--team", "a", "--team", "b", "--team", "c"],
        [*SMALL, "--model", "A100-40GB", "--region", "us-east-1"],
        ["--nodes", "2", "--model", "H100-80GB", "--region", "us-central1"],
    ],
    ids=["two teams", "one team", "fewer GPUs than teams", "a region of AWS", "a region of Google"],
)
def test_what_is_written_runs_and_holds(
    tmp_path: Path, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my-cluster"
    assert main(["init", str(folder), *given]) == 0
    assert main(["simulate", str(folder)]) == 0
    assert "3 of 3 hold" in capsys.readouterr().out


def test_the_quota_is_all_gpus_and_no_more(tmp_path: Path) -> None:
    main(["init", str(tmp_path / "x"), "--nodes", "3", "--gpus", "5", "--team", "a", "--team", "b"])
    queues = [
        d
        for d in yaml.safe_load_all((tmp_path / "x/manifests/queues.yaml").read_text())
        if d["kind"] == "ClusterQueue"
    ]
    quotas = [q["spec"]["resourceGroups"][0]["flavors"][0]["resources"][-1]["nominalQuota"] for q in queues]
    assert quotas == [8, 7]


DUMP = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1, uid: u, resourceVersion: "7", creationTimestamp: 2026-01-01T00:00:00Z, labels: {zone: a},
             managedFields: [{manager: kubelet}]}
  spec: {taints: [{key: gpu, effect: NoSchedule}]}
  status: {capacity: {cpu: "8", memory: 8Gi, pods: "10"}, allocatable: {cpu: "8", memory: 8Gi, pods: "10"},
           images: [{names: [x]}], conditions: [{type: Ready, status: "True"}]}
- apiVersion: v1
  kind: Namespace
  metadata: {name: team}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: train, namespace: team, uid: j, annotations: {kubectl.kubernetes.io/last-applied-configuration: x}}
  spec:
    template: {spec: {restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: c, image: i}]}}
  status: {active: 1}
- apiVersion: v1
  kind: Pod
  metadata: {name: train-x, namespace: team,
             ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: j, controller: true}]}
  spec: {nodeName: n1, containers: [{name: c, image: i}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: lone, namespace: team, annotations: {fairway.dev/run-time: 5m}}
  spec: {nodeName: n1, restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: c, image: i}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Secret
  metadata: {name: s, namespace: team}
  data: {password: aHVudGVyMg==}
"""


def test_a_clusters_own_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dump.yaml").write_text(DUMP)
    folder = tmp_path / "Copy Of It"
    assert main(["init", str(folder), "--from", str(tmp_path / "dump.yaml")]) == 0
    names = sorted(f.name for f in (folder / "manifests").iterdir())
    assert names == ["jobs.yaml", "namespaces.yaml", "nodes.yaml", "pods.yaml", "secrets.yaml"]
    node = yaml.safe_load((folder / "manifests/nodes.yaml").read_text())
    assert node["metadata"] == {"name": "n1", "labels": {"zone": "a"}}
    assert sorted(node["status"]) == ["allocatable", "capacity"]
    everything = "".join(f.read_text() for f in folder.rglob("*.yaml"))
    assert "hunter" not in everything and "aHVudGVyMg" not in everything and "train-x" not in everything
    assert yaml.safe_load((folder / "scenario.yaml").read_text())["metadata"]["name"] == "copy-of-it"
    assert main(["simulate", str(folder)]) == 0
    assert "2 pods: 2 succeeded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--model", "H9000"], "--model H9000: expected one of "),
        (["--nodes", "0"], "--nodes 0: expected 1 to 10000"),
        (["--gpus", "100000"], "--gpus 100000: expected 1 to 64"),
        (["--team", "A b"], "team 'A b': expected lower-case"),
        (["--team", "a", "--team", "a"], "a team is named twice"),
        (["--team", "../../x"], "team '../../x': expected lower-case"),
        (["--region", "moon-1"], "moon-1 has no machine with H100-SXM5-80GB: it is to be had in "),
    ],
)
def test_answers_that_make_no_scenario(
    tmp_path: Path, given: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "x"), *given]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("precious")
    assert main(["init", str(tmp_path)]) == 2
    assert "expected a new or empty directory" in capsys.readouterr().err
    assert [f.name for f in tmp_path.iterdir()] == ["mine"]


def test_a_dump_of_nothing_to_start_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dump.yaml").write_text("apiVersion: v1\nkind: Event\nmetadata: {name: e}\n")
    assert main(["init", str(tmp_path / "x"), "--from", str(tmp_path / "dump.yaml")]) == 2
    assert "nothing in it to start from" in capsys.readouterr().err
