"""What is wrong with a job's pods, said about the job: waiting containers, failed ones, unschedulable pods.

Source: training-operator release-1.9 pkg/core/job.go RecordAbnormalPods.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj
from fairway.workloads.controller import WARNING
from fairway.workloads.kubeflow.status import Sync
from fairway.workloads.pods import is_active


def record(sync: Sync) -> None:
    for pod in sync.pods:
        if is_active(pod):
            _record(sync, pod)


def _record(sync: Sync, pod: Obj) -> None:
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    containers = status.get("containerStatuses") or status.get("initContainerStatuses") or ()
    if containers:
        for container in containers:
            _record_container(sync, name, container)
        return
    conditions = status.get("conditions") or ()
    if not conditions:
        return
    latest = max(conditions, key=lambda c: c.get("lastTransitionTime") or "")
    if latest.get("status") != "True":
        message = f"Error pod {name} condition message: {latest.get('message', '')}"
        sync.tell(latest.get("reason", ""), message, WARNING)


def _record_container(sync: Sync, pod: str, container: dict[str, Any]) -> None:
    state = container.get("state") or {}
    about = f"Error pod {pod} container {container.get('name', '')}"
    ended, waiting = state.get("terminated"), state.get("waiting")
    if ended and ended.get("exitCode"):
        message = f"{about} exitCode: {ended['exitCode']} terminated message: {ended.get('message', '')}"
        sync.tell(ended.get("reason", ""), message, WARNING)
    if waiting and waiting.get("message"):
        sync.tell(waiting.get("reason", ""), f"{about} waiting message: {waiting['message']}", WARNING)
