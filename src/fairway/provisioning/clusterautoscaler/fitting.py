"""Does a pod fit a node? The scheduler's filters in their order, and its words where it does not.

Source: the filters the autoscaler runs through the scheduler framework: TaintToleration, NodeAffinity, NodePorts,
NodeResourcesFit, InterPodAffinity (only of a pod's own kind on one host).
"""

from __future__ import annotations

from collections.abc import Mapping

from fairway.kube.labels import label_selector
from fairway.kube.resources import PODS, Resources
from fairway.kube.taints import NO_EXECUTE, NO_SCHEDULE, is_tolerated
from fairway.provisioning.clusterautoscaler.groups import Seat
from fairway.provisioning.karpenter.labels import HOSTNAME
from fairway.provisioning.karpenter.podfacts import HostPort, Shape, port_conflict

TAINTS = "node(s) had untolerated taint(s)"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
TOO_MANY = "Too many pods"
CLAIMS = "cannot allocate all claims"
DEVICES = "deviceclass.resource.kubernetes.io/"
"""Devices of a class, as a resource that pods ask for and nodes offer."""


class Room:
    """A node while a simulation fills it."""

    __slots__ = ("kinds", "left", "ports", "seat")

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.left: Resources = {n: v - seat.used.get(n, 0) for n, v in seat.allocatable.items()}
        self.ports: tuple[HostPort, ...] = seat.ports
        self.kinds: set[int] = set()
        """Shapes that sit here alone of their kind."""

    def copy(self) -> Room:
        twin = Room(self.seat)
        twin.left, twin.ports, twin.kinds = dict(self.left), self.ports, set(self.kinds)
        return twin

    def take(self, shape: Shape) -> None:
        for name, amount in shape.requests.items():
            self.left[name] = self.left.get(name, 0) - amount
        self.ports = (*self.ports, *shape.ports)
        self.kinds.add(shape.index)

    def why_not(self, shape: Shape) -> tuple[str, ...]:
        """The reasons of the first filter that refuses; empty where the pod fits."""
        return static_refusal(shape, self.seat) or self.lacks(shape)

    def lacks(self, shape: Shape) -> tuple[str, ...]:
        """What depends on who is there already."""
        if shape.ports and port_conflict(shape.ports, self.ports):
            return (PORTS,)
        short = lacking(shape.requests, self.left)
        if short:
            return short
        return (ANTI_AFFINITY,) if shape.index in self.kinds and is_alone(shape) else ()


def static_refusal(shape: Shape, seat: Seat) -> tuple[str, ...]:
    """What no amount of room changes."""
    blocking = [t for t in seat.taints if t.effect in (NO_SCHEDULE, NO_EXECUTE)]
    if not all(is_tolerated(t, shape.tolerations) for t in blocking):
        return (TAINTS,)
    if not seat.requirements.is_compatible(shape.strict):
        return (AFFINITY,)
    return ()


def lacking(requests: Mapping[str, int], left: Mapping[str, int]) -> tuple[str, ...]:
    """`Insufficient cpu` and the like, in the scheduler's order."""
    short = sorted(n for n, amount in requests.items() if amount > 0 and amount > left.get(n, 0))
    if short and all(n.startswith(DEVICES) for n in short):
        return (CLAIMS,)
    short = [n for n in short if not n.startswith(DEVICES)]
    order = {PODS: 0, "cpu": 1, "memory": 2, "ephemeral-storage": 3}
    short.sort(key=lambda n: order.get(n, 4))
    return tuple(TOO_MANY if n == PODS else f"Insufficient {n}" for n in short)


def is_alone(shape: Shape) -> bool:
    """Whether it tolerates none of its own kind on a host."""
    affinity = (shape.spec.get("affinity") or {}).get("podAntiAffinity") or {}
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        selector = term.get("labelSelector")
        if (
            term.get("topologyKey") == HOSTNAME
            and selector
            and label_selector(selector).matches(shape.labels)
        ):
            return True
    return False
