"""Karpenter's cluster state change by change: what it says is told whole, and is what one made anew says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.histories import check_history
from tests.twin.stepwise import STORIES

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, name_of
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.world import World
from fairway.twin.provisioner.gathering import NODE_CLAIM, NODE_POOL, ClusterState

SECOND_US = 1_000_000
SPACE = {"cpu": "8", "memory": "16Gi", "pods": "20"}
UP = [{"type": t, "status": "True"} for t in ("Launched", "Registered", "Initialized")]
LATELY = "1970-01-01T00:01:00Z"


def claim(name: str, pool: str = "p", conditions: int = 3, **status: Any) -> Obj:
    labels = {"karpenter.sh/nodepool": pool, "team": "blue"}
    meta = {"name": name, "labels": labels}
    promised = {**SPACE, "nvidia.com/gpu": "2"}
    told = {"capacity": promised, "allocatable": promised, "conditions": UP[:conditions], **status}
    spec = {
        "taints": [{"key": "gpu", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "boot", "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": meta,
        "spec": spec,
        "status": told,
    }


def node(name: str, *, registered: bool = True, ready: str = "True", taints: Any = (), gpus: str = "") -> Obj:
    labels = {"karpenter.sh/nodepool": "p", "kubernetes.io/hostname": name}
    if registered:
        labels["karpenter.sh/registered"] = "true"
    amounts = {**SPACE, **({"nvidia.com/gpu": gpus} if gpus else {})}
    status = {
        "capacity": {**amounts, "cpu": "9"},
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": ready}],
    }
    meta = {"name": name, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": {"taints": list(taints)},
        "status": status,
    }


def pod(name: str, on: str, *, owner: str = "ReplicaSet", port: int = 0, cpu: str = "1") -> Obj:
    made: Obj = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    if port:
        made["ports"] = [{"containerPort": port, "hostPort": port}]
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}]
    meta = {"name": name, "namespace": "d", "ownerReferences": owners}
    spec: Obj = {"containers": [made]} | ({"nodeName": on} if on else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Running"},
    }


def pool(name: str = "p", after: str = "60s") -> Obj:
    rules = {"consolidateAfter": after, "consolidationPolicy": "WhenEmptyOrUnderutilized"}
    reference = {"group": "karpenter.fairway.dev", "kind": "FairwayNodeClass", "name": "default"}
    template = {"spec": {"requirements": [], "nodeClassRef": reference}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": rules},
    }


def told(world: World) -> Iterator[str]:
    for one in sorted(world.nodes, key=lambda n: n.name):
        flags = ("has_node", "is_initialized", "is_ready", "is_marked_for_deletion", "is_nominated")
        yield f"{one.name} of {one.claim or 'nobody'}, pool {one.pool or 'none'}: " + ", ".join(
            [flag for flag in flags if getattr(one, flag)]
        )
        yield f"  labels {dict(sorted(one.labels.items()))}"
        yield f"  taints {[(t.key, t.effect) for t in one.taints]}"
        yield f"  capacity {dict(sorted(one.capacity.items()))}"
        yield f"  available {dict(sorted(one.available.items()))}"
        yield f"  daemons {dict(sorted(one.daemon_requests.items()))}, ports {len(one.ports)}"
        yield f"  pods {[name_of(p) for p in one.pods]}, rests until {one.rests_until_us // SECOND_US} s"
    yield f"pools {[p.name for p in world.pools]}, marked {sorted(world.nodes.marked)}"
    yield f"daemons {list(world.daemons)}, namespaces {sorted(world.namespaces)}"


class Known:
    """A store, and a state that follows it."""

    def __init__(self) -> None:
        self.store = Store()
        self.store.now_us = 100 * SECOND_US
        self.state = ClusterState(self.store)
        self.going: dict[str, None] = {}
        self.nominated: dict[str, int] = {}

    def put(self, obj: Obj) -> None:
        key = self.store.create(obj)
        if "status" in obj:
            gk = f"{obj['kind']}.karpenter.sh" if "karpenter" in obj["apiVersion"] else obj["kind"]
            meta = key["metadata"]
            self.store.set_status(Key(gk, meta.get("namespace") or "", meta["name"]), obj["status"])

    def seen(self, state: ClusterState | None = None) -> list[str]:
        world = (state or self.state).world(
            Fleet(()), going=self.going, nominated=self.nominated, now_us=self.store.now_us
        )
        return list(told(world))


def a_life() -> Iterator[str]:
    """A claim that becomes a node with pods, one that never does, a node of nobody, and what is left of them."""
    known = Known()
    store, one, before = known.store, Key(NODE_CLAIM, "", "c1"), list[str]()

    def step(what: str) -> Iterator[str]:
        nonlocal before
        now = known.seen()
        assert now == known.seen(ClusterState(store)), what
        yield f"== {what}"
        yield from (line for line in now if line not in before)
        yield from (f"no longer: {line}" for line in before if line not in now and not line.startswith(" "))
        before = now

    def status(**parts: Any) -> None:
        store.set_status(one, {**store.require(one)["status"], **parts})

    known.put(pool())
    known.put(claim("c1", conditions=1))
    known.put(claim("c2", "else", conditions=0))
    yield from step("two claims")
    status(nodeName="n1")
    yield from step("the first has a node's name")
    boot = {"key": "boot", "effect": "NoSchedule"}
    known.put(node("n1", registered=False, ready="False", taints=[boot], gpus="0"))
    yield from step("its node comes")
    status(conditions=UP[:2])
    store.patch(Key("Node", "", "n1"), {"metadata": {"labels": {"karpenter.sh/registered": "true"}}})
    yield from step("it is registered")
    status(conditions=UP, lastPodEventTime=LATELY)
    yield from step("it is initialized, and had a pod lately")
    store.set_status(Key("Node", "", "n1"), node("n1", gpus="2")["status"])
    store.patch(Key("Node", "", "n1"), {"spec": {"taints": None}})
    yield from step("it is ready")
    for found in (
        pod("a", "n1"),
        pod("b", "n1", cpu="2"),
        pod("d", "n1", owner="DaemonSet", port=80),
        pod("w", ""),
    ):
        known.put(found)
    yield from step("pods come")
    store.set_status(Key("Pod", "d", "b"), {"phase": "Succeeded"})
    yield from step("one ends")
    store.patch(Key("Pod", "d", "w"), {"spec": {"nodeName": "n1"}})
    store.delete(Key("Pod", "d", "a"), grace_s=0)
    yield from step("one is bound, one goes")
    store.delete(Key("Pod", "d", "d"), grace_s=0)
    yield from step("the daemon goes")
    known.going = {"n1": None}
    yield from step("it is to go")
    known.going = {}
    known.nominated = {"n1": store.now_us + 10 * SECOND_US}
    known.state.touch("n1")
    yield from step("it is not, and is promised for ten seconds")
    store.now_us += 10 * SECOND_US
    known.nominated = {}
    yield from step("the promise is over")
    store.replace(pool(after="Never"))
    yield from step("the pool rests for ever")
    store.delete(Key(NODE_POOL, "", "p"))
    yield from step("the pool goes")
    known.put(node("own"))
    known.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x", "")["spec"]}
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "ds", "namespace": "d"}}
    known.put({**daemon, "spec": {"template": template, "selector": {"matchLabels": {"a": "b"}}}})
    yield from step("a node of nobody, a namespace, a DaemonSet")
    status(nodeName="n9")
    yield from step("the claim has another node's name")
    status(nodeName="n1")
    yield from step("and the first again")
    store.patch(one, {"metadata": {"finalizers": ["x/y"]}})
    store.delete(one)
    yield from step("the claim is going")
    store.patch(one, {"metadata": {"finalizers": None}})
    yield from step("and is gone")
    for name in ("n1", "own"):
        store.delete(Key("Node", "", name))
    store.delete(Key(NODE_CLAIM, "", "c2"))
    store.delete(Key("DaemonSet.apps", "d", "ds"))
    yield from step("nothing is left but a pod")


def test_a_life_of_nodes_is_told_whole() -> None:
    check_history(STORIES / "cluster-state.txt", a_life())


@pytest.mark.parametrize("seed", range(6))
def test_following_comes_to_what_beginning_anew_does(seed: int) -> None:
    draw, known = random.Random(seed), Known()
    store = known.store
    known.put(pool())
    names = ["x", "y", "z"]
    for step in range(120):
        name = draw.choice(names)
        # Of its claim's name, or of another that is nobody else's.
        on = draw.choice([name, f"{name}2"])
        key = Key(NODE_CLAIM, "", name)
        match draw.randrange(13):
            case 0:
                if store.get(key) is None:
                    known.put(claim(name, draw.choice(["p", "q"]), draw.randrange(4)))
            case 1:
                if (there := store.get(key)) is not None:
                    store.set_status(key, {**there["status"], "nodeName": on})
            case 2:
                if (there := store.get(key)) is not None:
                    store.set_status(key, {**there["status"], "conditions": UP[: draw.randrange(4)]})
            case 3:
                if store.get(key) is not None:
                    store.delete(key)
            case 4:
                if store.get(Key("Node", "", on)) is None:
                    known.put(node(on, registered=draw.random() < 0.5))
            case 5:
                if store.get(Key("Node", "", on)) is not None:
                    store.delete(Key("Node", "", on))
            case 6:
                if store.get(Key("Node", "", on)) is not None:
                    taints = [{"key": "t", "effect": "NoSchedule"}] * draw.randrange(2)
                    store.patch(Key("Node", "", on), {"spec": {"taints": taints or None}})
            case 7 | 8:
                if store.get(Key("Pod", "d", name)) is None:
                    owner = draw.choice(["ReplicaSet", "DaemonSet"])
                    known.put(pod(name, draw.choice([on, ""]), owner=owner, port=draw.choice([0, 80])))
            case 9:
                if (there := store.get(Key("Pod", "d", name))) is not None:
                    phase = draw.choice(["Running", "Succeeded"])
                    store.set_status(Key("Pod", "d", name), {"phase": phase})
            case 10:
                if store.get(Key("Pod", "d", name)) is not None:
                    store.delete(Key("Pod", "d", name), grace_s=0)
            case 11:
                known.going = {n: None for n in names if draw.random() < 0.3}
            case _:
                for n in names:
                    known.state.touch(n)
                known.nominated = {n: store.now_us + draw.randrange(1, 9) * SECOND_US for n in names}
        store.now_us += draw.randrange(2) * SECOND_US
        known.nominated = {n: until for n, until in known.nominated.items() if until > store.now_us}
        assert known.seen() == known.seen(ClusterState(store)), step
