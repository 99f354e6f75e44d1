"""What Kueue's webhooks do at the edges of their rules: fields left out, neighbouring kinds, orders, what stays."""

from __future__ import annotations

from typing import Any

import pytest
from test_kueue_job_webhooks import DEFAULT_CLASS, DEFAULT_QUEUE, NAMESPACE, K, made, refused, store, template

from fairway.kube import names
from fairway.kube.labels import label_selector
from fairway.queueing.webhooks.clusterqueues import cluster_queue_faults
from fairway.queueing.webhooks.compositejobs import composite_faults
from fairway.queueing.webhooks.conversion import converted
from fairway.queueing.webhooks.door import (
    CREATE,
    UPDATE,
    defaulted,
    is_job,
    new_refusals,
    refusals,
    undecoded,
)
from fairway.queueing.webhooks.faults import Fault, denied, forbidden, go_text, unsupported
from fairway.queueing.webhooks.flavors import resource_flavor_faults
from fairway.queueing.webhooks.jobshapes import SHAPES
from fairway.queueing.webhooks.metadata import annotation_faults
from fairway.queueing.webhooks.ownership import has_managed_ancestor, has_managed_owner, should_be_suspended
from fairway.queueing.webhooks.serving import serving_faults
from fairway.queueing.webhooks.settings import DEFAULTS, FRAMEWORKS, Settings

Obj = dict[str, Any]
EVERY = Settings(frameworks=tuple(FRAMEWORKS))
WAITS, RUNS = {"suspend": True}, {"suspend": False}


def _settings(*, everybody: bool = False, **gates: bool) -> Settings:
    return Settings(frameworks=EVERY.frameworks, gates=gates, manages_without_queue_name=everybody)


def _paths(obj: Obj, old: Obj | None = None, settings: Settings = EVERY) -> list[str]:
    """Where the faults are, in the order in which they are said."""
    operation = CREATE if old is None else UPDATE
    found = refusals(operation, obj, old, store(), settings)
    return [str(fault).partition(": ")[0].replace(K, "") for refusal in found for fault in refusal.faults]


# The templates of each kind


def _noted(name: str) -> Obj:
    return {"metadata": {"annotations": {"is": name}}}


_RAY: Obj = {
    "headGroupSpec": {"template": _noted("h")},
    "workerGroupSpecs": [
        {"groupName": "a", "template": _noted("a")},
        {"groupName": "b", "replicas": 3, "template": _noted("b")},
        {"groupName": "c", "replicas": 3, "numOfHosts": 4},
        {"numOfHosts": 0, "replicas": 2},
    ],
}
_WORKERS = [("a", 1, {"is": "a"}), ("b", 3, {"is": "b"}), ("c", 12, {}), ("", 2, {})]
_TEMPLATES: dict[str, tuple[str, Obj, list[tuple[str, int, Obj]]]] = {
    "a Job of nothing": ("Job.batch", {}, [("main", 1, {})]),
    "a Job": (
        "Job.batch",
        {"parallelism": 5, "completions": 3, "template": _noted("x")},
        [("main", 3, {"is": "x"})],
    ),
    "a JobSet": (
        "JobSet.jobset.x-k8s.io",
        {
            "replicatedJobs": [
                {"name": "a"},
                {
                    "name": "b",
                    "replicas": 3,
                    "template": {"spec": {"parallelism": 2, "template": _noted("b")}},
                },
                {"replicas": 2},
            ]
        },
        [("a", 1, {}), ("b", 6, {"is": "b"}), ("", 2, {})],
    ),
    "a JobSet of nothing": ("JobSet.jobset.x-k8s.io", {}, []),
    "roles in Kueue's order": (
        "TFJob.kubeflow.org",
        {
            "tfReplicaSpecs": {
                "Worker": {"replicas": 4, "template": _noted("w")},
                "PS": {},
                "Chief": {"template": _noted("c")},
                "Evaluator": None,
            }
        },
        [("chief", 1, {"is": "c"}), ("ps", 1, {}), ("worker", 4, {"is": "w"})],
    ),
    "a job without roles": ("MPIJob.kubeflow.org", {}, []),
    "a RayCluster": ("RayCluster.ray.io", _RAY, [("head", 1, {"is": "h"}), *_WORKERS]),
    "a RayCluster of nothing": ("RayCluster.ray.io", {}, []),
    "a RayCluster of a head": ("RayCluster.ray.io", {"rayVersion": "2"}, [("head", 1, {})]),
    "a RayJob": ("RayJob.ray.io", {"rayClusterSpec": _RAY}, [("head", 1, {"is": "h"}), *_WORKERS]),
    "a RayJob without a cluster": ("RayJob.ray.io", {"entrypoint": "x"}, []),
    "groups of one": (
        "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        {"leaderWorkerTemplate": {"workerTemplate": _noted("w")}},
        [("main", 1, {"is": "w"})],
    ),
    "groups with a leader": (
        "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        {
            "leaderWorkerTemplate": {
                "size": 5,
                "leaderTemplate": _noted("l"),
                "workerTemplate": _noted("w"),
            }
        },
        [("leader", 1, {"is": "l"}), ("worker", 4, {"is": "w"})],
    ),
    "what the webhook does not look into": ("AppWrapper.workload.codeflare.dev", {"components": [{}]}, []),
}


