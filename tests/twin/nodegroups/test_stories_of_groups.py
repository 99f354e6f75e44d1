"""Stories of node groups, told whole: each word of the autoscaler, each loop, each node, its status and its metrics.

What is told is compared with `stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from groupsworld import GPU, World, group, kind, pod, spot_taint
from tests.histories import check_history

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.provisioning.clusterautoscaler.expanders import CONFIG_MAP
from fairway.provisioning.karpenter.labels import SPOT
from fairway.twin.faults import fail_node, partition_node
from fairway.twin.provisioner.cloud import Shortage
from fairway.twin.twin import EPOCH_US

HERE = Path(__file__).parent / "stories"
SMALL, LARGE, CARDS = kind("m"), kind("xl", 16), kind("g", 8, 2)
M, S = 60, SECOND_US
ANY = [{"operator": "Exists"}]


def replica(name: str, node: str, cpu: str = "1", **spec: object) -> Obj:
    """A pod that a ReplicaSet would replace."""
    made = pod(name, cpu, nodeName=node, **spec)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def growth() -> Iterator[str]:
    """Similar groups together; the more important first; what waits for others' nodes, or is expendable, opens none."""
    world = World(
        group("one", SMALL),
        group("two", SMALL, 1, 2, 1),
        group("cards", CARDS, taints=(spot_taint(),), capacity_type=SPOT),
        balance_similar=True,
    ).until(70)
    world.apply(
        pod("b"), pod("a"), pod("late", priority=5), pod("low", priority=-11), pod("edge", priority=-10)
    )
    world.apply(pod("huge", "30"), pod("g", "1", gpu=1, tolerations=ANY))
    yield from world.until(150).told("while machines boot")
    yield from world.until(300).told("with all of them")


def sold_out() -> Iterator[str]:
    """A cloud that has one machine of three; the group is left alone for five minutes, then ten, then twenty."""
    world = World(group("one", SMALL), shortages=[Shortage("m", "z1", "on-demand", most=1)]).until(5)
    world.apply(pod("a"), pod("b"), pod("c", gpu=1))
    yield from world.until(30).told("refused")
    yield from world.until(20 * M).told("three times")


def nobody_waits() -> Iterator[str]:
    """The end of a backoff is nothing to look at where neither a pod waits nor a request that counts is there."""
    check = "check-capacity.autoscaling.x-k8s.io"
    for is_on, made in ((True, ()), (False, (template("shape", "3"), request("r", check, "shape", 1)))):
        world = World(group("one", SMALL), shortages=[Shortage("m")], provisioning_requests=is_on).until(5)
        world.apply(pod("a"), *made).until(50)
        yield from world.delete(Key("Pod", "default", "a")).until(15 * M).told("in the end")


def late() -> Iterator[str]:
    """Machines that do not register within a quarter of an hour, and what comes of them later: nothing."""
    world = World(group("one", SMALL), group("two", CARDS, most=1), boot_s=1200).until(5)
    world.apply(pod("a"), pod("b"), pod("c", "1", gpu=1))
    yield from world.until(15 * M + 20).told("not there")
    yield from world.until(15 * M + 30).told("given up")
    yield from world.until(40 * M).told("again")


def in_time_to_the_second() -> Iterator[str]:
    """A machine that is a minute on its way at a loop still has its time; at the next one it had it."""
    world = World(group("one", SMALL), boot_s=1200, max_node_provision_us=60 * S).until(5)
    world.apply(pod("a")).until(20)
    asked_s = (next(iter(world.part.coming.values()))[1] - EPOCH_US) // S
    world.until(asked_s + 60).apply(pod("huge", "30"))
    yield from world.until(asked_s + 61).told("a minute later")
    yield from world.until(asked_s + 70).told("at the next loop")


def taken_back() -> Iterator[str]:
    """Machines that go by themselves: those below the least come again."""
    world = World(group("one", SMALL, 2, 3, 3), group("none", SMALL, size=1)).until(100)
    for at, name in ((130, "one-0002"), (135, "one-0001"), (140, "none-0004")):
        world.until(at).delete(Key("Node", "", name))
    yield from world.until(150).told("a machine on its way")
    yield from world.until(400).told("in the end")


