"""What is wrong with the kinds of distributed training, as their webhooks and operators refuse it?

Objects have the shape of their definitions. Only what would otherwise go wrong later or silently: names that become
names of pods, roles without containers, policies that point nowhere.

Source: jobset pkg/webhooks/jobset_webhook.go; training-operator release-1.9 pkg/webhooks; mpi-operator
pkg/apis/kubeflow/validation; kuberay ray-operator/controllers/ray/utils/validation.go; lws pkg/webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.objects import Obj, gk_of, name_of
from fairway.kube.problem import (
    Problem,
    forbidden,
    invalid,
    invalids,
    required,
    unsupported,
)

_JOBS: Path = ("spec", "replicatedJobs")
_RULE_NAME = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
_GATED_ACTIONS = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_JOB_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_RESTARTS = ("Always", "ExitCode", "Never", "OnFailure")


def check_training(obj: Obj) -> list[Problem]:
    """Everything wrong with it; nothing for kinds of others."""
    check = _CHECKS.get(gk_of(obj))
    if check is None:
        return []
    out: list[Problem] = []
    check(obj, obj.get("spec") or {}, out)
    return out


def _at_least(value: int | None, least: int, path: Path, text: str, out: list[Problem]) -> None:
    if value is not None and value < least:
        out.append(invalid(path, value, text))


def _template(
    template: dict[str, Any] | None, path: Path, out: list[Problem], *, container: str = ""
) -> None:
    """A pod template: at least one container, and the one its operator looks for."""
    if template is None:
        out.append(required(path))
        return
    at = (*path, "spec", "containers")
    containers = (template.get("spec") or {}).get("containers") or []
    if not containers:
        out.append(required(at, "must be specified"))
        return
    if container:
        out.extend(
            required((*at, i, "image"), "must be required")
            for i, c in enumerate(containers)
            if not c.get("image")
        )
        if all(c.get("name") != container for c in containers):
            out.append(required(at, f"must have at least one container with name {container}"))


# JobSet


def _jobset(obj: Obj, spec: dict[str, Any], out: list[Problem]) -> None:
    replicated = spec.get("replicatedJobs") or []
    seen: list[str] = []
    for index, one in enumerate(replicated):
        path = (*_JOBS, index)
        seen.append(one["name"])
        _replicated_job(obj, one, path, seen, out)
    _targets(spec.get("successPolicy") or {}, ("spec", "successPolicy"), seen, "", out)
    _failure_policy(spec.get("failurePolicy") or {}, seen, out)
    _coordinator(spec.get("coordinator"), replicated, out)


def _replicated_job(obj: Obj, one: dict[str, Any], path: Path, seen: list[str], out: list[Problem]) -> None:
    job = (one.get("template") or {}).get("spec") or {}
    _template(job.get("template"), (*path, "template", "spec", "template"), out)
    replicas = one.get("replicas", 1)
    if replicas < 0:
        out.append(invalid((*path, "replicas"), replicas, "must be greater than or equal to 0"))
        return
    longest = f"{name_of(obj)}-{one['name']}-{max(replicas - 1, 0)}"
    completions = job.get("completions")
    if completions is not None and job.get("completionMode", "Indexed") == "Indexed":
        pod = f"{longest}-{max(completions - 1, 0)}-abcde"
        long = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
    else:
        pod = longest
        long = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
    complaints = [long if "no more than" in c else c for c in names.dns1035_label(pod)]
    out.extend(invalids((*path, "name"), longest, complaints))
    if one.get("dependsOn") is not None and len(seen) == 1:
        out.append(forbidden((*path, "dependsOn"), "DependsOn can't be set for the first ReplicatedJob"))
        return
    for i, dependency in enumerate(one.get("dependsOn") or ()):
        at = (*path, "dependsOn", i)
        if dependency.get("name") not in seen:
            text = f"replicatedJob: {one['name']} cannot depend on replicatedJob: {dependency.get('name')}"
            out.append(invalid((*at, "name"), dependency.get("name"), text))


def _targets(policy: dict[str, Any], path: Path, seen: list[str], where: str, out: list[Problem]) -> None:
    for i, name in enumerate(policy.get("targetReplicatedJobs") or ()):
        if name not in seen:
            text = f"invalid replicatedJob name '{name}'{where} does not appear in .spec.ReplicatedJobs"
            out.append(invalid((*path, "targetReplicatedJobs", i), name, text))


def _failure_policy(policy: dict[str, Any], seen: list[str], out: list[Problem]) -> None:
    named: list[str] = []
    for index, rule in enumerate(policy.get("rules") or ()):
        path: Path = ("spec", "failurePolicy", "rules", index)
        action, name = rule.get("action"), rule.get("name") or f"failurePolicyRule{index}"
        if action in _GATED_ACTIONS:
            text = (
                "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when "
                "RestartJob feature gate is disabled"
            )
            out.append(forbidden((*path, "action"), text))
        if not _RULE_NAME.match(name):
            text = (
                f"invalid failure policy rule name '{name}', a failure policy rule name must start with an "
                "alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and "
                "must end with an alphanumeric character or '_'"
            )
            out.append(invalid((*path, "name"), name, text))
        if name in named:
            indices = [named.index(name), index]
            text = f"rule names are not unique, rules with indices {indices} all have the same name '{name}'"
            out.append(invalid((*path, "name"), name, text.replace(",", "")))
        named.append(name)
        _targets(rule, path, seen, " in failure policy", out)
        for i, reason in enumerate(rule.get("onJobFailureReasons") or ()):
            if reason not in _JOB_REASONS:
                text = f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"
                out.append(invalid((*path, "onJobFailureReasons", i), reason, text))


def _coordinator(coordinator: Any, replicated: list[dict[str, Any]], out: list[Problem]) -> None:
    if not coordinator:
        return
    path: Path = ("spec", "coordinator")
    name = coordinator.get("replicatedJob")
    found = next((r for r in replicated if r.get("name") == name), None)
    if found is None:
        text = f"coordinator replicatedJob {name} does not exist"
        out.append(invalid((*path, "replicatedJob"), name, text))
        return
    index = coordinator.get("jobIndex") or 0
    if not 0 <= index < found.get("replicas", 1):
        text = f"coordinator job index {index} is invalid for replicatedJob {name}"
        out.append(invalid((*path, "jobIndex"), index, text))
    job = (found.get("template") or {}).get("spec") or {}
    completions = job.get("completions")
    if completions is None or job.get("completionMode", "Indexed") != "Indexed":
        text = "job for coordinator pod must be indexed completion mode, and completions number must be set"
        out.append(forbidden((*path, "replicatedJob"), text))
        return
    pod = coordinator.get("podIndex") or 0
    if not 0 <= pod < completions:
        text = f"coordinator pod index {pod} is invalid for replicatedJob {name} job index {index}"
        out.append(invalid((*path, "podIndex"), pod, text))


# Kubeflow


def _kubeflow(
    field: str, container: str, roles: tuple[str, ...]
) -> Callable[[Obj, dict[str, Any], list[Problem]], None]:
    def check(obj: Obj, spec: dict[str, Any], out: list[Problem]) -> None:
        path: Path = ("spec", field)
        complaints = [f"should match: {c}" for c in names.dns1035_label(name_of(obj))]
        out.extend(invalids(("metadata", "name"), name_of(obj), complaints))
        given = spec.get(field) or {}
        if spec.get("elasticPolicy") is not None and "Worker" not in given:
            at = (*path, MapKey("Worker"))
            out.append(required(at, "must be configured if elastic policy is used"))
        for role, one in given.items():
            _role(role, one or {}, (*path, MapKey(role)), roles, container, out)
        if len([r for r in given if r.lower() in ("chief", "master")]) > 1:
            out.append(forbidden(path, "must not have more than 1 Chief or Master role"))

    return check


def _role(
    role: str, one: dict[str, Any], path: Path, roles: tuple[str, ...], container: str, out: list[Problem]
) -> None:
    if role.lower() not in [r.lower() for r in roles]:
        out.append(unsupported(path, role, roles))
    _template(one.get("template"), (*path, "template"), out, container=container)
    replicas = one.get("replicas")
    if container != "tensorflow" and replicas is not None:
        if role.lower() == "master" and replicas != 1:
            out.append(forbidden((*path, "replicas"), "must be 1"))
        elif replicas < 1:
            out.append(forbidden((*path, "replicas"), "must be at least 1"))
    policy = one.get("restartPolicy")
    if policy is not None and policy not in _RESTARTS:
        out.append(unsupported((*path, "restartPolicy"), policy, _RESTARTS))


def _mpi(obj: Obj, spec: dict[str, Any], out: list[Problem]) -> None:
    path: Path = ("spec", "mpiReplicaSpecs")
    given = spec.get("mpiReplicaSpecs") or {}
    launcher, worker = given.get("Launcher"), given.get("Worker")
    if not launcher:
        out.append(required((*path, MapKey("Launcher")), "must have Launcher replica spec"))
    for role, one in (("Launcher", launcher), ("Worker", worker)):
        if one:
            at = (*path, MapKey(role))
            _template(one.get("template"), (*at, "template"), out)
            policy = one.get("restartPolicy")
            if policy is not None and policy not in ("Never", "OnFailure"):
                out.append(unsupported((*at, "restartPolicy"), policy, ("Never", "OnFailure")))
    if launcher and launcher.get("replicas", 1) != 1:
        out.append(invalid((*path, MapKey("Launcher"), "replicas"), launcher["replicas"], "must be 1"))
    count = 1 if not worker else worker.get("replicas", 1)
    if count <= 0:
        text = "must be greater than or equal to 1"
        out.append(invalid((*path, MapKey("Worker"), "replicas"), count, text))
    elif complaints := names.dns1035_label(f"{name_of(obj)}-worker-{count - 1}"):
        host = f"{name_of(obj)}-worker-{count - 1}"
        text = f'will not able to create pod and service with invalid DNS label "{host}": {", ".join(complaints)}'
        out.append(invalid(("metadata", "name"), name_of(obj), text))


# Ray, LeaderWorkerSet


def _ray_cluster(obj: Obj, spec: dict[str, Any], out: list[Problem], at: Path = ("spec",)) -> None:
    head = spec.get("headGroupSpec") or {}
    _template(head.get("template"), (*at, "headGroupSpec", "template"), out)
    for index, group in enumerate(spec.get("workerGroupSpecs") or ()):
        path = (*at, "workerGroupSpecs", index)
        if not group.get("groupName"):
            out.append(required((*path, "groupName")))
        _template(group.get("template"), (*path, "template"), out)
        for field in ("replicas", "minReplicas", "maxReplicas", "numOfHosts"):
            text = "should be greater than or equal to 0"
            _at_least(group.get(field), 0, (*path, field), text, out)
        low, high = group.get("minReplicas"), group.get("maxReplicas")
        if low is not None and high is not None and low > high:
            text = (
                f"worker group {group.get('groupName')} has minReplicas {low} greater than maxReplicas {high}"
            )
            out.append(invalid((*path, "minReplicas"), low, text))


def _ray_job(obj: Obj, spec: dict[str, Any], out: list[Problem]) -> None:
    if spec.get("suspend") and spec.get("clusterSelector"):
        text = "the ClusterSelector mode doesn't support the suspend operation"
        out.append(forbidden(("spec", "clusterSelector"), text))
    cluster = spec.get("rayClusterSpec")
    if cluster is None and not spec.get("clusterSelector"):
        text = "one of RayClusterSpec or ClusterSelector must be set"
        out.append(required(("spec", "rayClusterSpec"), text))
    elif cluster is not None:
        _ray_cluster(obj, cluster, out, ("spec", "rayClusterSpec"))
    modes = ("HTTPMode", "InteractiveMode", "K8sJobMode", "SidecarMode")
    if spec.get("submissionMode", modes[2]) not in modes:
        out.append(unsupported(("spec", "submissionMode"), spec["submissionMode"], modes))


def _leader_worker_set(obj: Obj, spec: dict[str, Any], out: list[Problem]) -> None:
    path: Path = ("spec", "leaderWorkerTemplate")
    both = spec.get("leaderWorkerTemplate") or {}
    out.extend(invalids(("metadata", "name"), name_of(obj), names.dns1035_label(name_of(obj))))
    _template(both.get("workerTemplate"), (*path, "workerTemplate"), out)
    if both.get("leaderTemplate") is not None:
        _template(both["leaderTemplate"], (*path, "leaderTemplate"), out)
    _at_least(both.get("size"), 1, (*path, "size"), "size must be equal or greater than 1", out)
    text = "replicas must be equal or greater than 0"
    _at_least(spec.get("replicas"), 0, ("spec", "replicas"), text, out)


_CHECKS: dict[str, Callable[[Obj, dict[str, Any], list[Problem]], None]] = {
    "JobSet.jobset.x-k8s.io": _jobset,
    "PyTorchJob.kubeflow.org": _kubeflow("pytorchReplicaSpecs", "pytorch", ("Master", "Worker")),
    "TFJob.kubeflow.org": _kubeflow(
        "tfReplicaSpecs", "tensorflow", ("Chief", "Evaluator", "Master", "PS", "Worker")
    ),
    "XGBoostJob.kubeflow.org": _kubeflow("xgbReplicaSpecs", "xgboost", ("Master", "Worker")),
    "MPIJob.kubeflow.org": _mpi,
    "RayCluster.ray.io": _ray_cluster,
    "RayJob.ray.io": _ray_job,
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": _leader_worker_set,
}
