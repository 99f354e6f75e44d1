"""How money is written for people: dollars and cents, with more digits where cents say nothing."""

from __future__ import annotations

from decimal import Decimal

from fairway.results.costs.breakdown import Line
from fairway.results.words import NOTHING

MICROS = 1_000_000


def dollars(micros: float | None) -> str:
    """`$1,234.50`, `$0.0041`, `-$3.00`, or a dash."""
    if micros is None:
        return NOTHING
    sign = "-" if micros < 0 else ""
    size = abs(micros) / MICROS
    digits = 2 if size >= 0.095 or not size else 4
    return f"{sign}${size:,.{digits}f}"


def owed(line: Line) -> str:
    """What a line owes; `unpriced` where nobody says what any of it costs."""
    return "unpriced" if line.is_unpriced else dollars(line.owed)


def how_many(count: float) -> str:
    """`3,108,630`, `0.25`."""
    return f"{count:,.0f}" if count >= 1000 else f"{count:,.4g}"


def exact_dollars(micros: int) -> str:
    """All six places, for files: `1234.500000`."""
    return str((Decimal(micros) / MICROS).quantize(Decimal("0.000001")))
