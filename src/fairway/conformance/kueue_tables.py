"""Does Fairway decide the rows of Kueue's own decision tables as Kueue does?

A file has one case a line, as dumped from Kueue's unit tests: what is configured and running goes in, what
must come out stands in its `want…` fields. Three kinds: one scheduling cycle (`TestSchedule…`), whom one
workload preempts under a given assignment (`TestPreemption`, `TestHierarchicalPreemptions`), and the same
under fair sharing (`TestFairPreemptions`). `kueue_cycles` and `kueue_preemptions` run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fairway.conformance.kueue_cycles import run_cycle_row
from fairway.conformance.kueue_diff import Mismatch
from fairway.conformance.kueue_preemptions import run_fair_preemption_row, run_preemption_row
from fairway.errors import FieldProblem, InvalidInput

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One disagreement. `aspect` names the `want…` field, and what in it."""

    line: int
    name: str
    aspect: str
    wanted: str
    got: str

    def text(self) -> str:
        return f"line {self.line} {self.name}: {self.aspect}\n  kueue:   {self.wanted}\n  fairway: {self.got}"


@dataclass(frozen=True, slots=True)
class Inapplicable:
    """A row that says nothing about Fairway, and why."""

    line: int
    name: str
    reason: str

    def text(self) -> str:
        return f"line {self.line} {self.name}: not applicable: {self.reason}"


@dataclass(slots=True)
class Verification:
    """How many rows agree, and what differs."""

    total: int = 0
    agreed: int = 0
    differences: list[Difference] = field(default_factory=list)
    inapplicable: list[Inapplicable] = field(default_factory=list)


_RUNNERS: tuple[tuple[str, Callable[[Row], list[Mismatch]]], ...] = (
    ("TestFairPreemptions", run_fair_preemption_row),
    ("TestPreemption", run_preemption_row),
    ("TestHierarchicalPreemptions", run_preemption_row),
    ("TestSchedule", run_cycle_row),
)


def verify_table(file: Path) -> Verification:
    """Run every row of a file.

    Raises: InvalidInput for a file that is no such table.
    """
    result = Verification()
    for line, row in read_rows(file):
        name = str(row.get("name") or "")
        result.total += 1
        runner = _runner(str(row.get("suite") or ""))
        if runner is None or not row.get("clusterQueues"):
            reason = (
                f"no runner for suite {row.get('suite')!r}"
                if runner is None
                else "it has no ClusterQueues, so nothing to decide"
            )
            result.inapplicable.append(Inapplicable(line, name, reason))
            continue
        found = runner(row)
        if found:
            result.differences.extend(Difference(line, name, m.aspect, m.wanted, m.got) for m in found)
        else:
            result.agreed += 1
    return result


def _runner(suite: str) -> Callable[[Row], list[Mismatch]] | None:
    return next((run for prefix, run in _RUNNERS if suite.startswith(prefix)), None)


def read_rows(file: Path) -> Iterator[tuple[int, Row]]:
    """The rows with their line numbers.

    Raises: InvalidInput for anything but a JSON object a line.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise InvalidInput(
            (FieldProblem(str(file), 0, "", "", f"cannot read the table: {reason}"),)
        ) from error
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            row = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            problem = FieldProblem(str(file), number, "", "", f"expected a JSON object: {error}")
            raise InvalidInput((problem,)) from error
        if not isinstance(row, dict) or "suite" not in row:
            problem = FieldProblem(
                str(file), number, "", "", "expected a row of a Kueue table (with `suite`)"
            )
            raise InvalidInput((problem,))
        yield number, row
