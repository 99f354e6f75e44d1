"""Which pods must run at the same time for any of them to get on, and how long do they wait for each other?

A member of a distributed job talks to all the others: until they are there it holds its GPUs and does nothing, and in
the end its framework gives up. Asked by kubelets when a container starts; a pod that names no such job costs a look at
its labels.

Source: torchrun's join_timeout (torch.distributed.elastic.rendezvous, 600 s), mpi-operator's
OMPI_MCA_plm_rsh_args (ConnectionAttempts=10, a second each), tf.config.experimental.coordination_service
cluster_register_timeout (1 h), xgboost DefaultTimeoutSec (300 s); Volcano's minAvailable.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, labels_of, namespace_of, spec_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.workloads.job.podspec import COMPLETION_INDEX
from fairway.workloads.kubeflow import mpi, pytorch, tensorflow, xgboost
from fairway.workloads.kubeflow.framework import EVALUATOR, JOB_NAME, JOB_ROLE, OPERATOR_NAME, PS, TrainingJob
from fairway.workloads.kubeflow.mpipods import OPERATOR as MPI_OPERATOR
from fairway.workloads.volcanojob.pods import JOB_NAME as VOLCANO_JOB
from fairway.workloads.volcanojob.spec import VC_JOB, read_job

_TORCH_US: Final = 10 * MINUTE_US
_TIMEOUTS_US: Final = {
    "PyTorchJob": _TORCH_US,
    "TFJob": 60 * MINUTE_US,
    "XGBoostJob": 5 * MINUTE_US,
    "MPIJob": 10 * SECOND_US,
}
_FRAMEWORKS: Final = {f.operator: f for f in (pytorch.FRAMEWORK, tensorflow.FRAMEWORK, xgboost.FRAMEWORK)}
# Variables by which a process of an Indexed Job is told how many it has to find.
_WORLD: Final = frozenset(("WORLD_SIZE", "PET_NNODES", "NNODES"))


class Gang(NamedTuple):
    """`needed` members of those that share a `key`. `timeout_us` 0: they wait as long as it takes."""

    key: str
    needed: int
    timeout_us: int


def gang_of(view: View, pod: Obj) -> Gang | None:
    """The gang this pod gets on with; None: it works alone."""
    labels = labels_of(pod)
    if JOB_NAME in labels:
        return _of_training(view, pod, labels)
    if VOLCANO_JOB in labels:
        job = view.get(Key(VC_JOB, namespace_of(pod), labels[VOLCANO_JOB]))
        return None if job is None else _gang(job, read_job(job).min_available, 0)
    if COMPLETION_INDEX in labels:
        return _of_indexed(view, pod, labels)
    return None


def _gang(owner: Obj, needed: int, timeout_us: int) -> Gang | None:
    return Gang(str(owner["metadata"]["uid"]), needed, timeout_us) if needed > 1 else None


def _of_training(view: View, pod: Obj, labels: dict[str, str]) -> Gang | None:
    operator = labels.get(OPERATOR_NAME, "")
    if operator == MPI_OPERATOR:
        found = view.get(Key(mpi.MPIJOB, namespace_of(pod), labels[JOB_NAME]))
        if found is None:
            return None
        # Without its launcher's mpirun a worker is an sshd that waits for nobody.
        return _gang(found, mpi.read(found).total, _TIMEOUTS_US["MPIJob"]) if JOB_ROLE in labels else None
    for framework in _FRAMEWORKS.values():
        found = view.get(Key(f"{framework.kind}.kubeflow.org", namespace_of(pod), labels[JOB_NAME]))
        owned = found is not None and any(
            ref.get("uid") == found["metadata"]["uid"] for ref in pod["metadata"].get("ownerReferences") or ()
        )
        if found is not None and owned:
            return _gang(found, _needed(framework.read(found)), _TIMEOUTS_US[framework.kind])
    return None


def _needed(job: TrainingJob) -> int:
    """Elastic jobs do with fewer. With parameter servers every worker gets on by itself."""
    elastic: dict[str, Any] | None = job.spec.get("elasticPolicy")
    if elastic is not None:
        return int(elastic.get("minReplicas") or 1)
    if PS in job.replicas:
        return 0
    return sum(r.replicas for role, r in job.replicas.items() if role != EVALUATOR)


def _of_indexed(view: View, pod: Obj, labels: dict[str, str]) -> Gang | None:
    """Pods of an Indexed Job that are told a world size; those of the others work alone."""
    variables = {v.get("name") for c in spec_of(pod).get("containers") or () for v in c.get("env") or ()}
    if not variables & _WORLD:
        return None
    job = view.get(Key("Job.batch", namespace_of(pod), labels.get("batch.kubernetes.io/job-name", "")))
    if job is None:
        return None
    return _gang(job, int(spec_of(job).get("parallelism") or 1), _TORCH_US)
