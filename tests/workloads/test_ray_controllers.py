"""RayCluster and RayJob: pods, labels and variables; states; suspension; what is left when the job is over."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import World, names

from fairway.kube.objects import Key, Obj
from fairway.workloads.ray import cluster as raycluster

CLUSTER = Key("RayCluster.ray.io", "default", "ray")
JOB = Key("RayJob.ray.io", "default", "train")


def template(image: str = "ray:2", gpus: int = 0) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"spec": {"containers": [{"name": "ray", "image": image, "resources": {"limits": limits}}]}}


def cluster_spec(**more: Any) -> dict[str, Any]:
    groups = [
        {"groupName": "gpu", "replicas": 2, "minReplicas": 1, "maxReplicas": 4, "template": template(gpus=8)}
    ]
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": groups, **more}


def cluster(**more: Any) -> Obj:
    meta = {"name": "ray", "namespace": "default"}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": cluster_spec(**more)}


def ray_job(**spec: Any) -> Obj:
    meta = {"name": "train", "namespace": "default"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": meta,
        "spec": {"rayClusterSpec": cluster_spec(), **spec},
    }


def test_a_settled_cluster_is_not_written_again() -> None:
    world = World()
    world.apply(cluster())
    look = raycluster.reconcile(world.store, CLUSTER, world.now_us + 1_000_000)
    assert look.actions == (), "the time alone is no news"


def state(world: World) -> str:
    return str(world.status(JOB).get("jobDeploymentStatus"))


def test_a_cluster_is_a_head_and_its_workers() -> None:
    world = World()
    world.apply(cluster())
    by_name = {p["metadata"]["name"]: p for p in world.pods()}
    assert by_name["ray-head"]["metadata"]["labels"] == {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": "ray",
        "ray.io/node-type": "head",
        "ray.io/group": "headgroup",
        "ray.io/identifier": "ray-head",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    workers = [p for n, p in by_name.items() if n.startswith("ray-gpu-worker-")]
    assert len(workers) == 2
    env = {v["name"]: v.get("value") for v in workers[0]["spec"]["containers"][0]["env"]}
    assert env["FQ_RAY_IP"] == "ray-head-svc.default.svc.cluster.local"
    assert env["RAY_IP"] == "ray-head-svc"
    assert env["RAY_ADDRESS"] == "ray-head-svc.default.svc.cluster.local:6379"
    assert env["RAY_PORT"] == "6379"
    assert workers[0]["spec"]["initContainers"][0]["name"] == "wait-gcs-ready"
    assert world.get(Key("Service", "default", "ray-head-svc"))
    status = world.status(CLUSTER)
    assert (status["state"], status["desiredWorkerReplicas"], status["desiredGPU"]) == ("ready", 2, "16")
    provisioned = world.condition(CLUSTER, "RayClusterProvisioned")
    assert provisioned is not None
    assert provisioned["message"] == "All Ray Pods are ready for the first time"


DESIRED = {
    "within its bounds": ({"replicas": 9, "maxReplicas": 4}, 4),
    "at least": ({"replicas": 0, "minReplicas": 2}, 2),
    "several hosts each": ({"replicas": 2, "numOfHosts": 4}, 8),
    "suspended": ({"replicas": 2, "suspend": True}, 0),
}


@pytest.mark.parametrize(("group", "want"), DESIRED.values(), ids=DESIRED.keys())
def test_how_many_workers(group: dict[str, Any], want: int) -> None:
    world = World()
    made = cluster()
    made["spec"]["workerGroupSpecs"] = [{"groupName": "g", "template": template(), **group}]
    world.apply(made)
    assert len(world.pods(**{"ray.io/node-type": "worker"})) == want
    assert len(world.pods(**{"ray.io/node-type": "head"})) == 1


def test_a_suspended_cluster_has_no_pods_and_comes_back() -> None:
    world = World()
    world.apply(cluster())
    world.patch(CLUSTER, {"spec": {"suspend": True}})
    assert world.pods() == []
    assert world.status(CLUSTER)["state"] == "suspended"
    suspended = world.condition(CLUSTER, "RayClusterSuspended")
    assert suspended is not None and suspended["status"] == "True"
    assert world.told("DeletedPod") == ["Deleted Pods for RayCluster default/ray due to suspension"]
    world.patch(CLUSTER, {"spec": {"suspend": False}})
    assert len(world.pods()) == 3
    assert world.status(CLUSTER)["state"] == "ready"


def test_a_failed_worker_is_replaced() -> None:
    world = World()
    world.apply(cluster())
    worker = world.pods(**{"ray.io/node-type": "worker"})[0]
    world.finish(worker, 1)
    workers = world.pods(**{"ray.io/node-type": "worker"})
    assert len(workers) == 2 and worker["metadata"]["name"] not in names(workers)


def test_a_job_submits_when_its_cluster_is_ready_and_ends_with_its_submitter() -> None:
    world = World()
    world.hold = ("ray:2",)
    world.apply(ray_job(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=60))
    assert state(world) == "Initializing"
    (made,) = world.store.objects("RayCluster.ray.io")
    assert made["metadata"]["name"] == world.status(JOB)["rayClusterName"]
    assert made["metadata"]["labels"]["ray.io/originated-from-cr-name"] == "train"
    assert world.store.objects("Job.batch") == []
    for pod in world.pods():
        world.make_ready(pod)
    assert (state(world), world.status(JOB)["jobStatus"]) == ("Running", "")
    (submitter,) = world.pods(**{"batch.kubernetes.io/job-name": "train"})
    world.hold = ()
    world.make_ready(submitter)
    assert world.status(JOB)["jobStatus"] == "RUNNING"
    env = {v["name"]: v["value"] for v in submitter["spec"]["containers"][0]["env"]}
    assert env["RAY_JOB_SUBMISSION_ID"] == world.status(JOB)["jobId"]
    assert env["RAY_DASHBOARD_ADDRESS"].endswith("-head-svc.default.svc.cluster.local:8265")
    world.finish(submitter)
    assert state(world) == "Complete"
    assert (world.status(JOB)["jobStatus"], world.status(JOB)["succeeded"]) == ("SUCCEEDED", 1)
    world.advance(59)
    assert len(world.store.objects("RayCluster.ray.io")) == 1
    world.advance(2)
    assert world.store.objects("RayCluster.ray.io") == []
    assert names(world.pods()) == [submitter["metadata"]["name"]]


def test_a_submitter_that_fails_fails_the_job() -> None:
    world = World()
    world.apply(ray_job(submitterConfig={"backoffLimit": 0}))
    (submitter,) = world.pods(**{"batch.kubernetes.io/job-name": "train"})
    world.finish(submitter, 1)
    assert state(world) == "Failed"
    assert world.status(JOB)["reason"] == "AppFailed"
    assert world.status(JOB)["failed"] == 1


def test_a_failed_job_is_tried_again_with_a_new_cluster() -> None:
    world = World()
    world.apply(ray_job(submitterConfig={"backoffLimit": 0}, backoffLimit=1))
    first = world.status(JOB)["rayClusterName"]
    (submitter,) = world.pods(**{"batch.kubernetes.io/job-name": "train"})
    world.finish(submitter, 1)
    assert state(world) == "Running"
    assert world.status(JOB)["rayClusterName"] != first
    (submitter,) = world.pods(**{"batch.kubernetes.io/job-name": "train"})
    world.finish(submitter, 1)
    assert (state(world), world.status(JOB)["failed"]) == ("Failed", 2)


def test_a_job_past_its_deadline_fails() -> None:
    world = World()
    world.apply(ray_job(activeDeadlineSeconds=60))
    world.advance(61)
    assert (state(world), world.status(JOB)["reason"]) == ("Failed", "DeadlineExceeded")


def test_suspending_releases_everything_and_resuming_begins_anew() -> None:
    world = World()
    world.apply(ray_job())
    assert len(world.pods()) == 4
    world.patch(JOB, {"spec": {"suspend": True}})
    assert (state(world), world.pods()) == ("Suspended", [])
    assert "rayClusterName" not in world.status(JOB)
    world.patch(JOB, {"spec": {"suspend": False}})
    assert (state(world), len(world.pods())) == ("Running", 4)


def test_over_http_the_job_takes_as_long_as_its_annotation_says() -> None:
    world = World()
    made = ray_job(submissionMode="HTTPMode")
    made["metadata"]["annotations"] = {"fairway.dev/run-time": "10m"}
    world.apply(made)
    assert (state(world), len(world.pods())) == ("Running", 3)
    world.advance(601)
    assert state(world) == "Complete"
