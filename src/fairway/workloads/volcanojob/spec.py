"""A Volcano Job as its controller reads it: with the defaults the admission webhook would have written.

Unlike kube: the defaults are filled in whenever the job is looked at and are not written back.

Source: volcano-sh/volcano pkg/webhooks/admission/jobs/mutate/mutate_job.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairway.kube.objects import Obj

VC_JOB = "Job.batch.volcano.sh"
API_VERSION, KIND = "batch.volcano.sh/v1alpha1", "Job"
DEFAULT_QUEUE, DEFAULT_SCHEDULER = "default", "volcano"
DEFAULT_MAX_RETRY = 3
DEFAULT_TASK_NAME = "default"

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One role of a job."""

    name: str
    replicas: int
    min_available: int
    template: Spec
    policies: tuple[Spec, ...] = ()
    depends_on: tuple[str, ...] = ()
    depends_on_any: bool = False

    @property
    def pod_spec(self) -> Spec:
        return self.template.get("spec") or {}


@dataclass(frozen=True, slots=True)
class VolcanoJob:
    obj: Obj
    tasks: tuple[TaskSpec, ...]
    min_available: int
    queue: str
    scheduler_name: str
    max_retry: int
    min_success: int | None = None
    priority_class: str = ""
    ttl_s: int | None = None
    policies: tuple[Spec, ...] = ()
    plugins: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.obj["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"]["uid"])

    @property
    def status(self) -> Spec:
        return self.obj.get("status") or {}

    @property
    def replicas(self) -> int:
        return sum(t.replicas for t in self.tasks)

    @property
    def min_of_tasks(self) -> int:
        return sum(t.min_available for t in self.tasks)

    @property
    def group_name(self) -> str:
        return f"{self.name}-{self.uid}"

    def pod_name(self, task: TaskSpec, index: int) -> str:
        return f"{self.name}-{task.name}-{index}"

    def task(self, name: str) -> TaskSpec | None:
        return next((t for t in self.tasks if t.name == name), None)


def read_job(obj: Obj) -> VolcanoJob:
    spec = obj.get("spec") or {}
    tasks = tuple(_task(item, at) for at, item in enumerate(spec.get("tasks") or ()))
    ttl = spec.get("ttlSecondsAfterFinished")
    return VolcanoJob(
        obj=obj,
        tasks=tasks,
        min_available=int(spec.get("minAvailable") or sum(t.min_available for t in tasks)),
        queue=spec.get("queue") or DEFAULT_QUEUE,
        scheduler_name=spec.get("schedulerName") or DEFAULT_SCHEDULER,
        max_retry=int(spec.get("maxRetry") or DEFAULT_MAX_RETRY),
        min_success=None if spec.get("minSuccess") is None else int(spec["minSuccess"]),
        priority_class=spec.get("priorityClassName") or "",
        ttl_s=None if ttl is None else int(ttl),
        policies=tuple(spec.get("policies") or ()),
        plugins={n: tuple(args or ()) for n, args in sorted((spec.get("plugins") or {}).items())},
    )


def _task(item: Spec, at: int) -> TaskSpec:
    replicas = int(item.get("replicas") or 0)
    least, depends = item.get("minAvailable"), item.get("dependsOn") or {}
    return TaskSpec(
        name=item.get("name") or f"{DEFAULT_TASK_NAME}{at}",
        replicas=replicas,
        min_available=replicas if least is None else int(least),
        template=item.get("template") or {},
        policies=tuple(item.get("policies") or ()),
        depends_on=tuple(depends.get("name") or ()),
        depends_on_any=depends.get("iteration") == "any",
    )
