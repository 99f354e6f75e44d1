"""Messages that arrive, wait and are consumed, as a flow.

A queue grows by what arrives and shrinks by what its consumers take: so many messages a second for each that is ready,
as long as there are any. What fails comes back once its visibility time-out is over, or after so many receives is
dead. Lengths are thousandths of a message, rates thousandths a second: integers, so that two runs agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from fairway.autoscaling.load.curves import Curve, constant
from fairway.autoscaling.source import NEVER_US
from fairway.kube.timestamps import SECOND_US

# A queue whose length changes is taken to have changed this often: as often as it is polled.
GRAIN_US: Final = 15 * SECOND_US
MESSAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Consumers:
    """The ready pods of a workload; each takes `rate_milli` messages a second, at most `at_once` at a time."""

    kind: str
    name: str
    namespace: str
    rate_milli: int
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class Queue:
    """`fails_permille`: of what is taken, so much is not finished, and is hidden for `visibility_us` before others may
    take it. `receives_most` 0: it comes back for ever."""

    name: str
    namespace: str
    arrivals: Curve
    consumers: Consumers | None = None
    length_milli: int = 0
    fails_permille: int = 0
    receives_most: int = 0
    metric: str = ""
    visibility_us: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """A queue at a time. All but times are thousandths of messages. `hidden`: what failed, by when it can be taken
    again; soonest first."""

    at_us: int
    waiting: int
    arrived: int = 0
    finished: int = 0
    dead: int = 0
    hidden: tuple[tuple[int, int], ...] = ()


def advanced(queue: Queue, level: Level, ready: int, began_us: int, now_us: int) -> Level:
    """The queue later, with so many consumers ready since then. O(steps of its arrivals)."""
    while level.at_us < now_us:
        until_us = min(now_us, began_us + queue.arrivals.changes_at(level.at_us - began_us))
        if queue.visibility_us and queue.fails_permille:
            # What fails in a stretch comes back together: stretches are short.
            until_us = min(until_us, level.at_us // GRAIN_US * GRAIN_US + GRAIN_US)
            level = _shown(level)
            until_us = min(until_us, level.hidden[0][0]) if level.hidden else until_us
        level = _flowed(queue, level, ready, queue.arrivals.at(level.at_us - began_us), until_us)
    return level


def _flowed(queue: Queue, level: Level, ready: int, rate: int, until_us: int) -> Level:
    lasted_us = until_us - level.at_us
    arrived = rate * lasted_us // SECOND_US
    able = queue.consumers.rate_milli * ready * lasted_us // SECOND_US if queue.consumers else 0
    taken = min(level.waiting + arrived, able)
    failed = taken * queue.fails_permille // 1000
    dead = 0
    if queue.receives_most and failed:
        dead = (
            failed * (queue.fails_permille ** (queue.receives_most - 1)) // 1000 ** (queue.receives_most - 1)
        )
    back = failed - dead
    hidden = level.hidden
    if queue.visibility_us and back:
        hidden, back = (*hidden, (until_us + queue.visibility_us, back)), 0
    return replace(
        level,
        at_us=until_us,
        hidden=hidden,
        waiting=level.waiting + arrived - taken + back,
        arrived=level.arrived + arrived,
        finished=level.finished + taken - failed,
        dead=level.dead + dead,
    )


def _shown(level: Level) -> Level:
    """What was hidden long enough waits again."""
    shown = sum(amount for at_us, amount in level.hidden if at_us <= level.at_us)
    if not shown:
        return level
    hidden = tuple(one for one in level.hidden if one[0] > level.at_us)
    return replace(level, waiting=level.waiting + shown, hidden=hidden)


def _concealed(level: Level) -> int:
    return sum(amount for _, amount in level.hidden)


def length(queue: Queue, level: Level, ready: int, began_us: int) -> int:
    """Whole messages, in thousandths: those that wait or are hidden, and where none is, those being worked on.

    What arrives at a rate and takes a time is there for that time (Little's law).
    """
    waiting = (level.waiting + _concealed(level)) // MESSAGE * MESSAGE
    if waiting or queue.consumers is None or not ready or not queue.consumers.rate_milli:
        return waiting
    rate = min(queue.arrivals.at(level.at_us - began_us), queue.consumers.rate_milli * ready)
    return -(-rate * queue.consumers.at_once // queue.consumers.rate_milli) * MESSAGE


def in_flight(queue: Queue, level: Level, ready: int) -> int:
    """What consumers hold or held when it failed, in thousandths: not more than there is."""
    at_once = queue.consumers.at_once if queue.consumers else 0
    return min(level.waiting, ready * at_once * MESSAGE) + _concealed(level)


def changes_at(queue: Queue, level: Level, ready: int, began_us: int) -> int:
    """When its length, in whole messages, may be another."""
    rate = queue.arrivals.at(level.at_us - began_us)
    able = queue.consumers.rate_milli * ready if queue.consumers else 0
    able = able * (1000 - queue.fails_permille) // 1000
    if not level.hidden and (rate == able or (level.waiting == 0 and rate <= able)):
        next_us = queue.arrivals.changes_at(level.at_us - began_us)
        return NEVER_US if next_us == NEVER_US else began_us + next_us
    return level.at_us // GRAIN_US * GRAIN_US + GRAIN_US


STILL: Final = constant(0)
