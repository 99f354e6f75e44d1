"""Rules of Kueue that few objects meet, each against all that could be asked: annotations of a topology, flavors merged
over resources, what queues hold, versions of the API, gated pods of several pod sets.

Source: pkg/controller/jobframework/tas.go, flavor_assigner_attempts.go, pkg/cache/scheduler, apis/kueue/v1beta1
conversions, pkg/controller/tas/topology_ungater.go.
"""

from __future__ import annotations

import json
from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from queueworld import Case, World, cohort, queue, workload_of

from fairway.kube.objects import Obj
from fairway.queueing.control.holdings import Holdings
from fairway.queueing.control.ungating import is_admitted_with_topology, ungated
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.topologyassignments import read_assignment
from fairway.queueing.flavors.assignment import Attempt, Mode
from fairway.queueing.flavors.attempts import finalized, merge_resource
from fairway.queueing.integrations.topologyrequest import topology_request
from fairway.queueing.webhooks.conversion import converted

# Annotations of a template

AT = "kueue.x-k8s.io/podset-"
CONSTRAINTS = [{"topology": "rack", "size": 2}]
SAID = {
    "required-topology": ["rack"],
    "preferred-topology": ["block"],
    "unconstrained-topology": ["true", "f", "maybe"],
    "slice-required-topology": ["host"],
    "slice-size": ["2", "two"],
    "slice-required-topology-constraints": [
        json.dumps(CONSTRAINTS),
        "[]",
        "{}",
        json.dumps(CONSTRAINTS * 4),
        "x",
    ],
    "group-name": ["g"],
}


def asked(said: dict[str, str], index: str, sub: str, count: int | None) -> Obj | None:
    """The request, one field after another."""
    found: Obj = {}
    one_slice = {"slice-required-topology", "slice-size"} <= set(said)
    layers = said.get("slice-required-topology-constraints")
    kinds = [k for k in ("required", "preferred", "unconstrained") if f"{k}-topology" in said]
    if not kinds and not one_slice and layers is None and not index and not sub and count is None:
        return None
    for kind in kinds[:1]:
        value = said[f"{kind}-topology"]
        words = {"true": True, "f": False}
        if kind != "unconstrained":
            found[kind] = value
        elif value in words:
            found[kind] = words[value]
    if layers == json.dumps(CONSTRAINTS):
        found["podsetSliceRequiredTopologyConstraints"] = CONSTRAINTS
    if layers is None and one_slice and said["slice-size"] == "2":
        found |= {"podSetSliceRequiredTopology": "host", "podSetSliceSize": 2}
    fields = {"podIndexLabel": index, "subGroupIndexLabel": sub}
    found |= {k: v for k, v in fields.items() if v}
    if count is not None:
        found["subGroupCount"] = count
    if "group-name" in said and set(kinds) & {"required", "preferred"}:
        found["podSetGroupName"] = "g"
    return found


def test_annotations_that_ask_for_a_topology() -> None:
    tried = 0
    for number in range(len(SAID) + 1):
        for names in combinations(SAID, number):
            for values in product(*(SAID[name] for name in names)):
                said = dict(zip(names, values, strict=True))
                template = {"metadata": {"annotations": {f"{AT}{k}": v for k, v in said.items()}}}
                for index, sub, count in (("", "", None), ("i", "", None), ("", "s", 2), ("", "", 0)):
                    got = topology_request(
                        template, pod_index_label=index, sub_group_label=sub, sub_group_count=count
                    )
                    assert got == asked(said, index, sub, count), (said, index, sub, count)
                    tried += 1
    assert tried > 4_000


# Flavors merged over the resources of a pod set


def account(*flavors: str) -> Any:
    groups = [
        {
            "coveredResources": ["cpu", "gpu"],
            "flavors": [
                {"name": f, "resources": [{"name": r, "nominalQuota": "4"} for r in ("cpu", "gpu")]}
                for f in flavors
            ],
        }
    ]
    flavor_objects = [{"metadata": {"name": f}, "spec": {}} for f in flavors]
    world = World(Case([queue("q", spec={"resourceGroups": groups})], [], {}, flavors=flavor_objects))
    return world.accounts.queues["q"]


def attempt(flavor: str, mode: Mode, reason: str = "", borrow: int = 0, no_fit: str = "") -> Attempt:
    return Attempt(flavor, mode, borrow=borrow, reasons=(reason,) if reason else (), no_fit_reason=no_fit)


