"""Recorded scenarios of a slurmctld are replayed; one that was changed no longer agrees."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fairway.conformance.slurm.scheduling import verify_scheduling
from fairway.errors import InvalidInput

RECORDING = Path(__file__).parents[2] / "recordings" / "slurm-scheduling.jsonl.gz"


@cache
def rows() -> dict[str, str]:
    lines = gzip.decompress(RECORDING.read_bytes()).decode().splitlines()
    return {json.loads(line)["id"]: line for line in lines}


def verified(tmp_path: Path, row: dict[str, Any]) -> list[str]:
    file = tmp_path / "row.jsonl"
    file.write_text(json.dumps(row) + "\n")
    return [difference.aspect for difference in verify_scheduling(file).differences]


def test_every_recorded_scenario_agrees() -> None:
    found = verify_scheduling(RECORDING)
    assert ([d.text() for d in found.differences], found.agreed, found.total) == ([], 88, 88)


def spoilt(row: dict[str, Any], what: str) -> dict[str, Any]:
    if what == "start":
        row["jobs"]["B"]["start"] += 9
    elif what == "state":
        row["jobs"]["B"]["state"] = "FAILED"
    elif what == "gpus":
        row["allocations"][0]["nodes"][0]["gres"] = "gpu:h100:2(IDX:3-4)"
    elif what == "reason":
        row["timeline"]["C"][0][2] = "Licenses"
    elif what == "refusal":
        row["events"][0]["rc"] = 1
    return row


@pytest.mark.parametrize(
    ("what", "scenario", "aspect"),
    [
        ("start", "bf-second-head", "start of B"),
        ("state", "bf-second-head", "state of B"),
        ("gpus", "pack-gpu-index", "allocation of A"),
        ("reason", "bf-second-head", "why C waited at 6 s"),
        ("refusal", "bf-second-head", "exit code of A"),
    ],
)
def test_a_changed_scenario_does_not_agree(tmp_path: Path, what: str, scenario: str, aspect: str) -> None:
    assert aspect in verified(tmp_path, spoilt(json.loads(rows()[scenario]), what))


@pytest.mark.parametrize("change", [{"events": 3}, {"slurm_conf": None}, {"timeline": []}, {"t0_epoch": "x"}])
def test_what_is_no_scenario_is_told(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        verified(tmp_path, json.loads(rows()["fifo-basic"]) | change)
