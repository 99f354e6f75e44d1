"""Does our PromQL pass Prometheus' own test scripts (`promql/promqltest/testdata`)?

A script loads series, asks, and says what is answered. What asks for native histograms (`{{`), or for anything that is
refused by name, counts as not answered, apart from what is answered wrongly.

Source: promql/promqltest/test.go (Prometheus 3.14). Warnings and annotations are not compared.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fairway.kube.timestamps import parse_duration
from fairway.telemetry.promql import Matrix, PromQLError, Result, parse, query_instant, query_range
from fairway.telemetry.promql.nodes import Selector
from fairway.telemetry.store import STALE, Labels, MemoryStore, Series

_EVAL: Final = re.compile(
    r"eval(?:_(\w+))?\s+(instant|range)\s+(?:at\s+(\S+)|from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+))\s+(.*)"
)
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|[iI]nf|[nN]a[nN])"
_ITEM: Final = re.compile(rf"(_|stale|{_NUMBER})(?:([-+])({_NUMBER.removeprefix('[-+]?')}))?(?:x(\d+))?$")
_EPSILON: Final = 1e-6


@dataclass(slots=True)
class Tally:
    """What came of one script's questions; `unanswered` are refused by name or about native histograms."""

    passed: int = 0
    unanswered: int = 0
    failed: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Question:
    line: int
    kind: str
    is_range: bool
    times_ms: tuple[int, int, int]
    query: str
    lines: list[str] = field(default_factory=list)


def run_script(text: str) -> Tally:
    tally, store = Tally(), MemoryStore()
    # Metrics with native histograms: what is asked of them is not answered.
    native: set[str] = set()
    lines = [line.split("#")[0] if line.strip().startswith("#") else line for line in text.splitlines()]
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        body: list[str] = []
        if line.startswith(("load", "eval")):
            while at < len(lines) and lines[at].strip():
                body.append(lines[at].strip())
                at += 1
        if line == "clear":
            store = MemoryStore()
            native.clear()
        elif line.startswith("load"):
            for one in body:
                if "{{" in one or "@st" in one or line.startswith("load_with_nhcb"):
                    native.add(re.split(r"[{\s]", one)[0].removesuffix("_bucket") or "{")
                if "{{" not in one and "@st" not in one:
                    _load(store, _ms(line.split()[1]), one)
        elif found := _EVAL.match(line):
            kind, form, instant, start, end, step, query = found.groups()
            times = (_ms(instant), _ms(instant), 0) if instant else (_ms(start), _ms(end), _ms(step))
            _judge(store, _Question(at, kind or "", form == "range", times, query, body), tally, native)
    return tally


