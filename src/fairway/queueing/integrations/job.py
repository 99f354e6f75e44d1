"""batch/v1 Job as Kueue sees it.

Source: pkg/controller/jobs/job/job_controller.go, job_webhook.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.cluster.actions import Action, Replace, SetStatus, View
from fairway.cluster.changes import MODIFIED, Change
from fairway.kube.integers import natural
from fairway.kube.objects import Obj, annotations_of, key_of, labels_of, meta_of, spec_of, status_of
from fairway.queueing.integrations.integration import Finish, Integration, PodSetObj, Reclaimable
from fairway.queueing.integrations.podsetinfo import (
    PodSetInfo,
    into_template,
    with_info,
    wrong_number,
)
from fairway.queueing.integrations.topologyrequest import as_bool, topology_request

JOB = "Job.batch"

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_JOB_NAME = "batch.kubernetes.io/job-name"
_OF_WRITES = ("resourceVersion", "managedFields")
# Labels the Job controller writes into the template. The job's name stays in the Workload, the others do not.
_MANAGED_LABELS = ("job-name", "controller-uid", _JOB_NAME, "batch.kubernetes.io/controller-uid")


class BatchJob(Integration):
    """Suspended by `spec.suspend`; one pod set, `main`."""

    name, gk, api_version = "batch/job", JOB, "batch/v1"

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        template = _without_managed_labels(spec_of(job).get("template") or {})
        pod_set: dict[str, Any] = {"name": "main", "count": pods_count(job), "template": template}
        minimum = min_pods_count(job)
        if minimum is not None and self.gates.partial_admission:
            pod_set["minCount"] = minimum
        if self.gates.topology_aware_scheduling:
            pod_set["topologyRequest"] = topology_request(template, pod_index_label=COMPLETION_INDEX)
        return [pod_set]

    def is_suspended(self, job: Obj) -> bool:
        return bool(spec_of(job).get("suspend"))

    def concerns(self, change: Change) -> bool:
        """Of its status only what the answers below are made of: most of it is the Job controller's own counting."""
        old, new = change.old, change.obj
        if change.type != MODIFIED or old is None or spec_of(old) is not spec_of(new):
            return True
        if not _is_same_but_version(meta_of(old), meta_of(new)):
            return True
        before, after = status_of(old), status_of(new)
        stopped_running = bool(before.get("active")) and not after.get("active")
        return stopped_running or _told_by(before) != _told_by(after)

    def with_suspend(self, job: Obj, on: bool) -> Obj:
        return {**job, "spec": {**spec_of(job), "suspend": on}}

    def with_infos(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        if len(infos) != 1:
            raise wrong_number(1, len(infos))
        spec = dict(spec_of(job))
        if min_pods_count(job) is not None:
            _set_parallelism(spec, job, infos[0].count)
        spec["template"] = into_template(spec.get("template") or {}, infos[0])
        return {**job, "spec": spec}

    def restored(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        if not infos:
            return job
        spec, info = dict(spec_of(job)), infos[0]
        if min_pods_count(job) is not None and spec.get("parallelism", 1) != info.count:
            _set_parallelism(spec, job, info.count)
        template = spec.get("template") or {}
        managed = {k: v for k, v in labels_of(template).items() if k in _MANAGED_LABELS}
        own = PodSetInfo(
            name=info.name,
            count=info.count,
            annotations=info.annotations,
            labels={**info.labels, **managed},
            node_selector=info.node_selector,
            tolerations=info.tolerations,
            gates=info.gates,
        )
        spec["template"] = with_info(template, own)
        return {**job, "spec": spec}

    def stop(
        self, view: View, job: Obj, infos: Sequence[PodSetInfo] | None, reason: str, message: str
    ) -> list[Action]:
        """Suspended, without a start time (or the API server refuses other directives) and restored."""
        actions: list[Action] = []
        if self.is_suspended(job) and (infos is None or self.restored(job, infos) == job):
            return []
        status = status_of(job)
        stopped = self.with_suspend(job, True)
        if infos is not None:
            stopped = self.restored(stopped, infos)
        if stopped != job:
            actions.append(Replace(stopped))
        if status.get("startTime") is not None:
            actions.append(SetStatus(key_of(job), {k: v for k, v in status.items() if k != "startTime"}))
        if not self.is_suspended(job):
            actions.append(self.told(job, "Stopped", message))
        return actions

    def is_active(self, view: View, job: Obj) -> bool:
        return bool(status_of(job).get("active"))

    def finished(self, view: View, job: Obj) -> Finish | None:
        ended = _end_of(status_of(job))
        return None if ended is None else Finish(ended.get("message") or "", ended["type"] == "Complete")

    def pods_ready(self, view: View, job: Obj) -> bool:
        return _pods_good(status_of(job)) >= pods_count(job)

    def reclaimable(self, view: View, job: Obj) -> list[Reclaimable] | None:
        spec, status = spec_of(job), status_of(job)
        parallelism = int(spec.get("parallelism", 1))
        completions = int(spec["completions"]) if spec.get("completions") is not None else parallelism
        over = int(status.get("succeeded") or 0)
        if spec.get("completionMode") == "Indexed":
            texts = [status.get("completedIndexes") or "", status.get("failedIndexes") or ""]
            over = terminal_indexes(texts, completions)
        if parallelism > 1 and over > 0:
            left = max(completions - over, 0)
            if left < parallelism:
                return [Reclaimable("main", parallelism - left)]
        return []


def _end_of(status: dict[str, Any]) -> dict[str, Any] | None:
    """The condition that says how it ended."""
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            found: dict[str, Any] = condition
            return found
    return None


def _pods_good(status: dict[str, Any]) -> int:
    """Pods that are ready or succeeded, counted yet or not."""
    uncounted = len((status.get("uncountedTerminatedPods") or {}).get("succeeded") or ())
    return int(status.get("succeeded") or 0) + int(status.get("ready") or 0) + uncounted


def _told_by(status: dict[str, Any]) -> tuple[Any, ...]:
    """What a status says of the end, the readiness and the pods that are done for good."""
    indexes = status.get("completedIndexes"), status.get("failedIndexes")
    return _end_of(status), _pods_good(status), status.get("succeeded"), *indexes


def _is_same_but_version(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two states of an object's metadata differ in nothing but who wrote last."""
    return len(a) == len(b) and all(
        value is b.get(name) or name in _OF_WRITES or value == b.get(name) for name, value in a.items()
    )


def pods_count(job: Obj) -> int:
    spec = spec_of(job)
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    return parallelism if completions is None else min(int(completions), parallelism)


def min_pods_count(job: Obj) -> int | None:
    text = annotations_of(job).get(MIN_PARALLELISM)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _set_parallelism(spec: dict[str, Any], job: Obj, count: int) -> None:
    spec["parallelism"] = count
    if _syncs_completions(job):
        spec["completions"] = count


def _syncs_completions(job: Obj) -> bool:
    return bool(as_bool(annotations_of(job).get(COMPLETIONS_EQUAL_PARALLELISM) or ""))


def _without_managed_labels(template: Obj) -> Obj:
    labels = labels_of(template)
    if not any(name in labels for name in _MANAGED_LABELS):
        return template
    kept = {k: v for k, v in labels.items() if k == _JOB_NAME or k not in _MANAGED_LABELS}
    return {**template, "metadata": {**meta_of(template), "labels": kept}}


def terminal_indexes(texts: Sequence[str], completions: int) -> int:
    """How many indexes below `completions` the interval lists (`0-2,5`) name, each counted once."""
    intervals = []
    for text in texts:
        for part in text.split(","):
            first, _, last = part.partition("-")
            begin, end = natural(first), natural(last or first)
            if begin is not None and end is not None:
                intervals.append((begin, min(end, completions - 1)))
    count, end = 0, 0
    for first_index, last_index in sorted(intervals):
        start = max(first_index, end)
        if start <= last_index:
            end = last_index + 1
            count += end - start
    return count
