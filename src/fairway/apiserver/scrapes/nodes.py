"""What do a node's kubelet and node-exporter tell Prometheus? From what its containers use.

Of a simulated node, what is known: CPU, memory, when things started, how large it is. Disks, networks and pressure do
not exist and are left out.

Source: cAdvisor metrics/prometheus.go; pkg/kubelet/metrics/metrics.go (v1.36); node_exporter collector/{cpu,meminfo,
loadavg,time,uname}_linux.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fairway.kube.objects import Obj, name_of, spec_of, status_of
from fairway.kube.quantity import milli_ceil, whole_ceil
from fairway.kube.timestamps import SECOND_US
from fairway.telemetry.exposition import Block, sample
from fairway.twin.kubelet.usage import NodeUse

_NANO = 10**9
_MOST_CORES = 512
Lines = Iterator[tuple[dict[str, str], float]]


def cadvisor(node: Obj, use: NodeUse, pods: Mapping[tuple[str, str], Obj], at_us: int) -> Iterator[Block]:
    """`/metrics/cadvisor`. `pods`: those of the node, by namespace and name."""
    running = [
        (_labels(pods.get((pod.namespace, pod.name)), pod.namespace, pod.name, pod.uid, c.name), c)
        for pod in use.pods
        for c in pod.containers
    ]

    def block(name: str, kind: str, said: str, lines: Lines) -> Block:
        return Block(name, kind, said, [sample(name, labels, value) for labels, value in lines])

    yield block(
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed in seconds.",
        ((of | {"cpu": "total"}, c.core_ns / _NANO) for of, c in running),
    )
    for name, said in (
        ("container_memory_rss", "Size of RSS in bytes."),
        ("container_memory_usage_bytes", "Current memory usage in bytes, including all memory"),
        ("container_memory_working_set_bytes", "Current working set in bytes."),
    ):
        yield block(name, "gauge", said, ((of, float(c.memory_bytes)) for of, c in running))
    yield block(
        "container_last_seen",
        "gauge",
        "Last time a container was seen by the exporter",
        ((of, float(at_us // SECOND_US)) for of, _ in running),
    )
    yield block(
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds.",
        ((of, float(c.started_us // SECOND_US)) for of, c in running),
    )
    for name, said, read in (
        ("container_spec_cpu_quota", "CPU quota of the container.", _cpu_quota),
        ("container_spec_memory_limit_bytes", "Memory limit for the container.", _memory_limit),
    ):
        yield block(name, "gauge", said, _of_specs(pods, use, read))
    capacity = status_of(node).get("capacity") or status_of(node).get("allocatable") or {}
    yield block(
        "machine_cpu_cores",
        "gauge",
        "Number of logical CPU cores.",
        iter([({}, milli_ceil(capacity.get("cpu") or 0) / 1000)]),
    )
    yield block(
        "machine_memory_bytes",
        "gauge",
        "Amount of memory installed on the machine.",
        iter([({}, float(whole_ceil(capacity.get("memory") or 0)))]),
    )


def _labels(pod: Obj | None, namespace: str, name: str, uid: str, container: str) -> dict[str, str]:
    """As a kubelet with containerd has them. Source: pkg/kubelet/server/server.go containerPrometheusLabelsFunc."""
    images = {c.get("name"): c.get("image") for c in spec_of(pod or {}).get("containers") or ()}
    told = {t.get("name"): t for t in status_of(pod or {}).get("containerStatuses") or ()}
    own = str((told.get(container) or {}).get("containerID") or "").rpartition("//")[2]
    return {
        "container": container,
        "id": f"/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/{container}",
        "image": str(images.get(container) or ""),
        "name": own or f"{uid}-{container}",
        "namespace": namespace,
        "pod": name,
    }


def _of_specs(
    pods: Mapping[tuple[str, str], Obj], use: NodeUse, read: Callable[[Obj], float | None]
) -> Lines:
    for pod in use.pods:
        obj = pods.get((pod.namespace, pod.name))
        limits = {
            c["name"]: (c.get("resources") or {}).get("limits") or {}
            for c in spec_of(obj or {}).get("containers") or ()
        }
        for container in pod.containers:
            value = read(limits.get(container.name) or {})
            if value is not None:
                yield _labels(obj, pod.namespace, pod.name, pod.uid, container.name), value


def _cpu_quota(limits: Obj) -> float | None:
    """Of a period of 100 ms, in µs."""
    return milli_ceil(limits["cpu"]) * 100.0 if limits.get("cpu") else None


def _memory_limit(limits: Obj) -> float | None:
    return float(whole_ceil(limits["memory"])) if limits.get("memory") else None


def kubelet(node: Obj, use: NodeUse) -> Iterator[Block]:
    """`/metrics`: what of the kubelet's own is known."""
    running = sum(len(pod.containers) for pod in use.pods)
    rows: tuple[tuple[str, str, dict[str, str], float], ...] = (
        ("kubelet_node_name", "[ALPHA] The node's name. The count is always 1.", {"node": name_of(node)}, 1),
        ("kubelet_running_pods", "[ALPHA] Number of pods that have a running pod sandbox", {}, len(use.pods)),
        (
            "kubelet_running_containers",
            "[ALPHA] Number of containers currently running",
            {"container_state": "running"},
            running,
        ),
    )
    for name, said, labels, value in rows:
        yield Block(name, "gauge", said, [sample(name, labels, float(value))])


