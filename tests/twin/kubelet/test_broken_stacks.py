"""What a broken part of NVIDIA's stack keeps from starting, and what it does not, each at its boundary."""

from __future__ import annotations

from typing import Any

import pytest
from kubeletworld import World, container, node, pod

from fairway.catalog.drivers import CUDA, OLD, OLD_DRIVER
from fairway.kube.objects import Key, Obj
from fairway.twin import faults

P = Key("Pod", "default", "p")
GPU: Obj = {"limits": {"nvidia.com/gpu": "1"}}
MAJOR, MINOR = (int(part) for part in OLD[1].split("."))
OLDER, NEWER = f"cuda:{MAJOR}.{MINOR}-base", f"cuda:{MAJOR}.{MINOR + 1}-base"


def broken(fault: str, *objects: Obj) -> World:
    has = node(more={"nvidia.com/gpu": "8", "amd.com/gpu": "8"})
    has["metadata"]["annotations"] = {"fairway.dev/gpu-fault": fault}
    return World(*objects, nodes=[has])


def app(image: str, resources: Any, **extra: Any) -> Obj:
    return {**container("c", "sleep 60", resources=resources, **extra), "image": image}


def needs(version: str) -> str:
    return f"unsatisfied condition: cuda>={version}, please update your driver"


# The fault, the image, what is asked for, and which version the container needs: none where it starts.
DRIVERS: list[tuple[str, str, Any, str]] = [
    (OLD_DRIVER, NEWER, GPU, f"{MAJOR}.{MINOR + 1}"),
    (OLD_DRIVER, OLDER, GPU, ""),
    (OLD_DRIVER, f"cuda:{MAJOR + 1}.0", GPU, f"{MAJOR + 1}.0"),
    (OLD_DRIVER, f"cuda:{MAJOR - 1}.99", GPU, ""),
    (OLD_DRIVER, "app:1", GPU, CUDA),
    (OLD_DRIVER, NEWER, None, ""),
    (OLD_DRIVER, NEWER, {"limits": {"amd.com/gpu": "1"}}, ""),
    (OLD_DRIVER, NEWER, {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}, f"{MAJOR}.{MINOR + 1}"),
    (f"other, {OLD_DRIVER}", NEWER, GPU, f"{MAJOR}.{MINOR + 1}"),
    (f"other{OLD_DRIVER}", NEWER, GPU, ""),
    ("runtime-class", NEWER, GPU, ""),
]


@pytest.mark.parametrize(("fault", "image", "resources", "version"), DRIVERS)
def test_whom_an_old_driver_keeps_from_starting(fault: str, image: str, resources: Any, version: str) -> None:
    world = broken(fault, pod("p", app(image, resources or {}))).at(5)
    assert world.seen() == ("Failed 0/1 c=end:StartError:128" if version else "Running 1/1 c=run")
    told = [e.message for e in world.twin.host.events.about(P) if e.reason == "Failed"]
    assert len(told) == bool(version) and all(needs(version) in message for message in told)
    if version:
        (status,) = world.need()["status"]["containerStatuses"]
        assert needs(version) in status["state"]["terminated"]["message"]


def test_of_several_containers_it_keeps_those_with_gpus() -> None:
    first, second = app(NEWER, GPU), {**app(NEWER, {}), "name": "d"}
    init = {**app(NEWER, GPU), "name": "i"}
    world = broken(OLD_DRIVER, pod("p", second, first)).at(5)
    assert world.seen() == "Running 1/2 c=end:StartError:128 d=run"
    world = broken(OLD_DRIVER, pod("p", second, initContainers=[init])).at(5)
    assert world.seen() == "Failed 0/1 i=end:StartError:128 d=wait:PodInitializing"


def test_it_is_tried_again_as_any_container_and_starts_once_the_driver_is_newer() -> None:
    world = broken(OLD_DRIVER, pod("p", app(NEWER, GPU), restartPolicy="OnFailure")).at(5)
    assert world.seen() == "Running 0/1 c=wait:CrashLoopBackOff*1"
    world.twin.store.patch(
        Key("Node", "", "n"), {"metadata": {"annotations": {"fairway.dev/gpu-fault": None}}}
    )
    world.twin.wake()
    assert world.at(10.5).seen() == "Running 1/1 c=run*2"
    totals = world.kubelet.progress.totals
    assert (totals.useful_us, totals.lost_us, totals.overhead_us) == (0, 0, 0)


