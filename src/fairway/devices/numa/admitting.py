"""May this pod in, and what does it get? The kubelet's admission of a pod by its topology manager.

Containers are let in one by one, init containers first: hints of all providers are merged, then each gives. With scope
`pod` the hints are of the pod as a whole. A pod that is refused leaves the book as it was.

Source: pkg/kubelet/cm/topologymanager/scope*.go, pkg/kubelet/cm/container_manager_linux.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairway.cluster.metadata import qos_class
from fairway.devices.numa.cpus import CpuBook, CpuPolicy, cpu_hints, give_cpus, take_back
from fairway.devices.numa.devices import (
    DeviceBook,
    DeviceSort,
    device_hints,
    give_devices,
    take_back_devices,
)
from fairway.devices.numa.hints import CONTAINER, NONE, POD, Hint, NumaNodes, merged
from fairway.devices.numa.memory import MemoryBook, give_memory, memory_hints, take_back_memory
from fairway.devices.numa.refusals import Refused, no_locality
from fairway.kube.objects import Obj, meta_of, spec_of
from fairway.kube.quantity import milli_ceil, whole_ceil

INIT, SIDECAR, MAIN = "init", "sidecar", "main"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a container wants for itself. `cpus` 0: it shares."""

    name: str
    kind: str
    cpus: int
    memory: Mapping[str, int]
    devices: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Machine:
    """`cpus` and `memory`: where a policy gives them out; None: nobody has any for itself."""

    nodes: NumaNodes
    policy: str = NONE
    scope: str = CONTAINER
    closest: bool = False
    cpus: CpuPolicy | None = None
    has_memory: bool = False
    devices: Mapping[str, DeviceSort] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Book:
    """What a machine gave out."""

    cpus: CpuBook | None = None
    memory: MemoryBook | None = None
    devices: DeviceBook = field(default_factory=DeviceBook)


@dataclass(frozen=True, slots=True)
class Given:
    """`hints`: NUMA nodes of each container; None: anywhere."""

    book: Book
    hints: Mapping[str, int | None]


def admitted(machine: Machine, book: Book, pod: Obj) -> Given:
    """Raises: Refused, with reason and message of the pod's status."""
    uid = meta_of(pod)["uid"]
    asks = asks_of(pod, machine.devices)
    hints: dict[str, int | None] = {}
    whole = Hint(None, preferred=False)
    if machine.policy != NONE and machine.scope == POD:
        whole = _agreed(machine, _hints(machine, book, uid, asks, None))
    for ask in asks:
        hint = whole
        if machine.policy != NONE and machine.scope == CONTAINER:
            hint = _agreed(machine, _hints(machine, book, uid, [ask], ask.name))
        hints[ask.name] = hint.nodes
        book = _given(machine, book, uid, asks, ask, hint)
    return Given(book, hints)


def released(book: Book, pod: str, containers: Iterable[str]) -> Book:
    """The book once these containers of a pod are gone."""
    cpus, memory, devices = book.cpus, book.memory, book.devices
    for container in containers:
        cpus = None if cpus is None else take_back(cpus, pod, container)
        memory = None if memory is None else take_back_memory(memory, pod, container)
        devices = take_back_devices(devices, pod, container)
    return Book(cpus, memory, devices)


def asks_of(pod: Obj, resources: Iterable[str]) -> list[Ask]:
    """Init containers, then the others. `resources`: those that device plugins hand out."""
    spec = spec_of(pod)
    is_guaranteed = qos_class(spec) == "Guaranteed"
    known, found = set(resources), []
    for part, otherwise in (("initContainers", INIT), ("containers", MAIN)):
        for container in spec.get(part) or ():
            needs = container.get("resources") or {}
            requests, limits = needs.get("requests") or needs.get("limits") or {}, needs.get("limits") or {}
            milli = milli_ceil(requests.get("cpu") or 0)
            own = is_guaranteed and not spec.get("resources")
            memory = {n: whole_ceil(v) for n, v in sorted(requests.items()) if _is_memory(n)}
            kind = (
                SIDECAR
                if part == "initContainers" and container.get("restartPolicy") == "Always"
                else otherwise
            )
            devices = {n: whole_ceil(v) for n, v in sorted(limits.items()) if n in known and whole_ceil(v)}
            cpus = milli // 1000 if own and milli % 1000 == 0 else 0
            found.append(Ask(str(container.get("name") or ""), kind, cpus, memory if own else {}, devices))
    return found


