"""How many new nodes of a group would the waiting pods fill? First fit, the largest kinds first.

Pods come by kind. A kind fills the last node that was opened, then a new one; kinds that follow first try every node
opened before. A kind that does not fit an empty node opens no more.

Source: estimator/binpacking_estimator.go, decreasing_pod_orderer.go, threshold_based_limiter.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairway.kube.resources import CPU, MEMORY
from fairway.provisioning.clusterautoscaler.fitting import Room
from fairway.provisioning.clusterautoscaler.groups import Seat
from fairway.provisioning.karpenter.podfacts import PodFacts, Shape

Kinds = Mapping[Shape, Sequence[PodFacts]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """So many new nodes hold these pods."""

    nodes: int
    pods: tuple[PodFacts, ...]


def estimate(kinds: Kinds, template: Seat, most_nodes: int) -> Estimate:
    """Pods of `kinds` all fit an empty node of the template (each for itself)."""
    rooms: list[Room] = []
    held: list[bool] = []
    placed: list[PodFacts] = []
    may_open = True
    for shape in sorted(kinds, key=lambda s: (-_score(s, template), s.index)):
        left = _into_opened(kinds[shape], shape, rooms, placed, held)
        for pod in left if may_open else ():
            if not rooms or rooms[-1].why_not(shape):
                if rooms and not held[-1]:
                    break  # the last one is empty, and still does not hold it
                if len(rooms) >= most_nodes:
                    may_open = False
                    break
                rooms.append(Room(template))
                held.append(False)
                if rooms[-1].why_not(shape):
                    break
            rooms[-1].take(shape)
            held[-1] = True
            placed.append(pod)
    return Estimate(sum(held), tuple(placed))


def _into_opened(
    pods: Sequence[PodFacts], shape: Shape, rooms: list[Room], placed: list[PodFacts], held: list[bool]
) -> Sequence[PodFacts]:
    """Those that find no place on nodes opened for others; the first without one ends it."""
    at = 0
    for i, pod in enumerate(pods):
        while at < len(rooms) and rooms[at].why_not(shape):
            at += 1
        if at == len(rooms):
            return pods[i:]
        rooms[at].take(shape)
        held[at] = True
        placed.append(pod)
    return ()


def _score(shape: Shape, template: Seat) -> float:
    cpu, memory = template.allocatable.get(CPU, 0), template.allocatable.get(MEMORY, 0)
    score = shape.requests.get(CPU, 0) / cpu if cpu else 0.0
    return score + (shape.requests.get(MEMORY, 0) / memory if memory else 0.0)
