"""docs/cost.md says what there is, and what it shows works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from costworld import bill

from fairway.cli import cost_cmd
from fairway.metering.bill import Kind
from fairway.metering.split import SplitRule
from fairway.results.billing import LabelNames
from fairway.results.costs.breakdown import columns_of
from fairway.results.costs.budgetreading import read_budgets
from fairway.results.costs.budgets import Period
from fairway.results.costs.unitcosts import EPOCHS_LABEL, REQUESTS_LABEL
from recorded import Recorded

PAGE = (Path(__file__).parents[3] / "docs" / "cost.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("column", columns_of(bill(Recorded().node("n").at(60)).bill))
def test_every_column_is_documented(column: str) -> None:
    assert f"`{column}`" in PAGE


@pytest.mark.parametrize(("column", "labels"), LabelNames().names.items())
def test_every_label_is_documented(column: str, labels: tuple[str, ...]) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{column}` |"))
    assert row == f"| `{column}` | {', '.join(f'`{label}`' for label in labels)} |"


def test_words_and_labels_are_documented() -> None:
    for word in (*(k.value for k in Kind), *(s.value for s in SplitRule), *(p.value for p in Period)):
        assert word in PAGE, word
    assert f"`{EPOCHS_LABEL}`" in PAGE
    assert f"`{REQUESTS_LABEL}`" in PAGE


def test_every_option_is_documented() -> None:
    import inspect

    source = inspect.getsource(cost_cmd.cost)
    for option in re.findall(r'"(--[a-z]+)"', source):
        assert option in PAGE or option in ("--output", "--top"), option


def test_the_documented_budget_is_read(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(apiVersion.*?kind: Budget.*?)```", PAGE, re.DOTALL)
    assert block is not None
    (tmp_path / "b.yaml").write_text(block[1])
    (budget,) = read_budgets([tmp_path / "b.yaml"])
    assert budget.amount_micros == 5_000_000_000
    assert budget.command == ("./hold-queue.sh", "vision")


def test_documented_plans_without_a_run_work() -> None:
    from fairway.cli.main import main

    lines = [x for x in PAGE.splitlines() if x.startswith("fairway plan ") and "runs/" not in x]
    assert len(lines) >= 3
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0, line
