"""One session from beginning to end: open, run the actions in order, and say what came of every job and queue.

    1. open: the world, the plugins of all tiers
    2. the configured actions
    3. close: gang conditions, phases and counts of PodGroups, conditions of pods, what queues hold

Source: volcano-sh/volcano pkg/scheduler/scheduler.go runOnce; framework/session.go closeSession, jobStatus;
framework/job_updater.go; plugins/gang OnSessionClose; cache/cache.go RecordJobStatusEvent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairway.volcano.actions.allocate import allocate
from fairway.volcano.actions.backfill import backfill
from fairway.volcano.actions.enqueue import enqueue
from fairway.volcano.actions.preempt import preempt
from fairway.volcano.actions.reclaim import reclaim
from fairway.volcano.configuration import VolcanoConfiguration
from fairway.volcano.facts import ROOT_QUEUE, ClusterFacts, Feasibility, Phase, TaskStatus
from fairway.volcano.plugins.opening import open_session
from fairway.volcano.session import Draw, Session
from fairway.volcano.state import ALLOCATED_STATUSES, SCHEDULED_STATUSES, Job, World
from fairway.volcano.statement import Binding, Eviction
from fairway.volcano.words import READY, fit_error, task_reason

ACTION_OF = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
}
UNSCHEDULABLE_TYPE, SCHEDULED_TYPE = "Unschedulable", "Scheduled"
NOT_ENOUGH_RESOURCES = "NotEnoughResources"
_READY_REASON = "tasks in gang are ready to be scheduled"
_WAITING = (TaskStatus.ALLOCATED, TaskStatus.PENDING, TaskStatus.PIPELINED)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A PodGroup's status that changed, and the event that goes with it."""

    group: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GroupEvent:
    group: str
    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodWaits:
    """The PodScheduled condition of a pod that was not bound. `nominate`: "" leaves what is there."""

    namespace: str
    pod: str
    uid: str
    reason: str
    message: str
    nominate: str


@dataclass(frozen=True, slots=True)
class QueueHolds:
    """`status.allocated` of a queue that changed."""

    queue: str
    allocated: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SessionResult:
    """Everything a session decided, in the order in which it is carried out."""

    evictions: tuple[Eviction, ...]
    bindings: tuple[Binding, ...]
    groups: tuple[GroupStatus, ...]
    events: tuple[GroupEvent, ...]
    pods: tuple[PodWaits, ...]
    queues: tuple[QueueHolds, ...]
    search_from: int


def run_session(
    facts: ClusterFacts,
    configuration: VolcanoConfiguration,
    feasibility: Feasibility,
    *,
    draw: Draw,
    now: str,
    uid: str,
    search_from: int = 0,
) -> SessionResult:
    """Decide. `now` is the time as conditions write it, `uid` the session's, `search_from` the last result's."""
    world = World(facts, feasibility)
    session = Session(world, configuration, draw, search_from)
    open_session(session)
    for name in configuration.actions:
        ACTION_OF[name](session)
    closing = _Closing(session, now, uid)
    for job in world.jobs.values():
        closing.close(job)
    return SessionResult(
        tuple(session.outcome.evictions),
        tuple(session.outcome.bindings),
        tuple(closing.groups),
        tuple(closing.events),
        tuple(closing.pods),
        _queues(world),
        session.search_from,
    )


