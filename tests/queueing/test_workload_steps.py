"""What Kueue does next about one Workload: a table of states, each with all that is written and told.

Source: pkg/controller/core/workload_controller.go Reconcile, as its steps say.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from queueworld import queue
from stepwords import NOW_US, ago, said, was

from fairway.cluster.actions import SetStatus
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.blockers import Blocker
from fairway.queueing.control.settings import KueueSettings, PodsReady
from fairway.queueing.control.workload import Surroundings, WorkloadDecision, reconcile_workload
from fairway.queueing.facts.gates import DEFAULT_GATES
from fairway.queueing.facts.objects import LocalQueue, cluster_queue

IN_USE = "kueue.x-k8s.io/resource-in-use"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
OWNED = {"ownerReferences": [{"name": "job", "uid": "j"}]}
OLD_GATES = replace(DEFAULT_GATES, unadmitted_workloads_observability=False)
QUICK = PodsReady(timeout_us=300 * SECOND_US, recovery_us=60 * SECOND_US)


def state(*conditions: Obj, meta: Obj = OWNED, spec: Obj | None = None, **status: Any) -> Obj:
    return {
        "kind": "Workload",
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "metadata": {"name": "w", "namespace": "ns", "uid": "u", **meta},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1}], **(spec or {})},
        "status": {"conditions": list(conditions), **status},
    }


def holds(*more: Obj, admitted_s: int | None = 100, **fields: Any) -> Obj:
    """It has quota, and is admitted unless `admitted_s` is None."""
    admission = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "flavors": {"gpu": "default"}}]}
    stands = [was("QuotaReserved", since_s=140)]
    stands += [] if admitted_s is None else [was("Admitted", since_s=admitted_s)]
    return state(*stands, *more, **{"admission": admission, **fields})


def check(name: str, state: str, **more: Any) -> Obj:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": ago(100), **more}


def look(obj: Obj, **around: Any) -> list[str]:
    found = decided(obj, **around)
    return said([obj], found.actions, found.again_at_us)


def decided(
    obj: Obj,
    *,
    settings: KueueSettings | None = None,
    lq: str | None = "None",
    cq: str | None = "None",
    going: bool = False,
    blocker: Blocker | None = None,
    checks: tuple[str, ...] = (),
) -> WorkloadDecision:
    spec = {"stopPolicy": cq, "admissionChecksStrategy": {"admissionChecks": [{"name": c} for c in checks]}}
    around = Surroundings(
        settings or KueueSettings(),
        None if lq is None else LocalQueue("ns/lq", "cq", 1.0, lq),
        None if cq is None else cluster_queue(queue("cq", gpu=8, spec=spec)),
        going,
        lambda _: blocker,
    )
    return reconcile_workload(obj, around, NOW_US)


FINISHED = was("Finished", reason="Succeeded", since_s=100)
GOING = {"deletionTimestamp": ago(5)}
OF_A_JOB = {"labels": {"kueue.x-k8s.io/job-uid": "j"}}
KEPT = {"finalizers": ["other", IN_USE]}
CASES: dict[str, tuple[Obj, dict[str, Any]]] = {
    # Without an owner
    "nobody's, and never was somebody's": (state(meta={}), {}),
    "its job is gone": (state(meta={**OF_A_JOB, **KEPT}), {}),
    "its job is gone, and it was over": (state(FINISHED, meta={**OF_A_JOB, **KEPT}), {}),
    "nobody's, and going": (state(meta={**GOING, "finalizers": [IN_USE]}), {}),
    "nobody's, going, not held": (state(meta={**GOING, "finalizers": ["other"]}), {}),
    "owned, and going": (state(meta={**OWNED, **GOING, **KEPT}), {}),
    # Over
    "over, kept for ever": (state(FINISHED), {}),
    "over, kept a while longer": (state(FINISHED), {"settings": KueueSettings(retained_us=101 * SECOND_US)}),
    "over, kept long enough": (
        state(FINISHED, meta={**OWNED, **KEPT}),
        {"settings": KueueSettings(retained_us=100 * SECOND_US)},
    ),
    "over, kept long enough, going": (
        state(FINISHED, meta={**OWNED, **KEPT, **GOING}),
        {"settings": KueueSettings(retained_us=SECOND_US)},
    ),
    # Times to try again
    "a check says when": (
        state(admissionChecks=[check("a", "Retry", requeueAfterSeconds=101)]),
        {"checks": ("a",)},
    ),
    "a check said when, and that is now": (
        state(admissionChecks=[check("a", "Retry", requeueAfterSeconds=100)]),
        {"checks": ("a",)},
    ),
    "a check says when, and it waits longer": (
        state(
            admissionChecks=[check("a", "Retry", requeueAfterSeconds=130)],
            requeueState={"count": 2, "requeueAt": ago(-31)},
        ),
        {"checks": ("a",)},
    ),
    "a check says when, and it waits as long": (
        state(
            admissionChecks=[check("a", "Retry", requeueAfterSeconds=130)],
            requeueState={"count": 2, "requeueAt": ago(-30)},
        ),
        {"checks": ("a",)},
    ),
    "a check says when, and it waits less": (
        state(
            admissionChecks=[check("a", "Retry", requeueAfterSeconds=130)],
            requeueState={"count": 2, "requeueAt": ago(-29)},
        ),
        {"checks": ("a",)},
    ),
    "its time has come": (state(requeueState={"count": 2, "requeueAt": ago(0)}), {}),
    "its time has come, with quota": (holds(requeueState={"count": 2, "requeueAt": ago(0)}), {}),
    "its time has not come": (holds(requeueState={"count": 2, "requeueAt": ago(-1)}), {}),
    # Active or not
    "to be deactivated": (state(was("DeactivationTarget", reason="X")), {}),
    "was to be deactivated": (state(was("DeactivationTarget", "False", reason="X")), {}),
    "active again": (state(was("Requeued", "False", "Deactivated")), {}),
    "backed off": (state(was("Requeued", "False", "PodsReadyTimeout")), {}),
    "backed off for a check": (state(was("Requeued", "False", "AdmissionCheck")), {}),
    "preempted": (state(was("Requeued", "False", "Preempted")), {}),
    "requeued": (state(was("Requeued", "True", "Deactivated")), {}),
    "deactivated": (holds(spec={"active": False}, requeueState={"count": 1}), {}),
    "deactivated for a reason": (
        holds(
            was("DeactivationTarget", reason="RequeuingLimitExceeded", message="too often"),
            spec={"active": False},
        ),
        {},
    ),
    "deactivated, without quota": (state(spec={"active": False}), {}),
    "deactivated, evicted": (holds(was("Evicted"), spec={"active": False}), {}),
    "deactivated, evicted, counted": (
        holds(was("Evicted"), was("DeactivationTarget"), spec={"active": False}, requeueState={"count": 1}),
        {},
    ),
    # Queues that go on
    "its LocalQueue goes on": (state(was("Requeued", "False", "LocalQueueStopped")), {}),
    "its LocalQueue went on": (state(was("Requeued", "True", "LocalQueueStopped")), {}),
    "its LocalQueue still stands": (state(was("Requeued", "False", "LocalQueueStopped")), {"lq": "Hold"}),
    "its LocalQueue is gone": (state(was("Requeued", "False", "LocalQueueStopped")), {"lq": None}),
    "its ClusterQueue goes on": (state(was("Requeued", "False", "ClusterQueueStopped")), {}),
    "its ClusterQueue still stands": (
        state(was("Requeued", "False", "ClusterQueueStopped")),
        {"cq": "HoldAndDrain"},
    ),
    "its ClusterQueue goes on, its LocalQueue is gone": (
        state(was("Requeued", "False", "ClusterQueueStopped")),
        {"lq": None},
    ),
    # Gates
    "gated": (state(meta={**OWNED, "annotations": {GATED_BY: "team"}}), {}),
    "gated and told": (
        state(
            was("QuotaReserved", "False", "AdmissionGated"),
            was("Admitted", "False"),
            meta={**OWNED, "annotations": {GATED_BY: "team"}},
        ),
        {},
    ),
    "no longer gated": (state(was("QuotaReserved", "False", "AdmissionGated")), {}),
    "no longer gated, in old words": (
        state(was("QuotaReserved", "False", "AdmissionGated")),
        {"settings": KueueSettings(gates=OLD_GATES)},
    ),
    "gated, gate off": (
        state(meta={**OWNED, "annotations": {GATED_BY: "team"}}),
        {"settings": KueueSettings(gates=replace(DEFAULT_GATES, admission_gated_by=False))},
    ),
    # Checks that come and go
    "its queue has checks": (state(), {"checks": ("b", "a")}),
    "its queue has one check fewer": (
        state(admissionChecks=[check("a", "Ready"), check("b", "Ready")]),
        {"checks": ("b",)},
    ),
    "its queue has no checks any more": (state(admissionChecks=[check("a", "Ready")]), {}),
    "its queue has these checks": (state(admissionChecks=[check("a", "Pending")]), {"checks": ("a",)}),
    # Without admission
    "something stands in its way": (state(), {"blocker": Blocker("Misconfigured", "no queue")}),
    "something stands in its way, as before": (
        state(
            was("QuotaReserved", "False", "Misconfigured", message="no queue"),
            was("Admitted", "False", "NoReservation", message="The workload has no reservation"),
        ),
        {"blocker": Blocker("Misconfigured", "no queue")},
    ),
    "with quota nothing stands in its way": (
        holds(admitted_s=None, admissionChecks=[check("a", "Pending")]),
        {"blocker": Blocker("Misconfigured", "no queue"), "checks": ("a",)},
    ),
    "its checks are ready": (
        holds(admitted_s=None, admissionChecks=[check("a", "Ready")]),
        {"checks": ("a",)},
    ),
    # With quota: checks
    "rejected": (
        holds(admitted_s=None, admissionChecks=[check("a", "Rejected", message="no")]),
        {"checks": ("a",)},
    ),
    "rejected, and evicted": (
        holds(was("Evicted"), admissionChecks=[check("a", "Rejected")]),
        {"checks": ("a",)},
    ),
    "to be retried": (holds(admissionChecks=[check("a", "Retry", retryCount=3)]), {"checks": ("a",)}),
    # With quota: queues that stop
    "admitted, LocalQueue holds": (holds(), {"lq": "Hold"}),
    "admitted, LocalQueue drains": (holds(), {"lq": "HoldAndDrain"}),
    "evicted, LocalQueue drains": (holds(was("Evicted")), {"lq": "HoldAndDrain"}),
    "admitted, LocalQueue gone": (holds(), {"lq": None}),
    "reserved, LocalQueue holds": (
        holds(admitted_s=None, admissionChecks=[check("a", "Pending")]),
        {"lq": "Hold", "checks": ("a",)},
    ),
    "reserved, LocalQueue gone": (
        holds(admitted_s=None, admissionChecks=[check("a", "Pending")]),
        {"lq": None},
    ),
    "admitted, ClusterQueue holds": (holds(), {"cq": "Hold"}),
    "admitted, ClusterQueue drains": (holds(), {"cq": "HoldAndDrain"}),
    "evicted, ClusterQueue drains": (holds(was("Evicted")), {"cq": "HoldAndDrain"}),
    "admitted, ClusterQueue going": (holds(), {"going": True}),
    "reserved, ClusterQueue holds": (
        holds(admitted_s=None, admissionChecks=[check("a", "Pending")]),
        {"cq": "Hold", "checks": ("a",)},
    ),
    "reserved, ClusterQueue going": (
        holds(admitted_s=None, admissionChecks=[check("a", "Pending")]),
        {"going": True, "checks": ("a",)},
    ),
    "reserved, ClusterQueue gone": (
        holds(admitted_s=None, admissionChecks=[check("a", "Pending")]),
        {"cq": None},
    ),
    "reserved, in old words": (
        holds(admitted_s=None, admissionChecks=[check("a", "Pending")]),
        {"cq": "Hold", "checks": ("a",), "settings": KueueSettings(gates=OLD_GATES)},
    ),
    # With quota: pods that are not ready
    "pods may take a second more": (holds(admitted_s=299), {"settings": KueueSettings(pods_ready=QUICK)}),
    "pods took too long": (holds(admitted_s=300), {"settings": KueueSettings(pods_ready=QUICK)}),
    "pods are not watched": (holds(admitted_s=300), {"settings": KueueSettings(pods_ready=None)}),
    "pods are ready": (
        holds(was("PodsReady", "True", "Started"), admitted_s=300),
        {"settings": KueueSettings(pods_ready=QUICK)},
    ),
    "pods wait for a start": (
        holds(was("PodsReady", "False", "WaitForStart", since_s=10), admitted_s=200),
        {"settings": KueueSettings(pods_ready=QUICK)},
    ),
    "pods recover": (
        holds(was("PodsReady", "False", "WaitForRecovery", since_s=59), admitted_s=900),
        {"settings": KueueSettings(pods_ready=QUICK)},
    ),
    "pods did not recover": (
        holds(was("PodsReady", "False", "WaitForRecovery", since_s=60), admitted_s=900),
        {"settings": KueueSettings(pods_ready=QUICK)},
    ),
    "pods may recover for ever": (
        holds(was("PodsReady", "False", "WaitForRecovery", since_s=60), admitted_s=900),
        {"settings": KueueSettings(pods_ready=replace(QUICK, recovery_us=None))},
    ),
    "pods took too long, the second time": (
        holds(admitted_s=300, requeueState={"count": 1}),
        {"settings": KueueSettings(pods_ready=replace(QUICK, backoff_limit=2))},
    ),
    "pods took too long, once too often": (
        holds(admitted_s=300, requeueState={"count": 2}),
        {"settings": KueueSettings(pods_ready=replace(QUICK, backoff_limit=2))},
    ),
    "pods took too long, the wait has a limit": (
        holds(admitted_s=300, requeueState={"count": 60}),
        {"settings": KueueSettings(pods_ready=QUICK)},
    ),
    "pods took too long, evicted": (
        holds(was("Evicted"), admitted_s=300),
        {"settings": KueueSettings(pods_ready=QUICK)},
    ),
    # With quota: time to run
    "may run a second longer": (
        holds(
            admitted_s=89, spec={"maximumExecutionTimeSeconds": 100}, accumulatedPastExecutionTimeSeconds=10
        ),
        {"settings": KueueSettings(pods_ready=None)},
    ),
    "ran as long as it may": (
        holds(
            admitted_s=90, spec={"maximumExecutionTimeSeconds": 100}, accumulatedPastExecutionTimeSeconds=10
        ),
        {"settings": KueueSettings(pods_ready=None)},
    ),
    "may run, or not be ready, no longer than the earlier": (
        holds(admitted_s=90, spec={"maximumExecutionTimeSeconds": 100}),
        {"settings": KueueSettings(pods_ready=QUICK)},
    ),
    # The rest of its status
    "something stands in its way, counted": (
        state(requeueState={"count": 2}, admissionChecks=[check("a", "Pending")]),
        {"blocker": Blocker("Misconfigured", "no queue"), "checks": ("a",)},
    ),
    "evicted and deactivated, and out of time": (
        holds(was("Evicted"), spec={"active": False, "maximumExecutionTimeSeconds": 50}),
        {},
    ),
    "evicted and deactivated for its time, and out of it": (
        holds(
            was("Evicted"),
            was("DeactivationTarget"),
            spec={"active": False, "maximumExecutionTimeSeconds": 50},
        ),
        {},
    ),
    "pods took too long, its wait is over": (
        holds(admitted_s=300, requeueState={"count": 1, "requeueAt": ago(7), "x": 1}),
        {"settings": KueueSettings(pods_ready=QUICK)},
    ),
}
WANT: dict[str, list[str]] = yaml.safe_load(
    (Path(__file__).parent / "workload_steps.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES)
def test_what_is_done_next(case: str) -> None:
    obj, around = CASES[case]
    assert look(obj, **around) == WANT[case]


def _observed(case: tuple[Obj, dict[str, Any]], generation: int | None) -> set[int | None]:
    """The generations that its conditions tell, of those that are written anew."""
    obj, around = case
    if generation is not None:
        obj = {**obj, "metadata": {**obj["metadata"], "generation": generation}}
    before = obj["status"]["conditions"]
    written = [a.status for a in decided(obj, **around).actions if isinstance(a, SetStatus)]
    return {
        c.get("observedGeneration") for s in written for c in s.get("conditions") or () if c not in before
    }


def test_conditions_tell_of_which_generation_they_are() -> None:
    told = [case for case in CASES if _observed(CASES[case], None)]
    assert len(told) > 20
    for case in told:
        assert _observed(CASES[case], None) == {None}, case
        assert _observed(CASES[case], 3) == {3}, case


def test_every_state_is_told_what_comes_of_it() -> None:
    assert list(CASES) == list(WANT)
