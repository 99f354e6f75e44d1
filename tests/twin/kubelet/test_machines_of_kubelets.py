"""Machines: what a kubelet says of its own, and what of its pods comes up again after a crash."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest
from kubeletworld import S, World, container, latency, node, pod

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.twin import faults
from fairway.twin.kubelet.nodestatus import machine_info, node_status, with_machine
from fairway.twin.kubelet.states import NodeState
from fairway.twin.latency import NONE, Latency
from fairway.twin.twin import EPOCH_US

P = Key("Pod", "default", "p")
NOW, BEFORE = rfc3339(EPOCH_US + 9 * S), rfc3339(EPOCH_US)


def condition(type_: str, status: str, reason: str = "r", message: str = "m", since: str | None = NOW) -> Obj:
    made = {"type": type_, "status": status, "lastHeartbeatTime": NOW, "reason": reason, "message": message}
    return made if since is None else {**made, "lastTransitionTime": since}


PRESSURES = [
    condition(
        "MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"
    ),
    condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
]
READY = condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
DOWN = condition("Ready", "False", "KubeletNotReady", "node is shutting down")
ADDRESSES = [{"type": "InternalIP", "address": "172.16.0.3"}, {"type": "Hostname", "address": "n"}]
DIGEST = blake2b(b"u", digest_size=16).hexdigest()
BOOT = "-".join((DIGEST[:8], DIGEST[8:12], DIGEST[12:16], DIGEST[16:20], DIGEST[20:]))
INFO = {"kubeletVersion": "v1", "osImage": "x"}
MADE = {**INFO, "machineID": DIGEST, "systemUUID": "u", "bootID": BOOT}

# What the status was, whether the node shuts down, and what it becomes.
STATUSES: dict[str, tuple[Obj, bool, Obj]] = {
    "nothing": ({}, False, {"conditions": [*PRESSURES, READY], "addresses": ADDRESSES}),
    "it shuts down": ({}, True, {"conditions": [*PRESSURES, DOWN], "addresses": ADDRESSES}),
    "others' conditions come first": (
        {"conditions": [condition("Ready", "True", since=BEFORE), condition("Mine", "True", since=BEFORE)]},
        False,
        {
            "conditions": [
                condition("Mine", "True", since=BEFORE),
                *PRESSURES,
                {**READY, "lastTransitionTime": BEFORE},
            ],
            "addresses": ADDRESSES,
        },
    ),
    "what changes changes its time": (
        {
            "conditions": [
                condition("Ready", "True", since=BEFORE),
                condition("DiskPressure", "True", since=BEFORE),
            ]
        },
        True,
        {"conditions": [*PRESSURES, DOWN], "addresses": ADDRESSES},
    ),
    "what has no time gets one": (
        {"conditions": [condition("Ready", "True", since=None)]},
        False,
        {"conditions": [*PRESSURES, READY], "addresses": ADDRESSES},
    ),
    "capacity alone": (
        {"capacity": {"cpu": "1"}},
        False,
        {
            "conditions": [*PRESSURES, READY],
            "addresses": ADDRESSES,
            "capacity": {"cpu": "1"},
            "allocatable": {"cpu": "1"},
        },
    ),
    "both, and addresses": (
        {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}, "addresses": []},
        False,
        {
            "conditions": [*PRESSURES, READY],
            "addresses": [],
            "capacity": {"cpu": "2"},
            "allocatable": {"cpu": "1"},
        },
    ),
    "a machine of ours": (
        {"nodeInfo": {**INFO, "machineID": ""}},
        False,
        {"conditions": [*PRESSURES, READY], "addresses": ADDRESSES, "nodeInfo": MADE},
    ),
    "a machine that says which": (
        {"nodeInfo": {**INFO, "machineID": "m"}},
        False,
        {"conditions": [*PRESSURES, READY], "addresses": ADDRESSES, "nodeInfo": {**INFO, "machineID": "m"}},
    ),
    "a machine without a kubelet": (
        {"nodeInfo": {"osImage": "x"}},
        False,
        {"conditions": [*PRESSURES, READY], "addresses": ADDRESSES, "nodeInfo": {"osImage": "x"}},
    ),
}


@pytest.mark.parametrize("name", STATUSES)
def test_what_is_posted_of_a_node(name: str) -> None:
    before, is_shutting_down, want = STATUSES[name]
    state = NodeState("n", "u", 3)
    state.is_shutting_down = is_shutting_down
    assert node_status({"status": before}, state, EPOCH_US + 9 * S) == want


def test_what_machine_a_node_is() -> None:
    plain = machine_info({"metadata": {}})
    assert (plain["operatingSystem"], plain["architecture"], plain["machineID"]) == ("linux", "amd64", "")
    labels = {"kubernetes.io/os": "windows", "kubernetes.io/arch": "arm64"}
    other = {
        "metadata": {"labels": labels},
        "spec": {},
        "status": {"nodeInfo": {"osImage": "x"}, "images": []},
    }
    info = machine_info(other)
    assert info == {**plain, "operatingSystem": "windows", "architecture": "arm64"}
    assert with_machine(other) == {**other, "status": {"nodeInfo": info, "images": []}}
    said = {"metadata": {}, "status": {"nodeInfo": {"kubeletVersion": "v1"}}}
    assert with_machine(said) is said
    assert with_machine({"metadata": {}})["status"] == {"nodeInfo": plain}


# After a crash


def crashed(*pods: Obj, at_s: float = 50, for_s: float = 20, slow: Latency = NONE) -> World:
    world = World(*pods, latency=slow)
    world.crash(at_s, for_s)
    return world


def over(code: int) -> str:
    return "sleep 5" if code == 0 else f"sleep 5; exit {code}"


@pytest.mark.parametrize(
    ("policy", "code", "want"),
    [
        ("Never", 0, "Failed 0/2 a=end:Completed:0 b=end:Unknown:255"),
        ("Never", 1, "Failed 0/2 a=end:Error:1 b=end:Unknown:255"),
        ("OnFailure", 0, "Running 1/2 a=end:Completed:0 b=run*1"),
    ],
)
def test_what_had_ended_stays_ended(policy: str, code: int, want: str) -> None:
    two = [container("a", over(code)), container("b", "sleep 900")]
    world = crashed(pod("p", *two, restartPolicy=policy))
    assert world.at(75).seen() == want
    inits = [container("i", "sleep 1")]
    again = crashed(pod("p", *two, restartPolicy=policy, initContainers=inits))
    first, rest = want.split(" a=")
    restarts = "" if policy == "Never" else "*1"
    assert again.at(75).seen() == f"{first} i=end:Completed:0{restarts} a={rest}"


@pytest.mark.parametrize("inits", [[], [container("i", "sleep 2")]])
def test_who_waited_to_run_again_does_not_wait_longer(inits: list[Obj]) -> None:
    """In its back-off when the machine went: it runs after the boot, once what comes first has."""
    made = pod("p", container("c", "sleep 1; exit 1"), restartPolicy="Always", initContainers=inits)
    world = World(made)
    # Ends at 1 s and 2 s (later by the init container), waits for ten seconds, crashes meanwhile.
    before = world.at(8).need()["status"]["containerStatuses"][0]
    assert before["state"] == {"waiting": before["state"]["waiting"]} and before["restartCount"] == 1
    world.crash(9, 2)
    now = world.at(11 + 2 * len(inits) + 0.5).need()["status"]["containerStatuses"][0]
    assert (list(now["state"]), now["restartCount"]) == (["running"], 2)


def test_what_had_not_started_starts() -> None:
    for inits in ([], [container("i", "sleep 2")]):
        made = pod("p", container("c", "sleep 90"), container("d", "sleep 90"), initContainers=inits)
        world = crashed(made, at_s=5, for_s=5, slow=latency(container_start=4, sandbox_start=3))
        world.at(10)
        waits = {s["state"]["waiting"]["reason"] for s in world.need()["status"]["containerStatuses"]}
        assert waits == {"PodInitializing" if inits else "ContainerCreating"}
        # Three seconds for the sandbox, and four for each start.
        first_s = 10 + 3 + (4 + 2 if inits else 0) + 4
        assert "c=wait" in world.at(first_s - 0.5).seen()
        (state,) = world.kubelet.pods.values()
        world.at(first_s + 8)
        mains = state.containers[len(inits) :]
        assert [(one.started_us - world.us(0)) / S for one in mains] == (
            [first_s, first_s + 4] if inits else [first_s, first_s]
        )
        assert [one.restarts for one in state.containers] == [0] * len(state.containers)


def test_a_deadline_goes_on_over_a_crash() -> None:
    world = crashed(pod("p", restartPolicy="Always", says={"run-time": "forever"}, activeDeadlineSeconds=100))
    assert world.at(99.9).seen() == "Running 1/1 main=run*1"
    assert world.at(100).seen().startswith("Failed/DeadlineExceeded")


def test_a_pod_has_another_address_after_a_crash_and_nothing_of_it_is_ready_before() -> None:
    gate: Any = {"httpGet": {"port": 80}, "periodSeconds": 10, "initialDelaySeconds": 30}
    made = pod("p", container("c", readinessProbe=gate), restartPolicy="Always", says={"run-time": "forever"})
    world = crashed(made)
    first = world.at(40).need()["status"]["podIP"]
    (state,) = world.kubelet.pods.values()
    world.at(60)
    assert (state.is_lost, state.containers[0].is_ready, state.containers[0].is_started) == (
        True,
        False,
        False,
    )
    assert world.at(70.5).seen() == "Running 0/1 c=run*1"
    assert world.need()["status"]["podIP"] != first
    assert not state.is_lost and world.at(105).seen() == "Running 1/1 c=run*1"


def test_pulls_that_waited_for_each_other_do_not_after_a_boot() -> None:
    world = World(pod("p", container("a"), container("b")), latency=latency(image_pull=100))
    world.crash(5, 5)
    world.at(12)
    world.twin.apply([pod("q", container("z", "sleep 9"))])
    assert world.at(111.9).seen("q").startswith("Pending") and world.at(112).seen("q").startswith("Running")


def test_what_was_lost_in_a_crash_is_lost_once() -> None:
    says = {"run-time": "600s"}
    world = World(pod("p", says=says), pod("q", says=says), nodes=[node(), node("m")])
    world.crash(10)
    world.at(30)
    world.twin.store.delete(Key("Node", "", "n"))
    world.twin.wake()
    world.at(31)
    totals = world.kubelet.progress.totals
    assert (totals.useful_us, totals.lost_us, totals.overhead_us) == (0, 20 * S, 0)
    assert [len(pods) for pods in world.kubelet.homeless.values()] == [2]


def test_images_that_a_node_says_it_has_are_there_from_the_beginning() -> None:
    world = World(nodes=[node(images=[{"names": ["a:1", "b:2"]}, {}, {"names": ["c:3"]}])]).at(1)
    assert world.kubelet.nodes["n"].images == {"a:1": 0, "b:2": 0, "c:3": 0}


def test_pods_that_are_over_are_not_begun_when_their_node_comes() -> None:
    """Nor those that others declared over while their kubelet could not hear it."""
    world = World(nodes=[node()]).at(1)
    store = world.twin.store
    world.twin.apply(
        [pod(name, container("c", "sleep 9"), nodeName="m") for name in ("over", "waits", "gone")]
    )
    world.at(2)
    assert len(world.kubelet.homeless["m"]) == 3
    store.delete(Key("Pod", "default", "gone"), grace_s=0)
    world.twin.wake()
    world.at(3)
    assert len(world.kubelet.homeless["m"]) == 2
    store.create(node("m"))
    store.set_status(Key("Pod", "default", "over"), {"phase": "Failed"})
    world.twin.wake()
    assert [one.key.name for one in world.at(4).kubelet.pods.values()] == ["waits"]
    faults.partition_node(world.twin, "n", world.us(5), 10 * S)
    world.at(6)
    world.twin.apply([pod(name, container("c", "sleep 9")) for name in ("p", "q")])
    world.at(7)
    assert len(world.kubelet.nodes["n"].unseen) == 2
    store.set_status(P, {"phase": "Succeeded"})
    world.twin.wake()
    world.at(16)
    assert (world.need()["status"], world.seen("q")) == ({"phase": "Succeeded"}, "Running 1/1 c=run")
    assert world.kubelet.nodes["n"].unseen == {}
    store.delete(Key("Pod", "default", "waits"), grace_s=0)
    world.twin.wake()
    assert world.at(17).seen("waits") == "gone"


def test_what_goes_in_the_moment_in_which_its_node_is_back_is_not_gone_on_with() -> None:
    """Nobody has told the kubelet: it looks at what is there. A pod of the same name is another pod."""
    for down in (faults.partition_node, faults.fail_node):
        runs = [pod(name, container("c", "sleep 900"), restartPolicy="Always") for name in ("p", "q")]
        world = World(*runs).at(1)
        down(world.twin, "n", world.us(2))
        world.at(3)
        late = [pod(name, container("c", "sleep 900")) for name in ("x", "y")]
        world.twin.apply(late)
        world.at(20)
        store = world.twin.store
        for name in ("p", "q", "x", "y"):
            store.delete(Key("Pod", "default", name), grace_s=0)
        fresh = [store.create(one)["metadata"]["uid"] for one in (runs[1], late[1])]
        faults.recover_node(world.twin, "n", world.us(20))
        world.at(21)
        assert sorted(world.kubelet.pods) == sorted(fresh)
        assert [world.seen(name) for name in ("p", "q", "x", "y")] == [
            *("gone", "Running 1/1 c=run", "gone", "Running 1/1 c=run"),
        ]


def test_a_pod_that_goes_unseen_is_forgotten() -> None:
    world = World().at(1)
    faults.partition_node(world.twin, "n", world.us(2))
    world.at(3)
    world.twin.apply([pod(name, container("c", "sleep 9")) for name in ("p", "q")])
    world.at(4)
    gone = world.need()["metadata"]["uid"]
    world.delete(grace_s=0)
    world.at(5)
    assert len(world.kubelet.nodes["n"].unseen) == 1 and gone not in world.kubelet.nodes["n"].unseen


def test_a_node_that_loses_a_resource_has_shrunk() -> None:
    world = World(nodes=[node(more={"x.io/y": "1"})]).at(1)
    state = world.kubelet.nodes["n"]
    for allocatable, is_shrunk in (
        ({"cpu": "8", "memory": "64Gi", "pods": "110", "x.io/y": "1", "x.io/z": "1"}, False),
        ({"cpu": "8", "memory": "64Gi", "pods": "110", "x.io/y": "1"}, True),
    ):
        world.twin.store.set_status(
            Key("Node", "", "n"), {**world.node()["status"], "allocatable": allocatable}
        )
        world.twin.wake()
        world.at(2 + is_shrunk)
        assert state.is_shrunk is is_shrunk
