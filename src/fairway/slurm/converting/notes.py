"""What of a Slurm site is not the same on Kubernetes: one sentence of why, one of what to do, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

CHANGED, DROPPED, LOST = "changed", "dropped", "lost"
"""Done in another way; left out without effect on the work; or the job would run otherwise than it asks."""

LABELS = "slurm.fairway.dev/"
"""Prefix of the labels that carry Slurm's words: partitions, features, switches, kinds of nodes."""


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """`text` is what stands there, such as `--dependency=afterok:12`."""

    file: str
    line: int
    kind: str
    text: str
    why: str
    do: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "kind": self.kind,
            "text": self.text,
            "why": self.why,
            "do": self.do,
        }


@cache
def fixed_notes() -> dict[str, tuple[str, str, str]]:
    """Option → (kind, why, do) of sbatch's options that are the same story in every script."""
    text = (files("fairway.slurm") / "data" / "converting.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {option: (kind, why, do) for option, kind, why, do in rows}


def note_lines(notes: Iterable[Note], width: int = 100) -> list[str]:
    """For a terminal: where and what, then why and what to do."""
    from textwrap import wrap

    lines = []
    for note in sorted(notes):
        where = f"{note.file}:{note.line}" if note.line else note.file
        lines.append(f"{where}: {note.kind}: {note.text}"[:width])
        said = f"{note.why}. {note.do[:1].upper()}{note.do[1:]}".rstrip(". ") + "."
        lines += wrap(said, width, initial_indent="    ", subsequent_indent="    ")
    return lines
