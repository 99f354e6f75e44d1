"""What Jobs leave behind: finalizers on pods without a Job, and finished Jobs past their time to live.

Source: pkg/controller/job/job_controller.go syncOrphanPod; pkg/controller/ttlafterfinished (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.cluster.actions import NOTHING_TO_DO, Delete, Reconciliation, View
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import FOREGROUND
from fairway.kube.objects import Key, Obj, controller_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.workloads.controller import NO_KEYS, Controller
from fairway.workloads.job.decide import JOB, OUR_NAME, lift_finalizer
from fairway.workloads.job.podspec import TRACKING_FINALIZER
from fairway.workloads.job.verdict import is_finished


def release(view: View, key: Key, now_us: int) -> Reconciliation:
    """Lift the tracking finalizer of a pod that no unfinished Job counts."""
    pod = view.get(key)
    if pod is None or not _is_left_behind(view, pod):
        return NOTHING_TO_DO
    return Reconciliation((lift_finalizer(pod),))


def _is_left_behind(view: View, pod: Obj) -> bool:
    if TRACKING_FINALIZER not in (meta_of(pod).get("finalizers") or ()):
        return False
    ref = controller_of(pod)
    if ref is None:
        return True
    if ref.get("kind") != "Job" or ref.get("apiVersion") != "batch/v1":
        return False
    job = view.by_uid(ref.get("uid", ""))
    if job is None:
        return True
    manager = spec_of(job).get("managedBy")
    return manager in (None, OUR_NAME) and is_finished(job.get("status") or {})


def release_map(view: View, change: Change) -> Sequence[Key]:
    """Pods being deleted or cut loose; the pods of a Job that is gone."""
    if change.key.gk == JOB:
        if change.type != DELETED:
            return NO_KEYS
        return [k for k in view.dependents(change.obj["metadata"]["uid"]) if k.gk == "Pod"]
    if change.type == DELETED:
        return NO_KEYS
    meta: Obj = change.obj["metadata"]
    if TRACKING_FINALIZER not in (meta.get("finalizers") or ()):
        return NO_KEYS
    # One that was created too late for its Job is deleted by the garbage collector, and comes by here then.
    if "deletionTimestamp" in meta or not meta.get("ownerReferences"):
        return (change.key,) if _is_left_behind(view, change.obj) else NO_KEYS
    return NO_KEYS


def expire(view: View, key: Key, now_us: int) -> Reconciliation:
    """Delete a finished Job once ttlSecondsAfterFinished has passed, its pods first."""
    job = view.get(key)
    if job is None or "deletionTimestamp" in job["metadata"]:
        return NOTHING_TO_DO
    expires = expires_us(job)
    if expires is None:
        return NOTHING_TO_DO
    if expires > now_us:
        return Reconciliation(again_at_us=expires)
    return Reconciliation((Delete(key, job["metadata"]["uid"], propagation=FOREGROUND),))


def expires_us(job: Obj) -> int | None:
    """None: it has no time to live, or has not finished."""
    ttl_s = spec_of(job).get("ttlSecondsAfterFinished")
    if ttl_s is None:
        return None
    for condition in status_of(job).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return int(parse_rfc3339(condition["lastTransitionTime"]) + ttl_s * SECOND_US)
    return None


def expire_map(view: View, change: Change) -> Sequence[Key]:
    if change.type == DELETED or spec_of(change.obj).get("ttlSecondsAfterFinished") is None:
        return NO_KEYS
    if "deletionTimestamp" in change.obj["metadata"]:
        return NO_KEYS
    return (change.key,) if expires_us(change.obj) is not None else NO_KEYS


RELEASE = Controller("job-pod-release", "Pod", ("Pod", JOB), release_map, release)
EXPIRE: Final = Controller("ttl-after-finished", JOB, (JOB,), expire_map, expire)