def empty() -> Iterator[str]:
    """One at a time, half a minute apart, down to the least; none soon after one was added."""
    world = World(
        *(group("one", SMALL, 1, 5, 4), group("other", CARDS, 0, 2)),
        unneeded_us=120 * S,
        delay_after_add_us=100 * S,
        delay_after_delete_us=30 * S,
        most_at_once=1,
    ).until(70)
    world.apply(pod("a", "1"), pod("b", "3"), pod("c", "1", gpu=1, run="50s"))
    yield from world.until(150).told("one goes")
    yield from world.until(900).told("in the end")


def drained() -> Iterator[str]:
    """One of them may be drained at a time; the last one's pod has no other place."""
    world = World(
        group("one", SMALL, 0, 5, 3), unneeded_us=2 * MINUTE_US, delay_after_delete_us=30 * S
    ).until(70)
    world.apply(*(replica(f"p{i}", f"one-000{i}") for i in (1, 2, 3)))
    yield from world.until(133).told("one is marked")
    yield from world.until(900).told("in the end")


def kept() -> Iterator[str]:
    """A node whose pods may not go is given back after two minutes, tried again after five more; then it goes."""
    world = World(
        group("one", SMALL, 0, 5, 3), unneeded_us=2 * MINUTE_US, delay_after_failure_us=5 * MINUTE_US
    ).until(70)
    labels = {"app": "kept"}
    for i in (1, 2):
        made = replica(f"p{i}", f"one-000{i}", f"{i}")
        made["metadata"]["labels"] = labels
        world.apply(made)
    agent = replica("agent", "one-0001", "100m")
    agent["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet"
    over = replica("over", "one-0001", "100m", priority=-20)
    world.apply(agent, over)
    yield from world.until(100).told("three nodes")
    selector = {"maxUnavailable": 0, "selector": {"matchLabels": labels}}
    meta = {"name": "all", "namespace": "default"}
    world.until(131).apply(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": selector}
    )
    yield from world.until(5 * M).told("given back")
    yield from (
        world.delete(Key("PodDisruptionBudget.policy", "default", "all")).until(30 * M).told("in the end")
    )


def stuck() -> Iterator[str]:
    """Pods that do not end: ten minutes and a half later their node is given back, and one goes while it waits."""
    world = World(group("one", SMALL, 0, 5, 2), unneeded_us=2 * MINUTE_US, most_graceful_s=60).until(70)
    for i in (1, 2):
        world.apply(replica(f"p{i}", f"one-000{i}", "500m", terminationGracePeriodSeconds=3600))
    for i in (1, 2):
        partition_node(world.twin, f"one-000{i}", world.twin.now_us + 65 * S)
    yield from world.until(4 * M).told("they do not end")
    yield from world.until(12 * M).told("given back")
    world.delete(Key("Node", "", "one-0001"))
    yield from world.until(20 * M).told("in the end")


def ill() -> Iterator[str]:
    """A node that does not answer has twenty minutes; its group is not healthy meanwhile."""
    world = World(group("one", SMALL, 0, 4, 2), unready_us=4 * MINUTE_US, delay_after_failure_us=0).until(70)
    world.apply(replica("p1", "one-0001", "3"), replica("p2", "one-0002", "500m"))
    partition_node(world.twin, "one-0002", world.twin.now_us)
    yield from world.until(3 * M).told("silent")
    yield from world.until(20 * M).told("in the end")


def many_ill() -> Iterator[str]:
    """With four of five gone nothing grows or shrinks."""
    world = World(group("one", SMALL, 0, 9, 5), unneeded_us=3 * MINUTE_US).until(70)
    for number in range(1, 5):
        fail_node(world.twin, f"one-000{number}", world.twin.now_us, 3 * MINUTE_US)
    world.until(130).apply(pod("a"), pod("b"))
    yield from world.until(3 * M).told("ill")
    yield from world.until(20 * M).told("well again")


def enough() -> Iterator[str]:
    """No more nodes than are allowed in all, those on their way among them."""
    world = World(group("one", SMALL, size=1), group("two", SMALL), max_nodes_total=3).until(70)
    world.apply(*(pod(name) for name in "abcde"))
    yield from world.until(15 * M).told("in the end")


def by_priority() -> Iterator[str]:
    """A ConfigMap says which group comes first, once it can be read."""
    world = World(group("one", SMALL), group("two", SMALL), group("three", SMALL), expanders=("priority",))
    world.apply(pod("a")).until(40)
    yield from world.told("nobody said anything")
    config: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"priorities": "high: [two]"}}
    config["metadata"] = {"name": CONFIG_MAP, "namespace": "kube-system"}
    world.until(120).apply(config, pod("b")).until(200)
    yield from world.told("not to be read")
    world.twin.store.patch(
        Key("ConfigMap", "kube-system", CONFIG_MAP), {"data": {"priorities": "5: [two]\n9: [thr.*]\n"}}
    )
    world.apply(pod("c"))
    yield from world.until(300).told("three comes first")


