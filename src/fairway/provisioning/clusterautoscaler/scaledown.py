"""Which nodes does nobody need, and since when?

1. Eligible: of a group, not going, without the annotation that forbids it, ready, no more used than the threshold.
2. Removable: no pod blocks, and every pod that must move finds a place on what stays.
3. Unneeded long enough, above its group's minimum: removed; empty ones together, one with pods at a time.

Source: core/scaledown/eligibility, planner, unneeded, budgets; simulator/cluster.go, utilization/info.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairway.kube.objects import Obj
from fairway.kube.resources import CPU, MEMORY, NVIDIA_GPU
from fairway.provisioning.clusterautoscaler.draining import blocking_pod, is_of_daemon_set, moving
from fairway.provisioning.clusterautoscaler.fitting import Room
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, NodeView, Options
from fairway.provisioning.karpenter.disruption.evictions import Budget
from fairway.provisioning.karpenter.podfacts import Shapes, facts_of, requests_of

DISABLED_ANNOTATION = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
NOT_AUTOSCALED, SCALE_DOWN_DISABLED = "NotAutoscaled", "ScaleDownDisabledAnnotation"
BEING_DELETED, UNREADY, NOT_UNDERUTILIZED = (
    "CurrentlyBeingDeleted",
    "ScaleDownUnreadyDisabled",
    "NotUnderutilized",
)
NO_PLACE, BLOCKED = "NoPlaceToMovePods", "BlockedByPod"


class Utilization(NamedTuple):
    """Shares that are asked for. Prints as upstream's utilization.Info: `{0.1 0.05 0 0 cpu 0.1}`."""

    cpu: float
    memory: float
    gpu: float
    resource: str
    share: float

    def __str__(self) -> str:
        cpu, memory, gpu, share = (_go(v) for v in (self.cpu, self.memory, self.gpu, self.share))
        return f"{{{cpu} {memory} {gpu} 0 {self.resource} {share}}}"


def _go(number: float) -> str:
    """As Go's %v: the shortest digits that say it; 1 for 1.0, 1e-05 below a ten-thousandth."""
    return repr(number).removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Removable:
    """A node nobody needs. `pods` move elsewhere."""

    node: str
    group: str
    pods: tuple[Obj, ...]
    utilization: Utilization


@dataclass(frozen=True, slots=True)
class Unneeded:
    """What could go at all, in order, and why the rest is kept: (reason, message)."""

    removable: tuple[Removable, ...]
    kept: Mapping[str, tuple[str, str]]


def utilization(node: NodeView, options: Options) -> Utilization:
    """The larger share of CPU and memory that is asked for; on a node with GPUs that of GPUs alone."""
    if node.seat.has_gpu:
        gpu = _share(node, NVIDIA_GPU, options)
        return Utilization(0.0, 0.0, gpu, NVIDIA_GPU, gpu)
    cpu, memory = _share(node, CPU, options), _share(node, MEMORY, options)
    return Utilization(cpu, memory, 0.0, CPU if cpu > memory else MEMORY, max(cpu, memory))


def _share(node: NodeView, resource: str, options: Options) -> float:
    there, asked = node.seat.allocatable.get(resource, 0), 0
    for pod in node.pods:
        amount = requests_of(pod.get("spec") or {}).get(resource, 0)
        if options.ignore_daemon_sets and is_of_daemon_set(pod):
            there -= amount
        else:
            asked += amount
    return asked / there if there > 0 else 0.0


def unneeded(nodes: Sequence[NodeView], budgets: Sequence[Budget], options: Options, now_us: int) -> Unneeded:
    """Nodes that could be removed one after the other, each with its pods' new places taken. O(nodes²) at most."""
    kept: dict[str, tuple[str, str]] = {}
    candidates: list[tuple[Utilization, NodeView]] = []
    for node in nodes:
        why = _ineligible(node, options)
        if why:
            kept[node.name] = (why, "")
            continue
        used = utilization(node, options)
        limit = options.gpu_utilization_threshold if node.seat.has_gpu else options.utilization_threshold
        if used.share > limit:
            kept[node.name] = (NOT_UNDERUTILIZED, f"{used.share:.6g} is above {limit:g}")
        else:
            candidates.append((used, node))
    rooms = {n.name: Room(n.seat) for n in nodes if n.is_ready and not n.is_going}
    shapes = Shapes()
    found: list[Removable] = []
    # Empty ones first: they need no place, and their room is nobody's hope.
    order = sorted(candidates, key=lambda c: (bool(moving(c[1].pods, now_us)), c[1].name))
    gone: set[str] = set()
    arrived: dict[str, list[Obj]] = {}
    for used, node in order:
        blocking = blocking_pod(node.pods, budgets, options, now_us)
        if blocking is not None:
            kept[node.name] = (BLOCKED, blocking.message)
            continue
        own = moving(node.pods, now_us)
        # Pods that others would send here need another place, too.
        pods = [*own, *arrived.get(node.name, ())]
        targets = [room for name, room in rooms.items() if name != node.name and name not in gone]
        places = _places(pods, targets, shapes)
        if places is None:
            kept[node.name] = (NO_PLACE, "")
            continue
        gone.add(node.name)
        for pod, place in zip(pods, places, strict=True):
            arrived.setdefault(place, []).append(pod)
        found.append(Removable(node.name, node.group, tuple(own), used))
    return Unneeded(tuple(found), kept)


def _ineligible(node: NodeView, options: Options) -> str:
    if not node.group:
        return NOT_AUTOSCALED
    if node.is_going:
        return BEING_DELETED
    return SCALE_DOWN_DISABLED if node.no_scale_down else ""


def _places(pods: Sequence[Obj], rooms: Sequence[Room], shapes: Shapes) -> list[str] | None:
    """The node of each pod; None where not all find one. What they take stays taken only then."""
    chosen: list[tuple[Room, Room]] = []
    for pod in pods:
        shape = facts_of(pod, shapes.of(pod)).shape
        room = next((r for r in rooms if not r.why_not(shape)), None)
        if room is None:
            for used, before in reversed(chosen):
                used.left, used.ports, used.kinds = before.left, before.ports, before.kinds
            return None
        chosen.append((room, room.copy()))
        room.take(shape)
    return [room.seat.name for room, _ in chosen]


def due(
    found: Sequence[Removable],
    since_us: Mapping[str, int],
    groups: Sequence[NodeGroup],
    ready: Mapping[str, bool],
    options: Options,
    now_us: int,
    *,
    going: Mapping[str, int],
    draining: int = 0,
) -> tuple[Removable, ...]:
    """Those to remove now, empty ones first. `going`: how many of each group are being removed already;
    `draining`: how many of these with pods.

    Source: core/scaledown/budgets.
    """
    left = {g.name: g.target - going.get(g.name, 0) - g.least for g in groups}
    room, room_to_drain = options.most_at_once - sum(going.values()), options.most_drained_at_once - draining
    empty: list[Removable] = []
    drained: list[Removable] = []
    for node in sorted(found, key=lambda n: bool(n.pods)):
        wait_us = options.unneeded_us if ready.get(node.node, True) else options.unready_us
        if now_us - since_us.get(node.node, now_us) < wait_us or left.get(node.group, 0) <= 0:
            continue
        if len(empty) + len(drained) >= room or (node.pods and len(drained) >= room_to_drain):
            continue
        (drained if node.pods else empty).append(node)
        left[node.group] -= 1
    return tuple(empty + drained)
