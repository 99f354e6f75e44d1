"""Who hears of what: which events wake the waiting, and which words and counts stay as they were.

Played against the real Kueue controllers, which decide all of this by accident of who watches whom.
Source: pkg/cache/queue/manager.go QueueAssociatedInadmissibleWorkloadsAfter, UpdateClusterQueue, AddLocalQueue;
pkg/controller/core/workload_controller.go workloadQueueHandler; localqueue_controller.go.
"""

from __future__ import annotations

import pytest
from kueuehistory import History
from kueueworld import World, flavor, job, local_queue, node, queue

from fairway.kube.objects import Key, Obj, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.queueing.configuration import configured
from fairway.twin.kueue.component import Kueue

WAITS = "False WaitingForQuota: couldn't assign flavors to pod set main: "


def namespaces(*names: str) -> list[Obj]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in names]


def second_queue(namespace: str, to: str) -> Obj:
    """A LocalQueue of another namespace for the same ClusterQueue."""
    found = local_queue(to)
    return {**found, "metadata": {"name": "lq", "namespace": namespace}}


def delete(kind: str, api_version: str, name: str, namespace: str) -> tuple[str, Obj]:
    meta = {"name": name, "namespace": namespace}
    return ("delete", {"apiVersion": api_version, "kind": kind, "metadata": meta})


def begun(*objects: Obj) -> History:
    return History().step(*namespaces("a", "b"), flavor("default"), node("n1", 8), node("n2", 8), *objects)


def test_what_a_stopped_local_queue_gives_back_wakes_nobody() -> None:
    history = begun(queue("a", 8), local_queue("a"), second_queue("b", "a"))
    history.step(job("first", "a", gpus=8), job("mine", "a", gpus=8), job("theirs", "b", gpus=8))
    history.patch("LocalQueue", "lq", "a", spec={"stopPolicy": "Hold"})
    history.do(delete("Job", "batch/v1", "first", "a"))
    assert history.admitted() == []
    # It comes back: its workloads are tried, though equal ones were refused.
    history.patch("LocalQueue", "lq", "a", spec={"stopPolicy": "None"})
    assert history.admitted() == ["mine"]


def test_a_cluster_queue_still_counts_who_waited_in_a_local_queue_that_went() -> None:
    history = begun(queue("a", 8), local_queue("a"))
    history.step(job("first", "a", gpus=8), job("second", "a", gpus=8))
    history.do(delete("LocalQueue", "kueue.x-k8s.io/v1beta2", "lq", "a"))
    assert history.seen["clusterQueues"]["a"]["pending"] == 1
    assert history.said("second")["QuotaReserved"] == "False Misconfigured: LocalQueue lq doesn't exist"


def test_a_cohort_that_a_queue_leaves_is_not_woken() -> None:
    history = begun(queue("a", 4, cohort="all"), queue("b", 4, cohort="all"), *map(local_queue, "ab"))
    history.step(job("wide", "a", gpus=6), job("late", "b", gpus=4))
    assert history.said("late")["QuotaReserved"].startswith(WAITS)
    history.patch("ClusterQueue", "a", spec={"cohortName": None})
    assert history.admitted() == ["wide"]
    history.step(job("small", "b", gpus=1))
    assert history.admitted() == ["small", "wide"]


def test_a_flavor_that_goes_leaves_the_words_of_who_waits_alone() -> None:
    history = begun(queue("a", 4), local_queue("a"))
    history.step(job("big", "a", gpus=4), job("late", "a", gpus=4))
    said = history.said("late")["QuotaReserved"]
    history.do(delete("ResourceFlavor", "kueue.x-k8s.io/v1beta2", "default", ""))
    history.step(flavor("other"))
    assert history.said("late")["QuotaReserved"] == said


def test_a_queue_in_a_cohort_that_nobody_wrote_borrows_in_a_cycle_too() -> None:
    def cohort(name: str, parent: str) -> Obj:
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort"}
        return {**kind, "metadata": {"name": name}, "spec": {"parentName": parent}}

    history = begun(queue("a", 4, cohort="x"), queue("b", 4, cohort="x"), local_queue("a"))
    history.step(job("wide", "a", gpus=6))
    history.step(cohort("x", "y"), cohort("y", "x")).step(job("more", "a"))
    used = history.seen["clusterQueues"]["a"]["usage"]["default"]["nvidia.com/gpu"]
    assert used == {"borrowed": "2", "total": "6"}


