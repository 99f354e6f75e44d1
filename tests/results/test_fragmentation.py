"""Which free GPUs are of no use, why, by whom the others are held, and how many more pods fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from golden import check_golden
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import HOSTNAME, NodeBuilder, PodBuilder, node, pod
from fairway.cluster.store import Store
from fairway.results import fragmentation
from fairway.results.fragmentation import (
    GIVEN,
    PENDING,
    PRESENT,
    ClusterGpus,
    cluster_gpus,
    how_many_fit,
    pod_asking,
)
from fairway.results.fragmentationtext import fragmentation_json, fragmentation_lines
from fairway.results.textlayout import as_text
from fairway.scheduling.cycle import Scheduler


def store_of(*objects: NodeBuilder | PodBuilder) -> Store:
    store = Store()
    for each in objects:
        store.load(each.build())
    return store


def on(builder: PodBuilder, name: str) -> PodBuilder:
    return builder.spec(nodeName=name)


def big() -> NodeBuilder:
    return node("n1").cpu(32).memory("128Gi").gpu(8)


@dataclass
class Case:
    """A cluster, and the free GPUs lost by cause (in GPUs)."""

    store: Callable[[], Store]
    losses: dict[str, float]
    demand: str = PENDING


CASES: dict[str, Case] = {
    "it fits": Case(lambda: store_of(big(), pod("p").gpu(4)), {}),
    "what is left over beside it": Case(lambda: store_of(big(), pod("p").gpu(3)), {"remainder": 2}),
    "too few GPUs free": Case(
        lambda: store_of(big(), on(pod("there").gpu(5), "n1"), pod("p").gpu(4)), {"shape": 3}
    ),
    "CPU exhausted first": Case(
        lambda: store_of(big(), on(pod("there").gpu(1).cpu(30), "n1"), pod("p").gpu(1).cpu(8)), {"cpu": 7}
    ),
    "memory exhausted first": Case(
        lambda: store_of(
            big(), on(pod("there").gpu(1).memory("120Gi"), "n1"), pod("p").gpu(1).memory("64Gi")
        ),
        {"memory": 7},
    ),
    "both": Case(
        lambda: store_of(
            big(), on(pod("there").cpu(30).memory("120Gi"), "n1"), pod("p").gpu(1).cpu(8).memory("64Gi")
        ),
        {"cpu and memory": 8},
    ),
    "GPUs are named before CPU": Case(
        lambda: store_of(big(), on(pod("there").gpu(7).cpu(30), "n1"), pod("p").gpu(2).cpu(8)), {"shape": 1}
    ),
    "a taint": Case(lambda: store_of(big().taint("team", "a"), pod("p").gpu(1)), {"taint": 8}),
    "a taint that is tolerated": Case(
        lambda: store_of(big().taint("team", "a"), pod("p").gpu(1).tolerate("team", "a")), {}
    ),
    "cordoned": Case(lambda: store_of(big().cordoned(), pod("p").gpu(1)), {"cordoned": 8}),
    "a selector": Case(lambda: store_of(big(), pod("p").gpu(1).select(gpu="H100")), {"affinity": 8}),
    "anti-affinity": Case(
        lambda: store_of(
            big(),
            on(pod("there").gpu(1).label(app="x"), "n1"),
            pod("p").gpu(1).label(app="x").apart(HOSTNAME, app="x"),
        ),
        {"pod affinity": 7},
    ),
    "as many pods as the node allows": Case(
        lambda: store_of(big().pods(1), on(pod("there"), "n1"), pod("p").gpu(1)), {"pods": 8}
    ),
    "what keeps most pods away is named": Case(
        lambda: store_of(
            big().taint("team", "a"),
            pod("p1").gpu(1),
            pod("p2").gpu(1),
            pod("p3").gpu(16).tolerate("team", "a"),
        ),
        {"taint": 8},
    ),
    "one that fits is enough": Case(lambda: store_of(big(), pod("p1").gpu(16), pod("p2").gpu(1)), {}),
    "nobody waits: those that are there": Case(
        lambda: store_of(big(), on(pod("there").gpu(3), "n1")), {"remainder": 2}, PRESENT
    ),
    "pods that are over do not count": Case(
        lambda: store_of(big(), _over(on(pod("there").gpu(3), "n1"))), {}, PRESENT
    ),
    "shared GPUs": Case(
        lambda: store_of(
            node("n1").gpu(2).has("fairway.dev/gpu-milli", 2000),
            on(
                pod("a").limit("fairway.dev/gpu-milli", 600).meta(annotations={"fairway.dev/gpu-index": "0"}),
                "n1",
            ),
            on(
                pod("b").limit("fairway.dev/gpu-milli", 600).meta(annotations={"fairway.dev/gpu-index": "1"}),
                "n1",
            ),
            pod("p").limit("fairway.dev/gpu-milli", 500),
        ),
        {"gpu share": 0.8},
    ),
}


def _over(builder: PodBuilder) -> PodBuilder:
    builder._status = {"phase": "Succeeded"}
    return builder


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_causes(case: Case) -> None:
    found = cluster_gpus(case.store())
    assert {x.cause: x.gpu_milli / 1000 for x in found.losses} == case.losses
    assert found.demand == case.demand
    assert found.lost_milli == sum(x.gpu_milli for x in found.losses)


def test_every_cause_has_words() -> None:
    causes = {c for case in CASES.values() for c in case.losses}
    assert causes <= fragmentation._WORDS.keys()


def test_holders_are_owners() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    owned = [on(pod(f"t-{i}").gpu(2).meta(ownerReferences=[job]), "n1") for i in range(2)]
    found = cluster_gpus(store_of(big(), *owned, on(pod("alone").gpu(1), "n1")))
    assert [(h.owner, h.pods, h.gpu_milli) for h in found.nodes[0].holders] == [
        ("Job/train", 2, 4000),
        ("alone", 1, 1000),
    ]
    assert (found.total_milli, found.allocated_milli, found.free_milli) == (8000, 5000, 3000)


def test_gated_pods_wait_for_no_node() -> None:
    found = cluster_gpus(store_of(big(), pod("p").gpu(16).spec(schedulingGates=[{"name": "quota"}])))
    assert (found.demand, found.shapes, found.gated_pods) == (PRESENT, (), 1)


def test_a_shape_that_is_given() -> None:
    store = store_of(big(), node("n2").cpu(10).gpu(4), pod("p").gpu(16))
    asked = pod_asking(store.accounts, {"cpu": "4", "nvidia.com/gpu": "1"})
    found = cluster_gpus(store, asked=asked)
    assert found.demand == GIVEN
    assert (found.shapes[0].fits.count, dict(found.shapes[0].fits.by_node)) == (10, {"n1": 8, "n2": 2})
    assert {x.cause: x.gpu_milli for x in found.losses} == {"remainder": 2000}


def test_pods_that_mind_each_other_are_placed_one_by_one() -> None:
    nodes = [node(f"n{i}").gpu(8) for i in range(3)]
    store = store_of(*nodes, pod("p").gpu(1).label(app="x").apart(HOSTNAME, app="x"))
    assert cluster_gpus(store).shapes[0].fits.count == 3
    store = store_of(node("n1").gpu(8), pod("p").gpu(1).port(80))
    assert cluster_gpus(store).shapes[0].fits.count == 1


def test_counting_one_by_one_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragmentation, "FIT_LIMIT", 5)
    store = store_of(
        node("n1").gpu(8).pods(500).cpu(1000), pod("p").gpu(1).near(HOSTNAME, app="x").label(app="x")
    )
    fits = cluster_gpus(store).shapes[0].fits
    assert (fits.count, fits.is_at_least) == (5, True)


def test_asking_changes_nothing() -> None:
    store = CASES["anti-affinity"].store()
    before = store.accounts.requested.copy()
    cluster_gpus(store)
    assert (store.accounts.requested == before).all()
    assert cluster_gpus(store) == cluster_gpus(store)


_SMALL = st.integers(0, 6)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.integers(1, 16), _SMALL, st.integers(1, 8)), min_size=1, max_size=5
    ),
    st.lists(st.tuples(_SMALL, _SMALL, _SMALL), max_size=6),
    st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)),
)
def test_division_is_what_placing_one_by_one_finds(
    nodes: list[tuple[int, int, int, int]], there: list[tuple[int, int, int]], shape: tuple[int, int, int]
) -> None:
    store = Store()
    for i, (cpu, memory, gpus, pods) in enumerate(nodes):
        store.create(node(f"n{i}").cpu(cpu).memory(f"{memory}Gi").gpu(gpus).pods(pods).build())
    for i, (cpu, memory, gpus) in enumerate(there):
        name = f"n{i % len(nodes)}"
        store.create(on(pod(f"p{i}").cpu(cpu).memory(f"{memory}Gi").gpu(gpus), name).build())
    cpu, memory, gpus = shape
    asked = pod_asking(
        store.accounts, {"cpu": str(cpu), "memory": f"{memory}Gi", "nvidia.com/gpu": str(gpus)}
    )
    scheduler = Scheduler(store.accounts)
    assert how_many_fit(scheduler, asked) == fragmentation._fit_one_by_one(scheduler, asked)


def _showcase() -> ClusterGpus:
    return cluster_gpus(
        store_of(
            node("gpu-a").cpu(32).gpu(8).label(**{"nvidia.com/gpu.product": "A100"}),
            node("gpu-b").cpu(32).gpu(8),
            node("gpu-c").cpu(64).gpu(4).taint("team", "x"),
            on(pod("train-0").gpu(6).cpu(28), "gpu-a"),
            on(pod("train-1").gpu(7).cpu(4), "gpu-b"),
            pod("w1").gpu(2).cpu(8).memory("16Gi"),
            pod("w2").gpu(2).cpu(8).memory("16Gi"),
            pod("w3").gpu(1).cpu(8),
        )
    )


@pytest.mark.parametrize("width", [80, 100, 140])
def test_text(width: int) -> None:
    text = as_text(fragmentation_lines(_showcase(), width))
    assert max(map(len, text.splitlines())) <= width
    check_golden(f"fragmentation-{width}.txt", text)


def test_json() -> None:
    data = fragmentation_json(_showcase())
    assert (data["total_milli"], data["lost_milli"], data["demand"]) == (20_000, 6_000, PENDING)
    assert data["shapes"][0]["by_node"] == {}
    assert [n["cause"] for n in data["nodes"]] == ["cpu", "", "taint"]


def test_no_gpus_at_all() -> None:
    assert as_text(fragmentation_lines(cluster_gpus(store_of(node("n1"))))) == "No node offers GPUs.\n"
