"""RayCluster and RayJob as Kueue sees them: the head, each worker group, and the submitter.

Source: pkg/controller/jobs/raycluster/{common,raycluster_controller}.go, rayjob/rayjob_controller.go.
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, dig, spec_of, status_of
from fairway.queueing.integrations.integration import Finish, PodSetObj
from fairway.queueing.integrations.templated import TemplatedIntegration, TemplateSet, Where, replicas_of

HEAD = "head"
SUBMITTER = "submitter"
_SUBMITTER_CONTAINER = "ray-job-submitter"
# What KubeRay gives its submitter and its autoscaler where nobody says otherwise.
_SUBMITTER_RESOURCES = {
    "limits": {"cpu": "1", "memory": "1Gi"},
    "requests": {"cpu": "500m", "memory": "200Mi"},
}
_AUTOSCALER_RESOURCES = {
    "limits": {"cpu": "500m", "memory": "512Mi"},
    "requests": {"cpu": "500m", "memory": "512Mi"},
}


class RayIntegration(TemplatedIntegration):
    """What both kinds have in common: a cluster's spec, somewhere."""

    cluster_path: tuple[str, ...]

    def cluster_of(self, job: Obj) -> dict[str, Any]:
        return dig(job, *self.cluster_path) or {}

    def sets_of(self, job: Obj) -> list[TemplateSet]:
        head: Where = (*self.cluster_path, "headGroupSpec", "template")
        return [TemplateSet(HEAD, 1, head), *self._workers(job)]

    def _workers(self, job: Obj) -> list[TemplateSet]:
        return [
            TemplateSet(
                group["groupName"].lower(),
                replicas_of(group) * max(int(group.get("numOfHosts") or 1), 1),
                (*self.cluster_path, "workerGroupSpecs", index, "template"),
            )
            for index, group in enumerate(self.cluster_of(job).get("workerGroupSpecs") or ())
        ]

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        """With the autoscaler, which KubeRay adds to the head without showing it in the template."""
        made = super().pod_sets(view, job)
        cluster = self.cluster_of(job)
        if cluster.get("enableInTreeAutoscaling"):
            given = (cluster.get("autoscalerOptions") or {}).get("resources")
            sidecar = {"name": "autoscaler", "resources": given or _AUTOSCALER_RESOURCES}
            made[0] = _with_container(made[0], sidecar)
        return made


def _with_container(pod_set: PodSetObj, container: dict[str, Any]) -> PodSetObj:
    template = pod_set["template"]
    spec = {**spec_of(template), "containers": [*(spec_of(template).get("containers") or ()), container]}
    return {**pod_set, "template": {**template, "spec": spec}}


class RayCluster(RayIntegration):
    """Never over: it runs until somebody deletes it."""

    name, gk, api_version = "ray.io/raycluster", "RayCluster.ray.io", "ray.io/v1"
    cluster_path = ("spec",)

    def is_active(self, view: View, job: Obj) -> bool:
        return self.pods_ready(view, job)

    def finished(self, view: View, job: Obj) -> Finish | None:
        return None

    def pods_ready(self, view: View, job: Obj) -> bool:
        return status_of(job).get("state") == "ready"


class RayJob(RayIntegration):
    """Its cluster, and with submission mode K8sJobMode (the default) the Job that submits to it."""

    name, gk, api_version = "ray.io/rayjob", "RayJob.ray.io", "ray.io/v1"
    cluster_path = ("spec", "rayClusterSpec")

    def sets_of(self, job: Obj) -> list[TemplateSet]:
        sets = super().sets_of(job)
        if _mode(job) == "K8sJobMode":
            sets.append(TemplateSet(SUBMITTER, 1, ("spec", "submitterPodTemplate")))
        return sets

    def template_at(self, job: Obj, where: Where) -> Obj:
        found = super().template_at(job, where)
        if found or "submitterPodTemplate" not in where:
            return found
        head = dig(job, *self.cluster_path, "headGroupSpec", "template", "spec", "containers", 0) or {}
        container = {
            "name": _SUBMITTER_CONTAINER,
            "image": head.get("image", ""),
            "resources": _SUBMITTER_RESOURCES,
        }
        return {"spec": {"containers": [container], "restartPolicy": "Never"}}

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        made = super().pod_sets(view, job)
        if _mode(job) == "SidecarMode":
            sidecar = {"name": _SUBMITTER_CONTAINER, "resources": _SUBMITTER_RESOURCES}
            made[0] = _with_container(made[0], sidecar)
        return made

    def skips(self, view: View, job: Obj) -> bool:
        """One that uses a cluster somebody else made."""
        return bool(spec_of(job).get("clusterSelector"))

    def is_active(self, view: View, job: Obj) -> bool:
        return status_of(job).get("jobDeploymentStatus", "") not in ("Suspended", "")

    def is_on_hold(self, job: Obj) -> bool:
        return status_of(job).get("jobDeploymentStatus") == "ValidationFailed"

    def finished(self, view: View, job: Obj) -> Finish | None:
        status = status_of(job)
        if status.get("jobDeploymentStatus") not in ("Failed", "Complete"):
            return None
        return Finish(status.get("message") or "", status.get("jobStatus") == "SUCCEEDED")

    def pods_ready(self, view: View, job: Obj) -> bool:
        return (status_of(job).get("rayClusterStatus") or {}).get("state") == "ready"


def _mode(job: Obj) -> str:
    return spec_of(job).get("submissionMode") or "K8sJobMode"
