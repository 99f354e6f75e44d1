"""Which fields does Go always write, whether they are set or not?

A struct that is no pointer has no absent state: `spec`, a Deployment's `strategy`, a container's `resources` are
always there, if only as `{}`. So their owner never *adds* them, and managedFields has no `.` for them; a new
container on the other hand always brings `f:resources`. A list or a time without `omitempty` is `null` when unset, a
number 0, a text empty.

Source: json tags of k8s.io/api types.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.schema.node import Schema

_EMPTY: dict[str, Any] = {}

# Go type (as its definition is named after `io.k8s.`) → fields that are structs, not pointers.
_STRUCTS: dict[str, str] = {
    "PodTemplateSpec": "metadata spec",
    "PodTemplate": "template",
    "Container": "resources",
    "EphemeralContainer": "resources",
    "DeploymentSpec": "template strategy",
    "ReplicaSetSpec": "template",
    "StatefulSetSpec": "template updateStrategy",
    "DaemonSetSpec": "template updateStrategy",
    "JobSpec": "template",
    "CronJobSpec": "jobTemplate",
    "JobTemplateSpec": "metadata spec",
    "PersistentVolumeClaimSpec": "resources",
    "PersistentVolumeClaimTemplate": "metadata spec",
    "ServiceStatus": "loadBalancer",
    "IngressStatus": "loadBalancer",
    "HTTPIngressPath": "backend",
    "IngressServiceBackend": "port",
    "NodeStatus": "daemonEndpoints nodeInfo",
    "NodeDaemonEndpoints": "kubeletEndpoint",
    "Endpoint": "conditions",
    "Event": "involvedObject source regarding deprecatedSource",
    "RoleBinding": "roleRef",
    "ClusterRoleBinding": "roleRef",
    "NetworkPolicySpec": "podSelector",
    "HorizontalPodAutoscalerSpec": "scaleTargetRef",
    "CustomResourceDefinitionSpec": "names",
    "CustomResourceDefinitionStatus": "acceptedNames",
    "ValidatingWebhook": "clientConfig",
    "MutatingWebhook": "clientConfig",
    "VolumeAttachmentSpec": "source",
    "ResourceClaimSpec": "devices",
    "ResourceClaimTemplateSpec": "metadata spec",
    "ResourceSliceSpec": "pool",
    "ContainerStatus": "state lastState",
    "AllocationResult": "devices",
    "DeviceTaintRuleSpec": "taint",
    "FlowSchemaSpec": "priorityLevelConfiguration",
    "LimitedPriorityLevelConfiguration": "limitResponse",
    "TokenReviewStatus": "user",
}
# Lists and times written as null.
_NULLS: dict[str, str] = {
    "PodSpec": "containers",
    "CSINodeSpec": "drivers",
    "CSINodeDriver": "topologyKeys",
    "DeviceClaim": "requests",
    "CustomResourceDefinitionStatus": "conditions storedVersions",
    "HorizontalPodAutoscalerStatus": "currentMetrics",
    "Role": "rules",
    "ClusterRole": "rules",
    "EndpointSlice": "endpoints ports",
    "LimitRangeSpec": "limits",
    "Event": "eventTime firstTimestamp lastTimestamp deprecatedFirstTimestamp deprecatedLastTimestamp",
    "PodCondition": "lastProbeTime lastTransitionTime",
    "NodeCondition": "lastHeartbeatTime lastTransitionTime",
}
# Numbers written as 0.
_ZEROS: dict[str, str] = {
    "StatefulSetStatus": "availableReplicas replicas",
    "DaemonSetStatus": "currentNumberScheduled desiredNumberScheduled numberMisscheduled numberReady",
    "ReplicaSetStatus": "replicas",
    "ReplicationControllerStatus": "replicas",
    "PodDisruptionBudgetStatus": "currentHealthy desiredHealthy disruptionsAllowed expectedPods",
    "HorizontalPodAutoscalerStatus": "currentReplicas desiredReplicas",
    "DaemonEndpoint": "Port",
    "PriorityClass": "value",
    "ContainerStatus": "restartCount",
}
# Optional where the type is read in another version of the API.
_NOT_IN = {("HorizontalPodAutoscalerStatus", "v2"): ("currentReplicas",)}
# Texts written as "".
_TEXTS: dict[str, str] = {
    "NodeSystemInfo": (
        "architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion machineID "
        "operatingSystem osImage systemUUID"
    ),
    "ContainerStatus": "image imageID",
    "CustomResourceDefinitionNames": "kind plural",
    "Event": "reportingComponent reportingInstance",
}
# Every object has these three, where its schema has them. Ingress and the like too: none is a pointer.
_OF_OBJECTS = ("metadata", "spec", "status")


def always_written(schema: Schema) -> dict[str, Any]:
    """Field → what Go writes there when nothing is set. Empty for custom and unknown types."""
    found = _CACHE.get(schema.go_type)
    if found is None:
        found = _CACHE[schema.go_type] = _find(schema)
    return found


_CACHE: dict[str, dict[str, Any]] = {"": _EMPTY}


def _find(schema: Schema) -> dict[str, Any]:
    package, _, name = schema.go_type.rpartition(".")
    fields: dict[str, Any] = dict.fromkeys(_STRUCTS.get(name, "").split(), _EMPTY)
    fields.update(dict.fromkeys(_NULLS.get(name, "").split()))
    fields.update(dict.fromkeys(_ZEROS.get(name, "").split(), 0))
    fields.update(dict.fromkeys(_TEXTS.get(name, "").split(), ""))
    for left_out in _NOT_IN.get((name, package.rpartition(".")[2]), ()):
        del fields[left_out]
    if "metadata" in schema.properties:
        fields.update(dict.fromkeys(_OF_OBJECTS, _EMPTY))
    return {field: value for field, value in fields.items() if field in schema.properties}
