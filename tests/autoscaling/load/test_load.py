"""Curves, queues and what a description of load may say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.autoscaling.load.curves import GRAIN_US, Curve, parse_curve
from fairway.autoscaling.load.queues import Consumers, Level, Queue, advanced, changes_at, in_flight, length
from fairway.autoscaling.load.reading import ENTRIES_MOST, LoadFault, read_load
from fairway.autoscaling.source import NEVER_US
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US


def test_steps_ramps_and_repetition() -> None:
    steps = parse_curve("0s:10,5m:90")
    assert [steps.at(t) for t in (0, 5 * MINUTE_US - 1, 5 * MINUTE_US)] == [10_000, 10_000, 90_000]
    assert (steps.changes_at(0), steps.changes_at(5 * MINUTE_US)) == (5 * MINUTE_US, NEVER_US)
    ramp = parse_curve("0s:0,1h:100", ramp=True)
    assert ramp.at(30 * MINUTE_US) == 50_000
    assert ramp.changes_at(1) == GRAIN_US
    daily = parse_curve("0s:1,30m:2", every_us=HOUR_US)
    assert [daily.at(t * MINUTE_US) for t in (0, 31, 61, 95)] == [1000, 2000, 1000, 2000]
    assert daily.changes_at(61 * MINUTE_US) == 90 * MINUTE_US
    assert daily.changes_at(95 * MINUTE_US) == 120 * MINUTE_US


@pytest.mark.parametrize("text", ["", "fast", "1s:2,x", "5m:1,3h:2,"])
def test_what_is_no_curve(text: str) -> None:
    with pytest.raises(ValueError, match="expected a value"):
        parse_curve(text)


@given(
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 50)), min_size=1, max_size=6),
    st.booleans(),
    st.integers(0, 1200),
)
def test_a_curve_does_not_change_before_it_says_so(
    steps: list[tuple[int, int]], ramp: bool, at_s: int
) -> None:
    curve = Curve(tuple(sorted({**dict(steps), 0: 1}.items())), ramp)
    curve = Curve(tuple((s * SECOND_US, v * 1000) for s, v in curve.steps), ramp)
    at_us = at_s * SECOND_US
    until_us = curve.changes_at(at_us)
    assert until_us > at_us
    if not ramp and until_us < NEVER_US:
        assert curve.at(until_us - 1) == curve.at(at_us)


def flow(
    rate: str, *, ready: int, each: int = 2, length: int = 0, fails: int = 0, receives: int = 0
) -> Queue:
    consumers = Consumers("Deployment", "w", "d", each * 1000)
    return Queue("q", "", parse_curve(rate), consumers, length * 1000, fails, receives)


def test_a_queue_grows_drains_and_stays() -> None:
    queue = flow("0s:10,60s:0", ready=3)
    start = Level(0, 0)
    grown = advanced(queue, start, 3, 0, 60 * SECOND_US)
    assert grown.waiting == 240_000  # 10 in, 3 × 2 out
    assert changes_at(queue, grown, 3, 0) < NEVER_US
    drained = advanced(queue, grown, 3, 0, 200 * SECOND_US)
    assert (drained.waiting, drained.finished) == (0, 600_000)
    assert changes_at(queue, drained, 3, 0) == NEVER_US
    assert in_flight(queue, grown, 3) == 3000


def test_what_is_being_worked_on_is_there() -> None:
    """Eight a second, half a second each: four at any time, though none waits."""
    queue = flow("8", ready=6)
    level = advanced(queue, Level(0, 0), 6, 0, 60 * SECOND_US)
    assert (level.waiting, length(queue, level, 6, 0)) == (0, 4000)
    assert length(flow("0", ready=6), level, 6, 0) == 0


def test_what_fails_comes_back_or_dies() -> None:
    back = advanced(flow("0", ready=1, length=100, fails=500), Level(0, 100_000), 1, 0, 10 * SECOND_US)
    assert (back.waiting, back.finished, back.dead) == (90_000, 10_000, 0)
    dead = advanced(
        flow("0", ready=1, length=100, fails=500, receives=1), Level(0, 100_000), 1, 0, 10 * SECOND_US
    )
    assert dead.dead == 10_000


def test_what_fails_is_hidden_until_its_visibility_timeout_is_over() -> None:
    queue = replace(flow("0", ready=1, length=100, fails=500), visibility_us=120 * SECOND_US)
    level = advanced(queue, Level(0, 100_000), 1, 0, 10 * SECOND_US)
    # Twenty were taken, half of them failed: nobody can take those for two minutes.
    assert (level.waiting, level.hidden) == (80_000, ((130 * SECOND_US, 10_000),))
    assert length(queue, level, 1, 0) == 90_000
    assert in_flight(queue, level, 1) == 1000 + 10_000
    # Without consumers they come back, and all that is left waits.
    later = advanced(queue, level, 0, 0, 131 * SECOND_US)
    assert (later.waiting, later.hidden) == (90_000, ())
    assert changes_at(queue, level, 0, 0) < NEVER_US


@given(
    st.integers(0, 40),
    st.integers(0, 5),
    st.integers(1, 500),
    st.integers(0, 1000),
    st.integers(0, 3),
    st.integers(0, 90),
)
def test_no_message_is_lost(
    rate: int, ready: int, length: int, fails: int, receives: int, hidden_s: int
) -> None:
    queue = flow(f"0s:{rate},50s:3", ready=ready, length=length, fails=fails, receives=receives)
    queue = replace(queue, visibility_us=hidden_s * SECOND_US)
    level = Level(0, length * 1000)
    for at_s in (7, 13, 60, 300):
        level = advanced(queue, level, ready, 0, at_s * SECOND_US)
        hidden = sum(amount for _, amount in level.hidden)
        assert level.waiting >= 0
        assert level.waiting + hidden + level.finished + level.dead == length * 1000 + level.arrived


WRONG: dict[str, tuple[Any, str]] = {
    "text": ("x", ": expected a mapping"),
    "an unknown part": ({"metrics": []}, "metrics: unknown; expected one of workloads, series, queues"),
    "no list": ({"series": {}}, "series: expected a list"),
    "no name": ({"series": [{"value": 1}]}, "series.0.name: expected text"),
    "no value": ({"series": [{"name": "x"}]}, "series.0.value: expected a value"),
    "a bad curve": (
        {"workloads": [{"name": "w", "total": {"cpu": "much"}}]},
        "workloads.0.total.cpu: expected a value",
    ),
    "a negative rate": (
        {"queues": [{"name": "q", "consumers": {"name": "w", "rate": -1}}]},
        "rate: expected a number",
    ),
    "a bad period": ({"series": [{"name": "x", "value": 1, "every": "often"}]}, "every: expected a duration"),
    "too many": ({"series": [{"name": "x", "value": 1}] * (ENTRIES_MOST + 1)}, "series: expected at most"),
    "more than all": ({"queues": [{"name": "q", "fails": "120%"}]}, "fails: expected a percentage"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_says_nothing_is_told(name: str) -> None:
    raw, says = WRONG[name]
    with pytest.raises(LoadFault) as wrong:
        read_load(raw)
    assert says in str(wrong.value)
