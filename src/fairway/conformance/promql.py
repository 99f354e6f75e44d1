"""Does our PromQL answer as a recorded Prometheus did? And does it pass Prometheus' own test scripts?

A recording has `base` (seconds since 1970; other times count from there), series (`times` in ms, `values`), and
queries with their `start`, `end`, `step` and `result` or `error`. Values agree to 1e-9, series by their labels; of an
error only that there is one. A file named `*.test` is a script of promqltest.

A difference in the last bits may decide a comparison or the order of equal values; such a query counts as different.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairway.conformance.promqlscripts import run_script
from fairway.conformance.rows import nothing_recorded, read_bytes, read_rows
from fairway.conformance.verification import Difference, Inapplicable, Verification
from fairway.telemetry.promql import PromQLError, as_json, query_range
from fairway.telemetry.store import MemoryStore, labels

_TOLERANCE: Final = 1e-9
# Of a value that is left over where larger ones cancelled: no answer is closer than the rounding of those.
_ROUNDING: Final = 1e-9


def verify_promql(file: Path) -> Verification:
    """Raises: InvalidInput for a file that cannot be read."""
    if file.suffix == ".test":
        return _verify_script(file)
    found, store, base = Verification(), MemoryStore(), 0
    for line, row in read_rows(file, _shape):
        if "base" in row:
            base = row["base"]
        elif "series" in row:
            pairs = dict(row["series"])
            times = np.array(row["times"], np.int64) + base * 1000
            store.extend(labels(pairs.pop("__name__", ""), pairs), times, np.array(row["values"], np.float64))
        else:
            found.count(_compared(store, line, row, base))
    if not found.total:
        raise nothing_recorded(file, "queries")
    return found


def _shape(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict):
        return "", "expected a JSON object"
    if "base" in row:
        return None if isinstance(row["base"], int) else ("base", "expected seconds since 1970")
    if "series" in row:
        try:
            values = np.array(row["values"], np.float64)
            same = len(values) == len(np.array(row["times"], np.int64)) and all(
                map(str, row["series"].items())
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            same = False
        return None if same else ("series", "expected labels, and times and values of one length")
    wanted = all(isinstance(row.get(key), int) for key in ("start", "end", "step")) and "query" in row
    return (
        None
        if wanted and ("result" in row or "error" in row)
        else ("query", "expected a query and its answer")
    )


def _compared(store: MemoryStore, line: int, row: dict[str, Any], base: int) -> list[Difference]:
    query, start = str(row["query"]), (row["start"] + base) * 1000
    try:
        answer = query_range(store, query, start, (row["end"] + base) * 1000, row["step"] * 1000)
        got = as_json(answer, start, row["step"] * 1000)["result"]
        said = ""
    except PromQLError as refused:
        got, said = [], str(refused)
    if "error" in row:
        return [] if said else [Difference(line, query, "error", row["error"], "an answer")]
    if said:
        return [Difference(line, query, "answer", f"{len(row['result'])} series", said)]
    want = {_key(labels): values for labels, values in row["result"]}
    have = {_key(r["metric"]): [[t - base, v] for t, v in r["values"]] for r in got}
    if want.keys() != have.keys():
        return [Difference(line, query, "series", str(sorted(want)), str(sorted(have)))]
    for key, values in want.items():
        if not _same(values, have[key]):
            return [Difference(line, query, str(dict(key)), str(values), str(have[key]))]
    return []


def _key(found: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(found.items()))


def _same(want: list[list[Any]], got: list[list[Any]]) -> bool:
    return len(want) == len(got) and all(
        at == here and _is_close(float(a), float(b)) for (at, a), (here, b) in zip(want, got, strict=True)
    )


def _is_close(want: float, got: float) -> bool:
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    return math.isclose(want, got, rel_tol=_TOLERANCE, abs_tol=_ROUNDING)


def _verify_script(file: Path) -> Verification:
    tally = run_script(read_bytes(file).decode("utf-8", "replace"))
    found = Verification(tally.passed + len(tally.failed), tally.passed)
    found.differences += [Difference(int(t.split(":")[0]), file.name, "answer", "", t) for t in tally.failed]
    reason = f"{tally.unanswered} questions ask for what is refused by name, or for native histograms"
    if tally.unanswered:
        found.inapplicable.append(Inapplicable(0, file.name, reason))
    return found
