"""Many futures of one cluster, on the processes of this machine.

Every future has its own draws, named by the seed and its number: the answer is the same however many processes there
are. Whoever asks hears of progress after every few futures and may stop; nothing goes on afterwards.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from fairway.answers.forecasting import claims, quick, twins
from fairway.answers.forecasting.arriving import Arrivals
from fairway.answers.forecasting.boards import Asking, Board, States, why_not
from fairway.answers.forecasting.claims import Claims
from fairway.answers.forecasting.history import PastJob, pattern_of
from fairway.answers.forecasting.losses import NO_LOSSES, NO_LUCK, Losses, Luck
from fairway.answers.forecasting.quick import Entry, Saving
from fairway.answers.forecasting.runtimes import Floats, RunTimes
from fairway.answers.forecasting.situation import Item, Played, Situation
from fairway.cluster.changes import ADDED, MODIFIED, Change
from fairway.cluster.records import LabelSet, PodRecord
from fairway.cluster.shapes import PodShape
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of, spec_of
from fairway.kube.timestamps import DAY_US, HOUR_US, SECOND_US
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.traces.arrival import POD, objects_for
from fairway.traces.arrival import Arrivals as Arriving
from fairway.traces.jobs import JobTrace, TraceJob
from fairway.twin.kubelet.plans import Plans
from fairway.twin.owners import DefaultSelectors
from fairway.twin.streams import seed_of
from fairway.twin.twin import Twin

JOB: Final = "Job.batch"
FUTURES: Final = 200
# Of whole twins, which take a hundred times as long: quantiles are coarser, the answer comes within minutes.
TWIN_FUTURES: Final = 20
HORIZON_US: Final = 3 * DAY_US
AHEAD_HOURS: Final = (1, 2, 4, 8, 12, 24)
"""When queue length, allocation and spend are asked about."""
_AHEAD_FUTURES: Final = 20
"""Of that many futures: they are run on for a day, the others until all that waited have started."""
TOGETHER: Final = 0.35
"""How much of what is unknown about a job's run time its siblings (same user, same series) share. As for `SHRINK`."""
FOREVER_US: Final = 1 << 60
_GC_THRESHOLDS: Final = (200_000, 20, 20)

Progressing = Callable[[int, int], None]
"""Futures done, futures in all."""


Block = tuple[int, list[tuple[int, int, int]]]
"""Until when; and who arrives until then: µs from now, which past job again (its number among the arrivals'), for how
long."""
_GRID: Final = 512
"""Quantiles of a distribution of run times that are kept."""


class Player(Protocol):
    """Plays one future of a situation; keeps nothing of it."""

    def play(
        self,
        run_us: Sequence[int],
        coming: Iterator[Block],
        *,
        until_us: int,
        grid_us: Sequence[int],
        seed: int,
        luck: Luck = NO_LUCK,
    ) -> Played: ...


@dataclass(frozen=True, slots=True)
class Futures:
    """start_s, finish_s: float64[future, item], seconds from now; inf where it did not happen within the horizon.
    queued, held (GPUs): float64[future, hour], of the first futures."""

    start_s: Floats
    finish_s: Floats
    queued: Floats
    held: Floats
    evictions: Floats


@dataclass(frozen=True, slots=True)
class Question:
    """What futures are drawn from."""

    situation: Situation
    runs: Runs
    arrivals: Arrivals
    player: Player
    seed: int = 0
    horizon_us: int = HORIZON_US
    looks_ahead: bool = True
    losses: Losses = NO_LOSSES

    def one(self, number: int) -> Played:
        chance = np.random.default_rng(seed_of(self.seed, f"future/{number}"))
        run_us = self.runs.draw(chance)
        ahead = self.looks_ahead and number < _AHEAD_FUTURES
        return self.player.play(
            run_us,
            self._coming(int(chance.integers(1 << 62)), np.random.default_rng(chance.integers(1 << 62))),
            until_us=self.horizon_us,
            grid_us=[h * HOUR_US for h in AHEAD_HOURS] if ahead else (),
            seed=int(chance.integers(1 << 62)),
            luck=self.losses.draw(int(chance.integers(1 << 62)), self.horizon_us)
            if self.losses.is_any
            else NO_LUCK,
        )

    def _coming(self, seed: int, chance: np.random.Generator) -> Iterator[Block]:
        known = self.runs.of_arrivals
        for until_us, block in self.arrivals.blocks(seed, self.horizon_us):
            yield until_us, [(at_us, n, known[n] or self.runs.again(n, chance)) for at_us, n in block]


