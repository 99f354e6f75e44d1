"""What to do about one job: its Workload, its start, its stop, its end.

The decision reads as Kueue's reconciler does: 1. is it ours? 2. which Workload is its own? 3. is that over, or
going? 4. is the job over? 5. has it no Workload yet? 6. which pods are done for good? 7. are its pods ready?
8. was it evicted? 9. suspended: may it start? 10. running: may it?

Each step that writes ends the decision: the change calls for the next one.

Source: pkg/controller/jobframework/reconciler.go ReconcileGenericJob.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fairway.cluster.actions import Action, Create, Delete, Emit, Patch, Replace, SetStatus, View
from fairway.kube.kinds import group_kind
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    key_of,
    labels_of,
    meta_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
)
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.conditions import MAX_EVENT_MESSAGE, truncated, with_condition
from fairway.queueing.facts.workloads import JOB_UID_LABEL
from fairway.queueing.facts.workloads import key_of as workload_key
from fairway.queueing.facts.workloadstate import (
    ADMISSION_GATED_BY,
    is_active,
    is_finished,
    is_owned_by_single_pod,
)
from fairway.queueing.integrations import construct, podsready, slices
from fairway.queueing.integrations.construct import IN_USE_FINALIZER, is_elastic_job, queue_name
from fairway.queueing.integrations.equivalence import is_equivalent
from fairway.queueing.integrations.integration import WARNING, Integration, Reclaimable, StopReason
from fairway.queueing.integrations.ownership import WORKLOAD, OwnedWorkloads
from fairway.queueing.integrations.podsetinfo import (
    BadPodSets,
    FlavorMissing,
    admitted_infos,
    spec_infos,
)
from fairway.queueing.integrations.priorities import ClassMissing, priority_change
from fairway.queueing.integrations.settings import JobSettings
from fairway.queueing.outcomes import statuses

PREBUILT: Final = "kueue.x-k8s.io/prebuilt-workload-name"
NAMESPACE: Final = "Namespace"

_OWNER_GONE: Final = "The workload's owner no longer exists"
_MAX_OWNERS: Final = 10


class JobDecision(NamedTuple):
    """What to do, in order; `again_at_us`: when to look again in any case.

    `is_blocked`: something it names is missing (a class, a flavor): look again when that may be there.
    `settles`: once this is written and unless anything else changes, there is nothing left to decide.
    """

    actions: tuple[Action, ...] = ()
    again_at_us: int | None = None
    is_blocked: bool = False
    settles: bool = False


NOTHING: Final = JobDecision()


class Kueue(NamedTuple):
    """What a decision about a job needs to know beside the job."""

    view: View
    owned: OwnedWorkloads
    integrations: Mapping[str, Integration]
    settings: JobSettings


def reconcile_job(kueue: Kueue, key: Key, now_us: int) -> JobDecision:
    """What to do about the job by this key. O(its Workloads)."""
    view, integration = kueue.view, kueue.integrations[key.gk]
    job = integration.load(view, key)
    if job is not None and integration.skips(view, job):
        return NOTHING
    if job is None or "deletionTimestamp" in meta_of(job):
        return JobDecision(tuple(_gone(kueue, key, job, now_us)))
    # 1. Is it ours?
    namespace = view.get(Key(NAMESPACE, "", key.namespace))
    if namespace is not None and not kueue.settings.manages_namespace(key.namespace, labels_of(namespace)):
        return NOTHING
    ancestor = None if integration.is_top_level else managed_ancestor(kueue, job)
    if not kueue.settings.manages_without_queue_name and not queue_name(ancestor or job):
        return NOTHING
    if ancestor is not None:
        return JobDecision(tuple(_child(kueue, integration, job, ancestor)))
    return _Turn(kueue, integration, job, now_us).decide()


def managed_ancestor(kueue: Kueue, job: Obj) -> Obj | None:
    """The topmost owner that Kueue manages in this job's stead."""
    top: Obj | None = None
    current = job
    for _ in range(_MAX_OWNERS):
        reference = controller_of(current)
        if reference is None:
            return top
        gk = group_kind(reference["apiVersion"], reference["kind"])
        if gk not in kueue.integrations and gk not in _PASSED_THROUGH:
            return top
        parent = kueue.view.get(Key(gk, namespace_of(job), reference["name"]))
        if parent is None or meta_of(parent).get("uid") != reference["uid"]:
            return top
        if gk in kueue.integrations and (kueue.settings.manages_without_queue_name or queue_name(parent)):
            top = parent
        current = parent
    return top


