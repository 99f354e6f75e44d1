"""What the Job's status says afterwards, and which finalizers are lifted to make it true.

Upstream notes ended pods in `status.uncountedTerminatedPods`, lifts their finalizers, then counts them: three
writes, so that a crash in between loses nothing. Here the three are one decision carried out at once, so the
list is always empty in what is written; what another writer left in it is counted.

Source: pkg/controller/job/job_controller.go trackJobStatusAndRemoveFinalizers, enactJobFinished (v1.36).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj, status_of
from fairway.workloads.job import indexes
from fairway.workloads.job.census import Census, Facts, counts_as_failure, has_valid_index, is_failed
from fairway.workloads.job.indexes import Intervals
from fairway.workloads.job.podspec import completion_index
from fairway.workloads.job.verdict import Verdict, condition_true
from fairway.workloads.pods import SUCCEEDED


class Counts(NamedTuple):
    """The pods as they are once this decision is carried out."""

    active: int
    ready: int
    terminating: int


class Tally(NamedTuple):
    """Ended pods now counted, and the pods that give up their finalizer for it.

    `gone`: those counted as failed that are being deleted, so will not be there to be counted again.
    """

    succeeded: int
    failed: int
    lifted: list[Obj]
    gone: list[Obj]


NOTHING_ENDED: Final = Tally(0, 0, [], [])


def tally(
    census: Census, facts: Facts, verdict: Verdict | None, held: dict[int, Obj], *, is_deleting: bool
) -> Tally:
    """Go through the pods not counted yet. With a failed verdict every pod not ended yet counts as failed."""
    succeeded = failed = 0
    lifted: list[Obj] = []
    gone: list[Obj] = []
    everything = is_deleting or verdict is not None
    fails_all = verdict is not None and not verdict.succeeded
    ended = [p["metadata"]["uid"] for p in (*census.new_succeeded, *census.new_failed)]
    for pod in census.tracked:
        has_failed = is_failed(pod, facts)
        has_succeeded = status_of(pod).get("phase") == SUCCEEDED
        if not (everything or has_succeeded):
            if not has_failed:
                continue
            index = completion_index(pod)
            if index is not None and held.get(index) is pod:
                continue
        lifted.append(pod)
        if has_succeeded:
            succeeded += pod["metadata"]["uid"] in ended
        elif (has_failed and pod["metadata"]["uid"] in ended) or (fails_all and not has_failed):
            if facts.indexed and not has_valid_index(pod, facts):
                continue
            if counts_as_failure(pod, facts):
                failed += 1
            if has_failed and "deletionTimestamp" in pod["metadata"]:
                gone.append(pod)
    return Tally(succeeded, failed, lifted, gone)


def next_status(
    status: dict[str, Any],
    facts: Facts,
    counts: Counts,
    *,
    succeeded: int,
    failed: int,
    start_time: str | None,
    done: Intervals,
    failed_indexes: Intervals,
) -> dict[str, Any]:
    """The status without its conditions' changes. Zero counts are left out where the API leaves them out."""
    new = dict(status)
    _set(new, "active", counts.active)
    _set(new, "succeeded", succeeded)
    _set(new, "failed", failed)
    new["ready"] = counts.ready
    new["terminating"] = counts.terminating
    new["uncountedTerminatedPods"] = {}
    if start_time is None:
        new.pop("startTime", None)
    else:
        new["startTime"] = start_time
    if facts.indexed:
        _set(new, "completedIndexes", indexes.text(done))
        if facts.backoff_per_index is not None:
            new["failedIndexes"] = indexes.text(failed_indexes)
        else:
            new.pop("failedIndexes", None)
    return new


def _set(status: dict[str, Any], field: str, value: int | str) -> None:
    if value:
        status[field] = value
    else:
        status.pop(field, None)


def job_condition(type_: str, state: str, reason: str, message: str, now: str) -> dict[str, Any]:
    """A JobCondition: unlike other kinds', it carries a probe time."""
    made = {"type": type_, "status": state, "lastProbeTime": now, "lastTransitionTime": now}
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def with_condition(status: dict[str, Any], made: dict[str, Any]) -> bool:
    """Put a condition into this new status; False where it says so already.

    A condition that is False and was never there stays away.
    """
    listed: list[dict[str, Any]] = status.get("conditions") or []
    for at, old in enumerate(listed):
        if old.get("type") == made["type"]:
            if all(old.get(f) == made.get(f) for f in ("status", "reason", "message")):
                return False
            status["conditions"] = [*listed[:at], made, *listed[at + 1 :]]
            return True
    if made["status"] == "False":
        return False
    status["conditions"] = [*listed, made]
    return True


def pronounce(status: dict[str, Any], verdict: Verdict, counts: Counts, now: str) -> bool:
    """Write the verdict's conditions into this new status; whether the Job is finished with it.

    The terminal condition waits until no pod is terminating.
    """
    interim = "SuccessCriteriaMet" if verdict.succeeded else "FailureTarget"
    if condition_true(status, interim) is None:
        with_condition(status, job_condition(interim, "True", verdict.reason, verdict.message, now))
    if counts.terminating:
        return False
    terminal = "Complete" if verdict.succeeded else "Failed"
    with_condition(status, job_condition(terminal, "True", verdict.reason, verdict.message, now))
    if verdict.succeeded:
        status["completionTime"] = now
    return True
