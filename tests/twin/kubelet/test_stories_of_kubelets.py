"""Stories of kubelets, and of the controllers that look after nodes: each write and word of them, and when.

What is told is compared with `../stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from kubeletworld import container, latency, node, pod
from tests.histories import check_history
from tests.twin.stepwise import STORIES, Watched, lets_go_of_timers

from fairway.kube.objects import Key, Obj
from fairway.twin import faults
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.stores import Store
from fairway.twin.latency import NONE, Latency
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.tainteviction import TaintEviction
from fairway.twin.twin import EPOCH_US, Twin

SLOW = latency(
    kubelet_sync=0.05,
    sandbox_start=0.5,
    image_pull=4,
    image_check=0.3,
    container_start=0.25,
    pod_teardown=0.3,
)
S = 1_000_000


class World(Watched):
    """Kubelets alone; `cares`: with the controllers that look after nodes and their pods."""

    seen_by: ClassVar = [lets_go_of_timers]

    def __init__(
        self, *objects: Obj, slow: Latency = SLOW, cares: bool = False, stores: tuple[Store, ...] = ()
    ) -> None:
        self.kubelet = Kubelet(stores=stores)
        made: list[Any] = [Faults(), self.kubelet]
        if cares:
            made += [NodeLifecycle(), TaintEviction(), PodGarbageCollector()]
        super().__init__(Twin(seed=5, latency=slow, components=made))
        self.apply(*objects)

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def delete(self, name: str, gk: str = "Pod", grace_s: int | None = None) -> World:
        self.twin.store.delete(Key(gk, "" if gk == "Node" else "default", name), grace_s=grace_s)
        self.twin.wake()
        return self

    def patch(self, name: str, change: Obj, gk: str = "Pod") -> World:
        self.twin.store.patch(Key(gk, "" if gk == "Node" else "default", name), change)
        self.twin.wake()
        return self

    def ends(self) -> Iterator[str]:
        """What was said, what came of the work, and what is still held."""
        yield from self.said()
        yield f"progress {self.kubelet.progress.totals}"
        yield f"saved {dict(self.kubelet.progress.pools())}"
        for name, state in self.kubelet.nodes.items():
            used = {what: amount for what, amount in state.used.items() if amount}
            yield f"{name}: {len(state.pods)} pods use {used}"


def noted(lines: Iterator[str]) -> Iterator[str]:
    """What is noted and when, without what is written."""
    return (line for line in lines if line.startswith(("==", "noted")))


def at(seconds: float) -> int:
    return EPOCH_US + round(seconds * S)


def lives() -> Iterator[str]:
    """Init containers in turn, a sidecar beside the work, restarts by policy and by exit code."""
    world = World(node())
    init = [
        container("first", "sleep 3"),
        container("side", "sleep 1000", restartPolicy="Always"),
        container("second", "sleep 2"),
    ]
    world.apply(
        pod("whole", container("a", "sleep 5"), container("b", "sleep 8; exit 3"), initContainers=init)
    )
    world.apply(
        pod("again", container("c"), restartPolicy="OnFailure", says={"run-time": "4s", "exit-code": "1,2,0"})
    )
    world.apply(
        pod("always", container("d"), restartPolicy="Always", says={"run-time": "12m", "exit-code": "0"})
    )
    failing = {"initContainers": [container("init", "exit 1")], "restartPolicy": "Never"}
    yield from world.apply(pod("never", container("e"), **failing)).until(70)
    yield from world.apply(pod("limited", container("f", "sleep 1000"), activeDeadlineSeconds=20)).until(100)
    yield from world.until(30 * 60)
    yield from world.ends()


def images() -> Iterator[str]:
    """One pull at a time; what is there is not pulled again; what cannot be pulled is tried again ever later."""
    world = World(node(), node("m"))
    faults.slow_registry(world.twin, at(1), 2.5, 60 * S)
    world.apply(pod("one", container("a", "sleep 300"), container("b", "sleep 300")))
    yield from world.until(0.2)
    world.apply(
        pod("two", container("a", "sleep 20", imagePullPolicy="Always")),
        pod("three", container("b", "sleep 9")),
    )
    world.apply(
        pod(
            "missing", container("z", "sleep 5"), says={"image-pull-fails": "0s-40s", "image-pull-time": "2s"}
        )
    )
    yield from world.until(20)
    world.apply(
        {
            **pod("other", container("a", "sleep 5")),
            "spec": {**pod("x", container("a", "sleep 5"))["spec"], "nodeName": "m"},
        }
    )
    yield from world.apply(pod("never", container("y", "sleep 5", imagePullPolicy="Never"))).until(400)
    yield from world.ends()


def probed() -> Iterator[str]:
    """A container that starts slowly, is not ready for a while, and is killed when it does not live."""
    probes = {
        "startupProbe": {"periodSeconds": 2, "failureThreshold": 10, "exec": {"command": ["x"]}},
        "readinessProbe": {
            "periodSeconds": 5,
            "failureThreshold": 2,
            "successThreshold": 2,
            "httpGet": {"port": 80},
        },
        "livenessProbe": {
            "periodSeconds": 10,
            "failureThreshold": 3,
            "initialDelaySeconds": 4,
            "tcpSocket": {"port": 80},
        },
    }
    says = {
        "run-time": "forever",
        "startup-time": "7s",
        "readiness-fails": "30s-60s",
        "liveness-fails": "100s-150s",
    }
    world = World(
        node(),
        pod(
            "p", container("a", **probes), restartPolicy="Always", terminationGracePeriodSeconds=5, says=says
        ),
    )
    says = {"run-time": "forever", "startup-fails": "true"}
    world.apply(
        pod(
            "dead",
            container("b", startupProbe=probes["startupProbe"]),
            terminationGracePeriodSeconds=3,
            says=says,
        )
    )
    # Killed while it is known when it will not be ready: what comes after counts anew.
    quick = {"periodSeconds": 5, "tcpSocket": {"port": 80}}
    says = {"run-time": "forever", "readiness-fails": "60s-90s", "liveness-fails": "20s-35s"}
    both = container("a", readinessProbe=quick, livenessProbe=quick)
    world.apply(pod("both", both, restartPolicy="Always", terminationGracePeriodSeconds=1, says=says))
    # Killed while it is known when its probes will fail: they are forgotten, once.
    says = {
        "run-time": "forever",
        "liveness-fails": "40s-80s",
        "readiness-fails": "50s-60s",
        "startup-fails.c": "true",
    }
    early = [container("a", readinessProbe=quick, livenessProbe=quick), container("b")]
    slow = container(
        "c", startupProbe={"periodSeconds": 20, "failureThreshold": 4, "exec": {"command": ["x"]}}
    )
    world.apply(pod("early", *early, slow, says=says))
    for name in ("a", "c"):
        faults.kill_container(world.twin, Key("Pod", "default", "early"), at(40), container=name)
    yield from world.until(60)
    yield from world.delete("early").until(200)
    yield from world.ends()


def leaving() -> Iterator[str]:
    """Told to go, by grace, by force, by the kubelet, at their deadline; some ignore it."""
    world = World(node())
    for name, says in (
        ("polite", {"stop-time": "3s"}),
        ("stubborn", {"stop-time": "never"}),
        ("slow", {"stop-time": "40s"}),
    ):
        world.apply(
            pod(name, container("c"), terminationGracePeriodSeconds=20, says={"run-time": "forever", **says})
        )
    hook = {"preStop": {"sleep": {"seconds": 6}}}
    world.apply(pod("hooked", container("c", "sleep 1000", lifecycle=hook), terminationGracePeriodSeconds=10))
    world.apply(pod("forced", container("c", "sleep 1000")), pod("evicted", container("c", "sleep 1000")))
    world.apply(
        pod("killed", container("c", "sleep 1000"), container("d", "sleep 40"), restartPolicy="OnFailure")
    )
    world.apply(pod("held", container("c", "sleep 9"), meta={"finalizers": ["x/y"]}))
    yield from world.until(10)
    for name in ("polite", "stubborn", "slow", "hooked", "held"):
        world.delete(name)
    faults.evict_pod(
        world.twin, Key("Pod", "default", "evicted"), at(12), "The node was low on resource: x. "
    )
    faults.kill_container(world.twin, Key("Pod", "default", "killed"), at(13), container="d", exit_code=9)
    faults.kill_container(world.twin, Key("Pod", "default", "killed"), at(14))
    faults.delete_pod(world.twin, Key("Pod", "default", "forced"), at(15), grace_s=0)
    yield from world.until(16)
    # A shorter grace is taken up, a longer one is not.
    yield from world.delete("slow", grace_s=8).until(80)
    yield from world.patch("held", {"metadata": {"finalizers": None}}).delete("killed", grace_s=1).until(120)
    yield from world.ends()


def refused() -> Iterator[str]:
    """What does not fit where it was bound, what its node does not want, and what waits for a node."""
    world = World(node(cpu="2", pods="4", more={"nvidia.com/gpu": "1"}, labels={"zone": "a"}))
    asks = {"requests": {"cpu": "1500m"}}
    world.apply(
        pod("fits", container("c", "sleep 30", resources=asks)),
        pod("too-much", container("c", resources=asks)),
    )
    world.apply(
        pod("elsewhere", container("c"), nodeSelector={"zone": "b"}),
        pod("here", container("c", "sleep 5"), nodeSelector={"zone": "a"}),
    )
    vast = {"requests": {"cpu": "0", "memory": "100Ti"}}
    world.apply(pod("vast", container("c", resources=vast)))
    gpus = {"limits": {"nvidia.com/gpu": "2"}}
    world.apply(
        pod("gpus", container("c", resources=gpus)),
        pod("others", container("c", resources={"limits": {"x/y": "2"}})),
    )
    yield from world.until(10)
    world.apply(
        pod("third", container("c", "sleep 9")),
        pod("fourth", container("c", "sleep 9")),
        pod("fifth", container("c")),
    )
    yield from world.until(30)
    taint = [{"key": "k", "effect": "NoExecute"}]
    world.patch("n", {"spec": {"taints": taint}}, "Node").apply(pod("tainted", container("c")))
    yield from world.apply(pod("tolerant", container("c"), tolerations=[{"operator": "Exists"}])).until(50)
    late = pod("late", container("c", "sleep 3"))
    late["spec"]["nodeName"] = "later"
    yield from world.apply(late).until(60)
    yield from world.apply(node("later")).until(90)
    yield from world.ends()


def settings() -> Iterator[str]:
    """ConfigMaps and Secrets that are not there yet: volumes keep the pod, variables keep a container."""
    world = World(node())
    volumes = [{"name": "v", "configMap": {"name": "files"}}, {"name": "w", "secret": {"secretName": "keys"}}]
    variables = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "files", "key": "a"}}}]
    world.apply(pod("mounts", container("c", "sleep 5"), volumes=volumes))
    world.apply(
        pod(
            "reads",
            container("c", "sleep 5", env=variables),
            container("d", "sleep 50"),
            restartPolicy="OnFailure",
        )
    )
    yield from world.until(140)
    meta = {"name": "files", "namespace": "default"}
    yield from world.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"b": "1"}}
    ).until(170)
    meta = {"name": "keys", "namespace": "default"}
    world.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {}})
    yield from world.patch("files", {"data": {"a": "1"}}, "ConfigMap").until(500)
    yield from world.ends()


def resized() -> Iterator[str]:
    """More and less while it runs: granted, deferred, never possible, with and without a restart."""

    def asking(cpu: str, memory: str = "1Gi", **extra: Any) -> Obj:
        return container("c", resources={"requests": {"cpu": cpu, "memory": memory}}, **extra)

    restart = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    more: dict[str, Any] = {
        "restartPolicy": "Always",
        "meta": {"generation": 1},
        "says": {"run-time": "forever"},
    }
    world = World(
        node(cpu="4"), pod("p", asking("1"), **more), pod("q", asking("2", resizePolicy=restart), **more)
    )
    yield from world.until(10)
    yield from world.patch("p", {"spec": {"containers": [asking("2")]}}).until(20)
    yield from world.patch("q", {"spec": {"containers": [asking("2", "2Gi", resizePolicy=restart)]}}).until(
        40
    )
    yield from world.patch("p", {"spec": {"containers": [asking("3")]}}).until(60)
    yield from world.patch("q", {"spec": {"containers": [asking("1", "2Gi", resizePolicy=restart)]}}).until(
        80
    )
    yield from world.patch("p", {"spec": {"containers": [asking("9")]}}).until(100)
    yield from world.patch("p", {"spec": {"containers": [asking("500m")]}}).until(150)
    # One that waits for room on a node that goes.
    yield from world.patch("p", {"spec": {"containers": [asking("3500m")]}}).until(152)
    yield from world.delete("n", "Node").until(300)
    yield from world.ends()


def wishes() -> Iterator[str]:
    """Several containers and pods that want other amounts: in turn, again, with a reason that changes, for nothing."""

    def asking(name: str, cpu: str, memory: str = "", limit: str = "", **extra: Any) -> Obj:
        requests = {**({"memory": memory} if memory else {}), "cpu": cpu}
        resources: Obj = {"requests": requests, **({"limits": {"memory": limit}} if limit else {})}
        return container(name, "sleep 5000", resources=resources, **extra)

    def wish(name: str, *wanted: Obj, field: str = "containers") -> World:
        return world.patch(name, {"spec": {field: list(wanted)}})

    restart = {
        "restartPolicy": "Always",
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
    }
    more: dict[str, Any] = {"restartPolicy": "Always", "meta": {"generation": 1}}
    says = {"memory-usage.b": "0s:1Gi,5m:2Gi,10m:1Gi", "memory-usage.a": "0s:1Gi,10m:512Mi"}
    world = World(
        node(cpu="6"),
        pod(
            "many",
            asking("a", "1", "2Gi", "3Gi"),
            asking("b", "1", "2Gi", "4Gi"),
            initContainers=[asking("s", "500m", **restart)],
            says=says,
            **more,
        ),
        pod("low", asking("c", "2"), **more),
        pod("high", asking("d", "1"), priority=5, **more),
        slow=latency(kubelet_sync=1.5, container_start=0.25),
    )
    yield from world.until(10)
    # Granted at once: the second of two containers.
    yield from wish("many", asking("a", "1", "2Gi", "3Gi"), asking("b", "1100m", "2Gi", "4Gi")).until(20)
    yield from wish("low", asking("c", "3")).until(25)
    yield from wish("high", asking("d", "2500m")).until(30)
    # Again, for something else; then a label, which asks for nothing; then what shrinks makes room for one.
    yield from wish("low", asking("c", "2900m")).until(35)
    yield from world.patch("low", {"metadata": {"labels": {"a": "b"}}}).until(40)
    yield from wish("many", asking("s", "300m", **restart), field="initContainers").until(60)
    yield from wish("high", asking("d", "1500m")).until(80)
    # A node that has more is noticed when it is time to try again.
    status = world.twin.store.require(Key("Node", "", "n"))["status"]
    allocatable = {**status["allocatable"], "cpu": "7"}
    world.twin.store.set_status(Key("Node", "", "n"), {**status, "allocatable": allocatable})
    world.twin.wake()
    yield from world.until(400)
    # Two limits below what is used, then one, then none.
    yield from wish("many", asking("a", "1", "256Mi", "512Mi"), asking("b", "1", "1Gi", "1Gi")).until(620)
    yield from wish("high", asking("d", "3")).until(640)
    # A wish beside one that fails, and taken back.
    both = (asking("a", "9", "256Mi", "512Mi"), asking("b", "1", "1Gi", "1Gi"))
    yield from wish("many", *both).until(642)
    yield from wish("many", asking("a", "1", "256Mi", "512Mi"), both[1]).until(643)
    # Who waits and goes, who wishes while it goes, and who takes it back.
    yield from world.delete("high", grace_s=20).until(650)
    yield from wish("high", asking("d", "1")).until(700)
    yield from wish("low", asking("c", "6500m")).until(710)
    yield from wish("low", asking("c", "2900m")).until(720)
    yield from wish("low", asking("c", "2500m", "1Gi")).until(730)
    yield from world.ends()


def fetched() -> Iterator[str]:
    """Models from two stores: by many at one time, from a node's cache, by name and by argument; some are stopped.
    Only what is noted is told."""
    gb, mb = 10**9, 10**6
    models = (("m/a", 6 * gb), ("m/b", 3 * gb))
    stores = (Store("hub", gb, 600 * mb, 8 * gb, models), Store("far", 100 * mb, 0, 0, (("m/c", gb),)))
    world = World(node(), node("m"), slow=latency(container_start=0.5, container_relist=0.7), stores=stores)

    def fetching(name: str, model: str, on: str = "n", load: str = "load", **extra: Any) -> Obj:
        says = {f"weights.{load}": model, "run-time": "300s", "run-time.load": "7s", **extra.pop("says", {})}
        return pod(name, container("main"), initContainers=[container(load)], says=says, nodeName=on, **extra)

    world.apply(fetching("a-n", "m/a"), fetching("a-m", "m/a", "m"), fetching("with", "m/a"))
    world.apply(fetching("far", "m/c"), fetching("unknown", "m/z"))
    storage = fetching("said", "", load="storage-initializer")
    storage["spec"]["initContainers"][0]["args"] = ["m/b", "/mnt/models"]
    del storage["metadata"]["annotations"]["fairway.dev/weights.storage-initializer"]
    again = fetching("nothing", "", load="storage-initializer")
    again["spec"]["initContainers"][0]["args"] = ["m/b"]
    side = fetching("side", "m/b", restartPolicy="Always")
    side["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    own = pod("own", container("load"), says={"weights.load": "m/b", "run-time": "20s"})
    yield from noted(world.apply(storage, again, side, own).until(12))
    # One is killed and fetches again, one is told to go and has it before that, one goes at once.
    world.apply(fetching("killed", "m/b", "m", restartPolicy="OnFailure"))
    world.apply(fetching("going", "m/c", says={"stop-time.load": "never"}, terminationGracePeriodSeconds=60))
    world.apply(fetching("forced", "m/c"), fetching("stopped", "m/c", says={"stop-time.load": "3s"}))
    faults.kill_container(world.twin, Key("Pod", "default", "killed"), at(14), container="load")
    yield from noted(world.until(15))
    world.delete("going").delete("stopped")
    yield from noted(world.until(16))
    yield from noted(world.delete("forced", grace_s=0).until(40))
    # The first is there still; what others used since takes its place; another machine of the name has nothing.
    yield from noted(world.apply(fetching("there", "m/a")).until(50))
    yield from noted(world.apply(fetching("b-n", "m/b")).until(60))
    yield from noted(world.apply(fetching("a-again", "m/a")).until(80))
    faults.fail_node(world.twin, "m", at(85), 20 * S)
    yield from noted(world.apply(fetching("lost", "m/b", "m"), fetching("beside", "m/b")).until(120))
    yield from noted(world.delete("m", "Node").until(121))
    yield from noted(world.apply(node("m"), fetching("anew", "m/a", "m")).until(140))
    yield from world.ends()
    (hub, far) = world.kubelet.stores.lines if world.kubelet.stores is not None else ()
    yield f"{sorted(map(str, hub.caches.values()))}, {far.caches}, {hub.begun}, {far.begun}"


def squeezed() -> Iterator[str]:
    """Memory that is to be less than is used: tried again until it is, or until that is wished no more."""

    def having(memory: str, **extra: Any) -> Obj:
        return container(
            "c", resources={"requests": {"memory": memory}, "limits": {"memory": memory}}, **extra
        )

    says = {"run-time": "forever", "memory-usage": "0s:3Gi,1m:1Gi,3m:3Gi"}
    more: dict[str, Any] = {"restartPolicy": "Always", "meta": {"generation": 1}, "says": says}
    world = World(node(), pod("p", having("4Gi"), **more), pod("q", having("4Gi"), **more))
    yield from world.until(20)
    world.patch("p", {"spec": {"containers": [having("2Gi")]}})
    yield from world.patch("q", {"spec": {"containers": [having("2Gi")]}}).until(50)
    yield from world.patch("q", {"spec": {"containers": [having("5Gi")]}}).until(150)
    # What it used before under its larger limit kills nobody; what it uses next does.
    yield from world.until(200)
    yield from world.ends()


def work() -> Iterator[str]:
    """Checkpoints and what is lost without them; memory that runs out; the same work taken up again."""
    world = World(node(more={"nvidia.com/gpu": "4"}))
    limits = {"limits": {"nvidia.com/gpu": "2", "memory": "4Gi"}}
    says = {
        "run-time": "10m",
        "checkpoint-interval": "1m",
        "checkpoint-time": "5s",
        "restore-time": "20s",
        "checkpoint-key": "w",
    }
    world.apply(pod("one", container("c", resources=limits), says=says))
    world.apply(
        pod(
            "greedy",
            container("c", resources=limits),
            restartPolicy="OnFailure",
            says={"run-time": "3m", "memory-usage": "0s:1Gi,1m:5Gi", "out-of-memory-after": "2m"},
        )
    )
    yield from world.until(200)
    yield from (
        world.delete("one", grace_s=0).apply(pod("two", container("c", resources={}), says=says)).until(300)
    )
    faults.kill_container(world.twin, Key("Pod", "default", "two"), at(330))
    yield from world.until(340)
    yield from world.apply(pod("three", container("c"), says={**says, "startup-time": "10s"})).until(2000)
    yield from world.ends()


def members() -> Iterator[str]:
    """Members of an Indexed Job work while all of them run: one comes late, one is killed, one gives up in the end."""
    world = World(node(more={"nvidia.com/gpu": "8"}))
    template = {"spec": {"restartPolicy": "Never", "containers": [container("c")]}}
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": template}
    meta = {"name": "train", "namespace": "default"}
    world.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    uid = world.twin.store.require(Key("Job.batch", "default", "train"))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    index = "batch.kubernetes.io/job-completion-index"

    def member(name: str, number: int) -> Obj:
        env = [{"name": "WORLD_SIZE", "value": "3"}]
        made = container("c", env=env, resources={"limits": {"nvidia.com/gpu": "1"}})
        says = {"run-time": "10m", "startup-time": "5s", "checkpoint-interval": "1m", "checkpoint-time": "2s"}
        found = pod(name, made, says=says, meta={"ownerReferences": [owner]})
        found["metadata"]["labels"] = {index: str(number), "batch.kubernetes.io/job-name": "train"}
        found["metadata"]["annotations"][index] = str(number)
        return found

    yield from world.apply(member("m0", 0), member("m1", 1)).until(20)
    yield from world.apply(member("m2", 2)).until(100)
    faults.kill_container(world.twin, Key("Pod", "default", "m1"), at(130))
    yield from world.until(200)
    yield from world.apply(member("again", 1)).until(400)
    yield from world.delete("m2", grace_s=0).until(410)
    yield from world.apply(member("last", 2)).until(1500)
    # Who is done and gone is no member any more; one that waits beside another container is lost.
    yield from world.delete("m0", grace_s=0).delete("again", grace_s=0).until(1510)
    pair = member("pair", 0)
    pair["spec"]["containers"].append(container("beside", "sleep 900"))
    yield from world.apply(pair).until(1550)
    yield from world.delete("pair", grace_s=0).until(3000)
    yield from world.ends()


def shared() -> Iterator[str]:
    """One card in turns: each is slower while others run, and its memory is everybody's."""
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    world = World(node(more={"nvidia.com/gpu": "4"}, labels=labels), slow=NONE)

    def tenant(name: str, **says: str) -> Obj:
        made = container("c", resources={"limits": {"nvidia.com/gpu": "1"}})
        return pod(name, made, says={"run-time": "100s", "gpu-index": "0", **says})

    world.apply(
        tenant("a"), tenant("b", **{"gpu-utilization": "0s:10%,30s:40%", "gpu-memory": "0s:10Gi,20s:50Gi"})
    )
    yield from world.until(30)
    yield from world.apply(tenant("c", **{"gpu-memory": "40Gi"}), tenant("d", **{"gpu-index": "1"})).until(60)
    yield from world.apply(tenant("two")).until(70)
    yield from world.delete("two", grace_s=0).until(1000)
    yield from world.ends()


