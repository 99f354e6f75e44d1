"""Who hears of what: which events wake the waiting, and which words and counts stay as they were.

Played against the real Kueue controllers, which decide all of this by accident of who watches whom.
Source: pkg/cache/queue/manager.go QueueAssociatedInadmissibleWorkloadsAfter, UpdateClusterQueue, AddLocalQueue;
pkg/controller/core/workload_controller.go workloadQueueHandler; localqueue_controller.go.
"""

from __future__ import annotations

from kueuehistory import History
from kueueworld import flavor, job, local_queue, node, queue

from fairway.kube.objects import Obj

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
