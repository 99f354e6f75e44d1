"""Which pods of a target count, and what do they request?

Pods on their way out and failed ones are ignored; pending ones are unready; of CPU also those that may still be
starting, and those that were never ready. The rest is ready, or misses a metric.

Source: pkg/controller/podautoscaler/replica_calculator.go groupPods, calculateRequests;
component-helpers/resource IsPodLevelRequestsSet (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fairway.autoscaling.source import PodValue
from fairway.kube.objects import Obj
from fairway.kube.podrequests import pod_requests
from fairway.kube.quantity import milli_ceil
from fairway.kube.resources import CPU, MEMORY, is_hugepages
from fairway.kube.timestamps import parse_rfc3339


class Groups(NamedTuple):
    """Names of pods, in the order of the list."""

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]


class RequestFault(Exception):
    """A pod does not request what is to be compared with."""


def grouped(
    pods: Iterable[Obj],
    metrics: Mapping[str, PodValue],
    resource: str,
    *,
    initialization_us: int,
    readiness_delay_us: int,
    now_us: int,
) -> Groups:
    """`resource` is empty for metrics that are no resource."""
    ready, unready, missing, ignored = 0, [], [], []
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        if "deletionTimestamp" in pod["metadata"] or status.get("phase") == "Failed":
            ignored.append(name)
        elif status.get("phase") == "Pending":
            unready.append(name)
        elif name not in metrics:
            missing.append(name)
        elif resource == CPU and _is_starting(
            status, metrics[name], initialization_us, readiness_delay_us, now_us
        ):
            unready.append(name)
        else:
            ready += 1
    return Groups(ready, tuple(unready), tuple(missing), tuple(ignored))


def _is_starting(
    status: dict[str, Any], metric: PodValue, initialization_us: int, delay_us: int, now_us: int
) -> bool:
    """Whether a pod's CPU usage says nothing yet, or never did."""
    condition = ready_condition(status)
    if condition is None or not status.get("startTime"):
        return True
    started_us = parse_rfc3339(status["startTime"])
    changed_us = parse_rfc3339(condition["lastTransitionTime"])
    is_false = condition.get("status") == "False"
    if started_us + initialization_us > now_us:
        return is_false or metric.at_us < changed_us + metric.window_us
    return is_false and started_us + delay_us > changed_us


def ready_condition(status: dict[str, Any]) -> dict[str, Any] | None:
    return next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)


def ready_count(pods: Iterable[Obj]) -> int:
    """Running and ready."""
    count = 0
    for pod in pods:
        status = pod.get("status") or {}
        condition = ready_condition(status)
        if status.get("phase") == "Running" and condition is not None and condition.get("status") == "True":
            count += 1
    return count


def requests(pods: Iterable[Obj], container: str, resource: str) -> dict[str, int]:
    """Thousandths by pod. Raises: RequestFault."""
    return {pod["metadata"]["name"]: _request(pod, container, resource) for pod in pods}


def _request(pod: Obj, container: str, resource: str) -> int:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if not container and _asks_as_a_whole(spec):
        whole = pod_requests(spec)
        if resource not in whole:
            raise RequestFault(f"missing pod-level request for {resource} in Pod {name}")
        return whole[resource] if resource == CPU else whole[resource] * 1000
    total = 0
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for one in (*spec["containers"], *sidecars):
        if container in ("", one["name"]):
            amount = ((one.get("resources") or {}).get("requests") or {}).get(resource)
            if amount is None:
                raise RequestFault(f"missing request for {resource} in container {one['name']} of Pod {name}")
            total += milli_ceil(amount)
        if container == one["name"]:
            return total
    if container:
        raise RequestFault(f"container {container} not found in Pod {name}")
    return total


def _asks_as_a_whole(spec: dict[str, Any]) -> bool:
    """Whether requests stand at the pod itself."""
    asked = (spec.get("resources") or {}).get("requests") or {}
    return any(name in (CPU, MEMORY) or is_hugepages(name) for name in asked)
