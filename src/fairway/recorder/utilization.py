"""How much of its GPUs does a pod say it uses, and when?

From the annotations `fairway.dev/gpu-utilization` and `fairway.dev/gpu-memory` (of the pod, or `.container` for one
of them; memory is that of each of its GPUs): steps over the time since its containers started, after their start-up
time (its median where it varies). Time spent on saving or restoring checkpoints is not deducted. A pod without the
annotation says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairway.cluster.gpurequests import GpuResources
from fairway.kube.podrequests import container_requests
from fairway.twin.behaviour import PREFIX, BehaviourError, Said, behaviour_of, said

_KEY = PREFIX + "gpu-utilization"
_MEMORY_KEY = PREFIX + "gpu-memory"

# Changes of utilisation followed per pod; a profile with more is cut off there.
STEP_LIMIT = 256
# Distinct profiles remembered.
_CACHE_LIMIT = 4096

Uses = tuple[tuple[int, int], ...]
"""(µs since the start, milli-GPU or bytes in use from there on), sorted."""


class Profile(NamedTuple):
    """Use of a pod's GPUs over time, its containers added up: milli-GPU, and bytes of their memory."""

    compute: Uses
    memory: Uses


def tells_use(annotations: Mapping[str, str] | None) -> bool:
    """Whether a pod says how it uses GPUs."""
    return bool(annotations) and any(name.startswith(_KEY) for name in annotations or ())


def tells_memory(annotations: Mapping[str, str] | None) -> bool:
    """Whether a pod says how much memory of its GPUs it uses."""
    return bool(annotations) and any(name.startswith(_MEMORY_KEY) for name in annotations or ())


# What else of a pod's words says how it uses GPUs over time.


class Profiles:
    """Uses of pods, worked out once per template and wording."""

    def __init__(self, gpus: GpuResources) -> None:
        self._gpus = gpus
        self._known: dict[tuple[int, Said], tuple[Any, Profile]] = {}

    def of(self, pod: Mapping[str, Any]) -> Profile:
        """How the pod says it uses its GPUs."""
        spec = pod["spec"]
        containers = spec.get("containers")
        key = (id(containers), said(pod["metadata"].get("annotations") or {}))
        known = self._known.get(key)
        # The list is kept alive by the cache, so its id cannot have been reused.
        if known is not None and known[0] is containers:
            return known[1]
        uses = _profile(spec, key[1], self._gpus)
        if len(self._known) >= _CACHE_LIMIT:
            self._known.clear()
        self._known[key] = (containers, uses)
        return uses


def _profile(spec: Mapping[str, Any], words: Said, gpus: GpuResources) -> Profile:
    compute: dict[int, int] = {}
    memory: dict[int, int] = {}
    for container in spec.get("containers") or ():
        requests = container_requests(container)
        asked, units = gpus.asked(requests), gpus.units(requests)
        if not units:
            continue
        try:
            behaviour = behaviour_of(container, str(spec.get("restartPolicy") or "Always"), words)
        except BehaviourError:
            continue
        begins_us = behaviour.startup.at_quantile(0.5)
        steps = [(at, asked * milli // 1000) for at, milli in behaviour.gpu_utilization_milli]
        _add(compute, begins_us, steps)
        _add(memory, begins_us, [(at, units * size) for at, size in behaviour.gpu_memory_bytes])
    return Profile(_levels(compute), _levels(memory))


def _add(changes: dict[int, int], begins_us: int, steps: Sequence[tuple[int, int]]) -> None:
    """One container's steps, as changes of the pod's level."""
    before = 0
    for at_us, using in steps[:STEP_LIMIT]:
        changes[begins_us + at_us] = changes.get(begins_us + at_us, 0) + using - before
        before = using


def _levels(changes: Mapping[int, int]) -> Uses:
    steps, using = [], 0
    for at_us in sorted(changes):
        using += changes[at_us]
        steps.append((at_us, using))
    return tuple(steps)
