"""MPIJob, as mpi-operator runs it (v2beta1): workers wait with sshd, a Job launches mpirun among them.

Source: kubeflow/mpi-operator v0.8 pkg/controller/mpi_job_controller.go syncHandler, updateMPIJobStatus;
mpi_job_controller_status.go; pkg/apis/kubeflow/v2beta1/default.go.

Unlike kube: an MPIJob of kubeflow.org/v1 (training-operator 1.9 and before) is run in the same way; there the launcher
is a plain pod that reaches workers by `kubectl exec`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.cluster.actions import NOTHING_TO_DO, Create, Delete, Patch, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, MODIFIED, Change
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, controller_of, labels_of
from fairway.kube.timestamps import rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, owner_key
from fairway.workloads.kubeflow import mpipods
from fairway.workloads.kubeflow.decide import pods_of
from fairway.workloads.kubeflow.framework import (
    GROUP,
    JOB_NAME,
    JOB_ROLE,
    LAUNCHER,
    OUR_NAME,
    WORKER,
    Replica,
    TrainingJob,
)
from fairway.workloads.kubeflow.status import (
    JOB_CREATED,
    JOB_FAILED,
    JOB_RUNNING,
    JOB_SUCCEEDED,
    JOB_SUSPENDED,
    is_true,
    with_condition,
)
from fairway.workloads.pods import (
    FAILED,
    MOST_AT_ONCE,
    PENDING,
    RETRY_REFUSED_US,
    RUNNING,
    SUCCEEDED,
    is_deleting,
    is_ready,
    phase_of,
    wanted_indexes,
)

MPIJOB = f"MPIJob.{GROUP}"
COMPONENT = "mpi-job-controller"
_ENDS = (JOB_RUNNING, JOB_FAILED)
# Those of v2beta1 and of v1.
_MANAGERS = (None, "kubeflow.org/mpi-operator", OUR_NAME)


def read(obj: Obj) -> TrainingJob:
    """The job with the operator's defaults."""
    spec = obj.get("spec") or {}
    given = spec.get("mpiReplicaSpecs") or {}
    replicas = {}
    for role, count, policy in ((LAUNCHER, 1, "OnFailure"), (WORKER, 0, "Never")):
        if role in given:
            one = given[role]
            wanted = count if one.get("replicas") is None else int(one["replicas"])
            replicas[role] = Replica(
                role, wanted, one.get("restartPolicy") or policy, one.get("template") or {}
            )
    run_policy = {k: v for k, v in (spec.get("runPolicy") or {}).items() if v is not None}
    return TrainingJob(obj, "MPIJob", spec, replicas, {"cleanPodPolicy": "None", **run_policy})


