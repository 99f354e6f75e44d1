"""Which flavors a workload gets, and what is said where none will do: against the rule in plain words.

Queues stand alone here and preempt nobody: flavor by flavor, each group's resources together, pod set by pod set.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from queueworld import Case, World, flavor, pod_set, queue, running, taint, wl

from fairway.kube.objects import Obj
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.amounts import amount_text
from fairway.queueing.facts.podsets import new_shape
from fairway.queueing.facts.transformations import Transformations
from fairway.queueing.flavors import assignment as assigning
from fairway.queueing.flavors import attempts as trying
from fairway.queueing.flavors.assignment import (
    Attempt,
    FlavorChoice,
    Mode,
    PodSetAssignment,
    Possibility,
    ScanState,
)
from fairway.queueing.flavors.flavormatch import mismatch
from fairway.queueing.quota.accounts import Accounts

_GROUPS = {"gpu": ("f0", "f1", "f2"), "cpu": ("g0", "g1"), "memory": ("g0", "g1")}
_AT = {"gpu": 0, "cpu": 1, "memory": 1}


class _World:
    """One queue: quotas and what is held by (flavor, resource), what flavors say of nodes, what pod sets ask for."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = Random(seed)
        pairs = [(f, r) for r, flavors in _GROUPS.items() for f in flavors]
        self.nominal = {p: draw.choice((0, 2, 4, 8)) for p in pairs}
        self.held = {p: draw.choice((0, 0, 1, min(n, 3))) for p, n in self.nominal.items()}
        self.tainted = {f for f in ("f0", "f1", "f2", "g0", "g1") if draw.random() < 0.2}
        self.pools = {f: draw.choice(("", "a", "b")) for f in ("f0", "f1", "f2", "g0", "g1")}
        self.asks: list[dict[str, int]] = []
        self.counts: list[int] = []
        self.tolerates: list[bool] = []
        self.wants: list[str] = []
        for _ in range(draw.choice((1, 1, 2, 3))):
            asked = {r: draw.choice((0, 1, 2, 3, 5)) for r in _GROUPS if draw.random() < 0.8}
            self.asks.append(asked)
            self.counts.append(draw.choice((1, 1, 2)))
            self.tolerates.append(draw.random() < 0.4)
            self.wants.append(draw.choice(("", "", "a", "b")))

    def queue(self) -> Obj:
        def entry(f: str, r: str) -> Obj:
            return {"name": r, "nominalQuota": str(self.nominal[f, r])}

        groups = [
            {
                "coveredResources": ["gpu"],
                "flavors": [{"name": f, "resources": [entry(f, "gpu")]} for f in _GROUPS["gpu"]],
            },
            {
                "coveredResources": ["cpu", "memory"],
                "flavors": [
                    {"name": f, "resources": [entry(f, "cpu"), entry(f, "memory")]} for f in _GROUPS["cpu"]
                ],
            },
        ]
        return queue("a", spec={"resourceGroups": groups})

    def case(self) -> Case:
        flavors = [
            flavor(
                f,
                nodeLabels={"pool": self.pools[f]} if self.pools[f] else {},
                nodeTaints=[taint("k", "v")] if f in self.tainted else [],
            )
            for f in self.pools
        ]
        held = [
            {
                "name": "main",
                "count": 1,
                "flavors": {r: f},
                "resourceUsage": {r: str(n)},
            }
            for (f, r), n in self.held.items()
        ]
        holding = []
        for i, given in enumerate(held):
            obj = running(f"h{i}", "a", 0)
            obj["status"]["admission"]["podSetAssignments"] = [given]
            holding.append(obj)
        sets = []
        for i, asked in enumerate(self.asks):
            more: Obj = {}
            if self.tolerates[i]:
                more["tolerations"] = [{"key": "k", "operator": "Exists"}]
            if self.wants[i]:
                more["nodeSelector"] = {"pool": self.wants[i], "other": "x"}
            sets.append(pod_set(f"s{i}", self.counts[i], asked, **more))
        return Case(
            queues=[self.queue()],
            flavors=flavors,
            holding=holding,
            waiting=[wl("w", "a", pod_sets=sets)],
            want={},
        )

    # The reading

    def refusal(self, at: int, f: str) -> str:
        if f in self.tainted and not self.tolerates[at]:
            return f"untolerated taint {{k v NoSchedule <nil>}} in flavor {f}"
        if self.wants[at] and self.pools[f] not in ("", self.wants[at]):
            return f"flavor {f} doesn't match node affinity"
        return ""

    def wanted(self, at: int) -> dict[str, int]:
        return {r: _units(r, n) * self.counts[at] for r, n in self.asks[at].items()}

    def expected(self) -> tuple[list[dict[str, str]], str, str]:
        """Flavors of each pod set, reason, message; where it fits, neither."""
        used: dict[tuple[str, str], int] = {}
        chosen: list[dict[str, str]] = []
        fits = True
        says: list[str] = []
        for at in range(len(self.asks)):
            wanted = self.wanted(at)
            got: dict[str, str] = {}
            reasons: list[str] = []
            why: list[str] = []
            failed = False
            for r in _in_rank(wanted):
                if r in got:
                    continue
                together = {x: n for x, n in wanted.items() if _AT.get(x) == _AT[r]}
                best, found, refused = self._best(at, together, used)
                why.append(min(refused, key=_SEVERITY.index, default=""))
                if best is None:
                    got, reasons, failed = {}, found, True
                    break
                got.update(dict.fromkeys(together, best[0]))
                fits = fits and best[1]
                reasons += found
            chosen.append(got)
            for r, f in got.items():
                used[f, r] = used.get((f, r), 0) + wanted[r]
            if reasons:
                says.append(f"couldn't assign flavors to pod set s{at}: {', '.join(sorted(reasons))}")
            if failed:
                return chosen, max(why, key=_SEVERITY.index), "; ".join(says)
        return chosen, "" if fits else "WaitingForQuota", "; ".join(says)

    def _best(
        self, at: int, wanted: dict[str, int], used: dict[tuple[str, str], int]
    ) -> tuple[tuple[str, bool] | None, list[str], list[str]]:
        """(flavor, whether it fits now), what is said, and why those that will not do will not."""
        reasons: list[str] = []
        kinds: list[str] = []
        maybe: str | None = None
        for f in _GROUPS[next(iter(wanted))]:
            refused = self.refusal(at, f)
            if refused:
                reasons.append(refused)
                kinds.append("NoMatchingFlavor")
                continue
            said: list[str] = []
            worst = ""
            for r, n in wanted.items():
                before = used.get((f, r), 0)
                most = _units(r, self.nominal[f, r])
                free = max(0, most - _units(r, self.held[f, r]))
                if before + n > most:
                    said.append(
                        f"insufficient quota for {r} in flavor {f}, previously considered podsets requests "
                        f"({amount_text(r, before)}) + current podset request ({amount_text(r, n)}) > maximum "
                        f"capacity ({amount_text(r, most)})"
                    )
                    worst = "ExceedsMaxQuota"
                elif before + n > free:
                    short = amount_text(r, before + n - free)
                    said.append(f"insufficient unused quota for {r} in flavor {f}, {short} more needed")
            if not said:
                return (f, True), [], kinds
            reasons += sorted(said)
            if worst:
                kinds.append(worst)
            elif maybe is None:
                maybe = f
        if maybe is not None:
            return (maybe, False), reasons, kinds
        return None, reasons, kinds


