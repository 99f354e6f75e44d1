"""How much of its GPUs does a pod say it uses, and when?

From the annotation `fairway.dev/gpu-utilization` (of the pod, or `.container` for one of them): steps over the
time since its containers started, after their start-up time (its median where it varies). Time spent on
saving or restoring checkpoints is not deducted. A pod without the annotation says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube.podrequests import container_requests
from fairway.twin.behaviour import PREFIX, BehaviourError, behaviour_of, said
from fairway.twin.recorder.gpus import GpuResources

_KEY = PREFIX + "gpu-utilization"

# Changes of utilisation followed per pod; a profile with more is cut off there.
STEP_LIMIT = 256

Uses = tuple[tuple[int, int], ...]
"""(µs since the start, milli-GPU in use from there on), sorted."""


def tells_use(annotations: Mapping[str, str] | None) -> bool:
    """Whether a pod says how it uses GPUs."""
    return bool(annotations) and any(name.startswith(_KEY) for name in annotations or ())


def uses_of(spec: Mapping[str, Any], annotations: Mapping[str, str], gpus: GpuResources) -> Uses:
    """The pod's use over time, its containers added up."""
    words = said(annotations)
    changes: dict[int, int] = {}
    for container in spec.get("containers") or ():
        asked = gpus.asked(container_requests(container))
        if not asked:
            continue
        try:
            behaviour = behaviour_of(container, str(spec.get("restartPolicy") or "Always"), words)
        except BehaviourError:
            continue
        begins_us = behaviour.startup.at_quantile(0.5)
        before = 0
        for at_us, utilization_milli in behaviour.gpu_utilization_milli[:STEP_LIMIT]:
            using = asked * utilization_milli // 1000
            changes[begins_us + at_us] = changes.get(begins_us + at_us, 0) + using - before
            before = using
    steps, using = [], 0
    for at_us in sorted(changes):
        using += changes[at_us]
        steps.append((at_us, using))
    return tuple(steps)


class Use:
    """One pod's use as the run goes on."""

    __slots__ = ("now_milli", "since", "steps", "total")

    def __init__(self) -> None:
        self.steps: Uses = ()
        self.now_milli = 0
        self.since = 0
        self.total = 0

    def change(self, now: int, milli: int) -> int:
        """Use this much from now on; returns the difference."""
        self.total += self.now_milli * (now - self.since)
        self.since = now
        delta = milli - self.now_milli
        self.now_milli = milli
        return delta

    def total_until(self, now: int) -> int:
        """Milli-GPU·µs."""
        return self.total + self.now_milli * (now - self.since)

    def copy(self) -> Use:
        twin = Use()
        for slot in self.__slots__:
            setattr(twin, slot, getattr(self, slot))
        return twin
