"""Kinds of jobs at the edges: what stays of what is written anew, statuses that say little, how a kind is stopped."""

from __future__ import annotations

from typing import Any

import pytest
from test_kinds_of_jobs import IN_STEP, JOB, MINIMUM, STORE, K, _job, _of, _replicated
from test_pod_groups import pod
from test_serving_and_slices import (
    _elastic,
    _ensured,
    _looked,
    _lws,
    _of_index,
    _pod,
    _set,
    _slice,
    _workload,
)

from fairway.cluster.actions import Create, Delete, Emit, Replace, SetStatus
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, Obj
from fairway.queueing.facts.gates import DEFAULT_GATES, gates_from
from fairway.queueing.integrations import construct, podgroup, serving, slices
from fairway.queueing.integrations.job import terminal_indexes
from fairway.queueing.integrations.jobset import JobSet
from fairway.queueing.integrations.kubeflow import MPIJob
from fairway.queueing.integrations.leaderworkerset import LeaderWorkerSet
from fairway.queueing.integrations.ownership import OwnedWorkloads
from fairway.queueing.integrations.pod import Pod
from fairway.queueing.integrations.podsetinfo import PodSetInfo, admitted_infos, assigned_info
from fairway.queueing.integrations.priorities import priority_of
from fairway.queueing.integrations.ray import RayCluster
from fairway.queueing.integrations.reconcile import Kueue, managed_ancestor
from fairway.queueing.integrations.registry import ALL, integrations
from fairway.queueing.integrations.rolehash import role_hash
from fairway.queueing.integrations.settings import JobSettings

SET, POD = JobSet(), Pod()
_NO_TOPOLOGIES = {"TopologyAwareScheduling": False, "TASProfileMixed": False}


# Workloads as they are made


def test_a_workload_belongs_to_its_job() -> None:
    made = construct.constructed(STORE, JOB, _job(), JobSettings())
    assert (made["apiVersion"], made["kind"]) == ("kueue.x-k8s.io/v1beta2", "Workload")
    (owner,) = made["metadata"]["ownerReferences"]
    want = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "j",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert owner == want


def test_a_workload_tells_its_class() -> None:
    view = Store()
    view.load(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "high"},
            "value": 7,
        }
    )
    job = _job()
    job["metadata"]["labels"] = {f"{K}priority-class": "high"}
    spec = construct.constructed(view, JOB, job, JobSettings())["spec"]
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    assert (spec["priority"], spec["priorityClassRef"]) == (7, ref)


def test_of_variables_said_twice_all_else_stays() -> None:
    job = _job(parallelism=3)
    doubled = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    template = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": doubled}], "hostNetwork": True},
    }
    job["spec"]["template"] = template
    (found,) = construct.job_pod_sets(STORE, JOB, job)
    assert (found["name"], found["count"]) == ("main", 3)
    container = {"name": "c", "image": "i", "env": doubled[1:]}
    assert found["template"] == {**template, "spec": {"containers": [container], "hostNetwork": True}}


# How a kind is started and stopped


def test_how_templates_are_stopped_and_restored() -> None:
    spec: Obj = {"suspend": False, "network": {"x": 1}, "replicatedJobs": [_replicated("a")]}
    job = _of(SET, spec)
    told = [
        Emit(
            Key("JobSet.jobset.x-k8s.io", "ns", "j"),
            "Normal",
            "Stopped",
            "m",
            "jobset.x-k8s.io/jobset-kueue-controller",
        )
    ]
    (plain, event) = SET.stop(STORE, job, None, "R", "m")
    assert isinstance(plain, Replace) and [event] == told
    assert plain.obj == {**job, "spec": {**spec, "suspend": True}}
    (restored, event) = SET.stop(STORE, job, [PodSetInfo("a", 1, node_selector={"p": "q"})], "R", "m")
    assert isinstance(restored, Replace) and [event] == told
    template = restored.obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"p": "q"} and restored.obj["spec"]["suspend"] is True
    waits = _of(SET, {**spec, "suspend": True})
    assert SET.stop(STORE, waits, None, "R", "m") == SET.stop(STORE, waits, [], "R", "m") == []
    (started, event) = SET.start(STORE, waits, [PodSetInfo("a", 1, node_selector={"p": "q"})], "go")
    assert (
        isinstance(started, Replace)
        and isinstance(event, Emit)
        and (event.reason, event.message) == ("Started", "go")
    )
    assert started.obj["spec"]["suspend"] is False
    assert started.obj["spec"]["replicatedJobs"] == restored.obj["spec"]["replicatedJobs"]


