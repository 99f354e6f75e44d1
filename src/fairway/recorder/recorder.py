"""What happened to whom: watches every change of a twin's store and notes what its outcome follows from.

Times are those at which changes were made, not those at which a watcher hears of them: a follower of the
store stamps every change, and the stamps are read back in the order of the watch.

A pod holds its share of its node from binding until it is over or the node is gone; what it holds is an
interval. It waits from creation until it first is Running.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.gpurequests import DEFAULT_GPUS, WHOLE, GpuResources
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, controller_of, meta_of
from fairway.kube.podowners import is_workload
from fairway.kube.resourceclaims import SLICE
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.recorder.breaks import break_table
from fairway.recorder.claims import Published
from fairway.recorder.facts import facts_of
from fairway.recorder.nodes import NodeLedger, NodeLife, Place, never_joined
from fairway.recorder.past import first_us, stages
from fairway.recorder.pods import (
    CREATED,
    DELETED_AT,
    FAILED,
    FINISHED,
    PHASE,
    PHASE_CODES,
    PLACE,
    READY,
    RESTARTS,
    RUNNING,
    SCHEDULED,
    STARTED,
    SUCCEEDED,
    WIDTH,
    PodLedger,
)
from fairway.recorder.queueledger import GROUP, QueueLedger
from fairway.recorder.queuerows import PodQueues, pod_queues, queue_outcome
from fairway.recorder.reasons import ranked, reasons_in
from fairway.recorder.rows import interval_table, node_table, pod_table, workload_table
from fairway.recorder.scalings import scaling_table
from fairway.recorder.series import cluster_series, integrals_of, peaks_of, series_table
from fairway.recorder.servings import service_table
from fairway.recorder.tables import COMPLETE, EventCount, Outcome
from fairway.recorder.utilization import Profiles, tells_memory, tells_use
from fairway.recorder.workloads import NEVER, Workload, WorkloadLedger
from fairway.scheduling.hami.cards import share_of
from fairway.twin.components import EVERY_KIND, Host
from fairway.twin.eventlog import Record

_PREEMPTED_BY: Final = "Preempted by pod "
_NOTHING: Final[dict[str, Any]] = {}
_REFUSALS: Final = ("Unschedulable", "SchedulerError")
"""Reasons of PodScheduled with words of the scheduler: no node will do, or it could not find out."""


class Stamps:
    """When each change was made: a follower of the store. An undone change takes its stamp with it."""

    def __init__(self, store: Store, times: deque[int]) -> None:
        self._store = store
        self._log = store.log
        self._times = times

    def apply(self, change: Change) -> None:
        if change.version < self._log.next:
            self._times.append(self._store.now_us)
        else:
            self._times.pop()


class Recorder:
    """A component that only looks. Ask for its `outcome` at any time, also in the middle of a run."""

    name = "recorder"
    kinds = (EVERY_KIND,)

    def __init__(self, gpus: GpuResources = DEFAULT_GPUS) -> None:
        self.gpus = gpus
        self.began_us = 0
        self.pods = PodLedger()
        self.nodes = NodeLedger()
        self.published = Published()
        self.workloads = WorkloadLedger()
        self.queued = QueueLedger(gpus)
        self._profiles = Profiles(gpus)
        self._told: dict[str, int] = {}
        self._preemptions: list[tuple[str, str, str]] = []
        self._times: deque[int] = deque()
        self._met = 0
        """The newest version that was there before it looked."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._shapes = host.store.accounts.shapes
        host.store.followers.append(Stamps(host.store, self._times))
        host.log.sinks.append(self._on_records)

    def start(self) -> None:
        """What is there already came before it: its past is taken from the objects themselves."""
        store, now_us = self.host.store, self.host.loop.now_us
        self._met = store.version
        self.began_us = first_us((o for gk in store.kinds() for o in store.walk(gk)), now_us)

    def fork(self) -> Recorder:
        twin = Recorder(self.gpus)
        twin.began_us = self.began_us
        twin.workloads, copies = self.workloads.fork()
        twin.pods = self.pods.fork(copies)
        twin.nodes = self.nodes.fork()
        twin.published = self.published.copy()
        twin.queued = self.queued.fork()
        twin._told = dict(self._told)
        twin._preemptions = list(self._preemptions)
        twin._times = self._times.copy()
        twin._met = self._met
        return twin

    # What it sees

    def observe(self, change: Change) -> None:
        if change.version > self._met:
            self._see(change, self._times.popleft() - self.began_us)
        else:
            self._recall(change)

    def _recall(self, change: Change) -> None:
        """What was there before, as if it had been looked at all along."""
        old: Obj | None = None
        for at_us, obj in stages(change.obj, self.host.loop.now_us):
            type_ = ADDED if old is None else MODIFIED
            self._see(Change(change.version, type_, change.key, obj, old), max(at_us - self.began_us, 0))
            old = obj

    def _see(self, change: Change, now: int) -> None:
        gk = change.key.gk
        if gk == "Pod":
            self._observe_pod(change, now)
        elif gk == "Node":
            self._observe_node(change, now)
        elif gk == SLICE:
            self._observe_slice(change, now)
        elif gk.endswith(GROUP):
            self.queued.observe(change, now, self.began_us)
        elif is_workload(gk) or self.workloads.get(change.obj["metadata"]["uid"]) is not None:
            if change.type == DELETED:
                self.workloads.remove(change.obj["metadata"]["uid"], now)
            else:
                self.workloads.see(change.obj, change.old, now, self.began_us)

    def _observe_node(self, change: Change, now: int) -> None:
        nodes, pods, node, old = self.nodes, self.pods, change.obj, change.old
        place = nodes.place(change.key.name)
        if change.type == DELETED:
            if place.life >= 0:
                pods.go(place.index, place.life, now)
                nodes.leave(place, now)
        elif place.life < 0:
            launched_us = self.host.launches.launched_us(place.name)
            launched = now if launched_us is None else launched_us - self.began_us
            nodes.arrive(place, node, now, min(launched, now))
            self._describe(place, node, None, now)
            # Pods may have been bound to the name before the node came.
            pods.come(place.index, place.life, now)
        elif (
            old is None
            or old.get("spec") is not node.get("spec")
            or old.get("status") is not node.get("status")
            or meta_of(old).get("labels") is not meta_of(node).get("labels")
        ):
            self._describe(place, node, old, now)

    def _observe_slice(self, change: Change, now: int) -> None:
        """A node that publishes GPUs for claims has them, though it offers none as a resource."""
        name = self.published.see(change)
        node = self.host.store.get(Key("Node", "", name)) if name else None
        if node is not None and self.nodes.place(name).life >= 0:
            self._describe(self.nodes.place(name), node, None, now)

    def _describe(self, place: Place, node: Obj, old: Obj | None, now: int) -> None:
        published = self.published.milli_of(place.name)
        self.nodes.describe(place, node, old, self.gpus, now, published=published)
        unit = self.nodes.lives[place.life].unit
        if unit != WHOLE or place.life in self.pods.units:
            self.pods.units[place.life] = unit

    def _observe_pod(self, change: Change, now: int) -> None:
        obj, old = change.obj, change.old
        pods = self.pods
        uid = obj["metadata"]["uid"]
        row = pods.row_of.get(uid)
        if change.type == DELETED:
            if row is not None:
                pods.end(row, now)
                pods.numbers[row * WIDTH + DELETED_AT] = now
                del pods.row_of[uid]
            return
        if row is None:
            row = self._admit(obj, now)
            old = None
        spec = obj["spec"]
        if old is None or old["spec"] is not spec:
            self._follow_spec(row, obj, old, now)
        status = obj.get("status")
        if status and (old is None or old.get("status") is not status):
            self._follow_status(row, obj, status, now)

    def _admit(self, obj: Obj, now: int) -> int:
        pods, meta = self.pods, obj["metadata"]
        owner = None
        if "ownerReferences" in meta:
            ref = controller_of(obj)
            if ref is not None:
                owner = self.workloads.of_reference(meta.get("namespace") or "", ref, now)
        asked = pods.asked_by(obj, self._shapes, self.gpus)
        row = pods.admit(obj, asked, owner, now)
        if asked[1] and "annotations" in meta:
            annotations = meta["annotations"]
            pods.telling[row] = annotations
            if tells_use(annotations):
                pods.uses[row] = ()
            if tells_memory(annotations):
                pods.memory_uses[row] = ()
        status = obj.get("status")
        if status and (status.get("phase") or "Pending") != "Pending":
            self._remember(row, obj, status, now)
        return row

    def _remember(self, row: int, obj: Obj, status: dict[str, Any], now: int) -> None:
        """A pod that comes with a past (from a dump): when it was created and started, in whole seconds."""
        numbers, at = self.pods.numbers, row * WIDTH
        created, started = meta_of(obj).get("creationTimestamp"), status.get("startTime")
        if created:
            numbers[at + CREATED] = min(now, parse_rfc3339(created) - self.began_us)
        if started:
            began = min(now, parse_rfc3339(started) - self.began_us)
            if began < now - SECOND_US:
                numbers[at + SCHEDULED] = began
                if status.get("phase") != "Failed" or _has_run(status):
                    numbers[at + STARTED] = began
                    self._note_use(row, obj)

    def _follow_spec(self, row: int, obj: Obj, old: Obj | None, now: int) -> None:
        """Note a binding, or (rare) that it now asks for something else."""
        pods, at = self.pods, row * WIDTH
        spec = obj["spec"]
        if pods.numbers[at + PLACE] < 0:
            node = spec.get("nodeName")
            if node:
                place = self.nodes.place(node)
                if pods.numbers[at + SCHEDULED] == NEVER:
                    pods.numbers[at + SCHEDULED] = now
                if place.life >= 0 and self.nodes.lives[place.life].cards:
                    pods.share(row, share_of(obj, self.nodes.lives[place.life].cards))
                claimed = self.published.held_by(self.host.store, obj)
                if claimed:
                    pods.claim(row, claimed)
                pods.bind(row, place.index, place.life, now)
        elif (
            old is not None
            and old["spec"].get("containers") is not spec.get("containers")
            and pods.numbers[at + FINISHED] == NEVER
        ):
            asked = pods.asked_by(obj, self._shapes, self.gpus)
            if asked[0] != pods.sorts[row].size:
                pods.resize(row, asked, now)

    # What a pod's status says

    def _follow_status(self, row: int, obj: Obj, status: dict[str, Any], now: int) -> None:
        numbers, at = self.pods.numbers, row * WIDTH
        phase = PHASE_CODES.get(status.get("phase") or "Pending", 0)
        if phase == FAILED and self._was_sent_away(row, obj, status):
            self.pods.end(row, now)
        elif phase != numbers[at + PHASE]:
            numbers[at + PHASE] = phase
            if numbers[at + STARTED] == NEVER and (phase != FAILED or _has_run(status)):
                numbers[at + STARTED] = now
                self._note_use(row, obj)
            if phase >= SUCCEEDED:
                reason = status.get("reason") or (_exit_reason(status) if phase == FAILED else "")
                if reason:
                    self.pods.reason[row] = reason
                self.pods.end(row, now)
        for condition in status.get("conditions") or ():
            type_: str = condition["type"]
            if type_ == "Ready":
                if numbers[at + READY] == NEVER and condition["status"] == "True":
                    numbers[at + READY] = now
            elif type_ == "PodScheduled":
                if condition["status"] == "False" and condition.get("reason") in _REFUSALS:
                    self._refuse(row, condition.get("message") or "")
            elif type_ == "DisruptionTarget" and condition["status"] == "True":
                self.pods.disruption[row] = condition.get("reason") or "DisruptionTarget"
        containers = status.get("containerStatuses")
        if containers:
            restarts = containers[0].get("restartCount") or 0
            if len(containers) > 1:
                restarts = sum([c.get("restartCount") or 0 for c in containers])
            if restarts:
                numbers[at + RESTARTS] = restarts

    def _was_sent_away(self, row: int, obj: Obj, status: dict[str, Any]) -> bool:
        """Whether a pod that serves ends because it is deleted: its containers answer SIGTERM with 143, so that the
        kubelet calls it Failed for its last moment. Source: getPhase, podIsTerminal (v1.36)."""
        is_leaving = "deletionTimestamp" in obj["metadata"] and not status.get("reason")
        return (
            is_leaving
            and self.pods.sorts[row].is_serving
            and self.pods.numbers[row * WIDTH + PHASE] == RUNNING
        )

    def _note_use(self, row: int, obj: Obj) -> None:
        pods = self.pods
        if pods.uses and row in pods.uses:
            pods.uses[row] = self._profiles.of(obj).compute
        if pods.memory_uses and row in pods.memory_uses:
            pods.memory_uses[row] = self._profiles.of(obj).memory

    def _refuse(self, row: int, message: str) -> None:
        pods = self.pods
        if pods.refusal.get(row) == message:
            return
        pods.refusal[row] = message
        pods.refusals[row] = pods.refusals.get(row, 0) + 1
        for reason in reasons_in(message):
            self._told[reason] = self._told.get(reason, 0) + 1

    # What others said

    def _on_records(self, records: list[Record]) -> None:
        for record in records:
            if record.reason == "Preempted" and record.message.startswith(_PREEMPTED_BY):
                by = record.message[len(_PREEMPTED_BY) :].split(" ", 1)[0]
                self._preemptions.append((record.namespace, record.name, by))

    # The answer

    def outcome(self, status: str = COMPLETE) -> Outcome:
        """Tables as of now; the run may go on afterwards. O(n log n) in pods, about 10 µs each."""
        self.host.log.flush()
        began_us, now_us = self.began_us, self.host.loop.now_us
        pods, lives, workloads = self.pods, self.nodes.lives, self.workloads.rows
        facts = facts_of(pods, now_us - began_us)
        series = cluster_series(facts, lives, workloads)
        queues = self._pod_queues()
        refused = [(words, pods.numbers[row * WIDTH + PLACE] >= 0) for row, words in pods.refusal.items()]
        return Outcome(
            began_us=began_us,
            ended_us=now_us,
            status=status,
            pods=pod_table(
                pods,
                facts,
                began_us,
                places=[place.name for place in self.nodes.places],
                preempted_by=queues.preempted_by | self._preempted_by(),
                cluster_queues=queues.cluster_queues,
                queue_evictions=queues.evictions,
            ),
            workloads=workload_table(workloads, pods, facts, began_us),
            # Those that never joined come last: intervals name lives by their number.
            nodes=node_table([*lives, *self._never_joined()], facts, series["gpu_milli_pending"], began_us),
            intervals=interval_table(pods, facts, lives, began_us),
            series=series_table(series, facts, lives, began_us),
            events=self._event_counts(),
            reasons=ranked(self._told, refused),
            peaks=peaks_of(series, began_us),
            integrals=integrals_of(series, facts.until),
            queues=queue_outcome(self.queued, now_us - began_us, began_us),
            scalings=scaling_table(self.host.parts),
            services=service_table(self.host.parts),
            breaks=break_table(self.host.parts),
        )

    def _never_joined(self) -> list[NodeLife]:
        launches, began_us = self.host.launches, self.began_us
        lost = [never_joined(x, began_us, t - began_us, is_over=True) for x, t in launches.lost]
        until = self.host.loop.now_us - began_us
        booting = launches.booting.values()
        return [*lost, *(never_joined(x, began_us, until, is_over=False) for x in booting)]

    def _pod_queues(self) -> PodQueues:
        """Which Workloads of Kueue the pods belong to; nothing is looked at where there are none."""
        pods = self.pods
        if not self.queued.names:
            return PodQueues({}, {}, {})
        finished = pods.column(FINISHED)
        return pod_queues(
            self.queued,
            [
                (
                    (pods.uids[row], *_uids_above(pods.owners[row])),
                    created,
                    None if finished[row] == NEVER else finished[row],
                    phase == SUCCEEDED,
                )
                for row, (created, phase) in enumerate(
                    zip(pods.column(CREATED), pods.column(PHASE), strict=True)
                )
            ],
        )

    def _preempted_by(self) -> dict[int, str]:
        """Who each preempted pod made room for, by row."""
        pods = self.pods
        victims: dict[tuple[str, str], list[int]] = {}
        for row, reason in sorted(pods.disruption.items()):
            if reason == "PreemptionByScheduler":
                victims.setdefault((pods.sorts[row].namespace, pods.names[row]), []).append(row)
        if not victims:
            return {}
        names = {uid: f"{pods.sorts[row].namespace}/{pods.names[row]}" for row, uid in enumerate(pods.uids)}
        found: dict[int, str] = {}
        # A name may have been preempted more than once: first come, first served.
        for namespace, name, by in self._preemptions:
            rows = victims.get((namespace, name))
            if rows:
                found[rows.pop(0)] = names.get(by, by)
        return found

    def _event_counts(self) -> tuple[EventCount, ...]:
        totals = self.host.events.totals
        counts = [EventCount(c, t, r, n) for (c, t, r), n in totals.items()]
        return tuple(sorted(counts, key=lambda e: (-e.count, e.component, e.reason, e.type)))


def _uids_above(owner: Workload | None) -> Iterator[str]:
    """Its owners', from the nearest up."""
    while owner is not None:
        yield owner.uid
        owner = owner.parent


def _has_run(status: dict[str, Any]) -> bool:
    """Whether a container of a pod that is over ever ran."""
    for container in status.get("containerStatuses") or ():
        if ((container.get("state") or _NOTHING).get("terminated") or _NOTHING).get("startedAt"):
            return True
    return False


def _exit_reason(status: dict[str, Any]) -> str:
    """Why the first container that failed did."""
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or _NOTHING).get("terminated")
        if ended and ended.get("exitCode"):
            return str(ended.get("reason") or "Error")
    return ""
