"""The cluster's clock by itself: where it should stand, when it looks again, how far one look goes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from fairway.apiserver.journal import MAX_BACKLOG
from fairway.apiserver.pump import MAX_SPEED, Pump
from fairway.errors import UserError

SECOND = 1_000_000
BREATH_S, LOOK_S, SLICE_S, EVENTS = 0.0005, 0.5, 0.005, 64


class Goal:
    """A future of no loop."""

    def __init__(self) -> None:
        self.result: bool | None = None
        self.is_cancelled = False

    def __await__(self) -> Generator[None, None, bool]:
        while self.result is None:
            yield
        return self.result

    def set_result(self, result: bool) -> None:
        assert not self.done()
        self.result = result

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def done(self) -> bool:
        return self.is_cancelled or self.result is not None


class Timer:
    def __init__(self, delay: float, call: Callable[[], Any]) -> None:
        self.delay, self.call, self.is_cancelled = delay, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class World:
    """A twin and its loop, the journal, the wall clock and the loop of timers, all in one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *events_s: float, **clock: Any) -> None:
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)
        monkeypatch.setattr(time, "monotonic", lambda: self.wall_s)
        self.loop = self
        self.wall_s: float = 50.0
        self.now_us, self.backlog = 100 * SECOND, 0
        self.events = [round(100 * SECOND + s * SECOND) for s in events_s]
        self.costs_s = 0.0
        """Of the wall clock, for an event."""
        self.handled: list[float] = []
        self.steps: list[int] = []
        self.notes: list[tuple[str, str]] = []
        self.timers: list[Timer] = []
        self.looks = 0
        self.fails_with: Exception | None = None
        it: Any = self
        self.pump = Pump(it, it, **{"speed": 1.0, **clock})

    # The twin

    def wake(self) -> None:
        self.looks += 1

    def next_slot(self) -> int | None:
        return self.events[0] if self.events else None

    def advance(self, at_us: int) -> None:
        assert at_us > self.now_us and not (self.events and self.events[0] <= at_us)
        self.now_us = at_us

    def run_some(self, until_us: int, limit: int) -> int:
        if self.fails_with is not None:
            raise self.fails_with
        self.steps.append(limit)
        done = 0
        while done < limit and self.events and self.events[0] <= until_us:
            self.now_us = self.events.pop(0)
            self.handled.append(self.now_s)
            self.wall_s += self.costs_s
            done += 1
        return done

    # The journal

    def note(self, name: str, value: str) -> None:
        self.notes.append((name, value))

    # Timers

    def time(self) -> float:
        return self.wall_s

    def call_later(self, delay: float, call: Callable[[], Any]) -> Timer:
        self.timers.append(Timer(delay, call))
        return self.timers[-1]

    def create_future(self) -> Goal:
        return Goal()

    @property
    def now_s(self) -> float:
        return (self.now_us - 100 * SECOND) / SECOND

    @property
    def target_s(self) -> float:
        return (self.pump.target_us - 100 * SECOND) / SECOND

    @property
    def waits(self) -> list[float]:
        return [t.delay for t in self.timers if not t.is_cancelled]

    def look(self) -> None:
        """The one timer goes off."""
        (timer,) = [t for t in self.timers if not t.is_cancelled]
        self.timers.clear()
        looks = self.looks
        timer.call()
        assert self.looks == looks + (self.backlog < MAX_BACKLOG)
        assert self.fails_with is not None or "Assertion" not in self.pump._said


def at(seconds: float) -> int:
    return 100 * SECOND + round(seconds * SECOND)


def went(coming: Coroutine[Any, Any, bool]) -> bool | None:
    """What it came to; None: it waits."""
    try:
        coming.send(None)
    except StopIteration as done:
        return bool(done.value)
    return None


def test_it_should_stand_where_the_wall_clock_says_times_its_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    for speed, paused, want_s in ((1.0, False, 3), (2.5, False, 7.5), (2.5, True, 0)):
        world = World(monkeypatch, speed=speed, paused=paused)
        assert (world.target_s, world.pump.lag_us, world.pump.now_us) == (0, 0, at(0))
        world.wall_s += 3
        assert (world.target_s, world.pump.lag_us) == (want_s, want_s * SECOND)
        world.now_us = at(20)
        assert (world.pump.lag_us, world.pump.now_us) == (0, at(20))


def test_a_change_of_speed_counts_from_when_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.wall_s += 2
    world.pump.set(speed=10)
    world.wall_s += 1
    assert world.target_s == 12
    world.pump.set(paused=True)
    world.wall_s += 5
    assert world.target_s == 12
    world.pump.set(paused=False)
    world.wall_s += 1
    assert world.target_s == 22
    assert world.notes == [
        *(("speed", "10"), ("paused", "")),
        *(("speed", "10"), ("paused", "1")),
        *(("speed", "10"), ("paused", "")),
    ]
    assert world.looks == 3
    world.pump.set(paused=True)
    world.pump.set(speed=5)
    world.wall_s += 1
    assert (world.pump.paused, world.pump.speed, world.target_s) == (True, 5, 22)