# Owners between a job and the one that is Kueue's. Source: integrations' implicit and external frameworks.
_PASSED_THROUGH: Final = ("ReplicaSet.apps", "Deployment.apps", "StatefulSet.apps", "JobSet.jobset.x-k8s.io")


def _gone(kueue: Kueue, key: Key, job: Obj | None, now_us: int) -> list[Action]:
    """The job is deleted: its Workloads end and may go."""
    actions: list[Action] = []
    for workload in kueue.owned.of(kueue.view, key):
        is_over = is_finished(workload) or "deletionTimestamp" in meta_of(workload)
        if not is_over and controller_of(workload) is not None:
            ended = statuses.finished(workload, "OwnerNotFound", _OWNER_GONE, now_us)
            actions.append(SetStatus(key_of(workload), ended["status"]))
        actions.extend(_released(workload))
    if job is not None:
        actions.extend(kueue.integrations[key.gk].finalized(kueue.view, job))
    return actions


def _released(workload: Obj) -> list[Action]:
    """Kueue no longer holds on to the Workload object."""
    finalizers = meta_of(workload).get("finalizers") or []
    if IN_USE_FINALIZER not in finalizers:
        return []
    kept = [f for f in finalizers if f != IN_USE_FINALIZER]
    return [Patch(key_of(workload), {"metadata": {"finalizers": kept or None}})]


def _child(kueue: Kueue, integration: Integration, job: Obj, ancestor: Obj) -> list[Action]:
    """A job below one that Kueue manages waits for that one's admission."""
    if integration.is_suspended(job) or integration.finished(kueue.view, job) is not None:
        return []
    unfinished = [w for w in kueue.owned.of(kueue.view, key_of(ancestor)) if not is_finished(w)]
    if unfinished:
        latest = status_of(unfinished[-1])
        if is_elastic_job(job) or is_elastic_job(ancestor):
            waits = conds.is_true(latest, conds.EVICTED)
        else:
            waits = not conds.is_true(latest, conds.ADMITTED)
        if not waits:
            return []
    suspended = integration.with_suspend(job, True)
    return [Replace(suspended), integration.told(job, "Suspended", "Kueue managed child job suspended")]


