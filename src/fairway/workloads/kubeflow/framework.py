"""A training job as its controller reads it: with defaults, role by role; and what a framework has to say.

Defaults are the operator's, which fills them in whenever it looks and never writes them back.

Source: training-operator release-1.9 pkg/apis/kubeflow.org/v1 *_defaults.go, *_types.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fairway.kube.objects import Obj

GROUP = "kubeflow.org"
OPERATOR_NAME = "training.kubeflow.org/operator-name"
JOB_NAME = "training.kubeflow.org/job-name"
JOB_ROLE = "training.kubeflow.org/job-role"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
OUR_NAME = "kubeflow.org/training-operator"

MASTER, WORKER, CHIEF, PS, EVALUATOR, LAUNCHER = "Master", "Worker", "Chief", "PS", "Evaluator", "Launcher"

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Replica:
    """One role: how many pods, from which template, restarted when."""

    role: str
    replicas: int
    restart_policy: str
    template: Spec

    @property
    def type(self) -> str:
        """The role as names and labels have it."""
        return self.role.lower()

    @property
    def pod_spec(self) -> Spec:
        return self.template.get("spec") or {}


@dataclass(slots=True)
class TrainingJob:
    """One job. `replicas` in the framework's order of roles."""

    obj: Obj
    kind: str
    spec: Spec
    replicas: dict[str, Replica]
    run_policy: Spec = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.obj["metadata"]["namespace"])

    @property
    def is_suspended(self) -> bool:
        return bool(self.run_policy.get("suspend"))

    @property
    def total(self) -> int:
        return sum(r.replicas for r in self.replicas.values())

    def pod_name(self, role: str, index: int) -> str:
        return f"{self.name}-{role.lower()}-{index}".replace("/", "-")


Env = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Framework:
    """What differs between kinds.

    `cluster(job, replica, index, pod spec)`: the pod spec with what its process must know of the others.
    `is_master(job, role, index)`: whether that pod is labelled as the job's master.
    `names_everyone`: whether each pod is told the address of every other.
    `judge(sync)`: the conditions that follow from the counts (see `status.Sync`).
    """

    kind: str
    specs_field: str
    container: str
    port_name: str
    port: int
    restart_policy: str
    roles: tuple[str, ...]
    operator: str
    cluster: Callable[[TrainingJob, Replica, int, Spec], Spec]
    is_master: Callable[[TrainingJob, str, int], bool]
    judge: Callable[[Any], None]
    names_everyone: bool = False

    def read(self, obj: Obj) -> TrainingJob:
        """The job with its defaults."""
        spec = obj.get("spec") or {}
        given = {role.lower(): r for role, r in (spec.get(self.specs_field) or {}).items()}
        replicas = {
            role: self._replica(role, given[role.lower()]) for role in self.roles if role.lower() in given
        }
        policy = {"cleanPodPolicy": "None", **_without_null(spec.get("runPolicy") or {})}
        return TrainingJob(obj, self.kind, spec, replicas, policy)

    def _replica(self, role: str, given: Spec) -> Replica:
        replicas = given.get("replicas")
        template = given.get("template") or {}
        return Replica(
            role,
            1 if replicas is None else int(replicas),
            given.get("restartPolicy") or self.restart_policy,
            {**template, "spec": self._with_port(template.get("spec") or {})},
        )

    def _with_port(self, spec: Spec) -> Spec:
        """The default container (else the first) with the port its peers talk to."""
        containers = spec.get("containers") or []
        if not containers:
            return spec
        at = next((i for i, c in enumerate(containers) if c.get("name") == self.container), 0)
        ports = containers[at].get("ports") or []
        if any(p.get("name") == self.port_name for p in ports):
            return spec
        port = {"name": self.port_name, "containerPort": self.port}
        changed = {**containers[at], "ports": [*ports, port]}
        return {**spec, "containers": [*containers[:at], changed, *containers[at + 1 :]]}

    def port_of(self, replica: Replica) -> int:
        """The port of the default container."""
        for container in replica.pod_spec.get("containers") or ():
            if container.get("name") == self.container:
                for port in container.get("ports") or ():
                    if port.get("name") == self.port_name:
                        return int(port["containerPort"])
        return self.port


def _without_null(given: Spec) -> Spec:
    return {k: v for k, v in given.items() if v is not None}


def variable(name: str, value: object) -> dict[str, Any]:
    return {"name": name, "value": str(value)}


def with_env(spec: Spec, added: Env, only: str = "") -> Spec:
    """The pod spec with these variables after those of every container (or of the one called `only`)."""
    containers = [
        {**c, "env": [*(c.get("env") or ()), *added]} if only in ("", c.get("name")) else c
        for c in spec.get("containers") or ()
    ]
    return {**spec, "containers": containers}
