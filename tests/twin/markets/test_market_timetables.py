"""Which machines are taken back, when, and who is told: every note of small markets."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import Host
from fairway.twin.distributions import constant
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import NONE
from fairway.twin.markets.component import SpotMarket, is_spot
from fairway.twin.markets.plan import Hazard, Interruption, Market
from fairway.twin.twin import EPOCH_US, Twin

S = SECOND_US


class Listener:
    """Hears of notices, and does something about those of nodes of its own."""

    name = "listener"
    kinds: tuple[str, ...] = ()

    def __init__(self, own: str) -> None:
        self.own, self.heard = own, list[tuple[int, str, str]]()

    def attach(self, host: Host) -> None:
        self.host = host

    def start(self) -> None: ...

    def observe(self, change: Change) -> None: ...

    def fork(self) -> Listener:
        return Listener(self.own)

    def _hear(self, what: str, node: str) -> None:
        self.heard.append(((self.host.loop.now_us - EPOCH_US) // S, what, node))

    def spot_notice(self, node: str) -> bool:
        self._hear("notice", node)
        return node == self.own

    def spot_hint(self, node: str) -> None:
        self._hear("hint", node)


def node(name: str, kind: str = "g5.xlarge", zone: str = "a", capacity: str = "spot") -> Obj:
    labels = {
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": zone,
        "karpenter.sh/capacity-type": capacity,
    }
    status = {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


class World:
    def __init__(self, market: Market, *nodes: Obj, own: str = "") -> None:
        self.market, self.listener = SpotMarket(market), Listener(own)
        parts: list[Any] = [Faults(), Kubelet(), self.market, self.listener]
        self.twin = Twin(seed=1, latency=NONE, components=parts, keep_records=1000)
        self.twin.apply(nodes)

    def until(self, at_s: int) -> World:
        self.twin.run(EPOCH_US + at_s * S)
        return self

    def noted(self) -> list[tuple[int, str, str]]:
        """Of the market, and of machines that shut down."""
        names = ("SpotInterruption", "RebalanceRecommendation", "NodeShutdown", "NodeRemoved", "Shutdown")
        return [
            ((r.time_us - EPOCH_US) // S, r.name, r.reason)
            for r in self.twin.host.log.records()
            if r.component == "market" or r.reason in names
        ]

    def there(self) -> list[str]:
        return [n["metadata"]["name"] for n in self.twin.store.objects("Node")]


def test_a_recorded_interruption_takes_the_oldest_that_it_concerns() -> None:
    recorded = (
        Interruption(EPOCH_US + 100 * S, "g5.*", "a", 1),
        Interruption(EPOCH_US + 150 * S, "g5.*", "*", 2),
        Interruption(EPOCH_US + 400 * S, "*", "*", None),
    )
    world = World(Market(recorded=recorded, notice_us=120 * S))
    for at, one in enumerate(
        [
            *(node("z"), node("y"), node("other", kind="p5.large"), node("far", zone="b")),
            *(node("x"), node("kept", capacity="on-demand")),
        ]
    ):
        world.until(at * 10)
        world.twin.apply([one])
    notices = {100: ["z"], 150: ["y", "far"], 400: ["other", "x"]}
    world.until(600)
    assert [n for n in world.noted() if n[2] == "SpotInterruption"] == [
        (at, name, "SpotInterruption") for at, names in notices.items() for name in names
    ]
    assert (world.market.taken, world.market.noticed, world.there()) == (5, {}, ["kept"])
    assert world.listener.heard == [(at, "notice", name) for at, names in notices.items() for name in names]


@pytest.mark.parametrize(("at_s", "there"), [(129, ["n"]), (130, [])])
def test_a_notice_lasts_as_long_as_it_does(at_s: int, there: list[str]) -> None:
    market = Market(recorded=(Interruption(EPOCH_US + 10 * S),), notice_us=120 * S)
    world = World(market, node("n")).until(at_s)
    assert (world.there(), list(world.market.noticed) != []) == (there, bool(there))


def test_what_is_before_the_start_is_now() -> None:
    world = World(Market(recorded=(Interruption(EPOCH_US - S),), notice_us=30 * S), node("n"))
    assert world.until(29).there() == ["n"] and world.until(30).there() == []


def test_machines_of_a_hazard_live_as_long_as_it_says() -> None:
    hazards = (Hazard("short", constant(50 * S), ("g5.*",), ("a", "b")), Hazard("long", constant(200 * S)))
    market = Market(hazards=hazards, notice_us=10 * S, hint_us=20 * S)
    world = World(
        market, node("a"), node("p", kind="p5.large"), node("c", zone="c"), node("free", capacity="x")
    )
    world.until(5)
    world.twin.apply([node("late", zone="b")])
    world.until(300)
    hint, notice = "RebalanceRecommendation", "SpotInterruption"
    assert [n for n in world.noted() if n[2] in (hint, notice)] == [
        *((30, "a", hint), (35, "late", hint), (50, "a", notice), (55, "late", notice)),
        # Of both hazards the first strikes; the second finds it gone.
        *((180, "p", hint), (180, "c", hint), (200, "p", notice), (200, "c", notice)),
    ]
    assert world.listener.heard == [
        *((30, "hint", "a"), (35, "hint", "late"), (50, "notice", "a"), (55, "notice", "late")),
        *((180, "hint", "p"), (180, "hint", "c"), (200, "notice", "p"), (200, "notice", "c")),
    ]
    assert (world.there(), world.market.taken) == (["free"], 4)
    assert world.market.born == {"g5.xlarge/a": 1, "p5.large/a": 1, "g5.xlarge/c": 1, "g5.xlarge/b": 1}


@pytest.mark.parametrize(("life_s", "hints"), [(20, 0), (21, 1)])
def test_a_hint_that_is_due_already_is_left_out(life_s: int, hints: int) -> None:
    hazard = Hazard("h", constant(life_s * S))
    world = World(Market(hazards=(hazard,), hint_us=20 * S), node("n")).until(100)
    assert [what for _, what, _ in world.listener.heard] == ["hint"] * hints + ["notice"]
    assert len(World(Market(hazards=(hazard,)), node("n")).until(100).listener.heard) == 1


def test_one_that_comes_again_under_its_name_is_another_machine() -> None:
    hazard = Hazard("h", constant(100 * S))
    world = World(Market(hazards=(hazard,), notice_us=10 * S, hint_us=20 * S), node("n")).until(50)
    world.twin.store.delete(Key("Node", "", "n"))
    world.twin.wake()
    world.until(60).twin.apply([node("n")])
    world.until(159)
    assert world.listener.heard == [(140, "hint", "n")] and world.market.taken == 0
    world.until(300)
    assert (world.listener.heard[1:], world.market.born) == ([(160, "notice", "n")], {"g5.xlarge/a": 2})


@pytest.mark.parametrize(("own", "shuts_down"), [("", True), ("n", False)])
def test_who_hears_of_a_notice_and_acts_spares_the_kubelet(own: str, shuts_down: bool) -> None:
    """The kubelet's graceful shutdown begins at once, unless somebody drains the node himself."""
    market = Market(recorded=(Interruption(EPOCH_US + 10 * S),), notice_us=120 * S)
    world = World(market, node("n"), own=own).until(11)
    assert world.twin.component("kubelet").nodes["n"].is_shutting_down is shuts_down  # type: ignore[attr-defined]
    none = World(Market(recorded=(Interruption(EPOCH_US + 10 * S),), notice_us=0), node("n")).until(11)
    assert none.there() == []


