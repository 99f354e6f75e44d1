"""Kueue's objects as facts: each with everything said, and with nothing; shapes of pod sets, and what devices add."""

from __future__ import annotations

from typing import Any

import pytest
from queueworld import flavor, running, taint, wl, workload_of

from fairway.kube.labels import label_selector
from fairway.kube.objects import Obj
from fairway.kube.taints import parse_taints, parse_tolerations
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.amounts import UNLIMITED
from fairway.queueing.facts.objects import (
    ClusterQueue,
    FlavorFungibility,
    FlavorResource,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
)
from fairway.queueing.facts.podsets import (
    PodSetCharge,
    SliceConstraint,
    TopologyRequest,
    charged,
    new_shape,
)
from fairway.queueing.facts.topologyassignments import (
    DomainCount,
    TopologyAssignment,
    read_assignment,
    write_assignment,
)
from fairway.queueing.facts.transformations import NO_TRANSFORMATIONS, transformations
from fairway.queueing.facts.workloads import DomainUse, PodSetTotal, Workload, WorkloadReader

# Queues and cohorts

_GROUPS = [
    {
        "coveredResources": ["cpu", "gpu"],
        "flavors": [
            {
                "name": "a",
                "resources": [
                    {"name": "cpu", "nominalQuota": "1500m", "borrowingLimit": "0", "lendingLimit": "500m"},
                    {"name": "gpu"},
                ],
            },
            {"name": "b", "resources": [{"name": "cpu", "nominalQuota": str(2**63)}]},
            {"name": "c"},
        ],
    },
    {
        "coveredResources": ["memory"],
        "flavors": [{"name": "a", "resources": [{"name": "memory", "nominalQuota": "1Ki"}]}],
    },
    {},
]
_QUOTAS = {
    FlavorResource("a", "cpu"): Quota(1500, 0, 500),
    FlavorResource("a", "gpu"): Quota(0),
    FlavorResource("b", "cpu"): Quota(UNLIMITED),
    FlavorResource("a", "memory"): Quota(1024),
}


def test_a_cluster_queue_that_says_everything() -> None:
    spec: Obj = {
        "cohortName": "c",
        "resourceGroups": _GROUPS,
        "queueingStrategy": "StrictFIFO",
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 7},
        },
        "flavorFungibility": {
            "whenCanBorrow": "TryNextFlavor",
            "whenCanPreempt": "MayStopSearch",
            "preference": "PreemptionOverBorrowing",
        },
        "fairSharing": {"weight": "2500m"},
        "admissionChecksStrategy": {
            "admissionChecks": [
                {"name": "x", "onFlavors": ["a"]},
                {"name": "y"},
                {"name": "z", "onFlavors": []},
            ]
        },
        "stopPolicy": "Hold",
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        "concurrentAdmissionPolicy": {"migration": {"constraints": {"lastAcceptableFlavorName": "b"}}},
    }
    every = frozenset("abc")
    assert facts.cluster_queue(
        {"metadata": {"name": "q", "deletionTimestamp": "x"}, "spec": spec}
    ) == ClusterQueue(
        name="q",
        cohort="c",
        groups=(
            ResourceGroup(frozenset({"cpu", "gpu"}), ("a", "b", "c"), 0),
            ResourceGroup(frozenset({"memory"}), ("a",), 1),
            ResourceGroup(frozenset(), (), 2),
        ),
        quotas=_QUOTAS,
        queueing_strategy="StrictFIFO",
        namespace_selector=label_selector({"matchLabels": {"a": "b"}}),
        preemption=PreemptionPolicy("LowerPriority", "Any", True, 7),
        fungibility=FlavorFungibility("TryNextFlavor", "MayStopSearch", "PreemptionOverBorrowing"),
        fair_weight=2.5,
        admission_checks={"x": frozenset("a"), "y": every, "z": every},
        stop_policy="Hold",
        uses_usage_ordering=True,
        last_acceptable_flavor="b",
        is_going=True,
    )
    found = facts.cluster_queue({"metadata": {"name": "q"}, "spec": spec})
    assert not found.is_going
    assert [found.group_of(r) for r in ("gpu", "memory", "pods")] == [found.groups[0], found.groups[1], None]


