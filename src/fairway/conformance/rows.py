"""Recordings on disk: one JSON object a line, plain or gzipped (`.gz`).

Any file may be handed in, so it is read within a budget and what is wrong with it is told with its line.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from fairway.errors import FieldProblem, InvalidInput

BYTES_MOST = 1 << 30
"""Of one recording, unpacked. The largest one made so far has 2 MB."""

Shape = Callable[[Any], tuple[str, str] | None]
"""What is wrong with a row: its field path and what was expected there; None for a row that can be played."""


def read_rows(file: Path, shape: Shape) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows with their line numbers (1-based). Empty lines are left out.

    Raises: InvalidInput for a file that cannot be read, a line that is no JSON, or a row of another shape.
    """
    for number, line in enumerate(read_bytes(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as broken:
            problem = FieldProblem(str(file), number, "", "", f"expected a JSON object: {broken}")
            raise InvalidInput((problem,)) from broken
        wrong = shape(row)
        if wrong is not None:
            raise InvalidInput((FieldProblem(str(file), number, wrong[0], "", wrong[1]),))
        yield number, row


def read_bytes(file: Path) -> bytes:
    """The recording's text. Raises: InvalidInput for a file that cannot be read or is too large."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            text = stream.read(BYTES_MOST + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or "unreadable"
        problem = FieldProblem(str(file), 0, "", "", f"cannot read the recording: {reason}")
        raise InvalidInput((problem,)) from error
    if len(text) > BYTES_MOST:
        expected = f"expected a recording of at most {BYTES_MOST >> 20} MiB"
        raise InvalidInput((FieldProblem(str(file), 0, "", "", expected),))
    return text


def nothing_recorded(file: Path, what: str) -> InvalidInput:
    """For a file without a single row of its kind."""
    return InvalidInput((FieldProblem(str(file), 0, "", "", f"no {what}: expected one JSON object a line"),))
