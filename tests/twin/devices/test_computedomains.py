"""ComputeDomains of NVL72 racks: daemons, cliques, status, what a pod waits for, what training gains, and the end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube import computedomains as words
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_rfc3339
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

V1 = "resource.k8s.io/v1"
RACK = "6ec3fc8e-9dc1-4d1b-9d35-a6d9dc4e0c11"


def device_class(name: str, kind: str) -> Obj:
    chosen = f"device.driver == '{words.DRIVER}' && device.attributes['{words.DRIVER}'].type == '{kind}'"
    spec = {"selectors": [{"cel": {"expression": chosen}}]}
    return {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


CLASSES = [device_class(words.DAEMON_CLASS, "daemon"), device_class(words.CHANNEL_CLASS, "channel")]


def tray(name: str, clique: str = f"{RACK}.1") -> Obj:
    labels = {"nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.count": "4"}
    if clique:
        labels[words.GPU_CLIQUE] = clique
    amounts = {"cpu": "144", "memory": "800Gi", "pods": "110", "nvidia.com/gpu": "4"}
    amounts["rdma/ib"] = "4"
    meta = {"name": name, "labels": labels, "annotations": {"fairway.dev/board": "gb200-tray"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": amounts}}


def domain(name: str = "rack", nodes: int = 0, namespace: str = "default", **channel: Any) -> Obj:
    spec = {"numNodes": nodes, "channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}, **channel}}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": words.API_VERSION, "kind": "ComputeDomain", "metadata": meta, "spec": spec}


def worker(name: str, claim: str = "rack-channel", **annotations: str) -> Obj:
    resources = {"limits": {"cpu": "1", "nvidia.com/gpu": "4", "rdma/ib": "4"}}
    container = {"name": "main", "image": "nccl", "resources": {**resources, "claims": [{"name": "channel"}]}}
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "channel", "resourceClaimTemplateName": claim}],
    }
    annotations = {"fairway.dev/run-time": "100h", **annotations}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def a_twin(*objects: Obj) -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    settle(twin, *CLASSES, *objects)
    return twin


def settle(twin: Twin, *objects: Obj, seconds: int = 60) -> None:
    twin.apply(list(objects))
    twin.run_for(seconds * SECOND_US)


def the_domain(twin: Twin, name: str = "rack") -> Obj:
    return twin.store.require(Key(words.DOMAIN, "default", name))


def phases(twin: Twin) -> dict[str, str]:
    return {p["metadata"]["name"]: p["status"]["phase"] for p in twin.store.objects("Pod", "default")}


def said(twin: Twin, reason: str) -> list[str]:
    told = twin.host.events.about(Key("Pod", "default", "w0"))
    return [t.message for t in told if t.reason == reason]


def test_a_domain_follows_its_workload() -> None:
    twin = a_twin(tray("a"), tray("b"), domain())
    uid = the_domain(twin)["metadata"]["uid"]
    templates = twin.store.objects("ResourceClaimTemplate.resource.k8s.io")
    assert [(t["metadata"]["namespace"], t["metadata"]["name"]) for t in templates] == [
        ("default", "rack-channel"),
        (words.NAMESPACE, f"computedomain-daemon-{uid}"),
    ]
    # Nobody uses it: no daemon runs, and none is awaited.
    assert twin.store.objects("Pod") == []
    assert the_domain(twin)["status"] == {"status": "Ready"}
    settle(twin, worker("w0"), worker("w1"))
    assert phases(twin) == {"w0": "Running", "w1": "Running"}
    nodes = the_domain(twin)["status"]["nodes"]
    assert sorted((n["name"], n["cliqueID"], n["status"]) for n in nodes) == [
        ("a", f"{RACK}.1", "Ready"),
        ("b", f"{RACK}.1", "Ready"),
    ]
    assert sorted(n["index"] for n in nodes) == [0, 1]
    (clique,) = twin.store.objects(words.CLIQUE)
    assert clique["metadata"]["name"] == f"{uid}.{RACK}.1"
    assert {n["metadata"]["labels"].get(words.LABEL) for n in twin.store.objects("Node")} == {uid}


@pytest.mark.parametrize(("said", "mode"), [({}, "Single"), ({"allocationMode": "All"}, "All")])
def test_the_templates_that_a_domain_makes(said: dict[str, str], mode: str) -> None:
    twin = a_twin(tray("a"), domain(**said))
    uid = the_domain(twin)["metadata"]["uid"]
    made = {
        t["metadata"]["labels"][words.TARGET_LABEL]: t
        for t in twin.store.objects("ResourceClaimTemplate.resource.k8s.io")
    }
    parameters = {
        target: [c["opaque"]["parameters"] for c in t["spec"]["spec"]["devices"]["config"]]
        for target, t in made.items()
    }
    common = {"apiVersion": words.API_VERSION, "domainID": uid}
    assert parameters == {
        "Daemon": [{**common, "kind": "ComputeDomainDaemonConfig"}],
        "Workload": [{**common, "kind": "ComputeDomainChannelConfig", "allocationMode": mode}],
    }
    assert [t["metadata"]["finalizers"] for t in made.values()] == [[words.LABEL]] * 2


def test_nodes_give_their_label_back_with_the_workload() -> None:
    twin = a_twin(tray("a"), domain())
    settle(twin, worker("w0"))
    twin.store.delete(Key("Pod", "default", "w0"))
    twin.run_for(2 * MINUTE_US)
    assert words.LABEL not in twin.store.require(Key("Node", "", "a"))["metadata"]["labels"]
    assert twin.store.objects(words.CLIQUE) == []
    assert the_domain(twin)["status"] == {"status": "Ready"}


def test_nodes_of_two_racks_and_of_none_are_told_apart() -> None:
    twin = a_twin(tray("a"), tray("b", f"{RACK}.2"), tray("c", ""), domain())
    settle(twin, worker("w0"), worker("w1"), worker("w2"))
    assert set(phases(twin).values()) == {"Running"}
    nodes = {n["name"]: (n["cliqueID"], n["index"]) for n in the_domain(twin)["status"]["nodes"]}
    assert nodes == {"a": (f"{RACK}.1", 0), "b": (f"{RACK}.2", 0), "c": ("", -1)}
    assert len(twin.store.objects(words.CLIQUE)) == 2


def test_an_incomplete_domain_is_not_ready_and_holds_nobody_back() -> None:
    twin = a_twin(tray("a"), tray("b"), domain(nodes=2))
    assert the_domain(twin)["status"] == {"status": "NotReady"}
    settle(twin, worker("w0"))
    assert (phases(twin), the_domain(twin)["status"]["status"]) == ({"w0": "Running"}, "NotReady")
    settle(twin, worker("w1"))
    assert the_domain(twin)["status"]["status"] == "Ready"


def test_a_pod_waits_while_its_node_is_of_another_domain() -> None:
    twin = a_twin(tray("a"), domain(), domain("other"))
    node = Key("Node", "", "a")
    twin.store.patch(
        node, {"metadata": {"labels": {words.LABEL: the_domain(twin, "other")["metadata"]["uid"]}}}
    )
    settle(twin, worker("w0"), seconds=100)
    assert phases(twin) == {"w0": "Pending"}
    skipped = "prepare dynamic resources: NodePrepareResources skipped 1 ResourceClaims"
    assert said(twin, "FailedPrepareDynamicResources")[0] == f"Failed to prepare dynamic resources: {skipped}"
    twin.store.delete(Key(words.DOMAIN, "default", "other"))
    twin.run_for(2 * MINUTE_US)
    assert phases(twin) == {"w0": "Running"}


def test_a_channel_of_another_namespace_is_refused_for_good() -> None:
    twin = a_twin(tray("a"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    settle(twin, domain(namespace="x"))
    uid = twin.store.objects(words.DOMAIN)[0]["metadata"]["uid"]
    made = words.template("rack-channel", "default", uid, "Workload", {"allocationMode": "Single"})
    settle(twin, made, worker("w0"))
    assert phases(twin) == {"w0": "Pending"}
    (message, *_) = said(twin, "FailedPrepareDynamicResources")
    assert message.endswith(
        "error applying config: error asserting ComputeDomain's namespace: the ResourceClaim's namespace is different "
        "than the ComputeDomain's namespace"
    )


def test_a_domain_takes_everything_with_it() -> None:
    twin = a_twin(tray("a"), domain())
    settle(twin, worker("w0", **{"fairway.dev/run-time": "30s"}))
    twin.store.delete(Key(words.DOMAIN, "default", "rack"))
    twin.run_for(3 * MINUTE_US)
    for gk in (words.DOMAIN, words.CLIQUE, "DaemonSet.apps", "ResourceClaimTemplate.resource.k8s.io"):
        assert twin.store.objects(gk) == [], gk
    assert twin.store.objects("Pod", words.NAMESPACE) == []
    assert words.LABEL not in twin.store.require(Key("Node", "", "a"))["metadata"]["labels"]


def test_without_the_driver_nothing_happens() -> None:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    settle(twin, tray("a"), domain())
    assert "status" not in the_domain(twin) or the_domain(twin)["status"].get("nodes") is None
    assert twin.store.objects("DaemonSet.apps") == []


@pytest.mark.parametrize(
    ("second", "has_channels", "is_one"),
    [(f"{RACK}.1", True, True), (f"{RACK}.1", False, False), (f"{RACK}.2", True, False), ("", True, False)],
)
def test_one_nvlink_domain_makes_steps_short(second: str, has_channels: bool, is_one: bool) -> None:
    twin = a_twin(tray("a"), tray("b", second), domain())
    talk = {"fairway.dev/run-time": "100s", "fairway.dev/step-time": "100ms"}
    talk["fairway.dev/step-traffic"] = "all_reduce=10Gi"
    template = worker("w", **talk)
    template["spec"]["containers"][0]["env"] = [{"name": "WORLD_SIZE", "value": "2"}]
    if not has_channels:
        del template["spec"]["resourceClaims"], template["spec"]["containers"][0]["resources"]["claims"]
    pod = {"metadata": {"annotations": talk}, "spec": template["spec"]}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": pod}
    meta = {"name": "train", "namespace": "default"}
    settle(twin, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}, seconds=600)
    ends = [
        c["state"]["terminated"]
        for p in twin.store.objects("Pod", "default")
        for c in p["status"]["containerStatuses"]
        if "terminated" in c["state"]
    ]
    assert len(ends) == 2
    took_s = (parse_rfc3339(ends[0]["finishedAt"]) - parse_rfc3339(ends[0]["startedAt"])) / SECOND_US
    assert (took_s < 130) == is_one, took_s


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(("", f"{RACK}.1", f"{RACK}.2")), min_size=1, max_size=4),
    st.lists(st.sampled_from(("join", "leave")), max_size=5),
)
def test_the_status_names_the_nodes_of_running_channels(cliques: list[str], steps: list[str]) -> None:
    twin = a_twin(*(tray(f"n{i}", clique) for i, clique in enumerate(cliques)), domain())
    number = 0
    for step in steps:
        pods = twin.store.objects("Pod", "default")
        if step == "join":
            settle(twin, worker(f"w{number}"))
            number += 1
        elif pods:
            twin.store.delete(Key("Pod", "default", pods[0]["metadata"]["name"]))
            twin.run_for(2 * MINUTE_US)
    running = {
        p["spec"]["nodeName"]
        for p in twin.store.objects("Pod", "default")
        if p["status"]["phase"] == "Running"
    }
    found = the_domain(twin)["status"].get("nodes") or []
    assert {n["name"] for n in found} == running
    of_clique: dict[str, list[int]] = {}
    for one in found:
        assert one["cliqueID"] == cliques[int(one["name"][1:])]
        of_clique.setdefault(one["cliqueID"], []).append(one["index"])
    for clique, indexes in of_clique.items():
        assert len(set(indexes)) == (len(indexes) if clique else 1)
