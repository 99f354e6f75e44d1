"""The generic job format: one row a job, as CSV, JSON lines or Parquet, in and out.

What it cannot say, it does not need: see `rows` for the columns and `docs/traces.md` for what they mean. Every
row is checked; what is wrong is located by file, line (row, in Parquet) and column.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from fairway.errors import FieldProblem, InvalidInput
from fairway.extras import need
from fairway.kube.fieldpath import value_text
from fairway.kube.plaintext import cell_text, plain_cell
from fairway.kube.quantity import format_binary
from fairway.kube.timestamps import SECOND_US
from fairway.traces.jobs import MILLI, JobTrace, TraceJob, in_order
from fairway.traces.rows import COLUMNS, REQUIRED, BadCell, Submitted, job_from

CSV, JSONL, PARQUET = "csv", "jsonl", "parquet"
SUFFIXES = {".csv": CSV, ".jsonl": JSONL, ".ndjson": JSONL, ".parquet": PARQUET}
MAX_PROBLEMS = 100
Row = tuple[int, dict[str, Any] | BadCell]


def read_generic(path: Path, *, lenient: bool = False) -> JobTrace:
    """The jobs of a file, by its suffix.

    Raises: InvalidInput with every problem (lenient: only where the file as a whole will not do).
    """
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise _unusable(path, f"expected a file that ends in {', '.join(SUFFIXES)}")
    read: Callable[[Path], tuple[Sequence[str], Iterable[Row]]] = _READERS[form]
    try:
        columns, rows = read(path)
        return _trace(path, columns, rows, lenient)
    except FileNotFoundError:
        raise _unusable(path, "expected a file that exists") from None
    except UnicodeDecodeError as error:
        raise _unusable(path, f"expected UTF-8 text (byte {error.start} is not)") from None
    except csv.Error as error:
        raise _unusable(path, f"expected CSV ({error})") from None
    except OSError as error:
        raise _unusable(path, f"expected a readable file ({error.strerror})") from None


def _unusable(path: Path, expected: str, line: int = 0, column: str = "") -> InvalidInput:
    return InvalidInput((FieldProblem(str(path), line, column, "", expected),))


def _trace(path: Path, columns: Sequence[str], rows: Iterable[Row], lenient: bool) -> JobTrace:
    notes = _check_columns(path, columns)
    found: list[tuple[TraceJob, Submitted]] = []
    problems: list[FieldProblem] = []
    line_of: dict[str, int] = {}
    for line, cells in rows:
        try:
            if isinstance(cells, BadCell):
                raise cells
            job, submitted = job_from(cells)
            _check_row(job, submitted, found, line_of.setdefault(job.job_id, line), line)
            found.append((job, submitted))
        except BadCell as bad:
            text = bad.value if isinstance(bad.value, str) else value_text(bad.value)
            problems.append(FieldProblem(str(path), line, bad.column, text, bad.expected))
    if problems and not lenient:
        raise InvalidInput(tuple(problems[:MAX_PROBLEMS]))
    if not found:
        raise _unusable(path, "expected at least one job")
    return JobTrace(str(path), in_order(_rebased(found)), tuple(notes), tuple(problems))


def _check_columns(path: Path, columns: Sequence[str]) -> list[str]:
    """Notes on columns nobody reads; a misspelt one is a problem."""
    for column in REQUIRED:
        if column not in columns:
            expected = f"required column; expected {', '.join(COLUMNS)}"
            close = difflib.get_close_matches(column, columns, 1)
            raise _unusable(
                path, f"{expected}{f' (is {close[0]} meant to be it?)' if close else ''}", 1, column
            )
    unknown = [c for c in columns if c not in COLUMNS]
    for column in unknown:
        close = difflib.get_close_matches(column.lower(), [c for c in COLUMNS if c not in columns], 1, 0.8)
        if close:
            raise _unusable(path, f"unknown column; did you mean {close[0]}?", 1, column)
    return [f"columns nobody reads: {', '.join(unknown)}"] if unknown else []


def _check_row(
    job: TraceJob, submitted: Submitted, found: list[tuple[TraceJob, Submitted]], first: int, line: int
) -> None:
    if first != line:
        raise BadCell("job_id", job.job_id, f"expected an id of its own: line {first} has it")
    if found and found[0][1].is_absolute != submitted.is_absolute:
        kind = "an absolute time" if found[0][1].is_absolute else "seconds since the trace's start"
        raise BadCell("submit_time", submitted.us // SECOND_US, f"expected {kind}, as in the rows before")


def _rebased(found: list[tuple[TraceJob, Submitted]]) -> Iterator[TraceJob]:
    """Absolute times count from the first submission."""
    base_us = min(s.us for _, s in found) if found[0][1].is_absolute else 0
    return (replace(job, submit_us=job.submit_us - base_us) if base_us else job for job, _ in found)


# Reading the three forms


def _read_csv(path: Path) -> tuple[Sequence[str], Iterable[Row]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    if not lines:
        raise _unusable(path, f"expected a header with the columns {', '.join(COLUMNS)}")
    header = [name.strip() for name in lines[0][1]]
    return header, (_csv_row(header, line, cells) for line, cells in lines[1:])


def _csv_row(header: list[str], line: int, cells: list[str]) -> Row:
    if len(cells) == len(header):
        return line, dict(zip(header, map(cell_text, cells), strict=True))
    column = header[len(cells)] if len(cells) < len(header) else header[-1]
    what = "a truncated row" if len(cells) < len(header) else "a row that is too long"
    expected = f"expected {len(header)} columns: this is {what} of {len(cells)}"
    return line, BadCell(column, ",".join(cells), expected)


def _read_jsonl(path: Path) -> tuple[Sequence[str], Iterable[Row]]:
    decode = msgspec.json.Decoder().decode
    rows: list[Row] = []
    columns: dict[str, None] = {}
    with path.open("rb") as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                cells = decode(text)
            except msgspec.DecodeError as wrong:
                shown = text.decode("utf-8", "replace").strip()[:80]
                cells = BadCell("", shown, f"expected one JSON object a line ({wrong})")
            if not isinstance(cells, (dict, BadCell)):
                cells = BadCell("", cells, "expected one JSON object a line")
            if isinstance(cells, dict):
                columns.update(dict.fromkeys(cells))
            rows.append((line, cells))
    if not rows:
        raise _unusable(path, "expected at least one job")
    return ([*columns] if columns else list(REQUIRED)), rows


def _read_parquet(path: Path) -> tuple[Sequence[str], Iterable[Row]]:
    polars = need("polars")
    try:
        frame = polars.read_parquet(path)
    except (polars.exceptions.PolarsError, OSError) as wrong:
        if not path.exists():
            raise FileNotFoundError(path) from None
        raise _unusable(path, f"expected a Parquet file ({str(wrong).splitlines()[0]})") from None
    return frame.columns, enumerate(frame.iter_rows(named=True), 1)


_READERS: dict[str, Any] = {CSV: _read_csv, JSONL: _read_jsonl, PARQUET: _read_parquet}


# Writing


def write_generic(trace: JobTrace, path: Path) -> None:
    """The trace as a file, in the form its suffix says. Reading it back gives the same jobs.

    Raises: InvalidInput for another suffix.
    """
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise _unusable(path, f"expected a name that ends in {', '.join(SUFFIXES)}")
    if form == PARQUET:
        polars = need("polars")
        rows = [_cells(job, flat=True) for job in trace.jobs]
        schema = dict.fromkeys(COLUMNS, polars.String)
        polars.DataFrame(rows, schema=schema).write_parquet(path)
    else:
        path.write_text(to_csv(trace) if form == CSV else to_jsonl(trace), encoding="utf-8")


def to_csv(trace: JobTrace) -> str:
    """With the columns that any job of it uses."""
    rows = [_cells(job, flat=True) for job in trace.jobs]
    used = [c for c in COLUMNS if c in REQUIRED or any(row[c] for row in rows)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(used)
    writer.writerows([plain_cell(row[c]) for c in used] for row in rows)
    return out.getvalue()


def to_jsonl(trace: JobTrace) -> str:
    """One object a line, without what is not set."""
    encode = msgspec.json.encode
    lines = [encode({c: v for c, v in _cells(job, flat=False).items() if v != ""}) for job in trace.jobs]
    return b"\n".join([*lines, b""]).decode()


def _cells(job: TraceJob, *, flat: bool) -> dict[str, Any]:
    """The row as it is written; an empty cell is one that says nothing. `flat`: text only."""
    labels: Any = dict(job.labels) if job.labels else ""
    if flat and labels:
        labels = ";".join(f"{k}={v}" for k, v in job.labels)
    return {
        "job_id": job.job_id,
        "submit_time": decimal_text(job.submit_us, SECOND_US),
        "run_time": "" if job.run_us is None else decimal_text(job.run_us, SECOND_US),
        "gpus": decimal_text(job.gpu_milli, MILLI) if job.gpu_milli else "",
        "cpus": decimal_text(job.cpu_milli, MILLI) if job.cpu_milli else "",
        "memory": format_binary(job.memory_bytes) if job.memory_bytes else "",
        "replicas": str(job.replicas) if job.replicas != 1 else "",
        "user": job.user,
        "namespace": job.namespace,
        "priority_class": job.priority_class,
        "queue": job.queue,
        "gpu_model": job.gpu_model,
        "exit_code": str(job.exit_code) if job.exit_code else "",
        "labels": labels,
        "gpu_utilization": job.gpu_utilization,
        "checkpoint_interval": decimal_text(job.checkpoint_interval_us, SECOND_US)
        if job.checkpoint_interval_us
        else "",
        "is_censored": "true" if job.is_censored and job.run_us is not None else "",
    }


def decimal_text(value: int, unit: int) -> str:
    """An exact decimal: 1500 of 1000 → `1.5`."""
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
