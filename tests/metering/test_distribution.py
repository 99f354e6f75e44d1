"""Common costs find their bearers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import UserError
from fairway.metering.distribution import SharingRule, distribute

OWED = {"a": 300, "b": 100, "c": 0}


def test_evenly() -> None:
    assert distribute(10, OWED, SharingRule.EVEN) == {"a": 4, "b": 3, "c": 3}


def test_in_proportion() -> None:
    assert distribute(100, OWED, SharingRule.PROPORTIONAL) == {"a": 75, "b": 25, "c": 0}


def test_by_weight_and_without_one_nothing() -> None:
    assert distribute(90, OWED, SharingRule.WEIGHTED, {"b": 1, "c": 2}) == {"a": 0, "b": 30, "c": 60}


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"z": 1.0}, "given to z, which owes nothing: expected one of a, b, c"),
        ({"a": -1.0}, "the weight of a is -1"),
        ({"a": 0.0}, "all weights are 0"),
    ],
)
def test_wrong_weights_are_named(weights: dict[str, float], says: str) -> None:
    with pytest.raises(UserError, match=says):
        distribute(1, OWED, SharingRule.WEIGHTED, weights)


def test_debtors_come_by_name_whether_they_bear_or_not() -> None:
    for common in (0, 10):
        assert list(distribute(common, {"b": 1, "a": 1}, SharingRule.EVEN)) == ["a", "b"]


def test_nobody_to_bear_it() -> None:
    with pytest.raises(UserError, match="nobody to bear"):
        distribute(1, {}, SharingRule.EVEN)


@given(
    common=st.integers(0, 10**12),
    owed=st.dictionaries(st.text(max_size=3), st.integers(0, 10**12), min_size=1, max_size=8),
    rule=st.sampled_from([SharingRule.EVEN, SharingRule.PROPORTIONAL]),
)
def test_nothing_is_lost(common: int, owed: dict[str, int], rule: SharingRule) -> None:
    shares = distribute(common, owed, rule)
    assert sum(shares.values()) == common
    assert sorted(shares) == sorted(owed)
