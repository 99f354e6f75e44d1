"""What the heads that come first in a cycle leave to those behind them: places, flavors, victims, shares, reserves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from queueworld import (
    NAMESPACES,
    NOW_S,
    Case,
    World,
    cohort,
    flavor,
    pod_set,
    queue,
    running,
    sentence,
    usage_of,
    wl,
)

from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import CycleOutcome, Head, Recomputation
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.topologyassignments import read_assignment
from fairway.queueing.flavors.assignment import ScanState

HOST = "kubernetes.io/hostname"
Obj = dict[str, Any]
HOSTS = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": HOST}]}}


def host(name: str, pool: str, gpu: int = 4) -> Obj:
    return {
        "metadata": {"name": name, "labels": {HOST: name, "pool": pool}},
        "spec": {},
        "status": {
            "allocatable": {"gpu": str(gpu), "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def on_host(pods: int) -> list[Obj]:
    """The pod set of so many pods, each with a GPU, that are to be on one host."""
    container = {"name": "c", "resources": {"requests": {"gpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    return [{"name": "main", "count": pods, "template": template, "topologyRequest": {"required": HOST}}]


def at(name: str, pods: int) -> Obj:
    return {"topologyAssignment": {"levels": [HOST], "domains": [{"values": [name], "count": pods}]}}


def pools(*names: str) -> list[Obj]:
    return [flavor(n, topologyName="dc", nodeLabels={"pool": n}) for n in names]


def cycle(world: World, heads: Sequence[Head] | None = None, **options: Any) -> CycleOutcome:
    """One cycle, which leaves the accounts as they were."""
    before = usage_of(world.accounts)
    plain = CycleOptions(number=1, now_us=NOW_S * 1_000_000, uses_fair_sharing=world.case.fair, **options)
    found = run_cycle(world.accounts, world.heads() if heads is None else heads, NAMESPACES, plain)
    assert usage_of(world.accounts) == before
    return found


def told(outcome: CycleOutcome) -> dict[str, str]:
    """In the order in which they were looked at."""
    return {o.head.workload.key.partition("/")[2]: sentence(o) for o in outcome.entries}


# Places


@pytest.mark.parametrize("again", [True, False])
def test_whose_place_is_taken_looks_for_another_in_the_flavor_it_was_nominated_with(again: bool) -> None:
    """Its search went on at the second flavor; in this cycle it goes neither back nor on, where there is room."""
    case = Case(
        queues=[queue("a", {"two": 4}), queue("b", {"one": 4, "two": 4, "three": 4})],
        waiting=[
            wl("first", "a", pod_sets=on_host(4), age_s=90),
            wl("second", "b", pod_sets=on_host(4)),
        ],
        want={},
        flavors=pools("one", "two", "three"),
        nodes=[host("n1", "one"), host("n2", "two"), host("n3", "three")],
        topologies=[HOSTS],
        gates={"TASRecomputeAssignmentWithinSchedulingCycle": again},
    )
    world = World(case)
    first, second = (head.workload for head in world.heads())
    stopped = ScanState(({"gpu": 0},), world.accounts.queues["b"].generation, 0, second.hash)
    outcome = cycle(world, [Head(first, "a"), Head(second, "b", stopped)])
    assert told(outcome) == {"first": "admitted two", "second": "waits WaitingForQuota"}
    found = outcome.entries[1]
    if not again:
        assert found.message == "Workload no longer fits after processing another workload"
        return
    assert found.message == (
        "couldn't assign flavors to pod set main: topology \"dc\" doesn't allow to fit any of 4 pod(s). "
        'Total nodes: 1; excluded: resource "gpu": 1'
    )
    assert found.recomputation == Recomputation.NONE, "that counts other targets alone"
    (anew,) = cycle(world, [Head(second, "b")]).entries
    assert sentence(anew) == "admitted one"


def test_whose_place_is_taken_does_not_go_where_somebody_still_is() -> None:
    """The victim of the first is still on n1; n2, where the second was to go, is the first one's now."""
    case = Case(
        queues=[queue("a", {"one": 4}, within="LowerPriority"), queue("b", {"one": 4})],
        holding=[running("victim", "a", 4, flavor="one", pod_sets=on_host(4), assigned=at("n1", 4))],
        waiting=[
            wl("first", "a", pod_sets=on_host(4), priority=5),
            wl("second", "b", pod_sets=on_host(4)),
        ],
        want={},
        flavors=pools("one"),
        nodes=[host("n1", "one", 5), host("n2", "one", 4)],
        topologies=[HOSTS],
    )
    outcome = cycle(World(case))
    assert told(outcome) == {
        "first": "preempts victim:InClusterQueue",
        "second": "waits WaitingForQuota",
    }
    assert str(outcome.entries[1].requeue_reason) == "PreemptionNoCandidates"
    alone = cycle(World(Case(**{**vars(case), "waiting": case.waiting[1:]})))
    assert told(alone) == {"second": "admitted one"}
    assert alone.entries[0].admission is not None
    (assigned,) = alone.entries[0].admission["podSetAssignments"]
    placed = read_assignment(assigned["topologyAssignment"])
    assert placed is not None and [d.values for d in placed.domains] == [("n2",)]


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("holder", ["low", "high", "elsewhere"])
def test_a_preemptor_has_its_place_before_its_victims_are_gone(asks: bool, holder: str) -> None:
    """Whether the pods ask for a domain, or the queue has none but flavors with domains. Without a victim the place is
    that of an empty cluster; there is none where the flavor has no domains."""
    aware = holder != "elsewhere"
    sets = on_host(3)
    if not asks or not aware:
        del sets[0]["topologyRequest"]
    held = running(
        "old",
        "a",
        3,
        flavor="one",
        pod_sets=sets,
        assigned=at("n2", 3) if aware else {},
        priority=9 * (holder == "high"),
    )
    case = Case(
        queues=[queue("a", {"one": 4}, within="LowerPriority")],
        holding=[held],
        waiting=[wl("new", "a", pod_sets=sets, priority=5)],
        want={},
        flavors=pools("one") if aware else [flavor("one")],
        nodes=[host("n1", "one", 2), host("n2", "one", 3)],
        topologies=[HOSTS],
    )
    (outcome,) = cycle(World(case)).entries
    assert bool(outcome.evictions) == (holder != "high") and outcome.assignment is not None
    (ps,) = outcome.assignment.pod_sets
    found = None if ps.topology is None else [(d.values, d.pods) for d in ps.topology.domains]
    assert found == ([(("n2",), 3)] if aware else None)


