"""Kueue's cycles in time, and what it keeps between them: when the next one is, what is written and what is dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from kueueworld import GPU, KUEUE, World, flavor, job, local_queue, node, priority_class, queue

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj, key_of, meta_of, name_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.settings import DEFAULT_KUEUE
from fairway.queueing.cycle.entries import CycleOutcome, Eviction, Head, Outcome, RequeueReason, Status
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.twin.distributions import constant
from fairway.twin.kueue import cycles as turns
from fairway.twin.kueue.cycles import Cycles
from fairway.twin.kueue.preemptioncycles import PreemptionCycles
from fairway.twin.kueue.reconciling import holding, reconcile, tell_consumed
from fairway.twin.kueue.topology import Topologies, _holds
from fairway.twin.latency import NONE, Latency

CLUSTER_QUEUE, LOCAL_QUEUE = "ClusterQueue.kueue.x-k8s.io", "LocalQueue.kueue.x-k8s.io"
PREEMPTS = {"withinClusterQueue": "LowerPriority"}


def a_world(latency: Latency = NONE, **spec: Any) -> World:
    """Four GPUs of quota; `first` has all of them, `second` waits."""
    world = World(latency=latency).apply(node("n1", 8), queue("a", 4, **spec), local_queue("a"))
    world.apply(job("first", "a", gpus=4)).run(30)
    return world.apply(job("second", "a", gpus=4)).run(30)


def facts(world: World, name: str) -> Workload:
    return world.kueue.backlog.read(world.workload(name))


def refused(head: Head, message: str, status: Status = Status.SKIPPED) -> Outcome:
    return Outcome(head, status, message, "WaitingForQuota", RequeueReason.GENERIC, None, None)


def armed_in_us(world: World) -> int | None:
    """When the next cycle is to be."""
    at_us = world.kueue.cycles._armed_us
    return None if at_us < 0 else at_us - world.twin.now_us


# When the next cycle is.


def test_cycles_that_get_nowhere_follow_each_other_ever_slower_and_end_where_one_repeats_another() -> None:
    slow = replace(NONE, kueue_cycle=constant(7))
    world = a_world(slow)
    cycles, backlog = world.kueue.cycles, world.kueue.backlog
    head = Head(facts(world, "second"), "a")

    def next_in_us(*outcomes: Outcome, version: int | None = None) -> int | None:
        cycles._armed_us, cycles._busy_until_us = -1, world.twin.now_us + 100
        cycles._plan_next(CycleOutcome(outcomes), backlog.version if version is None else version)
        return armed_in_us(world)

    admitted = refused(head, "", Status.ASSUMED)
    assert next_in_us(admitted) == 107
    waits = [next_in_us(refused(head, f"word {i}")) for i in range(7)]
    assert waits == [1107, 2107, 4107, 8107, 10107, 10107, 10107]
    assert next_in_us(refused(head, "word 3")) is None, "as one before: nothing will come of it"
    assert next_in_us(refused(head, "word 3"), version=backlog.version - 1) == 10107, "something changed"
    assert next_in_us(refused(head, "word 3")) is None
    assert next_in_us(refused(head, "word 3", Status.PREEMPTION_GATED)) == 10107
    assert next_in_us(admitted, refused(head, "word 3")) == 107, "progress"
    assert next_in_us(refused(head, "word 3")) == 1107
    # It remembers 64 of them.
    for i in range(64):
        next_in_us(refused(head, f"other {i}"))
    assert len(cycles._fared) == 64 and next_in_us(refused(head, "word 3")) == 10107
    assert next_in_us(refused(head, "other 2")) is None


def test_where_cycles_take_no_time_none_waits_for_another() -> None:
    world = a_world()
    cycles, head = world.kueue.cycles, Head(facts(world, "second"), "a")
    cycles._busy_until_us = 0
    cycles._plan_next(CycleOutcome((refused(head, "w"),)), world.kueue.backlog.version - 1)
    assert armed_in_us(world) == 0 and cycles._idle_until_us == world.twin.now_us
    # Armed already: once is enough.
    cycles._armed_us = world.twin.now_us + 5
    cycles.arm()
    assert armed_in_us(world) == 5


def test_second_passes_come_later_every_time_and_are_planned_once() -> None:
    world = a_world()
    cycles, key = world.kueue.cycles, facts(world, "first").key
    before = {s: len(e) if isinstance(e, list) else 1 for s, e in world.twin.loop._slots.items()}

    def planned_s() -> list[float]:
        now = {s: len(e) if isinstance(e, list) else 1 for s, e in world.twin.loop._slots.items()}
        added = [s for s in now if now[s] != before.get(s)]
        before.update(now)
        return [((s >> 6) - world.twin.now_us) / SECOND_US for s in added]

    found = []
    for _ in range(7):
        cycles.plan_pass(key)
        found.append(planned_s())
    assert found == [[1], [2], [4], [8], [16], [30], [30]]
    cycles.wants_pass(key)
    assert planned_s() == []
    cycles.wants_pass("a/other")
    assert planned_s() == [1] or cycles._passes["a/other"] == 1
    # Nothing of either is to be placed anew: they are forgotten, and no cycle is asked for.
    for one in (key, "a/other"):
        cycles._on_pass(one)
    assert cycles._passes == {} and armed_in_us(world) is None


def test_outcomes_are_alike_where_the_same_workload_fared_the_same() -> None:
    world = a_world()
    first, second = (Head(facts(world, name), "a") for name in ("first", "second"))
    plain = refused(second, "w")
    assert turns._signature(plain) == turns._signature(refused(second, "w"))
    for other in (refused(first, "w"), refused(second, "v"), refused(second, "w", Status.PREEMPTION_GATED)):
        assert turns._signature(plain) != turns._signature(other)


# What is written.


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("", True),
        ("uid", False),
        ("gone", False),
        ("waits", False),
        ("evicted", False),
    ],
)
@pytest.mark.parametrize("preempts", [True, False])
def test_an_eviction_is_written_where_it_still_applies(change: str, wanted: bool, preempts: bool) -> None:
    world = a_world()
    found, preemptor = facts(world, "first"), facts(world, "second")
    if change == "waits":
        found, preemptor = preemptor, found
    if change == "gone":
        world.twin.store.patch(Key(WORKLOAD, *found.key.split("/")), {"metadata": {"finalizers": None}})
        world.twin.store.delete(Key(WORKLOAD, *found.key.split("/")))
    if change == "uid":
        found.uid = "another"
    if change == "evicted":
        done = {
            "type": "Evicted",
            "status": "True",
            "reason": "Other",
            "message": "",
            "lastTransitionTime": None,
        }
        before = [c for c in status_of(world.workload("first"))["conditions"] if c["type"] != "Evicted"]
        patch = {"status": {"conditions": [*before, done]}}
        world.twin.store.patch(Key(WORKLOAD, *found.key.split("/")), patch)
    version = world.twin.store.version
    reason = "InClusterQueue" if preempts else "NodeFailures"
    asked = Eviction(found, reason, "to make room", preemptor if preempts else None)
    world.kueue.cycles._evict(asked, "a")
    told = [(t.reason, t.message.partition(";")[0]) for t in world.twin.host.events.told()]
    if not wanted:
        assert world.twin.store.version == version
        assert not [r for r, _ in told if r.startswith("Evicted") or r == "Preempted"]
        return
    said = {k: (c["status"], c["reason"]) for k, c in world.conditions("first").items()}
    assert said["Evicted"] == ("True", "Preempted" if preempts else "NodeFailures")
    assert said.get("Preempted") == (("True", "InClusterQueue") if preempts else None)
    counted = [s for s in world.kueue.cycles.tally.samples() if s.name == "kueue_preempted_workloads_total"]
    assert [(s.labels, s.value) for s in counted] == ([(("a", reason, "leader"), 1)] if preempts else [])
    ends = (
        ["EvictedDueToPreempted", "Preempted", "PreemptedWorkload"]
        if preempts
        else ["EvictedDueToNodeFailures"]
    )
    assert [r for r, _ in told if r.startswith(("Evicted", "Preempted"))] == ends
    # The books know at once.
    assert world.kueue.backlog.accounts.holders[found.key].is_evicted


def test_an_admission_that_no_longer_applies_is_dropped_and_its_quota_given_back() -> None:
    """Deactivated, on hold, finished or another object of the same name; without it, it is written."""
    for change in ("", "inactive", "finished", "uid", "gone"):
        world = World(latency=replace(NONE, api_write=constant(4 * SECOND_US)))
        world.apply(node("n1", 8), queue("a", 4), local_queue("a")).run(30)
        world.apply(job("first", "a", gpus=4))
        while not world.kueue.cycles._admitting:
            world.twin.loop.step()
        (key,) = world.kueue.cycles._admitting
        outcome, decided_us = world.kueue.cycles._admitting[key]
        assert decided_us == world.twin.now_us and key in world.kueue.backlog.accounts.holders
        at = Key(WORKLOAD, *key.split("/"))
        if change == "inactive":
            world.twin.store.patch(at, {"spec": {"active": False}})
        elif change == "finished":
            over = {
                "type": "Finished",
                "status": "True",
                "reason": "R",
                "message": "",
                "lastTransitionTime": None,
            }
            world.twin.store.patch(at, {"status": {"conditions": [over]}})
        elif change == "uid":
            outcome.head.workload.uid = "another"
        elif change == "gone":
            world.twin.store.patch(at, {"metadata": {"finalizers": None}})
            world.twin.store.delete(at)
        world.kueue.cycles._on_admit(key)
        assert world.kueue.cycles._admitting == {}
        assert (key in world.kueue.backlog.accounts.holders) is (change == "")
        obj = world.twin.store.get(at)
        assert (obj is not None and "admission" in status_of(obj)) is (change == "")
        queued = world.kueue.backlog.pending.queues["a"].get(key) is not None
        assert queued is (change == "uid"), "one that may be admitted waits again"
        assert bool(world.events("QuotaReserved")) is (change == "")
        # Nothing is on its way any more.
        world.kueue.cycles._on_admit(key)


def test_nobody_is_remembered_as_preemptor_once_it_is_admitted() -> None:
    world = World().apply(node("n1", 8), priority_class("high", 9), queue("a", 4, preemption=PREEMPTS))
    world.apply(local_queue("a"), job("low", "a", gpus=4)).run(5)
    world.apply(job("high", "a", gpus=4, priority="high")).run(5)
    assert world.admitted() == ["high"]
    pending = world.kueue.backlog.pending.queues["a"]
    assert (pending._inflight, pending._sticky, pending._preemptor) == ("", "", None)
    assert world.kueue.backlog.pending_by("a/lq") == 1


def test_who_a_cycle_stumbles_over_is_left_out_and_comes_again() -> None:
    world = a_world()
    queue_of_a, backlog = world.kueue.backlog.pending.queues["a"], world.kueue.backlog
    found = facts(world, "second")
    queue_of_a._inflight = queue_of_a._sticky = found.key
    for name in ("a", "nobody"):
        with pytest.raises(ValueError, match="odd"):
            # Nothing is contained here: who failed is told at once.
            world.kueue.cycles._leave_out(Head(found, name), ValueError("odd"))
    assert (queue_of_a._inflight, queue_of_a._sticky) == ("", "")
    queue_of_a.remove(found.key)
    assert queue_of_a.get(found.key) is None
    world.kueue.cycles._on_again(key_of(world.workload("second")))
    assert queue_of_a.get(found.key) is not None and armed_in_us(world) == 0
    world.kueue.cycles._on_again(Key(WORKLOAD, "a", "nobody"))
    assert backlog.pending_by("a/lq") == 1


def test_a_head_with_quota_waits_no_longer() -> None:
    world = a_world()
    cycles, queue_of_a = world.kueue.cycles, world.kueue.backlog.pending.queues["a"]
    first, second = facts(world, "first"), facts(world, "second")
    nothing = CycleOutcome(())
    for found, forgotten in ((second, False), (first, True)):
        queue_of_a._inflight = queue_of_a._sticky = found.key
        cycles._drop_unheard(Head(found, "a"), nothing)
        assert (queue_of_a._inflight == "", queue_of_a._sticky == "") == (forgotten, forgotten)
    cycles._drop_unheard(Head(first, "nobody"), nothing)
    first.needs_second_pass = True
    queue_of_a._inflight = first.key
    cycles._drop_unheard(Head(first, "a"), nothing)
    assert queue_of_a._inflight == first.key


def test_what_a_cycle_is_told_to_go_by() -> None:
    world = a_world()
    said = world.kueue.cycles._options()
    assert (said.number, said.now_us) == (world.kueue.cycles.number, world.twin.now_us)
    assert not said.waits_for_pods_ready and said.all_pods_ready and said.queue_usage is None
    assert (said.uses_fair_sharing, said.ignores_undeclared) == (False, False)


def test_a_copy_of_the_cycles_has_all_and_shares_nothing_that_changes() -> None:
    cycles = Cycles()
    head = Head(facts(a_world(), "second"), "a")
    outcome, eviction = refused(head, "w"), (Eviction(head.workload, "R", "m"), "a")
    cycles.number, cycles._armed_us, cycles._idle_until_us, cycles._failures = 2, 3, 4, 5
    cycles._fared, cycles._seen_version = [("a",)], 6
    cycles._admitting, cycles._evicting = {"x": (outcome, 7)}, {"y": eviction}
    cycles._busy_until_us, cycles._passes, cycles._took_us = 8, {"z": 9}, 10
    cycles._cycles_seen.note("k", 11)
    cycles.tally.add("kueue_evicted_workloads_total", "a")

    def state(one: Cycles) -> list[Any]:
        numbers = (one.number, one._armed_us, one._idle_until_us, one._failures, one._seen_version)
        tables: Iterable[Any] = (one._admitting, one._evicting, one._passes, one._cycles_seen._seen)
        kept = [list(one._fared), one._busy_until_us, one._took_us, one._cycles_seen._swept_us]
        return [*numbers, *(dict(t) for t in tables), *kept, one.tally.samples()]

    twin, before = cycles.copy(), state(cycles)
    assert state(twin) == before
    for table in (twin._admitting, twin._evicting, twin._passes, twin._cycles_seen._seen):
        table.clear()
    twin._fared.clear()
    twin.tally.add("kueue_evicted_workloads_total", "a")
    assert state(cycles) == before


# Circles.


def test_preemptions_with_no_time_between_take_a_second_from_the_fourth_on() -> None:
    """Against the list of all preemptions there were: a run is those that follow each other as the rule says."""
    draw = Random(3)
    for _ in range(150):
        seen, times, now = PreemptionCycles(), dict[str, list[int]](), draw.randint(0, 3) * SECOND_US
        for _ in range(24):
            now += draw.choice((0, 0, 0, 1, SECOND_US - 1, SECOND_US, SECOND_US + 1))
            key = draw.choice("ab")
            mine = times.setdefault(key, [])
            run = 0
            for before, after in zip([None, *mine], [*mine, now], strict=True):
                follows = before is not None and (
                    after == before or (run >= 3 and after - before <= SECOND_US)
                )
                if after is now and len(mine) and after == now and before == mine[-1]:
                    wanted = mine[-1] + SECOND_US if run >= 3 and follows else now
                run = run + 1 if follows else 1
            if not mine:
                wanted = now
            assert seen.earliest_us(key, now) == wanted, (mine, now)
            if draw.random() < 0.7:
                seen.note(key, now)
                mine.append(now)


def test_preemptions_older_than_a_second_are_forgotten() -> None:
    seen = PreemptionCycles()
    seen.note("a", 5 * SECOND_US)
    seen.note("b", 6 * SECOND_US)
    assert seen._seen == {"a": (5 * SECOND_US, 1), "b": (6 * SECOND_US, 1)}
    seen.note("c", 6 * SECOND_US + 1)
    assert list(seen._seen) == ["b", "c"] and seen._swept_us == 6 * SECOND_US + 1
    seen.note("d", 7 * SECOND_US + 1)
    assert list(seen._seen) == ["b", "c", "d"]


# Looks at other objects.


def test_a_priority_class_moves_its_workloads_alone() -> None:
    world = World()
    refs: dict[str, tuple[Obj | None, int | None]] = {
        "same": ({"kind": "WorkloadPriorityClass", "name": "p"}, 7),
        "older": ({"kind": "WorkloadPriorityClass", "name": "p"}, 3),
        "unset": ({"kind": "WorkloadPriorityClass", "name": "p"}, None),
        "other": ({"kind": "WorkloadPriorityClass", "name": "q"}, 3),
        "core": ({"kind": "PriorityClass", "name": "p"}, 3),
        "none": (None, 3),
    }
    for name, (ref, value) in refs.items():
        spec = {k: v for k, v in (("priorityClassRef", ref), ("priority", value)) if v is not None}
        meta = {"name": name, "namespace": "a"}
        world.twin.store.create({"apiVersion": KUEUE, "kind": "Workload", "metadata": meta, "spec": spec})
    for value, moved in ((7, ["older", "unset"]), (3, ["same", "unset"])):
        world.apply(priority_class("p", value))
        decided = reconcile(world.kueue, ("look", Key("WorkloadPriorityClass.kueue.x-k8s.io", "", "p")))
        found = {a.key.name: a.patch for a in decided.actions}  # type: ignore[union-attr]
        assert found == {name: {"spec": {"priority": value}} for name in moved}
        assert (decided.again_at_us, decided.is_blocked, decided.settles) == (None, False, False)


def test_what_admitted_workloads_hold_is_summed_over_flavors() -> None:
    flavors = [
        {
            "name": name,
            "resources": [{"name": GPU, "nominalQuota": quota}, {"name": "cpu", "nominalQuota": "9"}],
        }
        for name, quota in (("default", "4"), ("spot", "2"))
    ]
    world = World().apply(flavor("spot"), node("n1", 8), queue("a", 0), local_queue("a"))
    groups = [{"coveredResources": [GPU, "cpu"], "flavors": flavors}]
    world.patch(CLUSTER_QUEUE, "a", {"spec": {"resourceGroups": groups}})
    world.apply(job("one", "a", gpus=3)).run(2).apply(job("two", "a", gpus=2)).run(2)
    assert world.admitted() == ["one", "two"]
    assert {k: v for k, v in holding(world.kueue, "a/lq").items() if v} == {GPU: 5}
    assert holding(world.kueue, "a/other") == {}


def test_consumption_is_written_where_the_queue_goes() -> None:
    from decimal import Decimal

    def told(world: World) -> Any:
        key = Key(LOCAL_QUEUE, "a", "lq")
        version = world.twin.store.version
        tell_consumed(world.kueue, "a/lq", {GPU: Decimal(3)})
        wrote = world.twin.store.version > version
        fair = status_of(world.twin.store.require(key)).get("fairSharing")
        assert wrote is (fair is not None)
        return None if fair is None else fair["admissionFairSharingStatus"]["consumedResources"]

    assert told(a_world()) == {GPU: "3"}
    for gk, namespace, name in ((CLUSTER_QUEUE, "", "a"), (LOCAL_QUEUE, "a", "lq")):
        world = a_world()
        world.patch(gk, name, {"spec": {"stopPolicy": "Hold"}}, namespace).run(0)
        assert told(world) is None


# Topologies: pods and nodes.

RACKS = {
    "apiVersion": KUEUE,
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": n} for n in ("rack", "kubernetes.io/hostname")]},
}
ASKS = {
    f"kueue.x-k8s.io/podset-{kind}-topology": value
    for kind, value in (("required", "rack"), ("preferred", "rack"), ("unconstrained", "true"))
}


def racks(*, awake: bool = True, replaces: bool = True) -> World:
    gates, _ = gates_from({"TASFailedNodeReplacement": replaces})
    world = World(replace(DEFAULT_KUEUE, gates=gates))
    if awake:
        world.apply(RACKS, flavor("tas", nodeLabels={"pool": "x"}, topologyName="racks"))
    world.apply(*(node(f"n{i}", 4, rack="r1", pool="x") for i in (1, 2))).run(5)
    world.kueue.topologies.wake_up()
    assert world.kueue.topologies._is_awake is awake
    return world


def pod(name: str, on: str = "", phase: str = "Running", selector: str = "", **annotations: str) -> Obj:
    limits = {GPU: "2", "cpu": "500m"}
    spec: Obj = {"containers": [{"name": "c", "resources": {"requests": limits, "limits": limits}}]}
    if on:
        spec["nodeName"] = on
    if selector:
        spec["nodeSelector"] = {"kubernetes.io/hostname": selector}
    meta = {"name": name, "namespace": "a", "uid": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def hear(world: World, obj: Obj, old: Obj | None = None, *, gone: bool = False) -> None:
    change = Change(1, DELETED if gone else ADDED if old is None else MODIFIED, key_of(obj), obj, old)
    if obj["kind"] == "Node":
        world.kueue.topologies.hear_node(change)
    elif obj["kind"] == "Workload":
        world.kueue.topologies.hear_workload(change)
    else:
        world.kueue.topologies.hear_pod(change)


def taken(world: World, on: str) -> dict[str, int]:
    return dict(world.kueue.backlog.accounts.foreign_usage(on))


ONE, TWO = {GPU: 2, "cpu": 500, "pods": 1}, {GPU: 4, "cpu": 1000, "pods": 2}


def test_pods_of_others_take_room_on_their_node_until_they_end() -> None:
    world = racks()
    version = world.kueue.backlog.version
    steps: list[tuple[Obj, bool, dict[str, int], bool]] = [
        (pod("p"), False, {}, False),
        (pod("p", "n1"), False, ONE, True),
        (pod("p", "n1"), False, ONE, False),
        (pod("q", "n1"), False, TWO, True),
        (pod("r", "n1", "Failed"), False, TWO, False),
        (pod("p", "n1", "Succeeded"), False, ONE, True),
        (pod("p", "n1", "Succeeded"), True, ONE, False),
        (pod("q", "n1"), True, {}, True),
    ]
    for obj, gone, wanted, matters in steps:
        hear(world, obj, gone=gone)
        assert (taken(world, "n1"), taken(world, "n2")) == (wanted, {})
        assert (world.kueue.backlog.version > version) is matters
        version = world.kueue.backlog.version
    assert world.kueue.topologies._foreign == {}


@pytest.mark.parametrize("asks", list(ASKS))
def test_pods_that_ask_for_a_topology_are_known_by_their_workload(asks: str) -> None:
    world = racks()
    asked, topologies = {asks: ASKS[asks]}, world.kueue.topologies
    workload, slice_name = "kueue.x-k8s.io/workload", "kueue.x-k8s.io/workload-slice-name"
    of_w = Key(WORKLOAD, "a", "w")

    def looked() -> list[tuple[str, str]]:
        found = [(tag, key.name) for tag, key in world.kueue._queued]
        world.kueue._queued = {}
        return found

    hear(world, pod("p", "n1", **asked))
    assert (topologies._members, looked()) == ({}, [])
    hear(world, pod("p", "n1", **asked, **{workload: "w"}))
    hear(world, pod("q", "", **asked, **{workload: "w", slice_name: "s"}))
    assert (topologies._members, looked()) == ({of_w: {"p": None, "q": None}}, [("ungate", "w")])
    hear(world, pod("r", "", **asked, **{slice_name: "s"}))
    assert topologies._members == {of_w: {"p": None, "q": None}, Key(WORKLOAD, "a", "s"): {"r": None}}
    assert looked() == [("ungate", "s")]
    for name, left in (("p", {of_w: {"q": None}}), ("q", {})):
        hear(world, pod(name, "n1", **asked, **{workload: "w"}), gone=True)
        assert {k: v for k, v in topologies._members.items() if k == of_w} == left
        assert looked() == [("ungate", "w")]
    assert taken(world, "n1") == {}


def test_a_pod_that_ends_or_waits_at_an_ill_node_has_it_looked_at() -> None:
    ours = {**ASKS, "kueue.x-k8s.io/workload": "w"}
    going = pod("p", "n1", **ours)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cases: list[tuple[str, Obj, bool, bool]] = [
        ("it runs", pod("p", "n1", **ours), False, False),
        ("it failed", pod("p", "n1", "Failed", **ours), False, True),
        ("it succeeded", pod("p", "n1", "Succeeded", **ours), False, True),
        ("it is going", going, False, True),
        ("it is gone", pod("p", "n1", **ours), True, True),
        ("it waits for the node", pod("p", selector="n1", **ours), False, True),
        ("it waited for it", pod("p", selector="n1", **ours), True, False),
        ("it waits for any", pod("p", **ours), False, False),
        ("another node", pod("p", "n2", "Failed", **ours), False, False),
        ("one that is no more", pod("p", "n9", "Failed", **ours), False, True),
    ]
    for replaces in (True, False):
        for told, obj, gone, wanted in cases:
            world = racks(replaces=replaces)
            world.twin.store.patch(
                Key("Node", "", "n1"), {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}
            )
            hear(world, obj, gone=gone)
            nodes = [key.name for tag, key in world.kueue._queued if tag == "node"]
            here = obj["spec"].get("nodeName") or "n1"
            assert nodes == ([here] if wanted and replaces else []), told


def test_nodes_whose_standing_changes_are_looked_at() -> None:
    def standing(ready: str = "True", *taints: str, **labels: str) -> Obj:
        obj = node("n1", 4, **labels)
        obj["spec"] = {"taints": [{"key": t, "effect": "NoExecute"} for t in taints]} if taints else {}
        obj["status"] = {
            "conditions": [{"type": "Ready", "status": ready}, {"type": "Other", "status": "True"}]
        }
        return obj

    well = standing()
    cases: list[tuple[Obj | None, Obj, bool, bool]] = [
        (well, standing(x="y"), False, False),
        (well, standing("False"), False, True),
        (well, standing("Unknown"), False, True),
        (standing("False"), standing("Unknown"), False, False),
        (well, standing("True", "t"), False, True),
        (standing("True", "t"), standing("True", "t", "u"), False, True),
        (standing("True", "t"), well, False, False),
        (standing("False"), well, False, False),
        (None, well, False, False),
        (node("n1", 4), standing("False"), False, False),
        (node("n1", 4), standing("Unknown"), False, False),
        (standing("False"), node("n1", 4), False, False),
        (well, node("n1", 4), False, True),
        (None, standing("False"), False, True),
        (well, well, True, True),
    ]
    for old, new, gone, wanted in cases:
        world = racks()
        hear(world, new, old, gone=gone)
        assert (("node", key_of(new)) in world.kueue._queued) is wanted, (old, new)
    for world in (racks(replaces=False), racks(awake=False)):
        hear(world, standing("False"), well)
        assert world.kueue._queued == {}


def test_pods_that_were_there_before_the_first_topology_count_from_then_on() -> None:
    world = racks(awake=False)
    world.twin.store.create(pod("p", "n1"))
    hear(world, pod("p", "n1"))
    assert taken(world, "n1") == {}
    world.apply(RACKS, flavor("tas", nodeLabels={"pool": "x"}, topologyName="racks")).run(1)
    hear(world, pod("q", "n2", "Failed"))
    assert world.kueue.topologies._is_awake
    assert (taken(world, "n1"), taken(world, "n2")) == (ONE, {})
    world.kueue.topologies.wake_up()
    assert taken(world, "n1") == ONE, "once"


def test_a_workload_holds_each_node_that_one_of_its_pod_sets_is_on() -> None:
    def assigned(name: str, *hosts: str) -> Obj:
        found: Obj = {"name": name, "count": len(hosts), "flavors": {GPU: "tas"}, "resourceUsage": {GPU: "1"}}
        domains = [{"values": [h], "count": 1} for h in hosts]
        return (
            {**found, "topologyAssignment": {"levels": ["kubernetes.io/hostname"], "domains": domains}}
            if hosts
            else found
        )

    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {GPU: "1"}}}]}}
    entries = [assigned("a", "n1", "n2"), assigned("b", "n3"), assigned("c")]
    obj = {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "a", "uid": "w"},
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": n, "count": 2, "template": template} for n in "abc"],
        },
        "status": {
            "conditions": [
                {"type": t, "status": "True", "reason": t, "message": ""}
                for t in ("QuotaReserved", "Admitted")
            ],
            "admission": {"clusterQueue": "a", "podSetAssignments": entries},
        },
    }
    held = racks().kueue.backlog.read(obj)
    assert [_holds(held, name) for name in ("n1", "n2", "n3", "n4", "n")] == [True, True, True, False, False]


def test_workloads_that_a_node_concerns_come_in_order() -> None:
    """Those whose pods are on the way to it; pods that are there already, or go elsewhere, say nothing."""
    world = racks()
    names = [f"w{i}" for i in (5, 3, 8, 1, 9, 2, 7, 4)]
    for name in [*names, "bound", "other"]:
        asked = {**ASKS, "kueue.x-k8s.io/workload": name}
        on = "n1" if name == "bound" else ""
        found = pod(f"p-{name}", on, selector="n2" if name == "other" else "n1", **asked)
        world.twin.store.create(found)
        hear(world, found)
    assert [key.name for key in world.kueue.topologies._concerned("n1")] == sorted(names)
    assert [key.name for key in world.kueue.topologies._concerned("n2")] == ["other"]
    assert world.kueue.topologies._concerned("n3") == []


def test_a_copy_of_the_topologies_shares_nothing_that_changes() -> None:
    key = Key(WORKLOAD, "a", "w")
    for awake in (True, False):
        found = Topologies()
        found._is_awake, found._members, found._foreign = awake, {key: {"p": None}}, {"a/q": ("n1", {GPU: 1})}
        twin = found.copy()
        assert (twin._is_awake, twin._members, twin._foreign) == (awake, found._members, found._foreign)
        twin._members[key]["r"] = None
        twin._foreign.clear()
        twin._members[Key(WORKLOAD, "a", "v")] = {}
        assert (found._members, found._foreign) == ({key: {"p": None}}, {"a/q": ("n1", {GPU: 1})})


def test_the_name_of_a_workload_in_the_books_leads_to_its_object() -> None:
    world = a_world()
    found = world.workload("first")
    assert turns._key(facts(world, "first")) == key_of(found) == Key(WORKLOAD, "a", name_of(found))
    assert meta_of(found)["namespace"] == "a"


def test_how_long_a_cycle_took_is_observed_in_seconds() -> None:
    """A quarter of a second to decide; where somebody is refused, the four of the write it waits for too."""
    slow = replace(NONE, kueue_cycle=constant(SECOND_US // 4), api_write=constant(4 * SECOND_US))
    world = World(latency=slow).apply(node("n1", 8), queue("a", 4), local_queue("a")).run(30)

    def observed() -> dict[tuple[str, ...], tuple[int, float]]:
        found = world.kueue.cycles.tally.observed()
        return {
            o.labels: (sum(o.counts), o.total)
            for o in found
            if o.name == "kueue_admission_attempt_duration_seconds"
        }

    world.apply(job("first", "a", gpus=4)).run(60)
    assert observed()["success", "leader"] == (1, 0.25)
    in_vain, _ = observed().get(("inadmissible", "leader"), (0, 0.0))
    world.apply(job("second", "a", gpus=4)).run(60)
    assert observed()["success", "leader"] == (1, 0.25)
    times, total = observed()["inadmissible", "leader"]
    assert times > in_vain and total == pytest.approx(0.25 * times + 4)
    counted = {s.labels: s.value for s in world.kueue.cycles.tally.samples() if "attempts" in s.name}
    assert counted == {("success", "leader"): 1, ("inadmissible", "leader"): times}


def test_where_requests_take_no_time_a_cycle_writes_at_once() -> None:
    """Admissions and evictions are there when the cycle is over; nothing is on its way."""
    world = World().apply(node("n1", 8), queue("a", 4, preemption=PREEMPTS), local_queue("a"))
    world.apply(priority_class("high", 9)).run(5)
    cycles, loop = world.kueue.cycles, world.twin.loop

    def after_next_cycle() -> tuple[list[str], list[str]]:
        number = cycles.number
        while cycles.number == number:
            loop.step()
        assert (cycles._admitting, cycles._evicting) == ({}, {})
        assert not world.kueue.backlog.touched.has_news
        evicted = [
            str(w["metadata"]["name"])[4:-6]
            for w in world.objects(WORKLOAD)
            if any(
                c["type"] == "Evicted" and c["status"] == "True" for c in status_of(w).get("conditions") or ()
            )
        ]
        return world.admitted(), evicted

    world.apply(job("low", "a", gpus=4))
    assert after_next_cycle() == (["low"], [])
    world.run(5).apply(job("high", "a", gpus=4, priority="high"))
    assert after_next_cycle() == (["low"], ["low"])
    assert cycles._busy_until_us == world.twin.now_us
