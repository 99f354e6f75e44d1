"""The CronJob controller's decision.

Source: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob, cleanupFinishedJobs (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Create,
    Delete,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.cron import ScheduleError, parse
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.claims import controlled
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, is_desire_changed, owner_key
from fairway.workloads.cronjob.missed import due, next_look_us
from fairway.workloads.job.verdict import condition_true, is_finished
from fairway.workloads.podtemplate import owned_by

CRON_JOB = "CronJob.batch"
JOB = "Job.batch"
COMPONENT = "cronjob-controller"
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"

# API defaults. Source: pkg/apis/batch/v1/defaults.go SetDefaults_CronJob.
DEFAULT_SUCCESSFUL_LIMIT = 3
DEFAULT_FAILED_LIMIT = 1

FORBID = "Forbid"
REPLACE = "Replace"

# A refused Job is asked for again after this long. Source: cronjob queue rate limiter, within 1 s … 1000 s.
RETRY_US = 10 * SECOND_US


@dataclass(slots=True)
class Cron:
    """One CronJob while it is decided about. `status` is the next one."""

    key: Key
    obj: Obj
    jobs: list[Obj]
    status: dict[str, Any]
    actions: list[Action] = field(default_factory=list)

    @property
    def spec(self) -> dict[str, Any]:
        return self.obj.get("spec") or {}

    @property
    def active(self) -> list[dict[str, Any]]:
        return self.status.get("active") or []

    def tell(self, reason: str, message: str, *, warn: bool = False) -> None:
        self.actions.append(event(self.key, reason, message, COMPONENT, WARNING if warn else "Normal"))


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one CronJob. O(its Jobs)."""
    obj = view.get(key)
    if obj is None:
        return NOTHING_TO_DO
    cron = Cron(key, obj, controlled(view, obj["metadata"]["uid"], JOB), dict(obj.get("status") or {}))
    _follow_active(cron)
    again = _start(cron, now_us)
    _clean_up(cron)
    if cron.status != (obj.get("status") or {}):
        cron.actions.append(SetStatus(key, cron.status))
    return Reconciliation(tuple(cron.actions), again)


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After the creation of the Job was refused: the start counts as not made, and is tried again."""
    told = event(key, "FailedCreate", f"Error creating job: {message}", COMPONENT, WARNING)
    return Reconciliation((told,), now_us + RETRY_US)


def _follow_active(cron: Cron) -> None:
    """Take finished and vanished Jobs off the active list, put the one just created on it."""
    listed = {ref.get("uid"): ref for ref in cron.active}
    present = {j["metadata"]["uid"]: j for j in cron.jobs}
    kept = []
    for uid, ref in listed.items():
        job = present.get(uid or "")
        if job is None:
            cron.tell("MissingJob", f"Active job went missing: {ref.get('name')}")
        elif is_finished(job.get("status") or {}):
            cron.tell("SawCompletedJob", f"Saw completed job: {ref.get('name')}, condition: {_outcome(job)}")
        else:
            kept.append(ref)
    for uid, job in present.items():
        if uid in listed:
            continue
        if not is_finished(job.get("status") or {}):
            if _is_ours(cron, job):
                kept.append(_reference(job))
            else:
                name = job["metadata"]["name"]
                message = f"Saw a job that the controller did not create or forgot: {name}"
                cron.tell("UnexpectedJob", message, warn=True)
    _set(cron.status, "active", kept)
    times = (cron.status.get("lastSuccessfulTime"), *map(_succeeded_at, cron.jobs))
    ended = [time for time in times if time is not None]
    if ended:
        cron.status["lastSuccessfulTime"] = max(ended, key=parse_rfc3339)


def _outcome(job: Obj) -> str:
    return "Complete" if condition_true(job.get("status") or {}, "Complete") else "Failed"


def _succeeded_at(job: Obj) -> str | None:
    status: dict[str, Any] = job.get("status") or {}
    return status.get("completionTime") if condition_true(status, "Complete") else None


def _is_ours(cron: Cron, job: Obj) -> bool:
    """Whether this is the Job of the last start: upstream lists it as it creates it, here it is seen after."""
    last = cron.status.get("lastScheduleTime")
    return last is not None and job["metadata"]["name"] == job_name(cron.obj, parse_rfc3339(last))


def _reference(job: Obj) -> dict[str, Any]:
    meta = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "uid": meta["uid"],
        "resourceVersion": meta["resourceVersion"],
    }


def job_name(cron: Obj, start_us: int) -> str:
    """`{cronjob}-{minutes since 1970}`: one start, one name, so no start is made twice."""
    return f"{cron['metadata']['name']}-{start_us // SECOND_US // 60}"


def _start(cron: Cron, now_us: int) -> int | None:
    """Start what is due; returns when to look again."""
    if "deletionTimestamp" in cron.obj["metadata"]:
        return None
    zone = _zone(cron)
    if zone is None or cron.spec.get("suspend"):
        return None
    text = cron.spec.get("schedule") or ""
    try:
        schedule = parse(text, zone)
    except ScheduleError as why:
        cron.tell("UnparseableSchedule", f'unparseable schedule: "{text}" : {why}', warn=True)
        return None
    try:
        found = due(cron.obj, schedule, now_us)
    except ScheduleError as why:
        cron.tell("InvalidSchedule", f"invalid schedule: {text} : {why}", warn=True)
        return None
    if found.is_many:
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        )
        cron.tell("TooManyMissedTimes", message, warn=True)
    if found.start_us is not None:
        _start_at(cron, found.start_us, zone)
    return next_look_us(_as_of(cron), schedule, now_us)


def _as_of(cron: Cron) -> Obj:
    return {**cron.obj, "status": cron.status}


def _zone(cron: Cron) -> tzinfo | None:
    name = cron.spec.get("timeZone")
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        cron.tell("UnknownTimeZone", f'invalid timeZone: "{name}": unknown time zone {name}', warn=True)
        return None


def _start_at(cron: Cron, start_us: int, zone: tzinfo) -> None:
    name = job_name(cron.obj, start_us)
    if any(ref.get("name") == name for ref in cron.active):
        return
    policy = cron.spec.get("concurrencyPolicy")
    if policy == FORBID and cron.active:
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        cron.tell("JobAlreadyActive", message)
        return
    if policy == REPLACE:
        for ref in cron.active:
            _delete(cron, ref["name"], ref["uid"])
        _set(cron.status, "active", [])
    cron.actions.append(Create(_job(cron.obj, name, start_us, zone)))
    cron.tell("SuccessfulCreate", f"Created job {name}")
    cron.status["lastScheduleTime"] = rfc3339(start_us)


def _job(cron: Obj, name: str, start_us: int, zone: tzinfo) -> Obj:
    template = (cron.get("spec") or {}).get("jobTemplate") or {}
    given = template.get("metadata") or {}
    local = datetime.fromtimestamp(start_us // SECOND_US, UTC).astimezone(zone)
    scheduled = local.isoformat().replace("+00:00", "Z")
    meta: dict[str, Any] = {
        "name": name,
        "namespace": cron["metadata"]["namespace"],
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: scheduled},
        "ownerReferences": owned_by(cron, "batch/v1", "CronJob"),
    }
    if given.get("labels"):
        meta["labels"] = given["labels"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": template.get("spec") or {}}


def _clean_up(cron: Cron) -> None:
    """Delete the oldest finished Jobs beyond the history limits."""
    limits = (
        ("Complete", "successfulJobsHistoryLimit", DEFAULT_SUCCESSFUL_LIMIT),
        ("Failed", "failedJobsHistoryLimit", DEFAULT_FAILED_LIMIT),
    )
    for outcome, name, default in limits:
        limit = cron.spec.get(name)
        limit = default if limit is None else limit
        ended = [j for j in cron.jobs if condition_true(j.get("status") or {}, outcome)]
        ended.sort(key=_by_start)
        for job in ended[: max(len(ended) - limit, 0)]:
            if "deletionTimestamp" not in job["metadata"]:
                _delete(cron, job["metadata"]["name"], job["metadata"]["uid"])


def _by_start(job: Obj) -> tuple[bool, str, str]:
    """Jobs that never started come last."""
    started = (job.get("status") or {}).get("startTime") or ""
    return (not started, started, job["metadata"]["name"])


def _delete(cron: Cron, name: str, uid: str) -> None:
    cron.actions.append(Delete(Key(JOB, cron.key.namespace, name), uid))
    cron.tell("SuccessfulDelete", f"Deleted job {name}")


def _set(status: dict[str, Any], name: str, value: list[Any]) -> None:
    if value:
        status[name] = value
    else:
        status.pop(name, None)


def map_change(view: View, change: Change) -> Sequence[Key]:
    """Its own wishes; its Jobs coming, going and finishing."""
    if change.key.gk == CRON_JOB:
        return (change.key,) if is_desire_changed(change) else NO_KEYS
    owner = owner_key(change.obj, "CronJob", "batch", CRON_JOB)
    if owner is None:
        return NO_KEYS
    if change.type in (ADDED, DELETED) or change.old is None:
        return (owner,)
    if change.type == MODIFIED:
        was, is_now = (is_finished(o.get("status") or {}) for o in (change.old, change.obj))
        return (owner,) if was != is_now else NO_KEYS
    return NO_KEYS


CONTROLLER = Controller("cronjob", CRON_JOB, (CRON_JOB, JOB), map_change, reconcile, refused)
