"""What arrived on a real cluster, from `kubectl get nodes,pods,jobs -A -o json`?

Arrivals are creation times; a run lasts from the first start of a container to the last finish. A Job and its
pods are one row, as many replicas as ran at once; a pod of nobody, or of anything else that ends, is a row of
its own. What was still running when the dump was taken ran at least so long (`is_censored`); what never
started has no run time. Services (pods that restart Always) are left out: nobody submitted them as work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.kinds import group_kind
from fairway.kube.manifest import Manifest, read_path
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    dig,
    gk_of,
    key_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.kube.podrequests import pod_requests
from fairway.kube.quantity import QuantityError
from fairway.kube.resources import CPU, GPU_MILLI, MEMORY, NVIDIA_GPU
from fairway.kube.timestamps import parse_rfc3339
from fairway.traces.jobs import MILLI, JobTrace, TraceJob, in_order

JOB_GK = "Job.batch"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
MODEL_LABEL = "nvidia.com/gpu.product"
_KEPT_ANNOTATION = "fairway.dev/gpu-utilization"
_OUR_LABELS = ("job-name", "controller-uid", "batch.kubernetes.io/", "pod-template-hash", QUEUE_LABEL)


@dataclass(slots=True)
class _Run:
    """One run of containers: from first start to last finish; `end_us` None while it goes on."""

    start_us: int | None
    end_us: int | None
    exit_code: int


@dataclass(slots=True)
class _Tally:
    """What had to be said about the dump."""

    services: int = 0
    censored: int = 0
    never_started: int = 0
    notes: list[str] = field(default_factory=list)

    def lines(self) -> tuple[str, ...]:
        said = [
            (self.services, "pods of services (restartPolicy Always) are left out"),
            (self.censored, "jobs were still running: their run times are lower bounds (is_censored)"),
            (self.never_started, "jobs never started: they have no run time"),
        ]
        return (*(f"{n} {text}" for n, text in said if n), *self.notes)


def read_dump(path: Path, *, lenient: bool = False) -> JobTrace:
    """The jobs of a dump.

    Raises: InvalidInput.
    """
    manifests = read_path(path, lenient=lenient)
    skipped = [m.broken for m in manifests if m.broken is not None]
    whole = [m for m in manifests if m.broken is None]
    jobs = [m for m in whole if gk_of(m.obj) == JOB_GK]
    pods = [m for m in whole if gk_of(m.obj) == "Pod"]
    models = {name_of(m.obj): labels_of(m.obj).get(MODEL_LABEL, "") for m in whole if gk_of(m.obj) == "Node"}
    if not jobs and not pods:
        expected = "expected pods or jobs, as kubectl get nodes,pods,jobs -A -o json prints them"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),))
    taken_us = _taken_us(pods)
    tally = _Tally()
    rows: list[tuple[int, TraceJob]] = []
    problems: list[FieldProblem] = []
    for manifest, members in _grouped(jobs, pods, tally):
        try:
            rows.append(_row(manifest.obj, members, taken_us, models, tally))
        except (ValueError, QuantityError, KeyError, TypeError, AttributeError) as wrong:
            problems.append(_problem(manifest, wrong))
    if problems and not lenient:
        raise InvalidInput(tuple(problems))
    base_us = min((at_us for at_us, _ in rows), default=0)
    moved = in_order(replace(job, submit_us=at_us - base_us) for at_us, job in rows)
    return JobTrace(str(path), moved, tally.lines(), (*skipped, *problems))


def _problem(manifest: Manifest, wrong: Exception) -> FieldProblem:
    subject = f"{manifest.obj.get('kind')} {key_of(manifest.obj).namespace}/{name_of(manifest.obj)}"
    line = manifest.line_of(("metadata", "creationTimestamp"))
    expected = "expected times and quantities as the API server writes them"
    return FieldProblem(manifest.file, line, "", "", f"{expected} ({wrong})", subject)


def _grouped(
    jobs: list[Manifest], pods: list[Manifest], tally: _Tally
) -> Iterable[tuple[Manifest, list[Obj]]]:
    """Each Job with its pods, then each pod that stands alone."""
    of_job: dict[Key, list[Obj]] = {key_of(m.obj): [] for m in jobs}
    alone = []
    for manifest in pods:
        owner = controller_of(manifest.obj)
        key = None if owner is None else _owner_key(owner, namespace_of(manifest.obj))
        if key is not None and key in of_job:
            of_job[key].append(manifest.obj)
        elif spec_of(manifest.obj).get("restartPolicy", "Always") == "Always":
            tally.services += 1
        else:
            alone.append(manifest)
    return [*((m, of_job[key_of(m.obj)]) for m in jobs), *((m, [m.obj]) for m in alone)]


def _owner_key(owner: dict[str, Any], namespace: str) -> Key:
    gk = group_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
    return Key(gk, namespace, owner.get("name", ""))


def _taken_us(pods: list[Manifest]) -> int:
    """When the dump was taken, at the earliest: the latest time it mentions."""
    latest = 0
    for manifest in pods:
        for at in _times(manifest.obj):
            latest = max(latest, at)
    return latest


def _times(pod: Obj) -> list[int]:
    texts = [meta_of(pod).get("creationTimestamp"), status_of(pod).get("startTime")]
    texts += [c.get("lastTransitionTime") for c in status_of(pod).get("conditions") or ()]
    for status in status_of(pod).get("containerStatuses") or ():
        texts += [
            dig(status, "state", "running", "startedAt"),
            dig(status, "state", "terminated", "finishedAt"),
        ]
    found = []
    for text in texts:
        try:
            found.append(parse_rfc3339(text) if text else 0)
        except (ValueError, TypeError):
            continue  # the row it belongs to says so
    return found


def _row(
    obj: Obj, members: list[Obj], taken_us: int, models: dict[str, str], tally: _Tally
) -> tuple[int, TraceJob]:
    """When it was submitted (µs since 1970), and the job."""
    spec = spec_of(members[0]) if members else dig(obj, "spec", "template", "spec") or {}
    requests = pod_requests(spec)
    run_us, is_censored, exit_code = _lasted(obj, members, taken_us)
    tally.censored += is_censored
    tally.never_started += run_us is None
    labels = {**labels_of(obj), **(labels_of(members[0]) if members else {})}
    nodes = sorted({models.get(spec_of(m).get("nodeName") or "", "") for m in members} - {""})
    job = TraceJob(
        job_id=f"{namespace_of(obj)}-{name_of(obj)}" if namespace_of(obj) else name_of(obj),
        submit_us=0,
        run_us=run_us,
        gpu_milli=requests.get(NVIDIA_GPU, 0) * MILLI + requests.get(GPU_MILLI, 0),
        cpu_milli=requests.get(CPU, 0),
        memory_bytes=requests.get(MEMORY, 0),
        replicas=_replicas(obj, members),
        namespace=namespace_of(obj),
        priority_class=spec.get("priorityClassName") or "",
        queue=labels_of(obj).get(QUEUE_LABEL, ""),
        gpu_model=(spec.get("nodeSelector") or {}).get(MODEL_LABEL, "") if nodes else "",
        exit_code=exit_code,
        labels=tuple(sorted((k, v) for k, v in labels.items() if not k.startswith(_OUR_LABELS))),
        gpu_utilization=annotations_of(members[0]).get(_KEPT_ANNOTATION, "") if members else "",
        is_censored=is_censored,
    )
    return parse_rfc3339(meta_of(obj)["creationTimestamp"]), job


def _replicas(obj: Obj, members: list[Obj]) -> int:
    if gk_of(obj) != JOB_GK:
        return 1
    return max(int(spec_of(obj).get("parallelism") or 1), 1)


def _lasted(obj: Obj, members: list[Obj], taken_us: int) -> tuple[int | None, bool, int]:
    """Run time, whether it is a lower bound, and the exit code. Retries count from first start to last end."""
    runs = [run for member in members for run in _runs(member)]
    started = [run.start_us for run in runs if run.start_us is not None]
    if not started:
        return _lasted_by_status(obj)
    is_over = all(run.end_us is not None for run in runs) and _is_over(obj)
    ends = [run.end_us for run in runs if run.end_us is not None]
    end_us = max(ends) if is_over and ends else max([taken_us, *ends])
    code = next((run.exit_code for run in runs if run.exit_code), 0)
    failed = gk_of(obj) != JOB_GK or _condition(obj, "Failed")
    return max(end_us - min(started), 0), not is_over, code if is_over and failed else 0


def _lasted_by_status(obj: Obj) -> tuple[int | None, bool, int]:
    """A Job whose pods are gone still says when it started and ended."""
    status = status_of(obj)
    start, end = status.get("startTime"), status.get("completionTime")
    if gk_of(obj) != JOB_GK or not start or not end:
        return None, False, 0
    return parse_rfc3339(end) - parse_rfc3339(start), False, 0


def _is_over(obj: Obj) -> bool:
    if gk_of(obj) == JOB_GK:
        return _condition(obj, "Complete") or _condition(obj, "Failed")
    return status_of(obj).get("phase") in ("Succeeded", "Failed")


def _condition(obj: Obj, type_: str) -> bool:
    conditions = status_of(obj).get("conditions") or ()
    return any(c.get("type") == type_ and c.get("status") == "True" for c in conditions)


def _runs(pod: Obj) -> list[_Run]:
    """The last run of each container."""
    runs = []
    for status in status_of(pod).get("containerStatuses") or ():
        state = status.get("state") or {}
        running, ended = state.get("running"), state.get("terminated")
        if ended:
            start, end = ended.get("startedAt"), ended.get("finishedAt")
            runs.append(_Run(_us(start), _us(end), int(ended.get("exitCode") or 0)))
        elif running:
            runs.append(_Run(_us(running.get("startedAt")), None, 0))
    return runs


def _us(text: str | None) -> int | None:
    return parse_rfc3339(text) if text else None
