"""The nodes of a run as they are noted: when each came and went, and what it offered meanwhile."""

from __future__ import annotations

from typing import NamedTuple

from fairway.cluster.gpurequests import (
    WHOLE,
    Devices,
    GpuResources,
    Part,
    kept_for_itself,
    node_resources,
    unit_of,
)
from fairway.kube.objects import Obj, annotations_of, labels_of, spec_of, status_of
from fairway.kube.resources import CPU, MEMORY, NVIDIA_GPU
from fairway.scheduling.hami.cards import REGISTER, cards_of
from fairway.twin.launches import Launch


class Offer(NamedTuple):
    """What a node offers from a moment on; a closed one is cordoned or not ready."""

    since: int
    gpu: int
    cpu: int
    memory: int
    is_open: bool


class NodeLife:
    """One node from creation to deletion. Times are µs since the run began; `deleted` -1: it is still there."""

    __slots__ = (
        "cards",
        "created",
        "deleted",
        "devices",
        "labels",
        "launched",
        "name",
        "offers",
        "place",
        "system",
        "uid",
        "unit",
    )

    def __init__(self, name: str, uid: str, place: int, now: int) -> None:
        self.name = name
        self.uid = uid
        self.place = place
        self.labels: dict[str, str] = {}
        self.launched = now
        """When its machine was launched: no later than it appeared; also before the run began (negative)."""
        self.created = now
        self.deleted = -1
        self.offers: list[Offer] = []
        self.devices: Devices = ()
        """As they were when it offered most GPU."""
        self.system = (0, 0)
        self.unit: Part = WHOLE
        """Which part of a GPU its `nvidia.com/gpu` is."""
        self.cards: dict[str, int] = {}
        """Where HAMi divides them: MiB by uuid."""

    @property
    def gpu_most(self) -> int:
        """Milli-GPU it offered at most."""
        return max((o.gpu for o in self.offers), default=0)

    def copy(self) -> NodeLife:
        twin = NodeLife(self.name, self.uid, self.place, self.created)
        twin.labels, twin.launched, twin.deleted = self.labels, self.launched, self.deleted
        twin.offers, twin.devices, twin.system = list(self.offers), self.devices, self.system
        twin.unit, twin.cards = self.unit, self.cards
        return twin


def never_joined(launch: Launch, began_us: int, gone: int, *, is_over: bool) -> NodeLife:
    """A machine that was launched and is no node: as long as it was there it was not one. No place is its."""
    life = NodeLife(launch.name, "", -1, gone)
    life.launched, life.labels = launch.at_us - began_us, dict(launch.labels)
    life.deleted = gone if is_over else -1
    life.offers = [Offer(gone, 0, launch.cpu_milli, launch.memory_bytes, False)]
    return life


class Place:
    """A node's name, and the index of the node that bears it now; -1: none does."""

    __slots__ = ("index", "life", "name")

    def __init__(self, index: int, name: str, life: int = -1) -> None:
        self.index = index
        self.name = name
        self.life = life


class NodeLedger:
    """Places by name, and every node's life in order of creation."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.lives: list[NodeLife] = []
        self._by_name: dict[str, Place] = {}

    def place(self, name: str) -> Place:
        """The place of this name, made if new."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = Place(len(self.places), name)
            self.places.append(found)
        return found

    def arrive(self, place: Place, node: Obj, now: int, launched: int) -> None:
        """A node of this name exists from now on; its machine since `launched`."""
        place.life = len(self.lives)
        life = NodeLife(place.name, node["metadata"]["uid"], place.index, now)
        life.launched = launched
        self.lives.append(life)

    def leave(self, place: Place, now: int) -> None:
        self.lives[place.life].deleted = now
        place.life = -1

    def describe(
        self,
        place: Place,
        node: Obj,
        old: Obj | None,
        gpus: GpuResources,
        now: int,
        *,
        published: int = 0,
    ) -> None:
        """Note what the node offers now, where that is news. `old`: the node as it was noted before; `published`:
        milli-GPU that it has for claims."""
        life = self.lives[place.life]
        labels, unit = labels_of(node), life.unit
        if labels is not life.labels:
            life.labels, life.unit = labels, unit_of(labels)
        if REGISTER in annotations_of(node):
            registered = cards_of(node) or []
            life.cards = {card.id: card.memory for card in registered}
            life.unit = (1, max((card.count for card in registered), default=1) or 1)
        if old is not None and life.offers and unit == life.unit and _has_the_same(old, node):
            _, gpu, cpu, memory, _ = life.offers[-1]
            devices = life.devices
        else:
            life.system = kept_for_itself(node)
            found = node_resources(node)
            gpu = max(gpus.capacity(found, life.unit), published)
            cpu, memory = found.get(CPU, 0), found.get(MEMORY, 0)
            # Parts that HAMi makes, and what is published for claims, are so many GPUs all the same.
            is_whole = bool(life.cards) or published > 0
            devices = ((NVIDIA_GPU, gpu // 1000),) if is_whole else gpus.devices(found)
        offer = Offer(now, gpu, cpu, memory, is_open(node))
        if not life.offers or life.offers[-1][1:] != offer[1:]:
            if gpu and gpu >= life.gpu_most:
                life.devices = devices
            if life.offers and life.offers[-1].since == now:
                life.offers.pop()
            life.offers.append(offer)

    def fork(self) -> NodeLedger:
        twin = NodeLedger()
        twin.places = [Place(p.index, p.name, p.life) for p in self.places]
        twin._by_name = {p.name: p for p in twin.places}
        twin.lives = [life.copy() for life in self.lives]
        return twin


def _has_the_same(old: Obj, node: Obj) -> bool:
    """Whether a status says the same of resources, by identity: most changes are of conditions."""
    before, status = status_of(old), status_of(node)
    return all(before.get(part) is status.get(part) for part in ("capacity", "allocatable"))


def is_open(node: Obj) -> bool:
    """Whether it takes pods: not cordoned, and Ready (or silent about it)."""
    spec = spec_of(node)
    if spec.get("unschedulable"):
        return False
    for condition in status_of(node).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True
