"""What happened to a job's pods, and what do its policies make of it?

Unlike kube: the controller looks at what is there instead of hearing events one by one: a failed pod of the
current version is a PodFailed, a pod being deleted that the controller did not delete is a PodEvicted, a task
whose pods all succeeded is a TaskCompleted. With policies that fit several, the first pod by task and index
decides; upstream the first event does.

Source: volcano-sh/volcano pkg/controllers/job/job_controller_util.go applyPolicies, job_controller_handler.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairway.kube.objects import Obj, annotations_of
from fairway.kube.timestamps import parse_duration, parse_rfc3339
from fairway.workloads.pods import FAILED, PENDING, SUCCEEDED, is_deleting, phase_of
from fairway.workloads.volcanojob.spec import Spec, TaskSpec, VolcanoJob

SYNC, RESTART_JOB, RESTART_TASK, RESTART_POD = "SyncJob", "RestartJob", "RestartTask", "RestartPod"
ABORT_JOB, TERMINATE_JOB, COMPLETE_JOB = "AbortJob", "TerminateJob", "CompleteJob"
ANY_EVENT, POD_FAILED, POD_EVICTED, POD_PENDING = "*", "PodFailed", "PodEvicted", "PodPending"
TASK_COMPLETED = "TaskCompleted"
JOB_VERSION, TASK_SPEC, OUT_OF_SYNC = (
    "volcano.sh/job-version",
    "volcano.sh/task-spec",
    "volcano.sh/controller-out-of-sync",
)


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of a pod (or of a whole task, `pod` ""), when, and with which exit code."""

    event: str
    task: str
    pod: str
    at_us: int
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Ordered:
    """What to do, to whom; `due_us` in the future: not yet."""

    action: str = SYNC
    task: str = ""
    pod: str = ""
    due_us: int = 0


def judge(job: VolcanoJob, pods: Iterable[Obj], now_us: int) -> tuple[Ordered, int | None]:
    """What the policies order now, and when one of them will order something later."""
    later: int | None = None
    for happened in _events(job, list(pods)):
        ordered = _apply(job, happened)
        if ordered.action == SYNC:
            continue
        if ordered.due_us <= now_us:
            return ordered, None
        later = ordered.due_us if later is None else min(later, ordered.due_us)
    return Ordered(), later


def _events(job: VolcanoJob, pods: list[Obj]) -> Iterable[Happened]:
    version = str(job.status.get("version") or 0)
    for task in job.tasks:
        mine = [p for p in pods if annotations_of(p).get(TASK_SPEC) == task.name]
        current = [p for p in mine if annotations_of(p).get(JOB_VERSION) == version]
        for pod in current:
            found = _event_of(task, pod)
            if found is not None:
                yield found
        if task.replicas and sum(phase_of(p) == SUCCEEDED for p in current) >= task.replicas:
            yield Happened(TASK_COMPLETED, task.name, "", 0)


def _event_of(task: TaskSpec, pod: Obj) -> Happened | None:
    meta = pod["metadata"]
    if is_deleting(pod):
        if OUT_OF_SYNC in annotations_of(pod):
            return None
        return Happened(POD_EVICTED, task.name, meta["name"], 0)
    phase = phase_of(pod)
    if phase == FAILED:
        ended = _first_end(pod)
        at = parse_rfc3339(ended["finishedAt"]) if ended.get("finishedAt") else 0
        return Happened(POD_FAILED, task.name, meta["name"], at, int(ended.get("exitCode") or 0))
    if phase == PENDING:
        return Happened(POD_PENDING, task.name, meta["name"], parse_rfc3339(meta["creationTimestamp"]))
    return None


def _first_end(pod: Obj) -> Spec:
    """How the first container ended: only that one is looked at."""
    for status in ((pod.get("status") or {}).get("containerStatuses") or ())[:1]:
        return (status.get("state") or {}).get("terminated") or {}
    return {}


def _apply(job: VolcanoJob, happened: Happened) -> Ordered:
    """The task's own policies go before the job's."""
    task = job.task(happened.task)
    for policy in (*(task.policies if task else ()), *job.policies):
        if not _fits(policy, happened):
            continue
        due = happened.at_us + _timeout_us(policy) if policy.get("timeout") else 0
        return Ordered(policy.get("action") or SYNC, happened.task, happened.pod, due)
    return Ordered()


def _fits(policy: Spec, happened: Happened) -> bool:
    events = [*(policy.get("events") or ()), *([policy["event"]] if policy.get("event") else ())]
    if happened.event in events or ANY_EVENT in events:
        # A pending pod is nothing unusual: only with a timeout it counts.
        return happened.event != POD_PENDING or bool(policy.get("timeout"))
    code = policy.get("exitCode")
    return code is not None and happened.event == POD_FAILED and int(code) == happened.exit_code


def _timeout_us(policy: Spec) -> int:
    return parse_duration(str(policy["timeout"]))
