"""The InferenceService controller's decision: what each component runs as, and the status.

In Standard mode (RawDeployment) a component is a Deployment, a Service and an autoscaler, and an Ingress leads to it.
In Knative mode (Serverless, the installation's default) it is a Knative Service, whose traffic `canaryTrafficPercent`
splits between the newest revision and the last one that had all of it.

Unlike kube: no finalizer (TrainedModels are left alone); explainers, ModelMesh, loggers, batchers, workers on other
nodes and Istio's VirtualServices are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj, annotations_of, key_of, labels_of
from fairway.kube.timestamps import rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, is_desire_changed, owner_key
from fairway.workloads.kserve import podspecs, storage
from fairway.workloads.kserve.children import brought_to, pruned
from fairway.workloads.kserve.runtimes import CLUSTER_RUNTIME, RUNTIME, Refused, Runtime, chosen
from fairway.workloads.kserve.status import KNATIVE_SERVICE, STANDARD, Component, status_of_service
from fairway.workloads.podtemplate import owned_by

ISVC: Final = "InferenceService.serving.kserve.io"
KIND: Final = "InferenceService"
GROUP: Final = "serving.kserve.io"
COMPONENT: Final = "v1beta1Controllers"
MODE: Final = "serving.kserve.io/deploymentMode"
AUTOSCALER: Final = "serving.kserve.io/autoscalerClass"
STOP: Final = "serving.kserve.io/stop"
KNATIVE: Final = "Knative"
_MODES: Final = {"RawDeployment": STANDARD, "Serverless": KNATIVE, STANDARD: STANDARD, KNATIVE: KNATIVE}
CONFIG: Final = Key("ConfigMap", "kserve", "inferenceservice-config")
HPA: Final = "HorizontalPodAutoscaler.autoscaling"
_CHILDREN: Final = (
    "Deployment.apps",
    "Service",
    HPA,
    "ScaledObject.keda.sh",
    "Ingress.networking.k8s.io",
    KNATIVE_SERVICE,
)
# Annotations that stay on the InferenceService. Source: constants.go ServiceAnnotationDisallowedList.
_KEPT_BACK: Final = (
    "autoscaling.knative.dev/min-scale",
    "autoscaling.knative.dev/max-scale",
    "kubectl.kubernetes.io/last-applied-configuration",
    storage.SOURCE,
)


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one InferenceService. O(its children)."""
    isvc = view.get(key)
    if isvc is None or "deletionTimestamp" in isvc["metadata"]:
        return NOTHING_TO_DO
    mode = mode_of(view, isvc)
    wanted: list[Obj] = []
    components: list[Component] = []
    failed: Refused | None = None
    runtime: Runtime | None = None
    if annotations_of(isvc).get(STOP, "").lower() != "true":
        for name in ("predictor", "transformer"):
            given = isvc["spec"].get(name)
            if not given:
                continue
            made = _pod_of(view, isvc, name, given)
            if isinstance(made, Refused):
                failed = made
                break
            pod, runtime = made[0], made[1] or runtime
            wanted += _children(isvc, name, given, pod, runtime if name == "predictor" else None, mode)
            components.append(Component(name, child_name(isvc, name)))
    actions, told = _carried_out(view, isvc, key, wanted, prune=failed is None), []
    before = isvc.get("status") or {}
    status = status_of_service(view, isvc, mode, components, runtime, failed, rfc3339(now_us))
    ingress = _ingress(isvc, components, status) if mode == STANDARD else None
    if ingress is not None:
        actions += brought_to(view, ingress)
    if failed is not None and before != status:
        told.append(event(key, "InternalError", failed.error, COMPONENT, WARNING))
    if status != before:
        actions.append(SetStatus(key, status))
    actions += told
    return Reconciliation(tuple(actions))


