"""The tables of `nvidia-smi` 580, drawn: the overview, `dmon`, `pmon`, `topo -m`, `nvlink -s`, `mig -lgip`, `-lgipp`,
`-lgi`, `-lci`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from fairway.apiserver.kubelets.nvidiasmireport import instance_bar1_mib
from fairway.catalog.boards import Board
from fairway.catalog.gpus import MigProfile
from fairway.catalog.placements import Instance, placed
from fairway.kube.integers import natural
from fairway.kube.timestamps import SECOND_US

if TYPE_CHECKING:
    from fairway.apiserver.kubelets.nvidiasmi import Device

_RULE: Final = "+-----------------------------------------------------------------------------------------+"
_COLUMNS: Final = (
    "+-----------------------------------------+------------------------+----------------------+"
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
    "| GPU  GI  CI  MIG |{:>33} |        Vol|        Shared         |",
    "|      ID  ID  Dev |{:>33} | SM     Unc| CE ENC  DEC  OFA  JPG |",
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
)
_NO_PROCESS: Final = (
    "|  No running processes found                                                             |"
)
# Longer names of cards are cut. Source: what drivers 580 and 595 print.
_NAME_MOST: Final = 27
# Since which driver branch the memory of MIG devices is called shared.
_SHARED_SINCE: Final = 590
_PROCESS_NAME_MOST: Final = 38


def overview(devices: Sequence[Device], now_us: int) -> str:
    driver, cuda = devices[0].driver, devices[0].cuda
    versions = f"NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8}"
    now = datetime.fromtimestamp(now_us // SECOND_US, UTC).strftime("%a %b %e %H:%M:%S %Y")
    lines = [f"{now}       ", _RULE, f"| {versions} |", _COLUMNS, *_HEADING]
    for d in devices:
        name = d.name if len(d.name) <= _NAME_MOST else f"{d.name[: _NAME_MOST - 3]}..."
        mode = "N/A" if d.mig_mode == "[N/A]" else d.mig_mode
        drawn, held = f"{d.drawn_w}W / {d.power_w:>4}W", f"{d.used_mib}MiB / {d.memory_mib:>6}MiB"
        memory = f"{'N/A':>21}   |" if d.is_memory_hidden else f"{held:>23} |"
        busy, errors = ("N/A", "On") if d.is_cut else (f"{d.utilization}%", "0")
        lines += [
            f"|{d.number:>4}  {name:<31}On  |   {d.bus} Off |{errors:>21} |",
            f"| N/A   {d.celsius}C    P0{drawn:>24} |{memory}{busy:>8}      Default |",
            f"|                                         |                        |{mode:>21} |",
            _BELOW,
        ]
    if any(d.mig for d in devices):
        lines += _mig_devices(devices)
    return "\n".join([*lines, *_process_table(devices)]) + "\n"


def _mig_devices(devices: Sequence[Device]) -> list[str]:
    branch = natural(devices[0].driver.partition(".")[0])
    shared = "Shared " if branch is not None and branch >= _SHARED_SINCE else ""
    lines = [line.format(f"{shared}Memory-Usage") for line in _MIG_HEADING[:5]]
    lines += [line.format(f"{shared}BAR1-Usage") for line in _MIG_HEADING[5:]]
    for d in devices:
        for n, at in enumerate(d.mig):
            profile = at.profile
            copy, decoders, jpeg, flow = profile.engines
            held = f"{d.used_of(at)}MiB / {profile.memory_bytes >> 20:>5}MiB"
            bar1 = f"0MiB / {instance_bar1_mib(d, profile.memory_slices):>5}MiB"
            lines += [
                f"|{d.number:>3} {d.id_of(at):>4} {0:>3} {n:>3}  |{held:>30}    |{profile.sms:>3}      0 |"
                f"{copy:>3}   0 {decoders:>4} {flow:>4} {jpeg:>4} |",
                f"|                  |{bar1:>32}  |           |                       |",
                _MIG_BELOW,
            ]
    return lines


def _process_table(devices: Sequence[Device]) -> list[str]:
    rows = []
    for d in devices:
        for use in d.listed:
            place = "   N/A  N/A" if use.instance is None else f"{use.instance:>5}{0:>5}"
            name = (
                use.name
                if len(use.name) <= _PROCESS_NAME_MOST
                else f"...{use.name[3 - _PROCESS_NAME_MOST :]}"
            )
            memory = f"{use.memory_mib}MiB"
            whose = f"|{d.number:>5}{place}{use.pid:>{27 - len(place)}}"
            rows.append(f"{whose}      C   {name:<38}{memory:>8} |")
    return [*_PROCESSES, *(rows or [_NO_PROCESS]), _RULE]


def processes(devices: Sequence[Device], rounds: int) -> str:
    """`pmon`: who uses the cards, round by round."""
    lines = [
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command ",
        "# Idx           #    C/G      %      %      %      %      %      %    name ",
    ]
    for _ in range(min(rounds, 100)):
        for d in devices:
            rows = [(str(u.pid), "C", str(d.utilization), str(d.utilization // 2), u.name) for u in d.listed]
            for pid, kind, sm, memory, name in rows or [("-", "-", "-", "-", "-")]:
                rest = "".join(f"{'-':>7}" for _ in range(4))
                command = name.rpartition("/")[2][:15] or name[:15]
                lines.append(f"{d.number:>5}{pid:>11}{kind:>6}{sm:>7}{memory:>7}{rest}    {command:<15}")
    return "\n".join(lines) + "\n"


def monitor(devices: Sequence[Device], rounds: int) -> str:
    lines = [
        "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk ",
        "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz ",
    ]
    for _ in range(min(rounds, 100)):
        for d in devices:
            sm, memory = ("-", "-") if d.mig else (str(d.utilization), str(d.utilization // 2))
            clocks = (d.board.memory_mhz, d.board.sm_mhz if d.utilization else d.board.rest_mhz)
            cells = (d.number, d.drawn_w, d.celsius, "-", sm, memory, 0, 0, 0, 0, *clocks)
            lines.append(
                "".join(f"{cell:>5}" if i == 0 else f"{cell:>7}" for i, cell in enumerate(cells)) + " "
            )
    return "\n".join(lines) + "\n"


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


def topology(devices: Sequence[Device], board: Board) -> str:
    """`topo -m`: NVLinks where there are any, else how far it is over PCIe; CPUs and NUMA node that each is near. The
    board has places for all of the devices."""
    heads = [f"GPU{d.number}" for d in devices]
    lines = ["\t" + "\t".join([*heads, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    cpus = _cpus_near(board)
    for d in devices:
        cells = [" X " if d is other else _link(d, other, board) for other in devices]
        node = board.numa[d.slot]
        lines.append("\t".join([f"GPU{d.number}", *cells, cpus[node], str(node), "\tN/A"]))
    return "\n".join(lines) + "\n" + _LEGEND


# One NVLink by architecture: GB/s both ways by the datasheet, and GB/s one way as `nvlink -s` prints it.
_LINK: Final = {"Volta": (50, "25.781"), "Hopper": (50, "26.562"), "Blackwell": (100, "53.125")}


def links(devices: Sequence[Device]) -> str:
    """`nvlink -s`: every link of a card, to whichever cards or switches they go."""
    lines = []
    for d in devices:
        lines.append(f"GPU {d.number}: {d.name} (UUID: {d.uuid})")
        both_ways, speed = _LINK.get(d.model.architecture if d.model is not None else "", (50, "25"))
        count = d.model.nvlink_gb_per_s // both_ways if d.model is not None else 0
        lines += [f"\t Link {n}: {speed} GB/s" for n in range(count)]
    return "\n".join(lines) + "\n"


def _cpus_near(board: Board) -> list[str]:
    """By NUMA node, as Linux numbers them: first threads of all cores, then second ones."""
    per_node, cores = board.cores_per_numa or 48, board.numa_nodes * (board.cores_per_numa or 48)
    threads = board.threads if board.cores_per_numa else 1
    return [
        ",".join(
            f"{t * cores + n * per_node}-{t * cores + n * per_node + per_node - 1}" for t in range(threads)
        )
        for n in range(board.numa_nodes)
    ]


def _link(one: Device, other: Device, board: Board) -> str:
    links = board.nvlinks(one.slot, other.slot, one.model)
    return f"NV{links}" if links else board.pcie(one.slot, other.slot)


def profiles(devices: Sequence[Device]) -> str:
    """`mig -lgip`: how many more instances of each profile the card has room for."""
    rule = "+-------------------------------------------------------------------------------+"
    lines = [
        rule,
        "| GPU instance profiles:                                                        |",
        "| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |",
        "|                                Free/Total   GiB              CE    JPEG  OFA  |",
        "|===============================================================================|",
    ]
    for d in devices:
        for profile in d.model.mig if d.model is not None else ():
            copy, decoders, jpeg, flow = profile.engines
            counts = f"{_room(d, profile)}/{profile.instances_most}"
            gib = f"{profile.memory_bytes / 2**30:.2f}"
            lines += [
                f"|{d.number:>4}  MIG {profile.name:<15}{profile.id:>3}{counts:>8}{gib:>12}{'No':>9}"
                f"{profile.sms:>7}{decoders:>6}{0:>6}   |",
                f"|{'':>58}{copy:>6}{jpeg:>6}{flow:>6}   |",
                rule,
            ]
    return "\n".join(lines) + "\n"


def _room(device: Device, profile: MigProfile) -> int:
    model, layout, count = device.model, (*device.mig, *device.others), 0
    while model is not None and (at := placed(model, layout, profile)) is not None:
        layout, count = (*layout, at), count + 1
    return count


def places(devices: Sequence[Device]) -> str:
    """`mig -lgipp`: where instances of each profile can be."""
    lines = []
    for d in devices:
        for p in d.model.mig if d.model is not None else ():
            word = "Placements:" if len(p.starts) > 1 else "Placement :"
            starts = ",".join(map(str, p.starts))
            lines.append(f"GPU {d.number:>2} Profile ID {p.id:>2} {word} {{{starts}}}:{p.memory_slices}")
    return "\n".join(lines) + "\n"


def _by_profile(devices: Sequence[Device]) -> Iterator[tuple[int, int, Instance]]:
    """Every instance with its GPU's number and its own, by profile and place."""
    for d in devices:
        for at in sorted(d.mig, key=lambda at: (-at.profile.id, at.start)):
            yield d.number, d.id_of(at), at


