"""Pods that name ConfigMaps and Secrets that are not there wait for them, in the kubelet's words."""

from __future__ import annotations

from typing import Any

import pytest
from kubeletworld import World, container, pod

from fairway.kube.objects import Key, Obj

S = 1_000_000


def config_map(kind: str = "ConfigMap", **data: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "settings", "namespace": "default"},
        "data": data,
    }


def messages(world: World, reason: str) -> list[str]:
    return [t.message for t in world.twin.host.events.about(Key("Pod", "default", "p")) if t.reason == reason]


MOUNTS: dict[str, tuple[dict[str, Any], Obj | None, str]] = {
    "a ConfigMap": ({"configMap": {"name": "settings"}}, None, 'configmap "settings" not found'),
    "a Secret": ({"secret": {"secretName": "settings"}}, None, 'secret "settings" not found'),
    "a key": (
        {"configMap": {"name": "settings", "items": [{"key": "b", "path": "b"}]}},
        config_map(a="1"),
        "configmap references non-existent config key: b",
    ),
    "a secret key": (
        {"secret": {"secretName": "settings", "items": [{"key": "b", "path": "b"}]}},
        config_map("Secret", a="MQ=="),
        "references non-existent secret key: b",
    ),
    "one of several sources": (
        {
            "projected": {
                "sources": [{"configMap": {"name": "kube-root-ca.crt"}}, {"secret": {"name": "settings"}}]
            }
        },
        None,
        'secret "settings" not found',
    ),
    "an optional one": ({"configMap": {"name": "settings", "optional": True}}, None, ""),
    "one that is there": ({"configMap": {"name": "settings"}}, config_map(a="1"), ""),
}


@pytest.mark.parametrize("name", MOUNTS)
def test_volumes(name: str) -> None:
    volume, there, want = MOUNTS[name]
    asks = pod("p", container(command="sleep 60"), volumes=[{"name": "v", **volume}])
    world = World(*([there] if there else []), asks).at(5)
    if not want:
        assert world.seen() == "Running 1/1 main=run"
        return
    assert world.seen() == "Pending 0/1 main=wait:ContainerCreating"
    assert messages(world, "FailedMount") == [f'MountVolume.SetUp failed for volume "v" : {want}']
    assert world.condition("PodReadyToStartContainers") in (("False", ""), ("", ""))


def test_what_comes_later_lets_the_pod_start() -> None:
    asks = pod("p", container(command="sleep 60"), volumes=[{"name": "v", "configMap": {"name": "settings"}}])
    world = World(asks).at(130)
    assert "Unable to attach or mount volumes: unmounted volumes=[v]" in "".join(
        messages(world, "FailedMount")
    )
    world.twin.apply([config_map(a="1")])
    assert world.at(400).seen() == "Succeeded 0/1 main=end:Completed:0"


def test_a_pod_that_is_deleted_waits_no_more() -> None:
    asks = pod("p", container(command="sleep 60"), volumes=[{"name": "v", "configMap": {"name": "settings"}}])
    world = World(asks).at(10)
    world.delete()
    assert world.at(60).seen() == "gone"


ENVIRONMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "a ConfigMap": (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "nothing", "key": "a"}}}]},
        'configmap "nothing" not found',
    ),
    "a key": (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "b"}}}]},
        "couldn't find key b in ConfigMap default/settings",
    ),
    "a Secret": (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "a"}}}]},
        'secret "token" not found',
    ),
    "all of a Secret": ({"envFrom": [{"secretRef": {"name": "token"}}]}, 'secret "token" not found'),
    "an optional one": (
        {
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "a", "optional": True}}}
            ]
        },
        "",
    ),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_variables(name: str) -> None:
    fields, want = ENVIRONMENTS[name]
    world = World(config_map(a="1"), pod("p", container(command="sleep 60", **fields))).at(25)
    if not want:
        assert world.seen() == "Running 1/1 main=run"
        return
    assert world.seen() == "Pending 0/1 main=wait:CreateContainerConfigError"
    (status,) = world.need()["status"]["containerStatuses"]
    assert status["state"]["waiting"]["message"] == want
    assert set(messages(world, "Failed")) == {f"Error: {want}"}
    assert "Failed*3" in world.said()


def test_a_secret_that_comes_later_lets_the_container_start() -> None:
    fields = {"envFrom": [{"secretRef": {"name": "settings"}}]}
    world = World(pod("p", container(command="sleep 60", **fields))).at(25)
    world.twin.apply([config_map("Secret", a="MQ==")])
    assert world.at(35).seen() == "Running 1/1 main=run"


def test_a_fork_goes_on_waiting() -> None:
    asks = pod("p", container(command="sleep 60"), volumes=[{"name": "v", "configMap": {"name": "settings"}}])
    world = World(asks).at(10)
    fork = world.twin.fork()
    fork.apply([config_map(a="1")])
    fork.run_for(300 * S)
    found = fork.store.get(Key("Pod", "default", "p"))
    assert found is not None
    assert found["status"]["phase"] == "Succeeded"
    assert world.at(310).seen() == "Pending 0/1 main=wait:ContainerCreating"
