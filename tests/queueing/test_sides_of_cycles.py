"""Both sides of what a cycle, the queues between cycles and the webhooks decide, each with its whole outcome."""

from __future__ import annotations

import random
from typing import Any

import pytest
from queueworld import NAMESPACES, NOW_S, Case, World, flavor, queue, running, sentence, wl
from test_kueue_job_webhooks import refused
from test_queueing_pending import pop, read
from test_what_changes_touch import Books

from fairway.cluster.changes import ADDED, Change
from fairway.kube.objects import Key
from fairway.kube.timestamps import rfc3339
from fairway.queueing.admissionchecks.provisioning import _change
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.control.kinds import CLUSTER_QUEUE
from fairway.queueing.control.settings import DEFAULT_KUEUE
from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import CycleOutcome, Eviction, Head, Outcome, RequeueReason, Status
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.cycle.pending import ClusterQueuePending
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.topologyassignments import (
    DomainCount,
    TopologyAssignment,
    read_assignment,
    write_assignment,
)
from fairway.queueing.integrations.registry import integrations
from fairway.queueing.metrics.observing import _since_s
from fairway.queueing.quota.queueusage import QueueUsageLedger, UsageSettings

HOST = "kubernetes.io/hostname"
Obj = dict[str, Any]


# What a borrower that waits keeps from those behind it.


@pytest.mark.parametrize(("asks", "wanted"), [(1, "admitted default"), (2, "waits WaitingForQuota")])
def test_a_borrower_that_waits_reserves_no_more_than_its_limit(asks: int, wanted: str) -> None:
    """4 of 6 GPUs are free. `big` may have 3 more by its limit and asks for 4: 1 is left for whoever comes after."""
    policy = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}}
    case = Case(
        queues=[
            queue("a", {"default": (2, 3)}, cohort="c", spec={"preemption": policy}),
            queue("b", 0, cohort="c"),
            queue("d", 4, cohort="c"),
        ],
        holding=[running("held", "a", 2, priority=9)],
        waiting=[wl("big", "a", 4, priority=9), wl("small", "b", asks)],
        want={},
    )
    found = {o.head.workload.key.partition("/")[2]: sentence(o) for o in World(case).cycle().entries}
    assert found == {"big": "waits WaitingForQuota", "small": wanted}


# Flavors: where the search stands, and that quota which is held stays where it is.


def tried(outcome: Outcome) -> dict[str, int]:
    assert outcome.assignment is not None
    (ps,) = outcome.assignment.pod_sets
    return {choice.flavor: choice.tried_index for choice in ps.flavors.values()}


@pytest.mark.parametrize(
    ("asks", "wanted"),
    [(1, {"one": 0}), (2, {"two": 1}), (3, {"three": -1})],
)
def test_a_search_that_came_to_the_last_flavor_begins_anew(asks: int, wanted: dict[str, int]) -> None:
    flavors = {"one": 1, "two": 2, "three": 3}
    case = Case(
        queues=[queue("a", flavors)],
        waiting=[wl("w", "a", asks)],
        want={},
        flavors=[flavor(n) for n in flavors],
    )
    (outcome,) = World(case).cycle().entries
    assert outcome.is_admitted and tried(outcome) == wanted


def host(name: str, pool: str, gpu: int = 4) -> Obj:
    return {
        "metadata": {"name": name, "labels": {HOST: name, "pool": pool}},
        "spec": {},
        "status": {
            "allocatable": {"gpu": str(gpu), "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_whoever_looks_for_another_node_keeps_its_flavor() -> None:
    """The first flavor is free; what it has of the second stays there, and only the node is another."""
    levels = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": HOST}]}}
    pod_sets = [
        {
            "name": "main",
            "count": 1,
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"gpu": "4"}}}]}},
            "topologyRequest": {"preferred": HOST},
        }
    ]
    on = {"topologyAssignment": {"levels": [HOST], "domains": [{"values": ["n2"], "count": 1}]}}
    old = running("old", "a", 4, flavor="second", pod_sets=pod_sets, assigned=on)
    old["status"]["unhealthyNodes"] = [{"name": "n2"}]
    case = Case(
        queues=[queue("a", {"first": 4, "second": 4})],
        waiting=[],
        holding=[old],
        want={},
        flavors=[flavor(n, topologyName="dc", nodeLabels={"pool": n}) for n in ("first", "second")],
        nodes=[host("n1", "first"), host("n3", "second")],
        topologies=[levels],
    )
    world = World(case)
    (outcome,) = world.cycle(heads=[Head(w, "a") for w in world.accounts.holders.values()]).entries
    assert outcome.is_admitted and outcome.admission is not None
    (assigned,) = outcome.admission["podSetAssignments"]
    assert assigned["flavors"] == {"gpu": "second"}
    placed = read_assignment(assigned["topologyAssignment"])
    assert placed is not None and [d.values for d in placed.domains] == [("n3",)]


