"""Higher priority first; only lower priority gives way; and system pods never do.

Source: volcano-sh/volcano pkg/scheduler/plugins/priority/priority.go, conformance/conformance.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.volcano.session import Plugin
from fairway.volcano.state import Job, Task

_CRITICAL = ("system-cluster-critical", "system-node-critical")
_SYSTEM_NAMESPACE = "kube-system"


class Priority(Plugin):
    name = "priority"

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {
            "enableTaskOrder": lambda left, right: right.facts.priority - left.facts.priority,
            "enableJobOrder": lambda left, right: right.priority - left.priority,
            "enablePreemptable": _lower,
            "enableJobStarving": _wants_more,
        }


def _lower(preemptor: Task, candidates: list[Task]) -> list[Task]:
    """Tasks of jobs of lower priority; within its own job, tasks of lower priority."""
    mine = preemptor.owner
    return [
        task
        for task in candidates
        if (
            task.facts.priority < preemptor.facts.priority
            if task.owner is mine
            else task.owner.priority < mine.priority
        )
    ]


def _wants_more(job: Job) -> bool:
    return job.ready + job.waiting < len(job.tasks)


class Conformance(Plugin):
    name = "conformance"

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {"enablePreemptable": _not_critical, "enableReclaimable": _not_critical}


def _not_critical(_for: Task, candidates: list[Task]) -> list[Task]:
    return [
        task
        for task in candidates
        if task.facts.class_name not in _CRITICAL and task.facts.namespace != _SYSTEM_NAMESPACE
    ]
