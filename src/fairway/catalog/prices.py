"""What does an hour of this machine cost, here and then?

A price book is a list of entries: a type, a capacity type, a commitment, a place (a zone, a region, or
everywhere) and a period. The most specific place wins within a book; a later book wins over an earlier one.
No entry: the answer says what was looked for and what is nearest. It is never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from fairway.errors import FieldProblem
from fairway.kube.fieldpath import Path, path_text
from fairway.kube.timestamps import rfc3339

MICROS_PER_DOLLAR = 1_000_000
# What a bill can reckon with exactly in 64 bits: two and a half thousand dollars an hour.
MICROS_PER_HOUR_MOST = 2_500 * MICROS_PER_DOLLAR

ON_DEMAND, SPOT, RESERVED = "on-demand", "spot", "reserved"
CAPACITY_TYPES = (ON_DEMAND, SPOT, RESERVED)
ONE_YEAR, THREE_YEARS = "1y", "3y"
COMMITMENTS = (ONE_YEAR, THREE_YEARS)
EVERYWHERE = ""

START_OF_TIME, END_OF_TIME = 0, 2**62


@dataclass(frozen=True, slots=True)
class Price:
    """One entry: µ$ per instance and hour, from `from_us` until before `until_us`, in `place`."""

    instance_type: str
    capacity_type: str
    commitment: str
    place: str
    micros_per_hour: int
    from_us: int
    until_us: int
    book: str
    file: str
    line: int
    path: Path = ()

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def terms(self) -> tuple[str, str, str]:
        return (self.instance_type, self.capacity_type, self.commitment)

    def holds_at(self, at_us: int) -> bool:
        return self.from_us <= at_us < self.until_us


class UnpricedReason(StrEnum):
    UNKNOWN_TYPE = "UnknownInstanceType"
    NO_TYPE = "NoInstanceType"
    NO_PRICE = "NoPrice"
    NOT_HERE = "NoPriceInThisPlace"
    NOT_THEN = "NoPriceAtThisTime"
    NO_COMMITMENT = "NoCommitmentNamed"


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Nobody said what this costs. `nearest` are entries that nearly match, with their files and lines."""

    instance_type: str
    capacity_type: str
    commitment: str
    region: str
    zone: str
    at_us: int | None
    reason: UnpricedReason
    nearest: tuple[Price, ...] = ()

    def __str__(self) -> str:
        terms = " ".join(t for t in (self.capacity_type, self.commitment) if t)
        here = self.zone or self.region
        what = f"{self.instance_type or 'a node without an instance type'} ({terms}{', ' * bool(here)}{here})"
        return f"unpriced: {what}: {self.why}"

    @property
    def why(self) -> str:
        """What is missing, and what to do about it."""
        if self.reason == UnpricedReason.NO_TYPE:
            return "set the label node.kubernetes.io/instance-type"
        if self.reason == UnpricedReason.UNKNOWN_TYPE:
            return "no such instance type in the catalog; add it with an InstanceCatalog, its price with a PriceBook"
        if self.reason == UnpricedReason.NO_COMMITMENT:
            return f"reserved capacity is priced by its commitment: expected one of {', '.join(COMMITMENTS)}"
        seen = "; ".join(f"{p.where} {_said(p)}" for p in self.nearest)
        hint = {
            UnpricedReason.NO_PRICE: "no price book has it",
            UnpricedReason.NOT_HERE: "no price for this place",
            UnpricedReason.NOT_THEN: f"no price at {rfc3339(self.at_us or 0)}",
        }[self.reason]
        return f"{hint}; nearest: {seen}" if seen else f"{hint}; add it with a PriceBook"


def _said(price: Price) -> str:
    terms = " ".join(t for t in (price.capacity_type, price.commitment) if t)
    place = f" in {price.place}" if price.place else ""
    since = f" from {rfc3339(price.from_us)[:10]}" if price.from_us > START_OF_TIME else ""
    until = f" until {rfc3339(price.until_us)[:10]}" if price.until_us < END_OF_TIME else ""
    return f"has {terms}{place}{since}{until}"


# How many near entries an answer names.
_NEAREST = 3


class PriceTable:
    """All entries, found by terms; the entries of later books first."""

    __slots__ = ("_by_terms", "_by_type")

    def __init__(self, books: Iterable[tuple[Price, ...]]) -> None:
        self._by_terms: dict[tuple[str, str, str], list[dict[str, list[Price]]]] = {}
        self._by_type: dict[str, list[Price]] = {}
        for book in books:
            self._add(book)

    def _add(self, book: tuple[Price, ...]) -> None:
        places: dict[tuple[str, str, str], dict[str, list[Price]]] = {}
        for price in book:
            places.setdefault(price.terms, {}).setdefault(price.place, []).append(price)
            self._by_type.setdefault(price.instance_type, []).append(price)
        for terms, by_place in places.items():
            self._by_terms.setdefault(terms, []).insert(0, by_place)

    def entries(self, instance_type: str = "") -> Iterator[Price]:
        """Every entry (of a type), in the order of the files."""
        if instance_type:
            yield from self._by_type.get(instance_type, ())
            return
        for prices in self._by_type.values():
            yield from prices

    def find(
        self, terms: tuple[str, str, str], places: tuple[str, ...], at_us: int | None
    ) -> Price | tuple[UnpricedReason, tuple[Price, ...]]:
        """The entry for these terms in the first of these places that has one; without a time, the newest."""
        layers = self._by_terms.get(terms, ())
        elsewhen: list[Price] = []
        for by_place in layers:
            for place in places:
                held = by_place.get(place, ())
                found = _newest(held) if at_us is None else next((p for p in held if p.holds_at(at_us)), None)
                if found is not None:
                    return found
                elsewhen += held
        if elsewhen:
            return UnpricedReason.NOT_THEN, tuple(elsewhen[:_NEAREST])
        elsewhere = [p for by_place in layers for held in by_place.values() for p in held]
        if elsewhere:
            return UnpricedReason.NOT_HERE, tuple(elsewhere[:_NEAREST])
        return UnpricedReason.NO_PRICE, tuple(self._by_type.get(terms[0], [])[:_NEAREST])


def _newest(held: Iterable[Price]) -> Price | None:
    return max(held, key=lambda p: p.from_us, default=None)


def overlaps(book: Iterable[Price]) -> list[FieldProblem]:
    """Entries of one book that say two prices for one thing, place and time."""
    groups: dict[tuple[tuple[str, str, str], str], list[Price]] = {}
    for price in book:
        groups.setdefault((price.terms, price.place), []).append(price)
    return [
        _overlap(earlier, later)
        for group in groups.values()
        for earlier, later in pairwise(sorted(group, key=lambda p: p.from_us))
        if later.from_us < earlier.until_us
    ]


def _overlap(earlier: Price, later: Price) -> FieldProblem:
    expected = (
        f"overlaps {earlier.where}, which {_said(earlier)}: expected periods that follow each other "
        "(from, until) for one type, capacity type and place"
    )
    return FieldProblem(later.file, later.line, path_text(later.path), f'"{later.instance_type}"', expected)