class _Sync:
    """One job while it is decided about."""

    def __init__(self, view: View, key: Key, job: TrainingJob, now_us: int) -> None:
        self.view = view
        self.key = key
        self.job = job
        self.status = dict(job.obj.get("status") or {})
        self.now_text = rfc3339(now_us)
        self.actions: list[Create | Delete | Patch | SetStatus] = []
        self.told: list[tuple[str, str, str]] = []
        self.workers = [p for p in pods_of(view, job.obj) if labels_of(p).get(JOB_ROLE) == "worker"]

    def tell(self, reason: str, message: str, kind: str = "Normal") -> None:
        self.told.append((reason, message, kind))

    def set(self, type_: str, status: str, reason: str, message: str) -> bool:
        before = self.status.get("conditions") or []
        after = with_condition(before, type_, status, reason, message, self.now_text, ends=_ENDS)
        self.status["conditions"] = after
        return after is not before

    def is_true(self, type_: str) -> bool:
        return is_true(self.status.get("conditions"), type_)

    def has(self, type_: str) -> bool:
        return any(c["type"] == type_ for c in self.status.get("conditions") or ())

    def count(self, role: str, counts: dict[str, int]) -> None:
        """Counts by role; zeros are left out."""
        shown = {k: v for k, v in counts.items() if v}
        self.status["replicaStatuses"] = {**(self.status.get("replicaStatuses") or {}), role: shown}

    @property
    def is_finished(self) -> bool:
        return self.is_true(JOB_SUCCEEDED) or self.is_true(JOB_FAILED)

    @property
    def name(self) -> str:
        return f"{self.job.namespace}/{self.job.name}"


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one MPIJob. O(its pods)."""
    obj = view.get(key)
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return NOTHING_TO_DO
    job = read(obj)
    if job.run_policy.get("managedBy") not in _MANAGERS or LAUNCHER not in job.replicas:
        return NOTHING_TO_DO
    sync = _Sync(view, key, job, now_us)
    _decide(sync)
    actions = [*sync.actions, *(event(key, r, m, COMPONENT, k) for r, m, k in sync.told)]
    if sync.status != (obj.get("status") or {}):
        actions.append(SetStatus(key, sync.status))
    return Reconciliation(tuple(actions))


def _decide(sync: _Sync) -> None:
    job = sync.job
    if not sync.status.get("conditions"):
        message = f"MPIJob {sync.name} is created."
        sync.set(JOB_CREATED, "True", "MPIJobCreated", message)
        sync.tell("MPIJobCreated", message)
    if sync.is_finished and sync.status.get("completionTime"):
        if job.run_policy["cleanPodPolicy"] in ("All", "Running"):
            _clean_up(sync)
        return
    if mpipods.has_too_many_hosts(job):
        sync.tell("MPIJobFailed", "Error creating ConfigMap: etcdserver: request is too large", WARNING)
        return
    if not job.is_suspended:
        sync.status.setdefault("startTime", sync.now_text)
    launcher = sync.view.get(Key("Job.batch", job.namespace, mpipods.launcher_name(job)))
    workers: list[Obj] = []
    if launcher is None or not _ended(launcher):
        _provide(sync)
        workers = [] if job.is_suspended else _workers(sync)
        launcher = _launch(sync, launcher, workers)
    if job.is_suspended:
        _clean_up(sync)
    _update_status(sync, launcher, workers)


def _provide(sync: _Sync) -> None:
    """Service, config map and keys."""
    job, view = sync.job, sync.view
    running = [p["metadata"]["name"] for p in sync.workers if phase_of(p) == RUNNING]
    for wanted in (mpipods.service(job), mpipods.config_map(job, running), mpipods.ssh_secret(job)):
        key = Key(wanted["kind"], job.namespace, wanted["metadata"]["name"])
        present = view.get(key)
        if present is None:
            sync.actions.append(Create(wanted))
        elif wanted["kind"] == "ConfigMap" and present.get("data") != wanted["data"]:
            sync.actions.append(Patch(key, {"data": wanted["data"]}))


def _workers(sync: _Sync) -> list[Obj]:
    """The workers by index: created where missing, deleted beyond the wanted."""
    job = sync.job
    wanted = mpipods.worker_count(job)
    stem = job.pod_name(WORKER, 0)[:-1]
    held = set()
    for pod in sync.workers:
        index = natural(pod["metadata"]["name"].removeprefix(stem))
        if index is None or index >= wanted or pod["metadata"]["name"] != job.pod_name(WORKER, index):
            sync.actions.append(Delete(_pod_key(pod), pod["metadata"]["uid"]))
        else:
            held.add(index)
    found = []
    for index in wanted_indexes(wanted, held, MOST_AT_ONCE):
        name = job.pod_name(WORKER, index)
        present = sync.view.get(Key("Pod", job.namespace, name))
        if present is None:
            present = mpipods.worker_pod(job, index)
            sync.actions.append(Create(present))
        found.append(present)
    return found


def _launch(sync: _Sync, launcher: Obj | None, workers: list[Obj]) -> Obj | None:
    """Create the launcher's Job when its policy allows it, and suspend or resume it with the MPIJob."""
    job = sync.job
    if launcher is None:
        waits = job.spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
        if waits and sum(is_ready(p) for p in workers) != mpipods.worker_count(job):
            return None
        launcher = mpipods.launcher_job(job)
        sync.actions.append(Create(launcher))
        return launcher
    key = Key("Job.batch", job.namespace, launcher["metadata"]["name"])
    if not job.is_suspended and launcher["spec"].get("suspend"):
        status = launcher.get("status") or {}
        if status.get("startTime"):
            sync.actions.append(SetStatus(key, {k: v for k, v in status.items() if k != "startTime"}))
        wanted = mpipods.launcher_template(job)
        placement = {
            name: wanted["spec"].get(name) for name in ("nodeSelector", "tolerations", "schedulingGates")
        }
        template = {"metadata": wanted["metadata"], "spec": placement}
        sync.actions.append(Patch(key, {"spec": {"suspend": False, "template": template}}))
    elif job.is_suspended and not launcher["spec"].get("suspend"):
        sync.actions.append(Patch(key, {"spec": {"suspend": True}}))
    return launcher


def _clean_up(sync: _Sync) -> None:
    """Delete workers; with policy Running those that have ended stay."""
    keeps_ended = sync.job.run_policy["cleanPodPolicy"] == "Running"
    for pod in sync.workers:
        if is_deleting(pod) or (keeps_ended and phase_of(pod) not in (RUNNING, PENDING)):
            continue
        sync.actions.append(Delete(_pod_key(pod), pod["metadata"]["uid"]))
    sync.count(WORKER, {})


