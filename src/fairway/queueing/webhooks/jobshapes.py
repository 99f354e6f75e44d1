"""How are the kinds of jobs written: what suspends them, which pod templates do they have, how many pods of each?

Only what webhooks look at. Source: pkg/controller/jobs/*/…_controller.go (IsSuspended, PodSets, CanDefaultManagedBy).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.objects import Obj, annotations_of, spec_of
from fairway.queueing.webhooks.topologyannotations import Template

_STOPPING = "kueue.x-k8s.io/stopping"
_SPEC = ("spec",)
_RUN_POLICY = ("spec", "runPolicy")
_RAY_JOB_CLUSTER = ("spec", "rayClusterSpec")


class Shape(NamedTuple):
    """`holder`: the fields around `suspend` and `managedBy`. `manager`: its own controller, by that field.

    `gvk`: as Go prints it in messages.
    """

    name: str
    gvk: str
    holder: tuple[str, ...]
    templates: Callable[[Obj], list[Template]]
    manager: str = ""

    @property
    def mutating(self) -> str:
        return f"m{self.name}.kb.io"

    @property
    def validating(self) -> str:
        return f"v{self.name}.kb.io"


def is_suspended(shape: Shape, job: Obj) -> bool:
    if shape.name == "job" and annotations_of(job).get(_STOPPING) == "true":
        return False
    return bool(_held(shape, job).get("suspend"))


def with_held(shape: Shape, job: Obj, field: str, value: Any) -> Obj:
    """The job with `suspend` or `managedBy` set."""
    held = {**_held(shape, job), field: value}
    if len(shape.holder) == 1:
        return {**job, "spec": held}
    return {**job, "spec": {**spec_of(job), shape.holder[1]: held}}


def managed_by(shape: Shape, job: Obj) -> str | None:
    found: str | None = _held(shape, job).get("managedBy")
    return found


def _held(shape: Shape, job: Obj) -> Mapping[str, Any]:
    at: Any = job
    for step in shape.holder:
        at = at.get(step) or {}
    held: Mapping[str, Any] = at
    return held


def pods_count(spec: Mapping[str, Any]) -> int:
    """Of a Job: its parallelism, no more than its completions."""
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    return int(parallelism if completions is None else min(parallelism, completions))


def _template(name: str, path: Path, template: Mapping[str, Any] | None, count: int) -> Template:
    meta = (template or {}).get("metadata") or {}
    return Template(name, (*path, "metadata"), meta.get("annotations") or {}, count)


def _of_job(job: Obj) -> list[Template]:
    spec = spec_of(job)
    return [_template("main", ("spec", "template"), spec.get("template"), pods_count(spec))]


def _of_job_set(job: Obj) -> list[Template]:
    out = []
    for i, replicated in enumerate(spec_of(job).get("replicatedJobs") or ()):
        spec = (replicated.get("template") or {}).get("spec") or {}
        path: Path = ("spec", "replicatedJobs", i, "template", "spec", "template")
        count = int(replicated.get("replicas", 1)) * pods_count(spec)
        out.append(_template(replicated.get("name", ""), path, spec.get("template"), count))
    return out


def _of_replicas(field: str, order: tuple[str, ...]) -> Callable[[Obj], list[Template]]:
    """Kubeflow's jobs: roles by name, in the order Kueue lists them."""

    def templates(job: Obj) -> list[Template]:
        specs = spec_of(job).get(field) or {}
        return [
            _template(
                role.lower(),
                ("spec", field, MapKey(role), "template"),
                specs[role].get("template"),
                int(specs[role].get("replicas", 1)),
            )
            for role in order
            if specs.get(role) is not None
        ]

    return templates


def _of_ray(holder: tuple[str, ...]) -> Callable[[Obj], list[Template]]:
    def templates(job: Obj) -> list[Template]:
        cluster: Any = job
        for step in holder:
            cluster = cluster.get(step) or {}
        if not cluster:
            return []
        head = (cluster.get("headGroupSpec") or {}).get("template")
        out = [_template("head", (*holder, "headGroupSpec", "template"), head, 1)]
        for i, group in enumerate(cluster.get("workerGroupSpecs") or ()):
            count = int(group.get("replicas", 1)) * int(group.get("numOfHosts", 1) or 1)
            path: Path = (*holder, "workerGroupSpecs", i, "template")
            out.append(_template(group.get("groupName", ""), path, group.get("template"), count))
        return out

    return templates


