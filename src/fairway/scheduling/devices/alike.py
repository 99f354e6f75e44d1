"""Which nodes would give the same claims the same devices?

Two nodes are alike where their pools hold the same devices, by all that requests can ask of them, and the same of them
are taken. The allocator is asked at one of them; what it chose there is found at the others by its place. Devices that
several may share, or that take counters, are not compared here: such nodes stand for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.scheduling.devices.facts import Request
from fairway.scheduling.devices.pools import Pool
from fairway.scheduling.devices.search import Chosen, Solution
from fairway.scheduling.devices.usage import Usage

State = tuple[int, int]
"""The number of what a node's pools hold, and one bit for each device that is taken."""

_KINDS_KEPT: Final = 4096
_kinds: dict[tuple[tuple[str, bool, bool, tuple[int, ...]], ...], int] = {}
_last = [0]


def kind_of(pools: Sequence[Pool]) -> int:
    """One number for all pools that hold the same; 0: these are like no others."""
    held: list[tuple[str, bool, bool, tuple[int, ...]]] = []
    for pool in pools:
        shapes: list[int] = []
        for one in pool.slices:
            if not one.shape or one.where is None:
                return 0
            shapes.append(one.shape)
        held.append((pool.id.driver, pool.is_incomplete, bool(pool.invalid), tuple(shapes)))
    key = tuple(held)
    known = _kinds.get(key)
    if known is None:
        if len(_kinds) >= _KINDS_KEPT:
            _kinds.clear()
        _last[0] += 1
        known = _kinds[key] = _last[0]
    return known


def taken_of(pools: Sequence[Pool], usage: Usage) -> int:
    """Which devices are taken; -1 where somebody has a part of one. O(devices of the node)."""
    whole = usage.whole
    shares_some = bool(usage.parts or usage.shares)
    taken, bit = 0, 1
    for pool in pools:
        for one in pool.slices:
            for device in one.devices:
                if device.id in whole:
                    taken |= bit
                if shares_some and (device.id in usage.parts or device.id in usage.shares):
                    return -1
                bit <<= 1
    return taken


class Choice:
    """A solution by the places of its devices in the node's pools: by claim, (request, pool, slice, device)."""

    def __init__(self, pools: Sequence[Pool], solution: Solution) -> None:
        place = {
            id(device): (p, s, d)
            for p, pool in enumerate(pools)
            for s, one in enumerate(pool.slices)
            for d, device in enumerate(one.devices)
        }
        self._alternatives: Final = solution.alternatives
        self._has_alternatives: Final = solution.has_alternatives
        self._places: Final[tuple[tuple[tuple[Request, int, int, int], ...], ...]] = tuple(
            [tuple([(c.request, *place[id(c.device)]) for c in chosen]) for chosen in solution.devices]
        )

    def at(self, pools: Sequence[Pool]) -> Solution:
        """The same choice at a node that is alike."""
        devices: list[tuple[Chosen, ...]] = []
        for places in self._places:
            chosen: list[Chosen] = []
            for request, p, s, d in places:
                one = pools[p].slices[s]
                chosen.append(Chosen(request, one.devices[d], one, None))
            devices.append(tuple(chosen))
        return Solution(tuple(devices), self._alternatives, self._has_alternatives)
