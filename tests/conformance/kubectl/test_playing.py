"""Recorded sessions, played: a small one that agrees, one that does not, and files that are none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fairway.conformance.kubectl.playing import verify_session
from fairway.conformance.kubectl.session import read_session
from fairway.errors import InvalidInput

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
NODE = {
    "metadata": {"name": "n"},
    "status": {
        "capacity": {"cpu": "8", "memory": "8Gi", "pods": "10"},
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"},
    },
}


def session(path: Path, *rows: dict[str, Any]) -> Path:
    file = path / "session.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def said(
    cmd: str, stdout: str = "", stderr: str = "", rc: int = 0, stdin: str | None = None
) -> dict[str, Any]:
    return {"cmd": cmd, "stdin": stdin, "stdout": stdout, "stderr": stderr, "rc": rc}


@needs_kubectl
def test_commands_that_answer_otherwise_are_named_with_what_differs(tmp_path: Path) -> None:
    file = session(
        tmp_path,
        said("kubectl create namespace a", "namespace/a created\n"),
        {"node": NODE},
        said("kubectl get nodes --no-headers", "n   Ready   <none>   77d\n"),
        {"wait_s": 0.1},
        said("kubectl get ns nobody", "", 'Error from server (NotFound): namespaces "nobody" not found\n', 1),
        said("kubectl get ns a -o name", "namespace/b\n"),
    )
    result = verify_session(file)
    assert (result.agreed, result.total) == (3, 4)
    assert [(d.line, d.aspect, d.got) for d in result.differences] == [(6, "stdout", "namespace/a\n")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "no recorded command"),
        ("{", "expected a JSON object"),
        ("[]", "expected an object"),
        ('{"cmd": 1, "rc": 0}', "expected a shell line"),
        ('{"cmd": "x", "rc": "0"}', "expected an exit code"),
        ('{"cmd": "x", "stdout": 1, "rc": 0}', "expected text"),
        ('{"wait_s": -1}', "wait_s between"),
        ('{"node": {}}', "expected a Node object"),
    ],
)
def test_files_that_are_no_session_are_refused_by_line(tmp_path: Path, text: str, wanted: str) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        read_session(file)
    assert wanted in str(refused.value.problems[0])
