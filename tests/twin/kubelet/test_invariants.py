"""What must hold in a twin is recounted: whoever breaks it is named with the numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kubeletworld import World, container, node, pod

from fairway.kube.objects import Key
from fairway.twin import faults, invariants
from fairway.twin.invariants import InvariantBroken
from fairway.twin.latency import NONE
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import Twin

ASKS = {"requests": {"cpu": "3"}}


def world() -> World:
    return World(pod("p", container("c", "sleep 900", resources=ASKS)), nodes=[node(), node("m")]).at(5)


def _counts_more(one: World) -> None:
    one.kubelet.nodes["n"].used["cpu"] = 3001


def _counts_nothing(one: World) -> None:
    one.kubelet.nodes["n"].used.clear()


def _has_less(one: World) -> None:
    one.kubelet.nodes["n"].allocatable = {"cpu": 2999}


def _knows_it_not(one: World) -> None:
    one.kubelet.nodes["n"].pods.clear()


def _is_nowhere(one: World) -> None:
    next(iter(one.kubelet.pods.values())).node = "nobody"


def _knows_more(one: World) -> None:
    one.kubelet.nodes["m"].pods["stranger"] = None


def _is_bound_past(one: World) -> None:
    accounts = one.twin.store.accounts
    accounts.allocatable[accounts.row_of["n"], 0] = 1


BROKEN: dict[str, tuple[Callable[[World], None], str]] = {
    "more": (_counts_more, r"node n counts {'cpu': 3001} in use, its pods ask for {'cpu': 3000}"),
    "nothing": (_counts_nothing, r"node n counts {} in use, its pods ask for {'cpu': 3000}"),
    "less": (_has_less, "node n has 3000 of 2999 cpu in use"),
    "not known": (_knows_it_not, r"default.*p.* runs on n, which does not know it"),
    "nowhere": (_is_nowhere, "runs on nobody, which does not know it"),
    "strangers": (_knows_more, "nodes know 2 pods, 1 run"),
    "bound past": (_is_bound_past, "node n is over-allocated: .* of "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_is_said(name: str) -> None:
    one = world()
    invariants.check(one.twin.host)
    breaks, said = BROKEN[name]
    breaks(one)
    with pytest.raises(InvariantBroken, match=said):
        invariants.check(one.twin.host)


@pytest.mark.parametrize("lets_off", ["is_shrunk", "unseen", "is_up", "resizes", "gone"])
def test_who_is_let_off(lets_off: str) -> None:
    """Nodes that shrank, are down, or owe a verdict, and pods that wish for more than was granted."""
    one = world()
    _is_bound_past(one)
    state = one.kubelet.nodes["n"]
    if lets_off == "is_shrunk":
        state.is_shrunk = True
    elif lets_off == "unseen":
        state.unseen = {"u": Key("Pod", "default", "x")}
    elif lets_off == "is_up":
        state.is_up = False
    elif lets_off == "gone":
        del one.kubelet.nodes["n"], one.kubelet.pods[next(iter(one.kubelet.pods))]
    else:
        wished = container("c", "sleep 900", resources={"requests": {"cpu": "12"}})
        one.twin.store.patch(Key("Pod", "default", "p"), {"spec": {"containers": [wished]}})
    invariants.check(one.twin.host)


def test_what_fits_exactly_is_none_of_it() -> None:
    one = world()
    one.kubelet.nodes["n"].allocatable = {"cpu": 3000}
    one.kubelet.nodes["n"].used["memory"] = 0
    accounts = one.twin.store.accounts
    row = accounts.row_of["n"]
    accounts.allocatable[row] = accounts.requested[row]
    invariants.check(one.twin.host)


def test_who_waits_without_a_word() -> None:
    """Not those that ended, run, wait for a node that is down or unknown, or were told why they wait."""
    one = World(nodes=[node(), node("down")])
    there = pod("runs", container("c", "sleep 900"))
    ended, away, ghost, told, silent = (
        pod(name, container("c", "sleep 1")) for name in ("e", "away", "ghost", "t", "s")
    )
    away["spec"]["nodeName"], ghost["spec"]["nodeName"] = "down", "ghost"
    for free in (told, silent):
        del free["spec"]["nodeName"]
    one.crash(0, name="down")
    one.twin.run(one.us(0.5))
    one.twin.apply([there, ended, away, ghost, told, silent])
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    one.twin.store.set_status(Key("Pod", "default", "t"), {"phase": "Pending", "conditions": [condition]})
    bare = {"type": "PodScheduled", "status": "False"}
    one.twin.store.set_status(
        Key("Pod", "default", "s"), {"phase": "Pending", "conditions": [bare, {"type": "x", "reason": "y"}]}
    )
    one.twin.run(one.us(5))
    assert invariants.unexplained(one.twin.host) == [Key("Pod", "default", "s")]
    # One that its kubelet forgot.
    uid = one.need("runs")["metadata"]["uid"]
    one.kubelet.pods.pop(uid)
    assert [key.name for key in invariants.unexplained(one.twin.host)] == ["runs", "s"]
    without = Twin(latency=NONE, components=[SchedulerComponent()])
    without.apply([silent])
    assert invariants.unexplained(without.host) == []
    invariants.check(without.host)


def test_a_partitioned_nodes_pods_are_explained() -> None:
    one = world()
    faults.partition_node(one.twin, "n", one.us(6))
    one.twin.run(one.us(7))
    one.kubelet.pods.clear()
    assert invariants.unexplained(one.twin.host) == []
