"""The schemas of Kueue's CRDs, as compact tables (see `schema` for the notation).

Facts of config/components/crd/bases, kueue.x-k8s.io (main, 2026-08). Pod templates are `any`: they are judged when
pods are made from them. v1beta1 types carry the suffix `V1`, and only where they differ.
"""

from __future__ import annotations

from functools import cache

from fairway.queueing.webhooks.schema import Node, read_tables

_QUOTAS = """
FairSharing
  weight qty default:1
ResourceQuota
  borrowingLimit qty
  lendingLimit qty
  name! str
  nominalQuota! qty
FlavorQuotas
  name! str /subdomain len<=253
  resources! [ResourceQuota] items>=1 items<=64 map:name
ResourceGroup
  cel sameNumberOfResources
  coveredResources! [str] items>=1 items<=64 atomic
  flavors! [FlavorQuotas] items>=1 items<=64 map:name
Condition
  lastTransitionTime! time
  message! str len<=32768
  observedGeneration int min:0
  reason! str /reason len>=1 len<=1024
  status! str enum:True|False|Unknown
  type! str /labelkey len<=316
FairSharingStatus
  weightedShare! int
UsageStatus
  consumedResources! {qty}
  lastUpdate! time
LocalQueueFairSharingStatus
  admissionFairSharingStatus UsageStatus
  weightedShare! int
ResourceUsage
  borrowed qty
  name! str
  total qty
FlavorUsage
  name! str /subdomain len<=253
  resources! [ResourceUsage] items<=64 map:name
LabelSelectorRequirement
  key! str
  operator! str
  values [str] atomic
LabelSelector
  matchExpressions [LabelSelectorRequirement] atomic
  matchLabels {str}
"""

_QUEUES = """
AdmissionCheckStrategyRule
  name! str len>=1 len<=316
  onFlavors [str] items<=64 set of:/subdomain of:len<=253
AdmissionChecksStrategy
  admissionChecks! [AdmissionCheckStrategyRule] items>=1 items<=64 map:name
AdmissionScope
  admissionMode! str enum:UsageBasedAdmissionFairSharing|NoAdmissionFairSharing
MigrationConstraints
  lastAcceptableFlavorName str /subdomain len<=253
Migration
  constraints MigrationConstraints
  mode! str enum:TryPreferredFlavors|RetainFirstAdmission len<=253
ConcurrentAdmissionPolicy
  migration! Migration
FlavorFungibility
  cel preferenceNeedsNextFlavor
  preference str enum:BorrowingOverPreemption|PreemptionOverBorrowing
  whenCanBorrow str enum:MayStopSearch|TryNextFlavor default:"MayStopSearch"
  whenCanPreempt str enum:MayStopSearch|TryNextFlavor default:"TryNextFlavor"
BorrowWithinCohort
  maxPriorityThreshold int
  policy str enum:Never|LowerPriority default:"Never"
Preemption
  cel neverReclaimsNorBorrows
  borrowWithinCohort BorrowWithinCohort default:{}
  reclaimWithinCohort str enum:Never|LowerPriority|Any default:"Never"
  withinClusterQueue str enum:Never|LowerPriority|LowerOrNewerEqualPriority default:"Never"
ClusterQueueSpec
  cel noBorrowingWithoutCohort
  admissionChecksStrategy AdmissionChecksStrategy
  admissionScope AdmissionScope
  cohortName str /subdomain len<=253
  concurrentAdmissionPolicy ConcurrentAdmissionPolicy
  fairSharing FairSharing
  flavorFungibility FlavorFungibility default:{}
  namespaceSelector LabelSelector atomic
  preemption Preemption default:{}
  queueingStrategy str enum:StrictFIFO|BestEffortFIFO default:"BestEffortFIFO"
  resourceGroups [ResourceGroup] items<=16 atomic
  stopPolicy str enum:None|Hold|HoldAndDrain default:"None"
ClusterQueueStatus
  admittedWorkloads int
  conditions [Condition] items<=16 map:type
  fairSharing FairSharingStatus
  flavorsReservation [FlavorUsage] items<=64 map:name
  flavorsUsage [FlavorUsage] items<=64 map:name
  pendingWorkloads int
  reservingWorkloads int
ClusterQueue
  spec ClusterQueueSpec
  status ClusterQueueStatus
AdmissionCheckStrategyRuleV1
  name! str len<=316
  onFlavors [str] of:/subdomain of:len<=253
AdmissionChecksStrategyV1
  admissionChecks [AdmissionCheckStrategyRuleV1]
AdmissionScopeV1
  admissionMode! str
FlavorFungibilityV1
  same FlavorFungibility
  whenCanBorrow str enum:MayStopSearch|TryNextFlavor|Borrow default:"MayStopSearch"
  whenCanPreempt str enum:MayStopSearch|TryNextFlavor|Preempt default:"TryNextFlavor"
ClusterQueueSpecV1
  cel noBorrowingWithoutCohortV1
  admissionChecks [str] of:len<=316
  admissionChecksStrategy AdmissionChecksStrategyV1
  admissionScope AdmissionScopeV1
  cohort str /subdomain len<=253
  fairSharing FairSharing
  flavorFungibility FlavorFungibilityV1 default:{}
  namespaceSelector LabelSelector atomic
  preemption Preemption default:{}
  queueingStrategy str enum:StrictFIFO|BestEffortFIFO default:"BestEffortFIFO"
  resourceGroups [ResourceGroup] items<=16 atomic
  stopPolicy str enum:None|Hold|HoldAndDrain default:"None"
ClusterQueueV1
  spec ClusterQueueSpecV1
  status any
CohortSpec
  fairSharing FairSharing
  parentName str /subdomain len<=253
  resourceGroups [ResourceGroup] items<=16 atomic
CohortStatus
  fairSharing FairSharingStatus
Cohort
  spec CohortSpec
  status CohortStatus
CohortV1
  spec CohortSpec
  status any
LocalQueueSpec
  clusterQueue str /subdomain len<=253 cel:immutable
  fairSharing FairSharing
  stopPolicy str enum:None|Hold|HoldAndDrain default:"None"
LocalQueueResourceUsage
  name! str
  total qty
LocalQueueFlavorUsage
  name! str /subdomain len<=253
  resources! [LocalQueueResourceUsage] items<=64 map:name
LocalQueueStatus
  admittedWorkloads int
  conditions [Condition] items<=16 map:type
  fairSharing LocalQueueFairSharingStatus
  flavorsReservation [LocalQueueFlavorUsage] items<=64 map:name
  flavorsUsage [LocalQueueFlavorUsage] items<=64 map:name
  pendingWorkloads int
  reservingWorkloads int
LocalQueue
  spec LocalQueueSpec
  status LocalQueueStatus
LocalQueueV1
  spec LocalQueueSpec
  status any
"""

