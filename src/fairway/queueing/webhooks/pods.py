"""What does the webhook of pods default and refuse? Plain pods, groups of pods, pods of Deployments and the like.

A pod that Kueue manages is held by a scheduling gate until it is admitted.

Source: pkg/controller/jobs/pod/pod_webhook.go, pod_controller.go; pkg/util/pod/pod.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, annotations_of, labels_of, meta_of, spec_of, status_of
from fairway.queueing.integrations.rolehash import ROLE_HASH, role_hash
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.jobs import (
    changed_job_faults,
    go_integer,
    new_job_faults,
    prebuilt_name,
    prebuilt_path,
)
from fairway.queueing.webhooks.jobshapes import Shape
from fairway.queueing.webhooks.metadata import ANNOTATIONS, LABELS, named_object_faults
from fairway.queueing.webhooks.settings import Settings
from fairway.queueing.webhooks.topologyannotations import Template, topology_faults

MANAGED = "kueue.x-k8s.io/managed"
ADMISSION_GATE = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
SUSPENDED_BY_PARENT = "kueue.x-k8s.io/pod-suspending-parent"
GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
POD_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
POD_INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index-label"

_COUNT_PATH = f.at_key(ANNOTATIONS, TOTAL_COUNT)
_GONE = ("Failed", "Succeeded")


def gated_pod(pod: Obj, settings: Settings, *, by_parent: bool) -> Obj:
    """The pod as Kueue takes hold of it: gates, finalizer, the hash of its role."""
    meta = meta_of(pod)
    labels, annotations = dict(labels_of(pod)), dict(annotations_of(pod))
    finalizers = list(meta.get("finalizers") or ())
    if not by_parent:
        labels[MANAGED] = "true"
        if MANAGED not in finalizers:
            finalizers.append(MANAGED)
    gates = [ADMISSION_GATE]
    if settings.is_on("TopologyAwareScheduling"):
        gates.append(TOPOLOGY_GATE)
        if POD_INDEX_LABEL in annotations:
            labels[POD_INDEX] = labels.get(annotations[POD_INDEX_LABEL], "")
    spec = with_gates(spec_of(pod), gates)
    annotations.setdefault(ROLE_HASH, role_hash(spec))
    new = {**meta, "annotations": annotations}
    if labels:
        new["labels"] = labels
    if finalizers:
        new["finalizers"] = finalizers
    return {**pod, "metadata": new, "spec": spec}


def with_gates(spec: Mapping[str, Any], wanted: list[str]) -> dict[str, Any]:
    gates = list(spec.get("schedulingGates") or ())
    have = {gate.get("name") for gate in gates}
    return {**spec, "schedulingGates": [*gates, *({"name": n} for n in wanted if n not in have)]}


def is_pod_suspended(pod: Obj) -> bool:
    gates = spec_of(pod).get("schedulingGates") or ()
    return status_of(pod).get("phase") in _GONE or any(g.get("name") == ADMISSION_GATE for g in gates)


def pod_faults(shape: Shape, pod: Obj, old: Obj | None, view: View, settings: Settings) -> list[Fault]:
    if old is None:
        out = new_job_faults(shape, pod, settings)
    else:
        was, now = is_pod_suspended(old), is_pod_suspended(pod)
        out = changed_job_faults(shape, pod, old, view, settings, was_suspended=was, is_suspended=now)
    out += _common_faults(pod, settings)
    return out if old is None else out + _group_update_faults(pod, old, settings)


def _common_faults(pod: Obj, settings: Settings) -> list[Fault]:
    out = []
    managed = labels_of(pod).get(MANAGED)
    if managed is not None and managed != "true":
        why = "managed label value can only be 'true'"
        out.append(f.forbidden(f.at_key(LABELS, MANAGED), why))
    out += _group_faults(pod, settings)
    out += topology_faults(Template("main", ("metadata",), annotations_of(pod), 1), settings)
    group, prebuilt = group_name(pod, settings), prebuilt_name(pod, settings)
    if group and prebuilt and prebuilt != group:
        why = "prebuilt workload and pod group should be equal"
        out.append(f.invalid(prebuilt_path(pod, settings), prebuilt, why))
    return out


def _is_annotated(pod: Obj, settings: Settings) -> bool:
    return settings.is_on("WorkloadIdentifierAnnotations") and bool(annotations_of(pod).get(GROUP_NAME))


def group_name(pod: Obj, settings: Settings) -> str:
    values = annotations_of(pod) if _is_annotated(pod, settings) else labels_of(pod)
    return str(values.get(GROUP_NAME) or "")


def _group_path(pod: Obj, settings: Settings) -> Path:
    return f.at_key(ANNOTATIONS if _is_annotated(pod, settings) else LABELS, GROUP_NAME)


def _group_faults(pod: Obj, settings: Settings) -> list[Fault]:
    count = annotations_of(pod).get(TOTAL_COUNT)
    word = "annotation" if _is_annotated(pod, settings) else "label"
    both = f"both the '{TOTAL_COUNT}' annotation and the '{GROUP_NAME}' {word} should be set"
    out: list[Fault] = []
    if not group_name(pod, settings):
        return [f.required(_group_path(pod, settings), both)] if count is not None else []
    out += named_object_faults(pod, GROUP_NAME, in_annotation=_is_annotated(pod, settings))
    if count is None:
        return [*out, f.required(_COUNT_PATH, both)]
    number = go_integer(count)
    if isinstance(number, str):
        out.append(f.invalid(_COUNT_PATH, count, number))
    elif number < 1:
        why = f"incorrect annotation value '{TOTAL_COUNT}={count}': group total count should be greater than zero"
        out.append(f.invalid(_COUNT_PATH, count, why))
    return out


def _group_update_faults(pod: Obj, old: Obj, settings: Settings) -> list[Fault]:
    out = []
    group, was = group_name(pod, settings), group_name(old, settings)
    if group and _is_unretriable(old) and not _is_unretriable(pod):
        why = "unretriable pod group can't be converted to retriable"
        out.append(f.forbidden(f.at_key(ANNOTATIONS, RETRIABLE), why))
    if was:
        out += f.immutable(_group_path(pod, settings), group, was)
    return out


def _is_unretriable(pod: Obj) -> bool:
    return annotations_of(pod).get(RETRIABLE) == "false"
