"""A Revision's Deployment and PodAutoscaler, and what becomes of its conditions.

Source: pkg/reconciler/revision/reconcile_resources.go, resources/pa.go,
pkg/apis/serving/v1/revision_lifecycle.go, pkg/apis/serving/k8s_lifecycle.go.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.cluster.actions import NOTHING_TO_DO, Action, Create, Patch, Reconciliation, SetStatus, View
from fairway.kube.objects import Key, Obj, annotations_of, controller_of, labels_of
from fairway.workloads.knative import names
from fairway.workloads.knative.conditions import FALSE, TRUE, UNKNOWN, Conditions, condition_of
from fairway.workloads.knative.revisionpods import QUEUE_PROXY, deployment_of
from fairway.workloads.podtemplate import owned_by

_RESOURCES, _HEALTHY, _ACTIVE = "ResourcesAvailable", "ContainerHealthy", "Active"
_SCALING: Final = "autoscaling.knative.dev"
_DEFAULTED: Final = (f"{_SCALING}/class", f"{_SCALING}/metric")
_TIMED_OUT: Final = "ProgressDeadlineExceeded"


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one Revision."""
    revision = view.get(key)
    if revision is None or "deletionTimestamp" in revision["metadata"]:
        return NOTHING_TO_DO
    before: dict[str, Any] = revision.get("status") or {}
    conditions = Conditions(before, (_RESOURCES, _HEALTHY), now_us)
    status: dict[str, Any] = {**before, "observedGeneration": revision["metadata"].get("generation", 1)}
    status["containerStatuses"] = [{"name": c["name"]} for c in revision["spec"].get("containers") or ()]
    actions: list[Action] = []
    deployment = view.get(Key(names.DEPLOYMENT, key.namespace, names.deployment_name(key.name)))
    autoscaler = view.get(Key(names.POD_AUTOSCALER, key.namespace, key.name))
    foreign = _foreign(revision, deployment, autoscaler)
    if foreign:
        conditions.mark(_RESOURCES, FALSE, "NotOwned", foreign)
    elif deployment is None:
        conditions.mark(_RESOURCES, UNKNOWN, "Deploying")
        conditions.mark(_HEALTHY, UNKNOWN, "Deploying")
        actions.append(Create(deployment_of(revision, _initial_scale(revision))))
    else:
        _follow_deployment(view, deployment, conditions)
    if not foreign:
        actions += _ensure_autoscaler(revision, deployment, autoscaler, conditions)
        _follow_autoscaler(autoscaler, status, conditions)
    status["conditions"] = conditions.listed()
    if status != before:
        actions.append(SetStatus(key, status))
    return Reconciliation(tuple(actions))


def _foreign(revision: Obj, *made: Obj | None) -> str:
    """What bears a name of ours and is somebody else's."""
    for obj in made:
        owner = None if obj is None else controller_of(obj)
        if obj is not None and (owner is None or owner.get("uid") != revision["metadata"]["uid"]):
            return f'There is an existing {obj["kind"]} "{obj["metadata"]["name"]}" that we do not own.'
    return ""


def _initial_scale(revision: Obj) -> int:
    told = annotations_of(revision)
    text = told.get(f"{_SCALING}/initial-scale") or told.get(f"{_SCALING}/initialScale") or ""
    return int(text) if text.isdigit() else 1


# Its Deployment


def _follow_deployment(view: View, deployment: Obj, conditions: Conditions) -> None:
    status: dict[str, Any] = deployment.get("status") or {}
    conditions.mark(_RESOURCES, *_deployed(deployment))
    if (deployment["spec"].get("replicas") or 0) > 0 and not status.get("availableReplicas"):
        _diagnose(view, deployment, conditions)
    if status.get("readyReplicas"):
        conditions.mark(_HEALTHY, TRUE)


def _deployed(deployment: Obj) -> tuple[str, str, str]:
    """Status, reason and message of whether its resources are available."""
    failure = condition_of(deployment, "ReplicaFailure")
    if failure is not None and failure["status"] == TRUE:
        return FALSE, failure.get("reason", ""), failure.get("message", "")
    progress = condition_of(deployment, "Progressing")
    if progress is None:
        return UNKNOWN, "Deploying", ""
    if progress["status"] == TRUE:
        return TRUE, "", ""
    return progress["status"], progress.get("reason", ""), progress.get("message", "")


