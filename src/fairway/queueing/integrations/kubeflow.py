"""Kubeflow's training jobs as Kueue sees them: one pod set for each role.

Source: pkg/controller/jobs/kubeflow/kubeflowjob/kubeflowjob_controller.go, kubeflow/jobs/*,
mpijob/mpijob_controller.go.
"""

from __future__ import annotations

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, dig, spec_of, status_of
from fairway.queueing.integrations.integration import Finish
from fairway.queueing.integrations.templated import (
    TemplatedIntegration,
    TemplateSet,
    finish_by_condition,
    first_priority_class,
    replicas_of,
)

REPLICA_INDEX = "training.kubeflow.org/replica-index"


class KubeflowJob(TemplatedIntegration):
    """Suspended by `spec.runPolicy.suspend`. `roles` in the order of pod sets."""

    suspend_path = ("spec", "runPolicy", "suspend")
    specs_field: str
    roles: tuple[str, ...]

    def sets_of(self, job: Obj) -> list[TemplateSet]:
        given = spec_of(job).get(self.specs_field) or {}
        return [
            TemplateSet(
                role.lower(),
                replicas_of(given[role]),
                ("spec", self.specs_field, role, "template"),
                REPLICA_INDEX,
            )
            for role in self.roles
            if given.get(role) is not None
        ]

    def is_active(self, view: View, job: Obj) -> bool:
        return any(s.get("active") for s in (status_of(job).get("replicaStatuses") or {}).values())

    def finished(self, view: View, job: Obj) -> Finish | None:
        return finish_by_condition(job, "Succeeded", "Failed")

    def pods_ready(self, view: View, job: Obj) -> bool:
        """Upstream takes the operator's word: Running, which a master alone can make true."""
        return finish_by_condition(job, "Running", "Running") is not None

    def priority_class(self, view: View, job: Obj) -> str | None:
        """That of the scheduling policy, else of the first role that names one."""
        said = dig(job, "spec", "runPolicy", "schedulingPolicy", "priorityClass")
        return said or first_priority_class(job, self.sets_of(job))


class PyTorchJob(KubeflowJob):
    """Master, then workers."""

    name, gk, api_version = "kubeflow.org/pytorchjob", "PyTorchJob.kubeflow.org", "kubeflow.org/v1"
    specs_field, roles = "pytorchReplicaSpecs", ("Master", "Worker")


class TFJob(KubeflowJob):
    """Chief, master, parameter servers, workers, evaluator."""

    name, gk, api_version = "kubeflow.org/tfjob", "TFJob.kubeflow.org", "kubeflow.org/v1"
    specs_field, roles = "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")


class XGBoostJob(KubeflowJob):
    """Master, then workers."""

    name, gk, api_version = "kubeflow.org/xgboostjob", "XGBoostJob.kubeflow.org", "kubeflow.org/v1"
    specs_field, roles = "xgbReplicaSpecs", ("Master", "Worker")


class MPIJob(KubeflowJob):
    """Launcher, then workers."""

    name, gk, api_version = "kubeflow.org/mpijob", "MPIJob.kubeflow.org", "kubeflow.org/v2beta1"
    specs_field, roles = "mpiReplicaSpecs", ("Launcher", "Worker")
