"""What happened to whom: watches every change of a twin's store and keeps the books of it.

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
from fairway.twin.recorder import series as s
from fairway.twin.recorder.books import Books
from fairway.twin.recorder.gpus import DEFAULT_GPUS, GpuResources
from fairway.twin.recorder.pods import (
    BOUND,
    CREATED,
    DELETED_AT,
    ENDED,
    FAILED,
    PENDING,
    PHASE,
    PHASE_CODES,
    PLACE,
    READY,
    RESTARTS,
    SCHEDULED,
    STARTED,
    STATE,
    SUCCEEDED,
    WIDTH,
    owner_reference_of,
)
from fairway.twin.recorder.reasons import ranked, reasons_in
from fairway.twin.recorder.tables import COMPLETE, EventCount, Outcome
from fairway.twin.recorder.utilization import tells_use, uses_of
from fairway.twin.recorder.workloads import is_workload

_PREEMPTED_BY = "Preempted by pod "
_NOTHING: dict[str, Any] = {}


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
        self.books = Books()
        self._told: dict[str, int] = {}
        self._preemptions: list[tuple[str, str, str]] = []
        self._times: deque[int] = deque()

    def attach(self, host: Host) -> None:
        self.host = host
        self._shapes = host.store.accounts.shapes
        host.store.followers.append(Stamps(host.store, self._times))
        host.log.sinks.append(self._on_records)

    def start(self) -> None:
        self.began_us = self.host.loop.now_us

    def fork(self) -> Recorder:
        twin = Recorder(self.gpus)
        twin.began_us = self.began_us
        twin.books = self.books.fork()
        twin._told = dict(self._told)
        twin._preemptions = list(self._preemptions)
        twin._times = self._times.copy()
        return twin

    # What it sees

    def observe(self, change: Change) -> None:
        now = self._times.popleft() - self.began_us
        if now != self.books.series.now:
            self.books.pass_time(now)
        gk = change.key.gk
        if gk == "Pod":
            self._observe_pod(change, now)
        elif gk == "Node":
            self._observe_node(change, now)
        elif is_workload(gk) or self.books.workloads.get(change.obj["metadata"]["uid"]) is not None:
            self._observe_workload(change, now)

    def _observe_workload(self, change: Change, now: int) -> None:
        workloads = self.books.workloads
        if change.type == DELETED:
            workload = workloads.remove(change.obj["metadata"]["uid"], now)
        else:
            workload = workloads.see(change.obj, change.old, now, self.began_us)
        if workload is not None:
            self.books.queue(workload)

    def _observe_node(self, change: Change, now: int) -> None:
        books, node, old = self.books, change.obj, change.old
        place = books.nodes.place(change.key.name)
        if change.type == DELETED:
            books.lose(place, now)
            return
        if place.life is None:
            place = books.arrive(change.key.name, node["metadata"]["uid"], now)
        elif (
            old is not None
            and old.get("spec") is node.get("spec")
            and old.get("status") is node.get("status")
        ):
            place.life.labels = node["metadata"].get("labels") or _NOTHING
            return
        books.offer(place, books.nodes.describe(place, node, self.gpus, now), now)

    def _observe_pod(self, change: Change, now: int) -> None:
        obj, old = change.obj, change.old
        pods = self.books.pods
        uid = obj["metadata"]["uid"]
        row = pods.row_of.get(uid)
        if change.type == DELETED:
            if row is not None:
                self.books.end(row, now)
                pods.numbers[row * WIDTH + DELETED_AT] = now
                del pods.row_of[uid]
            return
        if row is None:
            row = self._admit(obj, now)
            old = None
        spec = obj["spec"]
        if old is None or old["spec"] is not spec:
            self._follow_spec(row, obj, spec, old, now)
        status = obj.get("status")
        if status and (old is None or old.get("status") is not status):
            self._follow_status(row, obj, status, now)

    def _admit(self, obj: Obj, now: int) -> int:
        ref = owner_reference_of(obj)
        namespace = obj["metadata"].get("namespace") or ""
        pods = self.books.pods
        owner = None if ref is None else self.books.workloads.of_reference(namespace, ref, now)
        row = pods.admit(obj, pods.size_of(obj, self._shapes, self.gpus), owner, now)
        status = obj.get("status")
        if status and (status.get("phase") or "Pending") != "Pending":
            self._remember(row, obj, status, now)
        self.books.admit(row, now)
        return row

    def _remember(self, row: int, obj: Obj, status: dict[str, Any], now: int) -> None:
        """A pod that comes with a past (from a dump): when it was created and started, in whole seconds."""
        pods, at = self.books.pods, row * WIDTH
        created, started = obj["metadata"].get("creationTimestamp"), status.get("startTime")
        if created:
            pods.numbers[at + CREATED] = min(now, parse_rfc3339(created) - self.began_us)
        if started:
            began = min(now, parse_rfc3339(started) - self.began_us)
            pods.numbers[at + SCHEDULED] = began
            if began < now - SECOND_US:
                pods.numbers[at + STARTED] = began

    def _follow_spec(self, row: int, obj: Obj, spec: dict[str, Any], old: Obj | None, now: int) -> None:
        pods = self.books.pods
        state = pods.numbers[row * WIDTH + STATE]
        if state == PENDING:
            node = spec.get("nodeName")
            if node:
                tells = tells_use(obj["metadata"].get("annotations"))
                self.books.bind(row, node, now, tells_use=tells)
        elif (
            old is not None and old["spec"].get("containers") is not spec.get("containers") and state != ENDED
        ):
            size = pods.size_of(obj, self._shapes, self.gpus)
            if size != pods.sorts[row].size:
                self.books.resize(row, size, now)

    # What a pod's status says

    def _follow_status(self, row: int, obj: Obj, status: dict[str, Any], now: int) -> None:
        numbers, at = self.books.pods.numbers, row * WIDTH
        phase = PHASE_CODES.get(status.get("phase") or "Pending", 0)
        state = numbers[at + STATE]
        if phase != numbers[at + PHASE]:
            numbers[at + PHASE] = phase
            if state == BOUND and phase:
                self._start(row, obj, status, phase, now)
            if phase >= SUCCEEDED:
                self._conclude(row, status, phase, now)
        for condition in status.get("conditions") or ():
            type_ = condition["type"]
            if type_ == "Ready":
                if numbers[at + READY] < 0 and condition["status"] == "True":
                    numbers[at + READY] = now
            elif type_ == "PodScheduled":
                if state == PENDING and condition.get("reason") == "Unschedulable":
                    self._refuse(row, condition.get("message") or "")
            elif type_ == "DisruptionTarget" and condition["status"] == "True":
                self.books.pods.disruption[row] = condition.get("reason") or "DisruptionTarget"
        containers = status.get("containerStatuses")
        if containers:
            restarts = containers[0].get("restartCount") or 0
            if len(containers) > 1:
                restarts = sum([c.get("restartCount") or 0 for c in containers])
            if restarts:
                numbers[at + RESTARTS] = restarts

    def _refuse(self, row: int, message: str) -> None:
        pods = self.books.pods
        if pods.refusal.get(row) == message:
            return
        pods.refusal[row] = message
        pods.refusals[row] = pods.refusals.get(row, 0) + 1
        for reason in reasons_in(message):
            self._told[reason] = self._told.get(reason, 0) + 1

    def _start(self, row: int, obj: Obj, status: dict[str, Any], phase: int, now: int) -> None:
        use = self.books.pods.use.get(row)
        if use is not None:
            use.steps = uses_of(obj["spec"], obj["metadata"].get("annotations") or _NOTHING, self.gpus)
        self.books.start(row, now, has_run=phase != FAILED or _has_run(status))

    def _conclude(self, row: int, status: dict[str, Any], phase: int, now: int) -> None:
        reason = status.get("reason") or (_exit_reason(status) if phase == FAILED else "")
        if reason:
            self.books.pods.reason[row] = reason
        self.books.end(row, now)

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
        books = self.books
        now = self.host.loop.now_us - self.began_us
        # Changes still on their way here will be entered at the time they were made: do not overtake them.
        books.pass_time(min(now, self._times[0] - self.began_us) if self._times else now)
        places = [place.name for place in books.nodes.places]
        pods = books.pods
        refused = [(message, pods.numbers[row * WIDTH + PLACE] >= 0) for row, message in pods.refusal.items()]
        return Outcome(
            began_us=self.began_us,
            ended_us=self.host.loop.now_us,
            status=status,
            pods=pods.table(self.began_us, now, places, self._preempted_by()),
            workloads=books.workloads.table(self.began_us, pods.tallies(now)),
            nodes=books.nodes.table(self.began_us, now),
            intervals=pods.interval_table(self.began_us, places),
            series=books.series.table(self.began_us, now, books.fragmentation()),
            events=self._event_counts(),
            reasons=ranked(self._told, refused),
            peaks=books.series.highest(self.began_us),
            integrals={name: books.series.integral(m, now) for m, name in enumerate(s.NAMES)},
        )

    def _preempted_by(self) -> dict[int, str]:
        """Who each preempted pod made room for, by row."""
        pods = self.books.pods
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
