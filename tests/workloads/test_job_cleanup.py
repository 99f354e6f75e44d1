"""Pods that no Job counts any more, and Jobs whose time is up: who looks at which, when, and what is done."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import START_US

from fairway.cluster.actions import Delete, Patch
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.workloads.job import cleanup
from fairway.workloads.job.podspec import TRACKING_FINALIZER

POD, JOB = Key("Pod", "default", "p"), Key("Job.batch", "default", "j")
DONE = {"type": "Complete", "status": "True", "lastTransitionTime": rfc3339(START_US)}


def a_job(*conditions: Obj, **spec: Any) -> Obj:
    meta = {"name": "j", "namespace": "default", "uid": "job-uid"}
    status = {"conditions": list(conditions)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": status}


def made(store: Store, obj: Obj) -> Obj:
    store.create(obj)
    store.set_status(JOB, obj["status"])
    return store.require(JOB)


def a_pod(uid: str | None, *, of: str = "batch/v1", kind: str = "Job", tracked: bool = True) -> Obj:
    meta: Obj = {"name": "p", "namespace": "default"}
    if tracked:
        meta["finalizers"] = ["other/one", TRACKING_FINALIZER]
    if uid is not None:
        meta["ownerReferences"] = [
            {"apiVersion": of, "kind": kind, "name": "j", "uid": uid, "controller": True}
        ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}, "status": {}}


@pytest.mark.parametrize(
    ("job", "pod", "is_released"),
    [
        (None, {"uid": None}, True),
        (None, {"uid": None, "tracked": False}, False),
        (None, {"uid": "gone"}, True),
        (None, {"uid": "gone", "kind": "JobSet"}, False),
        (None, {"uid": "gone", "of": "batch/v2"}, False),
        (a_job(), {"uid": "job"}, False),
        (a_job(DONE), {"uid": "job"}, True),
        (a_job({**DONE, "status": "False"}), {"uid": "job"}, False),
        (a_job(DONE, managedBy="kubernetes.io/job-controller"), {"uid": "job"}, True),
        (a_job(DONE, managedBy="kueue.x-k8s.io/multikueue"), {"uid": "job"}, False),
    ],
)
def test_whose_pods_are_let_go(job: Obj | None, pod: dict[str, Any], is_released: bool) -> None:
    store = Store(seed=1, now_us=START_US)
    if job is not None:
        pod = {**pod, "uid": made(store, job)["metadata"]["uid"]}
    there = store.create(a_pod(**pod))
    found = cleanup.release(store, POD, START_US)
    assert found.again_at_us is None
    if is_released:
        (lifted,) = found.actions
        assert isinstance(lifted, Patch) and lifted.key == POD
        store.patch(POD, lifted.patch)
        assert store.require(POD)["metadata"]["finalizers"] == ["other/one"]
    else:
        assert not found.actions
    # The same is asked where a pod changes: only one that goes, or has no owner, needs a look.
    going = {**there, "metadata": {**there["metadata"], "deletionTimestamp": rfc3339(START_US)}}
    for obj, is_seen in ((there, pod["uid"] is None), (going, True)):
        for type_ in (ADDED, MODIFIED):
            looks = list(cleanup.release_map(store, Change(1, type_, POD, obj, None)))
            assert looks == ([POD] if is_released and is_seen else [])
        assert not cleanup.release_map(store, Change(1, DELETED, POD, obj, obj))


def test_the_pods_of_a_job_that_is_gone_are_looked_at() -> None:
    store = Store(seed=1, now_us=START_US)
    job = made(store, a_job())
    store.create(a_pod(job["metadata"]["uid"]))
    refs = a_pod(job["metadata"]["uid"])["metadata"]["ownerReferences"]
    meta = {"name": "c", "namespace": "default", "ownerReferences": refs}
    store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    for type_, want in ((ADDED, []), (MODIFIED, []), (DELETED, [POD])):
        assert list(cleanup.release_map(store, Change(1, type_, JOB, job, None))) == want


@pytest.mark.parametrize(
    ("job", "after_s"),
    [
        (a_job(DONE), None),
        (a_job(ttlSecondsAfterFinished=9), None),
        (a_job({**DONE, "type": "Suspended"}, ttlSecondsAfterFinished=9), None),
        (a_job({**DONE, "status": "False"}, ttlSecondsAfterFinished=9), None),
        (a_job(DONE, ttlSecondsAfterFinished=0), 0),
        (a_job(DONE, ttlSecondsAfterFinished=9), 9),
        (
            a_job(
                {**DONE, "type": "SuccessCriteriaMet"}, {**DONE, "type": "Failed"}, ttlSecondsAfterFinished=9
            ),
            9,
        ),
    ],
)
def test_a_finished_job_goes_when_its_time_is_up(job: Obj, after_s: int | None) -> None:
    store = Store(seed=1, now_us=START_US)
    there = made(store, job)
    looks = bool(cleanup.expire_map(store, Change(1, MODIFIED, JOB, there, there)))
    assert looks is (after_s is not None)
    assert not cleanup.expire_map(store, Change(1, DELETED, JOB, there, there))
    going = {**there, "metadata": {**there["metadata"], "deletionTimestamp": rfc3339(START_US)}}
    assert not cleanup.expire_map(store, Change(1, MODIFIED, JOB, going, there))
    if after_s is None:
        found = cleanup.expire(store, JOB, START_US + 10**9)
        assert (found.actions, found.again_at_us) == ((), None)
        return
    at_us = START_US + after_s * SECOND_US
    early = cleanup.expire(store, JOB, at_us - 1)
    assert (early.actions, early.again_at_us) == ((), at_us)
    found = cleanup.expire(store, JOB, at_us)
    assert found.actions == (Delete(JOB, there["metadata"]["uid"], propagation="Foreground"),)
    assert found.again_at_us is None
