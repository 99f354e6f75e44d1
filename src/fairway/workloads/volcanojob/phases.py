"""A job's phases: what an action does in each, and which phase follows from the counts of its pods.

Source: volcano-sh/volcano pkg/controllers/job/state/*.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairway.workloads.volcanojob.policies import (
    ABORT_JOB,
    COMPLETE_JOB,
    RESTART_JOB,
    RESTART_POD,
    RESTART_TASK,
    TERMINATE_JOB,
)
from fairway.workloads.volcanojob.spec import VolcanoJob

PENDING, RUNNING, RESTARTING, FAILED = "Pending", "Running", "Restarting", "Failed"
ABORTING, ABORTED, COMPLETING, COMPLETED = "Aborting", "Aborted", "Completing", "Completed"
TERMINATING, TERMINATED = "Terminating", "Terminated"
FINISHED = (COMPLETED, FAILED, TERMINATED)
ENDED_PODS = ("Succeeded", "Failed")

SYNC, KILL_JOB, KILL_TARGET = "sync", "kill job", "kill target"
Counts = dict[str, Any]
"""The job's status as it will be written; phases are `status["state"]["phase"]`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do to the pods (`keeps`: phases that are spared), and the next phase from the counts.

    `next_phase` returns the phase, or "" for no change; it may count a retry in the status.
    """

    kind: str
    next_phase: Callable[[Counts], str]
    keeps: tuple[str, ...] = ENDED_PODS


def plan(job: VolcanoJob, phase: str, action: str) -> Plan:
    """What this action means in this phase."""
    if phase in (PENDING, RUNNING, ""):
        return _while_alive(job, phase, action)
    if phase == RESTARTING:
        if action in (RESTART_TASK, RESTART_POD):
            return Plan(KILL_TARGET, lambda status: _after_restart(job, status))
        return Plan(SYNC, lambda status: _after_restart(job, status))
    if phase == COMPLETING:
        return Plan(KILL_JOB, lambda status: "" if _is_alive(status) else COMPLETED)
    if phase == TERMINATING:
        return Plan(KILL_JOB, lambda status: "" if _is_alive(status) else TERMINATED)
    if phase == ABORTING:
        return Plan(KILL_JOB, lambda status: "" if _is_alive(status) else ABORTED)
    return Plan(KILL_JOB, lambda status: "")


_LEADS_TO = {ABORT_JOB: ABORTING, COMPLETE_JOB: COMPLETING, TERMINATE_JOB: TERMINATING}


def _while_alive(job: VolcanoJob, phase: str, action: str) -> Plan:
    if action == RESTART_JOB:
        return Plan(KILL_JOB, _restarted, keeps=())
    if action in (RESTART_TASK, RESTART_POD):
        return Plan(KILL_TARGET, _restarted)
    if action in _LEADS_TO:
        return Plan(KILL_JOB, lambda status: _LEADS_TO[action])
    if phase == RUNNING:
        return Plan(SYNC, lambda status: _while_running(job, status))
    return Plan(SYNC, lambda status: RUNNING if _started(status) >= job.min_available else "")


def _restarted(status: Counts) -> str:
    status["retryCount"] = int(status.get("retryCount") or 0) + 1
    return RESTARTING


def _count(status: Counts, name: str) -> int:
    return int(status.get(name) or 0)


def _started(status: Counts) -> int:
    return _count(status, "running") + _count(status, "succeeded") + _count(status, "failed")


def _is_alive(status: Counts) -> bool:
    return any(_count(status, name) for name in ("terminating", "pending", "running"))


def _after_restart(job: VolcanoJob, status: Counts) -> str:
    if _count(status, "retryCount") >= job.max_retry:
        return FAILED
    enough = job.replicas - _count(status, "terminating") >= job.min_available
    return PENDING if enough else ""


def _while_running(job: VolcanoJob, status: Counts) -> str:
    if not job.replicas:
        return ""
    succeeded = _count(status, "succeeded")
    if job.min_success is not None and succeeded >= job.min_success:
        return COMPLETED
    if succeeded + _count(status, "failed") == job.replicas:
        return _at_the_end(job, status, succeeded)
    return PENDING if _count(status, "pending") > job.replicas - job.min_available else ""


def _at_the_end(job: VolcanoJob, status: Counts, succeeded: int) -> str:
    if job.min_available >= job.min_of_tasks:
        by_task = status.get("taskStatusCount") or {}
        for task in job.tasks:
            phases = (by_task.get(task.name) or {}).get("phase")
            if phases is not None and phases.get("Succeeded", 0) < task.min_available:
                return FAILED
    if job.min_success is not None:
        return FAILED
    return COMPLETED if succeeded >= job.min_available else FAILED
