"""What would kube-state-metrics have said during a run? The run's rows as objects, as they were at each time.

A row knows less than an object: of a pod's containers it has the sum of what they ask for, of a Job whether it runs.
What it does not know is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from fairway.kube.objects import Obj
from fairway.kube.timestamps import rfc3339
from fairway.recorder.tables import NodeRow, Outcome, PodRow, WorkloadRow
from fairway.telemetry.statemetrics.families import Family, families
from fairway.telemetry.statemetrics.page import own_labels
from fairway.telemetry.steps import Maker, Stepwise, joined
from fairway.telemetry.store import Labels, labels

_SCRAPED = {"job": "kube-state-metrics", "instance": "kube-state-metrics:8080"}
_OF_WORKLOADS = ("Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")


class State(NamedTuple):
    """An object over `[start_us, end_us)`."""

    start_us: int
    end_us: int
    obj: Obj


Life = list[State]


def state_makers(outcome: Outcome) -> dict[str, Maker]:
    """By metric; nothing is worked out until it is asked for."""
    lives: Mapping[str, Callable[[], list[Life]]] = {
        "Pod": cache(lambda: [list(_pod(row, outcome.ended_us)) for row in outcome.pods]),
        "Node": cache(lambda: [list(_node(row, outcome.ended_us)) for row in outcome.nodes]),
        "Namespace": cache(lambda: _namespaces(outcome)),
        **{f"{kind}.{group}": _workloads(outcome, kind) for kind, group in _groups()},
    }
    return {
        name: partial(_steps, family, lives[family.gk])
        for name, family in families().items()
        if family.gk in lives
    }


def _groups() -> Iterator[tuple[str, str]]:
    for kind in _OF_WORKLOADS:
        yield kind, "batch" if "Job" in kind else "apps"


def _steps(family: Family, lives: Callable[[], list[Life]]) -> Iterator[Stepwise]:
    for life in lives():
        pieces: dict[Labels, list[tuple[int, int, float]]] = {}
        for state in life:
            own = {**own_labels(family.gk, state.obj), **_SCRAPED}
            for more, value in family.read(state.obj):
                found = labels(family.name, {**own, **more})
                span = (state.start_us // 1000, state.end_us // 1000, value)
                pieces.setdefault(found, []).append(span)
        for found, spans in pieces.items():
            yield joined(spans, found)


def _pod(row: PodRow, ended_us: int) -> Iterator[State]:
    """Pending, bound, running, over: those of them that it was for a while."""
    gone = ended_us + 1 if row.deleted_us is None else row.deleted_us
    meta = _meta(row.namespace, row.name, row.uid, row.labels, row.created_us)
    if row.owner_kind:
        meta["ownerReferences"] = [{"kind": row.owner_kind, "name": row.owner_name, "controller": True}]
    asked: dict[str, str] = dict(row.devices)
    if row.cpu_milli:
        asked["cpu"] = f"{row.cpu_milli}m"
    if row.memory_bytes:
        asked["memory"] = str(row.memory_bytes)
    container = {"name": "", "resources": {"requests": asked, "limits": dict(row.devices)}}
    unbound = {"priorityClassName": row.priority_class, "containers": [container]}
    spec = {**unbound, "nodeName": row.node}
    moments: list[tuple[int | None, Obj, str, Obj]] = [
        (row.created_us, unbound, "Pending", {"waiting": {}}),
        (row.scheduled_us, spec, "Pending", {"waiting": {"reason": "ContainerCreating"}}),
        (row.started_us, spec, "Running", {"running": {"startedAt": _text(row.started_us)}}),
    ]
    if row.phase in ("Succeeded", "Failed"):
        ended = {"terminated": {"reason": _exit(row), "finishedAt": _text(row.finished_us)}}
        moments.append((row.finished_us, spec, row.phase, ended))
    known = [(at, spec, phase, state) for at, spec, phase, state in moments if at is not None]
    for (start, of, phase, state), end in zip(known, [*(k[0] for k in known[1:]), gone], strict=True):
        if end > start:
            is_last = end == gone
            status = _status(row, phase, state, is_bound=of is spec, is_last=is_last)
            yield State(start, end, {"metadata": meta, "spec": of, "status": status})


def _status(row: PodRow, phase: str, state: Obj, *, is_bound: bool, is_last: bool) -> Obj:
    is_ready = phase == "Running" and row.ready_us is not None
    bound = {"type": "PodScheduled", "status": "True" if is_bound else "False"}
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    told = {"name": "", "state": state, "ready": is_ready, "restartCount": row.restarts if is_last else 0}
    status: Obj = {"phase": phase, "containerStatuses": [told], "startTime": _text(row.scheduled_us)}
    return {**status, "conditions": [bound, ready] if is_bound or row.unschedulable else [ready]}


def _exit(row: PodRow) -> str:
    return "Completed" if row.phase == "Succeeded" else row.reason or "Error"


def _node(row: NodeRow, ended_us: int) -> Iterator[State]:
    if row.lifetime_us <= 0:
        return
    offers = {**row.devices, "cpu": f"{row.cpu_milli}m", "memory": str(row.memory_bytes)}
    whole = {
        **row.devices,
        "cpu": f"{row.cpu_milli + row.system_cpu_milli}m",
        "memory": str(row.memory_bytes + row.system_memory_bytes),
    }
    status = {"allocatable": offers, "capacity": whole, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = _meta("", row.name, row.uid, row.labels, row.created_us)
    end = ended_us + 1 if row.deleted_us is None else row.deleted_us
    yield State(row.created_us, end, {"metadata": meta, "spec": {}, "status": status})


def _namespaces(outcome: Outcome) -> list[Life]:
    """Those in which pods were, from the run's start on."""
    names = sorted(set(outcome.pods.columns["namespace"]))
    return [
        [
            State(
                outcome.began_us,
                outcome.ended_us + 1,
                {
                    "metadata": _meta("", n, "", {"kubernetes.io/metadata.name": n}, outcome.began_us),
                    "status": {"phase": "Active"},
                },
            )
        ]
        for n in names
    ]


