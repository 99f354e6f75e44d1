"""Is the Job over, and why?

Source: pkg/controller/job/job_controller.go syncJob (v1.36): the order of these questions is upstream's.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.workloads.job import indexes
from fairway.workloads.job.census import Census, Facts, is_failed
from fairway.workloads.job.failurepolicy import ruling
from fairway.workloads.job.indexes import Intervals
from fairway.workloads.job.successpolicy import met_message
from fairway.workloads.pods import PENDING, RUNNING


class Verdict(NamedTuple):
    """The Job will end as `Complete` (`succeeded`) or `Failed`, with this reason and message."""

    succeeded: bool
    reason: str
    message: str


COMPLETIONS_REACHED: Final = Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")

_BACKOFF_LIMIT: Final = Verdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE: Final = Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
_MAX_FAILED_INDEXES: Final = Verdict(
    False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
_FAILED_INDEXES: Final = Verdict(False, "FailedIndexes", "Job has failed indexes")


def condition_true(status: dict[str, Any], type_: str) -> dict[str, Any] | None:
    for found in status.get("conditions") or ():
        if found.get("type") == type_ and found.get("status") == "True":
            return found  # type: ignore[no-any-return]
    return None


def is_finished(status: dict[str, Any]) -> bool:
    return any(
        c.get("type") in ("Complete", "Failed") and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )


def already_pronounced(status: dict[str, Any]) -> Verdict | None:
    """The verdict of an earlier look, carried out since: it is never reconsidered."""
    for type_ in ("SuccessCriteriaMet", "FailureTarget"):
        found = condition_true(status, type_)
        if found is not None:
            return Verdict(
                type_ == "SuccessCriteriaMet", found.get("reason") or "", found.get("message") or ""
            )
    return None


def failure(
    job: Obj, facts: Facts, census: Census, *, failed: int, start_us: int | None, now_us: int
) -> Verdict | None:
    """Whether the pods' failures or the deadline end the Job. `failed` includes what is not counted yet."""
    if facts.failure_policy is not None:
        for pod in census.pods:
            if is_failed(pod, facts):
                found = ruling(facts.failure_policy, pod, per_index=facts.backoff_per_index is not None)
                if found.message:
                    return Verdict(False, "PodFailurePolicy", found.message)
    if failed > facts.backoff_limit or _is_past_backoff_on_restart(job, facts, census):
        return _BACKOFF_LIMIT
    deadline = deadline_us(facts, start_us)
    if deadline is not None and now_us >= deadline:
        return _DEADLINE
    return None


def deadline_us(facts: Facts, start_us: int | None) -> int | None:
    """When activeDeadlineSeconds runs out; a suspended Job's clock stands still."""
    if facts.deadline_s is None or start_us is None or facts.suspended:
        return None
    return start_us + facts.deadline_s * SECOND_US


def start_of(status: dict[str, Any]) -> int | None:
    text = status.get("startTime")
    return parse_rfc3339(text) if text else None


def _is_past_backoff_on_restart(job: Obj, facts: Facts, census: Census) -> bool:
    """restartPolicy OnFailure: restarts in place count towards the limit."""
    spec = (spec_of(job).get("template") or {}).get("spec") or {}
    if spec.get("restartPolicy") != "OnFailure":
        return False
    live = [p for p in census.pods if (status_of(p).get("phase") or PENDING) in (PENDING, RUNNING)]
    return sum(map(restarts, live)) >= max(facts.backoff_limit, 1)


def restarts(pod: Obj) -> int:
    """Of all its containers, those that prepare it too."""
    status, found = status_of(pod), 0
    for field in ("initContainerStatuses", "containerStatuses"):
        found += sum(c.get("restartCount", 0) for c in status.get(field) or ())
    return found


def of_indexes(
    job: Obj, facts: Facts, succeeded: Intervals, failed: Intervals, verdict: Verdict | None
) -> Verdict | None:
    """What the indexes add to a verdict not yet reached: too many failed, all ended, or enough succeeded."""
    if verdict is not None:
        return verdict
    spec = spec_of(job)
    completions = facts.completions or 0
    if facts.backoff_per_index is not None:
        failures = indexes.total(failed)
        limit = spec.get("maxFailedIndexes")
        if limit is not None and failures > limit:
            return _MAX_FAILED_INDEXES
        if failures > 0 and failures + indexes.total(succeeded) >= completions:
            return _FAILED_INDEXES
    message = met_message(spec.get("successPolicy"), completions, succeeded)
    return None if message is None else Verdict(True, "SuccessPolicy", message)