def test_which_speeds_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    for speed in (0, -1, MAX_SPEED + 1, float("nan")):
        with pytest.raises(UserError) as wrong:
            world.pump.set(speed=speed)
        assert str(wrong.value) == f"a speed is more than 0 and at most 1000000, not {speed}"
    assert (world.notes, world.looks, world.timers) == ([], 0, [])
    for speed in (0.001, MAX_SPEED):
        world.pump.set(speed=speed)
        assert world.pump.speed == speed


@pytest.mark.parametrize(
    ("events_s", "clock", "want_s"),
    [
        ((), {}, LOOK_S),
        ((0.2,), {}, 0.2),
        ((0.2,), {"speed": 4.0}, 0.05),
        ((0.2,), {"speed": 0.5}, 0.4),
        ((0.2,), {"speed": 0.1}, LOOK_S),
        ((9.0,), {}, LOOK_S),
        ((0.0,), {}, BREATH_S),
        ((-1.0,), {}, BREATH_S),
        ((0.0001,), {}, BREATH_S),
        ((0.0,), {"paused": True}, BREATH_S),
        ((0.000001,), {"paused": True}, LOOK_S),
        ((), {"paused": True}, LOOK_S),
    ],
)
def test_when_it_looks_again(
    monkeypatch: pytest.MonkeyPatch, events_s: tuple[float, ...], clock: dict[str, Any], want_s: float
) -> None:
    world = World(monkeypatch, *events_s, **clock)
    world.pump.poke()
    assert world.waits == [pytest.approx(want_s)]
    assert went(world.pump.advance(at(5))) is None
    assert world.waits == [BREATH_S]


def test_an_earlier_look_takes_the_place_of_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.4)
    world.pump.poke()
    world.pump.poke()
    assert world.waits == [pytest.approx(0.4)] and len(world.timers) == 1
    world.events.insert(0, at(0.1))
    world.pump.poke()
    assert world.waits == [pytest.approx(0.1)] and len(world.timers) == 2
    world.wall_s += 0.05
    world.events[0] = at(0.3)
    world.pump.poke()
    assert world.waits == [pytest.approx(0.1)] and len(world.timers) == 2
    assert world.looks == 4


def test_a_look_handles_what_is_due_and_goes_to_where_it_should_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, 0.125, 0.25, 0.375, 0.75)
    world.pump.poke()
    for after_s, handled, now_s, wait_s in (
        (0.125, [0.125], 0.125, 0.125),
        (0.1875, [0.125, 0.25], 0.3125, 0.0625),
        (0.0625, [0.125, 0.25, 0.375], 0.375, 0.375),
        (0.375, [0.125, 0.25, 0.375, 0.75], 0.75, LOOK_S),
        (0.5, [0.125, 0.25, 0.375, 0.75], 1.25, LOOK_S),
    ):
        world.wall_s += after_s
        world.look()
        assert (world.handled, world.now_s, world.waits) == (handled, now_s, [wait_s])


def test_a_look_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    for costs_s, handled in ((0.0, 200), (SLICE_S / EVENTS, EVENTS), (SLICE_S / EVENTS / 2, 2 * EVENTS)):
        world = World(monkeypatch, *(i / 1000 for i in range(200)))
        world.pump.poke()
        world.wall_s, world.costs_s = world.wall_s + 1, costs_s
        world.look()
        assert len(world.handled) == handled
        assert world.now_s == (1 if handled == 200 else (handled - 1) / 1000)


def test_time_waits_for_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    for backlog, now_s in ((MAX_BACKLOG - 1, 0.5), (MAX_BACKLOG, 0), (MAX_BACKLOG + 1, 0)):
        world = World(monkeypatch)
        world.pump.poke()
        world.backlog = backlog
        world.wall_s += 0.5
        world.look()
        assert (world.now_s, world.waits) == (now_s, [LOOK_S])


def test_whatever_goes_wrong_is_told_once_and_time_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch)
    world.pump.poke()
    with caplog.at_level(logging.ERROR, "fairway.apiserver"):
        for failure in (ValueError("a"), ValueError("a"), ValueError("b"), None, KeyError("b")):
            world.fails_with = failure
            world.wall_s += 0.5
            world.look()
            assert world.waits == [LOOK_S]
    assert [r.getMessage() for r in caplog.records] == [
        f"the clock stumbled at {at(0)} µs and goes on: ValueError: a",
        f"the clock stumbled at {at(0)} µs and goes on: ValueError: b",
        f"the clock stumbled at {at(2)} µs and goes on: KeyError: 'b'",
    ]
    assert all(r.exc_info for r in caplog.records)


