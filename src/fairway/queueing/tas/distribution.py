"""How many pods does each of the chosen domains take?

Counts of the domains are lowered to what they are given.

Source: pkg/cache/scheduler/tas_flavor_snapshot.go updateCountsToMinimumGeneric, consumeWithLeadersGeneric.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.queueing.tas.capacity import Plan
from fairway.queueing.tas.ranking import best_fit_for_pods, best_fit_for_slices, leader_first
from fairway.queueing.tas.tree import Domain


def distribute(
    domains: Sequence[Domain], plan: Plan, *, pods: int, leaders: int, slice_size: int, by_slices: bool
) -> list[Domain]:
    """The domains used, in order, each lowered to its part of `pods`.

    `by_slices`: hand out whole slices of `slice_size` pods.
    """
    domains = leader_first(domains, plan, pods, leaders, slice_size if by_slices else 0)
    left = pods // slice_size if by_slices else pods
    used: list[Domain] = []
    for index, domain in enumerate(domains):
        rest = domains[index:]
        if leaders > 0:
            chosen, left, leaders, is_done = _take_with_leader(
                domain, rest, plan, left, leaders, slice_size if by_slices else 0
            )
            used.append(chosen)
            if is_done:
                return used
            continue
        if by_slices:
            if not plan.uses_least_free and domain.slices >= left:
                domain = best_fit_for_slices(rest, left, 0, plan)
            domain.leaders = 0
            used.append(domain)
            if domain.slices >= left:
                domain.pods, domain.slices = left * slice_size, left
                return used
            domain.pods = domain.slices * slice_size
            left -= domain.slices
            continue
        if not plan.uses_least_free and domain.pods >= left:
            domain = best_fit_for_pods(rest, left, 0, plan)
        domain.leaders = 0
        used.append(domain)
        if domain.pods >= left:
            domain.pods = left
            return used
        left -= domain.pods
    return []


def _take_with_leader(
    domain: Domain, rest: Sequence[Domain], plan: Plan, left: int, leaders: int, slice_size: int
) -> tuple[Domain, int, int, bool]:
    """The domain used, what is left of workers and leaders, and whether that was all."""
    with_leader = domain.slices_with_leader if slice_size else domain.pods_with_leader
    if not plan.uses_least_free and with_leader >= left and domain.leaders >= leaders:
        if slice_size:
            domain = best_fit_for_slices(rest, left, leaders, plan)
        else:
            domain = best_fit_for_pods(rest, left, leaders, plan)
        with_leader = domain.slices_with_leader if slice_size else domain.pods_with_leader
    per_unit = slice_size or 1
    if with_leader >= left and domain.leaders >= leaders:
        _give(domain, left, leaders, per_unit, in_slices=bool(slice_size))
        return domain, 0, 0, True
    taken = min(with_leader, left)
    leaders_taken = min(domain.leaders, leaders)
    _give(domain, taken, leaders_taken, per_unit, in_slices=bool(slice_size))
    if slice_size:
        domain.slices_with_leader = taken
    else:
        domain.pods_with_leader = taken
    return domain, left - taken, leaders - leaders_taken, False


def _give(domain: Domain, units: int, leaders: int, per_unit: int, *, in_slices: bool) -> None:
    if in_slices:
        domain.slices = units
    domain.leaders = leaders
    domain.pods = units * per_unit
