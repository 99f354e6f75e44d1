"""What one node means for one Workload. Source: pkg/controller/tas/node_controller.go getWorkloadStatus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway.cluster.actions import Emit, SetStatus
from fairway.cluster.store import Store
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.queueing.control.nodefailures import NODE_FAILURE_DELAY_US, Member, NodeDecision, is_on, on_node
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates

HOST = "kubernetes.io/hostname"
NOW_US = 1_767_225_600 * SECOND_US + 3600 * SECOND_US
AT_ONCE = replace(DEFAULT_GATES, tas_replace_node_on_pod_termination=False)
NO_TAINTS = replace(DEFAULT_GATES, tas_replace_node_on_node_taints=False)


def node(*, ready: str | None = "True", since_s: int = 0, taint: str = "") -> Obj:
    since = rfc3339(NOW_US - since_s * SECOND_US)
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": since}] if ready else []
    taints = [{"key": "broken", "effect": taint}] if taint else []
    return {"metadata": {"name": "n1"}, "spec": {"taints": taints}, "status": {"conditions": conditions}}


def workload(*, on: str = "n1", unhealthy: tuple[str, ...] = (), tolerates_s: int | None = 0) -> Obj:
    """`tolerates_s` 0: no taint at all; None: for ever."""
    tolerations = [{"key": "broken", "operator": "Exists", "tolerationSeconds": tolerates_s}]
    slices = [{"domainCount": 1, "valuesPerLevel": [{"universal": on}], "podCounts": {"universal": 1}}]
    assigned = {"name": "main", "count": 1, "topologyAssignment": {"levels": [HOST], "slices": slices}}
    template = {"spec": {"containers": [], "tolerations": tolerations if tolerates_s != 0 else []}}
    return {
        "kind": "Workload",
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "metadata": {"name": "w", "namespace": "a"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
        "status": {
            "admission": {"clusterQueue": "q", "podSetAssignments": [assigned]},
            "conditions": [{"type": t, "status": "True"} for t in ("QuotaReserved", "Admitted")],
            **({"unhealthyNodes": [{"name": n} for n in unhealthy]} if unhealthy else {}),
        },
    }


def pod(*, node: str = "n1", phase: str = "Running", **meta: Any) -> Obj:
    spec = {"nodeName": node} if node else {"nodeSelector": {HOST: "n1"}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "a", **meta},
        "spec": spec,
        "status": {"phase": phase},
    }


def decided(n: Obj | None, w: Obj, *pods: Obj, gates: FeatureGates = DEFAULT_GATES) -> NodeDecision:
    return on_node(Store(), "n1", n, [Member(w, pods)], gates, NOW_US)


def unhealthy_after(decision: NodeDecision) -> list[str] | None:
    """None: nothing is written about the Workload."""
    for action in decision.actions:
        if isinstance(action, SetStatus) and action.key.name == "w":
            return [n["name"] for n in action.status.get("unhealthyNodes") or ()]
    return None


RUNNING = pod()
ENDED, GOING = pod(phase="Failed"), pod(deletionTimestamp="2026-01-01T00:00:00Z")
CASES: dict[str, tuple[Obj | None, Obj, tuple[Obj, ...], FeatureGates, list[str] | None]] = {
    "all is well": (node(), workload(), (RUNNING,), DEFAULT_GATES, None),
    "the node is gone, whatever runs": (None, workload(), (RUNNING,), DEFAULT_GATES, ["n1"]),
    "a node that never said it was ready": (node(ready=None), workload(), (RUNNING,), DEFAULT_GATES, ["n1"]),
    "gone, and known to be": (None, workload(unhealthy=("n1",)), (), DEFAULT_GATES, None),
    "unready, and pods still run": (node(ready="False"), workload(), (RUNNING,), DEFAULT_GATES, None),
    "unready, and pods ended": (node(ready="False"), workload(), (ENDED, GOING), DEFAULT_GATES, ["n1"]),
    "well again": (node(), workload(unhealthy=("n1", "n2")), (), DEFAULT_GATES, ["n2"]),
    "a taint, and pods still run": (node(taint="NoSchedule"), workload(), (RUNNING,), DEFAULT_GATES, None),
    "a taint, and pods ended": (node(taint="NoExecute"), workload(), (ENDED,), DEFAULT_GATES, ["n1"]),
    "a taint tolerated for ever": (
        node(taint="NoExecute"),
        workload(tolerates_s=None),
        (ENDED,),
        DEFAULT_GATES,
        None,
    ),
    "a taint tolerated for a while": (
        node(taint="NoExecute"),
        workload(tolerates_s=60),
        (ENDED,),
        DEFAULT_GATES,
        ["n1"],
    ),
    "a taint nobody asked about": (node(taint="NoExecute"), workload(), (ENDED,), NO_TAINTS, None),
    "a wish is no taint": (node(taint="PreferNoSchedule"), workload(), (ENDED,), DEFAULT_GATES, None),
    "not waiting for pods, a taint": (node(taint="NoExecute"), workload(), (RUNNING,), AT_ONCE, ["n1"]),
    "not waiting for pods, but they may stay": (
        node(taint="NoExecute"),
        workload(tolerates_s=60),
        (RUNNING,),
        AT_ONCE,
        None,
    ),
    "not waiting for pods, unready for long": (
        node(ready="Unknown", since_s=31),
        workload(),
        (RUNNING,),
        AT_ONCE,
        ["n1"],
    ),
    "assigned elsewhere": (None, workload(on="n2"), (), DEFAULT_GATES, None),
}


@pytest.mark.parametrize(("n", "w", "pods", "gates", "wanted"), CASES.values(), ids=CASES.keys())
def test_unhealthy_nodes(
    n: Obj | None, w: Obj, pods: tuple[Obj, ...], gates: FeatureGates, wanted: list[str] | None
) -> None:
    assert unhealthy_after(decided(n, w, *pods, gates=gates)) == wanted


def test_without_waiting_for_pods_it_looks_again_after_the_delay() -> None:
    decision = decided(node(ready="False", since_s=10), workload(), RUNNING, gates=AT_ONCE)
    assert decision == NodeDecision((), NOW_US - 10 * SECOND_US + NODE_FAILURE_DELAY_US)


def test_a_second_failure_evicts_and_says_so() -> None:
    written, told = decided(None, workload(unhealthy=("n2",))).actions
    message = "Workload eviction triggered due to multiple TAS assigned node failures, including: n2, n1"
    assert isinstance(written, SetStatus) and isinstance(told, Emit)
    (evicted,) = [c for c in written.status["conditions"] if c["type"] == "Evicted"]
    assert (evicted["status"], evicted["reason"], evicted["message"]) == ("True", "NodeFailures", message)
    assert (told.reason, told.message) == ("EvictedDueToNodeFailures", message)


@pytest.mark.parametrize("on", ["n1", "n2"], ids=["to its node, which is ill", "to a node it lost"])
def test_a_pod_that_never_got_to_the_node_is_failed(on: str) -> None:
    waiting = pod(node="", phase="Pending")
    actions = decided(node(ready="False"), workload(on=on), waiting).actions
    failed = [a for a in actions if isinstance(a, SetStatus) and a.key.name == "p"]
    assert [a.status["phase"] for a in failed] == ["Failed"]
    assert failed[0].status["conditions"][-1]["reason"] == "UnschedulableOnAssignedNode"


def test_a_pod_behind_the_topology_gate_may_wait() -> None:
    gated = pod(node="", phase="Pending")
    gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
    actions = decided(node(ready="False"), workload(), gated).actions
    assert not [a for a in actions if isinstance(a, SetStatus) and a.key.name == "p"]


def test_a_workload_is_on_a_node_while_it_runs_there() -> None:
    def on(*conditions: str, levels: tuple[str, ...] = (HOST,), values: tuple[str, ...] = ("n1",)) -> bool:
        plain = {"levels": list(levels), "domains": [{"values": list(values), "count": 1}]}
        sets = [{"name": "leader"}, {"name": "main", "count": 1, "topologyAssignment": plain}]
        said = [{"type": kind, "status": "True", "reason": "x"} for kind in conditions]
        return is_on({"status": {"admission": {"podSetAssignments": sets}, "conditions": said}}, "n1")

    assert on() and on("QuotaReserved") and on(levels=("rack", HOST), values=("r", "n1"))
    assert not on("Finished") and not on("Evicted") and not on(values=("n2",))
    assert not on(levels=("rack",)) and not on(levels=(HOST, "rack"), values=("r", "n1"))
    assert not is_on({}, "n1")
