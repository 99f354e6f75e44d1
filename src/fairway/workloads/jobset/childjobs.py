"""The Jobs of a JobSet: their names, what is written into them, and which run they belong to.

Everything a training process needs to find its peers is in labels and annotations of Job and pod alike, so that
the downward API can turn them into variables: the JobSet, the replicated job, indexes, counts, the coordinator.

Source: jobset pkg/controllers/jobset_controller.go constructJob, labelAndAnnotateObject, getChildJobs;
api/jobset/v1alpha2/jobset_types.go; pkg/util/placement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.integers import natural
from fairway.kube.objects import Obj, annotations_of, labels_of
from fairway.workloads.podtemplate import owned_by

API_VERSION = "jobset.x-k8s.io/v1alpha2"
KIND = "JobSet"
PREFIX = "jobset.sigs.k8s.io/"
JOBSET_NAME = PREFIX + "jobset-name"
JOBSET_UID = PREFIX + "jobset-uid"
REPLICATED_JOB = PREFIX + "replicatedjob-name"
REPLICATED_JOB_REPLICAS = PREFIX + "replicatedjob-replicas"
GLOBAL_REPLICAS = PREFIX + "global-replicas"
RESTARTS = PREFIX + "restart-attempt"
JOB_INDEX = PREFIX + "job-index"
JOB_GLOBAL_INDEX = PREFIX + "job-global-index"
JOB_KEY = PREFIX + "job-key"
COORDINATOR = PREFIX + "coordinator"
GROUP_NAME = PREFIX + "group-name"
GROUP_REPLICAS = PREFIX + "group-replicas"
JOB_GROUP_INDEX = PREFIX + "job-group-index"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE = "alpha.jobset.sigs.k8s.io/no-schedule"


@dataclass(slots=True)
class ChildJobs:
    """The Jobs there are. `previous`: of an earlier attempt, to be deleted; the others are of this one."""

    active: list[Obj] = field(default_factory=list)
    successful: list[Obj] = field(default_factory=list)
    failed: list[Obj] = field(default_factory=list)
    previous: list[Obj] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        jobs = (*self.active, *self.successful, *self.failed, *self.previous)
        return frozenset(j["metadata"]["name"] for j in jobs)


def take(view: View, jobset: Obj, restarts: int) -> ChildJobs:
    """Sort the JobSet's Jobs by attempt and outcome. O(its Jobs)."""
    found = ChildJobs()
    for key in view.dependents(jobset["metadata"]["uid"]):
        job = view.get(key) if key.gk == "Job.batch" else None
        if job is None:
            continue
        if (natural(labels_of(job).get(RESTARTS)) or 0) < restarts:
            found.previous.append(job)
            continue
        outcome = finished_as(job)
        {"": found.active, "Failed": found.failed, "Complete": found.successful}[outcome].append(job)
    return found


def finished_as(job: Obj) -> str:
    """`Complete`, `Failed`, or empty while it goes on."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


def replicas_of(replicated: dict[str, Any]) -> int:
    given = replicated.get("replicas")
    return 1 if given is None else int(given)


def job_name(jobset_name: str, replicated_name: str, index: int) -> str:
    return f"{jobset_name}-{replicated_name}-{index}"


def subdomain_of(jobset: Obj) -> str:
    """The name of the headless service, and the subdomain of every pod: the JobSet's unless it says otherwise."""
    network = (jobset.get("spec") or {}).get("network") or {}
    return network.get("subdomain") or str(jobset["metadata"]["name"])


def has_dns_hostnames(jobset: Obj) -> bool:
    return bool(((jobset.get("spec") or {}).get("network") or {}).get("enableDNSHostnames"))


def coordinator_endpoint(jobset: Obj) -> str:
    """Where the coordinator's pod can be reached."""
    coordinator = jobset["spec"]["coordinator"]
    pod = job_name(jobset["metadata"]["name"], coordinator["replicatedJob"], coordinator.get("jobIndex") or 0)
    return f"{pod}-{coordinator.get('podIndex') or 0}.{subdomain_of(jobset)}"


def missing(jobset: Obj, replicated: dict[str, Any], present: ChildJobs, restarts: int) -> Iterator[Obj]:
    """The Jobs of one replicated job that are not there yet.

    With BlockingRecreate none before every Job of the attempt before is gone.
    """
    policy = jobset["spec"].get("failurePolicy") or {}
    if present.previous and policy.get("restartStrategy") == "BlockingRecreate":
        return
    names = present.names
    for index in range(replicas_of(replicated)):
        if job_name(jobset["metadata"]["name"], replicated["name"], index) not in names:
            yield new_job(jobset, replicated, index, restarts)


