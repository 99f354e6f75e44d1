"""The LLMInferenceService controller's decision: its servers, its scheduler, its route, and the status.

Unlike kube: no finalizer; autoscaling by the Workload Variant Autoscaler, adapters' weights, routing groups, tracing,
offloading of the cache, managed device claims and the webhook's checks are left out.

Source: kserve v0.20 llmisvc/controller.go, workload_status.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairway.cluster.actions import NOTHING_TO_DO, Action, Emit, Reconciliation, SetStatus, View
from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj, annotations_of, key_of
from fairway.workloads.controller import (
    NO_KEYS,
    NORMAL,
    WARNING,
    Controller,
    event,
    is_desire_changed,
    owner_key,
)
from fairway.workloads.knative.conditions import FALSE, READY, TRUE, UNKNOWN, Conditions
from fairway.workloads.kserve.children import brought_to, pruned
from fairway.workloads.kserve.llm import readiness, routing, workloads
from fairway.workloads.kserve.llm.presets import (
    CONFIG_KIND,
    INSTALLED,
    Settings,
    Unresolved,
    resolved,
    settings_of,
)

LLM: Final = "LLMInferenceService.serving.kserve.io"
KIND: Final = workloads.KIND
GROUP: Final = "serving.kserve.io"
CONTROLLER_NAME: Final = "LLMInferenceServiceController"
STOP: Final = "serving.kserve.io/stop"
_CHILDREN: Final = (
    "Deployment.apps",
    "LeaderWorkerSet.leaderworkerset.x-k8s.io",
    "Service",
    "Secret",
    "ServiceAccount",
    routing.ROUTE,
    routing.POOL,
)
_WATCHED: Final = ("Deployment.apps", "LeaderWorkerSet.leaderworkerset.x-k8s.io", routing.ROUTE, routing.POOL)


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one LLMInferenceService. O(its children)."""
    service = view.get(key)
    if service is None or "deletionTimestamp" in service["metadata"]:
        return NOTHING_TO_DO
    before = service.get("status") or {}
    status = {**before, "observedGeneration": service["metadata"].get("generation", 1)}
    conditions = Conditions(before, ("WorkloadsReady", "RouterReady"), now_us)
    if before.get("observedGeneration") != status["observedGeneration"]:
        conditions.mark(READY, UNKNOWN, "NewObservedGenFailure", "unsuccessfully observed a new generation")
    actions, wrong = _reconciled(view, service, status, conditions)
    status["conditions"] = conditions.listed()
    status = {name: value for name, value in status.items() if value is not None}
    if status != before:
        if wrong:
            actions.append(event(key, "Error", f"Reconciliation failed: {wrong}", CONTROLLER_NAME, WARNING))
        actions += [SetStatus(key, status), *_told(key, before, conditions)]
    return Reconciliation(tuple(actions))


def _reconciled(
    view: View, service: Obj, status: dict[str, Any], conditions: Conditions
) -> tuple[list[Action], str]:
    """Actions, and the error it ended with (""): none. `status` and `conditions` are brought up to date."""
    try:
        settings = settings_of(view)
    except ValueError as bad:
        return [], f"failed to load ingress config: {bad}"
    found = resolved(view, service, settings)
    if isinstance(found, Unresolved):
        status["appliedConfigs"] = None
        conditions.mark("PresetsCombined", FALSE, found.reason, found.message)
        return [], found.error
    status["appliedConfigs"] = list(found.applied)
    conditions.mark("PresetsCombined", TRUE)
    if annotations_of(service).get(STOP, "").lower() == "true":
        readiness.stopped(conditions)
        status |= dict.fromkeys(("router", "address", "addresses", "workloads"))
        return pruned(view, service, _CHILDREN, ()), ""
    return _running(view, service, found.spec, settings, status, conditions)


def _running(
    view: View,
    service: Obj,
    spec: dict[str, Any],
    settings: Settings,
    status: dict[str, Any],
    conditions: Conditions,
) -> tuple[list[Action], str]:
    try:
        servers = workloads.workloads(service, spec, has_tls=settings.has_tls)
        ways = routing.routing(service, spec)
    except ValueError as bad:
        said = f"failed to attach model artifacts to main deployment: {bad}"
        conditions.mark("MainWorkloadReady", FALSE, "ReconcileSingleNodeWorkloadError", said)
        conditions.mark("WorkloadsReady", FALSE, "ReconcileSingleNodeWorkloadError", said)
        return [], f"failed to reconcile workload: failed to reconcile single node workload: {said}"
    readiness.of_workloads(view, service, spec, conditions)
    try:
        status |= {
            "url": None,
            "router": None,
            **readiness.of_router(view, service, spec, settings, conditions),
        }
    except readiness.NotReconciled as missing:
        # What networking would have made is not made; what is there stays.
        actions = [action for obj in servers for action in brought_to(view, obj)]
        return actions, f"failed to reconcile networking: {missing}"
    actions = [action for obj in (*servers, *ways) for action in brought_to(view, obj)]
    actions += pruned(view, service, _CHILDREN, {key_of(obj) for obj in (*servers, *ways)})
    status["workloads"] = readiness.observed_workloads(view, service, spec)
    return actions, ""


def _told(key: Key, before: dict[str, Any], conditions: Conditions) -> list[Emit]:
    was = next((c["status"] for c in before.get("conditions") or () if c["type"] == READY), "")
    if was == TRUE and conditions.status(READY) == FALSE:
        failed = [c["type"] for c in conditions.listed() if c["status"] == FALSE and c["type"] != READY]
        said = f"LLMInferenceService [{key.name}] is no longer Ready because of: {', '.join(failed)}"
        return [event(key, "LLMInferenceServiceNotReady", said, CONTROLLER_NAME, WARNING)]
    if was != TRUE and conditions.status(READY) == TRUE:
        said = f"LLMInferenceService [{key.name}] is Ready"
        return [event(key, "LLMInferenceServiceReady", said, CONTROLLER_NAME, NORMAL)]
    return []


def map_change(view: View, change: Change) -> Sequence[Key]:
    gk = change.key.gk
    if gk == LLM:
        return (change.key,) if is_desire_changed(change) else NO_KEYS
    if gk in (routing.GATEWAY, routing.CLASS, CONFIG_KIND) or (gk == "ConfigMap" and change.key == INSTALLED):
        return [key_of(obj) for obj in view.objects(LLM)]
    if gk == "ConfigMap":
        return NO_KEYS
    key = owner_key(change.obj, KIND, GROUP, LLM)
    if key is None and gk == routing.ROUTE:
        return [key_of(obj) for obj in view.objects(LLM, change.key.namespace)]
    return (key,) if key is not None else NO_KEYS


CONTROLLER: Final = Controller(
    name="llminferenceservice",
    gk=LLM,
    watches=(LLM, *_WATCHED, routing.GATEWAY, routing.CLASS, CONFIG_KIND, "ConfigMap"),
    map_change=map_change,
    reconcile=reconcile,
)
