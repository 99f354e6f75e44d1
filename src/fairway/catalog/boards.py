"""How do a server's CPUs, GPUs and network cards hang together? Boards of real servers.

`fairway.dev/board: dgx-a100` on a node names one; else its instance type tells; else a machine of two sockets is
taken, four GPUs at each, as nearly all are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
import yaml

from fairway.catalog.gpus import GpuModel
from fairway.catalog.nodegpus import gpus_of_node
from fairway.kube.objects import Obj, annotations_of, labels_of

BOARD: Final = "fairway.dev/board"
_TYPE: Final = "node.kubernetes.io/instance-type"
ALL: Final = "all"
PLAIN: Final = "plain"
# GB/s of one NVLink, both directions, by architecture. Source: NVIDIA's NVLink pages.
LINK_GB_PER_S: Final = {"Volta": 50, "Ampere": 50, "Hopper": 50, "Blackwell": 100}


class Nics(msgspec.Struct, frozen=True, array_like=True):
    count: int
    gbit_per_s: int
    kind: str


@dataclass(frozen=True, slots=True)
class Board:
    """`numa`: NUMA node of each GPU. `switches`: GPUs that share a PCIe switch. `links`: NVLinks between two GPUs;
    empty where there are none, and where a switch connects all (`is_switched`)."""

    name: str
    sockets: int
    numa_per_socket: int
    cores_per_numa: int
    threads: int
    caches: int
    numa: tuple[int, ...]
    switches: int
    is_switched: bool
    links: Mapping[tuple[int, int], int]
    nics: Nics
    distances: tuple[int, int] = (10, 21)
    models: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        return len(self.numa)

    @property
    def numa_nodes(self) -> int:
        return self.sockets * self.numa_per_socket

    @property
    def cpus(self) -> int:
        return self.numa_nodes * self.cores_per_numa * self.threads

    def nvlinks(self, a: int, b: int, model: GpuModel | None) -> int:
        """Links between two GPUs."""
        if not self.is_switched or model is None:
            return self.links.get((min(a, b), max(a, b)), 0)
        return model.nvlink_gb_per_s // LINK_GB_PER_S.get(model.architecture, 50)

    def pcie(self, a: int, b: int) -> str:
        """How two GPUs reach each other over PCIe, in the words of `nvidia-smi topo`: PIX, PHB, NODE or SYS."""
        if self.switches > 1 and a // self.switches == b // self.switches:
            return "PIX"
        if self.numa[a] == self.numa[b]:
            return "PHB" if self.name == PLAIN else "NODE"
        return "SYS"

    def distance(self, a: int, b: int) -> int:
        """Between two NUMA nodes, as ACPI's SLIT has it."""
        if a == b:
            return 10
        return self.distances[a // self.numa_per_socket != b // self.numa_per_socket]


@cache
def boards() -> Mapping[str, Board]:
    text = files("fairway.catalog").joinpath("data/boards.yaml").read_text("utf-8")
    found = (_board(row) for row in yaml.safe_load(text)["spec"]["boards"])
    return {board.name: board for board in found}


def _board(row: Mapping[str, Any]) -> Board:
    nvlink = row["nvlink"]
    pairs = nvlink if isinstance(nvlink, dict) else {}
    links = {(int(a), int(b)): n for pair, n in pairs.items() for a, b in [pair.split("-")]}
    sockets, numa_per_socket, cores, threads, caches = row["cpu"]
    return Board(
        row["name"],
        sockets,
        numa_per_socket,
        cores,
        threads,
        caches,
        numa=tuple(row["numa"]),
        switches=row["switches"],
        is_switched=nvlink == ALL,
        links=links,
        nics=Nics(*row["nics"]),
        distances=tuple(row["numaDistance"]),
        models=tuple(row["models"]),
        types=tuple(row.get("instanceTypes") or ()),
    )


@cache
def _by_type() -> Mapping[str, Board]:
    return {name: board for board in boards().values() for name in board.types}


def board_of(node: Obj) -> Board | None:
    """That of a node; None where it names one that nobody knows."""
    said, kind = annotations_of(node).get(BOARD, ""), labels_of(node).get(_TYPE, "").removeprefix("Standard_")
    if said:
        return boards().get(said)
    found = _by_type().get(kind)
    gpus = gpus_of_node(node)
    if found is not None and gpus.count in (0, found.gpus):
        return found
    return plain_board(gpus.count, gpus.model)


@cache
def plain_board(gpus: int, model: GpuModel | None) -> Board:
    """Two sockets with a NUMA node each: four GPUs at the first, the others at the second; half at either of more than
    eight. One socket for one GPU or none."""
    sockets = 2 if gpus > 1 else 1
    first = max(4, -(-gpus // 2))
    numa = tuple(min(slot // first, sockets - 1) for slot in range(gpus))
    is_switched = model is not None and model.nvlink_gb_per_s > 0
    return Board(PLAIN, sockets, 1, 0, 2, 1, numa, 0, is_switched, {}, Nics(1, 100, "Ethernet"))
