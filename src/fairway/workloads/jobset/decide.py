"""The JobSet controller's decision.

Source: jobset pkg/controllers/jobset_controller.go reconcile; ttl_after_finished.go (main of 2026-08).

Unlike kube: in-place restarts, elastic scaling and restarts of single Jobs (feature gates InPlaceRestart,
ElasticJobSet, RestartJob: off by default) and volumeClaimPolicies are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from fairway.cluster.actions import NOTHING_TO_DO, Create, Delete, Patch, Reconciliation, SetStatus, View
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.cluster.store import FOREGROUND
from fairway.kube.objects import Key, Obj, key_of, labels_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, owner_key
from fairway.workloads.jobset import childjobs, failurepolicy, replicas
from fairway.workloads.jobset.childjobs import API_VERSION, KIND, REPLICATED_JOB, ChildJobs
from fairway.workloads.jobset.conditions import (
    COMPONENT,
    IN_PROGRESS,
    RESTARTING,
    STARTED,
    SUSPENDED,
    Progress,
    finished_since,
)
from fairway.workloads.pods import MOST_AT_ONCE
from fairway.workloads.podtemplate import owned_by

JOBSET = "JobSet.jobset.x-k8s.io"
OUR_NAME = "jobset.sigs.k8s.io/jobset-controller"
# How long until a refused creation is tried again. Source: controller-runtime's rate limiter ends far later; a
# minute is what the Job controller waits at most.
_RETRY_US = 60 * SECOND_US


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one JobSet. O(its Jobs)."""
    obj = view.get(key)
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return NOTHING_TO_DO
    if obj["spec"].get("managedBy") not in (None, OUR_NAME):
        return NOTHING_TO_DO
    status = dict(obj.get("status") or {})
    one = Progress(key, obj, status, rfc3339(now_us))
    again_us = _decide(view, one, now_us)
    if status != (obj.get("status") or {}):
        one.actions.append(SetStatus(key, {"restarts": 0, **status}))
        one.actions.extend(one.told)
    return Reconciliation(tuple(one.actions), again_us)


def _decide(view: View, one: Progress, now_us: int) -> int | None:
    """Fill in actions and status; when to look again."""
    jobs = childjobs.take(view, one.obj, int(one.status.get("restarts") or 0))
    replicated = one.spec.get("replicatedJobs") or []
    # 1. What is there?
    statuses = replicas.statuses_of(replicated, jobs)
    if statuses != one.status.get("replicatedJobsStatus") and (statuses or one.status):
        one.status["replicatedJobsStatus"] = statuses
    # 2. Is it over, or is something left of an earlier attempt?
    over_since = finished_since(one.status)
    if over_since is not None:
        _delete(one, jobs.active)
        return _expire(one, over_since, now_us)
    _delete(one, jobs.previous)
    if not one.is_suspended and replicas.are_all_ready(replicated, statuses):
        one.set(RESTARTING, "False", "JobsReady", "all jobs are ready")
    # 3. Did it end just now?
    if jobs.failed:
        failurepolicy.apply(one, jobs.failed)
        return None
    if jobs.successful and replicas.has_succeeded(one.spec, jobs.successful):
        one.complete()
        return None
    # 4. What is missing, and may it run?
    _create_service(view, one)
    _create_jobs(one, jobs, statuses)
    if one.is_suspended:
        _suspend(one, jobs.active)
    else:
        _resume(one, jobs.active, statuses)
    return None


def _delete(one: Progress, jobs: list[Obj]) -> None:
    for job in jobs:
        if "deletionTimestamp" not in job["metadata"]:
            one.actions.append(Delete(key_of(job), job["metadata"]["uid"], propagation=FOREGROUND))


def _expire(one: Progress, over_since: str, now_us: int) -> int | None:
    """Delete it once ttlSecondsAfterFinished has passed."""
    ttl_s = one.spec.get("ttlSecondsAfterFinished")
    if ttl_s is None:
        return None
    at_us = int(parse_rfc3339(over_since) + ttl_s * SECOND_US)
    if at_us > now_us:
        return at_us
    one.actions.append(Delete(one.key, one.obj["metadata"]["uid"], propagation=FOREGROUND))
    return None


def _create_service(view: View, one: Progress) -> None:
    """The headless service that gives every pod its name in DNS."""
    if not childjobs.has_dns_hostnames(one.obj):
        return
    meta = one.obj["metadata"]
    name = childjobs.subdomain_of(one.obj)
    if view.get(Key("Service", meta["namespace"], name)) is not None:
        return
    publishes = one.spec["network"].get("publishNotReadyAddresses")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "ownerReferences": owned_by(one.obj, API_VERSION, KIND),
        },
        "spec": {
            "clusterIP": "None",
            "selector": {childjobs.JOBSET_NAME: meta["name"]},
            "publishNotReadyAddresses": True if publishes is None else publishes,
        },
    }
    one.actions.append(Create(service))


