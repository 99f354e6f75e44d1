"""JobSets: names and labels of what they create, start-up order, success, restarts, suspension, time to live."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import World, names, pod_key, template

from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Key, Obj

SET = Key("JobSet.jobset.x-k8s.io", "default", "train")


def replicated(name: str = "workers", *, replicas: int = 2, pods: int = 2, **more: Any) -> dict[str, Any]:
    job = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "template": template(restartPolicy="Never"),
    }
    return {"name": name, "replicas": replicas, "template": {"spec": job}, **more}


def jobset(*groups: dict[str, Any], **spec: Any) -> Obj:
    return apply_defaults(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"replicatedJobs": list(groups or (replicated(),)), **spec},
        }
    )


def job_key(name: str) -> Key:
    return Key("Job.batch", "default", name)


def jobs(world: World) -> list[str]:
    return [j["metadata"]["name"] for j in world.store.objects("Job.batch")]


def finish_job(world: World, name: str, exit_code: int = 0) -> None:
    for pod in world.pods(**{"batch.kubernetes.io/job-name": name}):
        # The first one that fails may take the others with it.
        if world.store.get(pod_key(pod)) is not None:
            world.finish(pod, exit_code)


def counts(world: World, name: str) -> dict[str, int]:
    found = next(s for s in world.status(SET)["replicatedJobsStatus"] if s["name"] == name)
    return {k: v for k, v in found.items() if v and k != "name"}


def test_the_jobs_the_service_and_the_hostnames() -> None:
    world = World()
    world.apply(jobset(replicated("driver", replicas=1, pods=1), replicated("workers")))
    assert jobs(world) == ["train-driver-0", "train-workers-0", "train-workers-1"]
    service = world.get(Key("Service", "default", "train"))
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": {"jobset.sigs.k8s.io/jobset-name": "train"},
        "publishNotReadyAddresses": True,
    }
    hosts = [f"{p['spec']['hostname']}.{p['spec']['subdomain']}" for p in world.pods()]
    assert hosts == [
        "train-driver-0-0.train",
        "train-workers-0-0.train",
        "train-workers-0-1.train",
        "train-workers-1-0.train",
        "train-workers-1-1.train",
    ]


def test_every_pod_can_tell_where_it_is() -> None:
    world = World()
    groups = (replicated("driver", replicas=1, pods=1), replicated("workers", groupName="gpu"))
    world.apply(jobset(*groups, coordinator={"replicatedJob": "driver", "jobIndex": 0, "podIndex": 0}))
    (pod,) = [p for p in world.pods() if p["spec"]["hostname"] == "train-workers-1-0"]
    prefix = "jobset.sigs.k8s.io/"
    marks = {k.removeprefix(prefix): v for k, v in pod["metadata"]["labels"].items() if k.startswith(prefix)}
    assert marks == {
        "jobset-name": "train",
        "jobset-uid": world.get(SET)["metadata"]["uid"],
        "replicatedjob-name": "workers",
        "restart-attempt": "0",
        "replicatedjob-replicas": "2",
        "global-replicas": "3",
        "job-index": "1",
        # The SHA-1 of "default/train-workers-1".
        "job-key": "f7cd59a344a70b9510e91bf1b6f8a70533d949ef",
        "job-global-index": "2",
        "group-name": "gpu",
        "group-replicas": "2",
        "job-group-index": "1",
        "coordinator": "train-driver-0-0.train",
    }
    annotations = pod["metadata"]["annotations"]
    assert all(annotations[prefix + name] == value for name, value in marks.items())
    job = world.get(job_key("train-workers-1"))
    assert job["metadata"]["labels"][prefix + "job-index"] == "1"


def test_all_jobs_have_to_succeed() -> None:
    world = World()
    world.apply(jobset())
    finish_job(world, "train-workers-0")
    assert counts(world, "workers") == {"ready": 1, "active": 1, "succeeded": 1}
    assert world.condition(SET, "Completed") is None
    finish_job(world, "train-workers-1")
    done = world.condition(SET, "Completed")
    assert done is not None
    assert (done["reason"], done["message"]) == ("AllJobsCompleted", "jobset completed successfully")
    assert world.status(SET)["terminalState"] == "Completed"
    assert world.told("AllJobsCompleted") == ["jobset completed successfully"]


SUCCESS_POLICIES = {
    "any job will do": ({"operator": "Any"}, ["train-workers-1"]),
    "any of the driver's": (
        {"operator": "Any", "targetReplicatedJobs": ["driver"]},
        ["train-workers-0", "train-driver-0"],
    ),
    "all of the driver's": (
        {"operator": "All", "targetReplicatedJobs": ["driver"]},
        ["train-workers-1", "train-driver-0"],
    ),
}


@pytest.mark.parametrize(("policy", "finished"), SUCCESS_POLICIES.values(), ids=SUCCESS_POLICIES.keys())
def test_success_policies(policy: dict[str, Any], finished: list[str]) -> None:
    world = World()
    groups = (replicated("driver", replicas=1, pods=1), replicated("workers"))
    world.apply(jobset(*groups, successPolicy=policy))
    for name in finished[:-1]:
        finish_job(world, name)
    assert world.condition(SET, "Completed") is None
    finish_job(world, finished[-1])
    assert world.condition(SET, "Completed") is not None
    assert sorted(jobs(world)) == sorted(finished), "what still ran is deleted, what is over stays"


def test_without_a_failure_policy_one_failed_job_fails_all() -> None:
    world = World()
    world.apply(jobset())
    finish_job(world, "train-workers-1", exit_code=1)
    failed = world.condition(SET, "Failed")
    assert failed is not None
    message = "jobset failed due to one or more job failures (first failed job: train-workers-1)"
    assert (failed["reason"], failed["message"]) == ("FailedJobs", message)
    assert jobs(world) == ["train-workers-1"]


def test_restarts_recreate_every_job_until_none_is_left() -> None:
    world = World()
    world.apply(jobset(failurePolicy={"maxRestarts": 1}))
    first = {j["metadata"]["uid"] for j in world.store.objects("Job.batch")}
    finish_job(world, "train-workers-0", exit_code=1)
    status = world.status(SET)
    assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
    assert jobs(world) == ["train-workers-0", "train-workers-1"]
    assert first.isdisjoint(j["metadata"]["uid"] for j in world.store.objects("Job.batch"))
    job = world.get(job_key("train-workers-1"))
    assert job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "1"
    message = "applying RestartJobSet failure policy action (first failed job: train-workers-0)"
    assert world.told("RestartJobSetFailurePolicyAction") == [message]
    assert world.told("DefaultFailurePolicy") == [message]
    restarting = world.condition(SET, "Restarting")
    assert restarting is not None
    assert (restarting["status"], restarting["reason"]) == ("False", "JobsReady"), "all pods are ready again"
    finish_job(world, "train-workers-1", exit_code=1)
    failed = world.condition(SET, "Failed")
    assert failed is not None
    assert failed["reason"] == "ReachedMaxRestarts"
    assert failed["message"].startswith("jobset failed due to reaching max number of restarts")


RULES = {
    "a rule that fails the JobSet": (
        [{"action": "FailJobSet", "targetReplicatedJobs": ["workers"]}],
        0,
        "FailJobSetFailurePolicyAction",
    ),
    "a restart that does not count": (
        [{"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["BackoffLimitExceeded"]}],
        1,
        "",
    ),
    "a rule for another reason, then the default": (
        [{"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}],
        0,
        "ReachedMaxRestarts",
    ),
    "a rule by message": (
        [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["^Job has reached .* limit$"]}],
        0,
        "FailJobSetFailurePolicyAction",
    ),
}


@pytest.mark.parametrize(("rules", "want_restarts", "want_reason"), RULES.values(), ids=RULES.keys())
def test_failure_rules(rules: list[dict[str, Any]], want_restarts: int, want_reason: str) -> None:
    world = World()
    world.apply(jobset(failurePolicy={"maxRestarts": 0, "rules": rules}))
    finish_job(world, "train-workers-0", exit_code=1)
    failed = world.condition(SET, "Failed")
    assert ("" if failed is None else failed["reason"]) == want_reason
    assert world.status(SET)["restarts"] == want_restarts
    assert "restartsCountTowardsMax" not in world.status(SET)


def test_a_rule_without_a_name_gets_one_and_restarts_bear_it() -> None:
    world = World()
    world.apply(jobset(failurePolicy={"maxRestarts": 3, "rules": [{"action": "RestartJobSet"}]}))
    finish_job(world, "train-workers-0", exit_code=1)
    assert len(world.told("FailurePolicy_failurePolicyRule0")) == 1


def test_in_order_start_waits_for_each_group_to_be_ready() -> None:
    world = World()
    world.hold = ("slow:1",)
    driver = replicated("driver", replicas=1, pods=1)
    driver["template"]["spec"]["template"] = template("slow:1", restartPolicy="Never")
    world.apply(jobset(driver, replicated("workers"), startupPolicy={"startupPolicyOrder": "InOrder"}))
    assert jobs(world) == ["train-driver-0"]
    assert world.condition(SET, "StartupPolicyInProgress") is not None
    world.make_ready(world.pods()[0])
    assert len(jobs(world)) == 3
    progress = world.condition(SET, "StartupPolicyInProgress")
    completed = world.condition(SET, "StartupPolicyCompleted")
    assert progress is not None and completed is not None
    assert (progress["status"], completed["status"]) == ("False", "True")
    assert completed["message"] == "in order startup policy has completed"


@pytest.mark.parametrize("wanted", ["Ready", "Complete"])
def test_a_group_depends_on_another(wanted: str) -> None:
    world = World()
    world.hold = ("slow:1",)
    first = replicated("data", replicas=1, pods=1)
    first["template"]["spec"]["template"] = template("slow:1", restartPolicy="Never")
    world.apply(jobset(first, replicated("workers", dependsOn=[{"name": "data", "status": wanted}])))
    assert jobs(world) == ["train-data-0"]
    world.make_ready(world.pods()[0])
    assert len(jobs(world)) == (3 if wanted == "Ready" else 1)
    finish_job(world, "train-data-0")
    assert len(jobs(world)) == 3


def test_suspended_jobs_resume_with_what_was_written_into_the_template_meanwhile() -> None:
    world = World()
    world.apply(jobset(suspend=True))
    assert world.pods() == []
    assert counts(world, "workers") == {"suspended": 2}
    condition = world.condition(SET, "Suspended")
    assert condition is not None
    assert (condition["reason"], condition["message"]) == ("SuspendedJobs", "jobset is suspended")
    resumed = jobset()["spec"]["replicatedJobs"]
    resumed[0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a100"}
    world.patch(SET, {"spec": {"suspend": False, "replicatedJobs": resumed}})
    assert len(world.pods()) == 4
    assert {p["spec"]["nodeSelector"]["pool"] for p in world.pods()} == {"a100"}
    assert world.told("ResumeJobs") == ["jobset is resumed"]
    world.patch(SET, {"spec": {"suspend": True}})
    assert world.pods() == []
    assert world.told("SuspendedJobs") == ["jobset is suspended"] * 2


def test_it_goes_when_its_time_to_live_is_over() -> None:
    world = World()
    world.apply(jobset(ttlSecondsAfterFinished=60))
    finish_job(world, "train-workers-0")
    finish_job(world, "train-workers-1")
    world.advance(59)
    assert world.get(SET)
    world.advance(2)
    assert world.store.get(SET) is None
    assert (jobs(world), world.pods(), world.store.objects("Service")) == ([], [], [])


def test_exclusive_placement_by_node_selector() -> None:
    world = World()
    made = jobset(replicated(replicas=1, pods=1))
    made["metadata"]["annotations"] = {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
        "alpha.jobset.sigs.k8s.io/node-selector": "true",
    }
    world.apply(made)
    (pod,) = world.pods()
    assert pod["spec"]["nodeSelector"] == {
        "alpha.jobset.sigs.k8s.io/namespaced-job": "default_train-workers-0"
    }
    assert pod["spec"]["tolerations"] == [
        {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_another_controller_may_manage_it() -> None:
    world = World()
    world.apply(jobset(managedBy="kueue.x-k8s.io/multikueue"))
    assert jobs(world) == []


def test_blocking_recreation_waits_for_the_last_job_of_before() -> None:
    world = World()
    policy = {"maxRestarts": 2, "restartStrategy": "BlockingRecreate"}
    world.apply(jobset(failurePolicy=policy))
    finish_job(world, "train-workers-0", exit_code=1)
    attempts = {
        j["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"]
        for j in world.store.objects("Job.batch")
    }
    assert attempts == {"1"}
    assert len(names(world.pods())) == 4
