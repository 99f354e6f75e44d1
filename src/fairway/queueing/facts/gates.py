"""Kueue's feature gates that change a decision, with their defaults.

Source: pkg/features/kube_features.go (main, 2026-08).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Field names are the gates' names in snake case."""

    admission_fair_sharing: bool = True
    admission_gated_by: bool = True
    cleanup_provisioning_requests_on_eviction: bool = True
    concurrent_admission: bool = False
    elastic_jobs_via_workload_slices: bool = True
    elastic_jobs_via_workload_slices_with_tas: bool = False
    fair_sharing_preempt_within_nominal: bool = True
    fair_sharing_prioritize_non_borrowing: bool = True
    flavor_fungibility: bool = True
    flavor_fungibility_preserve_scan_progress: bool = True
    kueue_dra_integration: bool = True
    kueue_dra_integration_consumable_capacity: bool = False
    kueue_dra_integration_extended_resource: bool = True
    kueue_dra_integration_partitionable_devices: bool = True
    kueue_dra_reject_workloads_when_dra_disabled: bool = True
    partial_admission: bool = True
    prioritize_preemptor_workloads: bool = False
    priority_boost: bool = False
    priority_sorting_within_cohort: bool = True
    quota_check_strategy: bool = True
    reclaimable_pods: bool = True
    recompute_assignment_upon_preemption_targets_overlap: bool = True
    scheduling_equivalence_hashing: bool = True
    skip_reassignment_for_pod_owned_workloads: bool = True
    tas_assignments_encoding_by_hostname_prefix: bool = True
    tas_balanced_placement: bool = False
    tas_failed_node_replacement: bool = True
    tas_failed_node_replacement_fail_fast: bool = True
    tas_handle_overlapping_flavors: bool = True
    tas_profile_mixed: bool = True
    tas_recompute_assignment_within_scheduling_cycle: bool = True
    tas_replace_node_on_node_taints: bool = True
    tas_replace_node_on_pod_termination: bool = True
    tas_respect_node_affinity_preferred: bool = False
    topology_aware_scheduling: bool = True
    unadmitted_workloads_explicit_status: bool = False
    unadmitted_workloads_observability: bool = True
    multi_kueue_orchestrated_preemption: bool = False


DEFAULT_GATES: Final = FeatureGates()
_WORD: Final = re.compile(r"TAS|DRA|[A-Z][a-z]*")


def field_of(gate: str) -> str:
    """`TASProfileMixed` → `tas_profile_mixed`."""
    return "_".join(_WORD.findall(gate)).lower()


def gates_from(named: Mapping[str, bool] | None) -> tuple[FeatureGates, tuple[str, ...]]:
    """The defaults changed as a `featureGates` map says, and the names that no decision here depends on."""
    known = {f.name for f in fields(FeatureGates)}
    changes, unknown = {}, []
    for gate, enabled in sorted((named or {}).items()):
        name = field_of(gate)
        if name in known:
            changes[name] = bool(enabled)
        else:
            unknown.append(gate)
    return replace(DEFAULT_GATES, **changes), tuple(unknown)
