"""A run directory: written while the run goes on, readable whenever the run is cut off.

    summary.json          what the run was, how it stands, and its main figures (see `summary`)
    pods.parquet          one row per pod, workload, node, … as in `recorder.tables`
    workloads.parquet  nodes.parquet  intervals.parquet  series.parquet
    scalings.parquet      what autoscalers did; only of runs with some
  services.parquet      what requests got; only of runs that serve
  breaks.parquet        GPUs that broke; only of runs in which some did
    queue-*.parquet       what Kueue did, as in `recorder.queuetables`; only of runs with Kueue
    events/00000.parquet  the event log in parts, in order: time_us, component, kind, namespace, name, …

Without Polars they are `pods.json.gz` and so on (see `frames`).

Each file is put in its place whole. `summary.json` comes first, saying `running`, and again last, saying
`complete` or `interrupted`; a run that was killed leaves the event log so far and a summary that says
`running`, and is read with empty tables.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from fairway.errors import FieldProblem, InvalidInput, UserError, WorldError
from fairway.kube.manifest import IGNORE_MARK
from fairway.recorder.queuetables import (
    NO_QUEUES,
    EvictionRow,
    FairnessRow,
    HoldRow,
    QueuedRow,
    QueueOutcome,
    QueueRow,
    QuotaRow,
)
from fairway.recorder.recorder import Recorder
from fairway.recorder.tables import (
    INTERRUPTED,
    RUNNING,
    BreakRow,
    IntervalRow,
    NodeRow,
    Outcome,
    PodRow,
    ScalingRow,
    SeriesRow,
    ServiceRow,
    Table,
    WorkloadRow,
)
from fairway.results.atomic import replace_file, replace_text
from fairway.results.frames import (
    PARQUET,
    SUFFIXES,
    read_columns,
    read_table,
    suffix,
    table_file,
    write_columns,
    write_table,
)
from fairway.results.run import Run, RunInfo
from fairway.results.summary import SCHEMA, info_of, outcome_parts, summary_of, unfinished_summary
from fairway.twin.eventlog import Record

SUMMARY = "summary.json"
EVENTS = "events"
TABLES: dict[str, type[Any]] = {
    "pods": PodRow,
    "workloads": WorkloadRow,
    "nodes": NodeRow,
    "intervals": IntervalRow,
    "series": SeriesRow,
}
SCALINGS, SERVICES, BREAKS = "scalings", "services", "breaks"
# Tables that only runs with something in them have.
OPTIONAL: dict[str, type] = {SCALINGS: ScalingRow, SERVICES: ServiceRow, BREAKS: BreakRow}
# Of `Outcome.queues`; a run without Kueue has none of them.
QUEUE_TABLES: dict[str, type[Any]] = {
    "workloads": QueuedRow,
    "holds": HoldRow,
    "evictions": EvictionRow,
    "quotas": QuotaRow,
    "queues": QueueRow,
    "fairness": FairnessRow,
}
# Records in one part of the event log: about 2 MB of Parquet.
PART_RECORDS = 100_000


class RunWriter:
    """Writes one run's directory. As a context manager it leaves an interrupted run behind when cut off.

    with RunWriter(path, recorder, RunInfo("my-scenario", seed=42)) as writer:
        twin.host.log.sinks.append(writer.on_records)
        twin.run(...)
        writer.finish(recorder.outcome(), info)
    """

    def __init__(self, path: Path, recorder: Recorder | None, info: RunInfo) -> None:
        self.path = path
        self._recorder = recorder
        self._info = info
        self._records: list[Record] = []
        self._parts = 0
        self._is_finished = False

    def __enter__(self) -> RunWriter:
        _claim(self.path)
        replace_text(self.path / SUMMARY, _json(unfinished_summary(self._info, RUNNING)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._is_finished:
            return
        reason = (
            "stopped by Ctrl-C" if kind is KeyboardInterrupt else f"{kind.__name__}: {error}" if kind else ""
        )
        info = _with_reason(self._info, reason or "ended without an outcome")
        if self._recorder is not None:
            self.finish(self._recorder.outcome(INTERRUPTED), info)
        else:
            self._flush()
            replace_text(self.path / SUMMARY, _json(unfinished_summary(info, INTERRUPTED)))

    def on_records(self, batch: list[Record]) -> None:
        """A sink for the twin's event log."""
        self._records.extend(batch)
        if len(self._records) >= PART_RECORDS:
            self._flush()

    def checkpoint(self, outcome: Outcome) -> None:
        """Write the tables as they stand, so that even a killed run has them. The summary keeps saying `running`."""
        self._write(outcome, self._info)

    def finish(self, outcome: Outcome, info: RunInfo | None = None) -> Run:
        """Write everything; `info` replaces what was said at the start."""
        info = self._info if info is None else info
        self._flush()
        self._write(outcome, info)
        self._is_finished = True
        return Run(info, outcome, str(self.path))

    def _write(self, outcome: Outcome, info: RunInfo) -> None:
        for name, row in TABLES.items():
            write_table(getattr(outcome, name), row, self.path, name)
        for name, row in OPTIONAL.items():
            if len(getattr(outcome, name)):
                write_table(getattr(outcome, name), row, self.path, name)
        for name, row in QUEUE_TABLES.items() if not outcome.queues.is_empty else ():
            write_table(getattr(outcome.queues, name), row, self.path, _queue_table(name))
        replace_text(self.path / SUMMARY, _json(summary_of(Run(info, outcome))))

    def _flush(self) -> None:
        """Write the event log so far as its next part."""
        if not self._records:
            return
        part = self.path / EVENTS / f"{self._parts:05}{suffix()}"
        if part.suffix == PARQUET:
            import polars as pl

            frame = pl.DataFrame(self._records, schema=_EVENT_SCHEMA, orient="row")
            replace_file(part, lambda to: frame.write_parquet(to, compression="zstd"))
        else:
            write_columns(part, dict(zip(_EVENT_SCHEMA, zip(*self._records, strict=True), strict=True)))
        self._parts += 1
        self._records = []


