"""Which jobs were there, what did they ask for, when did they start and end?

Rows come from a recorded run, or from a trace. What contradicts itself is left out and counted: a job that ended
before it started, or at a time that has not come yet, says more about clocks than about jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from fairway.kube.timestamps import SECOND_US
from fairway.recorder.tables import Outcome, PodRow
from fairway.traces.arrival import USER_LABEL
from fairway.traces.jobs import TraceJob

LIMIT_LABEL: Final = "kueue.x-k8s.io/max-exec-time-seconds"
"""How long a job may run, as its user declared it. Source: Kueue, KEP 3125 (maximum execution time)."""
_PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
_DIGITS: Final = re.compile(r"[0-9a-f]*\d[0-9a-f]*")
# Stamps of two machines differ by so much without anybody noticing.
_SKEW_US: Final = 5 * SECOND_US


@dataclass(frozen=True, slots=True)
class PastJob:
    """One job. `ask` is what it asked for, `ask.submit_us` in µs since 1970; `started_us` when its pods last began to
    run, `ended_us` its end; None: not (yet). `is_whole`: it ran to its own end, so that its run time is known."""

    object: str
    ask: TraceJob
    started_us: int | None = None
    ended_us: int | None = None
    is_whole: bool = True
    stopped_us: int | None = None
    """Since when it runs no longer though it has not ended: it was evicted, and waits."""
    earlier: tuple[tuple[int, int], ...] = ()
    """Starts and ends of runs that were cut short before the last one."""

    @property
    def run_us(self) -> int | None:
        if self.started_us is None or self.ended_us is None or not self.is_whole:
            return None
        return max(self.ended_us - self.started_us, 1)

    @property
    def limit_us(self) -> int:
        """What it declared as its longest run time; 0: nothing."""
        return declared_us(dict(self.ask.labels)) if self.ask.labels else 0

    @property
    def first_us(self) -> int | None:
        """When it first began to run."""
        return self.earlier[0][0] if self.earlier else self.started_us

    @property
    def cut_short_us(self) -> int:
        """The longest it ran without getting to its end: it takes longer than that."""
        runs = [end_us - start_us for start_us, end_us in self.earlier]
        if self.started_us is not None and self.stopped_us is not None:
            runs.append(self.stopped_us - self.started_us)
        return max(runs, default=0)

    def next_start_us(self, now_us: int) -> int | None:
        """When it began to run after that time; None: never, as far as is known."""
        starts = [start_us for start_us, _ in self.earlier]
        if self.started_us is not None:
            starts.append(self.started_us)
        return min((t for t in starts if t > now_us), default=None)


@dataclass(frozen=True, slots=True)
class History:
    """`jobs` by submission; `notes`: what could not be known, as sentences."""

    jobs: tuple[PastJob, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ended(self) -> int:
        return sum(job.run_us is not None for job in self.jobs)


def declared_us(labels: Mapping[str, str]) -> int:
    """A label that makes no sense declares nothing."""
    text = labels.get(LIMIT_LABEL, "")
    return int(text) * SECOND_US if text.isascii() and text.isdigit() and len(text) < 10 else 0


def pattern_of(name: str) -> str:
    """A name without its numbers and hashes: `train-7f3a-12` and `train-9b01-3` are one series."""
    # Names that differ in their last number alone are one question.
    name = name.rpartition("/")[2]
    before = name.rstrip("0123456789")
    return _pattern(before if before == name else before + "0")


@lru_cache(maxsize=4096)
def _pattern(name: str) -> str:
    return _DIGITS.sub("#", name)


def coherent(jobs: Iterable[PastJob], now_us: int, notes: Iterable[str] = ()) -> History:
    """A history without rows that contradict themselves or come from the future."""
    kept, backwards, ahead = [], 0, 0
    for job in jobs:
        stamps = [t for t in (job.ask.submit_us, job.started_us, job.ended_us) if t is not None]
        if max(stamps) > now_us + _SKEW_US:
            ahead += 1
        elif any(b < a - _SKEW_US for a, b in pairwise(stamps)):
            backwards += 1
        else:
            kept.append(job)
    said = list(notes)
    if backwards:
        said.append(
            f"{backwards} jobs started before they were submitted or ended before they started: left out"
        )
    if ahead:
        said.append(
            f"{ahead} jobs have times later than now ({_SKEW_US // SECOND_US} s of skew allowed): left out"
        )
    if not any(job.run_us is not None for job in kept):
        said.append(
            "no job of the history has ended: run times are guesses from declared limits and elapsed time"
        )
    kept.sort(key=lambda job: (job.ask.submit_us, job.object))
    return History(tuple(kept), tuple(said))


def history_of(outcome: Outcome, now_us: int | None = None) -> History:
    """A recorded run: Workloads of Kueue, jobs without one, and pods without an owner, each once. O(rows)."""
    now_us = outcome.ended_us if now_us is None else now_us
    pods = _pods_by_root(outcome)
    found = {job.object: job for job in _plain(outcome, pods)}
    found.update((job.object, job) for job in _queued(outcome, pods))
    return coherent(found.values(), now_us)


def _pods_by_root(outcome: Outcome) -> dict[str, list[PodRow]]:
    found: dict[str, list[PodRow]] = {}
    for pod in outcome.pods:
        found.setdefault(object_of(pod), []).append(pod)
    return found


def object_of(pod: PodRow) -> str:
    """The topmost object it belongs to: `Job/team/train-1`."""
    kind, name = (pod.root_kind, pod.root_name) if pod.root_kind else ("Pod", pod.name)
    return f"{kind}/{pod.namespace}/{name}"


def _plain(outcome: Outcome, pods: Mapping[str, list[PodRow]]) -> Iterable[PastJob]:
    ends = {f"{w.kind}/{w.namespace}/{w.name}": w for w in outcome.workloads if not w.owner_kind}
    for name, rows in pods.items():
        if any(pod.is_serving for pod in rows):
            continue
        workload = ends.get(name)
        last = max((p.started_us for p in rows if p.started_us is not None), default=None)
        first = min((p.started_us for p in rows if p.started_us is not None), default=None)
        replicas = len({p.labels.get("batch.kubernetes.io/job-completion-index", p.name) for p in rows})
        if workload is None:
            ended_us, is_whole = rows[0].finished_us, rows[0].phase == "Succeeded"
            created_us = rows[0].created_us
        else:
            ended_us, is_whole = workload.finished_us or workload.deleted_us, workload.outcome == "Complete"
            created_us = workload.created_us
        ask = _ask(rows[0], replicas, created_us, workload.queue if workload else rows[0].queue)
        earlier: tuple[tuple[int, int], ...] = ()
        stopped_us = None
        # Who was evicted, lost its node or died, and began anew.
        cut = any(p.is_evicted or (p.phase == "Failed" and p.created_us < rows[-1].created_us) for p in rows)
        if cut and last is not None:
            ends_of = {p.started_us: p.finished_us for p in rows if p.started_us is not None}
            earlier = tuple((s, e) for s, e in sorted(ends_of.items()) if e is not None and s < last)
            stopped_us, first = ends_of[last] if ended_us is None else None, last
        yield PastJob(name, ask, first, ended_us, is_whole, stopped_us, earlier)


def _queued(outcome: Outcome, pods: Mapping[str, list[PodRow]]) -> Iterable[PastJob]:
    holds: dict[int, set[tuple[int, int | None]]] = {}
    for hold in outcome.queues.holds:
        holds.setdefault(hold.workload, set()).add((hold.start_us, hold.end_us))
    for number, row in enumerate(outcome.queues.workloads):
        name = f"{row.owner_kind or 'Workload'}/{row.namespace}/{row.owner_name or row.name}"
        mine = pods.get(name, [])
        labels = {**(dict(mine[0].labels) if mine else {}), **row.labels}
        amounts = {k: int(v) for k, v in row.requests.items() if v.lstrip("-").isdigit()}
        ask = TraceJob(
            name,
            row.created_us,
            gpu_milli=mine[0].gpu_milli if mine else row.gpu_milli // max(row.pods, 1),
            cpu_milli=mine[0].cpu_milli if mine else amounts.get("cpu", 0) // max(row.pods, 1),
            memory_bytes=mine[0].memory_bytes if mine else amounts.get("memory", 0) // max(row.pods, 1),
            replicas=max(row.pods, 1),
            user=labels.get(USER_LABEL, ""),
            namespace=row.namespace,
            priority_class=mine[0].priority_class if mine else "",
            queue=row.queue,
            labels=_kept(labels),
        )
        is_whole = row.outcome == "Finished"
        ended_us = row.finished_us if is_whole else row.deleted_us
        runs = _runs(sorted(holds.get(number, ()), key=lambda hold: hold[0]), mine)
        if not runs:
            yield PastJob(name, ask, None, ended_us, is_whole)
            continue
        started_us, stopped_us = runs.pop()
        earlier = tuple((start_us, end_us) for start_us, end_us in runs if end_us is not None)
        stopped_us = None if ended_us is not None else stopped_us
        yield PastJob(name, ask, started_us, ended_us, is_whole, stopped_us, earlier)


def _runs(holds: Iterable[tuple[int, int | None]], pods: Sequence[PodRow]) -> list[tuple[int, int | None]]:
    """When it ran: while it held quota, from when the first of its pods ran. Quota alone is no run: pods may wait for
    a node long after it was given. Of a Workload without pods nothing else is known."""
    found: list[tuple[int, int | None]] = []
    for start_us, end_us in holds:
        if not pods:
            found.append((start_us, end_us))
            continue
        starts = [p.started_us for p in pods if p.started_us is not None and p.started_us >= start_us]
        # A pod that ran for no time at all did not start: its quota was given and taken in one moment.
        first_us = min((t for t in starts if end_us is None or t < end_us), default=None)
        if first_us is not None:
            found.append((first_us, end_us))
    return found


def _ask(pod: PodRow, replicas: int, submitted_us: int, queue: str) -> TraceJob:
    return TraceJob(
        object_of(pod),
        submitted_us,
        gpu_milli=pod.gpu_milli,
        cpu_milli=pod.cpu_milli,
        memory_bytes=pod.memory_bytes,
        replicas=replicas,
        user=pod.labels.get(USER_LABEL, ""),
        namespace=pod.namespace,
        priority_class=pod.priority_class,
        queue=queue,
        labels=_kept(pod.labels),
    )


def _kept(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, labels[key]) for key in (LIMIT_LABEL, _PRIORITY_LABEL) if key in labels)
