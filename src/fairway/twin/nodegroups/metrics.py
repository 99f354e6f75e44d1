"""What would the Cluster Autoscaler's metrics say now?

Source: see `provisioning/metrics.py`; what counts when: core/static_autoscaler.go, clusterstate, actuation. GPUs are
`generic`: which label tells their model is the cloud's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.kube.metricfamilies import Sample
from fairway.kube.resources import CPU, MEMORY, NVIDIA_GPU
from fairway.provisioning.clusterautoscaler.groups import NodeView
from fairway.provisioning.clusterautoscaler.scaledown import Removable
from fairway.twin.nodegroups.grouping import GroupSpec
from fairway.twin.tally import Tally

if TYPE_CHECKING:
    from fairway.twin.nodegroups.component import ClusterAutoscaler

_P = "cluster_autoscaler_"
EMPTY, UNDERUTILIZED, UNREADY = "empty", "underutilized", "unready"


def _gpu(group: GroupSpec) -> tuple[str, str]:
    has_gpu = group.kind.capacity.get(NVIDIA_GPU, 0) > 0
    return (NVIDIA_GPU, "generic") if has_gpu else ("", "")


def grew(tally: Tally, group: GroupSpec, nodes: int) -> None:
    gpu = _gpu(group)
    tally.add(f"{_P}scaled_up_nodes_total", *gpu, "", times=nodes)
    if gpu[0]:
        tally.add(f"{_P}scaled_up_gpu_nodes_total", *gpu, times=nodes)


def failed(tally: Tally, group: GroupSpec, reason: str) -> None:
    tally.add(f"{_P}failed_scale_ups_total", reason, *_gpu(group), "")


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
    nodes = autoscaler.nodes()
    out = [*autoscaler.tally.samples(), *_of_nodes(nodes, len(autoscaler.coming))]
    now_us = autoscaler.host.loop.now_us
    for group in autoscaler.plan.groups:
        out += [
            Sample(f"{_P}node_group_min_count", (group.name,), float(group.least)),
            Sample(f"{_P}node_group_max_count", (group.name,), float(group.most)),
            Sample(f"{_P}node_group_target_count", (group.name,), float(autoscaler.targets[group.name])),
        ]
        backoff = autoscaler.backoffs.get(group.name)
        if backoff is not None and backoff.until_us >= now_us:
            out.append(Sample(f"{_P}node_group_backoff_status", (group.name, backoff.why), 1.0))
    plain = {
        "max_nodes_count": autoscaler.plan.options.max_nodes_total,
        "unneeded_nodes_count": len(autoscaler.since_us),
        "scale_down_in_cooldown": int(now_us < autoscaler.rests_until_us()),
        "pending_node_deletions": len(autoscaler.removals.going),
    }
    out += [Sample(f"{_P}{name}", (), float(value)) for name, value in plain.items()]
    groups = Sample(f"{_P}node_groups_count", ("autoscaled",), float(len(autoscaler.plan.groups)))
    waiting = Sample(f"{_P}unschedulable_pods_count", ("unschedulable",), float(len(autoscaler.pending)))
    kept = [
        Sample(f"{_P}unremovable_nodes_count", (reason,), float(n))
        for reason, n in sorted(autoscaler.kept.items())
    ]
    return [*out, groups, waiting, *kept]


def _of_nodes(nodes: tuple[NodeView, ...], coming: int) -> list[Sample]:
    states = {
        "ready": sum(n.is_ready for n in nodes),
        "unready": sum(not n.is_ready for n in nodes),
        "notStarted": 0,
        "longUnregistered": 0,
        "unregistered": coming,
    }
    out = [Sample(f"{_P}nodes_count", (state,), float(count)) for state, count in states.items()]
    cpu, memory = (sum(n.seat.capacity.get(name, 0) for n in nodes) for name in (CPU, MEMORY))
    return [
        *out,
        Sample(f"{_P}cluster_cpu_current_cores", (), cpu / 1000),
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