def told(merged: dict[str, Attempt]) -> list[tuple[Any, ...]]:
    return [(a.flavor, a.mode, a.borrow, a.reasons, a.no_fit_reason) for a in finalized(merged)]


def test_of_each_flavor_the_worst_resource_counts() -> None:
    q = account("a", "b")
    merged: dict[str, Attempt] = {}
    merge_resource(merged, [attempt("b", Mode.FIT, "y", borrow=2), attempt("a", Mode.FIT, "x")], "cpu", q)
    worse = [
        attempt("b", Mode.PREEMPT, "y", borrow=1, no_fit=conds.WAITING_FOR_QUOTA),
        attempt("a", Mode.FIT, "w"),
    ]
    merge_resource(merged, worse, "gpu", q)
    assert told(merged) == [
        ("a", Mode.FIT, 0, ("w", "x"), ""),
        ("b", Mode.PREEMPT, 2, ("y",), conds.WAITING_FOR_QUOTA),
    ]
    merge_resource(merged, [attempt("b", Mode.FIT, no_fit=conds.EXCEEDS_MAX_QUOTA)], "gpu", q)
    assert told(merged) == [
        ("a", Mode.NO_FIT, 0, ("flavor a does not provide resource gpu", "w", "x"), conds.NO_MATCHING_FLAVOR),
        ("b", Mode.PREEMPT, 2, ("y",), conds.EXCEEDS_MAX_QUOTA),
    ]


def test_a_flavor_that_was_not_tried_does_not_provide_the_resource() -> None:
    q = account("a", "b")
    merged: dict[str, Attempt] = {}
    merge_resource(merged, [attempt("a", Mode.FIT)], "cpu", q)
    merge_resource(merged, [], "gpu", q)
    assert told(merged) == [("a", Mode.FIT, 0, (), "")], "nothing was tried: nothing is said"
    merge_resource(merged, [attempt("b", Mode.FIT)], "gpu", q)
    gone = "flavor a does not provide resource gpu"
    assert told(merged) == [
        ("a", Mode.NO_FIT, 0, (gone,), conds.NO_MATCHING_FLAVOR),
        ("b", Mode.FIT, 0, (), ""),
    ]
    merge_resource(merged, [attempt("other", Mode.FIT)], "memory", q)
    assert [a.mode for a in finalized(merged)] == [Mode.NO_FIT, Mode.FIT, Mode.FIT], (
        "no group has that resource"
    )


# What queues hold


def counted(held: Any) -> tuple[Any, ...]:
    return (
        held.reserving,
        held.admitted,
        {k: v for k, v in held.reserved_usage.items() if v},
        {k: v for k, v in held.admitted_usage.items() if v},
    )


def by_hand(workloads: list[Any]) -> tuple[Any, ...]:
    def total(those: list[Any]) -> dict[Any, int]:
        gpus = sum(w.usage[0][1] for w in those)
        return {those[0].usage[0][0]: gpus} if gpus else {}

    admitted = [w for w in workloads if w.is_admitted]
    return len(workloads), len(admitted), total(workloads), total(admitted)


@pytest.mark.parametrize("seed", range(6))
def test_sums_of_what_is_held_are_those_of_who_holds_it(seed: int) -> None:
    draw = Random(seed)
    world = World(Case([queue(name, gpu=9, cohort="c") for name in "ab"], [], {}, cohorts=[cohort("c")]))
    held = Holdings(world.accounts, blocks_admission=bool(seed % 2))
    (fr,) = world.accounts.queues["a"].quotas
    there: dict[str, Any] = {}

    def one(key: str, **more: Any) -> Any:
        ready = draw.choice(("True", "False"))
        obj = {"status": {"conditions": [{"type": "PodsReady", "status": ready}]}}
        facts = {
            "cluster_queue": draw.choice("ab"),
            "queue": f"ns/{draw.choice('xy')}",
            "usage": ((fr, draw.randint(1, 3)),),
        }
        flags = {"is_admitted": draw.random() < 0.5, "is_evicted": draw.random() < 0.5}
        return workload_of(key=key, uid=key, obj=obj, has_quota=True, **(facts | flags | more))

    for _ in range(80):
        key = f"ns/w{draw.randint(0, 5)}"
        before = there.get(key)
        step = draw.choice(("hold", "refresh", "release"))
        if step == "hold":
            there[key] = one(key)
            held.hold(there[key])
        elif step == "release":
            assert held.release(key) is there.pop(key, None)
        elif before is not None:
            there[key] = one(key, cluster_queue=before.cluster_queue, queue=before.queue, usage=before.usage)
            assert held.refresh(before, there[key]) == (before.is_evicted != there[key].is_evicted)
            was_waiting = key in held.not_ready
            ready = there[key].obj["status"]["conditions"][0]["status"] == "True"
            assert held.note_readiness(key, there[key].obj) == (was_waiting and ready)
        for name in "ab":
            assert counted(held.of_queue(name)) == by_hand(
                [w for w in there.values() if w.cluster_queue == name]
            )
            assert set(world.accounts.queues[name].workloads) == {
                k for k, w in there.items() if w.cluster_queue == name
            }
        for name in "xy":
            assert counted(held.of_local_queue(f"ns/{name}")) == by_hand(
                [w for w in there.values() if w.queue == f"ns/{name}"]
            )
        assert world.accounts.holders == there
        if seed % 2:
            late = {k for k, w in there.items() if w.obj["status"]["conditions"][0]["status"] != "True"}
            assert set(held.not_ready) == late
        else:
            assert not held.not_ready
    twin = held.copy(world.accounts)
    for key in list(there):
        held.release(key)
    assert sum(twin.of_queue(name).reserving for name in "ab") == len(there)


