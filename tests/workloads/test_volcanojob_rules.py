"""Volcano's Jobs: what an action means in each phase, what follows from the counts, what policies order.

Source: volcano-sh/volcano pkg/controllers/job/state, job_controller_util.go applyPolicies.
"""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from fairway.cluster.actions import Create, Emit, perform
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.volcanojob import decide, phases, podgroups, policies
from fairway.workloads.volcanojob.policies import Ordered, judge

NOW = parse_rfc3339("2026-01-05T08:00:00Z")


def task(name: str, replicas: int = 2, least: int = 2, *rules: Obj) -> Any:
    return SimpleNamespace(name=name, replicas=replicas, min_available=least, policies=rules)


def job(*tasks: Any, least: int = 2, success: int | None = None, retries: int = 3, **more: Any) -> Any:
    listed = tasks or (task("t"),)
    found = SimpleNamespace(
        tasks=listed,
        replicas=sum(t.replicas for t in listed),
        min_available=least,
        min_success=success,
        max_retry=retries,
        min_of_tasks=sum(t.min_available for t in listed),
        policies=more.get("policies", ()),
        status=more.get("status", {}),
    )
    found.task = lambda name: next((t for t in listed if t.name == name), None)
    return found


ALIVE = ("", phases.PENDING, phases.RUNNING)
KILLS = {
    policies.ABORT_JOB: phases.ABORTING,
    policies.COMPLETE_JOB: phases.COMPLETING,
    policies.TERMINATE_JOB: phases.TERMINATING,
}


@pytest.mark.parametrize("phase", ALIVE)
def test_what_actions_mean_to_a_job_that_lives(phase: str) -> None:
    for action, leads_to in KILLS.items():
        plan = phases.plan(job(), phase, action)
        assert (plan.kind, plan.keeps, plan.next_phase({})) == (phases.KILL_JOB, phases.ENDED_PODS, leads_to)
    for action, kind, keeps in (
        (policies.RESTART_JOB, phases.KILL_JOB, ()),
        (policies.RESTART_TASK, phases.KILL_TARGET, phases.ENDED_PODS),
        (policies.RESTART_POD, phases.KILL_TARGET, phases.ENDED_PODS),
    ):
        plan, counts = phases.plan(job(), phase, action), {"retryCount": 1}
        assert (plan.kind, plan.keeps) == (kind, keeps)
        assert plan.next_phase(counts) == phases.RESTARTING
        assert counts == {"retryCount": 2}
    assert phases.plan(job(), phase, policies.SYNC).kind == phases.SYNC


@pytest.mark.parametrize(
    ("phase", "ends"),
    [
        (phases.COMPLETING, phases.COMPLETED),
        (phases.TERMINATING, phases.TERMINATED),
        (phases.ABORTING, phases.ABORTED),
    ],
)
def test_a_job_on_its_way_out_is_over_when_nothing_lives(phase: str, ends: str) -> None:
    for action in (policies.SYNC, policies.RESTART_JOB):
        plan = phases.plan(job(), phase, action)
        assert plan.kind == phases.KILL_JOB
        for counts in ({"terminating": 1}, {"pending": 1}, {"running": 1}):
            assert plan.next_phase(counts) == ""
        assert plan.next_phase({"succeeded": 1, "failed": 2, "unknown": 1}) == ends


@pytest.mark.parametrize("phase", [*phases.FINISHED, phases.ABORTED])
def test_a_job_that_is_over_stays_so(phase: str) -> None:
    plan = phases.plan(job(), phase, policies.SYNC)
    assert (plan.kind, plan.next_phase({"running": 1})) == (phases.KILL_JOB, "")


@pytest.mark.parametrize(
    ("counts", "retries", "want"),
    [
        ({"retryCount": 2}, 3, phases.PENDING),
        ({"retryCount": 3}, 3, phases.FAILED),
        ({"retryCount": 4}, 3, phases.FAILED),
        ({"terminating": 2}, 3, phases.PENDING),
        ({"terminating": 3}, 3, ""),
        ({}, 0, phases.FAILED),
    ],
)
def test_a_restart_is_over_once_enough_are_gone(counts: Obj, retries: int, want: str) -> None:
    given = job(task("t", 4), least=2, retries=retries)
    kinds = {
        policies.SYNC: phases.SYNC,
        policies.RESTART_TASK: phases.KILL_TARGET,
        policies.RESTART_POD: phases.KILL_TARGET,
    }
    for action, kind in kinds.items():
        plan = phases.plan(given, phases.RESTARTING, action)
        assert (plan.kind, plan.next_phase(dict(counts))) == (kind, want)