def new_job(jobset: Obj, replicated: dict[str, Any], index: int, restarts: int) -> Obj:
    """One child Job."""
    given = replicated.get("template") or {}
    name = job_name(jobset["metadata"]["name"], replicated["name"], index)
    marks = marks_of(jobset, replicated, index, restarts)
    placement = _placement_annotations(jobset, replicated)
    meta = _marked(given.get("metadata") or {}, marks, placement)
    spec = given.get("spec") or {}
    template = spec.get("template") or {}
    pod_spec = template.get("spec") or {}
    if has_dns_hostnames(jobset):
        pod_spec = {**pod_spec, "subdomain": subdomain_of(jobset)}
    if EXCLUSIVE in meta["annotations"] and NODE_SELECTOR_STRATEGY in meta["annotations"]:
        pod_spec = _placed_by_node_selector(pod_spec, jobset["metadata"]["namespace"], name)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": jobset["metadata"]["namespace"],
            **meta,
            "ownerReferences": owned_by(jobset, API_VERSION, KIND),
        },
        "spec": {
            **spec,
            "template": {
                "metadata": _marked(template.get("metadata") or {}, marks, placement),
                "spec": pod_spec,
            },
            "suspend": bool(jobset["spec"].get("suspend")),
        },
    }


def _marked(given: dict[str, Any], marks: dict[str, str], placement: dict[str, str]) -> dict[str, Any]:
    labels = {**(given.get("labels") or {}), **marks}
    return {"labels": labels, "annotations": {**(given.get("annotations") or {}), **marks, **placement}}


def marks_of(jobset: Obj, replicated: dict[str, Any], index: int, restarts: int) -> dict[str, str]:
    """The labels, which are annotations too, of one child Job and its pods."""
    meta = jobset["metadata"]
    all_jobs = jobset["spec"]["replicatedJobs"]
    group = _group_of(replicated)
    in_group = [r for r in all_jobs if _group_of(r) == group]
    name = job_name(meta["name"], replicated["name"], index)
    key = hashlib.sha1(f"{meta['namespace']}/{name}".encode(), usedforsecurity=False).hexdigest()
    marks = {
        JOBSET_NAME: meta["name"],
        JOBSET_UID: meta["uid"],
        REPLICATED_JOB: replicated["name"],
        RESTARTS: str(restarts),
        REPLICATED_JOB_REPLICAS: str(replicas_of(replicated)),
        GLOBAL_REPLICAS: str(sum(replicas_of(r) for r in all_jobs)),
        JOB_INDEX: str(index),
        JOB_KEY: key,
        JOB_GLOBAL_INDEX: str(_jobs_before(all_jobs, replicated) + index),
        GROUP_NAME: group,
        GROUP_REPLICAS: str(sum(replicas_of(r) for r in in_group)),
        JOB_GROUP_INDEX: str(_jobs_before(in_group, replicated) + index),
    }
    if jobset["spec"].get("coordinator"):
        marks[COORDINATOR] = coordinator_endpoint(jobset)
    return marks


def _group_of(replicated: dict[str, Any]) -> str:
    return replicated.get("groupName") or "default"


def _jobs_before(jobs: list[dict[str, Any]], replicated: dict[str, Any]) -> int:
    before = 0
    for other in jobs:
        if other["name"] == replicated["name"]:
            break
        before += replicas_of(other)
    return before


def _placement_annotations(jobset: Obj, replicated: dict[str, Any]) -> dict[str, str]:
    """Exclusive placement, as the JobSet says it or, before that, the replicated job."""
    said: dict[str, str] = {}
    for given in (annotations_of(jobset), annotations_of(replicated.get("template") or {})):
        if EXCLUSIVE in given:
            said[EXCLUSIVE] = given[EXCLUSIVE]
            if NODE_SELECTOR_STRATEGY in given:
                said[NODE_SELECTOR_STRATEGY] = given[NODE_SELECTOR_STRATEGY]
    return said


def _placed_by_node_selector(pod_spec: dict[str, Any], namespace: str, name: str) -> dict[str, Any]:
    """Nodes labelled and tainted ahead of time, one group of them per Job."""
    toleration = {"key": NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
    return {
        **pod_spec,
        "nodeSelector": {**(pod_spec.get("nodeSelector") or {}), NAMESPACED_JOB: f"{namespace}_{name}"},
        "tolerations": [*(pod_spec.get("tolerations") or ()), toleration],
    }
