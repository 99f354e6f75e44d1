"""One row of Kueue's scheduling tables: set up queues and workloads, run one cycle, carry it out, compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fairway.conformance.kueue_diff import (
    Mismatch,
    compare,
    compare_events,
    compare_objects,
    normal_admission,
)
from fairway.conformance.kueue_usage import LocalQueueUsage, counts_usage, usage_of
from fairway.kube.objects import Obj
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import PODS, add_into
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.cycle.admissibility import Namespaces
from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import CycleOutcome, Head, Outcome, RequeueReason
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.cycle.pending import PendingWorkloads
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.conditions import SLICE_REPLACED
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.transformations import transformations
from fairway.queueing.facts.workloads import WorkloadReader
from fairway.queueing.facts.workloadstate import is_active, is_admissible, is_finished
from fairway.queueing.flavors.variants import is_parent
from fairway.queueing.outcomes.events import (
    Event,
    admission_events,
    evicted_event,
    eviction_events,
    pending_event,
)
from fairway.queueing.outcomes.statuses import (
    admitted,
    evicted,
    pending,
    preempted,
    replaced_message,
    slice_replaced,
)
from fairway.queueing.quota.accounts import Accounts

Row = Mapping[str, Any]

_FAR_FUTURE_US = 4_102_444_800 * 1_000_000
_NAMESPACE_LABELS: dict[str, dict[str, str]] = {
    "default": {},
    "eng-alpha": {"dep": "eng"},
    "eng-beta": {"dep": "eng"},
    "eng-gamma": {"dep": "eng"},
    "sales": {"dep": "sales"},
    "lend": {"dep": "lend"},
}


class _Refused(Enum):
    """What the API server of the row answers to a write of a Workload's status."""

    NOTHING = "nothing"
    AS_GONE = "not found"
    OTHERWISE = "another error"


@dataclass(slots=True)
class _World:
    """What a row sets up, and what became of it. `objects`: the Workloads as they are now."""

    accounts: Accounts
    reader: WorkloadReader
    queues: PendingWorkloads
    local_queues: dict[str, str]
    namespaces: Namespaces
    now_us: int
    usage: LocalQueueUsage | None
    refused: _Refused = _Refused.NOTHING
    objects: dict[str, Obj] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


def run_cycle_row(row: Row) -> list[Mismatch]:
    """What differs; nothing where the row agrees."""
    world = _set_up(row)
    initially_admitted = {
        key for key, w in world.accounts.holders.items() if w.is_admitted and not w.unhealthy_nodes
    }
    world.accounts.settle()
    for number in range(1, 1 + (len(row.get("workloads") or ()) if counts_usage(row) else 1)):
        outcome = _run_cycle(world, row, number)
    return _compare(row, world, outcome, initially_admitted)


def _run_cycle(world: _World, row: Row, number: int) -> CycleOutcome:
    gates, usage = world.accounts.gates, world.usage
    turns = None if usage is None else usage.of
    is_fair = bool(row.get("fairSharing")) or (counts_usage(row) and gates.admission_fair_sharing)
    options = CycleOptions(number, world.now_us, uses_fair_sharing=is_fair, queue_usage=turns)
    heads = world.queues.heads(lambda name: world.accounts.queues[name].inactivity is None, turns)
    outcome = run_cycle(world.accounts, heads, world.namespaces, options)
    _carry_out(world, outcome)
    return outcome


def _set_up(row: Row) -> _World:
    gates, _ = gates_from(row.get("featureGates"))
    accounts = Accounts(gates)
    for obj in row.get("resourceFlavors") or ():
        accounts.set_flavor(facts.resource_flavor(obj))
    for obj in row.get("topologies") or ():
        accounts.set_topology(facts.topology(obj))
    for obj in row.get("cohorts") or ():
        accounts.set_cohort(facts.cohort(obj))
    for obj in row.get("clusterQueues") or ():
        accounts.set_cluster_queue(facts.cluster_queue(obj))
    for obj in row.get("admissionChecks") or ():
        accounts.set_check(facts.admission_check(obj))
    for obj in row.get("nodes") or ():
        accounts.set_node(facts.topology_node(obj))
    for obj in row.get("pods") or ():
        _count_foreign_pod(accounts, obj)
    ranges: dict[str, list[Obj]] = {}
    for obj in row.get("objects") or ():
        if "limits" in (obj.get("spec") or {}):
            ranges.setdefault(obj["metadata"].get("namespace") or "", []).append(obj)
    world = _World(
        accounts=accounts,
        reader=WorkloadReader(
            gates, transformations({"transformations": row.get("resourceTransformations")})
        ),
        queues=PendingWorkloads(gates),
        local_queues={q.key: q.cluster_queue for q in map(facts.local_queue, row.get("localQueues") or ())},
        namespaces=Namespaces(_NAMESPACE_LABELS, ranges),
        now_us=_latest_time_us(row),
        usage=usage_of(row, gates, _latest_time_us(row)),
        refused=_refused(row),
    )
    _add_workloads(world, row)
    return world