def broken_stack() -> Iterator[str]:
    """A runtime that knows no `nvidia`, a class nobody has, and a driver that is too old for an image."""
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    world = World(node(more={"nvidia.com/gpu": "8"}))
    world.patch(
        "n", {"metadata": {"annotations": {"fairway.dev/gpu-fault": "runtime-class, driver-version"}}}, "Node"
    )
    for name in ("nvidia", "plain"):
        meta = {"name": name}
        world.apply(
            {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": meta, "handler": name}
        )
    world.apply(pod("class", container("c", "sleep 5"), runtimeClassName="nvidia"))
    world.apply(pod("plain", container("c", "sleep 5"), runtimeClassName="plain"))
    world.apply(pod("nobodys", container("c", "sleep 5"), runtimeClassName="other"))
    for name, image in (("old", "cuda:11.0"), ("new", "cuda:13.0"), ("unsaid", "app")):
        made = {**container("c", "sleep 5", resources=gpu), "image": image}
        saves = {"checkpoint-interval": "1s"}
        world.apply(pod(name, made, says=saves), pod(f"{name}-cpu", {**made, "resources": {}}))
    yield from world.until(45)
    world.patch("n", {"metadata": {"annotations": {"fairway.dev/gpu-fault": None}}}, "Node")
    yield from world.until(90)
    yield from world.ends()


def gated() -> Iterator[str]:
    """Conditions of others: readiness gates, a PodScheduled of its own generation, a node with images."""
    images = [{"names": ["c:1", "c@sha256:1"], "sizeBytes": 5}, {"sizeBytes": 7}]
    world = World(node(images=images))
    gates = [{"conditionType": "x/a"}, {"conditionType": "x/b"}]
    world.apply(
        pod("p", container("c", "sleep 60"), readinessGates=gates), pod("q", container("c", "sleep 9"))
    )
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "observedGeneration": 1,
        "lastTransitionTime": None,
    }
    key = Key("Pod", "default", "q")
    world.twin.store.set_status(
        key, {"phase": "Pending", "conditions": [scheduled], "nominatedNodeName": "m"}
    )
    yield from world.until(5)
    for at_s, status in ((6, "False"), (12, "True"), (20, "Unknown")):
        key = Key("Pod", "default", "p")
        now = world.twin.store.require(key)["status"]
        kept = [c for c in now["conditions"] if c["type"] != "x/a"]
        world.twin.store.set_status(key, {**now, "conditions": [{"type": "x/a", "status": status}, *kept]})
        world.twin.wake()
        yield from world.patch("p", {"metadata": {"labels": {"at": str(at_s)}}}).until(at_s)
    yield from world.until(90)
    yield from world.ends()


