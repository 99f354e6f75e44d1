"""Queues over time: quota used, borrowed and lent, what waits, shares and fairness.

The whole run is one grid of moments at which anything about queues changed; what is not a sum (borrowed, lent, a
share) is worked out at every one of them, and rows are time-weighted means over stretches of the grid: exact up to
`POINTS` stretches, and means of exact values beyond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fairway.queueing.facts.amounts import MAX_INT64
from fairway.queueing.facts.objects import ClusterQueue, Cohort, FlavorResource
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.quota.quotatree import QuotaNode
from fairway.recorder.queueledger import CHARGE, END, ROW, SPELL_WIDTH, START, WAIT_WIDTH, QueueLedger
from fairway.recorder.queuelending import lent_in
from fairway.recorder.queuetables import FairnessRow, QueueRow, QuotaRow
from fairway.recorder.steps import FAR, Floats, Ints, Steps, spans, steps_of
from fairway.recorder.table import Table
from fairway.recorder.workloads import NEVER

# Stretches at most: lines on a screen are narrower, and every queue has a row for each.
POINTS = 256
# Numbers in one array of moments × quotas: about 32 MB.
_CELLS = 4_000_000

_NOTHING = Steps(np.zeros(0, np.int64), np.zeros(0, np.int64))


class _Counts(NamedTuple):
    """Of one ClusterQueue."""

    pending: Steps
    gangs: Steps
    gpu: Steps
    reserving: Steps


class QueueSeries(NamedTuple):
    quotas: Table[QuotaRow]
    queues: Table[QueueRow]
    fairness: Table[FairnessRow]


def queue_series(ledger: QueueLedger, until: int, began_us: int) -> QueueSeries:
    """O(changes × (quotas in a tree)), on arrays."""
    used, counts = _usage(ledger), _counts(ledger)
    series = [*used.values(), *(s for c in counts.values() for s in c)]
    epochs = list(_epochs(ledger, until))
    edges = np.array([start for start, _, _ in epochs], np.int64)
    bounds = _bounds(series, edges, until)
    into = _Rows(began_us)
    for start, end, accounts in epochs:
        inside = bounds[(bounds >= start) & (bounds <= end)]
        if len(inside) > 1:
            for root in _roots(accounts):
                _describe(_Tree(root, accounts, used, counts), inside, into)
    return into.tables()


def _bounds(series: Sequence[Steps], edges: Ints, until: int) -> Ints:
    """Where rows begin and end: every change, or an even grid; and in any case where the configuration changed."""
    moments = np.unique(np.concatenate([edges, *(s.times for s in series)]))
    moments = moments[(moments > 0) & (moments < until)]
    if len(moments) >= POINTS:
        grid = np.arange(1, POINTS, dtype=np.int64) * until // POINTS
        moments = np.unique(np.concatenate([grid, edges[(edges > 0) & (edges < until)]]))
    return np.concatenate([[0], moments, [until]]).astype(np.int64)


# What was noted, as steps


def _usage(ledger: QueueLedger) -> dict[tuple[str, FlavorResource], Steps]:
    """Quota in use, by ClusterQueue and quota."""
    spells = np.array(ledger.spells, np.int64).reshape(-1, SPELL_WIDTH)
    starts, ends = spells[:, START], np.where(spells[:, END] == NEVER, FAR, spells[:, END])
    order = np.argsort(spells[:, CHARGE], kind="stable")
    firsts = np.searchsorted(spells[order, CHARGE], np.arange(len(ledger.charges) + 1))
    changes: dict[tuple[str, FlavorResource], list[tuple[Ints, Ints]]] = {}
    for index, charge in enumerate(ledger.charges):
        rows = order[firsts[index] : firsts[index + 1]]
        for fr, amount in charge.usage:
            amounts = np.full(len(rows), min(amount, MAX_INT64), np.int64)
            found = changes.setdefault((charge.cluster_queue, fr), [])
            found.extend(spans(starts[rows], ends[rows], amounts))
    return {key: steps_of(found) for key, found in changes.items()}


def _counts(ledger: QueueLedger) -> dict[str, _Counts]:
    """What waits for, and what holds quota of every ClusterQueue."""
    waits = np.array(ledger.waits, np.int64).reshape(-1, WAIT_WIDTH)
    spells = np.array(ledger.spells, np.int64).reshape(-1, SPELL_WIDTH)
    names = sorted({*ledger.local_queues.values(), *(c.cluster_queue for c in ledger.charges)})
    index = {name: i for i, name in enumerate(names)}
    of_row = np.array([index.get(ledger.cluster_queue_of(r), -1) for r in range(len(ledger.names))], np.int64)
    gang = np.array([sort.pods > 1 for sort in ledger.sorts], np.int64)
    gpu = np.array([sort.gpu_milli for sort in ledger.sorts], np.int64)
    of_charge = np.array([index[c.cluster_queue] for c in ledger.charges], np.int64)
    found = {}
    for name, i in index.items():
        w = waits[of_row[waits[:, ROW]] == i] if len(waits) else waits
        s = spells[of_charge[spells[:, CHARGE]] == i] if len(spells) else spells
        starts, ends = w[:, START], np.where(w[:, END] == NEVER, FAR, w[:, END])
        held = spans(s[:, START], np.where(s[:, END] == NEVER, FAR, s[:, END]), np.ones(len(s), np.int64))
        one = np.ones(len(w), np.int64)
        found[name] = _Counts(
            pending=steps_of(spans(starts, ends, one)),
            gangs=steps_of(spans(starts, ends, gang[w[:, ROW]] if len(w) else one)),
            gpu=steps_of(spans(starts, ends, gpu[w[:, ROW]] if len(w) else one)),
            reserving=steps_of(held),
        )
    return found


# The configuration


def _epochs(ledger: QueueLedger, until: int) -> Iterator[tuple[int, int, Accounts]]:
    """Stretches in which ClusterQueues and Cohorts said the same, and the tree they made."""
    specs: dict[str, ClusterQueue | Cohort] = {}
    changes = ledger.configuration
    at = 0
    while at < len(changes):
        start = changes[at][0]
        while at < len(changes) and changes[at][0] == start:
            _, name, said = changes[at]
            if said is None:
                specs.pop(name, None)
            else:
                specs[name] = said
            at += 1
        end = changes[at][0] if at < len(changes) else until
        if end > max(start, 0):
            yield max(start, 0), min(end, until), _tree_of(specs)


def _tree_of(specs: Mapping[str, ClusterQueue | Cohort]) -> Accounts:
    accounts = Accounts()
    for name in sorted(specs):
        said = specs[name]
        if isinstance(said, Cohort):
            accounts.set_cohort(said)
        else:
            accounts.set_cluster_queue(said)
    accounts.settle()
    return accounts


def _roots(accounts: Accounts) -> list[QuotaNode]:
    nodes: dict[int, QuotaNode] = {}
    for queue in accounts.queues.values():
        root = queue.root()
        nodes[id(root)] = root
    return sorted(nodes.values(), key=lambda n: (n.is_queue, n.name))


def cohort_path(node: QuotaNode) -> str:
    """`company/research`: from the root to the cohort the queue is in."""
    return "/".join(reversed([a.name for a in node.ancestors()]))


# One tree


class _Tree:
    """A tree of cohorts in one epoch, and what happened to its ClusterQueues."""

    def __init__(
        self,
        root: QuotaNode,
        accounts: Accounts,
        used: Mapping[tuple[str, FlavorResource], Steps],
        counts: Mapping[str, _Counts],
    ) -> None:
        self.root = root
        members = [root] if root.is_queue else sorted(root.subtree_queues(), key=lambda q: q.name)
        self.queues: list[QueueAccount] = [accounts.queues[q.name] for q in members]
        self.counts = [
            counts.get(q.name, _Counts(_NOTHING, _NOTHING, _NOTHING, _NOTHING)) for q in self.queues
        ]
        quotas = dict.fromkeys(fr for q in self.queues for fr in q.spec.quotas)
        quotas.update(dict.fromkeys(fr for name, fr in used if name in {q.name for q in self.queues}))
        self.frs = sorted(quotas)
        self.used = {(q.name, fr): used.get((q.name, fr), _NOTHING) for q in self.queues for fr in self.frs}
        self.totals = _all_quota(root, self.queues)
        self.entitlements = _entitlements(self.queues, self.totals)

    def moments(self, start: int, end: int) -> Ints:
        """When anything about it changes within `(start, end)`."""
        found = [s.times for s in self.used.values()]
        found += [c.pending.times for c in self.counts]
        times = np.unique(np.concatenate(found))
        return times[(times > start) & (times < end)]


def _all_quota(root: QuotaNode, queues: Sequence[QuotaNode]) -> dict[str, float]:
    """Nominal quota of a whole tree, cohorts' own included, by resource."""
    total: dict[str, float] = {}
    nodes: list[QuotaNode] = list(queues)
    waiting = [] if root.is_queue else [root]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting.extend(node.cohorts)
    for node in nodes:
        for fr, quota in node.quotas.items():
            total[fr.resource] = total.get(fr.resource, 0.0) + float(quota.nominal)
    return total


