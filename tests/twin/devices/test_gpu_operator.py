"""The GPU Operator on simulated nodes: from bare machines to allocatable GPUs, MIG, sharing, and what can fail."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Key, Obj, annotations_of, labels_of, spec_of, status_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

POLICY = Key("ClusterPolicy.nvidia.com", "", "cluster-policy")
NS = "gpu-operator"


def bare(
    name: str = "gpu-1", count: int = 2, product: str = "NVIDIA-H100-80GB-HBM3", **annotations: str
) -> Obj:
    meta = {
        "name": name,
        "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        "annotations": {"fairway.dev/gpus": f"{count} {product}", **annotations},
    }
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": capacity}}


def policy(strategy: str = "single", **spec: Any) -> Obj:
    body = {"mig": {"strategy": strategy}, "migManager": {"config": {"default": "all-disabled"}}, **spec}
    meta = {"name": "cluster-policy"}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": meta, "spec": body}


def config_map(name: str, **data: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NS},
        "data": data,
    }


def namespace(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def job(name: str, resource: str = "nvidia.com/gpu", count: int = 1) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: str(count)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"fairway.dev/run-time": "forever"},
        },
        "spec": {"containers": [container]},
    }


def world(*objects: Obj) -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    twin.apply([namespace("default"), namespace(NS), *objects])
    return twin


def node_of(twin: Twin, name: str = "gpu-1") -> Obj:
    found = twin.store.get(Key("Node", "", name))
    assert found is not None
    return found


def gpus(twin: Twin, name: str = "gpu-1", of: str = "allocatable") -> dict[str, str]:
    return {n: v for n, v in status_of(node_of(twin, name))[of].items() if n.startswith("nvidia.com/")}


def label(twin: Twin, name: str, value: str, node: str = "gpu-1") -> None:
    obj = node_of(twin, node)
    meta = {**obj["metadata"], "labels": {**labels_of(obj), name: value}}
    twin.apply([{**obj, "metadata": meta}])


def annotate(twin: Twin, name: str, value: str, node: str = "gpu-1") -> None:
    obj = node_of(twin, node)
    twin.apply(
        [{**obj, "metadata": {**obj["metadata"], "annotations": {**annotations_of(obj), name: value}}}]
    )


def pods(twin: Twin) -> dict[str, Obj]:
    """Operands' pods by their DaemonSet."""
    return {p["metadata"]["ownerReferences"][0]["name"]: p for p in twin.store.objects("Pod", NS)}


def told(twin: Twin, reason: str) -> list[str]:
    return [e.message for e in twin.host.events.told() if e.reason == reason]


def test_a_bare_node_gets_its_gpus_step_by_step() -> None:
    twin = world(bare(), policy())
    twin.run_for(60 * SECOND_US)
    assert gpus(twin) == {}
    waiting = pods(twin)["nvidia-device-plugin-daemonset"]
    assert status_of(waiting)["phase"] == "Pending"
    assert "running" in status_of(waiting)["initContainerStatuses"][0]["state"]
    status = status_of(twin.store.get(POLICY) or {})
    assert status["state"] == "notReady"
    assert "state-driver" in next(c["message"] for c in status["conditions"] if c["type"] == "Error")
    twin.run_for(5 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "2"}
    labels = labels_of(node_of(twin))
    assert labels["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert labels["nvidia.com/gpu.present"] == "true"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert (
        labels["nvidia.com/mig.config"] == "all-disabled"
        and labels["nvidia.com/mig.config.state"] == "success"
    )
    assert status_of(twin.store.get(POLICY) or {})["state"] == "ready"
    assert all(status_of(p)["phase"] == "Running" for p in pods(twin).values())


def test_clusters_without_a_policy_stay_as_they_are() -> None:
    """Nothing is watched but policies and DaemonSets, and no event is spent."""
    twin = world(bare())
    twin.run_for(MINUTE_US)
    assert gpus(twin) == {}
    operator = twin.component("gpu-operator")
    assert operator.kinds == ("ClusterPolicy.nvidia.com", "DaemonSet.apps")
    label(twin, "nvidia.com/mig.config", "all-1g.10gb")
    twin.run_for(MINUTE_US)
    assert "nvidia.com/mig.config.state" not in labels_of(node_of(twin))


def ready(*objects: Obj, strategy: str = "single", **spec: Any) -> Twin:
    twin = world(*(objects or (bare(),)), policy(strategy, **spec))
    twin.run_for(6 * MINUTE_US)
    return twin


