"""The kinds of objects the books are kept by."""

from __future__ import annotations

from fairway.queueing.integrations.ownership import WORKLOAD

CLUSTER_QUEUE = "ClusterQueue.kueue.x-k8s.io"
LOCAL_QUEUE = "LocalQueue.kueue.x-k8s.io"
COHORT = "Cohort.kueue.x-k8s.io"
RESOURCE_FLAVOR = "ResourceFlavor.kueue.x-k8s.io"
TOPOLOGY = "Topology.kueue.x-k8s.io"
ADMISSION_CHECK = "AdmissionCheck.kueue.x-k8s.io"
NODE, NAMESPACE, LIMIT_RANGE = "Node", "Namespace", "LimitRange"
RUNTIME_CLASS = "RuntimeClass.node.k8s.io"

WATCHED = (
    WORKLOAD,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    COHORT,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    ADMISSION_CHECK,
    NODE,
    NAMESPACE,
    LIMIT_RANGE,
    RUNTIME_CLASS,
)
