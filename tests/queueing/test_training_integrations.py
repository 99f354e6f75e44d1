"""Training jobs and pods as Kueue sees them: pod sets, what is injected, when they are over, ready, active."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.actions import Emit, perform
from fairway.cluster.store import Store
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Key, Obj, key_of
from fairway.queueing.facts.gates import DEFAULT_GATES
from fairway.queueing.integrations.integration import Finish, Integration, Reclaimable
from fairway.queueing.integrations.ownership import OwnedWorkloads
from fairway.queueing.integrations.pod import held
from fairway.queueing.integrations.podsetinfo import BadPodSets, PodSetInfo
from fairway.queueing.integrations.reconcile import Kueue, reconcile_job
from fairway.queueing.integrations.registry import integrations
from fairway.queueing.integrations.rolehash import role_hash
from fairway.queueing.integrations.settings import JobSettings

KINDS = integrations()
NOW_US = 1_767_225_600_000_000
WORKLOAD = "Workload.kueue.x-k8s.io"


def template(gpus: int = 1, **meta: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    return {"metadata": meta, "spec": {"containers": [container]}}


def an(kind: str, api_version: str, spec: dict[str, Any], **status: Any) -> Obj:
    meta = {"name": "job", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec, "status": status}


def jobset(**status: Any) -> Obj:
    groups = [
        {"name": "Driver", "replicas": 1, "template": {"spec": {"template": template(0)}}},
        {
            "name": "workers",
            "replicas": 2,
            "template": {"spec": {"parallelism": 4, "completions": 3, "template": template(8)}},
        },
    ]
    return an("JobSet", "jobset.x-k8s.io/v1alpha2", {"suspend": True, "replicatedJobs": groups}, **status)


def kubeflow(kind: str, field: str, roles: dict[str, int | None], **status: Any) -> Obj:
    specs: dict[str, Any] = {}
    for role, count in roles.items():
        specs[role] = {"template": template()} | ({} if count is None else {"replicas": count})
    return an(kind, "kubeflow.org/v1", {field: specs, "runPolicy": {"suspend": True}}, **status)


def ray_cluster_spec(**more: Any) -> dict[str, Any]:
    groups = [
        {"groupName": "Small", "template": template()},
        {"groupName": "big", "replicas": 2, "numOfHosts": 4, "template": template(8)},
    ]
    return {"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": groups, **more}


def ray_job(mode: str = "", **status: Any) -> Obj:
    spec: dict[str, Any] = {"suspend": True, "rayClusterSpec": ray_cluster_spec()}
    if mode:
        spec["submissionMode"] = mode
    return an("RayJob", "ray.io/v1", spec, **status)


JOBS: dict[str, tuple[Obj, list[tuple[str, int]]]] = {
    "JobSet: replicas times pods per Job": (jobset(), [("driver", 1), ("workers", 6)]),
    "PyTorchJob": (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 4, "Master": None}),
        [("master", 1), ("worker", 4)],
    ),
    "TFJob": (
        kubeflow("TFJob", "tfReplicaSpecs", {"Evaluator": 1, "Worker": 4, "PS": 2, "Chief": 1}),
        [("chief", 1), ("ps", 2), ("worker", 4), ("evaluator", 1)],
    ),
    "XGBoostJob": (
        kubeflow("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 3}),
        [("master", 1), ("worker", 3)],
    ),
    "MPIJob": (
        kubeflow("MPIJob", "mpiReplicaSpecs", {"Worker": 3, "Launcher": 1}),
        [("launcher", 1), ("worker", 3)],
    ),
    "RayCluster": (
        an("RayCluster", "ray.io/v1", {"suspend": True, **ray_cluster_spec()}),
        [("head", 1), ("small", 1), ("big", 8)],
    ),
    "RayJob with a submitter": (ray_job(), [("head", 1), ("small", 1), ("big", 8), ("submitter", 1)]),
    "RayJob over HTTP": (ray_job("HTTPMode"), [("head", 1), ("small", 1), ("big", 8)]),
}


def kind_of(job: Obj) -> Integration:
    return KINDS[key_of(job).gk]


@pytest.mark.parametrize("case", JOBS)
def test_pod_sets(case: str) -> None:
    job, want = JOBS[case]
    found = kind_of(job).pod_sets(Store(), job)
    assert [(ps["name"], ps["count"]) for ps in found] == want
    assert all(ps["template"]["spec"]["containers"] for ps in found)


@pytest.mark.parametrize("case", JOBS)
def test_what_is_injected_is_taken_out_again(case: str) -> None:
    job, sets = JOBS[case]
    kind = kind_of(job)
    before = kind.pod_sets(Store(), job)
    infos = [
        PodSetInfo(name, count, node_selector={"pool": f"p{i}"}, tolerations=[{"key": "gpu"}])
        for i, (name, count) in enumerate(sets)
    ]
    assert kind.is_suspended(job)
    running = kind.with_infos(kind.with_suspend(job, False), infos)
    assert not kind.is_suspended(running)
    injected = [ps["template"]["spec"]["nodeSelector"] for ps in kind.pod_sets(Store(), running)]
    assert injected == [{"pool": f"p{i}"} for i in range(len(sets))]
    plain = [PodSetInfo(name, count) for name, count in sets]
    restored = kind.pod_sets(Store(), kind.restored(running, plain))
    assert [ps["template"]["spec"] for ps in restored] == [ps["template"]["spec"] for ps in before]
    with pytest.raises(BadPodSets, match=f"expecting {len(sets)} podset, got 1"):
        kind.with_infos(job, infos[:1]) if len(sets) > 1 else kind.with_infos(job, [])


def test_topology_requests_say_how_pods_are_numbered() -> None:
    gates = DEFAULT_GATES
    assert gates.topology_aware_scheduling, "on by default"
    workers = KINDS["JobSet.jobset.x-k8s.io"].pod_sets(Store(), jobset())[1]
    assert workers["topologyRequest"] == {
        "podIndexLabel": "batch.kubernetes.io/job-completion-index",
        "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
        "subGroupCount": 2,
    }
    torch = kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 2})
    annotation = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    torch["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": annotation}
    assert kind_of(torch).pod_sets(Store(), torch)[0]["topologyRequest"] == {
        "required": "rack",
        "podIndexLabel": "training.kubeflow.org/replica-index",
    }


def conditions(*types: str) -> list[dict[str, str]]:
    return [{"type": t, "status": "True", "message": f"is {t}"} for t in types]


JOBSET_STATUS = [
    {"name": "Driver", "ready": 1, "succeeded": 0, "active": 1},
    {"name": "workers", "ready": 1, "succeeded": 1, "active": 1},
]
STATES: dict[str, tuple[Obj, Finish | None, bool, bool]] = {
    "JobSet that has not begun": (jobset(), None, False, False),
    "JobSet at work": (jobset(replicatedJobsStatus=JOBSET_STATUS), None, True, True),
    "JobSet complete": (
        jobset(conditions=conditions("Completed")),
        Finish("is Completed", True),
        False,
        False,
    ),
    "JobSet failed": (jobset(conditions=conditions("Failed")), Finish("is Failed", False), False, False),
    "PyTorchJob at work": (
        kubeflow(
            "PyTorchJob",
            "pytorchReplicaSpecs",
            {"Worker": 2},
            conditions=conditions("Created", "Running"),
            replicaStatuses={"Worker": {"active": 1}},
        ),
        None,
        True,
        True,
    ),
    "TFJob failed": (
        kubeflow("TFJob", "tfReplicaSpecs", {"Worker": 1}, conditions=conditions("Created", "Failed")),
        Finish("is Failed", False),
        False,
        False,
    ),
    "MPIJob succeeded": (
        kubeflow("MPIJob", "mpiReplicaSpecs", {"Worker": 1}, conditions=conditions("Succeeded")),
        Finish("is Succeeded", True),
        False,
        False,
    ),
    "RayCluster ready": (
        an("RayCluster", "ray.io/v1", ray_cluster_spec(), state="ready"),
        None,
        True,
        True,
    ),
    "RayJob running": (
        ray_job(jobDeploymentStatus="Running", rayClusterStatus={"state": "ready"}),
        None,
        True,
        True,
    ),
    "RayJob complete": (
        ray_job(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED", message="done"),
        Finish("done", True),
        True,
        False,
    ),
    "RayJob suspended": (ray_job(jobDeploymentStatus="Suspended"), None, False, False),
}


@pytest.mark.parametrize("case", STATES)
def test_over_active_ready(case: str) -> None:
    job, finish, is_active, is_ready = STATES[case]
    kind = kind_of(job)
    assert kind.finished(Store(), job) == finish
    assert kind.is_active(Store(), job) is is_active
    assert kind.pods_ready(Store(), job) is is_ready


def test_pods_of_jobs_that_succeeded_are_reclaimable() -> None:
    job = jobset(replicatedJobsStatus=JOBSET_STATUS)
    assert kind_of(job).reclaimable(Store(), job) == [Reclaimable("workers", 3)]


def test_the_priority_class_of_the_scheduling_policy_comes_first() -> None:
    job = kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 1})
    assert kind_of(job).priority_class(Store(), job) == ""
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = "low"
    assert kind_of(job).priority_class(Store(), job) == "low"
    job["spec"]["runPolicy"]["schedulingPolicy"] = {"priorityClass": "high"}
    assert kind_of(job).priority_class(Store(), job) == "high"


def test_the_ray_autoscaler_counts_with_the_head() -> None:
    job = an("RayCluster", "ray.io/v1", ray_cluster_spec(enableInTreeAutoscaling=True))
    head = kind_of(job).pod_sets(Store(), job)[0]
    assert [c["name"] for c in head["template"]["spec"]["containers"]] == ["c", "autoscaler"]


def test_a_ray_job_that_its_operator_found_invalid_gives_its_quota_back() -> None:
    """Source: jobframework/reconciler.go, "handle job is on hold"."""
    store, owned = Store(now_us=NOW_US), OwnedWorkloads()
    store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    job = store.create(ray_job())
    kueue, key = Kueue(store, owned, KINDS, JobSettings()), key_of(job)
    seen = 0

    def look() -> None:
        nonlocal seen
        for action in reconcile_job(kueue, key, NOW_US).actions:
            if not isinstance(action, Emit):
                perform(store, action)
        for change in store.log.since(seen):
            if change.key.gk == WORKLOAD:
                owned.apply(change)
        seen = store.version

    look()
    (made,) = store.objects(WORKLOAD)
    quota = [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}]
    store.set_status(key_of(made), {"conditions": quota, "admission": {"clusterQueue": "cq"}})
    store.set_status(key, {"jobDeploymentStatus": "ValidationFailed"})
    look()
    (held_back,) = store.objects(WORKLOAD)
    (reserved,) = [c for c in held_back["status"]["conditions"] if c["type"] == "QuotaReserved"]
    assert (reserved["status"], reserved["reason"], reserved["message"]) == (
        "False",
        "OnHold",
        "Job is on hold",
    )
    assert "admission" not in held_back["status"]


# Pods and groups of pods, decided about step by step


class Place:
    """A store in which Kueue looks after pods; the test admits and ends."""

    def __init__(self) -> None:
        self.store = Store(now_us=NOW_US)
        self.owned = OwnedWorkloads()
        self.kueue = Kueue(self.store, self.owned, KINDS, JobSettings())
        self.events: list[Emit] = []
        self._seen = 0
        self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})

    def add(self, pod: Obj) -> None:
        self.store.create(held(apply_defaults(pod)))
        self.settle()

    def settle(self) -> None:
        for _ in range(30):
            changes = self.store.log.since(self._seen)
            self._seen = self.store.version
            for change in changes:
                if change.key.gk == WORKLOAD:
                    self.owned.apply(change)
            pods = [c.key for c in changes if c.key.gk == "Pod"]
            pods += [k for c in changes if c.key.gk == WORKLOAD for k in self._owners(c.obj)]
            if not pods:
                return
            for key in dict.fromkeys(pods):
                for action in reconcile_job(self.kueue, key, NOW_US).actions:
                    if isinstance(action, Emit):
                        self.events.append(action)
                    else:
                        perform(self.store, action)
                        self._follow()
        raise AssertionError("did not settle")

    def _follow(self) -> None:
        """Keep the index of owners fresh between two actions."""
        for change in self.store.log.since(self._seen):
            if change.key.gk == WORKLOAD:
                self.owned.apply(change)

    @staticmethod
    def _owners(workload: Obj) -> list[Key]:
        return [Key("Pod", "default", r["name"]) for r in workload["metadata"].get("ownerReferences") or ()]

    @property
    def workload(self) -> Obj:
        (found,) = self.store.objects(WORKLOAD)
        return found

    def admit(self) -> None:
        workload = self.workload
        assignments = [
            {"name": ps["name"], "count": ps["count"], "flavors": {}} for ps in workload["spec"]["podSets"]
        ]
        true = [{"type": t, "status": "True", "reason": t} for t in ("QuotaReserved", "Admitted")]
        kept = [c for c in (workload.get("status") or {}).get("conditions") or () if c["type"] != "Evicted"]
        kept = [c for c in kept if c["type"] not in ("QuotaReserved", "Admitted")]
        admission = {"clusterQueue": "cq", "podSetAssignments": assignments}
        self.store.set_status(key_of(workload), {"admission": admission, "conditions": [*kept, *true]})
        self.settle()

    def evict(self) -> None:
        workload = self.workload
        made = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "Preempted to serve"}
        conditions_ = [*workload["status"]["conditions"], made]
        self.store.set_status(key_of(workload), {**workload["status"], "conditions": conditions_})
        self.settle()

    def set_phase(self, name: str, phase: str) -> None:
        key = Key("Pod", "default", name)
        pod = self.store.require(key)
        self.store.set_status(key, {**pod["status"], "phase": phase})
        self.settle()

    def pods(self) -> dict[str, list[str]]:
        """Gates by pod."""
        return {
            p["metadata"]["name"]: [g["name"] for g in p["spec"].get("schedulingGates") or ()]
            for p in self.store.objects("Pod")
        }

    def told(self, reason: str) -> list[str]:
        return [e.message for e in self.events if e.reason == reason]

    def condition(self, type_: str) -> dict[str, Any]:
        found = self.workload["status"].get("conditions") or ()
        return next(c for c in found if c["type"] == type_)


def pod(name: str, group: str = "", count: int = 0, gpus: int = 1, **annotations: str) -> Obj:
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    if group:
        labels["kueue.x-k8s.io/pod-group-name"] = group
        annotations["kueue.x-k8s.io/pod-group-total-count"] = str(count)
    made = template(gpus, name=name, namespace="default", labels=labels, annotations=annotations)
    return {"apiVersion": "v1", "kind": "Pod", **made}


def test_a_pod_waits_behind_its_gate_until_admitted() -> None:
    place = Place()
    place.add(pod("p"))
    held_pod = place.store.require(Key("Pod", "default", "p"))
    assert place.pods() == {"p": ["kueue.x-k8s.io/admission"]}
    assert held_pod["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    assert held_pod["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
    assert place.workload["metadata"]["name"].startswith("pod-p-")
    place.admit()
    assert place.pods() == {"p": []}
    assert place.told("Started") == ["Admitted by clusterQueue cq"]
    place.set_phase("p", "Succeeded")
    assert place.condition("Finished")["reason"] == "Succeeded"
    assert "finalizers" not in place.store.require(Key("Pod", "default", "p"))["metadata"]


def test_an_evicted_pod_is_deleted_with_the_reason() -> None:
    place = Place()
    place.add(pod("p"))
    place.admit()
    place.set_phase("p", "Running")
    place.evict()
    found = place.store.get(Key("Pod", "default", "p"))
    if found is not None:
        target = next(c for c in found["status"]["conditions"] if c["type"] == "TerminationTarget")
        assert (target["reason"], target["message"]) == ("WorkloadEvicted", "Preempted to serve")
    assert place.told("Stopped") == ["Preempted to serve"]


def test_a_group_waits_until_it_is_whole_and_starts_as_a_whole() -> None:
    place = Place()
    place.add(pod("a", "g", 3))
    place.add(pod("b", "g", 3))
    assert place.store.objects(WORKLOAD) == []
    assert place.told("ErrWorkloadCompose")[0] == "'g' group has fewer runnable pods than expected"
    place.add(pod("c", "g", 3, gpus=8))
    workload = place.workload
    assert workload["metadata"]["name"] == "g"
    assert workload["metadata"]["annotations"]["kueue.x-k8s.io/is-group-workload"] == "true"
    assert [r["name"] for r in workload["metadata"]["ownerReferences"]] == ["a", "b", "c"]
    assert all("controller" not in r for r in workload["metadata"]["ownerReferences"])
    assert sorted(ps["count"] for ps in workload["spec"]["podSets"]) == [1, 2]
    assert all(gates for gates in place.pods().values())
    place.admit()
    assert place.pods() == {"a": [], "b": [], "c": []}


def test_fast_admission_does_not_wait_for_the_others() -> None:
    place = Place()
    fast = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}
    place.add(pod("a", "g", 3, **fast))
    (pod_set,) = place.workload["spec"]["podSets"]
    assert pod_set["count"] == 3
    place.admit()
    place.add(pod("b", "g", 3, **fast))
    assert place.pods() == {"a": [], "b": []}


def test_a_pod_too_many_goes() -> None:
    place = Place()
    for name in ("a", "b", "c"):
        place.add(pod(name, "g", 2))
    assert sorted(place.pods()) == ["a", "b"]
    assert place.told("ExcessPodDeleted") == ["Excess pod deleted"]


def test_a_failed_pod_of_a_group_is_replaced() -> None:
    place = Place()
    for name in ("a", "b"):
        place.add(pod(name, "g", 2))
    place.admit()
    place.set_phase("a", "Running")
    place.set_phase("b", "Failed")
    waiting = place.condition("WaitingForReplacementPods")
    assert (waiting["status"], waiting["reason"]) == ("True", "PodsFailed")
    assert waiting["message"] == "Some Failed pods need replacement"
    place.add(pod("c", "g", 2))
    assert place.pods()["c"] == [], "the quota is still there, so it starts at once"
    assert place.condition("WaitingForReplacementPods")["message"] == "No pods need replacement"
    assert "finalizers" not in place.store.require(Key("Pod", "default", "b"))["metadata"]
    assert "c" in [r["name"] for r in place.workload["metadata"]["ownerReferences"]]


def test_a_group_is_over_when_as_many_pods_as_it_has_succeeded() -> None:
    place = Place()
    for name in ("a", "b"):
        place.add(pod(name, "g", 2))
    place.admit()
    place.set_phase("a", "Succeeded")
    assert place.workload["status"]["reclaimablePods"] == [
        {"name": place.workload["spec"]["podSets"][0]["name"], "count": 1}
    ]
    place.set_phase("b", "Succeeded")
    assert place.condition("Finished")["message"] == "Pods succeeded: 2/2."
    assert all("finalizers" not in p["metadata"] for p in place.store.objects("Pod"))


def test_a_group_that_may_not_be_retried_is_over_when_nothing_runs() -> None:
    place = Place()
    for name in ("a", "b"):
        place.add(pod(name, "g", 2, **{"kueue.x-k8s.io/retriable-in-group": "false"}))
    place.admit()
    place.set_phase("a", "Succeeded")
    place.set_phase("b", "Failed")
    assert place.condition("Finished")["message"] == "Pods succeeded: 1/2."


def test_pods_of_one_role_have_one_hash() -> None:
    specs = [apply_defaults(pod(n, gpus=g))["spec"] for n, g in (("a", 1), ("b", 1), ("c", 2))]
    hashes = [role_hash(s) for s in specs]
    assert hashes[0] == hashes[1] != hashes[2]
    assert all(len(h) == 8 for h in hashes)


def test_the_role_hash_is_that_of_gos_json() -> None:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    # echo -n '{"spec":{"affinity":null,"containers":[{"ports":null,"resources":{"requests":{"cpu":"1"}}}],
    # "initContainers":null,"nodeSelector":null,"overhead":null,"priority":null,"resourceClaims":null,
    # "runtimeClassName":null,"tolerations":null,"topologySpreadConstraints":null}}' | sha256sum
    assert role_hash(spec) == "dc85db45"
