"""The pods a Job creates: names, labels, the completion index and its environment variable.

Source: pkg/controller/job/job_controller.go and indexed_job_utils.go (v1.36); the labels every pod of a Job
carries from pkg/registry/batch/job/strategy.go generateSelector.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.integers import natural
from fairway.kube.objects import Obj, meta_of, spec_of
from fairway.workloads.podtemplate import (
    MAX_GENERATED_PREFIX_LENGTH,
    fresh_names,
    generate_name_prefix,
    owned_by,
    pod_from_template,
)

TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
COMPLETION_INDEX_ENV: Final = "JOB_COMPLETION_INDEX"
MAX_INT32: Final = 2**31 - 1

_INDEX_ENV: Final = {
    "name": COMPLETION_INDEX_ENV,
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
}


def completion_index(pod: Obj) -> int | None:
    """None: no index, or none that makes sense."""
    return natural((meta_of(pod).get("annotations") or {}).get(COMPLETION_INDEX))


def failure_count(pod: Obj, annotation: str = INDEX_FAILURE_COUNT) -> int:
    """How many pods of this index failed before this one."""
    count = natural((meta_of(pod).get("annotations") or {}).get(annotation)) or 0
    return count if count <= MAX_INT32 else 0


def total_failure_count(pod: Obj) -> int:
    return failure_count(pod) + failure_count(pod, INDEX_IGNORED_FAILURE_COUNT)


def labelled_template(job: Obj, *, indexed: bool) -> dict[str, Any]:
    """The Job's pod template with the labels, finalizer and variables every pod of it gets."""
    meta: Obj = job["metadata"]
    template = spec_of(job).get("template") or {}
    given = meta_of(template)
    labels = {
        **(given.get("labels") or {}),
        "batch.kubernetes.io/controller-uid": meta["uid"],
        "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }
    finalizers = given.get("finalizers") or ()
    if TRACKING_FINALIZER not in finalizers:
        finalizers = [*finalizers, TRACKING_FINALIZER]
    spec = spec_of(template)
    if indexed:
        spec = _with_index_variable(spec)
    return {"metadata": {**given, "labels": labels, "finalizers": finalizers}, "spec": spec}


def _with_index_variable(spec: dict[str, Any]) -> dict[str, Any]:
    changed = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            changed[field] = [_with_variable(c) for c in spec[field]]
    return changed


def _with_variable(container: dict[str, Any]) -> dict[str, Any]:
    env = container.get("env") or []
    if any(v.get("name") == COMPLETION_INDEX_ENV for v in env):
        return container
    return {**container, "env": [*env, _INDEX_ENV]}


def new_pods(view: View, job: Obj, count: int) -> Iterator[Obj]:
    """`count` interchangeable pods."""
    meta: Obj = job["metadata"]
    template = labelled_template(job, indexed=False)
    prefix = generate_name_prefix(meta["name"])
    owners = owned_by(job, "batch/v1", "Job")
    names = fresh_names(view, "Pod", meta["namespace"], prefix, meta["uid"])
    for _ in range(count):
        yield pod_from_template(
            template,
            namespace=meta["namespace"],
            owner_references=owners,
            name=next(names),
            generate_name=prefix,
        )


def new_indexed_pods(
    view: View, job: Obj, wanted: list[int], failure_counts: dict[int, tuple[int, int]] | None
) -> Iterator[Obj]:
    """One pod for each of these indexes.

    `failure_counts` (counted, ignored) per index, with backoffLimitPerIndex; None without.
    """
    meta: Obj = job["metadata"]
    template = labelled_template(job, indexed=True)
    owners = owned_by(job, "batch/v1", "Job")
    for index in wanted:
        prefix = indexed_prefix(meta["name"], index)
        names = fresh_names(view, "Pod", meta["namespace"], prefix, meta["uid"])
        given: Obj = template["metadata"]
        annotations = {**(given.get("annotations") or {}), COMPLETION_INDEX: str(index)}
        if failure_counts is not None:
            counted, ignored = failure_counts.get(index, (0, 0))
            annotations[INDEX_FAILURE_COUNT] = str(counted)
            if ignored:
                annotations[INDEX_IGNORED_FAILURE_COUNT] = str(ignored)
        labels = {**given["labels"], COMPLETION_INDEX: str(index)}
        of_index = {
            "metadata": {**given, "labels": labels, "annotations": annotations},
            "spec": {**template["spec"], "hostname": f"{meta['name']}-{index}"},
        }
        yield pod_from_template(
            of_index,
            namespace=meta["namespace"],
            owner_references=owners,
            name=next(names),
            generate_name=prefix,
        )


def indexed_prefix(job_name: str, index: int) -> str:
    """`{job}-{index}-`, the job's name cut where the whole would be too long."""
    suffix = f"-{index}-"
    return job_name[: MAX_GENERATED_PREFIX_LENGTH - len(suffix)] + suffix
