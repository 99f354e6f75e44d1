"""Namespaces that go, quotas that are kept."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import World, deployment, job

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.workloads.registry import CONTROLLERS, WATCHERS

QUOTA = Key("ResourceQuota", "default", "q")
HIGH = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
NONE = {"scopeName": "PriorityClass", "operator": "DoesNotExist"}


def namespace(name: str = "team", *, finalizers: list[str] | None = None) -> Obj:
    meta: dict[str, Any] = {"name": name}
    if finalizers:
        meta["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def in_team(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "team"}}


def config_map(name: str, *, finalizers: list[str] | None = None) -> Obj:
    meta: dict[str, Any] = {"name": name, "namespace": "team"}
    if finalizers:
        meta["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}


def test_a_namespace_that_goes_keeps_what_others_said_of_it() -> None:
    world = World()
    key = world.apply(namespace(finalizers=["kubernetes"]))
    world.apply(config_map("held", finalizers=["example.com/f"]))
    mine = {
        "type": "Mine",
        "status": "True",
        "reason": "R",
        "message": "m",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    world.store.set_status(key, {"phase": "Active", "conditions": [mine], "more": 1})
    world.delete(key)
    world.advance(60)
    status = world.status(key)
    assert (status["phase"], status["more"]) == ("Terminating", 1)
    assert mine in status["conditions"] and len(status["conditions"]) > 1


def test_a_namespace_goes_with_everything_in_it() -> None:
    world = World()
    key = world.apply(namespace(finalizers=["kubernetes"]))
    world.apply(in_team(deployment(replicas=2)))
    world.apply(in_team(job()))
    world.apply(config_map("cfg"))
    world.delete(key)
    world.advance(3)
    assert world.status(key)["phase"] == "Terminating"
    assert len(world.pods()) == 3
    world.advance(3)
    assert world.store.get(key) is None
    assert world.store.objects("Pod", "team") == []
    assert world.store.objects("Deployment.apps", "team") == []
    assert world.store.objects("ConfigMap", "team") == []


def test_what_is_left_when_the_namespace_vanished_at_once_goes_too() -> None:
    world = World()
    key = world.apply(namespace())
    world.apply(in_team(deployment(replicas=2)))
    world.delete(key)
    world.advance(6)
    assert world.store.objects("Pod", "team") == []


def test_a_namespace_says_what_it_waits_for() -> None:
    world = World()
    key = world.apply(namespace(finalizers=["kubernetes"]))
    world.apply(config_map("stuck", finalizers=["example.com/hold"]))
    world.delete(key)
    world.advance(6)
    assert world.status(key)["phase"] == "Terminating"
    remaining = world.condition(key, "NamespaceContentRemaining")
    assert remaining is not None
    assert remaining["message"] == "Some resources are remaining: configmaps. has 1 resource instances"
    held = world.condition(key, "NamespaceFinalizersRemaining")
    assert held is not None
    assert held["message"] == (
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    )
    world.store.set_finalizers(Key("ConfigMap", "team", "stuck"), [])
    world.settle()
    assert world.store.get(key) is None


def test_what_remains_is_said_in_order_and_since_when() -> None:
    world = World()
    key = world.apply(namespace(finalizers=["kubernetes", "own/f"]))
    meta = {"name": "b", "namespace": "team", "finalizers": ["z/1", "a/2"]}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": {}}
    held = in_team({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["z/1"]}})
    world.apply(budget)
    world.apply({**held, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    world.delete(key)
    world.advance(4.999)
    assert "conditions" not in world.status(key)
    world.advance(0.001)
    first = rfc3339(world.now_us)
    fine = [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    ]

    def said(since: str, *rows: tuple[str, str, str], status: str = "True") -> list[Obj]:
        return [
            {"type": t, "status": status, "lastTransitionTime": since, "reason": r, "message": m}
            for t, r, m in rows
        ]

    def remaining(content: str, finalizers: str) -> list[Obj]:
        some = "Some content in the namespace has finalizers remaining: "
        return said(
            first,
            (
                "NamespaceContentRemaining",
                "SomeResourcesRemain",
                f"Some resources are remaining: {content}",
            ),
            ("NamespaceFinalizersRemaining", "SomeFinalizersRemain", some + finalizers),
        )

    both = "poddisruptionbudgets.policy has 1 resource instances, pods. has 1 resource instances"
    assert world.status(key)["conditions"] == [
        *said(first, *fine, status="False"),
        *remaining(both, "a/2 in 1 resource instances, z/1 in 2 resource instances"),
    ]
    world.advance(60)
    world.store.set_finalizers(Key("PodDisruptionBudget.policy", "team", "b"), [])
    world.settle()
    assert world.status(key)["conditions"] == [
        *said(first, *fine, status="False"),
        *remaining("pods. has 1 resource instances", "z/1 in 1 resource instances"),
    ]
    world.advance(60)
    world.store.set_finalizers(Key("Pod", "team", "p"), [])
    world.settle()
    found = world.get(key)
    assert found["metadata"]["finalizers"] == ["own/f"]
    assert found["status"]["conditions"] == [
        *said(first, *fine, status="False"),
        *said(
            rfc3339(world.now_us),
            ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
            (
                "NamespaceFinalizersRemaining",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
            status="False",
        ),
    ]


def test_other_namespaces_are_left_alone() -> None:
    world = World()
    key = world.apply(namespace(finalizers=["kubernetes"]))
    world.apply(deployment(replicas=1))
    world.delete(key)
    assert len(world.pods()) == 1


# Quota status


def quota(**hard: str) -> Obj:
    renamed = {k.replace("__", "/").replace("_", "."): v for k, v in hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": renamed},
    }


def pod(name: str, *, gpu: int = 0, cpu: str = "1", **spec: Any) -> Obj:
    resources: dict[str, Any] = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "2"}}
    if gpu:
        resources["limits"]["nvidia.com/gpu"] = gpu
    container = {"name": "c", "image": "app:1", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


@pytest.mark.parametrize(
    ("case", "hard", "want"),
    [
        ("pods", {"pods": "10"}, {"pods": "2"}),
        (
            "requests",
            {"requests_cpu": "8", "requests_memory": "8Gi"},
            {"requests.cpu": "3", "requests.memory": "2Gi"},
        ),
        ("plain names are requests", {"cpu": "8", "memory": "8Gi"}, {"cpu": "3", "memory": "2Gi"}),
        ("limits", {"limits_cpu": "8"}, {"limits.cpu": "4"}),
        ("devices", {"requests_nvidia_com__gpu": "4"}, {"requests.nvidia.com/gpu": "3"}),
        (
            "counts",
            {"count__pods": "10", "count__jobs_batch": "3"},
            {"count/pods": "2", "count/jobs.batch": "0"},
        ),
        ("what nobody uses", {"services_nodeports": "2"}, {"services.nodeports": "0"}),
    ],
)
def test_what_is_used(case: str, hard: dict[str, str], want: dict[str, str]) -> None:
    world = World()
    world.apply(quota(**hard))
    world.apply(pod("a", gpu=1))
    world.apply(pod("b", gpu=2, cpu="2"))
    assert world.status(QUOTA)["used"] == want, case
    assert list(world.status(QUOTA)["hard"]) == list(want)


def test_a_pod_that_ended_is_used_no_more_but_still_counted() -> None:
    world = World()
    world.apply(quota(pods="10", count__pods="10"))
    world.apply(pod("a"))
    world.finish(Key("Pod", "default", "a"))
    assert world.status(QUOTA)["used"] == {"pods": "0", "count/pods": "1"}
    world.delete(Key("Pod", "default", "a"))
    assert world.status(QUOTA)["used"] == {"pods": "0", "count/pods": "0"}


@pytest.mark.parametrize(
    ("scope", "want"),
    [
        ({"scopes": ["BestEffort"]}, "1"),
        ({"scopes": ["NotBestEffort"]}, "2"),
        ({"scopes": ["Terminating"]}, "1"),
        ({"scopes": ["NotTerminating"]}, "2"),
        (
            {"scopeSelector": {"matchExpressions": [HIGH]}},
            "1",
        ),
        (
            {"scopeSelector": {"matchExpressions": [NONE]}},
            "2",
        ),
    ],
)
def test_scopes(scope: dict[str, Any], want: str) -> None:
    world = World()
    scoped = quota(pods="10")
    world.apply({**scoped, "spec": {**scoped["spec"], **scope}})
    world.apply(pod("plain"))
    world.apply(pod("urgent", priorityClassName="high", activeDeadlineSeconds=60))
    effortless = pod("effortless")
    effortless["spec"]["containers"][0]["resources"] = {}
    world.apply(effortless)
    assert world.status(QUOTA)["used"] == {"pods": want}


# The registry


def test_every_controller_has_a_name_of_its_own_and_watches_its_own_kind() -> None:
    controllers = [c.name for c in CONTROLLERS]
    assert len(set(controllers)) == len(controllers)
    for controller in CONTROLLERS:
        assert controller.gk in controller.watches
        for gk in controller.watches:
            assert controller in WATCHERS[gk]