@pytest.mark.parametrize(
    ("labelled", "wanted"),
    [("n2", "n2"), ("n1", "n1"), ("", "n1")],
)
def test_a_required_domain_that_is_preferred_but_too_small_gives_way(labelled: str, wanted: str) -> None:
    """KEP-2724 with TASRespectNodeAffinityPreferred: preference ranks, what is required decides."""
    levels = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": HOST}]}}
    for pods, where in ((1, wanted), (2, "n1")):
        term = {
            "weight": 5,
            "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [labelled]}]},
        }
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        spec = {"containers": [{"name": "c", "resources": {"requests": {"gpu": "1"}}}], "affinity": affinity}
        pod_sets = [
            {"name": "main", "count": pods, "template": {"spec": spec}, "topologyRequest": {"required": HOST}}
        ]
        case = Case(
            queues=[queue("a", {"tas": 9})],
            waiting=[wl("w", "a", 1, pod_sets=pod_sets)],
            want={},
            flavors=[flavor("tas", topologyName="dc")],
            nodes=[host("n1", "x", 2), host("n2", "x", 1)],
            topologies=[levels],
            gates={"TASRespectNodeAffinityPreferred": True},
        )
        (outcome,) = World(case).cycle().entries
        assert outcome.admission is not None
        placed = read_assignment(outcome.admission["podSetAssignments"][0]["topologyAssignment"])
        assert placed is not None
        best = where if labelled or pods == 2 else "n2"
        assert [(d.values, d.pods) for d in placed.domains] == [((best,), pods)]


def test_reasons_are_told_in_the_order_of_their_words() -> None:
    """Resources are walked in Kueue's own order; a sentence's parts are sorted."""
    covered = ["cpu", "a.com/x"]
    flavors = [{"name": "default", "resources": [{"name": r, "nominalQuota": "1"} for r in covered]}]
    groups = [{"coveredResources": covered, "flavors": flavors}]
    container = {"name": "c", "resources": {"requests": {"cpu": "2", "a.com/x": "2"}}}
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}]
    case = Case(
        queues=[queue("a", spec={"resourceGroups": groups})],
        waiting=[wl("w", "a", 1, pod_sets=pod_sets)],
        want={},
    )
    (outcome,) = World(case).cycle().entries
    places = [outcome.message.index(f"quota for {name} in flavor default") for name in ("a.com/x", "cpu")]
    assert places == sorted(places)


def test_pods_count_on_their_nodes_at_once_and_once() -> None:
    levels = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": HOST}]}}
    on = {"topologyAssignment": {"levels": [HOST], "domains": [{"values": ["n1"], "count": 1}]}}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"gpu": "2"}}}]}
    pod_sets = [
        {"name": "main", "count": 1, "template": {"spec": spec}, "topologyRequest": {"required": HOST}}
    ]
    case = Case(
        queues=[queue("a", {"tas": 9})],
        waiting=[],
        want={},
        flavors=[flavor("tas", topologyName="dc")],
        nodes=[host("n1", "x")],
        topologies=[levels],
    )
    world = World(case)
    accounts = world.accounts
    held = world.reader.read(running("old", "a", 2, flavor="tas", pod_sets=pod_sets, assigned=on))

    def used() -> Obj:
        return {r: v for r, v in accounts.topologies["tas"].leaves["n1"].used.items() if v}

    for _ in range(2):
        accounts.hold(held)
        assert used() == {"gpu": 2, "pods": 1}
    accounts.settle()
    assert used() == {"gpu": 2, "pods": 1}
    accounts.release(held.key)
    assert used() == {} and accounts.release(held.key) is None
    # A node comes while it is held, or let go: everything is counted anew, once.
    steps: list[tuple[Any, Obj]] = [
        (lambda: accounts.hold(held), {"gpu": 2, "pods": 1}),
        (lambda: accounts.release(held.key), {}),
    ]
    for act, wanted in steps:
        accounts.set_node(facts.topology_node(host("n1", "y")))
        act()
        accounts.settle()
        assert used() == wanted


