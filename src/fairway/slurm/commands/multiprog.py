"""srun --multi-prog: which program each task runs, from a file of `RANKS PROGRAM ARGUMENTS` lines."""

from __future__ import annotations

import os
import re
import shlex

from fairway.slurm.commands.call import Call

_MOST_BYTES, _MOST_TASKS = 1 << 20, 100_000


def read_programs(call: Call, path: str, tasks: int | None) -> list[list[str]]:
    """Arguments task by task; without a number of tasks, as many as the file names. Wrong files end the command."""
    name, text = path, _read(call.site.real_path(path if path.startswith("/") else f"{call.cwd}/{path}"))
    if text is None:
        call.fail(f"Could not open multi_prog config file {name}")
    found: dict[int, list[str]] = {}
    rest: list[str] | None = None
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        ranks, _, command = line.partition(" ")
        try:
            words = shlex.split(command)
        except ValueError:
            words = []
        if not words:
            call.error(f"Line {number} of configuration file {name} invalid")
            call.quit(1)
        if ranks == "*":
            rest = words
            continue
        for offset, rank in enumerate(_ranks(call, ranks, tasks)):
            if rank in found:
                call.error(f"Duplicate record for task {rank}")
                _invalid(call, number, name)
            found[rank] = [_filled(word, rank, offset) for word in words]
            if len(found) > _MOST_TASKS:
                _invalid(call, number, name)
    count = tasks if tasks is not None else max(found, default=0) + 1
    if count > _MOST_TASKS:
        call.fail(f"Configuration file {name} invalid, no record for task id {count - 1}")
    others = [rank for rank in range(count) if rank not in found]
    if others and rest is None:
        call.fail(f"Configuration file {name} invalid, no record for task id {others[0]}")
    for offset, rank in enumerate(others):
        found[rank] = [_filled(word, rank, offset) for word in rest or []]
    return [found[rank] for rank in range(count)]


def _read(path: str) -> str | None:
    """None where it is no file: a pipe would be waited for."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return None


def _invalid(call: Call, number: int, name: str) -> None:
    call.error(f"Line {number} of configuration file {name} invalid")
    call.quit(1)


def _ranks(call: Call, text: str, tasks: int | None) -> list[int]:
    """`0`, `1-3`, `1,4-5`."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part)
        if match is None:
            call.error(f"Invalid task range specification ({text})")
            call.quit(1)
        low, high = int(match[1]), int(match[2] or match[1])
        if high - low > _MOST_TASKS:
            call.fail(f"Invalid task range specification ({text})")
        if low > high:
            call.error(f"Invalid task range, {low}-{high}")
            call.quit(1)
        if tasks is not None and high >= tasks:
            call.error(f"Invalid task id, {high} >= ntasks")
            call.quit(1)
        found.extend(range(low, high + 1))
        if len(found) > _MOST_TASKS:
            call.fail(f"Invalid task range specification ({text})")
    return found


def _filled(word: str, rank: int, offset: int) -> str:
    return word.replace("%t", str(rank)).replace("%o", str(offset))