def _update_status(sync: _Sync, launcher: Obj | None, workers: list[Obj]) -> None:
    if sync.job.is_suspended:
        if sync.set(JOB_SUSPENDED, "True", "MPIJobSuspended", "MPIJob suspended"):
            sync.tell("MPIJobSuspended", "MPIJob suspended")
    elif sync.has(JOB_SUSPENDED) and sync.set(JOB_SUSPENDED, "False", "MPIJobResumed", "MPIJob resumed"):
        sync.tell("MPIJobResumed", "MPIJob resumed")
        sync.status["startTime"] = sync.now_text
    launching = 0 if launcher is None else _count_launcher(sync, launcher)
    phases = [phase_of(p) for p in workers]
    running = phases.count(RUNNING)
    counts = {"active": running, "succeeded": phases.count(SUCCEEDED), "failed": phases.count(FAILED)}
    sync.count(WORKER, counts)
    evicted = sum(
        phase_of(p) == FAILED and (p.get("status") or {}).get("reason") == "Evicted" for p in workers
    )
    if evicted:
        message = f"{evicted}/{len(workers)} workers are evicted"
        sync.set(JOB_FAILED, "True", "MPIJobEvicted", message)
        sync.tell("MPIJobEvicted", message, WARNING)
    _set_running(sync, is_whole=launching >= 1 and running == len(workers))


def _set_running(sync: _Sync, *, is_whole: bool) -> None:
    if sync.job.is_suspended:
        sync.set(JOB_RUNNING, "False", "MPIJobSuspended", f"MPIJob {sync.name} is suspended.")
    elif sync.is_finished:
        if not sync.has(JOB_RUNNING):
            message = f"MPIJob {sync.name} is finished but Running condition was never set."
            sync.set(JOB_RUNNING, "False", "MPIJobRunning", message)
    elif is_whole and sync.set(JOB_RUNNING, "True", "MPIJobRunning", f"MPIJob {sync.name} is running."):
        sync.tell("MPIJobRunning", f"MPIJob {sync.name} is running")


def _count_launcher(sync: _Sync, launcher: Obj) -> int:
    """Write the launcher's counts and outcome; its running pods."""
    status = launcher.get("status") or {}
    uid = launcher["metadata"].get("uid")
    pods = pods_of(sync.view, launcher) if uid else []
    running = sum(phase_of(p) == RUNNING for p in pods)
    counts = {"failed": int(status.get("failed") or 0)}
    outcome = _ended(launcher)
    if outcome == "Complete":
        counts["succeeded"] = 1
        sync.status.setdefault("completionTime", status.get("completionTime") or sync.now_text)
        message = f"MPIJob {sync.name} successfully completed."
        if sync.set(JOB_SUCCEEDED, "True", "MPIJobSucceeded", message):
            sync.tell("MPIJobSucceeded", message)
    elif outcome == "Failed":
        _fail(sync, launcher, pods)
    else:
        counts["active"] = running
    sync.count(LAUNCHER, counts)
    return running


def _fail(sync: _Sync, launcher: Obj, pods: list[Obj]) -> None:
    """The Job's reason and message are the MPIJob's; of used up retries the last pod's beside them."""
    failure = next(c for c in launcher["status"]["conditions"] if c["type"] == "Failed")
    reason = failure.get("reason") or "MPIJobFailed"
    message = failure.get("message") or f"MPIJob {sync.name} has failed"
    failed = [p for p in pods if phase_of(p) == FAILED]
    if reason == "BackoffLimitExceeded" and failed:
        last = max(failed, key=lambda p: p["metadata"].get("creationTimestamp", ""))
        status = last.get("status") or {}
        reason = f"{reason}/{status.get('reason', '')}"
        message = f"{message}: {status.get('message', '')}"[:1024]
    sync.status.setdefault("completionTime", sync.now_text)
    if sync.set(JOB_FAILED, "True", reason, message):
        sync.tell(reason, message, WARNING)


def _ended(launcher: Obj) -> str:
    for condition in (launcher.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


def _pod_key(pod: Obj) -> Key:
    return Key("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After a creation was refused: say so, try again later."""
    if view.get(key) is None:
        return NOTHING_TO_DO
    told = event(key, "MPIJobFailed", f"worker pod created failed: {message}", COMPONENT, WARNING)
    return Reconciliation((told,), now_us + RETRY_REFUSED_US)


def map_change(view: View, change: Change) -> Sequence[Key]:
    """The job that changed; of a worker or a launcher's Job its owner; of a launcher's pod its Job's owner."""
    if change.key.gk == MPIJOB:
        return NO_KEYS if change.type == DELETED else (change.key,)
    owner = controller_of(change.obj)
    if change.key.gk == "Pod" and owner is not None and owner["kind"] == "Job":
        labels = labels_of(change.obj)
        if change.type != MODIFIED or labels.get(JOB_ROLE) != "launcher":
            return NO_KEYS
        return (Key(MPIJOB, change.key.namespace, labels.get(JOB_NAME, "")),)
    key = owner_key(change.obj, "MPIJob", GROUP, MPIJOB)
    return NO_KEYS if key is None else (key,)


CONTROLLER = Controller("mpi-operator", MPIJOB, (MPIJOB, "Job.batch", "Pod"), map_change, reconcile, refused)
