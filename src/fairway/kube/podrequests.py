"""What does a pod ask of a node?

The effective request is the larger of what its containers need at once and what its init phase peaks at;
sidecars (init containers that restart Always) count in both, overhead comes on top, and pod-level resources
override the sum where set.

Source: k8s.io/component-helpers/resource/helpers.go (v1.36) PodRequests; KEP-753 (sidecars), KEP-2837
(pod-level resources), and the scheduler's defaults for pods that ask for nothing
(pkg/scheduler/util/pod_resources.go: 100m, 200 MB).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.resources import CPU, MEMORY, Resources, add_into, is_hugepages, max_into, parse_resources

# What a container without a request is taken to use when nodes are scored (never when they are filtered).
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024

_NON_ZERO_DEFAULTS: Resources = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY_BYTES}


def pod_requests(spec: dict[str, Any]) -> Resources:
    """The vector a node must have free (filter)."""
    return _requests(spec, None)


def pod_requests_non_zero(spec: dict[str, Any]) -> Resources:
    """The vector scores are computed with: cpu and memory never zero for a container that names none."""
    return _requests(spec, _NON_ZERO_DEFAULTS)


def pod_limits(spec: dict[str, Any]) -> Resources:
    """The sum of limits over the same phases (for QoS, quota and reports)."""
    return _over_phases(spec, lambda c: parse_resources((c.get("resources") or {}).get("limits")))


def container_requests(container: dict[str, Any]) -> Resources:
    """Requests of one container; a limit without a request is its request (API defaulting)."""
    resources = container.get("resources") or {}
    requests = parse_resources(resources.get("requests"))
    limits = resources.get("limits")
    if limits:
        for name, value in parse_resources(limits).items():
            requests.setdefault(name, value)
    return requests


def _requests(spec: dict[str, Any], defaults: Resources | None) -> Resources:
    pod_level = container_requests(spec) if spec.get("resources") else {}

    def of_container(container: dict[str, Any]) -> Resources:
        requests = container_requests(container)
        if defaults is not None:
            for name, value in defaults.items():
                # A pod-level request speaks for its containers: no default is assumed then.
                if name not in pod_level:
                    requests.setdefault(name, value)
        return requests

    total = _over_phases(spec, of_container)
    for name, value in pod_level.items():
        if name in (CPU, MEMORY) or is_hugepages(name):
            total[name] = value
    overhead = spec.get("overhead")
    if overhead:
        add_into(total, parse_resources(overhead))
    return total


def _over_phases(spec: dict[str, Any], of_container: Any) -> Resources:
    total: Resources = {}
    for container in spec.get("containers") or ():
        add_into(total, of_container(container))
    init_peak: Resources = {}
    sidecars: Resources = {}
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