@pytest.mark.parametrize("name", _TEMPLATES)
def test_templates_of_each_kind(name: str) -> None:
    kind, spec, want = _TEMPLATES[name]
    found = SHAPES[kind].templates({"spec": spec})
    assert [(t.name, t.count, t.annotations) for t in found] == want
    places = [t.path for t in found]
    assert len(set(places)) == len(places) and all(p[-1] == "metadata" for p in places)


# Composite jobs


_TWO = {"podset_required_topology": "a", "podset_preferred_topology": "b"}
_GROUPED = {"podset_group_name": "g", "podset_required_topology": "a"}
_SLICED = {"podset_slice_required_topology": "a", "podset_slice_size": "9"}


def _of_ray(head: Obj, *workers: Obj) -> Obj:
    return {
        "headGroupSpec": {"template": head},
        "workerGroupSpecs": [{"groupName": f"g{i}", "template": t} for i, t in enumerate(workers)],
    }


_SAID_IN_ORDER: dict[str, tuple[str, Obj, list[str]]] = {
    "of a RayJob: the head, groups, workers": (
        "RayJob",
        {
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": _of_ray(template(**_TWO, podset_group_name="g"), template(**_TWO)),
        },
        ["head", "head:group", "worker"],
    ),
    "of a RayService": (
        "RayService",
        {"rayClusterSpec": _of_ray(template(**_TWO, podset_group_name="g"), template(**_TWO))},
        ["head", "head:group", "worker"],
    ),
    "of a RayCluster: bounds of the head come after the groups": (
        "RayCluster",
        _of_ray(template(**_TWO, podset_slice_size="9", podset_group_name="g"), template(**_TWO)),
        ["head", "head:group", "head:size", "head:group", "head:size", "worker"],
    ),
    "of a JobSet: groups come last": (
        "JobSet",
        {
            "replicatedJobs": [
                {"name": "a", "template": {"spec": {"template": template(**_TWO, podset_group_name="g")}}},
                {"name": "b", "template": {"spec": {"template": template(**_TWO)}}},
            ]
        },
        ["head", "worker", "head:group"],
    ),
    "of a PyTorchJob: groups are nobody's": (
        "PyTorchJob",
        {
            "pytorchReplicaSpecs": {
                "Master": {"template": template(**_GROUPED)},
                "Worker": {"template": template(**_TWO)},
            }
        },
        ["worker"],
    ),
}


def _place(path: str) -> str:
    first = ("headGroupSpec", "replicatedJobs[0]", "[Master]")
    where = "head" if any(part in path for part in first) else "worker"
    if "[podset-group-name]" in path:
        return f"{where}:group"
    return f"{where}:size" if "[podset-slice-size]" in path else where


@pytest.mark.parametrize("name", _SAID_IN_ORDER)
def test_faults_of_several_templates_in_their_order(name: str) -> None:
    kind, spec, want = _SAID_IN_ORDER[name]
    assert [_place(path) for path in _paths(made(kind, spec, queue="q"))] == want
    assert (
        _paths(
            made(kind, spec, queue="q"),
            settings=_settings(TopologyAwareScheduling=False, TASProfileMixed=False),
        )
        == []
    )


@pytest.mark.parametrize("kind", ["JobSet", "PyTorchJob", "RayCluster", "MPIJob"])
def test_changes_of_composite_jobs_are_looked_at(kind: str) -> None:
    held = ("runPolicy",) if kind in ("PyTorchJob", "MPIJob") else ()

    def job(suspend: bool, queue: str, **notes: str) -> Obj:
        spec: Obj = {"suspend": suspend}
        return made(kind, {"runPolicy": spec} if held else spec, queue=queue, **notes)

    queue, elastic = "metadata.labels[queue-name]", "metadata.annotations[elastic-job]"
    assert _paths(job(False, "b"), job(False, "a")) == [queue]
    assert _paths(job(False, "b"), job(True, "a")) == [queue]
    assert _paths(job(True, "b"), job(True, "a")) == []
    assert _paths(job(False, "a"), job(False, "a")) == []
    on = _settings(ElasticJobsViaWorkloadSlices=True)
    found = _paths(job(False, "b", elastic_job="true"), job(False, "a"), on)
    # An MPIJob's faults are sorted by field, all others' stand as they were found: those of the change first.
    if kind == "MPIJob":
        assert found == [elastic, elastic, queue]
    else:
        assert found[:2] == [queue, elastic]