# How an assignment is written.


def written(hosts: list[str], pods: list[int] | None = None, *, by_prefix: bool = True) -> Any:
    counts = pods or [1] * len(hosts)
    assignment = TopologyAssignment(
        (HOST,), tuple(DomainCount((h,), n) for h, n in zip(hosts, counts, strict=True))
    )
    packed = write_assignment(assignment, by_hostname_prefix=by_prefix)
    assert packed is not None and read_assignment(packed) == assignment and packed["levels"] == [HOST]
    return packed["slices"]


def test_hosts_of_several_racks_are_written_rack_by_rack_where_that_is_shorter() -> None:
    names = [f"a-very-long-name-of-rack-{rack}-{i}" for rack in ("one", "two") for i in range(4)]

    roots = [f"{rack}-{i}" for rack in ("one", "two") for i in range(4)]
    single = {
        "domainCount": 8,
        "valuesPerLevel": [{"individual": {"prefix": "a-very-long-name-of-rack-", "roots": roots}}],
        "podCounts": {"universal": 1},
    }
    many = [f"rack-{rack * 10}-host-{i:04}" for rack in ("a", "b") for i in range(40)]
    assert written(names) == [single], "eight hosts are shorter as they are"
    assert written(many, by_prefix=False)[0]["domainCount"] == 80
    assert [s["valuesPerLevel"][0]["individual"]["prefix"] for s in written(many)] == [
        "rack-aaaaaaaaaa-host-00",
        "rack-bbbbbbbbbb-host-00",
    ]
    assert [s["domainCount"] for s in written(many)] == [40, 40]
    assert written(["x"], [3]) == [
        {"domainCount": 1, "valuesPerLevel": [{"universal": "x"}], "podCounts": {"universal": 3}}
    ]
    assert written(["x", "y"], [3, 1])[0]["podCounts"] == {"individual": [3, 1]}
    assert written([]) == []


# Between cycles.


@pytest.mark.parametrize("seed", range(6))
def test_a_copy_of_a_queue_pops_in_the_same_order_whatever_moved_on(seed: int) -> None:
    draw = random.Random(seed)
    pending = ClusterQueuePending("a")
    names = [f"w{i}" for i in range(40)]
    for i, name in enumerate(names):
        pending.push(read(name, i + 1, priority=draw.randint(0, 50), age_s=i))
    for name in draw.sample(names, 15):
        pending.remove(f"default/{name}")
    for name in draw.sample(names, 10):
        pending.push(read(name, 99, priority=draw.randint(0, 50)))
    twin = pending.copy()
    order = [pop(pending) for _ in range(45)]
    assert [pop(twin) for _ in range(45)] == order
    there = [name for name in order if name]
    assert len(there) == len(set(there)) >= 25


def test_queues_and_cohorts_that_go() -> None:
    books = Books()
    assert books.say("ClusterQueue", queue("nobody", 4), gone=True) == ["anew"]
    lends = {"metadata": {"name": "c"}, "spec": {"resourceGroups": queue("x", 6)["spec"]["resourceGroups"]}}
    books.say("Cohort", lends)
    books.say("ClusterQueue", queue("a", 4, cohort="c"))
    books.accounts.settle()
    (total,) = {sum(node.subtree.values()) for node in books.accounts.cohorts.values()}
    assert total == 10
    assert books.say("Cohort", lends, gone=True)[-1] == "anew"
    books.accounts.settle()
    assert [sum(node.subtree.values()) for node in books.accounts.cohorts.values()] == [4]


# Words.


