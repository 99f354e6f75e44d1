"""What is a recorded kubectl session?

One JSON object a line: `cmd` with `stdin`, `stdout`, `stderr` and `rc`; or `node`, a Node that joins then; or
`wait_s`, seconds that pass. Commands are shell lines, because people pipe kubectl into `sed` and `head`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairway.errors import FieldProblem, InvalidInput

_MAX_WAIT_S = 3600.0


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
    """The steps of a recording.

    Raises: InvalidInput with every line that is none.
    """
    steps: list[Step] = []
    problems: list[FieldProblem] = []
    for number, row in rows_of(file, problems):
        found = _step(number, row)
        if isinstance(found, str):
            problems.append(FieldProblem(str(file), number, "", "", found))
        else:
            steps.append(found)
    if not problems and not any(isinstance(s, Command) for s in steps):
        problems.append(
            FieldProblem(str(file), 0, "", "", "no recorded command: expected lines with cmd and rc")
        )
    if problems:
        raise InvalidInput(tuple(problems))
    return steps


def rows_of(file: Path, problems: list[FieldProblem]) -> Iterator[tuple[int, Any]]:
    """Each line's number and value; a line that is no JSON becomes a problem."""
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield number, msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as broken:
            problems.append(FieldProblem(str(file), number, "", "", f"not JSON: {broken}"))


def _step(number: int, row: Any) -> Step | str:
    """The step, or what is wrong with it."""
    if not isinstance(row, dict):
        return "expected an object with cmd, node or wait_s"
    if "cmd" in row:
        return _command(number, row)
    if "node" in row:
        node = row["node"]
        if not isinstance(node, dict) or not isinstance((node.get("metadata") or {}).get("name"), str):
            return "node: expected a Node object with a name"
        return Join({"apiVersion": "v1", "kind": "Node", **node})
    seconds = row.get("wait_s")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= _MAX_WAIT_S:
        return f"expected cmd, node, or wait_s between 0 and {_MAX_WAIT_S:.0f}"
    return Wait(float(seconds))


def _command(number: int, row: dict[str, Any]) -> Step | str:
    text, code = row["cmd"], row.get("rc", 0)
    if not isinstance(text, str) or not text.strip():
        return "cmd: expected a shell line"
    if isinstance(code, bool) or not isinstance(code, int):
        return "rc: expected an exit code"
    said = []
    for name in ("stdin", "stdout", "stderr"):
        value = row.get(name) or ""
        if not isinstance(value, str):
            return f"{name}: expected text"
        said.append(value)
    return Command(number, text, said[0], said[1], said[2], code)