def test_which_changes_concern_a_kind() -> None:
    old = _of(SET, {})
    new, key = _of(SET, {}), Key("JobSet.jobset.x-k8s.io", "ns", "j")
    assert SET.concerns(Change(1, MODIFIED, key, new, old)) is True
    assert SET.concerns(Change(1, MODIFIED, key, old, old)) is False
    assert SET.concerns(Change(1, DELETED, key, old, old)) is True
    assert SET.concerns(Change(1, ADDED, key, old, None)) is True
    assert (SET.kind, SET.component) == ("JobSet", "jobset.x-k8s.io/jobset-kueue-controller")
    assert (MPIJob().kind, POD.component) == ("MPIJob", "pod-kueue-controller")
    mine, others = pod("p"), {**pod("q"), "metadata": {**pod("q")["metadata"], "labels": {}}}
    assert (POD.skips(STORE, mine), POD.skips(STORE, others)) == (False, True)
    for one, want in ((mine, True), (others, False)):
        key = Key("Pod", "ns", one["metadata"]["name"])
        assert POD.concerns(Change(1, MODIFIED, key, one, {**one})) is want
        assert POD.concerns(Change(1, ADDED, key, one, None)) is want
        assert POD.concerns(Change(1, MODIFIED, key, one, one)) is False


# Jobs


@pytest.mark.parametrize(
    ("annotations", "said", "count", "want"),
    [
        (MINIMUM, {}, 1, {}),
        (MINIMUM, {}, 2, {"parallelism": 2}),
        (MINIMUM, {"parallelism": 2}, 1, {"parallelism": 1}),
        (
            {**MINIMUM, **IN_STEP},
            {"parallelism": 2, "completions": 5},
            2,
            {"parallelism": 2, "completions": 5},
        ),
        (
            {**MINIMUM, **IN_STEP},
            {"parallelism": 2, "completions": 5},
            3,
            {"parallelism": 3, "completions": 3},
        ),
        (IN_STEP, {"parallelism": 2}, 3, {"parallelism": 2}),
    ],
)
def test_a_restored_job_is_as_large_as_its_workload(
    annotations: Obj, said: Obj, count: int, want: Obj
) -> None:
    job = _job(annotations=annotations, **said)
    spec = JOB.restored(job, [PodSetInfo("main", count)])["spec"]
    assert {k: v for k, v in spec.items() if k in ("parallelism", "completions")} == want
    assert JOB.restored(job, []) is job


def test_labels_of_a_template_go_and_all_else_stays() -> None:
    job = _job()
    job["spec"]["template"] = {
        "metadata": {"labels": {"controller-uid": "u", "x": "y"}},
        "spec": {"a": 1},
        "other": 2,
    }
    (found,) = JOB.pod_sets(STORE, job)
    assert found["template"] == {"metadata": {"labels": {"x": "y"}}, "spec": {"a": 1}, "other": 2}