def mode_of(view: View, isvc: Obj) -> str:
    """Standard or Knative: what it was made as, what it asks for, what the installation says."""
    for said in ((isvc.get("status") or {}).get("deploymentMode"), annotations_of(isvc).get(MODE)):
        if said in _MODES:
            return _MODES[said]
    config = view.get(CONFIG)
    try:
        deploy = json.loads((config or {}).get("data", {}).get("deploy") or "{}")
        return _MODES.get(deploy.get("defaultDeploymentMode"), KNATIVE)
    except (ValueError, AttributeError):
        return KNATIVE


def child_name(isvc: Obj, component: str) -> str:
    return f"{isvc['metadata']['name']}-{component}"


def _pod_of(
    view: View, isvc: Obj, name: str, given: dict[str, Any]
) -> tuple[dict[str, Any], Runtime | None] | Refused:
    try:
        if name == "transformer":
            return podspecs.transformer_pod(isvc, given, child_name(isvc, "predictor")), None
        model = podspecs.model_of(given)
        if model is None:
            return podspecs.own_pod(isvc, given), None
        found = chosen(view, model, isvc["metadata"]["namespace"], is_multi_node="workerSpec" in given)
        if isinstance(found, Refused):
            return found
        return podspecs.predictor_pod(isvc, given, model, found), found
    except ValueError as wrong:
        return Refused("InvalidPredictorSpec", str(wrong), str(wrong))


def _children(
    isvc: Obj, name: str, given: dict[str, Any], pod: dict[str, Any], runtime: Runtime | None, mode: str
) -> list[Obj]:
    meta = _meta(isvc, name, given, runtime)
    return _standard(isvc, given, pod, meta) if mode == STANDARD else [_knative(isvc, name, given, pod, meta)]


def _meta(isvc: Obj, name: str, given: dict[str, Any], runtime: Runtime | None) -> dict[str, Any]:
    """Name, labels and annotations of whatever the component becomes; pods have them too."""
    runs: dict[str, Any] = {} if runtime is None else runtime.spec
    annotations = {k: v for k, v in annotations_of(isvc).items() if k not in _KEPT_BACK}
    model = podspecs.model_of(given) or next(iter(given.get("containers") or ()), {})
    uri = model.get("storageUri") or next(
        (e.get("value") for e in model.get("env") or () if e.get("name") == "STORAGE_URI"), None
    )
    if uri:
        annotations[storage.SOURCE] = uri
    own = isvc["metadata"]
    return {
        "name": child_name(isvc, name),
        "namespace": own["namespace"],
        "labels": {
            **(runs.get("labels") or {}),
            **labels_of(isvc),
            **(given.get("labels") or {}),
            "serving.kserve.io/inferenceservice": own["name"],
            "component": name,
        },
        "annotations": {**(runs.get("annotations") or {}), **annotations, **(given.get("annotations") or {})},
        "ownerReferences": owned_by(isvc, isvc["apiVersion"], KIND),
    }


def _standard(isvc: Obj, given: dict[str, Any], pod: dict[str, Any], meta: dict[str, Any]) -> list[Obj]:
    app = {"app": f"isvc.{meta['name']}"}
    meta = {**meta, "labels": {**meta["labels"], **app}}
    template = {
        "metadata": {"labels": meta["labels"], "annotations": meta["annotations"]},
        "spec": _probed(pod),
    }
    spec: dict[str, Any] = {"selector": {"matchLabels": app}, "template": template}
    spec["strategy"] = given.get("deploymentStrategy") or {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    scaler = annotations_of(isvc).get(AUTOSCALER, "hpa")
    if scaler == "none" and given.get("minReplicas") is not None:
        spec["replicas"] = given["minReplicas"]
    made = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": app, "ports": _ports(pod, meta)},
        },
    ]
    if scaler == "hpa":
        made.append(_hpa(given, meta))
    elif scaler == "keda":
        made.append(_scaled(given, meta))
    return made