def test_a_cluster_queue_that_says_nothing() -> None:
    nothing = facts.cluster_queue({"metadata": {"name": "q"}, "spec": {}})
    assert nothing == ClusterQueue(
        name="q",
        cohort="",
        groups=(),
        quotas={},
        queueing_strategy="BestEffortFIFO",
        namespace_selector=label_selector(None),
        preemption=PreemptionPolicy("Never", "Never", False, None),
        fungibility=FlavorFungibility("MayStopSearch", "TryNextFlavor", "BorrowingOverPreemption"),
        fair_weight=1.0,
        admission_checks={},
        stop_policy="None",
        uses_usage_ordering=False,
        last_acceptable_flavor="",
        is_going=False,
    )
    assert not facts.cluster_queue({"spec": {"admissionScope": {"admissionMode": "x"}}}).uses_usage_ordering
    for part in ({}, {"migration": {}}, {"migration": {"constraints": {}}}):
        assert facts.cluster_queue({"spec": {"concurrentAdmissionPolicy": part}}).last_acceptable_flavor == ""


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({}, PreemptionPolicy("", "", False, None)),
        (
            {"borrowWithinCohort": {"policy": "Never", "maxPriorityThreshold": 7}},
            PreemptionPolicy("", "", False, None),
        ),
        ({"borrowWithinCohort": {"policy": "LowerPriority"}}, PreemptionPolicy("", "", True, None)),
        ({"borrowWithinCohort": {}}, PreemptionPolicy("", "", True, None)),
        ({"withinClusterQueue": "Any"}, PreemptionPolicy("Any", "", False, None)),
        ({"reclaimWithinCohort": "Any"}, PreemptionPolicy("", "Any", False, None)),
    ],
)
def test_policies_left_out(said: Obj, want: PreemptionPolicy) -> None:
    assert facts.cluster_queue({"spec": {"preemption": said}}).preemption == want


@pytest.mark.parametrize(
    ("borrow", "preempt", "want"),
    [
        (None, None, ("MayStopSearch", "TryNextFlavor")),
        ("TryNextFlavor", "TryNextFlavor", ("TryNextFlavor", "TryNextFlavor")),
        ("Borrow", "Preempt", ("MayStopSearch", "MayStopSearch")),
        ("MayStopSearch", "MayStopSearch", ("MayStopSearch", "MayStopSearch")),
    ],
)
def test_fungibility_of_both_versions(borrow: str | None, preempt: str | None, want: tuple[str, str]) -> None:
    said = {"whenCanBorrow": borrow, "whenCanPreempt": preempt}
    found = facts.cluster_queue({"spec": {"flavorFungibility": said}}).fungibility
    assert (found.when_can_borrow, found.when_can_preempt) == want
    assert found.preference == "BorrowingOverPreemption"


def test_checks_of_v1beta1_beside_those_with_flavors() -> None:
    spec = {
        "resourceGroups": _GROUPS,
        "admissionChecks": ["x", "y"],
        "admissionChecksStrategy": {"admissionChecks": [{"name": "y", "onFlavors": ["b", "c"]}]},
        "cohort": "old",
    }
    found = facts.cluster_queue({"spec": spec})
    assert found.admission_checks == {"x": frozenset("abc"), "y": frozenset("bc")}
    assert found.cohort == "old"
    assert facts.cluster_queue({"spec": {**spec, "cohortName": "new"}}).cohort == "new"


