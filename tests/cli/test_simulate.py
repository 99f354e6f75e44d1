"""`fairway simulate` as a person or a CI calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairway.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAIN = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110", nvidia.com/gpu: "2"}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: busybox
          command: [sleep, "600"]
          resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  containers:
    - name: main
      image: busybox
      resources: {limits: {nvidia.com/gpu: 4}}
"""
SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  manifests: [cluster.yaml]
  duration: 1h
  assertions:
    - eventually job/train Complete within 20m
    - count(unfinished jobs) == 0
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(PLAIN)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_a_directory_of_plain_yaml(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "simulate", str(directory))
    assert code == 0
    assert "2 succeeded" in out
    assert "Insufficient nvidia.com/gpu" in out
    assert max(len(line) for line in out.splitlines()) <= 100


def test_assertions_decide_the_exit_code(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "scenario.yaml").write_text(SCENARIO)
    code, out, _ = run(capsys, "simulate", str(directory))
    assert (code, "2 of 2 hold" in out) == (0, True)
    (directory / "scenario.yaml").write_text(SCENARIO.replace("within 20m", "within 5m"))
    code, out, _ = run(capsys, "simulate", str(directory))
    assert (code, "FAIL" in out) == (1, True)


def test_json_is_json_and_nothing_else(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "scenario.yaml").write_text(SCENARIO)
    code, out, _ = run(capsys, "simulate", str(directory), "-o", "json")
    data = json.loads(out)
    assert code == 0
    assert data["passed"] is True
    assert data["duration_s"] == 3600
    assert data["summary"]["status"] == "complete"
    assert len(data["assertions"]) == 2


def test_junit_counts_failures(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "scenario.yaml").write_text(SCENARIO.replace("within 20m", "within 5m"))
    code, out, _ = run(capsys, "simulate", str(directory), "-o", "junit")
    suite = ElementTree.fromstring(out).find("testsuite")
    assert code == 1
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_many_seeds_report_the_spread(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "scenario.yaml").write_text(SCENARIO)
    code, out, _ = run(capsys, "simulate", str(directory), "--seeds", "3")
    assert code == 0
    assert "3 of 3 seeds pass" in out


def test_a_run_directory_can_be_written_and_is_the_same_again(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        run(capsys, "simulate", str(directory), "--out", str(tmp_path / name))
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file())
    assert Path("summary.json") in files
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_an_html_report_needs_no_network(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert run(capsys, "simulate", str(directory), "--html", str(page))[0] == 0
    text = page.read_text()
    assert "<html" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_it_does_not_overwrite_what_is_no_run(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "simulate", str(directory), "--out", str(directory))
    assert code == 2
    assert "expected a new or empty directory" in err
    assert (directory / "cluster.yaml").read_text() == PLAIN


@pytest.mark.parametrize("example", ["01-two-teams", "05-node-failure-checkpoints"])
def test_one_seed_one_digest_whatever_the_hash_seed(example: str) -> None:
    digests = []
    for hash_seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-m", "fairway.cli.main", "simulate", str(EXAMPLES / example), "-o", "json"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        digests.append(json.loads(done.stdout)["digest"])
    assert len(set(digests)) == 1


class TestAFaultOfOurs:
    """One team's odd object leaves everybody else's figures whole, and is not passed over in silence."""

    ODD = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: odd}\n" + (
        "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---\n"
    )

    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        from fairway.cluster.changes import Change
        from fairway.twin.volumes.binding import VolumeBinder

        observe = VolumeBinder.observe

        def observed(binder: VolumeBinder, change: Change) -> None:
            if change.key.name == "odd":
                raise AttributeError("'str' object has no attribute 'get'")
            observe(binder, change)

        monkeypatch.setattr(VolumeBinder, "observe", observed)
        monkeypatch.delenv("FAIRWAY_DEBUG", raising=False)
        (tmp_path / "a.yaml").write_text(self.ODD + PLAIN)
        return tmp_path

    def test_the_others_run_to_their_end(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        html = path / "report.html"
        assert main(["simulate", str(path / "a.yaml"), "-o", "json", "--html", str(html)]) == 4
        captured = capsys.readouterr()
        said = json.loads(captured.out)
        assert said["ended"] == "idle" and not said["passed"]
        assert said["summary"]["figures"]["pods"]["succeeded"] == 2
        fault = "persistentvolume-controller: PersistentVolumeClaim default/odd: AttributeError: 'str' object"
        assert said["failures"][0].startswith(fault)
        assert f"fairway: a fault of ours: {fault}" in captured.err and "FAIRWAY_DEBUG=1" in captured.err
        assert "a fault of Fairway: persistentvolume-controller" in html.read_text()
        assert "Traceback" not in captured.err

    def test_under_many_seeds(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["simulate", str(path / "a.yaml"), "--seeds", "2"]) == 4
        assert capsys.readouterr().err.count("fairway: a fault of ours") == 1
        assert main(["simulate", str(path / "a.yaml"), "-o", "junit"]) == 4
        suite = ElementTree.fromstring(capsys.readouterr().out)[0]
        assert suite.attrib["errors"] == "1" and suite.find("testcase/error") is not None

    def test_the_traceback_is_there_for_who_asks(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAIRWAY_DEBUG", "1")
        with pytest.raises(AttributeError):
            main(["simulate", str(path / "a.yaml")])
