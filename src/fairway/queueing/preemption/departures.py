"""What would fit without the workloads a cycle has preempted so far?

They hold their quota until they are gone, and yet every later entry of the cycle is to find their room free. So they
are taken out of the accounts when somebody asks, and stay out for whoever asks next: to take all of them out for
each entry, and put them back, would cost O(entries × preempted).

Source: pkg/scheduler/scheduler.go fits, updateAssignmentIfNeeded (SimulateWorkloadRemoval).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairway.queueing.facts.workloads import TopologyUsage, Usage, Workload
from fairway.queueing.preemption.targets import Target
from fairway.queueing.quota.accounts import Accounts, FitsCheck, QueueAccount


class Departures:
    """Those preempted in one cycle. Whoever reads the accounts as they really are calls `put_back` before."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._keys: dict[str, None] = {}
        self._inside: list[Workload] = []
        self._outside: list[Workload] = []

    def add(self, workloads: Iterable[Workload]) -> None:
        """They are preempted."""
        for workload in workloads:
            if workload.key not in self._keys:
                self._keys[workload.key] = None
                self._inside.append(workload)

    def has_any_of(self, targets: Sequence[Target]) -> bool:
        return any(t.workload.key in self._keys for t in targets)

    def take_out(self) -> None:
        """As if all of them were gone. O(those preempted since)."""
        if self._inside:
            for workload in self._inside:
                self._accounts.take_out(workload)
            self._outside.extend(self._inside)
            self._inside = []

    def put_back(self) -> None:
        """The accounts as they really are. O(those taken out)."""
        if self._outside:
            for workload in self._outside:
                self._accounts.put_back(workload)
            self._inside = self._outside + self._inside
            self._outside = []

    def fits_without(
        self, queue: QueueAccount, usage: tuple[Usage, TopologyUsage], targets: Sequence[Target]
    ) -> FitsCheck:
        """Whether the usage fits once all of them, and these targets, are gone."""
        self.take_out()
        if not targets:
            return queue.fits(*usage)
        others = [t.workload for t in targets if t.workload.key not in self._keys]
        self._accounts.remove_usage_of(others)
        check = queue.fits(*usage)
        self._accounts.add_usage_of(others)
        return check
