"""In which order are domains looked at, and which one fits best?

Source: pkg/cache/scheduler/tas_flavor_snapshot.go sortedDomains…, findBestFitDomain….
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairway.queueing.tas.capacity import Plan
from fairway.queueing.tas.tree import Domain


def sorted_with_leader(
    domains: Sequence[Domain], plan: Plan, *, least_free: bool | None = None
) -> list[Domain]:
    """Those that can take the leader first, then by slices beside it: most first, or fewest for least free."""
    is_least_first = plan.uses_least_free if least_free is None else least_free

    def rank(d: Domain) -> tuple[Any, ...]:
        affinity = -d.affinity * plan.respects_preferences
        slices = d.slices_with_leader if is_least_first else -d.slices_with_leader
        return (-d.leaders, affinity, slices, d.pods_with_leader, d.values)

    return sorted(domains, key=rank)


def sorted_without_leader(
    domains: Sequence[Domain], plan: Plan, *, least_free: bool | None = None
) -> list[Domain]:
    """By slices: most first, or fewest for least free; then fewest pods, then names."""
    is_least_first = plan.uses_least_free if least_free is None else least_free

    def rank(d: Domain) -> tuple[Any, ...]:
        affinity = -d.affinity * plan.respects_preferences
        return (affinity, d.slices if is_least_first else -d.slices, d.pods, d.values)

    return sorted(domains, key=rank)


def best_fit_for_slices(domains: Sequence[Domain], slices: int, leaders: int, plan: Plan) -> Domain:
    """The one with the fewest slices that are enough; the first where none is."""
    if leaders > 0:
        return _best_fit(domains, slices, leaders, lambda d: d.slices_with_leader, plan)
    return _best_fit(domains, slices, leaders, lambda d: d.slices, plan)


def best_fit_for_pods(domains: Sequence[Domain], pods: int, leaders: int, plan: Plan) -> Domain:
    if leaders > 0:
        return _best_fit(domains, pods, leaders, lambda d: d.pods_with_leader, plan)
    return _best_fit(domains, pods, leaders, lambda d: d.pods, plan)


def _best_fit(
    domains: Sequence[Domain], needed: int, leaders: int, count: Callable[[Domain], int], plan: Plan
) -> Domain:
    candidates = domains
    if plan.respects_preferences:
        top = domains[0].affinity
        end = next((i for i, d in enumerate(domains) if d.affinity != top), len(domains))
        candidates = domains[:end]
    best = candidates[0]
    fewest: int | None = None
    for domain in candidates:
        if domain.leaders < leaders:
            continue
        has = count(domain)
        if has >= needed and (fewest is None or has < fewest):
            best, fewest = domain, has
    return best


def leader_first(
    domains: Sequence[Domain], plan: Plan, pods: int, leaders: int, slice_size: int
) -> Sequence[Domain]:
    """The first domain that can take the leader without making the rest too small goes to the front.

    `slice_size` 0: count pods instead of slices.
    """
    if leaders == 0 or len(domains) < 2:
        return domains
    needed = pods // slice_size if slice_size else pods
    available = sum(d.slices if slice_size else d.pods for d in domains)
    for index, domain in enumerate(domains):
        if domain.leaders < leaders:
            continue
        lost = (
            domain.slices - domain.slices_with_leader if slice_size else domain.pods - domain.pods_with_leader
        )
        if available - lost < needed:
            continue
        if index == 0:
            return domains
        return [domain, *domains[:index], *domains[index + 1 :]]
    return domains