_SEVERITY = ("", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor")


def _units(resource: str, amount: int) -> int:
    return amount * 1000 if resource == "cpu" else amount


def _in_rank(names: dict[str, int]) -> list[str]:
    """The order of requests is that of a hash of their names."""
    shape = new_shape([pod_set(requests=dict.fromkeys(names, 1))], Transformations())
    return list(shape.pod_sets[0].per_pod)


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_flavors_are_found_as_the_rule_says(start: int) -> None:
    for seed in range(start, start + 50):
        drawn = _World(seed)
        world = World(drawn.case())
        want, reason, message = drawn.expected()
        (outcome,) = world.cycle().entries
        assert outcome.assignment is not None or not any(want), seed
        found = [] if outcome.assignment is None else outcome.assignment.pod_sets
        flavors = [{r: c.flavor for r, c in ps.flavors.items()} for ps in found]
        assert flavors == want[: len(flavors)], seed
        assert outcome.is_admitted == (reason == ""), seed
        if reason:
            assert outcome.reason == reason, (seed, outcome.message)
            assert outcome.message == message, seed
        else:
            assert outcome.admission is not None
            for at, given in enumerate(outcome.admission["podSetAssignments"]):
                assert given["count"] == drawn.counts[at] and given["flavors"] == want[at]
                assert given["resourceUsage"] == {r: amount_text(r, drawn.wanted(at)[r]) for r in want[at]}


@pytest.mark.parametrize(
    ("leader", "workers", "count", "flavors"),
    [
        ({"gpu": 1, "cpu": 1}, {"gpu": 1}, 3, ["f0", "f0"]),
        ({"gpu": 2, "cpu": 1}, {"gpu": 1}, 3, ["f1", "f1"]),
        ({"gpu": 1, "cpu": 5}, {"gpu": 1, "cpu": 1}, 3, ["f1", "f1"]),
        ({"cpu": 2}, {"gpu": 2}, 2, ["f0", "f0"]),
        ({}, {"gpu": 5}, 1, ["", "f1"]),
        ({"gpu": 5}, {}, 1, ["f1", ""]),
    ],
)
def test_a_group_gets_the_flavors_that_have_room_for_all_of_it(
    leader: dict[str, int], workers: dict[str, int], count: int, flavors: list[str]
) -> None:
    """A leader and so many workers: f0 has four GPUs and six CPUs free, f1 twice that."""
    resources = {"f0": (4, 6), "f1": (8, 12)}
    listed = [
        {
            "name": f,
            "resources": [{"name": "gpu", "nominalQuota": str(g)}, {"name": "cpu", "nominalQuota": str(c)}],
        }
        for f, (g, c) in resources.items()
    ]
    together = {"podSetGroupName": "g"}
    sets = [
        pod_set("leader", 1, leader, topology=together),
        pod_set("workers", count, workers, topology=together),
    ]
    case = Case(
        queues=[
            queue("a", spec={"resourceGroups": [{"coveredResources": ["gpu", "cpu"], "flavors": listed}]})
        ],
        flavors=[flavor("f0"), flavor("f1")],
        waiting=[wl("w", "a", pod_sets=sets)],
        want={},
        gates={"TopologyAwareScheduling": False},
    )
    world = World(case)
    (outcome,) = world.cycle().entries
    assert outcome.is_admitted and outcome.assignment is not None
    given = [ps.flavors for ps in outcome.assignment.pod_sets]
    assert [{c.flavor for c in of.values()} for of in given] == [{f} if f else set() for f in flavors]
    assert [set(of) for of in given] == [set(leader), set(workers)]


# Parts of it


def _matches(pod: Obj, **spec: Any) -> str:
    accounts = Accounts()
    accounts.set_flavor(facts.resource_flavor(flavor("f", **spec)))
    accounts.set_cluster_queue(facts.cluster_queue(queue("a", {"f": 1})))
    accounts.settle()
    account = accounts.queues["a"]
    (asked,) = new_shape([pod_set(requests={"gpu": 1}, **pod)], Transformations()).pod_sets
    return mismatch(account, asked, accounts.flavors["f"], account.spec.groups[0], with_topology=True)


@pytest.mark.parametrize(
    ("requests", "topology", "aware", "want"),
    [
        ({"gpu": 1}, "rack", False, 'Flavor "f" does not support TopologyAwareScheduling'),
        ({"gpu": 1, "cpu": 1}, "rack", False, 'Flavor "f" does not support TopologyAwareScheduling'),
        ({"cpu": 1}, "rack", False, ""),
        ({}, "rack", False, ""),
        ({"gpu": 1}, "rack", True, 'Flavor "f" information missing in TAS cache'),
        ({"gpu": 1}, "", False, ""),
        ({"gpu": 1}, "", True, ""),
    ],
)
def test_which_flavors_have_domains(requests: Obj, topology: str, aware: bool, want: str) -> None:
    """One that serves nothing the pods ask for need not have any."""
    accounts = Accounts()
    accounts.set_flavor(facts.resource_flavor(flavor("f", **({"topologyName": "dc"} if aware else {}))))
    accounts.set_cluster_queue(facts.cluster_queue(queue("a", {"f": 1})))
    accounts.settle()
    account = accounts.queues["a"]
    raw = pod_set(requests=requests, topology={"required": topology} if topology else None)
    (asked,) = new_shape([raw], Transformations()).pod_sets
    group = account.spec.groups[0]
    assert mismatch(account, asked, accounts.flavors["f"], group, with_topology=True) == want
    assert mismatch(account, asked, accounts.flavors["f"], group, with_topology=False) == ""


def _required(*terms: list[Obj]) -> Obj:
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": t} for t in terms]
                }
            }
        }
    }


