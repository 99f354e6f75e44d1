"""Gangs in kube-scheduler: who waits on a node for the others, and who is tried as one group.

Two plugins share this. With *Coscheduling* a pod that found a node waits there until its group's quorum is met, a
pod of the group finds none, or time is up. With *GangScheduling* a group is tried in one cycle and nobody waits.

A waiting pod is in no queue and not bound; while the scheduler decides, it counts on its node (`assume`,
`forget`), so that nobody is promised the same place. Between events the accounts hold only what the store holds.

Unlike kube: a PodGroup of GangScheduling does not preempt, and is tried again when something changed that may
help, not at every backoff.

Source: scheduler-plugins pkg/coscheduling; kubernetes pkg/scheduler/schedule_one_podgroup.go (v1.36),
framework/runtime/waiting_pods_map.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.cluster.records import PodRecord
from fairway.kube.conditions import set_condition
from fairway.kube.durations import go_duration_us
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US, rfc3339
from fairway.scheduling import coscheduling, gangscheduling
from fairway.scheduling.coscheduling import PodGroup
from fairway.scheduling.cycle import Diagnosis, Scheduler
from fairway.scheduling.profile import Profile
from fairway.scheduling.queue import PARKED, QueuedPod
from fairway.scheduling.verdict import Scheduled, Unschedulable
from fairway.twin.loop import SCHEDULER

if TYPE_CHECKING:
    from fairway.twin.scheduler import SchedulerComponent

# podMaxInUnschedulablePodsDuration: who was refused is tried again after this long, whatever happens.
_FLUSH_US = 5 * MINUTE_US


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that waits on `node` for its group, until `ticket` is due."""

    record: PodRecord
    verdict: Scheduled
    group: Key
    queued_us: int
    ticket: int
    wait_us: int
    since: int
    """The queue's ticket when it began: only who was refused later was refused because of it."""


