"""`Budget` documents (fairway.dev/v1alpha1) into budgets, and what is wrong with them.

apiVersion: fairway.dev/v1alpha1
kind: Budget
metadata: {name: vision}
spec:
  for: {team: vision}      # columns of the bill; nothing: everything, idle included
  amount: 5000             # US dollars
  period: month            # run, day, week, month
  alerts: [50, 80, 100]    # percent
  enforcement: {at: 100, action: hold, command: [./hold-queue.sh, vision]}
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.located import Field, Reading
from fairway.kube.manifest import Manifest, capped, read_path
from fairway.results.costs.budgets import Budget, Period

API_VERSION, KIND = "fairway.dev/v1alpha1", "Budget"
# A budget that is reached a thousand times over is a mistake.
_PERCENT_MOST = 100_000


def read_budgets(paths: list[Path]) -> list[Budget]:
    """The budgets of these files or directories. Raises: InvalidInput with every problem."""
    found: list[Budget] = []
    problems: list[FieldProblem] = []
    for manifest in [m for path in paths for m in read_path(path)]:
        reading = Reading(manifest)
        if manifest.obj.get("kind") != KIND or manifest.obj.get("apiVersion") != API_VERSION:
            problems.append(_not_ours(manifest))
            continue
        found.append(_budget(reading))
        problems += reading.problems
    seen: set[str] = set()
    for budget in found:
        if budget.name in seen and budget.where is not None:
            problems.append(budget.where.problem(f"a second budget named {budget.name}: expected one"))
        seen.add(budget.name)
    if problems:
        raise InvalidInput(capped(problems))
    return found


def _not_ours(manifest: Manifest) -> FieldProblem:
    kind = f"{manifest.obj.get('apiVersion')} {manifest.obj.get('kind')}"
    expected = f"expected {API_VERSION} and kind {KIND}"
    return FieldProblem(manifest.file, manifest.line_of(("kind",)), "kind", kind, expected)


def _budget(reading: Reading) -> Budget:
    root = reading.root().members("apiVersion", "kind", "metadata", "spec", required=("metadata", "spec"))
    meta = root["metadata"].members("name", "labels", "annotations", required=("name",))
    spec = root["spec"].members("for", "amount", "period", "alerts", "enforcement", required=("amount",))
    enforcement = spec["enforcement"].members("at", "action", "command")
    given = spec["enforcement"].is_given
    return Budget(
        name=meta["name"].text(),
        for_=spec["for"].words(),
        amount_micros=_amount(spec["amount"]),
        period=Period(spec["period"].choice([p.value for p in Period], Period.MONTH.value)),
        alerts=tuple(sorted(f.integer(100, 1, _PERCENT_MOST) for f in spec["alerts"].items()))
        or (50, 80, 100),
        enforce_at=enforcement["at"].integer(100, 1, _PERCENT_MOST) if given else 0,
        action=enforcement["action"].text("record") if given else "",
        command=enforcement["command"].texts() if given else (),
        where=spec["for"],
    )


def _amount(given: Field) -> int:
    expected = "expected US dollars, more than 0, such as 5000 or 49.90"
    try:
        micros = int(Decimal(str(given.value)) * 1_000_000)
    except (InvalidOperation, OverflowError, ValueError):
        micros = 0
    if given.is_given and (isinstance(given.value, bool) or not 0 < micros < 10**18):
        given.reject(expected)
    return max(micros, 1)
