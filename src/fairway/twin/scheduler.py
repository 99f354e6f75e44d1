"""kube-scheduler on the loop: takes pending pods in turn, decides, binds, preempts and says why not.

The decisions are `fairway.scheduling`'s; this carries them out against the store: bindings, the PodScheduled
condition, nominations, evictions, and the events and words kube-scheduler would use.
Source: pkg/scheduler/schedule_one.go, eventhandlers.go, framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.devices import GPU_INDEX_ANNOTATION, annotation_of
from fairway.cluster.records import PodRecord
from fairway.kube.conditions import set_condition
from fairway.kube.objects import Key, Obj, key_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import rfc3339
from fairway.scheduling.cycle import Diagnosis, Scheduler
from fairway.scheduling.extenders import ExtenderError, Extenders
from fairway.scheduling.hami.requests import SCHEDULER as HAMI
from fairway.scheduling.preemption import budgets_of, explain
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.scheduling.queue import PARKED, LineKey, QueuedPod, SchedulingQueue
from fairway.scheduling.requeue import DEVICES, VOLUMES, happening, wake
from fairway.scheduling.verdict import Scheduled, Unschedulable, Verdict
from fairway.twin.components import Host
from fairway.twin.devices.reserving import BindingError, Reservations
from fairway.twin.gangs import Gangs
from fairway.twin.kubeevents import NORMAL, WARNING
from fairway.twin.loop import NO_TIME, SCHEDULER
from fairway.twin.owners import DefaultSelectors
from fairway.twin.podchanges import asks_the_same, changes_nothing_here, is_to_schedule, shortened
from fairway.twin.volumes.waiting import VolumeWaits

_PDB: Final = "PodDisruptionBudget.policy"
_CYCLES_AT_ONCE: Final = 32


@dataclass(slots=True)
class Told:
    """What a parked line was last told: pods that join it hear the same without a cycle of their own."""

    message: str
    versions: tuple[int, int]


class SchedulerComponent:
    """One kube-scheduler process with one or more profiles."""

    name = "default-scheduler"
    kinds: tuple[str, ...] = ("Pod", "Node", "Namespace", *VOLUMES, *DEVICES)

    def __init__(
        self, profiles: Iterable[Profile] = (DEFAULT_PROFILE,), name: str = "default-scheduler"
    ) -> None:
        self.name = name
        self._profiles = {p.scheduler_name: p for p in profiles}
        self.gangs = Gangs(self._profiles) if Gangs.wanted(self._profiles) else None
        if self.gangs is not None:
            self.kinds = (*self.kinds, *Gangs.kinds)
        self.volumes = VolumeWaits()
        self.devices = Reservations()
        self.queue = SchedulingQueue()
        self._told: dict[LineKey, Told] = {}
        self._armed_us = NO_TIME
        self._retry_us = NO_TIME
        self._tokens_milli = 0
        self._tokens_us = 0
        self._lines_by_labels = False
        self.is_asked = False  # A question is answered: nothing may be changed.
        self._to_tell: list[tuple[Key, str]] = []
        self._state: dict[str, tuple[int, dict[Key, tuple[PodRecord, str]]]] = {}

    def attach(self, host: Host) -> None:
        self.host = host
        self.accounts = host.store.accounts
        self.selectors = DefaultSelectors(host.store)
        self.schedulers: dict[str, Scheduler] = {}
        for profile in self._profiles.values():
            self._open(profile)
        self._cycle = host.loop.register(f"{self.name}.cycle", self._on_cycle)
        self._again = host.register_again(f"{self.name}.again", self._on_again)
        self._cycle_us = host.latency.scheduler_cycle.sampler(host.streams.stream(f"{self.name}/cycle"))
        self._is_instant = host.latency.scheduler_cycle.is_zero and not host.latency.scheduler_qps
        self._draws = host.streams.stream(f"{self.name}/ties")
        if self.gangs is not None:
            self.gangs.attach(self)
        self.volumes.attach(self)
        self.devices.attach(self)

    def _open(self, profile: Profile) -> Scheduler:
        """Schedule pods by this profile from now on."""
        name, store = profile.scheduler_name, self.host.store
        scheduler = Scheduler(self.accounts, profile, self.selectors.of, view=store)
        if name == HAMI:
            from fairway.twin.devices.hami import HamiExtender

            scheduler.extenders = Extenders(profile.extenders, HamiExtender(self), store)
        elif profile.extenders:
            from fairway.twin.extendercalls import call

            scheduler.extenders = Extenders(profile.extenders, call, store)
        if name in self._state:
            scheduler.next_start, scheduler.nominated = self._state[name]
        self._profiles[name], self.schedulers[name] = profile, scheduler
        return scheduler

    def _of_hami(self) -> Scheduler:
        """HAMi brings a kube-scheduler of its own: opened for its first pod."""
        from fairway.scheduling.hami.profile import HAMI_PROFILE

        scheduler = self._open(HAMI_PROFILE)
        self.devices.share_with(scheduler)
        return scheduler

    def start(self) -> None:
        self._tokens_milli = self.host.latency.scheduler_burst * 1000
        self._tokens_us = self.host.loop.now_us

    def fork(self) -> SchedulerComponent:
        twin = SchedulerComponent(self._profiles.values(), self.name)
        twin.queue = self.queue.fork()
        if self.gangs is not None:
            twin.gangs = self.gangs.fork()
        twin.volumes = self.volumes.fork()
        twin.devices = self.devices.fork()
        twin._told = {key: Told(t.message, t.versions) for key, t in self._told.items()}
        twin._armed_us = self._armed_us
        twin._retry_us = self._retry_us
        twin._tokens_milli, twin._tokens_us = self._tokens_milli, self._tokens_us
        twin._lines_by_labels = self._lines_by_labels
        twin._to_tell = list(self._to_tell)
        twin._state = {
            name: (s.next_start, {key: (r.copy(), node) for key, (r, node) in s.nominated.items()})
            for name, s in self.schedulers.items()
        }
        return twin

    @property
    def profiles(self) -> tuple[Profile, ...]:
        return tuple(self._profiles.values())

    # What it sees

    def observe(self, change: Change) -> None:
        now_us = self.host.loop.now_us
        if self.gangs is not None:
            self.gangs.observe(change, now_us)
        if self.volumes.waiting:
            self.volumes.observe(change, now_us)
        self.devices.observe(change, now_us)
        if change.key.gk == "Pod":
            if changes_nothing_here(change):
                return
            self._observe_pod(change, now_us)
        elif change.key.gk == "Namespace":
            self.queue.unpark_all(now_us)
        if self.queue.has_parked:
            event = happening(change)
            if event is not None:
                wake(self.queue, self.accounts, event, now_us, self._ignores, self.devices.uses)
        if self._armed_us < now_us:
            self.arm()

    def _ignores(self, resource: str) -> bool:
        """Whether every profile leaves this resource to somebody else."""
        return all(p.ignores(resource) for p in self._profiles.values())

    def _observe_pod(self, change: Change, now_us: int) -> None:
        key, pod = change.key, change.obj
        spec = pod["spec"]
        if spec.get("nodeName") and key not in self.queue and not self._are_any_nominated:
            return
        scheduler = self.schedulers.get(spec.get("schedulerName") or DEFAULT_PROFILE.scheduler_name)
        if scheduler is None and spec.get("schedulerName") == HAMI and self.name != HAMI:
            scheduler = self._of_hami()
        if scheduler is None:
            return
        if change.type == DELETED or spec.get("nodeName") or not is_to_schedule(pod):
            self.queue.remove(key)
            scheduler.nominated.pop(key, None)
            return
        old = change.old
        if key in self.queue and old is not None and asks_the_same(old, pod):
            return
        if key in self.volumes.waiting or key in self.devices.waiting:
            return
        if self.devices.holds(key, pod):
            self.queue.remove(key)
            return
        if self.gangs is not None and (key in self.gangs.waiting or self.gangs.is_held_back(key)):
            self.queue.remove(key)
            return
        record = self.accounts.record(pod, key)
        nominated = status_of(pod).get("nominatedNodeName")
        if nominated and key not in scheduler.nominated:
            scheduler.nominated[key] = (record, nominated)
        line = self._line(record)
        self.queue.add(record, line, now_us if self.gangs is None else self.gangs.age_us(key, now_us))
        self._hear_why(key, line)

    def enqueue(self, key: Key, pod: Obj, queued_us: int) -> None:
        """A pod that was held back or waited for its gang takes its place in the queue."""
        record = self.accounts.record(pod, key)
        at_us = queued_us if self.gangs is None else self.gangs.age_us(key, queued_us)
        self.queue.add(record, self._line(record), at_us)

    def is_to_queue(self, pod: Obj) -> bool:
        return is_to_schedule(pod) and not pod["spec"].get("nodeName")

    @property
    def _are_any_nominated(self) -> bool:
        return any(s.nominated for s in self.schedulers.values())

    def _hear_why(self, key: Key, line: LineKey) -> None:
        """A pod that joins a parked line is told what the line was told, if that is still fresh."""
        standing = self.queue.line_of(key)
        if standing is None or standing.state != PARKED:
            return
        told = self._told.get(line)
        if told is not None and told.versions == self._versions():
            self._to_tell.append((key, told.message))
        else:
            self.queue.retry(line)

    def _line(self, record: PodRecord) -> LineKey:
        """Pods that filters judge alike share a line. Labels matter once anybody looks at them."""
        if self.accounts.counts.has_carried and not self._lines_by_labels:
            self._lines_by_labels = True
            for queued in self.queue.pods():
                self.queue.add(queued.record, self._line(queued.record), queued.queued_us)
        shape = record.shape
        if any(p.extenders for p in self._profiles.values()):
            return (shape.id, record.labels.id, record.key)
        gang = None if self.gangs is None else self.gangs.group_of.get(record.key)
        if gang is not None:
            return (shape.id, record.labels.id, gang)
        if shape.has_devices or any(is_ephemeral for _, is_ephemeral in shape.claims):
            # What is said of them names the pod, or depends on its own claims.
            return (shape.id, record.labels.id, record.key)
        if self._lines_by_labels or shape.has_pod_terms or shape.spread:
            return (shape.id, record.labels.id, None)
        return (shape.id, -1, None)

    # Taking turns

    def arm(self) -> None:
        """Make sure a cycle is due when there is a pod to try."""
        loop = self.host.loop
        if self._armed_us >= loop.now_us:
            return
        if not self._to_tell and not self.queue.has_work(loop.now_us):
            self._arm_retry()
            return
        self._armed_us = loop.now_us + self._cycle_us() + self._wait_for_token_us()
        loop.at(self._armed_us, self._cycle, None, SCHEDULER)

    def _arm_retry(self) -> None:
        """Nobody to try now; a line may wait for time alone (an error's backoff)."""
        due_us = self.queue.retry_at_us()
        if due_us is not None and due_us != self._retry_us:
            self._retry_us = due_us
            self.host.loop.at(due_us, self._cycle, None, SCHEDULER)

    def _wait_for_token_us(self) -> int:
        """How long the client's rate limit holds back the next write (0 where none is set)."""
        latency = self.host.latency
        if not latency.scheduler_qps:
            return 0
        now_us = self.host.loop.now_us
        gained = (now_us - self._tokens_us) * latency.scheduler_qps // 1000
        self._tokens_milli = min(self._tokens_milli + gained, latency.scheduler_burst * 1000)
        self._tokens_us = now_us
        self._tokens_milli -= 1000
        return max(0, -self._tokens_milli * 1000 // latency.scheduler_qps)

    def _on_cycle(self, _data: None) -> None:
        self._armed_us = NO_TIME
        now_us = self.host.loop.now_us
        if self.gangs is not None:
            self.gangs.assume()
        self.volumes.assume()
        self.devices.assume()
        # Where a cycle takes no time, a few of them share an event: nobody could look in between.
        for _ in range(_CYCLES_AT_ONCE if self._is_instant else 1):
            if self._to_tell:
                self._tell_next(now_us)
                continue
            pod = self._next(now_us)
            if pod is None:
                break
            try:
                self._try(pod, now_us)
            except Exception as failed:
                self._leave_out(pod.record.key, failed)
            else:
                self.host.went_well(self._again, pod.record.key)
        if self.gangs is not None:
            self.gangs.forget()
        self.volumes.forget()
        self.devices.forget()
        self.arm()

    def _leave_out(self, key: Key, failed: Exception) -> None:
        """A pod that a cycle stumbled over waits outside of the queue: everybody behind it has their turn."""
        self.queue.remove(key)
        self._forget_nominated(key)
        self.host.contain(self._again, key, failed)

    def _forget_nominated(self, key: Key) -> None:
        for scheduler in self.schedulers.values():
            scheduler.nominated.pop(key, None)

    def _on_again(self, key: Key) -> None:
        """Into the queue with it once more."""
        pod = self.host.store.get(key)
        if pod is not None and key not in self.queue and self.is_to_queue(pod):
            self.enqueue(key, pod, self.host.loop.now_us)
            self.arm()

    def _next(self, now_us: int) -> QueuedPod | None:
        """Who is tried now: a sibling of the gang that has begun to wait, unless somebody is more important."""
        head = self.queue.head(now_us)
        sibling = None if self.gangs is None else self.gangs.sibling()
        is_behind = sibling is None or (head and head.record.shape.priority > sibling.record.shape.priority)
        return head if is_behind else sibling

    def _tell_next(self, now_us: int) -> None:
        key, message = self._to_tell.pop(0)
        queued, obj = self.queue.pod(key), self.host.store.get(key)
        if queued is not None and obj is not None and not queued.is_told:
            self._tell(queued, obj, message, now_us)

    def _try(self, queued: QueuedPod, now_us: int) -> None:
        record = queued.record
        obj = self.host.store.get(record.key)
        if obj is None or meta_of(obj).get("uid") != record.uid:
            self.queue.remove(record.key)
            return
        scheduler = self.schedulers[record.shape.scheduler_name]
        if self.gangs is not None and record.key in self.gangs.group_of:
            self.gangs.try_pod(scheduler, queued, obj, now_us)
            return
        verdict = scheduler.place(record, self.draw(), now_us)
        if isinstance(verdict, Scheduled):
            self.bind(scheduler, queued, obj, verdict, now_us)
        else:
            self.refuse(scheduler, queued, obj, verdict, now_us)

    def draw(self) -> int:
        return self._draws.getrandbits(30)

    def asked(self, pod: Obj) -> tuple[Verdict, Diagnosis | None]:
        """What a cycle of its own would decide about a pod now, and of a no what every node said. Nothing is changed.

        Raises: KeyError where no profile schedules it.
        """
        scheduler = self.schedulers[spec_of(pod).get("schedulerName") or DEFAULT_PROFILE.scheduler_name]
        key = key_of(pod)
        record = self.accounts.record(pod, key)
        why = "" if self.gangs is None else self.gangs.why_not(key, pod)
        began = scheduler.next_start
        self.is_asked = True
        try:
            found = (
                scheduler.place(record, 0, self.host.loop.now_us) if not why else self._nowhere(why, key, pod)
            )
        finally:
            self.is_asked = False
        scheduler.next_start = began
        if isinstance(found, Scheduled):
            return found, None
        if found.error:
            return Unschedulable(found.error, (), (), self.accounts.node_count), found
        return explain(scheduler, record, found, budgets_of(self.host.store.objects(_PDB))), found

    def _nowhere(self, why: str, key: Key, pod: Obj) -> Diagnosis:
        assert self.gangs is not None
        return self.gangs.everywhere(why, self.gangs.plugin_of(key, pod))

    def _versions(self) -> tuple[int, int]:
        """Two equal pairs: no node and no account changed in between."""
        return (len(self.accounts.touched), len(self.accounts.respecced))

    # Carrying it out

    def bind(
        self, scheduler: Scheduler, queued: QueuedPod, obj: Obj, verdict: Scheduled, now_us: int
    ) -> None:
        self.queue.admitted(queued)
        self.bind_waiting(scheduler, queued.record, obj, verdict, now_us)

    def bind_waiting(
        self, scheduler: Scheduler, record: PodRecord, obj: Obj, verdict: Scheduled, now_us: int
    ) -> None:
        """Bind a pod that is in no queue (any more), once its claims are."""
        try:
            if self.devices.reserve(scheduler, record, obj, verdict, now_us):
                return
        except BindingError as failed:
            self.fail_binding(record, str(failed), now_us)
            return
        if scheduler.devices is not None:
            obj = self.host.store.require(record.key)
        self.bind_ready(scheduler, record, obj, verdict, now_us)

    def bind_ready(
        self, scheduler: Scheduler, record: PodRecord, obj: Obj, verdict: Scheduled, now_us: int
    ) -> None:
        """Bind a pod whose devices are ready, once its volumes are."""
        if record.shape.claims and self.volumes.reserve(scheduler, record, verdict):
            return
        key = record.key
        if scheduler.extenders is not None:
            try:
                scheduler.extenders.binds(obj, verdict.node)
            except ExtenderError as failed:
                self.fail_binding(record, str(failed), now_us)
                return
        scheduler.nominated.pop(key, None)
        status = {**(obj.get("status") or {})}
        status.pop("nominatedNodeName", None)
        now = rfc3339(now_us)
        status["conditions"] = set_condition(
            status.get("conditions"), "PodScheduled", "True", now_text=now, lastProbeTime=None
        )
        self.accounts.announce(record)
        annotations = {GPU_INDEX_ANNOTATION: annotation_of(verdict.devices)} if verdict.devices else None
        self.host.store.bind(key, verdict.node, status, annotations)
        where = f"{key.namespace}/{key.name}"
        self.say(key, record.uid, NORMAL, "Scheduled", f"Successfully assigned {where} to {verdict.node}")

    def refuse(
        self,
        scheduler: Scheduler,
        queued: QueuedPod,
        obj: Obj,
        diagnosis: Diagnosis,
        now_us: int,
        *,
        may_preempt: bool = True,
    ) -> None:
        record = queued.record
        if diagnosis.error:
            self._fail(queued, obj, diagnosis.error, now_us)
            return
        if self.devices.takes_out(record.key, obj, diagnosis.prefilter_plugin):
            return
        verdict = explain(
            scheduler, record, diagnosis, budgets_of(self.host.store.objects(_PDB)), self.draw()
        )
        if self.gangs is not None and verdict.preemption is None and not diagnosis.prefilter:
            verdict = self.gangs.after_filters(scheduler, queued, verdict, now_us)
        if verdict.release is not None:
            self.devices.release(verdict.release)
        if verdict.preemption is not None and may_preempt:
            scheduler.nominated[record.key] = (record, verdict.preemption.node)
            self.queue.set_apart(queued, now_us, verdict.plugins)
            self._tell(queued, obj, verdict.message, now_us, nominate=verdict.preemption.node)
            self._evict(scheduler, record, verdict, now_us)
            return
        if verdict.clears_nomination:
            scheduler.nominated.pop(record.key, None)
        self.queue.park(queued, verdict.plugins, now_us)
        line = self._line(record)
        self._told[line] = Told(verdict.message, self._versions())
        self._tell(queued, obj, verdict.message, now_us, nominate="" if verdict.clears_nomination else None)
        for other in list(self.queue.untold(line)):
            waiting = self.host.store.get(other.key)
            if waiting is not None:
                message = verdict.message
                if self.gangs is not None:
                    message = self.gangs.told_to(other.key.name, message, record.key.name)
                self._tell(other, waiting, message, now_us)

    def _fail(self, queued: QueuedPod, obj: Obj, error: str, now_us: int) -> None:
        """Something went wrong: the pod is tried again for time alone."""
        self.queue.park(queued, (), now_us)
        self._tell(queued, obj, error, now_us, nominate="", reason="SchedulerError")

    def fail_binding(self, record: PodRecord, error: str, now_us: int) -> None:
        """The pod had a node and could not be bound there."""
        obj = self.host.store.get(record.key)
        if obj is None or not self.is_to_queue(obj):
            return
        self.devices.unreserve(obj)
        self.enqueue(record.key, obj, now_us)
        queued = self.queue.pod(record.key)
        if queued is not None:
            self._fail(queued, obj, error, now_us)

    def wake_all(self, now_us: int) -> None:
        """A pod that waited on a node left: its place is free again."""
        for line in self.queue.parked():
            self.queue.unpark(line.key, now_us)

    def nominate(self, key: Key, node: str) -> None:
        """The pod is about to be bound there."""
        self.patch_status(key, {"nominatedNodeName": node})

    def patch_status(self, key: Key, fields: Obj) -> None:
        self.host.store.set_status(key, {**status_of(self.host.store.require(key)), **fields})

    def refuse_at_permit(
        self, queued: QueuedPod, obj: Obj, why: str, plugins: tuple[str, ...], now_us: int
    ) -> None:
        """The one node it had found is lost to it. Source: the FitErrors of Permit and WaitOnPermit."""
        self.park_and_tell(queued, obj, f"0/1 nodes are available: 1 {why}.", plugins, now_us)

    def park_and_tell(
        self, queued: QueuedPod, obj: Obj, message: str, plugins: tuple[str, ...], now_us: int
    ) -> None:
        self.queue.park(queued, plugins, now_us)
        self._tell(queued, obj, message, now_us)

    def freed(self, since: int, group: Key, now_us: int) -> None:
        """A pod that waited gave its place up: those refused while it waited are tried again, its own group apart.

        Waking everybody would let two groups that never fit wake each other for ever, in no time at all.
        """
        for line in self.queue.parked():
            if line.ticket > since and line.key[2] != group:
                self.queue.unpark(line.key, now_us)

    def _tell(
        self,
        queued: QueuedPod,
        obj: Obj,
        message: str,
        now_us: int,
        nominate: str | None = None,
        reason: str = "Unschedulable",
    ) -> None:
        """Write the PodScheduled condition and the FailedScheduling event; `nominate` "" clears, None keeps."""
        queued.is_told = True
        status = {**(obj.get("status") or {})}
        if nominate:
            status["nominatedNodeName"] = nominate
        elif nominate == "":
            status.pop("nominatedNodeName", None)
        status["conditions"] = set_condition(
            status.get("conditions"),
            "PodScheduled",
            "False",
            reason,
            message,
            rfc3339(now_us),
            lastProbeTime=None,
        )
        self.host.store.set_status(queued.key, status)
        self.say(queued.key, queued.record.uid, WARNING, "FailedScheduling", shortened(message))

    def _evict(self, scheduler: Scheduler, record: PodRecord, verdict: Unschedulable, now_us: int) -> None:
        preemption = verdict.preemption
        if preemption is None:
            return
        store = self.host.store
        for key in preemption.victims:
            victim = store.get(key)
            if self.gangs is not None and key in self.gangs.waiting:
                self.gangs.reject(key, "preempted", now_us)
                continue
            if victim is None or "deletionTimestamp" in victim["metadata"]:
                continue
            status = {**(victim.get("status") or {})}
            why = f"{record.shape.scheduler_name}: preempting to accommodate a higher priority pod"
            status["conditions"] = set_condition(
                status.get("conditions"),
                "DisruptionTarget",
                "True",
                "PreemptionByScheduler",
                why,
                rfc3339(now_us),
                lastProbeTime=None,
            )
            store.set_status(key, status)
            store.delete(key)
            by = f"Preempted by pod {record.uid} on node {preemption.node}"
            self.say(key, victim["metadata"]["uid"], NORMAL, "Preempted", by)
        # Pods of lower priority nominated there must look elsewhere.
        for key, (other, node) in sorted(scheduler.nominated.items()):
            if node == preemption.node and other.shape.priority < record.shape.priority:
                del scheduler.nominated[key]
                self._forget_nomination(key)
                line = self.queue.line_of(key)
                if line is not None:
                    self.queue.unpark(line.key, now_us)

    def _forget_nomination(self, key: Key) -> None:
        obj = self.host.store.get(key)
        if obj is not None and "nominatedNodeName" in (obj.get("status") or {}):
            status = {k: v for k, v in obj["status"].items() if k != "nominatedNodeName"}
            self.host.store.set_status(key, status)

    def say(self, key: Key, uid: str, type_: str, reason: str, message: str) -> None:
        host = self.host
        host.events.emit(host.loop.now_us, key, uid, type_, reason, message, self.name)
        host.log.record(host.loop.now_us, self.name, "Pod", key.namespace, key.name, reason, message)
