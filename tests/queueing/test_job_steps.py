"""What Kueue does next about one job and its Workloads: a table of states, each with all that is written and told.

Source: pkg/controller/jobframework/reconciler.go ReconcileGenericJob, as its steps say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stepwords import NOW_US, ago, said, was

from fairway.cluster.actions import SetStatus
from fairway.cluster.store import Store
from fairway.kube.objects import Obj, key_of, owner_reference
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.facts.gates import DEFAULT_GATES
from fairway.queueing.integrations.names import workload_name
from fairway.queueing.integrations.ownership import OwnedWorkloads
from fairway.queueing.integrations.reconcile import Kueue, reconcile_job
from fairway.queueing.integrations.registry import integrations
from fairway.queueing.integrations.settings import JobSettings

KINDS = integrations()
QUEUE = {"kueue.x-k8s.io/queue-name": "lq"}
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "w"}
CLASS = "kueue.x-k8s.io/priority-class"
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
HELD = {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}
GOING = {"deletionTimestamp": ago(5)}
QUIET = JobSettings(reports_pods_ready=False)
SLICED = replace(QUIET, gates=replace(DEFAULT_GATES, elastic_jobs_via_workload_slices=True))


def job(*, on: bool = False, count: int = 2, meta: Obj | None = None, labels: Obj | None = None,
        annotations: Obj | None = None, selector: Obj | None = None, **status: Any) -> Obj:  # fmt: skip
    """`on`: not suspended."""
    pod: Obj = {
        "containers": [{"name": "c", "image": "i"}],
        **({"nodeSelector": selector} if selector else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "job",
            "namespace": "default",
            "uid": "j",
            "labels": {**QUEUE, **(labels or {})},
            "annotations": annotations or {},
            **(meta or {}),
        },
        "spec": {
            "suspend": not on,
            "parallelism": count,
            "completions": count,
            "template": {"metadata": {}, "spec": pod},
        },
        "status": status,
    }


def made(*conditions: Obj, name: str = "w", count: int = 2, owner: Obj | None = None, meta: Obj | None = None,
         spec: Obj | None = None, **status: Any) -> Obj:  # fmt: skip
    """A Workload of the job, for so many pods. `owner` {}: of nobody."""
    pod = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {}, "spec": pod}
    owners = [owner_reference(job())] if owner is None else [owner] if owner else []
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "ownerReferences": owners,
            **(meta or {}),
        },
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": count, "template": template}],
            "active": True,
            **(spec or {}),
        },
        "status": {"conditions": list(conditions), **status},
    }


ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "spot"}}],
}
RESERVED = was("QuotaReserved")
ADMITTED = (RESERVED, was("Admitted"))
FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "spot"},
    "spec": {"nodeLabels": {"pool": "spot"}},
}
RECLAIMED = [{"name": "main", "count": 1}]
COMPLETE = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "message": "no"}]}
DEACTIVATED = was("Evicted", reason="DeactivatedDueToAdmissionCheck", since_s=100)
OTHER = {"apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "o", "controller": True}
OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "mpi", "uid": "m", "controller": True}


def mpi(labels: Obj = QUEUE, uid: str = "m", annotations: Obj | None = None) -> Obj:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {
            "name": "mpi",
            "namespace": "default",
            "uid": uid,
            "labels": labels,
            "annotations": annotations or {},
        },
        "spec": {"mpiReplicaSpecs": {}},
    }


def of_mpi(*conditions: Obj, name: str = "w") -> Obj:
    return made(*conditions, name=name, owner=owner_reference(mpi()))


def runs(*more: Obj, **status: Any) -> list[Obj]:
    """An admitted Workload of the job, and its flavor."""
    return [made(*ADMITTED, *more, admission=ADMISSION, **status), FLAVOR]


def priority_class(kind: str, api_version: str, name: str, value: int, **more: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "value": value, **more}


HIGH = priority_class("WorkloadPriorityClass", "kueue.x-k8s.io/v1beta2", "high", 9)
POD_HIGH = priority_class("PriorityClass", "scheduling.k8s.io/v1", "pod-high", 7)
REF = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_REF = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "pod-high"}
CHILD = {"ownerReferences": [OWNER]}


def kept(seconds: int) -> JobSettings:
    return replace(QUIET, retained_us=seconds * SECOND_US)


def served(replicas: int = 2, labels: Obj | None = QUEUE, **meta: Any) -> Obj:
    """A StatefulSet: its pods are one group."""
    named = {"name": "job", "namespace": "default", "uid": "j", "labels": labels or {}, **meta}
    pods = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": named,
        "spec": {"replicas": replicas, "template": pods},
    }


def group(*conditions: Obj, owner: Obj | None = None, **more: Any) -> Obj:
    name = workload_name("job", "j", "StatefulSet.apps")
    mine = owner_reference(served(), controller=False, block_deletion=False)
    return made(*conditions, name=name, owner=mine if owner is None else owner, **more)


def member(name: str, of: str = "", queue: str = "lq", **annotations: str) -> Obj:
    labels = {"kueue.x-k8s.io/queue-name": queue, **({"kueue.x-k8s.io/pod-group-name": of} if of else {})}
    notes = {"kueue.x-k8s.io/pod-suspending-parent": "statefulset", **annotations}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [owner_reference(served())],
        },
        "spec": {"containers": [{"name": "c"}], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
        "status": {"phase": "Pending"},
    }


def below(kind: str, version: str, name: str) -> Obj:
    """Metadata of one that such an owner controls."""
    return {
        "ownerReferences": [
            {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
        ]
    }


def between(kind: str, version: str, name: str, owner: Obj) -> Obj:
    meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner]}
    return {"apiVersion": version, "kind": kind, "metadata": meta}


ONE = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {}}]}


def alone(name: str, *, of: str = "", role: str = "r", phase: str = "Pending", gated: bool = False,
          meta: Obj | None = None, annotations: Obj | None = None) -> Obj:  # fmt: skip
    """A pod that Kueue manages, of group `of` or of none."""
    labels = {**QUEUE, "kueue.x-k8s.io/managed": "true"}
    notes = {"kueue.x-k8s.io/role-hash": role, **(annotations or {})}
    if of:
        labels["kueue.x-k8s.io/pod-group-name"] = of
        notes["kueue.x-k8s.io/pod-group-total-count"] = "2"
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]} if gated else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": labels,
            "annotations": notes,
            "finalizers": ["kueue.x-k8s.io/managed"],
            **(meta or {}),
        },
        "spec": {"containers": [{"name": "c", "image": "i"}], **gates},
        "status": {"phase": phase},
    }


def of_pods(*names: str, conditions: Sequence[Obj] = ()) -> Obj:
    """The Workload of a group of two of role r, that these pods own."""
    owners = [owner_reference(alone(n), controller=False, block_deletion=False) for n in names]
    placed = [{"name": "r", "count": 2, "flavors": {}}]
    admission = {"admission": {"clusterQueue": "cq", "podSetAssignments": placed}} if conditions else {}
    of = made(*conditions, name="g", **admission)
    of["metadata"] |= {"ownerReferences": owners, "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}
    of["spec"]["podSets"] = [{"name": "r", "count": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}]
    return of


def ray(spec: Obj, state: str = "") -> Obj:
    cluster = {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": []}}}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "ray", "namespace": "default", "uid": "ray", "labels": QUEUE},
        "spec": {"suspend": True, **cluster, "submissionMode": "HTTPMode", **spec},
        "status": {"jobDeploymentStatus": state},
    }


def of_ray(*conditions: Obj, **status: Any) -> Obj:
    of = made(*conditions, owner=owner_reference(ray({})), **status)
    of["spec"]["podSets"] = [{"name": "head", "count": 1, "template": {"spec": {"containers": []}}}]
    return of


def with_class(name: str) -> Obj:
    of = job()
    of["spec"]["template"]["spec"]["priorityClassName"] = name
    return of


def with_class_of_pods(name: str, **spec: Any) -> Obj:
    of = made(spec=spec)
    of["spec"]["podSets"][0]["template"]["spec"]["priorityClassName"] = name
    return of


def sets(*done: str) -> Obj:
    """A JobSet of two, of which one of each of those has succeeded."""
    template = {"spec": {"template": {"spec": {"containers": []}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "default", "uid": "js", "labels": QUEUE},
        "spec": {"replicatedJobs": [{"name": n, "replicas": 2, "template": template} for n in "ab"]},
        "status": {"replicatedJobsStatus": [{"name": n, "succeeded": 1} for n in done]},
    }


def backwards(job_set: Obj) -> Obj:
    spec = job_set["spec"]
    return {**job_set, "spec": {**spec, "replicatedJobs": spec["replicatedJobs"][::-1]}}


def of_sets(*names: str, **status: Any) -> Obj:
    placed = [{"name": n, "count": 2, "flavors": {}} for n in names]
    admission = {"clusterQueue": "cq", "podSetAssignments": placed}
    of = made(*ADMITTED, owner=owner_reference(sets()), admission=admission, **status)
    of["spec"]["podSets"] = [{"name": n, "count": 2, "template": {"spec": {"containers": []}}} for n in names]
    return of


def unnamed() -> Obj:
    of = made(*ADMITTED, admission=ADMISSION)
    del of["spec"]["podSets"][0]["name"]
    return of


def pod_of_job(name: str, *, gated: bool = True) -> Obj:
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}]} if gated else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "ownerReferences": [owner_reference(job())],
        },
        "spec": {"containers": [{"name": "c"}], **gates},
        "status": {"phase": "Pending"},
    }


ON_HOLD = was("QuotaReserved", "False", "OnHold")
GROUP = workload_name("job", "j", "StatefulSet.apps")
Case = tuple[Obj, Sequence[Obj]] | tuple[Obj, Sequence[Obj], JobSettings]
CASES: dict[str, Case] = {
    # 1. Is it ours?
    "of no queue": (job(meta={"labels": {}}), []),
    "of no queue, where all are managed": (
        job(meta={"labels": {}}),
        [],
        JobSettings(manages_without_queue_name=True),
    ),
    "in a namespace that is left alone": (job(meta={"namespace": "kube-system"}), []),
    "gone": (job(meta=GOING, on=True), [made(meta=HELD)]),
    "gone, its Workload over": (job(meta=GOING, on=True), [made(was("Finished"), meta=HELD)]),
    "gone, its Workload going": (job(meta=GOING, on=True), [made(meta={**HELD, **GOING})]),
    "a child that waits": (job(meta=CHILD), [mpi(), of_mpi()]),
    "a child that runs too early": (job(on=True, meta=CHILD), [mpi(), of_mpi()]),
    "a child that runs, its parent admitted": (job(on=True, meta=CHILD), [mpi(), of_mpi(*ADMITTED)]),
    "a child that runs, its parent's Workload over": (
        job(on=True, meta=CHILD),
        [mpi(), of_mpi(was("Finished"), *ADMITTED)],
    ),
    "a child that is over": (job(on=True, meta=CHILD, **COMPLETE), [mpi(), of_mpi()]),
    "an elastic child goes on until its parent is evicted": (
        job(on=True, meta=CHILD, annotations=ELASTIC),
        [mpi(), of_mpi()],
    ),
    "an elastic parent's child": (job(on=True, meta=CHILD), [mpi(annotations=ELASTIC), of_mpi()]),
    "an elastic child, its parent evicted": (
        job(on=True, meta=CHILD, annotations=ELASTIC),
        [mpi(), of_mpi(was("Evicted"), *ADMITTED)],
    ),
    "a child of one that Kueue does not manage": (job(meta=CHILD), [mpi(labels={})]),
    "a child of one that is another now": (job(meta=CHILD), [mpi(uid="n")]),
    # 2. Which Workload is its own?
    "new": (job(), []),
    "new, running": (job(on=True), []),
    "new, over": (job(**COMPLETE), []),
    "new, its pods still run": (job(active=1), []),
    "its own": (job(), [made()]),
    "another's": (job(), [made(owner=OTHER)]),
    "two, one matches": (job(), [made(name="a", count=3, meta=HELD), made(name="b")]),
    "two, both match": (job(), [made(name="a"), made(name="b", meta=GOING)]),
    "none matches, it waits": (job(), [made(count=3)]),
    "none matches, it waits, deactivated": (job(), [made(count=3, spec={"active": False})]),
    "none matches, quota is held": (job(), [made(RESERVED, count=3, admission=ADMISSION)]),
    "none matches, it runs": (job(on=True), [made(*ADMITTED, count=3, admission=ADMISSION), FLAVOR]),
    "two, none matches": (job(), [made(name="a", count=3), made(name="b", count=4)]),
    "two, none matches, it runs": (job(on=True), [made(name="a", count=3), made(name="b", count=4)]),
    "another time to run": (job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "9"}), [made()]),
    # The gate and the priority
    "gated since": (job(annotations={GATED_BY: "team"}), [made()]),
    "no longer gated": (job(), [made(meta={"annotations": {GATED_BY: "team"}})]),
    "gated all along": (
        job(annotations={GATED_BY: "team"}),
        [made(meta={"annotations": {GATED_BY: "team"}})],
    ),
    "gated, gate off": (
        job(annotations={GATED_BY: "team"}),
        [made()],
        replace(QUIET, gates=replace(DEFAULT_GATES, admission_gated_by=False)),
    ),
    "a class since": (job(labels={CLASS: "high"}), [made(), HIGH]),
    "a class since, quota is held": (
        job(labels={CLASS: "high"}),
        [made(RESERVED, admission=ADMISSION), HIGH, FLAVOR],
    ),
    "another class since": (
        job(labels={CLASS: "high"}),
        [made(spec={"priorityClassRef": {**REF, "name": "low"}}), HIGH],
    ),
    "a class that is missing": (job(labels={CLASS: "high"}), [made()]),
    "a class of pods is followed by no label": (
        job(labels={CLASS: "high"}),
        [made(spec={"priorityClassRef": POD_REF}), HIGH],
    ),
    "no class any more": (job(), [made(spec={"priorityClassRef": REF, "priority": 9}), HIGH]),
    "new, of a class that is missing": (job(labels={CLASS: "high"}), []),
    # Made by somebody else
    "prebuilt, not there": (job(annotations=PREBUILT), []),
    "prebuilt, not there, and running": (job(on=True, annotations=PREBUILT, active=1), []),
    "prebuilt, by label, nobody's": (job(labels=PREBUILT), [made(owner={}, meta={"labels": {"a": "b"}})]),
    "prebuilt, another's": (job(annotations=PREBUILT), [made(owner=OTHER)]),
    "prebuilt, its own": (job(annotations=PREBUILT), [made()]),
    "prebuilt, out of step": (job(annotations=PREBUILT), [made(count=3)]),
    "prebuilt, out of step, over": (job(annotations=PREBUILT), [made(was("Finished"), count=3)]),
    # 3. Is it over, or going?
    "its Workload is over": (job(), [made(was("Finished"), meta=HELD)]),
    "its Workload is over and let go": (job(), [made(was("Finished"))]),
    "its Workload goes": (
        job(on=True),
        [made(*ADMITTED, admission=ADMISSION, meta={**HELD, **GOING}), FLAVOR],
    ),
    "its Workload goes, it waits": (job(), [made(meta={**HELD, **GOING})]),
    # 4. Is the job over?
    "complete": (job(on=True, **COMPLETE), runs()),
    "failed": (job(on=True, **FAILED), runs()),
    # 6. and 7. Its pods
    "a pod is done for good": (job(on=True, succeeded=1), runs()),
    "a pod is done for good, gate off": (
        job(on=True, succeeded=1),
        runs(was("PodsReady", "False", "WaitForStart", message="Not all pods are ready or succeeded")),
        replace(QUIET, gates=replace(DEFAULT_GATES, reclaimable_pods=False)),
    ),
    "a pod is done, as told": (
        job(on=True, succeeded=1),
        runs(was("PodsReady", "True", "Started"), reclaimablePods=RECLAIMED),
    ),
    "none is done any more": (job(on=True), runs(reclaimablePods=RECLAIMED)),
    "its pods are ready": (job(on=True, ready=2), runs(), JobSettings()),
    "its pods are not ready": (job(on=True, ready=1), runs(), JobSettings()),
    "its pods were ready, and it is not admitted": (
        job(ready=2),
        [made(was("PodsReady", "True", "Started"))],
        JobSettings(),
    ),
    "its pods are ready, which nobody asks": (job(on=True, ready=2), runs()),
    # 8. Was it evicted?
    "evicted, it runs": (job(on=True, active=2), runs(was("Evicted", reason="Preempted"))),
    "evicted, its pods still run": (job(active=2), runs(was("Evicted", reason="Preempted"))),
    "evicted, its pods are gone": (job(), runs(was("Evicted", reason="Preempted"))),
    "evicted for its nodes, its pods are gone": (job(), runs(was("Evicted", reason="NodeFailures"))),
    "evicted for a check, its pods are gone": (job(), runs(was("Evicted", reason="AdmissionCheck"))),
    "deactivated, kept for ever": (job(), [made(DEACTIVATED, spec={"active": False})]),
    "deactivated, kept a while longer": (job(), [made(DEACTIVATED, spec={"active": False})], kept(101)),
    "deactivated, kept long enough": (job(), [made(DEACTIVATED, spec={"active": False})], kept(100)),
    "active again, kept": (job(), [made(DEACTIVATED)], kept(100)),
    "deactivated by its user": (
        job(),
        [made(was("Evicted", reason="Deactivated"), spec={"active": False})],
        kept(100),
    ),
    # 9. Suspended: may it start?
    "admitted": (job(), runs()),
    "admitted, its flavor is missing": (job(), [made(*ADMITTED, admission=ADMISSION)]),
    "admitted, and can never start": (job(selector={"pool": "own"}), runs()),
    "waits for checks": (
        job(),
        [
            made(
                RESERVED,
                admission=ADMISSION,
                admissionChecks=[
                    {"name": "a", "state": "Pending", "message": "soon"},
                    {"name": "b", "state": "Ready", "message": "ok"},
                    {"name": "c", "state": "Pending", "message": ""},
                    {"name": "d", "state": "Pending", "message": "later"},
                ],
            ),
            FLAVOR,
        ],
    ),
    "checks speak of quota alone": (
        job(),
        [made(admissionChecks=[{"name": "a", "state": "Pending", "message": "soon"}])],
    ),
    "another queue": (job(labels={"kueue.x-k8s.io/queue-name": "lq2"}), [made()]),
    # 10. Running: may it?
    "runs as it may": (job(on=True), runs(was("PodsReady", "False", "WaitForStart"))),
    "runs as it may not": (job(on=True, startTime=ago(9)), [made()]),
    # Slices
    "elastic, new": (job(on=True, annotations=ELASTIC, active=1), [], SLICED),
    "elastic, smaller": (job(on=True, count=1, annotations=ELASTIC), runs(), SLICED),
    "elastic, larger": (job(on=True, count=3, annotations=ELASTIC), runs(), SLICED),
    # What serves
    "serving, new": (served(), []),
    "serving, nothing yet": (served(0), []),
    "serving, of no queue": (served(labels=None), []),
    "serving, of no queue, where all are managed": (
        served(labels=None, annotations={"a": "b"}),
        [member("p")],
        replace(QUIET, manages_without_queue_name=True),
    ),
    "serving, as it is": (served(), [group()]),
    "serving, its Workload of nobody": (served(), [group(owner={}, meta={"annotations": {"a": "b"}})]),
    "scaled to zero, its Workload of nobody": (served(0), [group(owner={})]),
    "serving, another queue": (served(labels={"kueue.x-k8s.io/queue-name": "lq2"}), [group()]),
    "scaled to zero, another queue": (served(0, labels={"kueue.x-k8s.io/queue-name": "lq2"}), [group()]),
    "serving, gated": (served(annotations={GATED_BY: "team"}), [group()]),
    "serving, no longer gated": (served(), [group(meta={"annotations": {GATED_BY: "team", "a": "b"}})]),
    "scaled to zero with quota": (served(0), [group(*ADMITTED, admission=ADMISSION)]),
    "scaled to zero without": (served(0), [group()]),
    "scaled to zero, deactivated": (
        served(0),
        [group(*ADMITTED, admission=ADMISSION, spec={"active": False})],
    ),
    "scaled to zero, over": (served(0), [group(*ADMITTED, was("Finished"), admission=ADMISSION)]),
    "scaled up from nothing": (served(), [group(ON_HOLD)]),
    "still at nothing": (served(0), [group(ON_HOLD)]),
    "a pod of a set": (served(labels={**QUEUE, CLASS: "high"}), [group(), member("p"), HIGH]),
    "a pod of another parent": (
        served(),
        [group(), member("p", **{"kueue.x-k8s.io/pod-suspending-parent": "deployment"})],
    ),
    "a member": (served(), [group(), member("p", GROUP)]),
    "a member of another queue": (served(), [group(), member("p", GROUP, queue="old")]),
    "elastic, larger, still waiting": (job(count=3, annotations=ELASTIC), [made()], SLICED),
    # Of one replica
    "serving one, its Workload of nobody, held": (served(1), [group(ON_HOLD, owner={}, count=1)]),
    "serving one, another queue": (
        served(1, labels={"kueue.x-k8s.io/queue-name": "lq2"}),
        [group(count=1)],
    ),
    "serving one, new": (served(1), []),
    "what looks like a pod of a set, and is none": (
        served(),
        [group(), {**member("p"), "apiVersion": "apps/v1", "kind": "ControllerRevision"}],
    ),
    # Owners between it and Kueue's
    "a child two owners below": (
        job(on=True, meta=below("ReplicaSet", "apps/v1", "rs")),
        [between("ReplicaSet", "apps/v1", "rs", owner_reference(mpi())), mpi(), of_mpi()],
    ),
    "a child below what nobody knows": (
        job(on=True, meta=below("Foo", "example.com/v1", "foo")),
        [between("Foo", "example.com/v1", "foo", owner_reference(mpi())), mpi(), of_mpi()],
    ),
    "a child of a child, whose parent is gone": (
        job(on=True, meta=CHILD),
        [
            {**mpi(), "metadata": {**mpi()["metadata"], **below("JobSet", "jobset.x-k8s.io/v1alpha2", "js")}},
            of_mpi(),
        ],
    ),
    "a child of a child, whose parent is unknown": (
        job(on=True, meta=CHILD),
        [{**mpi(), "metadata": {**mpi()["metadata"], **below("Foo", "example.com/v1", "foo")}}, of_mpi()],
    ),
    "a pod below a job is nobody's child": (
        alone("p", meta={"ownerReferences": [owner_reference(mpi())]}),
        [mpi()],
    ),
    # Pods
    "a pod that goes": (alone("p", meta={**GOING, "finalizers": ["kueue.x-k8s.io/managed", "x"]}), []),
    "a pod of its own, evicted": (
        alone("p", phase="Running"),
        [
            made(
                *ADMITTED,
                was("Evicted", reason="Preempted"),
                owner=owner_reference(alone("p")),
                count=1,
                admission=ONE,
            )
        ],
    ),
    "a pod of its own, evicted, gate off": (
        alone("p", phase="Running"),
        [
            made(
                *ADMITTED,
                was("Evicted", reason="Preempted"),
                owner=owner_reference(alone("p")),
                count=1,
                admission=ONE,
            )
        ],
        replace(QUIET, gates=replace(DEFAULT_GATES, skip_reassignment_for_pod_owned_workloads=False)),
    ),
    "a group, beside it a pod of another role": (
        alone("a", of="g"),
        [alone("b", of="g"), alone("c", of="g", role="s"), of_pods("a", "b")],
    ),
    "a group admitted": (
        alone("a", of="g", gated=True),
        [alone("b", of="g", gated=True), of_pods("a", "b", conditions=ADMITTED)],
    ),
    "a group, prebuilt": (
        alone("a", of="g", annotations=PREBUILT),
        [
            alone("b", of="g", annotations=PREBUILT),
            {**of_pods("b"), "metadata": {**of_pods("b")["metadata"], "name": "w"}},
        ],
    ),
    # The rest
    "a RayJob of somebody else's cluster": (ray({"clusterSelector": {"a": "b"}}), []),
    "a RayJob that its operator found invalid, without quota": (ray({}, "ValidationFailed"), [of_ray()]),
    "a RayJob that its operator found invalid": (
        ray({}, "ValidationFailed"),
        [of_ray(RESERVED, admission=ADMISSION)],
    ),
    "new, over and running": (job(on=True, **COMPLETE), []),
    "prebuilt, somebody's who does not control it": (
        job(annotations=PREBUILT),
        [made(owner={"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"})],
    ),
    "a class of pods that is missing": (with_class("gone"), []),
    "a class of pods": (with_class("pod-high"), [POD_HIGH]),
    "no class but its pods' any more": (
        with_class("pod-high"),
        [with_class_of_pods("pod-high", priorityClassRef=REF, priority=9), HIGH, POD_HIGH],
    ),
    "a pod is done for good, of an unnamed pod set": (job(on=True, succeeded=1), [unnamed(), FLAVOR]),
    "pods are done in another order": (
        sets("a", "b"),
        [of_sets("a", "b", reclaimablePods=[{"name": "b", "count": 1}, {"name": "a", "count": 1}])],
    ),
    "pods are done, of another set": (
        sets("a"),
        [of_sets("a", "b", reclaimablePods=[{"name": "b", "count": 1}])],
    ),
    "evicted, its pods are gone, unobserved": (
        job(),
        runs(was("Evicted", reason="Preempted")),
        replace(QUIET, gates=replace(DEFAULT_GATES, unadmitted_workloads_observability=False)),
    ),
    "elastic, running, its pods wait": (
        job(on=True, count=1, annotations=ELASTIC),
        [
            made(
                *ADMITTED,
                count=1,
                admission={**ADMISSION, "podSetAssignments": [{"name": "main", "count": 1}]},
            ),
            pod_of_job("p"),
            pod_of_job("q"),
            {**pod_of_job("r"), "kind": "Service"},
        ],
        SLICED,
    ),
    "elastic, running, its pods run": (
        job(on=True, count=1, annotations=ELASTIC),
        [made(*ADMITTED, count=1, admission=ADMISSION), pod_of_job("p", gated=False)],
        SLICED,
    ),
    "elastic, running, one of its pods waits": (
        job(on=True, annotations=ELASTIC),
        [made(*ADMITTED, admission=ADMISSION), pod_of_job("p", gated=False), pod_of_job("q")],
        SLICED,
    ),
    "pods are done, of sets in another order": (
        backwards(sets("a", "b")),
        [of_sets("b", "a", reclaimablePods=[{"name": "a", "count": 1}, {"name": "b", "count": 1}])],
    ),
}
WANT: dict[str, list[str]] = yaml.safe_load(
    (Path(__file__).parent / "job_steps.yaml").read_text(encoding="utf-8")
)


def look(it: Obj, others: Sequence[Obj], settings: JobSettings | None = None) -> list[str]:
    settings = settings or QUIET
    store, owned = Store(now_us=NOW_US), OwnedWorkloads()
    for name in ("default", "kube-system"):
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    objects = [store.load(obj) for obj in (*others, it)]
    for change in store.log.since(0):
        if change.key.gk == "Workload.kueue.x-k8s.io":
            owned.apply(change)
    kinds = integrations(gates=settings.gates)
    decided = reconcile_job(Kueue(store, owned, kinds, settings), key_of(it), NOW_US)
    told = said(objects, decided.actions, decided.again_at_us)
    return [*told, *(["blocked"] if decided.is_blocked else []), *(["settled"] if decided.settles else [])]


@pytest.mark.parametrize("case", CASES)
def test_what_is_done_next(case: str) -> None:
    assert look(*CASES[case]) == WANT[case]


def _observed(case: Case, generation: int | None) -> set[int | None]:
    """The generations that conditions of Workloads tell, of those that are written anew."""
    it, others, *settings = case
    if generation is not None:
        others = [{**o, "metadata": {**o["metadata"], "generation": generation}} for o in others]
    (chosen,) = settings or (QUIET,)
    store, owned = Store(now_us=NOW_US), OwnedWorkloads()
    store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    before = [c for o in others for c in (o.get("status") or {}).get("conditions") or ()]
    for obj in (*others, it):
        store.load(obj)
    for change in store.log.since(0):
        if change.key.gk == "Workload.kueue.x-k8s.io":
            owned.apply(change)
    decided = reconcile_job(Kueue(store, owned, integrations(gates=chosen.gates), chosen), key_of(it), NOW_US)
    written = [
        a.status for a in decided.actions if isinstance(a, SetStatus) and a.key.gk.startswith("Workload.")
    ]
    new = [c for status in written for c in status.get("conditions") or () if c not in before]
    return {c.get("observedGeneration") for c in new}


def test_conditions_tell_of_which_generation_they_are() -> None:
    told = [case for case in CASES if _observed(CASES[case], None)]
    assert len(told) > 10
    for case in told:
        assert _observed(CASES[case], None) == {None}, case
        assert _observed(CASES[case], 3) == {3}, case


def test_every_state_is_told_what_comes_of_it() -> None:
    assert list(CASES) == list(WANT)
