"""The pods of a run as they are noted: when things happened to them, and what they held where.

This is the hot path: a pod costs a dozen numbers side by side in one array, its names, and one shared `Sort`
with pods of its kind; what few pods have (a refusal, a disruption) is kept by row. Everything else (sums,
series, shares) is worked out from these when somebody asks: see `series`.

Times are µs since the run began, below zero for what a dump says happened before; NEVER: not yet.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fairway.cluster.gpurequests import Devices, GpuResources, Part
from fairway.cluster.shapes import Shapes
from fairway.kube.objects import Obj
from fairway.kube.resources import GPU_MILLI, NVIDIA_GPU
from fairway.recorder.utilization import Uses
from fairway.recorder.workloads import NEVER, QUEUE_LABEL, Workload

PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")
PHASE_CODES: Final = {"Pending": 0, "Unknown": 1, "Running": 1, "Succeeded": 2, "Failed": 3}
RUNNING, SUCCEEDED, FAILED = 1, 2, 3

# The numbers of a pod: `numbers[row * WIDTH + STARTED]`. PLACE and INTERVAL are indexes, -1 without.
CREATED, SCHEDULED, STARTED, READY, FINISHED, DELETED_AT, PLACE, INTERVAL, PHASE, RESTARTS = range(10)
WIDTH: Final = 10
_NEW: Final = array("q", [0, NEVER, NEVER, NEVER, NEVER, NEVER, -1, -1, 0, 0])

# The numbers of an interval: whose, on which node life, from when to when (NEVER: still).
POD, LIFE, START, END = range(4)
INTERVAL_WIDTH: Final = 4
_HELD: Final = array("q", [0, 0, 0, NEVER])

Size = tuple[int, int, int]
"""(milli-GPU, milli-CPU, bytes) a pod asks for."""

_NO_LABELS: Final[dict[str, str]] = {}


class Sort(NamedTuple):
    """What pods of one kind share."""

    namespace: str
    priority: int
    priority_class: str
    queue: str
    is_serving: bool
    size: Size
    devices: Devices
    """The GPUs it asks for, by the names of their resources."""


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
        self.uses: dict[int, Uses] = {}
        """How pods that tell use GPUs, from their start on; empty until they start."""
        self.memory_uses: dict[int, Uses] = {}
        """The same for the memory of their GPUs, in bytes."""
        self.telling: dict[int, Mapping[str, str]] = {}
        """Annotations of pods with GPUs that have some; those that say how GPUs are used are looked for later."""
        self._open: dict[int, dict[int, None]] = {}
        """By node life: the pods that hold something of it."""
        self._homeless: dict[int, dict[int, None]] = {}
        """By place: the pods bound there that hold nothing, because no node bears its name."""
        self.units: dict[int, Part] = {}
        """By node life: which part of a GPU its `nvidia.com/gpu` is, where that is not a whole one."""
        self._shared: dict[int, int] = {}
        self._sorts: dict[tuple[Any, ...], Sort] = {}
        self._asked: dict[int, tuple[Size, Devices]] = {}

    def asked_by(self, pod: Obj, shapes: Shapes, gpus: GpuResources) -> tuple[Size, Devices]:
        """What it asks for, looked up by its shape."""
        shape = shapes.of(pod)
        found = self._asked.get(shape.id)
        if found is None:
            asked = shape.requests
            size = (gpus.asked(asked), asked.get("cpu", 0), asked.get("memory", 0))
            found = self._asked[shape.id] = (size, gpus.devices(asked))
        return found

    def admit(self, pod: Obj, asked: tuple[Size, Devices], owner: Workload | None, now: int) -> int:
        """A new pod; returns its row."""
        meta, spec = pod["metadata"], pod["spec"]
        labels = meta.get("labels") or _NO_LABELS
        sort = (
            meta.get("namespace") or "",
            spec.get("priority") or 0,
            spec.get("priorityClassName") or "",
            labels.get(QUEUE_LABEL) or ("" if owner is None else owner.queue),
            spec.get("restartPolicy", "Always") == "Always",
            *asked,
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

    def resize(self, row: int, asked: tuple[Size, Devices], now: int) -> None:
        """It asks for something else from now on (in-place resize)."""
        interval = self.numbers[row * WIDTH + INTERVAL]
        self.release(row, now)
        values = (*self.sorts[row][: -len(asked)], *asked)
        self.sorts[row] = self._sorts.get(values) or self._sort(values)
        if interval >= 0:
            self.hold(row, self.intervals[interval * INTERVAL_WIDTH + LIFE], now)

    def bind(self, row: int, place: int, life: int, now: int) -> None:
        """It is bound to a node's name, and holds its share if a node (its life) bears that."""
        self.numbers[row * WIDTH + PLACE] = place
        if life >= 0:
            self.hold(row, life, now)
        else:
            self._homeless.setdefault(place, {})[row] = None

    def hold(self, row: int, life: int, now: int) -> None:
        """It holds its share of a node from now on."""
        if life in self.units:
            self._fit(row, self.units[life])
        sizes = self.interval_sizes
        self.numbers[row * WIDTH + INTERVAL] = len(sizes)
        sizes.append(self.sorts[row].size)
        at = len(self.intervals)
        self.intervals.extend(_HELD)
        self.intervals[at + POD], self.intervals[at + LIFE], self.intervals[at + START] = row, life, now
        self._open.setdefault(life, {})[row] = None

    def claim(self, row: int, milli: int) -> None:
        """It was given so much of GPUs by claims, beside what it asks for."""
        sort = self.sorts[row]
        size = (sort.size[0] + milli, *sort.size[1:])
        devices = (*(d for d in sort.devices if d[0] != GPU_MILLI), (GPU_MILLI, milli))
        self.sorts[row] = self._sort((*sort[:5], size, devices))

    def share(self, row: int, milli: int) -> None:
        """What it was given of cards that HAMi divides."""
        if milli:
            self._shared[row] = milli

    def _fit(self, row: int, unit: Part) -> None:
        """What it was given is a part of what its request's name says."""
        sort = self.sorts[row]
        named = dict(sort.devices).get(NVIDIA_GPU, 0) * 1000
        shared = self._shared.pop(row, None)
        part = named * unit[0] // unit[1] if shared is None else shared
        if sort.size[0] >= named:
            size = (sort.size[0] - named + part, *sort.size[1:])
            devices = sort.devices if shared is None else ((GPU_MILLI, shared),)
            self.sorts[row] = self._sort((*sort[:5], size, devices))

    def release(self, row: int, now: int) -> None:
        """It holds nothing any more."""
        at = row * WIDTH + INTERVAL
        interval = self.numbers[at]
        if interval >= 0:
            self.numbers[at] = -1
            self.intervals[interval * INTERVAL_WIDTH + END] = now
            life = self.intervals[interval * INTERVAL_WIDTH + LIFE]
            held = self._open[life]
            del held[row]
            if not held:
                del self._open[life]

    def end(self, row: int, now: int) -> None:
        """It is over: it neither waits nor runs."""
        at = row * WIDTH
        if self.numbers[at + FINISHED] == NEVER:
            self.numbers[at + FINISHED] = now
            self.release(row, now)
            if self._homeless:
                self._homeless.get(self.numbers[at + PLACE], {}).pop(row, None)

    def come(self, place: int, life: int, now: int) -> None:
        """A node bears this name now: the pods bound to it hold their shares."""
        for row in sorted(self._homeless.pop(place, ())):
            self.hold(row, life, now)

    def go(self, place: int, life: int, now: int) -> None:
        """The node is gone: its pods hold nothing."""
        for row in list(self._open.get(life, ())):
            self.release(row, now)
            self._homeless.setdefault(place, {})[row] = None

    def column(self, number: int) -> array[int]:
        """One number of every pod, by row."""
        return self.numbers[number::WIDTH]

    def fork(self, workloads: Mapping[int, Workload]) -> PodLedger:
        """A copy whose owners are the copies given by id."""
        twin = PodLedger()
        twin.owners = [None if o is None else workloads[id(o)] for o in self.owners]
        for name in ("names", "uids", "labels", "sorts", "interval_sizes"):
            setattr(twin, name, list(getattr(self, name)))
        for name in (
            "row_of",
            "reason",
            "refusal",
            "refusals",
            "disruption",
            "uses",
            "memory_uses",
            "telling",
        ):
            setattr(twin, name, dict(getattr(self, name)))
        twin.units = dict(self.units)
        twin._open = {life: dict(rows) for life, rows in self._open.items()}
        twin._homeless = {place: dict(rows) for place, rows in self._homeless.items()}
        twin.numbers, twin.intervals = array("q", self.numbers), array("q", self.intervals)
        # Interned and append-only: shared.
        twin._sorts, twin._asked = self._sorts, self._asked
        return twin
