"""What a change of queues, cohorts, flavors, topologies, checks, nodes or namespaces touches: all of it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from queueworld import cohort, flavor, queue, quotas, workload_of

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.control import checks, differences, trees
from fairway.queueing.control.configuring import Configuring
from fairway.queueing.control.environment import Environment
from fairway.queueing.control.finalizers import finalizer_actions
from fairway.queueing.control.holdings import Holdings
from fairway.queueing.control.touched import Touched
from fairway.queueing.control.waiting import Waiting
from fairway.queueing.cycle.pending import Pending
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import DEFAULT_GATES
from fairway.queueing.quota.accounts import Accounts

_KUEUE = ("ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "Topology", "AdmissionCheck")
_GROUPS = {
    **dict.fromkeys(_KUEUE, "kueue.x-k8s.io"),
    "RuntimeClass": "node.k8s.io",
    "DeviceClass": "resource.k8s.io",
}
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class Books:
    """Configuring, with what it follows changes into; `told` is all that the last change touched."""

    def __init__(self, *, by_usage: bool = False) -> None:
        self.accounts = Accounts(DEFAULT_GATES)
        self.waiting = Waiting(DEFAULT_GATES)
        self.environment = Environment()
        self.touched = Touched()
        self.configuring = Configuring(
            self.accounts, self.waiting, self.environment, self.touched, orders_by_usage=by_usage
        )
        self.known: dict[Key, Obj] = {}

    def join(self, *names: str, queue: str = "ns/lq") -> None:
        for name in names:
            self.waiting.join(name, queue)

    def say(self, kind: str, obj: Obj, *, old: Obj | None = None, gone: bool = False) -> list[str]:
        """`old` is what is known unless said."""
        gk = f"{kind}.{_GROUPS[kind]}" if kind in _GROUPS else kind
        key = Key(gk, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        before = old if old is not None else self.known.get(key)
        type_ = DELETED if gone else ADDED if before is None else MODIFIED
        self.configuring.apply(Change(1, type_, key, obj, before))
        self.known[key] = obj
        return self.told()

    def told(self) -> list[str]:
        self.accounts.settle()
        touched = self.touched
        out = [f"wakes {root}" for root in touched.take_wakes(self.accounts)]
        out += [
            f"tells {gk.partition('.')[0]} {n}"
            for gk, n in touched.take_statuses(self.accounts, fair_sharing=True)
        ]
        out += [f"asks {w}" for w in touched.take_questions()]
        out += [f"fills {w}" for w in touched.take_unqueued()]
        if touched.version:
            out.append("anew")
        assert touched.has_news or not out
        touched.version, touched.has_news = 0, False
        return out


def local(name: str = "lq", to: str = "a", stop: str = "", namespace: str = "ns") -> Obj:
    spec: Obj = {"clusterQueue": to, **({"stopPolicy": stop} if stop else {})}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _meta(obj: Obj, **more: Any) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], **more}}


# ClusterQueues


def test_a_cluster_queue_comes_changes_and_goes() -> None:
    books = Books()
    books.say("LocalQueue", local())
    books.join("ns/w")
    made = queue("a", 4)
    assert books.say("ClusterQueue", made) == [
        "wakes a",
        "tells LocalQueue ns/lq",
        "tells ClusterQueue a",
        "asks ns/w",
        "fills ns/w",
        "anew",
    ]
    assert books.waiting.pending.queues["a"].strategy == "BestEffortFIFO"
    assert books.say("ClusterQueue", {**made, "status": {"x": 1}}) == []
    assert books.say("ClusterQueue", {**made, "spec": dict(made["spec"])}) == [], "the same once more"
    larger = queue("a", 5)
    assert books.say("ClusterQueue", larger) == ["wakes a", "tells ClusterQueue a", "anew"]
    held = queue("a", 5, spec={"stopPolicy": "Hold"})
    asked = ["tells LocalQueue ns/lq", "tells ClusterQueue a", "asks ns/w", "anew"]
    assert books.say("ClusterQueue", held) == ["wakes a", *asked]
    checked = queue(
        "a", 5, spec={"stopPolicy": "Hold", "admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}}
    )
    assert books.say("ClusterQueue", checked) == ["wakes a", *asked]
    going = _meta(checked, **GOING)
    assert books.say("ClusterQueue", going) == ["wakes a", *asked]
    assert books.say("ClusterQueue", {**going, "status": {}}) == ["wakes a", *asked], (
        "whatever is written to it"
    )
    books.waiting.note_queued("ns/w", "ns/lq")
    assert books.say("ClusterQueue", going, gone=True) == ["tells LocalQueue ns/lq", "asks ns/w", "anew"]
    assert books.waiting.pending.queues == {} and books.accounts.queue_specs() == {}


def test_a_strategy_and_an_order_by_usage() -> None:
    usage = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    for orders, scoped in product((True, False), repeat=2):
        books = Books(by_usage=orders)
        books.say(
            "ClusterQueue",
            queue("a", 4, spec={"queueingStrategy": "StrictFIFO", **(usage if scoped else {})}),
        )
        found = books.waiting.pending.queues["a"]
        assert (found.strategy, found.by_usage) == ("StrictFIFO", orders and scoped)


def test_cohorts_above_a_cluster_queue_hear_of_all_that_is_written() -> None:
    """Less their root: only then is the tree tried again."""
    books = Books()
    books.say("Cohort", cohort("root"))
    books.say("Cohort", cohort("team", "root"))
    below, top = queue("a", 4, cohort="team"), queue("b", 4, cohort="root")
    books.say("ClusterQueue", below)
    books.say("ClusterQueue", top)
    assert books.say("ClusterQueue", {**below, "status": {"x": 1}}) == ["wakes /root"]
    assert books.say("ClusterQueue", {**top, "status": {"x": 1}}) == []
    assert books.say("ClusterQueue", _meta({**below, "spec": dict(below["spec"])}, **GOING))[:1] == [
        "wakes /root"
    ]
    gone = books.say("ClusterQueue", _meta(below, **GOING), gone=True)
    assert gone == ["wakes /root", "tells ClusterQueue b", "tells Cohort root", "tells Cohort team", "anew"]
    alone = queue("c", 4)
    books.say("ClusterQueue", alone)
    assert books.say("ClusterQueue", {**alone, "status": {}}) == []


# LocalQueues


def test_a_local_queue_comes_changes_and_goes() -> None:
    books = Books()
    books.say("ClusterQueue", queue("a", 4))
    books.join("ns/w", "ns/v")
    asked = ["asks ns/w", "asks ns/v"]
    filled = ["fills ns/w", "fills ns/v"]
    made = local()
    assert books.say("LocalQueue", made) == ["tells LocalQueue ns/lq", *asked, *filled, "anew"]
    assert books.say("LocalQueue", {**made, "status": {"x": 1}}) == []
    assert books.say("LocalQueue", {**made, "spec": dict(made["spec"])}) == []
    stopped = local(stop="Hold")
    assert books.say("LocalQueue", stopped) == ["tells LocalQueue ns/lq", *asked, *filled, "anew"]
    assert books.waiting.queue_of("ns/lq") is None
    moved = local(to="b")
    assert books.say("LocalQueue", moved) == ["tells LocalQueue ns/lq", *asked, *filled, "anew"]
    assert (books.waiting.local_queues_of("a"), books.waiting.local_queues_of("b")) == ([], ["ns/lq"])
    assert books.say("LocalQueue", moved, gone=True) == [*asked, "anew"]
    assert books.waiting.local_queues == {} and books.waiting.local_queues_of("b") == []


def test_what_waited_in_a_local_queue_waits_no_longer() -> None:
    books = Books()
    books.say("ClusterQueue", queue("a", 4))
    books.say("LocalQueue", local())
    books.join("ns/w", "ns/v")
    books.waiting.note_queued("ns/w", "ns/lq")
    assert books.waiting.pending_by("ns/lq") == 1
    books.say("LocalQueue", local(stop="Hold"))
    assert (books.waiting.pending_by("ns/lq"), books.waiting.home_of("ns/w")) == (0, None)


# Cohorts, flavors, topologies, checks


def test_cohorts() -> None:
    books = Books()
    both = ["tells Cohort c", "anew"]
    assert books.say("Cohort", cohort("c")) == ["wakes /c", *both]
    assert books.say("Cohort", {**cohort("c"), "status": {"x": 1}}) == []
    assert books.say("Cohort", cohort("c", gpu=4)) == ["wakes /c", *both]
    books.say("ClusterQueue", queue("a", 4, cohort="c"))
    assert books.say("Cohort", cohort("c", "top")) == [
        "wakes /top",
        "tells Cohort c",
        "tells ClusterQueue a",
        "tells Cohort top",
        "anew",
    ]
    gone = books.say("Cohort", cohort("c", "top"), gone=True)
    assert "tells ClusterQueue a" in gone and "anew" in gone and not any(g.startswith("wakes") for g in gone)


def test_flavors() -> None:
    books = Books()
    books.say("ClusterQueue", queue("a", {"x": 4, "y": 1}))
    books.say("ClusterQueue", queue("b", {"y": 4}))
    books.say("LocalQueue", local())
    books.say("LocalQueue", local("other", "b"))
    books.join("ns/w")
    known = ["tells LocalQueue ns/lq", "tells ClusterQueue a", "tells ClusterQueue b", "anew"]
    assert books.say("ResourceFlavor", flavor("x")) == ["wakes a", *known]
    assert books.say("ResourceFlavor", {**flavor("x"), "status": {}}) == []
    assert books.say("ResourceFlavor", flavor("x", nodeLabels={"p": "q"})) == ["wakes a", *known]
    assert books.say("ResourceFlavor", flavor("x"), gone=True) == ["wakes a", *known]
    assert "x" not in books.accounts.flavors
    both = books.say("ResourceFlavor", flavor("y"))
    assert both[:2] == ["wakes a", "wakes b"] and {
        "tells LocalQueue ns/lq",
        "tells LocalQueue ns/other",
    } < set(both)
    assert books.say("ResourceFlavor", flavor("z")) == [
        "tells ClusterQueue a",
        "tells ClusterQueue b",
        "anew",
    ]


HOST = "kubernetes.io/hostname"


def _topology(*levels: str) -> Obj:
    return {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": n} for n in levels]}}


def _node(name: str = "n", gpus: str = "4", **more: Any) -> Obj:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": {HOST: name, **more.pop("labels", {})}},
        "spec": more.pop("spec", {}),
        "status": {"allocatable": {"gpu": gpus}, "conditions": ready, **more},
    }


def test_topologies_and_nodes() -> None:
    books = Books()
    books.say("ClusterQueue", queue("a", {"x": 4}))
    books.say("ClusterQueue", queue("b", {"y": 4}))
    books.say("LocalQueue", local())
    books.say("ResourceFlavor", flavor("x", topologyName="t"))
    books.say("ResourceFlavor", flavor("y"))
    assert books.say("Node", _node()) == [], "nobody minds yet"
    assert not books.configuring.has_topologies
    told = ["wakes a", "tells LocalQueue ns/lq", "tells ClusterQueue a", "tells ClusterQueue b", "anew"]
    assert books.say("Topology", _topology(HOST)) == told
    assert books.configuring.has_topologies
    assert list(books.accounts.topologies["x"].leaves) == ["n"], "the node that was there before"
    assert books.say("Topology", {**_topology(HOST), "status": {"x": 1}}) == []
    assert books.say("Node", _node("m")) == ["wakes a", "anew"]
    same = books.known[Key("Node", "", "m")]
    assert books.say("Node", {**same, "status": dict(same["status"])}) == []
    assert books.say("Node", _node("m")) == [], "the same, written anew"
    assert books.say("Node", _node("m", "8")) == ["wakes a", "anew"]
    assert books.say("Node", _node("m", "8", labels={"p": "q"})) == ["wakes a", "anew"]
    assert books.say("Node", _node("m", "8", spec={"unschedulable": True})) == ["wakes a", "anew"]
    assert list(books.accounts.topologies["x"].leaves) == ["n"]
    assert books.say("Node", _node("n"), gone=True) == ["wakes a", "anew"]
    assert list(books.accounts.topologies["x"].leaves) == []
    assert books.say("Topology", _topology("rack", HOST)) == told
    assert books.say("Topology", _topology("rack", HOST), gone=True) == told
    assert not books.configuring.has_topologies
    assert books.say("Node", _node("m", "9")) == []
    assert books.say("Node", _node("m"), gone=True) == []


def test_checks() -> None:
    books = Books()
    rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}}
    books.say("ResourceFlavor", flavor("default"))
    books.say("ClusterQueue", queue("a", 4, spec=rules))
    books.say("ClusterQueue", queue("b", 4))
    books.say("LocalQueue", local())
    check = {"metadata": {"name": "c"}, "spec": {"controllerName": "x"}}
    told = ["wakes a", "tells LocalQueue ns/lq", "tells ClusterQueue a", "tells ClusterQueue b", "anew"]

    def why() -> str:
        found = books.accounts.queues["a"].inactivity
        return "" if found is None else found.reason

    assert why() == "AdmissionCheckNotFound"
    assert books.say("AdmissionCheck", check) == told
    assert why() == "AdmissionCheckInactive"
    active = [{"type": "Active", "status": "True"}]
    assert books.say("AdmissionCheck", {**check, "status": {"conditions": active}}) == told
    assert why() == ""
    assert books.say("AdmissionCheck", check, gone=True) == told
    assert why() == "AdmissionCheckNotFound"


# What stands around


def test_namespaces() -> None:
    books = Books()
    served = {"matchLabels": {"team": "x"}}
    books.say("ClusterQueue", queue("a", 4, spec={"namespaceSelector": served}))
    books.say("ClusterQueue", queue("b", 4))
    books.say("ClusterQueue", queue("c", 4, spec={"namespaceSelector": {"matchLabels": {"team": "y"}}}))

    def space(**labels: str) -> Obj:
        return {"metadata": {"name": "ns", "labels": labels}}

    assert books.say("Namespace", space()) == ["anew"]
    assert books.say("Namespace", space()) == []
    assert books.say("Namespace", space(team="x")) == ["wakes a", "anew"]
    assert books.say("Namespace", space(team="x", more="z")) == ["anew"]
    assert books.say("Namespace", space(team="y")) == ["wakes c", "anew"]
    assert books.say("Namespace", space(team="y"), gone=True) == []


def test_what_pods_are_given_counts_anew() -> None:
    books = Books()
    books.say("LocalQueue", local())
    books.say("LocalQueue", local(namespace="ns2"))
    books.join("ns/w")
    books.join("ns2/v", queue="ns2/lq")
    limits = {
        "metadata": {"name": "l", "namespace": "ns"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": 1}}]},
    }
    assert books.say("LimitRange", limits) == ["asks ns/w", "fills ns/w", "anew"]
    assert not books.environment.adjusts_nothing
    assert books.say("LimitRange", limits, gone=True) == ["asks ns/w", "fills ns/w", "anew"]
    assert books.environment.adjusts_nothing
    fixed = {"metadata": {"name": "r"}, "overhead": {"podFixed": {"cpu": "1"}}}
    all_of_them = ["asks ns/w", "asks ns2/v", "fills ns/w", "fills ns2/v", "anew"]
    assert books.say("RuntimeClass", fixed) == all_of_them
    assert not books.environment.adjusts_nothing


def test_device_classes() -> None:
    books = Books()
    books.say("LocalQueue", local())
    books.join("ns/w")
    plain = {"metadata": {"name": "d"}, "spec": {}}
    assert books.say("DeviceClass", plain) == []
    assert books.say("DeviceClass", {**plain, "spec": {"extendedResourceName": "x.io/g"}}) == ["asks ns/w"]
    assert books.say("DeviceClass", plain) == ["asks ns/w"], "it stood for one"


def test_a_copy_follows_for_itself() -> None:
    books = Books()
    books.say("Topology", _topology(HOST))
    books.say("Node", _node())
    twin = Books()
    twin.configuring = books.configuring.copy(twin.accounts, twin.waiting, twin.environment, twin.touched)
    assert twin.configuring.has_topologies
    twin.say("Topology", _topology(HOST), old=_topology(HOST), gone=True)
    assert books.configuring.has_topologies and not twin.configuring.has_topologies


# What is touched is taken once


def test_what_is_touched_is_taken_once_and_copied() -> None:
    accounts = Accounts(DEFAULT_GATES)
    for spec in (queue("a", 1, cohort="c"), queue("b", 1)):
        accounts.set_cluster_queue(facts.cluster_queue(spec))
    accounts.settle()
    touched = Touched()
    assert not touched.has_news and touched.take_wakes(accounts) == touched.take_questions() == ()
    for touch in (
        touched.decide_anew,
        touched.reconfigure,
        lambda: touched.wake_queue("a"),
        lambda: touched.wake_cohort("c"),
        lambda: touched.wake_of(facts.LocalQueue("ns/q", "b", 1.0, "None")),
        lambda: touched.tell("X", "y"),
        lambda: touched.tell_of("ns/q", facts.LocalQueue("ns/q", "b", 1.0, "None")),
        lambda: touched.ask(["w"]),
        lambda: touched.fill(["v"]),
        lambda: touched.pass_again("u"),
    ):
        touched.has_news = False
        touch()
        assert touched.has_news
    assert touched.version == 2
    twin = touched.copy()
    for it in (touched, twin):
        assert it.version == 2 and it.has_news
        assert it.take_wakes(accounts) == ("/c", "b")
        assert it.take_statuses(accounts, fair_sharing=False) == (
            ("X", "y"),
            ("LocalQueue.kueue.x-k8s.io", "ns/q"),
            ("ClusterQueue.kueue.x-k8s.io", "b"),
            ("ClusterQueue.kueue.x-k8s.io", "a"),
        )
        assert (it.take_questions(), it.take_unqueued(), it.take_second_pass()) == (("w",), ("v",), ("u",))
        assert it.take_wakes(accounts) == it.take_statuses(accounts, fair_sharing=True) == ()
        assert it.take_questions() == it.take_unqueued() == it.take_second_pass() == ()
    touched.reconfigure()
    fair = touched.take_statuses(accounts, fair_sharing=True)
    assert [n for _, n in fair] == ["a", "b", "c"]
    stopped = facts.LocalQueue("ns/q", "b", 1.0, "Hold")
    touched.wake_of(stopped)
    touched.wake_of(None)
    touched.wake_queue("gone")
    touched.wake_cohort("gone")
    assert touched.take_wakes(accounts) == ()
    touched.tell_of("ns/q", stopped)
    touched.tell_of("ns/r", None)
    assert [n for _, n in touched.take_statuses(accounts, fair_sharing=False)] == ["ns/q", "ns/r"]


def test_roots_of_trees() -> None:
    accounts = Accounts(DEFAULT_GATES)
    for spec in (cohort("root"), cohort("team", "root"), cohort("x", "y"), cohort("y", "x")):
        accounts.set_cohort(facts.cohort(spec))
    for made in (
        queue("a", {"f": 1}, cohort="team"),
        queue("b", {"g": 1}),
        queue("c", {"f": 1, "g": 1}, cohort="x"),
    ):
        accounts.set_cluster_queue(facts.cluster_queue(made))
    accounts.settle()
    assert [trees.root_of(accounts, n) for n in ("a", "b", "c", "d")] == ["/root", "b", None, None]
    assert [trees.root_of_cohort(accounts, n) for n in ("team", "root", "x", "z")] == [
        "/root",
        "/root",
        "/x",
        None,
    ]
    assert trees.queues_of(accounts, "/root") == ["a"] and trees.queues_of(accounts, "b") == ["b"]
    assert trees.queues_of(accounts, "zz") == trees.queues_of(accounts, "/zz") == []
    specs = accounts.queue_specs()
    assert (trees.using_flavor(specs, "f"), trees.using_flavor(specs, "h")) == (["a", "c"], [])
    groups = [*quotas({"f": 1}), *quotas({"k": 1}, "cpu")]
    two = {**specs, "t": facts.cluster_queue(queue("t", spec={"resourceGroups": groups}))}
    assert [trees.using_flavor(two, name) for name in "fk"] == [["a", "c", "t"], ["t"]]
    checked = {"admissionChecksStrategy": {"admissionChecks": [{"name": "k"}, {"name": "m"}]}}
    two["u"] = facts.cluster_queue(queue("u", 1, spec=checked))
    assert [trees.using_check(two, name) for name in "km"] == [["u"], ["u"]] and not trees.using_check(
        two, "f"
    )


# Differences


def test_what_makes_a_turn_different() -> None:
    base = workload_of(key="k", priority=1, order_us=5, alike=(1,))
    known = Pending(base)
    for change, differs in (
        ({}, False),
        ({"priority": 2}, True),
        ({"order_us": 6}, True),
        ({"alike": (2,)}, True),
        ({"uid": "z"}, False),
    ):
        now = workload_of(**{"key": "k", "priority": 1, "order_us": 5, "alike": (1,), **change})
        assert differences.ranks_differently(known, now) == differs, change


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, False),
        ({"usage": (("f", 1),)}, True),
        ({"cluster_queue": "z"}, True),
        ({"queue": "ns/z"}, True),
        ({"priority": 9}, True),
        ({"topology_usage": (("f", ()),)}, True),
        ({"is_admitted": True}, False),
    ],
)
def test_what_makes_quota_different(change: Obj, differs: bool) -> None:
    assert differences.changes_quota(workload_of(), workload_of(**change)) == differs


def test_when_it_may_be_tried() -> None:
    def at(**status: Any) -> int:
        return differences.ready_us({"status": status})

    later = "2026-01-01T00:00:05Z"
    requeued = {"type": "Requeued", "status": "False"}
    assert at() == -1
    assert at(requeueState={"requeueAt": later}) == parse_rfc3339(later)
    assert at(requeueState={"count": 1}) == -1
    assert at(conditions=[requeued], requeueState={"requeueAt": later}) == differences.NEVER_US
    assert at(conditions=[{**requeued, "status": "True"}]) == -1


# Who holds what


def test_counts_of_who_holds_quota() -> None:
    accounts = Accounts(DEFAULT_GATES)
    accounts.set_cluster_queue(facts.cluster_queue(queue("a", 9)))
    accounts.settle()
    ready = {"status": {"conditions": [{"type": "PodsReady", "status": "True"}]}}

    def held(name: str, **more: Any) -> Any:
        plain = {"key": name, "uid": name, "cluster_queue": "a", "has_quota": True, "queue": "ns/q"}
        return workload_of(**(plain | more))

    holdings = Holdings(accounts, blocks_admission=True)

    def counts() -> tuple[tuple[int, int], ...]:
        found = holdings.of_queue("a"), holdings.of_local_queue("ns/q")
        return tuple((h.reserving, h.admitted) for h in found)

    assert counts() == ((0, 0), (0, 0))
    holdings.hold(held("x"))
    holdings.hold(held("y", is_admitted=True, obj=ready))
    assert counts() == ((2, 1), (2, 1)) and list(holdings.not_ready) == ["x"]
    holdings.hold(held("x", queue="ns/r"))
    assert counts() == ((2, 1), (1, 1))
    twin = holdings.copy(accounts)
    assert holdings.refresh(
        held("x", queue="ns/r"), held("x", queue="ns/r", is_admitted=True, is_evicted=True)
    )
    assert not holdings.refresh(held("y", is_admitted=True), held("y", is_admitted=True))
    assert counts() == ((2, 2), (1, 1)) and twin.of_queue("a").admitted == 1
    assert holdings.note_readiness("x", ready) and not holdings.note_readiness("x", ready)
    assert not holdings.note_readiness("x", {}) and list(holdings.not_ready) == ["x"]
    released = holdings.release("x")
    assert released is not None and released.key == "x" and not holdings.not_ready
    assert counts() == ((1, 1), (1, 1)) and holdings.release("x") is None
    quiet = Holdings(accounts, blocks_admission=False)
    quiet.hold(held("z"))
    assert not quiet.not_ready and not quiet.note_readiness("z", ready)


# Checks and finalizers


def test_checks_that_a_workload_needs() -> None:
    rules = [
        {"name": "all"},
        {"name": "x", "onFlavors": ["x"]},
        {"name": "y", "onFlavors": ["y"]},
        {"name": "both", "onFlavors": ["x", "y"]},
    ]
    spec = facts.cluster_queue(
        queue("a", {"x": 1, "y": 1}, spec={"admissionChecksStrategy": {"admissionChecks": rules}})
    )
    assert checks.needed_checks({}, spec) == ("all", "both")

    def assigned(*flavors: str) -> Obj:
        sets = [{"flavors": {f"r{i}": f}} for i, f in enumerate(flavors)]
        return {"status": {"admission": {"podSetAssignments": sets}}}

    assert checks.needed_checks(assigned("x"), spec) == ("all", "both", "x")
    assert checks.needed_checks(assigned("x", "y"), spec) == ("all", "both", "x", "y")
    assert checks.needed_checks(assigned("z"), spec) == checks.needed_checks(assigned(), spec) == ()


def test_states_of_checks() -> None:
    b, a = {"name": "b", "state": "Ready"}, {"name": "a", "state": "Retry", "message": "m"}
    assert checks.synced([b], ["b"], 0) is None and checks.synced([], [], 0) is None
    made = {"name": "a", "state": "Pending", "message": "", "lastTransitionTime": "1970-01-01T00:00:01Z"}
    assert checks.synced([b], ["b", "a"], 1_000_000) == [made, b]
    assert checks.synced([b, a], ["b"], 0) == [b]
    assert checks.in_state({"status": {"admissionChecks": [b, a]}}, "Retry") == [a]
    assert checks.listed([a], "Retry") == 'AdmissionCheck in Retry state: "a" (m)'
    assert checks.listed([b, a], "Ready") == 'AdmissionChecks in Ready state: "a" (m); "b"'
    at = "2026-01-01T00:00:00Z"

    def retry(*entries: tuple[Any, Any, str]) -> int:
        made = [
            {"name": "c", "requeueAfterSeconds": s, "lastTransitionTime": t, "state": k}
            for s, t, k in entries
        ]
        return checks.retry_us({"status": {"admissionChecks": made}})

    base = parse_rfc3339(at)
    assert retry((5, at, "Retry"), (7, at, "Retry"), (6, at, "Retry")) == base + 7_000_000
    assert retry((0, at, "Retry")) == base
    assert retry((9, at, "Ready"), (None, at, "Retry"), (9, None, "Retry")) == -1


@pytest.mark.parametrize(
    ("has", "going", "used", "want"),
    [
        (False, False, False, ["other", "kueue.x-k8s.io/resource-in-use"]),
        (False, False, True, ["other", "kueue.x-k8s.io/resource-in-use"]),
        (True, False, True, None),
        (True, True, True, None),
        (True, True, False, ["other"]),
        (False, True, False, None),
    ],
)
def test_what_is_in_use_stays(has: bool, going: bool, used: bool, want: list[str] | None) -> None:
    finalizers = ["other", *(["kueue.x-k8s.io/resource-in-use"] if has else [])]
    obj = _meta(queue("a", 1), finalizers=finalizers, **(GOING if going else {}))
    obj |= {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
    actions = finalizer_actions(obj, is_in_use=used)
    assert [a.patch["metadata"]["finalizers"] for a in actions] == ([] if want is None else [want])  # type: ignore[attr-defined]
    if want == ["other"]:
        (last,) = finalizer_actions(_meta(obj, finalizers=finalizers[1:]), is_in_use=False)
        assert last.patch["metadata"]["finalizers"] is None  # type: ignore[attr-defined]
