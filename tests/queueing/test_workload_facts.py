"""What is read of a Workload, of its namespace and of its conditions: each fact, both sides."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from queueworld import NOW_S, Case, World, cohort, pod_set, queue, running, wl

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.queueing.control.environment import Environment
from fairway.queueing.cycle.entries import Head
from fairway.queueing.facts import limits
from fairway.queueing.facts import workloadstate as state
from fairway.queueing.facts.conditions import NO_TIME_US, truncated, with_condition
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.facts.workloads import DomainUse, WorkloadReader
from fairway.queueing.integrations.priorities import ClassMissing, priority_change, priority_of

_K = "kueue.x-k8s.io/"


def _gates(**named: bool) -> Any:
    return gates_from(named)[0]


def _is(kind: str, status: str = "True", reason: str = "R", at: int = 0, message: str = "m") -> Obj:
    since = rfc3339((NOW_S + at) * 1_000_000)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


def _with(*conditions: Obj, **status: Any) -> Obj:
    return {**wl("w", "q", 2), "status": {"conditions": list(conditions), **status}}


# Order, priority, hash


@pytest.mark.parametrize("by_eviction", [True, False])
@pytest.mark.parametrize("sorts", [True, False])
@pytest.mark.parametrize(
    ("conditions", "by", "of"),
    [
        ([], "", 0),
        ([_is("Evicted", reason="AdmissionCheck", at=7)], "always", 7),
        ([_is("Evicted", reason="PodsReadyTimeout", at=7)], "eviction", 7),
        ([_is("Evicted", reason="Preempted", at=7)], "", 0),
        ([_is("Evicted", "False", "AdmissionCheck", at=7)], "", 0),
        ([_is("Preempted", reason="InCohortReclaimWhileBorrowing", at=7)], "unsorted", 7.001),
        ([_is("Preempted", reason="InClusterQueue", at=7)], "", 0),
        ([_is("Preempted", "False", "InCohortReclaimWhileBorrowing", at=7)], "", 0),
    ],
)
def test_since_when_it_counts_as_queued(
    by_eviction: bool, sorts: bool, conditions: list[Obj], by: str, of: float
) -> None:
    reader = WorkloadReader(_gates(PrioritySortingWithinCohort=sorts), requeue_by_eviction_time=by_eviction)
    counts = by == "always" or (by == "eviction" and by_eviction) or (by == "unsorted" and not sorts)
    made = NOW_S - 60
    want = (NOW_S + of if counts else made) * 1_000_000
    assert reader.read(_with(*conditions)).order_us == round(want)
    unborn = _with()
    del unborn["metadata"]["creationTimestamp"]
    assert reader.read(unborn).order_us == NO_TIME_US


@pytest.mark.parametrize(
    ("is_on", "said", "want"),
    [(True, "3", 8), (True, "-7", -2), (True, "x", 5), (True, None, 5), (False, "3", 5), (True, "", 5)],
)
def test_priority_and_its_boost(is_on: bool, said: str | None, want: int) -> None:
    annotations = {} if said is None else {f"{_K}priority-boost": said}
    found = WorkloadReader(_gates(PriorityBoost=is_on)).read(
        wl("w", "q", priority=5, annotations=annotations)
    )
    assert (found.priority, found.base_priority) == (want, 5)
    silent = wl("w", "q")
    del silent["spec"]["priority"]
    assert WorkloadReader().read(silent).priority == 0


def test_alike_are_those_of_one_form_priority_and_size() -> None:
    reader = WorkloadReader(_gates(SchedulingEquivalenceHashing=True))

    def alike(*more: Obj) -> int:
        return len({reader.read(o).hash for o in more})

    base = wl("a", "q", 2)
    assert alike(base, wl("b", "other", 2, age_s=9), wl("c", "q", 2, namespace="x")) == 1
    assert alike(base, wl("b", "q", 3)) == 2
    assert alike(base, wl("b", "q", 2, priority=1)) == 2
    twice = wl("b", "q", pod_sets=[pod_set(count=2, requests={"gpu": 2})])
    assert alike(base, twice) == 2
    assert alike(twice, {**twice, "status": {"reclaimablePods": [{"name": "main", "count": 1}]}}) == 2
    assert (
        alike(base, wl("b", "q", pod_sets=[pod_set(requests={"gpu": "2"}, tolerations=[{"key": "k"}])])) == 2
    )
    assert WorkloadReader(_gates(SchedulingEquivalenceHashing=False)).read(base).hash == ()
    allowed = wl("b", "q", 2, annotations={f"{_K}workload-allowed-resource-flavors": "x"})
    assert alike(base, allowed) == 1
    reader = WorkloadReader(_gates(SchedulingEquivalenceHashing=True, ConcurrentAdmission=True))
    assert alike(base, allowed) == 2


# What it asks for and holds


def _held(count: int = 4, **raw: Any) -> Obj:
    made = wl("w", "q", pod_sets=[pod_set(count=4, requests={"gpu": 2, "cpu": "500m"})])
    usage = {"gpu": str(2 * count), "cpu": f"{500 * count}m"}
    given = {"name": "main", "count": count, "flavors": {"gpu": "x", "cpu": "y"}, "resourceUsage": usage}
    admission = {"clusterQueue": "cq", "podSetAssignments": [{**given, **raw}]}
    made["status"] = {"conditions": [_is("QuotaReserved", at=3)], "admission": admission}
    return made


def test_what_it_asks_for() -> None:
    asked = WorkloadReader().read(_with())
    assert (asked.cluster_queue, asked.has_quota, asked.reserved_us) == ("", False, -1)
    assert (asked.usage, asked.topology_usage) == ((), ())
    (total,) = asked.totals
    assert (total.name, total.count, dict(total.requests), total.flavors) == ("main", 1, {"gpu": 2}, {})
    assert (asked.key, asked.namespace, asked.queue, asked.uid) == (
        "default/w",
        "default",
        "default/q",
        "uid-w",
    )
    four = wl("w", "q", pod_sets=[pod_set(count=4, requests={"gpu": 2})])
    four["status"] = {"reclaimablePods": [{"name": "main", "count": 1}, {"name": "x", "count": 3}]}
    (left,) = WorkloadReader().read(four).totals
    assert (left.count, dict(left.requests)) == (3, {"gpu": 6})
    four["status"] = {"reclaimablePods": [{"name": "main", "count": 9}]}
    assert WorkloadReader().read(four).totals[0].count == 0
    (whole,) = WorkloadReader(_gates(ReclaimablePods=False)).read(four).totals
    assert (whole.count, dict(whole.requests)) == (4, {"gpu": 8})


def test_what_it_holds() -> None:
    found = WorkloadReader().read(_held())
    assert (found.cluster_queue, found.has_quota, found.reserved_us) == ("cq", True, (NOW_S + 3) * 10**6)
    assert dict(found.usage) == {FlavorResource("x", "gpu"): 8, FlavorResource("y", "cpu"): 2000}
    (total,) = found.totals
    assert (total.count, dict(total.requests)) == (4, {"gpu": 8, "cpu": 2000})
    part = _held(3)
    part["status"]["reclaimablePods"] = [{"name": "main", "count": 2}]
    (left,) = WorkloadReader().read(part).totals
    assert (left.count, dict(left.requests)) == (2, {"gpu": 4, "cpu": 1000})
    part["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    assert WorkloadReader().read(part).totals[0].count == 3, "so many were admitted"
    unsaid = _held()
    del unsaid["status"]["admission"]["podSetAssignments"][0]["count"]
    assert WorkloadReader().read(unsaid).totals[0].count == 4
    stranger = _held(name="other", count=2)
    (other,) = WorkloadReader().read(stranger).totals
    assert (other.name, other.count) == ("other", 0)
    no_flavor = _held(flavors={"gpu": "x"})
    assert dict(WorkloadReader().read(no_flavor).usage) == {FlavorResource("x", "gpu"): 8}
    lost = _held()
    lost["status"]["conditions"] = [_is("QuotaReserved", "False")]
    gone = WorkloadReader().read(lost)
    assert (gone.has_quota, gone.reserved_us, gone.cluster_queue) == (False, -1, "cq")


def test_flags_of_conditions() -> None:
    for evicted, admitted in product(("True", "False", None), repeat=2):
        conditions = [_is("Evicted", evicted)] if evicted else []
        conditions += [_is("Admitted", admitted)] if admitted else []
        found = WorkloadReader().read(_with(*conditions, unhealthyNodes=[{"name": "n"}, {"name": "m"}]))
        assert (found.is_evicted, found.is_admitted) == (evicted == "True", admitted == "True")
        assert found.unhealthy_nodes == ("n", "m")
    assert WorkloadReader().read(_with()).unhealthy_nodes == ()


def test_pods_in_domains() -> None:
    topology = {
        "levels": ["rack", "kubernetes.io/hostname"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"universal": "r1"}, {"individual": {"roots": ["n1", "n2"]}}],
                "podCounts": {"individual": [3, 1]},
            }
        ],
    }
    flat = {
        "levels": ["kubernetes.io/hostname"],
        "domains": [{"values": ["n1"], "count": 3}, {"values": ["n2"], "count": 1}],
    }
    for written in (topology, flat):
        obj = _held(topologyAssignment=written, flavors={"gpu": "x", "cpu": "x"})
        found = WorkloadReader().read(obj)
        per_pod = {"gpu": 2, "cpu": 500}
        uses = found.totals[0].domains
        assert [(u.values[-1], dict(u.per_pod), u.pods) for u in uses] == [
            ("n1", per_pod, 3),
            ("n2", per_pod, 1),
        ]
        assert found.topology_usage == (("x", uses),)
        stranger = _held(topologyAssignment=written, name="other")
        (use, _) = WorkloadReader().read(stranger).totals[0].domains
        assert isinstance(use, DomainUse) and dict(use.per_pod) == per_pod
        plain = WorkloadReader(_gates(TopologyAwareScheduling=False)).read(obj)
        assert (plain.totals[0].topology, plain.topology_usage) == (None, ())
    assert WorkloadReader().read(_held()).totals[0].delayed_topology == ""
    late = WorkloadReader().read(_held(delayedTopologyRequest="Pending"))
    assert late.totals[0].delayed_topology == "Pending"


def test_totals_are_scaled_by_whole_pods() -> None:
    (total,) = WorkloadReader().read(_held()).totals
    assert (total.scaled_to(1).count, dict(total.scaled_to(1).requests)) == (1, {"gpu": 2, "cpu": 500})
    assert total.scaled_to(4) is total
    assert dict(total.scaled_to(6).requests) == {"gpu": 12, "cpu": 3000}
    assert total.scaled_to(6).flavors == total.flavors
    nobody = WorkloadReader().read(_held(0)).totals[0]
    assert nobody.scaled_to(3) is nobody


# Predicates


def _admitted(node: str = "n1", **more: Any) -> Obj:
    topology = {
        "levels": ["kubernetes.io/hostname"],
        "slices": [
            {"domainCount": 1, "valuesPerLevel": [{"universal": node}], "podCounts": {"universal": 1}}
        ],
    }
    given = {"name": "main", "topologyAssignment": topology, **more.pop("assigned", {})}
    return _with(*more.pop("conditions"), admission={"podSetAssignments": [given]}, **more)


RESERVED, ADMITTED = _is("QuotaReserved"), _is("Admitted")


@pytest.mark.parametrize(
    ("conditions", "spec", "annotations", "is_on", "want"),
    [
        ([], {}, {}, True, True),
        ([], {"active": False}, {}, True, False),
        ([], {"active": True}, {}, True, True),
        ([RESERVED], {}, {}, True, False),
        ([_is("QuotaReserved", "False", "Pending")], {}, {}, True, True),
        ([_is("QuotaReserved", "False", "OnHold")], {}, {}, True, False),
        ([_is("Finished")], {}, {}, True, False),
        ([_is("Finished", "False")], {}, {}, True, True),
        ([_is("WaitingForReplacementPods")], {}, {}, True, False),
        ([_is("WaitingForReplacementPods", "False")], {}, {}, True, True),
        ([_is("Evicted")], {}, {}, True, True),
        ([], {}, {f"{_K}admission-gated-by": "x"}, True, False),
        ([], {}, {f"{_K}admission-gated-by": "x"}, False, True),
        ([], {}, {f"{_K}admission-gated-by": ""}, True, True),
    ],
)
def test_who_belongs_into_a_queue(
    conditions: list[Obj], spec: Obj, annotations: dict[str, str], is_on: bool, want: bool
) -> None:
    obj = _with(*conditions)
    obj["spec"] |= spec
    obj["metadata"]["annotations"] = annotations
    assert state.is_admissible(obj, _gates(AdmissionGatedBy=is_on)) == want
    on_hold = conditions == [_is("QuotaReserved", "False", "OnHold")]
    assert state.is_on_hold(obj) == on_hold
    assert state.is_finished(obj) == (conditions == [_is("Finished")])


@pytest.mark.parametrize(
    ("conditions", "checks", "assigned", "unhealthy", "want"),
    [
        ([RESERVED], ["Ready"], {"topologyAssignment": None, "delayedTopologyRequest": "Pending"}, [], True),
        ([RESERVED], ["Ready"], {"topologyAssignment": None, "delayedTopologyRequest": "Ready"}, [], False),
        ([RESERVED], ["Ready"], {"delayedTopologyRequest": "Pending"}, [], False),
        (
            [RESERVED],
            ["Ready", "Pending"],
            {"topologyAssignment": None, "delayedTopologyRequest": "Pending"},
            [],
            False,
        ),
        (
            [RESERVED, ADMITTED],
            ["Ready"],
            {"topologyAssignment": None, "delayedTopologyRequest": "Pending"},
            [],
            False,
        ),
        ([RESERVED], [], {"topologyAssignment": None, "delayedTopologyRequest": "Pending"}, [], False),
        (
            [RESERVED, _is("Evicted")],
            ["Ready"],
            {"topologyAssignment": None, "delayedTopologyRequest": "Pending"},
            [],
            False,
        ),
        (
            [RESERVED, _is("Finished")],
            ["Ready"],
            {"topologyAssignment": None, "delayedTopologyRequest": "Pending"},
            [],
            False,
        ),
        ([], ["Ready"], {"topologyAssignment": None, "delayedTopologyRequest": "Pending"}, [], False),
        ([RESERVED, ADMITTED], [], {}, ["n1"], True),
        ([RESERVED, ADMITTED], [], {}, ["n2"], False),
        ([RESERVED, ADMITTED], [], {}, ["n2", "n1"], True),
        ([RESERVED], [], {}, ["n1"], False),
        ([RESERVED, ADMITTED, _is("Evicted")], [], {}, ["n1"], False),
        ([RESERVED, ADMITTED], [], {"topologyAssignment": None}, ["n1"], False),
        ([RESERVED, ADMITTED], ["Ready"], {}, [], False),
    ],
)
def test_who_is_scheduled_a_second_time(
    conditions: list[Obj], checks: list[str], assigned: Obj, unhealthy: list[str], want: bool
) -> None:
    obj = _admitted(
        conditions=conditions,
        assigned=assigned,
        admissionChecks=[{"name": f"c{i}", "state": s} for i, s in enumerate(checks)],
        unhealthyNodes=[{"name": n} for n in unhealthy],
    )
    assert state.needs_second_pass(obj) == want
    assert WorkloadReader().read(obj).needs_second_pass == want
    assert state.check_states(obj) == tuple(checks)


@pytest.mark.parametrize(
    ("gates", "said", "want"),
    [
        ([], {}, False),
        (["a"], {}, True),
        (["a"], {"a": "Closed"}, True),
        (["a"], {"a": "Open"}, False),
        (["a", "b"], {"a": "Open", "b": "Closed"}, True),
        (["a", "b"], {"a": "Open", "b": "Open"}, False),
        (["a", "b"], {"a": "Open"}, True),
        ([], {"a": "Closed"}, False),
    ],
)
def test_a_gate_of_preemption_is_closed_until_it_is_open(
    gates: list[str], said: dict[str, str], want: bool
) -> None:
    obj = _with(preemptionGates=[{"name": n, "position": p} for n, p in said.items()])
    obj["spec"]["preemptionGates"] = [{"name": n} for n in gates]
    assert state.has_closed_preemption_gate(obj) == want


@pytest.mark.parametrize(
    ("owners", "annotations", "want"),
    [
        ([("Pod", "v1")], {}, True),
        ([("Pod", "v1")], {f"{_K}is-group-workload": "true"}, False),
        ([("Pod", "v1"), ("Pod", "v1")], {}, False),
        ([("Pod", "v2")], {}, False),
        ([("Job", "v1")], {}, False),
        ([], {}, False),
    ],
)
def test_whose_is_one_pod(owners: list[tuple[str, str]], annotations: dict[str, str], want: bool) -> None:
    obj = _with()
    obj["metadata"] |= {
        "annotations": annotations,
        "ownerReferences": [{"kind": k, "apiVersion": v, "name": "x"} for k, v in owners],
    }
    assert state.is_owned_by_single_pod(obj) == want
    obj["metadata"]["annotations"] = {f"{_K}elastic-job": "true"}
    assert state.is_elastic(obj)
    obj["metadata"]["annotations"] = {f"{_K}elastic-job": "yes"}
    assert not state.is_elastic(obj)


# Conditions


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    def put(
        conditions: list[Obj], status: str, reason: str = "R", message: str = "m", generation: int = 0
    ) -> Any:
        return with_condition(
            conditions, "X", status, reason=reason, message=message, now_us=9_000_000, generation=generation
        )

    first = put([], "True")
    assert first == [
        {
            "type": "X",
            "status": "True",
            "lastTransitionTime": rfc3339(9_000_000),
            "reason": "R",
            "message": "m",
        }
    ]
    others = [_is("A"), _is("X"), _is("B")]
    same = put(others, "True", message="new")
    assert [c["type"] for c in same] == ["A", "X", "B"]
    assert same[1]["lastTransitionTime"] == others[1]["lastTransitionTime"] and same[1]["message"] == "new"
    assert put(others, "False")[1]["lastTransitionTime"] == rfc3339(9_000_000)
    assert put(first, "True") is first
    assert put([], "True", generation=3)[0]["observedGeneration"] == 3
    assert len(put([], "True", message="x" * 40_000)[0]["message"]) == 32 * 1024
    assert truncated("abcdef", 6) == "abcdef"
    assert truncated("abcdefg", 6) == "ab ..."


# Limits


def _box(requests: Obj | None = None, limits_: Obj | None = None) -> Obj:
    return {"resources": {"requests": requests or {}, "limits": limits_ or {}}}


OVER = "requests must not exceed its limits"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"containers": [_box({"cpu": "1"}, {"cpu": "1"})]}, []),
        (
            {"containers": [_box({"cpu": "1001m"}, {"cpu": "1"})]},
            [f'p.containers[0]: Invalid value: ["cpu"]: {OVER}'],
        ),
        ({"containers": [_box({"cpu": "9"}), _box({"memory": "9"}, {"cpu": "1"})]}, []),
        (
            {
                "containers": [{}, _box({"memory": 2, "cpu": 2, "x": 1}, {"memory": 1, "cpu": 1, "x": 1})],
                "initContainers": [_box({"x": 2}, {"x": 1})],
            },
            [
                f'p.initContainers[0]: Invalid value: ["x"]: {OVER}',
                f'p.containers[1]: Invalid value: ["cpu","memory"]: {OVER}',
            ],
        ),
        (
            {"containers": [{}], "resources": {"requests": {"cpu": 3}, "limits": {"cpu": 2}}},
            [f'p.resources: Invalid value: ["cpu"]: {OVER}'],
        ),
    ],
)
def test_requests_within_their_own_limits(spec: Obj, want: list[str]) -> None:
    assert limits.over_limits("p", spec) == want


def _range(kind: str, **bounds: Obj) -> Obj:
    return {"spec": {"limits": [{"type": kind, **bounds}]}}


def test_the_narrowest_bounds_of_all_ranges() -> None:
    found = limits.summarize(
        [
            _range("Container", max={"cpu": "4", "memory": "1Gi"}, min={"cpu": "1"}),
            _range("Container", max={"cpu": "3"}, min={"cpu": "2", "memory": "1"}),
            _range("Pod", max={"cpu": "9"}),
            {"spec": {}},
        ]
    )
    assert found["Container"] == limits.Bounds({"cpu": 3000, "memory": 2**30}, {"cpu": 2000, "memory": 1})
    assert found["Pod"] == limits.Bounds({"cpu": 9000}, {})
    assert set(found) == {"Container", "Pod"}


ABOVE, BELOW = (
    "requests must not be above the limitRange max",
    "requests must not be below the limitRange min",
)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"containers": [_box({"cpu": "2"}, {"cpu": "4"})]}, []),
        (
            {"containers": [_box({"cpu": "2"}, {"cpu": "4001m"})]},
            [f'p.containers[0]: Invalid value: ["cpu"]: {ABOVE}'],
        ),
        (
            {"containers": [_box({"cpu": "4001m"}, {"cpu": "2"})]},
            [f'p.containers[0]: Invalid value: ["cpu"]: {ABOVE}'],
        ),
        (
            {"containers": [_box({"cpu": "1999m"}, {"cpu": "4"})]},
            [f'p.containers[0]: Invalid value: ["cpu"]: {BELOW}'],
        ),
        ({"containers": [_box({}, {"cpu": "1999m"})]}, [f'p.containers[0]: Invalid value: ["cpu"]: {BELOW}']),
        ({"containers": [_box({"cpu": "5"})]}, [f'p.containers[0]: Invalid value: ["cpu"]: {ABOVE}']),
        ({"containers": [_box({"memory": "5"})]}, []),
        (
            {"containers": [_box({"cpu": "3"}), _box({"cpu": "3"})], "initContainers": [_box({"cpu": "5"})]},
            [f'p.initContainers[0]: Invalid value: ["cpu"]: {ABOVE}', f'p: Invalid value: ["cpu"]: {ABOVE}'],
        ),
        ({"containers": [_box({"cpu": "3"}), _box({"cpu": "2"})]}, []),
    ],
)
def test_requests_within_the_bounds_of_the_namespace(spec: Obj, want: list[str]) -> None:
    bounds = limits.summarize(
        [_range("Container", max={"cpu": "4"}, min={"cpu": "2"}), _range("Pod", max={"cpu": 5})]
    )
    assert limits.out_of_range("p", spec, bounds) == want
    assert limits.out_of_range("p", spec, {}) == []


def test_problems_are_told_once_each() -> None:
    assert limits.aggregate(["a"]) == limits.aggregate(["a", "a"]) == "a"
    assert limits.aggregate(["a", "b", "a"]) == "[a, b]"


# What stands around


def _change(kind: str, obj: Obj, old: Obj | None = None, *, gone: bool = False) -> Change:
    meta = obj["metadata"]
    key = Key(kind, meta.get("namespace", ""), meta["name"])
    return Change(1, DELETED if gone else MODIFIED if old else ADDED, key, obj, old)


def test_namespaces_and_their_labels() -> None:
    around = Environment()
    a = {"metadata": {"name": "a", "labels": {"x": "1"}}}
    assert around.hear_namespace(_change("Namespace", a)) == (
        None,
        {"kubernetes.io/metadata.name": "a", "x": "1"},
    )
    assert around.hear_namespace(_change("Namespace", a, a)) is None
    moved = {"metadata": {"name": "a", "labels": {"x": "2"}}}
    before, now = around.hear_namespace(_change("Namespace", moved, a)) or ({}, {})
    assert (before or {}).get("x") == "1" and now["x"] == "2"
    twin = around.copy()
    assert around.hear_namespace(_change("Namespace", moved, gone=True)) is None
    assert around.hear_namespace(_change("Namespace", moved)) == (None, now), "it is new"
    assert twin.hear_namespace(_change("Namespace", moved, a)) is None, "the copy has it still"
    around.know_namespace("b")
    assert around.hear_namespace(_change("Namespace", {"metadata": {"name": "b"}})) is None
    around.know_namespace("a")
    assert around.hear_namespace(_change("Namespace", moved, a)) is None


def test_pods_will_be_as_ranges_and_classes_make_them() -> None:
    around = Environment()
    assert around.adjusts_nothing
    plain = wl("w", "q", pod_sets=[pod_set(requests={"gpu": 1}, runtimeClassName="r")])
    assert around.adjusted(plain) is plain
    one, two = (
        {
            "metadata": {"name": n, "namespace": "default"},
            "spec": {"limits": [{"type": "Container", "default": d}]},
        }
        for n, d in (("one", {"cpu": "1"}), ("two", {"cpu": "2", "memory": "3"}))
    )
    for it in (two, one):
        around.hear_limit_range(_change("LimitRange", it))

    def given(obj: Obj = plain, to: Environment = around) -> tuple[Obj, Any]:
        spec = to.adjusted(obj)["spec"]["podSets"][0]["template"]["spec"]
        return spec["containers"][0]["resources"].get("limits", {}), spec.get("overhead")

    assert given() == ({"cpu": "2", "memory": "3"}, None), "of several the first that says something"
    assert given(wl("w", "q", namespace="other")) == ({}, None)
    around.hear_limit_range(_change("LimitRange", two, gone=True))
    assert given() == ({"cpu": "1"}, None)
    fixed = {"metadata": {"name": "r"}, "overhead": {"podFixed": {"cpu": "5m"}}}
    around.hear_runtime_class(_change("RuntimeClass", fixed))
    assert given() == ({"cpu": "1"}, {"cpu": "5m"})
    twin = around.copy()
    around.hear_limit_range(_change("LimitRange", one, gone=True))
    assert given() == ({}, {"cpu": "5m"}) and not around.adjusts_nothing
    around.hear_runtime_class(_change("RuntimeClass", {"metadata": {"name": "r"}}, fixed))
    assert around.adjusts_nothing
    around.hear_runtime_class(_change("RuntimeClass", fixed))
    around.hear_runtime_class(_change("RuntimeClass", fixed, gone=True))
    assert around.adjusts_nothing
    assert given(to=twin) == ({"cpu": "1"}, {"cpu": "5m"})


def test_classes_that_stand_for_resources() -> None:
    def made(name: str, resource: str) -> Obj:
        return {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}

    around = Environment()
    assert around.hear_device_class(_change("DeviceClass", made("a", "x")))
    assert around.hear_device_class(_change("DeviceClass", made("b", "x")))
    assert around.backed == {"x": ("a", "b")}
    assert not around.hear_device_class(_change("DeviceClass", made("c", "")))
    twin = around.copy()
    assert around.hear_device_class(_change("DeviceClass", made("a", "y"), made("a", "x")))
    assert around.backed == {"x": ("b",), "y": ("a",)}
    assert around.hear_device_class(_change("DeviceClass", made("b", ""), made("b", "x")))
    assert around.backed == {"y": ("a",)}
    assert around.hear_device_class(_change("DeviceClass", made("a", "y"), gone=True))
    assert around.backed == {}
    assert twin.backed == {"x": ("a", "b")}


# Priority classes


def _classes() -> Store:
    store = Store()
    for kind, name, value, more in (
        ("WorkloadPriorityClass", "high", 100, {}),
        ("PriorityClass", "high", 7, {}),
        ("PriorityClass", "usual", 5, {"globalDefault": True}),
        ("PriorityClass", "low", 3, {"globalDefault": True}),
    ):
        group = "kueue.x-k8s.io/v1beta2" if kind[0] == "W" else "scheduling.k8s.io/v1"
        store.load({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "value": value, **more})
    return store


def _job(label: str | None = None) -> Obj:
    return {"metadata": {"name": "j", "labels": {f"{_K}priority-class": label} if label else {}}}


WORKLOADS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}


def _pods(name: str) -> Obj:
    return {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}


def test_which_class_a_workload_gets() -> None:
    store = _classes()
    named = [pod_set("a"), pod_set("b", priorityClassName="high"), pod_set("c", priorityClassName="low")]
    assert priority_of(store, _job("high"), named, "low") == (WORKLOADS, 100)
    assert priority_of(store, _job(), named, None) == (_pods("high"), 7)
    assert priority_of(store, _job(), named, "low") == (_pods("low"), 3)
    assert priority_of(store, _job(), named, "") == (_pods("low"), 3), "of several defaults the lowest"
    assert priority_of(store, _job(), [pod_set("a")], None) == (_pods("low"), 3)
    assert priority_of(Store(), _job(), [pod_set("a")], None) == (None, 0)
    critical = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
    for name, value in critical.items():
        assert priority_of(store, _job(), [], name) == (_pods(name), value)
    for job, custom, is_ours in ((_job("none"), None, True), (_job(), "none", False)):
        with pytest.raises(ClassMissing) as caught:
            priority_of(store, job, [], custom)
        assert (caught.value.name, caught.value.is_workload_class) == ("none", is_ours)


@pytest.mark.parametrize(
    ("label", "ref", "has_quota", "want"),
    [
        ("high", None, False, (WORKLOADS, 100)),
        ("high", None, True, None),
        ("high", {**WORKLOADS, "name": "old"}, False, (WORKLOADS, 100)),
        ("high", {**WORKLOADS, "name": "old"}, True, (WORKLOADS, 100)),
        ("high", WORKLOADS, False, None),
        ("high", _pods("usual"), False, None),
        (None, WORKLOADS, False, (_pods("low"), 3)),
        (None, None, False, None),
        (None, _pods("low"), False, None),
    ],
)
def test_a_workload_follows_the_label_of_its_job(label: Any, ref: Any, has_quota: bool, want: Any) -> None:
    obj = _with(*([RESERVED] if has_quota else []))
    obj["spec"]["priority"] = 1
    if ref is not None:
        obj["spec"]["priorityClassRef"] = ref
    found = priority_change(_classes(), _job(label), obj, None)
    if want is None:
        assert found is None
        return
    assert found == {**obj["spec"], "priorityClassRef": want[0], "priority": want[1]}


def test_without_any_class_the_reference_goes() -> None:
    obj = _with()
    obj["spec"] |= {"priorityClassRef": WORKLOADS, "priority": 9}
    found = priority_change(Store(), _job(), obj, None)
    assert found is not None and "priorityClassRef" not in found and found["priority"] == 0


# Cycles with more than one head of a queue


@pytest.mark.parametrize("fair", [True, False])
def test_whoever_is_asked_is_answered(fair: bool) -> None:
    """Under fair sharing one head of each queue takes part; the others come back all the same."""
    case = Case(
        queues=[queue("a", 4, cohort="c"), queue("b", 4, cohort="c"), queue("alone", 4)],
        cohorts=[cohort("c")],
        holding=[running("r", "b", 1)],
        waiting=[
            wl("a1", "a", 1),
            wl("b1", "b", 1),
            wl("a2", "a", 1),
            wl("x1", "alone", 1),
            wl("x2", "alone", 9),
        ],
        want={},
        fair=fair,
    )
    world = World(case)
    heads = [Head(w, w.queue.partition("/")[2]) for w in map(world.reader.read, case.waiting)]
    outcome = world.cycle(heads=heads)
    assert sorted(o.head.workload.uid for o in outcome.entries) == [
        "uid-a1",
        "uid-a2",
        "uid-b1",
        "uid-x1",
        "uid-x2",
    ]
