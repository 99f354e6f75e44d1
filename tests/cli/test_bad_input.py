"""Wrong input is told where it is wrong, with exit code 2 and never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.cli.main import main

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
spec:
  containers:
    - name: c
      image: i
      resources:
        limits: {}
"""


def pod_with(limits: str, requests: str = "") -> str:
    text = POD.replace("limits: {}", f"limits: {limits}")
    return text + (f"        requests: {requests}\n" if requests else "")


CASES = {
    "broken YAML": ("kind: Pod\n  metadata: [", ":2:", ""),
    "a tab for indentation": ("kind: Pod\nmetadata:\n\tname: x\n", ":3:", ""),
    "not a mapping": ("- 1\n- 2\n", ":1:", ""),
    "no kind": ("apiVersion: v1\nmetadata: {name: x}\n", ":1:", "kind"),
    "no name": (
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: i}]}\n",
        ":",
        "metadata.name",
    ),
    "a bad name": (POD.replace("name: p\n", "name: P_1\n"), ":4:", "metadata.name"),
    "a string where an integer belongs": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: three\n"
        "  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n"
        "    spec: {containers: [{name: c, image: i}]}\n",
        ":5:",
        "spec.replicas",
    ),
    "a list where a map belongs": (POD.replace("limits: {}", "limits: [1]"), ":10:", "limits"),
    "negative GPUs": (pod_with('{nvidia.com/gpu: "-1"}'), ":10:", "limits[nvidia.com/gpu]"),
    "fractional GPUs": (pod_with('{nvidia.com/gpu: "1500m"}'), ":10:", "limits[nvidia.com/gpu]"),
    "half a GPU": (pod_with("{nvidia.com/gpu: 0.5}"), ":10:", "limits[nvidia.com/gpu]"),
    "requests that differ from limits for an extended resource": (
        pod_with('{nvidia.com/gpu: "2"}', '{nvidia.com/gpu: "1"}'),
        ":11:",
        "must be equal to nvidia.com/gpu limit of 2",
    ),
    "requests above limits": (pod_with("{cpu: 1}", "{cpu: 2}"), ":11:", "requests"),
    "an impossible quantity": (pod_with("{memory: 12Gb}"), ":10:", "limits[memory]"),
    "a quantity that is no number": (pod_with("{cpu: lots}"), ":10:", "limits[cpu]"),
    "an unknown field": (POD.replace("resources:", "resouces:"), ":9:", "resouces"),
    "a bad toleration operator": (
        POD + "  tolerations: [{key: a, operator: Sometimes}]\n",
        ":11:",
        "tolerations[0].operator",
    ),
    "two documents with one name": (POD + "---\n" + POD, ":", "p"),
    "a duplicate key": (POD.replace("  name: p\n", "  name: p\n  name: q\n"), ":5:", "name"),
    "an unknown annotation of ours": (
        POD.replace("  name: p\n", "  name: p\n  annotations: {fairway.dev/run-tme: 5m}\n"),
        ":5:",
        "fairway.dev/run-tme",
    ),
}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("case", CASES, ids=str)
def test_manifests(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, line, path = CASES[case]
    (tmp_path / "bad.yaml").write_text(text)
    code, _, err = run(capsys, "simulate", str(tmp_path))
    assert code == 2, err
    assert "bad.yaml" + line in err
    assert path in err
    assert "Traceback" not in err


def test_lenient_skips_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text(pod_with("{cpu: lots}") + "---\n" + POD.replace("name: p", "name: ok"))
    code, out, err = run(capsys, "simulate", str(tmp_path), "--lenient", "--duration", "1m")
    assert code == 0, err
    assert "skipped 1" in out + err


@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02", b"\xff\xfe\x00k", b"\xc3\x28"])
def test_files_that_are_not_text(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_bytes(data)
    code, _, err = run(capsys, "simulate", str(tmp_path / "bad.yaml"))
    assert code == 2
    assert "bad.yaml" in err
    assert "Traceback" not in err


def test_a_missing_path(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "simulate", "no/such/dir")
    assert code == 2
    assert "no/such/dir" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("simulate",),
        ("simulate", ".", "--seed", "x"),
        ("verify", "placements"),
        ("bench", "nope"),
    ],
)
def test_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err


def test_a_truncated_trace_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n")
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,1024,1,500,\np1,1000,10"
    (tmp_path / "pods.csv").write_text(pods)
    where = ("--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv"))
    code, _, err = run(capsys, "replay", "openb", *where)
    assert code == 2
    assert "pods.csv:3" in err
    code, out, err = run(capsys, "replay", "openb", *where, "--lenient", "--runs", "1")
    assert code == 0, err
    assert "1" in out


def test_a_recording_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.jsonl").write_text('{"nodes": [], "steps": [{"chosen": "a"}]}\n')
    code, _, err = run(capsys, "verify", "placements", str(tmp_path / "r.jsonl"))
    assert code == 2
    assert "steps[0].pod.metadata.name" in err
