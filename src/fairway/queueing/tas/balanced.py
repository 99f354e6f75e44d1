"""Balanced placement: spread a preferred pod set evenly over as few domains as possible.

The threshold is the number of slices every chosen domain takes at least; the siblings that allow the largest
one win. Domains below it are pruned, on copies, so the counts of the topology stay as they are.

Source: pkg/cache/scheduler/tas_balanced_placement.go (gate TASBalancedPlacement).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fairway.queueing.tas.capacity import Plan, fill_up
from fairway.queueing.tas.levels import LevelFit
from fairway.queueing.tas.ranking import sorted_with_leader, sorted_without_leader
from fairway.queueing.tas.tree import Domain, FlavorTopology

_NO_SET: Final = "TAS Balanced Placement: Cannot find optimal domain set to fit the request"
_BELOW_THRESHOLD: Final = "TAS Balanced Placement: Not enough slices to meet the threshold"
_NOT_PLACED: Final = "TAS Balanced Placement: Not all slices or leaders could be placed"


class _Greedy(NamedTuple):
    """Taking the largest domains first: the one with the leader, and the others."""

    leading: list[Domain]
    others: list[Domain]

    @property
    def used(self) -> int:
        return len(self.leading) + len(self.others)


def place_balanced(topology: FlavorTopology, plan: Plan) -> LevelFit | None:
    """Domains with what each is to take; None where best fit has to do."""
    domains, threshold = _best_siblings(topology, plan)
    level = plan.requested_level
    if plan.requested_level < plan.slice_level:
        chosen = _fewest_domains(domains, plan, by_entropy=True)
        if chosen is None:
            return None
        domains = [child for domain in chosen for child in domain.children]
        level += 1
    placed = _place_slices(domains, plan, threshold)
    return None if isinstance(placed, str) else LevelFit(level, placed)


def _greedy(domains: Sequence[Domain], plan: Plan) -> _Greedy | None:
    ranked = sorted_with_leader(domains, plan, least_free=False)
    leading: list[Domain] = ranked[: plan.leaders]
    others: list[Domain] = []
    if sum(domain.leaders for domain in leading) < plan.leaders:
        return None
    slices_left = plan.slices - sum(domain.slices_with_leader for domain in leading)
    for domain in sorted_without_leader(ranked[plan.leaders :], plan, least_free=False):
        if slices_left <= 0 or domain.slices <= 0:
            break
        others.append(domain)
        slices_left -= domain.slices
    return None if slices_left > 0 else _Greedy(leading, others)


def _thresholds(plan: Plan, greedy: _Greedy) -> Sequence[int]:
    """What each domain takes at least, and what the last one could take beside the leader where that is less."""
    threshold = min([plan.slices // greedy.used, *(domain.slices_with_leader for domain in greedy.leading)])
    if not greedy.others:
        return (threshold,)
    last = greedy.others[-1]
    threshold = min(threshold, last.slices)
    return tuple(dict.fromkeys((threshold, min(threshold, last.slices_with_leader))))


def _best_siblings(topology: FlavorTopology, plan: Plan) -> tuple[list[Domain], int]:
    """Copies of the siblings on the requested level that allow the largest threshold, pruned to it."""
    best: list[Domain] = []
    best_threshold = best_count = 0
    for siblings in _sibling_groups(topology, plan.requested_level):
        lower = siblings
        if plan.requested_level < plan.slice_level:
            lower = [child for domain in siblings for child in domain.children]
        greedy = _greedy(lower, plan)
        if greedy is None or greedy.used == 0:
            continue
        for threshold in _thresholds(plan, greedy):
            candidates = [domain.copy() for domain in siblings]
            _prune(candidates, plan, threshold)
            after = _greedy(candidates, plan)
            if after is None:
                continue
            if threshold > best_threshold or (threshold == best_threshold and after.used < best_count):
                best, best_threshold, best_count = candidates, threshold, after.used
    return best, best_threshold


def _sibling_groups(topology: FlavorTopology, level: int) -> list[list[Domain]]:
    if level == 0:
        return [list(topology.per_level[0].values())]
    above = sorted(topology.per_level[level - 1].values(), key=lambda d: d.values)
    return [domain.children for domain in above]


def _prune(domains: Sequence[Domain], plan: Plan, threshold: int) -> None:
    for domain in domains:
        for child in domain.children:
            _prune_below(child, threshold)
        fill_up(domain, plan, plan.requested_level, {})
        _prune_below(domain, threshold)


def _prune_below(domain: Domain, threshold: int) -> None:
    if domain.slices < threshold:
        _clear(domain)
    elif domain.leaders > 0 and domain.slices_with_leader < threshold:
        _clear_leader(domain)


def _clear(domain: Domain) -> None:
    affinity = domain.affinity
    domain.clear()
    domain.affinity = affinity
    for child in domain.children:
        _clear(child)


def _clear_leader(domain: Domain) -> None:
    domain.pods_with_leader = domain.slices_with_leader = domain.leaders = 0
    for child in domain.children:
        _clear_leader(child)


def _fewest_domains(domains: Sequence[Domain], plan: Plan, *, by_entropy: bool) -> list[Domain] | None:
    """As few domains as greed needs, with as little room to spare as possible.

    Dynamic programme over (domains used, leaders left, pods left); the first way to a state is kept.
    """
    greedy = _greedy(domains, plan)
    if greedy is None:
        return None
    most = greedy.used
    ways: list[dict[int, dict[int, list[Domain]]]] = [{plan.leaders: {plan.slices * plan.slice_size: []}}]
    ways.extend({} for _ in range(most))
    for domain in sorted(domains, key=_capacity_and_entropy if by_entropy else _name):
        for used in range(most, 0, -1):
            for leaders in sorted(ways[used - 1]):
                for pods, before in ways[used - 1][leaders].items():
                    if leaders <= 0 and pods <= 0:
                        continue
                    way = [*before, domain]
                    if min(leaders, domain.leaders) > 0:
                        after = ways[used].setdefault(leaders - domain.leaders, {})
                        after.setdefault(pods - domain.pods_with_leader, way)
                    if domain.slices > 0:
                        after = ways[used].setdefault(leaders, {})
                        after.setdefault(pods - domain.pods, way)
    complete = {pods: way for pods, way in ways[most].get(0, {}).items() if pods <= 0}
    return complete[max(complete)] if complete else None


def _place_slices(domains: Sequence[Domain], plan: Plan, threshold: int) -> list[Domain] | str:
    """The threshold for each, the rest to the first with room; else why not. The first has the leader."""
    chosen = _fewest_domains(domains, plan, by_entropy=False)
    if chosen is None:
        return _NO_SET
    if plan.slices < len(chosen) * threshold:
        return _BELOW_THRESHOLD
    ranked = sorted_with_leader(chosen, plan, least_free=False)
    extra = plan.slices - len(ranked) * threshold
    for index, domain in enumerate(ranked):
        room = domain.slices_with_leader if index < plan.leaders else domain.slices
        more = min(room - threshold, extra)
        domain.slices = domain.slices_with_leader = threshold + more
        extra -= more
    return _NOT_PLACED if extra > 0 else ranked


def _name(domain: Domain) -> tuple[Any, ...]:
    return domain.values


def _capacity_and_entropy(domain: Domain) -> tuple[Any, ...]:
    return -domain.leaders, -domain.slices_with_leader, -_entropy(domain.children), domain.values


def _entropy(domains: Sequence[Domain]) -> float:
    total = sum(d.pods for d in domains)
    entropy = 0.0
    for domain in domains:
        if domain.pods > 0:
            share = domain.pods / total
            entropy += -share * math.log2(share)
    return entropy