def test_how_a_check_changed_is_told_with_its_message() -> None:
    told = "Admission check c updated state from Pending to Ready"
    assert _change("Pending", {"name": "c", "state": "Ready"}) == told
    assert _change("Pending", {"name": "c", "state": "Ready", "message": ""}) == told
    assert _change("Pending", {"name": "c", "state": "Ready", "message": "x"}) == f"{told} with message: x"


def test_since_when_something_is_so() -> None:
    at = {"conditions": [{"type": "Evicted", "status": "True", "lastTransitionTime": rfc3339(5_000_000)}]}
    assert _since_s(at, "Evicted", 8_500_000) == 3.5
    assert _since_s(at, "Evicted", 4_000_000) == 0 and _since_s(at, "Admitted", 8_500_000) == 0
    assert _since_s({}, "Evicted", 8_500_000) == 0


# Webhooks.


def test_each_kind_of_containers_of_a_set_that_is_managed_stays() -> None:
    def stateful(containers: int, inits: int, cpu: str = "1", **spec: Any) -> Obj:
        def boxes(count: int) -> list[Obj]:
            return [
                {"name": f"c{i}", "image": "i", "resources": {"requests": {"cpu": cpu}}} for i in range(count)
            ]

        body = {"containers": boxes(containers), "initContainers": boxes(inits), **spec}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "s", "namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
            "spec": {
                "replicas": 1,
                "serviceName": "s",
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": body},
            },
        }

    def at(new: Obj) -> list[str]:
        found = refused(new, stateful(1, 1))
        return sorted(
            part.partition(":")[0].removeprefix("spec.template.spec.")
            for message in found
            for part in message.split("spec.template.spec.")
            if part.partition(":")[0] in FIELDS
        )

    assert at(stateful(1, 1)) == []
    assert at(stateful(2, 1)) == ["containers"]
    assert at(stateful(1, 2)) == ["initContainers"]
    assert at(stateful(2, 2)) == ["containers", "initContainers"]
    assert at(stateful(1, 1, "2")) == [
        "containers[0].resources.requests",
        "initContainers[0].resources.requests",
    ]
    assert at(stateful(2, 1, "2")) == ["containers", "initContainers[0].resources.requests"]
    assert at(stateful(2, 2, nodeSelector={"a": "b"})) == ["containers", "initContainers", "nodeSelector"]


FIELDS = (
    *("containers", "initContainers", "nodeSelector"),
    *("containers[0].resources.requests", "initContainers[0].resources.requests"),
)


# What came of a cycle.


def test_a_cycles_outcomes_together() -> None:
    victim, other = (
        World(Case(queues=[], waiting=[wl(n, "a", 1)], want={})).heads()[0].workload for n in "vo"
    )

    def one(status: Status, *evictions: Eviction, queue_name: str = "a", skipped: bool = False) -> Outcome:
        head = Head(victim, queue_name)
        return Outcome(
            head,
            status,
            "",
            "",
            RequeueReason.GENERIC,
            None,
            None,
            evictions=evictions,
            skipped_preemption=skipped,
        )

    first, again = Eviction(victim, "A", "m"), Eviction(victim, "B", "m")
    under_way, last = Eviction(other, "C", "m", is_under_way=True), Eviction(other, "D", "m")
    skipped = one(Status.SKIPPED, first, under_way, skipped=True)
    admitted = one(Status.ASSUMED, again, last, skipped=True)
    elsewhere = one(Status.NOT_NOMINATED, queue_name="b", skipped=True)
    outcome = CycleOutcome((skipped, admitted, elsewhere))
    assert outcome.admitted() == (admitted,)
    assert outcome.evictions() == (first, last)
    assert outcome.skipped_preemptions() == {"a": 2, "b": 1}
    assert outcome.made_progress and not CycleOutcome((skipped, elsewhere)).made_progress
    assert CycleOutcome((one(Status.EVICTED),)).made_progress and not CycleOutcome(()).made_progress
    told = {s: one(s).updates_status for s in Status}
    assert {s for s, tells in told.items() if tells} == {
        Status.NOT_NOMINATED,
        Status.SKIPPED,
        Status.PREEMPTION_GATED,
    }
    assert [s for s in Status if one(s).is_admitted] == [Status.ASSUMED]


# Every end of a head, with all that is said of it.

