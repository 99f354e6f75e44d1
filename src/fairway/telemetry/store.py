"""Series: who has them, and how are they selected?

A source answers `select`. It may hold samples (`MemoryStore`), derive them when asked (the twin's exporters), or be
several others (`Union`). Times are milliseconds since 1970, as Prometheus keeps them; values are float64.

Series that were scraped together should share one array of times: whoever evaluates then works on whole blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairway.kube.goregexp import Pattern, compiled

# Pairs of name and value, sorted by name, `__name__` among them; none is empty.
Labels: TypeAlias = tuple[tuple[str, str], ...]
Times: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

NAME: Final = "__name__"
# The NaN that says "this series ended here". Source: model/value/value.go (Prometheus 3).
STALE_BITS: Final = 0x7FF0000000000002
STALE: Final[float] = struct.unpack("<d", struct.pack("<Q", STALE_BITS))[0]


def labels(name: str, values: Mapping[str, str]) -> Labels:
    """Labels of a series of this name; an empty name or value is no label."""
    pairs = {NAME: name, **values}
    return tuple(sorted((key, value) for key, value in pairs.items() if value))


def is_stale(values: Values) -> Bools:
    """Which samples are staleness markers; other NaN are values."""
    found: Bools = values.view(np.int64) == STALE_BITS
    return found


class Series(NamedTuple):
    """`times`: int64[sample], ascending; `values`: float64[sample]."""

    labels: Labels
    times: Times
    values: Values


class Matcher(NamedTuple):
    """`op`: one of `=`, `!=`, `=~`, `!~`. A label that is not there is an empty one."""

    name: str
    op: str
    value: str

    def matches(self, value: str) -> bool:
        """Raises: goregexp.RegexpError where the pattern is none."""
        if self.op in ("=", "!="):
            return (value == self.value) is (self.op == "=")
        return (anchored(self.value).search(value) is not None) is (self.op == "=~")


@lru_cache(maxsize=256)
def anchored(pattern: str) -> Pattern:
    """A pattern that must match whole values, line breaks included. Raises: goregexp.RegexpError."""
    return compiled(f"^(?s:{pattern})\\z")


def name_of(matchers: Sequence[Matcher]) -> str | None:
    """The metric that is asked for by name; None where the name may be several."""
    return next((m.value for m in matchers if m.name == NAME and m.op == "=" and m.value), None)


def fits(found: Labels, matchers: Sequence[Matcher]) -> bool:
    if not matchers:
        return True
    values = dict(found)
    return all(m.matches(values.get(m.name, "")) for m in matchers)


class Table(NamedTuple):
    """Many series at once: pieces of rows that share their times, which are evenly spaced.

    `values`: float[row, sample], no NaN. Piece `i` is `values[row[i], begin[i]:end[i]]` of series `series[i]`; where
    `is_over[i]`, a staleness marker is at `end[i]`. Pieces come by row, then by time; `labels(i)` are their series'.
    """

    times: Times
    values: npt.NDArray[Any]
    row: Times
    begin: Times
    end: Times
    series: Times
    is_over: Bools
    labels: Callable[[int], Labels]


class SeriesSource(Protocol):
    """Who has samples. The same samples come out however a span is cut into several questions."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterable[Series]:
        """Series that fit all matchers, with their samples from `start_ms` to `end_ms`, both included."""
        ...


