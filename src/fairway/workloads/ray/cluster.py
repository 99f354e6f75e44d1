"""The RayCluster controller's decision: one head, so many workers of each group, none while suspended.

Source: kuberay ray-operator/controllers/ray/raycluster_controller.go (reconcilePods, calculateStatus).

Unlike kube: `status.lastUpdateTime` moves only when something else does. Autoscaling by Ray itself, upgrades,
fault tolerance of the head's store, ingress and network policies are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.cluster.actions import NOTHING_TO_DO, Action, Create, Delete, Reconciliation, SetStatus, View
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.conditions import is_condition_true, set_condition
from fairway.kube.objects import Key, Obj, labels_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, owner_key
from fairway.workloads.pods import (
    MOST_AT_ONCE,
    RETRY_REFUSED_US,
    RUNNING,
    condition,
    is_deleting,
    is_ready,
    is_terminal,
    phase_of,
)
from fairway.workloads.podtemplate import owned_by
from fairway.workloads.ray import pods

RAY_CLUSTER = "RayCluster.ray.io"
COMPONENT = "raycluster-controller"
OUR_NAME = "ray.io/kuberay-operator"
PROVISIONED = "RayClusterProvisioned"
HEAD_READY = "HeadPodReady"
SUSPENDING = "RayClusterSuspending"
SUSPENDED = "RayClusterSuspended"
_MOST = 2**31 - 1


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one RayCluster. O(its pods)."""
    obj = view.get(key)
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return NOTHING_TO_DO
    if obj["spec"].get("managedBy") not in (None, OUR_NAME):
        return NOTHING_TO_DO
    found = _pods(view, obj)
    actions = [*_service(view, obj), *_reconcile_pods(view, obj, key, found)]
    before = obj.get("status") or {}
    status = _status(obj, found, rfc3339(now_us))
    if {**status, "lastUpdateTime": ""} != {**before, "lastUpdateTime": ""}:
        actions.append(SetStatus(key, status))
    return Reconciliation(tuple(actions))


def _pods(view: View, obj: Obj) -> list[Obj]:
    keys = [k for k in view.dependents(obj["metadata"]["uid"]) if k.gk == "Pod"]
    return [p for k in keys if (p := view.get(k)) is not None]


def _is_head(pod: Obj) -> bool:
    return labels_of(pod).get(pods.NODE_TYPE) == pods.HEAD


def _service(view: View, obj: Obj) -> list[Action]:
    """What workers and submitters reach the head by."""
    meta = obj["metadata"]
    name = pods.head_service(obj)
    if view.get(Key("Service", meta["namespace"], name)) is not None:
        return []
    labels = {pods.CLUSTER: meta["name"], pods.NODE_TYPE: pods.HEAD}
    ports = [("client", 10001), ("dashboard", 8265), ("gcs-server", 6379), ("metrics", 8080), ("serve", 8000)]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": owned_by(obj, obj["apiVersion"], "RayCluster"),
        },
        "spec": {
            "clusterIP": "None",
            "selector": {**labels, "app.kubernetes.io/name": "kuberay"},
            "ports": [{"name": n, "port": p} for n, p in ports],
            "publishNotReadyAddresses": True,
        },
    }
    key = Key(RAY_CLUSTER, meta["namespace"], meta["name"])
    told = event(key, "CreatedService", f"Created service {meta['namespace']}/{name}", COMPONENT)
    return [Create(service), told]


def _reconcile_pods(view: View, obj: Obj, key: Key, found: list[Obj]) -> list[Action]:
    conditions = (obj.get("status") or {}).get("conditions")
    if is_condition_true(conditions, SUSPENDING):
        going = [_deleted(p) for p in found if not is_deleting(p)]
        about = f"Deleted Pods for RayCluster {key.namespace}/{key.name} due to suspension"
        return [*going, event(key, "DeletedPod", about, COMPONENT)] if going else []
    if is_condition_true(conditions, SUSPENDED) or obj["spec"].get("suspend"):
        return []
    return [*_reconcile_head(obj, key, found), *_reconcile_workers(view, obj, key, found)]


def _deleted(pod: Obj) -> Delete:
    return Delete(_key(pod), pod["metadata"]["uid"])


