"""The loop: order, cancellation, limits, forks."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import BugError
from fairway.twin import loop
from fairway.twin.loop import CONTROLLERS, HOUSEKEEPING, INPUT, NODES, SCHEDULER, WATCH, Loop, LoopLimit


class Recorder:
    """A loop that writes down what it handles."""

    def __init__(self, loop: Loop | None = None, seen: list[Any] | None = None) -> None:
        self.loop = loop or Loop()
        self.seen: list[Any] = seen if seen is not None else []
        self.note = self.loop.register("note", self._on_note)
        self.echo = self.loop.register("echo", self._on_echo)

    def _on_note(self, data: Any) -> None:
        self.seen.append((self.loop.now_us, data))

    def _on_echo(self, left: int) -> None:
        self.seen.append((self.loop.now_us, "echo", left))
        if left:
            self.loop.at(self.loop.now_us + left, self.echo, left - 1)


def test_events_run_by_time_then_priority_then_arrival() -> None:
    r = Recorder()
    for time, priority, name in (
        (5, SCHEDULER, "e"),
        (5, INPUT, "b"),
        (5, NODES, "c"),
        (5, NODES, "d"),
        (1, SCHEDULER, "a"),
    ):
        r.loop.at(time, r.note, name, priority)
    assert r.loop.run_until_idle() == 5
    assert r.seen == [(1, "a"), (5, "b"), (5, "c"), (5, "d"), (5, "e")]


def test_what_is_more_urgent_now_interrupts_a_burst() -> None:
    r = Recorder()
    first = r.loop.register("first", lambda _: r.loop.at(r.loop.now_us, r.note, "urgent", INPUT))
    r.loop.at(3, first, None, NODES)
    r.loop.at(3, r.note, "second", NODES)
    r.loop.at(3, r.note, "third", NODES)
    r.loop.run_until_idle()
    assert [name for _, name in r.seen] == ["urgent", "second", "third"]


def test_the_past_means_now() -> None:
    r = Recorder()
    r.loop.run_until(100)
    r.loop.at(7, r.note, "late")
    r.loop.run_until_idle()
    assert r.seen == [(100, "late")]


def test_run_until_leaves_the_clock_at_its_end_and_later_events_queued() -> None:
    r = Recorder()
    r.loop.at(10, r.note, "a")
    r.loop.at(11, r.note, "b")
    assert r.loop.run_until(10) == 1
    assert (r.loop.now_us, r.loop.queued, r.loop.next_time()) == (10, 1, 11)
    assert r.loop.step() and not r.loop.step()


def test_cancelled_events_do_not_run_however_many() -> None:
    r = Recorder()
    tickets = [r.loop.at(i % 50, r.note, i) for i in range(100_000)]
    for ticket in tickets[1:]:
        r.loop.cancel(ticket)
    assert r.loop.queued < 60_000
    r.loop.cancel(12345678)
    assert r.loop.run_until_idle() == 1
    assert r.seen == [(0, 0)]


def test_cancelling_within_a_burst() -> None:
    r = Recorder()
    tickets: list[int] = []
    stop = r.loop.register("stop", lambda _: [r.loop.cancel(t) for t in tickets])
    r.loop.at(1, r.note, "before")
    r.loop.at(1, stop)
    tickets += [r.loop.at(1, r.note, i) for i in range(5000)]
    r.loop.at(1, r.note, "after")
    r.loop.run_until_idle()
    assert r.seen == [(1, "before"), (1, "after")]


def test_every_run_has_a_limit() -> None:
    r = Recorder()
    again = r.loop.register("again", lambda _: r.loop.at(r.loop.now_us, again_index[0]))
    again_index = [again]
    r.loop.at(0, again)
    with pytest.raises(LoopLimit):
        r.loop.run_until(10, limit=100)
    with pytest.raises(LoopLimit):
        r.loop.run_until_idle(limit=100)


def test_names_are_registered_once_and_time_does_not_skip_events() -> None:
    r = Recorder()
    with pytest.raises(BugError):
        r.loop.register("note", print)
    r.loop.at(5, r.note, "x")
    with pytest.raises(BugError):
        r.loop.advance(6)


Plans = st.lists(
    st.tuples(
        st.integers(0, 30), st.sampled_from([INPUT, NODES, WATCH, CONTROLLERS, SCHEDULER]), st.integers(0, 4)
    ),
    max_size=40,
)


@given(Plans, st.integers(0, 60), st.sets(st.integers(0, 39)))
def test_a_fork_continues_exactly_as_the_original(
    plan: list[tuple[int, int, int]], steps: int, dropped: set[int]
) -> None:
    original = Recorder()
    tickets = [original.loop.at(t, original.echo, left, priority) for t, priority, left in plan]
    for i in sorted(dropped):
        if i < len(tickets):
            original.loop.cancel(tickets[i])
    for _ in range(steps):
        original.loop.step()
    copy = Recorder(original.loop.fork(), list(original.seen))
    original.loop.run_until_idle()
    copy.loop.run_until_idle()
    assert copy.seen == original.seen
    assert copy.loop.now_us == original.loop.now_us


@given(Plans)
def test_order_is_that_of_a_sorted_list(plan: list[tuple[int, int, int]]) -> None:
    r = Recorder()
    for n, (t, priority, _) in enumerate(plan):
        r.loop.at(t, r.note, (t, priority, n), priority)
    r.loop.run_until_idle()
    assert [data for _, data in r.seen] == sorted((t, p, n) for n, (t, p, _) in enumerate(plan))


def test_cancelled_events_are_taken_out_once_they_are_many_and_more_than_half() -> None:
    few, half = Recorder(), Recorder()
    for r, queued, cancelled in ((few, 1025, 1024), (half, 2050, 1025)):
        tickets = [r.loop.at(i, r.note, i) for i in range(queued)]
        for ticket in tickets[:cancelled]:
            r.loop.cancel(ticket)
        assert r.loop.queued == queued
        r.loop.cancel(tickets[cancelled])
        assert r.loop.queued == queued - cancelled - 1
    assert few.loop.next_time() is None and half.loop.next_time() == 1026
    assert few.loop.next_slot() is None and half.loop.next_slot() == 1026


def test_a_sweep_in_the_middle_of_a_burst_keeps_what_is_left_in_order() -> None:
    r = Recorder()
    tickets = [r.loop.at(3, r.note, i) for i in range(6)]
    alone = r.loop.at(4, r.note, "alone")
    r.loop.at(5, r.note, "last")
    assert r.loop.run_some(3, 2) == 2 and r.loop.queued == 6
    for ticket in (tickets[3], alone):
        r.loop.cancel(ticket)
    assert (r.loop.next_slot(), r.loop.next_time(), r.loop.queued) == (3, 3, 4)
    assert r.loop.run_until_idle() == 4
    assert r.seen == [*((3, i) for i in (0, 1, 2, 4, 5)), (5, "last")]
    assert (r.loop.handled, r.loop.queued) == (6, 0)


def test_what_was_handled_is_let_go_of_while_a_burst_goes_on() -> None:
    class Data:
        """What an event is about."""

    loop, alive = Loop(), list[int]()
    about = [Data() for _ in range(4)]
    refs = [weakref.ref(one) for one in about]
    note = loop.register("note", lambda _: alive.append(sum(ref() is not None for ref in refs)))
    for one in about:
        loop.at(1, note, one)
    del one
    about.clear()
    loop.run_until_idle()
    assert alive == [4, 3, 2, 1]


def test_a_limit_is_of_events_that_are_left() -> None:
    """So many are handled; it is too few where one more is due by then."""
    r = Recorder()
    for at in (1, 2, 4):
        r.loop.at(at, r.note, at)
    assert r.loop.run_until(3, limit=2) == 2 and r.loop.now_us == 3
    with pytest.raises(LoopLimit, match="0 events did not reach 4 µs; the clock stands at 3 µs"):
        r.loop.run_until(4, limit=0)
    assert r.loop.run_until_idle(limit=1) == 1
    r.loop.at(9, r.note, 9)
    with pytest.raises(LoopLimit, match="0 events handled and 1 still queued at 4 µs"):
        r.loop.run_until_idle(limit=0)


def test_the_clock_is_told_of_once_each_time_it_moves() -> None:
    r = Recorder()
    ticks, after = list[int](), list[int]()
    r.loop.on_time, r.loop.after_event = ticks.append, lambda: after.append(r.loop.now_us)
    for at in (0, 2, 2, 5):
        r.loop.at(at, r.note, at)
    r.loop.run_until(7)
    r.loop.run_until(7)
    r.loop.advance(7)
    r.loop.advance(6)
    assert (ticks, after, r.loop.now_us) == ([2, 5, 7], [0, 2, 2, 5], 7)


def test_whoever_stops_a_loop_leaves_the_rest_for_later() -> None:
    r = Recorder()

    def stop(_: Any) -> None:
        r.loop.stopping = True

    at = r.loop.register("stop", stop)
    r.loop.at(3, at)
    r.loop.at(4, r.note, "later")
    assert r.loop.run_until(10) == 1 and r.loop.now_us == 3
    r.loop.stopping = False
    assert r.loop.run_until(10) == 1 and r.loop.now_us == 10


def test_whoever_contains_failures_is_told_and_the_loop_goes_on() -> None:
    r = Recorder()

    def fail(data: Any) -> None:
        raise ValueError(data)

    failing = r.loop.register("fail", fail)
    r.loop.at(1, failing, "odd")
    r.loop.at(1, r.note, "even")
    with pytest.raises(ValueError, match="odd"):
        r.loop.run_until_idle()
    told: list[tuple[str, Any, str]] = []
    r.loop.on_failure = lambda handler, data, error: told.append((r.loop.name_of(handler), data, str(error)))
    r.loop.at(1, failing, "again")
    assert r.loop.run_until_idle() == 2
    assert (told, r.seen) == ([("fail", "again", "again")], [(1, "even")])
    r.loop.call(r.note, "now")
    assert r.seen[-1] == (1, "now")
    assert r.loop.handler_names() == ("note", "echo", "fail")


def test_the_order_of_a_moment_and_the_limits_of_a_run() -> None:
    assert (INPUT, NODES, WATCH, CONTROLLERS, SCHEDULER, HOUSEKEEPING) == (0, 10, 20, 30, 40, 50)
    assert (loop.DEFAULT_LIMIT, loop.STUCK_LIMIT, loop.NO_TIME) == (10**9, 5 * 10**7, -1)


def test_time_passes_up_to_what_is_due() -> None:
    r = Recorder()
    r.loop.at(5, r.note, "due")
    r.loop.advance(5)
    assert (r.loop.now_us, r.seen) == (5, [])
    assert r.loop.run_until_idle() == 1 and r.seen == [(5, "due")]


def test_a_moment_has_room_for_64_priorities() -> None:
    """Times and priorities are one number: what others look through in tests."""
    r = Recorder()
    for at, priority in ((0, 0), (5, 3), (5, 63), (6, 0)):
        r.loop.at(at, r.note, None, priority)
    assert list(r.loop._slots) == [0, 5 * 64 + 3, 5 * 64 + 63, 6 * 64]


def test_events_of_all_priorities_and_an_unsaid_one() -> None:
    r = Recorder()
    for priority in (63, HOUSEKEEPING, SCHEDULER, CONTROLLERS, WATCH, 11, None, 9, INPUT):
        r.loop.at(1, r.note, priority, *([] if priority is None else [priority]))
    r.loop.at(2, r.note, "next", INPUT)
    r.loop.run_until_idle()
    assert [data for _, data in r.seen] == [0, 9, None, 11, 20, 30, 40, 50, 63, "next"]


def test_tickets_are_counted_from_one_so_that_none_is_false() -> None:
    loop = Loop()
    handler = loop.register("h", lambda _: None)
    assert [loop.at(5, handler) for _ in range(3)] == [1, 2, 3]
    assert loop.fork().at(5, 0) == loop.at(5, handler) == 4


def test_a_step_is_one_event() -> None:
    loop = Loop()
    handler = loop.register("h", lambda _: None)
    for at_us in (5, 5, 6):
        loop.at(at_us, handler)
    assert [(loop.step(), loop.now_us, loop.queued) for _ in range(4)] == [
        *((True, 5, 2), (True, 5, 1), (True, 6, 0), (False, 6, 0)),
    ]


def test_what_is_due_at_the_end_happens_whatever_its_priority() -> None:
    loop, seen = Loop(), list[Any]()
    handler = loop.register("h", seen.append)
    for at_us, priority in ((9, 63), (9, 0), (10, 0), (10, 63), (11, 0)):
        loop.at(at_us, handler, (at_us, priority), priority)
    assert loop.run_until(10) == 4
    assert seen == [(9, 0), (9, 63), (10, 0), (10, 63)]
    assert (loop.now_us, loop.handled, loop.queued, loop.next_time()) == (10, 4, 1, 11)
    assert loop.run_until(10) == 0 and loop.run_until(12) == 1
    assert (loop.now_us, loop.next_time(), loop.next_slot(), loop.step()) == (12, None, None, False)


@pytest.mark.parametrize(("limit", "raises"), [(2, True), (3, False), (4, False)])
def test_a_limit_is_one_where_more_is_due(limit: int, raises: bool) -> None:
    for name in ("until", "idle"):
        loop = Loop()
        handler = loop.register("h", lambda _: None)
        for at_us in (1, 2, 3):
            loop.at(at_us, handler)
        if name == "until":
            loop.at(8, handler)
        run = partial(loop.run_until, 7, limit) if name == "until" else partial(loop.run_until_idle, limit)
        if raises:
            with pytest.raises(LoopLimit, match="2 events"):
                run()
        else:
            assert run() == 3


def test_many_that_are_called_off_are_swept_once_they_are_half_of_the_queue() -> None:
    loop, seen = Loop(), list[Any]()
    handler = loop.register("h", seen.append)
    tickets = [loop.at(10 + i // 3, handler, i) for i in range(2100)]
    for ticket in tickets[:1050]:
        loop.cancel(ticket)
    assert loop.queued == 2100, "1050 of 2100 are no more than half"
    loop.cancel(tickets[1050])
    assert loop.queued == 1049
    few = Loop()
    again = few.register("h", seen.append)
    for ticket in [few.at(10, again) for _ in range(1024)]:
        few.cancel(ticket)
    assert few.queued == 1024, "so few are left until they are due"
    few.cancel(few.at(10, again))
    assert few.queued == 0 and few.next_slot() is None
    loop.run_until(1000)
    assert seen == list(range(1051, 2100)) and loop.queued == 0
    assert loop.handled == 1049


def test_what_is_called_off_while_its_moment_is_under_way_does_not_happen() -> None:
    loop, seen = Loop(), list[int]()
    tickets: list[int] = []

    def happens(number: int) -> None:
        seen.append(number)
        if number == 0:
            loop.cancel(tickets[1])
            assert loop.next_time() == 5
            assert loop.queued == 2

    handler = loop.register("h", happens)
    tickets += [loop.at(5, handler, number) for number in range(4)]
    assert loop.run_until(9) == 3 and seen == [0, 2, 3]
    assert loop.queued == 0


def test_time_that_passes_without_events_does_not_pass_one() -> None:
    loop, times = Loop(3), list[int]()
    loop.on_time = times.append
    handler = loop.register("h", lambda _: None)
    gone = loop.at(5, handler)
    loop.at(7, handler)
    loop.cancel(gone)
    loop.advance(6)
    loop.advance(6)
    loop.advance(2)
    loop.advance(7)
    assert (loop.now_us, times) == (7, [6, 7])
    with pytest.raises(BugError, match="an event is due at 7 µs, before 8 µs"):
        loop.advance(8)
    assert loop.at(1, handler) and loop.next_time() == 7, "what is late is due now"
