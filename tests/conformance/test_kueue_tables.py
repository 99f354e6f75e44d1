"""Rows of Kueue's own decision tables, where they are at hand, and the reader of such rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.cli.main import main
from fairway.conformance.kueue_tables import verify_table
from fairway.errors import InvalidInput

SHARED = Path(__file__).parents[2].parent / "shared" / "conformance" / "kueue"
TABLES = sorted(SHARED.glob("*.jsonl"))


@pytest.mark.skipif(not TABLES, reason="Kueue's decision tables are not beside the repository")
def test_all_rows_agree() -> None:
    for file in TABLES:
        result = verify_table(file)
        assert [d.text() for d in result.differences] == []
        assert result.inapplicable == []
        assert result.agreed == result.total > 0


def test_a_row_that_disagrees_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "table.jsonl"
    file.write_text(
        '{"suite": "TestFairPreemptions", "name": "nobody goes", "targetCQ": "a", "wantPreempted": ["/x:y"],'
        ' "clusterQueues": [{"metadata": {"name": "a"}, "spec": {"resourceGroups": []}}], "admitted": [],'
        ' "incoming": {"metadata": {"name": "w"}, "spec": {"podSets": [{"name": "main", "count": 1,'
        ' "template": {"spec": {"containers": []}}}]}}}\n'
    )
    assert main(["verify", "kueue-table", str(file), "-v"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "line 1 nobody goes: wantPreempted"
    assert printed[-1] == "agree 0 of 1"


def _queue(**spec: Any) -> dict[str, Any]:
    quota = {"name": "gpu", "resources": [{"name": "cpu", "nominalQuota": "6"}]}
    group = {"coveredResources": ["cpu"], "flavors": [quota]}
    return {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec}}


def _local_queue(name: str, weight: str) -> dict[str, Any]:
    spec = {"clusterQueue": "q", "fairSharing": {"weight": weight}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


_DOMAIN = {
    "domainCount": 1,
    "podCounts": {"universal": 1},
    "valuesPerLevel": [{"universal": "n1"}],
}


def _written(folder: Path, row: dict[str, Any]) -> Path:
    file = folder / "table.jsonl"
    file.write_bytes(msgspec.json.encode(row) + b"\n")
    return file


def _workload(name: str, at: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    meta = {"name": name, "namespace": "default", "creationTimestamp": f"2026-03-01T10:00:0{name[-1]}Z"}
    return {"metadata": meta, "spec": {"queueName": at, "podSets": [pod_set]}}


@pytest.mark.parametrize(
    ("takes_turns", "left_out"),
    [(True, ["default/w2", "default/w4"]), (False, ["default/w3", "default/w4"])],
    ids=["by usage and weight", "by age"],
)
def test_rows_of_admission_fair_sharing_run_one_cycle_per_workload(
    tmp_path: Path, takes_turns: bool, left_out: list[str]
) -> None:
    """`heavy` used as much as `busy` at four times the weight; `zero` has none and goes last. Two of four fit."""
    row = {
        "suite": "TestScheduleForAFS",
        "name": "who is left out",
        "featureGates": {"AdmissionFairSharing": takes_turns},
        "initialUsage": {"busy": {"cpu": "4"}, "heavy": {"cpu": "4"}},
        "resourceFlavors": [{"metadata": {"name": "gpu"}}],
        "clusterQueues": [_queue(admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})],
        "localQueues": [_local_queue("busy", "1"), _local_queue("heavy", "4"), _local_queue("zero", "0")],
        "workloads": [_workload(f"w{n}", at) for n, at in enumerate(("busy", "busy", "heavy", "zero"), 1)],
        "wantInadmissibleLeft": {"q": left_out},
    }
    result = verify_table(_written(tmp_path, row))
    assert [d.text() for d in result.differences] == []
    assert result.agreed == 1


@pytest.mark.parametrize(
    ("error", "events"),
    [
        ({"ErrStatus": {"reason": "NotFound", "message": 'workloads "w1" not found'}}, []),
        ({}, ["SecondPassFailed"]),
        (None, ["EvictedDueToNodeFailures"]),
    ],
    ids=["gone", "refused", "written"],
)
def test_an_eviction_that_the_api_server_refuses_is_none(
    tmp_path: Path, error: object, events: list[str]
) -> None:
    """The workload's node failed and no other one has room."""
    where = {"levels": ["kubernetes.io/hostname"], "slices": [_DOMAIN]}
    held = {
        "name": "main",
        "count": 1,
        "flavors": {"cpu": "gpu"},
        "resourceUsage": {"cpu": "3"},
        "topologyAssignment": where,
    }
    workload = _workload("w1", "zero")
    workload["spec"]["podSets"][0]["topologyRequest"] = {"required": "kubernetes.io/hostname"}
    workload["status"] = {
        "admission": {"clusterQueue": "q", "podSetAssignments": [held]},
        "conditions": [{"type": t, "status": "True"} for t in ("QuotaReserved", "Admitted")],
        "unhealthyNodes": [{"name": "n1"}],
    }
    row = {
        "suite": "TestScheduleForTAS",
        "name": "no other node",
        "patchStatusErr": error,
        "topologies": [{"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": where["levels"][0]}]}}],
        "resourceFlavors": [{"metadata": {"name": "gpu"}, "spec": {"topologyName": "t"}}],
        "clusterQueues": [_queue()],
        "localQueues": [_local_queue("zero", "0")],
        "workloads": [workload],
        "wantEvents": [
            {
                "Key": {"Namespace": "default", "Name": "w1"},
                "EventType": "Warning" if reason == "SecondPassFailed" else "Normal",
                "Reason": reason,
            }
            for reason in events
        ],
    }
    result = verify_table(_written(tmp_path, row))
    assert [d.text() for d in result.differences] == []


def test_a_row_without_queues_is_listed(tmp_path: Path) -> None:
    result = verify_table(_written(tmp_path, {"suite": "TestScheduleForSomething", "name": "bare"}))
    assert [i.reason for i in result.inapplicable] == ["it has no ClusterQueues, so nothing to decide"]


def test_a_row_of_an_unknown_suite_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "table.jsonl"
    file.write_text('{"suite": "TestOther", "name": "strange"}\n')
    assert main(["verify", "kueue-table", str(file)]) == 1
    assert "strange: not applicable: no runner for suite 'TestOther'" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["not json\n", "[1]\n", "{}\n"])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "table.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput):
        verify_table(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        verify_table(tmp_path / "none.jsonl")