def node_exporter(node: Obj, use: NodeUse, since_us: int, at_us: int) -> Iterator[Block]:
    """node-exporter's `/metrics`."""
    info = status_of(node).get("nodeInfo") or {}
    capacity = status_of(node).get("capacity") or status_of(node).get("allocatable") or {}
    cores = max(1, milli_ceil(capacity.get("cpu") or 0) // 1000)
    total = float(whole_ceil(capacity.get("memory") or 0))
    free = max(total - use.memory_bytes, 0.0)
    # Work is spread over all cores.
    busy = min(use.core_ns / _NANO / cores, (at_us - since_us) / SECOND_US)
    idle = max((at_us - since_us) / SECOND_US - busy, 0.0)
    name = "node_cpu_seconds_total"
    lines = [
        sample(name, {"cpu": str(cpu), "mode": mode}, value)
        for cpu in range(min(cores, _MOST_CORES))
        for mode, value in (("idle", idle), ("system", 0.0), ("user", busy))
    ]
    yield Block(name, "counter", "Seconds the CPUs spent in each mode.", lines)
    load = use.cpu_milli / 1000
    uname = {
        "domainname": "(none)",
        "machine": "aarch64" if info.get("architecture") == "arm64" else "x86_64",
        "nodename": name_of(node),
        "release": str(info.get("kernelVersion") or ""),
        "sysname": "Linux",
        "version": "#1 SMP",
    }
    rows: tuple[tuple[str, str, dict[str, str], float], ...] = (
        ("node_boot_time_seconds", "Node boot time, in unixtime.", {}, float(since_us // SECOND_US)),
        ("node_load1", "1m load average.", {}, load),
        ("node_load5", "5m load average.", {}, load),
        ("node_load15", "15m load average.", {}, load),
        ("node_memory_MemAvailable_bytes", "Memory information field MemAvailable_bytes.", {}, free),
        ("node_memory_MemFree_bytes", "Memory information field MemFree_bytes.", {}, free),
        ("node_memory_MemTotal_bytes", "Memory information field MemTotal_bytes.", {}, total),
        ("node_time_seconds", "System time in seconds since epoch (1970).", {}, at_us / SECOND_US),
        ("node_uname_info", "Labeled system information as provided by the uname system call.", uname, 1.0),
    )
    for name, said, labels, value in rows:
        yield Block(name, "gauge", said, [sample(name, labels, value)])
