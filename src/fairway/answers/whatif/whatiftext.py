"""What would be different, as text of at most 100 columns."""

from __future__ import annotations

from textwrap import wrap

from fairway.answers.whatif.comparing import Effect, WhatIf
from fairway.answers.whatif.placements import Placements
from fairway.answers.whatif.searching import Searched
from fairway.kube.timestamps import format_duration
from fairway.recorder.tables import GPU_HOUR
from fairway.results.compare import DURATION, GPU_TIME, MONEY, RATIO

_SAME_SHOWN = 6


def whatif_lines(found: WhatIf) -> list[str]:
    runs = f"{found.seeds} seed{'s' if found.seeds != 1 else ''}"
    lines = [f"{found.ground}: what if {', '.join(found.changes) or 'nothing changed'}? {runs}", ""]
    lines.append(f"{'':<40}{'as it is':>12}{'changed':>12}{'difference':>12}  95 % of the mean")
    telling = [e for e in found.effects if e.verdict != "same"]
    same = [e for e in found.effects if e.verdict == "same"]
    lines += [_line(e) for e in telling]
    if not telling:
        lines.append("no difference that matters and is no chance")
    if same:
        lines += ["", "no difference, or it may be chance:", *(_line(e) for e in same[:_SAME_SHOWN])]
        if len(same) > _SAME_SHOWN:
            lines.append(f"… and {len(same) - _SAME_SHOWN} more; -o json has them all")
    return lines


def _line(e: Effect) -> str:
    name = e.name if len(e.name) <= 39 else e.name[:38] + "…"
    bar = "" if e.low is None or e.high is None else f"{_value(e.low, e.unit)} to {_value(e.high, e.unit)}"
    cells = "".join(f"{_value(v, e.unit):>12}" for v in (e.before, e.after, e.difference))
    return f"{name:<40}{cells}  {bar}".rstrip()


def _value(value: float, unit: str) -> str:
    if unit == DURATION:
        seconds = round(abs(value) / 1e6)
        return ("-" if value < 0 else "") + format_duration(seconds * 1_000_000)
    if unit == RATIO:
        return f"{100 * value:.1f} %"
    if unit == MONEY:
        return f"{'-' if value < 0 else ''}${abs(value) / 1e6:,.2f}"
    if unit == GPU_TIME:
        return f"{value / GPU_HOUR:,.1f} h"
    return f"{value:,.1f}"


def placement_lines(found: Placements) -> list[str]:
    lines = [f"{found.ground}: {found.object}, placed in {len(found.placements)} ways", ""]
    lines.append(f"{'way':<12}{'starts':>8}{'nodes':>7}{'step':>12}{'$/1,000 steps':>15}  evicts")
    for one in found.placements:
        if not one.feasible:
            lines += wrap(f"{one.way:<12}no: {one.why}", 100, subsequent_indent=" " * 12)
            continue
        step = "-" if one.step_ms is None else f"{one.step_ms:,.1f} ms"
        cost = "-" if one.usd_per_1000_steps is None else f"{one.usd_per_1000_steps:,.2f}"
        starts = format_duration(round(1e6 * (one.starts_s or 0)))
        gone = ", ".join(one.evicts[:2]) + (f" and {len(one.evicts) - 2} more" if len(one.evicts) > 2 else "")
        line = f"{one.way:<12}{starts:>8}{len(one.nodes):>7}{step:>12}{cost:>15}  {gone or '-'}"
        lines.append(line if len(line) <= 100 else line[:99] + "…")
    return [*lines, "", f"best: {found.best}" if found.best else "it cannot be placed in any of these ways"]


def search_lines(found: Searched) -> list[str]:
    lines = [f"{found.ground}: the smallest {found.change}N for which {found.objective}", ""]
    lines.append(f"{'amount':>8}  {'held':<12}measured (median over seeds)")
    lines += [f"{t.amount:>8}  {f'{t.held} of {t.seeds}':<12}{t.measured}" for t in found.tried]
    if found.smallest is None:
        return [*lines, "", f"not even {found.tried[-1].amount} is enough"]
    return [*lines, "", f"{found.change}{found.smallest} is the smallest that was found to do"]
