"""How many jobs may wait as pods: their `minResources` together, up to 1.2 times what the cluster has free.

Source: volcano-sh/volcano pkg/scheduler/plugins/overcommit/overcommit.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.volcano.configuration import OVERCOMMIT_PERMILLE, PluginOption
from fairway.volcano.facts import Phase
from fairway.volcano.plugins.proportion import (
    insufficient,
    is_reserving,
    still_wanted,
    without_gated,
)
from fairway.volcano.session import PERMIT, REJECT, Plugin, Session
from fairway.volcano.state import Job


class Overcommit(Plugin):
    name = "overcommit"

    def __init__(self, session: Session, option: PluginOption) -> None:
        self._session = session
        world = session.world
        factor = option.arguments.get("overcommit-factor")
        permille = OVERCOMMIT_PERMILLE if factor is None else round(float(factor) * 1000)
        # Python integers on the way: bytes of memory times a thousand may leave 64 bits.
        self._idle = (world.total.astype(object) * permille // 1000).astype("int64") - world.used.sum(axis=0)
        self._inqueue = world.columns.zeros()
        for job in world.jobs.values():
            if job.phase is Phase.INQUEUE and job.has_min_resources:
                self._inqueue += without_gated(job, job.min_resources)
            elif is_reserving(job):
                self._inqueue += without_gated(job, still_wanted(job))

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {"enableJobEnqueued": self._may_enqueue, "enableJobEnqueued:done": self._enqueued}

    def _may_enqueue(self, job: Job) -> int:
        if not job.has_min_resources:
            return PERMIT
        wanted = self._inqueue + job.min_resources
        short = self._session.world.columns.short(wanted, self._idle, job.min_resources)
        if not short:
            return PERMIT
        self._session.notes.append(
            (job.id, insufficient("resource in cluster is overused", "overused", short))
        )
        return REJECT

    def _enqueued(self, job: Job) -> None:
        if job.has_min_resources:
            self._inqueue += without_gated(job, job.min_resources)
