"""HAMi's device plugin alone: what it writes on which nodes, and when it looks again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.catalog.drivers import gpu_uuid
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.devices.hami import HamiDevicePlugin
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin

PLUGIN = Key("DaemonSet.apps", "kube-system", "hami-device-plugin")
REGISTER, HANDSHAKE = "hami.io/node-nvidia-register", "hami.io/node-handshake"
L4 = "NVIDIA-L4"


def node(name: str, gpus: int = 2, product: str = L4, notes: Obj | None = None, **labels: str) -> Obj:
    amounts = {"cpu": "8", "nvidia.com/gpu": str(gpus)}
    meta: Obj = {"name": name, "labels": {"gpu": "on", **labels}, "annotations": notes or {}}
    if product:
        meta["labels"]["nvidia.com/gpu.product"] = product
    status = {"capacity": amounts, "allocatable": {**amounts, "cpu": "7"}, "phase": "x"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def plugin(*args: str, command: tuple[str, ...] = (), selects: Any = None) -> Obj:
    container: Obj = {"name": "device-plugin", "image": "hami"}
    container |= {"args": list(args)} if args else {}
    container |= {"command": list(command)} if command else {}
    spec: Obj = {"containers": [{"name": "monitor", "image": "hami"}, container]}
    spec |= {"nodeSelector": selects} if selects else {}
    meta = {"name": PLUGIN.name, "namespace": PLUGIN.namespace}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": meta,
        "spec": {"template": {"spec": spec}},
    }


def a_twin(*objects: Obj) -> Twin:
    twin = Twin(latency=NONE, components=[HamiDevicePlugin()])
    twin.apply(objects)
    twin.run_for(SECOND_US)
    return twin


def notes(twin: Twin, name: str = "n") -> Obj:
    meta = twin.store.require(Key("Node", "", name))["metadata"]
    return dict(meta.get("annotations") or {})


def offered(twin: Twin, name: str = "n") -> tuple[str, str]:
    status = twin.store.require(Key("Node", "", name))["status"]
    return status["capacity"]["nvidia.com/gpu"], status["allocatable"]["nvidia.com/gpu"]


def counts(twin: Twin, name: str = "n") -> list[int]:
    return [card["count"] for card in json.loads(notes(twin, name)[REGISTER])]


def test_what_is_written_on_a_node() -> None:
    twin = a_twin(plugin(), node("n", notes={"fairway.dev/gpu-unhealthy": "1", "own": "kept"}))
    found = twin.store.require(Key("Node", "", "n"))
    said = notes(twin)
    assert json.loads(said.pop(REGISTER)) == [
        {
            "id": "GPU-d7ce19a5-201b-aff8-a633-7dff2dadb8bd",
            "count": 10,
            "devmem": 23034,
            "devcore": 100,
            "type": "NVIDIA-NVIDIA-L4",
            "mode": "hami-core",
            "health": True,
        },
        {
            "id": gpu_uuid("n", 1),
            "index": 1,
            "count": 10,
            "devmem": 23034,
            "devcore": 100,
            "type": "NVIDIA-NVIDIA-L4",
            "mode": "hami-core",
        },
    ]
    assert said == {
        "fairway.dev/gpu-unhealthy": "1",
        "own": "kept",
        HANDSHAKE: "Reported 2026-01-05T00:00:00Z",
        "fairway.dev/gpus": "2 NVIDIA-L4",
    }
    assert found["status"] == {
        "capacity": {"cpu": "8", "nvidia.com/gpu": "20"},
        "allocatable": {"cpu": "7", "nvidia.com/gpu": "20"},
        "phase": "x",
    }


@pytest.mark.parametrize(
    ("daemonset", "want"),
    [
        (plugin(), 10),
        (plugin("--device-split-count=1"), 1),
        (plugin("--v=4", "--device-split-count=7"), 7),
        (plugin("--device-split-count=1000"), 1000),
        (plugin("--device-split-count=1001"), 1000),
        (plugin("--device-split-count=0"), 10),
        (plugin("--device-split-count=many"), 10),
        (plugin("--device-split-count=0", "--device-split-count=3"), 3),
        (plugin("--device-memory-scaling=3"), 10),
        (plugin(command=("nvidia-device-plugin", "--device-split-count=5")), 5),
        (plugin("--device-split-count=6", command=("nvidia-device-plugin",)), 6),
    ],
)
def test_how_many_pods_may_share_a_card(daemonset: Obj, want: int) -> None:
    twin = a_twin(daemonset, node("n"))
    assert counts(twin) == [want, want]
    assert offered(twin) == (str(2 * want), str(2 * want))


@pytest.mark.parametrize(
    ("one", "selects", "is_registered"),
    [
        (node("n"), None, True),
        (node("n"), {"gpu": "on"}, True),
        (node("n"), {"gpu": "off"}, False),
        (node("n", pool="a"), {"gpu": "on", "pool": "a"}, True),
        (node("n", pool="a"), {"gpu": "on", "pool": "b"}, False),
        (node("n"), {"pool": "b", "gpu": "on"}, False),
        (node("n", gpus=0), {"gpu": "on"}, False),
        (node("n", product="Nobody-Knows"), {"gpu": "on"}, False),
    ],
)
def test_which_nodes_register(one: Obj, selects: Obj | None, is_registered: bool) -> None:
    twin = a_twin(plugin(selects=selects), one)
    assert (REGISTER in notes(twin)) is is_registered
    if not is_registered:
        amount = one["status"]["capacity"]["nvidia.com/gpu"]
        assert (notes(twin), offered(twin)) == ({}, (amount, amount))


@pytest.mark.parametrize("spec", [{}, {"template": {}}, {"template": {"spec": {}}}])
def test_a_daemonset_that_says_little_is_on_every_node(spec: Obj) -> None:
    twin = a_twin({**plugin(), "spec": spec}, node("n"))
    assert counts(twin) == [10, 10]


def test_nothing_is_taken_off_nodes_where_hami_never_was() -> None:
    said = {REGISTER: "[]", HANDSHAKE: "Reported long ago"}
    twin = a_twin(node("n", notes=said))
    assert (notes(twin), offered(twin)) == (said, ("2", "2"))


def test_a_node_that_is_chosen_no_longer_offers_whole_cards() -> None:
    twin = a_twin(plugin(selects={"gpu": "on"}), node("n"), node("other", gpus=1))
    twin.run_for(SECOND_US)
    twin.store.patch(Key("Node", "", "n"), {"metadata": {"labels": {"gpu": "off"}}})
    twin.run_for(SECOND_US)
    assert (notes(twin), offered(twin)) == ({"fairway.dev/gpus": "2 NVIDIA-L4"}, ("2", "2"))
    assert (counts(twin, "other"), offered(twin, "other")) == ([10], ("10", "10"))


def test_it_reports_again_when_something_is_different() -> None:
    twin = a_twin(plugin(), node("n"))
    version = twin.store.version
    twin.store.patch(Key("Node", "", "n"), {"metadata": {"labels": {"x": "y"}}})
    twin.run_for(SECOND_US)
    assert twin.store.version == version + 1
    assert notes(twin)[HANDSHAKE] == "Reported 2026-01-05T00:00:00Z"
    twin.store.patch(Key("Node", "", "n"), {"metadata": {"annotations": {"fairway.dev/gpu-unhealthy": "0"}}})
    twin.run_for(SECOND_US)
    assert [card.get("health") for card in json.loads(notes(twin)[REGISTER])] == [None, True]
    assert notes(twin)[HANDSHAKE] == "Reported 2026-01-05T00:00:02Z"


def test_the_daemonset_speaks_for_all_nodes_there_are() -> None:
    twin = a_twin(node("a"), node("b", gpus=1))
    assert (notes(twin, "a"), notes(twin, "b")) == ({}, {})
    twin.apply([plugin("--device-split-count=2")])
    twin.run_for(SECOND_US)
    assert (counts(twin, "a"), counts(twin, "b")) == ([2, 2], [2])
    twin.apply([plugin("--device-split-count=4")])
    twin.run_for(SECOND_US)
    assert (counts(twin, "a"), counts(twin, "b")) == ([4, 4], [4])
    twin.store.delete(PLUGIN)
    twin.run_for(SECOND_US)
    assert (offered(twin, "a"), offered(twin, "b")) == (("2", "2"), ("1", "1"))


def test_a_daemonset_of_another_name_is_not_hami() -> None:
    other = plugin()
    other["metadata"]["name"] = "nvidia-device-plugin"
    assert notes(a_twin(other, node("n"))) == {}


def test_changes_at_one_time_are_one_look() -> None:
    twin = Twin(latency=NONE, components=[HamiDevicePlugin()])
    twin.apply([plugin()])
    assert twin.run_for(SECOND_US) == 1, "the news; without a node there is no look"
    twin.apply([node("a"), node("b")])
    assert twin.run_for(SECOND_US) == 4, "the news and a look at both, what that wrote and a look at both"
    twin.store.delete(Key("Node", "", "b"))
    twin.apply([node("c", gpus=1)])
    twin.run_for(SECOND_US)
    assert counts(twin, "c") == [10]


def test_a_fork_looks_at_what_was_due() -> None:
    twin = Twin(latency=NONE, components=[HamiDevicePlugin()])
    twin.apply([plugin(), node("a"), node("b")])
    assert twin.loop.run_some(twin.now_us, 1) == 1, "it has heard of them"
    fork = twin.fork()
    for one in (twin, fork):
        one.run_for(SECOND_US)
        assert (counts(one, "a"), counts(one, "b")) == ([10, 10], [10, 10])
    assert twin.digest() == fork.digest()