def test_metadata_of_a_job_by_value() -> None:
    base = _job(suspend=False)
    base["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "1"}
    key = Key("Job.batch", "ns", "j")

    def matters(**meta: Any) -> bool:
        new = {**base, "metadata": {**base["metadata"], **meta}}
        return JOB.concerns(Change(1, MODIFIED, key, new, base))

    assert not matters(labels={"a": "b"}, resourceVersion="2")
    assert matters(labels={"a": "c"}) and matters(labels={"a": "c"}, resourceVersion="2")
    assert matters(name="k") and matters(annotations={"x": "y"})


@pytest.mark.parametrize(
    ("texts", "completions", "want"),
    [
        (["0"], 5, 1),
        (["0-0"], 5, 1),
        (["0-2", "1-3"], 5, 4),
        (["1-3", "0"], 5, 4),
        (["4"], 5, 1),
        (["5"], 5, 0),
        (["3-9"], 5, 2),
        (["2-1"], 5, 0),
        (["0-9"], 0, 0),
        (["", ""], 5, 0),
        (["0,2", "2,4"], 5, 3),
    ],
)
def test_indexes_that_are_over(texts: list[str], completions: int, want: int) -> None:
    assert terminal_indexes(texts, completions) == want


def test_job_sets_that_say_little_of_their_jobs() -> None:
    def job(*statuses: Obj, replicas: int = 2) -> Obj:
        return _of(
            SET,
            {"replicatedJobs": [_replicated("a", replicas=replicas)]},
            replicatedJobsStatus=list(statuses),
        )

    assert SET.pods_ready(STORE, job({"name": "a", "ready": 2}))
    assert SET.pods_ready(STORE, job({"name": "a", "succeeded": 2}))
    assert SET.pods_ready(STORE, job({"name": "a", "ready": 1, "succeeded": 1}))
    assert not SET.pods_ready(STORE, job({"name": "a", "ready": 1}))
    assert not SET.pods_ready(STORE, job({"name": "a"})) and not SET.pods_ready(STORE, job())
    assert SET.pods_ready(STORE, job({"name": "a"}, replicas=0))
    assert SET.reclaimable(STORE, job()) == SET.reclaimable(STORE, job({"name": "b", "succeeded": 2})) == []


# LeaderWorkerSets


def test_workloads_of_replicas_are_as_others_beside_their_name() -> None:
    job = _lws(1, annotations={"provreq.kueue.x-k8s.io/a": "1"})
    (made,) = [a.obj for a in _looked(job) if isinstance(a, Create)]
    plain = construct.constructed(Store(), LeaderWorkerSet(), job, JobSettings())
    meta = {
        **plain["metadata"],
        "name": _of_index(job, 0),
        "annotations": {**plain["metadata"]["annotations"], f"{K}component-workload-index": "0"},
    }
    assert made == {**plain, "metadata": meta}
    assert meta["annotations"]["provreq.kueue.x-k8s.io/a"] == "1"


def test_templates_of_replicas_keep_their_pods() -> None:
    job = _lws(size=4)
    worker = job["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    for meta in (
        {"labels": {"a": "b"}},
        {"annotations": {"c": "d"}},
        {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    ):
        worker["metadata"] = {**meta, "name": "n"}
        (found,) = LeaderWorkerSet().pod_sets(STORE, job)
        assert found["template"] == {"metadata": meta, "spec": worker["spec"]}
        assert (found["name"], found["count"]) == ("main", 4) and "topologyRequest" in found
    worker["metadata"] = {"labels": {}}
    assert LeaderWorkerSet().pod_sets(STORE, job)[0]["template"] == {"spec": worker["spec"]}


def test_replicas_of_a_set_that_says_little() -> None:
    def made(wanted: int, **status: Any) -> int:
        job = _lws(wanted, status=status)
        job["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": {"maxSurge": 1}}
        return sum(isinstance(a, Create) for a in _looked(job))

    assert (made(1), made(1, replicas=2), made(1, replicas=2, updatedReplicas=1)) == (1, 2, 1)
    assert (made(2, replicas=1), made(2, replicas=0), made(0, replicas=3)) == (2, 2, 0)


def test_what_is_beyond_the_most_at_once_is_left_for_the_next_look() -> None:
    job = _lws(502, 1, queue="new")
    late, over = _workload(_of_index(job, 501), owner="net"), _workload("over", owner="net")
    found = _looked(job, owned=(late, over))
    assert not any(isinstance(a, (Replace, Delete)) for a in found)
    few = _lws(2, 1)
    (gone,) = [a for a in _looked(few, owned=(_workload("over", owner="net"),)) if isinstance(a, Delete)]
    assert (gone.key.name, gone.uid) == ("over", "uid-over")


# Pods


def _group(*pods: Obj) -> Obj:
    view = Store()
    for one in pods:
        view.load(one)
    found = POD.load(view, Key("Pod", "ns", pods[0]["metadata"]["name"]))
    assert found is not None
    return found


def test_a_group_and_a_pod_answer_apart() -> None:
    alone, group = pod("a", group="", total=""), _group(pod("a"), pod("b", role="s"))
    workload: Obj = {"metadata": {"name": "w", "uid": "w"}, "spec": {"podSets": [{"name": "r", "count": 1}]}}
    assert POD.shaped(alone, workload) is workload and POD.known(alone, workload) is alone
    assert f"{K}is-group-workload" in POD.shaped(group, workload)["metadata"]["annotations"]
    known = POD.known(group, workload)
    assert [p["metadata"]["name"] for p in known["members"]] == ["a"]
    assert (POD.workload_name(alone), POD.workload_name(group)) == (None, "g")
    assert POD.claimed(alone, workload) is None and POD.claimed(group, workload)
    assert POD.upkeep(STORE, alone, workload, 0) is None
    assert POD.is_equivalent(alone, [], []) is None
    mine = [{"name": "r", "count": 1}]
    for others, want in (
        ([], False),
        ([{"name": "r", "count": 0}], False),
        (mine, True),
        ([{"name": "s", "count": 2}], False),
    ):
        assert POD.is_equivalent(group, mine, others) is want
    assert POD.is_equivalent(group, [{"name": "r", "count": 0}], []) is False


def test_of_a_group_each_pod_is_started_and_stopped_for_itself() -> None:
    """Whoever runs already, or goes, is passed over; the next one is not."""
    group = _group(pod("a"), pod("b", gated=True), pod("c", going=True, node="n"), pod("d", "Running"))
    started = POD.start(STORE, group, [PodSetInfo("r", 4)], "go")
    assert [a.obj["metadata"]["name"] for a in started if isinstance(a, Replace)] == ["b"]
    stopped = POD.stop(STORE, group, None, "R", "m")
    assert [a.key.name for a in stopped if isinstance(a, Delete)] == ["a", "d"]


@pytest.mark.parametrize("topologies", [True, False])
def test_a_pod_is_held_and_let_go(topologies: bool) -> None:
    kind = Pod() if topologies else Pod(gates_from(_NO_TOPOLOGIES)[0])
    free = pod("a", group="", total="")
    held = kind.with_suspend(free, True)
    gates = [f"{K}admission", *([f"{K}topology"] if topologies else [])]
    assert [g["name"] for g in held["spec"]["schedulingGates"]] == gates
    assert kind.with_suspend(held, False) is held
    assert {**held["spec"], "schedulingGates": []} == {**free["spec"], "schedulingGates": []}
    info = PodSetInfo("main", 1, node_selector={"p": "q"})
    let_go = kind.with_infos(held, [info])
    assert let_go["spec"]["nodeSelector"] == {"p": "q"} and "schedulingGates" not in let_go["spec"]
    assert kind.restored(let_go, [info]) is let_go


def test_a_fast_group_has_the_size_it_says_or_one() -> None:
    fast = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}
    for total, want in (("3", 3), ("", 1), ("x", 1)):
        (found,) = podgroup.pod_sets(POD, _group(pod("a", total=total, **fast)))
        assert (found["name"], found["count"]) == ("r", want)
    two = _group(pod("a", "Failed", role="s", **fast), pod("b", **fast), pod("c", role="t", **fast))
    assert [(ps["name"], ps["count"]) for ps in podgroup.pod_sets(POD, two)] == [("r", 2)]
    lost = _group(pod("a", "Failed", total="1", **fast))
    workload: Obj = {
        "metadata": {"name": "g", "namespace": "ns", "uid": "g", "ownerReferences": [{"uid": "uid-a"}]}
    }
    for count, waits in ((1, True), (0, False)):
        of = {**workload, "spec": {"podSets": [{"name": "r", "count": count}]}}
        found = [a for a in POD.upkeep(STORE, lost, of, 0) or () if isinstance(a, SetStatus)]
        assert bool(found) is waits


def test_of_those_that_are_lost_the_newest_are_replaced_first() -> None:
    """As many stay as the role lacks: those with the finalizer, older ones first."""
    members = [
        pod("old", "Failed", age=1),
        pod("new", "Failed", age=2),
        pod("let-go", "Failed", age=0, finalizer=False),
        pod("runs", "Running", age=9),
    ]
    for count, stay in (
        (1, []),
        (2, ["old"]),
        (3, ["old", "new"]),
        (4, ["old", "new", "let-go"]),
        (9, ["old", "new", "let-go"]),
    ):
        workload = {"metadata": {"name": "g"}, "spec": {"podSets": [{"name": "r", "count": count}]}}
        kept = podgroup.kept(_group(*members), workload)["members"]
        assert [p["metadata"]["name"] for p in kept] == ["runs", *stay], count


def test_owners_of_a_group_do_not_control_its_workload() -> None:
    workload: Obj = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {}}
    replaced, told = podgroup.owned_by_all(POD, workload, [pod("a"), pod("b")])
    assert isinstance(replaced, Replace) and isinstance(told, Emit)
    want = [{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": f"uid-{n}"} for n in "ab"]
    assert replaced.obj["metadata"]["ownerReferences"] == want
    assert POD.shaped(_group(pod("a"), pod("b")), workload)["metadata"]["ownerReferences"] == want


def test_a_group_that_lacks_nobody_is_told_so_once() -> None:
    def told(status: str | None, reason: str = "X") -> list[Obj]:
        conditions = (
            []
            if status is None
            else [{"type": "WaitingForReplacementPods", "status": status, "reason": reason, "message": "m"}]
        )
        workload = {
            "metadata": {"name": "g", "namespace": "ns", "uid": "g", "ownerReferences": [{"uid": "uid-a"}]},
            "spec": {"podSets": [{"name": "r", "count": 1}]},
            "status": {"conditions": conditions, "x": 1},
        }
        found = POD.upkeep(STORE, _group(pod("a")), workload, 0) or []
        return [a.status for a in found if isinstance(a, SetStatus)]

    assert told(None) == told("False") == told("False", "PodsReady") == []
    (status,) = told("True")
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "PodsReady",
        "No pods need replacement",
    )
    assert "observedGeneration" not in condition and status["x"] == 1


# What is injected


def test_topologies_that_were_not_asked_for_are_told_to_pods() -> None:
    placed = {"name": "a", "count": 1, "topologyAssignment": {"levels": [], "domains": []}}
    gate = {"name": f"{K}topology"}
    note = {f"{K}podset-unconstrained-topology": "true"}
    for asked in ("required", "preferred", "unconstrained"):
        info = assigned_info(
            STORE, placed, {"topologyRequest": {asked: "x", "podIndexLabel": "y"}}, DEFAULT_GATES
        )
        assert (info.annotations, list(info.gates)) == ({}, [gate])
    for request in ({}, {"podIndexLabel": "y"}, {"required": None}):
        info = assigned_info(STORE, placed, {"topologyRequest": request}, DEFAULT_GATES)
        assert (info.annotations, list(info.gates)) == (note, [gate])
    assert assigned_info(STORE, placed, {}, DEFAULT_GATES).annotations == note
    bare = assigned_info(STORE, {"name": "a"}, {"count": 4}, DEFAULT_GATES)
    assert (bare.name, bare.count, bare.annotations, bare.gates) == ("a", 4, {}, [])
    off = gates_from(_NO_TOPOLOGIES)[0]
    assert assigned_info(STORE, placed, {}, off).gates == []


def test_what_is_admitted_is_found_by_the_name_of_its_pod_set() -> None:
    pod_sets = [{"name": "a", "count": 4}, {"count": 5}, {"name": "b", "count": 6}]
    assigned = [{"name": "b"}, {}, {"name": "a", "count": 1}, {"name": "c"}]
    check = {
        "name": "k",
        "podSetUpdates": [{"name": "b", "labels": {"x": "y"}, "tolerations": [{"key": "t"}]}],
    }
    workload = {
        "metadata": {"name": "w"},
        "spec": {"podSets": pod_sets},
        "status": {"admission": {"podSetAssignments": assigned}, "admissionChecks": [check]},
    }
    infos = admitted_infos(STORE, workload, DEFAULT_GATES)
    assert [(i.name, i.count) for i in infos] == [("b", 6), ("main", 5), ("a", 1), ("c", 1)]
    assert [(i.labels.get("x"), list(i.tolerations)) for i in infos] == [
        ("y", [{"key": "t"}]),
        *[(None, [])] * 3,
    ]


def test_classes_that_say_no_value() -> None:
    view = Store()
    group = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    mine = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "x"},
    }
    for obj in (mine, {**group, "metadata": {"name": "zero"}}):
        view.load(obj)
    job = _job()
    job["metadata"]["labels"] = {f"{K}priority-class": "x"}
    assert priority_of(view, job, [], None).value == 0
    assert priority_of(view, _job(), [], "zero").value == 0
    assert priority_of(view, _job(), [], None) == (None, 0)
    # Of several defaults the lowest, of those alike the first by name.
    for name, value, want in (("b", 9, 9), ("c", 5, 5), ("a", 5, 5), ("d", None, 0)):
        said = {} if value is None else {"value": value}
        view.load({**group, "metadata": {"name": name}, "globalDefault": True, **said})
        assert priority_of(view, _job(), [], None).value == want
    view.load({**group, "metadata": {"name": "z"}, "globalDefault": True, "value": 0})
    (ref, value) = priority_of(view, _job(), [], None)
    assert ref is not None and (ref["name"], value) == ("d", 0)
    view.load({**group, "metadata": {"name": "e"}, "globalDefault": True, "value": -3})
    assert priority_of(view, _job(), [], None).value == -3