def test_cohorts_and_local_queues() -> None:
    spec = {"parentName": "p", "resourceGroups": _GROUPS, "fairSharing": {"weight": "0"}}
    assert facts.cohort({"metadata": {"name": "c"}, "spec": spec}) == facts.Cohort("c", "p", _QUOTAS, 0.0)
    assert facts.cohort({"metadata": {"name": "c"}, "spec": {"parent": "o"}}) == facts.Cohort(
        "c", "o", {}, 1.0
    )
    assert facts.cohort({"metadata": {"name": "c"}, "spec": {"fairSharing": {}}}) == facts.Cohort(
        "c", "", {}, 1.0
    )
    meta = {"name": "l", "namespace": "n"}
    spec = {"clusterQueue": "q", "stopPolicy": "HoldAndDrain", "fairSharing": {"weight": 3}}
    assert facts.local_queue({"metadata": meta, "spec": spec}) == facts.LocalQueue(
        "n/l", "q", 3.0, "HoldAndDrain"
    )
    assert facts.local_queue({"metadata": meta}) == facts.LocalQueue("n/l", "", 1.0, "None")


def test_flavors_topologies_and_checks() -> None:
    tolerations = [{"key": "t", "operator": "Exists"}]
    whole = flavor(
        "f", nodeLabels={"a": "b"}, nodeTaints=[taint("k")], tolerations=tolerations, topologyName="t"
    )
    assert facts.resource_flavor(whole) == facts.ResourceFlavor(
        "f", {"a": "b"}, parse_taints([taint("k")]), parse_tolerations(tolerations), "t"
    )
    assert facts.resource_flavor(flavor("f")) == facts.ResourceFlavor("f", {}, (), (), "")
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "host"}]
    assert facts.topology({"metadata": {"name": "t"}, "spec": {"levels": levels}}) == facts.Topology(
        "t", ("rack", "host")
    )
    assert facts.topology({"metadata": {"name": "t"}}) == facts.Topology("t", ())

    def active(*conditions: tuple[str, str]) -> bool:
        status = {"conditions": [{"type": kind, "status": value} for kind, value in conditions]}
        return facts.admission_check({"metadata": {"name": "c"}, "status": status}).is_active

    assert active(("Active", "True")) and active(("X", "False"), ("Active", "True"))
    assert not active() and not active(("Active", "False")) and not active(("X", "True"), ("Active", "False"))
    check = {"metadata": {"name": "c"}, "spec": {"controllerName": "x"}}
    assert facts.admission_check(check) == facts.AdmissionCheck("c", "x", False)
    assert facts.admission_check({"metadata": {"name": "c"}}) == facts.AdmissionCheck("c", "", False)


def test_nodes_that_are_ready_and_open() -> None:
    def node(*conditions: tuple[str, str], **spec: Any) -> facts.TopologyNode:
        status = {
            "conditions": [{"type": kind, "status": value} for kind, value in conditions],
            "allocatable": {"cpu": "2"},
        }
        return facts.topology_node(
            {"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": spec, "status": status}
        )

    found = node(("MemoryPressure", "False"), ("Ready", "True"), taints=[taint("k")])
    assert found == facts.TopologyNode("n", {"a": "b"}, parse_taints([taint("k")]), {"cpu": 2000}, True)
    assert not node(("Ready", "True"), unschedulable=True).is_schedulable_and_ready
    assert node(("Ready", "True"), unschedulable=False).is_schedulable_and_ready
    for conditions in ((), (("Ready", "False"),), (("Ready", "Unknown"), ("X", "True"))):
        assert not node(*conditions).is_schedulable_and_ready
    assert facts.topology_node({}).allocatable == {}


# Pod sets


def _pod_set(name: str = "", requests: Obj | None = None, **more: Any) -> Obj:
    spec = {"containers": [{"name": "c", "resources": {"requests": requests or {}}}], **more.pop("spec", {})}
    return {**({"name": name} if name else {}), "template": {"spec": spec}, **more}


