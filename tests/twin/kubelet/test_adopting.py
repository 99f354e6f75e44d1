"""A kubelet that starts anew goes on with what ran: in the end nobody can tell that it was away."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from kubeletworld import NONE, S, World, container, latency, node, pod

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.twin import faults
from fairway.twin.distributions import parse_distribution
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import Latency
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.tainteviction import TaintEviction
from fairway.twin.twin import EPOCH_US, Twin


def restarted(world: World, latency: Latency = NONE) -> World:
    """The same cluster, its components new: all that they know is what is stored."""
    again = World.__new__(World)
    again.kubelet = Kubelet()
    components = [Faults(), again.kubelet, NodeLifecycle(), TaintEviction(), PodGarbageCollector()]
    store = world.twin.store.fork()
    again.twin = Twin(seed=1, latency=latency, components=components, start_us=store.now_us, store=store)
    return again


def drawn(draw: random.Random) -> tuple[list[Obj], list[tuple[float, str]]]:
    """Pods of many kinds, and when some of them are deleted. None comes to its second backoff: see below."""
    pods, deletions = [], []
    for number in range(draw.randint(1, 3)):
        names = [f"c{i}" for i in range(draw.randint(1, 2))]
        policy, deadline = draw.choice(["Never", "OnFailure"]), draw.choice([0, 0, 10, 30])
        says: dict[str, str] = {}
        for name in names:
            says[f"run-time.{name}"] = draw.choice(["5", "20", "40", "forever"])
            says[f"exit-code.{name}"] = draw.choice(["0", "1,0", "1" if policy == "Never" else "0"])
            says[f"stop-time.{name}"] = "1" if deadline else draw.choice(["1", "4", "never"])
        extra: dict[str, Any] = {"restartPolicy": policy}
        inits = []
        if draw.random() < 0.4:
            inits.append(container("i0"))
            says["run-time.i0"], says["exit-code.i0"] = draw.choice(["3", "15"]), draw.choice(["0", "1,0"])
        if draw.random() < 0.3:
            inits.append(container("side", restartPolicy="Always"))
            says["run-time.side"] = "forever"
        if inits:
            extra["initContainers"] = inits
        if deadline:
            extra["activeDeadlineSeconds"] = deadline
        extra["terminationGracePeriodSeconds"] = draw.choice([0, 3, 30])
        pods.append(pod(f"p{number}", *[container(name) for name in names], says=says, **extra))
        if draw.random() < 0.4:
            deletions.append((draw.choice([8.0, 22.0, 36.0]), f"p{number}"))
    return pods, deletions


def plain(world: World) -> dict[str, Any]:
    """What is stored of pods, but for versions of writes."""
    found = {}
    for obj in world.twin.store.objects("Pod"):
        found[obj["metadata"]["name"]] = (obj["metadata"].get("deletionTimestamp"), obj["status"])
    return found


@pytest.mark.parametrize("seed", range(60))
def test_nobody_can_tell_that_it_was_away(seed: int) -> None:
    draw = random.Random(seed)
    pods, deletions = drawn(draw)
    cut = draw.choice([1.5, 4.5, 9.5, 17.5, 23.5, 37.5])
    world = World(*pods, nodes=[node()])
    other: World | None = None
    for at, name in sorted([*deletions, (cut, ""), (90.0, "")]):
        world.at(at)
        if other is not None:
            other.at(at)
            assert plain(other) == plain(world)
        if name:
            for one in (world, other):
                if one is not None and one.get(name) is not None:
                    one.delete(name)
        elif at == cut:
            other = restarted(world)
    assert other is not None
    assert plain(other) == plain(world)


def test_attempts_go_on_counting_over_pods_that_ended() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    says = {"run-time": "5", "exit-code": "1,1,0"}
    tries = [pod(f"try{n}", says=says, meta={"ownerReferences": [owner]}) for n in range(3)]
    world = World(tries[0], nodes=[node()]).at(6.5)
    world.twin.apply([tries[1]])
    # The second is under way when the kubelet goes; the third is made after it came back.
    other = restarted(world.at(8.5)).at(20.5)
    other.twin.apply([tries[2]])
    assert [other.at(30.5).seen(f"try{n}") for n in range(3)] == [
        "Failed 0/1 main=end:Error:1",
        "Failed 0/1 main=end:Error:1",
        "Succeeded 0/1 main=end:Completed:0",
    ]


def test_attempts_of_one_pod_are_counted_once() -> None:
    says = {"run-time": "5", "exit-code": "1,1,0"}
    world = World(pod("p", says=says, restartPolicy="OnFailure"), nodes=[node()]).at(7.5)
    other = restarted(world)
    for one in (world, other):
        # The second run fails as well; the third, which waits for ten seconds, does not.
        assert one.at(10.5).seen() == "Running 0/1 main=wait:CrashLoopBackOff*1" or one is other
        assert one.at(40).seen() == "Succeeded 0/1 main=end:Completed:0*2"


def test_attempts_are_counted_where_exit_codes_differ_also_by_a_new_kubelet() -> None:
    world = World(
        pod("p", says={"run-time": "5", "exit-code": "7"}, restartPolicy="OnFailure"), nodes=[node()]
    )
    other = restarted(world.at(7.5)).at(8)
    other.delete(grace_s=0)
    other.twin.apply([pod("p", says={"run-time": "5", "exit-code": "3,0"})])
    assert other.at(20).seen() == "Failed 0/1 main=end:Error:3"


def test_backoffs_are_forgotten_as_by_a_kubelet() -> None:
    world = World(pod(says={"run-time": "5", "exit-code": "1"}, restartPolicy="Always"), nodes=[node()])
    assert world.at(12.5).seen() == "Running 0/1 main=wait:CrashLoopBackOff*1"
    other = restarted(world)
    assert other.at(13.5).seen() == "Running 1/1 main=run*2"
    assert world.at(13.5).seen() == "Running 0/1 main=wait:CrashLoopBackOff*1"


def test_what_was_ready_stays_ready() -> None:
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 5, "initialDelaySeconds": 3}
    made = pod("p", container(readinessProbe=probe), says={"run-time": "forever"})
    other = restarted(World(made, nodes=[node()]).at(9.5))
    assert other.at(9.6).seen() == "Running 1/1 main=run"
    assert other.condition("Ready") == ("True", "")


def test_a_node_keeps_count_of_what_it_has() -> None:
    asks = {"resources": {"requests": {"cpu": "5"}}}
    made = pod("p", container(**asks), says={"run-time": "20"})
    other = restarted(World(made, nodes=[node(cpu="8")]).at(5.5))
    other.twin.apply([pod("q", container(**asks))])
    assert other.at(6.5).seen("q").startswith("Failed/OutOfcpu")
    other.at(25.5).twin.apply([pod("r", container(**asks))])
    assert other.at(26.5).seen("r").startswith("Running 1/1")


def test_a_pod_that_was_being_deleted_goes_on_going() -> None:
    made = pod("p", says={"stop-time": "10"}, terminationGracePeriodSeconds=30)
    world = World(made, nodes=[node()]).at(5)
    world.delete()
    other = restarted(world.at(7.5))
    assert other.get() is not None
    assert other.at(20).get() is None


P = Key("Pod", "default", "p")
PROBE: Obj = {"tcpSocket": {"port": 80}, "periodSeconds": 5}


def staged(name: str = "p", **extra: Any) -> Obj:
    init = [container("i0", "sleep 4"), container("i1", "sleep 4")]
    return pod(name, container("a", "sleep 30"), container("b", "sleep 30"), initContainers=init, **extra)


# What there is, and how long things take.
MOMENTS: dict[str, tuple[list[Obj], Latency]] = {
    "init containers and others in turn": ([staged()], latency(container_start=3, sandbox_start=2)),
    "probes of every kind": (
        [
            pod(
                "p",
                container("c", livenessProbe=PROBE),
                says={"liveness-fails": "20s-", "run-time": "forever"},
            ),
            pod(
                "q",
                container("c", readinessProbe=PROBE),
                says={"readiness-fails": "12s-22s", "run-time": "forever"},
            ),
            pod(
                "side",
                container("c", "sleep 60"),
                initContainers=[container("s", restartPolicy="Always", readinessProbe=PROBE)],
                says={"readiness-fails.s": "12s-22s", "run-time.s": "forever"},
            ),
        ],
        latency(container_start=1.5),
    ),
    "a deadline": (
        [pod("p", container("c", "sleep 900"), activeDeadlineSeconds=21)],
        latency(sandbox_start=2.5),
    ),
    "ends that are noticed late": (
        [pod(f"p{i}", container("c", f"sleep {20 + i}"), container("d", "sleep 25")) for i in range(3)],
        replace(NONE, container_relist=parse_distribution("uniform(1s, 9s)")),
    ),
    "no latency": ([staged(restartPolicy="OnFailure")], NONE),
}


@pytest.mark.parametrize("cut", [0.5, 1.5, 2.5, 5.5, 9.5, 12.5, 13.5, 16.5, 18.5])
@pytest.mark.parametrize("name", MOMENTS)
def test_at_no_moment_can_anybody_tell(name: str, cut: float) -> None:
    """But for what was on its way into a container, which begins again."""
    made, slow = MOMENTS[name]
    world = World(*made, nodes=[node()], latency=slow)
    other = restarted(world.at(cut), slow)
    told = [s for one in world.twin.store.objects("Pod") for s in _statuses(one)]
    is_on_its_way = len(told) < sum(map(_count, made)) or any("waiting" in status["state"] for status in told)
    for at_s in (cut + 5, 35, 120):
        ends = [
            {name: status["phase"] for name, (_, status) in plain(one.at(at_s)).items()}
            for one in (world, other)
        ]
        if not is_on_its_way:
            assert plain(world) == plain(other)
        elif at_s == 120:
            assert ends[0] == ends[1]


def _statuses(one: Obj) -> list[Obj]:
    status = one["status"]
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def _count(one: Obj) -> int:
    return len(one["spec"]["containers"]) + len(one["spec"].get("initContainers", ()))


def running_since(at: str | None, **status: Any) -> Obj:
    state = {"running": {} if at is None else {"startedAt": at}}
    return {
        "phase": "Running",
        "containerStatuses": [
            {"name": "main", "state": state, "ready": True, "started": True, "restartCount": 0, **status}
        ],
    }


def found_by(one: Obj, status: Obj, *nodes: Obj) -> World:
    """A kubelet that starts when a pod is there that says this of itself."""
    world = World(nodes=list(nodes) or [node()]).at(10)
    world.twin.store.create(one)
    world.twin.store.set_status(P, status)
    return restarted(world)


def test_times_that_nobody_says_are_those_of_its_finding() -> None:
    """Of the pod; what does not say when it started did so at the beginning of all time."""
    world = found_by(pod("p", says={"run-time": "forever"}), running_since(None, restartCount=4))
    state = next(iter(world.at(11).kubelet.pods.values()))
    (one,) = state.containers
    assert (state.start_us, one.started_us, one.restarts) == (world.us(10), 0, 4)
    assert (one.is_ready, one.is_started, one.last, one.end) == (True, True, None, None)
    at = rfc3339(world.us(4))
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "Initialized", "status": "True", "lastTransitionTime": at},
        {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": at},
    ]
    told = {
        **running_since(at),
        "startTime": rfc3339(world.us(3)),
        "podIP": "10.0.1.9",
        "conditions": conditions,
    }
    world = found_by(pod("p", says={"run-time": "20s"}), told)
    state = next(iter(world.at(11).kubelet.pods.values()))
    assert (state.start_us, state.ready_since_us, state.initialized_since_us, state.sandbox_since_us) == (
        *(world.us(3), world.us(3), world.us(4), world.us(4)),
    )
    assert (state.ip, state.ips) == ("10.0.1.9", [{"ip": "10.0.1.9"}])
    assert (state.is_ready, state.is_initialized) == (True, True)
    assert world.at(23.9).seen() == "Running 1/1 main=run"
    assert world.at(24).seen() == "Succeeded 0/1 main=end:Completed:0"
    untrue = [{**one, "status": "False"} for one in conditions]
    state = next(iter(found_by(pod("p"), {**told, "conditions": untrue}).at(11).kubelet.pods.values()))
    assert (state.is_ready, state.is_initialized, state.sandbox_since_us) == (False, False, -1)


BEFORE = rfc3339(EPOCH_US + 5 * S)


def test_what_waits_to_run_again_does_so_at_once_and_what_ended_well_does_not() -> None:
    ended = {"exitCode": 3, "reason": "Error", "message": "m", "startedAt": BEFORE, "finishedAt": BEFORE}
    waits: Obj = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "ready": False, "started": False}
    told = running_since(None, lastState={"terminated": ended}, restartCount=2, **waits)
    world = found_by(pod("p", restartPolicy="OnFailure", says={"run-time": "9s"}), told)
    assert world.at(10.5).seen() == "Running 1/1 main=run*3"
    (status,) = world.need()["status"]["containerStatuses"]
    assert status["lastState"]["terminated"] == ended
    assert world.at(19).seen() == "Succeeded 0/1 main=end:Completed:0*3"
    two = pod("p", container("main"), container("beside", "sleep 900"), restartPolicy="OnFailure")
    for code, want in ((0, "end:Completed:0"), (1, "run*1")):
        over = {"terminated": {**ended, "exitCode": code, "reason": "Completed" if not code else "Error"}}
        told = running_since(None, state=over, ready=False, started=False)
        beside = {"name": "beside", "state": {"running": {"startedAt": BEFORE}}, "restartCount": 0}
        told["containerStatuses"].append({**beside, "ready": True, "started": True})
        world = found_by(two, told)
        world.at(11)
        one = next(s for s in next(iter(world.kubelet.pods.values())).containers if s)
        assert (one.restarts, one.state) == ((0, 2) if not code else (1, 1)), want


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_pod_of_a_node_that_is_down_or_gone_waits_for_it(is_ready: bool) -> None:
    told = running_since(BEFORE)
    silent = node(conditions=[{"type": "Ready", "status": "Unknown"}])
    elsewhere = pod("p", nodeName="m", says={"run-time": "20s"}, tolerations=[{"operator": "Exists"}])
    world = found_by(
        elsewhere, told, node(), *([] if is_ready else [{**silent, "metadata": {"name": "m"}}])
    ).at(30)
    assert world.kubelet.pods == {} and world.need()["status"] == told
    if is_ready:
        assert list(world.kubelet.homeless) == ["m"]
        world.twin.apply([node("m")])
    else:
        assert len(world.kubelet.nodes["m"].unseen) == 1
        faults.recover_node(world.twin, "m", world.us(30))
    assert world.at(31).seen().startswith("Running 1/1 main=run")
    assert world.kubelet.homeless == {} and world.kubelet.nodes["m"].unseen == {}


def test_what_it_asks_for_counts_from_the_start() -> None:
    asks = {"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
    world = found_by(pod("p", container(**asks)), running_since(BEFORE)).at(11)
    state = world.kubelet.nodes["n"]
    assert (state.used, len(state.pods), len(world.kubelet.pods)) == ({"cpu": 3000, "memory": 2**30}, 1, 1)
