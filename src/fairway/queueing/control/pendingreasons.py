"""Where does every Workload that waits stand: in which place, and what keeps it, truly, now?

What a Workload's condition says was true when a cycle last looked at it. Here each is put to the engine again, as if
it were alone at the head of its queue at this moment; alike ones are asked about once. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.kube.objects import Obj, meta_of, status_of
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.control.blockers import QueueFacts, queue_blocker
from fairway.queueing.control.differences import ready_us
from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import Head, Outcome, Status
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.cycle.pending import QueueUsage
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.workloads import Workload, key_of
from fairway.queueing.facts.workloadstate import (
    ADMISSION_GATED_BY,
    is_active,
    is_admissible,
    is_finished,
    is_on_hold,
)

# What would come of it, were it the head now.
FITS: Final = "Fits"
PREEMPTS: Final = "Preempts"
WAITS: Final = "Waits"
BACKOFF: Final = "Backoff"
BLOCKED: Final = "Blocked"


@dataclass(frozen=True, slots=True)
class Standing:
    """`position`: its place in its ClusterQueue, from 1; 0: in no queue (it is blocked).

    `is_parked`: it waits for an event before Kueue tries it again. `told_…`: what its condition QuotaReserved says.
    """

    workload: Workload
    cluster_queue: str
    position: int
    verdict: str
    reason: str
    message: str
    is_parked: bool = False
    ready_us: int = -1
    victims: tuple[str, ...] = ()
    told_reason: str = ""
    told_message: str = ""


def standings(
    backlog: Backlog, options: CycleOptions, objects: Mapping[str, Obj], usage: QueueUsage | None = None
) -> list[Standing]:
    """Every Workload without quota that is not over: by ClusterQueue in order, then those in no queue by name.

    `objects`: Workloads by `namespace/name`. One cycle of one head for each kind of Workload in a queue.
    """
    backlog.accounts.settle()
    found: list[Standing] = []
    queued: set[str] = set()
    for name in sorted(backlog.pending.queues):
        queue = backlog.pending.queues[name]
        known: dict[object, Outcome] = {}
        for position, workload in enumerate(queue.in_order(usage if queue.by_usage else None), 1):
            queued.add(workload.key)
            pending = queue.get(workload.key)
            is_parked = pending is not None and not pending.is_active
            found.append(_in_queue(backlog, options, known, workload, name, position, is_parked))
    for key in sorted(objects):
        obj = objects[key]
        if (
            key not in queued
            and not is_finished(obj)
            and not conds.is_true(status_of(obj), conds.QUOTA_RESERVED)
        ):
            found.append(_outside(backlog, obj))
    return found


def standing_of(
    backlog: Backlog, options: CycleOptions, obj: Obj, usage: QueueUsage | None = None
) -> Standing:
    """The same of one Workload alone."""
    backlog.accounts.settle()
    workload = backlog.read(obj)
    name = backlog.cluster_queue_of(workload.queue) or ""
    queue = backlog.pending.queues.get(name)
    pending = None if queue is None else queue.get(workload.key)
    if queue is None or pending is None:
        return _outside(backlog, obj)
    order = queue.in_order(usage if queue.by_usage else None)
    position = next((i for i, w in enumerate(order, 1) if w.key == workload.key), 0)
    return _in_queue(backlog, options, {}, workload, name, position, not pending.is_active)


def _in_queue(
    backlog: Backlog,
    options: CycleOptions,
    known: dict[object, Outcome],
    workload: Workload,
    queue: str,
    position: int,
    is_parked: bool,
) -> Standing:
    told = conds.find(status_of(workload.obj), conds.QUOTA_RESERVED) or {}
    told_reason, told_message = told.get("reason") or "", told.get("message") or ""
    at_us = ready_us(workload.obj)
    if not backlog.is_queue_active(queue):
        message = f"ClusterQueue {queue} is inactive"
        return Standing(
            workload,
            queue,
            position,
            BLOCKED,
            conds.SUSPENDED,
            message,
            is_parked,
            -1,
            (),
            told_reason,
            told_message,
        )
    outcome = _asked(backlog, options, known, workload, queue)
    verdict, reason, message = _words(outcome)
    if at_us > options.now_us:
        verdict = BACKOFF
    victims = tuple(e.workload.key for e in outcome.evictions)
    return Standing(
        workload,
        queue,
        position,
        verdict,
        reason,
        message,
        is_parked,
        at_us,
        victims,
        told_reason,
        told_message,
    )


def _asked(
    backlog: Backlog, options: CycleOptions, known: dict[object, Outcome], workload: Workload, queue: str
) -> Outcome:
    """What a cycle with it alone decides."""
    kind = (workload.hash, workload.namespace) if workload.hash else workload.key
    found = known.get(kind)
    if found is None:
        head = Head(workload, queue)
        (found,) = run_cycle(backlog.accounts, [head], backlog.namespaces, options).entries
        known[kind] = found
    return found


def _words(outcome: Outcome) -> tuple[str, str, str]:
    if outcome.is_admitted:
        return FITS, "", "it fits: it is admitted when its turn comes"
    if outcome.status == Status.EVICTED or outcome.evictions:
        return PREEMPTS, outcome.reason, outcome.message
    return WAITS, outcome.reason, outcome.message


def _outside(backlog: Backlog, obj: Obj) -> Standing:
    """In no queue: what it would take to be in one."""
    workload = backlog.read(obj)
    told = conds.find(status_of(obj), conds.QUOTA_RESERVED) or {}
    told_reason, told_message = told.get("reason") or "", told.get("message") or ""
    local_queue = backlog.local_queues.get(workload.queue)
    name = "" if local_queue is None else local_queue.cluster_queue
    reason, message = _blocked(backlog, obj, name)
    return Standing(
        workload, name, 0, BLOCKED, reason, message, told_reason=told_reason, told_message=told_message
    )


def _blocked(backlog: Backlog, obj: Obj, name: str) -> tuple[str, str]:
    if not is_active(obj):
        return "Deactivated", "The workload is deactivated"
    account = backlog.accounts.queues.get(name)
    facts = QueueFacts(
        backlog.local_queues.get(backlog.read(obj).queue),
        None if account is None else account.spec,
        backlog.is_queue_active(name),
        name,
        None,
    )
    blocked = queue_blocker(obj, facts)
    if blocked is not None:
        return blocked.reason, blocked.message
    if is_on_hold(obj):
        return conds.ON_HOLD, "The workload is on hold"
    if not is_admissible(obj, backlog.settings.gates):
        gate = meta_of(obj).get("annotations", {}).get(ADMISSION_GATED_BY)
        if gate:
            return conds.ADMISSION_GATED, f"Admission is gated by: {gate}"
        return conds.WAITING_FOR_REPLACEMENT_PODS, "it waits for replacement pods"
    return conds.PENDING_EVALUATION, f"{key_of(obj)} is on its way into its queue"
