"""Why a gang or a task is not scheduled, in Volcano's words.

Source: volcano-sh/volcano pkg/scheduler/api/job_info.go (FitError, TaskSchedulingReason), unschedule_info.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fairway.volcano.facts import TaskStatus
from fairway.volcano.state import NOWHERE, FitErrors, Job, Task, World

READY = "pod group is ready"
NOT_READY = "pod group is not ready"
UNSCHEDULABLE, SCHEDULABLE = "Unschedulable", "Schedulable"


def fit_error(job: Job, world: World) -> str:
    """`pod group is not ready, 2 Pending, 4 minAvailable; Pending: 2 Unschedulable. Origin reason is …`"""
    counts = {str(status): len(tasks) for status, tasks in job.by_status.items()}
    counts["minAvailable"] = job.min_available
    message = f"{READY if job.is_ready else NOT_READY}, {_histogram(counts)}"
    pending = Counter(task_reason(task, world)[0] for task in job.of(TaskStatus.PENDING))
    if pending:
        message += f"; {TaskStatus.PENDING}: {_histogram(pending)}"
    for task in sorted(job.tasks.values(), key=lambda t: t.id):
        errors = job.fit_errors.get(task.id)
        if errors is not None:
            return f"{message}. Origin reason is {task.facts.name}: {fit_errors_text(errors)}"
    return message


def task_reason(task: Task, world: World) -> tuple[str, str, str]:
    """Reason, message and node to nominate: from where it is, or where a statement taken back had put it."""
    status, node, evicted = task.last or (task.status, task.node, task.evicted_for)
    pod, where = task.facts, "" if node == NOWHERE else world.node_names[node]
    if status is TaskStatus.ALLOCATED:
        message = f"Pod {pod.id} can possibly be assigned to {where}, once minAvailable is satisfied"
        return SCHEDULABLE, message, ""
    if status is TaskStatus.PIPELINED:
        condition = "once resource is released and minAvailable is satisfied"
        message = f"Pod {pod.id} can possibly be assigned to {where}, {condition}"
        return UNSCHEDULABLE, message, where if evicted else ""
    if status is TaskStatus.PENDING:
        errors = task.owner.fit_errors.get(task.id)
        return UNSCHEDULABLE, "" if errors is None else fit_errors_text(errors), ""
    return str(status), "", ""


def fit_errors_text(errors: FitErrors) -> str:
    """`0/4 nodes are unavailable: 1 Insufficient cpu, 3 node(s) …`, ending in a full stop."""
    if errors.said:
        return errors.said
    said = f"0/{errors.nodes} nodes are unavailable"
    return f"{said}: {_histogram(dict(errors.reasons))}." if errors.nodes else said


def _histogram(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {name}" for name, count in counts.items()))
