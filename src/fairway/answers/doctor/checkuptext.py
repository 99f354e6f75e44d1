"""A checkup as lines: what is ill first, with its evidence and fix; then what could not be known; then what is well."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from fairway.answers.doctor.checkup import Result
from fairway.answers.doctor.findings import ILL, UNKNOWN, WELL
from fairway.results.textlayout import BAD, DIM, GOOD, HEADING, Line


def checkup_lines(results: Sequence[Result], notes: Sequence[str], width: int) -> list[Line]:
    lines: list[Line] = []
    for one in (r for r in results if r.finding.state == ILL):
        lines += [Line(f"{one.symptom.title} ({one.symptom.name})", HEADING)]
        head = f"{one.finding.count} found; where all is well, {one.check.signal}"
        lines += _wrapped(head, width, BAD)
        for text in one.finding.evidence:
            lines += _wrapped(text, width)
        more = one.finding.count - len(one.finding.evidence)
        if more > 0 and one.check.name != "pending":
            lines += _wrapped(f"… and {more} more", width, DIM)
        lines += [
            *_wrapped(f"fix: {one.check.fix}", width, GOOD),
            Line(f"  $ {one.check.command}", DIM),
            Line(""),
        ]
    unknown = [r for r in results if r.finding.state == UNKNOWN]
    if unknown or notes:
        lines.append(Line("What could not be known", HEADING))
        for one in unknown:
            lines += _wrapped(f"{one.symptom.name}: {one.finding.evidence[0]}", width, DIM)
            lines.append(Line(f"  $ {one.check.command}", DIM))
        for note in notes:
            lines += _wrapped(note, width, DIM)
        lines.append(Line(""))
    well = [r for r in results if r.finding.state == WELL]
    said = ", ".join(dict.fromkeys(r.check.signal for r in well))
    return lines + [Line(text, GOOD) for text in wrap(f"Well: {said}", width)] if well else lines


def _wrapped(text: str, width: int, kind: str = "") -> list[Line]:
    return [Line(t, kind) for t in wrap(text, width, initial_indent="  ", subsequent_indent="    ")]