def varying() -> Iterator[str]:
    """Times that are drawn for each pod: of its run, its start, its images, and of how soon an end is noticed."""
    world = World(node(), node("m"), slow=Latency())
    says = {
        "run-time": "uniform(10s, 60s)",
        "startup-time": "lognormal(5s, 0.5)",
        "image-pull-time": "exponential(9s)",
    }
    probe = {"readinessProbe": {"periodSeconds": 3, "httpGet": {"port": 80}}}
    for i in range(4):
        made = pod(
            f"p{i}", container(f"c{i}", **probe), restartPolicy="OnFailure", says={**says, "exit-code": "1,0"}
        )
        made["spec"]["nodeName"] = "nm"[i % 2]
        world.apply(made)
    yield from world.until(300)
    yield from world.ends()


def adopted() -> Iterator[str]:
    """Kubelets that start anew in the middle of it: what ran goes on, what waited waits, what is to go goes."""
    world = World(node(more={"nvidia.com/gpu": "4"}))
    policy: dict[str, Any] = {"restartPolicy": "Always"}
    world.apply(pod("runs", container("c", "sleep 100"), initContainers=[container("i", "sleep 1")]))
    world.apply(
        pod(
            "fails",
            container("c"),
            container("d", "sleep 90"),
            says={"run-time.c": "4s", "exit-code.c": "1"},
            **policy,
        )
    )
    world.apply(
        pod(
            "ended", container("c"), container("d", "sleep 90"), says={"run-time.c": "4s", "exit-code.c": "3"}
        )
    )
    world.apply(pod("goes", container("c", "sleep 900"), terminationGracePeriodSeconds=40))
    world.apply(pod("timed", container("c", "sleep 900"), activeDeadlineSeconds=60))
    probe = {"periodSeconds": 5, "tcpSocket": {"port": 80}}
    side = container("side", restartPolicy="Always", readinessProbe=probe)
    says = {
        "run-time": "forever",
        "run-time.side": "forever",
        "liveness-fails": "40s-60s",
        "readiness-fails.side": "50s-70s",
    }
    world.apply(
        pod("probed", container("c", livenessProbe=probe), initContainers=[side], says=says, **policy)
    )
    asks = {"requests": {"cpu": "1"}}
    world.apply(pod("grows", container("c", "sleep 900", resources=asks), meta={"generation": 1}))
    yield from world.until(25)
    world.delete("goes")
    wished = {"spec": {"containers": [container("c", "sleep 900", resources={"requests": {"cpu": "2"}})]}}
    world.twin.store.patch(Key("Pod", "default", "grows"), wished)
    store = world.twin.store.fork()
    again = World.__new__(World)
    again.kubelet = Kubelet()
    parts: list[Any] = [Faults(), again.kubelet]
    twin = Twin(seed=5, latency=SLOW, components=parts, start_us=store.now_us, store=store)
    Watched.__init__(again, twin)
    yield "== again"
    yield from again.until(26)
    yield from again.apply(pod("new", container("c", "sleep 5"))).until(200)
    yield from again.ends()


