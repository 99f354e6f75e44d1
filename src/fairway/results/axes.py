"""Where ticks go and what they say: real times, round values, durations on a logarithmic scale."""

from __future__ import annotations

from datetime import UTC, datetime

from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US, SECOND_US

_TIME_STEPS = (
    *(n * SECOND_US for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_US for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_US for n in (1, 2, 3, 6, 12)),
    *(n * DAY_US for n in (1, 2, 7, 14, 28, 56, 112, 224, 448)),
)
# Durations worth a tick: (µs, label).
_DURATIONS = (
    (100_000, "0.1s"),
    (SECOND_US, "1s"),
    (10 * SECOND_US, "10s"),
    (MINUTE_US, "1m"),
    (10 * MINUTE_US, "10m"),
    (HOUR_US, "1h"),
    (6 * HOUR_US, "6h"),
    (DAY_US, "1d"),
    (7 * DAY_US, "1w"),
    (30 * DAY_US, "30d"),
)


def time_ticks(start_us: int, end_us: int, most: int = 8) -> list[tuple[int, str]]:
    """Round UTC times within a stretch: `08:00`, or `Jan 5` at midnight and on scales of days."""
    span = max(end_us - start_us, 1)
    step = next((s for s in _TIME_STEPS if span / s <= most), _TIME_STEPS[-1])
    first = -(-start_us // step) * step
    return [(at, _time_label(at, step)) for at in range(first, end_us + 1, step)]


def _time_label(at_us: int, step: int) -> str:
    when = datetime.fromtimestamp(at_us // SECOND_US, UTC)
    if step >= DAY_US or at_us % DAY_US == 0:
        return f"{when:%b} {when.day}"
    return f"{when:%H:%M:%S}" if step < MINUTE_US else f"{when:%H:%M}"


def value_ticks(top: float, most: int = 5) -> list[float]:
    """Round values from 0 up to the first that is not below `top`."""
    if top <= 0:
        return [0.0, 1.0]
    step = 1.0
    while step * most > top:
        step /= 10
    while True:
        for factor in (1, 2, 2.5, 5):
            if factor * step * most >= top:
                count = -(-top // (factor * step))
                return [round(i * factor * step, 10) for i in range(int(count) + 1)]
        step *= 10


def value_label(value: float) -> str:
    """`0`, `2.5`, `1,200`, `1.2M`."""
    for size, suffix in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:,.10g}" if value == int(value) else f"{value:g}"


def duration_ticks(least_us: int, most_us: int) -> list[tuple[int, str]]:
    """Durations for a logarithmic axis from at most `least_us` to at least `most_us`."""
    below = [i for i, (us, _) in enumerate(_DURATIONS) if us <= max(least_us, _DURATIONS[0][0])]
    above = [i for i, (us, _) in enumerate(_DURATIONS) if us >= most_us]
    last = above[0] if above else len(_DURATIONS) - 1
    return list(_DURATIONS[below[-1] : max(last, below[-1] + 1) + 1])
