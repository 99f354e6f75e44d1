"""When will waiting jobs start? Ours beside Slurm's own estimate, and how good both were.

Slurm's is what backfill plans: every job runs to its limit, nobody else comes. Ours plays the site forward many times,
by the same schedulers: run times as jobs of the kind had them (given how long they run already), arrivals as on a day
of the past.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Any

from fairway.answers.onslurm.planning import looked
from fairway.ground.slurmground import SlurmMoment
from fairway.slurm.clockwork import SECOND
from fairway.slurm.records.record import JobRecord, request_of
from fairway.slurm.records.reviving import Standing
from fairway.slurm.records.runtimes import RunTimes
from fairway.slurm.words.durations import stamp
from fairway.slurm.words.errors import SlurmError

FUTURES = 30
HORIZON_S = 7 * 86_400
_DAY = 86_400
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds since 1970, 0 for none (not within the horizon). `p10`, `p50`, `p90` are ours."""

    label: str
    name: str
    user: str
    account: str
    partition: str
    gpus: int
    waits_s: int
    slurm: int
    p10: int
    p50: int
    p90: int

    def as_json(self) -> dict[str, Any]:
        return {
            "job": self.label,
            "name": self.name,
            "user": self.user,
            "account": self.account,
            "partition": self.partition,
            "gpus": self.gpus,
            "waits": self.waits_s,
            "slurmStart": stamp(self.slurm) if self.slurm else None,
            "start": {
                k: stamp(v) if v else None for k, v in zip(("p10", "p50", "p90"), self.ours, strict=True)
            },
        }

    @property
    def ours(self) -> tuple[int, int, int]:
        return self.p10, self.p50, self.p90


def forecast(
    moment: SlurmMoment,
    *,
    futures: int = FUTURES,
    seed: int = 0,
    horizon_s: int = HORIZON_S,
    progress: Progress | None = None,
) -> list[Estimate]:
    """Of every job that waits, in the order in which ours start."""
    plans = looked(moment)
    pending = {label: job for label, job in plans.jobs.items() if label in _waiting(moment, plans)}
    runtimes = RunTimes(moment.past, moment.now)
    starts: dict[str, list[int]] = {label: [] for label in pending}
    for number in range(futures):
        _future(moment, runtimes, Random(f"slurm-forecast/{seed}/{number}"), horizon_s, starts)
        if progress is not None:
            progress(number + 1, futures)
    found = []
    for label, job in pending.items():
        record = plans.of[job.job_id]
        got = sorted(start or 1 << 40 for start in starts[label])
        ours = tuple(_at(got, part) for part in (0.1, 0.5, 0.9))
        slurm = job.start if job.pending else moment.now
        waits = max(moment.now - max(record.submit, record.eligible), 0)
        found.append(
            Estimate(
                label,
                record.name,
                record.user,
                record.account,
                record.partition,
                record.gpus,
                waits,
                slurm,
                *ours,
            )
        )
    return sorted(found, key=lambda one: (one.p50 or 1 << 40, one.label))


def _waiting(moment: SlurmMoment, plans: Standing) -> set[str]:
    return {r.label for r in plans.of.values() if not r.start or r.start > moment.now}


def _at(ordered: Sequence[int], part: float) -> int:
    if not ordered:
        return 0
    value = ordered[min(int(part * len(ordered)), len(ordered) - 1)]
    return value if value < 1 << 40 else 0


def _future(
    moment: SlurmMoment, runtimes: RunTimes, random: Random, horizon_s: int, starts: dict[str, list[int]]
) -> None:
    standing = moment.standing(lambda record, elapsed: runtimes.draw(record, elapsed, random))
    controller, end = standing.controller, moment.now + horizon_s
    left = {label: standing.jobs[label] for label in starts if label in standing.jobs}
    jobs = dict(left)
    for at, record in _arrivals(moment, random, horizon_s):
        controller.advance(at * SECOND)
        left = {label: job for label, job in left.items() if job.pending}
        if not left:
            break
        request = request_of(record)
        request.extra["left_s"] = max(record.ran_s, 1)
        try:
            controller.submit(request, record.user)
        except (SlurmError, ValueError):
            continue
    while left and controller.now < end:
        due = controller.next_event_us()
        if due is None or due > end * SECOND:
            break
        controller.advance(due)
        left = {label: job for label, job in left.items() if job.pending}
    for label in starts:
        job = jobs.get(label)
        starts[label].append(0 if job is None or job.pending or not job.start else job.start)


def _arrivals(moment: SlurmMoment, random: Random, horizon_s: int) -> list[tuple[int, JobRecord]]:
    """Submissions as from the same hour of a day of the past on, moved to now."""
    past = [r for r in moment.past if r.submit <= moment.now and r.ran_s > 0 and r.end <= moment.now]
    if not past:
        return []
    first = min(r.submit for r in past)
    days = int((moment.now - first) // _DAY)
    if days < 1:
        return []
    found: list[tuple[int, JobRecord]] = []
    at = 0
    while at < min(horizon_s, 14 * _DAY):
        back = random.randint(1, days) * _DAY
        begin = moment.now - back
        found += [(moment.now + at + r.submit - begin, r) for r in past if begin < r.submit <= begin + _DAY]
        at += _DAY
    return sorted(found, key=lambda one: (one[0], one[1].label))


@dataclass(frozen=True, slots=True)
class Backtest:
    """Errors in seconds over `asked` jobs at `moments` moments. `covered`: of what came, inside P10 to P90."""

    moments: int
    asked: int
    ours_median_s: float
    ours_mean_s: float
    covered: float
    slurm_planned: int
    slurm_median_s: float
    slurm_mean_s: float
    ours_median_where_planned_s: float
    early_s: float
    """Slurm's median error with its sign: how much later than it said jobs started (negative: sooner)."""

    def as_json(self) -> dict[str, Any]:
        from dataclasses import asdict

        return asdict(self)


def backtest(
    at: Callable[[int], SlurmMoment],
    moments: Sequence[int],
    *,
    futures: int = FUTURES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Backtest:
    """`at`: the site as it was then; what came of it is in its own records."""
    ours: list[int] = []
    slurm: list[int] = []
    beside: list[int] = []
    signed: list[int] = []
    inside = 0
    for number, when in enumerate(moments):
        moment = at(when)
        came = {r.label: r.start for r in moment.records if r.start > when}
        for one in forecast(moment, futures=futures, seed=seed):
            actual = came.get(one.label)
            if actual is None or not one.p50:
                continue
            ours.append(abs(one.p50 - actual))
            inside += one.p10 <= actual <= (one.p90 or 1 << 40)
            if one.slurm:
                slurm.append(abs(one.slurm - actual))
                signed.append(actual - one.slurm)
                beside.append(abs(one.p50 - actual))
        if progress is not None:
            progress(number + 1, len(moments))
    return Backtest(
        len(moments), len(ours), _middle(ours), _mean(ours), inside / len(ours) if ours else 0.0,
        len(slurm), _middle(slurm), _mean(slurm), _middle(beside), _middle(signed),
    )  # fmt: skip


def _middle(values: Sequence[int]) -> float:
    return float(median(values)) if values else 0.0


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0
