"""What do the GPUs of a served cluster do now? All nodes at once, worked out anew every `TICK_S` of the cluster's time.

Which GPU a pod has, its claims say, and its annotations where nodes share them or are cut; elsewhere it gets the lowest
that are free.
Counters begin at 0 when a device is first looked at, and go on from there: what ran and ended between two looks is not
counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairway.catalog.catalog import load_catalog
from fairway.catalog.drivers import DRA_DRIVER, mig_uuid
from fairway.catalog.gpus import MIB, MigProfile
from fairway.catalog.nodegpus import INSTANCES, gpus_of_node
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.cluster.gpurequests import DEFAULT_GPUS
from fairway.cluster.store import Store
from fairway.kube.integers import natural
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.kube.podrequests import container_requests
from fairway.kube.resourceclaims import CLAIM, allocation_of, is_reserved_for, pod_claims
from fairway.kube.resources import CPU
from fairway.kube.timestamps import parse_rfc3339
from fairway.telemetry.dcgm.counters import Counter, default_counters, field_of
from fairway.telemetry.dcgm.identity import Device, Holder, split_labels
from fairway.telemetry.dcgm.source import DcgmSource, Stay
from fairway.telemetry.exposition import Block, braced, number
from fairway.telemetry.gpus import FleetBuilder, Use
from fairway.telemetry.gpus.boards import Board, board_of
from fairway.telemetry.gpus.fields import COUNTERS, OF_WHOLE_GPUS, Devices, Values
from fairway.telemetry.gpus.fleet import FAR_TICK, TICK_US, Row, airflow_of, ticks_up
from fairway.telemetry.store import NAME, Labels
from fairway.twin.gpubreaks import tell
from fairway.twin.gpuuse import Working, behaviour_text, uses_of

_FAR_US = FAR_TICK * TICK_US
_OVER = ("Succeeded", "Failed")
_DEVICE = re.compile(r"gpu-(\d{1,4})(?:-mig-.*-(\d{1,2}))?")
"""As NVIDIA's DRA driver names what it publishes."""
_DEEPEST = 8
_Broken = tuple[str, int, str, int]


class _Snapshot(NamedTuple):
    """`rows`: by node, the rows of its devices; `holders`: by row, whoever holds it."""

    tick: int
    fields: Devices
    devices: list[Device]
    rows: dict[str, range]
    holders: dict[int, list[Holder]]
    stays: list[Stay]


