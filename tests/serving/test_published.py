"""How far our times are from published ones is what the documentation says it is, and no worse than it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairway.catalog.catalog import load_catalog
from fairway.serving.published import Row, played, table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(played(load_catalog()))


def test_the_documented_errors_are_those_of_today(rows: list[Row]) -> None:
    found = "\n".join(table(rows))
    assert found in PAGE.read_text(encoding="utf-8"), f"docs/serving.md should have:\n{found}"


def test_at_least_three_models_and_two_cards_are_compared(rows: list[Row]) -> None:
    assert len({row.given["model"] for row in rows}) >= 3
    assert len({row.given["gpu"] for row in rows}) >= 2
    assert all(row.url.startswith("https://") for row in rows)


@pytest.mark.parametrize(
    ("measure", "at_most"), [("tpot", 0.06), ("rate", 0.10), ("ttft", 0.15), ("whole", 0.06)]
)
def test_the_median_error_stays_small(rows: list[Row], measure: str, at_most: float) -> None:
    errors = [abs(row.error(measure)) for row in rows if measure in row.said]
    assert np.median(errors) <= at_most
