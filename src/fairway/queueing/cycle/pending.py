"""The queues between cycles: which workload is the head of each ClusterQueue, and which wait for an event?

Within a ClusterQueue, workloads of one scheduling hash form a line: they would fail alike, so a refusal moves
the whole line aside and an event brings it back, at the cost of one step per line, not per workload. Lines are
ordered by their heads: priority, then age, then UID.

Source: pkg/cache/queue/cluster_queue.go, pending_workloads.go, manager.go, inadmissible_workloads.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from fairway.kube.objects import spec_of, status_of
from fairway.queueing.cycle.entries import Head, RequeueReason
from fairway.queueing.facts.conditions import EVICTED, REQUEUED, find
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates
from fairway.queueing.facts.objects import BEST_EFFORT_FIFO, STRICT_FIFO
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.facts.workloadstate import has_closed_preemption_gate
from fairway.queueing.flavors.assignment import ScanState

_IMMEDIATE: Final = (
    RequeueReason.FAILED_AFTER_NOMINATION,
    RequeueReason.PENDING_PREEMPTION,
    RequeueReason.PENDING_MIGRATION,
    RequeueReason.PREEMPTION_FAILED,
)
_BULK: Final = (RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES)

# (LocalQueue key) → its usage under admission fair sharing.
QueueUsage = Callable[[str], float]
# Priority, negated; when it counts as queued; UID and key, last.
Rank = tuple[int, int, str, str]


# Its rank and a sequence number, flat: heaps compare these all the time. An entry counts while `pending.heap` is the
# heap it lies in.
Item = tuple[int, int, str, str, int, "Pending"]


class Pending:
    """A workload waiting. `ready_us`: not before then (backoff after an eviction); -1: at once."""

    def __init__(
        self,
        workload: Workload,
        scan: ScanState | None = None,
        ready_us: int = -1,
        line: _Line | None = None,
        heap: list[Item] | None = None,
    ) -> None:
        self.workload = workload
        self.scan = scan
        self.ready_us = ready_us
        self.line = line
        self.heap = heap
        self.is_front = False

    @property
    def is_active(self) -> bool:
        return self.line is not None and self.heap is self.line.active

    def rank(self) -> Rank:
        w = self.workload
        return (-w.priority, w.order_us, w.uid, w.key)


class _Line:
    """Workloads of one hash: those that will be tried, and those that wait for an event. Both are heaps.

    Moving everybody from one to the other swaps the heaps, or melts the smaller into the larger.
    """

    __slots__ = ("active", "delayed", "key", "parked")

    def __init__(self, key: object) -> None:
        self.key = key
        self.active: list[Item] = []
        self.parked: list[Item] = []
        self.delayed = 0

    def copy(self, members: dict[str, Pending]) -> _Line:
        """With copies of its workloads, which are added to `members`."""
        twin = _Line(self.key)
        twin.delayed = self.delayed
        for mine, its in ((self.active, twin.active), (self.parked, twin.parked)):
            for item in mine:
                pending = item[5]
                if pending.heap is mine:
                    copied = Pending(pending.workload, pending.scan, pending.ready_us, twin, its)
                    copied.is_front = pending.is_front
                    members[pending.workload.key] = copied
                    its.append((*item[:5], copied))
            heapify(its)
        return twin

    def activate_all(self) -> None:
        self.active, self.parked = _melted(self.active, self.parked), []

    def park_all(self) -> None:
        self.active, self.parked = [], _melted(self.parked, self.active)


def _melted(a: list[Item], b: list[Item]) -> list[Item]:
    """One heap of both; entries that count in either count in it. O(smaller × log larger)."""
    if len(a) < len(b):
        a, b = b, a
    for item in b:
        if item[5].heap is b:
            item[5].heap = a
            heappush(a, item)
    return a


def _top(heap: list[Item]) -> Item | None:
    """The first entry that counts; drops what moved on."""
    while heap:
        if heap[0][5].heap is heap:
            return heap[0]
        heappop(heap)
    return None


def _is_same(old: Pending, new: Workload) -> bool:
    """Nothing changed that could make a difference to whether it can be admitted."""
    before, after = old.workload.obj, new.obj
    if not _asks_alike(old.workload, new):
        return False
    if before is after:
        return True
    was, now = status_of(before), status_of(after)
    return (
        spec_of(before) == spec_of(after)
        and old.workload.priority == new.priority
        and was.get("reclaimablePods") == now.get("reclaimablePods")
        and find(was, EVICTED) == find(now, EVICTED)
        and find(was, REQUEUED) == find(now, REQUEUED)
        and has_closed_preemption_gate(before) == has_closed_preemption_gate(after)
    )


def _asks_alike(old: Workload, new: Workload) -> bool:
    """What is counted can change by itself: claims are looked at anew. Source: draRequestsChanged."""
    return old.shape is new.shape or [(t.name, t.count, t.requests) for t in old.totals] == [
        (t.name, t.count, t.requests) for t in new.totals
    ]


class ClusterQueuePending:
    """What waits in one ClusterQueue."""

    def __init__(
        self, name: str, strategy: str = BEST_EFFORT_FIFO, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        self.name = name
        self.strategy = strategy
        self.gates = gates
        self.by_usage = False
        # Its place among all queues, and those of them in which there may be something to try.
        self.at = 0
        self.stirred: dict[int, ClusterQueuePending] = {}
        self._lines: dict[object, _Line] = {}
        # At least the first active entry of every line; entries that moved on are dropped when they surface.
        self._fronts: list[Item] = []
        # Lines in which something waits for an event.
        self._waiting: dict[object, _Line] = {}
        self._members: dict[str, Pending] = {}
        # Lines refused as a whole since the last event; newcomers of theirs wait with them.
        self._refused: dict[object, str] = {}
        self._pops = 0
        self._sequence = 0
        self._woken_at = -1
        self._inflight: str = ""
        self._sticky: str = ""
        self._preemptor: tuple[str, int] | None = None

    def copy(self) -> ClusterQueuePending:
        """An independent copy, without heap entries of those that moved on. O(workloads)."""
        twin = ClusterQueuePending(self.name, self.strategy, self.gates)
        twin.by_usage, twin.at = self.by_usage, self.at
        for key, line in self._lines.items():
            twin._lines[key] = line.copy(twin._members)
        twin._waiting = {key: twin._lines[key] for key in self._waiting}
        for item in self._fronts:
            if item[5].heap is not None:
                twin._fronts.append((*item[:5], twin._members[item[5].workload.key]))
        heapify(twin._fronts)
        twin._refused = dict(self._refused)
        twin._pops, twin._sequence, twin._woken_at = self._pops, self._sequence, self._woken_at
        twin._inflight, twin._sticky, twin._preemptor = self._inflight, self._sticky, self._preemptor
        return twin

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_idle(self) -> bool:
        """There is nothing to try, and nobody in flight: so it is with most queues, most of the time."""
        return not (self._fronts or self._sticky or self._inflight or self.by_usage)

    def active(self) -> tuple[str, ...]:
        """Keys of workloads that will be tried, in no particular order."""
        return tuple(k for k, p in self._members.items() if p.is_active)

    def inadmissible(self) -> tuple[str, ...]:
        """Keys of workloads that wait for an event."""
        return tuple(k for k, p in self._members.items() if not p.is_active)

    def get(self, key: str) -> Pending | None:
        return self._members.get(key)

    def in_order(self, usage: QueueUsage | None = None) -> list[Workload]:
        """Everything that waits, in the order it would be tried."""
        ranked = sorted(
            self._members.values(),
            key=lambda p: (
                0.0 if usage is None else usage(p.workload.queue),
                p.workload.key != self._sticky,
                p.rank(),
            ),
        )
        return [p.workload for p in ranked]

    def push(
        self, workload: Workload, *, ready_us: int = -1, now_us: int = 0, is_filling: bool = False
    ) -> None:
        """A new or changed workload.

        One that waits for an event goes on waiting unless something that matters changed; a newcomer whose
        line was refused since the last event waits with it. `is_filling`: it comes with its LocalQueue, and is
        tried whatever was refused.
        """
        if workload.key == self._inflight:
            return
        old = self._members.get(workload.key)
        scan = None
        if old is not None and old.scan is not None and self.gates.flavor_fungibility_preserve_scan_progress:
            scan = old.scan if old.scan.is_of_shape(workload.hash) else None
        if old is not None and not old.is_active and old.ready_us == ready_us and _is_same(old, workload):
            old.workload, old.scan = workload, scan
            return
        was_active = old is not None and old.is_active
        if old is not None:
            self._detach(old)
        refused = bool(workload.hash) and self._line_key(workload) in self._refused
        waits = ready_us > now_us or (self.strategy == BEST_EFFORT_FIFO and refused)
        is_active = was_active or not waits or (is_filling and old is None)
        self._insert(Pending(workload, scan, ready_us), is_active=is_active)

    def remove(self, key: str) -> None:
        """It is gone, or holds quota now."""
        pending = self._members.get(key)
        if pending is not None:
            self._detach(pending)
        self.forget(key)

    def pop(self, usage: QueueUsage | None = None) -> Head | None:
        """The head, which is in flight until it is requeued or forgotten. O(log lines)."""
        self._pops += 1
        best = self._best(usage)
        if best is None:
            self._inflight = ""
            return None
        workload = best.workload
        self._detach(best)
        self._inflight = workload.key
        return Head(
            workload,
            self.name,
            best.scan,
            is_preemptor=self._preemptor == (workload.key, workload.generation),
        )

    def requeue(
        self,
        head: Head,
        workload: Workload,
        reason: RequeueReason,
        *,
        scan: ScanState | None = None,
        no_fit_reason: str = "",
        ready_us: int = -1,
        now_us: int = 0,
    ) -> None:
        """The head was not admitted. `workload`: its facts as they are now."""
        key = workload.key
        if reason in (RequeueReason.PENDING_PREEMPTION, RequeueReason.PENDING_MIGRATION):
            self._preemptor = (key, head.workload.generation)
            if self.strategy == BEST_EFFORT_FIFO:
                self._sticky = key
        if self._inflight == key:
            self._inflight = ""
        if key in self._members:
            return
        if self.strategy == STRICT_FIFO:
            immediate = reason != RequeueReason.NAMESPACE_MISMATCH
        else:
            immediate = reason in _IMMEDIATE
        pending_flavors = scan is not None and scan.has_pending_flavors()
        pending = Pending(workload, scan, ready_us)
        if ready_us <= now_us and (immediate or self._woken_at >= self._pops or pending_flavors):
            self._insert(pending, is_active=True)
            return
        self._insert(pending, is_active=False)
        if workload.hash and reason in _BULK and self.strategy == BEST_EFFORT_FIFO:
            self._set_aside(self._line_key(workload), no_fit_reason)

    def forget(self, key: str) -> None:
        """The head was admitted, or is gone."""
        if self._inflight == key:
            self._inflight = ""
        if self._sticky == key:
            self._sticky = ""
        if self._preemptor is not None and self._preemptor[0] == key:
            self._preemptor = None

    def refused_reason(self, key: str) -> str | None:
        """Why a workload that was never tried waits: its line was refused for this reason."""
        pending = self._members.get(key)
        if pending is None or pending.is_active:
            return None
        return self._refused.get(self._line_key(pending.workload))

    def wake(self, now_us: int, allows: Callable[[str], bool] | None = None) -> None:
        """An event may help: everything that waits is tried again, backoffs aside.

        `allows`: namespace → whether the queue's selector takes it; None: every one. O(lines) with None.
        """
        self._woken_at = self._pops
        if self._refused:
            self._refused.clear()
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        for line in waiting.values():
            if allows is None and not line.delayed:
                line.activate_all()
                self._show_front(line)
                continue
            parked, line.parked = line.parked, []
            line.delayed = 0
            for item in parked:
                pending = item[5]
                if pending.heap is parked:
                    may_move = pending.ready_us <= now_us and (
                        allows is None or allows(pending.workload.namespace)
                    )
                    self._place(pending, line, is_active=may_move)

    def _line_key(self, workload: Workload) -> object:
        return workload.hash or workload.key

    def _insert(self, pending: Pending, *, is_active: bool) -> None:
        key = self._line_key(pending.workload)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(key)
        self._members[pending.workload.key] = pending
        self._place(pending, line, is_active=is_active)

    def _place(self, pending: Pending, line: _Line, *, is_active: bool) -> None:
        self._sequence += 1
        item = (*pending.rank(), self._sequence, pending)
        pending.line = line
        if is_active:
            pending.heap = line.active
            heappush(line.active, item)
            self._show_front(line)
            return
        pending.heap = line.parked
        heappush(line.parked, item)
        self._waiting[line.key] = line
        line.delayed += pending.ready_us >= 0

    def _show_front(self, line: _Line) -> None:
        """The first active entry of a line competes for the head of the queue."""
        front = _top(line.active)
        if front is not None and not front[5].is_front:
            front[5].is_front = True
            heappush(self._fronts, front)
            self.stirred[self.at] = self

    def _detach(self, pending: Pending) -> None:
        line = pending.line
        del self._members[pending.workload.key]
        pending.line = pending.heap = None
        if line is not None:
            self._show_front(line)
            if not line.active and _top(line.parked) is None:
                self._lines.pop(line.key, None)
                self._waiting.pop(line.key, None)

    def _set_aside(self, key: object, reason: str) -> None:
        """Everybody in the line waits for the next event."""
        self._refused[key] = reason or "PendingEvaluation"
        line = self._lines[key]
        line.park_all()
        self._waiting[key] = line

    def _best(self, usage: QueueUsage | None) -> Pending | None:
        if usage is not None:
            return self._least_used(usage)
        sticky = self._members.get(self._sticky)
        if sticky is not None and sticky.is_active:
            return sticky
        fronts = self._fronts
        while fronts:
            pending = fronts[0][5]
            if pending.is_active:
                return pending
            pending.is_front = False
            heappop(fronts)
        return None

    def _least_used(self, usage: QueueUsage) -> Pending | None:
        """Admission fair sharing: the LocalQueue that used least goes first. O(workloads)."""
        active = [pending for pending in self._members.values() if pending.is_active]
        return min(active, key=lambda p: self._turn(p, usage), default=None)

    def _turn(self, pending: Pending, usage: QueueUsage) -> tuple[float, bool, Rank]:
        workload = pending.workload
        return usage(workload.queue), workload.key != self._sticky, pending.rank()


class PendingWorkloads:
    """All ClusterQueues' queues, and the second-pass queue."""

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self.gates = gates
        self.queues: dict[str, ClusterQueuePending] = {}
        self._second_pass: dict[str, Head] = {}
        self._places = 0
        self._stirred: dict[int, ClusterQueuePending] = {}
        """Queues that may not be idle, by their place: a cycle need not look at all of them."""

    def copy(self) -> PendingWorkloads:
        """An independent copy; facts of workloads are shared."""
        twin = PendingWorkloads(self.gates)
        for name, queue in self.queues.items():
            copied = twin.queues[name] = queue.copy()
            copied.stirred = twin._stirred
            twin._stirred[copied.at] = copied
        twin._places = self._places
        twin._second_pass = dict(self._second_pass)
        return twin

    def queue(
        self, name: str, strategy: str = BEST_EFFORT_FIFO, *, by_usage: bool = False
    ) -> ClusterQueuePending:
        """The queue of a ClusterQueue, made if new. `by_usage`: its LocalQueues take turns by usage."""
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = ClusterQueuePending(name, strategy, self.gates)
            self._places += 1
            found.at, found.stirred = self._places, self._stirred
        found.strategy, found.by_usage = strategy, by_usage
        self._stirred[found.at] = found
        return found

    def add_second_pass(self, head: Head) -> None:
        """A workload with quota whose topology is to be found, or found anew."""
        self._second_pass[head.workload.key] = head

    def heads(self, is_active: Callable[[str], bool], usage: QueueUsage | None = None) -> list[Head]:
        """One workload of every active ClusterQueue, after those of the second pass. O(queues with something)."""
        heads = list(self._second_pass.values())
        self._second_pass = {}
        for at in sorted(self._stirred):
            queue = self._stirred[at]
            if queue.is_idle or self.queues.get(queue.name) is not queue:
                del self._stirred[at]
            elif is_active(queue.name):
                head = queue.pop(usage if queue.by_usage else None)
                if head is not None:
                    heads.append(head)
        return heads

    def __iter__(self) -> Iterator[ClusterQueuePending]:
        return iter(self.queues.values())
