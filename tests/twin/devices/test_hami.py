"""HAMi in a twin: nodes register their cards, pods get parts of them, and give them back."""

from __future__ import annotations

from fairway.catalog.drivers import gpu_uuid
from fairway.kube.objects import Key, Obj, annotations_of
from fairway.kube.timestamps import SECOND_US
from fairway.recorder.recorder import Recorder
from fairway.scenario.entering import create_or_replace
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

ALLOCATED = "hami.io/vgpu-devices-allocated"


def node(name: str, gpus: int) -> Obj:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "200", "nvidia.com/gpu": str(gpus)}
    labels = {"gpu": "on", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    status = {"allocatable": amounts, "capacity": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def plugin(*args: str) -> Obj:
    container = {"name": "device-plugin", "image": "hami", "args": list(args)}
    template = {
        "metadata": {"labels": {"app": "hami"}},
        "spec": {"nodeSelector": {"gpu": "on"}, "containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "hami-device-plugin", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": "hami"}}, "template": template},
    }


def pod(name: str, **limits: int) -> Obj:
    amounts = {f"nvidia.com/{n}": str(v) for n, v in limits.items()}
    container = {"name": "c", "image": "i", "resources": {"limits": amounts}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def a_twin(*objects: Obj) -> Twin:
    twin = Twin(seed=1, latency=NONE, components=[*standard_components(), Recorder()])
    put(twin, *objects)
    return twin


def put(twin: Twin, *objects: Obj) -> None:
    for obj in objects:
        create_or_replace(twin.host, obj)
    twin.wake()
    twin.run_for(5 * SECOND_US)


def where(twin: Twin, name: str) -> str:
    return str(twin.store.require(Key("Pod", "d", name))["spec"].get("nodeName", ""))


def offered(twin: Twin, name: str) -> str:
    return str(twin.store.require(Key("Node", "", name))["status"]["allocatable"]["nvidia.com/gpu"])


def test_more_cards_than_a_mask_has_bits() -> None:
    twin = a_twin(node("n", 40), plugin("--device-split-count=4"))
    assert offered(twin, "n") == "160"
    put(twin, *(pod(f"p{i}", gpu=1, gpumem=40_960, gpucores=50) for i in range(81)))
    placed = [i for i in range(81) if where(twin, f"p{i}")]
    assert placed == list(range(80))
    held = [
        annotations_of(p).get(ALLOCATED, "")
        for p in twin.store.objects("Pod")
        if p["metadata"]["namespace"] == "d"
    ]
    assert len({h.partition(",")[0] for h in held if h}) == 40


def test_what_a_pod_had_is_free_again() -> None:
    twin = a_twin(node("n", 1), plugin(), pod("a", gpu=1, gpumem=60_000))
    put(twin, pod("b", gpu=1, gpumem=60_000))
    assert (where(twin, "a"), where(twin, "b")) == ("n", "")
    fork = twin.fork()
    for one in (twin, fork):
        one.store.delete(Key("Pod", "d", "a"))
        one.wake()
        one.run_for(5 * SECOND_US)
        assert where(one, "b") == "n"
    assert twin.digest() == fork.digest()


def test_readings_count_what_was_given() -> None:
    twin = a_twin(
        node("n", 2), plugin(), pod("a", gpu=1, gpumem=20_480, gpucores=30), pod("b", gpu=1, gpumem=8_192)
    )
    recorder = twin.component("recorder")
    assert isinstance(recorder, Recorder)
    sizes = sorted(recorder.pods.interval_sizes[i][0] for i in range(2))
    assert sizes == [100, 300]
    devices = sorted(sort.devices for sort in recorder.pods.sorts if sort.devices)
    assert devices == [(("fairway.dev/gpu-milli", 100),), (("fairway.dev/gpu-milli", 300),)]
    (life,) = [n for n in recorder.nodes.lives if n.name == "n"]
    assert life.offers[-1].gpu == 2000
    assert life.devices == (("nvidia.com/gpu", 2),)


def test_without_hami_nothing_changes() -> None:
    twin = a_twin(node("n", 2), pod("a", gpu=1))
    assert (offered(twin, "n"), where(twin, "a")) == ("2", "n")
    assert twin.store.require(Key("Pod", "d", "a"))["spec"]["schedulerName"] == "default-scheduler"


def test_where_it_goes_nodes_offer_whole_cards_again() -> None:
    twin = a_twin(node("n", 2), plugin())
    assert offered(twin, "n") == "20"
    twin.store.delete(Key("DaemonSet.apps", "kube-system", "hami-device-plugin"))
    twin.wake()
    twin.run_for(5 * SECOND_US)
    assert offered(twin, "n") == "2"


def test_why_no_node_was_taken_is_said_by_reason() -> None:
    sick = node("a", 1)
    sick["metadata"]["annotations"] = {"fairway.dev/gpu-unhealthy": "0"}
    off = node("b", 1)
    off["metadata"]["labels"]["gpu"] = "off"
    twin = a_twin(node("d", 1), node("c", 2), sick, off, plugin())
    put(twin, pod("p", gpu=1, gpumem=90_000))
    said = [
        (e.type, e.message, e.component)
        for e in twin.host.events.about(Key("Pod", "d", "p"))
        if e.reason == "FilteringFailed"
    ]
    assert said == [
        ("Warning", "2 nodes CardInsufficientMemory(c,d)", "hami-scheduler"),
        ("Warning", "1 nodes CardNotHealth(a)", "hami-scheduler"),
        ("Warning", "no available node, 4 nodes do not meet", "hami-scheduler"),
    ]
    (condition,) = twin.store.require(Key("Pod", "d", "p"))["status"]["conditions"]
    assert condition["message"].startswith(
        "0/4 nodes are available: 1 1/1 CardInsufficientMemory, 1 1/1 CardNotHealth, "
        "1 2/2 CardInsufficientMemory, 1 node unregistered. "
    )


def test_what_is_written_on_a_pod_that_gets_a_card() -> None:
    twin = a_twin(node("n", 1), plugin(), pod("a", gpu=1, gpumem=20_480, gpucores=30))
    held = f"{gpu_uuid('n', 0)},NVIDIA,20480,30:;"
    assert annotations_of(twin.store.require(Key("Pod", "d", "a"))) == {
        "hami.io/vgpu-node": "n",
        "hami.io/vgpu-time": "1767571200",
        "hami.io/vgpu-devices-to-allocate": held,
        ALLOCATED: held,
        "hami.io/bind-phase": "success",
        "hami.io/bind-time": "1767571200",
    }


def test_a_pod_that_asks_for_no_card_goes_to_any_node() -> None:
    twin = a_twin(node("n", 1), plugin(), pod("a", gpu=0))
    assert where(twin, "a") == "n"
    assert sorted(annotations_of(twin.store.require(Key("Pod", "d", "a")))) == [
        "hami.io/bind-phase",
        "hami.io/bind-time",
    ]
