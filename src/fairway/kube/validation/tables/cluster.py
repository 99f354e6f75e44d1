"""Node, Namespace, Service, quotas, configuration, PriorityClass and other kinds of the cluster.

One paragraph a type: its name, then its fields. The notation is explained in `validation.schema`. Names and types
are facts of the Kubernetes API. Source: k8s.io/api v0.37.0-beta.0 types.go, json tags.
"""

from __future__ import annotations

TYPES = """
Node
  apiVersion str, kind str, metadata ObjectMeta, spec NodeSpec, status NodeStatus
Namespace
  apiVersion str, kind str, metadata ObjectMeta, spec NamespaceSpec, status NamespaceStatus
Service
  apiVersion str, kind str, metadata ObjectMeta, spec ServiceSpec, status ServiceStatus
ResourceQuota
  apiVersion str, kind str, metadata ObjectMeta, spec ResourceQuotaSpec, status ResourceQuotaStatus
LimitRange
  apiVersion str, kind str, metadata ObjectMeta, spec LimitRangeSpec
ConfigMap
  apiVersion str, kind str, metadata ObjectMeta, immutable bool, data {str?}, binaryData {bytes?}
Secret
  apiVersion str, kind str, metadata ObjectMeta, immutable bool, data {bytes?}, stringData {str?}, type str
ServiceAccount
  apiVersion str, kind str, metadata ObjectMeta, secrets [ObjectReference],
  imagePullSecrets [LocalObjectReference], automountServiceAccountToken bool
Event
  apiVersion str, kind str, metadata ObjectMeta, involvedObject ObjectReference, reason str, message str,
  source EventSource, firstTimestamp time, lastTimestamp time, count i32, type str, eventTime time,
  series EventSeries, action str, related ObjectReference, reportingComponent str, reportingInstance str
PriorityClass
  apiVersion str, kind str, metadata ObjectMeta, value i32, globalDefault bool, description str,
  preemptionPolicy str
Lease
  apiVersion str, kind str, metadata ObjectMeta, spec LeaseSpec
RuntimeClass
  apiVersion str, kind str, metadata ObjectMeta, handler str, overhead Overhead,
  scheduling Scheduling
NodeSpec
  podCIDR str, podCIDRs [str], providerID str, unschedulable bool, taints [Taint],
  configSource NodeConfigSource, externalID str, podPreemptionPolicy NodePodPreemptionPolicy
NodeStatus
  capacity {qty}, allocatable {qty}, phase str, conditions [NodeCondition], addresses [NodeAddress],
  daemonEndpoints NodeDaemonEndpoints, nodeInfo NodeSystemInfo, images [ContainerImage],
  volumesInUse [str], volumesAttached [AttachedVolume], config NodeConfigStatus,
  runtimeHandlers [NodeRuntimeHandler], features NodeFeatures, declaredFeatures [str]
NamespaceSpec
  finalizers [str]
NamespaceStatus
  phase str, conditions [NamespaceCondition]
ServiceSpec
  ports [ServicePort], selector {str}, clusterIP str, clusterIPs [str],
  type str, externalIPs [str],
  sessionAffinity str, loadBalancerIP str, loadBalancerSourceRanges [str],
  externalName str, externalTrafficPolicy str, healthCheckNodePort i32,
  publishNotReadyAddresses bool, sessionAffinityConfig SessionAffinityConfig, ipFamilies [str],
  ipFamilyPolicy str, allocateLoadBalancerNodePorts bool, loadBalancerClass str,
  internalTrafficPolicy str, trafficDistribution str
ServiceStatus
  loadBalancer LoadBalancerStatus, conditions [Condition]
ResourceQuotaSpec
  hard {qty}, scopes [str], scopeSelector ScopeSelector
ResourceQuotaStatus
  hard {qty}, used {qty}
LimitRangeSpec
  limits [LimitRangeItem]
EventSource
  component str, host str
EventSeries
  count i32, lastObservedTime time
LeaseSpec
  holderIdentity str, leaseDurationSeconds i32, acquireTime time, renewTime time,
  leaseTransitions i32, strategy str, preferredHolder str
Overhead
  podFixed {qty}
Scheduling
  nodeSelector {str}, tolerations [Toleration]
Taint
  key str, value str, effect str, timeAdded time
NodeConfigSource
  configMap ConfigMapNodeConfigSource
NodePodPreemptionPolicy
  disableResizePreemption [str]
NodeCondition
  type str, status str, lastHeartbeatTime time, lastTransitionTime time, reason str, message str
NodeAddress
  type str, address str
NodeDaemonEndpoints
  kubeletEndpoint DaemonEndpoint
NodeSystemInfo
  machineID str, systemUUID str, bootID str, kernelVersion str, osImage str, containerRuntimeVersion str,
  kubeletVersion str, kubeProxyVersion str, operatingSystem str, architecture str, swap NodeSwapStatus
ContainerImage
  names [str], sizeBytes i64
AttachedVolume
  name str, devicePath str
NodeConfigStatus
  assigned NodeConfigSource, active NodeConfigSource, lastKnownGood NodeConfigSource, error str
NodeRuntimeHandler
  name str, features NodeRuntimeHandlerFeatures
NodeFeatures
  supplementalGroupsPolicy bool
NamespaceCondition
  type str, status str, lastTransitionTime time, reason str, message str
ServicePort
  name str, protocol str, appProtocol str, port i32, targetPort ios,
  nodePort i32
SessionAffinityConfig
  clientIP ClientIPConfig
LoadBalancerStatus
  ingress [LoadBalancerIngress]
ScopeSelector
  matchExpressions [ScopedResourceSelectorRequirement]
LimitRangeItem
  type str, max {qty}, min {qty}, default {qty}, defaultRequest {qty}, maxLimitRequestRatio {qty}
ConfigMapNodeConfigSource
  namespace str, name str, uid str, resourceVersion str, kubeletConfigKey str
DaemonEndpoint
  Port i32
NodeSwapStatus
  capacity i64
NodeRuntimeHandlerFeatures
  recursiveReadOnlyMounts bool, userNamespaces bool
ClientIPConfig
  timeoutSeconds i32
LoadBalancerIngress
  ip str, hostname str, ipMode str, ports [PortStatus]
ScopedResourceSelectorRequirement
  scopeName str, operator str, values [str]
PortStatus
  port i32, protocol str, error str
"""
