"""When the Cluster Autoscaler grows nothing, and by what it chooses: limits, illness, priorities."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.twin.faults import partition_node
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.twin import Twin

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: growing}
spec:
  latency: zero
  cloud:
    provider: aws
    bootTime: 60s
    nodeGroups: [GROUPS]
    autoscaler: {FLAGS}
  manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: something, namespace: default}}
"""
GROUP = "{{name: {}, instanceType: m5.xlarge, zone: us-east-1a, min: {}, max: {}}}"
PRIORITIES = Key("ConfigMap", "kube-system", "cluster-autoscaler-priority-expander")


def a_twin(tmp_path: Path, flags: str, *groups: str) -> Twin:
    text = SCENARIO.replace("GROUPS", ", ".join(groups)).replace("FLAGS", flags)
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    return build_twin(load_scenario(tmp_path))


def ask(twin: Twin, name: str, cpu: str = "3") -> None:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    meta = {"name": name, "namespace": "default"}
    twin.store.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}
    )
    twin.wake()


def nodes(twin: Twin) -> list[str]:
    return sorted(n["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] for n in twin.store.objects("Node"))


def said(twin: Twin, reason: str) -> list[str]:
    told = twin.host.events.told()
    return [t.message for t in told if t.component == "cluster-autoscaler" and t.reason == reason]


def test_a_group_has_its_least_from_the_start(tmp_path: Path) -> None:
    twin = a_twin(tmp_path, "", GROUP.format("a", 2, 3), GROUP.format("b", 0, 3))
    twin.run_for(5 * MINUTE_US)
    assert nodes(twin) == ["a", "a"]
    part = twin.component("cluster-autoscaler")
    assert isinstance(part, ClusterAutoscaler)
    assert part.targets == {"a": 2, "b": 0}


@pytest.mark.parametrize(("most", "grows"), [(1, False), (2, True), (0, True)])
def test_nodes_are_so_many_in_all(tmp_path: Path, most: int, grows: bool) -> None:
    twin = a_twin(tmp_path, f"maxNodesTotal: {most}", GROUP.format("a", 1, 3))
    twin.run_for(3 * MINUTE_US)
    ask(twin, "one")
    ask(twin, "two")
    twin.run_for(5 * MINUTE_US)
    assert len(nodes(twin)) == (2 if grows else 1)
    assert bool(said(twin, "MaxNodesTotalReached")) is not grows
    if not grows:
        assert said(twin, "MaxNodesTotalReached")[0] == "Max total nodes in cluster reached: 1"
        assert "pod didn't trigger scale-up: max total nodes in cluster reached" in said(
            twin, "NotTriggerScaleUp"
        )


@pytest.mark.parametrize(("ill", "grows"), [(3, True), (4, False)])
def test_nothing_grows_while_too_many_are_ill(tmp_path: Path, ill: int, grows: bool) -> None:
    twin = a_twin(tmp_path, "", GROUP.format("a", 5, 8))
    twin.run_for(3 * MINUTE_US)
    names = sorted(n["metadata"]["name"] for n in twin.store.objects("Node"))
    for name in names[:ill]:
        partition_node(twin, name, twin.now_us)
    twin.run_for(2 * MINUTE_US)
    for number in range(5 - ill + 1):
        ask(twin, f"p{number}")
    twin.run_for(90 * SECOND_US)
    assert bool(said(twin, "TriggeredScaleUp")) is grows
    assert bool(said(twin, "ClusterUnhealthy")) is not grows


def priorities(twin: Twin, text: str) -> None:
    config: Obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PRIORITIES.name, "namespace": PRIORITIES.namespace},
        "data": {"priorities": text},
    }
    twin.store.create(config)
    twin.wake()


@pytest.mark.parametrize(
    ("text", "grown"),
    [
        ("10: [spot]\n20: [base]\n", ["base"]),
        ("10: [base]\n20: [spot]\n", ["spot"]),
        ("10: [other]\n20: ['^sp']\n", ["spot"]),
    ],
)
def test_a_group_of_the_highest_priority_grows(tmp_path: Path, text: str, grown: list[str]) -> None:
    groups = (GROUP.format("base", 0, 3), GROUP.format("spot", 0, 3))
    twin = a_twin(tmp_path, "expander: priority", *groups)
    priorities(twin, text)
    ask(twin, "one")
    twin.run_for(3 * MINUTE_US)
    assert nodes(twin) == grown


def test_priorities_that_cannot_be_read_are_said_and_any_group_grows(tmp_path: Path) -> None:
    groups = (GROUP.format("base", 0, 3), GROUP.format("spot", 0, 3))
    twin = a_twin(tmp_path, "expander: priority", *groups)
    priorities(twin, "high: [spot]")
    ask(twin, "one")
    twin.run_for(3 * MINUTE_US)
    assert len(nodes(twin)) == 1
    assert said(twin, "PriorityConfigMapInvalid")
