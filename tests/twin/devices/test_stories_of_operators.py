"""Stories of NVIDIA's GPU Operator: each write to nodes and its policy, each word, and when; of other kinds a digest.

What is told is compared with `../stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_gpu_operator import (
    CUSTOM,
    NS,
    PLUGIN,
    POLICY,
    SLICED,
    bare,
    config_map,
    job,
    namespace,
    plugin,
    policy,
)
from tests.histories import check_history
from tests.twin.stepwise import STORIES, Watched

from fairway.kube.objects import Key, Obj
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

WHOLE = frozenset({"Node", POLICY.gk, "gpu-operator", "RuntimeClass.node.k8s.io"})


class World(Watched):
    def __init__(self, *objects: Obj) -> None:
        super().__init__(Twin(seed=4, latency=latency_named("zero"), components=standard_components()), WHOLE)
        self.apply(namespace("default"), namespace(NS), *objects)

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def cut(self, node: str, config: str | None, label: str = "mig.config") -> World:
        said = {f"nvidia.com/{label}": config}
        return self.patch(Key("Node", "", node), {"metadata": {"labels": said}})

    def faulty(self, name: str, faults: str | None) -> World:
        said = {"fairway.dev/gpu-fault": faults}
        return self.patch(Key("Node", "", name), {"metadata": {"annotations": said}})

    def patch(self, key: Key, change: Obj) -> World:
        self.twin.store.patch(key, change)
        self.twin.wake()
        return self

    def delete(self, name: str, gk: str = "Pod", where: str = "default") -> World:
        self.twin.store.delete(Key(gk, where, name))
        self.twin.wake()
        return self

    def ends(self) -> Iterator[str]:
        yield from (line for line in self.said() if line.startswith("gpu-operator"))
        for pod in self.twin.store.objects("Pod"):
            meta, node = pod["metadata"], pod["spec"].get("nodeName")
            has = {n: v for n, v in meta.get("annotations", {}).items() if "/gpu-" in n}
            if meta["namespace"] == "default":
                yield f"{meta['name']} on {node}: {pod['status'].get('phase')} {has}"
        for one in self.twin.store.objects("DaemonSet.apps"):
            yield f"{one['metadata']['name']}: {one['status'].get('numberAvailable')}"


def chart(replicas: int, where: str = NS) -> Obj:
    labels = {"app": "gpu-operator", "release": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpu-operator", "namespace": where},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def daemon_set(name: str, labels: dict[str, str], where: str = NS, **spec: Any) -> Obj:
    containers = [{"name": "c", "image": "i:1"}]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": where, "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }


def card_less(name: str) -> Obj:
    node = bare(name)
    del node["metadata"]["annotations"]["fairway.dev/gpus"]
    return node


def operated() -> Iterator[str]:
    """The chart, Node Feature Discovery, three nodes, one without GPUs; cards cut, shared, broken and given back."""
    files = {"any": SLICED, "ten": SLICED.replace("4}", "10}")}
    plugin = {"config": {"name": "plugin", "default": ""}}
    cuts = config_map("cuts", **{"config.yaml": CUSTOM})
    world = World(
        bare("gpu-1"),
        bare("gpu-2", 1, "NVIDIA-A100-SXM4-80GB"),
        card_less("cpu-1"),
        config_map("plugin", **files),
        cuts,
    )
    nfd = daemon_set("worker", {"app.kubernetes.io/name": "node-feature-discovery"})
    yield from world.apply(chart(0)).until(1)
    migs = {"config": {"name": "cuts", "default": "all-disabled"}}
    yield from world.apply(policy("mixed", devicePlugin=plugin, migManager=migs)).until(5)
    yield from world.apply(chart(1)).until(20)
    yield from world.apply(nfd).until(230)
    yield from world.apply(job("first"), job("second", count=2), job("third")).until(235)
    yield from world.cut("gpu-1", "half").until(265)
    yield from world.delete("first").delete("third").until(270)
    yield from world.cut("gpu-1", None).until(273)
    yield from world.cut("gpu-1", "wrong").until(300)
    yield from world.delete("second").until(305)
    yield from world.cut("gpu-1", "half").until(340)
    small = [job(f"s{i}", "nvidia.com/mig-3g.40gb") for i in range(3)]
    yield from world.apply(*small, job("fourth")).until(345)
    yield from world.delete("s0").until(350)
    yield from world.cut("gpu-1", "ten", "device-plugin.config").until(370)
    yield from world.cut("gpu-1", None, "device-plugin.config").until(380)
    yield from world.faulty("gpu-2", "plugin-crash").until(420)
    yield from world.faulty("gpu-2", None).until(470)
    yield from world.delete("gpu-2", "Node", "").until(480)
    yield from world.delete("plugin", "ConfigMap", NS).until(490)
    yield from world.patch(POLICY, {"spec": {"dcgmExporter": {"enabled": False}}}).until(495)
    yield from world.delete("gpu-operator", "Deployment.apps", NS).until(530)
    yield from world.delete("cluster-policy", POLICY.gk, "").until(900)
    yield from world.ends()


def upgraded() -> Iterator[str]:
    """A new driver: one node after the other, then two at a time; who has GPUs goes, who has none stays."""

    def driver(version: str, **upgrades: Any) -> Obj:
        given = {"autoUpgrade": True, **upgrades}
        return policy("single", driver={"version": version, "upgradePolicy": given})

    world = World(*(bare(f"gpu-{i}") for i in range(3)), driver("580.82.07"))
    plain = job("plain")
    plain["spec"]["containers"][0]["resources"] = {}
    done = job("done")
    done["metadata"]["annotations"]["fairway.dev/run-time"] = "20s"
    done["spec"]["restartPolicy"] = "Never"
    yield from world.until(210)
    yield from world.apply(job("one"), job("two", count=2), plain, done).until(240)
    yield from world.apply(driver("590.10.01")).until(420)
    yield from world.apply(driver("590.10.02", maxParallelUpgrades=2)).until(790)
    yield from world.apply(driver("590.10.03", maxParallelUpgrades=0)).until(990)
    yield from world.apply(driver("590.10.04", autoUpgrade=False)).until(1010)
    yield from world.ends()


def rebooted() -> Iterator[str]:
    """MIG Manager that may reboot, and clients of somebody else's that keep it waiting."""
    env = [{"name": "WITH_REBOOT", "value": "true"}, {"name": "X"}]
    migs = {"config": {"default": "all-disabled"}, "env": env}
    world = World(bare("gpu-1", 1, "NVIDIA-A100-SXM4-80GB"), policy("mixed", migManager=migs))
    client = daemon_set(
        "client", {}, nodeSelector={"nvidia.com/gpu.deploy.client": "true"}, terminationGracePeriodSeconds=400
    )
    client["spec"]["template"]["metadata"]["annotations"] = {
        "fairway.dev/run-time": "forever",
        "fairway.dev/stop-time": "390s",
    }
    other = daemon_set("other", {}, nodeSelector={"kubernetes.io/os": "linux"})
    yield from world.apply(client, other).until(300)
    yield from world.cut("gpu-1", "all-1g.10gb").until(660)
    yield from world.apply(job("one", "nvidia.com/mig-1g.10gb")).until(680)
    yield from world.cut("gpu-1", "all-balanced").until(1400)
    yield from world.ends()