@pytest.mark.parametrize(
    ("label", "value", "spot"),
    [
        *(("karpenter.sh/capacity-type", "spot", True), ("karpenter.sh/capacity-type", "on-demand", False)),
        *(
            ("eks.amazonaws.com/capacityType", "SPOT", True),
            ("eks.amazonaws.com/capacityType", "spot", False),
        ),
        *(("cloud.google.com/gke-spot", "true", True), ("cloud.google.com/gke-spot", "false", False)),
        ("kubernetes.azure.com/scalesetpriority", "spot", True),
        ("kubernetes.azure.com/scalesetpriority", "regular", False),
    ],
)
def test_what_is_spot(label: str, value: str, spot: bool) -> None:
    assert is_spot({"metadata": {"labels": {label: value}}}) is spot
    assert not is_spot({"metadata": {}})


def test_a_copy_of_a_market_goes_on_alone() -> None:
    hazard = Hazard("h", constant(100 * S))
    world = World(Market(hazards=(hazard,), notice_us=60 * S), node("n")).until(120)
    fork = world.twin.fork()
    there = fork.component("market")
    assert isinstance(there, SpotMarket)
    assert (there.born, there.noticed, there.taken) == (world.market.born, world.market.noticed, 1)
    fork.run(EPOCH_US + 200 * S)
    assert (there.noticed, list(fork.store.objects("Node"))) == ({}, [])
    assert len(world.market.noticed) == 1 and world.there() == ["n"]
