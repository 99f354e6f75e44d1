"""Balanced placement: spread a preferred pod set evenly over as few domains as possible.

The threshold is the number of slices every chosen domain takes at least; the siblings that allow the largest
one win. Domains below it are pruned, on copies, so the counts of the topology stay as they are.

Source: pkg/cache/scheduler/tas_balanced_placement.go (gate TASBalancedPlacement).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Final, NamedTuple

from fairway.queueing.tas.capacity import Plan, fill_up
from fairway.queueing.tas.levels import LevelFit
from fairway.queueing.tas.ranking import sorted_with_leader, sorted_without_leader
from fairway.queueing.tas.tree import Domain, FlavorTopology

_NO_SET: Final = "TAS Balanced Placement: Cannot find optimal domain set to fit the request"
_BELOW_THRESHOLD: Final = "TAS Balanced Placement: Not enough slices to meet the threshold"
_NOT_PLACED: Final = "TAS Balanced Placement: Not all slices or leaders could be placed"


class _Greedy(NamedTuple):
    """Taking the largest domains first: how many it takes, and the last of each kind."""

    used: int
    last_with_leader: Domain | None
    last: Domain | None


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
    slices_left, leaders_left, count = plan.slices, plan.leaders, 0
    last_with_leader = last = None
    at = 0
    if plan.leaders > 0:
        ranked = sorted_with_leader(domains, plan, least_free=False)
        while leaders_left > 0 and at < len(ranked) and ranked[at].leaders > 0:
            count += 1
            last_with_leader = ranked[at]
            leaders_left -= ranked[at].leaders
            slices_left -= ranked[at].slices_with_leader
            at += 1
        domains = ranked[at:]
    if leaders_left > 0:
        return None
    for domain in sorted_without_leader(domains, plan, least_free=False):
        if slices_left <= 0 or domain.slices <= 0:
            break
        count += 1
        last = domain
        slices_left -= domain.slices
    return None if slices_left > 0 else _Greedy(count, last_with_leader, last)


def _threshold(plan: Plan, greedy: _Greedy) -> int:
    threshold = plan.slices // greedy.used
    if greedy.last_with_leader is not None:
        threshold = min(threshold, greedy.last_with_leader.slices_with_leader)
    if greedy.last is not None:
        threshold = min(threshold, greedy.last.slices)
    return threshold


def _best_siblings(topology: FlavorTopology, plan: Plan) -> tuple[list[Domain], int]:
    """Copies of the siblings on the requested level that allow the largest threshold, pruned to it."""
    best: list[Domain] = []
    best_threshold = best_count = 0
    for siblings in _sibling_groups(topology, plan.requested_level):
        candidates = [domain.copy() for domain in siblings]
        lower = candidates
        if plan.requested_level < plan.slice_level:
            lower = [child for domain in candidates for child in domain.children]
        greedy = _greedy(lower, plan)
        if greedy is None or greedy.used == 0:
            continue
        threshold = _threshold(plan, greedy)
        reserved = threshold
        if plan.leaders > 0 and greedy.last is not None:
            reserved = min(threshold, greedy.last.slices_with_leader)
        _prune(candidates, plan, threshold)
        after = _greedy(candidates, plan)
        if after is None and reserved < threshold:
            if reserved <= 0 or reserved < best_threshold:
                continue
            threshold = reserved
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
        return [sorted(topology.per_level[0].values(), key=lambda d: d.values)]
    above = sorted(topology.per_level[level - 1].values(), key=lambda d: d.values)
    return [domain.children for domain in above]


def _prune(domains: Sequence[Domain], plan: Plan, threshold: int) -> None:
    needs_leader = plan.leaders > 0
    for domain in domains:
        for child in domain.children:
            _prune_below(child, threshold, needs_leader)
    for domain in domains:
        fill_up(domain, plan, plan.requested_level, {})
        _prune_below(domain, threshold, needs_leader)


def _prune_below(domain: Domain, threshold: int, needs_leader: bool) -> None:
    if domain.slices < threshold:
        _clear(domain)
    elif needs_leader and domain.leaders > 0 and domain.slices_with_leader < threshold:
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
    if by_entropy:
        ordered = sorted(domains, key=cmp_to_key(_by_capacity_and_entropy))
    else:
        ordered = sorted(domains, key=lambda d: d.values)
    most = greedy.used
    ways: list[dict[int, dict[int, list[Domain]]]] = [{} for _ in range(most + 1)]
    ways[0][plan.leaders] = {plan.slices * plan.slice_size: []}
    for domain in ordered:
        for used in range(most, 0, -1):
            for leaders in sorted(ways[used - 1]):
                for pods in sorted(ways[used - 1][leaders]):
                    if leaders <= 0 and pods <= 0:
                        continue
                    way = [*ways[used - 1][leaders][pods], domain]
                    if leaders > 0 and domain.leaders > 0:
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
    leaders_left = plan.leaders
    more = 0
    for domain in ranked:
        if leaders_left > 0:
            more = min(domain.slices_with_leader - threshold, extra)
            leaders_left -= 1
        elif extra > 0:
            more = min(domain.slices - threshold, extra)
            domain.leaders = 0
        else:
            domain.leaders = 0
            more = 0
        domain.slices = domain.slices_with_leader = threshold + more
        domain.pods = domain.slices * plan.slice_size
        domain.pods_with_leader = domain.pods - domain.leaders
        extra -= more
    return _NOT_PLACED if extra > 0 or leaders_left > 0 else ranked


def _by_capacity_and_entropy(a: Domain, b: Domain) -> int:
    if a.leaders != b.leaders:
        return b.leaders - a.leaders
    if a.slices_with_leader != b.slices_with_leader:
        return b.slices_with_leader - a.slices_with_leader
    of_a, of_b = _entropy(a.children), _entropy(b.children)
    if of_a != of_b:
        return 1 if of_b > of_a else -1
    return (a.values > b.values) - (a.values < b.values)


def _entropy(domains: Sequence[Domain]) -> float:
    total = sum(d.pods for d in domains)
    if total == 0:
        return 0.0
    entropy = 0.0
    for domain in domains:
        if domain.pods > 0:
            share = domain.pods / total
            entropy += -share * math.log2(share)
    return entropy
