"""The simulated kubelet behind its seam: who answers for a node, whose files are kept, which ports listen."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.kubelets import simulated
from fairway.apiserver.kubelets.interface import CannotConnect, Invocation, Kubelets
from fairway.apiserver.kubelets.simulated import SimulatedKubelet
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj


class Client:
    """A Remote that keeps what it is told."""

    def __init__(self) -> None:
        self.out = b""
        self.code: int | None = None

    def write(self, data: bytes) -> None:
        self.out += data

    def write_error(self, data: bytes) -> None:
        self.out += data

    def exit(self, code: int) -> None:
        self.code = code


class World:
    def __init__(self) -> None:
        self.store = Store(now_us=1_000_000)
        self.kubelet = SimulatedKubelet(self.store, lambda: None)

    def pod(self, name: str, started: str = "2026-01-05T00:00:00Z") -> Obj:
        key = Key("Pod", "default", name)
        if self.store.get(key) is None:
            spec = {"nodeName": "n", "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}
            self.store.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        state: dict[str, Any] = {"running": {"startedAt": started}} if started else {"waiting": {}}
        return self.store.set_status(key, {"containerStatuses": [{"name": "c", "state": state}]})

    def run(self, pod: Obj, script: str) -> Client:
        client = Client()
        self.kubelet.exec(pod, "c", Invocation(("sh", "-c", script)), client).begin()
        return client


def test_files_last_as_long_as_the_containers_run() -> None:
    world = World()
    assert world.run(world.pod("a"), "echo kept > /tmp/x").code == 0
    assert world.run(world.pod("a"), "cat /tmp/x").out == b"kept\n"
    assert world.run(world.pod("b"), "cat /tmp/x").code == 1
    assert world.run(world.pod("a", started="2026-01-05T00:01:00Z"), "cat /tmp/x").code == 1


def test_files_of_runs_that_are_over_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "_MAX_CONTAINERS", 2)
    world = World()
    world.run(world.pod("a"), "echo a > /tmp/x")
    world.run(world.pod("b"), "echo b > /tmp/x")
    world.pod("b", started="")
    world.run(world.pod("c"), "true")
    assert world.run(world.pod("a"), "cat /tmp/x").out == b"a\n"
    world.run(world.pod("d"), "true")
    world.run(world.pod("e"), "true")
    assert world.run(world.pod("a"), "cat /tmp/x").code == 1


def test_a_container_that_does_not_run_cannot_be_entered() -> None:
    world = World()
    with pytest.raises(CannotConnect, match=r'container not found \("c"\)'):
        world.run(world.pod("a", started=""), "ls")


def test_nodes_are_given_to_other_kubelets() -> None:
    first, second = World().kubelet, World().kubelet
    kubelets = Kubelets(first)
    kubelets.take("local", second)
    assert kubelets.of("local") is second and kubelets.of("gpu-0") is first


def test_input_is_limited() -> None:
    world = World()
    client = Client()
    process = world.kubelet.exec(world.pod("a"), "c", Invocation(("tee", "/tmp/x"), stdin=True), client)
    process.begin()
    for _ in range(40):
        process.receive(bytes(1024 * 1024))
    assert client.code == 1 and client.out == b"simulated container: too much input\n"