def test_a_pending_job_runs_once_enough_have_started() -> None:
    for running, succeeded, failed in product(range(3), repeat=3):
        plan = phases.plan(job(least=2), phases.PENDING, policies.SYNC)
        counts = {"running": running, "succeeded": succeeded, "failed": failed, "pending": 9}
        assert plan.next_phase(counts) == (phases.RUNNING if running + succeeded + failed >= 2 else "")


def test_how_a_running_job_ends_in_every_small_world() -> None:
    """Four pods in two tasks: enough successes complete it; all ended without them fail it."""
    for least, success, of_task in product((2, 4), (None, 1, 4), (1, 2)):
        given = job(task("a", 2, of_task), task("b", 2, of_task), least=least, success=success)
        for done_a, done_b in product(range(3), repeat=2):
            for pending in range(4):
                done = done_a + done_b
                for failed in {4 - done, 0}:
                    counts = {
                        "succeeded": done,
                        "failed": failed,
                        "pending": pending,
                        "taskStatusCount": {
                            "a": {"phase": {"Succeeded": done_a}},
                            "b": {"phase": {"Succeeded": done_b}},
                        },
                    }
                    got = phases.plan(given, phases.RUNNING, policies.SYNC).next_phase(counts)
                    if success is not None and done >= success:
                        want = phases.COMPLETED
                    elif done + failed == 4:
                        short = least >= 2 * of_task and (done_a < of_task or done_b < of_task)
                        fine = not short and success is None and done >= least
                        want = phases.COMPLETED if fine else phases.FAILED
                    else:
                        want = phases.PENDING if pending > 4 - least else ""
                    assert got == want, (least, success, of_task, done_a, done_b, pending, failed)
    assert phases.plan(job(task("a", 0)), phases.RUNNING, policies.SYNC).next_phase({"pending": 5}) == ""
    unseen = job(task("a", 1, 1), task("b", 1, 1), least=2)
    counts = {"succeeded": 2, "taskStatusCount": {"a": {"phase": {"Succeeded": 1}}}}
    assert phases.plan(unseen, phases.RUNNING, policies.SYNC).next_phase(counts) == phases.COMPLETED


# Policies.


def pod(
    name: str,
    of: str = "t",
    phase: str = "Running",
    *,
    version: str = "0",
    code: int | None = None,
    **marks: Any,
) -> Obj:
    notes = {policies.TASK_SPEC: of, policies.JOB_VERSION: version}
    if marks.get("ours"):
        notes[policies.OUT_OF_SYNC] = "true"
    meta: Obj = {"name": name, "annotations": notes, "creationTimestamp": rfc3339(NOW - 60 * SECOND_US)}
    if marks.get("going"):
        meta["deletionTimestamp"] = rfc3339(NOW)
    status: Obj = {"phase": phase}
    if code is not None:
        ended = {"exitCode": code, "finishedAt": rfc3339(NOW - 10 * SECOND_US)}
        other = {"state": {"terminated": {"exitCode": 99}}}
        status["containerStatuses"] = [{"state": {"terminated": ended}}, other]
    return {"metadata": meta, "status": status}


def rule(action: str, *events: str, **more: Any) -> Obj:
    return {"action": action, "events": list(events), **more}


RESTART, ABORT = policies.RESTART_JOB, policies.ABORT_JOB
FAILED_POD, EVICTED, GONE = (
    pod("p", phase="Failed", code=3),
    pod("p", going=True),
    pod("p", going=True, ours=True),
)


