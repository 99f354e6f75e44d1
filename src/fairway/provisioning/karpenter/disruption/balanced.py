"""Under the policy Balanced: is a move worth the trouble?

Its share of the pool's cost saved, over its share of the pool's disruption cost, must reach a half. Each Balanced
pool that a command touches judges its own part; other policies let everything pass.

Source: disruption/balanced.go; designs/balanced-consolidation.md (k = 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.provisioning.karpenter.disruption.candidates import Candidate
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.disruption.context import DisruptionContext
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from fairway.provisioning.karpenter.nodepools import BALANCED
from fairway.provisioning.karpenter.statenode import StateNode

K: Final = 2


def is_worth_it(context: DisruptionContext, command: Command) -> bool:
    """Whether every Balanced pool the command takes nodes from approves."""
    pools = sorted({c.pool.name for c in command.candidates})
    source = sum(c.price for c in command.candidates)
    for name in pools:
        own = [c for c in command.candidates if c.pool.name == name]
        if own[0].pool.consolidation_policy != BALANCED:
            continue
        savings = float(command.savings)
        if source > 0 and len(pools) > 1:
            savings *= sum(c.price for c in own) / source
        if score(context, own, savings) < 1 / K:
            return False
    return True


def can_be_worth_it(context: DisruptionContext, candidate: Candidate) -> bool:
    """Whether a candidate of a Balanced pool would be approved if nothing had to replace it: else none of its moves is.

    Source: CanPassThreshold. A pool that costs nothing is not judged here.
    """
    if candidate.pool.consolidation_policy != BALANCED:
        return True
    found = score(context, [candidate], float(candidate.price))
    return found >= 1 / K or _cost(context, candidate.pool.name) <= 0


def score(context: DisruptionContext, own: Sequence[Candidate], savings: float) -> float:
    """Savings as a share of the pool's cost, over disruption as a share of the pool's."""
    pool = own[0].pool.name
    cost = _cost(context, pool)
    disruption = sum(n.pod_facts.cost for n in context.world.nodes if n.pool == pool)
    if cost <= 0 or disruption <= 0 or savings <= 0:
        return 0.0
    return (savings / cost) / (sum(c.cost for c in own) / disruption)


def _cost(context: DisruptionContext, pool: str) -> int:
    """What a pool's nodes cost, µ$ an hour."""
    return sum(_price(context, n) for n in context.world.nodes if n.pool == pool)


def _price(context: DisruptionContext, node: StateNode) -> int:
    fleet = context.world.fleets.get(node.pool)
    kind = fleet.named(node.labels.get(INSTANCE_TYPE) or "") if fleet is not None else None
    if kind is None:
        return 0
    return kind.price_of(node.labels.get(ZONE) or "", node.labels.get(CAPACITY_TYPE) or "") or 0
