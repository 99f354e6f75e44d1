"""How many pods should the new and the stable version have now?

Without a traffic router the share of pods is the share of traffic; with one, the stable version keeps its pods until
the end and the canary has as many as its weight asks for.

Source: utils/replicaset/canary.go.
"""

from __future__ import annotations

import math
from typing import Any

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
    scale = _canary_scale(facts)
    if scale.get("replicas") is not None:
        return int(scale["replicas"]), 0
    given = scale.get("weight")
    return None, facts.weight_now() if given is None else int(given)


def _canary_scale(facts: Facts) -> dict[str, Any]:
    """The last setCanaryScale up to here. It has a meaning only with a traffic router."""
    if not facts.routes_traffic or facts.is_aborted or facts.index == len(facts.steps):
        return {}
    said = (step.get("setCanaryScale") for step in reversed(facts.steps[: facts.index + 1]))
    scale: dict[str, Any] = next((one for one in said if one is not None), {})
    return {} if scale.get("matchTrafficWeight") else scale


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
    before = None if facts.stable is facts.new else facts.stable
    want_new, want_stable = (
        _shared(facts.replicas, weight, surge) if before is not None else (facts.replicas, 0)
    )
    new, stable = replicas_of(facts.new), replicas_of(before)
    older = sum(map(replicas_of, facts.others))
    most = facts.replicas + surge
    spare = most - (older + new + stable)
    grown_stable = max(stable, min(stable + spare, want_stable))
    grown_new = max(new, min(new + spare - (grown_stable - stable), want_new))
    least = facts.replicas - facts.limit("maxUnavailable")
    is_growing = want_new >= new
    drained, kept = (before, facts.new) if is_growing else (facts.new, before)
    holds = replicas_of(drained) + min(replicas_of(kept), available_of(kept))
    if older > 0 or drained is None or holds <= least:
        return grown_new, grown_stable
    if is_growing:
        left = max(want_stable, stable - (holds - least))
        stable, new = _within(drained, kept, left, grown_new, most, least)
    else:
        left = max(want_new, new - (holds - least))
        new, stable = _within(drained, kept, left, grown_stable, most, least)
    return new, stable


def _within(
    drained: Obj, kept: Obj | None, drained_count: int, kept_count: int, most: int, least: int
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
