"""Side by side over seeds: means, and how sure the difference is.

Both ways have the same luck seed by seed, so what is compared is the difference of each pair; its error bar is the 95 %
interval of their mean (Student's t). A difference whose interval holds zero may be chance, and is told so.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Final

from fairway.answers.forecasting.futures import cores
from fairway.answers.whatif.playing import Changes, World, play
from fairway.catalog.catalog import Catalog
from fairway.extras import have
from fairway.results.compare import compare
from fairway.results.costs.figures import CostFigures
from fairway.results.run import Run

# Student's t for 97.5 % by degrees of freedom; beyond the table it is the normal's. Source: any table of it.
_T: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12)
_T_MANY: Final = 2.0


@dataclass(frozen=True, slots=True)
class Effect:
    """One measure, in the unit of `results.compare`. `low`, `high`: 95 % of the mean difference; None with one seed."""

    name: str
    unit: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    seeds: int
    verdict: str
    """better, worse, different or same, as far as it is no chance."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """`effects` that matter first."""

    ground: str
    changes: tuple[str, ...]
    seeds: int
    effects: tuple[Effect, ...]
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


_asked: tuple[World, Changes, Catalog | None] | None = None


def what_if(
    world: World,
    changes: Changes,
    *,
    seeds: int = 5,
    processes: int = 0,
    catalog: Catalog | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """`catalog`: prices; None: no dollars. Raises: UserError, ApiError."""
    global _asked
    _asked = (world, changes, catalog)
    # Whatever is wrong with a change is found before processes are started.
    found: dict[int, tuple[list[Any], tuple[str, ...]]] = {0: _pair(0)}
    try:
        if seeds > 1:
            workers = min(processes or cores(), seeds - 1)
            with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
                tasks = {pool.submit(_pair, number): number for number in range(1, seeds)}
                for task in as_completed(tasks):
                    found[tasks[task]] = task.result()
                    if progress is not None:
                        progress(len(found), seeds)
    finally:
        _asked = None
    effects = _effects([found[n][0] for n in range(seeds)])
    notes = dict.fromkeys(note for n in range(seeds) for note in found[n][1])
    return WhatIf(world.ground.name, tuple(c.text for c in changes), seeds, effects, tuple(notes))


def _pair(number: int) -> tuple[list[Any], tuple[str, ...]]:
    """The differences of one seed, and what makes them hard to compare."""
    assert _asked is not None
    world, changes, catalog = _asked
    runs = [play(world, number, what).run for what in ((), changes)]
    comparison = compare(runs, [_cost(run, catalog) for run in runs])
    rows = [(d.name, d.unit, d.values, d.verdicts[1]) for d in comparison.differences]
    return rows, tuple(c for c in comparison.caveats if "price" in c)


def _cost(run: Run, catalog: Catalog | None) -> CostFigures | None:
    if catalog is None or not have("polars") or not any(run.outcome.nodes.column("instance_type")):
        return None
    from fairway.results.costs.costing import costed
    from fairway.results.costs.figures import cost_figures

    return cost_figures(costed(run, catalog))


def _effects(seeds: Sequence[list[Any]]) -> tuple[Effect, ...]:
    by_name: dict[str, list[Any]] = {}
    for rows in seeds:
        for row in rows:
            if None not in row[2]:
                by_name.setdefault(row[0], []).append(row)
    found = [_effect(name, rows) for name, rows in by_name.items()]
    return tuple([e for e in found if e.verdict != "same"] + [e for e in found if e.verdict == "same"])


def _effect(name: str, rows: list[Any]) -> Effect:
    before, after = ([row[2][i] for row in rows] for i in (0, 1))
    differences = [b - a for a, b in zip(before, after, strict=True)]
    mean = fmean(differences)
    low = high = None
    is_chance = False
    if len(rows) > 1:
        t = _T[len(rows) - 2] if len(rows) - 2 < len(_T) else _T_MANY
        bar = t * stdev(differences) / sqrt(len(rows))
        low, high = mean - bar, mean + bar
        is_chance = low <= 0 <= high
    verdicts = [row[3] for row in rows if row[3] != "same"]
    verdict = "same" if is_chance or not verdicts else max(sorted(set(verdicts)), key=verdicts.count)
    return Effect(name, rows[0][1], fmean(before), fmean(after), mean, low, high, len(rows), verdict)