@pytest.mark.parametrize(
    ("rules", "pods", "want"),
    [
        ([], [FAILED_POD], None),
        ([rule(RESTART, "PodFailed")], [FAILED_POD], RESTART),
        ([{"action": RESTART, "event": "PodFailed"}], [FAILED_POD], RESTART),
        ([rule(RESTART, "PodEvicted", "PodFailed")], [FAILED_POD], RESTART),
        ([rule(RESTART, "*")], [FAILED_POD], RESTART),
        ([rule(RESTART, "*")], [EVICTED], RESTART),
        ([rule(RESTART, "*")], [GONE], None),
        ([rule(RESTART, "*")], [pod("p")], None),
        ([rule(RESTART, "*")], [pod("p", phase="Pending")], None),
        ([rule(RESTART, "PodEvicted")], [FAILED_POD], None),
        ([rule(RESTART, "PodEvicted")], [EVICTED], RESTART),
        ([{"action": RESTART, "exitCode": 3}], [FAILED_POD], RESTART),
        ([{"action": RESTART, "exitCode": 99}], [FAILED_POD], None),
        ([{"action": RESTART, "exitCode": 3}], [pod("p", phase="Running", code=3)], None),
        ([rule(RESTART, "PodFailed")], [pod("p", phase="Failed", version="1")], None),
        ([rule(RESTART, "PodFailed")], [pod("p", "other", "Failed")], None),
        ([rule(ABORT, "PodFailed"), rule(RESTART, "PodFailed")], [FAILED_POD], ABORT),
        ([rule("", "PodFailed")], [FAILED_POD], None),
        ([rule(policies.COMPLETE_JOB, "TaskCompleted")], [pod("p", phase="Succeeded")], None),
        (
            [rule(policies.COMPLETE_JOB, "TaskCompleted")],
            [pod("p", phase="Succeeded"), pod("q", phase="Succeeded")],
            policies.COMPLETE_JOB,
        ),
    ],
)
def test_what_policies_order(rules: list[Obj], pods: list[Obj], want: str | None) -> None:
    for at_task in (False, True):
        given = job(task("t", 2, 2, *rules)) if at_task else job(policies=tuple(rules))
        ordered, later = judge(given, pods, NOW)
        assert (ordered.action, later) == (want or policies.SYNC, None)
        if want and want != policies.COMPLETE_JOB:
            assert (ordered.task, ordered.pod) == ("t", "p")


def test_the_tasks_own_policy_goes_before_the_jobs() -> None:
    given = job(task("t", 2, 2, rule(ABORT, "PodFailed")), policies=(rule(RESTART, "*"),))
    assert judge(given, [FAILED_POD], NOW)[0].action == ABORT
    assert judge(given, [EVICTED], NOW)[0].action == RESTART


@pytest.mark.parametrize(
    ("timeout", "is_due", "later"), [("10s", True, None), ("11s", False, 1), ("1m", False, 50)]
)
def test_a_policy_may_wait(timeout: str, is_due: bool, later: int | None) -> None:
    """Counted from the end of the pod's first container; of pending pods from their creation."""
    given = job(policies=(rule(RESTART, "PodFailed", timeout=timeout),))
    ordered, at = judge(given, [FAILED_POD], NOW)
    assert (ordered.action == RESTART) == is_due
    assert at == (None if later is None else NOW + later * SECOND_US)
    waits = job(policies=(rule(ABORT, "PodPending", timeout="60s"),))
    assert judge(waits, [pod("p", phase="Pending")], NOW)[0].action == ABORT
    assert judge(waits, [pod("p", phase="Pending")], NOW - 1) == (Ordered(), NOW)
    two = job(
        task("t"),
        task("u"),
        policies=(rule(RESTART, "PodFailed", timeout="1m"), rule(ABORT, "PodPending", timeout="70s")),
    )
    found = judge(two, [FAILED_POD, pod("q", "u", "Pending")], NOW)
    assert found == (Ordered(), NOW + 10 * SECOND_US), "the first of several times"


# The controller on a store: pods come once the group is let in, and act as they are told.

KEY = Key("Job.batch.volcano.sh", "default", "vj")
START = parse_rfc3339("2026-01-05T08:00:00Z")