Told = tuple[str, str, str, str, bool, bool]
"""Status, message, reason, why it goes back to its queue, whether a preemption was skipped, whether it has a scan."""


def ends(case: Case, at: str = "", **options: Any) -> dict[str, Told]:
    world = World(case)
    heads = [Head(w, at or w.queue.partition("/")[2]) for w in map(world.reader.read, case.waiting)]
    plain = CycleOptions(number=1, now_us=NOW_S * 1_000_000, **options)
    found = run_cycle(world.accounts, heads, NAMESPACES, plain).entries
    return {
        o.head.workload.key.partition("/")[2]: (
            str(o.status),
            o.message,
            o.reason,
            str(o.requeue_reason),
            o.skipped_preemption,
            o.scan is not None,
        )
        for o in found
    }


def checked(*states: str) -> Obj:
    obj = wl("w", "a", 1)
    obj["status"] = {"admissionChecks": [{"name": f"c{i}", "state": s} for i, s in enumerate(states)]}
    return obj


@pytest.mark.parametrize("states", [("Retry",), ("Ready", "Rejected"), ("Ready", "Pending"), ()])
def test_a_head_whose_checks_failed_is_not_considered(states: tuple[str, ...]) -> None:
    told = ends(Case(queues=[queue("a", 4)], waiting=[checked(*states)], want={}))["w"]
    failed = ("", "The workload has failed admission checks", "PendingEvaluation", "", False, False)
    if "Retry" in states or "Rejected" in states:
        assert told == failed
    else:
        assert told[:3] == ("assumed", "", "")


def test_a_head_that_cannot_be_considered() -> None:
    w = [wl("w", "a", 1)]
    nobody = Case(queues=[queue("a", 4)], waiting=w, want={})
    assert ends(nobody, at="b") == {"w": ("", "ClusterQueue b not found", "Misconfigured", "", False, False)}
    stopped = Case(queues=[queue("a", 4, spec={"stopPolicy": "Hold"})], waiting=w, want={})
    assert ends(stopped) == {"w": ("", "ClusterQueue a is inactive", "Suspended", "", False, False)}
    selector = {"namespaceSelector": {"matchLabels": {"team": "research"}}}
    elsewhere = Case(queues=[queue("a", 4, spec=selector)], waiting=w, want={})
    said = "workload namespace doesn't match ClusterQueue selector"
    assert ends(elsewhere) == {"w": ("", said, "Misconfigured", "NamespaceMismatch", False, False)}
    gone = Case(queues=[queue("a", 4)], waiting=[wl("w", "a", 1, namespace="gone")], want={})
    said = 'workload namespace "gone" does not exist: namespaces "gone" not found'
    assert list(ends(gone).values()) == [("", said, "Misconfigured", "", False, False)]


def test_a_head_that_does_not_fit() -> None:
    large = Case(queues=[queue("a", 4)], waiting=[wl("w", "a", 9)], want={})
    status, message, *rest = ends(large)["w"]
    assert (status, rest) == ("", ["ExceedsMaxQuota", "NoFit", False, True])
    assert message.startswith("couldn't assign flavors to pod set main: insufficient quota for gpu")
    full = Case(queues=[queue("a", 4)], waiting=[wl("w", "a", 2)], holding=[running("old", "a", 3)], want={})
    status, message, *rest = ends(full)["w"]
    assert (status, rest) == ("", ["WaitingForQuota", "PreemptionNoCandidates", False, True])
    assert message.endswith("insufficient unused quota for gpu in flavor default, 1 more needed")


def test_a_head_whose_place_another_took() -> None:
    both = Case(
        queues=[queue("a", 0, cohort="c"), queue("b", 0, cohort="c"), queue("d", 4, cohort="c")],
        waiting=[wl("one", "a", 3, priority=5), wl("two", "b", 3)],
        want={},
    )
    found = ends(both)
    assert found["one"][0] == "assumed"
    late = "Workload no longer fits after processing another workload"
    for keeps in (True, False):
        gates = {"FlavorFungibilityPreserveScanProgress": keeps}
        told = ends(Case(**{**vars(both), "gates": gates}))["two"]
        assert told == ("skipped", late, "WaitingForQuota", "FailedAfterNomination", False, keeps)


