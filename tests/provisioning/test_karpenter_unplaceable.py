"""What is remembered of pods that found no place is what a simulation of all of them would find."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from karpenterworlds import ZONES, kind, names, pod, pool, solve, state_node, world

from fairway.kube.objects import Obj
from fairway.provisioning.karpenter.nodes import Nodes
from fairway.provisioning.karpenter.packing import Results
from fairway.provisioning.karpenter.unplaceable import Unplaceable
from fairway.provisioning.karpenter.world import World

SMALL, LARGE = kind("a.small", 4), kind("b.large", 16)
FULL = pool(limits={"nodes": "2"})
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
]


class Asked:
    """What is simulated, and for whom it was."""

    def __init__(self, made: World) -> None:
        self.world = made
        self.of: list[list[str]] = []

    def __call__(self, pods: Sequence[Obj]) -> Results:
        self.of.append([p["metadata"]["name"] for p in pods])
        return solve(self.world, list(pods))


def at_the_limit(*left: str) -> World:
    """Two nodes, of which something is left."""
    nodes = tuple(
        state_node(f"n{i}", SMALL, (pod(f"p{i}", str(4 - int(cpu)), node=f"n{i}"),))
        for i, cpu in enumerate(left)
    )
    return world([SMALL, LARGE], [FULL], nodes)


def told(results: Results) -> Any:
    placed = [(node.name, [p.name for p in pods]) for node, pods in results.pods_on]
    return names(results), placed, [(f.name, str(why)) for f, why in results.refused], results.unusable_pools


def test_only_pods_that_came_since_are_tried() -> None:
    made, known = at_the_limit("0", "0"), Unplaceable()
    asked = Asked(made)
    one, other = pod("a"), pod("b", "2")
    for waiting in ([one], [one, other], [one], [other, one]):
        assert told(known.results(made, waiting, asked)) == told(solve(made, waiting))
    assert asked.of == [["a"], ["b"]]
    known.results(made, [pod("a", "3"), other], asked)  # another pod of this name
    assert asked.of[2:] == [["a"]]


def test_room_for_one_of_them_has_all_of_them_tried() -> None:
    made, known = at_the_limit("0", "0"), Unplaceable()
    waiting = [pod("a"), pod("b", "2")]
    known.results(made, waiting, Asked(made))
    made.nodes.put(state_node("n0", SMALL, (pod("p0", "3", node="n0"),)))
    asked = Asked(made)
    assert told(known.results(made, waiting, asked)) == told(solve(made, waiting))
    assert asked.of == [["a", "b"]]


@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": SPREAD},
        {"affinity": {"podAntiAffinity": {}, "podAffinity": {"x": 1}}},
        {"container": {"ports": [{"hostPort": 80}]}},
    ],
)
def test_who_looks_at_others_is_always_tried(spec: dict[str, Any]) -> None:
    made, known = at_the_limit("0", "0"), Unplaceable()
    asked, waiting = Asked(made), [pod("a", **spec), pod("b")]
    for _ in range(2):
        known.results(made, waiting, asked)
    assert asked.of == [["a", "b"], ["a", "b"]]


@pytest.mark.parametrize("seed", range(12))
def test_it_is_what_a_simulation_of_all_finds(seed: int) -> None:
    random, known, nodes = Random(seed), Unplaceable(), Nodes()
    pools, types = [FULL, pool("other", weight=1, limits={"cpu": "20"})], [SMALL, LARGE]
    there: dict[str, Obj] = {}
    made = world(types, pools)
    for step in range(80):
        what = random.random()
        if what < 0.3:
            name = f"w{random.randrange(8)}"
            if there.pop(name, None) is None:
                zone = {"topology.kubernetes.io/zone": random.choice(ZONES)} if random.random() < 0.2 else {}
                size = random.choice(["1", "3", "30"])
                there[name] = pod(name, size, nodeSelector=zone, labels={"app": "a"})
                if random.random() < 0.05:
                    there[name]["spec"]["topologySpreadConstraints"] = SPREAD
        elif what < 0.8:
            name = f"n{random.randrange(4)}"
            if random.random() < 0.1:
                nodes.drop(name)
            else:
                full = pod(f"{name}-p", random.choice(["2", "4", "4", "4"]), node=name)
                marked = random.random() < 0.1
                owner = random.choice(["default", "other"])
                nodes.put(state_node(name, SMALL, (full,), owner=owner, is_marked_for_deletion=marked))
        if random.random() < 0.05:
            made = world(types, [*pools] if step % 2 else pools[:1])
        now = World(made.pools, made.fleets, nodes, made.daemons).without_going()
        waiting = [there[n] for n in sorted(there)]
        found = known.results(now, waiting, lambda pods, at=now: solve(at, list(pods)))
        assert told(found) == told(solve(now, waiting))
