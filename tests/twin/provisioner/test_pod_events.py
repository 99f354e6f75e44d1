"""Which changes of a pod restart consolidateAfter of its node, which only say how it fares, and which pools count."""

from __future__ import annotations

from typing import Any

import pytest
from test_gathering import PROMISED

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, meta_of
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.twin.provisioner.gathering import (
    ClusterState,
    _is_restated,
    is_pod_event,
    machines_of,
    names_expiry,
)

KEY = Key("Pod", "d", "p")
BOUND = {"node": "n"}
GOING = {**BOUND, "going": True}


def pod(node: str = "", phase: str = "Running", going: bool = False, owner: str = "ReplicaSet") -> Obj:
    meta: dict[str, Any] = {"name": "p", "namespace": "d"}
    meta["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
    ]
    if going:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}


CASES: list[tuple[str, dict[str, Any] | None, dict[str, Any], bool]] = [
    ("made on a node", None, BOUND, True),
    ("bound", {}, BOUND, True),
    ("runs", {**BOUND, "phase": "Pending"}, BOUND, False),
    ("as it was", BOUND, BOUND, False),
    ("ended well", BOUND, {**BOUND, "phase": "Succeeded"}, True),
    ("failed", BOUND, {**BOUND, "phase": "Failed"}, True),
    ("ended before", {**BOUND, "phase": "Failed"}, {**BOUND, "phase": "Failed"}, False),
    ("begins to go", BOUND, GOING, True),
    ("goes on going", GOING, GOING, False),
    ("ended, and then goes", {**BOUND, "phase": "Failed"}, {**GOING, "phase": "Failed"}, True),
    ("ends while it goes", GOING, {**GOING, "phase": "Succeeded"}, True),
    ("bound, of a DaemonSet", {}, {**BOUND, "owner": "DaemonSet"}, False),
    ("going, of a DaemonSet", {**BOUND, "owner": "DaemonSet"}, {**GOING, "owner": "DaemonSet"}, False),
]


@pytest.mark.parametrize(("name", "before", "after", "counts"), CASES, ids=[c[0] for c in CASES])
def test_what_is_an_event(
    name: str, before: dict[str, Any] | None, after: dict[str, Any], counts: bool
) -> None:
    """Source: nodeclaim/podevents/controller.go."""
    old = None if before is None else pod(**before)
    assert is_pod_event(Change(1, ADDED if old is None else MODIFIED, KEY, pod(**after), old)) is counts
    assert not is_pod_event(Change(1, DELETED, KEY, pod(**after), old))


A_POD: Obj = {
    "metadata": {
        "name": "p",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "ownerReferences": [{"uid": "o"}],
    },
    "spec": {"nodeName": "n", "containers": []},
    "status": {"phase": "Running"},
}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def after(status: Obj | None = None, spec: Obj | None = None, **meta: Any) -> Obj:
    """The same pod with other parts; those that are not named are the same objects."""
    made = {**A_POD, "metadata": {**A_POD["metadata"], **meta}, "status": status or A_POD["status"]}
    return made if spec is None else {**made, "spec": spec}


OTHER_META: tuple[dict[str, Any], ...] = (
    *({"labels": {"a": "x"}}, {"annotations": {"c": "x"}}, {"ownerReferences": []}),
    *({"labels": None}, {"annotations": None}, {"ownerReferences": None}, LEAVING),
)


def test_what_leaves_a_node_as_it_was_for_pods_to_be_placed() -> None:
    """That a pod says how it fares, or that it goes on going or being over; nothing else."""
    key = Key("Pod", "d", "p")

    def is_restated(new: Obj, old: Obj | None = A_POD, of: str = MODIFIED) -> bool:
        return _is_restated(Change(1, of, key, new, old))

    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert is_restated(after(ready))
    assert is_restated(after(ready, resourceVersion="9"))
    assert is_restated(after({"phase": "Pending"}))
    assert is_restated(after(ready, **LEAVING), after(**LEAVING))
    assert is_restated(after({"phase": "Failed"}), after({"phase": "Succeeded"}))
    assert not is_restated(after(ready), None, ADDED)
    assert not is_restated(after(ready), after(), DELETED)
    for phase in ("Succeeded", "Failed"):
        assert not is_restated(after({"phase": phase}))
        assert not is_restated(after(), after({"phase": phase}))
    assert not is_restated(after(ready, {"nodeName": "n", "containers": []}))
    for other in OTHER_META:
        assert not is_restated(after(ready, **other)), other
        assert not is_restated(after(ready), after(**other)), other