@runtime_checkable
class Dividable(Protocol):
    """A source of whose tables two can each have a part."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterable[Series]: ...

    def row_count(self) -> int:
        """How many series a metric has at a time, about."""
        ...

    def divided(self, share: float) -> tuple[SeriesSource, SeriesSource]:
        """A share of what comes as tables, and the rest of it."""
        ...


def series_of(table: Table) -> Iterator[Series]:
    """Its series, each with all its pieces and markers."""
    places: dict[int, list[int]] = {}
    for place, number in enumerate(table.series.tolist()):
        places.setdefault(number, []).append(place)
    begin, end, row, is_over = (part.tolist() for part in (table.begin, table.end, table.row, table.is_over))
    for found in places.values():
        times, values = [], []
        for i in found:
            piece = table.values[row[i], begin[i] : end[i]].astype(np.float64)
            times.append(table.times[begin[i] : end[i] + is_over[i]])
            values.append(np.append(piece, STALE) if is_over[i] else piece)
        labels_ = table.labels(found[0])
        if len(found) == 1:
            whole = len(times[0]) == len(table.times)
            yield Series(labels_, table.times if whole else times[0], values[0])
        else:
            yield Series(labels_, np.concatenate(times), np.concatenate(values))


class MemoryStore:
    """Samples held in memory, by series; later samples of a series come later."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[Labels, list[tuple[Times, Values]]]] = {}
        self._open: dict[Labels, tuple[list[int], list[float]]] = {}

    def append(self, found: Labels, t_ms: int, value: float) -> None:
        """One sample, later than the series' others."""
        times, values = self._open.setdefault(found, ([], []))
        times.append(t_ms)
        values.append(value)

    def extend(self, found: Labels, times: Times, values: Values) -> None:
        """Samples of one series, later than its others."""
        self._close(found)
        self._chunks(found).append((times, values))

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        for found in list(self._open):
            self._close(found)
        name = name_of(matchers)
        groups = self._by_name.values() if name is None else (self._by_name.get(name, {}),)
        rest = [m for m in matchers if name is None or m != Matcher(NAME, "=", name)]
        cuts: dict[int, tuple[int, int, Times]] = {}
        for group in groups:
            for found, chunks in group.items():
                if fits(found, rest):
                    times, values = _joined(chunks)
                    series = _cut(found, times, values, start_ms, end_ms, cuts)
                    if len(series.times):
                        yield series

    def names(self) -> list[str]:
        """The metrics there are, sorted."""
        for found in list(self._open):
            self._close(found)
        return sorted(self._by_name)

    def forget(self, before_ms: int) -> None:
        """Drop samples before a time, and series that have no others."""
        for found in list(self._open):
            self._close(found)
        for group in self._by_name.values():
            for found, chunks in list(group.items()):
                times, values = _joined(chunks)
                first = int(np.searchsorted(times, before_ms))
                if first == len(times):
                    del group[found]
                else:
                    chunks[:] = [(times[first:].copy(), values[first:].copy())]

    def copy(self) -> MemoryStore:
        """One that goes on by itself; samples are shared."""
        for found in list(self._open):
            self._close(found)
        twin = MemoryStore()
        twin._by_name = {
            name: {found: list(chunks) for found, chunks in group.items()}
            for name, group in self._by_name.items()
        }
        return twin

    def _chunks(self, found: Labels) -> list[tuple[Times, Values]]:
        return self._by_name.setdefault(dict(found).get(NAME, ""), {}).setdefault(found, [])

    def _close(self, found: Labels) -> None:
        if kept := self._open.pop(found, None):
            chunk = np.array(kept[0], np.int64), np.array(kept[1], np.float64)
            self._chunks(found).append(chunk)


def _joined(chunks: list[tuple[Times, Values]]) -> tuple[Times, Values]:
    if len(chunks) > 1:
        chunks[:] = [(np.concatenate([c[0] for c in chunks]), np.concatenate([c[1] for c in chunks]))]
    return chunks[0]


def _cut(
    found: Labels, times: Times, values: Values, start_ms: int, end_ms: int, cuts: dict[int, Any]
) -> Series:
    """The part between two times. Series that shared their times still do."""
    if (known := cuts.get(id(times))) is None:
        first, end = np.searchsorted(times, (start_ms, end_ms + 1))
        whole = first == 0 and end == len(times)
        # The times themselves are kept too: an id is not given again while its owner lives.
        known = cuts[id(times)] = (first, end, times if whole else times[first:end], times)
    return Series(found, known[2], values[known[0] : known[1]])


class Union:
    """Several sources as one. They have no series in common."""

    def __init__(self, sources: Sequence[SeriesSource]) -> None:
        self.sources = tuple(sources)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        for source in self.sources:
            yield from source.select(matchers, start_ms, end_ms)

    def has_tables(self, matchers: Sequence[Matcher]) -> bool:
        return any(has_tables(source, matchers) for source in self.sources)

    def parts(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Table | Series]:
        for source in self.sources:
            ask = source.parts if has_tables(source, matchers) else source.select  # type: ignore[attr-defined]
            yield from ask(matchers, start_ms, end_ms)


def has_tables(source: SeriesSource, matchers: Sequence[Matcher]) -> bool:
    asked = getattr(source, "has_tables", None)
    return asked is not None and asked(matchers)
