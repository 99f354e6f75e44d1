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


def test_of_several_strangers_and_wrong_weights_the_first_by_name_is_named() -> None:
    with pytest.raises(UserError, match="given to x, which owes nothing: expected one of a, b, c"):
        distribute(1, OWED, SharingRule.WEIGHTED, {"z": 1.0, "y": 1.0, "x": 1.0, "a": 1.0})
    with pytest.raises(UserError, match=r"the weight of b is -0\.5: expected 0 or more"):
        distribute(1, OWED, SharingRule.WEIGHTED, {"c": -2.0, "b": -0.5, "a": 0.0})
    with pytest.raises(UserError, match="7 µ\\$ of shared cost have nobody to bear them"):
        distribute(7, {}, SharingRule.WEIGHTED)
    with pytest.raises(UserError, match="all weights are 0"):
        distribute(1, OWED, SharingRule.WEIGHTED)


def test_a_credit_is_shared_as_a_cost_is() -> None:
    assert distribute(-90, OWED, SharingRule.WEIGHTED, {"b": 1, "c": 2, "a": 0}) == {
        "a": 0,
        "b": -30,
        "c": -60,
    }
    assert distribute(-10, OWED, SharingRule.EVEN) == {"a": -3, "b": -3, "c": -4}
    assert distribute(0, {}, SharingRule.EVEN) == {}
    # What nobody owes yet is shared evenly.
    assert distribute(10, {"a": 0, "b": 0}, SharingRule.PROPORTIONAL) == {"a": 5, "b": 5}