def test_a_head_whose_victim_another_takes() -> None:
    reclaims = {"preemption": {"reclaimWithinCohort": "Any"}}
    case = Case(
        queues=[
            queue("a", 3, cohort="c", spec=reclaims),
            queue("b", 3, cohort="c", spec=reclaims),
            queue("d", 0, cohort="c"),
        ],
        holding=[running("old", "d", 6)],
        waiting=[wl("one", "a", 3, priority=5), wl("two", "b", 3)],
        want={},
    )
    found = ends(case)
    assert found["one"][2:] == ("WaitingForPreemptedWorkloads", "PendingPreemption", False, False)
    assert found["one"][1].endswith(". Pending the preemption of 1 workload(s)")
    overlaps = "Workload has overlapping preemption targets with another workload"
    deferred = f"{overlaps}, but will fit after these preemptions complete"
    waits = ("WaitingForPreemptedWorkloads", "PendingPreemption", False, False)
    assert found["two"] == ("", deferred, *waits)
    off = Case(**{**vars(case), "gates": {"RecomputeAssignmentUponPreemptionTargetsOverlap": False}})
    told = ends(off)["two"]
    assert told == ("skipped", overlaps, "WaitingForQuota", "FailedAfterNomination", True, True)


@pytest.mark.parametrize("gate", ["ConcurrentAdmission", "MultiKueueOrchestratedPreemption", ""])
@pytest.mark.parametrize("position", ["Closed", "Open"])
def test_a_head_that_may_not_preempt_yet(gate: str, position: str) -> None:
    asks = wl("w", "a", 4, priority=5)
    asks["spec"]["preemptionGates"] = [{"name": "g"}]
    asks["status"] = {"preemptionGates": [{"name": "g", "position": position}]}
    case = Case(
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("old", "a", 4)],
        waiting=[asks],
        want={},
        gates={gate: True} if gate else {},
    )
    told = ends(case)["w"]
    if gate and position == "Closed":
        said = "Workload requires preemption, but it's gated"
        assert told == ("preemptionGated", said, "AdmissionGated", "PreemptionGated", False, False)
    else:
        assert told[2:] == ("WaitingForPreemptedWorkloads", "PendingPreemption", False, False)


@pytest.mark.parametrize(("waits", "ready"), [(True, False), (True, True), (False, False)])
def test_a_head_that_waits_for_pods_of_others(waits: bool, ready: bool) -> None:
    case = Case(
        queues=[queue("a", 4), queue("b", 4)],
        waiting=[wl("one", "a", 1, age_s=99), wl("two", "b", 1, age_s=1)],
        want={},
    )
    found = ends(case, waits_for_pods_ready=waits, all_pods_ready=ready)
    said = "waiting for all admitted workloads to be in PodsReady condition"
    stands = ("waitingForPodsReady", said, "WaitingForPodsReady")
    if waits and not ready:
        assert found["one"][:3] == stands
    else:
        assert found["one"][:3] == ("assumed", "", "")
        assert (found["two"][:3] == stands) is waits, "one after the other"


@pytest.mark.parametrize(("said", "left"), [({"count": 2}, 2), ({"count": 0}, 4), ({}, 4), ({"count": 4}, 0)])
def test_pods_that_are_not_needed_any_more_are_not_asked_for(said: Obj, left: int) -> None:
    obj = wl("w", "a", 1)
    obj["spec"]["podSets"][0]["count"] = 4
    obj["status"] = {"reclaimablePods": [{"name": "main", **said}]}
    found = World(Case(queues=[], waiting=[obj], want={})).heads()[0].workload
    assert [(t.name, t.count, t.requests) for t in found.totals] == [("main", left, {"gpu": left})]


# Admission fair sharing: what a LocalQueue used.


