"""What spans cycles: resumed searches, waiting for pods, variants, usage-based admission, reserved capacity."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from queueworld import (
    NAMESPACES,
    NOW_S,
    Case,
    World,
    cohort,
    flavor,
    play,
    pod_set,
    queue,
    running,
    sentence,
    wl,
)

from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import Head, Recomputation, RequeueReason, Status
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.flavors.assignment import ScanState
from fairway.queueing.flavors.variants import is_parent
from fairway.queueing.quota.queueusage import QueueUsageLedger, usage_settings

NOW_US = NOW_S * 1_000_000
TWO_FLAVORS = [flavor("default"), flavor("next")]


def test_the_search_goes_on_where_it_stopped() -> None:
    """Stopped at a flavor it could borrow in, but somebody else took it: next time the flavor after that."""
    case = Case(
        queues=[
            queue("a", {"default": 0, "next": 4}, cohort="lab"),
            queue("b", {"default": 4}, cohort="lab"),
        ],
        flavors=TWO_FLAVORS,
        waiting=[wl("late", "a", 4), wl("early", "b", 4, age_s=90)],
        want={},
    )
    world = World(case)
    first = {o.head.workload.key: o for o in world.cycle(1).entries}
    late = first["default/late"]
    assert sentence(late) == "waits WaitingForQuota"
    assert late.scan is not None and late.scan.has_pending_flavors()
    (again,) = world.cycle(2, [Head(late.head.workload, "a", late.scan)]).entries
    assert sentence(again) == "admitted next"


def test_a_search_state_is_forgotten_when_room_may_have_appeared() -> None:
    case = Case(
        queues=[queue("a", {"default": 4, "next": 4})],
        flavors=TWO_FLAVORS,
        waiting=[wl("w", "a", 4)],
        want={},
    )
    world = World(case)
    (outcome,) = world.cycle(1).entries
    assert outcome.scan is not None
    before = outcome.scan
    stopped = ScanState(({"gpu": 0},), before.generation, before.cycle, before.hash)
    head = Head(outcome.head.workload, "a", stopped)
    (resumed,) = world.cycle(2, [head]).entries
    assert sentence(resumed) == "admitted next"
    world.accounts.queues["a"].generation += 1
    (fresh,) = world.cycle(5, [head]).entries
    assert sentence(fresh) == "admitted default"


def test_capacity_is_kept_for_a_workload_that_cannot_preempt_yet() -> None:
    """It waits for its own nominal quota; nobody may borrow that away in the same cycle."""
    case = Case(
        queues=[queue("a", 4, cohort="lab"), queue("b", 0, cohort="lab")],
        holding=[running("old", "a", 2)],
        waiting=[wl("large", "a", 4, age_s=90, priority=3), wl("guest", "b", 2)],
        want={"large": "waits WaitingForQuota", "guest": "waits WaitingForQuota"},
    )
    assert play(case)[0] == case.want


def test_nothing_is_kept_where_it_could_be_reclaimed_anyway() -> None:
    case = Case(
        queues=[queue("a", 4, cohort="lab", reclaim="Any"), queue("b", 0, cohort="lab")],
        holding=[running("old", "a", 2)],
        waiting=[wl("large", "a", 4, age_s=90, priority=3), wl("guest", "b", 2)],
        want={"large": "waits WaitingForQuota", "guest": "admitted default"},
    )
    assert play(case)[0] == case.want


def test_one_at_a_time_while_pods_get_ready() -> None:
    case = Case(
        queues=[queue("a", 4), queue("b", 4)], waiting=[wl("one", "a", age_s=90), wl("two", "b")], want={}
    )
    world = World(case)
    options = CycleOptions(1, NOW_US, waits_for_pods_ready=True)
    outcomes = run_cycle(world.accounts, world.heads(), NAMESPACES, options).entries
    assert [o.status for o in outcomes] == [Status.ASSUMED, Status.WAITING_FOR_PODS_READY]
    options = CycleOptions(1, NOW_US, waits_for_pods_ready=True, all_pods_ready=False)
    outcomes = run_cycle(world.accounts, world.heads(), NAMESPACES, options).entries
    assert [o.reason for o in outcomes] == ["WaitingForPodsReady"] * 2


def test_other_targets_are_found_where_the_first_choice_is_taken() -> None:
    case = Case(
        queues=[
            queue("a", 4, cohort="lab", reclaim="Any"),
            queue("b", 4, cohort="lab", reclaim="Any"),
            queue("c", 0, cohort="lab"),
        ],
        holding=[running("g1", "c", 4, since_s=5), running("g2", "c", 4, since_s=50)],
        waiting=[wl("one", "a", 4, age_s=90), wl("two", "b", 4)],
        want={"one": "preempts g1:InCohortReclamation", "two": "preempts g2:InCohortReclamation"},
    )
    world = World(case)
    outcomes = world.cycle().entries
    assert {o.head.workload.key.partition("/")[2]: sentence(o) for o in outcomes} == case.want
    assert [o.recomputation for o in outcomes] == [Recomputation.NONE, Recomputation.NEW_TARGETS]


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        ("waits", RequeueReason.NO_FIT),
        ("preempts", RequeueReason.PENDING_PREEMPTION),
        ("no candidates", RequeueReason.PREEMPTION_NO_CANDIDATES),
        ("namespace", RequeueReason.NAMESPACE_MISMATCH),
    ],
)
def test_how_a_workload_goes_back_to_its_queue(reason: str, want: RequeueReason) -> None:
    more: dict[str, Any] = {}
    if reason == "namespace":
        more["spec"] = {"namespaceSelector": {"matchLabels": {"team": "research"}}}
    within = "LowerPriority" if reason == "preempts" else "Never"
    case = Case(
        queues=[queue("a", 4, within=within, **more)],
        holding=[running("low", "a", 4)],
        waiting=[wl("w", "a", 9 if reason == "waits" else 2, priority=5)],
        want={},
    )
    (outcome,) = World(case).cycle().entries
    assert outcome.requeue_reason == want


def variant(name: str, allowed: str, made: Any = wl, **more: Any) -> dict[str, Any]:
    obj: dict[str, Any] = made(
        name, "a", 4, annotations={"kueue.x-k8s.io/workload-allowed-resource-flavors": allowed}, **more
    )
    owner = {"kind": "Workload", "apiVersion": "kueue.x-k8s.io/v1beta2", "name": "parent", "uid": "u"}
    obj["metadata"]["ownerReferences"] = [owner]
    return obj


def variants(**more: Any) -> Case:
    return Case(
        queues=[queue("a", {"default": 4, "next": 4}, **more.pop("queue", {}))],
        flavors=TWO_FLAVORS,
        gates={"ConcurrentAdmission": True},
        want={},
        **more,
    )


def test_a_variant_keeps_to_its_flavors() -> None:
    said, _ = play(variants(waiting=[variant("v", "next")]))
    assert said == {"v": "admitted next"}


def test_a_better_variant_moves_the_worse_one_over() -> None:
    case = variants(
        holding=[variant("worse", "next", running, flavor="next")], waiting=[variant("better", "default")]
    )
    (outcome,) = World(case).cycle().entries
    assert [e.reason for e in outcome.evictions] == ["FlavorMigration"]
    assert outcome.requeue_reason == RequeueReason.PENDING_MIGRATION
    assert outcome.reason == "WaitingForPreemptedWorkloads" and outcome.scan is None
    assert outcome.message.endswith("Pending the migration of 1 workload(s)")


def test_a_worse_variant_is_not_admitted_beside_a_better_one() -> None:
    case = variants(holding=[variant("better", "default", running)], waiting=[variant("worse", "next")])
    said, messages = play(case)
    assert said == {"worse": "waits PendingEvaluation"}
    assert messages == {"worse": "A more favorable variant is already admitted"}


def test_migration_stops_at_the_last_acceptable_flavor() -> None:
    policy = {"migration": {"constraints": {"lastAcceptableFlavorName": "default"}}}
    case = Case(
        queues=[queue("a", {"default": 4, "next": 4, "last": 4}, spec={"concurrentAdmissionPolicy": policy})],
        flavors=[*TWO_FLAVORS, flavor("last")],
        gates={"ConcurrentAdmission": True},
        holding=[variant("worst", "last", running, flavor="last")],
        waiting=[variant("middle", "next")],
        want={},
    )
    said, messages = play(case)
    assert said == {"middle": "waits PendingEvaluation"}
    assert messages == {"middle": "Target flavor is below LastAcceptableFlavorName"}


def test_no_running_variant_is_left_for_a_flavor_that_the_queue_has_not() -> None:
    policy = {"migration": {"constraints": {"lastAcceptableFlavorName": "gone"}}}
    case = Case(
        queues=[queue("a", {"default": 4, "next": 4}, spec={"concurrentAdmissionPolicy": policy})],
        flavors=TWO_FLAVORS,
        gates={"ConcurrentAdmission": True},
        holding=[variant("worst", "next", running, flavor="next")],
        waiting=[variant("best", "default")],
        want={},
    )
    said, messages = play(case)
    assert said == {"best": "waits PendingEvaluation"}
    assert messages == {"best": "Target flavor is below LastAcceptableFlavorName"}


def test_the_parent_of_variants_is_known_by_its_label() -> None:
    assert is_parent({"metadata": {"labels": {"kueue.x-k8s.io/concurrent-admission-parent": "true"}}})


SETTINGS = usage_settings(
    {"usageHalfLifeTime": "10m", "usageSamplingInterval": "5m", "resourceWeights": {"gpu": 2.0}}
)


def test_consumption_halves_in_a_half_life() -> None:
    ledger = QueueUsageLedger(SETTINGS)
    ledger.set_consumed("default/a", {"gpu": "8"}, 0)
    assert ledger.usage("default/a") == 16.0
    ledger.sample("default/a", {}, 600_000_000)
    assert ledger.usage("default/a") == 8.0
    assert ledger.usage("default/a", weight=4.0) == 2.0
    assert ledger.usage("default/a", weight=0) == float("inf")


def test_consumption_grows_towards_what_is_held() -> None:
    ledger = QueueUsageLedger(SETTINGS)
    ledger.sample("default/a", {"cpu": 1500, "gpu": 4}, 600_000_000)
    assert ledger.sample("default/a", {}, 600_000_000) == {"cpu": Decimal("0.75"), "gpu": Decimal(2)}


def test_an_admission_counts_at_once_and_settles_later() -> None:
    ledger = QueueUsageLedger(SETTINGS)
    world = World(Case(queues=[queue("a", 8)], waiting=[wl("w", "a", 8)], want={}))
    workload = world.heads()[0].workload
    ledger.penalize(workload, 0)
    before = ledger.usage("default/a")
    assert 0 < before < 16
    ledger.settle("default/a", workload.key, {}, 0)
    assert ledger.usage("default/a") == before
    ledger.forgive("default/a", workload.key)
    assert ledger.usage("default/a") == before


def test_a_penalty_is_forgiven_where_admission_failed() -> None:
    ledger = QueueUsageLedger(SETTINGS)
    workload = World(Case(queues=[queue("a", 8)], waiting=[wl("w", "a", 8)], want={})).heads()[0].workload
    ledger.penalize(workload, 0)
    ledger.forgive("default/a", workload.key)
    assert ledger.usage("default/a") == 0.0


def test_the_local_queue_that_used_most_is_preempted_first() -> None:
    spec = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    case = Case(
        queues=[queue("a", 4, within="LowerPriority", spec=spec)],
        holding=[running("modest", "a", 2, since_s=1), running("greedy", "a", 2, since_s=99)],
        waiting=[wl("high", "a", 2, priority=5)],
        want={},
    )
    for obj in case.holding:
        obj["spec"]["queueName"] = obj["metadata"]["name"]
    usage = {"default/modest": 1.0, "default/greedy": 9.0}
    world = World(case)
    options = CycleOptions(1, NOW_US, queue_usage=usage.__getitem__)
    (outcome,) = run_cycle(world.accounts, world.heads(), NAMESPACES, options).entries
    assert sentence(outcome) == "preempts greedy:InClusterQueue"


def test_a_head_that_holds_quota_already_is_passed_over() -> None:
    world = World(Case(queues=[queue("a", 4)], holding=[running("w", "a", 2)], waiting=[], want={}))
    head = Head(next(iter(world.accounts.holders.values())), "a")
    assert world.cycle(heads=[head]).entries == ()


def test_an_unknown_cluster_queue_is_said() -> None:
    world = World(Case(queues=[queue("a", 4)], waiting=[wl("w", "ghost")], want={}))
    (outcome,) = world.cycle().entries
    assert (outcome.reason, outcome.message) == ("Misconfigured", "ClusterQueue ghost not found")


def test_all_or_nothing_over_pod_sets() -> None:
    """A workload whose second pod set does not fit takes no quota for the first."""
    case = Case(
        queues=[queue("a", 4, cohort="lab"), queue("b", 0, cohort="lab")],
        cohorts=[cohort("lab")],
        waiting=[
            wl("gang", "a", pod_sets=[pod_set("x", 1, {"gpu": 3}), pod_set("y", 1, {"gpu": 3})]),
            wl("other", "b", 4),
        ],
        want={"gang": "waits ExceedsMaxQuota", "other": "admitted default"},
    )
    assert play(case)[0] == case.want
