"""Which flavors, and whose preemption, would a workload be admitted with?

Source: pkg/scheduler/scheduler.go getAssignments, getInitialAssignments, updateAssignmentForTAS.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.kube.objects import annotations_of
from fairway.queueing.cycle.entries import Entry
from fairway.queueing.facts.workloads import SLICE_REPLACEMENT_FOR, Workload
from fairway.queueing.facts.workloadstate import has_unhealthy_domain
from fairway.queueing.flavors.assignment import Assignment, Mode, ScanState
from fairway.queueing.flavors.flavorassigner import FlavorSearch, assign_flavors
from fairway.queueing.flavors.reducer import most_that_fits
from fairway.queueing.flavors.topologyrequests import topology_requests
from fairway.queueing.preemption.fairsharing import DEFAULT_STRATEGIES
from fairway.queueing.preemption.preemptor import Preemptor
from fairway.queueing.preemption.targets import QueueUsage, Target
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.tas.requests import DEFAULT_SEARCH, EMPTY_SEARCH


class CycleOptions:
    """`number`: cycles are numbered from 1.

    `waits_for_pods_ready`: admit one by one, each after the pods of all before are ready; `all_pods_ready`:
    they are. `ignores_undeclared`: resources the ClusterQueue does not cover are free. `queue_usage`: of
    LocalQueues, where admission fair sharing is on.
    """

    def __init__(
        self,
        number: int,
        now_us: int,
        uses_fair_sharing: bool = False,
        strategies: tuple[str, ...] = DEFAULT_STRATEGIES,
        queue_usage: QueueUsage | None = None,
        ignores_undeclared: bool = False,
        waits_for_pods_ready: bool = False,
        all_pods_ready: bool = True,
    ) -> None:
        self.number = number
        self.now_us = now_us
        self.uses_fair_sharing = uses_fair_sharing
        self.strategies = strategies
        self.queue_usage = queue_usage
        self.ignores_undeclared = ignores_undeclared
        self.waits_for_pods_ready = waits_for_pods_ready
        self.all_pods_ready = all_pods_ready


class Nominator:
    """Finds assignments as the accounts stand when asked."""

    def __init__(self, accounts: Accounts, options: CycleOptions) -> None:
        self.accounts = accounts
        self.gates = accounts.gates
        self.options = options
        self._preemptor = Preemptor(
            accounts,
            options.now_us,
            options.uses_fair_sharing,
            options.strategies,
            options.queue_usage,
        )

    def assign(self, entry: Entry) -> tuple[Assignment, list[Target]]:
        """Flavors, and whom to preempt for them."""
        queue, workload = entry.queue, entry.workload
        assert queue is not None
        if entry.scan is not None and self._is_outdated(entry.scan, queue, workload):
            entry.scan = None
        assignment, targets = self._find_assignment(entry, queue)
        self._check_topology(assignment, targets, queue, workload)
        return assignment, targets

    def _is_outdated(self, scan: ScanState, queue: QueueAccount, workload: Workload) -> bool:
        if self.gates.flavor_fungibility_preserve_scan_progress:
            if not scan.is_of_shape(workload.hash):
                return True
            if self.options.number - scan.cycle <= 1:
                return False
        return queue.generation > scan.generation

    def _find_assignment(self, entry: Entry, queue: QueueAccount) -> tuple[Assignment, list[Target]]:
        """The full workload if it can, else as many of its pods as can."""
        workload = entry.workload
        replaced = self._replaced_slice(workload, queue)
        of_slice = [Target(replaced, "")] if replaced is not None else []
        search = FlavorSearch(
            accounts=self.accounts,
            queue=queue,
            workload=workload,
            oracle=self._preemptor,
            cycle=self.options.number,
            uses_fair_sharing=self.options.uses_fair_sharing,
            ignores_undeclared=self.options.ignores_undeclared and self.gates.quota_check_strategy,
            scan=entry.scan,
            nomination=entry.nomination,
            replaced_slice=replaced,
        )
        full = assign_flavors(search)
        mode = full.mode()
        if mode == Mode.FIT:
            return full, of_slice
        if mode == Mode.PREEMPT:
            targets = self._preemptor.targets(queue, workload, full)
            if targets:
                return full, of_slice + targets
        if self.gates.partial_admission and workload.shape.can_be_partially_admitted:
            partial = most_that_fits(
                workload.shape.pod_sets, lambda counts: self._try_partial(search, counts)
            )
            if partial is not None:
                return partial[0], of_slice + partial[1]
        return full, []

    def _try_partial(self, search: FlavorSearch, counts: list[int]) -> tuple[Assignment, list[Target]] | None:
        assignment = assign_flavors(search, counts)
        mode = assignment.mode()
        if mode == Mode.FIT:
            return assignment, []
        if mode == Mode.PREEMPT:
            targets = self._preemptor.targets(search.queue, search.workload, assignment)
            if targets:
                return assignment, targets
        return None

    def _replaced_slice(self, workload: Workload, queue: QueueAccount) -> Workload | None:
        if not self.gates.elastic_jobs_via_workload_slices:
            return None
        key = annotations_of(workload.obj).get(SLICE_REPLACEMENT_FOR)
        return queue.workloads.get(key) if key else None

    def _check_topology(
        self, assignment: Assignment, targets: Sequence[Target], queue: QueueAccount, workload: Workload
    ) -> None:
        """Where its pods will go once the targets are gone, so that others do not take the place."""
        if (
            not self.gates.topology_aware_scheduling
            or assignment.mode() != Mode.PREEMPT
            or not (workload.shape.is_explicitly_topology_aware or queue.is_topology_only)
            or has_unhealthy_domain(workload.obj)
        ):
            return
        requests = topology_requests(assignment, workload, queue, self.accounts)
        if targets:
            victims = [t.workload for t in targets]
            self.accounts.remove_usage_of(victims)
            results = queue.find_domains(requests, workload, DEFAULT_SEARCH)
            self.accounts.add_usage_of(victims)
        else:
            results = queue.find_domains(requests, workload, EMPTY_SEARCH)
        assignment.take_topology(results)
