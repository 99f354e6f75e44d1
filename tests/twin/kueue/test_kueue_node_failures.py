"""Nodes of a topology fail: pods get another node, or their Workload starts anew.

Source: pkg/controller/tas/node_controller.go, pkg/scheduler (second pass, TASFailedNodeReplacementFailFast).
"""

from __future__ import annotations

from typing import Any

import pytest
from kueuehistory import History, rack_node
from kueueworld import GPU, KUEUE, flavor, job, local_queue, queue

from fairway.kube.objects import Obj, spec_of, status_of
from fairway.queueing.facts.topologyassignments import read_assignment
from fairway.queueing.integrations.ownership import WORKLOAD

RACKS = {
    "apiVersion": KUEUE,
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": n} for n in ("block", "rack", "kubernetes.io/hostname")]},
}


def running(asks: str, configuration: Obj | None = None) -> History:
    """A job of two whole nodes, in rack 1 of block a."""
    quotas = [{"name": "tas", "resources": [{"name": GPU, "nominalQuota": "64"}]}]
    groups = [{"coveredResources": [GPU], "flavors": quotas}]
    history = History(configuration).step(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        RACKS,
        flavor("tas", nodeLabels={"pool": "tas"}, topologyName="racks"),
        *(rack_node("a", rack, i) for rack in "12" for i in (1, 2)),
        queue("a", 0, resourceGroups=groups),
        local_queue("a"),
    )
    asked = {f"kueue.x-k8s.io/podset-{asks}-topology": "rack"}
    train = job("train", "a", gpus=8, pods=2, template_annotations=asked)
    train["spec"]["backoffLimit"] = 6
    history.step(train)
    assert assigned(history) == ["n-a-1-1", "n-a-1-2"]
    return history


def workload(history: History) -> Obj:
    return history.player.twin.store.objects(WORKLOAD)[0]


def assigned(history: History) -> list[str]:
    raw = status_of(workload(history))["admission"]["podSetAssignments"][0]["topologyAssignment"]
    found = read_assignment(raw)
    assert found is not None
    return [domain.values[-1] for domain in found.domains]


def unhealthy(history: History) -> list[str]:
    return [n["name"] for n in status_of(workload(history)).get("unhealthyNodes") or ()]


def hosts(history: History) -> list[str]:
    pods = history.player.twin.store.objects("Pod")
    return sorted(str(spec_of(p).get("nodeName")) for p in pods)


def test_the_pods_of_a_node_that_is_gone_get_another() -> None:
    history = running("preferred")
    history.do(("delete", rack_node("a", "1", 1)))
    assert assigned(history) == ["n-a-1-2", "n-a-2-1"]
    assert "Evicted" not in history.said("train")
    history.step(wait=90)
    assert hosts(history) == ["n-a-1-2", "n-a-2-1"]


def test_a_gang_that_must_share_its_rack_moves_as_a_whole() -> None:
    history = running("required")
    history.do(("delete", rack_node("a", "1", 1)))
    assert assigned(history) == ["n-a-2-1", "n-a-2-2"]
    why = "Workload was evicted as there was no replacement for unhealthy node(s): n-a-1-1"
    assert history.said("train")["Evicted"] == f"False QuotaReserved: Previously: {why}"
    assert history.said("train")["Requeued"] == f"True NodeFailures: {why}"
    assert hosts(history) == ["n-a-2-1", "n-a-2-2"]


def test_a_second_failure_before_the_first_is_made_good_evicts() -> None:
    history = running("preferred")
    history.do(("delete", rack_node("a", "1", 1)), ("delete", rack_node("a", "1", 2)))
    why = (
        "Workload eviction triggered due to multiple TAS assigned node failures, including: n-a-1-1, n-a-1-2"
    )
    assert history.said("train")["Requeued"] == f"True NodeFailures: {why}"
    assert hosts(history) == ["n-a-2-1", "n-a-2-2"]


TAINTS: dict[str, tuple[str, list[str]]] = {
    "drives pods out, and others follow elsewhere": ("NoExecute", ["n-a-1-2", "n-a-2-1"]),
    "keeps new pods away only": ("NoSchedule", ["n-a-1-1", "n-a-1-2"]),
    "is a wish": ("PreferNoSchedule", ["n-a-1-1", "n-a-1-2"]),
}


@pytest.mark.parametrize(("effect", "wanted"), TAINTS.values(), ids=TAINTS.keys())
def test_a_taint(effect: str, wanted: list[str]) -> None:
    history = running("preferred")
    taint = {"key": "broken", "value": "yes", "effect": effect}
    history.patch("Node", "n-a-1-1", spec={"taints": [taint]})
    history.step(wait=30)
    assert (assigned(history), hosts(history), unhealthy(history)) == (wanted, wanted, [])


def unready(history: History, status: str) -> None:
    condition: dict[str, Any] = {"type": "Ready", "status": status, "reason": "Test", "message": ""}
    obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-a-1-1"}}
    history.do(("status", {**obj, "status": {"conditions": [condition]}}))


def test_an_unready_node_counts_only_once_its_pods_are_gone() -> None:
    history = running("preferred")
    unready(history, "False")
    assert assigned(history) == ["n-a-1-1", "n-a-1-2"]
    history.step(wait=400)
    assert assigned(history) == ["n-a-1-2", "n-a-2-1"]


def test_without_the_gate_nothing_is_replaced() -> None:
    ends = ("FailedNodeReplacement", "FailedNodeReplacementFailFast", "ReplaceNodeOnPodTermination")
    off = {f"TAS{end}": False for end in (*ends, "ReplaceNodeOnNodeTaints")}
    history = running("preferred", {"featureGates": off})
    history.do(("delete", rack_node("a", "1", 1)))
    history.step(wait=10)
    assert (assigned(history), unhealthy(history)) == (["n-a-1-1", "n-a-1-2"], [])
