"""Nodes as groups make them and as a scan sees them: labels of each cloud, taints, what is used, devices."""

from __future__ import annotations

from typing import Any

import pytest
from groupsworld import group, kind, pod, spot_taint

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.taints import Taint
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, NodeView, Seat
from fairway.provisioning.karpenter.labels import SPOT
from fairway.provisioning.karpenter.podfacts import Shapes
from fairway.twin.nodegroups import metrics
from fairway.twin.nodegroups.claiming import Claiming, claiming
from fairway.twin.nodegroups.grouping import group_view, node_object, seat_of, template_of, views_of

GIB = 2**30
SAME = {
    "node.kubernetes.io/instance-type": "m",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "topology.kubernetes.io/zone": "z1",
    "kubernetes.io/hostname": "n",
}
LABELS = {
    ("aws", "spot"): {"eks.amazonaws.com/nodegroup": "g", "eks.amazonaws.com/capacityType": "SPOT"},
    ("aws", "on-demand"): {"eks.amazonaws.com/nodegroup": "g", "eks.amazonaws.com/capacityType": "ON_DEMAND"},
    ("gcp", "spot"): {"cloud.google.com/gke-nodepool": "g", "cloud.google.com/gke-spot": "true"},
    ("gcp", "on-demand"): {"cloud.google.com/gke-nodepool": "g"},
    ("azure", "spot"): {
        "kubernetes.azure.com/agentpool": "g",
        "kubernetes.azure.com/scalesetpriority": "spot",
    },
    ("azure", "on-demand"): {"kubernetes.azure.com/agentpool": "g"},
}


@pytest.mark.parametrize(("provider", "capacity"), LABELS)
def test_a_node_bears_the_labels_of_its_cloud(provider: str, capacity: str) -> None:
    made = node_object(group("g", capacity_type=capacity), provider, "n")
    assert made == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {**SAME, **LABELS[provider, capacity]}},
        "spec": {"providerID": "twin:///z1/n"},
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "3500m", "memory": "16Gi", "pods": "110"},
        },
    }


def test_a_group_has_labels_and_taints_of_its_own() -> None:
    labels = {"team": "a", "kubernetes.io/arch": "arm64", "karpenter.sh/capacity-type": "spot"}
    spec = group("g", zone="z2", labels=labels, taints=(spot_taint(), Taint("own", "", "NoExecute")))
    made = node_object(spec, "gcp", "n")
    assert made["metadata"]["labels"] == {
        **SAME,
        "topology.kubernetes.io/zone": "z2",
        "kubernetes.io/arch": "arm64",
        "team": "a",
        "cloud.google.com/gke-nodepool": "g",
    }
    assert made["spec"] == {
        "providerID": "twin:///z2/n",
        "taints": [
            {"key": "spot", "effect": "NoSchedule", "value": "1"},
            {"key": "own", "effect": "NoExecute"},
        ],
    }


def daemon(name: str, cpu: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod("x", cpu, **spec)["spec"]}}}


def test_a_template_has_the_pods_of_daemon_sets_that_would_be_there() -> None:
    spec = group("g", taints=(spot_taint(),))
    tolerant = [{"key": "spot", "operator": "Exists"}]
    daemons = [
        daemon("refused", "1"),
        daemon("there", "200m", tolerations=tolerant),
        daemon("too", "300m", tolerations=tolerant, nodeSelector={"kubernetes.io/os": "linux"}),
        daemon("elsewhere", "2", tolerations=tolerant, nodeSelector={"kubernetes.io/os": "windows"}),
    ]
    found = template_of(spec, "aws", daemons, Shapes())
    bare = template_of(spec, "aws", [], Shapes())
    assert found.used == {"cpu": 500, "pods": 2} and bare.used == {}
    assert (found.name, found.taints, found.ports) == ("template-node-for-g", (spot_taint(),), ())
    assert found.labels["kubernetes.io/hostname"] == "template-node-for-g"
    assert found.capacity == {"cpu": 4000, "memory": 16 * GIB, "pods": 110}
    assert found.allocatable == {"cpu": 3500, "memory": 16 * GIB, "pods": 110}
    assert group_view(spec, 2, bare, "why") == NodeGroup("g", 0, 3, 2, bare, 100_000, "why")
    assert group_view(group("s", capacity_type=SPOT), 0, bare, "").price == 50_000
    assert group_view(group("s", zone="z3"), 0, bare, "").price is None


def node(name: str, of: str = "", *, ready: str = "True", **more: Any) -> Obj:
    labels = {"eks.amazonaws.com/nodegroup": of} if of else {}
    held = {"cpu": "4", "pods": "9"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, **more.pop("meta", {})},
        "spec": more,
        "status": {"capacity": held, "conditions": [{"type": "Ready", "status": ready}]},
    }