def _workloads(outcome: Outcome, kind: str) -> Callable[[], list[Life]]:
    return cache(
        lambda: [list(_workload(row, outcome.ended_us)) for row in outcome.workloads if row.kind == kind]
    )


def _workload(row: WorkloadRow, ended_us: int) -> Iterator[State]:
    gone = ended_us + 1 if row.deleted_us is None else row.deleted_us
    meta = _meta(row.namespace, row.name, row.uid, row.labels, row.created_us)
    if row.owner_kind:
        meta["ownerReferences"] = [{"kind": row.owner_kind, "name": row.owner_name, "controller": True}]
    moments: list[tuple[int, Obj]] = [(row.created_us, {})]
    if row.kind == "Job":
        if row.started_us is not None:
            moments.append((row.started_us, {"active": 1, "startTime": _text(row.started_us)}))
        if row.finished_us is not None and row.outcome in ("Complete", "Failed"):
            condition = {"type": row.outcome, "status": "True"}
            counts = {"succeeded": row.pods_succeeded, "failed": row.pods_failed}
            over = {**counts, "startTime": _text(row.started_us), "conditions": [condition]}
            moments.append((row.finished_us, over))
    ends: Iterable[int] = [*(at for at, _ in moments[1:]), gone]
    for (start, status), end in zip(moments, ends, strict=True):
        if end > start:
            yield State(start, end, {"metadata": meta, "spec": {}, "status": status})


def _meta(namespace: str, name: str, uid: str, of: Mapping[str, str], created_us: int) -> dict[str, Any]:
    found = {"namespace": namespace, "name": name, "uid": uid, "labels": of}
    return {**found, "creationTimestamp": rfc3339(created_us)}


def _text(at_us: int | None) -> str:
    return "" if at_us is None else rfc3339(at_us)
