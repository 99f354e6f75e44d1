"""Scheduling cycles in time: when one runs, and what is written because of it.

A cycle decides on the state at its end and writes then; admissions arrive when their request may go out and an API
write later, as they do from Kueue's goroutines; so do evictions, for which, as for the words to whoever was refused,
the cycle waits. The next one follows at once while cycles get somewhere, backs off while they do not, and waits for
a change once one decided exactly what the one before did.

Source: pkg/scheduler/scheduler.go, pkg/util/wait (UntilWithBackoff).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fairway.kube.objects import Key, Obj, meta_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.differences import ready_us
from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import CycleOutcome, Eviction, Head, Outcome, Status
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.facts.workloadstate import is_active, is_admissible, is_finished
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.metrics.families import families
from fairway.queueing.metrics.observing import of_cycle, of_preemption, of_replacement
from fairway.queueing.outcomes import statuses
from fairway.queueing.outcomes.events import (
    Event,
    admission_events,
    evicted_event,
    eviction_events,
    pending_event,
)
from fairway.twin.containment import culprits
from fairway.twin.kueue.preemptioncycles import PreemptionCycles
from fairway.twin.loop import NO_TIME, SCHEDULER
from fairway.twin.tally import Tally

if TYPE_CHECKING:
    from fairway.twin.kueue.component import Kueue

ADMISSION: Final = "kueue-admission"

# Source: pkg/util/wait/backoff.go: cycles without an admission wait 1 ms, doubling to 10 ms.
_BACKOFF_US: Final = 1_000
_BACKOFF_MAX_US: Final = 10_000
# A second pass comes after 1 s, 2 s, … up to 30 s. Source: pkg/cache/queue/second_pass_queue.go.
_SECOND_PASS_US: Final = 1_000_000
_SECOND_PASS_MAX_US: Final = 30_000_000

Signature = tuple[Any, ...]
# Cycles that are remembered: no search has as many places to stand at.
_CIRCLE: Final = 63


class Cycles:
    """Kueue's scheduler. Holds only data beside its host."""

    def __init__(self) -> None:
        self.number = 0
        self._armed_us = NO_TIME
        self._idle_until_us = NO_TIME
        self._failures = 0
        self._fared: list[Signature] = []
        """How cycles without progress ended since anything changed."""
        self._seen_version = -1
        self._admitting: dict[str, tuple[Outcome, int]] = {}
        """Admissions on their way to the API, by workload, with the time they were decided at."""
        self._evicting: dict[str, tuple[Eviction, str]] = {}
        """Evictions on their way to the API, by workload, with the preemptor's queue."""
        self._cycles_seen = PreemptionCycles()
        self._busy_until_us = NO_TIME
        """When the requests a cycle waits for are answered."""
        self._passes: dict[str, int] = {}
        """Second passes under way: how often each was tried."""
        self._took_us = 0
        """How long the cycle that is planned takes to decide."""
        self.tally = Tally(families())

    def attach(self, kueue: Kueue) -> None:
        self.kueue = kueue
        self.host = kueue.host
        loop, latency = kueue.host.loop, kueue.host.latency
        self._cycle = loop.register("kueue.cycle", self._on_cycle)
        self._again = self.host.register_again("kueue.head", self._on_again)
        self._admit = loop.register("kueue.admit", self._on_admit)
        self._evict_later = loop.register("kueue.evict", self._on_evict)
        self._pass = loop.register("kueue.pass", self._on_pass)
        stream = kueue.host.streams.stream("kueue-scheduler")
        self._cycle_us = latency.kueue_cycle.sampler(stream)
        self._write_us = latency.api_write.sampler(stream)

    def copy(self) -> Cycles:
        twin = Cycles()
        twin.number = self.number
        twin._armed_us = self._armed_us
        twin._idle_until_us = self._idle_until_us
        twin._failures = self._failures
        twin._fared = list(self._fared)
        twin._seen_version = self._seen_version
        twin._admitting = dict(self._admitting)
        twin._evicting = dict(self._evicting)
        twin._cycles_seen = self._cycles_seen.copy()
        twin._busy_until_us = self._busy_until_us
        twin._passes = dict(self._passes)
        twin._took_us, twin.tally = self._took_us, self.tally.copy()
        return twin

    # When

    def arm(self) -> None:
        """Something changed: run a cycle, as soon as the last one is over."""
        if self._armed_us == NO_TIME:
            now_us = self.host.loop.now_us
            self._took_us = self._cycle_us()
            self._at(max(now_us, self._idle_until_us) + self._took_us)

    def _at(self, time_us: int) -> None:
        self._armed_us = time_us
        self.host.loop.at(time_us, self._cycle, None, SCHEDULER)

    def _on_cycle(self, _data: None) -> None:
        self._armed_us = NO_TIME
        backlog = self.kueue.backlog
        backlog.accounts.settle()
        heads = backlog.pending.heads(backlog.is_queue_active, self.kueue.usage)
        if not heads:
            self._seen_version = backlog.version
            return
        self.number += 1
        version = backlog.version
        heads, outcome = self._decided(heads)
        self._carry_out(outcome)
        took_us = self._took_us + self._busy_until_us - self.host.loop.now_us
        self.tally.take(of_cycle(outcome, took_us / SECOND_US))
        for head in heads:
            self._drop_unheard(head, outcome)
        self._plan_next(outcome, version)
        self.kueue.drain()

    def _decided(self, heads: list[Head]) -> tuple[list[Head], CycleOutcome]:
        """What the cycle makes of these heads, without those that it stumbles over: they are tried again later."""
        try:
            return heads, self._run(heads)
        except Exception as failed:
            # Where nobody fails alone all wait: a cycle without them goes on with those behind.
            odd = culprits(heads, self._run) or [(head, failed) for head in heads]
            for head, why in odd:
                self._leave_out(head, why)
            left_out = {head.workload.key for head, _ in odd}
            return self._decided([head for head in heads if head.workload.key not in left_out])

    def _run(self, heads: Sequence[Head]) -> CycleOutcome:
        backlog = self.kueue.backlog
        return run_cycle(backlog.accounts, heads, backlog.namespaces, self._options())

    def _leave_out(self, head: Head, failed: Exception) -> None:
        queue = self.kueue.backlog.pending.queues.get(head.queue)
        if queue is not None:
            queue.forget(head.workload.key)
        self.kueue.backlog.taken(head.workload.key)
        self.host.contain(self._again, _key(head.workload), failed)

    def _on_again(self, key: Key) -> None:
        """A workload that a cycle stumbled over waits for its turn once more."""
        obj = self.host.store.get(key)
        if obj is not None:
            self.kueue.backlog.enqueue(obj, self.host.loop.now_us)
            self.arm()

    def _options(self) -> CycleOptions:
        settings, backlog = self.kueue.settings, self.kueue.backlog
        waits = settings.pods_ready is not None and settings.pods_ready.blocks_admission
        return CycleOptions(
            number=self.number,
            now_us=self.host.loop.now_us,
            uses_fair_sharing=settings.uses_fair_sharing,
            strategies=settings.strategies,
            queue_usage=self.kueue.usage,
            ignores_undeclared=settings.ignores_undeclared,
            waits_for_pods_ready=waits,
            all_pods_ready=not backlog.holdings.not_ready,
        )

    def _plan_next(self, outcome: CycleOutcome, version: int) -> None:
        """Go on at once after progress, later without, and not at all where nothing would come of it."""
        now_us = self.host.loop.now_us
        backlog = self.kueue.backlog
        self._idle_until_us = max(now_us, self._busy_until_us)
        if outcome.made_progress:
            self._fared.clear()
            self._seen_version = version
            self._failures = 0
        else:
            signature = tuple(_signature(o) for o in outcome.entries)
            if version != self._seen_version:
                self._fared.clear()
            # A search over several flavors may stand at two places in turn: from here on it goes in a circle.
            is_repeated = signature in self._fared
            self._fared = [*self._fared[-_CIRCLE:], signature]
            self._seen_version = backlog.version
            if is_repeated:
                return
            cycle_us = self.host.latency.kueue_cycle
            if not cycle_us.is_zero:
                wait_us = min(
                    _BACKOFF_US << min(self._failures, _BACKOFF_MAX_US.bit_length()), _BACKOFF_MAX_US
                )
                self._idle_until_us += wait_us
            self._failures += 1
        self.arm()

    # What

    def _carry_out(self, outcome: CycleOutcome) -> None:
        """In the order of the requests: evictions and admissions first, then words to those refused."""
        self._busy_until_us = self.host.loop.now_us
        is_blocked = False
        for one in outcome.entries:
            try:
                self._carry_out_one(one, is_blocked=is_blocked)
            except Exception as failed:
                self._leave_out(one.head, failed)
            else:
                self.host.went_well(self._again, _key(one.head.workload))
            # Whoever comes after one that waits for pods was not looked at: the cycle stood there.
            is_blocked = is_blocked or one.status == Status.WAITING_FOR_PODS_READY

    def _carry_out_one(self, one: Outcome, *, is_blocked: bool) -> None:
        self._evict_all(one)
        if one.is_admitted:
            self._assume(one)
        elif one.status == Status.EVICTED:
            self.kueue.backlog.taken(one.head.workload.key)
        else:
            tells = one.updates_status or (one.status == Status.WAITING_FOR_PODS_READY)
            if self._requeue(one, tells=tells and not is_blocked):
                self._busy_until_us = self._request(self._busy_until_us)

    def _request(self, from_us: int) -> int:
        """When a request made at that time is answered."""
        return self.kueue.requests.take(WORKLOAD, from_us) + self._write_us()

    def _drop_unheard(self, head: Head, outcome: CycleOutcome) -> None:
        """A head that holds quota already is not even an entry: it waits no longer."""
        key = head.workload.key
        if key in self.kueue.backlog.accounts.holders and not head.workload.needs_second_pass:
            queue = self.kueue.backlog.pending.queues.get(head.queue)
            if queue is not None:
                queue.forget(key)
            self.kueue.backlog.taken(key)

    # Admission

    def _assume(self, outcome: Outcome) -> None:
        """Count it as admitted now; the API hears of it a write later."""
        workload, backlog = outcome.head.workload, self.kueue.backlog
        queue = backlog.pending.queues.get(outcome.head.queue)
        if queue is not None:
            queue.forget(workload.key)
        at_us = self._request(self._busy_until_us)
        if at_us > self.host.loop.now_us:
            obj = self._with_admission(outcome, workload.obj, self.host.loop.now_us)
            backlog.hold(self._facts(outcome, obj))
            self._admitting[workload.key] = (outcome, self.host.loop.now_us)
            self.host.loop.at(at_us, self._admit, workload.key, SCHEDULER)
        else:
            self._write_admission(outcome, self.host.loop.now_us)
        backlog.taken(workload.key)

    def _on_admit(self, key: str) -> None:
        assumed = self._admitting.pop(key, None)
        if assumed is not None:
            self._write_admission(*assumed)
            self.kueue.drain()

    def _write_admission(self, outcome: Outcome, decided_us: int) -> None:
        """Write it where it still applies, with the time it was decided at; else let go of the quota."""
        workload, backlog, store = outcome.head.workload, self.kueue.backlog, self.host.store
        key = _key(workload)
        before = store.get(key)
        may = before is not None and (
            is_admissible(before, self.kueue.settings.gates)
            or (workload.needs_second_pass and not is_finished(before) and is_active(before))
        )
        if before is None or not may or meta_of(before).get("uid") != workload.uid:
            backlog.release(workload.key)
            if before is not None:
                backlog.enqueue(before, self.host.loop.now_us)
            return
        self._passes.pop(workload.key, None)
        after = store.set_status(key, self._with_admission(outcome, before, decided_us)["status"])
        backlog.hold(self._facts(outcome, after))
        for event in admission_events(outcome, before, after, self.host.loop.now_us):
            self.kueue.tell(key, event.type, event.reason, event.message, ADMISSION)
        if outcome.replaced_slice is not None:
            self._finish_slice(outcome.replaced_slice, workload)
        if backlog.accounts.queues[outcome.head.queue].spec.uses_usage_ordering:
            self.kueue.charge(after)

    def _with_admission(self, outcome: Outcome, obj: Obj, decided_us: int) -> Obj:
        assert outcome.admission is not None
        queue = self.kueue.backlog.accounts.queues[outcome.head.queue].spec
        gates = self.kueue.settings.gates
        return statuses.admitted(obj, outcome.admission, queue, decided_us, gates)

    def _facts(self, outcome: Outcome, obj: Obj) -> Workload:
        assert outcome.admission is not None and outcome.assignment is not None
        workload = outcome.head.workload
        if workload.has_quota:
            return self.kueue.backlog.read(obj)
        held = outcome.assignment.held(workload)
        return self.kueue.backlog.reader.read_admitted(workload, obj, outcome.admission, held)

    def _finish_slice(self, old: Workload, by: Workload) -> None:
        key = _key(old)
        obj = self.host.store.get(key)
        if obj is not None and not is_finished(obj):
            ended = statuses.slice_replaced(obj, by, self.host.loop.now_us)
            self.host.store.set_status(key, ended["status"])
            self.tally.take(of_replacement(old.cluster_queue))
            message = statuses.replaced_message(by)
            self._emit((Event(old.key, "Normal", conds.SLICE_REPLACED, message),))

    # Eviction

    def _evict_all(self, outcome: Outcome) -> None:
        """At once as far as requests may go out; the cycle stands until the last is answered."""
        loop = self.host.loop
        asked_us = answered_us = self._busy_until_us
        for eviction in outcome.evictions:
            if eviction.is_under_way or eviction.workload.key in self._evicting:
                continue
            at_us = self._request(asked_us)
            answered_us = max(answered_us, at_us)
            if eviction.preemptor is not None:
                at_us = max(at_us, self._next_lap(eviction.workload.key))
            if at_us > loop.now_us:
                self._evicting[eviction.workload.key] = (eviction, outcome.head.queue)
                loop.at(at_us, self._evict_later, eviction.workload.key, SCHEDULER)
            else:
                self._evict(eviction, outcome.head.queue)
        self._busy_until_us = answered_us

    def _next_lap(self, key: str) -> int:
        """When a preemption may be written; it is on record where it goes round in a circle."""
        now_us = self.host.loop.now_us
        at_us = self._cycles_seen.earliest_us(key, now_us)
        if at_us > now_us:
            namespace, _, name = key.partition("/")
            told = "Preempted and admitted again, over and over, while no time passed: the next time takes a second"
            self.host.log.record(now_us, ADMISSION, WORKLOAD, namespace, name, "PreemptedInCircle", told)
        return at_us

    def _on_evict(self, key: str) -> None:
        self._evict(*self._evicting.pop(key))
        self.kueue.drain()

    def _evict(self, eviction: Eviction, preemptor_queue: str) -> None:
        key = _key(eviction.workload)
        obj = self.host.store.get(key)
        if obj is None or meta_of(obj).get("uid") != eviction.workload.uid:
            return
        status = status_of(obj)
        if conds.is_true(status, conds.EVICTED) or not conds.is_true(status, conds.QUOTA_RESERVED):
            return
        now_us = self.host.loop.now_us
        if eviction.preemptor is None:
            changed = statuses.evicted(obj, eviction.reason, eviction.message, now_us)
            told: tuple[Event, ...] = (
                evicted_event(eviction.workload.key, eviction.reason, eviction.message),
            )
        else:
            self._cycles_seen.note(eviction.workload.key, now_us)
            self.tally.take(of_preemption(preemptor_queue, eviction.reason))
            changed = statuses.preempted(obj, eviction, now_us)
            told = eviction_events(eviction, preemptor_queue)
        self.kueue.backlog.note_written(self.host.store.set_status(key, changed["status"]))
        self._emit(told)

    # Back to the queue

    def _requeue(self, outcome: Outcome, *, tells: bool) -> int:
        workload, backlog = outcome.head.workload, self.kueue.backlog
        key = _key(workload)
        obj = self.host.store.get(key)
        if workload.has_quota:
            if outcome.updates_status and obj is not None:
                self._emit((Event(workload.key, "Warning", "SecondPassFailed", outcome.message),))
                self.plan_pass(workload.key)
            return 0
        queue = backlog.pending.queues.get(outcome.head.queue)
        home = backlog.queue_of(workload.queue)
        if obj is None or queue is None or not is_admissible(obj, self.kueue.settings.gates):
            if queue is not None:
                queue.forget(workload.key)
            backlog.taken(workload.key)
            return 0
        now_us = self.host.loop.now_us
        written = obj
        if tells:
            written = self._tell(outcome, key, obj)
        if obj is not workload.obj:
            facts = backlog.read(written)
        else:
            facts = workload if written is obj else workload.told_by(written)
        if home is not queue or facts.queue != workload.queue:
            queue.forget(workload.key)
            backlog.taken(workload.key)
            backlog.enqueue(written, now_us)
            return int(tells)
        queue.requeue(
            outcome.head,
            facts,
            outcome.requeue_reason,
            scan=outcome.scan,
            no_fit_reason=outcome.reason,
            ready_us=ready_us(written),
            now_us=now_us,
        )
        return int(tells)

    def _tell(self, outcome: Outcome, key: Key, obj: Obj) -> Obj:
        gates = self.kueue.settings.gates
        now_us = self.host.loop.now_us
        if outcome.status == Status.WAITING_FOR_PODS_READY:
            reason = outcome.reason if gates.unadmitted_workloads_observability else "Waiting"
            changed = statuses.without_quota(obj, reason, outcome.message, now_us, gates)
            return self.host.store.set_status(key, changed["status"])
        changed = statuses.pending(obj, outcome, now_us, gates)
        event = pending_event(outcome, gates)
        self.kueue.tell(key, event.type, event.reason, event.message, ADMISSION)
        return self.host.store.set_status(key, changed["status"])

    # Second passes

    def plan_pass(self, key: str) -> None:
        """Schedule a workload with quota again, for its nodes; later every time."""
        tried = self._passes.get(key, 0)
        self._passes[key] = tried + 1
        delay_us = min(_SECOND_PASS_US << min(tried, _SECOND_PASS_MAX_US.bit_length()), _SECOND_PASS_MAX_US)
        self.host.loop.at(self.host.loop.now_us + delay_us, self._pass, key, SCHEDULER)

    def wants_pass(self, key: str) -> None:
        """A workload was seen to need one: plan it unless it is planned."""
        if key not in self._passes:
            self.plan_pass(key)

    def _on_pass(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        obj = self.host.store.get(Key(WORKLOAD, namespace, name))
        workload = None if obj is None else self.kueue.backlog.read(obj)
        if workload is None or not workload.needs_second_pass:
            self._passes.pop(key, None)
            return
        head = Head(workload, workload.cluster_queue)
        self.kueue.backlog.pending.add_second_pass(head)
        self.arm()

    def _emit(self, events: tuple[Event, ...]) -> None:
        for event in events:
            namespace, _, name = event.key.partition("/")
            key = Key(WORKLOAD, namespace, name)
            self.kueue.tell(key, event.type, event.reason, event.message, ADMISSION)


def _key(workload: Workload) -> Key:
    namespace, _, name = workload.key.partition("/")
    return Key(WORKLOAD, namespace, name)


def _signature(outcome: Outcome) -> Signature:
    """Equal: the same head fared the same, and its search over flavors stands where it stood."""
    scan = outcome.scan
    tried = None if scan is None else scan.tried
    return outcome.head.workload.key, outcome.status, outcome.message, tried