def instances(devices: Sequence[Device]) -> str:
    """`mig -lgi`: the instances there are, by profile and number."""
    rule = "+---------------------------------------------------------+"
    lines = [
        rule,
        "| GPU instances:                                          |",
        "| GPU   Name               Profile  Instance   Placement  |",
        "|                            ID       ID       Start:Size |",
        "|=========================================================|",
    ]
    for gpu, gi, at in _by_profile(devices):
        p, where = at.profile, f"{at.start}:{at.profile.memory_slices}"
        lines += [f"|{gpu:>4}  MIG {p.name:<15}{p.id:>5}{gi:>9}{where:>13}     |", rule]
    return "\n".join(lines) + "\n"


# The profile of a compute instance that is a whole GPU instance, by its slices. Source: nvml.h,
# NVML_COMPUTE_INSTANCE_PROFILE_*.
_COMPUTE_PROFILES: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}


def compute_instances(devices: Sequence[Device]) -> str:
    """`mig -lci`: the one compute instance of every GPU instance."""
    rule = "+--------------------------------------------------------------------+"
    lines = [
        rule,
        "| Compute instances:                                                 |",
        "| GPU     GPU       Name             Profile   Instance   Placement  |",
        "|       Instance                       ID        ID       Start:Size |",
        "|         ID                                                         |",
        "|====================================================================|",
    ]
    for gpu, gi, at in _by_profile(devices):
        slices = at.profile.compute_slices
        kind, where = _COMPUTE_PROFILES.get(slices, 0), f"0:{slices}"
        lines += [f"|{gpu:>4}{gi:>7}       MIG {at.profile.name:<15}{kind:>3}{0:>10}{where:>13}     |", rule]
    return "\n".join(lines) + "\n"
