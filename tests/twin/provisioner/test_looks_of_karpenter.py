"""What Karpenter remembers between its looks, what has it look again, and what is soon over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from machinesworld import KINDS, NODE_CLAIM, NODE_POOL, S, World, pod, pool

from fairway.kube.objects import Key, Obj
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND
from fairway.twin.provisioner.component import _MOST_SHAPES
from fairway.twin.twin import EPOCH_US

Act = Callable[[World], object]


def only(*names: str) -> Obj:
    """Of a pool: on-demand machines of these types."""
    wanted = ((CAPACITY_TYPE, (ON_DEMAND,)), (INSTANCE_TYPE, names))
    return {"requirements": [{"key": k, "operator": "In", "values": list(v)} for k, v in wanted]}


def run(world: World, at_s: float) -> World:
    world.twin.run(EPOCH_US + round(at_s * S))
    return world


def in_vain() -> World:
    """A large machine for a small pod, which its pool alone has nothing better for: that was looked at."""
    world = World(pool(of=only("large")), pod("stays"), pod("more", "1"))
    run(world, 200)
    assert world.part.disruption.settled.done(world.twin.now_us)
    assert list(world.part.disruption.marks.ripe) == world.names()
    return world


def _unready(world: World) -> None:
    world.patch(world.names("Node")[0], {"metadata": {"labels": {"x": "y"}}}, "Node")


LOOKS: dict[str, tuple[Act, bool]] = {
    "nothing": (lambda w: None, False),
    "a pool that is cheaper": (lambda w: w.apply(pool("q", of=only("small"))), True),
    "a pod that goes": (lambda w: w.delete("more").apply(pool("q", of=only("small"))), True),
    "a node that says something else": (_unready, False),
}


@pytest.mark.parametrize("name", LOOKS)
def test_what_has_nodes_looked_at_again_that_were_tried_in_vain(name: str) -> None:
    """Ten seconds later, and once more fifteen seconds later; where nothing changes, after five minutes."""
    act, replaced = LOOKS[name]
    world = in_vain()
    act(world)
    run(world, 224)
    assert not world.part.disruption.underway
    run(world, 226)
    assert bool(world.part.disruption.underway) is replaced


def changed(world: World) -> None:
    world.part.disruption.settled.mark({"Underutilized"}, world.twin.now_us)
    assert world.part.disruption.settled.done(world.twin.now_us)


CHANGES: dict[str, tuple[Act, bool]] = {
    "a pool that comes": (lambda w: w.apply(pool("q")), True),
    "a pool that changes": (lambda w: w.patch("p", {"spec": {"weight": 5}}, NODE_POOL), True),
    "a pool that goes": (lambda w: w.delete("p", NODE_POOL), True),
    "a pod that comes bound": (lambda w: w.apply(pod("b", "1", nodeName=w.names("Node")[0])), True),
    "a pod that is bound": (lambda w: w.patch("w", {"spec": {"nodeName": w.names("Node")[0]}}), True),
    "a pod that waits": (lambda w: w.apply(pod("b", "1", schedulingGates=[{"name": "g"}])), False),
    "a pod that says something": (lambda w: w.patch("stays", {"metadata": {"labels": {"a": "b"}}}), False),
    "a pod that goes": (lambda w: w.delete("stays"), True),
    "a pod that goes without a node": (lambda w: w.delete("w"), True),
    "a node that comes": (lambda w: w.apply(node("own")), True),
    "a node that changes": (_unready, False),
    "a claim that is written": (
        lambda w: w.patch(w.names()[0], {"metadata": {"labels": {"x": "y"}}}, NODE_CLAIM),
        False,
    ),
}


def node(name: str) -> Obj:
    held = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    status = {"capacity": held, "allocatable": held}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


@pytest.mark.parametrize("name", CHANGES)
def test_which_changes_make_it_another_cluster(name: str) -> None:
    """Source: MarkUnconsolidated, by who calls it."""
    act, is_other = CHANGES[name]
    world = World(pool(disruption={"consolidateAfter": "Never"}), pod("stays"))
    world.apply(pod("w", "1", schedulingGates=[{"name": "g"}]))
    run(world, 100)
    changed(world)
    act(world)
    run(world, 100)
    assert bool(world.part.disruption.settled.done(world.twin.now_us)) is not is_other


def test_a_drifted_node_that_pods_come_to_goes_all_the_same() -> None:
    """A pod's coming puts off that its node may be consolidated; that it drifted, and may go for that, stays."""
    closed = {"budgets": [{"nodes": "0", "reasons": ["Drifted"]}], "consolidateAfter": "1h"}
    world = World(pool(disruption=closed), pod("stays"))
    run(world, 60)
    world.patch("p", {"spec": {"template": {"metadata": {"labels": {"tier": "two"}}}}}, NODE_POOL)
    run(world, 100)
    (name,) = world.names()
    assert list(world.part.disruption.marks.ripe) == [name]
    world.apply(pod("late", "100m", nodeName=name))
    run(world, 115)
    assert list(world.part.disruption.marks.ripe) == [name]
    world.patch("p", {"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}}, NODE_POOL)
    run(world, 126)
    assert [u.nodes for u in world.part.disruption.underway] == [(name,)]


def test_of_a_node_that_goes_by_itself_nothing_is_remembered() -> None:
    """One that could go, one that rests, one that is promised: their machines are lost."""
    world = World(pool(), pod("a", run="20s"), pod("b"), kinds=KINDS[:1])
    run(world, 65)
    world.apply(pod("c", "500m"))
    run(world, 84)
    marks = world.part.disruption.marks
    names = world.names()
    assert list(marks.ripe) and list(marks._due_us) and {*marks._due_us, *marks.ripe} == {*names}
    world.part.promised = dict.fromkeys(names, world.twin.now_us + 5 * S)
    world.part.disruption.rouse()
    for name in names:
        world.delete(name, "Node")
    run(world, 85)
    assert (world.names(), marks.ripe, marks._due_us, marks._written, world.part.promised) == (
        [],
        {},
        {},
        {},
        {},
    )


@pytest.mark.parametrize("more", [0, 1])
def test_kinds_of_pods_are_remembered_up_to_a_number(more: int) -> None:
    world = World(pool())
    shapes = world.part.shapes_so_far()
    for number in range(_MOST_SHAPES + more):
        shapes.of(pod(f"p{number}"))
    assert len(shapes) == _MOST_SHAPES + more
    found = world.part.shapes_so_far()
    assert (found is shapes, len(found)) == ((True, _MOST_SHAPES) if not more else (False, 0))
    assert world.part.shapes_so_far() is found


def test_a_fleet_is_kept_while_the_same_is_out() -> None:
    part = World(pool()).part
    out = frozenset({("small", "z1", ON_DEMAND)})
    whole = part._fleet(frozenset())
    assert whole is part.whole_fleet is part._fleet(frozenset())
    less = part._fleet(out)
    assert less is part._fleet(frozenset(out)) is not whole
    (small,) = (t for t in less.types if t.name == "small")
    assert {o.capacity_type: o.available for o in small.offerings} == {"spot": True, ON_DEMAND: False}
    assert part._fleet(frozenset()) is not less


def test_a_pod_once_more() -> None:
    """One that the solver stumbled over: if it is there still, and waits for a place."""
    world = World(pod("waits"), pod("bound", nodeName="n"), pod("gated", schedulingGates=[{"name": "g"}]))
    run(world, 30)
    part = world.part
    assert part.batch is None
    for name in ("gone", "bound", "gated"):
        part.pending.clear()
        part._on_pod(Key("Pod", "default", name))
        assert (part.pending, part.batch) == ({}, None)
    part._on_pod(Key("Pod", "default", "waits"))
    assert list(part.pending) == [Key("Pod", "default", "waits")]
    assert part.batch is not None and part.batch.ends_us() == world.twin.now_us + S


def test_a_pool_once_more() -> None:
    """One that could not be read: if it can be now, whoever waits is looked at; if not, it fails as before."""
    world = World(pod("waits"))
    run(world, 30)
    part = world.part
    part._on_pool(Key(NODE_POOL, "", "gone"))
    assert part.batch is None
    world.apply(pool())
    run(world, 30)
    part.batch = None
    pools = part.known.pools()
    part._on_pool(Key(NODE_POOL, "", "p"))
    assert part.batch is not None and part.known.pools() is not pools
    world.twin.store.patch(Key(NODE_POOL, "", "p"), {"spec": {"limits": {"cpu": "x"}}})
    with pytest.raises(ValueError):
        part._on_pool(Key(NODE_POOL, "", "p"))


def test_where_pods_would_go_is_told_and_nothing_changed() -> None:
    world = World(pool(of=only("small", "large")), pod("stays"))
    run(world, 60)
    (name,) = world.names()

    def asked(*pods: Any) -> list[Any]:
        for number, one in enumerate(pods):
            one["metadata"]["uid"] = f"u{number}"
        found = world.part.asked(list(pods))
        on = [(n.name, [p.name for p in placed]) for n, placed in found.pods_on]
        return [on, [[p.name for p in c.pods] for c in found.claims], [p.name for p, _ in found.refused]]

    before = (world.twin.store.version, dict(world.part.promised), list(world.part.pending))
    assert asked(pod("fits", "500m"), pod("more", "3"), pod("huge", "90")) == [
        [(name, ["fits"])],
        [["more"]],
        ["huge"],
    ]
    assert (world.twin.store.version, dict(world.part.promised), list(world.part.pending)) == before
    # One that goes takes nobody any more.
    world.twin.store.patch(Key(NODE_CLAIM, "", name), {"metadata": {"finalizers": ["x/y"]}})
    world.delete(name, NODE_CLAIM)
    assert asked(pod("fits", "500m")) == [[], [["fits"]], []]