class Runs:
    """How long what is there, and what arrives again, may run."""

    def __init__(self, times: RunTimes, situation: Situation, jobs: Sequence[PastJob]) -> None:
        """O(items), and as much again for every kind of job."""
        self.times, self._jobs = times, jobs
        self.of_arrivals = [job.run_us for job in jobs]
        """Run times of past jobs, as far as they are known: who comes again takes as long."""
        items, now_us = situation.items, situation.now_us
        groups: dict[tuple[str, str], int] = {}
        named = [(i.ask.user or i.ask.namespace, pattern_of(i.ask.job_id)) for i in items]
        self._group_of = np.array([groups.setdefault(at, len(groups)) for at in named], np.int64)
        self._groups = len(groups)
        grid = (np.arange(_GRID) + 0.5) / _GRID
        tables: dict[int, int] = {}
        rows: list[Floats] = []
        which, least = [], []
        for item in items:
            elapsed_us = max(item.elapsed_us(now_us), times.at_least_us(item.object))
            found = times.of(item.ask, item.limit_us, elapsed_us)
            if id(found) not in tables:
                tables[id(found)] = len(rows)
                rows.append(found.at(grid))
            which.append(tables[id(found)])
            least.append(elapsed_us + SECOND_US)
        self._tables = np.array(rows, np.float64).reshape(-1, _GRID)
        self._which, self._least = np.array(which, np.int64), np.array(least, np.int64)

    def draw(self, chance: np.random.Generator) -> list[int]:
        """The whole run time of each item, the part that has passed included: µs."""
        shared, own = chance.standard_normal(self._groups), chance.standard_normal(len(self._which))
        if not len(own):
            return []
        mixed = np.sqrt(TOGETHER) * shared[self._group_of] + np.sqrt(1 - TOGETHER) * own
        drawn = self._tables[self._which, (_normal(mixed) * _GRID).astype(np.int64)]
        found: list[int] = np.maximum(drawn.astype(np.int64), self._least).tolist()
        return found

    def again(self, number: int, chance: np.random.Generator) -> int:
        """A run time for a past job whose own is not known."""
        job = self._jobs[number]
        return int(self.times.of(job.ask, job.limit_us, _passed_us(job)).at(chance.random(1))[0])


def _passed_us(job: PastJob) -> int:
    """How long it ran at least."""
    return job.cut_short_us


def _normal(values: Floats) -> Floats:
    """The standard normal's distribution function. Source: Abramowitz & Stegun 7.1.26, to 1.5e-7."""
    x = np.abs(values) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * x)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    upper = 1 - tail * np.exp(-x * x) / 2
    found: Floats = np.where(values >= 0, upper, 1 - upper)
    return np.minimum(found, 1 - 1e-12)


