"""Which nodes may be disrupted, and what would it cost to?

A candidate's savings ratio is its price over the cost of moving its pods: the first to go save the most per pod
moved. A node is empty where moving its pods costs nothing.

Source: disruption/types.go NewCandidate; StateNode.ValidateNodeDisruptable; pkg/utils/disruption.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from fairway.kube.objects import Obj, meta_of
from fairway.provisioning.karpenter.disruption.evictions import Budget, budgets_of, why_not_evictable
from fairway.provisioning.karpenter.disruption.scene import BLOCKED, Notice, Scene
from fairway.provisioning.karpenter.instancetypes import InstanceType
from fairway.provisioning.karpenter.labels import (
    CAPACITY_TYPE,
    DO_NOT_DISRUPT,
    INSTANCE_TYPE,
    NODEPOOL,
    ZONE,
)
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.podfacts import is_reschedulable
from fairway.provisioning.karpenter.world import StateNode

GRACEFUL, EVENTUAL = "graceful", "eventual"
# The inherent cost of draining a node. Source: PerNodeBaseDisruptionCost.
BASE_COST = 1.0
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_COST_SCALE, _PRIORITY_SCALE, _MOST_COST = 2.0**27, 2.0**25, 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A node that may go. `price`: µ$ an hour, 0 where nobody offers it; `cost` of moving its pods."""

    node: StateNode
    pool: NodePool
    kind: InstanceType | None
    price: int
    cost: float
    reschedulable: tuple[Obj, ...]

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
        return self.cost <= BASE_COST


def candidates(scene: Scene, class_: str = GRACEFUL) -> tuple[list[Candidate], list[Notice]]:
    """The nodes that may be disrupted at all, in the order of the world, and why others may not."""
    budgets = budgets_of(scene.budgets)
    pools = {p.name: p for p in scene.world.pools}
    found, notices = [], []
    for node in scene.world.nodes:
        if node.name in scene.disrupting:
            continue
        why = _why_not(scene, node, pools, budgets, class_)
        if why is None:
            found.append(_candidate(scene, node, pools[node.pool]))
        elif node.is_managed:
            notices.append(Notice(f"Node/{node.name}", BLOCKED, why[:1].upper() + why[1:]))
    return found, notices


def _why_not(
    scene: Scene, node: StateNode, pools: dict[str, NodePool], budgets: tuple[Budget, ...], class_: str
) -> str | None:
    why = node_not_disruptable(node)
    if why is not None:
        return why
    fleet = scene.world.fleets.get(node.pool)
    if node.pool not in pools or fleet is None or not fleet.types:
        return f"NodePool not found (NodePool={node.pool})"
    grace = (node.claim_object.get("spec") or {}).get("terminationGracePeriod")
    if class_ == EVENTUAL and grace is not None:
        return None  # its pods may hold it up, but not for ever
    return why_not_evictable(node.pods, budgets, scene.now_us)


def node_not_disruptable(node: StateNode) -> str | None:
    if not node.is_managed:
        return "node isn't managed by karpenter"
    if not node.has_node:
        return "nodeclaim does not have an associated node"
    if not node.is_initialized:
        return "node isn't initialized"
    if node.is_marked_for_deletion:
        return "node is deleting or marked for deletion"
    if node.is_nominated:
        return "node is nominated for a pending pod"
    if (meta_of(node.node_object).get("annotations") or {}).get(DO_NOT_DISRUPT) == "true":
        return f'disruption is blocked through the "{DO_NOT_DISRUPT}" annotation'
    if not node.pool:
        return f"node doesn't have required label (label={NODEPOOL})"
    return None


def _candidate(scene: Scene, node: StateNode, pool: NodePool) -> Candidate:
    name = node.labels.get(INSTANCE_TYPE) or ""
    kind = next((t for t in scene.world.fleets[pool.name].types if t.name == name), None)
    zone, capacity_type = node.labels.get(ZONE) or "", node.labels.get(CAPACITY_TYPE) or ""
    price = kind.price_of(zone, capacity_type) if kind is not None else None
    moving = tuple(p for p in node.pods if is_reschedulable(p))
    cost = BASE_COST + sum(max(0.0, eviction_cost(p)) for p in moving)
    return Candidate(node, pool, kind, price or 0, cost, moving)


def eviction_cost(pod: Obj) -> float:
    """1, more or less by its deletion cost and its priority, from -10 to 10."""
    cost = 1.0
    raw = (meta_of(pod).get("annotations") or {}).get(DELETION_COST)
    if raw is not None:
        with suppress(ValueError):  # upstream logs it and goes on
            cost += float(raw) / _COST_SCALE
    priority = (pod.get("spec") or {}).get("priority")
    if priority is not None:
        cost += priority / _PRIORITY_SCALE
    return min(max(cost, -_MOST_COST), _MOST_COST)
