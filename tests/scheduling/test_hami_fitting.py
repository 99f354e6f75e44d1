"""HAMi's choice of cards: its words and order, and against an exhaustive search on small nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.objects import Obj
from fairway.scheduling.hami.cards import REGISTER, Held, decoded, encoded, registration
from fairway.scheduling.hami.fitting import answer
from fairway.scheduling.hami.requests import entered, request_of

GIB = 1024


def node(cards: int = 2, memory: int = 80 * GIB, count: int = 10, **changes: Any) -> Obj:
    raw = [
        {
            "id": f"GPU-{i}",
            "index": i,
            "count": count,
            "devmem": memory,
            "devcore": 100,
            "type": "NVIDIA-H100",
            "health": True,
            **changes,
        }
        for i in range(cards)
    ]
    return {"metadata": {"name": "n", "annotations": {REGISTER: registration(raw)}}}


def pod(*containers: dict[str, int], inits: int = 0, **annotations: str) -> Obj:
    made = [
        {"name": f"c{i}", "resources": {"limits": {f"nvidia.com/{n}": str(v) for n, v in c.items()}}}
        for i, c in enumerate(containers)
    ]
    spec = {"initContainers": made[:inits], "containers": made[inits:]}
    named = {k.replace("__", "/").replace("_", "-"): v for k, v in annotations.items()}
    return {"metadata": {"name": "p", "uid": "u", "annotations": named}, "spec": spec}


def given_to(
    asking: Obj, nodes: dict[str, Obj], held: Mapping[str, Sequence[tuple[Held, ...]]] | None = None
) -> Any:
    return answer(asking, nodes.items(), held or {})


def why(asking: Obj, there: Obj, *held: Held) -> str:
    found = given_to(asking, {"n": there}, {"n": [(h,) for h in held]})
    assert found.chosen is None
    return str(found.refused["n"])


def test_parts_are_memory_of_cards_and_hundredths_of_their_cores() -> None:
    assert request_of(pod({"gpu": 2, "gpumem": 3000, "gpucores": 30})["spec"]["containers"][0]) == (
        2,
        3000,
        0,
        30,
    )
    whole = pod({"gpu": 1})["spec"]["containers"][0]
    assert request_of(whole) == (1, 0, 100, 0)
    too_much = pod({"gpu": 1, "gpumem-percentage": 150, "gpucores": 200})["spec"]["containers"][0]
    assert request_of(too_much) == (1, 0, 100, 100)
    assert request_of({"name": "c"}) is None


def test_the_webhook_sends_pods_to_its_scheduler() -> None:
    def limits(asking: Obj) -> tuple[Any, Any]:
        found = entered(asking)
        assert not isinstance(found, str)
        spec = found["spec"]
        return spec.get("schedulerName"), spec["containers"][0]["resources"]["limits"]

    assert limits(pod({"gpumem": 100})) == (
        "hami-scheduler",
        {"nvidia.com/gpumem": "100", "nvidia.com/gpu": "1"},
    )
    assert limits(pod({"gpu": 1})) == (
        "hami-scheduler",
        {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"},
    )
    assert limits(pod({"gpu": 1, "gpumem": 5})) == (
        "hami-scheduler",
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5"},
    )
    plain = pod({})
    assert entered(plain) is plain
    other = {**pod({"gpu": 1}), "spec": {**pod({"gpu": 1})["spec"], "schedulerName": "volcano"}}
    assert entered(other) is other
    privileged = pod({"gpu": 1})
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert entered(privileged) == "container c0 is privileged"


@pytest.mark.parametrize(
    ("asking", "there", "held", "words"),
    [
        (pod({"gpu": 3, "gpumem": 1}), node(), [], "NodeInsufficientDevice"),
        (pod({"gpu": 1, "gpumem": 90 * GIB}), node(), [], "2/2 CardInsufficientMemory"),
        (
            pod({"gpu": 1, "gpucores": 60, "gpumem": 1}),
            node(),
            [Held("GPU-0", 1, 50), Held("GPU-1", 1, 41)],
            "2/2 CardInsufficientCore",
        ),
        (
            pod({"gpu": 1, "gpumem": 1}),
            node(1, count=1),
            [Held("GPU-0", 1, 0)],
            "1/1 CardTimeSlicingExhausted",
        ),
        (
            pod({"gpu": 1, "gpumem": 1}),
            node(1),
            [Held("GPU-0", 1, 100)],
            "1/1 CardComputeUnitsExhausted",
        ),
        (pod({"gpu": 1}), node(1), [Held("GPU-0", 1, 0)], "1/1 CardInsufficientMemory"),
        (
            pod({"gpu": 2, "gpumem": 8}),
            node(),
            [Held("GPU-0", 80 * GIB, 0)],
            "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientMemory",
        ),
        (pod({"gpu": 1, "gpumem": 1}), node(health=False), [], "2/2 CardNotHealth"),
        (pod({"gpu": 1}, nvidia_com__use_gputype="A100"), node(), [], ""),
    ],
)
def test_the_words_where_nothing_fits(asking: Obj, there: Obj, held: list[Held], words: str) -> None:
    if not words:
        asking["metadata"]["annotations"] = {"nvidia.com/use-gputype": "A100"}
        words = "2/2 CardTypeMismatch"
    assert why(asking, there, *held) == words


def test_a_node_that_is_not_registered() -> None:
    assert given_to(pod({"gpu": 1}), {"n": {"metadata": {"name": "n"}}}).refused == {"n": "node unregistered"}


def test_cards_are_spread_and_nodes_filled_unless_told_otherwise() -> None:
    nodes = {"a": node(), "b": node()}
    held = {"b": [(Held("GPU-1", 10, 10),)]}

    def chosen(**policies: str) -> tuple[str, str]:
        asking = pod({"gpu": 1, "gpumem": 10})
        asking["metadata"]["annotations"] = {f"hami.io/{k.replace('_', '-')}": v for k, v in policies.items()}
        found = given_to(asking, nodes, held).chosen
        return found.node, found.containers[0][0].uuid

    assert chosen() == ("b", "GPU-0")
    assert chosen(gpu_scheduler_policy="binpack") == ("b", "GPU-1")
    assert chosen(gpu_scheduler_policy="mutex") == ("b", "GPU-0")
    assert chosen(node_scheduler_policy="spread")[0] == "a"


def test_init_containers_give_back_what_they_take() -> None:
    asking = pod({"gpu": 1, "gpumem": 70 * GIB}, {"gpu": 1, "gpumem": 60 * GIB}, inits=1)
    found = given_to(asking, {"n": node(1)}).chosen
    assert [h.memory for c in found.containers for h in c] == [70 * GIB, 60 * GIB]


_HELD = st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 60))
_ASKED = st.tuples(st.integers(1, 3), st.integers(1, 50), st.integers(0, 100))


@settings(max_examples=300, deadline=None)
@given(st.lists(_HELD, max_size=5), st.lists(_ASKED, min_size=1, max_size=2))
def test_a_container_fits_where_enough_cards_have_room(
    held: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    """One container: exactly where as many cards have room as it asks for. Several: never more than there is."""
    taken = [Held(f"GPU-{i}", memory, cores) for i, memory, cores in held]
    asking = pod(*({"gpu": n, "gpumem": memory, "gpucores": cores} for n, memory, cores in asked))
    found = given_to(asking, {"n": node(3, memory=50, count=3)}, {"n": [(h,) for h in taken]})
    used = {f"GPU-{i}": [h for h in taken if h.uuid == f"GPU-{i}"] for i in range(3)}

    def has_room(uuid: str, memory: int, cores: int) -> bool:
        there = used[uuid]
        busy = sum(h.cores for h in there)
        if len(there) >= 3 or sum(h.memory for h in there) + memory > 50 or busy + cores > 100:
            return False
        return not (cores == 100 and there) and not (cores == 0 and busy == 100)

    for number, (cards, memory, cores) in enumerate(asked):
        free = [uuid for uuid in used if has_room(uuid, memory, cores)]
        if found.chosen is None:
            if len(asked) == 1:
                assert len(free) < cards
            continue
        given_ = found.chosen.containers[number]
        assert len({h.uuid for h in given_}) == cards
        assert all(h.uuid in free and (h.memory, h.cores) == (memory, cores) for h in given_)
        for one in given_:
            used[one.uuid] = [*used[one.uuid], one]


@given(
    st.lists(st.lists(st.builds(Held, st.sampled_from(["a", "b-c"]), st.integers(0, 9), st.integers(0, 9))))
)
def test_what_is_written_is_read(containers: list[list[Held]]) -> None:
    assert [list(c) for c in decoded(encoded(containers))] == containers


@given(st.text(max_size=60))
def test_annotations_of_others_do_no_harm(text: str) -> None:
    decoded(text)
    there = {"metadata": {"name": "n", "annotations": {REGISTER: text}}}
    assert given_to(pod({"gpu": 1}), {"n": there}).chosen is None
