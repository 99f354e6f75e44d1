"""One seed, once as it is and once changed: two runs with the same luck.

A scenario is played from the moment of the change to its end, arrivals as it says; any other ground is run forward
for a while with run times drawn from its history and arrivals resampled from it (`answers.forecasting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairway.answers.forecasting import twins
from fairway.answers.forecasting.arriving import Arrivals
from fairway.answers.forecasting.forecast import base_of
from fairway.answers.forecasting.futures import Runs
from fairway.answers.forecasting.history import history_of
from fairway.answers.forecasting.runtimes import RunTimes
from fairway.answers.forecasting.situation import situation_of
from fairway.answers.whatif.changes import Alteration, carry_out, load_of
from fairway.ground.ground import Ground
from fairway.ground.simulated import ScenarioGround
from fairway.kube.timestamps import DAY_US
from fairway.recorder.recorder import Recorder
from fairway.recorder.tables import COMPLETE, RUNNING, Outcome
from fairway.results.run import Run, RunInfo
from fairway.scenario.assertions.evidence import Evidence
from fairway.scenario.assertions.grammar import Assertion
from fairway.scenario.assertions.judging import Verdict, judge
from fairway.scenario.building import build_twin
from fairway.scenario.running import evidence_of, moment, run_twin
from fairway.twin.streams import seed_of
from fairway.twin.twin import Twin

Changes = tuple[Alteration, ...]


@dataclass(frozen=True)
class World:
    """What is played. `when`: from when on it is changed; `span_us`: how long a ground that is no scenario is run."""

    ground: Ground
    when: str | None = None
    span_us: int = DAY_US
    seed: int = 0


class PlayedRun(NamedTuple):
    run: Run
    verdict: Verdict | None


def play(world: World, number: int, changes: Changes, objective: Assertion | None = None) -> PlayedRun:
    """The `number`-th seed. Raises: UserError, ApiError."""
    if isinstance(world.ground, ScenarioGround):
        outcome, evidence = _scenario(world.ground, world, number, changes)
    else:
        outcome, evidence = _future(world, number, changes)
    name = ", ".join(c.text for c in changes) or "as it is"
    return PlayedRun(
        Run(RunInfo(name, seed=world.seed + number), outcome),
        None if objective is None else judge(objective, evidence),
    )


def _scenario(
    ground: ScenarioGround, world: World, number: int, changes: Changes
) -> tuple[Outcome, Evidence]:
    factor, scenario = load_of(changes), ground.scenario
    if factor != 1:
        traces = tuple(replace(use, load=use.load * factor) for use in scenario.traces)
        scenario = replace(scenario, traces=traces)
    seed = scenario.seed + world.seed + number
    twin = build_twin(scenario, seed=seed)
    # The scenario's own manifests come with its first events: what is changed has to be there.
    twin.run(scenario.start_us if world.when is None else moment(world.when, scenario.start_us))
    carry_out(twin, changes)
    finished = run_twin(scenario, twin, seed=seed)
    return finished.outcome, evidence_of(finished.twin, finished.outcome)


def _future(world: World, number: int, changes: Changes) -> tuple[Outcome, Evidence]:
    here = world.ground.at(world.when)
    situation = situation_of(here.store, here.now_us)
    history = history_of(world.ground.history(world.when).outcome, here.now_us)
    chance = np.random.default_rng(seed_of(world.seed, f"future/{number}"))
    arrivals = Arrivals(history, here.now_us, factor=load_of(changes))
    drawn = Runs(RunTimes(history, here.now_us), situation, arrivals.jobs)
    runs = drawn.draw(chance)
    blocks = arrivals.blocks(int(chance.integers(1 << 62)), world.span_us)
    again = [(at_us, n) for _, block in blocks for at_us, n in block]
    coming = [(at_us, arrivals.jobs[n]) for at_us, n in again]
    of_coming = [drawn.of_arrivals[n] or drawn.again(n, chance) for _, n in again]
    twin: Twin = base_of(here, situation, others=(Recorder(),))
    twins.begin(twin, situation.items, runs, coming, of_coming)
    recorder: Any = twin.host.parts["recorder"]
    before = recorder.outcome(RUNNING)
    carry_out(twin, changes)
    twin.run_for(world.span_us)
    outcome = recorder.outcome(COMPLETE)
    return _since(before, outcome), evidence_of(twin, outcome)


def _since(before: Outcome, outcome: Outcome) -> Outcome:
    """Totals and means of what came after; waits and lives stay whole, as who waits has waited already."""
    integrals = {name: total - before.integrals.get(name, 0) for name, total in outcome.integrals.items()}
    return replace(outcome, began_us=before.ended_us, integrals=integrals)


def changed(changes: Sequence[Alteration], one: Alteration) -> Changes:
    return (*changes, one)
