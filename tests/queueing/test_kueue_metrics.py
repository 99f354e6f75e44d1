"""Kueue's metrics as data."""

from __future__ import annotations

import math
from typing import Any

from fairway.cluster.store import Store
from fairway.kube.metricfamilies import COUNTER, HISTOGRAM, Sample
from fairway.kube.objects import Key
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.control.settings import Metrics
from fairway.queueing.metrics.families import families
from fairway.queueing.metrics.gauges import cohorts_above, gauges
from fairway.queueing.metrics.observing import LEADER, of_preemption, of_workload

Obj = dict[str, Any]
GROUP = "kueue.x-k8s.io/v1beta2"
NOW = "2026-01-01T00:01:00Z"
NOW_US = parse_rfc3339(NOW)


def condition(kind: str, at: str = NOW, reason: str = "R", status: str = "True") -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at}


def workload(*conditions: Obj, queue: str = "cq", **status: Any) -> Obj:
    usage = {"name": "main", "flavors": {"cpu": "a"}, "resourceUsage": {"cpu": "1500m"}}
    return {
        "apiVersion": GROUP,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "queueName": "lq",
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
        },
        "status": {
            "conditions": list(conditions),
            "admission": {"clusterQueue": queue, "podSetAssignments": [usage]},
            **status,
        },
    }


def values(samples: list[Sample]) -> dict[str, float]:
    return {s.name: s.value for s in samples}


def fits(samples: list[Sample]) -> bool:
    return all(len(s.labels) == len(families()[s.name].labels) for s in samples)


def test_every_sample_of_admission_has_its_labels() -> None:
    reserved = condition("QuotaReserved", "2026-01-01T00:00:40Z")
    before = workload(reserved)
    after = workload(reserved, condition("Admitted"))
    samples = of_workload(before, after, NOW_US, cohorts={"cq": ("team", "root")})
    assert fits(samples)
    assert Sample("kueue_admitted_workloads_total", ("cq", "high", LEADER), 1) in samples
    assert Sample("kueue_local_queue_admitted_workloads_total", ("lq", "team", "high", LEADER), 1) in samples
    got = values(samples)
    assert got["kueue_admission_wait_time_seconds"] == 60
    assert got["kueue_admission_checks_wait_time_seconds"] == 20
    subtree = [s.labels[0] for s in samples if s.name == "kueue_cohort_subtree_admitted_workloads_total"]
    assert subtree == ["team", "root"]


def test_nothing_is_counted_twice() -> None:
    same = workload(condition("QuotaReserved"), condition("Admitted"), condition("PodsReady"))
    assert of_workload(same, same, NOW_US, cohorts={}) == []


def test_an_eviction_counts_its_reason_and_what_lies_beneath() -> None:
    ready = workload(condition("QuotaReserved"), condition("PodsReady", "2026-01-01T00:00:30Z"))
    evicted = workload(
        condition("QuotaReserved"), condition("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded")
    )
    samples = of_workload(ready, evicted, NOW_US, cohorts={})
    assert fits(samples)
    labels = ("cq", "Deactivated", "RequeuingLimitExceeded", "high", LEADER)
    assert Sample("kueue_evicted_workloads_total", labels, 1) in samples
    assert Sample("kueue_evicted_workloads_once_total", labels, 1) in samples
    assert values(samples)["kueue_pods_ready_to_evicted_time_seconds"] == 30


def test_a_second_eviction_is_not_the_first() -> None:
    stats = {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 2}]}
    evicted = workload(condition("Evicted", reason="Preempted"), schedulingStats=stats)
    names = [s.name for s in of_workload(workload(), evicted, NOW_US, cohorts={})]
    assert "kueue_evicted_workloads_total" in names
    assert "kueue_evicted_workloads_once_total" not in names


def test_releasing_quota_ends_an_eviction() -> None:
    at = condition("Evicted", "2026-01-01T00:00:50Z", reason="Preempted")
    before = workload(condition("QuotaReserved"), at)
    after = workload(condition("QuotaReserved", status="False"), at)
    samples = of_workload(before, after, NOW_US, cohorts={})
    assert samples == [Sample("kueue_workload_eviction_latency_seconds", ("cq", "Preempted", LEADER), 10)]


def test_execution_counts_what_was_before() -> None:
    admitted = condition("Admitted", "2026-01-01T00:00:20Z")
    done = workload(admitted, condition("Finished"), accumulatedPastExecutionTimeSeconds=100)
    samples = of_workload(workload(admitted), done, NOW_US, cohorts={})
    assert fits(samples)
    assert values(samples)["kueue_execution_time_seconds"] == 140


def test_a_preemption_counts_for_the_queue_that_preempts() -> None:
    samples = of_preemption("cq", "InClusterQueue")
    assert fits(samples)
    assert samples == [Sample("kueue_preempted_workloads_total", ("cq", "InClusterQueue", LEADER), 1)]


def test_families_know_their_buckets() -> None:
    wait = families()["kueue_admission_wait_time_seconds"]
    assert wait.buckets[:3] == (1.0, 2.5, 5.0)
    assert len(wait.buckets) == 16
    assert all(bool(f.buckets) == (f.type == HISTOGRAM) for f in families().values())
    assert all(f.name.endswith("_total") == (f.type == COUNTER) for f in families().values())


def world() -> Store:
    quota = {"name": "cpu", "nominalQuota": "4", "lendingLimit": "1"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "a", "resources": [quota]}]}]
    store = Store()
    for kind, name, spec in (
        ("Cohort", "root", {}),
        ("Cohort", "team", {"parentName": "root"}),
        ("ClusterQueue", "cq", {"cohortName": "team", "resourceGroups": groups}),
    ):
        store.create({"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec})
    held = workload(condition("QuotaReserved"), condition("Admitted"))
    store.create(held)
    store.set_status(Key("Workload.kueue.x-k8s.io", "team", "w"), held["status"])
    return store


def test_gauges_of_a_small_world() -> None:
    samples = gauges(world(), Metrics(per_cluster_queue_resources=True))
    assert fits(samples)
    got = {(s.name, s.labels[:-1]): s.value for s in samples}
    place = ("team", "cq", "a", "cpu")
    assert got["kueue_cluster_queue_nominal_quota", place] == 4
    assert got["kueue_cluster_queue_lending_limit", place] == 1
    assert got["kueue_cluster_queue_borrowing_limit", place] == math.inf
    assert got["kueue_cluster_queue_resource_usage", place] == 1.5
    assert got["kueue_cluster_queue_resource_reservation", place] == 1.5
    assert got["kueue_admitted_active_workloads", ("cq",)] == 1
    assert got["kueue_cluster_queue_info", ("cq", "team", "root")] == 1
    assert got["kueue_cohort_info", ("team", "root", "root")] == 1


def test_cohorts_in_a_circle_end_where_it_closes() -> None:
    store = Store()
    for name, parent in (("a", "b"), ("b", "a")):
        spec = {"parentName": parent}
        store.create({"apiVersion": GROUP, "kind": "Cohort", "metadata": {"name": name}, "spec": spec})
    meta = {"name": "q"}
    store.create({"apiVersion": GROUP, "kind": "ClusterQueue", "metadata": meta, "spec": {"cohortName": "a"}})
    assert cohorts_above(store) == {"q": ("a", "b")}
