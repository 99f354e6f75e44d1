"""How do runs differ, and which of the differences matter?

The first run is what the others are measured against. A difference matters when it is large both absolutely and
relatively: what the table below says for each figure. Of those that matter, figures higher up in the table
come first; a figure of which one run has nothing to say (nobody measured it) is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.recorder.tables import COMPLETE, GPU_HOUR
from fairway.results.costs.figures import CostFigures
from fairway.results.figures import ALL, Figures, Waits, figures_of
from fairway.results.queuecompare import QueueMeasure, queue_measures
from fairway.results.run import Run

LOWER, HIGHER, NEITHER = "lower", "higher", ""
DURATION, RATIO, COUNT, GPU_TIME, NUMBER = "duration", "ratio", "count", "gpu_time", "number"
MONEY = "micro_dollars"

BETTER, WORSE, DIFFERENT, SAME = "better", "worse", "different", "same"

Value = float | None


class Side(NamedTuple):
    """One run of a comparison; `cost` is None where nobody was asked for prices, or nothing has one."""

    run: Run
    figures: Figures
    cost: CostFigures | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure: what it is called, how it is written, which direction is better, and when a change matters.

    A change matters from `least` on (in the figure's own unit) if it is also at least `least_relative` of the
    first run's value.
    """

    name: str
    unit: str
    better: str
    least: float
    least_relative: float
    of: Callable[[Side], Value]


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure over all runs. `verdicts[i]` is run i against the first; `verdicts[0]` is `same`."""

    name: str
    unit: str
    values: tuple[Value, ...]
    verdicts: tuple[str, ...]

    @property
    def matters(self) -> bool:
        return any(v != SAME for v in self.verdicts)

    def relative(self, run: int) -> float | None:
        """The change against the first run, as a share of it; None from or to nothing."""
        first, value = self.values[0], self.values[run]
        return None if not first or value is None else (value - first) / first


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side. `differences` that matter first, in the order of their weight; then those that do not."""

    names: tuple[str, ...]
    differences: tuple[Difference, ...]
    caveats: tuple[str, ...]
    """What makes runs hard to compare, as sentences; runs are called A, B, … there."""

    def as_json(self) -> dict[str, Any]:
        return {
            "runs": list(self.names),
            "caveats": list(self.caveats),
            "differences": [{**asdict(d), "matters": d.matters} for d in self.differences],
        }


def compare(runs: Sequence[Run], costs: Sequence[CostFigures | None] = ()) -> Comparison:
    """Two or more runs, with what each cost if known; the first is the reference. O(n log n) in pods."""
    if len(runs) < 2:
        raise ValueError("expected two runs or more")
    told = costs or [None] * len(runs)
    sides = [Side(run, figures_of(run.outcome), cost) for run, cost in zip(runs, told, strict=True)]
    measures = [
        *_MEASURES,
        *_of_queues([side.figures for side in sides]),
        *_group_waits([side.figures for side in sides]),
    ]
    found = []
    for measure in measures:
        values = tuple(measure.of(side) for side in sides)
        if any(v is not None for v in values):
            verdicts = (SAME, *(_verdict(measure, values[0], v) for v in values[1:]))
            found.append(Difference(measure.name, measure.unit, values, verdicts))
    ordered = [d for d in found if d.matters] + [d for d in found if not d.matters]
    return Comparison(_names(runs), tuple(ordered), (*_caveats(runs), *_unpriced(sides)))


def _verdict(measure: Measure, first: Value, value: Value) -> str:
    if first is None or value is None:
        return SAME
    change = value - first
    if change == 0 or abs(change) < measure.least or abs(change) < measure.least_relative * abs(first):
        return SAME
    if measure.better == NEITHER:
        return DIFFERENT
    return BETTER if (change < 0) == (measure.better == LOWER) else WORSE


