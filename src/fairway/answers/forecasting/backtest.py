"""How good were forecasts? The history is played, asked at many moments, and answered by what came.

At every moment only what was known then is used: jobs that were there, ends that had happened. Intervals are
recalibrated from forecasts of earlier moments whose truth was known by then. Beside them stand `baselines`.

    found = backtest(open_ground(path), ["20h", "24h", "28h"])
    found.scores["start"].coverage, found.scores["start"].median_error_s

Cases of one moment are alike, so a coverage over few moments is uncertain: the number of moments is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from fairway.answers.forecasting import baselines
from fairway.answers.forecasting.calibration import QUANTILES, Calibration, Case, calibrated, known_by
from fairway.answers.forecasting.forecast import Options, gpus_of, quantiles, question_of
from fairway.answers.forecasting.futures import play_all
from fairway.answers.forecasting.history import History, PastJob, history_of
from fairway.answers.forecasting.losses import Losses, losses_of
from fairway.answers.forecasting.situation import Situation, situation_of
from fairway.errors import UserError
from fairway.ground.ground import CLUSTER, SERVED, Ground, Moment
from fairway.ground.ground import history_of as results_of
from fairway.ground.simulated import RunGround, ScenarioGround
from fairway.kube.timestamps import HOUR_US, SECOND_US, rfc3339
from fairway.recorder.tables import Outcome
from fairway.results.run import RunInfo
from fairway.results.rundir import load_run
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.scenario.model import Scenario
from fairway.scenario.running import moment as moment_of
from fairway.scenario.running import run_twin

START, FINISH = "start", "finish"
HORIZONS: Final = (
    ("< 15m", 0, 900),
    ("15m to 1h", 900, 3600),
    ("1h to 4h", 3600, 14_400),
    ("> 4h", 14_400, np.inf),
)
"""By how long it really took."""
FUTURES: Final = 40


@dataclass(frozen=True, slots=True)
class Answered:
    """One forecast of one object, and what came. `raw` and `shown`: P10, P50, P90 in seconds, before and after
    calibration; `rules`: what the plain rules said."""

    moment: int
    object: str
    truth_s: float
    raw: tuple[float, float, float]
    shown: tuple[float, float, float]
    rules: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Score:
    """Over `cases` forecasts. Shares in percent, times in seconds; None where there is nothing to say."""

    cases: int
    within: int
    """Those whose truth is within the horizon."""
    moments: int
    coverage: float | None
    raw_coverage: float | None
    median_error_s: float | None
    pinball_s: float | None
    rules: dict[str, float | None]
    """Median absolute error of each plain rule, over the cases in which it said something."""
    rules_cases: dict[str, int]

    @property
    def best_rule(self) -> tuple[str, float] | None:
        """Of the rules that spoke in at least half of the cases within the horizon."""
        told = [
            (e, n) for n, e in self.rules.items() if e is not None and 2 * self.rules_cases[n] >= self.within
        ]
        return (min(told)[1], min(told)[0]) if told else None


@dataclass(frozen=True, slots=True)
class Backtest:
    """`scores`: of starts and finishes; `horizons`: of starts, by how long it took; `lately`: the second half."""

    ground: str
    moments: tuple[str, ...]
    futures: int
    scores: dict[str, Score]
    lately: dict[str, Score]
    horizons: dict[str, Score]
    calibration: Calibration
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "calibration": self.calibration.as_json()}


def backtest(
    ground: Ground,
    times: Sequence[str],
    until: str | None = None,
    options: Options | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Backtest:
    """`times`: the moments, ascending, as the ground takes them; `until`: when the truth is read; None: at the end.

    Raises: UserError where no forecast could be compared.
    """
    options = options or Options(futures=FUTURES)
    past = _Kept(ground) if ground.kind in (SERVED, CLUSTER) else _Played(ground)
    asked = []
    for number, at in enumerate(times):
        moment, outcome = past.at(at)
        found = _ask(moment, history_of(outcome, moment.now_us), losses_of(moment, outcome), options)
        if found is not None:
            asked.append(found)
        if progress is not None:
            progress(number + 1, len(times))
    final, until_us = past.end(until)
    truth = {job.object: job for job in final.jobs}
    answered = {what: _answer(asked, truth, what, options.horizon_us) for what in (START, FINISH)}
    starts, horizon_s = answered[START], options.horizon_us / SECOND_US
    scores = {what: score(rows, horizon_s) for what, rows in answered.items()}
    learnt = calibrated([_case(r, r.moment) for r in starts])
    if not starts:
        raise UserError(
            f"{ground.name}: nothing that was pending at {len(times)} moments started later: no forecast to compare"
        )
    return Backtest(
        ground.name,
        tuple(rfc3339(a.situation.now_us) for a in asked),
        options.futures,
        scores,
        {what: score(rows[len(rows) // 2 :], horizon_s) for what, rows in answered.items()},
        {
            name: score([r for r in starts if low <= r.truth_s < high], horizon_s)
            for name, low, high in HORIZONS
        },
        replace(learnt, until=rfc3339(until_us), coverage=scores[START].coverage),
        final.notes,
    )


class _Kept:
    """What a served cluster did, as its history has it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def at(self, when: str) -> tuple[Moment, Outcome]:
        """Raises: UserError where nothing is kept of that moment."""
        return self._ground.at(when), self._ground.history(when).outcome

    def end(self, until: str | None) -> tuple[History, int]:
        moment = self._ground.at(until)
        return history_of(self._ground.history(until).outcome), moment.now_us


