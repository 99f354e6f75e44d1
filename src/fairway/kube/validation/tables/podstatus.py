"""The status of a pod.

One paragraph a type: its name, then its fields. The notation is explained in `validation.schema`. Names and types
are facts of the Kubernetes API. Source: k8s.io/api v0.37.0-beta.0 types.go, json tags.
"""

from __future__ import annotations

TYPES = """
PodStatus
  observedGeneration i64, phase str, conditions [PodCondition], message str, reason str,
  nominatedNodeName str, hostIP str, hostIPs [HostIP], podIP str, podIPs [PodIP], startTime time,
  initContainerStatuses [ContainerStatus], containerStatuses [ContainerStatus], qosClass str,
  ephemeralContainerStatuses [ContainerStatus], resize str,
  resourceClaimStatuses [PodResourceClaimStatus],
  extendedResourceClaimStatus PodExtendedResourceClaimStatus, allocatedResources {qty},
  resources ResourceRequirements,
  nodeAllocatableResourceClaimStatuses [NodeAllocatableResourceClaimStatus],
  volumeHealth [PodVolumeHealth]
PodCondition
  type str, observedGeneration i64, status str, lastProbeTime time, lastTransitionTime time, reason str,
  message str
HostIP
  ip str
PodIP
  ip str
ContainerStatus
  name str, state ContainerState, lastState ContainerState, ready bool, restartCount i32, image str,
  imageID str, containerID str, started bool, allocatedResources {qty}, resources ResourceRequirements,
  volumeMounts [VolumeMountStatus], user ContainerUser, allocatedResourcesStatus [ResourceStatus],
  stopSignal str
PodResourceClaimStatus
  name str, resourceClaimName str
PodExtendedResourceClaimStatus
  requestMappings [ContainerExtendedResourceRequest], resourceClaimName str
NodeAllocatableResourceClaimStatus
  resourceClaimName str, containers [str], mapping [NodeAllocatableMappedResources],
  overhead [NodeAllocatableOverheadResources]
PodVolumeHealth
  name str, healthConditions [VolumeHealthCondition], lastTransitionTime time
ContainerState
  waiting ContainerStateWaiting, running ContainerStateRunning, terminated ContainerStateTerminated
VolumeMountStatus
  name str, mountPath str, readOnly bool, recursiveReadOnly str, volumeStatus VolumeStatus
ContainerUser
  linux LinuxContainerUser
ResourceStatus
  name str, resources [ResourceHealth]
ContainerExtendedResourceRequest
  containerName str, resourceName str, requestName str
NodeAllocatableMappedResources
  name str, quantity qty
NodeAllocatableOverheadResources
  name str, perPod qty, perContainer qty
VolumeHealthCondition
  status str, reason str, message str
ContainerStateWaiting
  reason str, message str
ContainerStateRunning
  startedAt time
ContainerStateTerminated
  exitCode i32, signal i32, reason str, message str, startedAt time, finishedAt time, containerID str
VolumeStatus
  image ImageVolumeStatus
LinuxContainerUser
  uid i64, gid i64, supplementalGroups [i64]
ResourceHealth
  resourceID str, health str, message str
ImageVolumeStatus
  imageRef str
"""