# Versions of the API

DOMAINS = {
    "levels": ["rack", "kubernetes.io/hostname"],
    "domains": [{"values": ["r", "a"], "count": 2}, {"values": ["r", "b"], "count": 1}],
}


def new(kind: str, spec: Obj, **status: Any) -> Obj:
    made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    return {**made, "status": status} if status else made


OLD_API = "kueue.x-k8s.io/v1beta1"
OLD: dict[str, tuple[Obj, Obj]] = {
    "a remote cluster": (
        new(
            "MultiKueueCluster",
            {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
        ),
        {"spec": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
    ),
    "a remote cluster by its profile": (
        new("MultiKueueCluster", {"clusterSource": {"clusterProfileRef": {"name": "p"}}}),
        {"spec": {"kubeConfig": {"location": "", "locationType": ""}, "clusterProfileRef": {"name": "p"}}},
    ),
    "a config of remote clusters": (
        new("MultiKueueConfig", {"clusters": ["a"], "quotaManagement": {}}),
        {"spec": {"clusters": ["a"]}},
    ),
    "a queue": (
        new("ClusterQueue", {"cohortName": "c", "concurrentAdmissionPolicy": {}, "stopPolicy": "None"}),
        {"spec": {"cohort": "c", "stopPolicy": "None"}},
    ),
    "a local queue": (
        new("LocalQueue", {"clusterQueue": "a"}, flavorsUsage=[{"name": "f"}]),
        {"spec": {"clusterQueue": "a"}, "status": {"flavorUsage": [{"name": "f"}]}},
    ),
    "a workload's class": (
        new(
            "Workload",
            {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"}},
        ),
        {"spec": {"priorityClassSource": "scheduling.k8s.io/priorityclass", "priorityClassName": "p"}},
    ),
    "a workload's class of another kind": (
        new("Workload", {"priorityClassRef": {"group": "g", "kind": "K", "name": "p"}}),
        {"spec": {}},
    ),
    "a workload's gates": (
        new(
            "Workload",
            {"preemptionGates": [{"name": "g"}], "active": True},
            preemptionGates=[{"name": "g"}],
            conditions=[],
        ),
        {"spec": {"active": True}, "status": {"conditions": []}},
    ),
    "a workload's layers": (
        new(
            "Workload",
            {
                "podSets": [
                    {
                        "topologyRequest": {
                            "required": "r",
                            "podsetSliceRequiredTopologyConstraints": CONSTRAINTS,
                        }
                    },
                    {"name": "b"},
                ]
            },
        ),
        {"spec": {"podSets": [{"topologyRequest": {"required": "r"}}, {"name": "b"}]}},
    ),
    "a workload's time": (
        new("Workload", {}, accumulatedPastExecutionTimeSeconds=5),
        {"spec": {}, "status": {"accumulatedPastExexcutionTimeSeconds": 5}},
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_what_clients_of_v1beta1_are_told(name: str) -> None:
    obj, want = OLD[name]
    told = converted(obj, OLD_API)
    assert told["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert {k: told[k] for k in ("spec", "status") if k in told} == want


def test_a_cluster_of_nowhere_has_no_source() -> None:
    for given, want in (
        (
            {"kubeConfig": {"location": "", "locationType": ""}, "clusterProfileRef": {"name": "p"}},
            {"clusterProfileRef": {"name": "p"}},
        ),
        ({"kubeConfig": {"location": "s"}}, {"kubeConfig": {"location": "s"}}),
        ({}, {}),
    ):
        old = {**new("MultiKueueCluster", given), "apiVersion": "kueue.x-k8s.io/v1beta1"}
        assert converted(old)["spec"] == {"clusterSource": want}


def test_a_topology_assignment_is_the_same_in_both_versions() -> None:
    placed = [{"name": "main", "topologyAssignment": DOMAINS}, {"name": "plain"}]
    old = {
        **new("Workload", {}, admission={"clusterQueue": "q", "podSetAssignments": placed}),
        "apiVersion": "kueue.x-k8s.io/v1beta1",
    }
    hub = converted(old)
    first, second = hub["status"]["admission"]["podSetAssignments"]
    assert second == {"name": "plain"} and first["topologyAssignment"] != DOMAINS
    assert read_assignment(first["topologyAssignment"]) == read_assignment(DOMAINS)
    assert converted(hub, OLD_API)["status"] == old["status"]


# Gated pods


def workload(*pod_sets: tuple[str, int, Obj, list[tuple[str, int]] | None], **status: Any) -> Obj:
    """Pod sets with their count, request and domains (None: placed by nobody)."""
    assignments: list[Obj] = []
    for name, count, _, domains in pod_sets:
        placed: Obj = {"name": name, "count": count}
        if domains is not None:
            told = [{"values": [host], "count": n} for host, n in domains]
            placed["topologyAssignment"] = {"levels": ["kubernetes.io/hostname"], "domains": told}
        assignments.append(placed)
    return {
        "metadata": {"name": "w", "namespace": "a"},
        "spec": {"podSets": [{"name": n, "count": c, "topologyRequest": r} for n, c, r, _ in pod_sets]},
        "status": {
            "conditions": [{"type": "Admitted", "status": "True"}],
            "admission": {"podSetAssignments": assignments},
            **status,
        },
    }


def pod(
    name: str, of: str = "main", *, node: str = "", gates: tuple[str, ...] = (), phase: str = "", **meta: str
) -> Obj:
    labels = {"kueue.x-k8s.io/podset": of, **{k: v for k, v in meta.items() if k != "offset"}}
    notes = {"kueue.x-k8s.io/pod-index-offset": meta["offset"]} if "offset" in meta else {}
    spec: Obj = {"nodeSelector": {"zone": "z", **({"kubernetes.io/hostname": node} if node else {})}}
    names = [*([] if node else ["kueue.x-k8s.io/topology"]), *gates]
    if names:
        spec["schedulingGates"] = [{"name": n} for n in names]
    return {
        "metadata": {"name": name, "labels": labels, "annotations": notes},
        "spec": spec,
        "status": {"phase": phase},
    }


def placed(of: Obj, *pods: Obj) -> list[str]:
    actions: list[Any] = ungated(of, pods)
    for action in actions:
        assert action.obj["spec"]["nodeSelector"]["zone"] == "z", "what the pod asked for itself stays"
    return [
        f"{a.obj['metadata']['name']}→{a.obj['spec']['nodeSelector']['kubernetes.io/hostname']}"
        for a in actions
    ]


RANKED = {"podIndexLabel": "rank"}
GROUPED = {"podIndexLabel": "rank", "podSetGroupName": "g"}
TWO = [("n1", 2), ("n2", 2)]
IN_GROUPS = {"podIndexLabel": "rank", "subGroupIndexLabel": "group", "subGroupCount": 2}


def ranked(*ranks: str, of: str = "main", **more: str) -> list[Obj]:
    return [pod(f"{of}{r}", of, rank=r, **more) for r in ranks]


GATED: dict[str, tuple[Obj, list[Obj], list[str]]] = {
    "a leader comes before its workers": (
        workload(("main", 3, GROUPED, [("n1", 1), ("n2", 2)]), ("leader", 1, GROUPED, [("n1", 1)])),
        [*ranked("3", "1", "2"), *ranked("0", of="leader")],
        ["main1→n1", "main2→n2", "main3→n2", "leader0→n1"],
    ),
    "of two as large the first": (
        workload(("a", 2, GROUPED, [("n1", 1), ("n2", 1)]), ("b", 2, GROUPED, [("n3", 1), ("n4", 1)])),
        [*ranked("0", "1", of="a"), *ranked("3", "2", of="b")],
        ["a0→n1", "a1→n2", "b2→n3", "b3→n4"],
    ),
    "ranks from somewhere": (
        workload(("main", 4, RANKED, TWO)),
        [*ranked("1", "2", "4", offset="1")],
        ["main1→n1", "main2→n1", "main4→n2"],
    ),
    "ranks of groups": (
        workload(("main", 4, IN_GROUPS, TWO)),
        [pod("a", rank="1", group="1"), pod("b", rank="0", group="1"), pod("c", rank="0", group="0")],
        ["c→n1", "b→n2", "a→n2"],
    ),
    "a rank beyond its group": (
        workload(("main", 4, IN_GROUPS, TWO)),
        [pod("a", rank="2", group="1"), pod("b", rank="0", group="1")],
        ["a→n1", "b→n1"],
    ),
    "a group too many": (
        workload(("main", 4, IN_GROUPS, TWO)),
        [pod("a", rank="1", group="2"), pod("b", rank="0", group="1")],
        ["a→n1", "b→n1"],
    ),
    "groups of nothing": (
        workload(("main", 4, {**IN_GROUPS, "subGroupCount": 0}, TWO)),
        [pod("a", rank="3", group="0")],
        ["a→n1"],
    ),
    "a rank too many": (workload(("main", 4, RANKED, TWO)), ranked("4", "3"), ["main4→n1", "main3→n1"]),
    "the last rank": (workload(("main", 4, RANKED, TWO)), ranked("3"), ["main3→n2"]),
    "one that runs elsewhere makes ranks worthless": (
        workload(("main", 4, RANKED, TWO)),
        [pod("a", node="n2", rank="0"), *ranked("3")],
        ["main3→n1"],
    ),
    "one that runs where its rank says": (
        workload(("main", 4, RANKED, TWO)),
        [pod("a", node="n1", rank="0"), *ranked("3", "1")],
        ["main1→n1", "main3→n2"],
    ),
    "over is over": (
        workload(("main", 4, {}, TWO)),
        [
            pod("a", node="n1", phase="Succeeded"),
            pod("b", node="n1", phase="Failed"),
            pod("c", node="n1"),
            pod("d"),
            pod("e"),
        ],
        ["d→n1", "e→n2"],
    ),
    "of another pod set": (workload(("main", 4, {}, TWO)), [pod("a", "other"), pod("b")], ["b→n1"]),
    "more pods than room": (workload(("main", 4, {}, [("n1", 1)])), [pod("a"), pod("b")], ["a→n1"]),
    "nobody to an unhealthy node": (
        workload(("main", 4, {}, TWO), unhealthyNodes=[{"name": "n1"}]),
        [pod(n) for n in "abc"],
        ["c→n2"],
    ),
    "a pod set placed by nobody": (
        workload(("main", 2, {}, None), ("other", 2, {}, [("n2", 2)])),
        [pod("a"), pod("b", "other")],
        ["b→n2"],
    ),
}


@pytest.mark.parametrize("case", GATED)
def test_where_gated_pods_go(case: str) -> None:
    of, pods, want = GATED[case]
    assert placed(of, *pods) == want


def test_other_gates_stay() -> None:
    [let_go] = ungated(workload(("main", 4, {}, TWO)), [pod("a", gates=("mine",))])
    assert let_go.obj["spec"]["schedulingGates"] == [{"name": "mine"}]  # type: ignore[union-attr]
    [free] = ungated(workload(("main", 4, {}, TWO)), [pod("a")])
    assert "schedulingGates" not in free.obj["spec"]  # type: ignore[union-attr]


def test_only_an_admitted_workload_with_a_topology_lets_pods_go() -> None:
    whole = workload(("main", 4, {}, TWO))
    assert is_admitted_with_topology(whole)
    waiting = {
        **whole,
        "status": {**whole["status"], "conditions": [{"type": "Admitted", "status": "False"}]},
    }
    evicted = {
        **whole,
        "status": {
            **whole["status"],
            "conditions": [*whole["status"]["conditions"], {"type": "Evicted", "status": "True"}],
        },
    }
    for other in (waiting, workload(("main", 4, {}, None))):
        assert not is_admitted_with_topology(other) and not ungated(other, [pod("a")])
    assert is_admitted_with_topology(evicted) == bool(ungated(evicted, [pod("a")]))
