"""What Karpenter's metrics are called, and which labels they have.

For whoever exports what a twin's provisioner did, so that dashboards made for Karpenter read it.

Source: pkg/metrics/metrics.go; disruption/metrics.go; provisioning/scheduling/metrics.go; metrics/nodepool.
"""

from __future__ import annotations

NODECLAIMS_CREATED = "karpenter_nodeclaims_created_total"
NODECLAIMS_TERMINATED = "karpenter_nodeclaims_terminated_total"
NODECLAIMS_DISRUPTED = "karpenter_nodeclaims_disrupted_total"
NODES_CREATED = "karpenter_nodes_created_total"
NODES_TERMINATED = "karpenter_nodes_terminated_total"
PODS_DISRUPTION_INITIATED = "karpenter_pods_disruption_initiated_total"
SCHEDULING_DURATION_S = "karpenter_scheduler_scheduling_duration_seconds"
UNSCHEDULABLE_PODS = "karpenter_scheduler_unschedulable_pods_count"
QUEUE_DEPTH = "karpenter_scheduler_queue_depth"
DECISIONS = "karpenter_voluntary_disruption_decisions_total"
ELIGIBLE_NODES = "karpenter_voluntary_disruption_eligible_nodes"
FAILED_VALIDATIONS = "karpenter_voluntary_disruption_failed_validations_total"
ALLOWED_DISRUPTIONS = "karpenter_nodepools_allowed_disruptions"
NODES_CONSUMING_BUDGETS = "karpenter_nodepools_nodes_consuming_budgets"

NODEPOOL = "nodepool"
REASON = "reason"
CAPACITY_TYPE = "capacity_type"
CONSOLIDATION_TYPE = "consolidation_type"
DECISION = "decision"
# What created a claim: its `reason`.
PROVISIONED = "provisioned"