def _probed(pod: dict[str, Any]) -> dict[str, Any]:
    """With the TCP readiness probe that servers get which have none."""
    containers = []
    for container in pod["containers"]:
        if (
            container.get("name") in (podspecs.CONTAINER, "transformer-container")
            and "readinessProbe" not in container
        ):
            port = (container.get("ports") or [{"containerPort": 8080}])[0]["containerPort"]
            probe = {"tcpSocket": {"port": port}, "timeoutSeconds": 1, "periodSeconds": 10}
            container = {
                **container,
                "readinessProbe": {**probe, "successThreshold": 1, "failureThreshold": 3},
            }
        containers.append(container)
    return {**pod, "containers": containers}


def _ports(pod: dict[str, Any], meta: dict[str, Any]) -> list[dict[str, Any]]:
    given = pod["containers"][0].get("ports") or []
    if not given:
        return [{"name": meta["name"], "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    first = {"port": 80, "targetPort": given[0]["containerPort"], "protocol": given[0].get("protocol", "TCP")}
    more = [
        {"port": p["containerPort"], "targetPort": p["containerPort"], "protocol": "TCP"} for p in given[1:]
    ]
    return [
        {**port, "name": said.get("name") or f"{meta['name']}-{i}"}
        for i, (port, said) in enumerate(zip([first, *more], given, strict=True))
    ]


def _limits(given: dict[str, Any]) -> tuple[int, int]:
    least = max(int(given.get("minReplicas") or 1), 1)
    return least, max(int(given.get("maxReplicas") or 0), least)


def _hpa(given: dict[str, Any], meta: dict[str, Any]) -> Obj:
    least, most = _limits(given)
    metrics = [
        {"type": "Resource", "resource": {"name": m["resource"]["name"], "target": _target(m["resource"])}}
        for m in (given.get("autoScaling") or {}).get("metrics") or ()
        if m.get("resource")
    ]
    if not given.get("autoScaling"):
        name, target = given.get("scaleMetric") or "cpu", given.get("scaleTarget")
        if name == "cpu" or target is not None:
            share = {"type": "Utilization", "averageUtilization": target if target is not None else 80}
            metrics = [{"type": "Resource", "resource": {"name": name, "target": share}}]
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"]},
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": metrics,
    }
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": spec}


def _target(resource: dict[str, Any]) -> dict[str, Any]:
    given = resource.get("target") or {}
    if resource.get("name") == "cpu":
        return {"type": "Utilization", "averageUtilization": given.get("averageUtilization", 80)}
    return {k: given[k] for k in ("type", "averageUtilization", "averageValue") if k in given}


def _scaled(given: dict[str, Any], meta: dict[str, Any]) -> Obj:
    least, most = _limits(given)
    if given.get("minReplicas") == 0:
        least = 0
    triggers: list[Obj] = []
    for metric in (given.get("autoScaling") or {}).get("metrics") or ():
        if metric.get("resource"):
            share = str((metric["resource"].get("target") or {}).get("averageUtilization", 80))
            triggers.append(
                {
                    "type": metric["resource"]["name"],
                    "metricType": "Utilization",
                    "metadata": {"value": share},
                }
            )
        elif metric.get("external"):
            of, target = metric["external"].get("metric") or {}, metric["external"].get("target") or {}
            said = {"serverAddress": of.get("serverAddress", ""), "query": of.get("query", "")}
            said["threshold"] = str(target.get("value", target.get("averageValue", "")))
            triggers.append({"type": of.get("backend", "prometheus"), "metadata": said})
    triggers = triggers or [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "80"}}]
    spec = {
        "scaleTargetRef": {"name": meta["name"]},
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "triggers": triggers,
    }
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": meta, "spec": spec}


