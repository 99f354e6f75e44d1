"""One look at a node that is drained: who is waited for, evicted, refused or deleted, and with how much time."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.latency import NONE
from fairway.twin.provisioner.draining import Drained, _delete, _tier, drain
from fairway.twin.twin import EPOCH_US, Twin

S = SECOND_US
NEVER = "karpenter.sh/do-not-disrupt"


def pod(
    name: str, owner: str = "ReplicaSet", priority: str = "", grace: int | None = 30, **extra: Any
) -> Obj:
    spec: dict[str, Any] = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    if priority:
        spec["priorityClassName"] = priority
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
    meta = {
        "name": name,
        "namespace": "d",
        "uid": name,
        "labels": {"app": name},
        "ownerReferences": [reference],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, **extra.pop("meta", {})},
        "spec": {**spec, **extra.pop("spec", {})},
        "status": {"phase": "Running", **extra},
    }


class World:
    def __init__(self, *pods: Obj) -> None:
        self.twin = Twin(latency=NONE)
        self.twin.store.load({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}})
        for one in pods:
            self.twin.store.load(one)

    def look(self, until_s: int | None = None) -> Drained:
        return drain(self.twin.host, "n", None if until_s is None else EPOCH_US + until_s * S)

    def named(
        self, until_s: int | None = None
    ) -> tuple[int, list[str], list[tuple[str, bool]], list[tuple[str, int]]]:
        done = self.look(until_s)
        return (
            done.waiting,
            sorted(k.name for k in done.evicted),
            [(k.name, several) for k, several in done.refused],
            [(k.name, s) for k, s in done.deleted],
        )

    def gone(self, *names: str) -> None:
        for name in names:
            self.twin.store.delete(Key("Pod", "d", name), grace_s=0)

    def grace(self, name: str) -> int | None:
        found: int | None = self.twin.store.require(Key("Pod", "d", name))["metadata"].get(
            "deletionGracePeriodSeconds"
        )
        return found


def test_four_tiers_one_after_the_other() -> None:
    """Source: terminator.go, groupPodsByPriority."""
    tiers = [
        [pod("a"), pod("b", priority="high")],
        [pod("c", "DaemonSet")],
        [pod("d", priority="system-cluster-critical"), pod("e", priority="system-node-critical")],
        [pod("f", "DaemonSet", "system-node-critical")],
    ]
    world = World(*(one for tier in reversed(tiers) for one in tier))
    left = 6
    for tier in tiers:
        names = [one["metadata"]["name"] for one in tier]
        assert world.named() == (left, names, [], [])
        # They are asked once, and the next tier only when all of this one are gone.
        assert world.named() == (left, [], [], [])
        if len(names) > 1:
            world.gone(names[0])
            assert world.named() == (left - 1, [], [], [])
        world.gone(*names[-1:])
        left -= len(names)
    assert world.look() == Drained()


WAITED: dict[str, tuple[Obj, bool]] = {
    "one that runs": (pod("p"), True),
    "one that has not begun": (pod("p", phase="Pending"), True),
    "one that ended well": (pod("p", phase="Succeeded"), False),
    "one that failed": (pod("p", phase="Failed"), False),
    "the node's own": (pod("p", "Node"), False),
    "one that tolerates it": (pod("p", spec={"tolerations": [{"key": "karpenter.sh/disrupted"}]}), False),
    "one that tolerates it with another value": (
        pod("p", spec={"tolerations": [{"key": "karpenter.sh/disrupted", "value": "x"}]}),
        True,
    ),
    "one that tolerates it whatever its value": (
        pod("p", spec={"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}),
        False,
    ),
    "one that tolerates everything": (pod("p", spec={"tolerations": [{"operator": "Exists"}]}), False),
    "one that goes": (
        pod("p", meta={"deletionTimestamp": rfc3339(EPOCH_US - 60 * S), "finalizers": ["x/y"]}),
        True,
    ),
    "one that should be gone": (
        pod("p", meta={"deletionTimestamp": rfc3339(EPOCH_US - 61 * S), "finalizers": ["x/y"]}),
        False,
    ),
}


@pytest.mark.parametrize("name", WAITED)
def test_who_is_waited_for(name: str) -> None:
    one, waited = WAITED[name]
    world = World(one, pod("other", spec={"nodeName": "m"}))
    is_going = "deletionTimestamp" in one["metadata"]
    assert world.named() == ((1, [] if is_going else ["p"], [], []) if waited else (0, [], [], []))


def test_who_may_not_go_is_named_or_left_alone() -> None:
    def budget(name: str, **spec: Any) -> Obj:
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "d", "uid": name},
            "spec": spec,
        }

    held = pod("held", meta={"annotations": {NEVER: "true"}})
    world = World(held, pod("free"), pod("guarded"), pod("twice"))
    for name, of in (("one", "guarded"), ("two", "twice"), ("three", "twice")):
        world.twin.store.load(budget(name, maxUnavailable=0, selector={"matchLabels": {"app": of}}))
    refused = [("guarded", False), ("twice", True)]
    assert world.named() == (4, ["free"], refused, [])
    world.gone("free")
    assert world.named() == (3, [], refused, [])


@pytest.mark.parametrize(
    ("until_s", "deleted", "evicted"),
    [
        # A pod of a minute is overdue from one second after `until` less a minute on; one of no time is then.
        (None, [], ["long", "none", "short"]),
        (61, [], ["long", "none", "short"]),
        (60, [], ["long", "none", "short"]),
        (59, [("long", 59)], ["none", "short"]),
        (10, [("long", 10)], ["none", "short"]),
        (9, [("long", 9), ("short", 9)], ["none"]),
        (0, [("long", 1), ("short", 1)], ["none"]),
        (-5, [("long", 1), ("short", 1), ("zero", 1)], ["none"]),
    ],
)
def test_who_would_outlive_the_node_is_deleted(
    until_s: int | None, deleted: list[tuple[str, int]], evicted: list[str]
) -> None:
    """Source: terminator.go DeleteExpiringPods; a pod that says nothing of its time is never too late."""
    pods = [pod("long", grace=60), pod("short", grace=10), pod("none", grace=None)]
    if until_s is not None and until_s <= 0:
        pods.append(pod("zero", grace=0))
    expected = sorted([*evicted, *(["zero"] if until_s == 0 else [])])
    world = World(*pods)
    assert world.named(until_s) == (len(pods), expected, [], deleted)
    for name, seconds in deleted:
        assert world.grace(name) == seconds


def test_a_deletion_that_would_outlive_the_node_is_cut_short() -> None:
    """Even of one that must not be disrupted, or whose budget refuses; whoever is gone in time is left alone."""
    late = pod(
        "late", meta={"deletionTimestamp": rfc3339(EPOCH_US + 31 * S), "finalizers": ["x/y"]}, grace=60
    )
    early = pod(
        "early", meta={"deletionTimestamp": rfc3339(EPOCH_US + 30 * S), "finalizers": ["x/y"]}, grace=60
    )
    held = pod("held", grace=40, meta={"annotations": {NEVER: "true"}})
    world = World(late, early, held, pod("plain"))
    assert world.named(30) == (4, ["plain"], [], [("held", 30), ("late", 30)])


def test_one_that_is_gone_by_then_was_not_deleted() -> None:
    world, done = World(pod("a")), Drained()
    for name, grace_s in (("gone", 5), ("a", 7)):
        _delete(world.twin.host, pod(name), grace_s, done)
    assert done == Drained(deleted=[(Key("Pod", "d", "a"), 7)])
    assert world.grace("a") == 7


@pytest.mark.parametrize(
    ("owner", "priority", "tier"),
    [
        ("ReplicaSet", "", 0),
        ("DaemonSet", "", 1),
        ("ReplicaSet", "system-cluster-critical", 2),
        ("ReplicaSet", "system-node-critical", 2),
        ("DaemonSet", "system-node-critical", 3),
        ("ReplicaSet", "own", 0),
    ],
)
def test_whose_turn_it_is(owner: str, priority: str, tier: int) -> None:
    assert _tier(pod("a", owner, priority)) == tier
