"""Which feature gates does Kueue know, and which are on unless the Configuration says otherwise?

`gates.FeatureGates` holds those a decision here depends on; this list is complete, so that a misspelt gate is
refused and not ignored.

Source: pkg/features/kube_features.go (main, 2026-08).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ON: Final = """
AdmissionFairSharing AdmissionGatedBy AssignQueueLabelsForPods CleanupProvisioningRequestsOnEviction
DeferRayServiceFinalizationForRedisCleanup ElasticJobsViaWorkloadSlices FairSharingPreemptWithinNominal
FairSharingPrioritizeNonBorrowing FinishOrphanedWorkloads FlavorFungibility FlavorFungibilityPreserveScanProgress
KueueDRAIntegration KueueDRAIntegrationExtendedResource KueueDRAIntegrationPartitionableDevices
KueueDRARejectWorkloadsWhenDRADisabled LWSImmutableGroupSize LocalQueueMetrics
ManagedJobsNamespaceSelectorAlwaysRespected MetricForWorkloadCreationLatency MetricsForCohorts MultiKueue
MultiKueueAdaptersForCustomJobs MultiKueueIncrementalDispatcherConfig
MultiKueueIncrementalDispatcherRespectConfigOrder MultiKueueKubeConfigPathValidation MultiKueueRemoteSpecSync
PartialAdmission PodIntegrationValidateGroupOwner PrioritySortingWithinCohort QuotaCheckStrategy ReclaimablePods
RecomputeAssignmentUponPreemptionTargetsOverlap RemoveFinalizersWithStrictPatch SchedulingEquivalenceHashing
SkipAncestorCheckForDeletedWorkloads SkipReassignmentForPodOwnedWorkloads TASAssignmentsEncodingByHostnamePrefix
TASCacheNodeMatchResults TASCacheTopologyTree TASCachingRemainingResources TASFailedNodeReplacement
TASFailedNodeReplacementFailFast TASHandleOverlappingFlavors TASMultiLayerTopology TASProfileMixed
TASRecomputeAssignmentWithinSchedulingCycle TASReplaceNodeOnNodeTaints TASReplaceNodeOnPodTermination
TASValidateWorkloadSliceSize TLSOptions TopologyAwareScheduling UnadmittedWorkloadsObservability
ValidateRayAndSparkJobUpdates VectorizedResourceRequests VisibilityOnDemand WorkloadIdentifierAnnotations
WorkloadPriorityClassDefaulting WorkloadValidateResourcesAreNonNegative WorkloadValidationForPodSetMetadata
"""
_OFF: Final = """
ConcurrentAdmission CustomMetricLabels DisableWaitForPodsReady ElasticJobsViaWorkloadSlicesWithTAS
FailureRecoveryPolicy FastQuotaReleaseInPodIntegration KueueDRAIntegrationConsumableCapacity
MultiKueueClusterProfile MultiKueueManagerQuotaAutomation MultiKueueOrchestratedPreemption PrioritizePreemptorWorkloads
PriorityBoost RejectUpdatesToCQWithInvalidOnFlavors SchedulerLibraryIntegration ShortWorkloadNames
SparkApplicationIntegration TASBalancedPlacement TASReplaceNodeDueToNotReadyOverFixedTime
TASRespectNodeAffinityPreferred UnadmittedWorkloadsExplicitStatus WorkloadRequestUseMergePatch
"""

DEFAULTS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(_ON.split(), True),
    **dict.fromkeys(_OFF.split(), False),
}
# Gates that graduated: setting them otherwise is an error.
LOCKED: Final = ("ManagedJobsNamespaceSelectorAlwaysRespected", "TLSOptions")
# Switches of whole groups, from component-base.
SPECIAL: Final = ("AllAlpha", "AllBeta")


def gate_problem(named: Mapping[str, bool]) -> str:
    """What component-base's SetFromMap says about the first gate it cannot set; empty: nothing."""
    for name in sorted(named):
        if name in SPECIAL:
            continue
        if name not in DEFAULTS:
            return f"unrecognized feature gate: {name}"
        if name in LOCKED and named[name] != DEFAULTS[name]:
            value, locked = str(named[name]).lower(), str(DEFAULTS[name]).lower()
            return f"cannot set feature gate {name} to {value}, feature is locked to {locked}"
    return ""
