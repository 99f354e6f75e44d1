"""A ClusterQueue's queue against its rules said plainly: pushed to, popped, refused, woken and copied at random.

Source: pkg/cache/queue/cluster_queue.go (PushOrUpdate, Pop, requeueIfNotPresent, queueInadmissibleWorkloads).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from queueworld import wl

from fairway.queueing.cycle.entries import Head, RequeueReason
from fairway.queueing.cycle.pending import ClusterQueuePending, PendingWorkloads
from fairway.queueing.facts.gates import DEFAULT_GATES
from fairway.queueing.facts.objects import BEST_EFFORT_FIFO, STRICT_FIFO
from fairway.queueing.facts.workloads import Workload, WorkloadReader
from fairway.queueing.flavors.assignment import ScanState

Matter = tuple[Any, ...]
USAGE = {"default/a": 3.0, "default/b": 1.0, "research/a": 1.0, "research/b": 5.0}
AT_ONCE = (
    RequeueReason.FAILED_AFTER_NOMINATION,
    RequeueReason.PENDING_PREEMPTION,
    RequeueReason.PENDING_MIGRATION,
    RequeueReason.PREEMPTION_FAILED,
)


@dataclass
class Waiting:
    workload: Workload
    matters: Matter
    scan: ScanState | None
    ready_us: int
    is_active: bool


def line(workload: Workload) -> object:
    return workload.hash or workload.key


@dataclass
class Rules:
    strategy: str
    keeps_scan: bool
    members: dict[str, Waiting] = field(default_factory=dict)
    refused: dict[object, str] = field(default_factory=dict)
    in_flight: str = ""
    sticky: str = ""
    preemptor: tuple[str, int] | None = None
    pops: int = 0
    woken_at: int = -1

    def push(self, workload: Workload, matters: Matter, ready_us: int, now_us: int, filling: bool) -> None:
        if workload.key == self.in_flight:
            return
        old = self.members.get(workload.key)
        scan = old.scan if old is not None and self.keeps_scan else None
        if scan is not None and not scan.is_of_shape(workload.hash):
            scan = None
        if old is not None and not old.is_active and (old.ready_us, old.matters) == (ready_us, matters):
            self.members[workload.key] = Waiting(workload, matters, scan, ready_us, False)
            return
        is_refused = (
            self.strategy == BEST_EFFORT_FIFO and bool(workload.hash) and line(workload) in self.refused
        )
        may_go = ready_us <= now_us and not is_refused
        is_active = may_go or (old is not None and old.is_active) or (old is None and filling)
        self.members[workload.key] = Waiting(workload, matters, scan, ready_us, is_active)

    def rank(self, waiting: Waiting, usage: Any) -> tuple[Any, ...]:
        w = waiting.workload
        used = usage(w.queue) if usage else 0
        return used, w.key != self.sticky, -w.priority, w.order_us, w.uid, w.key

    def first(self, usage: Any) -> Waiting | None:
        active = [m for m in self.members.values() if m.is_active]
        return min(active, key=lambda m: self.rank(m, usage), default=None)

    def pop(self, usage: Any) -> Waiting | None:
        self.pops += 1
        found = self.first(usage)
        self.in_flight = "" if found is None else found.workload.key
        return self.members.pop(self.in_flight, None)

    def requeue(
        self,
        head: Waiting,
        reason: RequeueReason,
        scan: ScanState | None,
        why: str,
        ready_us: int,
        now_us: int,
    ) -> None:
        key = head.workload.key
        if reason in (RequeueReason.PENDING_PREEMPTION, RequeueReason.PENDING_MIGRATION):
            self.preemptor = (key, head.workload.generation)
            self.sticky = key if self.strategy == BEST_EFFORT_FIFO else self.sticky
        self.in_flight = "" if self.in_flight == key else self.in_flight
        if key in self.members:
            return
        at_once = reason in AT_ONCE or self.woken_at >= self.pops
        at_once |= self.strategy == STRICT_FIFO and reason != RequeueReason.NAMESPACE_MISMATCH
        at_once |= scan is not None and any(i >= 0 for of_set in scan.tried for i in of_set.values())
        is_active = at_once and ready_us <= now_us
        self.members[key] = Waiting(head.workload, head.matters, scan, ready_us, is_active)
        as_one = reason in (RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES)
        if not is_active and as_one and head.workload.hash and self.strategy == BEST_EFFORT_FIFO:
            self.refused[line(head.workload)] = why or "PendingEvaluation"
            for member in self.members.values():
                member.is_active &= line(member.workload) != line(head.workload)

    def forget(self, key: str) -> None:
        self.in_flight = "" if self.in_flight == key else self.in_flight
        self.sticky = "" if self.sticky == key else self.sticky
        if self.preemptor is not None and self.preemptor[0] == key:
            self.preemptor = None

    def wake(self, now_us: int, allows: Any) -> None:
        self.woken_at = self.pops
        self.refused.clear()
        for member in self.members.values():
            if not member.is_active:
                member.is_active = member.ready_us <= now_us and (
                    allows is None or allows(member.workload.namespace)
                )

    def copied(self) -> Rules:
        """One that goes on apart; Workloads never change."""
        members = {key: replace(member) for key, member in self.members.items()}
        return replace(self, members=members, refused=dict(self.refused))

    def why(self, key: str) -> str | None:
        member = self.members.get(key)
        return None if member is None or member.is_active else self.refused.get(line(member.workload))


class Drawn:
    """Workloads of a few names, that differ in what matters or only in what does not."""

    def __init__(self, draw: Random, reader: WorkloadReader) -> None:
        self.draw, self.reader = draw, reader
        self.known: dict[Matter, Workload] = {}

    def workload(self) -> tuple[Workload, Matter]:
        draw = self.draw
        name = f"w{draw.randrange(9)}"
        rest = dict.fromkeys(("priority", "gpu", "reclaimed", "evicted", "requeued", "gate"), 0)
        if draw.random() < 0.6:
            rest[draw.choice(sorted(rest))] = 1
        matters = (name, tuple(rest.items()))
        if draw.random() < 0.2 and matters in self.known:
            return self.known[matters], matters
        number = int(name[1:])
        obj = wl(
            name,
            "ab"[number % 2],
            1 + rest["gpu"],
            priority=rest["priority"],
            age_s=90 - number % 4,
            namespace=("default", "research")[number % 3 == 0],
        )
        obj["spec"]["preemptionGates"] = [{"name": "g"}]
        conditions = [{"type": "QuotaReserved", "status": "False", "message": str(draw.random())}]
        conditions += [
            {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2027-01-15T08:00:00Z"}
            for kind in ("Evicted", "Requeued")
            if rest[kind.lower()]
        ]
        obj["status"] = {
            "conditions": conditions,
            "preemptionGates": [{"name": "g", "position": "Closed" if rest["gate"] else "Open"}],
        }
        if rest["reclaimed"]:
            obj["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
        self.known[matters] = self.reader.read(obj)
        return self.known[matters], matters


@dataclass
class Pair:
    queue: ClusterQueuePending
    rules: Rules
    heads: list[tuple[Head, Waiting]] = field(default_factory=list)

    def copied(self) -> Pair:
        return Pair(self.queue.copy(), self.rules.copied(), list(self.heads))

    def check(self, usage: Any) -> None:
        queue, rules = self.queue, self.rules
        assert sorted(queue.active()) == sorted(k for k, m in rules.members.items() if m.is_active)
        assert sorted(queue.inadmissible()) == sorted(k for k, m in rules.members.items() if not m.is_active)
        assert len(queue) == len(rules.members)
        for key, member in rules.members.items():
            found = queue.get(key)
            assert found is not None and queue.refused_reason(key) == rules.why(key)
            assert (found.workload.key, found.ready_us) == (key, member.ready_us)
            assert found.workload.obj == member.workload.obj and scanned(found.scan) == scanned(member.scan)
        order = sorted(rules.members.values(), key=lambda m: rules.rank(m, usage))
        assert [w.key for w in queue.in_order(usage)] == [m.workload.key for m in order]
        if queue.is_idle:
            assert not rules.in_flight and not rules.sticky and not queue.active()


def scanned(scan: ScanState | None) -> Any:
    return None if scan is None else (scan.tried, scan.hash)


def step(pair: Pair, drawn: Drawn, usage: Any, now_us: int) -> None:
    draw, queue, rules = drawn.draw, pair.queue, pair.rules
    action = draw.choice(
        ("push", "push", "push", "pop", "pop", "requeue", "requeue", "wake", "remove", "forget")
    )
    ready_us = draw.choice((-1, -1, -1, now_us - 1, now_us, now_us + 1, now_us + 5))
    if action == "push":
        workload, matters = drawn.workload()
        filling = draw.random() < 0.2
        queue.push(workload, ready_us=ready_us, now_us=now_us, is_filling=filling)
        rules.push(workload, matters, ready_us, now_us, filling)
    elif action == "pop":
        head, want = queue.pop(usage), rules.pop(usage)
        assert (head is None) == (want is None)
        if head is not None and want is not None:
            assert (head.workload.key, scanned(head.scan), head.queue) == (
                want.workload.key,
                scanned(want.scan),
                "a",
            )
            assert head.is_preemptor == (rules.preemptor == (head.workload.key, head.workload.generation))
            pair.heads.append((head, want))
    elif action == "requeue" and pair.heads:
        head, waiting = pair.heads.pop(draw.randrange(len(pair.heads)))
        reason = draw.choice(list(RequeueReason))
        scan = (
            ScanState(({"gpu": draw.choice((-1, 0))},), 1, 1, head.workload.hash)
            if draw.random() < 0.3
            else None
        )
        why = draw.choice(("", "WaitingForQuota"))
        queue.requeue(
            head, head.workload, reason, scan=scan, no_fit_reason=why, ready_us=ready_us, now_us=now_us
        )
        rules.requeue(waiting, reason, scan, why, ready_us, now_us)
    elif action == "wake":
        allows = draw.choice((None, None, "default".__eq__))
        queue.wake(now_us, allows)
        rules.wake(now_us, allows)
    elif action in ("remove", "forget"):
        key = draw.choice(sorted({*rules.members, *(h.workload.key for h, _ in pair.heads), "default/w1"}))
        if action == "remove":
            queue.remove(key)
            rules.members.pop(key, None)
        else:
            queue.forget(key)
        rules.forget(key)


@pytest.mark.parametrize("hashes", [True, False])
@pytest.mark.parametrize("strategy", [BEST_EFFORT_FIFO, STRICT_FIFO])
@pytest.mark.parametrize("seed", range(8))
def test_a_queue_does_what_its_rules_say(seed: int, strategy: str, hashes: bool) -> None:
    draw = Random(f"{seed}/{strategy}/{hashes}")
    gates = replace(
        DEFAULT_GATES,
        scheduling_equivalence_hashing=hashes,
        flavor_fungibility_preserve_scan_progress=seed % 2 == 0,
    )
    usage = USAGE.__getitem__ if seed % 4 == 3 else None
    drawn = Drawn(draw, WorkloadReader(gates))
    pairs = [Pair(ClusterQueuePending("a", strategy, gates), Rules(strategy, seed % 2 == 0))]
    for now_us in range(250):
        pair = draw.choice(pairs)
        step(pair, drawn, usage, now_us // 3)
        pair.check(usage)
        if draw.random() < 0.05:
            # The copy and what it was made of go on apart.
            pairs = [pair, pair.copied()]
            pairs[1].check(usage)


def test_nothing_is_kept_of_workloads_that_are_gone() -> None:
    """Every form of workload is a line of its own: many come and go in a long run."""
    queue, reader = ClusterQueuePending("a"), WorkloadReader()
    for gpu in range(1, 40):
        for name in ("one", "two"):
            queue.push(reader.read(wl(f"{name}-{gpu}", "a", gpu)))
    for gpu in range(1, 40):
        head = queue.pop()
        assert head is not None
        queue.requeue(head, head.workload, RequeueReason.NO_FIT)
        if gpu % 2:
            queue.wake(0)
    for key in (*queue.active(), *queue.inadmissible()):
        queue.remove(key)
    assert len(queue) == 0 and not queue._lines and not queue._waiting
    assert queue.pop() is None and not queue._fronts and queue.is_idle


# All queues


def test_a_copy_of_all_queues_goes_on_by_itself() -> None:
    queues = PendingWorkloads()
    reader = WorkloadReader()
    for name in ("a", "b"):
        queues.queue(name)
    second = Head(reader.read(wl("again", "a")), "a")
    queues.add_second_pass(second)
    twin = queues.copy()
    # A queue that is new has a place of its own, behind the others.
    for one in (queues, twin):
        one.queue("c")
        assert [h.workload.key for h in one.heads(lambda _: True)] == ["default/again"]
        assert one.heads(lambda _: True) == [], "once"
        for name in ("c", "b", "a"):
            one.queues[name].push(reader.read(wl(f"of-{name}", name)))
        assert [h.workload.key for h in one.heads(lambda _: True)] == [f"default/of-{n}" for n in "abc"]
        assert [queue.name for queue in one] == ["a", "b", "c"]


def test_a_queue_is_looked_at_as_long_as_somebody_is_in_flight_or_by_usage() -> None:
    queues = PendingWorkloads()
    reader = WorkloadReader()
    one = queues.queue("a")
    one.push(reader.read(wl("w", "a")))
    (head,) = queues.heads(lambda _: True)
    assert not one.is_idle, "in flight"
    assert queues.heads(lambda _: True) == [] and one.is_idle, (
        "nobody came back: it is not in flight any more"
    )
    one.push(head.workload)
    assert [h.workload.key for h in queues.heads(lambda _: True)] == ["default/w"]
    one.forget("default/w")
    assert queues.heads(lambda _: True) == [] and one.is_idle
    assert not queues.queue("a", STRICT_FIFO, by_usage=True).is_idle and one.strategy == STRICT_FIFO
    one.push(reader.read(wl("heavy", "a", priority=9)))
    one.push(reader.read(wl("light", "b")))
    usage = {"default/a": 5.0, "default/b": 1.0}.__getitem__
    assert [h.workload.key for h in queues.heads(lambda _: True, usage)] == ["default/light"]
    queues.queue("a")
    assert [h.workload.key for h in queues.heads(lambda _: True, usage)] == ["default/heavy"]
