"""Pods that name ConfigMaps and Secrets that are not there wait for them, in the kubelet's words."""

from __future__ import annotations

from typing import Any

import pytest
from kubeletworld import World, container, pod

from fairway.kube.objects import Key, Obj
from fairway.twin.kubelet.references import Reference, missing, mounts_of, variables_of

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


_REFERENCES = {
    "ConfigMap": "configmap references non-existent config key",
    "Secret": "references non-existent secret key",
}
HELD: list[tuple[Obj, bool]] = [
    ({}, False),
    ({"data": {"b": "1"}}, False),
    ({"data": {"a": ""}}, True),
    ({"binaryData": {"a": "MQ=="}}, True),
    ({"stringData": {"a": "1"}}, True),
    ({"data": {"b": "1"}, "binaryData": {"c": ""}, "stringData": {"d": "1"}}, False),
    ({"data": None, "binaryData": None, "stringData": {"a": "1"}}, True),
]


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_where_a_key_may_be(kind: str) -> None:
    for fields, is_there in HELD:
        world = World({**config_map(kind), "data": None, **fields})
        for volume, said in (
            ("v", _REFERENCES[kind] + ": a"),
            ("", f"couldn't find key a in {kind} default/settings"),
        ):
            wanted = Reference(kind, "settings", ("a",), volume)
            there = Reference(kind, "settings", (), volume)
            found = missing(world.twin.store, "default", (there, wanted, Reference(kind, "none", ())))
            assert found is not None
            assert (
                found[0] is (wanted if not is_there else found[0]) and (found[0].name == "none") is is_there
            )
            if not is_there:
                assert found[1] == said
        assert missing(world.twin.store, "default", (there,)) is None


def test_what_volumes_and_variables_need() -> None:
    """All that is named and not optional; volumes' once for a list."""
    volumes: list[Obj] = [
        {
            "name": "a",
            "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}, {"key": "l", "path": "q"}]},
        },
        {"name": "b", "secret": {"secretName": "s", "name": "not this"}},
        {"name": "c", "configMap": {"name": "m", "optional": True}, "secret": None},
        {"name": "d", "configMap": {"name": "kube-root-ca.crt"}},
        {
            "name": "e",
            "projected": {
                "sources": [
                    {"secret": {"name": "t", "secretName": "not this"}, "configMap": {"name": "n"}},
                    {"configMap": {"name": "kube-root-ca.crt"}},
                    {"serviceAccountToken": {"path": "token"}},
                    {"secret": {"name": "u", "optional": True}},
                ]
            },
        },
        {"name": "f", "emptyDir": {}},
        {"name": "g", "configMap": {}},
    ]
    found = mounts_of(volumes)
    assert found == (
        Reference("ConfigMap", "m", ("k", "l"), "a"),
        Reference("Secret", "s", (), "b"),
        Reference("ConfigMap", "n", (), "e"),
        Reference("Secret", "t", (), "e"),
    )
    assert mounts_of(volumes) is found and mounts_of(list(volumes)) == found
    container = {
        "envFrom": [
            {"configMapRef": {"name": "m"}, "secretRef": {"name": "s", "optional": True}},
            {"prefix": "x", "secretRef": {"name": "t"}},
            {"configMapRef": {}},
        ],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
            {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "l"}}},
            {"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "l", "optional": True}}},
            {"name": "F", "valueFrom": {"configMapKeyRef": {"key": "l"}}},
        ],
    }
    assert variables_of(container) == (
        Reference("ConfigMap", "m", ()),
        Reference("Secret", "t", ()),
        Reference("ConfigMap", "m", ("k",)),
        Reference("Secret", "s", ("l",)),
    )
