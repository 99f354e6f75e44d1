"""A trace by its name, and how a scenario or a command uses it.

`read_trace` knows the format by the file's name and first line; `arrivals_of` applies window, speed, load and
limit, in this order, and says how rows become objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.traces import clusterdump, generic, openbjobs, scaling
from fairway.traces.arrival import JOB, Arrivals
from fairway.traces.generate import Recipe, generate
from fairway.traces.jobs import JobTrace

AUTO = "auto"
GENERIC = "generic"
OPENB = "openb"
KUBECTL = "kubectl"
FORMATS = (AUTO, GENERIC, OPENB, KUBECTL)


@dataclass(frozen=True, slots=True)
class TraceUse:
    """One trace of a scenario. `seed` None: the run's. `start_us` counts from the scenario's start."""

    source: JobTrace | Recipe
    where: str
    path: str = ""
    seed: int | None = None
    start_us: int = 0
    window_us: tuple[int, int] | None = None
    speed: float = 1.0
    load: float = 1.0
    limit: int = 0
    prefix: str = ""
    kind: str = JOB
    namespace: str = "default"
    scheduler_name: str = ""
    suspended: bool = False


def read_trace(path: Path, *, form: str = AUTO, lenient: bool = False) -> JobTrace:
    """The jobs of a file.

    Raises: InvalidInput with every problem (lenient: only what is wrong with the file as a whole).
    """
    if form == AUTO:
        form = guess_format(path)
    if form == OPENB:
        return openbjobs.read_openb(path, lenient=lenient)
    if form == KUBECTL:
        return clusterdump.read_dump(path, lenient=lenient)
    return generic.read_generic(path, lenient=lenient)


def guess_format(path: Path) -> str:
    """By suffix, and for CSV by its header, for JSON by whether it holds Kubernetes objects."""
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml") or path.is_dir():
        return KUBECTL
    head = _head(path)
    if suffix == ".csv":
        return OPENB if head.startswith(openbjobs.HEADER_START) else GENERIC
    if suffix == ".json":
        return KUBECTL
    if suffix in (".jsonl", ".ndjson", ".parquet"):
        return GENERIC
    expected = (
        "expected a trace: .csv, .jsonl, .parquet, or .json and .yaml of kubectl; say which with a format"
    )
    raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),))


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(256).decode("utf-8", "replace")
    except OSError as error:
        expected = f"expected a readable file ({error.strerror})"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),)) from error


def jobs_of(use: TraceUse, seed: int) -> JobTrace:
    """The trace's jobs as this use of it has them."""
    seed = seed if use.seed is None else use.seed
    trace = generate(use.source, seed) if isinstance(use.source, Recipe) else use.source
    if use.window_us is not None:
        trace = scaling.window(trace, *use.window_us)
    if use.speed != 1.0:
        trace = scaling.faster(trace, use.speed)
    if use.load != 1.0:
        trace = scaling.with_load(trace, use.load, seed)
    if use.limit:
        trace = replace(trace, jobs=trace.jobs[: use.limit])
    if use.prefix:
        jobs = tuple(replace(job, job_id=f"{use.prefix}{job.job_id}") for job in trace.jobs)
        trace = replace(trace, jobs=jobs)
    return trace


def arrivals_of(use: TraceUse, seed: int) -> Arrivals:
    return Arrivals(
        trace=jobs_of(use, seed),
        where=use.where,
        start_us=use.start_us,
        kind=use.kind,
        namespace=use.namespace,
        scheduler_name=use.scheduler_name,
        suspended=use.suspended,
    )
