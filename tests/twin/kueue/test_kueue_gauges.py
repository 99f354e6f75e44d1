"""What Kueue's metrics say of a cluster: of its books, its lines and its cycles."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from kueueworld import GPU, World, flavor, job, local_queue, node, queue

from fairway.kube.labels import label_selector
from fairway.kube.metricfamilies import Observed, Sample
from fairway.kube.objects import labels_of, name_of, namespace_of
from fairway.queueing.control.settings import DEFAULT_KUEUE, Metrics
from fairway.queueing.metrics.booked import booked
from fairway.queueing.metrics.families import families
from fairway.queueing.metrics.gauges import gauges
from fairway.queueing.quota.queueusage import UsageSettings

FULL = Metrics(per_cluster_queue_resources=True)


def cohort(name: str, parent: str = "", weight: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"parentName": parent} if parent else {}
    if weight:
        spec["fairSharing"] = {"weight": weight}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": name},
        "spec": spec,
    }


def said(world: World) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample of a world; labels without the role. Each fits its family, and none comes twice."""
    store, kueue = world.twin.store, world.kueue
    queues = store.objects("LocalQueue.kueue.x-k8s.io")
    labels = {f"{namespace_of(q)}/{name_of(q)}": labels_of(q) for q in queues}
    samples = [
        *gauges(store, kueue.settings.metrics),
        *booked(kueue.backlog, kueue.ledger, labels),
        *kueue.cycles.tally.samples(),
    ]
    assert all(len(s.labels) == len(families()[s.name].labels) for s in samples)
    assert len({(s.name, s.labels) for s in samples}) == len(samples)
    return {(s.name.removeprefix("kueue_"), s.labels[:-1]): s.value for s in samples}


def names(found: dict[tuple[str, tuple[str, ...]], float]) -> set[str]:
    return {name for name, _ in found}


def crowded(settings: Any = DEFAULT_KUEUE) -> World:
    """A borrows 2 of B's 4 GPUs; of three that wait two are alike, and one asks for more than there is."""
    world = World(settings)
    world.apply(cohort("root"), cohort("team", "root"), node("n1", 16))
    world.apply(
        queue("a", 4, cohort="team"), queue("b", 4, cohort="team"), local_queue("a"), local_queue("b")
    )
    world.apply(job("one", "a", gpus=3), job("two", "a", gpus=3)).run(2)
    world.apply(job("w1", "a", gpus=4), job("w2", "a", gpus=4), job("w3", "a", gpus=9)).run(2)
    return world


def test_lines_are_told_of_cluster_queues_and_of_local_queues() -> None:
    found = said(crowded())
    assert found["pending_workloads", ("a", "inadmissible")] == 3
    assert found["pending_workloads", ("a", "active")] == 0
    assert found["pending_workloads", ("b", "inadmissible")] == 0
    assert found["pending_scheduling_hashes", ("a", "inadmissible")] == 2
    assert found["local_queue_pending_workloads", ("lq", "a", "inadmissible")] == 3
    assert found["local_queue_pending_workloads", ("lq", "b", "inadmissible")] == 0
    assert found["cluster_queue_resource_pending", ("a", GPU)] == 17
    assert found["cluster_queue_resource_pending", ("b", GPU)] == 0


def test_in_a_queue_that_is_inactive_nobody_is_tried() -> None:
    world = World().apply(queue("a", 4), local_queue("a"), node("n1", 8))
    world.patch("ClusterQueue.kueue.x-k8s.io", "a", {"spec": {"stopPolicy": "Hold"}})
    found = said(world.apply(job("one", "a")).run(2))
    assert found["pending_workloads", ("a", "inadmissible")] == 1
    assert found["pending_workloads", ("a", "active")] == 0


def test_quota_and_what_is_reserved_of_it_add_up_along_the_tree() -> None:
    found = said(crowded())
    for name in ("team", "root"):
        assert found["cohort_subtree_quota", (name, "default", GPU)] == 8
        assert found["cohort_subtree_resource_reservations", (name, "default", GPU)] == 6
        assert found["cohort_subtree_admitted_active_workloads", (name,)] == 2
    assert found["local_queue_resource_usage", ("lq", "a", "default", GPU)] == 6
    assert found["local_queue_resource_reservation", ("lq", "b", "default", GPU)] == 0
    assert found["local_queue_admitted_active_workloads", ("lq", "a")] == 2
    assert found["local_queue_reserving_active_workloads", ("lq", "b")] == 0


def test_cores_are_cores() -> None:
    world = World().apply(queue("a", 4), local_queue("a"), node("n1", 8))
    cpu = {"name": "cpu", "nominalQuota": "1500m"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [cpu]}]}
    world.patch("ClusterQueue.kueue.x-k8s.io", "a", {"spec": {"cohortName": "c", "resourceGroups": [group]}})
    assert said(world.run(2))["cohort_subtree_quota", ("c", "default", "cpu")] == 1.5


def test_who_is_not_admitted_is_told_by_reason() -> None:
    found = said(crowded())
    # The second of two alike was never tried: nothing is written of it.
    whys = [("NoReservation", why) for why in ("ExceedsMaxQuota", "PendingEvaluation", "WaitingForQuota")]
    told = {labels: value for (name, labels), value in found.items() if name == "unadmitted_workloads"}
    assert told == {("a", *why): 1 for why in whys}
    told = {
        labels: value for (name, labels), value in found.items() if name == "local_queue_unadmitted_workloads"
    }
    assert told == {("lq", "a", "a", *why): 1 for why in whys}


