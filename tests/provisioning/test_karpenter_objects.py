"""NodePools read, refused and converted; NodeClaims written, launched and brought up; batches, marks, events."""

from __future__ import annotations

from typing import Any

import pytest
from karpenterworlds import GPU, NOW_US, ZONES, kind, pod, pool, pool_object, solve, wants, world

from fairway.catalog.catalog import load_catalog
from fairway.kube.manifest import read_text
from fairway.kube.objects import Key
from fairway.kube.timestamps import HOUR_US, SECOND_US, rfc3339
from fairway.provisioning.karpenter.batching import Batch
from fairway.provisioning.karpenter.claimfacts import ClaimFacts
from fairway.provisioning.karpenter.disruption.marks import (
    consolidatable_at_us,
    drift_reason,
    expires_at_us,
    rests_until_us,
)
from fairway.provisioning.karpenter.events import (
    failed_scheduling,
    insufficient_capacity,
    no_compatible_types,
    nominated,
    terminating,
)
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.instancetypes import types_of_catalog
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from fairway.provisioning.karpenter.launching import launch_choices, no_capacity_text
from fairway.provisioning.karpenter.nodeclaims import (
    is_true,
    launched,
    limit_exceeded,
    node_claim,
    node_of,
    not_initialized,
    with_condition,
)
from fairway.provisioning.karpenter.nodepoolchecks import problems_of
from fairway.provisioning.karpenter.nodepools import node_pool

BETA = """
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: old}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: default}
      kubelet: {maxPods: 20}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 24h}
"""
V1 = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: new}
spec:
  template:
    metadata: {LABELS}
    spec:
      requirements: [REQUIREMENT]
      taints: TAINTS
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: EXPIRE
  disruption: {DISRUPTION}
  limits: {nvidia.com/gpu: LIMIT}
  weight: WEIGHT