def test_mig_manager_cuts_the_cards_that_its_label_says() -> None:
    twin = ready()
    label(twin, "nvidia.com/mig.config", "all-1g.10gb")
    states = []
    for _ in range(120):
        twin.run_for(SECOND_US)
        state = labels_of(node_of(twin))["nvidia.com/mig.config.state"]
        paused = labels_of(node_of(twin))["nvidia.com/gpu.deploy.device-plugin"]
        if [(state, paused)] != states[-1:]:
            states.append((state, paused))
    assert states == [("success", "true"), ("pending", "paused-for-mig-change"), ("success", "true")]
    assert gpus(twin) == {"nvidia.com/gpu": "14"}
    labels = labels_of(node_of(twin))
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    assert labels["nvidia.com/gpu.memory"] == "9856"
    label(twin, "nvidia.com/mig.config", "all-disabled")
    twin.run_for(2 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "2"}
    assert "nvidia.com/gpu.slices.gi" not in labels_of(node_of(twin))


def test_the_mixed_strategy_names_instances() -> None:
    twin = ready(strategy="mixed")
    label(twin, "nvidia.com/mig.config", "all-balanced")
    twin.run_for(2 * MINUTE_US)
    want = {
        "nvidia.com/gpu": "0",
        "nvidia.com/mig-1g.10gb": "4",
        "nvidia.com/mig-2g.20gb": "2",
        "nvidia.com/mig-3g.40gb": "2",
    }
    assert gpus(twin) == want
    twin.apply([job("small", "nvidia.com/mig-1g.10gb")])
    twin.run_for(10 * SECOND_US)
    assert status_of(twin.store.get(Key("Pod", "default", "small")) or {})["phase"] == "Running"


def notes(twin: Twin, name: str) -> dict[str, str]:
    return annotations_of(twin.store.get(Key("Pod", "default", name)) or {})


def test_pods_are_told_their_devices_and_give_them_back() -> None:
    twin = ready(strategy="mixed")
    label(twin, "nvidia.com/mig.config", "all-3g.40gb")
    twin.run_for(2 * MINUTE_US)
    for i in range(5):
        twin.apply([job(f"p{i}", "nvidia.com/mig-3g.40gb")])
        twin.run_for(2 * SECOND_US)
    given = [notes(twin, f"p{i}").get("fairway.dev/gpu-instances") for i in range(5)]
    assert given == ["0/3g.40gb@0", "0/3g.40gb@4", "1/3g.40gb@0", "1/3g.40gb@4", None]
    twin.store.delete(Key("Pod", "default", "p1"))
    twin.run_for(5 * SECOND_US)
    assert notes(twin, "p4")["fairway.dev/gpu-instances"] == "0/3g.40gb@4"


def test_shares_go_to_the_card_that_fewest_have() -> None:
    twin = ready(
        bare(),
        config_map("plugin", any=SLICED),
        devicePlugin={"config": {"name": "plugin", "default": "any"}},
    )
    for i in range(4):
        twin.apply([job(f"p{i}")])
        twin.run_for(2 * SECOND_US)
    assert [notes(twin, f"p{i}")["fairway.dev/gpu-index"] for i in range(4)] == ["0", "1", "0", "1"]


def hungry(name: str, memory: str) -> Obj:
    pod = job(name)
    pod["metadata"]["annotations"]["fairway.dev/gpu-memory"] = memory
    pod["spec"]["restartPolicy"] = "Never"
    return pod


def ended(twin: Twin, name: str) -> str:
    return str(status_of(twin.store.get(Key("Pod", "default", name)) or {})["phase"])


def test_memory_of_a_card_that_is_shared_in_turns_goes_to_who_comes_first() -> None:
    plugin = {"config": {"name": "plugin", "default": "any"}}
    twin = ready(bare(count=1), config_map("plugin", any=SLICED), devicePlugin=plugin)
    for name, memory in (("a", "40Gi"), ("b", "30Gi"), ("c", "20Gi")):
        twin.apply([hungry(name, memory)])
        twin.run_for(10 * SECOND_US)
    assert [ended(twin, name) for name in "abc"] == ["Running", "Running", "Failed"]


def test_an_mps_client_has_its_part_of_the_memory() -> None:
    text = "{version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}}"
    plugin = {"config": {"name": "plugin", "default": "any"}}
    twin = ready(bare(count=1), config_map("plugin", any=text), devicePlugin=plugin)
    twin.apply([hungry("a", "7Gi"), hungry("b", "9Gi")])
    twin.run_for(10 * SECOND_US)
    assert (ended(twin, "a"), ended(twin, "b")) == ("Running", "Failed")


