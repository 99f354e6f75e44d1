"""The RayJob controller's decision: a cluster, a submission to it, and the state of both.

`status.jobDeploymentStatus` goes from nothing to Initializing (the cluster comes up), Running (submitted),
Complete or Failed; suspending deletes cluster and submitter, and resuming begins anew.

Unlike kube: nobody asks Ray's dashboard. With a submitter Job (K8sJobMode, the default) the Ray job ends as that Job
does, and takes as long as the submitter's container runs: the RayJob's own `fairway.dev/…` annotations go to it. In
the other modes it takes as long as `fairway.dev/run-time` there says (a minute without it) and succeeds.

Source: kuberay ray-operator/controllers/ray/rayjob_controller.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.cluster.actions import NOTHING_TO_DO, Action, Create, Delete, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, annotations_of, labels_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_duration, parse_rfc3339, rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, owner_key
from fairway.workloads.pods import RETRY_REFUSED_US
from fairway.workloads.podtemplate import fresh_names, owned_by
from fairway.workloads.ray.cluster import OUR_NAME, RAY_CLUSTER

RAY_JOB = "RayJob.ray.io"
COMPONENT = "rayjob-controller"
BEHAVIOUR = "fairway.dev/"
RUN_TIME = BEHAVIOUR + "run-time"
_DASHBOARD_PORT = 8265
_SUBMITTER_BACKOFF = 2
_RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
_RESET = (
    "rayClusterStatus",
    "rayClusterName",
    "dashboardURL",
    "jobId",
    "message",
    "reason",
    "rayJobInfo",
    "startTime",
)


class _Sync:
    """One RayJob while it is decided about."""

    def __init__(self, view: View, key: Key, obj: Obj, now_us: int) -> None:
        self.view, self.key, self.obj, self.now_us = view, key, obj, now_us
        self.spec: dict[str, Any] = obj["spec"]
        self.status = dict(obj.get("status") or {})
        self.actions: list[Action] = []
        self.again_us: int | None = None

    @property
    def mode(self) -> str:
        return self.spec.get("submissionMode") or "K8sJobMode"

    @property
    def state(self) -> str:
        return self.status.get("jobDeploymentStatus") or ""

    @state.setter
    def state(self, state: str) -> None:
        self.status["jobDeploymentStatus"] = state

    @property
    def cluster(self) -> Obj | None:
        name = self.status.get("rayClusterName") or ""
        return self.view.get(Key(RAY_CLUSTER, self.key.namespace, name))

    @property
    def submitter(self) -> Obj | None:
        return self.view.get(Key("Job.batch", self.key.namespace, self.key.name))

    def tell(self, reason: str, message: str) -> None:
        self.actions.append(event(self.key, reason, message, COMPONENT))

    def fail(self, reason: str, message: str) -> None:
        self.state = "Failed"
        self.status.update(reason=reason, message=message)


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one RayJob."""
    obj = view.get(key)
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return NOTHING_TO_DO
    if obj["spec"].get("managedBy") not in (None, OUR_NAME):
        return NOTHING_TO_DO
    sync = _Sync(view, key, obj, now_us)
    _STATES.get(sync.state, _nothing)(sync)
    if sync.status != (obj.get("status") or {}):
        if sync.state != (obj.get("status") or {}).get("jobDeploymentStatus"):
            _count_ends(sync)
        sync.actions.append(SetStatus(key, sync.status))
    done = tuple(sync.actions)
    return Reconciliation(done, sync.again_us)


def _nothing(sync: _Sync) -> None:
    """States that nothing leaves."""


def _new(sync: _Sync) -> None:
    meta, name = sync.obj["metadata"], sync.key.name
    suffixes = fresh_names(sync.view, RAY_CLUSTER, sync.key.namespace, f"{name}-", meta["uid"])
    chosen = (sync.spec.get("clusterSelector") or {}).get("ray.io/cluster")
    sync.status.update(
        jobId=sync.spec.get("jobId") or next(suffixes),
        rayClusterName=chosen or next(suffixes),
        jobStatus="",
        startTime=rfc3339(sync.now_us),
    )
    sync.state = "Initializing"


def _initializing(sync: _Sync) -> None:
    if _is_suspending(sync) or _is_past_deadline(sync):
        return
    cluster = sync.cluster
    if cluster is None:
        _create_cluster(sync)
        return
    status = cluster.get("status") or {}
    sync.status["rayClusterStatus"] = status
    if status.get("state") != "ready":
        return
    service = (status.get("head") or {}).get("serviceName", "")
    sync.status["dashboardURL"] = f"{service}.{sync.key.namespace}.svc.cluster.local:{_DASHBOARD_PORT}"
    if sync.mode == "InteractiveMode":
        sync.state = "Waiting"
        return
    if sync.mode == "K8sJobMode" and sync.submitter is None:
        _submit(sync)
    sync.state = "Running"
    if sync.mode != "K8sJobMode":
        _began(sync)


