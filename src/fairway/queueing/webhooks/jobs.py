"""What do the webhooks of jobs share: the queue's name, prebuilt workloads, priority classes, time limits?

Source: pkg/controller/jobframework/validation.go.
"""

from __future__ import annotations

import re

from fairway.cluster.actions import View
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, namespace_of
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.gatedby import gated_by_faults
from fairway.queueing.webhooks.jobshapes import Shape
from fairway.queueing.webhooks.metadata import ANNOTATIONS, LABELS, named_object_faults
from fairway.queueing.webhooks.settings import Settings
from fairway.queueing.webhooks.workloads import is_elastic

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
ELASTIC = "kueue.x-k8s.io/elastic-job"
LOCAL_QUEUE = "LocalQueue.kueue.x-k8s.io"
DEFAULT_QUEUE = "default"

_QUEUE_PATH = f.at_key(LABELS, QUEUE_NAME)
_CLASS_PATH = f.at_key(LABELS, PRIORITY_CLASS)
_TIME_PATH = f.at_key(LABELS, MAX_EXEC_TIME)
_ELASTIC_PATH = f.at_key(ANNOTATIONS, ELASTIC)
_MAX_LABEL = 63
_ELASTIC_KINDS = frozenset({"job", "raycluster", "rayjob", "rayservice"})
_PREBUILT_KINDS = frozenset(
    {
        "appwrapper",
        "job",
        "jobset",
        "mpijob",
        "paddlejob",
        "pod",
        "pytorchjob",
        "raycluster",
        "rayjob",
        "rayservice",
        "tfjob",
        "trainjob",
        "xgboostjob",
    }
)


def queue_name_of(obj: Obj) -> str:
    return str(labels_of(obj).get(QUEUE_NAME) or "")


def has_default_queue(view: View, namespace: str) -> bool:
    return view.get(Key(LOCAL_QUEUE, namespace, DEFAULT_QUEUE)) is not None


def new_job_faults(shape: Shape, job: Obj, settings: Settings) -> list[Fault]:
    """Source: ValidateJobOnCreate."""
    out = named_object_faults(job, QUEUE_NAME)
    out += _prebuilt_faults(shape, job, settings)
    out += _time_faults(job)
    out += elastic_faults(shape, job, settings)
    return out + (gated_by_faults(job) if settings.is_on("AdmissionGatedBy") else [])


def changed_job_faults(
    shape: Shape,
    new: Obj,
    old: Obj,
    view: View,
    settings: Settings,
    *,
    was_suspended: bool,
    is_suspended: bool,
) -> list[Fault]:
    """Source: ValidateJobOnUpdate."""
    out: list[Fault] = []
    if not is_suspended:
        out += f.immutable(_QUEUE_PATH, queue_name_of(new), queue_name_of(old))
    if not queue_name_of(new) and queue_name_of(old) and has_default_queue(view, namespace_of(old)):
        why = "queue-name must not be empty in namespace with default queue"
        out.append(f.invalid(_QUEUE_PATH, "", why))
    if is_suspended or is_elastic(old, settings):
        out += _prebuilt_faults(shape, new, settings)
    else:
        names = (prebuilt_name(new, settings), prebuilt_name(old, settings))
        out += f.immutable(prebuilt_path(new, settings), *names)
    if not is_suspended or not was_suspended:
        limits = (labels_of(new).get(MAX_EXEC_TIME, ""), labels_of(old).get(MAX_EXEC_TIME, ""))
        out += f.immutable(_TIME_PATH, *limits)
    out += priority_class_faults(new, old, is_suspended=is_suspended)
    if is_elastic(new, settings) != is_elastic(old, settings):
        out.append(f.invalid(_ELASTIC_PATH, is_elastic(new, settings), f.IMMUTABLE))
    return out + (gated_by_faults(new, old) if settings.is_on("AdmissionGatedBy") else [])


def priority_class_faults(new: Obj, old: Obj, *, is_suspended: bool) -> list[Fault]:
    was, now = (labels_of(o).get(PRIORITY_CLASS) or "" for o in (old, new))
    if not is_suspended and not was and now:
        why = "WorkloadPriorityClass cannot be added to a non-suspended workload"
        return [f.invalid(_CLASS_PATH, now, why)]
    if was and not now:
        return [f.invalid(_CLASS_PATH, now, "WorkloadPriorityClass cannot be removed from a workload")]
    return []


def elastic_faults(shape: Shape, job: Obj, settings: Settings) -> list[Fault]:
    if not is_elastic(job, settings) or shape.name in _ELASTIC_KINDS:
        return []
    return [f.forbidden(_ELASTIC_PATH, f'elastic job is not supported for "{shape.gvk}"')]


def _is_annotated(job: Obj, settings: Settings) -> bool:
    """Whether the prebuilt workload is named by the annotation, not the label."""
    value = annotations_of(job).get(PREBUILT) or ""
    return bool(value) and (settings.is_on("WorkloadIdentifierAnnotations") or len(value) > _MAX_LABEL)


def prebuilt_name(job: Obj, settings: Settings) -> str:
    label = str(labels_of(job).get(PREBUILT) or "")
    if settings.is_on("WorkloadIdentifierAnnotations"):
        return str(annotations_of(job).get(PREBUILT) or label)
    return label or (str(annotations_of(job)[PREBUILT]) if _is_annotated(job, settings) else "")


def prebuilt_path(job: Obj, settings: Settings) -> Path:
    return f.at_key(ANNOTATIONS if _is_annotated(job, settings) else LABELS, PREBUILT)


def _prebuilt_faults(shape: Shape, job: Obj, settings: Settings) -> list[Fault]:
    out = named_object_faults(job, PREBUILT, in_annotation=_is_annotated(job, settings))
    if prebuilt_name(job, settings) and shape.name not in _PREBUILT_KINDS:
        out.append(f.forbidden(prebuilt_path(job, settings), f'Is not supported for "{shape.gvk}"'))
    return out


def _time_faults(job: Obj) -> list[Fault]:
    text = labels_of(job).get(MAX_EXEC_TIME)
    if text is None:
        return []
    number = go_integer(text)
    if isinstance(number, str):
        return [f.invalid(_TIME_PATH, text, number)]
    return [f.invalid(_TIME_PATH, number, "should be greater than 0")] if number <= 0 else []


def go_integer(text: str) -> int | str:
    """What strconv.Atoi reads, or how it says that it cannot."""
    if not re.fullmatch(r"[+-]?[0-9]{1,4000}", text, re.ASCII):
        return f"strconv.Atoi: parsing {f.go_text(text)}: invalid syntax"
    number = int(text)
    if not -(2**63) <= number < 2**63:
        return f"strconv.Atoi: parsing {f.go_text(text)}: value out of range"
    return number