CUSTOM = """
version: v1
mig-configs:
  half:
  - {devices: [0], mig-enabled: true, mig-devices: {"3g.40gb": 2}}
  - {devices: [1], mig-enabled: false}
  wrong:
  - {devices: all, mig-enabled: true, mig-devices: {"4g.40gb": 2}}
"""


def test_custom_configurations_and_what_is_wrong_with_some() -> None:
    twin = ready(
        bare(),
        config_map("mine", **{"config.yaml": CUSTOM}),
        strategy="mixed",
        migManager={"config": {"name": "mine", "default": ""}},
    )
    label(twin, "nvidia.com/mig.config", "half")
    twin.run_for(2 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "1", "nvidia.com/mig-3g.40gb": "2"}
    for name, said in (
        ("wrong", "Insufficient Resources"),
        ("all-1g.10gb", "selected mig-config not present"),
    ):
        label(twin, "nvidia.com/mig.config", name)
        twin.run_for(2 * MINUTE_US)
        assert labels_of(node_of(twin))["nvidia.com/mig.config.state"] == "failed"
        assert any(said in m for m in told(twin, "MIGConfigFailed"))


SLICED = "{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}}"


def test_time_slicing_by_default_and_by_a_nodes_label() -> None:
    files = {"any": SLICED, "ten": SLICED.replace("4}", "10}"), "bad": "{sharing: {timeSlicing: {}}}"}
    twin = ready(
        bare(),
        bare("gpu-2"),
        config_map("plugin", **files),
        devicePlugin={"config": {"name": "plugin", "default": "any"}},
    )
    assert gpus(twin) == {"nvidia.com/gpu": "8"}
    assert labels_of(node_of(twin))["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-SHARED"
    label(twin, "nvidia.com/device-plugin.config", "ten")
    twin.run_for(MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "20"} and gpus(twin, "gpu-2") == {"nvidia.com/gpu": "8"}
    label(twin, "nvidia.com/device-plugin.config", "bad", "gpu-2")
    twin.run_for(MINUTE_US)
    assert any("no resources specified" in m for m in told(twin, "Failed"))
    crashed = [p for p in twin.store.objects("Pod", NS) if p["spec"].get("nodeName") == "gpu-2"]
    assert any(s["restartCount"] for p in crashed for s in status_of(p)["containerStatuses"])
    assert gpus(twin, "gpu-2", "capacity") == {"nvidia.com/gpu": "8"}


def test_mig_under_time_slicing_is_seven_times_four() -> None:
    twin = ready(
        bare(count=1),
        config_map("plugin", any=SLICED),
        devicePlugin={"config": {"name": "plugin", "default": "any"}},
    )
    label(twin, "nvidia.com/mig.config", "all-1g.10gb")
    twin.run_for(2 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "28"}


def test_mps_comes_with_its_daemon_and_one_device_a_container() -> None:
    text = "{version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}}"
    twin = ready(
        bare(), config_map("plugin", any=text), devicePlugin={"config": {"name": "plugin", "default": "any"}}
    )
    assert gpus(twin) == {"nvidia.com/gpu": "20"}
    assert "nvidia-device-plugin-mps-control-daemon" in pods(twin)
    assert labels_of(node_of(twin))["nvidia.com/mps.capable"] == "true"
    twin.apply([job("one"), job("two", count=2)])
    twin.run_for(10 * SECOND_US)
    assert status_of(twin.store.get(Key("Pod", "default", "one")) or {})["phase"] == "Running"
    refused = status_of(twin.store.get(Key("Pod", "default", "two")) or {})
    assert refused["phase"] == "Failed" and refused["reason"] == "UnexpectedAdmissionError"
    assert "maximum request size for shared resources is 1" in refused["message"]


@pytest.mark.parametrize(
    ("fault", "daemonset", "phase"),
    [
        ("driver-failed", "nvidia-driver-daemonset", "CrashLoopBackOff"),
        ("toolkit-failed", "nvidia-container-toolkit-daemonset", "CrashLoopBackOff"),
        ("plugin-crash", "nvidia-device-plugin-daemonset", "CrashLoopBackOff"),
        ("plugin-unregistered", "nvidia-device-plugin-daemonset", ""),
    ],
)
def test_each_step_can_fail_and_then_there_are_no_gpus(fault: str, daemonset: str, phase: str) -> None:
    twin = world(bare(**{"fairway.dev/gpu-fault": fault}), policy())
    twin.run_for(10 * MINUTE_US)
    assert gpus(twin) == {}
    state = status_of(pods(twin)[daemonset])["containerStatuses"][0]
    assert not phase or state["restartCount"] > 1
    twin.apply([job("waits")])
    twin.run_for(10 * SECOND_US)
    assert status_of(twin.store.get(Key("Pod", "default", "waits")) or {})["phase"] == "Pending"
    annotate(twin, "fairway.dev/gpu-fault", "")
    twin.run_for(15 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "2"}


def test_a_plugin_that_crashes_later_leaves_devices_that_nobody_gets() -> None:
    twin = ready()
    annotate(twin, "fairway.dev/gpu-fault", "plugin-crash")
    twin.run_for(20 * SECOND_US)
    assert gpus(twin) == {"nvidia.com/gpu": "0"} and gpus(twin, of="capacity") == {"nvidia.com/gpu": "2"}


PLUGIN: Obj = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"name": "nvidia-device-plugin-ds"}},
        "template": {
            "metadata": {"labels": {"name": "nvidia-device-plugin-ds"}},
            "spec": {
                "containers": [
                    {
                        "name": "nvidia-device-plugin-ctr",
                        "image": "nvcr.io/nvidia/k8s-device-plugin:latest",
                        "args": ["--mig-strategy=mixed"],
                    }
                ]
            },
        },
    },
}


