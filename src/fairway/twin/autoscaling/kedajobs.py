"""ScaledJobs on the loop: how many jobs for the messages there are.

Source: kedacore/keda pkg/scaling/executor/scale_jobs.go.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fairway.autoscaling.keda import conditions as states
from fairway.autoscaling.keda import scaledjobs, scaledobjects
from fairway.autoscaling.keda.scaledjobs import Demand
from fairway.autoscaling.keda.triggers import RESOURCE, TriggerFault
from fairway.autoscaling.source import NEVER_US
from fairway.cluster.errors import ApiError
from fairway.kube.labelparsing import parse_selector
from fairway.kube.objects import Key, Obj, spec_of
from fairway.kube.timestamps import rfc3339
from fairway.twin.autoscaling import probing
from fairway.twin.autoscaling.journal import Scaling

if TYPE_CHECKING:
    from fairway.twin.autoscaling.keda import Entry, Keda

_READY = ("True", "ScaledJobReady", "ScaledJob is defined correctly and is ready for scaling")
_PARTIAL = ("Unknown", "PartialTriggerError", "Some triggers defined in ScaledJob are not working correctly")
_FAILED = ("False", "TriggerError", "Triggers defined in ScaledJob are not working correctly")
_ACTIVE = ("True", "ScalerActive", "Scaling is performed because triggers are active")
_NOT_ACTIVE = ("False", "ScalerNotActive", "Scaling is not performed because triggers are not active")


def reconcile(keda: Keda, key: Key, entry: Entry, obj: Obj) -> None:
    """Read its triggers, or say why that cannot be done."""
    entry.probes = None
    status = dict(obj.get("status") or {})
    told = list(status.get("conditions") or states.initialized())
    if scaledobjects.paused(obj).whole:
        told = states.put(told, "Paused", "True", "ScaledJobPaused", "ScaledJob is paused")
        keda.write(key, {**status, "conditions": told})
        return
    try:
        entry.probes = keda.probes_of(obj, key.namespace)
        if states.status_of(told, "Ready") != "True":
            keda.say(key, obj, "Normal", "ScaledJobReady", "ScaledJob is ready for scaling")
        keda.say_started(key, obj, entry)
        told = states.put(told, "Ready", *_READY)
    except TriggerFault as fault:
        text = str(fault).replace("failed to ensure HPA is correctly created for ScaledObject: ", "")
        message = f"failed to start ScaleLoop: {text}"
        told = states.put(told, "Ready", "False", "ScaledJobCheckFailed", message)
        keda.say(key, obj, "Warning", "ScaledJobCheckFailed", text)
    if states.status_of(told, "Paused") == "True":
        message = "pause annotation removed for ScaledJob"
        told = states.put(told, "Paused", "False", "ScaledJobUnpaused", message)
    keda.room.watch("Job.batch")
    keda.write(key, {**status, "conditions": told})


def poll(keda: Keda, key: Key, entry: Entry, obj: Obj) -> None:
    """Create the jobs that are missing, write what was found, and plan the next poll."""
    demand, errors, until_us = _asked(keda, key, entry, obj)
    _create_missing(keda, key, entry, obj, demand)
    _tell(keda, key, obj, demand, errors=errors)
    now_us = keda.room.host.loop.now_us
    if demand.is_active or errors:
        until_us = now_us
    if until_us < NEVER_US:
        keda.plan(key, entry, max(until_us, now_us))


def _asked(keda: Keda, key: Key, entry: Entry, obj: Obj) -> tuple[Demand, bool, int]:
    """What all triggers ask for, whether any failed, and until when they say so."""
    spec = spec_of(obj)
    asked, errors, until_us = [], False, NEVER_US
    for one in entry.probes or ():
        if one.source == RESOURCE:
            continue
        found = probing.found(keda.room, one, key.namespace)
        until_us = min(until_us, found.until_us)
        if found.fault:
            errors = True
            keda.say(key, obj, "Warning", "KEDAScalerFailed", found.fault)
        else:
            asked.append(scaledjobs.asked([found.milli], one.target_milli, found.is_active, spec))
    return scaledjobs.demand(spec, asked), errors, until_us


def _create_missing(keda: Keda, key: Key, entry: Entry, obj: Obj, demand: Demand) -> None:
    running, pending = _jobs(keda, key)
    count, made = scaledjobs.to_create(spec_of(obj), demand, running, pending), 0
    for _ in range(count):
        entry.jobs_made += 1
        name = f"{key.name}-{entry.jobs_made:05d}"
        try:
            made += keda.room.host.create(scaledjobs.job(obj, name), partial(keda.reconcile_soon, key))
        except ApiError as refused:
            message = f"Failed to create job {key.name}-: {refused.message}"
            keda.say(key, obj, "Warning", "KEDAJobCreateFailed", message)
    if count:
        # As many as were to be: KEDA does not ask which of them were refused.
        keda.say(key, obj, "Normal", "KEDAJobsCreated", f"Created {count} jobs")
    if made:
        now_us, after = keda.room.host.loop.now_us, running + made
        at_work = running - pending
        keda.room.journal.note(
            Scaling(now_us, str(key), str(key), running, after, at_work, "", "jobs created")
        )


def _tell(keda: Keda, key: Key, obj: Obj, demand: Demand, *, errors: bool) -> None:
    """Its conditions, and an event where activity has turned."""
    status = dict(obj.get("status") or {})
    told = list(status.get("conditions") or states.initialized())
    ready = _READY
    if errors:
        ready = _PARTIAL if demand.is_active else _FAILED
    told = states.put(told, "Ready", *ready)
    was_active = states.status_of(told, "Active") == "True"
    active = _ACTIVE if demand.is_active else _NOT_ACTIVE
    told = states.put(told, "Active", *active)
    if demand.is_active != was_active:
        reason = "ScaledJobActive" if demand.is_active else "ScaledJobInactive"
        keda.say(key, obj, "Normal", reason, active[2])
    status["conditions"] = told
    if demand.is_active:
        status["lastActiveTime"] = rfc3339(keda.room.host.loop.now_us)
    keda.write(key, status)


def _jobs(keda: Keda, key: Key) -> tuple[int, int]:
    """Not finished, and of those not yet at work."""
    running = pending = 0
    for job in keda.room.host.store.objects("Job.batch", key.namespace):
        if (job["metadata"].get("labels") or {}).get(scaledjobs.NAME_LABEL) != key.name:
            continue
        done = any(
            c["type"] in ("Complete", "Failed") and c["status"] == "True"
            for c in (job.get("status") or {}).get("conditions") or ()
        )
        if not done:
            running += 1
            pods = keda.room.index.pods(key.namespace, parse_selector(f"job-name={job['metadata']['name']}"))
            pending += not any((p.get("status") or {}).get("phase") in ("Running", "Succeeded") for p in pods)
    return running, pending
