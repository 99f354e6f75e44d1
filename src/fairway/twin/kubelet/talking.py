"""A step of training is computing and talking; how long the talking takes is the placement's doing.

`fairway.dev/step-time: 800ms` is a step's computing, `fairway.dev/step-traffic: all_reduce=14Gi,alltoall@8=2Gi`
what its ranks tell each other meanwhile (`@8`: in groups of eight). With both, `fairway.dev/run-time` is the
time of computing alone, and the run takes longer as `devices.collectives` says of the nodes that its members
are on. Nothing overlaps. Nodes of one NVLink domain whose members have channels of one ComputeDomain are as one node.
Nodes under several leaf switches share what the fabric carries above those: label `fairway.dev/oversubscription: "4"`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from fairway.kube import computedomains
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, labels_of
from fairway.kube.resourceclaims import CLAIM, pod_claims
from fairway.twin.kubelet import slowing
from fairway.twin.kubelet.states import PodState

if TYPE_CHECKING:
    from fairway.devices.collectives import Place
    from fairway.twin.kubelet.component import Kubelet

_GPU: Final = "nvidia.com/gpu"
LEAVES: Final = ("network.topology.nvidia.com/leaf", "topology.k8s.aws/network-node-layer-3")
"""Labels of nodes that name their leaf switch."""
OVERSUBSCRIPTION: Final = "fairway.dev/oversubscription"
_MOST_OVERSUBSCRIBED: Final = 100
# A job that only talks is told apart from one that never ends.
_MOST_MILLI: Final = 1_000_000


def pace(k: Kubelet, members: list[PodState]) -> None:
    """All members run: from here on their runs take as long as this placement has it."""
    place = _place(k, members)
    if place is None:
        return
    for pod in members:
        behaviour = pod.plan.behaviours[pod.plan.init_count]
        if not behaviour.step_us or not behaviour.step_traffic:
            continue
        talked_us = sum(_talk_us(place, kind, ranks, size) for kind, ranks, size in behaviour.step_traffic)
        wanted = min(1000 + round(1000 * talked_us / behaviour.step_us), _MOST_MILLI)
        if wanted != pod.wire_milli and slowing.stretch(k, pod, wanted * 1000 // pod.wire_milli):
            pod.wire_milli = wanted


def step_us(k: Kubelet, members: list[PodState]) -> float | None:
    """A step of members where they are now, the slowest of them: computing, then talking; None: nobody says."""
    place, found = _place(k, members), None
    for pod in members:
        behaviour = pod.plan.behaviours[pod.plan.init_count]
        if not behaviour.step_us:
            continue
        talked_us = 0.0
        if place is not None:
            talked_us = sum(
                _talk_us(place, kind, ranks, size) for kind, ranks, size in behaviour.step_traffic
            )
        found = max(found or 0.0, behaviour.step_us + talked_us)
    return found


def _share_memory(k: Kubelet, members: list[PodState], nodes: Counter[str]) -> bool:
    """Whether all nodes are within one NVLink domain, and every member has a channel of one ComputeDomain."""
    of_nodes = [k.store.get(Key("Node", "", name)) for name in nodes]
    cliques = {"" if node is None else computedomains.clique_of(node) for node in of_nodes}
    if len(cliques) != 1 or cliques == {""}:
        return False
    domains: set[str] = set()
    for pod in members:
        if pod.node in nodes:
            domains.add(_domain_of(k, pod))
    return len(domains) == 1 and domains != {""}


def _domain_of(k: Kubelet, pod: PodState) -> str:
    obj = k.store.get(pod.key)
    for entry in pod_claims(obj or {}):
        claim = k.store.get(Key(CLAIM, pod.key.namespace, entry.claim)) if entry.claim else None
        joining = None if claim is None else computedomains.joining(claim)
        if joining is not None:
            return joining.domain
    return ""


def _talk_us(place: Place, kind: str, ranks: int, size: int) -> float:
    from dataclasses import replace

    from fairway.devices.collectives import time_of

    if ranks and ranks < place.ranks:
        per_node = min(ranks, place.per_node)
        place = replace(place, nodes=-(-ranks // per_node), per_node=per_node)
    return time_of(place, kind, size).seconds * 1_000_000


def _place(k: Kubelet, members: list[PodState]) -> Place | None:
    """The nodes of the members; where they are not alike, the one with the least network stands for all."""
    from fairway.catalog.boards import board_of
    from fairway.catalog.nodegpus import gpus_of_node
    from fairway.devices.collectives import Place, shows_cards

    counts: Counter[str] = Counter()
    has_rdma, found = True, []
    for pod in members:
        asked = dict(pod.plan.requests)
        if not asked.get(_GPU):
            continue
        counts[pod.node] += asked[_GPU]
        has_rdma = has_rdma and shows_cards(k.nodes[pod.node].allocatable or (), asked)
    for name in counts:
        node = k.store.get(Key("Node", "", name))
        board = None if node is None else board_of(node)
        model = None if node is None else gpus_of_node(node).model
        if board is None or model is None:
            return None
        found.append((board.nics.count * board.nics.gbit_per_s, name, board, model))
    if not found:
        return None
    _, _, board, model = min(found, key=lambda one: one[:2])
    if len(counts) > 1 and board.is_switched and _share_memory(k, members, counts):
        # Every GPU reaches every other over NVLink: to NCCL they are as of one node.
        return Place(board, model, 1, counts.total(), has_rdma)
    above = _oversubscribed([k.store.get(Key("Node", "", name)) or {} for name in counts])
    return Place(board, model, len(counts), max(counts.values()), has_rdma, above)


def _oversubscribed(nodes: list[Obj]) -> float:
    """How many times more these nodes can send than the fabric carries between them: 1 under one leaf switch, and where
    no label says so; of several, the most."""
    label = next((one for one in LEAVES if any(labels_of(node).get(one) for node in nodes)), None)
    if label is None or len({labels_of(node).get(label) for node in nodes}) < 2:
        return 1.0
    told = (labels_of(node).get(OVERSUBSCRIPTION, "") for node in nodes)
    return float(max((min(natural(text) or 1, _MOST_OVERSUBSCRIBED) for text in told), default=1) or 1)
