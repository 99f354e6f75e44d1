"""Until when would the same inputs give the same decision? Looks before that need not be made.

The real controller looks every period whatever happens. Where nothing it reads has changed and no time it goes by has
passed, it writes nothing and says nothing; those looks are left out, and `caught_up` puts into its memory what they
would have put there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairway.autoscaling.hpa.decide import Decision
from fairway.autoscaling.hpa.limits import rules
from fairway.autoscaling.hpa.memory import Memory, Recommendation
from fairway.autoscaling.hpa.podgroups import ready_condition
from fairway.autoscaling.hpa.settings import Settings
from fairway.autoscaling.source import NEVER_US
from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_rfc3339

_AT_A_RATE = ("ScaleUpLimit", "ScaleDownLimit")
# Past this a pod's metrics no longer overlap with the time at which it became ready: two scrapes and a window.
_SETTLED_US = MINUTE_US
# No stabilization window is longer. Source: MaxStabilizationWindowSeconds.
_WINDOW_MOST_US = 60 * MINUTE_US


def quiet_until(
    autoscaler: Obj, decision: Decision, pods: Sequence[Obj], settings: Settings, now_us: int
) -> int:
    """`now_us` where the next look may differ, NEVER_US where only a change of inputs makes one differ."""
    if decision.replicas is not None or any(e.type == "Warning" for e in decision.events):
        return now_us
    conditions = decision.status.get("conditions") or ()
    if any(c["type"] == "ScalingLimited" and c["reason"] in _AT_A_RATE for c in conditions):
        return now_us
    return min(
        _stable_until(autoscaler["spec"], decision.memory, settings, now_us),
        _started_until(autoscaler["spec"], pods, settings, now_us),
    )


def _stable_until(spec: Mapping[str, Any], memory: Memory, settings: Settings, now_us: int) -> int:
    """When a recommendation that holds replicas where they are leaves its window."""
    known = memory.recommendations or ()
    if not known:
        return NEVER_US
    newest = max(known, key=lambda r: r.at_us)
    behavior = spec.get("behavior")
    down = rules(behavior, "scaleDown").get("stabilizationWindowSeconds")
    down_us = settings.stabilization_us if down is None else down * SECOND_US
    up_us = (rules(behavior, "scaleUp").get("stabilizationWindowSeconds") or 0) * SECOND_US
    until_us = NEVER_US
    for replicas, at_us in known:
        window_us = down_us if replicas > newest.replicas else up_us if replicas < newest.replicas else 0
        if window_us and at_us + window_us >= now_us:
            until_us = min(until_us, at_us + window_us + 1)
    return until_us


def _started_until(spec: Mapping[str, Any], pods: Sequence[Obj], settings: Settings, now_us: int) -> int:
    """When a pod's CPU begins to count."""
    kinds = ("resource", "containerResource")
    if not any((m.get(kind) or {}).get("name") == "cpu" for m in spec.get("metrics") or () for kind in kinds):
        return NEVER_US
    until_us = NEVER_US
    for pod in pods:
        status = pod.get("status") or {}
        condition = ready_condition(status)
        if condition is None or not status.get("startTime"):
            continue
        by_us = parse_rfc3339(status["startTime"]) + settings.initialization_us
        if by_us > now_us:
            until_us = min(until_us, by_us)
            if parse_rfc3339(condition["lastTransitionTime"]) + _SETTLED_US > now_us:
                return now_us
    return until_us


def caught_up(memory: Memory, born_us: int, settings: Settings, now_us: int) -> Memory:
    """As if every look up to the one before now had been made, each with the newest recommendation."""
    known = memory.recommendations
    if not known:
        return memory
    newest = max(known, key=lambda r: r.at_us)
    before_us = now_us - settings.sync_us
    if before_us <= newest.at_us or before_us < born_us:
        return memory
    longest_us = max(settings.stabilization_us, _WINDOW_MOST_US)
    kept = tuple(r for r in known if r.at_us >= before_us - longest_us)
    return replace(memory, recommendations=(*kept, Recommendation(newest.replicas, before_us)))
