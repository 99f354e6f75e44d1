"""The example of pools that work off queues holds what it promises."""

from __future__ import annotations

from pathlib import Path

from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

EXAMPLE = Path(__file__).parents[2] / "examples/20-queue-pools"


def test_it_holds_and_forty_runs_and_more_are_worked_off() -> None:
    run = run_scenario(load_scenario(EXAMPLE))
    assert all(verdict.passed for verdict in run.verdicts), [v for v in run.verdicts if not v.passed]
    trained = [p for p in run.outcome.pods if p.owner_name.startswith("train-") and p.phase == "Succeeded"]
    # Forty, and what arrives in three hours; a job more for one that is half done where the poll falls.
    assert 80 <= len(trained) <= 115
