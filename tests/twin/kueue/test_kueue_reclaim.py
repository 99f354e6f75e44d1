"""Reclaim always restores the nominal owner: whatever others borrowed, and however they come back for more.

Under fair sharing with two exceptions, which are Kueue's: preemption may go round in a circle unless preemptors go
first (see `test_kueue_circles`), and a head that may not reclaim from everybody keeps what it waits for from those
behind it.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kueueworld import KUEUE, World, job, local_queue, node, priority_class, queue

from fairway.kube.objects import Obj, status_of
from fairway.queueing.configuration import configured
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.twin.latency import DEFAULT

OWNER = "owner"
COHORTS = ("root", "left", "right")
FAIR: Obj = {
    "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
    "featureGates": {"PrioritizePreemptorWorkloads": True},
}


def cohort(name: str, parent: str, gpus: int) -> Obj:
    spec: Obj = {"resourceGroups": queue("x", gpus)["spec"]["resourceGroups"]} if gpus else {}
    if parent:
        spec["parentName"] = parent
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def world_of(draw: random.Random, nominal: int, *, fair: bool) -> tuple[World, list[str]]:
    """A random tree of cohorts in which everybody may borrow what the owner lends, and has work to do so.

    Whoever has quota may reclaim it from anybody; under fair sharing everybody may. A head that may not would keep
    what it lent blocked until it is given back, for owners behind it as well. Source: scheduler.go resourcesToReserve.
    """
    lends = draw.choice(("", "", str(draw.randint(0, nominal))))
    owner = queue(
        OWNER,
        nominal,
        cohort=draw.choice(COHORTS),
        quota={"lendingLimit": lends} if lends else None,
        preemption={"reclaimWithinCohort": "Any"},
    )
    names = [f"b{i}" for i in range(draw.randint(1, 4))]
    own = {name: draw.choice((0, 0, 1, 2, 3, 5)) for name in names}
    borrowers = [
        queue(
            name,
            own[name],
            cohort=draw.choice(COHORTS),
            quota=draw.choice((None, None, {"borrowingLimit": "2"})),
            queueingStrategy=draw.choice(("BestEffortFIFO", "StrictFIFO")),
            preemption={
                "reclaimWithinCohort": "Any"
                if fair or own[name]
                else draw.choice(("Never", "LowerPriority", "Any")),
                "withinClusterQueue": draw.choice(("Never", "LowerPriority")),
            },
        )
        for name in names
    ]
    settings = configured(FAIR if fair else {}).kueue_settings()
    world = World(settings, latency=DEFAULT).apply(
        *(cohort(c, "" if c == "root" else "root", draw.choice((0, 0, 3))) for c in COHORTS),
        owner,
        *borrowers,
        *(local_queue(n) for n in (OWNER, *names)),
        *(node(f"n{i}", 8) for i in range(5)),
        priority_class("high", 1000),
    )
    return world, names


def come(world: World, draw: random.Random, names: list[str], numbers: range) -> None:
    """Work for the borrowers: some of it urgent, some of it short."""
    for number in numbers:
        made: dict[str, Any] = {
            "gpus": draw.randint(1, 4),
            "priority": draw.choice(("", "high")),
            "runs": draw.choice(("forever", "forever", "9s")),
        }
        world.apply(job(f"j{number}", draw.choice(names), **made))
        world.run(draw.choice((0, 1)))


def held(world: World) -> int:
    """GPUs of the owner's admitted workloads."""
    return sum(
        int(assigned["resourceUsage"]["nvidia.com/gpu"])
        for workload in world.objects(WORKLOAD)
        if workload["metadata"]["namespace"] == OWNER
        for assigned in (status_of(workload).get("admission") or {}).get("podSetAssignments") or ()
    )


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**9), st.booleans())
def test_reclaim_always_restores_the_nominal_owner(seed: int, fair: bool) -> None:
    draw = random.Random(seed)
    nominal = draw.randint(1, 8)
    world, names = world_of(draw, nominal, fair=fair)
    come(world, draw, names, range(12))
    world.run(5)
    asked = 0
    while asked < nominal:
        size = draw.randint(1, nominal - asked)
        world.apply(job(f"own{asked}", OWNER, gpus=size)).run(draw.choice((0, 1)))
        asked += size
    come(world, draw, names, range(12, 18))
    world.run(60)
    assert held(world) == nominal
    come(world, draw, names, range(18, 24))
    world.run(60).check_books()
    assert held(world) == nominal, "what is its own is not taken from it again"


@pytest.mark.parametrize(("policy", "is_restored"), [("Any", True), ("LowerPriority", False)])
def test_a_head_that_may_not_reclaim_keeps_quota_from_an_owner_behind_it(
    policy: str, is_restored: bool
) -> None:
    """Its share is smaller than the owner's cohort's, so it comes first, and may not take what it waits for.

    Source: scheduler.go reserveCapacityForUnreclaimablePreempt; played to Kueue's own scheduler, too.
    """
    world = World(configured(FAIR).kueue_settings()).apply(
        cohort("root", "", 0),
        cohort("right", "root", 0),
        queue(OWNER, 2, cohort="right", preemption={"reclaimWithinCohort": "Any"}),
        queue("beside", 2, cohort="right", preemption={"reclaimWithinCohort": "Any"}),
        queue(
            "blocker",
            0,
            cohort="root",
            queueingStrategy="StrictFIFO",
            preemption={"reclaimWithinCohort": policy},
        ),
        *(local_queue(n) for n in (OWNER, "beside", "blocker")),
        node("n", 8),
    )
    world.apply(*(job(f"j{i}", "beside") for i in range(4))).run(5)
    world.apply(job("waits", "blocker")).run(5)
    world.apply(job("own", OWNER, gpus=2)).run(60)
    assert ("own" in world.admitted()) is is_restored
    assert held(world) == (2 if is_restored else 0)