# Victims


def three(lends: int, *guests: Obj, asks: int = 4, **policy: Any) -> Case:
    reclaim = {"reclaim": "Any", **policy}
    return Case(
        queues=[
            queue("a", lends, cohort="lab", **reclaim),
            queue("b", lends, cohort="lab", **reclaim),
            queue("c", 0, cohort="lab"),
        ],
        holding=guests,
        waiting=[wl("one", "a", asks, age_s=90, priority=5), wl("two", "b", asks, priority=5)],
        want={},
    )


def test_what_comes_of_wanting_anothers_victim() -> None:
    """There is room once it is gone; or others are found; or there is nobody else, and no room either."""
    room = cycle(World(three(4, running("guest", "c", 8))))
    assert [o.recomputation for o in room.entries] == [Recomputation.NONE, Recomputation.DEFERRED_FIT]
    others = cycle(World(three(4, running("g1", "c", 4, since_s=5), running("g2", "c", 4))))
    assert [o.recomputation for o in others.entries] == [Recomputation.NONE, Recomputation.NEW_TARGETS]
    borrows = {"reclaim": "LowerPriority", "borrow_within": {"policy": "LowerPriority"}}
    nobody = cycle(World(three(2, running("guest", "c", 4), asks=3, **borrows)))
    assert told(nobody) == {
        "one": "preempts guest:InCohortReclaimWhileBorrowing",
        "two": "waits WaitingForQuota",
    }
    assert [o.recomputation for o in nobody.entries] == [Recomputation.NONE, Recomputation.SKIPPED]


