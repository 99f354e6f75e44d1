"""Lists of hosts: `gpu[01-03,07],a1` ↔ names.

A name is a prefix and a number at its end; runs of numbers of one width are told as ranges, in the order they come.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from fairway.slurm.words.sizes import whole

RANGE_MOST = 64 * 1024
"""Hosts of one range; Slurm's own limit (MAX_RANGE)."""
HOSTS_MOST = 4 * RANGE_MOST
"""Hosts of one list; slurmctld knows 65,533 nodes (MAX_SLURM_NODES)."""

_DIGITS = "0123456789"
_MOST_DIGITS = 18


class HostlistError(ValueError):
    """Text that is no list of hosts. `reason`: what Slurm's parser says before it gives up, or ""."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(f"Invalid hostlist: {text}")
        self.reason = reason


def expand(text: str) -> list[str]:
    """The names in a hostlist, in its order, repeated ones kept. Raises: HostlistError."""
    names: list[str] = []
    for token in tokens(text):
        names += _expanded(text, token)
        if len(names) > HOSTS_MOST:
            raise HostlistError(text, "hostlist_create: Too many hosts")
    return names


def task_numbers(one: str | None, several: str | None) -> set[int] | None:
    """Tasks of an array: of `5_3` the 3, of `5_[1-2,4]` what is in brackets; None for all. Raises: HostlistError."""
    if one:
        return {whole(one)}
    return {int(number) for number in expand(f"[{several}]")} if several else None


def compress(names: Iterable[str]) -> str:
    """Names as one hostlist: neighbours with a common prefix share brackets."""
    ranges: list[tuple[str, int, int, int]] = []  # prefix, first, last, width; width -1: no number
    for name in names:
        prefix = name.rstrip(_DIGITS)
        width = len(name) - len(prefix)
        if not 0 < width <= _MOST_DIGITS:
            ranges.append((name, 0, 0, -1))
            continue
        number = int(name[-width:])
        if ranges and _continues(ranges[-1], prefix, number, width):
            before = ranges[-1]
            ranges[-1] = (prefix, before[1], number, before[3])
        else:
            ranges.append((prefix, number, number, width))
    told: list[str] = []
    for (prefix, plain), group in groupby(ranges, key=lambda r: (r[0], r[3] < 0)):
        parts = [_range_text(first, last, width) for _, first, last, width in group]
        if plain:
            told.extend(prefix for _ in parts)
        elif len(parts) == 1 and "-" not in parts[0]:
            told.append(prefix + parts[0])
        else:
            told.append(f"{prefix}[{','.join(parts)}]")
    return ",".join(told)


def compress_sorted(names: Iterable[str]) -> str:
    """Names as one hostlist, each once, in Slurm's order of names."""
    return compress(sorted(set(names), key=range_key))


def range_key(name: str) -> tuple[list[tuple[int, int, str]], int, int]:
    """The order of hostlist_sort: prefix by prefix, those without a number first, `n3` before `n02`."""
    prefix = name.rstrip(_DIGITS)
    width = len(name) - len(prefix)
    if not 0 < width <= _MOST_DIGITS:
        return host_key(name)[0], 0, 0
    return host_key(prefix)[0], width, int(name[-width:])


def host_key(name: str) -> tuple[list[tuple[int, int, str]], int]:
    """Slurm's order of names: text by text, numbers by value."""
    parts = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d{1,18})", name) if p]
    return parts, len(name)


def tokens(text: str, at_any: str = "\t, \n") -> list[str]:
    """Cut at commas and blanks (any of these letters) outside of brackets."""
    found, begin, depth, last = [], 0, 0, text.rfind("]")
    for at, letter in enumerate(text):
        if letter == "[" and at < last:
            depth += 1
        elif letter == "]" and depth:
            depth -= 1
        if letter in at_any and not depth:
            found.append(text[begin:at])
            begin = at + 1
    return [token for token in (*found, text[begin:]) if token]


def _expanded(text: str, token: str) -> list[str]:
    if "[" not in token:
        return [token]
    if "]" not in token[token.rindex("[") :]:
        prefix, _, rest = token.rpartition("[")
        return [f"{prefix}]"] if prefix else [rest]  # Slurm closes the bracket instead of refusing
    if not token.endswith("]"):
        raise HostlistError(text)
    names = [""]
    for plain, _, inside in re.findall(r"([^\[]*)(\[([^\]]*)\])", token):
        numbers = [n for part in inside.split(",") for n in _numbers(text, part)]
        if len(names) * len(numbers) > RANGE_MOST:
            raise HostlistError(text)
        names = [f"{name}{plain}{n}" for name in names for n in numbers]
    return names


def _numbers(text: str, part: str) -> list[str]:
    reason = f"_parse_single_range: Invalid range: `{part}'"
    found = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18})?)?", part)
    if found is None:
        raise HostlistError(text, reason)
    first, last, width = int(found[1]), int(found[2] or found[1]), len(found[1])
    if first > last:
        raise HostlistError(text, reason)
    if last - first >= RANGE_MOST:
        raise HostlistError(text, f"_parse_single_range: Too many hosts in range `{part}'")
    return [f"{number:0{width}d}" for number in range(first, last + 1)]


def _continues(before: tuple[str, int, int, int], prefix: str, number: int, width: int) -> bool:
    """The next number of the same prefix, written with the same padding (`09` then `10`, not `3` after `02`)."""
    if before[0] != prefix or before[3] < 0 or number != before[2] + 1:
        return False
    return len(f"{number:0{before[3]}d}") == width


def _range_text(first: int, last: int, width: int) -> str:
    text = f"{first:0{max(width, 1)}d}"
    return text if first == last else f"{text}-{last:0{max(width, 1)}d}"