def test_the_autoscaler_beside_the_head() -> None:
    head = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"containers": [{"name": "head"}], "hostNetwork": True},
    }
    cluster = {"headGroupSpec": {"template": head}, "enableInTreeAutoscaling": True}
    kind = RayCluster()
    (found,) = kind.pod_sets(STORE, _of(kind, cluster))
    template = found["template"]
    assert [c["name"] for c in template["spec"]["containers"]] == ["head", "autoscaler"]
    plain = {**template, "spec": {**template["spec"], "containers": head["spec"]["containers"]}}  # type: ignore[index]
    assert plain == head and (found["name"], found["count"]) == ("head", 1)


def test_namespaces_that_are_managed_by_their_labels() -> None:
    settings = JobSettings(managed_namespaces=label_selector({"matchLabels": {"a": "b"}}))
    assert settings.manages_namespace("ns", {"a": "b"}) and not settings.manages_namespace("ns", {})
    assert JobSettings().manages_namespace("ns", {}) and not JobSettings().manages_namespace(
        "kube-system", {}
    )


def _owner(i: int) -> Obj:
    version = "jobset.x-k8s.io/v1alpha2"
    return {"apiVersion": version, "kind": "JobSet", "name": f"o{i}", "uid": f"o{i}", "controller": True}


def test_the_topmost_of_ten_owners() -> None:
    """Who names no queue is passed through."""
    job: Obj = {"metadata": {"name": "j", "namespace": "ns", "ownerReferences": [_owner(1)]}}
    for length, is_found in ((1, True), (10, True), (11, False)):
        view = Store()
        for i in range(1, length + 1):
            meta: Obj = {"name": f"o{i}", "namespace": "ns", "uid": f"o{i}"}
            meta |= (
                {"labels": {f"{K}queue-name": "q"}} if i == length else {"ownerReferences": [_owner(i + 1)]}
            )
            view.load({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta})
        found = managed_ancestor(Kueue(view, OwnedWorkloads(), integrations(), JobSettings()), job)
        assert (found is not None) is is_found, length
        assert found is None or found["metadata"]["name"] == f"o{length}"


