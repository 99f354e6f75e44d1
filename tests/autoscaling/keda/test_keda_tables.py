"""KEDA's own test tables, played: `keda_tables.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.autoscaling.keda.formulas import evaluate
from fairway.autoscaling.keda.scaledjobs import Demand, _effective

TABLES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "keda_tables.yaml").read_text())


@pytest.mark.parametrize("case", TABLES["strategies"], ids=str)
def test_strategies(case: Any) -> None:
    """As the tests ask: how many jobs the strategy would have, before the queue's length bounds them."""
    kind, settings, wanted, running, pending, most, want = case
    spec = {"maxReplicaCount": most, "scalingStrategy": {"strategy": kind, **settings}}
    found, _ = _effective(spec, Demand(True, 1, wanted), running, pending, most)
    assert found == want


def test_eager_jobs_may_be_as_many_as_there_may_be_at_all() -> None:
    spec = {"maxReplicaCount": 10, "scalingStrategy": {"strategy": "eager"}}
    assert _effective(spec, Demand(True, 1, 4), 3, 0, 10) == (4, 10)


@pytest.mark.parametrize("case", TABLES["formulas"], ids=lambda case: str(case[0]))
def test_formulas(case: Any) -> None:
    _, formula, values, want = case
    assert evaluate(formula, values) == want
