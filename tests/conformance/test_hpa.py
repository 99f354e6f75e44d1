"""Recorded HorizontalPodAutoscalers are replayed; a recording that was changed no longer agrees."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fairway.conformance.hpa import verify_hpa
from fairway.errors import InvalidInput

RECORDING = Path(__file__).parents[2] / "recordings" / "hpa.jsonl.gz"


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).splitlines()]


def agreed(tmp_path: Path, row: dict[str, Any]) -> int:
    file = tmp_path / "row.jsonl"
    file.write_text(json.dumps(row) + "\n")
    return verify_hpa(file).agreed


def changed(row: dict[str, Any], what: str) -> dict[str, Any]:
    last = next(o for o in reversed(row["observed"]) if o["conditions"])
    if what == "condition":
        last["conditions"][0]["message"] += "!"
    elif what == "replicas":
        last["desiredReplicas"] += 1
    elif what == "scale":
        last["scaleReplicas"] += 7
    elif what == "metric":
        last["currentMetrics"] = [{"type": "Nonsense"}]
    elif what == "event":
        event = {
            "type": "Normal",
            "reason": "SuccessfulRescale",
            "message": "New size: 77; reason: none",
            "count": 1,
        }
        last["events"].append(event)
    elif what == "left out":
        row["observed"] = row["observed"][:1] + row["observed"][2:]
    return row


@pytest.mark.parametrize("what", ["condition", "replicas", "scale", "metric", "event"])
@pytest.mark.parametrize("number", range(0, 34, 3))
def test_a_changed_recording_disagrees(tmp_path: Path, number: int, what: str) -> None:
    row = [r for r in rows() if not r.get("rejected")][number]
    assert agreed(tmp_path, row) == 1
    assert agreed(tmp_path, changed(row, what)) == 0


def test_a_changed_refusal_disagrees(tmp_path: Path) -> None:
    row = next(r for r in rows() if r.get("rejected"))
    assert agreed(tmp_path, {**row, "rejected": row["rejected"].replace("API group", "a group")}) == 0
    assert agreed(tmp_path, {**row, "rejected": ""}) == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no recorded scenarios"),
        ("{", "expected a JSON object"),
        ("[]", "expected a list"),
        ('{"objects": [], "steps": [], "observed": 3, "syncs": []}', "expected a list"),
        ('{"objects": [{}], "steps": [], "observed": [], "syncs": []}', "not a scenario"),
        (
            '{"objects": [], "steps": [], "observed": [], "syncs": [], "flags": ["--horizontal-pod-autoscaler-x=1"]}',
            "not a scenario",
        ),
    ],
)
def test_what_is_no_recording(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text + "\n" if text else "")
    with pytest.raises(InvalidInput, match=says):
        verify_hpa(file)