def test_kinds_that_are_on() -> None:
    assert list(integrations(["pod", "batch/job", "nobody"])) == ["Job.batch", "Pod"]
    assert list(integrations([])) == [] and len(integrations()) == len(ALL)
    gates = gates_from(_NO_TOPOLOGIES)[0]
    assert integrations(["pod"], gates)["Pod"].gates is gates


def test_roles_are_hashed_as_go_prints_their_ports() -> None:
    """A container's port is printed where it is none, too."""

    def hashed(**port: Any) -> str:
        return role_hash({"containers": [{"name": "c", "ports": [port]}]})

    assert hashed(name="x") == hashed(name="x", containerPort=0) != hashed(name="x", containerPort=1)
    assert hashed(name="x", hostPort=0) == hashed(name="x") != hashed(name="x", hostPort=1)


# What serves, and slices


def test_workloads_of_sets_are_owned_and_keep_what_they_say() -> None:
    job = _set(annotations={"provreq.kueue.x-k8s.io/a": "1"})
    kind = serving.StatefulSet()
    made = construct.constructed(Store(), kind, job, JobSettings())
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web"}
    ]
    assert made["metadata"]["annotations"] == {
        "provreq.kueue.x-k8s.io/a": "1",
        f"{K}is-group-workload": "true",
        f"{K}job-owner-gvk": "apps/v1, Kind=StatefulSet",
        f"{K}job-owner-name": "web",
    }
    (pod_set,) = made["spec"]["podSets"]
    assert pod_set["template"] == {"spec": {"containers": [{"name": "c"}]}}
    assert kind.pod_sets(STORE, {**job, "spec": {}})[0]["template"] == {"spec": {}}


