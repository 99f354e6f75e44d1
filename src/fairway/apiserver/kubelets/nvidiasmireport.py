"""What does `nvidia-smi -q` print, and `--query-gpu`? One set of values of a card, read by both.

The report's layout is driver 580's (`nvidiasmireport.txt`): a line `Name = {value}` each, `@SECTION` for `-d`.
What the model of a card does not know (part numbers, firmware, throughput) is N/A.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from fairway.catalog.drivers import shaped_uuid
from fairway.kube.timestamps import SECOND_US, rfc3339

if TYPE_CHECKING:
    from fairway.apiserver.kubelets.nvidiasmi import Device

_COLUMN: Final = 55
"""Where the colons are. Source: `nvidia-smi -q` of drivers 580."""
_PROCESS_COLUMN: Final = 42
_NONE: Final = "N/A"
# Whose temperatures are told as what is left to a limit.
_LIMITS_LEFT: Final = ("Hopper", "Blackwell", "Ada Lovelace")
# Boards with NVSwitches, whose cards register with the fabric manager.
_FABRIC_GB_S: Final = 900


class _Line(NamedTuple):
    depth: int
    name: str
    value: str
    section: str


@cache
def _layout() -> tuple[_Line, ...]:
    found, section = [], ""
    text = files("fairway.apiserver.kubelets").joinpath("nvidiasmireport.txt").read_text("utf-8")
    for raw in text.splitlines():
        line, _, told = raw.partition(" @")
        depth = (len(line) - len(line.lstrip())) // 4
        section = told if depth == 0 else section
        name, _, value = line.strip().partition(" = ")
        found.append(_Line(depth, name, value, section))
    return tuple(found)


def report(devices: Sequence[Device], now_us: int, displays: Sequence[str]) -> str:
    """`-q`, and of it what `-d` chooses."""
    now = datetime.fromtimestamp(now_us // SECOND_US, UTC).strftime("%a %b %e %H:%M:%S %Y")
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [_line(0, "Timestamp", now), _line(0, "Driver Version", devices[0].driver)]
    lines += [_line(0, "CUDA Version", devices[0].cuda), "", _line(0, "Attached GPUs", str(len(devices)))]
    for device in devices:
        values, wanted = values_of(device), {d.strip().upper() for d in displays}
        lines.append(f"GPU {device.bus}")
        for line in _layout():
            if wanted and line.section not in wanted:
                continue
            if line.name == "{mig_devices}":
                lines += _instances(device)
            elif line.name == "{processes}":
                lines += _processes(device)
            else:
                name = line.name.format_map(values)
                lines.append(_line(line.depth + 1, name, line.value.format_map(values)))
        lines.append("")
    return "\n".join(lines) + "\n"


def _line(depth: int, name: str, value: str, column: int = _COLUMN) -> str:
    shown = f"{'    ' * depth}{name}"
    return f"{shown:<{column}}: {value}" if value else shown


def _processes(device: Device) -> list[str]:
    if not device.listed:
        return [_line(1, "Processes", "None")]
    lines = ["    Processes"]
    for use in device.listed:
        instance, compute = ("N/A", "N/A") if use.instance is None else (str(use.instance), "0")
        rows = [(2, "GPU instance ID", instance), (2, "Compute instance ID", compute)]
        rows += [(2, "Process ID", str(use.pid)), (3, "Type", "C"), (3, "Name", use.name)]
        rows.append((3, "Used GPU Memory", f"{use.memory_mib} MiB"))
        lines += [_line(depth, name, value, _PROCESS_COLUMN) for depth, name, value in rows]
    return lines


def _instances(device: Device) -> list[str]:
    lines: list[str] = []
    for n, at in enumerate(device.mig):
        copy, decoders, jpeg, flow = at.profile.engines
        counts = {"Multiprocessor": at.profile.sms, "Copy Engine": copy, "Encoder": 0, "Decoder": decoders}
        counts |= {"OFA": flow, "JPG": jpeg}
        memory, used = at.profile.memory_bytes >> 20, device.used_of(at)
        rows: list[tuple[int, str, object]] = [
            (1, "MIG Device", ""),
            (2, "Index", n),
            (2, "GPU Instance ID", device.id_of(at)),
        ]
        rows += [(2, "Compute Instance ID", 0), (2, "Device Attributes", ""), (3, "Shared", "")]
        rows += [(4, f"{name} count", count) for name, count in counts.items()]
        rows += [(2, "ECC Errors", ""), (3, "Volatile", ""), (4, "SRAM Uncorrectable", 0)]
        rows += [(2, "FB Memory Usage", ""), (3, "Total", f"{memory} MiB"), (3, "Reserved", "0 MiB")]
        rows += [(3, "Used", f"{used} MiB"), (3, "Free", f"{memory - used} MiB")]
        bar1 = instance_bar1_mib(device, at.profile.memory_slices)
        rows += [(2, "BAR1 Memory Usage", ""), (3, "Total", f"{bar1} MiB"), (3, "Used", "0 MiB")]
        rows.append((3, "Free", f"{bar1} MiB"))
        lines += [_line(depth, name, str(value)) for depth, name, value in rows]
    return lines


def instance_bar1_mib(device: Device, memory_slices: int) -> int:
    """An instance's part of the card's BAR1, as drivers before 590 say it."""
    slices = device.model.memory_slices if device.model is not None else 8
    return _bar1_mib(device) * memory_slices // max(slices, 1) - 1


def _bar1_mib(device: Device) -> int:
    return int(1 << max(device.memory_mib - 1, 1).bit_length())


def values_of(device: Device) -> dict[str, str]:
    """What is known of the card, as text with its unit."""
    board, uuid = device.board, device.uuid
    architecture = device.model.architecture if device.model is not None else _NONE
    digest = shaped_uuid("serial", uuid).replace("-", "").removeprefix("serial")
    is_cut, left = bool(device.mig or device.others), architecture in _LIMITS_LEFT
    hottest, bar1 = board.throttle_c, _bar1_mib(device)
    hidden = device.is_memory_hidden
    busy = [
        _NONE if is_cut else f"{percent} %" for percent in (device.utilization, device.utilization // 2, 0)
    ]
    fabric = board.link_gb_s >= _FABRIC_GB_S
    cluster, _, clique = (device.clique or ".0").rpartition(".")
    return {
        "name": device.name,
        "brand": "Tesla" if device.name.startswith("Tesla") else "NVIDIA",
        "architecture": architecture,
        "mig_mode": _NONE if device.mig_mode == "[N/A]" else device.mig_mode,
        "serial": f"165{int(digest[:10], 16) % 10**10:010d}",
        "uuid": uuid,
        "pdi": f"0x{digest[:16]}",
        "minor": str(device.slot),
        "module": str(device.slot + 1),
        "board_id": f"0x{(0x10 + 8 * device.slot) << 8:x}",
        "driver": device.driver,
        "pci_bus": f"0x{0x10 + 8 * device.slot:02X}",
        "device_id": device.model.device_id if device.model is not None and device.model.device_id else _NONE,
        "bus": device.bus,
        "pcie": device.model.pcie[:1] if device.model is not None else "4",
        "idle": "Not Active" if device.utilization else "Active",
        "memory_total": f"{device.memory_mib} MiB",
        "memory_reserved": f"{board.reserved_mib} MiB",
        "memory_used": _NONE if hidden else f"{device.used_mib} MiB",
        "memory_free": _NONE
        if hidden
        else f"{max(device.memory_mib - board.reserved_mib - device.used_mib, 0)} MiB",
        "bar1_total": f"{bar1} MiB",
        "bar1_free": f"{bar1 - 1} MiB",
        "utilization_gpu": busy[0],
        "utilization_memory": busy[1],
        "utilization_other": busy[2],
        "temperature": str(device.celsius),
        "temperature_left": f"{hottest - device.celsius} C" if left else _NONE,
        "limit": " T.Limit" if left else "",
        "shutdown": str(-8 if left else hottest + 3),
        "slowdown": str(-2 if left else hottest),
        "operating": str(0 if left else hottest - 4),
        "power": f"{device.drawn_w}.00 W",
        "power_limit": f"{device.power_w}.00 W",
        "clock_sm": f"{board.sm_mhz if device.utilization else board.rest_mhz} MHz",
        "clock_sm_max": f"{board.sm_mhz} MHz",
        "clock_memory": f"{board.memory_mhz} MHz",
        "fabric_state": "Completed" if fabric else _NONE,
        "fabric_status": "Success" if fabric else _NONE,
        "clique": clique if fabric else _NONE,
        "cluster": (cluster or "00000000-0000-0000-0000-000000000000") if fabric else _NONE,
        "compute_cap": device.model.compute_capability if device.model is not None else _NONE,
        "index": str(device.number),
    }


# Field → unit and value (a key of `values_of`, or `=` and the value itself). Source: nvidia-smi --help-query-gpu.
QUERIES: Final[Mapping[str, tuple[str, str]]] = {
    "driver_version": ("", "driver"),
    "count": ("", ""),
    "index": ("", "index"),
    "name": ("", "name"),
    "serial": ("", "serial"),
    "uuid": ("", "uuid"),
    "pci.bus_id": ("", "bus"),
    "pci.bus": ("", "pci_bus"),
    "pci.device": ("", "=0x00"),
    "pci.domain": ("", "=0x0000"),
    "pci.device_id": ("", "device_id"),
    "pcie.link.gen.current": ("", "pcie"),
    "pcie.link.gen.max": ("", "pcie"),
    "pcie.link.width.current": ("", "=16"),
    "pcie.link.width.max": ("", "=16"),
    "compute_cap": ("", "compute_cap"),
    "persistence_mode": ("", "=Enabled"),
    "compute_mode": ("", "=Default"),
    "display_active": ("", "=Disabled"),
    "vbios_version": ("", "=N/A"),
    "fan.speed": ("%", "=N/A"),
    "pstate": ("", "=P0"),
    "mig.mode.current": ("", "mig_mode"),
    "mig.mode.pending": ("", "mig_mode"),
    "memory.total": ("MiB", "memory_total"),
    "memory.reserved": ("MiB", "memory_reserved"),
    "memory.used": ("MiB", "memory_used"),
    "memory.free": ("MiB", "memory_free"),
    "utilization.gpu": ("%", "utilization_gpu"),
    "utilization.memory": ("%", "utilization_memory"),
    "utilization.encoder": ("%", "utilization_other"),
    "utilization.decoder": ("%", "utilization_other"),
    "temperature.gpu": ("", "temperature"),
    "temperature.gpu.tlimit": ("", "temperature_left"),
    "temperature.memory": ("", "=N/A"),
    "power.management": ("", "=Enabled"),
    "power.draw": ("W", "power"),
    "power.draw.average": ("W", "power"),
    "power.draw.instant": ("W", "power"),
    "power.limit": ("W", "power_limit"),
    "enforced.power.limit": ("W", "power_limit"),
    "power.default_limit": ("W", "power_limit"),
    "power.max_limit": ("W", "power_limit"),
    "clocks.current.graphics": ("MHz", "clock_sm"),
    "clocks.current.sm": ("MHz", "clock_sm"),
    "clocks.current.memory": ("MHz", "clock_memory"),
    "clocks.max.graphics": ("MHz", "clock_sm_max"),
    "clocks.max.sm": ("MHz", "clock_sm_max"),
    "clocks.max.memory": ("MHz", "clock_memory"),
    "ecc.mode.current": ("", "=Enabled"),
    "ecc.mode.pending": ("", "=Enabled"),
    "ecc.errors.corrected.volatile.total": ("", "=0"),
    "ecc.errors.corrected.aggregate.total": ("", "=0"),
    "ecc.errors.uncorrected.volatile.total": ("", "=0"),
    "ecc.errors.uncorrected.aggregate.total": ("", "=0"),
    "gpu_recovery_action": ("", "=None"),
    "fabric.state": ("", "fabric_state"),
    "fabric.status": ("", "fabric_status"),
    "timestamp": ("", ""),
}
_UNITS: Final = {name: unit for name, (unit, _) in QUERIES.items()}
# What else they may be called; the header has the first name.
_OTHERWISE: Final[Mapping[str, str]] = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
}
_APPS: Final[Mapping[str, str]] = {
    "timestamp": "",
    "gpu_name": "",
    "gpu_bus_id": "",
    "gpu_uuid": "",
    "pid": "",
    "process_name": "",
    "used_gpu_memory": "MiB",
}
_APPS_OTHERWISE: Final[Mapping[str, str]] = {"name": "process_name", "used_memory": "used_gpu_memory"}


class UnknownFieldError(Exception):
    """`field` is none that can be asked for."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def gpu_table(fields: Sequence[str], devices: Sequence[Device], now_us: int, formats: Sequence[str]) -> str:
    """`--query-gpu`. Raises: UnknownFieldError."""
    names = [_OTHERWISE.get(f, f) for f in fields]
    units = [_known(_UNITS, name, field) for name, field in zip(names, fields, strict=True)]
    rows = []
    for device in devices:
        values = values_of(device) | {"timestamp": _stamp(now_us), "count": str(len(devices))}
        rows.append([_value(name, values) for name in names])
    return _csv(names, units, rows, formats)


