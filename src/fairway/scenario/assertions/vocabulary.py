"""What can be measured, of what, in which unit, and by which fields rows can be chosen.

This table is the language: the parser checks against it, `docs/assertions.md` lists it, a test compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairway.recorder.queuetables import QueuedRow
from fairway.recorder.tables import NodeRow, PodRow, WorkloadRow
from fairway.scenario.assertions import alertwords, queuewords
from fairway.scenario.assertions.terms import (
    ALERTS,
    BYTES,
    CLUSTER,
    COUNT,
    CPUS,
    DURATION,
    FLAG,
    GPUS,
    NODES,
    PODS,
    QUEUED,
    QUEUES,
    QUOTAS,
    RATIO,
    SCALINGS,
    SERVICES,
    TEXT,
    WORKLOADS,
    FieldOf,
    Metric,
    Set,
)


def _metrics(*metrics: Metric) -> dict[str, Metric]:
    return {m.name: m for m in metrics}


METRICS: dict[str, Metric] = _metrics(
    Metric("wait", PODS, (DURATION,), "from a pod's creation until it is Running"),
    Metric("scheduling wait", PODS, (DURATION,), "from a pod's creation until it has a node"),
    Metric("startup", PODS, (DURATION,), "from having a node until it is Running"),
    Metric("run time", PODS, (DURATION,), "from Running until a pod's end"),
    Metric("restarts", PODS, (COUNT,), "restarts of a pod's containers"),
    Metric("job wait", WORKLOADS, (DURATION,), "from a workload's creation until its first pod is Running"),
    Metric("job run time", WORKLOADS, (DURATION,), "from a workload's first Running pod until its end"),
    Metric("turnaround", WORKLOADS, (DURATION,), "from a workload's creation until its end"),
    Metric("gpu allocated", CLUSTER, (RATIO, GPUS), "GPUs that pods hold", is_curve=True),
    Metric(
        "gpu used", CLUSTER, (RATIO, GPUS), "GPUs in use, by what pods say", is_curve=True, can_choose=False
    ),
    Metric(
        "gpu efficiency",
        CLUSTER,
        (RATIO,),
        "use of the GPUs held by pods that say how they use them",
        is_curve=True,
        can_choose=False,
    ),
    Metric("gpu pending", CLUSTER, (GPUS,), "GPUs asked for by pods without a node", is_curve=True),
    Metric("cpu allocated", CLUSTER, (RATIO, CPUS), "CPUs that pods hold", is_curve=True),
    Metric("memory allocated", CLUSTER, (RATIO, BYTES), "memory that pods hold", is_curve=True),
    Metric("pending", CLUSTER, (COUNT,), "pods without a node", is_curve=True),
    Metric("starting", CLUSTER, (COUNT,), "pods on a node and not yet Running", is_curve=True),
    Metric("running", CLUSTER, (COUNT,), "pods Running", is_curve=True),
    Metric("nodes", CLUSTER, (COUNT,), "nodes there are", is_curve=True, can_choose=False),
    Metric(
        "queue length",
        CLUSTER,
        (COUNT,),
        "workloads that wait: suspended, or with a pod that has no node",
        is_curve=True,
        can_choose=False,
    ),
    Metric(
        "fragmentation",
        CLUSTER,
        (RATIO,),
        "share of free GPU that a GPU pod drawn from those seen could not use",
        is_curve=True,
        can_choose=False,
    ),
    Metric(
        "makespan",
        WORKLOADS,
        (DURATION,),
        "from the start of the run until the last workload's end",
        is_single=True,
    ),
    Metric(
        "lost work",
        CLUSTER,
        (DURATION,),
        "container time whose work was lost (done since the last checkpoint)",
        is_single=True,
        can_choose=False,
    ),
    Metric(
        "wasted gpu",
        PODS,
        (RATIO,),
        "share of GPU time held by pods that ended without success",
        is_single=True,
    ),
    *queuewords.METRICS,
    *alertwords.METRICS,
)

STATISTICS = ("mean", "min", "max", "total")
DEFAULT_STATISTIC = "mean"


def _ended(row: PodRow) -> int | None:
    return row.finished_us if row.finished_us is not None else row.deleted_us


def _sets(*sets: Set) -> dict[str, Set]:
    return {s.name: s for s in sets}


SETS: dict[str, Set] = _sets(
    Set("pods", PODS, "all pods", lambda r: True, lambda r: r.created_us),
    Set(
        "scheduled",
        PODS,
        "pods that got a node",
        lambda r: r.scheduled_us is not None,
        lambda r: r.scheduled_us,
    ),
    Set("started", PODS, "pods that ran", lambda r: r.is_started, lambda r: r.started_us),
    Set(
        "unstarted",
        PODS,
        "pods that never ran",
        lambda r: not r.is_started,
        lambda r: r.created_us,
    ),
    Set(
        "unschedulable",
        PODS,
        "pods that never got a node though the scheduler tried",
        lambda r: r.scheduled_us is None and bool(r.unschedulable),
        lambda r: r.created_us,
    ),
    Set("succeeded", PODS, "pods that Succeeded", lambda r: r.phase == "Succeeded", _ended),
    Set("failed", PODS, "pods that Failed", lambda r: r.phase == "Failed", _ended),
    Set(
        "evicted",
        PODS,
        "pods taken away: preempted, evicted, lost with a node",
        lambda r: r.is_evicted,
        _ended,
    ),
    Set(
        "preempted",
        PODS,
        "pods that made room for others",
        lambda r: (
            bool(r.preempted_by) or r.disruption == "PreemptionByScheduler" or r.queue_eviction == "Preempted"
        ),
        _ended,
    ),
    Set(
        "restarted", PODS, "pods whose containers restarted", lambda r: r.restarts > 0, lambda r: r.created_us
    ),
    Set("wasted", PODS, "pods that ran and ended without success", lambda r: r.is_wasted, _ended),
    Set("workloads", WORKLOADS, "all workloads nobody else owns", lambda r: True, lambda r: r.created_us),
    Set(
        "jobs",
        WORKLOADS,
        "workloads that are meant to end",
        lambda r: (
            r.kind not in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")
        ),
        lambda r: r.created_us,
    ),
    Set(
        "completed",
        WORKLOADS,
        "workloads that completed",
        lambda r: r.outcome == "Complete",
        lambda r: r.finished_us,
    ),
    Set(
        "failed jobs",
        WORKLOADS,
        "workloads that failed",
        lambda r: r.outcome == "Failed",
        lambda r: r.finished_us,
    ),
    Set(
        "unfinished jobs",
        WORKLOADS,
        "workloads that are meant to end and did not",
        lambda r: r.outcome in ("Running", "Waiting", "Suspended"),
        lambda r: r.created_us,
    ),
    Set("nodes", NODES, "all nodes there ever were", lambda r: True, lambda r: r.created_us),
    Set(
        "scalings",
        SCALINGS,
        "changes of replicas by autoscalers",
        lambda r: bool(r.autoscaler_kind),
        lambda r: r.at_us,
    ),
    Set(
        "flaps",
        SCALINGS,
        "changes against the one before them, within ten minutes",
        lambda r: r.is_flap,
        lambda r: r.at_us,
    ),
    Set("services", SERVICES, "Services that model servers answer", lambda r: True, lambda r: r.at_us),
    *queuewords.SETS,
    *alertwords.SETS,
)


def _getter(column: str) -> Callable[[Any], Any]:
    return lambda row: getattr(row, column)


def _common(kind: Callable[[Any], str]) -> dict[str, FieldOf]:
    return {
        "namespace": FieldOf(TEXT, lambda r: r.namespace, "namespace"),
        "name": FieldOf(TEXT, lambda r: r.name, "name"),
        "kind": FieldOf(TEXT, kind, "kind of the workload: Job, Deployment, …"),
        "priorityClass": FieldOf(TEXT, lambda r: r.priority_class, "priority class"),
        "queue": FieldOf(TEXT, lambda r: r.queue, "label kueue.x-k8s.io/queue-name"),
        "reason": FieldOf(TEXT, lambda r: r.reason, "why it ended, where its status says so"),
        "user": FieldOf(TEXT, lambda r: r.labels.get("fairway.dev/user", ""), "label fairway.dev/user"),
        "gpus": FieldOf(GPUS, lambda r: r.gpu_milli, "GPUs asked for"),
        "wait": FieldOf(DURATION, lambda r: r.wait_us, "from creation until Running"),
        "runTime": FieldOf(DURATION, lambda r: r.run_us, "from Running until its end"),
    }


def _root_kind(row: PodRow) -> str:
    return row.root_kind or row.owner_kind or "Pod"


def _root_name(row: PodRow) -> str:
    return row.root_name or row.owner_name or row.name


FIELDS: Mapping[str, dict[str, FieldOf]] = {
    PODS: {
        **_common(_root_kind),
        "workload": FieldOf(TEXT, _root_name, "name of the topmost owner, or of the pod itself"),
        "phase": FieldOf(TEXT, lambda r: r.phase, "the last phase seen"),
        "node": FieldOf(TEXT, lambda r: r.node, "the node it ran on"),
        "priority": FieldOf(COUNT, lambda r: r.priority, "priority"),
        "cpus": FieldOf(CPUS, lambda r: r.cpu_milli, "CPUs asked for"),
        "memory": FieldOf(BYTES, lambda r: r.memory_bytes, "memory asked for"),
        "restarts": FieldOf(COUNT, lambda r: r.restarts, "restarts of its containers"),
        "serving": FieldOf(FLAG, lambda r: r.is_serving, "whether it runs until told otherwise"),
        "clusterQueue": FieldOf(TEXT, lambda r: r.cluster_queue, "Kueue's ClusterQueue it was admitted by"),
        "disruption": FieldOf(TEXT, lambda r: r.disruption, "what took it away: PreemptionByScheduler, …"),
    },
    WORKLOADS: {
        **_common(lambda r: str(r.kind)),
        "outcome": FieldOf(
            TEXT, lambda r: r.outcome, "Complete, Failed, Running, Waiting, Suspended or Deleted"
        ),
        "pods": FieldOf(COUNT, lambda r: r.pods, "pods created for it"),
    },
    NODES: {
        "name": FieldOf(TEXT, lambda r: r.name, "name"),
        "instanceType": FieldOf(TEXT, lambda r: r.instance_type, "instance type"),
        "gpuModel": FieldOf(TEXT, lambda r: r.gpu_model, "model of its GPUs"),
        "gpus": FieldOf(GPUS, lambda r: r.gpu_milli, "GPUs it has"),
        "pods": FieldOf(COUNT, lambda r: r.pods, "pods that were bound to it"),
    },
    QUEUED: {**_common(lambda r: r.owner_kind or "Workload"), **queuewords.QUEUED_FIELDS},
    SCALINGS: {
        "namespace": FieldOf(TEXT, lambda r: r.namespace, "namespace"),
        "name": FieldOf(TEXT, lambda r: r.name, "name of the target"),
        "kind": FieldOf(TEXT, lambda r: r.kind, "kind of the target: Deployment, …"),
        "reason": FieldOf(TEXT, lambda r: r.reason, "why, in the autoscaler's words"),
        "autoscaler": FieldOf(TEXT, lambda r: r.autoscaler, "name of the autoscaler"),
        "replicas": FieldOf(COUNT, lambda r: r.after, "replicas after it"),
    },
    SERVICES: {
        "namespace": FieldOf(TEXT, lambda r: r.namespace, "namespace"),
        "name": FieldOf(TEXT, lambda r: r.name, "name of the Service"),
        **{
            name: FieldOf(COUNT, _getter(column), f"requests that {what}")
            for name, column, what in (
                ("requests", "requests", "came"),
                ("answered", "ok", "were answered"),
                ("refused", "refused", "were refused (503): a full queue, or nobody ready"),
                ("lost", "lost", "were lost with their server, or found nobody there"),
                ("timedOut", "timed_out", "were given up by their client"),
                ("tooLong", "too_long", "did not fit into the cache"),
                ("failed", "failed", "were answered with an error"),
                ("unfinished", "unfinished", "had not ended"),
            )
        },
        **{
            f"{name}P{p}": FieldOf(DURATION, _getter(f"{column}_us_p{p}"), f"{what}, percentile {p}")
            for name, column, what in (
                ("ttft", "ttft", "time to the first token"),
                ("tpot", "tpot", "time per output token after it"),
                ("endToEnd", "end_to_end", "time to the last token"),
                ("queueTime", "queue", "time before it was begun"),
            )
            for p in (50, 95, 99)
        },
        "attained": FieldOf(
            COUNT, lambda r: r.attained_permille, "requests of a thousand answered within the SLO"
        ),
        "readyMost": FieldOf(COUNT, lambda r: r.ready_most, "ready servers, at most"),
    },
    QUOTAS: queuewords.QUOTA_FIELDS,
    QUEUES: queuewords.QUEUE_FIELDS,
    ALERTS: alertwords.FIELDS,
}
LABEL = "label"
"""`label("team")`: any label of the row."""

# What objects of a kind can reach. Other kinds: any condition type, and Deleted.
STATES: dict[str, tuple[str, ...]] = {
    "Pod": (
        "Created",
        "Scheduled",
        "Running",
        "Ready",
        "Succeeded",
        "Failed",
        "Unschedulable",
        "Evicted",
        "Restarted",
        "Refused",
        "Deleted",
    ),
    "Job.batch": ("Created", "Started", "Complete", "Failed", "Suspended", "Refused", "Deleted"),
    "Deployment.apps": (
        "Created",
        "Available",
        "Progressing",
        "ReplicaFailure",
        "Stalled",
        "Refused",
        "Deleted",
    ),
    "ReplicaSet.apps": ("Created", "Ready", "ReplicaFailure", "Refused", "Deleted"),
    "StatefulSet.apps": ("Created", "Ready", "Refused", "Deleted"),
    "DaemonSet.apps": ("Created", "Ready", "Refused", "Deleted"),
    "Node": ("Created", "Ready", "NotReady", "Cordoned", "Refused", "Deleted"),
    "Namespace": ("Created", "Refused", "Deleted"),
}
ANY_STATES = ("Created", "Refused", "Deleted")

Row = PodRow | WorkloadRow | NodeRow | QueuedRow | alertwords.AlertRow

__all__ = [
    "ALERTS",
    "ANY_STATES",
    "BYTES",
    "CLUSTER",
    "COUNT",
    "CPUS",
    "DEFAULT_STATISTIC",
    "DURATION",
    "FIELDS",
    "FLAG",
    "GPUS",
    "LABEL",
    "METRICS",
    "NODES",
    "PODS",
    "QUEUED",
    "QUEUES",
    "QUOTAS",
    "RATIO",
    "SCALINGS",
    "SERVICES",
    "SETS",
    "STATES",
    "STATISTICS",
    "TEXT",
    "WORKLOADS",
    "FieldOf",
    "Metric",
    "Row",
    "Set",
]
