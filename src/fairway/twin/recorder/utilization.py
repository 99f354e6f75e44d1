"""How much of its GPUs does a pod say it uses, and when?

From the annotation `fairway.dev/gpu-utilization` (of the pod, or `.container` for one of them): steps over the
time since its containers started, after their start-up time (its median where it varies). Time spent on
saving or restoring checkpoints is not deducted. A pod without the annotation says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube.podrequests import container_requests
from fairway.twin.behaviour import PREFIX, BehaviourError, Said, behaviour_of, said
from fairway.twin.recorder.gpus import GpuResources

_KEY = PREFIX + "gpu-utilization"

# Changes of utilisation followed per pod; a profile with more is cut off there.
STEP_LIMIT = 256
# Distinct profiles remembered.
_CACHE_LIMIT = 4096

Uses = tuple[tuple[int, int], ...]
"""(µs since the start, milli-GPU in use from there on), sorted."""


def tells_use(annotations: Mapping[str, str] | None) -> bool:
    """Whether a pod says how it uses GPUs."""
    return bool(annotations) and any(name.startswith(_KEY) for name in annotations or ())


class Profiles:
    """Uses of pods, worked out once per template and wording."""

    def __init__(self, gpus: GpuResources) -> None:
        self._gpus = gpus
        self._known: dict[tuple[int, Said], tuple[Any, Uses]] = {}

    def of(self, pod: Mapping[str, Any]) -> Uses:
        """The pod's use over time, its containers added up."""
        spec = pod["spec"]
        containers = spec.get("containers")
        key = (id(containers), said(pod["metadata"].get("annotations") or {}))
        known = self._known.get(key)
        # The list is kept alive by the cache, so its id cannot have been reused.
        if known is not None and known[0] is containers:
            return known[1]
        uses = _uses(spec, key[1], self._gpus)
        if len(self._known) >= _CACHE_LIMIT:
            self._known.clear()
        self._known[key] = (containers, uses)
        return uses


def _uses(spec: Mapping[str, Any], words: Said, gpus: GpuResources) -> Uses:
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
