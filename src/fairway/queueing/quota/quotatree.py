"""The tree of quotas: how much may a node still use, borrow and lend?

ClusterQueues are leaves, Cohorts inner nodes. A node's subtree quota is its own nominal quota plus what its
children lend; its usage is what its children could not cover from what they keep to themselves. Usage is
added and removed along one path, so a what-if costs the depth of the tree and removing what was added restores
every number.

Source: pkg/cache/scheduler/resource_node.go; KEP-79 (hierarchical cohorts).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairway.queueing.facts.objects import FlavorResource, Quota

Amounts = dict[FlavorResource, int]


class QuotaNode:
    """`subtree`: quota of the node with what its children lend. `kept`: what it never lends. `usage`: of both.

    `subtree` and `kept` change only when the configuration does (`settle`); `usage` through `add` and `remove`.
    """

    __slots__ = (
        "_height",
        "_lendable",
        "_potential",
        "borrowing_limits",
        "cohorts",
        "fair_weight",
        "is_active",
        "is_queue",
        "kept",
        "name",
        "over",
        "parent",
        "queues",
        "quotas",
        "subtree",
        "usage",
    )

    def __init__(
        self,
        name: str,
        quotas: Mapping[FlavorResource, Quota],
        fair_weight: float = 1.0,
        *,
        is_queue: bool = False,
    ) -> None:
        self.name = name
        self.is_queue = is_queue
        # A ClusterQueue that is not: its quota and usage count, nothing in it is decided or preempted.
        self.is_active = True
        self.fair_weight = fair_weight
        self.parent: QuotaNode | None = None
        self.cohorts: list[QuotaNode] = []
        self.queues: list[QuotaNode] = []
        self.usage: Amounts = {}
        # Children that use more than their own quota: they borrow, or lend less than they got.
        self.over: dict[FlavorResource, dict[QuotaNode, None]] = {}
        self.configure(quotas)

    def configure(self, quotas: Mapping[FlavorResource, Quota]) -> None:
        """Take new quotas; the tree is to be settled again after."""
        self.quotas = quotas
        self.borrowing_limits = {
            fr: q.borrowing_limit for fr, q in quotas.items() if q.borrowing_limit is not None
        }
        self.subtree: Amounts = {fr: q.nominal for fr, q in quotas.items()}
        self.kept: Amounts = {}
        self._potential: Amounts = {}
        self._lendable: dict[str, int] | None = None
        self._height: int | None = None

    def ancestors(self) -> Iterator[QuotaNode]:
        """From the parent up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> QuotaNode:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def path(self) -> str:
        """`/root/cohort/queue`."""
        names = [self.name, *(a.name for a in self.ancestors())]
        return "/" + "/".join(reversed(names))

    def subtree_queues(self) -> Iterator[QuotaNode]:
        """Every ClusterQueue below, in a fixed order."""
        yield from self.queues
        for cohort in self.cohorts:
            yield from cohort.subtree_queues()

    # Usage

    def add(self, fr: FlavorResource, value: int) -> None:
        """Count usage here and, where it exceeds what is kept, further up. O(depth)."""
        if value < 0:
            self._correct(fr, value)
            return
        node = self
        while True:
            used = node.usage.get(fr, 0)
            now = node.usage[fr] = used + value
            parent = node.parent
            if parent is None:
                return
            if used <= node.subtree.get(fr, 0) < now:
                parent.over.setdefault(fr, {})[node] = None
            free = node.kept.get(fr, 0) - used
            if free > 0:
                value -= free
                if value <= 0:
                    return
            node = parent

    def remove(self, fr: FlavorResource, value: int) -> None:
        """The inverse of `add`. O(depth)."""
        if value < 0:
            self._correct(fr, -value)
            return
        node = self
        while True:
            used = node.usage.get(fr, 0)
            now = node.usage[fr] = used - value
            parent = node.parent
            if parent is None:
                return
            if now <= node.subtree.get(fr, 0) < used:
                parent.over[fr].pop(node, None)
            passed_on = used - node.kept.get(fr, 0)
            if passed_on <= 0:
                return
            if passed_on < value:
                value = passed_on
            node = parent

    def _correct(self, fr: FlavorResource, by: int) -> None:
        """Less than nothing was added, and is taken back: it changes this node alone.

        What a queue beyond its borrowing limit reserves for a cycle is negative; Kueue passes on to the parent
        only what exceeds what is kept.
        """
        used = self.usage.get(fr, 0)
        now = self.usage[fr] = used + by
        if self.parent is None:
            return
        quota = self.subtree.get(fr, 0)
        if now <= quota < used:
            self.parent.over[fr].pop(self, None)
        elif used <= quota < now:
            self.parent.over.setdefault(fr, {})[self] = None

    def children_over(self, frs: Sequence[FlavorResource]) -> list[QuotaNode]:
        """Children that use more than their own quota of any of these, without inactive queues. O(those)."""
        if len(frs) == 1:
            return [child for child in self.over.get(frs[0], ()) if child.is_active]
        found: dict[QuotaNode, None] = {}
        for fr in frs:
            found |= self.over.get(fr, {})
        return [child for child in found if child.is_active]

    # Questions

    def local_available(self, fr: FlavorResource) -> int:
        """What is left of what this node keeps to itself."""
        return max(0, self.kept.get(fr, 0) - self.usage.get(fr, 0))

    def available(self, fr: FlavorResource) -> int:
        """What can still be used here, borrowing included; below zero where a cohort is overdrawn. O(depth)."""
        parent = self.parent
        used = self.usage.get(fr, 0)
        if parent is None:
            return self.subtree.get(fr, 0) - used
        free = parent.available(fr)
        kept = self.kept.get(fr, 0)
        limit = self.borrowing_limits.get(fr)
        if limit is not None:
            stored = self.subtree.get(fr, 0) - kept
            free = min(stored - max(0, used - kept) + limit, free)
        return max(0, kept - used) + free

    def potential(self, fr: FlavorResource) -> int:
        """What could be used here if nothing were in use anywhere."""
        found = self._potential.get(fr)
        if found is None:
            found = self._potential[fr] = self._compute_potential(fr)
        return found

    def _compute_potential(self, fr: FlavorResource) -> int:
        subtree = self.subtree.get(fr, 0)
        if self.parent is None:
            return subtree
        most = self.kept.get(fr, 0) + self.parent.potential(fr)
        limit = self.borrowing_limits.get(fr)
        return most if limit is None else min(subtree + limit, most)

    def borrows_with(self, fr: FlavorResource, value: int = 0) -> bool:
        """Whether usage with `value` more exceeds the node's own quota."""
        return self.subtree.get(fr, 0) < self.usage.get(fr, 0) + value

    def is_within_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        usage, subtree = self.usage, self.subtree
        for fr in frs:  # noqa: SIM110 - a generator costs more than the loop
            if usage.get(fr, 0) > subtree.get(fr, 0):
                return False
        return True

    def fits_in_quota(self, requests: Mapping[FlavorResource, int]) -> tuple[bool, Amounts]:
        """Whether the requests fit without borrowing, and what of them has to come from further up."""
        fits = all(self.subtree.get(fr, 0) >= self.usage.get(fr, 0) + v for fr, v in requests.items())
        return fits, {fr: max(0, v - self.local_available(fr)) for fr, v in requests.items()}

    def lendable(self) -> dict[str, int]:
        """Per resource, what could be used here over all flavors of the tree."""
        if self._lendable is None:
            total: dict[str, int] = {}
            for fr in self.root().subtree:
                total[fr.resource] = total.get(fr.resource, 0) + self.potential(fr)
            self._lendable = total
        return self._lendable

    def height(self) -> int:
        """0 for a cohort without children, 1 with ClusterQueues only, one more per level of cohorts.

        ClusterQueues that are not active are no children here.
        """
        if self._height is None:
            has_queues = any(queue.is_active for queue in self.queues)
            self._height = max([int(has_queues), *(cohort.height() + 1 for cohort in self.cohorts)])
        return self._height


