"""One tree of errors, by who can mend them: the user, the world, or us.

Errors carry fields, the command line renders them. Exit codes: `UserError` 2, `WorldError` 3, `BugError` 4.
A "no" (a pod that fits nowhere, an assertion that does not hold) is data, never an error.
"""

from __future__ import annotations

from dataclasses import dataclass


class FairwayError(Exception):
    """Base of everything Fairway raises on purpose."""

    exit_code = 4


class UserError(FairwayError):
    """The input is wrong: say what, where, with which value, and what is expected instead."""

    exit_code = 2


class WorldError(FairwayError):
    """The world failed us (a file vanished, a disk is full): retry or degrade."""

    exit_code = 3


class BugError(FairwayError):
    """An invariant of ours broke."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with the input, located.

    `file` and `line` (1-based, 0: unknown) say where; `path` is the field path as Kubernetes writes it
    (`spec.containers[0].resources.limits[nvidia.com/gpu]`) or a CSV column; `value` is what stood there,
    already rendered; `expected` says what should stand there instead.
    """

    file: str
    line: int
    path: str
    value: str
    expected: str
    subject: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        subject = f" {self.subject}:" if self.subject else ""
        path = f" {self.path}:" if self.path else ""
        value = f" {self.value}:" if self.value else ""
        return f"{where}:{subject}{path}{value} {self.expected}"


class InvalidInput(UserError):
    """A file, manifest or trace with one or more located problems."""

    def __init__(self, problems: tuple[FieldProblem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(p) for p in problems))
