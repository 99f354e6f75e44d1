"""The root of a queue follows from the configuration, without the tree: the same one the tree has."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from queueworld import cohort, queue

from fairway.queueing.control import trees
from fairway.queueing.facts import objects as facts
from fairway.queueing.quota.accounts import Accounts

COHORTS = ("a", "b", "c", "d", "e")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 10**9))
def test_roots_are_those_of_the_tree(seed: int) -> None:
    draw = random.Random(seed)
    accounts = Accounts()
    for name in draw.sample(COHORTS, draw.randint(0, 4)):
        accounts.set_cohort(facts.cohort(cohort(name, draw.choice((*COHORTS, "")))))
    for number in range(draw.randint(1, 5)):
        spec = queue(f"q{number}", 1, cohort=draw.choice((*COHORTS, "")))
        accounts.set_cluster_queue(facts.cluster_queue(spec))
    names = [*(f"q{i}" for i in range(6)), *COHORTS]
    of_queues = {name: trees.root_of(accounts, name) for name in names}
    of_cohorts = {name: trees.root_of_cohort(accounts, name) for name in COHORTS}
    accounts.settle()
    assert sorted(accounts.cohorts) == sorted(accounts.cohort_names())
    for name in COHORTS:
        node = accounts.cohorts.get(name)
        assert of_cohorts[name] == (None if node is None else f"/{node.root().name}")
    for name in names:
        account = accounts.queues.get(name)
        if account is None or account.in_cycle:
            assert of_queues[name] is None
        else:
            root = account.root()
            assert of_queues[name] == (name if root is account else f"/{root.name}")
            assert name in trees.queues_of(accounts, of_queues[name] or "")