def borrowing_height(queue: QuotaNode, fr: FlavorResource, value: int) -> tuple[int, bool]:
    """How far up the lowest subtree is in which `value` more fits, and whether a larger one could be reclaimed from.

    0: it fits in the queue's own quota. The second is False at the root: there is nobody left to reclaim from.
    """
    if not queue.borrows_with(fr, value) or queue.parent is None:
        return 0, queue.parent is not None
    left = value - queue.local_available(fr)
    node = queue.parent
    while True:
        if not node.borrows_with(fr, left):
            return node.height(), node.parent is not None
        left -= node.local_available(fr)
        if node.parent is None:
            return node.height(), False
        node = node.parent


def settle(root: QuotaNode) -> None:
    """Recompute subtree quotas and cohort usage below a root after the configuration changed. O(tree)."""
    node = root
    node.configure(node.quotas)
    node.over = {}
    if not node.is_queue:
        node.usage = {}
    for child in (*node.cohorts, *node.queues):
        settle(child)
        for fr, quota in child.subtree.items():
            node.subtree[fr] = node.subtree.get(fr, 0) + quota - child.kept.get(fr, 0)
        for fr, used in child.usage.items():
            node.usage[fr] = node.usage.get(fr, 0) + max(0, used - child.kept.get(fr, 0))
            if used > child.subtree.get(fr, 0):
                node.over.setdefault(fr, {})[child] = None
    for fr, own in node.quotas.items():
        if own.lending_limit is not None:
            node.kept[fr] = max(0, node.subtree[fr] - own.lending_limit)
