"""How long will it run, given what it is and that it has run for so long already?

Past jobs are grouped from the most specific (same user, queue, series of names, shape and limit) to all there are. Each
group is a distribution of run times, kept as atoms with weights: newer jobs weigh more, and jobs that were still
running when last seen lend their weight to the longer ones (Kaplan-Meier, redistributed to the right). A group of n
jobs gets n / (n + SHRINK) of the belief that the more specific ones left; each group's share is then multiplied by how
likely it made the time that has already passed. So a job that has run for five hours is not a new one: groups whose
jobs never last that long stop counting.

Where jobs declare limits, groups above the limit's own speak of the share of it that was used: that is the bias of
declared limits, per user, learned.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fairway.answers.forecasting.history import History, PastJob, pattern_of
from fairway.kube.timestamps import MINUTE_US
from fairway.traces.jobs import TraceJob

Floats = npt.NDArray[np.float64]

SHRINK: Final = 2.0
"""Jobs a group needs for half of the belief that is left. Chosen on the first half of the backtests' histories."""
_NEWEST: Final = 120
"""Jobs of a group that count, and how much less each counts than the one that ended after it."""
_FADING: Final = 0.985
# Where nothing of the past lasts as long as this job already has: the longer it ran, the longer it goes on (the
# quantiles of a Pareto tail with exponent 1, which is what batch jobs' run times look like. Source: Harchol-Balter &
# Downey 1997).
_TAIL: Final = np.array([1.05, 1.18, 1.43, 1.82, 2.5, 4.0, 10.0])
_NOBODY_KNOWS_US: Final = 60 * MINUTE_US
# Belief that is kept for the tail whatever the groups say.
_DOUBT: Final = 0.01


@dataclass(frozen=True, slots=True)
class Distribution:
    """Run times in µs, ascending, with cumulative weights up to 1. `basis`: jobs it rests on, most specific first."""

    values: Floats
    cumulative: Floats
    basis: str

    def at(self, quantile: Floats) -> Floats:
        """Shape of `quantile`, each in [0, 1)."""
        places = np.searchsorted(self.cumulative, quantile, side="right")
        return self.values[np.minimum(places, len(self.values) - 1)]


_LEVELS: Final = (
    "same user, queue, name, shape and limit",
    "same user, name and shape",
    "same user and name",
    "same user and GPUs",
    "same user",
    "same name and shape",
    "same shape",
    "same queue and GPUs",
    "same GPUs",
    "all",
)


def _kind(ask: TraceJob, limit_us: int) -> Hashable:
    """Two jobs that agree in this agree in all of `_keys`."""
    shape = ask.gpu_milli, ask.cpu_milli, ask.memory_bytes, ask.replicas
    return (ask.user or ask.namespace, ask.queue, pattern_of(ask.job_id), *shape, limit_us)


def _keys(ask: TraceJob, limit_us: int) -> tuple[Hashable, ...]:
    user, name = ask.user or ask.namespace, pattern_of(ask.job_id)
    gpus, shape = ask.gpu_milli * ask.replicas, (ask.gpu_milli, ask.cpu_milli, ask.memory_bytes, ask.replicas)
    return (
        (user, ask.queue, name, shape, limit_us),
        (user, name, shape),
        (user, name),
        (user, gpus),
        (user,),
        (name, shape),
        shape,
        (ask.queue, gpus),
        (gpus,),
        (),
    )


