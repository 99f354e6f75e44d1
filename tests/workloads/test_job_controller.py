"""Jobs from creation to their end: what happens, in which counts, with which words."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import START_US, World, is_over, job, names, pod_key, template

from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.workloads.job import decide
from fairway.workloads.job.podspec import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
)

NEVER = template(restartPolicy="Never")


def running(world: World, key: Key) -> list[dict[str, Any]]:
    return [p for p in world.pods_of(key) if not is_over(p)]


def indexes_of(world: World, key: Key) -> list[str]:
    return sorted(p["metadata"]["annotations"][COMPLETION_INDEX] for p in running(world, key))


def by_index(world: World, key: Key, index: int) -> dict[str, Any]:
    found = [p for p in running(world, key) if p["metadata"]["annotations"][COMPLETION_INDEX] == str(index)]
    assert len(found) == 1
    return found[0]


def condition_types(world: World, key: Key) -> list[str]:
    return [c["type"] for c in world.status(key).get("conditions") or () if c["status"] == "True"]


def test_one_pod_runs_and_the_job_completes() -> None:
    world = World()
    key = world.apply(job())
    assert world.status(key) == {
        "active": 1,
        "ready": 1,
        "terminating": 0,
        "startTime": rfc3339(START_US),
        "uncountedTerminatedPods": {},
    }
    world.advance(3)
    world.finish(running(world, key)[0])
    status = world.status(key)
    assert "active" not in status
    assert (status["succeeded"], status["ready"]) == (1, 0)
    assert status["completionTime"] == rfc3339(START_US + 3 * SECOND_US)
    assert condition_types(world, key) == ["SuccessCriteriaMet", "Complete"]
    complete = world.condition(key, "Complete")
    assert complete is not None
    assert complete["reason"] == "CompletionsReached"
    assert complete["message"] == "Reached expected number of succeeded pods"
    assert world.told("Completed") == ["Job completed"]


def test_the_pod_carries_what_a_jobs_pod_carries() -> None:
    world = World()
    key = world.apply(job())
    (pod,) = world.pods_of(key)
    uid = world.get(key)["metadata"]["uid"]
    meta = pod["metadata"]
    assert meta["generateName"] == "train-"
    assert meta["name"].startswith("train-")
    assert len(meta["name"]) == len("train-") + 5
    assert meta["finalizers"] == [TRACKING_FINALIZER]
    assert meta["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "train",
        "controller-uid": uid,
        "job-name": "train",
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("Job", True, True)
    assert world.told("SuccessfulCreate") == [f"Created pod: {meta['name']}"]


def test_the_finalizer_is_lifted_when_the_pod_is_counted() -> None:
    world = World()
    key = world.apply(job())
    world.finish(running(world, key)[0])
    (pod,) = world.pods_of(key)
    assert "finalizers" not in pod["metadata"]


@pytest.mark.parametrize(
    ("case", "parallelism", "completions", "want_active"),
    [
        ("parallelism bounds the pods", 2, 5, 2),
        ("completions bound the pods", 5, 2, 2),
        ("no completions: as many as parallelism", 3, None, 3),
        ("parallelism zero pauses the job", 0, 3, 0),
        ("as many as five hundred at once, the rest right after", 600, 600, 600),
    ],
)
def test_how_many_pods_start(case: str, parallelism: int, completions: int | None, want_active: int) -> None:
    world = World(kubelet=False)
    spec: dict[str, Any] = {"parallelism": parallelism}
    if completions is not None:
        spec["completions"] = completions
    key = world.apply(job(**spec))
    assert len(running(world, key)) == want_active, case
    assert world.status(key).get("active", 0) == want_active


def test_with_completions_new_pods_follow_until_all_have_succeeded() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=3))
    world.finish(running(world, key)[0])
    assert len(running(world, key)) == 2
    world.finish(running(world, key)[0])
    assert len(running(world, key)) == 1
    world.finish(running(world, key)[0])
    assert world.status(key)["succeeded"] == 3
    assert "Complete" in condition_types(world, key)


def test_without_completions_one_success_ends_the_job_when_the_others_end() -> None:
    world = World()
    key = world.apply(job(parallelism=3))
    first, second, third = running(world, key)
    world.finish(first)
    assert len(running(world, key)) == 2, "nobody replaces the one that succeeded"
    world.finish(second, 1)
    assert "Complete" not in condition_types(world, key)
    world.finish(third)
    assert "Complete" in condition_types(world, key)
    assert world.status(key)["succeeded"] == 2


def test_zero_completions_complete_at_once() -> None:
    world = World()
    key = world.apply(job(completions=0))
    assert "Complete" in condition_types(world, key)
    assert world.pods_of(key) == []


def test_more_parallelism_adds_pods_and_less_removes_those_least_far_along() -> None:
    world = World()
    key = world.apply(job(parallelism=1, completions=6))
    world.hold = ("app:1",)
    world.patch(key, {"spec": {"parallelism": 3}})
    pending = [p for p in running(world, key) if p["status"]["phase"] == "Pending"]
    assert len(pending) == 2
    world.patch(key, {"spec": {"parallelism": 1}})
    (left,) = running(world, key)
    assert left["status"]["phase"] == "Running"
    assert "failed" not in world.status(key), "pods taken away are no failures"


def test_a_failed_pod_is_replaced_after_ten_seconds() -> None:
    world = World()
    key = world.apply(job())
    world.finish(running(world, key)[0], 1)
    assert world.status(key)["failed"] == 1
    assert running(world, key) == []
    world.advance(9)
    assert running(world, key) == []
    world.advance(1)
    assert len(running(world, key)) == 1


def test_the_wait_doubles_with_every_failure_and_ends_at_ten_minutes() -> None:
    world = World()
    key = world.apply(job(backoffLimit=100))
    waits = []
    for _ in range(9):
        world.finish(running(world, key)[0], 1)
        failed_at = world.now_us
        while not running(world, key):
            world.advance(1)
        waits.append((world.now_us - failed_at) // SECOND_US)
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_a_success_starts_the_wait_over() -> None:
    world = World()
    key = world.apply(job(completions=3, backoffLimit=10))
    world.finish(running(world, key)[0], 1)
    world.advance(10)
    world.finish(running(world, key)[0], 1)
    world.advance(20)
    world.advance(1)
    world.finish(running(world, key)[0])
    world.advance(1)
    world.finish(running(world, key)[0], 1)
    world.advance(10)
    assert len(running(world, key)) == 1


def test_a_deleted_pod_counts_as_failed_and_its_successor_waits_although_it_is_gone() -> None:
    world = World()
    key = world.apply(job())
    world.delete(pod_key(running(world, key)[0]))
    assert world.pods_of(key) == []
    assert world.status(key)["failed"] == 1
    world.advance(9)
    assert world.pods_of(key) == []
    world.advance(1)
    assert len(running(world, key)) == 1
    world.delete(pod_key(running(world, key)[0]))
    world.advance(19)
    assert world.pods_of(key) == []
    world.advance(1)
    assert len(running(world, key)) == 1


@pytest.mark.parametrize(("limit", "want_failed"), [(0, 1), (1, 2), (2, 3)])
def test_backoff_limit_ends_the_job(limit: int, want_failed: int) -> None:
    world = World()
    key = world.apply(job(backoffLimit=limit))
    for _ in range(limit + 1):
        world.advance(1000)
        world.finish(running(world, key)[0], 3)
    assert world.status(key)["failed"] == want_failed
    failed = world.condition(key, "Failed")
    assert failed is not None
    assert (failed["reason"], failed["message"]) == (
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    )
    assert world.told("BackoffLimitExceeded") == ["Job has reached the specified backoff limit"]
    assert "completionTime" not in world.status(key)


def test_the_pods_that_still_run_are_deleted_and_counted_as_failed_when_a_job_fails() -> None:
    world = World()
    key = world.apply(job(parallelism=3, completions=3, backoffLimit=0))
    world.finish(running(world, key)[0], 1)
    status = world.status(key)
    assert status["failed"] == 3
    assert (status["ready"], status["terminating"]) == (0, 0)
    assert "Failed" in condition_types(world, key)


def test_failed_is_only_pronounced_once_no_pod_is_terminating() -> None:
    world = World(kubelet=False)
    key = world.apply(job(parallelism=2, completions=2, backoffLimit=0))
    first, second = world.pods_of(key)
    for pod in (first, second):
        world.store.bind(pod_key(pod), "n1", {"phase": "Running"})
    world.finish(first, 1)
    assert condition_types(world, key) == ["FailureTarget"]
    assert world.status(key)["terminating"] == 1
    world.delete(pod_key(second), grace_s=0)
    assert condition_types(world, key) == ["FailureTarget", "Failed"]
    assert world.status(key)["terminating"] == 0


def test_restarts_in_place_count_towards_the_limit() -> None:
    world = World()
    key = world.apply(job(backoffLimit=2, template=template(restartPolicy="OnFailure")))
    (pod,) = running(world, key)
    world.set_pod(pod, containerStatuses=[{"name": "c", "restartCount": 1}])
    assert "Failed" not in condition_types(world, key)
    world.set_pod(pod, containerStatuses=[{"name": "c", "restartCount": 2}])
    assert world.condition(key, "Failed") is not None


def test_the_deadline_ends_the_job_whatever_it_does() -> None:
    world = World()
    key = world.apply(job(activeDeadlineSeconds=60))
    world.advance(59)
    assert condition_types(world, key) == []
    world.advance(1)
    failed = world.condition(key, "Failed")
    assert failed is not None
    assert failed["reason"] == "DeadlineExceeded"
    assert failed["message"] == "Job was active longer than specified deadline"
    assert world.pods_of(key) == []


# Suspending


def test_a_suspended_job_has_no_pods_and_says_so() -> None:
    world = World()
    key = world.apply(job(suspend=True))
    suspended = world.condition(key, "Suspended")
    assert suspended is not None
    assert (suspended["status"], suspended["reason"]) == ("True", "JobSuspended")
    assert "startTime" not in world.status(key)
    assert world.told() == ["Suspended: Job suspended"]


def test_resuming_starts_pods_and_the_clock() -> None:
    world = World()
    key = world.apply(job(suspend=True))
    world.advance(100)
    world.patch(key, {"spec": {"suspend": False}})
    resumed = world.condition(key, "Suspended")
    assert resumed is not None
    assert (resumed["status"], resumed["reason"]) == ("False", "JobResumed")
    assert world.status(key)["startTime"] == rfc3339(START_US + 100 * SECOND_US)
    assert len(running(world, key)) == 1
    assert world.told("Resumed") == ["Job resumed"]


def test_suspending_a_running_job_deletes_its_pods_without_counting_them() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=4))
    world.finish(running(world, key)[0])
    world.patch(key, {"spec": {"suspend": True}})
    status = world.status(key)
    assert running(world, key) == []
    assert status["succeeded"] == 1
    assert "failed" not in status
    assert "startTime" not in status


def test_the_deadline_stands_still_while_suspended_and_starts_anew() -> None:
    world = World()
    key = world.apply(job(activeDeadlineSeconds=60))
    world.advance(50)
    world.patch(key, {"spec": {"suspend": True}})
    world.advance(1000)
    world.patch(key, {"spec": {"suspend": False}})
    world.advance(59)
    assert world.condition(key, "Failed") is None
    world.advance(1)
    assert world.condition(key, "Failed") is not None


# Indexed


def test_every_index_gets_a_pod_with_its_name_host_name_label_and_variable() -> None:
    world = World()
    key = world.apply(job(parallelism=3, completions=3, completionMode="Indexed"))
    assert indexes_of(world, key) == ["0", "1", "2"]
    pod = by_index(world, key, 2)
    assert pod["metadata"]["generateName"] == "train-2-"
    assert pod["spec"]["hostname"] == "train-2"
    assert pod["metadata"]["labels"][COMPLETION_INDEX] == "2"
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.labels['batch.kubernetes.io/job-completion-index']"


def test_an_indexed_job_completes_when_every_index_has() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=4, completionMode="Indexed"))
    world.finish(by_index(world, key, 1))
    assert world.status(key)["completedIndexes"] == "1"
    assert indexes_of(world, key) == ["0", "2"]
    world.finish(by_index(world, key, 0))
    world.finish(by_index(world, key, 2))
    assert world.status(key)["completedIndexes"] == "0-2"
    world.finish(by_index(world, key, 3))
    assert world.status(key)["completedIndexes"] == "0-3"
    assert "Complete" in condition_types(world, key)


def test_a_failed_index_is_tried_again() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=2, completionMode="Indexed"))
    world.finish(by_index(world, key, 0), 1)
    world.advance(10)
    assert indexes_of(world, key) == ["0", "1"]


def test_an_elastic_job_shrinks_and_grows() -> None:
    world = World()
    key = world.apply(job(parallelism=4, completions=4, completionMode="Indexed"))
    world.finish(by_index(world, key, 3))
    world.patch(key, {"spec": {"parallelism": 2, "completions": 2}})
    assert indexes_of(world, key) == ["0", "1"]
    assert world.status(key).get("succeeded", 0) == 0, "index 3 is out of range now"
    world.patch(key, {"spec": {"parallelism": 3, "completions": 3}})
    assert indexes_of(world, key) == ["0", "1", "2"]


def test_two_pods_of_one_index_become_one() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=2, completionMode="Indexed"))
    twin = by_index(world, key, 1)
    copy = {**twin, "metadata": {**twin["metadata"], "name": "train-1-twin0"}}
    world.store.create(copy)
    world.patch(key, {"metadata": {"labels": {"touch": "it"}}})
    assert indexes_of(world, key) == ["0", "1"]


def test_a_variable_of_the_same_name_is_left_alone() -> None:
    world = World()
    own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    spec = template(restartPolicy="Never")
    spec["spec"]["containers"][0]["env"] = [own]
    key = world.apply(job(completions=1, completionMode="Indexed", template=spec))
    assert world.pods_of(key)[0]["spec"]["containers"][0]["env"] == [own]


def test_a_long_name_is_cut_so_that_the_index_stays() -> None:
    world = World()
    name = "j" * 60
    key = world.apply(job(name, completions=1, completionMode="Indexed"))
    (pod,) = world.pods_of(key)
    assert pod["metadata"]["generateName"] == "j" * 55 + "-0-"


# Per index


def per_index(**spec: Any) -> dict[str, Any]:
    return job(parallelism=2, completions=2, completionMode="Indexed", backoffLimitPerIndex=1, **spec)


def test_each_index_has_failures_of_its_own() -> None:
    world = World()
    key = world.apply(per_index())
    world.finish(by_index(world, key, 0), 1)
    world.advance(10)
    again = by_index(world, key, 0)
    assert again["metadata"]["annotations"][INDEX_FAILURE_COUNT] == "1"
    world.finish(again, 1)
    assert world.status(key)["failedIndexes"] == "0"
    assert indexes_of(world, key) == ["1"], "index 1 goes on"
    world.finish(by_index(world, key, 1))
    failed = world.condition(key, "Failed")
    assert failed is not None
    assert (failed["reason"], failed["message"]) == ("FailedIndexes", "Job has failed indexes")
    assert world.status(key)["completedIndexes"] == "1"
    assert world.status(key)["failed"] == 2


def test_the_failed_pod_keeps_its_finalizer_until_its_successor_is_there() -> None:
    world = World()
    key = world.apply(per_index())
    first = by_index(world, key, 0)
    world.finish(first, 1)
    assert TRACKING_FINALIZER in world.get(pod_key(first))["metadata"]["finalizers"]
    assert world.status(key).get("failed", 0) == 0
    world.advance(10)
    assert "finalizers" not in world.get(pod_key(first))["metadata"]
    assert world.status(key)["failed"] == 1


def test_too_many_failed_indexes_end_the_job_at_once() -> None:
    world = World()
    spec = {"parallelism": 4, "completions": 4, "maxFailedIndexes": 1, "backoffLimitPerIndex": 0}
    key = world.apply(job(completionMode="Indexed", **spec))
    world.finish(by_index(world, key, 0), 1)
    assert world.condition(key, "Failed") is None
    world.finish(by_index(world, key, 1), 1)
    failed = world.condition(key, "Failed")
    assert failed is not None
    assert failed["reason"] == "MaxFailedIndexesExceeded"
    assert failed["message"] == "Job has exceeded the specified maximal number of failed indexes"


# Pod failure policy


def on_exit(action: str, *values: int, operator: str = "In", **more: Any) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def on_condition(action: str, type_: str = "DisruptionTarget") -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": type_, "status": "True"}]}


def test_fail_job_ends_it_with_the_container_the_code_and_the_rule() -> None:
    world = World()
    rules = [on_condition("Ignore"), on_exit("FailJob", 42)]
    key = world.apply(job(podFailurePolicy={"rules": rules}))
    (pod,) = running(world, key)
    world.finish(pod, 42)
    failed = world.condition(key, "Failed")
    assert failed is not None
    assert failed["reason"] == "PodFailurePolicy"
    name = pod["metadata"]["name"]
    assert failed["message"] == (
        f"Container c for pod default/{name} failed with exit code 42 matching FailJob rule at index 1"
    )
    assert condition_types(world, key) == ["FailureTarget", "Failed"]


@pytest.mark.parametrize(
    ("case", "rule", "code", "want_failed"),
    [
        ("ignored failures are not counted", on_exit("Ignore", 42), 42, 0),
        ("another code is counted", on_exit("Ignore", 42), 43, 1),
        ("counted failures are counted", on_exit("Count", 42), 42, 1),
        ("NotIn leaves the listed code alone", on_exit("Ignore", 42, operator="NotIn"), 42, 1),
        ("NotIn takes every other", on_exit("Ignore", 42, operator="NotIn"), 1, 0),
        ("another container's rule does not apply", on_exit("Ignore", 42, containerName="x"), 42, 1),
        ("this container's does", on_exit("Ignore", 42, containerName="c"), 42, 0),
    ],
)
def test_what_a_rule_counts(case: str, rule: dict[str, Any], code: int, want_failed: int) -> None:
    world = World()
    key = world.apply(job(podFailurePolicy={"rules": [rule]}))
    world.finish(running(world, key)[0], code)
    assert world.status(key).get("failed", 0) == want_failed, case


def test_a_disrupted_pod_is_ignored_where_the_policy_says_so_and_replaced_once_it_has_ended() -> None:
    world = World(kubelet=False)
    key = world.apply(job(backoffLimit=0, podFailurePolicy={"rules": [on_condition("Ignore")]}))
    (pod,) = world.pods_of(key)
    target = {"type": "DisruptionTarget", "status": "True"}
    world.store.bind(pod_key(pod), "n1", {"phase": "Running", "conditions": [target]})
    world.delete(pod_key(pod))
    assert len(world.pods_of(key)) == 1, "with a policy, only ended pods are replaced"
    assert world.status(key)["terminating"] == 1
    world.set_pod(pod, phase="Failed")
    assert world.status(key).get("failed", 0) == 0
    world.advance(10)
    assert len(running(world, key)) == 1


def test_fail_job_on_a_condition_names_it() -> None:
    world = World()
    key = world.apply(job(podFailurePolicy={"rules": [on_condition("FailJob", "ConfigIssue")]}))
    (pod,) = running(world, key)
    world.set_pod(pod, phase="Failed", conditions=[{"type": "ConfigIssue", "status": "True"}])
    failed = world.condition(key, "Failed")
    assert failed is not None
    name = pod["metadata"]["name"]
    assert failed["message"] == (
        f"Pod default/{name} has condition ConfigIssue matching FailJob rule at index 0"
    )


def test_fail_index_gives_up_on_the_index_at_once() -> None:
    world = World()
    key = world.apply(
        job(
            parallelism=2,
            completions=2,
            completionMode="Indexed",
            backoffLimitPerIndex=5,
            podFailurePolicy={"rules": [on_exit("FailIndex", 9)]},
        )
    )
    world.finish(by_index(world, key, 1), 9)
    assert world.status(key)["failedIndexes"] == "1"
    world.advance(100)
    assert indexes_of(world, key) == ["0"]


def test_ignored_failures_of_an_index_are_noted_apart() -> None:
    world = World()
    key = world.apply(per_index(podFailurePolicy={"rules": [on_exit("Ignore", 7)]}))
    world.finish(by_index(world, key, 0), 7)
    world.advance(10)
    notes = by_index(world, key, 0)["metadata"]["annotations"]
    assert (notes[INDEX_FAILURE_COUNT], notes[INDEX_IGNORED_FAILURE_COUNT]) == ("0", "1")


@pytest.mark.parametrize(("policy", "want_replaced"), [("TerminatingOrFailed", True), ("Failed", False)])
def test_pod_replacement_policy(policy: str, want_replaced: bool) -> None:
    world = World(kubelet=False)
    key = world.apply(job(podReplacementPolicy=policy))
    (pod,) = world.pods_of(key)
    world.store.bind(pod_key(pod), "n1", {"phase": "Running"})
    world.delete(pod_key(pod))
    world.advance(10)
    assert (len(running(world, key)) == 1) is want_replaced
    assert world.status(key)["terminating"] == 1


# Success policy


@pytest.mark.parametrize(
    ("case", "rule", "finished", "want_met"),
    [
        ("the leader is enough", {"succeededIndexes": "0"}, [0], True),
        ("another is not", {"succeededIndexes": "0"}, [1], False),
        ("a number of any", {"succeededCount": 2}, [3, 1], True),
        ("a number short of it", {"succeededCount": 2}, [3], False),
        ("a number out of a list", {"succeededIndexes": "0,2-3", "succeededCount": 2}, [2, 3], True),
        ("others do not count for the list", {"succeededIndexes": "0,2", "succeededCount": 2}, [1, 2], False),
        ("all of the list", {"succeededIndexes": "1-2"}, [1, 2], True),
    ],
)
def test_success_policy(case: str, rule: dict[str, Any], finished: list[int], want_met: bool) -> None:
    world = World()
    key = world.apply(
        job(parallelism=4, completions=4, completionMode="Indexed", successPolicy={"rules": [rule]})
    )
    for index in finished:
        world.finish(by_index(world, key, index))
    assert ("Complete" in condition_types(world, key)) is want_met, case
    if want_met:
        complete = world.condition(key, "Complete")
        assert complete is not None
        assert (complete["reason"], complete["message"]) == ("SuccessPolicy", "Matched rules at index 0")
        assert running(world, key) == []
        assert "failed" not in world.status(key), "pods no longer needed are no failures"


# Afterwards


def test_a_finished_job_goes_when_its_time_to_live_is_over() -> None:
    world = World()
    key = world.apply(job(ttlSecondsAfterFinished=30))
    world.finish(running(world, key)[0])
    world.advance(29)
    assert world.store.get(key) is not None
    world.advance(1)
    assert world.store.get(key) is None
    assert world.pods() == []


def test_deleting_a_job_takes_its_pods_finalizers_and_all() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=2))
    world.delete(key)
    assert world.pods() == []


def test_deleting_a_job_in_the_foreground_waits_for_its_pods() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=2))
    world.delete(key, "Foreground")
    assert world.store.get(key) is None
    assert world.pods() == []


def test_orphaned_pods_lose_the_finalizer_and_live_on() -> None:
    world = World()
    key = world.apply(job())
    world.delete(key, "Orphan")
    (pod,) = world.pods()
    assert "finalizers" not in pod["metadata"]
    assert "ownerReferences" not in pod["metadata"]


def test_a_job_managed_elsewhere_is_left_alone() -> None:
    world = World()
    key = world.apply(job(managedBy="kueue.x-k8s.io/multikueue"))
    assert world.status(key) == {}
    assert world.pods() == []


def test_an_unknown_completion_mode_is_skipped() -> None:
    world = World()
    key = world.apply(job(completionMode="Sorted"))
    assert world.pods_of(key) == []
    assert world.told("UnknownCompletionMode") == ["Skipped Job sync because completion mode is unknown"]


def test_a_refused_pod_is_no_active_pod_and_is_asked_for_again() -> None:
    world = World()
    world.refuse, world.refuse_after = 'pods "train-" is forbidden: exceeded quota: q', 2
    key = world.apply(job(parallelism=3, completions=3))
    assert world.status(key)["active"] == 2
    assert world.told("FailedCreate")[0] == f"Error creating: {world.refuse}"
    world.advance(130)
    attempts = len(world.told("FailedCreate"))
    assert 5 < attempts < 12, "the wait grows to a minute"
    world.refuse = ""
    world.advance(61)
    assert world.status(key)["active"] == 3


def test_a_half_written_status_is_completed() -> None:
    world = World(kubelet=False)
    key = world.apply(job(parallelism=1, completions=2))
    (pod,) = world.pods_of(key)
    uid = pod["metadata"]["uid"]
    world.finish(pod)
    noted = {**world.status(key), "uncountedTerminatedPods": {"succeeded": [uid]}, "succeeded": 0}
    world.store.set_status(key, noted)
    world.patch(key, {"metadata": {"labels": {"touch": "it"}}})
    assert world.status(key)["succeeded"] == 1
    assert world.status(key)["uncountedTerminatedPods"] == {}


def test_the_status_of_recorded_jobs() -> None:
    """Active, failed and succeeded as Kubernetes v1.36 reported them for Jobs that Kueue suspends and resumes."""
    world = World()
    key = world.apply(job(suspend=True, backoffLimit=0))
    seen = []
    for suspend in (False, True, False):
        world.patch(key, {"spec": {"suspend": suspend}})
        seen.append({f: world.status(key).get(f, 0) for f in ("active", "failed", "succeeded")})
    world.finish(running(world, key)[0])
    seen.append({f: world.status(key).get(f, 0) for f in ("active", "failed", "succeeded")})
    assert seen == [
        {"active": 1, "failed": 0, "succeeded": 0},
        {"active": 0, "failed": 0, "succeeded": 0},
        {"active": 1, "failed": 0, "succeeded": 0},
        {"active": 0, "failed": 0, "succeeded": 1},
    ]


def test_names_are_the_same_in_every_run() -> None:
    def play() -> list[str]:
        world = World(seed=7)
        key = world.apply(job(parallelism=3, completions=3))
        return names(world.pods_of(key))

    assert play() == play()
    assert len(set(play())) == 3


def test_reconciling_twice_does_nothing_the_second_time() -> None:
    world = World()
    key = world.apply(job(parallelism=2, completions=2))
    assert decide.reconcile(world.store, key, world.now_us).actions == ()
