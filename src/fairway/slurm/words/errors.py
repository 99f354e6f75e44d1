"""Slurm's errors: names, numbers and sentences, as every command prints them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fairway.errors import UserError


class SlurmError(UserError):
    """What the controller or the accounting store refuses.

    name: as in slurm_errno.h without ESLURM_ (`INVALID_QOS`); code: its number; message: Slurm's sentence;
    notes: lines sent beside the refusal (`QOSMaxWallDurationPerJobLimit`);
    job_id: the id a refused submission used up, 0 for none.
    """

    def __init__(self, name: str, job_id: int = 0, notes: tuple[str, ...] = ()) -> None:
        self.name, self.job_id, self.notes = name, job_id, notes
        self.code, self.message = refusals()[name]
        super().__init__(self.message)


@cache
def refusals() -> dict[str, tuple[int, str]]:
    """name → (number, sentence)."""
    text = files("fairway.slurm").joinpath("data/errors.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {name: (int(number), words) for name, number, words in rows}
