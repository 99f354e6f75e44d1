"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fairway.errors import WorldError


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside the file, then put it in its place in one step.

    Raises: WorldError where the disk will not have it.
    """
    beside = path.with_name(f".{path.name}.partial")
    try:
        write(beside)
        os.replace(beside, path)
    except OSError as failed:
        beside.unlink(missing_ok=True)
        raise WorldError(f"{path}: cannot be written: {failed.strerror or failed}") from failed


def replace_text(path: Path, text: str) -> None:
    replace_file(path, lambda to: to.write_text(text, encoding="utf-8", newline="\n"))


def replace_bytes(path: Path, data: bytes) -> None:
    replace_file(path, lambda to: to.write_bytes(data))
