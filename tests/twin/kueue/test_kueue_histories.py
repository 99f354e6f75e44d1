"""What Workloads say of themselves through a history: the words are read from Kueue's source, named at each group."""

from __future__ import annotations

from typing import Any

import pytest
from kueuehistory import History
from kueueworld import GPU, KUEUE, flavor, job, local_queue, node, priority_class, queue

from fairway.kube.objects import Obj

RECLAIM = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
NO_RESERVATION = "False NoReservation: The workload has no reservation"
NOT_READY = "False WaitForStart: Not all pods are ready or succeeded"


def unused(gpus: int, flavor_name: str = "default") -> str:
    return (
        "False WaitingForQuota: couldn't assign flavors to pod set main: "
        f"insufficient unused quota for {GPU} in flavor {flavor_name}, {gpus} more needed"
    )


def beyond(asked: int, most: int) -> str:
    return (
        "False ExceedsMaxQuota: couldn't assign flavors to pod set main: "
        f"insufficient quota for {GPU} in flavor default, previously considered podsets requests (0) "
        f"+ current podset request ({asked}) > maximum capacity ({most})"
    )


def begun(*objects: Obj, configuration: Obj | None = None) -> History:
    """Two nodes with 16 GPUs each, the default flavor, a LocalQueue `lq` for each of the queues given."""
    history = History(configuration)
    names = [o["metadata"]["name"] for o in objects if o["kind"] == "ClusterQueue"]
    spaces: list[Obj] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in names]
    return history.step(
        *spaces, flavor("default"), node("n1", 16), node("n2", 16), *objects, *map(local_queue, names)
    )


# Queues that are missing, stopped or misconfigured.
# Source: workload_controller.go getQueueBlocker, reconcileOnLocalQueueActiveState; workload.go AdjustResources.


def test_each_missing_piece_is_named_in_turn() -> None:
    history = History().step(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        node("n1", 8),
        job("train", "a"),
    )
    wanted = "False Misconfigured: LocalQueue lq doesn't exist"
    # Nothing of Kueue's is there yet: the first of its objects wakes it.
    history.step(flavor("other"))
    assert history.said("train")["QuotaReserved"] == wanted
    history.step(local_queue("a"))
    assert history.said("train")["QuotaReserved"] == "False Misconfigured: ClusterQueue a doesn't exist"
    history.step(queue("a", 4))
    assert history.said("train") == {
        "Admitted": NO_RESERVATION,
        "PodsReady": NOT_READY,
        "QuotaReserved": "False Suspended: ClusterQueue a is inactive",
    }
    history.step(flavor("default"))
    assert history.admitted() == ["train"]


@pytest.mark.parametrize(
    ("kind", "namespace", "said"),
    [
        ("LocalQueue", "a", "LocalQueue lq is inactive"),
        ("ClusterQueue", "default", "ClusterQueue a is inactive"),
    ],
)
def test_a_held_queue_keeps_who_runs_and_stops_who_waits(kind: str, namespace: str, said: str) -> None:
    history = begun(queue("a", 4)).step(job("runs", "a", gpus=4), job("waits", "a", gpus=4))
    name = "lq" if kind == "LocalQueue" else "a"
    history.patch(kind, name, namespace, spec={"stopPolicy": "Hold"})
    assert history.admitted() == ["runs"]
    assert history.said("waits")["QuotaReserved"] == f"False Suspended: {said}"
    history.patch(kind, name, namespace, spec={"stopPolicy": "HoldAndDrain"})
    assert history.said("runs") == {
        "Admitted": NO_RESERVATION,
        "Evicted": f"True {kind}Stopped: The {kind} is stopped",
        "PodsReady": NOT_READY,
        "QuotaReserved": f"False Suspended: {said}",
        "Requeued": f"False {kind}Stopped: The {kind} is stopped",
    }
    history.patch(kind, name, namespace, spec={"stopPolicy": "None"})
    assert history.admitted() == ["runs"]
    restarted = f"True {kind}Restarted: The {kind} was restarted after being stopped"
    assert history.said("runs")["Requeued"] == restarted
    assert history.said("runs")["Evicted"] == f"False QuotaReserved: Previously: The {kind} is stopped"