def _diagnose(view: View, deployment: Obj, conditions: Conditions) -> None:
    """Of the first pod, as they all should be in the same trouble. O(pods of the Deployment)."""
    pods = [
        pod
        for replica_set in view.dependents(deployment["metadata"]["uid"])
        for owner in [view.get(replica_set)]
        if owner is not None
        for pod in map(view.get, view.dependents(owner["metadata"]["uid"]))
        if pod is not None
    ]
    if not pods:
        return
    scheduled = condition_of(pods[0], "PodScheduled")
    if scheduled is not None and scheduled["status"] == FALSE:
        conditions.mark(_RESOURCES, FALSE, scheduled.get("reason", ""), scheduled.get("message", ""))
    for container in (pods[0].get("status") or {}).get("containerStatuses") or ():
        if container["name"] == QUEUE_PROXY:
            continue
        ended = (container.get("lastState") or {}).get("terminated")
        waiting = (container.get("state") or {}).get("waiting")
        if ended is not None:
            code, message = ended.get("exitCode", 0), ended.get("message") or ""
            if not code and not message:
                message = "container exited with no error"
            conditions.mark(_HEALTHY, FALSE, f"ExitCode{code}", f"Container failed with: {message}")
            return
        progress = condition_of(deployment, "Progressing")
        is_late = progress is not None and progress["status"] == FALSE and progress["reason"] == _TIMED_OUT
        if waiting is not None and is_late:
            conditions.mark(_RESOURCES, FALSE, waiting.get("reason", ""), waiting.get("message", ""))
            return


# Its PodAutoscaler


def _ensure_autoscaler(
    revision: Obj, deployment: Obj | None, there: Obj | None, conditions: Conditions
) -> list[Action]:
    meta = revision["metadata"]
    annotations = names.annotated(revision, with_scaling=True)
    spec = {
        "containerConcurrency": revision["spec"].get("containerConcurrency") or 0,
        "scaleTargetRef": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": names.deployment_name(meta["name"]),
        },
        "protocolType": _protocol(revision),
        "reachability": _reachability(revision, deployment, conditions),
    }
    if there is None:
        kind = annotations.get(_DEFAULTED[0], f"kpa.{_SCALING}")
        metric = "cpu" if kind == f"hpa.{_SCALING}" else "concurrency"
        metadata = {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": names.labelled(revision),
            "annotations": {_DEFAULTED[0]: kind, _DEFAULTED[1]: metric, **annotations},
            "ownerReferences": owned_by(revision, names.VERSION, "Revision"),
        }
        return [
            Create(
                {
                    "apiVersion": names.AUTOSCALER_VERSION,
                    "kind": "PodAutoscaler",
                    "metadata": metadata,
                    "spec": spec,
                }
            )
        ]
    told = annotations_of(there)
    gone: dict[str, Any] = {
        k: None for k in told if k.startswith(_SCALING) and k not in _DEFAULTED and k not in annotations
    }
    changed = {**gone, **{k: v for k, v in annotations.items() if told.get(k) != v}}
    patch: dict[str, Any] = {"metadata": {"annotations": changed}} if changed else {}
    if there["spec"] != spec:
        patch["spec"] = spec
    return [Patch(Key(names.POD_AUTOSCALER, meta["namespace"], meta["name"]), patch)] if patch else []


def _protocol(revision: Obj) -> str:
    named = [p.get("name") for c in revision["spec"].get("containers") or () for p in c.get("ports") or ()]
    return "h2c" if "h2c" in named else "http1"


def _reachability(revision: Obj, deployment: Obj | None, conditions: Conditions) -> str:
    if deployment is not None and FALSE in (conditions.status(_RESOURCES), conditions.status(_HEALTHY)):
        wanted = deployment["spec"].get("replicas") or 0
        if wanted and not (deployment.get("status") or {}).get("readyReplicas"):
            return "Unreachable"
    state = labels_of(revision).get(names.ROUTING_STATE, "")
    return {"active": "Reachable", "reserve": "Unreachable"}.get(state, "")


def _follow_autoscaler(autoscaler: Obj | None, status: dict[str, Any], conditions: Conditions) -> None:
    of: dict[str, Any] = (autoscaler or {}).get("status") or {}
    for member, source in (("actualReplicas", "actualScale"), ("desiredReplicas", "desiredScale")):
        status.pop(member, None)
        if of.get(source, -1) >= 0:
            status[member] = of[source]
    is_unavailable = FALSE in (conditions.status(_RESOURCES), conditions.status(_HEALTHY))
    ready = condition_of(autoscaler) if autoscaler is not None else None
    if autoscaler is None or ready is None:
        conditions.mark(_ACTIVE, UNKNOWN, "Deploying")
        if not is_unavailable:
            conditions.mark(_RESOURCES, UNKNOWN, "Deploying")
        return
    initialized = condition_of(autoscaler, "ScaleTargetInitialized")
    is_initialized = initialized is not None and initialized["status"] == TRUE
    if is_initialized and not is_unavailable:
        conditions.mark(_RESOURCES, TRUE)
        conditions.mark(_HEALTHY, TRUE)
    if conditions.status(_RESOURCES) == TRUE and not (of.get("serviceName") and is_initialized):
        conditions.mark(_RESOURCES, UNKNOWN, "Deploying")
    if ready["status"] == FALSE and not is_initialized and not is_unavailable and of.get("serviceName"):
        conditions.mark(_RESOURCES, FALSE, _TIMED_OUT, "Initial scale was never achieved")
    conditions.copy(_ACTIVE, ready)
