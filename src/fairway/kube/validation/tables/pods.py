"""Pod, PodSpec and what hangs below it, volumes apart.

One paragraph a type: its name, then its fields. The notation is explained in `validation.schema`. Names and types
are facts of the Kubernetes API. Source: k8s.io/api v0.37.0-beta.0 types.go, json tags.
"""

from __future__ import annotations

TYPES = """
Pod
  apiVersion str, kind str, metadata ObjectMeta, spec PodSpec, status PodStatus
PodSpec
  volumes [Volume], resourceClaims [PodResourceClaim], containers [Container]!,
  initContainers [Container], ephemeralContainers [EphemeralContainer],
  restartPolicy str!=Always|OnFailure|Never, terminationGracePeriodSeconds i64, activeDeadlineSeconds i64,
  dnsPolicy str!=ClusterFirstWithHostNet|ClusterFirst|Default|None, nodeSelector {str},
  serviceAccountName str@subdomain, serviceAccount str, automountServiceAccountToken bool,
  nodeName str@subdomain, hostNetwork bool, hostPID bool, hostIPC bool, shareProcessNamespace bool,
  securityContext PodSecurityContext, imagePullSecrets [LocalObjectReference], hostname str@label,
  subdomain str@label, affinity Affinity, schedulerName str, tolerations [Toleration],
  hostAliases [HostAlias], priorityClassName str@subdomain, priority i32, dnsConfig PodDNSConfig,
  readinessGates [PodReadinessGate], runtimeClassName str@subdomain, enableServiceLinks bool,
  preemptionPolicy str=PreemptLowerPriority|Never, overhead {qty},
  topologySpreadConstraints [TopologySpreadConstraint], setHostnameAsFQDN bool, os PodOS, hostUsers bool,
  schedulingGates [PodSchedulingGate], resources ResourceRequirements, hostnameOverride str@subdomain,
  schedulingGroup PodSchedulingGroup, evictionResponders [EvictionResponder]
Container
  name str!@label, image str!, terminationMessagePolicy str!=File|FallbackToLogsOnError,
  ports [ContainerPort], env [EnvVar], envFrom [EnvFromSource], volumeMounts [VolumeMount],
  volumeDevices [VolumeDevice], imagePullPolicy str!=Always|IfNotPresent|Never, command [str], args [str],
  workingDir str, resources ResourceRequirements, resizePolicy [ContainerResizePolicy], restartPolicy str,
  restartPolicyRules [ContainerRestartRule], livenessProbe Probe, readinessProbe Probe,
  startupProbe Probe, lifecycle Lifecycle, terminationMessagePath str, securityContext SecurityContext,
  stdin bool, stdinOnce bool, tty bool
EphemeralContainer
  name str!@label, image str!, terminationMessagePolicy str!=File|FallbackToLogsOnError,
  ports [ContainerPort], env [EnvVar], envFrom [EnvFromSource], volumeMounts [VolumeMount],
  volumeDevices [VolumeDevice], imagePullPolicy str!=Always|IfNotPresent|Never, command [str], args [str],
  workingDir str, resources ResourceRequirements, resizePolicy [ContainerResizePolicy], restartPolicy str,
  restartPolicyRules [ContainerRestartRule], livenessProbe Probe, readinessProbe Probe,
  startupProbe Probe, lifecycle Lifecycle, terminationMessagePath str, securityContext SecurityContext,
  stdin bool, stdinOnce bool, tty bool, targetContainerName str
PodSecurityContext
  seLinuxOptions SELinuxOptions, windowsOptions WindowsSecurityContextOptions, runAsUser i64@id,
  runAsGroup i64@id, runAsNonRoot bool, supplementalGroups [i64],
  supplementalGroupsPolicy str=Merge|Strict, fsGroup i64@id, sysctls [Sysctl],
  fsGroupChangePolicy str=Always|OnRootMismatch, seccompProfile SeccompProfile,
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
  conditionType str@key
TopologySpreadConstraint
  maxSkew i32, topologyKey str, whenUnsatisfiable str, labelSelector LabelSelector, minDomains i32>0,
  nodeAffinityPolicy str=Honor|Ignore, nodeTaintsPolicy str=Honor|Ignore, matchLabelKeys [str]
PodOS
  name str!=linux|windows
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
  name str@portname, containerPort i32!@port, hostPort i32@port, protocol str!=SCTP|TCP|UDP, hostIP str
EnvFromSource
  prefix str@env, configMapRef ConfigMapEnvSource, secretRef SecretEnvSource
EnvVar
  name str!@env, value str, valueFrom EnvVarSource
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
  initialDelaySeconds i32>=0, timeoutSeconds i32>=0, periodSeconds i32>=0, successThreshold i32>=0,
  failureThreshold i32>=0, terminationGracePeriodSeconds i64
Lifecycle
  postStart LifecycleHandler, preStop LifecycleHandler, stopSignal str
SecurityContext
  capabilities Capabilities, privileged bool, seLinuxOptions SELinuxOptions,
  windowsOptions WindowsSecurityContextOptions, runAsUser i64@id, runAsGroup i64@id, runAsNonRoot bool,
  readOnlyRootFilesystem bool, allowPrivilegeEscalation bool, procMount str=Default|Unmasked,
  seccompProfile SeccompProfile, appArmorProfile AppArmorProfile
SELinuxOptions
  user str, role str, type str, level str
WindowsSecurityContextOptions
  gmsaCredentialSpecName str, gmsaCredentialSpec str, runAsUserName str, hostProcess bool
Sysctl
  name str, value str
SeccompProfile
  type str=Localhost|RuntimeDefault|Unconfined, localhostProfile str
AppArmorProfile
  type str=Localhost|RuntimeDefault|Unconfined, localhostProfile str
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
  name str!@subdomain, optional bool
SecretEnvSource
  name str!@subdomain, optional bool
EnvVarSource
  fieldRef ObjectFieldSelector, resourceFieldRef ResourceFieldSelector,
  configMapKeyRef ConfigMapKeySelector, secretKeyRef SecretKeySelector, fileKeyRef FileKeySelector
ContainerRestartRuleOnExitCodes
  operator str, values [i32]
ExecAction
  command [str]!
HTTPGetAction
  path str!, port ios@portref, host str, scheme str=HTTP|HTTPS, httpHeaders [HTTPHeader], protocol str
TCPSocketAction
  port ios@portref, host str
GRPCAction
  port i32@portref, service str, mode str
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
  name str, key str!@configkey, optional bool
SecretKeySelector
  name str, key str!@configkey, optional bool
FileKeySelector
  volumeName str!@label, path str!, key str!@env, optional bool
HTTPHeader
  name str, value str
SleepAction
  seconds i64
NodeSelectorTerm
  matchExpressions [NodeSelectorRequirement], matchFields [NodeSelectorRequirement]
NodeSelectorRequirement
  key str, operator str, values [str]
"""