def _ms(text: str) -> int:
    try:
        return round(float(text) * 1000)
    except ValueError:
        sign = -1 if text.startswith("-") else 1
        return sign * (parse_duration(text.lstrip("-")) // 1000)


def _series(text: str) -> tuple[Labels, str]:
    """`name{a="b"} rest`: a selector of equals, and what stands behind it."""
    quote, depth = "", 0
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote and text[place - 1] != "\\" else quote
        elif sign in "\"'`":
            quote = sign
        elif sign in "{}":
            depth += 1 if sign == "{" else -1
        elif sign.isspace() and not depth:
            break
    else:
        place = len(text)
    written = text[:place]
    if written == "{}":
        return (), text[place:].strip()
    node = parse(written)
    assert isinstance(node, Selector)
    return tuple(sorted((m.name, m.value) for m in node.matchers if m.value)), text[place:].strip()


def _load(store: MemoryStore, step_ms: int, line: str) -> None:
    labels, rest = _series(line)
    values = _values(rest)
    kept = [(i * step_ms, v) for i, v in enumerate(values) if v is not None]
    if kept:
        store.extend(labels, np.array([t for t, _ in kept], np.int64), np.array([v for _, v in kept]))


def _values(text: str) -> list[float | None]:
    found: list[float | None] = []
    for item in text.split():
        match = _ITEM.match(item)
        if match is None:
            raise ValueError(item)
        start, sign, by, times = match.groups()
        count = int(times) if times is not None else 0
        if start == "_":
            found += [None] * (count if times is not None else 1)
        elif start == "stale":
            found += [STALE] * (count + 1)
        else:
            delta = float(by) * (-1 if sign == "-" else 1) if by else 0.0
            found += [float(start) + delta * i for i in range(count + 1)]
    return found


def _judge(store: MemoryStore, asked: _Question, tally: Tally, native: set[str]) -> None:
    expects = [line for line in asked.lines if line.startswith("expect")]
    wanted = [line for line in asked.lines if not line.startswith("expect")]
    fails = asked.kind == "fail" or any(line.startswith("expect fail") for line in expects)
    ordered = asked.kind == "ordered" or "expect ordered" in expects
    is_native = any(name in asked.query for name in native) or any("{{" in line for line in wanted)
    is_native |= any("range vector" in line for line in expects)
    start, end, step = asked.times_ms
    try:
        if asked.is_range:
            got: Result = query_range(store, asked.query, start, end, max(step, 1))
        else:
            got = query_instant(store, asked.query, start)
    except PromQLError as refused:
        if fails:
            tally.passed += 1
        elif is_native or "not answered here" in str(refused) or "not enabled" in str(refused):
            tally.unanswered += 1
        else:
            tally.failed.append(f"{asked.line}: {asked.query}: {refused}")
        return
    said = next((line.split(maxsplit=2)[2] for line in expects if line.startswith("expect string")), "")
    wrong = "no error" if fails else _differences(got, wanted, ordered, asked, said, is_native)
    if wrong and is_native:
        tally.unanswered += 1
    elif wrong:
        tally.failed.append(f"{asked.line}: {asked.query}: {wrong}")
    else:
        tally.passed += 1


def _differences(
    got: Result, wanted: list[str], ordered: bool, asked: _Question, said: str, is_native: bool
) -> str:
    if is_native and any("{{" in line for line in wanted):
        return "a native histogram"
    if isinstance(got, str):
        return "" if said[1:-1] == got else f"got {got!r}"
    if isinstance(got, float):
        return "" if len(wanted) == 1 and _is_close(float(wanted[0]), got) else f"got {got}, want {wanted}"
    if isinstance(got, list):
        return _ranges(got, wanted)
    rows: dict[Labels, list[float | None]] = {}
    order = []
    for line in wanted:
        if asked.is_range or not re.fullmatch(_NUMBER, line):
            labels, rest = _series(line)
        else:
            labels, rest = (), line
        rows[labels] = _values(rest) if asked.is_range else [float(rest)]
        order.append(labels)
    if ordered and order != got.labels:
        return f"order {got.labels}"
    return _rows(got, rows)


def _rows(got: Matrix, rows: dict[Labels, list[float | None]]) -> str:
    steps = got.values.shape[1]
    rows = {labels: values for labels, values in rows.items() if any(v is not None for v in values)}
    if set(rows) != set(got.labels):
        return f"got {sorted(got.labels)}, want {sorted(rows)}"
    for labels, values, present in zip(*got, strict=True):
        want = rows[labels] + [None] * (steps - len(rows[labels]))
        for step in range(steps):
            here = want[step]
            if (here is None) == bool(present[step]) or (
                here is not None and not _is_close(here, values[step])
            ):
                return f"{labels} at step {step}: got {values[step] if present[step] else None}, want {here}"
    return ""


def _ranges(got: list[Series], wanted: list[str]) -> str:
    want = dict(_series(line) for line in wanted)
    for series in got:
        values = [v for v in _values(want.pop(series.labels, "")) if v is not None]
        if len(values) != len(series.values) or not all(map(_is_close, values, series.values)):
            return f"got {series}"
    return f"missing {want}" if want else ""


def _is_close(want: float, got: float) -> bool:
    return (
        (math.isnan(want) and math.isnan(got))
        or want == got
        or math.isclose(want, got, rel_tol=_EPSILON, abs_tol=1e-300)
    )
