"""PodDisruptionBudgets: their numbers, and who may be evicted."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import World, deployment, job, pod_key

from fairway.kube.objects import Key, Obj
from fairway.workloads.disruption.eviction import SEVERAL, VIOLATES, Eviction, evict

BUDGET = Key("PodDisruptionBudget.policy", "default", "b")


def budget(name: str = "b", app: str | None = "web", **spec: Any) -> Obj:
    selector = {} if app is None else {"matchLabels": {"app": app}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **spec},
    }


def numbers(world: World) -> tuple[int, int, int, int]:
    status = world.status(BUDGET)
    fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return tuple(status[f] for f in fields)  # type: ignore[return-value]


def carry_out(world: World, eviction: Eviction) -> None:
    for action in eviction.actions:
        world._perform(action)


@pytest.mark.parametrize(
    ("case", "replicas", "spec", "want"),
    [
        ("a minimum leaves the rest", 3, {"minAvailable": 2}, (1, 3, 2, 3)),
        ("a minimum nobody reaches", 3, {"minAvailable": 5}, (0, 3, 5, 3)),
        ("a percentage of the wanted, rounded up", 7, {"minAvailable": "50%"}, (3, 7, 4, 7)),
        ("at most one away", 3, {"maxUnavailable": 1}, (1, 3, 2, 3)),
        ("at most a third, rounded up", 10, {"maxUnavailable": "33%"}, (4, 10, 6, 10)),
        ("none away", 3, {"maxUnavailable": 0}, (0, 3, 3, 3)),
        ("all away", 3, {"maxUnavailable": "100%"}, (3, 3, 0, 3)),
    ],
)
def test_numbers(case: str, replicas: int, spec: dict[str, Any], want: tuple[int, ...]) -> None:
    world = World()
    world.apply(deployment(replicas=replicas))
    world.apply(budget(**spec))
    assert numbers(world) == want, case


def test_the_condition_says_whether_there_are_enough() -> None:
    world = World()
    world.apply(deployment(replicas=2))
    world.apply(budget(minAvailable=2))
    allowed = world.condition(BUDGET, "DisruptionAllowed")
    assert allowed is not None
    assert (allowed["status"], allowed["reason"]) == ("False", "InsufficientPods")
    world.patch(Key("Deployment.apps", "default", "web"), {"spec": {"replicas": 3}})
    allowed = world.condition(BUDGET, "DisruptionAllowed")
    assert allowed is not None
    assert (allowed["status"], allowed["reason"]) == ("True", "SufficientPods")
    assert world.status(BUDGET)["observedGeneration"] == 1


def test_a_pod_that_is_not_ready_is_not_healthy() -> None:
    world = World()
    world.apply(deployment(replicas=3))
    world.apply(budget(maxUnavailable=1))
    world.make_ready(world.pods()[0], ready=False)
    assert numbers(world) == (0, 2, 2, 3)


def test_no_pods() -> None:
    world = World()
    world.apply(budget(minAvailable=1))
    assert numbers(world) == (0, 0, 1, 0)
    assert world.told("NoPods") == ["No matching pods found"]


def test_pods_without_an_owner_count_only_towards_absolute_numbers() -> None:
    world = World()
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}]},
    }
    world.apply(bare)
    world.apply(budget(minAvailable=1))
    assert numbers(world) == (0, 1, 1, 1)
    world.patch(BUDGET, {"spec": {"minAvailable": "50%"}})
    assert numbers(world)[3] == 0
    assert world.told("UnmanagedPods")


def test_a_job_cannot_say_how_many_pods_it_should_have() -> None:
    world = World()
    world.apply(job())
    world.apply(budget(app=None, maxUnavailable=1))
    failed = world.condition(BUDGET, "DisruptionAllowed")
    assert failed is not None
    assert (failed["reason"], failed["message"]) == (
        "SyncFailed",
        "jobs.batch does not implement the scale subresource",
    )
    assert world.told("CalculateExpectedPodCountFailed") == [
        "Failed to calculate the number of expected pods: jobs.batch does not implement the scale subresource"
    ]
    refusal = evict(world.store, pod_key(world.pods()[0]), world.now_us)
    assert refusal.cause == (
        "The disruption budget b does not allow evicting pods currently because it failed sync: "
        "jobs.batch does not implement the scale subresource"
    )


# Evictions


def test_evicting_spends_the_budget_at_once() -> None:
    world = World()
    world.apply(deployment(replicas=3))
    world.apply(budget(minAvailable=2))
    first, second, _ = world.pods()
    allowed = evict(world.store, pod_key(first), world.now_us)
    assert allowed.is_allowed
    carry_out(world, allowed)
    assert world.status(BUDGET)["disruptionsAllowed"] == 0
    assert list(world.status(BUDGET)["disruptedPods"]) == [first["metadata"]["name"]]
    refusal = evict(world.store, pod_key(second), world.now_us)
    assert (refusal.code, refusal.reason, refusal.message) == (429, "TooManyRequests", VIOLATES)
    assert refusal.cause == "The disruption budget b needs 2 healthy pods and has 3 currently"
    world.settle()
    assert "disruptedPods" not in world.status(BUDGET)
    assert numbers(world) == (1, 3, 2, 3), "the replacement is up"


def test_an_evicted_pod_says_why() -> None:
    world = World(kubelet=False)
    world.apply(deployment(replicas=1))
    (pod,) = world.pods()
    world.store.bind(pod_key(pod), "n1", {"phase": "Running"})
    carry_out(world, evict(world.store, pod_key(pod), world.now_us))
    gone = world.get(pod_key(pod))
    (target,) = [c for c in gone["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (target["reason"], target["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")
    assert "deletionTimestamp" in gone["metadata"]


def test_two_budgets_over_one_pod() -> None:
    world = World()
    world.apply(deployment(replicas=1))
    world.apply(budget("b", minAvailable=0))
    world.apply(budget("c", minAvailable=0))
    refusal = evict(world.store, pod_key(world.pods()[0]), world.now_us)
    assert (refusal.code, refusal.message) == (500, SEVERAL)


def test_a_budget_not_looked_at_yet() -> None:
    world = World()
    world.apply(deployment(replicas=3))
    world.store.create(budget(minAvailable=1))
    refusal = evict(world.store, pod_key(world.pods()[0]), world.now_us)
    assert refusal.cause == "The disruption budget b is still being processed by the server."
    assert refusal.retry_after_s == 10


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_do_not_run_are_let_go(phase: str) -> None:
    world = World()
    world.apply(deployment(replicas=1))
    world.apply(budget(minAvailable=1))
    (pod,) = world.pods()
    world.store.set_status(pod_key(pod), {"phase": phase})
    assert evict(world.store, pod_key(pod), world.now_us).is_allowed


@pytest.mark.parametrize(
    ("policy", "others_healthy", "want"),
    [
        (None, True, True),
        (None, False, False),
        ("IfHealthyBudget", True, True),
        ("IfHealthyBudget", False, False),
        ("AlwaysAllow", False, True),
    ],
)
def test_unhealthy_pods(policy: str | None, others_healthy: bool, want: bool) -> None:
    world = World()
    world.apply(deployment(replicas=3))
    spec = (
        {"minAvailable": 2} if policy is None else {"minAvailable": 2, "unhealthyPodEvictionPolicy": policy}
    )
    world.apply(budget(**spec))
    first, second, _ = world.pods()
    world.make_ready(first, ready=False)
    if not others_healthy:
        world.make_ready(second, ready=False)
    assert evict(world.store, pod_key(first), world.now_us).is_allowed is want


def test_without_a_budget_anything_goes_and_what_is_not_there_is_not_found() -> None:
    world = World()
    world.apply(deployment(replicas=1))
    assert evict(world.store, pod_key(world.pods()[0]), world.now_us).is_allowed
    missing = evict(world.store, Key("Pod", "default", "nobody"), world.now_us)
    assert (missing.code, missing.message) == (404, 'pods "nobody" not found')


def test_a_budget_that_says_nothing_of_disruptions_allows_none() -> None:
    world = World()
    world.apply(deployment(replicas=3))
    for pod in world.pods():
        world.make_ready(pod)
    world.apply(budget(maxUnavailable=1))
    world.store.set_status(BUDGET, {"observedGeneration": 1})
    refusal = evict(world.store, pod_key(world.pods()[0]), world.now_us)
    assert (refusal.code, refusal.reason, refusal.message) == (429, "TooManyRequests", VIOLATES)
