"""Which flavor was chosen for every resource of every pod set, how good is that, and what was rejected?

`Assignment` is built by `flavorassigner` and refined within a cycle; it becomes part of an outcome only after
the cycle is done with it.

Source: pkg/scheduler/flavorassigner/flavorassigner.go, flavor_assigner_attempts.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, unique
from typing import Any, Final

from fairway.kube.resources import Resources
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.amounts import amount_text, saturated
from fairway.queueing.facts.objects import FlavorResource, flavor_resource
from fairway.queueing.facts.topologyassignments import TopologyAssignment, domain_id, write_assignment
from fairway.queueing.facts.workloads import DomainUse, PodSetTotal, SchedulingHash, TopologyUsage, Workload
from fairway.queueing.quota.accounts import QueueAccount
from fairway.queueing.quota.quotatree import Amounts
from fairway.queueing.tas.requests import TopologyResults


@unique
class Mode(IntEnum):
    """How a flavor serves: better is larger."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


MODE_TEXT: Final = {
    Mode.NO_FIT: "NoFit",
    Mode.PREEMPT: "Preempt",
    Mode.DEFERRED_FIT: "DeferredFit",
    Mode.FIT: "Fit",
}


@unique
class Possibility(IntEnum):
    """What preemption could do for one resource in one flavor."""

    NO_CANDIDATES = 0
    PREEMPT = 1
    RECLAIM = 2


POSSIBILITY_TEXT: Final = {
    Possibility.NO_CANDIDATES: "NoCandidates",
    Possibility.PREEMPT: "Preempt",
    Possibility.RECLAIM: "Reclaim",
}

_MILDEST_FIRST: Final = (
    "",
    conds.TOPOLOGY_PLACEMENT_FAILED,
    conds.WAITING_FOR_QUOTA,
    conds.EXCEEDS_MAX_QUOTA,
    conds.NO_MATCHING_FLAVOR,
)


def severity(reason: str) -> int:
    return _MILDEST_FIRST.index(reason)


def most_severe(a: str, b: str) -> str:
    return a if severity(a) >= severity(b) else b


class FlavorChoice:
    """One resource in one flavor. `tried_index` -1: the last flavor of the group was tried."""

    def __init__(
        self,
        flavor: str,
        mode: Mode,
        borrow: int = 0,
        tried_index: int = 0,
    ) -> None:
        self.flavor = flavor
        self.mode = mode
        self.borrow = borrow
        self.tried_index = tried_index


class Attempt:
    """What came of one flavor, over the resources of a pod set."""

    def __init__(
        self,
        flavor: str,
        mode: Mode,
        borrow: int = 0,
        possibility: Possibility | None = None,
        reasons: tuple[str, ...] = (),
        no_fit_reason: str = "",
    ) -> None:
        self.flavor = flavor
        self.mode = mode
        self.borrow = borrow
        self.possibility = possibility
        self.reasons = reasons
        self.no_fit_reason = no_fit_reason


class ScanState:
    """Where the search over flavors stopped, to go on there next time.

    `tried`: per pod set, resource → index of the last flavor tried (-1: all of them).
    """

    def __init__(
        self,
        tried: tuple[Mapping[str, int], ...],
        generation: int,
        cycle: int,
        alike: SchedulingHash,
    ) -> None:
        self.tried = tried
        self.generation = generation
        self.cycle = cycle
        self.hash = alike

    def has_pending_flavors(self) -> bool:
        return any(index != -1 for of_pod_set in self.tried for index in of_pod_set.values())

    def next_index(self, pod_set: int, resource: str) -> int:
        if pod_set >= len(self.tried):
            return 0
        index = self.tried[pod_set].get(resource)
        return 0 if index is None else index + 1

    def is_of_shape(self, form: SchedulingHash) -> bool:
        return not self.hash or not form or self.hash == form


