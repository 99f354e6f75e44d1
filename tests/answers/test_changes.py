"""What the changes may be: each is pasted as it is printed, and starts the object."""

from __future__ import annotations

from typing import Any

import answerworlds as worlds
import pytest
from answerworlds import job, moment_of, namespace, node
from test_explain_properties import paste

from fairway.answers.changes import with_changes
from fairway.answers.explain import explain
from fairway.answers.explanation import Explanation
from fairway.answers.naming import find
from fairway.answers.trials import HORIZON_US, has_started
from fairway.ground import Moment
from fairway.kube.objects import Obj

_TEAM = [namespace("team"), worlds.flavor("gpus"), worlds.local_queue("main", "a")]


def changed(moment: Moment, text: str) -> Explanation:
    """The explanation, whose changes all start the object."""
    key = find(moment.store, text, "team")
    found = with_changes(moment, explain(moment, key))
    assert found.changes, found.sentence
    for change in found.changes:
        twin = moment.fork()
        for command in change.commands:
            paste(twin, command)
        twin.wake()
        twin.run(twin.now_us + HORIZON_US)
        assert has_started(twin.store, key), f"{found.sentence}\n{change}"
    return found


def asking(made: Obj, **requests: str) -> Obj:
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"].update(requests)
    return made


def test_a_resource_that_no_flavor_covers_is_named_and_covered() -> None:
    queue = worlds.cluster_queue("a", {"gpus": 4})
    moment = moment_of([node("n"), *_TEAM, queue], [asking(job("big", 6), memory="1Gi")])
    found = changed(moment, "job/big")
    assert found.blocker.numbers["uncovered"] == {"memory": 2**30}
    assert any(
        "1Gi memory asked, which no flavor of ClusterQueue a covers" in d for d in found.chain[1].details
    )
    (change,) = found.changes or ()
    assert (
        change.what
        == "quota of ClusterQueue a: 2 more nvidia.com/gpu in flavor gpus, 1Gi memory, which it does not cover"
    )


def test_two_groups_that_are_both_short_are_raised_together() -> None:
    queue = worlds.cluster_queue("a", {"gpus": 1})
    cpu = {"name": "gpus", "resources": [{"name": "cpu", "nominalQuota": "1"}]}
    queue["spec"]["resourceGroups"].append(
        {"coveredResources": ["cpu"], "flavors": [{**cpu, "name": "host"}]}
    )
    moment = moment_of([node("n"), *_TEAM, worlds.flavor("host"), queue], [asking(job("both", 2), cpu="3")])
    what = [c.what for c in changed(moment, "job/both").changes or ()]
    assert "quota of ClusterQueue a: 1 more nvidia.com/gpu in flavor gpus, 2 more cpu in flavor host" in what


def test_a_flavor_that_taints_is_tolerated() -> None:
    flavor = worlds.flavor("gpus")
    flavor["spec"]["nodeTaints"] = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    moment = moment_of([node("n"), *_TEAM, flavor, worlds.cluster_queue("a", {"gpus": 8})], [job("j", 1)])
    found = changed(moment, "job/j")
    assert found.blocker.layer == "scheduler"
    assert found.blocker.numbers["mismatches"] == {
        "gpus": "untolerated taint {team x NoSchedule <nil>} in flavor gpus"
    }
    assert [c.what for c in found.changes or ()] == ["a toleration for team=x:NoSchedule"]


def test_a_flavor_whose_topology_is_not_asked_for_and_one_without() -> None:
    moment = moment_of([node("n"), *_TEAM, worlds.cluster_queue("a", {"gpus": 8})], [_level(job("j", 1))])
    found = changed(moment, "job/j")
    assert "does not support TopologyAwareScheduling" in found.sentence
    assert [c.what for c in found.changes or ()] == ["no topology asked for"]


def _level(made: Obj) -> Obj:
    name = "kueue.x-k8s.io/podset-required-topology"
    made["spec"]["template"]["metadata"]["annotations"][name] = "kubernetes.io/hostname"
    return made


