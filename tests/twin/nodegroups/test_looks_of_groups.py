"""What calls for a loop of the Cluster Autoscaler, whose turn it is, and what a loop counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from groupsworld import S, World, group, kind, pod
from test_stories_of_groups import request, template

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj
from fairway.kube.provisioningrequests import CHECK_CAPACITY, REQUEST
from fairway.twin.nodegroups import metrics
from fairway.twin.nodegroups.backoffs import Backoff
from fairway.twin.nodegroups.component import _frees, _lets_others_go
from fairway.twin.nodegroups.removals import STATUS
from fairway.twin.provisioner.cloud import Shortage
from fairway.twin.twin import EPOCH_US

SMALL = kind("m")
Act = Callable[[World], object]


def a_pod(phase: str = "", on: str = "", **meta: str) -> Obj:
    spec, status = {"nodeName": on} if on else {}, {"phase": phase} if phase else {}
    return {"metadata": {"name": "p", "labels": meta}, "spec": spec, "status": status}


FREES: dict[str, tuple[Obj | None, Obj, bool]] = {
    "comes without a node": (None, a_pod("Pending"), False),
    "comes with one": (None, a_pod("Pending", "n"), True),
    "is bound": (a_pod("Pending"), a_pod("Pending", "n"), True),
    "begins": (a_pod("Pending", "n"), a_pod("Running", "n"), False),
    "begins, nothing said before": (a_pod("", "n"), a_pod("Pending", "n"), False),
    "says something else": (a_pod("Running", "n"), a_pod("Running", "n", a="b"), False),
    "ends well": (a_pod("Running", "n"), a_pod("Succeeded", "n"), True),
    "fails": (a_pod("Running", "n"), a_pod("Failed", "n"), True),
    "fails without a node": (a_pod("Pending"), a_pod("Failed"), True),
    "over, says something else": (a_pod("Failed", "n"), a_pod("Failed", "n", a="b"), False),
}


@pytest.mark.parametrize("name", FREES)
def test_which_changes_of_pods_call_for_a_loop(name: str) -> None:
    old, new, does = FREES[name]
    change = Change(1, ADDED if old is None else MODIFIED, Key("Pod", "d", "p"), new, old)
    assert _frees(change) is does


@pytest.mark.parametrize(("on", "does"), [("", False), ("n", True)])
def test_a_pod_that_goes_calls_for_a_loop_where_it_held_a_node(on: str, does: bool) -> None:
    held = a_pod("Running", on)
    assert _frees(Change(1, DELETED, Key("Pod", "d", "p"), held, held)) is does


def budget(most: int = 0, **status: int) -> Obj:
    spec = {"maxUnavailable": most, "selector": {"matchLabels": {"app": "x"}}}
    meta = {"name": "b", "namespace": "d"}
    return {"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": 0, **status}}


def test_which_changes_of_budgets_call_for_a_loop() -> None:
    key = Key("PodDisruptionBudget.policy", "d", "b")
    assert _lets_others_go(Change(1, ADDED, key, budget(), None))
    assert _lets_others_go(Change(1, DELETED, key, budget(), budget()))
    assert not _lets_others_go(Change(1, MODIFIED, key, budget(), budget()))
    assert not _lets_others_go(Change(1, MODIFIED, key, budget(observedGeneration=2), budget()))
    assert _lets_others_go(Change(1, MODIFIED, key, budget(disruptionsAllowed=1), budget()))


def said(world: World, *reasons: str) -> list[tuple[float, str, str]]:
    """What the autoscaler said of pods and requests: when, of whom, why."""
    records = world.twin.host.log.records()
    found = [r for r in records if r.component == "cluster-autoscaler" and r.kind in ("Pod", REQUEST)]
    return [((r.time_us - EPOCH_US) / S, r.name, r.reason) for r in found if r.reason in reasons]


def asking(shape: str, *names: str, of_class: str = CHECK_CAPACITY, count: int = 1) -> list[Obj]:
    return [request(name, of_class, shape, count) for name in names]


TURNS: dict[str, tuple[list[tuple[float, list[Obj]]], list[str]]] = {
    # Whoever was not served by the last one that had to choose; a request alone was served, too.
    "both at first": ([(20, [pod("p", "30"), *asking("huge", "r")])], ["p", "r", "p"]),
    "a pod before": (
        [(20, [pod("p", "30")]), (31, [pod("q", "30"), *asking("huge", "r")])],
        ["p", "r", "p", "q"],
    ),
    "a request before": (
        [(20, asking("huge", "r")), (31, [pod("q", "30"), *asking("huge", "s")])],
        ["r", "q", "s", "q"],
    ),
    "a pod before, in vain looked for": (
        [(20, [pod("p", "30")]), (31, [pod("q", "30")]), (42, [*asking("huge", "r")])],
        ["p", "p", "q", "r", "p", "q"],
    ),
}


@pytest.mark.parametrize("name", TURNS)
def test_pods_and_requests_take_turns(name: str) -> None:
    """Source: wrapper_orchestrator.go ScaleUp."""
    asked, want = TURNS[name]
    world = World(group("one", SMALL, size=1), provisioning_requests=True, scale_down=False)
    world.apply(template("huge", "30"))
    for at_s, objects in asked:
        world.until(at_s).apply(*objects)
    world.until(55)
    seen = [who for _, who, _ in said(world, "NotTriggerScaleUp", "CapacityIsNotFound")]
    assert seen == want


def test_a_loop_that_may_not_grow_is_nobodys_turn() -> None:
    """There are nodes enough: neither that pods wait, nor that it is said to them, is their turn."""
    world = World(
        group("one", SMALL, size=1), provisioning_requests=True, scale_down=False, max_nodes_total=1
    )
    world.apply(template("huge", "30"), pod("p", "30"))
    world.until(31)
    assert {who for _, who, _ in said(world, "NotTriggerScaleUp")} == {"p"}
    assert not world.part.requests.has_turn


# What is changed, and whether a request that found no room is looked at again for it.
CHANGES: dict[str, tuple[Act, bool]] = {
    "nothing": (lambda w: None, False),
    "a pod that goes": (lambda w: w.delete(Key("Pod", "default", "held")), True),
    "a pod that says something": (
        lambda w: (
            w.twin.store.patch(Key("Pod", "default", "held"), {"metadata": {"labels": {"a": "b"}}}),
            w.twin.wake(),
        ),
        False,
    ),
    "a node that goes": (lambda w: w.delete(Key("Node", "", "other-0002")), True),
    "another request": (lambda w: w.apply(*asking("none", "new")), False),
    "another request that goes": (lambda w: w.delete(Key(REQUEST, "default", "booked")), True),
    "a template": (lambda w: w.apply(template("new", "1")), False),
    "a template that goes": (lambda w: w.delete(Key("PodTemplate", "default", "unused")), True),
    "a budget": (
        lambda w: w.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **budget_of_nobody()}),
        False,
    ),
}


def budget_of_nobody() -> dict[str, Any]:
    meta = {"name": "b", "namespace": "default"}
    return {"metadata": meta, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "x"}}}}


@pytest.mark.parametrize("name", CHANGES)
def test_a_request_in_vain_is_tried_again_once_the_cluster_is_another(name: str) -> None:
    """A minute after it was tried; where nothing changes, never."""
    act, again = CHANGES[name]
    world = World(
        group("one", SMALL, size=1, most=1),
        group("other", SMALL, size=1, most=1, labels={"of": "other"}),
        provisioning_requests=True,
        scale_down=False,
    ).until(65)
    world.apply(pod("held", nodeName="one-0001"))
    world.apply(template("shape", "3"), template("none", "30"), template("unused", "1"))
    world.apply(*asking("shape", "booked")).until(75).apply(*asking("none", "vain")).until(100)
    assert [who for _, who, _ in said(world, "Accepted")] == ["booked", "vain"]
    at_s = said(world, "Accepted")[1][0]
    act(world)
    world.until(at_s + 59)
    assert "vain" not in [who for _, who, _ in said(world, "Accepted")][2:]
    world.until(at_s + 75)
    tried = [round(when, 3) for when, who, _ in said(world, "Accepted") if who == "vain"]
    assert tried[1:] == ([round(at_s + 60, 3)] if again else [])


def test_the_more_important_pods_take_the_room_there_is() -> None:
    """On a machine that comes, though it was asked for on account of others, with an earlier name."""
    world = World(group("one", SMALL, most=1), scale_down=False).until(5)
    world.apply(pod("a")).until(15)
    assert [who for _, who, _ in said(world, "TriggeredScaleUp")] == ["a"]
    world.apply(pod("b", priority=7), pod("c", priority=9), pod("d", priority=-3)).until(25)
    assert sorted({who for _, who, _ in said(world, "NotTriggerScaleUp")}) == ["a", "b", "d"]


def test_machines_that_were_refused_run_nowhere() -> None:
    """Until the cloud has said no they are awaited, but of those that it may give out none is among them."""
    one, two = ({"topology.kubernetes.io/zone": zone} for zone in ("z1", "z2"))
    world = World(
        group("one", SMALL),
        group("two", SMALL, zone="z2"),
        shortages=[Shortage("m", "z1"), Shortage("m", most=1)],
        expanders=("most-pods",),
    ).until(5)
    world.apply(pod("a", nodeSelector=one), pod("b", nodeSelector=one), pod("c", nodeSelector=two)).until(18)
    assert list(world.part.coming) == ["one-0001", "one-0002", "two-0003"]
    assert list(world.part._refused) == ["one-0001", "one-0002"]
    world.until(100)
    assert [n["metadata"]["name"] for n in world.twin.store.objects("Node")] == ["two-0003"]


def test_words_are_about_the_objects_that_are_there() -> None:
    """Each event bears its object's uid: of pods, of nodes that come and go by themselves, of the status."""
    world = World(group("one", SMALL, 1, 3, 2), unneeded_us=120 * S, delay_after_add_us=0).until(70)
    store = world.twin.store
    world.apply(pod("a", "30"), pod("b"), pod("c"), pod("d", run="10s"))
    world.until(100).delete(Key("Node", "", "one-0001")).until(400)
    uids: dict[Key, set[str]] = {}
    for change in store.log.since(0):
        uids.setdefault(change.key, set()).add(change.obj["metadata"]["uid"])
    told = [t for t in world.twin.host.events.told() if t.component.startswith(("cluster-", "cloud-"))]
    assert {t.about.gk for t in told} == {"Pod", "Node", "ConfigMap"}
    assert [t for t in told if t.uid not in uids[t.about]] == []


