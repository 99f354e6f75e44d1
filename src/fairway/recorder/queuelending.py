"""How much of its quota does each ClusterQueue lend, over time? `queueing.lending`, on arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.quota.quotatree import QuotaNode
from fairway.recorder.steps import Floats

_Spares = list[tuple[str, Floats]]


def lent_in(root: QuotaNode, fr: FlavorResource, used: Mapping[str, Floats]) -> dict[str, Floats]:
    """By ClusterQueue below a root, at every moment of `used` (by ClusterQueue; all of one length)."""
    lent = {queue.name: np.zeros_like(used[queue.name]) for queue in root.subtree_queues()}
    _settle(root, fr, used, lent)
    return lent


def _settle(
    node: QuotaNode, fr: FlavorResource, used: Mapping[str, Floats], lent: dict[str, Floats]
) -> tuple[Floats, _Spares]:
    """What is left to need and to spare above this node, once its members helped each other out."""
    own, kept = float(node.subtree.get(fr, 0)), float(node.kept.get(fr, 0))
    if node.is_queue:
        usage = used[node.name]
        return np.maximum(usage - own, 0.0), [(node.name, np.maximum(own - np.maximum(usage, kept), 0.0))]
    need: Floats = np.zeros(len(next(iter(used.values()))))
    spares: _Spares = []
    for child in (*node.cohorts, *node.queues):
        its_need, its_spares = _settle(child, fr, used, lent)
        need = need + its_need
        spares += its_spares
    quota = node.quotas.get(fr)
    pool = np.full(len(need), float(quota.nominal if quota is not None else 0))
    of_pool = np.minimum(need, pool)
    need, pool = need - of_pool, pool - of_pool
    total = np.add.reduce([amount for _, amount in spares]) if spares else np.zeros(len(need))
    share = np.minimum(need, total) / np.where(total > 0, total, 1.0)
    for name, amount in spares:
        if name:
            lent[name] += amount * share
    spares = [*((name, amount * (1.0 - share)) for name, amount in spares), ("", pool)]
    need = need - np.minimum(need, total)
    left = np.add.reduce([amount for _, amount in spares])
    part = np.minimum(max(own - kept, 0.0), left) / np.where(left > 0, left, 1.0)
    return need, [(name, amount * part) for name, amount in spares]
