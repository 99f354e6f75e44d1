"""How many nodes of a NodePool may be disrupted now?

The smallest of its active budgets, less the nodes that are going or not ready. A budget with a schedule is active
for its duration after each start; one that cannot be read allows nothing.

Source: Budget.GetAllowedDisruptions, IsActive; disruption.BuildDisruptionBudgetMapping.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairway.kube.cron import ScheduleError, parse
from fairway.provisioning.karpenter.disruption.context import BLOCKED, DisruptionContext, Notice
from fairway.provisioning.karpenter.nodepools import Budget, NodePool
from fairway.provisioning.karpenter.nodes import Standing

UNBOUNDED: Final = 2**31 - 1


def allowed_disruptions(pool: NodePool, reason: str, nodes: int, now_us: int) -> int:
    """Of so many nodes, for this reason."""
    applying = (b for b in pool.budgets if b.reasons is None or reason in b.reasons)
    return min((_allowed(b, nodes, now_us) for b in applying), default=UNBOUNDED)


def _allowed(budget: Budget, nodes: int, now_us: int) -> int:
    try:
        if not is_active(budget, now_us):
            return UNBOUNDED
        if budget.nodes.endswith("%"):
            return -(-nodes * int(budget.nodes[:-1]) // 100)  # rounded up, as PDBs are
        return int(budget.nodes)
    except (ScheduleError, ValueError):
        return 0


def is_active(budget: Budget, now_us: int) -> bool:
    """Raises: ScheduleError."""
    if budget.schedule is None:
        return True
    started_us = parse(budget.schedule).next_us(now_us - budget.duration_us)
    return started_us is not None and started_us <= now_us


def changes_at_us(budget: Budget, now_us: int) -> int | None:
    """When a scheduled budget begins or ceases to hold; None: it always holds, or cannot be read."""
    if budget.schedule is None:
        return None
    try:
        schedule = parse(budget.schedule)
    except ScheduleError:
        return None
    starts_us, started_us = schedule.next_us(now_us), schedule.next_us(now_us - budget.duration_us)
    ends_us = None if started_us is None else started_us + budget.duration_us
    return min((t for t in (starts_us, ends_us) if t is not None and t > now_us), default=None)


def next_change_us(pools: Iterable[NodePool], now_us: int) -> int | None:
    """When the first of these NodePools' scheduled budgets begins or ceases to hold."""
    changes = (changes_at_us(budget, now_us) for pool in pools for budget in pool.budgets)
    return min((at_us for at_us in changes if at_us is not None), default=None)


def budget_left(context: DisruptionContext, reason: str) -> tuple[dict[str, int], list[Notice]]:
    """Per NodePool: how many more nodes may go for this reason."""
    left, notices = {}, []
    for pool in context.world.pools:
        standing = context.world.nodes.standing.get(pool.name) or Standing()
        allowed = allowed_disruptions(pool, reason, standing.nodes, context.now_us)
        left[pool.name] = max(allowed - standing.going, 0)
        if standing.nodes and allowed == 0:
            text = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
            notices.append(Notice(f"NodePool/{pool.name}", BLOCKED, text))
    return left, notices
