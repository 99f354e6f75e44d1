"""DaemonSets: which nodes, which pods, and how they are updated."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import World, pod_key, template

from fairway.kube.objects import Key, Obj
from fairway.workloads.daemonset.placement import Answer, ask, placement_of

DS = Key("DaemonSet.apps", "default", "agent")


def daemon_set(image: str = "app:1", *, pod: dict[str, Any] | None = None, **spec: Any) -> Obj:
    labels = {"app": "agent"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": template(image, labels=labels, **(pod or {})),
            **spec,
        },
    }


def a_node(name: str = "n", taints: list[dict[str, str]] | None = None, **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}}


def taint(key: str, effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "effect": effect}


def nodes_of(world: World) -> list[str]:
    return sorted(p["spec"].get("nodeName", "") for p in world.pods())


def update_to(world: World, image: str) -> None:
    world.patch(DS, {"spec": {"template": template(image, labels={"app": "agent"})}})


@pytest.mark.parametrize(
    ("case", "pod", "node", "want"),
    [
        ("any node", {}, a_node(), (True, True)),
        ("the selected nodes", {"nodeSelector": {"gpu": "yes"}}, a_node(gpu="yes"), (True, True)),
        ("not the others", {"nodeSelector": {"gpu": "yes"}}, a_node(), (False, False)),
        ("the named node", {"nodeName": "n"}, a_node("n"), (True, True)),
        ("not another", {"nodeName": "n"}, a_node("m"), (False, False)),
        ("a taint keeps new pods away, not old ones", {}, a_node(taints=[taint("x")]), (False, True)),
        ("NoExecute keeps nobody", {}, a_node(taints=[taint("x", "NoExecute")]), (False, False)),
        (
            "a toleration lets it in",
            {"tolerations": [{"key": "x", "operator": "Exists"}]},
            a_node(taints=[taint("x")]),
            (True, True),
        ),
        (
            "cordoned nodes still get their daemon",
            {},
            a_node(taints=[taint("node.kubernetes.io/unschedulable")]),
            (True, True),
        ),
        (
            "as do those that are not ready",
            {},
            a_node(taints=[taint("node.kubernetes.io/not-ready", "NoExecute")]),
            (True, True),
        ),
        (
            "a missing network only stops those who need one",
            {"hostNetwork": True},
            a_node(taints=[taint("node.kubernetes.io/network-unavailable")]),
            (True, True),
        ),
    ],
)
def test_should_this_node_run_one(case: str, pod: dict[str, Any], node: Obj, want: tuple[bool, bool]) -> None:
    assert ask(placement_of(daemon_set(pod=pod)), node) == Answer(*want), case


def test_one_pod_on_every_node() -> None:
    world = World(nodes=3)
    world.apply(daemon_set())
    assert nodes_of(world) == ["n1", "n2", "n3"]
    status = world.status(DS)
    assert status["desiredNumberScheduled"] == 3
    assert status["currentNumberScheduled"] == 3
    assert (status["numberReady"], status["numberAvailable"], status["updatedNumberScheduled"]) == (3, 3, 3)
    assert status["numberMisscheduled"] == 0
    assert "numberUnavailable" not in status


def test_the_pod_is_pinned_to_its_node_and_tolerates_what_befalls_nodes() -> None:
    world = World(nodes=1, kubelet=False)
    world.apply(daemon_set())
    spec = world.pods()[0]["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert [t["key"].partition("/")[2] for t in spec["tolerations"]] == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    ]


def test_nodes_come_and_go() -> None:
    world = World(nodes=1)
    world.apply(daemon_set())
    world.add_node("n9")
    world.settle()
    assert nodes_of(world) == ["n1", "n9"]
    world.patch(Key("Node", "", "n9"), {"spec": {"taints": [taint("x", "NoExecute")]}})
    assert nodes_of(world) == ["n1"]
    assert world.status(DS)["desiredNumberScheduled"] == 1


def test_a_pod_on_a_node_that_no_longer_fits_is_deleted_and_counted_as_misscheduled_meanwhile() -> None:
    world = World(nodes=0, kubelet=False)
    world.add_node("n1")
    world.apply(daemon_set(pod={"nodeSelector": {"kubernetes.io/hostname": "n1"}}))
    (pod,) = world.pods()
    world.store.bind(pod_key(pod), "n1", {"phase": "Running"})
    world.patch(Key("Node", "", "n1"), {"metadata": {"labels": {"kubernetes.io/hostname": "other"}}})
    assert "deletionTimestamp" in world.pods()[0]["metadata"]
    assert world.status(DS)["numberMisscheduled"] == 1


def test_an_update_takes_one_node_at_a_time() -> None:
    world = World(nodes=3)
    world.apply(daemon_set())
    world.hold = ("app:2",)
    update_to(world, "app:2")
    images = [p["spec"]["containers"][0]["image"] for p in world.pods()]
    assert sorted(images) == ["app:1", "app:1", "app:2"]
    world.hold = ()
    for pod in world.pods():
        if pod["status"]["phase"] == "Pending":
            world.make_ready(pod)
    assert {p["spec"]["containers"][0]["image"] for p in world.pods()} == {"app:2"}
    assert world.status(DS)["updatedNumberScheduled"] == 3


@pytest.mark.parametrize(("max_unavailable", "want_old"), [(2, 2), ("50%", 2), ("100%", 0)])
def test_max_unavailable(max_unavailable: Any, want_old: int) -> None:
    world = World(nodes=4)
    rolling = {"rollingUpdate": {"maxUnavailable": max_unavailable}}
    world.apply(daemon_set(updateStrategy={"type": "RollingUpdate", **rolling}))
    world.hold = ("app:2",)
    update_to(world, "app:2")
    images = [p["spec"]["containers"][0]["image"] for p in world.pods()]
    assert images.count("app:1") == want_old


def test_with_surge_the_old_pod_stays_until_the_new_one_is_available() -> None:
    world = World(nodes=2)
    rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    world.apply(daemon_set(updateStrategy={"type": "RollingUpdate", **rolling}))
    world.hold = ("app:2",)
    update_to(world, "app:2")
    assert nodes_of(world).count("n1") + nodes_of(world).count("n2") == 3
    world.hold = ()
    for pod in world.pods():
        if pod["status"]["phase"] == "Pending":
            world.make_ready(pod)
    assert nodes_of(world) == ["n1", "n2"]
    assert {p["spec"]["containers"][0]["image"] for p in world.pods()} == {"app:2"}


def test_on_delete_waits_for_the_deletion() -> None:
    world = World(nodes=1)
    world.apply(daemon_set(updateStrategy={"type": "OnDelete"}))
    update_to(world, "app:2")
    assert world.pods()[0]["spec"]["containers"][0]["image"] == "app:1"
    world.delete(pod_key(world.pods()[0]))
    assert world.pods()[0]["spec"]["containers"][0]["image"] == "app:2"


def test_a_failed_pod_is_replaced_but_not_in_a_hot_loop() -> None:
    world = World(nodes=1)
    world.apply(daemon_set())
    world.advance(3600)
    world.set_pod(world.pods()[0], phase="Failed", conditions=[])
    assert [p["status"]["phase"] for p in world.pods()] == ["Running"]
    assert world.told("FailedDaemonPod")[0].endswith("on node n1, will try to kill it")
    world.set_pod(world.pods()[0], phase="Failed", conditions=[])
    assert [p["status"]["phase"] for p in world.pods()] == ["Failed"]
    world.advance(60)
    assert [p["status"]["phase"] for p in world.pods()] == ["Running"]


def test_a_succeeded_pod_is_replaced() -> None:
    world = World(nodes=1)
    world.apply(daemon_set())
    world.set_pod(world.pods()[0], phase="Succeeded", conditions=[])
    assert [p["status"]["phase"] for p in world.pods()] == ["Running"]
    assert world.told("SucceededDaemonPod")


def test_an_empty_selector_is_refused() -> None:
    world = World()
    world.apply({**daemon_set(), "spec": {**daemon_set()["spec"], "selector": {}}})
    want = "This daemon set is selecting all pods. A non-empty selector is required."
    assert world.told("SelectingAll") == [want]
    assert world.pods() == []


def test_deleting_it_deletes_its_pods() -> None:
    world = World()
    world.apply(daemon_set())
    world.delete(DS)
    assert world.pods() == []
