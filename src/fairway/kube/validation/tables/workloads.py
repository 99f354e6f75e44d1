"""Controllers of pods: batch, apps, policy and autoscaling.

One paragraph a type: its name, then its fields. The notation is explained in `validation.schema`. Names and types
are facts of the Kubernetes API. Source: k8s.io/api v0.37.0-beta.0 types.go, json tags.
"""

from __future__ import annotations

TYPES = """
PodTemplate
  apiVersion str, kind str, metadata ObjectMeta, template PodTemplateSpec
ReplicationController
  apiVersion str, kind str, metadata ObjectMeta, spec ReplicationControllerSpec,
  status ReplicationControllerStatus
Job
  apiVersion str, kind str, metadata ObjectMeta, spec JobSpec, status JobStatus
CronJob
  apiVersion str, kind str, metadata ObjectMeta, spec CronJobSpec, status CronJobStatus
Deployment
  apiVersion str, kind str, metadata ObjectMeta, spec DeploymentSpec, status DeploymentStatus
ReplicaSet
  apiVersion str, kind str, metadata ObjectMeta, spec ReplicaSetSpec, status ReplicaSetStatus
StatefulSet
  apiVersion str, kind str, metadata ObjectMeta, spec StatefulSetSpec, status StatefulSetStatus
DaemonSet
  apiVersion str, kind str, metadata ObjectMeta, spec DaemonSetSpec, status DaemonSetStatus
PodDisruptionBudget
  apiVersion str, kind str, metadata ObjectMeta, spec PodDisruptionBudgetSpec,
  status PodDisruptionBudgetStatus
HorizontalPodAutoscaler
  apiVersion str, kind str, metadata ObjectMeta, spec HorizontalPodAutoscalerSpec,
  status HorizontalPodAutoscalerStatus
PodTemplateSpec
  metadata ObjectMeta, spec PodSpec
ReplicationControllerSpec
  replicas i32, minReadySeconds i32, selector {str}, template PodTemplateSpec
ReplicationControllerStatus
  replicas i32, fullyLabeledReplicas i32, readyReplicas i32, availableReplicas i32,
  observedGeneration i64, conditions [ReplicationControllerCondition]
JobSpec
  parallelism i32, completions i32, activeDeadlineSeconds i64, podFailurePolicy PodFailurePolicy,
  successPolicy SuccessPolicy, backoffLimit i32, backoffLimitPerIndex i32, maxFailedIndexes i32,
  selector LabelSelector, manualSelector bool, template PodTemplateSpec, ttlSecondsAfterFinished i32,
  completionMode str, suspend bool, podReplacementPolicy str, managedBy str,
  scheduling JobSchedulingConfiguration
JobStatus
  conditions [JobCondition], startTime time, completionTime time, active i32, succeeded i32, failed i32,
  terminating i32, completedIndexes str, failedIndexes str,
  uncountedTerminatedPods UncountedTerminatedPods, ready i32
CronJobSpec
  schedule str, timeZone str, startingDeadlineSeconds i64,
  concurrencyPolicy str, suspend bool, jobTemplate JobTemplateSpec,
  successfulJobsHistoryLimit i32, failedJobsHistoryLimit i32
CronJobStatus
  active [ObjectReference], lastScheduleTime time, lastSuccessfulTime time
DeploymentSpec
  replicas i32, selector LabelSelector, template PodTemplateSpec, strategy DeploymentStrategy,
  minReadySeconds i32, revisionHistoryLimit i32, paused bool, progressDeadlineSeconds i32
DeploymentStatus
  observedGeneration i64, replicas i32, updatedReplicas i32, readyReplicas i32, availableReplicas i32,
  unavailableReplicas i32, terminatingReplicas i32, conditions [DeploymentCondition], collisionCount i32
ReplicaSetSpec
  replicas i32, minReadySeconds i32, selector LabelSelector, template PodTemplateSpec
ReplicaSetStatus
  replicas i32, fullyLabeledReplicas i32, readyReplicas i32, availableReplicas i32,
  terminatingReplicas i32, observedGeneration i64, conditions [ReplicaSetCondition]
StatefulSetSpec
  replicas i32, selector LabelSelector, template PodTemplateSpec,
  volumeClaimTemplates [PersistentVolumeClaim], serviceName str,
  podManagementPolicy str, updateStrategy StatefulSetUpdateStrategy,
  revisionHistoryLimit i32, minReadySeconds i32,
  persistentVolumeClaimRetentionPolicy StatefulSetPersistentVolumeClaimRetentionPolicy,
  ordinals StatefulSetOrdinals
StatefulSetStatus
  observedGeneration i64, replicas i32, readyReplicas i32, currentReplicas i32, updatedReplicas i32,
  currentRevision str, updateRevision str, collisionCount i32, conditions [StatefulSetCondition],
  availableReplicas i32
DaemonSetSpec
  selector LabelSelector, template PodTemplateSpec, updateStrategy DaemonSetUpdateStrategy,
  minReadySeconds i32, revisionHistoryLimit i32
DaemonSetStatus
  currentNumberScheduled i32, numberMisscheduled i32, desiredNumberScheduled i32, numberReady i32,
  observedGeneration i64, updatedNumberScheduled i32, numberAvailable i32, numberUnavailable i32,
  collisionCount i32, conditions [DaemonSetCondition]
PodDisruptionBudgetSpec
  minAvailable ios, selector LabelSelector, maxUnavailable ios,
  unhealthyPodEvictionPolicy str
PodDisruptionBudgetStatus
  observedGeneration i64, disruptedPods {time}, disruptionsAllowed i32, currentHealthy i32,
  desiredHealthy i32, expectedPods i32, conditions [Condition]
HorizontalPodAutoscalerSpec
  scaleTargetRef CrossVersionObjectReference, minReplicas i32, maxReplicas i32, metrics [MetricSpec],
  behavior HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus
  observedGeneration i64, lastScaleTime time, currentReplicas i32, desiredReplicas i32,
  currentMetrics [MetricStatus], conditions [HorizontalPodAutoscalerCondition]
ReplicationControllerCondition
  type str, status str, lastTransitionTime time, reason str, message str
PodFailurePolicy
  rules [PodFailurePolicyRule]
SuccessPolicy
  rules [SuccessPolicyRule]
JobSchedulingConfiguration
  schedulingPolicy any, schedulingConstraints any, disruptionMode any, resourceClaims [any]
JobCondition
  type str, status str, lastProbeTime time, lastTransitionTime time, reason str, message str
UncountedTerminatedPods
  succeeded [str], failed [str]
JobTemplateSpec
  metadata ObjectMeta, spec JobSpec
DeploymentStrategy
  type str, rollingUpdate RollingUpdateDeployment
DeploymentCondition
  type str, status str, lastUpdateTime time, lastTransitionTime time, reason str, message str
ReplicaSetCondition
  type str, status str, lastTransitionTime time, reason str, message str
StatefulSetUpdateStrategy
  type str, rollingUpdate RollingUpdateStatefulSetStrategy
StatefulSetPersistentVolumeClaimRetentionPolicy
  whenDeleted str, whenScaled str
StatefulSetOrdinals
  start i32
StatefulSetCondition
  type str, status str, lastTransitionTime time, reason str, message str
DaemonSetUpdateStrategy
  type str, rollingUpdate RollingUpdateDaemonSet
DaemonSetCondition
  type str, status str, lastTransitionTime time, reason str, message str
CrossVersionObjectReference
  kind str, name str, apiVersion str
MetricSpec
  type str, object ObjectMetricSource, pods PodsMetricSource, resource ResourceMetricSource,
  containerResource ContainerResourceMetricSource, external ExternalMetricSource
HorizontalPodAutoscalerBehavior
  scaleUp HPAScalingRules, scaleDown HPAScalingRules
MetricStatus
  type str, object ObjectMetricStatus, pods PodsMetricStatus, resource ResourceMetricStatus,
  containerResource ContainerResourceMetricStatus, external ExternalMetricStatus
HorizontalPodAutoscalerCondition
  type str, status str, lastTransitionTime time, reason str, message str, observedGeneration i64
PodFailurePolicyRule
  action str, onExitCodes PodFailurePolicyOnExitCodesRequirement,
  onPodConditions [PodFailurePolicyOnPodConditionsPattern]
SuccessPolicyRule
  succeededIndexes str, succeededCount i32
RollingUpdateDeployment
  maxUnavailable ios, maxSurge ios
RollingUpdateStatefulSetStrategy
  partition i32, maxUnavailable ios
RollingUpdateDaemonSet
  maxUnavailable ios, maxSurge ios
ObjectMetricSource
  describedObject CrossVersionObjectReference, target MetricTarget, metric MetricIdentifier
PodsMetricSource
  metric MetricIdentifier, target MetricTarget
ResourceMetricSource
  name str, target MetricTarget
ContainerResourceMetricSource
  name str, target MetricTarget, container str
ExternalMetricSource
  metric MetricIdentifier, target MetricTarget
HPAScalingRules
  stabilizationWindowSeconds i32, selectPolicy str, policies [HPAScalingPolicy], tolerance qty
ObjectMetricStatus
  metric MetricIdentifier, current MetricValueStatus, describedObject CrossVersionObjectReference
PodsMetricStatus
  metric MetricIdentifier, current MetricValueStatus
ResourceMetricStatus
  name str, current MetricValueStatus
ContainerResourceMetricStatus
  name str, current MetricValueStatus, container str
ExternalMetricStatus
  metric MetricIdentifier, current MetricValueStatus
PodFailurePolicyOnExitCodesRequirement
  containerName str, operator str, values [i32]
PodFailurePolicyOnPodConditionsPattern
  type str, status str
MetricTarget
  type str, value qty, averageValue qty, averageUtilization i32
MetricIdentifier
  name str, selector LabelSelector
HPAScalingPolicy
  type str, value i32, periodSeconds i32
MetricValueStatus
  value qty, averageValue qty, averageUtilization i32
"""
