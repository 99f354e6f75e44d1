"""All samples of an event, and all gauges of a world: no more and no fewer than those."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from queueworld import workload_of

from fairway.cluster.store import Store
from fairway.kube.labels import label_selector
from fairway.kube.metricfamilies import Sample
from fairway.kube.objects import Key
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.control.settings import Metrics
from fairway.queueing.cycle.entries import (
    CycleOutcome,
    Head,
    Outcome,
    Recomputation,
    RequeueReason,
    Status,
)
from fairway.queueing.metrics.gauges import gauges
from fairway.queueing.metrics.observing import of_cycle, of_preemption, of_replacement, of_workload

Obj = dict[str, Any]
_GROUP = "kueue.x-k8s.io/v1beta2"
_MADE, _NOW = "2026-01-01T00:00:00Z", parse_rfc3339("2026-01-01T00:01:00Z")
_OWN = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
_PODS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}


def _at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def _is(kind: str, second: int, reason: str = "R", status: str = "True") -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": _at(second),
    }


def _workload(*conditions: Obj, priority: Obj | None = _OWN, queue: str = "cq", **status: Any) -> Obj:
    spec: Obj = {"queueName": "lq", **({"priorityClassRef": priority} if priority else {})}
    admission = {"admission": {"clusterQueue": queue, "podSetAssignments": []}} if queue else {}
    return {
        "apiVersion": _GROUP,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "team", "creationTimestamp": _MADE},
        "spec": spec,
        "status": {"conditions": list(conditions), **admission, **status},
    }


RESERVED, ADMITTED, READY = _is("QuotaReserved", 20), _is("Admitted", 35), _is("PodsReady", 50)
NOT_READY = _is("PodsReady", 50, status="False")
GONE = _is("QuotaReserved", 55, "Pending", "False")
REQUEUED = _is("Requeued", 10)
EVICTED = _is("Evicted", 45, "Preempted")
DEACTIVATED = _is("Evicted", 45, "DeactivatedDueToRequeuingLimitExceeded")
FINISHED = _is("Finished", 59, "Succeeded")


def _twice(name: str, value: float, *labels: str, priority: str = "high") -> list[tuple[Any, ...]]:
    rest = (*labels, priority, "leader")
    return [
        (f"kueue_{name}", ("cq", *rest), value),
        (f"kueue_local_queue_{name}", ("lq", "team", *rest), value),
    ]


def _stats(*entries: tuple[str, str | None, int]) -> Obj:
    said = [
        {"reason": r, "count": n, **({} if cause is None else {"underlyingCause": cause})}
        for r, cause, n in entries
    ]
    return {"schedulingStats": {"evictions": said}}


EVENTS: dict[str, tuple[Obj | None, Obj, list[tuple[Any, ...]]]] = {
    "made": (None, _workload(queue=""), []),
    "quota": (
        _workload(queue=""),
        _workload(RESERVED),
        [
            *_twice("quota_reserved_workloads_total", 1),
            *_twice("quota_reserved_wait_time_seconds", 60),
        ],
    ),
    "quota, requeued once": (
        _workload(REQUEUED, queue=""),
        _workload(REQUEUED, RESERVED, priority=None),
        [
            *_twice("quota_reserved_workloads_total", 1, priority=""),
            *_twice("quota_reserved_wait_time_seconds", 50, priority=""),
        ],
    ),
    "admitted, with a class of pods": (
        _workload(RESERVED),
        _workload(RESERVED, ADMITTED, priority=_PODS),
        [
            *_twice("admitted_workloads_total", 1, priority=""),
            *_twice("admission_wait_time_seconds", 60, priority=""),
            *_twice("admission_checks_wait_time_seconds", 40, priority=""),
            ("kueue_cohort_subtree_admitted_workloads_total", ("near", "", "leader"), 1),
            ("kueue_cohort_subtree_admitted_workloads_total", ("far", "", "leader"), 1),
        ],
    ),
    "ready": (
        _workload(RESERVED, ADMITTED, NOT_READY),
        _workload(RESERVED, ADMITTED, READY),
        [
            *_twice("ready_wait_time_seconds", 60),
            *_twice("admitted_until_ready_wait_time_seconds", 25),
        ],
    ),
    "ready, and not admitted": (_workload(RESERVED), _workload(RESERVED, READY), []),
    "evicted before its pods were ready": (
        _workload(RESERVED, ADMITTED, NOT_READY),
        _workload(RESERVED, ADMITTED, NOT_READY, EVICTED),
        [
            *_twice("evicted_workloads_total", 1, "Preempted", ""),
            ("kueue_evicted_workloads_once_total", ("cq", "Preempted", "", "high", "leader"), 1),
        ],
    ),
    "evicted when they were": (
        _workload(RESERVED, ADMITTED, READY),
        _workload(RESERVED, ADMITTED, READY, EVICTED),
        [
            *_twice("evicted_workloads_total", 1, "Preempted", ""),
            ("kueue_evicted_workloads_once_total", ("cq", "Preempted", "", "high", "leader"), 1),
            ("kueue_pods_ready_to_evicted_time_seconds", ("cq", "Preempted", "", "leader"), 10),
        ],
    ),
    "evicted for the first time, as its statistics say": (
        _workload(RESERVED),
        _workload(RESERVED, EVICTED, **_stats(("Preempted", "Other", 7), ("Preempted", None, 1))),
        [
            *_twice("evicted_workloads_total", 1, "Preempted", ""),
            ("kueue_evicted_workloads_once_total", ("cq", "Preempted", "", "high", "leader"), 1),
        ],
    ),
    "evicted for the second": (
        _workload(RESERVED),
        _workload(
            RESERVED,
            DEACTIVATED,
            **_stats(("Deactivated", "", 1), ("Deactivated", "RequeuingLimitExceeded", 2)),
        ),
        _twice("evicted_workloads_total", 1, "Deactivated", "RequeuingLimitExceeded"),
    ),
    "quota released after an eviction": (
        _workload(RESERVED, DEACTIVATED),
        _workload(GONE, DEACTIVATED, queue=""),
        [("kueue_workload_eviction_latency_seconds", ("cq", "Deactivated", "leader"), 15)],
    ),
    "quota released, not evicted": (_workload(RESERVED), _workload(GONE, queue=""), []),
    "quota released, evicted once": (
        _workload(RESERVED),
        _workload(GONE, _is("Evicted", 45, "Preempted", "False"), queue=""),
        [],
    ),
    "done": (
        _workload(RESERVED, ADMITTED),
        _workload(RESERVED, ADMITTED, FINISHED, accumulatedPastExecutionTimeSeconds=100),
        [*_twice("finished_workloads_total", 1), *_twice("execution_time_seconds", 125)],
    ),
    "done, not admitted any more": (
        _workload(RESERVED),
        _workload(RESERVED, _is("Admitted", 35, "R", "False"), FINISHED),
        [*_twice("finished_workloads_total", 1), *_twice("execution_time_seconds", 0)],
    ),
    "done without quota": (_workload(queue=""), _workload(FINISHED, queue=""), []),
}


@pytest.mark.parametrize("name", EVENTS)
def test_all_samples_of_a_change(name: str) -> None:
    old, new, want = EVENTS[name]
    found = of_workload(old, new, _NOW, cohorts={"cq": ("near", "far"), "other": ("x",)})
    assert [tuple(s) for s in found] == want


def test_others_roles_are_told() -> None:
    assert of_preemption("q", "InClusterQueue", "standalone") == [
        Sample("kueue_preempted_workloads_total", ("q", "InClusterQueue", "standalone"), 1)
    ]
    assert of_replacement("q") == [Sample("kueue_replaced_workload_slices_total", ("q", "leader"), 1)]


# A cycle


def _outcome(queue: str, status: Status, *, skipped: bool = False, recomputed: str = "") -> Outcome:
    head = Head(workload_of(), queue)
    return Outcome(
        head,
        status,
        "",
        "",
        RequeueReason.GENERIC,
        None,
        None,
        skipped_preemption=skipped,
        recomputation=Recomputation(recomputed),
    )


@pytest.mark.parametrize("status", list(Status))
def test_all_samples_of_a_cycle(status: Status) -> None:
    """All heads together are one attempt, a success if anybody was admitted, or evicted from a node that failed."""
    entries = (
        _outcome("b", Status.SKIPPED, skipped=True, recomputed="skipped"),
        _outcome("b", Status.SKIPPED, skipped=True),
        _outcome("a", status, skipped=True, recomputed="new_targets"),
        _outcome("c", Status.NOT_NOMINATED, recomputed="new_targets"),
    )
    result = "success" if status in (Status.ASSUMED, Status.EVICTED) else "inadmissible"
    recomputed = "kueue_preemption_target_recomputations_total"
    assert [tuple(s) for s in of_cycle(CycleOutcome(entries), 0.25, "r")] == [
        ("kueue_admission_attempts_total", (result, "r"), 1),
        ("kueue_admission_attempt_duration_seconds", (result, "r"), 0.25),
        ("kueue_admission_cycle_preemption_skips", ("a", "r"), 1),
        ("kueue_admission_cycle_preemption_skips", ("b", "r"), 2),
        (recomputed, ("b", "skipped", "r"), 1),
        (recomputed, ("a", "new_targets", "r"), 1),
        (recomputed, ("c", "new_targets", "r"), 1),
    ]
    assert [tuple(s) for s in of_cycle(CycleOutcome(()), 0.0)] == [
        ("kueue_admission_attempts_total", ("inadmissible", "leader"), 1),
        ("kueue_admission_attempt_duration_seconds", ("inadmissible", "leader"), 0),
    ]


# A world


def _quotas(**resources: Obj) -> list[Obj]:
    listed = [{"name": name, **amounts} for name, amounts in resources.items()]
    flavors = [{"name": "a", "resources": listed}]
    return [{"coveredResources": list(resources), "flavors": flavors}]


def _world() -> Store:
    store = Store()

    def add(
        kind: str, name: str, spec: Obj, status: Obj | None = None, namespace: str = "", **meta: Any
    ) -> None:
        place = {"namespace": namespace} if namespace else {}
        obj = {
            "apiVersion": _GROUP,
            "kind": kind,
            "metadata": {"name": name, **place, **meta},
            "spec": spec,
        }
        store.create(obj)
        if status is not None:
            store.set_status(Key(f"{kind}.kueue.x-k8s.io", namespace, name), status)

    def active(status: str) -> Obj:
        return {"conditions": [_is("Active", 0, "Ready", status)]}

    add("Cohort", "root", {})
    add("Cohort", "team", {"parentName": "root"})
    groups = _quotas(
        cpu={"nominalQuota": "4", "lendingLimit": "1"}, gpu={"nominalQuota": 2, "borrowingLimit": 3}
    )
    add("ClusterQueue", "on", {"cohortName": "team", "resourceGroups": groups}, active("True"))
    add("ClusterQueue", "off", {"resourceGroups": []}, active("False"))
    add("ClusterQueue", "new", {"cohortName": "root"})
    add("LocalQueue", "lq", {"clusterQueue": "on"}, active("True"), "ns", labels={"tier": "gold"})
    add("LocalQueue", "lost", {}, active("False"), "ns")
    add("LocalQueue", "silent", {"clusterQueue": "off"}, None, "ns")
    used = [
        {
            "name": "main",
            "flavors": {"cpu": "a", "gpu": "a", "ram": "a"},
            "resourceUsage": {"cpu": "1500m", "gpu": 1, "ram": "1Gi"},
        }
    ]
    for name, queue, conditions in (
        ("reserved", "on", (RESERVED,)),
        ("admitted", "on", (RESERVED, ADMITTED)),
        ("done", "on", (RESERVED, ADMITTED, FINISHED)),
    ):
        admission = {"clusterQueue": queue, "podSetAssignments": used}
        status = {"conditions": list(conditions), "admission": admission}
        add("Workload", name, {"queueName": "lq", "podSets": []}, status, "ns")
    waits = _is("QuotaReserved", 10, "Pending", "False")
    add("Workload", "waits", {"queueName": "lq", "podSets": []}, {"conditions": [waits]}, "ns")
    add("Workload", "unseen", {"queueName": "silent", "podSets": []}, None, "ns")
    add("Workload", "stray", {"queueName": "lost", "podSets": []}, None, "ns")
    return store


def _said(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    samples = gauges(_world(), metrics)
    found = {(s.name.removeprefix("kueue_"), s.labels[:-1]): s.value for s in samples}
    assert len(found) == len(samples)
    assert {s.labels[-1] for s in samples} == {"leader"}
    return found


def _by_queue(metric: str, **values: float) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(metric, (name,)): values.get(name, 0.0) for name in ("on", "off", "new")}


def _by_local(metric: str, value: float, names: tuple[str, ...]) -> dict[Any, float]:
    return {(metric, (name, "ns")): value if name == "lq" else 0.0 for name in names}


def _want(locals_: tuple[str, ...], *, has_quotas: bool) -> dict[tuple[str, tuple[str, ...]], float]:
    want: dict[tuple[str, tuple[str, ...]], float] = {}
    for metric, number in (
        ("reserving_active_workloads", 2.0),
        ("admitted_active_workloads", 1.0),
        ("finished_workloads", 1.0),
    ):
        want |= _by_queue(metric, on=number)
        want |= _by_local(f"local_queue_{metric}", number, locals_)
    for name, current in (("on", "active"), ("off", "pending"), ("new", "pending")):
        for status in ("pending", "active", "terminating"):
            want["cluster_queue_status", (name, status)] = float(status == current)
    want["cluster_queue_info", ("on", "team", "root")] = 1
    want["cluster_queue_info", ("new", "root", "root")] = 1
    want["cluster_queue_info", ("off", "", "")] = 1
    want["cohort_info", ("root", "", "root")] = want["cohort_info", ("team", "root", "root")] = 1
    for name in ("root", "team"):
        want["cohort_subtree_admitted_active_workloads", (name,)] = 1
    if has_quotas:
        for resource, amounts in (("cpu", (4, math.inf, 1, 3, 1.5)), ("gpu", (2, 3, math.inf, 2, 1))):
            for metric, value in zip(
                (
                    "nominal_quota",
                    "borrowing_limit",
                    "lending_limit",
                    "resource_reservation",
                    "resource_usage",
                ),
                amounts,
                strict=True,
            ):
                want[f"cluster_queue_{metric}", ("team", "on", "a", resource)] = value
    for name, current in (("lq", "True"), ("lost", "False")):
        for status in ("True", "False", "Unknown") if name in locals_ else ():
            want["local_queue_status", (name, "ns", status)] = float(status == current)
    want["unadmitted_workloads", ("on", "NoReservation", "")] = 1
    want["unadmitted_workloads", ("on", "NoReservation", "Pending")] = 1
    want["unadmitted_workloads", ("off", "NoReservation", "PendingEvaluation")] = 1
    of_local = "local_queue_unadmitted_workloads"
    if "lq" in locals_:
        want[of_local, ("lq", "ns", "on", "NoReservation", "")] = 1
        want[of_local, ("lq", "ns", "on", "NoReservation", "Pending")] = 1
    if "silent" in locals_:
        want[of_local, ("silent", "ns", "off", "NoReservation", "PendingEvaluation")] = 1
    return want


def test_all_gauges_of_a_world() -> None:
    every = ("lq", "lost", "silent")
    full = Metrics(per_cluster_queue_resources=True)
    assert _said(full) == _want(every, has_quotas=True)
    assert _said(Metrics()) == _want(every, has_quotas=False)
    golden = label_selector({"matchLabels": {"tier": "gold"}})
    assert _said(replace(full, local_queues=golden)) == _want(("lq",), has_quotas=True)
    assert _said(replace(full, per_local_queue=False)) == _want((), has_quotas=True)
