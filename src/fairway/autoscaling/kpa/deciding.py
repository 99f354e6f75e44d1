"""Pods wanted, from the averages of the stable and the panic window.

Source: pkg/autoscaler/scaling/{autoscaler,multiscaler}.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from fairway.autoscaling.kpa.specs import Spec
from fairway.autoscaling.kpa.windows import NOTHING, Averages, Maximum
from fairway.kube.timestamps import SECOND_US

# How often it decides. Source: tickInterval.
TICK_US: Final = 2 * SECOND_US
_FEWEST_ACTIVATORS: Final = 2


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered from one decision to the next. `panic_from_us` None: it does not panic."""

    panic_from_us: int | None = None
    panic_pods: int = 0
    delayed: Maximum = NOTHING


@dataclass(frozen=True, slots=True)
class Decision:
    """`pods` wanted; negative `excess_burst`: the activator stays in the path of requests. `stable` and `panicking`:
    pods wanted by each window, within the rates; `why`: in words, with the numbers."""

    pods: int
    excess_burst: int
    stable: int
    panicking: int
    is_panic: bool
    why: str
    memory: Memory


def first_memory(ready: int, now_us: int) -> Memory:
    """An autoscaler that finds several pods panics, so as not to scale them down before it knows anything."""
    return Memory(now_us, ready) if ready > 1 else Memory(panic_pods=ready)


def first_excess_burst(spec: Spec) -> int:
    """Before the first decision."""
    capacity = spec.target_burst_capacity
    return int(capacity) if capacity in (-1, 0) else int(spec.initial_scale * spec.total - capacity)


def decide(spec: Spec, memory: Memory, seen: Averages, ready: int, now_us: int) -> Decision:
    """`ready`: pods that are."""
    # 1. What each window wants, within the rates of change.
    pods_there = max(1, ready)
    most = math.ceil(spec.max_scale_up_rate * pods_there)
    least = math.floor(pods_there / spec.max_scale_down_rate) if spec.is_reachable else 0
    by_stable = math.ceil(seen.stable / spec.target)
    by_panic = math.ceil(seen.panic / spec.target)
    stable = min(max(by_stable, least), most)
    panicking = min(max(by_panic, least), most)
    if spec.activation_scale > 1:
        stable = max(stable, spec.activation_scale) if by_stable > 0 else stable
        panicking = max(panicking, spec.activation_scale) if by_panic > 0 else panicking

    # 2. Does it panic?
    panic_from_us, panic_pods = memory.panic_from_us, memory.panic_pods
    if by_panic / pods_there >= spec.panic_threshold:
        panic_from_us = now_us
    elif panic_from_us is not None and panic_from_us + spec.stable_window_us < now_us:
        panic_from_us, panic_pods = None, 0

    # 3. In panic the larger of both counts, and it only grows.
    pods = stable
    if panic_from_us is not None:
        panic_pods = max(panic_pods, stable, panicking)
        pods = panic_pods

    # 4. Scaling down waits.
    delayed = memory.delayed
    if spec.is_reachable and spec.scale_down_delay_us > 0:
        size = -(-spec.scale_down_delay_us // TICK_US)
        delayed = delayed.recorded(now_us // TICK_US, pods, size)
        pods = delayed.current

    # 5. How much more could the pods take?
    excess = -1
    if spec.target_burst_capacity == 0:
        excess = 0
    elif spec.target_burst_capacity > 0:
        excess = math.floor(ready * spec.total - spec.target_burst_capacity - seen.panic)
    why = _told(spec, seen, panic_from_us is not None, pods, stable, panicking)
    remembered = Memory(panic_from_us, panic_pods, delayed)
    return Decision(pods, excess, stable, panicking, panic_from_us is not None, why, remembered)


def _told(spec: Spec, seen: Averages, is_panic: bool, pods: int, stable: int, panicking: int) -> str:
    mode = "panic" if is_panic else "stable"
    average = max(seen.panic, seen.stable) if is_panic else seen.stable
    text = f"{mode}: {spec.metric} {average:g} at a target of {spec.target:g} for each pod"
    wanted = max(stable, panicking) if is_panic else stable
    if pods > wanted:
        held = (
            "no scaling down in panic"
            if is_panic
            else f"scale-down-delay {spec.scale_down_delay_us // SECOND_US}s"
        )
        text += f"; kept at {pods}: {held}"
    return text


def activators(spec: Spec, ready: int) -> int:
    """How many activators stand before a Revision."""
    if spec.target_burst_capacity == 0:
        return _FEWEST_ACTIVATORS
    capacity = ready * spec.total + max(spec.target_burst_capacity, 0.0)
    return max(_FEWEST_ACTIVATORS, math.ceil(capacity / spec.activator_capacity))