_FLAVORS = """
Taint
  effect! str
  key! str
  timeAdded time
  value str
Toleration
  effect str
  key str
  operator str
  tolerationSeconds int
  value str
ResourceFlavorSpec
  cel topologyNeedsNodeLabels topologyNameStays
  nodeLabels {str} props<=8 atomic
  nodeTaints [Taint] items<=8 atomic cel:taintEffects
  tolerations [Toleration] items<=8 atomic cel:keylessExists cel:secondsNeedNoExecute
    cel:operators cel:existsHasNoValue cel:effects
  topologyName str /subdomain len<=253
ResourceFlavor
  spec ResourceFlavorSpec
TopologyLevel
  nodeLabel! str /labelkey len>=1 len<=316
TopologySpec
  levels! [TopologyLevel] items>=1 items<=16 atomic cel:levelsMutable cel:unique cel:hostnameLowest
Topology
  spec TopologySpec
TopologySpecV1
  levels! [TopologyLevel] items>=1 items<=16 atomic cel:immutable cel:unique cel:hostnameLowest
TopologyV1
  spec TopologySpecV1
WorkloadPriorityClass
  description str len<=2048
  value! int
WorkloadPriorityClassV1
  description str
  value! int
"""

_CHECKS = """
AdmissionCheckParameters
  apiGroup! str /subdomain len>=1 len<=253
  kind! str /kind len>=1 len<=63
  name! str /label len>=1 len<=63
AdmissionCheckSpec
  controllerName! str len>=1 len<=253 cel:immutable
  parameters AdmissionCheckParameters
ConditionedStatus
  conditions [Condition] items<=16 map:type
AdmissionCheck
  spec AdmissionCheckSpec
  status ConditionedStatus
AdmissionCheckParametersV1
  apiGroup! str /subdomain len<=253
  kind! str /kind len<=63
  name! str /label len<=63
AdmissionCheckSpecV1
  controllerName! str cel:immutable
  parameters AdmissionCheckParametersV1
  retryDelayMinutes int default:15
AdmissionCheckV1
  spec AdmissionCheckSpecV1
  status any
PodSetUpdatesNodeSelector
  key! str /labelkey len>=1 len<=317
  valueFromProvisioningClassDetail! str len>=1 len<=32768
ProvisioningPodSetUpdates
  nodeSelector [PodSetUpdatesNodeSelector] items<=8 map:key
RetryStrategy
  backoffBaseSeconds int default:60
  backoffLimitCount int default:3
  backoffMaxSeconds int default:1800
ProvisioningRequestConfigSpec
  managedResources [str] items<=100 set
  parameters {str} props<=100 of:len<=255
  podSetMergePolicy str enum:IdenticalPodTemplates|IdenticalWorkloadSchedulingRequirements
  podSetUpdates ProvisioningPodSetUpdates
  provisioningClassName! str /subdomain len>=1 len<=253
  retryStrategy RetryStrategy default:{"backoffBaseSeconds":60,"backoffLimitCount":3,"backoffMaxSeconds":1800}
ProvisioningRequestConfig
  spec ProvisioningRequestConfigSpec
ClusterProfileReference
  name! str len>=1 len<=256
KubeConfig
  location! str len>=1 len<=256
  locationType str enum:Secret|Path default:"Secret"
ClusterSource
  cel oneClusterSource
  clusterProfileRef ClusterProfileReference
  kubeConfig KubeConfig
MultiKueueClusterSpec
  clusterSource! ClusterSource
MultiKueueCluster
  spec MultiKueueClusterSpec
  status ConditionedStatus
KubeConfigV1
  location! str
  locationType! str enum:Secret|Path default:"Secret"
MultiKueueClusterSpecV1
  clusterProfileRef ClusterProfileReference
  kubeConfig! KubeConfigV1
MultiKueueClusterV1
  spec MultiKueueClusterSpecV1
  status any
MultiKueueConfigSpec
  clusters! [str] items>=1 items<=20 atomic cel:unique of:len<=256
  quotaManagement str enum:Manual|Automated
MultiKueueConfig
  spec MultiKueueConfigSpec
MultiKueueConfigSpecV1
  clusters! [str] items>=1 items<=20 set
MultiKueueConfigV1
  spec MultiKueueConfigSpecV1
"""

