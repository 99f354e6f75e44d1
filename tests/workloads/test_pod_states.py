"""A pod's state as controllers count it, both sides of each rule; who goes first when there are too many."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads import pods
from fairway.workloads.podtemplate import generate_name_prefix

NOW_US = parse_rfc3339("2026-01-05T08:00:00Z")


def ago(seconds: int) -> str:
    return rfc3339(NOW_US - seconds * SECOND_US)


def pod(
    name: str = "p",
    phase: str | None = "Running",
    *,
    ready: str | None = "True",
    since: int | None = 100,
    created: int | None = 200,
    node: str | None = "n",
    cost: str | None = None,
    restarts: tuple[int, int] = (0, 0),
    going: bool = False,
) -> Obj:
    meta: Obj = {"name": name, "uid": name}
    if created is not None:
        meta["creationTimestamp"] = ago(created)
    if cost is not None:
        meta["annotations"] = {pods.DELETION_COST: cost}
    if going:
        meta["deletionTimestamp"] = ago(0)
    status: Obj = {} if phase is None else {"phase": phase}
    if ready is not None:
        one = {"type": "Ready", "status": ready}
        status["conditions"] = [{"type": "Other", "status": "True"}, one]
        if since is not None:
            one["lastTransitionTime"] = ago(since)
    status["containerStatuses"] = [{"name": "c", "restartCount": restarts[0]}, {"name": "d"}]
    status["initContainerStatuses"] = [
        {"name": "s", "restartCount": restarts[1]},
        {"name": "t"},
        {"name": "i", "restartCount": 99},
    ]
    spec: Obj = {"initContainers": [{"name": n, "restartPolicy": "Always"} for n in "st"] + [{"name": "i"}]}
    if node is not None:
        spec["nodeName"] = node
    return {"metadata": meta, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("phase", "going", "terminal", "active", "terminating"),
    [
        (None, False, False, True, False),
        ("Pending", True, False, False, True),
        ("Running", False, False, True, False),
        ("Running", True, False, False, True),
        ("Succeeded", False, True, False, False),
        ("Succeeded", True, True, False, False),
        ("Failed", False, True, False, False),
        ("Failed", True, True, False, False),
    ],
)
def test_active_terminating_or_ended(
    phase: str | None, going: bool, terminal: bool, active: bool, terminating: bool
) -> None:
    one = pod(phase=phase, going=going)
    assert pods.phase_of(one) == (phase or "Pending")
    assert pods.is_deleting(one) is going
    assert (pods.is_terminal(one), pods.is_active(one), pods.is_terminating(one)) == (
        terminal,
        active,
        terminating,
    )


@pytest.mark.parametrize(
    ("ready", "since", "least", "want"),
    [
        ("True", 100, 0, True),
        ("True", None, 0, True),
        ("True", 100, 100, True),
        ("True", 100, 101, False),
        ("True", None, 1, False),
        ("False", 100, 0, False),
        ("False", 100, 1, False),
        (None, None, 0, False),
    ],
)
def test_available_once_it_was_ready_long_enough(
    ready: str | None, since: int | None, least: int, want: bool
) -> None:
    one = pod(ready=ready, since=since)
    assert pods.is_available(one, least, NOW_US) is want
    assert pods.is_ready(one) is (ready == "True")
    is_dated = ready == "True" and since is not None
    assert pods.ready_since_us(one) == (NOW_US - 100 * SECOND_US if is_dated else None)


def test_when_the_next_becomes_available() -> None:
    several = [
        pod(since=30),
        pod(since=10),
        pod(since=5, going=True),
        pod(since=2, ready="False"),
        pod(since=None),
    ]
    assert pods.next_available_us(several, 20, NOW_US) == NOW_US + 10 * SECOND_US
    assert pods.next_available_us(several, 40, NOW_US) == NOW_US + 10 * SECOND_US
    assert pods.next_available_us(several, 10, NOW_US) is None, "now is not later"
    assert pods.next_available_us(several, 0, NOW_US) is None
    assert pods.next_available_us([], 20, NOW_US) is None


def test_restarts_of_containers_and_of_sidecars_apart() -> None:
    assert pods.restarts(pod(restarts=(3, 4))) == (3, 4)
    assert pods.restarts({"metadata": {}, "spec": {}, "status": {}}) == (0, 0)
    one = pod(restarts=(3, 4))
    one["spec"] = {}
    assert pods.restarts(one) == (3, 0), "a container that runs to its end is no sidecar"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (None, 0),
        ("5", 5),
        ("-5", -5),
        ("+5", 0),
        ("05", 0),
        ("x", 0),
        ("2147483647", 2**31 - 1),
        ("2147483648", 0),
        ("-2147483648", -(2**31)),
        ("-2147483649", 0),
    ],
)
def test_what_a_deletion_costs(text: str | None, want: int) -> None:
    assert pods.deletion_cost(pod(cost=text)) == want


# The first to go first; the last by name, which decides only between equals. Source: ActivePods (controller_utils.go).
ORDER: list[dict[str, Any]] = [
    {"node": None, "phase": "Running"},
    {"phase": None, "ready": None},
    {"phase": "Pending", "ready": None, "created": 201},
    {"phase": "Unknown", "ready": None},
    {"ready": "False"},
    {"since": None},
    {"since": 5},
    {"since": 6, "restarts": (2, 0)},
    {"since": 6, "restarts": (1, 3)},
    {"since": 6, "restarts": (1, 1)},
    {"since": 6, "created": None},
    {"since": 6, "created": 50},
    {"since": 6, "created": 60},
]


def names(found: list[Obj]) -> list[str]:
    return [one["metadata"]["name"] for one in found]


def test_the_order_of_deletion() -> None:
    given = [pod(f"{50 - i}", **fields) for i, fields in enumerate(ORDER)]
    for first, second in pairwise(given):
        for both in permutations((first, second)):
            assert names(pods.in_deletion_order(list(both))) == names([first, second])
    assert names(pods.in_deletion_order(given[::-1])) == names(given)
    twins = [pod("b"), pod("a")]
    assert names(pods.in_deletion_order(twins)) == ["a", "b"]
    assert names(pods.in_deletion_order(twins[:1])) == ["b"]
    assert pods.in_deletion_order([]) == []


# With ranks: a node with more of them gives up its own first. Source: ActivePodsWithRanks.
RANKED: list[dict[str, Any]] = [
    {"node": None},
    {"phase": "Pending", "ready": None},
    {"ready": "False"},
    {"cost": "-1"},
    {"node": "full"},
    {"since": None},
    {"since": 5},
    {"restarts": (2, 0)},
    {"restarts": (1, 3)},
    {"restarts": (1, 1)},
    {"created": None},
    {"created": 10},
    {},
    {"cost": "1", "node": "full"},
]


def test_the_order_of_deletion_with_ranks() -> None:
    given = [pod(f"{50 - i}", **fields) for i, fields in enumerate(RANKED)]
    ranks = {"n": 1, "full": 2}
    for first, second in pairwise(given):
        for both in permutations((first, second)):
            found = pods.in_ranked_deletion_order(list(both), ranks, NOW_US)
            assert names(found) == names([first, second])


def test_names_that_pods_begin_with() -> None:
    for length in (1, 251):
        assert generate_name_prefix("x" * length) == "x" * length + "-"
    assert generate_name_prefix("x" * 252) == "x" * 252