def _names(runs: Sequence[Run]) -> tuple[str, ...]:
    """Their names; their directories where names are not told apart; numbered where neither is."""
    for texts in ([r.name for r in runs], [r.directory for r in runs]):
        if all(texts) and len(set(texts)) == len(texts):
            return tuple(texts)
    return tuple(f"{r.name or 'run'} ({i})" for i, r in enumerate(runs, 1))


def letter(index: int) -> str:
    """What a run is called beside the others: A, B, …"""
    return chr(ord("A") + index) if index < 26 else str(index + 1)


def _caveats(runs: Sequence[Run]) -> list[str]:
    found = []
    first = runs[0]
    for i, run in enumerate(runs):
        name = letter(i)
        if run.status != COMPLETE:
            found.append(f"{name} is {run.status}: its figures end where it was cut off.")
        if run.missing:
            found.append(f"{name} lacks {', '.join(run.missing)}.")
        if i == 0:
            continue
        if run.info.digest and run.info.digest == first.info.digest:
            found.append(f"{name} has the digest of A: it is the same run.")
            continue
        if len(run.outcome.pods) != len(first.outcome.pods):
            pods = f"{len(run.outcome.pods):,} against {len(first.outcome.pods):,}"
            found.append(f"{name} had another number of pods ({pods}): totals are not of the same work.")
        shorter, longer = sorted((run.outcome.duration_us, first.outcome.duration_us))
        if longer > shorter * 1.01 + SECOND_US:
            found.append(f"{name} lasted another time than A: shares of time are of different spans.")
        if run.info.seed != first.info.seed:
            found.append(f"{name} has another seed than A: part of the difference is chance.")
    return found


def _unpriced(sides: Sequence[Side]) -> list[str]:
    """Sums of money that are not all of the cost."""
    return [
        f"{letter(i)} has {side.cost.unpriced_gpu_hours:,.1f} GPU-hours without a price: they are not in its dollars."
        for i, side in enumerate(sides)
        if side.cost is not None and side.cost.unpriced
    ]


# What is compared, by weight


def _all_waits(figures: Figures) -> Waits:
    return figures.waits[0]


def _mean(name: str, unit: float = 1.0) -> Callable[[Side], Value]:
    def of(side: Side) -> Value:
        outcome = side.run.outcome
        return outcome.mean(name) / unit if name in outcome.integrals else None

    return of


def _ended_after(side: Side) -> Value:
    """When the last pod that is meant to end did; None where some never did."""
    run = side.run
    pods = run.outcome.pods
    last = run.outcome.began_us
    for finished, serving in zip(pods.column("finished_us"), pods.column("is_serving"), strict=True):
        if finished is None:
            if not serving:
                return None
        else:
            last = max(last, finished)
    return float(last - run.outcome.began_us)


def _failed_assertions(side: Side) -> Value:
    verdicts = side.run.info.assertions
    return float(sum(not v.get("passed") for v in verdicts)) if verdicts else None


def _cost(name: str) -> Callable[[Side], Value]:
    def of(side: Side) -> Value:
        cost = side.cost
        value = None if cost is None or not cost.total_micros else getattr(cost, name)
        return None if value is None else float(value)

    return of


_CENT = 10_000  # µ$

