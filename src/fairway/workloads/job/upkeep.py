"""How many pods should the Job have, and which come or go to get there?

Source: pkg/controller/job/job_controller.go manageJob, activePodsForRemoval; indexed_job_utils.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, meta_of
from fairway.workloads.job import backoff, indexes
from fairway.workloads.job.census import Census, Facts, counts_as_failure, is_failed, pod_indexes
from fairway.workloads.job.indexes import Intervals
from fairway.workloads.job.podspec import (
    INDEX_IGNORED_FAILURE_COUNT,
    completion_index,
    failure_count,
    new_indexed_pods,
    new_pods,
    total_failure_count,
)
from fairway.workloads.pods import SUCCEEDED, in_deletion_order, is_terminating, phase_of

# Source: MaxPodCreateDeletePerSync, pkg/controller/job/job_controller.go (v1.36).
MAX_PODS_PER_SYNC: Final = 500


@dataclass(frozen=True, slots=True)
class Plan:
    """Pods to remove or to create (never both), and when to look again."""

    remove: list[Obj] = field(default_factory=list)
    create: list[Obj] = field(default_factory=list)
    again_at_us: int | None = None


NO_PLAN: Final = Plan()


def plan(
    view: View,
    job: Obj,
    facts: Facts,
    census: Census,
    succeeded: int,
    done: Intervals,
    failed: Intervals,
    held: dict[int, Obj],
    now_us: int,
) -> Plan:
    """`done` and `failed` are completion indexes; `held` the failed pod each index waits to see replaced."""
    active = len(census.active)
    if facts.suspended:
        return Plan(remove=for_removal(census.active, facts, active))
    wanted = wanted_active(facts, active, succeeded)
    if wanted == active and not facts.indexed:
        return NO_PLAN
    surplus = for_removal(census.active, facts, max(active - wanted, 0))
    if surplus:
        more = now_us if len(surplus) > MAX_PODS_PER_SYNC else None
        return Plan(remove=surplus[:MAX_PODS_PER_SYNC], again_at_us=more)
    leaving = census.terminating if facts.replace_only_failed else 0
    missing = wanted - leaving - active
    if missing <= 0:
        return NO_PLAN
    if facts.backoff_per_index is None:
        until = backoff.wait_until_us(_failures(job, facts, census))
        if until > now_us:
            return Plan(again_at_us=until)
    more = now_us if missing > MAX_PODS_PER_SYNC else None
    missing = min(missing, MAX_PODS_PER_SYNC)
    if not facts.indexed:
        return Plan(create=list(new_pods(view, job, missing)), again_at_us=more)
    taken = _taken(facts, census, done, failed)
    pending = indexes.first_missing(taken, missing, facts.completions or 0)
    return _indexed_plan(view, job, facts, pending, held, more=more, now_us=now_us)


def wanted_active(facts: Facts, active: int, succeeded: int) -> int:
    """Without completions the pods run on once one succeeded; with them, never more than remain."""
    if facts.completions is None:
        return active if succeeded > 0 else facts.parallelism
    return max(min(facts.completions - succeeded, facts.parallelism), 0)


def for_removal(active: list[Obj], facts: Facts, at_least: int) -> list[Obj]:
    """Pods with repeated, missing or impossible indexes, then the least far along, `at_least` in all."""
    out: list[Obj] = []
    left = active
    if facts.indexed:
        out, left = _misplaced(active, facts.completions or 0)
    if len(out) < at_least:
        out = out + in_deletion_order(left)[: at_least - len(out)]
    return out


def _misplaced(active: list[Obj], completions: int) -> tuple[list[Obj], list[Obj]]:
    by_index: dict[int, list[Obj]] = {}
    out: list[Obj] = []
    for pod in active:
        index = completion_index(pod)
        if index is None or index >= completions:
            out.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    left: list[Obj] = []
    for index in sorted(by_index):
        ordered = in_deletion_order(by_index[index])
        out.extend(ordered[:-1])
        left.append(ordered[-1])
    return out, left


def _failures(job: Obj, facts: Facts, census: Census) -> backoff.Failures:
    """Consecutive failures, from the pods that stay and from the record of those that do not."""
    staying = [p for p in census.pods if "deletionTimestamp" not in p["metadata"] and is_failed(p, facts)]
    leaving = [p for p in census.new_failed if "deletionTimestamp" in p["metadata"]]
    recorded = (meta_of(job).get("annotations") or {}).get(backoff.RECORD)
    if not staying and not leaving and recorded is None:
        return backoff.NO_FAILURES
    succeeded = [p for p in census.pods if phase_of(p) == SUCCEEDED]
    return backoff.since_last_success(succeeded, [*staying, *leaving], recorded)


def _taken(facts: Facts, census: Census, done: Intervals, failed: Intervals) -> Intervals:
    taken = indexes.union(indexes.union(done, failed), pod_indexes(census.active))
    if facts.replace_only_failed:
        taken = indexes.union(taken, pod_indexes([p for p in census.pods if is_terminating(p)]))
    return taken


def _indexed_plan(
    view: View,
    job: Obj,
    facts: Facts,
    pending: list[int],
    held: dict[int, Obj],
    *,
    more: int | None,
    now_us: int,
) -> Plan:
    if facts.backoff_per_index is None:
        return Plan(create=list(new_indexed_pods(view, job, pending, None)), again_at_us=more)
    waits = {
        i: backoff.wait_until_us(
            backoff.Failures(total_failure_count(held[i]) + 1, backoff.finished_us(held[i]))
        )
        for i in pending
        if i in held
    }
    now = [i for i in pending if waits.get(i, 0) <= now_us]
    later = min((t for t in waits.values() if t > now_us), default=None)
    counts = {i: _next_counts(held[i], facts) for i in now if i in held}
    # The pods replaced just now give up their finalizers once their successors are seen.
    again = _first((now_us if counts else None, more, later))
    return Plan(create=list(new_indexed_pods(view, job, now, counts)), again_at_us=again)


def _first(moments: Iterable[int | None]) -> int | None:
    return min((m for m in moments if m is not None), default=None)


def _next_counts(replaced: Obj, facts: Facts) -> tuple[int, int]:
    """(counted, ignored) failures the successor of this pod starts with."""
    counted, ignored = failure_count(replaced), failure_count(replaced, INDEX_IGNORED_FAILURE_COUNT)
    if counts_as_failure(replaced, facts):
        return counted + 1, ignored
    return counted, ignored + 1


def held_back(census: Census, facts: Facts, done: Intervals, failed: Intervals) -> dict[int, Obj]:
    """Per index, the failed pod whose count its successor will carry on: it keeps its finalizer until then.

    Empty without backoffLimitPerIndex.
    """
    if facts.backoff_per_index is None:
        return {}
    settled = indexes.union(indexes.union(done, failed), pod_indexes(census.active))
    held: dict[int, Obj] = {}
    for pod in census.tracked:
        index = completion_index(pod)
        if index is None or index >= (facts.completions or 0) or not is_failed(pod, facts):
            continue
        if indexes.has(settled, index):
            continue
        other = held.get(index)
        if other is None or _is_later(pod, other):
            held[index] = pod
    return held


def _is_later(pod: Obj, other: Obj) -> bool:
    if total_failure_count(pod) < total_failure_count(other):
        return False
    return backoff.finished_us(pod) >= backoff.finished_us(other)