def test_jobs_that_nobody_looks_at_have_no_faults() -> None:
    odd = made("RayCluster", _of_ray(template(**_TWO)), l_max_exec_time_seconds="x")
    shape = SHAPES["RayCluster.ray.io"]
    assert composite_faults(shape, odd, odd, store(), EVERY) == []
    assert len(composite_faults(shape, odd, None, store(), EVERY)) == 2


def test_what_ends_the_look_at_a_job_of_ray() -> None:
    """A RayJob that is wrong about its cluster, or takes another's, hears of nothing else; a service hears of all."""
    cluster = _of_ray(template())
    queue = "metadata.labels[queue-name]"
    both = {"clusterSelector": {"a": "b"}, "rayClusterSpec": cluster}
    assert _paths(made("RayJob", both, queue="Q!")) == ["spec.clusterSelector"]
    assert _paths(made("RayJob", {"clusterSelector": {"a": "b"}}, queue="Q!")) == []
    assert _paths(made("RayJob", {}, queue="Q!")) == ["spec.rayClusterSpec"]
    kept = made("RayJob", {"rayClusterSpec": cluster}, queue="Q!")
    assert _paths(kept) == ["spec.shutdownAfterJobFinishes", queue]
    grown = {**cluster, "enableInTreeAutoscaling": True}
    at = "spec.rayClusterSpec.enableInTreeAutoscaling"
    assert _paths(made("RayService", {"rayClusterSpec": grown}, queue="Q!")) == [at, queue]
    assert _paths(made("RayService", {}, queue="Q!")) == [queue]


# What is written into jobs


def _filled(obj: Obj, *there: Obj, settings: Settings = EVERY, operation: str = CREATE) -> Obj:
    return defaulted(operation, obj, store(NAMESPACE, *there), settings)


_GATES = [{"name": f"{K}elastic-job"}]


def test_gates_of_elastic_ray_clusters_beside_what_is_there() -> None:
    on = _settings(ElasticJobsViaWorkloadSlices=True)
    head = {"rayStartParams": {"a": "b"}, "template": {"metadata": {"x": "y"}, "spec": {"hostNetwork": True}}}
    group = {"groupName": "a", "template": {"spec": {"subdomain": "s"}}}
    cluster = {"rayVersion": "2", "headGroupSpec": head, "workerGroupSpecs": [group, {"groupName": "b"}]}
    gated = {
        "rayVersion": "2",
        "headGroupSpec": {
            "rayStartParams": {"a": "b"},
            "template": {"metadata": {"x": "y"}, "spec": {"hostNetwork": True, "schedulingGates": _GATES}},
        },
        "workerGroupSpecs": [
            {"groupName": "a", "template": {"spec": {"subdomain": "s", "schedulingGates": _GATES}}},
            {"groupName": "b", "template": {"spec": {"schedulingGates": _GATES}}},
        ],
    }
    found = _filled(
        made("RayCluster", {**cluster, "suspend": True}, queue="q", elastic_job="true"), settings=on
    )
    assert found["spec"] == {**gated, "suspend": True}
    job = made(
        "RayService",
        {"serveConfigV2": "x", "rayClusterSpec": {**cluster, "suspend": True}},
        queue="q",
        elastic_job="true",
    )
    found = _filled(job, settings=on)
    assert found == {**job, "spec": {"serveConfigV2": "x", "rayClusterSpec": {**gated, "suspend": True}}}
    # Without groups there are none after; a RayJob's cluster gets its gates when it is made.
    bare = _filled(made("RayCluster", dict(WAITS), queue="q", elastic_job="true"), settings=on)
    assert bare["spec"] == {
        "suspend": True,
        "headGroupSpec": {"template": {"spec": {"schedulingGates": _GATES}}},
    }
    for kind, spec, notes in (
        ("RayJob", {"rayClusterSpec": cluster, **WAITS}, {"elastic_job": "true"}),
        ("RayService", {"rayClusterSpec": {**cluster, **WAITS}}, {}),
        ("RayCluster", {**cluster, **WAITS}, {}),
        ("Job", dict(WAITS), {}),
    ):
        job = made(kind, spec, queue="q", **notes)
        assert _filled(job, settings=on) == job
        assert _filled(job, settings=_settings(ElasticJobsViaWorkloadSlices=False)) == job


