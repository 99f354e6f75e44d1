"""Does Fairway decide the rows of Kueue's own decision tables as Kueue does?

A file has one case a line, as dumped from Kueue's unit tests: what is configured and running goes in, what
must come out stands in its `want…` fields. Three kinds: one scheduling cycle (`TestSchedule…`), whom one
workload preempts under a given assignment (`TestPreemption`, `TestHierarchicalPreemptions`), and the same
under fair sharing (`TestFairPreemptions`). `kueue_cycles` and `kueue_preemptions` run them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairway.conformance.kueue_cycles import run_cycle_row
from fairway.conformance.kueue_diff import Mismatch
from fairway.conformance.kueue_preemptions import run_fair_preemption_row, run_preemption_row
from fairway.conformance.rows import read_rows
from fairway.conformance.verification import Difference, Inapplicable, Verification

Row = Mapping[str, Any]

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
    for line, row in read_rows(file, shape_problem):
        name = str(row.get("name") or "")
        runner = _runner(str(row.get("suite") or ""))
        if runner is None or not row.get("clusterQueues"):
            reason = (
                f"no runner for suite {row.get('suite')!r}"
                if runner is None
                else "it has no ClusterQueues, so nothing to decide"
            )
            result.inapplicable.append(Inapplicable(line, name, reason))
            result.total += 1
            continue
        result.count([Difference(line, name, m.aspect, m.wanted, m.got) for m in runner(row)])
    return result


def _runner(suite: str) -> Callable[[Row], list[Mismatch]] | None:
    return next((run for prefix, run in _RUNNERS if suite.startswith(prefix)), None)


def shape_problem(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict) or "suite" not in row:
        return ("suite", "expected a row of a Kueue table (with `suite`)")
    return None