def _in(key: str, *values: str) -> Obj:
    return {"key": key, "operator": "In", "values": list(values)}


NO_AFFINITY = "flavor f doesn't match node affinity"


@pytest.mark.parametrize(
    ("pod", "labels", "want"),
    [
        ({}, {"a": "1"}, ""),
        ({"nodeSelector": {"a": "1"}}, {"a": "1"}, ""),
        ({"nodeSelector": {"a": "2"}}, {"a": "1"}, NO_AFFINITY),
        ({"nodeSelector": {"b": "2"}}, {"a": "1"}, ""),
        (_required([_in("a", "1", "2")]), {"a": "1"}, ""),
        (_required([_in("a", "2")]), {"a": "1"}, NO_AFFINITY),
        (_required([_in("a", "2")], [_in("a", "1")]), {"a": "1"}, ""),
        (_required([_in("a", "2")], [_in("b", "1")]), {"a": "1"}, ""),
        (_required([_in("a", "2"), _in("b", "1")]), {"a": "1"}, NO_AFFINITY),
        (_required([_in("a", "1"), _in("b", "1")]), {"a": "1"}, ""),
        (_required([_in("a", "1"), _in("b", "1")]), {"a": "1", "b": "2"}, NO_AFFINITY),
        (_required(), {"a": "1"}, ""),
        ({**_required([_in("a", "1")]), "nodeSelector": {"a": "2"}}, {"a": "1"}, NO_AFFINITY),
    ],
)
def test_only_keys_that_a_flavor_sets_are_asked_of_it(pod: Obj, labels: dict[str, str], want: str) -> None:
    assert _matches(pod, nodeLabels=labels) == want


