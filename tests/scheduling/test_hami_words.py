"""HAMi: what annotations say of cards and who holds them, what containers ask for, what its webhook writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.scheduling.hami.cards import (
    ALLOCATED,
    NODE,
    REGISTER,
    Card,
    Held,
    _remembered,
    card_holders,
    cards_of,
    decoded,
    encoded,
    registration,
    share_of,
)
from fairway.scheduling.hami.fitting import answer, asks
from fairway.scheduling.hami.profile import HAMI_PROFILE
from fairway.scheduling.hami.requests import Request, entered, request_of
from fairway.scheduling.profile import DEFAULT_PROFILE

N = "nvidia.com/"


WHOLE = {
    "id": "GPU-1",
    "index": 3,
    "count": 10,
    "devmem": 81920,
    "devcore": 100,
    "type": "NVIDIA-H100",
    "numa": 1,
    "mode": "hami-core",
    "health": True,
}


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        (WHOLE, ("GPU-1", 3, 10, 81920, 100, "NVIDIA-H100", 1, "hami-core", True)),
        ({}, ("", 0, 0, 0, 0, "", 0, "", False)),
        (
            {"index": "x", "count": -1, "devmem": "7", "devcore": 1.5, "numa": None},
            ("", 0, 0, 7, 0, "", 0, "", False),
        ),
        ({"health": "true", "mode": None, "type": 5, "id": 7}, ("7", 0, 0, 0, 0, "5", 0, "", False)),
    ],
)
def test_a_card_as_it_is_registered(raw: Mapping[str, Any], want: tuple[Any, ...]) -> None:
    card = Card(raw)
    assert (
        card.id,
        card.index,
        card.count,
        card.memory,
        card.cores,
        card.kind,
        card.numa,
        card.mode,
        card.is_healthy,
    ) == want
    assert (card.used, card.used_cores, card.used_memory) == (0, 0, 0)
    card.take(Held("x", 5, 7))
    card.take(Held("x", 2, 1))
    assert (card.used, card.used_cores, card.used_memory) == (2, 8, 7)


def _registered(said: str) -> Obj:
    return {"metadata": {"name": "n", "annotations": {REGISTER: said}}}


def test_what_a_node_registers() -> None:
    both = cards_of(_registered(registration([WHOLE, {**WHOLE, "id": "GPU-2", "index": 0, "mode": ""}])))
    assert both is not None
    assert [(c.id, c.index, c.mode) for c in both] == [("GPU-1", 3, "hami-core"), ("GPU-2", 0, "")]
    assert (
        registration([{"id": "a", "index": 0, "health": False, "type": "", "n": 1}]) == '[{"id":"a","n":1}]'
    )
    again = cards_of(_registered(registration([WHOLE])))
    assert again is not None and again[0] is not both[0], "what one cycle takes is its own"
    assert cards_of({"metadata": {"name": "n"}}) is None
    for wrong in ("", "{}", "[", "1", "null", "[" * 100_000):
        assert cards_of(_registered(wrong)) is None
    odd = cards_of(_registered('[1, {"id": "a"}, null, "b"]'))
    assert odd is not None and [c.id for c in odd] == ["a"]
    assert cards_of(_registered("[]")) == []


def test_how_much_a_node_may_register() -> None:
    many = cards_of(_registered(json.dumps([{}] * 1024)))
    assert many is not None and len(many) == 1024
    assert cards_of(_registered(json.dumps([{}] * 1025))) is None
    long = json.dumps([{"id": "x" * 20_000}])
    found = cards_of(_registered(long))
    assert found is not None and len(found[0].id) == 20_000
    # As long as this is remembered as text; what is longer is read each time.
    for length, is_kept in ((2**14 - 1, True), (2**14, True), (2**14 + 1, False)):
        said = json.dumps([{"id": f"{length}"}]).ljust(length)
        before = _remembered.cache_info()
        assert cards_of(_registered(said)) is not None and cards_of(_registered(said)) is not None
        after = _remembered.cache_info()
        assert (after.misses - before.misses, after.hits - before.hits) == ((1, 1) if is_kept else (0, 0))
    most = '[{"id":""}]'
    assert cards_of(_registered(most + " " * (2**20 - len(most)))) is not None
    assert cards_of(_registered(most + " " * (2**20 - len(most) + 1))) is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", []),
        ("a,NVIDIA,5,7:;", [(Held("a", 5, 7),)]),
        ("a,NVIDIA,5,7:", []),
        (
            "a,NVIDIA,5,7:b,NVIDIA,1,2:;;c,X,3,4:;",
            [(Held("a", 5, 7), Held("b", 1, 2)), (), (Held("c", 3, 4),)],
        ),
        ("a,NVIDIA,5:;", [()]),
        ("a,NVIDIA,5,7,more:;", [(Held("a", 5, 7),)]),
        ("a,NVIDIA,x,-1:;", [(Held("a", 0, 0),)]),
    ],
)
def test_what_annotations_of_pods_say(text: str, want: list[tuple[Held, ...]]) -> None:
    assert decoded(text) == want
    assert encoded([[Held("a", 5, 7)], []]) == "a,NVIDIA,5,7:;;"


def test_parts_by_memory_or_by_cores_whichever_is_more() -> None:
    def share(*held: Held, **memories: int) -> int:
        return share_of({"metadata": {"annotations": {ALLOCATED: encoded([held])}}}, memories)

    assert share(Held("a", 333, 10), a=1000) == 333
    assert share(Held("a", 333, 34), a=1000) == 340
    assert share(Held("a", 0, 0)) == 0
    assert share(Held("a", 1001, 0), a=1000) == share(Held("a", 0, 101)) == 1000
    assert share(Held("a", 10, 0), Held("b", 0, 30), a=1000) == 310


# Who holds what


def _holder(name: str, node: str, *held: Held, phase: str = "Running") -> Obj:
    said = {**({NODE: node} if node else {}), ALLOCATED: encoded([held])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": said},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase},
    }


def test_holdings_follow_the_pods() -> None:
    store = Store()
    one, two = Held("a", 1, 2), Held("b", 3, 4)
    store.load(_holder("first", "n1", one, two))

    def on(*nodes: str, but: str = "") -> dict[str, list[tuple[Held, ...]]]:
        return card_holders(store).on(nodes, but)

    assert on("n1", "n2") == {"n1": [(one, two)]}
    store.load(_holder("second", "n1", two))
    store.load(_holder("third", "n2", one))
    for name, node, held, phase in (
        ("over", "n1", (one,), "Succeeded"),
        ("lost", "n1", (one,), "Failed"),
        ("nowhere", "", (one,), "Running"),
        ("nothing", "n2", (), "Running"),
    ):
        store.load(_holder(name, node, *held, phase=phase))
    store.load(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "x",
                "namespace": "ns",
                "annotations": {NODE: "n1", ALLOCATED: encoded([[one]])},
            },
        }
    )
    assert on("n1", "n2", "n3") == {"n1": [(one, two), (two,)], "n2": [(one,)]}
    assert on("n2") == {"n2": [(one,)]}
    assert on("n1", but="uid-first") == {"n1": [(two,)]}
    store.set_status(Key("Pod", "ns", "first"), {"phase": "Succeeded"})
    assert on("n1") == {"n1": [(two,)]}
    store.delete(Key("Pod", "ns", "second"), grace_s=0)
    assert on("n1", "n2") == {"n2": [(one,)]}
    moved = store.require(Key("Pod", "ns", "third"))
    store.replace(
        {**moved, "metadata": {**moved["metadata"], "annotations": {NODE: "n3", ALLOCATED: encoded([[two]])}}}
    )
    assert on("n1", "n2", "n3") == {"n3": [(two,)]}


# What is asked for


def _box(requests: Mapping[str, Any] | None = None, **limits: Any) -> Obj:
    resources: Obj = {"limits": {N + k.replace("_", "-"): v for k, v in limits.items()}}
    if requests is not None:
        resources["requests"] = {N + k: v for k, v in requests.items()}
    return {"name": "c", "resources": resources}


@pytest.mark.parametrize(
    ("box", "want"),
    [
        (_box(gpu=2), Request(2, 0, 100, 0)),
        (_box(gpu=0), None),
        (_box(), None),
        ({"name": "c"}, None),
        (_box({"gpu": 3}), Request(3, 0, 100, 0)),
        (_box({"gpu": 3}, gpu=1), Request(1, 0, 100, 0)),
        (_box(gpu="1500m"), None),
        (_box(gpu="x"), None),
        (_box(gpu=1, gpumem=7), Request(1, 7, 0, 0)),
        (_box(gpu=1, gpumem=0), Request(1, 0, 100, 0)),
        (_box(gpu=1, gpumem=2**31 - 1), Request(1, 2**31 - 1, 0, 0)),
        (_box(gpu=1, gpumem=2**31), None),
        (_box(gpu=1, gpumem=-1), None),
        (_box(gpu=1, gpumem=7, gpumem_percentage=30), Request(1, 7, 30, 0)),
        (_box(gpu=1, gpumem_percentage=30), Request(1, 0, 30, 0)),
        (_box(gpu=1, gpumem_percentage=101), Request(1, 0, 100, 0)),
        (_box(gpu=1, gpumem_percentage=-5), Request(1, 0, 100, 0)),
        (_box(gpu=1, gpumem=4, gpumem_percentage=-5), Request(1, 4, 0, 0)),
        (_box(gpu=1, gpucores=30), Request(1, 0, 100, 30)),
        (_box(gpu=1, gpucores=101), Request(1, 0, 100, 100)),
    ],
)
def test_what_a_container_asks_for(box: Obj, want: Request | None) -> None:
    assert request_of(box) == want
    assert asks({"spec": {"containers": [{"name": "x"}, box]}}) == (want is not None)
    assert asks({"spec": {"initContainers": [box], "containers": []}}) == (want is not None)


@pytest.mark.parametrize(
    ("box", "added"),
    [
        (_box(gpumem=5), {"gpu": "1"}),
        (_box(gpumem_percentage=5), {"gpu": "1"}),
        (_box(gpucores=5), {"gpu": "1"}),
        (_box(gpu=1), {"gpucores": "100"}),
        (_box(gpu=1, gpumem_percentage=100), {"gpucores": "100"}),
        (_box(gpu=1, gpumem_percentage=99), {}),
        (_box(gpu=1, gpumem=5), {}),
        (_box(gpu=1, gpumem=5, gpumem_percentage=100), {"gpucores": "100"}),
        (_box(gpu=1, gpucores=7), {}),
        (_box({"gpu": 1}), {"gpucores": "100"}),
    ],
)
def test_what_the_webhook_adds(box: Obj, added: dict[str, str]) -> None:
    for field in ("containers", "initContainers"):
        pod: Obj = {"spec": {"containers": [{"name": "x"}], field: [box]}}
        found = entered(pod)
        assert isinstance(found, dict)
        assert found["spec"]["schedulerName"] == "hami-scheduler"
        (made,) = found["spec"][field]
        full = {N + k: v for k, v in added.items()}
        assert made["resources"]["limits"] == {**box["resources"]["limits"], **full}
        asked = box["resources"].get("requests")
        assert made["resources"].get("requests") == ({**(asked or {}), **full} if added else asked)
        assert (made is box) == (not added)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"containers": [_box(gpu=1)]}, "goes"),
        ({"containers": [_box(gpu=1)], "schedulerName": "default-scheduler"}, "goes"),
        ({"containers": [_box(gpu=1)], "schedulerName": "hami-scheduler"}, "goes"),
        ({"containers": [_box(gpu=1)], "schedulerName": "other"}, "same"),
        ({"containers": [{"name": "x"}]}, "same"),
        ({"containers": [{"name": "x"}], "nodeName": "n"}, "same"),
        ({"containers": [_box(gpu=1)], "nodeName": "n"}, "pod has node assigned"),
        ({"containers": [{"name": "x"}], "initContainers": [_box(gpu=1)]}, "goes"),
        (
            {"containers": [_box(gpu=1), {"name": "p", "securityContext": {"privileged": True}}]},
            "container p is privileged",
        ),
        (
            {
                "containers": [_box(gpu=1)],
                "initContainers": [{"name": "i", "securityContext": {"privileged": True}}],
                "nodeName": "n",
            },
            "container i is privileged",
        ),
        ({"containers": [{**_box(gpu=1), "securityContext": {"privileged": False}}]}, "goes"),
        ({"containers": [{**_box(), "securityContext": {"privileged": True}}]}, "same"),
    ],
)
def test_whom_the_webhook_takes(spec: Obj, want: str) -> None:
    pod: Obj = {"metadata": {"name": "p"}, "spec": spec}
    found = entered(pod)
    if want == "same":
        assert found is pod
    elif want == "goes":
        assert isinstance(found, dict) and found["spec"]["schedulerName"] == "hami-scheduler"
        assert found["metadata"] is pod["metadata"]
        assert ("initContainers" in found["spec"]) == ("initContainers" in spec)
    else:
        assert found == want


def test_its_scheduler_leaves_its_resources_to_it() -> None:
    assert HAMI_PROFILE.scheduler_name == "hami-scheduler"
    assert all(HAMI_PROFILE.ignores(N + n) for n in ("gpu", "gpumem", "gpumem-percentage", "gpucores"))
    assert not HAMI_PROFILE.ignores("amd.com/gpu") and not DEFAULT_PROFILE.ignores(N + "gpu")
    (extender,) = HAMI_PROFILE.extenders
    assert (extender.filter_verb, extender.bind_verb, extender.caches_nodes) == ("filter", "bind", True)
    assert extender.is_interested({"spec": {"containers": [_box(gpumem=1)]}})
    assert not extender.is_interested({"spec": {"containers": [{"name": "x"}]}})


# Words of cards that will not do


def _node(*cards: Mapping[str, Any], **annotations: str) -> Obj:
    raw = [{**WHOLE, "id": f"GPU-{i}", "numa": 0, "devmem": 100, **c} for i, c in enumerate(cards)]
    return {"metadata": {"name": "n", "annotations": {REGISTER: registration(raw), **annotations}}}


def _pod(*boxes: Obj, **said: str) -> Obj:
    return {"metadata": {"name": "p", "annotations": said}, "spec": {"containers": list(boxes)}}


def _said(pod: Obj, node: Obj, *held: Held) -> str:
    """Its cards, or why not."""
    found = answer(pod, [("n", node)], {"n": [(h,) for h in held]})
    if found.chosen is None:
        assert found.fits == 0
        return found.refused["n"]
    assert (found.fits, dict(found.refused)) == (1, {})
    return " ".join(f"{h.uuid}:{h.memory}:{h.cores}" for of_box in found.chosen.containers for h in of_box)


USE, NO = f"{N}use-gputype", f"{N}nouse-gputype"
USE_ID, NO_ID = f"{N}use-gpuuuid", f"{N}nouse-gpuuuid"


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({USE: "h100"}, "GPU-1:10:0"),
        ({USE: "A100, nvidia-h"}, "GPU-1:10:0"),
        ({USE: "A100,"}, "2/2 CardTypeMismatch"),
        ({USE: ""}, "GPU-1:10:0"),
        ({NO: "H100"}, "2/2 CardTypeMismatch"),
        ({NO: "A100"}, "GPU-1:10:0"),
        ({USE: "h100", NO: "100"}, "2/2 CardTypeMismatch"),
        ({USE_ID: "GPU-0"}, "GPU-0:10:0"),
        ({USE_ID: "x, GPU-0"}, "GPU-0:10:0"),
        ({USE_ID: "gpu-0"}, "2/2 CardUuidMismatch"),
        ({NO_ID: "GPU-1"}, "GPU-0:10:0"),
        ({NO_ID: "GPU-1 ,GPU-0"}, "2/2 CardUuidMismatch"),
        ({USE_ID: "GPU-0", NO_ID: "GPU-0"}, "2/2 CardUuidMismatch"),
    ],
)
def test_cards_that_pods_want_or_not(said: dict[str, str], want: str) -> None:
    assert _said(_pod(_box(gpu=1, gpumem=10), **said), _node({}, {})) == want


def test_cards_that_are_out() -> None:
    pod = _pod(_box(gpu=1, gpumem=10))
    assert _said(pod, _node({}, {}, **{"hami.io/device-cordon": "GPU-1"})) == "GPU-0:10:0"
    assert _said(pod, _node({}, {}, **{"hami.io/device-cordon": "GPU-0 , GPU-1"})) == "2/2 CardCordoned"
    assert _said(pod, _node({"health": False}, {})) == "GPU-1:10:0"
    assert _said(pod, _node({"health": False}, **{"hami.io/device-cordon": "GPU-0"})) == "1/1 CardNotHealth"


@pytest.mark.parametrize(
    ("box", "card", "held", "want"),
    [
        (_box(gpu=1, gpumem=10), {"count": 2}, [Held("GPU-0", 1, 0)], "GPU-0:10:0"),
        (_box(gpu=1, gpumem=10), {"count": 1}, [Held("GPU-0", 1, 0)], "1/1 CardTimeSlicingExhausted"),
        (_box(gpu=1, gpumem=100), {}, [], "GPU-0:100:0"),
        (_box(gpu=1, gpumem=100), {}, [Held("GPU-0", 1, 0)], "1/1 CardInsufficientMemory"),
        (_box(gpu=1, gpumem=99), {}, [Held("GPU-0", 1, 0)], "GPU-0:99:0"),
        (_box(gpu=1, gpumem_percentage=50), {"devmem": 101}, [], "GPU-0:50:0"),
        (_box(gpu=1, gpumem=1, gpucores=60), {}, [Held("GPU-0", 1, 40)], "GPU-0:1:60"),
        (_box(gpu=1, gpumem=1, gpucores=61), {}, [Held("GPU-0", 1, 40)], "1/1 CardInsufficientCore"),
        (
            _box(gpu=1, gpumem=1, gpucores=100),
            {},
            [Held("GPU-0", 1, 0)],
            "1/1 ExclusiveDeviceAllocateConflict",
        ),
        (_box(gpu=1, gpumem=1, gpucores=100), {}, [], "GPU-0:1:100"),
        (_box(gpu=1, gpumem=1, gpucores=100), {"devcore": 200}, [Held("GPU-0", 1, 0)], "GPU-0:1:100"),
        (_box(gpu=1, gpumem=1), {}, [Held("GPU-0", 1, 100)], "1/1 CardComputeUnitsExhausted"),
        (_box(gpu=1, gpumem=1), {}, [Held("GPU-0", 1, 99)], "GPU-0:1:0"),
        (_box(gpu=1, gpumem=1), {"devcore": 0}, [], "GPU-0:1:0"),
        (_box(gpu=1, gpumem=1), {}, [Held("elsewhere", 100, 100)], "GPU-0:1:0"),
        (_box(gpu=1, gpumem=1, gpucores=100), {}, [], "GPU-0:1:100"),
        (
            _box(gpu=1, gpumem=1, gpucores=100),
            {},
            [Held("GPU-0", 1, 0)],
            "1/1 ExclusiveDeviceAllocateConflict",
        ),
        (_box(gpu=1, gpumem=1, gpucores=99), {}, [Held("GPU-0", 1, 1)], "GPU-0:1:99"),
        (_box(gpu=1, gpumem=1, gpucores=100), {"devcore": 101}, [Held("GPU-0", 1, 1)], "GPU-0:1:100"),
    ],
)
def test_room_on_a_card(box: Obj, card: Obj, held: list[Held], want: str) -> None:
    assert _said(_pod(box), _node(card), *held) == want


def test_cards_alone() -> None:
    mutex = {"hami.io/gpu-scheduler-policy": "mutex"}
    box = _box(gpu=1, gpumem=10)
    assert _said(_pod(box, **mutex), _node({}, {}), Held("GPU-1", 1, 0)) == "GPU-0:10:0"
    busy = (Held("GPU-1", 1, 0), Held("GPU-0", 1, 0))
    assert _said(_pod(box, **mutex), _node({}, {}), *busy) == "2/2 ExclusiveDeviceAllocateConflict"
    both = {"hami.io/gpu-scheduler-policy": "binpack,mutex"}
    assert _said(_pod(box, **both), _node({}, {}), *busy) == "2/2 ExclusiveDeviceAllocateConflict"
    assert (
        _said(_pod(box, **{"hami.io/gpu-scheduler-policy": "binpack"}), _node({}, {}), *busy) == "GPU-1:10:0"
    )


def test_several_containers_share_a_node() -> None:
    two, one = _box(gpu=2, gpumem=60), _box(gpu=1, gpumem=40)
    assert _said(_pod(two, one), _node({}, {})).count("GPU") == 3
    assert _said(_pod(two, one, one, one), _node({}, {})) == "2/2 CardInsufficientMemory"
    assert _said(_pod(_box(gpu=3)), _node({}, {})) == "NodeInsufficientDevice"
    assert _said(_pod(two), _node({}, {}), Held("GPU-0", 50, 0)) == (
        "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientMemory"
    )


def test_of_nodes_the_fullest_or_the_emptiest() -> None:
    """By count, cores and memory in use: ten times the sum of the shares."""
    node = _node({"count": 10}, {"count": 10})
    nodes = [(name, node) for name in ("c", "a", "b")]
    held = {"a": [(Held("GPU-0", 20, 10),)], "b": [(Held("GPU-0", 50, 0), Held("GPU-1", 0, 0))]}
    scores = {
        "a": 10 * (Fraction(1, 20) + Fraction(10, 200) + Fraction(20, 200)),
        "b": 10 * (Fraction(2, 20) + Fraction(0) + Fraction(50, 200)),
        "c": Fraction(0),
    }
    box = _box(gpu=1, gpumem=1)
    for said, want in (
        ({}, "b"),
        ({"hami.io/node-scheduler-policy": "spread"}, "c"),
        ({"hami.io/node-scheduler-policy": "x"}, "b"),
    ):
        found = answer(_pod(box, **said), nodes, held)
        assert found.chosen is not None
        assert (found.chosen.node, found.chosen.score, found.fits) == (want, scores[want], 3)
    same = answer(_pod(box), nodes, {})
    assert same.chosen is not None and same.chosen.node == "a", "the first by name"
    for count, cores, memory in product((0, 1), repeat=3):
        bare = _node({"count": 10 * count, "devcore": 100 * cores, "devmem": 100 * memory})
        found = answer(_pod(_box(gpu=1, gpumem=0)), [("n", bare)], {"n": [(Held("GPU-0", 0, 50),)]})
        if found.chosen is not None:
            want = 10 * (Fraction(1, 10) + Fraction(1, 2)) if count and cores and memory else 0
            assert found.chosen.score == want
