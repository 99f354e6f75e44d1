"""One future where work needs room on nodes, and quota where Kueue has queues: their choices, and nothing else.

For clusters in which kube-scheduler has nobody to preempt and there are no gangs. Left out is what such a future does
not depend on: objects, conditions, events, kubelets. Who waits for quota is known to `quotas`, which is asked whenever
something arrives, ends or gives quota back. Where no node had room for pods of a shape, only a
node that something left can have it now: so a departure asks about one node, and only those that wait.
Nodes are lost and come back, and pods die, as `losses` drew it: pods begin again, from their last checkpoint
where they save any. Where there is room, `boards` knows. Pods of a shape are a line; lines take turns as in
kube-scheduler's queue: whose head waits longest since it came, or since it was last tried in vain. Times are µs from
the future's beginning.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Final

from fairway.answers.forecasting.boards import NOWHERE, Board
from fairway.answers.forecasting.losses import NO_LUCK, Loss, Luck
from fairway.answers.forecasting.quotas import ADMITTED, Claim, Quotas
from fairway.answers.forecasting.situation import NEVER, Played
from fairway.cluster.records import PodRecord
from fairway.twin.progress import wall_us, work_after
from fairway.workloads.job.backoff import DEFAULT_BACKOFF_US, MAX_BACKOFF_US

# In this order at one time: pods leave; nodes are lost or come back; pods die; pods that were lost are made anew;
# objects arrive, or come back to their queue; pods were not there in time; the longest run time that was declared is
# over; Kueue tries again whom it had set aside.
_LEAVE: Final = 0
_LOSE, _REGAIN, _DIE, _AGAIN = 1, 2, 3, 4
_ARRIVE: Final = 5
_RETURN, _LATE, _OVER, _WAKE = 6, 7, 8, 9
_FAR: Final = 1 << 62
Saving = tuple[int, int, int]
"""What pods do for their checkpoints: µs between two, of one, and to go on from one."""
_Run = tuple[int, int, int, int, int]
"""A pod that runs: its token, the event at which it leaves, when it began, when it ends, and what it went on from."""


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
        self.saving: Saving | None = None
        self.saved: tuple[int, ...] = ()
        """What earlier runs left in checkpoints, ascending."""
        self.gpu_milli = 0
        """Of a pod."""
        self.failures_allowed = 6
        """Pods that may be lost before it gives up. Source: Job's backoffLimit."""


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
    luck: Luck = NO_LUCK,
    rows: Mapping[str, int] | None = None,
) -> Played:
    """One future. `entries`: those that run, and those that wait in the order of the queue. `run_us`: whole run
    times, the part that has passed included. It ends when all that waited have started and the grid is
    over, or at `until_us`. `coming` is asked for more as time goes by. `quotas`: of this future, where there are
    queues; `begin_us`: when it begins, since 1970. `luck`: what is lost, of nodes whose rows are in `rows`: then it
    ends when all that waited have ended, too."""
    future = _Future(board, list(entries), list(run_us), Random(seed), coming)
    future.quotas, future.begin_us = quotas, begin_us
    future.luck, future.rows = luck, rows or {}
    future.is_losing = luck.is_any
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
        self.luck = NO_LUCK
        self.is_losing = False
        self.rows: Mapping[str, int] = {}
        self.runs: dict[int, list[_Run]] = {}
        """The pods of an object that run, where it matters: of those in queues, and of all where something is lost."""
        self.saved: dict[int, list[int]] = {}
        """What is saved and not gone on from, ascending."""
        self.away: dict[int, int] = {}
        """Pods that were lost and are not yet made anew."""
        self.lives: dict[int, int] = {}
        """How often it was evicted: what was planned before then is void."""
        self.failures: dict[int, int] = {}
        self.turns: dict[int, int] = {}
        self.unready_us: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.held: dict[int, tuple[int, int]] = {}
        """Who holds quota: since when, and the event that says which time it is."""
        self.order_us: dict[int, int] = {}
        """When it counts as queued, where that is not when it came."""
        self.past_us: dict[int, int] = {}
        self.late: dict[int, int] = {}
        self.lines: dict[int, deque[int]] = {}
        """Who waits, by line, for lines in which somebody does."""
        self.came: dict[int, tuple[int, int]] = {}
        """When pods of who waits began to, and how many had by then."""
        self.comings = 0
        self.refused: dict[int, tuple[int, int]] = {}
        """When the head of a line was last tried in vain, and how much had happened by then."""
        self.happened = 0
        self.unstarted = self.unfinished = self.queued = 0
        # (time, what, entry, sequence, the pod that leaves); arrivals are known in their order, and stand apart.
        self.heap: list[tuple[int, int, int, int, int]] = []
        self.sequence = 0
        self.arriving: list[tuple[int, Entry, int]] = []
        """Who comes, the next one last: when, who, and its run time."""
        self.known_us = 0
        """Until when arrivals are known."""

    def run(self, until_us: int, grid_us: list[int]) -> Played:
        self._begin()
        heap, marks, mark = self.heap, [*grid_us, until_us + 1], 0
        queued: list[int] = []
        held: list[int] = []
        while True:
            now_us = self._next_us(until_us)
            if now_us > until_us:
                break
            while marks[mark] <= now_us:
                queued.append(self.queued)
                held.append(self.board.held())
                mark += 1
            if not self.unstarted and not self.unfinished and mark >= len(grid_us):
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
            while heap and heap[0][0] == now_us and heap[0][1] < _ARRIVE:
                self._happen(now_us)
            while self.arriving and self.arriving[-1][0] <= now_us:
                self._arrive(now_us)
            while heap and heap[0][0] == now_us:
                self._happen(now_us)
            # Kueue looks when all that happens at one time has happened.
            self._decide(now_us)
        while mark < len(grid_us):
            queued.append(self.queued)
            held.append(self.board.held())
            mark += 1
        return Played(self.start[: self.asked], self.finish[: self.asked], queued, held, self.evictions)

    def _next_us(self, until_us: int) -> int:
        """When something happens next; later than `until_us`: nothing does."""
        while True:
            at_us = self.heap[0][0] if self.heap else _FAR
            if self.arriving:
                # At the very beginning nobody arrives.
                at_us = min(at_us, max(self.arriving[-1][0], 1))
            if at_us < self.known_us or self.known_us > until_us:
                return at_us
            # Who comes next.
            block = None if self.coming is None else next(self.coming, None)
            if block is None:
                self.known_us = until_us + 1
            else:
                self.known_us = block[0]
                self.arriving = [*reversed(block[1]), *self.arriving]

    def _arrive(self, now_us: int) -> None:
        _, entry, run_us = self.arriving.pop()
        number = len(self.entries)
        self.entries.append(entry)
        self.run_us.append(run_us)
        self.left.append(entry.pods)
        if entry.claim is None or self.quotas is None:
            self._place(number, now_us)
            return
        self.queued += 1
        self.quotas.wait(number, entry.claim, entry.order_us or self.begin_us + now_us)

    def _begin(self) -> None:
        waiting = []
        for number, entry in enumerate(self.entries):
            if entry.saved:
                self.saved[number] = list(entry.saved)
        for number, entry in enumerate(self.entries):
            if entry.records:
                self.start[number] = 0
                left_us = max(self._takes_us(entry, self.run_us[number]) - entry.elapsed_us, 1)
                if not self.left[number]:
                    self.finish[number] = left_us
                for record in entry.records:
                    self._occupy(number, self.board.seat(record), -entry.elapsed_us, left_us, 0, 0)
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
        self.unfinished = self.unstarted if self.is_losing else 0
        for number, loss in enumerate(self.luck.losses):
            if loss.at_us:
                self._plan(loss.at_us, _LOSE, number, NOWHERE)
            else:
                self._turn(loss, is_lost=True, now_us=0)
            if loss.back_us is not None:
                self._plan(max(loss.back_us, 1), _REGAIN, number, NOWHERE)
        for number in waiting:
            self._place(number, 0)
        self._decide(0)

    def _happen(self, now_us: int) -> None:
        """The next of what is planned."""
        _, what, number, _, token = heappop(self.heap)
        if what == _WAKE:
            assert self.quotas is not None
            self.is_waking = False
            self.quotas.wake()
            return
        if what in (_LOSE, _REGAIN):
            self._turn(self.luck.losses[number], is_lost=what == _LOSE, now_us=now_us)
            return
        entry = self.entries[number]
        if what == _DIE:
            self._die(number, token, now_us)
        elif what == _AGAIN:
            self._make_anew(number, token, now_us)
        elif what == _RETURN:
            assert entry.claim is not None and self.quotas is not None
            order_us = self.order_us.get(number, entry.order_us or self.begin_us + now_us)
            self.quotas.wait(number, entry.claim, order_us)
        else:
            held = self.held.get(number)
            if held is None or held[1] != token or (what == _LATE and not self._is_late(number, now_us)):
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
                self._hold(number, now_us)
                self._place(number, now_us)
            else:
                self.evictions += 1
                self._stop(number, now_us)
        if self.quotas.stirred and not self.is_waking:
            self.is_waking = True
            self._plan(now_us + self.quotas.settings.wake_batch_us, _WAKE, -1, NOWHERE)

    def _stop(self, number: int, now_us: int) -> None:
        """Its pods go; should it run again, it begins anew, or from what it saved."""
        entry = self.entries[number]
        since_us, _ = self.held.pop(number)
        self.past_us[number] = self.past_us.get(number, entry.past_us) + now_us - since_us
        self._clear(number, now_us)
        self.left[number] = entry.pods
        self.queued += 1
        # Who is given quota and loses it at one moment has not started: nothing of it ever ran.
        if number < self.asked and self.start[number] == now_us and not entry.records:
            self.start[number] = NEVER
            self.unstarted += 1

    def _clear(self, number: int, now_us: int) -> None:
        """All its pods go: those that run, those that wait for a node, and those that were still to be made."""
        entry = self.entries[number]
        rows = []
        for run in self.runs.pop(number, []):
            self.cancelled.add(run[1])
            self._save(number, run, now_us)
            rows.append(self.board.leave(run[0], entry.line))
        waiting = self.lines.get(entry.line)
        if self.left[number] and waiting is not None and number in waiting:
            waiting.remove(number)
            self.queued -= 1
            if not waiting:
                del self.lines[entry.line]
        self.away.pop(number, None)
        self.unready_us.pop(number, None)
        self.lives[number] = self.lives.get(number, 0) + 1
        if number < self.asked:
            self.finish[number] = NEVER
        if rows:
            self._fill(rows, now_us)

    def _is_late(self, number: int, now_us: int) -> bool:
        """Whether pods are missing, and have been for as long as they may be since one was lost."""
        assert self.quotas is not None and self.quotas.settings.pods_ready is not None
        if not self.left[number] and not self.away.get(number):
            return False
        since_us = self.unready_us.get(number)
        recovery_us = self.quotas.settings.pods_ready.recovery_us
        return since_us is None or (recovery_us is not None and now_us - since_us >= recovery_us)

    def _turn(self, loss: Loss, *, is_lost: bool, now_us: int) -> None:
        """A node is lost with all that runs on it, or there again."""
        row = self.rows[loss.node]
        self.board.turn(row)
        if not is_lost:
            self._fill([row], now_us)
            return
        lost = [(number, run) for number, runs in self.runs.items() for run in runs if run[0] == row]
        for number, run in lost:
            # An object that gave up on the way has lost all its pods already.
            if run in self.runs.get(number, ()):
                self._lose(number, run, now_us, loss.failed_us, waits=loss.is_gone)

    def _die(self, number: int, sequence: int, now_us: int) -> None:
        """A pod dies by itself; `sequence`: the event at which it would have left."""
        run = next((run for run in self.runs.get(number, ()) if run[1] == sequence), None)
        if run is not None:
            self._fill([self._lose(number, run, now_us, now_us, waits=True)], now_us)

    def _lose(self, number: int, run: _Run, now_us: int, failed_us: int, *, waits: bool) -> int:
        """A pod is lost; its object makes another one, unless it lost too many. The row it was on. `waits`: for the
        Job's back-off, which otherwise passes before anybody notices."""
        entry = self.entries[number]
        self.runs[number].remove(run)
        self.cancelled.add(run[1])
        self._save(number, run, now_us)
        row = self.board.leave(run[0], entry.line)
        count = self.failures[number] = self.failures.get(number, 0) + 1
        if number < self.asked:
            self.finish[number] = NEVER
        if count > entry.failures_allowed:
            self._give_up(number, now_us)
            return row
        self.away[number] = self.away.get(number, 0) + 1
        back_off_us = min(DEFAULT_BACKOFF_US << min(count - 1, 10), MAX_BACKOFF_US) if waits else 0
        self._plan(failed_us + back_off_us, _AGAIN, number, self.lives.get(number, 0))
        held = self.held.get(number)
        if held is not None and self.quotas is not None and self.quotas.settings.pods_ready is not None:
            recovery_us = self.quotas.settings.pods_ready.recovery_us
            self.unready_us.setdefault(number, now_us)
            if recovery_us is not None:
                self._plan(now_us + recovery_us, _LATE, number, held[1])
        return row

    def _give_up(self, number: int, now_us: int) -> None:
        """It failed: nothing of it runs again."""
        self._clear(number, now_us)
        self.left[number] = 0
        self.unfinished -= number < self.asked and not self.entries[number].records
        if self.entries[number].claim is not None and self.quotas is not None:
            del self.held[number]
            self.quotas.release(number)

    def _make_anew(self, number: int, life: int, now_us: int) -> None:
        if life != self.lives.get(number, 0):
            return
        self.away[number] -= 1
        was_waiting = self.left[number] > 0
        self.left[number] += 1
        if not was_waiting:
            self._place(number, now_us)

    def _save(self, number: int, run: _Run, now_us: int) -> None:
        """What a run that was cut short leaves for the next one."""
        saving = self.entries[number].saving
        if saving is None:
            return
        interval_us, save_us, restore_us = saving
        began_us, resumed_us = run[2], run[4]
        worked_us = now_us - began_us - (restore_us if resumed_us else 0)
        saved_us = resumed_us + work_after(worked_us, interval_us, save_us).saved_us
        if saved_us:
            insort(self.saved.setdefault(number, []), saved_us)

    def _takes_us(self, entry: Entry, work_us: int) -> int:
        return work_us if entry.saving is None else wall_us(work_us, entry.saving[0], entry.saving[1])

    def _left(self, number: int, token: int, sequence: int) -> int:
        """A pod is done; with the last one its object is. The row it was on."""
        entry = self.entries[number]
        row = self.board.leave(token, entry.line)
        mine = self.runs.get(number) if self.runs else None
        if mine is not None:
            mine.remove(next(run for run in mine if run[1] == sequence))
            if not mine and not self.left[number] and not self.away.get(number):
                del self.runs[number]
                if self.is_losing and number < self.asked and not entry.records:
                    self.unfinished -= 1
                if entry.claim is not None and self.quotas is not None:
                    del self.held[number]
                    self.quotas.release(number)
        return row

    def _occupy(
        self, number: int, token: int, began_us: int, end_us: int, resumed_us: int, now_us: int
    ) -> None:
        self._plan(end_us, _LEAVE, number, token)
        if self.entries[number].claim is None and not self.is_losing:
            return
        sequence = self.sequence
        self.runs.setdefault(number, []).append((token, sequence, began_us, end_us, resumed_us))
        if self.luck.rates:
            turn = self.turns.get(number, 0)
            self.turns[number] = turn + 1
            after_us = self.luck.dies_after_us(number, turn, self.entries[number].gpu_milli)
            if after_us is not None and now_us + after_us < end_us:
                self._plan(now_us + after_us, _DIE, number, sequence)

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
            if not self.left[number]:
                return
            self.lines[line] = deque((number,))
            self.refused[line] = now_us, self.happened
        else:
            waiting.append(number)
            # Who joins a line is tried at once, unless it is known what would come of it.
            if self.refused[line][1] != self.happened:
                self.refused[line] = now_us, self.happened
        self.queued += 1
        self.comings += 1
        self.came[number] = now_us, self.comings

    def _fill(self, rows: list[int], now_us: int) -> None:
        """Those who may fit on these nodes now are tried in their turn, until nobody fits."""
        self.happened += 1
        board = self.board
        trying: list[int] = []
        for line in self.lines:
            for row in rows:
                if board.fits(row, line):
                    trying.append(line)
                    break
        while trying:
            chosen, best, number = -1, (_FAR, _FAR), -1
            for line in trying:
                head = self.lines[line][0]
                came_us, turn = self.came[head]
                age = max(came_us, self.refused[line][0]), turn
                if age < best:
                    chosen, best, number = line, age, head
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
        work_us, resumed_us, entry = self.run_us[number], 0, self.entries[number]
        end_us = now_us + work_us
        if entry.saving is not None:
            saved = self.saved.get(number)
            if saved:
                resumed_us = min(saved.pop(), work_us)
                end_us = now_us + entry.saving[2]
            else:
                end_us = now_us
            end_us += self._takes_us(entry, work_us - resumed_us)
        self.happened += 1
        self.left[number] -= 1
        is_whole = not self.left[number] and not self.away.get(number)
        if is_whole:
            self.unready_us.pop(number, None)
        if number < self.asked:
            if self.start[number] < 0:
                self.start[number] = now_us
                self.unstarted -= 1
            if is_whole:
                others_us = [run[3] for run in self.runs.get(number, ())]
                self.finish[number] = max(end_us, max(others_us, default=0))
        self._occupy(number, token, now_us, max(end_us, now_us + 1), resumed_us, now_us)
