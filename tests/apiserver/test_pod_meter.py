"""What Karpenter observes of pods, told moment by moment: who waits, how long binding and starting took."""

from __future__ import annotations

from typing import Any

from fairway.apiserver.controlplanepods import HOSTED
from fairway.apiserver.exporter.podmeter import PodMeter
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.provisioning.metrics import POD_LABELS

START_US = parse_rfc3339("2026-01-05T08:00:00Z")
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n",
        "labels": {
            "karpenter.sh/nodepool": "default",
            "karpenter.sh/capacity-type": "spot",
            "topology.kubernetes.io/zone": "z1",
            "kubernetes.io/arch": "arm64",
            "node.kubernetes.io/instance-type": "m7g.large",
        },
    },
}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u"}


class World:
    def __init__(self) -> None:
        self.store = Store(seed=1, now_us=START_US)
        self.store.create(NODE)
        self.meter = PodMeter(self.store)
        self.store.followers.append(self.meter)

    def at(self, seconds: float) -> World:
        self.store.now_us = START_US + round(seconds * SECOND_US)
        return self

    def pod(self, name: str, node: str = "", scheduler: str = "", **meta: Any) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        spec |= {"nodeName": node} if node else {}  # type: ignore[dict-item]
        spec |= {"schedulerName": scheduler} if scheduler else {}  # type: ignore[dict-item]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team", **meta}}
        self.store.create({**body, "spec": spec})

    def bind(self, name: str) -> None:
        pod = self.store.require(self.key(name))
        self.store.replace({**pod, "spec": {**pod["spec"], "nodeName": "n"}})

    def become(self, name: str, phase: str, **conditions: tuple[str, float]) -> None:
        """`conditions`: status and since when, in seconds."""
        listed = [
            {"type": type_, "status": status, "lastTransitionTime": rfc3339(START_US + round(s * SECOND_US))}
            for type_, (status, s) in conditions.items()
        ]
        self.store.set_status(self.key(name), {"phase": phase, "conditions": listed})

    def key(self, name: str) -> Key:
        return Key("Pod", "team", name)

    def ages(self) -> dict[str, dict[str, float]]:
        """Of those that wait, by what they wait for."""
        found: dict[str, dict[str, float]] = {"unbound": {}, "unstarted": {}}
        for sample in self.meter.samples():
            for word in found:
                if sample.name == f"karpenter_pods_{word}_time_seconds":
                    name, namespace = sample.labels
                    assert namespace == "team"
                    found[word][name] = sample.value
        return found

    def states(self) -> list[dict[str, str]]:
        rows = [s for s in self.meter.samples() if s.name == "karpenter_pods_state"]
        assert all(row.value == 1 for row in rows)
        return [dict(zip(POD_LABELS, row.labels, strict=True)) for row in rows]

    def took(self) -> dict[str, tuple[float, float]]:
        """How many there were of each, and their sum."""
        found = {}
        for one in self.meter.observed():
            name = one.name.removeprefix("karpenter_pods_").removesuffix("_duration_seconds")
            found[name] = (sum(one.counts), one.total)
        return found


def test_a_pods_way() -> None:
    world = World()
    world.pod("p")
    world.become("p", "Pending")
    assert world.ages() == {"unbound": {"p": 0}, "unstarted": {"p": 0}}
    world.at(2.5)
    assert world.ages() == {"unbound": {"p": 2.5}, "unstarted": {"p": 2.5}}
    world.bind("p")
    world.become("p", "Pending", PodScheduled=("True", 2))
    assert world.ages() == {"unbound": {}, "unstarted": {"p": 2.5}}
    assert world.took() == {}
    world.at(10).become("p", "Running", PodScheduled=("True", 2), Ready=("False", 9))
    assert world.ages() == {"unbound": {}, "unstarted": {"p": 10}}
    assert world.took() == {"bound": (1, 2.0)}
    world.at(20).become("p", "Running", PodScheduled=("True", 2), Ready=("True", 15))
    assert world.ages() == {"unbound": {}, "unstarted": {}}
    assert world.took() == {"bound": (1, 2.0), "startup": (1, 15.0)}
    world.at(30).become("p", "Running", PodScheduled=("True", 2), Ready=("True", 29))
    assert world.took() == {"bound": (1, 2.0), "startup": (1, 15.0)}, "each is observed once"


def test_a_pod_that_ends_before_it_was_ready_waits_no_more() -> None:
    for phase in ("Succeeded", "Failed"):
        world = World()
        world.pod("p")
        world.become("p", "Pending")
        world.at(5).become("p", phase, PodScheduled=("False", 1), Ready=("False", 5))
        assert world.ages() == {"unbound": {"p": 5}, "unstarted": {}} and world.took() == {}
    world.become("p", "Unknown")
    assert world.ages()["unstarted"] == {}


def test_a_pod_that_goes_is_forgotten_and_another_of_its_name_is_new() -> None:
    world = World()
    world.pod("p")
    world.become("p", "Pending")
    world.at(5)
    world.store.delete(world.key("p"), grace_s=0)
    assert world.ages() == {"unbound": {}, "unstarted": {}}
    assert (world.meter._unbound, world.meter._unstarted) == ({}, {})
    world.at(8).pod("p")
    world.at(9).become("p", "Running", PodScheduled=("True", 9), Ready=("True", 9))
    assert world.took() == {"bound": (1, 1.0), "startup": (1, 1.0)}


def test_pods_that_waited_before_it_began_are_known() -> None:
    world = World()
    world.pod("p")
    world.become("p", "Pending")
    world.pod("q", "n")
    world.become("q", "Running", Ready=("True", 0))
    world.at(4)
    world.meter = PodMeter(world.store)
    assert world.ages() == {"unbound": {"p": 4}, "unstarted": {"p": 4}}


def test_where_every_pod_is() -> None:
    world = World()
    world.pod("p", "n", ownerReferences=[OWNER, {**OWNER, "name": "other"}])
    world.become("p", "Running", Ready=("True", 0))
    world.pod("q", "gone")
    world.pod("r")
    world.become("r", "Pending", Ready=("False", 0))
    nothing = dict.fromkeys(POD_LABELS, "")
    said: dict[str, Obj] = {row["name"]: row for row in world.states()}
    assert said["p"] == {
        **nothing,
        "name": "p",
        "namespace": "team",
        "owner": "/apis/apps/v1/namespaces/team/replicasets/web-1",
        "node": "n",
        "scheduled": "true",
        "nodepool": "default",
        "zone": "z1",
        "arch": "arm64",
        "capacity_type": "spot",
        "instance_type": "m7g.large",
        "phase": "Running",
        "ready": "true",
        "managed": "true",
    }
    base = {**nothing, "namespace": "team", "ready": "false", "managed": "false"}
    assert said["q"] == {
        **base,
        "name": "q",
        "node": "gone",
        "scheduled": "true",
        "phase": said["q"]["phase"],
    }
    assert said["r"] == {**base, "name": "r", "scheduled": "false", "phase": "Pending"}


def test_the_control_planes_own_pods_do_not_count_as_waiting() -> None:
    world = World()
    world.pod("own", scheduler=HOSTED)
    world.become("own", "Pending")
    assert world.ages() == {"unbound": {}, "unstarted": {}}
    world.store.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}
    )
    assert [row["name"] for row in world.states()] == ["own"]
