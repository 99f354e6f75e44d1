"""Training jobs under Kueue in the twin: suspended until admitted, whole or not at all, stopped and begun again."""

from __future__ import annotations

from typing import Any

import pytest
from test_training_lifecycles import FOREVER, TEN_MINUTES, an, role, template, twin

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.configuration import configured
from fairway.queueing.webhooks.settings import INSTALLED_FRAMEWORKS
from fairway.scenario.entering import enter
from fairway.twin.twin import Twin

KUEUE = "kueue.x-k8s.io/v1beta2"
HOUR = 3600 * SECOND_US
# Kueue's own manifests leave the kinds of the training operator out.
WITH_TRAINING = configured(
    {"integrations": {"frameworks": [*INSTALLED_FRAMEWORKS, "kubeflow.org/pytorchjob", "kubeflow.org/tfjob"]}}
).kueue_settings()


def with_queues(gpus: int) -> Twin:
    """A twin with four nodes of eight GPUs, and a queue that may use so many of them."""
    made = twin(kueue=WITH_TRAINING)
    quotas = [{"name": "cpu", "nominalQuota": 100}, {"name": "nvidia.com/gpu", "nominalQuota": gpus}]
    flavor = {"name": "a", "resources": quotas}
    queue = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [flavor]}],
    }
    objects: list[Obj] = [
        {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "a"}, "spec": {}},
        {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": queue},
        {
            "apiVersion": KUEUE,
            "kind": "LocalQueue",
            "metadata": {"name": "lq", "namespace": "default"},
            "spec": {"clusterQueue": "cq"},
        },
    ]
    for name, value in (("low", 10), ("high", 100)):
        meta = {"name": name}
        objects.append(
            {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": meta, "value": value}
        )
    for obj in objects:
        enter(made.host, obj)
    made.run_for(SECOND_US)
    return made


def queued(obj: Obj, name: str, priority: str = "low") -> Obj:
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": priority}
    return {**obj, "metadata": {**obj["metadata"], "name": name, "labels": labels}}


def jobset(pods: int) -> Obj:
    job = {"parallelism": pods, "completions": pods, "template": template("c", **TEN_MINUTES)}
    return an(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        replicatedJobs=[{"name": "w", "replicas": 1, "template": {"spec": job}}],
    )


def ray_job() -> Obj:
    groups = [{"groupName": "g", "replicas": 2, "template": template("ray")}]
    spec = {"headGroupSpec": {"template": template("ray", 0)}, "workerGroupSpecs": groups}
    job = an(
        "ray.io/v1", "RayJob", rayClusterSpec=spec, submissionMode="HTTPMode", shutdownAfterJobFinishes=True
    )
    job["metadata"]["annotations"] = {"fairway.dev/run-time": "10m"}
    return job


# Each of two pods with eight GPUs, and of as many pods in all.
GANGS: dict[str, tuple[Obj, int]] = {
    "JobSet": (jobset(2), 2),
    "PyTorchJob": (
        an(
            "kubeflow.org/v1",
            "PyTorchJob",
            pytorchReplicaSpecs={
                "Master": role("pytorch", 1, **TEN_MINUTES),
                "Worker": role("pytorch", 1, **TEN_MINUTES),
            },
        ),
        2,
    ),
    "TFJob": (
        an("kubeflow.org/v1", "TFJob", tfReplicaSpecs={"Worker": role("tensorflow", 2, **TEN_MINUTES)}),
        2,
    ),
    "MPIJob": (
        an(
            "kubeflow.org/v2beta1",
            "MPIJob",
            mpiReplicaSpecs={
                "Launcher": role("mpi", 1, 0, **TEN_MINUTES),
                "Worker": role("mpi", 2, **FOREVER),
            },
            runPolicy={"cleanPodPolicy": "Running"},
        ),
        3,
    ),
    "RayJob": (ray_job(), 3),
}


def gpu_pods(made: Twin) -> int:
    return sum(
        "nvidia.com/gpu" in p["spec"]["containers"][0]["resources"]["limits"]
        for p in made.store.objects("Pod")
        if p["status"].get("phase") == "Running"
    )


def workloads(made: Twin) -> dict[str, list[str]]:
    """The true conditions of the Workloads by their owners' names."""
    return {
        w["metadata"]["ownerReferences"][0]["name"]: [
            c["type"] for c in (w.get("status") or {}).get("conditions") or () if c["status"] == "True"
        ]
        for w in made.store.objects("Workload.kueue.x-k8s.io")
    }


@pytest.mark.parametrize("case", GANGS)
def test_a_gang_that_does_not_fit_its_quota_has_no_pod_at_all(case: str) -> None:
    made = with_queues(gpus=15)
    job, _ = GANGS[case]
    enter(made.host, queued(job, "gang"))
    made.run_for(60 * SECOND_US)
    assert [p["metadata"]["name"] for p in made.store.objects("Pod")] == []
    assert "Admitted" not in workloads(made)["gang"]


@pytest.mark.parametrize("case", GANGS)
def test_a_gang_waits_starts_whole_and_ends(case: str) -> None:
    made = with_queues(gpus=16)
    job, pods = GANGS[case]
    enter(made.host, queued(job, "first"))
    enter(made.host, queued(job, "second"))
    made.run_for(60 * SECOND_US)
    assert len([p for p in made.store.objects("Pod") if p["status"].get("phase") == "Running"]) == pods
    assert gpu_pods(made) == 2
    assert [n for n, c in workloads(made).items() if "Admitted" in c] == ["first"]
    made.run_for(HOUR)
    assert all("Finished" in c for c in workloads(made).values())
    assert gpu_pods(made) == 0


@pytest.mark.parametrize("case", GANGS)
def test_a_preempted_gang_lets_go_and_begins_again(case: str) -> None:
    made = with_queues(gpus=16)
    job, _ = GANGS[case]
    enter(made.host, queued(job, "low"))
    made.run_for(120 * SECOND_US)
    assert gpu_pods(made) == 2
    enter(made.host, queued(jobset(2), "urgent", "high"))
    made.run_for(120 * SECOND_US)
    states = workloads(made)
    assert "Admitted" in states["urgent"] and "Admitted" not in states["low"]
    assert "Preempted" in states["low"]
    running = [p for p in made.store.objects("Pod") if p["status"].get("phase") == "Running"]
    assert {p["metadata"]["name"].split("-")[0] for p in running} == {"urgent"}
    made.run_for(2 * HOUR)
    assert all("Finished" in c for c in workloads(made).values())


def test_a_pod_group_starts_when_it_is_whole_and_admitted() -> None:
    made = with_queues(gpus=16)

    def member(name: str) -> Obj:
        one: dict[str, Any] = template("c", **TEN_MINUTES)
        one["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = "2"
        labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-name": "group"}
        one["metadata"].update(name=name, namespace="default", labels=labels)
        one["spec"]["restartPolicy"] = "Never"
        return {"apiVersion": "v1", "kind": "Pod", **one}

    enter(made.host, member("a"))
    made.run_for(60 * SECOND_US)
    assert gpu_pods(made) == 0
    enter(made.host, member("b"))
    made.run_for(60 * SECOND_US)
    assert gpu_pods(made) == 2
    made.run_for(HOUR)
    (workload,) = made.store.objects("Workload.kueue.x-k8s.io")
    finished = next(c for c in workload["status"]["conditions"] if c["type"] == "Finished")
    assert finished["message"] == "Pods succeeded: 2/2."
    pods = [made.store.require(Key("Pod", "default", n)) for n in ("a", "b")]
    assert all("kueue.x-k8s.io/managed" not in (p["metadata"].get("finalizers") or ()) for p in pods)


def serving(kind: str) -> Obj:
    """Two pods of eight GPUs that serve until they are deleted."""
    pod = template("c", **FOREVER)
    if kind == "LeaderWorkerSet":
        spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pod}}
        return an("leaderworkerset.x-k8s.io/v1", kind, **spec)
    pod["metadata"]["labels"] = {"app": "x"}
    return an(
        "apps/v1", kind, replicas=2, selector={"matchLabels": {"app": "x"}}, template=pod, serviceName="x"
    )


@pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet"])
def test_serving_sets_are_admitted_whole(kind: str) -> None:
    made = with_queues(gpus=15)
    enter(made.host, queued(serving(kind), "serve"))
    made.run_for(60 * SECOND_US)
    assert gpu_pods(made) == 0
    made = with_queues(gpus=16)
    enter(made.host, queued(serving(kind), "serve"))
    made.run_for(60 * SECOND_US)
    assert gpu_pods(made) == 2
    (workload,) = made.store.objects("Workload.kueue.x-k8s.io")
    assert [(ps["name"], ps["count"]) for ps in workload["spec"]["podSets"]] == [("main", 2)]
    assert workload["metadata"]["annotations"]["kueue.x-k8s.io/job-owner-name"] == "serve"


@pytest.mark.parametrize("kind", ["StatefulSet", "LeaderWorkerSet", "Deployment"])
def test_preempted_serving_sets_come_back(kind: str) -> None:
    made = with_queues(gpus=16)
    enter(made.host, queued(serving(kind), "serve"))
    made.run_for(60 * SECOND_US)
    enter(made.host, queued(jobset(2), "urgent", "high"))
    made.run_for(120 * SECOND_US)
    running = [p for p in made.store.objects("Pod") if p["status"].get("phase") == "Running"]
    assert {p["metadata"]["name"].split("-")[0] for p in running} == {"urgent"}
    made.run_for(HOUR)
    running = [p for p in made.store.objects("Pod") if p["status"].get("phase") == "Running"]
    assert {p["metadata"]["name"].split("-")[0] for p in running} == {"serve"}
    assert gpu_pods(made) == 2