class RunTimes:
    """What history says of run times. Learned once; asked per kind of job and time passed."""

    def __init__(self, history: History, now_us: int) -> None:
        """O(jobs)."""
        self._groups: list[dict[Hashable, list[list[int]]]] = [{} for _ in _LEVELS]
        """By level and key: the jobs of each kind that belong to it, as numbers in the order of their ends."""
        self._run: list[float] = []
        self._is_end: list[bool] = []
        self._limit: list[int] = []
        self._atoms: dict[tuple[int, Hashable, bool], tuple[Floats, Floats, float]] = {}
        self._known: dict[tuple[object, ...], Distribution] = {}
        self._at_least = {
            j.object: j.cut_short_us
            for j in history.jobs
            if (j.earlier or j.stopped_us is not None) and j.run_us is None and j.cut_short_us
        }
        kinds: dict[Hashable, list[int]] = {}
        """Jobs of one kind are in the same group on every level."""
        for job in sorted(history.jobs, key=lambda j: (j.ended_us or now_us, j.object)):
            self._learn(job, now_us, kinds)

    def _learn(self, job: PastJob, now_us: int, kinds: dict[Hashable, list[int]]) -> None:
        if job.started_us is None:
            return
        run_us, is_end = job.run_us, True
        if run_us is None:
            # Who was evicted and waits did not go on running.
            last_us = job.ended_us or job.stopped_us or now_us
            run_us, is_end = max(last_us - job.started_us, job.cut_short_us), False
            if run_us <= 0:
                return
        number = len(self._run)
        self._run.append(float(run_us))
        self._is_end.append(is_end)
        limit_us = job.limit_us
        self._limit.append(limit_us)
        kind = _kind(job.ask, limit_us)
        members = kinds.get(kind)
        if members is None:
            members = kinds[kind] = []
            for group, key in zip(self._groups, _keys(job.ask, limit_us), strict=True):
                group.setdefault(key, []).append(members)
        members.append(number)

    def at_least_us(self, name: str) -> int:
        """How long a job that has not ended ran before it was evicted: it takes longer than that."""
        return self._at_least.get(name, 0)

    def of(self, ask: TraceJob, limit_us: int = 0, elapsed_us: int = 0) -> Distribution:
        """The whole run time, the elapsed part included."""
        # Two times that differ by a thousandth are one question.
        elapsed_us = _rounded(elapsed_us)
        keys = _keys(ask, limit_us)
        at = (keys[0], elapsed_us)
        found = self._known.get(at)
        if found is None:
            found = self._known[at] = self._work_out(keys, limit_us, elapsed_us)
        return found

    def _work_out(self, keys: Sequence[Hashable], limit_us: int, elapsed_us: int) -> Distribution:
        left, values, weights, basis = 1.0, [], [], []
        for level, key in enumerate(keys):
            found = self._group(level, key, limit_us)
            if found is None:
                continue
            atoms, mass, count = found
            belief = left * count / (count + SHRINK) if level < len(keys) - 1 else left
            left -= belief
            after = atoms > elapsed_us
            if after.any():
                values.append(atoms[after])
                weights.append(belief * mass[after])
                basis.append((belief * float(mass[after].sum()), count, level))
        tail_from_us = max(float(elapsed_us), 1.0)
        if not values:
            start = tail_from_us if elapsed_us else float(limit_us or _NOBODY_KNOWS_US) / 2
            values, weights = [start * _TAIL], [np.full(len(_TAIL), 1.0)]
        elif elapsed_us:
            total = sum(float(w.sum()) for w in weights)
            values.append(tail_from_us * _TAIL)
            weights.append(np.full(len(_TAIL), max(_DOUBT * total, 1e-9) / len(_TAIL)))
        return _distribution(values, weights, limit_us, elapsed_us, _words(basis))

    def _group(self, level: int, key: Hashable, limit_us: int) -> tuple[Floats, Floats, float] | None:
        members = self._groups[level].get(key)
        if not members:
            return None
        is_share = limit_us > 0 and level > 0
        at = (level, key, is_share)
        found = self._atoms.get(at)
        if found is None:
            found = self._atoms[at] = self._atoms_of(members, is_share)
        atoms, mass, count = found
        if not len(atoms):
            return None
        return (atoms * limit_us if is_share else atoms), mass, count

    def _atoms_of(self, kinds: list[list[int]], is_share: bool) -> tuple[Floats, Floats, float]:
        if is_share:
            kinds = [members for members in kinds if self._limit[members[0]]]
        newest = sorted(n for members in kinds for n in members[-_NEWEST:])[-_NEWEST:]
        runs = np.array([self._run[n] / (self._limit[n] if is_share else 1) for n in newest])
        ends = np.array([self._is_end[n] for n in newest], np.bool_)
        weights = _FADING ** np.arange(len(newest) - 1, -1, -1.0)
        return _survivors(runs, ends, weights)


def _survivors(runs: Floats, ends: npt.NDArray[np.bool_], weights: Floats) -> tuple[Floats, Floats, float]:
    """Atoms, their weights (summing to 1) and how many jobs they stand for; each atom is spread a little."""
    order = np.argsort(runs, kind="stable")
    atoms: list[float] = []
    mass: list[float] = []
    left, above = 1.0, float(weights.sum())
    for run, is_end, weight in zip(
        runs[order].tolist(), ends[order].tolist(), weights[order].tolist(), strict=True
    ):
        if is_end and above > 0:
            atoms.append(run)
            mass.append(left * weight / above)
            left -= mass[-1]
        above -= weight
    count = float(weights[ends].sum()) + 0.25 * float(weights[~ends].sum())
    found, shares = np.array(atoms), np.array(mass)
    if len(found):
        found, shares = _spread(found, shares)
    if left > 1e-9 and len(runs):
        found = np.concatenate((found, float(runs.max()) * _TAIL))
        shares = np.concatenate((shares, np.full(len(_TAIL), left / len(_TAIL))))
    return found, shares, count


def _spread(atoms: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Three atoms for each, so far apart as few jobs leave open. Source: Silverman's rule, on logarithms."""
    logs = np.log(atoms)
    mean = float((logs * mass).sum() / mass.sum())
    deviation = float(np.sqrt(((logs - mean) ** 2 * mass).sum() / mass.sum()))
    width = max(0.9 * deviation * len(atoms) ** -0.2, 0.35 / len(atoms), 0.02)
    spread = np.concatenate((atoms * np.exp(-1.22 * width), atoms, atoms * np.exp(1.22 * width)))
    return spread, np.concatenate((mass, mass, mass)) / 3


def _distribution(
    values: list[Floats], weights: list[Floats], limit_us: int, elapsed_us: int, basis: str
) -> Distribution:
    all_values, all_weights = np.concatenate(values), np.concatenate(weights)
    if limit_us > elapsed_us:
        # Whoever exceeds what he declared is stopped.
        all_values = np.minimum(all_values, float(limit_us))
    order = np.argsort(all_values, kind="stable")
    cumulative = np.cumsum(all_weights[order])
    return Distribution(all_values[order], cumulative / cumulative[-1], basis)


def _words(basis: list[tuple[float, float, int]]) -> str:
    if not basis:
        return "no similar job has lasted so long"
    belief, count, level = max(basis)
    total = sum(b for b, _, _ in basis)
    return f"{round(count)} jobs ({_LEVELS[level]}; {round(100 * belief / total)} % of the belief)"


def _rounded(duration_us: int) -> int:
    digits = max(duration_us.bit_length() - 10, 0)
    return duration_us >> digits << digits
