"""File paths in volumes: relative, and never out of their directory.

Source: pkg/apis/core/validation/validation.go validateLocalDescendingPath, ValidateLocalNonReservedPath (v1.36).
"""

from __future__ import annotations

from fairway.kube.fieldpath import Path
from fairway.kube.validation.problem import Problem, invalid


def has_backsteps(text: str) -> bool:
    return ".." in text.split("/")


def check_no_backsteps(text: str, path: Path, out: list[Problem]) -> None:
    if has_backsteps(text):
        out.append(invalid(path, text, "must not contain '..'"))


def check_descending(text: str, path: Path, out: list[Problem]) -> None:
    if text.startswith("/"):
        out.append(invalid(path, text, "must be a relative path"))
    check_no_backsteps(text, path, out)


def check_local(text: str, path: Path, out: list[Problem]) -> None:
    """A path below a volume's directory that does not begin with two dots either."""
    check_descending(text, path, out)
    if text.startswith("..") and not text.startswith("../"):
        out.append(invalid(path, text, "must not start with '..'"))