class GpuPages:
    """Whoever is asked for many nodes' pages within a tick answers from one snapshot."""

    def __init__(self, store: Store, breaks: Callable[[], Mapping[_Broken, int | None]] = dict) -> None:
        """`breaks`: which GPUs broke: node, card, cause and since when; until when."""
        self._store, self._breaks = store, breaks
        self._now: _Snapshot | None = None
        self._values: dict[str, Values] = {}
        self._texts: dict[str, list[str]] = {}
        self._reached: dict[str, tuple[int, dict[Device, float]]] = {}
        """By counter: the last tick that was looked at, and every device's sum then."""

    def blocks(self, node: str, counters: Sequence[Counter] = ()) -> Iterator[Block]:
        """dcgm-exporter's families of one node."""
        now = self._snapshot()
        rows = now.rows.get(node, range(0))
        heads = [
            (
                row,
                [braced(now.devices[row].labels() | h.labels()) for h in now.holders.get(row) or (Holder(),)],
            )
            for row in rows
        ]
        wholes = [head for head in heads if not now.devices[head[0]].profile]
        for counter in counters or default_counters():
            texts, name = self._texts_of(now, counter.field), counter.name
            lines = [
                f"{name}{labels} {texts[row]}\n"
                for row, several in (wholes if counter.field in OF_WHOLE_GPUS else heads)
                for labels in several
            ]
            yield Block(counter.name, counter.type, counter.help, lines)

    def samples(self, name: str) -> Iterator[tuple[Labels, float]]:
        """One metric of every device of the cluster, as a scrape of all exporters has it."""
        now, field = self._snapshot(), field_of(name)
        if field is None:
            return
        values = self._of_field(now, field)
        for row, device in enumerate(now.devices):
            if not (field in OF_WHOLE_GPUS and device.profile):
                for holder in now.holders.get(row) or (Holder(),):
                    before, behind = split_labels(device, holder)
                    yield (*before, (NAME, name), *behind), float(values[row])

    def source(self, until_ms: int) -> DcgmSource:
        """The series of all devices, with what their holders of now did since they began."""
        now = self._snapshot()
        return DcgmSource(now.fields.fleet, now.devices, sorted(now.stays, key=lambda s: s[:2]), until_ms)

    def _snapshot(self) -> _Snapshot:
        tick = self._store.now_us // TICK_US
        if self._now is None or self._now.tick != tick:
            self._now, self._values = _taken(self._store, tick, self._breaks()), {}
            self._texts = {}
        return self._now

    def _texts_of(self, now: _Snapshot, field: str) -> list[str]:
        """Every row's value at the tick, as a page has it."""
        found = self._texts.get(field)
        if found is None:
            values = self._of_field(now, field)
            if (values == np.rint(values)).all() and np.abs(values).max(initial=0) < 2**53:
                found = list(map(str, values.astype(np.int64).tolist()))
            else:
                found = list(map(number, values.tolist()))
            self._texts[field] = found
        return found

    def _of_field(self, now: _Snapshot, field: str) -> Values:
        """Every row's value at the tick."""
        if not now.devices:
            return np.zeros(0)
        found = self._values.get(field)
        if found is None:
            rows = slice(0, len(now.devices))
            if field in COUNTERS:
                last, totals = self._reached.get(field, (now.tick - 1, {}))
                before = np.array([totals.get(device, 0.0) for device in now.devices])
                now.fields.resume(field, rows, last + 1, before)
            found = np.asarray(now.fields.values(field, rows, now.tick, 1)[:, 0], np.float64)
            if field in COUNTERS:
                self._reached[field] = (now.tick, dict(zip(now.devices, found.tolist(), strict=True)))
            self._values[field] = found
        return found


def _taken(store: Store, tick: int, breaks: Mapping[_Broken, int | None]) -> _Snapshot:
    """Devices of all nodes and who holds them. O(nodes + pods)."""
    catalog = load_catalog()
    boards: dict[str, int] = {}
    kinds: list[Board] = []
    gpus: list[tuple[Device, int, int, MigProfile | None]] = []
    airs: dict[str, float] = {}
    made: dict[str, int] = {}
    places: dict[tuple[str, int, int], int] = {}
    rows: dict[str, range] = {}
    slices: dict[str, int] = {}
    for node in store.walk("Node"):
        name, found = name_of(node), gpus_of_node(node)
        if not found.count:
            continue
        if found.product not in boards:
            boards[found.product] = len(kinds)
            kinds.append(board_of(catalog, found.product))
        board = boards[found.product]
        slices[name] = found.model.compute_slices if found.model is not None else 0
        start, airs[name] = len(gpus), airflow_of(labels_of(node))
        made[name] = parse_rfc3339(meta_of(node)["creationTimestamp"])
        for card, layout in enumerate(found.layouts):
            model = kinds[board].name
            gpu = len(gpus)
            if not layout or found.model is None:
                gpus.append((Device(name, card, model), board, gpu, None))
                continue
            for instance in layout:
                own = str(instance.id_on(found.model))
                device = Device(name, card, model, instance.profile.name, own)
                places[name, card, instance.start] = len(gpus)
                gpus.append((device, board, gpu, instance.profile))
        rows[name] = range(start, len(gpus))
    builder = FleetBuilder(kinds)
    for device, board, gpu, profile in gpus:
        builder.add(
            Row(
                board,
                gpu,
                device.slot,
                f"{device.node}/{device.slot}/{device.instance}",
                made[device.node],
                _FAR_US,
                share=profile.compute_slices / slices[device.node] if profile else 1.0,
                memory_mib=profile.memory_bytes / MIB if profile else 0.0,
                airflow=airs[device.node],
            )
        )
    devices = [device for device, *_ in gpus]
    for (node_name, card, cause, start_us), end_us in breaks.items():
        row = next((r for r in rows.get(node_name, ()) if devices[r].slot == card), None)
        if row is not None:
            tell(builder, row, cause, start_us, end_us)
    stays: list[Stay] = []
    holders = _hold(store, builder, devices, rows, places, stays)
    return _Snapshot(tick, Devices(builder.build()), devices, rows, holders, stays)


