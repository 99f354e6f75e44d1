"""What the training operator does about a job, whatever the framework.

Source: training-operator release-1.9 pkg/controller.v1/common/job.go ReconcileJobs, pkg/core/job.go.

Unlike kube: the event of a suspended job is sent when it is suspended, not at every look. Autoscalers of elastic
PyTorchJobs and the operator's own gang scheduling (a flag, off by default) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.cluster.actions import NOTHING_TO_DO, Delete, Reconciliation, SetStatus, View
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, owner_key
from fairway.workloads.kubeflow import abnormal, replicapods
from fairway.workloads.kubeflow.framework import GROUP, OUR_NAME, REPLICA_TYPE, Framework
from fairway.workloads.kubeflow.status import (
    JOB_CREATED,
    JOB_FAILED,
    JOB_RUNNING,
    JOB_SUCCEEDED,
    JOB_SUSPENDED,
    Sync,
)
from fairway.workloads.pods import FAILED, PENDING, RETRY_REFUSED_US, RUNNING, is_active, phase_of

# Whose containers the kubelet starts again; with ExitCode the operator makes the pod anew, which counts for nothing.
_RESTARTING = ("OnFailure", "Always")


def reconcile(framework: Framework, view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one job. O(its pods)."""
    obj = view.get(key)
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return NOTHING_TO_DO
    job = framework.read(obj)
    if job.run_policy.get("managedBy") not in (None, OUR_NAME):
        return NOTHING_TO_DO
    sync = Sync(key, framework, job, _copied(obj.get("status") or {}), pods_of(view, obj), rfc3339(now_us))
    again_us = _decide(view, sync, now_us)
    status = {"replicaStatuses": {}, **sync.status}
    if sync.status != (obj.get("status") or {}):
        sync.actions.append(SetStatus(key, status))
    return Reconciliation(tuple(sync.actions), again_us)


def _copied(status: Obj) -> Obj:
    counts = status.get("replicaStatuses")
    return {**status, "replicaStatuses": {r: dict(c) for r, c in counts.items()}} if counts else dict(status)


def pods_of(view: View, owner: Obj) -> list[Obj]:
    keys = [k for k in view.dependents(owner["metadata"]["uid"]) if k.gk == "Pod"]
    return [pod for k in keys if (pod := view.get(k)) is not None]


def _decide(view: View, sync: Sync, now_us: int) -> int | None:
    """Fill in actions and status; when to look again."""
    job = sync.job
    if not sync.status.get("conditions"):
        sync.set(JOB_CREATED, f"{job.kind} {job.name} is created.")
    if sync.is_finished:
        return _after_the_end(view, sync, now_us)
    if job.is_suspended:
        _suspend(view, sync)
        return None
    if sync.is_true(JOB_SUSPENDED):
        message = f"{job.kind} {job.name} is resumed."
        sync.set(JOB_SUSPENDED, message, status="False", why="Resumed")
        sync.status["startTime"] = sync.now_text
        sync.tell(f"{job.kind}Resumed", message)
    abnormal.record(sync)
    why = _exceeded_limit(sync, now_us)
    if why:
        sync.status.setdefault("completionTime", sync.now_text)
        _clean_up(view, sync)
        sync.announce(JOB_FAILED, why)
        return None
    for replica in job.replicas.values():
        replicapods.reconcile(view, sync, replica)
    sync.status.setdefault("startTime", sync.now_text)
    sync.framework.judge(sync)
    return _deadline_us(sync)


def _after_the_end(view: View, sync: Sync, now_us: int) -> int | None:
    """Clean up as `cleanPodPolicy` says; go after `ttlSecondsAfterFinished`."""
    _clean_up(view, sync)
    if sync.is_true(JOB_SUCCEEDED):
        for counts in (sync.status.get("replicaStatuses") or {}).values():
            if counts.get("active"):
                counts["succeeded"] = counts.get("succeeded", 0) + counts.pop("active")
    ttl_s, ended = sync.job.run_policy.get("ttlSecondsAfterFinished"), sync.status.get("completionTime")
    if ttl_s is None or ended is None:
        return None
    at_us = int(parse_rfc3339(ended) + ttl_s * SECOND_US)
    if at_us > now_us:
        return at_us
    sync.actions.append(Delete(sync.key, sync.job.obj["metadata"]["uid"]))
    sync.tell("SuccessfulDeletePod", f"Deleted job: {sync.job.name}")
    return None


