"""Where a command runs: a container of a pod on a node, and its time."""

from __future__ import annotations

from typing import NamedTuple

from fairway.cluster.store import Store
from fairway.kube.objects import Obj


class Place(NamedTuple):
    """`at_us`: when it runs."""

    pod: Obj
    container: str
    node: str
    store: Store
    at_us: int


def container_of(place: Place) -> Obj:
    return container_in(place.pod, place.container)


def container_in(pod: Obj, name: str) -> Obj:
    """The container's part of the pod's spec."""
    spec = pod["spec"]
    every = (*spec["containers"], *(spec.get("initContainers") or ()))
    return next((c for c in every if c["name"] == name), {})