def test_sizes_and_requests_of_pod_sets() -> None:
    rules = transformations(
        {"transformations": [{"input": "debt", "strategy": "Replace", "outputs": {"a": "-2", "zero": "0"}}]}
    )
    shape = new_shape(
        [_pod_set(requests={"debt": "3", "cpu": "1", "none": "0"}), _pod_set("b", count=4, minCount=2)], rules
    )
    one, other = shape.pod_sets
    assert (one.name, one.count, one.min_count) == ("main", 1, 1)
    assert (other.name, other.count, other.min_count) == ("b", 4, 2)
    assert one.per_pod == {"cpu": 1000, "none": 0, "a": 0, "zero": 0}
    assert one.per_pod_on_node == {"debt": 3, "cpu": 1000, "none": 0}
    for sizes, want in (
        ([(4, None)], False),
        ([(4, 4)], False),
        ([(4, 3)], True),
        ([(4, None), (4, 0)], True),
        ([(4, 3), (4, None)], True),
    ):
        sets = [
            {"name": str(i), "count": c, **({} if m is None else {"minCount": m})}
            for i, (c, m) in enumerate(sizes)
        ]
        assert new_shape(sets, NO_TRANSFORMATIONS).can_be_partially_admitted is want


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({}, TopologyRequest("", "", False, (), "", False)),
        ({"podSetGroupName": "g"}, TopologyRequest("", "", False, (), "g", False)),
        ({"required": "r"}, TopologyRequest("r", "", False, (), "", True)),
        ({"preferred": "p"}, TopologyRequest("", "p", False, (), "", True)),
        ({"unconstrained": True}, TopologyRequest("", "", True, (), "", True)),
        ({"unconstrained": False}, TopologyRequest("", "", False, (), "", True)),
        (
            {"podSetSliceRequiredTopology": "s", "podSetSliceSize": 2},
            TopologyRequest("", "", False, (SliceConstraint("s", 2),), "", True),
        ),
        (
            {"podSetSliceRequiredTopology": "s"},
            TopologyRequest("", "", False, (SliceConstraint("s", 0),), "", True),
        ),
        ({"podSetSliceSize": 2}, TopologyRequest("", "", False, (), "", True)),
        (
            {
                "podsetSliceRequiredTopologyConstraints": [{"topology": "a", "size": 4}, {"topology": "b"}],
                "podSetSliceRequiredTopology": "s",
            },
            TopologyRequest("", "", False, (SliceConstraint("a", 4), SliceConstraint("b", 0)), "", True),
        ),
        (
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "a", "size": 1}]},
            TopologyRequest("", "", False, (SliceConstraint("a", 1),), "", True),
        ),
    ],
)
def test_what_pod_sets_ask_of_topologies(said: Obj, want: TopologyRequest) -> None:
    shape = new_shape([_pod_set("a"), _pod_set("b", topologyRequest=said)], NO_TRANSFORMATIONS)
    assert [ps.topology for ps in shape.pod_sets] == [None, want]
    assert shape.is_explicitly_topology_aware is want.is_explicit


def test_forms_tell_what_schedules_apart() -> None:
    def form(**spec: Any) -> bytes:
        return new_shape([_pod_set(spec=spec)], NO_TRANSFORMATIONS).form_text

    plain = form()
    assert form(nodeSelector={}) == form(tolerations=[]) == form(hostNetwork=True) == plain
    ways = [
        form(**{name: value})
        for name, value in {
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "a"}],
            "affinity": {"a": {}},
            "runtimeClassName": "r",
            "priority": 7,
            "topologySpreadConstraints": [{}],
            "resourceClaims": [{}],
            "overhead": {"cpu": "1"},
            "resources": {"requests": {"cpu": "1"}},
            "initContainers": [{}],
        }.items()
    ]
    assert len({plain, *ways}) == len(ways) + 1
    assert form(overhead={"cpu": "1000m"}) == form(overhead={"cpu": "1"})
    requests, limits = ({part: {"cpu": "1"}} for part in ("requests", "limits"))
    assert (
        form(resources=requests)
        == form(resources=limits)
        == form(resources={**requests, "limits": {"cpu": "2"}})
    )


