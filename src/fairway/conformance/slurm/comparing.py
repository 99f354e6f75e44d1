"""Is a command's output the recorded one, but for what a clock or a machine decides?

Times of day may be three seconds apart, durations as well; loads, free memory, boot times, process numbers and ports
may be anything; usage, which is time times resources, may differ by a twentieth. Lines of parallel tasks, and of one
node in several partitions (sinfo -N asks for each partition in a thread of its own), come in any order.
"""

from __future__ import annotations

import re
from calendar import timegm
from time import strptime

SECONDS_APART = 3
USAGE_APART = 0.05
FLOAT_APART = 2e-5

_ANYTHING = re.compile(
    r"(CPULoad=|FreeMem=|OS=|BootTime=|SlurmdStartTime=|LastBusyTime=|AllocNode:Sid=|SrunHost:Pid=|LAUNCHER_PORT="
    r"|SLURM_PRIO_PROCESS=|SLURM_TASK_PID=|COMM_PORT=)"
)
# slurmctld's word of an allocation's end reaches salloc before it has gone, or does not.
_REVOKED = re.compile(
    r"(salloc: Relinquishing job allocation (\d+)\n)salloc: Job allocation \2 has been revoked\.\n"
)
_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_CLOCK = r"(?:\d+-)?\d{1,2}:\d\d(?::\d\d)?"
_NUMBER = r"\d+\.\d+|\d+"
_TOKENS = re.compile(rf"({_STAMP}|{_CLOCK}|{_NUMBER})")


def is_same(command: str, wanted: str, got: str) -> bool:
    """Compare two outputs of one command."""
    if wanted == got:
        return True
    old, new = _lines(command, wanted), _lines(command, got)
    if len(old) != len(new):
        return False
    usage = "sshare" in command or "assoc_mgr" in command
    return all(_is_same_line(a, b, usage) for a, b in zip(old, new, strict=True))


def _lines(command: str, text: str) -> list[str]:
    lines = [_masked(line) for line in _REVOKED.sub(r"\1", text).split("\n")]
    if re.search(r"\bsinfo\b.*(-N|--Node)", command):
        return [line for _, line in sorted(enumerate(lines), key=lambda p: _node_order(lines, p[0]))]
    if command.startswith("cat ") or "srun" in command:
        return sorted(lines) if "==" not in text else lines
    return lines


def _node_order(lines: list[str], at: int) -> tuple[int, str]:
    """Neighbours that begin with one word are put in order among themselves."""
    word, first = lines[at].split(" ")[0], at
    while first and lines[first - 1].split(" ")[0] == word:
        first -= 1
    return first, lines[at]


def _masked(line: str) -> str:
    """Values that the machine decides, left out."""
    if "OS=" in line:
        line = re.sub(r"OS=.*?(?=\s{2}|\s*$| RealMemory)", "OS=", line)
    return re.sub(_ANYTHING.pattern + r"\S*", r"\1", line)


def _is_same_line(wanted: str, got: str, usage: bool) -> bool:
    if wanted == got:
        return True
    old, new = _TOKENS.split(wanted), _TOKENS.split(got)
    if len(old) != len(new):
        return False
    for at, (a, b) in enumerate(zip(old, new, strict=True)):
        if at % 2:
            if a != b and not _is_near(a, b, usage):
                return False
        elif a != b:
            beside = (at > 0 and _moves(old[at - 1])) or (at + 1 < len(old) and _moves(old[at + 1]))
            if a.split() != b.split() or not beside:
                return False
    return True


def _moves(token: str) -> bool:
    return ":" in token or "." in token


def _is_near(a: str, b: str, usage: bool) -> bool:
    if "T" in a and "T" in b:
        return abs(_seconds_of_stamp(a) - _seconds_of_stamp(b)) <= SECONDS_APART
    if "T" in a or "T" in b:
        return False
    if ":" in a and ":" in b:
        return abs(_seconds_of_clock(a) - _seconds_of_clock(b)) <= SECONDS_APART
    if ":" in a or ":" in b:
        return False
    x, y = float(a), float(b)
    if usage:
        return abs(x - y) <= max(USAGE_APART * max(x, y), 1)
    return "." in a and "." in b and abs(x - y) <= FLOAT_APART


def _seconds_of_stamp(text: str) -> int:
    try:
        return timegm(strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return -1


def _seconds_of_clock(text: str) -> int:
    days, _, clock = text.rpartition("-")
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return total + int(days or 0) * 86400
