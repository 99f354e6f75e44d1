"""Where pods go: Kueue's documentation on topology-aware scheduling (KEP-2724) as cases.

The cluster: blocks b1, b2 of racks r1, r2 of hosts; hosts are named `b1-r1-h1` and have 4 GPUs.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueworld import Case, World, flavor, pod_set, queue, running, sentence, taint, usage_of, wl

from fairway.queueing.facts import objects as facts

BLOCK, RACK, HOST = "cloud/block", "cloud/rack", "kubernetes.io/hostname"
LEVELS = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": n} for n in (BLOCK, RACK, HOST)]}}
RACKS_ONLY = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": n} for n in (BLOCK, RACK)]}}
TAS = flavor("default", nodeLabels={"pool": "gpu"}, topologyName="dc")


def host(block: int, rack: int, number: int, gpu: int = 4, **more: Any) -> dict[str, Any]:
    name = f"b{block}-r{rack}-h{number}"
    labels = {"pool": "gpu", BLOCK: f"b{block}", RACK: f"r{rack}", HOST: name, **more.get("labels", {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": more.get("taints", []), "unschedulable": more.get("unschedulable", False)},
        "status": {
            "allocatable": {"gpu": str(gpu), "pods": str(more.get("pods", 10))},
            "conditions": [{"type": "Ready", "status": more.get("ready", "True")}],
        },
    }


NODES = [host(b, r, h) for b in (1, 2) for r in (1, 2) for h in (1, 2)]


def required(level: str) -> dict[str, Any]:
    return {"required": level}


def preferred(level: str) -> dict[str, Any]:
    return {"preferred": level}


ANYWHERE = {"unconstrained": True}


def pods(
    count: int, gpu: int = 1, topology: dict[str, Any] | None = None, **more: Any
) -> list[dict[str, Any]]:
    return [pod_set("main", count, {"gpu": gpu}, topology=topology, **more)]


def on(*hosts: str) -> dict[str, Any]:
    """The assignment of a running workload: one pod on each host."""
    domains = [{"values": [h], "count": 1} for h in hosts]
    return {"topologyAssignment": {"levels": [HOST], "domains": domains}}


def tas_case(waiting: list[dict[str, Any]], want: str, where: str = "", **more: Any) -> tuple[Case, str]:
    case = Case(
        queues=more.pop("queues", [queue("a", 100)]),
        flavors=more.pop("flavors", [TAS]),
        topologies=more.pop("topologies", [LEVELS]),
        nodes=more.pop("nodes", NODES),
        waiting=waiting,
        want={waiting[0]["metadata"]["name"]: want},
        **more,
    )
    return case, where


FIT = "admitted default"
NO_PLACE = "waits TopologyPlacementFailed"

CASES: dict[str, tuple[Case, str]] = {
    "a required rack holds all pods": tas_case(
        [wl("w", "a", pod_sets=pods(8, 1, required(RACK)))], FIT, "b1-r1-h1:4 b1-r1-h2:4"
    ),
    "more than any rack holds": tas_case(
        [wl("w", "a", pod_sets=pods(9, 1, required(RACK)))],
        NO_PLACE,
        'topology "dc" allows to fit only 8 out of 9 pod(s)',
    ),
    "a preferred rack widens to the block": tas_case(
        [wl("w", "a", pod_sets=pods(9, 1, preferred(RACK)))], FIT, "b1-r1-h1:4 b1-r1-h2:4 b1-r2-h1:1"
    ),
    "and beyond the block to several": tas_case(
        [wl("w", "a", pod_sets=pods(17, 1, preferred(RACK)))],
        FIT,
        "b1-r1-h1:4 b1-r1-h2:4 b1-r2-h1:4 b1-r2-h2:4 b2-r1-h1:1",
    ),
    "best fit: the fullest rack that still has room": tas_case(
        [wl("w", "a", pod_sets=pods(2, 1, required(RACK)))],
        FIT,
        "b1-r2-h2:2",
        holding=[
            running(
                "old",
                "a",
                4,
                pod_sets=pods(1, 4, required(HOST)),
                assigned=on("b1-r2-h1"),
            )
        ],
    ),
    "within the rack the host with just enough": tas_case(
        [wl("w", "a", pod_sets=pods(1, 1, required(HOST)))],
        FIT,
        "b1-r1-h1:1",
        holding=[running("old", "a", 3, pod_sets=pods(1, 3, required(HOST)), assigned=on("b1-r1-h1"))],
    ),
    "unconstrained pods fill what is least free": tas_case(
        [wl("w", "a", pod_sets=pods(1, 1, ANYWHERE))],
        FIT,
        "b2-r2-h2:1",
        holding=[running("old", "a", 3, pod_sets=pods(1, 3, required(HOST)), assigned=on("b2-r2-h2"))],
    ),
    "a queue with topology flavors only implies a topology": tas_case(
        [wl("w", "a", pod_sets=pods(2, 4))], FIT, "b1-r1-h1:1 b1-r1-h2:1"
    ),
    "quota counts too": tas_case(
        [wl("w", "a", pod_sets=pods(2, 4, required(RACK)))],
        "waits ExceedsMaxQuota",
        queues=[queue("a", 7)],
    ),
    "pods count against the nodes": tas_case(
        [wl("w", "a", pod_sets=pods(3, 1, required(HOST)))],
        NO_PLACE,
        'topology "dc" allows to fit only 2 out of 3 pod(s)',
        nodes=[host(1, 1, 1, pods=2)],
    ),
    "no host is large enough: which resource is short": tas_case(
        [wl("w", "a", pod_sets=pods(1, 5, required(HOST)))],
        NO_PLACE,
        'doesn\'t allow to fit any of 1 pod(s). Total nodes: 8; excluded: resource "gpu": 8',
    ),
    "a level the topology does not have": tas_case(
        [wl("w", "a", pod_sets=pods(1, 1, required("cloud/row")))],
        "waits NoMatchingFlavor",
        'Flavor "default" does not contain the requested level',
    ),
    "a flavor without topology does not serve such requests": tas_case(
        [wl("w", "a", pod_sets=pods(1, 1, required(HOST)))],
        "waits NoMatchingFlavor",
        'Flavor "default" does not support TopologyAwareScheduling',
        flavors=[flavor("default")],
    ),
    "pods that ask no topology pass a topology flavor by": tas_case(
        [wl("w", "a", pod_sets=pods(1, 1))],
        "admitted plain",
        queues=[queue("a", {"default": 8, "plain": 8})],
        flavors=[TAS, flavor("plain")],
    ),
    "nodes that are not ready do not count": tas_case(
        [wl("w", "a", pod_sets=pods(1, 4, required(HOST)))],
        FIT,
        "b1-r1-h2:1",
        nodes=[host(1, 1, 1, ready="False"), host(1, 1, 2), host(1, 1, 3, unschedulable=True)],
    ),
    "tainted nodes are excluded": tas_case(
        [wl("w", "a", pod_sets=pods(1, 1, required(HOST)))],
        NO_PLACE,
        'Total nodes: 1; excluded: taint "broken=yes:NoSchedule": 1',
        nodes=[host(1, 1, 1, taints=[taint("broken", "yes")])],
    ),
    "a toleration brings them back": tas_case(
        [
            wl(
                "w",
                "a",
                pod_sets=pods(1, 1, required(HOST), tolerations=[{"key": "broken", "operator": "Exists"}]),
            )
        ],
        FIT,
        "b1-r1-h1:1",
        nodes=[host(1, 1, 1, taints=[taint("broken", "yes")])],
    ),
    "a node selector narrows the hosts": tas_case(
        [wl("w", "a", pod_sets=pods(1, 1, required(HOST), nodeSelector={"fast": "yes"}))],
        FIT,
        "b1-r1-h2:1",
        nodes=[host(1, 1, 1), host(1, 1, 2, labels={"fast": "yes"})],
    ),
    "slices stay within their rack": tas_case(
        [
            wl(
                "w",
                "a",
                pod_sets=pods(
                    12,
                    1,
                    {"required": BLOCK, "podSetSliceRequiredTopology": RACK, "podSetSliceSize": 6},
                ),
            )
        ],
        FIT,
        "b1-r1-h1:4 b1-r1-h2:2 b1-r2-h1:4 b1-r2-h2:2",
    ),
    "a slice no rack can hold": tas_case(
        [
            wl(
                "w",
                "a",
                pod_sets=pods(
                    18,
                    1,
                    {"required": BLOCK, "podSetSliceRequiredTopology": RACK, "podSetSliceSize": 9},
                ),
            )
        ],
        NO_PLACE,
        "doesn't allow to fit any of 2 slice(s)",
    ),
    "slices without a main level may spread": tas_case(
        [wl("w", "a", pod_sets=pods(8, 1, {"podSetSliceRequiredTopology": HOST, "podSetSliceSize": 4}))],
        FIT,
        "b1-r1-h1:4 b1-r1-h2:4",
    ),
    "a leader goes where the workers go": tas_case(
        [
            wl(
                "w",
                "a",
                pod_sets=[
                    pod_set("leader", 1, {"gpu": 1}, topology={"required": RACK, "podSetGroupName": "g"}),
                    pod_set("workers", 7, {"gpu": 1}, topology={"required": RACK, "podSetGroupName": "g"}),
                ],
            )
        ],
        FIT,
        "b1-r1-h1:1 / b1-r1-h1:3 b1-r1-h2:4",
    ),
    "leader and workers need one rack together": tas_case(
        [
            wl(
                "w",
                "a",
                pod_sets=[
                    pod_set("leader", 1, {"gpu": 1}, topology={"required": RACK, "podSetGroupName": "g"}),
                    pod_set("workers", 8, {"gpu": 1}, topology={"required": RACK, "podSetGroupName": "g"}),
                ],
            )
        ],
        NO_PLACE,
    ),
    "two pod sets of one workload do not share room": tas_case(
        [
            wl(
                "w",
                "a",
                pod_sets=[
                    pod_set("one", 1, {"gpu": 3}, topology=required(HOST)),
                    pod_set("two", 1, {"gpu": 3}, topology=required(HOST)),
                ],
            )
        ],
        FIT,
        "b1-r1-h1:1 / b1-r1-h2:1",
    ),
    "where the lowest level is the rack its hosts count together": tas_case(
        [wl("w", "a", pod_sets=pods(7, 1, required(RACK)))],
        FIT,
        "b1,r1:7",
        topologies=[RACKS_ONLY],
    ),
    "preemption makes room on the nodes": tas_case(
        [wl("w", "a", pod_sets=pods(1, 4, required(HOST)), priority=5)],
        "preempts old:InClusterQueue",
        nodes=[host(1, 1, 1)],
        queues=[queue("a", 100, within="LowerPriority")],
        holding=[running("old", "a", 4, pod_sets=pods(1, 4, required(HOST)), assigned=on("b1-r1-h1"))],
    ),
    "no preemption where even an empty cluster is too small": tas_case(
        [wl("w", "a", pod_sets=pods(1, 5, required(HOST)), priority=5)],
        NO_PLACE,
        nodes=[host(1, 1, 1)],
        queues=[queue("a", 100, within="LowerPriority")],
        holding=[running("old", "a", 4, pod_sets=pods(1, 4, required(HOST)), assigned=on("b1-r1-h1"))],
    ),
    "balanced placement spreads evenly over two hosts": tas_case(
        [wl("w", "a", pod_sets=pods(6, 1, preferred(HOST)))],
        FIT,
        "b1-r1-h1:3 b1-r1-h2:3",
        gates={"TASBalancedPlacement": True},
        nodes=[host(1, 1, h) for h in (1, 2)],
    ),
    "preferred node affinity decides between hosts where respected": tas_case(
        [
            wl(
                "w",
                "a",
                pod_sets=pods(
                    1,
                    1,
                    required(HOST),
                    affinity={
                        "nodeAffinity": {
                            "preferredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "weight": 10,
                                    "preference": {
                                        "matchExpressions": [
                                            {"key": "fast", "operator": "In", "values": ["yes"]}
                                        ]
                                    },
                                }
                            ]
                        }
                    },
                ),
            )
        ],
        FIT,
        "b1-r1-h2:1",
        gates={"TASRespectNodeAffinityPreferred": True},
        nodes=[host(1, 1, 1), host(1, 1, 2, labels={"fast": "yes"})],
    ),
}


def places(outcome: Any) -> str:
    """`host:pods …`, pod sets separated by ` / `."""
    parts = []
    for ps in outcome.assignment.pod_sets:
        domains = ps.topology.domains if ps.topology is not None else ()
        parts.append(" ".join(f"{','.join(d.values)}:{d.pods}" for d in domains))
    return " / ".join(parts)


@pytest.mark.parametrize(("case", "where"), CASES.values(), ids=CASES.keys())
def test_topology(case: Case, where: str) -> None:
    (outcome,) = World(case).cycle().entries
    assert {outcome.head.workload.key.partition("/")[2]: sentence(outcome)} == case.want
    if outcome.is_admitted:
        assert where in ("", places(outcome))
    else:
        assert where in outcome.message


def test_a_pod_of_another_scheduler_takes_room() -> None:
    world = World(CASES["a required rack holds all pods"][0])
    world.accounts.set_foreign_usage("b1-r1-h1", {"gpu": 1, "pods": 1})
    world.accounts.settle()
    (outcome,) = world.cycle().entries
    assert places(outcome) == "b1-r2-h1:4 b1-r2-h2:4"


def test_a_failed_node_is_replaced_within_the_required_rack() -> None:
    case, _ = CASES["a required rack holds all pods"]
    old = running("old", "a", 4, pod_sets=pods(2, 4, required(BLOCK)))
    domains = [{"values": [h], "count": 1} for h in ("b1-r1-h1", "b1-r1-h2")]
    assignment = old["status"]["admission"]["podSetAssignments"][0]
    assignment |= {
        "topologyAssignment": {"levels": [HOST], "domains": domains},
        "resourceUsage": {"gpu": "8"},
    }
    old["status"]["unhealthyNodes"] = [{"name": "b1-r1-h1"}]
    world = World(Case(**{**vars(case), "holding": [old], "waiting": [old]}))
    assert world.heads()[0].workload.needs_second_pass
    (outcome,) = world.cycle(heads=_second_pass(world)).entries
    assert sentence(outcome) == FIT
    assert places(outcome) == "b1-r1-h2:1 b1-r2-h1:1"


def test_without_a_replacement_the_workload_is_evicted() -> None:
    old = running("old", "a", 4, pod_sets=pods(1, 4, required(HOST)), assigned=on("b1-r1-h1"))
    old["status"]["unhealthyNodes"] = [{"name": "b1-r1-h1"}]
    case, _ = tas_case([old], "", nodes=[host(2, 1, 1, gpu=1)], holding=[old])
    world = World(case)
    (outcome,) = world.cycle(heads=_second_pass(world)).entries
    (eviction,) = outcome.evictions
    assert eviction.reason == "NodeFailures"
    assert eviction.message.endswith("no replacement for unhealthy node(s): b1-r1-h1")


def _second_pass(world: World) -> list[Any]:
    from fairway.queueing.cycle.entries import Head

    return [Head(w, w.cluster_queue) for w in world.accounts.holders.values()]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_nodes_that_come_and_go_leave_what_a_fresh_start_would_see(seed: int) -> None:
    draw = random.Random(seed)
    case, _ = CASES["a required rack holds all pods"]
    world = World(case)
    live = world.accounts
    nodes = {n["metadata"]["name"]: n for n in NODES}
    foreign: dict[str, dict[str, int]] = {}
    for step in range(25):
        name = draw.choice([n["metadata"]["name"] for n in NODES])
        action = draw.choice(("add", "drop", "foreign", "hold", "release", "settle", "copy"))
        if action == "copy":
            left, live = live, live.copy()
            left.set_node(facts.topology_node(host(1, 1, 1, 0)))
        elif action == "add":
            nodes[name] = host(1, draw.randint(1, 2), 1, draw.randint(1, 8))
            nodes[name]["metadata"] = {**nodes[name]["metadata"], "name": name}
            nodes[name]["metadata"]["labels"] = {**nodes[name]["metadata"]["labels"], HOST: name}
            live.set_node(facts.topology_node(nodes[name]))
        elif action == "drop":
            nodes.pop(name, None)
            live.drop_node(name)
        elif action == "foreign":
            foreign[name] = {"gpu": draw.randint(0, 2), "pods": 1}
            live.set_foreign_usage(name, foreign[name])
        elif action == "hold":
            obj = running(f"w{step}", "a", 1, pod_sets=pods(1, 1, required(HOST)), assigned=on(name))
            live.hold(world.reader.read(obj))
        elif action == "release" and live.holders:
            live.release(draw.choice(sorted(live.holders)))
        else:
            live.settle()
    live.settle()
    fresh = World(Case(**{**vars(case), "nodes": list(nodes.values())})).accounts
    for node, usage in foreign.items():
        fresh.set_foreign_usage(node, usage)
    for workload in live.holders.values():
        fresh.hold(workload)
    fresh.settle()
    assert usage_of(live) == usage_of(fresh)
    assert capacity_of(live) == capacity_of(fresh)


def capacity_of(accounts: Any) -> dict[str, dict[str, int]]:
    leaves = accounts.topologies["default"].leaves
    return {name: {r: v for r, v in sorted(leaves[name].capacity.items()) if v} for name in sorted(leaves)}


def elastic(name: str, count: int, replaces: str = "", **more: Any) -> dict[str, Any]:
    notes = {"kueue.x-k8s.io/elastic-job": "true"}
    if replaces:
        notes["kueue.x-k8s.io/workload-slice-replacement-for"] = f"default/{replaces}"
    made = running if "assigned" in more else wl
    return made(name, "a", count, pod_sets=pods(count, 1, ANYWHERE), annotations=notes, **more)


@pytest.mark.parametrize(
    ("count", "where"), [(3, "b1-r1-h1:1 b2-r2-h2:2"), (2, "b2-r2-h2:2"), (1, "b2-r2-h2:1")]
)
def test_an_elastic_job_keeps_its_pods_where_they_are(count: int, where: str) -> None:
    """Two pods fill what the host has left; the third, if any, goes elsewhere."""
    held = {"topologyAssignment": {"levels": [HOST], "domains": [{"values": ["b2-r2-h2"], "count": 2}]}}
    nodes = [host(1, 1, 1), host(2, 2, 2, gpu=2)]
    case, _ = tas_case(
        [elastic("next", count, "first")],
        FIT,
        holding=[elastic("first", 2, assigned=held)],
        nodes=nodes,
        gates={"ElasticJobsViaWorkloadSlicesWithTAS": True},
    )
    (outcome,) = World(case).cycle().entries
    assert (sentence(outcome), places(outcome)) == (FIT, where)
    assert outcome.replaced_slice is not None


def test_an_elastic_job_cannot_require_a_domain() -> None:
    obj = elastic("next", 2)
    obj["spec"]["podSets"] = pods(2, 1, required(RACK))
    case, _ = tas_case([obj], "", gates={"ElasticJobsViaWorkloadSlicesWithTAS": True})
    (outcome,) = World(case).cycle().entries
    assert outcome.message.startswith("failed to assign flavors to pod set main: required topology is not")
