"""Orders with ties: of a topology's domains, of what they are handed, and of whose turn it is to give up quota."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from random import Random
from typing import Any, NamedTuple

import pytest
from queueworld import Case, cohort, flavor, play, queue, running, wl

from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.objects import flavor_resource
from fairway.queueing.quota.accounts import Accounts
from fairway.queueing.quota.shares import Share, share_of
from fairway.queueing.tas.capacity import Plan, fill_up
from fairway.queueing.tas.distribution import distribute
from fairway.queueing.tas.ranking import (
    best_fit_for_pods,
    best_fit_for_slices,
    leader_first,
    sorted_with_leader,
    sorted_without_leader,
)
from fairway.queueing.tas.tree import Domain

PLAN = Plan(1, 1, 0, 0, 0, False, False, {}, (), False, False)


class _Facts(NamedTuple):
    pods: int
    slices: int
    pods_beside: int
    slices_beside: int
    leaders: int
    affinity: int


def _domain(name: str, it: _Facts) -> Domain:
    domain = Domain(name, (name,))
    domain.pods, domain.slices, domain.pods_with_leader, domain.slices_with_leader = it[:4]
    domain.leaders, domain.affinity = it.leaders, it.affinity
    return domain


def _drawn(draw: Random, most: int = 4) -> list[tuple[str, _Facts]]:
    out = []
    for i in range(draw.randint(1, most)):
        leaders = draw.choice((0, 1))
        pods, slices = draw.randint(0, 6), draw.randint(0, 3)
        beside = max(0, pods - draw.randint(0, 3)), max(0, slices - draw.randint(0, 2))
        out.append((f"d{i}", _Facts(pods, slices, *beside, leaders, draw.choice((0, 0, 1, 2)))))
    draw.shuffle(out)
    return out


def _made(drawn: list[tuple[str, _Facts]]) -> list[Domain]:
    return [_domain(name, it) for name, it in drawn]


def _names(domains: Any) -> list[str]:
    return [d.id for d in domains]


def test_domains_are_ranked_by_what_they_can_take() -> None:
    """A stable sort by each criterion in turn, the weakest first."""
    draw = Random(1)
    for _ in range(150):
        drawn = _drawn(draw)
        for least, prefers in ((False, False), (False, True), (True, False), (True, True)):
            plan = replace(PLAN, uses_least_free=least, respects_preferences=prefers)
            plain = sorted(drawn)
            plain.sort(key=lambda d: d[1].pods)
            plain.sort(key=lambda d: d[1].slices, reverse=not least)
            beside = sorted(drawn)
            beside.sort(key=lambda d: d[1].pods_beside)
            beside.sort(key=lambda d: d[1].slices_beside, reverse=not least)
            if prefers:
                plain.sort(key=lambda d: d[1].affinity, reverse=True)
                beside.sort(key=lambda d: d[1].affinity, reverse=True)
            beside.sort(key=lambda d: d[1].leaders, reverse=True)
            assert _names(sorted_without_leader(_made(drawn), plan)) == [n for n, _ in plain]
            assert _names(sorted_with_leader(_made(drawn), plan)) == [n for n, _ in beside]
            other = replace(plan, uses_least_free=not least)
            assert _names(sorted_without_leader(_made(drawn), other, least_free=least)) == [
                n for n, _ in plain
            ]
            assert _names(sorted_with_leader(_made(drawn), other, least_free=least)) == [n for n, _ in beside]


def _grown(draw: Random, level: int, name: str) -> Domain:
    """A domain of the level and all below it; the leaves, on the third level, know what they take."""
    if level == 2:
        leaders = draw.choice((0, 1))
        pods = draw.randint(0, 9)
        beside = max(0, pods - draw.randint(0, 3)) if leaders else pods
        return _domain(name, _Facts(pods, 0, beside, 0, leaders, draw.choice((0, 1, 3))))
    grown = Domain(name, (name,))
    grown.children = [_grown(draw, level + 1, f"{name}{i}") for i in range(draw.randint(1, 3))]
    return grown


def _whole(pods: int, size: int) -> int:
    return pods - pods % size


def _filled(domain: Domain, plan: Plan, level: int, sizes: dict[int, int]) -> tuple[_Facts, list[_Facts]]:
    """Of a domain and of all below it: the leader goes where it costs the fewest."""
    if level == 2:
        pods, beside, slices, slices_beside = domain.pods, domain.pods_with_leader, 0, 0
        leaders, affinity, below = domain.leaders, domain.affinity, list[_Facts]()
    else:
        parts = [_filled(child, plan, level + 1, sizes) for child in domain.children]
        own, below = [part for part, _ in parts], [f for part, under in parts for f in (part, *under)]
        inner = sizes.get(level + 1, 1)
        able = [p for p in own if p.leaders or not plan.leaders]
        pods = sum(_whole(p.pods, inner) for p in own)
        lost = [_whole(p.pods, inner) - _whole(p.pods_beside, inner) for p in able]
        beside = pods - min(lost) if lost else 0
        slices = sum(p.slices for p in own)
        slices_beside = slices - min(p.slices - p.slices_beside for p in able) if able else 0
        leaders, affinity = max(p.leaders for p in own), sum(p.affinity for p in own)
    if level == plan.slice_level:
        slices, slices_beside = pods // plan.slice_size, beside // plan.slice_size
    return _Facts(pods, slices, beside, slices_beside, leaders, affinity), below


def _counts(domain: Domain) -> list[_Facts]:
    own = _Facts(
        domain.pods,
        domain.slices,
        domain.pods_with_leader,
        domain.slices_with_leader,
        domain.leaders,
        domain.affinity,
    )
    return [own, *(f for child in domain.children for f in _counts(child))]


def test_a_domain_takes_what_those_below_it_take() -> None:
    draw = Random(6)
    for _ in range(200):
        sizes = {level: draw.choice((2, 3)) for level in (1, 2) if draw.random() < 0.5}
        plan = replace(
            PLAN,
            slice_size=draw.choice((1, 2, 4)),
            slice_level=draw.choice((0, 1, 2)),
            leaders=draw.choice((0, 1)),
        )
        root = _grown(draw, 0, "d")
        own, below = _filled(root, plan, 0, sizes)
        fill_up(root, plan, 0, sizes)
        assert _counts(root) == [own, *below]


def _best(drawn: list[tuple[str, _Facts]], at: int, needed: int, leaders: int, *, prefers: bool) -> str:
    top = drawn[0][1].affinity
    allowed = list(takewhile(lambda d: not prefers or d[1].affinity == top, drawn))
    enough = [
        (d[1][at], i, d[0]) for i, d in enumerate(allowed) if d[1].leaders >= leaders and d[1][at] >= needed
    ]
    return min(enough)[2] if enough else allowed[0][0]


def test_the_smallest_domain_that_is_enough_is_taken() -> None:
    draw = Random(2)
    for _ in range(200):
        drawn = _drawn(draw)
        for prefers in (False, True):
            plan = replace(PLAN, respects_preferences=prefers)
            for leaders in (0, 1):
                pods, slices = draw.randint(0, 6), draw.randint(0, 3)
                by_pods = best_fit_for_pods(_made(drawn), pods, leaders, plan)
                assert by_pods.id == _best(drawn, 2 if leaders else 0, pods, leaders, prefers=prefers)
                by_slices = best_fit_for_slices(_made(drawn), slices, leaders, plan)
                assert by_slices.id == _best(drawn, 3 if leaders else 1, slices, leaders, prefers=prefers)


def _first(drawn: list[tuple[str, _Facts]], pods: int, leaders: int, size: int) -> list[tuple[str, _Facts]]:
    """The first that takes the leader and leaves enough elsewhere comes to the front."""
    at = 1 if size else 0
    needed = pods // size if size else pods
    for i, (_, it) in enumerate(drawn):
        left = sum(other[at] for _, other in drawn[:i] + drawn[i + 1 :]) + it[at + 2]
        if leaders and it.leaders >= leaders and left >= needed and len(drawn) > 1:
            return [drawn[i], *drawn[:i], *drawn[i + 1 :]]
    return drawn


def test_who_takes_the_leader() -> None:
    draw = Random(3)
    for _ in range(400):
        drawn = _drawn(draw)
        size, leaders, pods = draw.choice((0, 1, 2)), draw.choice((0, 1, 1)), draw.randint(0, 12)
        found = leader_first(_made(drawn), PLAN, pods, leaders, size)
        assert _names(found) == [n for n, _ in _first(drawn, pods, leaders, size)]


def _handed(
    drawn: list[tuple[str, _Facts]], pods: int, leaders: int, size: int, *, least_free: bool
) -> list[tuple[str, int, int]]:
    """(domain, pods, leaders) in order; nothing where there is no room for all. `size` 0: pod by pod."""
    rest = _first(drawn, pods, leaders, size)
    left = pods // size if size else pods
    out: list[tuple[str, int, int]] = []
    for i, (name, it) in enumerate(rest):
        at = (3 if size else 2) if leaders else (1 if size else 0)
        is_enough = it[at] >= left and it.leaders >= leaders
        if is_enough and not least_free:
            name = _best(rest[i:], at, left, leaders, prefers=False)
        if is_enough:
            return [*out, (name, left * (size or 1), leaders)]
        here = min(it[at], left)
        out.append((name, here * (size or 1), min(it.leaders, leaders)))
        left -= here
        leaders -= min(it.leaders, leaders)
    return []


def test_pods_are_handed_out_domain_by_domain() -> None:
    draw = Random(4)
    for number in range(1200):
        drawn = _drawn(draw)
        size, leaders = draw.choice((0, 1, 2, 3)), draw.choice((0, 1))
        pods = draw.randint(1, 4) * (size or draw.randint(1, 2))
        plan = replace(PLAN, uses_least_free=draw.random() < 0.5)
        by_slices = size > 0
        found = distribute(
            _made(drawn), plan, pods=pods, leaders=leaders, slice_size=size or 1, by_slices=by_slices
        )
        told = [(d.id, d.pods, d.leaders) for d in found]
        assert told == _handed(drawn, pods, leaders, size, least_free=plan.uses_least_free), number
        if by_slices:
            assert all(d.slices * size == d.pods for d in found), number


TURNS = {
    "a cohort before a queue where their shares are equal": Case(
        fair=True,
        queues=[
            queue("a", 0, cohort="lab", reclaim="Any"),
            queue("b", 0, cohort="lab"),
            queue("c", 0, cohort="kid"),
        ],
        cohorts=[cohort("lab", gpu=8), cohort("kid", "lab")],
        holding=[running("b0", "b", 2, since_s=1), running("b1", "b", 2, since_s=2)]
        + [running("c0", "c", 2, since_s=30), running("c1", "c", 2, since_s=31)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts c0:InCohortFairSharing"},
    ),
    "the queue where its share is larger": Case(
        fair=True,
        queues=[
            queue("a", 0, cohort="lab", reclaim="Any"),
            queue("b", 0, cohort="lab"),
            queue("c", 0, cohort="kid"),
        ],
        cohorts=[cohort("lab", gpu=8), cohort("kid", "lab")],
        holding=[running("b0", "b", 2, since_s=1), running("b1", "b", 3, since_s=2)]
        + [running("c0", "c", 1, since_s=30), running("c1", "c", 2, since_s=31)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts b0:InCohortFairSharing"},
    ),
    "of equal cohorts the last": Case(
        fair=True,
        queues=[queue("a", 0, cohort="lab", reclaim="Any")] + [queue(n, 0, cohort=f"kid{n}") for n in "bcd"],
        cohorts=[cohort("lab", gpu=12)] + [cohort(f"kid{n}", "lab") for n in "bcd"],
        holding=[running(f"{n}{i}", n, 2, since_s=9) for n in "bcd" for i in range(2)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts d0:InCohortFairSharing"},
    ),
    "of equal queues the one whose candidate ran the shortest": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "abcd"],
        cohorts=[cohort("lab", gpu=12)],
        holding=[
            running(f"{n}{i}", n, 2, since_s=s + i)
            for n, s in (("b", 9), ("c", 5), ("d", 7))
            for i in range(2)
        ],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts c0:InCohortFairSharing"},
    ),
    "of equal queues the one whose candidate has the lowest priority": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "abc"],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running("b0", "b", 2, priority=1, since_s=99), running("b1", "b", 2, priority=3, since_s=1)]
        + [running(f"c{i}", "c", 2, priority=2, since_s=1) for i in range(2)],
        waiting=[wl("a1", "a", 2, priority=5)],
        want={"a1": "preempts b0:InCohortFairSharing"},
    ),
    "one of its own queue where its policy lets it": Case(
        fair=True,
        queues=[
            queue("a", 4, cohort="lab", reclaim="Any", within="LowerPriority"),
            queue("b", 4, cohort="lab"),
        ],
        holding=[running("a0", "a", 2), running("a1", "a", 2, priority=5), running("b0", "b", 4)],
        waiting=[wl("new", "a", 2, priority=5)],
        want={"new": "preempts a0:InClusterQueue"},
    ),
    "own queue alone in the world": Case(
        fair=True,
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("a0", "a", 2, priority=1), running("a1", "a", 2)],
        waiting=[wl("new", "a", 3, priority=5)],
        want={"new": "preempts a0:InClusterQueue a1:InClusterQueue"},
    ),
    "own queue alone, and too little to be had": Case(
        fair=True,
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("a0", "a", 2, priority=9), running("a1", "a", 2)],
        waiting=[wl("new", "a", 3, priority=5)],
        want={"new": "waits WaitingForQuota"},
    ),
    "what need not go is taken back in": Case(
        fair=True,
        queues=[queue("a", 6, cohort="lab", reclaim="Any"), queue("b", 2, cohort="lab")],
        holding=[running("b0", "b", 1, since_s=1), running("b1", "b", 6, since_s=2)],
        waiting=[wl("new", "a", 5)],
        want={"new": "preempts b1:InCohortReclamation"},
    ),
}


@pytest.mark.parametrize("case", TURNS.values(), ids=TURNS.keys())
def test_whose_turn_it_is(case: Case) -> None:
    said, _ = play(case)
    assert said == case.want


def _shares(weight: Any, used: dict[str, int], nominal: dict[str, int], lab: dict[str, int]) -> Share:
    """Of queue `a` in cohort `lab`; every resource of one flavor."""

    def groups(amounts: dict[str, int]) -> dict[str, Any]:
        resources = [{"name": r, "nominalQuota": str(n)} for r, n in amounts.items()]
        group = {"coveredResources": list(amounts), "flavors": [{"name": "default", "resources": resources}]}
        return {"resourceGroups": [group]}

    accounts = Accounts()
    accounts.set_flavor(facts.resource_flavor(flavor("default")))
    accounts.set_cohort(facts.cohort({"metadata": {"name": "lab"}, "spec": groups(lab)}))
    mine = queue("a", cohort="lab", spec=groups(nominal))
    if weight is not None:
        mine["spec"]["fairSharing"] = {"weight": weight}
    accounts.set_cluster_queue(facts.cluster_queue(mine))
    accounts.settle()
    account = accounts.queues["a"]
    account.add_usage(tuple((flavor_resource("default", r), n) for r, n in used.items()), ())
    return share_of(account)


def test_shares() -> None:
    inf = float("inf")
    for weight, used, nominal, lab, want in (
        (None, {"gpu": 2}, {"gpu": 2}, {"gpu": 8}, (0.0, 0.0, "", False)),
        (None, {"gpu": 3}, {"gpu": 2}, {"gpu": 8}, (100.0, 100.0, "gpu", True)),
        ("2", {"gpu": 3}, {"gpu": 2}, {"gpu": 8}, (50.0, 100.0, "gpu", True)),
        ("500m", {"gpu": 3}, {"gpu": 2}, {"gpu": 8}, (200.0, 100.0, "gpu", True)),
        ("0", {"gpu": 3}, {"gpu": 2}, {"gpu": 8}, (inf, 100.0, "gpu", True)),
        ("0", {"gpu": 2}, {"gpu": 2}, {"gpu": 8}, (0.0, 0.0, "", False)),
        ("0", {"gpu": 1}, {"gpu": 0}, {"gpu": 0}, (0.0, 0.0, "", True)),
        (None, {"gpu": 4, "nic": 4}, {"gpu": 2, "nic": 2}, {"gpu": 8, "nic": 8}, (200.0, 200.0, "gpu", True)),
        (None, {"nic": 4, "gpu": 4}, {"nic": 2, "gpu": 2}, {"nic": 8, "gpu": 8}, (200.0, 200.0, "gpu", True)),
        (None, {"gpu": 3, "nic": 4}, {"gpu": 2, "nic": 2}, {"gpu": 8, "nic": 8}, (200.0, 200.0, "nic", True)),
    ):
        share = _shares(weight, used, nominal, lab)
        told = (round(share.weighted, 6), round(share.ratio, 6), share.dominant, share.is_borrowing)
        assert told == want, (weight, used)


def test_shares_in_order() -> None:
    inf = float("inf")
    shares = [
        Share(-1.0, -1.0, "", ()),
        Share(0.0, 0.0, "", ()),
        Share(1.0, 9.0, "x", ()),
        Share(2.0, 1.0, "x", ()),
        Share(inf, 1.0, "x", ()),
        Share(inf, 2.0, "x", ()),
    ]
    for i, a in enumerate(shares):
        for j, b in enumerate(shares):
            assert (a.order() < b.order()) == (i < j) and (a.order() == b.order()) == (i == j)
    gpu, nic = flavor_resource("f", "gpu"), flavor_resource("f", "nic")
    borrower = Share(1.0, 1.0, "gpu", (gpu,))
    assert borrower.is_borrowing_any_of({gpu: 1}) and not borrower.is_borrowing_any_of({gpu: 0, nic: 1})
