"""What is kept of all nodes at once is what one walk over them would find, however they came to be what they are."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from karpenterworlds import GPU, kind, pod, state_node, world

from fairway.provisioning.karpenter.labels import DO_NOT_DISRUPT
from fairway.provisioning.karpenter.nodes import Nodes
from fairway.provisioning.karpenter.statenode import StateNode

SMALL, LARGE = kind("a.small", 4), kind("b.large", 16, gpu=2)
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]}


def a_node(random: Random, name: str) -> StateNode:
    pods = []
    for i in range(random.choice([0, 0, 1, 3])):
        affinity = {"podAntiAffinity": APART} if random.random() < 0.2 else {}
        annotations = {DO_NOT_DISRUPT: "true"} if random.random() < 0.2 else {}
        spec: dict[str, Any] = {"affinity": affinity, "annotations": annotations, "node": name}
        pods.append(pod(f"{name}-{i}", random.choice(["1", "2"]), **spec))
    return state_node(
        name,
        random.choice([SMALL, LARGE]),
        tuple(pods),
        owner=random.choice(["default", "other"]),
        drifted_s=random.choice([None, None, 60]),
        has_node=random.random() < 0.8,
        is_initialized=random.random() < 0.8,
        is_ready=random.random() < 0.8,
        is_marked_for_deletion=random.random() < 0.2,
        is_nominated=random.random() < 0.2,
    )


def told(nodes: Nodes) -> dict[str, Any]:
    sizes = ({"cpu": 1000}, {"cpu": 3000, "pods": 1}, {GPU: 2})
    return {
        "all": [n.name for n in nodes],
        "used": nodes.usage(),
        "standing": {p: (s.nodes, s.going) for p, s in nodes.standing.items() if s.nodes},
        "room": [sorted(n.name for n in nodes.with_room([size])) for size in sizes],
        **{f: dict(getattr(nodes, f)) for f in ("barred", "held", "apart", "empty", "drifted", "marked")},
    }


@pytest.mark.parametrize("seed", range(8))
def test_changes_one_by_one_come_to_what_a_fresh_look_finds(seed: int) -> None:
    random = Random(seed)
    nodes, there = Nodes(), {}
    for _ in range(60):
        name = f"n{random.randrange(8)}"
        if name in there and random.random() < 0.3:
            del there[name]
            nodes.drop(name)
        else:
            there[name] = a_node(random, name)
            nodes.put(there[name])
        assert told(nodes) == told(Nodes(there.values()))


def test_room_is_what_every_resource_leaves() -> None:
    full = state_node("full", SMALL, (pod("p", "4", node="full"),))
    free = state_node("free", SMALL)
    nodes = Nodes([full, free])
    assert [n.name for n in nodes.with_room([{"cpu": 1000}])] == ["free"]
    assert [n.name for n in nodes.with_room([{"cpu": 5000}])] == []
    assert nodes.with_room([]) == []


def test_room_that_was_too_small_is_found_once_there_is_more() -> None:
    sizes = [{"cpu": 3000}]
    nodes = Nodes([state_node("a", SMALL, (pod("p", "4", node="a"),))])
    assert [[n.name for n in nodes.with_room(sizes)] for _ in range(2)] == [[], []]
    assert [n.name for n in nodes.with_room([{"cpu": 0}])] == ["a"]
    nodes.put(state_node("a", SMALL, (pod("p", "1", node="a"),)))
    assert [n.name for n in nodes.with_room(sizes)] == ["a"]


def test_supply_is_another_number_whenever_something_but_pods_is_another() -> None:
    nodes = Nodes()

    def is_other(**state: Any) -> bool:
        before = nodes.supply
        nodes.put(state_node("a", **{"of": SMALL, **state}))
        return nodes.supply != before

    assert is_other()
    assert not is_other()
    assert not is_other(pods=(pod("p", node="a"),), is_nominated=True, is_ready=False, consolidatable=False)
    for state in (
        {"of": LARGE},
        {"labels": {"a": "b"}},
        {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        {"is_marked_for_deletion": True},
        {"is_initialized": False},
        {"has_node": False},
    ):
        assert is_other(**state) and is_other()
    before = nodes.supply
    nodes.drop("a")
    assert nodes.supply != before


def test_a_world_without_nodes_counts_neither_them_nor_those_that_go() -> None:
    stays, asked = (state_node(n, LARGE) for n in ("a", "c"))
    made = world([LARGE], nodes=(stays, state_node("b", LARGE, is_marked_for_deletion=True), asked))
    less = made.without_going(["c"])
    assert [n.name for n in less.staying()] == ["a"]
    assert less.used("default")["nodes"] == 1
    assert less.used("default")[GPU] == 2
    assert less.used("nobody's") == {}


def test_what_is_known_of_labels_and_pods_outlives_a_change_of_something_else() -> None:
    first, other = (pod(name, node="a") for name in ("p", "q"))
    before = state_node("a", SMALL, (first,))
    after = as_now(before, is_ready=False)
    assert (after.label_facts, after.pod_facts) == (before.label_facts, before.pod_facts)
    fuller = as_now(before, pods=(first, other))
    assert fuller.pod_facts.movable == (first, other)
    emptied = as_now(fuller, pods=())
    assert (emptied.is_empty, fuller.is_empty) == (True, False)


def as_now(before: StateNode, **state: Any) -> StateNode:
    """A node that was like this and now differs in that."""
    names = ("name", "labels", "taints", "capacity", "available", "claim_facts", "node_object", "pods")
    return StateNode(**{**{n: getattr(before, n) for n in names}, **state}, former=before)
