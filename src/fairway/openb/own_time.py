"""What happens when the trace runs in its own time?

Pods come at their creation stamp and leave at their deletion stamp, as their users had it, 149 days in all. A
pod that fits nowhere waits; whenever something leaves, those that wait are tried again in the order in which
they came, and one that does not fit does not hold up the next. A pod still waiting at its deletion stamp leaves
unplaced.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fairway.errors import UserError
from fairway.openb.arrivals import node_ranks
from fairway.openb.gorand import GoRand
from fairway.openb.trace import Trace, TracePod
from fairway.openb.workload import Workload
from fairway.scheduling.gpushare.devices import GpuNodes
from fairway.scheduling.gpushare.placer import Choice, Placer
from fairway.scheduling.gpushare.policies import Policy

DAY_S = 86_400
LEAVE, COME, LEAVE_AT_ONCE = range(
    3
)  # at one stamp room is made first; a pod of no duration comes before it goes


@dataclass(frozen=True, slots=True)
class OwnTimeRun:
    """The replay's account.

    placed_s: the second each pod was placed, None if it never was, in the order of pod names
    gpu_milli_seconds: per day of the trace, GPU-milli in use times seconds
    peak_milli: per day, the most GPU-milli in use at once
    """

    capacity_milli: int
    first_s: int
    last_s: int
    created_s: tuple[int, ...]
    placed_s: tuple[int | None, ...]
    gpu_milli_seconds: tuple[int, ...]
    peak_milli: tuple[int, ...]

    @property
    def waits_s(self) -> tuple[int, ...]:
        """How long each pod that was placed after a wait had waited, ascending."""
        pairs = zip(self.created_s, self.placed_s, strict=True)
        return tuple(sorted(placed - came for came, placed in pairs if placed is not None and placed > came))


class _Meter:
    """GPU-milli in use, integrated by day."""

    def __init__(self, first_s: int, last_s: int) -> None:
        days = (last_s - first_s) // DAY_S + 1
        self.milli_seconds, self.peak_milli = [0] * days, [0] * days
        self._first_s, self._now_s, self._milli = first_s, first_s, 0

    def advance(self, to_s: int) -> None:
        """Count the present use up to that second, day by day."""
        while self._now_s < to_s:
            day = (self._now_s - self._first_s) // DAY_S
            until_s = min(to_s, self._first_s + (day + 1) * DAY_S)
            self.milli_seconds[day] += self._milli * (until_s - self._now_s)
            self.peak_milli[day] = max(self.peak_milli[day], self._milli)
            self._now_s = until_s

    def change(self, gpu_milli: int) -> None:
        self._milli += gpu_milli


def run_own_time(trace: Trace, load: Workload, policy: Policy, seed: int) -> OwnTimeRun:
    """Replay the stamps. Equally good nodes are taken in an order drawn from the seed."""
    spans = [_span(pod) for pod in trace.pods]
    first_s, last_s = min(came for came, _ in spans), max(left for _, left in spans)
    replay = _Replay(load, policy, GoRand(seed), _Meter(first_s, last_s))
    for now_s, phase, pod in sorted(_events(spans)):
        replay.meter.advance(now_s)
        if phase == COME:
            replay.come(pod, now_s)
        else:
            replay.leave(pod, now_s)
    return OwnTimeRun(
        capacity_milli=load.gpu_milli_capacity,
        first_s=first_s,
        last_s=last_s,
        created_s=tuple(came for came, _ in spans),
        placed_s=tuple(replay.placed_s),
        gpu_milli_seconds=tuple(replay.meter.milli_seconds),
        peak_milli=tuple(replay.meter.peak_milli),
    )


def _span(pod: TracePod) -> tuple[int, int]:
    if pod.created_s is None or pod.deleted_s is None:
        raise UserError(
            f"pod {pod.name} has no creation_time or deletion_time: expected both for the trace's own time"
        )
    return pod.created_s, pod.deleted_s


def _events(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """(second, phase, pod)"""
    for pod, (came, left) in enumerate(spans):
        yield came, COME, pod
        yield left, LEAVE if left > came else LEAVE_AT_ONCE, pod


class _Replay:
    """Who runs where, and who waits."""

    def __init__(self, load: Workload, policy: Policy, chance: GoRand, meter: _Meter) -> None:
        self.meter = meter
        self.placed_s: list[int | None] = [None] * len(load.shape_of)
        self._where: dict[int, Choice] = {}
        self._waiting: dict[int, None] = {}
        self._policy, self._chance = policy, chance
        self._shape_of, self._milli_of = load.shape_of.tolist(), load.gpu_milli_of.tolist()
        self._placer = Placer(
            policy, GpuNodes(load.nodes.table[node_ranks(len(load.nodes), chance)]), load.typical
        )
        for pod in load.shapes:
            self._placer.add_shape(pod)

    def come(self, pod: int, now_s: int) -> None:
        if not self._place(pod, now_s):
            self._waiting[pod] = None

    def leave(self, pod: int, now_s: int) -> None:
        if pod in self._waiting:
            del self._waiting[pod]
            return
        shape = self._shape_of[pod]
        self._placer.remove(shape, self._where.pop(pod))
        self.meter.change(-self._milli_of[shape])
        self._retry(now_s)

    def _retry(self, now_s: int) -> None:
        """Try those that wait, oldest first; a shape that does not fit is not asked for again."""
        full: dict[int, None] = {}
        for pod in tuple(self._waiting):
            if self._shape_of[pod] in full:
                continue
            if self._place(pod, now_s):
                del self._waiting[pod]
            else:
                full[self._shape_of[pod]] = None

    def _place(self, pod: int, now_s: int) -> bool:
        shape = self._shape_of[pod]
        draws = (self._chance.int63(), self._chance.int63()) if self._policy.draws else (0, 0)
        choice = self._placer.find(shape, *draws)
        if choice is None:
            return False
        self._placer.place(shape, choice)
        self._where[pod] = choice
        self.placed_s[pod] = now_s
        self.meter.change(self._milli_of[shape])
        return True