class World:
    """One Job, its PodGroup let in unless told otherwise."""

    def __init__(self, *tasks: Obj, let_in: bool = True, **spec: Any) -> None:
        self.store = Store(now_us=START)
        meta = {"name": "vj", "namespace": "default"}
        body = {"tasks": list(tasks), **spec}
        self.store.create(
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": body}
        )
        self.let_in = let_in
        self.told: list[str] = []
        self.settle()

    def settle(self) -> World:
        for _ in range(100):
            before = self.store.version
            look = decide.reconcile(self.store, KEY, self.store.now_us)
            for action in look.actions:
                if isinstance(action, Emit):
                    self.told.append(f"{action.reason}: {action.message}")
                else:
                    perform(self.store, action)
            self.again_us = look.again_at_us
            for group in self.store.objects("PodGroup.scheduling.volcano.sh", "default"):
                if self.let_in and (group.get("status") or {}).get("phase") != "Inqueue":
                    key = Key("PodGroup.scheduling.volcano.sh", "default", group["metadata"]["name"])
                    self.store.set_status(key, {"phase": "Inqueue"})
            for one in self.store.objects("Pod", "default"):
                if "deletionTimestamp" in one["metadata"]:
                    self.store.delete(Key("Pod", "default", one["metadata"]["name"]), grace_s=0)
            if self.store.version == before:
                return self
        raise AssertionError(self.told)

    def pods(self) -> list[str]:
        return [p["metadata"]["name"] for p in self.store.objects("Pod", "default")]

    def set(self, name: str, phase: str, *, ready: bool = False) -> World:
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        self.store.set_status(Key("Pod", "default", name), {"phase": phase, "conditions": conditions})
        return self.settle()

    @property
    def status(self) -> Obj:
        found: Obj = self.store.require(KEY)["status"]
        return found

    @property
    def phase(self) -> str:
        return str(self.status["state"]["phase"])


def a_task(name: str, replicas: int = 1, **more: Any) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def test_pods_wait_for_their_group_to_be_let_in() -> None:
    waiting = World(a_task("t", 2), let_in=False)
    assert waiting.pods() == []
    assert (waiting.phase, waiting.status["minAvailable"]) == ("Pending", 2)
    world = World(a_task("t", 2), a_task("u"))
    assert world.pods() == ["vj-t-0", "vj-t-1", "vj-u-0"]
    assert world.status["pending"] == 3
    assert world.status["taskStatusCount"] == {"t": {"phase": {"Pending": 2}}, "u": {"phase": {"Pending": 1}}}


def test_a_task_waits_for_those_it_depends_on() -> None:
    for iteration, first in (("any", "vj-a-0"), ("all", None), (None, None)):
        depends = {"name": ["a", "b"], **({"iteration": iteration} if iteration else {})}
        world = World(a_task("a", 2, minAvailable=1), a_task("b"), a_task("c", dependsOn=depends))
        assert world.pods() == ["vj-a-0", "vj-a-1", "vj-b-0"]
        world.set("vj-a-0", "Running")
        assert "vj-c-0" not in world.pods(), "running is not ready"
        world.set("vj-a-0", "Running", ready=True)
        assert ("vj-c-0" in world.pods()) == (first is not None)
        world.set("vj-b-0", "Succeeded")
        assert "vj-c-0" in world.pods()
    assert "vj-c-0" in World(a_task("c", dependsOn={"name": ["nobody"]})).pods()


def test_what_is_too_much_goes_and_what_is_missing_comes() -> None:
    world = World(a_task("t", 3))
    world.store.patch(KEY, {"spec": {"tasks": [a_task("t", 2)]}})
    world.settle()
    assert world.pods() == ["vj-t-0", "vj-t-1"]
    world.store.delete(Key("Pod", "default", "vj-t-0"), grace_s=0)
    world.settle()
    assert world.pods() == ["vj-t-0", "vj-t-1"]


def test_a_job_runs_and_completes_and_expires() -> None:
    world = World(a_task("t", 2), ttlSecondsAfterFinished=30)
    world.set("vj-t-0", "Running")
    assert world.phase == "Pending"
    world.set("vj-t-1", "Running")
    assert (world.phase, world.status["running"]) == ("Running", 2)
    world.set("vj-t-0", "Succeeded").set("vj-t-1", "Succeeded")
    assert world.phase == "Completed"
    assert [c["status"] for c in world.status["conditions"]] == ["Pending", "Running", "Completed"]
    assert world.again_us == START + 30 * SECOND_US
    world.store.now_us = START + 30 * SECOND_US - 1
    world.settle()
    assert world.store.get(KEY) is not None
    world.store.now_us += 1
    look = decide.reconcile(world.store, KEY, world.store.now_us)
    assert [type(a).__name__ for a in look.actions] == ["Delete"]


