"""What does the webhook of batch/v1 Jobs refuse?

Source: pkg/controller/jobs/job/job_webhook.go.
"""

from __future__ import annotations

from fairway.cluster.actions import View
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, annotations_of, spec_of
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.jobs import changed_job_faults, go_integer, new_job_faults
from fairway.queueing.webhooks.jobshapes import Shape, is_suspended, pods_count
from fairway.queueing.webhooks.metadata import ANNOTATIONS
from fairway.queueing.webhooks.settings import Settings
from fairway.queueing.webhooks.topologyannotations import (
    PREFERRED,
    REQUIRED,
    bound_faults,
    topology_faults,
)
from fairway.queueing.webhooks.workloads import is_elastic

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
SYNC_COMPLETIONS = "kueue.x-k8s.io/job-completions-equal-parallelism"

_MIN_PATH = f.at_key(ANNOTATIONS, MIN_PARALLELISM)
_SYNC_PATH = f.at_key(ANNOTATIONS, SYNC_COMPLETIONS)
_TEMPLATE: Path = ("spec", "template", "metadata")
_TRUE = frozenset(["1", "t", "T", "TRUE", "true", "True"])
_FALSE = frozenset(["0", "f", "F", "FALSE", "false", "False"])


def batch_job_faults(shape: Shape, job: Obj, old: Obj | None, view: View, settings: Settings) -> list[Fault]:
    out = new_job_faults(shape, job, settings)
    wanted = annotations_of(job).get(MIN_PARALLELISM)
    if old is None or wanted != annotations_of(old).get(MIN_PARALLELISM):
        out += _partial_faults(job, settings)
    out += _sync_faults(job)
    if old is not None:
        out += changed_job_faults(
            shape,
            job,
            old,
            view,
            settings,
            was_suspended=is_suspended(shape, old),
            is_suspended=is_suspended(shape, job),
        )
        out += _partial_update_faults(shape, job, old)
    if settings.is_on("TopologyAwareScheduling"):
        out += _topology_faults(shape, job, settings)
    return out


def _partial_faults(job: Obj, settings: Settings) -> list[Fault]:
    text = annotations_of(job).get(MIN_PARALLELISM)
    if text is None:
        return []
    out = []
    number, pods = go_integer(text), pods_count(spec_of(job))
    if isinstance(number, str):
        out.append(f.invalid(_MIN_PATH, text, number))
    elif number >= pods or number <= 0:
        out.append(f.invalid(_MIN_PATH, number, f"should be between 0 and {pods - 1}"))
    if is_elastic(job, settings):
        why = "partial admission and elastic job cannot be used together"
        out.append(f.invalid(_MIN_PATH, text, why))
    return out


def _sync_faults(job: Obj) -> list[Fault]:
    text = annotations_of(job).get(SYNC_COMPLETIONS)
    if text is None or text in _FALSE:
        return []
    if text not in _TRUE:
        why = f"strconv.ParseBool: parsing {f.go_text(text)}: invalid syntax"
        return [f.invalid(_SYNC_PATH, text, why)]
    spec = spec_of(job)
    out = []
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        out.append(f.invalid(_SYNC_PATH, text, "should not be enabled for NonIndexed jobs"))
    completions = spec.get("completions")
    if spec.get("parallelism", 1) != (1 if completions is None else completions):
        why = f"should be equal to parallelism when {SYNC_COMPLETIONS} annotation is true"
        out.append(f.invalid(("spec", "completions"), completions, why))
    return out


def _partial_update_faults(shape: Shape, job: Obj, old: Obj) -> list[Fault]:
    out = []
    was, now = spec_of(old), spec_of(job)
    resized = was.get("parallelism", 1) != now.get("parallelism", 1)
    if resized and MIN_PARALLELISM in annotations_of(old) and not was.get("suspend"):
        why = "cannot change when partial admission is enabled and the job is not suspended"
        out.append(f.forbidden(("spec", "parallelism"), why))
    syncs = annotations_of(job).get(SYNC_COMPLETIONS) in _TRUE
    synced = annotations_of(old).get(SYNC_COMPLETIONS) in _TRUE
    if syncs != synced and not is_suspended(shape, old) and not is_suspended(shape, job):
        out.append(f.forbidden(_SYNC_PATH, f"{f.IMMUTABLE} while the job is not suspended"))
    return out


def _topology_faults(shape: Shape, job: Obj, settings: Settings) -> list[Fault]:
    template = shape.templates(job)[0]
    found = topology_faults(template, settings)
    if found:
        return found
    if is_elastic(job, settings):
        for key, word in ((REQUIRED, "required"), (PREFERRED, "preferred")):
            if key in template.annotations:
                # Kueue writes the annotation as a field here, not as a key.
                why = f"{word} topology is not supported with elastic jobs"
                return [f.forbidden((*_TEMPLATE, "annotations", key), why)]
    return bound_faults(template)
