"""The same scenario under many seeds: how sure is an answer that rests on chance?

Seeds are the scenario's and those that follow it. Two processes by default: runs share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from fairway.scenario.assertions.grammar import Assertion
from fairway.scenario.assertions.judging import Verdict
from fairway.scenario.model import Scenario
from fairway.scenario.running import AlertsOf, run_scenario


@dataclass(frozen=True, slots=True)
class SeedRun:
    """What is kept of one run."""

    seed: int
    ended: str
    duration_us: int
    events: int
    wall_s: float
    digest: str
    verdicts: tuple[Verdict, ...]
    passed: bool
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """One assertion over all runs: how often it held, and its measure from the least to the most.

    Measures are None where no run had anything to measure; `median` is the lower one of two.
    """

    assertion: Assertion
    unit: str
    runs: int
    passed: int
    lowest: float | None
    median: float | None
    highest: float | None
    failed_seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """All runs, in the order of their seeds."""

    scenario: Scenario
    runs: tuple[SeedRun, ...]
    spreads: tuple[Spread, ...]

    @property
    def passed(self) -> bool:
        return all(run.passed for run in self.runs)

    @property
    def failures(self) -> tuple[str, ...]:
        """Faults of ours in any of the runs, each once."""
        return tuple(dict.fromkeys(text for run in self.runs for text in run.failures))


_Task = tuple[Scenario, int, AlertsOf | None]


def run_seeds(
    scenario: Scenario,
    count: int,
    *,
    first: int | None = None,
    processes: int = 2,
    done: Callable[[SeedRun], None] | None = None,
    alerts_of: AlertsOf | None = None,
) -> Repeated:
    """Run under `count` seeds from `first` (the scenario's own unless given). `done` hears of each run; `alerts_of`: as
    of `run_scenario`."""
    start = scenario.seed if first is None else first
    tasks = [(scenario, seed, alerts_of) for seed in range(start, start + count)]
    runs = []
    for run in _all(tasks, min(processes, count)):
        runs.append(run)
        if done is not None:
            done(run)
    return Repeated(scenario, tuple(runs), spreads_of(scenario.assertions, runs))


def _all(tasks: list[_Task], processes: int) -> Sequence[SeedRun] | map[SeedRun]:
    if processes <= 1:
        return map(_run_one, tasks)
    # Forking is what makes sharing the scenario free; spawning works as well, it only starts slower.
    context = get_context("fork")
    pool = ProcessPoolExecutor(processes, mp_context=context)
    try:
        return list(pool.map(_run_one, tasks, chunksize=1))
    finally:
        pool.shutdown(cancel_futures=True)


def _run_one(task: _Task) -> SeedRun:
    scenario, seed, alerts_of = task
    finished = run_scenario(scenario, seed=seed, contains=True, alerts_of=alerts_of)
    status = finished.status
    return SeedRun(
        seed,
        status.ended,
        status.duration_us,
        status.events,
        status.wall_s,
        status.digest,
        finished.verdicts,
        finished.passed,
        status.failures,
    )


def spreads_of(assertions: Sequence[Assertion], runs: Sequence[SeedRun]) -> tuple[Spread, ...]:
    found = []
    for number, assertion in enumerate(assertions):
        verdicts = [run.verdicts[number] for run in runs]
        measured = sorted(v.measured for v in verdicts if v.measured is not None)
        failed = tuple(run.seed for run in runs if not run.verdicts[number].passed)
        found.append(
            Spread(
                assertion,
                verdicts[0].unit if verdicts else "",
                len(runs),
                len(runs) - len(failed),
                measured[0] if measured else None,
                measured[(len(measured) - 1) // 2] if measured else None,
                measured[-1] if measured else None,
                failed,
            )
        )
    return tuple(found)