def test_pods_without_their_gates_are_the_same_pods() -> None:
    other = {"name": "x"}
    for gates, want in (([], [other]), ([other], [other])):
        one = _pod("web-0", gates=[{"name": f"{K}admission"}, other, {"name": f"{K}topology"}])
        (let_go,) = serving.ungated(one)
        assert isinstance(let_go, Replace)
        assert let_go.obj == {**one, "spec": {**one["spec"], "schedulingGates": want}}, gates
    bare = _pod("web-0")
    (let_go,) = serving.ungated(bare)
    assert isinstance(let_go, Replace) and let_go.obj["spec"] == {"containers": [{"name": "c"}]}
    assert serving.ungated(_pod("web-0", gates=[other])) == serving.ungated(_pod("web-0", gates=[])) == []


def test_slices_by_age_and_by_name() -> None:
    assert _ensured(3, _slice("a", 3, at=1), _slice("b", 2, at=0)) == ("a", ["SetStatus b"])
    assert _ensured(2, _slice("a", 2, "Evicted")) == ("a", []), "one alone is never over"
    unnamed = _slice("a", 2)
    del unnamed["spec"]["podSets"][0]["name"]
    found = slices.ensured([{"count": 5}], [unnamed], 0)
    assert found is not None and isinstance(found[1][0], Replace)
    assert found[1][0].obj["spec"]["podSets"] == [{"count": 5}]
    uncounted = _slice("a", 1)
    del uncounted["spec"]["podSets"][0]["count"]
    assert (
        slices.ensured([{}], [uncounted], 0)
        == slices.ensured([{"count": 1}], [uncounted], 0)
        == (uncounted, [])
    )
    assert slices.is_scaled_down({"a": 2}, {"a": 1}) and not slices.is_scaled_down({"a": 2}, {"a": 1, "x": 1})