def test_devices_count_beside_requests_or_for_them() -> None:
    shape = new_shape(
        [_pod_set("a", {"cpu": "1", "gpu": "2", "old": "5"}, count=2), _pod_set("b", {"cpu": "1"})],
        NO_TRANSFORMATIONS,
    )
    charge = (PodSetCharge("a", (("gpu", 3), ("new", 1)), ("old",)), PodSetCharge("c", (("gpu", 9),), ()))
    found = charged(shape, charge)
    first, second = found.pod_sets
    assert first.per_pod == {"cpu": 1000, "gpu": 5, "new": 1}
    assert first.per_pod_on_node == {"cpu": 1000, "gpu": 2, "old": 5}
    assert (first.name, first.count) == ("a", 2) and second is shape.pod_sets[1]
    assert found.form_text.startswith(shape.form_text) and found.form_text != shape.form_text
    assert charged(shape, charge[:1]).form_text != found.form_text
    reader = WorkloadReader()
    of = {"metadata": {"name": "w"}, "spec": {"podSets": [_pod_set("a", {"gpu": "2"}, count=2)]}}
    plain, more = reader.read(of), reader.read(of, charge[:1])
    assert [w.totals[0].requests["gpu"] for w in (plain, more)] == [4, 10]
    assert reader.read(of, charge[:1]).shape is more.shape and reader.read(of).shape is plain.shape
    assert len({plain.hash, more.hash, reader.read(of, charge).hash}) == 3
    assert plain.hash == reader.read(of).hash and more.hash == reader.read(of, charge[:1]).hash


# Workloads


def _all_of(workload: Workload) -> Obj:
    names = (
        *(
            "key",
            "namespace",
            "uid",
            "obj",
            "shape",
            "queue",
            "priority",
            "base_priority",
            "order_us",
            "totals",
            "hash",
        ),
        *(
            "cluster_queue",
            "has_quota",
            "is_admitted",
            "is_evicted",
            "reserved_us",
            "usage",
            "topology_usage",
        ),
        *("unhealthy_nodes", "needs_second_pass"),
    )
    return {name: getattr(workload, name) for name in names}


def _told(workload: Workload) -> Obj:
    def of(total: PodSetTotal) -> Obj:
        names = ("name", "count", "requests", "flavors", "topology", "delayed_topology", "domains")
        return {name: getattr(total, name) for name in names}

    return {**_all_of(workload), "totals": [of(total) for total in workload.totals]}


def test_the_same_facts_told_by_a_newer_object() -> None:
    uses = (("f", (DomainUse(("h",), {"gpu": 1}, 2),)),)
    total = PodSetTotal("main", 2, {"gpu": 2}, {"gpu": "f"})
    old = workload_of(
        uid="u", obj={"a": 1}, queue="ns/other", priority=3, base_priority=2, order_us=5, totals=(total,),
        alike=(1, "x"),
        cluster_queue="q", has_quota=True, is_admitted=True, is_evicted=True, reserved_us=9,
        usage=((FlavorResource("f", "gpu"), 2),), topology_usage=uses, unhealthy_nodes=("n",), needs_second_pass=True,
    )  # fmt: skip
    obj = {"metadata": {"generation": 4, "labels": {"kueue.x-k8s.io/job-uid": "j"}}}
    new = old.told_by(obj)
    assert _all_of(new) == {**_all_of(old), "obj": obj} and new.obj is obj
    assert (new.generation, new.job_uid) == (4, "j") and (old.generation, old.job_uid) == (0, "")
    assert new.total("main") is total and new.total("x") is None


_PLACED = {
    "levels": ["rack", "host"],
    "domains": [{"values": ["r", "h"], "count": 1}, {"values": ["r", "i"], "count": 2}],
}


def test_quota_just_given_is_read_as_it_will_be() -> None:
    def admitted(name: str, *, conditions: tuple[str, ...] = (), **status: Any) -> Obj:
        of = running(name, "q", 3, conditions=conditions, pod_sets=[_pod_set("a", {"gpu": "1"}, count=3)])
        (assigned,) = of["status"]["admission"]["podSetAssignments"]
        assigned |= {"count": 3, "topologyAssignment": _PLACED}
        return {**of, "status": {**of["status"], **status}}

    reader = WorkloadReader()
    for status in (
        {},
        {"reclaimablePods": [{"name": "a", "count": 1}]},
        {"admissionChecks": [{"name": "c", "state": "Ready"}]},
        {
            "reclaimablePods": [{"name": "a", "count": 2}],
            "admissionChecks": [{"name": "c", "state": "Ready"}],
        },
    ):
        obj = admitted("w", **status)
        before = reader.read({**obj, "status": {}})
        whole = reader.read(obj)
        held = reader.read(admitted("w")).totals
        found = reader.read_admitted(before, obj, obj["status"]["admission"], held)
        assert _told(found) == _told(whole), status
        assert (found.has_quota, found.is_admitted, found.is_evicted, found.cluster_queue) == (
            True,
            True,
            False,
            "q",
        )
        assert (
            found.usage and found.topology_usage[0][0] == "default" and found.reserved_us > before.reserved_us
        )
    bare = {**wl("v", "q"), "spec": obj["spec"]}
    first, second = reader.read(bare), reader.read({**bare, "metadata": {"name": "x"}})
    assert first.totals is second.totals and first.shape is second.shape
    assert (first.usage, first.topology_usage, first.reserved_us) == ((), (), -1)


