"""What does a kubelet write about its node?

Source: pkg/kubelet/nodestatus/setters.go (v1.36).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from fairway.kube.objects import Obj, labels_of, status_of
from fairway.kube.timestamps import rfc3339
from fairway.twin.kubelet.states import NodeState

_RELEASE: Final = "v1.36.0"
_PRESSURES: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node_status(obj: Obj, node: NodeState, now_us: int) -> dict[str, Any]:
    """A node's status as its kubelet posts it: capacity as given, pressures false, Ready as it is."""
    old = status_of(obj)
    if node.is_shutting_down:
        ready = ("False", "KubeletNotReady", "node is shutting down")
    else:
        ready = ("True", "KubeletReady", "kubelet is posting ready status")
    before = {c.get("type"): c for c in old.get("conditions") or ()}
    wanted = [(t, ("False", reason, message)) for t, reason, message in _PRESSURES]
    wanted.append(("Ready", ready))
    conditions = [c for t, c in before.items() if t not in {t for t, _ in wanted}]
    for type_, (value, reason, message) in wanted:
        was = before.get(type_) or {}
        same = was.get("status") == value
        conditions.append(
            {
                "type": type_,
                "status": value,
                "lastHeartbeatTime": rfc3339(now_us),
                "lastTransitionTime": was["lastTransitionTime"]
                if same and was.get("lastTransitionTime")
                else rfc3339(now_us),
                "reason": reason,
                "message": message,
            }
        )
    status = {**old, "conditions": conditions}
    if "capacity" not in status and "allocatable" in status:
        status["capacity"] = status["allocatable"]
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = status["capacity"]
    status.setdefault(
        "addresses",
        [{"type": "InternalIP", "address": node.ip}, {"type": "Hostname", "address": node.name}],
    )
    info = status.get("nodeInfo") or {}
    if info.get("kubeletVersion") and not info.get("machineID"):
        digest = blake2b(node.uid.encode(), digest_size=16).hexdigest()
        boot = f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"
        status["nodeInfo"] = {**info, "machineID": digest, "systemUUID": node.uid, "bootID": boot}
    return status


def machine_info(node: Obj) -> dict[str, Any]:
    """What machine a node of ours is: the release modelled here on a current Ubuntu. Nodes that somebody else describes
    are what he says they are."""
    labels = labels_of(node)
    return {
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
        "kernelVersion": "6.8.0-71-generic",
        "osImage": "Ubuntu 24.04.3 LTS",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": _RELEASE,
        "kubeProxyVersion": "",
        "operatingSystem": labels.get("kubernetes.io/os") or "linux",
        "architecture": labels.get("kubernetes.io/arch") or "amd64",
    }


def with_machine(node: Obj) -> Obj:
    """The node, saying what machine it is."""
    status = status_of(node)
    if (status.get("nodeInfo") or {}).get("kubeletVersion"):
        return node
    return {**node, "status": {**status, "nodeInfo": machine_info(node)}}
