"""What do Karpenter and the Cluster Autoscaler tell Prometheus: names, types, labels?

Those whose figures the engines know. What measures the controllers themselves (how long a loop took) is not here.

Source: karpenter pkg/metrics/metrics.go, controllers/disruption/metrics.go, controllers/metrics/nodepool,
node/termination/terminator/metrics.go; kubernetes-sigs/cluster-autoscaler pkg/metrics/metrics.go (2026-08).
"""

from __future__ import annotations

from functools import cache

from fairway.kube.metricfamilies import Family

# `name type label,label: help`; `-`: no label.
_TABLE = """
karpenter_nodeclaims_created_total counter reason,nodepool,min_values_relaxed: NodeClaims made, by why
karpenter_nodeclaims_terminated_total counter nodepool,capacity_type,zone: NodeClaims that are gone
karpenter_nodeclaims_disrupted_total counter reason,nodepool,capacity_type,consolidation_policy,termination_mode: By why
karpenter_nodes_created_total counter nodepool,zone: Nodes that registered
karpenter_nodes_terminated_total counter nodepool,zone: Nodes that are gone
karpenter_nodepools_limit gauge resource_type,nodepool: Limits of a NodePool
karpenter_nodepools_usage gauge resource_type,nodepool: What a NodePool's nodes come to
karpenter_pods_drained_total counter reason: Pods evicted from nodes that go, by why these go
karpenter_pods_eviction_requests_total counter code: Evictions asked for, by the API server's answer
karpenter_scheduler_unschedulable_pods_count gauge controller: Pods that found no place in the last simulation
karpenter_voluntary_disruption_decisions_total counter decision,reason,consolidation_type: Commands carried out
karpenter_voluntary_disruption_failed_validations_total counter consolidation_type: Commands dropped on a second look
cluster_autoscaler_nodes_count gauge state: Nodes by state
cluster_autoscaler_node_groups_count gauge node_group_type: Node groups
cluster_autoscaler_unschedulable_pods_count gauge type: Pods that the scheduler found no place for
cluster_autoscaler_max_nodes_count gauge -: Most nodes in all groups; 0: any number
cluster_autoscaler_cluster_cpu_current_cores gauge -: Cores of all nodes
cluster_autoscaler_cluster_memory_current_bytes gauge -: Memory of all nodes
cluster_autoscaler_node_group_min_count gauge node_group: Least size of a group
cluster_autoscaler_node_group_max_count gauge node_group: Largest size of a group
cluster_autoscaler_node_group_target_count gauge node_group: Size asked of the cloud
cluster_autoscaler_node_group_backoff_status gauge node_group,reason: 1 while a group is in backoff
cluster_autoscaler_scaled_up_nodes_total counter gpu_resource_name,gpu_name,dra_drivers: Nodes asked for
cluster_autoscaler_scaled_up_gpu_nodes_total counter gpu_resource_name,gpu_name: Nodes with GPUs asked for
cluster_autoscaler_failed_scale_ups_total counter reason,gpu_resource_name,gpu_name,dra_drivers: Scale-ups that failed
cluster_autoscaler_scaled_down_nodes_total counter reason,gpu_resource_name,gpu_name,dra_drivers: Nodes removed, by why
cluster_autoscaler_scaled_down_gpu_nodes_total counter reason,gpu_resource_name,gpu_name: Those with GPUs
cluster_autoscaler_evicted_pods_total counter eviction_result: Pods evicted from nodes that go
cluster_autoscaler_unneeded_nodes_count gauge -: Nodes that nobody needs now
cluster_autoscaler_unremovable_nodes_count gauge reason: Nodes that stay, by why
cluster_autoscaler_scale_down_in_cooldown gauge -: 1 while nothing may be removed
cluster_autoscaler_pending_node_deletions gauge -: Nodes on their way out
cluster_autoscaler_old_unregistered_nodes_removed_count counter -: Machines given up because they did not register
"""


@cache
def families() -> dict[str, Family]:
    """By name."""
    found = {}
    for line in _TABLE.strip().splitlines():
        head, _, text = line.partition(": ")
        name, type_, labels = head.split(" ")
        found[name] = Family(name, type_, () if labels == "-" else tuple(labels.split(",")), text)
    return found