def _began(sync: _Sync) -> None:
    """The Ray job was submitted."""
    sync.status["jobStatus"] = "RUNNING"
    sync.status["rayJobInfo"] = {"startTime": rfc3339(sync.now_us)}


def _create_cluster(sync: _Sync) -> None:
    if sync.spec.get("clusterSelector"):
        return
    meta = sync.obj["metadata"]
    labels = {
        **labels_of(sync.obj),
        "ray.io/originated-from-cr-name": meta["name"],
        "ray.io/originated-from-crd": "RayJob",
        "ray.io/job-submission-mode": sync.mode,
    }
    spec = sync.spec["rayClusterSpec"]
    if sync.mode == "SidecarMode":
        template = spec["headGroupSpec"]["template"]
        containers = [*template["spec"]["containers"], _container(sync)]
        pod = {**template["spec"], "containers": containers, "restartPolicy": "Never"}
        spec = {**spec, "headGroupSpec": {**spec["headGroupSpec"], "template": {**template, "spec": pod}}}
    name = sync.status["rayClusterName"]
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": name,
            "namespace": sync.key.namespace,
            "labels": labels,
            "annotations": dict(annotations_of(sync.obj)),
            "ownerReferences": owned_by(sync.obj, sync.obj["apiVersion"], "RayJob"),
        },
        "spec": spec,
    }
    sync.actions.append(Create(cluster))
    sync.tell("CreatedRayCluster", f"Created RayCluster {sync.key.namespace}/{name}")


def _container(sync: _Sync) -> dict[str, Any]:
    head = sync.spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    return {"name": "ray-job-submitter", "image": head.get("image", ""), "resources": _RESOURCES}


def _submit(sync: _Sync) -> None:
    """The Job that submits, and follows the Ray job to its end."""
    template = sync.spec.get("submitterPodTemplate") or {
        "spec": {"containers": [_container(sync)], "restartPolicy": "Never"}
    }
    first = template["spec"]["containers"][0]
    variables = [
        ("RAY_DASHBOARD_ADDRESS", sync.status["dashboardURL"]),
        ("RAY_JOB_SUBMISSION_ID", sync.status["jobId"]),
    ]
    env = [*(first.get("env") or ()), *({"name": n, "value": v} for n, v in variables)]
    containers = [{**first, "env": env}, *template["spec"]["containers"][1:]]
    given = (sync.spec.get("submitterConfig") or {}).get("backoffLimit")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": sync.key.name,
            "namespace": sync.key.namespace,
            "labels": {
                "ray.io/originated-from-cr-name": sync.key.name,
                "ray.io/originated-from-crd": "RayJob",
                "app.kubernetes.io/created-by": "kuberay-operator",
            },
            "ownerReferences": owned_by(sync.obj, sync.obj["apiVersion"], "RayJob"),
        },
        "spec": {
            "backoffLimit": _SUBMITTER_BACKOFF if given is None else given,
            "template": {
                "metadata": _submitter_meta(sync.obj, template),
                "spec": {**template["spec"], "containers": containers},
            },
        },
    }
    sync.actions.append(Create(job))
    sync.tell("CreatedRayJobSubmitter", f"Created Kubernetes Job {sync.key.namespace}/{sync.key.name}")


def _submitter_meta(obj: Obj, template: Obj) -> dict[str, Any]:
    """The submitter behaves as the RayJob says, where its template says nothing."""
    meta = template.get("metadata") or {}
    said = {k: v for k, v in annotations_of(obj).items() if k.startswith(BEHAVIOUR)}
    return {**meta, "annotations": {**said, **(meta.get("annotations") or {})}}


def _waiting(sync: _Sync) -> None:
    if sync.spec.get("jobId"):
        sync.status["jobId"] = sync.spec["jobId"]
        sync.state = "Running"


def _running(sync: _Sync) -> None:
    if _is_suspending(sync) or _is_past_deadline(sync):
        return
    cluster = sync.cluster
    if cluster is not None:
        sync.status["rayClusterStatus"] = cluster.get("status") or {}
    if sync.mode == "K8sJobMode":
        _follow_submitter(sync)
        return
    began = (sync.status.get("rayJobInfo") or {}).get("startTime") or sync.status["startTime"]
    ends_us = parse_rfc3339(began) + _run_time_us(sync.obj)
    if sync.now_us >= ends_us:
        _complete(sync)
    else:
        sync.again_us = min(ends_us, sync.again_us or ends_us)


def _run_time_us(obj: Obj) -> int:
    try:
        return parse_duration(annotations_of(obj).get(RUN_TIME) or "")
    except ValueError:
        return MINUTE_US


def _follow_submitter(sync: _Sync) -> None:
    status = (sync.submitter or {}).get("status") or {}
    if status.get("ready") and not sync.status.get("jobStatus"):
        _began(sync)
    for found in status.get("conditions") or ():
        if found["status"] == "True" and found["type"] == "Complete":
            _complete(sync)
        elif found["status"] == "True" and found["type"] == "Failed":
            reason, why = found.get("reason", ""), found.get("message", "")
            message = f"Job submission has failed. Reason: {reason}. Message: {why}"
            sync.status.update(jobStatus="FAILED", endTime=rfc3339(sync.now_us))
            sync.fail("AppFailed", message)


