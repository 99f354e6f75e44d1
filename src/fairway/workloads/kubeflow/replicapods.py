"""The pods and services of one role, index by index: what is missing, what is too much, what has to go.

Source: training-operator release-1.9 pkg/controller.v1/common/pod.go ReconcilePods, createNewPod; service.go.
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import Create, Delete, View
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, labels_of
from fairway.workloads.controller import WARNING
from fairway.workloads.kubeflow.framework import (
    JOB_NAME,
    JOB_ROLE,
    OPERATOR_NAME,
    REPLICA_INDEX,
    REPLICA_TYPE,
    Replica,
)
from fairway.workloads.kubeflow.status import JOB_FAILED, JOB_RESTARTING, Sync, count
from fairway.workloads.pods import (
    FAILED,
    MOST_AT_ONCE,
    MOST_OBJECT_BYTES,
    is_deleting,
    phase_of,
    wanted_indexes,
)
from fairway.workloads.podtemplate import owned_by, pod_from_template

RETRYABLE_FROM = 128
"""The first exit code that restartPolicy ExitCode restarts: those of signals. Source: train_util.go."""

# The shortest address of a pod; addresses that are written at once.
_LEAST_ADDRESS, _MOST_ADDRESSES = 20, 500_000

_NO_EXIT_CODE = 0xBEEF
"""What upstream takes for a container that has not ended."""


def reconcile(view: View, sync: Sync, replica: Replica) -> None:
    """Create, delete and count the pods of a role, then its services."""
    counts: dict[str, int] = {}
    before = (sync.status.get("replicaStatuses") or {}).get(replica.role) or {}
    ended_before = int(before.get("succeeded", 0)) + int(before.get("failed", 0))
    sync.status.setdefault("replicaStatuses", {})[replica.role] = counts
    by_index = _by_index(sync.pods, replica)
    beyond = sorted(i for i in by_index if i >= replica.replicas)
    room = _room(sync)
    for index in (*wanted_indexes(replica.replicas, by_index, room), *beyond):
        found = by_index.get(index, [])
        if not found:
            _create(sync, replica, index)
        elif len(found) == 1:
            _look_after(sync, replica, index, found[0])
            count(counts, found[0])
    if counts.get("succeeded", 0) + counts.get("failed", 0) != ended_before:
        _tell_exits(sync, replica, by_index)
    if room:
        _reconcile_services(view, sync, replica)


def _room(sync: Sync) -> int:
    """How many pods may be made now. Where each names all others, few of a large job: each has its size."""
    if not sync.framework.names_everyone:
        return MOST_AT_ONCE
    total = sync.job.total
    if total * _LEAST_ADDRESS > MOST_OBJECT_BYTES:
        sync.tell("FailedCreatePod", "Error creating: etcdserver: request is too large", WARNING)
        return 0
    return max(min(MOST_AT_ONCE, _MOST_ADDRESSES // max(total, 1)), 1)


def _by_index(pods: list[Obj], replica: Replica) -> dict[int, list[Obj]]:
    found: dict[int, list[Obj]] = {}
    for pod in pods:
        labels = labels_of(pod)
        index = natural(labels.get(REPLICA_INDEX))
        if labels.get(REPLICA_TYPE) == replica.type and index is not None:
            found.setdefault(index, []).append(pod)
    return found


def _look_after(sync: Sync, replica: Replica, index: int, pod: Obj) -> None:
    """Delete a pod beyond the wanted ones, restart one that failed, or give the job up for it."""
    if index >= replica.replicas:
        delete_pod(sync, pod)
    if phase_of(pod) != FAILED:
        return
    code = exit_code(pod, sync.framework.container)
    policy = replica.restart_policy
    if policy in ("OnFailure", "Always") or (policy == "ExitCode" and code >= RETRYABLE_FROM):
        delete_pod(sync, pod)
        message = f"job {sync.job.name} is restarting because {replica.role} replica(s) failed."
        sync.announce(JOB_RESTARTING, message, WARNING)
    elif policy == "ExitCode":
        message = f'job "{sync.job.name}" is failing because "{replica.role}" replica(s) failed.'
        sync.announce(JOB_FAILED, message, WARNING)


def _tell_exits(sync: Sync, replica: Replica, by_index: dict[int, list[Obj]]) -> None:
    """With which code each of the role's pods exited.

    Unlike kube: said when the number of ended pods changed, not at every look; the same sentences.
    """
    for index in sorted(by_index):
        for pod in by_index[index][:1]:
            code = exit_code(pod, sync.framework.container)
            if code != _NO_EXIT_CODE:
                meta = pod["metadata"]
                sync.tell(
                    "ExitedWithCode", f"Pod: {meta['namespace']}.{meta['name']} exited with code {code}"
                )


def exit_code(pod: Obj, container: str) -> int:
    code = _NO_EXIT_CODE
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if status.get("name") == container and ended is not None:
            code = int(ended.get("exitCode", 0))
    return code


def base_labels(sync: Sync) -> dict[str, str]:
    return {OPERATOR_NAME: sync.framework.operator, JOB_NAME: sync.job.name.replace("/", "-")}


def _create(sync: Sync, replica: Replica, index: int) -> None:
    job, framework = sync.job, sync.framework
    name = job.pod_name(replica.role, index)
    labels = {**base_labels(sync), REPLICA_TYPE: replica.type, REPLICA_INDEX: str(index)}
    if framework.is_master(job, replica.role, index):
        labels[JOB_ROLE] = "master"
    spec = framework.cluster(job, replica, index, replica.pod_spec)
    if spec.get("restartPolicy"):
        message = "Restart policy in pod template will be overwritten by restart policy in replica spec"
        sync.tell("SetPodTemplateRestartPolicy", message, WARNING)
    given = replica.template.get("metadata") or {}
    template = {
        "metadata": {**given, "labels": {**(given.get("labels") or {}), **labels}},
        "spec": {**spec, "restartPolicy": pod_restart_policy(replica)},
    }
    owners = owned_by(job.obj, job.obj["apiVersion"], job.kind)
    pod = pod_from_template(template, namespace=job.namespace, owner_references=owners, name=name)
    sync.actions.append(Create(pod))
    sync.tell("SuccessfulCreatePod", f"Created pod: {name}")


def pod_restart_policy(replica: Replica) -> str:
    """What the kubelet is told: with ExitCode the operator restarts, so the kubelet must not."""
    return "Never" if replica.restart_policy == "ExitCode" else replica.restart_policy


def delete_pod(sync: Sync, pod: Obj) -> None:
    if is_deleting(pod):
        return
    meta = pod["metadata"]
    sync.actions.append(Delete(Key("Pod", meta["namespace"], meta["name"]), meta["uid"]))
    sync.tell("SuccessfulDeletePod", f"Deleted pod: {meta['name']}")


def delete_service(view: View, sync: Sync, name: str) -> None:
    key = Key("Service", sync.job.namespace, name)
    service = view.get(key)
    if service is None or is_deleting(service):
        return
    sync.actions.append(Delete(key, service["metadata"]["uid"]))
    sync.tell("SuccessfulDeleteService", f"Deleted service: {name}")


def _reconcile_services(view: View, sync: Sync, replica: Replica) -> None:
    """One headless service for each pod, of its name: what its peers resolve."""
    present = _services_by_index(view, sync, replica)
    held = {index for index, _ in present}
    for index in wanted_indexes(replica.replicas, held, MOST_AT_ONCE):
        name = sync.job.pod_name(replica.role, index)
        if view.get(Key("Service", sync.job.namespace, name)) is None:
            sync.actions.append(Create(_service(sync, replica, index, name)))
            sync.tell("SuccessfulCreateService", f"Created service: {name}")
    for index, name in present:
        if index >= replica.replicas:
            delete_service(view, sync, name)


def _services_by_index(view: View, sync: Sync, replica: Replica) -> list[tuple[int, str]]:
    found = []
    for key in view.dependents(sync.job.obj["metadata"]["uid"]):
        service = view.get(key) if key.gk == "Service" else None
        labels = {} if service is None else labels_of(service)
        if labels.get(REPLICA_TYPE) == replica.type:
            found.append((natural(labels.get(REPLICA_INDEX)) or 0, key.name))
    return found


def _service(sync: Sync, replica: Replica, index: int, name: str) -> Obj:
    job = sync.job
    labels = {**base_labels(sync), REPLICA_TYPE: replica.type, REPLICA_INDEX: str(index)}
    ports: list[dict[str, Any]] = []
    for container in replica.pod_spec.get("containers") or ():
        if container.get("name") == sync.framework.container:
            given = container.get("ports") or ()
            ports = [{"name": p.get("name", ""), "port": p["containerPort"]} for p in given]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": labels,
            "ownerReferences": owned_by(job.obj, job.obj["apiVersion"], job.kind),
        },
        "spec": {"clusterIP": "None", "selector": labels, "ports": ports},
    }
