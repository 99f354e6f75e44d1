"""Grounds that are run: a scenario (or plain manifests), and the scenario that a run directory is of.

A run directory holds tables, not objects: its scenario is run again, which equal seeds make the same run. What was
recorded is its history; nothing is run for that.
"""

from __future__ import annotations

from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.ground.ground import RUN, SCENARIO, Moment, history_of
from fairway.ground.reviving import KeptMoments, kept
from fairway.results.costs.pricing import books_of
from fairway.results.run import Run, RunInfo
from fairway.results.rundir import SUMMARY, load_run
from fairway.scenario.loading import load_scenario
from fairway.scenario.model import Scenario
from fairway.scenario.running import run_until


class ScenarioGround:
    """Played until the moment asked about."""

    kind = SCENARIO

    def __init__(self, path: Path, *, lenient: bool = False, seed: int | None = None) -> None:
        self.name = str(path)
        self.scenario: Scenario = load_scenario(path, lenient=lenient)
        self._seed = seed
        self._moments: KeptMoments = {}

    def at(self, when: str | None = None) -> Moment:
        return kept(self._moments, when, lambda: Moment(run_until(self.scenario, when, self._seed)))

    def history(self, when: str | None = None) -> Run:
        scenario, moment = self.scenario, self.at(when)
        info = RunInfo(
            scenario.name,
            scenario.seed if self._seed is None else self._seed,
            source=scenario.file,
            digest=moment.twin.digest(),
            books=books_of(scenario),
        )
        return history_of(moment, info)


class RunGround:
    """A run that is over, or was cut off."""

    kind = RUN

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._moments: KeptMoments = {}

    def at(self, when: str | None = None) -> Moment:
        return kept(self._moments, when, lambda: self._replayed(when))

    def _replayed(self, when: str | None) -> Moment:
        info = load_run(self._path).info
        if not info.source or not Path(info.source).exists():
            said = info.source or "nothing"
            expected = f"a run directory keeps no objects; its scenario is needed, and {said} is not there"
            where = str(self._path / SUMMARY)
            raise InvalidInput((FieldProblem(where, 0, "source", info.source, expected),))
        note = f"replayed {info.source} with seed {info.seed}"
        return Moment(run_until(load_scenario(Path(info.source)), when, info.seed), notes=(note,))

    def history(self, when: str | None = None) -> Run:
        if when is None:
            return load_run(self._path)
        return history_of(self.at(when), RunInfo(self.name))
