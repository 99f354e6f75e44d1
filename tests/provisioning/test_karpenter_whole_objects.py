"""Karpenter's objects as a whole: NodePools, NodeClaims and Nodes as they are written, plans, and what is left."""

from __future__ import annotations

from typing import Any

import pytest
from karpenterworlds import (
    NOW_US,
    ZONES,
    context,
    kind,
    pod,
    pool,
    pool_object,
    solve,
    state_node,
    wants,
    world,
)

from fairway.kube.taints import Taint, parse_taints
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US, rfc3339
from fairway.provisioning.karpenter.claimfacts import ClaimFacts
from fairway.provisioning.karpenter.disruption.candidates import Candidate, candidates
from fairway.provisioning.karpenter.disruption.simulation import Simulation, simulate
from fairway.provisioning.karpenter.existing import ExistingNode
from fairway.provisioning.karpenter.fleet import NO_PRICE, Fleet
from fairway.provisioning.karpenter.instancetypes import Offering
from fairway.provisioning.karpenter.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    SPOT,
    ZONE,
)
from fairway.provisioning.karpenter.launching import UNAVAILABLE_US
from fairway.provisioning.karpenter.nodeclaims import (
    REGISTRATION_TIMEOUT_US,
    conditions_with,
    launched,
    limit_exceeded,
    node_claim,
    node_of,
    not_initialized,
)
from fairway.provisioning.karpenter.nodepools import Budget, by_weight, duration_us, node_pool, to_v1
from fairway.provisioning.karpenter.packing import Options, Results
from fairway.provisioning.karpenter.planned import MAX_INSTANCE_TYPES, PlannedClaim
from fairway.provisioning.karpenter.podfacts import Shapes
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.statenode import StateNode, effective_taints

# NodePools


