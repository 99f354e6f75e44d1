"""What will be free, and when, if every running job ends at its limit? What the backfill scheduler looks ahead at.

Running jobs stand in the order of their ends, with what each of their nodes is left with then. Sets of nodes differ
from job to job, these do not: nothing is copied for a set of nodes, and only what changed since the last look is worked
out anew. (_will_run_test in select/cons_common, 22.05.8.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from fairway.slurm.model.job import Job, NodeShare
from fairway.slurm.model.node import NodeConf
from fairway.slurm.placing.need import Need, Use
from fairway.slurm.placing.quick import Table
from fairway.slurm.placing.uses import Uses

Ints = NDArray[np.int64]

NOW, NEVER = -1, 1 << 60
"""Ranks: it fits already; it fits after no job's end."""
GROUP_JOBS = 200
"""Jobs ending one after another are taken together, at most so many and two more."""
FIRST_WINDOW_S = 30
MOST_SMALL = 1 << 16
"""Node numbers below it are sorted by their bytes, ten times as fast."""


Step = tuple[int, int]
"""A moment to try at: (rank, time), once the jobs up to that rank have ended."""


@dataclass(slots=True, init=False)
class _Known:
    """A job as it was when it was given its place; `sequence` grows in the order of starts."""

    end: int
    sequence: int
    suspended: bool
    shares: list[NodeShare]

    def __init__(
        self, end: int, sequence: int, suspended: bool, shares: list[NodeShare],
    ) -> None:  # fmt: skip
        self.end, self.sequence, self.suspended, self.shares = end, sequence, suspended, shares


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class Ahead:
    """Rank: a job's place in the order of ends, of equal ends in that of starts. Release: a job's share of one node.

    `ranks`, `nodes`, `before`, `kinds`: int64[release], in order of rank; the last two are the kinds of use a node has
    before and after it.
    """

    uses: Uses
    known: dict[int, _Known] = field(default_factory=dict)
    order: list[tuple[int, int, int]] = field(default_factory=list)
    """(end, sequence, job id) by rank; the same ends as an array: `ends`."""
    ends: Ints = field(default_factory=_none)
    sequence: int = 0
    ranks: Ints = field(default_factory=_none)
    nodes: Ints = field(default_factory=_none)
    before: Ints = field(default_factory=_none)
    kinds: Ints = field(default_factory=_none)
    left: list[Use] = field(default_factory=list)
    """By release: the node's use after it."""
    shares: list[tuple[NodeShare, bool]] = field(default_factory=list)
    """By release: what is given back, and whether without its cores (a suspended job's)."""
    first: dict[Need, Ints | None] = field(default_factory=dict)
    whole: dict[int, Uses] = field(default_factory=dict)
    """Rank → every node's use after it, where somebody had to look closely."""

    def follow(self, changed: Iterable[int], running: Mapping[int, Job], confs: Sequence[NodeConf]) -> None:
        """These jobs, in the order of their starts, came, went, or are different. O(releases)."""
        stale, gone, come = set[int](), list[int](), list[tuple[int, int, int]]()
        for job_id in changed:
            job, was = running.get(job_id), self.known.pop(job_id, None)
            sequence = -1
            if was is not None:
                gone.append(bisect_left(self.order, (was.end, was.sequence, job_id)))
                stale.update([share.node for share in was.shares])
                sequence = was.sequence if job is not None and was.shares is job.shares else -1
            if job is not None:
                self.sequence += 1
                sequence = self.sequence if sequence < 0 else sequence
                self.known[job_id] = _Known(job.end, sequence, job.state == "SUSPENDED", job.shares)
                come.append((job.end, sequence, job_id))
                stale.update([share.node for share in job.shares])
        if not stale:
            return
        if gone:
            self._remove(gone)
        if come:
            self._add(sorted(come))
        self._chain(sorted(stale), confs)
        self.first.clear()
        self.whole.clear()

    def _remove(self, ranks: list[int]) -> None:
        stays = np.ones(len(self.order), dtype=np.bool_)
        stays[ranks] = False
        kept = stays[self.ranks]
        self.ranks = (np.cumsum(stays) - 1)[self.ranks[kept]]
        self.nodes, self.before, self.kinds = self.nodes[kept], self.before[kept], self.kinds[kept]
        self.ends = self.ends[stays]
        self.order = list(compress(self.order, stays.tolist()))
        these = kept.tolist()
        self.left, self.shares = list(compress(self.left, these)), list(compress(self.shares, these))

    def _add(self, come: list[tuple[int, int, int]]) -> None:
        """`come`: as in `order`, ascending; they are known."""
        places = [bisect_right(self.order, one) for one in come]
        jobs = [self.known[job_id] for _, _, job_id in come]
        counts = [len(job.shares) for job in jobs]
        first = self.ranks.searchsorted(places)
        where, none = np.repeat(first, counts), np.zeros(sum(counts), dtype=np.int64)
        mine = np.repeat(np.array(places) + np.arange(len(come)), counts)
        self.ranks = np.insert(self.ranks + np.searchsorted(places, self.ranks, side="right"), where, mine)
        self.nodes = np.insert(self.nodes, where, [share.node for job in jobs for share in job.shares])
        self.before, self.kinds = np.insert(self.before, where, none), np.insert(self.kinds, where, none)
        self.ends = np.insert(self.ends, places, [end for end, _, _ in come])
        for at in range(len(come) - 1, -1, -1):
            place, low, job = places[at], int(first[at]), jobs[at]
            self.order[place:place] = [come[at]]
            self.left[low:low] = [(0, 0, ())] * counts[at]
            self.shares[low:low] = [(share, job.suspended) for share in job.shares]

    def _chain(self, nodes: list[int], confs: Sequence[NodeConf]) -> None:
        """Work out what these nodes are left with after each of their jobs."""
        numbering, exact = self.uses.numbering, self.uses.exact
        small = self.nodes.astype(np.uint16) if len(exact) <= MOST_SMALL else self.nodes
        by_node = np.argsort(small, kind="stable")
        ordered = small[by_node]
        lows, highs = ordered.searchsorted(nodes, side="left"), ordered.searchsorted(nodes, side="right")
        for node, low, high in zip(nodes, lows.tolist(), highs.tolist(), strict=True):
            use = exact[node]
            kind = numbering.kind(node, use)
            for at in by_node[low:high].tolist():
                share, suspended = self.shares[at]
                use = without_share(use, share, confs[node], keeps_cores=suspended)
                self.before[at] = kind
                self.kinds[at] = kind = numbering.kind(node, use)
                self.left[at] = use

    def kinds_after(self, rank: int) -> Ints:
        """Every node's kind of use once the jobs up to a rank have ended."""
        count = int(self.ranks.searchsorted(rank, side="right"))
        kinds = self.uses.kinds.astype(np.int64)
        kinds[self.nodes[:count]] = self.kinds[:count]  # of several values for a node the last one stays
        return kinds

    def uses_after(self, rank: int) -> Uses:
        """Every node's use then, to the core."""
        known = self.whole.get(rank)
        if known is not None:
            return known
        exact = list(self.uses.exact)
        for node, use in zip(
            self.nodes.tolist(),
            self.left[: int(np.searchsorted(self.ranks, rank, side="right"))],
            strict=False,
        ):
            exact[node] = use
        known = self.whole[rank] = Uses(self.uses.numbering, exact, self.kinds_after(rank).astype(np.int32))
        return known

    def first_fit(self, need: Need, table: Table) -> Ints | None:
        """For each node the first rank after which the need fits there (NOW, NEVER); None: some node fits, and after
        another job's end does not, so that no rank tells."""
        if need not in self.first:
            self.first[need] = self._first_fit(need, table)
        return self.first[need]

    def _first_fit(self, need: Need, table: Table) -> Ints | None:
        numbering = self.uses.numbering
        fits = table.look(need, numbering, self.kinds) > 0
        if len((~fits & (table.look(need, numbering, self.before) > 0)).nonzero()[0]):
            return None
        first = np.full(len(self.uses.exact), NEVER, dtype=np.int64)
        at = fits.nonzero()[0][::-1]
        first[self.nodes[at]] = self.ranks[at]  # from the last to the first, which stays
        first[table.look(need, numbering, self.uses.kinds) > 0] = NOW
        return first

    def steps_on(self, order: NDArray[np.intp], window_step: int) -> Iterator[Step]:
        """The moments to try at for a job that may have the nodes `order`."""
        inside = np.zeros(len(self.uses.exact), dtype=np.bool_)
        inside[order] = True
        ranks = self.ranks[inside[self.nodes]]
        if len(ranks) > 1:
            first = np.empty(len(ranks), dtype=np.bool_)
            first[0] = True
            np.not_equal(ranks[1:], ranks[:-1], out=first[1:])
            ranks = ranks[first]
        return grouped(ranks, self.ends[ranks], window_step)


def without_share(use: Use, share: NodeShare, conf: NodeConf, *, keeps_cores: bool) -> Use:
    """What is taken of a node once a job has given its share back."""
    cores, mem, gres = use
    kept = tuple(held & ~share.gres.get(one.name, 0) for held, one in zip(gres, conf.gres, strict=True))
    return cores & ~(0 if keeps_cores else share.cores), mem - share.mem, kept


def grouped(ranks: Ints, ends: Ints, window_step: int) -> Iterator[Step]:
    """Ends close to each other are one moment, the closer the sooner they are: the window widens each time."""
    count = len(ranks)
    if not count:
        return
    first, window, at = int(ends[0]), FIRST_WINDOW_S, 0
    edge = first + (30 - first % 30)
    while at < count:
        within = int(ends.searchsorted(edge + window, side="right"))
        last = min(max(within, at + 1), at + GROUP_JOBS + 2, count) - 1
        yield int(ranks[last]), int(ends[last])
        at = last + 1
        following = int(ends[at]) if at < count else 0
        while True:
            window = window + window_step if window_step else window * 2
            if not following or following <= edge + window:
                break