def _hold(
    store: Store,
    builder: FleetBuilder,
    devices: Sequence[Device],
    rows: Mapping[str, range],
    places: Mapping[tuple[str, int, int], int],
    stays: list[Stay],
) -> dict[int, list[Holder]]:
    """Gives every pod its devices: those that its claims or it name first, then the others the lowest that are free."""
    holders: dict[int, list[Holder]] = {}
    unnamed = []
    for pod in store.walk("Pod"):
        of_node = rows.get(str(spec_of(pod).get("nodeName") or ""))
        if of_node is None or status_of(pod).get("phase") in _OVER:
            continue
        claimed = list(_claimed(store, pod, devices, of_node, places))
        if claimed:
            _give(store, builder, pod, claimed, holders, stays)
        container, units = _asks(pod)
        if not units:
            continue
        named = list(_named(pod, devices, of_node, places))
        if named:
            _give(store, builder, pod, _plain(pod, container, named), holders, stays)
        else:
            unnamed.append((pod, container, units, of_node))
    for pod, container, units, of_node in unnamed:
        free = [row for row in of_node if row not in holders]
        # A shared GPU has more users than it has rows.
        chosen = (free or sorted(of_node, key=lambda row: (len(holders.get(row, ())), row)))[:units]
        _give(store, builder, pod, _plain(pod, container, chosen), holders, stays)
    return holders


def _plain(pod: Obj, container: str, rows: Sequence[int]) -> list[tuple[int, Holder]]:
    holder = Holder(namespace_of(pod), name_of(pod), container)
    return [(row, holder) for row in rows]


