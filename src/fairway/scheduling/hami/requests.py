"""What does a container ask of HAMi, and what does its webhook make of a pod?

Source: pkg/device/nvidia/device.go GenerateResourceRequests, MutateAdmission; pkg/scheduler/webhook.go.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj, spec_of
from fairway.kube.quantity import QuantityError, of

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "nvidia.com/gpumem"
PERCENT: Final = "nvidia.com/gpumem-percentage"
CORES: Final = "nvidia.com/gpucores"
RESOURCES: Final = (GPU, MEMORY, PERCENT, CORES)
SCHEDULER: Final = "hami-scheduler"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_MOST_MEMORY: Final = 2**31 - 1


class Request(NamedTuple):
    """`memory`: MiB of each card, or 0 and `percent` of it."""

    cards: int
    memory: int
    percent: int
    cores: int


def request_of(container: Obj) -> Request | None:
    """None: nothing of HAMi's."""
    cards = _whole(container, GPU)
    if not cards:
        return None
    memory = _whole(container, MEMORY) or 0
    if not 0 <= memory <= _MOST_MEMORY:
        return None
    percent = min(_whole(container, PERCENT) or 0, 100)
    if percent <= 0:
        percent = 0 if memory else 100
    return Request(cards, memory, percent, min(_whole(container, CORES) or 0, 100))


def _whole(container: Obj, name: str) -> int | None:
    resources = container.get("resources") or {}
    value = (resources.get("limits") or {}).get(name)
    value = (resources.get("requests") or {}).get(name) if value is None else value
    if value is None:
        return None
    try:
        exact = of(value)
    except QuantityError:
        return None
    return exact.numerator if exact.denominator == 1 else None


def entered(pod: Obj) -> Obj | str:
    """The pod as HAMi's webhook leaves it; a text: why it is denied."""
    spec = spec_of(pod)
    if (spec.get("schedulerName") or _DEFAULT_SCHEDULER) not in (_DEFAULT_SCHEDULER, SCHEDULER):
        return pod
    changed: dict[str, Any] = {}
    has_any = False
    for field in ("initContainers", "containers"):
        containers = [_entered(c) for c in spec.get(field) or ()]
        has_any = has_any or any(_whole(c, GPU) is not None for c in containers)
        if containers:
            changed[field] = containers
    if not has_any:
        return pod
    privileged = next(
        (
            c.get("name")
            for field in ("initContainers", "containers")
            for c in spec.get(field) or ()
            if (c.get("securityContext") or {}).get("privileged")
        ),
        None,
    )
    if privileged is not None:
        return f"container {privileged} is privileged"
    if spec.get("nodeName"):
        return "pod has node assigned"
    return {**pod, "spec": {**spec, **changed, "schedulerName": SCHEDULER}}


def _entered(container: Obj) -> Obj:
    """A part of a card is of one card; who names no part has it alone."""
    wants = {name: _whole(container, name) for name in RESOURCES}
    added: dict[str, str] = {}
    if wants[GPU] is None and any(wants[n] is not None for n in (MEMORY, PERCENT, CORES)):
        added[GPU] = "1"
    elif wants[GPU] is not None and wants[CORES] is None:
        alone = wants[PERCENT] == 100 if wants[PERCENT] is not None else wants[MEMORY] is None
        if alone:
            added[CORES] = "100"
    if not added:
        return container
    resources = container.get("resources") or {}
    # Defaulting came before the webhook: the API server fills requests in from limits once more.
    limits = {**(resources.get("limits") or {}), **added}
    return {
        **container,
        "resources": {
            **resources,
            "limits": limits,
            "requests": {**(resources.get("requests") or {}), **added},
        },
    }
