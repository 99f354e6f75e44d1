"""Admission at the node, images, nodes that fail, return, shut down and vanish."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kubeletworld import S, World, container, latency, node, pod

from fairway.kube.objects import Key, Obj
from fairway.twin import faults

SERVER = {"says": {"run_time": "forever"}, "restartPolicy": "Always"}


def request(cpu: str, **more: str) -> Obj:
    return {"resources": {"requests": {"cpu": cpu, **more}}}


REJECTIONS: dict[str, tuple[list[Obj], list[Obj], str, str]] = {
    "too little cpu left": (
        [node(cpu="2")],
        [pod("a", container(**request("1500m")), **SERVER), pod("p", container(**request("1")))],
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
    ),
    "no room for another pod": (
        [node(pods="1")],
        [pod("a", **SERVER), pod("p")],
        "OutOfpods",
        "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1",
    ),
    "a device is taken": (
        [node(more={"nvidia.com/gpu": "1"})],
        [
            pod("a", container(**request("1", **{"nvidia.com/gpu": "1"})), **SERVER),
            pod("p", container(**request("1", **{"nvidia.com/gpu": "1"}))),
        ],
        "OutOfnvidia.com/gpu",
        "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 1, capacity: 1",
    ),
    "the node is another kind of node": (
        [node(labels={"gpu": "a100"})],
        [pod("p", nodeSelector={"gpu": "h100"})],
        "NodeAffinity",
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
}


@pytest.mark.parametrize("name", REJECTIONS)
def test_a_kubelet_refuses(name: str) -> None:
    nodes, pods, reason, message = REJECTIONS[name]
    world = World(*pods, nodes=nodes).at(1)
    status = world.need()["status"]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", reason, message)
    assert world.said()[0] == f"{reason}*1"


def test_a_kubelet_refuses_what_its_taints_would_throw_out() -> None:
    world = World(pod("p"), nodes=[node(spec={"taints": [{"key": "x", "effect": "NoExecute"}]})])
    why = "Predicate TaintToleration failed: node(s) had untolerated taint(s)"
    told = world.at(1).twin.host.events.about(Key("Pod", "default", "p"))
    assert (told[0].reason, told[0].message) == ("TaintToleration", why)


def test_a_device_no_node_knows_is_not_the_kubelets_business() -> None:
    world = World(pod("p", container(**request("1", **{"example.com/fpga": "1"})), says={"run_time": "5s"}))
    assert world.at(5).seen().startswith("Succeeded")


def test_what_an_ended_pod_held_is_free_again() -> None:
    world = World(pod("a", container("main", "sleep 5", **request("8"))))
    world.at(5)
    world.twin.apply([pod("p", container("main", "sleep 5", **request("8")))])
    assert world.at(6).seen() == "Running 1/1 main=run"
    assert world.kubelet.nodes["n"].used["cpu"] == 8000


def test_a_node_registers_as_ready_with_addresses() -> None:
    world = World().at(1)
    status = world.node()["status"]
    assert world.ready() == ("True", "KubeletReady")
    assert [c["type"] for c in status["conditions"]] == [
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "Ready",
    ]
    assert status["capacity"] == status["allocatable"]


def test_status_is_written_as_a_kubelet_writes_it() -> None:
    world = World(pod("p", container("main", "sleep 5"), hostNetwork=True)).at(1)
    status = world.need()["status"]
    assert [c["type"] for c in status["conditions"]] == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    assert {c["status"] for c in status["conditions"]} == {"True"}
    assert status["podIP"] == status["hostIP"]
    assert status["containerStatuses"] == [
        {
            "name": "main",
            "state": {"running": {"startedAt": "2026-01-05T00:00:00Z"}},
            "lastState": {},
            "ready": True,
            "restartCount": 0,
            "image": "main:1",
            "imageID": "",
            "started": True,
            "resources": {},
        }
    ]


def test_one_pull_at_a_time_and_each_image_once() -> None:
    slow = latency(image_pull=10)
    pods = [
        pod(n, container("main", image=i), says={"run_time": "1h"})
        for n, i in (("a", "x:1"), ("b", "x:1"), ("c", "y:1"))
    ]
    world = World(*pods, latency=slow)
    assert [world.at(10).seen(n)[:7] for n in "abc"] == ["Running", "Running", "Pending"]
    assert world.at(20).seen("c").startswith("Running")


def test_a_slow_registry() -> None:
    world = World(latency=latency(image_pull=10))
    faults.slow_registry(world.twin, world.us(0), 3.0)
    world.at(1).twin.apply([pod("p", says={"run_time": "1h"})])
    assert world.at(30.9).seen().startswith("Pending")
    assert world.at(31).seen().startswith("Running")


def test_a_pod_bound_before_its_node_is_known() -> None:
    world = World(pod("p", container("main", "sleep 5")), nodes=[])
    assert world.at(3).seen().startswith("Pending 0/1")
    world.twin.apply([node()])
    assert world.at(8).seen().startswith("Succeeded")


# Nodes that fail. The last heartbeat of node `n` under seed 1 is at most ten seconds before the crash.


def test_a_silent_node_becomes_unknown_after_the_grace_and_is_tainted() -> None:
    world = World(pod("p", **SERVER), nodes=[node(), node("m")])
    world.crash(100)
    world.at(140)
    assert world.ready() == ("True", "KubeletReady")
    world.at(155)
    assert world.ready() == ("Unknown", "NodeStatusUnknown")
    assert world.condition("Ready") == ("False", "")
    assert "unreachable:NoSchedule" in world.taints()
    world.at(160)
    assert world.taints() == ["unreachable:NoExecute", "unreachable:NoSchedule"]
    assert "NodeNotReady*1" in world.said()


def test_pods_of_a_silent_node_are_evicted_five_minutes_later() -> None:
    world = World(
        pod("p", **SERVER),
        pod("d", tolerations=[{"operator": "Exists"}], **SERVER),
        nodes=[node(), node("m")],
    )
    world.crash(100)
    world.at(160)
    tainted_s = _tainted_at(world)
    world.at(tainted_s + 299)
    assert "deletionTimestamp" not in world.need()["metadata"]
    world.at(tainted_s + 300)
    assert "deletionTimestamp" in world.need()["metadata"]
    assert world.condition("DisruptionTarget") == ("True", "DeletionByTaintManager")
    assert "deletionTimestamp" not in world.need("d")["metadata"]
    # The kubelet is dead: nobody confirms, so the pod stays Terminating until the node is back or gone.
    assert "Terminating" in world.at(5000).seen()


def _tainted_at(world: World) -> int:
    added = next(t["timeAdded"] for t in world.node()["spec"]["taints"] if t["effect"] == "NoExecute")
    minutes, seconds = added[14:19].split(":")
    return int(minutes) * 60 + int(seconds)


def test_a_pods_own_toleration_decides() -> None:
    patience = [
        {
            "key": "node.kubernetes.io/unreachable",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 30,
        }
    ]
    world = World(pod("p", tolerations=patience, **SERVER), nodes=[node(), node("m")])
    world.crash(100)
    tainted_s = _tainted_at(world.at(160))
    assert "deletionTimestamp" not in world.at(tainted_s + 29).need()["metadata"]
    assert "deletionTimestamp" in world.at(tainted_s + 30).need()["metadata"]


def test_a_node_that_returns_restarts_its_pods() -> None:
    world = World(pod("p", **SERVER), pod("once", container("main", "sleep 900")), nodes=[node(), node("m")])
    world.crash(100, for_s=120)
    world.at(221)
    assert world.ready() == ("True", "KubeletReady")
    assert world.seen() == "Running 1/1 main=run*1"
    assert world.need()["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 255
    assert world.seen("once") == "Failed 0/1 main=end:Unknown:255"
    assert world.at(230).taints() == []
    assert world.at(1000).seen() == "Running 1/1 main=run*1"


def test_a_node_that_returns_runs_init_containers_and_then_the_others() -> None:
    server = pod("p", initContainers=[container("first", "sleep 5")], **SERVER)
    world = World(server, nodes=[node(), node("m")])
    assert world.at(90).seen() == "Running 1/1 first=end:Completed:0 main=run"
    world.crash(100, for_s=20)
    assert world.at(200).seen() == "Running 1/1 first=end:Completed:0*1 main=run*1"


def test_a_node_that_returns_finds_evicted_pods_deleted() -> None:
    world = World(pod("p", **SERVER), nodes=[node(), node("m")])
    world.crash(100, for_s=1000)
    assert "Terminating" in world.at(1090).seen()
    assert world.at(1101).seen() == "gone"
    assert world.kubelet.nodes["n"].used == {}


def test_a_short_crash_is_never_noticed_but_for_the_restart() -> None:
    world = World(pod("p", **SERVER))
    world.crash(100, for_s=20)
    assert world.at(200).seen() == "Running 1/1 main=run*1"
    assert world.taints() == []


def test_a_pod_that_ends_behind_a_partition_is_reported_when_it_heals() -> None:
    world = World(pod("p", container("main", "sleep 150")), pod("q", **SERVER), nodes=[node(), node("m")])
    faults.partition_node(world.twin, "n", world.us(100), 100 * S)
    assert world.at(190).seen() == "Running 1/1 main=run"
    world.at(201)
    assert world.seen() == "Succeeded 0/1 main=end:Completed:0"
    assert world.seen("q") == "Running 1/1 main=run"
    assert world.condition("Ready", "q") == ("True", "")


def test_a_pod_bound_to_a_dead_node_starts_when_it_returns() -> None:
    world = World(nodes=[node(), node("m")])
    world.crash(10, for_s=20)
    world.at(15).twin.apply([pod("p", container("main", "sleep 5"))])
    assert world.at(29).seen().startswith("Pending")
    assert world.at(35).seen().startswith("Succeeded")


def test_a_graceful_shutdown_stops_pods_and_refuses_new_ones() -> None:
    world = World(
        pod("p", container("main", "sleep 600")),
        pod("crit", **SERVER, priority=2_000_000_000),
        nodes=[node(), node("m")],
    )
    faults.shut_down_node(world.twin, "n", world.us(10), grace_us=30 * S, critical_us=10 * S)
    world.at(11).twin.apply([pod("late")])
    world.at(20)
    assert world.ready() == ("False", "KubeletNotReady")
    assert world.need("late")["status"]["reason"] == "NodeShutdown"
    assert world.seen("crit") == "Running 1/1 main=run"
    world.at(31)
    assert world.seen() == "Failed/Terminated 0/1 main=end:Error:137"
    assert world.condition("DisruptionTarget") == ("True", "TerminationByKubelet")
    assert world.seen("crit") == "Failed/Terminated 0/1 main=end:Error:143"


def test_spot_capacity_is_taken_back_with_notice() -> None:
    world = World(pod("p", says={"run_time": "1h"}), nodes=[node(), node("m")])
    faults.preempt_node(world.twin, "n", world.us(10), notice_us=30 * S)
    assert world.at(12).seen() == "Failed/Terminated 0/1 main=end:Error:143"
    world.at(41)
    assert world.twin.store.get(Key("Node", "", "n")) is None


def test_pods_of_a_node_that_vanished_are_collected() -> None:
    world = World(pod("p", **SERVER), nodes=[node(), node("m")])
    world.at(10)
    world.twin.store.delete(Key("Node", "", "n"))
    assert world.at(49).seen().startswith("Running")
    # Noticed at 10, quarantined for 40 s, collected at the next twentieth second.
    assert world.at(61).seen() == "gone"
    assert world.twin.host.log.records()[-1].reason == "DeletionByPodGC"


def test_ended_pods_of_a_node_that_vanished_are_collected_too() -> None:
    world = World(pod("p", says={"run_time": "1s"}), pod("q", **SERVER), nodes=[node(), node("m")])
    assert world.at(10).seen().startswith("Succeeded")
    world.twin.store.delete(Key("Node", "", "n"))
    world.at(20)
    other = pod("r", says={"run_time": "1s"}, meta={"finalizers": ["example.com/hold"]})
    world.twin.apply([other])
    # The node is missed since 10, whenever its pods came.
    assert world.at(59).seen().startswith("Succeeded") and world.seen("q").startswith("Running")
    world.at(61)
    assert (world.seen(), world.seen("q")) == ("gone", "gone")
    held = world.need("r")
    assert held["status"]["phase"] == "Failed" and "deletionTimestamp" in held["metadata"]
    assert world.condition("DisruptionTarget", "r") == ("True", "DeletionByPodGC")


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    world = World(pod("p", says={"run_time": "1s"}), nodes=[node(), node("m")])
    world.at(10).twin.store.delete(Key("Node", "", "n"))
    world.at(40).twin.apply([node()])
    assert world.at(200).seen().startswith("Succeeded")


def test_a_pod_told_to_go_before_it_had_a_node_fails_while_a_finalizer_holds_it() -> None:
    held = pod("p", meta={"finalizers": ["example.com/hold"]})
    del held["spec"]["nodeName"]
    world = World(held)
    world.at(5).delete()
    assert world.at(19).seen().startswith("Pending")
    world.at(21)
    assert world.need()["status"]["phase"] == "Failed"
    assert world.condition("DisruptionTarget") == ("", "")
    world.twin.store.set_finalizers(Key("Pod", "default", "p"), [])
    assert world.at(22).seen() == "gone"


def test_pods_told_to_go_on_a_node_declared_dead_are_collected_whenever_that_is() -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoSchedule"}
    world = World(pod("p", **SERVER), pod("q", **SERVER))
    world.crash(10)
    world.at(100).twin.store.patch(Key("Node", "", "n"), {"spec": {"taints": [taint]}})
    world.at(130).delete("q", grace_s=30)
    assert world.at(141).seen("q") == "gone"
    # Nobody told it to go.
    assert "deletionTimestamp" not in world.need("p")["metadata"]


def test_a_killed_process_is_restarted() -> None:
    world = World(pod("p", **SERVER))
    faults.kill_container(world.twin, Key("Pod", "default", "p"), world.us(10))
    assert world.at(11).seen() == "Running 1/1 main=run*1"


def test_an_eviction_for_lack_of_memory() -> None:
    world = World(pod("p", **SERVER))
    faults.evict_pod(world.twin, Key("Pod", "default", "p"), world.us(10))
    assert world.at(12).seen() == "Failed/Evicted 0/1 main=end:Error:143"


def test_when_every_node_is_silent_nobody_is_evicted() -> None:
    world = World(pod("p", **SERVER), nodes=[node(), node("m")])
    world.crash(100)
    world.crash(100, name="m")
    world.at(2000)
    assert world.taints() == ["unreachable:NoSchedule"]
    assert "deletionTimestamp" not in world.need()["metadata"]


def test_taints_are_handed_out_ten_seconds_apart() -> None:
    names = [f"n{i}" for i in range(10)]
    world = World(nodes=[node(n) for n in names])
    for name in names[:3]:
        world.crash(100, name=name)

    def tainted() -> int:
        return sum("unreachable:NoExecute" in world.taints(n) for n in names)

    world.at(160)
    first = tainted()
    assert first in (1, 2)
    assert world.at(170).twin and tainted() == first + 1


def test_in_a_small_zone_that_is_mostly_down_evictions_stop() -> None:
    names = [f"n{i}" for i in range(5)]
    world = World(nodes=[node(n) for n in names])
    for name in names[:4]:
        world.crash(100, name=name)
    world.at(3000)
    assert sum("unreachable:NoExecute" in world.taints(n) for n in names) == 0


def test_cordoning_taints_the_node() -> None:
    world = World().at(1)
    world.twin.store.patch(Key("Node", "", "n"), {"spec": {"unschedulable": True}})
    assert world.at(2).taints() == ["unschedulable:NoSchedule"]
    world.twin.store.patch(Key("Node", "", "n"), {"spec": {"unschedulable": None}})
    assert world.at(3).taints() == []


def test_terminating_pods_of_a_node_declared_dead_are_collected() -> None:
    world = World(pod("p", **SERVER), nodes=[node(), node("m")])
    world.crash(100)
    world.at(1000)
    assert "Terminating" in world.seen()
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    taints = [*world.node()["spec"]["taints"], taint]
    world.twin.store.patch(Key("Node", "", "n"), {"spec": {"taints": taints}})
    world.twin.wake()
    assert world.at(1041).get("p") is None


def test_ended_pods_beyond_the_threshold_are_collected() -> None:
    world = World(latency=replace(latency(), terminated_pod_gc_threshold=3))
    world.twin.apply([pod(f"p{i}", container("main", f"sleep {i + 1}")) for i in range(6)])
    world.at(19)
    assert sum(world.get(f"p{i}") is not None for i in range(6)) == 6
    world.at(21)
    assert [world.get(f"p{i}") is not None for i in range(6)] == [False] * 3 + [True] * 3


@pytest.mark.parametrize(
    "extra",
    [
        {"says": {"run_time": "1h", "readiness_fails": "20s-"}},
        {"says": {"run_time": "1h", "image_pull_fails": "true"}},
        {
            "says": {"run_time": "1h"},
            "initContainers": [container("a", "sleep 15"), container("b", "sleep 9")],
        },
    ],
)
def test_a_pod_that_somebody_else_declares_over_is_stopped(extra: Obj) -> None:
    main = container("main", readinessProbe={"httpGet": {"port": 1}})
    world = World(pod("p", main, **extra)).at(5)
    key = Key("Pod", "default", "p")
    world.twin.store.set_status(key, {**world.need()["status"], "phase": "Failed", "reason": "Told"})
    world.at(300)
    assert world.need()["status"]["reason"] == "Told"
    assert world.kubelet.pods == {} and world.kubelet.nodes["n"].pods == {}


def test_what_happens_to_a_pod_that_is_not_there_is_nothing() -> None:
    world = World(pod("p")).at(1)
    for name in ("p", "none"):
        faults.evict_pod(world.twin, Key("Pod", "default", name), world.us(2))
        faults.kill_container(world.twin, Key("Pod", "default", name), world.us(3))
        faults.delete_pod(world.twin, Key("Pod", "default", name), world.us(4))
    world.twin.store.delete(Key("Pod", "default", "p"), grace_s=0)
    world.twin.wake()
    world.at(10)
    assert world.twin.store.count("Pod") == 0
