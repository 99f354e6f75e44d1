"""What does this command do, if it is one of those everybody writes in examples?

Understood: `sleep 600`, `sleep 1h 30m`, `sleep infinity`, `true`, `false`, `tail -f /dev/null`, `echo …`,
`nvidia-smi`, and shells with a script of those: `sh -c "sleep 5; exit 1"`, `bash -ec 'echo hi && sleep 2m'`,
`while true; do …; done`. Anything else is not understood, which is not an error: the caller has a default.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from fairway.kube.integers import natural
from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US, SECOND_US

_SHELLS = ("sh", "bash", "ash", "dash", "zsh")
_QUICK = (
    *("echo", "printf", "date", "hostname", ":", "true", "env", "pwd", "id", "whoami", "set", "export"),
    *("nvidia-smi", "ls"),
)
_SLEEP_UNIT_US = {"": SECOND_US, "s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US}
_SLEEP = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_FOREVER = re.compile(r"while\s+(true|:)\s*;?\s*do\b.*\bdone", re.DOTALL)


class CommandRun(NamedTuple):
    """How long a command runs (None: for ever) and what it exits with."""

    run_us: int | None
    exit_code: int


@lru_cache(maxsize=4096)
def understand(argv: tuple[str, ...]) -> CommandRun | None:
    """None when the command is not one of those understood."""
    if not argv:
        return None
    program = argv[0].rpartition("/")[2]
    if program in _SHELLS:
        return _shell(argv[1:])
    return _simple((program, *argv[1:]))


def _shell(arguments: Sequence[str]) -> CommandRun | None:
    """`-c script`, `-ec script`, `-e -c script`."""
    stops_on_error = False
    for i, argument in enumerate(arguments):
        if not argument.startswith("-") or argument.startswith("--"):
            return None
        stops_on_error = stops_on_error or "e" in argument
        if "c" in argument:
            return _script(arguments[i + 1], stops_on_error) if i + 1 < len(arguments) else None
    return None


def _script(text: str, stops_on_error: bool) -> CommandRun | None:
    """Commands joined by `;`, newlines, `&&` and `||`, one after another."""
    if _FOREVER.search(text):
        return CommandRun(None, 0)
    total_us, status = 0, 0
    steps = _steps(text)
    for (joined, step), (following, _) in zip(steps, [*steps[1:], (";", "")], strict=False):
        if (joined == "&&" and status != 0) or (joined == "||" and status == 0):
            continue
        run = CommandRun(0, status) if step == "exit" else _words(step)
        if run is None:
            return None
        if run.run_us is None:
            return CommandRun(None, 0)
        total_us, status = total_us + run.run_us, run.exit_code
        first, *rest = step.split()
        stops_on_error = stops_on_error or (first == "set" and any(w[0] == "-" and "e" in w for w in rest))
        # What has `&&` or `||` behind it may fail.
        if first in ("exit", "exec") or (stops_on_error and status != 0 and following == ";"):
            break
    return CommandRun(total_us, status)


def _steps(text: str) -> list[tuple[str, str]]:
    """Commands, each with what joins it to the one before: `;`, `&&` or `||`."""
    found = list[tuple[str, str]]()
    joined = ";"
    for part in re.split(r"(;|\n|&&|\|\|)", text):
        stripped = part.strip()
        if part in (";", "&&", "||"):
            joined = part
        elif stripped and not stripped.startswith("#"):
            found.append((joined, stripped))
            joined = ";"
    return found


def _words(text: str) -> CommandRun | None:
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if words[0] == "exec" and len(words) > 1:
        words = words[1:]
    return _simple((words[0].rpartition("/")[2], *words[1:]))


def _simple(words: tuple[str, ...]) -> CommandRun | None:
    program, arguments = words[0], words[1:]
    if program == "sleep":
        return _sleep(arguments)
    if program == "exit" and len(arguments) <= 1:
        code = natural(arguments[0] if arguments else "0")
        return None if code is None else CommandRun(0, code & 0xFF)
    if program == "false":
        return CommandRun(0, 1)
    if program == "tail" and arguments == ("-f", "/dev/null"):
        return CommandRun(None, 0)
    if program in _QUICK:
        return CommandRun(0, 0)
    return None


def _sleep(arguments: tuple[str, ...]) -> CommandRun | None:
    if not arguments:
        return None
    total_us = 0
    for argument in arguments:
        if argument in ("infinity", "inf"):
            return CommandRun(None, 0)
        match = _SLEEP.fullmatch(argument)
        if match is None:
            return None
        total_us += round(float(match[1]) * _SLEEP_UNIT_US[match[2]])
    return CommandRun(total_us, 0)
