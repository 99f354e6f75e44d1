"""Dominant resource share: how much of the cohort's lendable resources does a node borrow, by its weight?

Source: pkg/cache/scheduler/fair_sharing.go; KEP-1714 (fair sharing).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fairway.queueing.facts.amounts import MAX_INT64
from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.quota.quotatree import QuotaNode


class Share(NamedTuple):
    """`ratio`: thousandths of the lendable amount borrowed, of the resource where that is most.

    `weighted`: `ratio / weight`, infinite for weight 0 that borrows. `borrowed`: what is borrowed at all.
    """

    weighted: float
    ratio: float
    dominant: str
    borrowed: tuple[FlavorResource, ...]

    @property
    def is_borrowing(self) -> bool:
        return bool(self.borrowed)

    def is_borrowing_any_of(self, requests: Mapping[FlavorResource, int]) -> bool:
        return any(requests.get(fr, 0) > 0 for fr in self.borrowed)

    def order(self) -> tuple[bool, float]:
        """A key: larger shares later. Those of weight zero that borrow come last, by what they borrow."""
        if self.weighted == _INFINITE:
            return True, self.ratio
        return False, self.weighted


_INFINITE: Final = float("inf")
NO_SHARE: Final = Share(0.0, 0.0, "", ())
# Below every share there is.
BELOW_ALL: Final = Share(-1.0, -1.0, "", ())


def share_of(node: QuotaNode) -> Share:
    """The node's share; zero at the root, which borrows from nobody. O(flavors × resources of the node)."""
    parent = node.parent
    if parent is None:
        return NO_SHARE
    usage = node.usage
    borrowed: dict[str, int] = {}
    frs: list[FlavorResource] = []
    for fr, quota in node.subtree.items():
        over = usage.get(fr, 0) - quota
        if over > 0:
            borrowed[fr.resource] = borrowed.get(fr.resource, 0) + over
            frs.append(fr)
    if not frs:
        return NO_SHARE
    lendable = parent.lendable()
    ratio, dominant = 0.0, ""
    for resource, over in borrowed.items():
        available = min(lendable.get(resource, 0), MAX_INT64)
        if available > 0:
            part = min(over, MAX_INT64) * 1000.0 / available
            if part > ratio or (part == ratio and resource < dominant):
                ratio, dominant = part, resource
    if ratio == 0.0:
        weighted = 0.0
    elif node.fair_weight == 0:
        weighted = _INFINITE
    else:
        weighted = ratio / node.fair_weight
    return Share(weighted, ratio, dominant, tuple(frs))
