"""Replicas cost nothing before their pods exist: one look at an object that asks for 2^31-1 of them is a short look.

Each of these took all memory, or hours, where the controller went through every replica.
"""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.actions import Create, Delete, Emit, Reconciliation
from fairway.cluster.store import Store
from fairway.kube.objects import Obj, key_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads import replicaset
from fairway.workloads.pods import MOST_AT_ONCE, wanted_indexes
from fairway.workloads.registry import CONTROLLERS
from fairway.workloads.replicaset import BURST_REPLICAS
from fairway.workloads.volcanojob import decide as volcano
from fairway.workloads.volcanojob import gang
from fairway.workloads.volcanojob.spec import read_job

MOST = 2**31 - 1
NOW_US = parse_rfc3339("2026-01-05T08:00:00Z")
LABELS = {"app": "a"}
POD: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
LABELLED = {"metadata": {"labels": LABELS}, **POD}
SELECTED = {"selector": {"matchLabels": LABELS}, "template": LABELLED}


def training(container: str) -> dict[str, Any]:
    return {"replicas": MOST, "template": {"spec": {"containers": [{"name": container, "image": "i"}]}}}


def volcano_job(**spec: Any) -> Obj:
    return obj(
        "batch.volcano.sh/v1alpha1",
        "Job",
        {"tasks": [{"name": "w", "replicas": MOST, "template": POD}], **spec},
    )


def obj(api_version: str, kind: str, spec: dict[str, Any]) -> Obj:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "many", "namespace": "default"},
        "spec": spec,
    }


# Controller, object, how many objects the first look makes (at most).
KINDS: dict[str, tuple[str, Obj, int]] = {
    "a ReplicaSet": ("replicaset", obj("apps/v1", "ReplicaSet", {"replicas": MOST, **SELECTED}), 500),
    "a Job": (
        "job",
        obj("batch/v1", "Job", {"parallelism": MOST, "completions": MOST, "template": POD}),
        500,
    ),
    "an ordered StatefulSet": (
        "statefulset",
        obj("apps/v1", "StatefulSet", {"replicas": MOST, "serviceName": "s", **SELECTED}),
        2,
    ),
    "a parallel StatefulSet": (
        "statefulset",
        obj(
            "apps/v1",
            "StatefulSet",
            {"replicas": MOST, "serviceName": "s", "podManagementPolicy": "Parallel", **SELECTED},
        ),
        501,
    ),
    "a JobSet": (
        "jobset",
        obj(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "w", "replicas": MOST, "template": {"spec": {"template": POD}}}]},
        ),
        502,
    ),
    "a PyTorchJob": (
        "pytorchjob-controller",
        obj("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": training("pytorch")}}),
        1002,
    ),
    "a TFJob, whose pods name each other": (
        "tfjob-controller",
        obj("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": {"Worker": training("tensorflow")}}),
        2,
    ),
    "an XGBoostJob, whose pods name each other": (
        "xgboostjob-controller",
        obj("kubeflow.org/v1", "XGBoostJob", {"xgbReplicaSpecs": {"Worker": training("xgboost")}}),
        2,
    ),
    "an MPIJob, whose host file names all": (
        "mpi-operator",
        obj(
            "kubeflow.org/v2beta1",
            "MPIJob",
            {"mpiReplicaSpecs": {"Launcher": {**training("l"), "replicas": 1}, "Worker": training("w")}},
        ),
        2,
    ),
    "a RayCluster": (
        "raycluster",
        obj(
            "ray.io/v1",
            "RayCluster",
            {
                "headGroupSpec": {"rayStartParams": {}, "template": POD},
                "workerGroupSpecs": [
                    {
                        "groupName": "w",
                        "replicas": MOST,
                        "maxReplicas": MOST,
                        "rayStartParams": {},
                        "template": POD,
                    }
                ],
            },
        ),
        503,
    ),
    "a LeaderWorkerSet": (
        "leaderworkerset",
        obj(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"replicas": MOST, "leaderWorkerTemplate": {"size": MOST, "workerTemplate": POD}},
        ),
        10,
    ),
}


def looked(store: Store, name: str, made: Obj) -> Reconciliation:
    by_name = {c.name: c for c in (*CONTROLLERS, volcano.CONTROLLER)}
    return by_name[name].reconcile(store, key_of(made), NOW_US)


def created(decided: Reconciliation) -> list[Obj]:
    return [a.obj for a in decided.actions if isinstance(a, Create)]


