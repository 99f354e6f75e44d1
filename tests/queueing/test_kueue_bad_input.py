"""Bad input the API takes without a word, because what it refers to may come later: how queues answer then."""

from __future__ import annotations

import pytest
from queueworld import Case, World, cohort, queue, said, wl

CASES = {
    "a flavor nobody defined": (
        Case(queues=[queue("q", {"ghost": 4})], waiting=[wl("w", "q")], want={}, flavors=()),
        "Suspended",
        "ClusterQueue q is inactive",
    ),
    "cohorts in a circle": (
        Case(
            queues=[queue("q", 4, cohort="a")],
            waiting=[wl("w", "q")],
            want={},
            cohorts=[cohort("a", "b"), cohort("b", "a")],
        ),
        "Suspended",
        "ClusterQueue q is inactive",
    ),
    "more than there will ever be": (
        Case(queues=[queue("q", 4)], waiting=[wl("w", "q", 5)], want={}),
        "ExceedsMaxQuota",
        "couldn't assign flavors to pod set main: insufficient quota for gpu in flavor default, previously considered "
        "podsets requests (0) + current podset request (5) > maximum capacity (4)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_has_a_reason(name: str) -> None:
    case, reason, message = CASES[name]
    for obj in case.queues:
        whole = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", **obj}
        assert said(whole) == []
    (outcome,) = World(case).cycle().entries
    assert (outcome.reason, outcome.message) == (reason, message)
