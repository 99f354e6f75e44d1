"""The pods of a run, kept by the column: what 100,000 of them cost is little more than their names.

All numbers of a pod stand side by side in one array; what pods of a kind have in common is one shared `Sort`;
what few pods have (a refusal, a disruption) is kept by row. Times are µs since the run began; -1: not yet.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairway.cluster.shapes import Shapes
from fairway.kube.objects import Obj, controller_of
from fairway.twin.recorder.demand import Size
from fairway.twin.recorder.gpus import GpuResources
from fairway.twin.recorder.tables import IntervalRow, PodRow, Table
from fairway.twin.recorder.utilization import Use
from fairway.twin.recorder.workloads import QUEUE_LABEL, Workload

# Where a pod is (STATE): without a node, on one, running there, over.
PENDING, BOUND, RUNNING, ENDED = range(4)

PHASES = ("Pending", "Running", "Succeeded", "Failed")
PHASE_CODES = {"Pending": 0, "Unknown": 1, "Running": 1, "Succeeded": 2, "Failed": 3}
SUCCEEDED, FAILED = 2, 3

# The numbers of a pod: `numbers[row * WIDTH + STARTED]`. PLACE and INTERVAL are indexes, -1 without.
(
    CREATED,
    SCHEDULED,
    STARTED,
    READY,
    FINISHED,
    DELETED_AT,
    PLACE,
    INTERVAL,
    HELD,
    STATE,
    PHASE,
    RESTARTS,
) = range(12)
WIDTH = 12
_NEW = array("q", [0, -1, -1, -1, -1, -1, -1, -1, 0, PENDING, 0, 0])

# The numbers of an interval; END -1: still open.
POD, WHERE, START, END = range(4)
INTERVAL_WIDTH = 4

_NO_LABELS: dict[str, str] = {}


class Sort(NamedTuple):
    """What pods of one kind share."""

    namespace: str
    priority: int
    priority_class: str
    queue: str
    is_serving: bool
    size: Size


class PodLedger:
    """Pods by row, in order of creation, and the intervals in which they held something."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.uids: list[str] = []
        self.labels: list[Mapping[str, str]] = []
        self.owners: list[Workload | None] = []
        self.sorts: list[Sort] = []
        self.numbers = array("q")
        self.row_of: dict[str, int] = {}
        """Pods that are not deleted, by UID."""
        self.intervals = array("q")
        self.interval_sizes: list[Size] = []
        self.reason: dict[int, str] = {}
        self.refusal: dict[int, str] = {}
        self.refusals: dict[int, int] = {}
        self.disruption: dict[int, str] = {}
        self.use: dict[int, Use] = {}
        self._sorts: dict[tuple[Any, ...], Sort] = {}
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
        sort = (
            meta.get("namespace") or "",
            spec.get("priority") or 0,
            spec.get("priorityClassName") or "",
            labels.get(QUEUE_LABEL) or ("" if owner is None else owner.queue),
            spec.get("restartPolicy", "Always") == "Always",
            size,
        )
        uid = meta["uid"]
        row = len(self.names)
        self.row_of[uid] = row
        self.names.append(meta["name"])
        self.uids.append(uid)
        self.labels.append(labels)
        self.owners.append(owner)
        self.sorts.append(self._sorts.get(sort) or self._sort(sort))
        self.numbers.extend(_NEW)
        self.numbers[row * WIDTH] = now
        return row

    def _sort(self, values: tuple[Any, ...]) -> Sort:
        return self._sorts.setdefault(values, Sort(*values))

    def resize(self, row: int, size: Size) -> None:
        """It asks for something else from now on (in-place resize)."""
        values = (*self.sorts[row][:-1], size)
        self.sorts[row] = self._sorts.get(values) or self._sort(values)

    def open(self, row: int, place: int, size: Size, now: int) -> None:
        """An interval begins."""
        self.numbers[row * WIDTH + INTERVAL] = len(self.interval_sizes)
        self.interval_sizes.append(size)
        self.intervals.extend((row, place, now, -1))

    def close(self, row: int, now: int) -> tuple[Size, int]:
        """The pod's open interval ends; returns what was held, and at which place."""
        at = row * WIDTH
        interval = self.numbers[at + INTERVAL]
        self.numbers[at + INTERVAL] = -1
        size = self.interval_sizes[interval]
        interval *= INTERVAL_WIDTH
        self.intervals[interval + END] = now
        self.numbers[at + HELD] += size[0] * (now - self.intervals[interval + START])
        return size, self.intervals[interval + WHERE]

    def column(self, number: int) -> array[int]:
        """One number of every pod, by row."""
        return self.numbers[number::WIDTH]

    def held_until(self, now: int) -> list[int]:
        """Milli-GPU·µs each pod has held so far."""
        held = list(self.column(HELD))
        for row, interval in enumerate(self.column(INTERVAL)):
            if interval >= 0:
                since = self.intervals[interval * INTERVAL_WIDTH + START]
                held[row] += self.interval_sizes[interval][0] * (now - since)
        return held

    def table(
        self, began_us: int, now: int, places: Sequence[str], preempted_by: Mapping[int, str]
    ) -> Table[PodRow]:
        """The rows as they stand. `places`: names by index."""
        rows = range(len(self.names))
        owners, sorts, use = self.owners, self.sorts, self.use
        roots = [None if o is None else o.root for o in owners]
        columns: dict[str, Any] = {
            "name": list(self.names),
            "uid": list(self.uids),
            "labels": list(self.labels),
            "owner_kind": ["" if o is None else o.kind for o in owners],
            "owner_name": ["" if o is None else o.name for o in owners],
            "root_kind": ["" if r is None else r.kind for r in roots],
            "root_name": ["" if r is None else r.name for r in roots],
            "gpu_milli": [s.size[0] for s in sorts],
            "cpu_milli": [s.size[1] for s in sorts],
            "memory_bytes": [s.size[2] for s in sorts],
            "phase": [PHASES[p] for p in self.column(PHASE)],
            "reason": [self.reason.get(r, "") for r in rows],
            "node": ["" if p < 0 else places[p] for p in self.column(PLACE)],
            "restarts": list(self.column(RESTARTS)),
            "refusals": [self.refusals.get(r, 0) for r in rows],
            "unschedulable": [self.refusal.get(r, "") for r in rows],
            "disruption": [self.disruption.get(r, "") for r in rows],
            "preempted_by": [preempted_by.get(r, "") for r in rows],
            "held_gpu_milli_us": self.held_until(now),
            "used_gpu_milli_us": [use[r].total_until(now) if r in use else None for r in rows],
            "created_us": [began_us + t for t in self.column(CREATED)],
        }
        for i, name in enumerate(("namespace", "priority", "priority_class", "queue", "is_serving")):
            columns[name] = [s[i] for s in sorts]
        for number, name in _TIMES:
            columns[name] = [None if t < 0 else began_us + t for t in self.column(number)]
        return Table(PodRow, columns)

    def interval_table(self, began_us: int, places: Sequence[str]) -> Table[IntervalRow]:
        """By start, then by pod."""
        i = self.intervals
        starts, pods = i[START::INTERVAL_WIDTH], i[POD::INTERVAL_WIDTH]
        ends, where = i[END::INTERVAL_WIDTH], i[WHERE::INTERVAL_WIDTH]
        order = sorted(range(len(starts)), key=lambda at: (starts[at], pods[at]))
        sizes = [self.interval_sizes[at] for at in order]
        return Table(
            IntervalRow,
            {
                "pod": [pods[at] for at in order],
                "namespace": [self.sorts[pods[at]].namespace for at in order],
                "name": [self.names[pods[at]] for at in order],
                "node": [places[where[at]] for at in order],
                "gpu_milli": [size[0] for size in sizes],
                "cpu_milli": [size[1] for size in sizes],
                "memory_bytes": [size[2] for size in sizes],
                "start_us": [began_us + starts[at] for at in order],
                "end_us": [None if ends[at] < 0 else began_us + ends[at] for at in order],
            },
        )

    def tallies(self, now: int) -> dict[int, list[int]]:
        """Pods, started, succeeded, failed, milli-GPU·µs held: by id of every workload that owns them."""
        found: dict[int, list[int]] = {}
        columns = zip(
            self.owners, self.column(STARTED), self.column(PHASE), self.held_until(now), strict=True
        )
        for owner, started, phase, held in columns:
            above = owner
            while above is not None:
                tally = found.setdefault(id(above), [0, 0, 0, 0, 0])
                tally[0] += 1
                tally[1] += started >= 0
                tally[2] += phase == SUCCEEDED
                tally[3] += phase == FAILED
                tally[4] += held
                above = above.parent
        return found

    def fork(self, workloads: Mapping[int, Workload]) -> PodLedger:
        """A copy whose owners are the copies given by id."""
        twin = PodLedger()
        twin.owners = [None if o is None else workloads[id(o)] for o in self.owners]
        for name in ("names", "uids", "labels", "sorts", "interval_sizes"):
            setattr(twin, name, list(getattr(self, name)))
        for name in ("row_of", "reason", "refusal", "refusals", "disruption"):
            setattr(twin, name, dict(getattr(self, name)))
        twin.numbers, twin.intervals = array("q", self.numbers), array("q", self.intervals)
        twin.use = {row: use.copy() for row, use in self.use.items()}
        # Interned and append-only: shared.
        twin._sorts, twin._sizes = self._sorts, self._sizes
        return twin


_TIMES = (
    (SCHEDULED, "scheduled_us"),
    (STARTED, "started_us"),
    (READY, "ready_us"),
    (FINISHED, "finished_us"),
    (DELETED_AT, "deleted_us"),
)


def owner_reference_of(pod: Obj) -> dict[str, Any] | None:
    """The controller, where the pod has any owner."""
    return controller_of(pod) if "ownerReferences" in pod["metadata"] else None
