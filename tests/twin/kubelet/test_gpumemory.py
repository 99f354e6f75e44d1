"""A container that wants more memory than its GPU has ends with an error."""

from __future__ import annotations

import pytest
from kubeletworld import World, container, node, pod

from fairway.apiserver.kubelets.containerlogs import SimulatedLog
from fairway.kube.objects import Obj
from fairway.twin.behaviour import Behaviour
from fairway.twin.kubelet.gpumemory import card_bytes, outgrown_us, taken_beside

CASES = {
    "more than the card": (
        "NVIDIA-L4",
        {"nvidia.com/gpu": "1"},
        "0s:10Gi,1m:24Gi",
        "Failed 0/1 main=end:Error:1",
    ),
    "what the card has": ("NVIDIA-L4", {"nvidia.com/gpu": "1"}, "22Gi", "Succeeded 0/1 main=end:Completed:0"),
    "more than the MIG instance": (
        "NVIDIA-A100-SXM4-40GB",
        {"nvidia.com/mig-1g.5gb": "1"},
        "8Gi",
        "Failed 0/1 main=end:Error:1",
    ),
    "a card nobody knows": ("", {"nvidia.com/gpu": "1"}, "900Gi", "Succeeded 0/1 main=end:Completed:0"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_runs_out(name: str) -> None:
    product, limits, says, want = CASES[name]
    labels = {"nvidia.com/gpu.product": product} if product else {}
    has = node(more={next(iter(limits)): "1"}, labels=labels)
    asks = pod("p", container(resources={"limits": limits}), says={"run-time": "5m", "gpu-memory": says})
    world = World(asks, nodes=[has]).at(400)
    assert world.seen() == want
    log = SimulatedLog(world.twin.store, world.need(), "main", previous=False)
    said = [text for _, text in log.read()]
    assert ("RuntimeError: CUDA error: out of memory" in said) == ("Failed" in want)


H100 = "NVIDIA-H100-80GB-HBM3"
MPS = {"nvidia.com/gpu.sharing-strategy": "mps"}
CARDS: list[tuple[dict[str, str], list[str], int | None]] = [
    ({}, ["nvidia.com/gpu"], None),
    ({"nvidia.com/gpu.product": "none such"}, ["nvidia.com/gpu"], None),
    ({"nvidia.com/gpu.memory": "1000"}, ["nvidia.com/gpu"], 1000 << 20),
    ({"nvidia.com/gpu.memory": "much"}, ["nvidia.com/gpu"], None),
    ({"nvidia.com/gpu.product": H100, "nvidia.com/gpu.memory": "1000"}, ["nvidia.com/gpu"], 1000 << 20),
    (
        {"nvidia.com/gpu.product": H100, "nvidia.com/gpu.memory": "1000"},
        ["cpu", "nvidia.com/mig-1g.10gb"],
        10 << 30,
    ),
    ({"nvidia.com/gpu.memory": "1000"}, ["nvidia.com/mig-1g.10gb"], 1000 << 20),
    (
        {"nvidia.com/gpu.product": H100, "nvidia.com/gpu.memory": "1000"},
        ["nvidia.com/mig-9g.1gb"],
        1000 << 20,
    ),
    ({"nvidia.com/gpu.memory": "1001", **MPS}, ["nvidia.com/gpu"], 1001 << 20),
    ({"nvidia.com/gpu.memory": "1001", **MPS, "nvidia.com/gpu.replicas": "2"}, [], (1001 << 20) // 2),
    ({"nvidia.com/gpu.memory": "1001", **MPS, "nvidia.com/gpu.replicas": "0"}, [], 1001 << 20),
    ({"nvidia.com/gpu.memory": "1001", "nvidia.com/gpu.replicas": "2"}, [], 1001 << 20),
    ({**MPS, "nvidia.com/gpu.replicas": "2"}, [], None),
]


@pytest.mark.parametrize(("labels", "resources", "want"), CARDS)
def test_how_much_a_card_or_a_part_of_it_has(
    labels: dict[str, str], resources: list[str], want: int | None
) -> None:
    found = card_bytes(labels, resources)
    if want is not None and resources[-1:] == ["nvidia.com/mig-1g.10gb"] and H100 in labels.values():
        assert found is not None and 9 << 30 <= found <= 10 << 30
    else:
        assert found == want


def test_when_it_wants_more_than_there_is() -> None:
    behaviour = Behaviour()
    behaviour.gpu_memory_bytes = ((0, 5), (7, 10), (9, 11), (12, 99))
    assert [outgrown_us(behaviour, card) for card in (None, 4, 5, 9, 10, 11, 98, 99)] == [
        None,
        0,
        7,
        7,
        9,
        12,
        12,
        None,
    ]


SLICED = {"nvidia.com/gpu.sharing-strategy": "time-slicing"}


def test_what_others_may_have_of_the_card_that_is_shared() -> None:
    def one(name: str, cards: str, *says: str, run: str = "sleep 900", **notes: str) -> Obj:
        said = {"gpu-index": cards, **notes} | ({"gpu-memory": says[0]} if says else {})
        return pod(name, container("main", run), says=said)

    pods = [
        one("me", "0", "5Gi"),
        one("says nothing", "0"),
        one("grows", "1,0", "0s:1Gi,1m:3Gi,2m:2Gi"),
        one("elsewhere", "1", "7Gi"),
        one("ended", "0", "9Gi", run="true"),
        one("apart", "2", "11Gi"),
        one("after", "2", "4Gi"),
    ]
    pods[-1]["spec"]["initContainers"] = [container("first", "true")]
    for obj in pods:
        obj["metadata"]["name"] = obj["metadata"]["name"].replace(" ", "-")
    for labels, want in ((SLICED, {"me": 3, "grows": 12, "elsewhere": 3, "apart": 4}), (MPS, {"me": 0})):
        world = World(*pods, nodes=[node(labels=labels)]).at(5)
        states = {state.key.name: state for state in world.kubelet.pods.values()}
        found = {name: taken_beside(world.kubelet, states[name]) for name in want}
        assert found == {name: gib << 30 for name, gib in want.items()}