_EVENT_SCHEMA = ["time_us", "component", "kind", "namespace", "name", "reason", "message"]


def write_run(path: Path, outcome: Outcome, info: RunInfo) -> Run:
    """Write the directory of a run that is over, in one go (without its event log)."""
    with RunWriter(path, None, info) as writer:
        return writer.finish(outcome)


def _claim(path: Path) -> None:
    """Make the directory, or clear that of an earlier run; anything else that is there stays untouched.

    Raises: UserError for a directory that is no run's; WorldError.
    """
    try:
        if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not (path / SUMMARY).exists())):
            raise UserError(
                f"{path}: expected a new or empty directory, or an earlier run's (with {SUMMARY}) to replace"
            )
        (path / EVENTS).mkdir(parents=True, exist_ok=True)
        # A run written beside the manifests it came from is not read as manifests next time.
        (path / IGNORE_MARK).touch()
        for stale in (path / SUMMARY, *_table_files(path)):
            stale.unlink(missing_ok=True)
        for part in _parts(path):
            part.unlink()
    except OSError as failed:
        raise WorldError(f"{path}: cannot be written: {failed.strerror or failed}") from failed


def _table_files(path: Path) -> list[Path]:
    names = [*TABLES, *OPTIONAL, *map(_queue_table, QUEUE_TABLES)]
    return [path / f"{name}{form}" for name in names for form in SUFFIXES]


def _queue_table(name: str) -> str:
    return f"queue-{name}"


def _parts(path: Path) -> list[Path]:
    """The event log's files, in order."""
    return sorted(f for form in SUFFIXES for f in (path / EVENTS).glob(f"*{form}"))


def _with_reason(info: RunInfo, reason: str) -> RunInfo:
    from dataclasses import replace

    return replace(info, reason=info.reason or reason)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


class RunFiles(NamedTuple):
    """What is on disk of a run, unread."""

    directory: Path
    summary: dict[str, Any]


def load_run(path: Path) -> Run:
    """The run in a directory, also one that was cut off.

    Raises: InvalidInput.
    """
    files = _open(path)
    tables: dict[str, Any] = {}
    missing = []
    for name, row in TABLES.items():
        file = table_file(files.directory, name)
        if file is not None:
            tables[name] = read_table(file, row)
        else:
            missing.append(name)
            tables[name] = Table.of(row, [])
    outcome = Outcome(
        **outcome_parts(files.summary),
        **tables,
        queues=_load_queues(files.directory),
        scalings=_load_optional(files.directory, SCALINGS),
        services=_load_optional(files.directory, SERVICES),
        breaks=_load_optional(files.directory, BREAKS),
    )
    return Run(info_of(files.summary), outcome, str(path), tuple(missing))


def _load_queues(directory: Path) -> QueueOutcome:
    """What Kueue did; a table that is not there is empty."""
    found: dict[str, Any] = {}
    for name, row in QUEUE_TABLES.items():
        file = table_file(directory, _queue_table(name))
        if file is not None:
            found[name] = read_table(file, row)
    return QueueOutcome(**found) if found else NO_QUEUES


def _load_optional(directory: Path, name: str) -> Table[Any]:
    file = table_file(directory, name)
    return Table.of(OPTIONAL[name], []) if file is None else read_table(file, OPTIONAL[name])


def _open(path: Path) -> RunFiles:
    file = path / SUMMARY if path.is_dir() or not path.exists() else path
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
    except OSError as failed:
        expected = f"expected a run directory, as `fairway simulate --out DIR` writes it ({failed.strerror})"
        raise InvalidInput((FieldProblem(str(file), 0, "", "", expected),)) from None
    except ValueError as broken:
        raise InvalidInput((FieldProblem(str(file), 0, "", "", f"not JSON: {broken}"),)) from None
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if schema != SCHEMA:
        problem = FieldProblem(str(file), 0, "schema", str(schema), f"expected {SCHEMA}")
        raise InvalidInput((problem,))
    return RunFiles(file.parent, summary)


def read_events(path: Path) -> list[Record]:
    """The event log of a run directory, in order."""
    columns = [read_columns(part) for part in _parts(path)]
    return [Record(*row) for part in columns for row in zip(*part.values(), strict=True)]
