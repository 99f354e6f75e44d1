"""The tables of `nvidia-smi` 580, drawn: the overview, `dmon`, `topo -m`, `mig -lgip`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from fairway.kube.timestamps import SECOND_US

if TYPE_CHECKING:
    from fairway.apiserver.kubelets.nvidiasmi import Device

_RULE: Final = "+-----------------------------------------------------------------------------------------+"
_COLUMNS: Final = (
    "|-----------------------------------------+------------------------+----------------------+"
)
_HEADING: Final = (
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
    "|=========================================+========================+======================|",
)
_BELOW: Final = "+-----------------------------------------+------------------------+----------------------+"
_MIG_HEADING: Final = (
    "",
    _RULE,
    "| MIG devices:                                                                            |",
    "+------------------+----------------------------------+-----------+-----------------------+",
    "| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |",
    "|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |",
    "|                  |                                  |        ECC|                       |",
    "|==================+==================================+===========+=======================|",
)
_MIG_BELOW: Final = (
    "+------------------+----------------------------------+-----------+-----------------------+"
)
_PROCESSES: Final = (
    "",
    _RULE,
    "| Processes:                                                                              |",
    "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
    "|        ID   ID                                                               Usage      |",
    "|=========================================================================================|",
    "|  No running processes found                                                             |",
    _RULE,
)


def overview(devices: Sequence[Device], now_us: int, driver: str, cuda: str) -> str:
    versions = f"NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8}"
    now = datetime.fromtimestamp(now_us // SECOND_US, UTC).strftime("%a %b %e %H:%M:%S %Y")
    lines = [now, _RULE, f"| {versions} |", _COLUMNS, *_HEADING]
    for d in devices:
        capable = d.model is None or d.model.is_mig_capable
        mode = "Enabled" if d.mig else "Disabled" if capable else "N/A"
        drawn, held = f"{d.drawn_w}W / {d.power_w:>4}W", f"{d.used_mib}MiB / {d.memory_mib:>6}MiB"
        busy = "N/A" if d.mig else f"{d.utilization}%"
        lines += [
            f"|{d.number:>4}  {d.name[:25]:<25}       On |   {d.bus} Off |{0:>21} |",
            f"| N/A   {d.celsius}C    P0{drawn:>24} |{held:>23} |{busy:>8}      Default |",
            f"|                                         |                        |{mode:>21} |",
            _BELOW,
        ]
    if any(d.mig for d in devices):
        lines += _MIG_HEADING
        for d in devices:
            for n, profile in enumerate(d.mig):
                memory = profile.memory_bytes >> 20
                held = f"{min(d.used_mib, memory)}MiB / {memory:>5}MiB"
                lines += [
                    f"|{d.number:>3} {n + 7:>4} {0:>3} {n:>3}  |{held:>29}     |{profile.sms:>3}      0 |"
                    f"{profile.compute_slices:>3}   0    0    0    0 |",
                    f"|                  |{'0MiB / 16383MiB':>29}     |           |                       |",
                    _MIG_BELOW,
                ]
    return "\n".join([*lines, *_PROCESSES]) + "\n"


def monitor(devices: Sequence[Device], rounds: int) -> str:
    lines = [
        "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk ",
        "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz ",
    ]
    for _ in range(min(rounds, 100)):
        for d in devices:
            sm, memory = ("-", "-") if d.mig else (str(d.utilization), str(d.utilization // 2))
            clocks = (2619, 1980) if d.utilization else (2619, 345)
            cells = (d.number, d.drawn_w, d.celsius, "-", sm, memory, 0, 0, 0, 0, *clocks)
            lines.append(
                "".join(f"{cell:>5}" if i == 0 else f"{cell:>7}" for i, cell in enumerate(cells)) + " "
            )
    return "\n".join(lines) + "\n"


# GB/s of one NVLink in both directions, by architecture: how many links a pair of GPUs behind a switch has.
_LINK_GB_PER_S: Final = {"Volta": 50, "Ampere": 50, "Hopper": 50, "Blackwell": 100}
_LEGEND: Final = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def topology(devices: Sequence[Device]) -> str:
    """`topo -m`. GPUs with NVLink are behind switches; the others share a bridge of their socket, four to each."""
    heads = [f"GPU{d.number}" for d in devices]
    lines = ["\t" + "\t".join([*heads, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for d in devices:
        cells = [" X " if d is other else _link(d, other) for other in devices]
        node = d.slot // 4
        lines.append(
            "\t".join([f"GPU{d.number}", *cells, f"{node * 48}-{node * 48 + 47}", str(node), "\tN/A"])
        )
    return "\n".join(lines) + "\n" + _LEGEND


def _link(one: Device, other: Device) -> str:
    model = one.model
    if model is not None and model.nvlink_gb_per_s and model.architecture in _LINK_GB_PER_S:
        return f"NV{model.nvlink_gb_per_s // _LINK_GB_PER_S[model.architecture]}"
    return "PHB" if one.slot // 4 == other.slot // 4 else "SYS"


def profiles(devices: Sequence[Device]) -> str:
    """`mig -lgip`. The instances the container has are taken."""
    rule = "+-----------------------------------------------------------------------------+"
    lines = [
        rule,
        "| GPU instance profiles:                                                      |",
        "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |",
        "|                              Free/Total   GiB              CE    JPEG  OFA  |",
        "|=============================================================================|",
    ]
    for d in devices:
        for profile in d.model.mig if d.model is not None else ():
            taken = sum(p.name == profile.name for p in d.mig)
            total = profile.instances_most
            gib = f"{profile.memory_bytes / 2**30:.2f}"
            instances = f"{max(total - taken, 0)}/{total}"
            lines += [
                f"|{d.number:>4}  MIG {profile.name:<13}{profile.id:>3}{instances:>8}{gib:>12}{'No':>9}"
                f"{profile.sms:>7}{0:>6}{0:>6}   |",
                f"|{'':>58}{profile.compute_slices:>4}{0:>6}{0:>6}   |",
                rule,
            ]
    return "\n".join(lines) + "\n"