@pytest.mark.parametrize(
    ("pod", "taints", "own", "want"),
    [
        ({}, [taint("k", "v")], [], "untolerated taint {k v NoSchedule <nil>} in flavor f"),
        ({}, [taint("k", effect="NoExecute")], [], "untolerated taint {k  NoExecute <nil>} in flavor f"),
        ({}, [taint("k", effect="PreferNoSchedule")], [], ""),
        ({}, [taint("k")], [{"key": "k", "operator": "Exists"}], ""),
        ({"tolerations": [{"key": "k", "operator": "Exists"}]}, [taint("k")], [], ""),
        (
            {"tolerations": [{"key": "k"}]},
            [taint("k"), taint("j")],
            [],
            "untolerated taint {j  NoSchedule <nil>} in flavor f",
        ),
    ],
)
def test_taints_of_flavors(pod: Obj, taints: list[Obj], own: list[Obj], want: str) -> None:
    assert _matches(pod, nodeTaints=taints, tolerations=own) == want


def test_modes_of_pod_sets_and_assignments() -> None:
    def ps(name: str, *modes: Mode, reasons: list[str] | None = None, error: str = "") -> PodSetAssignment:
        return PodSetAssignment(
            name, 1, {}, {f"r{i}": FlavorChoice("f", m) for i, m in enumerate(modes)}, reasons, error
        )

    assert ps("a").mode() == ps("a", Mode.PREEMPT).mode() == Mode.FIT
    assert ps("a", reasons=["x"]).mode() == ps("a", Mode.FIT, error="x").mode() == Mode.NO_FIT
    assert ps("a", Mode.FIT, Mode.PREEMPT, reasons=["x"]).mode() == Mode.PREEMPT
    both = assigning.Assignment([ps("a", Mode.FIT), ps("b", Mode.PREEMPT, reasons=["z", "y"])], {})
    assert both.mode() == Mode.PREEMPT and assigning.Assignment([], {}).mode() == Mode.NO_FIT
    assert both.message() == "couldn't assign flavors to pod set b: y, z"
    both.set_mode(Mode.DEFERRED_FIT)
    assert both.mode() == Mode.DEFERRED_FIT and both.pod_sets[0].flavors["r0"].mode == Mode.DEFERRED_FIT
    both.set_pod_set_mode("a", Mode.NO_FIT)
    both.set_pod_set_mode("none", Mode.FIT)
    assert both.mode() == Mode.NO_FIT and both.pod_sets[1].flavors["r0"].mode == Mode.DEFERRED_FIT
    failed = both.pod_set("b")
    assert failed is not None and both.pod_set("c") is None
    both.fail(failed, "no")
    assert both.mode() == Mode.NO_FIT and both.message() == "failed to assign flavors to pod set b: no"


