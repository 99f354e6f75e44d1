"""Which metrics does Kueue export: names, types, labels, buckets?

Source: pkg/metrics/metrics.go (main, 2026-08).
"""

from __future__ import annotations

from functools import cache

from fairway.kube.metricfamilies import HISTOGRAM, Family

# `name type buckets label,label: help`. `replica_role` is a label of all but build_info.
_TABLE = """
admission_attempts_total counter 0 result: Attempts to admit workloads: success where at least one was admitted
admission_attempt_duration_seconds histogram 0 result: How long an attempt to admit took
admission_cycle_preemption_skips gauge 0 cluster_queue: Workloads with preemption candidates skipped in the last cycle
preemption_target_recomputations_total counter 0 cluster_queue,result: Recomputations after overlapping preemptions
pending_workloads gauge 0 cluster_queue,status: Pending workloads, active or inadmissible
pending_scheduling_hashes gauge 0 cluster_queue,status: Distinct shapes among pending workloads
local_queue_pending_workloads gauge 0 name,namespace,status: Pending workloads of a LocalQueue
finished_workloads gauge 0 cluster_queue: Finished workloads that are still there
local_queue_finished_workloads gauge 0 name,namespace: Finished workloads of a LocalQueue that are still there
quota_reserved_workloads_total counter 0 cluster_queue,priority_class: Workloads that got quota
local_queue_quota_reserved_workloads_total counter 0 name,namespace,priority_class: Workloads that got quota
finished_workloads_total counter 0 cluster_queue,priority_class: Workloads that finished
local_queue_finished_workloads_total counter 0 name,namespace,priority_class: Workloads that finished
execution_time_seconds histogram 16 cluster_queue,priority_class: From first admission to completion
local_queue_execution_time_seconds histogram 16 name,namespace,priority_class: From first admission to completion
quota_reserved_wait_time_seconds histogram 14 cluster_queue,priority_class: From creation or requeue to quota
local_queue_quota_reserved_wait_time_seconds histogram 14 name,namespace,priority_class: From queued to quota
pods_ready_to_evicted_time_seconds histogram 14 cluster_queue,reason,underlying_cause: From pods ready to eviction
admitted_workloads_total counter 0 cluster_queue,priority_class: Workloads that were admitted
local_queue_admitted_workloads_total counter 0 name,namespace,priority_class: Workloads that were admitted
admission_wait_time_seconds histogram 16 cluster_queue,priority_class: From creation or requeue to admission
local_queue_admission_wait_time_seconds histogram 14 name,namespace,priority_class: From queued to admission
ready_wait_time_seconds histogram 14 cluster_queue,priority_class: From creation or requeue to pods ready
local_queue_ready_wait_time_seconds histogram 14 name,namespace,priority_class: From queued to pods ready
admitted_until_ready_wait_time_seconds histogram 14 cluster_queue,priority_class: From admission to pods ready
local_queue_admitted_until_ready_wait_time_seconds histogram 14 name,namespace,priority_class: Admission to ready
admission_checks_wait_time_seconds histogram 14 cluster_queue,priority_class: From quota to admission
local_queue_admission_checks_wait_time_seconds histogram 14 name,namespace,priority_class: From quota to admission
evicted_workloads_total counter 0 cluster_queue,reason,underlying_cause,priority_class: Evictions
local_queue_evicted_workloads_total counter 0 name,namespace,reason,underlying_cause,priority_class: Evictions
evicted_workloads_once_total counter 0 cluster_queue,reason,underlying_cause,priority_class: Workloads evicted at all
replaced_workload_slices_total counter 0 cluster_queue: Slices of elastic jobs replaced by their successors
preempted_workloads_total counter 0 preempting_cluster_queue,reason: Preemptions, by who caused them
workload_eviction_latency_seconds histogram 14 cluster_queue,reason: From eviction until the quota is released
reserving_active_workloads gauge 0 cluster_queue: Workloads that hold quota
local_queue_reserving_active_workloads gauge 0 name,namespace: Workloads that hold quota
admitted_active_workloads gauge 0 cluster_queue: Workloads that are admitted and active
local_queue_admitted_active_workloads gauge 0 name,namespace: Workloads that are admitted and active
cluster_queue_status gauge 0 cluster_queue,status: 1 for the status the ClusterQueue has
local_queue_status gauge 0 name,namespace,active: 1 for the status the LocalQueue has
unadmitted_workloads gauge 0 cluster_queue,reason,underlying_cause: Workloads not admitted, by reason
local_queue_unadmitted_workloads gauge 0 name,namespace,cluster_queue,reason,underlying_cause: Not admitted, by reason
cluster_queue_resource_reservation gauge 0 cohort,cluster_queue,flavor,resource: Quota reserved
cluster_queue_resource_usage gauge 0 cohort,cluster_queue,flavor,resource: Quota of admitted workloads
cluster_queue_resource_pending gauge 0 cluster_queue,resource: What pending workloads ask for
local_queue_resource_reservation gauge 0 name,namespace,flavor,resource: Quota reserved
local_queue_resource_usage gauge 0 name,namespace,flavor,resource: Quota of admitted workloads
local_queue_admission_fair_sharing_usage gauge 0 name,namespace,cluster_queue: Weighted usage of late
cluster_queue_nominal_quota gauge 0 cohort,cluster_queue,flavor,resource: Nominal quota
cluster_queue_borrowing_limit gauge 0 cohort,cluster_queue,flavor,resource: Borrowing limit, +Inf where there is none
cluster_queue_lending_limit gauge 0 cohort,cluster_queue,flavor,resource: Lending limit, +Inf where there is none
cluster_queue_weighted_share gauge 0 cluster_queue,cohort: Dominant share above nominal quota by weight
cohort_weighted_share gauge 0 cohort: Dominant share above nominal quota by weight
cohort_subtree_quota gauge 0 cohort,flavor,resource: Nominal quota of the cohort and all below it
cohort_subtree_admitted_workloads_total counter 0 cohort,priority_class: Workloads admitted in the cohort and below
cohort_subtree_resource_reservations gauge 0 cohort,flavor,resource: Quota reserved in the cohort and below
cohort_subtree_admitted_active_workloads gauge 0 cohort: Workloads admitted and active in the cohort and below
cohort_info gauge 0 cohort,parent_cohort,root_cohort: 1; says where the cohort stands
cluster_queue_info gauge 0 cluster_queue,parent_cohort,root_cohort: 1; says where the ClusterQueue stands
"""
# prometheus.DefBuckets.
_DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@cache
def families() -> dict[str, Family]:
    """By name, with the prefix `kueue_`."""
    found = {}
    for line in _TABLE.strip().splitlines():
        head, _, text = line.partition(": ")
        short, type_, buckets, labels = head.split(" ")
        name = f"kueue_{short}"
        bounds = _buckets(int(buckets)) if type_ == HISTOGRAM else ()
        found[name] = Family(name, type_, (*labels.split(","), "replica_role"), text, bounds)
    return found


def _buckets(count: int) -> tuple[float, ...]:
    """1, then 2.5 doubled again and again."""
    return (1.0, *(2.5 * 2**n for n in range(count - 1))) if count else _DEFAULT_BUCKETS
