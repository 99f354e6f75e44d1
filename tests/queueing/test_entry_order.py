"""In which order those nominated are processed, and whether a search goes on where the last one ended."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from queueworld import cohort, flavor, queue, wl

from fairway.compiled import loading
from fairway.queueing.cycle.entries import Entry, Head
from fairway.queueing.cycle.entryorder import classical_order, fair_order
from fairway.queueing.cycle.nomination import CycleOptions, Nominator
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import FeatureGates, gates_from
from fairway.queueing.facts.objects import flavor_resource
from fairway.queueing.facts.workloads import WorkloadReader
from fairway.queueing.flavors.assignment import Assignment, PodSetAssignment, ScanState
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.quota.quotatree import QuotaNode
from fairway.queueing.quota.shares import share_of

_NO_STAND_INS = pytest.mark.skipif(
    loading.is_active(), reason="compiled code takes no stand-ins: the run as pure Python has it"
)
GPU = flavor_resource("default", "gpu")
READER = WorkloadReader()
GATES = ("PrioritizePreemptorWorkloads", "PrioritySortingWithinCohort", "FairSharingPrioritizeNonBorrowing")


def _gates(*on: bool) -> FeatureGates:
    gates, unknown = gates_from(dict(zip(GATES, on, strict=False)))
    assert not unknown
    return gates


@_NO_STAND_INS
@pytest.mark.parametrize(("preemptors", "priorities"), list(product((True, False), repeat=2)))
def test_order_without_fair_sharing(preemptors: bool, priorities: bool) -> None:
    """Pairwise: who holds quota, who preempted, who borrows less, who matters more, who is older, by name."""

    def before(a: Any, b: Any) -> int:
        if a.workload.has_quota != b.workload.has_quota:
            return -1 if a.workload.has_quota else 1
        if preemptors and a.head.is_preemptor != b.head.is_preemptor:
            return -1 if a.head.is_preemptor else 1
        if a.assignment.borrowing != b.assignment.borrowing:
            return -1 if a.assignment.borrowing < b.assignment.borrowing else 1
        if priorities and a.workload.priority != b.workload.priority:
            return -1 if a.workload.priority > b.workload.priority else 1
        if a.workload.order_us != b.workload.order_us:
            return -1 if a.workload.order_us < b.workload.order_us else 1
        return -1 if a.workload.key < b.workload.key else 1

    entries: list[Any] = [
        SimpleNamespace(
            workload=SimpleNamespace(has_quota=q, priority=p, order_us=o, key=f"{k}{p}{x:d}"),
            head=SimpleNamespace(is_preemptor=x),
            assignment=SimpleNamespace(borrowing=b),
        )
        for q, x, b, p, o, k in product((False, True), (False, True), (0, 1, 2), (0, 5), (1, 2), "ab")
    ]
    draw = Random(1)
    gates = _gates(preemptors, priorities)
    want = sorted(entries, key=cmp_to_key(before))
    for _ in range(5):
        draw.shuffle(entries)
        assert [id(e) for e in classical_order(entries, gates)] == [id(e) for e in want]
    assert classical_order(entries[:1], gates) == entries[:1] and list(classical_order([], gates)) == []


def _world(draw: Random) -> Accounts:
    accounts = Accounts()
    accounts.set_flavor(facts.resource_flavor(flavor("default")))
    for name, above in (("top", ""), ("left", "top"), ("right", draw.choice(("top", "left"))), ("other", "")):
        accounts.set_cohort(facts.cohort(cohort(name, above, draw.choice((0, 4)), draw.choice((1, 2, 0)))))
    for name in "abcdef":
        of = draw.choice(("top", "left", "right", "other", ""))
        spec = queue(name, draw.choice((0, 2, 4)), cohort=of, weight=draw.choice((1, 1, 2, 0)))
        accounts.set_cluster_queue(facts.cluster_queue(spec))
    accounts.settle()
    for account in accounts.queues.values():
        account.add_usage(((GPU, draw.choice((0, 0, 1, 3))),), ())
    return accounts


def _winner(node: QuotaNode, left: dict[str, Entry], gates: FeatureGates) -> Entry | None:
    """Below this node: each child sends its winner, and the smallest share there with it goes first."""
    if isinstance(node, QueueAccount):
        return left.get(node.name)
    best: Entry | None = None
    best_rank: Any = None
    for child in (*node.cohorts, *node.queues):
        sent = _winner(child, left, gates)
        if sent is None:
            continue
        assert sent.queue is not None
        value = dict(sent.usage()[0])
        sent.queue.add_usage(tuple(value.items()), ())
        share = share_of(child)
        sent.queue.remove_usage(tuple(value.items()), ())
        borrows = any(fr in share.borrowed and n > 0 for fr, n in value.items())
        w = sent.workload
        rank = (
            not sent.head.is_preemptor if gates.prioritize_preemptor_workloads else False,
            borrows if gates.fair_sharing_prioritize_non_borrowing else False,
            share.weighted == float("inf"),
            share.ratio if share.weighted == float("inf") else share.weighted,
            -w.priority if gates.priority_sorting_within_cohort else 0,
            w.order_us,
        )
        if best is None or rank < best_rank:
            best, best_rank = sent, rank
    return best


@pytest.mark.parametrize("seed", range(8))
def test_order_with_fair_sharing(seed: int) -> None:
    for number in range(15):
        draw = Random(100 * seed + number)
        gates = _gates(*(draw.random() < 0.5 for _ in GATES))
        accounts = _world(draw)
        entries = []
        for name in draw.sample("abcdef", draw.choice((2, 4, 6))):
            obj = wl(f"w{name}", "a", 1, priority=draw.choice((0, 0, 5)), age_s=draw.choice((10, 20, 30)))
            head = Head(READER.read(obj), name, is_preemptor=draw.random() < 0.3)
            entry = Entry(head, accounts.queues[name])
            entry.take(Assignment([], {GPU: draw.choice((0, 1, 2, 4))}), [])
            entries.append(entry)
        left = {e.queue.name: e for e in entries if e.queue is not None}
        for entry in fair_order(entries, gates):
            first = next(iter(left.values())).queue
            assert first is not None and entry.queue is not None
            want = left[first.name] if first.parent is None else _winner(first.root(), left, gates)
            assert entry is want, (seed, number)
            del left[entry.queue.name]
            # What was processed counts for those after it.
            if draw.random() < 0.5:
                entry.queue.add_usage(entry.usage()[0], ())
        assert not left


@pytest.mark.parametrize("keeps", [True, False])
def test_when_a_search_goes_on(keeps: bool) -> None:
    gates, _ = gates_from({"FlavorFungibilityPreserveScanProgress": keeps})
    accounts = Accounts(gates)
    accounts.set_flavor(facts.resource_flavor(flavor("default")))
    accounts.set_cluster_queue(facts.cluster_queue(queue("a", 4)))
    accounts.settle()
    account = accounts.queues["a"]
    workload = READER.read(wl("w", "a", 1))
    for generation, cycle, number, alike in product((0, 1, 2), (3, 4, 5), (5,), (True, False)):
        account.generation = 1
        scan = ScanState((), generation, cycle, workload.hash if alike else (*workload.hash, 1))
        nominator = Nominator(accounts, CycleOptions(number, 0))
        moved = generation < 1
        want = moved if not keeps else (not alike or (number - cycle > 1 and moved))
        assert nominator._is_outdated(scan, account, workload) == want, (generation, cycle, alike)


def test_entries_add_what_they_do_not_hold() -> None:
    accounts = Accounts()
    accounts.set_cluster_queue(facts.cluster_queue(queue("a", 4)))
    accounts.settle()
    entry = Entry(Head(READER.read(wl("w", "a", 1)), "a"), accounts.queues["a"])
    scan = ScanState((), 1, 1, ())
    made = Assignment([PodSetAssignment("main", 1, {}, {}, ["no"])], {GPU: 1}, scan)
    entry.take(made, [])
    assert entry.usage() == (((GPU, 1),), ()) and entry.message == made.message() != "" and entry.scan is scan
    entry.skip("later", keeps_scan=True)
    assert (entry.message, entry.scan) == ("later", scan)
    entry.skip("never", keeps_scan=False)
    assert (entry.message, entry.scan) == ("never", None)