def test_what_a_local_queue_used_decays_by_half_and_follows_what_it_holds() -> None:
    """KEP-4136: consumed = consumed / 2^(t/half-life) + held · (1 - 1/2^(t/half-life))."""
    ledger = QueueUsageLedger(
        UsageSettings(half_life_s=10, sampling_interval_s=10, weights={"cpu": 2.0, "zero": 0.0})
    )
    assert ledger.usage("ns/q") == 0 and ledger.usage("ns/q", 0) == ledger.usage("ns/q", -1) == float("inf")
    assert ledger.sample("ns/q", {"gpu": 8, "cpu": 4000}, 10_000_000) == {"gpu": 4, "cpu": 2}
    assert ledger.usage("ns/q") == 4 + 2 * 2 and ledger.usage("ns/q", 2.0) == 4
    assert ledger.sample("ns/q", {"gpu": 8}, 20_000_000) == {"gpu": 6, "cpu": 1}
    assert ledger.sample("ns/q", {}, 15_000_000) == {"gpu": 6, "cpu": 1}, "time does not go back"
    assert ledger.sample("ns/q", {}, 30_000_000) == {"gpu": 3, "cpu": 0.5}
    # Half of what is asked for counts at once: a sampling interval is a half-life.
    obj = wl("w", "q", 1)
    obj["metadata"]["namespace"], obj["spec"]["queueName"] = "ns", "q"
    obj["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"] = {
        "gpu": "4",
        "zero": "9",
    }
    found = World(Case(queues=[], waiting=[obj], want={})).heads()[0].workload
    ledger.penalize(found, 30_000_000)
    assert ledger.usage("ns/q") == 3 + 2 * 0.5 + 2
    twin = ledger.copy()
    twin.forgive("ns/q", found.key)
    twin.forgive("ns/other", found.key)
    assert (twin.usage("ns/q"), ledger.usage("ns/q")) == (4, 6)
    ledger.settle("ns/q", found.key, {}, 30_000_000)
    assert ledger.usage("ns/q") == 6 and ledger.sample("ns/q", {}, 40_000_000) == {
        "gpu": 2.5,
        "cpu": 0.25,
        "zero": 2.25,
    }
    assert twin.sample("ns/q", {}, 40_000_000) == {"gpu": 1.5, "cpu": 0.25}
    fresh = QueueUsageLedger(ledger.settings)
    fresh.penalize(found, 50_000_000)
    assert fresh.usage("ns/q") == 2
    fresh.settle("ns/q", found.key, {"gpu": 4}, 60_000_000)
    assert fresh.usage("ns/q") == 4, "its penalty, and half of what it held since"
    late = QueueUsageLedger(ledger.settings)
    late.settle("ns/q", found.key, {"gpu": 4}, 50_000_000)
    assert late.usage("ns/q") == 0, "nothing is known of the time before"
    # Without a half-life nothing is kept, and nothing counts.
    none = QueueUsageLedger(UsageSettings(half_life_s=0, sampling_interval_s=10, weights={}))
    none.set_consumed("ns/q", {"gpu": "3", "cpu": "500m"}, 0)
    assert none.usage("ns/q") == 3.5
    none.penalize(found, 0)
    assert none.usage("ns/q") == 3.5
    assert none.sample("ns/q", {"gpu": 8}, 10_000_000) == {} and none.usage("ns/q") == 0


def test_a_copy_of_the_books_follows_changes_by_itself() -> None:
    books = Backlog(DEFAULT_KUEUE)

    def come(of: Backlog, name: str) -> None:
        obj = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", **queue(name, 4)}
        of.apply(Change(1, ADDED, Key(CLUSTER_QUEUE, "", name), obj, None), 0)

    come(books, "a")
    twin = books.copy()
    come(twin, "b")
    come(books, "c")
    for of, names in ((books, ["a", "c"]), (twin, ["a", "b"])):
        of.accounts.settle()
        assert sorted(of.accounts.queues) == sorted(of.pending.queues) == names
        assert {name for _, name in of.take_touched()} >= {names[-1]}


def test_events_of_jobs_come_from_their_kinds_controller() -> None:
    kinds = integrations(DEFAULT_KUEUE.frameworks, DEFAULT_KUEUE.gates)
    assert {k.name: k.component for k in kinds.values()} == {
        k.name: f"{k.name}-kueue-controller" for k in kinds.values()
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns"}}
    told = kinds["Job.batch"].told(job, "Started", "m")
    assert (told.about, told.type, told.reason, told.message, told.component) == (
        Key("Job.batch", "ns", "j"),
        "Normal",
        "Started",
        "m",
        "batch/job-kueue-controller",
    )
