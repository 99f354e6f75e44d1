"""StatefulSets and LeaderWorkerSets under Kueue: prebuilt Workloads, groups of pods, one Workload a replica.

Played against the real Kueue controllers. Source: pkg/controller/jobs/{statefulset,leaderworkerset}.
"""

from __future__ import annotations

from typing import Any

from kueuehistory import History
from kueueworld import flavor, local_queue, node, priority_class, queue

from fairway.kube.objects import Obj, annotations_of, labels_of, spec_of
from fairway.queueing.integrations.ownership import WORKLOAD

QUEUE = "kueue.x-k8s.io/queue-name"
GPU = "nvidia.com/gpu"


def begun(nominal: int) -> History:
    space: Obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    return History().step(
        space,
        flavor("default"),
        node("n1", 16),
        node("n2", 16),
        queue("a", nominal),
        local_queue("a"),
        priority_class("high", 7),
    )


def template(gpus: int, **labels: str) -> Obj:
    amount = {GPU: str(gpus)}
    container = {"name": "c", "image": "i", "resources": {"requests": amount, "limits": amount}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"labels": labels}, "spec": spec}


def stateful_set(name: str, replicas: int, gpus: int) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "a", "labels": {QUEUE: "lq"}},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template(gpus, app=name),
        },
    }


def worker_set(name: str, replicas: int, size: int, gpus: int, *, leader_gpus: int = 0, **labels: str) -> Obj:
    group: dict[str, Any] = {"size": size, "workerTemplate": template(gpus)}
    if leader_gpus:
        group["leaderTemplate"] = template(leader_gpus)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": "a", "labels": {QUEUE: "lq", **labels}},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": group},
    }


def workloads(history: History) -> dict[str, Obj]:
    """By their names without the hash."""
    found = history.player.twin.store.objects(WORKLOAD)
    return {w["metadata"]["name"].rpartition("-")[0]: w for w in found}


def admitted(history: History) -> list[str]:
    return [name.rpartition("-")[0] for name in history.admitted()]


def pod_sets(workload: Obj) -> list[tuple[str, int]]:
    return [(ps["name"], ps["count"]) for ps in spec_of(workload)["podSets"]]


def test_a_leader_worker_set_has_a_workload_for_each_replica() -> None:
    history = begun(6).step(worker_set("llm", 2, 2, 2, **{"kueue.x-k8s.io/priority-class": "high"}))
    made = workloads(history)
    assert sorted(made) == ["leaderworkerset-llm-0", "leaderworkerset-llm-1"]
    for index, name in enumerate(sorted(made)):
        workload = made[name]
        assert pod_sets(workload) == [("main", 2)]
        assert spec_of(workload)["priority"] == 7
        assert annotations_of(workload)["kueue.x-k8s.io/component-workload-index"] == str(index)
        assert annotations_of(workload)["kueue.x-k8s.io/job-owner-name"] == "llm"
        assert annotations_of(workload)["kueue.x-k8s.io/is-group-workload"] == "true"
    assert admitted(history) == ["leaderworkerset-llm-0"]
    waits = history.said(made["leaderworkerset-llm-1"]["metadata"]["name"])
    assert waits["QuotaReserved"].endswith("in flavor default, 2 more needed")
    assert history.bound("a/llm-0") == 1


def test_pods_of_a_replica_are_a_group_of_its_workloads_name() -> None:
    history = begun(16).step(worker_set("llm", 1, 3, 1, leader_gpus=2))
    (workload,) = workloads(history).values()
    name = workload["metadata"]["name"]
    assert pod_sets(workload) == [("leader", 1), ("worker", 2)]
    roles = {}
    for pod in history.player.twin.store.objects("Pod"):
        marks = annotations_of(pod)
        assert (
            marks["kueue.x-k8s.io/pod-group-name"] == marks["kueue.x-k8s.io/prebuilt-workload-name"] == name
        )
        assert marks["kueue.x-k8s.io/pod-group-total-count"] == "3"
        assert labels_of(pod)["kueue.x-k8s.io/managed"] == "true"
        roles[pod["metadata"]["name"]] = marks["kueue.x-k8s.io/role-hash"]
    assert roles == {"llm-0": "leader", "llm-0-1": "worker", "llm-0-2": "worker"}
    owners = [(o["kind"], o["name"]) for o in workload["metadata"]["ownerReferences"]]
    assert owners[0] == ("LeaderWorkerSet", "llm")
    assert sorted(owners[1:]) == [("Pod", pod) for pod in sorted(roles)]
    assert history.said(name)["PodsReady"].startswith("True Started")


def test_replicas_that_go_take_their_workloads_with_them() -> None:
    history = begun(8).step(worker_set("llm", 3, 1, 2))
    assert len(admitted(history)) == 3
    history.patch("LeaderWorkerSet", "llm", "a", spec={"replicas": 1})
    assert sorted(workloads(history)) == ["leaderworkerset-llm-0"]
    history.patch("LeaderWorkerSet", "llm", "a", spec={"replicas": 2})
    assert admitted(history) == ["leaderworkerset-llm-0", "leaderworkerset-llm-1"]


def test_a_leader_worker_set_follows_its_queue_label() -> None:
    history = begun(1).step(worker_set("llm", 1, 2, 1))
    assert admitted(history) == []
    history.step({**local_queue("a"), "metadata": {"name": "other", "namespace": "a"}})
    changed = worker_set("llm", 1, 2, 1)
    changed["metadata"]["labels"][QUEUE] = "other"
    history.step(changed)
    assert {spec_of(w)["queueName"] for w in workloads(history).values()} == {"other"}


def test_a_stateful_set_scaled_to_zero_holds_its_workload() -> None:
    history = begun(4).step(stateful_set("db", 2, 2))
    (name,) = (w["metadata"]["name"] for w in workloads(history).values())
    assert admitted(history) == ["statefulset-db"]
    assert history.bound("a/db") == 2
    history.patch("StatefulSet", "db", "a", spec={"replicas": 0})
    held = "False OnHold: StatefulSet scaled to zero; workload on hold"
    assert history.said(name)["QuotaReserved"] == held
    # The Workload keeps the size it was made with.
    history.patch("StatefulSet", "db", "a", spec={"replicas": 1})
    assert pod_sets(workloads(history)["statefulset-db"]) == [("main", 2)]
    assert admitted(history) == ["statefulset-db"]


def test_pods_of_a_stateful_set_start_one_after_another_behind_one_admission() -> None:
    history = begun(6).step(stateful_set("db", 3, 2))
    (workload,) = workloads(history).values()
    owners = [o["name"] for o in workload["metadata"]["ownerReferences"]]
    assert owners == ["db", "db-0", "db-1", "db-2"]
    assert history.said(workload["metadata"]["name"])["PodsReady"].startswith("True Started")


def test_a_pod_of_another_role_is_left_waiting_beside_its_group() -> None:
    def pod(name: str, gpus: int) -> Obj:
        marks = {"kueue.x-k8s.io/pod-group-total-count": "2", "fairway.dev/run-time": "forever"}
        labels = {QUEUE: "lq", "kueue.x-k8s.io/pod-group-name": "pair"}
        made = template(gpus)
        meta = {"name": name, "namespace": "a", "labels": labels, "annotations": marks}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}

    history = begun(8).step(pod("one", 2), pod("two", 2)).step(pod("odd", 1))
    assert history.admitted() == ["pair"]
    assert [job for job in sorted(history.seen["pods"]) if history.bound(job)] == ["a/one", "a/two"]
