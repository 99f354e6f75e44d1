"""What Karpenter's cluster state makes of nodes that are still coming up. Source: state/statenode.go."""

from __future__ import annotations

from typing import Any

from fairway.cluster.store import Store
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.twin.provisioner.gathering import ClusterState, moving_pods

PROMISED = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "4"}


def seen(labels: dict[str, str], says: dict[str, str], *done: str) -> StateNode:
    """A GPU node whose device plugin may not be up, as a decision sees it."""
    conditions = [{"type": t, "status": "True"} for t in ("Launched", *done)]
    claim: dict[str, Any] = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "n", "uid": "c", "labels": {"team": "blue"}},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "startupTaints": []},
        "status": {"conditions": conditions, "capacity": PROMISED, "allocatable": PROMISED},
    }
    unregistered = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "uid": "n", "labels": labels},
        "spec": {"taints": [unregistered]},
        "status": {"capacity": says, "allocatable": says},
    }
    store = Store()
    store.load(claim)
    store.load(node)
    world = ClusterState(store).world(Fleet(()), going={}, nominated={}, now_us=0)
    (found,) = world.nodes
    return found


def test_until_it_is_initialized_a_node_has_what_its_claim_promises() -> None:
    says = {"cpu": "7", "memory": "30Gi", "pods": "110", "nvidia.com/gpu": "0"}
    labels = {"karpenter.sh/registered": "true"}
    node = seen(labels, says, "Registered")
    assert (node.available["cpu"], node.available["nvidia.com/gpu"]) == (7000, 4)
    assert node.capacity["nvidia.com/gpu"] == 4
    up = seen(labels, says, "Registered", "Initialized")
    assert up.available["nvidia.com/gpu"] == 0


def test_until_it_is_registered_its_claim_speaks_for_its_labels_and_taints() -> None:
    node = seen({"kubernetes.io/hostname": "n"}, PROMISED)
    assert node.labels == {"team": "blue"}
    assert [t.key for t in node.taints] == ["gpu"]
    registered = seen({"karpenter.sh/registered": "true", "team": "red"}, PROMISED)
    assert registered.labels["team"] == "red"
    assert not registered.taints


def test_only_pods_that_can_be_moved_now_are_made_room_for() -> None:
    """Source: StateNode.CurrentlyReschedulablePods."""
    store = Store()
    store.load({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}})

    def bound(name: str, **meta: Any) -> None:
        about = {"name": name, "namespace": "d", "uid": name, **meta}
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        store.load(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": about,
                "spec": spec,
                "status": {"phase": "Running"},
            }
        )

    bound("plain")
    bound("held", annotations={"karpenter.sh/do-not-disrupt": "true"})
    bound("going", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
    bound("guarded", labels={"app": "x"})
    store.load(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "d", "uid": "b"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": 0},
        }
    )
    world = ClusterState(store).world(Fleet(()), going={"n": None}, nominated={}, now_us=0)
    assert [p["metadata"]["name"] for p in moving_pods(store, world)] == ["plain"]