def test_who_wants_anothers_victim_stays_with_its_flavor() -> None:
    """With `guest` gone and `one` served there is room to borrow in the first flavor, too, and yet it is the second
    that it was nominated with."""
    both = [pod_set(n, requests={"gpu": 4}) for n in ("x", "y")]
    guest = running("guest", "c", pod_sets=both)
    for assigned, name in zip(
        guest["status"]["admission"]["podSetAssignments"], ("default", "next"), strict=True
    ):
        assigned |= {"flavors": {"gpu": name}, "resourceUsage": {"gpu": "4"}}
    case = Case(
        queues=[
            queue("a", {"default": 4}, cohort="lab", reclaim="Any"),
            queue("b", {"default": 0, "next": 4}, cohort="lab", reclaim="Any"),
            queue("c", {"default": 4, "next": 0}, cohort="lab"),
        ],
        holding=[guest, running("mine", "c", 4)],
        waiting=[wl("one", "a", 1, age_s=90, priority=5), wl("two", "b", 3)],
        want={},
        flavors=[flavor("default"), flavor("next")],
    )
    one, two = cycle(World(case)).entries
    assert [sentence(o) for o in (one, two)] == [
        "preempts guest:InCohortReclamation",
        "waits WaitingForPreemptedWorkloads",
    ]
    assert two.recomputation == Recomputation.DEFERRED_FIT and two.assignment is not None
    (ps,) = two.assignment.pod_sets
    assert [choice.flavor for choice in ps.flavors.values()] == ["next"]


def test_who_waits_for_anothers_victim_takes_its_room_for_the_cycle() -> None:
    case = three(4, running("guest", "c", 6))
    late = Case(
        **{
            **vars(case),
            "queues": [*case.queues, queue("d", 0, cohort="lab")],
            "cohorts": [cohort("lab", gpu=1)],
            "waiting": [*case.waiting, wl("three", "d", 2), wl("four", "c", 1)],
        }
    )
    assert told(cycle(World(late))) == {
        "one": "preempts guest:InCohortReclamation",
        "two": "waits WaitingForPreemptedWorkloads",
        "three": "waits WaitingForQuota",
        "four": "admitted default",
    }


def test_only_what_a_queue_really_has_left_is_reserved() -> None:
    """`own` fits neither now nor by preempting; `guest` is another's victim, and yet counts until it is gone."""
    case = Case(
        queues=[
            queue("a", 4, cohort="lab", reclaim="Any"),
            queue("b", {"default": (4, 0)}, cohort="lab"),
            queue("c", 0, cohort="lab"),
        ],
        cohorts=[cohort("lab", gpu=2)],
        holding=[running("mine", "b", 4, priority=9), running("guest", "c", 4)],
        waiting=[wl("first", "a", 4, priority=9), wl("own", "b", 4, age_s=99), wl("last", "c", 2)],
        want={},
    )
    assert told(cycle(World(case))) == {
        "first": "preempts guest:InCohortReclamation",
        "own": "waits WaitingForQuota",
        "last": "admitted default",
    }


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("is_preemptor", [True, False])
@pytest.mark.parametrize("reclaims", ["Any", "LowerPriority"])
def test_for_whom_capacity_is_kept(gate: bool, is_preemptor: bool, reclaims: str) -> None:
    """It could reclaim it from anybody later; and yet it is kept for one whose victims are on their way out."""
    case = Case(
        queues=[queue("a", 4, cohort="lab", reclaim=reclaims), queue("b", 0, cohort="lab")],
        holding=[running("old", "a", 2, priority=9)],
        waiting=[wl("large", "a", 4, age_s=90, priority=3), wl("guest", "b", 2)],
        want={},
        gates={"PrioritizePreemptorWorkloads": gate},
    )
    world = World(case)
    large, guest = world.heads()
    found = told(cycle(world, [Head(large.workload, "a", is_preemptor=is_preemptor), guest]))
    is_kept = reclaims != "Any" or (gate and is_preemptor)
    assert found == {
        "large": "waits WaitingForQuota",
        "guest": "waits WaitingForQuota" if is_kept else "admitted default",
    }


# Shares


