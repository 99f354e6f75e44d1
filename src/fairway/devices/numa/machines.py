"""What does a node's kubelet manage? Its board, its resources and its KubeletConfiguration, as one machine.

`fairway.dev/kubelet-configuration` on a node is a KubeletConfiguration as JSON: scenarios write it for `kubelet:` of a
fleet, a NodePool in its template's annotations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fairway.catalog.boards import Board, board_of
from fairway.catalog.nodegpus import NodeGpus, gpus_of_node
from fairway.devices.assigning import devices_of
from fairway.devices.numa.admitting import Book, Machine
from fairway.devices.numa.cpupicking import PickError
from fairway.devices.numa.cpus import CpuPolicy, reserved_cpus
from fairway.devices.numa.cputopology import CpuTopology, cpus_text, regular_topology
from fairway.devices.numa.devices import DeviceSort, best_effort
from fairway.devices.numa.hints import NONE, NumaNodes
from fairway.devices.numa.memory import fresh_memory
from fairway.devices.numa.options import KubeletOptions, OptionError, read_options
from fairway.kube.objects import Obj, annotations_of, labels_of, status_of
from fairway.kube.quantity import milli_ceil, whole_ceil

KUBELET: Final = "fairway.dev/kubelet-configuration"
API_VERSION, KIND = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
# A file of a kubelet has a hundred lines.
_BYTES_MOST: Final = 64 * 1024
# go-gpuallocator's scores of what connects two GPUs: over CPUs, one CPU, one switch; each NVLink.
_NEAR: Final = {"SYS": 10, "NODE": 20, "PHB": 30, "PIX": 50}
_NVLINK: Final = 100
SHARE: Final = "::"
"""Between a device and the number of a share of it, as NVIDIA's plugin names them."""


def options_of(node: Obj) -> KubeletOptions | None:
    """What its kubelet is told; None: nothing. Raises: OptionError."""
    text = annotations_of(node).get(KUBELET)
    if text is None:
        return None
    if len(text) > _BYTES_MOST:
        raise OptionError("", f"{len(text):,} bytes: expected at most {_BYTES_MOST:,}")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise OptionError("", f"not JSON: {broken}") from broken
    return checked(said)


def checked(said: Any) -> KubeletOptions:
    """Of a KubeletConfiguration. Raises: OptionError."""
    if not isinstance(said, dict):
        raise OptionError("", "expected a KubeletConfiguration")
    if said.get("kind", KIND) != KIND or not str(said.get("apiVersion", API_VERSION)).startswith("kubelet."):
        raise OptionError("kind", f"expected a {KIND} of {API_VERSION}")
    try:
        return read_options(said)
    except (AttributeError, TypeError, ValueError) as wrong:
        if isinstance(wrong, OptionError):
            raise
        raise OptionError("", f"misshapen: {wrong}") from wrong