class PodSetAssignment:
    """`flavors` empty: no flavors were found. `error`: the search could not be done at all."""

    def __init__(
        self,
        name: str,
        count: int,
        requests: Resources,
        flavors: dict[str, FlavorChoice],
        reasons: list[str] | None = None,
        error: str = "",
        topology: TopologyAssignment | None = None,
        delayed_topology: str = "",
        attempts: list[Attempt] | None = None,
    ) -> None:
        self.name = name
        self.count = count
        self.requests = requests
        self.flavors = flavors
        self.reasons: list[str] = [] if reasons is None else reasons
        self.error = error
        self.topology = topology
        self.delayed_topology = delayed_topology
        self.attempts: list[Attempt] = [] if attempts is None else attempts

    def mode(self) -> Mode:
        if not self.error and not self.reasons:
            return Mode.FIT
        if self.error or not self.flavors:
            return Mode.NO_FIT
        return min(choice.mode for choice in self.flavors.values())

    def set_mode(self, mode: Mode) -> None:
        for choice in self.flavors.values():
            choice.mode = mode


class Assignment:
    """`borrowing`: how far up the tree it borrows, 0 for not at all. `usage`: quota it would take."""

    def __init__(
        self,
        pod_sets: list[PodSetAssignment],
        usage: Amounts,
        scan: ScanState | None = None,
        borrowing: int = 0,
        no_fit_reason: str = "",
        replaced_slice: Workload | None = None,
    ) -> None:
        self.pod_sets = pod_sets
        self.usage = usage
        self.scan = scan
        self.borrowing = borrowing
        self.no_fit_reason = no_fit_reason
        self.replaced_slice = replaced_slice
        self._mode: Mode | None = None

    def mode(self) -> Mode:
        """The worst mode of its pod sets, or what it was set to since."""
        if not self.pod_sets:
            return Mode.NO_FIT
        if self._mode is None:
            self._mode = min(ps.mode() for ps in self.pod_sets)
        return self._mode

    def set_mode(self, mode: Mode) -> None:
        self._mode = mode
        for pod_set in self.pod_sets:
            pod_set.set_mode(mode)

    def set_pod_set_mode(self, name: str, mode: Mode) -> None:
        """The whole assignment takes the mode too."""
        pod_set = self.pod_set(name)
        if pod_set is not None:
            pod_set.set_mode(mode)
            self._mode = mode

    def fail(self, pod_set: PodSetAssignment, error: str) -> None:
        pod_set.error = error
        self._mode = None

    def pod_set(self, name: str) -> PodSetAssignment | None:
        for pod_set in self.pod_sets:
            if pod_set.name == name:
                return pod_set
        return None

    def message(self) -> str:
        """Why it is not a fit; empty for one."""
        parts = []
        for ps in self.pod_sets:
            if ps.error:
                return f"failed to assign flavors to pod set {ps.name}: {ps.error}"
            if ps.reasons:
                parts.append(f"couldn't assign flavors to pod set {ps.name}: {', '.join(sorted(ps.reasons))}")
        return "; ".join(parts)

    def take_topology(self, results: TopologyResults) -> None:
        """Take over what the search for domains found."""
        for name, result in results.items():
            pod_set = self.pod_set(name)
            if pod_set is None:
                continue
            pod_set.topology = result.assignment
            if result.assignment is not None and pod_set.delayed_topology:
                pod_set.delayed_topology = "Ready"

    def net_topology_usage(self, queue: QueueAccount, workload: Workload) -> TopologyUsage:
        """Pods per domain, without those the workload's present admission holds already."""
        used: dict[str, list[DomainUse]] = {}
        for ps in self.pod_sets:
            if ps.topology is None:
                continue
            spec = next((p for p in workload.shape.pod_sets if p.name == ps.name), None)
            flavors = sorted({c.flavor for c in ps.flavors.values() if c.flavor in queue.topologies})
            if spec is None or len(flavors) != 1:
                continue
            held = _held_domains(workload, ps.name)
            for domain in ps.topology.domains:
                pods = domain.pods - held.get(domain_id(domain.values), 0)
                if pods > 0:
                    use = DomainUse(domain.values, spec.per_pod_on_node, pods)
                    used.setdefault(flavors[0], []).append(use)
        return tuple((flavor, tuple(uses)) for flavor, uses in used.items())

    def total_requests(self, workload: Workload) -> Amounts:
        """Quota the workload asks for in these flavors, with these counts."""
        wanted: Amounts = {}
        for index, total in enumerate(workload.totals):
            ps = self.pod_sets[index]
            count = ps.count
            if self.replaced_slice is not None:
                count = total.count - self.replaced_slice.totals[index].count
            for resource, value in total.scaled_to(count).requests.items():
                choice = ps.flavors.get(resource)
                if value and choice is not None:
                    fr = flavor_resource(choice.flavor, resource)
                    wanted[fr] = wanted.get(fr, 0) + value
        return wanted

    def held(self, workload: Workload) -> tuple[PodSetTotal, ...]:
        """The pod sets as the workload holds them once this is its admission."""
        totals = []
        for ps in self.pod_sets:
            domains: tuple[DomainUse, ...] = ()
            if ps.topology is not None:
                spec = next(p for p in workload.shape.pod_sets if p.name == ps.name)
                per_pod = spec.per_pod_on_node
                domains = tuple(DomainUse(d.values, per_pod, d.pods) for d in ps.topology.domains)
            requests = {r: saturated(ps.requests.get(r, 0)) for r in ps.flavors}
            flavors = {r: choice.flavor for r, choice in ps.flavors.items()}
            totals.append(
                PodSetTotal(ps.name, ps.count, requests, flavors, ps.topology, ps.delayed_topology, domains)
            )
        return tuple(totals)

    def frs_needing_preemption(self) -> tuple[FlavorResource, ...]:
        found = {
            flavor_resource(choice.flavor, resource): None
            for ps in self.pod_sets
            for resource, choice in ps.flavors.items()
            if choice.mode == Mode.PREEMPT
        }
        return tuple(found)

    def admission(self, cluster_queue: str, *, by_hostname_prefix: bool = True) -> dict[str, Any]:
        """`status.admission` of the Workload (v1beta2)."""
        return {
            "clusterQueue": cluster_queue,
            "podSetAssignments": [_written(ps, by_hostname_prefix) for ps in self.pod_sets],
        }


