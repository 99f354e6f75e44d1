"""The nodes of a run: what each offered, what of it was held, and why the rest was idle.

GPU time of a node is integrated whenever anything about it changes. Idle time is split by whether GPU pods
were waiting meanwhile: a clock that only runs while they do is read along with the real one.
"""

from __future__ import annotations

from array import array
from typing import Any

from fairway.kube.objects import Obj, labels_of, status_of
from fairway.kube.resources import CPU, MEMORY
from fairway.twin.recorder.gpus import (
    INSTANCE_TYPE_LABELS,
    MODEL_LABELS,
    GpuResources,
    label_of,
    node_resources,
)
from fairway.twin.recorder.tables import NodeRow, Table


class DemandClock:
    """A clock that runs only while GPU pods wait. Times are µs since the run began."""

    __slots__ = ("_since", "_total")

    def __init__(self) -> None:
        self._total = 0
        self._since = -1

    def set(self, now: int, *, is_waiting: bool) -> None:
        if is_waiting and self._since < 0:
            self._since = now
        elif not is_waiting and self._since >= 0:
            self._total += now - self._since
            self._since = -1

    def at(self, now: int) -> int:
        return self._total + (now - self._since if self._since >= 0 else 0)

    def fork(self) -> DemandClock:
        twin = DemandClock()
        twin._total, twin._since = self._total, self._since
        return twin


class NodeLife:
    """One node from its creation to its deletion. Sums are milli-GPU·µs."""

    __slots__ = (
        "at",
        "capacity_sum",
        "closed_sum",
        "cpu",
        "created",
        "deleted",
        "demand_at",
        "demand_sum",
        "gpu",
        "held",
        "held_sum",
        "is_open",
        "labels",
        "memory",
        "name",
        "pods",
        "quiet_sum",
        "tells_use",
        "uid",
        "used",
        "used_sum",
    )

    def __init__(self, name: str, uid: str, now: int, demand_at: int) -> None:
        self.name = name
        self.uid = uid
        self.labels: dict[str, str] = {}
        self.created = now
        self.deleted = -1
        self.gpu = self.cpu = self.memory = 0
        self.held = self.used = 0
        self.is_open = True
        self.tells_use = False
        self.pods = 0
        self.at = now
        self.demand_at = demand_at
        self.capacity_sum = self.held_sum = self.used_sum = 0
        self.quiet_sum = self.demand_sum = self.closed_sum = 0

    def settle(self, now: int, demand_now: int) -> None:
        """Add up the time since anything changed."""
        passed, in_demand = now - self.at, demand_now - self.demand_at
        if passed:
            self.at, self.demand_at = now, demand_now
            idle = self.gpu - self.held
            self.capacity_sum += self.gpu * passed
            self.held_sum += self.held * passed
            self.used_sum += self.used * passed
            if self.is_open:
                self.demand_sum += idle * in_demand
                self.quiet_sum += idle * (passed - in_demand)
            else:
                self.closed_sum += idle * passed

    def copy(self) -> NodeLife:
        twin = object.__new__(NodeLife)
        for slot in self.__slots__:
            setattr(twin, slot, getattr(self, slot))
        return twin


class Place:
    """A node's name: the node that bears it now, if any, and the rows of the pods bound to it."""

    __slots__ = ("index", "life", "name", "pods")

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name
        self.life: NodeLife | None = None
        self.pods: dict[int, None] = {}


