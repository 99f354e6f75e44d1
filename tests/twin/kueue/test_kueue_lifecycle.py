"""What happens to a job under Kueue, from its creation to its end, in the words of its objects."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kueueworld import World, flavor, job, local_queue, node, priority_class, queue

from fairway.kube.objects import Key, labels_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.settings import DEFAULT_KUEUE, PodsReady
from fairway.queueing.integrations.names import workload_name
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.twin.latency import DEFAULT

CLUSTER_QUEUE = "ClusterQueue.kueue.x-k8s.io"
LOCAL_QUEUE = "LocalQueue.kueue.x-k8s.io"


@pytest.fixture
def world() -> World:
    return World().apply(queue("a", 4), local_queue("a"), node("n1", 8)).run(2)


def test_a_job_runs_and_ends(world: World) -> None:
    world.apply(job("train", "a", gpus=2, runs="20s")).run(5)
    assert spec_of(world.job("train", "a"))["suspend"] is False
    assert world.condition("train", "Admitted") == ("True", "Admitted")
    assert world.condition("train", "PodsReady") == ("True", "Started")
    assert world.queue_status("a")["admittedWorkloads"] == 1
    world.run(30)
    assert world.condition("train", "Finished") == ("True", "Succeeded")
    assert world.conditions("train")["Finished"]["message"] == "Reached expected number of succeeded pods"
    assert world.queue_status("a")["admittedWorkloads"] == 0
    assert "finalizers" not in meta_of(world.workload("train"))
    assert world.events("CreatedWorkload") and world.events("Started") and world.events("Admitted")
    world.check_books()


def test_a_look_at_a_job_follows_a_change_that_matters(world: World) -> None:
    """Created, its Workload made, admitted, ready, complete, finished: other writes bring none."""
    world.apply(job("train", "a", gpus=2, runs="20s"))
    loop, until_us = world.twin.loop, world.twin.now_us + 60 * SECOND_US
    looks, waiting = 0, set()
    while (following := loop.next_time()) is not None and following <= until_us:
        loop.step()
        now = {item for item in world.kueue._queued if item[0] == "job"}
        looks, waiting = looks + len(now - waiting), now
    assert world.condition("train", "Finished") == ("True", "Succeeded")
    assert looks == 6


def test_the_workload_describes_its_job(world: World) -> None:
    world.apply(job("train", "a", gpus=2, pods=3)).run(3)
    made, owner = world.workload("train"), world.job("train", "a")
    assert meta_of(made)["name"] == workload_name("train", meta_of(owner)["uid"], "Job.batch")
    assert labels_of(made)["kueue.x-k8s.io/job-uid"] == meta_of(owner)["uid"]
    assert meta_of(made)["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    assert spec_of(made)["queueName"] == "lq"
    assert [(ps["name"], ps["count"]) for ps in spec_of(made)["podSets"]] == [("main", 3)]


def test_workload_names_are_kueues() -> None:
    # sha1("Job\nbatch\ntrain\nuid"), first five digits.
    assert workload_name("train", "uid", "Job.batch") == "job-train-68e82"
    assert len(workload_name("x" * 300, "uid", "Job.batch")) == 253


def test_a_template_gets_its_flavor_and_loses_it_again() -> None:
    world = World().apply(
        flavor("spot", nodeLabels={"pool": "spot"}, tolerations=[{"key": "spot", "operator": "Exists"}]),
        queue("a", 4),
        local_queue("a"),
        node("n1", 8, pool="spot"),
    )
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "spot", "resources": resources}]}
    world.patch(CLUSTER_QUEUE, "a", {"spec": {"resourceGroups": [group]}}).run(2)
    before = job("train", "a")
    world.apply(before).run(3)
    template = spec_of(world.job("train", "a"))["template"]
    assert template["spec"]["nodeSelector"] == {"pool": "spot"}
    assert template["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert labels_of(template)["kueue.x-k8s.io/podset"] == "main"
    world.patch(CLUSTER_QUEUE, "a", {"spec": {"stopPolicy": "HoldAndDrain"}}).run(5)
    template = spec_of(world.job("train", "a"))["template"]
    assert "nodeSelector" not in template["spec"] and "tolerations" not in template["spec"]
    assert world.condition("train", "Evicted") == ("True", "ClusterQueueStopped")
    assert world.condition("train", "QuotaReserved") == ("False", "Suspended")


def test_a_job_above_its_quota_waits_with_the_reason(world: World) -> None:
    world.apply(job("huge", "a", gpus=5), job("first", "a", gpus=4)).run(2)
    world.apply(job("second", "a", gpus=2)).run(3)
    assert world.condition("huge", "QuotaReserved") == ("False", "ExceedsMaxQuota")
    assert world.conditions("second")["QuotaReserved"]["message"].endswith("2 more needed")
    assert world.queue_status("a")["pendingWorkloads"] == 2


def test_quota_that_is_freed_wakes_who_waits(world: World) -> None:
    world.apply(job("first", "a", gpus=4, runs="10s")).run(1)
    world.apply(job("second", "a", gpus=4)).run(3)
    assert world.admitted() == ["first"]
    world.run(20)
    assert world.admitted() == ["second"]


def test_deleting_a_job_frees_its_quota(world: World) -> None:
    world.apply(job("first", "a", gpus=4)).run(1)
    world.apply(job("second", "a", gpus=4)).run(3)
    world.delete("Job.batch", "first", "a").run(5)
    assert world.admitted() == ["second"]
    assert len(world.objects(WORKLOAD)) == 1
    world.check_books()


def test_priority_preempts_in_the_queue() -> None:
    world = World().apply(
        queue("a", 2, preemption={"withinClusterQueue": "LowerPriority"}),
        local_queue("a"),
        node("n1", 8),
        priority_class("high", 1000),
        priority_class("low", 10),
    )
    world.apply(job("low", "a", gpus=2, priority="low")).run(3)
    world.apply(job("high", "a", gpus=2, priority="high")).run(5)
    assert world.admitted() == ["high"]
    assert world.condition("low", "Preempted") == ("True", "InClusterQueue")
    assert world.condition("low", "Requeued") == ("True", "Preempted")
    assert world.events("PreemptedWorkload") and world.events("EvictedDueToPreempted")
    world.check_books()


def test_reclaim_restores_the_owner() -> None:
    world = World().apply(
        queue("a", 4, cohort="all", preemption={"reclaimWithinCohort": "Any"}),
        queue("b", 4, cohort="all"),
        local_queue("a"),
        local_queue("b"),
        node("n1", 8),
    )
    for i in range(4):
        world.apply(job(f"b{i}", "b", gpus=2)).run(1)
    assert world.queue_status("b")["admittedWorkloads"] == 4
    world.apply(job("a0", "a", gpus=4)).run(6)
    assert world.admitted() == ["a0", "b0", "b1"]
    usage = world.queue_status("b")["flavorsUsage"][0]["resources"][0]
    assert usage == {"name": "nvidia.com/gpu", "total": "4", "borrowed": "0"}
    world.check_books()


def test_partial_admission_shrinks_the_job(world: World) -> None:
    world.apply(job("elastic", "a", pods=8, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})).run(3)
    assert spec_of(world.job("elastic", "a"))["parallelism"] == 4
    world.patch(CLUSTER_QUEUE, "a", {"spec": {"stopPolicy": "HoldAndDrain"}}).run(4)
    assert spec_of(world.job("elastic", "a"))["parallelism"] == 8


def test_pods_done_for_good_give_their_quota_back(world: World) -> None:
    world.apply(job("gang", "a", pods=4)).run(3)
    pods = world.objects("Pod")
    ended = {**status_of(pods[0]), "phase": "Succeeded"}
    world.twin.store.set_status(Key("Pod", "a", meta_of(pods[0])["name"]), ended)
    world.twin.wake()
    world.apply(job("next", "a", gpus=1)).run(5)
    assert status_of(world.workload("gang"))["reclaimablePods"] == [{"name": "main", "count": 1}]
    assert world.admitted() == ["gang", "next"]


def test_deactivation_evicts_and_reactivation_brings_back(world: World) -> None:
    world.apply(job("train", "a")).run(3)
    name = meta_of(world.workload("train"))["name"]
    world.patch(WORKLOAD, name, {"spec": {"active": False}}, "a").run(4)
    assert world.condition("train", "Evicted") == ("True", "Deactivated")
    assert world.condition("train", "QuotaReserved") == ("False", "Deactivated")
    assert world.objects("Pod") == []
    world.patch(WORKLOAD, name, {"spec": {"active": True}}, "a").run(4)
    assert world.condition("train", "Requeued") == ("True", "Reactivated")
    assert world.admitted() == ["train"]


def test_too_long_is_deactivated(world: World) -> None:
    world.apply(job("train", "a", labels={"kueue.x-k8s.io/max-exec-time-seconds": "20"})).run(10)
    assert world.admitted() == ["train"]
    world.run(20)
    assert world.condition("train", "Evicted") == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
    assert spec_of(world.workload("train"))["active"] is False


def test_queues_that_are_missing_are_named() -> None:
    world = World().apply(job("train", "a")).run(3)
    assert world.conditions("train")["QuotaReserved"]["message"] == "LocalQueue lq doesn't exist"
    world.apply(local_queue("a")).run(3)
    assert world.conditions("train")["QuotaReserved"]["message"] == "ClusterQueue a doesn't exist"
    world.apply(queue("a", 1), node("n1", 1)).run(3)
    assert world.admitted() == ["train"]


def test_pods_that_are_not_ready_in_time_back_off_and_give_up() -> None:
    waiting = PodsReady(timeout_us=5 * SECOND_US, backoff_limit=1, backoff_base_us=10 * SECOND_US)
    world = World(replace(DEFAULT_KUEUE, pods_ready=waiting)).apply(queue("a", 4), local_queue("a"))
    world.apply(job("train", "a")).run(8)
    assert world.condition("train", "Evicted") == ("True", "PodsReadyTimeout")
    assert status_of(world.workload("train"))["requeueState"]["count"] == 1
    world.run(30)
    assert world.condition("train", "Evicted") == ("True", "DeactivatedDueToRequeuingLimitExceeded")


def test_blocked_admission_lets_one_in_after_the_other() -> None:
    blocking = replace(DEFAULT_KUEUE, pods_ready=PodsReady(blocks_admission=True))
    world = World(blocking).apply(queue("a", 4), local_queue("a"))
    world.apply(job("first", "a")).run(1)
    world.apply(job("second", "a")).run(3)
    assert world.admitted() == ["first"]
    assert world.condition("second", "QuotaReserved") == ("False", "WaitingForPodsReady")
    world.apply(node("n1", 8)).run(3)
    assert world.admitted() == ["first", "second"]


def test_a_check_stands_between_quota_and_admission(world: World) -> None:
    check = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "budget"},
        "spec": {"controllerName": "example.com/budget"},
    }
    world.apply(check)
    key = Key("AdmissionCheck.kueue.x-k8s.io", "", "budget")
    world.twin.store.set_status(key, {"conditions": [{"type": "Active", "status": "True"}]})
    strategy = {"admissionChecks": [{"name": "budget"}]}
    world.patch(CLUSTER_QUEUE, "a", {"spec": {"admissionChecksStrategy": strategy}}).run(2)
    world.apply(job("train", "a")).run(3)
    assert world.condition("train", "Admitted") == ("False", "UnsatisfiedAdmissionChecks")
    made = world.workload("train")
    states = [{**status_of(made)["admissionChecks"][0], "state": "Ready"}]
    made_key = Key(WORKLOAD, "a", meta_of(made)["name"])
    world.twin.store.set_status(made_key, {**status_of(made), "admissionChecks": states})
    world.twin.wake()
    world.run(3)
    assert world.admitted() == ["train"]
    made = world.workload("train")
    states = [{**states[0], "state": "Rejected", "message": "no money"}]
    world.twin.store.set_status(made_key, {**status_of(made), "admissionChecks": states})
    world.twin.wake()
    world.run(4)
    assert world.condition("train", "Evicted") == ("True", "DeactivatedDueToAdmissionCheck")


def test_pods_go_to_the_domains_of_their_rack() -> None:
    topology = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": "racks"},
        "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    world = World().apply(
        topology,
        flavor("default", nodeLabels={"pool": "x"}, topologyName="racks"),
        *(node(f"r{r}-n{n}", 4, pool="x", rack=f"r{r}") for r in (1, 2) for n in (1, 2)),
        queue("a", 16),
        local_queue("a"),
    )
    required = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    world.apply(job("gang", "a", gpus=4, pods=2, template_annotations=required)).run(5)
    nodes = {spec_of(p)["nodeName"] for p in world.objects("Pod")}
    assert nodes in ({"r1-n1", "r1-n2"}, {"r2-n1", "r2-n2"})
    world.apply(job("wide", "a", gpus=4, pods=3, template_annotations=required)).run(3)
    assert world.condition("wide", "QuotaReserved") == ("False", "TopologyPlacementFailed")


def test_queues_say_what_they_hold(world: World) -> None:
    world.apply(job("train", "a", gpus=3)).run(3)
    status = world.queue_status("a")
    assert status["conditions"][0]["reason"] == "Ready"
    assert status["flavorsReservation"] == [
        {"name": "default", "resources": [{"name": "nvidia.com/gpu", "total": "3", "borrowed": "0"}]}
    ]
    local = status_of(world.twin.store.require(Key(LOCAL_QUEUE, "a", "lq")))
    assert (local["admittedWorkloads"], local["reservingWorkloads"], local["pendingWorkloads"]) == (1, 1, 0)
    assert local["conditions"][0]["message"] == "Can submit new workloads to localQueue"


def test_a_queue_in_use_stays_until_it_is_empty(world: World) -> None:
    world.apply(job("train", "a", runs="30s")).run(3)
    world.delete(CLUSTER_QUEUE, "a").run(3)
    assert world.queue_status("a")["conditions"][0]["reason"] == "Terminating"
    world.run(40)
    assert world.twin.store.get(Key(CLUSTER_QUEUE, "", "a")) is None


def test_a_flavor_that_is_missing_stops_its_queue() -> None:
    world = World().apply(queue("a", 4), local_queue("a"), node("n1", 8)).run(2)
    world.twin.store.set_finalizers(Key("ResourceFlavor.kueue.x-k8s.io", "", "default"), [])
    world.delete("ResourceFlavor.kueue.x-k8s.io", "default").run(3)
    assert world.queue_status("a")["conditions"][0]["reason"] == "FlavorNotFound"


def test_without_kueue_objects_nothing_of_it_happens() -> None:
    world = World()
    plain = World.__new__(World)
    plain.twin = type(world.twin)(components=[type(world.kueue)()])
    plain.apply(node("n1", 8), job("train", "a")).run(5)
    assert plain.kueue.is_awake is False
    assert (
        "suspend" not in spec_of(plain.job("train", "a")) or not spec_of(plain.job("train", "a"))["suspend"]
    )


def test_with_latencies_the_same_comes_out() -> None:
    world = World(latency=DEFAULT)
    world.apply(
        queue("a", 4, preemption={"withinClusterQueue": "LowerPriority"}),
        local_queue("a"),
        node("n1", 8),
        priority_class("high", 1000),
    ).run(40)
    world.apply(job("low", "a", gpus=4)).run(60)
    assert world.admitted() == ["low"]
    world.apply(job("high", "a", gpus=4, priority="high")).run(60)
    assert world.admitted() == ["high"]
    world.check_books()