def runtime_class(name: str, **handler: Any) -> Obj:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, **handler}


@pytest.mark.parametrize(
    ("fault", "handler", "why"),
    [
        ("", {"handler": "nvidia"}, ""),
        ("runtime-class", {"handler": "nvidia"}, 'no runtime for "nvidia" is configured'),
        ("runtime-class", {"handler": "nvidia-cdi"}, 'no runtime for "nvidia-cdi" is configured'),
        ("runtime-class", {"handler": "runc"}, ""),
        ("runtime-class", {"handler": None}, ""),
        ("runtime-class", {}, ""),
        (OLD_DRIVER, {"handler": "nvidia"}, ""),
        ("", None, 'failed to lookup RuntimeClass r: runtimeclass.node.k8s.io "r" not found'),
    ],
)
def test_whom_a_runtime_keeps_from_its_sandbox(fault: str, handler: Obj | None, why: str) -> None:
    made = pod("p", app("app:1", {}), runtimeClassName="r")
    world = broken(fault, *([] if handler is None else [runtime_class("r", **handler)]), made).at(9.9)
    if not why:
        assert world.seen() == "Running 1/1 c=run"
        return
    assert world.seen() == "Pending 0/1 c=wait:ContainerCreating"
    assert world.condition("PodReadyToStartContainers") == ("False", "")

    def told() -> list[tuple[str, int]]:
        found = world.twin.host.events.about(P)
        return [(e.message, e.times) for e in found if e.reason == "FailedCreatePodSandBox"]

    ((message, times),) = told()
    assert message.startswith("Failed to create pod sandbox: ") and message.endswith(why) and times == 1
    assert told() == [(message, 1)] and world.at(10) and told() == [(message, 2)]
    world.twin.store.patch(
        Key("Node", "", "n"), {"metadata": {"annotations": {"fairway.dev/gpu-fault": None}}}
    )
    if handler is None:
        world.twin.apply([runtime_class("r", handler="runc")])
    world.twin.wake()
    assert world.at(19.9).seen().startswith("Pending") and world.at(20).seen() == "Running 1/1 c=run"
    assert told() == [(message, 2)]


def test_a_member_that_cannot_start_is_none_and_the_others_wait_for_it() -> None:
    """It ran before the driver was another: what it leaves then, it has left already."""
    template = {"spec": {"restartPolicy": "Never", "containers": [container("c")]}}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    meta = {"name": "train", "namespace": "default"}
    world = broken("", {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    uid = world.twin.store.require(Key("Job.batch", "default", "train"))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    index = "batch.kubernetes.io/job-completion-index"
    for number, name in enumerate("pq"):
        one = {**container("c", env=[{"name": "WORLD_SIZE", "value": "2"}], resources=GPU), "image": NEWER}
        made = pod(
            name, one, restartPolicy="OnFailure", says={"run-time": "100s"}, meta={"ownerReferences": [owner]}
        )
        made["metadata"]["labels"] = {index: str(number), "batch.kubernetes.io/job-name": "train"}
        made["metadata"]["annotations"][index] = str(number)
        world.twin.apply([made])
    assert [world.at(20).seen(name) for name in "pq"] == ["Running 1/1 c=run"] * 2
    (gang,) = world.kubelet.gangs.values()
    assert len(gang.running) == 2
    world.twin.store.patch(
        Key("Node", "", "n"), {"metadata": {"annotations": {"fairway.dev/gpu-fault": OLD_DRIVER}}}
    )
    world.twin.wake()
    faults.kill_container(world.twin, P, world.us(30))
    assert world.at(35).seen() == "Running 0/1 c=wait:CrashLoopBackOff*1"
    assert (len(gang.running), world.at(130).seen("q")) == (1, "Running 1/1 c=run")
    # Nobody is left of the gang, and it still cannot start.
    world.twin.store.delete(Key("Pod", "default", "q"), grace_s=0)
    world.twin.wake()
    assert world.at(500).seen().startswith("Running 0/1 c=wait:CrashLoopBackOff")
    assert world.kubelet.gangs == {}
    world.twin.store.patch(
        Key("Node", "", "n"), {"metadata": {"annotations": {"fairway.dev/gpu-fault": None}}}
    )
    world.twin.wake()
    assert world.at(900).seen().startswith("Running 1/1 c=run")
    (gang,) = world.kubelet.gangs.values()
    assert len(gang.running) == 1
