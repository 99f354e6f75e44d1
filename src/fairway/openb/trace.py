"""What stands in a node list and a pod list of the openb trace?

CSV files with a header, as published with the FGD paper. Every row is checked: a row that is cut off, is not a
number where one is due, or asks for what cannot exist is a located problem. A strict reader raises them all
at once; a lenient one skips those rows and returns the problems.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fairway.errors import FieldProblem, InvalidInput
from fairway.scheduling.gpushare.sizes import MILLI

# GPUs of a node or pod of the trace. Source: its node list.
_MOST_GPUS = 8

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
TIME_COLUMNS = ("creation_time", "deletion_time")
LARGEST = 1 << 50  # above any CPU, memory or time stamp that is meant

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One row of a node list; `gpu` whole devices of one `model` ("" without)."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpu: int
    model: str


@dataclass(frozen=True, slots=True)
class TracePod:
    """One row of a pod list: `num_gpu` devices, `gpu_milli` of each, on one of `gpu_models` (any if empty).

    Stamps are seconds since the trace began; None where the list has none.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    num_gpu: int
    gpu_milli: int
    gpu_models: tuple[str, ...]
    created_s: int | None
    deleted_s: int | None


@dataclass(frozen=True, slots=True)
class Trace:
    """Both lists, in the order of their names; `skipped` are the rows a lenient reader left out."""

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    skipped: tuple[FieldProblem, ...] = ()


class _Reject(Exception):
    """A column of the current row that will not do."""

    def __init__(self, column: str, value: str, expected: str) -> None:
        super().__init__(column, value, expected)
        self.column, self.value, self.expected = column, value, expected


def read_trace(nodes: Path, pods: Path, *, lenient: bool = False) -> Trace:
    """Both lists. Raises InvalidInput with every problem of both files, or only those of whole files if lenient."""
    node_rows, node_problems = _read(nodes, NODE_COLUMNS, _node, lambda node: node.name)
    pod_rows, pod_problems = _read(pods, POD_COLUMNS, _pod, lambda pod: pod.name)
    problems = (*node_problems, *pod_problems)
    if problems and not lenient:
        raise InvalidInput(problems)
    return Trace(
        tuple(sorted(node_rows, key=lambda node: node.name)),
        tuple(sorted(pod_rows, key=lambda pod: pod.name)),
        problems,
    )


def _read(
    path: Path, columns: tuple[str, ...], parse: Callable[[dict[str, str]], Row], name: Callable[[Row], str]
) -> tuple[list[Row], list[FieldProblem]]:
    """The good rows and the problems of one file. Raises InvalidInput if the file as a whole will not do."""
    lines = _lines(path)
    header = lines[0][1] if lines else []
    missing = [column for column in columns if column not in header]
    if missing:
        problem = FieldProblem(
            str(path), 1, missing[0], "", f"a header with the columns {', '.join(columns)}"
        )
        raise InvalidInput((problem,))
    rows: list[Row] = []
    problems: list[FieldProblem] = []
    line_of: dict[str, int] = {}
    for line, cells in lines[1:]:
        try:
            row = parse(_by_column(header, cells))
            first = line_of.setdefault(name(row), line)
            if first != line:
                raise _Reject(header[0], name(row), f"a name of its own, line {first} has it")
            rows.append(row)
        except _Reject as bad:
            problems.append(FieldProblem(str(path), line, bad.column, bad.value, bad.expected))
    if not rows and not problems:
        raise InvalidInput((FieldProblem(str(path), 1, "", "", "at least one row below the header"),))
    return rows, problems


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, with their line numbers. Raises InvalidInput if it is no readable CSV file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            return [(reader.line_num, cells) for cells in reader if cells]
    except FileNotFoundError:
        expected = "a CSV file that exists"
    except OSError as error:
        expected = f"a readable CSV file ({error.strerror})"
    except UnicodeDecodeError as error:
        expected = f"UTF-8 text (byte {error.start} is not)"
    except csv.Error as error:
        expected = f"CSV ({error})"
    raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),))


def _by_column(header: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) != len(header):
        column = header[len(cells)] if len(cells) < len(header) else header[-1]
        what = "a truncated row" if len(cells) < len(header) else "a row that is too long"
        raise _Reject(column, ",".join(cells), f"{len(header)} columns, this is {what} of {len(cells)}")
    return dict(zip(header, cells, strict=True))


def _node(cells: dict[str, str]) -> TraceNode:
    return TraceNode(
        name=_text(cells, "sn"),
        cpu_milli=_integer(cells, "cpu_milli", 1),
        memory_mib=_integer(cells, "memory_mib", 0),
        gpu=_integer(cells, "gpu", 0, _MOST_GPUS),
        model=cells["model"].strip(),
    )


def _pod(cells: dict[str, str]) -> TracePod:
    num_gpu = _integer(cells, "num_gpu", 0, _MOST_GPUS)
    created, deleted = (_stamp(cells, column) for column in TIME_COLUMNS)
    if created is not None and deleted is not None and deleted < created:
        raise _Reject("deletion_time", str(deleted), f"not before creation_time {created}")
    return TracePod(
        name=_text(cells, "name"),
        cpu_milli=_integer(cells, "cpu_milli", 0),
        memory_mib=_integer(cells, "memory_mib", 0),
        num_gpu=num_gpu,
        gpu_milli=_gpu_milli(cells, num_gpu),
        gpu_models=tuple(model for model in cells.get("gpu_spec", "").split("|") if model),
        created_s=created,
        deleted_s=deleted,
    )


def _gpu_milli(cells: dict[str, str], num_gpu: int) -> int:
    if num_gpu == 0:
        return _integer(cells, "gpu_milli", 0, 0, "0 without devices")
    if num_gpu == 1:
        return _integer(cells, "gpu_milli", 1, MILLI)
    return _integer(cells, "gpu_milli", MILLI, MILLI, f"{MILLI}, several devices are taken whole")


def _text(cells: dict[str, str], column: str) -> str:
    if not cells[column].strip():
        raise _Reject(column, cells[column], "a name")
    return cells[column].strip()


def _stamp(cells: dict[str, str], column: str) -> int | None:
    return _integer(cells, column, 0) if cells.get(column) else None


def _integer(cells: dict[str, str], column: str, low: int, high: int = LARGEST, expected: str = "") -> int:
    """A cell as an integer in [low, high]; "8.0", "1e3" and "" are none."""
    text = cells[column].strip()
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 18 and low <= int(text) <= high:
        return int(text)
    if not expected:
        expected = f"an integer, {low} or more" if high == LARGEST else f"an integer from {low} to {high}"
    raise _Reject(column, text, expected)
