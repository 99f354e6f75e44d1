"""What does a pod ask of a node?

The effective request is the larger of what its containers need at once and what its init phase peaks at;
sidecars (init containers that restart Always) count in both, overhead comes on top, and pod-level resources
override the sum where set. Three vectors come of it, because kube-scheduler asks in three ways: what a node
must have free, what a pod counts for once it is there, and what it is scored with before it is.

Quantities are added up exactly and rounded up once, at the end.

Source: k8s.io/component-helpers/resource/helpers.go (v1.36) PodRequests; KEP-753 (sidecars), KEP-2837
(pod-level resources); pkg/scheduler/framework/types.go CalculateResource; pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.kube import quantity
from fairway.kube.resources import CPU, MEMORY, Resources, add_into, is_hugepages, max_into, parse_resources

# What a container without a request is taken to use when nodes are scored (never when they are filtered).
DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY_BYTES: Final = 200 * 1024 * 1024

# Amounts in here are thousandths of a core, byte or device, until they are rounded.
_Thousandths = dict[str, int]
_OF_TEXT: Final[dict[str, int]] = {}
_TEXTS_KEPT: Final = 4_096
_DEFAULTS: Final[_Thousandths] = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY_BYTES * 1000}


def pod_requests(spec: dict[str, Any]) -> Resources:
    """The vector a node must have free (filter), and what the pod takes once it is there."""
    return _rounded(_requests(spec, {}))


def pod_requests_non_zero(spec: dict[str, Any]) -> Resources:
    """What a pod on a node counts for in scores: cpu and memory never zero for a container that names none.

    With pod-level requests the default only stands in for what neither the pod nor any container names.
    """
    if not _has_pod_level_requests(spec):
        return _rounded(_requests(spec, _DEFAULTS))
    named = _requests(spec, {})
    missing = {name: value for name, value in _DEFAULTS.items() if name not in named}
    return _rounded(_requests(spec, missing) if missing else named)


def pod_requests_scored(spec: dict[str, Any]) -> Resources:
    """What NodeResourcesFit scores an incoming pod with: its containers and overhead.

    Pod-level resources are left out: v1.36's NewFit does not tell its scorer of the feature.
    """
    total = _over_phases(spec, _with_defaults(_DEFAULTS))
    _add_overhead(total, spec)
    return _rounded(total)


def pod_limits(spec: dict[str, Any]) -> Resources:
    """The sum of limits over the same phases (for QoS, quota and reports)."""
    return _rounded(_over_phases(spec, lambda c: _thousandths((c.get("resources") or {}).get("limits"))))


def container_requests(container: dict[str, Any]) -> Resources:
    """Requests of one container; a limit without a request is its request (API defaulting)."""
    resources = container.get("resources") or {}
    requests = parse_resources(resources.get("requests"))
    limits = resources.get("limits")
    if limits:
        for name, value in parse_resources(limits).items():
            requests.setdefault(name, value)
    return requests


def _requests(spec: dict[str, Any], defaults: Mapping[str, int]) -> _Thousandths:
    total = _over_phases(spec, _with_defaults(defaults))
    if spec.get("resources"):
        total.update(_pod_level_requests(spec))
    _add_overhead(total, spec)
    return total


def _pod_level_requests(spec: dict[str, Any]) -> _Thousandths:
    """Pod-level requests; a limit alone is a request where no container names the resource (API defaulting)."""
    resources = spec.get("resources") or {}
    requests = _supported(_thousandths(resources.get("requests")))
    limits = _supported(_thousandths(resources.get("limits")))
    if limits:
        of_containers = _over_phases(spec, _container)
        for name in (CPU, MEMORY):
            if name in of_containers:
                requests.setdefault(name, of_containers[name])
        for name, value in limits.items():
            requests.setdefault(name, value)
    return requests


def _has_pod_level_requests(spec: dict[str, Any]) -> bool:
    return bool(spec.get("resources")) and bool(_pod_level_requests(spec))


def _supported(vector: _Thousandths) -> _Thousandths:
    """What may be set for a whole pod. Source: IsSupportedPodLevelResource."""
    return {n: v for n, v in vector.items() if n in (CPU, MEMORY) or is_hugepages(n)}


def _container(container: dict[str, Any]) -> _Thousandths:
    resources = container.get("resources") or {}
    requests = _thousandths(resources.get("requests"))
    limits = resources.get("limits")
    if limits:
        for name, value in _thousandths(limits).items():
            requests.setdefault(name, value)
    return requests


def _with_defaults(defaults: Mapping[str, int]) -> Callable[[dict[str, Any]], _Thousandths]:
    """Reads a container's requests, with these where it names none."""
    if not defaults:
        return _container

    def of_container(container: dict[str, Any]) -> _Thousandths:
        requests = _container(container)
        for name, value in defaults.items():
            requests.setdefault(name, value)
        return requests

    return of_container


def _over_phases(
    spec: dict[str, Any], of_container: Callable[[dict[str, Any]], _Thousandths]
) -> _Thousandths:
    total: _Thousandths = {}
    for container in spec.get("containers") or ():
        add_into(total, of_container(container))
    init_peak: _Thousandths = {}
    sidecars: _Thousandths = {}
    for container in spec.get("initContainers") or ():
        requests = of_container(container)
        if container.get("restartPolicy") == "Always":
            add_into(total, requests)
            add_into(sidecars, requests)
            max_into(init_peak, sidecars)
        else:
            add_into(requests, sidecars)
            max_into(init_peak, requests)
    max_into(total, init_peak)
    return total


def _add_overhead(total: _Thousandths, spec: dict[str, Any]) -> None:
    overhead = spec.get("overhead")
    if overhead:
        add_into(total, _thousandths(overhead))


def _thousandths(raw: Mapping[str, object] | None) -> _Thousandths:
    """Rounded up to the thousandth, as the API server stores a resource list."""
    found: _Thousandths = {}
    for name, value in (raw or {}).items():
        known = _OF_TEXT.get(value) if isinstance(value, str) else None
        found[name] = _thousandths_of(value) if known is None else known
    return found


def _thousandths_of(value: object) -> int:
    exact = quantity.of(value) * 1000
    amount: int = -(-exact.numerator // exact.denominator)
    if isinstance(value, str):
        if len(_OF_TEXT) >= _TEXTS_KEPT:
            _OF_TEXT.clear()
        _OF_TEXT[value] = amount
    return amount


def _rounded(vector: _Thousandths) -> Resources:
    """cpu in thousandths, everything else whole, rounded up."""
    return {
        name: min(value if name == CPU else -(-value // 1000), quantity.MAX_INT64)
        for name, value in vector.items()
    }