def _refused(row: Row) -> _Refused:
    """`admissionError`: whether there is one; `patchStatusErr`: the error, as Go's JSON has it."""
    error = row.get("patchStatusErr")
    if error is None or error is False:
        return _Refused.OTHERWISE if row.get("admissionError") else _Refused.NOTHING
    status = error.get("ErrStatus") or {} if isinstance(error, Mapping) else {"message": str(error)}
    is_gone = status.get("reason") == "NotFound" or str(status.get("message") or "").endswith("not found")
    return _Refused.AS_GONE if is_gone else _Refused.OTHERWISE


def _count_foreign_pod(accounts: Accounts, pod: Obj) -> None:
    """Pods outside topology-aware scheduling take room on their nodes until they end."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return
    usage = dict(accounts.foreign_usage(spec["nodeName"]))
    add_into(usage, pod_requests(spec) | {PODS: 1})
    accounts.set_foreign_usage(spec["nodeName"], usage)


def _add_workloads(world: _World, row: Row) -> None:
    for name, spec in sorted(world.accounts.queue_specs().items()):
        by_usage = world.usage is not None and spec.uses_usage_ordering
        world.queues.queue(name, spec.queueing_strategy, by_usage=by_usage)
    for obj in row.get("workloads") or ():
        workload = world.reader.read(obj)
        world.objects[workload.key] = obj
        if workload.has_quota and not is_finished(obj) and is_active(obj):
            world.accounts.hold(workload)
            # Only this suite queues what needs a second pass.
            if workload.needs_second_pass and row.get("suite") == "TestScheduleForTAS":
                world.queues.add_second_pass(Head(workload, workload.cluster_queue))
            continue
        queue = world.local_queues.get(workload.queue)
        if world.accounts.gates.concurrent_admission and is_parent(obj):
            continue
        if queue in world.queues.queues and is_admissible(obj, world.accounts.gates):
            world.queues.queues[queue].push(workload)


def _latest_time_us(row: Row) -> int:
    """The tables' clock stood at the time of the newest condition."""
    times = [
        parse_rfc3339(condition["lastTransitionTime"])
        for kind in ("workloads", "wantWorkloads")
        for obj in row.get(kind) or ()
        for condition in (obj.get("status") or {}).get("conditions") or ()
        if condition.get("lastTransitionTime")
    ]
    return max(times, default=_FAR_FUTURE_US)


def _carry_out(world: _World, outcome: CycleOutcome) -> None:
    for one in outcome.entries:
        if one.evictions and world.refused != _Refused.NOTHING:
            _evict_in_vain(world, one)
            continue
        _evict(world, one)
        if one.is_admitted and world.refused == _Refused.NOTHING:
            _admit(world, one)
        else:
            _requeue(world, one)


def _evict(world: _World, one: Outcome) -> None:
    for eviction in one.evictions:
        if eviction.is_under_way:
            continue
        key = eviction.workload.key
        if eviction.preemptor is None:
            world.objects[key] = evicted(world.objects[key], eviction.reason, eviction.message, world.now_us)
            world.events.append(evicted_event(key, eviction.reason, eviction.message))
        else:
            world.objects[key] = preempted(world.objects[key], eviction, world.now_us)
            world.events.extend(eviction_events(eviction, one.head.queue))


def _evict_in_vain(world: _World, one: Outcome) -> None:
    """Only workloads without a replacement for their node are evicted where writes are refused."""
    if world.refused == _Refused.OTHERWISE:
        world.events.append(Event(one.head.workload.key, "Warning", "SecondPassFailed", one.message))


