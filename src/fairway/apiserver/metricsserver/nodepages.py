"""`/metrics/resource` and `/stats/summary` of a node's kubelet, as `nodes/NAME/proxy` shows them.

Of the summary, what is known: CPU, memory and when things started. File systems, networks and page faults of
simulated nodes do not exist and are left out.

Source: pkg/kubelet/metrics/collectors/resource_metrics.go, k8s.io/kubelet/pkg/apis/stats/v1alpha1 (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.kubelet.usage import ContainerUse, NodeUse, PodUse

_NANO = 10**9
# Name, type, help.
_FAMILIES = {
    "container_cpu_usage_seconds_total": (
        "counter",
        "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
    ),
    "container_memory_working_set_bytes": (
        "gauge",
        "[STABLE] Current working set of the container in bytes",
    ),
    "container_start_time_seconds": (
        "gauge",
        "[STABLE] Start time of the container since unix epoch in seconds",
    ),
    "node_cpu_usage_seconds_total": (
        "counter",
        "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
    ),
    "node_memory_working_set_bytes": ("gauge", "[STABLE] Current working set of the node in bytes"),
    "pod_cpu_usage_seconds_total": (
        "counter",
        "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
    ),
    "pod_memory_working_set_bytes": ("gauge", "[STABLE] Current working set of the pod in bytes"),
    "resource_scrape_error": (
        "gauge",
        "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
    ),
}


def resource_metrics(use: NodeUse, at_us: int) -> str:
    """Prometheus text."""
    stamp = at_us // 1000
    series: dict[str, list[str]] = {name: [] for name in _FAMILIES}
    for pod in use.pods:
        of_pod = f'namespace="{pod.namespace}",pod="{pod.name}"'
        for container in pod.containers:
            labels = f'{{container="{container.name}",{of_pod}}}'
            _add(series, "container_cpu_usage_seconds_total", labels, _seconds(container.core_ns), stamp)
            _add(series, "container_memory_working_set_bytes", labels, str(container.memory_bytes), stamp)
            started = _decimal(container.started_us, SECOND_US)
            series["container_start_time_seconds"].append(f"container_start_time_seconds{labels} {started}")
        labels = f"{{{of_pod}}}"
        core_ns, memory = _totals(pod)
        _add(series, "pod_cpu_usage_seconds_total", labels, _seconds(core_ns), stamp)
        _add(series, "pod_memory_working_set_bytes", labels, str(memory), stamp)
    _add(series, "node_cpu_usage_seconds_total", "", _seconds(use.core_ns), stamp)
    _add(series, "node_memory_working_set_bytes", "", str(use.memory_bytes), stamp)
    series["resource_scrape_error"].append("resource_scrape_error 0")
    return "".join(_text(series))


def _add(series: dict[str, list[str]], name: str, labels: str, value: str, stamp: int) -> None:
    series[name].append(f"{name}{labels} {value} {stamp}")


def _text(series: dict[str, list[str]]) -> Iterator[str]:
    for name, (kind, said) in _FAMILIES.items():
        if series[name]:
            yield f"# HELP {name} {said}\n# TYPE {name} {kind}\n"
            yield "".join(f"{line}\n" for line in series[name])


def _seconds(core_ns: int) -> str:
    return _decimal(core_ns, _NANO)


def _decimal(value: int, unit: int) -> str:
    """Exact, without trailing zeros."""
    digits = len(str(unit)) - 1
    whole, rest = divmod(value, unit)
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".")


def _totals(pod: PodUse) -> tuple[int, int]:
    return sum(c.core_ns for c in pod.containers), sum(c.memory_bytes for c in pod.containers)


def summary(use: NodeUse, started_us: int, at_us: int) -> dict[str, Any]:
    """`stats.Summary`."""
    node = {
        "nodeName": use.name,
        "startTime": rfc3339(started_us),
        "cpu": _cpu(use.core_ns, use.cpu_milli, at_us),
        "memory": _memory(use.memory_bytes, at_us),
    }
    return {"node": node, "pods": [_pod(pod, at_us) for pod in use.pods]}


def _pod(pod: PodUse, at_us: int) -> dict[str, Any]:
    core_ns, memory = _totals(pod)
    return {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": rfc3339(pod.started_us),
        "containers": [_container(c, at_us) for c in pod.containers],
        "cpu": _cpu(core_ns, sum(c.cpu_milli for c in pod.containers), at_us),
        "memory": _memory(memory, at_us),
    }


def _container(use: ContainerUse, at_us: int) -> dict[str, Any]:
    return {
        "name": use.name,
        "startTime": rfc3339(use.started_us),
        "cpu": _cpu(use.core_ns, use.cpu_milli, at_us),
        "memory": _memory(use.memory_bytes, at_us),
    }


def _cpu(core_ns: int, milli: int, at_us: int) -> dict[str, Any]:
    return {"time": rfc3339(at_us), "usageNanoCores": milli * 10**6, "usageCoreNanoSeconds": core_ns}


def _memory(size: int, at_us: int) -> dict[str, Any]:
    return {"time": rfc3339(at_us), "usageBytes": size, "workingSetBytes": size, "rssBytes": size}
