"""What an assignment asks of topologies and what it takes from them: each rule with all it leaves behind.

Source: pkg/scheduler/flavorassigner/tas_flavorassigner.go, errors.go, flavorassigner.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from queueworld import Case, World, flavor, queue, running, wl, workload_of

from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.facts.topologyassignments import DomainCount, TopologyAssignment
from fairway.queueing.facts.workloads import PodSetTotal, Workload
from fairway.queueing.flavors.assignment import (
    Assignment,
    Attempt,
    FlavorChoice,
    Mode,
    PodSetAssignment,
    ScanState,
    most_severe,
)
from fairway.queueing.flavors.placement import resolve_no_fit_reason
from fairway.queueing.flavors.topologyrequests import topology_requests
from fairway.queueing.tas.requests import TopologyResult

Obj = dict[str, Any]
HOST = "kubernetes.io/hostname"
OURS = "kueue.x-k8s.io/provisioning-request"
REMOTE = "kueue.x-k8s.io/multikueue"
REQUIRED = {"required": HOST}


def pod_set(name: str = "main", count: int = 2, topology: Obj | None = None) -> Obj:
    container = {"name": "c", "resources": {"requests": {"gpu": "1", "cpu": "1"}}}
    raw: Obj = {"name": name, "count": count, "template": {"spec": {"containers": [container]}}}
    return raw if topology is None else {**raw, "topologyRequest": topology}


def world(
    *pod_sets: Obj, aware: str = "one two", check: str = "", gates: dict[str, bool] | None = None
) -> World:
    """A queue of `one`, `two` and `plain`; those in `aware` have a topology of one host each."""
    names = ("one", "two", "plain")
    covered = ["gpu", "cpu"]
    flavors = [{"name": n, "resources": [{"name": r, "nominalQuota": "9"} for r in covered]} for n in names]
    spec: Obj = {"resourceGroups": [{"coveredResources": covered, "flavors": flavors}]}
    checks = []
    if check:
        spec["admissionChecksStrategy"] = {
            "admissionChecks": [{"name": "c", "onFlavors": [] if check == REMOTE else ["two"]}]
        }
        active = [{"type": "Active", "status": "True"}]
        checks = [
            {"metadata": {"name": "c"}, "spec": {"controllerName": check}, "status": {"conditions": active}}
        ]
    ready = [{"type": "Ready", "status": "True"}]
    nodes = [
        {
            "metadata": {"name": f"n-{n}", "labels": {HOST: f"n-{n}", "pool": n}},
            "spec": {},
            "status": {"allocatable": {"gpu": "4", "cpu": "4", "pods": "10"}, "conditions": ready},
        }
        for n in names
    ]
    levels = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": HOST}]}}
    case = Case(
        queues=[queue("a", spec=spec)],
        waiting=[wl("w", "a", 1, pod_sets=list(pod_sets) or [pod_set(topology=REQUIRED)])],
        want={},
        flavors=[
            flavor(n, nodeLabels={"pool": n}, **({"topologyName": "dc"} if n in aware.split() else {}))
            for n in names
        ],
        nodes=nodes,
        topologies=[levels],
        checks=checks,
        gates=gates or {},
    )
    return World(case)


def assigned(name: str = "main", count: int = 2, **flavors: str) -> PodSetAssignment:
    chosen = {r: FlavorChoice(f, Mode.FIT) for r, f in (flavors or {"gpu": "one", "cpu": "one"}).items()}
    return PodSetAssignment(name, count, {"gpu": count, "cpu": 1000 * count}, chosen)


def asked(of: World, *pod_sets: PodSetAssignment, workload: Workload | None = None) -> tuple[Obj, list[str]]:
    """(flavor → what is asked for, what is said of those that cannot be placed)."""
    assignment = Assignment(list(pod_sets), {})
    found = workload or of.heads()[0].workload
    requests = topology_requests(assignment, found, of.accounts.queues["a"], of.accounts)
    said = {f: [(r.pod_set.name, r.count, r.is_implied, r.updates) for r in rs] for f, rs in requests.items()}
    return said, [ps.error for ps in pod_sets]


def test_which_pod_sets_ask_for_a_place() -> None:
    one = [("main", 2, False, ())]
    assert asked(world(), assigned()) == ({"one": one}, [""])
    assert asked(world(), assigned(gpu="two", cpu="two")) == ({"two": one}, [""])
    assert asked(world(), assigned(gpu="two", cpu="plain")) == ({"two": one}, [""])
    assert asked(world(), assigned(gpu="plain", cpu="plain")) == ({}, ["no TAS flavor assigned"])
    assert asked(world(), assigned(gpu="one", cpu="two")) == (
        {},
        ["more than one TAS flavor assigned: one, two"],
    )
    bare = "workload requires Topology, but there is no TAS cache information"
    assert asked(world(aware=""), assigned()) == ({}, [bare])
    off = {"TopologyAwareScheduling": False}
    assert asked(world(gates=off), assigned()) == ({}, [""])
    # Nobody asks: only where the queue has nothing else it is implied.
    assert asked(world(pod_set()), assigned()) == ({}, [""])
    all_aware = world(pod_set(), aware="one two plain")
    assert asked(all_aware, assigned()) == ({"one": [("main", 2, True, ())]}, [""])
    assert asked(world(aware="one two plain"), assigned()) == ({"one": one}, [""])
    # What failed, has no pods, or has its place already, asks for none.
    assert asked(world(), assigned(count=0)) == ({}, [""])
    failed = assigned()
    failed.error = "odd"
    assert asked(world(), failed) == ({}, ["odd"])
    settled = assigned()
    settled.topology = TopologyAssignment((HOST,), (DomainCount(("n-one",), 2),))
    assert asked(world(), settled) == ({}, [""])
    several = world(pod_set("a", 1, REQUIRED), pod_set("b", 3), pod_set("c", 2, REQUIRED))
    found, errors = asked(several, assigned("a", 1), assigned("b", 3), assigned("c", 2, gpu="two", cpu="two"))
    assert (found, errors) == ({"one": [("a", 1, False, ())], "two": [("c", 2, False, ())]}, ["", "", ""])


@pytest.mark.parametrize(
    ("check", "flavor_name", "delayed"),
    [(OURS, "one", ""), (OURS, "two", "Pending"), (REMOTE, "one", "Pending"), ("other", "two", "")],
)
def test_places_that_are_found_once_there_are_nodes(check: str, flavor_name: str, delayed: str) -> None:
    of, ps = world(check=check), assigned(gpu=flavor_name, cpu=flavor_name)
    found, errors = asked(of, ps)
    assert (list(found), errors, ps.delayed_topology) == ([] if delayed else [flavor_name], [""], delayed)
    if check == OURS:
        held = of.heads()[0].workload
        held.has_quota = True
        ps = assigned(gpu=flavor_name, cpu=flavor_name)
        assert (list(asked(of, ps, workload=held)[0]), ps.delayed_topology) == ([flavor_name], "")


def test_what_checks_that_are_ready_say_of_a_pod_set_counts() -> None:
    of = world()
    found = of.heads()[0].workload
    mine, others = {"name": "main", "nodeSelector": {"a": "b"}}, {"name": "else", "nodeSelector": {"c": "d"}}
    checks = [
        {"name": "x", "state": "Ready", "podSetUpdates": [others, mine]},
        {"name": "y", "state": "Pending", "podSetUpdates": [mine]},
        {"name": "z", "state": "Ready"},
        {"name": "v", "state": "Ready", "podSetUpdates": [mine]},
    ]
    found.obj = {**found.obj, "status": {"admissionChecks": checks}}
    assert asked(of, assigned(), workload=found)[0] == {"one": [("main", 2, False, (mine, mine))]}


@pytest.mark.parametrize("kind", ["required", "preferred", "unconstrained"])
@pytest.mark.parametrize("elastic", [True, False])
def test_elastic_jobs_grow_where_there_is_room(kind: str, elastic: bool) -> None:
    on = {"ElasticJobsViaWorkloadSlices": True, "ElasticJobsViaWorkloadSlicesWithTAS": True}
    of = world(pod_set(topology={kind: True if kind == "unconstrained" else HOST}), gates=on)
    found = of.heads()[0].workload
    if elastic:
        found.obj["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    requests, (error,) = asked(of, assigned(), workload=found)
    if elastic and kind != "unconstrained":
        assert (requests, error) == (
            {},
            f"{kind} topology is not supported with ElasticJobsViaWorkloadSlices",
        )
    else:
        assert (list(requests), error) == (["one"], "")


# Assignments.


def test_the_mode_of_an_assignment_is_its_worst() -> None:
    fits, preempts = assigned("a"), assigned("b")
    preempts.set_mode(Mode.PREEMPT)
    assert preempts.mode() == Mode.FIT, "nothing is said against it"
    preempts.reasons.append("r")
    assert preempts.mode() == Mode.PREEMPT
    mixed = assigned("c")
    mixed.reasons.append("r")
    mixed.flavors["cpu"].mode = Mode.PREEMPT
    assert mixed.mode() == Mode.PREEMPT
    none = PodSetAssignment("d", 1, {}, {}, reasons=["r"])
    failed = assigned("e")
    failed.error = "x"
    assert none.mode() == failed.mode() == Mode.NO_FIT
    assert PodSetAssignment("f", 1, {}, {}).mode() == Mode.FIT
    for pod_sets, wanted in (
        ([], Mode.NO_FIT),
        ([fits], Mode.FIT),
        ([fits, preempts], Mode.PREEMPT),
        ([preempts, none], Mode.NO_FIT),
    ):
        assert Assignment(pod_sets, {}).mode() == wanted
    whole = Assignment([fits, preempts], {})
    whole.set_mode(Mode.FIT)
    assert whole.mode() == preempts.mode() == Mode.FIT
    whole.set_pod_set_mode("nobody", Mode.NO_FIT)
    assert whole.mode() == Mode.FIT
    whole.set_pod_set_mode("b", Mode.PREEMPT)
    assert (whole.mode(), preempts.mode(), fits.mode()) == (Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)
    whole.fail(fits, "broken")
    assert (whole.mode(), fits.error) == (Mode.NO_FIT, "broken")
    assert whole.pod_set("b") is preempts and whole.pod_set("x") is None
    assert [(f.flavor, f.resource) for f in whole.frs_needing_preemption()] == [
        ("one", "gpu"),
        ("one", "cpu"),
    ]


def test_what_is_said_of_an_assignment() -> None:
    one, two, fits = assigned("a"), assigned("b"), assigned("c")
    one.reasons, two.reasons = ["z", "y"], ["x"]
    told = "couldn't assign flavors to pod set a: y, z; couldn't assign flavors to pod set b: x"
    assert Assignment([one, fits, two], {}).message() == told
    assert Assignment([fits], {}).message() == ""
    two.error = "no"
    assert Assignment([one, two], {}).message() == "failed to assign flavors to pod set b: no"


def placed(**pods: int) -> TopologyAssignment:
    return TopologyAssignment((HOST,), tuple(DomainCount((host,), n) for host, n in pods.items()))


def test_places_that_were_found_are_taken_over() -> None:
    late, now, failed = assigned("a"), assigned("b"), assigned("c")
    late.delayed_topology = failed.delayed_topology = "Pending"
    failed.topology = placed(x=1)
    whole = Assignment([late, now, failed], {})
    there = placed(n=2)
    whole.take_topology(
        {
            "a": TopologyResult(there),
            "b": TopologyResult(there),
            "c": TopologyResult(None, "no"),
            "d": TopologyResult(there),
        }
    )
    assert [(ps.topology, ps.delayed_topology) for ps in whole.pod_sets] == [
        (there, "Ready"),
        (there, ""),
        (None, "Pending"),
    ]


def test_pods_that_are_there_already_are_not_counted_again() -> None:
    of = world(pod_set("main", 4, REQUIRED), pod_set("more", 1, REQUIRED))
    account, found = of.accounts.queues["a"], of.heads()[0].workload
    main, more = assigned("main", 4), assigned("more", 1)
    main.topology = TopologyAssignment((HOST,), (DomainCount(("x",), 3), DomainCount(("y",), 1)))
    more.topology = TopologyAssignment((HOST,), (DomainCount(("y",), 1),))
    strange = assigned("strange", 1)
    strange.topology = placed(x=1)
    torn = assigned("more", 1, gpu="one", cpu="two")
    torn.topology = placed(x=1)
    whole = Assignment([main, assigned("none", 1), more, strange], {})

    def net(assignment: Assignment, workload: Workload) -> Any:
        return {
            f: [(u.values, u.pods) for u in uses]
            for f, uses in assignment.net_topology_usage(account, workload)
        }

    assert net(whole, found) == {"one": [(("x",), 3), (("y",), 1), (("y",), 1)]}
    assert net(Assignment([torn], {}), found) == {}
    per_pod = found.shape.pod_sets[0].per_pod_on_node
    ((_, uses),) = whole.net_topology_usage(account, found)
    assert all(use.per_pod == per_pod for use in uses)
    on = {
        "topologyAssignment": {
            "levels": [HOST],
            "domains": [{"values": ["x"], "count": 2}, {"values": ["y"], "count": 1}],
        }
    }
    held = of.reader.read(
        running("w", "a", 1, flavor="one", pod_sets=[pod_set("main", 3, REQUIRED)], assigned=on)
    )
    assert net(Assignment([main], {}), held) == {"one": [(("x",), 1)]}
    held.cluster_queue = ""
    assert net(Assignment([main], {}), held) == {"one": [(("x",), 3), (("y",), 1)]}


def test_what_an_admission_makes_of_it() -> None:
    of = world(pod_set("main", 2, REQUIRED))
    found, main = of.heads()[0].workload, assigned()
    main.topology, main.delayed_topology = placed(x=2), "Ready"
    whole = Assignment([main], {})
    written = whole.admission("a")
    assert written["clusterQueue"] == "a"
    (entry,) = written["podSetAssignments"]
    assert {k: v for k, v in entry.items() if k != "topologyAssignment"} == {
        "name": "main",
        "flavors": {"gpu": "one", "cpu": "one"},
        "resourceUsage": {"gpu": "2", "cpu": "2"},
        "count": 2,
        "delayedTopologyRequest": "Ready",
    }
    assert entry["topologyAssignment"]["levels"] == [HOST]
    plain = Assignment([assigned()], {}).admission("a")["podSetAssignments"][0]
    assert "topologyAssignment" not in plain and "delayedTopologyRequest" not in plain
    (total,) = whole.held(found)
    assert (total.name, total.count, total.flavors) == ("main", 2, {"gpu": "one", "cpu": "one"})
    assert (total.requests, total.topology, total.delayed_topology) == (
        {"gpu": 2, "cpu": 2000},
        main.topology,
        "Ready",
    )
    assert [(d.values, d.pods) for d in total.domains] == [(("x",), 2)]
    (bare,) = Assignment([assigned()], {}).held(found)
    assert bare.domains == () and bare.topology is None


def test_where_a_search_goes_on() -> None:
    scan = ScanState(({"gpu": 1, "cpu": -1}, {"gpu": -1}), 3, 4, (5,))
    assert [scan.next_index(0, "gpu"), scan.next_index(0, "cpu"), scan.next_index(0, "x")] == [2, 0, 0]
    assert [scan.next_index(1, "gpu"), scan.next_index(2, "gpu")] == [0, 0]
    assert scan.has_pending_flavors() and not ScanState(({"gpu": -1},), 1, 1, (1,)).has_pending_flavors()
    assert not ScanState((), 1, 1, (1,)).has_pending_flavors()
    assert scan.is_of_shape((5,)) and not scan.is_of_shape((6,)) and scan.is_of_shape(())
    assert ScanState((), 1, 1, ()).is_of_shape((6,))


# Why nothing fits.

MILD, QUOTA, LARGE, NONE = "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"


def test_which_reason_is_worse() -> None:
    order = ["", MILD, QUOTA, LARGE, NONE]
    for i, a in enumerate(order):
        for j, b in enumerate(order):
            assert most_severe(a, b) == order[max(i, j)]


def test_the_mildest_of_a_groups_flavors_and_the_worst_of_all_groups() -> None:
    def reason(*pod_sets: list[tuple[str, Mode, str]]) -> str:
        groups = [
            {
                "coveredResources": [r],
                "flavors": [{"name": f, "resources": [{"name": r, "nominalQuota": "1"}]} for f in fs],
            }
            for r, fs in (("gpu", ("a", "b")), ("cpu", ("c", "d")))
        ]
        case = Case(queues=[queue("a", spec={"resourceGroups": groups})], waiting=[], want={})
        made = [
            PodSetAssignment(
                str(i),
                1,
                {},
                {},
                reasons=["r"],
                attempts=[Attempt(f, mode, no_fit_reason=why) for f, mode, why in tries],
            )
            for i, tries in enumerate(pod_sets)
        ]
        assignment = Assignment(made, {})
        resolve_no_fit_reason(assignment, World(case).accounts.queues["a"])
        return assignment.no_fit_reason

    no, fit = Mode.NO_FIT, Mode.FIT
    assert reason([]) == NONE
    assert reason([("a", no, LARGE), ("b", no, QUOTA)]) == QUOTA
    assert reason([("a", no, QUOTA), ("b", no, LARGE)]) == QUOTA
    assert reason([("a", no, LARGE), ("b", fit, QUOTA)]) == LARGE
    assert reason([("a", no, MILD), ("b", no, NONE), ("c", no, LARGE), ("d", no, NONE)]) == LARGE
    assert reason([("a", no, QUOTA), ("x", no, LARGE), ("y", no, MILD)]) == LARGE, (
        "of no group: each for itself"
    )
    assert reason([("a", no, MILD)], [("c", no, QUOTA)]) == QUOTA
    assert reason([("a", fit, QUOTA)]) == ""


def test_quota_is_asked_for_where_a_flavor_was_chosen_and_anything_is_wanted() -> None:
    """Nothing of a flavor is no request: it would be looked at by whoever may not borrow."""
    found = world(pod_set("one", 2), pod_set("two", 1)).heads()[0].workload
    both = [
        PodSetAssignment(
            "one", 1, {}, {"gpu": FlavorChoice("one", Mode.FIT), "cpu": FlavorChoice("two", Mode.FIT)}
        ),
        PodSetAssignment("two", 1, {}, {"gpu": FlavorChoice("one", Mode.FIT)}),
    ]
    asked = Assignment(both, {}).total_requests(found)
    assert asked == {FlavorResource("one", "gpu"): 2, FlavorResource("two", "cpu"): 1000}
    none = workload_of(
        totals=(PodSetTotal("one", 2, {"gpu": 0, "cpu": 1000, "mem": 5}, {}),), shape=found.shape
    )
    assert Assignment(both[:1], {}).total_requests(none) == {FlavorResource("two", "cpu"): 500}
