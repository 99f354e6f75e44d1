"""XGBoostJob: what Rabit and LightGBM must know; the master's success is the job's.

Source: training-operator release-1.9 pkg/controller.v1/xgboost/{xgboost,xgboostjob_controller}.go.
"""

from __future__ import annotations

from fairway.workloads.controller import WARNING
from fairway.workloads.kubeflow.decide import controller_for
from fairway.workloads.kubeflow.framework import (
    MASTER,
    WORKER,
    Framework,
    Replica,
    Spec,
    TrainingJob,
    variable,
    with_env,
)
from fairway.workloads.kubeflow.status import (
    JOB_FAILED,
    JOB_RESTARTING,
    JOB_RUNNING,
    JOB_SUCCEEDED,
    Sync,
)


def cluster(job: TrainingJob, replica: Replica, index: int, spec: Spec) -> Spec:
    master = job.replicas.get(MASTER)
    if master is None:
        return spec
    rank = index + master.replicas if replica.role == WORKER else index
    env = [
        variable("MASTER_PORT", FRAMEWORK.port_of(master)),
        variable("MASTER_ADDR", job.pod_name(MASTER, 0)),
        variable("WORLD_SIZE", job.total),
        variable("RANK", rank),
        variable("PYTHONUNBUFFERED", 1),
    ]
    if job.total > 1 and WORKER in job.replicas:
        workers = [job.pod_name(WORKER, i) for i in range(job.total - 1)]
        env.append(variable("WORKER_PORT", FRAMEWORK.port_of(job.replicas[WORKER])))
        env.append(variable("WORKER_ADDRS", ",".join(workers)))
    return with_env(spec, env)


def judge(sync: Sync) -> None:
    job = sync.job
    running = f"XGBoostJob {job.name} is running."
    for replica in job.replicas.values():
        counts = sync.counts(replica)
        if replica.role == MASTER:
            is_done = replica.replicas == counts.get("succeeded", 0)
            if counts.get("active", 0) > 0 or is_done:
                sync.set(JOB_RUNNING, running)
            if is_done:
                sync.end(JOB_SUCCEEDED, f"XGBoostJob {job.name} is successfully completed.")
                return
        failed = counts.get("failed", 0)
        if failed > 0:
            sync.set(JOB_RUNNING, running)
            about = f"because {failed} {replica.role} replica(s) failed."
            if replica.restart_policy == "ExitCode":
                sync.announce(JOB_RESTARTING, f"XGBoostJob {job.name} is restarting {about}", WARNING)
            else:
                sync.end(JOB_FAILED, f"XGBoostJob {job.name} is failed {about}")


FRAMEWORK = Framework(
    kind="XGBoostJob",
    specs_field="xgbReplicaSpecs",
    container="xgboost",
    port_name="xgboostjob-port",
    port=9999,
    restart_policy="Never",
    roles=(MASTER, WORKER),
    operator="xgboostjob-controller",
    cluster=cluster,
    is_master=lambda job, role, index: role == MASTER,
    judge=judge,
    names_everyone=True,
)
CONTROLLER = controller_for(FRAMEWORK)
