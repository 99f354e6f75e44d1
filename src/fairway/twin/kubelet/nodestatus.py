"""What does a kubelet write about its node?

Source: pkg/kubelet/nodestatus/setters.go (v1.36).
"""

from __future__ import annotations

from typing import Any, Final

from fairway.kube.objects import Obj, status_of
from fairway.kube.timestamps import rfc3339
from fairway.twin.kubelet.states import NodeState

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
    return status
