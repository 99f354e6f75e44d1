"""What a terminal report says about requests: who was answered how soon, who was not, and where the time went."""

from __future__ import annotations

from fairway.kube.timestamps import format_duration
from fairway.recorder.tables import ServiceRow
from fairway.results import words
from fairway.results.run import Run
from fairway.results.textlayout import BAD, HEADING, Line, table, wrapped

SERVICES_SHOWN = 20
_HEAD = [
    "service",
    "requests",
    "answered",
    "lost",
    "refused",
    "in SLO",
    "ttft p50",
    "p95",
    "p99",
    "tpot p95",
    "servers",
]
_SPENT = ["p95 of", "queue", "prefill", "decode", "whole", "waiting most", "preempted"]


def serving_lines(run: Run, width: int) -> list[Line]:
    """None for a run that serves nothing."""
    rows = run.outcome.services
    if not rows:
        return []
    total = sum(row.requests for row in rows)
    lines = [
        Line(f"SERVING  {words.counted(total, 'request')} to {words.counted(len(rows), 'service')}", HEADING)
    ]
    lines += table(_HEAD, [_row(row) for row in rows[:SERVICES_SHOWN]], width)
    if len(rows) > SERVICES_SHOWN:
        more = words.counted(len(rows) - SERVICES_SHOWN, "service")
        lines.append(Line(f"  and {more} more: services in the run's directory"))
    spent = [_spent(row) for row in rows[:SERVICES_SHOWN] if row.ok]
    lines += table(_SPENT, spent, width) if spent else []
    for said in filter(None, map(_not_answered, rows)):
        lines += [Line(line.text, BAD) for line in wrapped(said, width, "  ")]
    return lines


def _row(row: ServiceRow) -> list[str]:
    return [
        row.name,
        str(row.requests),
        words.percent(row.ok / row.requests) if row.requests else "-",
        str(row.lost),
        str(row.refused),
        words.percent(row.attained_permille / 1000),
        _time(row.ttft_us_p50),
        _time(row.ttft_us_p95),
        _time(row.ttft_us_p99),
        _time(row.tpot_us_p95),
        str(row.ready_most),
    ]


def _spent(row: ServiceRow) -> list[str]:
    spans = (row.queue_us_p95, row.prefill_us_p95, row.decode_us_p95, row.end_to_end_us_p95)
    return [row.name, *map(_time, spans), str(row.waiting_most), str(row.preempted)]


def _not_answered(row: ServiceRow) -> str:
    """In words, where there is more to say than the table has."""
    said = []
    if row.too_long:
        said.append(f"{row.too_long} were longer than the cache")
    if row.failed:
        said.append(f"{row.failed} were answered with an error")
    if row.timed_out:
        said.append(f"{row.timed_out} were given up by their clients")
    if row.unfinished:
        said.append(f"{row.unfinished} had not ended")
    return f"{row.name}: {', '.join(said)}" if said else ""


def _time(us: int | None) -> str:
    """Milliseconds below ten seconds."""
    if us is None:
        return "-"
    return f"{us / 1000:.0f}ms" if us < 10_000_000 else format_duration(us // 1_000_000 * 1_000_000)
