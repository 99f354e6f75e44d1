"""Who leaves a node and when: stops, taints, garbage; and what nobody may share, addresses."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from kubeletworld import S, World, container, latency, node, pod

from fairway.kube.objects import Key, Obj
from fairway.kube.taints import parse_taints
from fairway.kube.timestamps import rfc3339
from fairway.twin.kubelet.states import NodeState
from fairway.twin.latency import NONE
from fairway.twin.podgc import OUT_OF_SERVICE_TAINT
from fairway.twin.tainteviction import NOT_AT_ALL as NEVER
from fairway.twin.tainteviction import tolerated_for_us
from fairway.twin.twin import EPOCH_US


def test_no_two_pods_of_a_node_share_an_address() -> None:
    """One that stays keeps its address while hundreds come and go."""
    world = World(pod("stays", container("c", "sleep 100000")), nodes=[node(pods="300")]).at(1)
    mine = world.need("stays")["status"]["podIP"]
    seen = set()
    for i in range(300):
        world.twin.apply([pod(f"p{i}", container("c", "sleep 1"))])
        world.at(i + 2)
        address = world.need(f"p{i}")["status"]["podIP"]
        assert address != mine
        seen.add(address)
    assert len(seen) == 253


def test_pods_at_once_have_addresses_of_their_own_and_host_pods_the_nodes() -> None:
    pods = [pod(f"p{i}", container("c", "sleep 100")) for i in range(20)]
    world = World(*pods, pod("h", container("c", "sleep 100"), hostNetwork=True)).at(1)
    found = [world.need(f"p{i}")["status"]["podIP"] for i in range(20)]
    assert len(set(found)) == 20
    assert world.need("h")["status"]["podIP"] == world.need("h")["status"]["hostIP"]
    assert [world.need(f"p{i}")["status"]["podIPs"] for i in range(20)] == [[{"ip": ip}] for ip in found]


def test_an_address_is_given_once_until_all_are_taken() -> None:
    state = NodeState("n", "u", 1)
    given: set[str] = set()
    for _ in range(254):
        address = state.take_ip(given)
        assert address not in given
        given.add(address)
    assert state.take_ip(given) in given, "a node with more pods than addresses gives some twice"
    kept = given - {"10.0.1.77"}
    assert state.take_ip(kept) == "10.0.1.77"


# Stops: the hook, the grace, SIGKILL; sidecars last.


def stopped(grace_s: int, *containers: Obj, **extra: Any) -> list[tuple[str, int, float]]:
    """(name, exit code, seconds after the deletion) of every container that ran when its pod was deleted."""
    made = pod("p", *containers, meta={"finalizers": ["x/y"]}, **extra)
    world = World(made).at(10)
    world.delete(grace_s=grace_s)
    world.at(200)
    status = world.need()["status"]
    ends = {}
    for s in [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]:
        ended = s["state"]["terminated"]
        ends[s["name"]] = (s["name"], ended["exitCode"], ended["finishedAt"])
    at_us = {rfc3339(EPOCH_US + i * S): i for i in range(220)}
    return [(name, code, at_us[at] - 10) for name, code, at in ends.values()]


TRAP = "trap 'exit 0' TERM; sleep 100000"


@pytest.mark.parametrize(
    ("grace", "says", "hook_s", "code", "after"),
    [
        (30, {"stop": "5s"}, 0, 0, 5),
        (30, {"stop": "30s"}, 0, 0, 30),
        (30, {"stop": "31s"}, 0, 137, 30),
        (30, {"stop": "5s"}, 10, 0, 15),
        (30, {"stop": "25s"}, 10, 137, 30),
        (30, {"stop": "5s"}, 40, 137, 32),
        (1, {"stop": "2s"}, 0, 0, 2),
        (1, {"stop": "3s"}, 0, 137, 2),
    ],
)
def test_a_stop_takes_hook_and_grace(
    grace: int, says: dict[str, str], hook_s: int, code: int, after: int
) -> None:
    main = container("c", "sleep 100000")
    if hook_s:
        main["lifecycle"] = {"preStop": {"sleep": {"seconds": hook_s}}}
    found = stopped(grace, main, says=stop_says(says))
    assert found == [("c", code, after)]


def stop_says(says: dict[str, str]) -> dict[str, str]:
    return {"stop_time": says["stop"], "stop_exit_code": "0"}


# Taints.


def test_how_long_a_pod_puts_up_with_taints() -> None:
    """The shortest of all that match; a taint that none matches ends it at once."""
    own = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
    choices: list[list[Obj]] = [
        [],
        [own],
        [{**own, "tolerationSeconds": 0}],
        [{**own, "tolerationSeconds": -5}],
        [{**own, "tolerationSeconds": 7}],
        [{**own, "tolerationSeconds": 7}, own],
        [{**own, "tolerationSeconds": 9}, {**own, "tolerationSeconds": 7}],
        [{"operator": "Exists"}],
        [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        [{"key": "a", "value": "x"}],
    ]
    seconds: list[int | None] = [NEVER, None, 0, 0, 7, 7, 7, None, NEVER, NEVER]
    taint = {"key": "a", "effect": "NoExecute", "value": "y"}
    for said, want in zip(choices, seconds, strict=True):
        found = tolerated_for_us({"spec": {"tolerations": said}}, tuple(parse_taints([taint])), 300 * S)
        assert found == (want if want in (None, NEVER) else want * S), said
    silent = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    lost = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    for said, taints, want in (
        ([], [silent], 300),
        ([], [silent, lost], 300),
        ([{"operator": "Exists"}], [silent], None),
        ([{"key": silent["key"], "operator": "Exists", "tolerationSeconds": 5}], [silent, lost], 5),
        (
            [{"key": silent["key"], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 500}],
            [silent],
            500,
        ),
        ([{"key": silent["key"], "operator": "Exists", "effect": "NoSchedule"}], [silent], 300),
        ([], [silent, taint], NEVER),
    ):
        found = tolerated_for_us({"spec": {"tolerations": said}}, tuple(parse_taints(taints)), 300 * S)
        assert found == (want if want in (None, NEVER) else want * S), (said, taints)


def tainted(world: World, *taints: Obj) -> None:
    world.twin.store.patch(Key("Node", "", "n"), {"spec": {"taints": list(taints) or None}})
    world.twin.wake()


def tolerant(seconds: int | None, key: str = "a") -> Obj:
    toleration: Obj = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    if seconds is not None:
        toleration["tolerationSeconds"] = seconds
    return toleration


A, B = {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoExecute"}


def test_a_taint_evicts_when_its_time_is_over_and_taking_it_away_calls_that_off() -> None:
    def fresh() -> World:
        stays = container("c", "sleep 100000")
        return World(
            pod("now", stays),
            pod("later", stays, tolerations=[tolerant(20)]),
            pod("never", stays, tolerations=[tolerant(None)]),
        ).at(10)

    world = fresh()
    tainted(world, A)
    world.at(11)
    names = ("now", "later", "never")
    assert [world.seen(n) == "gone" or "Terminating" in world.seen(n) for n in names] == [True, False, False]
    assert "TaintManagerEviction*1" in world.said("now")
    world.at(29)
    assert "Terminating" not in world.seen("later")
    world.at(31)
    assert world.seen("later") == "gone" or "Terminating" in world.seen("later")
    assert "Terminating" not in world.at(500).seen("never")

    again = fresh()
    tainted(again, A)
    again.at(20)
    tainted(again)
    again.at(500)
    assert "Running" in again.seen("later")
    assert again.said("later").count("TaintManagerEviction*1") == 1
    told = [t.message for t in again.twin.host.events.about(Key("Pod", "default", "later"))]
    assert "Cancelling deletion of Pod default/later" in told


def test_a_taint_that_gives_way_to_one_that_is_put_up_with_for_ever_spares_the_pod() -> None:
    """Source: processPodOnNode, which calls off what is planned, and says so."""
    world = World(
        pod("p", container("c", "sleep 100000"), tolerations=[tolerant(20), tolerant(None, "b")])
    ).at(10)
    for taint, at_s in ((A, 20), (B, 500)):
        tainted(world, taint)
        world.at(at_s)
    assert "Running" in world.seen("p")
    told = world.twin.host.events.about(Key("Pod", "default", "p"))
    assert [(t.message, t.times) for t in told if t.reason == "TaintManagerEviction"] == [
        ("Cancelling deletion of Pod default/p", 1)
    ]


def test_a_second_taint_moves_nothing_that_is_planned_unless_nothing_tolerates_it() -> None:
    """Source: processPodOnNode, which leaves what is scheduled, also where the new time is shorter."""
    for second, gone_at in ((5, 30), (0, 30), (100, 30), (None, 15)):
        stays = container("c", "sleep 100000")
        world = World(
            pod("p", stays, tolerations=[tolerant(20), *([] if second is None else [tolerant(second, "b")])])
        ).at(10)
        tainted(world, A)
        world.at(15)
        tainted(world, A, B)
        if second is not None:
            world.at(gone_at - 1)
            assert "Running" in world.seen(), second
            assert "Terminating" not in world.seen(), second
        world.at(gone_at + 2)
        assert world.seen() == "gone" or "Terminating" in world.seen(), second


def test_a_pod_that_comes_to_a_tainted_node_is_looked_at_too() -> None:
    world = World().at(1)
    tainted(world, A)
    world.twin.apply([pod("p", container("c", "sleep 100000"), tolerations=[tolerant(10)])])
    world.at(5)
    assert "Running" in world.seen()
    world.at(14)
    assert world.seen() == "gone" or "Terminating" in world.seen()


def test_an_evicted_pod_says_why() -> None:
    world = World(pod("p", container("c", "sleep 100000"), meta={"finalizers": ["x/y"]})).at(5)
    tainted(world, A)
    world.at(60)
    assert world.condition("DisruptionTarget") == ("True", "DeletionByTaintManager")


# The pod garbage collector.


def ended(names: str, **meta: Any) -> list[Obj]:
    return [pod(n, container("c", "true"), meta=dict(meta)) for n in names.split()]


@pytest.mark.parametrize(("threshold", "left"), [(0, 4), (4, 4), (3, 3), (1, 1)])
def test_ended_pods_beyond_the_threshold_go_oldest_first(threshold: int, left: int) -> None:
    world = World(latency=replace(NONE, terminated_pod_gc_threshold=threshold))
    for i, name in enumerate("abcd"):
        world.at(i + 1)
        world.twin.apply(ended(name))
    world.at(100)
    assert [n for n in "abcd" if world.get(n)] == list("abcd")[4 - left :]


def test_evicted_pods_go_first_then_the_oldest_then_by_name() -> None:
    world = World(*ended("b a"), latency=replace(NONE, terminated_pod_gc_threshold=3)).at(5)
    world.twin.apply(ended("young"))
    world.at(6)
    young = world.need("young")["status"]
    world.twin.store.set_status(Key("Pod", "default", "young"), {**young, "reason": "Evicted"})
    world.twin.apply(ended("c"))
    world.at(60)
    assert [n for n in ("a", "b", "c", "young") if world.get(n)] == ["a", "b", "c"]
    world.twin.apply(ended("d"))
    world.at(120)
    assert [n for n in ("a", "b", "c", "d") if world.get(n)] == ["b", "c", "d"]


def test_a_node_that_is_gone_gets_a_quarantine() -> None:
    for back_after in (None, 30.0):
        world = World(pod("p", container("c", "sleep 100000")), *ended("done")).at(10)
        world.twin.store.delete(Key("Node", "", "n"))
        world.twin.wake()
        world.at(11)
        if back_after is not None:
            world.at(10 + back_after)
            world.twin.apply([node()])
        world.at(48)
        assert world.get("p") is not None
        world.at(200)
        assert (world.get("p") is None, world.get("done") is None) == ((back_after is None,) * 2)


def test_pods_of_a_node_declared_dead_go_once_they_are_told_to_and_it_is_not_ready() -> None:
    for is_down, is_told in product((False, True), repeat=2):
        world = World(
            pod("p", container("c", "sleep 100000"), meta={"finalizers": ["x/y"]}), latency=latency()
        ).at(10)
        if is_down:
            world.crash(11)
        world.at(90)
        store = world.twin.store
        taints = [
            *(world.node()["spec"].get("taints") or ()),
            {"key": OUT_OF_SERVICE_TAINT, "effect": "NoSchedule"},
        ]
        store.patch(Key("Node", "", "n"), {"spec": {"taints": taints}})
        if is_told:
            store.delete(Key("Pod", "default", "p"), grace_s=10_000)
        world.twin.wake()
        world.at(130)
        phase = world.need()["status"]["phase"]
        assert (phase == "Failed") == (is_down and is_told), (is_down, is_told, world.seen())