"""
GOOD = {
    "LABELS": "",
    "REQUIREMENT": "",
    "TAINTS": "[]",
    "EXPIRE": "Never",
    "DISRUPTION": "",
    "LIMIT": "4",
    "WEIGHT": "10",
}


def text(**changed: str) -> str:
    made = V1
    for name, value in {**GOOD, **changed}.items():
        made = made.replace(name, value)
    return made


def test_v1beta1_is_read_as_v1() -> None:
    (manifest,) = read_text(BETA, "old.yaml")
    assert problems_of(manifest) == []
    old = node_pool(manifest.obj)
    assert old.consolidation_policy == "WhenEmptyOrUnderutilized"
    assert old.labels["karpenter.k8s.aws/ec2nodeclass"] == "default"


def test_defaults() -> None:
    made = pool("p")
    assert (made.consolidate_after_us, made.consolidation_policy, made.weight) == (
        0,
        "WhenEmptyOrUnderutilized",
        0,
    )
    assert [b.nodes for b in made.budgets] == ["10%"]


def test_a_good_one_is_read() -> None:
    (manifest,) = read_text(text(), "new.yaml")
    assert problems_of(manifest) == []
    new = node_pool(manifest.obj)
    assert (new.limits, new.weight) == ({GPU: 4}, 10)


WRONG = {
    "In without values": (
        {"REQUIREMENT": "{key: a, operator: In}"},
        "requirements with operator 'In' must have a value",
    ),
    "unknown operator": ({"REQUIREMENT": "{key: a, operator: Like, values: [b]}"}, '"Like"'),
    "Gt a word": (
        {"REQUIREMENT": "{key: a, operator: Gt, values: [b]}"},
        "must have a single positive integer value",
    ),
    "Gt two": (
        {"REQUIREMENT": "{key: a, operator: Gt, values: ['1', '2']}"},
        "must have a single positive integer",
    ),
    "minValues": (
        {"REQUIREMENT": "{key: a, operator: In, values: [b], minValues: 2}"},
        "requirements with 'minValues' must have at least that many values",
    ),
    "minValues above 50": (
        {"REQUIREMENT": "{key: a, operator: Exists, minValues: 51}"},
        "expected an integer, 1 to 50",
    ),
    "restricted domain": (
        {"REQUIREMENT": "{key: karpenter.sh/x, operator: Exists}"},
        "using label karpenter.sh/x is not",
    ),
    "hostname": ({"REQUIREMENT": "{key: kubernetes.io/hostname, operator: Exists}"}, "is not allowed"),
    "its own label": (
        {"REQUIREMENT": "{key: karpenter.sh/nodepool, operator: Exists}"},
        "in requirements, restricted",
    ),
    "unknown capacity type": (
        {"REQUIREMENT": "{key: karpenter.sh/capacity-type, operator: In, values: [cheap]}"},
        "expected one of: [on-demand reserved spot]",
    ),
    "a label": ({"LABELS": "labels: {karpenter.sh/x: y}"}, 'invalid key name "karpenter.sh/x" in labels'),
    "an effect": ({"TAINTS": "[{key: a, effect: Never}]"}, 'invalid value: "Never" in taints'),
    "twice the same taint": (
        {"TAINTS": "[{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}]"},
        "duplicate taint Key/Effect pair a=NoSchedule",
    ),
    "weight": ({"WEIGHT": "101"}, "expected an integer, 1 to 100"),
    "limits": ({"LIMIT": "-4"}, "expected a quantity, 0 or more"),
    "a duration": ({"EXPIRE": "3d"}, "expected a duration of hours"),
    "a policy": ({"DISRUPTION": "consolidationPolicy: Always"}, "WhenEmptyOrUnderutilized"),
    "a budget": ({"DISRUPTION": "budgets: [{nodes: 120%}]"}, "percentage up to 100%"),
    "a schedule alone": (
        {"DISRUPTION": "budgets: [{nodes: '1', schedule: '@daily'}]"},
        "'schedule' must be set with 'duration'",
    ),
    "a schedule": (
        {"DISRUPTION": "budgets: [{nodes: '1', schedule: 'x y z a b', duration: 1h}]"},
        "invalid cron",
    ),
    "a reason": (
        {"DISRUPTION": "budgets: [{nodes: '1', reasons: [Bored]}]"},
        "expected one of Underutilized, Empty",
    ),
    "its own label in the template": (
        {"LABELS": "labels: {karpenter.sh/nodepool: y}"},
        'invalid key name "karpenter.sh/nodepool" in labels, restricted',
    ),
    "a label that is no name": ({"LABELS": "labels: {-a: y}"}, 'invalid key name "-a" in labels, "'),
    "a label's value": ({"LABELS": "labels: {a: b c}"}, "invalid value: b c for label[a], "),
    "a key that is no name": (
        {"REQUIREMENT": "{key: -a, operator: Exists}"},
        "key -a is not a qualified name, ",
    ),
    "a value of a key": (
        {"REQUIREMENT": "{key: a, operator: In, values: [b c]}"},
        "invalid value b c for key a, ",
    ),
    "a taint that is no name": ({"TAINTS": "[{key: -a, effect: NoSchedule}]"}, " in taints"),
    "a budget's duration": (
        {"DISRUPTION": "budgets: [{nodes: '1', schedule: '@daily', duration: 8d}]"},
        "expected a duration of hours and minutes such as 8h or 1h30m",
    ),
    "Lt none": ({"REQUIREMENT": "{key: a, operator: Lt}"}, "must have a single positive integer value"),
    "Gte a negative": (
        {"REQUIREMENT": "{key: a, operator: Gte, values: ['-1']}"},
        "must have a single positive integer value",
    ),
    "a field": ({"DISRUPTION": "consolidateBefore: 1s"}, "unknown field; did you mean consolidateAfter"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_node_pool(case: str) -> None:
    changed, words = WRONG[case]
    (manifest,) = read_text(text(**changed), "new.yaml")
    said = [str(problem) for problem in problems_of(manifest)]
    assert [line for line in said if words in line and line.startswith("new.yaml:")]


def _problems(body: str) -> list[str]:
    return [str(problem) for manifest in read_text(body, "p.yaml") for problem in problems_of(manifest)]


RIGHT = [
    {"WEIGHT": "1"},
    {"WEIGHT": "100"},
    {"LIMIT": "0"},
    {"EXPIRE": "1h30m"},
    {"EXPIRE": "720h"},
    {"LABELS": "labels: {a: b, example.com/c: ''}"},
    {"TAINTS": "[{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}, {key: b, effect: NoSchedule}]"},
    {"REQUIREMENT": "{key: a, operator: In, values: [b, c], minValues: 2}"},
    {"REQUIREMENT": "{key: a, operator: Exists, minValues: 50}"},
    {"REQUIREMENT": "{key: a, operator: Gt, values: ['0']}"},
    {"REQUIREMENT": "{key: a, operator: Lte, values: ['3']}"},
    {"REQUIREMENT": "{key: a, operator: NotIn, values: [b]}"},
    {"REQUIREMENT": "{key: karpenter.sh/capacity-type, operator: In, values: [spot, cheap]}"},
    {"DISRUPTION": "budgets: [{nodes: 100%}, {nodes: '0'}, {nodes: 5%, reasons: [Empty]}]"},
    {"DISRUPTION": "budgets: [{nodes: '1', schedule: '@daily', duration: 1h30m0s}]"},
    {"DISRUPTION": "consolidationPolicy: WhenEmpty, consolidateAfter: Never"},
]


@pytest.mark.parametrize("changed", RIGHT, ids=str)
def test_what_is_right_with_a_node_pool(changed: dict[str, str]) -> None:
    assert _problems(text(**changed)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"TAINTS": "[{effect: NoSchedule}]"},
        {"REQUIREMENT": "{operator: Exists}"},
        {"WEIGHT": "0"},
        {"DISRUPTION": "consolidationPolicy: WhenUnderutilized"},
        {"DISRUPTION": "expireAfter: 1h"},
        {"DISRUPTION": "budgets: [{nodes: 101%}]"},
        {"EXPIRE": "1h 30m"},
    ],
    ids=str,
)
def test_one_thing_wrong_is_one_problem(changed: dict[str, str]) -> None:
    assert len(_problems(text(**changed))) == 1


def test_a_static_pool_has_neither_weight_nor_limits_but_of_nodes() -> None:
    static = V1.replace("  weight: WEIGHT\n", "  replicas: 2\n")
    for name, value in GOOD.items():
        static = static.replace(name, value)
    nodes = static.replace("nvidia.com/gpu: 4", "nodes: 3")
    assert _problems(nodes) == []
    (told,) = _problems(static)
    assert "only 'limits.nodes' is supported on static NodePools" in told
    (told,) = _problems(nodes + "  weight: 3\n")
    assert "'weight' is not supported on static NodePools" in told
    assert _problems(static.replace("  limits: {nvidia.com/gpu: 4}\n", "")) == []


def test_a_pool_names_its_class_and_its_requirements() -> None:
    good = text()
    reference = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}"
    for name, value in (("group", "karpenter.k8s.aws"), ("kind", "EC2NodeClass"), ("name", "default")):
        (told,) = _problems(good.replace(reference, reference.replace(f"{name}: {value}", f"{name}: ''")))
        assert f"{name} may not be empty" in told
    (told,) = _problems(good.replace("      requirements: []\n", ""))
    assert "required" in told
    assert len(_problems(good.replace(f"      nodeClassRef: {reference}\n", ""))) == 1
    assert _problems(BETA.replace("name: default}", "name: ''}")) != []


def test_every_problem_of_a_file_is_listed() -> None:
    assert len(_problems(text(WEIGHT="0", LIMIT="x", EXPIRE="soon"))) == 3


# NodeClaims

TYPES = {t.name: t for t in (kind("s.small", 4, spot=60_000), kind("l.large", 16, spot=900_000))}


def claim(**spec: Any) -> Any:
    wish = spec.pop("requirements", [wants("team", "In", "x", "y")])
    of = pool(requirements=wish, taints=[{"key": "t", "effect": "NoSchedule"}])
    tolerant = {"tolerations": [{"operator": "Exists"}], **spec}
    (plan,) = solve(world(list(TYPES.values()), [of]), [pod("a", **tolerant)]).claims
    return node_claim(plan, "default-abcde")


def test_a_node_claim_as_it_is_written() -> None:
    made = claim()
    assert made["metadata"]["labels"] == {
        "karpenter.sh/nodepool": "default", "example.com/nodeclass": "default", "team": "x",
    }  # fmt: skip
    asked = {r["key"]: r.get("values") for r in made["spec"]["requirements"]}
    assert asked[INSTANCE_TYPE] == ["l.large", "s.small"]
    assert asked[CAPACITY_TYPE] == ["on-demand", "spot"]
    assert "kubernetes.io/hostname" not in asked and "karpenter.sh/initialized" not in asked
    assert made["spec"]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi", "pods": "1"}
    assert made["metadata"]["annotations"]["karpenter.sh/nodeclaim-min-values-relaxed"] == "false"


def test_spot_is_launched_before_on_demand_the_cheapest_first() -> None:
    choices = launch_choices(claim(), TYPES).choices
    assert [(t.name, o.zone, o.capacity_type) for t, o in choices] == [("s.small", z, SPOT) for z in ZONES]


def test_spot_dearer_than_on_demand_is_left_out() -> None:
    dear = {t.name: t for t in (kind("s.small", 4, price=10_000, spot=60_000),)}
    assert {o.capacity_type for _, o in launch_choices(claim(), dear).choices} == {"on-demand"}


def test_nothing_in_stock() -> None:
    gone = {t.name: t for t in (kind("s.small", 4, price=-1),)}
    assert launch_choices(claim(), gone).is_empty
    assert insufficient_capacity("c", no_capacity_text()).message.startswith(
        "NodeClaim c event: insufficient"
    )


def test_the_life_of_a_claim() -> None:
    of, offering = launch_choices(claim(), TYPES).choices[0]
    up = launched(claim(), of, offering, "cloud:///i-1", NOW_US)
    assert is_true(up, "Launched") and not is_true(up, "Ready")
    assert (up["metadata"]["labels"][ZONE], up["metadata"]["labels"]["team"]) == ("zone-1", "x")
    node = node_of(up, "n")
    assert not_initialized(up, None) == ("NodeNotFound", "Node not registered with cluster")
    assert not_initialized(up, node) == ("NodeNotReady", "Node status is NotReady")
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    why = not_initialized(up, node)
    assert why == (
        "KnownEphemeralTaintsExist",
        'KnownEphemeralTaint "karpenter.sh/unregistered:NoExecute" still exists',
    )
    node["spec"]["taints"] = [t for t in node["spec"]["taints"] if "unregistered" not in t["key"]]
    assert not_initialized(up, node) is None
    up["spec"]["resources"]["requests"][GPU] = "1"
    why = not_initialized(up, node)
    assert why == ("ResourceNotRegistered", f'Resource "{GPU}" was requested but not registered')
    for condition in ("Registered", "Initialized"):
        up = with_condition(up, condition, "True", condition, "", NOW_US)
    assert is_true(up, "Ready")


def test_startup_taints_hold_initialization() -> None:
    made = {**claim(), "spec": {**claim()["spec"], "startupTaints": [{"key": "s", "effect": "NoSchedule"}]}}
    node = node_of(made, "n")
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    node["spec"]["taints"] = node["spec"]["taints"][:2]
    assert not_initialized(made, node) == ("StartupTaintsExist", 'StartupTaint "s:NoSchedule" still exists')


def test_usage_over_a_limit() -> None:
    of = pool(limits={GPU: "4"})
    assert limit_exceeded(of, {GPU: 4, "cpu": 9}) is None
    assert limit_exceeded(of, {GPU: 5}) == (
        "resource usage exceeds limit (resource-name=nvidia.com/gpu, usage=5, limit=4)"
    )


# Marks


def running(**labels: str) -> Any:
    of, offering = launch_choices(claim(), TYPES).choices[0]
    up = launched(claim(), of, offering, "cloud:///i-1", NOW_US)
    up["metadata"]["labels"] |= labels
    up["metadata"]["creationTimestamp"] = rfc3339(NOW_US)
    return with_condition(up, "Initialized", "True", "Initialized", "", NOW_US)


OWN = pool(requirements=[wants("team", "In", "x", "y")], taints=[{"key": "t", "effect": "NoSchedule"}])
FLEET = Fleet(TYPES.values())
DRIFTS = {
    "as its NodePool makes it": (OWN, {}, FLEET, 0, ""),
    "another template": (pool(requirements=[wants("team", "Exists")]), {}, FLEET, 0, "NodePoolDrifted"),
    "other requirements": (
        pool(requirements=[wants("team", "In", "z")], taints=[{"key": "t", "effect": "NoSchedule"}]),
        {},
        FLEET,
        0,
        "RequirementsDrifted",
    ),
    "a type nobody has, after an hour": (
        OWN,
        {INSTANCE_TYPE: "gone"},
        FLEET,
        2 * HOUR_US,
        "InstanceTypeNotFound",
    ),
    "a type nobody has, within the hour": (OWN, {INSTANCE_TYPE: "gone"}, FLEET, HOUR_US // 2, ""),
}


@pytest.mark.parametrize("case", DRIFTS)
def test_drift(case: str) -> None:
    of, labels, fleet, later_us, want = DRIFTS[case]
    assert drift_reason(running(**labels), of, fleet, NOW_US + later_us) == want


def test_consolidate_after_counts_from_the_last_pod() -> None:
    of = pool(disruption={"consolidateAfter": "30s"})
    assert consolidatable_at_us(ClaimFacts(running()), of) == NOW_US + 30 * SECOND_US
    later = running()
    later["status"]["lastPodEventTime"] = rfc3339(NOW_US + 60 * SECOND_US)
    assert consolidatable_at_us(ClaimFacts(later), of) == NOW_US + 90 * SECOND_US
    assert rests_until_us(ClaimFacts(later), of) == NOW_US + 90 * SECOND_US
    never, at_once = (pool(disruption={"consolidateAfter": after}) for after in ("Never", "0s"))
    assert consolidatable_at_us(ClaimFacts(running()), never) is None
    assert (
        consolidatable_at_us(ClaimFacts(running()), at_once),
        rests_until_us(ClaimFacts(later), at_once),
    ) == (
        NOW_US,
        0,
    )


def test_facts_of_a_claim_are_what_its_conditions_say() -> None:
    claim = running()
    facts = ClaimFacts(claim)
    assert [facts.is_true(c["type"]) for c in claim["status"]["conditions"]] == [
        c["status"] == "True" for c in claim["status"]["conditions"]
    ]
    assert (facts.is_true("Drifted"), facts.true_since_us("Drifted")) == (False, 0)
    assert facts.true_since_us("Initialized") == NOW_US
    assert (facts.name, facts.is_going, facts.last_pod_event_us) == (claim["metadata"]["name"], False, None)


def test_expiry() -> None:
    assert expires_at_us(running()) == NOW_US + 720 * HOUR_US
    never = running()
    never["spec"]["expireAfter"] = "Never"
    assert expires_at_us(never) is None


def test_the_hash_leaves_requirements_and_order_out() -> None:
    base = pool_object(requirements=[wants("a", "Exists")], taints=[{"key": "t"}, {"key": "u"}])
    same = pool_object(requirements=[wants("b", "Exists")], taints=[{"key": "u"}, {"key": "t"}])
    other = pool_object(taints=[{"key": "t"}])
    assert node_pool(base).hash == node_pool(same).hash != node_pool(other).hash


# Batches, events, the catalog as a cloud


def test_a_batch_ends_a_second_after_the_last_pod_and_ten_after_the_first() -> None:
    batch = Batch(0)
    batch.ask([_key("a")], 0)
    assert batch.ends_us() == SECOND_US
    batch.ask([_key("a"), _key("b")], 800_000)
    assert batch.ends_us() == 1_800_000
    batch.ask([_key("a")], 900_000)
    assert batch.ends_us() == 1_800_000
    fork = batch.copy()
    for i in range(20):
        batch.ask([_key(f"p{i}")], i * 700_000)
    assert batch.ends_us() == 10 * SECOND_US
    assert fork.ends_us() == 1_800_000


def _key(name: str) -> Key:
    return Key("Pod", "default", name)


def test_events() -> None:
    assert nominated("c", "n").message == "Pod should schedule on: nodeclaim/c, node/n"
    assert failed_scheduling("x").message == "Failed to schedule pod, x"
    assert no_compatible_types(min_values=True).message.endswith("due to minValues incompatibility")
    assert terminating("Node", "Empty")[:3] == ("Normal", "DisruptionTerminating", "Disrupting Node: Empty")


def test_the_catalog_is_a_cloud() -> None:
    types = types_of_catalog(load_catalog(), provider="aws", regions=["us-east-1"], at_us=NOW_US)
    wish = [wants("karpenter.k8s.aws/instance-gpu-name", "In", "a100"), wants(CAPACITY_TYPE, "In", "spot")]
    results = solve(world(list(types), [pool(requirements=wish)]), [pod("a", "8", gpu=8)])
    assert results.claims[0].type_names == ["p4de.24xlarge", "p4d.24xlarge"], "cheapest first"
    assert results.claims[0].cheapest() == 9_726_200
    out = {(kind, "us-east-1a", "spot") for kind in ("p4d.24xlarge", "p4de.24xlarge")}
    fewer = types_of_catalog(
        load_catalog(), provider="aws", regions=["us-east-1"], unavailable=frozenset(out)
    )
    tied = {ZONE: "us-east-1a"}
    refused = solve(
        world(list(fewer), [pool(requirements=wish)]), [pod("a", "8", gpu=8, nodeSelector=tied)]
    ).refused
    assert "no instance type" in str(refused[0][1])
    small = [wants("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist")]
    plain = solve(world(list(types), [pool(requirements=small)]), [pod("a", "1")])
    assert plain.claims[0].type_names[0] == "m5.large"
