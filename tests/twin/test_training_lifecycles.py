"""Training jobs through a whole life in the twin: they start, run as long as they say, and end."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings
from fairway.scenario.entering import enter
from fairway.scenario.model import BehaviourProfile
from fairway.scenario.profiles import template_path, with_profiles
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin


def twin(nodes: int = 4, gpus: int = 8, kueue: KueueSettings = DEFAULT_KUEUE) -> Twin:
    made = Twin(seed=1, latency=latency_named("zero"), components=standard_components(kueue=kueue))
    enter(made.host, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    for i in range(nodes):
        labels = {"kubernetes.io/hostname": f"n{i}", "rack": f"r{i // 2}"}
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        status = {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
        meta = {"name": f"n{i}", "labels": labels}
        enter(made.host, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
    made.wake()
    return made


def template(container: str, gpus: int = 8, **behaviour: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    spec = {"containers": [{"name": container, "image": "i", "resources": {"limits": limits}}]}
    return {"metadata": {"annotations": {f"fairway.dev/{k}": v for k, v in behaviour.items()}}, "spec": spec}


def an(api_version: str, kind: str, **spec: Any) -> Obj:
    meta = {"name": "job", "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


TEN_MINUTES = {"run-time": "10m"}
FOREVER = {"run-time": "forever"}


def role(container: str, count: int, gpus: int = 8, **behaviour: str) -> dict[str, Any]:
    return {"replicas": count, "template": template(container, gpus, **behaviour)}


JOBS: dict[str, tuple[Obj, str, int]] = {
    "JobSet": (
        an(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            replicatedJobs=[
                {
                    "name": "w",
                    "replicas": 2,
                    "template": {
                        "spec": {"parallelism": 2, "completions": 2, "template": template("c", **TEN_MINUTES)}
                    },
                }
            ],
        ),
        "Completed",
        4,
    ),
    "PyTorchJob": (
        an(
            "kubeflow.org/v1",
            "PyTorchJob",
            pytorchReplicaSpecs={
                "Master": role("pytorch", 1, **TEN_MINUTES),
                "Worker": role("pytorch", 3, **TEN_MINUTES),
            },
        ),
        "Succeeded",
        4,
    ),
    "TFJob": (
        an(
            "kubeflow.org/v1",
            "TFJob",
            tfReplicaSpecs={
                "PS": role("tensorflow", 1, 0, **FOREVER),
                "Worker": role("tensorflow", 2, **TEN_MINUTES),
            },
            runPolicy={"cleanPodPolicy": "All"},
        ),
        "Succeeded",
        3,
    ),
    "XGBoostJob": (
        an(
            "kubeflow.org/v1",
            "XGBoostJob",
            xgbReplicaSpecs={
                "Master": role("xgboost", 1, **TEN_MINUTES),
                "Worker": role("xgboost", 1, **TEN_MINUTES),
            },
        ),
        "Succeeded",
        2,
    ),
    "MPIJob": (
        an(
            "kubeflow.org/v2beta1",
            "MPIJob",
            mpiReplicaSpecs={
                "Launcher": role("mpi", 1, 0, **TEN_MINUTES),
                "Worker": role("mpi", 3, **FOREVER),
            },
            runPolicy={"cleanPodPolicy": "Running"},
        ),
        "Succeeded",
        4,
    ),
}


def conditions(made: Twin, job: Obj) -> list[str]:
    group = job["apiVersion"].partition("/")[0]
    stored = made.store.require(Key(f"{job['kind']}.{group}", "default", "job"))
    return [c["type"] for c in stored["status"].get("conditions") or () if c["status"] == "True"]


def running(made: Twin) -> int:
    return sum(p["status"].get("phase") == "Running" for p in made.store.objects("Pod"))


@pytest.mark.parametrize("case", JOBS)
def test_a_whole_life(case: str) -> None:
    job, success, pods = JOBS[case]
    made = twin()
    enter(made.host, job)
    made.run_for(60 * SECOND_US)
    assert running(made) == pods
    assert success not in conditions(made, job)
    made.run_for(600 * SECOND_US)
    assert success in conditions(made, job)
    assert running(made) == 0, "nothing is left running"


def test_a_ray_job_lasts_as_long_as_its_submitter() -> None:
    made = twin()
    groups = [{"groupName": "g", "replicas": 2, "template": template("ray")}]
    spec = {"headGroupSpec": {"template": template("ray", 0)}, "workerGroupSpecs": groups}
    job = an("ray.io/v1", "RayJob", rayClusterSpec=spec, shutdownAfterJobFinishes=True)
    job["metadata"]["annotations"] = {"fairway.dev/run-time": "10m"}
    enter(made.host, job)
    made.run_for(60 * SECOND_US)
    assert running(made) == 4
    made.run_for(600 * SECOND_US)
    status = made.store.require(Key("RayJob.ray.io", "default", "job"))["status"]
    assert (status["jobDeploymentStatus"], status["jobStatus"]) == ("Complete", "SUCCEEDED")
    assert running(made) == 0


def leader_worker_set(**template_more: Any) -> Obj:
    # Slow to stop: a pod that is gone at once is not seen going, as upstream does not.
    worker = template("vllm", **{"stop-time": "10s"})
    return an(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        replicas=2,
        leaderWorkerTemplate={"size": 2, "workerTemplate": worker, **template_more},
    )


def env(made: Twin, name: str) -> dict[str, str]:
    pod = made.store.require(Key("Pod", "default", name))
    return {v["name"]: v["value"] for v in pod["spec"]["containers"][0]["env"]}


def test_a_leader_worker_set_is_groups_of_pods_that_know_their_leader() -> None:
    made = twin()
    enter(made.host, leader_worker_set())
    made.run_for(60 * SECOND_US)
    assert [p["metadata"]["name"] for p in made.store.objects("Pod")] == [
        "job-0",
        "job-0-1",
        "job-1",
        "job-1-1",
    ]
    assert env(made, "job-1-1") == {
        "LWS_LEADER_ADDRESS": "job-1.job.default",
        "LWS_GROUP_SIZE": "2",
        "LWS_WORKER_INDEX": "1",
    }
    assert env(made, "job-1")["LWS_WORKER_INDEX"] == "0"
    worker = made.store.require(Key("Pod", "default", "job-1-1"))
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {k.removeprefix(prefix): v for k, v in worker["metadata"]["labels"].items()}
    assert (labels["name"], labels["group-index"], labels["worker-index"]) == ("job", "1", "1")
    key = Key("LeaderWorkerSet.leaderworkerset.x-k8s.io", "default", "job")
    status = made.store.require(key)["status"]
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (2, 2, 2)
    assert conditions(made, leader_worker_set()) == ["Available"]
    told = [e.message for e in made.host.events.about(key) if e.reason == "AllGroupsReady"]
    assert told == ["All replicas are ready, with 2 groups ready of total 2 groups"]


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
def test_a_lost_worker_takes_its_group_with_it_unless_told_otherwise(policy: str) -> None:
    made = twin()
    enter(made.host, leader_worker_set(restartPolicy=policy))
    made.run_for(60 * SECOND_US)
    uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in made.store.objects("Pod")}
    made.store.delete(Key("Pod", "default", "job-0-1"))
    made.wake()
    made.run_for(120 * SECOND_US)
    after = {p["metadata"]["name"]: p["metadata"]["uid"] for p in made.store.objects("Pod")}
    assert sorted(after) == sorted(uids)
    changed = sorted(name for name in uids if uids[name] != after[name])
    assert changed == (["job-0-1"] if policy == "None" else ["job-0", "job-0-1"])
    assert running(made) == 4


def test_workers_may_wait_for_their_leader() -> None:
    made = twin()
    slow = template("vllm", **{"startup-time": "5m"})
    slow["spec"]["containers"][0]["readinessProbe"] = {
        "httpGet": {"path": "/", "port": 80},
        "periodSeconds": 1,
    }
    job = leader_worker_set(leaderTemplate=slow)
    job["spec"]["startupPolicy"] = "LeaderReady"
    enter(made.host, job)
    made.run_for(240 * SECOND_US)
    assert len(made.store.objects("Pod")) == 2
    made.run_for(120 * SECOND_US)
    assert len(made.store.objects("Pod")) == 4


def test_exclusive_jobs_of_a_jobset_each_have_a_rack() -> None:
    made = twin()
    job, _, _ = JOBS["JobSet"]
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    enter(made.host, {**job, "metadata": {**job["metadata"], "annotations": annotations}})
    made.run_for(300 * SECOND_US)
    racks: dict[str, set[str]] = {}
    for pod in made.store.objects("Pod"):
        node = made.store.require(Key("Node", "", pod["spec"]["nodeName"]))
        job_name = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        racks.setdefault(job_name, set()).add(node["metadata"]["labels"]["rack"])
    assert sorted(racks) == ["job-w-0", "job-w-1"]
    assert sorted(min(r) for r in racks.values()) == ["r0", "r1"]
    assert all(len(r) == 1 for r in racks.values())


def test_two_runs_agree() -> None:
    digests = []
    for _ in range(2):
        made = twin()
        for kind in sorted(JOBS):
            job, _, _ = JOBS[kind]
            enter(made.host, {**job, "metadata": {"name": f"job-{kind.lower()}", "namespace": "default"}})
        enter(made.host, leader_worker_set())
        made.run_for(3600 * SECOND_US)
        digests.append(made.digest())
    assert digests[0] == digests[1]


PROFILED: dict[str, Obj] = {
    "JobSet": JOBS["JobSet"][0],
    "PyTorchJob": JOBS["PyTorchJob"][0],
    "RayCluster": an(
        "ray.io/v1",
        "RayCluster",
        headGroupSpec={"template": template("ray")},
        workerGroupSpecs=[{"groupName": "a", "template": template("ray")}],
    ),
    "LeaderWorkerSet": leader_worker_set(),
}


@pytest.mark.parametrize("kind", PROFILED)
def test_behaviour_profiles_reach_every_template(kind: str) -> None:
    profile = BehaviourProfile(annotations={"gpu-utilization": "42%"}, kinds=(kind,))
    profiled = with_profiles(PROFILED[kind], (profile,))
    paths = template_path(profiled)
    assert len(paths) == {"PyTorchJob": 2, "RayCluster": 2}.get(kind, 1)
    for path in paths:
        at: Any = profiled
        for step in path:
            at = at[step]
        assert at["metadata"]["annotations"]["fairway.dev/gpu-utilization"] == "42%"
        assert at["spec"] is not None
    assert with_profiles(PROFILED[kind], ()) is PROFILED[kind]