def _entitlements(queues: Sequence[QueueAccount], totals: Mapping[str, float]) -> dict[str, float]:
    """What of its tree each ClusterQueue may call its own: the share of its nominal quota, of the resource where that
    is most; where none has any (it all lies with the cohort), its weight."""
    found = {}
    for queue in queues:
        own: dict[str, float] = {}
        for fr, quota in queue.spec.quotas.items():
            own[fr.resource] = own.get(fr.resource, 0.0) + float(quota.nominal)
        found[queue.name] = max((own[r] / totals[r] for r in own if totals.get(r)), default=0.0)
    return found if any(found.values()) else {queue.name: float(queue.fair_weight) for queue in queues}


def _describe(tree: _Tree, bounds: Ints, into: _Rows) -> None:
    """Rows for one epoch, some stretches at a time."""
    moments = tree.moments(int(bounds[0]), int(bounds[-1]))
    width = max(len(tree.queues) * max(len(tree.frs), 1), 1)
    per_chunk = max(_CELLS // width, 2)
    at = 0
    while at < len(bounds) - 1:
        upto = at + 1
        first = int(np.searchsorted(moments, bounds[at]))
        while upto < len(bounds) - 1 and int(np.searchsorted(moments, bounds[upto + 1])) - first < per_chunk:
            upto += 1
        part = bounds[at : upto + 1]
        inside = moments[(moments > part[0]) & (moments < part[-1])]
        _describe_part(tree, _Grid(np.union1d(inside, part), part), into)
        at = upto


class _Grid:
    """Moments, and the stretches of rows over them."""

    def __init__(self, times: Ints, bounds: Ints) -> None:
        self.times = times[:-1]
        self.bounds = bounds
        self.lengths = np.diff(times).astype(np.float64)
        self._firsts = np.searchsorted(times, bounds[:-1])
        self._spans = np.diff(bounds).astype(np.float64)

    def means(self, values: Floats) -> Floats:
        """Of a value per moment, over every stretch."""
        sums: Floats = np.add.reduceat(values * self.lengths, self._firsts)
        return sums / self._spans

    def means_where(self, values: Floats, holds: np.ndarray[Any, np.dtype[np.bool_]]) -> list[float | None]:
        """The same over the time in which it is defined; None where it never is."""
        weights = np.add.reduceat(np.where(holds, self.lengths, 0.0), self._firsts)
        sums = np.add.reduceat(np.where(holds, values * self.lengths, 0.0), self._firsts)
        return [s / w if w else None for s, w in zip(sums.tolist(), weights.tolist(), strict=True)]


def _describe_part(tree: _Tree, grid: _Grid, into: _Rows) -> None:
    used = {key: steps.at(grid.times).astype(np.float64) for key, steps in tree.used.items()}
    _add_quotas(tree, grid, used, into)
    normalized, contends = [], []
    for queue, counts in zip(tree.queues, tree.counts, strict=True):
        dominant = _dominant(tree, queue, used, len(grid.times))
        pending = counts.pending.at(grid.times)
        into.add_queue(
            grid,
            queue,
            pending=pending.astype(np.float64),
            pending_gpu_milli=counts.gpu.at(grid.times).astype(np.float64),
            gangs_pending=counts.gangs.at(grid.times).astype(np.float64),
            reserving=counts.reserving.at(grid.times).astype(np.float64),
            weighted_share=_weighted(queue, tree.frs, used, len(grid.times)),
            dominant_share=dominant,
        )
        entitled = tree.entitlements[queue.name]
        normalized.append(dominant / (entitled or 1.0))
        contends.append(((pending > 0) | _borrows(queue, tree.frs, used)) & (entitled > 0))
    if len(tree.queues) > 1:
        _add_fairness(tree.root.name, grid, np.array(normalized), np.array(contends), into)


def _add_quotas(
    tree: _Tree, grid: _Grid, used: Mapping[tuple[str, FlavorResource], Floats], into: _Rows
) -> None:
    for fr in tree.frs:
        of_fr = {q.name: used[q.name, fr] for q in tree.queues}
        borrows = any(bool((of_fr[q.name] > float(q.subtree.get(fr, 0))).any()) for q in tree.queues)
        lent = {} if tree.root.is_queue or not borrows else lent_in(tree.root, fr, of_fr)
        for queue in tree.queues:
            usage = of_fr[queue.name]
            if fr not in queue.spec.quotas and not usage.any():
                continue
            nominal = float(queue.subtree.get(fr, 0))
            over = np.maximum(usage - nominal, 0.0)
            gave = lent.get(queue.name)
            into.add_quota(grid, queue, fr, nominal, grid.means(usage), grid.means(over), gave)


def _weighted(
    queue: QueueAccount,
    frs: Sequence[FlavorResource],
    used: Mapping[tuple[str, FlavorResource], Floats],
    n: int,
) -> Floats:
    """`queueing.shares.share_of`, over time."""
    ratio: Floats = np.zeros(n)
    parent = queue.parent
    if parent is None:
        return ratio
    over: dict[str, Floats] = {}
    for fr in frs:
        if fr in queue.subtree:
            beyond = np.maximum(used[queue.name, fr] - float(queue.subtree[fr]), 0.0)
            over[fr.resource] = over[fr.resource] + beyond if fr.resource in over else beyond
    lendable = parent.lendable()
    for resource, amount in over.items():
        available = float(min(lendable.get(resource, 0), MAX_INT64))
        if available > 0:
            ratio = np.maximum(ratio, amount * 1000.0 / available)
    return ratio / queue.fair_weight if queue.fair_weight > 0 else ratio


def _borrows(
    queue: QueueAccount, frs: Sequence[FlavorResource], used: Mapping[tuple[str, FlavorResource], Floats]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether it uses more than its nominal quota of anything."""
    over = [used[queue.name, fr] > float(queue.subtree.get(fr, 0)) for fr in frs]
    found: np.ndarray[Any, np.dtype[np.bool_]] = np.logical_or.reduce(over)
    return found


def _dominant(
    tree: _Tree, queue: QueueAccount, used: Mapping[tuple[str, FlavorResource], Floats], n: int
) -> Floats:
    share: Floats = np.zeros(n)
    by_resource: dict[str, Floats] = {}
    for fr in tree.frs:
        known = by_resource.get(fr.resource)
        usage = used[queue.name, fr]
        by_resource[fr.resource] = usage if known is None else known + usage
    for resource, usage in by_resource.items():
        total = tree.totals.get(resource, 0.0)
        if total > 0:
            share = np.maximum(share, usage / total)
    return share


def _add_fairness(
    cohort: str,
    grid: _Grid,
    shares: Floats,
    contends: np.ndarray[Any, np.dtype[np.bool_]],
    into: _Rows,
) -> None:
    shares = np.where(contends, shares, 0.0)
    count = contends.sum(axis=0).astype(np.float64)
    squares = (shares**2).sum(axis=0)
    is_defined = (count >= 2) & (squares > 0)
    index = shares.sum(axis=0) ** 2 / np.where(is_defined, count * squares, 1.0)
    into.add_fairness(cohort, grid, grid.means_where(index, is_defined), grid.means(count))


# Rows


class _Rows:
    """Columns that grow, tree by tree."""

    def __init__(self, began_us: int) -> None:
        self._began_us = began_us
        self._quotas: list[QuotaRow] = []
        self._queues: list[QueueRow] = []
        self._fairness: list[FairnessRow] = []

    def _stretches(self, grid: _Grid) -> Iterator[tuple[int, int]]:
        times = [self._began_us + t for t in grid.bounds.tolist()]
        return pairwise(times)

    def add_quota(
        self,
        grid: _Grid,
        queue: QueueAccount,
        fr: FlavorResource,
        nominal: float,
        used: Floats,
        borrowed: Floats,
        lent: Floats | None,
    ) -> None:
        in_cohort = queue.parent is not None
        gave = np.zeros(len(used)) if lent is None else grid.means(lent)
        path = cohort_path(queue)
        columns = zip(self._stretches(grid), used.tolist(), borrowed.tolist(), gave.tolist(), strict=True)
        for (start, end), u, b, g in columns:
            self._quotas.append(
                QuotaRow(queue.name, path, *fr, start, end, nominal, u, b if in_cohort else 0.0, g)
            )

    def add_queue(self, grid: _Grid, queue: QueueAccount, **values: Floats) -> None:
        means = [grid.means(values[name]).tolist() for name in _QUEUE_COLUMNS]
        path, weight = cohort_path(queue), float(queue.fair_weight)
        for (start, end), *row in zip(self._stretches(grid), *means, strict=True):
            known = dict(zip(_QUEUE_COLUMNS, row, strict=True))
            self._queues.append(QueueRow(queue.name, path, start, end, **known, weight=weight))

    def add_fairness(
        self, cohort: str, grid: _Grid, jain: Sequence[float | None], contenders: Floats
    ) -> None:
        for (start, end), index, count in zip(self._stretches(grid), jain, contenders.tolist(), strict=True):
            self._fairness.append(FairnessRow(cohort, start, end, index, count))

    def tables(self) -> QueueSeries:
        self._quotas.sort(key=lambda r: (r.cluster_queue, r.flavor, r.resource, r.start_us))
        self._queues.sort(key=lambda r: (r.cluster_queue, r.start_us))
        self._fairness.sort(key=lambda r: (r.cohort, r.start_us))
        return QueueSeries(
            Table.of(QuotaRow, self._quotas),
            Table.of(QueueRow, self._queues),
            Table.of(FairnessRow, self._fairness),
        )


_QUEUE_COLUMNS = (
    "pending",
    "pending_gpu_milli",
    "gangs_pending",
    "reserving",
    "weighted_share",
    "dominant_share",
)
