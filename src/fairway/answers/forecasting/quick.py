"""One future where pods only need room on a node: kube-scheduler's own engine over its accounts, and nothing else.

For clusters in which kube-scheduler alone decides: no quota, no gangs, nobody to preempt. Placement is
`scheduling.cycle`'s, as in a twin; left out is what such a future does not depend on: objects, conditions, events,
kubelets. Where no node had room for pods of a shape, only a node that something left can have it now: so a departure
asks about one node, and only those that wait. `fairway bench forecast` compares its answers with the twin's.

Futures take turns on one board: each puts everything back. Times are µs from the future's beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.records import LabelSet, PodRecord
from fairway.cluster.shapes import PodShape
from fairway.kube.objects import Key
from fairway.kube.resources import NVIDIA_GPU
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.verdict import Scheduled

Ints = npt.NDArray[np.int64]

NEVER: Final = -1
_LEAVE, _ARRIVE = 0, 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One object. `pods`: how many it needs; `records`: those of them that run, with their rows in the accounts."""

    shape: PodShape
    labels: LabelSet
    pods: int
    records: tuple[PodRecord, ...] = ()
    at_us: int = 0
    """When it arrives; 0: it is there."""


@dataclass(frozen=True, slots=True)
class Played:
    """start_us, finish_us: of every entry, `NEVER` where it did not happen. At the grid's times: `queued` objects, and
    `held` GPUs. `evictions`: how often running work was stopped."""

    start_us: list[int]
    finish_us: list[int]
    queued: list[int]
    held: list[int]
    evictions: int = 0


Coming = tuple[int, list[tuple[Entry, int]]]
"""Until when, and who arrives until then with which run time."""


class Board:
    """A cluster on which futures are played, one after another."""

    def __init__(self, accounts: NodeAccounts, scheduler: Scheduler) -> None:
        self.accounts, self.scheduler = accounts, scheduler
        self._column_of: dict[int, int] = {}
        self._needs: list[Ints] = []

    def line_of(self, shape: PodShape) -> int:
        """A number for pods of this shape."""
        found = self._column_of.get(shape.id)
        if found is None:
            accounts = self.accounts
            amounts = {accounts.column(name): value for name, value in shape.requests.items()}
            need = np.zeros(accounts.allocatable.shape[1], np.int64)
            for column, value in amounts.items():
                need[column] = value
            found = self._column_of[shape.id] = len(self._needs)
            self._needs.append(need)
        return found

    def needs(self) -> Ints:
        """int64[line, column]"""
        width = self.accounts.allocatable.shape[1]
        padded = [np.pad(need, (0, width - len(need))) for need in self._needs]
        return np.array(padded, np.int64).reshape(-1, width)


def gpus_held(accounts: NodeAccounts) -> int:
    column = accounts.column_of.get(NVIDIA_GPU)
    return 0 if column is None else int(accounts.requested[:, column].sum())


def play(
    board: Board,
    entries: Sequence[Entry],
    run_us: Sequence[int],
    *,
    until_us: int,
    grid_us: Sequence[int] = (),
    seed: int = 0,
    coming: Iterator[Coming] | None = None,
) -> Played:
    """One future. `entries`: those that run, then those that wait in the order of the queue. `run_us`: what is left of
    those that run, and the whole run time of the others. It ends when all that waited have started and the grid is
    over, or at `until_us`. `coming` is asked for more as time goes by."""
    future = _Future(board, list(entries), list(run_us), seed)
    if coming is not None:
        future.coming = coming
    try:
        return future.run(until_us, grid_us)
    finally:
        future.undo()