def test_going_to_a_time_is_as_fast_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for paused in (False, True):
        world = World(monkeypatch, 10, 20, 40, paused=paused)
        coming = world.pump.advance(at(30))
        assert went(coming) is None and world.looks == 1
        world.look()
        assert (world.handled, world.now_s, world.waits) == ([10, 20], 30, [LOOK_S])
        assert world.steps == [EVENTS, EVENTS]
        assert went(coming) is True
        world.wall_s += 2
        assert world.target_s == (30 if paused else 32)


def test_where_it_already_is_it_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.wall_s += 60
    coming = world.pump.advance(at(30))
    assert went(coming) is None
    world.look()
    assert went(coming) is True and (world.now_s, world.target_s) == (30, 60)
    world.look()
    assert world.now_s == 60


def test_going_until_something_holds_stops_right_there(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10, 20, 30)
    assert went(world.pump.advance(at(90), lambda: True)) is True
    assert world.timers == []
    for until, handled in ((1, [10]), (3, [10, 20, 30])):
        coming = world.pump.advance(at(90), lambda: len(world.handled) == until)  # noqa: B023
        assert went(coming) is None
        world.look()
        assert (went(coming), world.handled) == (True, handled)
        assert world.now_s == world.target_s == handled[-1]
    # Also where the wall clock was ahead.
    world.events.append(at(40))
    coming = world.pump.advance(at(90), lambda: not world.events)
    assert went(coming) is None
    world.wall_s += 60
    world.look()
    assert (went(coming), world.now_s, world.target_s) == (True, 40, 40)


def test_a_condition_may_hold_when_the_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    for holds_s, want in ((90, True), (91, False)):
        world = World(monkeypatch, 10)
        coming = world.pump.advance(at(90), lambda: world.now_s >= holds_s)  # noqa: B023
        assert went(coming) is None
        world.look()
        assert (went(coming), world.now_s, world.target_s) == (want, 90, 90)


def test_goals_are_reached_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10, 20, paused=True)
    first, second = world.pump.advance(at(15)), world.pump.advance(at(25), lambda: False)
    assert (went(first), went(second)) == (None, None)
    world.look()
    assert (went(first), went(second)) == (True, None)
    assert (world.handled, world.now_s, world.waits) == ([10], 15, [BREATH_S])
    world.look()
    assert (went(second), world.handled, world.now_s, world.waits) == (False, [10, 20], 25, [LOOK_S])


def test_nobody_waits_for_a_goal_that_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10, 20)
    coming = world.pump.advance(at(15))
    assert went(coming) is None
    world.pump._goals[0][2].cancel()
    world.look()
    assert (world.now_s, world.waits) == (10, [LOOK_S])
    assert not world.pump._goals


def test_a_goal_takes_several_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, *range(1, 100))
    world.costs_s = SLICE_S / EVENTS
    coming = world.pump.advance(at(200))
    assert went(coming) is None
    world.look()
    assert (went(coming), world.now_s, world.waits) == (None, EVENTS, [BREATH_S])
    world.look()
    assert (went(coming), world.now_s) == (True, 200)


def test_while_an_answer_is_waited_for_time_is_no_faster_than_the_wall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, speed=100.0)
    world.pump.hold()
    world.wall_s += 1
    world.pump.hold()
    world.wall_s += 1
    assert world.target_s == 200
    world.pump.touch()
    assert world.now_s == 2
    world.pump.release()
    assert (world.looks, world.waits) == (1, [LOOK_S])
    world.look()
    assert world.now_s == 2
    coming = world.pump.advance(at(9999))
    assert went(coming) is None
    world.look()
    assert (went(coming), world.now_s) == (None, 2)
    world.pump.release()
    world.look()
    assert (went(coming), world.now_s) == (True, 9999)
    world.pump.hold()
    world.wall_s += 3
    world.pump.touch()
    assert world.now_s == 9999 + 3


def test_a_write_from_outside_moves_the_clock_unless_something_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for events_s, want_s in (((), 3), ((3.000001,), 3), ((3,), 0), ((2,), 0)):
        world = World(monkeypatch, *events_s)
        world.pump.touch()
        assert world.now_s == 0
        world.wall_s += 3
        world.pump.touch()
        assert (world.now_s, world.handled, world.looks) == (want_s, [], 0)


def test_a_clock_that_is_stopped_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10)
    coming = world.pump.advance(at(5))
    assert went(coming) is None
    goal: Any = world.pump._goals[0][2]
    world.pump.stop()
    assert (world.waits, goal.is_cancelled, world.pump.is_stopped) == ([], True, True)
    world.pump.poke()
    assert world.waits == []
    World(monkeypatch).pump.stop()
