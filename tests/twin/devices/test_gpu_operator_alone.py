"""NVIDIA's GPU Operator without controllers and kubelets: what it makes, when it looks, and what it says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from test_gpu_operator import bare, config_map, namespace, policy

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.devices.gpuoperator import GpuOperator, _facts, _operand_of
from fairway.twin.latency import NONE
from fairway.twin.twin import EPOCH_US, Twin

NS, DAEMONSET = "gpu-operator", "DaemonSet.apps"
POLICY = Key("ClusterPolicy.nvidia.com", "", "cluster-policy")
OPERANDS = [
    "gpu-feature-discovery",
    "nvidia-container-toolkit-daemonset",
    "nvidia-dcgm-exporter",
    "nvidia-device-plugin-daemonset",
    "nvidia-device-plugin-mps-control-daemon",
    "nvidia-driver-daemonset",
    "nvidia-mig-manager",
    "nvidia-operator-validator",
]


def alone(*objects: Obj) -> Twin:
    twin = Twin(latency=NONE, components=[GpuOperator()], keep_records=1000)
    twin.apply([namespace(NS), *objects])
    return twin


def lines(twin: Twin) -> list[tuple[int, str, str]]:
    return [((r.time_us - EPOCH_US) // SECOND_US, r.name, r.reason) for r in twin.host.log.records()]


def sets(twin: Twin) -> list[str]:
    return [d["metadata"]["name"] for d in twin.store.objects(DAEMONSET)]


def settled(*objects: Obj) -> Twin:
    twin = alone(bare("gpu-1"), bare("gpu-2"), policy(), *objects)
    twin.run_for(60 * SECOND_US)
    return twin


def test_two_bare_nodes_are_labelled_and_everything_is_made() -> None:
    twin = alone(bare("gpu-1"), bare("gpu-2"), policy())
    assert [(at, n) for at in range(60) if (n := twin.run_for(SECOND_US))] == [(0, 4), (2, 7), (3, 5)]
    assert lines(twin) == [
        (3, "gpu-1", "nfd"),
        (3, "gpu-2", "nfd"),
        (4, "gpu-1", "labels"),
        (4, "gpu-2", "labels"),
    ]
    assert sets(twin) == OPERANDS
    labels = twin.store.require(Key("Node", "", "gpu-2"))["metadata"]["labels"]
    assert {k: v for k, v in labels.items() if not k.startswith("nvidia.com/gpu.deploy.")} == {
        "kubernetes.io/hostname": "gpu-2",
        "kubernetes.io/os": "linux",
        "feature.node.kubernetes.io/kernel-version.full": "6.8.0-71-generic",
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
        "nvidia.com/gpu.present": "true",
    }
    runtime = twin.store.require(Key("RuntimeClass.node.k8s.io", "", "nvidia"))
    assert runtime["handler"] == "nvidia"


def test_a_policy_is_ready_when_its_daemon_sets_are() -> None:
    twin = settled()
    message = "ClusterPolicy is ready as all resources have been successfully reconciled"
    then = "2026-01-05T00:00:00Z"
    assert twin.store.require(POLICY)["status"] == {
        "state": "ready",
        "namespace": NS,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Reconciled",
                "message": message,
                "lastTransitionTime": then,
            },
            {
                "type": "Error",
                "status": "False",
                "reason": "Reconciled",
                "lastTransitionTime": then,
            },
        ],
    }
    for name, desired, available in (
        ("nvidia-driver-daemonset", 2, 1),
        ("nvidia-device-plugin-daemonset", 2, 2),
        ("nvidia-dcgm-exporter", 2, 0),
        ("nvidia-mig-manager", 0, 0),
    ):
        twin.store.set_status(
            Key(DAEMONSET, NS, name), {"desiredNumberScheduled": desired, "numberAvailable": available}
        )
    twin.run_for(SECOND_US)
    status = twin.store.require(POLICY)["status"]
    ready, error = status["conditions"]
    assert (status["state"], ready["status"], error["status"]) == ("notReady", "False", "True")
    assert (ready["reason"], ready.get("message", "")) == ("OperandNotReady", "")
    states = "[state-driver state-dcgm-exporter]"
    assert error["message"] == f"ClusterPolicy is not ready; states not ready: {states}"


def test_an_operand_that_is_off_goes_and_one_of_somebody_else_stays() -> None:
    off = {"dcgmExporter": {"enabled": False}, "migManager": {"enabled": False, "config": {}}}
    own = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-mig-manager", "namespace": NS},
    }
    own["spec"] = {
        "selector": {"matchLabels": {"x": "y"}},
        "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": []}},
    }
    twin = alone(own, policy(**off))
    twin.run_for(SECOND_US)
    assert sets(twin) == [name for name in OPERANDS if name != "nvidia-dcgm-exporter"]
    twin = settled()
    twin.apply([policy(**off)])
    twin.run_for(SECOND_US)
    assert sets(twin) == [
        name for name in OPERANDS if name not in ("nvidia-dcgm-exporter", "nvidia-mig-manager")
    ]


def test_a_daemon_set_is_replaced_when_the_policy_means_another() -> None:
    twin = settled()
    key = Key(DAEMONSET, NS, "nvidia-driver-daemonset")
    twin.store.patch(key, {"metadata": {"annotations": {"own": "kept"}}})
    before = twin.store.require(key)
    twin.apply([policy(driver={"version": "999.1"})])
    twin.run_for(SECOND_US)
    after = twin.store.require(key)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["annotations"]["own"] == "kept"
    assert after["spec"] != before["spec"] and "999.1" in str(after["spec"])
    version = twin.store.version
    twin.store.patch(POLICY, {"metadata": {"labels": {"x": "y"}}})
    twin.run_for(SECOND_US)
    assert twin.store.version == version + 1, "the same is not written again"


@pytest.mark.parametrize(
    ("what", "looks"),
    [
        ("the policy", True),
        ("a node", True),
        ("a file of the policy's", True),
        ("another file", False),
        ("a daemon set", True),
        ("a pod of nobody's", False),
        ("a pod that waits", False),
    ],
)
def test_what_makes_it_look(what: str, looks: bool) -> None:
    twin = settled(config_map("cuts"))
    twin.apply([policy(migManager={"config": {"name": "cuts"}})])
    twin.run_for(60 * SECOND_US)
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
    }
    if what == "the policy":
        twin.store.patch(POLICY, {"metadata": {"labels": {"x": "y"}}})
    elif what == "a node":
        twin.store.patch(Key("Node", "", "gpu-1"), {"metadata": {"labels": {"x": "y"}}})
    elif what == "a file of the policy's":
        twin.store.patch(Key("ConfigMap", NS, "cuts"), {"data": {"x": "y"}})
    elif what == "another file":
        twin.apply([config_map("others")])
    elif what == "a daemon set":
        twin.store.patch(Key(DAEMONSET, NS, OPERANDS[0]), {"metadata": {"labels": {"x": "y"}}})
    else:
        spec = {"containers": [{"name": "c", "image": "i"}]} | (
            {"nodeName": "gpu-1"} if "nobody" in what else {}
        )
        twin.apply([{**pod, "spec": spec}])
    assert (twin.run_for(SECOND_US) > 1) is looks


def test_the_oldest_policy_counts() -> None:
    twin = settled()
    younger = policy(driver={"version": "999.1"})
    younger["metadata"]["name"] = "a-policy"
    twin.apply([younger])
    twin.run_for(60 * SECOND_US)
    assert "status" not in twin.store.require(Key(POLICY.gk, "", "a-policy"))
    assert "999.1" not in str(twin.store.require(Key(DAEMONSET, NS, "nvidia-driver-daemonset"))["spec"])


def test_without_a_policy_it_sleeps() -> None:
    twin = alone(bare("gpu-1"))
    twin.run_for(60 * SECOND_US)
    assert (lines(twin), sets(twin)) == ([], [])


def test_a_node_that_goes_is_forgotten_and_a_copy_goes_on() -> None:
    twin = alone(bare("gpu-1"), bare("gpu-2"), policy())
    assert twin.loop.run_some(twin.now_us, 1) == 1, "it has heard of them"
    copy = twin.fork()
    for one in (twin, copy):
        one.run_for(2 * SECOND_US)
    second = twin.fork()
    twin.store.delete(Key("Node", "", "gpu-2"))
    for one in (twin, copy, second):
        one.run_for(60 * SECOND_US)
    assert lines(copy)[-4:] == lines(second)[-4:]
    assert copy.digest() == second.digest()
    assert lines(twin) == [(3, "gpu-1", "nfd"), (4, "gpu-1", "labels")]
    twin.apply([bare("gpu-2")])
    twin.run_for(60 * SECOND_US)
    assert lines(twin)[2:] == [(65, "gpu-2", "nfd"), (66, "gpu-2", "labels")]


def _with(kind: str | None, app: str = "", image: str = "", *command: str) -> Obj:
    owners = [{"kind": kind, "name": "x", "controller": True}] if kind else []
    meta = {"name": "p", "namespace": NS, "labels": {"app": app} if app else {}, "ownerReferences": owners}
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"image": image, "command": list(command)}]},
    }


PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17"


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (_with("DaemonSet", "nvidia-driver-daemonset"), True),
        (_with("ReplicaSet", "nvidia-driver-daemonset"), False),
        (_with(None, "nvidia-driver-daemonset"), False),
        (_with("DaemonSet", "other"), False),
        (_with("DaemonSet", "", PLUGIN), True),
        (_with("ReplicaSet", "", PLUGIN), False),
        (_with("DaemonSet", "", "other"), False),
    ],
)
def test_operands_are_pods_of_daemon_sets(pod: Obj, want: bool) -> None:
    assert bool(_operand_of(pod)) is want


def test_what_a_plugin_deployed_by_hand_is_for() -> None:
    names = [(), ("gpu-feature-discovery",), ("mps-control-daemon",), ("nvidia-device-plugin",)]
    assert [_operand_of(_with("DaemonSet", "", PLUGIN, *words)) for words in names] == [
        *("devicePlugin", "gfd", "mps", "devicePlugin")
    ]


def test_a_pod_runs_when_one_of_its_containers_does() -> None:
    def facts(*states: str, init: tuple[str, ...] = (), ready: str = "False") -> tuple[str, bool, bool]:
        def statuses(words: tuple[str, ...]) -> list[Obj]:
            return [
                {"name": f"c{i}", "state": {word: {}, "waiting": {}} | {word: {"x": 1}}}
                for i, word in enumerate(words)
            ]

        conditions = [{"type": "Ready", "status": ready}, {"type": "Initialized", "status": "True"}]
        status = {"containerStatuses": statuses(states), "initContainerStatuses": statuses(init)}
        found = _facts({**_with("DaemonSet"), "status": {**status, "conditions": conditions}})
        return found.init, found.running, found.ready

    assert facts() == facts("terminated", "waiting") == ("", False, False)
    assert facts("terminated", "running") == facts("running", "terminated") == ("", True, False)
    assert facts("waiting", init=("terminated", "running", "running"), ready="True") == ("c1", False, True)
