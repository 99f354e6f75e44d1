"""GPUs that are there and do not serve: in fragments, hot, held and idle, or lost to churn."""

from __future__ import annotations

from fairway.answers.doctor.findings import Finding, Patient, found, unknown
from fairway.kube.objects import name_of, status_of
from fairway.kube.timestamps import HOUR_US
from fairway.results.fragmentation import PENDING, cluster_gpus

_USED_LEAST = 0.30
_CHURN_LEAST = 2
# Of node conditions, as node-problem-detector, the GPU Operator and NVIDIA's health monitors name them.
_TROUBLES = ("gpu", "thermal", "power", "throttl", "xid", "nvlink", "hardware")


def fragments(patient: Patient) -> Finding:
    """Free GPUs that none of those who wait can use."""
    if "Node" in patient.moment.unseen:
        return unknown("no nodes were read")
    gpus = cluster_gpus(patient.moment.store)
    if gpus.demand != PENDING or not gpus.free_milli:
        return Finding("well")
    return found(
        (
            f"{loss.nodes} nodes",
            f"{loss.gpu_milli / 1000:g} of {gpus.free_milli / 1000:g} free GPUs are lost: {loss.words}",
        )
        for loss in gpus.losses
        if loss.gpu_milli
    )


def hot_nodes(patient: Patient) -> Finding:
    """Nodes whose conditions speak of GPUs, heat or power."""
    if "Node" in patient.moment.unseen:
        return unknown("no nodes were read")
    nodes = patient.moment.store.objects("Node")
    told = [
        (f"node/{name_of(node)}", f"{c.get('type')}: {c.get('message') or c.get('reason') or ''}")
        for node in nodes
        for c in status_of(node).get("conditions") or ()
        if c.get("status") == "True" and any(word in str(c.get("type")).lower() for word in _TROUBLES)
    ]
    if told:
        return found(told)
    return unknown("nodes say nothing of their GPUs' clocks: only DCGM's metrics tell")


def idle_holders(patient: Patient) -> Finding:
    """Pods that held GPUs for an hour or more and used little of them."""
    lines, told = [], False
    for row in patient.history.pods:
        used = getattr(row, "used_gpu_milli_us", None)
        if used is None or not row.gpu_milli or not patient.is_mine(row.namespace):
            continue
        told = True
        held = row.held_gpu_milli_us
        if held >= row.gpu_milli * HOUR_US and used < _USED_LEAST * held:
            share, hours = 100 * used / held, held / 1000 / HOUR_US
            lines.append((f"{row.namespace}/pod/{row.name}", f"used {share:.0f} % of {hours:,.1f} GPU-hours"))
    return found(lines) if told else unknown("nobody tells how GPUs are used: DCGM's metrics would")


def churn(patient: Patient) -> Finding:
    """Work that lost its quota or its node again and again."""
    lines = []
    for row in patient.history.queues.workloads:
        if row.preemptions >= _CHURN_LEAST and patient.is_mine(row.namespace):
            said = f"preempted {row.preemptions} times, last {row.preemption or row.eviction}"
            lines.append((f"{row.namespace}/workload/{row.name}", said))
    lost: dict[str, int] = {}
    for pod in patient.history.pods:
        if pod.disruption and patient.is_mine(pod.namespace):
            owner = f"{pod.namespace}/{(pod.root_kind or 'Pod').lower()}/{pod.root_name or pod.name}"
            lost[owner] = lost.get(owner, 0) + 1
    lines += [
        (owner, f"{count} of its pods were disrupted")
        for owner, count in lost.items()
        if count >= _CHURN_LEAST
    ]
    return found(lines)
