"""How long ago, as the API server says it: `5s`, `3m20s`, `4d2h`, `<unknown>`.

Source: apimachinery pkg/util/duration/duration.go HumanDuration; pkg/printers (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.timestamps import SECOND_US, parse_rfc3339

UNKNOWN = "<unknown>"
INVALID = "<invalid>"


def human_duration(duration_us: int) -> str:
    """Two or three significant figures of a duration."""
    # Go truncates towards zero: a second and a half in the future are one, which is none yet.
    if duration_us <= -2 * SECOND_US:
        return INVALID
    seconds = max(duration_us, 0) // SECOND_US
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = seconds // 3600
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def since(timestamp: Any, now_us: int) -> str:
    """The age of an RFC 3339 time."""
    if not timestamp:
        return UNKNOWN
    try:
        return human_duration(now_us - parse_rfc3339(timestamp))
    except (ValueError, TypeError):
        return INVALID
