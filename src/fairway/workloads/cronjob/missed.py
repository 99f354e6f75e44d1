"""Which start is due now, and was anything missed on the way here?

Source: pkg/controller/cronjob/utils.go mostRecentScheduleTime, nextScheduleTimeDuration (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.kube.cron import Every, Schedule, ScheduleError
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339

# Beyond this many missed starts upstream warns. Source: mostRecentScheduleTime.
MANY_MISSED = 100

# A look is scheduled a little after the start, so that it is not too early. Source: nextScheduleDelta.
NEXT_LOOK_DELAY_US = 100_000


class Due(NamedTuple):
    """`start_us` None: nothing is due. `earliest_us`: from where starts were looked for."""

    start_us: int | None
    earliest_us: int
    is_many: bool


def earliest_us(cron: Obj, now_us: int, *, by_deadline: bool) -> int:
    """The last start, or the creation; no further back than startingDeadlineSeconds, where that is asked."""
    status, spec = cron.get("status") or {}, cron.get("spec") or {}
    text = status.get("lastScheduleTime") or cron["metadata"]["creationTimestamp"]
    earliest = parse_rfc3339(text)
    deadline_s = spec.get("startingDeadlineSeconds")
    if by_deadline and deadline_s is not None:
        earliest = max(earliest, now_us - deadline_s * SECOND_US)
    return earliest


def due(cron: Obj, schedule: Schedule | Every, now_us: int, *, by_deadline: bool = True) -> Due:
    """The latest start that is not in the future.

    Raises: ScheduleError for starts less than a second apart.
    """
    earliest = earliest_us(cron, now_us, by_deadline=by_deadline)
    first = schedule.next_us(earliest)
    if first is None or now_us < first:
        return Due(None, earliest, False)
    second = schedule.next_us(first)
    if second is None or now_us < second:
        return Due(first, earliest, False)
    apart = (second - first) // SECOND_US
    if apart < 1:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    missed = (now_us - first) // SECOND_US // apart + 1
    # Jump near the end, by the distance of the first two starts; walk the rest.
    latest = first
    at = schedule.next_us(earliest + (missed - 1) * apart * SECOND_US - apart * SECOND_US)
    while at is not None and at <= now_us:
        latest = max(at, latest)
        at = schedule.next_us(at)
    return Due(latest, earliest, missed > MANY_MISSED)


def next_look_us(cron: Obj, schedule: Schedule | Every, now_us: int) -> int | None:
    """When the next start is, and a moment."""
    latest = due(cron, schedule, now_us, by_deadline=False)
    after = latest.earliest_us if latest.start_us is None else latest.start_us
    at = schedule.next_us(after)
    while at is not None and at <= now_us:
        at = schedule.next_us(at)
    return None if at is None else at + NEXT_LOOK_DELAY_US