def _is_memory(resource: str) -> bool:
    return resource == "memory" or resource.startswith("hugepages-")


def together(asks: Sequence[Ask], of: Callable[[Ask], Mapping[str, int]]) -> dict[str, int]:
    """What a pod needs at most at a time: init containers run alone, beside the sidecars before them."""
    mains: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    inits: dict[str, int] = {}
    for ask in asks:
        for name, amount in of(ask).items():
            if ask.kind == MAIN:
                mains[name] = mains.get(name, 0) + amount
            elif ask.kind == SIDECAR:
                sidecars[name] = sidecars.get(name, 0) + amount
            else:
                inits[name] = max(inits.get(name, 0), sidecars.get(name, 0) + amount)
    names = {**inits, **sidecars, **mains}
    return {n: max(mains.get(n, 0) + sidecars.get(n, 0), inits.get(n, 0)) for n in names}


def memory_together(asks: Sequence[Ask]) -> dict[str, int]:
    """Of memory and huge pages: only what some main container asks for counts."""
    wanted = {name for ask in asks if ask.kind == MAIN for name in ask.memory}
    return {n: amount for n, amount in together(asks, lambda a: a.memory).items() if n in wanted}


def _agreed(machine: Machine, providers: Sequence[Mapping[str, Sequence[Hint] | None]]) -> Hint:
    best, is_let_in = merged(machine.policy, providers, machine.nodes, closest=machine.closest)
    if not is_let_in:
        raise no_locality()
    return best


def _hints(
    machine: Machine, book: Book, pod: str, asks: Sequence[Ask], container: str | None
) -> list[Mapping[str, Sequence[Hint] | None]]:
    """Of every provider, for a container or (None) the pod."""
    devices = together(asks, lambda a: a.devices)
    found: list[Mapping[str, Sequence[Hint] | None]] = [
        device_hints(machine.devices, book.devices, pod, container, devices, machine.nodes.ids)
    ]
    if machine.cpus is not None and book.cpus is not None:
        count = together(asks, lambda a: {"cpu": a.cpus}).get("cpu", 0)
        found.append(cpu_hints(machine.cpus, book.cpus, pod, {a.name: a.cpus for a in asks}, count) or {})
    if book.memory is not None:
        found.append(
            memory_hints(
                book.memory,
                pod,
                [a.name for a in asks],
                memory_together(asks) if container is None else asks[0].memory,
            )
            or {}
        )
    return found


def _given(machine: Machine, book: Book, pod: str, asks: Sequence[Ask], ask: Ask, hint: Hint) -> Book:
    is_init = ask.kind == INIT
    devices = book.devices
    for resource, count in ask.devices.items():
        devices = give_devices(
            machine.devices[resource], devices, pod, ask.name, resource, count, hint.nodes, is_init=is_init
        )
    book = replace(book, devices=devices)
    if machine.cpus is not None and book.cpus is not None:
        cpus = give_cpus(machine.cpus, book.cpus, pod, ask.name, ask.cpus, hint.nodes, is_init=is_init)
        book = replace(book, cpus=cpus)
    if book.memory is not None and ask.memory:
        before = tuple(a.name for a in asks[: asks.index(ask)] if a.kind == INIT)
        memory = give_memory(
            book.memory, pod, ask.name, ask.memory, hint, is_init=is_init, init_before=before
        )
        book = replace(book, memory=memory)
    return book


__all__ = [
    "INIT",
    "MAIN",
    "SIDECAR",
    "Ask",
    "Book",
    "Given",
    "Machine",
    "Refused",
    "admitted",
    "asks_of",
    "released",
]
