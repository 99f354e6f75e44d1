"""Extenders of a scheduler by themselves: who is asked what, what of an answer counts, what a failure means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from builders import node, pod
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.extenders import Extender, ExtenderError, Extenders
from fairway.scheduling.preemption import explain
from fairway.scheduling.verdict import Refusal, Scheduled

NODES = ("n1", "n2", "n3")


@dataclass
class Desk:
    """Extenders that answer what they are told to, by address; a text is a failure."""

    answers: dict[str, Any]
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    store: Store = field(default_factory=Store)

    def __post_init__(self) -> None:
        for name in NODES:
            self.store.create(node(name).build())
        self.pod = self.store.create(pod("p").build())

    def __call__(self, extender: Extender, verb: str, what: Any) -> Any:
        self.calls.append((extender.url, verb, what))
        answer = self.answers[extender.url]
        if isinstance(answer, str):
            raise ExtenderError(answer)
        return answer

    def of(self, *extenders: Extender) -> Extenders:
        return Extenders(extenders, self, self.store)

    @property
    def asked(self) -> list[str]:
        return [url for url, _, _ in self.calls]


def _filter(url: str, *, caches: bool = True, **more: Any) -> Extender:
    return Extender(url, filter_verb="filter", caches_nodes=caches, **more)


def _names(*names: str) -> Obj:
    return {"nodenames": list(names)}


# Filter


def test_each_is_asked_about_what_the_one_before_left() -> None:
    desk = Desk({"a": _names("n2", "n1", "n2"), "b": _names("n1"), "c": _names(), "d": _names("n1")})
    found = desk.of(*map(_filter, "abcd")).passed(desk.pod, NODES)
    assert found.nodes == ()
    assert desk.calls == [
        ("a", "filter", {"pod": desk.pod, "nodes": None, "nodenames": ["n1", "n2", "n3"]}),
        ("b", "filter", {"pod": desk.pod, "nodes": None, "nodenames": ["n2", "n1"]}),
        ("c", "filter", {"pod": desk.pod, "nodes": None, "nodenames": ["n1"]}),
    ]


def test_nodes_are_handed_over_whole_unless_they_are_cached() -> None:
    items = [{"metadata": {"name": n}} for n in ("n3", "elsewhere", "n1", "n3")]
    odd: list[Any] = [None, {}, {"metadata": None}, {"metadata": {"name": 3}}]
    desk = Desk({"a": {"nodes": {"items": [*items, *odd]}, "nodenames": ["n2"]}})
    assert desk.of(_filter("a", caches=False)).passed(desk.pod, NODES).nodes == ("n3", "n1")
    (call,) = desk.calls
    assert call[2]["nodenames"] is None
    whole = [desk.store.require(Key("Node", "", n)) for n in NODES]
    assert call[2]["nodes"] == {"metadata": {}, "items": whole}
    desk.calls.clear()
    desk.store.delete(Key("Node", "", "n2"))
    desk.of(_filter("a", caches=False)).passed(desk.pod, NODES)
    assert desk.calls[0][2]["nodes"]["items"] == [whole[0], whole[2]]
    for nothing in ({}, {"nodes": None}, {"nodes": []}, {"nodes": {"items": None}}):
        desk.answers["a"] = nothing
        assert desk.of(_filter("a", caches=False)).passed(desk.pod, NODES).nodes == ()
    # One that caches nodes may send them whole all the same.
    desk.answers["a"] = {"nodes": {"items": items}}
    assert desk.of(_filter("a")).passed(desk.pod, NODES).nodes == ("n3", "n1")


def test_what_it_says_of_others_is_kept_by_the_last_who_says_it() -> None:
    desk = Desk(
        {
            "a": _names("n1", "n2")
            | {"failedNodes": {"n3": "full", "n2": "x"}, "failedAndUnresolvableNodes": {}},
            "b": {
                "NodeNames": ["n1"],
                "FailedAndUnresolvableNodes": {"n2": 7},
                "failednodes": {"n2": "full"},
            },
        }
    )
    found = desk.of(*map(_filter, "ab")).passed(desk.pod, NODES)
    assert (found.nodes, found.refused) == (("n1",), {"n3": "full", "n2": "7"})
    assert found.hopeless == {"n2"}
    desk.answers["a"] = _names("n1") | {"failedNodes": ["n2"]}
    assert desk.of(_filter("a")).passed(desk.pod, NODES).refused == {}


WRONG: dict[str, tuple[Any, str]] = {
    "a failure": ("refused", "refused"),
    "an error of its own": (_names("n1") | {"Error": "broken"}, "broken"),
    "no object": ([], "json: cannot unmarshal list into Go value"),
    "a stranger": (
        _names("n9"),
        'extender "a" claims a filtered node "n9" which is not found in the input node list',
    ),
    "no name": (
        {"nodenames": [3]},
        'extender "a" claims a filtered node "3" which is not found in the input node list',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_failure_ends_it_unless_it_may_be_ignored(name: str) -> None:
    answer, words = WRONG[name]
    desk = Desk({"a": answer, "b": _names("n2", "n3")})
    with pytest.raises(ExtenderError, match=words.replace("(", "\\(")):
        desk.of(_filter("a"), _filter("b")).passed(desk.pod, NODES)
    assert desk.asked == ["a"]
    desk.calls.clear()
    found = desk.of(_filter("a", is_ignorable=True), _filter("b")).passed(desk.pod, NODES)
    assert (desk.asked, found.nodes, found.refused) == (["b", "a"], ("n2", "n3"), {})


def test_who_has_no_verb_or_no_interest_is_not_asked() -> None:
    desk = Desk({u: _names() for u in "abc"})
    gpus = ("example.com/gpu",)
    extenders = (Extender("a", prioritize_verb="p"), _filter("b", managed=gpus))
    assert desk.of(*extenders).passed(desk.pod, NODES).nodes == NODES
    assert desk.of(*extenders[1:]).scores(desk.pod, NODES) == {}
    assert desk.asked == []
    for made, is_asked in (
        (pod("q").asks(gpus[0], 1), True),
        (pod("q").limit(gpus[0], 1), True),
        (pod("q").spec(initContainers=[{"name": "i", "resources": {"limits": {gpus[0]: "1"}}}]), True),
        (pod("q").asks("example.com/nic", 1), False),
        (pod("q").spec(containers=[{"name": "c", "resources": {"claims": [{"name": gpus[0]}]}}]), False),
    ):
        assert extenders[1].is_interested(made.build()) is is_asked
        assert extenders[0].is_interested(made.build())
    key = key_of(desk.pod)
    assert desk.of(extenders[1]).of(key) is None
    assert desk.of(*extenders).of(key) is desk.pod
    assert desk.of().of(key) is None
    assert desk.of(extenders[0]).of(Key("Pod", "default", "nobody")) is None


# Scores


def test_scores_are_weighed_tenfold_and_added_up() -> None:
    def scored(**by_host: Any) -> list[Obj]:
        return [{"host": h, "score": s} for h, s in by_host.items()]

    desk = Desk({"a": scored(n1=3, n2=-1), "b": scored(n1=2), "c": "down", "d": scored(n3=1), "e": None})
    weights = {"a": 1, "b": 5, "c": 9, "d": 2, "e": 1}
    made = [Extender(u, prioritize_verb="rate", weight=w) for u, w in weights.items()]
    assert desk.of(*made).scores(desk.pod, NODES) == {"n1": 130, "n2": -10, "n3": 20}
    assert [verb for _, verb, _ in desk.calls] == ["rate"] * 5
    for bad in (
        [{"host": "n1"}],
        [{"score": 1}],
        scored(n1="x"),
        [3],
        7,
        scored(n1=2**31 + 1),
        scored(n1=None),
    ):
        desk.answers["a"] = [*scored(n2=1), *bad] if isinstance(bad, list) else bad
        assert desk.of(*made[:2]).scores(desk.pod, NODES) == {"n1": 100}
    for most in (2**31, -(2**31)):
        desk.answers["a"] = scored(n1=most)
        assert desk.of(made[0]).scores(desk.pod, NODES) == {"n1": 10 * most}


# Preemption


def _victim(uid: str) -> Obj:
    return {"metadata": {"name": uid, "uid": uid}}


def _meta(**by_node: list[str]) -> Obj:
    return {"nodeNameToMetaVictims": {n: {"pods": [{"uid": u} for u in uids]} for n, uids in by_node.items()}}


def test_victims_are_those_that_each_leaves() -> None:
    victims = {"n1": ([_victim("x"), _victim("y")], 1), "n2": ([_victim("z")], 0)}
    first = _meta(n1=["y"], n2=["z"])
    first["nodeNameToMetaVictims"]["n1"]["numPDBViolations"] = 3
    desk = Desk({"a": first, "b": _meta(n1=["y"])})
    whole = Extender("a", preempt_verb="preempt")
    cached = Extender("b", preempt_verb="preempt", caches_nodes=True)
    assert desk.of(whole, cached).preempting(desk.pod, victims) == {"n1": (["y"], 0)}
    assert desk.calls[0][2] == {
        "pod": desk.pod,
        "nodeNameToVictims": {
            "n1": {"pods": [_victim("x"), _victim("y")], "numPDBViolations": 1},
            "n2": {"pods": [_victim("z")], "numPDBViolations": 0},
        },
        "nodeNameToMetaVictims": None,
    }
    assert desk.calls[1][2] == {
        "pod": desk.pod,
        "nodeNameToVictims": None,
        "nodeNameToMetaVictims": {
            "n1": {"pods": [{"uid": "y"}], "numPDBViolations": 3},
            "n2": {"pods": [{"uid": "z"}], "numPDBViolations": 0},
        },
    }
    assert desk.of(Extender("a", filter_verb="f")).preempting(desk.pod, victims) == {
        "n1": (["x", "y"], 1),
        "n2": (["z"], 0),
    }
    # With nobody left the next is not asked.
    desk.answers["a"], desk.calls = {}, []
    assert desk.of(whole, cached).preempting(desk.pod, victims) == {}
    assert desk.asked == ["a"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("down", "down"),
        (3, "cannot unmarshal int"),
        (_meta(n1=["z"]), "claims to preempt pod .UID: &{z}. on node: n1, but the pod is not found"),
        (
            {"nodeNameToMetaVictims": {"n1": {"pods": [{}]}}},
            "claims to preempt pod .UID: &{}. on node: n1, but the pod is not found",
        ),
        (_meta(n9=["x"]), "claims to preempt pod .UID: &{x}. on node: n9"),
        (_meta(n1=[]), 'expected at least one victim pod on node "n1"'),
        ({"nodeNameToMetaVictims": [1]}, "cannot unmarshal nodeNameToMetaVictims"),
        ({"nodeNameToMetaVictims": {"n1": 3}}, "cannot unmarshal nodeNameToMetaVictims"),
        (
            {"nodeNameToMetaVictims": {"n1": {"numPDBViolations": "x"}}},
            "cannot unmarshal nodeNameToMetaVictims",
        ),
    ],
)
def test_victims_nobody_named_are_failures(answer: Any, words: str) -> None:
    victims = {"n1": ([_victim("x")], 0), "n2": ([_victim("z")], 0)}
    desk = Desk({"a": answer})
    with pytest.raises(ExtenderError, match=words):
        desk.of(Extender("a", preempt_verb="preempt")).preempting(desk.pod, victims)
    found = desk.of(Extender("a", preempt_verb="preempt", is_ignorable=True)).preempting(desk.pod, victims)
    # A node without victims is left out by one that may be ignored; what fails changes nothing.
    without = answer == _meta(n1=[])
    assert found == ({} if without else {"n1": (["x"], 0), "n2": (["z"], 0)})


# Binding


def test_the_first_that_binds_binds() -> None:
    desk = Desk({"a": {}, "b": {}, "c": "down", "d": {"error": "no"}})
    a, b, c, d = (Extender(u, bind_verb="bind") for u in "abcd")
    desk.of(Extender("x", filter_verb="f"), a, b).binds(desk.pod, "n1")
    meta = desk.pod["metadata"]
    args = {"podName": "p", "podNamespace": "default", "podUID": meta["uid"], "node": "n1"}
    assert desk.calls == [("a", "bind", args)]
    for fails, words in ((c, "down"), (d, "no")):
        with pytest.raises(ExtenderError, match=words):
            desk.of(fails, a).binds(desk.pod, "n1")
    desk.calls.clear()
    ignored = Extender("c", bind_verb="bind", is_ignorable=True)
    desk.of(Extender("z", bind_verb="bind", managed=("a.io/b",)), ignored).binds(desk.pod, "n1")
    assert desk.asked == ["c"]


@pytest.mark.parametrize("passes_over", ["has no verb", "has no interest", "fails and may be ignored"])
def test_who_is_passed_over_keeps_nobody_behind_it_from_being_asked(passes_over: str) -> None:
    """At every point of a cycle, one is asked before and one after: both, of those that may be ignored."""
    victims = {"n1": ([_victim("x")], 0), "n2": ([_victim("y")], 1)}
    answers = {
        "filter": _names("n2", "n3"),
        "rate": [{"host": "n2", "score": 4}],
        "preempt": _meta(n1=["x"]),
        "bind": {},
    }
    for verb, answer in answers.items():
        desk = Desk({"a": answer, "b": "down", "c": answer})
        asks = {
            "filter_verb": "filter" if verb == "filter" else "",
            "prioritize_verb": "rate" if verb == "rate" else "",
            "preempt_verb": "preempt" if verb == "preempt" else "",
            "bind_verb": "bind" if verb == "bind" else "",
        }
        over = Extender(
            "b",
            **({} if passes_over == "has no verb" else asks),
            is_ignorable=True,
            managed=("example.com/gpu",) if passes_over == "has no interest" else (),
        )
        around = [Extender(u, **asks, is_ignorable=True, caches_nodes=True) for u in "ac"]
        extenders = desk.of(over, *around) if verb == "bind" else desk.of(around[0], over, around[1])
        found: Any = None
        if verb == "filter":
            found = extenders.passed(desk.pod, NODES)
            assert (found.nodes, found.refused, found.hopeless) == (("n2", "n3"), {}, frozenset())
        elif verb == "rate":
            assert extenders.scores(desk.pod, NODES) == {"n2": 80}
        elif verb == "preempt":
            assert extenders.preempting(desk.pod, victims) == {"n1": (["x"], 0)}
        else:
            extenders.binds(desk.pod, "n1")
        is_called = passes_over == "fails and may be ignored"
        # The first that binds ends it.
        want = ["b"] * is_called + ["a"] if verb == "bind" else ["a", *["b"] * is_called, "c"]
        assert desk.asked == want, verb


# In a cycle


@dataclass
class Cycle:
    """A scheduler with one extender, `a`."""

    desk: Desk
    extender: Extender

    def __post_init__(self) -> None:
        self.store = self.desk.store
        self.scheduler = Scheduler(self.store.accounts, view=self.store)
        self.scheduler.extenders = self.desk.of(self.extender)

    def place(self, name: str = "p") -> Any:
        key = Key("Pod", "default", name)
        self.record = self.store.accounts.record(self.store.require(key), key)
        return self.scheduler.place(self.record)


def test_a_cycle_takes_what_extenders_leave_and_adds_their_scores() -> None:
    at = Cycle(Desk({"a": _names("n3", "n2")}), _filter("a"))
    found = at.place()
    assert (found.node in ("n2", "n3"), found.feasible, found.tied, found.evaluated) == (True, 2, 2, 3)
    at.desk.answers["a"] = _names("n3")
    assert at.place()[:5] == ("n3", 0, 1, 3, 1)
    rates = Cycle(Desk({"a": [{"host": "n2", "score": 1}]}), Extender("a", prioritize_verb="p"))
    found, plain = rates.place(), max(rates.scheduler.score_sheet(rates.record).totals)
    assert (found.node, found.total, found.feasible, found.tied) == ("n2", plain + 10, 3, 1)


def test_a_cycle_says_what_extenders_say() -> None:
    said = _names() | {"failedNodes": {"n1": "too hot"}, "failedAndUnresolvableNodes": {"n2": "too cold"}}
    at = Cycle(Desk({"a": said}), _filter("a"))
    at.store.create(node("n4").cordoned().build())
    found = at.place()
    rows = at.store.accounts.row_of
    assert {n: (int(found.refusal[r]), bool(found.is_hopeless[r])) for n, r in rows.items()} == {
        "n1": (Refusal.EXTENDER, False),
        "n2": (Refusal.EXTENDER, True),
        "n3": (Refusal.EXTENDER, True),
        "n4": (Refusal.NODE_UNSCHEDULABLE, True),
    }
    told = explain(at.scheduler, at.record, found)
    assert told.reasons == (("node(s) were unschedulable", 1), ("too cold", 1), ("too hot", 1))
    assert told.plugins == ("Extender", "NodeUnschedulable")
    # What it says of a node that nobody asked it about goes before what filters said: findNodesThatPassExtenders.
    at.desk.answers["a"] = {**said, "failedNodes": {"n1": "too hot", "n4": "too far", "n9": "is none"}}
    found = at.place()
    assert (int(found.refusal[rows["n4"]]), bool(found.is_hopeless[rows["n4"]])) == (Refusal.EXTENDER, False)
    told = explain(at.scheduler, at.record, found)
    assert told.reasons == (("too cold", 1), ("too far", 1), ("too hot", 1))
    at.desk.answers["a"] = "down"
    found = at.place()
    assert (found.error, len(found.refusal)) == ("down", 0)


@pytest.mark.parametrize(("answer", "stays"), [(_names("n2"), True), (_names(), False), ("down", False)])
def test_a_nominated_pod_goes_to_its_node_if_extenders_let_it(answer: Any, stays: bool) -> None:
    at = Cycle(Desk({"a": answer}), _filter("a"))
    key = Key("Pod", "default", "p")
    record = at.store.accounts.record(at.store.require(key), key)
    at.scheduler.nominated[key] = (record, "n2")
    found = at.scheduler.place(record)
    assert at.desk.calls[0][2]["nodenames"] == ["n2"]
    assert len(at.desk.calls) == (1 if stays else 2)
    assert (isinstance(found, Scheduled) and found.node == "n2") is stays


def test_a_preemption_evicts_whom_extenders_name() -> None:
    desk = Desk({"a": {}})
    for name in NODES[1:]:
        desk.store.delete(Key("Node", "", name))
    at = Cycle(desk, Extender("a", preempt_verb="preempt", caches_nodes=True))
    uids = {}
    for name in ("x", "y"):
        made = at.store.create(pod(name).cpu(30).build())
        at.store.bind(key_of(made), "n1", {"phase": "Running"})
        uids[name] = made["metadata"]["uid"]
    at.store.create(pod("big").cpu(60).priority(10).build())

    def explained(name: str = "big") -> Any:
        verdict = at.place(name)
        return explain(at.scheduler, at.record, verdict)

    desk.answers["a"] = _meta(n1=[uids["x"]])
    desk.answers["a"]["nodeNameToMetaVictims"]["n1"]["numPDBViolations"] = 2
    found = explained().preemption
    assert found is not None
    assert (found.node, [v.name for v in found.victims], found.pdb_violations) == ("n1", ["x"], 2)
    for nobody in ("down", {}):
        desk.answers["a"] = nobody
        assert explained().preemption is None
    # Whom no extender cares for is decided without them.
    at.scheduler.extenders = desk.of(Extender("a", preempt_verb="preempt", managed=("a.io/b",)))
    found = explained().preemption
    assert found is not None
    assert sorted(v.name for v in found.victims) == ["x", "y"]
