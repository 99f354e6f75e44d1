"""Accounting as `sacct -P` (or `-p`, or CSV) prints it: a header, then one line for each job and step; steps are left
out. Columns may come in any order; those that are needed are JobID, Submit, Start, End, and AllocTRES or ReqTRES.
"""

from __future__ import annotations

import calendar
import csv
import re
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.slurm.records.record import JobRecord
from fairway.slurm.words import durations
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.sizes import megabytes, whole

NEEDED = ("jobid", "submit", "start", "end")
ADVICE = (
    "sacct -aX -P --duplicates -S 2025-01-01 -o JobID,JobName,User,Account,Partition,QOS,State,Submit,Eligible,Start,"
    "End,Timelimit,ReqTRES,AllocTRES,NNodes,NodeList,ExitCode,Priority"
)
MAX_PROBLEMS = 20
MAX_ROWS = 20_000_000
_NEVER = ("", "Unknown", "None", "N/A", "NONE")
_STEP = re.compile(r"\.(batch|extern|interactive|\d+)")


def looks_like_sacct(text: str) -> bool:
    """By its header."""
    words = re.split(r"[|,]", text.split("\n", 1)[0].lower())
    return "jobid" in words or "jobidraw" in words


def read_sacct(path: Path) -> list[JobRecord]:
    """In order of submission. Raises: InvalidInput with file, line and column."""
    problems: list[FieldProblem] = []
    found: list[JobRecord] = []
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            header = stream.readline()
            mark = "|" if "|" in header else ","
            columns = [word.strip().lower() for word in header.rstrip("|\r\n").split(mark)]
            _check(path, columns)
            for number, cells in enumerate(_rows(stream, mark), 2):
                if len(found) > MAX_ROWS or len(problems) >= MAX_PROBLEMS:
                    break
                record = _record(path, number, columns, cells, problems)
                if record is not None:
                    found.append(record)
    except UnicodeDecodeError as wrong:
        raise InvalidInput((FieldProblem(str(path), 0, "", "", f"is no UTF-8 text: {wrong}"),)) from None
    except csv.Error as wrong:
        raise InvalidInput((FieldProblem(str(path), 0, "", "", f"cannot be read: {wrong}"),)) from None
    if problems:
        raise InvalidInput(tuple(problems))
    if not found:
        raise InvalidInput((FieldProblem(str(path), 0, "", "", f"holds no job: expected {ADVICE}"),))
    found.sort(key=lambda record: (record.submit, _number(record.label), record.label))
    return found


def _rows(stream: Iterable[str], mark: str) -> Iterator[list[str]]:
    """sacct quotes nothing; who made commas of it may have."""
    if mark == "|":
        return csv.reader(stream, delimiter=mark, quoting=csv.QUOTE_NONE)
    return csv.reader(stream)


def _check(path: Path, columns: list[str]) -> None:
    lacking = [
        name for name in NEEDED if name not in columns and not (name == "jobid" and "jobidraw" in columns)
    ]
    if "alloctres" not in columns and "reqtres" not in columns:
        lacking.append("AllocTRES")
    if lacking:
        said = f"no column {', '.join(lacking)}: expected what this prints: {ADVICE}"
        raise InvalidInput((FieldProblem(str(path), 1, "", "", said),))


def _number(label: str) -> int:
    digits = re.match(r"\d+", label)
    return whole(digits[0]) if digits else 0


def _record(
    path: Path, number: int, columns: list[str], cells: list[str], problems: list[FieldProblem]
) -> JobRecord | None:
    if not cells or cells == [""]:
        return None
    if len(cells) not in (len(columns), len(columns) + 1):
        said = f"expected {len(columns)} columns, not {len(cells)}"
        problems.append(FieldProblem(str(path), number, "", cells[0][:40], said))
        return None
    row = dict(zip(columns, cells, strict=False))
    label = row.get("jobid") or row.get("jobidraw", "")
    if not label:
        problems.append(FieldProblem(str(path), number, "JobID", "", "is empty"))
        return None
    if _STEP.search(label):
        return None
    try:
        submit, start, end = (_stamp(row[name]) for name in ("submit", "start", "end"))
        asked, had = _tres(row.get("reqtres", "")), _tres(row.get("alloctres", ""))
        limit = _limit(row)
        nodes = row.get("nnodes") or row.get("allocnodes") or row.get("reqnodes") or "0"
        state = row.get("state", "").split(" ")[0] or ("RUNNING" if start and not end else "COMPLETED")
    except ValueError as wrong:
        problems.append(FieldProblem(str(path), number, "", label, str(wrong)))
        return None
    exit_code = row.get("exitcode", "0:0").partition(":")[0]
    return JobRecord(
        label=label,
        name=row.get("jobname", ""),
        user=row.get("user", "") or "unknown",
        account=row.get("account", "").lower(),
        partition=row.get("partition", ""),
        qos=row.get("qos", "").lower(),
        state=state,
        submit=submit,
        start=start if start <= (end or start) and state != "PENDING" else 0,
        end=end,
        limit=limit,
        nodes=whole(nodes) if nodes.isdecimal() else 0,
        tres=asked or had,
        nodelist=row.get("nodelist", ""),
        eligible=_stamp(row.get("eligible", "")),
        exit_code=min(whole(exit_code), 255) if exit_code.isdecimal() else 0,
        priority=whole(row["priority"]) if row.get("priority", "").isdecimal() else 0,
        reason=row.get("reason", ""),
        features=row.get("constraints", ""),
        alloc=had,
        line=number,
    )


@lru_cache(maxsize=1 << 16)
def _stamp(text: str) -> int:
    """A time in UTC, or seconds since 1970. Raises: ValueError."""
    if text in _NEVER:
        return 0
    if text.isdecimal():
        return whole(text)
    try:
        return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no time such as 2026-01-05T09:00:00") from None


def _limit(row: dict[str, str]) -> int:
    if row.get("timelimitraw", "").isdecimal():
        return whole(row["timelimitraw"])
    text = row.get("timelimit", "")
    if text in ("", "Partition_Limit", "UNLIMITED"):
        return INFINITE
    found = durations.minutes(text)
    if found is None:
        raise ValueError(f"Timelimit {text[:40]!r} is no duration")
    return found


@lru_cache(maxsize=1 << 14)
def _amounts(text: str) -> tuple[tuple[str, int], ...]:
    return tuple(_amounts_of(text))


def _amounts_of(text: str) -> Iterator[tuple[str, int]]:
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        amount = megabytes(value) if name == "mem" else whole(value) if value.isdecimal() else None
        if name == "mem" and "." in value:
            amount = int(float(value.rstrip("KMGTP")) * {"G": 1024, "T": 1 << 20}.get(value[-1], 1))
        if not equals or amount is None:
            raise ValueError(f"TRES {part[:40]!r} is no NAME=COUNT")
        yield name, amount


def _tres(text: str) -> dict[str, int]:
    return dict(_amounts(text))
