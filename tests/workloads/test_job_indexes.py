"""Completion indexes as intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.workloads.job import indexes


@pytest.mark.parametrize(
    ("text", "completions", "want"),
    [
        ("", 5, ()),
        ("0", 5, ((0, 0),)),
        ("0,1", 5, ((0, 1),)),
        ("0-3,5,7,8", 10, ((0, 3), (5, 5), (7, 8))),
        ("0-9", 4, ((0, 3),)),
        ("6", 4, ()),
        ("0,x,2", 4, ((0, 0), (2, 2))),
    ],
)
def test_parse(text: str, completions: int, want: indexes.Intervals) -> None:
    assert indexes.parse(text, completions) == want


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_intervals_are_sets(a: set[int], b: set[int]) -> None:
    left, right = indexes.of(a), indexes.of(b)
    union = indexes.union(left, right)
    assert union == indexes.of(a | b)
    assert indexes.total(union) == len(a | b)
    assert indexes.overlap(left, right) == len(a & b)
    assert indexes.parse(indexes.text(left), 41) == left
    assert all(indexes.has(left, i) == (i in a) for i in range(41))


@given(st.sets(st.integers(0, 20)), st.integers(0, 10), st.integers(0, 20))
def test_first_missing(taken: set[int], count: int, completions: int) -> None:
    want = [i for i in range(completions) if i not in taken][:count]
    assert indexes.first_missing(indexes.of(taken), count, completions) == want


@pytest.mark.parametrize(
    ("given_indexes", "want"), [([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([4, 0, 6, 5], "0,4-6"), ([], "")]
)
def test_two_in_a_row_are_listed_three_are_a_range(given_indexes: list[int], want: str) -> None:
    assert indexes.text(indexes.of(given_indexes)) == want
