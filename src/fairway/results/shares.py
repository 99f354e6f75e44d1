"""Who held the GPUs, over time: intervals added up on an even grid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.recorder.tables import Outcome
from fairway.results.drawing import SERIES_COLOURS

OTHERS = "others"
# Groups with a colour of their own; the rest share the last one.
GROUPS = 7
REST = "c7"


def namespace_colours(outcome: Outcome) -> dict[str, str]:
    """A colour for each of the namespaces that held most GPU time (or have most pods), the same in every chart."""
    weight: dict[str, list[int]] = {}
    pods = outcome.pods
    for namespace, held in zip(pods.column("namespace"), pods.column("held_gpu_milli_us"), strict=True):
        found = weight.setdefault(namespace, [0, 0])
        found[0] += held
        found[1] += 1
    ranked = sorted(weight, key=lambda n: (-weight[n][0], -weight[n][1], n))
    return dict(zip(ranked, SERIES_COLOURS[:GROUPS], strict=False))


class Shares(NamedTuple):
    """Mean GPUs held over every stretch, by group; the groups that held most first."""

    edges: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[list[float], ...]


def held_by(outcome: Outcome, column: str, bins: int, most: int) -> Shares:
    """By a column of the pods. Groups beyond `most` are added up as `others`."""
    intervals = outcome.intervals
    held = [i for i, gpu in enumerate(intervals.column("gpu_milli")) if gpu]
    if not held or outcome.duration_us <= 0:
        return Shares((), (), ())
    of_pod = outcome.pods.column(column)
    groups = [of_pod[intervals.columns["pod"][i]] for i in held]
    starts = np.array([intervals.columns["start_us"][i] for i in held], np.int64) - outcome.began_us
    ends = (
        np.array([_or(intervals.columns["end_us"][i], outcome.ended_us) for i in held], np.int64)
        - outcome.began_us
    )
    gpus = np.array([intervals.columns["gpu_milli"][i] for i in held], np.float64) / 1000
    names = dict.fromkeys(groups)
    index = {name: i for i, name in enumerate(names)}
    rows = np.array([index[g] for g in groups], np.int64)
    grid = on_even_grid(rows, starts, ends, gpus, len(names), outcome.duration_us, bins)
    order = sorted(index, key=lambda name: (-grid[index[name]].sum(), name))
    kept = order if len(order) <= most else order[: most - 1]
    values = [grid[index[name]].tolist() for name in kept]
    if len(order) > len(kept):
        rest = np.sum([grid[index[name]] for name in order[len(kept) :]], axis=0)
        values.append(rest.tolist())
        kept = [*kept, OTHERS]
    edges = tuple(outcome.began_us + i * outcome.duration_us // bins for i in range(bins + 1))
    return Shares(edges, tuple(kept), tuple(values))


def _or(value: int | None, instead: int) -> int:
    return instead if value is None else value


def on_even_grid(
    rows: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    amounts: npt.NDArray[np.float64],
    count: int,
    span: int,
    bins: int,
) -> npt.NDArray[np.float64]:
    """float64[count, bins]: time-weighted mean of the amounts that hold over `[start, end)`, by row.

    O(intervals + count × bins): an amount is added to the running level where it begins and taken where it ends.
    """
    width = span / bins
    level = np.zeros((count, bins + 1))
    for times, sign in ((starts, 1.0), (ends, -1.0)):
        at = times / width
        first = np.minimum(at.astype(np.int64), bins - 1)
        part = at - first  # how much of its bin has passed
        np.add.at(level, (rows, first), sign * amounts * (1.0 - part))
        np.add.at(level, (rows, first + 1), sign * amounts * part)
    return np.maximum(np.cumsum(level, axis=1)[:, :bins], 0.0)
