"""A kubelet with a KubeletConfiguration lets pods in by NUMA node, CPU and GPU, and says so on them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.kube.objects import Key, Obj, annotations_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

GUIDE = {
    "topologyManagerPolicy": "single-numa-node",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0-3",
}


def node(configuration: dict[str, Any] | str, board: str = "p5", cpu: int = 192, gpus: int = 8) -> Obj:
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    notes = {"fairway.dev/kubelet-configuration": text, "fairway.dev/board": board}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": str(gpus)}
    capacity = {"cpu": str(cpu), "memory": "2Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    meta = {"name": "n", "labels": labels, "annotations": notes}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": capacity}}


def pod(name: str, cpus: str = "", gpus: int = 0, run: str = "forever") -> Obj:
    needs = {"cpu": cpus, "memory": "8Gi", "nvidia.com/gpu": str(gpus) if gpus else ""}
    limits = {k: v for k, v in needs.items() if v}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {"fairway.dev/run-time": run}},
        "spec": {"containers": [container], "restartPolicy": "Never", "nodeName": "n"},
    }


def world(*objects: Obj) -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    twin.apply([space, *objects])
    twin.run_for(SECOND_US)
    return twin


def fate(twin: Twin, name: str) -> tuple[str, str]:
    status = status_of(twin.store.get(Key("Pod", "default", name)) or {})
    return status["phase"], status.get("reason", "")


def notes(twin: Twin, name: str) -> dict[str, str]:
    found = annotations_of(twin.store.get(Key("Pod", "default", name)) or {})
    return {k.removeprefix("fairway.dev/"): v for k, v in found.items() if not k.endswith("run-time")}


def test_cpus_and_gpus_come_from_one_numa_node() -> None:
    twin = world(node(GUIDE), pod("a", "24", 4), pod("b", "24", 4))
    assert notes(twin, "a") == {"numa-nodes": "c=0", "cpus": "c=4-15,100-111", "gpu-index": "0,1,2,3"}
    assert notes(twin, "b") == {"numa-nodes": "c=1", "cpus": "c=48-59,144-155", "gpu-index": "4,5,6,7"}


def test_what_no_numa_node_has_is_rejected_in_the_kubelets_words() -> None:
    twin = world(node(GUIDE), pod("a", "24", 2), pod("wide", "8", 5))
    assert fate(twin, "wide") == ("Failed", "TopologyAffinityError")
    status = status_of(twin.store.get(Key("Pod", "default", "wide")) or {})
    assert status["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
    told = twin.host.events.about(Key("Pod", "default", "wide"))
    assert [e.reason for e in told if e.type == "Warning"] == ["TopologyAffinityError"]


def test_best_effort_lets_it_in_all_the_same() -> None:
    twin = world(node({**GUIDE, "topologyManagerPolicy": "best-effort"}), pod("wide", "8", 5))
    assert fate(twin, "wide") == ("Running", "")
    assert notes(twin, "wide")["gpu-index"].count(",") == 4


def test_what_a_pod_had_is_given_again() -> None:
    twin = world(node(GUIDE), pod("a", "24", 4, run="10s"), pod("b", "24", 4))
    twin.run_for(30 * SECOND_US)
    assert fate(twin, "a")[0] == "Succeeded"
    twin.apply([pod("c", "24", 4)])
    twin.run_for(SECOND_US)
    assert notes(twin, "c") == {"numa-nodes": "c=0", "cpus": "c=4-15,100-111", "gpu-index": "0,1,2,3"}


def test_cpus_without_gpus_are_given_again() -> None:
    twin = world(node(GUIDE), pod("a", "92", run="10s"), pod("b", "96"), pod("early", "2"))
    assert (fate(twin, "b"), fate(twin, "early")) == (("Running", ""), ("Failed", "TopologyAffinityError"))
    twin.run_for(30 * SECOND_US)
    twin.apply([pod("c", "92")])
    twin.run_for(SECOND_US)
    assert notes(twin, "c") == {"numa-nodes": "c=0", "cpus": "c=4-47,96-143"}
    assert notes(twin, "b") == {"numa-nodes": "c=1", "cpus": "c=48-95,144-191"}


def test_a_fork_gives_out_for_itself() -> None:
    twin = world(node(GUIDE), pod("a", "24", 4))
    other = twin.fork()
    other.apply([pod("b", "24", 4)])
    other.run_for(SECOND_US)
    twin.apply([pod("x", "24", 4)])
    twin.run_for(SECOND_US)
    assert notes(other, "b")["gpu-index"] == notes(twin, "x")["gpu-index"] == "4,5,6,7"


def test_a_machine_that_is_made_otherwise_forgets_what_was_given() -> None:
    """One whose managers are as before does not."""
    for between, gpus in ((GUIDE, "4,5,6,7"), ({}, "0,1,2,3")):
        twin = world(node(GUIDE), pod("a", "24", 4))
        for configuration in (between, {**GUIDE, "topologyManagerPolicy": "restricted"}):
            notes_ = {"fairway.dev/kubelet-configuration": json.dumps(configuration)}
            twin.store.patch(Key("Node", "", "n"), {"metadata": {"annotations": notes_}})
            twin.wake()
            twin.run_for(SECOND_US)
        twin.apply([pod("b", "24", 4)])
        twin.run_for(SECOND_US)
        assert notes(twin, "b")["gpu-index"] == gpus


def test_each_container_has_its_own_cpus_told_by_name() -> None:
    two = pod("p", "8", 1)
    (one,) = two["spec"]["containers"]
    asks = {"cpu": "4", "memory": "1Gi"}
    two["spec"]["containers"] = [
        one,
        {"name": "a", "image": "i", "resources": {"limits": asks, "requests": asks}},
    ]
    found = notes(world(node({**GUIDE, "topologyManagerPolicy": "none"}), two), "p")
    assert [part.partition("=")[0] for part in found["cpus"].split(";")] == ["a", "c"]


def test_a_kubelet_that_starts_anew_knows_what_it_gave() -> None:
    """And has it back when the pod that it found goes."""
    before = world(node(GUIDE), pod("a", "24", 4, run="60s"))
    store = before.store.fork()
    twin = Twin(
        seed=1,
        latency=latency_named("zero"),
        components=standard_components(),
        start_us=store.now_us,
        store=store,
    )
    twin.run_for(SECOND_US)
    twin.apply([pod("b", "24", 4), pod("wide", "24", 4)])
    twin.run_for(SECOND_US)
    assert notes(twin, "b")["gpu-index"] == "4,5,6,7"
    assert fate(twin, "wide")[0] == "Failed"
    twin.run_for(60 * SECOND_US)
    twin.apply([pod("c", "24", 4)])
    twin.run_for(SECOND_US)
    assert notes(twin, "c")["gpu-index"] == "0,1,2,3"


def test_shared_containers_take_no_cpus_and_half_cores_are_refused() -> None:
    full = {**GUIDE, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}, "topologyManagerPolicy": "none"}
    twin = world(node(full), pod("burst", "500m"), pod("odd", "3"))
    assert "cpus" not in notes(twin, "burst")
    status = status_of(twin.store.get(Key("Pod", "default", "odd")) or {})
    assert (status["reason"], status["message"]) == (
        "SMTAlignmentError",
        "Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
    )


@pytest.mark.parametrize(
    ("configuration", "board", "cpu", "words"),
    [
        ("{", "p5", 192, "not JSON"),
        ("[]", "p5", 192, "expected a KubeletConfiguration"),
        (
            '{"topologyManagerPolicy": "closest"}',
            "p5",
            192,
            'topologyManagerPolicy: unknown policy: "closest"',
        ),
        ({"cpuManagerPolicy": "static"}, "p5", 192, "greater than zero"),
        (GUIDE, "p6", 192, "board: unknown board 'p6'"),
        (GUIDE, "dgx-a100", 250, "250 CPUs do not divide evenly over the 8 NUMA nodes of board dgx-a100"),
        ({**GUIDE, "reservedSystemCPUs": "0,500"}, "p5", 192, "CPUs 500 are none of the machine's 192"),
        (
            {**GUIDE, "cpuManagerPolicyOptions": {"x": "1"}},
            "p5",
            192,
            'unknown CPU Manager Policy option: "x"',
        ),
        ({"cpuManagerPolicyOptions": 3, "cpuManagerPolicy": "static"}, "p5", 192, "misshapen"),
        ("{" * 70_000, "p5", 192, "expected at most 65,536"),
        ("[" * 60_000, "p5", 192, "not JSON"),
    ],
)
def test_a_kubelet_that_would_not_start_says_why_and_manages_nothing(
    configuration: Any, board: str, cpu: int, words: str
) -> None:
    twin = world(node(configuration, board, cpu), pod("a", "4", 1))
    told = twin.host.events.about(Key("Node", "", "n"))
    assert [words in e.message for e in told if e.reason == "KubeletSetupFailed"] == [True]
    assert fate(twin, "a") == ("Running", "") and notes(twin, "a") == {}


def test_a_kubelet_that_is_set_up_otherwise_gives_out_otherwise() -> None:
    """As often as it is; what pods have stays theirs while the machine is the same."""
    twin = world(node(GUIDE), pod("a", "24", 4))
    key = Key("Node", "", "n")

    def set_up(configuration: dict[str, Any] | None, **labels: str) -> None:
        text = None if configuration is None else json.dumps(configuration)
        notes = {"fairway.dev/kubelet-configuration": text}
        twin.store.patch(key, {"metadata": {"annotations": notes, "labels": labels}})
        twin.wake()
        twin.run_for(SECOND_US)

    def let_in(name: str, cpus: str, gpus: int) -> tuple[str, dict[str, str]]:
        twin.apply([pod(name, cpus, gpus)])
        twin.run_for(SECOND_US)
        return fate(twin, name)[1], notes(twin, name)

    set_up({**GUIDE, "topologyManagerPolicy": "best-effort"})
    assert let_in("b", "24", 3) == (
        "",
        {"numa-nodes": "c=1", "cpus": "c=48-59,144-155", "gpu-index": "4,5,6"},
    )
    set_up(GUIDE, unrelated="x")
    assert let_in("refused", "100", 1)[0] == "TopologyAffinityError", "more than one NUMA node has"
    set_up({**GUIDE, "topologyManagerPolicy": "best-effort"})
    assert let_in("wide", "100", 1)[0] == ""
    set_up({**GUIDE, "reservedSystemCPUs": "0-7"})
    set_up(None)
    assert let_in("free", "8", 0) == ("", {})
