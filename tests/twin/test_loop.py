"""The loop: order, cancellation, limits, forks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import BugError
from fairway.twin.loop import CONTROLLERS, INPUT, NODES, SCHEDULER, WATCH, Loop, LoopLimit


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
