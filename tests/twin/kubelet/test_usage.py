"""What containers and nodes use: steps, totals, limits, and what stays used when a run is over."""

from __future__ import annotations

from kubeletworld import S, World, container, latency, node, pod

from fairway.twin.behaviour import IDLE_CPU_MILLI, IDLE_MEMORY_BYTES
from fairway.twin.kubelet.usage import NodeUse, node_use
from fairway.twin.twin import EPOCH_US

FOREVER = {"run_time": "forever"}
GI = 2**30


def used(world: World, seconds: float) -> NodeUse:
    return node_use(world.kubelet.nodes["n"], world.kubelet.pods, EPOCH_US, world.us(seconds))


def test_a_container_uses_what_its_annotations_say_at_that_time() -> None:
    says = {**FOREVER, "cpu_usage": "0s:100m,10s:2", "memory_usage": "0s:1Gi,10s:3Gi"}
    world = World(pod("p", says=says)).at(20)
    before, after = (used(world, s).pods[0].containers[0] for s in (5, 20))
    assert (before.cpu_milli, before.memory_bytes, before.core_ns) == (100, GI, 100 * 5 * S)
    assert (after.cpu_milli, after.memory_bytes) == (2000, 3 * GI)
    assert after.core_ns == 100 * 10 * S + 2000 * 10 * S


def test_one_that_says_nothing_is_idle_and_so_is_one_that_still_starts_up() -> None:
    says = {**FOREVER, "startup_time": "30s", "cpu_usage": "1", "memory_usage": "1Gi"}
    world = World(pod("p", says=says), pod("q", says=FOREVER)).at(10)
    for use in used(world, 10).pods:
        assert (use.containers[0].cpu_milli, use.containers[0].memory_bytes) == (
            IDLE_CPU_MILLI,
            IDLE_MEMORY_BYTES,
        )
    assert used(world.at(31), 31).pods[0].containers[0].cpu_milli == 1000


def test_cpu_is_throttled_at_its_limit() -> None:
    main = container(resources={"limits": {"cpu": "500m"}})
    world = World(pod("p", main, says={**FOREVER, "cpu_usage": "3"})).at(5)
    assert used(world, 5).pods[0].containers[0].cpu_milli == 500


def test_memory_above_its_limit_is_killed() -> None:
    main = container(resources={"limits": {"memory": "2Gi"}})
    world = World(pod("p", main, says={**FOREVER, "memory_usage": "0s:1Gi,30s:3Gi"}))
    assert world.at(29).need()["status"]["phase"] == "Running"
    ended = world.at(31).need()["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_node_uses_what_its_pods_use_and_keeps_count_of_those_that_ended() -> None:
    world = World(
        pod("p", says={"run_time": "10s", "cpu_usage": "1", "memory_usage": "1Gi"}),
        pod("q", says={**FOREVER, "cpu_usage": "250m", "memory_usage": "2Gi"}),
        nodes=[node()],
    )
    at_5 = used(world.at(5), 5)
    assert at_5.cpu_milli == 1250 + IDLE_CPU_MILLI
    assert at_5.memory_bytes == 3 * GI + IDLE_MEMORY_BYTES
    at_20 = used(world.at(20), 20)
    assert at_20.cpu_milli == 250 + IDLE_CPU_MILLI
    assert at_20.core_ns == 1000 * 10 * S + (250 + IDLE_CPU_MILLI) * 20 * S


def test_kwoks_annotations_are_understood() -> None:
    meta = {"annotations": {"kwok.x-k8s.io/usage-cpu": "300m", "kwok.x-k8s.io/usage-memory": "5Mi"}}
    world = World(pod("p", meta=meta, restartPolicy="Always")).at(5)
    use = used(world, 5).pods[0].containers[0]
    assert (use.cpu_milli, use.memory_bytes) == (300, 5 * 2**20)


def test_before_its_beginning_a_node_has_used_nothing() -> None:
    world = World(nodes=[node()]).at(5)
    for at_s, used_ns in ((-1, 0), (0, 0), (2, 2 * S * IDLE_CPU_MILLI)):
        found = used(world, at_s)
        assert (found.core_ns, found.cpu_milli, found.pods) == (used_ns, IDLE_CPU_MILLI, ())


def test_pods_that_wait_or_have_not_started_by_then_use_nothing() -> None:
    says = {**FOREVER, "cpu_usage": "1"}
    world = World(pod("p", says=says), latency=latency(container_start=4)).at(6)
    assert [len(one.containers) for at_s in (3.9, 4) for one in used(world, at_s).pods] == [0, 1]
    (one,) = used(world, 6).pods
    assert (one.namespace, one.name, one.started_us) == ("default", "p", EPOCH_US)
    assert (one.containers[0].started_us, one.containers[0].core_ns) == (EPOCH_US + 4 * S, 2 * S * 1000)
