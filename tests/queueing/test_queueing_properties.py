"""What holds whatever the queues: quota is never exceeded, usage adds up, what-ifs leave nothing behind."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from queueworld import NAMESPACES, NOW_S, Case, World, cohort, flavor, queue, usage_of, wl

from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import Head, Outcome
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.outcomes.statuses import admitted
from fairway.queueing.preemption.targets import Target
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.quota.quotatree import QuotaNode

FLAVORS = ("default", "spot")
some = settings(max_examples=80, deadline=None, derandomize=True)
seeds = st.integers(0, 10**9)


def world_of(draw: random.Random) -> World:
    """A random tree of cohorts with queues, limits and policies."""
    cohorts = ["root", "left", "right"]
    parents = {"left": "root", "right": "root"}

    def limit() -> int | None:
        return draw.choice((None, None, 0, 2, 5))

    def amounts() -> dict[str, Any]:
        return {f: (draw.randint(0, 6), limit(), limit()) for f in FLAVORS}

    queues = [
        queue(
            f"q{i}",
            amounts(),
            cohort=draw.choice((*cohorts, "")),
            within=draw.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
            reclaim=draw.choice(("Never", "LowerPriority", "Any")),
            weight=draw.choice((0, 1, 2)),
        )
        for i in range(5)
    ]
    for q in queues:
        # A lending or borrowing limit makes sense within a cohort only.
        if "cohortName" not in q["spec"]:
            for f in q["spec"]["resourceGroups"][0]["flavors"]:
                f["resources"][0].pop("borrowingLimit", None)
                f["resources"][0].pop("lendingLimit", None)
    trees = [cohort(c, parents.get(c, ""), amounts() if draw.random() < 0.5 else None) for c in cohorts]
    # The root has nobody to borrow from or lend to.
    trees[0] = cohort("root", gpu={f: draw.randint(0, 6) for f in FLAVORS})
    return World(
        Case(
            queues=queues,
            cohorts=trees,
            flavors=[flavor(f) for f in FLAVORS],
            waiting=[],
            want={},
            fair=draw.random() < 0.5,
        )
    )


def carry_out(world: World, outcome: Outcome) -> None:
    """Victims go at once, the admitted hold quota."""
    for eviction in outcome.evictions:
        world.accounts.release(eviction.workload.key)
    if outcome.is_admitted:
        assert outcome.admission is not None
        spec = world.accounts.queues[outcome.head.queue].spec
        obj = admitted(outcome.head.workload.obj, outcome.admission, spec, NOW_S * 1_000_000)
        world.accounts.hold(world.reader.read(obj))


def play(seed: int, cycles: int = 12) -> Any:
    """Yields the world after each cycle with the outcome, before it is carried out."""
    draw = random.Random(seed)
    world = world_of(draw)
    for number in range(1, cycles + 1):
        heads = []
        for name in world.accounts.queues:
            if draw.random() < 0.7:
                obj = wl(
                    f"w{number}-{name}",
                    name,
                    draw.randint(1, 5),
                    priority=draw.randint(0, 3),
                    age_s=draw.randint(1, 99),
                )
                heads.append(Head(world.reader.read(obj), name))
        before = usage_of(world.accounts)
        options = CycleOptions(number, NOW_S * 1_000_000, uses_fair_sharing=world.case.fair)
        outcome = run_cycle(world.accounts, heads, NAMESPACES, options)
        yield world, before, outcome
        for one in outcome.entries:
            carry_out(world, one)
        if draw.random() < 0.4 and world.accounts.holders:
            world.accounts.release(draw.choice(sorted(world.accounts.holders)))


def nodes_of(accounts: Accounts) -> list[QuotaNode]:
    return [*accounts.cohorts.values(), *accounts.queues.values()]


@some
@given(seeds)
def test_a_cycle_puts_everything_back(seed: int) -> None:
    for world, before, _ in play(seed):
        assert usage_of(world.accounts) == before


@some
@given(seeds)
def test_usage_is_the_sum_over_the_workloads_that_hold_quota(seed: int) -> None:
    for world, _, _ in play(seed):
        accounts = world.accounts
        for name, q in accounts.queues.items():
            summed: dict[FlavorResource, int] = {}
            for w in accounts.holders.values():
                if w.cluster_queue == name:
                    for fr, value in w.usage:
                        summed[fr] = summed.get(fr, 0) + value
            assert {fr: v for fr, v in q.usage.items() if v} == summed
        for c in accounts.cohorts.values():
            pushed: dict[FlavorResource, int] = {}
            for child in (*c.cohorts, *c.queues):
                for fr, used in child.usage.items():
                    over = max(0, used - child.kept.get(fr, 0))
                    pushed[fr] = pushed.get(fr, 0) + over
            assert {fr: v for fr, v in c.usage.items() if v} == {fr: v for fr, v in pushed.items() if v}


@some
@given(seeds)
def test_no_node_exceeds_its_quota_and_borrowing_limit(seed: int) -> None:
    for world, _, _ in play(seed):
        for node in nodes_of(world.accounts):
            for fr, used in node.usage.items():
                most = node.potential(fr)
                assert used <= max(most, 0), (node.name, fr)
                limit = node.borrowing_limits.get(fr)
                if limit is not None and node.parent is not None:
                    assert used <= node.subtree.get(fr, 0) + limit
                if node.parent is None:
                    assert used <= node.subtree.get(fr, 0)


@some
@given(seeds)
def test_preemption_never_evicts_for_nothing(seed: int) -> None:
    """With all victims gone the preemptor fits, and it would not with any one of them back."""
    for world, _, outcome in play(seed):
        accounts = world.accounts
        first = next((o for o in outcome.entries if o.evictions), None)
        if first is None or first.assignment is None or any(o.is_admitted for o in outcome.entries):
            continue
        queue_account = accounts.queues[first.head.queue]
        usage = tuple(first.assignment.usage.items())
        victims = [e.workload for e in first.evictions]
        for victim in victims:
            accounts.take_out(victim)
        assert queue_account.fits(usage, ()) == 0
        if not world.case.fair:
            for victim in victims:
                accounts.put_back(victim)
                fits = queue_account.fits(usage, ()) == 0
                would_borrow = any(queue_account.borrows_with(fr, v) for fr, v in usage)
                assert not fits or would_borrow
                accounts.take_out(victim)
        for victim in victims:
            accounts.put_back(victim)


@some
@given(seeds)
def test_everybody_not_admitted_has_a_reason(seed: int) -> None:
    for _, _, outcome in play(seed):
        for one in outcome.entries:
            if not one.is_admitted:
                assert one.reason and one.message


@some
@given(seeds, st.integers(1, 9))
def test_adding_and_removing_restores_every_number(seed: int, value: int) -> None:
    draw = random.Random(seed)
    accounts = world_of(draw).accounts
    before = usage_of(accounts)
    stack: list[tuple[QueueAccount, FlavorResource, int]] = []
    for _ in range(20):
        node = accounts.queues[draw.choice(sorted(accounts.queues))]
        fr = FlavorResource(draw.choice(FLAVORS), "gpu")
        node.add(fr, value)
        stack.append((node, fr, value))
    draw.shuffle(stack)
    for node, fr, amount in stack:
        node.remove(fr, amount)
    assert usage_of(accounts) == before


@some
@given(seeds)
def test_a_workload_read_after_admission_holds_what_was_assigned(seed: int) -> None:
    for world, _, outcome in play(seed, 6):
        for one in outcome.admitted():
            assert one.assignment is not None and one.admission is not None
            spec = world.accounts.queues[one.head.queue].spec
            obj = admitted(one.head.workload.obj, one.admission, spec, NOW_S * 1_000_000)
            assert dict(world.reader.read(obj).usage) == one.assignment.usage


def test_targets_are_frozen() -> None:
    assert Target.__dataclass_params__.frozen  # type: ignore[attr-defined]