def _of_leader_worker_set(job: Obj) -> list[Template]:
    both = spec_of(job).get("leaderWorkerTemplate") or {}
    size = int(both.get("size", 1))
    path: Path = ("spec", "leaderWorkerTemplate")
    worker = both.get("workerTemplate")
    if both.get("leaderTemplate") is None:
        return [_template("main", (*path, "workerTemplate"), worker, size)]
    return [
        _template("leader", (*path, "leaderTemplate"), both["leaderTemplate"], 1),
        _template("worker", (*path, "workerTemplate"), worker, size - 1),
    ]


def _none(_job: Obj) -> list[Template]:
    return []


def _kubeflow(name: str, kind: str, field: str, *order: str) -> Shape:
    gvk = f"kubeflow.org/v1, Kind={kind}"
    return Shape(name, gvk, _RUN_POLICY, _of_replicas(field, order), "kubeflow.org/training-operator")


SHAPES: dict[str, Shape] = {
    "Job.batch": Shape("job", "batch/v1, Kind=Job", _SPEC, _of_job, "kubernetes.io/job-controller"),
    "JobSet.jobset.x-k8s.io": Shape(
        "jobset",
        "jobset.x-k8s.io/v1alpha2, Kind=JobSet",
        _SPEC,
        _of_job_set,
        "jobset.sigs.k8s.io/jobset-controller",
    ),
    "PyTorchJob.kubeflow.org": _kubeflow(
        "pytorchjob", "PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker"
    ),
    "TFJob.kubeflow.org": _kubeflow(
        "tfjob", "TFJob", "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"
    ),
    "XGBoostJob.kubeflow.org": _kubeflow("xgboostjob", "XGBoostJob", "xgbReplicaSpecs", "Master", "Worker"),
    "PaddleJob.kubeflow.org": _kubeflow("paddlejob", "PaddleJob", "paddleReplicaSpecs", "Master", "Worker"),
    "JAXJob.kubeflow.org": _kubeflow("jaxjob", "JAXJob", "jaxReplicaSpecs", "Worker"),
    "MPIJob.kubeflow.org": Shape(
        "mpijob",
        "kubeflow.org/v2beta1, Kind=MPIJob",
        _RUN_POLICY,
        _of_replicas("mpiReplicaSpecs", ("Launcher", "Worker")),
        "kubeflow.org/mpi-operator",
    ),
    "RayCluster.ray.io": Shape(
        "raycluster", "ray.io/v1, Kind=RayCluster", _SPEC, _of_ray(_SPEC), "ray.io/kuberay-operator"
    ),
    "RayJob.ray.io": Shape(
        "rayjob", "ray.io/v1, Kind=RayJob", _SPEC, _of_ray(_RAY_JOB_CLUSTER), "ray.io/kuberay-operator"
    ),
    "RayService.ray.io": Shape(
        "rayservice", "ray.io/v1, Kind=RayService", _RAY_JOB_CLUSTER, _of_ray(_RAY_JOB_CLUSTER)
    ),
    "TrainJob.trainer.kubeflow.org": Shape(
        "trainjob",
        "trainer.kubeflow.org/v1alpha1, Kind=TrainJob",
        _SPEC,
        _none,
        "trainer.kubeflow.org/trainjob-controller",
    ),
    "AppWrapper.workload.codeflare.dev": Shape(
        "appwrapper",
        "workload.codeflare.dev/v1beta2, Kind=AppWrapper",
        _SPEC,
        _none,
        "workload.codeflare.dev/appwrapper-controller",
    ),
    "SparkApplication.sparkoperator.k8s.io": Shape(
        "sparkapplication", "sparkoperator.k8s.io/v1beta2, Kind=SparkApplication", _SPEC, _none
    ),
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": Shape(
        "leaderworkerset", "leaderworkerset.x-k8s.io/v1, Kind=LeaderWorkerSet", _SPEC, _of_leader_worker_set
    ),
    "Deployment.apps": Shape("deployment", "apps/v1, Kind=Deployment", _SPEC, _none),
    "StatefulSet.apps": Shape("statefulset", "apps/v1, Kind=StatefulSet", _SPEC, _none),
    "Pod": Shape("pod", "/v1, Kind=Pod", _SPEC, _none),
}
