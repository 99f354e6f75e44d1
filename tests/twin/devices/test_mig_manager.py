"""MIG Manager on the loop: its states and their moments, what it waits for, and what it does while pods have GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.devices.checklist import checks
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

NS = "gpu-operator"
STATE, CONFIG = "nvidia.com/mig.config.state", "nvidia.com/mig.config"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"

CONFIGS = """
version: v1
mig-configs:
  both-7g: [{devices: all, mig-enabled: true, mig-devices: {"7g.80gb": 1}}]
  both-1g: [{devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 7}}]
  second-1g: [{devices: [1], mig-enabled: true, mig-devices: {"1g.10gb": 7}}]
  too-much: [{devices: all, mig-enabled: true, mig-devices: {"4g.40gb": 2}}]
"""


def node() -> Obj:
    meta = {
        "name": "gpu-1",
        "labels": {"kubernetes.io/hostname": "gpu-1", "kubernetes.io/os": "linux"},
        "annotations": {"fairway.dev/gpus": "2 NVIDIA-H100-80GB-HBM3"},
    }
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": capacity}}


def policy(**env: str) -> Obj:
    manager: dict[str, Any] = {"config": {"name": "mine", "default": ""}}
    if env:
        manager["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {"mig": {"strategy": "mixed"}, "migManager": manager},
    }


def of_kind(kind: str, name: str, namespace: str = "", **parts: Any) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **parts}


def pod(name: str, resource: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: "1"}}}
    found = of_kind("Pod", name, "default", spec={"containers": [container]})
    found["metadata"]["annotations"] = {"fairway.dev/run-time": "forever"}
    return found


def ready(config: str = "", **env: str) -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    configs = of_kind("ConfigMap", "mine", NS, data={"config.yaml": CONFIGS})
    twin.apply([of_kind("Namespace", "default"), of_kind("Namespace", NS), configs, node(), policy(**env)])
    twin.run_for(6 * 60 * SECOND_US)
    if config:
        label(twin, CONFIG, config)
        twin.run_for(120 * SECOND_US)
    return twin


def found(twin: Twin) -> Obj:
    obj = twin.store.get(Key("Node", "", "gpu-1"))
    assert obj is not None
    return obj


def label(twin: Twin, name: str, value: str | None) -> None:
    obj = found(twin)
    labels = {n: v for n, v in {**labels_of(obj), name: value}.items() if v is not None}
    twin.apply([{**obj, "metadata": {**obj["metadata"], "labels": labels}}])


def said(twin: Twin, name: str) -> str:
    return labels_of(found(twin)).get(name, "")


def layout(twin: Twin) -> str:
    return annotations_of(found(twin)).get("fairway.dev/gpu-layout", "")


def gpus(twin: Twin) -> dict[str, int]:
    free = status_of(found(twin))["allocatable"]
    return {
        n.removeprefix("nvidia.com/"): int(v)
        for n, v in free.items()
        if n.startswith("nvidia.com/") and v != "0"
    }


def told(twin: Twin) -> str:
    return "\n".join(e.message for e in twin.host.events.told() if e.reason.startswith("MIGConfig"))


def test_the_states_and_whom_it_pauses() -> None:
    twin = ready()
    label(twin, CONFIG, "both-1g")
    label(twin, "nvidia.com/gpu.deploy.dcgm-exporter", "false")
    states = []
    for _ in range(120):
        twin.run_for(SECOND_US)
        now = (said(twin, STATE), said(twin, PLUGIN), said(twin, "nvidia.com/gpu.deploy.nvsm"))
        if not states or states[-1] != now:
            states.append(now)
    paused = "paused-for-mig-change"
    assert states == [("", "true", ""), ("pending", paused, paused), ("success", "true", "true")]
    assert said(twin, "nvidia.com/gpu.deploy.dcgm-exporter") == "false", "what is off stays off"
    assert gpus(twin) == {"mig-1g.10gb": 14}


def test_a_card_whose_instances_stay_may_be_in_use() -> None:
    twin = ready("both-7g")
    twin.apply([pod("holder", "nvidia.com/mig-7g.80gb")])
    twin.run_for(10 * SECOND_US)
    assert annotations_of(twin.store.get(Key("Pod", "default", "holder")) or {})[
        "fairway.dev/gpu-instances"
    ].startswith("0/")
    label(twin, CONFIG, "second-1g")
    twin.run_for(120 * SECOND_US)
    assert said(twin, STATE) == "success"
    assert gpus(twin) == {"mig-1g.10gb": 7, "mig-7g.80gb": 1}
    holder = twin.store.get(Key("Pod", "default", "holder"))
    assert holder is not None and status_of(holder)["phase"] == "Running"


def test_while_pods_have_gpus_it_fails_at_once_and_does_not_wait() -> None:
    twin = ready()
    twin.apply([pod("holder", "nvidia.com/gpu")])
    twin.run_for(10 * SECOND_US)
    label(twin, CONFIG, "both-1g")
    twin.run_for(120 * SECOND_US)
    assert said(twin, STATE) == "failed" and said(twin, PLUGIN) == "true"
    assert "error resetting all GPUs (GPU 0: In use by another client)" in told(twin)
    assert "default/holder" in told(twin)
    # The free card has changed its mode nevertheless.
    assert layout(twin) == "1="
    twin.store.delete(Key("Pod", "default", "holder"))
    twin.run_for(300 * SECOND_US)
    assert said(twin, STATE) == "failed", "nothing is tried again by itself"
    label(twin, CONFIG, None)
    twin.run_for(10 * SECOND_US)
    label(twin, CONFIG, "both-1g")
    twin.run_for(120 * SECOND_US)
    assert gpus(twin) == {"mig-1g.10gb": 14}


def test_a_failure_after_a_success_leaves_the_clients_paused() -> None:
    """Upstream remembers in a variable of the process that clients were brought back, and does so no more."""
    twin = ready("both-7g")
    twin.apply([pod("holder", "nvidia.com/mig-7g.80gb")])
    twin.run_for(10 * SECOND_US)
    label(twin, CONFIG, "both-1g")
    twin.run_for(120 * SECOND_US)
    assert (said(twin, STATE), said(twin, PLUGIN)) == ("failed", "paused-for-mig-change")
    assert "In use by another client" in told(twin)
    label(twin, CONFIG, "both-7g")
    twin.run_for(120 * SECOND_US)
    assert (said(twin, STATE), said(twin, PLUGIN)) == ("success", "paused-for-mig-change")
    wrong = {c.name: c.found for c in checks(twin.store, found(twin)) if not c.holds}
    assert wrong["MIG Manager's clients"].startswith("client, dcgm, dcgm-exporter, device-plugin,")
    # A new pod of MIG Manager looks at the label anew and brings them back.
    manager = next(p for p in twin.store.objects("Pod", NS) if "mig-manager" in p["metadata"]["name"])
    twin.store.delete(Key("Pod", NS, manager["metadata"]["name"]))
    twin.run_for(60 * SECOND_US)
    assert (said(twin, STATE), said(twin, PLUGIN)) == ("success", "true")


def test_what_does_not_fit_leaves_the_card_empty() -> None:
    twin = ready("both-7g")
    label(twin, CONFIG, "too-much")
    twin.run_for(120 * SECOND_US)
    assert said(twin, STATE) == "failed" and "Insufficient Resources" in told(twin)
    assert layout(twin) == "0=;1=7g.80gb@0"


def test_what_is_set_meanwhile_is_next() -> None:
    twin = ready()
    label(twin, CONFIG, "both-7g")
    twin.run_for(10 * SECOND_US)
    assert said(twin, STATE) == "pending"
    label(twin, CONFIG, "both-1g")
    seen = []
    for _ in range(120):
        twin.run_for(SECOND_US)
        if layout(twin) and layout(twin) not in seen:
            seen.append(layout(twin))
    assert seen[0] == "0=7g.80gb@0;1=7g.80gb@0" and seen[-1].startswith("0=1g.10gb@0,")


def third_party() -> Obj:
    spec = {
        "nodeSelector": {"nvidia.com/gpu.deploy.client": "true"},
        "containers": [{"name": "c", "image": "i"}],
    }
    template = {
        "metadata": {"labels": {"app": "client"}, "annotations": {"fairway.dev/run-time": "forever"}},
        "spec": {**spec, "terminationGracePeriodSeconds": 0},
    }
    body = {"selector": {"matchLabels": {"app": "client"}}, "template": template}
    meta = {"name": "client", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": body}


def test_third_parties_clients_are_paused_with_the_others() -> None:
    twin = ready()
    twin.apply([third_party()])
    twin.run_for(20 * SECOND_US)
    assert len(twin.store.objects("Pod", "default")) == 1
    label(twin, CONFIG, "both-1g")
    twin.run_for(10 * SECOND_US)
    assert said(twin, "nvidia.com/gpu.deploy.client") == "paused-for-mig-change"
    assert not twin.store.objects("Pod", "default")
    twin.run_for(120 * SECOND_US)
    assert said(twin, STATE) == "success" and len(twin.store.objects("Pod", "default")) == 1


def test_a_client_that_does_not_go_leaves_it_pending() -> None:
    """Five minutes for each; then the run ends without a verdict, and nobody is brought back."""
    twin = ready()
    stuck = third_party()
    stuck["spec"]["template"]["metadata"]["finalizers"] = ["example.com/stays"]
    twin.apply([stuck])
    twin.run_for(20 * SECOND_US)
    label(twin, CONFIG, "both-1g")
    for client in twin.store.objects("Pod", "default"):
        body = {**client, "metadata": {**client["metadata"], "finalizers": ["example.com/stays"]}}
        twin.apply([body])
    twin.run_for(290 * SECOND_US)
    assert not told(twin)
    twin.run_for(60 * SECOND_US)
    assert "third-party gpu client pods did not shutdown: context deadline exceeded" in told(twin)
    assert (said(twin, STATE), said(twin, PLUGIN)) == ("pending", "paused-for-mig-change")


def test_with_reboot_the_machine_goes_down_for_a_mode_that_waits() -> None:
    twin = ready("", WITH_REBOOT="true")
    twin.apply([pod("holder", "nvidia.com/gpu")])
    twin.run_for(10 * SECOND_US)
    label(twin, CONFIG, "both-1g")
    twin.run_for(60 * SECOND_US)
    assert said(twin, STATE) == "rebooting"
    # Minutes without a word from its kubelet.
    twin.run_for(60 * SECOND_US)
    conditions = twin.store.objects("Node")[0]["status"]["conditions"]
    assert [c["status"] for c in conditions if c["type"] == "Ready"] == ["Unknown"]
    twin.run_for(600 * SECOND_US)
    assert said(twin, STATE) == "success"
    assert layout(twin).startswith("0=1g.10gb@0,")


@pytest.mark.parametrize(("env", "wants"), [({}, 27), ({"WITH_SHUTDOWN_HOST_GPU_CLIENTS": "true"}, 57)])
def test_services_of_the_host_take_thirty_seconds_more(env: dict[str, str], wants: int) -> None:
    twin = ready("", **env)
    label(twin, CONFIG, "both-1g")
    seconds = 0
    while said(twin, STATE) != "success" and seconds < 200:
        twin.run_for(SECOND_US)
        seconds += 1
    assert wants <= seconds <= wants + 10


def test_mode_only_changes_no_instances() -> None:
    twin = ready("both-1g", MIG_PARTED_MODE_CHANGE_ONLY="true")
    assert said(twin, STATE) == "success" and layout(twin) == "0=;1="
