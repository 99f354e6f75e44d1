"""Who borrows from whom?

Kueue lends from a pool and keeps no book of whose quota it was. This is the reading that the tree of quotas
suggests: what a ClusterQueue uses beyond its own quota comes from the nearest cohort that has some to spare, first
from quota of that cohort's own, then from what its members leave unused (and may lend), each in proportion to it.

`twin.recorder.queuelending` does the same over time, on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.quota.quotatree import QuotaNode


class Loan(NamedTuple):
    """`lender`: a ClusterQueue, or `/name` of a cohort with quota of its own; empty: of nobody, for quota was taken
    away while it was in use."""

    borrower: str
    lender: str
    amount: int


class _Side(NamedTuple):
    """(name, amount) of those who need more and of those who have some to spare, in the order of the tree."""

    needs: list[tuple[str, int]]
    spares: list[tuple[str, int]]


def loans_of(root: QuotaNode, fr: FlavorResource) -> tuple[Loan, ...]:
    """The loans of one resource of one flavor in a whole tree; they add up to what is borrowed. Exact integers."""
    loans: list[Loan] = []
    left = _settled(root, fr, loans).needs
    loans.extend(Loan(name, "", amount) for name, amount in left if amount)
    return tuple(sorted(loans))


def _settled(node: QuotaNode, fr: FlavorResource, loans: list[Loan]) -> _Side:
    """What is left to need and to spare above this node, once its members helped each other out."""
    if node.is_queue:
        used, own, kept = node.usage.get(fr, 0), node.subtree.get(fr, 0), node.kept.get(fr, 0)
        return _Side([(node.name, max(0, used - own))], [(node.name, max(0, own - max(kept, used)))])
    needs: list[tuple[str, int]] = []
    spares: list[tuple[str, int]] = []
    for child in (*node.cohorts, *node.queues):
        side = _settled(child, fr, loans)
        needs += side.needs
        spares += side.spares
    quota = node.quotas.get(fr)
    own_pool = [(f"/{node.name}", quota.nominal if quota is not None else 0)]
    needs, own_pool = _matched(needs, own_pool, loans)
    needs, spares = _matched(needs, spares, loans)
    spares += own_pool
    limit = max(0, node.subtree.get(fr, 0) - node.kept.get(fr, 0))
    parts = apportioned(min(limit, _sum(spares)), [amount for _, amount in spares])
    return _Side(needs, [(name, part) for (name, _), part in zip(spares, parts, strict=True)])


def _matched(
    needs: list[tuple[str, int]], spares: list[tuple[str, int]], loans: list[Loan]
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Lend as much as both sides have; what is left of them."""
    moved = min(_sum(needs), _sum(spares))
    if not moved:
        return needs, spares
    got = apportioned(moved, [amount for _, amount in needs])
    gave = apportioned(moved, [amount for _, amount in spares])
    waiting = list(gave)
    for (borrower, _), amount in zip(needs, got, strict=True):
        # Each borrower takes of every lender its share of what is still to be given.
        for at, part in enumerate(apportioned(amount, waiting)):
            if part:
                loans.append(Loan(borrower, spares[at][0], part))
                waiting[at] -= part
    return (
        [(name, need - part) for (name, need), part in zip(needs, got, strict=True)],
        [(name, spare - part) for (name, spare), part in zip(spares, gave, strict=True)],
    )


def apportioned(amount: int, weights: Sequence[int]) -> list[int]:
    """A whole amount in proportion to weights, none above its weight: largest remainders first, then first come."""
    total = sum(weights)
    if total <= 0:
        return [0 for _ in weights]
    parts = [amount * weight // total for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(amount * weights[i] % total), i))
    for i in order[: amount - sum(parts)]:
        parts[i] += 1
    return parts


def _sum(side: Sequence[tuple[str, int]]) -> int:
    return sum(amount for _, amount in side)