def _clean_up(view: View, sync: Sync) -> None:
    """Delete pods with their services. What the policy spares is spared only once the job is over."""
    policy = sync.job.run_policy["cleanPodPolicy"]
    is_over = sync.is_finished
    if is_over and policy == "None":
        return
    for pod in sync.pods:
        if is_over and policy == "Running" and phase_of(pod) not in (RUNNING, PENDING):
            continue
        replicapods.delete_pod(sync, pod)
        replicapods.delete_service(view, sync, pod["metadata"]["name"])


def _suspend(view: View, sync: Sync) -> None:
    _clean_up(view, sync)
    for counts in (sync.status.get("replicaStatuses") or {}).values():
        counts.pop("active", None)
    job = sync.job
    message = f"{job.kind} {job.name} is suspended."
    if sync.is_true(JOB_RUNNING):
        sync.set(JOB_RUNNING, message, status="False", why=JOB_SUSPENDED)
    if not sync.is_true(JOB_SUSPENDED):
        sync.announce(JOB_SUSPENDED, message)


def _exceeded_limit(sync: Sync, now_us: int) -> str:
    """Why the job may not go on: restarts or time used up; empty where it may."""
    job = sync.job
    limit = job.run_policy.get("backoffLimit")
    if limit is not None and (_has_failed_once_too_often(sync, limit) or _past_backoff_limit(sync, limit)):
        return f"Job {job.name} has failed because it has reached the specified backoff limit"
    deadline_us = _deadline_us(sync)
    if deadline_us is not None and now_us >= deadline_us:
        return f"Job {job.name} has failed because it was active longer than specified deadline"
    return ""


def _has_failed_once_too_often(sync: Sync, limit: int) -> bool:
    """A failed pod that the status has not counted yet; upstream's count of retries is always 0 here."""
    failed = sum(phase_of(p) == FAILED for p in sync.pods)
    counted = sum(c.get("failed", 0) for c in (sync.status.get("replicaStatuses") or {}).values())
    active = sum(is_active(p) for p in sync.pods)
    return failed > counted and active != sync.job.total and limit < 1


def _past_backoff_limit(sync: Sync, limit: int) -> bool:
    """Restarts of containers of running pods, of roles that restart."""
    restarts = 0
    for pod in sync.pods:
        role = (pod["metadata"].get("labels") or {}).get(REPLICA_TYPE)
        replica = next((r for r in sync.job.replicas.values() if r.type == role), None)
        if replica is None or replica.restart_policy not in _RESTARTING or phase_of(pod) != RUNNING:
            continue
        status = pod.get("status") or {}
        for field in ("initContainerStatuses", "containerStatuses"):
            restarts += sum(c.get("restartCount", 0) for c in status.get(field) or ())
    return restarts > 0 if limit == 0 else restarts >= limit


def _deadline_us(sync: Sync) -> int | None:
    seconds, started = sync.job.run_policy.get("activeDeadlineSeconds"), sync.status.get("startTime")
    if seconds is None or started is None or sync.is_finished:
        return None
    return int(parse_rfc3339(started) + seconds * SECOND_US)


def refused(framework: Framework, view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After a pod or a service was refused: say so, try again later."""
    obj = view.get(key)
    if obj is None:
        return NOTHING_TO_DO
    told = event(key, "FailedCreatePod", f"Error creating: {message}", framework.operator, WARNING)
    return Reconciliation((told,), now_us + RETRY_REFUSED_US)


def controller_for(framework: Framework) -> Controller:
    """The controller of one kind."""
    gk = f"{framework.kind}.{GROUP}"

    def map_change(view: View, change: Change) -> Sequence[Key]:
        return changed_keys(change, framework.kind, gk)

    return Controller(
        framework.operator,
        gk,
        (gk, "Pod", "Service"),
        map_change,
        lambda view, key, now_us: reconcile(framework, view, key, now_us),
        lambda view, key, now_us, message: refused(framework, view, key, now_us, message),
    )


def changed_keys(change: Change, kind: str, gk: str) -> Sequence[Key]:
    """The job that changed (its status too: ends and restarts are carried out by the next look); a pod's."""
    if change.key.gk == gk:
        return NO_KEYS if change.type == DELETED else (change.key,)
    if change.type == ADDED and not (change.obj.get("spec") or {}).get("nodeName"):
        return NO_KEYS
    owner = owner_key(change.obj, kind, GROUP, gk)
    return NO_KEYS if owner is None else (owner,)
