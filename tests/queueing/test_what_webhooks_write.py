"""What Kueue's webhooks write into jobs and pods: every kind, with and without queue, default queue, class, manager."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import labels_of
from fairway.queueing.webhooks.door import CREATE, UPDATE, defaulted, refusals
from fairway.queueing.webhooks.settings import Settings

Obj = dict[str, Any]
K = "kueue.x-k8s.io/"
FRAMEWORKS = (
    "batch/job",
    "deployment",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/mpijob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "statefulset",
)
GROUP = "kueue.x-k8s.io/v1beta2"


def _store(*, queue: bool = False, priority: bool = False) -> Store:
    made = Store()
    made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    if queue:
        meta = {"name": "default", "namespace": "team"}
        made.create(
            {"apiVersion": GROUP, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": "c"}}
        )
    if priority:
        made.create(
            {
                "apiVersion": GROUP,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": "default"},
                "value": 5,
            }
        )
    return made


def _job(
    version: str, kind: str, spec: Obj, *, namespace: str = "team", labels: Obj | None = None, **notes: str
) -> Obj:
    annotations = {K + n.replace("_", "-"): v for n, v in notes.items()}
    meta: Obj = {"name": "j", "namespace": namespace, "labels": labels or {}, "annotations": annotations}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


_POD: Obj = {"containers": [{"name": "c"}]}
_RAY: Obj = {
    "headGroupSpec": {"template": {"spec": _POD}},
    "workerGroupSpecs": [{"template": {"spec": _POD}}],
}
# Kind → version, spec, where it says that it is suspended.
_SUSPENDED: dict[str, tuple[str, Obj, tuple[str, ...]]] = {
    "Job": ("batch/v1", {"template": {"spec": _POD}}, ("suspend",)),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", {}, ("suspend",)),
    "MPIJob": ("kubeflow.org/v2beta1", {}, ("runPolicy", "suspend")),
    "RayCluster": ("ray.io/v1", _RAY, ("suspend",)),
    "RayJob": ("ray.io/v1", {"rayClusterSpec": _RAY}, ("suspend",)),
}
_WORLDS = list(product((False, True), repeat=5))


def _at(obj: Obj, path: tuple[str, ...]) -> Any:
    found: Any = obj["spec"]
    for name in path:
        found = (found or {}).get(name)
    return found


@pytest.mark.parametrize("kind", _SUSPENDED)
def test_jobs_wait_where_they_name_a_queue_or_all_do(kind: str) -> None:
    version, spec, path = _SUSPENDED[kind]
    for named, default_queue, default_class, all_are, managed in _WORLDS:
        namespace = "team" if managed else "kube-system"
        view = _store(queue=default_queue, priority=default_class)
        job = _job(version, kind, spec, namespace=namespace, labels={f"{K}queue-name": "a"} if named else {})
        settings = Settings(frameworks=FRAMEWORKS, manages_without_queue_name=all_are)
        made = defaulted(CREATE, job, view, settings)
        queue = "a" if named else "default" if default_queue and managed else None
        assert labels_of(made).get(f"{K}queue-name") == queue
        assert labels_of(made).get(f"{K}priority-class") == ("default" if default_class else None)
        waits = bool(queue) or (all_are and managed)
        assert bool(_at(made, path)) == waits, (named, default_queue, all_are, managed)
        assert defaulted(UPDATE, job, view, settings) == job
        off = Settings(frameworks=("pod",), manages_without_queue_name=all_are)
        assert defaulted(CREATE, job, view, off) == job
        high = _job(version, kind, spec, namespace=namespace, labels={f"{K}priority-class": "high"})
        assert labels_of(defaulted(CREATE, high, view, settings))[f"{K}priority-class"] == "high"


def test_pods_are_gated_where_they_wait() -> None:
    for named, default_queue, default_class, all_are, managed in _WORLDS:
        namespace = "team" if managed else "kube-system"
        view = _store(queue=default_queue, priority=default_class)
        settings = Settings(frameworks=FRAMEWORKS, manages_without_queue_name=all_are)
        pod = _job("v1", "Pod", _POD, namespace=namespace, labels={f"{K}queue-name": "a"} if named else {})
        made = defaulted(CREATE, pod, view, settings)
        queue = "a" if named else "default" if default_queue and managed else None
        waits = managed and bool(queue or all_are)
        want = dict(pod["metadata"]["labels"])
        if managed and queue:
            want[f"{K}queue-name"] = queue
        if managed and default_class:
            want[f"{K}priority-class"] = "default"
        if waits:
            want[f"{K}managed"] = "true"
        assert labels_of(made) == want, (named, default_queue, default_class, all_are, managed)
        gates = [g["name"] for g in made["spec"].get("schedulingGates") or ()]
        assert gates == ([f"{K}admission", f"{K}topology"] if waits else [])
        assert made["metadata"].get("finalizers") == ([f"{K}managed"] if waits else None)
        if not waits and not (managed and default_class):
            assert made is pod
        if waits:
            assert defaulted(CREATE, made, view, settings) == made, "nothing is written twice"
    plain = Settings(frameworks=FRAMEWORKS, gates={"TopologyAwareScheduling": False})
    made = defaulted(CREATE, _job("v1", "Pod", _POD, labels={f"{K}queue-name": "a"}), _store(), plain)
    assert [g["name"] for g in made["spec"]["schedulingGates"]] == [f"{K}admission"]
    parent = _job("v1", "Pod", _POD, pod_suspending_parent="deployment")
    made = defaulted(CREATE, parent, _store(), plain)
    assert [g["name"] for g in made["spec"]["schedulingGates"]] == [f"{K}admission"]
    assert f"{K}managed" not in labels_of(made) and "finalizers" not in made["metadata"]


def test_pods_know_their_index_from_the_label_that_says_it() -> None:
    labels = {f"{K}queue-name": "a", "index": "3"}
    for name, want in (("index", "3"), ("other", "")):
        pod = _job("v1", "Pod", _POD, labels=labels, pod_group_pod_index_label=name)
        made = defaulted(CREATE, pod, _store(), Settings(frameworks=FRAMEWORKS))
        assert labels_of(made)[f"{K}pod-group-pod-index"] == want
    pod = _job("v1", "Pod", _POD, labels=labels)
    made = defaulted(CREATE, pod, _store(), Settings(frameworks=FRAMEWORKS))
    assert f"{K}pod-group-pod-index" not in labels_of(made)


@pytest.mark.parametrize("operation", [CREATE, UPDATE])
def test_what_serves_hands_on_its_queue(operation: str) -> None:
    settings = Settings(frameworks=FRAMEWORKS)
    labels = {f"{K}queue-name": "a", f"{K}priority-class": "high", "x": "y"}
    passed = {f"{K}queue-name": "a", f"{K}priority-class": "high"}
    own = {"metadata": {"labels": {"app": "z"}, "annotations": {"n": "1"}}, "spec": _POD}
    parent = f"{K}pod-suspending-parent"

    def template(kind: str, version: str = "apps/v1") -> Obj:
        made = defaulted(operation, _job(version, kind, {"template": own}, labels=labels), _store(), settings)
        found: Obj = made["spec"]["template"]["metadata"]
        return found

    assert template("Deployment") == {
        "labels": {"app": "z", f"{K}managed": "true", **passed},
        "annotations": {"n": "1", parent: "deployment"},
    }
    assert template("StatefulSet") == {
        "labels": {"app": "z"},
        "annotations": {"n": "1", parent: "statefulset"},
    }
    group = {"leaderWorkerTemplate": {"leaderTemplate": own, "workerTemplate": own, "size": 2}}
    version = "leaderworkerset.x-k8s.io/v1"
    made = defaulted(operation, _job(version, "LeaderWorkerSet", group, labels=labels), _store(), settings)
    both = made["spec"]["leaderWorkerTemplate"]
    notes = {"n": "1", parent: "leaderworkerset.x-k8s.io/leaderworkerset", f"{K}pod-group-serving": "true"}
    assert both["leaderTemplate"]["metadata"] == {"labels": {"app": "z", **passed}, "annotations": notes}
    assert both["workerTemplate"]["metadata"] == {
        "labels": {"app": "z", **passed},
        "annotations": {**notes, f"{K}pod-index-offset": "1"},
    }
    alone = {"leaderWorkerTemplate": {"workerTemplate": own}}
    made = defaulted(operation, _job(version, "LeaderWorkerSet", alone, labels=labels), _store(), settings)
    assert made["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["annotations"] == notes
    assert "leaderTemplate" not in made["spec"]["leaderWorkerTemplate"]
    nobody = _job("apps/v1", "Deployment", {"template": own})
    assert defaulted(operation, nobody, _store(), settings) == nobody


def test_workers_of_mpi_jobs_count_from_one_beside_a_launcher_that_works() -> None:
    for runs, launcher, worker, grouped, aware in product((False, True), repeat=5):
        notes = {"annotations": {f"{K}podset-group-name": "g"}} if grouped else {}
        roles: Obj = {}
        if launcher:
            roles["Launcher"] = {"template": {"metadata": notes}}
        if worker:
            roles["Worker"] = {"template": {}}
        settings = Settings(frameworks=FRAMEWORKS, gates={} if aware else {"TopologyAwareScheduling": False})
        spec = {"mpiReplicaSpecs": roles, "runLauncherAsWorker": runs}
        made = defaulted(CREATE, _job("kubeflow.org/v2beta1", "MPIJob", spec), _store(), settings)
        offset = ((made["spec"]["mpiReplicaSpecs"].get("Worker") or {}).get("template") or {}).get("metadata")
        want = runs and launcher and worker and aware and not grouped
        assert offset == ({"annotations": {f"{K}pod-index-offset": "1"}} if want else None)


def test_elastic_jobs_gate_every_pod_of_theirs() -> None:
    settings = Settings(frameworks=FRAMEWORKS, gates={"ElasticJobsViaWorkloadSlices": True})
    labels = {f"{K}queue-name": "a"}
    gate = [{"name": f"{K}elastic-job"}]
    for elastic in ("true", "false"):
        made = defaulted(
            CREATE,
            _job("ray.io/v1", "RayCluster", _RAY, labels=labels, elastic_job=elastic),
            _store(),
            settings,
        )["spec"]
        groups = [made["headGroupSpec"], *made["workerGroupSpecs"]]
        want = gate if elastic == "true" else None
        assert [g["template"]["spec"].get("schedulingGates") for g in groups] == [want, want]


def test_faults_of_ray_jobs_come_head_first() -> None:
    def template(*notes: str) -> Obj:
        return {"metadata": {"annotations": {K + n: "x" for n in notes}}, "spec": _POD}

    both = ("podset-required-topology", "podset-preferred-topology")
    ray = {
        "headGroupSpec": {"template": template(*both)},
        "workerGroupSpecs": [{"groupName": "g", "template": template(*both)}],
    }
    settings = Settings(frameworks=FRAMEWORKS)
    for kind, spec in (
        ("RayCluster", ray),
        ("RayJob", {"rayClusterSpec": ray, "shutdownAfterJobFinishes": True}),
    ):
        job = _job("ray.io/v1", kind, spec, labels={f"{K}queue-name": "a"})
        (refusal,) = refusals(CREATE, job, None, _store(), settings)
        text = refusal.message
        head, worker = text.index("headGroupSpec"), text.index("workerGroupSpecs[0]")
        assert head < worker
        assert text.count("must not contain more than one topology annotation") == 2
    grouped = {
        "headGroupSpec": {"template": template("podset-group-name", both[0])},
        "workerGroupSpecs": [{"groupName": "g", "template": template("podset-group-name", *both)}],
    }
    job = _job("ray.io/v1", "RayCluster", grouped, labels={f"{K}queue-name": "a"})
    (refusal,) = refusals(CREATE, job, None, _store(), settings)
    assert refusal.message.index("consistent with") < refusal.message.index(
        "more than one topology annotation"
    )
