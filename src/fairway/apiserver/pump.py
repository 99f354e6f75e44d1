"""What time is it in the cluster, and what happens by then? Wall time times a speed, in slices between requests.

The loop of the twin runs up to the virtual time that the wall clock says, a few milliseconds at a stretch, so
that requests stay answered. Asked to advance, it does so as fast as it can. Where the journal cannot keep up,
time waits: what is acknowledged must be on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from fairway.apiserver.journal import MAX_BACKLOG, Journal
from fairway.errors import UserError
from fairway.kube.timestamps import SECOND_US
from fairway.twin.twin import Twin

log = logging.getLogger("fairway.apiserver")

# Events handled between two looks at the wall clock, and how long a slice may last.
_EVENTS = 64
_SLICE_S = 0.005
# While events keep the loop busy, requests get this pause between two slices.
_BREATH_S = 0.0005
MAX_SPEED = 1_000_000.0
# How long to wait at most before looking whether something is due.
_LOOK_S = 0.5


class Pump:
    """The clock. `speed` is virtual seconds per wall second; paused, only `advance` moves it."""

    def __init__(self, twin: Twin, journal: Journal, *, speed: float, paused: bool = False) -> None:
        self._twin = twin
        self._journal = journal
        self.speed = speed
        self.paused = paused
        self._wall_s = time.monotonic()
        self._virtual_us = twin.now_us
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0
        self._holds = 0
        self._held: tuple[int, float] | None = None
        """Since when somebody waits: the cluster's time, and the wall's."""
        self._goals: list[tuple[int, Callable[[], bool] | None, asyncio.Future[bool]]] = []
        self.is_stopped = False
        self._said = ""
        """The last thing that should not have happened: it is told once."""

    @property
    def now_us(self) -> int:
        """Where the cluster stands."""
        return self._twin.now_us

    @property
    def target_us(self) -> int:
        """Where it should stand."""
        if self.paused:
            return self._virtual_us
        return self._virtual_us + int((time.monotonic() - self._wall_s) * self.speed * SECOND_US)

    @property
    def lag_us(self) -> int:
        return max(self.target_us - self.now_us, 0)

    # Commands

    def set(self, *, speed: float | None = None, paused: bool | None = None) -> None:
        """Change how time goes from here on.

        Raises: UserError.
        """
        if speed is not None and not 0 < speed <= MAX_SPEED:
            raise UserError(f"a speed is more than 0 and at most {MAX_SPEED:.0f}, not {speed}")
        self._rebase(self.target_us)
        self.speed = self.speed if speed is None else speed
        self.paused = self.paused if paused is None else paused
        self._journal.note("speed", repr(self.speed))
        self._journal.note("paused", "1" if self.paused else "")
        self.poke()

    async def advance(self, until_us: int, condition: Callable[[], bool] | None = None) -> bool:
        """Go to a time as fast as possible, or until a condition holds; true where it held."""
        if condition is not None and condition():
            return True
        goal: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._goals.append((until_us, condition, goal))
        self.poke()
        return await goal

    def hold(self) -> None:
        """Go no faster than the wall clock until `release`: the answer that is waited for comes in its time."""
        if self._held is None:
            self._held = self.now_us, time.monotonic()
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if not self._holds:
            self._held = None
        self.poke()

    def _bounded(self, target_us: int) -> int:
        if self._held is None:
            return target_us
        held_us, held_s = self._held
        return min(target_us, held_us + int((time.monotonic() - held_s) * SECOND_US))

    def _rebase(self, virtual_us: int) -> None:
        self._virtual_us = virtual_us
        self._wall_s = time.monotonic()

    # Running

    def touch(self) -> None:
        """Let the clock stand at now, unless something is due before: for a write from outside."""
        loop = self._twin.loop
        target_us = self._bounded(self.target_us)
        due_us = loop.next_slot()
        if target_us > loop.now_us and (due_us is None or due_us > target_us):
            loop.advance(target_us)

    def poke(self) -> None:
        """Something changed: look soon."""
        self._twin.wake()
        self._plan()

    def stop(self) -> None:
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for _, _, goal in self._goals:
            goal.cancel()

    def _plan(self) -> None:
        """Set the timer to when the next event is due on the wall clock."""
        if self.is_stopped:
            return
        loop = asyncio.get_running_loop()
        wait_s = self._wait_s()
        due_s = loop.time() + wait_s
        if self._timer is not None:
            if self._due_s <= due_s:
                return
            self._timer.cancel()
        self._due_s = due_s
        self._timer = loop.call_later(wait_s, self._run)

    def _wait_s(self) -> float:
        if self._goals:
            return _BREATH_S
        due_us = self._twin.loop.next_slot()
        if due_us is None or self.paused:
            due_now = due_us is not None and due_us <= self.target_us
            return _BREATH_S if due_now else _LOOK_S
        away_s = (due_us - self.target_us) / SECOND_US / self.speed
        return min(max(away_s, _BREATH_S), _LOOK_S)

    def _run(self) -> None:
        """One slice."""
        self._timer = None
        try:
            if self._journal.backlog < MAX_BACKLOG:
                self._slice()
        except Exception as failed:
            self._stumbled(failed)
        self._plan()

    def _stumbled(self, failed: Exception) -> None:
        """What components raise is contained before it gets here; whatever else it is, time goes on."""
        text = f"{type(failed).__name__}: {failed}"
        if text != self._said:
            self._said = text
            log.error("the clock stumbled at %d µs and goes on: %s", self.now_us, text, exc_info=failed)

    def _slice(self) -> None:
        loop = self._twin.loop
        self._twin.wake()
        until_s = time.monotonic() + _SLICE_S
        target_us = self._bounded(max(self.target_us, self._goals[0][0] if self._goals else 0))
        step = 1 if self._goals and self._goals[0][1] is not None else _EVENTS
        while True:
            handled = loop.run_some(target_us, step)
            if self._goals and self._reached(handled, target_us):
                return
            if handled == 0:
                break
            if time.monotonic() >= until_s:
                return
        due_us = loop.next_slot()
        if target_us > loop.now_us and (due_us is None or due_us > target_us):
            loop.advance(target_us)

    def _reached(self, handled: int, target_us: int) -> bool:
        """Whether the first goal is met; its waiter is told, and the clock goes on from here."""
        until_us, condition, goal = self._goals[0]
        held = condition is not None and condition()
        loop = self._twin.loop
        until_us = min(until_us, target_us)
        if not held and handled == 0 and until_us > loop.now_us:
            loop.advance(until_us)
            held = condition is not None and condition()
        if not (held or loop.now_us >= self._goals[0][0] or goal.cancelled()):
            return False
        self._goals.pop(0)
        self._rebase(loop.now_us if held else max(loop.now_us, self.target_us))
        if not goal.done():
            goal.set_result(held or condition is None)
        return True