def _knative(isvc: Obj, name: str, given: dict[str, Any], pod: dict[str, Any], meta: dict[str, Any]) -> Obj:
    scaling = {"autoscaling.knative.dev/min-scale": str(given.get("minReplicas", 1))}
    if given.get("maxReplicas"):
        scaling["autoscaling.knative.dev/max-scale"] = str(given["maxReplicas"])
    if given.get("scaleTarget") is not None:
        scaling["autoscaling.knative.dev/target"] = str(given["scaleTarget"])
    if given.get("scaleMetric"):
        scaling["autoscaling.knative.dev/metric"] = given["scaleMetric"]
        kind = "hpa" if given["scaleMetric"] in ("cpu", "memory") else "kpa"
        scaling["autoscaling.knative.dev/class"] = f"{kind}.autoscaling.knative.dev"
    template: dict[str, Any] = {
        "metadata": {"labels": meta["labels"], "annotations": {**scaling, **meta["annotations"]}},
        "spec": {**pod},
    }
    if given.get("timeout") is not None:
        template["spec"] |= {
            "timeoutSeconds": given["timeout"],
            "responseStartTimeoutSeconds": given["timeout"],
        }
    if given.get("containerConcurrency") is not None:
        template["spec"]["containerConcurrency"] = given["containerConcurrency"]
    rolled = (((isvc.get("status") or {}).get("components") or {}).get(name) or {}).get(
        "latestRolledoutRevision"
    )
    percent = given.get("canaryTrafficPercent")
    traffic: list[dict[str, Any]] = [{"latestRevision": True, "percent": 100}]
    if percent is not None and rolled:
        traffic = [{"latestRevision": True, "percent": percent}]
        if percent < 100:
            rest = {"revisionName": rolled, "latestRevision": False, "percent": 100 - percent, "tag": "prev"}
            traffic.append(rest)
    service_meta = {k: v for k, v in meta.items() if k != "annotations"}
    spec = {"template": template, "traffic": traffic}
    return {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": service_meta, "spec": spec}


def _ingress(isvc: Obj, components: Sequence[Component], status: dict[str, Any]) -> Obj | None:
    """From outside to the first component; only once that is ready."""
    if not status.get("url") or not components:
        return None
    meta = isvc["metadata"]
    entry = components[-1].child
    hosts = [(f"{meta['name']}-{meta['namespace']}.example.com", entry)]
    hosts.append((f"{components[0].child}-{meta['namespace']}.example.com", components[0].child))
    rules = []
    for host, service in hosts:
        backend = {"service": {"name": service, "port": {"number": 80}}}
        rules.append(
            {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
        )
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "ownerReferences": owned_by(isvc, isvc["apiVersion"], KIND),
        },
        "spec": {"ingressClassName": "istio", "rules": rules},
    }


def _carried_out(view: View, isvc: Obj, key: Key, wanted: list[Obj], *, prune: bool) -> list[Action]:
    """Children made, brought up to date, and removed where nothing asks for them any more."""
    actions = [action for obj in wanted for action in brought_to(view, obj)]
    if prune:
        names = {key_of(obj) for obj in wanted}
        names.add(Key("Ingress.networking.k8s.io", key.namespace, key.name))
        actions += pruned(view, isvc, _CHILDREN, names if wanted else ())
    return actions


def map_change(view: View, change: Change) -> Sequence[Key]:
    gk = change.key.gk
    if gk == ISVC:
        return (change.key,) if is_desire_changed(change) else NO_KEYS
    if gk in (RUNTIME, CLUSTER_RUNTIME):
        namespace = change.key.namespace if gk == RUNTIME else None
        return [key_of(obj) for obj in view.objects(ISVC, namespace)]
    if gk == "ConfigMap":
        return [key_of(obj) for obj in view.objects(ISVC)] if change.key == CONFIG else NO_KEYS
    key = owner_key(change.obj, KIND, GROUP, ISVC)
    return (key,) if key is not None else NO_KEYS


CONTROLLER: Final = Controller(
    name="inferenceservice",
    gk=ISVC,
    watches=(ISVC, *_CHILDREN, RUNTIME, CLUSTER_RUNTIME, "ConfigMap"),
    map_change=map_change,
    reconcile=reconcile,
)