def test_workers_count_from_one_where_the_launcher_is_one() -> None:
    offset = {f"{K}pod-index-offset": "1"}
    worker = {
        "replicas": 2,
        "template": {"metadata": {"annotations": {"a": "b"}, "name": "n"}, "spec": {"x": "y"}},
    }
    roles = {"Launcher": {"replicas": 1}, "Worker": worker, "Else": {}}
    job = made("MPIJob", {"runLauncherAsWorker": True, "slots": 3, "mpiReplicaSpecs": roles})
    found = _filled(job)
    after = {
        "replicas": 2,
        "template": {"metadata": {"annotations": {"a": "b", **offset}, "name": "n"}, "spec": {"x": "y"}},
    }
    assert found == {**job, "spec": {**job["spec"], "mpiReplicaSpecs": {**roles, "Worker": after}}}
    bare = made("MPIJob", {"runLauncherAsWorker": True, "mpiReplicaSpecs": {"Launcher": {}, "Worker": {}}})
    assert _filled(bare)["spec"]["mpiReplicaSpecs"]["Worker"] == {
        "template": {"metadata": {"annotations": offset}}
    }
    grouped = {**roles, "Launcher": {"template": template(podset_group_name="g")}}
    for spec in (
        {"mpiReplicaSpecs": roles},
        {"runLauncherAsWorker": True, "mpiReplicaSpecs": {"Worker": worker}},
        {"runLauncherAsWorker": True, "mpiReplicaSpecs": {"Launcher": worker}},
        {"runLauncherAsWorker": True},
        {"runLauncherAsWorker": True, "mpiReplicaSpecs": grouped},
    ):
        assert _filled(made("MPIJob", spec)) == made("MPIJob", spec)
    off = _settings(TopologyAwareScheduling=False, TASProfileMixed=False)
    assert _filled(job, settings=off) == job


@pytest.mark.parametrize("topologies", [True, False])
def test_workers_of_leaders_count_from_one(topologies: bool) -> None:
    settings = _settings(TopologyAwareScheduling=topologies, TASProfileMixed=topologies)
    for leader, group in ((True, True), (True, False), (False, True), (False, False)):
        worker = template(podset_group_name="g") if group else template()
        spec = {
            "leaderWorkerTemplate": {
                "workerTemplate": worker,
                **({"leaderTemplate": template()} if leader else {}),
            }
        }
        found = _filled(made("LeaderWorkerSet", spec, queue="q"), settings=settings)
        notes = found["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["annotations"]
        assert (f"{K}pod-index-offset" in notes) == (topologies and leader and not group)


def _owned(job: Obj, view: Any, kind: str = "JobSet", queue: str = "") -> Obj:
    parent = view.create(
        {
            **made(kind, {"suspend": True}, queue=queue),
            "metadata": {
                "name": "p",
                "namespace": "team",
                "labels": {f"{K}queue-name": queue} if queue else {},
            },
        }
    )
    owner = {
        "apiVersion": parent["apiVersion"],
        "kind": kind,
        "name": "p",
        "uid": parent["metadata"]["uid"],
        "controller": True,
    }
    return {**job, "metadata": {**job["metadata"], "ownerReferences": [owner]}}


def test_who_gets_the_default_queue_and_class() -> None:
    """Not who has a managed owner; no queue outside managed namespaces, no class where its gate is off."""
    view = store(NAMESPACE, DEFAULT_QUEUE, DEFAULT_CLASS)
    in_system = {**DEFAULT_QUEUE, "metadata": {"name": "default", "namespace": "kube-system"}}
    view.create(in_system)
    child = _owned(made("Job"), view)
    assert defaulted(CREATE, child, view, EVERY) == child
    both = {f"{K}queue-name": "default", f"{K}priority-class": "default"}
    assert defaulted(CREATE, made("Job"), view, EVERY)["metadata"]["labels"] == both
    job = made("Job")
    elsewhere = {**job, "metadata": {**job["metadata"], "namespace": "kube-system"}}
    found = defaulted(CREATE, elsewhere, view, EVERY)["metadata"]["labels"]
    assert found == {f"{K}priority-class": "default"}
    off = _settings(WorkloadPriorityClassDefaulting=False)
    assert defaulted(CREATE, job, view, off)["metadata"]["labels"] == {f"{K}queue-name": "default"}
    assert defaulted(CREATE, child, view, off) == child


def test_stateful_sets_of_other_frameworks_are_theirs() -> None:
    """Only a StatefulSet is asked who made it."""
    for kind, is_left in (("StatefulSet", True), ("Deployment", False)):
        made_by = {"template": template(pod_suspending_parent="leaderworkerset.x-k8s.io/leaderworkerset")}
        job = made(kind, made_by, queue="q")
        assert (_filled(job) == job) == is_left
        assert (_paths(made(kind, made_by, queue="Q!")) == []) == is_left


# Whose job it is


def test_ancestors_that_kueue_manages() -> None:
    view = store(NAMESPACE)
    assert has_managed_ancestor(view, _owned(made("Pod"), view, queue="q"), EVERY) is True
    view = store(NAMESPACE)
    child = _owned(made("Pod"), view)
    assert has_managed_ancestor(view, child, EVERY) is False, "nobody named a queue"
    assert has_managed_ancestor(view, child, _settings(everybody=True)) is True
    assert has_managed_ancestor(view, made("Pod"), _settings(everybody=True)) is False
    view = store(NAMESPACE)
    foreign = {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "metadata": {"name": "f", "namespace": "team", "labels": {f"{K}queue-name": "q"}},
    }
    parent = view.create(foreign)
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "name": "f",
        "uid": parent["metadata"]["uid"],
        "controller": True,
    }
    child = made("Pod")
    child["metadata"]["ownerReferences"] = [owner]
    assert has_managed_ancestor(view, child, EVERY) is False, "a kind that is nobody's"
    external = Settings(frameworks=EVERY.frameworks, external=("Foo.example.com",))
    assert has_managed_ancestor(view, child, external) is True
    child["metadata"]["ownerReferences"] = [{**owner, "uid": "another"}]
    assert has_managed_ancestor(view, child, external) is False
    child["metadata"]["ownerReferences"] = [{**owner, "name": "g"}]
    assert has_managed_ancestor(view, child, external) is False


