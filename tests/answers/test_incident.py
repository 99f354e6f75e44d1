"""A report of a run, of a dump with its events, and of nothing at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from answerworlds import moment_of, node, pod

from fairway.answers.incident import incident
from fairway.answers.incidenttext import incident_json, incident_markdown
from fairway.cli.main import main
from fairway.ground import open_ground

EXAMPLES = Path(__file__).parents[2] / "examples"
GANG = EXAMPLES / "07-training-gang"


def test_a_run_tells_what_happened_to_whom_and_what_would_have_told() -> None:
    found = incident(open_ground(GANG), "2h")
    assert found.scope.evictions == 4 and found.scope.namespaces == ("notebooks",)
    assert any(
        "lost its quota (InClusterQueue) for research/pytorchjob-llama" in e.what for e in found.timeline
    )
    assert [e.at_us for e in found.timeline] == sorted(e.at_us for e in found.timeline)
    assert "pending" in {f.symptom.name for f in found.factors}
    assert found.told_us["GpuWorkPending"] < found.to_us
    text = incident_markdown(found)
    for title in ("Scope", "Timeline", "Graphs", "Contributing factors", "What was tried", "Remediation"):
        assert f"## {title}\n" in text
    assert "alert: GpuWorkPending" in text and "kubectl patch clusterqueue" in text
    later = incident(open_ground(GANG), "2h", since="30m", namespace="research")
    assert later.from_us == found.to_us - 30 * 60_000_000 and later.scope.pods < found.scope.pods
    assert json.loads(json.dumps(incident_json(found)))["scope"]["evictions"] == 4


def test_a_dump_keeps_its_events(tmp_path: Path) -> None:
    moment = moment_of([node("n", 1)], [pod("p", 4)])
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default", "uid": "u"},
        "type": "Warning",
        "reason": "NodeNotReady",
        "message": "Node is not ready",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "firstTimestamp": "2026-01-05T00:01:00Z",
        "lastTimestamp": "2026-01-05T00:02:00Z",
        "count": 3,
    }
    items = [*(o for gk in moment.store.kinds() for o in moment.store.objects(gk)), event]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    found = incident(open_ground(path))
    (entry,) = [e for e in found.timeline if "NodeNotReady" in e.what]
    assert (entry.times, entry.what) == (3, "NodeNotReady Pod/default/p: Node is not ready")
    assert any("no history is kept" in note for note in found.unknown)


def test_where_nothing_happened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [{**node("n"), "metadata": {"name": "n", "uid": "u"}}]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    out = tmp_path / "report.md"
    assert main(["incident", "--on", str(path), "--out", str(out)]) == 0
    text = out.read_text()
    assert "No check found anything ill." in text and "No alert is known" in text
    assert main(["incident", "--on", str(path), "--since", "yesterday"]) == 2
    assert "--since 'yesterday'" in capsys.readouterr().err