def test_what_is_left_in_the_way_is_taken_out_too() -> None:
    """A stopped queue without enough quota, and a namespace that lets only small pods in."""
    limits = {"hard": {"requests.nvidia.com/gpu": "1"}}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": limits,
    }
    queue = worlds.cluster_queue("a", {"gpus": 1}, stopPolicy="Hold")
    made = job("j", 2)
    moment = moment_of([node("n"), *_TEAM, quota, queue], [made])
    found = changed(moment, "job/j")
    assert found.blocker.layer == "queue"
    assert any("no longer stopped and " in c.what for c in found.changes or ())


def test_both_queues_that_are_stopped_go_on() -> None:
    local = worlds.local_queue("main", "a")
    local["spec"]["stopPolicy"] = "Hold"
    queue = worlds.cluster_queue("a", {"gpus": 8}, stopPolicy="HoldAndDrain")
    found = changed(moment_of([node("n"), *_TEAM, local, queue], [job("j", 1)]), "job/j")
    assert [c.what for c in found.changes or ()] == [
        "LocalQueue team/main and ClusterQueue a no longer stopped"
    ]


def test_a_head_that_a_strict_queue_waits_for_goes() -> None:
    queue = worlds.cluster_queue("a", {"gpus": 4}, queueingStrategy="StrictFIFO")
    moment = moment_of([node("n"), *_TEAM, queue], [job("head", 6)], [job("small", 1)])
    whats = [c.what for c in changed(moment, "job/small").changes or ()]
    assert "team/head finished or deleted" in whats


def pytorch(**policy: Any) -> Obj:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}
    meta = {"name": "pt", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    roles = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
    spec = {"runPolicy": policy, "pytorchReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec}


def test_a_kind_that_kueue_does_not_look_after() -> None:
    """As its manifests install it."""
    queue = worlds.cluster_queue("a", {"gpus": 8})
    moment = moment_of([node("n"), *_TEAM, queue], [pytorch(suspend=True)])
    found = changed(moment, "pytorchjob/pt")
    assert (found.state, found.blocker.layer, found.blocker.reason) == (
        "Suspended",
        "queue",
        "NotLookedAfter",
    )
    assert "lack kubeflow.org/pytorchjob" in found.sentence
    assert [c.what for c in found.changes or ()] == ["PyTorchJob team/pt no longer suspended"]


@pytest.mark.parametrize(
    ("hard", "limits", "what"),
    [
        ({"limits.cpu": "8"}, None, "limits.cpu said in every container"),
        (None, {"type": "Container", "max": {"nvidia.com/gpu": "1"}}, "LimitRange team/most deleted"),
    ],
    ids=["a quota that wants a limit", "a limit on containers"],
)
def test_doors(hard: Obj | None, limits: Obj | None, what: str) -> None:
    doors: list[Obj] = []
    meta = {"name": "most", "namespace": "team"}
    if hard:
        doors.append({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}})
    if limits:
        doors.append(
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [limits]}}
        )
    found = changed(moment_of([node("n"), namespace("team"), *doors], [job("j", 2, queue="")]), "job/j")
    assert found.blocker.layer == "admission"
    assert what in [c.what for c in found.changes or ()]


def test_a_job_lacks_pods_as_long_as_its_operator_has_not_made_all() -> None:
    """Of a JobSet two Jobs of one pod; of one the pod is refused."""
    hard = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"}}
    inner = {"parallelism": 1, "completions": 1, "template": worlds.template(1)}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": inner}}]}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "team"},
        "spec": spec,
    }
    moment = moment_of([node("n"), namespace("team"), {**hard, "spec": {"hard": {"pods": "1"}}}], [jobset])
    key = find(moment.store, "jobset/js", "team")
    assert not has_started(moment.store, key)
    assert changed(moment, "jobset/js").blocker.layer == "admission"
