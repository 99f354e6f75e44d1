"""The same trace, but: a part of it, faster, or with more or less load.

Chance belongs to the job: the job that is copied at load 1.2 is copied at load 1.3 too, so that two loads of
one trace differ by what the load adds.
"""

from __future__ import annotations

import re
from dataclasses import replace

from fairway.kube.timestamps import HOUR_US, parse_duration
from fairway.traces.jobs import JobTrace, TraceJob, in_order
from fairway.twin.streams import Streams

# Copies arrive within half an hour of their original: near enough to keep the day's pattern.
JITTER_US = HOUR_US
MAX_LOAD = 1000.0
_WINDOW = re.compile(r"\s*(\S*?)\s*\.\.\s*(\S*?)\s*")


def parse_window(text: str) -> tuple[int, int]:
    """`2d..9d`: from and to, in µs since the trace began; either may be left out.

    Raises: ValueError.
    """
    match = _WINDOW.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        raise ValueError("expected a window such as 2d..9d, 12h.. or ..3d")
    start_us = parse_duration(match[1]) if match[1] else 0
    end_us = parse_duration(match[2]) if match[2] else 2**62
    if end_us <= start_us:
        raise ValueError("expected a window that ends after it begins, such as 2d..9d")
    return start_us, end_us


def window(trace: JobTrace, start_us: int, end_us: int) -> JobTrace:
    """The jobs submitted in [start, end); time begins anew at the window's start."""
    jobs = tuple(
        replace(job, submit_us=job.submit_us - start_us)
        for job in trace.jobs
        if start_us <= job.submit_us < end_us
    )
    return replace(trace, jobs=jobs)


def faster(trace: JobTrace, speed: float) -> JobTrace:
    """Arrivals come `speed` times as fast; run times stay."""
    return replace(
        trace, jobs=tuple(replace(job, submit_us=round(job.submit_us / speed)) for job in trace.jobs)
    )


def with_load(trace: JobTrace, load: float, seed: int) -> JobTrace:
    """`load` times as many jobs: below 1 some are left out, above 1 some come again, under another name.

    A copy is submitted within half an hour of its original, before the trace's end.
    """
    streams = Streams(seed)
    jobs: list[TraceJob] = []
    for job in trace.jobs:
        copies = int(load) + (streams.draw_for("load", job.job_id) < load - int(load))
        if copies:
            jobs.append(job)
        for number in range(1, copies):
            u = streams.draw_for("load", job.job_id, str(number))
            submit_us = job.submit_us + round((u - 0.5) * JITTER_US)
            at_us = min(max(submit_us, 0), trace.last_us)
            jobs.append(replace(job, job_id=f"{job.job_id}-again{number}", submit_us=at_us))
    return replace(trace, jobs=in_order(jobs))