def machine_of(node: Obj, options: KubeletOptions) -> tuple[Machine, Book]:
    """The machine, with nothing given out. Raises: OptionError where board and node do not go together."""
    board, gpus = board_of(node), gpus_of_node(node)
    if board is None:
        raise OptionError("board", f"unknown board {annotations_of(node).get('fairway.dev/board')!r}")
    if gpus.count and board.gpus and gpus.count != board.gpus:
        raise OptionError("board", f"board {board.name} has {board.gpus} GPUs, the node says {gpus.count}")
    capacity = status_of(node).get("capacity") or {}
    ids = tuple(range(board.numa_nodes))
    if options.topology != NONE and len(ids) > options.max_nodes:
        raise OptionError(
            "topologyManagerPolicy", f"unsupported on machines with more than {options.max_nodes} NUMA Nodes"
        )
    distances = {a: [board.distance(a, b) for b in ids] for a in ids}
    cpus = _cpu_policy(board, milli_ceil(capacity.get("cpu") or 0) // 1000, options)
    memory = (
        fresh_memory(_sizes(capacity, len(ids)), options.reserved_memory) if options.static_memory else None
    )
    machine = Machine(
        NumaNodes(ids, distances),
        options.topology,
        options.scope,
        options.closest,
        cpus,
        memory is not None,
        device_sorts(node, board, gpus),
    )
    return machine, Book(None if cpus is None else cpus.start(), memory)


def _cpu_policy(board: Board, count: int, options: KubeletOptions) -> CpuPolicy | None:
    if not options.static_cpus:
        return None
    topology = topology_of(board, count)
    if options.reserved_cpus is not None:
        unknown = options.reserved_cpus - topology.cpus.keys()
        if unknown:
            raise OptionError(
                "reservedSystemCPUs",
                f"CPUs {cpus_text(unknown)} are none of the machine's {len(topology.cpus)}",
            )
        reserved = options.reserved_cpus
    else:
        try:
            reserved = reserved_cpus(topology, -(-options.reserved_milli // 1000))
        except PickError as short:
            raise OptionError("systemReserved", str(short)) from short
    return CpuPolicy(topology, reserved, options.cpu_options)


def topology_of(board: Board, count: int) -> CpuTopology:
    """The board's CPUs; where the node says another number, so many evenly over its NUMA nodes.

    Raises: OptionError where they do not divide evenly.
    """
    if count == board.cpus:
        return regular_topology(
            board.sockets, board.numa_per_socket, board.cores_per_numa, board.threads, board.caches
        )
    numa = board.numa_nodes
    threads = board.threads if count % (numa * board.threads) == 0 else 1
    if not count or count % (numa * threads):
        raise OptionError(
            "board", f"{count} CPUs do not divide evenly over the {numa} NUMA nodes of board {board.name}"
        )
    return regular_topology(board.sockets, board.numa_per_socket, count // numa // threads, threads)


def _sizes(capacity: Mapping[str, Any], nodes: int) -> dict[int, dict[str, int]]:
    """Memory and huge pages, a part at each NUMA node. Pages come whole."""
    found: dict[int, dict[str, int]] = {}
    for name, value in capacity.items():
        if name != "memory" and not name.startswith("hugepages-"):
            continue
        page = 1 if name == "memory" else whole_ceil(name.removeprefix("hugepages-"))
        pages = whole_ceil(value) // page
        for node in range(nodes):
            size = (pages // nodes + (node < pages % nodes)) * page
            found.setdefault(node, {})[name] = size
    return found


def device_sorts(node: Obj, board: Board, gpus: NodeGpus) -> dict[str, DeviceSort]:
    """The devices of NVIDIA's plugin, by resource: cards or instances, or shares of them one after another."""
    capacity = status_of(node).get("capacity") or {}
    strategy = labels_of(node).get("nvidia.com/mig.strategy", "")
    found = {}
    for resource in sorted(name for name in capacity if name.startswith("nvidia.com/")):
        devices = devices_of(gpus, resource, strategy)
        if not devices:
            continue
        replicas = max(whole_ceil(capacity[resource]) // len(devices), 1)
        numa = {
            device if replicas == 1 else f"{device}{SHARE}{share}": (board.numa[_card(device)],)
            for share in range(replicas)
            for device in devices
            if _card(device) < board.gpus
        }
        is_whole = replicas == 1 and all(layout is None for layout in gpus.layouts)
        prefer = best_effort(_scores(board, gpus), tuple(numa)) if is_whole else None
        unhealthy = frozenset(d for d in numa if _card(d) in gpus.unhealthy)
        found[resource] = DeviceSort(numa, unhealthy, prefer)
    return found


def _card(device: str) -> int:
    return int(device.partition(SHARE)[0].partition("/")[0])


def _scores(board: Board, gpus: NodeGpus) -> tuple[tuple[int, ...], ...]:
    count = range(gpus.count)
    return tuple(
        tuple(
            0 if a == b else _NEAR[board.pcie(a, b)] + _NVLINK * board.nvlinks(a, b, gpus.model)
            for b in count
        )
        for a in count
    )
