"""Lines that several pods share, against lists that are searched anew: who comes and goes at the front, in the middle,
or by itself, what each line remembers, and what a copy of the queue keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from builders import pod
from fairway.cluster.store import Store
from fairway.kube.objects import Key, key_of
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.queue import ACTIVE, BACKING_OFF, PARKED, LineKey, SchedulingQueue

PRIORITY_OF = (0, 0, 7)


@dataclass
class _Pod:
    line: LineKey
    priority: int
    queued: int
    sequence: int
    attempts: int = 0
    is_told: bool = False


@dataclass
class _Line:
    state: str = ACTIVE
    plugins: tuple[str, ...] = ()
    refusals: int = 0
    refused: int = 0
    until: int = 0
    turn: tuple[int, ...] = ()
    """Where it stood when it began to back off."""


@dataclass
class _Model:
    pods: dict[str, _Pod] = field(default_factory=dict)
    lines: dict[LineKey, _Line] = field(default_factory=dict)
    made: int = 0

    def members(self, key: LineKey) -> list[str]:
        mine = [name for name, one in self.pods.items() if one.line == key]
        return sorted(mine, key=lambda name: (self.pods[name].queued, self.pods[name].sequence))

    def remove(self, name: str) -> None:
        gone = self.pods.pop(name, None)
        if gone is not None and not self.members(gone.line):
            del self.lines[gone.line]

    def add(self, name: str, line: LineKey, priority: int, queued: int) -> None:
        self.remove(name)
        self.made += 1
        self.pods[name] = _Pod(line, priority, queued, self.made)
        self.lines.setdefault(line, _Line())

    def turn(self, key: LineKey) -> tuple[int, ...]:
        first = self.pods[self.members(key)[0]]
        return -first.priority, max(first.queued, self.lines[key].refused), first.sequence

    def head(self, now: int) -> str:
        for line in self.lines.values():
            is_due = line.state == BACKING_OFF or (line.state == PARKED and not line.plugins)
            if is_due and line.until <= now:
                line.state = ACTIVE
        of_state = {s: [k for k, one in self.lines.items() if one.state == s] for s in (ACTIVE, BACKING_OFF)}
        for state, order in (
            (ACTIVE, self.turn),
            (BACKING_OFF, lambda k: (self.lines[k].until, *self.lines[k].turn)),
        ):
            if of_state[state]:
                return self.members(min(of_state[state], key=order))[0]
        return ""

    def park(self, name: str, plugins: tuple[str, ...], now: int) -> None:
        one = self.pods[name]
        one.attempts += 1
        line = self.lines[one.line]
        line.state, line.plugins, line.refused, line.refusals = PARKED, plugins, now, line.refusals + 1
        line.until = now + min(2 ** (line.refusals - 1), 10) * SECOND_US

    def unpark(self, key: LineKey, now: int) -> None:
        line = self.lines.get(key)
        if line is not None and line.state == PARKED:
            line.state = ACTIVE if line.until <= now else BACKING_OFF
            line.turn = self.turn(key)

    def set_apart(self, name: str, own: LineKey, plugins: tuple[str, ...], now: int) -> None:
        was = self.pods[name]
        self.add(name, own, was.priority, now)
        self.pods[name].attempts, self.pods[name].is_told = was.attempts, True
        self.park(name, plugins, now)

    def parked(self) -> list[LineKey]:
        waiting = [k for k, one in self.lines.items() if one.state == PARKED]
        return sorted(waiting, key=lambda k: (self.lines[k].refused, self.turn(k)[2]))


def _key(name: str) -> Key:
    return Key("Pod", "default", name)


def _compare(queue: SchedulingQueue, model: _Model, now: int) -> None:
    head = queue.head(now)
    assert (head.key.name if head else "") == model.head(now)
    assert queue.has_work(now) == (head is not None)
    order = sorted(
        model.pods, key=lambda n: (-model.pods[n].priority, model.pods[n].queued, model.pods[n].sequence)
    )
    assert [q.key.name for q in queue.pods()] == order
    assert len(queue) == len(order)
    states = [model.lines[one.line].state for one in model.pods.values()]
    assert queue.counts() == {state: states.count(state) for state in (ACTIVE, BACKING_OFF, PARKED)}
    assert [line.key for line in queue.parked()] == model.parked()
    assert queue.has_parked == bool(model.parked())
    for name, one in model.pods.items():
        queued, line = queue.pod(_key(name)), queue.line_of(_key(name))
        assert queued is not None
        assert line is not None
        assert _key(name) in queue
        assert (queued.queued_us, queued.attempts, queued.is_told) == (one.queued, one.attempts, one.is_told)
        want = model.lines[one.line]
        assert (line.key, line.priority, line.state) == (one.line, one.priority, want.state)
        assert (line.plugins, line.refusals, line.refused_us) == (want.plugins, want.refusals, want.refused)
        assert line.backoff_until_us == want.until
        assert line.ticket <= queue.ticket
        assert queue.record_of(line).key.name == model.members(one.line)[0]
    for key in model.lines:
        untold = {n for n in model.members(key) if not model.pods[n].is_told}
        assert {q.key.name for q in queue.untold(key)} == untold
    alone = [one.until for one in model.lines.values() if one.state == PARKED and not one.plugins]
    due = queue.retry_at_us()
    assert not alone or (due is not None and due <= min(alone))


ACTS = (
    "add",
    "add",
    "add",
    "again",
    "turn",
    "turn",
    "turn",
    "apart",
    "wake",
    "retry",
    "tell",
    "remove",
    "all",
    "fork",
)


@pytest.mark.parametrize("seed", range(20))
def test_shared_lines_are_lists_that_are_searched(seed: int) -> None:
    draw, store, model, queue, now = Random(seed), Store(), _Model(), SchedulingQueue(), 0
    forked: tuple[SchedulingQueue, list[tuple[str, int, str]]] | None = None
    for step in range(80):
        now += draw.choice((0, 0, 1, SECOND_US // 2, SECOND_US, 3 * SECOND_US))
        act, names = draw.choice(ACTS), sorted(model.pods)
        some = draw.choice(names) if names else ""
        head, before = queue.head(now), queue.ticket
        if act == "add":
            number = draw.randrange(len(PRIORITY_OF))
            stored = store.create(pod(f"p{step}").spec(priority=PRIORITY_OF[number]).build())
            # Members of a gang are as old as the gang: one that comes late may be first in its line.
            age = max(0, now - draw.choice((0, 0, SECOND_US, 5 * SECOND_US)))
            queue.add(store.accounts.record(stored, key_of(stored)), (number, -1, None), age)
            model.add(f"p{step}", (number, -1, None), PRIORITY_OF[number], age)
        elif act == "again" and some:
            queued = queue.pod(_key(some))
            assert queued is not None
            line = (10 + model.pods[some].priority, -1, None)
            queue.add(queued.record, line, model.pods[some].queued)
            model.add(some, line, model.pods[some].priority, model.pods[some].queued)
        elif act in ("turn", "apart") and head is not None:
            name, plugins = head.key.name, draw.choice((("NodeResourcesFit",), ("A", "B"), ()))
            if act == "apart":
                queue.set_apart(head, now, plugins)
                model.set_apart(name, (head.record.shape.id, -1, head.key), plugins, now)
            elif draw.random() < 0.4:
                model.lines[model.pods[name].line].refusals = 0
                queue.admitted(head)
                model.remove(name)
            else:
                queue.park(head, plugins, now)
                model.park(name, plugins, now)
            line_now = queue.line_of(head.key)
            assert line_now is None or line_now.ticket > before
        elif act == "wake" and some:
            queue.unpark(model.pods[some].line, now)
            model.unpark(model.pods[some].line, now)
        elif act == "retry" and some:
            queue.retry(model.pods[some].line)
            if model.lines[model.pods[some].line].state == PARKED:
                model.lines[model.pods[some].line].state = ACTIVE
        elif act == "tell" and some:
            told = queue.pod(_key(some))
            assert told is not None
            told.is_told = model.pods[some].is_told = True
        elif act == "remove" and some:
            queue.remove(_key(some))
            queue.remove(_key(some))
            model.remove(some)
            assert (queue.pod(_key(some)), queue.line_of(_key(some))) == (None, None)
        elif act == "all":
            queue.unpark_all(now)
            for key in model.parked():
                model.unpark(key, now)
        elif act == "fork":
            if forked is not None:
                assert _state(forked[0]) == forked[1]
            forked = (queue, _state(queue))
            queue = queue.fork()
        _compare(queue, model, now)
    assert list(queue.untold((99, -1, None))) == []


def _state(queue: SchedulingQueue) -> list[tuple[str, int, str]]:
    """What a queue holds: it is the same after its copy went its own way."""
    lines = [(q, queue.line_of(q.key)) for q in queue.pods()]
    return [(q.key.name, q.attempts, f"{q.is_told} {line.state}") for q, line in lines if line is not None]
