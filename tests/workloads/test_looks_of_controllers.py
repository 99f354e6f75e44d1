"""Who looks again, and when: after a change of an object or of what it owns, and after something was refused."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.actions import Create, Emit
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads import podgroups, registry, resourceclaims
from fairway.workloads.controller import Controller, is_desire_changed
from fairway.workloads.knative import controllers as knative
from fairway.workloads.pods import in_ranked_deletion_order
from fairway.workloads.volcanojob import decide as volcanojob
from fairway.workloads.volcanojob import podgroups as volcanogroups
from fairway.workloads.volcanojob import queues

NOW = parse_rfc3339("2026-01-05T08:00:00Z")
CONTROLLERS = {c.name: c for c in (*registry.CONTROLLERS, volcanojob.CONTROLLER)}


def of_kind(kind: str) -> Controller:
    return next(
        c for c in CONTROLLERS.values() if c.gk.partition(".")[0] == kind and (c.refused or c.gk != "Pod")
    )


REFUSALS = {
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "JobCreationFailed", "no", 60),
    "PyTorchJob": ("kubeflow.org/v1", "FailedCreatePod", "Error creating: no", 60),
    "TFJob": ("kubeflow.org/v1", "FailedCreatePod", "Error creating: no", 60),
    "XGBoostJob": ("kubeflow.org/v1", "FailedCreatePod", "Error creating: no", 60),
    "MPIJob": ("kubeflow.org/v2beta1", "MPIJobFailed", "worker pod created failed: no", 60),
    "RayCluster": (
        "ray.io/v1",
        "FailedToCreateWorkerPod",
        "Failed to create worker Pod for RayCluster ns/x: no",
        60,
    ),
    "RayJob": (
        "ray.io/v1",
        "FailedToCreateRayCluster",
        "Failed to create RayCluster for RayJob ns/x: no",
        60,
    ),
}


@pytest.mark.parametrize("kind", [*REFUSALS, "Job.batch.volcano.sh"])
def test_a_refusal_is_told_and_tried_again(kind: str) -> None:
    store = Store(seed=1, now_us=NOW)
    if kind in REFUSALS:
        controller = of_kind(kind)
        api, reason, message, wait_s = REFUSALS[kind]
    else:
        controller = volcanojob.CONTROLLER
        api, reason, message, wait_s = (
            "batch.volcano.sh/v1alpha1",
            "FailedCreate",
            "Error creating pods: [no]",
            60,
        )
    key = Key(controller.gk, "ns", "x")
    assert controller.refused is not None
    gone = controller.refused(store, key, NOW, "no")
    assert (gone.actions, gone.again_at_us) == ((), None)
    store.create(
        {
            "apiVersion": api,
            "kind": kind.partition(".")[0],
            "metadata": {"name": "x", "namespace": "ns"},
            "spec": {},
        }
    )
    found = controller.refused(store, key, NOW, "no")
    (told,) = found.actions
    assert isinstance(told, Emit)
    assert (told.about, told.type, told.reason, told.message) == (key, "Warning", reason, message)
    assert found.again_at_us == NOW + wait_s * SECOND_US


OWNED = {
    # Kind: its API group, a child that is looked at as it comes, one only once it has a node.
    "JobSet": ("jobset.x-k8s.io", "Job.batch", None),
    "PyTorchJob": ("kubeflow.org", None, "Pod"),
    "TFJob": ("kubeflow.org", None, "Pod"),
    "XGBoostJob": ("kubeflow.org", None, "Pod"),
    "MPIJob": ("kubeflow.org", "Job.batch", None),
    "RayCluster": ("ray.io", None, "Pod"),
    "RayJob": ("ray.io", "RayCluster.ray.io", None),
}


@pytest.mark.parametrize("kind", OWNED)
def test_an_object_is_looked_at_again_with_what_it_owns(kind: str) -> None:
    store, controller = Store(seed=1, now_us=NOW), of_kind(kind)
    group, at_once, placed = OWNED[kind]
    mine = Key(controller.gk, "ns", "x")
    lone: Obj = {"metadata": {"name": "x", "namespace": "ns"}}

    def looks(type_: str, key: Key, obj: Obj) -> list[Key]:
        return list(controller.map_change(store, Change(1, type_, key, obj, None)))

    for type_ in (ADDED, MODIFIED, DELETED):
        assert looks(type_, mine, lone) == ([] if type_ == DELETED else [mine])
    key = Key(at_once or placed or "", "ns", "child")
    for type_ in (ADDED, MODIFIED, DELETED):
        for of, in_group, is_controller in (
            (kind, group, True),
            ("Other", group, True),
            (kind, "other.io", True),
            (kind, group, False),
        ):
            ref = {
                "apiVersion": f"{in_group}/v1",
                "kind": of,
                "name": "x",
                "uid": "u",
                "controller": is_controller,
            }
            child: Obj = {
                "metadata": {"name": "child", "namespace": "ns", "ownerReferences": [ref]},
                "spec": {},
            }
            is_ours = (of, in_group, is_controller) == (kind, group, True)
            is_seen = at_once is not None or type_ != ADDED
            assert looks(type_, key, child) == ([mine] if is_ours and is_seen else [])
            if placed:
                child["spec"]["nodeName"] = "n1"
                assert looks(type_, key, child) == ([mine] if is_ours else [])
        assert (
            looks(type_, key, {"metadata": {"name": "child", "namespace": "ns"}, "spec": {"nodeName": "n1"}})
            == []
        )


SERVING = "serving.kserve.io"
# What makes which services look: all of them, those of its namespace, or none.
SETTINGS: dict[str, tuple[tuple[Key, str], ...]] = {
    "InferenceService": (
        (Key("ServingRuntime.serving.kserve.io", "ns", "r"), "ns"),
        (Key("ClusterServingRuntime.serving.kserve.io", "", "r"), "all"),
        (Key("ConfigMap", "kserve", "inferenceservice-config"), "all"),
        (Key("ConfigMap", "ns", "inferenceservice-config"), ""),
        (Key("ConfigMap", "kserve", "other"), ""),
        (Key("Deployment.apps", "ns", "d"), ""),
    ),
    "LLMInferenceService": (
        (Key("Gateway.gateway.networking.k8s.io", "ns", "g"), "all"),
        (Key("GatewayClass.gateway.networking.k8s.io", "", "g"), "all"),
        (Key("LLMInferenceServiceConfig.serving.kserve.io", "ns", "c"), "all"),
        (Key("ConfigMap", "kserve", "inferenceservice-config"), "all"),
        (Key("ConfigMap", "ns", "inferenceservice-config"), ""),
        (Key("HTTPRoute.gateway.networking.k8s.io", "ns", "r"), "ns"),
        (Key("Deployment.apps", "ns", "d"), ""),
    ),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_served_model_is_looked_at_with_its_children_and_what_it_is_made_by(kind: str) -> None:
    store, controller = Store(seed=1, now_us=NOW), of_kind(kind)
    for namespace in ("ns", "other"):
        meta = {"name": "x", "namespace": namespace}
        store.create({"apiVersion": f"{SERVING}/v1beta1", "kind": kind, "metadata": meta, "spec": {}})
    mine, others = (Key(controller.gk, namespace, "x") for namespace in ("ns", "other"))

    def looks(key: Key, obj: Obj, type_: str = MODIFIED, old: Obj | None = None) -> list[Key]:
        return list(controller.map_change(store, Change(1, type_, key, obj, old)))

    mine_now = store.require(mine)
    assert looks(mine, mine_now, ADDED) == [mine]
    assert looks(mine, mine_now, old=mine_now) == looks(mine, mine_now, DELETED, mine_now) == []
    for key, whom in SETTINGS[kind]:
        lone = {"metadata": {"name": key.name, "namespace": key.namespace}}
        assert looks(key, lone) == {"all": [mine, others], "ns": [mine], "": []}[whom], key
    for of, group in ((kind, SERVING), ("Other", SERVING), (kind, "other.io")):
        ref = {"apiVersion": f"{group}/v1", "kind": of, "name": "x", "uid": "u", "controller": True}
        child = {"metadata": {"name": "d", "namespace": "ns", "ownerReferences": [ref]}}
        is_ours = (of, group) == (kind, SERVING)
        for type_ in (ADDED, MODIFIED, DELETED):
            assert looks(Key("Deployment.apps", "ns", "d"), child, type_) == ([mine] if is_ours else [])


def test_a_launchers_pod_makes_its_job_look_when_it_changes() -> None:
    store, controller = Store(seed=1, now_us=NOW), of_kind("MPIJob")
    labels = {"training.kubeflow.org/job-name": "x", "training.kubeflow.org/job-role": "launcher"}
    for kind, role, type_ in (
        (k, r, t)
        for k in ("Job", "MPIJob")
        for r in ("launcher", "worker")
        for t in (ADDED, MODIFIED, DELETED)
    ):
        ref = {
            "apiVersion": "kubeflow.org/v2beta1" if kind == "MPIJob" else "batch/v1",
            "kind": kind,
            "name": "x",
            "uid": "u",
            "controller": True,
        }
        meta = {
            "name": "p",
            "namespace": "ns",
            "ownerReferences": [ref],
            "labels": {**labels, "training.kubeflow.org/job-role": role},
        }
        found = controller.map_change(
            store, Change(1, type_, Key("Pod", "ns", "p"), {"metadata": meta, "spec": {}}, None)
        )
        is_seen = kind == "MPIJob" or (role == "launcher" and type_ == MODIFIED)
        assert list(found) == ([Key(controller.gk, "ns", "x")] if is_seen else [])


@pytest.mark.parametrize(
    "field", ["generation", "deletionTimestamp", "labels", "annotations", "finalizers", "resourceVersion"]
)
def test_a_write_of_the_status_is_no_new_wish(field: str) -> None:
    old: Obj = {"metadata": {"name": "x", "generation": 1}, "status": {}}
    new: Obj = {"metadata": {**old["metadata"], field: "new"}, "status": {"ready": 1}}
    key = Key("Job.batch", "ns", "x")
    assert is_desire_changed(Change(1, MODIFIED, key, new, old)) is (field != "resourceVersion")
    assert is_desire_changed(Change(1, ADDED, key, new, None))
    assert not is_desire_changed(Change(1, DELETED, key, new, old))


@pytest.mark.parametrize(
    ("older_s", "younger_s", "by_age"),
    [
        (1100, 1099, True),
        (2199, 1100, False),
        (2200, 2199, True),
        (1099, 550, False),
        (550, 549, True),
        (5, 5, False),
    ],
)
def test_ages_are_compared_by_powers_of_two_of_nanoseconds(
    older_s: int, younger_s: int, by_age: bool
) -> None:
    """2^40 ns are 1,099.5 s. Within a power the smaller UID goes first; of one moment, the first by name."""

    def pod(name: str, age_s: int, uid: str) -> Obj:
        at = rfc3339(NOW - age_s * SECOND_US)
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": at}
        meta = {"name": name, "namespace": "ns", "uid": uid, "creationTimestamp": at}
        return {
            "metadata": meta,
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [condition]},
        }

    for uids in (("1", "2"), ("2", "1")):
        both = [pod("older", older_s, uids[0]), pod("younger", younger_s, uids[1])]
        if by_age:
            want = "younger"
        elif older_s == younger_s:
            want = "older"
        else:
            want = "older" if uids == ("1", "2") else "younger"
        for given in (both, both[::-1]):
            assert in_ranked_deletion_order(given, {"n": 2}, NOW)[0]["metadata"]["name"] == want


EVERY = (
    *registry.CONTROLLERS,
    *knative.CONTROLLERS,
    *resourceclaims.CONTROLLERS,
    podgroups.CONTROLLER,
    volcanojob.CONTROLLER,
    volcanogroups.CONTROLLER,
    queues.CONTROLLER,
)


@pytest.mark.parametrize("controller", EVERY, ids=lambda c: f"{c.name}-{c.gk}")
def test_nothing_is_done_about_what_is_gone(controller: Controller) -> None:
    found = controller.reconcile(Store(seed=1, now_us=NOW), Key(controller.gk, "ns", "x"), NOW)
    assert (found.actions, found.again_at_us) == ((), None)


POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
TEMPLATE = {"template": POD}
# Kind: its API version, a spec with which it would do something, where that says who manages it, and who may.
WORK: dict[str, tuple[str, dict[str, Any], tuple[str, ...], str]] = {
    "Job": ("batch/v1", TEMPLATE, ("managedBy",), "kubernetes.io/job-controller"),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        {"replicatedJobs": [{"name": "a", "replicas": 1, "template": {"spec": TEMPLATE}}]},
        ("managedBy",),
        "jobset.sigs.k8s.io/jobset-controller",
    ),
    **{
        kind: (api, {field: {role: TEMPLATE}}, ("runPolicy", "managedBy"), "kubeflow.org/training-operator")
        for kind, api, field, role in (
            ("PyTorchJob", "kubeflow.org/v1", "pytorchReplicaSpecs", "Master"),
            ("TFJob", "kubeflow.org/v1", "tfReplicaSpecs", "Chief"),
            ("XGBoostJob", "kubeflow.org/v1", "xgbReplicaSpecs", "Master"),
        )
    },
    "MPIJob": (
        "kubeflow.org/v2beta1",
        {"mpiReplicaSpecs": {"Launcher": TEMPLATE}},
        ("runPolicy", "managedBy"),
        "kubeflow.org/mpi-operator",
    ),
    "RayCluster": ("ray.io/v1", {"headGroupSpec": TEMPLATE}, ("managedBy",), "ray.io/kuberay-operator"),
    "RayJob": (
        "ray.io/v1",
        {"rayClusterSpec": {"headGroupSpec": TEMPLATE}},
        ("managedBy",),
        "ray.io/kuberay-operator",
    ),
    "InferenceService": ("serving.kserve.io/v1beta1", {"predictor": POD["spec"]}, (), ""),
    "LLMInferenceService": ("serving.kserve.io/v1alpha1", {"model": {"uri": "hf://a/b"}}, (), ""),
    "Service": ("serving.knative.dev/v1", TEMPLATE, (), ""),
    "Configuration": ("serving.knative.dev/v1", TEMPLATE, (), ""),
    "Revision": ("serving.knative.dev/v1", POD["spec"], (), ""),
    "Route": ("serving.knative.dev/v1", {"traffic": [{"configurationName": "x", "percent": 100}]}, (), ""),
    "CronJob": ("batch/v1", {"schedule": "* * * * *", "jobTemplate": {"spec": TEMPLATE}}, (), ""),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": POD}},
        (),
        "",
    ),
}


def _looked(kind: str, spec: dict[str, Any], **meta: Any) -> Any:
    """What is done about an object of two minutes ago."""
    api = WORK[kind][0]
    gk = f"{kind}.{api.partition('/')[0]}"
    store = Store(seed=1, now_us=NOW - 120 * SECOND_US)
    own = {"name": "x", "namespace": "ns", "finalizers": ["example.com/held"], **meta}
    store.create({"apiVersion": api, "kind": kind, "metadata": own, "spec": spec})
    if "deletionTimestamp" in meta:
        store.delete(Key(gk, "ns", "x"))
    controller = next(c for c in EVERY if c.gk == gk and c.name != "ttl-after-finished")
    found = controller.reconcile(store, Key(gk, "ns", "x"), NOW)
    return found.actions


@pytest.mark.parametrize("kind", WORK)
def test_nothing_is_begun_for_what_is_going(kind: str) -> None:
    _, spec, _, _ = WORK[kind]
    assert _looked(kind, spec)
    assert not [a for a in _looked(kind, spec, deletionTimestamp="now") if isinstance(a, Create)]


@pytest.mark.parametrize("kind", [kind for kind, (_, _, path, _) in WORK.items() if path])
def test_what_another_manages_is_left_alone(kind: str) -> None:
    _, spec, path, ours = WORK[kind]
    for name in (ours, "kueue.x-k8s.io/multikueue"):
        given: Any = name
        for part in reversed(path):
            given = {part: given}
        assert bool(_looked(kind, {**spec, **given})) is (name == ours), name


def test_who_begins_slowly() -> None:
    """One pod, then two, then four: controllers whose pods could all be refused for one reason."""
    assert {c.name for c in CONTROLLERS.values() if c.slow_start} == {"daemonset", "job", "replicaset"}
