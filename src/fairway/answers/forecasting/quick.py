"""One future where work needs room on nodes, and quota where Kueue has queues: their choices, and nothing else.

For clusters in which kube-scheduler has nobody to preempt and there are no gangs. Left out is what such a future does
not depend on: objects, conditions, events, kubelets. Who waits for quota is known to `quotas`, which is asked whenever
something arrives, ends or gives quota back. Where no node had room for pods of a shape, only a
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
from fairway.answers.forecasting.quotas import ADMITTED, Claim, Quotas
from fairway.answers.forecasting.situation import NEVER, Played
from fairway.cluster.records import PodRecord

# In this order at one time: pods leave; objects arrive, or come back to their queue; pods were not there in time; the
# longest run time that was declared is over; Kueue tries again whom it had set aside.
_LEAVE, _ARRIVE, _RETURN, _LATE, _OVER, _WAKE = range(6)
_FAR: Final = 1 << 62


class Entry:
    """One object: pods of a line of the board. `records`: those of them that run, since so long. `claim`: what it asks
    of a queue; None: nothing."""

    def __init__(
        self,
        line: int,
        pods: int,
        records: Sequence[PodRecord] = (),
        elapsed_us: int = 0,
        claim: Claim | None = None,
    ) -> None:
        self.line, self.pods, self.records, self.elapsed_us = line, pods, tuple(records), elapsed_us
        self.claim = claim
        self.order_us = 0
        """When it counts as queued; µs since 1970, as the other times here."""
        self.reserved_us = -1
        """Since when it holds quota; -1: it does not."""
        self.returns_us = 0
        """Not before then: it was evicted because pods were late."""
        self.late = 0
        """How often it was."""
        self.limit_us = 0
        """How long it may hold quota in all; 0: for ever."""
        self.past_us = 0
        """How long it did before."""


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
    quotas: Quotas | None = None,
    begin_us: int = 0,
) -> Played:
    """One future. `entries`: those that run, and those that wait in the order of the queue. `run_us`: whole run
    times, the part that has passed included. It ends when all that waited have started and the grid is
    over, or at `until_us`. `coming` is asked for more as time goes by. `quotas`: of this future, where there are
    queues; `begin_us`: when it begins, since 1970."""
    future = _Future(board, list(entries), list(run_us), Random(seed), coming)
    future.quotas, future.begin_us = quotas, begin_us
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
        self.quotas: Quotas | None = None
        self.begin_us = 0
        self.evictions = 0
        self.is_waking = False
        self.board, self.entries, self.run_us = board, entries, run_us
        self.draw = random.getrandbits
        self.coming = coming
        self.asked = len(entries)
        self.start = [NEVER] * len(entries)
        self.finish = [NEVER] * len(entries)
        self.left = [entry.pods - len(entry.records) for entry in entries]
        self.tokens: dict[int, list[tuple[int, int]]] = {}
        """The pods of an object that run, and the events at which they leave; of those in queues."""
        self.cancelled: set[int] = set()
        self.held: dict[int, tuple[int, int]] = {}
        """Who holds quota: since when, and the event that says which time it is."""
        self.order_us: dict[int, int] = {}
        """When it counts as queued, where that is not when it came."""
        self.past_us: dict[int, int] = {}
        self.late: dict[int, int] = {}
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
                _, _, number, sequence, token = heappop(heap)
                if sequence in self.cancelled:
                    self.cancelled.discard(sequence)
                else:
                    rows.append(self._left(number, token, sequence))
            if rows:
                self._fill(rows, now_us)
            while heap and heap[0][0] == now_us and heap[0][1] != _LEAVE:
                _, what, number, _, token = heappop(heap)
                self._happen(what, number, token, now_us)
            # Kueue looks when all that happens at one time has happened.
            self._decide(now_us)
        while mark < len(grid_us):
            queued.append(self.queued)
            held.append(self.board.held())
            mark += 1
        return Played(self.start[: self.asked], self.finish[: self.asked], queued, held, self.evictions)

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
                    self._occupy(number, self.board.seat(record), left_us)
            if entry.claim is None or self.quotas is None:
                if self.left[number]:
                    waiting.append(number)
                continue
            if entry.reserved_us < 0:
                self._queue(number, max(entry.returns_us - self.begin_us, 0))
                continue
            self.quotas.hold(number, entry.claim, entry.order_us, entry.reserved_us)
            self._hold(number, entry.reserved_us - self.begin_us)
            if self.left[number]:
                waiting.append(number)
        self.unstarted = sum(start < 0 for start in self.start)
        for number in waiting:
            self._place(number, 0)
        self._decide(0)

    def _happen(self, what: int, number: int, token: int, now_us: int) -> None:
        if what == _WAKE:
            assert self.quotas is not None
            self.is_waking = False
            self.quotas.wake()
            return
        entry = self.entries[number]
        if what in (_ARRIVE, _RETURN):
            if entry.claim is None or self.quotas is None:
                self._place(number, now_us)
                return
            if what == _ARRIVE:
                self.queued += 1
            else:
                self.came_us[number] = now_us
            order_us = self.order_us.get(number, entry.order_us or self.begin_us + now_us)
            self.quotas.wait(number, entry.claim, order_us)
        else:
            held = self.held.get(number)
            if held is None or held[1] != token or (what == _LATE and not self.left[number]):
                return
            assert self.quotas is not None
            self.quotas.release(number)
            self._stop(number, now_us)
            if what == _LATE:
                self._return_later(number, now_us)
            else:
                self.queued -= 1

    def _return_later(self, number: int, now_us: int) -> None:
        """Its pods were not there in time: it waits longer each time, and then behind others."""
        assert self.quotas is not None and self.quotas.settings.pods_ready is not None
        settings = self.quotas.settings.pods_ready
        count = self.late.get(number, self.entries[number].late)
        self.late[number] = count + 1
        if settings.backoff_limit is not None and count >= settings.backoff_limit:
            return
        if settings.requeues_by_eviction_time:
            self.order_us[number] = self.begin_us + now_us
        wait_us = min(settings.backoff_base_us << min(count, 40), settings.backoff_max_us)
        self._plan(now_us + wait_us, _RETURN, number, NOWHERE)

    def _queue(self, number: int, at_us: int) -> None:
        """It waits for quota, from that time on."""
        entry = self.entries[number]
        self.queued += 1
        if at_us > 0:
            self._plan(at_us, _RETURN, number, NOWHERE)
        elif entry.claim is not None and self.quotas is not None:
            self.quotas.wait(number, entry.claim, entry.order_us)

    def _hold(self, number: int, since_us: int) -> None:
        """It holds quota: until its pods are late, or its longest run time is over."""
        assert self.quotas is not None
        entry, ready = self.entries[number], self.quotas.settings.pods_ready
        self.sequence += 1
        token = self.sequence
        self.held[number] = since_us, token
        if ready is not None and self.left[number]:
            self._plan(max(since_us + ready.timeout_us, 1), _LATE, number, token)
        if entry.limit_us:
            left_us = entry.limit_us - self.past_us.get(number, entry.past_us)
            self._plan(max(since_us + left_us, 1), _OVER, number, token)

    def _decide(self, now_us: int) -> None:
        """Who is given quota now, and who loses it."""
        if self.quotas is None:
            return
        for what, number in self.quotas.decide(self.begin_us + now_us):
            if what == ADMITTED:
                self.queued -= 1
                self.came_us[number] = now_us
                self._hold(number, now_us)
                self._place(number, now_us)
            else:
                self.evictions += 1
                self._stop(number, now_us)
        if self.quotas.stirred and not self.is_waking:
            self.is_waking = True
            self._plan(now_us + self.quotas.settings.wake_batch_us, _WAKE, -1, NOWHERE)

    def _stop(self, number: int, now_us: int) -> None:
        """Its pods go; should it run again, it begins anew."""
        entry = self.entries[number]
        since_us, _ = self.held.pop(number)
        self.past_us[number] = self.past_us.get(number, entry.past_us) + now_us - since_us
        rows = []
        for token, sequence in self.tokens.pop(number, []):
            self.cancelled.add(sequence)
            rows.append(self.board.leave(token, entry.line))
        waiting = self.lines.get(entry.line)
        if self.left[number] and waiting is not None and number in waiting:
            waiting.remove(number)
            self.queued -= 1
            if not waiting:
                del self.lines[entry.line]
        self.left[number] = entry.pods
        self.finish[number] = NEVER
        self.queued += 1
        # Who is given quota and loses it at one moment has not started: nothing of it ever ran.
        if self.start[number] == now_us and not entry.records:
            self.start[number] = NEVER
            self.unstarted += number < self.asked
        if rows:
            self._fill(rows, now_us)

    def _left(self, number: int, token: int, sequence: int) -> int:
        """A pod is done; with the last one its object is. The row it was on."""
        entry = self.entries[number]
        row = self.board.leave(token, entry.line)
        if entry.claim is not None and self.quotas is not None:
            mine = self.tokens[number]
            mine.remove((token, sequence))
            if not mine and not self.left[number]:
                del self.held[number]
                self.quotas.release(number)
        return row

    def _occupy(self, number: int, token: int, end_us: int) -> None:
        self._plan(end_us, _LEAVE, number, token)
        if self.entries[number].claim is not None:
            self.tokens.setdefault(number, []).append((token, self.sequence))

    def _plan(self, at_us: int, what: int, number: int, token: int) -> None:
        self.sequence += 1
        heappush(self.heap, (at_us, what, number, self.sequence, token))

    def _place(self, number: int, now_us: int) -> None:
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
        self._occupy(number, token, end_us)
