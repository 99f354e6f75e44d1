"""Quantities: what is 1500m, and how does Kubernetes write it?"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.kube import quantity
from fairway.kube.quantity import QuantityError

VALUES = {
    "a bare integer": ("2", Fraction(2)),
    "zero": ("0", Fraction(0)),
    "an explicit plus": ("+3", Fraction(3)),
    "a negative amount": ("-1", Fraction(-1)),
    "a decimal point": ("1.5", Fraction(3, 2)),
    "a trailing point": ("1.", Fraction(1)),
    "a leading point": (".5", Fraction(1, 2)),
    "nano": ("1n", Fraction(1, 10**9)),
    "micro": ("1u", Fraction(1, 10**6)),
    "milli": ("500m", Fraction(1, 2)),
    "kilo": ("1k", Fraction(1000)),
    "mega": ("1M", Fraction(10**6)),
    "giga": ("1G", Fraction(10**9)),
    "tera": ("1T", Fraction(10**12)),
    "peta": ("1P", Fraction(10**15)),
    "exa": ("1E", Fraction(10**18)),
    "kibi": ("1Ki", Fraction(2**10)),
    "mebi": ("1Mi", Fraction(2**20)),
    "gibi": ("1Gi", Fraction(2**30)),
    "tebi": ("1Ti", Fraction(2**40)),
    "pebi": ("1Pi", Fraction(2**50)),
    "exbi": ("1Ei", Fraction(2**60)),
    "half a gibi": ("0.5Gi", Fraction(2**29)),
    "a small exponent": ("1e3", Fraction(1000)),
    "a capital exponent": ("1E3", Fraction(1000)),
    "a negative exponent": ("5e-3", Fraction(5, 1000)),
    "a plus in the exponent": ("1e+2", Fraction(100)),
    # Source: ParseQuantity caps what is too large and rounds up what is too small.
    "an exponent out of any range": ("1e99999", Fraction(2**63 - 1)),
    "one of too many digits itself": ("-1E999999999999999999", Fraction(1 - 2**63)),
    "an exponent far below": ("1e-99999", Fraction(1, 10**9)),
    "nothing, however large": ("0e99999", Fraction(0)),
    "a thousand digits": ("9" * 1000, Fraction(2**63 - 1)),
    "a thousand digits of a binary unit": ("9" * 1000 + "Ki", Fraction(2**63 - 1)),
    "a thousand digits behind the point": ("1." + "0" * 1000, Fraction(1)),
    "a thousand zeros before": ("0" * 1000 + "7", Fraction(7)),
    "a thousand zeros behind the point": ("." + "0" * 1000 + "1", Fraction(1, 10**9)),
    "digits and an exponent that meet": ("1" + "0" * 70 + "e-70", Fraction(1)),
    "the largest int64": ("9223372036854775807", Fraction(2**63 - 1)),
}


@pytest.mark.parametrize(("text", "want"), VALUES.values(), ids=VALUES.keys())
def test_parse_is_exact(text: str, want: Fraction) -> None:
    assert quantity.parse(text) == want


REFUSED = {
    "no text": "",
    "a suffix alone": "Gi",
    "an unknown suffix": "1GB",
    "a lower-case binary suffix": "1gi",
    "capital kilo": "1K",
    "a blank inside": "1 Gi",
    "a blank after": "1Gi ",
    "a line break after": "1\n",
    "two points": "1.2.3",
    "words": "lots",
    "hexadecimal": "0x10",
    "an exponent without digits": "1e",
    "an exponent with a suffix": "1e3Gi",
    "digits of another script": "١",
    "a million digits": "9" * 1_000_000,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_refuses(text: str) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(text)


@pytest.mark.parametrize("value", [True, None, [], {}, float("nan"), float("inf")])
def test_refuses_values_that_are_no_number(value: object) -> None:
    with pytest.raises(QuantityError):
        quantity.of(value)


CANONICAL = {
    "milli stays milli": ("1500m", "1500m"),
    "a fraction becomes milli": ("1.5", "1500m"),
    "whole thousandths become units": ("2000m", "2"),
    "thousands become kilo": ("2000", "2k"),
    "binary climbs": ("2048Mi", "2Gi"),
    "binary that does not divide stays": ("1025Mi", "1025Mi"),
    "half a kibi is plain digits": ("0.5Ki", "512"),
    "a fraction of a byte leaves the binary family": ("0.1Ki", "102400m"),
    "zero of any family": ("0Gi", "0"),
    "exponents stay exponents": ("1e3", "1e3"),
    "exponents come in threes": ("12e5", "1200e3"),
    "a capital exponent is written small": ("1E3", "1e3"),
    "negative": ("-1500m", "-1500m"),
    "an integer from YAML": (4, "4"),
    "a float from YAML": (0.5, "500m"),
    "a micro amount": ("100u", "100u"),
}


@pytest.mark.parametrize(("value", "want"), CANONICAL.values(), ids=CANONICAL.keys())
def test_canonical_form(value: object, want: str) -> None:
    assert quantity.canonical(value) == want


def test_rounding_is_up_and_away_from_zero() -> None:
    assert quantity.milli_ceil("100u") == 1
    assert quantity.milli_ceil("1.0001") == 1001
    assert quantity.whole_ceil("100m") == 1
    assert quantity.whole_ceil("1.5Gi") == 3 * 2**29
    assert quantity.whole_ceil("-1.5") == -2


def test_magnitudes_are_capped_at_int64() -> None:
    assert quantity.whole_ceil("100E") == quantity.MAX_INT64
    assert quantity.milli_ceil("1e30") == quantity.MAX_INT64


@given(st.integers(0, 2**62))
def test_bytes_survive_formatting(amount: int) -> None:
    assert quantity.whole_ceil(quantity.format_binary(amount)) == amount


@given(st.integers(0, 2**53))
def test_milli_cpu_survives_formatting(milli: int) -> None:
    assert quantity.milli_ceil(quantity.format_milli(milli)) == milli


@given(st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,6})?(m|k|M|G|Ki|Mi|Gi|)", fullmatch=True))
def test_the_canonical_form_means_the_same_and_is_stable(text: str) -> None:
    canonical = quantity.canonical(text)
    assert quantity.canonical(canonical) == canonical
    assert abs(quantity.parse(canonical) - quantity.parse(text)) <= Fraction(1, 10**9)


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_a_quantity_error(text: str) -> None:
    with suppress(QuantityError):
        assert isinstance(quantity.parse(text), Fraction)