def test_a_namespace_that_gets_the_label_is_served() -> None:
    selector = {"matchLabels": {"serves": "yes"}}
    history = begun(queue("a", 4, namespaceSelector=selector)).step(job("train", "a"))
    wanted = "False Misconfigured: workload namespace doesn't match ClusterQueue selector"
    assert history.said("train")["QuotaReserved"] == wanted
    history.do(
        ("patch", {"kind": "Namespace", "metadata": {"name": "a", "labels": {"serves": "yes"}}}),
    )
    assert history.admitted() == ["train"]


def test_a_limit_range_can_make_a_job_inadmissible() -> None:
    limits = {"type": "Container", "default": {GPU: "2"}, "max": {GPU: "3"}}
    ranges = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "r", "namespace": "a"},
        "spec": {"limits": [limits]},
    }
    history = begun(ranges, queue("a", 8)).step(job("train", "a", gpus=4))
    assert history.said("train")["QuotaReserved"].startswith(
        "False Misconfigured: resources didn't satisfy LimitRange constraints: "
    )


# Quota that changes. Source: clusterqueue_controller.go, flavorassigner.go fitsResourceQuota.


def test_usage_above_a_smaller_quota_stays_and_blocks() -> None:
    history = begun(queue("a", 8)).step(job("one", "a", gpus=4), job("two", "a", gpus=4))
    history.step(queue("a", 4)).step(job("late", "a", gpus=1))
    assert history.admitted() == ["one", "two"]
    assert history.said("late")["QuotaReserved"] == unused(1)
    assert history.seen["clusterQueues"]["a"]["usage"]["default"][GPU] == {"borrowed": "0", "total": "8"}


def test_a_queue_that_joins_a_cohort_may_borrow() -> None:
    history = begun(queue("a", 4, cohort="all"), queue("b", 8, cohort="other"))
    history.step(job("train", "a", gpus=8))
    assert history.said("train")["QuotaReserved"] == beyond(8, 4)
    history.step(queue("a", 4, cohort="other"))
    assert history.admitted() == ["train"]
    assert history.seen["clusterQueues"]["a"]["usage"]["default"][GPU] == {"borrowed": "4", "total": "8"}


def test_cohorts_in_a_cycle_admit_nobody_until_it_is_broken() -> None:
    """Source: snapshot.go skipInactiveCQReason (HasCycle): the queue counts as active, and nothing is tried."""

    def cohort(name: str, **spec: str) -> Obj:
        return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}

    history = begun(queue("a", 4, cohort="x"), cohort("x", parentName="y"), cohort("y", parentName="x"))
    history.step(job("train", "a"))
    assert history.admitted() == []
    history.step(cohort("y"))
    assert history.admitted() == ["train"]


def test_a_queue_that_came_into_a_cycle_is_read_again_only_when_it_changes() -> None:
    """Source: clusterqueue.go updateClusterQueue returns before it sets the status; recorded from Kueue."""

    def cohort(name: str, **spec: str) -> Obj:
        return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}

    history = begun(cohort("x", parentName="y"), cohort("y", parentName="x"), queue("a", 4, cohort="x"))
    history.step(job("train", "a")).step(cohort("y"))
    assert history.said("train")["QuotaReserved"] == "False Suspended: ClusterQueue a is inactive"
    history.step(queue("a", 5, cohort="x"))
    assert history.admitted() == ["train"]


def test_what_runs_in_a_stopped_queue_is_nobodys_victim() -> None:
    """Source: snapshot.go: queues that are not active are not in the snapshot, but what they use is counted."""
    history = begun(queue("a", 4, cohort="all", preemption=RECLAIM), queue("b", 4, cohort="all"))
    history.step(job("wide", "b", gpus=8))
    history.patch("ClusterQueue", "b", spec={"stopPolicy": "Hold"})
    history.step(job("mine", "a", gpus=4))
    assert history.admitted() == ["wide"]
    assert history.said("mine")["QuotaReserved"] == unused(4)
    history.patch("ClusterQueue", "b", spec={"stopPolicy": "None"})
    assert history.admitted() == ["mine"]


# Preemption. Source: preemption_policy.go, preemption/common, preemption.go preemptionMessage.