_WORKLOADS = """
SliceConstraint
  size! int min:1
  topology! str len>=1 len<=63
TopologyRequest
  podIndexLabel str len<=317
  podSetGroupName str len<=256
  podSetSliceRequiredTopology str len<=63
  podSetSliceSize int min:1
  podsetSliceRequiredTopologyConstraints [SliceConstraint] items<=3 atomic
  preferred str len<=63
  required str len<=63
  subGroupCount int min:0
  subGroupIndexLabel str len<=317
  unconstrained bool
PodSet
  cel minCountWithinCount
  count int min:0 default:1
  minCount int min:1
  name str /label len<=63 default:"main"
  template! any
  topologyRequest TopologyRequest
PreemptionGate
  name! str len>=1 len<=63
PriorityClassRef
  cel podPriorityClassKind workloadPriorityClassKind
  group! str enum:kueue.x-k8s.io|scheduling.k8s.io
  kind! str enum:WorkloadPriorityClass|PriorityClass
  name! str /subdomain len>=1 len<=253
WorkloadSpec
  cel priorityBesideClass
  active bool default:true
  maximumExecutionTimeSeconds int min:1
  podSets [PodSet] items>=1 items<=18 map:name
  preemptionGates [PreemptionGate] items<=8 map:name
  priority int
  priorityClassRef PriorityClassRef
  queueName str /subdomain len<=253
PodCounts
  cel oneCount
  individual [int] items>=1 items<=100000 atomic of:min:1
  universal int min:1
IndividualValues
  prefix str len<=63
  roots! [str] items>=1 items<=100000 atomic of:len<=63
  suffix str len<=63
LevelValues
  cel oneValue
  individual IndividualValues
  universal str len<=63
TopologySlice
  cel countsPerDomain rootsPerDomain
  domainCount! int min:1
  podCounts! PodCounts
  valuesPerLevel! [LevelValues] items>=1 items<=16 atomic
TopologyAssignment
  cel valuesPerLevel
  levels! [str] items>=1 items<=16 atomic of:len<=317
  slices! [TopologySlice] items<=1000 atomic
PodSetAssignment
  count int min:0
  delayedTopologyRequest str enum:Pending|Ready len<=7
  flavors {str} of:/subdomain of:len<=253
  name str /label len<=63 default:"main"
  resourceUsage {qty}
  topologyAssignment TopologyAssignment
Admission
  clusterQueue str /subdomain len<=253
  podSetAssignments [PodSetAssignment] items<=18 map:name
PodSetUpdate
  annotations {str}
  labels {str}
  name! str /label len<=63
  nodeSelector {str}
  tolerations [Toleration] items<=8 atomic cel:keylessExists cel:secondsNeedNoExecute
    cel:operators cel:existsHasNoValue cel:effects
AdmissionCheckState
  lastTransitionTime! time
  message! str len<=32768
  name! str len>=1 len<=316
  podSetUpdates [PodSetUpdate] items<=18 atomic
  requeueAfterSeconds int min:0
  retryCount int min:0
  state! str enum:Pending|Ready|Retry|Rejected
PreemptionGateState
  lastTransitionTime! time
  name! str len>=1 len<=63
  position! str enum:Closed|Open
ReclaimablePod
  count! int min:0
  name! str /label len<=63
RequeueState
  count int min:0
  requeueAt time
PodSetRequest
  name! str /label len<=63
  resources {qty}
EvictionCount
  count! int min:0
  reason! str len<=316
  underlyingCause! str len<=316
SchedulingStats
  evictions [EvictionCount] items<=256 map:reason,underlyingCause
UnhealthyNode
  name! str len<=63
WorkloadStatus
  cel clusterNameStays clusterNameOrNominated
  accumulatedPastExecutionTimeSeconds int
  admission Admission
  admissionChecks [AdmissionCheckState] items<=8 map:name
  clusterName str len<=256
  conditions [Condition] items<=16 map:type
  nominatedClusterNames [str] items<=20 atomic of:len<=256
  preemptionGates [PreemptionGateState] items<=8 map:name
  reclaimablePods [ReclaimablePod] items<=18 map:name
  requeueState RequeueState
  resourceRequests [PodSetRequest] items<=18 map:name
  schedulingStats SchedulingStats
  unhealthyNodes [UnhealthyNode] items<=8 map:name
Workload
  cel assignmentPerPodSet priorityClassRefStays priorityClassGroupStays priorityClassKindStays
    podPriorityClassStays queueNameStays executionTimeStays
  spec WorkloadSpec
  status WorkloadStatus
TopologyRequestV1
  podIndexLabel str
  podSetGroupName str
  podSetSliceRequiredTopology str
  podSetSliceSize int min:1
  preferred str
  required str
  subGroupCount int
  subGroupIndexLabel str
  unconstrained bool
PodSetV1
  cel minCountWithinCount
  count! int min:0 default:1
  minCount int min:1
  name str /label len<=63 default:"main"
  template! any
  topologyRequest TopologyRequestV1
WorkloadSpecV1
  cel priorityBesideClassV1
  active bool default:true
  maximumExecutionTimeSeconds int min:1
  podSets! [PodSetV1] items>=1 items<=18 map:name
  priority int
  priorityClassName str /subdomain len<=253
  priorityClassSource str enum:kueue.x-k8s.io/workloadpriorityclass|scheduling.k8s.io/priorityclass| default:""
  queueName str /subdomain len<=253
WorkloadV1
  cel queueNameStays executionTimeStays
  spec WorkloadSpecV1
  status any
"""

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
KINDS = (
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "LocalQueue",
    "MultiKueueCluster",
    "MultiKueueConfig",
    "ProvisioningRequestConfig",
    "ResourceFlavor",
    "Topology",
    "Workload",
    "WorkloadPriorityClass",
)


@cache
def types() -> dict[str, Node]:
    return read_tables(_QUOTAS + _QUEUES + _FLAVORS + _CHECKS + _WORKLOADS)


def schema_of(kind: str, version: str) -> Node | None:
    """The schema of a kind in a version, None where Kueue has no such thing."""
    if kind not in KINDS or version not in VERSIONS:
        return None
    return types().get(f"{kind}V1") or types()[kind] if version == "v1beta1" else types()[kind]