def test_a_group_that_lost_one_and_has_its_least_asks_for_none() -> None:
    """Nothing was added, and a counter that never counted is not there."""
    world = World(group("one", SMALL, 1, 3, 2)).until(70)
    world.delete(Key("Node", "", "one-0002")).until(75)
    assert (world.part.targets, list(world.part.coming)) == ({"one": 1}, [])
    name = "cluster_autoscaler_scaled_up_nodes_total"
    assert name not in {s.name for s in metrics.samples(world.part)}
    world.delete(Key("Node", "", "one-0001")).until(76)
    assert (world.part.targets, list(world.part.coming)) == ({"one": 1}, ["one-0003"])
    assert [s.value for s in metrics.samples(world.part) if s.name == name] == [1]


def status(world: World) -> str:
    found: str = world.twin.store.require(STATUS)["data"]["status"]
    return found


def test_a_group_may_grow_a_moment_after_its_backoff_is_over() -> None:
    """A loop at its last moment still finds it in backoff, and calls for another. Source: exponential_backoff.go."""
    short = Shortage("m", until_us=EPOCH_US + 60 * S)
    world = World(group("one", SMALL), shortages=[short], backoff_us=301 * S)
    world.apply(pod("a")).until(60)
    until_s = (world.part.backoffs["one"].until_us - EPOCH_US) // S
    world.until(until_s - 3).twin.store.patch(
        Key("Pod", "default", "a"), {"metadata": {"labels": {"a": "b"}}}
    )
    world.twin.wake()
    world.until(until_s)
    assert world.part._scanned_us == world.twin.now_us
    assert (world.part.targets, world.part._in_backoff) == ({"one": 0}, ("one",))
    assert "status: Backoff" in status(world)
    world.until(until_s + 9)
    assert world.part.targets == {"one": 0}
    world.until(until_s + 10)
    assert (world.part.targets, world.part._in_backoff) == ({"one": 1}, ())
    assert "status: Backoff" not in status(world)


