"""Pod, PodSpec and what hangs below it, volumes apart.

One paragraph a type: its name, then its fields. The notation is explained in `validation.schema`. Names and types
are facts of the Kubernetes API. Source: k8s.io/api v0.37.0-beta.0 types.go, json tags.
"""

from __future__ import annotations

TYPES = """
Pod
  apiVersion str, kind str, metadata ObjectMeta, spec PodSpec, status PodStatus
PodSpec
  volumes [Volume], resourceClaims [PodResourceClaim], containers [Container],
  initContainers [Container], ephemeralContainers [EphemeralContainer],
  restartPolicy str, terminationGracePeriodSeconds i64, activeDeadlineSeconds i64,
  dnsPolicy str, nodeSelector {str},
  serviceAccountName str, serviceAccount str, automountServiceAccountToken bool,
  nodeName str, hostNetwork bool, hostPID bool, hostIPC bool, shareProcessNamespace bool,
  securityContext PodSecurityContext, imagePullSecrets [LocalObjectReference], hostname str,
  subdomain str, affinity Affinity, schedulerName str, tolerations [Toleration],
  hostAliases [HostAlias], priorityClassName str, priority i32, dnsConfig PodDNSConfig,
  readinessGates [PodReadinessGate], runtimeClassName str, enableServiceLinks bool,
  preemptionPolicy str, overhead {qty},
  topologySpreadConstraints [TopologySpreadConstraint], setHostnameAsFQDN bool, os PodOS, hostUsers bool,
  schedulingGates [PodSchedulingGate], resources ResourceRequirements, hostnameOverride str,
  schedulingGroup PodSchedulingGroup, evictionResponders [EvictionResponder]
Container
  name str, image str, terminationMessagePolicy str,
  ports [ContainerPort], env [EnvVar], envFrom [EnvFromSource], volumeMounts [VolumeMount],
  volumeDevices [VolumeDevice], imagePullPolicy str, command [str], args [str],
  workingDir str, resources ResourceRequirements, resizePolicy [ContainerResizePolicy], restartPolicy str,
  restartPolicyRules [ContainerRestartRule], livenessProbe Probe, readinessProbe Probe,
  startupProbe Probe, lifecycle Lifecycle, terminationMessagePath str, securityContext SecurityContext,
  stdin bool, stdinOnce bool, tty bool
EphemeralContainer
  name str, image str, terminationMessagePolicy str,
  ports [ContainerPort], env [EnvVar], envFrom [EnvFromSource], volumeMounts [VolumeMount],
  volumeDevices [VolumeDevice], imagePullPolicy str, command [str], args [str],
  workingDir str, resources ResourceRequirements, resizePolicy [ContainerResizePolicy], restartPolicy str,
  restartPolicyRules [ContainerRestartRule], livenessProbe Probe, readinessProbe Probe,
  startupProbe Probe, lifecycle Lifecycle, terminationMessagePath str, securityContext SecurityContext,
  stdin bool, stdinOnce bool, tty bool, targetContainerName str
PodSecurityContext
  seLinuxOptions SELinuxOptions, windowsOptions WindowsSecurityContextOptions, runAsUser i64,
  runAsGroup i64, runAsNonRoot bool, supplementalGroups [i64],
  supplementalGroupsPolicy str, fsGroup i64, sysctls [Sysctl],
  fsGroupChangePolicy str, seccompProfile SeccompProfile,
  appArmorProfile AppArmorProfile, seLinuxChangePolicy str
Affinity
  nodeAffinity NodeAffinity, podAffinity PodAffinity, podAntiAffinity PodAntiAffinity
Toleration
  key str, operator str, value str, effect str, tolerationSeconds i64
HostAlias
  ip str, hostnames [str]
PodDNSConfig
  nameservers [str], searches [str], options [PodDNSConfigOption]
PodReadinessGate
  conditionType str
TopologySpreadConstraint
  maxSkew i32, topologyKey str, whenUnsatisfiable str, labelSelector LabelSelector, minDomains i32,
  nodeAffinityPolicy str, nodeTaintsPolicy str, matchLabelKeys [str]
PodOS
  name str
PodSchedulingGate
  name str
PodResourceClaim
  name str, resourceClaimName str, resourceClaimTemplateName str
ResourceRequirements
  limits {qty}, requests {qty}, claims [ResourceClaim]
PodSchedulingGroup
  podGroupName str
EvictionResponder
  name str, priority i32
ContainerPort
  name str, containerPort i32, hostPort i32, protocol str, hostIP str
EnvFromSource
  prefix str, configMapRef ConfigMapEnvSource, secretRef SecretEnvSource
EnvVar
  name str, value str, valueFrom EnvVarSource
ContainerResizePolicy
  resourceName str, restartPolicy str
ContainerRestartRule
  action str, exitCodes ContainerRestartRuleOnExitCodes
VolumeMount
  name str, readOnly bool, recursiveReadOnly str, mountPath str, subPath str, mountPropagation str,
  subPathExpr str, bindMountOptions [str]
VolumeDevice
  name str, devicePath str
Probe
  exec ExecAction, httpGet HTTPGetAction, tcpSocket TCPSocketAction, grpc GRPCAction,
  initialDelaySeconds i32, timeoutSeconds i32, periodSeconds i32, successThreshold i32,
  failureThreshold i32, terminationGracePeriodSeconds i64
Lifecycle
  postStart LifecycleHandler, preStop LifecycleHandler, stopSignal str
SecurityContext
  capabilities Capabilities, privileged bool, seLinuxOptions SELinuxOptions,
  windowsOptions WindowsSecurityContextOptions, runAsUser i64, runAsGroup i64, runAsNonRoot bool,
  readOnlyRootFilesystem bool, allowPrivilegeEscalation bool, procMount str,
  seccompProfile SeccompProfile, appArmorProfile AppArmorProfile
SELinuxOptions
  user str, role str, type str, level str
WindowsSecurityContextOptions
  gmsaCredentialSpecName str, gmsaCredentialSpec str, runAsUserName str, hostProcess bool
Sysctl
  name str, value str
SeccompProfile
  type str, localhostProfile str
AppArmorProfile
  type str, localhostProfile str
NodeAffinity
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector,
  preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm]
PodAffinity
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm],
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
PodAntiAffinity
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm],
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
PodDNSConfigOption
  name str, value str
ResourceClaim
  name str, request str
ConfigMapEnvSource
  name str, optional bool
SecretEnvSource
  name str, optional bool
EnvVarSource
  fieldRef ObjectFieldSelector, resourceFieldRef ResourceFieldSelector,
  configMapKeyRef ConfigMapKeySelector, secretKeyRef SecretKeySelector, fileKeyRef FileKeySelector
ContainerRestartRuleOnExitCodes
  operator str, values [i32]
ExecAction
  command [str]
HTTPGetAction
  path str, port ios, host str, scheme str, httpHeaders [HTTPHeader], protocol str
TCPSocketAction
  port ios, host str
GRPCAction
  port i32, service str, mode str
LifecycleHandler
  exec ExecAction, httpGet HTTPGetAction, tcpSocket TCPSocketAction, sleep SleepAction
Capabilities
  add [str], drop [str]
NodeSelector
  nodeSelectorTerms [NodeSelectorTerm]
PreferredSchedulingTerm
  weight i32, preference NodeSelectorTerm
PodAffinityTerm
  labelSelector LabelSelector, namespaces [str], topologyKey str, namespaceSelector LabelSelector,
  matchLabelKeys [str], mismatchLabelKeys [str]
WeightedPodAffinityTerm
  weight i32, podAffinityTerm PodAffinityTerm
ConfigMapKeySelector
  name str, key str, optional bool
SecretKeySelector
  name str, key str, optional bool
FileKeySelector
  volumeName str, path str, key str, optional bool
HTTPHeader
  name str, value str
SleepAction
  seconds i64
NodeSelectorTerm
  matchExpressions [NodeSelectorRequirement], matchFields [NodeSelectorRequirement]
NodeSelectorRequirement
  key str, operator str, values [str]
"""