def _complete(sync: _Sync) -> None:
    sync.state = "Complete"
    sync.status.update(jobStatus="SUCCEEDED", endTime=rfc3339(sync.now_us))
    sync.status["message"] = "Job finished successfully."


def _is_suspending(sync: _Sync) -> bool:
    if sync.spec.get("suspend"):
        sync.state = "Suspending"
        return True
    return False


def _is_past_deadline(sync: _Sync) -> bool:
    limit_s, began = sync.spec.get("activeDeadlineSeconds"), sync.status.get("startTime")
    if limit_s is None or began is None:
        return False
    until_us = parse_rfc3339(began) + limit_s * SECOND_US
    if sync.now_us < until_us:
        sync.again_us = until_us
        return False
    message = f"The RayJob has passed the activeDeadlineSeconds. StartTime: {began}. ActiveDeadlineSeconds: {limit_s}"
    sync.status["endTime"] = rfc3339(sync.now_us)
    sync.fail("DeadlineExceeded", message)
    return True


def _count_ends(sync: _Sync) -> None:
    """Successes and failures so far; a failure is tried again while `backoffLimit` allows it."""
    failed, succeeded = sync.status.get("failed", 0), sync.status.get("succeeded", 0)
    failed += sync.state == "Failed"
    succeeded += sync.state == "Complete" and sync.status.get("jobStatus") == "SUCCEEDED"
    sync.status.update(failed=failed, succeeded=succeeded)
    limit = sync.spec.get("backoffLimit")
    may_retry = sync.status.get("reason") != "DeadlineExceeded"
    if sync.state == "Failed" and limit is not None and failed < limit + 1 and may_retry:
        sync.state = "Retrying"


def _releasing(sync: _Sync) -> None:
    """Cluster and submitter go, whatever is wanted meanwhile; then the RayJob is as if it had not begun."""
    left = [
        o for o in (sync.cluster, sync.submitter) if o is not None and not sync.spec.get("clusterSelector")
    ]
    for obj in left:
        if "deletionTimestamp" not in obj["metadata"]:
            gk = RAY_CLUSTER if obj["kind"] == "RayCluster" else "Job.batch"
            key = Key(gk, sync.key.namespace, obj["metadata"]["name"])
            sync.actions.append(Delete(key, obj["metadata"]["uid"]))
    if left:
        return
    for name in _RESET:
        sync.status.pop(name, None)
    sync.status["jobStatus"] = ""
    sync.state = "Suspended" if sync.state == "Suspending" else ""


def _suspended(sync: _Sync) -> None:
    if not sync.spec.get("suspend"):
        sync.state = ""


def _ended(sync: _Sync) -> None:
    """With shutdownAfterJobFinishes the cluster goes, `ttlSecondsAfterFinished` after the end."""
    cluster = sync.cluster
    if not sync.spec.get("shutdownAfterJobFinishes") or sync.spec.get("clusterSelector") or cluster is None:
        return
    ended = sync.status.get("endTime") or rfc3339(sync.now_us)
    at_us = parse_rfc3339(ended) + int(sync.spec.get("ttlSecondsAfterFinished") or 0) * SECOND_US
    if at_us > sync.now_us:
        sync.again_us = at_us
    elif "deletionTimestamp" not in cluster["metadata"]:
        name = cluster["metadata"]["name"]
        key = Key(RAY_CLUSTER, sync.key.namespace, name)
        sync.actions.append(Delete(key, cluster["metadata"]["uid"]))
        sync.tell("DeletedRayCluster", f"Deleted RayCluster {sync.key.namespace}/{name}")


_STATES = {
    "": _new,
    "Initializing": _initializing,
    "Waiting": _waiting,
    "Running": _running,
    "Suspending": _releasing,
    "Retrying": _releasing,
    "Suspended": _suspended,
    "Complete": _ended,
    "Failed": _ended,
}


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After the cluster or the submitter was refused: say so, try again later."""
    if view.get(key) is None:
        return NOTHING_TO_DO
    about = f"Failed to create RayCluster for RayJob {key.namespace}/{key.name}: {message}"
    told = event(key, "FailedToCreateRayCluster", about, COMPONENT, WARNING)
    return Reconciliation((told,), now_us + RETRY_REFUSED_US)


def map_change(view: View, change: Change) -> Sequence[Key]:
    """The RayJob that changed, its status too; that of its cluster or submitter."""
    if change.key.gk == RAY_JOB:
        return NO_KEYS if change.type == DELETED else (change.key,)
    owner = owner_key(change.obj, "RayJob", "ray.io", RAY_JOB)
    return NO_KEYS if owner is None else (owner,)


CONTROLLER = Controller(
    "rayjob", RAY_JOB, (RAY_JOB, RAY_CLUSTER, "Job.batch"), map_change, reconcile, refused
)
