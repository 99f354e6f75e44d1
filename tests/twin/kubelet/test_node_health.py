"""The node lifecycle controller: which taints, at what rate; and that nobody else's taints are touched."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from kubeletworld import S, World, container, node, pod

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.twin.latency import NONE
from fairway.twin.nodelifecycle import FULL, NORMAL_ZONE, PARTIAL, NodeLifecycle, ready_status, zone_of
from fairway.twin.twin import EPOCH_US, Twin

OWN = [
    {"key": "nvidia.com/gpu", "effect": "NoSchedule", "value": "present"},
    {"key": "team", "effect": "PreferNoSchedule"},
]


def lifecycle(world: World) -> NodeLifecycle:
    return next(c for c in world.twin.components if isinstance(c, NodeLifecycle))


def taints(world: World, name: str = "n") -> list[Obj]:
    found: list[Obj] = world.node(name)["spec"].get("taints", [])
    return found


def keys(world: World, name: str = "n") -> list[str]:
    return [f"{t['key'].removeprefix('node.kubernetes.io/')}:{t['effect']}" for t in taints(world, name)]


def write(world: World, name: str = "n", **spec: Any) -> None:
    world.twin.store.patch(Key("Node", "", name), {"spec": spec})
    world.twin.wake()


def test_cordoning_keeps_other_taints_and_uncordoning_takes_its_own_back() -> None:
    world = World(nodes=[node(spec={"taints": OWN})]).at(10)
    assert taints(world) == OWN
    write(world, unschedulable=True)
    world.at(20)
    assert taints(world)[:2] == OWN
    assert keys(world)[2:] == ["unschedulable:NoSchedule"]
    assert taints(world)[2]["timeAdded"].endswith("00:00:10Z") or "timeAdded" in taints(world)[2]
    write(world, unschedulable=False)
    world.at(30)
    assert taints(world) == OWN
    plain = World().at(10)
    write(plain, unschedulable=True)
    plain.at(20)
    write(plain, unschedulable=None)
    plain.at(30)
    assert "taints" not in plain.node()["spec"]


@pytest.mark.parametrize(
    ("condition", "taint"),
    [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ],
)
def test_conditions_become_taints_and_go_with_them(condition: str, taint: str) -> None:
    world = World(nodes=[node(spec={"taints": OWN})]).at(10)
    key = Key("Node", "", "n")

    def say(status: str) -> None:
        there = world.node()["status"]
        others = [c for c in there["conditions"] if c["type"] != condition]
        said = {"type": condition, "status": status}
        world.twin.store.set_status(key, {**there, "conditions": [*others, said]})
        world.twin.wake()

    say("True")
    world.at(11)
    assert keys(world)[2:] == [f"{taint}:NoSchedule"]
    assert taints(world)[:2] == OWN
    say("Unknown")
    world.at(12)
    assert taints(world) == OWN
    say("True")
    world.at(13)
    say("False")
    world.at(14)
    assert taints(world) == OWN


def test_a_silent_node_gets_and_loses_only_its_own_taints() -> None:
    world = World(nodes=[node(spec={"taints": OWN}), node("m")]).at(10)
    world.crash(10, 200)
    world.at(150)
    assert taints(world)[:2] == OWN
    assert sorted(keys(world)[2:]) == ["unreachable:NoExecute", "unreachable:NoSchedule"]
    world.at(300)
    assert taints(world) == OWN
    assert keys(world, "m") == []


def test_conditions_of_a_silent_node_are_unknown_and_its_pods_not_ready() -> None:
    stays = pod("p", container("c", "sleep 100000"), tolerations=[{"operator": "Exists"}])
    world = World(stays, nodes=[node(), node("m")]).at(10)
    before = {c["type"]: c for c in world.node()["status"]["conditions"]}
    assert world.condition("Ready") == ("True", "")
    world.crash(10)
    world.at(100)
    after = {c["type"]: c for c in world.node()["status"]["conditions"]}
    assert set(before) <= set(after)
    assert {
        c["status"]
        for c in after.values()
        if c["type"] in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    } == {"Unknown"}
    ready = after["Ready"]
    assert (ready["reason"], ready["message"]) == (
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    )
    assert ready["lastTransitionTime"] > before["Ready"]["lastTransitionTime"]
    assert world.condition("Ready")[0] == "False"
    assert world.condition("PodScheduled")[0] == "True"
    assert "NodeNotReady*1" in world.said()


def test_the_state_of_a_zone_and_the_rate_of_its_taints() -> None:
    """Source: ComputeZoneState: full: none ready; partial: more than two and 55 % of it down."""
    world = World(
        latency=replace(
            NONE,
            unhealthy_zone_threshold_milli=550,
            large_cluster_size_threshold=50,
            node_eviction_rate_milli=100,
            secondary_node_eviction_rate_milli=10,
        )
    )
    controller = lifecycle(world)
    for ready, down in product(range(6), range(8)):
        if not ready:
            want = FULL
        elif down > 2 and down >= 0.55 * (down + ready):
            want = PARTIAL
        else:
            want = NORMAL_ZONE
        assert controller._state_of(ready, down) == want, (ready, down)
    assert controller._state_of(9, 11) == PARTIAL, "exactly 55 %"
    assert controller._state_of(41, 50) == NORMAL_ZONE, "54.9 %"
    rates = [controller._rate_of(state, size) for state in (NORMAL_ZONE, FULL, PARTIAL) for size in (50, 51)]
    assert rates == [100, 100, 100, 100, 0, 10]


def test_taints_are_handed_out_at_the_rate_in_each_zone_of_its_own() -> None:
    zones = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b"}
    nodes = [node(n, labels={"topology.kubernetes.io/zone": z}) for n, z in zones.items()]
    world = World(nodes=nodes, latency=replace(NONE, node_eviction_rate_milli=100))
    for name in ("a1", "a2", "b1"):
        world.crash(10, None, name)
    first: dict[str, int] = {}
    for second in range(40, 130):
        world.at(second)
        for name in zones:
            if "unreachable:NoExecute" in keys(world, name):
                first.setdefault(name, second)
    assert set(first) == {"a1", "a2", "b1"}
    assert abs(first["b1"] - first["a1"]) < 10, "zones do not wait for each other"
    assert first["a2"] - first["a1"] == 10, "one in ten seconds"


def test_zones_and_readiness_as_they_are_read() -> None:
    region, zone = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
    for labels, want in (
        ({}, ":"),
        ({region: "x"}, "x:"),
        ({zone: "x"}, ":x"),
        ({region: "r", zone: "z"}, "r:z"),
    ):
        assert zone_of({"metadata": {"labels": labels}}) == want
    assert ready_status({}) == ""
    conditions = [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "Unknown"}]
    assert ready_status({"status": {"conditions": conditions}}) == "Unknown"


def test_a_node_whose_kubelet_never_spoke_is_given_a_while() -> None:
    assert NONE.node_startup_grace_period_us == 60 * S
    world = World(nodes=[node(), node("m")]).at(1)
    world.crash(1, None, "m")
    world.twin.apply([pod("x", container("c", "sleep 1"))])
    world.at(45)
    assert world.ready("m")[0] == "True"
    world.at(120)
    assert world.ready("m") == ("Unknown", "NodeStatusUnknown")


def alone(*nodes: Obj, **rates: int) -> Twin:
    """The controller without any kubelet."""
    twin = Twin(seed=1, latency=replace(NONE, **rates), components=[NodeLifecycle()])
    twin.apply(nodes)
    return twin


def said(twin: Twin, name: str = "n") -> list[tuple[str, str]]:
    return [(e.reason, e.message) for e in twin.host.events.about(Key("Node", "", name))]


def is_ready(twin: Twin, name: str = "n") -> str:
    return ready_status(twin.store.require(Key("Node", "", name)))


def tainted(twin: Twin, name: str = "n") -> list[str]:
    found = twin.store.require(Key("Node", "", name)).get("spec", {}).get("taints") or ()
    return [f"{t['key'].removeprefix('node.kubernetes.io/')}:{t['effect']}" for t in found]


def speaking(name: str, status: str = "True", **labels: str) -> Obj:
    made = node(name, conditions=[{"type": "Ready", "status": status}])
    made["metadata"]["labels"] = labels
    return made


@pytest.mark.parametrize(("late_us", "ticks"), [(-S, 0), (-1, 0), (0, 1), (1, 1), (S, 1)])
def test_a_node_is_unknown_at_the_first_tick_after_its_grace(late_us: int, ticks: int) -> None:
    twin = alone(speaking("n"), speaking("m"))
    period_us, grace_us = NONE.node_monitor_period_us, NONE.node_monitor_grace_period_us
    tick_us = EPOCH_US + 40 * period_us
    twin.run(tick_us - grace_us + 2 * S)
    twin.host.heartbeats.stop("n", tick_us - grace_us + late_us)
    seen_us = tick_us + ticks * period_us
    twin.run(seen_us - 1)
    assert is_ready(twin) == "True" and tainted(twin) == []
    twin.run(seen_us)
    assert is_ready(twin) == "Unknown"
    assert said(twin) == [
        ("RegisteredNode", "Registered Node n in Controller"),
        ("NodeNotReady", "Node n status is now: NodeNotReady"),
    ]
    twin.run(seen_us + period_us - 1)
    assert tainted(twin) == ["unreachable:NoSchedule"]
    twin.run(seen_us + period_us)
    assert tainted(twin) == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    assert (is_ready(twin, "m"), tainted(twin, "m")) == ("True", [])


def test_who_never_spoke_is_unknown_after_its_time_to_start() -> None:
    bare = node("n", conditions=[{"type": "MemoryPressure", "status": "False", "reason": "r"}])
    twin = alone(bare, speaking("m"))
    period_us, startup_us = NONE.node_monitor_period_us, NONE.node_startup_grace_period_us
    seen_us = EPOCH_US + (startup_us // period_us + 1) * period_us
    twin.run(seen_us - 1)
    assert is_ready(twin) == "" and tainted(twin) == []
    twin.run(seen_us)
    there = twin.store.require(Key("Node", "", "n"))
    never = {
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": there["metadata"]["creationTimestamp"],
        "lastTransitionTime": rfc3339(seen_us),
    }
    kept = {
        "type": "MemoryPressure",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": rfc3339(seen_us),
    }
    assert there["status"]["conditions"] == [
        kept,
        *({"type": type_, **never} for type_ in ("Ready", "DiskPressure", "PIDPressure")),
    ]
    assert [reason for reason, _ in said(twin)] == ["RegisteredNode"], "it was not ready before"
    assert sorted(tainted(twin)) == ["unreachable:NoExecute", "unreachable:NoSchedule"]


def test_taints_follow_what_is_said() -> None:
    """Not ready is another taint than silent: one takes the other's place at the next look, without its turn."""
    twin = alone(speaking("n"), speaking("m"))
    key = Key("Node", "", "n")

    def say(status: str) -> None:
        twin.store.set_status(key, {"conditions": [{"type": "Ready", "status": status}]})
        twin.wake()
        twin.run_for(10 * S)

    twin.run_for(7 * S)
    for status, want in (
        ("False", ["not-ready:NoSchedule", "not-ready:NoExecute"]),
        ("Unknown", ["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ("False", ["not-ready:NoSchedule", "not-ready:NoExecute"]),
        ("True", []),
        ("True", []),
        ("Unknown", ["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ("True", []),
    ):
        say(status)
        assert sorted(tainted(twin)) == sorted(want), status


def test_who_is_ready_again_before_its_turn_costs_nobody_a_turn() -> None:
    names = [f"n{i}" for i in range(4)]
    twin = alone(
        *(speaking(name) for name in names), node_eviction_rate_milli=100, unhealthy_zone_threshold_milli=990
    )

    def say(name: str, status: str) -> None:
        twin.store.set_status(Key("Node", "", name), {"conditions": [{"type": "Ready", "status": status}]})
        twin.wake()

    twin.run_for(7 * S)
    for name in names[:3]:
        say(name, "False")
    twin.run_for(5 * S)
    assert [len(tainted(twin, name)) for name in names] == [2, 1, 1, 0], "one, and the next in ten seconds"
    first_us = EPOCH_US + 10 * S
    say("n1", "True")
    twin.store.delete(Key("Node", "", "n1"))
    twin.wake()
    twin.run(first_us + 10 * S - 1)
    assert len(tainted(twin, "n2")) == 1
    twin.run(first_us + 10 * S)
    assert len(tainted(twin, "n2")) == 2
    # The next one after a pause has its turn at once, and then it is ten seconds again.
    twin.run_for(30 * S)
    say("n3", "False")
    twin.apply([speaking("new"), speaking("other", "False")])
    twin.run_for(5 * S)
    assert sorted([len(tainted(twin, "n3")), len(tainted(twin, "other"))]) == [1, 2]
    twin.run_for(10 * S)
    assert [len(tainted(twin, "n3")), len(tainted(twin, "other"))] == [2, 2]


def test_a_node_that_moves_to_another_zone_counts_there() -> None:
    zone = "topology.kubernetes.io/zone"
    twin = alone(
        speaking("a", **{zone: "x"}), speaking("b", **{zone: "y"}), speaking("c", "False", **{zone: "y"})
    )
    controller = next(c for c in twin.components if isinstance(c, NodeLifecycle))
    twin.run_for(10 * S)
    assert controller._counts == {":x": [1, 0], ":y": [1, 1]}
    twin.store.patch(Key("Node", "", "a"), {"metadata": {"labels": {zone: "y"}}})
    twin.wake()
    twin.run_for(10 * S)
    assert controller._counts == {":y": [2, 1]}
    assert {name: one.state for name, one in controller.zones.items()}[":y"] == NORMAL_ZONE
    for name in ("a", "b", "c"):
        twin.store.delete(Key("Node", "", name))
        twin.wake()
        twin.run_for(10 * S)
    assert controller._counts == {} and controller._status == {}