class NodeLedger:
    """Places by name, every node's life, and what is free at each place (milli-GPU, milli-CPU, bytes)."""

    def __init__(self) -> None:
        self.clock = DemandClock()
        self.places: list[Place] = []
        self.lives: list[NodeLife] = []
        self.free: tuple[array[int], array[int], array[int]] = (array("q"), array("q"), array("q"))
        self._by_name: dict[str, Place] = {}

    def place(self, name: str) -> Place:
        """The place of this name, made if new."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = Place(len(self.places), name)
            self.places.append(found)
            for column in self.free:
                column.append(0)
        return found

    def settle(self, life: NodeLife, now: int) -> None:
        life.settle(now, self.clock.at(now))

    def arrive(self, name: str, uid: str, now: int) -> Place:
        """A node of this name exists from now on."""
        place = self.place(name)
        place.life = NodeLife(name, uid, now, self.clock.at(now))
        self.lives.append(place.life)
        return place

    def leave(self, place: Place, now: int) -> None:
        """The node is gone; its pods hold nothing (the caller saw to that)."""
        life = place.life
        if life is not None:
            self.settle(life, now)
            life.deleted = now
            place.life = None
        for column in self.free:
            column[place.index] = 0

    def describe(self, place: Place, node: Obj, gpus: GpuResources, now: int) -> tuple[int, int, int]:
        """Read a node object; returns by how much GPU, CPU and memory in all changed."""
        life = place.life
        if life is None:
            return (0, 0, 0)
        self.settle(life, now)
        offers = node_resources(node)
        new = (gpus.capacity(offers), offers.get(CPU, 0), offers.get(MEMORY, 0))
        deltas = (new[0] - life.gpu, new[1] - life.cpu, new[2] - life.memory)
        life.gpu, life.cpu, life.memory = new
        life.labels = labels_of(node)
        life.is_open = is_open(node)
        for column, delta in zip(self.free, deltas, strict=True):
            column[place.index] += delta
        return deltas

    def hold(self, place: Place, size: tuple[int, int, int], now: int, sign: int) -> None:
        """Count a pod's share of a node as held (sign 1) or free again (-1)."""
        gpu, cpu, memory = size
        life = place.life
        if life is not None and gpu:
            self.settle(life, now)
            life.held += sign * gpu
        free_gpu, free_cpu, free_memory = self.free
        at = place.index
        free_gpu[at] -= sign * gpu
        free_cpu[at] -= sign * cpu
        free_memory[at] -= sign * memory

    def table(self, began_us: int, now: int) -> Table[NodeRow]:
        """Every node by name, then by age."""
        demand_now = self.clock.at(now)
        lives = sorted((life.copy() for life in self.lives), key=lambda life: (life.name, life.created))
        rows = []
        for life in lives:
            if life.deleted < 0:
                life.settle(now, demand_now)
            rows.append(_row(life, began_us, now))
        return Table.of(NodeRow, rows)

    def fork(self) -> NodeLedger:
        twin = NodeLedger()
        twin.clock = self.clock.fork()
        copies = {id(life): life.copy() for life in self.lives}
        twin.lives = list(copies.values())
        for place in self.places:
            other = Place(place.index, place.name)
            other.life = None if place.life is None else copies[id(place.life)]
            other.pods = dict(place.pods)
            twin.places.append(other)
            twin._by_name[place.name] = other
        twin.free = (array("q", self.free[0]), array("q", self.free[1]), array("q", self.free[2]))
        return twin


def is_open(node: Obj) -> bool:
    """Whether it takes pods: not cordoned, and Ready (or silent about it)."""
    spec: dict[str, Any] = node.get("spec") or {}
    if spec.get("unschedulable"):
        return False
    for condition in status_of(node).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True


def _row(life: NodeLife, began_us: int, now: int) -> NodeRow:
    return NodeRow(
        name=life.name,
        uid=life.uid,
        labels=life.labels,
        instance_type=label_of(life.labels, INSTANCE_TYPE_LABELS),
        gpu_model=label_of(life.labels, MODEL_LABELS),
        gpu_milli=life.gpu,
        cpu_milli=life.cpu,
        memory_bytes=life.memory,
        created_us=began_us + life.created,
        deleted_us=None if life.deleted < 0 else began_us + life.deleted,
        lifetime_us=(now if life.deleted < 0 else life.deleted) - life.created,
        capacity_gpu_milli_us=life.capacity_sum,
        held_gpu_milli_us=life.held_sum,
        used_gpu_milli_us=life.used_sum if life.tells_use else None,
        idle_no_demand_gpu_milli_us=life.quiet_sum,
        idle_in_demand_gpu_milli_us=life.demand_sum,
        idle_closed_gpu_milli_us=life.closed_sum,
        pods=life.pods,
    )