def test_machines_are_claims_and_nodes_without_one() -> None:
    store = Store()
    for kind, names in (("NodeClaim", "ab"), ("Node", "bcd")):
        for name in names:
            group = "karpenter.sh/v1" if kind == "NodeClaim" else "v1"
            store.load({"apiVersion": group, "kind": kind, "metadata": {"name": name, "uid": kind + name}})
    assert [(o["kind"], meta_of(o)["name"]) for o in machines_of(store)] == [
        *(("NodeClaim", "a"), ("NodeClaim", "b")),
        *(("Node", "c"), ("Node", "d")),
    ]


def test_pools_that_go_or_cannot_be_read_are_left_out() -> None:
    store = Store()

    def pool(name: str, spec: Any = None, **meta: Any) -> None:
        about = {"name": name, "uid": name, **meta}
        own = {"template": {"spec": {"requirements": []}}} if spec is None else spec
        store.load({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": about, "spec": own})

    pool("a")
    pool("b", finalizers=["x/y"], deletionTimestamp="2026-01-01T00:00:00Z")
    pool("c", {"template": {"spec": {"requirements": 7}}})
    pool("d")
    refused: list[tuple[str, str]] = []
    known = ClusterState(store, lambda obj, why: refused.append((meta_of(obj)["name"], type(why).__name__)))
    assert [p.name for p in known.pools()] == ["a", "d"]
    assert refused == [("c", "TypeError")]
    assert [None if p is None else p.name for p in map(known.pool_named, "abcd")] == ["a", None, None, "d"]
    # Read once, and again when one of them changes.
    assert [p.name for p in known.pools()] == ["a", "d"] and len(refused) == 1
    pool("e")
    assert [p.name for p in known.pools()] == ["a", "d", "e"] and len(refused) == 2
    says = [
        ({}, False),
        ({"template": {"spec": {"expireAfter": "1h"}}}, True),
        ({"template": {"spec": {}}}, False),
    ]
    for spec, want in says:
        assert names_expiry({"spec": spec}) is want


def claim(name: str, node: str = "", **meta: Any) -> Obj:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "uid": f"c-{name}", "labels": {"karpenter.sh/nodepool": "p"}, **meta},
        "spec": {
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "starting", "effect": "NoSchedule"}],
        },
        "status": {
            "nodeName": node,
            "conditions": [{"type": "Launched", "status": "True"}],
            "capacity": PROMISED,
            "allocatable": {**PROMISED, "cpu": "7"},
        },
    }


def test_a_claim_whose_node_has_not_come() -> None:
    """What it will be: its labels, its taints but those of its start, what its type has; going if anybody says so."""
    store = Store()
    for obj in (
        claim("a"),
        claim("b"),
        claim("c", finalizers=["x/y"], deletionTimestamp="2026-01-01T00:00:00Z"),
    ):
        store.load(obj)
    world = ClusterState(store).world(Fleet(()), going={"b": None}, nominated={}, now_us=7)
    shown = [
        (
            n.name,
            n.has_node,
            n.is_initialized,
            n.is_ready,
            n.is_marked_for_deletion,
            n.labels,
            n.capacity["cpu"],
        )
        for n in world.nodes
    ]
    labels = {"karpenter.sh/nodepool": "p"}
    assert shown == [
        ("a", False, False, False, False, labels, 8000),
        ("b", False, False, False, True, labels, 8000),
        ("c", False, False, False, True, labels, 8000),
    ]
    assert [(n.available["cpu"], [t.key for t in n.taints]) for n in world.nodes] == [(7000, ["gpu"])] * 3
    assert world.now_us == 7


@pytest.mark.parametrize(("until_us", "is_nominated"), [(0, False), (10, False), (11, True)])
def test_who_is_nominated_is_so_until_then(until_us: int, is_nominated: bool) -> None:
    store = Store()
    store.load({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}})
    known = ClusterState(store)
    (node,) = known.world(Fleet(()), going={}, nominated={"n": until_us}, now_us=10).nodes
    assert node.is_nominated is is_nominated
    # A later look, at which nothing changed but the time.
    (node,) = known.world(Fleet(()), going={}, nominated={"n": until_us}, now_us=11).nodes
    assert not node.is_nominated
