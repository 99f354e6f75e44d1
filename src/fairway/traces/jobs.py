"""One job of a trace: what it asked for, when, and how long it ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairway.errors import FieldProblem

MILLI = 1000


@dataclass(frozen=True, slots=True)
class TraceJob:
    """`submit_us` counts from the trace's start. Amounts are per replica; `replicas` run together, as a gang.

    `run_us` None: nobody knows; `is_censored`: it ran at least so long, its end was not seen. `gpu_milli` below
    1000 is a share of one GPU; `memory_bytes` and `cpu_milli` 0: nothing asked for.
    """

    job_id: str
    submit_us: int
    run_us: int | None = None
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    replicas: int = 1
    user: str = ""
    namespace: str = ""
    priority_class: str = ""
    queue: str = ""
    gpu_model: str = ""
    exit_code: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    gpu_utilization: str = ""
    checkpoint_interval_us: int = 0
    is_censored: bool = False
    node_selector: tuple[tuple[str, str], ...] = ()

    @property
    def gpu_milli_us(self) -> int:
        """GPU time it takes: milli-GPU·µs over all replicas; 0 where its run time is unknown."""
        return self.gpu_milli * self.replicas * (self.run_us or 0)


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Jobs in the order of (submit_us, job_id). `source` names where they come from; `notes` say what a reader
    should know (censored jobs, guesses); `skipped` are rows that lenient reading left out."""

    source: str
    jobs: tuple[TraceJob, ...]
    notes: tuple[str, ...] = ()
    skipped: tuple[FieldProblem, ...] = ()

    @property
    def last_us(self) -> int:
        return self.jobs[-1].submit_us if self.jobs else 0


def in_order(jobs: Iterable[TraceJob]) -> tuple[TraceJob, ...]:
    return tuple(sorted(jobs, key=lambda job: (job.submit_us, job.job_id)))