class _Played:
    """A scenario, played once from its start."""

    def __init__(self, ground: Ground) -> None:
        self._name = ground.name
        self._scenario = _scenario(ground)
        self._twin = build_twin(self._scenario)

    def at(self, when: str) -> tuple[Moment, Outcome]:
        self._twin.run(moment_of(when, self._scenario.start_us))
        moment = Moment(self._twin)
        return moment, results_of(moment, RunInfo(self._name)).outcome

    def end(self, until: str | None) -> tuple[History, int]:
        twin, scenario = self._twin, self._scenario
        if until is None:
            final = history_of(run_twin(scenario, twin, seed=scenario.seed).outcome)
        else:
            twin.run(moment_of(until, scenario.start_us))
            final = history_of(results_of(Moment(twin), RunInfo(self._name)).outcome)
        return final, twin.now_us


def _scenario(ground: Ground) -> Scenario:
    """Raises: UserError where the history is a record that cannot be stood in."""
    if isinstance(ground, ScenarioGround):
        return ground.scenario
    if isinstance(ground, RunGround):
        info = load_run(Path(ground.name)).info
        if info.source and Path(info.source).exists():
            scenario = load_scenario(Path(info.source))
            return scenario if info.seed is None else replace(scenario, seed=info.seed)
    raise UserError(
        f"{ground.name}: a {ground.kind} cannot be asked at earlier moments: expected a scenario (one with a trace "
        "plays a recorded history), a run whose scenario is still there, or a cluster that fairway up serves"
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """One moment's forecasts, raw: by object."""

    situation: Situation
    quantiles: dict[str, dict[str, tuple[float, float, float]]]
    rules: dict[str, dict[str, float | None]]


def _ask(moment: Moment, known: History, losses: Losses, options: Options) -> _Asked | None:
    situation = situation_of(moment.store, moment.now_us)
    if not situation.pending:
        return None
    seeded = replace(options, seed=options.seed + moment.now_us // HOUR_US)
    question, _ = question_of(moment, situation, known, seeded, looks_ahead=False, losses=losses)
    futures = play_all(question, options.futures, processes=options.processes)
    waiting = [n for n, item in enumerate(situation.items) if item.since_us is None]
    found = {
        what: {situation.items[n].object: quantiles(values[:, n]) for n in waiting}
        for what, values in ((START, futures.start_s), (FINISH, futures.finish_s))
    }
    gpus = 1000 * int(gpus_of(moment.store))
    names = [item.object for item in situation.pending]
    rules = {
        rule: dict(zip(names, said, strict=True))
        for rule, said in baselines.guesses(situation, known, gpus).items()
    }
    return _Asked(situation, found, rules)


def _answer(asked: Sequence[_Asked], truth: dict[str, PastJob], what: str, horizon_us: int) -> list[Answered]:
    cases: list[Case] = []
    found: list[Answered] = []
    for number, one in enumerate(asked):
        now_us = one.situation.now_us
        calibration = calibrated(known_by(cases, now_us, horizon_us))
        for name, raw in one.quantiles[what].items():
            came_us = _truth(truth.get(name), now_us, what)
            if came_us is None:
                continue
            rules = {rule: said[name] for rule, said in one.rules.items()} if what == START else {}
            row = Answered(number, name, (came_us - now_us) / SECOND_US, raw, calibration.apply(*raw), rules)
            found.append(row)
            cases.append(_case(row, now_us))
    return found


def _case(row: Answered, at_us: int = 0) -> Case:
    return Case(at_us, row.object, *row.raw, row.truth_s)


def _truth(job: PastJob | None, now_us: int, what: str) -> int | None:
    """When it started (ended) after that moment; None: never, as far as the record goes."""
    if job is None:
        return None
    if what == FINISH:
        return job.ended_us if job.ended_us is not None and job.ended_us > now_us and job.is_whole else None
    return job.next_start_us(now_us)


def score(rows: Sequence[Answered], horizon_s: float) -> Score:
    """What is later than the horizon, said or come, is all the same: coverage takes it as the horizon itself, errors
    and losses are of truths within it alone. O(n)."""
    if not rows:
        return Score(0, 0, 0, None, None, None, None, {}, {})
    truth = np.minimum([r.truth_s for r in rows], horizon_s)
    shown, raw = (np.minimum([getattr(r, which) for r in rows], horizon_s) for which in ("shown", "raw"))
    near = truth < horizon_s
    said = {
        rule: [(r.rules[rule], r.truth_s) for r in rows if r.truth_s < horizon_s] for rule in rows[0].rules
    }
    errors = {
        rule: [abs(min(g, horizon_s) - t) for g, t in pairs if g is not None] for rule, pairs in said.items()
    }
    return Score(
        len(rows),
        int(near.sum()),
        len({r.moment for r in rows}),
        _covered(truth, shown),
        _covered(truth, raw),
        round(float(np.median(np.abs(shown[near, 1] - truth[near]))), 1) if near.any() else None,
        _pinball(truth[near], shown[near]) if near.any() else None,
        {rule: median(e) if e else None for rule, e in errors.items()},
        {rule: len(e) for rule, e in errors.items()},
    )


def _covered(truth: Any, shown: Any) -> float:
    """Percent inside; a second outside is inside, as stamps are whole seconds."""
    return round(100 * float(np.mean((truth >= shown[:, 0] - 1) & (truth <= shown[:, 2] + 1))), 1)


def _pinball(truth: Any, shown: Any) -> float:
    """Mean over the three quantiles."""
    off = truth[:, None] - shown
    levels = np.array(QUANTILES)
    return round(float(np.maximum(levels * off, (levels - 1) * off).mean()), 1)