def test_a_node_as_a_scan_sees_it() -> None:
    mark = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule", "value": "1"}
    startup = [
        {"key": f"node.kubernetes.io/{why}", "effect": "NoExecute"} for why in ("not-ready", "unreachable")
    ]
    store = Store()
    for one in (
        *(node("a", "g"), node("b", "h", ready="Unknown"), node("c"), node("d", "g", taints=[mark])),
        node(
            "e", "g", meta={"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}
        ),
        node("f", "g", meta={"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "yes"}}),
        node("g", "g", meta={"finalizers": ["x/y"]}, taints=[*startup, {"key": "k", "effect": "NoSchedule"}]),
    ):
        store.create(one)
    for name in ("p", "o"):
        ports = [{"containerPort": 80, "hostPort": 8000 + ord(name)}]
        made = pod(name, "1", nodeName="a")
        made["spec"]["containers"][0]["ports"] = ports
        store.create(made)
    store.delete(Key("Node", "", "g"))
    views = {v.name: v for v in views_of(store, "aws", frozenset({"g"}))}
    assert list(views) == ["a", "b", "c", "d", "e", "f", "g"]
    assert [v.group for v in views.values()] == ["g", "", "", "g", "g", "g", "g"]
    assert [name for name, v in views.items() if not v.is_ready] == ["b"]
    assert [name for name, v in views.items() if v.is_going] == ["d", "g"]
    assert [name for name, v in views.items() if v.no_scale_down] == ["e"]
    assert [p["metadata"]["name"] for p in views["a"].pods] == ["o", "p"]
    assert views["a"].seat.used == {"cpu": 2000, "pods": 2}
    assert [p.port for p in views["a"].seat.ports] == [8000 + ord("o"), 8000 + ord("p")]
    assert views["a"].seat.allocatable == views["a"].seat.capacity == {"cpu": 4000, "pods": 9}
    assert views["g"].seat.taints == (Taint("k", "", "NoSchedule"),)
    said = {**node("x"), "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}}
    assert seat_of(said, ()).allocatable == {"cpu": 3000}


# Devices

V1 = "resource.k8s.io/v1"


def device_class(name: str, expression: str) -> Obj:
    selectors = [{"cel": {"expression": expression}}]
    return {
        "apiVersion": V1,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors},
    }


def published(name: str, node: str, devices: int) -> Obj:
    spec: Obj = {
        "driver": "d.example.com",
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"{name}-{i}", "attributes": {"n": {"int": i}}} for i in range(devices)],
        **({"nodeName": node} if node else {"allNodes": True}),
    }
    return {"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def claim(name: str, *devices: str, **requests: Any) -> Obj:
    asked = [{"name": key, "exactly": {"deviceClassName": key, **more}} for key, more in requests.items()]
    results = [{"request": "r", "driver": "d.example.com", "pool": "a", "device": one} for one in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": V1,
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": asked}},
        "status": status,
    }


def asking(name: str, *claims: str, template: str = "") -> Obj:
    made = pod(name, "1")
    made["metadata"]["uid"] = name
    entries: list[Obj] = [{"name": f"e{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    if template:
        entries.append({"name": "t", "resourceClaimTemplateName": template})
    made["spec"]["resourceClaims"] = entries
    return made


def world() -> Store:
    store = Store()
    for one in (
        *(
            device_class("all", "device.driver == 'd.example.com'"),
            device_class("first", "device.attributes['d.example.com'].n == 0"),
        ),
        device_class("a-broken", "device.attributes['d.example.com'].missing == 0"),
        *(published("s", "a", 2), published("t", "a", 1), published("u", "b", 4), published("net", "", 9)),
        claim("taken", "s-0", all={}),
        claim("wanted", all={"count": 2}, first={}),
        claim("every", all={"allocationMode": "All"}),
        claim("watching", all={"adminAccess": True}),
    ):
        made = store.create(one)
        if one.get("status"):
            store.set_status(key_of(made), one["status"])
    spec = {
        "spec": {
            "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "first", "count": 3}}]}
        }
    }
    meta = {"name": "tpl", "namespace": "default"}
    store.create({"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec})
    return store


D = "deviceclass.resource.kubernetes.io/"


def requests(found: Obj) -> dict[str, str]:
    asked = found["spec"]["containers"][0]["resources"]["requests"]
    return {name.removeprefix(D): value for name, value in asked.items() if name.startswith(D)}


def test_what_pods_still_ask_for() -> None:
    pods = {
        "one": (asking("one", "wanted"), {"all": "2", "first": "1"}),
        "two": (asking("two", "wanted", "every", template="tpl"), {"all": "3", "first": "4"}),
        "given": (asking("given", "taken", "watching", template="nobody"), {}),
        "all": (asking("all", "every", "taken"), {"all": "1"}),
    }
    scan = Claiming(world(), [made for made, _ in pods.values()])
    assert {name: requests(scan.asking(made)) for name, (made, _) in pods.items()} == {
        name: want for name, (_, want) in pods.items()
    }
    made = pods["one"][0]
    seen = scan.asking(made)
    assert seen["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"
    assert seen["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
    assert requests(made) == {}, "the pod itself is not changed"
    assert scan.asking(pods["given"][0]) is pods["given"][0]
    stranger = asking("stranger", "wanted")
    assert scan.asking(stranger) is stranger


def seat(name: str) -> Seat:
    return Seat(name, {}, (), {"cpu": 1}, {"cpu": 1})


def test_what_nodes_and_groups_offer() -> None:
    scan = Claiming(world(), [asking("one", "wanted")])
    nodes = [
        *(NodeView(seat("b"), "g", is_ready=False), NodeView(seat("a"), "g"), NodeView(seat("new"), "g")),
        *(NodeView(seat("other"), "h"), NodeView(seat("alone"), "")),
    ]
    offered = {v.name: v.seat.allocatable for v in scan.nodes(nodes)}
    assert offered == {
        "b": {"cpu": 1, f"{D}all": 4, f"{D}first": 1},
        # One of three is taken; what is new has as many as its group's nodes when nobody took any.
        "a": {"cpu": 1, f"{D}all": 2, f"{D}first": 1},
        "new": {"cpu": 1, f"{D}all": 3, f"{D}first": 2},
        "other": {"cpu": 1},
        "alone": {"cpu": 1},
    }
    groups = [NodeGroup(name, 0, 3, 1, seat("t")) for name in ("g", "h")]
    assert [g.template.allocatable for g in scan.groups(groups, nodes)] == [
        {"cpu": 1, f"{D}all": 3, f"{D}first": 2},
        {"cpu": 1},
    ]
    # A class that cannot be evaluated, or is not there, offers nothing.
    store = world()
    asked: dict[str, Any] = {"a-broken": {}, "a-nowhere": {}, "all": {}}
    store.create(claim("odd", **asked))
    odd = Claiming(store, [asking("one", "odd")])
    assert odd.nodes(nodes[1:2])[0].seat.allocatable == {"cpu": 1, f"{D}all": 2}


def test_where_nobody_claims_anything_nothing_is_worked_out() -> None:
    assert claiming(world(), [pod("p")]) is None
    made = pod("p")
    made["metadata"]["uid"] = "p"
    found = claiming(world(), [made, asking("one", "wanted")])
    assert found is not None and found.asking(made) is made
    assert requests(found.asking(asking("one", "wanted"))) == {"all": "2", "first": "1"}


def test_kinds_of_machines_are_told_apart() -> None:
    assert (
        node_object(group("g", kind("g5", 8, 2)), "aws", "n")["status"]["capacity"]["nvidia.com/gpu"] == "2"
    )


@pytest.mark.parametrize(("gpus", "label"), [(0, ("", "")), (1, ("nvidia.com/gpu", "generic")), (8, None)])
def test_what_counts_of_a_group_with_and_without_gpus(gpus: int, label: tuple[str, str] | None) -> None:
    """Machines that came, went and did not come; those with GPUs once more, by themselves."""
    gpu = ("nvidia.com/gpu", "generic") if label is None else label
    tally, of = metrics.new_tally(), group("g", kind("k", 8, gpus))
    before = {(s.name, s.labels): s.value for s in tally.samples()}
    metrics.grew(tally, of, 3)
    metrics.failed(tally, of, "timeout", 2)
    metrics.shrank(tally, of, drained=True)
    metrics.shrank(tally, of, drained=False)
    metrics.shrank(tally, of, drained=False)
    metrics.gave_up(tally, 4)
    metrics.evicted(tally, allowed=True)
    metrics.evicted(tally, allowed=False)
    told = {
        (s.name.removeprefix("cluster_autoscaler_"), s.labels): s.value - before.get((s.name, s.labels), 0)
        for s in tally.samples()
    }
    of_gpus = {
        ("scaled_up_gpu_nodes_total", gpu): 3,
        ("failed_gpu_scale_ups_total", ("timeout", *gpu)): 1,
        ("scaled_down_gpu_nodes_total", ("underutilized", *gpu)): 1,
        ("scaled_down_gpu_nodes_total", ("empty", *gpu)): 2,
    }
    assert {key: value for key, value in told.items() if value} == {
        ("scaled_up_nodes_total", (*gpu, "")): 3,
        ("failed_scale_ups_total", ("timeout", *gpu, "")): 1,
        ("failed_node_creations_total", ("timeout",)): 2,
        ("scaled_down_nodes_total", ("underutilized", *gpu, "")): 1,
        ("scaled_down_nodes_total", ("empty", *gpu, "")): 2,
        ("old_unregistered_nodes_removed_count", ()): 4,
        ("evicted_pods_total", ("succeeded",)): 1,
        ("evicted_pods_total", ("failed",)): 1,
        **(of_gpus if gpus else {}),
    }