class _Closing:
    def __init__(self, session: Session, now: str, uid: str) -> None:
        self._session = session
        self._world = session.world
        self._has_gang = session.configuration.option("gang") is not None
        self._now, self._uid = now, uid
        self.groups: list[GroupStatus] = []
        self.events = [GroupEvent(g, "Normal", UNSCHEDULABLE_TYPE, message) for g, message in session.notes]
        self.pods: list[PodWaits] = []

    def close(self, job: Job) -> None:
        old = job.group.status
        conditions = list(old.get("conditions") or ())
        condition = self._gang_condition(job) if self._has_gang and job.tasks else None
        if condition is not None:
            conditions = _with_condition(conditions, condition)
        is_unschedulable = condition is not None and condition["type"] == UNSCHEDULABLE_TYPE
        phase = _phase(job, is_unschedulable)
        status: dict[str, Any] = {**old, "phase": str(phase)}
        for name, of in (("running", "RUNNING"), ("failed", "FAILED"), ("succeeded", "SUCCEEDED")):
            status.pop(name, None)
            count = len(job.by_status.get(TaskStatus[of], ()))
            if count:
                status[name] = count
        if conditions:
            status["conditions"] = conditions
        is_new = _differs(status, old)
        if is_new:
            self.groups.append(GroupStatus(job.id, status))
        self._tell(job, phase, is_new=is_new)

    def _gang_condition(self, job: Job) -> dict[str, Any] | None:
        if job.is_ready:
            return self._condition(SCHEDULED_TYPE, _READY_REASON, "")
        if _only_waits_for_leavers(job):
            return None
        pending = job.of(TaskStatus.PENDING)
        placed = sum((t.last or (t.status,))[0] in ALLOCATED_STATUSES for t in pending) + job.ready
        missing = job.min_available - placed
        message = f"{missing}/{len(job.tasks)} tasks in gang unschedulable: {fit_error(job, self._world)}"
        return self._condition(UNSCHEDULABLE_TYPE, NOT_ENOUGH_RESOURCES, message)

    def _condition(self, type_: str, reason: str, message: str) -> dict[str, Any]:
        found = {
            "type": type_,
            "status": "True",
            "transitionID": self._uid,
            "lastTransitionTime": self._now,
            "reason": reason,
        }
        return {**found, "message": message} if message else found

    def _tell(self, job: Job, phase: Phase, *, is_new: bool) -> None:
        """Events and pod conditions of everything that waits."""
        why = fit_error(job, self._world)
        if phase in (Phase.UNKNOWN, Phase.PENDING, Phase.INQUEUE):
            pending = len(job.by_status.get(TaskStatus.PENDING, ()))
            message = f"{pending}/{len(job.tasks)} tasks in gang unschedulable: {why}"
            self.events.append(GroupEvent(job.id, "Warning", UNSCHEDULABLE_TYPE, message))
        elif is_new:
            self.events.append(GroupEvent(job.id, "Normal", SCHEDULED_TYPE, READY))
        for status in _WAITING:
            for task in job.of(status):
                if task.facts.is_gated:
                    continue
                reason, message, nominate = task_reason(task, self._world)
                pod = task.facts
                self.pods.append(PodWaits(pod.namespace, pod.name, pod.uid, reason, message or why, nominate))


def _only_waits_for_leavers(job: Job) -> bool:
    """Enough of it is on nodes still, some of them leaving: no condition is written meanwhile."""
    leaving = job.releasing_scheduled
    if not leaving or job.by_status.get(TaskStatus.PENDING) or job.by_status.get(TaskStatus.PIPELINED):
        return False
    return job.count(SCHEDULED_STATUSES) + leaving >= job.min_available


def _phase(job: Job, is_unschedulable: bool) -> Phase:
    """Source: getPodGroupPhase."""
    if job.by_status.get(TaskStatus.RUNNING) and is_unschedulable:
        return Phase.UNKNOWN
    scheduled = job.count(SCHEDULED_STATUSES) + job.releasing_scheduled
    if scheduled >= job.group.min_member:
        completed = job.count((TaskStatus.FAILED, TaskStatus.SUCCEEDED))
        return Phase.COMPLETED if scheduled == completed else Phase.RUNNING
    return Phase.INQUEUE if job.phase is Phase.INQUEUE else Phase.PENDING


def _with_condition(conditions: list[Any], new: Mapping[str, Any]) -> list[Any]:
    """In the place of the one of its type, else at the end."""
    found = [new if c.get("type") == new["type"] else c for c in conditions]
    return found if any(c is new for c in found) else [*found, new]


def _differs(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether it is worth a write: times and session ids of conditions alone are not."""
    return _essence(new) != _essence(old)


def _essence(status: Mapping[str, Any]) -> tuple[Any, ...]:
    ignored = ("lastTransitionTime", "transitionID")
    conditions = [{k: v for k, v in c.items() if k not in ignored} for c in status.get("conditions") or ()]
    return ({k: v for k, v in status.items() if k != "conditions"}, conditions)


def _queues(world: World) -> tuple[QueueHolds, ...]:
    """What queues hold now; the root holds everything."""
    held = {name: world.columns.zeros() for name in world.queues}
    for job in world.jobs.values():
        held[job.queue.name] += job.allocated
        if ROOT_QUEUE in held and job.queue.name != ROOT_QUEUE:
            held[ROOT_QUEUE] += job.allocated
    found = []
    for name, queue in world.queues.items():
        allocated = world.columns.text(held[name])
        if dict(queue.status.get("allocated") or {}) != allocated:
            found.append(QueueHolds(name, allocated))
    return tuple(found)