@pytest.mark.parametrize("name", KINDS)
def test_one_look_at_many_replicas(name: str) -> None:
    controller, wanted, most = KINDS[name]
    store = Store(now_us=NOW_US)
    made = store.create(wanted)
    assert len(created(looked(store, controller, made))) <= most


def let_in(store: Store, job: Obj) -> None:
    """Its PodGroup is there, and Inqueue."""
    group = store.create(gang.new_group(store, read_job(job)))
    store.set_status(key_of(group), {"phase": "Inqueue"})


def test_a_volcano_job_makes_its_pods_bit_by_bit() -> None:
    store = Store(now_us=NOW_US)
    job = store.create(volcano_job())
    let_in(store, job)
    first = created(looked(store, "vc-job-controller", job))
    assert [p["metadata"]["name"] for p in first] == [f"many-w-{i}" for i in range(MOST_AT_ONCE)]
    for pod in first[:3]:
        store.create(pod)
    again = created(looked(store, "vc-job-controller", job))
    assert [p["metadata"]["name"] for p in again] == [f"many-w-{i}" for i in range(3, MOST_AT_ONCE + 3)]


@pytest.mark.parametrize("plugin", ["svc", "ssh"])
def test_a_volcano_job_whose_hosts_fill_no_config_map_says_so(plugin: str) -> None:
    store = Store(now_us=NOW_US)
    job = store.create(volcano_job(plugins={plugin: []}))
    decided = looked(store, "vc-job-controller", job)
    assert created(decided) == []
    said = [a for a in decided.actions if isinstance(a, Emit)]
    assert [(a.reason, a.message) for a in said] == [
        ("PluginError", "Execute plugin when job add failed, err: etcdserver: request is too large")
    ]


def test_what_a_gang_needs_is_multiplied() -> None:
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    tasks = [{"name": "w", "replicas": MOST, "template": {"spec": spec}}]
    job = obj("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks})
    assert gang.min_resources(Store(), read_job(job))["cpu"] == MOST * 1000


# Replicas, held, room, what is wanted.
WANTED: dict[str, tuple[int, set[int], int, list[int]]] = {
    "nothing is held": (3, set(), 5, [0, 1, 2]),
    "a gap": (4, {1, 3}, 1, [0, 1, 3]),
    "no room": (MOST, {7}, 0, [7]),
    "held beyond": (2, {0, 9}, 9, [0, 1]),
    "many": (MOST, {0, 2}, 2, [0, 1, 2, 3]),
}


@pytest.mark.parametrize("name", WANTED)
def test_wanted_indexes(name: str) -> None:
    replicas, held, room, want = WANTED[name]
    assert wanted_indexes(replicas, held, room) == want


def test_pods_that_name_each_other_are_made_few_at_a_time_until_no_pod_could_hold_all_names() -> None:
    """Twenty bytes an address at least: etcd takes 1,572,864 in all. Half a million addresses are written at a look."""
    for replicas, few in ((100, 100), (2_000, 250), (78_644, 0)):
        roles = {"Worker": {**training("tensorflow"), "replicas": replicas}}
        job = obj("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": roles})
        store = Store(now_us=NOW_US)
        decided = looked(store, "tfjob-controller", store.create(job))
        pods = [o for o in created(decided) if o["kind"] == "Pod"]
        assert len(pods) == few
        told = [a.message for a in decided.actions if isinstance(a, Emit) and a.reason == "FailedCreatePod"]
        assert told == ([] if few else ["Error creating: etcdserver: request is too large"])


def test_a_replica_set_makes_and_takes_away_so_many_at_a_time() -> None:
    """With more to do than one look does, it looks again at once."""
    for replicas, is_more in ((BURST_REPLICAS, False), (BURST_REPLICAS + 1, True)):
        store = Store(now_us=NOW_US)
        owner = store.create(obj("apps/v1", "ReplicaSet", {"replicas": replicas, **SELECTED}))
        looks = [replicaset.reconcile(store, key_of(owner), NOW_US)]
        made = [action for action in looks[0].actions if isinstance(action, Create)]
        for pod in made:
            store.create(pod.obj)
        if is_more:
            last = {**made[0].obj, "metadata": {**made[0].obj["metadata"], "name": "one-more"}}
            store.create(last)
        store.patch(key_of(owner), {"spec": {"replicas": 0}})
        looks.append(replicaset.reconcile(store, key_of(owner), NOW_US))
        gone = [action for action in looks[1].actions if isinstance(action, Delete)]
        assert (len(made), len(gone)) == (BURST_REPLICAS, BURST_REPLICAS)
        assert [look.again_at_us for look in looks] == [NOW_US if is_more else None] * 2