def _claimed(
    store: Store, pod: Obj, devices: Sequence[Device], rows: range, places: Mapping[tuple[str, int, int], int]
) -> Iterator[tuple[int, Holder]]:
    """Of NVIDIA's DRA driver: whole GPUs and MIG instances. Who only looks on (admin access) holds nothing."""
    namespace, entries = namespace_of(pod), [(c.name, c.claim) for c in pod_claims(pod)]
    entries.append(("", (status_of(pod).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")))
    for entry, name in entries:
        claim = store.get(Key(CLAIM, namespace, name)) if name else None
        if claim is None or not is_reserved_for(pod, claim):
            continue
        holder = Holder(namespace, name_of(pod), _claiming(pod, entry), name_of(claim))
        for result in ((allocation_of(claim) or {}).get("devices") or {}).get("results") or ():
            if result.get("driver") != DRA_DRIVER or result.get("adminAccess"):
                continue
            pool, device = str(result.get("pool")), str(result.get("device"))
            row = _row_of(device, devices, rows, places)
            if row is not None and pool == devices[row].node:
                profile, uuid = _instance(device, devices[row])
                yield row, holder._replace(pool=pool, device=device, profile=profile, uuid=uuid)


def _claiming(pod: Obj, entry: str) -> str:
    """The first container that uses the claim; of one for extended resources, that its status says."""
    for container in spec_of(pod).get("containers") or ():
        used = (container.get("resources") or {}).get("claims") or ()
        if entry and any(u.get("name") == entry for u in used):
            return str(container.get("name"))
    mappings = (status_of(pod).get("extendedResourceClaimStatus") or {}).get("requestMappings") or ()
    return "" if entry or not mappings else str(mappings[0].get("containerName") or "")


def _row_of(
    device: str, devices: Sequence[Device], rows: range, places: Mapping[tuple[str, int, int], int]
) -> int | None:
    """`gpu-3`, or `gpu-3-mig-1g10gb-19-4`: the instance at that place, else its card."""
    found = _DEVICE.fullmatch(device)
    if found is None or not rows:
        return None
    slot, start = int(found[1]), found[2]
    instance = None if start is None else places.get((devices[rows.start].node, slot, int(start)))
    return instance if instance is not None else next((r for r in rows if devices[r].slot == slot), None)


def _instance(name: str, device: Device) -> tuple[str, str]:
    """Profile and UUID of a MIG instance that a claim gave; of one that is not there (yet), and of a card, nothing."""
    found = _DEVICE.fullmatch(name)
    if found is None or found[2] is None or not device.profile:
        return "", ""
    return device.profile, mig_uuid(device.node, device.slot, int(found[2]))


def _asks(pod: Obj) -> tuple[str, int]:
    """The first container that asks for GPUs, and on how many devices the pod runs."""
    first, total = "", 0
    for container in spec_of(pod).get("containers") or ():
        units = DEFAULT_GPUS.units(container_requests(container))
        first = first or (str(container.get("name")) if units else "")
        total += units
    return first, total


def _named(
    pod: Obj, devices: Sequence[Device], rows: range, places: Mapping[tuple[str, int, int], int]
) -> Iterator[int]:
    """The devices its annotations name: `0,3`, or `0/1g.10gb@3`; of an instance that is not there, another like it."""
    said = annotations_of(pod)
    instances = [part.strip() for part in said.get(INSTANCES, "").split(",") if part.strip()]
    for part in instances:
        card, _, place = part.partition("/")
        profile, _, start = place.partition("@")
        cut = [r for r in rows if str(devices[r].slot) == card and devices[r].profile == profile]
        if cut:
            there = places.get((devices[cut[0]].node, devices[cut[0]].slot, natural(start) or 0), cut[0])
            yield there if there in cut else cut[0]
    if not instances:
        cards = [
            n
            for n in (natural(p.strip()) for p in said.get(GPU_INDEX_ANNOTATION, "").split(","))
            if n is not None
        ]
        yield from (row for row in rows if devices[row].slot in cards)


def _give(
    store: Store,
    builder: FleetBuilder,
    pod: Obj,
    chosen: Sequence[tuple[int, Holder]],
    holders: dict[int, list[Holder]],
    stays: list[Stay],
) -> None:
    meta = meta_of(pod)
    bound_us = parse_rfc3339(status_of(pod).get("startTime") or meta["creationTimestamp"])
    kind, owner = _root(store, pod)
    cpu = sum(container_requests(c).get(CPU, 0) for c in spec_of(pod).get("containers") or ())
    working = Working(
        namespace_of(pod),
        name_of(pod),
        kind,
        owner,
        spec_of(pod).get("restartPolicy", "Always") == "Always",
        cpu,
        _started_us(pod),
        behaviour_text(annotations_of(pod)),
    )
    uses: dict[float, list[Use]] = {}
    for row, holder in chosen:
        holders.setdefault(row, []).append(holder)
        stays.append(Stay(row, ticks_up(bound_us), FAR_TICK, holder))
        memory = builder.memory_of(row)
        if memory not in uses:
            uses[memory] = list(uses_of(working, bound_us, _FAR_US, len(chosen), memory))
        for use in uses[memory]:
            builder.use(row, use)


def _root(store: Store, pod: Obj) -> tuple[str, str]:
    """The kind and name of its topmost owner."""
    kind, name = "", ""
    obj: Obj | None = pod
    for _ in range(_DEEPEST):
        by = None if obj is None else controller_of(obj)
        if by is not None:
            kind, name = str(by.get("kind")), str(by.get("name"))
            obj = store.by_uid(str(by.get("uid")))
    return kind, name


def _started_us(pod: Obj) -> int | None:
    for told in status_of(pod).get("containerStatuses") or ():
        started = ((told.get("state") or {}).get("running") or {}).get("startedAt")
        if started:
            return parse_rfc3339(started)
    return None
