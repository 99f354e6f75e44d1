"""An InferenceService's status: is each component ready, is the way to it, has the model been loaded, where is it?

Source: pkg/apis/serving/v1beta1/inference_service_status.go.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.cluster.actions import View
from fairway.kube.conditions import (
    FALSE,
    TRUE,
    UNKNOWN,
    Condition,
    get_condition,
    is_condition_true,
    set_condition,
)
from fairway.kube.objects import Key, Obj, labels_of
from fairway.workloads.kserve.runtimes import Refused, Runtime
from fairway.workloads.pods import is_ready

STANDARD: Final = "Standard"
DEPLOYMENT: Final = "Deployment.apps"
KNATIVE_SERVICE: Final = "Service.serving.knative.dev"
_READY: Final = {"predictor": "PredictorReady", "transformer": "TransformerReady"}
_ROUTES: Final = {"predictor": "PredictorRouteReady", "transformer": "TransformerRouteReady"}
_CONFIGURATIONS: Final = {
    "predictor": "PredictorConfigurationReady",
    "transformer": "TransformerConfigurationReady",
}


class Component(NamedTuple):
    """`child`: its Deployment's or Knative Service's name."""

    name: str
    child: str


class Said(NamedTuple):
    """Of a condition."""

    status: str
    reason: str = ""
    message: str = ""


def status_of_service(
    view: View,
    isvc: Obj,
    mode: str,
    components: list[Component],
    runtime: Runtime | None,
    failed: Refused | None,
    now: str,
) -> dict[str, Any]:
    """The status to write. O(its pods)."""
    before = isvc.get("status") or {}
    status: dict[str, Any] = {"deploymentMode": mode}
    conditions: list[Condition] = list(before.get("conditions") or ())
    found: dict[str, Any] = {}

    def said(type_: str, what: Said) -> None:
        nonlocal conditions
        conditions = set_condition(conditions, type_, what.status, what.reason, what.message, now)

    is_stopped = not components and failed is None
    said("Stopped", Said(TRUE if is_stopped else FALSE))
    for part in components:
        gk = DEPLOYMENT if mode == STANDARD else KNATIVE_SERVICE
        child = view.get(Key(gk, isvc["metadata"]["namespace"], part.child))
        was = (before.get("components") or {}).get(part.name) or {}
        if mode == STANDARD:
            ready = _of_deployment(child)
            found[part.name] = was
            if ready.status == TRUE:
                found[part.name] = {"url": f"http://{part.child}-{isvc['metadata']['namespace']}.example.com"}
        else:
            ready = _of(child, "Ready")
            found[part.name] = _of_revisions(was, child)
            said(_ROUTES[part.name], _of(child, "RoutesReady"))
            said(_CONFIGURATIONS[part.name], _of(child, "ConfigurationsReady"))
        said(_READY[part.name], ready)
        if child is not None:
            status["observedGeneration"] = (child.get("status") or {}).get("observedGeneration", 0)
    if failed is not None and not components:
        said("PredictorReady", Said(UNKNOWN))
    if is_stopped:
        said("PredictorReady", Said(FALSE, "Stopped"))
    said("IngressReady", _of_ingress(conditions, components, is_stopped))
    said("Ready", _of_all(conditions))
    status["conditions"] = sorted(conditions, key=lambda c: str(c["type"]))
    if found:
        status["components"] = found
    if is_condition_true(conditions, "IngressReady"):
        meta = isvc["metadata"]
        status["url"] = f"http://{meta['name']}-{meta['namespace']}.example.com"
        host = f"{components[-1].child}.{meta['namespace']}.svc.cluster.local"
        status["address"] = {"url": f"http://{host}"}
    if runtime is not None:
        status["clusterServingRuntimeName" if runtime.is_of_cluster else "servingRuntimeName"] = runtime.name
    if not is_stopped:
        status["modelStatus"] = _of_model(view, isvc, failed, is_condition_true(conditions, "Ready"), before)
    return status


def _of_deployment(child: Obj | None) -> Said:
    """Available and Progressing made one."""
    conditions = ((child or {}).get("status") or {}).get("conditions")
    available, progressing = get_condition(conditions, "Available"), get_condition(conditions, "Progressing")
    said = Said(FALSE)
    if available and available["status"] == TRUE:
        said = _said(available)
    if progressing and progressing["status"] == FALSE and progressing.get("message"):
        said = _said(progressing)
    elif progressing and progressing["status"] == TRUE:
        if progressing.get("reason") == "NewReplicaSetAvailable":
            said = _said(progressing)
        elif available is None or available["status"] != TRUE:
            said = Said(UNKNOWN, progressing.get("reason", ""), progressing.get("message", ""))
    if available and available["status"] == FALSE:
        said = _said(available)
    refused = get_condition(conditions, "ReplicaFailure")
    if refused and refused["status"] == TRUE:
        said = Said(FALSE, refused.get("reason", ""), refused.get("message", ""))
    return said


def _said(condition: Condition) -> Said:
    return Said(condition["status"], condition.get("reason", ""), condition.get("message", ""))


def _of(child: Obj | None, type_: str) -> Said:
    condition = get_condition(((child or {}).get("status") or {}).get("conditions"), type_)
    return Said(UNKNOWN) if condition is None else _said(condition)


def _of_revisions(was: dict[str, Any], child: Obj | None) -> dict[str, Any]:
    """Which revision is newest, ready, rolled out; what the last one before was."""
    status = (child or {}).get("status") or {}
    found = dict(was)
    ready, created = status.get("latestReadyRevisionName", ""), status.get("latestCreatedRevisionName", "")
    traffic = status.get("traffic") or []
    shares: dict[str, int] = {}
    for target in traffic:
        name = target.get("revisionName", "")
        shares[name] = shares.get(name, 0) + int(target.get("percent") or 0)
    for target in traffic:
        if target.get("revisionName") != ready or not target.get("latestRevision"):
            continue
        percent = target.get("percent")
        if found.get("latestRolledoutRevision", "") != ready:
            if percent == 100:
                if found.get("latestRolledoutRevision"):
                    found["previousRolledoutRevision"] = found["latestRolledoutRevision"]
                found["latestRolledoutRevision"] = ready
        elif ready == created and percent is not None and percent < 100 and shares.get(ready) == 100:
            # Rolled back: both shares are of one revision.
            found["latestRolledoutRevision"] = found.get("previousRolledoutRevision") or ready
    revisions = {"latestCreatedRevision": created, "latestReadyRevision": ready}
    found |= {field: value for field, value in revisions.items() if value}
    if traffic:
        found["traffic"] = traffic
    if is_condition_true(status.get("conditions"), "Ready"):
        found |= {name: status[name] for name in ("url", "address") if name in status}
    return found


def _of_ingress(conditions: list[Condition], components: list[Component], is_stopped: bool) -> Said:
    if is_stopped:
        return Said(FALSE, "Stopped")
    for part in components or [Component("predictor", "")]:
        if not is_condition_true(conditions, _READY[part.name]):
            return Said(FALSE, f"{part.name.capitalize()} ingress not created")
    return Said(TRUE)


def _of_all(conditions: list[Condition]) -> Said:
    wanted = [get_condition(conditions, type_) for type_ in ("PredictorReady", "IngressReady")]
    for status in (FALSE, UNKNOWN):
        for condition in wanted:
            if condition is not None and condition["status"] == status:
                return _said(condition)
    return Said(TRUE)


def _of_model(
    view: View, isvc: Obj, failed: Refused | None, is_ready_now: bool, before: dict[str, Any]
) -> dict[str, Any]:
    """Pending, Loading, Loaded or FailedToLoad, and why."""
    was = before.get("modelStatus") or {}
    states = dict(was.get("states") or {})
    if failed is not None:
        failure = {"reason": failed.reason, "message": failed.message}
        states["targetModelState"] = "FailedToLoad"
        states.setdefault("activeModelState", "")
        return {"transitionStatus": "InvalidSpec", "states": states, "lastFailureInfo": failure}
    name = isvc["metadata"]["name"]
    pods = [
        pod
        for pod in view.objects("Pod", isvc["metadata"]["namespace"])
        if labels_of(pod).get("serving.kserve.io/inferenceservice") == name
        and labels_of(pod).get("component") == "predictor"
    ]
    model: dict[str, Any] = {"copies": {"failedCopies": 0, "totalCopies": sum(map(is_ready, pods))}}
    state, failure = _loading(pods, is_ready_now)
    states["targetModelState"] = state
    states["activeModelState"] = "Loaded" if state == "Loaded" else states.get("activeModelState", "")
    model["states"] = states
    model["transitionStatus"] = _TRANSITIONS[state]
    if failure or was.get("lastFailureInfo"):
        model["lastFailureInfo"] = failure or was["lastFailureInfo"]
    return model


_TRANSITIONS: Final = {
    "Pending": "InProgress",
    "Loading": "InProgress",
    "Loaded": "UpToDate",
    "FailedToLoad": "BlockedByFailedLoad",
}


def _loading(pods: list[Obj], is_ready_now: bool) -> tuple[str, dict[str, Any]]:
    if not pods:
        return "Pending", {}
    status = pods[0].get("status") or {}
    for which in ("initContainerStatuses", "containerStatuses"):
        if which == "containerStatuses" and is_ready_now:
            return "Loaded", {}
        for container in status.get(which) or ():
            if container.get("name") not in ("storage-initializer", "kserve-container"):
                continue
            state = container.get("state") or {}
            ended = state.get("terminated") or {}
            if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
                ended = {**((container.get("lastState") or {}).get("terminated") or {}), "reason": "Error"}
            if ended.get("reason") == "Error":
                failure = {"reason": "ModelLoadFailed", "exitCode": ended.get("exitCode", 1)}
                return "FailedToLoad", failure
            if which == "initContainerStatuses" and state.get("running") is not None:
                return "Loading", {}
    return "Loaded" if is_ready_now else "Pending", {}
