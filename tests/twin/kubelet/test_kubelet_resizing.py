"""Containers that are to have more or less while they run: granted, deferred, carried out, restarted.

Words and order: pkg/kubelet/allocation/allocation_manager_test.go and test/e2e/common/node/pod_resize.go (v1.36).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubeletworld import World, container, node, pod

from fairway.cluster.accounts import CPU_COLUMN, MEMORY_COLUMN
from fairway.kube.objects import Key

GIB = 2**30


def _asking(cpu: str, memory: str = "1Gi", *, limit: str = "", **extra: Any) -> Any:
    resources: dict[str, Any] = {"requests": {"cpu": cpu, "memory": memory}}
    if limit:
        resources["limits"] = {"memory": limit}
    return container(resources=resources, **extra)


def _serving(name: str, *containers: Any, **extra: Any) -> Any:
    return pod(name, *containers, restartPolicy="Always", meta={"generation": 1}, **extra)


def resize(world: World, name: str, *containers: Any) -> None:
    """As the `resize` subresource writes it."""
    key = Key("Pod", "default", name)
    world.twin.store.patch(key, {"spec": {"containers": list(containers)}})
    world.twin.wake()


def _events(world: World, name: str, prefix: str = "Resize") -> list[tuple[str, str, str]]:
    found = world.twin.host.events.about(Key("Pod", "default", name))
    return [(e.type, e.reason, e.message) for e in found if e.reason.startswith(prefix)]


def _told(world: World, name: str = "p") -> dict[str, Any]:
    status: dict[str, Any] = world.need(name)["status"]["containerStatuses"][0]
    return status


def _taken(world: World) -> tuple[int, int]:
    """Milli-CPU and bytes that count as taken on the node."""
    accounts = world.twin.store.accounts
    row = accounts.row_of["n"]
    return int(accounts.requested[row, CPU_COLUMN]), int(accounts.requested[row, MEMORY_COLUMN])


def test_a_running_container_tells_what_it_was_granted_and_has() -> None:
    world = World(_serving("p", _asking("1", limit="2Gi"))).at(1)
    told = _told(world)
    assert told["allocatedResources"] == {"cpu": "1", "memory": "1Gi"}
    assert told["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"memory": "2Gi"},
    }


def test_more_is_granted_where_there_is_room_and_carried_out_without_a_restart() -> None:
    world = World(_serving("p", _asking("1"))).at(1)
    resize(world, "p", _asking("3"))
    world.at(5)
    told = _told(world)
    assert told["restartCount"] == 0
    assert told["allocatedResources"]["cpu"] == told["resources"]["requests"]["cpu"] == "3"
    assert world.condition("PodResizePending") == ("", "")
    assert world.condition("PodResizeInProgress") == ("", "")
    assert _taken(world)[0] == 3000
    wished = (
        '{"containers":[{"name":"main","resources":{"requests":{"cpu":"3","memory":"1Gi"}}}],"generation":2}'
    )
    assert _events(world, "p") == [
        ("Normal", "ResizeStarted", f"Pod resize started: {wished}"),
        ("Normal", "ResizeCompleted", f"Pod resize completed: {wished}"),
    ]


def test_more_than_is_free_is_deferred_counts_all_the_same_and_is_granted_once_there_is_room() -> None:
    world = World(_serving("p", _asking("1")), _serving("q", _asking("5"))).at(1)
    resize(world, "p", _asking("4"))
    world.at(2)
    assert world.condition("PodResizePending") == ("True", "Deferred")
    said = "Node didn't have enough resource: cpu, requested: 4000, used: 5000, capacity: 8000"
    (pending,) = [c for c in world.need()["status"]["conditions"] if c["type"] == "PodResizePending"]
    assert (pending["message"], pending["observedGeneration"]) == (said, 2)
    assert _events(world, "p") == [
        (
            "Warning",
            "ResizeDeferred",
            'Pod resize OutOfcpu: {"containers":[{"name":"main","resources":{"requests":{"cpu":"4","memory":"1Gi"}}}],'
            f'"generation":2,"error":"{said}"}}',
        )
    ]
    # The scheduler counts what is wished, though the kubelet has not granted it.
    assert _taken(world)[0] == 9000
    assert _told(world)["allocatedResources"]["cpu"] == "1"
    world.delete("q", grace_s=1)
    world.at(60)
    assert _told(world)["allocatedResources"]["cpu"] == _told(world)["resources"]["requests"]["cpu"] == "4"
    assert world.condition("PodResizePending") == ("", "")
    assert _taken(world)[0] == 4000


def test_a_deferred_wish_that_is_taken_back_is_forgotten() -> None:
    world = World(_serving("p", _asking("1"))).at(1)
    resize(world, "p", _asking("40"))
    world.at(2)
    assert world.condition("PodResizePending")[1] == "Deferred"
    resize(world, "p", _asking("1"))
    world.at(3)
    assert world.condition("PodResizePending") == ("", "")
    assert _taken(world)[0] == 1000


def test_what_shrinks_makes_room_for_what_waits() -> None:
    world = World(_serving("p", _asking("1")), _serving("q", _asking("5"))).at(1)
    resize(world, "p", _asking("4"))
    world.at(2)
    resize(world, "q", _asking("2"))
    world.at(3)
    assert _told(world, "q")["resources"]["requests"]["cpu"] == "2"
    assert _told(world, "p")["resources"]["requests"]["cpu"] == "4"
    assert _taken(world)[0] == 6000


def test_a_resource_whose_policy_says_so_restarts_its_container_once() -> None:
    policy = [
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
    ]
    world = World(_serving("p", _asking("1", "1Gi", resizePolicy=policy))).at(1)
    resize(world, "p", _asking("2", "1Gi", resizePolicy=policy))
    world.at(100)
    assert _told(world)["restartCount"] == 0
    resize(world, "p", _asking("2", "3Gi", resizePolicy=policy))
    world.at(200)
    told = _told(world)
    assert (told["restartCount"], told["resources"]["requests"]["memory"]) == (1, "3Gi")
    killing = [m for _, _, m in _events(world, "p", "Killing")]
    assert killing == ["Container main resize requires restart"]
    assert world.condition("PodResizeInProgress") == ("", "")
    assert [r for _, r, _ in _events(world, "p")] == ["ResizeStarted", "ResizeCompleted"] * 2


@pytest.mark.parametrize(
    ("resource", "before", "after", "restarts"),
    [
        # A limit alone, or a request alone, of the resource that says so.
        ("memory", _asking("1", "1Gi", limit="2Gi"), _asking("1", "1Gi", limit="3Gi"), 1),
        ("memory", _asking("1", "1Gi", limit="4Gi"), _asking("1", "2Gi", limit="4Gi"), 1),
        ("memory", _asking("1", "1Gi", limit="2Gi"), _asking("2", "1Gi", limit="2Gi"), 0),
        ("cpu", _asking("1", "1Gi", limit="2Gi"), _asking("1", "1Gi", limit="3Gi"), 0),
        ("cpu", _asking("1", "1Gi", limit="2Gi"), _asking("2", "1Gi", limit="2Gi"), 1),
    ],
)
def test_a_limit_counts_as_a_request_does(resource: str, before: Any, after: Any, restarts: int) -> None:
    policy = [{"resourceName": resource, "restartPolicy": "RestartContainer"}]
    world = World(_serving("p", {**before, "resizePolicy": policy})).at(1)
    resize(world, "p", {**after, "resizePolicy": policy})
    world.at(100)
    told = _told(world)
    assert (told["restartCount"], told["resources"]) == (restarts, after["resources"])


def test_a_memory_limit_is_not_set_below_what_is_in_use() -> None:
    says = {"memory_usage": "3Gi"}
    world = World(_serving("p", _asking("1", "1Gi", limit="4Gi"), says=says)).at(100)
    resize(world, "p", _asking("1", "1Gi", limit="2Gi"))
    world.at(110)
    assert world.condition("PodResizeInProgress") == ("True", "Error")
    (failed,) = [e for e in _events(world, "p") if e[1] == "ResizeError"]
    said = f'attempting to set container \\"main\\" memory limit ({2 * GIB}) below current usage ({3 * GIB})'
    assert f'"error":"cannot decrease memory limits: {said}"' in failed[2]
    assert _told(world)["resources"]["limits"]["memory"] == "4Gi"
    resize(world, "p", _asking("1", "1Gi", limit="5Gi"))
    world.at(300)
    assert _told(world)["resources"]["limits"]["memory"] == "5Gi"
    assert world.condition("PodResizeInProgress") == ("", "")


def test_a_limit_raised_in_time_saves_a_container_from_the_kernel() -> None:
    says = {"memory_usage": "0s:1Gi,60s:3Gi"}
    saved, lost = (World(_serving("p", _asking("1", "1Gi", limit="2Gi"), says=says)).at(10) for _ in range(2))
    resize(saved, "p", _asking("1", "1Gi", limit="4Gi"))
    assert _told(saved.at(100))["restartCount"] == 0
    assert (_told(lost.at(100))["lastState"].get("terminated") or {}).get("reason") == "OOMKilled"


def test_who_grows_waits_by_priority_and_what_ends_lets_the_first_of_them_go_on() -> None:
    low = _serving("low", _asking("1"), priority=1)
    high = _serving("high", _asking("1"), priority=9)
    world = World(low, high, _serving("q", _asking("6")), nodes=[node(cpu="8")]).at(1)
    resize(world, "low", _asking("6"))
    resize(world, "high", _asking("6"))
    world.at(2)
    assert {world.condition("PodResizePending", name)[1] for name in ("low", "high")} == {"Deferred"}
    world.delete("q", grace_s=1)
    world.at(60)
    assert _told(world, "high")["resources"]["requests"]["cpu"] == "6"
    assert world.condition("PodResizePending", "low")[1] == "Deferred"


def test_a_fork_goes_on_with_a_resize() -> None:
    world = World(_serving("p", _asking("1")), _serving("q", _asking("5"))).at(1)
    resize(world, "p", _asking("4"))
    world.at(2)
    twin = world.twin.fork()
    for one in (world.twin, twin):
        one.store.delete(Key("Pod", "default", "q"), grace_s=0)
        one.wake()
        one.run_for(10_000_000)
    status = [t.store.require(Key("Pod", "default", "p"))["status"] for t in (world.twin, twin)]
    assert status[0] == status[1]
    assert status[0]["containerStatuses"][0]["resources"]["requests"]["cpu"] == "4"


@pytest.mark.parametrize("resized", [False, True])
def test_what_a_run_does_is_not_changed_by_another_memory_limit(resized: bool) -> None:
    """Neither what it resumed from, nor which attempt it is."""

    def limited(limit: str) -> Any:
        return container(resources={"requests": {"cpu": "1"}, "limits": {"memory": limit}})

    saves = {"run-time": "10m", "checkpoint-interval": "1m", "checkpoint-key": "w", "memory-usage": "1Gi"}
    codes = {"run-time": "100s", "exit-code": "3,0", "memory-usage": "0s:1Gi,1m:2Gi"}
    world = World(pod("first", limited("4Gi"), says=saves)).at(185)
    world.twin.store.delete(Key("Pod", "default", "first"), grace_s=0)
    world.twin.apply(
        [
            pod("p", limited("4Gi"), says=saves),
            pod("q", limited("4Gi"), restartPolicy="OnFailure", says=codes),
        ]
    )
    world.at(200)
    if resized:
        for name in ("p", "q"):
            resize(world, name, limited("3Gi"))
    # Seven minutes are left of one; the other fails, waits for nothing, and succeeds.
    assert world.at(604).seen("p") == "Running 1/1 main=run"
    assert world.at(606).seen("p") == "Succeeded 0/1 main=end:Completed:0"
    assert world.seen("q") == "Succeeded 0/1 main=end:Completed:0*1"
    totals = world.kubelet.progress.totals
    assert (totals.resumed, totals.useful_us) == (1, 700_000_000)


@pytest.mark.parametrize(
    ("policy", "wanted", "said"),
    [
        ({"cpuManagerPolicy": "static"}, ("3", "1Gi"), 'CPU Manager policy "static"'),
        ({"cpuManagerPolicy": "static"}, ("1", "1Gi"), 'CPU Manager policy "static"'),
        ({"cpuManagerPolicy": "static"}, ("2", "2Gi"), ""),
        ({"cpuManagerPolicy": "none"}, ("3", "1Gi"), ""),
    ],
)
def test_who_has_cpus_of_its_own_keeps_their_number(
    policy: dict[str, str], wanted: tuple[str, str], said: str
) -> None:
    def asks(cpu: str, memory: str, *, is_guaranteed: bool) -> Any:
        amounts = {"cpu": cpu, "memory": memory}
        return container(resources={"requests": amounts, **({"limits": amounts} if is_guaranteed else {})})

    reserved = {"reservedSystemCPUs": "0"} if policy["cpuManagerPolicy"] == "static" else {}
    own = node(cpu="8")
    own["metadata"]["annotations"] = {
        "fairway.dev/kubelet-configuration": json.dumps({**policy, **reserved}),
        "fairway.dev/board": "p5",
    }
    own["status"]["capacity"] = {"cpu": "192", "memory": "64Gi", "pods": "110"}
    for name, is_guaranteed in (("p", True), ("q", False)):
        world = World(nodes=[own])
        one = _serving(name, asks("2", "1Gi", is_guaranteed=is_guaranteed))
        world.twin.apply([one])
        class_ = "Guaranteed" if is_guaranteed else "Burstable"
        world.twin.store.set_status(Key("Pod", "default", name), {"phase": "Pending", "qosClass": class_})
        world.at(1)
        assert world.seen(name) == "Running 1/1 main=run"
        resize(world, name, asks(*wanted, is_guaranteed=is_guaranteed))
        world.at(20)
        found = [(type_, reason) for type_, reason, _ in _events(world, name)]
        if said and is_guaranteed:
            assert found == [("Warning", "ResizeInfeasible")]
            words = json.loads(_events(world, name)[0][2].removeprefix("Pod resize Infeasible: "))
            assert words["error"] == f"Resize is infeasible for Guaranteed Pods alongside {said}"
            assert not world.kubelet.nodes["n"].resizes, "it is not tried again"
        else:
            assert found[0] == ("Normal", "ResizeStarted")