def apps_table(fields: Sequence[str], devices: Sequence[Device], now_us: int, formats: Sequence[str]) -> str:
    """`--query-compute-apps`: who uses the cards. Raises: UnknownFieldError."""
    names = [_APPS_OTHERWISE.get(f, f) for f in fields]
    units = [_known(_APPS, name, field) for name, field in zip(names, fields, strict=True)]
    rows = []
    for device in devices:
        for use in device.listed:
            values = {"timestamp": _stamp(now_us), "gpu_name": device.name, "gpu_bus_id": device.bus}
            values |= {"gpu_uuid": device.uuid, "pid": str(use.pid), "process_name": use.name}
            values["used_gpu_memory"] = f"{use.memory_mib} MiB"
            rows.append([values[name] for name in names])
    return _csv(names, units, rows, formats)


def _known(known: Mapping[str, str], name: str, field: str) -> str:
    if name not in known:
        raise UnknownFieldError(field)
    return known[name]


def _stamp(now_us: int) -> str:
    return rfc3339(now_us).replace("-", "/").replace("T", " ").replace("Z", ".000")


def _value(name: str, values: Mapping[str, str]) -> str:
    key = QUERIES[name][1]
    value = key[1:] if key.startswith("=") else values[key or name]
    return "[N/A]" if value == _NONE else value


def _csv(
    names: Sequence[str], units: Sequence[str], rows: Sequence[Sequence[str]], formats: Sequence[str]
) -> str:
    lines = []
    if "noheader" not in formats:
        lines.append(", ".join(f"{n} [{u}]" if u else n for n, u in zip(names, units, strict=True)))
    for row in rows:
        bare = [v.removesuffix(f" {u}") if u else v for v, u in zip(row, units, strict=True)]
        lines.append(", ".join(bare if "nounits" in formats else row))
    return "\n".join(lines) + "\n" if lines else ""