def comings_and_goings() -> Iterator[str]:
    """What calls for a loop: pods that wait, come to a node, end or go; not their other changes."""
    world = World(group("one", SMALL, 1, 1, 1), scale_down=False).until(65)
    world.apply(pod("first", "2", run="100s"))
    world.until(101).apply(pod("second", "2", run="100s"))
    world.until(122).twin.store.patch(Key("Pod", "default", "first"), {"metadata": {"labels": {"a": "b"}}})
    world.until(144).twin.store.patch(Key("Pod", "default", "second"), {"metadata": {"labels": {"a": "b"}}})
    world.until(155).apply(
        {**pod("gated"), "spec": {**pod("gated")["spec"], "schedulingGates": [{"name": "g"}]}}
    )
    world.until(300).delete(Key("Pod", "default", "first"))
    world.until(333).delete(Key("Pod", "default", "gated"))
    world.until(355).apply(pod("huge", "30"))
    world.until(377).delete(Key("Pod", "default", "huge"))
    yield from world.until(500).told("in the end")


def found_there() -> Iterator[str]:
    """Nodes of a cluster that was there before count for their groups; new ones have other names."""
    labels = {"eks.amazonaws.com/nodegroup": "one", "node.kubernetes.io/instance-type": "m"}
    held = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    nodes: list[Obj] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"one-000{number}", "labels": labels if number < 4 else {}},
            "status": {"capacity": held, "allocatable": held},
        }
        for number in (1, 2, 4)
    ]
    marks = [{"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}]
    nodes[1]["spec"] = {"unschedulable": True, "taints": [{"key": "own", "effect": "NoSchedule"}, *marks]}
    world = World(group("one", SMALL, 1, 4, 1), group("two", SMALL, 0, 4, 1), before=nodes).until(20)
    yield from world.told("at first")
    world.apply(*(pod(name, tolerations=ANY) for name in "abcdef"))
    yield from world.until(300).told("in the end")


def asked_for() -> Iterator[str]:
    """ProvisioningRequests: looked at in turn with pods, tried again later every time, kept, used, and over."""
    world = World(
        group("one", SMALL, most=3, size=1), group("two", CARDS, most=1), provisioning_requests=True
    )
    world.until(65).apply(template("shape", "3"), template("huge", "30"), template("card", "1", gpu=2))
    atomic, check = "best-effort-atomic-scale-up.autoscaling.x-k8s.io", "check-capacity.autoscaling.x-k8s.io"
    world.apply(request("now", check, "shape", 1), request("not-now", check, "shape", 2))
    world.apply(request("both", atomic, "shape", 2), request("never", atomic, "huge", 1))
    world.apply(request("lost", check, "nobody", 1), request("others", "else", "shape", 1))
    world.apply(request("card", atomic, "card", 1), pod("plain"))
    yield from world.until(100).told("one after the other")
    yield from world.until(5 * M).told("tried again")
    user = pod("user")
    user["metadata"]["annotations"]["autoscaling.x-k8s.io/consume-provisioning-request"] = "now"
    half = pod("half", "100m")
    half["metadata"]["annotations"]["autoscaling.x-k8s.io/consume-provisioning-request"] = "not-now"
    yield from world.apply(user, half).until(12 * M).told("used")
    yield from world.until(30 * M).told("in the end")


def asked_in_vain() -> Iterator[str]:
    """A request while its group may not grow: it is looked at again when that is over and its own time has come."""
    world = World(
        group("one", SMALL),
        shortages=[Shortage("m", until_us=EPOCH_US + 5 * MINUTE_US)],
        provisioning_requests=True,
        request_backoff_us=6 * MINUTE_US,
        backoff_us=4 * MINUTE_US,
    ).until(5)
    world.apply(pod("a")).until(50)
    world.delete(Key("Pod", "default", "a")).apply(template("shape", "3"))
    world.apply(request("r", "best-effort-atomic-scale-up.autoscaling.x-k8s.io", "shape", 1))
    yield from world.until(5 * M).told("refused")
    yield from world.until(15 * M).told("in the end")


def long_over() -> Iterator[str]:
    """Requests that ended a week ago go; one whose template went is not kept; pods that use one open nothing."""
    world = World(group("one", SMALL, size=2), provisioning_requests=True, scale_down=False).until(65)
    atomic = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
    world.apply(template("shape", "3"), template("other", "1")).until(70)
    world.apply(request("room", atomic, "shape", 1), request("lost", atomic, "other", 1))
    world.apply(request("never", atomic, "nobody", 2))
    yield from world.until(100).told("kept")
    users = [pod(f"user-{i}", "30") for i in range(2)]
    for one in users:
        one["metadata"]["annotations"]["autoscaling.x-k8s.io/consume-provisioning-request"] = "room"
    world.apply(*users).delete(Key("PodTemplate", "default", "other"))
    yield from world.until(200).told("used")
    yield from world.delete(Key("Pod", "default", "user-0")).until(8 * 24 * 60 * M).told("a week later")
    yield from world.apply(pod("late")).until(8 * 24 * 60 * M + 120).told("when somebody comes")


def template(name: str, cpu: str, gpu: int = 0) -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": meta,
        "template": {"spec": pod("x", cpu, gpu=gpu)["spec"]},
    }


def request(name: str, of_class: str, shape: str, count: int) -> Obj:
    sets = [{"count": count, "podTemplateRef": {"name": shape}}]
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"provisioningClassName": of_class, "podSets": sets},
    }


