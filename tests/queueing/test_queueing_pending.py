"""The queues between cycles: who is the head, who waits for an event, and what wakes them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueworld import NOW_S, wl

from fairway.queueing.cycle.entries import Head, RequeueReason
from fairway.queueing.cycle.pending import ClusterQueuePending, PendingWorkloads
from fairway.queueing.facts.gates import DEFAULT_GATES
from fairway.queueing.facts.objects import BEST_EFFORT_FIFO, STRICT_FIFO
from fairway.queueing.facts.workloads import Workload, WorkloadReader
from fairway.queueing.flavors.assignment import ScanState

READER = WorkloadReader()


def read(name: str, gpu: int = 1, **more: Any) -> Workload:
    return READER.read(wl(name, "a", gpu, **more))


def pop(queue: ClusterQueuePending) -> str:
    head = queue.pop()
    return "" if head is None else head.workload.key.partition("/")[2]


def head_of(queue: ClusterQueuePending) -> Head:
    head = queue.pop()
    assert head is not None
    return head


def filled(strategy: str = BEST_EFFORT_FIFO, **of: tuple[int, int, int]) -> ClusterQueuePending:
    """name=(gpu, priority, age)."""
    queue = ClusterQueuePending("a", strategy)
    for name, (gpu, priority, age) in of.items():
        queue.push(read(name, gpu, priority=priority, age_s=age))
    return queue


def test_priority_first_then_age() -> None:
    queue = filled(young=(1, 0, 10), old=(1, 0, 90), urgent=(1, 5, 1))
    assert [pop(queue) for _ in range(4)] == ["urgent", "old", "young", ""]


def test_a_refused_line_steps_aside_as_a_whole() -> None:
    queue = filled(big1=(9, 0, 90), big2=(9, 0, 80), small=(1, 0, 10))
    head = head_of(queue)
    queue.requeue(head, head.workload, RequeueReason.NO_FIT, no_fit_reason="WaitingForQuota")
    assert sorted(queue.inadmissible()) == ["default/big1", "default/big2"]
    assert queue.refused_reason("default/big2") == "WaitingForQuota"
    assert pop(queue) == "small"


def test_a_newcomer_of_a_refused_line_waits_with_it() -> None:
    queue = filled(big1=(9, 0, 90))
    head = head_of(queue)
    queue.requeue(head, head.workload, RequeueReason.PREEMPTION_NO_CANDIDATES)
    queue.push(read("big2", 9))
    queue.push(read("small", 1))
    assert queue.active() == ("default/small",)


def test_an_event_wakes_everybody_in_order() -> None:
    queue = filled(big1=(9, 0, 90), big2=(9, 0, 80), small=(1, 0, 10))
    head = head_of(queue)
    queue.requeue(head, head.workload, RequeueReason.NO_FIT)
    queue.wake(0)
    assert [pop(queue) for _ in range(3)] == ["big1", "big2", "small"]


def test_an_event_wakes_every_line() -> None:
    queue = filled(big=(9, 0, 90), middle=(5, 0, 80), small=(1, 0, 10))
    queue.push(read("evicted", 3), ready_us=NOW_S + 60, now_us=NOW_S)
    for _ in range(3):
        head = head_of(queue)
        queue.requeue(head, head.workload, RequeueReason.NO_FIT)
    assert len(queue.inadmissible()) == 4 and queue.active() == ()
    for each in (queue.copy(), queue):
        each.wake(NOW_S)
        assert each.inadmissible() == ("default/evicted",)
        assert [pop(each) for _ in range(4)] == ["big", "middle", "small", ""]


def test_an_event_while_in_flight_brings_the_head_straight_back() -> None:
    queue = filled(big1=(9, 0, 90))
    head = head_of(queue)
    queue.wake(0)
    queue.requeue(head, head.workload, RequeueReason.NO_FIT)
    assert queue.active() == ("default/big1",)


def test_strict_fifo_keeps_the_head_in_front() -> None:
    queue = filled(STRICT_FIFO, big=(9, 0, 90), small=(1, 0, 10))
    for _ in range(3):
        head = head_of(queue)
        assert head.workload.key == "default/big"
        queue.requeue(head, head.workload, RequeueReason.NO_FIT)


def test_strict_fifo_lets_a_wrong_namespace_wait() -> None:
    queue = filled(STRICT_FIFO, big=(9, 0, 90), small=(1, 0, 10))
    head = head_of(queue)
    queue.requeue(head, head.workload, RequeueReason.NAMESPACE_MISMATCH)
    assert pop(queue) == "small"


def test_who_preempted_stays_in_front_until_its_victims_are_gone() -> None:
    queue = filled(preemptor=(4, 0, 10), other=(1, 0, 5))
    head = head_of(queue)
    queue.requeue(head, head.workload, RequeueReason.PENDING_PREEMPTION)
    queue.push(read("urgent", 1, priority=9))
    again = head_of(queue)
    assert (again.workload.key, again.is_preemptor) == ("default/preemptor", True)


def test_a_backoff_outlasts_an_event() -> None:
    queue = filled()
    queue.push(read("evicted"), ready_us=NOW_S + 60, now_us=NOW_S)
    queue.wake(NOW_S + 10)
    assert queue.active() == ()
    queue.wake(NOW_S + 60)
    assert queue.active() == ("default/evicted",)


def test_a_wrong_namespace_sleeps_through_events() -> None:
    queue = filled(one=(1, 0, 5))
    head = head_of(queue)
    queue.requeue(head, head.workload, RequeueReason.NAMESPACE_MISMATCH)
    queue.wake(0, lambda namespace: namespace != "default")
    assert queue.inadmissible() == ("default/one",)


def test_a_removed_workload_is_not_popped() -> None:
    queue = filled(one=(1, 0, 90), two=(1, 0, 10))
    queue.remove("default/one")
    assert pop(queue) == "two"


def test_a_changed_workload_takes_its_new_place() -> None:
    queue = filled(one=(1, 0, 90), two=(1, 0, 10))
    queue.push(read("two", 1, priority=7, age_s=10))
    assert [pop(queue), pop(queue), pop(queue)] == ["two", "one", ""]


def test_writing_its_own_refusal_does_not_wake_a_workload() -> None:
    queue = filled(one=(1, 0, 90))
    head = head_of(queue)
    queue.requeue(head, head.workload, RequeueReason.GENERIC)
    told = {**head.workload.obj, "status": {"conditions": [{"type": "QuotaReserved", "status": "False"}]}}
    queue.push(READER.read(told))
    assert queue.inadmissible() == ("default/one",)
    queue.push(read("one", 2, age_s=90))
    assert queue.active() == ("default/one",)


@pytest.mark.parametrize("keeps", [True, False])
def test_an_update_keeps_the_place_in_the_search_over_flavors_by_its_gate(keeps: bool) -> None:
    """Source: manager.go AddOrUpdateWorkloadWithoutLock builds the facts anew, scan progress included."""
    gates = replace(DEFAULT_GATES, flavor_fungibility_preserve_scan_progress=keeps)
    queue = ClusterQueuePending("a", BEST_EFFORT_FIFO, gates)
    queue.push(read("w"))
    head = head_of(queue)
    scan = ScanState(({"gpu": 0},), generation=1, cycle=1, alike=head.workload.hash)
    queue.requeue(head, head.workload, RequeueReason.FAILED_AFTER_NOMINATION, scan=scan)
    queue.push(read("w"))
    assert head_of(queue).scan == (scan if keeps else None)


def test_admission_fair_sharing_takes_from_the_queue_that_used_least() -> None:
    queue = filled(heavy=(1, 9, 90))
    light = READER.read(wl("light", "b", 1))
    queue.push(light)
    usage = {"default/a": 5.0, "default/b": 1.0}
    head = queue.pop(usage.__getitem__)
    assert head is not None and head.workload.key == "default/light"


def test_heads_come_one_per_active_queue() -> None:
    queues = PendingWorkloads()
    for name in ("a", "b", "c"):
        queues.queue(name).push(READER.read(wl(f"w-{name}", name)))
    heads = queues.heads(lambda name: name != "b")
    assert [h.workload.key for h in heads] == ["default/w-a", "default/w-c"]


def test_heads_come_in_the_order_of_the_queues_whoever_was_filled_first() -> None:
    queues = PendingWorkloads()
    for name in ("a", "b", "c"):
        queues.queue(name)
    assert not queues.heads(lambda _: True)
    # A ClusterQueue that was deleted and made again comes last.
    del queues.queues["a"]
    queues.queue("a")
    for name in ("c", "a", "b"):
        queues.queues[name].push(READER.read(wl(f"w-{name}", name)))
    assert [h.queue for h in queues.heads(lambda _: True)] == ["b", "c", "a"]


def test_a_copy_finds_its_own_heads() -> None:
    queues = PendingWorkloads()
    queues.queue("a").push(READER.read(wl("one", "a")))
    twin = queues.copy()
    twin.queues["a"].push(READER.read(wl("two", "a", age_s=10**6)))
    assert [h.workload.key for h in twin.heads(lambda _: True)] == ["default/two"]
    assert [h.workload.key for h in queues.heads(lambda _: True)] == ["default/one"]
    queues.queue("b").push(READER.read(wl("three", "b")))
    assert "default/three" not in [h.workload.key for h in twin.heads(lambda _: True)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_lines_order_as_one_sorted_list_would(seed: int) -> None:
    """Whatever is pushed, refused, woken and removed, the head is the first of the active ones."""
    draw = random.Random(seed)
    queue = ClusterQueuePending("a")
    active: dict[str, Workload] = {}
    parked: dict[str, Workload] = {}
    refused: dict[object, None] = {}
    for step in range(60):
        action = draw.choice(("push", "push", "pop", "wake", "remove"))
        if action == "push":
            w = read(f"w{step}", draw.randint(1, 3), priority=draw.randint(0, 2), age_s=draw.randint(1, 9))
            queue.push(w)
            (parked if w.hash in refused else active)[w.key] = w
        elif action == "pop":
            want = min(active.values(), key=lambda w: (-w.priority, w.order_us, w.uid), default=None)
            head = queue.pop()
            assert (head and head.workload) == want
            if head is not None:
                del active[head.workload.key]
                if draw.random() < 0.5:
                    queue.requeue(head, head.workload, RequeueReason.NO_FIT)
                    refused[head.workload.hash] = None
                    parked[head.workload.key] = head.workload
                    for key in [k for k, w in active.items() if w.hash == head.workload.hash]:
                        parked[key] = active.pop(key)
                else:
                    queue.forget(head.workload.key)
        elif action == "wake":
            queue.wake(0)
            active |= parked
            parked.clear()
            refused.clear()
        elif active or parked:
            key = draw.choice(sorted(active | parked))
            queue.remove(key)
            active.pop(key, None)
            parked.pop(key, None)
        assert sorted(queue.active()) == sorted(active)
        assert sorted(queue.inadmissible()) == sorted(parked)
