"""How much of every node is taken, and by whom: arrays over nodes, kept up to date change by change.

A placement touches one row, so whoever caches something per node follows `touched` (pods came or went) and
`respecced` (the node object changed) and redoes those rows alone. Rows are stable while a node lives; a
removed node's row is reused. Everything is exact under undo: applying a change and its inverse restores every
array, which is what previews (preemption, forecasts) rely on.

What counts is what kube-scheduler's cache counts: pods bound to a node that have not ended.
Source: pkg/scheduler/backend/cache and framework.NodeInfo (v1.36).
"""

from __future__ import annotations

import copy
from array import array
from bisect import insort
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.devices import MILLI, GpuDevices, devices_of
from fairway.cluster.podcounts import PodCounts
from fairway.cluster.records import LabelSets, PodRecord, is_preempted, start_time_us
from fairway.cluster.shapes import HostPort, PodShape, Shapes
from fairway.kube.objects import Key, Obj, labels_of, meta_of, spec_of, status_of
from fairway.kube.podresizing import effective, is_settled
from fairway.kube.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    GPU_MILLI,
    MEMORY,
    NVIDIA_GPU,
    PODS,
    parse_resources,
)
from fairway.kube.taints import Taint, parse_taints

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Columns every account starts with; extended resources are added as nodes or pods name them.
CPU_COLUMN, MEMORY_COLUMN = 0, 1

# The deprecated names win, as in k8s.io/component-helpers/node/topology GetZoneKey.
_REGION_LABELS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
# What the API server labels every namespace with, so that selectors can name one.
_NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
TERMINAL: Final = ("Succeeded", "Failed")