def test_a_failed_pod_restarts_the_whole_job_until_it_was_enough() -> None:
    world = World(a_task("t", 2), policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=2)
    world.set("vj-t-0", "Running").set("vj-t-1", "Running")
    uids = {p["metadata"]["uid"] for p in world.store.objects("Pod", "default")}
    world.set("vj-t-0", "Failed")
    assert world.told == ["ExecuteAction: Start to execute action RestartJob "]
    assert (world.phase, world.status["retryCount"], world.status["version"]) == ("Pending", 1, 1)
    again = {p["metadata"]["uid"] for p in world.store.objects("Pod", "default")}
    assert len(again) == 2
    assert not uids & again
    world.set("vj-t-0", "Running").set("vj-t-1", "Running").set("vj-t-0", "Failed")
    assert world.phase == "Failed"
    assert world.status["retryCount"] == 2
    assert "vj-t-0" in world.pods(), "what ended is kept on the last try"


def test_a_task_or_a_pod_is_restarted_alone() -> None:
    for action, replaced in (("RestartTask", {"vj-t-0", "vj-t-1"}), ("RestartPod", {"vj-t-0"})):
        world = World(a_task("t", 2), a_task("u"), policies=[{"event": "PodFailed", "action": action}])
        for name in world.pods():
            world.set(name, "Running")
        before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in world.store.objects("Pod", "default")}
        world.set("vj-t-0", "Failed")
        after = {p["metadata"]["name"]: p["metadata"]["uid"] for p in world.store.objects("Pod", "default")}
        assert {n for n in before if before[n] != after.get(n)} == replaced


def test_a_group_for_pods_that_have_none() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "ru", "controller": True}
    notes = {"scheduling.volcano.sh/group-min-member": "3", "scheduling.volcano.sh/x": "y", "other": "z"}

    def looked_at(name: str, **more: Any) -> list[Any]:
        store = Store()
        meta = {"name": "r", "namespace": "default", "annotations": notes}
        store.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": {}})
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
        spec = {"schedulerName": "volcano", "containers": [container], **more.pop("spec", {})}
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **more},
            "spec": spec,
        }
        store.create(made)
        return list(podgroups.reconcile(store, Key("Pod", "default", name), START).actions)

    created, patched = looked_at(
        "p",
        ownerReferences=[owner],
        annotations={"scheduling.volcano.sh/queue-name": "q", "volcano.sh/preemptable": "true"},
        labels={"volcano.sh/preemptable": "false", "app": "x"},
        spec={"priorityClassName": "high"},
    )
    group = created.obj
    assert group["metadata"] == {
        "name": "podgroup-ru",
        "namespace": "default",
        "ownerReferences": [owner],
        "annotations": {
            "scheduling.volcano.sh/group-min-member": "3",
            "scheduling.volcano.sh/x": "y",
            "volcano.sh/preemptable": "true",
        },
        "labels": {"volcano.sh/preemptable": "false"},
    }
    assert group["spec"] == {
        "minMember": 3,
        "minResources": {"cpu": "6", "pods": "3"},
        "priorityClassName": "high",
        "queue": "q",
    }
    assert patched.patch == {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "podgroup-ru"}}}
    (alone, _) = looked_at("p")
    assert alone.obj["spec"] == {"minMember": 1, "minResources": {"cpu": "2", "pods": "1"}}
    assert [(r["kind"], r["name"], r["controller"]) for r in alone.obj["metadata"]["ownerReferences"]] == [
        ("Pod", "p", True)
    ]
    assert looked_at("p", annotations={"scheduling.k8s.io/group-name": "mine"}) == []
    assert looked_at("p", spec={"schedulerName": "default-scheduler"}) == []


def test_no_more_pods_than_can_be_made_at_once() -> None:
    world = World(a_task("t", 300), a_task("u", 300), let_in=False)
    (group,) = world.store.objects("PodGroup.scheduling.volcano.sh", "default")
    key = Key("PodGroup.scheduling.volcano.sh", "default", group["metadata"]["name"])
    world.store.set_status(key, {"phase": "Inqueue"})
    look = decide.reconcile(world.store, KEY, START)
    made = [
        a.obj["metadata"]["name"] for a in look.actions if isinstance(a, Create) and a.obj["kind"] == "Pod"
    ]
    assert len(made) == 500
    assert (made[0], made[299], made[300], made[-1]) == ("vj-t-0", "vj-t-299", "vj-u-0", "vj-u-199")