STORIES: tuple[Callable[[], Iterator[str]], ...] = (
    *(growth, sold_out, nobody_waits, late, in_time_to_the_second, taken_back, empty, drained, kept, stuck),
    *(ill, many_ill, enough, by_priority, comings_and_goings, found_there, asked_for, asked_in_vain),
    long_over,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_nothing_else_happens(story: Callable[[], Iterator[str]]) -> None:
    check_history(HERE / f"{story.__name__}.txt", story())


@pytest.mark.parametrize("at_s", [11, 80, 131, 140, 170])
def test_a_copy_goes_on_alike(at_s: int) -> None:
    """Whatever is on its way: machines, a removal, a backoff."""
    world = World(
        *(group("one", SMALL, 0, 5, 3), group("two", CARDS)),
        shortages=[Shortage("g")],
        unneeded_us=2 * MINUTE_US,
        delay_after_delete_us=30 * S,
    ).until(10)
    world.apply(pod("g", "1", gpu=1), pod("plain", "1", run="2m"), pod("huge", "30")).until(at_s)
    fork = world.forked()
    told = [list(one.until(900).told("in the end")) for one in (fork, world)]
    assert told[0] == told[1]
    assert GPU in "".join(told[0])


def test_what_would_grow_is_told_and_nothing_changed() -> None:
    """For pods that are asked about, and are not there; also such as would rather be elsewhere, and claim devices."""
    world = World(group("one", SMALL, size=1), group("cards", CARDS, most=2)).until(70)
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z2"]}]}
    prefers = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    asked = {
        "a": pod("a", affinity={"nodeAffinity": prefers}),
        "b": pod("b"),
        "g": pod("g", "1", gpu=2),
        "huge": pod("huge", "30"),
        "claims": pod("claims", "1", resourceClaims=[{"name": "x", "resourceClaimName": "nobody"}]),
    }
    for name, one in asked.items():
        one["metadata"]["uid"] = name
    before = list(world.told("now"))
    for names, grows, helped, unhelped in (
        ("a b", "{one 0->2 (max: 3)}", "a b", []),
        ("a b g", "{cards 0->1 (max: 2)}", "a b g", []),
        ("huge a", "{one 0->1 (max: 3)}", "a", [("huge", "2 Insufficient cpu")]),
        ("claims", "{one 0->1 (max: 3)}", "claims", []),
    ):
        found = world.part.asked([asked[name] for name in names.split()])
        said = " ".join(str(r) for r in found.resizes).replace("1->3", "0->2").replace("1->2", "0->1")
        assert (said, " ".join(p.name for p in found.triggered)) == (grows, helped)
        assert [(p.name, why) for p, why in found.unhelped] == unhelped
    after = [line for line in world.told("now") if not line.startswith("looked")]
    assert after == [line for line in before if not line.startswith("looked")]
