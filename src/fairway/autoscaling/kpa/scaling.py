"""From pods wanted to replicas: bounds, the initial scale, the way to zero, and the condition Active.

Source: pkg/reconciler/autoscaling/kpa/{scaler,kpa}.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairway.autoscaling.kpa.specs import Spec
from fairway.kube.timestamps import SECOND_US

UNKNOWN: Final = -1
ACTIVE, ACTIVATING, INACTIVE = "True", "Unknown", "False"
# A Revision behind the activator is looked at again that soon after it was idle for its window.
_SOON_US: Final = 3 * SECOND_US
# While no activator answers, it is asked again that often. Source: probePeriod.
_PROBE_US: Final = SECOND_US


@dataclass(frozen=True, slots=True)
class State:
    """How a PodAutoscaler stands. `active` since `since_us`: its condition Active; `is_initialized`: its initial
    scale was reached; `proxied_from_us`: since when the activator is in the path of requests."""

    active: str = ACTIVATING
    since_us: int = 0
    is_initialized: bool = False
    proxied_from_us: int | None = None
    activator_answers: bool = True


@dataclass(frozen=True, slots=True)
class Scaled:
    """`wanted`: pods (UNKNOWN: nobody knows yet); `applies`: the Deployment is to have that many; `again_us`: look
    again after so long, 0 for when something changes."""

    wanted: int
    applies: bool
    again_us: int = 0
    is_probed: bool = False


def bounded(least: int, most: int, pods: int) -> int:
    """A `most` of 0 is none."""
    if pods < least:
        return least
    return most if most and pods > most else pods


def scale_to(spec: Spec, state: State, pods: int, now_us: int) -> Scaled:
    """What becomes of the `pods` that the autoscaler wants (UNKNOWN: it has not decided yet)."""
    if pods < 0 and state.active != ACTIVATING:
        return Scaled(pods, applies=False)
    least = spec.min_scale
    if spec.initial_scale > 1 and not state.is_initialized and spec.is_reachable:
        least = max(spec.initial_scale, least)
    pods = bounded(least, spec.max_scale, pods)
    return _to_zero(spec, state, now_us) if pods == 0 else Scaled(pods, applies=True)


def _to_zero(spec: Spec, state: State, now_us: int) -> Scaled:
    if not spec.scales_to_zero:
        return Scaled(1, applies=True)
    for_us = now_us - state.since_us
    if state.active == ACTIVATING:
        if for_us > spec.activation_timeout_us:
            return Scaled(0, applies=True)
        return Scaled(UNKNOWN, applies=False, again_us=spec.activation_timeout_us)
    if state.active == ACTIVE:
        if for_us >= spec.stable_window_us:
            return Scaled(0, applies=False, again_us=_SOON_US if state.proxied_from_us is not None else 0)
        return Scaled(1, applies=True, again_us=spec.stable_window_us - for_us)
    if spec.target_burst_capacity != -1 and not state.activator_answers:
        return Scaled(0, applies=False, again_us=_PROBE_US, is_probed=True)
    if for_us >= max(spec.grace_us, spec.retention_us):
        return Scaled(0, applies=True)
    if for_us < spec.retention_us:
        return Scaled(0, applies=False, again_us=spec.retention_us - for_us)
    proxied_us = 0 if state.proxied_from_us is None else now_us - state.proxied_from_us
    left_us = spec.grace_us - proxied_us
    return Scaled(0, applies=left_us <= 0, again_us=max(left_us, 0))


def is_served(scaled: Scaled, excess_burst: int) -> bool:
    """Requests go to the pods directly: the activator is not needed in their path."""
    return scaled.wanted > 0 and excess_burst >= 0


def threshold(spec: Spec, state: State) -> int:
    """Ready pods from which on it is active."""
    return max(spec.min_scale, 1 if state.is_initialized else spec.initial_scale)


def active_condition(spec: Spec, state: State, wanted: int, ready: int) -> tuple[str, str, str] | None:
    """Status, reason and message of the condition Active; None: it stays as it is."""
    idle = (INACTIVE, "NoTraffic", "The target is not receiving traffic.")
    least = threshold(spec, state)
    if wanted == 0 or least == 0:
        if state.active == ACTIVATING and least > 0:
            return INACTIVE, "TimedOut", "The target could not be activated."
        return idle
    if wanted <= 0 and state.active == INACTIVE:
        return idle if ready < least else None
    if ready < least:
        message = "Requests to the target are being buffered as resources are provisioned."
        return ACTIVATING, "Queued", message
    return ACTIVE, "", ""