def test_shares_are_compared_as_they_are_until_victims_are_gone() -> None:
    """`c` still has the 6 that `first` takes of it, and so it is behind `b` with 2; then both find room."""
    case = Case(
        fair=True,
        queues=[
            queue("a", 4, cohort="lab", reclaim="Any"),
            queue("b", 0, cohort="lab"),
            queue("c", 0, cohort="lab"),
        ],
        cohorts=[cohort("lab", gpu=6)],
        holding=[running("b0", "b", 2), running("c0", "c", 6)],
        waiting=[wl("first", "a", 4), wl("of-c", "c", 2, age_s=90, priority=9), wl("of-b", "b", 2)],
        want={},
    )
    found = told(cycle(World(case)))
    assert list(found.items()) == [
        ("first", "preempts c0:InCohortReclamation"),
        ("of-b", "admitted default"),
        ("of-c", "admitted default"),
    ]


def test_of_two_heads_of_a_queue_the_last_takes_part_in_the_tournament() -> None:
    """One of the second pass and one of the queue's own; the other is tried again."""
    case = Case(
        fair=True,
        queues=[queue("a", 4), queue("b", 4)],
        waiting=[wl("one", "a", 1), wl("two", "a", 1), wl("other", "b", 1)],
        want={},
    )
    outcome = cycle(World(case))
    assert told(outcome) == {"two": "admitted default", "other": "admitted default", "one": "waits "}
    assert [str(o.requeue_reason) for o in outcome.entries] == ["FailedAfterNomination"] * 2 + [""]


# One after the other


@pytest.mark.parametrize("are_ready", [True, False])
def test_a_second_pass_neither_waits_for_pods_nor_makes_others_wait(are_ready: bool) -> None:
    old = running("old", "a", 4, flavor="one", pod_sets=on_host(4), assigned=at("gone", 4))
    old["status"]["unhealthyNodes"] = [{"name": "gone"}]
    case = Case(
        queues=[queue("a", {"one": 8}), queue("b", {"one": 8}), queue("c", {"one": 8})],
        holding=[old],
        waiting=[wl("new", "b", pod_sets=on_host(1), age_s=90), wl("later", "c", pod_sets=on_host(1))],
        want={},
        flavors=pools("one"),
        nodes=[host("n1", "one", 4), host("n2", "one", 4)],
        topologies=[HOSTS],
    )
    world = World(case)
    (held,) = world.accounts.holders.values()
    heads = [Head(held, "a"), *world.heads()]
    found = told(cycle(world, heads, waits_for_pods_ready=True, all_pods_ready=are_ready))
    assert found == {
        "old": "admitted one",
        "new": "admitted one" if are_ready else "waits WaitingForPodsReady",
        "later": "waits WaitingForPodsReady",
    }


# Variants


def variant(name: str, allowed: str, made: Any = wl, **more: Any) -> Obj:
    marks = {"kueue.x-k8s.io/workload-allowed-resource-flavors": allowed}
    obj: Obj = made(name, "a", 4, annotations=marks, **more)
    owner = {"kind": "Workload", "apiVersion": "kueue.x-k8s.io/v1beta2", "name": "parent", "uid": "u"}
    obj["metadata"]["ownerReferences"] = [owner]
    return obj


@pytest.mark.parametrize("gate", [True, False])
def test_a_better_sibling_that_is_being_preempted_is_still_there(gate: bool) -> None:
    case = Case(
        queues=[
            queue("a", {"default": 0, "next": 4}, cohort="lab"),
            queue("b", {"default": 4}, cohort="lab", reclaim="Any"),
        ],
        holding=[variant("better", "default", running)],
        waiting=[wl("owner", "b", 4, age_s=99, priority=9), variant("worse", "next")],
        want={},
        flavors=[flavor("default"), flavor("next")],
        gates={"ConcurrentAdmission": gate},
    )
    assert told(cycle(World(case))) == {
        "owner": "preempts better:InCohortReclamation",
        "worse": "waits PendingEvaluation" if gate else "admitted next",
    }


@pytest.mark.parametrize(
    ("which", "is_skipped"),
    [("default", True), ("next", False), ("last", False), ("gone", False), ("", False)],
)
def test_which_sibling_is_better(which: str, is_skipped: bool) -> None:
    """By its first flavor, in the order of the queue's; one with another flavor, or none, is neither."""
    case = Case(
        queues=[queue("a", {"default": 9, "next": 9, "last": 9})],
        holding=[running("another", "a", 1), variant("other", which, running), running("zero", "a", 1)],
        waiting=[variant("w", "next")],
        want={},
        flavors=[flavor(n) for n in ("default", "next", "last")],
        gates={"ConcurrentAdmission": True},
    )
    moves = {"last": "preempts other:FlavorMigration"}.get(which, "admitted next")
    found = told(cycle(World(case)))
    assert found == {"w": "waits PendingEvaluation" if is_skipped else moves}