_MEASURES: tuple[Measure, ...] = (
    Measure("assertions failed", COUNT, LOWER, 1, 0.0, _failed_assertions),
    Measure("pods not started at the end", COUNT, LOWER, 1, 0.05, lambda s: s.figures.pods.waiting),
    Measure("wait p50", DURATION, LOWER, 5 * SECOND_US, 0.1, lambda s: _all_waits(s.figures).p50_us),
    Measure("wait p95", DURATION, LOWER, 10 * SECOND_US, 0.1, lambda s: _all_waits(s.figures).p95_us),
    Measure("wait max", DURATION, LOWER, MINUTE_US, 0.1, lambda s: _all_waits(s.figures).max_us),
    Measure("GPUs allocated", RATIO, HIGHER, 0.01, 0.01, lambda s: s.figures.gpu.allocated_ratio),
    Measure("GPUs used, as far as told", RATIO, HIGHER, 0.01, 0.01, lambda s: s.figures.gpu.used_ratio),
    Measure("dollars", MONEY, LOWER, _CENT, 0.01, _cost("total_micros")),
    Measure("dollars a held GPU-hour", MONEY, LOWER, _CENT, 0.02, _cost("held_hour_micros")),
    Measure("dollars held by nobody", MONEY, LOWER, _CENT, 0.02, _cost("idle_micros")),
    Measure("dollars of GPUs held in vain", MONEY, LOWER, _CENT, 0.02, _cost("unused_micros")),
    Measure("dollars on spot", RATIO, NEITHER, 0.01, 0.02, _cost("spot_share")),
    Measure("fragmentation", RATIO, LOWER, 0.01, 0.02, lambda s: s.figures.fragmentation.mean),
    Measure("pods evicted", COUNT, LOWER, 1, 0.05, lambda s: s.figures.pods.evicted),
    Measure("GPU-hours wasted", GPU_TIME, LOWER, GPU_HOUR / 10, 0.05, lambda s: s.figures.gpu.wasted),
    Measure(
        "GPU-hours idle in demand", GPU_TIME, LOWER, GPU_HOUR, 0.05, lambda s: s.figures.gpu.idle_in_demand
    ),
    Measure("all work done after", DURATION, LOWER, MINUTE_US, 0.02, _ended_after),
    Measure("queue length, mean", NUMBER, LOWER, 0.5, 0.05, _mean("queue_length")),
    Measure("GPUs asked for, mean", NUMBER, LOWER, 0.5, 0.05, _mean("gpu_milli_pending", 1000)),
    Measure("pods succeeded", COUNT, HIGHER, 1, 0.01, lambda s: s.figures.pods.succeeded),
    Measure("pods failed", COUNT, LOWER, 1, 0.05, lambda s: s.figures.pods.failed),
    Measure("container restarts", COUNT, LOWER, 1, 0.05, lambda s: s.figures.pods.restarts),
    Measure("GPU-hours offered", GPU_TIME, NEITHER, GPU_HOUR, 0.01, lambda s: s.figures.gpu.offered),
    Measure("GPU-hours allocated", GPU_TIME, NEITHER, GPU_HOUR, 0.01, lambda s: s.figures.gpu.held),
    Measure("CPU allocated", RATIO, NEITHER, 0.01, 0.02, lambda s: s.figures.cpu_allocated_ratio),
    Measure("memory allocated", RATIO, NEITHER, 0.01, 0.02, lambda s: s.figures.memory_allocated_ratio),
)


def _of_queues(figures: Sequence[Figures]) -> list[Measure]:
    return [
        Measure(
            m.name,
            m.unit,
            NEITHER if m.is_lower_better is None else LOWER if m.is_lower_better else HIGHER,
            m.least,
            m.least_relative,
            _queues_of(m),
        )
        for m in queue_measures([f.queues for f in figures])
    ]


def _queues_of(measure: QueueMeasure) -> Callable[[Side], Value]:
    def of(side: Side) -> Value:
        return None if side.figures.queues is None else measure.of(side.figures.queues)

    return of


def _group_waits(figures: Sequence[Figures]) -> list[Measure]:
    """The p95 of every group that is in the first run and in another."""
    first = [(w.by, w.group) for w in figures[0].waits if w.by != ALL]
    others = {(w.by, w.group) for f in figures[1:] for w in f.waits}
    return [
        Measure(
            f"wait p95, {by} {group or '(none)'}",
            DURATION,
            LOWER,
            10 * SECOND_US,
            0.1,
            _p95_of(by, group),
        )
        for by, group in first
        if (by, group) in others
    ]


def _p95_of(by: str, group: str) -> Callable[[Side], Value]:
    def of(side: Side) -> Value:
        found = next((w for w in side.figures.waits if (w.by, w.group) == (by, group)), None)
        return None if found is None else found.p95_us

    return of
