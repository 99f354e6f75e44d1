"""How many Jobs of each replicated job are ready, succeeded, failed, active, suspended; who may start then?

Source: jobset pkg/controllers/jobset_controller.go calculateReplicatedJobStatuses; startup_policy.go;
depends_on.go; success_policy.go.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj, labels_of
from fairway.workloads.jobset.childjobs import REPLICATED_JOB, ChildJobs, replicas_of

Counts = dict[str, Any]


def statuses_of(replicated: list[dict[str, Any]], jobs: ChildJobs) -> list[Counts]:
    """The next `status.replicatedJobsStatus`; names descending, as upstream's comparison leaves them."""
    counts: dict[str, Counts] = {
        r["name"]: {"name": r["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
        for r in replicated
    }
    for job in jobs.active:
        of_job = counts.get(labels_of(job).get(REPLICATED_JOB, ""))
        if of_job is not None:
            _count_active(job, of_job)
    for job in jobs.successful:
        if (name := labels_of(job).get(REPLICATED_JOB, "")) in counts:
            counts[name]["succeeded"] += 1
    for job in jobs.failed:
        if (name := labels_of(job).get(REPLICATED_JOB, "")) in counts:
            counts[name]["failed"] += 1
    return [counts[name] for name in sorted(counts, reverse=True)]


def _count_active(job: Obj, counts: Counts) -> None:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    pods = spec.get("parallelism")
    pods = 1 if pods is None else pods
    completions = spec.get("completions")
    if completions is not None:
        pods = min(pods, completions)
    if (status.get("succeeded") or 0) + (status.get("ready") or 0) >= pods:
        counts["ready"] += 1
    if (status.get("active") or 0) > 0:
        counts["active"] += 1
    if spec.get("suspend"):
        counts["suspended"] += 1


def are_all_ready(replicated: list[dict[str, Any]], statuses: list[Counts]) -> bool:
    wanted = sum(replicas_of(r) for r in replicated)
    return wanted == sum(int(s["ready"]) + int(s["succeeded"]) for s in statuses)


def is_started(replicated: dict[str, Any], statuses: list[Counts]) -> bool:
    """Whether all its Jobs are ready or over."""
    counts = _of(replicated["name"], statuses)
    return counts is not None and replicas_of(replicated) == _begun(counts)


def are_dependencies_met(replicated: dict[str, Any], seen: dict[str, int], statuses: list[Counts]) -> bool:
    """`seen`: replicas of this replicated job and those listed before it."""
    for dependency in replicated.get("dependsOn") or ():
        counts = _of(dependency["name"], statuses)
        if counts is None:
            return False
        wanted = seen.get(dependency["name"], 0)
        if dependency.get("status") == "Complete" and wanted != counts["succeeded"]:
            return False
        if dependency.get("status") == "Ready" and wanted != _begun(counts):
            return False
    return True


def _begun(counts: Counts) -> int:
    return int(counts["failed"] + counts["ready"] + counts["succeeded"])


def _of(name: str, statuses: list[Counts]) -> Counts | None:
    return next((s for s in statuses if s["name"] == name), None)


def has_succeeded(spec: dict[str, Any], successful: list[Obj]) -> bool:
    """Whether the success policy is met by these Jobs."""
    policy = spec.get("successPolicy") or {"operator": "All"}
    targets = policy.get("targetReplicatedJobs") or ()
    matching = sum(not targets or labels_of(j).get(REPLICATED_JOB) in targets for j in successful)
    if policy.get("operator") == "Any":
        return matching >= 1
    wanted = sum(
        replicas_of(r) for r in spec.get("replicatedJobs") or () if not targets or r["name"] in targets
    )
    return matching >= wanted