class _Future:
    coming: Iterator[Coming] = iter(())

    def __init__(self, board: Board, entries: list[Entry], run_us: list[int], seed: int) -> None:
        self.board, self.entries, self.run_us = board, entries, run_us
        self.accounts, self.scheduler = board.accounts, board.scheduler
        self.random = Random(seed)
        self.line = [board.line_of(entry.shape) for entry in entries]
        self.needs = board.needs()
        self.start = [NEVER] * len(entries)
        self.finish = [NEVER] * len(entries)
        self.left = [entry.pods - len(entry.records) for entry in entries]
        self.lines: list[deque[int]] = [deque() for _ in range(len(self.needs))]
        self.is_waited = np.zeros(len(self.needs), np.bool_)
        self.unstarted = self.queued = 0
        self.gone: list[tuple[PodRecord, int]] = []
        self.placed: dict[Key, PodRecord] = {}
        # (time, departures first, entry, sequence, the pod that leaves)
        self.heap: list[tuple[int, int, int, int, PodRecord | None]] = []
        self.sequence = 0
        self.known_us = 0
        """Until when arrivals are known."""

    def run(self, until_us: int, grid_us: Sequence[int]) -> Played:
        self._begin()
        heap, marks, mark = self.heap, [*grid_us, until_us + 1], 0
        queued: list[int] = []
        held: list[int] = []
        while True:
            while self.known_us <= until_us and (not heap or heap[0][0] >= self.known_us):
                self._learn(until_us)
            if not heap or heap[0][0] > until_us:
                break
            now_us = heap[0][0]
            while marks[mark] <= now_us:
                queued.append(self.queued)
                held.append(gpus_held(self.accounts))
                mark += 1
            if not self.unstarted and mark >= len(grid_us):
                break
            _, _, number, _, record = heappop(heap)
            if record is None:
                self._come(number, now_us)
            else:
                self._leave(record, now_us)
        while mark < len(grid_us):
            queued.append(self.queued)
            held.append(gpus_held(self.accounts))
            mark += 1
        return Played(self.start, self.finish, queued, held)

    def _learn(self, until_us: int) -> None:
        """Who comes next."""
        block = next(self.coming, None)
        if block is None:
            self.known_us = until_us + 1
            return
        self.known_us, newcomers = block
        for entry, run_us in newcomers:
            number = len(self.entries)
            self.entries.append(entry)
            self.run_us.append(run_us)
            line = self.board.line_of(entry.shape)
            if line >= len(self.lines):
                self.needs = self.board.needs()
                self.lines.append(deque())
                self.is_waited = np.append(self.is_waited, False)
            self.line.append(line)
            self.start.append(NEVER)
            self.finish.append(NEVER)
            self.left.append(entry.pods)
            self._plan(entry.at_us, _ARRIVE, number, None)

    def undo(self) -> None:
        """The cluster as it was."""
        for record in self.placed.values():
            self.accounts.displace(record)
        for record, row in reversed(self.gone):
            self.accounts.place(record, row)

    def _begin(self) -> None:
        waiting = []
        for number, entry in enumerate(self.entries):
            if entry.at_us:
                self._plan(entry.at_us, _ARRIVE, number, None)
                continue
            if entry.records:
                self.start[number] = 0
                if not self.left[number]:
                    self.finish[number] = self.run_us[number]
                for record in entry.records:
                    self._plan(self.run_us[number], _LEAVE, number, record)
            if self.left[number]:
                waiting.append(number)
        self.unstarted = sum(self.start[n] < 0 for n in waiting)
        for number in waiting:
            self._come(number, 0)

    def _plan(self, at_us: int, what: int, number: int, record: PodRecord | None) -> None:
        self.sequence += 1
        heappush(self.heap, (at_us, what, number, self.sequence, record))

    def _come(self, number: int, now_us: int) -> None:
        """Place what fits; the rest waits behind its like."""
        line = self.line[number]
        if not self.lines[line]:
            while self.left[number] and self._try(number, now_us):
                pass
        if self.left[number]:
            self.lines[line].append(number)
            self.is_waited[line] = True
            self.queued += 1

    def _leave(self, record: PodRecord, now_us: int) -> None:
        """Whoever waits longest and fits on this node comes in, until nobody does."""
        accounts, row = self.accounts, record.row
        if self.placed.pop(record.key, None) is None:
            self.gone.append((record, row))
        accounts.displace(record)
        may = self.is_waited.copy()
        while may.any():
            free = accounts.allocatable[row] - accounts.requested[row]
            fitting = (may & (self.needs <= free).all(axis=1)).nonzero()[0]
            if not len(fitting):
                return
            line = min((self.lines[n][0], int(n)) for n in fitting)[1]
            number = self.lines[line][0]
            if not self._try(number, now_us):
                may[line] = False
            elif not self.left[number]:
                self.lines[line].popleft()
                self.queued -= 1
                if not self.lines[line]:
                    self.is_waited[line] = may[line] = False

    def _try(self, number: int, now_us: int) -> bool:
        entry = self.entries[number]
        key = Key("Pod", entry.labels.namespace, f"future-{number}-{self.left[number]}")
        record = PodRecord(key=key, uid=key.name, shape=entry.shape, labels=entry.labels)
        verdict = self.scheduler.place(record, self.random.getrandbits(30), now_us)
        if not isinstance(verdict, Scheduled):
            return False
        record.devices = verdict.devices
        self.accounts.place(record, self.accounts.row_of[verdict.node])
        self.placed[key] = record
        self._placed(number, record, now_us)
        return True

    def _placed(self, number: int, record: PodRecord, now_us: int) -> None:
        end_us = now_us + self.run_us[number]
        self.left[number] -= 1
        if self.start[number] < 0:
            self.start[number] = now_us
            self.unstarted -= not self.entries[number].at_us
        if not self.left[number]:
            self.finish[number] = end_us
        self._plan(end_us, _LEAVE, number, record)
