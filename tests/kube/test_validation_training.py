"""What webhooks and schemas of the training kinds refuse, in their words."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.kube.validation.validating import validate


def template(container: str = "c", **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": "i"}], **spec}}


def an(api_version: str, kind: str, name: str = "job", **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


def jobset(*groups: dict[str, Any], name: str = "job", **spec: Any) -> Obj:
    made = [{"template": {"spec": {"template": template()}}, **g} for g in groups or ({"name": "w"},)]
    return an("jobset.x-k8s.io/v1alpha2", "JobSet", name, replicatedJobs=made, **spec)


def torch(**roles: Any) -> Obj:
    return an("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs=roles)


def mpi(**roles: Any) -> Obj:
    return an("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs=roles)


def role(container: str, **more: Any) -> dict[str, Any]:
    return {"template": template(container), **more}


GOOD: dict[str, Obj] = {
    "JobSet": jobset({"name": "a"}, {"name": "b", "dependsOn": [{"name": "a", "status": "Ready"}]}),
    "PyTorchJob": torch(Master=role("pytorch", replicas=1), Worker=role("pytorch")),
    "TFJob": an("kubeflow.org/v1", "TFJob", tfReplicaSpecs={"PS": role("tensorflow")}),
    "MPIJob": mpi(Launcher=role("any"), Worker=role("any", replicas=3)),
    "RayCluster": an("ray.io/v1", "RayCluster", headGroupSpec={"template": template()}),
    "LeaderWorkerSet": an(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", leaderWorkerTemplate={"workerTemplate": template()}
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_good_ones_pass(case: str) -> None:
    assert validate(GOOD[case]) == []


BAD: dict[str, tuple[Obj, str]] = {
    "a success policy that points nowhere": (
        jobset(successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]}),
        "invalid replicatedJob name 'x' does not appear in .spec.ReplicatedJobs",
    ),
    "a dependency on what comes later": (
        jobset({"name": "a"}, {"name": "b", "dependsOn": [{"name": "c", "status": "Ready"}]}, {"name": "c"}),
        "replicatedJob: b cannot depend on replicatedJob: c",
    ),
    "the first depends on something": (
        jobset({"name": "a", "dependsOn": []}),
        "DependsOn can't be set for the first ReplicatedJob",
    ),
    "an action behind a gate": (
        jobset(failurePolicy={"rules": [{"action": "RestartJob"}]}),
        "not allowed when RestartJob feature gate is disabled",
    ),
    "a failure reason nobody has": (
        jobset(failurePolicy={"rules": [{"action": "FailJobSet", "onJobFailureReasons": ["Bored"]}]}),
        "invalid job failure reason 'Bored' in failure policy is not a recognized job failure reason",
    ),
    "a coordinator that does not exist": (
        jobset(coordinator={"replicatedJob": "x"}),
        "coordinator replicatedJob x does not exist",
    ),
    "a name too long for its jobs": (
        jobset(name="x" * 62),
        "JobSet name is too long, job names generated for this JobSet will exceed 63 characters",
    ),
    "a field of a pod template that does not exist": (
        jobset({"name": "a", "template": {"spec": {"template": template(nodeSelektor={})}}}),
        'unknown field "spec.replicatedJobs[0].template.spec.template.spec.nodeSelektor"',
    ),
    "no container pytorch": (
        torch(Worker=role("trainer")),
        "must have at least one container with name pytorch",
    ),
    "two masters": (torch(Master=role("pytorch", replicas=2)), "spec.pytorchReplicaSpecs[Master].replicas"),
    "a role PyTorch has not": (
        torch(Chief=role("pytorch")),
        'Unsupported value: "Chief": supported values: "Master", "Worker"',
    ),
    "an elastic policy without workers": (
        an(
            "kubeflow.org/v1",
            "PyTorchJob",
            elasticPolicy={},
            pytorchReplicaSpecs={"Master": role("pytorch", replicas=1)},
        ),
        "must be configured if elastic policy is used",
    ),
    "no replica specs": (
        an("kubeflow.org/v1", "TFJob"),
        "spec.tfReplicaSpecs: Required value",
    ),
    "no launcher": (mpi(Worker=role("any")), "must have Launcher replica spec"),
    "an unknown implementation of MPI": (
        an(
            "kubeflow.org/v2beta1", "MPIJob", mpiImplementation="X", mpiReplicaSpecs={"Launcher": role("any")}
        ),
        'Unsupported value: "X": supported values: "OpenMPI", "Intel", "MPICH"',
    ),
    "a Ray cluster without a head": (an("ray.io/v1", "RayCluster"), "spec.headGroupSpec: Required value"),
    "a Ray job without a cluster": (
        an("ray.io/v1", "RayJob"),
        "one of RayClusterSpec or ClusterSelector must be set",
    ),
    "a size that is no number": (
        an(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            leaderWorkerTemplate={"size": "two", "workerTemplate": template()},
        ),
        "spec.leaderWorkerTemplate.size",
    ),
    "a list where a mapping belongs": (torch(Worker=[1]), 'must be of type object: "array"'),
    "a group of nobody": (
        an(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            leaderWorkerTemplate={"size": 0, "workerTemplate": template()},
        ),
        "size must be equal or greater than 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_ones_are_refused(case: str) -> None:
    obj, words = BAD[case]
    assert any(words in str(problem) for problem in validate(obj)), [str(p) for p in validate(obj)]
