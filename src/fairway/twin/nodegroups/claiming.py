"""Pods that claim devices, in a scan of the Cluster Autoscaler: which nodes and groups have some for them?

A group's new nodes publish what a node of it that is there publishes; of a group without nodes nobody knows, and its
nodes have none, as with the clouds' templates. Devices count as one more resource of a node for each DeviceClass that
is asked for.

Unlike kube: devices are counted by class and not allocated one by one: selectors of requests, constraints between them
and partitions are of no account; named claims that are not allocated count for each of their pods.

Source: cluster-autoscaler simulator/dynamicresources, simulator/node_info_utils.go (main, 2026-08).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, meta_of, name_of, spec_of
from fairway.kube.resourceclaims import CLAIM, CLASS, SLICE, TEMPLATE, allocation_of, pod_claims
from fairway.kube.resources import Resources
from fairway.provisioning.clusterautoscaler.fitting import DEVICES
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, NodeView, Seat
from fairway.scheduling.devices.facts import ALL, DeviceId, Slice, claim_of, class_of, slice_of
from fairway.scheduling.devices.selecting import AllocationError, holds

_NOTHING: Final[Resources] = {}


class Claiming:
    """One scan. Make one only where a pod claims devices."""

    def __init__(self, store: Store, pods: Iterable[Obj]) -> None:
        self._store = store
        self._asked = {str(meta_of(p)["uid"]): self._requests(p) for p in pods}
        self._classes = sorted({name for asked in self._asked.values() for name in asked})
        self._slices: dict[str, list[Slice]] = {}
        for raw in store.objects(SLICE):
            one = slice_of(raw)
            if one.where is not None and one.where.node:
                self._slices.setdefault(one.where.node, []).append(one)
        self._taken = {
            DeviceId(r.get("driver") or "", r.get("pool") or "", r.get("device") or "")
            for claim in store.objects(CLAIM)
            for r in ((allocation_of(claim) or {}).get("devices") or {}).get("results") or ()
        }

    def asking(self, pod: Obj) -> Obj:
        """The pod, its devices among the requests of its first container."""
        asked = self._asked.get(str(meta_of(pod)["uid"]))
        if not asked:
            return pod
        first, *others = spec_of(pod)["containers"]
        resources = first.get("resources") or {}
        devices = {f"{DEVICES}{name}": str(count) for name, count in asked.items()}
        requests = {**(resources.get("requests") or {}), **devices}
        changed = {**first, "resources": {**resources, "requests": requests}}
        return {**pod, "spec": {**spec_of(pod), "containers": [changed, *others]}}

    def nodes(self, nodes: Sequence[NodeView]) -> tuple[NodeView, ...]:
        """With the devices that are free there. A node that has just come publishes what its group's others do."""
        of_groups = {g: self._of_group(g, nodes) for g in {n.group for n in nodes if n.group}}
        out = []
        for node in nodes:
            if node.name in self._slices:
                offered = self._offered(node.name, but=self._taken)
            else:
                offered = of_groups.get(node.group, _NOTHING)
            out.append(replace(node, seat=_with(node.seat, offered)))
        return tuple(out)

    def groups(self, groups: Sequence[NodeGroup], nodes: Sequence[NodeView]) -> list[NodeGroup]:
        """With the devices that their next nodes will have."""
        return [replace(g, template=_with(g.template, self._of_group(g.name, nodes))) for g in groups]

    def _of_group(self, group: str, nodes: Sequence[NodeView]) -> Resources:
        known = next(
            (n.name for n in nodes if n.group == group and n.is_ready and n.name in self._slices), ""
        )
        return self._offered(known, but=frozenset()) if known else _NOTHING

    def _offered(self, node: str, but: Iterable[DeviceId]) -> Resources:
        gone = frozenset(but)
        free = [d for s in self._slices[node] for d in s.devices if d.id not in gone]
        found: Resources = {}
        for name in self._classes:
            raw = self._store.get(Key(CLASS, "", name))
            if raw is None:
                continue
            selectors = class_of(raw).selectors
            try:
                found[f"{DEVICES}{name}"] = sum(holds(selectors, d, "class", name) for d in free)
            except AllocationError:
                continue
        return found

    def _requests(self, pod: Obj) -> dict[str, int]:
        """Devices by class that are still to be allocated for it."""
        asked: dict[str, int] = {}
        namespace = meta_of(pod).get("namespace") or ""
        for entry in pod_claims(pod):
            claim = None if not entry.claim else self._store.get(Key(CLAIM, namespace, entry.claim))
            if claim is not None and allocation_of(claim) is not None:
                continue
            if claim is None:
                template = self._store.get(Key(TEMPLATE, namespace, entry.template))
                if template is None:
                    continue
                claim = {"metadata": {"name": name_of(template)}, "spec": spec_of(template).get("spec") or {}}
            for _, alternatives in claim_of(claim).requests:
                first = alternatives[0] if alternatives else None
                if first is not None and not first.admin:
                    count = 1 if first.mode == ALL else first.count
                    asked[first.class_name] = asked.get(first.class_name, 0) + count
        return asked


def _with(seat: Seat, offered: Resources) -> Seat:
    return replace(seat, allocatable={**seat.allocatable, **offered}) if offered else seat


def claiming(store: Store, pods: Sequence[Obj]) -> Claiming | None:
    """None: nobody claims anything."""
    asking = [p for p in pods if spec_of(p).get("resourceClaims")]
    return Claiming(store, asking) if asking else None
