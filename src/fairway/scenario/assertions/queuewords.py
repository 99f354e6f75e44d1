"""What can be asserted of Kueue's queues: waits and evictions of Workloads, quota, shares."""

from __future__ import annotations

from fairway.scenario.assertions.terms import (
    BYTES,
    CLUSTER,
    COUNT,
    CPUS,
    DURATION,
    FLAG,
    GPUS,
    QUEUED,
    QUEUES,
    QUOTAS,
    RATIO,
    TEXT,
    FieldOf,
    Metric,
    Set,
)

_AMOUNTS = (RATIO, GPUS, CPUS, BYTES, COUNT)


def _quota(name: str, meaning: str) -> Metric:
    return Metric(name, CLUSTER, _AMOUNTS, meaning, is_curve=True, chooses=QUOTAS)


def _of_queues(name: str, meaning: str) -> Metric:
    return Metric(name, CLUSTER, (COUNT,), meaning, is_curve=True, chooses=QUEUES)


METRICS = (
    Metric("queue wait", QUEUED, (DURATION,), "from a Workload's creation until Kueue first admits it"),
    Metric("evictions", QUEUED, (COUNT,), "how often a Workload lost its quota before it was done"),
    Metric("preemptions", QUEUED, (COUNT,), "how often it did so to make room for another"),
    _quota("quota used", "quota in use; in % of the nominal quota"),
    _quota("quota borrowed", "quota in use beyond a ClusterQueue's nominal quota"),
    _quota("quota lent", "nominal quota that others of the cohort use"),
    _of_queues("pending workloads", "Workloads that wait for quota"),
    _of_queues("pending gangs", "those of them with more than one pod"),
    _of_queues("weighted share", "Kueue's weighted share; of several ClusterQueues the largest"),
    Metric(
        "fairness",
        CLUSTER,
        (RATIO,),
        "Jain's index of what contending ClusterQueues get, of the least fair cohort",
        is_curve=True,
        can_choose=False,
        chooses=QUEUES,
    ),
)

SETS = (
    Set("queued", QUEUED, "all Workloads of Kueue", lambda r: True, lambda r: r.created_us),
    Set(
        "admitted",
        QUEUED,
        "Workloads that Kueue admitted",
        lambda r: r.admitted_us is not None,
        lambda r: r.admitted_us,
    ),
    Set(
        "unadmitted",
        QUEUED,
        "Workloads that Kueue never admitted",
        lambda r: r.admitted_us is None,
        lambda r: r.created_us,
    ),
    Set(
        "evicted workloads",
        QUEUED,
        "Workloads that lost their quota before they were done",
        lambda r: r.evictions > 0,
        lambda r: r.evicted_us,
    ),
    Set(
        "preempted workloads",
        QUEUED,
        "Workloads that made room for others",
        lambda r: r.preemptions > 0,
        lambda r: r.evicted_us,
    ),
)

_CLUSTER_QUEUE = FieldOf(TEXT, lambda r: r.cluster_queue, "the ClusterQueue")
_COHORT = FieldOf(TEXT, lambda r: r.cohort, "the path of its cohorts from the root: company/research")

QUEUED_FIELDS = {
    "clusterQueue": _CLUSTER_QUEUE,
    "queue": FieldOf(TEXT, lambda r: r.queue, "the LocalQueue"),
    "priority": FieldOf(COUNT, lambda r: r.priority, "priority"),
    "pods": FieldOf(COUNT, lambda r: r.pods, "pods it starts together"),
    "gang": FieldOf(FLAG, lambda r: r.is_gang, "whether they are more than one"),
    "outcome": FieldOf(
        TEXT, lambda r: r.outcome, "Finished, Admitted, QuotaReserved, Pending, Inactive or Deleted"
    ),
    "eviction": FieldOf(TEXT, lambda r: r.eviction, "reason of its last eviction: Preempted, …"),
    "preemption": FieldOf(TEXT, lambda r: r.preemption, "why it was preempted: InCohortReclamation, …"),
}
QUOTA_FIELDS = {
    "clusterQueue": _CLUSTER_QUEUE,
    "cohort": _COHORT,
    "flavor": FieldOf(TEXT, lambda r: r.flavor, "the ResourceFlavor"),
    "resource": FieldOf(TEXT, lambda r: r.resource, "the resource"),
}
QUEUE_FIELDS = {"clusterQueue": _CLUSTER_QUEUE, "cohort": _COHORT}
