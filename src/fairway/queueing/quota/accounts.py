"""What holds quota now, and what is left: the tree of quotas with the workloads in it, kept change by change.

Two kinds of change: `hold` and `release` are for good (a workload was admitted, or let go); a queue's
`add_usage`/`remove_usage` and `take_out`/`put_back` are what-ifs of one cycle and always come in pairs.
Configuration may change at any time; `settle` rebuilds the tree from it once, before the next cycle.

Source: pkg/cache/scheduler (cache.go, clusterqueue.go, snapshot.go, clusterqueue_snapshot.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum, unique

from fairway.kube.resources import Resources
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates
from fairway.queueing.facts.objects import (
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_CONTROLLER,
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    FlavorResource,
    ResourceFlavor,
    Topology,
    TopologyNode,
    flavor_resource,
)
from fairway.queueing.facts.workloads import TopologyUsage, Usage, Workload
from fairway.queueing.quota.inactivity import ACTIVE_MESSAGE, ACTIVE_REASON, Inactivity, inactivity_of
from fairway.queueing.quota.quotatree import QuotaNode, settle
from fairway.queueing.tas.requests import RequestsByFlavor, SearchOptions, TopologyResults
from fairway.queueing.tas.search import find_for_flavor
from fairway.queueing.tas.tree import FlavorTopology, nodes_of_flavor


@unique
class FitsCheck(IntEnum):
    OK = 0
    NO_QUOTA = 1
    NO_TOPOLOGY = 2


class QueueAccount(QuotaNode):
    """A ClusterQueue in the tree. `workloads` hold quota in it; `generation` grows when room may have appeared."""

    __slots__ = (
        "gates",
        "generation",
        "has_multikueue_check",
        "in_cycle",
        "inactivity",
        "is_topology_only",
        "listed",
        "mismatches",
        "provisioned_flavors",
        "spec",
        "topologies",
        "workloads",
    )

    def __init__(self, spec: ClusterQueue, gates: FeatureGates) -> None:
        super().__init__(spec.name, spec.quotas, spec.fair_weight, is_queue=True)
        self.spec = spec
        self.listed = _listed(spec)
        self.gates = gates
        self.workloads: dict[str, Workload] = {}
        self.topologies: dict[str, FlavorTopology] = {}
        self.generation = 1
        self.inactivity: Inactivity | None = None
        # Its cohorts form a cycle: it counts as active, and yet nothing in it can be decided.
        self.in_cycle = False
        self.is_topology_only = False
        # (form of a workload, pod set, resource group, flavor) → why it cannot run there; the configuration settles it.
        self.mismatches: dict[tuple[int, int, int, str], str] = {}
        self.has_multikueue_check = False
        self.provisioned_flavors: frozenset[str] = frozenset()

    def add_usage(self, usage: Usage, topology_usage: TopologyUsage) -> None:
        for fr, value in usage:
            self.add(fr, value)
        for flavor, uses in topology_usage:
            topology = self.topologies.get(flavor)
            if topology is not None:
                topology.count(uses, 1)

    def remove_usage(self, usage: Usage, topology_usage: TopologyUsage) -> None:
        for fr, value in usage:
            self.remove(fr, value)
        for flavor, uses in topology_usage:
            topology = self.topologies.get(flavor)
            if topology is not None:
                topology.count(uses, -1)

    def free(self, fr: FlavorResource) -> int:
        """What can still be used, borrowing included; never below zero."""
        return max(0, self.available(fr))

    def fits(self, usage: Usage, topology_usage: TopologyUsage) -> FitsCheck:
        for fr, value in usage:
            if self.free(fr) < value:
                return FitsCheck.NO_QUOTA
        for flavor, uses in topology_usage:
            if not self.topologies[flavor].fits(uses):
                return FitsCheck.NO_TOPOLOGY
        return FitsCheck.OK

    def find_domains(
        self, requests: RequestsByFlavor, workload: Workload, options: SearchOptions
    ) -> TopologyResults:
        """Where the pods could go, flavor by flavor."""
        results: TopologyResults = {}
        if not requests:
            return results
        shared: dict[str, Resources] | None = {} if self.gates.tas_handle_overlapping_flavors else None
        for flavor in sorted(requests):
            topology = self.topologies[flavor]
            assumed = shared if shared is not None and topology.is_lowest_level_node else {}
            found = find_for_flavor(topology, requests[flavor], workload, options, assumed, self.gates)
            for name, result in found.items():
                results[name] = result._replace(flavor=flavor)
        return results


def _listed(spec: ClusterQueue) -> tuple[tuple[str, tuple[FlavorResource, ...]], ...]:
    """Its flavors with what they are counted in, in the order in which a status lists them."""
    return tuple(
        (flavor, tuple([flavor_resource(flavor, resource) for resource in sorted(group.covered)]))
        for group in spec.groups
        for flavor in group.flavors
    )


class Accounts:
    """The whole of it. Configuration goes in through `set_…` and `drop_…`; call `settle` before a cycle."""

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self.gates = gates
        self.flavors: dict[str, ResourceFlavor] = {}
        self.queues: dict[str, QueueAccount] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        self.topologies: dict[str, FlavorTopology] = {}
        self.holders: dict[str, Workload] = {}
        self._queue_specs: dict[str, ClusterQueue] = {}
        self._cohort_specs: dict[str, Cohort] = {}
        self._topology_specs: dict[str, Topology] = {}
        self._checks: dict[str, AdmissionCheck] = {}
        self._nodes: dict[str, TopologyNode] = {}
        self._foreign: dict[str, Resources] = {}
        self._changed: dict[str, None] = {}
        self._unread: dict[str, None] = {}
        self._half_read: dict[str, None] = {}
        """ClusterQueues that came while their cohorts formed a cycle: Kueue stops reading them there, and they stay
        inactive, whatever becomes of the cycle, until they, a flavor or a check change."""
        self._is_stale = False
        self._are_nodes_stale = False

    def controller_of_check(self, name: str) -> str:
        """Who works on this admission check; "" where it is not there."""
        found = self._checks.get(name)
        return "" if found is None else found.controller

    # Configuration

    def set_flavor(self, flavor: ResourceFlavor) -> None:
        self.flavors[flavor.name] = flavor
        self._half_read = {}
        self._is_stale = True

    def drop_flavor(self, name: str) -> None:
        self.flavors.pop(name, None)
        self._half_read = {}
        self._is_stale = True

    def set_cluster_queue(self, spec: ClusterQueue) -> None:
        old = self._queue_specs.get(spec.name)
        if old is None or (old.quotas, old.groups, old.cohort) != (spec.quotas, spec.groups, spec.cohort):
            self._changed[spec.name] = None
            if old is not None and old.cohort:
                self._changed["/" + old.cohort] = None
        if old is None:
            self._unread[spec.name] = None
        self._half_read.pop(spec.name, None)
        self._queue_specs[spec.name] = spec
        self._is_stale = True

    def drop_cluster_queue(self, name: str) -> None:
        if self._queue_specs.pop(name, None) is not None:
            self._is_stale = True

    def set_cohort(self, spec: Cohort) -> None:
        self._changed["/" + spec.name] = None
        self._cohort_specs[spec.name] = spec
        self._is_stale = True

    def drop_cohort(self, name: str) -> None:
        self._changed["/" + name] = None
        self._cohort_specs.pop(name, None)
        self._is_stale = True

    def set_topology(self, topology: Topology) -> None:
        self._topology_specs[topology.name] = topology
        self._is_stale = True

    def drop_topology(self, name: str) -> None:
        self._topology_specs.pop(name, None)
        self._is_stale = True

    def set_check(self, check: AdmissionCheck) -> None:
        self._checks[check.name] = check
        self._half_read = {}
        self._is_stale = True

    def drop_check(self, name: str) -> None:
        self._checks.pop(name, None)
        self._half_read = {}
        self._is_stale = True

    def set_node(self, node: TopologyNode) -> None:
        if self._nodes.get(node.name) != node:
            self._nodes[node.name] = node
            self._are_nodes_stale = True

    def drop_node(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._are_nodes_stale = True

    def set_foreign_usage(self, node: str, usage: Resources) -> None:
        """What pods outside topology-aware scheduling take of a node; their number under `pods`."""
        old = self._foreign.get(node) or {}
        if old != usage:
            self._foreign[node] = usage
            if not self._is_stale and not self._are_nodes_stale:
                for topology in self.topologies.values():
                    topology.take_foreign(node, old, -1)
                    topology.take_foreign(node, usage, 1)

    def foreign_usage(self, node: str) -> Resources:
        """What `set_foreign_usage` said last."""
        return self._foreign.get(node) or {}

    def queue_specs(self) -> Mapping[str, ClusterQueue]:
        """The ClusterQueues configured."""
        return self._queue_specs

    def cohort_names(self) -> dict[str, None]:
        """Every cohort that is there, or is named by a queue or a cohort."""
        names = {c: None for s in self._queue_specs.values() if (c := s.cohort)}
        names |= dict.fromkeys(self._cohort_specs)
        return names | {s.parent: None for s in self._cohort_specs.values() if s.parent}

    def top_of(self, cohort: str) -> str | None:
        """The root above a cohort; None where its way up never ends. O(depth)."""
        seen: dict[str, None] = {}
        at = cohort
        while at not in seen:
            seen[at] = None
            spec = self._cohort_specs.get(at)
            if spec is None or not spec.parent:
                return at
            at = spec.parent
        return None

    def settle(self) -> None:
        """Rebuild what the configuration changed: O(everything), or O(nodes) where only nodes did, else nothing."""
        if not self._is_stale and not self._are_nodes_stale:
            return
        self._build_topologies()
        if self._is_stale:
            self._build_tree()
        self._is_stale = self._are_nodes_stale = False
        self._connect_topologies()

    def copy(
        self,
        *,
        gates: FeatureGates | None = None,
        flavors: Mapping[str, ResourceFlavor] | None = None,
        spec: ClusterQueue | None = None,
    ) -> Accounts:
        """An independent copy; facts are shared. O(everything): the tree and the topologies are built anew.

        `gates`, `flavors`, `spec`: what is to be otherwise there; `spec` is of one ClusterQueue.
        """
        twin = Accounts(self.gates if gates is None else gates)
        twin.flavors = dict(self.flavors if flavors is None else flavors)
        twin.holders = dict(self.holders)
        twin._queue_specs = dict(self._queue_specs)
        if spec is not None:
            twin._queue_specs[spec.name] = spec
        twin._cohort_specs = dict(self._cohort_specs)
        twin._topology_specs = dict(self._topology_specs)
        twin._checks = dict(self._checks)
        twin._nodes = dict(self._nodes)
        twin._foreign = dict(self._foreign)
        twin._half_read = dict(self._half_read)
        twin._build_topologies()
        twin._build_tree()
        twin._connect_topologies()
        for name, queue in self.queues.items():
            if name in twin.queues:
                twin.queues[name].generation = queue.generation
        # What is not settled here has yet to be settled there.
        twin._changed = dict(self._changed)
        twin._unread = dict(self._unread)
        twin._is_stale = self._is_stale
        twin._are_nodes_stale = self._are_nodes_stale
        return twin

    def _connect_topologies(self) -> None:
        """Every queue knows the topologies of its flavors; what is held counts in their domains."""
        for queue in self.queues.values():
            flavors = (f for g in queue.spec.groups for f in g.flavors)
            queue.topologies = {f: self.topologies[f] for f in flavors if f in self.topologies}
        for workload in self.holders.values():
            if workload.topology_usage and workload.cluster_queue in self.queues:
                self._count_domains(workload, 1)

    def _build_topologies(self) -> None:
        self.topologies = {}
        if not self.gates.topology_aware_scheduling:
            return
        nodes = [self._nodes[name] for name in sorted(self._nodes)]
        for name in sorted(self.flavors):
            flavor = self.flavors[name]
            topology = self._topology_specs.get(flavor.topology)
            if topology is None or not topology.levels:
                continue
            chosen = nodes_of_flavor(nodes, flavor, topology)
            self.topologies[name] = FlavorTopology(topology, flavor, chosen, self._foreign)

    def _build_tree(self) -> None:
        generations = {name: queue.generation for name, queue in self.queues.items()}
        self.queues = {n: QueueAccount(self._queue_specs[n], self.gates) for n in sorted(self._queue_specs)}
        self.cohorts = {}
        for name in sorted(self.cohort_names()):
            spec = self._cohort_specs.get(name)
            self.cohorts[name] = (
                QuotaNode(name, {}) if spec is None else QuotaNode(name, spec.quotas, spec.fair_weight)
            )
        cyclic = frozenset(name for name in self.cohorts if self.top_of(name) is None)
        for name, cohort in self.cohorts.items():
            spec = self._cohort_specs.get(name)
            if spec is not None and spec.parent and name not in cyclic:
                _adopt(self.cohorts[spec.parent], cohort)
        for queue in self.queues.values():
            in_cycle = queue.spec.cohort in cyclic
            if queue.spec.cohort and not in_cycle:
                _adopt(self.cohorts[queue.spec.cohort], queue)
            queue.in_cycle = in_cycle
            if in_cycle and queue.spec.name in self._unread:
                self._half_read[queue.spec.name] = None
            self._describe(queue)
        self._unread = {}
        for workload in self.holders.values():
            of = self.queues.get(workload.cluster_queue)
            if of is not None:
                of.workloads[workload.key] = workload
                for fr, value in workload.usage:
                    of.usage[fr] = of.usage.get(fr, 0) + value
        for root in self._roots():
            settle(root)
        self._renew(generations)

    def _describe(self, queue: QueueAccount) -> None:
        spec = queue.spec
        flavors = [f for g in spec.groups for f in g.flavors]
        aware = {f for f in flavors if f in self.flavors and self.flavors[f].topology}
        queue.is_topology_only = all(f in aware for f in flavors)
        checks = {n: c for n in spec.admission_checks if (c := self._checks.get(n)) is not None}
        queue.has_multikueue_check = any(c.controller == MULTIKUEUE_CONTROLLER for c in checks.values())
        queue.provisioned_flavors = frozenset(
            flavor
            for name, check in checks.items()
            if check.controller == PROVISIONING_CONTROLLER
            for flavor in spec.admission_checks[name]
        )
        topologies = {f: self.flavors[f].topology for f in flavors if f in aware}
        queue.inactivity = inactivity_of(
            spec,
            missing_flavors=[f for f in flavors if f not in self.flavors],
            checks=self._checks,
            missing_topologies={f: t for f, t in topologies.items() if f not in self.topologies}
            if self.gates.topology_aware_scheduling
            else {},
        )
        if spec.name in self._half_read:
            queue.inactivity = Inactivity(ACTIVE_REASON, ACTIVE_MESSAGE)
        queue.is_active = queue.inactivity is None

    def _renew(self, generations: dict[str, int]) -> None:
        """Queues of a tree in which something changed move to a new generation."""
        moved = {self._node(name).root().name for name in self._changed if self._has_node(name)}
        for name, queue in self.queues.items():
            queue.generation = generations.get(name, 0) + (
                queue.root().name in moved or name not in generations
            )
        self._changed = {}

    def _has_node(self, name: str) -> bool:
        return name[1:] in self.cohorts if name.startswith("/") else name in self.queues

    def _node(self, name: str) -> QuotaNode:
        return self.cohorts[name[1:]] if name.startswith("/") else self.queues[name]

    def _roots(self) -> Iterator[QuotaNode]:
        yield from (c for c in self.cohorts.values() if c.parent is None)
        yield from (q for q in self.queues.values() if q.parent is None)

    # Workloads

    def hold(self, workload: Workload) -> None:
        """A workload holds quota from now on (again, where it did already with other facts)."""
        if workload.key in self.holders:
            self.release(workload.key)
        self.holders[workload.key] = workload
        queue = self.queues.get(workload.cluster_queue)
        if queue is not None and not self._is_stale:
            queue.workloads[workload.key] = workload
            for fr, value in workload.usage:
                queue.add(fr, value)
            if not self._are_nodes_stale:
                self._count_domains(workload, 1)

    def release(self, key: str) -> Workload | None:
        """It holds quota no longer."""
        workload = self.holders.pop(key, None)
        if workload is None or self._is_stale:
            return workload
        queue = self.queues.get(workload.cluster_queue)
        if queue is not None and queue.workloads.pop(key, None) is not None:
            for fr, value in workload.usage:
                queue.remove(fr, value)
            if not self._are_nodes_stale:
                self._count_domains(workload, -1)
            queue.generation += 1
        return workload

    def _count_domains(self, workload: Workload, sign: int) -> None:
        """Pods count on their nodes in every flavor that has those nodes."""
        for flavor, uses in workload.topology_usage:
            own = self.topologies.get(flavor)
            if own is None:
                continue
            if not self.gates.tas_handle_overlapping_flavors or not own.is_lowest_level_node:
                own.count(uses, sign)
                continue
            for topology in self.topologies.values():
                if topology.is_lowest_level_node:
                    topology.count(uses, sign)

    # What-ifs

    def take_out(self, workload: Workload) -> None:
        """As if it held nothing and were not there."""
        queue = self.queues[workload.cluster_queue]
        del queue.workloads[workload.key]
        queue.remove_usage(workload.usage, workload.topology_usage)

    def put_back(self, workload: Workload) -> None:
        queue = self.queues[workload.cluster_queue]
        queue.workloads[workload.key] = workload
        queue.add_usage(workload.usage, workload.topology_usage)

    def remove_usage_of(self, workloads: Iterable[Workload]) -> None:
        for workload in workloads:
            queue = self.queues[workload.cluster_queue]
            queue.remove_usage(workload.usage, workload.topology_usage)

    def add_usage_of(self, workloads: Iterable[Workload]) -> None:
        for workload in workloads:
            queue = self.queues[workload.cluster_queue]
            queue.add_usage(workload.usage, workload.topology_usage)


def _adopt(parent: QuotaNode, child: QuotaNode) -> None:
    child.parent = parent
    (parent.queues if child.is_queue else parent.cohorts).append(child)
