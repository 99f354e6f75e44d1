"""Jobs of each kind as Kueue reads and writes them, and what is injected into their pods: defaults, bounds, ties."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from fairway.cluster.actions import Emit, Replace, SetStatus
from fairway.cluster.changes import ADDED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.queueing.facts.gates import DEFAULT_GATES, gates_from
from fairway.queueing.integrations import construct
from fairway.queueing.integrations.integration import Finish, Integration, Reclaimable
from fairway.queueing.integrations.job import BatchJob, terminal_indexes
from fairway.queueing.integrations.jobset import JobSet
from fairway.queueing.integrations.kubeflow import PyTorchJob
from fairway.queueing.integrations.names import workload_name
from fairway.queueing.integrations.podsetinfo import (
    BadPodSets,
    FlavorMissing,
    PodSetInfo,
    admitted_infos,
    into_template,
    merged,
    spec_infos,
    with_info,
    wrong_number,
)
from fairway.queueing.integrations.podsready import is_up_to_date, readiness
from fairway.queueing.integrations.ray import RayCluster, RayJob
from fairway.queueing.integrations.settings import JobSettings
from fairway.queueing.integrations.templated import put
from fairway.queueing.integrations.topologyrequest import as_bool, topology_request

K = "kueue.x-k8s.io/"
STORE = Store()


def _job(status: Obj | None = None, annotations: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "u", "annotations": annotations or {}},
        "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}, **spec},
        "status": status or {},
    }


JOB = BatchJob()


# batch/v1 Jobs


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 3}, 3),
        ({"parallelism": 3, "completions": 2}, 2),
        ({"parallelism": 3, "completions": 9}, 3),
        ({"completions": 5}, 1),
        ({"parallelism": 0}, 0),
    ],
)
def test_how_many_pods_a_job_has(spec: Obj, count: int) -> None:
    (one,) = JOB.pod_sets(STORE, _job(**spec))
    assert (one["name"], one["count"]) == ("main", count)
    assert one["topologyRequest"] == {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
    assert "minCount" not in one
    for ready, succeeded, uncounted in product(range(3), repeat=3):
        status = {
            "ready": ready,
            "succeeded": succeeded,
            "uncountedTerminatedPods": {"succeeded": ["x"] * uncounted},
        }
        assert JOB.pods_ready(STORE, _job(status, **spec)) == (ready + succeeded + uncounted >= count)
    assert JOB.pods_ready(STORE, _job(**spec)) == (count == 0)


@pytest.mark.parametrize(("text", "minimum"), [("2", 2), ("x", None), (None, None), ("-1", -1), ("0", 0)])
def test_the_least_a_job_can_do_with(text: str | None, minimum: int | None) -> None:
    said = {} if text is None else {f"{K}job-min-parallelism": text}
    job = _job(annotations=said, parallelism=4)
    assert JOB.pod_sets(STORE, job)[0].get("minCount") == minimum
    off = BatchJob(gates_from({"PartialAdmission": False})[0])
    assert "minCount" not in off.pod_sets(STORE, job)[0]
    plain = BatchJob(gates_from({"TopologyAwareScheduling": False, "TASProfileMixed": False})[0])
    assert "topologyRequest" not in plain.pod_sets(STORE, job)[0]


def test_labels_of_the_controller_are_not_the_workloads() -> None:
    names = (
        "job-name",
        "controller-uid",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
    )
    job = _job()
    job["spec"]["template"]["metadata"] = {"labels": {**dict.fromkeys(names, "x"), "mine": "y"}, "name": "t"}
    (one,) = JOB.pod_sets(STORE, job)
    assert one["template"]["metadata"] == {
        "labels": {"batch.kubernetes.io/job-name": "x", "mine": "y"},
        "name": "t",
    }
    for name in names:
        job["spec"]["template"]["metadata"] = {"labels": {name: "x", "mine": "y"}}
        kept = {name: "x"} if name == "batch.kubernetes.io/job-name" else {}
        (one,) = JOB.pod_sets(STORE, job)
        assert one["template"]["metadata"] == {"labels": {**kept, "mine": "y"}}
    job["spec"]["template"]["metadata"] = {"labels": {"mine": "y"}}
    assert JOB.pod_sets(STORE, job)[0]["template"] is job["spec"]["template"]
    del job["spec"]["template"]["metadata"]
    assert JOB.pod_sets(STORE, job)[0]["template"] is job["spec"]["template"]


MINIMUM = {f"{K}job-min-parallelism": "1"}
IN_STEP = {f"{K}job-completions-equal-parallelism": "true"}


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({}, (4, 8)),
        (MINIMUM, (3, 8)),
        ({**MINIMUM, **IN_STEP}, (3, 3)),
        (IN_STEP, (4, 8)),
        ({**MINIMUM, f"{K}job-completions-equal-parallelism": "no"}, (3, 8)),
    ],
)
def test_a_job_is_as_large_as_it_was_admitted(annotations: Obj, want: tuple[int, int]) -> None:
    job = _job(annotations=annotations, parallelism=4, completions=8)
    info = PodSetInfo("main", 3, node_selector={"a": "b"}, labels={"l": "m"})
    for made in (JOB.with_infos(job, [info]), JOB.restored(job, [info])):
        assert (made["spec"]["parallelism"], made["spec"]["completions"]) == want
        assert made["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
        assert made["spec"]["template"]["metadata"]["labels"] == {"l": "m"}
    same = JOB.restored({**job, "spec": {**job["spec"], "parallelism": 3}}, [info])
    assert (same["spec"]["parallelism"], same["spec"]["completions"]) == (3, 8)
    assert JOB.restored(job, []) is job
    for wrong in ([], [info, info]):
        with pytest.raises(BadPodSets, match=f"expecting 1 podset, got {len(wrong)}"):
            JOB.with_infos(job, wrong)


def test_restored_templates_keep_the_controllers_labels() -> None:
    job = _job()
    job["spec"]["template"]["metadata"] = {"labels": {"job-name": "j", "added": "x"}}
    job["spec"]["template"]["spec"]["nodeSelector"] = {"gone": "x"}
    info = PodSetInfo(
        "main",
        1,
        annotations={"a": "1"},
        labels={"own": "y"},
        tolerations=[{"key": "k"}],
        gates=[{"name": "g"}],
    )
    template = JOB.restored(job, [info])["spec"]["template"]
    assert template["metadata"] == {"labels": {"own": "y", "job-name": "j"}, "annotations": {"a": "1"}}
    assert template["spec"] == {
        "containers": [{"name": "c"}],
        "tolerations": [{"key": "k"}],
        "schedulingGates": [{"name": "g"}],
    }


def test_what_stopping_a_job_takes() -> None:
    info = [PodSetInfo("main", 1)]
    selected = _job(suspend=True)
    selected["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}

    def stops(job: Obj, infos: Any = info) -> list[str]:
        actions = JOB.stop(STORE, job, infos, "Reason", "why")
        for a in actions:
            if isinstance(a, Replace):
                assert a.obj["spec"]["suspend"] is True
            if isinstance(a, SetStatus):
                assert a.status == {"kept": 1}
            if isinstance(a, Emit):
                assert (a.reason, a.message) == ("Stopped", "why")
        return [type(a).__name__ for a in actions]

    running = _job(suspend=False)
    started = {"startTime": "2026-01-01T00:00:00Z", "kept": 1}
    assert stops(running) == ["Replace", "Emit"] == stops(running, None)
    assert stops({**running, "status": started}) == ["Replace", "SetStatus", "Emit"]
    assert stops(_job(suspend=True)) == [] == stops(selected, None)
    assert stops(selected) == ["Replace"]
    assert stops({**selected, "status": started}) == ["Replace", "SetStatus"]
    assert stops({**_job(suspend=True), "status": started}) == []


@pytest.mark.parametrize(
    ("kind", "status", "message", "want"),
    [
        ("Complete", "True", "m", Finish("m", True)),
        ("Failed", "True", None, Finish("", False)),
        ("Complete", "False", "m", None),
        ("Suspended", "True", "m", None),
    ],
)
def test_when_a_job_is_over(kind: str, status: str, message: str | None, want: Finish | None) -> None:
    other = {"type": "SuccessCriteriaMet", "status": "True", "message": "x"}
    job = _job({"conditions": [other, {"type": kind, "status": status, "message": message}], "active": 1})
    assert JOB.finished(STORE, job) == want
    assert JOB.is_active(STORE, job) and not JOB.is_active(STORE, _job({"active": 0}))
    assert JOB.is_suspended(_job(suspend=True)) and not JOB.is_suspended(_job())


@pytest.mark.parametrize("parallelism", [1, 2, 3, None])
@pytest.mark.parametrize("completions", [1, 2, 4, 6, None])
def test_pods_that_will_not_be_needed_again(parallelism: int | None, completions: int | None) -> None:
    spec = {k: v for k, v in (("parallelism", parallelism), ("completions", completions)) if v is not None}
    pods = parallelism or 1
    total = pods if completions is None else completions
    for succeeded in range(8):
        left = max(total - succeeded, 0)
        want = [Reclaimable("main", pods - left)] if pods > 1 and succeeded and left < pods else []
        assert JOB.reclaimable(STORE, _job({"succeeded": succeeded}, **spec)) == want
        indexed = {"completionMode": "Indexed", **spec}
        done = {"completedIndexes": f"0-{succeeded - 1}" if succeeded else "", "succeeded": 1}
        over = min(succeeded, total)
        left = total - over
        want = [Reclaimable("main", pods - left)] if pods > 1 and over and left < pods else []
        assert JOB.reclaimable(STORE, _job(done, **indexed)) == want


@pytest.mark.parametrize("seed", range(40))
def test_indexes_in_intervals_are_counted_once(seed: int) -> None:
    draw = Random(seed)
    completions = draw.randrange(1, 12)
    texts, named = [], set()
    for _ in range(2):
        parts = []
        for _ in range(draw.randrange(4)):
            first = draw.randrange(14)
            last = first + draw.choice((0, 0, 1, 3))
            parts.append(str(first) if first == last else f"{first}-{last}")
            named.update(range(first, last + 1))
        texts.append(",".join(parts))
    assert terminal_indexes(texts, completions) == len([i for i in named if i < completions])
    assert terminal_indexes(["x", "1-y", "z-2", ""], 9) == 0


def test_which_changes_of_a_job_matter() -> None:
    base = _job({"active": 1, "ready": 0, "succeeded": 0}, suspend=False)
    base["metadata"] |= {"resourceVersion": "6", "managedFields": [{}]}

    def matters(**changes: Any) -> bool:
        status = {**base["status"], **changes.pop("status", {})}
        meta = {**base["metadata"], **changes.pop("meta", {})}
        new = {**base, "status": status, "metadata": meta, **changes}
        return JOB.concerns(Change(1, MODIFIED, Key("Job.batch", "ns", "j"), new, base))

    assert not matters()
    assert not matters(meta={"resourceVersion": "7"}) and not matters(meta={"managedFields": []})
    assert not matters(meta={"annotations": dict(base["metadata"]["annotations"])})
    assert matters(meta={"labels": {"a": "b"}}) and matters(meta={"generation": 2})
    assert matters(spec=dict(base["spec"]))
    assert not matters(status={"failed": 3}) and not matters(status={"active": 2})
    assert matters(status={"active": 0}) and matters(status={"ready": 1}) and matters(status={"succeeded": 1})
    assert matters(status={"uncountedTerminatedPods": {"succeeded": ["x"]}})
    assert matters(status={"completedIndexes": "1"}) and matters(status={"failedIndexes": "1"})
    over = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert matters(status=over) and not matters(status={"conditions": [{"type": "X", "status": "True"}]})
    moved = {"ready": 0, "succeeded": 0, "uncountedTerminatedPods": {"succeeded": []}}
    assert not matters(status=moved)
    key = Key("Job.batch", "ns", "j")
    assert JOB.concerns(Change(1, ADDED, key, base, None))
    removed = {**base, "metadata": {k: v for k, v in base["metadata"].items() if k != "uid"}}
    assert JOB.concerns(Change(1, MODIFIED, key, removed, base))


# JobSets, Kubeflow's jobs, Ray's


def _replicated(name: str, **more: Any) -> Obj:
    spec: Obj = {"template": {"spec": {"containers": []}}}
    spec |= {k: more.pop(k) for k in ("parallelism", "completions") if k in more}
    return {"name": name, "template": {"spec": spec}, **more}


def _of(kind: Integration, spec: Obj, **status: Any) -> Obj:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": spec,
        "status": status,
    }


def test_job_sets() -> None:
    kind = JobSet()
    groups = [
        _replicated("One"),
        _replicated("none", replicas=0),
        _replicated("many", replicas=3, parallelism=4),
        _replicated("few", replicas=2, parallelism=4, completions=1),
        _replicated("full", replicas=2, parallelism=2, completions=5),
    ]
    job = _of(kind, {"replicatedJobs": groups})
    found = kind.pod_sets(STORE, job)
    assert [(p["name"], p["count"]) for p in found] == [
        ("one", 1),
        ("none", 0),
        ("many", 12),
        ("few", 2),
        ("full", 4),
    ]
    assert [p["topologyRequest"]["subGroupCount"] for p in found] == [1, 0, 3, 2, 2]

    def told(**counts: tuple[int, ...]) -> Obj:
        states = [
            {"name": n, **dict(zip(("ready", "succeeded", "active"), c, strict=False))}
            for n, c in counts.items()
        ]
        return _of(kind, {"replicatedJobs": groups}, replicatedJobsStatus=states)

    assert kind.pods_ready(STORE, told(One=(1, 0), many=(2, 1), few=(0, 2), full=(2, 0)))
    assert not kind.pods_ready(STORE, told(One=(1, 0), many=(2, 0), few=(0, 2), full=(2, 0)))
    assert not kind.pods_ready(STORE, job) and not kind.is_active(STORE, job)
    assert kind.is_active(STORE, told(One=(0, 0, 1))) and not kind.is_active(STORE, told(One=(1, 1, 0)))
    done = told(One=(0, 1), many=(1, 2), few=(0, 3), full=(0, 0))
    assert kind.reclaimable(STORE, done) == [Reclaimable("one", 1), Reclaimable("many", 8)]
    assert kind.reclaimable(STORE, told(few=(0, 2))) == [Reclaimable("few", 2)]
    both = [{"type": t, "status": "True", "message": t} for t in ("Failed", "Completed")]
    assert kind.finished(STORE, _of(kind, {}, conditions=both)) == Finish("Completed", True)
    assert kind.finished(STORE, _of(kind, {}, conditions=both[:1])) == Finish("Failed", False)
    unsure = [{"type": "Completed", "status": "Unknown"}]
    assert kind.finished(STORE, _of(kind, {}, conditions=unsure)) is None


def test_kubeflow_jobs() -> None:
    kind = PyTorchJob()
    roles = {"Worker": {"replicas": 0, "template": {}}, "Master": {}, "Other": {}}
    job = _of(kind, {"pytorchReplicaSpecs": roles})
    assert [(p["name"], p["count"]) for p in kind.pod_sets(STORE, job)] == [("master", 1), ("worker", 0)]
    assert kind.pod_sets(STORE, job)[0]["template"] == {}
    assert kind.pod_sets(STORE, _of(kind, {})) == []
    assert not kind.is_suspended(job) and kind.is_suspended(kind.with_suspend(job, True))
    assert kind.with_suspend(job, True)["spec"]["pytorchReplicaSpecs"] is roles
    assert kind.is_active(STORE, _of(kind, {}, replicaStatuses={"Master": {}, "Worker": {"active": 2}}))
    assert not kind.is_active(STORE, _of(kind, {}, replicaStatuses={"Master": {"active": 0}}))
    running = [{"type": "Running", "status": "True"}]
    assert kind.pods_ready(STORE, _of(kind, {}, conditions=running))
    assert not kind.pods_ready(STORE, _of(kind, {}, conditions=[{"type": "Running", "status": "False"}]))


def test_ray() -> None:
    cluster_kind, job_kind = RayCluster(), RayJob()
    groups = [
        {"groupName": "A", "replicas": 3, "numOfHosts": 2},
        {"groupName": "b"},
        {"groupName": "c", "replicas": 0, "numOfHosts": 0},
        {"groupName": "d", "replicas": 2, "numOfHosts": -1},
    ]
    head = {"template": {"spec": {"containers": [{"name": "h", "image": "ray:1"}]}}}
    cluster: Obj = {"headGroupSpec": head, "workerGroupSpecs": groups}
    want = [("head", 1), ("a", 6), ("b", 1), ("c", 0), ("d", 2)]

    def counts(kind: Integration, spec: Obj) -> list[tuple[str, int]]:
        return [(p["name"], p["count"]) for p in kind.pod_sets(STORE, _of(kind, spec))]

    assert counts(cluster_kind, cluster) == want
    assert counts(cluster_kind, {"headGroupSpec": head}) == [("head", 1)]
    for mode, more in (("", 1), ("K8sJobMode", 1), ("HTTPMode", 0), ("SidecarMode", 0), ("Interactive", 0)):
        spec = {"rayClusterSpec": cluster, **({"submissionMode": mode} if mode else {})}
        assert counts(job_kind, spec) == [*want, *[("submitter", 1)] * more]
        first = job_kind.pod_sets(STORE, _of(job_kind, spec))[0]
        names = [c["name"] for c in first["template"]["spec"]["containers"]]
        assert names == ["h", *(["ray-job-submitter"] if mode == "SidecarMode" else [])]
    (*_, submitter) = job_kind.pod_sets(STORE, _of(job_kind, {"rayClusterSpec": cluster}))
    (container,) = submitter["template"]["spec"]["containers"]
    assert (container["image"], submitter["template"]["spec"]["restartPolicy"]) == ("ray:1", "Never")
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    own = {"spec": {"containers": [{"name": "own"}]}}
    (*_, given) = job_kind.pod_sets(
        STORE, _of(job_kind, {"rayClusterSpec": cluster, "submitterPodTemplate": own})
    )
    assert given["template"] == own
    scaling = {**cluster, "enableInTreeAutoscaling": True}
    for options, resources in (
        ({}, {"cpu": "500m", "memory": "512Mi"}),
        ({"resources": {"requests": {"cpu": "9"}}}, {"cpu": "9"}),
    ):
        made = cluster_kind.pod_sets(STORE, _of(cluster_kind, {**scaling, "autoscalerOptions": options}))
        (_, sidecar) = made[0]["template"]["spec"]["containers"]
        assert (sidecar["name"], sidecar["resources"]["requests"]) == ("autoscaler", resources)
        assert len(made[1]["template"]) == 0
    for state, is_ready in (("ready", True), ("failed", False), (None, False)):
        found = _of(cluster_kind, {}, **({"state": state} if state else {}))
        assert cluster_kind.pods_ready(STORE, found) == cluster_kind.is_active(STORE, found) == is_ready
        of_job = _of(job_kind, {}, rayClusterStatus={"state": state})
        assert job_kind.pods_ready(STORE, of_job) == is_ready
        assert cluster_kind.finished(STORE, found) is None
    for status, active, held, over in (
        ({}, False, False, None),
        ({"jobDeploymentStatus": "Suspended"}, False, False, None),
        ({"jobDeploymentStatus": "Running"}, True, False, None),
        ({"jobDeploymentStatus": "ValidationFailed"}, True, True, None),
        ({"jobDeploymentStatus": "Failed"}, True, False, Finish("", False)),
        (
            {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "m"},
            True,
            False,
            Finish("m", True),
        ),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}, True, False, Finish("", False)),
    ):
        job = _of(job_kind, {}, **status)
        assert (job_kind.is_active(STORE, job), job_kind.is_on_hold(job)) == (active, held)
        assert job_kind.finished(STORE, job) == over
    assert job_kind.skips(STORE, _of(job_kind, {"clusterSelector": {"a": "b"}}))
    assert not job_kind.skips(STORE, _of(job_kind, {"clusterSelector": {}}))


def test_values_are_put_at_their_place() -> None:
    obj = {"a": [{"b": 1}, {"b": 2}], "c": 3}
    assert put(obj, ("a", 1, "b"), 9) == {"a": [{"b": 1}, {"b": 9}], "c": 3}
    assert obj["a"][1] == {"b": 2}  # type: ignore[index]
    assert put(None, ("x", "y"), 1) == {"x": {"y": 1}} and put({}, (), 5) == 5


# What is injected


def test_infos_are_put_together_and_disagree() -> None:
    a = PodSetInfo("a", 2, {"x": "1"}, {"l": "1"}, {"n": "1"}, [{"key": "k"}], [{"name": "g"}])
    b = PodSetInfo("b", 9, {"y": "2"}, {"l": "1"}, {"m": "2"}, [{"key": "k"}, {"key": "j"}], [{"name": "h"}])
    both = merged(a, b)
    assert (both.name, both.count) == ("a", 2)
    assert (both.annotations, both.labels, both.node_selector) == (
        {"x": "1", "y": "2"},
        {"l": "1"},
        {"n": "1", "m": "2"},
    )
    assert (both.tolerations, both.gates) == ([{"key": "k"}, {"key": "j"}], [{"name": "g"}, {"name": "h"}])
    for what, field in (
        ("annotations", "annotations"),
        ("labels", "labels"),
        ("nodeSelector", "node_selector"),
    ):
        one, other = (PodSetInfo("a", 1, **{field: {"k": v}}) for v in "12")
        with pytest.raises(BadPodSets) as caught:
            merged(one, other)
        assert str(caught.value) == (
            f"invalid admission check PodSetUpdate: conflict for {what}: conflict for key=k, value1=1, value2=2"
        )
    assert str(wrong_number(2, 1)) == "invalid podset infos: expecting 2 podset, got 1"


def test_templates_have_exactly_what_an_info_says() -> None:
    template: Obj = {
        "metadata": {"name": "t", "labels": {"old": "1"}},
        "spec": {"nodeSelector": {"a": "b"}, "x": 1},
    }
    assert with_info(template, PodSetInfo("m", 1)) == {"metadata": {"name": "t"}, "spec": {"x": 1}}
    assert with_info({"spec": {}}, PodSetInfo("m", 1)) == {"spec": {}}
    assert with_info({"metadata": {}}, PodSetInfo("m", 1)) == {"metadata": {}, "spec": {}}
    added = into_template(template, PodSetInfo("m", 1, node_selector={"c": "d"}, annotations={"n": "1"}))
    assert added["spec"] == {"nodeSelector": {"a": "b", "c": "d"}, "x": 1}
    assert added["metadata"] == {"name": "t", "labels": {"old": "1"}, "annotations": {"n": "1"}}
    slices, workload = f"{K}workload-slice-name", f"{K}workload"
    before = {"metadata": {"annotations": {slices: "s", workload: "w", "kept": "1"}}}
    plain = into_template(before, PodSetInfo("m", 1))
    assert plain["metadata"]["annotations"] == {workload: "w", "kept": "1"}
    sliced = into_template(before, PodSetInfo("m", 1, annotations={slices: "t", workload: "v"}))
    assert sliced["metadata"]["annotations"] == {slices: "t", workload: "v", "kept": "1"}


def _admitted(*assignments: Obj, checks: list[Obj] | None = None, queue: str = "cq", **more: Any) -> Obj:
    pod_sets = [{"name": "main", "count": 3, "topologyRequest": more.pop("asks", None)}]
    return {
        "metadata": {"name": "w", "annotations": more.pop("annotations", {})},
        "spec": {"queueName": "lq", "podSets": more.pop("pod_sets", pod_sets)},
        "status": {
            "admission": {"clusterQueue": queue, "podSetAssignments": list(assignments)},
            "admissionChecks": checks or [],
        },
    }


def _flavors() -> Store:
    store = Store()
    for name, spec in (
        ("a", {"nodeLabels": {"pool": "a"}, "tolerations": [{"key": "a"}]}),
        ("b", {"nodeLabels": {"disk": "b"}}),
    ):
        store.load(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ResourceFlavor",
                "metadata": {"name": name},
                "spec": spec,
            }
        )
    return store


NO_TOPOLOGY = gates_from({"TopologyAwareScheduling": False, "TASProfileMixed": False})[0]


def test_what_an_admission_injects() -> None:
    store = _flavors()
    (info,) = admitted_infos(
        store, _admitted({"flavors": {"gpu": "a", "cpu": "b", "x": "a"}, "count": 2}), DEFAULT_GATES
    )
    assert (info.name, info.count) == ("main", 2)
    assert (info.node_selector, info.tolerations) == ({"pool": "a", "disk": "b"}, [{"key": "a"}])
    assert info.annotations == {f"{K}workload": "w"}
    assert info.labels == {f"{K}podset": "main", f"{K}local-queue-name": "lq", f"{K}cluster-queue-name": "cq"}
    (unsaid,) = admitted_infos(store, _admitted({"name": "main"}, queue="Not_A_Label"), NO_TOPOLOGY)
    assert (unsaid.count, unsaid.annotations, unsaid.gates) == (3, {}, [])
    assert f"{K}cluster-queue-name" not in unsaid.labels
    (stranger,) = admitted_infos(store, _admitted({"name": "other"}, queue=""), NO_TOPOLOGY)
    assert (stranger.name, stranger.count) == ("other", 1)
    with pytest.raises(FlavorMissing, match='"c" not found'):
        admitted_infos(store, _admitted({"flavors": {"gpu": "c"}}), DEFAULT_GATES)
    (elastic,) = admitted_infos(store, _admitted({}, annotations={f"{K}elastic-job": "true"}), NO_TOPOLOGY)
    assert elastic.annotations == {f"{K}workload-slice-name": "w"}
    named = {f"{K}elastic-job": "true", f"{K}workload-slice-name": "first"}
    (later,) = admitted_infos(store, _admitted({}, annotations=named), NO_TOPOLOGY)
    assert later.annotations == {f"{K}workload-slice-name": "first"}


def test_what_admission_checks_inject() -> None:
    store = _flavors()
    update = {
        "name": "main",
        "labels": {"l": "1"},
        "annotations": {"n": "1"},
        "nodeSelector": {"s": "1"},
        "tolerations": [{"key": "t"}],
    }
    checks = [{"name": "c1"}, {"name": "c2", "podSetUpdates": [{"name": "x", "labels": {"no": "1"}}, update]}]
    (info,) = admitted_infos(store, _admitted({"flavors": {"gpu": "a"}}, checks=checks), NO_TOPOLOGY)
    assert info.labels["l"] == "1" and "no" not in info.labels
    assert (info.annotations, info.node_selector) == ({"n": "1"}, {"pool": "a", "s": "1"})
    assert info.tolerations == [{"key": "a"}, {"key": "t"}]
    clash = [{"name": "c", "podSetUpdates": [{"name": "main", "nodeSelector": {"pool": "z"}}]}]
    with pytest.raises(
        BadPodSets,
        match='in admission check "c": invalid admission check PodSetUpdate: conflict for nodeSelector',
    ):
        admitted_infos(store, _admitted({"flavors": {"gpu": "a"}}, checks=clash), NO_TOPOLOGY)


def test_what_a_workload_says_of_its_templates() -> None:
    assert spec_infos(None) is None and spec_infos({"spec": {}}) == []
    template = {
        "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}},
        "spec": {
            "nodeSelector": {"n": "1"},
            "tolerations": [{"key": "k"}],
            "schedulingGates": [{"name": "g"}],
        },
    }
    whole, bare = (
        spec_infos({"spec": {"podSets": [{"name": "x", "count": 4, "template": template}, {}]}}) or ()
    )
    assert whole == PodSetInfo("x", 4, {"a": "1"}, {"l": "1"}, {"n": "1"}, [{"key": "k"}], [{"name": "g"}])
    assert bare == PodSetInfo("main", 1)


# The Workload


def test_workloads_of_jobs() -> None:
    said = {
        "provreq.kueue.x-k8s.io/x": "1",
        f"{K}admission-gated-by": "g",
        f"{K}elastic-job": "true",
        "other": "1",
    }
    labels = {f"{K}queue-name": "lq", "team": "a", "cost": "b", f"{K}max-exec-time-seconds": "60"}
    job = _job(annotations=said)
    job["metadata"] |= {"labels": labels, "generation": 7}
    settings = JobSettings(
        gates=replace(DEFAULT_GATES, admission_gated_by=True, elastic_jobs_via_workload_slices=True),
        label_keys_to_copy=("team", "gone"),
    )
    made = construct.constructed(STORE, JOB, job, settings)
    name = workload_name("j", "u", "Job.batch", extra="7")
    assert made["metadata"]["name"] == name
    assert made["metadata"]["labels"] == {"team": "a", f"{K}job-uid": "u"}
    assert made["metadata"]["annotations"] == {
        "provreq.kueue.x-k8s.io/x": "1",
        f"{K}admission-gated-by": "g",
        f"{K}elastic-job": "true",
        f"{K}workload-slice-name": name,
    }
    assert made["metadata"]["finalizers"] == [f"{K}resource-in-use"]
    spec = made["spec"]
    assert (spec["active"], spec["queueName"], spec["priority"]) == (True, "lq", 0)
    assert spec["maximumExecutionTimeSeconds"] == 60 and "priorityClassRef" not in spec
    before = {"metadata": {"name": "old", "namespace": "ns", "annotations": {f"{K}workload-slice-name": "s"}}}
    later = construct.constructed(STORE, JOB, job, settings, [before])["metadata"]["annotations"]
    assert (later[f"{K}workload-slice-replacement-for"], later[f"{K}workload-slice-name"]) == ("ns/old", "s")
    off = JobSettings(
        gates=replace(DEFAULT_GATES, admission_gated_by=False, elastic_jobs_via_workload_slices=False)
    )
    plain = construct.constructed(STORE, JOB, job, off)
    assert plain["metadata"]["annotations"] == {"provreq.kueue.x-k8s.io/x": "1"}
    assert plain["metadata"]["name"] == workload_name("j", "u", "Job.batch")
    bare = _job()
    bare["metadata"]["uid"] = "!"
    bare["metadata"]["labels"] = {}
    found = construct.constructed(STORE, JOB, bare, off)
    assert found["metadata"]["labels"] == {} and "annotations" not in found["metadata"]
    assert "queueName" not in found["spec"] and "maximumExecutionTimeSeconds" not in found["spec"]


@pytest.mark.parametrize(
    ("text", "want"),
    [("1", 1), ("0", None), ("-1", None), ("x", None), (str(2**31 - 1), 2**31 - 1), (str(2**31), None)],
)
def test_time_limits(text: str, want: int | None) -> None:
    assert construct.max_execution_s({"metadata": {"labels": {f"{K}max-exec-time-seconds": text}}}) == want
    assert construct.max_execution_s({"metadata": {}}) is None


def test_of_each_variable_the_last_value() -> None:
    doubled = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    job = _job()
    spec = job["spec"]["template"]["spec"]
    spec["containers"] = [{"name": "c", "env": doubled}, {"name": "d", "env": doubled[:2]}]
    (one,) = construct.job_pod_sets(STORE, JOB, job)
    envs = [c["env"] for c in one["template"]["spec"]["containers"]]
    assert envs == [[{"name": "A", "value": "3"}, {"name": "B", "value": "2"}], doubled[:2]]
    spec["containers"] = [{"name": "c", "env": doubled[:2]}]
    assert construct.job_pod_sets(STORE, JOB, job)[0]["template"] is job["spec"]["template"]
    spec["initContainers"] = [{"name": "i", "env": doubled}]
    (init,) = construct.job_pod_sets(STORE, JOB, job)
    assert len(init["template"]["spec"]["initContainers"][0]["env"]) == 2
    assert init["template"]["spec"]["containers"] == spec["containers"]


def test_names_are_cut_where_they_are_long() -> None:
    long = workload_name("x" * 300, "u", "Job.batch")
    assert len(long) == 253 and long.startswith("job-xxx")
    exact = workload_name("x" * (253 - 6 - 4), "u", "Job.batch")
    assert len(exact) == 253 and exact[:-6] == "job-" + "x" * 243
    assert (
        len({workload_name("a", "u", gk, extra=e) for gk, e in (("A.b", ""), ("A.c", ""), ("A.b", "1"))}) == 3
    )


# Readiness, topology


@pytest.mark.parametrize(
    ("admitted", "was", "ready", "want"),
    [
        (False, None, True, ("False", "WaitForStart")),
        (False, ("True", "Started"), True, ("False", "WaitForStart")),
        (True, None, True, ("True", "Started")),
        (True, None, False, ("False", "WaitForStart")),
        (True, ("False", "WaitForStart"), False, ("False", "WaitForStart")),
        (True, ("False", "WaitForStart"), True, ("True", "Started")),
        (True, ("True", "Started"), False, ("False", "WaitForRecovery")),
        (True, ("True", "Started"), True, ("True", "Started")),
        (True, ("False", "WaitForRecovery"), False, ("False", "WaitForRecovery")),
        (True, ("False", "WaitForRecovery"), True, ("True", "Recovered")),
        (True, ("True", "Recovered"), True, ("True", "Recovered")),
        (True, ("True", "Recovered"), False, ("False", "WaitForRecovery")),
    ],
)
def test_readiness(admitted: bool, was: Any, ready: bool, want: tuple[str, str]) -> None:
    conditions = [{"type": "Admitted", "status": str(admitted)}]
    if was:
        conditions.append({"type": "PodsReady", "status": was[0], "reason": was[1]})
    obj = {"status": {"conditions": conditions}}
    found = readiness(obj, ready)
    assert (found.status, found.reason) == want
    assert is_up_to_date(obj, found) == (was == want)


REQUIRED, PREFERRED, FREE = (f"{K}podset-{w}-topology" for w in ("required", "preferred", "unconstrained"))
SLICE, SIZE, LAYERS = (
    f"{K}podset-slice-{w}" for w in ("required-topology", "size", "required-topology-constraints")
)


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({}, None),
        ({REQUIRED: "r"}, {"required": "r"}),
        ({PREFERRED: "p"}, {"preferred": "p"}),
        ({REQUIRED: "r", PREFERRED: "p"}, {"required": "r"}),
        ({FREE: "true"}, {"unconstrained": True}),
        ({FREE: "0"}, {"unconstrained": False}),
        ({FREE: "yes"}, {}),
        ({PREFERRED: "p", FREE: "true"}, {"preferred": "p"}),
        ({SLICE: "r", SIZE: "2"}, {"podSetSliceRequiredTopology": "r", "podSetSliceSize": 2}),
        ({SLICE: "r"}, None),
        ({SIZE: "2"}, None),
        ({SLICE: "r", SIZE: "x"}, {}),
        ({REQUIRED: "r", SLICE: "s"}, {"required": "r"}),
        (
            {LAYERS: '[{"topology":"a","size":2}]'},
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "a", "size": 2}]},
        ),
        ({LAYERS: "[]"}, {}),
        ({LAYERS: "[1,2,3]"}, {"podsetSliceRequiredTopologyConstraints": [1, 2, 3]}),
        ({LAYERS: "[1,2,3,4]"}, {}),
        ({LAYERS: "{"}, {}),
        ({LAYERS: "{}", SLICE: "r", SIZE: "2"}, {}),
        ({REQUIRED: "r", f"{K}podset-group-name": "g"}, {"required": "r", "podSetGroupName": "g"}),
        ({PREFERRED: "r", f"{K}podset-group-name": "g"}, {"preferred": "r", "podSetGroupName": "g"}),
        ({FREE: "true", f"{K}podset-group-name": "g"}, {"unconstrained": True}),
    ],
)
def test_topologies_by_annotation(said: dict[str, str], want: Obj | None) -> None:
    template = {"metadata": {"annotations": said}}
    assert topology_request(template) == want
    more = {"podIndexLabel": "i", "subGroupIndexLabel": "s", "subGroupCount": 0}
    full = topology_request(template, pod_index_label="i", sub_group_label="s", sub_group_count=0)
    assert full == {**(want or {}), **more}
    assert topology_request(template, sub_group_count=2) == {**(want or {}), "subGroupCount": 2}
    assert topology_request(template, sub_group_label="s") == {**(want or {}), "subGroupIndexLabel": "s"}


def test_booleans_as_go_reads_them() -> None:
    assert [as_bool(t) for t in ("1", "t", "T", "true", "TRUE", "True")] == [True] * 6
    assert [as_bool(t) for t in ("0", "f", "F", "false", "FALSE", "False")] == [False] * 6
    assert [as_bool(t) for t in ("", "yes", "tRUE")] == [None] * 3