def by_hand() -> Iterator[str]:
    """A plugin that somebody deploys himself, beside feature discovery of the same image, and the file it goes by."""
    cut = {"fairway.dev/gpu-layout": "0=3g.40gb@0,3g.40gb@4;1="}
    early = job("early")
    early["spec"]["nodeName"] = "gpu-1"
    said = job("said")
    said["spec"]["nodeName"] = "gpu-2"
    said["metadata"]["annotations"]["fairway.dev/gpu-index"] = "1"
    ended = job("ended")
    ended["metadata"]["annotations"]["fairway.dev/run-time"] = "3s"
    ended["spec"] |= {"restartPolicy": "Never", "nodeName": "gpu-1"}
    shares = config_map("shares", **{"config.yaml": SLICED})
    shares["metadata"]["namespace"] = "kube-system"
    world = World(
        namespace("kube-system"), bare("gpu-1", 3, **cut), bare("gpu-2"), early, said, ended, shares
    )
    yield from world.until(5)
    mounts = {"volumes": [{"name": "c", "configMap": {"name": "shares"}}]}
    discovery = plugin(args=["gpu-feature-discovery", "--oneshot=false"])
    discovery["metadata"] = {**discovery["metadata"], "name": "gfd"}
    yield from world.apply(
        with_labels(discovery, "gfd"), with_volumes(plugin(args=["--mig-strategy=mixed"]), mounts)
    ).until(20)
    yield from world.apply(*(job(f"j{i}") for i in range(6)), job("cut", "nvidia.com/mig-3g.40gb")).until(30)
    change = {"data": {"config.yaml": SLICED.replace("4}", "2}")}}
    yield from world.patch(Key("ConfigMap", "kube-system", "shares"), change).until(40)
    yield from world.delete("j0").delete("j1").until(45)
    yield from world.apply(job("late"), config_map("elsewhere", a="b")).until(50)
    yield from world.patch(
        Key("Node", "", "gpu-2"), {"metadata": {"annotations": {"fairway.dev/gpu-unhealthy": "1"}}}
    ).until(60)
    yield from world.delete(PLUGIN["metadata"]["name"], "DaemonSet.apps", "kube-system").until(80)
    yield from world.apply(plugin()).until(100)
    yield from world.ends()


def with_labels(of: Obj, name: str) -> Obj:
    labels = {"name": name}
    template = {**of["spec"]["template"], "metadata": {"labels": labels}}
    return {**of, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def with_volumes(of: Obj, spec: Obj) -> Obj:
    template = of["spec"]["template"]
    return {**of, "spec": {**of["spec"], "template": {**template, "spec": {**template["spec"], **spec}}}}


@pytest.mark.parametrize("story", [operated, upgraded, rebooted, by_hand])
def test_nothing_else_happens_on_nodes_with_an_operator(story: Callable[[], Iterator[str]]) -> None:
    check_history(STORIES / f"gpus-{story.__name__}.txt", story())


@pytest.mark.parametrize("story", [rebooted, by_hand])
def test_nor_in_copies_of_gpus(story: Callable[[], Iterator[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "goes_on_in_copies", True)
    check_history(STORIES / f"gpus-{story.__name__}.txt", story())