def _key(pod: Obj) -> Key:
    return Key("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])


def _reconcile_head(obj: Obj, key: Key, found: list[Obj]) -> list[Action]:
    """Make it anew when it is gone, and let it go when it has ended."""
    heads = [p for p in found if _is_head(p)]
    if not heads:
        pod = pods.head_pod(obj)
        about = f"Created head Pod {key.namespace}/{pod['metadata']['name']}"
        return [Create(pod), event(key, "CreatedHeadPod", about, COMPONENT)]
    return [_deleted(p) for p in heads if is_terminal(p) and not is_deleting(p)]


def _reconcile_workers(view: View, obj: Obj, key: Key, found: list[Obj]) -> list[Action]:
    actions: list[Action] = []
    for group in obj["spec"].get("workerGroupSpecs") or ():
        of_group = [
            p for p in found if not _is_head(p) and labels_of(p).get(pods.GROUP) == group["groupName"]
        ]
        actions.extend(_deleted(p) for p in of_group if is_terminal(p) and not is_deleting(p))
        running = [p for p in of_group if not is_terminal(p) and not is_deleting(p)]
        missing = desired_of(group) - len(running)
        for pod in pods.worker_pods(view, obj, group, min(max(missing, 0), MOST_AT_ONCE)):
            about = f"Created worker Pod {key.namespace}/{pod['metadata']['name']}"
            actions += [Create(pod), event(key, "CreatedWorkerPod", about, COMPONENT)]
        actions.extend(_deleted(p) for p in running[: max(-missing, 0)])
    return actions


def desired_of(group: dict[str, Any]) -> int:
    """Pods of a worker group: replicas within their bounds, times hosts; none of a suspended group."""
    if group.get("suspend"):
        return 0
    low, high = _bounds(group)
    given = group.get("replicas")
    wanted = low if given is None and "minReplicas" in group else 1 if given is None else int(given)
    return min(max(wanted, low), high) * _hosts(group)


def _bounds(group: dict[str, Any]) -> tuple[int, int]:
    high = group.get("maxReplicas")
    return int(group.get("minReplicas") or 0), _MOST if high is None else int(high)


def _hosts(group: dict[str, Any]) -> int:
    return max(int(group.get("numOfHosts") or 1), 1)


def are_all_running(found: list[Obj]) -> bool:
    """Running, and not said to be unready."""
    return bool(found) and all(
        phase_of(p) == RUNNING and (condition(p, "Ready") or {"status": "True"})["status"] == "True"
        for p in found
    )


def _status(obj: Obj, found: list[Obj], now: str) -> dict[str, Any]:
    before = obj.get("status") or {}
    groups = obj["spec"].get("workerGroupSpecs") or ()
    desired = sum(desired_of(g) for g in groups)
    workers = [p for p in found if not _is_head(p)]
    active = [g for g in groups if not g.get("suspend")]
    status = {
        **before,
        "observedGeneration": obj["metadata"].get("generation", 1),
        "desiredWorkerReplicas": desired,
        "minWorkerReplicas": sum(_bounds(g)[0] * _hosts(g) for g in active),
        "maxWorkerReplicas": min(sum(_bounds(g)[1] * _hosts(g) for g in active), _MOST),
        "availableWorkerReplicas": sum(phase_of(p) == RUNNING for p in workers),
        "readyWorkerReplicas": sum(is_ready(p) for p in workers),
        "desiredGPU": str(_gpus(obj)),
        "conditions": _conditions(obj, found, now),
    }
    if len(found) == desired + 1 and are_all_running(found):
        status["state"] = "ready"
    if obj["spec"].get("suspend") and not found:
        status["state"] = "suspended"
    if status.get("state") != before.get("state"):
        times = {**(before.get("stateTransitionTimes") or {}), status["state"]: now}
        status["stateTransitionTimes"] = times
    head = next((p for p in found if _is_head(p)), None)
    status["head"] = {"serviceName": pods.head_service(obj)}
    if head is not None:
        status["head"]["podName"] = head["metadata"]["name"]
    status["lastUpdateTime"] = now
    return status


def _gpus(obj: Obj) -> int:
    """GPUs of all pods that should be there."""
    spec = obj["spec"]
    of_groups = [
        (1, spec["headGroupSpec"]),
        *((desired_of(g), g) for g in spec.get("workerGroupSpecs") or ()),
    ]
    total = 0
    for count, group in of_groups:
        for container in ((group.get("template") or {}).get("spec") or {}).get("containers") or ():
            limits = (container.get("resources") or {}).get("limits") or {}
            total += count * sum(whole_ceil(str(v)) for k, v in limits.items() if k.endswith("/gpu"))
    return total


def _conditions(obj: Obj, found: list[Obj], now: str) -> list[dict[str, Any]]:
    """HeadPodReady, RayClusterProvisioned, and the steps of suspension."""
    conditions: list[dict[str, Any]] = list((obj.get("status") or {}).get("conditions") or ())
    head = next((p for p in found if _is_head(p)), None)
    if head is None:
        conditions = set_condition(
            conditions, HEAD_READY, "False", "HeadPodNotFound", "Head Pod not found", now
        )
    else:
        ready = condition(head, "Ready") or {"status": "False", "reason": "Unknown"}
        is_ready = ready["status"] == "True"
        reason = ready.get("reason") or ("HeadPodRunningAndReady" if is_ready else "Unknown")
        conditions = set_condition(
            conditions, HEAD_READY, ready["status"], reason, ready.get("message") or "", now
        )
    is_suspended = is_condition_true(conditions, SUSPENDED)
    if not is_suspended and not is_condition_true(conditions, PROVISIONED):
        conditions = _provisioned(conditions, found, now)
    return _suspension(
        conditions, found, now, wanted=bool(obj["spec"].get("suspend")), is_suspended=is_suspended
    )


def _provisioned(conditions: list[dict[str, Any]], found: list[Obj], now: str) -> list[dict[str, Any]]:
    if are_all_running(found):
        message = "All Ray Pods are ready for the first time"
        return set_condition(conditions, PROVISIONED, "True", "AllPodRunningAndReadyFirstTime", message, now)
    message = "RayCluster Pods are being provisioned for first time"
    return set_condition(conditions, PROVISIONED, "False", "RayClusterPodsProvisioning", message, now)


def _suspension(
    conditions: list[dict[str, Any]], found: list[Obj], now: str, *, wanted: bool, is_suspended: bool
) -> list[dict[str, Any]]:
    """Once begun, a suspension is finished, whatever is wanted meanwhile."""
    if is_condition_true(conditions, SUSPENDING):
        if found:
            return conditions
        message = "RayCluster has been suspended"
        conditions = set_condition(
            conditions, PROVISIONED, "False", "RayClusterPodsProvisioning", message, now
        )
        conditions = set_condition(conditions, SUSPENDING, "False", SUSPENDING, "", now)
        return set_condition(conditions, SUSPENDED, "True", SUSPENDED, "", now)
    if is_suspended:
        return conditions if wanted else set_condition(conditions, SUSPENDED, "False", SUSPENDED, "", now)
    conditions = set_condition(conditions, SUSPENDED, "False", SUSPENDED, "", now)
    return set_condition(conditions, SUSPENDING, "True" if wanted else "False", SUSPENDING, "", now)


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After a pod was refused: say so, try again later."""
    if view.get(key) is None:
        return NOTHING_TO_DO
    about = f"Failed to create worker Pod for RayCluster {key.namespace}/{key.name}: {message}"
    told = event(key, "FailedToCreateWorkerPod", about, COMPONENT, WARNING)
    return Reconciliation((told,), now_us + RETRY_REFUSED_US)


def map_change(view: View, change: Change) -> Sequence[Key]:
    """The cluster that changed (its status too: suspension goes by its conditions); that of a pod."""
    if change.key.gk == RAY_CLUSTER:
        return NO_KEYS if change.type == DELETED else (change.key,)
    if change.type == ADDED and not (change.obj.get("spec") or {}).get("nodeName"):
        return NO_KEYS
    owner = owner_key(change.obj, "RayCluster", "ray.io", RAY_CLUSTER)
    return NO_KEYS if owner is None else (owner,)


CONTROLLER = Controller("raycluster", RAY_CLUSTER, (RAY_CLUSTER, "Pod"), map_change, reconcile, refused)
