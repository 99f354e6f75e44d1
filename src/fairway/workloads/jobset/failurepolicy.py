"""A Job of a JobSet failed: does all of it fail, or start over?

Without a policy it fails. With one the first rule that matches a failed Job decides, and where none does, the
JobSet restarts while `maxRestarts` allows it.

Unlike kube: RestartJob and RestartJobAndIgnoreMaxRestarts are refused on entry, as the released default (feature
gate RestartJob off) does.

Source: jobset pkg/controllers/failure_policy.go.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.goregexp import is_match
from fairway.kube.objects import Obj, labels_of
from fairway.workloads.controller import WARNING
from fairway.workloads.jobset.childjobs import REPLICATED_JOB
from fairway.workloads.jobset.conditions import RESTARTING, Progress

FAIL = "FailJobSet"
RESTART = "RestartJobSet"


def apply(one: Progress, failed: list[Obj]) -> None:
    """Write into the status what follows from these failed Jobs."""
    policy = one.spec.get("failurePolicy")
    if policy is None:
        one.fail("FailedJobs", _with_job("jobset failed due to one or more job failures", _first(failed)))
        return
    rule, job = _first_match(policy.get("rules") or [], failed)
    action = RESTART if rule is None else rule["action"]
    if action == FAIL:
        message = _with_job("applying FailJobSet failure policy action", job)
        one.fail("FailJobSetFailurePolicyAction", message)
    elif action == RESTART and _allowance(one, policy) <= 0:
        message = _with_job("jobset failed due to reaching max number of restarts", job)
        one.fail("ReachedMaxRestarts", message)
    else:
        _restart(one, action, rule, job)


def _allowance(one: Progress, policy: dict[str, Any]) -> int:
    return int(policy.get("maxRestarts") or 0) - int(one.status.get("restartsCountTowardsMax") or 0)


def _restart(one: Progress, action: str, rule: dict[str, Any] | None, job: Obj) -> None:
    """Count a new attempt: Jobs of the old one are deleted, and made anew, from the next look on."""
    message = _with_job(f"applying {action} failure policy action", job)
    reason = "DefaultFailurePolicy" if rule is None else f"FailurePolicy_{rule['name']}"
    one.status["restarts"] = int(one.status.get("restarts") or 0) + 1
    if action == RESTART:
        one.status["restartsCountTowardsMax"] = int(one.status.get("restartsCountTowardsMax") or 0) + 1
    one.set(RESTARTING, "True", reason, message, WARNING)
    one.tell(f"{action}FailurePolicyAction", message, WARNING)


def _first_match(rules: list[dict[str, Any]], failed: list[Obj]) -> tuple[dict[str, Any] | None, Obj]:
    """The first rule that concerns any of these Jobs, and the one of them that failed first."""
    for rule in rules:
        matching = [job for job in failed if _concerns(rule, job)]
        if matching:
            return rule, _first(matching)
    return None, _first(failed)


def _concerns(rule: dict[str, Any], job: Obj) -> bool:
    failure = _failure(job)
    reasons = rule.get("onJobFailureReasons")
    if reasons and failure.get("reason", "") not in reasons:
        return False
    patterns = rule.get("onJobFailureMessagePatterns")
    if patterns and not any(is_match(p, failure.get("message", "")) for p in patterns):
        return False
    targets = rule.get("targetReplicatedJobs")
    return not targets or labels_of(job).get(REPLICATED_JOB) in targets


def _first(failed: list[Obj]) -> Obj:
    """The one that failed first; of several at one time, the first of them."""
    return min(failed, key=lambda job: _failure(job).get("lastTransitionTime", ""))


def _failure(job: Obj) -> dict[str, Any]:
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Failed" and condition["status"] == "True":
            return dict(condition)
    return {}


def _with_job(message: str, job: Obj) -> str:
    return f"{message} (first failed job: {job['metadata']['name']})"