def cut_off() -> Iterator[str]:
    """What becomes of pods behind a partition, or on a machine that is down, while others decide about them."""
    world = World(node(), node("m"))
    for name in ("replaced", "failed", "forced", "timed", "left"):
        more = {"activeDeadlineSeconds": 50} if name == "timed" else {}
        world.apply(pod(name, container("c", "sleep 300"), terminationGracePeriodSeconds=2, **more))
        there = pod(f"{name}-m", container("c", "sleep 300"), terminationGracePeriodSeconds=2, **more)
        there["spec"]["nodeName"] = "m"
        world.apply(there)
    yield from world.until(20)
    faults.partition_node(world.twin, "n", at(21), 60 * S)
    faults.fail_node(world.twin, "m", at(21), 60 * S)
    yield from world.until(25)
    for tail in ("", "-m"):
        world.delete(f"replaced{tail}", grace_s=0).delete(f"forced{tail}", grace_s=0)
        again = pod(f"replaced{tail}", container("c", "sleep 7"))
        again["spec"]["nodeName"] = "m" if tail else "n"
        world.apply(again)
        key = Key("Pod", "default", f"failed{tail}")
        world.twin.store.set_status(key, {**world.twin.store.require(key)["status"], "phase": "Failed"})
        world.twin.wake()
    yield from world.until(200)
    yield from world.ends()


