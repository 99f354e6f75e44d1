"""One future where pods only need room on a node: kube-scheduler's choices, and nothing else.

For clusters in which kube-scheduler alone decides: no quota, no gangs, nobody to preempt. Left out is what such a
future does not depend on: objects, conditions, events, kubelets. Where no node had room for pods of a shape, only a
node that something left can have it now: so a departure asks about one node, and only those that wait.
Where there is room, `boards` knows. Pods of a shape are a line; lines take turns as in kube-scheduler's queue: whose
head waits longest since it came, or since it was last tried in vain. Times are µs from the future's beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Final

from fairway.answers.forecasting.boards import NOWHERE, Board
from fairway.answers.forecasting.situation import NEVER, Played
from fairway.cluster.records import PodRecord

_LEAVE, _ARRIVE = 0, 1
_FAR: Final = 1 << 62


class Entry:
    """One object: pods of a line of the board. `records`: those of them that run, since so long."""

    def __init__(self, line: int, pods: int, records: Sequence[PodRecord] = (), elapsed_us: int = 0) -> None:
        self.line, self.pods, self.records, self.elapsed_us = line, pods, tuple(records), elapsed_us


Coming = tuple[int, list[tuple[int, Entry, int]]]
"""Until when, and who arrives until then, at which time and with which run time."""


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
    """One future. `entries`: those that run, and those that wait in the order of the queue. `run_us`: whole run
    times, the part that has passed included. It ends when all that waited have started and the grid is
    over, or at `until_us`. `coming` is asked for more as time goes by."""
    future = _Future(board, list(entries), list(run_us), Random(seed), coming)
    return future.run(until_us, list(grid_us))


class _Future:
    def __init__(
        self,
        board: Board,
        entries: list[Entry],
        run_us: list[int],
        random: Random,
        coming: Iterator[Coming] | None,
    ) -> None:
        board.begin()
        self.board, self.entries, self.run_us = board, entries, run_us
        self.draw = random.getrandbits
        self.coming = coming
        self.asked = len(entries)
        self.start = [NEVER] * len(entries)
        self.finish = [NEVER] * len(entries)
        self.left = [entry.pods - len(entry.records) for entry in entries]
        self.lines: dict[int, deque[int]] = {}
        """Who waits, by line, for lines in which somebody does."""
        self.came_us = [0] * len(entries)
        self.refused: dict[int, tuple[int, int]] = {}
        """When the head of a line was last tried in vain, and how much had happened by then."""
        self.happened = 0
        self.unstarted = self.queued = 0
        # (time, departures first, entry, sequence, the pod that leaves)
        self.heap: list[tuple[int, int, int, int, int]] = []
        self.sequence = 0
        self.known_us = 0
        """Until when arrivals are known."""

    def run(self, until_us: int, grid_us: list[int]) -> Played:
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
                held.append(self.board.held())
                mark += 1
            if not self.unstarted and mark >= len(grid_us):
                break
            # Whatever leaves at one time has left before anybody is tried.
            rows: list[int] = []
            while heap and heap[0][0] == now_us and heap[0][1] == _LEAVE:
                _, _, number, _, token = heappop(heap)
                rows.append(self.board.leave(token, self.entries[number].line))
            if rows:
                self._fill(rows, now_us)
            else:
                self._come(heappop(heap)[2], now_us)
        while mark < len(grid_us):
            queued.append(self.queued)
            held.append(self.board.held())
            mark += 1
        return Played(self.start[: self.asked], self.finish[: self.asked], queued, held)

    def _learn(self, until_us: int) -> None:
        """Who comes next."""
        block = None if self.coming is None else next(self.coming, None)
        if block is None:
            self.known_us = until_us + 1
            return
        self.known_us, newcomers = block
        for at_us, entry, run_us in newcomers:
            number = len(self.entries)
            self.entries.append(entry)
            self.run_us.append(run_us)
            self.start.append(NEVER)
            self.finish.append(NEVER)
            self.left.append(entry.pods)
            self.came_us.append(at_us)
            self._plan(at_us if at_us > 1 else 1, _ARRIVE, number, NOWHERE)

    def _begin(self) -> None:
        waiting = []
        for number, entry in enumerate(self.entries):
            if entry.records:
                self.start[number] = 0
                left_us = max(self.run_us[number] - entry.elapsed_us, 1)
                if not self.left[number]:
                    self.finish[number] = left_us
                for record in entry.records:
                    self._plan(left_us, _LEAVE, number, self.board.seat(record))
            if self.left[number]:
                waiting.append(number)
        self.unstarted = sum(self.start[n] < 0 for n in waiting)
        for number in waiting:
            self._come(number, 0)

    def _plan(self, at_us: int, what: int, number: int, token: int) -> None:
        self.sequence += 1
        heappush(self.heap, (at_us, what, number, self.sequence, token))

    def _come(self, number: int, now_us: int) -> None:
        """Place what fits; the rest waits behind its like."""
        line = self.entries[number].line
        waiting = self.lines.get(line)
        if waiting is None:
            while self.left[number]:
                token = self.board.place(line, self.draw(30))
                if token == NOWHERE:
                    break
                self._placed(number, token, now_us)
            if self.left[number]:
                self.lines[line] = deque((number,))
                self.refused[line] = now_us, self.happened
                self.queued += 1
        else:
            waiting.append(number)
            self.queued += 1
            # Who joins a line is tried at once, unless it is known what would come of it.
            if self.refused[line][1] != self.happened:
                self.refused[line] = now_us, self.happened

    def _fill(self, rows: list[int], now_us: int) -> None:
        """Those who may fit on these nodes now are tried in their turn, until nobody fits."""
        self.happened += 1
        board = self.board
        trying = [line for line in self.lines if any(board.fits(row, line) for row in rows)]
        while trying:
            chosen, best = -1, (_FAR, _FAR)
            for line in trying:
                head = self.lines[line][0]
                age = max(self.came_us[head], self.refused[line][0]), head
                if age < best:
                    chosen, best = line, age
            number = best[1]
            token = self._token(rows, chosen)
            if token == NOWHERE:
                self.refused[chosen] = now_us, self.happened
                trying.remove(chosen)
                continue
            self._placed(number, token, now_us)
            if not self.left[number]:
                self.lines[chosen].popleft()
                self.queued -= 1
                if not self.lines[chosen]:
                    del self.lines[chosen]
                    trying.remove(chosen)

    def _token(self, rows: list[int], line: int) -> int:
        """Nobody of a line that waits fits anywhere but on these nodes."""
        fitting = [row for row in rows if self.board.fits(row, line)]
        if not fitting:
            return NOWHERE
        if fitting[0] == fitting[-1]:
            return self.board.place_on(fitting[0], line, self.draw(30))
        return self.board.place(line, self.draw(30))

    def _placed(self, number: int, token: int, now_us: int) -> None:
        end_us = now_us + self.run_us[number]
        self.happened += 1
        self.left[number] -= 1
        if self.start[number] < 0:
            self.start[number] = now_us
            self.unstarted -= number < self.asked
        if not self.left[number]:
            self.finish[number] = end_us
        self._plan(end_us, _LEAVE, number, token)
