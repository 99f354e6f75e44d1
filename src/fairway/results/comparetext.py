"""A comparison for a terminal of 80 to 100 columns and more."""

from __future__ import annotations

from fairway.results import words
from fairway.results.compare import (
    BETTER,
    COUNT,
    DURATION,
    GPU_TIME,
    MONEY,
    RATIO,
    SAME,
    WORSE,
    Comparison,
    Difference,
    Value,
    letter,
)
from fairway.results.costs.money import dollars
from fairway.results.textlayout import BAD, DIM, GOOD, HEADING, PLAIN, TITLE, Line, table, wrapped

_MARKS = {BETTER: "✓", WORSE: "✗"}


def comparison_lines(comparison: Comparison, width: int = 100) -> list[Line]:
    """Runs as columns A, B, …; what matters first, what is the same in a sentence at the end."""
    count = len(comparison.names)
    lines = []
    for i, name in enumerate(comparison.names):
        note = "  (the others are measured against it)" if i == 0 else ""
        lines.append(Line(words.cut(f"{letter(i)}  {name}{note}", width), TITLE))
    for caveat in comparison.caveats:
        lines.extend(wrapped(caveat, width, ""))
    matters = [d for d in comparison.differences if d.matters]
    lines.append(Line(""))
    if matters:
        lines.append(Line("DIFFERENCES  ✓ better  ✗ worse", HEADING))
        lines.extend(_table(matters, count, width))
    else:
        lines.append(Line("No difference that matters.", GOOD))
    same = [d for d in comparison.differences if not d.matters]
    if same:
        lines += [Line(""), Line("ABOUT THE SAME", HEADING)]
        lines.extend(wrapped(", ".join(f"{d.name} {shown(d.values[0], d.unit)}" for d in same), width))
    return lines


def _table(differences: list[Difference], count: int, width: int) -> list[Line]:
    header = ["", "A", *(letter(i) for i in range(1, count))]
    rows = []
    for d in differences:
        cells = [d.name, shown(d.values[0], d.unit)]
        cells += [f"{shown(d.values[i], d.unit)} {_change(d, i)}".rstrip() for i in range(1, count)]
        rows.append(tuple(cells))
    lines = table(header, rows, width)
    return [lines[0], *(Line(line.text, _kind(d)) for line, d in zip(lines[1:], differences, strict=True))]


def _change(d: Difference, run: int) -> str:
    """`(-12 %) ✓`: the relative change, and whether it is for the better."""
    if d.verdicts[run] == SAME:
        return "(=)  " if d.values[run] is not None else "     "
    mark = _MARKS.get(d.verdicts[run], " ")
    relative = d.relative(run)
    if d.unit == RATIO:
        first, value = d.values[0] or 0.0, d.values[run] or 0.0
        return f"({100 * (value - first):+.1f} pt) {mark}"
    if relative is None:
        return f"(new) {mark}"
    if abs(relative) >= 9.995:
        return f"({(1 + relative):,.0f} ×) {mark}"
    return f"({100 * relative:+.0f} %) {mark}"


def shown(value: Value, unit: str) -> str:
    """A figure as people write it."""
    if value is None:
        return words.NOTHING
    if unit == DURATION:
        return words.duration(round(value))
    if unit == RATIO:
        return words.percent(value)
    if unit == GPU_TIME:
        return words.gpu_hours(round(value))
    if unit == MONEY:
        return dollars(value)
    if unit == COUNT:
        return words.count(round(value))
    return f"{value:,.1f}"


def _kind(d: Difference) -> str:
    """Good or bad where all runs agree on it."""
    verdicts = {v for v in d.verdicts if v != SAME}
    if verdicts == {BETTER}:
        return GOOD
    if verdicts == {WORSE}:
        return BAD
    return PLAIN if verdicts else DIM
