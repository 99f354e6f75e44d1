"""Dominant resource fairness between jobs: the job with the smallest dominant share first.

Source: volcano-sh/volcano pkg/scheduler/plugins/drf/drf.go, without the hierarchy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.volcano.session import Plugin
from fairway.volcano.state import Job, Listener, Task, World
from fairway.volcano.vectors import share

# shareDelta: shares this close are equal.
_CLOSE = 0.000001


class Drf(Plugin, Listener):
    name = "drf"

    def __init__(self, world: World) -> None:
        self._total = world.total
        self._shares = {job.id: share(job.allocated, self._total) for job in world.jobs.values()}
        world.listeners.append(self)

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {"enableJobOrder": self._order, "enablePreemptable": self._richer}

    def dominant_share(self, job: Job) -> float:
        return self._shares[job.id]

    def came(self, task: Task) -> None:
        self._shares[task.owner.id] = share(task.owner.allocated_or_promised, self._total)

    def left(self, task: Task) -> None:
        self.came(task)

    def _order(self, left: Job, right: Job) -> int:
        a, b = self._shares[left.id], self._shares[right.id]
        return (a > b) - (a < b)

    def _richer(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
        """Tasks whose jobs stay at least as rich without them as the preemptor's job would become."""
        mine = share(preemptor.owner.allocated_or_promised + preemptor.asked, self._total)
        left = {}
        victims = []
        for task in candidates:
            job = task.owner
            if job.id not in left:
                left[job.id] = job.allocated_or_promised.copy()
            left[job.id] -= task.asked
            theirs = share(left[job.id], self._total)
            if mine < theirs or abs(mine - theirs) <= _CLOSE:
                victims.append(task)
        return victims