def test_a_device_plugin_that_somebody_deploys_himself() -> None:
    cut = "0=3g.40gb@0,3g.40gb@4"
    twin = world(bare(**{"fairway.dev/gpu-layout": cut}), namespace("kube-system"), PLUGIN)
    twin.run_for(MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "1", "nvidia.com/mig-3g.40gb": "2"}
    twin.store.delete(Key("DaemonSet.apps", "kube-system", "nvidia-device-plugin-daemonset"))
    twin.run_for(2 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "0"}
    assert gpus(twin, of="capacity") == {"nvidia.com/gpu": "1", "nvidia.com/mig-3g.40gb": "2"}
    twin.run_for(10 * MINUTE_US)
    assert set(gpus(twin, of="capacity").values()) == {"0"}


def plugin(**container: Any) -> Obj:
    """A device plugin of one's own, as NVIDIA's static manifest has it: no command, no arguments."""
    own = {"name": "ctr", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", **container}
    template = {**PLUGIN["spec"]["template"], "spec": {"containers": [own]}}
    return {**PLUGIN, "spec": {**PLUGIN["spec"], "template": template}}


@pytest.mark.parametrize(
    ("container", "mixed"),
    [
        ({}, False),
        ({"env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}]}, False),
        ({"args": ["--mig-strategy=mixed"]}, True),
        ({"args": ["--mig-strategy", "mixed"]}, True),
        (
            {"command": ["nvidia-device-plugin", "--mig-strategy"], "args": ["mixed", "--pass-device-specs"]},
            True,
        ),
        ({"command": ["nvidia-device-plugin"], "args": ["--mig-strategy"]}, False),
        ({"args": ["--mig-strategy=none", "mixed"]}, False),
        ({"env": [{"name": "MIG_STRATEGY", "value": "mixed"}]}, True),
        ({"env": [{"name": "MIG_STRATEGY"}, {"value": "mixed"}]}, False),
        ({"env": [{"name": "MIG_STRATEGY", "value": "mixed"}], "args": ["--mig-strategy=none"]}, False),
        ({"image": "registry.example/my-nvidia-device-plugin:1", "args": ["--mig-strategy=mixed"]}, True),
    ],
)
def test_how_a_plugin_of_ones_own_is_told_its_strategy(container: dict[str, Any], mixed: bool) -> None:
    """By a flag, joined or not, before the environment; without either it knows whole cards alone."""
    cut = "0=3g.40gb@0,3g.40gb@4"
    twin = world(bare(**{"fairway.dev/gpu-layout": cut}), namespace("kube-system"), plugin(**container))
    twin.run_for(MINUTE_US)
    cards, instances = ("1", {"nvidia.com/mig-3g.40gb": "2"}) if mixed else ("2", {})
    assert gpus(twin) == {"nvidia.com/gpu": cards, **instances}


@pytest.mark.parametrize(
    ("container", "gives"),
    [
        ({"args": ["gpu-feature-discovery"]}, False),
        ({"command": ["mps-control-daemon"]}, False),
        ({"image": "registry.example/other:1"}, False),
        ({}, True),
    ],
)
def test_which_containers_give_devices(container: dict[str, Any], gives: bool) -> None:
    """Of one image the plugin, feature discovery and the MPS daemon are started by different commands."""
    twin = world(bare(), namespace("kube-system"), plugin(**container))
    twin.run_for(MINUTE_US)
    assert gpus(twin) == ({"nvidia.com/gpu": "2"} if gives else {})


def test_a_copy_goes_on_as_the_original() -> None:
    twin = world(bare(), policy())
    twin.run_for(100 * SECOND_US)
    copy = twin.fork()
    for one in (twin, copy):
        one.run_for(6 * MINUTE_US)
    assert twin.digest() == copy.digest() and gpus(copy) == {"nvidia.com/gpu": "2"}


def test_operands_are_where_the_chart_is_once_it_runs() -> None:
    """The Operator deploys into its own namespace, not into the one that most give it; before it runs, nothing."""
    labels = {"app": "gpu-operator"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    chart = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpu-operator", "namespace": "nvidia"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    twin = world(bare(), policy(), namespace("nvidia"), chart)
    twin.run_for(5 * MINUTE_US)
    assert not list(twin.store.objects("DaemonSet.apps")) and gpus(twin) == {}
    twin.store.patch(Key("Deployment.apps", "nvidia", "gpu-operator"), {"spec": {"replicas": 1}})
    twin.wake()
    twin.run_for(MINUTE_US)
    assert {d["metadata"]["namespace"] for d in twin.store.objects("DaemonSet.apps")} == {"nvidia"}
    found = twin.store.get(POLICY)
    assert found is not None and status_of(found)["namespace"] == "nvidia"
    # Without somebody's Node Feature Discovery nobody labels nodes: the chart's own is not here.
    twin.run_for(5 * MINUTE_US)
    assert gpus(twin) == {}


def test_a_policy_in_any_shape_stops_nothing() -> None:
    twin = world(bare(), policy(devicePlugin="yes", driver=None, migManager=[1], validator={"version": 7}))
    twin.run_for(6 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "2"}


def test_a_new_driver_reaches_one_node_after_the_other() -> None:
    """helm upgrade --set driver.version: cordon, GPU pods away, the driver's pod anew, open again."""

    def driver(version: str) -> Any:
        return {"version": version, "upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1}}

    twin = ready(bare(), bare("gpu-2"), driver=driver("580.82.07"))
    twin.apply([job("a"), job("b"), job("c"), job("d")])
    twin.run_for(10 * SECOND_US)
    twin.apply([policy(driver=driver("590.10.01"))])
    seen: list[frozenset[str]] = []
    for _ in range(240):
        twin.run_for(5 * SECOND_US)
        closed = frozenset(n for n in ("gpu-1", "gpu-2") if spec_of(node_of(twin, n)).get("unschedulable"))
        if seen[-1:] != [closed]:
            seen.append(closed)
    assert [c for c in seen if c] in (
        [frozenset({"gpu-1"}), frozenset({"gpu-2"})],
        [frozenset({"gpu-2"}), frozenset({"gpu-1"})],
    )
    for name in ("gpu-1", "gpu-2"):
        labels = labels_of(node_of(twin, name))
        assert labels["nvidia.com/gpu-driver-upgrade-state"] == "upgrade-done"
        assert labels["nvidia.com/cuda.driver-version.full"] == "590.10.01"
        assert gpus(twin, name) == {"nvidia.com/gpu": "2"}
    drivers = [p for p in twin.store.objects("Pod", NS) if "driver-daemonset" in p["metadata"]["name"]]
    images = {p["spec"]["containers"][0]["image"] for p in drivers}
    assert images == {"nvcr.io/nvidia/driver:590.10.01-ubuntu24.04"}
    assert twin.store.get(Key("Pod", "default", "a")) is None


def _events(twin: Twin, pod: str) -> list[tuple[str, str]]:
    return [
        (e.reason, e.message)
        for e in twin.host.events.about(Key("Pod", "default", pod))
        if e.type == "Warning"
    ]


def test_a_runtime_without_the_handler_keeps_pods_in_container_creating() -> None:
    twin = ready()
    annotate(twin, "fairway.dev/gpu-fault", "runtime-class")
    asks = job("asks")
    asks["spec"]["runtimeClassName"] = "nvidia"
    twin.apply([asks, job("plain")])
    twin.run_for(30 * SECOND_US)
    status = status_of(twin.store.get(Key("Pod", "default", "asks")) or {})
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    reason, message = _events(twin, "asks")[0]
    assert reason == "FailedCreatePodSandBox"
    assert message.endswith('failed to get sandbox runtime: no runtime for "nvidia" is configured')
    assert status_of(twin.store.get(Key("Pod", "default", "plain")) or {})["phase"] == "Running"
    annotate(twin, "fairway.dev/gpu-fault", "")
    twin.run_for(15 * SECOND_US)
    assert status_of(twin.store.get(Key("Pod", "default", "asks")) or {})["phase"] == "Running"


def test_without_the_runtime_class_who_names_it_is_refused() -> None:
    broken = policy()
    broken["metadata"]["annotations"] = {"fairway.dev/gpu-fault": "runtime-class"}
    twin = world(bare(), broken)
    twin.run_for(5 * MINUTE_US)
    assert gpus(twin) == {}
    said = [e.message for e in twin.host.events.told() if e.reason == "FailedCreate"]
    assert any('pod rejected: RuntimeClass "nvidia" not found' in message for message in said)


def test_a_driver_that_is_too_old_ends_containers_of_newer_images() -> None:
    twin = world(bare(**{"fairway.dev/gpu-fault": "driver-version"}), policy())
    twin.run_for(10 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "2"}
    assert labels_of(node_of(twin))["nvidia.com/cuda.driver-version.full"] == "470.256.02"
    old, new = job("old"), job("new")
    old["spec"]["containers"][0]["image"] = "nvidia/cuda:11.2.2-base-ubuntu20.04"
    new["spec"]["containers"][0]["image"] = "nvidia/cuda:12.4.1-base-ubuntu22.04"
    twin.apply([old, new])
    twin.run_for(30 * SECOND_US)
    assert status_of(twin.store.get(Key("Pod", "default", "old")) or {})["phase"] == "Running"
    found = status_of(twin.store.get(Key("Pod", "default", "new")) or {})["containerStatuses"][0]
    assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    ended = found["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert "unsatisfied condition: cuda>=12.4, please update your driver" in ended["message"]


def test_a_plugin_of_ones_own_goes_by_the_config_map_it_mounts() -> None:
    config = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
    mounted = {**PLUGIN, "spec": {**PLUGIN["spec"], "template": {**PLUGIN["spec"]["template"]}}}
    spec = {**spec_of(PLUGIN["spec"]["template"])}
    spec["volumes"] = [
        {"name": "other", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "shares"}},
    ]
    mounted["spec"]["template"]["spec"] = spec
    shares = config_map("shares", **{"config.yaml": config})
    shares["metadata"]["namespace"] = "kube-system"
    twin = world(bare(), namespace("kube-system"), shares, mounted)
    twin.run_for(2 * MINUTE_US)
    assert gpus(twin) == {"nvidia.com/gpu": "8"}


def test_an_operand_that_is_switched_off_goes() -> None:
    twin = ready()
    name = Key("DaemonSet.apps", NS, "nvidia-dcgm-exporter")
    assert twin.store.get(name) is not None
    twin.store.patch(POLICY, {"spec": {"dcgmExporter": {"enabled": False}}})
    twin.wake()
    twin.run_for(MINUTE_US)
    assert twin.store.get(name) is None
    assert "nvidia-dcgm-exporter" not in pods(twin)
    twin.store.patch(POLICY, {"spec": {"dcgmExporter": {"enabled": True}}})
    twin.wake()
    twin.run_for(2 * MINUTE_US)
    assert status_of(pods(twin)["nvidia-dcgm-exporter"])["phase"] == "Running"


def test_a_node_that_goes_and_comes_again_is_made_ready_anew() -> None:
    twin = ready(bare(), bare("gpu-2"))
    assert gpus(twin, "gpu-2") == {"nvidia.com/gpu": "2"}
    twin.store.delete(Key("Node", "", "gpu-2"))
    twin.wake()
    twin.run_for(MINUTE_US)
    twin.apply([bare("gpu-2", count=4)])
    twin.run_for(30 * SECOND_US)
    assert gpus(twin, "gpu-2") == {}
    twin.run_for(6 * MINUTE_US)
    assert gpus(twin, "gpu-2") == {"nvidia.com/gpu": "4"}
    assert gpus(twin, "gpu-1") == {"nvidia.com/gpu": "2"}