class _Turn:
    """One look at a job that is Kueue's own."""

    def __init__(self, kueue: Kueue, integration: Integration, job: Obj, now_us: int) -> None:
        self.kueue = kueue
        self.view = kueue.view
        self.settings = kueue.settings
        self.kind = integration
        self.job = job
        self.now_us = now_us

    def decide(self) -> JobDecision:
        # 2. Which Workload is its own?
        found = self.kueue.owned.of(self.view, key_of(self.job))
        if not prebuilt_name(self.job):
            care = self.kind.upkeep(self.view, self.job, found[0] if found else None, self.now_us)
            if care is not None:
                return JobDecision(tuple(care))
            if found:
                self.job = self.kind.known(self.job, found[0])
        try:
            if self.kind.makes_groups:
                made = self.kind.groups(self.view, self.job, found, self.settings, self.now_us)
                return JobDecision(tuple(made))
            workload, actions = self._own_workload()
            if actions:
                return JobDecision(tuple(actions))
            if workload is None:
                return self._without_workload()
        except ClassMissing as missing:
            return self._class_missing(missing)
        return self._with_workload(workload)

    def _with_workload(self, workload: Obj) -> JobDecision:
        # 3. Is it over, or going?
        if is_finished(workload):
            actions = self.kind.finalized(self.view, self.job)
            released = _released(workload)
            if released:
                actions = [*actions, self._declared_finished(workload), *released]
            return JobDecision(tuple(actions))
        if "deletionTimestamp" in meta_of(workload):
            stopped = self._stopped(workload, StopReason.WORKLOAD_DELETED, "Workload is deleted")
            return JobDecision((*stopped, *_released(workload)))
        if self.kind.is_on_hold(self.job):
            return JobDecision(tuple(self._hold(workload)))
        # 4. Is the job over?
        finish = self.kind.finished(self.view, self.job)
        if finish is not None:
            reason = "Succeeded" if finish.success else "Failed"
            ended = statuses.finished(workload, reason, finish.message, self.now_us)
            told = self._declared_finished(workload)
            final = self.kind.finalized(self.view, self.job)
            return JobDecision((SetStatus(key_of(workload), ended["status"]), told, *final))
        # 6. Which pods are done for good?
        reclaimed = self._reclaimed(workload)
        if reclaimed is not None:
            return JobDecision((reclaimed,))
        # 7. Are its pods ready?
        if self.settings.reports_pods_ready:
            told_ready = self._pods_ready(workload)
            if told_ready is not None:
                return JobDecision((told_ready,), settles=self._with_known_pods(workload) is NOTHING)
        return self._with_known_pods(workload)

    def _with_known_pods(self, workload: Obj) -> JobDecision:
        status = status_of(workload)
        # 8. Was it evicted?
        if conds.is_true(status, conds.EVICTED):
            return self._evicted(workload)
        is_admitted = conds.is_true(status, conds.ADMITTED)
        # 9. Suspended: may it start?
        if self.kind.is_suspended(self.job):
            return self._start(workload) if is_admitted else self._wait(workload)
        # 10. Running: may it?
        if self._is_sliced():
            return JobDecision(tuple(self._ungated()))
        if is_admitted:
            return NOTHING
        message = "Not admitted by cluster queue"
        return JobDecision(tuple(self._stopped(workload, StopReason.NOT_ADMITTED, message)))

    def _is_sliced(self) -> bool:
        return self.settings.gates.elastic_jobs_via_workload_slices and is_elastic_job(self.job)

    def _ungated(self) -> list[Action]:
        """Pods of an elastic job that its admitted slice has room for."""
        found = (self.view.get(k) for k in self.view.dependents(meta_of(self.job)["uid"]) if k.gk == "Pod")
        pods = [pod for pod in found if pod is not None]
        if not any(slices.is_gated(pod) for pod in pods):
            return []
        return slices.ungated(self.kueue.owned.of(self.view, key_of(self.job)), pods)

    # 2. Which Workload is its own?

    def _own_workload(self) -> tuple[Obj | None, list[Action]]:
        """The Workload that matches the job, and what has to be done first."""
        prebuilt = prebuilt_name(self.job)
        if prebuilt:
            return self._prebuilt(prebuilt)
        found = self.kueue.owned.of(self.view, key_of(self.job))
        if self._is_sliced():
            decided = slices.ensured(
                construct.job_pod_sets(self.view, self.kind, self.job), found, self.now_us
            )
            if decided is not None:
                return decided
        if not found:
            return None, self._suspended_without_workload([])
        match: Obj | None = None
        others: list[Obj] = []
        for workload in found:
            if match is None and is_equivalent(self.view, self.kind, self.job, workload, self.settings):
                match = workload
            else:
                others.append(workload)
        if match is None:
            return None, self._mismatch(others)
        if others:
            return match, self._deleted(others)
        return match, self._synced(match)

    def _mismatch(self, others: list[Obj]) -> list[Action]:
        """None describes the job any more: rewrite one that waits, or delete them all."""
        is_waiting = self.kind.is_suspended(self.job) and not _has_quota(others[0])
        actions = self._suspended_without_workload(others)
        doomed = others[1:] if is_waiting else others
        actions.extend(self._deleted(doomed))
        if is_waiting and not doomed:
            actions.extend(self._rewritten(others[0]))
        return actions

    def _suspended_without_workload(self, others: Sequence[Obj]) -> list[Action]:
        if self.kind.is_suspended(self.job) or self.kind.finished(self.view, self.job) is not None:
            return []
        workload = others[0] if len(others) == 1 else None
        message = (
            "Missing Workload; unable to restore pod templates"
            if workload is None
            else "No matching Workload; restoring pod templates according to existent Workload"
        )
        return self._stopped(workload, StopReason.NO_MATCHING_WORKLOAD, message)

    def _deleted(self, doomed: Sequence[Obj]) -> list[Action]:
        actions: list[Action] = []
        for workload in doomed:
            actions.extend(_released(workload))
            if "deletionTimestamp" not in meta_of(workload):
                actions.append(Delete(key_of(workload), meta_of(workload).get("uid") or ""))
                text = f"Deleted not matching Workload: {workload_key(workload)}"
                actions.append(self.kind.told(self.job, "DeletedWorkload", text))
        return actions

    def _rewritten(self, workload: Obj) -> list[Action]:
        """The waiting Workload as the job is now."""
        new = construct.constructed(self.view, self.kind, self.job, self.settings)
        spec = {**new["spec"], "active": is_active(workload)}
        text = f"Updated not matching Workload for suspended job: {workload_key(workload)}"
        return [Replace({**workload, "spec": spec}), self.kind.told(self.job, "UpdatedWorkload", text)]

    def _synced(self, workload: Obj) -> list[Action]:
        """The admission gate and the priority of the job, where they changed."""
        if self.settings.gates.admission_gated_by:
            gate = annotations_of(self.job).get(ADMISSION_GATED_BY) or ""
            if gate != (annotations_of(workload).get(ADMISSION_GATED_BY) or ""):
                patch = {"metadata": {"annotations": {ADMISSION_GATED_BY: gate or None}}}
                text = f'Updated workload AdmissionGatedBy to "{gate}"'
                return [
                    Patch(key_of(workload), patch),
                    self.kind.told(self.job, "UpdatedWorkload", text),
                ]
        spec = priority_change(self.view, self.job, workload, self.kind.priority_class(self.view, self.job))
        if spec is None:
            return []
        text = f"Updated workload priority class: {workload_key(workload)}"
        return [Replace({**workload, "spec": spec}), self.kind.told(self.job, "UpdatedWorkload", text)]

    def _prebuilt(self, name: str) -> tuple[Obj | None, list[Action]]:
        """A Workload somebody else made for this job, by the name the job gives."""
        workload = self.view.get(Key(WORKLOAD, namespace_of(self.job), name))
        if workload is None:
            return None, []
        owner, uid = controller_of(workload), meta_of(self.job).get("uid") or ""
        if owner is not None and owner.get("uid") != uid:
            return None, []
        claimed = self.kind.claimed(self.job, workload)
        if claimed:
            return workload, claimed
        if owner is None and claimed is None:
            meta = dict(meta_of(workload))
            meta["ownerReferences"] = [*(meta.get("ownerReferences") or ()), owner_reference(self.job)]
            meta["labels"] = {**(meta.get("labels") or {}), JOB_UID_LABEL: uid}
            return workload, [Replace({**workload, "metadata": meta})]
        if not is_finished(workload) and not is_equivalent(
            self.view, self.kind, self.job, workload, self.settings
        ):
            text = "The prebuilt workload is out of sync with its user job"
            ended = statuses.finished(workload, "OutOfSync", text, self.now_us)
            return None, [SetStatus(key_of(workload), ended["status"])]
        return workload, []

    # 5. Has it no Workload yet?

    def _without_workload(self) -> JobDecision:
        if self.kind.finished(self.view, self.job) is not None:
            return JobDecision(tuple(self.kind.finalized(self.view, self.job)))
        if prebuilt_name(self.job):
            actions = self._stopped(None, StopReason.NO_MATCHING_WORKLOAD, "missing workload")
            return JobDecision(tuple(actions), is_blocked=True)
        if self.kind.is_active(self.view, self.job) and not self._is_sliced():
            return NOTHING
        slices_there = []
        if self._is_sliced():
            slices_there = [w for w in self.kueue.owned.of(self.view, key_of(self.job)) if not is_finished(w)]
        workload = construct.constructed(self.view, self.kind, self.job, self.settings, slices_there)
        text = f"Created Workload: {workload_key(workload)}"
        return JobDecision((Create(workload), self.kind.told(self.job, "CreatedWorkload", text)))

    def _class_missing(self, missing: ClassMissing) -> JobDecision:
        if not missing.is_workload_class:
            return JobDecision(is_blocked=True)
        text = f'WorkloadPriorityClass "{missing.name}" not found'
        told = self.kind.told(self.job, "WorkloadPriorityClassNotFound", text, WARNING)
        return JobDecision((told,), is_blocked=True)

    # 3. to 10., the parts

    def _declared_finished(self, workload: Obj) -> Action:
        text = f"Workload '{workload_key(workload)}' is declared finished"
        return self.kind.told(self.job, "FinishedWorkload", text)

    def _stopped(self, workload: Obj | None, reason: str, message: str) -> list[Action]:
        infos = spec_infos(workload)
        text = truncated(message, MAX_EVENT_MESSAGE)
        return self.kind.stop(self.view, self.job, infos, reason, text)

    def _hold(self, workload: Obj) -> list[Action]:
        if not _has_quota(workload):
            return []
        held = statuses.without_quota(
            workload, conds.ON_HOLD, "Job is on hold", self.now_us, self.settings.gates
        )
        return [SetStatus(key_of(workload), held["status"])]

    def _reclaimed(self, workload: Obj) -> Action | None:
        if not self.settings.gates.reclaimable_pods:
            return None
        told = self.kind.reclaimable(self.view, self.job)
        if told is None:
            return None
        sizes = {ps.get("name") or "main": int(ps.get("count", 1)) for ps in spec_of(workload)["podSets"]}
        wanted = [Reclaimable(r.name, min(r.count, sizes.get(r.name, r.count))) for r in told]
        status = status_of(workload)
        present = [Reclaimable(r["name"], r["count"]) for r in status.get("reclaimablePods") or ()]
        if sorted(present) == sorted(wanted):
            return None
        changed = dict(status)
        changed["reclaimablePods"] = [{"name": r.name, "count": r.count} for r in wanted]
        if not wanted:
            del changed["reclaimablePods"]
        return SetStatus(key_of(workload), changed)

    def _pods_ready(self, workload: Obj) -> Action | None:
        is_admitted = conds.is_true(status_of(workload), conds.ADMITTED)
        ready = is_admitted and self.kind.pods_ready(self.view, self.job)
        wanted = podsready.readiness(workload, ready)
        if podsready.is_up_to_date(workload, wanted):
            return None
        status = dict(status_of(workload))
        status["conditions"] = with_condition(
            status.get("conditions") or [],
            conds.PODS_READY,
            wanted.status,
            reason=wanted.reason,
            message=wanted.message,
            now_us=self.now_us,
            generation=int(meta_of(workload).get("generation") or 0),
        )
        return SetStatus(key_of(workload), status)

    def _evicted(self, workload: Obj) -> JobDecision:
        eviction = conds.find(status_of(workload), conds.EVICTED) or {}
        message = eviction.get("message") or ""
        actions = self._stopped(workload, StopReason.WORKLOAD_EVICTED, message)
        if _has_quota(workload) and not self.kind.is_active(self.view, self.job):
            actions.append(self._admission_cleared(workload, eviction))
        return self._retained(workload, eviction, actions)

    def _admission_cleared(self, workload: Obj, eviction: conds.Condition) -> Action:
        reason, message = eviction.get("reason") or "", eviction.get("message") or ""
        requeues = reason in (conds.EVICTED_BY_PREEMPTION, conds.EVICTED_BY_NODE_FAILURES)
        gates = self.settings.gates
        if gates.skip_reassignment_for_pod_owned_workloads and is_owned_by_single_pod(workload):
            requeues = False
        status = dict(status_of(workload))
        status["conditions"] = with_condition(
            status.get("conditions") or [],
            conds.REQUEUED,
            conds.TRUE if requeues else conds.FALSE,
            reason=reason,
            message=message,
            now_us=self.now_us,
            generation=int(meta_of(workload).get("generation") or 0),
        )
        fallback = "Pending"
        cleared = statuses.without_quota(
            {**workload, "status": status},
            conds.PENDING_EVALUATION if gates.unadmitted_workloads_observability else fallback,
            message,
            self.now_us,
            gates,
        )
        return SetStatus(key_of(workload), cleared["status"])

    def _retained(self, workload: Obj, eviction: conds.Condition, actions: list[Action]) -> JobDecision:
        """A job that Kueue deactivated goes, once it was kept long enough."""
        kept_us = self.settings.retained_us
        by_kueue = (eviction.get("reason") or "").startswith("DeactivatedDueTo")
        if kept_us is None or is_active(workload) or not by_kueue:
            return JobDecision(tuple(actions))
        until_us = conds.since_us(eviction) + kept_us
        if until_us > self.now_us:
            return JobDecision(tuple(actions), again_at_us=until_us)
        text = "Deleted job: deactivation retention period expired"
        told = self.kind.told(self.job, "Deleted", text)
        return JobDecision((*actions, Delete(key_of(self.job)), told))

    def _start(self, workload: Obj) -> JobDecision:
        status = status_of(workload)
        message = f"Admitted by clusterQueue {status['admission']['clusterQueue']}"
        try:
            infos = admitted_infos(self.view, workload, self.settings.gates)
            started = tuple(self.kind.start(self.view, self.job, infos, message))
            return JobDecision(started, settles=self._is_settled_by(started, workload))
        except FlavorMissing:
            return JobDecision(is_blocked=True)
        except BadPodSets as never:
            ended = statuses.finished(workload, "FailedToStart", str(never), self.now_us)
            return JobDecision((SetStatus(key_of(workload), ended["status"]),))

    def _is_settled_by(self, started: Sequence[Action], workload: Obj) -> bool:
        """Whether the job as it is started is the job of its Workload: a look at it would find nothing to do."""
        written = [a for a in started if not isinstance(a, Emit)]
        if len(written) != 1 or not isinstance(written[0], Replace) or self._is_sliced():
            return False
        job = written[0].obj
        return (
            key_of(job) == key_of(self.job)
            and not self.kind.is_suspended(job)
            and is_equivalent(self.view, self.kind, job, workload, self.settings)
        )

    def _wait(self, workload: Obj) -> JobDecision:
        actions: list[Action] = []
        if _has_quota(workload):
            waiting = [
                f"{c.get('name')}: {c['message']}"
                for c in status_of(workload).get("admissionChecks") or ()
                if c.get("state") == "Pending" and c.get("message")
            ]
            if waiting:
                text = truncated("; ".join(waiting), MAX_EVENT_MESSAGE)
                actions.append(self.kind.told(self.job, "UpdatedAdmissionCheck", text))
        if (spec_of(workload).get("queueName") or "") != queue_name(self.job):
            spec = {**spec_of(workload), "queueName": queue_name(self.job)}
            actions.append(Replace({**workload, "spec": spec}))
        return JobDecision(tuple(actions)) if actions else NOTHING


def _has_quota(workload: Obj) -> bool:
    return conds.is_true(status_of(workload), conds.QUOTA_RESERVED)


def prebuilt_name(job: Obj) -> str:
    return annotations_of(job).get(PREBUILT) or labels_of(job).get(PREBUILT) or ""
