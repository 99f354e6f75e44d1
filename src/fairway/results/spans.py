"""What happened to each job of a run, as OpenTelemetry's spans: queued, scheduled, starting, running, evicted, over.

A trace is one job (the topmost owner of pods) or a pod without one. Its root lasts from its creation to its last pod's
end; below it are the Workload's wait for quota and a span per pod, with the pod's own phases below that. What is not
over at the end of the run ends there and says so (`fairway.unfinished`). Restores and checkpoints are not in a run's
tables and have no spans; those of requests are `requestspans`'.

Source: OTLP 1.x, JSON Protobuf Encoding (hexadecimal ids, times as strings); semantic conventions for `k8s.*`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from fairway.recorder.queuetables import QueuedRow
from fairway.recorder.tables import Outcome, PodRow

_A_LINE: Final = 500
"""Spans written as one line: one export request."""
_INTERNAL, OK, ERROR = 1, 1, 2


_Event = tuple[str, int | None, dict[str, str]]


class _Job(NamedTuple):
    kind: str
    namespace: str
    name: str


def otlp_lines(outcome: Outcome) -> Iterator[str]:
    """Export requests, one a line, as OpenTelemetry's file exporter writes them. O(pods)."""
    jobs: dict[_Job, list[PodRow]] = {}
    for pod in outcome.pods:
        jobs.setdefault(_job_of(pod), []).append(pod)
    queued: dict[_Job, list[QueuedRow]] = {}
    for row in outcome.queues.workloads:
        kind, name = (row.owner_kind, row.owner_name) if row.owner_name else ("Workload", row.name)
        job = _Job(kind, row.namespace, name)
        queued.setdefault(job, []).append(row)
        jobs.setdefault(job, [])
    spans: list[dict[str, Any]] = []
    for job, pods in jobs.items():
        spans += _trace(job, pods, queued.get(job, []), outcome)
        while len(spans) >= _A_LINE:
            yield request_line(spans[:_A_LINE])
            del spans[:_A_LINE]
    if spans:
        yield request_line(spans)


def _job_of(pod: PodRow) -> _Job:
    if pod.root_name:
        return _Job(pod.root_kind, pod.namespace, pod.root_name)
    return _Job("Pod", pod.namespace, pod.name)


def request_line(spans: list[dict[str, Any]]) -> str:
    resource = {"attributes": _attributes({"service.name": "fairway"})}
    scope = {"scope": {"name": "fairway.results.spans"}, "spans": spans}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}) + "\n"


def _trace(job: _Job, pods: list[PodRow], queued: list[QueuedRow], outcome: Outcome) -> list[dict[str, Any]]:
    last_us = outcome.ended_us
    trace = trace_id(*job)
    made = [pod.created_us for pod in pods] + [row.created_us for row in queued]
    ends = [_end_of(pod) for pod in pods] + [row.finished_us or row.deleted_us for row in queued]
    is_over = all(end is not None for end in ends)
    end_us = max(end for end in ends if end is not None) if is_over else last_us
    named = {"k8s.namespace.name": job.namespace, f"k8s.{job.kind.lower()}.name": job.name}
    has_failed = bool(pods) and all(pod.phase == "Failed" for pod in pods)
    top = span(trace, "", f"{job.kind} {job.name}", (min(made), end_us), named, is_over=is_over)
    if is_over:
        top["status"] = {"code": ERROR if has_failed else OK}
    found = [top]
    found += [_queued(trace, top["spanId"], row, last_us) for row in queued]
    for pod in pods:
        found += _of_pod(trace, top["spanId"], pod, last_us)
    return found


def _end_of(pod: PodRow) -> int | None:
    return pod.finished_us if pod.finished_us is not None else pod.deleted_us


def _queued(trace: str, parent: str, row: QueuedRow, last_us: int) -> dict[str, Any]:
    """Until it was first admitted; evictions after that are its events."""
    until = row.admitted_us or row.finished_us or row.deleted_us
    told: dict[str, str | int] = {
        "k8s.namespace.name": row.namespace,
        "kueue.workload": row.name,
        "kueue.queue": row.queue,
        "kueue.cluster_queue": row.cluster_queue,
        "kueue.evictions": row.evictions,
    }
    own = span(
        trace,
        parent,
        f"queued {row.name}",
        (row.created_us, last_us if until is None else until),
        told,
        is_over=until is not None,
    )
    events: list[_Event] = [("quota reserved", row.reserved_us, {})]
    if row.evictions:
        why = {"reason": row.eviction, "preemption": row.preemption, "by": row.preempted_by}
        events.append(("evicted", row.evicted_us, why))
    own["events"] = _events(events)
    return own


def _of_pod(trace: str, parent: str, pod: PodRow, last_us: int) -> Iterator[dict[str, Any]]:
    end = _end_of(pod)
    over_us = last_us if end is None else end
    told: dict[str, str | int] = {
        "k8s.namespace.name": pod.namespace,
        "k8s.pod.name": pod.name,
        "k8s.pod.uid": pod.uid,
        "k8s.node.name": pod.node,
        "fairway.gpu_milli": pod.gpu_milli,
        "fairway.restarts": pod.restarts,
    }
    own = span(trace, parent, f"pod {pod.name}", (pod.created_us, over_us), told, is_over=end is not None)
    events: list[_Event] = [("ready", pod.ready_us, {})]
    if pod.disruption or pod.queue_eviction:
        why = {"reason": pod.disruption or pod.queue_eviction, "by": pod.preempted_by}
        events.append(("evicted", over_us, why))
    own["events"] = _events(events)
    if end is not None:
        failed = pod.phase == "Failed"
        own["status"] = {"code": ERROR, "message": pod.reason} if failed else {"code": OK}
    yield own
    # Each phase ends where the next begins, or where the pod does.
    begins = (("scheduling", pod.created_us), ("starting", pod.scheduled_us), ("running", pod.started_us))
    for place, (name, begin) in enumerate(begins):
        if begin is not None:
            ends_us = next((at for _, at in begins[place + 1 :] if at is not None), None)
            until = over_us if ends_us is None else ends_us
            is_over = ends_us is not None or end is not None
            yield span(trace, own["spanId"], name, (begin, max(until, begin)), {}, is_over=is_over)


def span(
    trace: str,
    parent: str,
    name: str,
    span_us: tuple[int, int],
    told: Mapping[str, str | int],
    *,
    is_over: bool,
) -> dict[str, Any]:
    begin, end = span_us
    attributes = {key: value for key, value in told.items() if value != ""}
    found: dict[str, Any] = {
        "traceId": trace,
        "spanId": _id(8, trace, parent, name, str(begin)),
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(begin * 1000),
        "endTimeUnixNano": str(max(end, begin) * 1000),
        "attributes": _attributes(attributes),
    }
    if parent:
        found["parentSpanId"] = parent
    if not is_over:
        found["attributes"].append({"key": "fairway.unfinished", "value": {"boolValue": True}})
    return found


def _events(told: list[_Event]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "timeUnixNano": str(at * 1000),
            "attributes": _attributes({k: v for k, v in how.items() if v}),
        }
        for name, at, how in told
        if at is not None
    ]


def _attributes(values: Mapping[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}}
        for key, value in values.items()
    ]


def trace_id(*parts: str) -> str:
    return _id(16, *parts)


def _id(size: int, *parts: str) -> str:
    """The same for the same thing in every process; never all zeros."""
    found = blake2b("\0".join(parts).encode(), digest_size=size).hexdigest()
    return found if int(found, 16) else "1".zfill(2 * size)