def crashes() -> Iterator[str]:
    """A machine that crashes and boots again; one that never does; their pods by policy, and one bound meanwhile."""
    world = World(node(), node("m"), cares=True)
    init = {"initContainers": [container("i", "sleep 2")]}
    world.apply(pod("always", container("c", "sleep 900"), restartPolicy="Always", **init))
    world.apply(
        pod("never", container("c", "sleep 900")),
        pod("going", container("c", "sleep 900"), terminationGracePeriodSeconds=60),
    )
    world.apply({**pod("other"), "spec": {**pod("x", container("c", "sleep 900"))["spec"], "nodeName": "m"}})
    yield from world.until(20)
    faults.fail_node(world.twin, "n", at(30), 90 * S)
    faults.fail_node(world.twin, "m", at(33))
    world.delete("going")
    yield from world.until(60)
    yield from world.apply(pod("meanwhile", container("c", "sleep 50"))).until(420)
    yield from world.delete("m", "Node").until(600)
    yield from world.ends()


def silence() -> Iterator[str]:
    """A node that the API server does not hear: its pods go on, are evicted, and some end behind the partition."""
    world = World(node(), node("m"), node("o"), cares=True)
    tolerant = [{"operator": "Exists"}]
    world.apply(
        pod("ends", container("c", "sleep 100"), tolerations=tolerant),
        pod("goes", container("c", "sleep 2000")),
    )
    world.apply(
        pod(
            "soon",
            container("c", "sleep 2000"),
            tolerations=[
                {
                    "key": "node.kubernetes.io/unreachable",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 20,
                }
            ],
        )
    )
    yield from world.until(20)
    faults.partition_node(world.twin, "n", at(30), 500 * S)
    yield from world.until(100)
    yield from world.delete("ends", grace_s=1).until(900)
    # Cordoned, and a taint of one's own beside it.
    world.patch(
        "m", {"spec": {"unschedulable": True, "taints": [{"key": "own", "effect": "NoSchedule"}]}}, "Node"
    )
    yield from world.until(910)
    yield from world.patch("m", {"spec": {"unschedulable": None}}, "Node").until(930)
    yield from world.ends()


