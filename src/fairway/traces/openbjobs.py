"""Alibaba's openb trace as jobs: each of its pods is one, with a share of a GPU or several whole ones."""

from __future__ import annotations

from pathlib import Path

from fairway.errors import InvalidInput
from fairway.kube.timestamps import SECOND_US
from fairway.openb.trace import POD_COLUMNS, TracePod, _pod, _read
from fairway.traces.jobs import JobTrace, TraceJob, in_order

HEADER_START = "name,cpu_milli,memory_mib,num_gpu"
_MIB = 1 << 20


def read_openb(path: Path, *, lenient: bool = False) -> JobTrace:
    """The pods of an openb pod list; its node list is not needed.

    Raises: InvalidInput.
    """
    pods, problems = _read(path, POD_COLUMNS, _pod, lambda pod: pod.name)
    if problems and not lenient:
        raise InvalidInput(tuple(problems))
    skipped = tuple(problems)
    timed = [pod for pod in pods if pod.created_s is not None]
    first_s = min((pod.created_s or 0 for pod in timed), default=0)
    notes = []
    if len(timed) < len(pods):
        notes.append(f"{len(pods) - len(timed)} pods have no creation time and are left out")
    open_ended = sum(pod.deleted_s is None for pod in timed)
    if open_ended:
        notes.append(f"{open_ended} pods have no deletion time: their run time is unknown")
    jobs = in_order(_job(pod, first_s) for pod in timed)
    return JobTrace(str(path), jobs, tuple(notes), skipped)


def _job(pod: TracePod, first_s: int) -> TraceJob:
    created_s = pod.created_s or 0
    run_us = None if pod.deleted_s is None else (pod.deleted_s - created_s) * SECOND_US
    return TraceJob(
        job_id=pod.name,
        submit_us=(created_s - first_s) * SECOND_US,
        run_us=run_us,
        gpu_milli=pod.num_gpu * pod.gpu_milli,
        cpu_milli=pod.cpu_milli,
        memory_bytes=pod.memory_mib * _MIB,
        gpu_model="|".join(pod.gpu_models),
    )
