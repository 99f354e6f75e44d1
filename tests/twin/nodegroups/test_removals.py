"""Nodes that go: marked, cordoned, drained, deleted; given back where a drain fails or the autoscaler is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.twin.faults import delete_pod, partition_node
from fairway.twin.nodegroups.component import ClusterAutoscaler, _lets_others_go
from fairway.twin.nodegroups.removals import DAEMON_EVICTION
from fairway.twin.twin import Twin

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: going}
spec:
  latency: zero
  cloud:
    provider: aws
    bootTime: 60s
    nodeGroups:
      - {name: work, instanceType: m5.xlarge, zone: us-east-1a, min: 1, max: 3}
    autoscaler: {}
  manifests:
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web, namespace: default}
      spec:
        replicas: 3
        selector: {matchLabels: {app: web}}
        template:
          metadata:
            labels: {app: web}
            annotations: {STOP}
          spec:
            terminationGracePeriodSeconds: GRACE
            containers: [{name: c, image: i, resources: {requests: {cpu: 1800m}}}]
    - apiVersion: apps/v1
      kind: DaemonSet
      metadata: {name: agent, namespace: default}
      spec:
        selector: {matchLabels: {app: agent}}
        template:
          metadata: {labels: {app: agent}}
          spec:
            containers: [{name: c, image: i, resources: {requests: {cpu: 10m}}}]
"""
MARK = "ToBeDeletedByClusterAutoscaler"


def part(twin: Twin) -> ClusterAutoscaler:
    found = twin.component("cluster-autoscaler")
    assert isinstance(found, ClusterAutoscaler)
    return found


def going(tmp_path: Path, stop: str = "", grace: int = 30) -> tuple[Twin, str]:
    """Three pods on two nodes; one pod ends, and one of the nodes is found to be too much: this second."""
    text = SCENARIO.replace("STOP", stop).replace("GRACE", str(grace))
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(5 * MINUTE_US)
    assert len(nodes(twin)) == 2
    twin.store.patch(Key("Deployment.apps", "default", "web"), {"spec": {"replicas": 2}})
    twin.wake()
    twin.run_for(SECOND_US)
    for pod in twin.store.objects("Pod"):
        if "deletionTimestamp" in pod["metadata"]:
            delete_pod(twin, key_of(pod), twin.now_us, grace_s=0)
    twin.run_for(9 * MINUTE_US)
    for _ in range(1200):
        if part(twin).removals.going:
            break
        twin.run_for(SECOND_US)
    (name,) = part(twin).removals.going
    return twin, name


def nodes(twin: Twin) -> dict[str, Obj]:
    return {n["metadata"]["name"]: n["spec"] for n in twin.store.objects("Node")}


def pods_on(twin: Twin, node: str) -> list[Obj]:
    return [p for p in twin.store.objects("Pod") if p["spec"].get("nodeName") == node]


def webs(twin: Twin, node: str) -> list[Obj]:
    return [p for p in pods_on(twin, node) if p["metadata"]["labels"]["app"] == "web"]


def said(twin: Twin, reason: str) -> list[str]:
    told = twin.host.events.told()
    return [t.message for t in told if t.component == "cluster-autoscaler" and t.reason == reason]


def counted(twin: Twin) -> dict[tuple[str, tuple[str, ...]], float]:
    samples = part(twin).tally.samples()
    return {(s.name.removeprefix("cluster_autoscaler_"), s.labels): s.value for s in samples}


def keep_all(twin: Twin) -> None:
    budget: Obj = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    twin.store.create(budget)
    twin.wake()