class QuickPlayer:
    """Kube-scheduler's choices, and Kueue's where it is there. `jobs`: those that may come again."""

    def __init__(
        self,
        store: Store,
        situation: Situation,
        jobs: Sequence[PastJob] = (),
        profile: Profile = DEFAULT_PROFILE,
        backlog: Backlog | None = None,
        losses: Losses = NO_LOSSES,
        saved: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """`saved`: what runs that were cut short left in checkpoints, by the uid of whose they were."""
        self._accounts = accounts = store.accounts.copy()
        for node, _, _ in losses.missing:
            key = key_of(node)
            accounts.apply(
                Change(0, MODIFIED if key.name in accounts.row_of else ADDED, key, node, store.get(key))
            )
        self._now_us = situation.now_us
        self._plans = Plans()
        scheduler = Scheduler(accounts, profile, DefaultSelectors(store).of, view=store)
        there = [self._records(store, item) for item in situation.items]
        # Who comes again is like one that is there: what an API server would add to his pods is in theirs.
        known = {
            _likeness(shape): (shape, labels)
            for item, (shape, labels, _) in zip(situation.items, there, strict=True)
            if item.pods
        }
        there = [(*known.get(_likeness(shape), (shape, labels)), found) for shape, labels, found in there]
        raw = self._coming_pods(jobs)
        alike: dict[int, tuple[PodShape, LabelSet] | None] = {}
        coming = []
        for shape, labels in raw:
            if shape.id not in alike:
                alike[shape.id] = known.get(_likeness(shape))
            coming.append(alike[shape.id] or (shape, labels))
        shapes = {shape.id: shape for shape, _, _ in there} | {shape.id: shape for shape, _ in coming}
        self.why_asked = why_not(scheduler, shapes.values())
        self.board: Board = Asking(accounts, scheduler) if self.why_asked else States(accounts, scheduler)
        self.entries = [
            Entry(
                self.board.line_of(shape, labels),
                max(item.ask.replicas, len(records), 1),
                records,
                item.elapsed_us(situation.now_us),
            )
            for item, (shape, labels, records) in zip(situation.items, there, strict=True)
        ]
        for item, entry in zip(situation.items, self.entries, strict=True):
            self._describe(entry, store, item, (saved or {}).get(item.uid, ()))
        self._claims = mine = None if backlog is None else Claims(backlog, store, situation)
        if mine is not None:
            for item, entry in zip(situation.items, self.entries, strict=True):
                mine.fill(entry, item.object)
        alike_in: dict[tuple[object, ...], Entry] = {}
        self._newcomers = []
        for job, (shape, labels) in zip(jobs, coming, strict=True):
            ask = job.ask
            claim = None if mine is None else mine.of_ask(ask)
            limit_us = 0 if claim is None else job.limit_us
            kind = shape.id, ask.replicas, id(claim), limit_us, ask.gpu_milli, ask.checkpoint_interval_us
            newcomer = alike_in.get(kind)
            if newcomer is None:
                line = self.board.line_of(shape, labels)
                newcomer = alike_in[kind] = Entry(line, max(ask.replicas, 1), claim=claim)
                newcomer.limit_us, newcomer.gpu_milli = limit_us, ask.gpu_milli
                if ask.checkpoint_interval_us:
                    newcomer.saving = ask.checkpoint_interval_us, 0, 0
            self._newcomers.append(newcomer)

    def _describe(self, entry: Entry, store: Store, item: Item, saved: Sequence[int]) -> None:
        """What becomes of it when its pods are lost."""
        entry.gpu_milli, entry.saved = item.ask.gpu_milli, tuple(sorted(saved))
        root = store.get(item.key) or {}
        pod = (spec_of(root).get("template") or {}) if item.key.gk == JOB else root
        if pod.get("spec"):
            entry.saving = _saving(self._plans, pod)
        limit = spec_of(root).get("backoffLimit")
        entry.failures_allowed = 0 if item.key.gk == "Pod" else 6 if limit is None else int(limit)

    def _records(self, store: Store, item: Item) -> tuple[PodShape, LabelSet, list[PodRecord]]:
        """What its pods are, and those of them that have a node."""
        records, proto = [], None
        for key in item.pods:
            record = self._accounts.records.get(key)
            if record is not None and record.row >= 0:
                records.append(record)
            proto = record or self._accounts.record(store.require(key), key)
        if proto is None:
            return *self._coming_pod(item.ask), []
        return proto.shape, proto.labels, records

    def _coming_pods(self, jobs: Sequence[PastJob]) -> list[tuple[PodShape, LabelSet]]:
        """One pod of each; jobs that asked for the same share it."""
        made: dict[tuple[object, ...], tuple[PodShape, LabelSet]] = {}
        found = []
        for job in jobs:
            ask = job.ask
            asked = ask.gpu_milli, ask.cpu_milli, ask.memory_bytes, ask.gpu_model, ask.priority_class
            kind = (*asked, ask.node_selector, ask.namespace, ask.user, ask.queue, ask.labels)
            pod = made.get(kind)
            if pod is None:
                pod = made[kind] = self._coming_pod(ask)
            found.append(pod)
        return found

    def _coming_pod(self, ask: TraceJob) -> tuple[PodShape, LabelSet]:
        pod = objects_for(Arriving(JobTrace("", ()), "", kind=POD), ask)[0]
        record = self._accounts.record(pod, Key("Pod", ask.namespace, "coming"))
        return record.shape, record.labels

    def play(
        self,
        run_us: Sequence[int],
        coming: Iterator[Block],
        *,
        until_us: int,
        grid_us: Sequence[int],
        seed: int,
        luck: Luck = NO_LUCK,
    ) -> Played:
        who = self._newcomers
        newcomers = (
            (known_us, [(at_us, who[n], run) for at_us, n, run in block]) for known_us, block in coming
        )
        return quick.play(
            self.board,
            self.entries,
            run_us,
            until_us=until_us,
            grid_us=grid_us,
            seed=seed,
            coming=newcomers,
            quotas=None if self._claims is None else self._claims.quotas(),
            begin_us=self._now_us,
            luck=luck,
            rows=self._accounts.row_of,
        )


def _saving(plans: Plans, pod: Obj) -> Saving | None:
    """Of its main container."""
    plan = plans.of(pod)
    of = plan.behaviours[plan.init_count]
    if not of.checkpoint_interval_us:
        return None
    return of.checkpoint_interval_us, of.checkpoint_us, of.restore_us


def _likeness(shape: PodShape) -> tuple[object, ...]:
    return (*sorted(shape.requests.items()), shape.priority, shape.selection.node_selector.requirements)


class TwinPlayer:
    """All engines."""

    def __init__(self, base: Twin, situation: Situation, jobs: Sequence[PastJob] = ()) -> None:
        self.base, self.items, self._jobs = base, situation.items, jobs
        self._hopeless = twins.hopeless_of(base, self.items)

    def play(
        self,
        run_us: Sequence[int],
        coming: Iterator[Block],
        *,
        until_us: int,
        grid_us: Sequence[int],
        seed: int,
        luck: Luck = NO_LUCK,
    ) -> Played:
        everybody = [one for _, block in coming for one in block]
        jobs, runs = [(at_us, self._jobs[n]) for at_us, n, _ in everybody], [run for *_, run in everybody]
        return twins.play(
            self.base,
            self.items,
            run_us,
            jobs,
            runs,
            until_us=until_us,
            grid_us=grid_us,
            hopeless=self._hopeless,
            luck=luck,
        )


def needs_twin(
    store: Store, situation: Situation, backlog: Backlog | None = None, losses: Losses = NO_LOSSES
) -> str:
    """Why the quick way would not do, as a phrase; empty where it does. `backlog`: Kueue's, where it is there."""
    if store.count(WORKLOAD) or store.count("ClusterQueue.kueue.x-k8s.io"):
        why = "Kueue decides who starts" if backlog is None else claims.why_not(backlog, store, situation)
        if why:
            return why
    if any(not (item.pods or item.is_queued) for item in situation.items):
        return "there are jobs without pods"
    for gk, what in (
        ("NodePool.karpenter.sh", "nodes come and go"),
        ("PodGroup.scheduling.x-k8s.io", "there are gangs"),
        ("PodGroup.scheduling.volcano.sh", "there are gangs"),
        ("ResourceClaim.resource.k8s.io", "pods ask for devices"),
    ):
        if store.count(gk):
            return what
    if losses.breaks_gpus:
        return "GPUs break"
    if losses.is_any and any(item.key.gk not in (JOB, "Pod") for item in situation.items):
        return "what loses pods are not Jobs alone"
    if losses.is_any and any(
        spec_of(store.get(i.key) or {}).get("podFailurePolicy") for i in situation.items
    ):
        return "Jobs say which losses count"
    priorities = {item.priority for item in situation.items if not item.is_queued}
    if len(priorities) > 1 or len(store.accounts.pods_by_priority) > 1:
        return "pods have different priorities"
    return ""


_asked: Question | None = None


def play_all(
    question: Question, count: int = FUTURES, *, processes: int = 0, progress: Progressing | None = None
) -> Futures:
    """`processes` 0: as many as this process may use cores. Deterministic in the question's seed."""
    processes = min(processes or cores(), count)
    found: dict[int, Played] = {}
    if processes <= 1 or not hasattr(os, "fork"):
        for number in range(count):
            found[number] = question.one(number)
            if progress is not None:
                progress(len(found), count)
        return gathered([found[n] for n in range(count)])
    global _asked
    _asked = question
    # Forked workers inherit the cluster: nothing of it is written down or read again.
    pool = ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("fork"), initializer=_inherit
    )
    try:
        chunk = max(1, min(8, count // (4 * processes)))
        tasks = [
            pool.submit(_play_some, first, min(first + chunk, count)) for first in range(0, count, chunk)
        ]
        for task in as_completed(tasks):
            found.update(task.result())
            if progress is not None:
                progress(len(found), count)
    finally:
        _asked = None
        pool.shutdown(cancel_futures=True)
    return gathered([found[n] for n in range(count)])


def _inherit() -> None:
    """What a worker inherits stays: a garbage collector that looked through it would copy every page of it. What a
    future makes, counts of references free."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _play_some(first: int, last: int) -> dict[int, Played]:
    assert _asked is not None
    return {number: _asked.one(number) for number in range(first, last)}


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gathered(played: Sequence[Played]) -> Futures:
    """Futures by their numbers, as arrays."""
    ahead = [p for p in played if p.queued]
    held = np.array([p.held for p in ahead], np.float64)
    return Futures(
        _seconds([p.start_us for p in played]),
        _seconds([p.finish_us for p in played]),
        np.array([p.queued for p in ahead], np.float64),
        held,
        np.array([p.evictions for p in played], np.float64),
    )


def _seconds(times_us: list[list[int]]) -> npt.NDArray[np.float64]:
    found = np.array(times_us, np.float64) / SECOND_US
    found[found < 0] = np.inf
    return found