def test_a_node_pool_as_a_whole() -> None:
    made = node_pool(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "p", "uid": "u"},
            "spec": {
                "weight": 7,
                "limits": {"cpu": "2", "nodes": "3"},
                "replicas": 0,
                "template": {
                    "metadata": {"labels": {"team": "red"}, "annotations": {"n": "1"}},
                    "spec": {
                        "requirements": [wants("disk", "In", "ssd")],
                        "taints": [{"key": "k", "effect": "PreferNoSchedule"}],
                        "nodeClassRef": {"group": "G", "kind": "NodeClass", "name": "c"},
                    },
                },
                "disruption": {
                    "consolidateAfter": "1h2m3s",
                    "consolidationPolicy": "WhenEmpty",
                    "budgets": [
                        {},
                        {"nodes": 3, "reasons": [], "schedule": "@daily", "duration": "1h"},
                        {"nodes": "0", "reasons": ["Empty"]},
                    ],
                },
            },
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}]
            },
        }
    )
    assert (made.name, made.uid, made.weight, made.limits) == ("p", "u", 7, {"cpu": 2000, "nodes": 3})
    assert (made.is_static, made.is_ready, made.has_preferred_taint) == (True, False, True)
    assert made.labels == {"team": "red", NODEPOOL: "p", "G/nodeclass": "c"}
    assert made.annotations == {"n": "1"}
    assert (
        str(made.requirements)
        == "G/nodeclass In [c], disk In [ssd], karpenter.sh/nodepool In [p], team In [red]"
    )
    assert str(made.label_requirements) == "disk In [ssd], team In [red]"
    assert str(made.asked) == "disk In [ssd]"
    assert (made.consolidate_after_us, made.consolidation_policy) == (3723 * SECOND_US, "WhenEmpty")
    assert made.budgets == (
        Budget("10%"),
        Budget("3", (), "@daily", HOUR_US),
        Budget("0", ("Empty",)),
    )
    plain = pool("q")
    assert (plain.is_static, plain.is_ready, plain.has_preferred_taint, plain.limits) == (
        False,
        True,
        False,
        None,
    )
    assert (plain.consolidate_after_us, plain.budgets, plain.uid) == (0, (Budget("10%"),), "")
    ready = {**pool_object(), "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    assert node_pool(ready).is_ready
    assert node_pool({"spec": {}}).labels == {NODEPOOL: ""}


def test_durations_and_the_order_of_pools() -> None:
    assert [duration_us(t) for t in ("Never", "0s", "90m", "1h1m1s", "")] == [
        None,
        0,
        5400 * SECOND_US,
        3661 * SECOND_US,
        0,
    ]
    pools = [pool(n, weight=w) for n, w in (("a", 1), ("c", 1), ("b", 9), ("d", 0))]
    assert [p.name for p in by_weight(pools)] == ["b", "c", "a", "d"]


def test_which_templates_are_one() -> None:
    def hash_of(**spec: Any) -> str:
        metadata = spec.pop("metadata", {})
        return node_pool({"spec": {"template": {"metadata": metadata, "spec": spec}}}).hash

    base = hash_of(taints=[{"key": "a"}], expireAfter="1h")
    for same in (
        {"taints": [{"key": "a"}], "expireAfter": "60m"},
        {"taints": [{"key": "a", "value": ""}], "expireAfter": "1h", "terminationGracePeriod": None},
        {"taints": [{"key": "a"}], "expireAfter": "1h", "requirements": [wants("k", "Exists")]},
        {"taints": [{"key": "b"}, {"key": "a"}, {"key": "b"}], "expireAfter": "1h"},
    ):
        assert hash_of(**same) == base
    for other in (
        {"taints": [{"key": "a"}], "expireAfter": "2h"},
        {"taints": [{"key": "a"}], "expireAfter": "Never"},
        {"taints": [{"key": "a"}], "expireAfter": "1h", "terminationGracePeriod": "0s"},
        {"taints": [{"key": "a"}], "expireAfter": "1h", "startupTaints": []},
        {"taints": [{"key": "a"}, {"key": "b"}], "expireAfter": "1h"},
        {"taints": [{"key": "a"}], "expireAfter": "1h", "metadata": {"labels": {"l": "v"}}},
    ):
        assert hash_of(**other) != base


def test_an_old_node_pool_as_a_new_one() -> None:
    def old(**more: Any) -> dict[str, Any]:
        spec = {
            "nodeClassRef": {"apiVersion": "g.io/v1", "kind": "C", "name": "n"},
            "kubelet": {"maxPods": 9},
        }
        return {
            "apiVersion": "karpenter.sh/v1beta1",
            "kind": "NodePool",
            "metadata": {"name": "p"},
            "spec": {"weight": 2, "template": {"metadata": {}, "spec": spec}, **more},
        }

    def new(expire: str, **disruption: str) -> dict[str, Any]:
        spec = {"nodeClassRef": {"group": "g.io", "kind": "C", "name": "n"}, "expireAfter": expire}
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "p"},
            "spec": {"weight": 2, "template": {"metadata": {}, "spec": spec}, "disruption": disruption},
        }

    under = "WhenEmptyOrUnderutilized"
    for before, after in (
        (old(), new("720h", consolidationPolicy=under, consolidateAfter="0s")),
        (
            old(disruption={"consolidationPolicy": "WhenUnderutilized", "expireAfter": "Never"}),
            new("Never", consolidationPolicy=under, consolidateAfter="0s"),
        ),
        (
            old(disruption={"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"}),
            new("720h", consolidationPolicy="WhenEmpty", consolidateAfter="5m"),
        ),
    ):
        assert to_v1(before) == after
    for kept in (pool_object(), {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodeClaim"}):
        assert to_v1(kept) is kept
    named = {"nodeClassRef": {"group": "h.io"}}
    told = to_v1(
        {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "spec": {"template": {"spec": named}}}
    )
    assert told["spec"]["template"]["spec"]["nodeClassRef"] == {"group": "h.io", "kind": "", "name": ""}


# NodeClaims and Nodes

SMALL, LARGE = kind("s.small", 4, spot=60_000, zones=ZONES[:2]), kind("l.large", 16, zones=ZONES[:1])


def _plan(**of: Any) -> PlannedClaim:
    made = world([SMALL, LARGE], [node_pool(pool_object(**of))], daemons=(pod("agent", "250m"),))
    tolerant = [{"operator": "Exists"}]
    (plan,) = solve(made, [pod("a", "2", tolerations=tolerant)]).claims
    return plan


def test_a_node_claim_whole() -> None:
    of = pool_object(
        requirements=[
            wants("team", "In", "y", "x"),
            wants("disk", "Exists"),
            wants("rank", "Gt", "4"),
            wants("level", "NotIn", "low"),
            wants("none", "DoesNotExist"),
            wants(INSTANCE_TYPE, "Exists", least=2),
        ],
        taints=[{"key": "t", "effect": "NoSchedule"}],
        labels={"own": "v"},
    )
    template = of["spec"]["template"]
    template["metadata"]["annotations"] = {"note": "1"}
    template["spec"] |= {
        "startupTaints": [{"key": "s", "effect": "NoExecute"}],
        "terminationGracePeriod": "1h",
    }
    of["metadata"]["uid"] = "u-1"
    made = world(
        [SMALL, LARGE], [node_pool(of)], daemons=(pod("agent", "250m", tolerations=[{"operator": "Exists"}]),)
    )
    (plan,) = solve(made, [pod("a", "2", tolerations=[{"operator": "Exists"}])]).claims
    assert node_claim(plan, "default-abcde") == {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "default-abcde",
            "generateName": "default-",
            "labels": {
                NODEPOOL: "default",
                "example.com/nodeclass": "default",
                "own": "v",
                "team": "x",
                "disk": "0",
                "rank": "5",
                "level": "0",
            },
            "annotations": {
                "note": "1",
                "karpenter.sh/nodepool-hash": plan.pool.hash,
                "karpenter.sh/nodepool-hash-version": "v3",
                "karpenter.sh/nodeclaim-min-values-relaxed": "false",
            },
            "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodePool",
                    "name": "default",
                    "uid": "u-1",
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeClassRef": {"group": "example.com", "kind": "NodeClass", "name": "default"},
            "requirements": [
                {"key": "disk", "operator": "Exists"},
                {"key": "example.com/nodeclass", "operator": "In", "values": ["default"]},
                {"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND, SPOT]},
                {"key": NODEPOOL, "operator": "In", "values": ["default"]},
                {"key": "level", "operator": "NotIn", "values": ["low"]},
                {"key": INSTANCE_TYPE, "operator": "In", "values": ["l.large", "s.small"], "minValues": 2},
                {"key": "none", "operator": "DoesNotExist"},
                {"key": "own", "operator": "In", "values": ["v"]},
                {"key": "rank", "operator": "Gte", "values": ["5"]},
                {"key": "team", "operator": "In", "values": ["x", "y"]},
            ],
            "resources": {"requests": {"cpu": "2250m", "memory": "2Gi", "pods": "2"}},
            "taints": [{"key": "t", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "s", "effect": "NoExecute"}],
            "terminationGracePeriod": "1h",
            "expireAfter": "720h",
        },
    }


def test_a_launched_claim_and_its_node() -> None:
    claim = node_claim(_plan(labels={"own": "v"}), "c")
    claim["metadata"]["annotations"] = {"note": "1"}
    claim["spec"] |= {"taints": [{"key": "t"}], "startupTaints": [{"key": "s"}]}
    claim["status"] = {"nodeName": "n"}
    offering = Offering("zone-2", SPOT, 60_000, labels=(("reservation", "r"), ("own", "other")))
    up = launched(claim, SMALL, offering, "cloud:///i", NOW_US)
    labels = {
        INSTANCE_TYPE: "s.small",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "fairway.dev/instance-family": "s",
        "fairway.dev/instance-cpu": "4",
        ZONE: "zone-2",
        CAPACITY_TYPE: SPOT,
        "reservation": "r",
        NODEPOOL: "default",
        "example.com/nodeclass": "default",
        "own": "v",
    }
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    now = rfc3339(NOW_US)
    assert up["metadata"] == {**claim["metadata"], "labels": labels}
    assert up["spec"] is claim["spec"]
    assert up["status"] == {
        "nodeName": "n",
        "providerID": "cloud:///i",
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [
            {"type": "Launched", "status": "True", "reason": "Launched", "lastTransitionTime": now},
            {
                "type": "Ready",
                "status": "Unknown",
                "reason": "ReconcilingDependents",
                "lastTransitionTime": now,
            },
        ],
    }
    assert node_of(up, "n-1") == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n-1",
            "labels": {**labels, HOSTNAME: "n-1"},
            "annotations": {"note": "1"},
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "providerID": "cloud:///i",
            "taints": [
                {"key": "t"},
                {"key": "s"},
                {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
            ],
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    bare = node_of({"metadata": {}}, "n")
    assert bare["spec"] == {
        "providerID": "",
        "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
    }
    assert bare["status"] == {"capacity": {}, "allocatable": {}}


def test_a_claim_is_ready_when_all_three_are_true() -> None:
    def told(conditions: list[Any]) -> dict[str, tuple[str, str]]:
        return {c["type"]: (c["status"], c["reason"]) for c in conditions}

    waiting, ready = ("Unknown", "ReconcilingDependents"), ("True", "Ready")
    made: list[Any] = []
    for i, name in enumerate(("Registered", "Launched", "Initialized")):
        made = conditions_with(made, name, "True", name, "", NOW_US)
        assert told(made)["Ready"] == (ready if i == 2 else waiting)
    drifted = conditions_with(made, "Drifted", "True", "D", "m", NOW_US + SECOND_US)
    assert told(drifted) == {**told(made), "Drifted": ("True", "D")}
    lost = conditions_with(drifted, "Registered", "False", "Gone", "", NOW_US)
    assert told(lost)["Ready"] == waiting
    assert told(conditions_with([], "Drifted", "True", "D", "", NOW_US)) == {
        "Drifted": ("True", "D"),
        "Ready": waiting,
    }


def test_what_keeps_a_claim_from_being_initialized() -> None:
    claim: dict[str, Any] = {"spec": {"resources": {"requests": {"cpu": "1", "gpu": "0", "x": "2"}}}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4", "x": "2"}}
    assert not_initialized(claim, {"status": ready}) is None
    assert not_initialized({}, {"status": ready}) is None
    short = {**ready, "allocatable": {"cpu": "4", "x": 0}}
    assert not_initialized(claim, {"status": short}) == (
        "ResourceNotRegistered",
        'Resource "x" was requested but not registered',
    )
    claim["spec"]["startupTaints"] = [{"key": "s", "value": "v", "effect": "NoSchedule"}]
    ephemeral = {"key": "readiness.k8s.io/net", "value": "", "effect": "NoSchedule"}
    startup = {"key": "s", "value": "other", "effect": "NoSchedule"}
    for taints, want in (
        ([{"key": "s", "effect": "NoExecute"}, {"key": "t"}], None),
        ([ephemeral, startup], ("StartupTaintsExist", 'StartupTaint "s=other:NoSchedule" still exists')),
        (
            [ephemeral],
            (
                "KnownEphemeralTaintsExist",
                'KnownEphemeralTaint "readiness.k8s.io/net:NoSchedule" still exists',
            ),
        ),
    ):
        assert not_initialized(claim, {"spec": {"taints": taints}, "status": ready}) == want


def test_limits_and_times() -> None:
    of = pool(limits={"cpu": "4", "nodes": "1"})
    usage = {"nodes": 2, "cpu": 4001, "memory": 9}
    assert (
        limit_exceeded(of, usage)
        == "resource usage exceeds limit (resource-name=cpu, usage=4001, limit=4000)"
    )
    assert limit_exceeded(of, {"nodes": 1, "cpu": 4000}) is None
    assert limit_exceeded(pool(), usage) is None
    assert (UNAVAILABLE_US, REGISTRATION_TIMEOUT_US) == (3 * MINUTE_US, 15 * MINUTE_US)


# Plans


def test_plans_with_fewer_types() -> None:
    types = [
        kind("a.1", 4, price=100, spot=90),
        kind("a.2", 4, price=200),
        kind("b.3", 4, price=300, spot=250, sold_out=tuple((z, SPOT) for z in ZONES)),
    ]
    made = world(types, [pool(requirements=[wants("fairway.dev/instance-family", "Exists", least=2)])])
    (plan,) = solve(made, [pod("p")]).claims
    assert (plan.type_names, plan.cheapest(), plan.min_values_used) == (["a.1", "a.2", "b.3"], 90, True)
    short = "minValues requirement is not met for label(s) (label(s)=[fairway.dev/instance-family])"
    # What a launch may cost: spot where there is any, else on demand.
    for price, want in ((301, ["a.1", "a.2", "b.3"]), (300, short), (91, short)):
        found = plan.cheaper_than(price)
        assert (found if isinstance(found, str) else found.type_names) == want
    assert isinstance(plan.cheaper_than(90), PlannedClaim)  # of no types nothing falls short
    for most, want in ((3, ["a.1", "a.2", "b.3"]), (2, f"validating minValues, {short}")):
        found = plan.truncated(most, best_effort=False)
        assert (found if isinstance(found, str) else found.type_names) == want
    assert plan.truncated(3, best_effort=False) is plan
    fewer = plan.truncated(2, best_effort=True)
    assert isinstance(fewer, PlannedClaim) and fewer.type_names == ["a.1", "a.2"]
    assert plan.allows(CAPACITY_TYPE, SPOT) and not plan.allows(NODEPOOL, "other")
    on_spot = plan.asking(plan.requirements.plus([one_of(CAPACITY_TYPE, (SPOT,))]))
    assert (on_spot.type_names, on_spot.offered().type_names) == (["a.1", "a.2", "b.3"], ["a.1"])
    assert plan.of_types([]).cheapest() == NO_PRICE
    assert MAX_INSTANCE_TYPES == 600
    assert PlannedClaim(plan.pool, plan.fleet, plan.requirements, 0, {}, ()).min_values_relaxed is False
    assert PlannedClaim(plan.pool, plan.fleet, plan.requirements, 0, {}, ()).min_values_used is False


# Nodes that are there


def test_what_is_left_of_a_node_once_its_daemons_came() -> None:
    """What of them is there already is not set aside again; a node that says nothing of pods holds none."""
    agents = (
        pod("agent", "1"),
        pod("big", "500m", "2Gi"),
        pod("elsewhere", "1", nodeSelector={"team": "red"}),
        pod("odd", "1", gpu=1, tolerations=[{"operator": "Exists"}]),
    )
    node = state_node("n", SMALL, daemon_requests={"cpu": 400, "memory": 9 << 30})
    left = {"cpu": 4000 - (2500 - 400), "memory": 16 << 30, "pods": 110 - 3}
    assert ExistingNode(node, agents).remaining == left
    tainted = state_node("n", SMALL, taints=[{"key": "k", "effect": "NoSchedule"}])
    assert ExistingNode(tainted, agents).remaining == {"cpu": 3000, "memory": 15 << 30, "pods": 109}
    bare = StateNode("n", {}, (), {}, {"cpu": 1000})
    assert ExistingNode(bare, agents[:1]).remaining == {"cpu": 0, "pods": 0}


@pytest.mark.parametrize(
    ("available", "holds"),
    [
        ({"cpu": 1000, "pods": 1}, True),
        ({"cpu": 999, "pods": 1}, False),
        ({"cpu": 1000, "pods": 0}, False),
        ({"cpu": 1000}, False),
        ({"pods": 1}, False),
        ({"cpu": 1000, "pods": 1, "memory": 0}, True),
        # Source: resources.Fits: where more is taken than there is, nothing fits, whatever it asks for.
        ({"cpu": 1000, "pods": 1, "memory": -1}, False),
        ({"cpu": 1000, "pods": 1, "odd/thing": -1}, False),
    ],
)
def test_whom_a_node_holds_by_its_size(available: dict[str, int], holds: bool) -> None:
    node = ExistingNode(StateNode("n", {}, (), {}, available), ())
    one = pod("a", container={"resources": {"requests": {"cpu": "1"}}})
    shape = Shapes().of(one)
    assert shape.requests == {"cpu": 1000, "pods": 1}
    assert node.never_holds(shape) is not holds
    # What a node does not have, not even one of it is there.
    asks = pod("b", container={"resources": {"requests": {"cpu": "1", "odd/thing": "1"}}})
    assert node.never_holds(Shapes().of(asks))


def test_taints_that_count_before_a_node_is_initialized() -> None:
    raw = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "s", "value": "v", "effect": "NoSchedule"},
        {"key": "s", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "readiness.k8s.io/x", "effect": "NoExecute"},
    ]
    startup = [{"key": "s", "effect": "NoSchedule"}]
    assert effective_taints(raw, startup, initialized=True) == parse_taints(raw)
    assert effective_taints(raw, startup, initialized=False) == (
        Taint("a", "", "NoSchedule"),
        Taint("s", "", "NoExecute"),
        Taint("node.kubernetes.io/unreachable", "", "NoExecute"),
    )
    assert effective_taints(None, None, initialized=False) == ()


def test_facts_of_a_claim() -> None:
    def claim(**of: Any) -> dict[str, Any]:
        return {"metadata": {"name": "c", "labels": {NODEPOOL: "p"}, **of}, "spec": spec, "status": status}

    spec, status = {}, {
        "conditions": [
            {"type": "Launched", "status": "True", "lastTransitionTime": rfc3339(NOW_US)},
            {"type": "Drifted", "status": "False", "lastTransitionTime": rfc3339(NOW_US)},
            {"type": "Consolidatable", "status": "True"},
        ],
        "lastPodEventTime": rfc3339(NOW_US + SECOND_US),
    }  # fmt: skip
    facts = ClaimFacts(claim())
    assert (facts.name, facts.pool, facts.is_going, facts.last_pod_event_us) == (
        "c",
        "p",
        False,
        NOW_US + SECOND_US,
    )
    assert [facts.is_true(c) for c in ("Launched", "Drifted", "Consolidatable", "Ready")] == [
        True,
        False,
        True,
        False,
    ]
    assert [facts.true_since_us(c) for c in ("Launched", "Drifted", "Consolidatable")] == [NOW_US, 0, 0]
    assert ClaimFacts(claim(), facts).is_restated(facts)
    assert ClaimFacts({**claim(), "status": {"conditions": status["conditions"][:1]}}, facts).is_restated(
        facts
    )
    for other in (
        {**claim(), "spec": {}},
        {**claim(), "status": {"conditions": status["conditions"][2:]}},
        claim(labels={NODEPOOL: "q"}),
        claim(deletionTimestamp=rfc3339(NOW_US)),
    ):
        assert not ClaimFacts(other, facts).is_restated(facts)
    assert ClaimFacts(claim(deletionTimestamp=rfc3339(NOW_US))).is_going
    assert (ClaimFacts({}).name, ClaimFacts({}).pool, ClaimFacts({}).last_pod_event_us) == ("", "", None)


# What would become of the pods


def _gone(made: Any, *names: str) -> list[Candidate]:
    return [c for c in candidates(made)[0] if c.name in names]


def test_how_many_pods_without_a_place_are_named() -> None:
    for count, more in ((1, ""), (5, ""), (6, " and 1 other(s)"), (8, " and 3 other(s)")):
        simulation = Simulation(Results((), (), ()), tuple((f"d/{i}", f"why{i}") for i in range(count)))
        shown = "".join(f"d/{i} => why{i} " for i in range(min(count, 5)))
        assert simulation.text() == f"not all pods would schedule, {shown}{more}"


def test_whose_pods_make_it_fail_that_they_have_no_place() -> None:
    """Neither those that wait anyway nor, on nodes that come up, those of nodes that go anyway."""
    stuck = {"nodeSelector": {HOSTNAME: "nowhere"}}
    going = state_node("g", SMALL, (pod("of-going", "1", node="g"),), is_marked_for_deletion=True)
    coming = state_node("u", LARGE, is_initialized=False, has_node=False)
    up = state_node("v", LARGE, is_initialized=False)
    for nodes, pending, want in (
        ((going, coming), (), ()),
        ((going,), (pod("waits", **stuck),), ()),
        ((going, coming), (pod("waits"),), ()),
    ):
        made = context(world([SMALL], nodes=nodes), pending=pending)
        assert simulate(made, [], consolidating=True).refusals == want
    full = state_node("f", SMALL, (pod("moves", "2", node="f"), pod("stays", "1", node="f", **stuck)))
    for others, want in (
        ((coming,), "nodeclaim/u-claim"),
        ((up,), "nodeclaim/v-claim, node/v"),
        ((StateNode("w", up.labels, (), up.capacity, up.available, is_initialized=False),), "node/w"),
    ):
        made = context(world([SMALL], nodes=(full, *others)))
        found = dict(simulate(made, _gone(made, "f"), consolidating=True).refusals)
        assert found["default/moves"] == f"would schedule against uninitialized {want}"
        assert found["default/stays"].startswith("incompatible requirements")
        assert len(found) == 2


def test_options_of_a_simulation() -> None:
    plain = Options()
    assert (plain.respects_preferences, plain.best_effort, plain.is_consolidation) == (True, False, False)
    other = Options("Ignore", "BestEffort", True, 3)
    assert (other.respects_preferences, other.best_effort, other.max_instance_types) == (False, True, 3)
    assert plain.max_instance_types == MAX_INSTANCE_TYPES


def test_a_fleet_that_two_types_of_one_name_share_gives_the_first() -> None:
    first, second = kind("a", 4), kind("a", 8)
    fleet = Fleet([first, second])
    assert fleet.named("a") is first and fleet.named("b") is None
    assert fleet.of(fleet.mask_of([second])) == [second]