def test_hierarchical_cohorts_give_back_what_a_far_queue_borrowed() -> None:
    def cohort(name: str, parent: str = "", gpus: int = 0) -> Obj:
        spec: dict[str, Any] = {"parentName": parent} if parent else {}
        if gpus:
            spec["resourceGroups"] = queue("x", gpus)["spec"]["resourceGroups"]
        return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}

    history = begun(
        cohort("root", gpus=4),
        cohort("left", "root"),
        cohort("right", "root"),
        queue("a", 4, cohort="left", preemption=RECLAIM),
        queue("b", 4, cohort="right", preemption=RECLAIM),
    )
    history.step(*[job(f"b{i}", "b", gpus=4) for i in range(3)]).step(job("a0", "a", gpus=4))
    why = (
        "Preempted to accommodate a workload (UID: …) due to reclamation within the cohort; "
        "preemptor path: /root/left/a; preemptee path: /root/right/b"
    )
    assert history.said("b2") == {
        "Admitted": NO_RESERVATION,
        "Evicted": f"True Preempted: {why}",
        "PodsReady": NOT_READY,
        "Preempted": f"True InCohortReclamation: {why}",
        "QuotaReserved": unused(4),
        "Requeued": f"True Preempted: {why}",
    }
    history.step(job("huge", "b", gpus=13))
    assert history.said("huge")["QuotaReserved"] == beyond(13, 12)


