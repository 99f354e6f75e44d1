"""TFJob: TF_CONFIG, and when the job has succeeded: its chief or master, else worker 0, or all workers.

Source: training-operator release-1.9 pkg/controller.v1/tensorflow/{tensorflow,util,tfjob_controller}.go.
"""

from __future__ import annotations

import json
from typing import Any

from fairway.kube.objects import labels_of
from fairway.workloads.kubeflow.decide import controller_for
from fairway.workloads.kubeflow.framework import (
    CHIEF,
    EVALUATOR,
    MASTER,
    PS,
    REPLICA_INDEX,
    REPLICA_TYPE,
    WORKER,
    Framework,
    Replica,
    Spec,
    TrainingJob,
    variable,
    with_env,
)
from fairway.workloads.kubeflow.replicapods import exit_code
from fairway.workloads.kubeflow.status import (
    JOB_FAILED,
    JOB_RESTARTING,
    JOB_RUNNING,
    JOB_SUCCEEDED,
    Sync,
    with_condition,
)
from fairway.workloads.pods import SUCCEEDED, phase_of

_CHIEFS = (CHIEF, MASTER)


def cluster(job: TrainingJob, replica: Replica, index: int, spec: Spec) -> Spec:
    """TF_CONFIG in the container `tensorflow`; none for a job of one pod."""
    if job.total == 1:
        return spec
    config = json.dumps(tf_config(job, replica, index), separators=(",", ":"))
    return with_env(spec, [variable("TF_CONFIG", config)], only=FRAMEWORK.container)


def tf_config(job: TrainingJob, replica: Replica, index: int) -> dict[str, Any]:
    """The whole cluster; with `enableDynamicWorker` only what this one must know."""
    addresses = {r.type: [_address(job, r, i) for i in range(r.replicas)] for r in job.replicas.values()}
    task = {"type": replica.type, "index": index}
    if job.spec.get("enableDynamicWorker"):
        sparse: dict[str, Any] = {"worker": {}, "ps": []}
        if replica.role == PS:
            sparse["ps"] = [addresses["ps"][index]]
        elif replica.role == WORKER:
            sparse["ps"] = addresses.get("ps")
            sparse["worker"] = {str(index): addresses["worker"][index]}
        return {"cluster": sparse, "task": task}
    in_order = {role: addresses[role] for role in sorted(addresses)}
    return {"cluster": in_order, "task": task, "environment": "cloud"}


def _address(job: TrainingJob, replica: Replica, index: int) -> str:
    return f"{job.pod_name(replica.role, index)}.{job.namespace}.svc:{FRAMEWORK.port_of(replica)}"


def has_chief(job: TrainingJob) -> bool:
    return any(role in job.replicas for role in _CHIEFS)


def is_master(job: TrainingJob, role: str, index: int) -> bool:
    return role in _CHIEFS if has_chief(job) else role == WORKER and index == 0


def judge(sync: Sync) -> None:
    job = sync.job
    is_first_done = _is_first_worker_done(sync)
    restarting = [c for c in sync.status["conditions"] if c["type"] == JOB_RESTARTING]
    for replica in job.replicas.values():
        counts = sync.counts(replica)
        is_done = replica.replicas == counts.get("succeeded", 0)
        is_running = counts.get("active", 0) > 0
        if has_chief(job):
            if replica.role in _CHIEFS:
                if is_running:
                    _run(sync)
                if is_done:
                    _succeed(sync)
        elif replica.role == WORKER:
            needs_all = job.spec.get("successPolicy") == "AllWorkers"
            if is_done or (is_first_done and not needs_all):
                _succeed(sync)
            elif is_running:
                _run(sync)
        if counts.get("failed", 0) > 0:
            _judge_failure(sync, replica, counts["failed"], restarting)


def _run(sync: Sync) -> None:
    sync.set(JOB_RUNNING, f"TFJob {sync.job.namespace}/{sync.job.name} is running.")


def _succeed(sync: Sync) -> None:
    sync.end(JOB_SUCCEEDED, f"TFJob {sync.job.namespace}/{sync.job.name} successfully completed.")


def _judge_failure(sync: Sync, replica: Replica, failed: int, restarting: list[dict[str, Any]]) -> None:
    """A job that is restarting pods goes on; any other failed pod ends it, dynamic workers apart."""
    if restarting:
        if not sync.is_true(JOB_FAILED):
            reason, message = restarting[0]["reason"], restarting[0]["message"]
            conditions = sync.status["conditions"]
            sync.status["conditions"] = with_condition(
                conditions, JOB_RESTARTING, "True", reason, message, sync.now_text
            )
        return
    if sync.job.spec.get("enableDynamicWorker") and replica.role == WORKER:
        return
    name = f"{sync.job.namespace}/{sync.job.name}"
    sync.end(JOB_FAILED, f"TFJob {name} has failed because {failed} {replica.role} replica(s) failed.")


def _is_first_worker_done(sync: Sync) -> bool:
    if WORKER not in sync.job.replicas:
        return True
    for pod in sync.pods:
        labels = labels_of(pod)
        if labels.get(REPLICA_TYPE) == "worker" and labels.get(REPLICA_INDEX) == "0":
            return phase_of(pod) == SUCCEEDED and exit_code(pod, FRAMEWORK.container) == 0
    return False


FRAMEWORK = Framework(
    kind="TFJob",
    specs_field="tfReplicaSpecs",
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    restart_policy="Never",
    roles=(CHIEF, EVALUATOR, MASTER, PS, WORKER),
    operator="tfjob-controller",
    cluster=cluster,
    is_master=is_master,
    judge=judge,
    names_everyone=True,
)
CONTROLLER = controller_for(FRAMEWORK)