def test_a_node_that_goes_is_marked_and_takes_nobody(tmp_path: Path) -> None:
    twin, name = going(tmp_path)
    spec = nodes(twin)[name]
    assert spec["unschedulable"] is True
    marks = [t for t in spec["taints"] if t["key"] == MARK]
    assert [t["effect"] for t in marks] == ["NoSchedule"]
    assert marks[0]["value"] == str(part(twin).removals.going[name].since_us // SECOND_US)
    assert part(twin).removals.counted() == ({"work": 1}, 1)
    assert part(twin).targets == {"work": 2}


def test_its_pods_leave_after_five_seconds_and_then_it_goes(tmp_path: Path) -> None:
    twin, name = going(tmp_path)
    web = webs(twin, name)[0]["metadata"]["name"]
    twin.run_for(3 * SECOND_US)
    assert web in [p["metadata"]["name"] for p in pods_on(twin, name)]
    twin.run_for(MINUTE_US)
    assert name not in nodes(twin)
    assert part(twin).targets == {"work": 1}
    assert part(twin).removals.going == {}
    (other,) = nodes(twin)
    assert len(webs(twin, other)) == 2
    assert said(twin, "ScaleDown")[-1] == f"Scale-down: node {name} removed with drain"
    found = counted(twin)
    assert found["scaled_down_nodes_total", ("underutilized", "", "", "")] == 1
    assert found["scaled_down_nodes_total", ("empty", "", "", "")] == 0
    assert found["evicted_pods_total", ("succeeded",)] == 1
    assert found["evicted_pods_total", ("failed",)] == 0


def test_a_node_whose_pods_may_not_go_is_given_back_after_two_minutes(tmp_path: Path) -> None:
    twin, name = going(tmp_path)
    keep_all(twin)
    twin.run_for(2 * MINUTE_US)
    assert name in part(twin).removals.going
    twin.run_for(6 * SECOND_US)
    assert part(twin).removals.going == {}
    spec = nodes(twin)[name]
    assert MARK not in [t["key"] for t in spec.get("taints") or ()]
    assert not spec.get("unschedulable")
    assert part(twin).targets == {"work": 2}
    pod, why = said(twin, "ScaleDownFailed")
    assert pod == "failed to delete pod for ScaleDown"
    assert why.startswith(
        f"failed to drain and delete node: Failed to drain node /{name}, due to following errors: ["
    )
    assert "within allowed timeout" in why
    assert counted(twin)["evicted_pods_total", ("failed",)] == 1
    assert counted(twin)["evicted_pods_total", ("succeeded",)] == 0
    assert part(twin).failed_us == twin.now_us - SECOND_US
    assert name not in part(twin).since_us


def test_pods_have_ten_minutes_to_end_whatever_they_ask_for(tmp_path: Path) -> None:
    twin, name = going(tmp_path, "fairway.dev/stop-time: never", 3600)
    twin.run_for(10 * MINUTE_US)
    (web,) = webs(twin, name)
    assert web["metadata"]["deletionGracePeriodSeconds"] == 600
    twin.run_for(MINUTE_US)
    assert name not in nodes(twin)
    assert said(twin, "ScaleDown")[-1] == f"Scale-down: node {name} removed with drain"


def test_a_node_whose_pods_do_not_end_is_given_back_half_a_minute_after_that(tmp_path: Path) -> None:
    twin, name = going(tmp_path)
    partition_node(twin, name, twin.now_us)
    twin.run_for(5 * SECOND_US)
    started_us = twin.now_us
    while twin.now_us < started_us + 629 * SECOND_US:
        twin.run_for(SECOND_US)
        assert name in part(twin).removals.going
    twin.run_for(2 * SECOND_US)
    assert part(twin).removals.going == {}
    assert name in nodes(twin)
    assert said(twin, "ScaleDownFailed")[-1].endswith(
        f"Failed to drain node /{name}: pods remaining after timeout"
    )
    assert counted(twin)["evicted_pods_total", ("succeeded",)] == 1


@pytest.mark.parametrize(("says", "goes"), [("", True), ("false", False), ("true", True)])
def test_pods_of_daemon_sets_are_asked_to_go_unless_they_say_otherwise(
    tmp_path: Path, says: str, goes: bool
) -> None:
    twin, name = going(tmp_path)
    (agent,) = [
        p["metadata"]["name"] for p in pods_on(twin, name) if p["metadata"]["labels"]["app"] == "agent"
    ]
    key = Key("Pod", "default", agent)
    if says:
        twin.store.patch(key, {"metadata": {"annotations": {DAEMON_EVICTION: says}}})
    twin.run_for(5 * SECOND_US)
    pod = twin.store.get(key)
    assert (pod is None or "deletionTimestamp" in pod["metadata"]) is goes
    # They count for nobody, and nobody waits for them.
    twin.run_for(SECOND_US)
    assert counted(twin)["evicted_pods_total", ("succeeded",)] == 1
    twin.run_for(MINUTE_US)
    assert name not in nodes(twin)


def test_one_that_others_delete_is_left_alone(tmp_path: Path) -> None:
    twin, name = going(tmp_path)
    twin.store.delete(Key("Node", "", name))
    twin.wake()
    twin.run_for(MINUTE_US)
    assert name not in nodes(twin)
    assert not [text for text in said(twin, "ScaleDown") if "removed with drain" in text]
    assert counted(twin)["scaled_down_nodes_total", ("underutilized", "", "", "")] == 0


@pytest.mark.parametrize("others", [[], [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]])
def test_a_new_autoscaler_gives_back_what_the_last_one_marked(tmp_path: Path, others: list[Obj]) -> None:
    twin, name = going(tmp_path)
    key = Key("Node", "", name)
    taints = [*others, *nodes(twin)[name]["taints"]]
    twin.store.patch(key, {"spec": {"taints": taints}})
    assert part(twin).removals.resume() == {"work": 2}
    spec = nodes(twin)[name]
    kept = [t for t in spec.get("taints") or () if t["key"] in (MARK, "gpu")]
    assert [t["key"] for t in kept] == [t["key"] for t in others]
    assert not spec.get("unschedulable")


def test_a_copy_drains_by_itself(tmp_path: Path) -> None:
    twin, name = going(tmp_path)
    fork = twin.fork()
    twin.run_for(MINUTE_US)
    assert name in nodes(fork)
    assert name in part(fork).removals.going
    fork.run_for(MINUTE_US)
    assert twin.digest() == fork.digest()


@pytest.mark.parametrize(
    ("was", "now", "does"),
    [
        ({"maxUnavailable": 1}, {"maxUnavailable": 1}, False),
        ({"maxUnavailable": 1}, {"maxUnavailable": 2}, False),
        ({"maxUnavailable": 1}, {"maxUnavailable": 0}, True),
        ({"selector": {"matchLabels": {"a": "b"}}}, {"selector": {"matchLabels": {"a": "c"}}}, True),
    ],
)
def test_which_budgets_say_something_else(was: Obj, now: Obj, does: bool) -> None:
    """What it allows is in its status; a new one, and one that goes, always do."""

    def budget(spec: Obj, allowed: int = 0) -> Obj:
        meta = {"name": "b", "namespace": "d", "uid": "u", "resourceVersion": str(allowed)}
        status = {"disruptionsAllowed": allowed, "expectedPods": 3}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": {"selector": {"matchLabels": {"a": "b"}}, **spec},
            "status": status,
        }

    key = Key("PodDisruptionBudget.policy", "d", "b")
    assert _lets_others_go(Change(1, "MODIFIED", key, budget(now), budget(was))) is does
    assert _lets_others_go(Change(1, "MODIFIED", key, budget(was, 1), budget(was)))
    assert _lets_others_go(Change(1, "ADDED", key, budget(was), None))
    assert _lets_others_go(Change(1, "DELETED", key, budget(was), budget(was)))