def most_silent() -> Iterator[str]:
    """Of four nodes three fall silent, then all: evictions stop, and go on when two are back."""
    zone = {"topology.kubernetes.io/zone": "a"}
    world = World(*(node(f"n{i}", labels=zone) for i in range(4)), cares=True, slow=NONE)
    for i in range(4):
        made = pod(f"p{i}", container("c", "sleep 9000"))
        made["spec"]["nodeName"] = f"n{i}"
        world.apply(made)
    for i, (start, lasts) in enumerate(((10, 300), (12, 500), (14, 900), (100, 150))):
        faults.partition_node(world.twin, f"n{i}", at(start), lasts * S)
    yield from world.until(2000)
    yield from world.ends()


def switched_off() -> Iterator[str]:
    """A shutdown: ordinary pods first, critical ones in what is left of the notice; new ones are refused."""
    world = World(node(), node("m"), cares=True)
    says = {"run-time": "forever", "stop-time": "never"}
    grace = {"terminationGracePeriodSeconds": 300}
    world.apply(
        pod("plain", container("c"), says=says, **grace),
        pod("quick", container("c"), says={"run-time": "forever"}),
    )
    world.apply(pod("critical", container("c"), priority=2_000_000_000, says=says, **grace))
    world.apply(pod("nearly", container("c"), priority=1_999_999_999, says=says, **grace))
    yield from world.until(10)
    faults.preempt_node(world.twin, "n", at(20), notice_us=120 * S)
    faults.shut_down_node(world.twin, "m", at(40))
    yield from world.until(30)
    yield from world.apply(pod("new", container("c"))).until(400)
    # One that is called off, and two that are well, or nobody's.
    world.apply(node("o"))
    faults.shut_down_node(world.twin, "o", at(410))
    for at_s, name in ((405, "o"), (420, "o"), (421, "o"), (422, "nobody")):
        faults.recover_node(world.twin, name, at(at_s))
    yield from world.until(460)
    # Less notice than critical pods are to have; a critical pod that goes before its turn, and one whose machine does.
    for name in ("q", "r"):
        hook = {"preStop": {"sleep": {"seconds": 3}}}
        made = [pod(f"{name}-hook", container("c", lifecycle=hook), says={"run-time": "forever"})]
        made += [
            pod(f"{name}-{i}", container("c"), priority=2_000_000_000, says=says, **grace) for i in range(2)
        ]
        for one in made:
            one["spec"]["nodeName"] = name
        world.apply(node(name), *made)
    yield from world.until(470)
    faults.shut_down_node(world.twin, "q", at(480), grace_us=5 * S, critical_us=10 * S)
    faults.shut_down_node(world.twin, "r", at(480), grace_us=30 * S, critical_us=10 * S)
    faults.delete_pod(world.twin, Key("Pod", "default", "r-0"), at(485), grace_s=0)
    faults.fail_node(world.twin, "r", at(490))
    yield from world.until(505)
    yield from world.ends()


