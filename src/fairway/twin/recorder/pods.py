"""The pods of a run, one list per column: what 100,000 of them cost is what their names cost.

What pods of a kind have in common is one shared `Sort`; what few pods have (a refusal, a disruption) is kept
by row. Times are µs since the run began; -1: not yet.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

from fairway.cluster.shapes import Shapes
from fairway.kube.objects import Obj, controller_of
from fairway.twin.recorder.demand import Size
from fairway.twin.recorder.gpus import GpuResources
from fairway.twin.recorder.tables import IntervalRow, PodRow, Table
from fairway.twin.recorder.utilization import Use
from fairway.twin.recorder.workloads import QUEUE_LABEL, Workload

PENDING, BOUND, RUNNING, ENDED = range(4)
"""Where a pod is: without a node, on one, running there, over."""

PHASES = ("Pending", "Running", "Succeeded", "Failed")
PHASE_CODES = {"Pending": 0, "Unknown": 1, "Running": 1, "Succeeded": 2, "Failed": 3}
SUCCEEDED, FAILED = 2, 3

_NO_LABELS: dict[str, str] = {}


class Sort(NamedTuple):
    """What pods of one kind share."""

    namespace: str
    priority: int
    priority_class: str
    queue: str
    is_serving: bool
    size: Size


class Intervals:
    """Who held what, where, from when to when; end -1: still."""

    __slots__ = ("cpu", "end", "gpu", "memory", "place", "pod", "start")

    def __init__(self) -> None:
        self.pod = array("q")
        self.place = array("q")
        self.gpu = array("q")
        self.cpu = array("q")
        self.memory = array("q")
        self.start = array("q")
        self.end = array("q")

    def open(self, pod: int, place: int, size: Size, now: int) -> int:
        self.pod.append(pod)
        self.place.append(place)
        self.gpu.append(size[0])
        self.cpu.append(size[1])
        self.memory.append(size[2])
        self.start.append(now)
        self.end.append(-1)
        return len(self.end) - 1

    def fork(self) -> Intervals:
        twin = Intervals()
        for slot in self.__slots__:
            setattr(twin, slot, array("q", getattr(self, slot)))
        return twin


class PodLedger:
    """Pods by row, in order of creation."""

    def __init__(self) -> None:
        self.name: list[str] = []
        self.uid: list[str] = []
        self.labels: list[Mapping[str, str]] = []
        self.owner: list[Workload | None] = []
        self.sort: list[Sort] = []
        self.state = array("b")
        self.phase = array("b")
        self.restarts = array("l")
        self.place = array("q")
        self.interval = array("q")
        self.created = array("q")
        self.scheduled = array("q")
        self.started = array("q")
        self.ready = array("q")
        self.finished = array("q")
        self.deleted = array("q")
        self.held = array("q")
        self.row_of: dict[str, int] = {}
        """Pods that are not deleted, by UID."""
        self.intervals = Intervals()
        self.reason: dict[int, str] = {}
        self.refusal: dict[int, str] = {}
        self.refusals: dict[int, int] = {}
        self.disruption: dict[int, str] = {}
        self.use: dict[int, Use] = {}
        self._sorts: dict[Sort, Sort] = {}
        self._sizes: dict[int, Size] = {}

    def size_of(self, pod: Obj, shapes: Shapes, gpus: GpuResources) -> Size:
        """(milli-GPU, milli-CPU, bytes) it asks for, looked up by its shape."""
        shape = shapes.of(pod)
        size = self._sizes.get(shape.id)
        if size is None:
            asked = shape.requests
            size = (gpus.asked(asked), asked.get("cpu", 0), asked.get("memory", 0))
            self._sizes[shape.id] = size
        return size

    def admit(self, pod: Obj, size: Size, owner: Workload | None, now: int) -> int:
        """A new pod; returns its row."""
        meta, spec = pod["metadata"], pod["spec"]
        labels = meta.get("labels") or _NO_LABELS
        sort = Sort(
            meta.get("namespace") or "",
            spec.get("priority") or 0,
            spec.get("priorityClassName") or "",
            labels.get(QUEUE_LABEL) or ("" if owner is None else owner.queue),
            spec.get("restartPolicy", "Always") == "Always",
            size,
        )
        uid = meta["uid"]
        row = len(self.name)
        self.row_of[uid] = row
        self.name.append(meta["name"])
        self.uid.append(uid)
        self.labels.append(labels)
        self.owner.append(owner)
        self.sort.append(self._sorts.setdefault(sort, sort))
        self.state.append(PENDING)
        self.phase.append(0)
        self.restarts.append(0)
        self.created.append(now)
        self.held.append(0)
        for column in (
            self.place,
            self.interval,
            self.scheduled,
            self.started,
            self.ready,
            self.finished,
            self.deleted,
        ):
            column.append(-1)
        return row

    def resize(self, row: int, size: Size) -> None:
        """It asks for something else from now on (in-place resize)."""
        sort = self.sort[row]._replace(size=size)
        self.sort[row] = self._sorts.setdefault(sort, sort)

    def held_until(self, row: int, now: int) -> int:
        """Milli-GPU·µs it has held so far."""
        held, interval = self.held[row], self.interval[row]
        if interval >= 0:
            held += self.intervals.gpu[interval] * (now - self.intervals.start[interval])
        return held

    def table(
        self, began_us: int, now: int, places: list[str], preempted_by: Mapping[int, str]
    ) -> Table[PodRow]:
        """The rows as they stand. `places`: names by index."""
        rows = range(len(self.name))
        owners, sorts = self.owner, self.sort
        roots = [None if o is None else o.root for o in owners]
        columns: dict[str, Any] = {
            "namespace": [s.namespace for s in sorts],
            "name": list(self.name),
            "uid": list(self.uid),
            "labels": list(self.labels),
            "owner_kind": ["" if o is None else o.kind for o in owners],
            "owner_name": ["" if o is None else o.name for o in owners],
            "root_kind": ["" if r is None else r.kind for r in roots],
            "root_name": ["" if r is None else r.name for r in roots],
            "priority": [s.priority for s in sorts],
            "priority_class": [s.priority_class for s in sorts],
            "queue": [s.queue for s in sorts],
            "gpu_milli": [s.size[0] for s in sorts],
            "cpu_milli": [s.size[1] for s in sorts],
            "memory_bytes": [s.size[2] for s in sorts],
            "is_serving": [s.is_serving for s in sorts],
            "phase": [PHASES[p] for p in self.phase],
            "reason": [self.reason.get(r, "") for r in rows],
            "node": ["" if p < 0 else places[p] for p in self.place],
            "created_us": [began_us + t for t in self.created],
            "restarts": list(self.restarts),
            "refusals": [self.refusals.get(r, 0) for r in rows],
            "unschedulable": [self.refusal.get(r, "") for r in rows],
            "disruption": [self.disruption.get(r, "") for r in rows],
            "preempted_by": [preempted_by.get(r, "") for r in rows],
            "held_gpu_milli_us": [self.held_until(r, now) for r in rows],
            "used_gpu_milli_us": [self.use[r].total_until(now) if r in self.use else None for r in rows],
        }
        for name in ("scheduled", "started", "ready", "finished", "deleted"):
            columns[f"{name}_us"] = [None if t < 0 else began_us + t for t in getattr(self, name)]
        return Table(PodRow, columns)

    def interval_table(self, began_us: int, places: list[str]) -> Table[IntervalRow]:
        """By start, then by pod."""
        i = self.intervals
        order = sorted(range(len(i.end)), key=lambda at: (i.start[at], i.pod[at]))
        pods = [i.pod[at] for at in order]
        return Table(
            IntervalRow,
            {
                "pod": pods,
                "namespace": [self.sort[p].namespace for p in pods],
                "name": [self.name[p] for p in pods],
                "node": [places[i.place[at]] for at in order],
                "gpu_milli": [i.gpu[at] for at in order],
                "cpu_milli": [i.cpu[at] for at in order],
                "memory_bytes": [i.memory[at] for at in order],
                "start_us": [began_us + i.start[at] for at in order],
                "end_us": [None if i.end[at] < 0 else began_us + i.end[at] for at in order],
            },
        )

    def tallies(self, now: int) -> dict[int, list[int]]:
        """Pods, started, succeeded, failed, milli-GPU·µs held: by id of every workload that owns them."""
        found: dict[int, list[int]] = {}
        for row, owner in enumerate(self.owner):
            if owner is None:
                continue
            started, phase = self.started[row] >= 0, self.phase[row]
            held = self.held_until(row, now)
            above: Workload | None = owner
            while above is not None:
                tally = found.setdefault(id(above), [0, 0, 0, 0, 0])
                tally[0] += 1
                tally[1] += started
                tally[2] += phase == SUCCEEDED
                tally[3] += phase == FAILED
                tally[4] += held
                above = above.parent
        return found

    def fork(self, workloads: Mapping[int, Workload]) -> PodLedger:
        """A copy whose owners are the copies given by id."""
        twin = PodLedger()
        twin.name, twin.uid = list(self.name), list(self.uid)
        twin.labels, twin.sort = list(self.labels), list(self.sort)
        twin.owner = [None if o is None else workloads[id(o)] for o in self.owner]
        for name in _ARRAYS:
            column = getattr(self, name)
            setattr(twin, name, array(column.typecode, column))
        for name in ("row_of", "reason", "refusal", "refusals", "disruption"):
            setattr(twin, name, dict(getattr(self, name)))
        twin.use = {row: use.copy() for row, use in self.use.items()}
        twin.intervals = self.intervals.fork()
        # Interned and append-only: shared.
        twin._sorts, twin._sizes = self._sorts, self._sizes
        return twin


_ARRAYS = (
    "state",
    "phase",
    "restarts",
    "place",
    "interval",
    "created",
    "scheduled",
    "started",
    "ready",
    "finished",
    "deleted",
    "held",
)


def owner_reference_of(pod: Obj) -> dict[str, Any] | None:
    """The controller, where the pod has any owner."""
    return controller_of(pod) if "ownerReferences" in pod["metadata"] else None
