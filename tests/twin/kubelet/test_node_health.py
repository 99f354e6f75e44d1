"""The node lifecycle controller: which taints, at what rate; and that nobody else's taints are touched."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from kubeletworld import S, World, container, node, pod

from fairway.kube.objects import Key, Obj
from fairway.twin.latency import NONE
from fairway.twin.nodelifecycle import FULL, NORMAL_ZONE, PARTIAL, NodeLifecycle, ready_status, zone_of

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
