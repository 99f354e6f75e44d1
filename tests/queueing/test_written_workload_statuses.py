"""What Kueue writes into a Workload's status when its fate changes: the whole status, before and after.

Source: pkg/workload/workload.go, evict.go, admissionchecks.go; apis/kueue/v1beta2/workload_types.go.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from queueworld import NOW_S, Case, World, queue, wl, workload_of

from fairway.kube.timestamps import rfc3339
from fairway.queueing.cycle.entries import Eviction, Head, Outcome, RequeueReason, Status
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates, gates_from
from fairway.queueing.outcomes import statuses
from fairway.queueing.outcomes.events import eviction_events

Obj = dict[str, Any]
NOW_US = NOW_S * 1_000_000
NOW, BEFORE = rfc3339(NOW_US), rfc3339(NOW_US - 90_000_000)
PLAIN = gates_from({"UnadmittedWorkloadsObservability": False, "UnadmittedWorkloadsExplicitStatus": False})[0]
MESSAGES = {
    "NoReservation": "The workload has no reservation",
    "NoReservationUnsatisfiedChecks": "The workload has no reservation and not all checks ready",
    "UnsatisfiedAdmissionChecks": "The workload has not all checks ready",
    "UnsatisfiedChecks": "The workload has not all checks ready",
    "PendingDelayedTopologyRequests": "There are pending delayed topology requests",
    "Admitted": "The workload is admitted",
}


def says(
    kind: str, status: str = "True", reason: str = "R", message: str = "m", since: str = BEFORE, **more: Any
) -> Obj:
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
        **more,
    }


def of(*conditions: Obj, generation: int = 0, **status: Any) -> Obj:
    obj = wl("w", "a", 1)
    if generation:
        obj["metadata"]["generation"] = generation
    return {**obj, "status": {"conditions": list(conditions), **status}}


def admitted_condition(reason: str, since: str = NOW, **more: Any) -> Obj:
    return says(
        "Admitted", "True" if reason == "Admitted" else "False", reason, MESSAGES[reason], since, **more
    )


HOLDS = says("QuotaReserved", reason="QuotaReserved", message="Quota reserved in ClusterQueue a")
IN = admitted_condition("Admitted", BEFORE)


def test_evicted() -> None:
    """Checks begin anew, gates close, nominated clusters go, and the eviction is counted."""
    checks = [
        {"name": "a", "state": "Pending", "message": "x", "lastTransitionTime": BEFORE},
        {"name": "b", "state": "Ready", "message": "y", "lastTransitionTime": BEFORE, "podSetUpdates": []},
        {"name": "c", "state": "Retry", "requeueAfterSeconds": 7, "retryCount": 2},
        {"name": "d", "state": "Retry"},
        {"name": "e", "state": "Rejected", "retryCount": 3},
    ]

    def reset(name: str, state: str, **more: int) -> Obj:
        message = f"Reset to Pending after eviction. Previously: {state}"
        return {"name": name, "state": "Pending", "message": message, "lastTransitionTime": NOW, **more}

    before = of(
        HOLDS,
        says("BlockedOnPreemptionGates"),
        generation=4,
        admissionChecks=checks,
        clusterName="k",
        nominatedClusterNames=["k"],
        unhealthyNodes=[{"name": "n"}],
        admission={"clusterQueue": "a"},
        preemptionGates=[{"name": "g", "position": "Open", "lastTransitionTime": BEFORE}],
    )
    after = statuses.evicted(before, "PodsReadyTimeout", "too long", NOW_US)
    said: Any = {"reason": "PodsReadyTimeout", "message": "too long", "since": NOW, "observedGeneration": 4}
    assert after == {
        **before,
        "status": {
            "conditions": [HOLDS, says("BlockedOnPreemptionGates", "False", **said), says("Evicted", **said)],
            "admissionChecks": [
                checks[0],
                reset("b", "Ready"),
                reset("c", "Retry", requeueAfterSeconds=7, retryCount=3),
                reset("d", "Retry", retryCount=1),
                reset("e", "Rejected"),
            ],
            "admission": {"clusterQueue": "a"},
            "preemptionGates": [{"name": "g", "position": "Closed", "lastTransitionTime": NOW}],
            "schedulingStats": {
                "evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "", "count": 1}]
            },
        },
    }


@pytest.mark.parametrize(
    ("reason", "cause", "said"),
    [
        ("Deactivated", "", "Deactivated"),
        ("Deactivated", "RequeuingLimitExceeded", "DeactivatedDueToRequeuingLimitExceeded"),
        ("Preempted", "X", "Preempted"),
    ],
)
def test_evictions_are_counted_by_reason_and_cause(reason: str, cause: str, said: str) -> None:
    known: list[Obj] = [
        {"reason": "Deactivated", "underlyingCause": "", "count": 2},
        {"reason": "Deactivated", "underlyingCause": "RequeuingLimitExceeded"},
        {"reason": "Other"},
    ]
    before = of(schedulingStats={"evictions": known, "more": 1})
    after = statuses.evicted(before, reason, "m", NOW_US, cause=cause)["status"]
    assert after["conditions"] == [says("Evicted", reason=said, since=NOW)]
    counts = {
        (e["reason"], e.get("underlyingCause", "")): e.get("count")
        for e in after["schedulingStats"]["evictions"]
    }
    wanted = {("Deactivated", ""): 2, ("Deactivated", "RequeuingLimitExceeded"): None, ("Other", ""): None}
    wanted[reason, cause] = {"": 3, "RequeuingLimitExceeded": 1, "X": 1}[cause]
    assert counts == wanted and after["schedulingStats"]["more"] == 1
    assert before["status"]["schedulingStats"]["evictions"] == known and known[0]["count"] == 2


def test_preempted() -> None:
    victim, preemptor = (
        World(Case(queues=[], waiting=[wl(n, "a", 1)], want={})).heads()[0].workload for n in "vp"
    )
    before = of(HOLDS, IN, generation=2)
    after = statuses.preempted(
        before, Eviction(victim, "InCohortReclamation", "to give back", preemptor), NOW_US
    )
    assert after["status"]["conditions"] == [
        HOLDS,
        IN,
        says("Preempted", reason="InCohortReclamation", message="to give back", since=NOW),
        says("Evicted", reason="Preempted", message="to give back", since=NOW, observedGeneration=2),
    ]
    counted = [{"reason": "Preempted", "underlyingCause": "", "count": 1}]
    assert after["status"]["schedulingStats"] == {"evictions": counted}


def test_finished_and_replaced() -> None:
    before = of(HOLDS, generation=3, x=1)
    after = statuses.finished(before, "Succeeded", "done", NOW_US)
    ended = says("Finished", reason="Succeeded", message="done", since=NOW, observedGeneration=3)
    assert after == {**before, "status": {"conditions": [HOLDS, ended], "x": 1}}
    successor = wl("n", "a", 1)
    successor["metadata"] |= {"uid": "u", "labels": {"kueue.x-k8s.io/job-uid": "j"}}
    by = World(Case(queues=[], waiting=[successor], want={})).heads()[0].workload
    (condition,) = statuses.slice_replaced(of(), by, NOW_US)["status"]["conditions"]
    told = "Replaced to accommodate a workload (UID: u, JobUID: j) due to workload slice aggregation"
    assert condition == says("Finished", reason="WorkloadSliceReplaced", message=told, since=NOW)


def admitted(before: Obj, *checks: str, gates: FeatureGates = DEFAULT_GATES, flavor: str = "default") -> Obj:
    rules = [{"name": c, "onFlavors": ["default"]} for c in checks]
    spec = facts.cluster_queue(
        queue("a", {"default": 4, "other": 4}, spec={"admissionChecksStrategy": {"admissionChecks": rules}})
    )
    admission = {"clusterQueue": "a", "podSetAssignments": [{"name": "main", "flavors": {"gpu": flavor}}]}
    after = statuses.admitted(before, admission, spec, NOW_US, gates)
    assert after["status"].pop("admission") == admission
    result: Obj = after["status"]
    return result


def test_admitted() -> None:
    ended = [
        says(kind, message=f"why {kind}") for kind in ("Evicted", "Preempted", "BlockedOnPreemptionGates")
    ]
    over = says("Requeued")
    before = of(*ended, over, generation=5, unhealthyNodes=[{"name": "n"}], resourceRequests=[], x=1)
    reserved = says(
        "QuotaReserved",
        reason="QuotaReserved",
        message="Quota reserved in ClusterQueue a",
        since=NOW,
        observedGeneration=5,
    )
    previously = [
        says(c["type"], "False", "QuotaReserved", f"Previously: {c['message']}", NOW, observedGeneration=5)
        for c in ended
    ]
    into = admitted_condition("Admitted", observedGeneration=5)
    assert admitted(before) == {"conditions": [*previously, over, reserved, into], "x": 1}
    # What was over before stays as it was told.
    past = says("Evicted", "False", "Past", "long ago")
    assert admitted(of(past))["conditions"][0] == past


@pytest.mark.parametrize("gates", [DEFAULT_GATES, PLAIN], ids=["observed", "plain"])
def test_admission_waits_for_the_checks_of_its_flavors(gates: FeatureGates) -> None:
    def kinds(before: Obj, *checks: str, flavor: str = "default") -> dict[str, str]:
        return {
            c["type"]: c["reason"]
            for c in admitted(before, *checks, gates=gates, flavor=flavor)["conditions"]
        }

    ready, waiting = ({"name": "c", "state": state} for state in ("Ready", "Pending"))
    held, into = {"QuotaReserved": "QuotaReserved"}, {"Admitted": "Admitted"}
    assert kinds(of(), "c") == held, "its state is to be made first"
    assert kinds(of(), "c", flavor="other") == held | into
    assert kinds(of(admissionChecks=[ready]), "c") == held | into
    unsatisfied = {"Admitted": "UnsatisfiedAdmissionChecks"} if gates is DEFAULT_GATES else {}
    assert kinds(of(admissionChecks=[waiting]), "c") == held | unsatisfied
    assert kinds(of(admissionChecks=[ready]), "c", "d") == held


@pytest.mark.parametrize("gates", [DEFAULT_GATES, PLAIN], ids=["observed", "plain"])
def test_without_quota(gates: FeatureGates) -> None:
    """Whoever was admitted has run for so long; the time of all its runs adds up."""
    before = of(HOLDS, IN, generation=6, admission={"x": 1}, accumulatedPastExecutionTimeSeconds=10)
    after = statuses.without_quota(before, "Suspended", "stopped", NOW_US, gates)
    assert after["status"] == {
        "conditions": [
            says("QuotaReserved", "False", "Suspended", "stopped", NOW, observedGeneration=6),
            admitted_condition("NoReservation", observedGeneration=6),
        ],
        "accumulatedPastExecutionTimeSeconds": 100,
    }
    first = statuses.without_quota(of(HOLDS, IN), "Suspended", "stopped", NOW_US, gates)["status"]
    assert first["accumulatedPastExecutionTimeSeconds"] == 90
    never = statuses.without_quota(of(), "Suspended", "stopped", NOW_US, gates)["status"]
    assert "accumulatedPastExecutionTimeSeconds" not in never
    said = [says("QuotaReserved", "False", "Suspended", "stopped", NOW)]
    assert never["conditions"] == (said if gates is PLAIN else [*said, admitted_condition("NoReservation")])
    pending_check = of(HOLDS, IN, admissionChecks=[{"name": "c", "state": "Pending"}])
    late = statuses.without_quota(pending_check, "Suspended", "stopped", NOW_US, gates)["status"][
        "conditions"
    ]
    assert late[1]["reason"] == ("NoReservationUnsatisfiedChecks" if gates is PLAIN else "NoReservation")


def test_whether_it_is_admitted_follows_from_the_rest() -> None:
    late: Obj = {
        "podSetAssignments": [
            {"name": "main", "topologyAssignment": None, "delayedTopologyRequest": "Pending"}
        ]
    }
    ready, waits = [{"name": "c", "state": "Ready"}], [{"name": "c", "state": "Pending"}]
    cases: list[tuple[Obj, str, str]] = [
        (of(HOLDS), "Admitted", "Admitted"),
        (of(HOLDS, admissionChecks=ready), "Admitted", "Admitted"),
        (of(HOLDS, admissionChecks=waits), "UnsatisfiedAdmissionChecks", ""),
        (of(HOLDS, admission=late), "PendingDelayedTopologyRequests", ""),
        (of(HOLDS, IN, admissionChecks=waits), "UnsatisfiedAdmissionChecks", "UnsatisfiedChecks"),
        (of(HOLDS, IN, admission=late), "PendingDelayedTopologyRequests", "PendingDelayedTopologyRequests"),
        (of(IN), "NoReservation", "NoReservation"),
        (of(says("QuotaReserved", "False")), "NoReservation", ""),
        (of(), "", ""),
    ]
    for before, observed, plain in cases:
        for gates, reason in ((DEFAULT_GATES, observed), (PLAIN, plain)):
            after = statuses.with_admitted_synced(before, NOW_US, gates)
            if not reason:
                assert after is before
                continue
            was_in = IN in before["status"]["conditions"]
            kept = [c for c in before["status"]["conditions"] if c is not IN]
            since = BEFORE if was_in and reason == "Admitted" else NOW
            assert after["status"]["conditions"] == [*kept, admitted_condition(reason, since)], (
                before,
                gates,
            )
            ran = after["status"].get("accumulatedPastExecutionTimeSeconds")
            assert ran == (90 if was_in and reason != "Admitted" else None)
    # Words are brought up to date, its time stays.
    worded = of(HOLDS, {**IN, "message": "else"})
    assert statuses.with_admitted_synced(worded, NOW_US)["status"]["conditions"] == [HOLDS, IN]
    explicit, _ = gates_from({"UnadmittedWorkloadsExplicitStatus": True})
    told = statuses.with_admitted_synced(of(), NOW_US, explicit)["status"]["conditions"]
    assert told == [admitted_condition("NoReservation")]


@pytest.mark.parametrize("status", [Status.SKIPPED, Status.PREEMPTION_GATED])
def test_pending(status: Status) -> None:
    head = Head(World(Case(queues=[], waiting=[wl("w", "a", 3)], want={})).heads()[0].workload, "a")
    outcome = Outcome(head, status, "no room", "WaitingForQuota", RequeueReason.NO_FIT, None, None)
    blocked = says("BlockedOnPreemptionGates", reason="PreemptionGated", message="no room", since=NOW)
    for gates, reason in ((DEFAULT_GATES, "WaitingForQuota"), (PLAIN, "Pending")):
        after = statuses.pending(of(), outcome, NOW_US, gates)["status"]
        assert after["resourceRequests"] == [{"name": "main", "resources": {"gpu": "3"}}]
        said = {c["type"]: c for c in after["conditions"]}
        assert said["QuotaReserved"] == says("QuotaReserved", "False", reason, "no room", NOW)
        assert said.get("BlockedOnPreemptionGates") == (
            blocked if status == Status.PREEMPTION_GATED else None
        )


def test_nothing_but_the_status_changes_and_that_in_a_copy() -> None:
    obj = {**of(HOLDS, IN, generation=3, admission={"clusterQueue": "a"}), "kind": "Workload"}
    before = deepcopy(obj)
    (head,) = World(Case(queues=[], waiting=[wl("by", "a", 1)], want={})).heads()
    eviction = Eviction(head.workload, "InClusterQueue", "m", head.workload)
    queue_facts = facts.cluster_queue(queue("a", 4))
    for gates in (DEFAULT_GATES, PLAIN):
        for changed in (
            statuses.without_quota(obj, "R", "m", NOW_US, gates),
            statuses.without_quota(of(generation=3) | {"kind": "Workload"}, "R", "m", NOW_US, gates),
            statuses.admitted(obj, {"clusterQueue": "a"}, queue_facts, NOW_US, gates),
            statuses.preempted(obj, eviction, NOW_US),
            statuses.evicted(obj, "Preempted", "m", NOW_US),
            statuses.finished(obj, "R", "m", NOW_US),
            statuses.slice_replaced(obj, head.workload, NOW_US),
            statuses.with_admitted_synced(obj, NOW_US, gates),
        ):
            assert {k: v for k, v in changed.items() if k != "status"} == {
                k: v for k, v in before.items() if k != "status"
            }
            said = {c["type"]: c for c in changed["status"]["conditions"]}
            assert {c.get("observedGeneration", 3) for k, c in said.items() if k not in ("Preempted",)} == {3}
    assert obj == before


@pytest.mark.parametrize(("known", "now"), [({}, 1), ({"count": 0}, 1), ({"count": 4}, 5)])
def test_an_eviction_that_was_counted_counts_one_more(known: Obj, now: int) -> None:
    entry = {"reason": "Preempted", "underlyingCause": "", **known}
    obj = of(HOLDS, schedulingStats={"evictions": [entry], "other": 1})
    stats = statuses.evicted(obj, "Preempted", "m", NOW_US)["status"]["schedulingStats"]
    assert stats == {"evictions": [{**entry, "count": now}], "other": 1}


@pytest.mark.parametrize(("known", "now"), [({}, 1), ({"retryCount": 0}, 1), ({"retryCount": 3}, 4)])
def test_a_check_that_is_to_be_tried_again_counts_it(known: Obj, now: int) -> None:
    check = {"name": "c", "state": "Retry", "message": "m", **known}
    (found,) = statuses.evicted(of(HOLDS, admissionChecks=[check]), "R", "m", NOW_US)["status"][
        "admissionChecks"
    ]
    assert (found["retryCount"], found["state"]) == (now, "Pending")


def test_both_priorities_are_told_of_who_preempts_and_who_goes() -> None:
    victim = workload_of(key="ns/v", uid="uv", priority=2, base_priority=5, cluster_queue="b")
    by = workload_of(key="ns/p", uid="up", priority=9, base_priority=3)
    ranks = "preemptor effective priority: 9 (base: 3, boost: 6); preemptee effective priority: 2 (base: 5, boost: -3)"
    told = eviction_events(Eviction(victim, "InClusterQueue", "why", by), "a")
    assert [tuple(e) for e in told] == [
        ("ns/v", "Normal", "EvictedDueToPreempted", "why"),
        ("ns/v", "Normal", "Preempted", f"why; {ranks}"),
        (
            "ns/p",
            "Normal",
            "PreemptedWorkload",
            f"Preempted workload ns/v (UID: uv) in ClusterQueue b; {ranks}",
        ),
    ]
    alone = eviction_events(Eviction(victim, "NodeFailures", "why"), "a")
    assert [tuple(e) for e in alone] == [("ns/v", "Normal", "EvictedDueToNodeFailures", "why")]


def test_what_is_asked_for_without_anything() -> None:
    obj = wl("w", "a", 1)
    obj["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] = {}
    found = World(Case(queues=[], waiting=[obj], want={})).heads()[0].workload
    assert statuses.resource_requests(found) == [{"name": "main"}]
