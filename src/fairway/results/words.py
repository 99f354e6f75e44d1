"""How numbers are written for people: the same everywhere a result is shown."""

from __future__ import annotations

from datetime import UTC, datetime

from fairway.kube.timestamps import SECOND_US, format_duration
from fairway.recorder.tables import GPU_HOUR

NOTHING = "–"


def duration(us: int | None) -> str:
    """`3m20s`, or a dash."""
    return NOTHING if us is None else format_duration(us)


def percent(ratio: float | None) -> str:
    """`61.3 %`, or a dash."""
    return NOTHING if ratio is None else f"{100 * ratio:.1f} %"


def gpu_hours(gpu_milli_us: int | None) -> str:
    """`532.6`: GPU-hours, or a dash."""
    return NOTHING if gpu_milli_us is None else f"{gpu_milli_us / GPU_HOUR:,.1f}"


def gpus(milli: int | float) -> str:
    """Milli-GPU as GPUs: `8`, `0.46`, `1,234.5`."""
    return f"{milli / 1000:,.2f}".rstrip("0").rstrip(".")


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def clock(us: int) -> str:
    """`2026-01-05 08:20` (UTC)."""
    return datetime.fromtimestamp(us // SECOND_US, UTC).strftime("%Y-%m-%d %H:%M")


def span(start_us: int, end_us: int) -> str:
    """`2026-01-05 00:00 → 08:20 UTC`; the second date only where it differs."""
    start, end = clock(start_us), clock(end_us)
    return f"{start} → {end[11:] if start[:10] == end[:10] else end} UTC"


def cut(text: str, room: int) -> str:
    """The text, or as much of it as fits, ending in an ellipsis."""
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"
