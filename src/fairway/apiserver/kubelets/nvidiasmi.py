"""What does `nvidia-smi` print in a simulated container? Of the GPUs and MIG devices it has, as its node's labels name
them and as its annotations (`fairway.dev/gpu-utilization`, `gpu-memory`) say they are used.

Layout and words of driver 580; `nvidiasmitables` draws the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fairway.apiserver.kubelets import nvidiasmitables as tables
from fairway.apiserver.kubelets.place import Place, container_of
from fairway.catalog.boards import board_of, plain_board
from fairway.catalog.catalog import load_catalog
from fairway.catalog.drivers import CUDA, DRIVER, gpu_uuid, mig_uuid
from fairway.catalog.gpus import MIB, GpuModel
from fairway.catalog.nodegpus import INSTANCES, MOST, NodeGpus, gpus_of_node
from fairway.catalog.placements import Instance, Layout, layout_of, placed
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.devices.policy import operands
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, spec_of, status_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import parse_rfc3339, rfc3339
from fairway.twin.behaviour import BehaviourError, behaviour_of, said

_GPU: Final = "nvidia.com/gpu"
_SHARED: Final = "nvidia.com/gpu.shared"
_MIG: Final = "nvidia.com/mig-"
_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
# Of a GPU nobody described.
_SOME_MEMORY_MIB, _SOME_POWER_W = 81559, 400
_IDLE_MIB: Final = 1
_CUT, _MOST_INSTANCES = "-MIG-", 64
_FIELDS = 'Field "{}" is not a valid field to query.\n\n'
_NO_MIG: Final = "No MIG-enabled devices found.\n"
# Exit codes. Source: nvidia-smi(1), RETURN VALUE.
_INVALID_ARGUMENT, _NO_OBJECT = 2, 6


class Device(NamedTuple):
    """A GPU as one container sees it. `number` counts within the container, `slot` on the node. `mig`: the instances
    it has of it, where the GPU is cut; `others`: what the card has beside them."""

    number: int
    slot: int
    uuid: str
    name: str
    memory_mib: int
    used_mib: int
    utilization: int
    power_w: int
    model: GpuModel | None
    mig: Layout = ()
    node: str = ""
    others: Layout = ()

    @property
    def bus(self) -> str:
        return f"00000000:{0x10 + 8 * self.slot:02X}:00.0"

    @property
    def drawn_w(self) -> int:
        """A sixth of its power at rest, all of it at work."""
        idle = self.power_w // 6
        return idle + (self.power_w - idle) * self.utilization // 100

    @property
    def celsius(self) -> int:
        return 31 + self.slot % 4 + 35 * self.utilization // 100


class Printed(NamedTuple):
    text: str
    code: int = 0


def shown(arguments: list[str], place: Place) -> Printed | None:
    """What it prints; None where there is no GPU, and with it no driver."""
    devices = devices_of(place)
    if not devices:
        return None
    chosen, arguments = _chosen(arguments)
    if chosen:
        devices = [d for d in devices if chosen in (str(d.number), d.uuid, d.bus)]
        if not devices:
            return Printed("No devices were found\n", _NO_OBJECT)
    first = arguments[0].partition("=")[0] if arguments else ""
    answer = _VERBS.get(first)
    if answer is None:
        return Printed(tables.overview(devices, place.at_us, DRIVER, CUDA))
    return answer(arguments, devices, place)


def _chosen(arguments: list[str]) -> tuple[str, list[str]]:
    """`-i 0`, `--id=0`, and the rest."""
    for at, argument in enumerate(arguments):
        if argument in ("-i", "--id"):
            return "".join(arguments[at + 1 : at + 2]), arguments[:at] + arguments[at + 2 :]
        if argument.startswith("--id="):
            return argument.removeprefix("--id="), arguments[:at] + arguments[at + 1 :]
    return "", arguments


def devices_of(place: Place) -> list[Device]:
    """The GPUs of the container: those it was given, where that is said, else the first ones of the node. The GPU
    Operator's pods and debuggers of the node see all of them."""
    node: Obj = place.store.get(Key("Node", "", place.node)) or {}
    labels = labels_of(node)
    gpus = gpus_of_node(node)
    model = gpus.model or load_catalog().gpu(labels.get(_PRODUCT, ""))
    busy, held = _use(place)
    mine: dict[int, Layout]
    if _sees_all(place):
        mine = {i: layout or () for i, layout in enumerate(gpus.layouts) if i not in gpus.unhealthy}
    else:
        mine = _instances_of(place, model) or dict.fromkeys(gpus_of(place), ())
    return [
        _device(place, number, index, labels, model, busy, held, mig)._replace(
            others=tuple(at for at in _layout(gpus, index) if at not in mig)
        )
        for number, (index, mig) in enumerate(mine.items())
    ]


