"""In which order workloads give way, and who may be asked: every pair against the rules in words."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from tests.queueing.queueworld import queue, workload_of

from fairway.queueing.facts import objects
from fairway.queueing.facts.objects import (
    ANY,
    LOWER_OR_NEWER_EQUAL_PRIORITY,
    LOWER_PRIORITY,
    NEVER,
    FlavorResource,
)
from fairway.queueing.facts.workloads import PodSetTotal, Workload
from fairway.queueing.preemption.targets import Attempt, in_order, rank, satisfies_policy, uses_any_of
from fairway.queueing.quota.accounts import Accounts

_NOW = 1000


def _workload(number: int, **facts: Any) -> Workload:
    plain = {
        "is_evicted": False,
        "cluster_queue": "a",
        "queue": "ns/x",
        "priority": 0,
        "reserved_us": 10,
        "order_us": 10,
        "uid": f"u{number}",
        "key": f"ns/w{number}",
    }
    return workload_of(**(plain | facts))


def _goes_first(a: Workload, b: Workload) -> bool | None:
    """Evicted already, then those of other queues, then low priority, then the newest; None: nothing tells."""
    if a.is_evicted != b.is_evicted:
        return a.is_evicted
    if (a.cluster_queue == "a") != (b.cluster_queue == "a"):
        return a.cluster_queue != "a"
    if a.priority != b.priority:
        return a.priority < b.priority
    since_a, since_b = (w.reserved_us if w.reserved_us >= 0 else _NOW for w in (a, b))
    return None if since_a == since_b else since_a > since_b


def _all() -> list[Workload]:
    every = product((False, True), ("a", "b"), (0, 5), (-1, 0, 10, _NOW + 1))
    return [
        _workload(i, is_evicted=evicted, cluster_queue=queue, priority=priority, reserved_us=reserved)
        for i, (evicted, queue, priority, reserved) in enumerate(every)
    ]


def test_every_pair_is_ordered_as_the_rules_say() -> None:
    for a, b in product(_all(), repeat=2):
        first = _goes_first(a, b)
        if first is None:
            first = a.uid < b.uid
        assert (rank(a, "a", _NOW) < rank(b, "a", _NOW)) == (first and a is not b)


@pytest.mark.parametrize("seed", range(20))
def test_the_local_queue_that_used_most_gives_first_where_use_counts(seed: int) -> None:
    draw = Random(seed)
    used = {"ns/x": 1.0, "ns/y": draw.choice((1.0, 3.0)), "ns/z": 2.0}
    counts = {"a": draw.random() < 0.7, "b": draw.random() < 0.7}
    workloads = [
        _workload(
            i,
            cluster_queue=draw.choice("ab"),
            queue=draw.choice(sorted(used)),
            priority=draw.choice((0, 5)),
            is_evicted=draw.random() < 0.2,
            reserved_us=draw.randint(0, 3),
        )
        for i in range(7)
    ]
    accounts = Accounts()
    for name, on in counts.items():
        spec = queue(name, 1)
        spec["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing" if on else "None"}
        accounts.set_cluster_queue(objects.cluster_queue(spec))
    accounts.settle()
    assert {n: accounts.queues[n].spec.uses_usage_ordering for n in counts} == counts

    def attempt(by_usage: Any) -> Attempt:
        return Attempt(accounts, accounts.queues["a"], _workload(99), {}, (), {}, _NOW, by_usage)

    plain = [w.key for w in sorted(workloads, key=lambda w: rank(w, "a", _NOW))]
    assert [w.key for w in in_order(workloads, attempt(None))] == plain
    found = in_order(workloads, attempt(used.__getitem__))
    assert sorted(w.key for w in found) == sorted(plain)
    # Within one ClusterQueue whose LocalQueues take turns by use, and of those evicted alike: the most first.
    for at, one in enumerate(found):
        for later in found[at + 1 :]:
            same = one.is_evicted == later.is_evicted and one.cluster_queue == later.cluster_queue
            if not same:
                continue
            by_use = (
                counts[one.cluster_queue]
                and one.queue != later.queue
                and used[one.queue] != used[later.queue]
            )
            if by_use:
                assert used[one.queue] > used[later.queue]
            elif one.queue == later.queue:
                assert rank(one, "a", _NOW) < rank(later, "a", _NOW)


def test_use_tells_nothing_of_workloads_of_different_queues() -> None:
    accounts = Accounts()
    for name in "abc":
        spec = queue(name, 1)
        spec["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        accounts.set_cluster_queue(objects.cluster_queue(spec))
    accounts.settle()
    used = {"ns/x": 1.0, "ns/y": 9.0}.__getitem__
    trying = Attempt(accounts, accounts.queues["a"], _workload(99), {}, (), {}, _NOW, used)
    first = _workload(1, cluster_queue="b", queue="ns/x", priority=0)
    second = _workload(2, cluster_queue="c", queue="ns/y", priority=5)
    assert in_order([second, first], trying) == [first, second]
    same = _workload(3, cluster_queue="b", queue="ns/y", priority=5)
    assert in_order([first, same], trying) == [same, first]
    alike = _workload(4, cluster_queue="b", queue="ns/x", priority=5)
    assert in_order([alike, first], trying) == [first, alike]


def test_who_may_be_asked() -> None:
    for mine, theirs, my_turn, their_turn in product((0, 5), (0, 5), (1, 2), (1, 2)):
        asking = _workload(1, priority=mine, order_us=my_turn)
        asked = _workload(2, priority=theirs, order_us=their_turn)
        lower = theirs < mine
        newer = theirs == mine and my_turn < their_turn
        for policy, want in (
            (NEVER, False),
            (LOWER_PRIORITY, lower),
            (LOWER_OR_NEWER_EQUAL_PRIORITY, lower or newer),
            (ANY, True),
        ):
            assert satisfies_policy(asking, asked, policy) == want, (
                policy,
                mine,
                theirs,
                my_turn,
                their_turn,
            )


def test_only_those_that_hold_what_is_short() -> None:
    held = ({"cpu": "x"}, {"gpu": "y", "cpu": "z"})
    one = workload_of(totals=tuple(PodSetTotal(f"p{n}", 1, {}, flavors) for n, flavors in enumerate(held)))
    for flavor, resource in product("xyzw", ("cpu", "gpu", "memory")):
        want = (resource, flavor) in {("cpu", "x"), ("gpu", "y"), ("cpu", "z")}
        assert uses_any_of(one, [FlavorResource(flavor, resource)]) == want
        assert uses_any_of(one, [FlavorResource("w", "cpu"), FlavorResource(flavor, resource)]) == want
    assert not uses_any_of(one, [])
    assert not uses_any_of(workload_of(), [FlavorResource("x", "cpu")])
