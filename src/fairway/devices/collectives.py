"""How long does a collective operation of NCCL take on these GPUs, and by which algorithm?

GPUs of a node reach each other over NVLink (through a switch, or from link to link) or PCIe, nodes over their network
cards. For every algorithm there is a bandwidth and a number of steps; the fastest is taken, as NCCL's tuner does.

| algorithm | an all-reduce's bus bandwidth at most |
|---|---|
| ring | the slowest of NVLink (or PCIe) per GPU and all network cards of a node together |
| tree, two nodes and more | less crosses the network: up to twice (n-1)/n of the cards, no more than a ring inside |
| NVLS, one node with a switch that adds up | each GPU sends once and receives once: 2 (n-1)/n of NVLink by 1 + 1/n |

Constants are NCCL's own where it has them: GB/s of one NVLink by generation, the efficiency of NVLS, latencies. Two are
estimates, fitted to published runs (`PUBLISHED`): what NCCL gets of a network card (94 %) and of PCIe (83 %).

Source: NCCL 2.27 src/graph/{topo.h,tuning.cc}; nccl-tests doc/PERFORMANCE.md (bus bandwidth).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, log2
from typing import Final, NamedTuple

from fairway.catalog.boards import LINK_GB_PER_S, Board
from fairway.catalog.gpus import GpuModel

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
BROADCAST, REDUCE, ALL_TO_ALL, SEND_RECV = "broadcast", "reduce", "alltoall", "sendrecv"
KINDS: Final = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, SEND_RECV)
RING, TREE, NVLS = "Ring", "Tree", "NVLS"
GB: Final = 1e9
# GB/s that NCCL counts on of one NVLink, one way. Source: topo.h SM70_NVLINK_BW and after.
_LINK_BUS: Final = {"Volta": 20.0, "Ampere": 20.0, "Hopper": 20.6, "Blackwell": 40.1}
_NVLS_EFFICIENCY: Final = {"Hopper": 0.85, "Blackwell": 0.74}
# GB/s of sixteen PCIe lanes, one way, by generation. Source: topo.h PCI_BW for the third, doubled by each after.
_PCIE: Final = {"3": 12.0, "4": 24.0, "5": 48.0}
_PCIE_EFFICIENCY: Final = 0.83
_NIC_EFFICIENCY: Final = 0.94
# Of one card over TCP sockets, without RDMA: what two threads of NCCL copy. An estimate. Plugins of clouds for their
# Ethernet (GPUDirect-TCPX) are not modelled.
_SOCKET_GB_PER_S: Final = 2.5


class _Protocol(NamedTuple):
    """µs once, of a step inside a node and of one between nodes, and the share of the bandwidth. Source: tuning.cc."""

    base_us: float
    inside_us: float
    between_us: float
    share: float


_PROTOCOLS: Final = {
    "LL": _Protocol(6.6, 0.6, 2.7, 0.25),
    "LL128": _Protocol(14.0, 1.9, 4.0, 0.92),
    "Simple": _Protocol(8.4, 3.4, 14.0, 1.0),
}
RDMA: Final = ("rdma/", "vpc.amazonaws.com/efa", "openshift.io/")
"""Resources by which device plugins hand out network cards."""
_PCIE_STEP: Final = 1.7
"""How much longer a step over PCIe takes than one over NVLink."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a communicator runs: so many GPUs of each of these nodes, all alike. `has_rdma` false: the network cards
    are not used (no plugin, no device, NCCL_IB_DISABLE=1) and TCP carries it. `oversubscribed`: how many times more the
    nodes can send than the fabric carries between them."""

    board: Board
    model: GpuModel
    nodes: int
    per_node: int
    has_rdma: bool = True
    oversubscribed: float = 1.0

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node

    @property
    def inside(self) -> float:
        """GB/s of each GPU to the next of its node, one way."""
        if self.per_node < 2:
            return float("inf")
        per_link = _LINK_BUS.get(self.model.architecture, 20.0)
        if self.board.is_switched and self.model.nvlink_gb_per_s:
            return per_link * (self.model.nvlink_gb_per_s // LINK_GB_PER_S.get(self.model.architecture, 50))
        links = self._ring_links()
        return per_link * links if links else _PCIE.get(self.model.pcie[:1], 12.0) * _PCIE_EFFICIENCY

    def _ring_links(self) -> int:
        """NVLinks that rings over all of these GPUs can have: half of what each has to others; 0 where one has none."""
        gpus = range(min(self.per_node, self.board.gpus))
        if self.per_node == 2:
            return self.board.nvlinks(0, 1, self.model)
        each = [[self.board.nvlinks(a, b, self.model) for b in gpus] for a in gpus]
        if any(sum(1 for n in row if n) < 2 for row in each):
            return 0
        return min(sum(row) for row in each) // 2

    @property
    def uses_nvlink(self) -> bool:
        return self.per_node > 1 and (self.board.is_switched or self._ring_links() > 0)

    @property
    def between(self) -> float:
        """GB/s of a node to another, one way; of the cards that its GPUs are near."""
        if self.nodes < 2:
            return float("inf")
        nics = self.board.nics
        used = max(nics.count * min(self.per_node / max(self.board.gpus, 1), 1.0), 1.0)
        each = nics.gbit_per_s / 8 * _NIC_EFFICIENCY
        if not self.has_rdma:
            used, each = 1.0, min(each, _SOCKET_GB_PER_S)
        elif nics.kind == "Ethernet":
            each = min(each, _SOCKET_GB_PER_S)
        return used * each / self.oversubscribed


class Answer(NamedTuple):
    """Seconds of one operation, and how."""

    seconds: float
    algorithm: str
    protocol: str


def factor(kind: str, ranks: int) -> float:
    """Bus bandwidth by algorithm bandwidth: what part of the data crosses each wire."""
    if kind == ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL) else 1.0


def algorithms(place: Place, kind: str) -> dict[str, float]:
    """Bus bandwidth in GB/s that each can have."""
    if kind == ALL_TO_ALL and place.nodes > 1:
        others = (place.nodes - 1) / place.nodes
        sent = place.between / place.per_node / others * factor(kind, place.ranks)
        return {RING: min(place.inside, sent)}
    found = {RING: min(place.inside, place.between)}
    if kind != ALL_REDUCE:
        return found
    if place.nodes > 1:
        # Two nodes send each byte once each way, more of them twice: the root's children are two.
        crossing = factor(kind, place.ranks) / (1 if place.nodes == 2 else 2)
        found[TREE] = min(place.inside, place.between * crossing)
    share = _NVLS_EFFICIENCY.get(place.model.architecture)
    if place.nodes == 1 and place.per_node > 2 and place.board.is_switched and share and place.uses_nvlink:
        found[NVLS] = place.inside * share / (1 + 1 / place.ranks) * factor(kind, place.ranks)
    return found


def time_of(place: Place, kind: str, size_bytes: int, *, only: str = "") -> Answer:
    """The fastest way. `only`: NCCL_ALGO. One rank alone has nothing to send."""
    if place.ranks < 2:
        return Answer(0.0, RING, "Simple")
    busy = factor(kind, place.ranks) * size_bytes / GB
    known = algorithms(place, kind)
    chosen = {only: known[only]} if only in known else known
    ways = [
        Answer(busy / (bandwidth * protocol.share) + _latency_s(place, kind, name, protocol), name, word)
        for name, bandwidth in chosen.items()
        for word, protocol in _PROTOCOLS.items()
        if name != NVLS or word == "Simple"
    ]
    return min(ways, key=lambda way: way.seconds)


def _latency_s(place: Place, kind: str, algorithm: str, protocol: _Protocol) -> float:
    inside_us = protocol.inside_us * (1 if place.uses_nvlink else _PCIE_STEP)
    rounds = 2 if kind == ALL_REDUCE else 1
    if algorithm == RING:
        between = rounds * place.nodes if place.nodes > 1 else 0
        inside = rounds * (place.ranks - 1) - between
    else:
        between = rounds * ceil(log2(place.nodes)) if place.nodes > 1 else 0
        inside = rounds * max(place.per_node - 1, 1) if algorithm == TREE else rounds
    return (protocol.base_us + max(inside, 0) * inside_us + between * protocol.between_us) / 1e6


def shows_cards(offered: Iterable[str], asked: Iterable[str]) -> bool:
    """Whether a pod may use its node's network cards: where the node hands them out as a resource, only who asks."""
    cards = {name for name in offered if name.startswith(RDMA)}
    return not cards or bool(cards & set(asked))


