"""How many pods should the new and the stable version have now?

Without a traffic router the share of pods is the share of traffic; with one, the stable version keeps its pods until
the end and the canary has as many as its weight asks for.

Source: utils/replicaset/canary.go.
"""

from __future__ import annotations

import math

from fairway.kube.objects import Obj
from fairway.workloads.rollouts.facts import MOST_WEIGHT, Facts, available_of, count_of, replicas_of


def wanted_counts(facts: Facts) -> tuple[int, int]:
    """Of the new version and of the stable one."""
    return _routed(facts) if facts.routes_traffic else _basic(facts)


def is_at_wanted(facts: Facts) -> bool:
    """Whether the step's pods are there, and in a basic canary those of older versions gone."""
    new, stable = wanted_counts(facts)
    if facts.new is None or replicas_of(facts.new) != new or available_of(facts.new) != new:
        return False
    if not (facts.routes_traffic and facts.canary.get("dynamicStableScale")):
        there = facts.stable is not None and replicas_of(facts.stable) == stable == count_of(facts.stable)
        if not there:
            return False
    return facts.routes_traffic or sum(map(available_of, facts.others)) == 0


def _scale_step(facts: Facts) -> tuple[int | None, int]:
    """What setCanaryScale says in pods, or None; and the weight that counts."""
    status = facts.status
    if status.get("promoteFull") or not status.get("stableRS") or facts.is_promoted:
        return None, MOST_WEIGHT
    if facts.is_aborted:
        return None, 0
    for step in reversed(facts.steps[: facts.index + 1] if facts.index < len(facts.steps) else []):
        scale = step.get("setCanaryScale")
        if scale is None:
            continue
        if scale.get("matchTrafficWeight"):
            break
        if scale.get("replicas") is not None:
            return int(scale["replicas"]), facts.weight_now()
        if scale.get("weight") is not None:
            return None, int(scale["weight"])
    return None, facts.weight_now()


def _pods(replicas: int, weight: int) -> int:
    return math.ceil(replicas * weight / MOST_WEIGHT)


def _routed(facts: Facts) -> tuple[int, int]:
    given, weight = _scale_step(facts)
    canary = given if given is not None else _at_least(facts, _pods(facts.replicas, weight))
    if not facts.canary.get("dynamicStableScale"):
        return canary, facts.replicas
    stable = _pods(facts.replicas, MOST_WEIGHT - weight)
    weights = (facts.status.get("canary") or {}).get("weights")
    if weights:
        stable = max(stable, _pods(facts.replicas, int(weights["stable"]["weight"])))
        if facts.is_aborted:
            canary = max(canary, _pods(facts.replicas, int(weights["canary"]["weight"])))
    return _at_least(facts, canary), _at_least(facts, stable)


def _at_least(facts: Facts, count: int) -> int:
    least = int(facts.canary.get("minPodsPerReplicaSet") or 0)
    return count if count == 0 else max(count, min(least, facts.replicas))


def _basic(facts: Facts) -> tuple[int, int]:
    _, weight = _scale_step(facts)
    surge = facts.limit("maxSurge")
    want_new, want_stable = _shared(facts.replicas, weight, surge)
    has_stable = facts.stable is not None and facts.stable is not facts.new
    new, stable = replicas_of(facts.new), replicas_of(facts.stable) if has_stable else 0
    if not has_stable:
        want_new, want_stable = facts.replicas, 0
    older = sum(map(replicas_of, facts.others))
    most = facts.replicas + surge
    spare = most - (older + new + stable)
    if has_stable and stable < want_stable and spare > 0:
        grown = min(stable + spare, want_stable)
        spare -= grown - stable
        stable = grown
    if new < want_new and spare > 0:
        new = min(new + spare, want_new)
    if older > 0:
        return new, stable
    least = facts.replicas - facts.limit("maxUnavailable")
    is_growing = facts.new is None or want_new >= replicas_of(facts.new)
    holds = _for_scale_down(facts.new, not is_growing)
    holds += _for_scale_down(facts.stable if has_stable else None, is_growing)
    if holds <= least:
        return new, stable
    if not is_growing:
        new = _drained(facts.new, want_new, holds - least, new)
        return _within(facts.new, facts.stable if has_stable else None, new, stable, most, least)
    if has_stable:
        stable = _drained(facts.stable, want_stable, holds - least, stable)
        stable, new = _within(facts.stable, facts.new, stable, new, most, least)
    return new, stable


def _for_scale_down(obj: Obj | None, ignores_availability: bool) -> int:
    asked = replicas_of(obj)
    return asked if ignores_availability or asked < available_of(obj) else available_of(obj)


def _drained(obj: Obj | None, wanted: int, spare: int, count: int) -> int:
    return max(wanted, replicas_of(obj) - spare) if obj is not None and replicas_of(obj) > wanted else count


def _within(
    drained: Obj | None, kept: Obj | None, drained_count: int, kept_count: int, most: int, least: int
) -> tuple[int, int]:
    """Both within maxSurge and maxUnavailable."""
    over = max(0, kept_count + drained_count - most)
    available = min(available_of(drained), drained_count)
    if kept is not None:
        kept_count -= over
        available += min(available_of(kept), kept_count)
        given_up = max(0, available_of(kept) - kept_count)
        kept_count += min(given_up, max(0, least - available))
        drained_count -= max(0, kept_count + drained_count - most)
    return drained_count, kept_count


def _shared(replicas: int, weight: int, surge: int) -> tuple[int, int]:
    """Whole pods whose share comes nearest to the weight; one pod more in all where a surge is allowed."""
    if replicas == 0:
        return 0, 0
    up, down = math.ceil(replicas * weight / MOST_WEIGHT), replicas * weight // MOST_WEIGHT
    may_be_none = weight in (0, MOST_WEIGHT) or (replicas == 1 and surge == 0)
    options = []
    for total in (replicas, replicas + 1) if surge > 0 else (replicas,):
        if total > replicas or up < replicas or may_be_none:
            options.append((up, total))
        if (total * weight * 2) % (2 * MOST_WEIGHT) != MOST_WEIGHT and (down != 0 or may_be_none):
            options.append((down, total))
    if not options:
        return 0, replicas
    canary, total = min(options, key=lambda o: abs(o[0] * MOST_WEIGHT / o[1] - weight))
    return canary, total - canary