# Configuration and refusals


def test_a_cycle_goes_by_what_is_configured_by_then() -> None:
    case = Case(queues=[queue("a", 1)], waiting=[wl("w", "a", 4)], want={})
    world = World(case)
    assert told(cycle(world)) == {"w": "waits ExceedsMaxQuota"}
    world.accounts.set_cluster_queue(facts.cluster_queue(queue("a", 4)))
    options = CycleOptions(number=2, now_us=NOW_S * 1_000_000)
    assert told(run_cycle(world.accounts, world.heads(), NAMESPACES, options)) == {"w": "admitted default"}


def test_whoever_is_refused_has_no_assignment() -> None:
    case = Case(queues=[queue("a", 4, spec={"stopPolicy": "Hold"})], waiting=[wl("w", "a", 1)], want={})
    (stopped,) = cycle(World(case)).entries
    assert stopped.assignment is None and stopped.considered == ""
    (large,) = cycle(World(Case(queues=[queue("a", 1)], waiting=[wl("w", "a", 2)], want={}))).entries
    assert large.assignment is not None and large.considered == ""


# Groups of pod sets


@pytest.mark.parametrize(("group", "requests"), [("g", {}), ("g", {"gpu": 0}), ("", {})])
def test_a_leader_that_asks_for_nothing_follows_its_group_into_the_flavor(group: str, requests: Obj) -> None:
    """So that it is placed with the workers; alone it has no flavor, and no domain. As in Kueue, of pods that ask for
    nothing at all none fits a domain in the end (CountIn of no requests is 0)."""
    asked = {"required": HOST, **({"podSetGroupName": group} if group else {})}
    leader = pod_set("leader", 1, requests, topology=asked)
    workers = pod_set("workers", 2, {"gpu": 1}, topology=asked)
    case = Case(
        queues=[queue("a", {"one": 4})],
        waiting=[wl("w", "a", pod_sets=[leader, workers])],
        want={},
        flavors=pools("one"),
        nodes=[host("n1", "one"), host("n2", "one")],
        topologies=[HOSTS],
    )
    (outcome,) = cycle(World(case)).entries
    if not group:
        assert outcome.message == "failed to assign flavors to pod set leader: no TAS flavor assigned"
        return
    assert str(outcome.status) == ("assumed" if requests else "skipped")
    assert outcome.assignment is not None
    assert {(fr.flavor, fr.resource): n for fr, n in outcome.assignment.usage.items()} == {("one", "gpu"): 2}
    first, second = outcome.assignment.admission("a")["podSetAssignments"]
    assert (first["flavors"], first["resourceUsage"]) == ({"gpu": "one"}, {"gpu": "0"})
    assert (second["flavors"], second["resourceUsage"]) == ({"gpu": "one"}, {"gpu": "2"})
    assert first["topologyAssignment"]["slices"] == [
        {"domainCount": 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 1}}
    ]


def test_of_a_group_the_first_that_cannot_run_in_a_flavor_tells_why() -> None:
    asked = {"required": HOST, "podSetGroupName": "g"}
    pod_sets = [
        pod_set("leader", topology=asked, nodeSelector={"pool": "two"}),
        pod_set("workers", 2, {"gpu": 1}, topology={**asked, "required": "rack"}),
    ]
    case = Case(
        queues=[queue("a", {"one": 4})],
        waiting=[wl("w", "a", pod_sets=pod_sets)],
        want={},
        flavors=pools("one"),
        nodes=[host("n1", "one")],
        topologies=[HOSTS],
    )
    (outcome,) = cycle(World(case)).entries
    assert outcome.message.count("flavor one doesn't match node affinity") == 2
    (turned,) = cycle(
        World(Case(**{**vars(case), "waiting": [wl("w", "a", pod_sets=pod_sets[::-1])]}))
    ).entries
    assert turned.message.count('Flavor "one" does not contain the requested level') == 2
