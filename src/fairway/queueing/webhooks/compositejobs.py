"""What do the webhooks of JobSets, Kubeflow's jobs, Ray's and others made of several pod templates refuse?

Source: pkg/controller/jobs/{jobset,mpijob,raycluster,rayjob,rayservice}/…_webhook.go,
kubeflow/kubeflowjob/kubeflowjob_controller.go ValidateOnCreate, raycluster/common.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.fieldpath import Path, path_text
from fairway.kube.objects import Obj, spec_of
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.jobs import changed_job_faults, new_job_faults, queue_name_of
from fairway.queueing.webhooks.jobshapes import Shape, is_suspended, managed_by
from fairway.queueing.webhooks.settings import Settings
from fairway.queueing.webhooks.topologyannotations import (
    Template,
    bound_faults,
    grouping_faults,
    topology_faults,
)
from fairway.queueing.webhooks.workloads import is_elastic

_MAX_POD_SETS = 18
_HEAD = "head"
_ELASTIC_GATE = "kueue.x-k8s.io/elastic-job"
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_SPEC: Path = ("spec",)
_CLUSTER: Path = ("spec", "rayClusterSpec")
_UNMANAGED_WHEN_UNNAMED = frozenset({"raycluster", "rayjob", "rayservice", "sparkapplication"})
_KUBEFLOW = frozenset({"jaxjob", "paddlejob", "pytorchjob", "tfjob", "xgboostjob"})


def composite_faults(shape: Shape, job: Obj, old: Obj | None, view: View, settings: Settings) -> list[Fault]:
    """Faults of a change come first, but for MPIJobs, whose faults are sorted by field."""
    if old is not None and not _is_checked(shape, job, old, settings):
        return []
    out: list[Fault] = []
    if old is not None:
        was, now = is_suspended(shape, old), is_suspended(shape, job)
        out += changed_job_faults(shape, job, old, view, settings, was_suspended=was, is_suspended=now)
    out += _new_faults(shape, job, settings)
    return sorted(out, key=lambda fault: path_text(fault.path)) if shape.name == "mpijob" else out


def _is_checked(shape: Shape, job: Obj, old: Obj, settings: Settings) -> bool:
    """Source: ShouldValidateRayOrSparkJobOnUpdate."""
    if shape.name not in _UNMANAGED_WHEN_UNNAMED or settings.manages_without_queue_name or queue_name_of(job):
        return True
    return settings.is_on("ValidateRayAndSparkJobUpdates") and bool(queue_name_of(old))


def _new_faults(shape: Shape, job: Obj, settings: Settings) -> list[Fault]:
    out: list[Fault] = []
    check_ray = _RAY.get(shape.name)
    if check_ray is not None and (settings.manages_without_queue_name or queue_name_of(job)):
        found, is_final = check_ray(shape, job, settings)
        out += found
        if is_final:
            return out
    out += new_job_faults(shape, job, settings)
    if settings.is_on("TopologyAwareScheduling"):
        out += _topology_faults(shape, job, settings)
    return out


def _topology_faults(shape: Shape, job: Obj, settings: Settings) -> list[Fault]:
    templates = shape.templates(job)

    def of_each(some: list[Template]) -> list[Fault]:
        return [x for t in some for x in (*topology_faults(t, settings), *bound_faults(t))]

    if shape.name in _KUBEFLOW:
        return of_each(templates)
    if shape.name == "raycluster":
        head, workers = templates[:1], templates[1:]
        checked = [x for t in head for x in topology_faults(t, settings)]
        bounded = [x for t in head for x in bound_faults(t)]
        return checked + grouping_faults(templates) + bounded + of_each(workers)
    if shape.name in ("rayjob", "rayservice"):
        return of_each(templates[:1]) + grouping_faults(templates) + of_each(templates[1:])
    return of_each(templates) + grouping_faults(templates)


RayAnswer = tuple[list[Fault], bool]


def _ray_cluster(shape: Shape, job: Obj, settings: Settings) -> RayAnswer:
    spec = spec_of(job)
    scales = bool(spec.get("enableInTreeAutoscaling"))
    out: list[Fault] = []
    if is_elastic(job, settings):
        out += _elastic_cluster_faults(shape, job, scales)
    elif scales:
        why = (
            "a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the "
            'ElasticJobsViaWorkloadSlices feature gate and set the "kueue.x-k8s.io/elastic-job": "true" annotation'
        )
        out.append(f.invalid((*_SPEC, "enableInTreeAutoscaling"), True, why))
    return out + _group_faults(spec, _SPEC), False


def _elastic_cluster_faults(shape: Shape, job: Obj, scales: bool) -> list[Fault]:
    spec = spec_of(job)
    why = "an elastic job must have the ElasticJobSchedulingGate"
    places: list[tuple[Path, Any]] = [
        (("spec", "workerGroupSpecs", i, "template"), group.get("template"))
        for i, group in enumerate(spec.get("workerGroupSpecs") or ())
    ]
    places.append((("spec", "headGroupSpec", "template"), (spec.get("headGroupSpec") or {}).get("template")))
    out = []
    for path, template in places:
        gates = ((template or {}).get("spec") or {}).get("schedulingGates")
        if not any(g.get("name") == _ELASTIC_GATE for g in gates or ()):
            out.append(f.invalid((*path, "spec", "schedulingGates"), gates, why))
    if scales and managed_by(shape, job) == _MULTIKUEUE:
        why = "in-tree autoscaling is not supported for a MultiKueue-managed elastic RayCluster"
        out.append(f.forbidden((*_SPEC, "enableInTreeAutoscaling"), why))
    return out


def _group_faults(cluster: Obj, path: Path) -> list[Fault]:
    groups = cluster.get("workerGroupSpecs") or ()
    at: Path = (*path, "workerGroupSpecs")
    out = []
    if len(groups) + 1 > _MAX_POD_SETS:
        out.append(f.too_many(at, len(groups) + 1, _MAX_POD_SETS))
    why = f'"{_HEAD}" is reserved for the head group'
    out += [
        f.forbidden((*at, i, "groupName"), why)
        for i, group in enumerate(groups)
        if group.get("groupName") == _HEAD
    ]
    return out


def _embedded_cluster_faults(job: Obj, cluster: Obj, settings: Settings) -> list[Fault]:
    out = []
    if cluster.get("enableInTreeAutoscaling") and not is_elastic(job, settings):
        why = "a kueue managed job should only use autoscaling when workload slicing is enabled"
        out.append(f.invalid((*_CLUSTER, "enableInTreeAutoscaling"), True, why))
    return out + _group_faults(cluster, _CLUSTER)


def _ray_job(_shape: Shape, job: Obj, settings: Settings) -> RayAnswer:
    spec = spec_of(job)
    selector, cluster = spec.get("clusterSelector") or {}, spec.get("rayClusterSpec")
    if selector and cluster is not None:
        why = "a kueue managed job should not use an existing cluster"
        return [f.invalid((*_SPEC, "clusterSelector"), selector, why)], True
    if selector:
        return [], True
    if cluster is None:
        why = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
        return [f.required(_CLUSTER, why)], True
    out = []
    if not spec.get("shutdownAfterJobFinishes"):
        why = "a kueue managed job should delete the cluster after finishing"
        out.append(f.invalid((*_SPEC, "shutdownAfterJobFinishes"), False, why))
    return out + _embedded_cluster_faults(job, cluster, settings), False


def _ray_service(_shape: Shape, job: Obj, settings: Settings) -> RayAnswer:
    return _embedded_cluster_faults(job, spec_of(job).get("rayClusterSpec") or {}, settings), False


_RAY: dict[str, Callable[[Shape, Obj, Settings], RayAnswer]] = {
    "raycluster": _ray_cluster,
    "rayjob": _ray_job,
    "rayservice": _ray_service,
}
