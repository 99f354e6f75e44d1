"""Which nodes may be disrupted, and what would it cost to?

A candidate's savings ratio is its price over the cost of moving its pods: the first to go save the most per pod
moved. A node is empty where moving its pods costs nothing.

Source: disruption/types.go NewCandidate; StateNode.ValidateNodeDisruptable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairway.kube.objects import Obj, spec_of
from fairway.provisioning.karpenter.disruption.context import BLOCKED, DisruptionContext, Notice
from fairway.provisioning.karpenter.disruption.evictions import Budget, budgets_of, why_not_evictable
from fairway.provisioning.karpenter.instancetypes import InstanceType
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.statenode import StateNode

GRACEFUL: Final = "graceful"
EVENTUAL: Final = "eventual"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A node that may go. `price`: µ$ an hour, 0 where nobody offers it."""

    node: StateNode
    pool: NodePool
    kind: InstanceType | None
    price: int

    @property
    def cost(self) -> float:
        """Of moving its pods."""
        return self.node.pod_facts.cost

    @property
    def reschedulable(self) -> tuple[Obj, ...]:
        return self.node.pod_facts.movable

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def capacity_type(self) -> str:
        return self.node.labels.get(CAPACITY_TYPE) or ""

    @property
    def savings_ratio(self) -> float:
        return self.price / self.cost

    @property
    def is_empty(self) -> bool:
        return self.node.is_empty


def candidates(context: DisruptionContext, class_: str = GRACEFUL) -> tuple[list[Candidate], list[Notice]]:
    """The nodes that may be disrupted at all, in the order of the world, and why others may not. O(nodes)."""
    blocked = why_blocked(context, class_)
    return candidates_among(context, context.world.nodes, blocked), notices_of(context, blocked)


def candidates_among(
    context: DisruptionContext, nodes: Iterable[StateNode], blocked: Mapping[str, str]
) -> list[Candidate]:
    pools = {p.name: p for p in context.world.pools}
    return [
        _candidate(context, node, pools[node.pool])
        for node in nodes
        if node.name not in context.disrupting and node.name not in blocked
    ]


def notices_of(context: DisruptionContext, blocked: Mapping[str, str]) -> list[Notice]:
    """What is said of the nodes that are blocked; nodes that Karpenter does not manage hear nothing."""
    return [
        Notice(f"Node/{node.name}", BLOCKED, why[:1].upper() + why[1:])
        for node in context.world.nodes.named(blocked)
        if node.is_managed and (why := blocked[node.name])
    ]


def why_blocked(context: DisruptionContext, class_: str = GRACEFUL) -> dict[str, str]:
    """Why nodes may not be disrupted, by name. O(nodes that may be blocked)."""
    budgets = budgets_of(context.budgets)
    pools = {p.name for p in context.world.pools if _has_types(context, p.name)}
    blocked = {}
    for node in _may_be_blocked(context, pools):
        if node.name not in context.disrupting:
            why = _why_not(context, node, pools, budgets, class_)
            if why is not None:
                blocked[node.name] = why
    return blocked


def _may_be_blocked(context: DisruptionContext, pools: set[str]) -> Iterable[StateNode]:
    """Without budgets for pods only what a node or its pods say of themselves stands in the way."""
    nodes = context.world.nodes
    if context.budgets or not nodes.used.keys() <= pools:
        return nodes
    return nodes.named({**nodes.barred, **nodes.held})


def _has_types(context: DisruptionContext, pool: str) -> bool:
    fleet = context.world.fleets.get(pool)
    return fleet is not None and bool(fleet.types)


def _why_not(
    context: DisruptionContext, node: StateNode, pools: set[str], budgets: tuple[Budget, ...], class_: str
) -> str | None:
    why = context.world.nodes.barred.get(node.name)
    if why is not None:
        return why
    if node.pool not in pools:
        return f"NodePool not found (NodePool={node.pool})"
    grace = spec_of(node.claim_facts.object).get("terminationGracePeriod")
    if class_ == EVENTUAL and grace is not None:
        return None  # its pods may hold it up, but not for ever
    return why_not_evictable(node.pods, budgets, context.now_us)


def _candidate(context: DisruptionContext, node: StateNode, pool: NodePool) -> Candidate:
    kind = context.world.fleets[pool.name].named(node.labels.get(INSTANCE_TYPE) or "")
    zone, capacity_type = node.labels.get(ZONE) or "", node.labels.get(CAPACITY_TYPE) or ""
    price = kind.price_of(zone, capacity_type) if kind is not None else None
    return Candidate(node, pool, kind, price or 0)
