"""What do the runs say, by the share of GPU demand that has arrived?

A curve has a point at every five percent of the capacity, the mean over all pods after which the arrived demand
rounds to that percent, as the FGD paper's analysis does; then the mean over runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairway.openb.arrivals import ArrivalRun
from fairway.scheduling.gpushare.devices import Float64s

STEP_PCT = 5

Points = dict[int, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """Value by arrived percent: the mean over the runs, and the extremes."""

    mean: Points
    lowest: Points
    highest: Points


@dataclass(frozen=True, slots=True)
class Curves:
    """allocated_gpu_pct: of all GPU; frag_ratio_pct: of the free GPU, what the expected workload cannot use."""

    allocated_gpu_pct: Curve
    frag_ratio_pct: Curve


def curves(runs: Sequence[ArrivalRun]) -> Curves:
    """The curves of one policy on one workload over its runs."""
    return Curves(
        _over_runs([_points(run, allocated_pct(run)) for run in runs]),
        _over_runs([_points(run, frag_ratio_pct(run)) for run in runs]),
    )


def allocated_pct(run: ArrivalRun) -> Float64s:
    """After each pod: GPU in use, percent of the capacity."""
    return 100.0 * run.allocated_milli / run.capacity_milli


def frag_ratio_pct(run: ArrivalRun) -> Float64s:
    """After each pod: fragmentation, percent of the free GPU (0 when none is free)."""
    free = run.capacity_milli - run.allocated_milli
    return 100.0 * run.lost_milli / np.maximum(free, 1)


def _points(run: ArrivalRun, values: Float64s) -> Points:
    """Mean of the values at every STEP_PCT of arrived demand; a bare percent borrows from its neighbours."""
    percent = np.rint(run.arrived_milli / run.capacity_milli * 100.0).astype(np.int64)
    points: Points = {}
    for at in range(0, int(percent[-1]) + 1, STEP_PCT):
        here = percent == at
        if not here.any():
            here = np.abs(percent - at) <= 1
        if here.any():
            points[at] = float(values[here].mean())
    return points


def _over_runs(points: list[Points]) -> Curve:
    """The points all runs have."""
    shared = [at for at in points[0] if all(at in other for other in points)]
    columns = {at: [run[at] for run in points] for at in shared}
    return Curve(
        {at: sum(column) / len(column) for at, column in columns.items()},
        {at: min(column) for at, column in columns.items()},
        {at: max(column) for at, column in columns.items()},
    )