def test_where_a_search_goes_on() -> None:
    scan = ScanState(({"gpu": -1, "cpu": 1}, {}), 3, 4, (1, 2))
    assert [scan.next_index(0, r) for r in ("gpu", "cpu", "x")] == [0, 2, 0]
    assert scan.next_index(1, "gpu") == scan.next_index(2, "gpu") == 0
    assert scan.has_pending_flavors() and not ScanState(({"gpu": -1},), 0, 0, ()).has_pending_flavors()
    assert scan.is_of_shape((1, 2)) and scan.is_of_shape(()) and not scan.is_of_shape((1, 3))
    assert ScanState((), 0, 0, ()).is_of_shape((9,))


def test_what_was_considered() -> None:
    tried = [
        Attempt("a", Mode.FIT),
        Attempt("b", Mode.FIT, 1),
        Attempt("c", Mode.NO_FIT, 0, None, ("x", "y")),
        Attempt("d", Mode.PREEMPT, 2, Possibility.RECLAIM, ("z",)),
        Attempt("e", Mode.PREEMPT, 0, Possibility.NO_CANDIDATES),
        Attempt("f", Mode.DEFERRED_FIT),
    ]
    sets = [
        PodSetAssignment(n, 1, {}, {}, attempts=a)
        for n, a in (("one", tried), ("two", tried[:1]), ("three", tried[1:2]))
    ]
    assert assigning.considered_text(assigning.Assignment(sets, {})) == (
        "one: b(Fit;borrow=1), c(NoFit;x;y), d(preemptionMode=Reclaim;borrow=2;z), e(preemptionMode=NoCandidates), "
        "f(DeferredFit) | three: b(Fit;borrow=1)"
    )


def test_the_worse_of_two_resources_is_told_of_a_flavor() -> None:
    accounts = Accounts()
    accounts.set_cluster_queue(facts.cluster_queue(_World(0).queue()))
    accounts.settle()
    account = accounts.queues["a"]
    merged: dict[str, Attempt] = {}
    first = [
        Attempt("g0", Mode.PREEMPT, 1, Possibility.RECLAIM, ("b", "a", "b"), "WaitingForQuota"),
        Attempt("g1", Mode.FIT),
    ]
    trying.merge_resource(merged, first, "cpu", account)
    assert merged["g0"].reasons == ("a", "b") and merged["g1"].reasons == ()
    second = [Attempt("g0", Mode.FIT, 3, Possibility.PREEMPT, ("c",), "ExceedsMaxQuota")]
    trying.merge_resource(merged, second, "memory", account)
    worse = merged["g0"]
    assert (worse.mode, worse.borrow, worse.possibility) == (Mode.PREEMPT, 3, Possibility.PREEMPT)
    assert (worse.reasons, worse.no_fit_reason) == (("a", "b", "c"), "ExceedsMaxQuota")
    left_out = merged["g1"]
    assert (left_out.mode, left_out.no_fit_reason) == (Mode.NO_FIT, "NoMatchingFlavor")
    assert left_out.reasons == ("flavor g1 does not provide resource memory",)
    # Of a resource that fits nothing is known of what preemption could do; of the rest the worst counts.
    for one, other, least in (
        (Possibility.RECLAIM, Possibility.PREEMPT, Possibility.PREEMPT),
        (Possibility.PREEMPT, Possibility.RECLAIM, Possibility.PREEMPT),
        (Possibility.NO_CANDIDATES, Possibility.RECLAIM, Possibility.NO_CANDIDATES),
        (None, Possibility.RECLAIM, Possibility.RECLAIM),
        (Possibility.RECLAIM, None, Possibility.RECLAIM),
        (None, None, None),
    ):
        known = {"g0": Attempt("g0", Mode.PREEMPT, possibility=one)}
        trying.merge_resource(known, [Attempt("g0", Mode.PREEMPT, possibility=other)], "cpu", account)
        assert known["g0"].possibility == least
    third = [Attempt("f1", Mode.FIT, 0, None), Attempt("g0", Mode.NO_FIT, 0, Possibility.RECLAIM)]
    trying.merge_resource(merged, third[:1], "gpu", account)
    assert "f0" not in merged and [a.flavor for a in trying.finalized(merged)] == ["f1", "g0", "g1"]
    trying.merge_resource(merged, [], "cpu", account)
    trying.merge_resource(merged, [Attempt("g1", Mode.FIT)], "unknown", account)
    assert merged["g1"].mode == Mode.NO_FIT, "the worst stays"


def test_which_reason_is_the_more_severe() -> None:
    order = ("", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor")
    for (i, a), (j, b) in product(enumerate(order), repeat=2):
        assert assigning.most_severe(a, b) == (a if i >= j else b)
        assert (assigning.severity(a) < assigning.severity(b)) == (i < j)
