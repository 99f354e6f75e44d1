"""The kinds of objects the books are kept by."""

from __future__ import annotations

from typing import Final

from fairway.kube.resourceclaims import CLASS
from fairway.queueing.integrations.ownership import WORKLOAD

CLUSTER_QUEUE: Final = "ClusterQueue.kueue.x-k8s.io"
LOCAL_QUEUE: Final = "LocalQueue.kueue.x-k8s.io"
COHORT: Final = "Cohort.kueue.x-k8s.io"
RESOURCE_FLAVOR: Final = "ResourceFlavor.kueue.x-k8s.io"
TOPOLOGY: Final = "Topology.kueue.x-k8s.io"
ADMISSION_CHECK: Final = "AdmissionCheck.kueue.x-k8s.io"
NODE: Final = "Node"
NAMESPACE: Final = "Namespace"
LIMIT_RANGE: Final = "LimitRange"
RUNTIME_CLASS: Final = "RuntimeClass.node.k8s.io"
DEVICE_CLASS: Final = CLASS

WATCHED: Final = (
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
    DEVICE_CLASS,
)