class NodeAccounts:
    """Rows are nodes, columns are resources.

    `allocatable`, `requested`: int64[row, column]; `non_zero`: int64[row, 2] (milli-CPU, bytes) as scores see
    them; `pod_count`, `allowed_pods`: int64[row]; `alive`, `unschedulable`: bool[row]; `taint_set`: int64[row]
    indexes `taint_sets`. Dead rows hold zeros.
    """

    def __init__(self) -> None:
        self.columns: list[str] = [CPU, MEMORY, EPHEMERAL_STORAGE]
        self.column_of: dict[str, int] = {c: i for i, c in enumerate(self.columns)}
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.shapes = Shapes()
        self.label_sets = LabelSets()
        self.pods_by_priority: dict[int, int] = {}
        self.records: dict[Key, PodRecord] = {}
        self.labels: list[Mapping[str, str]] = []
        self.taints: list[tuple[Taint, ...]] = []
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.images: list[dict[str, int]] = []
        self.image_holders: dict[str, dict[int, None]] = {}
        self.pods: list[dict[Key, PodRecord]] = []
        self.ports: list[dict[HostPort, int]] = []
        self.touched: list[int] = []
        self.respecced: list[int] = []
        self.counts = PodCounts(self)
        self.devices = GpuDevices()
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self.image_version = 0
        self.born: list[int] = []
        self._free_rows: list[int] = []
        self._taint_set_of: dict[tuple[Taint, ...], int] = {(): 0}
        self._homeless: dict[str, dict[Key, PodRecord]] = {}
        self._resizing: dict[Key, None] = {}
        """Pods that wish for something else than they were granted, or than they have."""
        self._born: dict[str, int] = {}
        self._zones: dict[str, list[int]] = {}
        """The rows of each zone, oldest first."""
        self._zone_of: list[str] = []
        self._order: Ints | None = None
        self._turns: Ints = np.zeros(0, np.int64)
        self._next: PodRecord | None = None
        self._allocate(16)

    def _allocate(self, rows: int) -> None:
        columns = len(self.columns)
        self.allocatable: Ints = np.zeros((rows, columns), np.int64)
        self.requested: Ints = np.zeros((rows, columns), np.int64)
        self.non_zero: Ints = np.zeros((rows, 2), np.int64)
        self.pod_count: Ints = np.zeros(rows, np.int64)
        self.allowed_pods: Ints = np.zeros(rows, np.int64)
        self.alive: Bools = np.zeros(rows, np.bool_)
        self.unschedulable: Bools = np.zeros(rows, np.bool_)
        self.taint_set: Ints = np.zeros(rows, np.int64)
        self._look_inside()

    def _look_inside(self) -> None:
        """Arrays were replaced: the elements of those that pods change, one after another, and no state known."""
        self._allocatable_at = elements(self.allocatable)
        self._requested_at = elements(self.requested)
        self._non_zero_at = elements(self.non_zero)
        self._pod_count_at = elements(self.pod_count)
        self._states: list[bytes] = [b""] * len(self.names)

    @property
    def row_count(self) -> int:
        """Rows in use or once used; arrays may be longer."""
        return len(self.names)

    @property
    def node_count(self) -> int:
        return len(self.row_of)

    def column(self, resource: str) -> int:
        """The column of a resource, added if new."""
        found = self.column_of.get(resource)
        if found is None:
            found = len(self.columns)
            self.columns.append(resource)
            self.column_of[resource] = found
            rows = self.allocatable.shape[0]
            self.allocatable = np.hstack([self.allocatable, np.zeros((rows, 1), np.int64)])
            self.requested = np.hstack([self.requested, np.zeros((rows, 1), np.int64)])
            self._look_inside()
        return found

    def state(self, row: int) -> bytes:
        """What there is of each resource, what of it is taken, and whether another pod may come: as one value.

        To a shape, rows of equal states are the same as far as resources go.
        """
        state = self._states[row]
        if not state:
            width = len(self.columns)
            here = slice(row * width, row * width + width)
            full = b"\1" if self.pod_count[row] >= self.allowed_pods[row] else b"\0"
            scored = self._non_zero_at[2 * row : 2 * row + 2]
            state = b"".join([self._allocatable_at[here], self._requested_at[here], scored, full])
            self._states[row] = state
        return state

    # Following the store

    def apply(self, change: Change) -> None:
        gk = change.key.gk
        if gk == "Pod":
            self._apply_pod(change)
        elif gk == "Node":
            self._apply_node(change)
        elif gk == "Namespace":
            self._apply_namespace(change)

    def _apply_namespace(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self.namespace_labels.pop(name, None)
        else:
            self.namespace_labels[name] = {_NAMESPACE_NAME_LABEL: name, **labels_of(change.obj)}
        self.counts.forget_namespace_matches()

    def _apply_pod(self, change: Change) -> None:
        key, pod = change.key, change.obj
        record = self.records.get(key)
        spec = spec_of(pod)
        node = spec.get("nodeName")
        status = status_of(pod)
        if change.type == DELETED or not node or status.get("phase") in TERMINAL:
            if record is not None:
                self._drop(record)
            if self._resizing:
                self._resizing.pop(key, None)
            return
        if self._resizing and key in self._resizing:
            self._resized(record, key, pod, node)
            return
        if record is None:
            if status.get("containerStatuses"):
                self._resized(None, key, pod, node)
                return
            self._take(self._announced(pod, key) or self.record(pod, key, change.old), node)
            return
        meta: Obj = pod["metadata"]
        old = change.old
        same = (
            record.node == node
            and old is not None
            and (old["spec"] is spec or self.shapes.of(pod) is record.shape)
            and (meta_of(old).get("labels") is meta.get("labels") or record.has_labels(meta.get("labels")))
        )
        if not same or record.is_terminating != ("deletionTimestamp" in meta):
            if record.node == node and old is not None and old["spec"] is not spec:
                self._resized(record, key, pod, node)
                return
            self._drop(record)
            self._take(self.record(pod, key), node)
            return
        record.start_us = start_time_us(status)
        record.is_preempted = is_preempted(meta, status)

    def _resized(self, record: PodRecord | None, key: Key, pod: Obj, node: str) -> None:
        """A pod that is perhaps resized in place: it counts as the largest of what is wished, granted and had."""
        counted = effective(pod)
        if is_settled(pod):
            self._resizing.pop(key, None)
        else:
            self._resizing[key] = None
        if record is not None:
            self._drop(record)
        self._take(self.record(counted, key), node)

    def has_resizes(self, row: int) -> bool:
        """Whether a pod on this node wishes for something else than it was granted."""
        return bool(self._resizing) and any(key in self._resizing for key in self.pods[row])

    def announce(self, record: PodRecord) -> None:
        """The pod of this record is about to be bound: no need to work it out again."""
        self._next = record

    def _announced(self, pod: Obj, key: Key) -> PodRecord | None:
        record, self._next = self._next, None
        meta: Obj = pod["metadata"]
        if record is None or record.key != key or record.uid != meta.get("uid"):
            return None
        record.devices = devices_of(meta.get("annotations"))
        return record

    def record(self, pod: Obj, key: Key, before: Obj | None = None) -> PodRecord:
        """What the accounts keep of a pod (not yet counted anywhere).

        `before`: its last state, which shares the shape when all that happened is a binding.
        """
        meta: Obj = pod["metadata"]
        status = status_of(pod)
        return PodRecord(
            key=key,
            uid=meta.get("uid") or "",
            shape=self.shapes.of(before if before is not None and _was_just_bound(before, pod) else pod),
            labels=self.label_sets.of(key.namespace, meta.get("labels") or {}),
            is_terminating="deletionTimestamp" in meta,
            is_preempted=is_preempted(meta, status),
            start_us=start_time_us(status),
            devices=devices_of(meta.get("annotations")),
        )

    def _take(self, record: PodRecord, node: str) -> None:
        record.node = node
        self.records[record.key] = record
        row = self.row_of.get(node)
        if row is None:
            self._homeless.setdefault(node, {})[record.key] = record
        else:
            self.place(record, row)

    def _drop(self, record: PodRecord) -> None:
        del self.records[record.key]
        if record.row >= 0:
            self.displace(record)
        else:
            homeless = self._homeless[record.node]
            del homeless[record.key]
            if not homeless:
                del self._homeless[record.node]

    def bound_to(self, node: str) -> list[Key]:
        """The pods bound to this name that have not ended, whether a node bears it or not; sorted."""
        row = self.row_of.get(node)
        return sorted(self._homeless.get(node, ()) if row is None else self.pods[row])

    # Counting pods on rows: also what a what-if uses, always in balanced pairs

    def place(self, record: PodRecord, row: int) -> None:
        """Count a pod on a row."""
        self._count(record.shape, row, 1)
        self.pods[row][record.key] = record
        record.row = row
        self.counts.count(record, row, 1)
        if record.shape.gpu_count:
            self.devices.take(record, row)
        self.touched.append(row)

    def displace(self, record: PodRecord) -> None:
        """Stop counting a pod where it is."""
        row = record.row
        self._count(record.shape, row, -1)
        del self.pods[row][record.key]
        self.counts.count(record, row, -1)
        if record.shape.gpu_count:
            self.devices.give(record, row)
        record.row = -1
        self.touched.append(row)

    def _count(self, shape: PodShape, row: int, sign: int) -> None:
        column_of = self.column_of
        for name, value in shape.requests.items():
            column = column_of.get(name)
            if column is None:
                column = self.column(name)
            self._requested_at[row * len(column_of) + column] += value if sign > 0 else -value
        self._non_zero_at[2 * row] += shape.non_zero_cpu if sign > 0 else -shape.non_zero_cpu
        self._non_zero_at[2 * row + 1] += shape.non_zero_memory if sign > 0 else -shape.non_zero_memory
        self._pod_count_at[row] += sign
        self._states[row] = b""
        standing = self.pods_by_priority.get(shape.priority, 0) + sign
        if standing:
            self.pods_by_priority[shape.priority] = standing
        else:
            del self.pods_by_priority[shape.priority]
        if shape.host_ports:
            ports = self.ports[row]
            for port in shape.host_ports:
                left = ports.get(port, 0) + sign
                if left:
                    ports[port] = left
                else:
                    del ports[port]

    # Nodes

    def _apply_node(self, change: Change) -> None:
        name = change.key.name
        row = self.row_of.get(name)
        if change.type == DELETED:
            if row is not None:
                self._remove_node(name, row)
            return
        if row is None:
            row = self._add_node(name, change.obj)
        elif change.old is not None and _seen_of(change.old) == _seen_of(change.obj):
            # Conditions and heartbeats: nothing a placement looks at.
            return
        elif (zone := _zone(labels_of(change.obj))) != self._zone_of[row]:
            self._leave_zone(row)
            self._enter_zone(row, zone)
        self._describe(row, change.obj)
        self.respecced.append(row)

    def _add_node(self, name: str, node: Obj) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self.names)
            self.names.append("")
            self.labels.append({})
            self.taints.append(())
            self.images.append({})
            self.pods.append({})
            self.ports.append({})
            self.born.append(0)
            self._zone_of.append("")
            self._states.append(b"")
            if row >= self.alive.shape[0]:
                self._grow()
        self.names[row] = name
        self.row_of[name] = row
        uid = meta_of(node).get("uid") or name
        self.born[row] = self._born.setdefault(uid, len(self._born))
        self.alive[row] = True
        self._enter_zone(row, _zone(labels_of(node)))
        for record in sorted(self._homeless.pop(name, {}).values(), key=lambda r: r.key):
            self.place(record, row)
        return row

    def _grow(self) -> None:
        def longer(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.concatenate([a, np.zeros_like(a)])

        self.allocatable, self.requested = longer(self.allocatable), longer(self.requested)
        self.non_zero, self.pod_count = longer(self.non_zero), longer(self.pod_count)
        self.allowed_pods, self.alive = longer(self.allowed_pods), longer(self.alive)
        self.unschedulable, self.taint_set = longer(self.unschedulable), longer(self.taint_set)
        self.counts.grow(self.alive.shape[0])
        self.devices.grow(self.alive.shape[0])
        self._look_inside()

    def _remove_node(self, name: str, row: int) -> None:
        for record in sorted(self.pods[row].values(), key=lambda r: r.key):
            self.displace(record)
            self._homeless.setdefault(name, {})[record.key] = record
        self._leave_zone(row)
        self._describe(row, {})
        self.alive[row] = False
        self.names[row] = ""
        del self.row_of[name]
        self._free_rows.append(row)
        self.respecced.append(row)

    def _describe(self, row: int, node: Obj) -> None:
        """Read a node object into its row."""
        spec, status = node.get("spec") or {}, node.get("status") or {}
        allocatable = parse_resources(status.get("allocatable") or status.get("capacity"))
        self.allowed_pods[row] = allocatable.pop(PODS, 0)
        columns = [self.column(name) for name in allocatable]
        self.allocatable[row] = 0
        for column, value in zip(columns, allocatable.values(), strict=True):
            self.allocatable[row, column] = value
        shared = -(-allocatable.get(GPU_MILLI, 0) // MILLI)
        self.devices.describe(row, min(shared, allocatable.get(NVIDIA_GPU, shared)))
        self._states[row] = b""
        self.unschedulable[row] = bool(spec.get("unschedulable"))
        taints = parse_taints(spec.get("taints"))
        self.taints[row] = taints
        self.taint_set[row] = self._taint_set(taints)
        self.counts.relabel(row, self.labels[row], labels_of(node))
        self.labels[row] = labels_of(node)
        self._hold_images(row, _images_of(status))

    def _hold_images(self, row: int, images: dict[str, int]) -> None:
        old = self.images[row]
        if images == old:
            return
        for name in old:
            holders = self.image_holders[name]
            del holders[row]
            if not holders:
                del self.image_holders[name]
        for name in images:
            self.image_holders.setdefault(name, {})[row] = None
        self.images[row] = images
        self.image_version += 1

    def image_size(self, name: str) -> int:
        """Bytes of an image: what the oldest node that holds it says (nodes may disagree).

        Source: pkg/scheduler/backend/cache/cache.go addNodeImageStates keeps the first size it hears.
        """
        holders = self.image_holders.get(name)
        return self.images[min(holders, key=lambda row: self.born[row])][name] if holders else 0

    def labels_of_namespace(self, name: str) -> Mapping[str, str]:
        """Unlike kube, pods may be in a namespace nobody created: it has the label every namespace has."""
        found = self.namespace_labels.get(name)
        return {_NAMESPACE_NAME_LABEL: name} if found is None else found

    def namespaces(self) -> list[str]:
        """Every namespace that exists, or that pods were seen in; sorted."""
        return sorted({*self.namespace_labels, *self.label_sets.namespaces})

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        found = self._taint_set_of.get(taints)
        if found is None:
            found = self._taint_set_of[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    def order(self) -> Ints:
        """Rows in the order kube-scheduler looks at nodes: round robin over zones, oldest first in each.

        Source: pkg/scheduler/backend/cache/node_tree.go.
        """
        twice = self.order_twice()
        return twice[: len(twice) // 2]

    def order_twice(self) -> Ints:
        """`order` two times over: a search that starts anywhere and wraps around is one slice of it."""
        if self._order is None:
            zones = sorted(self._zones.values(), key=lambda z: self.born[z[0]])
            longest = max((len(z) for z in zones), default=0)
            rows = (
                [z[i] for i in range(longest) for z in zones if i < len(z)] if len(zones) != 1 else zones[0]
            )
            # By way of an array: NumPy takes a list apart at four times the price.
            once = np.array(array("q", rows), np.int64)
            self._order = np.concatenate((once, once))
            self._turns = np.zeros(self.alive.shape[0], np.int64)
            self._turns[once] = np.arange(len(rows))
        return self._order

    def turns(self) -> memoryview:
        """By row: its place in `order`; 0 for rows that have none. O(1) while the nodes stay the same."""
        self.order_twice()
        return elements(self._turns)

    def _enter_zone(self, row: int, zone: str) -> None:
        self._zone_of[row] = zone
        insort(self._zones.setdefault(zone, []), row, key=lambda r: self.born[r])
        self._order = None

    def _leave_zone(self, row: int) -> None:
        rows = self._zones[self._zone_of[row]]
        rows.remove(row)
        if not rows:
            del self._zones[self._zone_of[row]]
        self._order = None

    def copy(self) -> NodeAccounts:
        """An independent copy. O(nodes × columns + pods); interned shapes and label sets are shared."""
        twin = NodeAccounts()
        for name in _ARRAYS:
            setattr(twin, name, getattr(self, name).copy())
        for name in _FLAT:
            setattr(twin, name, copy.copy(getattr(self, name)))
        for name in _SHARED:
            setattr(twin, name, getattr(self, name))
        twin.records = {key: record.copy() for key, record in self.records.items()}
        twin.pods = [{key: twin.records[key] for key in pods} for pods in self.pods]
        twin.ports = [dict(ports) for ports in self.ports]
        twin._homeless = {
            node: {key: twin.records[key] for key in pods} for node, pods in self._homeless.items()
        }
        twin.image_holders = {name: dict(rows) for name, rows in self.image_holders.items()}
        twin._zones = {zone: list(rows) for zone, rows in self._zones.items()}
        twin.counts = self.counts.copy(twin)
        twin._next = None
        twin.devices = self.devices.copy()
        twin._look_inside()
        return twin


def elements(of: npt.NDArray[Any]) -> memoryview:
    """An array's elements, row by row, to be read and written one at a time: a quarter of what NumPy takes for one.

    They are the array's own memory, as plain integers (or booleans).
    """
    return of.ravel().data


def _was_just_bound(before: Obj, pod: Obj) -> bool:
    """Whether the specs differ in nodeName alone (a node is no part of the shape)."""
    old, new = before.get("spec") or {}, pod.get("spec") or {}
    if len(new) != len(old) + 1 or "nodeName" in old or "nodeName" not in new:
        return False
    return all(new.get(name) is value for name, value in old.items())


def _seen_of(node: Obj) -> tuple[Any, ...]:
    """What placement looks at in a node object."""
    meta, spec, status = node.get("metadata") or {}, node.get("spec") or {}, node.get("status") or {}
    return (
        meta.get("uid"),
        meta.get("labels"),
        spec.get("taints"),
        bool(spec.get("unschedulable")),
        status.get("allocatable") or status.get("capacity"),
        status.get("images"),
    )


def _images_of(status: Mapping[str, Any]) -> dict[str, int]:
    """Bytes by every name a node gives an image, exactly as it says them."""
    images: dict[str, int] = {}
    for image in status.get("images") or ():
        for name in image.get("names") or ():
            images.setdefault(name, int(image.get("sizeBytes") or 0))
    return images


# How each attribute is copied: arrays; containers of immutable things; values and append-only interning.
_ARRAYS: Final = (
    "allocatable",
    "requested",
    "non_zero",
    "pod_count",
    "allowed_pods",
    "alive",
    "unschedulable",
    "taint_set",
)
_FLAT: Final = (
    "columns",
    "column_of",
    "names",
    "row_of",
    "pods_by_priority",
    "labels",
    "taints",
    "taint_sets",
    "images",
    "touched",
    "respecced",
    "namespace_labels",
    "born",
    "_free_rows",
    "_resizing",
    "_taint_set_of",
    "_born",
    "_zone_of",
)
_SHARED: Final = ("shapes", "label_sets", "image_version", "_order", "_turns")


def _zone(labels: Mapping[str, str]) -> str:
    region = next((labels[k] for k in _REGION_LABELS if k in labels), "")
    zone = next((labels[k] for k in _ZONE_LABELS if k in labels), "")
    return f"{region}:\x00:{zone}"