def test_a_chain_of_ten_owners_is_looked_at() -> None:
    for length, found in ((1, True), (10, True), (11, False)):
        view = store(NAMESPACE)
        at = _owned(made("Job"), view, queue="q")
        for i in range(length - 1):
            meta = {**at["metadata"], "name": f"j{i}"}
            parent = view.create({**at, "metadata": meta})
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"j{i}", "controller": True}
            at = made("Job")
            at["metadata"]["ownerReferences"] = [{**owner, "uid": parent["metadata"]["uid"]}]
        assert has_managed_ancestor(view, at, EVERY) is found, length


def test_who_has_to_wait() -> None:
    """Who goes does not, nor who is in a namespace whose labels the selector does not take."""
    settings = _settings(everybody=True)
    job, view = made("Job", queue="q"), store(NAMESPACE)
    assert should_be_suspended(view, job, settings) is True
    going = {**job, "metadata": {**job["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert should_be_suspended(view, going, settings) is False
    assert should_be_suspended(view, made("Job"), EVERY) is False
    gold = Settings(
        frameworks=EVERY.frameworks,
        manages_without_queue_name=True,
        managed_namespaces=label_selector({"matchLabels": {"tier": "gold"}}),
    )
    for labels, waits in (({"tier": "gold"}, True), ({"tier": "tin"}, False), ({}, False)):
        there = store({**NAMESPACE, "metadata": {"name": "team", "labels": labels}})
        assert should_be_suspended(there, made("Job"), gold) is waits
        assert should_be_suspended(there, job, gold) is True, "it names a queue"
    assert should_be_suspended(store(), made("Job"), gold) is False
    assert should_be_suspended(store(), made("Job"), settings) is True


def test_owners_by_their_reference_alone() -> None:
    view = store(NAMESPACE)
    settings = Settings(frameworks=("batch/job",), external=("Foo.example.com",))
    for kind, version, want in (
        ("Job", "batch/v1", True),
        ("JobSet", "jobset.x-k8s.io/v1alpha2", False),
        ("Foo", "example.com/v1", True),
        ("Bar", "example.com/v1", False),
    ):
        child = made("Pod")
        owner = {"apiVersion": version, "kind": kind, "name": "p", "uid": "u"}
        assert has_managed_owner(child, settings) is False
        child["metadata"]["ownerReferences"] = [owner]
        assert has_managed_owner(child, settings) is False, "no controller"
        child["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        assert has_managed_owner(child, settings) is want
    assert has_managed_ancestor(view, made("Pod"), settings) is False


# Changes of jobs


def test_prebuilt_workloads_of_waiting_jobs_may_change_to_a_name() -> None:
    old = made("Job", dict(WAITS), queue="a", l_prebuilt_workload_name="a")
    at = "metadata.labels[prebuilt-workload-name]"
    # Once for the change, once as of a new job.
    assert _paths(made("Job", dict(WAITS), queue="a", l_prebuilt_workload_name="B_"), old) == [at, at]
    assert _paths(made("Job", dict(WAITS), queue="a", l_prebuilt_workload_name="b"), old) == []


def test_gates_of_admission_are_only_taken_away() -> None:
    old, new = made("Job", dict(WAITS), admission_gated_by="a.b/c"), "a.b/c,a.b/d"
    for on in (True, False):
        settings = _settings(AdmissionGatedBy=on)
        found = refused(made("Job", dict(WAITS), admission_gated_by=new), old, settings=settings)
        assert ["can only remove gates, not add new ones" in text for text in found] == [True] * on
        assert refused(made("Job", dict(WAITS)), old, settings=settings) == []


def test_names_of_63_letters_are_labels() -> None:
    off = _settings(WorkloadIdentifierAnnotations=False)
    at = "metadata.annotations[prebuilt-workload-name]"
    assert _paths(made("Job", prebuilt_workload_name="W" * 63), settings=off) == []
    assert _paths(made("Job", prebuilt_workload_name="W" * 64), settings=off) == [at]


@pytest.mark.parametrize(
    ("was", "now", "is_refused"),
    [("true", "1", False), ("true", "false", True), ("0", "T", True), ("", "f", False), ("no", "t", True)],
)
def test_completions_that_run_stay_in_step(was: str, now: str, is_refused: bool) -> None:
    spec = {"completionMode": "Indexed", **RUNS}
    old = made("Job", spec, queue="q", job_completions_equal_parallelism=was)
    found = _paths(made("Job", spec, queue="q", job_completions_equal_parallelism=now), old)
    assert found == ["metadata.annotations[job-completions-equal-parallelism]"] * is_refused


# Pods


def test_pods_are_looked_at_where_they_speak_of_kueue_or_did() -> None:
    plain: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team", "labels": {"app": "x"}},
    }
    spoken = {**plain, "metadata": {**plain["metadata"], "labels": {"app": "x", f"{K}queue-name": "q"}}}
    noted = {**plain, "metadata": {**plain["metadata"], "annotations": {f"{K}pod-group-total-count": "2"}}}
    view = store()
    assert refusals(CREATE, plain, None, view, EVERY) == ()
    assert refusals(UPDATE, plain, plain, view, EVERY) == ()
    assert len(refusals(CREATE, noted, None, view, EVERY)) == 1
    [refusal] = refusals(UPDATE, plain, spoken, view, EVERY)
    assert f"metadata.labels[{K}queue-name]" in str(refusal)
    assert refusals(UPDATE, spoken, spoken, view, EVERY) == ()


def test_a_pod_waits_behind_its_gate_among_others() -> None:
    gates = [{"name": "x"}, {"name": f"{K}admission"}]
    old = made("Pod", {"schedulingGates": gates}, queue="a")
    assert _paths(made("Pod", {"schedulingGates": gates}, queue="b"), old) == []
    let_go = made("Pod", {"schedulingGates": gates[:1]}, queue="b")
    assert _paths(let_go, old) == ["metadata.labels[queue-name]"]


@pytest.mark.parametrize("by_annotation", [True, False])
def test_a_pod_says_its_group_in_one_place(by_annotation: bool) -> None:
    settings = _settings(WorkloadIdentifierAnnotations=by_annotation)
    word = "annotation" if by_annotation else "label"
    notes = {"pod_group_name": "g"} if by_annotation else {"l_pod_group_name": "g"}
    [text] = refused(made("Pod", queue="q", **notes), settings=settings)
    assert f"and the '{K}pod-group-name' {word} should be set" in text
    old = made("Pod", queue="q", pod_group_total_count="2", **notes)
    other = made("Pod", queue="q", pod_group_total_count="2", **dict.fromkeys(notes, "h"))
    assert _paths(other, old, settings) == [f"metadata.{word}s[pod-group-name]"]
    assert _paths(made("Pod", queue="q", **_TWO), settings=settings) == ["metadata.annotations"]
    assert _paths(made("Pod", queue="q", podset_required_topology="-"), settings=settings) == [
        "metadata.annotations[podset-required-topology]"
    ]


# Deployments and the like


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_gates_of_servers(kind: str) -> None:
    at = "metadata.annotations[admission-gated-by]"
    template_of: Obj = {"leaderWorkerTemplate": {"workerTemplate": {}}} if kind == "LeaderWorkerSet" else {}
    old = made(kind, template_of, queue="q", admission_gated_by="a.b/c")
    more = made(kind, template_of, queue="q", admission_gated_by="a.b/c,a.b/d")
    bad = made(kind, template_of, queue="q", admission_gated_by="c")
    assert _paths(more, old) == [at] and _paths(old, old) == []
    # A LeaderWorkerSet's gates are looked at as if they were new as well.
    assert _paths(bad, bad) == [at] * (2 if kind == "LeaderWorkerSet" else 1)
    off = _settings(AdmissionGatedBy=False)
    assert _paths(more, old, off) == _paths(bad, None, off) == []
    assert (
        serving_faults(
            SHAPES[f"{kind}.apps" if kind != "LeaderWorkerSet" else f"{kind}.leaderworkerset.x-k8s.io"],
            old,
            None,
            store(),
            EVERY,
        )
        == []
    )


def test_servers_of_others_and_sizes_left_out() -> None:
    theirs = made("StatefulSet", {"template": template(pod_suspending_parent="deployment")}, queue="Q!")
    assert serving_faults(SHAPES["StatefulSet.apps"], theirs, None, store(), EVERY) == []
    own = made("StatefulSet", {"template": template(pod_suspending_parent="statefulset")}, queue="Q!")
    assert _paths(own) == ["metadata.labels[queue-name]"]

    def groups(replicas: int | None = None, **more: Any) -> Obj:
        spec: Obj = {"leaderWorkerTemplate": {"workerTemplate": {}, **more}}
        return made(
            "LeaderWorkerSet", spec if replicas is None else {**spec, "replicas": replicas}, queue="q"
        )

    off = _settings(TopologyAwareScheduling=False, TASProfileMixed=False)
    shape = SHAPES["LeaderWorkerSet.leaderworkerset.x-k8s.io"]
    assert serving_faults(shape, groups(), None, store(), off) == []
    for replicas, is_fine in ((None, True), (0, True), (1_000_000, True), (1_000_001, False), (-1, False)):
        assert _paths(groups(replicas)) == [] if is_fine else ["spec.replicas"]
    assert _paths(groups(size=1), groups()) == _paths(groups(), groups(size=1)) == []
    assert _paths(groups(size=2), groups()) == ["spec.leaderWorkerTemplate.size"]


# The door


def test_kinds_of_jobs_and_new_objects() -> None:
    assert is_job(made("Job")) is True and is_job(NAMESPACE) is False
    queue = {
        "apiVersion": f"{K}v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {"namespaceSelector": {"matchLabels": {"-": "x"}}},
    }
    [refusal] = new_refusals(queue)
    assert str(refusal) == refusal.message and refusal.message.startswith(
        'admission webhook "vclusterqueue.kb.io" denied the request: '
    )
    assert (refusal.code, refusal.reason, refusal.webhook) == (403, "Forbidden", "vclusterqueue.kb.io")
    assert len(refusal.faults) == 1
    assert new_refusals({**queue, "spec": {}}) == ()
    assert new_refusals({**queue, "kind": "LocalQueue"}) == ()
    assert new_refusals(made("Job", queue="Q!")) == ()
    assert new_refusals({**queue, "apiVersion": "v1"}) == ()
    assert refusals(CREATE, queue, None, store(), None) == ()
    assert denied("v", [forbidden(("a",), "b"), forbidden(("a",), "b")]).message.endswith(": a: Forbidden: b")


def test_workloads_are_admitted_whole_without_the_gate() -> None:
    workload = {
        "apiVersion": f"{K}v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {
            "queueName": "q",
            "podSets": [{"name": "a", "count": 3, "minCount": 2}, {"name": "b", "count": 1}],
        },
    }
    off = _settings(PartialAdmission=False)
    found = defaulted(CREATE, workload, store(), off)
    kept = defaulted(CREATE, workload, store(), EVERY)
    assert kept["spec"]["podSets"][0]["minCount"] == 2
    assert "minCount" not in found["spec"]["podSets"][0]
    assert found["spec"]["queueName"] == "q" and found["metadata"] == kept["metadata"]
    assert defaulted(UPDATE, workload, store(), off)["spec"]["podSets"][0]["minCount"] == 2
    bare = {**workload, "spec": {}}
    assert defaulted(CREATE, bare, store(), off)["metadata"] == workload["metadata"]


def test_what_a_mutating_webhook_cannot_read() -> None:
    bad: Any = Fault(("spec",), "1x", "Invalid value", "should match '^(\\+|-)?(([0-9]+")
    [plain] = [undecoded("Workload", [bad])]
    assert plain is not None and (plain.code, plain.reason, plain.webhook) == (
        400,
        "BadRequest",
        "mworkload.kb.io",
    )
    assert undecoded("Cohort", [bad]) is None and undecoded("Workload", []) is None


# Words


def test_values_as_go_prints_them() -> None:
    assert go_text("é<&>") == '"é<&>"'
    assert go_text(["<é&>"]) == '["\\u003cé\\u0026\\u003e"]'
    assert (
        str(unsupported(("a",), "é", ("ü", "b"))) == 'a: Unsupported value: "é": supported values: "ü", "b"'
    )
    assert str(unsupported(("a",), "x", ())) == 'a: Unsupported value: "x"'


def test_labels_and_taints_of_flavors() -> None:
    def said(spec: Obj) -> list[str]:
        return [str(fault) for fault in resource_flavor_faults({"spec": spec}, None, DEFAULTS)]

    assert (
        said(
            {
                "nodeLabels": {"a": None, "b": "", "c": "d"},
                "nodeTaints": [{"key": "a", "effect": "NoSchedule"}],
            }
        )
        == []
    )
    value, key = names.label_value("b_")[0], names.label_key("-")[0]
    assert said({"nodeLabels": {"a": "b_"}}) == [f'spec.nodeLabels: Invalid value: "b_": {value}']
    assert said({"nodeLabels": {"-": "b"}}) == [f'spec.nodeLabels: Invalid value: "-": {key}']
    long = "-" + "a" * 63
    several = names.label_value(long)
    assert len(several) > 1
    taints = [{"key": "-", "effect": "NoSchedule"}, {"key": "a", "value": long, "effect": "NoSchedule"}]
    assert said({"nodeTaints": taints}) == [
        f'spec.nodeTaints[0].key: Invalid value: "-": {key}',
        f'spec.nodeTaints[1].value: Invalid value: "{long}": {";".join(several)}',
    ]


def test_annotations_have_room_for_so_many_bytes() -> None:
    room = 256 * 1024
    assert annotation_faults({"a": "b" * (room - 1)}, ("x",)) == []
    [long] = annotation_faults({"a": "b" * room}, ("x",))
    assert str(long) == f"x: Too long: may not be more than {room} bytes"
    assert annotation_faults({"a": "b" * (room - 3), "cd": None}, ("x",)) == []
    assert len(annotation_faults({"a": "b" * (room - 2), "cd": None}, ("x",))) == 1
    assert len(annotation_faults({"a": "é" * (room // 2)}, ("x",))) == 1
    assert annotation_faults(None, ("x",)) == []
    assert [str(f).partition(":")[0] for f in annotation_faults({"-": "b", "A": "b"}, ("x",))] == ["x"]


def test_limits_of_quotas() -> None:
    def said(weight: str = "1", **quota: str) -> list[str]:
        resource = {"name": "cpu", "nominalQuota": "4", **quota}
        flavors = [{"name": "f", "resources": [resource]}]
        spec = {"cohortName": "c", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
        found = cluster_queue_faults({"spec": {**spec, "fairSharing": {"weight": weight}}}, None, DEFAULTS)
        return [str(fault).replace("spec.resourceGroups[0].flavors[0].resources[0].", "") for fault in found]

    below = "must be greater than or equal to 0"
    assert said() == said(lendingLimit="4") == said(lendingLimit="0") == said(nominalQuota="0") == []
    assert said(lendingLimit="4001m") == [
        'lendingLimit: Invalid value: "4001m": must be less than or equal to the nominalQuota'
    ]
    for name in ("lendingLimit", "borrowingLimit", "nominalQuota"):
        assert said(**{name: "-1m"}) == [f'{name}: Invalid value: "-1m": {below}']
    assert said("0") == said("2n") == []
    assert said("1n") == ['spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9']
    assert said("-1") == [f'spec.fairSharing: Invalid value: "-1": {below}']


# Versions


def test_what_versions_keep_of_each_other() -> None:
    """Workloads: the rest of the status; clusters of MultiKueue: their source."""
    domains = {"levels": ["h"], "domains": [{"values": ["n"], "count": 2}]}
    assigned = {"name": "main", "count": 2, "topologyAssignment": domains}
    status = {
        "admission": {"clusterQueue": "q", "podSetAssignments": [assigned]},
        "conditions": [{"type": "Admitted"}],
    }
    old = {
        "apiVersion": f"{K}v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"queueName": "q"},
        "status": status,
    }
    new = converted(old)
    assert new["status"]["conditions"] == status["conditions"]
    assert new["status"]["admission"]["clusterQueue"] == "q"
    assert converted(new, f"{K}v1beta1") == old
    profile = {"clusterProfileRef": {"name": "c"}}
    cluster = {"apiVersion": f"{K}v1beta1", "kind": "MultiKueueCluster", "metadata": {"name": "m"}}
    empty = {"location": "", "locationType": ""}
    for given, source in (
        ({**profile, "kubeConfig": empty}, profile),
        ({"kubeConfig": {"location": "a", "locationType": "Secret"}}, None),
    ):
        made_new = converted({**cluster, "spec": given})
        assert made_new["spec"] == {"clusterSource": given if source is None else source}
        assert converted(made_new, f"{K}v1beta1")["spec"] == given
