"""What do the mutating webhooks of jobs write into a job: queue, priority class, suspension, gates, manager?

Source: pkg/controller/jobframework/defaults.go; pkg/controller/jobs/*/…_webhook.go Default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, meta_of, namespace_of, spec_of
from fairway.queueing.webhooks.jobs import (
    DEFAULT_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    QUEUE_NAME,
    has_default_queue,
    queue_name_of,
)
from fairway.queueing.webhooks.jobshapes import Shape, is_suspended, managed_by, with_held
from fairway.queueing.webhooks.ownership import (
    has_managed_ancestor,
    has_managed_owner,
    in_managed_namespace,
    should_be_suspended,
)
from fairway.queueing.webhooks.pods import MANAGED, SUSPENDED_BY_PARENT, gated_pod, with_gates
from fairway.queueing.webhooks.serving import is_managed_by_another
from fairway.queueing.webhooks.settings import Settings
from fairway.queueing.webhooks.topologyannotations import GROUP_NAME
from fairway.queueing.webhooks.workloads import is_elastic

_CLUSTER_QUEUE = "ClusterQueue.kueue.x-k8s.io"
_ADMISSION_CHECK = "AdmissionCheck.kueue.x-k8s.io"
_PRIORITY_CLASS = "WorkloadPriorityClass.kueue.x-k8s.io"
_DEFAULT_CLASS = "default"
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_ELASTIC_GATE = "kueue.x-k8s.io/elastic-job"
_SERVING = "kueue.x-k8s.io/pod-group-serving"
_INDEX_OFFSET = "kueue.x-k8s.io/pod-index-offset"
# Webhooks that also run on updates.
SERVING = frozenset({"deployment", "statefulset", "leaderworkerset"})


def defaulted_job(shape: Shape, job: Obj, view: View, settings: Settings) -> Obj:
    if shape.name == "pod":
        return _pod(job, view, settings)
    if shape.name == "statefulset" and is_managed_by_another(job):
        return job
    job = _with_default_queue(job, view, settings)
    job = _with_default_class(job, view, settings)
    waits = should_be_suspended(view, job, settings)
    if shape.name in SERVING:
        return _serving(shape, job, settings) if waits else job
    if waits and not is_suspended(shape, job):
        job = with_held(shape, job, "suspend", True)
    return _per_kind(shape, _with_manager(shape, job, view, settings), settings)


def _with_default_queue(job: Obj, view: View, settings: Settings) -> Obj:
    if queue_name_of(job) or not has_default_queue(view, namespace_of(job)):
        return job
    if has_managed_owner(job, settings) or not in_managed_namespace(view, namespace_of(job), settings):
        return job
    return _with_label(job, QUEUE_NAME, DEFAULT_QUEUE)


def _with_default_class(job: Obj, view: View, settings: Settings) -> Obj:
    if view.get(Key(_PRIORITY_CLASS, "", _DEFAULT_CLASS)) is None or labels_of(job).get(PRIORITY_CLASS):
        return job
    if not settings.is_on("WorkloadPriorityClassDefaulting") or has_managed_owner(job, settings):
        return job
    return _with_label(job, PRIORITY_CLASS, _DEFAULT_CLASS)


def _with_label(obj: Obj, key: str, value: str) -> Obj:
    return {**obj, "metadata": {**meta_of(obj), "labels": {**labels_of(obj), key: value}}}


def _with_manager(shape: Shape, job: Obj, view: View, settings: Settings) -> Obj:
    """Queues with a MultiKueue check run their jobs elsewhere. Source: ApplyDefaultForManagedBy."""
    name = queue_name_of(job)
    if not name or not shape.manager or not settings.is_on("MultiKueue"):
        return job
    if managed_by(shape, job) not in (None, shape.manager):
        return job
    local = view.get(Key(LOCAL_QUEUE, namespace_of(job), name))
    queue = view.get(Key(_CLUSTER_QUEUE, "", str(spec_of(local or {}).get("clusterQueue") or "")))
    rules = (spec_of(queue or {}).get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    checks = (view.get(Key(_ADMISSION_CHECK, "", rule.get("name", ""))) for rule in rules)
    if any(c is not None and spec_of(c).get("controllerName") == _MULTIKUEUE for c in checks):
        return with_held(shape, job, "managedBy", _MULTIKUEUE)
    return job


def _per_kind(shape: Shape, job: Obj, settings: Settings) -> Obj:
    spec = spec_of(job)
    if shape.name == "job" and is_elastic(job, settings):
        return {**job, "spec": {**spec, "template": _gated_template(spec.get("template") or {})}}
    if shape.name == "raycluster" and is_elastic(job, settings):
        return {**job, "spec": _gated_cluster(spec)}
    if shape.name == "rayservice" and is_elastic(job, settings):
        cluster = _gated_cluster(spec.get("rayClusterSpec") or {})
        return {**job, "spec": {**spec, "rayClusterSpec": cluster}}
    if shape.name == "mpijob" and settings.is_on("TopologyAwareScheduling"):
        return _with_index_offset(job)
    return job


def _gated_template(template: Mapping[str, Any]) -> Obj:
    return {**template, "spec": with_gates(template.get("spec") or {}, [_ELASTIC_GATE])}


def _gated_cluster(cluster: Mapping[str, Any]) -> Obj:
    out = dict(cluster)
    head = out.get("headGroupSpec") or {}
    out["headGroupSpec"] = {**head, "template": _gated_template(head.get("template") or {})}
    if out.get("workerGroupSpecs"):
        out["workerGroupSpecs"] = [
            {**group, "template": _gated_template(group.get("template") or {})}
            for group in out["workerGroupSpecs"]
        ]
    return out


def _with_index_offset(job: Obj) -> Obj:
    """Workers count from 1 where the launcher is a worker too."""
    spec = spec_of(job)
    roles = spec.get("mpiReplicaSpecs") or {}
    launcher, worker = roles.get("Launcher"), roles.get("Worker")
    if not spec.get("runLauncherAsWorker") or launcher is None or worker is None:
        return job
    if GROUP_NAME in annotations_of(launcher.get("template") or {}):
        return job
    template = _annotated(worker.get("template") or {}, {_INDEX_OFFSET: "1"})
    roles = {**roles, "Worker": {**worker, "template": template}}
    return {**job, "spec": {**spec, "mpiReplicaSpecs": roles}}


def _annotated(
    template: Mapping[str, Any], annotations: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> Obj:
    meta = dict(template.get("metadata") or {})
    meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    if labels:
        meta["labels"] = {**(meta.get("labels") or {}), **labels}
    return {**template, "metadata": meta}


def _serving(shape: Shape, obj: Obj, settings: Settings) -> Obj:
    spec = spec_of(obj)
    passed_on = {key: labels_of(obj)[key] for key in (QUEUE_NAME, PRIORITY_CLASS) if labels_of(obj).get(key)}
    if shape.name == "leaderworkerset":
        return {**obj, "spec": {**spec, "leaderWorkerTemplate": _group(spec, passed_on, settings)}}
    parent = {SUSPENDED_BY_PARENT: shape.name}
    labels = {MANAGED: "true", **passed_on} if shape.name == "deployment" else None
    return {**obj, "spec": {**spec, "template": _annotated(spec.get("template") or {}, parent, labels)}}


def _group(spec: Obj, labels: Mapping[str, str], settings: Settings) -> Obj:
    group = dict(spec.get("leaderWorkerTemplate") or {})
    parent = {SUSPENDED_BY_PARENT: "leaderworkerset.x-k8s.io/leaderworkerset", _SERVING: "true"}
    worker = _annotated(group.get("workerTemplate") or {}, parent, labels)
    if group.get("leaderTemplate") is not None:
        group["leaderTemplate"] = _annotated(group["leaderTemplate"], parent, labels)
        if settings.is_on("TopologyAwareScheduling") and GROUP_NAME not in annotations_of(worker):
            worker = _annotated(worker, {_INDEX_OFFSET: "1"})
    return {**group, "workerTemplate": worker}


def _pod(pod: Obj, view: View, settings: Settings) -> Obj:
    """Most pods are nobody's concern: the cheap questions come first."""
    if SUSPENDED_BY_PARENT in annotations_of(pod):
        return gated_pod(pod, settings, by_parent=True)
    namespace = namespace_of(pod)
    has_class = view.get(Key(_PRIORITY_CLASS, "", _DEFAULT_CLASS)) is not None
    may_wait = queue_name_of(pod) or settings.manages_without_queue_name or has_default_queue(view, namespace)
    if not may_wait and not has_class:
        return pod
    if not in_managed_namespace(view, namespace, settings) or has_managed_ancestor(view, pod, settings):
        return pod
    if not queue_name_of(pod) and has_default_queue(view, namespace):
        pod = _with_label(pod, QUEUE_NAME, DEFAULT_QUEUE)
    pod = _with_default_class(pod, view, settings)
    if not queue_name_of(pod) and not settings.manages_without_queue_name:
        return pod
    return gated_pod(pod, settings, by_parent=False)
