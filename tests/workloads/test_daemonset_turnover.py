"""Which daemon pods go and which come: every small world against the rules in upstream's own words.

Source: pkg/controller/daemon/update.go rollingUpdate, daemon_controller.go podsShouldBeOnNode (v1.36).
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tinyworld import START_US, World, template

from fairway.cluster.actions import Create, Delete, Emit, Reconciliation
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.workloads.daemonset import decide, rolling
from fairway.workloads.daemonset.daemonpods import (
    TEMPLATE_GENERATION,
    is_updated,
    new_pod,
    target_node,
    tolerations,
)
from fairway.workloads.daemonset.placement import Answer
from fairway.workloads.daemonset.rolling import Limits, Revision, limits_of
from fairway.workloads.history import POD_HASH_LABEL

DS = Key("DaemonSet.apps", "default", "agent")
REVISION = Revision("new", None, 0, START_US)


def a_pod(name: str, digest: str, *, ready: bool, going: bool = False) -> Obj:
    meta: dict[str, Any] = {"name": name, "labels": {POD_HASH_LABEL: digest}}
    if going:
        meta["deletionTimestamp"] = rfc3339(START_US)
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"metadata": meta, "status": {"phase": "Running", "conditions": [condition]}}


# What a node may have: (digest, is ready, is going) of each of its pods.
STATES: dict[str, tuple[tuple[str, bool, bool], ...]] = {
    "nothing": (),
    "old": (("old", True, False),),
    "old, not available": (("old", False, False),),
    "new": (("new", True, False),),
    "new, not available": (("new", False, False),),
    "both": (("old", True, False), ("new", True, False)),
    "both, new not available": (("old", True, False), ("new", False, False)),
    "old on its way out": (("old", True, True),),
    "two old": (("old", True, False), ("old", True, False)),
}


def worlds() -> list[dict[str, str]]:
    return [dict(zip("abc", states, strict=True)) for states in product(STATES, repeat=3)]


def pods_of(world: dict[str, str]) -> dict[str, list[Obj]]:
    return {
        node: [a_pod(f"{node}-{i}", d, ready=r, going=g) for i, (d, r, g) in enumerate(STATES[state])]
        for node, state in world.items()
    }


def test_without_surge_no_more_are_unavailable_than_allowed() -> None:
    for world, most in product(worlds(), (1, 2)):
        found = rolling.replace(pods_of(world), REVISION, Limits(0, most))
        fine = ("old", "new")
        unavailable = sum(state not in fine for state in world.values())
        broken = [f"{n}-0" for n, s in world.items() if s == "old, not available"]
        candidates = [f"{n}-0" for n, s in world.items() if s == "old"]
        want = broken + candidates[: max(most - unavailable, 0)]
        assert [p["metadata"]["name"] for p in found.delete] == want, (world, most)
        assert not found.surge


def test_with_surge_the_new_pod_comes_first() -> None:
    should = {"a": Answer(True, True), "b": Answer(False, True)}
    for world, most in product(worlds(), (1, 2)):
        # `c` is a node that is gone.
        found = rolling.surge(pods_of(world), should, REVISION, Limits(most, 0), desired=1)
        surging = sum(s in ("two old", "both, new not available") for s in world.values())
        available = sum(s in ("old", "new", "both", "both, new not available") for s in world.values())
        outdated = [
            f"{n}-0" for n, s in world.items() if s == "both" or (s == "old, not available" and n != "a")
        ]
        unwanted = [f"{n}-0" for n, s in world.items() if s == "old" and n != "a"]
        want = outdated + unwanted[: max(available - 1, 0)]
        assert [p["metadata"]["name"] for p in found.delete] == want, (world, most)
        allowed = ["a"] if world["a"] == "old, not available" else []
        candidates = ["a"] if world["a"] == "old" else []
        assert found.surge == allowed + candidates[: max(most - surging, 0)], (world, most)


@pytest.mark.parametrize(
    ("update", "desired", "want"),
    [
        (None, 10, (0, 1)),
        ({"maxUnavailable": "25%"}, 10, (0, 3)),
        ({"maxSurge": "25%", "maxUnavailable": 0}, 10, (3, 0)),
        ({"maxSurge": 0, "maxUnavailable": 0}, 10, (0, 1)),
        ({"maxSurge": 0, "maxUnavailable": 0}, 0, (0, 0)),
        ({"maxSurge": "10%", "maxUnavailable": 0}, 0, (0, 0)),
        ({"maxSurge": 2}, 10, (2, 1)),
    ],
)
def test_limits(update: Any, desired: int, want: tuple[int, int]) -> None:
    spec = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": update}}
    assert (
        tuple(limits_of(spec, desired).__getattribute__(f) for f in ("max_surge", "max_unavailable")) == want
    )


@pytest.mark.parametrize(
    ("strategy", "surges"),
    [
        ({}, False),
        ({"rollingUpdate": {"maxSurge": 0}}, False),
        ({"rollingUpdate": {"maxSurge": "0%"}}, False),
        ({"rollingUpdate": {"maxSurge": 1}}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "1%"}}, True),
        ({"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}, False),
    ],
)
def test_who_surges(strategy: Obj, surges: bool) -> None:
    assert rolling.is_surging({"updateStrategy": strategy}) == surges


# The core loop, on a store as it stands.


def daemon_set(**spec: Any) -> Obj:
    labels = {"app": "agent"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template(labels=labels), **spec},
    }


SURGING = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}


class Case:
    """A DaemonSet whose controller looked once; pods are laid beside each other by hand."""

    def __init__(self, nodes: int = 1, **spec: Any) -> None:
        self.world = World(nodes=nodes, kubelet=False)
        self.store: Store = self.world.store
        self.world.apply(daemon_set(**spec))
        made = self.world.pods()
        self.owner = self.world.get(DS)
        self.digest = made[0]["metadata"]["labels"][POD_HASH_LABEL] if made else ""
        for pod in made:
            self.store.delete(Key("Pod", "default", pod["metadata"]["name"]), grace_s=0)

    def add(
        self,
        name: str,
        node: str,
        *,
        digest: str | None = None,
        ready: bool = True,
        phase: str = "Running",
        **at: Any,
    ) -> None:
        obj = new_pod(self.owner, node, digest or self.digest, name)
        if at.get("bound", True):
            obj["spec"]["nodeName"] = node
        self.store.now_us += SECOND_US
        self.store.create(obj)
        since = rfc3339(self.store.now_us)
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
        self.store.set_status(Key("Pod", "default", name), {"phase": phase, "conditions": [condition]})

    def look(self, now_us: int | None = None) -> Reconciliation:
        return decide.reconcile(self.store, DS, now_us or self.store.now_us)

    def outcome(self, now_us: int | None = None) -> tuple[list[str], list[str]]:
        """Deleted pods, and nodes that get one."""
        actions = self.look(now_us).actions
        gone = [a.key.name for a in actions if isinstance(a, Delete)]
        return gone, [target_node(a.obj) for a in actions if isinstance(a, Create) and a.obj["kind"] == "Pod"]


def test_of_two_pods_on_a_node_the_oldest_bound_one_stays() -> None:
    case = Case()
    case.add("waiting", "n1", bound=False)
    case.add("b", "n1")
    case.add("a", "n1")
    assert case.outcome() == (["a", "waiting"], [])


def test_with_surge_an_old_and_a_new_pod_may_share_a_node_while_the_new_one_gets_ready() -> None:
    for old_ready, new_ready in product((True, False), repeat=2):
        case = Case(**SURGING)
        case.add("old", "n1", digest="x", ready=old_ready)
        case.add("new", "n1", ready=new_ready)
        stays = old_ready and not new_ready
        assert case.outcome() == ([] if stays else ["old"], []), (old_ready, new_ready)


def test_with_surge_what_is_doubled_goes() -> None:
    case = Case(**SURGING)
    case.add("old-1", "n1", digest="x")
    case.add("old-2", "n1", digest="y")
    case.add("new-1", "n1", ready=False)
    case.add("new-2", "n1", ready=False)
    assert case.outcome() == (["old-2", "new-2"], [])


def test_with_surge_a_pod_on_its_way_out_is_replaced_at_once() -> None:
    case = Case(**SURGING)
    case.add("old", "n1", digest="x")
    case.store.delete(Key("Pod", "default", "old"), grace_s=30)
    assert case.outcome() == ([], ["n1"])
    plain = Case()
    plain.add("old", "n1", digest="x")
    plain.store.delete(Key("Pod", "default", "old"), grace_s=30)
    assert plain.outcome() == ([], [])


def test_with_surge_a_failed_pod_goes_before_another_comes() -> None:
    case = Case(**SURGING)
    case.add("failed", "n1", ready=False, phase="Failed")
    ripe = case.store.now_us + decide.MIN_FAILED_AGE_US
    assert case.outcome() == ([], [])
    assert case.look().again_at_us == ripe
    assert case.outcome(ripe - 1) == ([], [])
    assert case.outcome(ripe) == (["failed"], [])


def test_pods_meant_for_a_node_that_is_gone_go_unless_they_run_there() -> None:
    case = Case()
    case.add("here", "n1")
    case.add("stranded", "gone", bound=False)
    case.add("bound", "gone")
    assert case.outcome() == (["stranded"], [])


def test_no_more_than_a_burst_at_once() -> None:
    for nodes, want in ((decide.BURST_REPLICAS, decide.BURST_REPLICAS), (decide.BURST_REPLICAS + 1, None)):
        case = Case()
        for i in range(nodes - 1):
            case.world.add_node(f"m{i:03}")
        look = case.look()
        created = [a for a in look.actions if isinstance(a, Create)]
        assert len(created) == decide.BURST_REPLICAS
        assert look.again_at_us == (None if want else case.store.now_us)
        told = [a for a in look.actions if isinstance(a, Emit)]
        assert [t.message for t in told] == [f"Created pod: {c.obj['metadata']['name']}" for c in created]


def test_status_counts_each_node_by_its_oldest_pod() -> None:
    case = Case(nodes=3, updateStrategy={"type": "OnDelete"})
    case.store.patch(Key("Node", "", "n3"), {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})
    case.add("a", "n1", digest="x")
    case.add("b", "n2", ready=False)
    case.add("c", "n3")
    status = next(a.status for a in case.look().actions if hasattr(a, "status"))
    assert status == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "desiredNumberScheduled": 2,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 1,
        "observedGeneration": 1,
    }


def test_available_is_ready_for_long_enough() -> None:
    case = Case(minReadySeconds=10)
    case.add("a", "n1")
    since = case.store.now_us
    for at, available in ((since + 10 * SECOND_US - 1, 0), (since + 10 * SECOND_US, 1)):
        look = case.look(at)
        status = next(a.status for a in look.actions if hasattr(a, "status"))
        assert status.get("numberAvailable", 0) == available
        assert look.again_at_us == (None if available else since + 10 * SECOND_US)


def test_a_refused_pod_is_told_counted_and_tried_again() -> None:
    case = Case()
    look = decide.refused(case.store, DS, case.store.now_us, "no room")
    assert look.again_at_us == case.store.now_us + 60 * SECOND_US
    told, *rest = look.actions
    assert isinstance(told, Emit)
    assert (told.reason, told.message, told.type) == ("FailedCreate", "Error creating: no room", "Warning")
    written = [a.status["desiredNumberScheduled"] for a in rest if hasattr(a, "status")]
    assert written in ([], [1])
    case.store.set_status(DS, {"numberReady": 7})
    again = decide.refused(case.store, DS, case.store.now_us, "no room")
    assert [a.status["numberReady"] for a in again.actions if hasattr(a, "status")] == [0]
    assert decide.refused(case.store, Key("DaemonSet.apps", "default", "x"), 0, "no").actions == ()


def test_generations_of_before_revisions_still_count() -> None:
    owner = daemon_set()
    owner["metadata"]["uid"] = "u"
    owner["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "3"}
    made = new_pod(owner, "n1", "h", "p")
    assert made["metadata"]["labels"] == {"app": "agent", POD_HASH_LABEL: "h", TEMPLATE_GENERATION: "3"}
    assert (
        TEMPLATE_GENERATION
        not in new_pod({**owner, "metadata": {**owner["metadata"], "annotations": {}}}, "n", "h", "p")[
            "metadata"
        ]["labels"]
    )
    for digest, generation, is_new in (
        ("h", None, True),
        ("x", None, False),
        ("", None, False),
        ("x", "3", True),
        ("x", "4", False),
    ):
        assert is_updated(made, digest, generation) == is_new


def test_the_node_a_pod_is_meant_for() -> None:
    made = new_pod({**daemon_set(), "metadata": {"name": "a", "namespace": "b", "uid": "u"}}, "n1", "h", "p")
    assert target_node(made) == "n1"
    assert target_node({**made, "spec": {**made["spec"], "nodeName": "n2"}}) == "n2"
    assert target_node({"spec": {}}) == ""
    for field in (
        {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
        {"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]},
        {"key": "other", "operator": "In", "values": ["n1"]},
    ):
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        assert target_node({"spec": {"affinity": affinity}}) == ""


def test_tolerations_are_added_once_and_replace_weaker_ones() -> None:
    plain = tolerations({})
    assert len(plain) == 6
    assert tolerations({"tolerations": plain}) == plain
    on_host = tolerations({"hostNetwork": True})
    assert [t["key"] for t in on_host[6:]] == ["node.kubernetes.io/network-unavailable"]
    own = {"key": "gpu", "operator": "Exists"}
    weaker = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    found = tolerations({"tolerations": [own, weaker]})
    assert found[0] == own
    assert weaker not in found
    assert len(found) == 7


def test_which_changes_of_a_node_concern_it() -> None:
    case = Case(template=template(labels={"app": "agent"}, nodeSelector={"pool": "gpu"}))

    def node(label: str = "gpu", **spec: Any) -> Obj:
        return {"metadata": {"name": "n9", "labels": {"pool": label}}, "spec": spec, "status": {}}

    def looks(type_: str, new: Obj, old: Obj | None) -> bool:
        found = decide.map_change(case.store, Change(1, type_, Key("Node", "", "n9"), new, old))
        assert list(found) in ([], [DS])
        return bool(found)

    tainted = node(taints=[{"key": "x", "effect": "NoSchedule"}])
    harmless = node(taints=[{"key": "x", "effect": "PreferNoSchedule"}])
    assert looks(ADDED, node(), None) and not looks(ADDED, node("cpu"), None)
    assert looks(DELETED, node(), node()) and not looks(DELETED, node("cpu"), node("cpu"))
    assert looks(MODIFIED, node("cpu"), node()) and looks(MODIFIED, node(), node("cpu"))
    assert looks(MODIFIED, tainted, node()) and looks(MODIFIED, node(), tainted)
    assert not looks(MODIFIED, harmless, node())
    assert not looks(MODIFIED, node(unschedulable=True), node())
    assert not looks(MODIFIED, {**node(), "status": {"phase": "x"}}, node())
