"""Which pods have to run together, how many, and how long they wait for each other: a table of kinds of jobs.

Source: torch.distributed.elastic.rendezvous, mpi-operator, tf.config.experimental.coordination_service, xgboost.
"""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads.worldsize import gang_of

MINUTE = 60_000_000
TRAINING, OPERATOR = "training.kubeflow.org/job-name", "training.kubeflow.org/operator-name"
ROLE = "training.kubeflow.org/job-role"
KINDS = {
    "PyTorchJob": ("pytorchjob-controller", "pytorchReplicaSpecs", 10 * MINUTE),
    "TFJob": ("tfjob-controller", "tfReplicaSpecs", 60 * MINUTE),
    "XGBoostJob": ("xgboostjob-controller", "xgbReplicaSpecs", 5 * MINUTE),
}


def role(replicas: int) -> Obj:
    return {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}


def world(api: str, kind: str, spec: Obj) -> tuple[Store, str]:
    store = Store(seed=1, now_us=parse_rfc3339("2026-01-05T08:00:00Z"))
    made = store.create(
        {"apiVersion": api, "kind": kind, "metadata": {"name": "j", "namespace": "ml"}, "spec": spec}
    )
    return store, made["metadata"]["uid"]


def pod(labels: dict[str, str], owner: str | None = None, *env: str) -> Obj:
    meta: dict[str, Any] = {"name": "p", "namespace": "ml", "labels": labels}
    if owner is not None:
        meta["ownerReferences"] = [{"uid": owner}]
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "main", "env": [{"name": n, "value": "2"} for n in env]}]},
    }


def told(store: Store, given: Obj) -> tuple[int, int] | None:
    found = gang_of(store, given)
    return None if found is None else (found.needed, found.timeout_us)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("roles", "more", "needed"),
    [
        ({"Master": 1, "Worker": 3}, {}, 4),
        ({"Worker": 2}, {}, 2),
        ({"Worker": 1}, {}, None),
        ({"Worker": 2, "Evaluator": 1}, {}, 2),
        ({"Worker": 2, "PS": 2}, {}, None),
        ({"Worker": 4}, {"elasticPolicy": {"minReplicas": 2}}, 2),
        ({"Worker": 4}, {"elasticPolicy": {"minReplicas": 1}}, None),
        ({"Worker": 4}, {"elasticPolicy": {}}, None),
    ],
)
def test_members_of_a_training_job(kind: str, roles: dict[str, int], more: Obj, needed: int | None) -> None:
    operator, field, timeout_us = KINDS[kind]
    if "PS" in roles and kind != "TFJob":  # parameter servers are TensorFlow's alone
        needed = 2
    store, uid = world("kubeflow.org/v1", kind, {field: {r: role(n) for r, n in roles.items()}, **more})
    labels = {TRAINING: "j", OPERATOR: operator, ROLE: "worker"}
    assert told(store, pod(labels, uid)) == (None if needed is None else (needed, timeout_us))
    assert told(store, pod(labels, "another")) is None, "a job of this name that came later"
    assert told(store, pod(labels)) is None
    assert told(store, pod({**labels, TRAINING: "gone"}, uid)) is None
    found = gang_of(store, pod(labels, uid))
    assert found is None or found.key == uid


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_the_launcher_of_an_mpi_job_needs_its_workers(workers: int) -> None:
    specs = {"Launcher": role(1), "Worker": role(workers)}
    store, uid = world("kubeflow.org/v2beta1", "MPIJob", {"slotsPerWorker": 1, "mpiReplicaSpecs": specs})
    labels = {TRAINING: "j", OPERATOR: "mpi-operator", ROLE: "launcher"}
    assert told(store, pod(labels, uid)) == ((workers + 1, 10_000_000) if workers else None)
    assert told(store, pod({k: v for k, v in labels.items() if k != ROLE}, uid)) is None
    assert told(store, pod({**labels, TRAINING: "gone"}, uid)) is None


@pytest.mark.parametrize(("least", "needed"), [(1, None), (2, 2), (None, 4)])
def test_members_of_a_volcano_job_wait_as_long_as_it_takes(least: int | None, needed: int | None) -> None:
    spec = {"tasks": [{"name": "w", **role(4)}], **({} if least is None else {"minAvailable": least})}
    store, _ = world("batch.volcano.sh/v1alpha1", "Job", spec)
    assert told(store, pod({"volcano.sh/job-name": "j"})) == (None if needed is None else (needed, 0))
    assert told(store, pod({"volcano.sh/job-name": "gone"})) is None


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "PET_NNODES", "NNODES", "RANK", None])
@pytest.mark.parametrize("parallelism", [None, 1, 3])
def test_pods_of_an_indexed_job_that_are_told_a_world_size(
    variable: str | None, parallelism: int | None
) -> None:
    store, _ = world("batch/v1", "Job", {} if parallelism is None else {"parallelism": parallelism})
    index = "batch.kubernetes.io/job-completion-index"
    env = () if variable is None else ("FIRST", variable)
    is_told = variable in ("WORLD_SIZE", "PET_NNODES", "NNODES")
    want = (3, 10 * MINUTE) if is_told and parallelism == 3 else None
    assert told(store, pod({index: "0", "batch.kubernetes.io/job-name": "j"}, None, *env)) == want
    assert told(store, pod({index: "0", "batch.kubernetes.io/job-name": "gone"}, None, *env)) is None
    assert told(store, pod({"batch.kubernetes.io/job-name": "j"}, None, *env)) is None
