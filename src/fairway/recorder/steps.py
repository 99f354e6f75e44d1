"""Values that change in steps: built from changes, integrated exactly, averaged over stretches of time.

Times are int64 µs, values int64. A step function is zero before its first step and keeps its last value.
"""

from __future__ import annotations

from operator import mul
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FAR = 2**62
"""A time that never comes: what holds until then holds for good."""

_EMPTY: Ints = np.zeros(0, np.int64)


class Steps(NamedTuple):
    """`values[i]` holds from `times[i]` on; times rise strictly."""

    times: Ints
    values: Ints

    def at(self, times: Ints) -> Ints:
        """The values at these times (those from there on)."""
        if not len(self.times):
            return np.zeros(len(times), np.int64)
        found = np.searchsorted(self.times, times, side="right") - 1
        return np.where(found >= 0, self.values[found], 0)


def steps_of(changes: list[tuple[Ints, Ints]]) -> Steps:
    """The sum of changes, each (times, deltas). Changes before 0 count as made at 0. O(n log n)."""
    changes = [c for c in changes if len(c[0])]
    if not changes:
        return Steps(_EMPTY, _EMPTY)
    times = np.maximum(np.concatenate([t for t, _ in changes]), 0)
    deltas = np.concatenate([d for _, d in changes])
    order = np.argsort(times, kind="stable")
    times, sums = times[order], np.cumsum(deltas[order])
    last = np.append(times[1:] != times[:-1], True)
    times, sums = times[last], sums[last]
    news = np.append(sums[:1] != 0, sums[1:] != sums[:-1])
    return Steps(times[news], sums[news])


def spans(starts: Ints, ends: Ints, amounts: Ints) -> list[tuple[Ints, Ints]]:
    """The changes of amounts that hold over `[start, end)` each, for `steps_of`."""
    held = ends > starts
    ended = held & (ends < FAR)
    return [(starts[held], amounts[held]), (ends[ended], -amounts[ended])]


def integral(steps: Steps, until: int) -> int:
    """Exact, from 0 to `until`, value·µs."""
    times = np.append(steps.times, max(until, int(steps.times[-1]) if len(steps.times) else 0))
    # Bytes × µs do not fit 64 bits: multiply as Python integers.
    return sum(map(mul, steps.values.tolist(), np.diff(times).tolist()))


def means(steps: Steps, bounds: Ints) -> Floats:
    """The mean over every `[bounds[i], bounds[i + 1])`."""
    inside = steps.times[(steps.times > bounds[0]) & (steps.times < bounds[-1])]
    times = np.union1d(inside, bounds)
    areas = steps.at(times[:-1]).astype(np.float64) * np.diff(times)
    return np.add.reduceat(areas, np.searchsorted(times, bounds[:-1])) / np.diff(bounds)


def highest(steps: Steps) -> tuple[int, int]:
    """The largest value, and when it was first reached; (0, 0) for what was never above zero."""
    if not len(steps.values) or steps.values.max() <= 0:
        return (0, 0)
    at = int(np.argmax(steps.values))
    return int(steps.values[at]), int(steps.times[at])


def any_of_group(groups: Ints, times: Ints, deltas: Ints) -> Steps:
    """How many groups have a sum above zero, over time. O(n log n)."""
    if not len(groups):
        return Steps(_EMPTY, _EMPTY)
    groups, times, sums, firsts = _by_group(groups, times, deltas)
    is_on = sums > 0
    was_on = np.append(False, is_on[:-1])
    was_on[firsts] = False
    return steps_of([(times, is_on.astype(np.int64) - was_on.astype(np.int64))])


def highest_of_group(groups: Ints, times: Ints, deltas: Ints) -> dict[int, int]:
    """The largest sum of every group at any time."""
    if not len(groups):
        return {}
    groups, _, sums, firsts = _by_group(groups, times, deltas)
    return dict(zip(groups[firsts].tolist(), np.maximum.reduceat(sums, firsts).tolist(), strict=True))


def _by_group(groups: Ints, times: Ints, deltas: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Sorted by group and time: groups, times, running sums within the group, and where groups begin.

    One entry per group and time: the sum after all changes of that moment.
    """
    times = np.maximum(times, 0)
    order = np.lexsort((times, groups))
    groups, times, totals = groups[order], times[order], np.cumsum(deltas[order])
    begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    before = np.append(0, totals)[begins]
    sums = totals - np.repeat(before, np.diff(np.append(begins, len(groups))))
    last = np.append((groups[1:] != groups[:-1]) | (times[1:] != times[:-1]), True)
    groups, times, sums = groups[last], times[last], sums[last]
    return groups, times, sums, np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
