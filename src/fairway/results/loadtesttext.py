"""A load test for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.recorder.tables import ServiceRow
from fairway.results import words
from fairway.results.loadtest import Served, Variant
from fairway.results.textlayout import DIM, GOOD, HEADING, Line, table, wrapped

_HEAD = ["answered", "lost", "in SLO", "ttft p95", "tpot p95", "pods", "GPU-h", "cost", "/1,000", "/M tokens"]


def served_lines(served: Sequence[Served], width: int) -> list[Line]:
    return table(["service", *_HEAD], [[s.row.name, *_cells(s)] for s in served], width)


def variant_lines(variants: Sequence[Variant], attained_permille: int, width: int) -> list[Line]:
    """The frontier: cheapest first, the first that keeps the SLO marked."""
    best = next((v for v in variants if v.keeps(attained_permille)), None)
    rows = [
        [f"{'→' if v is best else ' '} × {v.factor:g}", str(v.least), *_cells(v.served)] for v in variants
    ]
    lines = [Line(""), *table(["  target", "min", *_HEAD], rows, width)]
    wanted = words.percent(attained_permille / 1000)
    if best is None:
        return [*lines, Line(f"no variant answers {wanted} within the SLO and loses nobody", HEADING)]
    lines.append(Line(f"the cheapest that answers {wanted} within the SLO and loses nobody:", GOOD))
    return [*lines, *(Line(line.text, DIM) for line in wrapped(best.patch, width, "  "))]


def _cells(served: Served) -> list[str]:
    row = served.row
    return [
        words.percent(row.ok / row.requests) if row.requests else "-",
        str(row.lost + row.refused),
        words.percent(row.attained_permille / 1000),
        *(_ms(value) for value in _times(row)),
        str(row.ready_most),
        f"{served.gpu_hours:.1f}",
        _usd(served.micros),
        _usd(served.micros_per_1000),
        _usd(served.micros_per_million_tokens),
    ]


def _times(row: ServiceRow) -> tuple[int | None, ...]:
    return (row.ttft_us_p95, row.tpot_us_p95)


def _ms(us: int | None) -> str:
    if us is None:
        return "-"
    return f"{us / 1e3:.0f}ms" if us < 10_000_000 else f"{us / 1e6:.0f}s"


def _usd(micros: float | None) -> str:
    return "-" if micros is None else f"${micros / 1e6:,.2f}"
