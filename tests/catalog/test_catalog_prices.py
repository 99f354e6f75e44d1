"""Prices: the example book, which price wins, and what is wrong with a book."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.catalog.catalog import Catalog, catalog_of, load_catalog
from fairway.catalog.prices import Price, Unpriced, UnpricedReason
from fairway.errors import InvalidInput
from fairway.kube.manifest import read_text
from fairway.kube.timestamps import DAY_US, parse_rfc3339

JANUARY = parse_rfc3339("2026-01-01T00:00:00Z")

# What the field's guides quote, in µ$ an hour.
QUOTED = [
    ("p5.48xlarge", "on-demand", "", 98_320_000),
    ("p5.48xlarge", "reserved", "1y", 65_930_000),
    ("p5.48xlarge", "reserved", "3y", 45_660_000),
    ("p4d.24xlarge", "on-demand", "", 32_770_000),
    ("p4d.24xlarge", "spot", "", 12_500_000),
    ("g5.xlarge", "on-demand", "", 1_010_000),
    ("g5.xlarge", "spot", "", 350_000),
    ("a2-highgpu-8g", "on-demand", "", 29_390_000),
    ("a2-highgpu-8g", "spot", "", 8_820_000),
    ("a3-megagpu-8g", "on-demand", "", 101_220_000),
    ("NC24ads_A100_v4", "on-demand", "", 3_670_000),
    ("NC24ads_A100_v4", "spot", "", 1_460_000),
    ("ND96amsr_A100_v4", "on-demand", "", 32_770_000),
]


def book(spec: str, name: str = "ours", currency: str = "USD", unit: str = "instance-hour") -> str:
    head = f"apiVersion: fairway.dev/v1alpha1\nkind: PriceBook\nmetadata: {{name: {name}}}\nspec:\n"
    return f"{head}  currency: {currency}\n  unit: {unit}\n{spec}"


def rows(*texts: str) -> str:
    return "  prices:\n" + "".join(f"  - {{{t}}}\n" for t in texts)


def catalog(*texts: str) -> Catalog:
    return catalog_of(read_text("---\n".join(texts), "ours.yaml"))


def micros(found: Price | Unpriced) -> int | str:
    return found.micros_per_hour if isinstance(found, Price) else str(found.reason)


@pytest.mark.parametrize(("name", "capacity_type", "commitment", "want"), QUOTED)
def test_the_example_book_has_the_figures_guides_quote(
    name: str, capacity_type: str, commitment: str, want: int
) -> None:
    found = load_catalog().price(name, capacity_type, commitment=commitment, at_us=JANUARY)
    assert micros(found) == want


OURS = book(
    rows(
        "instanceType: p4d.24xlarge, onDemand: 20",
        "instanceType: p4d.24xlarge, regions: [us-east-1], onDemand: 21",
        "instanceType: p4d.24xlarge, zones: [us-east-1b], onDemand: 22",
        "instanceType: p4d.24xlarge, zones: [us-east-1a], spot: 9, from: 2026-01-01, until: 2026-01-03",
        'instanceType: p4d.24xlarge, zones: [us-east-1a], spot: "10.000001", from: 2026-01-03',
        "instanceType: g6.2xlarge, zones: [us-east-1a], spot: 0.3, from: 2026-01-01, until: 2026-01-02",
    )
)
WINS: dict[str, tuple[dict[str, object], int | str]] = {
    "everywhere": ({}, 20_000_000),
    "its region, by the zone": ({"zone": "us-east-1c"}, 21_000_000),
    "its region, by name": ({"region": "us-east-1"}, 21_000_000),
    "the zone before the region": ({"zone": "us-east-1b"}, 22_000_000),
    "another region": ({"zone": "us-west-2a"}, 20_000_000),
    "a zone nobody knows": ({"zone": "moon-1a"}, 20_000_000),
    "the first day of a period": (
        {"capacity_type": "spot", "zone": "us-east-1a", "at_us": JANUARY},
        9_000_000,
    ),
    "the last moment of it": (
        {"capacity_type": "spot", "zone": "us-east-1a", "at_us": JANUARY + 2 * DAY_US - 1},
        9_000_000,
    ),
    "the next period": (
        {"capacity_type": "spot", "zone": "us-east-1a", "at_us": JANUARY + 2 * DAY_US},
        10_000_001,
    ),
    "without a time, the newest": ({"capacity_type": "spot", "zone": "us-east-1a"}, 10_000_001),
    "before our book, the guides'": (
        {"capacity_type": "spot", "zone": "us-east-1a", "at_us": JANUARY - 1},
        12_500_000,
    ),
    "where our book says nothing, the guides'": ({"capacity_type": "spot", "zone": "us-west-2a"}, 12_500_000),
}


@pytest.mark.parametrize("case", WINS)
def test_which_price_wins(case: str) -> None:
    asked, want = WINS[case]
    assert micros(catalog(OURS).price("p4d.24xlarge", **asked)) == want  # type: ignore[arg-type]


UNPRICED: dict[str, tuple[tuple[str, str], dict[str, object], UnpricedReason, str]] = {
    "no such type": (
        ("p9.big", "on-demand"),
        {},
        UnpricedReason.UNKNOWN_TYPE,
        "add it with an InstanceCatalog",
    ),
    "a node without a type": (("", "on-demand"), {}, UnpricedReason.NO_TYPE, "instance-type"),
    "spot nobody quotes": (
        ("p5en.48xlarge", "spot"),
        {},
        UnpricedReason.NO_PRICE,
        "nearest: prices-list.yaml:12 has on-demand",
    ),
    "a zone the book leaves out": (
        ("g6.2xlarge", "spot"),
        {"zone": "us-west-2a"},
        UnpricedReason.NOT_HERE,
        "nearest: ours.yaml:13 has spot in us-east-1a from 2026-01-01 until 2026-01-02",
    ),
    "a time the book leaves out": (
        ("g6.2xlarge", "spot"),
        {"zone": "us-east-1a", "at_us": JANUARY + DAY_US},
        UnpricedReason.NOT_THEN,
        "no price at 2026-01-02T00:00:00Z; nearest: ours.yaml:13",
    ),
    "reserved without a plan": (("p5.48xlarge", "reserved"), {}, UnpricedReason.NO_COMMITMENT, "1y, 3y"),
}


@pytest.mark.parametrize("case", UNPRICED)
def test_what_has_no_price_is_answered_with_why(case: str) -> None:
    (name, capacity_type), asked, reason, words = UNPRICED[case]
    found = catalog(OURS).price(name, capacity_type, **asked)  # type: ignore[arg-type]
    assert isinstance(found, Unpriced)
    assert (found.reason, words in str(found)) == (reason, True), str(found)


ROW = "instanceType: g5.xlarge"
WRONG: dict[str, tuple[str, str]] = {
    "unknown type": (book(rows("instanceType: g5.xlrge, spot: 1")), "ours.yaml:8: spec.prices[0].instanceType: "
                     '"g5.xlrge": did you mean g5.xlarge'),
    "negative": (book(rows(f"{ROW}, spot: -1")), "spec.prices[0].spot: -1: expected US dollars an hour, 0 or more"),
    "not a number": (book(rows(f"{ROW}, spot: cheap")), '"cheap": expected US dollars'),
    "too large": (book(rows(f"{ROW}, spot: 1e30")), "expected at most 2,500 dollars an hour"),
    "endless": (book(rows(f'{ROW}, spot: "NaN"')), "expected US dollars"),
    "true": (book(rows(f"{ROW}, spot: true")), "expected US dollars"),
    "too fine": (book(rows(f'{ROW}, spot: "0.1234567"')), "at most six decimals"),
    "no price": (book(rows(ROW)), "expected at least one price: onDemand, spot, oneYear, threeYear"),
    "currency": (book(rows(f"{ROW}, spot: 1"), currency="EUR"), 'ours.yaml:5: spec.currency: "EUR": expected USD'),
    "unit": (book(rows(f"{ROW}, spot: 1"), unit="gpu-hour"), 'spec.unit: "gpu-hour": expected instance-hour'),
    "overlap": (
        book(rows(f"{ROW}, spot: 1, until: 2026-02-01", f"{ROW}, spot: 2, from: 2026-01-31")),
        "ours.yaml:9: spec.prices[1].spot: \"g5.xlarge\": overlaps ours.yaml:8, which has spot until 2026-02-01",
    ),
    "backwards": (book(rows(f"{ROW}, spot: 1, from: 2026-02-01, until: 2026-01-01")), "expected `until` after"),
    "a date": (book(rows(f"{ROW}, spot: 1, from: soon")), "expected a date such as 2026-01-31"),
    "zone": (book(rows(f"{ROW}, spot: 1, zones: [us-east-1z]")), "unknown zone: add it to the regions"),
    "field": (book(rows(f"{ROW}, spott: 1")), "unknown field; did you mean spot?"),
    "kind": ("apiVersion: v1\nkind: Pod\n", "expected fairway.dev/v1alpha1 and kind PriceBook"),
    "model": (
        "apiVersion: fairway.dev/v1alpha1\nkind: InstanceCatalog\nmetadata: {name: x}\nspec:\n  provider: us\n"
        "  types:\n  - {name: box, cpu: 1, memory: 1, gpu: H1000}\n",
        "ours.yaml:7: spec.types[0].gpu: \"H1000\": ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_book_is_said_with_its_place(case: str) -> None:
    text, words = WRONG[case]
    with pytest.raises(InvalidInput) as raised:
        catalog(text)
    assert words in str(raised.value)


def test_machines_of_ones_own_can_be_priced() -> None:
    types = (
        "apiVersion: fairway.dev/v1alpha1\nkind: InstanceCatalog\nmetadata: {name: x}\nspec:\n  provider: us\n"
        "  types:\n  - {name: box, cpu: 3920m, memory: 512Gi, gpu: A100, gpus: 4}\n"
    )
    ours = catalog(book(rows("instanceType: box, onDemand: 3")), types)
    box = ours.instance_type("box")
    assert box is not None and (box.cpu_milli, box.memory_bytes, box.gpu) == (3920, 2**39, "A100-SXM4-40GB")
    assert micros(ours.price("box", zone="cellar")) == 3_000_000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=2, max_size=6, unique=True), st.integers(0, 45))
def test_periods_that_follow_each_other_answer_every_day_within_them(cuts: list[int], day: int) -> None:
    days = sorted(cuts)
    dates = [f"2026-{1 + d // 28:02d}-{1 + d % 28:02d}" for d in days]
    at = f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}"
    spans = list(itertools.pairwise(dates))
    texts = [
        f"instanceType: g6.2xlarge, spot: {i + 1}, from: {a}, until: {b}" for i, (a, b) in enumerate(spans)
    ]
    found = catalog(book(rows(*texts))).price("g6.2xlarge", "spot", at_us=parse_rfc3339(f"{at}T00:00:00Z"))
    want = next((i + 1 for i, (a, b) in enumerate(spans) if a <= at < b), None)
    assert micros(found) == (want * 1_000_000 if want else "NoPriceAtThisTime")
