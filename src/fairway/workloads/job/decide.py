"""The Job controller's decision.

Source: pkg/controller/job/job_controller.go syncJob (v1.36).

Unlike kube: ended pods are counted in the decision that sees them, not over two writes (see `accounting`);
`status.active` stays the number of active pods while a back-off runs, where upstream writes 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Create,
    Delete,
    Patch,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key, Obj, key_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, is_desire_changed, owner_key
from fairway.workloads.job import accounting, backoff, census, indexes, upkeep
from fairway.workloads.job.accounting import NOTHING_ENDED, Counts, Tally
from fairway.workloads.job.census import Census, Facts
from fairway.workloads.job.podspec import TRACKING_FINALIZER
from fairway.workloads.job.verdict import (
    COMPLETIONS_REACHED,
    Verdict,
    already_pronounced,
    deadline_us,
    failure,
    is_finished,
    of_indexes,
    restarts,
    start_of,
)
from fairway.workloads.pods import PENDING, SUCCEEDED, is_ready, phase_of

JOB: Final = "Job.batch"
COMPONENT: Final = "job-controller"
OUR_NAME: Final = "kubernetes.io/job-controller"

# How long upstream waits before it tries a refused creation again: doubling from 1 s to 1 min.
# Source: DefaultJobApiBackOff, MaxJobApiBackOff (v1.36).
MIN_API_BACKOFF_US: Final = 1 * SECOND_US
MAX_API_BACKOFF_US: Final = 60 * SECOND_US


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one Job. O(pods of the Job)."""
    job = view.get(key)
    if job is None or is_finished(job.get("status") or {}):
        return NOTHING_TO_DO
    facts = census.facts_of(job)
    if facts.manager is not None and facts.manager != OUR_NAME:
        return NOTHING_TO_DO
    if facts.mode not in (None, "NonIndexed", "Indexed"):
        message = "Skipped Job sync because completion mode is unknown"
        return Reconciliation((event(key, "UnknownCompletionMode", message, COMPONENT, WARNING),))
    return _decide(view, key, _look(view, job, facts, now_us), now_us, may_create=True)


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After a creation was refused: say so, count what is there, try again later."""
    job = view.get(key)
    if job is None or is_finished(job.get("status") or {}):
        return NOTHING_TO_DO
    look = _look(view, job, census.facts_of(job), now_us)
    decided = _decide(view, key, look, now_us, may_create=False)
    told = event(key, "FailedCreate", f"Error creating: {message}", COMPONENT, WARNING)
    waited = now_us - (now_us if look.started_us is None else look.started_us)
    retry = now_us + min(max(waited, MIN_API_BACKOFF_US), MAX_API_BACKOFF_US)
    return Reconciliation((told, *decided.actions), _earlier(decided.again_at_us, retry))


class Look:
    """What is asked and what is there. `succeeded` and `failed` include pods not counted in the status yet."""

    # Not a dataclass: see Census.
    def __init__(self, job: Obj, facts: Facts, pods: Census, started_us: int | None) -> None:
        self.job = job
        self.facts = facts
        self.status: dict[str, Any] = job.get("status") or {}
        self.uncounted: dict[str, Any] = self.status.get("uncountedTerminatedPods") or {}
        self.pods = pods
        self.started_us = started_us
        self.is_deleting = "deletionTimestamp" in job["metadata"]
        self.succeeded = 0
        self.failed = 0
        self.done: indexes.Intervals = indexes.NONE
        self.failed_indexes: indexes.Intervals = indexes.NONE


def _look(view: View, job: Obj, facts: Facts, now_us: int) -> Look:
    status = status_of(job)
    uncounted: dict[str, Any] = status.get("uncountedTerminatedPods") or {}
    pods = census.take(view, job, facts, uncounted)
    started_us = start_of(status)
    if started_us is None and not facts.suspended:
        started_us = now_us
    failures = len(pods.new_failed)
    if failures and facts.failure_policy is not None:
        failures = sum(census.counts_as_failure(p, facts) for p in pods.new_failed)
    look = Look(job, facts, pods, started_us)
    look.succeeded = _counted(status, uncounted, "succeeded") + len(pods.new_succeeded)
    look.failed = _counted(status, uncounted, "failed") + failures
    if facts.indexed:
        _look_at_indexes(look)
    return look


def _look_at_indexes(look: Look) -> None:
    completions = look.facts.completions or 0
    recorded = indexes.parse(look.status.get("completedIndexes") or "", completions)
    look.done = census.succeeded_indexes(recorded, look.pods)
    look.succeeded = indexes.total(look.done)
    if look.facts.backoff_per_index is not None:
        recorded = indexes.parse(look.status.get("failedIndexes") or "", completions)
        look.failed_indexes = census.failed_indexes(recorded, look.pods, look.facts)


def _counted(status: dict[str, Any], uncounted: dict[str, Any], field: str) -> int:
    return int(status.get(field, 0)) + (len(uncounted.get(field) or ()) if uncounted else 0)


def _decide(view: View, key: Key, look: Look, now_us: int, *, may_create: bool) -> Reconciliation:
    facts, pods = look.facts, look.pods
    # 1. Is it over?
    verdict = _verdict(look, now_us)
    was_over = verdict is not None
    # 2. If not, are there as many pods as there should be?
    held = upkeep.held_back(pods, facts, look.done, look.failed_indexes)
    is_kept_up = not was_over and not look.is_deleting
    plan = upkeep.NO_PLAN
    if is_kept_up and (may_create or facts.suspended):
        plan = upkeep.plan(
            view, look.job, facts, pods, look.succeeded, look.done, look.failed_indexes, held, now_us
        )
    removed = pods.active if was_over else plan.remove
    counts = _counts_after(pods, removed, len(plan.create))
    if verdict is None and counts.active == 0 and _has_enough(facts, look.succeeded):
        verdict = COMPLETIONS_REACHED
    # 3. What does the status say then?
    ended = NOTHING_ENDED
    if verdict is not None or look.is_deleting or pods.new_succeeded or pods.new_failed or look.uncounted:
        ended = accounting.tally(pods, facts, verdict, held, is_deleting=look.is_deleting)
    now = rfc3339(now_us)
    new = _next_status(look, verdict, counts, ended, now, is_kept_up=is_kept_up)
    told = _conditions(key, facts, new, verdict, counts, now, is_kept_up=is_kept_up)
    # 4. Everything in the order upstream does it.
    actions: list[Action] = []
    if plan.create:
        _create(actions, key, plan.create)
    _remove(actions, key, removed, ended, keep_finalizers=was_over)
    if ended.gone and verdict is None:
        _remember_failures(actions, key, look, ended)
    if new != look.status:
        actions.append(SetStatus(key, new))
    actions.extend(told)
    again = plan.again_at_us
    if facts.deadline_s is not None and verdict is None:
        again = _earlier(again, deadline_us(facts, look.started_us))
    return Reconciliation(tuple(actions), again)


def _verdict(look: Look, now_us: int) -> Verdict | None:
    verdict = already_pronounced(look.status) if "conditions" in look.status else None
    if verdict is None:
        verdict = failure(
            look.job, look.facts, look.pods, failed=look.failed, start_us=look.started_us, now_us=now_us
        )
    if look.facts.indexed:
        return of_indexes(look.job, look.facts, look.done, look.failed_indexes, verdict)
    return verdict


def _has_enough(facts: Facts, succeeded: int) -> bool:
    """Without completions any success will do, once nothing runs any more."""
    return succeeded > 0 if facts.completions is None else succeeded >= facts.completions


def _counts_after(pods: Census, removed: list[Obj], created: int) -> Counts:
    if not removed:
        return Counts(len(pods.active) + created, pods.ready, pods.terminating)
    return Counts(
        active=len(pods.active) - len(removed) + created,
        ready=pods.ready - sum(is_ready(p) for p in removed),
        terminating=pods.terminating + len(removed),
    )


def _next_status(
    look: Look, verdict: Verdict | None, counts: Counts, ended: Tally, now: str, *, is_kept_up: bool
) -> dict[str, Any]:
    status, facts = look.status, look.facts
    start_time = status.get("startTime")
    if is_kept_up and verdict is None and facts.suspended:
        # Suspending stops the clock of activeDeadlineSeconds, resuming starts it anew.
        start_time = None
    elif not facts.suspended and (start_time is None or (verdict is None and _is_suspended(status))):
        start_time = now
    succeeded = look.succeeded
    if not facts.indexed:
        succeeded = _counted(status, look.uncounted, "succeeded") + ended.succeeded
    return accounting.next_status(
        status,
        facts,
        counts,
        succeeded=succeeded,
        failed=_counted(status, look.uncounted, "failed") + ended.failed,
        start_time=start_time,
        done=look.done,
        failed_indexes=look.failed_indexes,
    )


def _is_suspended(status: dict[str, Any]) -> bool:
    return any(
        c.get("type") == "Suspended" and c.get("status") == "True" for c in status.get("conditions") or ()
    )


def _conditions(
    key: Key,
    facts: Facts,
    new: dict[str, Any],
    verdict: Verdict | None,
    counts: Counts,
    now: str,
    *,
    is_kept_up: bool,
) -> list[Action]:
    """Write the conditions into the new status; the events that announce them."""
    if verdict is not None:
        if not accounting.pronounce(new, verdict, counts, now):
            return []
        return _finished_events(key, facts, new, verdict)
    if not is_kept_up or not (facts.suspended or "conditions" in new):
        return []
    if facts.suspended:
        made = accounting.job_condition("Suspended", "True", "JobSuspended", "Job suspended", now)
    else:
        made = accounting.job_condition("Suspended", "False", "JobResumed", "Job resumed", now)
    if not accounting.with_condition(new, made):
        return []
    return [event(key, "Suspended" if facts.suspended else "Resumed", made["message"], COMPONENT)]


def _finished_events(key: Key, facts: Facts, new: dict[str, Any], verdict: Verdict) -> list[Action]:
    if not verdict.succeeded:
        return [event(key, verdict.reason, verdict.message, COMPONENT, WARNING)]
    told: list[Action] = []
    if facts.completions is not None and new.get("succeeded", 0) > facts.completions:
        message = "Too many succeeded pods running after completion count reached"
        told.append(event(key, "TooManySucceededPods", message, COMPONENT, WARNING))
    told.append(event(key, "Completed", "Job completed", COMPONENT))
    return told


def _create(actions: list[Action], key: Key, pods: list[Obj]) -> None:
    for pod in pods:
        actions.append(Create(pod))
        actions.append(event(key, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}", COMPONENT))


def _remove(
    actions: list[Action], key: Key, removed: list[Obj], ended: Tally, *, keep_finalizers: bool
) -> None:
    """Delete pods and lift finalizers. Pods removed from a Job that goes on are not counted as failed."""
    for pod in removed:
        name = pod["metadata"]["name"]
        if not keep_finalizers and TRACKING_FINALIZER in (meta_of(pod).get("finalizers") or ()):
            actions.append(lift_finalizer(pod))
        actions.append(Delete(key_of(pod), pod["metadata"]["uid"]))
        actions.append(event(key, "SuccessfulDelete", f"Deleted pod: {name}", COMPONENT))
    actions.extend(lift_finalizer(pod) for pod in ended.lifted)


def lift_finalizer(pod: Obj) -> Patch:
    kept = [f for f in pod["metadata"]["finalizers"] if f != TRACKING_FINALIZER]
    meta: Obj = pod["metadata"]
    return Patch(Key("Pod", meta["namespace"], meta["name"]), {"metadata": {"finalizers": kept or None}})


def _remember_failures(actions: list[Action], key: Key, look: Look, ended: Tally) -> None:
    """Keep what the back-off needs of pods that fail by vanishing."""
    if look.facts.backoff_per_index is not None:
        return
    succeeded = [backoff.finished_us(p) for p in look.pods.pods if phase_of(p) == SUCCEEDED]
    recorded = (meta_of(look.job).get("annotations") or {}).get(backoff.RECORD)
    record = backoff.extended_record(recorded, ended.gone, succeeded)
    actions.append(Patch(key, {"metadata": {"annotations": {backoff.RECORD: record}}}))


def _earlier(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def map_change(view: View, change: Change) -> Sequence[Key]:
    """A Job whose wishes changed; the Job of a pod whose ending, readiness or leaving changed."""
    if change.key.gk == JOB:
        return (change.key,) if is_desire_changed(change) and not _was_over(change.old) else NO_KEYS
    if not is_relevant(change):
        return NO_KEYS
    owner = owner_key(change.obj, "Job", "batch", JOB)
    return NO_KEYS if owner is None or _was_over(view.get(owner)) else (owner,)


def _was_over(job: Obj | None) -> bool:
    """Whether this Job had ended: nothing that happens to it or to its pods is the controller's business then."""
    return job is not None and is_finished(job.get("status") or {})


def is_relevant(change: Change) -> bool:
    """Whether a pod's change can change what its Job does or says."""
    if change.type == DELETED:
        return True
    new, old = change.obj, change.old
    if change.type == ADDED or old is None:
        # Created by this controller, it was counted already; loaded from a dump, it was not.
        return bool(spec_of(new).get("nodeName")) or phase_of(new) != PENDING
    meta: Obj = new["metadata"]
    old_meta: Obj = old["metadata"]
    if meta.get("deletionTimestamp") != old_meta.get("deletionTimestamp"):
        return True
    if meta.get("ownerReferences") is not old_meta.get("ownerReferences"):
        return True
    status: Obj | None = new.get("status")
    old_status: Obj | None = old.get("status")
    if status is old_status or status is None or old_status is None:
        return status is not old_status
    if status.get("phase") != old_status.get("phase"):
        return True
    if status.get("conditions") is not old_status.get("conditions") and is_ready(new) != is_ready(old):
        return True
    return spec_of(new).get("restartPolicy") == "OnFailure" and restarts(new) != restarts(old)


CONTROLLER: Final = Controller("job", JOB, (JOB, "Pod"), map_change, reconcile, refused, slow_start=True)
