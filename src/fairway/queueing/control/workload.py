"""One Workload's state machine: requeued, deactivated, evicted, blocked, or left as it is.

The decision goes through Kueue's steps in order; the first that changes something ends it, and the change
calls for the next look.

Source: pkg/controller/core/workload_controller.go Reconcile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.cluster.actions import Action, Delete, Emit, Patch, SetStatus
from fairway.kube.objects import (
    Obj,
    annotations_of,
    key_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.queueing.control import checks
from fairway.queueing.control.blockers import Blocker
from fairway.queueing.control.settings import KueueSettings, PodsReady
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.conditions import MAX_EVENT_MESSAGE, truncated, with_condition
from fairway.queueing.facts.objects import HOLD_AND_DRAIN, NO_STOP, ClusterQueue, LocalQueue
from fairway.queueing.facts.workloads import JOB_UID_LABEL
from fairway.queueing.facts.workloadstate import ADMISSION_GATED_BY, is_active, is_finished
from fairway.queueing.integrations.construct import IN_USE_FINALIZER
from fairway.queueing.integrations.podsready import WAIT_FOR_RECOVERY, WAIT_FOR_START
from fairway.queueing.outcomes import statuses
from fairway.queueing.outcomes.events import evicted_event

COMPONENT: Final = "kueue-workload-controller"
NORMAL: Final = "Normal"
WARNING: Final = "Warning"

DEACTIVATED: Final = "Deactivated"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
REQUEUING_LIMIT_EXCEEDED: Final = "RequeuingLimitExceeded"
MAX_EXECUTION_EXCEEDED: Final = "MaximumExecutionTimeExceeded"


class WorkloadDecision:
    """What to do, and when to look again in any case."""

    def __init__(self, actions: tuple[Action, ...] = (), again_at_us: int | None = None) -> None:
        self.actions = actions
        self.again_at_us = again_at_us


NOTHING: Final = WorkloadDecision()


class Surroundings:
    """What a Workload's state depends on beside itself.

    `cluster_queue`: of its LocalQueue, or where it holds quota. `blocker`: why it cannot be tried at all, asked
    for only where it matters.
    """

    def __init__(
        self,
        settings: KueueSettings,
        local_queue: LocalQueue | None,
        cluster_queue: ClusterQueue | None,
        is_queue_going: bool,
        blocker: Callable[[Obj], Blocker | None],
    ) -> None:
        self.settings = settings
        self.local_queue = local_queue
        self.cluster_queue = cluster_queue
        self.is_queue_going = is_queue_going
        self.blocker = blocker


def reconcile_workload(obj: Obj, around: Surroundings, now_us: int) -> WorkloadDecision:
    """What to do about one Workload. O(its conditions and checks)."""
    return _Turn(obj, around, now_us).decide()


class _Turn:
    def __init__(self, obj: Obj, around: Surroundings, now_us: int) -> None:
        self.obj = obj
        self.status = status_of(obj)
        self.around = around
        self.settings = around.settings
        self.gates = around.settings.gates
        self.now_us = now_us

    def decide(self) -> WorkloadDecision:
        if not meta_of(self.obj).get("ownerReferences"):
            orphaned = tuple(self._orphaned())
            if orphaned:
                return WorkloadDecision(orphaned)
        if is_finished(self.obj):
            return self._finished()
        retried = self._retry_time()
        if retried:
            return WorkloadDecision((retried,))
        decided = self._active() if is_active(self.obj) else self._inactive()
        if decided is not None:
            return decided
        restarted = tuple(self._restarted())
        if restarted:
            return WorkloadDecision(restarted)
        actions: list[Action] = []
        if not conds.is_true(self.status, conds.ADMITTED):
            actions = self._unadmitted()
        if conds.is_true(self.status, conds.QUOTA_RESERVED):
            return self._holding(actions)
        return WorkloadDecision(tuple(actions))

    # Before anything else

    def _orphaned(self) -> list[Action]:
        meta = meta_of(self.obj)
        going = "deletionTimestamp" in meta
        if not going and not labels_of(self.obj).get(JOB_UID_LABEL):
            return []
        actions: list[Action] = []
        if not going and not is_finished(self.obj):
            ended = statuses.finished(
                self.obj, "OwnerNotFound", "The workload's owner no longer exists", self.now_us
            )
            actions.append(SetStatus(key_of(self.obj), ended["status"]))
        actions.extend(self._let_go())
        return actions

    def _let_go(self) -> list[Action]:
        finalizers = meta_of(self.obj).get("finalizers") or []
        if IN_USE_FINALIZER not in finalizers:
            return []
        kept = [f for f in finalizers if f != IN_USE_FINALIZER]
        return [Patch(key_of(self.obj), {"metadata": {"finalizers": kept or None}})]

    def _finished(self) -> WorkloadDecision:
        if self.settings.retained_us is None:
            return NOTHING
        ended = conds.find(self.status, conds.FINISHED) or {}
        until_us = conds.since_us(ended) + self.settings.retained_us
        if self.now_us < until_us:
            return WorkloadDecision((), until_us)
        if "deletionTimestamp" in meta_of(self.obj):
            return WorkloadDecision(tuple(self._let_go()))
        told = self._told(NORMAL, "Deleted", "Deleted finished workload due to elapsed retention")
        gone = Delete(key_of(self.obj), meta_of(self.obj).get("uid") or "")
        return WorkloadDecision((*self._let_go(), gone, told))

    def _retry_time(self) -> Action | None:
        """A check that says when to try again puts the requeue off."""
        until_us = checks.retry_us(self.obj)
        if until_us <= self.now_us:
            return None
        now = checks.requeue_at_us(self.status)
        if now is not None and now >= until_us:
            return None
        state = {**(self.status.get("requeueState") or {}), "requeueAt": rfc3339(until_us)}
        return self._with(requeueState=state)

    def _active(self) -> WorkloadDecision | None:
        if conds.is_true(self.status, DEACTIVATION_TARGET):
            return WorkloadDecision((Patch(key_of(self.obj), {"spec": {"active": False}}),))
        requeue_us = checks.requeue_at_us(self.status)
        if requeue_us is not None:
            if requeue_us > self.now_us:
                return WorkloadDecision((), requeue_us)
            if not conds.is_true(self.status, conds.QUOTA_RESERVED):
                return WorkloadDecision((self._without_requeue_time(),))
        requeued = conds.find(self.status, conds.REQUEUED)
        if requeued is None or requeued.get("status") != conds.FALSE:
            return None
        if requeued.get("reason") == DEACTIVATED:
            return WorkloadDecision((self._requeued("Reactivated", "The workload was reactivated"),))
        if requeued.get("reason") in (conds.EVICTED_BY_PODS_READY_TIMEOUT, conds.EVICTED_BY_ADMISSION_CHECK):
            return WorkloadDecision((self._requeued("BackoffFinished", "The workload backoff was finished"),))
        return None

    def _without_requeue_time(self) -> Action:
        state = {k: v for k, v in self.status["requeueState"].items() if k != "requeueAt"}
        return self._with(requeueState=state)

    def _requeued(self, reason: str, message: str) -> Action:
        return self._with(conditions=self._condition(conds.REQUEUED, conds.TRUE, reason, message))

    def _inactive(self) -> WorkloadDecision | None:
        is_evicted = conds.is_true(self.status, conds.EVICTED)
        if is_evicted and not self.status.get("requeueState"):
            return None
        target = conds.find(self.status, DEACTIVATION_TARGET)
        status = {k: v for k, v in self.status.items() if k != "requeueState"}
        if target is not None:
            status["conditions"] = [c for c in status["conditions"] if c.get("type") != DEACTIVATION_TARGET]
        if is_evicted:
            return WorkloadDecision((SetStatus(key_of(self.obj), status),))
        cause, message = "", "The workload is deactivated"
        if target is not None:
            cause = target.get("reason") or ""
            message = f"{message} due to {target.get('message') or ''}"
        return WorkloadDecision(
            tuple(self._evicted({**self.obj, "status": status}, DEACTIVATED, message, cause=cause))
        )

    # Queues that stopped and go on, gates, checks

    def _restarted(self) -> list[Action]:
        around = self.around
        lq, cq = around.local_queue, around.cluster_queue
        if lq is not None and lq.stop_policy == NO_STOP and self._waits_for(LOCAL_QUEUE_STOPPED):
            text = "The LocalQueue was restarted after being stopped"
            return [self._requeued("LocalQueueRestarted", text)]
        if self.gates.admission_gated_by:
            gated = [*self._gate()]
            if gated:
                return gated
        if lq is None or cq is None:
            return []
        if cq.stop_policy == NO_STOP and self._waits_for(CLUSTER_QUEUE_STOPPED):
            text = "The ClusterQueue was restarted after being stopped"
            return [self._requeued("ClusterQueueRestarted", text)]
        if cq.admission_checks or self.status.get("admissionChecks"):
            present = self.status.get("admissionChecks") or ()
            wanted = checks.synced(present, checks.needed_checks(self.obj, cq), self.now_us)
            if wanted is not None:
                return [self._with(admissionChecks=wanted or None)]
        return []

    def _waits_for(self, reason: str) -> bool:
        requeued = conds.find(self.status, conds.REQUEUED)
        return (
            requeued is not None
            and requeued.get("status") == conds.FALSE
            and requeued.get("reason") == reason
        )

    def _gate(self) -> list[Action]:
        gate = annotations_of(self.obj).get(ADMISSION_GATED_BY) or ""
        reserved = conds.find(self.status, conds.QUOTA_RESERVED)
        was_gated = reserved is not None and reserved.get("reason") == conds.ADMISSION_GATED
        if bool(gate) == was_gated:
            return []
        if gate:
            told = self._told(NORMAL, "AdmissionGated", f"Workload admission is gated by: {gate}")
            message, reason = f"Admission is gated by: {gate}", conds.ADMISSION_GATED
        else:
            text = "Admission gate cleared, workload is now admissible"
            told = self._told(NORMAL, "AdmissionGateCleared", text)
            message = "AdmissionGatedBy cleared, waiting for quota reservation"
            reason = self._reason(conds.PENDING_EVALUATION, "Pending")
        return [self._without_quota(reason, message), told]

    # Without admission

    def _unadmitted(self) -> list[Action]:
        """What stands in its way, and whether all that is needed is there."""
        changed = self.obj
        if not conds.is_true(self.status, conds.QUOTA_RESERVED):
            blocker = self.around.blocker(self.obj)
            if blocker is not None:
                changed = {
                    **self.obj,
                    "status": {
                        **self.status,
                        "conditions": self._condition(
                            conds.QUOTA_RESERVED, conds.FALSE, blocker.reason, blocker.message
                        ),
                    },
                }
        synced = statuses.with_admitted_synced(changed, self.now_us, self.gates)
        if status_of(synced) == self.status:
            return []
        actions: list[Action] = [SetStatus(key_of(self.obj), synced["status"])]
        if conds.is_true(status_of(synced), conds.ADMITTED):
            reserved = conds.find(self.status, conds.QUOTA_RESERVED) or {}
            waited_s = (self.now_us - conds.since_us(reserved)) / SECOND_US
            queue = (self.status.get("admission") or {}).get("clusterQueue")
            text = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited_s:.0f}s"
            actions.append(self._told(NORMAL, "Admitted", text))
        # The steps after this one look at what is written here.
        self.obj, self.status = synced, status_of(synced)
        return actions

    # With quota

    def _holding(self, actions: list[Action]) -> WorkloadDecision:
        for step in (self._failed_checks, self._local_queue_stopped, self._cluster_queue_stopped):
            taken = step()
            if taken is not None:
                return WorkloadDecision((*actions, *taken))
        evicting, ready_again_us = self._not_ready()
        if evicting:
            return WorkloadDecision((*actions, *evicting))
        exceeded, run_again_us = self._running_too_long()
        again = min((t for t in (ready_again_us, run_again_us) if t is not None), default=None)
        return WorkloadDecision((*actions, *exceeded), again)

    def _failed_checks(self) -> list[Action] | None:
        if conds.is_true(self.status, conds.EVICTED):
            return None
        rejected = checks.in_state(self.obj, checks.REJECTED)
        if rejected:
            message = checks.listed(rejected, checks.REJECTED)
            told = truncated(f"Deactivated due to {message}", MAX_EVENT_MESSAGE)
            return [
                self._deactivating(conds.EVICTED_BY_ADMISSION_CHECK, message),
                self._told(WARNING, "AdmissionCheckRejected", told),
            ]
        retried = checks.in_state(self.obj, checks.RETRY)
        if retried:
            message = f"Evicted due to {checks.listed(retried, checks.RETRY)}"
            return self._evicted(self.obj, conds.EVICTED_BY_ADMISSION_CHECK, message)
        return None

    def _local_queue_stopped(self) -> list[Action] | None:
        queue = self.around.local_queue
        name = spec_of(self.obj).get("queueName") or ""
        if conds.is_true(self.status, conds.ADMITTED):
            if queue is None or queue.stop_policy != HOLD_AND_DRAIN or self._is_evicted():
                return None
            return self._evicted(self.obj, LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped")
        if queue is None:
            return self._unreserved(conds.MISCONFIGURED, f"LocalQueue {name} is terminating or missing")
        if queue.stop_policy != NO_STOP:
            return self._unreserved(conds.SUSPENDED, f"LocalQueue {name} is stopped")
        return None

    def _cluster_queue_stopped(self) -> list[Action] | None:
        queue = self.around.cluster_queue
        if conds.is_true(self.status, conds.ADMITTED):
            if queue is None or queue.stop_policy != HOLD_AND_DRAIN or self._is_evicted():
                return None
            return self._evicted(self.obj, CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped")
        if queue is None or self.around.is_queue_going:
            name = (self.status.get("admission") or {}).get("clusterQueue") or ""
            return self._unreserved(conds.MISCONFIGURED, f"ClusterQueue {name} is terminating or missing")
        if queue.stop_policy != NO_STOP:
            return self._unreserved(conds.SUSPENDED, f"ClusterQueue {queue.name} is stopped")
        return None

    def _unreserved(self, reason: str, message: str) -> list[Action]:
        return [self._without_quota(self._reason(reason, "Inadmissible"), message)]

    def _is_evicted(self) -> bool:
        return conds.is_true(self.status, conds.EVICTED)

    def _not_ready(self) -> tuple[list[Action], int | None]:
        """Its pods were not ready in time: evicted for a while, or for good once that happened too often."""
        waiting = self.settings.pods_ready
        if waiting is None or not is_active(self.obj) or self._is_evicted():
            return [], None
        deadline = _pods_deadline(self.status, waiting)
        if deadline is None:
            return [], None
        cause, until_us = deadline
        if until_us > self.now_us:
            return [], until_us
        count = int((self.status.get("requeueState") or {}).get("count") or 0)
        if waiting.backoff_limit is not None and count + 1 > waiting.backoff_limit:
            text = "exceeding the maximum number of re-queuing retries"
            return [self._deactivating(REQUEUING_LIMIT_EXCEEDED, text)], None
        message = f"Exceeded the PodsReady timeout {namespace_of(self.obj)}/{name_of(self.obj)}"
        requeued = {**self.obj, "status": {**self.status, "requeueState": self._backed_off(waiting, count)}}
        reason = conds.EVICTED_BY_PODS_READY_TIMEOUT
        return self._evicted(requeued, reason, message, cause=cause), None

    def _backed_off(self, waiting: PodsReady, count: int) -> dict[str, Any]:
        """The n-th time waits base × 2^(n-1), up to a maximum.

        Unlike kube: without the jitter of a ten-thousandth, which seconds do not show.
        """
        wait_us = min(waiting.backoff_base_us << min(count, 40), waiting.backoff_max_us)
        state = dict(self.status.get("requeueState") or {})
        state["requeueAt"] = rfc3339(self.now_us + wait_us)
        state["count"] = count + 1
        return state

    def _running_too_long(self) -> tuple[list[Action], int | None]:
        limit_s = spec_of(self.obj).get("maximumExecutionTimeSeconds")
        admitted = conds.find(self.status, conds.ADMITTED)
        if limit_s is None or admitted is None or admitted.get("status") != conds.TRUE:
            return [], None
        past_s = int(self.status.get("accumulatedPastExecutionTimeSeconds") or 0)
        until_us = conds.since_us(admitted) + (int(limit_s) - past_s) * SECOND_US
        if until_us > self.now_us:
            return [], until_us
        if conds.is_true(self.status, DEACTIVATION_TARGET):
            return [], None
        status = {k: v for k, v in self.status.items() if k != "accumulatedPastExecutionTimeSeconds"}
        status["conditions"] = self._condition(
            DEACTIVATION_TARGET, conds.TRUE, MAX_EXECUTION_EXCEEDED, "exceeding the maximum execution time"
        )
        text = f"The maximum execution time ({limit_s}s) exceeded"
        told = self._told(WARNING, MAX_EXECUTION_EXCEEDED, text)
        return [SetStatus(key_of(self.obj), status), told], None

    # Writing

    def _reason(self, reason: str, fallback: str) -> str:
        return reason if self.gates.unadmitted_workloads_observability else fallback

    def _with(self, **fields: Any) -> Action:
        status = dict(self.status)
        for name, value in fields.items():
            if value is None:
                status.pop(name, None)
            else:
                status[name] = value
        return SetStatus(key_of(self.obj), status)

    def _condition(self, kind: str, value: str, reason: str, message: str) -> list[conds.Condition]:
        return with_condition(
            self.status.get("conditions") or [],
            kind,
            value,
            reason=reason,
            message=message,
            now_us=self.now_us,
            generation=int(meta_of(self.obj).get("generation") or 0),
        )

    def _deactivating(self, reason: str, message: str) -> Action:
        return self._with(conditions=self._condition(DEACTIVATION_TARGET, conds.TRUE, reason, message))

    def _without_quota(self, reason: str, message: str) -> Action:
        changed = statuses.without_quota(self.obj, reason, message, self.now_us, self.gates)
        return SetStatus(key_of(self.obj), changed["status"])

    def _evicted(self, obj: Obj, reason: str, message: str, *, cause: str = "") -> list[Action]:
        changed = statuses.evicted(obj, reason, message, self.now_us, cause=cause)
        actions: list[Action] = [SetStatus(key_of(self.obj), changed["status"])]
        if self.status.get("admission") is not None:
            event = evicted_event("", reason, message, cause=cause)
            actions.append(self._told(event.type, event.reason, event.message))
        return actions

    def _told(self, type_: str, reason: str, message: str) -> Emit:
        return Emit(key_of(self.obj), type_, reason, message, COMPONENT)


def _pods_deadline(status: Mapping[str, Any], waiting: PodsReady) -> tuple[str, int] | None:
    """Why, and until when, the pods of an admitted Workload have to be ready; None: they are, or it does not matter."""
    admitted = conds.find(status, conds.ADMITTED)
    if admitted is None or admitted.get("status") != conds.TRUE:
        return None
    ready = conds.find(status, conds.PODS_READY)
    if ready is not None and ready.get("status") == conds.TRUE:
        return None
    reason = WAIT_FOR_START if ready is None else ready.get("reason")
    if reason in (WAIT_FOR_START, "PodsReady"):
        return WAIT_FOR_START, conds.since_us(admitted) + waiting.timeout_us
    if ready is not None and reason == WAIT_FOR_RECOVERY and waiting.recovery_us is not None:
        return WAIT_FOR_RECOVERY, conds.since_us(ready) + waiting.recovery_us
    return None