def test_a_group_grows_for_pods_that_would_rather_be_elsewhere() -> None:
    zone = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z2"]}]}
    rather = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": zone}]}
    world = World(group("one", SMALL)).apply(pod("a", affinity={"nodeAffinity": rather})).until(30)
    assert world.part.targets == {"one": 1}


@pytest.mark.parametrize(("most", "grows"), [(0, True), (2, False), (3, True)])
def test_what_is_asked_counts_the_nodes_there_and_those_that_come(most: int, grows: bool) -> None:
    world = World(group("one", SMALL, size=1, most=5), max_nodes_total=most, scale_down=False).until(65)
    world.apply(pod("a", nodeName="one-0001"), pod("b")).until(80)
    assert (len(world.part.nodes()), len(world.part.coming)) == (1, 1)
    asked = pod("asked")
    asked["metadata"]["uid"] = "asked"
    assert bool(world.part.asked([asked]).resizes) is grows


def test_nothing_goes_while_pods_are_new() -> None:
    """The loop that a new pod starts removes nobody, though somebody's time is over; the next one does."""
    world = World(group("one", SMALL, size=1, most=1), unneeded_us=59 * S, delay_after_add_us=0).until(20)
    since_s = (world.part.since_us["one-0001"] - EPOCH_US) / S
    world.until(since_s + 59.5).apply(pod("huge", "30")).until(since_s + 60)
    assert (world.part._scanned_us - EPOCH_US) / S == since_s + 59.5
    assert not world.part.removals.going
    world.until(since_s + 69.5)
    assert list(world.part.removals.going) == ["one-0001"]


