"""One scheduling cycle: who of the heads of all queues is admitted, who preempts, who waits and why?

1. nominate: find flavors for every head; 2. order the entries; 3. process them one after another, each seeing
what the earlier ones took: admit, preempt, or skip; 4. put the accounts back and report.

The accounts are unchanged in the end; whoever carries the outcome out lets admitted workloads `hold` quota.

Source: pkg/scheduler/scheduler.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fairway.queueing.cycle.admissibility import Namespaces, inadmissible
from fairway.queueing.cycle.entries import (
    CycleOutcome,
    Entry,
    Eviction,
    Head,
    Outcome,
    Recomputation,
    RequeueReason,
    Status,
)
from fairway.queueing.cycle.entryorder import classical_order, fair_order
from fairway.queueing.cycle.nomination import CycleOptions, Nominator
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.objects import ANY, FlavorResource
from fairway.queueing.facts.workloads import TopologyUsage, Usage, Workload
from fairway.queueing.facts.workloadstate import (
    check_states,
    has_closed_preemption_gate,
    has_unhealthy_domain,
)
from fairway.queueing.flavors.assignment import Assignment, Mode, considered_text
from fairway.queueing.flavors.flavorassigner import Nomination
from fairway.queueing.flavors.variants import (
    BETTER_IS_ADMITTED,
    TARGET_TOO_LOW,
    admitted_sibling,
    may_migrate,
)
from fairway.queueing.preemption.departures import Departures
from fairway.queueing.preemption.targets import PREEMPTION_TEXT, Target
from fairway.queueing.quota.accounts import Accounts, FitsCheck, QueueAccount
from fairway.queueing.quota.quotatree import Amounts

FAILED_CHECKS: Final = "The workload has failed admission checks"
NO_LONGER_FITS: Final = "Workload no longer fits after processing another workload"
OVERLAPS: Final = "Workload has overlapping preemption targets with another workload"
DEFERRED: Final = (
    "Workload has overlapping preemption targets with another workload, "
    "but will fit after these preemptions complete"
)
GATED: Final = "Workload requires preemption, but it's gated"
WAITING_FOR_PODS: Final = "waiting for all admitted workloads to be in PodsReady condition"


def run_cycle(
    accounts: Accounts, heads: Sequence[Head], namespaces: Namespaces, options: CycleOptions
) -> CycleOutcome:
    """The outcome for every head. O(heads × flavors), more where preemption is looked into."""
    return _Cycle(accounts, namespaces, options).run(heads)


class _Cycle:
    def __init__(self, accounts: Accounts, namespaces: Namespaces, options: CycleOptions) -> None:
        accounts.settle()
        self.accounts = accounts
        self.gates = accounts.gates
        self.namespaces = namespaces
        self.options = options
        self._nominator = Nominator(accounts, options)
        self._departures = Departures(accounts)
        self._taken: list[tuple[QueueAccount, Usage, TopologyUsage]] = []
        self._may_admit = not options.waits_for_pods_ready or options.all_pods_ready

    def run(self, heads: Sequence[Head]) -> CycleOutcome:
        processed: list[Entry] = []
        try:
            entries, refused = self._nominate(heads)
            for entry in self._in_order(entries):
                self._process(entry)
                processed.append(entry)
                if self.options.uses_fair_sharing:
                    # The order of those left follows the shares as they are.
                    self._departures.put_back()
        finally:
            # Whatever happens, nothing of what was tried stays.
            self._departures.put_back()
            for queue, usage, topology in reversed(self._taken):
                queue.remove_usage(usage, topology)
        seen = frozenset(id(entry) for entry in processed)
        processed.extend(entry for entry in entries if id(entry) not in seen)
        return CycleOutcome(tuple(_outcome(e) for e in (*processed, *refused)))

    # 1. Nominate

    def _nominate(self, heads: Sequence[Head]) -> tuple[list[Entry], list[Entry]]:
        """Entries with assignments, and those refused before that."""
        entries: list[Entry] = []
        refused: list[Entry] = []
        for head in heads:
            workload = head.workload
            if not workload.needs_second_pass and workload.key in self.accounts.holders:
                continue
            entry = Entry(head, self.accounts.queues.get(head.queue))
            if self._refuse(entry):
                refused.append(entry)
                continue
            entry.take(*self._nominator.assign(entry))
            entries.append(entry)
        return entries, refused

    def _refuse(self, entry: Entry) -> bool:
        """Whether the workload cannot even be considered; says why in the entry."""
        workload, queue = entry.workload, entry.queue
        states = check_states(workload.obj)
        if states and ("Retry" in states or "Rejected" in states):
            entry.message, entry.reason = FAILED_CHECKS, conds.PENDING_EVALUATION
            return True
        if queue is None:
            entry.message = f"ClusterQueue {entry.head.queue} not found"
            entry.reason = conds.MISCONFIGURED
            return True
        if queue.inactivity is not None or queue.in_cycle:
            entry.message = f"ClusterQueue {entry.head.queue} is inactive"
            entry.reason = conds.SUSPENDED
            return True
        problem = inadmissible(workload, queue.spec.namespace_selector, self.namespaces)
        if problem is None:
            return False
        entry.message, entry.reason = problem.message, conds.MISCONFIGURED
        if problem.is_namespace_mismatch:
            entry.requeue_reason = RequeueReason.NAMESPACE_MISMATCH
        return True

    # 2. Order

    def _in_order(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        if self.options.uses_fair_sharing:
            return fair_order(entries, self.gates)
        return iter(classical_order(entries, self.gates))

    # 3. Process

    def _process(self, entry: Entry) -> None:
        queue = entry.queue
        assert queue is not None
        if self.gates.concurrent_admission and self._sibling(entry, queue, better=True) is not None:
            self._skip(entry, BETTER_IS_ADMITTED, is_preemption=False)
            entry.reason = conds.PENDING_EVALUATION
            return
        (usage, topology), is_fitting = self._updated(entry, queue)
        mode = entry.assignment.mode()
        if mode != Mode.FIT and self._gives_up_replacement(entry):
            return
        if mode == Mode.NO_FIT:
            entry.requeue_reason = RequeueReason.NO_FIT
            entry.reason = entry.assignment.no_fit_reason
            return
        if mode == Mode.PREEMPT and self._cannot_preempt(entry, queue):
            return
        if mode == Mode.DEFERRED_FIT:
            entry.message, entry.reason = DEFERRED, conds.WAITING_FOR_PREEMPTED_WORKLOADS
            entry.requeue_reason = RequeueReason.PENDING_PREEMPTION
            entry.scan = None
            self._take(queue, usage, topology)
            return
        if self._departures.has_any_of(entry.targets):
            self._skip(entry, OVERLAPS, is_preemption=True)
            return
        if not is_fitting:
            self._skip(entry, NO_LONGER_FITS, is_preemption=mode == Mode.PREEMPT)
            return
        self._departures.add(t.workload for t in entry.targets)
        self._take(queue, usage, topology)
        replaced = next((t for t in entry.targets if not t.reason), None)
        if mode == Mode.PREEMPT:
            self._preempt(entry, queue, [t for t in entry.targets if t is not replaced])
            return
        self._admit(entry, queue, None if replaced is None else replaced.workload)

    def _skip(self, entry: Entry, message: str, *, is_preemption: bool) -> None:
        entry.skip(message, keeps_scan=self.gates.flavor_fungibility_preserve_scan_progress)
        entry.reason = conds.WAITING_FOR_QUOTA
        entry.skipped_preemption = is_preemption

    def _take(self, queue: QueueAccount, usage: Usage, topology: TopologyUsage) -> None:
        """For the rest of the cycle."""
        queue.add_usage(usage, topology)
        self._taken.append((queue, usage, topology))

    def _updated(self, entry: Entry, queue: QueueAccount) -> tuple[tuple[Usage, TopologyUsage], bool]:
        """The usage of the entry and whether it still fits; assigned anew where others came between."""
        usage = entry.usage()
        check = self._departures.fits_without(queue, usage, entry.targets)
        overlaps = (
            self.gates.recompute_assignment_upon_preemption_targets_overlap
            and self._departures.has_any_of(entry.targets)
        )
        lost_place = (
            check == FitsCheck.NO_TOPOLOGY and self.gates.tas_recompute_assignment_within_scheduling_cycle
        )
        if not overlaps and not lost_place:
            return usage, check == FitsCheck.OK
        if not overlaps:
            self._departures.put_back()
        entry.scan = None
        entry.nomination = _nomination(entry.assignment)
        entry.take(*self._nominator.assign(entry))
        if overlaps and entry.assignment.mode() == Mode.FIT:
            entry.assignment.set_mode(Mode.DEFERRED_FIT)
        usage = entry.usage()
        check = self._departures.fits_without(queue, usage, entry.targets)
        if overlaps:
            entry.recomputation = self._verdict(entry, check)
        return usage, check == FitsCheck.OK

    def _verdict(self, entry: Entry, check: FitsCheck) -> Recomputation:
        """What came of looking for other targets than those of another preemption."""
        if entry.assignment.mode() == Mode.DEFERRED_FIT:
            return Recomputation.DEFERRED_FIT
        if entry.targets and check == FitsCheck.OK and not self._departures.has_any_of(entry.targets):
            return Recomputation.NEW_TARGETS
        return Recomputation.SKIPPED

    def _gives_up_replacement(self, entry: Entry) -> bool:
        """A workload whose node failed and that finds no other one is evicted."""
        workload = entry.workload
        if not self.gates.tas_failed_node_replacement_fail_fast or not has_unhealthy_domain(workload.obj):
            return False
        nodes = ",".join(workload.unhealthy_nodes)
        message = f"Workload was evicted as there was no replacement for unhealthy node(s): {nodes}"
        entry.status = Status.EVICTED
        entry.evictions = (Eviction(workload, conds.EVICTED_BY_NODE_FAILURES, message),)
        return True

    def _cannot_preempt(self, entry: Entry, queue: QueueAccount) -> bool:
        if not entry.targets:
            entry.requeue_reason = RequeueReason.PREEMPTION_NO_CANDIDATES
            entry.reason = conds.WAITING_FOR_QUOTA
            self._reserve(entry, queue)
            return True
        gates_count = self.gates.concurrent_admission or self.gates.multi_kueue_orchestrated_preemption
        if gates_count and has_closed_preemption_gate(entry.workload.obj):
            entry.status, entry.message, entry.reason = Status.PREEMPTION_GATED, GATED, conds.ADMISSION_GATED
            entry.requeue_reason = RequeueReason.PREEMPTION_GATED
            entry.scan = None
            return True
        return False

    def _reserve(self, entry: Entry, queue: QueueAccount) -> None:
        """Keep what it needs from entries that come later, unless it can always be reclaimed from them."""
        is_preferred = self.gates.prioritize_preemptor_workloads and entry.head.is_preemptor
        if queue.spec.preemption.reclaim_within_cohort == ANY and not is_preferred:
            return
        usage = entry.net_usage(tuple(self._to_reserve(entry, queue).items()))
        self._take(queue, *usage)

    def _to_reserve(self, entry: Entry, queue: QueueAccount) -> Amounts:
        """No more than the queue may use: its nominal quota, or with borrowing up to the limit."""
        self._departures.put_back()
        reserved: dict[FlavorResource, int] = {}
        for fr, value in entry.assignment.usage.items():
            left = queue.subtree.get(fr, 0) - queue.usage.get(fr, 0)
            if entry.assignment.borrowing > 0:
                limit = queue.borrowing_limits.get(fr)
                reserved[fr] = value if limit is None else min(value, left + limit)
            else:
                reserved[fr] = max(0, min(value, left))
        return reserved

    def _preempt(self, entry: Entry, queue: QueueAccount, targets: Sequence[Target]) -> None:
        entry.reason = conds.WAITING_FOR_PREEMPTED_WORKLOADS
        path = queue.path()
        entry.evictions = tuple(
            eviction_of(self.accounts, entry.workload, path, target) for target in targets
        )
        entry.scan = None
        entry.message += f". Pending the preemption of {len(targets)} workload(s)"
        entry.requeue_reason = RequeueReason.PENDING_PREEMPTION

    def _sibling(self, entry: Entry, queue: QueueAccount, *, better: bool) -> Workload | None:
        self._departures.put_back()
        return admitted_sibling(entry.workload, queue, better=better)

    def _migrates(self, entry: Entry, queue: QueueAccount) -> bool:
        """Whether a less favorable sibling runs, which has to go before this one is admitted."""
        sibling = self._sibling(entry, queue, better=False)
        if sibling is None:
            return False
        if not may_migrate(entry.workload, queue):
            entry.reason, entry.message = conds.PENDING_EVALUATION, TARGET_TOO_LOW
            return True
        message = (
            f"Evicted to accommodate a workload (UID: {entry.workload.uid}) "
            "due to migration to more favorable resource flavor"
        )
        entry.reason = conds.WAITING_FOR_PREEMPTED_WORKLOADS
        entry.evictions = (Eviction(sibling, conds.EVICTED_BY_FLAVOR_MIGRATION, message),)
        entry.scan = None
        entry.requeue_reason = RequeueReason.PENDING_MIGRATION
        entry.message += ". Pending the migration of 1 workload(s)"
        return True

    def _admit(self, entry: Entry, queue: QueueAccount, replaced: Workload | None) -> None:
        if not entry.workload.needs_second_pass and not self._may_admit:
            entry.status, entry.message = Status.WAITING_FOR_PODS_READY, WAITING_FOR_PODS
            entry.reason = conds.WAITING_FOR_PODS_READY
            return
        if self.gates.concurrent_admission and self._migrates(entry, queue):
            return
        if not entry.workload.needs_second_pass:
            self._may_admit = not self.options.waits_for_pods_ready
        entry.status = Status.ASSUMED
        entry.replaced_slice = replaced
        entry.admission = entry.assignment.admission(
            queue.name, by_hostname_prefix=self.gates.tas_assignments_encoding_by_hostname_prefix
        )


def eviction_of(accounts: Accounts, preemptor: Workload, path: str, target: Target) -> Eviction:
    """The eviction of a target, with the message its conditions carry. `path`: of the preemptor's queue."""
    victim = target.workload
    message = (
        f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, "
        f"JobUID: {preemptor.job_uid or 'UNKNOWN'}) due to {PREEMPTION_TEXT[target.reason]}; "
        f"preemptor path: {path}; preemptee path: {accounts.queues[victim.cluster_queue].path()}"
    )
    return Eviction(victim, target.reason, message, preemptor, is_under_way=victim.is_evicted)


def _nomination(assignment: Assignment) -> Nomination:
    mapping: dict[str, Mapping[str, str]] = {}
    for ps in assignment.pod_sets:
        mapping[ps.name] = {resource: choice.flavor for resource, choice in ps.flavors.items()}
    return mapping


def _outcome(entry: Entry) -> Outcome:
    requeue = entry.requeue_reason
    if entry.status != Status.NOT_NOMINATED and requeue == RequeueReason.GENERIC:
        requeue = RequeueReason.FAILED_AFTER_NOMINATION
    is_admitted = entry.status == Status.ASSUMED
    return Outcome(
        head=entry.head,
        status=entry.status,
        message=entry.message,
        reason=entry.reason,
        requeue_reason=requeue,
        assignment=entry.assignment if entry.assignment.pod_sets else None,
        scan=entry.scan,
        admission=entry.admission,
        considered=considered_text(entry.assignment) if is_admitted else "",
        evictions=entry.evictions,
        replaced_slice=entry.replaced_slice,
        skipped_preemption=entry.skipped_preemption,
        recomputation=entry.recomputation,
    )
