"""Series that hold a value until something changes it: what follows from objects and tables rather than from a model.

A metric is worked out when it is first asked for, and then looked at on the ticks at which it would be scraped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairway.telemetry.store import (
    NAME,
    STALE,
    Labels,
    Matcher,
    Series,
    Times,
    Values,
    fits,
    is_stale,
    name_of,
)


class Stepwise(NamedTuple):
    """`values[i]` holds from `times[i]` (ms, ascending) on; STALE: from there on there is no series."""

    labels: Labels
    times: Sequence[int]
    values: Sequence[float]


Maker = Callable[[], Iterable[Stepwise]]


class StepSource:
    """`makers` by metric; all are scraped every `step_ms`, and nothing is after `until_ms`."""

    def __init__(self, makers: Mapping[str, Maker], until_ms: int, step_ms: int = 30_000) -> None:
        self._makers = makers
        self._until_ms = until_ms
        self._step_ms = step_ms
        self._made: dict[str, list[Stepwise]] = {}

    def names(self) -> list[str]:
        return sorted(self._makers)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        name = name_of(matchers)
        first = -(-start_ms // self._step_ms)
        last = min(end_ms, self._until_ms) // self._step_ms + 1
        if last <= first:
            return
        rest = [m for m in matchers if m.name != NAME]
        if name is not None:
            rest += [m for m in matchers if m.name == NAME and m != Matcher(NAME, "=", name)]
        metrics = self._named(name, [m for m in matchers if m.name == NAME])
        asked = [steps for metric in metrics for steps in self._made_of(metric) if fits(steps.labels, rest)]
        if not asked:
            return
        # Nothing is before the first change: who asks from 1970 on is not given 60 million ticks.
        first = max(first, min(steps.times[0] for steps in asked) // self._step_ms)
        times = np.arange(min(first, last - 1), last, dtype=np.int64) * self._step_ms
        for steps in asked:
            if steps.times[0] > times[-1]:
                continue
            if steps.values[-1] != steps.values[-1] and steps.times[-1] < start_ms - self._step_ms:
                continue
            found = _sampled(steps, times)
            if found is not None:
                yield found

    def _named(self, name: str | None, asked: Sequence[Matcher]) -> Iterable[str]:
        if name is not None:
            return (name,) if name in self._makers else ()
        return [n for n in self._makers if all(m.matches(n) for m in asked)]

    def _made_of(self, metric: str) -> list[Stepwise]:
        if metric not in self._made:
            self._made[metric] = [s for s in self._makers[metric]() if len(s.times)]
        return self._made[metric]


def _sampled(steps: Stepwise, times: Times) -> Series | None:
    """On these ticks; of a stretch without it, the first tick says that it ended."""
    changes = np.asarray(steps.times, np.int64)
    held = np.asarray(steps.values, np.float64)
    at = np.searchsorted(changes, times, side="right") - 1
    values: Values = held[at]
    gone = is_stale(values) | (at < 0)
    if not gone.any():
        return Series(steps.labels, times, values)
    # Whether the tick before the first one still had it is a question of its own.
    before = (
        np.searchsorted(changes, times[0] - (times[1] - times[0] if len(times) > 1 else 30_000), "right") - 1
    )
    was_gone = np.append(before < 0 or bool(is_stale(held[before : before + 1])[0]), gone[:-1])
    kept = ~gone | (gone & ~was_gone & (at >= 0))
    if not kept.any():
        return None
    lo, hi = int(np.argmax(kept)), len(kept) - int(np.argmax(kept[::-1]))
    if kept[lo:hi].all():
        # A stretch: series that begin and end together share their times.
        return Series(steps.labels, times[lo:hi], np.where(gone, STALE, values)[lo:hi])
    return Series(steps.labels, times[kept], np.where(gone, STALE, values)[kept])


def joined(pieces: Sequence[tuple[int, int, float]], labels: Labels) -> Stepwise:
    """Of values that hold over `[start, end)` each, in order."""
    times: list[int] = []
    values: list[float] = []
    until = None
    for start, end, value in pieces:
        if until is not None and start > until:
            times.append(until)
            values.append(STALE)
        if not values or values[-1] != value:
            times.append(start)
            values.append(value)
        until = end
    if until is not None:
        times.append(until)
        values.append(STALE)
    return Stepwise(labels, times, values)
