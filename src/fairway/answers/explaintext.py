"""An explanation as lines: one sentence, the chain, then what would start it."""

from __future__ import annotations

from textwrap import wrap

from fairway.answers.explanation import BLOCKED, NOTED, PASSED, UNKNOWN, WAITS, Change, Explanation, Link
from fairway.kube.timestamps import format_duration
from fairway.results.textlayout import BAD, DIM, GOOD, HEADING, PLAIN, TITLE, Line

_MARKS = {PASSED: "ok", BLOCKED: "no", WAITS: "waits", UNKNOWN: "?", NOTED: "-"}
_KINDS = {PASSED: GOOD, BLOCKED: BAD, WAITS: PLAIN, UNKNOWN: DIM, NOTED: DIM}
_LAYER = 14
_MARK = 7
_MOST_DETAILS = 12
NOTHING_HELPS = "Nothing on earth helps: none of the {tried} changes that were tried starts it."


def explanation_lines(found: Explanation, width: int) -> list[Line]:
    """The whole answer within `width` columns; commands are never broken."""
    lines = [Line(text, TITLE) for text in wrap(found.sentence, width)]
    about = f"{found.object}  {found.state}" + (f" since {found.since}" if found.since else "")
    lines += [Line(about, DIM), Line("")]
    for link in found.chain:
        lines += _link(link, width)
    if found.changes is not None:
        lines += _changes(found.changes, found.tried, width)
    if found.unknown:
        lines += [Line(""), Line("What could not be known", HEADING)]
        lines += [
            Line(text, DIM) for note in found.unknown for text in wrap(note, width, initial_indent="  ")
        ]
    return lines


def _link(link: Link, width: int) -> list[Line]:
    head = f"{link.layer:<{_LAYER}}{_MARKS[link.state]:<{_MARK}}"
    body = wrap(link.message, width - len(head)) or [""]
    lines = [Line(head + body[0], _KINDS[link.state])]
    lines += [Line(" " * len(head) + text) for text in body[1:]]
    for detail in link.details[:_MOST_DETAILS]:
        indent = " " * (len(head) + len(detail) - len(detail.lstrip()))
        lines += [
            Line(t, DIM) for t in wrap(detail, width, initial_indent=indent, subsequent_indent=indent + "  ")
        ]
    return lines


def _changes(changes: tuple[Change, ...], tried: int, width: int) -> list[Line]:
    lines = [Line(""), Line("What would start it", HEADING)]
    if not changes:
        return [*lines, *(Line(text, BAD) for text in wrap(NOTHING_HELPS.format(tried=tried), width))]
    for number, change in enumerate(changes, 1):
        lines += [Line(text) for text in wrap(f"{number}. {change.what}: {_price(change)}", width)]
        lines += [Line(f"     {command}", DIM) for command in change.commands]
    return lines


def _price(change: Change) -> str:
    parts = [f"starts {soon(change.starts_s)}"]
    if change.cost_micro_usd is None:
        parts.append("at a price nobody says")
    elif change.cost_micro_usd:
        parts.append(f"${change.cost_micro_usd / 1e6:,.2f} in the first hour")
    if change.evicts:
        parts.append(f"stops {', '.join(change.evicts[:3])}" + (" …" if len(change.evicts) > 3 else ""))
    return ", ".join(parts)


def soon(seconds: float) -> str:
    """`in 2m`, or `at once`."""
    return f"in {format_duration(round(seconds) * 1_000_000)}" if seconds > 2 else "at once"
