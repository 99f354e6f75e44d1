"""One row of Kueue's preemption tables: given who holds quota and an assignment, whom does a workload preempt?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.conformance.kueue_diff import Mismatch, compare, compare_objects
from fairway.kube.objects import Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.cycle.cycle import eviction_of
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.workloads import Workload, WorkloadReader
from fairway.queueing.flavors.assignment import Assignment, FlavorChoice, Mode, PodSetAssignment
from fairway.queueing.outcomes.statuses import preempted
from fairway.queueing.preemption.fairsharing import DEFAULT_STRATEGIES
from fairway.queueing.preemption.preemptor import Preemptor
from fairway.queueing.preemption.targets import Target
from fairway.queueing.quota.accounts import Accounts

Row = Mapping[str, Any]

_FAR_FUTURE_US = 4_102_444_800 * 1_000_000


def run_preemption_row(row: Row) -> list[Mismatch]:
    """What differs; nothing where the row agrees."""
    accounts, reader = _set_up(row, row["admitted"])
    before = _usage(accounts)
    workload = reader.read(row["incoming"])
    assignment = _assignment(row["assignment"])
    now_us = _latest_time_us(row)
    targets = _targets(row, Preemptor(accounts, now_us), workload, assignment)
    objects = {w.key: w.obj for w in accounts.holders.values()}
    path = accounts.queues[row["targetCQ"]].path()
    for target in targets:
        if not target.workload.is_evicted:
            eviction = eviction_of(accounts, workload, path, target)
            objects[target.workload.key] = preempted(target.workload.obj, eviction, now_us)
    found = compare("wantPreempted", row.get("wantPreempted"), len(targets))
    found.extend(compare_objects(row.get("wantWorkloads") or (), objects.values()))
    found.extend(compare("usage after", before, _usage(accounts)))
    return found


def run_fair_preemption_row(row: Row) -> list[Mismatch]:
    """The resource asked for is cpu, in one flavor."""
    accounts, reader = _set_up(row, [_with_uid(obj) for obj in row.get("admitted") or ()])
    before = _usage(accounts)
    workload = reader.read(row["incoming"])
    choice = FlavorChoice(row.get("assignmentFlavor") or "default", Mode.PREEMPT)
    assignment = Assignment([PodSetAssignment("main", 1, {}, {"cpu": choice}, reasons=["no quota"])], {})
    preemptor = Preemptor(
        accounts,
        _latest_time_us(row),
        uses_fair_sharing=True,
        strategies=tuple(row.get("strategies") or DEFAULT_STRATEGIES),
    )
    targets = _targets(row, preemptor, workload, assignment)
    got = sorted(f"{t.workload.key}:{t.reason}" for t in targets)
    found = compare("wantPreempted", sorted(row.get("wantPreempted") or ()), got)
    found.extend(compare("usage after", before, _usage(accounts)))
    return found


def _set_up(row: Row, running: Sequence[Obj]) -> tuple[Accounts, WorkloadReader]:
    gates, _ = gates_from(row.get("featureGates"))
    accounts = Accounts(gates)
    for obj in row.get("flavors") or ({"metadata": {"name": n}} for n in ("default", "alpha", "beta")):
        accounts.set_flavor(facts.resource_flavor(obj))
    for obj in row.get("cohorts") or ():
        accounts.set_cohort(facts.cohort(obj))
    for obj in row.get("clusterQueues") or ():
        accounts.set_cluster_queue(facts.cluster_queue(obj))
    reader = WorkloadReader(gates)
    for obj in running or ():
        workload = reader.read(obj)
        if workload.has_quota:
            accounts.hold(workload)
    accounts.settle()
    return accounts, reader


def _with_uid(obj: Obj) -> Obj:
    """The fair-sharing tables break ties by name."""
    meta = obj["metadata"]
    return {**obj, "metadata": {**meta, "uid": meta["name"]}}


def _targets(row: Row, preemptor: Preemptor, workload: Workload, assignment: Assignment) -> list[Target]:
    queue = preemptor.accounts.queues[row["targetCQ"]]
    return preemptor.targets(queue, workload, assignment)


def _assignment(raw: Row) -> Assignment:
    pod_sets = []
    for ps in raw.get("PodSets") or ():
        flavors = {r: FlavorChoice(f["Name"], Mode(f["Mode"])) for r, f in (ps.get("Flavors") or {}).items()}
        pod_sets.append(PodSetAssignment(ps["Name"], ps.get("Count") or 0, {}, flavors))
    return Assignment(pod_sets, {}, borrowing=raw.get("Borrowing") or 0)


def _usage(accounts: Accounts) -> dict[str, dict[str, int]]:
    """What every node of the tree uses, to see that a what-if left nothing behind."""
    return {
        node.path(): {f"{fr.flavor}/{fr.resource}": v for fr, v in sorted(node.usage.items()) if v}
        for node in (*accounts.cohorts.values(), *accounts.queues.values())
    }


def _latest_time_us(row: Row) -> int:
    times = [
        parse_rfc3339(condition["lastTransitionTime"])
        for kind in ("admitted", "wantWorkloads")
        for obj in row.get(kind) or ()
        for condition in (obj.get("status") or {}).get("conditions") or ()
        if condition.get("lastTransitionTime")
    ]
    return max(times, default=_FAR_FUTURE_US)
