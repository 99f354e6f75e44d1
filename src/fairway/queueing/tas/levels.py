"""On which level, and in which of its domains, does a pod set go?

Best fit: the domain that has just enough; else the level above for a preference, or several domains of the
widest level. Without constraints, least free capacity first.

Source: pkg/cache/scheduler/tas_flavor_snapshot.go findLevelWithFitDomains, notFitMessage.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.queueing.tas.capacity import Plan
from fairway.queueing.tas.ranking import (
    best_fit_for_slices,
    leader_first,
    sorted_with_leader,
    sorted_without_leader,
)
from fairway.queueing.tas.tree import Domain, FlavorTopology


class LevelFit(NamedTuple):
    """Domains of one level that together have room."""

    level: int
    domains: list[Domain]


def fit_level(topology: FlavorTopology, plan: Plan, level: int) -> LevelFit | str:
    """Or why there are none."""
    domains = list(topology.per_level[level].values())
    if not domains:
        return f"no topology domains at level: {topology.levels[level]}"
    ranked = sorted_with_leader(domains, plan)
    top = ranked[0]
    if not plan.uses_least_free:
        top = best_fit_for_slices(ranked, plan.slices, plan.leaders, plan)
    if plan.uses_least_free:
        found = _least_free(ranked, plan)
        if found is not None:
            return LevelFit(level, [found])
    if _has_room(top, plan):
        return LevelFit(level, [top])
    if plan.is_required:
        return _required_elsewhere(topology, plan, level, ranked)
    if level > 0 and not plan.is_unconstrained:
        return fit_level(topology, plan, level - 1)
    return _over_several(topology, plan, level, ranked)


def _has_room(domain: Domain, plan: Plan) -> bool:
    return domain.slices_with_leader >= plan.slices and domain.leaders >= plan.leaders


def _least_free(ranked: list[Domain], plan: Plan) -> Domain | None:
    for domain in ranked:
        room = domain.slices
        if plan.leaders > 0:
            if domain.leaders < plan.leaders:
                continue
            room = domain.slices_with_leader
        if room >= plan.slices:
            return domain
    return None


def _required_elsewhere(
    topology: FlavorTopology, plan: Plan, level: int, ranked: list[Domain]
) -> LevelFit | str:
    """The preferred domain is too small: with preferences respected another one may still do."""
    if plan.respects_preferences:
        for index in range(1, len(ranked)):
            if _has_room(ranked[index], plan):
                best = best_fit_for_slices(ranked[index:], plan.slices, plan.leaders, plan)
                return LevelFit(level, [best])
    return _not_fit(topology, plan, level, ranked[0].slices)


def _over_several(topology: FlavorTopology, plan: Plan, level: int, ranked: list[Domain]) -> LevelFit | str:
    """As few domains as it takes, largest first, that of the leader before the others."""
    results: list[Domain] = []
    slices_left = plan.slices
    ordered = list(leader_first(ranked, plan, plan.count, plan.leaders, plan.slice_size))
    if plan.leaders > 0:
        domain = ordered[0]
        if domain.leaders < plan.leaders:
            return _not_fit(topology, plan, level, domain.leaders)
        if not plan.uses_least_free and domain.slices_with_leader >= slices_left:
            domain = best_fit_for_slices(ordered, slices_left, plan.leaders, plan)
        results.append(domain)
        slices_left -= domain.slices_with_leader
    others = sorted_without_leader(ordered[plan.leaders :], plan)
    for index, domain in enumerate(others):
        if slices_left <= 0:
            break
        if not plan.uses_least_free and domain.slices >= slices_left:
            domain = best_fit_for_slices(others[index:], slices_left, 0, plan)
        results.append(domain)
        slices_left -= domain.slices
    if slices_left > 0:
        return _not_fit(topology, plan, level, plan.slices - slices_left)
    return LevelFit(level, results)


def _not_fit(topology: FlavorTopology, plan: Plan, level: int, fitting: int) -> str:
    if plan.inner_sizes:
        return _not_fit_in_layers(topology, plan, level)
    unit = "pod" if plan.slice_size == 1 else "slice"
    if fitting == 0:
        text = f'topology "{topology.name}" doesn\'t allow to fit any of {plan.slices} {unit}(s)'
    else:
        text = f'topology "{topology.name}" allows to fit only {fitting} out of {plan.slices} {unit}(s)'
    return text + _excluded(plan)


def _not_fit_in_layers(topology: FlavorTopology, plan: Plan, level: int) -> str:
    best = min(topology.per_level[level].values(), key=lambda domain: (-domain.slices, domain.id))
    text = f'topology "{topology.name}" doesn\'t allow to fit'
    for layer in plan.layers:
        fit = _slices_below(best, level, topology.level_index(layer.topology), layer.size)
        text += f"; {fit}/{plan.count // layer.size} slice(s) fit on level {layer.topology}"
    return text + _excluded(plan)


def _slices_below(domain: Domain, level: int, target: int, size: int) -> int:
    if level == target:
        return domain.pods // size
    return sum(_slices_below(child, level + 1, target, size) for child in domain.children)


def _excluded(plan: Plan) -> str:
    excluded = plan.exclusions.text()
    return f". Total nodes: {plan.exclusions.total_nodes}; excluded: {excluded}" if excluded else ""