def test_elastic_pods_are_let_go_as_they_are() -> None:
    admitted = _slice(
        "w", 0, "QuotaReserved", "Admitted", status={"admission": {"podSetAssignments": [{"count": 1}]}}
    )
    one = _elastic("a")
    one["spec"]["schedulingGates"] = [{"name": "x"}, *one["spec"]["schedulingGates"]]
    (let_go,) = slices.ungated([admitted], [one])
    assert isinstance(let_go, Replace)
    assert let_go.obj == {**one, "spec": {**one["spec"], "schedulingGates": [{"name": "x"}]}}
    strange = _elastic("b", gated=False, pod_set="other")
    assert slices.ungated([admitted], [strange, _elastic("c", pod_set="other")]) == []
    assert len(slices.ungated([admitted], [strange, one])) == 1
    gated = [_elastic(name) for name in "abcd"]
    for count, runs, want in ((3, 1, 2), (2, 0, 2), (1, 2, 0), (None, 0, 0)):
        given = [{} if count is None else {"count": count}]
        granted = _slice(
            "w", 0, "QuotaReserved", "Admitted", status={"admission": {"podSetAssignments": given}}
        )
        running = [_elastic(f"r{i}", gated=False) for i in range(runs)]
        assert len(slices.ungated([granted], [*running, *gated])) == want


def test_templates_are_restored_where_their_number_is_right() -> None:
    job = _of(SET, {"replicatedJobs": [_replicated("a")]})
    assert SET.restored(job, []) is job
    assert SET.restored(job, [PodSetInfo("a", 1), PodSetInfo("b", 1)]) is job
