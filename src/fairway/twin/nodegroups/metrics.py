"""What would the Cluster Autoscaler's metrics say now?

Source: see `provisioning/metrics.py`; what counts when: core/static_autoscaler.go, clusterstate, actuation. GPUs are
`generic`: which label tells their model is the cloud's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.kube.metricfamilies import Sample
from fairway.kube.resources import CPU, MEMORY, NVIDIA_GPU
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.clusterautoscaler import statustext
from fairway.provisioning.clusterautoscaler.groups import NodeView
from fairway.provisioning.clusterautoscaler.scaledown import Removable
from fairway.provisioning.metrics import families
from fairway.twin.nodegroups.grouping import GroupSpec
from fairway.twin.tally import Tally

if TYPE_CHECKING:
    from fairway.twin.nodegroups.component import ClusterAutoscaler

_P = "cluster_autoscaler_"
EMPTY, UNDERUTILIZED, UNREADY = "empty", "underutilized", "unready"
# What is shown before anything happened. Source: InitMetrics.
_FROM_THE_START = {
    "errors_total": (
        ("cloudProviderError",),
        ("apiCallError",),
        ("internalError",),
        ("transientError",),
        ("configurationError",),
        ("nodeGroupDoesNotExistError",),
        ("unexpectedScaleDownStateError",),
    ),
    "failed_scale_ups_total": tuple(
        (r, "", "", "") for r in ("cloudProviderError", "apiCallError", "timeout")
    ),
    "failed_node_creations_total": (("cloudProviderError",), ("apiCallError",), ("timeout",)),
    "scaled_down_nodes_total": tuple((r, "", "", "") for r in (UNDERUTILIZED, EMPTY, UNREADY)),
    "evicted_pods_total": (("succeeded",), ("failed",)),
    "skipped_scale_events_count": tuple(
        (d, limit) for d in ("down", "up") for limit in ("CpuResourceLimit", "MemoryResourceLimit")
    ),
    "old_unregistered_nodes_removed_count": ((),),
}


def new_tally() -> Tally:
    tally = Tally(families())
    for name, series in _FROM_THE_START.items():
        for labels in series:
            tally.begin(f"{_P}{name}", *labels)
    return tally


def _gpu(group: GroupSpec) -> tuple[str, str]:
    has_gpu = group.kind.capacity.get(NVIDIA_GPU, 0) > 0
    return (NVIDIA_GPU, "generic") if has_gpu else ("", "")


def grew(tally: Tally, group: GroupSpec, nodes: int) -> None:
    gpu = _gpu(group)
    tally.add(f"{_P}scaled_up_nodes_total", *gpu, "", times=nodes)
    if gpu[0]:
        tally.add(f"{_P}scaled_up_gpu_nodes_total", *gpu, times=nodes)


def failed(tally: Tally, group: GroupSpec, reason: str, nodes: int) -> None:
    """Growing a group failed, for so many nodes."""
    gpu = _gpu(group)
    tally.add(f"{_P}failed_scale_ups_total", reason, *gpu, "")
    tally.add(f"{_P}failed_node_creations_total", reason, times=nodes)
    if gpu[0]:
        tally.add(f"{_P}failed_gpu_scale_ups_total", reason, *gpu)


def gave_up(tally: Tally, machines: int) -> None:
    tally.add(f"{_P}old_unregistered_nodes_removed_count", times=machines)


def shrank(tally: Tally, group: GroupSpec, *, drained: bool) -> None:
    reason, gpu = UNDERUTILIZED if drained else EMPTY, _gpu(group)
    tally.add(f"{_P}scaled_down_nodes_total", reason, *gpu, "")
    if gpu[0]:
        tally.add(f"{_P}scaled_down_gpu_nodes_total", reason, *gpu)


def evicted(tally: Tally, *, allowed: bool) -> None:
    tally.add(f"{_P}evicted_pods_total", "succeeded" if allowed else "failed")


def samples(autoscaler: ClusterAutoscaler) -> list[Sample]:
    """Counters so far, and gauges as of now and of the last loop. O(nodes + groups)."""
    nodes, now_us = autoscaler.nodes(), autoscaler.host.loop.now_us
    out = [*autoscaler.tally.samples(), *_of_nodes(nodes, len(autoscaler.coming))]
    for group in autoscaler.plan.groups:
        out += _of_group(autoscaler, group, nodes)
    plain = {
        "cluster_safe_to_autoscale": int(statustext.is_healthy(nodes)),
        "max_nodes_count": _most_nodes(autoscaler),
        "unneeded_nodes_count": len(autoscaler.since_us),
        "scale_down_in_cooldown": int(now_us < autoscaler.rests_until_us()),
        "pending_node_deletions": len(autoscaler.removals.going),
    }
    out += [Sample(f"{_P}{name}", (), float(value)) for name, value in plain.items()]
    by_label = {
        ("node_groups_count", "autoscaled"): len(autoscaler.plan.groups),
        ("node_groups_count", "autoprovisioned"): 0,
        ("unschedulable_pods_count", "unschedulable"): len(autoscaler.pending),
        ("unschedulable_pods_count", "scheduler_unprocessed"): 0,
        ("last_activity", "main"): autoscaler.looked_us() // SECOND_US,
    }
    out += [Sample(f"{_P}{name}", (label,), float(value)) for (name, label), value in by_label.items()]
    kept = sorted(autoscaler.kept.items())
    return [*out, *(Sample(f"{_P}unremovable_nodes_count", (reason,), float(n)) for reason, n in kept)]


def _most_nodes(autoscaler: ClusterAutoscaler) -> int:
    of_groups, most = sum(g.most for g in autoscaler.plan.groups), autoscaler.plan.options.max_nodes_total
    return min(of_groups, most) if most else of_groups


def _of_group(autoscaler: ClusterAutoscaler, group: GroupSpec, nodes: tuple[NodeView, ...]) -> list[Sample]:
    own = [n for n in nodes if n.group == group.name]
    coming = sum(name == group.name for name, _ in autoscaler.coming.values())
    ready = sum(n.is_ready for n in own)
    # What should be there by now and is not. Source: clusterstate.go IsNodeGroupHealthy.
    missing = max(autoscaler.targets[group.name] - coming - ready, 0)
    is_healthy = missing <= statustext.OK_UNREADY or missing <= statustext.MOST_UNREADY * len(own)
    plain = {
        "min_count": group.least,
        "max_count": group.most,
        "target_count": autoscaler.targets[group.name],
        "healthiness": int(is_healthy),
    }
    out = [Sample(f"{_P}node_group_{name}", (group.name,), float(value)) for name, value in plain.items()]
    backoff = autoscaler.backoffs.get(group.name)
    is_off = backoff is not None and backoff.until_us >= autoscaler.host.loop.now_us
    why = "" if backoff is None else backoff.why
    return [*out, Sample(f"{_P}node_group_backoff_status", (group.name, why), float(is_off))]


def _of_nodes(nodes: tuple[NodeView, ...], coming: int) -> list[Sample]:
    states = {
        "ready": sum(n.is_ready for n in nodes),
        "unready": sum(not n.is_ready for n in nodes),
        "notStarted": 0,
        "suspended": 0,
        "longUnregistered": 0,
        "unregistered": coming,
    }
    out = [Sample(f"{_P}nodes_count", (state,), float(count)) for state, count in states.items()]
    held = [n.seat.capacity for n in nodes if not n.is_going]
    # Whole cores of each node. Source: core/static_autoscaler.go calculateCoresMemoryTotal.
    cores = sum(-(-capacity.get(CPU, 0) // 1000) for capacity in held)
    memory = sum(capacity.get(MEMORY, 0) for capacity in held)
    return [
        *out,
        Sample(f"{_P}cluster_cpu_current_cores", (), float(cores)),
        Sample(f"{_P}cluster_memory_current_bytes", (), float(memory)),
    ]


def counted(kept: dict[str, tuple[str, str]], found: tuple[Removable, ...]) -> dict[str, int]:
    """How many nodes stay for each reason; those that could go are none of them."""
    removable = {r.node for r in found}
    counts: dict[str, int] = {}
    for node, (reason, _) in kept.items():
        if node not in removable:
            counts[reason] = counts.get(reason, 0) + 1
    return counts
