"""Which requests come, and when?

Made ones: a rate over time, how bursty the gaps are, how long prompts and answers. Recorded ones: a CSV with a time,
the tokens of the prompt and those of the answer, as Azure publishes its services' hours.
"""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairway.errors import UserError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
REQUESTS_MOST = 50_000_000
_TIMES = ("TIMESTAMP", "timestamp", "time", "arrived")
_PROMPTS = ("ContextTokens", "prompt_tokens", "num_prefill_tokens", "input_tokens")
_OUTPUTS = ("GeneratedTokens", "output_tokens", "num_decode_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True)
class Things:
    """What requests share: prefixes of prompts, adapters. `of`: int64[request], which; `table`: int64[thing, 2], tokens
    it saves and µs it takes to come; `most` that a server keeps at once (0: as its cache lets)."""

    of: Ints
    table: Ints
    most: int = 0


@dataclass(frozen=True, slots=True)
class Requests:
    """In order of arrival. `arrived_s`: float64[request], seconds since the start; the others int64[request]."""

    arrived_s: Floats
    prompt: Ints
    output: Ints
    session: Ints
    things: Things | None = None

    def __len__(self) -> int:
        return len(self.arrived_s)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Log-normal around a median, between bounds. `spread` 0: always the median."""

    median: float
    spread: float = 0.0
    most: int = 1_000_000

    def drawn(self, n: int, chance: np.random.Generator) -> Ints:
        logs = math.log(self.median) + self.spread * chance.standard_normal(n) if self.spread else None
        values = np.full(n, self.median) if logs is None else np.exp(logs)
        return np.clip(np.rint(values), 1, self.most).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Traffic:
    """`rates`: points (second, requests a second), straight between them, nothing outside. `burstiness` is the
    coefficient of variation of the gaps: 1 is Poisson, 0 a metronome, above 1 come bursts."""

    rates: tuple[tuple[float, float], ...]
    prompt: Tokens
    output: Tokens
    burstiness: float = 1.0
    sessions: int = 0


def steady(rate: float, seconds: float) -> tuple[tuple[float, float], ...]:
    return ((0.0, rate), (seconds, rate))


def made(traffic: Traffic, seed: int) -> Requests:
    """Raises: UserError: more than REQUESTS_MOST."""
    chance = np.random.Generator(np.random.PCG64(seed))
    at, rate = (np.array(column, dtype=np.float64) for column in zip(*traffic.rates, strict=True))
    expected = np.concatenate([[0.0], np.cumsum(np.diff(at) * (rate[1:] + rate[:-1]) / 2)])
    if expected[-1] > REQUESTS_MOST:
        raise UserError(f"{expected[-1]:.0f} requests are expected; at most {REQUESTS_MOST} can be made")
    arrived = _when(_unit_times(float(expected[-1]), traffic.burstiness, chance), at, rate, expected)
    n = len(arrived)
    sessions = chance.integers(0, traffic.sessions, n) if traffic.sessions else np.arange(n)
    return Requests(arrived, traffic.prompt.drawn(n, chance), traffic.output.drawn(n, chance), sessions)


def sharing(requests: Requests, count: int, tokens: int, load_s: float, most: int, seed: int) -> Requests:
    """Each with one of so many prefixes (prompts grow by its `tokens`), or adapters (`load_s` to come, `most` at once).

    Few are asked for often: the n-th as often as 1/n (Zipf).
    """
    chance = np.random.Generator(np.random.PCG64(seed))
    weights = 1 / np.arange(1, count + 1)
    of = chance.choice(count, size=len(requests), p=weights / weights.sum())
    table = np.tile(np.array([tokens, round(load_s * 1e6)], dtype=np.int64), (count, 1))
    return replace(requests, prompt=requests.prompt + tokens, things=Things(of.astype(np.int64), table, most))


def _unit_times(total: float, burstiness: float, chance: np.random.Generator) -> Floats:
    """Arrivals at one a second until `total`, with gaps of this coefficient of variation."""
    gaps: list[Floats] = []
    reached = 0.0
    while reached < total:
        n = int(total - reached + 4 * math.sqrt(total) + 16)
        if burstiness == 0:
            drawn = np.ones(n)
        else:
            shape = 1 / burstiness**2
            drawn = chance.gamma(shape, 1 / shape, n)
        gaps.append(drawn)
        reached += float(drawn.sum())
    times = np.cumsum(np.concatenate(gaps)) if gaps else np.empty(0)
    return times[times < total]


def _when(units: Floats, at: Floats, rate: Floats, expected: Floats) -> Floats:
    """When the expected number of arrivals reaches each of `units`: the root of a quadratic within a stretch."""
    part = np.clip(np.searchsorted(expected, units, side="right") - 1, 0, len(at) - 2)
    more = units - expected[part]
    slope = (rate[part + 1] - rate[part]) / np.maximum(at[part + 1] - at[part], 1e-12)
    start = rate[part]
    root = np.sqrt(np.maximum(start * start + 2 * slope * more, 0.0))
    return at[part] + 2 * more / np.maximum(start + root, 1e-12)


def recorded(file: Path) -> Requests:
    """Raises: UserError with the line."""
    if not file.is_file():
        raise UserError(f"{file}: expected a file of recorded requests (CSV, plain or .gz)")
    found: list[tuple[float, int, int]] = []
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open() as lines:
            rows = csv.DictReader(lines)
            names = [_column(file, rows.fieldnames, wanted) for wanted in (_TIMES, _PROMPTS, _OUTPUTS)]
            for number, row in enumerate(rows, start=2):
                found.append(_row(f"{file}:{number}", [row[name] for name in names]))
                if number > REQUESTS_MOST:
                    raise UserError(f"{file}:{number}: more than {REQUESTS_MOST} requests")
    except (UnicodeDecodeError, OSError, EOFError, csv.Error) as wrong:
        raise UserError(f"{file}: not a CSV file: {wrong}") from wrong
    if not found:
        raise UserError(f"{file}: no requests in it")
    found.sort(key=lambda row: row[0])
    times, prompts, outputs = zip(*found, strict=True)
    return Requests(np.array(times) - times[0], np.array(prompts), np.array(outputs), np.arange(len(times)))


def _row(where: str, said: list[str | None]) -> tuple[float, int, int]:
    try:
        at, prompt, output = said
        return _seconds(at or ""), _count(prompt or ""), _count(output or "")
    except (ValueError, OverflowError):
        raise UserError(f"{where}: {str(said)[:80]}: expected a time and two counts of tokens") from None


def _column(file: Path, names: object, wanted: tuple[str, ...]) -> str:
    found = [name for name in wanted if isinstance(names, list) and name in names]
    if not found:
        raise UserError(f"{file}:1: no column {' or '.join(wanted)}; the header has {names!r}"[:400])
    return found[0]


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text[:26])
        found = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(found):
        raise ValueError(text)
    return found


def _count(text: str) -> int:
    found = int(text)
    if not 0 < found < 2**31:
        raise ValueError(text)
    return found