def evicted() -> Iterator[str]:
    """Taints that come, go and change, and what is planned by them."""
    world = World(node(), cares=True, slow=NONE)

    def tolerating(seconds: int | None, key: str = "a") -> Obj:
        more = {} if seconds is None else {"tolerationSeconds": seconds}
        return {"key": key, "operator": "Exists", "effect": "NoExecute", **more}

    for name, tolerations in (
        *(("none", []), ("ever", [tolerating(None)]), ("half", [tolerating(30)])),
        *(
            ("both", [tolerating(50), tolerating(20, "b")]),
            ("zero", [tolerating(0)]),
            ("less", [tolerating(-5)]),
        ),
    ):
        world.apply(
            pod(name, container("c", "sleep 9000"), tolerations=tolerations, terminationGracePeriodSeconds=1)
        )
    yield from world.until(5)
    for key, until in ((("a",), 20), (("a", "b"), 30), ((), 40), (("b",), 90), (("c",), 120)):
        taints = [{"key": one, "effect": "NoExecute"} for one in key]
        yield from world.patch("n", {"spec": {"taints": taints or None}}, "Node").until(until)
    yield from world.ends()


TOLD: tuple[Callable[[], Iterator[str]], ...] = (
    *(lives, images, probed, leaving, refused, settings, resized, wishes, squeezed, fetched, work),
    *(members, shared, broken_stack, gated, varying, adopted, cut_off),
    *(crashes, silence, most_silent, switched_off, evicted),
)


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.__name__)
def test_nothing_else_happens(story: Callable[[], Iterator[str]]) -> None:
    check_history(STORIES / f"{story.__name__}.txt", story())


def test_the_critical_have_a_quarter_of_a_short_notice_and_fifteen_seconds_of_a_long_one() -> None:
    for notice_s, critical_s in ((120, 15), (60, 15), (40, 10), (30, 7.5)):
        critical = pod("p", priority=2_000_000_000, says={"run-time": "forever"})
        twin = World(node(), critical, slow=NONE).twin
        faults.preempt_node(twin, "n", at(10), notice_us=notice_s * S)
        twin.run(at(10 + notice_s - critical_s) - 1)
        key = Key("Pod", "default", "p")
        assert twin.store.require(key)["status"]["phase"] == "Running"
        twin.run(at(10 + notice_s - critical_s))
        assert twin.store.require(key)["status"]["phase"] == "Failed"
