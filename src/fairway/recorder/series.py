"""The cluster over time, worked out from what was noted.

Every series is a step function with an exact integral. A table of them has a row per moment at which anything
changed, up to `POINTS`; a longer run is cut into that many equal stretches, and rows are means over them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairway.recorder.demand import fragmentation_at
from fairway.recorder.facts import Facts
from fairway.recorder.nodes import NodeLife
from fairway.recorder.steps import (
    FAR,
    Ints,
    Steps,
    any_of_group,
    highest,
    integral,
    means,
    spans,
    steps_of,
)
from fairway.recorder.tables import Peak, SeriesRow, Table
from fairway.recorder.workloads import NEVER, Workload

# Rows at most. A chart is a thousand pixels wide.
POINTS = 1024
# Those whose largest value is worth a line in a report.
_PEAKED = (
    "gpu_milli_total",
    "gpu_milli_allocated",
    "gpu_milli_pending",
    "nodes",
    "pods_pending",
    "pods_running",
    "queue_length",
)


def cluster_series(
    facts: Facts, lives: Sequence[NodeLife], workloads: Sequence[Workload]
) -> dict[str, Steps]:
    """By the names of `SeriesRow`'s columns. O(n log n) in pods, intervals and changes of nodes."""
    one = np.ones(len(facts.created), np.int64)
    starts = np.where(facts.is_placed == 1, facts.placed, FAR)
    runs = np.minimum(facts.started, facts.finished)
    pending = spans(facts.created, facts.placed, one)
    held = facts.interval_start, _ends(facts)
    told = facts.tells_use * facts.interval_gpu
    return {
        **_capacity(lives),
        "gpu_milli_allocated": steps_of(spans(*held, facts.interval_gpu)),
        "gpu_milli_told": steps_of(spans(*held, told)),
        "gpu_milli_used": steps_of([(facts.use_times, facts.use_deltas)]),
        "gpu_milli_pending": steps_of(spans(facts.created, facts.placed, facts.gpu)),
        "cpu_milli_allocated": steps_of(spans(*held, facts.interval_cpu)),
        "memory_bytes_allocated": steps_of(spans(*held, facts.interval_memory)),
        "pods_pending": steps_of(pending),
        "pods_starting": steps_of(spans(starts, np.maximum(runs, facts.placed), one)),
        "pods_running": steps_of(spans(facts.started, facts.finished, one)),
        "queue_length": _queue_length(facts, workloads),
    }


def _ends(facts: Facts) -> Ints:
    return np.where(facts.interval_is_open == 1, FAR, facts.interval_end)


def _capacity(lives: Sequence[NodeLife]) -> dict[str, Steps]:
    """What the nodes that are there offer."""
    changes: dict[str, list[tuple[int, int]]] = {
        "gpu_milli_total": [],
        "cpu_milli_total": [],
        "memory_bytes_total": [],
        "nodes": [],
    }
    for life in lives:
        before = (0, 0, 0, 0)
        marks = [(o.since, (o.gpu, o.cpu, o.memory, 1)) for o in life.offers]
        if life.deleted >= 0:
            marks.append((life.deleted, (0, 0, 0, 0)))
        for at, after in marks:
            for column, new, old in zip(changes.values(), after, before, strict=True):
                if new != old:
                    column.append((at, new - old))
            before = after
    return {name: steps_of([_pairs(column)]) for name, column in changes.items()}


def _pairs(changes: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    both = np.array(changes, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _queue_length(facts: Facts, workloads: Sequence[Workload]) -> Steps:
    """Workloads suspended or with a pod that waits for a node; a pod without an owner stands for itself."""
    alone = -1 - np.arange(len(facts.owner), dtype=np.int64)
    groups = np.where(facts.owner < 0, alone, facts.owner)
    waited = facts.placed > facts.created
    left = waited & (facts.placed < FAR)
    suspended = [w for w in workloads if w.suspensions]
    suspensions = [(w.index, at, 1 - 2 * (i % 2)) for w in suspended for i, at in enumerate(_suspensions(w))]
    extra = np.array(suspensions, np.int64).reshape(-1, 3)
    return any_of_group(
        np.concatenate([groups[waited], groups[left], extra[:, 0]]),
        np.concatenate([facts.created[waited], facts.placed[left], extra[:, 1]]),
        np.concatenate(
            [np.ones(int(waited.sum()), np.int64), -np.ones(int(left.sum()), np.int64), extra[:, 2]]
        ),
    )


def _suspensions(workload: Workload) -> tuple[int, ...]:
    """When it began and ceased to wait for its turn; one that ended no longer waits."""
    over = max(workload.finished, workload.deleted)
    if workload.is_suspended and over != NEVER:
        return (*workload.suspensions, over)
    return workload.suspensions


def bounds_of(series: dict[str, Steps], until: int) -> Ints:
    """Where rows begin and end: from 0 to `until`."""
    moments = np.unique(np.concatenate([s.times for s in series.values()]))
    moments = moments[(moments > 0) & (moments < until)]
    if len(moments) < POINTS:
        return np.concatenate([[0], moments, [until]]).astype(np.int64)
    return np.unique(np.arange(POINTS + 1, dtype=np.int64) * until // POINTS)


def series_table(
    series: dict[str, Steps], facts: Facts, lives: Sequence[NodeLife], began_us: int
) -> Table[SeriesRow]:
    if facts.until <= 0:
        return Table.of(SeriesRow, [])
    bounds = bounds_of(series, facts.until)
    columns: dict[str, Sequence[object]] = {
        name: means(steps, bounds).tolist() for name, steps in series.items()
    }
    edges = [began_us + t for t in bounds.tolist()]
    columns["start_us"], columns["end_us"] = edges[:-1], edges[1:]
    columns["fragmentation"] = fragmentation_at(facts, lives, bounds[1:])
    return Table(SeriesRow, columns)


def peaks_of(series: dict[str, Steps], began_us: int) -> dict[str, Peak]:
    found = {}
    for name in _PEAKED:
        value, at = highest(series[name])
        found[name] = Peak(value, began_us + at)
    return found


def integrals_of(series: dict[str, Steps], until: int) -> dict[str, int]:
    return {name: integral(steps, until) for name, steps in series.items()}
