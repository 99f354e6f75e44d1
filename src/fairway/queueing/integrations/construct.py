"""The Workload that describes a job.

Source: pkg/controller/jobframework/reconciler.go (ConstructWorkload, prepareWorkload), utils.go (NewWorkload,
SanitizePodSets).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.integers import natural
from fairway.kube.names import label_value
from fairway.kube.objects import (
    Obj,
    annotations_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    owner_reference,
)
from fairway.queueing.facts.workloads import JOB_UID_LABEL, SLICE_REPLACEMENT_FOR, key_of
from fairway.queueing.facts.workloadstate import ADMISSION_GATED_BY, ELASTIC_JOB
from fairway.queueing.integrations.integration import Integration, PodSetObj
from fairway.queueing.integrations.names import workload_name
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.integrations.podsetinfo import SLICE_NAME_ANNOTATION, slice_name
from fairway.queueing.integrations.priorities import priority_of
from fairway.queueing.integrations.settings import JobSettings

IN_USE_FINALIZER: Final = "kueue.x-k8s.io/resource-in-use"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
MAX_EXECUTION_LABEL: Final = "kueue.x-k8s.io/max-exec-time-seconds"
PROVISIONING_PREFIX: Final = "provreq.kueue.x-k8s.io/"

_MAX_INT32: Final = 2**31 - 1


def queue_name(job: Obj) -> str:
    return labels_of(job).get(QUEUE_LABEL) or ""


def max_execution_s(job: Obj) -> int | None:
    seconds = natural(labels_of(job).get(MAX_EXECUTION_LABEL))
    return seconds if seconds is not None and 0 < seconds <= _MAX_INT32 else None


def is_elastic_job(job: Obj) -> bool:
    return annotations_of(job).get(ELASTIC_JOB) == "true"


def job_pod_sets(view: View, integration: Integration, job: Obj) -> list[PodSetObj]:
    """Its pod sets, of every environment variable only the last value."""
    return [_sanitized(ps) for ps in integration.pod_sets(view, job)]


def constructed(
    view: View, integration: Integration, job: Obj, settings: JobSettings, slices: Sequence[Obj] = ()
) -> Obj:
    """The Workload as it is created. `slices`: unfinished ones of an elastic job, at most one.

    Raises: ClassMissing.
    """
    pod_sets = job_pod_sets(view, integration, job)
    priority = priority_of(view, job, pod_sets, integration.priority_class(view, job))
    labels = {k: labels_of(job)[k] for k in settings.label_keys_to_copy if k in labels_of(job)}
    uid = meta_of(job).get("uid") or ""
    if uid and not label_value(uid):
        labels[JOB_UID_LABEL] = uid
    name = _name(integration, job, settings)
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace_of(job),
        "labels": labels,
        "finalizers": [IN_USE_FINALIZER],
        "ownerReferences": [owner_reference(job)],
    }
    annotations = _annotations(job, name, settings, slices)
    if annotations:
        meta["annotations"] = annotations
    spec: dict[str, Any] = {"active": True, "podSets": pod_sets, "priority": priority.value}
    if queue_name(job):
        spec["queueName"] = queue_name(job)
    if priority.ref is not None:
        spec["priorityClassRef"] = priority.ref
    limit = max_execution_s(job)
    if limit is not None:
        spec["maximumExecutionTimeSeconds"] = limit
    made = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": WORKLOAD.partition(".")[0],
        "metadata": meta,
        "spec": spec,
    }
    return integration.shaped(job, made)


def _name(integration: Integration, job: Obj, settings: JobSettings) -> str:
    own = integration.workload_name(job)
    if own is not None:
        return own
    extra = ""
    if settings.gates.elastic_jobs_via_workload_slices and is_elastic_job(job):
        extra = str(meta_of(job).get("generation") or 0)
    return workload_name(name_of(job), meta_of(job).get("uid") or "", integration.gk, extra=extra)


def _annotations(job: Obj, name: str, settings: JobSettings, slices: Sequence[Obj]) -> dict[str, str]:
    of_job = annotations_of(job)
    annotations = {k: v for k, v in of_job.items() if k.startswith(PROVISIONING_PREFIX)}
    if settings.gates.admission_gated_by and of_job.get(ADMISSION_GATED_BY):
        annotations[ADMISSION_GATED_BY] = of_job[ADMISSION_GATED_BY]
    if settings.gates.elastic_jobs_via_workload_slices and is_elastic_job(job):
        annotations[ELASTIC_JOB] = "true"
        if slices:
            annotations[SLICE_REPLACEMENT_FOR] = key_of(slices[0])
            annotations[SLICE_NAME_ANNOTATION] = slice_name(slices[0])
        else:
            annotations[SLICE_NAME_ANNOTATION] = name
    return annotations


def _sanitized(pod_set: PodSetObj) -> PodSetObj:
    template = pod_set.get("template") or {}
    spec = template.get("spec") or {}
    changed = {}
    for field in ("containers", "initContainers"):
        containers = spec.get(field) or ()
        if any(_has_duplicates(c.get("env") or ()) for c in containers):
            changed[field] = [_deduplicated(c) for c in containers]
    if not changed:
        return pod_set
    return {**pod_set, "template": {**template, "spec": {**spec, **changed}}}


def _has_duplicates(env: Sequence[dict[str, Any]]) -> bool:
    return len({e.get("name") for e in env}) < len(env)


def _deduplicated(container: dict[str, Any]) -> dict[str, Any]:
    last = {e.get("name"): e for e in container.get("env") or ()}
    return {**container, "env": list(last.values())}
