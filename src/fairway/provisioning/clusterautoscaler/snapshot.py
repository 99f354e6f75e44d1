"""Who would sit where? The nodes of one scan, those on their way included, while pods are tried on them.

Unlike kube: the first node with room, where upstream goes on from the node it chose last.

Source: core/podlistprocessor/filter_out_schedulable.go; simulator/scheduling/hinting_simulator.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairway.kube.objects import Obj
from fairway.kube.resources import add_into
from fairway.provisioning.clusterautoscaler.fitting import Room
from fairway.provisioning.clusterautoscaler.groups import NodeView, Seat
from fairway.provisioning.karpenter.podfacts import PodFacts, Shape


def by_kind(pods: Sequence[PodFacts]) -> dict[Shape, list[PodFacts]]:
    kinds: dict[Shape, list[PodFacts]] = {}
    for pod in pods:
        kinds.setdefault(pod.shape, []).append(pod)
    return kinds


class Snapshot:
    """Rooms: first of nodes that are there and ready, then of machines that are coming."""

    __slots__ = ("_names", "_rooms", "placed")

    def __init__(self, nodes: Sequence[NodeView], upcoming: Sequence[Seat]) -> None:
        there = [n for n in nodes if n.is_ready and not n.is_going]
        self._names = [n.name for n in there] + [""] * len(upcoming)
        self._rooms = [Room(n.seat) for n in there] + [Room(s) for s in upcoming]
        self.placed: list[tuple[str, PodFacts]] = []
        """Pods with the node they were put on; no name: on one that is coming."""

    def copy(self) -> Snapshot:
        twin = Snapshot((), ())
        twin._names, twin.placed = self._names, list(self.placed)
        twin._rooms = [r.copy() for r in self._rooms]
        return twin

    def place(self, pods: Sequence[PodFacts]) -> list[PodFacts]:
        """Put them where there is room; those without any. O(kinds × nodes + pods)."""
        left: list[PodFacts] = []
        for shape, kin in by_kind(pods).items():
            at = 0
            for i, pod in enumerate(kin):
                while at < len(self._rooms) and self._rooms[at].why_not(shape):
                    at += 1
                if at == len(self._rooms):
                    left += kin[i:]
                    break
                self._rooms[at].take(shape)
                self.placed.append((self._names[at], pod))
        return left

    def seen(self, nodes: Sequence[NodeView], objects: Mapping[str, Obj]) -> tuple[NodeView, ...]:
        """The nodes with the pods that were put there, as the rest of the scan sees them. `objects`: by uid."""
        by_node: dict[str, list[PodFacts]] = {}
        for name, pod in self.placed:
            if name:
                by_node.setdefault(name, []).append(pod)
        if not by_node:
            return tuple(nodes)
        return tuple(_with(n, by_node[n.name], objects) if n.name in by_node else n for n in nodes)


def _with(node: NodeView, pods: Sequence[PodFacts], objects: Mapping[str, Obj]) -> NodeView:
    used = dict(node.seat.used)
    for pod in pods:
        add_into(used, pod.shape.requests)
    ports = (*node.seat.ports, *(p for pod in pods for p in pod.shape.ports))
    seat = replace(node.seat, used=used, ports=ports)
    return replace(node, seat=seat, pods=(*node.pods, *(objects[p.uid] for p in pods)))
