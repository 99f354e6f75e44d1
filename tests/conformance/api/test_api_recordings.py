"""Recorded requests, played: some that agree, some that do not, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairway.conformance.api.requests import read_requests, verify_requests
from fairway.errors import InvalidInput

MAPS = "/api/v1/namespaces/work/configmaps"


def recording(path: Path, *rows: dict[str, Any]) -> Path:
    file = path / "requests.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def row(method: str, path: str, status: int, answer: Any, **other: Any) -> dict[str, Any]:
    return {"method": method, "path": path, "status": status, "answer": answer, **other}


def test_answers_that_differ_are_shown_as_recorded_and_as_given(tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    stored = {**body, "metadata": {"name": "a", "namespace": "work", "uid": "UID", "resourceVersion": "1"}}
    missing = {
        "message": 'configmaps "b" not found',
        "reason": "NotFound",
        "details": {"name": "b", "kind": "configmaps"},
    }
    file = recording(
        tmp_path,
        row("POST", MAPS, 201, stored, body=body, compare="code and body"),
        row("GET", f"{MAPS}/b", 404, missing),
        row(
            "GET",
            f"{MAPS}/a",
            200,
            {**stored, "data": {"k": "w"}},
            compare="code and body",
            label="another value",
        ),
        row("DELETE", f"{MAPS}/a", 202, {}, compare="code"),
        row("GET", MAPS, 403, {}, headers={"Impersonate-User": "jane"}, compare="code"),
    )
    result = verify_requests(file)
    assert (result.agreed, result.total) == (3, 5)
    assert [(d.line, d.aspect) for d in result.differences] == [(3, "body"), (4, "code")]
    assert result.differences[0].where == f"another value: GET {MAPS}/a"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "no recorded request"),
        ("{", "expected a JSON object"),
        ("[]", "expected an object"),
        ('{"method": "FROB", "path": "/", "status": 200}', "method: expected one of"),
        ('{"method": "GET", "path": "api", "status": 200}', "path: expected a path"),
        ('{"method": "GET", "path": "/api", "status": "200"}', "status: expected a number"),
        ('{"method": "GET", "path": "/api", "status": 200, "compare": "all"}', "compare: expected"),
        ('{"method": "GET", "path": "/api", "status": 200, "headers": {"a": 1}}', "headers: expected"),
    ],
)
def test_files_that_are_no_recording_are_refused_by_line(tmp_path: Path, text: str, wanted: str) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        read_requests(file)
    assert wanted in str(refused.value.problems[0])
