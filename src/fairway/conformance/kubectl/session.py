"""What is a recorded kubectl session?

One JSON object a line: `cmd` with `stdin`, `stdout`, `stderr` and `rc`; or `node`, a Node that joins then; or
`wait_s`, seconds that pass. Commands are shell lines, because people pipe kubectl into `sed` and `head`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairway.conformance.rows import nothing_recorded, read_rows

_MAX_WAIT_S = 3600.0
_STREAMS = ("stdin", "stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Command:
    """What was typed and what came of it."""

    line: int
    text: str
    stdin: str
    stdout: str
    stderr: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Join:
    """A node joins the cluster."""

    node: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


Step = Command | Join | Wait


def read_session(file: Path) -> list[Step]:
    """The steps of a recording. Raises: InvalidInput for a line that is none."""
    steps = [_step(number, row) for number, row in read_rows(file, _shape_problem)]
    if not any(isinstance(step, Command) for step in steps):
        raise nothing_recorded(file, "recorded command")
    return steps


def _step(number: int, row: dict[str, Any]) -> Step:
    if "cmd" in row:
        stdin, stdout, stderr = (row.get(name) or "" for name in _STREAMS)
        return Command(number, row["cmd"], stdin, stdout, stderr, row.get("rc", 0))
    if "node" in row:
        return Join({"apiVersion": "v1", "kind": "Node", **row["node"]})
    return Wait(float(row["wait_s"]))


def _shape_problem(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict):
        return ("", "expected an object with cmd, node or wait_s")
    if "cmd" in row:
        return _command_problem(row)
    if "node" in row:
        node = row["node"]
        named = isinstance(node, dict) and isinstance((node.get("metadata") or {}).get("name"), str)
        return None if named else ("node", "expected a Node object with a name")
    seconds = row.get("wait_s")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= _MAX_WAIT_S:
        return ("wait_s", f"expected cmd, node, or wait_s between 0 and {_MAX_WAIT_S:.0f}")
    return None


def _command_problem(row: dict[str, Any]) -> tuple[str, str] | None:
    text, code = row["cmd"], row.get("rc", 0)
    if not isinstance(text, str) or not text.strip():
        return ("cmd", "expected a shell line")
    if isinstance(code, bool) or not isinstance(code, int):
        return ("rc", "expected an exit code")
    for name in _STREAMS:
        if not isinstance(row.get(name) or "", str):
            return (name, "expected text")
    return None
