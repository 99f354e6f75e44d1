"""What a script will do, where that can be known without running it.

`#FAIRWAY runtime=2h exit=0 gpu=80` says it outright; a script of nothing but `sleep N`, `true` and `exit N` tells by
itself. Everything else is run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairway.slurm.words import durations

_SLEEP = re.compile(r"sleep\s+(\d+(?:\.\d+)?)([smhd]?)$")
_SECONDS_MOST = 1e9
"""What is longer is as good as this: thirty years."""
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class BadHint(ValueError):
    """A `#FAIRWAY` line that cannot be read: the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Known:
    """How long it runs, in seconds, and how it ends. gpu_percent: how busy its GPUs are meanwhile, if said."""

    runtime_s: float
    exit_code: int = 0
    gpu_percent: int | None = None


def hints(script: str) -> Known | None:
    """What the script's `#FAIRWAY` lines say, None without any. Raises: BadHint with the line."""
    found: dict[str, str] = {}
    for number, line in enumerate(script.splitlines(), 1):
        if not line.startswith("#FAIRWAY"):
            continue
        for word in line[8:].split():
            key, equals, value = word.partition("=")
            if not equals or key not in ("runtime", "exit", "gpu"):
                raise BadHint(f"line {number}: {word}: expected runtime=DURATION, exit=CODE or gpu=PERCENT")
            found[key] = value
    if not found:
        return None
    runtime = seconds_of(found.get("runtime", "0"))
    code, gpu = found.get("exit", "0"), found.get("gpu", "").rstrip("%")
    if runtime is None:
        raise BadHint(f"runtime={found['runtime']}: expected a duration such as 90s, 2h or 1-00:00:00")
    if not re.fullmatch(r"[0-9]{1,3}", code) or int(code) > 255:
        raise BadHint(f"exit={code}: expected an exit code from 0 to 255")
    if gpu and not re.fullmatch(r"[0-9]{1,2}|100", gpu):
        raise BadHint(f"gpu={found['gpu']}: expected a percentage")
    return Known(runtime, int(code), int(gpu) if gpu else None)


def seconds_of(text: str) -> float | None:
    """`90s`, `1.5h`, or as Slurm writes time limits."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if found:
        return min(float(found[1]) * _UNITS[found[2]], _SECONDS_MOST)
    value = durations.seconds(text)
    return None if value is None or value == durations.INFINITE or value < 0 else float(value)


def known(script: str) -> Known | None:
    """What the script will do, None if it must be run. Raises: BadHint."""
    said = hints(script)
    if said is not None:
        return said
    if not script.startswith(("#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env bash")):
        return None
    total = 0.0
    for line in script.splitlines():
        text = line.partition("#")[0] if line.lstrip().startswith("#") else line
        for part in text.split(";"):
            part = part.strip()
            if not part or part == "true" or part == "set -e":
                continue
            slept = _SLEEP.match(part)
            left = re.fullmatch(r"exit(?:\s+(\d{1,3}))?", part)
            if slept:
                total = min(total + float(slept[1]) * _UNITS[slept[2]], _SECONDS_MOST)
            elif left:
                return Known(total, int(left[1] or 0) % 256)
            else:
                return None
    return Known(total)