def test_what_is_held_is_what_was_written() -> None:
    """Also where it is no multiple of its pods, until some of them are taken back."""
    of = running("w", "q", pod_sets=[_pod_set("a", {"gpu": "1"}, count=2)])
    (assigned,) = of["status"]["admission"]["podSetAssignments"]
    assigned |= {"count": 2, "resourceUsage": {"gpu": "5"}}
    reader = WorkloadReader()
    assert reader.read(of).totals[0].requests == {"gpu": 5}
    of["status"]["reclaimablePods"] = [{"name": "a", "count": 1}]
    total = reader.read(of).totals[0]
    assert (total.count, total.requests) == (1, {"gpu": 2})
    flavors = {name: f"f-{name}" for name in "hgfedcba"}
    assigned |= {"flavors": flavors, "topologyAssignment": _PLACED}
    assert [name for name, _ in reader.read(of).topology_usage] == sorted(flavors.values())


# Topology assignments


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (["a", "ab"], {"individual": {"prefix": "a", "roots": ["", "b"]}}),
        (["b", "ab"], {"individual": {"suffix": "b", "roots": ["", "a"]}}),
        # What is common from both sides overlaps in the shortest: the end counts first.
        (["ab", "aab"], {"individual": {"suffix": "ab", "roots": ["", "a"]}}),
        (["aba", "ababa"], {"individual": {"suffix": "aba", "roots": ["", "ab"]}}),
        (["xay", "xby"], {"individual": {"prefix": "x", "suffix": "y", "roots": ["a", "b"]}}),
        (["xy", "xay"], {"individual": {"prefix": "x", "suffix": "y", "roots": ["", "a"]}}),
        (["a", "b"], {"individual": {"roots": ["a", "b"]}}),
        (["", "b"], {"individual": {"roots": ["", "b"]}}),
        (["a", "a"], {"universal": "a"}),
    ],
)
def test_values_share_their_beginning_and_their_end(values: list[str], want: Obj) -> None:
    domains = tuple(DomainCount((value,), 2) for value in values)
    assignment = TopologyAssignment(("rack",), domains)
    packed = write_assignment(assignment)
    assert packed == {
        "levels": ["rack"],
        "slices": [{"domainCount": 2, "valuesPerLevel": [want], "podCounts": {"universal": 2}}],
    }
    assert read_assignment(packed) == assignment and assignment.pod_count() == 4


def test_slices_that_say_little() -> None:
    assert read_assignment({"slices": [{}, {"domainCount": 0}]}) == TopologyAssignment((), ())
    assert read_assignment({}) == TopologyAssignment((), ()) and read_assignment(None) is None
    counted = {"domainCount": 2, "podCounts": {"individual": [3, 4]}}
    assert read_assignment({"slices": [counted]}) == TopologyAssignment(
        (), (DomainCount((), 3), DomainCount((), 4))
    )


def test_a_slice_has_room_for_a_hundred_thousand() -> None:
    for count, want in ((100_000, [100_000]), (100_001, [100_000, 1])):
        racks = (DomainCount(("r",), 1),) * count
        packed = write_assignment(TopologyAssignment(("rack",), racks))
        assert packed is not None and [s["domainCount"] for s in packed["slices"]] == want