def _is_in_order(one: Progress) -> bool:
    return (one.spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"


def _create_jobs(one: Progress, jobs: ChildJobs, statuses: list[dict[str, Any]]) -> None:
    is_in_order = not one.is_suspended and _is_in_order(one)
    seen: dict[str, int] = {}
    restarts = int(one.status.get("restarts") or 0)
    for replicated in one.spec.get("replicatedJobs") or ():
        seen[replicated["name"]] = childjobs.replicas_of(replicated)
        if not replicas.are_dependencies_met(replicated, seen, statuses):
            continue
        if is_in_order and replicas.is_started(replicated, statuses):
            continue
        missing = childjobs.missing(one.obj, replicated, jobs, restarts)
        one.actions.extend(Create(j) for j in islice(missing, MOST_AT_ONCE))
        if is_in_order:
            _wait_for_start(one)
            return
    if is_in_order:
        message = "in order startup policy has completed"
        one.set(STARTED, "True", "InOrderStartupPolicyCompleted", message)


def _wait_for_start(one: Progress) -> None:
    message = "in order startup policy is in progress"
    one.set(IN_PROGRESS, "True", "InOrderStartupPolicyInProgress", message)


def _suspend(one: Progress, active: list[Obj]) -> None:
    for job in active:
        if not job["spec"].get("suspend"):
            one.actions.append(Patch(key_of(job), {"spec": {"suspend": True}}))
    one.set(SUSPENDED, "True", "SuspendedJobs", "jobset is suspended")
    one.set(RESTARTING, "False", "JobSetSuspended", "jobset is suspended")


def _resume(one: Progress, active: list[Obj], statuses: list[dict[str, Any]]) -> None:
    """Let suspended Jobs go, those of one replicated job after the other where order matters."""
    is_in_order = _is_in_order(one)
    seen: dict[str, int] = {}
    for replicated in one.spec.get("replicatedJobs") or ():
        seen[replicated["name"]] = childjobs.replicas_of(replicated)
        if not replicas.are_dependencies_met(replicated, seen, statuses):
            continue
        if is_in_order and replicas.is_started(replicated, statuses):
            continue
        for job in active:
            if labels_of(job).get(REPLICATED_JOB) == replicated["name"] and job["spec"].get("suspend"):
                _resume_job(one, job, replicated)
        if is_in_order:
            _wait_for_start(one)
            return
    one.set(SUSPENDED, "False", "ResumeJobs", "jobset is resumed")


def _resume_job(one: Progress, job: Obj, replicated: dict[str, Any]) -> None:
    """Unsuspend, with what somebody (Kueue) wrote into the JobSet's template meanwhile."""
    status = job.get("status") or {}
    if status.get("startTime"):
        # A Job's template may only change before it has started.
        one.actions.append(SetStatus(key_of(job), {k: v for k, v in status.items() if k != "startTime"}))
    wanted = ((replicated.get("template") or {}).get("spec") or {}).get("template") or {}
    meta, spec = wanted.get("metadata") or {}, wanted.get("spec") or {}
    present = job["spec"]["template"].get("spec") or {}
    pod: dict[str, Any] = {}
    if spec.get("nodeSelector"):
        pod["nodeSelector"] = spec["nodeSelector"]
    for listed in ("tolerations", "schedulingGates"):
        before = present.get(listed) or []
        added = [item for item in spec.get(listed) or () if item not in before]
        if added:
            pod[listed] = [*before, *added]
    changed = {f: meta[f] for f in ("labels", "annotations") if meta.get(f)}
    template = {"metadata": changed, "spec": pod}
    one.actions.append(Patch(key_of(job), {"spec": {"suspend": False, "template": template}}))


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After a Job or the service was refused: say so, try again later."""
    obj = view.get(key)
    if obj is None:
        return NOTHING_TO_DO
    told = event(key, "JobCreationFailed", message, COMPONENT, WARNING)
    return Reconciliation((told,), now_us + _RETRY_US)


def map_change(view: View, change: Change) -> Sequence[Key]:
    """The JobSet that changed (its status too: a restart is carried out by the next look); that of a Job."""
    if change.key.gk == JOBSET:
        return NO_KEYS if change.type == DELETED else (change.key,)
    if change.key.gk == "Service" and change.type == ADDED:
        return NO_KEYS
    owner = owner_key(change.obj, KIND, "jobset.x-k8s.io", JOBSET)
    return NO_KEYS if owner is None else (owner,)


CONTROLLER = Controller("jobset", JOBSET, (JOBSET, "Job.batch", "Service"), map_change, reconcile, refused)
