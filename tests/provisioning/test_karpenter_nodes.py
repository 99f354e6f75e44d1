"""What is kept of all nodes at once is what one walk over them would find, however they came to be what they are."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from karpenterworlds import GPU, kind, pod, state_node, world

from fairway.kube.taints import parse_taints
from fairway.provisioning.karpenter.claimfacts import NO_CLAIM, ClaimFacts
from fairway.provisioning.karpenter.labels import DO_NOT_DISRUPT, NODEPOOL
from fairway.provisioning.karpenter.nodes import Nodes, add_usage
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


FIELDS = ("labels", "taints", "capacity", "available", "claim_facts", "node_object", "pods", "has_node")
FIELDS += ("is_initialized", "is_ready", "is_marked_for_deletion", "is_nominated")


def _changed(before: StateNode, **state: Any) -> StateNode:
    """The very same objects but for these."""
    same = {name: getattr(before, name) for name in FIELDS}
    return StateNode(before.name, **{**same, **state}, former=before)


OTHER = state_node("other", LARGE, owner="other", drifted_s=60)
SINGLE_CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, False),
    "labels of another pool": ({"labels": {**state_node("a", SMALL).labels, NODEPOOL: "other"}}, True),
    "labels said anew": ({"labels": dict(state_node("a", SMALL).labels)}, False),
    "taints": ({"taints": parse_taints([{"key": "k", "effect": "NoSchedule"}])}, True),
    "more capacity": ({"capacity": {**SMALL.capacity, "cpu": 8000}}, True),
    "capacity said anew": ({"capacity": dict(SMALL.capacity)}, False),
    "less room": ({"available": {**SMALL.allocatable, "cpu": 1}}, False),
    "a claim that drifted": ({"claim_facts": state_node("a", SMALL, drifted_s=60).claim_facts}, False),
    "another claim": ({"claim_facts": OTHER.claim_facts}, False),
    "no claim": ({"claim_facts": NO_CLAIM}, False),
    "a machine that ends": (
        {
            "claim_facts": ClaimFacts(
                {
                    "metadata": {"name": "a-claim"},
                    "status": {"conditions": [{"type": "InstanceTerminating", "status": "True"}]},
                }
            )
        },
        False,
    ),
    "a node that is not to be disturbed": (
        {"node_object": {"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}}},
        False,
    ),
    "pods": ({"pods": (pod("p", node="a", affinity={"podAntiAffinity": APART}),)}, False),
    "no node": ({"has_node": False}, True),
    "not initialized": ({"is_initialized": False}, True),
    "not ready": ({"is_ready": False}, False),
    "to go": ({"is_marked_for_deletion": True}, True),
    "promised": ({"is_nominated": True}, False),
}


@pytest.mark.parametrize("case", SINGLE_CHANGES)
def test_one_thing_that_is_another_is_all_that_is_another(case: str) -> None:
    """There and back again: what is kept is what a fresh look finds, and who waits for supply hears of it."""
    state, is_supply = SINGLE_CHANGES[case]
    first = state_node("a", SMALL)
    nodes = Nodes([first, OTHER])
    for node in (_changed(first, **state), first):
        before = nodes.supply
        nodes.put(node)
        assert told(nodes) == told(Nodes([node, OTHER]))
        assert nodes.supply == before + is_supply
        assert (len(nodes), nodes.get("a"), nodes.get("b")) == (2, node, None)
    before = nodes.supply
    nodes.drop("b")
    assert nodes.supply == before
    nodes.drop("a")
    assert (told(nodes), nodes.supply) == (told(Nodes([OTHER])), before + 1)


def test_those_that_are_there_come_by_name_before_those_on_their_way() -> None:
    made = [state_node(n, SMALL, has_node=n in "bd") for n in "dcba"]
    nodes = Nodes(made)
    assert [n.name for n in nodes] == ["b", "d", "a", "c"]
    assert [n.name for n in nodes.named(["c", "x", "d", "b"])] == ["b", "d", "c"]
    assert {name: (s.nodes, s.going) for name, s in nodes.standing.items()} == {"default": (4, 0)}


def test_usage_is_added_and_taken_and_nothing_is_not_mentioned() -> None:
    used: dict[str, dict[str, int]] = {}
    add_usage(used, "p", {"cpu": 4, "memory": 0})
    assert used == {"p": {"nodes": 1, "cpu": 4}}
    add_usage(used, "p", {"cpu": 3, GPU: 2}, 3)
    assert used == {"p": {"nodes": 4, "cpu": 13, GPU: 6}}
    add_usage(used, "p", {"cpu": 4}, -1)
    add_usage(used, "q", {"cpu": 1}, -2)
    assert used == {"p": {"nodes": 3, "cpu": 9, GPU: 6}, "q": {"nodes": -2, "cpu": -2}}
    add_usage(used, "p", {"cpu": 3, GPU: 2}, -3)
    assert used["p"] == {}
    nodes = Nodes([state_node("a", SMALL)])
    copied = nodes.usage()
    copied["default"]["cpu"] = 0
    assert nodes.used["default"]["cpu"] == 4000


def test_room_is_asked_of_each_resource_but_pods() -> None:
    node = state_node("a", SMALL)
    size = {name: node.available[name] for name in ("cpu", "memory", "pods")}
    for wanted, fits in (
        (size, True),
        ({**size, "cpu": size["cpu"] + 1}, False),
        ({**size, "pods": 999}, True),
        ({GPU: 1}, False),
        ({GPU: 0}, True),
    ):
        assert bool(Nodes([node]).with_room([{"cpu": 10**9}, wanted])) == fits
