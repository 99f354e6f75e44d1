"""What happened to whom: watches every change of a twin's store and keeps the tables of its outcome.

Times are those at which changes were made, not those at which a watcher hears of them: a follower of the
store stamps every change, and the stamps are read back in the order of the watch.

A pod holds its share of its node from binding until it is over or the node is gone; what it holds is an
interval. It waits from creation until it first is Running.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.components import EVERY_KIND, Host
from fairway.twin.eventlog import Record
from fairway.twin.loop import HOUSEKEEPING
from fairway.twin.recorder import series as s
from fairway.twin.recorder.demand import Demand
from fairway.twin.recorder.gpus import DEFAULT_GPUS, GpuResources
from fairway.twin.recorder.nodes import NodeLedger, Place
from fairway.twin.recorder.pods import (
    BOUND,
    ENDED,
    FAILED,
    PENDING,
    PHASE_CODES,
    RUNNING,
    SUCCEEDED,
    PodLedger,
    owner_reference_of,
)
from fairway.twin.recorder.reasons import ranked, reasons_in
from fairway.twin.recorder.series import SeriesLedger
from fairway.twin.recorder.tables import COMPLETE, EventCount, Outcome
from fairway.twin.recorder.utilization import Use, tells_use, uses_of
from fairway.twin.recorder.workloads import Workload, WorkloadLedger, is_workload

_PREEMPTED_BY = "Preempted by pod "
_NOTHING: dict[str, Any] = {}


class Stamps:
    """When each change was made: a follower of the store. An undone change takes its stamp with it."""

    def __init__(self, store: Store, times: deque[int]) -> None:
        self._store = store
        self.times = times

    def apply(self, change: Change) -> None:
        if change.version < self._store.log.next:
            self.times.append(self._store.now_us)
        else:
            self.times.pop()


class Recorder:
    """A component that only looks. `outcome()` at any time, also in the middle of a run."""

    name = "recorder"
    kinds = (EVERY_KIND,)

    def __init__(self, gpus: GpuResources = DEFAULT_GPUS) -> None:
        self.gpus = gpus
        self.began_us = 0
        self.pods = PodLedger()
        self.nodes = NodeLedger()
        self.workloads = WorkloadLedger()
        self.series = SeriesLedger()
        self.demand = Demand()
        self._told: dict[str, int] = {}
        self._preemptions: list[tuple[str, str, str]] = []
        self._times: deque[int] = deque()
        self._fragmentation: float | None = None
        self._is_stale = False

    def attach(self, host: Host) -> None:
        self.host = host
        self._shapes = host.store.accounts.shapes
        host.store.followers.append(Stamps(host.store, self._times))
        host.log.sinks.append(self._on_records)
        self._use_step = host.loop.register(f"{self.name}.use", self._on_use_step)

    def start(self) -> None:
        self.began_us = self.host.loop.now_us

    def fork(self) -> Recorder:
        twin = Recorder(self.gpus)
        twin.began_us = self.began_us
        twin.workloads, copies = self.workloads.fork()
        twin.pods = self.pods.fork(copies)
        twin.nodes = self.nodes.fork()
        twin.series = self.series.fork()
        twin.demand = self.demand.fork()
        twin._told = dict(self._told)
        twin._preemptions = list(self._preemptions)
        twin._times = self._times.copy()
        twin._fragmentation, twin._is_stale = self._fragmentation, self._is_stale
        return twin

    # What it sees

    def observe(self, change: Change) -> None:
        now = self._times.popleft() - self.began_us
        if now != self.series.now:
            self._pass_time(now)
        gk = change.key.gk
        if gk == "Pod":
            self._observe_pod(change, now)
        elif gk == "Node":
            self._observe_node(change, now)
        elif is_workload(gk) or self.workloads.get(change.obj["metadata"]["uid"]) is not None:
            self._observe_workload(change, now)

    def _pass_time(self, now: int) -> None:
        series = self.series
        series.tick(now, self._fragmentation_now() if series.is_cut_due(now) else None)

    def _fragmentation_now(self) -> float | None:
        if self._is_stale:
            self._fragmentation = self.demand.fragmentation(self.nodes.free)
            self._is_stale = False
        return self._fragmentation

    def _observe_workload(self, change: Change, now: int) -> None:
        if change.type == DELETED:
            workload = self.workloads.remove(change.obj["metadata"]["uid"], now)
        else:
            workload = self.workloads.see(change.obj, change.old, now, self.began_us)
        if workload is not None:
            self._queue(workload)

    def _queue(self, workload: Workload) -> None:
        """Count it in the queue, or no longer."""
        if workload.wants_queue != workload.is_queued:
            workload.is_queued = not workload.is_queued
            self.series.add(s.QUEUE_LENGTH, 1 if workload.is_queued else -1)

    # Nodes

    def _observe_node(self, change: Change, now: int) -> None:
        name, node, old = change.key.name, change.obj, change.old
        place = self.nodes.place(name)
        if change.type == DELETED:
            self._lose_node(place, now)
            return
        if place.life is None:
            place = self.nodes.arrive(name, node["metadata"]["uid"], now)
            self.series.add(s.NODES, 1)
        elif (
            old is not None
            and old.get("spec") is node.get("spec")
            and old.get("status") is node.get("status")
        ):
            place.life.labels = node["metadata"].get("labels") or _NOTHING
            return
        self._add_capacity(self.nodes.describe(place, node, self.gpus, now))
        for row in place.pods:
            if self.pods.interval[row] < 0:
                self._hold(row, place, now)

    def _lose_node(self, place: Place, now: int) -> None:
        life = place.life
        if life is None:
            return
        for row in place.pods:
            self._release(row, now)
        self.nodes.leave(place, now)
        self.series.add(s.NODES, -1)
        self._add_capacity((-life.gpu, -life.cpu, -life.memory))

    def _add_capacity(self, deltas: tuple[int, int, int]) -> None:
        self._is_stale = True
        gpu, cpu, memory = deltas
        self.series.add_all(((s.GPU_TOTAL, gpu), (s.CPU_TOTAL, cpu), (s.MEMORY_TOTAL, memory)))

    # Pods

    def _observe_pod(self, change: Change, now: int) -> None:
        obj, old = change.obj, change.old
        pods = self.pods
        row = pods.row_of.get(obj["metadata"]["uid"])
        if row is None:
            if change.type == DELETED:
                return
            row = self._admit(obj, now)
            old = None
        if change.type == DELETED:
            self._end(row, now)
            pods.deleted[row] = now
            del pods.row_of[obj["metadata"]["uid"]]
            return
        spec = obj["spec"]
        if old is None or old["spec"] is not spec:
            self._follow_spec(row, obj, spec, old, now)
        status = obj.get("status")
        if status and (old is None or old.get("status") is not status):
            self._follow_status(row, obj, status, now)

    def _admit(self, obj: Obj, now: int) -> int:
        ref = owner_reference_of(obj)
        namespace = obj["metadata"].get("namespace") or ""
        owner = None if ref is None else self.workloads.of_reference(namespace, ref, now)
        size = self.pods.size_of(obj, self._shapes, self.gpus)
        row = self.pods.admit(obj, size, owner, now)
        if size[0]:
            self.demand.see(size)
            self._is_stale = True
        status = obj.get("status")
        if status and (status.get("phase") or "Pending") != "Pending":
            self._remember(row, obj, status, now)
        self._wait(row, owner, size[0], now, 1)
        return row

    def _remember(self, row: int, obj: Obj, status: dict[str, Any], now: int) -> None:
        """A pod that comes with a past (from a dump): when it was created and started, in whole seconds."""
        created, started = obj["metadata"].get("creationTimestamp"), status.get("startTime")
        if created:
            self.pods.created[row] = min(now, parse_rfc3339(created) - self.began_us)
        if started:
            began = min(now, parse_rfc3339(started) - self.began_us)
            self.pods.scheduled[row] = began
            if began < now - SECOND_US:
                self.pods.started[row] = began

    def _wait(self, row: int, owner: Workload | None, gpu: int, now: int, sign: int) -> None:
        """Count a pod as waiting for a node (1), or no longer (-1)."""
        series = self.series
        series.add_all(((s.PODS_PENDING, sign), (s.GPU_PENDING, sign * gpu)))
        if gpu:
            self.nodes.clock.set(now, is_waiting=series.values[s.GPU_PENDING] > 0)
        if owner is None:
            series.add(s.QUEUE_LENGTH, sign)
        else:
            owner.waiting += sign
            self._queue(owner)

    def _follow_spec(self, row: int, obj: Obj, spec: dict[str, Any], old: Obj | None, now: int) -> None:
        node = spec.get("nodeName")
        pods = self.pods
        if pods.state[row] == PENDING:
            if node:
                self._bind(row, node, obj, now)
        elif old is not None and old["spec"].get("containers") is not spec.get("containers"):
            size = pods.size_of(obj, self._shapes, self.gpus)
            if size != pods.sort[row].size and pods.state[row] != ENDED:
                place = self.nodes.places[pods.place[row]]
                self._release(row, now)
                pods.resize(row, size)
                self._hold(row, place, now)

    def _bind(self, row: int, node: str, obj: Obj, now: int) -> None:
        pods = self.pods
        place = self.nodes.place(node)
        self._wait(row, pods.owner[row], pods.sort[row].size[0], now, -1)
        pods.state[row] = BOUND
        pods.place[row] = place.index
        if pods.scheduled[row] < 0:
            pods.scheduled[row] = now
        place.pods[row] = None
        self.series.add(s.PODS_STARTING, 1)
        if pods.sort[row].size[0] and tells_use(obj["metadata"].get("annotations")):
            pods.use[row] = Use()
        if place.life is not None:
            place.life.pods += 1
            self._hold(row, place, now)

    def _hold(self, row: int, place: Place, now: int) -> None:
        pods = self.pods
        size = pods.sort[row].size
        pods.interval[row] = pods.intervals.open(row, place.index, size, now)
        self._count_held(row, place, size, now, 1)

    def _release(self, row: int, now: int) -> None:
        """Close the pod's interval, if one is open."""
        pods = self.pods
        at = pods.interval[row]
        if at < 0:
            return
        size = pods.sort[row].size
        intervals = pods.intervals
        pods.interval[row] = -1
        pods.held[row] += size[0] * (now - intervals.start[at])
        intervals.end[at] = now
        self._count_held(row, self.nodes.places[intervals.place[at]], size, now, -1)

    def _count_held(self, row: int, place: Place, size: tuple[int, int, int], now: int, sign: int) -> None:
        gpu, cpu, memory = size
        self.nodes.hold(place, size, now, sign)
        self.series.add_all(
            (
                (s.GPU_ALLOCATED, sign * gpu),
                (s.CPU_ALLOCATED, sign * cpu),
                (s.MEMORY_ALLOCATED, sign * memory),
            )
        )
        self._is_stale = True
        if not gpu:
            return
        above = self.pods.owner[row]
        while above is not None:
            above.gpu += sign * gpu
            if above.gpu > above.gpu_peak:
                above.gpu_peak = above.gpu
            above = above.parent
        use = self.pods.use.get(row)
        if use is not None:
            self.series.add(s.GPU_TOLD, sign * gpu)
            if place.life is not None:
                place.life.tells_use = True
            if sign < 0:
                self._use(row, use, place, now, 0)

    # What a pod's status says

    def _follow_status(self, row: int, obj: Obj, status: dict[str, Any], now: int) -> None:
        pods = self.pods
        phase = PHASE_CODES.get(status.get("phase") or "Pending", 0)
        state = pods.state[row]
        if phase != pods.phase[row]:
            pods.phase[row] = phase
            if state == BOUND and phase:
                self._start(row, obj, status, phase, now)
            if phase >= SUCCEEDED:
                self._conclude(row, status, phase, now)
        for condition in status.get("conditions") or ():
            type_ = condition["type"]
            if type_ == "Ready":
                if condition["status"] == "True" and pods.ready[row] < 0:
                    pods.ready[row] = now
            elif type_ == "PodScheduled":
                if state == PENDING and condition.get("reason") == "Unschedulable":
                    self._refuse(row, condition.get("message") or "")
            elif type_ == "DisruptionTarget" and condition["status"] == "True":
                pods.disruption[row] = condition.get("reason") or "DisruptionTarget"
        containers = status.get("containerStatuses")
        if containers:
            restarts = containers[0].get("restartCount") or 0
            if len(containers) > 1:
                restarts = sum([c.get("restartCount") or 0 for c in containers])
            pods.restarts[row] = restarts

    def _refuse(self, row: int, message: str) -> None:
        if self.pods.refusal.get(row) == message:
            return
        self.pods.refusal[row] = message
        self.pods.refusals[row] = self.pods.refusals.get(row, 0) + 1
        for reason in reasons_in(message):
            self._told[reason] = self._told.get(reason, 0) + 1

    def _start(self, row: int, obj: Obj, status: dict[str, Any], phase: int, now: int) -> None:
        """It runs for the first time, or is over before anybody saw it run."""
        pods = self.pods
        pods.state[row] = RUNNING
        self.series.add_all(((s.PODS_STARTING, -1), (s.PODS_RUNNING, 1)))
        if phase == FAILED and not _has_run(status):
            return
        if pods.started[row] < 0:
            pods.started[row] = now
        above = pods.owner[row]
        while above is not None and above.started < 0:
            above.started = now
            above = above.parent
        use = pods.use.get(row)
        if use is not None:
            use.steps = uses_of(obj["spec"], obj["metadata"].get("annotations") or _NOTHING, self.gpus)
            self._step(row, use, 0, now)

    def _conclude(self, row: int, status: dict[str, Any], phase: int, now: int) -> None:
        reason = status.get("reason") or (_exit_reason(status) if phase == FAILED else "")
        if reason:
            self.pods.reason[row] = reason
        self._end(row, now)

    def _end(self, row: int, now: int) -> None:
        """The pod is over: nothing of it runs and nothing is held any more."""
        pods = self.pods
        state = pods.state[row]
        if state == ENDED:
            return
        pods.state[row] = ENDED
        pods.finished[row] = now
        if state == PENDING:
            self._wait(row, pods.owner[row], pods.sort[row].size[0], now, -1)
            return
        self.series.add(s.PODS_STARTING if state == BOUND else s.PODS_RUNNING, -1)
        self._release(row, now)
        self.nodes.places[pods.place[row]].pods.pop(row, None)

    # Use of GPUs

    def _step(self, row: int, use: Use, step: int, now: int) -> None:
        """Queue the next change of its use; those due now happen at once."""
        started = self.pods.started[row]
        place = self.nodes.places[self.pods.place[row]]
        while step < len(use.steps) and started + use.steps[step][0] <= now:
            self._use(row, use, place, now, use.steps[step][1])
            step += 1
        if step < len(use.steps):
            at_us = self.began_us + started + use.steps[step][0]
            use.ticket = self.host.loop.at(at_us, self._use_step, (row, step), HOUSEKEEPING)

    def _on_use_step(self, data: tuple[int, int]) -> None:
        row, step = data
        use = self.pods.use[row]
        use.ticket = 0
        if self.pods.state[row] != RUNNING:
            return
        now = self.host.loop.now_us - self.began_us
        # Changes made up to now may still be on their way here: the series must not run ahead of them.
        if self._times and self._times[0] - self.began_us < now:
            use.ticket = self.host.loop.at(
                self.host.loop.now_us + 1, self._use_step, (row, step), HOUSEKEEPING
            )
            return
        if now != self.series.now:
            self._pass_time(now)
        self._step(row, use, step, now)

    def _use(self, row: int, use: Use, place: Place, now: int, milli: int) -> None:
        delta = use.change(now, milli)
        if delta:
            self.series.add(s.GPU_USED, delta)
            if place.life is not None:
                self.nodes.settle(place.life, now)
                place.life.used += delta
        if milli == 0 and use.ticket:
            self.host.loop.cancel(use.ticket)
            use.ticket = 0

    # What others said

    def _on_records(self, records: list[Record]) -> None:
        for record in records:
            if record.reason == "Preempted" and record.message.startswith(_PREEMPTED_BY):
                by = record.message[len(_PREEMPTED_BY) :].split(" ", 1)[0]
                self._preemptions.append((record.namespace, record.name, by))

    # The answer

    def outcome(self, status: str = COMPLETE) -> Outcome:
        """Tables as of now. The run may go on afterwards. O(pods)."""
        self.host.log.flush()
        now = self.host.loop.now_us - self.began_us
        places = [place.name for place in self.nodes.places]
        pods = self.pods
        refused = [(message, pods.place[row] >= 0) for row, message in pods.refusal.items()]
        integrals = {name: self.series.integral(m, now) for m, name in enumerate(s.NAMES)}
        return Outcome(
            began_us=self.began_us,
            ended_us=self.host.loop.now_us,
            status=status,
            pods=pods.table(self.began_us, now, places, self._preempted_by()),
            workloads=self.workloads.table(self.began_us, pods.tallies(now)),
            nodes=self.nodes.table(self.began_us, now),
            intervals=pods.interval_table(self.began_us, places),
            series=self.series.table(self.began_us, now, self._fragmentation_now()),
            events=self._event_counts(),
            reasons=ranked(self._told, refused),
            peaks=self.series.highest(self.began_us),
            integrals=integrals,
        )

    def _preempted_by(self) -> dict[int, str]:
        """Who each preempted pod made room for, by row."""
        pods = self.pods
        names = {
            pods.uid[row]: f"{pods.sort[row].namespace}/{pods.name[row]}" for row in range(len(pods.uid))
        }
        victims: dict[tuple[str, str], list[int]] = {}
        for row, reason in sorted(pods.disruption.items()):
            if reason == "PreemptionByScheduler":
                victims.setdefault((pods.sort[row].namespace, pods.name[row]), []).append(row)
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
            return ended.get("reason") or "Error"
    return ""
