"""What goes wrong inside a node: containers that are not created, crash, run out of memory, or starve their GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairway.answers.doctor.findings import Finding, Patient, found
from fairway.answers.explanation import BLOCKED
from fairway.answers.podlinks import kubelet_links
from fairway.kube.objects import Obj, name_of, namespace_of, spec_of, status_of
from fairway.kube.resources import CPU, parse_resources

_GPU = "gpu"
_CPUS_PER_GPU_MILLI = 4_000
_CRASH = "CrashLoopBackOff"
_OUT_OF_GPU = (
    "cuda error: out of memory",
    "cuda out of memory",
    "cublas_status_alloc_failed",
    "outofmemoryerror",
)


def _pods(patient: Patient) -> Iterator[Obj]:
    return (p for p in patient.moment.store.objects("Pod") if patient.is_mine(namespace_of(p)))


def _name(pod: Obj) -> str:
    return f"{namespace_of(pod)}/pod/{name_of(pod)}"


def not_created(patient: Patient) -> Finding:
    """Pods with a node whose containers cannot be made."""
    lines = []
    for pod in _pods(patient):
        if spec_of(pod).get("nodeName") and status_of(pod).get("phase") in (None, "Pending"):
            lines += [
                (_name(pod), f"{link.reason}: {link.message}")
                for link in kubelet_links(patient.moment, pod)
                if link.state == BLOCKED
            ]
    return found(lines)


def crashes(patient: Patient) -> Finding:
    """Containers between two crashes."""
    lines = []
    for pod in _pods(patient):
        for container in status_of(pod).get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") == _CRASH:
                last = (container.get("lastState") or {}).get("terminated") or {}
                said = f"{container.get('name')} restarted {container.get('restartCount') or 0} times"
                lines.append(
                    (
                        _name(pod),
                        f"{said}; last exit code {last.get('exitCode')}, {last.get('reason') or 'Error'}",
                    )
                )
    return found(lines)


def host_memory(patient: Patient) -> Finding:
    """Containers that the kernel killed for their memory."""
    return found(
        (_name(pod), f"{name} was OOMKilled; its limit is {_limit(pod, name)}")
        for pod, name, ended in _ends(patient)
        if ended.get("reason") == "OOMKilled"
    )


def gpu_memory(patient: Patient) -> Finding:
    """Containers that say their GPU had no memory left, whatever they were killed by."""
    return found(
        (_name(pod), f"{name}: {str(ended.get('message')).strip().splitlines()[-1]}")
        for pod, name, ended in _ends(patient)
        if any(word in str(ended.get("message") or "").lower() for word in _OUT_OF_GPU)
    )


def _ends(patient: Patient) -> Iterator[tuple[Obj, str, dict[str, Any]]]:
    """Each container's last end."""
    for pod in _pods(patient):
        for container in status_of(pod).get("containerStatuses") or ():
            for where in ("state", "lastState"):
                ended = (container.get(where) or {}).get("terminated")
                if ended:
                    yield pod, str(container.get("name")), ended
                    break


def _limit(pod: Obj, name: str) -> str:
    for container in spec_of(pod).get("containers") or ():
        if container.get("name") == name:
            return str(
                ((container.get("resources") or {}).get("limits") or {}).get("memory") or "its node's memory"
            )
    return "not known"


def few_cpus(patient: Patient) -> Finding:
    """GPU containers with a CPU limit that data loaders will hit."""
    lines = []
    for pod in _pods(patient):
        if status_of(pod).get("phase") != "Running":
            continue
        for container in spec_of(pod).get("containers") or ():
            limits = parse_resources((container.get("resources") or {}).get("limits"))
            gpus = sum(value for name, value in limits.items() if _GPU in name)
            if gpus and CPU in limits and limits[CPU] < gpus * _CPUS_PER_GPU_MILLI:
                said = f"{container.get('name')} is limited to {limits[CPU] / 1000:g} CPUs for {gpus} GPUs"
                lines.append((_name(pod), said))
    return found(lines)
