"""Nodes from their first taint to their last pod: startup taints, and who is waited for when a node is drained."""

from __future__ import annotations

from typing import Any

import pytest
from test_provisioner_component import TYPES, a_twin, job, pool

from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US, rfc3339
from fairway.twin.distributions import constant
from fairway.twin.provisioner import draining
from fairway.twin.provisioner.cloud import Cloud

NOW_US = 1_767_571_200_000_000


def _taint(key: str, effect: str = "NoSchedule") -> Obj:
    return {"key": key, "effect": effect}


def test_startup_taints_go_after_a_while_and_the_others_stay() -> None:
    made = pool()
    made["spec"]["template"]["spec"]["startupTaints"] = [_taint("boot"), _taint("both", "NoExecute")]
    made["spec"]["template"]["spec"]["taints"] = [_taint("gpu"), _taint("both")]
    waits = job("a", "10m")
    tolerated = [{"key": "gpu", "operator": "Exists"}, {"key": "both", "effect": "NoSchedule"}]
    waits["spec"]["template"]["spec"]["tolerations"] = tolerated
    cloud = Cloud(TYPES, boot=constant(30 * SECOND_US), startup_us=20 * SECOND_US)
    twin = a_twin(made, waits, cloud=cloud)
    twin.run_for(45 * SECOND_US)
    (node,) = twin.store.objects("Node")
    assert {t["key"] for t in node["spec"]["taints"]} == {"gpu", "boot", "both"}
    assert not any(p["spec"].get("nodeName") for p in twin.store.objects("Pod"))
    twin.run_for(15 * SECOND_US)
    (node,) = twin.store.objects("Node")
    left = [(t["key"], t["effect"]) for t in node["spec"]["taints"]]
    assert sorted(left) == [("both", "NoSchedule"), ("gpu", "NoSchedule")]
    twin.run_for(30 * SECOND_US)
    assert all(p["spec"].get("nodeName") for p in twin.store.objects("Pod"))


def test_a_node_without_other_taints_ends_without_any() -> None:
    made = pool()
    made["spec"]["template"]["spec"]["startupTaints"] = [_taint("boot")]
    twin = a_twin(made, job("a", "10m"), cloud=Cloud(TYPES, boot=constant(0), startup_us=5 * SECOND_US))
    twin.run_for(MINUTE_US)
    (node,) = twin.store.objects("Node")
    assert not node["spec"].get("taints")


def _pod(phase: str = "Running", owner: str = "Job", **more: Any) -> Obj:
    meta: Obj = {"name": "p", "namespace": "d", "ownerReferences": [{"kind": owner, "controller": True}]}
    if "going_s" in more:
        meta["deletionTimestamp"] = rfc3339(NOW_US + more.pop("going_s") * SECOND_US)
    return {"metadata": meta, "spec": more, "status": {"phase": phase}}


EXISTS = [{"operator": "Exists"}]
WAITED: dict[str, tuple[Obj, bool]] = {
    "runs": (_pod(), True),
    "waits": (_pod("Pending"), True),
    "is done": (_pod("Succeeded"), False),
    "failed": (_pod("Failed"), False),
    "is the node's own": (_pod(owner="Node"), False),
    "is a DaemonSet's": (_pod(owner="DaemonSet"), True),
    "tolerates everything": (_pod(tolerations=EXISTS), False),
    "tolerates something else": (_pod(tolerations=[{"key": "x", "operator": "Exists"}]), True),
    "goes": (_pod(going_s=10), True),
    "should have gone just now": (_pod(going_s=-60), True),
    "is stuck": (_pod(going_s=-61), False),
}


@pytest.mark.parametrize("name", WAITED)
def test_who_is_waited_for(name: str) -> None:
    """Source: pkg/utils/pod/scheduling.go (IsDrainable, IsStuckTerminating)."""
    pod, want = WAITED[name]
    assert draining._is_waited_for(pod, NOW_US) is want


OVERDUE: dict[str, tuple[Obj, int, bool]] = {
    "has time": (_pod(terminationGracePeriodSeconds=30), 31, False),
    "has just enough": (_pod(terminationGracePeriodSeconds=30), 30, False),
    "has a second less": (_pod(terminationGracePeriodSeconds=30), 29, True),
    "needs none": (_pod(terminationGracePeriodSeconds=0), 0, False),
    "is late anyway": (_pod(terminationGracePeriodSeconds=0), -1, True),
    "says nothing": (_pod(), -100, False),
    "goes in time": (_pod(going_s=30), 31, False),
    "goes at the end": (_pod(going_s=30), 30, False),
    "outlives the node": (_pod(going_s=31), 30, True),
}


@pytest.mark.parametrize("name", OVERDUE)
def test_who_has_to_be_deleted_for_its_grace_to_end_with_the_nodes(name: str) -> None:
    pod, left_s, want = OVERDUE[name]
    assert draining._is_overdue(pod, NOW_US + left_s * SECOND_US, NOW_US) is want


def test_workloads_go_before_daemons_and_critical_pods_last() -> None:
    critical = {"priorityClassName": "system-node-critical"}
    pods = [_pod(), _pod(owner="DaemonSet"), _pod(**critical), _pod(owner="DaemonSet", **critical)]
    assert [draining._tier(p) for p in pods] == [0, 1, 2, 3]
    assert draining._tier(_pod(priorityClassName="system-cluster-critical")) == 2
    assert draining._tier(_pod(priorityClassName="high")) == 0
