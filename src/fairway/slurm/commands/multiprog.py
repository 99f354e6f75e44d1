"""srun --multi-prog: which program each task runs, from a file of `RANKS PROGRAM ARGUMENTS` lines."""

from __future__ import annotations

import re
import shlex

from fairway.slurm.commands.call import Call

_MOST_BYTES = 1 << 20


def read_programs(call: Call, path: str, tasks: int | None) -> list[list[str]]:
    """Arguments task by task; without a number of tasks, as many as the file names. Wrong files end the command."""
    name = path
    try:
        with open(
            call.site.real_path(path if path.startswith("/") else f"{call.cwd}/{path}"),
            encoding="utf-8",
            errors="surrogateescape",
        ) as file:
            text = file.read(_MOST_BYTES)
    except OSError:
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
    count = tasks if tasks is not None else max(found, default=0) + 1
    for rank in range(count):
        if rank not in found and rest is None:
            call.fail(f"Configuration file {name} invalid, no record for task id {rank}")
    others = [rank for rank in range(count) if rank not in found]
    return [
        found[rank] if rank in found else [_filled(word, rank, others.index(rank)) for word in rest or []]
        for rank in range(count)
    ]


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
        if low > high:
            call.error(f"Invalid task range, {low}-{high}")
            call.quit(1)
        if tasks is not None and high >= tasks:
            call.error(f"Invalid task id, {high} >= ntasks")
            call.quit(1)
        found.extend(range(low, high + 1))
        if len(found) > 100_000:
            call.fail(f"Invalid task range specification ({text})")
    return found


def _filled(word: str, rank: int, offset: int) -> str:
    return word.replace("%t", str(rank)).replace("%o", str(offset))
