"""Kueue's small decisions, each against its rule said another way: partial admission, flavors, variants, charges.

Source: pkg/scheduler/flavorassigner, pkg/cache/scheduler/clusterqueue.go, pkg/workload, pkg/dra, pkg/util/pod.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from queueworld import pod_set, queue, quotas

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.queueing.control import differences
from fairway.queueing.devices.extended import is_extended, requested
from fairway.queueing.devices.needs import needs_charge
from fairway.queueing.devices.sources import _charge as charge
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.adjusting import Defaults, adjusted
from fairway.queueing.facts.gates import field_of, gates_from
from fairway.queueing.facts.podsets import new_shape
from fairway.queueing.facts.transformations import Transformations
from fairway.queueing.flavors import fungibility as fungible
from fairway.queueing.flavors import variants
from fairway.queueing.flavors.fungibility import Grade, is_preferred, should_try_next
from fairway.queueing.flavors.reducer import most_that_fits
from fairway.queueing.integrations.equivalence import are_equal
from fairway.queueing.integrations.ownership import OwnedWorkloads, owners_of
from fairway.queueing.integrations.rolehash import role_hash, role_of
from fairway.queueing.quota.inactivity import inactivity_of

# Partial admission


@pytest.mark.parametrize(
    "sizes", [((5, 2),), ((4, 1), (9, 3)), ((3, 3), (7, 1)), ((1, 0), (2, 0), (3, 0)), ((6, 6),)]
)
def test_partial_admission_finds_the_most_that_fits(sizes: tuple[tuple[int, int], ...]) -> None:
    """In each pod set the share of what it can do without that the step says; the first step that fits, from full."""
    shape = new_shape([pod_set(f"p{i}", c, min_count=m) for i, (c, m) in enumerate(sizes)], Transformations())
    spare = [c - m for c, m in sizes]
    total = sum(spare)
    steps = (
        [[c - d * step // total for (c, _), d in zip(sizes, spare, strict=True)] for step in range(total + 1)]
        if total
        else []
    )
    for limit in range(sum(c for c, _ in sizes) + 2):
        asked: list[list[int]] = []

        def attempt(
            counts: list[int], limit: int = limit, asked: list[list[int]] = asked
        ) -> list[int] | None:
            asked.append(counts)
            return counts if sum(counts) <= limit else None

        found = most_that_fits(shape.pod_sets, attempt)
        assert found == next((counts for counts in steps if sum(counts) <= limit), None)
        assert len(asked) <= total.bit_length() + 1


# Flavors

GRADES = [Grade(mode, borrow) for mode in range(5) for borrow in range(3)]
PREFERENCES = (facts.BORROWING_OVER_PREEMPTION, facts.PREEMPTION_OVER_BORROWING)


@pytest.mark.parametrize("preference", PREFERENCES)
def test_of_two_flavors_one_is_better(preference: str) -> None:
    """Those that nothing helps last; then by what has to be preempted, or first by what has to be borrowed."""
    how = facts.FlavorFungibility(preference=preference)

    def key(grade: Grade) -> tuple[int, ...]:
        if grade.mode == fungible.NO_FIT:
            return (0,)
        if preference == facts.PREEMPTION_OVER_BORROWING:
            return (1 if grade.mode == fungible.NO_CANDIDATES else 2, -grade.borrow, grade.mode)
        return (1 if grade.mode == fungible.NO_CANDIDATES else 2, grade.mode, -grade.borrow)

    for a, b in product(GRADES, repeat=2):
        assert is_preferred(a, b, how) is (key(a) > key(b)), (a.mode, a.borrow, b.mode, b.borrow)


@pytest.mark.parametrize("preempt", [facts.TRY_NEXT_FLAVOR, facts.MAY_STOP_SEARCH])
@pytest.mark.parametrize("borrow", [facts.TRY_NEXT_FLAVOR, facts.MAY_STOP_SEARCH])
def test_when_the_next_flavor_is_tried(preempt: str, borrow: str) -> None:
    how = facts.FlavorFungibility(when_can_borrow=borrow, when_can_preempt=preempt)
    for grade in GRADES:
        wants_preemption = grade.mode in (fungible.PREEMPT, fungible.RECLAIM)
        want = (
            grade.mode < fungible.PREEMPT
            or (wants_preemption and preempt == facts.TRY_NEXT_FLAVOR)
            or (grade.borrow > 0 and borrow == facts.TRY_NEXT_FLAVOR)
        )
        assert should_try_next(grade, how) is want


# Why a ClusterQueue admits nothing

PROVISIONING, MULTI = facts.PROVISIONING_CONTROLLER, facts.MULTIKUEUE_CONTROLLER


def inactive(
    checks: dict[str, tuple[str, bool]] | None = None, per_flavor: str = "", **more: Any
) -> tuple[str, str] | None:
    known = checks or {}
    spec = more.pop("spec", {})
    rules = [
        {"name": n, **({"onFlavors": ["a"]} if n == per_flavor else {})}
        for n in (*known, *more.pop("absent", ()))
    ]
    if rules:
        spec = {**spec, "admissionChecksStrategy": {"admissionChecks": rules}}
    obj = queue("q", {"a": 1, "b": 1}, spec=spec)
    if more.pop("going", False):
        obj["metadata"]["deletionTimestamp"] = "2026-01-05T08:00:00Z"
    found = inactivity_of(
        facts.cluster_queue(obj),
        missing_flavors=more.pop("missing_flavors", ()),
        checks={
            n: facts.AdmissionCheck(n, controller, is_active) for n, (controller, is_active) in known.items()
        },
        missing_topologies=more.pop("missing_topologies", {}),
    )
    return None if found is None else (found.reason, found.message.removeprefix("Can't admit new workloads"))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({}, None),
        ({"checks": {"c": ("x", True)}}, None),
        ({"checks": {"c": (PROVISIONING, True), "d": (PROVISIONING, True)}}, None),
        ({"checks": {"c": (MULTI, True)}}, None),
        ({"going": True, "spec": {"stopPolicy": "Hold"}}, ("Terminating", "; clusterQueue is terminating")),
        ({"spec": {"stopPolicy": "Hold"}}, ("Stopped", ": is stopped.")),
        ({"missing_flavors": ["a", "b"]}, ("FlavorNotFound", ": references missing ResourceFlavor(s): a,b.")),
        ({"absent": ["z", "y"]}, ("AdmissionCheckNotFound", ": references missing AdmissionCheck(s): y,z.")),
        (
            {"checks": {"d": ("x", False), "c": ("x", False), "e": ("x", True)}},
            ("AdmissionCheckInactive", ": references inactive AdmissionCheck(s): c,d."),
        ),
        (
            {"checks": {"d": (MULTI, True), "c": (MULTI, True)}},
            (
                "MultipleMultiKueueAdmissionChecks",
                ": Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: c,d.",
            ),
        ),
        (
            {"checks": {"c": (MULTI, True)}, "per_flavor": "c"},
            (
                "MultiKueueAdmissionCheckAppliedPerFlavor",
                ": Cannot specify MultiKueue AdmissionCheck per flavor, found: c.",
            ),
        ),
        ({"checks": {"c": ("x", True)}, "per_flavor": "c"}, None),
        (
            {"checks": {"c": (MULTI, True), "d": (PROVISIONING, True)}},
            (
                "MultiKueueWithProvisioningRequest",
                ": Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: c, d.",
            ),
        ),
        (
            {"missing_topologies": {"b": "t2", "a": "t1"}},
            (
                "TopologyNotFound",
                ': there is no Topology "t1" for TAS flavor "a", there is no Topology "t2" for TAS flavor "b".',
            ),
        ),
        ({"missing_topologies": {"a": "t"}, "checks": {"c": (MULTI, True)}}, None),
        (
            {"spec": {"stopPolicy": "Hold"}, "missing_flavors": ["a"]},
            ("Stopped", ": is stopped, references missing ResourceFlavor(s): a."),
        ),
    ],
)
def test_why_a_queue_admits_nothing(given: dict[str, Any], want: tuple[str, str] | None) -> None:
    assert inactive(**given) == want


# What pods will ask for


def limit_range(type_: str = "Container", **item: Any) -> Obj:
    return {"spec": {"limits": [{"type": type_, **item}]}}


def test_defaults_are_the_first_that_says_something() -> None:
    found = Defaults(
        [
            limit_range("Pod", default={"cpu": "9"}),
            limit_range(default={"cpu": "1"}),
            limit_range(default={"cpu": "2", "memory": "2Gi"}, defaultRequest={"cpu": "3"}),
            limit_range(defaultRequest={"cpu": "4"}),
        ]
    )
    assert found.limits == {"cpu": "1", "memory": "2Gi"}
    assert found.requests == {"cpu": "3"}
    assert not found.is_empty
    assert not Defaults([limit_range(default={"cpu": "1"})]).is_empty
    assert not Defaults([limit_range(defaultRequest={"cpu": "1"})]).is_empty
    assert Defaults([limit_range("Pod", default={"cpu": "9"})]).is_empty


@pytest.mark.parametrize("runtime", [None, "gvisor", "plain"])
@pytest.mark.parametrize("own", [None, {"cpu": "7"}])
@pytest.mark.parametrize("with_defaults", [True, False])
def test_defaults_and_overhead_are_counted_where_a_template_is_silent(
    runtime: str | None, own: Obj | None, with_defaults: bool
) -> None:
    spec: Obj = {
        "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "5"}, "claims": [1]}}],
        "initContainers": [{"name": "i"}],
    }
    if runtime:
        spec["runtimeClassName"] = runtime
    if own:
        spec["overhead"] = own
    given = {
        "metadata": {"name": "w"},
        "spec": {
            "queueName": "q",
            "podSets": [{"name": "main", "count": 2, "template": {"metadata": {"x": 1}, "spec": spec}}],
        },
    }
    defaults = Defaults(
        [limit_range(default={"cpu": "1"}, defaultRequest={"cpu": "2"})] if with_defaults else []
    )
    found = adjusted(given, defaults, {"gvisor": {"cpu": "9"}})
    has_overhead = runtime == "gvisor" and own is None
    if not with_defaults and not has_overhead:
        assert found is given
        return
    after = found["spec"]["podSets"][0]["template"]
    assert (found["metadata"], found["spec"]["queueName"], after["metadata"]) == (
        {"name": "w"},
        "q",
        {"x": 1},
    )
    assert found["spec"]["podSets"][0]["count"] == 2
    assert after["spec"].get("overhead") == ({"cpu": "9"} if has_overhead else own)
    if with_defaults:
        filled = {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
        assert [c["resources"] for c in (*after["spec"]["containers"], *after["spec"]["initContainers"])] == [
            filled,
            {"limits": {"cpu": "5"}, "requests": {"cpu": "2"}, "claims": [1]},
            filled,
        ]
    assert adjusted(given, None, {}) is given


# Is it the same?


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"count": 3}, False),
        ({"minCount": 1}, False),
        ({"containers": [{"name": "d"}]}, False),
        ({"initContainers": [{"name": "d"}]}, False),
        ({"initContainers": []}, True),
        ({"tolerations": [{"key": "k"}]}, None),
        ({"nodeSelector": {"a": "b"}}, True),
    ],
)
def test_what_makes_pod_sets_different(change: Obj, is_same: bool | None) -> None:
    """None: unless tolerations are ignored."""
    one = pod_set(count=2)
    other = pod_set(count=change.get("count", 2), min_count=change.get("minCount"))
    other["template"]["spec"].update({k: v for k, v in change.items() if k not in ("count", "minCount")})
    assert are_equal([one], [other]) is (is_same is True)
    assert are_equal([one], [other], ignores_tolerations=True) is (is_same is not False)
    assert not are_equal([one], [one, other])
    assert are_equal([{"template": one["template"]}], [{**one, "count": 1}]), "one pod where nobody says"


def test_a_role_is_what_matters_to_admission() -> None:
    base: Obj = {
        "containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1", "gpu": "2"}}}]
    }
    same = [
        {"containers": [{"name": "b", "image": "j", "resources": {"requests": {"gpu": "2", "cpu": "1"}}}]},
        {**base, "tolerations": []},
        {**base, "nodeSelector": {}, "affinity": {}, "initContainers": [], "hostname": "h"},
    ]
    assert {role_hash(s) for s in (base, *same)} == {role_hash(base)}
    others: list[Obj] = [
        {**base, "priority": 1},
        {**base, "runtimeClassName": "r"},
        {**base, "nodeSelector": {"a": "b"}},
        {**base, "tolerations": [{"key": "k"}]},
        {**base, "tolerations": [{"key": "k", "value": "v"}]},
        {**base, "overhead": {"cpu": "1"}},
        {**base, "affinity": {"nodeAffinity": {"x": [1]}}},
        {**base, "resourceClaims": [{"name": "c"}]},
        {**base, "topologySpreadConstraints": [{"maxSkew": 1}]},
        {**base, "initContainers": [{"name": "a"}]},
        {**base, "resources": {"requests": {"cpu": "1"}}},
        {"containers": [{**base["containers"][0], "ports": [{"containerPort": 80}]}]},
        {"containers": [{"name": "a"}]},
    ]
    assert len({role_hash(s) for s in (base, *others)}) == len(others) + 1
    assert (
        role_of({"metadata": {"annotations": {"kueue.x-k8s.io/role-hash": "told"}}, "spec": base}) == "told"
    )
    assert role_of({"metadata": {}, "spec": base}) == role_hash(base)
    assert len(role_hash(base)) == 8


def test_workloads_are_found_by_the_jobs_they_name() -> None:
    store, index = Store(seed=1), OwnedWorkloads()

    def workload(name: str, *jobs: str) -> Obj:
        refs = [{"apiVersion": "batch/v1", "kind": "Job", "name": j, "uid": j} for j in jobs]
        return {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": "ns", "ownerReferences": refs},
            "spec": {},
        }

    def tell(kind: str, new: Obj, old: Obj | None = None) -> None:
        index.apply(Change(1, kind, Key("Workload.kueue.x-k8s.io", "ns", new["metadata"]["name"]), new, old))

    def names(job: str) -> list[str]:
        return [w["metadata"]["name"] for w in index.of(store, Key("Job.batch", "ns", job))]

    for obj in (workload("w2", "a", "b"), workload("w1", "a")):
        store.create(obj)
        tell(ADDED, obj)
    assert owners_of(workload("w", "a")) == [Key("Job.batch", "ns", "a")]
    assert (names("a"), names("b"), names("c")) == (["w1", "w2"], ["w2"], [])
    before = index.copy()
    tell(MODIFIED, workload("w2", "a", "b"), workload("w2", "a", "b"))
    assert names("a") == ["w1", "w2"]
    tell(MODIFIED, workload("w2", "c"), workload("w2", "a", "b"))
    assert (names("a"), names("b"), names("c")) == (["w1"], [], ["w2"])
    tell(DELETED, workload("w1", "a"), None)
    assert names("a") == []
    assert not index.has(Key("Job.batch", "ns", "a"))
    assert index.has(Key("Job.batch", "ns", "c"))
    assert before.has(Key("Job.batch", "ns", "a"))
    assert not before.has(Key("Job.batch", "ns", "c"))


# Variants of concurrent admission


@pytest.mark.parametrize(
    ("meta", "parent", "uid", "flavors"),
    [
        ({}, False, "", None),
        ({"labels": {variants.PARENT_LABEL: "true"}}, True, "", None),
        ({"labels": {variants.PARENT_LABEL: "false"}}, False, "", None),
        ({"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "uid": "j"}]}, False, "", None),
        (
            {"ownerReferences": [{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Job", "uid": "j"}]},
            False,
            "",
            None,
        ),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "uid": "j"},
                    {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "uid": "u"},
                ]
            },
            False,
            "u",
            None,
        ),
        ({"annotations": {variants.ALLOWED_FLAVORS: " a, b ,,"}}, False, "", ("a", "b")),
        ({"annotations": {variants.ALLOWED_FLAVORS: ""}}, False, "", ()),
    ],
)
def test_what_a_variant_is(meta: Obj, parent: bool, uid: str, flavors: tuple[str, ...] | None) -> None:
    obj = {"metadata": meta}
    assert variants.is_parent(obj) is parent
    assert (variants.is_variant(obj), variants.parent_uid(obj)) == (bool(uid), uid)
    assert variants.allowed_flavors(obj) == flavors


# Devices


@pytest.mark.parametrize(
    ("dimension", "asked", "want"),
    [
        ({"value": "80Gi"}, None, 80 * 2**30),
        ({}, None, 0),
        ({"value": "80Gi"}, "10Gi", 10 * 2**30),
        ({"value": "80", "requestPolicy": {"default": "5"}}, None, 5),
        ({"value": "80", "requestPolicy": {"default": "5"}}, "7", 7),
        ({"requestPolicy": {"validValues": ["2", "4", "8"]}}, "3", 4),
        ({"requestPolicy": {"validValues": ["2", "4", "8"]}}, "4", 4),
        ({"requestPolicy": {"validValues": ["2", "4", "8"]}}, "9", None),
        ({"requestPolicy": {"validRange": {"min": "4"}}}, "3", 4),
        ({"requestPolicy": {"validRange": {"min": "4"}}}, "5", 5),
        ({"requestPolicy": {"validRange": {"min": "4", "step": "3"}}}, "4", 4),
        ({"requestPolicy": {"validRange": {"min": "4", "step": "3"}}}, "5", 7),
        ({"requestPolicy": {"validRange": {"min": "4", "step": "3"}}}, "7", 7),
        ({"requestPolicy": {"validRange": {"min": "4", "step": "0"}}}, "5", 5),
        ({"requestPolicy": {"validRange": {"step": "3"}}}, "5", 5),
        ({"requestPolicy": {"validRange": {"max": "8"}}}, "8", 8),
        ({"requestPolicy": {"validRange": {"max": "8"}}}, "9", None),
        ({"requestPolicy": {"validRange": {"min": "4", "step": "3", "max": "9"}}}, "8", None),
    ],
)
def test_what_a_shared_device_charges(dimension: Obj, asked: str | None, want: int | None) -> None:
    assert charge(dimension, asked) == want


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        ("cpu", False),
        ("nvidia.com/gpu", True),
        ("kubernetes.io/x", False),
        ("hugepages-2Mi", False),
        ("x.kubernetes.io/y", True),
    ],
)
def test_which_resources_are_extended(resource: str, want: bool) -> None:
    assert is_extended(resource) is want


@pytest.mark.parametrize("dra", [True, False])
@pytest.mark.parametrize("reject", [True, False])
@pytest.mark.parametrize("extended", [True, False])
@pytest.mark.parametrize("backed", [(), ("x.io/gpu",), ("x.io/other",)])
@pytest.mark.parametrize("claims", [True, False])
def test_which_workloads_wait_for_their_devices_to_be_counted(
    dra: bool, reject: bool, extended: bool, backed: tuple[str, ...], claims: bool
) -> None:
    gates, unknown = gates_from(
        {
            "KueueDRAIntegration": dra,
            "KueueDRARejectWorkloadsWhenDRADisabled": reject,
            "KueueDRAIntegrationExtendedResource": extended,
            "Unheard": True,
        }
    )
    assert unknown == ("Unheard",)
    more: Obj = {"resourceClaims": [{"name": "c"}]} if claims else {}
    workload = {"spec": {"podSets": [pod_set("a"), pod_set("b", requests={"x.io/gpu": 1, "cpu": 1}, **more)]}}
    if not dra:
        want = claims and reject
    else:
        want = claims or (extended and "x.io/gpu" in backed)
    assert needs_charge(workload, gates, backed) is want


def test_extended_resources_a_pod_asks_for() -> None:
    amounts = {"x.io/b": "2", "x.io/a": "1", "cpu": "1", "x.io/none": "0"}
    spec = {
        "containers": [{"resources": {"requests": amounts}}, {"name": "bare"}],
        "initContainers": [{"resources": {"requests": {"x.io/a": "3"}}}],
    }
    assert list(requested(spec)) == [
        ("initContainers", 0, "x.io/a", "3"),
        ("containers", 0, "x.io/a", "1"),
        ("containers", 0, "x.io/b", "2"),
    ]


@pytest.mark.parametrize(
    ("gate", "field"),
    [
        ("TASProfileMixed", "tas_profile_mixed"),
        ("KueueDRAIntegration", "kueue_dra_integration"),
        ("FlavorFungibility", "flavor_fungibility"),
    ],
)
def test_names_of_gates(gate: str, field: str) -> None:
    assert field_of(gate) == field


# Which differences count


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({}, False),
        ({"spec": {"unschedulable": True}}, True),
        ({"labels": {"a": "b"}}, True),
        ({"allocatable": {"cpu": "2"}}, True),
        ({"conditions": [{"type": "Ready"}]}, True),
        ({"annotations": {"a": "b"}}, False),
        ({"images": []}, False),
    ],
)
def test_which_changes_of_a_node_count(change: Obj, want: bool) -> None:
    spec, allocatable = {"x": 1}, {"cpu": "1"}
    old = {"metadata": {"labels": {}}, "spec": spec, "status": {"allocatable": allocatable, "conditions": []}}
    status = {
        "allocatable": allocatable,
        "conditions": [],
        **{k: v for k, v in change.items() if k in ("allocatable", "conditions", "images")},
    }
    meta = {"labels": change.get("labels", {}), "annotations": change.get("annotations", {})}
    assert (
        differences.is_node_changed(
            old, {"metadata": meta, "spec": change.get("spec", spec), "status": status}
        )
        is want
    )


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({}, -1),
        ({"conditions": [{"type": "Requeued", "status": "False"}]}, differences.NEVER_US),
        ({"conditions": [{"type": "Requeued", "status": "True"}]}, -1),
        ({"requeueState": {"requeueAt": "1970-01-01T00:00:05Z"}}, 5_000_000),
    ],
)
def test_when_a_workload_may_be_tried_again(status: Obj, want: int) -> None:
    assert differences.ready_us({"status": status}) == want


def test_only_a_status_changed() -> None:
    spec: Obj = {"x": 1}
    old = {"metadata": {}, "spec": spec}
    assert differences.is_status_only(old, {"metadata": {}, "spec": spec, "status": {}})
    assert not differences.is_status_only(old, {"metadata": {}, "spec": {"x": 1}})
    assert not differences.is_status_only(old, {"metadata": {"deletionTimestamp": "t"}, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, False),
        ({"stopPolicy": "Hold"}, True),
        ({"admissionChecks": ["c"]}, True),
        ({"cohortName": "c"}, False),
    ],
)
def test_what_stops_a_queue_differently(spec: Obj, want: bool) -> None:
    old = facts.cluster_queue(queue("q", spec={"resourceGroups": quotas({"a": 1})}))
    new = facts.cluster_queue(queue("q", spec={"resourceGroups": quotas({"a": 1}), **spec}))
    assert differences.stops_differently(old, new) is want
