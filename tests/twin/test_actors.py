"""Kinds that nobody acts on are told by name; kinds that somebody acts on are not."""

from __future__ import annotations

import pytest

from fairway.cluster.store import Store
from fairway.kube import published
from fairway.scenario.assertions.watching import ReachingWatch
from fairway.twin.actors import acted_on, idle_kinds
from fairway.twin.standard import standard_components

ACTED = [
    "JobSet.jobset.x-k8s.io",
    "PyTorchJob.kubeflow.org",
    "RayCluster.ray.io",
    "Job.batch.volcano.sh",
    "ClusterQueue.kueue.x-k8s.io",
    "ResourceFlavor.kueue.x-k8s.io",
    "WorkloadPriorityClass.kueue.x-k8s.io",
    "ServingRuntime.serving.kserve.io",
    "GatewayClass.gateway.networking.k8s.io",
]
IDLE = ["InferenceGraph.serving.kserve.io", "RayService.ray.io"]


def test_what_components_act_on_and_what_they_only_watch() -> None:
    acted = acted_on(standard_components())
    assert set(ACTED) <= acted
    # Garbage collection, quotas and namespaces watch every kind, and act on none of these.
    assert not set(IDLE) & acted
    assert "*" not in acted


def test_looking_is_not_acting() -> None:
    watch = ReachingWatch(())
    watch.kinds = ("PrometheusRule.monitoring.coreos.com",)
    assert acted_on([watch]) == frozenset()


@pytest.mark.parametrize(
    "gk", [*ACTED, *IDLE, "NetworkPolicy.networking.k8s.io", "Widget.example.com", "Pod"]
)
def test_only_known_kinds_without_an_actor_are_idle(gk: str) -> None:
    kind, _, group = gk.partition(".")
    known = published.kinds().get(gk)
    version = "v1" if known is None else known.versions[0].name
    store = Store()
    meta = {"name": "x", "namespace": "default"}
    store.create({"apiVersion": f"{group}/{version}" if group else version, "kind": kind, "metadata": meta})
    want = [gk] if gk in IDLE or gk.startswith("NetworkPolicy") else []
    assert idle_kinds(store, standard_components()) == want


def test_idle_kinds_are_in_order() -> None:
    store, kinds = Store(), [*IDLE, "NetworkPolicy.networking.k8s.io", "RayService.ray.io", "Runtime.x.y"]
    kinds += [f"{kind}.kueue.x-k8s.io" for kind in ("Workload", "Topology", "Cohort", "LocalQueue")]
    for gk in reversed(kinds):
        kind, _, group = gk.partition(".")
        if store.count(gk) == 0:
            made = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "x", "namespace": "d"}}
            store.create(made)
    found = idle_kinds(store, [])
    assert found == sorted(set(found)) and len(found) >= 7