class Gangs:
    """What one scheduler knows of groups. `None` in its place where no profile has either plugin."""

    kinds = (coscheduling.POD_GROUP, gangscheduling.POD_GROUP)

    def __init__(self, profiles: dict[str, Profile]) -> None:
        self._profiles = profiles
        self.group_of: dict[Key, Key] = {}
        """By pod, its group: of pods that are there and not finished."""
        self._members: dict[Key, dict[Key, None]] = {}
        self.waiting: dict[Key, Waiting] = {}
        self._backed_off: dict[Key, int] = {}
        self._permitted: dict[Key, int] = {}
        self._first: Key | None = None
        """The group whose siblings are tried next: its first pod has just begun to wait."""
        self._flushes: dict[Key, int] = {}
        self._failed: dict[Key, int] = {}
        """When a group was last rejected: it stands behind those that came before that."""

    @staticmethod
    def wanted(profiles: dict[str, Profile]) -> bool:
        return any(p.permits for p in profiles.values())

    def attach(self, scheduler: SchedulerComponent) -> None:
        self._its = scheduler
        self._loop, self._store = scheduler.host.loop, scheduler.host.store
        self._time_out = self._loop.register(f"{scheduler.name}.permit", self._on_timeout)
        self._flush = self._loop.register(f"{scheduler.name}.flush", self._on_flush)

    def fork(self) -> Gangs:
        twin = Gangs(self._profiles)
        twin.group_of = dict(self.group_of)
        twin._members = {group: dict(pods) for group, pods in self._members.items()}
        twin.waiting = {k: replace(w, record=w.record.copy()) for k, w in self.waiting.items()}
        twin._backed_off, twin._permitted = dict(self._backed_off), dict(self._permitted)
        twin._first, twin._flushes = self._first, dict(self._flushes)
        twin._failed = dict(self._failed)
        return twin

    # What it sees

    def observe(self, change: Change, now_us: int) -> None:
        """Follow who belongs to which group; wake a group that a new pod or PodGroup may help."""
        gk = change.key.gk
        if gk in self.kinds:
            if change.old is None or change.old.get("spec") != change.obj.get("spec"):
                self._release(change.key, now_us)
            return
        if gk != "Pod":
            return
        phase = (change.obj.get("status") or {}).get("phase")
        group = None
        if change.type != DELETED and phase not in ("Succeeded", "Failed"):
            group = self._group_named(change.obj)
        before = self.group_of.get(change.key)
        if before is not None and before != group:
            del self.group_of[change.key]
            self._members[before].pop(change.key, None)
        if group is not None and before != group:
            self.group_of[change.key] = group
            self._members.setdefault(group, {})[change.key] = None
        is_leaving = change.type == DELETED or "deletionTimestamp" in change.obj["metadata"]
        if change.key in self.waiting and (is_leaving or group is None):
            self._drop(change.key, now_us)
        if group is not None and change.type == ADDED:
            self._release(group, now_us, but=change.key)

    def _group_named(self, pod: Obj) -> Key | None:
        name = pod["spec"].get("schedulerName") or "default-scheduler"
        profile = self._profiles.get(name)
        if profile is None:
            return None
        if gangscheduling.NAME in profile.permits:
            found = gangscheduling.group_key(pod)
            if found is not None:
                return found
        return coscheduling.group_key(pod) if coscheduling.NAME in profile.permits else None

    def _release(self, group: Key, now_us: int, but: Key | None = None) -> None:
        """Queue pods that PreEnqueue held back, and try refused ones again."""
        for key in self._members.get(group, ()):
            line = self._its.queue.line_of(key)
            if line is not None:
                self._its.queue.unpark(line.key, now_us)
            elif key != but and group.gk == gangscheduling.POD_GROUP and not self.is_held_back(key):
                pod = self._store.get(key)
                if pod is not None and self._its.is_to_queue(pod):
                    self._its.enqueue(key, pod, now_us)

    def is_held_back(self, key: Key) -> bool:
        """PreEnqueue: not to be queued before its group is complete."""
        group = self.group_of.get(key)
        if group is None or group.gk != gangscheduling.POD_GROUP:
            return False
        return bool(gangscheduling.why_held_back(group, self._store.get(group), len(self._members[group])))

    def why_not(self, key: Key, pod: Obj) -> str:
        """What its group alone has against placing a pod now; "" where it has nothing. Nothing is changed."""
        group = self.group_of.get(key) or self._group_named(pod)
        if group is None:
            return ""
        found, members = self._store.get(group), self._members.get(group) or {}
        if group.gk == gangscheduling.POD_GROUP:
            return gangscheduling.why_held_back(group, found, len(members))
        if found is None:
            return ""
        read = coscheduling.read_group(group, found)
        pods = [p for k in members if (p := self._store.get(k)) is not None]
        why = coscheduling.why_too_few(key.name, read, pods)
        if why or read.min_resources is None:
            return why
        return coscheduling.why_no_room(read, self._its.accounts, members)

    def company(self, key: Key, pod: Obj) -> tuple[Key, int, tuple[Key, ...]] | None:
        """Its group, how many pods of it have to start together (-1: it is not there), and who belongs to it; None: it
        is in no group."""
        group = self.group_of.get(key) or self._group_named(pod)
        if group is None:
            return None
        found = self._store.get(group)
        if found is None:
            return group, -1, ()
        is_native = group.gk == gangscheduling.POD_GROUP
        least = (
            gangscheduling.min_count(found) if is_native else coscheduling.read_group(group, found).min_member
        )
        return group, least, tuple(self._members.get(group) or ())

    def plugin_of(self, key: Key, pod: Obj) -> str:
        """Whose word on its group it is."""
        group = self.group_of.get(key) or self._group_named(pod)
        is_native = group is not None and group.gk == gangscheduling.POD_GROUP
        return gangscheduling.NAME if is_native else coscheduling.NAME

    def age_us(self, key: Key, queued_us: int) -> int:
        """QueueSort: a pod is as old as its PodGroup, or as its last rejection."""
        group = self.group_of.get(key)
        if group is None or group.gk != coscheduling.POD_GROUP:
            return queued_us
        found = self._store.get(group)
        if group in self._failed or found is None:
            return self._failed.get(group, queued_us)
        return coscheduling.read_group(group, found).created_us

    def told_to(self, other: str, message: str, name: str) -> str:
        """What a pod of the same line is told: a group's words name the pod."""
        return message.replace(f"od {name} ", f"od {other} ")

    # Who counts on a node without being bound

    def assume(self) -> None:
        """Count the waiting on their nodes. Every `assume` has its `forget` within the same event."""
        for waiting in self.waiting.values():
            self._place(waiting)

    def forget(self) -> None:
        for waiting in self.waiting.values():
            self._displace(waiting.record)

    def _place(self, waiting: Waiting) -> None:
        row = self._its.accounts.row_of.get(waiting.verdict.node)
        if row is not None:
            self._its.accounts.place(waiting.record, row)
        self._its.devices.hold(waiting.record.key)

    def _displace(self, record: PodRecord) -> None:
        self._its.devices.let_go(record.key)
        if record.row >= 0:
            self._its.accounts.displace(record)

    # Turns

    def sibling(self) -> QueuedPod | None:
        """The next pod of the group that has just begun to wait: siblings sort together (QueueSort)."""
        group = self._first
        if group is None:
            return None
        for key in sorted(self._members.get(group, ())):
            queued = self._its.queue.pod(key)
            line = self._its.queue.line_of(key)
            if queued is not None and line is not None and line.state != PARKED:
                return queued
        self._first = None
        return None

    def try_pod(self, scheduler: Scheduler, queued: QueuedPod, obj: Obj, now_us: int) -> None:
        """One cycle of a pod that names a group."""
        group = self.group_of[queued.key]
        if group.gk == gangscheduling.POD_GROUP:
            self._try_group(scheduler, group, now_us)
            return
        found = self._store.get(group)
        read = None if found is None else coscheduling.read_group(group, found)
        why = "" if read is None else self._prefilter(scheduler, queued, read, now_us)
        if why:
            self._its.refuse(scheduler, queued, obj, self.everywhere(why), now_us)
            return
        verdict = scheduler.place(queued.record, self._its.draw())
        if not isinstance(verdict, Scheduled):
            self._its.refuse(scheduler, queued, obj, verdict, now_us)
        elif read is None:
            self._its.refuse_at_permit(queued, obj, coscheduling.NOT_FOUND, (coscheduling.NAME,), now_us)
        else:
            self._permit(scheduler, queued, obj, verdict, read, now_us)

    def everywhere(self, why: str, plugin: str = coscheduling.NAME) -> Diagnosis:
        """The group's word, as every node's."""
        rows = self._its.accounts.alive.shape[0]
        nothing = np.zeros(rows, np.int64)
        return Diagnosis(nothing, nothing, np.ones(rows, np.bool_), prefilter=why, prefilter_plugin=plugin)

    # Coscheduling

    def _prefilter(self, scheduler: Scheduler, queued: QueuedPod, group: PodGroup, now_us: int) -> str:
        full_name = f"{group.key.namespace}/{group.key.name}"
        if self._backed_off.get(group.key, 0) > now_us:
            return f"podGroup {full_name} failed recently"
        pods = [p for k in self._members[group.key] if (p := self._store.get(k)) is not None]
        why = coscheduling.why_too_few(queued.key.name, group, pods)
        if why or group.min_resources is None or self._permitted.get(group.key, 0) > now_us:
            return why
        why = coscheduling.why_no_room(group, self._its.accounts, self._members[group.key])
        if not why:
            self._permitted[group.key] = now_us + scheduler.profile.coscheduling.permit_waiting_us
        return why

    def _assigned(self, group: Key) -> int:
        """How many of the group are bound or wait: for others, or for their volumes."""
        count = 0
        for key in self._members.get(group, ()):
            pod = self._store.get(key)
            waits = key in self.waiting or key in self._its.volumes.waiting
            count += waits or (pod is not None and bool(pod["spec"].get("nodeName")))
        return count

    def _permit(
        self,
        scheduler: Scheduler,
        queued: QueuedPod,
        obj: Obj,
        verdict: Scheduled,
        group: PodGroup,
        now_us: int,
    ) -> None:
        assigned = self._assigned(group.key) + 1
        if assigned >= group.min_member:
            self._failed.pop(group.key, None)
            self._its.bind(scheduler, queued, obj, verdict, now_us)
            self._allow(scheduler, group.key, now_us)
            return
        wait_us = coscheduling.waits_us(group, scheduler.profile.coscheduling)
        self._its.queue.admitted(queued)
        scheduler.nominated.pop(queued.key, None)
        ticket = self._loop.at(now_us + wait_us, self._time_out, queued.key, SCHEDULER)
        since = self._its.queue.ticket
        waiting = Waiting(queued.record, verdict, group.key, queued.queued_us, ticket, wait_us, since)
        self.waiting[queued.key] = waiting
        self._its.devices.promise(scheduler, queued.record, verdict.node)
        self._place(waiting)
        if assigned == 1:
            for key in self._members[group.key]:
                line = self._its.queue.line_of(key)
                if line is not None:
                    self._its.queue.retry(line.key)
        self._first = group.key

    def _allow(self, scheduler: Scheduler, group: Key, now_us: int) -> None:
        """The quorum is met: all that wait are bound."""
        for key in [k for k, w in self.waiting.items() if w.group == group]:
            waiting = self._stop(key)
            obj = self._store.get(key)
            if obj is not None and "deletionTimestamp" not in obj["metadata"]:
                self._its.bind_waiting(scheduler, waiting.record, obj, waiting.verdict, now_us)
            self._its.devices.forgo(key)

    def _stop(self, key: Key) -> Waiting:
        """It waits no more, and counts on no node. A place it does not hold now is none to give up."""
        waiting = self.waiting.pop(key)
        self._loop.cancel(waiting.ticket)
        self._displace(waiting.record)
        return waiting

    def after_filters(
        self, scheduler: Scheduler, queued: QueuedPod, verdict: Unschedulable, now_us: int
    ) -> Unschedulable:
        """PostFilter, where nothing can be preempted: it may end the wait of the whole group."""
        if coscheduling.NAME not in scheduler.profile.permits:
            return verdict
        key = self.group_of.get(queued.key)
        found = None if key is None else self._store.get(key)
        if key is None or found is None:
            return replace(verdict, message=f"{verdict.message}, {coscheduling.NO_POD_GROUP}")
        group, args = coscheduling.read_group(key, found), scheduler.profile.coscheduling
        if not coscheduling.rejects_all(self._assigned(key), group, args):
            return verdict
        if args.backoff_us and len(self._members[key]) >= group.min_member:
            self._backed_off[key] = now_us + args.backoff_us
            self._plan_flush(key, now_us + args.backoff_us)
        self._reject_all(key, coscheduling.OPTIMISTIC_REJECTION, now_us)
        why = (
            f"PodGroup {key.namespace}/{key.name} gets rejected due to Pod {queued.key.name} is unschedulable "
            "even after PostFilter"
        )
        plugins = tuple(sorted({*verdict.plugins, coscheduling.NAME}))
        return replace(verdict, message=f"{verdict.message}, {why}", plugins=plugins)

    def _reject_all(self, group: Key, why: str, now_us: int) -> None:
        self._permitted.pop(group, None)
        self._failed[group] = now_us
        if self._first == group:
            self._first = None
        for key in [k for k, w in self.waiting.items() if w.group == group]:
            self.reject(key, why, now_us)

    def reject(self, key: Key, why: str, now_us: int) -> None:
        """A waiting pod gives up its place and goes back to the queue, told why."""
        waiting = self._stop(key)
        self._its.devices.forgo(key)
        obj = self._store.get(key)
        self._its.freed(waiting.since, waiting.group, now_us)
        if obj is None or not self._its.is_to_queue(obj):
            return
        self._its.enqueue(key, obj, waiting.queued_us)
        queued = self._its.queue.pod(key)
        if queued is not None:
            self._its.refuse_at_permit(queued, obj, why, (coscheduling.NAME, "NodeResourcesFit"), now_us)
        self._plan_flush(waiting.group, now_us + _FLUSH_US)

    def _drop(self, key: Key, now_us: int) -> None:
        """A waiting pod was deleted: its siblings wait in vain (Unreserve)."""
        waiting = self._stop(key)
        self._its.devices.forgo(key)
        self._its.freed(waiting.since, waiting.group, now_us)
        self._reject_all(waiting.group, coscheduling.REJECTED_IN_UNRESERVE, now_us)

    def _on_timeout(self, key: Key) -> None:
        waiting = self.waiting.get(key)
        if waiting is None:
            return
        now_us = self._loop.now_us
        why = f"rejected due to timeout after waiting {go_duration_us(waiting.wait_us)} at plugin {coscheduling.NAME}"
        self.reject(key, why, now_us)
        self._reject_all(waiting.group, coscheduling.REJECTED_IN_UNRESERVE, now_us)
        self._its.arm()

    def _plan_flush(self, group: Key, at_us: int) -> None:
        if self._flushes.get(group, 0) < at_us:
            self._flushes[group] = at_us
            self._loop.at(at_us, self._flush, group, SCHEDULER)

    def _on_flush(self, group: Key) -> None:
        if self._flushes.get(group) == self._loop.now_us:
            del self._flushes[group]
            self._release(group, self._loop.now_us)
            self._its.arm()

    # GangScheduling

    def _try_group(self, scheduler: Scheduler, group: Key, now_us: int) -> None:
        """All queued pods of the group against one state of the cluster; all that fit are bound, or none."""
        found = self._store.get(group)
        queued = [q for k in self._members[group] if (q := self._its.queue.pod(k)) is not None]
        queued.sort(key=lambda q: (-q.record.shape.priority, q.queued_us, q.sequence))
        bound = self._assigned(group)
        placed: list[tuple[QueuedPod, Scheduled]] = []
        refused: list[tuple[QueuedPod, Diagnosis]] = []
        for pod in queued:
            verdict = scheduler.place(pod.record, self._its.draw())
            if isinstance(verdict, Scheduled):
                placed.append((pod, verdict))
                self._its.devices.promise(scheduler, pod.record, verdict.node)
                self._its.accounts.place(pod.record, self._its.accounts.row_of[verdict.node])
            else:
                refused.append((pod, verdict))
        for pod, _ in placed:
            self._displace(pod.record)
        needed = 0 if found is None else gangscheduling.min_count(found)
        is_whole = found is not None and bound + len(placed) >= needed and bool(placed)
        for pod, verdict in placed:
            obj = self._store.require(pod.key)
            if is_whole:
                self._its.bind(scheduler, pod, obj, verdict, now_us)
            else:
                self._its.devices.forgo(pod.key)
                why = f"{gangscheduling.UNSCHEDULABLE}, {gangscheduling.TOO_FEW_SCHEDULED}"
                self._its.park_and_tell(pod, obj, why, ("NodeResourcesFit", gangscheduling.NAME), now_us)
        for pod, diagnosis in refused:
            self._its.refuse(
                scheduler, pod, self._store.require(pod.key), diagnosis, now_us, may_preempt=False
            )
        if found is not None:
            self._mark(group, found, is_whole=is_whole, now_us=now_us)

    def _mark(self, group: Key, found: Obj, *, is_whole: bool, now_us: int) -> None:
        """The PodGroupScheduled condition. Once true it stays so."""
        status = found.get("status") or {}
        old = [c for c in status.get("conditions") or () if c["type"] == gangscheduling.SCHEDULED_TYPE]
        if not is_whole and old and old[0]["status"] == "True":
            return
        conditions = set_condition(
            status.get("conditions"),
            gangscheduling.SCHEDULED_TYPE,
            "True" if is_whole else "False",
            "Scheduled" if is_whole else "Unschedulable",
            "" if is_whole else gangscheduling.UNSCHEDULABLE,
            rfc3339(now_us),
        )
        self._store.set_status(group, {**status, "conditions": conditions})