def test_borrowing_preempts_only_below_the_threshold() -> None:
    borrow = {"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 50}}
    classes = [priority_class("high", 1000), priority_class("mid", 100), priority_class("low", 10)]
    history = begun(
        *classes,
        queue("a", 4, cohort="all", preemption={**RECLAIM, **borrow}),
        queue("b", 4, cohort="all"),
        queue("c", 4, cohort="all"),
    )
    history.step(
        job("low0", "b", gpus=4, priority="low"),
        job("mid", "b", gpus=4, priority="mid"),
        job("low1", "b", gpus=4, priority="low"),
    )
    history.step(job("urgent", "a", gpus=8, priority="high"))
    assert history.admitted() == ["mid", "urgent"]
    assert history.said("low0")["Preempted"] == (
        "True InCohortReclaimWhileBorrowing: Preempted to accommodate a workload (UID: …) due to reclamation "
        "within the cohort while borrowing; preemptor path: /all/a; preemptee path: /all/b"
    )


FUNGIBILITY = [
    ("MayStopSearch", "MayStopSearch", "f1"),
    ("MayStopSearch", "TryNextFlavor", "f1"),
    ("TryNextFlavor", "MayStopSearch", "f2"),
    ("TryNextFlavor", "TryNextFlavor", "f2"),
]


@pytest.mark.parametrize(("borrow", "preempt", "wanted"), FUNGIBILITY)
def test_borrowing_in_one_flavor_or_fitting_in_the_next(borrow: str, preempt: str, wanted: str) -> None:
    """Source: flavorassigner.go shouldTryNextFlavor."""
    flavors = [{"name": f, "resources": [{"name": GPU, "nominalQuota": "4"}]} for f in ("f1", "f2")]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    policy = {"whenCanBorrow": borrow, "whenCanPreempt": preempt}

    def both(name: str) -> Obj:
        return queue(name, 0, cohort="all", resourceGroups=groups, flavorFungibility=policy)

    history = begun(flavor("f1"), flavor("f2"), both("a"), both("b"))
    history.step(job("one", "a", gpus=4)).step(job("two", "a", gpus=4))
    assert (history.flavors("one"), history.flavors("two")) == (["f1"], [wanted])


def test_a_new_value_of_a_priority_class_moves_who_waits() -> None:
    """Source: workloadpriorityclass_controller.go."""
    history = begun(priority_class("low", 1), priority_class("high", 100), queue("a", 4))
    history.step(job("runs", "a", gpus=4), job("first", "a", gpus=4, priority="high"))
    history.step(job("second", "a", gpus=4, priority="low")).step(priority_class("low", 5000))
    assert history.workload("second")["priority"] == 5000
    history.do(("delete", job("runs", "a")))
    assert history.admitted() == ["second"]


# Pods that do not become ready. Source: workload_controller.go reconcileNotReadyTimeout, triggerDeactivation.


def test_pods_that_never_start_are_requeued_and_then_given_up() -> None:
    requeuing = {"backoffLimitCount": 1, "backoffBaseSeconds": 3}
    history = begun(
        queue("a", 64), configuration={"waitForPodsReady": {"timeout": "8s", "requeuingStrategy": requeuing}}
    )
    history.step(job("big", "a", gpus=32), wait=14)
    # Its Workload's name, which depends on a UID, is part of the message.
    previously = history.said("big")["Evicted"]
    assert previously.startswith("False QuotaReserved: Previously: Exceeded the PodsReady timeout a/job-big-")
    assert history.said("big")["Requeued"] == "True BackoffFinished: The workload backoff was finished"
    assert history.workload("big")["requeueCount"] == 1
    history.step(wait=10)
    assert not history.workload("big")["active"]
    cause = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    assert history.said("big") == {
        "Admitted": NO_RESERVATION,
        "Evicted": f"True DeactivatedDueToRequeuingLimitExceeded: {cause}",
        "PodsReady": NOT_READY,
        "QuotaReserved": "False Deactivated: The workload is deactivated",
        "Requeued": f"False DeactivatedDueToRequeuingLimitExceeded: {cause}",
    }


def test_admission_is_blocked_until_pods_are_ready() -> None:
    """Source: scheduler.go waitForPodsReadyIfBlocked."""
    history = begun(
        queue("a", 64), configuration={"waitForPodsReady": {"timeout": "5m", "blockAdmission": True}}
    )
    history.step(job("big", "a", gpus=32), job("small", "a"))
    assert history.said("small")["QuotaReserved"] == (
        "False WaitingForPodsReady: waiting for all admitted workloads to be in PodsReady condition"
    )


def test_a_failing_job_waits_for_recovery_and_fails() -> None:
    """Source: jobframework/reconciler.go generatePodsReadyCondition, jobs/job Finished."""
    train = job("train", "a", template_annotations={"rec/seconds": "3", "rec/exit": "1"})
    del train["spec"]["template"]["metadata"]["annotations"]["fairway.dev/run-time"]
    train["spec"]["backoffLimit"] = 1
    history = begun(queue("a", 4)).step(train)
    assert history.said("train")["PodsReady"] == (
        "False WaitForRecovery: At least one pod has failed, waiting for recovery"
    )
    history.step(wait=30)
    assert history.said("train")["Finished"] == "True Failed: Job has reached the specified backoff limit"
    assert history.job("train")["failed"] == 2
    assert history.seen["clusterQueues"]["a"]["admitted"] == 0


# Deactivation and checks. Source: workload_controller.go Reconcile, reconcileCheckBasedEviction.


def test_a_workload_goes_by_its_jobs_name_where_it_is_deactivated() -> None:
    history = begun(queue("a", 4)).step(job("train", "a"))
    history.patch("Workload", "job-train-00000", "a", spec={"active": False})
    why = "The workload is deactivated"
    assert history.said("train") == {
        "Admitted": NO_RESERVATION,
        "Evicted": f"True Deactivated: {why}",
        "PodsReady": NOT_READY,
        "QuotaReserved": f"False Deactivated: {why}",
        "Requeued": f"False Deactivated: {why}",
    }
    history.patch("Workload", "train", "a", spec={"active": True})
    assert history.admitted() == ["train"]
    assert history.said("train")["Requeued"] == "True Reactivated: The workload was reactivated"


def test_too_long_a_run_deactivates_and_the_mark_stays() -> None:
    """The controller looks once more while quota is still held, and marks it a second time."""
    labels = {"kueue.x-k8s.io/max-exec-time-seconds": "5"}
    history = begun(queue("a", 4)).step(job("train", "a", labels=labels), wait=8)
    why = "exceeding the maximum execution time"
    said = history.said("train")
    assert said["Evicted"] == (
        f"True DeactivatedDueToMaximumExecutionTimeExceeded: The workload is deactivated due to {why}"
    )
    assert said["DeactivationTarget"] == f"True MaximumExecutionTimeExceeded: {why}"


def _checked() -> History:
    check = {
        "apiVersion": KUEUE,
        "kind": "AdmissionCheck",
        "metadata": {"name": "check"},
        "spec": {"controllerName": "example.com/nobody"},
    }
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    strategy = {"admissionChecks": [{"name": "check"}]}
    history = begun(check, queue("a", 4, admissionChecksStrategy=strategy))
    history.do(("status", {**check, "status": {"conditions": [active]}}))
    return history.step(job("train", "a"))


CHECKED: list[tuple[str, str, dict[str, str]]] = [
    ("Ready", "", {"Admitted": "True Admitted: The workload is admitted"}),
    (
        "Rejected",
        "no capacity",
        {
            "Evicted": "True DeactivatedDueToAdmissionCheck: The workload is deactivated due to "
            'AdmissionCheck in Rejected state: "check" (no capacity)',
            "QuotaReserved": "False Deactivated: The workload is deactivated",
        },
    ),
    (
        "Retry",
        "later",
        {
            "Admitted": "False UnsatisfiedAdmissionChecks: The workload has not all checks ready",
            "Evicted": "False QuotaReserved: Previously: Evicted due to "
            'AdmissionCheck in Retry state: "check" (later)',
            "Requeued": "True BackoffFinished: The workload backoff was finished",
        },
    ),
]


@pytest.mark.parametrize(("state", "message", "wanted"), CHECKED, ids=[c[0] for c in CHECKED])
def test_what_a_check_says_decides(state: str, message: str, wanted: dict[str, str]) -> None:
    history = _checked()
    before = "False UnsatisfiedAdmissionChecks: The workload has not all checks ready"
    assert history.said("train")["Admitted"] == before
    answer = {"name": "check", "state": state, "message": message}
    history.patch("Workload", "train", "a", status={"admissionChecks": [answer]})
    assert {kind: history.said("train")[kind] for kind in wanted} == wanted


# Configuration. Source: workload.go (transformations), flavorassigner.go.


def test_transformed_resources_count_beside_the_original() -> None:
    rule = {"input": GPU, "strategy": "Retain", "outputs": {"credits": "3"}}
    quotas = [{"name": "credits", "nominalQuota": "10"}, {"name": GPU, "nominalQuota": "8"}]
    groups = [{"coveredResources": ["credits", GPU], "flavors": [{"name": "default", "resources": quotas}]}]
    history = begun(
        queue("a", 0, resourceGroups=groups), configuration={"resources": {"transformations": [rule]}}
    )
    history.step(job("one", "a", gpus=2), job("two", "a", gpus=2))
    assert history.workload("one")["admission"][0]["resourceUsage"] == {GPU: "2", "credits": "6"}
    assert history.said("two")["QuotaReserved"].endswith(
        "insufficient unused quota for credits in flavor default, 2 more needed"
    )


# What is refused on the way in. Source: Kubernetes' validation; Kueue's webhooks and CRDs.


def test_what_the_api_server_refuses_is_refused_in_its_words() -> None:
    wrong = job("wrong", "a")
    wrong["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "2"},
        "limits": {"cpu": "1"},
    }
    history = begun(queue("a", 4)).step(wrong)
    assert history.refused == [
        'Job.batch "wrong" is invalid: spec.template.spec.containers[0].resources.requests: '
        'Invalid value: "2": must be less than or equal to cpu limit of 1'
    ]


def test_rules_on_objects_are_refused_without_the_object() -> None:
    """Source: apiextensions-apiserver schema/cel/validation.go since 1.34: OmitValueType for objects and lists."""
    history = History().step(queue("a", 4, quota={"borrowingLimit": "1"}))
    assert history.refused == [
        'ClusterQueue.kueue.x-k8s.io "a" is invalid: '
        "spec: Invalid value: borrowingLimit must be nil when cohort is empty"
    ]


# Elastic jobs. Source: workloadslicing.go, elasticjobs/elastic_job_ungater.go.


def test_pods_of_an_elastic_job_start_as_far_as_its_slice_goes() -> None:
    elastic = job("train", "a", pods=2, annotations={"kueue.x-k8s.io/elastic-job": "true"})
    elastic["spec"]["completions"] = 10
    history = begun(queue("a", 4)).step(elastic)
    assert history.bound("a/train") == 2
    history.patch("Job", "train", "a", spec={"parallelism": 4})
    assert history.bound("a/train") == 4
    # Two more would need a slice of six, which waits: what runs goes on, the rest stays behind the gate.
    history.patch("Job", "train", "a", spec={"parallelism": 6})
    assert (history.job("train")["active"], history.bound("a/train")) == (6, 4)
    history.step(queue("a", 6))
    assert history.bound("a/train") == 6
    assert history.seen["clusterQueues"]["a"]["usage"]["default"][GPU]["total"] == "6"