def test_shares_are_told_where_sharing_is_fair() -> None:
    assert not names(said(crowded())) & {"cluster_queue_weighted_share", "cohort_weighted_share"}
    found = said(crowded(replace(DEFAULT_KUEUE, uses_fair_sharing=True)))
    assert found["cluster_queue_weighted_share", ("a", "team")] == 250
    assert found["cluster_queue_weighted_share", ("b", "team")] == 0
    assert found["cohort_weighted_share", ("team",)] == 0


def test_the_share_of_who_borrows_without_weight_is_no_number() -> None:
    world = crowded(replace(DEFAULT_KUEUE, uses_fair_sharing=True))
    world.patch("ClusterQueue.kueue.x-k8s.io", "a", {"spec": {"fairSharing": {"weight": "0"}}}).run(1)
    assert math.isnan(said(world)["cluster_queue_weighted_share", ("a", "team")])


def test_usage_counts_where_admission_is_fair() -> None:
    usage = UsageSettings(half_life_s=600, sampling_interval_s=60, weights={})
    world = World(replace(DEFAULT_KUEUE, usage=usage))
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    fair = queue("a", 4)
    fair["spec"]["admissionScope"] = scope
    world.apply(fair, local_queue("a"), node("n1", 8), job("one", "a", gpus=2)).run(600)
    assert 0 < said(world)["local_queue_admission_fair_sharing_usage", ("lq", "a", "a")] < 2.5


def test_what_a_configuration_leaves_out_is_not_there() -> None:
    bare = said(crowded(replace(DEFAULT_KUEUE, metrics=Metrics(per_local_queue=False))))
    assert not [n for n in names(bare) if n.startswith(("local_queue", "cluster_queue_resource"))]
    assert "cluster_queue_nominal_quota" not in names(bare)
    assert bare["pending_workloads", ("a", "inadmissible")] == 3
    chosen = replace(FULL, local_queues=label_selector({"matchLabels": {"tier": "gold"}}))
    world = crowded(replace(DEFAULT_KUEUE, metrics=chosen))
    world.patch("LocalQueue.kueue.x-k8s.io", "lq", {"metadata": {"labels": {"tier": "gold"}}}, "b")
    shown = {labels[:2] for name, labels in said(world) if name.startswith("local_queue")}
    assert shown == {("lq", "b")}


def attempts(world: World) -> dict[str, Observed]:
    return {o.labels[0]: o for o in world.kueue.cycles.tally.observed()}


def test_cycles_are_attempts_that_succeed_or_do_not() -> None:
    world = World().apply(queue("a", 4), local_queue("a"), node("n1", 8))
    world.apply(job("one", "a", gpus=4)).run(2)
    found = said(world)
    assert found["admission_attempts_total", ("success",)] == 1
    assert ("admission_attempts_total", ("inadmissible",)) not in found
    world.apply(job("two", "a", gpus=4)).run(2)
    found = said(world)
    assert found["admission_attempts_total", ("success",)] == 1
    refused = found["admission_attempts_total", ("inadmissible",)]
    assert refused >= 1
    seen = attempts(world)
    assert sum(seen["success"].counts) == 1
    assert sum(seen["inadmissible"].counts) == refused


@pytest.mark.parametrize("reason", ["InClusterQueue", "InCohortReclamation"])
def test_preemptions_count_for_who_preempts(reason: str) -> None:
    world = World().apply(node("n1", 8))
    a, b = queue("a", 4, cohort="all"), queue("b", 0, cohort="all")
    a["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    world.apply(a, b, local_queue("a"), local_queue("b"))
    world.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 100,
        }
    )
    world.apply(job("low", "a" if reason == "InClusterQueue" else "b", gpus=4)).run(2)
    urgent = job("urgent", "a", gpus=4)
    urgent["spec"]["template"]["spec"]["priorityClassName"] = "high"
    world.apply(urgent).run(5)
    assert world.admitted() == ["urgent"]
    assert said(world)["preempted_workloads_total", ("a", reason)] == 1


def test_a_copy_counts_for_itself() -> None:
    world = World().apply(queue("a", 4), local_queue("a"), node("n1", 8))
    world.apply(job("one", "a", gpus=4)).run(2)
    before = world.kueue.cycles.tally.samples()
    copied = world.kueue.cycles.copy().tally
    copied.take([Sample("kueue_admission_attempts_total", ("success", "leader"), 5)])
    assert world.kueue.cycles.tally.samples() == before
    assert copied.samples() != before


def test_flavors_that_nobody_has_are_no_cohorts_quota() -> None:
    world = World().apply(flavor("spare"), cohort("alone"), queue("a", 0, cohort="alone"), local_queue("a"))
    assert not [n for n in names(said(world.run(1))) if n.startswith("cohort_subtree_quota")]


def test_cohorts_in_a_circle_end() -> None:
    world = World(replace(DEFAULT_KUEUE, uses_fair_sharing=True))
    world.apply(
        cohort("x", "y"), cohort("y", "x"), queue("a", 4, cohort="x"), local_queue("a"), node("n1", 8)
    )
    found = said(world.apply(job("one", "a")).run(2))
    assert (
        found["pending_workloads", ("a", "inadmissible")] + found["pending_workloads", ("a", "active")] == 1
    )
    assert found["cluster_queue_info", ("a", "x", "y")] == 1