class Published(NamedTuple):
    """A run that somebody told of: all-reduce of large messages, GB/s of bus bandwidth."""

    what: str
    board: str
    model: str
    nodes: int
    per_node: int
    algorithm: str
    bus: float
    source: str


PUBLISHED: Final = (
    Published("8 x A100 SXM4", "hgx-a100-8", "A100-SXM4-80GB", 1, 8, "", 232.5, "nccl-tests issue 175"),
    Published("8 x H100 SXM5, NVLS", "dgx-h100", "H100-SXM5-80GB", 1, 8, "", 476.0, "nccl-tests issue 290"),
    Published("8 x H100 SXM5, ring", "dgx-h100", "H100-SXM5-80GB", 1, 8, RING, 370.0, "nccl-tests issue 212"),
    # 46 to 48 GB/s a card are what NVIDIA expects of eight NDR cards.
    Published(
        "16 x H100, 8 x 400 Gb/s", "dgx-h100", "H100-SXM5-80GB", 2, 8, RING, 376.0, "nccl-tests issue 290"
    ),
    Published(
        "24 x A100, 4 x 200 Gb/s", "hgx-a100-8/4", "A100-SXM4-40GB", 3, 8, "", 96.0, "nccl-tests issue 119"
    ),
    Published("A100 PCIe, PCIe only", "pcie-8", "A100-PCIE-80GB", 1, 3, "", 20.0, "nccl-tests issue 178"),
    Published(
        "2 x A100 PCIe, bridged", "nc-a100-v4", "A100-PCIE-80GB", 1, 2, "", 208.0, "nccl-tests issue 178"
    ),
)
