"""All or nothing: when is a job valid, ready, pipelined, starving, and whom may it not lose?

Source: volcano-sh/volcano pkg/scheduler/plugins/gang/gang.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.volcano.facts import TaskStatus
from fairway.volcano.session import PERMIT, REJECT, Plugin
from fairway.volcano.state import READY_STATUSES, VALID_STATUSES, Job, Task

NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
NOT_ENOUGH_PODS = "NotEnoughTasks"


class Gang(Plugin):
    name = "gang"

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {
            "jobValid:": why_invalid,
            "enableJobOrder": _unready_first,
            "enableJobReady": is_ready,
            "enableJobPipelined": _is_pipelined,
            "enableJobStarving": lambda job: job.is_starving,
            "enablePreemptable": _spare,
            "enableReclaimable": _spare,
        }


def why_invalid(job: Job) -> tuple[str, str] | None:
    if not job.roles_have(VALID_STATUSES):
        return NOT_ENOUGH_PODS_OF_TASK, "Not enough valid pods of each task for gang-scheduling"
    valid = job.count(VALID_STATUSES)
    if valid < job.min_available:
        message = f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {job.min_available}"
        return NOT_ENOUGH_PODS, message
    return None


def is_ready(job: Job) -> bool:
    return job.is_ready and job.roles_have(READY_STATUSES, with_best_effort=True)


def _is_pipelined(job: Job) -> int:
    placed = (*READY_STATUSES, TaskStatus.PIPELINED)
    return PERMIT if job.is_pipelined and job.roles_have(placed, with_best_effort=True) else REJECT


def _unready_first(left: Job, right: Job) -> int:
    return int(left.is_ready) - int(right.is_ready)


def _spare(_for: Task, candidates: list[Task]) -> list[Task]:
    """Only what a job has beyond its `minMember`."""
    left: dict[str, int] = {}
    victims = []
    for task in candidates:
        job = task.owner
        left.setdefault(job.id, job.ready)
        if left[job.id] > job.min_available:
            left[job.id] -= 1
            victims.append(task)
    return victims