def test_a_limit_range_is_told_of_as_the_workload_was_written() -> None:
    """Its default limit would make the request exceed a limit; the Workload's controller does not look so far."""
    limits = {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}
    meta = {"name": "lr", "namespace": "a"}
    limit_range: Obj = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": meta,
        "spec": {"limits": [limits]},
    }
    history = begun(queue("a", 4), local_queue("a"), limit_range)
    asked = job("train", "a")
    container = asked["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "3"}}
    history.step(asked)
    assert history.said("train")["QuotaReserved"] == (
        "False Misconfigured: resources didn't satisfy LimitRange constraints: "
        'spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: '
        "requests must not be above the limitRange max"
    )


def cohort(name: str, parent: str = "") -> Obj:
    spec = {"parentName": parent} if parent else {}
    meta = {"name": name}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(("parent", "woken"), [("top", True), ("", False)])
def test_whatever_a_queue_below_a_cohort_with_a_parent_says_wakes_the_whole_tree(
    parent: str, woken: bool
) -> None:
    """Its Cohorts but the root are looked at, and each look has all that waits tried again."""
    history = begun(
        queue("a", 4, cohort="left"), queue("b", 4, cohort="right"), local_queue("a"), local_queue("b")
    )
    history.step(cohort("left", parent), cohort("right", parent), *([cohort("top")] if parent else ()))
    history.step(job("first", "a", gpus=4), job("filler", "b", gpus=4), job("late", "b", gpus=4))
    pending = kueue_of(history).backlog.pending.queues["b"]
    assert len(pending.inadmissible()) == 1
    # Only a status changes, in the other branch: no workload does.
    before = kueue_of(history).backlog.version
    queue_a = "ClusterQueue.kueue.x-k8s.io"
    note = {"conditions": [{"type": "Noted", "status": "True", "reason": "Noted", "message": "by somebody"}]}
    history.player.twin.store.patch(Key(queue_a, "", "a"), {"status": note})
    history.player.twin.run_for(900_000)
    touched = kueue_of(history).backlog.version > before
    history.player.twin.run_for(5_000_000)
    assert (kueue_of(history).backlog.version > before) is woken
    assert not touched, "wakes are a second late"


@pytest.mark.parametrize("seconds", [1.3, 2.75])
def test_an_evicted_workload_waits_whole_seconds_and_behind_an_equal_one_that_was_refused(
    seconds: float,
) -> None:
    timing = {"timeout": "5s", "requeuingStrategy": {"backoffBaseSeconds": 10}}
    world = World(configured({"waitForPodsReady": timing}).kueue_settings())
    world.apply(queue("a", 4), local_queue("a"))
    world.run(seconds).apply(job("one", "a", gpus=4)).run(1)
    world.apply(job("two", "a", gpus=4), job("three", "a", gpus=4)).run(4)
    # Nobody's pods ran: the first was evicted, the second is admitted in its place, the third refused.
    world.apply(node("n", 4)).run(1)
    state = status_of(world.workload("one"))["requeueState"]
    evicted = world.conditions("one")["Evicted"]["lastTransitionTime"]
    assert state["count"] == 1
    assert parse_rfc3339(state["requeueAt"]) - parse_rfc3339(evicted) == 10 * SECOND_US
    assert world.conditions("one")["QuotaReserved"]["message"].startswith("Exceeded the PodsReady timeout")
    world.run(10)
    assert "requeueAt" not in status_of(world.workload("one"))["requeueState"]
    said = world.conditions("one")["QuotaReserved"]
    assert (said["reason"], said["message"]) == (
        "WaitingForQuota",
        "Bypassed scheduling evaluation because an equivalent workload recently failed",
    )
    assert world.conditions("three")["QuotaReserved"]["message"].startswith("couldn't assign flavors")


def test_a_job_that_gets_its_pods_back_has_recovered() -> None:
    world = World().apply(queue("a", 4), local_queue("a"), node("n", 4))
    running = job("train", "a", gpus=4)
    running["spec"]["backoffLimit"] = 3
    world.apply(running).run(5)
    assert world.condition("train", "PodsReady") == ("True", "Started")
    (pod,) = world.objects("Pod")
    world.delete("Pod", pod["metadata"]["name"], "a").run(1)
    ready = world.conditions("train")["PodsReady"]
    assert (ready["status"], ready["reason"]) == ("False", "WaitForRecovery")
    assert ready["message"] == "At least one pod has failed, waiting for recovery"
    world.run(20)
    assert world.condition("train", "PodsReady") == ("True", "Recovered")


def kueue_of(history: History) -> Kueue:
    found = history.player.twin.component("kueue")
    assert isinstance(found, Kueue)
    return found
