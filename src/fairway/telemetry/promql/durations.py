"""Durations that are arithmetic (`[5m * 2]`, `offset (step() / 2)`), as literals that promql-parser reads.

Source: promql/durations.go (Prometheus 3.14), where they are enabled by default.
"""

from __future__ import annotations

import math
from typing import Final

from fairway.telemetry.promql.lexing import Refusal
from fairway.telemetry.promql.nodes import PromQLError
from fairway.telemetry.promql.syntax import Duration

_MOST_S: Final = (1 << 63) / 1e9


def is_of_query(duration: Duration) -> bool:
    """Whether it depends on the steps or the span that are asked for."""
    return duration.op in ("step", "range") or any(map(is_of_query, duration.parts))


def written_out(text: str, durations: list[Duration], step_ms: int, range_ms: int) -> str:
    """The query with literals in their places. Raises: PromQLError for one that is none."""
    for found in reversed(durations):
        try:
            seconds = _seconds(found, step_ms / 1000, range_ms / 1000)
        except Refusal as refused:
            raise PromQLError(f"{found.start}:{found.end}: {refused.said}") from None
        is_offset = not found.is_positive
        if math.isnan(seconds) or math.isinf(seconds):
            raise PromQLError(f"{found.start}:{found.end}: duration is NaN or infinite")
        if seconds <= 0 and not is_offset:
            raise PromQLError(f"{found.start}:{found.end}: duration must be greater than 0")
        if abs(seconds) > _MOST_S:
            raise PromQLError(f"{found.start}:{found.end}: duration is out of range")
        head = text[: found.start].rstrip()
        if is_offset and abs(seconds) < 0.001 and head.lower().endswith("offset"):
            # The parser refuses an offset of nothing.
            text = head[: -len("offset")] + text[found.end :]
            continue
        literal = f"{'-' if seconds < 0 else ''}{int(abs(seconds) * 1000)}ms"
        text = f"{text[: found.start]} {literal} {text[found.end :]}"
    return text


def _seconds(found: Duration, step_s: float, range_s: float) -> float:
    """Raises: Refusal. Never OverflowError or ValueError: Go's floats become infinite or NaN instead."""
    values = [_seconds(part, step_s, range_s) for part in found.parts]
    match found.op:
        case "literal":
            return found.seconds
        case "step":
            return step_s
        case "range":
            return range_s
        case "min_of":
            return min(values)
        case "max_of":
            return max(values)
        case "+":
            return sum(values)
        case "-":
            return -values[0] if len(values) == 1 else values[0] - values[1]
        case "*":
            return values[0] * values[1]
        case "^":
            return _power(*values)
    if not values[1]:
        raise Refusal(found.start, "division by zero" if found.op == "/" else "modulo by zero")
    if found.op == "/":
        return values[0] / values[1]
    return math.nan if math.isinf(values[0]) else math.fmod(values[0], values[1])


def _power(base: float, exponent: float) -> float:
    try:
        found = base**exponent
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return found if isinstance(found, float) else math.nan
