"""What do Karpenter and the Cluster Autoscaler tell Prometheus: names, types, labels, buckets?

Those whose figures the engines know. What measures the controllers themselves (how long a loop took) is not here.

Source: karpenter pkg/metrics/metrics.go, controllers/disruption/metrics.go, controllers/metrics, controllers/state,
node/termination, nodeclaim/lifecycle, cloudprovider/metrics; kubernetes-sigs/cluster-autoscaler pkg/metrics/metrics.go
(2026-08).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from fairway.kube.metricfamilies import Family

# What a Node is told apart by: Karpenter's well-known labels, without their domains. Source: controllers/metrics/node.
NODE_LABELS: Final = (
    "arch",
    "capacity_type",
    "instance_type",
    "managed",
    "node_name",
    "nodepool",
    "os",
    "phase",
    "region",
    "windows_build",
    "zone",
)
# Source: controllers/metrics/pod labelNames.
POD_LABELS: Final = (
    "name",
    "namespace",
    "owner",
    "node",
    "scheduled",
    "nodepool",
    "zone",
    "arch",
    "capacity_type",
    "instance_type",
    "phase",
    "ready",
    "managed",
)
# A word for many labels, in the table below.
_SEVERAL = {
    "NODE": NODE_LABELS,
    "POD": POD_LABELS,
    "DISRUPTED": ("reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"),
}
_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86400.0
# fmt: off
_BUCKETS: Final = {
    # metrics.DurationBuckets
    "durations": (
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
        1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
        120.0, 150.0, 300.0, 450.0, 600.0,
    ),
    "doubling": tuple(2.0**n for n in range(12)),
    "lifetimes": (
        *(n * _MINUTE_S for n in (15, 30, 45)),
        *(n * _HOUR_S for n in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
        *(n * _DAY_S for n in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
    ),
}
# fmt: on

# `name type label,label: help`; `-`: no label. A histogram says after a slash which of the buckets above it has.
_TABLE = """
karpenter_nodeclaims_created_total counter reason,nodepool,min_values_relaxed: NodeClaims made, by why
karpenter_nodeclaims_terminated_total counter nodepool,capacity_type,zone: NodeClaims that are gone
karpenter_nodeclaims_disrupted_total counter DISRUPTED: NodeClaims told to go, by why
karpenter_nodeclaims_termination_duration_seconds histogram/doubling nodepool: From a NodeClaim's deletion to its end
karpenter_nodes_created_total counter nodepool,zone: Nodes that registered
karpenter_nodes_terminated_total counter nodepool,zone: Nodes that are gone
karpenter_nodes_drained_total counter nodepool: Nodes that were emptied before they went
karpenter_nodes_termination_duration_seconds summary nodepool: From a Node's deletion to its end
karpenter_nodes_lifetime_duration_seconds histogram/lifetimes nodepool: Age of Nodes when they went
karpenter_nodes_current_lifetime_seconds gauge NODE: Age of a Node
karpenter_nodes_allocatable gauge NODE,resource_type: What a Node has for pods
karpenter_nodes_system_overhead gauge NODE,resource_type: What a Node keeps for the system: capacity less allocatable
karpenter_nodes_total_pod_requests gauge NODE,resource_type: Requests of all pods on a Node
karpenter_nodes_total_pod_limits gauge NODE,resource_type: Limits of all pods on a Node
karpenter_nodes_total_daemon_requests gauge NODE,resource_type: Requests of DaemonSets' pods on a Node
karpenter_nodes_total_daemon_limits gauge NODE,resource_type: Limits of DaemonSets' pods on a Node
karpenter_cluster_utilization_percent gauge resource_type: Requests as a part of what all Nodes have for pods
karpenter_cluster_state_node_count gauge -: Nodes, and NodeClaims that are no Node yet
karpenter_cluster_state_synced gauge -: 1 while what is known of the cluster is what the API server says
karpenter_cluster_state_unsynced_time_seconds gauge -: For how long it has been otherwise
karpenter_nodepools_limit gauge resource_type,nodepool: Limits of a NodePool
karpenter_nodepools_usage gauge resource_type,nodepool: What a NodePool's nodes come to
karpenter_nodepools_cost_total gauge nodepool: Dollars an hour of a NodePool's machines, by list price
karpenter_nodepools_allowed_disruptions gauge nodepool,reason: Nodes that the budgets let go at once
karpenter_nodepools_nodes_consuming_budgets gauge nodepool,reason: Nodes that go, or are not ready
karpenter_pods_state gauge POD: 1; says where a pod is and how it is
karpenter_pods_disruption_initiated_total counter DISRUPTED: Pods that have to move because their node goes
karpenter_pods_drained_total counter reason: Pods evicted from nodes that go, by why these go
karpenter_pods_eviction_requests_total counter code: Evictions asked for, by the API server's answer
karpenter_pods_startup_duration_seconds summary -: From a pod's creation until it was ready
karpenter_pods_unstarted_time_seconds gauge name,namespace: Age of pods that were not ready yet
karpenter_pods_bound_duration_seconds histogram/durations -: From a pod's creation until it had a node
karpenter_pods_unbound_time_seconds gauge name,namespace: Age of pods without a node
karpenter_scheduler_ignored_pods_count gauge -: Pods left out of the last simulation
karpenter_scheduler_unschedulable_pods_count gauge controller: Pods that found no place in the last simulation
karpenter_voluntary_disruption_decisions_total counter decision,reason,consolidation_type: Commands carried out
karpenter_voluntary_disruption_decisions_by_nodepool_total counter nodepool,decision,reason,consolidation_type: Likewise
karpenter_voluntary_disruption_eligible_nodes gauge reason: Nodes that may go for this reason, budgets aside
karpenter_voluntary_disruption_consolidation_timeouts_total counter consolidation_type: Searches cut off by time
karpenter_voluntary_disruption_failed_validations_total counter consolidation_type: Candidates that failed a second look
karpenter_voluntary_disruption_queue_failures_total counter decision,reason,consolidation_type: Replacements lost
karpenter_cloudprovider_errors_total counter controller,method,provider,error: Calls of the cloud that failed
cluster_autoscaler_cluster_safe_to_autoscale gauge -: 1 unless too many nodes are unready
cluster_autoscaler_nodes_count gauge state: Nodes by state
cluster_autoscaler_node_groups_count gauge node_group_type: Node groups
cluster_autoscaler_unschedulable_pods_count gauge type: Pods that the scheduler found no place for
cluster_autoscaler_max_nodes_count gauge -: Most nodes there may be: the groups' sum, or --max-nodes-total
cluster_autoscaler_cluster_cpu_current_cores gauge -: Cores of all nodes but those that go
cluster_autoscaler_cluster_memory_current_bytes gauge -: Memory of all nodes but those that go
cluster_autoscaler_node_group_min_count gauge node_group: Least size of a group
cluster_autoscaler_node_group_max_count gauge node_group: Largest size of a group
cluster_autoscaler_node_group_target_count gauge node_group: Size asked of the cloud
cluster_autoscaler_node_group_healthiness gauge node_group: 1 unless too many of a group's nodes are missing
cluster_autoscaler_node_group_backoff_status gauge node_group,reason: 1 while a group is in backoff
cluster_autoscaler_last_activity gauge activity: When a loop, or its growing or shrinking, last ran: Unix time
cluster_autoscaler_scaled_up_nodes_total counter gpu_resource_name,gpu_name,dra_drivers: Nodes asked for
cluster_autoscaler_scaled_up_gpu_nodes_total counter gpu_resource_name,gpu_name: Nodes with GPUs asked for
cluster_autoscaler_failed_scale_ups_total counter reason,gpu_resource_name,gpu_name,dra_drivers: Scale-ups that failed
cluster_autoscaler_failed_gpu_scale_ups_total counter reason,gpu_resource_name,gpu_name: Those of groups with GPUs
cluster_autoscaler_failed_node_creations_total counter reason: Nodes that did not come
cluster_autoscaler_scaled_down_nodes_total counter reason,gpu_resource_name,gpu_name,dra_drivers: Nodes removed, by why
cluster_autoscaler_scaled_down_gpu_nodes_total counter reason,gpu_resource_name,gpu_name: Those with GPUs
cluster_autoscaler_evicted_pods_total counter eviction_result: Pods evicted from nodes that go
cluster_autoscaler_unneeded_nodes_count gauge -: Nodes that nobody needs now
cluster_autoscaler_unremovable_nodes_count gauge reason: Nodes that stay, by why
cluster_autoscaler_scale_down_in_cooldown gauge -: 1 while nothing may be removed
cluster_autoscaler_pending_node_deletions gauge -: Nodes on their way out
cluster_autoscaler_old_unregistered_nodes_removed_count counter -: Machines given up because they did not register
cluster_autoscaler_errors_total counter type: Loops that failed
cluster_autoscaler_skipped_scale_events_count counter direction,reason: Scalings left out because of a limit
"""


@cache
def families() -> dict[str, Family]:
    """By name."""
    found = {}
    for line in _TABLE.strip().splitlines():
        head, _, text = line.partition(": ")
        name, kind, labels = head.split(" ")
        type_, _, buckets = kind.partition("/")
        found[name] = Family(name, type_, _labels(labels), text, _BUCKETS[buckets] if buckets else ())
    return found


def _labels(said: str) -> tuple[str, ...]:
    words = () if said == "-" else said.split(",")
    return tuple(label for word in words for label in _SEVERAL.get(word, (word,)))