def _admit(world: _World, outcome: Outcome) -> None:
    key = outcome.head.workload.key
    assert outcome.admission is not None
    before = world.objects[key]
    queue = world.accounts.queues[outcome.head.queue].spec
    after = admitted(before, outcome.admission, queue, world.now_us, world.accounts.gates)
    world.objects[key] = after
    now_held = world.reader.read(after)
    world.accounts.hold(now_held)
    if world.usage is not None and queue.uses_usage_ordering and not outcome.head.workload.has_quota:
        world.usage.ledger.penalize(now_held, world.now_us)
    world.queues.queues[outcome.head.queue].forget(key)
    world.events.extend(admission_events(outcome, before, after, world.now_us))
    old = outcome.replaced_slice
    if old is not None:
        world.objects[old.key] = slice_replaced(world.objects[old.key], outcome.head.workload, world.now_us)
        message = replaced_message(outcome.head.workload)
        world.events.append(Event(old.key, "Normal", SLICE_REPLACED, message))


def _requeue(world: _World, outcome: Outcome) -> None:
    workload = outcome.head.workload
    if workload.has_quota:
        if workload.needs_second_pass and outcome.updates_status:
            world.events.append(Event(workload.key, "Warning", "SecondPassFailed", outcome.message))
        return
    reason = outcome.requeue_reason
    if outcome.is_admitted:
        reason = RequeueReason.FAILED_AFTER_NOMINATION
    queue = world.local_queues.get(workload.queue)
    if queue in world.queues.queues:
        world.queues.queues[queue].requeue(
            outcome.head,
            workload,
            reason,
            scan=outcome.scan,
            no_fit_reason=outcome.reason,
            now_us=world.now_us,
        )
    if outcome.updates_status:
        gates = world.accounts.gates
        world.objects[workload.key] = pending(world.objects[workload.key], outcome, world.now_us, gates)
        world.events.append(pending_event(outcome, gates))


def _compare(row: Row, world: _World, outcome: CycleOutcome, initially_admitted: set[str]) -> list[Mismatch]:
    held = {
        key: normal_admission(workload.obj["status"]["admission"])
        for key, workload in sorted(world.accounts.holders.items())
        if world.accounts.queues[workload.cluster_queue].inactivity is None
    }
    found: list[Mismatch] = []
    if "wantAssignments" in row:
        wanted = {k: normal_admission(a) for k, a in (row["wantAssignments"] or {}).items()}
        found.extend(compare("wantAssignments", dict(sorted(wanted.items())), held))
    if "wantNewAssignments" in row:
        wanted = {k: normal_admission(a) for k, a in (row["wantNewAssignments"] or {}).items()}
        new = {k: a for k, a in held.items() if k not in initially_admitted}
        found.extend(compare("wantNewAssignments", dict(sorted(wanted.items())), new))
    active = {q.name: sorted(q.active()) for q in world.queues if q.active()}
    parked = {q.name: sorted(q.inadmissible()) for q in world.queues if q.inadmissible()}
    for field_name, got_left in (("wantLeft", active), ("wantInadmissibleLeft", parked)):
        if field_name in row:
            found.extend(compare(field_name, _sorted(row[field_name]), got_left))
    if row.get("wantWorkloads") is not None:
        found.extend(compare_objects(row["wantWorkloads"], world.objects.values()))
    if row.get("wantEvents") or str(row.get("suite")).startswith("TestScheduleForTAS"):
        found.extend(compare_events(row.get("wantEvents") or (), world.events))
    skipped = outcome.skipped_preemptions()
    for queue, count in sorted((row.get("wantSkippedPreemptions") or {}).items()):
        found.extend(compare(f"wantSkippedPreemptions {queue}", count, skipped.get(queue, 0)))
    for queue, counts in sorted((row.get("wantPreemptionTargetRecomputations") or {}).items()):
        got = Counter(o.recomputation.value for o in outcome.entries if o.head.queue == queue)
        found.extend(compare(f"recomputations {queue}", counts, {r: got[r] for r in counts}))
    return found


def _sorted(of_queue: Mapping[str, list[str]] | None) -> dict[str, list[str]]:
    return {queue: sorted(keys) for queue, keys in sorted((of_queue or {}).items())}
