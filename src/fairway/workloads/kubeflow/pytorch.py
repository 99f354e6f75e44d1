"""PyTorchJob: what torch.distributed must know, and when the job has succeeded.

With a master: MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, and workers wait for the master's name to resolve.
With an elastic policy: the PET_* variables torchrun reads.

Source: training-operator release-1.9 pkg/controller.v1/pytorch/{envvar,master,elastic,initcontainer}.go,
pytorchjob_controller.go UpdateJobStatus.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.integers import natural
from fairway.workloads.controller import WARNING
from fairway.workloads.kubeflow.decide import controller_for
from fairway.workloads.kubeflow.framework import (
    JOB_NAME,
    MASTER,
    OPERATOR_NAME,
    REPLICA_TYPE,
    WORKER,
    Env,
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

# Defaults of the operator's flags --pytorch-init-container-image and --pytorch-init-container-max-tries.
INIT_IMAGE = "alpine:3.10"
INIT_TRIES = 100


def cluster(job: TrainingJob, replica: Replica, index: int, spec: Spec) -> Spec:
    env = [variable("PYTHONUNBUFFERED", 1)]
    has_master = MASTER in job.replicas
    if has_master:
        env.extend(_master_env(job, replica, index))
    per_node = _processes_per_node(job)
    if per_node is not None:
        env.append(variable("PET_NPROC_PER_NODE", per_node))
    if job.spec.get("elasticPolicy") is not None:
        env.extend(_elastic_env(job))
    else:
        env.append(variable("PET_NNODES", job.total))
    spec = with_env(spec, env)
    if has_master and replica.role == WORKER:
        waiter = _init_container(job.pod_name(MASTER, 0))
        spec = {**spec, "initContainers": [*(spec.get("initContainers") or ()), waiter]}
    return spec


def _master_env(job: TrainingJob, replica: Replica, index: int) -> Env:
    port = FRAMEWORK.port_of(job.replicas[MASTER])
    address = job.pod_name(MASTER, 0)
    rank = index + 1 if replica.role == WORKER else index
    per_node = str(_processes_per_node(job) or "1")
    processes = natural(per_node)
    world = job.total * (1 if processes is None else processes)
    return [
        variable("MASTER_PORT", port),
        variable("PET_MASTER_PORT", port),
        variable("MASTER_ADDR", address),
        variable("PET_MASTER_ADDR", address),
        variable("WORLD_SIZE", world),
        variable("RANK", rank),
        variable("PET_NODE_RANK", rank),
    ]


def _processes_per_node(job: TrainingJob) -> str | None:
    """`nprocPerNode`, `auto` by default; none where the elastic policy says it in its older field."""
    given = job.spec.get("nprocPerNode")
    if given is not None:
        return str(given)
    elastic = job.spec.get("elasticPolicy")
    return None if elastic is not None and elastic.get("nProcPerNode") is not None else "auto"


def _elastic_env(job: TrainingJob) -> Env:
    elastic = job.spec["elasticPolicy"]
    worker = job.replicas[WORKER]
    host = elastic.get("rdzvHost") or f"{job.name}-worker-0"
    port = elastic.get("rdzvPort") or FRAMEWORK.port_of(worker)
    low, high = elastic.get("minReplicas"), elastic.get("maxReplicas")
    if low is None:
        low = worker.replicas if high is None else high
    if high is None:
        high = low
    env = [
        variable("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        variable("PET_RDZV_BACKEND", elastic.get("rdzvBackend") or "c10d"),
        variable("PET_NNODES", f"{low}:{high}"),
    ]
    for field, name in (("maxRestarts", "PET_MAX_RESTARTS"), ("nProcPerNode", "PET_NPROC_PER_NODE")):
        if elastic.get(field) is not None:
            env.append(variable(name, elastic[field]))
    if elastic.get("rdzvId") is not None:
        env.append(variable("PET_RDZV_ID", elastic["rdzvId"]))
    if elastic.get("rdzvConf"):
        pairs = ",".join(f"{c.get('key', '')}={c.get('value', '')}" for c in elastic["rdzvConf"])
        env.append(variable("PET_RDZV_CONF", pairs))
    if elastic.get("standalone"):
        env.append(variable("PET_STANDALONE", ""))
    return env


def _init_container(master: str) -> dict[str, Any]:
    """Waits until the master's name resolves."""
    script = (
        f"err=1;for i in $(seq {INIT_TRIES}); do if nslookup {master}; then err=0 && break; fi;"
        "echo waiting for master; sleep 2; done; exit $err"
    )
    return {
        "name": "init-pytorch",
        "image": INIT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
        "command": ["sh", "-c", script],
    }


def is_master(job: TrainingJob, role: str, index: int) -> bool:
    if MASTER in job.replicas:
        return role == MASTER
    return role == WORKER and index == 0


def judge(sync: Sync) -> None:
    job = sync.job
    for replica in job.replicas.values():
        sync.counts(replica)["selector"] = _selector(sync, replica)  # type: ignore[assignment]
    for replica in job.replicas.values():
        counts = sync.counts(replica)
        succeeded, active = counts.get("succeeded", 0), counts.get("active", 0)
        failed = counts.get("failed", 0)
        if MASTER in job.replicas:
            if replica.role == MASTER and _judge_master(sync, replica, succeeded, active):
                return
        elif replica.role == WORKER:
            _judge_workers(sync, replica, succeeded, active)
        if failed > 0 and replica.replicas > succeeded + active:
            _judge_failure(sync, replica, failed)


def _judge_master(sync: Sync, replica: Replica, succeeded: int, active: int) -> bool:
    name = sync.job.name
    if active > 0:
        sync.set(JOB_RUNNING, f"PyTorchJob {name} is running.")
    if replica.replicas != succeeded:
        return False
    sync.end(JOB_SUCCEEDED, f"PyTorchJob {name} is successfully completed.")
    return True


def _judge_workers(sync: Sync, replica: Replica, succeeded: int, active: int) -> None:
    """Without a master all workers must succeed; an elastic job has when one has."""
    name = f"{sync.job.namespace}/{sync.job.name}"
    is_elastic = sync.job.spec.get("elasticPolicy") is not None
    if replica.replicas == succeeded or (is_elastic and succeeded > 0):
        sync.end(JOB_SUCCEEDED, f"PyTorchJob {name} successfully completed.")
    elif active > 0:
        sync.set(JOB_RUNNING, f"PyTorchJob {name} is running.")


def _judge_failure(sync: Sync, replica: Replica, failed: int) -> None:
    about = f"because {failed} {replica.role} replica(s) failed."
    if replica.restart_policy != "Never":
        sync.announce(JOB_RESTARTING, f"PyTorchJob {sync.job.name} is restarting {about}", WARNING)
    else:
        sync.end(JOB_FAILED, f"PyTorchJob {sync.job.name} is failed {about}")


def _selector(sync: Sync, replica: Replica) -> str:
    return (
        f"{JOB_NAME}={sync.job.name},{OPERATOR_NAME}={sync.framework.operator},{REPLICA_TYPE}={replica.type}"
    )


FRAMEWORK = Framework(
    kind="PyTorchJob",
    specs_field="pytorchReplicaSpecs",
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    restart_policy="OnFailure",
    roles=(MASTER, WORKER),
    operator="pytorchjob-controller",
    cluster=cluster,
    is_master=is_master,
    judge=judge,
)
CONTROLLER = controller_for(FRAMEWORK)
