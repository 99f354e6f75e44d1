"""Each filter, by what it lets through and what it says: `want` is the feasible nodes, or the reason counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from judging import judge

from builders import (
    GPU,
    HOSTNAME,
    ZONE,
    NodeBuilder,
    PodBuilder,
    has,
    labels_where,
    named,
    node,
    pod,
)


@dataclass
class Case:
    """`want`: names of feasible nodes, space separated; or the start of the message where none is."""

    nodes: list[NodeBuilder]
    pod: PodBuilder
    want: str
    running: dict[str, list[PodBuilder]] = field(default_factory=dict)
    others: list[dict[str, Any]] = field(default_factory=list)


def _says(*reasons: str, nodes: int = 1) -> str:
    return f"0/{nodes} nodes are available: {', '.join(reasons)}. "


def _web(name: str, namespace: str = "default") -> PodBuilder:
    return pod(name, namespace).label(app="web")


def _namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


N1, N2, N3 = "n1", "n2", "n3"

RESOURCES = {
    "fits exactly": Case([node(N1).cpu(4)], pod("p").cpu(4), N1),
    "a milli-core short": Case([node(N1).cpu("3999m")], pod("p").cpu(4), _says("1 Insufficient cpu")),
    "what runs there counts": Case(
        [node(N1).memory("8Gi")],
        pod("p").memory("5Gi"),
        _says("1 Insufficient memory"),
        {N1: [pod("a").memory("4Gi")]},
    ),
    "a node short of two things counts under each": Case(
        [node(N1).cpu(1).memory("1Gi")],
        pod("p").cpu(2).memory("2Gi"),
        _says("1 Insufficient cpu", "1 Insufficient memory"),
    ),
    "ephemeral storage is a resource": Case(
        [node(N1)], pod("p").asks("ephemeral-storage", "200Gi"), _says("1 Insufficient ephemeral-storage")
    ),
    "devices by name": Case([node(N1).gpu(4), node(N2)], pod("p").gpu(2), N1),
    "a node without the device": Case([node(N1)], pod("p").gpu(1), _says(f"1 Insufficient {GPU}")),
    "hugepages": Case(
        [node(N1).has("hugepages-2Mi", "64Mi")],
        pod("p").limit("hugepages-2Mi", "128Mi"),
        _says("1 Insufficient hugepages-2Mi"),
    ),
    "a request of zero asks for nothing": Case([node(N1).cpu(0)], pod("p").cpu(0), N1),
    "a limit without a request is a request": Case(
        [node(N1).cpu(1)], pod("p").limit("cpu", 2), _says("1 Insufficient cpu")
    ),
    "too many pods": Case([node(N1).pods(1)], pod("p"), _says("1 Too many pods"), {N1: [pod("a")]}),
    "a node that takes no pods": Case([node(N1).lacks("pods")], pod("p"), _says("1 Too many pods")),
    "init containers run one by one": Case([node(N1).cpu(2)], pod("p").init(cpu=2).init(cpu=1), N1),
    "the init peak can be the larger": Case(
        [node(N1).cpu(2)], pod("p").cpu(1).init(cpu=3), _says("1 Insufficient cpu")
    ),
    "a sidecar stays beside the containers": Case(
        [node(N1).cpu(2)], pod("p").cpu(1).init(sidecar=True, cpu=2), _says("1 Insufficient cpu")
    ),
    "an earlier sidecar stays beside later init containers": Case(
        [node(N1).cpu(3)], pod("p").init(sidecar=True, cpu=1).init(cpu=2), N1
    ),
    "a later sidecar does not": Case([node(N1).cpu(2)], pod("p").init(cpu=2).init(sidecar=True, cpu=1), N1),
    "overhead comes on top": Case(
        [node(N1).cpu(1)], pod("p").cpu(1).spec(overhead={"cpu": "1m"}), _says("1 Insufficient cpu")
    ),
    "containers add up": Case(
        [node(N1).cpu(2)], pod("p").cpu(1).container(cpu="1001m"), _says("1 Insufficient cpu")
    ),
    "fractions of bytes add up before they are rounded": Case(
        [node(N1).memory(201)], pod("p").memory("100500m").container(memory="100500m"), N1
    ),
    "a pod-level request replaces the sum": Case(
        [node(N1).cpu(1)], pod("p").cpu(4).spec(resources={"requests": {"cpu": "1"}}), N1
    ),
    "a pod-level limit alone is a request": Case(
        [node(N1).cpu(1)], pod("p").spec(resources={"limits": {"cpu": "2"}}), _says("1 Insufficient cpu")
    ),
    "but what containers ask for goes before the limit": Case(
        [node(N1).cpu(1)], pod("p").cpu(1).spec(resources={"limits": {"cpu": "2"}}), N1
    ),
    "terminating pods still hold what they have": Case(
        [node(N1).cpu(2)], pod("p").cpu(2), _says("1 Insufficient cpu"), {N1: [pod("a").cpu(1).terminating()]}
    ),
}

NODE_FACTS = {
    "cordoned": Case([node(N1).cordoned()], pod("p"), _says("1 node(s) were unschedulable")),
    "cordoned and tolerated": Case(
        [node(N1).cordoned()],
        pod("p").tolerate("node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule"),
        N1,
    ),
    "cordon goes before taint": Case(
        [node(N1).cordoned().taint("k")], pod("p"), _says("1 node(s) were unschedulable")
    ),
    "tainted": Case([node(N1).taint("k", "v")], pod("p"), _says("1 node(s) had untolerated taint(s)")),
    "NoExecute keeps away too": Case(
        [node(N1).taint("k", "v", "NoExecute")], pod("p"), _says("1 node(s) had untolerated taint(s)")
    ),
    "PreferNoSchedule does not": Case([node(N1).taint("k", "v", "PreferNoSchedule")], pod("p"), N1),
    "tolerated by value": Case([node(N1).taint("k", "v")], pod("p").tolerate("k", "v"), N1),
    "the wrong value": Case(
        [node(N1).taint("k", "v")], pod("p").tolerate("k", "w"), _says("1 node(s) had untolerated taint(s)")
    ),
    "tolerated by key alone": Case([node(N1).taint("k", "v")], pod("p").tolerate("k", operator="Exists"), N1),
    "tolerates everything": Case(
        [node(N1).taint("a").taint("b", "c", "NoExecute")], pod("p").tolerate(operator="Exists"), N1
    ),
    "the wrong effect": Case(
        [node(N1).taint("k", "v", "NoExecute")],
        pod("p").tolerate("k", "v", effect="NoSchedule"),
        _says("1 node(s) had untolerated taint(s)"),
    ),
    "all taints must be tolerated": Case(
        [node(N1).taint("a").taint("b")],
        pod("p").tolerate("a", operator="Exists"),
        _says("1 node(s) had untolerated taint(s)"),
    ),
    "an empty value equals an empty value": Case([node(N1).taint("k")], pod("p").tolerate("k"), N1),
}

_AFFINITY = "1 node(s) didn't match Pod's node affinity/selector"

NODE_AFFINITY = {
    "nodeSelector": Case([node(N1).label(disk="ssd"), node(N2)], pod("p").select(disk="ssd"), N1),
    "nodeSelector matches nowhere": Case([node(N1)], pod("p").select(disk="ssd"), _says(_AFFINITY)),
    "In": Case(
        [node(N1).zone("a"), node(N2).zone("b"), node(N3).zone("c")],
        pod("p").node_affinity(labels_where(has(ZONE, "In", "a", "c"))),
        "n1 n3",
    ),
    "NotIn takes nodes without the label": Case(
        [node(N1).zone("a"), node(N2)], pod("p").node_affinity(labels_where(has(ZONE, "NotIn", "a"))), N2
    ),
    "Exists": Case(
        [node(N1).zone("a"), node(N2)], pod("p").node_affinity(labels_where(has(ZONE, "Exists"))), N1
    ),
    "DoesNotExist": Case(
        [node(N1).zone("a"), node(N2)], pod("p").node_affinity(labels_where(has(ZONE, "DoesNotExist"))), N2
    ),
    "Gt compares numbers, not text": Case(
        [node(N1).label(rank="10"), node(N2).label(rank="9"), node(N3).label(rank="x")],
        pod("p").node_affinity(labels_where(has("rank", "Gt", "9"))),
        N1,
    ),
    "Lt": Case(
        [node(N1).label(rank="10"), node(N2).label(rank="-9"), node(N3)],
        pod("p").node_affinity(labels_where(has("rank", "Lt", "0"))),
        N2,
    ),
    "expressions of a term are ANDed": Case(
        [node(N1).zone("a"), node(N2).zone("a").label(disk="ssd")],
        pod("p").node_affinity(labels_where(has(ZONE, "In", "a"), has("disk", "Exists"))),
        N2,
    ),
    "terms are ORed": Case(
        [node(N1).zone("a"), node(N2).label(disk="ssd"), node(N3)],
        pod("p").node_affinity(labels_where(has(ZONE, "In", "a")), labels_where(has("disk", "Exists"))),
        "n1 n2",
    ),
    "an empty term matches nothing": Case([node(N1)], pod("p").node_affinity({}), _says(_AFFINITY)),
    "selector and affinity must both hold": Case(
        [node(N1).zone("a")],
        pod("p").select(disk="ssd").node_affinity(labels_where(has(ZONE, "In", "a"))),
        _says(_AFFINITY),
    ),
    "a node without labels": Case(
        [node(N1).unlabelled()], pod("p").node_affinity(labels_where(has(ZONE, "DoesNotExist"))), N1
    ),
    "by name": Case([node(N1), node(N2)], pod("p").node_affinity(named("In", N2)), N2),
    "by name, the others are not even asked": Case(
        [node(N1), node(N2).cpu(1), node(N3)],
        pod("p").cpu(2).node_affinity(named("In", N2)),
        _says("1 Insufficient cpu", "2 node(s) didn't satisfy plugin(s) [NodeAffinity]", nodes=3),
    ),
    "by a name that no node has": Case(
        [node(N1), node(N2)],
        pod("p").node_affinity(named("In", "nowhere")),
        _says("2 node(s) didn't satisfy plugin(s) [NodeAffinity]", nodes=2),
    ),
    "both names excluded": Case(
        [node(N1), node(N2), node(N3)], pod("p").node_affinity(named("NotIn", N1, N2)), N3
    ),
    "names excluded": Case([node(N1), node(N2)], pod("p").node_affinity(named("NotIn", N1)), N2),
    "one term without a name frees the search": Case(
        [node(N1), node(N2).zone("a")],
        pod("p").node_affinity(named("In", N1), labels_where(has(ZONE, "Exists"))),
        "n1 n2",
    ),
    "name and label in one term": Case(
        [node(N1).zone("a"), node(N2).zone("a")],
        pod("p").node_affinity({**named("In", N1), **labels_where(has(ZONE, "In", "a"))}),
        N1,
    ),
    "taint goes before affinity": Case(
        [node(N1).taint("k")], pod("p").select(disk="ssd"), _says("1 node(s) had untolerated taint(s)")
    ),
}

_PORTS = "1 node(s) didn't have free ports for the requested pod ports"

PORTS = {
    "free": Case([node(N1)], pod("p").port(80), N1, {N1: [pod("a").port(81)]}),
    "taken": Case([node(N1)], pod("p").port(80), _says(_PORTS), {N1: [pod("a").port(80)]}),
    "another protocol": Case([node(N1)], pod("p").port(80, protocol="UDP"), N1, {N1: [pod("a").port(80)]}),
    "another address": Case(
        [node(N1)], pod("p").port(80, ip="10.0.0.1"), N1, {N1: [pod("a").port(80, ip="10.0.0.2")]}
    ),
    "the wildcard wants all addresses": Case(
        [node(N1)], pod("p").port(80), _says(_PORTS), {N1: [pod("a").port(80, ip="10.0.0.2")]}
    ),
    "the wildcard holds all addresses": Case(
        [node(N1)], pod("p").port(80, ip="10.0.0.2"), _says(_PORTS), {N1: [pod("a").port(80)]}
    ),
    "ports before resources": Case(
        [node(N1).cpu(1)], pod("p").cpu(2).port(80), _says(_PORTS), {N1: [pod("a").port(80)]}
    ),
    "a sidecar's port counts": Case(
        [node(N1)], pod("p").port(80), _says(_PORTS), {N1: [pod("a").init(sidecar=True).port(80, init=True)]}
    ),
    "an init container's does not": Case(
        [node(N1)], pod("p").port(80), N1, {N1: [pod("a").init().port(80, init=True)]}
    ),
}

_SPREAD = "node(s) didn't match pod topology spread constraints"
_ABC = [node(N1).zone("a"), node(N2).zone("b"), node(N3).zone("c")]


def _zones(*zones: str) -> list[NodeBuilder]:
    return [node(f"n{i + 1}").zone(z) for i, z in enumerate(zones)]


SPREAD = {
    "the emptiest zones": Case(_zones("a", "b", "c"), _web("p").spread(ZONE), "n2 n3", {N1: [_web("a")]}),
    "a larger skew allows more": Case(
        _zones("a", "b"), _web("p").spread(ZONE, 2), "n1 n2", {N1: [_web("a")]}
    ),
    "per zone, not per node": Case(_zones("a", "a", "b"), _web("p").spread(ZONE), N3, {N1: [_web("a")]}),
    "a pod that does not match itself does not add to the skew": Case(
        _zones("a", "b"), pod("p").spread(ZONE), "n1 n2", {N1: [_web("a")]}
    ),
    "a node without the key": Case([node(N1).zone("a"), node(N2)], _web("p").spread(ZONE), N1),
    "only nodes without the key": Case(
        [node(N1)], _web("p").spread(ZONE), _says(f"1 {_SPREAD} (missing required label)")
    ),
    "skew everywhere": Case(
        [*_zones("a"), node(N2).zone("b").cordoned()],
        _web("p").spread(ZONE),
        _says(f"1 {_SPREAD}", "1 node(s) were unschedulable", nodes=2),
        {N1: [_web("a")]},
    ),
    "terminating pods are not counted": Case(
        _zones("a", "b"), _web("p").spread(ZONE), "n1 n2", {N1: [_web("gone").terminating()]}
    ),
    "other namespaces are not counted": Case(
        _zones("a", "b"), _web("p").spread(ZONE), "n1 n2", {N1: [_web("a", "red")]}
    ),
    "an empty selector counts none, and matches itself": Case(
        _zones("a", "b"), pod("p").spread(ZONE, labelSelector={}), "n1 n2", {N1: [_web("a"), _web("b")]}
    ),
    "a missing selector matches nothing": Case(
        _zones("a", "b"), _web("p").spread(ZONE, labelSelector=None), "n1 n2", {N1: [_web("a")]}
    ),
    "minDomains not met: the minimum is zero": Case(
        _zones("a", "b"),
        _web("p").spread(ZONE, minDomains=3),
        _says(f"2 {_SPREAD}", nodes=2),
        {N1: [_web("a")], N2: [_web("b")]},
    ),
    "minDomains met": Case(
        _zones("a", "b"), _web("p").spread(ZONE, minDomains=2), "n1 n2", {N1: [_web("a")], N2: [_web("b")]}
    ),
    "two constraints must both hold": Case(
        _zones("a", "a", "b"),
        _web("p").spread(ZONE).spread(HOSTNAME),
        N3,
        {N1: [_web("a")]},
    ),
    "nodes the pod may not use do not pull the minimum down": Case(
        [node(N1).zone("a").label(disk="ssd"), node(N2).zone("b")],
        _web("p").spread(ZONE).select(disk="ssd"),
        N1,
        {N1: [_web("a")]},
    ),
    "unless affinity is ignored": Case(
        [node(N1).zone("a").label(disk="ssd"), node(N2).zone("b")],
        _web("p").spread(ZONE, nodeAffinityPolicy="Ignore").select(disk="ssd"),
        _says(_AFFINITY, f"1 {_SPREAD}", nodes=2),
        {N1: [_web("a")]},
    ),
    "tainted nodes count": Case(
        [node(N1).zone("a"), node(N2).zone("b").taint("k")],
        _web("p").spread(ZONE),
        _says(
            "1 node(s) didn't match pod topology spread constraints",
            "1 node(s) had untolerated taint(s)",
            nodes=2,
        ),
        {N1: [_web("a")]},
    ),
    "unless taints are honored": Case(
        [node(N1).zone("a"), node(N2).zone("b").taint("k")],
        _web("p").spread(ZONE, nodeTaintsPolicy="Honor"),
        N1,
        {N1: [_web("a")]},
    ),
    "one constraint honors taints and affinity, the other neither": Case(
        [node(N1).zone("a"), node(N2).zone("b").taint("k"), node(N3).zone("c").label(disk="hdd")],
        _web("p")
        .node_affinity({"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]})
        .spread(ZONE, nodeTaintsPolicy="Honor")
        .spread(ZONE, labelSelector={"matchLabels": {"app": "db"}}, nodeAffinityPolicy="Ignore"),
        N1,
        {N1: [_web("a")]},
    ),
    "matchLabelKeys: revisions spread apart from one another": Case(
        _zones("a", "b"),
        _web("p").label(rev="2").spread(ZONE, matchLabelKeys=["rev"]),
        "n1 n2",
        {N1: [_web("a").label(rev="1")]},
    ),
    "ScheduleAnyway refuses nobody": Case(
        _zones("a", "b"), _web("p").spread(ZONE, hard=False), "n1 n2", {N1: [_web("a"), _web("b")]}
    ),
}

_NEAR = "node(s) didn't match pod affinity rules"
_APART = "node(s) didn't match pod anti-affinity rules"
_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

POD_AFFINITY = {
    "near, by zone": Case(_zones("a", "a", "b"), pod("p").near(ZONE), "n1 n2", {N1: [_web("a")]}),
    "near nobody": Case(_zones("a", "b"), pod("p").near(ZONE), _says(f"2 {_NEAR}", nodes=2)),
    "the first of a series may go anywhere": Case(_zones("a", "b"), _web("p").near(ZONE), "n1 n2"),
    "anywhere with the key": Case([node(N1).zone("a"), node(N2)], _web("p").near(ZONE), N1),
    "the second goes to the first": Case(_zones("a", "b"), _web("p").near(ZONE), N2, {N2: [_web("a")]}),
    "one pod must meet all terms": Case(
        _zones("a", "b"),
        pod("p").near(ZONE).near(HOSTNAME, app="db"),
        _says(f"2 {_NEAR}", nodes=2),
        {N1: [_web("a")], N2: [pod("b").label(app="db")]},
    ),
    "apart, by zone": Case(_zones("a", "a", "b"), pod("p").apart(ZONE), N3, {N1: [_web("a")]}),
    "apart from everywhere": Case(
        _zones("a", "b"),
        pod("p").apart(ZONE),
        _says(f"2 {_APART}", nodes=2),
        {N1: [_web("a")], N2: [_web("b")]},
    ),
    "a node without the key is apart from all": Case(
        [node(N1).zone("a"), node(N2)], pod("p").apart(ZONE), N2, {N1: [_web("a")]}
    ),
    "those already there may object": Case(_zones("a", "b"), _web("p"), N2, {N1: [pod("a").apart(ZONE)]}),
    "and say so": Case(_zones("a"), _web("p"), _says(f"1 {_EXISTING}"), {N1: [pod("a").apart(ZONE)]}),
    "affinity is asked first": Case(
        _zones("a"),
        _web("p").near(ZONE, app="db").apart(ZONE),
        _says(f"1 {_NEAR}"),
        {N1: [_web("a"), pod("b").apart(ZONE)]},
    ),
    "then its own anti-affinity": Case(
        _zones("a"), _web("p").apart(ZONE), _says(f"1 {_APART}"), {N1: [_web("a").apart(ZONE)]}
    ),
    "its own namespace by default": Case(
        _zones("a", "b"), pod("p").apart(ZONE), "n1 n2", {N1: [_web("a", "red")]}
    ),
    "namespaces named": Case(
        _zones("a", "b"),
        pod("p").apart(ZONE, namespaces=["red"]),
        N2,
        {N1: [_web("a", "red")], N2: [_web("b")]},
    ),
    "all namespaces": Case(
        _zones("a", "b"), pod("p").apart(ZONE, namespaceSelector={}), N2, {N1: [_web("a", "red")]}
    ),
    "namespaces by label": Case(
        _zones("a", "b"),
        pod("p").apart(ZONE, namespaceSelector={"matchLabels": {"team": "x"}}),
        N2,
        {N1: [_web("a", "red")], N2: [_web("b", "blue")]},
        [_namespace("red", team="x"), _namespace("blue", team="y")],
    ),
    "a namespace nobody created has its name for a label": Case(
        _zones("a", "b"),
        pod("p").apart(ZONE, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "red"}}),
        N2,
        {N1: [_web("a", "red")], N2: [_web("b", "blue")]},
    ),
    "those there object by namespace label": Case(
        _zones("a", "b"),
        _web("p"),
        N2,
        {N1: [pod("a", "red").apart(ZONE, namespaceSelector={"matchLabels": {"team": "x"}})]},
        [_namespace("default", team="x")],
    ),
    "matchLabelKeys": Case(
        _zones("a", "b"),
        _web("p").label(rev="2").apart(ZONE, matchLabelKeys=["rev"]),
        N2,
        {N1: [_web("a").label(rev="2")], N2: [_web("b").label(rev="1")]},
    ),
    "mismatchLabelKeys": Case(
        _zones("a", "b"),
        _web("p").label(rev="2").apart(ZONE, mismatchLabelKeys=["rev"]),
        N1,
        {N1: [_web("a").label(rev="2")], N2: [_web("b").label(rev="1")]},
    ),
}

ALL = {
    **{f"resources: {n}": c for n, c in RESOURCES.items()},
    **{f"node: {n}": c for n, c in NODE_FACTS.items()},
    **{f"node affinity: {n}": c for n, c in NODE_AFFINITY.items()},
    **{f"ports: {n}": c for n, c in PORTS.items()},
    **{f"spread: {n}": c for n, c in SPREAD.items()},
    **{f"pod affinity: {n}": c for n, c in POD_AFFINITY.items()},
}


@pytest.mark.parametrize("name", ALL)
def test_filter(name: str) -> None:
    case = ALL[name]
    found = judge(case.nodes, case.pod, case.running, others=case.others)
    if case.want.startswith("0/"):
        assert found.message.startswith(case.want)
        assert found.feasible == []
    else:
        assert " ".join(found.feasible) == case.want, found.message
