"""Samples in, series out."""

import numpy as np
import pytest

from fairway.kube.goregexp import RegexpError
from fairway.telemetry.store import STALE, Matcher, MemoryStore, Union, is_stale, labels, name_of

UP = [Matcher("__name__", "=", "up")]


def store() -> MemoryStore:
    kept = MemoryStore()
    for t in range(5):
        for job in "ab":
            kept.append(labels("up", {"job": job}), t * 1000, float(t))
    return kept


def test_labels_are_sorted_and_empty_ones_are_none() -> None:
    assert labels("up", {"z": "1", "a": "2", "gone": ""}) == (("__name__", "up"), ("a", "2"), ("z", "1"))


def test_a_span_has_both_its_ends() -> None:
    found = list(store().select(UP, 1000, 3000))
    assert [s.times.tolist() for s in found] == [[1000, 2000, 3000]] * 2
    assert [dict(s.labels)["job"] for s in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("matcher", "jobs"),
    [
        (Matcher("job", "=", "a"), "a"),
        (Matcher("job", "!=", "a"), "b"),
        (Matcher("job", "=~", "a|c"), "a"),
        (Matcher("job", "!~", "a.*"), "b"),
        (Matcher("gone", "=", ""), "ab"),
        (Matcher("gone", "!=", ""), ""),
        (Matcher("job", "=~", "(?i)A"), "a"),
    ],
)
def test_matchers(matcher: Matcher, jobs: str) -> None:
    assert "".join(dict(s.labels)["job"] for s in store().select([*UP, matcher], 0, 9000)) == jobs


def test_series_added_together_share_their_times() -> None:
    times = np.arange(10, dtype=np.int64)
    kept = MemoryStore()
    for name in "ab":
        kept.extend(labels(name, {}), times, np.ones(10))
    first, second = kept.select([Matcher("__name__", "=~", "a|b")], 2, 7)
    assert first.times is second.times


def test_a_broken_pattern_is_told_as_go_does() -> None:
    with pytest.raises(RegexpError, match="missing closing"):
        list(store().select([Matcher("job", "=~", "(")], 0, 1))


def test_several_sources_are_one_and_only_a_sure_name_is_a_name() -> None:
    assert len(list(Union([store(), MemoryStore()]).select(UP, 0, 9000))) == 2
    assert name_of(UP) == "up"
    assert name_of([Matcher("__name__", "=~", "up")]) is None
    assert store().names() == ["up"]


def test_a_staleness_marker_is_not_any_nan() -> None:
    assert is_stale(np.array([STALE, np.nan, 1.0])).tolist() == [True, False, False]
