"""VerticalPodAutoscalers in a twin: Off recommends, Recreate evicts within budgets, new pods get their due."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from scalingworld import World, deployment, node

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.twin.twin import EPOCH_US

VPA = "VerticalPodAutoscaler.autoscaling.k8s.io"


def vertical(mode: str, *, target: str = "web", **spec: Any) -> Obj:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"targetRef": ref, "updatePolicy": {"updateMode": mode}, **spec},
    }


def busy() -> dict[str, Any]:
    each = {"cpu": "3", "memory": "3Gi"}
    return {"workloads": [{"kind": "Deployment", "name": "web", "each": each}]}


def requests(world: World) -> set[str]:
    pods = world.twin.store.objects("Pod")
    return {p["spec"]["containers"][0]["resources"]["requests"]["cpu"] for p in pods}


def test_off_recommends_and_touches_nothing() -> None:
    world = World(load=busy(), objects=[deployment("web", 3), vertical("Off")])
    world.run(1800)
    told = world.status("web", VPA)["recommendation"]["containerRecommendations"]
    assert [r["containerName"] for r in told] == ["c"]
    assert 3400 <= int(told[0]["target"]["cpu"].removesuffix("m")) <= 3700
    assert requests(world) == {"1"}
    assert world.conditions("web", VPA)["RecommendationProvided"][0] == "True"


def test_recreate_replaces_pods_one_after_another() -> None:
    world = World(load=busy(), objects=[deployment("web", 3), vertical("Recreate")])
    least = 3
    for _ in range(60):
        world.run(60)
        ready = [p for p in world.twin.store.objects("Pod") if p["status"].get("phase") == "Running"]
        least = min(least, len(ready))
    assert requests(world).isdisjoint({"1"})
    assert least >= 2
    assert any(reason == "EvictedByVPA" for reason, _ in world.said("Pod"))


def test_a_budget_that_allows_nothing_is_kept() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
    }
    world = World(load=busy(), objects=[deployment("web", 3), budget, vertical("Auto")])
    world.run(3600)
    assert requests(world) == {"1"}


def test_initial_waits_for_new_pods() -> None:
    world = World(load=busy(), objects=[deployment("web", 3), vertical("Initial")])
    world.run(1800)
    assert requests(world) == {"1"}
    world.twin.store.patch(_key(world), {"spec": {"replicas": 4}})
    world.twin.wake()
    world.run(60)
    assert len(requests(world)) == 2


def _key(world: World) -> Any:
    from fairway.kube.objects import key_of

    return key_of(world.get("Deployment.apps", "web"))


def test_no_target_and_no_pods() -> None:
    world = World(objects=[vertical("Off", target="nobody")])
    world.run(120)
    assert world.conditions("web", VPA)["ConfigUnsupported"] == ("True", "ConfigUnsupported")
    world.apply(deployment("nobody", 0))
    world.run(120)
    assert world.conditions("web", VPA)["NoPodsMatched"] == ("True", "NoPodsMatched")


def test_what_is_missing_is_named_and_what_was_recommended_stays() -> None:
    world = World(load=busy(), objects=[deployment("web", 2), vertical("Off")])
    world.run(600)
    before = world.status("web", VPA)
    assert before["recommendation"] and [c["type"] for c in before["conditions"]] == [
        "RecommendationProvided"
    ]
    world.twin.store.delete(_key(world))
    world.twin.wake()
    world.run(120)
    after = world.status("web", VPA)
    assert after["recommendation"] == before["recommendation"]
    lost, provided = after["conditions"]
    assert lost["message"] == "Cannot read targetRef. Reason: Deployment default/web does not exist"
    assert provided == before["conditions"][0], "what has not changed keeps its time"
    bare = vertical("Off")
    del bare["spec"]["targetRef"]
    world.apply({**bare, "metadata": {"name": "bare"}})
    world.run(120)
    (told, none) = world.status("bare", VPA)["conditions"]
    assert told["message"] == "targetRef not defined. If this is a v1beta1 object switch to v1."
    assert (none["type"], none["status"]) == ("RecommendationProvided", "False")
    assert "recommendation" not in world.status("bare", VPA)


def test_one_that_is_deleted_is_looked_at_no_more() -> None:
    world = World(load=busy(), objects=[deployment("web", 2), vertical("Recreate")])
    world.run(30)
    world.twin.store.delete(Key(VPA, "default", "web"))
    world.twin.wake()
    world.run(3600)
    assert requests(world) == {"1"}
    assert not world.room.vertical.entries


def _restarts(world: World) -> set[tuple[str, int]]:
    return {
        (p["metadata"]["uid"], p["status"]["containerStatuses"][0]["restartCount"])
        for p in world.twin.store.objects("Pod")
    }


def test_in_place_gives_running_pods_what_is_recommended_without_a_restart() -> None:
    world = World(load=busy(), objects=[deployment("web", 3), vertical("InPlaceOrRecreate")])
    world.run(30)
    before = _restarts(world)
    world.run(1800)
    assert _restarts(world) == before
    assert requests(world).isdisjoint({"1"})
    pods = world.twin.store.objects("Pod")
    told = {p["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] for p in pods}
    assert told == requests(world)
    assert {"InPlaceResizedByVPA", "ResizeStarted", "ResizeCompleted"} <= {r for r, _ in world.said("Pod")}


def test_in_place_evicts_what_does_not_fit_on_its_node_after_five_minutes() -> None:
    """A full machine defers; the eviction lets a new pod find another."""
    world = World(load=busy(), nodes=0)
    for obj in (node("small", cpu="4"), deployment("web", 3), vertical("InPlaceOrRecreate")):
        world.apply(obj)
    world.run(30)
    world.apply(node("large"))
    world.run(3600)
    reasons = [r for r, _ in world.said("Pod")]
    assert "ResizeDeferred" in reasons and "EvictedByVPA" in reasons
    assert requests(world).isdisjoint({"1"})


def _pods(world: World, owner: str) -> list[Obj]:
    return [p for p in world.twin.store.objects("Pod") if p["metadata"]["name"].startswith(owner)]


def test_a_pod_that_waits_gets_what_a_running_one_gives_back() -> None:
    """Once that is carried out: until then, what the running one had counts."""
    world = World(objects=[deployment("web", 3)], nodes=0)
    world.apply(node("small", cpu="3"))
    world.run(30)
    world.apply(deployment("late", 1))
    world.run(60)
    (late,) = _pods(world, "late")
    assert late["status"]["phase"] == "Pending"
    running = _pods(world, "web")[0]
    (container,) = running["spec"]["containers"]
    less = {"requests": {**container["resources"]["requests"], "cpu": "0"}}
    patch = {"spec": {"containers": [{**container, "resources": less}]}}
    world.twin.store.patch(Key("Pod", "default", running["metadata"]["name"]), patch)
    world.twin.wake()
    world.run(5)
    (late,) = _pods(world, "late")
    assert late["status"]["phase"] == "Running"


def test_a_pod_that_has_no_usage_yet_counts_for_nothing() -> None:
    """It waits for a node: what the others use is recommended as if it were not there."""
    told = []
    for replicas in (1, 2):
        world = World(load=busy(), objects=[deployment("web", replicas), vertical("Off")], nodes=0)
        world.apply(node("n0", cpu="1"))
        world.run(900)
        assert (
            sorted(p["status"]["phase"] for p in world.twin.store.objects("Pod"))
            == ["Pending", "Running"][-replicas:]
        )
        told.append(world.status("web", VPA)["recommendation"])
    assert told[0] == told[1]


TIMETABLES = [
    # Half of them at most, rounded down, each minute; one alone stays (--min-replicas 2, --eviction-tolerance 0.5).
    ("Recreate", 1, {}),
    ("Recreate", 2, {3: 1, 4: 1}),
    ("Recreate", 3, {3: 1, 4: 1, 5: 1}),
    ("Recreate", 5, {3: 2, 4: 2, 5: 1}),
    ("InPlaceOrRecreate", 4, {3: 2, 4: 2}),
    ("InPlaceOrRecreate", 5, {3: 2, 4: 2, 5: 1}),
    ("Off", 4, {}),
    ("Initial", 4, {}),
]


@pytest.mark.parametrize(("mode", "replicas", "minutes"), TIMETABLES)
def test_how_many_pods_are_changed_at_a_time(mode: str, replicas: int, minutes: dict[int, int]) -> None:
    world = World(load=busy(), objects=[deployment("web", replicas), vertical(mode)])
    world.run(60)
    first = {p["metadata"]["name"] for p in world.twin.store.objects("Pod")}
    assert len(first) == replicas
    world.run(9 * 60)
    in_place = mode == "InPlaceOrRecreate"
    reason = "InPlaceResizedByVPA" if in_place else "EvictedByVPA"
    said = "Pod was resized in place by VPA Updater."
    if not in_place:
        said = "Pod was evicted by VPA Updater to apply resource recommendation."
    told = [t for t in world.twin.host.events.told() if t.component == "vpa-updater"]
    of_pods = [t for t in told if t.about.gk == "Pod"]
    assert Counter((t.first_us - EPOCH_US) // MINUTE_US for t in of_pods) == minutes
    assert {(t.reason, t.message, t.type, t.times) for t in of_pods} <= {(reason, said, "Normal", 1)}
    assert len({t.about.name for t in of_pods}) == len(of_pods)
    own = [(t.about.name, t.reason, t.message) for t in told if t.about.gk == VPA]
    by_name = "VPA Updater evicted Pod {} to apply resource recommendation."
    assert sorted(own) == (
        [] if in_place else sorted(("web", "EvictedPod", by_name.format(t.about.name)) for t in of_pods)
    )
    pods = {
        p["metadata"]["name"]: p["spec"]["containers"][0]["resources"]["requests"]
        for p in world.twin.store.objects("Pod")
    }
    (recommended,) = world.status("web", VPA)["recommendation"]["containerRecommendations"]
    target = recommended["target"] if minutes else {"cpu": "1", "memory": "1Gi"}
    assert list(pods.values()) == [target] * replicas
    assert first & set(pods) == (first if in_place or not minutes else set())
    assert recommended["uncappedTarget"] == recommended["target"]
    assert list(recommended) == ["containerName", "lowerBound", "target", "uncappedTarget", "upperBound"]
    assert world.status("web", VPA)["conditions"] == [
        {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2026-01-05T00:01:00Z"}
    ]


@pytest.mark.parametrize("after_s", [30, 600])
def test_a_copy_recommends_as_the_original(after_s: int) -> None:
    world = World(load=busy(), objects=[deployment("web", 3), vertical("InPlaceOrRecreate")])
    world.run(after_s)
    copy = world.twin.fork()
    world.run(1800)
    copy.run_for(30 * MINUTE_US)
    assert copy.store.require(Key(VPA, "default", "web"))["status"] == world.status("web", VPA)
    assert copy.digest() == world.twin.digest()
