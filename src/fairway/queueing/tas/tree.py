"""The domains of a topology, from the widest level down to leaves, and what the leaves have free.

A leaf is a node where the lowest level is the hostname, else all nodes with the same labels together. Domains
carry the counts of the search in progress; they mean nothing between searches.

Source: pkg/cache/scheduler/tas_topology_tree.go, tas_flavor_snapshot.go, tas_nodes_cache.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairway.kube.resources import PODS, Resources
from fairway.queueing.facts.objects import HOSTNAME_LABEL, ResourceFlavor, Topology, TopologyNode
from fairway.queueing.facts.podsets import TopologyRequest
from fairway.queueing.facts.topologyassignments import domain_id
from fairway.queueing.facts.workloads import DomainUse

# More pods than any domain holds. Source: math.MaxInt32.
MANY_PODS: Final = 2**31 - 1


class Domain:
    """`values`: its labels at every level down to its own. The rest are counts of the search in progress.

    `pods`, `slices`: how many fit; `…_with_leader`: how many beside the leader pod; `leaders`: 1 where it fits.
    """

    __slots__ = (
        "affinity",
        "children",
        "id",
        "leaders",
        "parent",
        "pods",
        "pods_with_leader",
        "slices",
        "slices_with_leader",
        "values",
    )

    def __init__(self, identity: str, values: tuple[str, ...]) -> None:
        self.id = identity
        self.values = values
        self.parent: Domain | None = None
        self.children: list[Domain] = []
        self.clear()

    def clear(self) -> None:
        self.pods = self.slices = self.pods_with_leader = self.slices_with_leader = self.leaders = 0
        self.affinity = 0

    def copy(self, parent: Domain | None = None) -> Domain:
        """The domain and all below it, counts included."""
        twin = Domain(self.id, self.values)
        twin.parent = parent
        twin.pods, twin.pods_with_leader = self.pods, self.pods_with_leader
        twin.slices, twin.slices_with_leader = self.slices, self.slices_with_leader
        twin.leaders, twin.affinity = self.leaders, self.affinity
        twin.children = [child.copy(twin) for child in self.children]
        return twin


class Leaf(Domain):
    """`capacity`: allocatable less what pods outside the topology take; `used`: by topology-aware workloads."""

    __slots__ = ("capacity", "node", "used")

    def __init__(self, identity: str, values: tuple[str, ...]) -> None:
        super().__init__(identity, values)
        self.capacity: Resources = {}
        self.used: Resources = {}
        self.node: TopologyNode | None = None

    def remaining(self) -> Resources:
        """What is free, as a new vector."""
        free = dict(self.capacity)
        for name, value in self.used.items():
            free[name] = free.get(name, 0) - value
        return free


class FlavorTopology:
    """The topology of one flavor over its nodes. O(nodes × levels) to build."""

    def __init__(
        self,
        topology: Topology,
        flavor: ResourceFlavor,
        nodes: Sequence[TopologyNode],
        foreign: Mapping[str, Resources],
    ) -> None:
        self.name = topology.name
        self.levels = topology.levels
        self.tolerations = flavor.tolerations
        self.is_lowest_level_node = self.levels[-1] == HOSTNAME_LABEL
        self.leaves: dict[str, Leaf] = {}
        self.leaf_of_node: dict[str, Leaf] = {}
        self.roots: list[Domain] = []
        self.per_level: list[dict[str, Domain]] = [{} for _ in self.levels]
        # Node selection → leaves it allows; nodes are fixed for the life of this object.
        self.matches: dict[Any, Any] = {}
        for node in nodes:
            self._add(node, foreign.get(node.name))
        for leaf in self.leaves.values():
            self.per_level[-1][leaf.id] = leaf
            self._connect(leaf)

    def _add(self, node: TopologyNode, foreign: Resources | None) -> None:
        values = tuple(node.labels.get(level, "") for level in self.levels)
        identity = values[-1] if self.is_lowest_level_node else domain_id(values)
        leaf = self.leaves.get(identity)
        if leaf is None:
            leaf = self.leaves[identity] = Leaf(identity, values)
            if self.is_lowest_level_node:
                leaf.node = node
        self.leaf_of_node[node.name] = leaf
        for name, value in node.allocatable.items():
            leaf.capacity[name] = leaf.capacity.get(name, 0) + value
        self.take_foreign(node.name, foreign or {}, 1)

    def take_foreign(self, node: str, usage: Mapping[str, int], sign: int) -> None:
        """Pods outside the topology take this of a node (+1), or give it back (-1)."""
        leaf = self.leaf_of_node.get(node)
        if leaf is not None:
            for name, value in usage.items():
                leaf.capacity[name] = leaf.capacity.get(name, 0) - sign * value

    def _connect(self, domain: Domain) -> None:
        """Hang a domain below its parent, making parents as needed."""
        above = domain.values[:-1]
        if not above:
            self.roots.append(domain)
            return
        identity = domain_id(above)
        level = self.per_level[len(above) - 1]
        parent = level.get(identity)
        if parent is None:
            parent = level[identity] = Domain(identity, above)
            self._connect(parent)
        domain.parent = parent
        parent.children.append(domain)

    def count(self, uses: Iterable[DomainUse], sign: int) -> None:
        """Take pods into account (+1) or out of it (-1); domains that are not here are passed over."""
        for use in uses:
            leaf = self.leaves.get(domain_id(use.values))
            if leaf is None:
                continue
            used = leaf.used
            pods = sign * use.pods
            for name, value in use.per_pod.items():
                used[name] = used.get(name, 0) + value * pods
            used[PODS] = used.get(PODS, 0) + pods

    def fits(self, uses: Iterable[DomainUse]) -> bool:
        """Whether each domain has room for its pods, each use for itself."""
        for use in uses:
            leaf = self.leaves.get(domain_id(use.values))
            if leaf is None or pods_in(use.per_pod, leaf.remaining())[0] < use.pods:
                return False
        return True

    def level_index(self, label: str) -> int:
        """-1: there is no such level."""
        return self.levels.index(label) if label in self.levels else -1

    def level_key(self, request: TopologyRequest | None) -> str:
        """The level the request is about; empty where it names none."""
        if request is None:
            return ""
        if request.required or request.preferred:
            return request.required or request.preferred
        if request.slices:
            return self.levels[0]
        return self.levels[-1] if request.unconstrained else ""

    def slice_level_key(self, request: TopologyRequest | None) -> str:
        return request.slices[0].topology if request is not None and request.slices else self.levels[-1]

    def has_level(self, request: TopologyRequest) -> bool:
        key = self.level_key(request)
        return (
            bool(key)
            and key in self.levels
            and self.slice_level_key(request) in self.levels
            and all(layer.topology in self.levels for layer in request.slices)
        )


def nodes_of_flavor(
    nodes: Iterable[TopologyNode], flavor: ResourceFlavor, topology: Topology
) -> list[TopologyNode]:
    """Ready, schedulable nodes with the labels of the flavor and every level of the topology."""
    return [
        node
        for node in nodes
        if node.is_schedulable_and_ready
        and all(node.labels.get(k, "") == v for k, v in flavor.node_labels.items())
        and all(level in node.labels for level in topology.levels)
    ]


def pods_in(per_pod: Resources, free: Resources) -> tuple[int, str]:
    """How many pods fit, and the resource that limits them; none at all where the pod asks for nothing."""
    rooms = [
        (MANY_PODS if value == 0 else max(0, min(free.get(name, 0) // value, MANY_PODS)), name)
        for name, value in per_pod.items()
    ]
    return min(rooms, default=(0, ""))