def _layout(gpus: NodeGpus, index: int) -> Layout:
    return (gpus.layouts[index] if index < gpus.count else None) or ()


def _sees_all(place: Place) -> bool:
    """An operand, once there is a driver; `kubectl debug node/…`."""
    meta = place.pod["metadata"]
    if spec_of(place.pod).get("hostPID") and meta["name"].startswith("node-debugger-"):
        return True
    return any(labels_of(place.pod).get("app") == o.app for o in operands()) and bool(
        meta.get("ownerReferences")
    )


def _instances_of(place: Place, model: GpuModel | None) -> dict[int, Layout]:
    """MIG instances by card: those the pod was given, else as many as the container asks for, on the first card."""
    found: dict[int, Layout] = {}
    if model is None:
        return found
    for part in filter(None, annotations_of(place.pod).get(INSTANCES, "").split(",")):
        card, _, at = part.partition("/")
        number, layout = natural(card), layout_of(model, at)
        if number is not None and layout:
            found[number] = (*found.get(number, ()), *layout)
    if found:
        return found
    resources = container_of(place).get("resources") or {}
    wanted = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    cut: Layout = ()
    for name, amount in sorted(wanted.items()):
        profile = model.profile(name) if name.startswith(_MIG) else None
        for _ in range(min(whole_ceil(amount), _MOST_INSTANCES) if profile is not None else 0):
            assert profile is not None
            cut = (*cut, placed(model, cut, profile) or Instance(profile, profile.starts[0]))
    return {0: cut} if cut else {}


def gpus_of(place: Place) -> list[int]:
    """Which GPUs of its node the container has, by number."""
    resources = container_of(place).get("resources") or {}
    wanted = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    count = whole_ceil(wanted.get(_GPU) or wanted.get(_SHARED) or 0)
    told = annotations_of(place.pod).get(GPU_INDEX_ANNOTATION, "")
    indexes = [n for part in told.replace("-", ",").split(",") if (n := natural(part.strip())) is not None]
    if indexes and INSTANCES not in annotations_of(place.pod) and len(indexes) < count:
        # Several shares of one card are one card.
        return indexes
    return indexes[:count] if len(indexes) >= count > 0 else list(range(min(count, MOST)))


