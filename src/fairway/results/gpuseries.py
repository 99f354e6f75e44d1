"""What did the GPUs of a run do, moment by moment? The run's nodes as devices, its intervals as their users.

Which device a pod had is known only where its node shares GPUs; elsewhere it gets the lowest that are free, as a device
plugin's kubelet would give them. How it used them is what its annotations say (`PodRow.behaviour`), else what pods of
its kind do (`telemetry.gpus.kinds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from fairway.catalog.catalog import Catalog
from fairway.catalog.gpus import MIB, GpuModel
from fairway.kube.resources import GPU_MILLI
from fairway.metering.devices import GPU, MIG_PREFIX, REPLICAS_LABEL, SHARED
from fairway.recorder.tables import Outcome, PodRow
from fairway.telemetry.dcgm.identity import Device, Holder
from fairway.telemetry.dcgm.source import DcgmSource, Stay
from fairway.telemetry.gpus import FleetBuilder
from fairway.telemetry.gpus.boards import Board, board_of
from fairway.telemetry.gpus.fleet import FAR_TICK, TICK_US, Row, airflow_of, ticks_up
from fairway.twin.gpubreaks import tell
from fairway.twin.gpuuse import Working, uses_of

_MILLI = 1000
FAR_US = FAR_TICK * TICK_US


class Slot(NamedTuple):
    """A part of a node that can be handed out: a GPU, a replica of one, a MIG instance. `row`: of the fleet."""

    resource: str
    row: int


class _Node:
    """A node's life: what of it is free, and what is taken until when."""

    def __init__(self, start_us: int, slots: list[Slot]) -> None:
        self.start_us = start_us
        self.free: dict[str, list[int]] = {}
        for slot in slots:
            self.free.setdefault(slot.resource, []).append(slot.row)
        self._taken: list[tuple[int, int, str]] = []
        self._parts: dict[int, list[tuple[int, int]]] = {}
        """By row of a GPU that several have parts of: until when, and how many thousandths."""

    def _give_back(self, now_us: int) -> None:
        while self._taken and self._taken[0][0] <= now_us:
            _, row, of = heappop(self._taken)
            heappush(self.free[of], row)
        for row, users in list(self._parts.items()):
            users[:] = [user for user in users if user[0] > now_us]
            if not users:
                del self._parts[row]
                heappush(self.free[GPU], row)

    def take_milli(self, milli: int, start_us: int, end_us: int) -> list[int]:
        """Of GPUs that claims or HAMi divide: whole ones, and a part of one that has as much left."""
        if GPU_MILLI in self.free:
            # In thousandths: whole devices, as many as it takes.
            return self.take(GPU_MILLI, -(-milli // _MILLI), start_us, end_us)
        whole, part = divmod(milli, _MILLI)
        rows = self.take(GPU, whole, start_us, end_us)
        if not part:
            return rows
        fits = (r for r, users in self._parts.items() if sum(m for _, m in users) + part <= _MILLI)
        row = next(fits, None)
        if row is None and self.free.get(GPU):
            row = heappop(self.free[GPU])
        if row is not None:
            self._parts.setdefault(row, []).append((end_us, part))
            rows.append(row)
        return rows

    def take(self, resource: str, count: int, start_us: int, end_us: int) -> list[int]:
        self._give_back(start_us)
        free = self.free.get(resource, [])
        rows = [heappop(free) for _ in range(min(count, len(free)))]
        for row in rows:
            heappush(self._taken, (end_us, row, resource))
        return rows


def dcgm_source(outcome: Outcome, catalog: Catalog, seed: int = 0) -> DcgmSource:
    """The series of a run's GPUs. O(n log n) in intervals; nothing per moment until it is asked."""
    builder, devices, lives = _nodes(outcome, catalog, seed)
    stays: list[Stay] = []
    pods = outcome.pods
    columns = outcome.intervals.columns
    # Names of nodes come back: an interval belongs to the last life that began before it.
    names = ("pod", "node", "start_us", "end_us", "gpu_milli")
    for pod, node, start, end, milli in zip(*(columns[n] for n in names), strict=True):
        life = next((x for x in reversed(lives.get(node, ())) if x.start_us <= start), None)
        asked = pods.columns["devices"][pod]
        if life is None or not asked:
            continue
        row = pods[pod]
        # What the end of the run cut off goes on.
        end = FAR_US if end is None or end >= outcome.ended_us else end
        rows = _taken(life, asked, milli, start, end)
        holder = Holder(row.namespace, row.name)
        for at in rows:
            stays.append(Stay(at, ticks_up(start), ticks_up(end), holder))
            for use in uses_of(working_of(row), start, end, len(rows), builder.memory_of(at)):
                builder.use(at, use)
    for broken in outcome.breaks:
        row = next((r for r, d in enumerate(devices) if (d.node, d.slot) == (broken.node, broken.card)), None)
        if row is not None:
            tell(builder, row, broken.cause, broken.at_us, broken.ended_us)
    stays.sort(key=lambda stay: (stay.row, stay.first))
    return DcgmSource(builder.build(), devices, stays, outcome.ended_us // 1000)


def _taken(life: _Node, asked: Mapping[str, str], milli: int, start: int, end: int) -> list[int]:
    rows = []
    for resource, count in asked.items():
        if resource == GPU_MILLI:
            # Beside others, what was added for claims; alone, what the interval had.
            rows += life.take_milli(int(count) if len(asked) > 1 else milli, start, end)
        else:
            rows += life.take(resource, int(count), start, end)
    return rows


def _nodes(
    outcome: Outcome, catalog: Catalog, seed: int
) -> tuple[FleetBuilder, list[Device], dict[str, list[_Node]]]:
    """Every GPU of every node that had some, and the lives of nodes by name, oldest first."""
    boards: dict[str, int] = {}
    kinds: list[Board] = []
    nodes = outcome.nodes.columns
    names = ("name", "labels", "gpu_model", "instance_type", "devices", "created_us", "deleted_us")
    rows = sorted(zip(*(nodes[n] for n in names), strict=True), key=lambda row: (row[0], row[5]))
    products = [_product(catalog, model, kind) for _, _, model, kind, *_ in rows]
    for product in products:
        if product not in boards:
            boards[product] = len(kinds)
            kinds.append(board_of(catalog, product))
    builder = FleetBuilder(kinds, seed)
    devices: list[Device] = []
    lives: dict[str, list[_Node]] = {}
    for (name, labels, _, _, offers, created, deleted), product in zip(rows, products, strict=True):
        if not offers:
            continue
        until = FAR_US if deleted is None else deleted
        slots = []
        for part in parts_of(catalog.gpu(product), offers, labels):
            board = kinds[boards[product]]
            row = Row(
                boards[product],
                gpu=len(devices) - part.back,
                slot=part.gpu,
                name=f"{name}/{part.gpu}/{part.instance}",
                start_us=created,
                end_us=until,
                share=part.share,
                memory_mib=part.memory_mib,
                airflow=airflow_of(labels),
            )
            at = builder.add(row)
            devices.append(Device(name, part.gpu, board.name, part.profile, part.instance))
            slots += [Slot(resource, at) for resource, count in part.offers for _ in range(count)]
        lives.setdefault(name, []).append(_Node(created, slots))
    return builder, devices, lives


def _product(catalog: Catalog, model: str, instance_type: str) -> str:
    sold = catalog.instance_type(instance_type) if instance_type else None
    return model or (sold.gpu if sold and sold.gpu else "")


def working_of(row: PodRow) -> Working:
    return Working(
        row.namespace,
        row.name,
        row.root_kind,
        row.root_name,
        row.is_serving,
        row.cpu_milli,
        row.started_us,
        row.behaviour,
    )


class Part(NamedTuple):
    """A GPU of a node, or an instance of one. `back`: how many rows of the same GPU come before it."""

    gpu: int
    offers: tuple[tuple[str, int], ...]
    share: float = 1.0
    memory_mib: float = 0.0
    profile: str = ""
    instance: str = ""
    back: int = 0


def parts_of(model: GpuModel | None, offers: Mapping[str, str], labels: Mapping[str, str]) -> list[Part]:
    """What a node's resources stand for, device by device. Instances fill one GPU after the other."""
    told = labels.get(REPLICAS_LABEL, "")
    replicas = int(told) if told.isdecimal() and 0 < int(told[:4]) <= 1000 else 1
    units = {name: int(count) for name, count in sorted(offers.items())}
    whole = units.get(GPU, 0) + units.get(SHARED, 0)
    shares = -(-units.get(GPU_MILLI, 0) // _MILLI)
    found = []
    for gpu in range(max(-(-whole // replicas), shares)):
        named = [(n, replicas) for n in (GPU, SHARED) if units.get(n, 0) and gpu * replicas < units[n]]
        found.append(Part(gpu, (*named, *(((GPU_MILLI, replicas),) if gpu < shares else ()))))
    slices = model.compute_slices if model is not None else 0
    gpu, compute, back = len(found), 0, 0
    for name, count in units.items():
        profile = model.profile(name) if model is not None and name.startswith(MIG_PREFIX) else None
        for _ in range(count if profile is not None else 0):
            assert profile is not None
            if compute + profile.compute_slices > slices:
                gpu, compute, back = gpu + 1, 0, 0
            size = profile.memory_bytes / MIB
            share = profile.compute_slices / slices
            found.append(Part(gpu, ((name, 1),), share, size, profile.name, str(back + 1), back))
            compute, back = compute + profile.compute_slices, back + 1
    return found
