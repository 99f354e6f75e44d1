"""Who borrows from whom: by hand, and on random trees against what must hold and against the form on arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.queueing.facts.objects import FlavorResource, Quota
from fairway.queueing.quota.lending import Loan, apportioned, loans_of
from fairway.queueing.quota.quotatree import QuotaNode, settle
from fairway.recorder.queuelending import lent_in

GPU = FlavorResource("default", "nvidia.com/gpu")


def queue(name: str, nominal: int, used: int, lending: int | None = None) -> QuotaNode:
    node = QuotaNode(name, {GPU: Quota(nominal, None, lending)}, is_queue=True)
    node.usage = {GPU: used}
    return node


def cohort(
    name: str, *members: QuotaNode, nominal: int | None = None, lending: int | None = None
) -> QuotaNode:
    node = QuotaNode(name, {} if nominal is None else {GPU: Quota(nominal, None, lending)})
    for member in members:
        member.parent = node
        (node.queues if member.is_queue else node.cohorts).append(member)
    return node


TREES = {
    "one borrows of one": (
        cohort("all", queue("a", 4, 6), queue("b", 4, 1)),
        (Loan("a", "b", 2),),
    ),
    "in proportion to what lies idle": (
        cohort("all", queue("a", 0, 6), queue("b", 8, 2), queue("c", 4, 1)),
        (Loan("a", "b", 4), Loan("a", "c", 2)),
    ),
    "the cohort's own quota first": (
        cohort("all", queue("a", 2, 6), queue("b", 8, 0), nominal=3),
        (Loan("a", "/all", 3), Loan("a", "b", 1)),
    ),
    "the nearest cohort first": (
        cohort("root", cohort("near", queue("a", 2, 5), queue("b", 2, 0)), cohort("far", queue("c", 8, 0))),
        (Loan("a", "b", 2), Loan("a", "c", 1)),
    ),
    "no more than is lent": (
        cohort("all", queue("a", 0, 4), queue("b", 8, 0, lending=1), queue("c", 4, 0)),
        (Loan("a", "b", 1), Loan("a", "c", 3)),
    ),
    "a cohort keeps some to itself": (
        cohort(
            "root",
            cohort("left", queue("a", 0, 3)),
            cohort("right", queue("b", 4, 0), nominal=0, lending=2),
            cohort("up", queue("c", 4, 3)),
        ),
        (Loan("a", "b", 2), Loan("a", "c", 1)),
    ),
    "of nobody, when quota was taken away": (
        cohort("all", queue("a", 2, 6), queue("b", 2, 1)),
        (Loan("a", "", 3), Loan("a", "b", 1)),
    ),
    "nobody borrows": (cohort("all", queue("a", 4, 4), queue("b", 4, 0)), ()),
}


@pytest.mark.parametrize("name", TREES)
def test_loans(name: str) -> None:
    root, want = TREES[name]
    settle(root)
    assert loans_of(root, GPU) == want


def test_who_neither_has_nor_uses_any_of_it_takes_no_part() -> None:
    idle = QuotaNode("idle", {}, is_queue=True)
    root = cohort("all", queue("a", 2, 3), idle, queue("b", 2, 0))
    settle(root)
    assert loans_of(root, GPU) == (Loan("a", "b", 1),)
    alone = cohort("all", QuotaNode("idle", {}, is_queue=True), queue("a", 2, 3))
    settle(alone)
    assert loans_of(alone, GPU) == (Loan("a", "", 1),), "of nobody"


@st.composite
def trees(draw: st.DrawFn) -> QuotaNode:
    numbers = iter(range(100))

    def grow(depth: int) -> QuotaNode:
        members = [
            queue(
                f"q{next(numbers)}",
                draw(st.integers(0, 9)),
                draw(st.integers(0, 14)),
                draw(st.none() | st.integers(0, 9)),
            )
            for _ in range(draw(st.integers(1, 3)))
        ]
        if depth:
            members += [grow(depth - 1) for _ in range(draw(st.integers(0, 2)))]
        own = draw(st.none() | st.integers(0, 5))
        return cohort(f"c{next(numbers)}", *members, nominal=own)

    root = grow(2)
    settle(root)
    return root


@given(trees())
def test_loans_are_what_is_borrowed_and_no_more_than_is_idle(root: QuotaNode) -> None:
    loans = loans_of(root, GPU)
    queues = list(root.subtree_queues())
    for node in queues:
        nominal, used, kept = node.subtree[GPU], node.usage.get(GPU, 0), node.kept.get(GPU, 0)
        assert sum(x.amount for x in loans if x.borrower == node.name) == max(0, used - nominal)
        gave = sum(x.amount for x in loans if x.lender == node.name)
        assert 0 <= gave <= max(0, nominal - max(kept, used))
    assert all(x.amount > 0 and x.borrower != x.lender for x in loans)


@given(trees())
def test_on_arrays_it_is_the_same(root: QuotaNode) -> None:
    queues = list(root.subtree_queues())
    used = {q.name: np.array([float(q.usage.get(GPU, 0))]) for q in queues}
    lent = lent_in(root, GPU, used)
    loans = loans_of(root, GPU)
    for node in queues:
        exact = sum(x.amount for x in loans if x.lender == node.name)
        # Whole units against shares: one unit of rounding for each level.
        assert abs(float(lent[node.name][0]) - exact) <= 4
    # What cohorts with quota of their own lend is rounded, too.
    total = sum(x.amount for x in loans if x.lender and not x.lender.startswith("/"))
    assert sum(float(v[0]) for v in lent.values()) == pytest.approx(total, abs=4)


@given(st.integers(0, 50), st.lists(st.integers(0, 20), max_size=6))
def test_apportioned(amount: int, weights: list[int]) -> None:
    amount = min(amount, sum(weights))
    parts = apportioned(amount, weights)
    assert sum(parts) == amount
    assert all(0 <= part <= weight for part, weight in zip(parts, weights, strict=True))
