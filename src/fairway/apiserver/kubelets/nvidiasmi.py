"""What does `nvidia-smi` print in a simulated container? Of the GPUs and MIG devices it has, as its node's labels name
them and as its annotations (`fairway.dev/gpu-utilization`, `gpu-memory`) say they are used; on the node itself, of all
cards as the node's pods use them.

Layout and words of drivers 580; `nvidiasmitables` draws the tables, `nvidiasmireport` has `-q` and `--query-gpu`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fairway.apiserver.kubelets import nvidiasmireport as reports
from fairway.apiserver.kubelets import nvidiasmitables as tables
from fairway.apiserver.kubelets.place import Place, container_of
from fairway.catalog.boards import Board as Motherboard
from fairway.catalog.boards import board_of, plain_board
from fairway.catalog.catalog import load_catalog
from fairway.catalog.drivers import (
    DRIVER,
    OLD,
    OLD_DRIVER,
    card_name,
    cuda_of,
    gpu_uuid,
    mig_uuid,
    shaped_uuid,
)
from fairway.catalog.gpus import MIB, GpuModel
from fairway.catalog.nodegpus import INSTANCES, MOST, NodeGpus, gpus_of_node
from fairway.catalog.placements import Instance, Layout, layout_of, placed
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.devices.policy import operands
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, spec_of, status_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import parse_rfc3339
from fairway.telemetry.gpus.boards import Board
from fairway.telemetry.gpus.boards import board_of as power_of
from fairway.twin.behaviour import BehaviourError, behaviour_of, said

_GPU: Final = "nvidia.com/gpu"
_SHARED: Final = "nvidia.com/gpu.shared"
_MIG: Final = "nvidia.com/mig-"
_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
# Of a GPU nobody described.
_SOME_MEMORY_MIB, _SOME_POWER_W = 81559, 400
_IDLE_MIB: Final = 1
_DRIVER_LABEL: Final = "nvidia.com/cuda.driver-version.full"
_FAULT: Final = "fairway.dev/gpu-fault"
_CLIQUE: Final = "nvidia.com/gpu.clique"
_CUT, _MOST_INSTANCES = "-MIG-", 64
_MOST_OF_A_NAME: Final = 256
_FIELDS = 'Field "{}" is not a valid field to query.\n\n'
_NO_MIG: Final = "No MIG-enabled devices found.\n"
_NO_SUCH: Final = "No MIG-supported devices found.\n"
# Exit codes. Source: nvidia-smi(1), RETURN VALUE.
_INVALID_ARGUMENT, _NO_PERMISSION, _NO_OBJECT = 2, 4, 6
# Options of the real one that look at what is not modelled, or change something.
_OTHERS: Final = """
-B --list-excluded-gpus -x --xml-format -u --unit -pm --persistence-mode -e --ecc-config -p --reset-ecc-errors
-c --compute-mode --gom -r --gpu-reset -vm -lgc --lock-gpu-clocks -rgc --reset-gpu-clocks -lmc -rmc -ac -rac
--applications-clocks -pl --power-limit -sc -cc -am --accounting-mode -caa -mig --multi-instance-gpu -gtt
drain clocks encodersessions fbcsessions vgpu daemon replay compute-policy boost-slider power-hint conf-compute c2c gpm
pci power-smoothing power-profiles --query-accounted-apps --query-remapped-rows --query-retired-pages
--query-supported-clocks
"""
_NOT_HERE: Final = frozenset(_OTHERS.split())
# Options that only say how often, and to where: it is told once.
_ONCE: Final = ("-l", "--loop", "-lms", "--loop-ms", "-f", "--filename")


class Use(NamedTuple):
    """A process on a card; `instance`: the GPU instance's number, where it has one. `at`: which it is."""

    pid: int
    name: str
    memory_mib: int
    instance: int | None = None
    at: Instance | None = None


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
    board: Board
    driver: str
    mig: Layout = ()
    node: str = ""
    others: Layout = ()
    clique: str = ""
    uses: tuple[Use, ...] = ()
    is_whole: bool = False
    """Whether the card is seen from its node, not from a container that has an instance of it."""

    @property
    def bus(self) -> str:
        return f"00000000:{0x10 + 8 * self.slot:02X}:00.0"

    @property
    def cuda(self) -> str:
        return cuda_of(self.driver)

    @property
    def is_cut(self) -> bool:
        return bool(self.mig or self.others)

    @property
    def is_memory_hidden(self) -> bool:
        """In a container with an instance of a card the card's own memory is not told."""
        return self.is_cut and not self.is_whole

    @property
    def mig_mode(self) -> str:
        if self.is_cut:
            return "Enabled"
        return "Disabled" if self.model is None or self.model.is_mig_capable else "[N/A]"

    @property
    def drawn_w(self) -> int:
        """Between its power at rest and its limit."""
        return self.board.idle_w + (self.power_w - self.board.idle_w) * self.utilization // 100

    @property
    def listed(self) -> tuple[Use, ...]:
        """The processes it tells of: containers do not see those of the machine."""
        return self.uses if self.is_whole else ()

    def id_of(self, at: Instance) -> int:
        """An instance's number on this card: only cards of a known model are cut."""
        assert self.model is not None
        return at.id_on(self.model)

    def used_of(self, at: Instance) -> int:
        """MiB of this instance's memory in use."""
        held = sum(use.memory_mib for use in self.uses if use.at == at)
        return min(max(held, _IDLE_MIB), at.profile.memory_bytes // MIB)

    @property
    def celsius(self) -> int:
        return 31 + self.slot % 4 + 35 * self.utilization // 100


class Printed(NamedTuple):
    """`is_known` False: this is not what a real one would have said."""

    text: str
    code: int = 0
    is_known: bool = True


def shown(arguments: list[str], place: Place) -> Printed | None:
    """What it prints; None where there is no GPU, and with it no driver."""
    devices = devices_of(place)
    if not devices:
        return None
    chosen, arguments = _taken(arguments, "-i", "--id")
    if chosen:
        wanted = {part.strip() for part in chosen.split(",")}
        devices = [d for d in devices if wanted & {str(d.number), d.uuid, d.bus}]
        if not devices:
            return Printed("No devices were found\n", _NO_OBJECT)
    for at in range(0, len(_ONCE), 2):
        _, arguments = _taken(arguments, *_ONCE[at : at + 2])
    first = next((a.partition("=")[0] for a in arguments if a.partition("=")[0] in _VERBS), "")
    if first:
        return _VERBS[first](arguments, devices, place)
    return _otherwise(arguments, devices, place)


def _otherwise(arguments: list[str], devices: list[Device], place: Place) -> Printed:
    """The overview, or what it says of an option that it does not know."""
    if not arguments:
        return Printed(tables.overview(devices, place.at_us))
    option = arguments[0].partition("=")[0]
    if option not in _NOT_HERE:
        told = f"ERROR: Option {arguments[0]} is not recognized. Please run 'nvidia-smi -h' for help.\n\n"
        return Printed(told, _INVALID_ARGUMENT)
    return _not_simulated(option)


def _not_simulated(what: str, instead: str = "") -> Printed:
    return Printed(f"nvidia-smi: Fairway does not simulate {what}{instead}\n", 1, is_known=False)


def _taken(arguments: list[str], short: str, long: str) -> tuple[str, list[str]]:
    """The value of `-i 0` or `--id=0`, and the rest."""
    for at, argument in enumerate(arguments):
        if argument in (short, long):
            return "".join(arguments[at + 1 : at + 2]), arguments[:at] + arguments[at + 2 :]
        if argument.startswith(f"{long}="):
            return argument.removeprefix(f"{long}="), arguments[:at] + arguments[at + 1 :]
    return "", arguments


def devices_of(place: Place) -> list[Device]:
    """The GPUs of the container: those it was given, where that is said, else the first ones of the node. The GPU
    Operator's pods and debuggers of the node see all of them."""
    node: Obj = place.store.get(Key("Node", "", place.node)) or {}
    labels = labels_of(node)
    gpus = gpus_of_node(node)
    model = gpus.model or load_catalog().gpu(labels.get(_PRODUCT, ""))
    is_whole = _sees_all(place)
    mine: dict[int, Layout]
    if is_whole:
        mine = {i: layout or () for i, layout in enumerate(gpus.layouts) if i not in gpus.unhealthy}
    else:
        mine = _instances_of(place, model) or dict.fromkeys(gpus_of(place), ())
    held = _held_on(place, model) if is_whole else _held_by(place, model)
    blank = _blank(node, labels, model)
    found = []
    for number, (index, mig) in enumerate(mine.items()):
        uses = [h for h in held if h.slot == index]
        found.append(
            blank._replace(
                number=number,
                slot=index,
                uuid=gpu_uuid(place.node, index),
                used_mib=min(max(sum(h.memory_mib for h in uses), _IDLE_MIB), blank.memory_mib),
                utilization=min(sum(h.utilization for h in uses), 100),
                mig=mig,
                others=tuple(at for at in _layout(gpus, index) if at not in mig),
                uses=_uses(uses, model),
                is_whole=is_whole,
            )
        )
    return found


class _Held(NamedTuple):
    """Part of a card that a container uses now."""

    slot: int
    at: Instance | None
    utilization: int
    memory_mib: int
    pid: int
    name: str


def _held_by(place: Place, model: GpuModel | None) -> list[_Held]:
    """By one container."""
    busy, bytes_held = _use(place)
    cut = _instances_of(place, model)
    parts: list[tuple[int, Instance | None]] = [(slot, at) for slot, layout in cut.items() for at in layout]
    parts = parts or [(slot, None) for slot in gpus_of(place)]
    argv = [*(container_of(place).get("command") or ()), *(container_of(place).get("args") or ())]
    image = str(container_of(place).get("image") or "").rpartition("/")[2].partition(":")[0]
    # Whoever reads it may be somebody else: no signs that a terminal would obey.
    program = str(argv[0]) if argv else image or "python3"
    name = "".join(c if c.isprintable() else "?" for c in program[:_MOST_OF_A_NAME])
    digest = shaped_uuid("pid", f"{place.pod['metadata'].get('uid')}/{place.container}")
    pid = 2000 + int(digest[4:12], 16) % 4_000_000
    return [
        _Held(
            slot,
            at,
            busy if at is None or model is None else _part_of(busy, at, model),
            bytes_held // MIB,
            pid,
            name,
        )
        for slot, at in parts
    ]


def _part_of(busy: int, at: Instance, model: GpuModel) -> int:
    """An instance's load as a load of its card, by its multiprocessors."""
    return busy * at.profile.sms // max(model.sms, 1)


def _held_on(place: Place, model: GpuModel | None) -> list[_Held]:
    """By all containers that run on the node and use its cards."""
    found: list[_Held] = []
    for pod in place.store.objects("Pod"):
        if spec_of(pod).get("nodeName") != place.node or status_of(pod).get("phase") != "Running":
            continue
        for container in spec_of(pod)["containers"]:
            there = place._replace(pod=pod, container=container["name"])
            found += [h for h in _held_by(there, model) if h.memory_mib or h.utilization]
    return found


def _uses(held: Sequence[_Held], model: GpuModel | None) -> tuple[Use, ...]:
    return tuple(
        Use(h.pid, h.name, h.memory_mib, None if h.at is None or model is None else h.at.id_on(model), h.at)
        for h in sorted(held, key=lambda h: h.pid)
    )


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


def _blank(node: Obj, labels: dict[str, str], model: GpuModel | None) -> Device:
    """What all cards of the node have in common."""
    product = model.product if model else labels.get(_PRODUCT, "NVIDIA-GPU")
    told = None if model and _CUT in labels.get(_PRODUCT, "") else natural(labels.get(_MEMORY))
    memory = told if told is not None else model.memory_bytes // MIB if model else _SOME_MEMORY_MIB
    power = model.tdp_w if model else _SOME_POWER_W
    board = power_of(load_catalog(), product)
    faults = annotations_of(node).get(_FAULT, "").replace(" ", "").split(",")
    driver = OLD[0] if OLD_DRIVER in faults else labels.get(_DRIVER_LABEL) or DRIVER
    name = str(node["metadata"]["name"]) if node else ""
    return Device(
        0,
        0,
        "",
        card_name(product),
        memory,
        0,
        0,
        power,
        model,
        board,
        driver,
        node=name,
        clique=labels.get(_CLIQUE, ""),
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


def _queried(arguments: list[str], devices: list[Device], place: Place) -> Printed:
    """`--query-gpu=name,memory.total --format=csv,noheader,nounits`, and `--query-compute-apps`."""
    options = dict(a.split("=", 1) for a in arguments if "=" in a)
    first = next(a for a in arguments if a.startswith("--query-")).partition("=")[0]
    fields = [f.strip() for f in options.get(first, "").split(",")]
    formats = [f.strip() for f in options.get("--format", "").split(",")]
    if formats[0] != "csv":
        return Printed(
            "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n", _INVALID_ARGUMENT
        )
    table = reports.gpu_table if first == "--query-gpu" else reports.apps_table
    try:
        return Printed(table(fields, devices, place.at_us, formats))
    except reports.UnknownFieldError as why:
        return Printed(_FIELDS.format(why.field), _INVALID_ARGUMENT)


def _reported(arguments: list[str], devices: list[Device], place: Place) -> Printed:
    """`-q`, with `-d MEMORY,ECC` parts of it."""
    chosen, rest = _taken(arguments, "-d", "--display")
    if unknown := next((a for a in rest if a not in ("-q", "--query")), ""):
        return _otherwise([unknown], devices, place)
    return Printed(reports.report(devices, place.at_us, [d for d in chosen.split(",") if d.strip()]))


def _versions(_arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    driver, cuda = devices[0].driver, devices[0].cuda
    nvml = driver.rpartition(".")[0]
    rows = (("NVIDIA-SMI", driver), ("NVML", nvml), ("DRIVER", driver))
    lines = [f"{f'{name} version':<20}: {value}" for name, value in rows]
    return Printed("\n".join([*lines, f"{'CUDA Version':<20}: {cuda}"]) + "\n")


def _helped(_arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    """Which of its commands there are; the real one's help is longer."""
    known = ", ".join(name for name in _VERBS if name not in ("-h", "--help"))
    return Printed(f"NVIDIA System Management Interface -- v{devices[0].driver}\n\nSimulated here: {known}\n")


def _fields_told(_arguments: list[str], _devices: list[Device], _place: Place) -> Printed:
    head = 'List of valid properties to query for the switch "--query-gpu":\n\n'
    return Printed(head + "\n".join(f'"{name}"' for name in reports.QUERIES) + "\n")


def _links(arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    """`nvlink -s`: every link that is up, and how fast it is."""
    if not {"-s", "--status"} & set(arguments):
        return _not_simulated("nvlink beyond --status")
    return Printed(tables.links(devices))


def _processes(arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    return Printed(tables.processes(devices, _rounds(arguments)))


def _rounds(arguments: list[str]) -> int:
    """`-c N`; one without a count, for which the real one goes on for ever."""
    at = arguments.index("-c") + 1 if "-c" in arguments else len(arguments)
    return (natural(arguments[at]) if at < len(arguments) else 1) or 1


def _monitored(arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    return Printed(tables.monitor(devices, _rounds(arguments)))


def _topology(arguments: list[str], devices: list[Device], place: Place) -> Printed:
    if "-m" not in arguments and "--matrix" not in arguments:
        return Printed("ERROR: Option is missing.\n", _INVALID_ARGUMENT)
    return Printed(tables.topology(devices, _board_for(devices, place)))


def _board_for(devices: list[Device], place: Place) -> Motherboard:
    node = place.store.get(Key("Node", "", place.node))
    board = None if node is None else board_of(node)
    if board is None or board.gpus <= max(d.slot for d in devices):
        board = plain_board(max(d.slot for d in devices) + 1, devices[0].model)
    return board


def _mig(arguments: list[str], devices: list[Device], _place: Place) -> Printed:
    """`mig -lgip`, `-lgipp`, `-lgi`, `-lci`: profiles, places and instances of GPUs that are cut. Nothing can be
    created or destroyed: in a container without permission, on the node that is MIG Manager's."""
    if all(d.mig_mode == "[N/A]" for d in devices):
        return Printed(_NO_SUCH, _NO_OBJECT)
    cut = [d for d in devices if d.is_cut]
    for names, table in (
        (("-lgip", "--list-gpu-instance-profiles"), tables.profiles),
        (("-lgipp", "--list-gpu-instance-possible-placements"), tables.places),
        (("-lgi", "--list-gpu-instances"), tables.instances),
        (("-lci", "--list-compute-instances"), tables.compute_instances),
    ):
        if set(names) & set(arguments):
            return Printed(table(cut)) if cut else Printed(_NO_MIG, _NO_OBJECT)
    if not cut:
        return Printed(_NO_MIG, _NO_OBJECT)
    if devices[0].is_whole:
        return _not_simulated("mig " + " ".join(arguments[1:]), "; label the node with nvidia.com/mig.config")
    return Printed("Insufficient Permissions\n", _NO_PERMISSION)


_VERBS: dict[str, Callable[[list[str], list[Device], Place], Printed]] = {
    "-L": _listed,
    "--list-gpus": _listed,
    "-q": _reported,
    "--query": _reported,
    "--query-gpu": _queried,
    "--query-compute-apps": _queried,
    "--help-query-gpu": _fields_told,
    "--version": _versions,
    "-h": _helped,
    "--help": _helped,
    "dmon": _monitored,
    "pmon": _processes,
    "topo": _topology,
    "nvlink": _links,
    "mig": _mig,
}
