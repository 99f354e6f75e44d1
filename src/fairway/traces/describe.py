"""What is in this trace? Counts, spans and distributions, for people and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fairway.kube.timestamps import HOUR_US
from fairway.traces.jobs import MILLI, JobTrace


@dataclass(frozen=True, slots=True)
class Description:
    """`rate_per_hour` over the span; run times in µs at the named quantiles; GPU-hours over all jobs whose run
    time is known. `gpus` and `users` count jobs, most first."""

    source: str
    jobs: int
    span_us: int
    rate_per_hour: float
    gpu_hours: float
    gpus_needed: float
    """GPUs busy all the time, on average over the span, if nobody waited."""
    run_time_us: dict[str, int]
    gpus: tuple[tuple[str, int], ...]
    users: tuple[tuple[str, int], ...]
    namespaces: tuple[tuple[str, int], ...]
    without_run_time: int
    censored: int
    failing: int
    skipped: int
    notes: tuple[str, ...]


def describe(trace: JobTrace, most: int = 8) -> Description:
    jobs = trace.jobs
    span_us = jobs[-1].submit_us - jobs[0].submit_us if jobs else 0
    runs = sorted(job.run_us for job in jobs if job.run_us is not None)
    gpu_us = sum(job.gpu_milli_us for job in jobs) / MILLI
    return Description(
        source=trace.source,
        jobs=len(jobs),
        span_us=span_us,
        rate_per_hour=len(jobs) * HOUR_US / span_us if span_us else 0.0,
        gpu_hours=gpu_us / HOUR_US,
        gpus_needed=gpu_us / span_us if span_us else 0.0,
        run_time_us={f"p{q}": quantile(runs, q) for q in (10, 50, 90, 99)} if runs else {},
        gpus=_counts([_gpu_text(job.gpu_milli * job.replicas) for job in jobs], most),
        users=_counts([job.user for job in jobs if job.user], most),
        namespaces=_counts([job.namespace for job in jobs if job.namespace], most),
        without_run_time=sum(job.run_us is None for job in jobs),
        censored=sum(job.is_censored for job in jobs),
        failing=sum(job.exit_code != 0 for job in jobs),
        skipped=len(trace.skipped),
        notes=trace.notes,
    )


def _gpu_text(milli: int) -> str:
    return str(milli // MILLI) if milli % MILLI == 0 else f"{milli / MILLI:g}"


def _counts(values: Sequence[str], most: int) -> tuple[tuple[str, int], ...]:
    ordered = sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(ordered[:most])


def quantile(ordered: Sequence[int], percent: float) -> int:
    """The smallest value that at least this share of the values does not exceed (nearest rank)."""
    rank = max(-(-len(ordered) * percent // 100), 1)
    return ordered[int(rank) - 1]
