"""HAMi's choice of cards: its words and order, and against an exhaustive search on small nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.objects import Obj
from fairway.scheduling.hami.cards import ALLOCATED, REGISTER, Held, decoded, encoded, registration, share_of
from fairway.scheduling.hami.fitting import answer, asks
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


# Which card: by every policy


def _wins(policy: str, binds: bool, cards: list[tuple[int, int, int]]) -> int:
    """`cards`: numa, how many pods, MiB taken of each. The best by its policy; of equals the last."""

    def score(card: tuple[int, int, int]) -> Fraction:
        _, pods, memory = card
        return Fraction(pods, 10) + Fraction(memory, 1000)

    def rank(index: int) -> tuple[Any, ...]:
        numa, pods, _ = cards[index]
        used = score(cards[index])
        if policy == "mutex":
            return -pods, numa, index
        if policy == "binpack":
            return (-numa, used, index) if binds else (used, numa, index)
        if "," not in policy and policy != "numa":
            return (numa, -used, index) if binds else (-used, numa, index)
        by = [p.strip() for p in policy.split(",")]
        by = [p for i, p in enumerate(by) if p in ("binpack", "spread", "numa") and p not in by[:i]] or [
            "spread"
        ]
        if binds and by[0] != "numa":
            by = ["numa", *(p for p in by if p != "numa")]
        keys = {"numa": numa, "binpack": used, "spread": -used}
        return (*(keys[p] for p in by), index)

    return max(range(len(cards)), key=rank)


@pytest.mark.parametrize(
    "policy",
    [
        "spread",
        "binpack",
        "mutex",
        "numa",
        "odd",
        "numa,binpack",
        "binpack,numa",
        "spread, numa ,spread",
        "odd,odd",
    ],
)
@pytest.mark.parametrize("binds", [False, True])
def test_the_card_is_the_best_by_its_policy(policy: str, binds: bool) -> None:
    for seed in range(30):
        draw = Random(f"{seed}{policy}")
        drawn = [(draw.randrange(3), draw.randrange(3), draw.choice((0, 100, 200))) for _ in range(4)]
        # Who holds none of a card holds no memory of it.
        cards = [(numa, pods, memory if pods else 0) for numa, pods, memory in drawn]
        raw = [
            {
                "id": f"GPU-{i}",
                "index": i,
                "count": 10,
                "devmem": 1000,
                "devcore": 100,
                "health": True,
                "numa": numa,
            }
            for i, (numa, _, _) in enumerate(cards)
        ]
        there = {"metadata": {"name": "n", "annotations": {REGISTER: registration(raw)}}}
        held = [
            (Held(f"GPU-{i}", memory if number == 0 else 0, 0),)
            for i, (_, pods, memory) in enumerate(cards)
            for number in range(pods)
        ]
        if policy == "mutex" and all(pods for _, pods, _ in cards):
            continue
        asking = pod({"gpu": 1, "gpumem": 10})
        bound = {"nvidia.com/numa-bind": draw.choice(("true", "1", "T"))} if binds else {}
        asking["metadata"]["annotations"] = {"hami.io/gpu-scheduler-policy": policy, **bound}
        found = given_to(asking, {"n": there}, {"n": held}).chosen
        assert found is not None
        assert found.containers[0][0].uuid == f"GPU-{_wins(policy, binds, cards)}", cards


def test_cards_of_one_socket_or_none() -> None:
    raw = [
        {
            "id": f"GPU-{i}",
            "index": i,
            "count": 1,
            "devmem": 100,
            "devcore": 100,
            "health": True,
            "numa": numa,
        }
        for i, numa in enumerate((0, 1, 1, 2))
    ]
    there = {"metadata": {"name": "n", "annotations": {REGISTER: registration(raw)}}}
    two = pod({"gpu": 2, "gpumem": 10})
    two["metadata"]["annotations"] = {"nvidia.com/numa-bind": "true"}
    found = given_to(two, {"n": there}).chosen
    assert {h.uuid for h in found.containers[0]} == {"GPU-1", "GPU-2"}
    full = {"n": [(Held("GPU-2", 10, 0),)]}
    refused = given_to(two, {"n": there}, full).refused["n"]
    assert refused == "1/4 AllocatedCardsInsufficientRequest, 1/4 CardTimeSlicingExhausted, 2/4 NumaNotFit"
    two["metadata"]["annotations"] = {}
    assert given_to(two, {"n": there}, full).chosen is not None


def test_who_asks_for_cards_and_what_others_get() -> None:
    assert asks(pod({"gpu": 1})) and asks(pod({}, {"gpu": 1})) and asks(pod({"gpu": 1}, inits=1))
    assert not asks(pod({})) and not asks(pod({"gpumem": 1}))
    found = given_to(pod({}, {"gpu": 1, "gpumem": 5}, {}), {"n": node(1)}).chosen
    assert [[(h.uuid, h.memory) for h in c] for c in found.containers] == [[], [("GPU-0", 5)], []]
    assert found.score == 0
    nothing = given_to(pod({"gpu": 1, "gpumem": 5}), {"n": node(1, memory=100, devcore=0)}).chosen
    assert nothing.score == 0
    half = {"n": [(Held("GPU-0", 40 * GIB, 50),)]}
    assert given_to(pod({"gpu": 1, "gpumem": 5}), {"n": node(1)}, half).chosen.score == 11


def test_parts_of_cards_in_thousandths() -> None:
    def share(*held: Held, **memories: int) -> int:
        made = {"metadata": {"annotations": {ALLOCATED: encoded([held[:1], held[1:]])}}}
        return share_of(made, memories)

    assert share(Held("a", 250, 10), a=1000) == 250
    assert share(Held("a", 250, 30), a=1000) == 300
    assert share(Held("a", 2500, 0), a=1000) == 1000
    assert share(Held("a", 250, 0)) == 1000
    assert share(Held("a", 0, 20)) == 200
    assert share(Held("a", 500, 0), Held("b", 1, 100), a=1000, b=1000) == 1500
    assert share_of({"metadata": {}}, {}) == 0
