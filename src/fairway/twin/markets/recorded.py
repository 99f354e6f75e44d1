"""A recorded series of interruptions, from CSV.

    time,instance_type,zone,count
    2h30m,p4d.24xlarge,us-east-1a,2
    2026-01-05T09:00:00Z,g5.*,,

`time` counts from the start or is an RFC 3339 time; words are patterns, empty ones match everything; no count: all.
"""

from __future__ import annotations

import csv
from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.manifest import capped
from fairway.kube.timestamps import parse_duration, parse_rfc3339
from fairway.twin.markets.plan import Interruption

COLUMNS = ("time", "instance_type", "zone", "count")


def read_interruptions(path: Path, start_us: int) -> tuple[Interruption, ...]:
    """The series of a file, in time's order.

    Raises: InvalidInput with every problem.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as wrong:
        raise InvalidInput((FieldProblem(str(path), 0, "", "", f"cannot be read: {wrong}"),)) from wrong
    rows = csv.DictReader(text.splitlines())
    problems: list[FieldProblem] = []
    unknown = [name for name in rows.fieldnames or () if name not in COLUMNS]
    if "time" not in (rows.fieldnames or ()) or unknown:
        expected = f"expected a header with time, and of {', '.join(COLUMNS)}"
        raise InvalidInput((FieldProblem(str(path), 1, "", ",".join(rows.fieldnames or ()), expected),))
    found = []
    for row in rows:
        line = rows.line_num
        at_us = _moment(str(path), line, row["time"] or "", start_us, problems)
        count = _count(str(path), line, row.get("count") or "", problems)
        found.append(Interruption(at_us, row.get("instance_type") or "*", row.get("zone") or "*", count))
    if problems:
        raise InvalidInput(capped(problems))
    return tuple(sorted(found, key=lambda i: (i.at_us, i.instance_type, i.zone)))


def _moment(file: str, line: int, text: str, start_us: int, problems: list[FieldProblem]) -> int:
    try:
        return parse_rfc3339(text) if "T" in text else start_us + parse_duration(text)
    except (ValueError, AttributeError):
        expected = "expected a duration since the start such as 2h30m, or an RFC 3339 time"
        problems.append(FieldProblem(file, line, "time", text, expected))
        return start_us


def _count(file: str, line: int, text: str, problems: list[FieldProblem]) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        problems.append(
            FieldProblem(file, line, "count", text, "expected a number from 1, or nothing for all")
        )
        return None
    return int(text)