def _device(
    place: Place,
    number: int,
    index: int,
    labels: dict[str, str],
    model: GpuModel | None,
    busy: int,
    held: int,
    mig: Layout,
) -> Device:
    name = model.product if model else labels.get(_PRODUCT, "NVIDIA GPU")
    told = None if model and _CUT in labels.get(_PRODUCT, "") else natural(labels.get(_MEMORY))
    memory = told if told is not None else model.memory_bytes // MIB if model else _SOME_MEMORY_MIB
    return Device(
        number,
        index,
        gpu_uuid(place.node, index),
        name.replace("-", " ") if " " not in name else name,
        memory,
        min(max(held // MIB, _IDLE_MIB), memory),
        busy,
        model.tdp_w if model else _SOME_POWER_W,
        model,
        mig,
        place.node,
    )


def _use(place: Place) -> tuple[int, int]:
    """Percent and bytes of each GPU that the container uses now, as it says."""
    pod, container = place.pod, container_of(place)
    statuses = status_of(pod).get("containerStatuses") or ()
    states = [s.get("state") or {} for s in statuses if s.get("name") == container.get("name")]
    started = states[0].get("running", {}).get("startedAt") if states else None
    if not started:
        return 0, 0
    try:
        words = said(annotations_of(pod))
        behaviour = behaviour_of(container, str(spec_of(pod).get("restartPolicy") or "Always"), words)
    except BehaviourError:
        return 0, 0
    worked_us = place.at_us - parse_rfc3339(started) - behaviour.startup.at_quantile(0.5)
    busy = _level(behaviour.gpu_utilization_milli, worked_us)
    return (busy + 5) // 10, _level(behaviour.gpu_memory_bytes, worked_us)


def _level(steps: tuple[tuple[int, int], ...], worked_us: int) -> int:
    return next((value for at_us, value in reversed(steps) if at_us <= worked_us), 0)


def _listed(_arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    lines = []
    for device in devices:
        lines.append(f"GPU {device.number}: {device.name} (UUID: {device.uuid})")
        for n, at in enumerate(device.mig):
            uuid = mig_uuid(device.node, device.slot, at.start)
            lines.append(f"  MIG {at.profile.name:<11} Device {n:>2}: (UUID: {uuid})")
    return Printed("\n".join(lines) + "\n")


def _mig_mode(device: Device) -> str:
    if device.mig or device.others:
        return "Enabled"
    return "Disabled" if device.model is None or device.model.is_mig_capable else "[N/A]"


_MIB, _PERCENT, _WATT = "MiB", "%", "W"
_QUERIES: dict[str, tuple[str, Callable[[Device], object]]] = {
    "count": ("", lambda d: 1),
    "index": ("", lambda d: d.number),
    "name": ("", lambda d: d.name),
    "gpu_name": ("", lambda d: d.name),
    "uuid": ("", lambda d: d.uuid),
    "gpu_uuid": ("", lambda d: d.uuid),
    "gpu_bus_id": ("", lambda d: d.bus),
    "pci.bus_id": ("", lambda d: d.bus),
    "driver_version": ("", lambda d: DRIVER),
    "pstate": ("", lambda d: "P0"),
    "persistence_mode": ("", lambda d: "Enabled"),
    "compute_mode": ("", lambda d: "Default"),
    "mig.mode.current": ("", _mig_mode),
    "mig.mode.pending": ("", _mig_mode),
    "memory.total": (_MIB, lambda d: d.memory_mib),
    "memory.used": (_MIB, lambda d: d.used_mib),
    "memory.free": (_MIB, lambda d: d.memory_mib - d.used_mib),
    "utilization.gpu": (_PERCENT, lambda d: "[N/A]" if d.mig else d.utilization),
    "utilization.memory": (_PERCENT, lambda d: "[N/A]" if d.mig else d.utilization // 2),
    "temperature.gpu": ("", lambda d: d.celsius),
    "power.draw": (_WATT, lambda d: f"{d.drawn_w}.00"),
    "power.limit": (_WATT, lambda d: f"{d.power_w}.00"),
    "ecc.errors.uncorrected.volatile.total": ("", lambda d: 0),
}


def _queried(arguments: list[str], devices: list[Device], place: Place) -> Printed:
    """`--query-gpu=name,memory.total --format=csv,noheader,nounits`."""
    options = dict(a.split("=", 1) for a in arguments if "=" in a)
    fields = [f.strip() for f in options.get(arguments[0].partition("=")[0], "").split(",")]
    formats = options.get("--format", "").split(",")
    if formats[0] != "csv":
        return Printed(
            "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n", _INVALID_ARGUMENT
        )
    lines = []
    for field in fields:
        if field not in _QUERIES and field != "timestamp":
            return Printed(_FIELDS.format(field), _INVALID_ARGUMENT)
    if "noheader" not in formats:
        heads = [(f, _QUERIES[f][0] if f in _QUERIES else "") for f in fields]
        lines.append(", ".join(f"{name} [{unit}]" if unit else name for name, unit in heads))
    for device in devices:
        values = []
        for field in fields:
            if field == "timestamp":
                values.append(rfc3339(place.at_us).replace("-", "/").replace("T", " ").replace("Z", ".000"))
                continue
            unit, value = _QUERIES[field][0], _QUERIES[field][1](device)
            bare = not unit or "nounits" in formats or value == "[N/A]"
            values.append(str(value) if bare else f"{value} {unit}")
        lines.append(", ".join(values))
    return Printed("\n".join(lines) + "\n")


def _monitored(arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    """`dmon -c N`; one round without a count, for which the real one goes on for ever."""
    at = arguments.index("-c") + 1 if "-c" in arguments else len(arguments)
    rounds = natural(arguments[at]) if at < len(arguments) else 1
    return Printed(tables.monitor(devices, rounds or 1))


def _topology(arguments: list[str], devices: list[Device], place: Place) -> Printed:
    if "-m" not in arguments and "--matrix" not in arguments:
        return Printed("ERROR: Option is missing.\n", _INVALID_ARGUMENT)
    node = place.store.get(Key("Node", "", place.node))
    board = None if node is None else board_of(node)
    if board is None or board.gpus <= max(d.slot for d in devices):
        board = plain_board(max(d.slot for d in devices) + 1, devices[0].model)
    return Printed(tables.topology(devices, board))


def _mig(arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    """`mig -lgip`, `-lgipp`, `-lgi`: profiles, places and instances of GPUs that are cut. Inside a container nothing
    can be created or destroyed."""
    cut = [d for d in devices if d.mig or d.others]
    if not cut:
        return Printed(_NO_MIG, _NO_OBJECT)
    for names, table in (
        (("-lgip", "--list-gpu-instance-profiles"), tables.profiles),
        (("-lgipp", "--list-gpu-instance-possible-placements"), tables.places),
        (("-lgi", "--list-gpu-instances"), tables.instances),
    ):
        if set(names) & set(arguments):
            return Printed(table(cut))
    return Printed("Insufficient Permissions\n", 4)


_VERBS: dict[str, Callable[[list[str], list[Device], Place], Printed]] = {
    "-L": _listed,
    "--list-gpus": _listed,
    "--query-gpu": _queried,
    "dmon": _monitored,
    "topo": _topology,
    "mig": _mig,
}
