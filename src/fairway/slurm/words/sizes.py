"""Amounts as Slurm writes them: memory in megabytes, counts with units, TRES strings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_POWERS = {"": 0, "K": -1, "M": 0, "G": 1, "T": 2, "P": 3}
_LETTERS = "\0KMGTP"
_MOST_DIGITS = 18
LONG_MAX = 9_223_372_036_854_775_807


def whole(text: str) -> int:
    """A number in decimal digits, perhaps with a sign; one of too many digits is LONG_MAX, as strtol has it."""
    digits = text.lstrip(" +-")
    count = int(digits) if len(digits) <= _MOST_DIGITS else LONG_MAX
    return -count if text.lstrip(" ").startswith("-") else count


def megabytes(text: str) -> int | None:
    """`10G`, `512`, `1024K` → MB, rounded up; None for anything else. Letters may be small, a `B` may follow."""
    found = re.fullmatch(r"(\d{1,15})([KMGTP]?)B?", text.upper())
    if found is None:
        return None
    count, power = int(found[1]), _POWERS[found[2]]
    return (count + 1023) // 1024 if power < 0 else count * 1024**power


def memory_text(amount: int) -> str:
    """MB with the largest unit that keeps it exact to two digits: 2000M, 12G, 62.50G (`convert_num_unit`)."""
    return with_unit(amount, "M")


def with_unit(amount: float, unit: str = "\0", divisor: int = 1024) -> str:
    """A count raised to larger units for as long as it divides evenly by half of one.

    62.50G but 2000M: Slurm keeps a number as it is while it is no multiple of half the next unit.
    """
    at = _LETTERS.index(unit if unit in _LETTERS else "\0")
    if not amount:
        return "0"
    half = divisor // 2
    while amount >= divisor and amount % half == 0 and at < len(_LETTERS) - 1:
        amount /= divisor
        at += 1
    number = f"{int(amount)}" if amount == int(amount) else f"{amount:.2f}"
    return f"{number}{_LETTERS[at]}".rstrip("\0")


def parse_tres(text: str) -> dict[str, int]:
    """`cpu=4,mem=10G,gres/gpu=2` → amounts (mem in MB), in the text's order. Raises: ValueError naming the part."""
    amounts: dict[str, int] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, _, value = part.strip().partition("=")
        amount = megabytes(value) if name.lower() == "mem" else _whole(value)
        if not name or amount is None:
            raise ValueError(part)
        amounts[name.lower()] = amount
    return amounts


def tres_text(amounts: Mapping[str, int] | Iterable[tuple[str, int]]) -> str:
    """Amounts as `cpu=1,mem=2000M,node=1`, in the order given."""
    pairs = amounts.items() if isinstance(amounts, Mapping) else amounts
    return ",".join(f"{n}={memory_text(a) if n == 'mem' else a}" for n, a in pairs)


def tres_text_sorted(amounts: Mapping[str, int]) -> str:
    """Amounts letter by letter, `gres/gpu:a100=4` before `gres/gpu=4` (slurmdb_make_tres_string_from_simple)."""
    return ",".join(sorted(tres_text(amounts).split(",")))


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
