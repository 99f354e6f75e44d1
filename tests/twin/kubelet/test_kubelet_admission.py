"""What a kubelet checks again before it starts a pod, rule by rule, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from kubeletworld import World

from fairway.kube.objects import Key, Obj
from fairway.kube.taints import parse_taints
from fairway.twin.kubelet.admission import Rejection, rejection
from fairway.twin.kubelet.plans import plan_of
from fairway.twin.kubelet.states import NodeState

GPU = "nvidia.com/gpu"


def node(**parts: Any) -> NodeState:
    """A node with a pod that uses half of its four cores."""
    made = NodeState("n", "u", 1)
    made.allocatable = {"cpu": 4000, "memory": 1 << 30, "pods": 3, GPU: 8}
    made.used = {"cpu": 2000}
    made.pods = {"other": None}
    made.max_pods = 3
    made.labels = {"zone": "a"}
    for name, value in parts.items():
        setattr(made, name, value)
    return made


def pod(limits: Obj | None = None, **spec: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": limits or {}, "limits": limits or {}}}
    status = spec.pop("status", {})
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}, "status": status}


def short(name: str, requested: int, used: int, capacity: int) -> Rejection:
    said = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {said}")


def predicate(name: str, why: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {why}")


def shared(count: int) -> Rejection:
    said = (
        f'Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "{GPU}": invalid '
        f"request: maximum request size for shared resources is 1; found {count}, which is unexpected"
    )
    return Rejection("UnexpectedAdmissionError", said)


AFFINITY = predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
TAINTS = predicate("TaintToleration", "node(s) had untolerated taint(s)")
DRAINED = parse_taints([{"key": "d", "effect": "NoExecute"}])
TOLERATES = [{"key": "d", "operator": "Exists"}]


def in_zone(zone: str) -> Obj:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def claimed(name: str) -> Obj:
    return {"extendedResourceClaimStatus": {"requestMappings": [{"resourceName": name}]}}


CASES: dict[str, tuple[NodeState, Obj, Rejection | None]] = {
    "all it has left": (node(), pod({"cpu": "2"}), None),
    "a thousandth more": (node(), pod({"cpu": "2001m"}), short("cpu", 2001, 2000, 4000)),
    "nothing of what is full": (node(used={"cpu": 9000}), pod({"cpu": "0"}), None),
    "what nobody uses": (node(), pod({"memory": "1Gi"}), None),
    "more than that": (node(), pod({"memory": "1025Mi"}), short("memory", 1025 << 20, 0, 1 << 30)),
    "the first that is short": (node(), pod({"cpu": "3", "memory": "2Gi"}), short("cpu", 3000, 2000, 4000)),
    "a device that is not the node's": (node(), pod({"x.io/dongle": "1"}), None),
    "and one too many of what is": (node(), pod({"x.io/dongle": "1", GPU: "9"}), short(GPU, 9, 0, 8)),
    "a device that is not the node's comes first": (
        node(),
        pod({"a.io/dongle": "1", GPU: "9"}),
        short(GPU, 9, 0, 8),
    ),
    "nothing of one, too much of another": (
        node(used={"cpu": 9000}),
        pod({"cpu": "0", "memory": "2Gi"}),
        short("memory", 2 << 30, 0, 1 << 30),
    ),
    "of a claim, and too much of another": (
        node(allocatable={GPU: 8, "x.io/y": 1}),
        pod({GPU: "9", "x.io/y": "2"}, status=claimed(GPU)),
        short("x.io/y", 2, 0, 1),
    ),
    "what every node has, but this": (
        node(allocatable={"cpu": 4000}),
        pod({"memory": "1"}),
        short("memory", 1, 0, 0),
    ),
    "who does not say what it has": (node(allocatable=None), pod({"cpu": "99"}), None),
    "more than there is, of a claim": (node(), pod({GPU: "9"}, status=claimed(GPU)), None),
    "of a claim for another": (node(), pod({GPU: "9"}, status=claimed("x.io/y")), short(GPU, 9, 0, 8)),
    "of a claim, but taken": (node(used={GPU: 1}), pod({GPU: "8"}, status=claimed(GPU)), short(GPU, 8, 1, 8)),
    "the last place": (node(pods={"a": None, "b": None}), pod(), None),
    "no place": (node(pods={"a": None, "b": None, "c": None}), pod({"cpu": "9"}), short("pods", 1, 3, 3)),
    "places without number": (node(pods=dict.fromkeys("abcdef"), max_pods=None), pod(), None),
    "shutting down": (
        node(is_shutting_down=True),
        pod({"cpu": "9"}),
        Rejection("NodeShutdown", "Pod was rejected as the node is shutting down."),
    ),
    "its labels": (node(), pod(nodeSelector={"zone": "a"}), None),
    "others' labels": (node(), pod(nodeSelector={"zone": "b"}), AFFINITY),
    "its affinity": (node(), pod(affinity=in_zone("a")), None),
    "others' affinity": (node(), pod(affinity=in_zone("b")), AFFINITY),
    "affinity to pods alone": (node(), pod(affinity={"podAffinity": {}}), None),
    "short comes before labels": (
        node(),
        pod({"cpu": "3"}, nodeSelector={"zone": "b"}),
        short("cpu", 3000, 2000, 4000),
    ),
    "one of a shared device": (node(single_requests=(GPU,)), pod({GPU: "1"}), None),
    "two of a shared device": (node(single_requests=("x.io/y", GPU)), pod({GPU: "2"}), shared(2)),
    "two of another": (node(single_requests=("x.io/y",)), pod({GPU: "2"}), None),
    "labels come before shared devices": (
        node(single_requests=(GPU,)),
        pod({GPU: "2"}, nodeSelector={"zone": "b"}),
        AFFINITY,
    ),
    "a taint": (node(no_execute=DRAINED), pod(), TAINTS),
    "a taint that is tolerated": (node(no_execute=DRAINED), pod(tolerations=TOLERATES), None),
    "shared devices come before taints": (
        node(single_requests=(GPU,), no_execute=DRAINED),
        pod({GPU: "3"}),
        shared(3),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_is_let_in(name: str) -> None:
    state, one, want = CASES[name]
    assert rejection(state, plan_of(one["spec"]), one) == want


@pytest.mark.parametrize(
    ("now", "is_shrunk"),
    [
        ({"cpu": "8", "memory": "64Gi", "pods": "110"}, False),
        ({"cpu": "9", "memory": "64Gi", "pods": "110", "x.io/y": "1"}, False),
        ({"cpu": "7", "memory": "64Gi", "pods": "110"}, True),
        ({"cpu": "99", "memory": "63Gi", "pods": "110"}, True),
        ({"cpu": "8", "memory": "64Gi"}, True),
    ],
)
def test_a_node_that_has_less_than_it_had_is_remembered(now: Obj, is_shrunk: bool) -> None:
    world = World().at(1)
    key, shared_devices = Key("Node", "", "n"), {"fairway.dev/gpu-single-requests": f"{GPU},x.io/y"}
    world.twin.store.patch(key, {"metadata": {"annotations": shared_devices}})
    world.twin.store.set_status(key, {**world.node()["status"], "allocatable": now})
    world.twin.wake()
    world.at(2)
    state = world.kubelet.nodes["n"]
    assert (state.is_shrunk, state.max_pods) == (is_shrunk, 110 if "pods" in now else None)
    assert state.single_requests == (GPU, "x.io/y")
