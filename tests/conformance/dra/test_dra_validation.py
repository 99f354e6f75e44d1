"""Recorded requests about devices, played: all agree; a row that differs is shown; files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.conformance.dra.validation import verify_validation
from fairway.errors import InvalidInput

RECORDED = Path(__file__).parents[3].parent / "shared" / "conformance" / "dra" / "validation.jsonl"


@pytest.mark.skipif(not RECORDED.exists(), reason="../shared/conformance/dra is not there")
def test_requests_are_refused_and_stored_as_recorded() -> None:
    result = verify_validation(RECORDED)
    assert [d.text() for d in result.differences] == []
    assert result.agreed == result.total > 0


def test_an_answer_that_differs_is_shown(tmp_path: Path) -> None:
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    row = {"name": "a claim", "verb": "create", "object": claim, "status": 422, "reason": "Invalid"}
    file = tmp_path / "recording.jsonl"
    file.write_text(json.dumps(row) + "\n")
    result = verify_validation(file)
    assert (result.agreed, result.total) == (0, 1)
    assert ("422", "201") in [(d.wanted, d.got) for d in result.differences]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"verb": "create"}',
        '{"verb": "create", "status": 201, "object": {"kind": "X"}}',
        "",
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(InvalidInput):
        verify_validation(file)