def _held_domains(workload: Workload, name: str) -> dict[str, int]:
    held: dict[str, int] = {}
    total = workload.total(name)
    if workload.cluster_queue and total is not None and total.topology is not None:
        for domain in total.topology.domains:
            key = domain_id(domain.values)
            held[key] = held.get(key, 0) + domain.pods
    return held


def _written(ps: PodSetAssignment, by_hostname_prefix: bool) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": ps.name,
        "flavors": {resource: choice.flavor for resource, choice in ps.flavors.items()},
        "resourceUsage": {
            resource: amount_text(resource, saturated(ps.requests.get(resource, 0)))
            for resource in ps.flavors
        },
        "count": ps.count,
    }
    if ps.topology is not None:
        written["topologyAssignment"] = write_assignment(ps.topology, by_hostname_prefix=by_hostname_prefix)
    if ps.delayed_topology:
        written["delayedTopologyRequest"] = ps.delayed_topology
    return written


def considered_text(assignment: Assignment) -> str:
    """The flavors that were no plain fit, as the QuotaReserved event lists them."""
    pod_sets = []
    for ps in assignment.pod_sets:
        parts = []
        for attempt in ps.attempts:
            if attempt.mode == Mode.FIT and attempt.borrow == 0:
                continue
            if attempt.possibility is None:
                mode = MODE_TEXT[attempt.mode]
            else:
                mode = f"preemptionMode={POSSIBILITY_TEXT[attempt.possibility]}"
            borrow = f";borrow={attempt.borrow}" if attempt.borrow > 0 else ""
            reasons = "".join(f";{reason}" for reason in attempt.reasons)
            parts.append(f"{attempt.flavor}({mode}{borrow}{reasons})")
        if parts:
            pod_sets.append(f"{ps.name}: {', '.join(parts)}")
    return " | ".join(pod_sets)
