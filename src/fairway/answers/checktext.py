"""A check as lines: one verdict a document, then what was said of it."""

from __future__ import annotations

import re
from textwrap import wrap

from fairway.answers.check import ACCEPTED, NEVER, REFUSED, STARTS, WAITS, Check, Checked
from fairway.answers.explaintext import soon
from fairway.results.textlayout import BAD, DIM, GOOD, PLAIN, Line

_WHOLE = re.compile(r"Invalid value: \{.{80,}\}: ", re.DOTALL)
_KINDS = {REFUSED: BAD, NEVER: BAD, WAITS: PLAIN, STARTS: GOOD, ACCEPTED: DIM}


def check_lines(found: Check, width: int) -> list[Line]:
    """Every document in the order in which they were applied."""
    lines: list[Line] = []
    for one in found.documents:
        lines += [
            Line(text, _KINDS[one.verdict]) for text in wrap(f"{one.object}: {_said(one, found)}", width)
        ]
        for warning in one.warnings:
            lines += [Line(text, DIM) for text in wrap(f"warning: {warning}", width, initial_indent="  ")]
    if found.preempts:
        said = f"it stops {len(found.preempts)}: {', '.join(found.preempts[:5])}"
        lines += [Line(text, BAD) for text in wrap(said, width)]
    return lines + [Line(text, DIM) for note in found.unknown for text in wrap(note, width)]


def _said(one: Checked, found: Check) -> str:
    if one.verdict == REFUSED:
        # Of an immutable field the server prints all that it holds.
        said = _WHOLE.sub("Invalid value: {…}: ", one.message)
        return f"refused{f' by {one.policy}' if one.policy else ''}: {said}"
    if one.verdict == ACCEPTED:
        return "accepted"
    admitted = f", admitted in {one.queue} ({', '.join(one.flavors)})" if one.queue else ""
    if one.verdict == STARTS:
        at = "" if one.starts_s is None else f" {soon(one.starts_s)}"
        nodes = f" on {', '.join(one.nodes[:3])}{' …' if len(one.nodes) > 3 else ''}" if one.nodes else ""
        cost = "" if one.micro_usd_per_hour is None else f", ${one.micro_usd_per_hour / 1e6:,.2f} an hour"
        return f"starts{at}{nodes}{admitted}{cost}"
    layer = "" if one.blocker is None else f" ({one.blocker.layer})"
    if one.verdict == NEVER:
        return f"never starts as it is{layer}: {one.message}"
    return f"does not start within {round(found.horizon_s / 60)} minutes{admitted}{layer}: {one.message}"
