"""From what the metrics ask for to what is done: stabilization, policies, and the autoscaler's bounds.

Without a behaviour: the highest recommendation of the down-scale window, at most twice as many at once (or 4). With
one: the stabilization windows and the policies of either direction.

Source: horizontal.go normalizeDesiredReplicas, normalizeDesiredReplicasWithBehaviors, storeScaleEvent (v1.36).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fairway.autoscaling.hpa.memory import Memory, Recommendation, ScaleEvent
from fairway.autoscaling.hpa.wording import ceil32
from fairway.kube.timestamps import SECOND_US

_STABILIZED_DOWN = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_STABILIZED_UP = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_UP_LIMIT = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_DOWN_LIMIT = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_READY = ("ReadyForNewScale", "recommended size matches current size")

# At most so many times as many, or so many, at once. Source: scaleUpLimitFactor, scaleUpLimitMinimum.
_UP_FACTOR, _UP_MINIMUM = 2.0, 4.0

Said = tuple[str, str]
"""Reason and message of a condition."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What limits one decision."""

    current: int
    low: int
    high: int
    behavior: dict[str, Any] | None
    window_us: int
    """--horizontal-pod-autoscaler-downscale-stabilization."""


class Limited(NamedTuple):
    """What is done, the AbleToScale and ScalingLimited conditions, and what is remembered."""

    replicas: int
    able: Said
    limited: bool
    limit: Said
    memory: Memory


def limit(bounds: Bounds, desired: int, memory: Memory, now_us: int) -> Limited:
    """`desired`: what the metrics ask for."""
    if bounds.behavior is None:
        stable, remembered = _stabilized(bounds, desired, memory, now_us)
        able = _READY if stable == desired else _STABILIZED_DOWN
        replicas, limited_by = _within_bounds(bounds, stable)
    else:
        stable, remembered = _stabilized_both_ways(bounds, desired, memory, now_us)
        said = _STABILIZED_UP if desired >= bounds.current else _STABILIZED_DOWN
        able = _READY if stable == desired else said
        replicas, limited_by = _within_policies(bounds, stable, memory, now_us)
    return Limited(replicas, able, replicas != stable, limited_by, remembered)


def _stabilized(bounds: Bounds, desired: int, memory: Memory, now_us: int) -> tuple[int, Memory]:
    known = memory.recommendations or ()
    cutoff_us = now_us - bounds.window_us
    highest, oldest = desired, None
    for number, recommendation in enumerate(known):
        if recommendation.at_us < cutoff_us:
            oldest = number
        elif recommendation.replicas > highest:
            highest = recommendation.replicas
    return highest, _remembering(memory, known, oldest, Recommendation(desired, now_us))


def _stabilized_both_ways(bounds: Bounds, desired: int, memory: Memory, now_us: int) -> tuple[int, Memory]:
    known = memory.recommendations or ()
    up_us = now_us - _window_us(bounds, "scaleUp")
    down_us = now_us - _window_us(bounds, "scaleDown")
    lowest = highest = desired
    oldest = None
    for number, (replicas, at_us) in enumerate(known):
        if at_us > up_us:
            lowest = min(lowest, replicas)
        if at_us > down_us:
            highest = max(highest, replicas)
        if at_us < up_us and at_us < down_us:
            oldest = number
    stable = min(max(bounds.current, lowest), highest)
    return stable, _remembering(memory, known, oldest, Recommendation(desired, now_us))


def _remembering(
    memory: Memory, known: tuple[Recommendation, ...], oldest: int | None, new: Recommendation
) -> Memory:
    if oldest is None:
        return replace(memory, recommendations=(*known, new))
    return replace(memory, recommendations=(*known[:oldest], new, *known[oldest + 1 :]))


def rules(behavior: dict[str, Any] | None, direction: str) -> dict[str, Any]:
    return (behavior or {}).get(direction) or {}


def _window_us(bounds: Bounds, direction: str) -> int:
    seconds = rules(bounds.behavior, direction).get("stabilizationWindowSeconds")
    if seconds is None:
        return bounds.window_us // SECOND_US * SECOND_US if direction == "scaleDown" else 0
    return int(seconds) * SECOND_US


def _within_bounds(bounds: Bounds, desired: int) -> tuple[int, Said]:
    fastest = int(max(_UP_FACTOR * bounds.current, _UP_MINIMUM))
    most, said = (fastest, _UP_LIMIT) if bounds.high > fastest else (bounds.high, _TOO_MANY)
    if desired < bounds.low:
        return bounds.low, _TOO_FEW
    return (most, said) if desired > most else (desired, _WITHIN)


def _within_policies(bounds: Bounds, desired: int, memory: Memory, now_us: int) -> tuple[int, Said]:
    current = bounds.current
    if desired > current:
        fastest = max(_allowed(bounds, memory, "scaleUp", now_us), current)
        most, said = (fastest, _UP_LIMIT) if bounds.high > fastest else (bounds.high, _TOO_MANY)
        if desired > most:
            return most, said
    elif desired < current:
        slowest = min(_allowed(bounds, memory, "scaleDown", now_us), current)
        least, said = (slowest, _DOWN_LIMIT) if bounds.low < slowest else (bounds.low, _TOO_FEW)
        if desired < least:
            return least, said
    return desired, _WITHIN


def _allowed(bounds: Bounds, memory: Memory, direction: str, now_us: int) -> int:
    """How far the policies of a direction let the replicas go."""
    chosen = rules(bounds.behavior, direction)
    select = chosen.get("selectPolicy") or "Max"
    if select == "Disabled":
        return bounds.current
    is_up = direction == "scaleUp"
    farthest: Callable[..., int] = max if is_up == (select != "Min") else min
    proposed = []
    for policy in chosen.get("policies") or ():
        since_us = now_us - policy["periodSeconds"] * SECOND_US
        start = bounds.current - _changed(memory.ups, since_us) + _changed(memory.downs, since_us)
        value = policy["value"]
        if policy["type"] == "Pods":
            proposed.append(start + value if is_up else start - value)
        elif is_up:
            proposed.append(ceil32(start * (1 + value / 100)))
        else:
            proposed.append(math.trunc(start * (1 - value / 100)))
    return farthest(proposed, default=bounds.current)


def _changed(events: tuple[ScaleEvent, ...], since_us: int) -> int:
    return sum(event.change for event in events if event.at_us > since_us)


def remember_change(
    memory: Memory, behavior: dict[str, Any] | None, before: int, after: int, now_us: int
) -> Memory:
    """After a rescale that was carried out. Without a behaviour nobody asks for it."""
    if behavior is None:
        return memory
    is_up = after > before
    chosen = rules(behavior, "scaleUp" if is_up else "scaleDown")
    longest = max((p["periodSeconds"] for p in chosen.get("policies") or ()), default=0)
    events = [
        e._replace(outdated=True) if e.at_us < now_us - longest * SECOND_US else e
        for e in (memory.ups if is_up else memory.downs)
    ]
    new = ScaleEvent(abs(after - before), now_us)
    oldest = next((i for i in reversed(range(len(events))) if events[i].outdated), None)
    if oldest is None:
        events.append(new)
    else:
        events[oldest] = new
    return replace(memory, ups=tuple(events)) if is_up else replace(memory, downs=tuple(events))
