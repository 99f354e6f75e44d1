"""Kinds and times: what is it called, when was it?"""

from __future__ import annotations

import pytest

from fairway.kube.kinds import find_kind, group_kind, guess_plural, kind_named
from fairway.kube.timestamps import format_duration, parse_duration, parse_rfc3339, rfc3339, rfc3339_micro


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("Pod", "Pod"),
        ("pods", "Pod"),
        ("po", "Pod"),
        ("ns", "Namespace"),
        ("jobs.batch", "Job.batch"),
        ("jobs.batch.volcano.sh", "Job.batch.volcano.sh"),
        ("job", "Job.batch"),
        ("cq", "ClusterQueue.kueue.x-k8s.io"),
        ("Job.batch", "Job.batch"),
    ],
)
def test_kinds_answer_to_all_their_names(name: str, want: str) -> None:
    kind = find_kind(name)
    assert kind is not None
    assert kind.group_kind == want


def test_unknown_kinds_get_a_guess() -> None:
    assert find_kind("widgets") is None
    widget = kind_named("Widget.example.com")
    assert (widget.plural, widget.namespaced) == ("widgets", True)
    assert [guess_plural(k) for k in ("Policy", "Class", "Box", "Switch")] == [
        "policies",
        "classes",
        "boxes",
        "switches",
    ]
    assert group_kind("v1", "Pod") == "Pod"


def test_times_are_utc_and_whole_seconds() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00Z"
    assert rfc3339(1_999_999) == "1970-01-01T00:00:01Z"
    assert rfc3339_micro(1_500_000) == "1970-01-01T00:00:01.500000Z"
    assert parse_rfc3339("1970-01-01T01:00:01+01:00") == 1_000_000
    assert parse_rfc3339(rfc3339_micro(1_234_567)) == 1_234_567
    for text in ("2026-01-31", "2026-01-31T08:00:00", "soon"):
        with pytest.raises(ValueError, match=r"."):
            parse_rfc3339(text)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("90s", 90_000_000),
        ("1h30m", 5_400_000_000),
        ("250ms", 250_000),
        ("2d", 172_800_000_000),
        (3, 3_000_000),
    ],
)
def test_durations(text: str | int, us: int) -> None:
    assert parse_duration(text) == us


@pytest.mark.parametrize("text", ["", "soon", "1x", "-5s", True])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


def test_durations_for_people() -> None:
    assert [format_duration(us) for us in (0, 850_000, 42_000_000, 200_000_000, 1_051_200_000_000)] == [
        "0s",
        "850ms",
        "42s",
        "3m20s",
        "12d4h",
    ]
