"""How many jobs did the schedulers look at in each of their cycles? What sdiag tells (slurmctld_diag_stats, 22.05.8).

Cycles take no virtual time: only counts are kept, since midnight (UTC) or the last reset.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86400


@dataclass(slots=True)
class CycleCounts:
    """Sums over cycles, and `last_…` of the latest: jobs looked at (`depth`), tried on nodes (`tried`), waiting
    (`queue`), and spaces of time planned in (`table`). `pass_…` is the main scheduler's."""

    day: int = 0
    passes: int = 0
    pass_depth: int = 0
    last_pass_queue: int = 0
    cycles: int = 0
    depth: int = 0
    tried: int = 0
    queue: int = 0
    table: int = 0
    last_depth: int = 0
    last_tried: int = 0
    last_queue: int = 0
    last_table: int = 0
    last_cycle: int = 0

    def reset(self) -> None:
        """What reset_stats sets back: not the last pass's queue, the last table and when the last cycle was."""
        self.passes = self.pass_depth = self.cycles = self.depth = self.tried = self.queue = self.table = 0
        self.last_depth = self.last_tried = self.last_queue = 0

    def begin(self, now: int) -> None:
        """It is this time: counts of an earlier day are over."""
        if now // DAY_S != self.day:
            self.reset()
            self.day = now // DAY_S

    def count_pass(self, now: int, depth: int, queue: int) -> None:
        self.begin(now)
        self.passes += 1
        self.pass_depth += depth
        self.last_pass_queue = queue

    def count_cycle(self, now: int, depth: int, tried: int, queue: int, table: int) -> None:
        """A cycle with nothing in its queue is none."""
        self.begin(now)
        if not queue:
            return
        self.cycles += 1
        self.depth, self.tried = self.depth + depth, self.tried + tried
        self.queue, self.table = self.queue + queue, self.table + table
        self.last_depth, self.last_tried, self.last_queue, self.last_table = depth, tried, queue, table
        self.last_cycle = now

    def mean(self, total: int) -> int:
        """Of a backfill cycle."""
        return total // self.cycles if self.cycles else 0
