"""Whatever happens, in any order: the books are right, forks agree, waiting has a true reason."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kueueworld import World, job, local_queue, node, priority_class, queue

from fairway.cluster.errors import ApiError
from fairway.kube.objects import spec_of, status_of
from fairway.queueing.facts.workloads import key_of
from fairway.queueing.integrations.ownership import WORKLOAD

QUEUES = ("a", "b", "c")
Step = tuple[str, str, int, int]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("job"), st.sampled_from(QUEUES), st.integers(1, 6), st.integers(1, 3)),
        st.tuples(st.just("short"), st.sampled_from(QUEUES), st.integers(1, 4), st.integers(1, 2)),
        st.tuples(st.just("high"), st.sampled_from(QUEUES), st.integers(1, 5), st.integers(1, 2)),
        st.tuples(st.just("delete"), st.sampled_from(QUEUES), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("grow"), st.sampled_from(QUEUES), st.just(0), st.just(0)),
        st.tuples(st.just("stop"), st.sampled_from(QUEUES), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("deactivate"), st.sampled_from(QUEUES), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("wait"), st.just("a"), st.integers(1, 9), st.just(0)),
    ),
    min_size=1,
    max_size=12,
)


def new_world() -> World:
    preempting = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    return World().apply(
        queue("a", 4, cohort="all", preemption=preempting),
        queue("b", 4, cohort="all", preemption=preempting, quota={"borrowingLimit": "2"}),
        queue("c", 2, queueingStrategy="StrictFIFO"),
        *(local_queue(name) for name in QUEUES),
        *(node(f"n{i}", 8) for i in range(3)),
        priority_class("high", 1000),
    )


def do(world: World, number: int, step: Step) -> None:
    verb, where, amount, pods = step
    name = f"j{number}"
    if verb in ("job", "short", "high"):
        runs = "7s" if verb == "short" else "forever"
        priority = "high" if verb == "high" else ""
        world.apply(job(name, where, gpus=amount, pods=pods, runs=runs, priority=priority))
    elif verb == "delete":
        try_it(world, lambda: world.delete("Job.batch", f"j{amount}", where))
    elif verb == "grow":
        # Quota below what is used is not taken away from anybody, so it only grows here.
        resources = [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]
        group: Any = {
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{"name": "default", "resources": resources}],
        }
        world.patch("ClusterQueue.kueue.x-k8s.io", where, {"spec": {"resourceGroups": [group]}})
    elif verb == "stop":
        policy = ("None", "Hold", "HoldAndDrain")[amount]
        world.patch("ClusterQueue.kueue.x-k8s.io", where, {"spec": {"stopPolicy": policy}})
    elif verb == "deactivate":
        found = [w for w in world.objects(WORKLOAD) if w["metadata"]["namespace"] == where]
        if found:
            chosen = found[amount % len(found)]
            active = spec_of(chosen).get("active") is False
            world.patch(WORKLOAD, chosen["metadata"]["name"], {"spec": {"active": active}}, where)
    world.run(amount if verb == "wait" else 1)


def try_it(world: World, action: Any) -> None:
    try:
        action()
    except ApiError:
        world.run(0)


@settings(max_examples=25, deadline=None)
@given(steps)
def test_usage_is_the_sum_of_what_is_admitted(program: list[Step]) -> None:
    world = new_world()
    for number, step in enumerate(program):
        do(world, number, step)
        world.check_books()
    world.run(5).check_books()


@settings(max_examples=25, deadline=None)
@given(steps)
def test_changes_that_call_for_no_look_leave_nothing_undone(program: list[Step]) -> None:
    world = new_world()
    for number, step in enumerate(program):
        do(world, number, step)
        world.check_settled()


@settings(max_examples=15, deadline=None)
@given(steps)
def test_whoever_waits_has_a_reason_that_is_true(program: list[Step]) -> None:
    world = new_world()
    for number, step in enumerate(program):
        do(world, number, step)
    world.run(10)
    backlog = world.kueue.backlog
    for workload in world.objects(WORKLOAD):
        now = {c["type"]: c for c in status_of(workload).get("conditions") or ()}
        reserved = now.get("QuotaReserved")
        if "Finished" in now or (reserved is not None and reserved["status"] == "True"):
            continue
        where = workload["metadata"]["namespace"]
        if reserved is None:
            # Never looked at: somebody stands before it in a queue that waits for its head, or an equal one
            # was refused since anything changed. Kueue says nothing then, either.
            refused = backlog.pending.queues[where].refused_reason(key_of(workload))
            assert where == "c" or refused is not None
            continue
        if reserved["reason"] == "WaitingForQuota":
            account = backlog.accounts.queues[where]
            asked = sum(ps["count"] for ps in spec_of(workload)["podSets"]) * int(
                spec_of(workload)["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"][
                    "nvidia.com/gpu"
                ]
            )
            free = min(account.free(fr) for fr in account.spec.quotas)
            assert asked > free or where == "c"
        elif reserved["reason"] == "Suspended":
            assert backlog.accounts.queues[where].inactivity is not None
        elif reserved["reason"] == "Deactivated":
            assert spec_of(workload)["active"] is False


@settings(max_examples=10, deadline=None)
@given(steps, steps)
def test_a_fork_goes_on_as_the_original(before: list[Step], after: list[Step]) -> None:
    world = new_world()
    for number, step in enumerate(before):
        do(world, number, step)
    twin = World.__new__(World)
    twin.twin = world.twin.fork()
    for number, step in enumerate(after, len(before)):
        do(world, number, step)
        do(twin, number, step)
    world.run(10)
    twin.run(10)
    assert world.twin.digest() == twin.twin.digest()
    twin.check_books()
