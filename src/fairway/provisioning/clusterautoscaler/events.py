"""What does the Cluster Autoscaler tell about pods, nodes and itself? In its words.

Events about no pod and no node are about the ConfigMap `cluster-autoscaler-status`.

Source: core/scaleup/orchestrator/executor.go, core/static_autoscaler.go, core/scaledown/actuation (actuator.go,
delete_in_batch.go, drain.go), clusterstate/clusterstate.go, processors/provreq/pods_filter.go; InstanceErrorInfo of
cloudprovider/aws, gce, azure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairway.kube.durations import go_duration_us
from fairway.provisioning.clusterautoscaler.scaledown import Utilization
from fairway.provisioning.clusterautoscaler.scaleup import Resize

NORMAL, WARNING = "Normal", "Warning"
OUT_OF_RESOURCE = "OutOfResource"
# Who says that a machine is gone.
CLOUD = "cloud-node-lifecycle-controller"

# Error code and message of a machine that cannot be had.
_NOT_TO_BE_HAD = {
    "aws": (
        "placeholder-cannot-be-fulfilled",
        "AWS cannot provision any more instances for this node group",
    ),
    "azure": ("provisioning-state-failed", "Azure failed to provision a node for this node group"),
    "gcp": ("RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED"),
}


class Told(NamedTuple):
    type: str
    reason: str
    message: str


def growing(resize: Resize) -> tuple[Told, Told]:
    """Before the cloud is asked, and after."""
    change = f"{resize.new_size} instead of {resize.size} (max: {resize.most})"
    return (
        Told(NORMAL, "ScaledUpGroup", f"Scale-up: setting group {resize.group} size to {change}"),
        Told(NORMAL, "ScaledUpGroup", f"Scale-up: group {resize.group} size set to {change}"),
    )


def triggered(resizes: Sequence[Resize]) -> Told:
    text = f"pod triggered scale-up: [{' '.join(str(r) for r in resizes)}]"
    return Told(NORMAL, "TriggeredScaleUp", text)


def not_triggered(reasons: str) -> Told:
    return Told(NORMAL, "NotTriggerScaleUp", f"pod didn't trigger scale-up: {reasons}")


def gone(node: str) -> Told:
    """A machine the cloud took back. Source: cloud-provider controllers/nodelifecycle/node_lifecycle_controller.go."""
    return Told(
        NORMAL, "DeletingNode", f"Deleting node {node} because it does not exist in the cloud provider"
    )


def unhealthy() -> Told:
    return Told(WARNING, "ClusterUnhealthy", "Cluster is unhealthy")


def failure(provider: str, why: str) -> tuple[str, str]:
    """Code and message of what put a group into backoff."""
    return _NOT_TO_BE_HAD[provider] if why == OUT_OF_RESOURCE else (why, f"Scale-up failed: {why}")


def not_to_be_had(provider: str, group: str, machines: int) -> Told:
    code, message = _NOT_TO_BE_HAD[provider]
    text = f"Failed adding {machines} nodes to group {group} due to OutOfResource.{code}"
    return Told(WARNING, "ScaleUpFailed", f"{text}; source errors: {message}")


def timed_out(group: str, waited_us: int) -> Told:
    text = f"Nodes added to group {group} failed to register within {go_duration_us(waited_us)}"
    return Told(WARNING, "ScaleUpTimedOut", text)


def max_nodes_reached(most: int) -> Told:
    return Told(WARNING, "MaxNodesTotalReached", f"Max total nodes in cluster reached: {most}")


def consumes_request(namespace: str, request: str) -> Told:
    """Without a reason, as upstream has it."""
    text = "Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest"
    return Told(NORMAL, "", f"{text} {namespace}/{request}")


def marked() -> Told:
    return Told(NORMAL, "ScaleDown", "marked the node as toBeDeleted/unschedulable")


def removing(node: str, used: Utilization, pods: Sequence[str]) -> Told:
    if not pods:
        return Told(NORMAL, "ScaleDownEmpty", f'Scale-down: removing empty node "{node}"')
    text = f"Scale-down: removing node {node}, utilization: {used}, pods to reschedule: {','.join(pods)}"
    return Told(NORMAL, "ScaleDown", text)


def removed(node: str, *, drained: bool) -> tuple[Told, Told]:
    """About the node, and about all."""
    about_node = Told(NORMAL, "ScaleDown", "nodes removed by cluster autoscaler")
    if drained:
        return about_node, Told(NORMAL, "ScaleDown", f"Scale-down: node {node} removed with drain")
    return about_node, Told(NORMAL, "ScaleDownEmpty", f"Scale-down: empty node {node} removed")


def evicting() -> Told:
    return Told(NORMAL, "ScaleDown", "deleting pod for node scale down")


def not_deleted() -> Told:
    return Told(WARNING, "ScaleDownFailed", "failed to delete pod for ScaleDown")


def not_evicted(node: str, refused: Sequence[tuple[str, str]]) -> Told:
    """`refused`: pods and the API server's last answer."""
    errors = " ".join(
        f"failed to evict pod {pod} within allowed timeout (last error: {why})" for pod, why in refused
    )
    text = f"Failed to drain node /{node}, due to following errors: [{errors}]"
    return Told(WARNING, "ScaleDownFailed", f"failed to drain and delete node: {text}")


def not_drained(node: str) -> Told:
    """Pods were still there when time was over."""
    text = f"Failed to drain node /{node}: pods remaining after timeout"
    return Told(WARNING, "ScaleDownFailed", f"failed to drain and delete node: {text}")