@pytest.mark.parametrize(("ends_s", "is_over"), [(-1e-6, True), (0, False), (1e-6, False)])
def test_a_machine_that_comes_ends_a_backoff_that_is_over(ends_s: float, is_over: bool) -> None:
    """Its group has not failed then: the next backoff is a first one again."""
    world = World(group("one", SMALL)).until(30)
    part, now_us = world.part, world.twin.now_us
    part.coming["one-0007"] = ("one", now_us)
    part.backoffs["one"] = Backoff(now_us + round(ends_s * S), 300 * S, "x")
    part._on_boot("one-0007")
    assert ("one" not in part.backoffs) is is_over
    assert not part.coming


def test_a_machine_that_takes_no_time_is_there_at_once() -> None:
    world = World(group("one", SMALL), boot_s=0).apply(pod("a")).until(30)
    (asked,) = [r for r in world.twin.host.log.records() if r.reason == "TriggeredScaleUp"]
    (node,) = world.twin.store.objects("Node")
    (came,) = [c for c in world.twin.store.log.since(0) if c.key.gk == "Node" and c.type == ADDED]
    assert came.obj["metadata"]["creationTimestamp"] == "2026-01-05T00:00:11Z"
    assert (asked.time_us - EPOCH_US, node["metadata"]["name"]) == (11 * S, "one-0001")
    launches = world.twin.host.launches
    assert (launches.booting, launches.launched_us("one-0001")) == ({}, asked.time_us)


def test_what_cannot_go_calls_for_no_loop() -> None:
    """An empty node of a group that has its least, however long."""
    world = World(group("one", SMALL, 1, 3, 1), unneeded_us=60 * S, delay_after_add_us=0).until(1000)
    assert (world.part._scanned_us, world.part.kept) == (EPOCH_US + 10 * S, {})
    assert list(world.part.since_us) == ["one-0001"]


@pytest.mark.parametrize("longer_us", [-1, 0, 1])
def test_nothing_goes_while_the_autoscaler_rests(longer_us: int) -> None:
    """After it added a node: what is unneeded for long enough waits, and goes at the first loop after."""
    parts = [group("one", SMALL, size=1, most=1), group("two", kind("xl", 16), most=1)]

    def begun(rest_us: int) -> World:
        world = World(*parts, unneeded_us=20 * S, delay_after_add_us=rest_us).until(5)
        return world.apply(pod("large", "12")).until(40)

    first = begun(300 * S).part
    at_us = first._scanned_us + 100 * S
    world = begun(at_us - first._added_us + longer_us)
    assert world.part.rests_until_us() == at_us + longer_us
    world.until((at_us - EPOCH_US) / S - 1e-6)
    assert not world.part.removals.going
    world.until((at_us - EPOCH_US) / S)
    assert list(world.part.removals.going) == (["one-0001"] if longer_us <= 0 else [])
    world.until((at_us - EPOCH_US) / S + 10)
    assert list(world.part.removals.going) == (["one-0001"] if longer_us > 0 else [])


@pytest.mark.parametrize(("below", "grows"), [(0, True), (1, False)])
def test_a_pod_without_a_priority_has_none(below: int, grows: bool) -> None:
    world = World(group("one", SMALL), expendable_below=below).apply(pod("a")).until(30)
    assert world.part.targets == {"one": int(grows)}
