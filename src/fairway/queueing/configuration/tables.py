"""The fields of Kueue's Configuration, as tables in the notation of `kube.schema.tables`.

Source: apis/config/v1beta1, v1beta2 configuration_types.go; component-base config/v1alpha1.
"""

from __future__ import annotations

from functools import cache

from fairway.kube.schema.node import Schema
from fairway.kube.schema.structural import custom_schema
from fairway.kube.schema.tables import read_tables

_COMMON = """
Requirement
  key str
  operator str
  values [str]
LabelSelector
  matchLabels {str}
  matchExpressions [Requirement]
Webhook
  port int
  host str
  certDir str
LeaderElection
  leaderElect bool
  leaseDuration str
  renewDeadline str
  retryPeriod str
  resourceLock str
  resourceName str
  resourceNamespace str
LocalQueueMetrics
  enable bool
  localQueueSelector LabelSelector
Health
  healthProbeBindAddress str
  readinessEndpointName str
  livenessEndpointName str
Controller
  groupKindConcurrency {int}
  cacheSyncTimeout int
TLS
  minVersion str
  cipherSuites [str]
  curvePreferences [int]
Certificates
  enable bool
  webhookServiceName str
  webhookSecretName str
ClientConnection
  qps num
  burst int
RequeuingStrategy
  timestamp str
  backoffLimitCount int
  backoffBaseSeconds int
  backoffMaxSeconds int
ExternalFramework
  name str
AdmissionFairSharing
  usageHalfLifeTime str
  usageSamplingInterval str
  resourceWeights {num}
WorkloadRetention
  afterFinished str
  afterDeactivatedByKueue str
Retention
  workloads WorkloadRetention
Transformation
  input str
  strategy str
  multiplyBy str
  outputs {qty}
CustomLabelV1
  name str
  sourceLabelKey str
  sourceAnnotationKey str
Shared
  apiVersion str
  kind str
  namespace str
  webhook Webhook
  leaderElection LeaderElection
  health Health
  pprofBindAddress str
  controller Controller
  tls TLS
  manageJobsWithoutQueueName bool
  managedJobsNamespaceSelector LabelSelector
  internalCertManagement Certificates
  clientConnection ClientConnection
  admissionFairSharing AdmissionFairSharing
  featureGates {bool}
  objectRetentionPolicies Retention
"""

_V1BETA2 = """
CustomLabel
  same CustomLabelV1
  sourceKind str
  trackedValues [str]
Metrics
  bindAddress str
  enableClusterQueueResources bool
  customLabels [CustomLabel]
  localQueueMetrics LocalQueueMetrics
WaitForPodsReady
  timeout str
  blockAdmission bool
  requeuingStrategy RequeuingStrategy
  recoveryTimeout str
Integrations
  frameworks [str]
  externalFrameworks [str]
  labelKeysToCopy [str]
Dispatcher
  stepSize int
ClusterProfile
  accessProviders [any]
  credentialsProviders [any]
MultiKueue
  gcInterval str
  origin str
  workerLostTimeout str
  dispatcherName str
  externalFrameworks [ExternalFramework]
  clusterProfile ClusterProfile
  incrementalDispatcherConfig Dispatcher
FairSharing
  preemptionStrategies [str]
CELSelector
  expression str
DeviceSelector
  cel CELSelector
DeviceSource
  name str
  driver str
  deviceSelector DeviceSelector
Source
  counter DeviceSource
  capacity DeviceSource
DeviceClassMapping
  name str
  deviceClassNames [str]
  sources [Source]
Resources
  quotaCheckStrategy str
  excludeResourcePrefixes [str]
  transformations [Transformation]
  deviceClassMappings [DeviceClassMapping]
Visibility
  bindAddress str
  bindPort int
v1beta2
  same Shared
  metrics Metrics
  waitForPodsReady WaitForPodsReady
  integrations Integrations
  multiKueue MultiKueue
  fairSharing FairSharing
  resources Resources
  visibilityServer Visibility
"""

_V1BETA1 = """
MetricsV1
  bindAddress str
  enableClusterQueueResources bool
  customLabels [CustomLabelV1]
  localQueueMetrics LocalQueueMetrics
WaitForPodsReadyV1
  enable bool
  timeout str
  blockAdmission bool
  requeuingStrategy RequeuingStrategy
  recoveryTimeout str
PodOptions
  namespaceSelector LabelSelector
  podSelector LabelSelector
IntegrationsV1
  frameworks [str]
  externalFrameworks [str]
  podOptions PodOptions
  labelKeysToCopy [str]
MultiKueueV1
  gcInterval str
  origin str
  workerLostTimeout str
  dispatcherName str
  externalFrameworks [ExternalFramework]
FairSharingV1
  enable bool
  preemptionStrategies [str]
DeviceClassMappingV1
  name str
  deviceClassNames [str]
ResourcesV1
  excludeResourcePrefixes [str]
  transformations [Transformation]
  deviceClassMappings [DeviceClassMappingV1]
ClusterQueueVisibility
  maxCount int
QueueVisibility
  clusterQueues ClusterQueueVisibility
  updateIntervalSeconds int
v1beta1
  same Shared
  metrics MetricsV1
  waitForPodsReady WaitForPodsReadyV1
  integrations IntegrationsV1
  queueVisibility QueueVisibility
  multiKueue MultiKueueV1
  fairSharing FairSharingV1
  resources ResourcesV1
"""


@cache
def schema_of(version: str) -> Schema:
    """`v1beta1` or `v1beta2`."""
    return custom_schema(read_tables(_COMMON + _V1BETA2 + _V1BETA1)[version])
