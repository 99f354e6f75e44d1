"""From a trace's row to the Kubernetes object a user would have submitted.

A row becomes a Job whose pods carry its run time and exit code as behaviour annotations, or, on request, a
bare Pod. Replicas of a gang are one Indexed Job with that parallelism; as Pods they are several.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj
from fairway.kube.quantity import format_binary, format_milli
from fairway.kube.resources import GPU_MILLI, NVIDIA_GPU
from fairway.kube.timestamps import SECOND_US
from fairway.traces.jobs import MILLI, JobTrace, TraceJob

JOB: Final = "Job"
POD: Final = "Pod"
KINDS: Final = (JOB, POD)

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
USER_LABEL: Final = "fairway.dev/user"
MODEL_LABEL: Final = "nvidia.com/gpu.product"
# Never pulled twice on a node: it has a tag, so its pull policy is IfNotPresent.
IMAGE: Final = "trace:1"

_NOT_NAME: Final = re.compile(r"[^a-z0-9-]+")
# A Job's pods get `-<index>-<suffix>` behind its name and must stay within 63 characters.
_MAX_NAME: Final = 52


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A trace inside a scenario: its jobs, and how they become objects. `where` is `file:line`.

    `start_us` is when the trace begins, from the scenario's start; `namespace` is for rows that name none.
    """

    trace: JobTrace
    where: str
    start_us: int = 0
    kind: str = JOB
    namespace: str = "default"
    scheduler_name: str = ""
    suspended: bool = False

    @property
    def first_us(self) -> int:
        return self.start_us + (self.trace.jobs[0].submit_us if self.trace.jobs else 0)

    @property
    def last_us(self) -> int:
        return self.start_us + self.trace.last_us

    def at_us(self, index: int) -> int:
        return self.start_us + self.trace.jobs[index].submit_us

    def namespaces(self) -> list[str]:
        return sorted({job.namespace or self.namespace for job in self.trace.jobs})


class _Shape(NamedTuple):
    """What decides a pod's spec."""

    gpu_milli: int
    cpu_milli: int
    memory_bytes: int
    priority_class: str
    gpu_model: str
    scheduler_name: str
    node_selector: tuple[tuple[str, str], ...]


def _shape(arrivals: Arrivals, job: TraceJob) -> _Shape:
    return _Shape(
        job.gpu_milli,
        job.cpu_milli,
        job.memory_bytes,
        job.priority_class,
        job.gpu_model,
        arrivals.scheduler_name,
        job.node_selector,
    )


def object_name(job_id: str) -> str:
    """A legal object name for a job id: itself where it is one, else a likeness with a digest of the id."""
    plain = _NOT_NAME.sub("-", job_id.lower()).strip("-")
    if plain == job_id and len(plain) <= _MAX_NAME:
        return plain
    digest = hashlib.blake2b(job_id.encode(), digest_size=4).hexdigest()
    head = plain[: _MAX_NAME - 9].strip("-")
    return f"{head}-{digest}" if head else f"job-{digest}"


def objects_for(arrivals: Arrivals, job: TraceJob) -> list[Obj]:
    """What is created when this job arrives."""
    name = object_name(job.job_id)
    namespace = job.namespace or arrivals.namespace
    labels = _labels(job)
    template = {
        "metadata": {"labels": labels, "annotations": annotations_for(job)},
        "spec": _pod_spec(_shape(arrivals, job)),
    }
    if arrivals.kind == POD:
        return [_pod(template, _replica_name(name, job, i), namespace) for i in range(job.replicas)]
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
    spec: dict[str, Any] = {"parallelism": job.replicas, "completions": job.replicas, "template": template}
    if job.replicas > 1:
        spec["completionMode"] = "Indexed"
    if job.exit_code:
        spec["backoffLimit"] = 0
    if arrivals.suspended:
        spec["suspend"] = True
    return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}]


def _replica_name(name: str, job: TraceJob, index: int) -> str:
    return name if job.replicas == 1 else f"{name}-{index}"


def _pod(template: dict[str, Any], name: str, namespace: str) -> Obj:
    meta = {**template["metadata"], "name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


def _labels(job: TraceJob) -> dict[str, str]:
    labels = dict(job.labels)
    if job.user:
        labels[USER_LABEL] = label_text(job.user)
    if job.queue:
        labels[QUEUE_LABEL] = job.queue
    return labels


def label_text(text: str) -> str:
    """A legal label value: other characters become dashes, and it is cut at 63."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:63].strip("-_.")


def annotations_for(job: TraceJob) -> dict[str, str]:
    """How its containers behave."""
    annotations: dict[str, str] = {}
    if job.run_us is not None:
        annotations["fairway.dev/run-time"] = duration_text(job.run_us)
    if job.exit_code:
        annotations["fairway.dev/exit-code"] = str(job.exit_code)
    if job.gpu_utilization:
        annotations["fairway.dev/gpu-utilization"] = job.gpu_utilization
    if job.checkpoint_interval_us:
        annotations["fairway.dev/checkpoint-interval"] = duration_text(job.checkpoint_interval_us)
    return annotations


def duration_text(duration_us: int) -> str:
    """Exact: whole seconds as `90s`, otherwise milliseconds or microseconds."""
    if duration_us % SECOND_US == 0:
        return f"{duration_us // SECOND_US}s"
    return f"{duration_us // 1000}ms" if duration_us % 1000 == 0 else f"{duration_us}us"


@lru_cache(maxsize=8192)
def _pod_spec(job: _Shape) -> dict[str, Any]:
    """Jobs of one shape share one spec, so that what is derived from a spec is computed once."""
    container = {"name": "main", "image": IMAGE, "resources": _resources(job)}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.scheduler_name:
        spec["schedulerName"] = job.scheduler_name
    models = [m for m in job.gpu_model.split("|") if m]
    selector = dict(job.node_selector) | ({MODEL_LABEL: models[0]} if len(models) == 1 else {})
    if selector:
        spec["nodeSelector"] = selector
    if len(models) > 1:
        term = {"matchExpressions": [{"key": MODEL_LABEL, "operator": "In", "values": models}]}
        required = {"nodeSelectorTerms": [term]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return spec


def _resources(job: _Shape) -> dict[str, Any]:
    requests: dict[str, str] = {}
    if job.cpu_milli:
        requests["cpu"] = format_milli(job.cpu_milli)
    if job.memory_bytes:
        requests["memory"] = format_binary(job.memory_bytes)
    gpus = _gpus(job.gpu_milli)
    requests.update(gpus)
    return {"requests": requests, "limits": gpus} if gpus else {"requests": requests}


def _gpus(gpu_milli: int) -> dict[str, str]:
    if not gpu_milli:
        return {}
    if gpu_milli % MILLI:
        return {GPU_MILLI: str(gpu_milli)}
    return {NVIDIA_GPU: str(gpu_milli // MILLI)}
