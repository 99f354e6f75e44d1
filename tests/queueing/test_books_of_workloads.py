"""The books as Workloads come, hold, let go and wait; and what each that waits is told, truly, now."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from queueworld import NAMESPACES, NOW_S, flavor, queue, running, wl, workload_of

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.control.blockers import BYPASSED, EVALUATING, Blocker, QueueFacts, blocker_of
from fairway.queueing.control.pendingreasons import Standing, standing_of, standings
from fairway.queueing.control.settings import DEFAULT_KUEUE, PodsReady
from fairway.queueing.cycle.entries import RequeueReason
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import gates_from

NOW_US = NOW_S * 1_000_000
OPTIONS = CycleOptions(number=1, now_us=NOW_US)
_K = "kueue.x-k8s.io"
NOT_NEW = {"key": "new", "operator": "DoesNotExist"}


def _local(name: str, to: str, stop: str = "None") -> Obj:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterQueue": to, "stopPolicy": stop},
    }


class Books:
    def __init__(self, *objects: tuple[str, Obj], **settings: Any) -> None:
        self.backlog = Backlog(replace(DEFAULT_KUEUE, **settings))
        self.objects: dict[str, Obj] = {}
        self.backlog.environment._labels.update({n: dict(labels) for n, labels in NAMESPACES.labels.items()})
        self.say("ResourceFlavor", flavor("default"))
        for kind, obj in objects:
            self.say(kind, obj)
        self.told()

    def say(self, kind: str, obj: Obj, *, gone: bool = False) -> Books:
        meta = obj["metadata"]
        key = Key(f"{kind}.{_K}", meta.get("namespace", ""), meta["name"])
        name = f"{meta.get('namespace', '')}/{meta['name']}"
        old = self.objects.get(name) if kind == "Workload" else None
        type_ = DELETED if gone else MODIFIED if old else ADDED
        self.backlog.apply(Change(1, type_, key, obj, old), NOW_US)
        for waiting in self.backlog.take_unqueued():
            self.backlog.enqueue(self.objects[waiting], NOW_US, is_filling=True)
        if kind == "Workload":
            self.objects[name] = obj
            if gone:
                del self.objects[name]
        return self

    def told(self) -> list[str]:
        self.backlog.accounts.settle()
        out = [f"wakes {r}" for r in self.backlog.take_wakes()]
        out += [f"tells {gk.partition('.')[0]} {n}" for gk, n in self.backlog.take_touched()]
        out += [f"asks {w}" for w in self.backlog.take_questions()]
        out += [f"again {w}" for w in self.backlog.take_second_pass()]
        out += ["anew"] if self.backlog.version else []
        self.backlog.touched.version = 0
        return out

    def workload(self, obj: Obj, *, gone: bool = False) -> list[str]:
        self.say("Workload", obj, gone=gone)
        return self.told()

    def waits(self) -> list[str]:
        return [w.uid for q in self.backlog.pending.queues.values() for w in q.in_order(None)]

    def standings(self) -> dict[str, Standing]:
        return {s.workload.uid: s for s in standings(self.backlog, OPTIONS, self.objects)}


def _books(gpus: int = 4, **settings: Any) -> Books:
    return Books(("ClusterQueue", queue("a", gpus)), ("LocalQueue", _local("q", "a")), **settings)


BOTH = ["tells LocalQueue default/q", "tells ClusterQueue a"]


def _holds(name: str = "w", gpus: int = 2, **more: Any) -> Obj:
    obj = running(name, "a", gpus, **more)
    obj["spec"]["queueName"] = "q"
    return obj


def _status(obj: Obj, **more: Any) -> Obj:
    return {**obj, "status": {**obj.get("status", {}), **more}}


def _condition(kind: str, status: str = "True", reason: str = "R", message: str = "") -> Obj:
    at = rfc3339(NOW_US)
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


# Workloads come and go


def test_a_workload_waits_is_changed_and_goes() -> None:
    books = _books()
    waiting = wl("w", "q", 2)
    assert books.workload(waiting) == [*BOTH, "anew"]
    assert books.waits() == ["uid-w"]
    assert (books.backlog.pending_in("a"), books.backlog.pending_by("default/q")) == (1, 1)
    assert books.workload({**waiting, "metadata": {**waiting["metadata"], "labels": {"x": "y"}}}) == BOTH
    assert books.workload(wl("w", "q", 2, priority=5)) == [*BOTH, "anew"], "it has another rank"
    assert books.workload(wl("w", "q", 3, priority=5)) == [*BOTH, "anew"]
    moved = books.workload(wl("w", "none", 3))
    assert moved == [*BOTH, "tells LocalQueue default/none", "anew"]
    assert books.waits() == []
    assert books.workload(wl("w", "q", 3)) == ["tells LocalQueue default/none", *BOTH, "anew"]
    assert books.workload(wl("w", "q", 3), gone=True) == ["wakes a", *BOTH, "anew"]
    assert books.waits() == [] and books.workload(wl("v", "q", 3), gone=True) == ["wakes a", *BOTH]


def test_a_workload_gets_quota_and_lets_go() -> None:
    books = _books()
    books.workload(wl("w", "q", 2))
    holds = _holds()
    assert books.workload(holds) == ["tells ClusterQueue a", "tells LocalQueue default/q", "anew"]
    held = books.backlog.held_in("a"), books.backlog.held_by("default/q")
    assert [(h.reserving, h.admitted) for h in held] == [(1, 1)] * 2
    assert books.waits() == [] and books.backlog.pending_by("default/q") == 0
    assert books.workload(holds) == [], "the same object"
    assert books.workload(_status(holds, other=1)) == BOTH
    larger = _holds(gpus=3)
    assert books.workload(larger) == ["wakes a", "tells ClusterQueue a", "tells LocalQueue default/q", "anew"]
    evicted = _status(larger, conditions=[*larger["status"]["conditions"], _condition("Evicted")])
    assert books.workload(evicted) == [*BOTH, "anew"]
    lost = _status(wl("w", "q", 3), conditions=[_condition("QuotaReserved", "False", "Pending")])
    assert books.workload(lost) == ["wakes a", "tells ClusterQueue a", "tells LocalQueue default/q", "anew"]
    assert books.waits() == ["uid-w"] and books.backlog.held_in("a").reserving == 0
    held_back = _status(wl("w", "q", 3), conditions=[_condition("QuotaReserved", "False", "OnHold")])
    assert books.workload(held_back) == [*BOTH, "anew"] and books.waits() == []
    assert books.workload(lost) == [*BOTH, "anew"] and books.waits() == ["uid-w"]


@pytest.mark.parametrize("how", ["finished", "deactivated"])
def test_a_workload_that_is_over(how: str) -> None:
    def over(obj: Obj) -> Obj:
        if how == "finished":
            return _status(
                obj, conditions=[*obj.get("status", {}).get("conditions", ()), _condition("Finished")]
            )
        return {**obj, "spec": {**obj["spec"], "active": False}}

    books = _books()
    books.workload(_holds())
    assert books.workload(over(_holds())) == [
        "wakes a",
        "tells ClusterQueue a",
        "tells LocalQueue default/q",
        "anew",
    ]
    assert books.workload(_status(over(_holds()), more=1)) == BOTH, "it was over"
    assert books.backlog.held_in("a").reserving == 0
    assert list(books.backlog.waiting.members("default/q")) == ([] if how == "finished" else ["default/w"])
    books.workload(wl("v", "q", 1))
    assert books.workload(over(wl("v", "q", 1))) == ["wakes a", *BOTH, "anew"] and books.waits() == []
    new = _books()
    assert new.workload(over(wl("u", "q", 1))) == ["wakes a", *BOTH]


def test_who_is_scheduled_a_second_time_is_told() -> None:
    books = _books()
    assigned = {
        "topologyAssignment": {
            "levels": ["kubernetes.io/hostname"],
            "slices": [
                {"domainCount": 1, "valuesPerLevel": [{"universal": "n"}], "podCounts": {"universal": 1}}
            ],
        }
    }
    holds = _holds(assigned=assigned)
    books.workload(holds)
    lost = _status(holds, unhealthyNodes=[{"name": "n"}])
    assert "again default/w" in books.workload(lost)
    assert "again default/w" in books.workload(lost), "asked whenever it is heard of"
    assert "again default/w" not in books.workload(_status(holds, unhealthyNodes=[{"name": "m"}]))


@pytest.mark.parametrize(("blocks", "ready"), list(product((True, False), repeat=2)))
def test_pods_that_are_not_ready_where_that_blocks(blocks: bool, ready: bool) -> None:
    books = _books(pods_ready=PodsReady(blocks_admission=blocks))
    holds = _holds()
    conditions = [*holds["status"]["conditions"], *([_condition("PodsReady")] if ready else [])]
    books.workload(_status(holds, conditions=conditions))
    assert list(books.backlog.holdings.not_ready) == (["default/w"] if blocks and not ready else [])
    now_ready = _status(holds, conditions=[*holds["status"]["conditions"], _condition("PodsReady")], x=1)
    assert books.workload(now_ready) == [*BOTH, *(["anew"] if blocks and not ready else [])]


def test_queues_that_stop_and_come_back() -> None:
    books = _books()
    books.workload(wl("w", "q", 2))
    books.say("LocalQueue", _local("q", "a", "Hold"))
    assert books.waits() == [] and books.backlog.queue_of("default/q") is None
    books.say("LocalQueue", _local("q", "a"))
    assert books.waits() == ["uid-w"]
    assert books.backlog.cluster_queue_of("default/q") == "a" and books.backlog.cluster_queue_of("x") is None
    assert books.backlog.local_queues_of("a") == ["default/q"]
    assert books.backlog.is_queue_active("a") and not books.backlog.is_queue_active("b")
    assert not books.backlog.is_queue_going("a") and not books.backlog.is_queue_going("b")
    books.backlog.taken("default/w")
    assert books.backlog.pending_by("default/q") == 0
    twin = books.backlog.copy()
    twin.taken("default/w")
    twin.touched.decide_anew()
    assert twin.version == books.backlog.version + 1


def test_claims_have_to_be_counted_first() -> None:
    on = gates_from({"KueueDRAIntegration": True})[0]
    books = _books(gates=on)
    claiming = wl("w", "q", 2)
    claiming["spec"]["podSets"][0]["template"]["spec"]["resourceClaims"] = [
        {"name": "c", "resourceClaimTemplateName": "t"}
    ]
    assert books.workload(claiming) == [*BOTH, "asks default/w"] and books.waits() == []
    assert books.backlog.needs_charge(claiming) and not books.backlog.needs_charge(wl("v", "q"))
    books.backlog.charge("default/w", ())
    books.backlog.enqueue(claiming, NOW_US)
    assert books.waits() == ["uid-w"]
    books.workload(claiming, gone=True)
    assert books.backlog.charges == {}


# Where each stands


def test_standings_of_all_that_wait() -> None:
    books = Books(
        ("ClusterQueue", queue("a", 4, within="LowerPriority")),
        ("ClusterQueue", queue("b", {"none": 4})),
        ("LocalQueue", _local("q", "a")),
        ("LocalQueue", _local("r", "b")),
        ("LocalQueue", _local("s", "a", "Hold")),
        ("LocalQueue", _local("t", "gone")),
    )
    books.workload(_holds("held", 3, priority=1))
    told = [_condition("QuotaReserved", "False", "Told", "once")]
    later = rfc3339(NOW_US + 5_000_000)
    for obj in (
        wl("fits", "q", 1, priority=9),
        _status(wl("large", "q", 9, priority=8), conditions=told),
        wl("preempts", "q", 3, priority=7),
        _status(wl("backs-off", "q", 1, priority=6), requeueState={"requeueAt": later}),
        _status(wl("was", "q", 1, priority=5), requeueState={"requeueAt": rfc3339(NOW_US)}),
        wl("off", "r", 1),
        wl("stopped", "s", 1),
        wl("lost", "t", 1),
        wl("nowhere", "u", 1),
        {**wl("inactive", "q", 1), "spec": {**wl("x", "q", 1)["spec"], "active": False}},
        _status(wl("over", "q", 1), conditions=[_condition("Finished")]),
        _status(wl("on-hold", "q", 1), conditions=[_condition("QuotaReserved", "False", "OnHold")]),
        wl("gated", "q", 1, annotations={f"{_K}/admission-gated-by": "x.io/y"}),
        _status(wl("replaced", "q", 1), conditions=[_condition("WaitingForReplacementPods")]),
    ):
        books.workload(obj)
    found = books.standings()
    words = {
        uid.removeprefix("uid-"): (s.cluster_queue, s.position, s.verdict, s.reason)
        for uid, s in found.items()
    }
    assert words == {
        "fits": ("a", 1, "Fits", ""),
        "large": ("a", 2, "Waits", "ExceedsMaxQuota"),
        "preempts": ("a", 3, "Preempts", "WaitingForPreemptedWorkloads"),
        "backs-off": ("a", 4, "Backoff", ""),
        "was": ("a", 5, "Fits", ""),
        "off": ("b", 1, "Blocked", "Suspended"),
        "stopped": ("a", 0, "Blocked", "Suspended"),
        "lost": ("gone", 0, "Blocked", "Misconfigured"),
        "nowhere": ("", 0, "Blocked", "Misconfigured"),
        "inactive": ("a", 0, "Blocked", "Deactivated"),
        "on-hold": ("a", 0, "Blocked", "OnHold"),
        "gated": ("a", 0, "Blocked", "AdmissionGated"),
        "replaced": ("a", 0, "Blocked", "WaitingForReplacementPods"),
    }
    assert found["uid-preempts"].victims == ("default/held",) and found["uid-fits"].victims == ()
    large = found["uid-large"]
    assert (large.told_reason, large.told_message) == ("Told", "once")
    assert (found["uid-fits"].told_reason, found["uid-fits"].told_message) == ("", "")
    assert (found["uid-on-hold"].told_reason, found["uid-on-hold"].told_message) == ("OnHold", "")
    assert (found["uid-backs-off"].ready_us, found["uid-fits"].ready_us) == (NOW_US + 5_000_000, -1)
    assert found["uid-off"].ready_us == -1
    assert {n for n, s in found.items() if s.is_parked} == {"uid-backs-off"}
    messages = {n.removeprefix("uid-"): s.message for n, s in found.items()}
    assert messages["fits"] == "it fits: it is admitted when its turn comes"
    assert messages["off"] == "ClusterQueue b is inactive"
    assert messages["stopped"] == "LocalQueue s is inactive"
    assert messages["lost"] == "ClusterQueue gone doesn't exist"
    assert messages["nowhere"] == "LocalQueue u doesn't exist"
    assert messages["inactive"] == "The workload is deactivated"
    assert messages["on-hold"] == "The workload is on hold"
    assert messages["gated"] == "Admission is gated by: x.io/y"
    assert messages["replaced"] == "it waits for replacement pods"
    for name, obj in books.objects.items():
        one = found.get(f"uid-{name.partition('/')[2]}")
        if one is None:
            continue
        again = standing_of(books.backlog, OPTIONS, obj)
        assert (
            again.position,
            again.verdict,
            again.reason,
            again.message,
            again.is_parked,
            again.ready_us,
        ) == (
            one.position,
            one.verdict,
            one.reason,
            one.message,
            one.is_parked,
            one.ready_us,
        )
        assert (again.told_reason, again.told_message, again.victims, again.cluster_queue) == (
            one.told_reason,
            one.told_message,
            one.victims,
            one.cluster_queue,
        )
    outside = [uid for uid, s in found.items() if s.position == 0]
    assert outside == sorted(outside), "those in no queue by name"


def test_one_on_its_way_into_its_queue() -> None:
    books = _books()
    fresh = wl("w", "q", 1)
    found = standing_of(books.backlog, OPTIONS, fresh)
    assert (found.verdict, found.reason) == ("Blocked", "PendingEvaluation")
    assert found.message == "default/w is on its way into its queue"
    alike = _books(1)
    for obj in (wl("a", "q", 1), wl("b", "q", 1), wl("c", "q", 1, namespace="nobody")):
        alike.workload(obj)
    assert {s.verdict for s in alike.standings().values()} == {"Fits", "Blocked"}


# Why it is not even tried

SPEC = facts.cluster_queue(queue("c", 1, spec={"namespaceSelector": {"matchLabels": {"team": "research"}}}))
ANY = facts.cluster_queue(queue("c", 1))


def _blocked(
    *conditions: Obj,
    local: str | None = "None",
    spec: facts.ClusterQueue | None = ANY,
    active: bool = True,
    refused: str | None = None,
    gate: str = "",
    asks: Obj | None = None,
    **gates: bool,
) -> Blocker | None:
    here = None if local is None else facts.LocalQueue("ns/q", "c", 1.0, local)
    of_queues = QueueFacts(here, spec, active, "c", refused)
    notes = {f"{_K}/admission-gated-by": gate} if gate else {}
    obj = {
        "metadata": {"annotations": notes},
        "spec": {"queueName": "q", **(asks or {})},
        "status": {"conditions": list(conditions)},
    }
    on = {"UnadmittedWorkloadsObservability": True, "SchedulingEquivalenceHashing": True, **gates}
    workload = workload_of(obj=obj, key="default/w")
    return blocker_of(obj, workload, of_queues, NAMESPACES, gates_from(on)[0])


def _pending(reason: str, message: str = "said") -> Obj:
    return _condition("QuotaReserved", "False", reason, message)


def test_the_first_that_blocks_is_told() -> None:
    explicit = {"UnadmittedWorkloadsExplicitStatus": True}
    assert _blocked(asks={"active": False}, local=None) == ("Deactivated", "The workload is deactivated")
    assert _blocked(_pending("OnHold"), local=None) == ("OnHold", "said")
    assert _blocked(local=None) == ("Misconfigured", "LocalQueue q doesn't exist")
    assert _blocked(local="Hold", spec=None) == ("Suspended", "LocalQueue q is inactive")
    assert _blocked(spec=None) == ("Misconfigured", "ClusterQueue c doesn't exist")
    assert _blocked(active=False) == ("Suspended", "ClusterQueue c is inactive")
    elsewhere = _blocked(spec=SPEC, gate="x.io/y")
    assert elsewhere is not None and elsewhere.reason == "Misconfigured"
    gated = Blocker("AdmissionGated", "Admission is gated by: x.io/y")
    assert _blocked(gate="x.io/y", AdmissionGatedBy=True, refused="NoFit", **explicit) == gated
    assert _blocked(gate="x.io/y", AdmissionGatedBy=False) is None
    assert _blocked() is None and _blocked(**explicit) == ("PendingEvaluation", EVALUATING)
    assert _blocked(refused="X") is None and _blocked(refused="X", **explicit) == ("X", BYPASSED)
    assert _blocked(refused="X", SchedulingEquivalenceHashing=False, **explicit) == (
        "PendingEvaluation",
        EVALUATING,
    )
    for reason in ("", "Deactivated", "PendingEvaluation", "Suspended", "Pending"):
        assert _blocked(_pending(reason), refused="X") == ("X", BYPASSED)
    for reason in (
        "WaitingForQuota",
        "NoMatchingFlavor",
        "ExceedsMaxQuota",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "WaitingForPodsReady",
    ):
        assert _blocked(_pending(reason), refused="X") == (reason, "said")
        assert _blocked(_pending(reason)) == (reason, "said")
    assert _blocked(_pending("PendingEvaluation")) == ("PendingEvaluation", "said")
    for reason in ("Suspended", "Misconfigured", "Pending", "AdmissionGated"):
        assert _blocked(_pending(reason)) == ("PendingEvaluation", EVALUATING)
    old = {"UnadmittedWorkloadsObservability": False}
    assert _blocked(local=None, **old) == ("Inadmissible", "LocalQueue q doesn't exist")
    assert _blocked(gate="x.io/y", AdmissionGatedBy=True, asks={"active": False}, **old) is None


@pytest.mark.parametrize(
    ("selector", "stays"),
    [
        ({}, False),
        ({"matchLabels": {"kubernetes.io/metadata.name": "default"}}, False),
        ({"matchLabels": {"kubernetes.io/metadata.name": "other"}}, True),
        ({"matchExpressions": [{"key": "new", "operator": "Exists"}]}, True),
        (None, True),
    ],
)
def test_what_a_queue_does_not_take_sleeps_through_events(selector: Obj | None, stays: bool) -> None:
    books = _books()
    books.backlog.environment._labels["default"] = {"kubernetes.io/metadata.name": "default"}
    books.say("ClusterQueue", queue("a", 4, spec={"namespaceSelector": selector}))
    books.say("Workload", wl("w", "q", 2)).told()
    waiting = books.backlog.pending.queues["a"]
    head = waiting.pop(None)
    assert head is not None
    waiting.requeue(head, head.workload, RequeueReason.NAMESPACE_MISMATCH)
    assert waiting.inadmissible() == ("default/w",)
    books.backlog.wake("a", NOW_US)
    assert waiting.inadmissible() == (("default/w",) if stays else ())


def test_workloads_of_a_namespace_that_is_not_there_sleep_where_a_queue_is_choosy() -> None:
    books = _books()
    books.say("ClusterQueue", queue("a", 4, spec={"namespaceSelector": {"matchExpressions": [NOT_NEW]}}))
    books.say("Workload", wl("w", "q", 2)).told()
    waiting = books.backlog.pending.queues["a"]
    head = waiting.pop(None)
    assert head is not None
    waiting.requeue(head, head.workload, RequeueReason.NAMESPACE_MISMATCH)
    del books.backlog.environment._labels["default"]
    books.backlog.wake("a", NOW_US)
    assert waiting.inadmissible() == ("default/w",)
