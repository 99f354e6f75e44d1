"""Asking only those whom a change can concern gives what asking everybody gives."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.workloads.concerned import affected
from fairway.workloads.registry import WATCHERS

OWNERS = {
    "nobody": None,
    "CronJob": ("batch/v1", "CronJob"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "MPIJob": ("kubeflow.org/v2beta1", "MPIJob"),
    "RayJob": ("ray.io/v1", "RayJob"),
}


def _job(owner: tuple[str, str] | None) -> Obj:
    meta: dict[str, Any] = {"name": "j", "namespace": "default"}
    if owner is not None:
        reference = {"apiVersion": owner[0], "kind": owner[1], "name": "o", "uid": "u", "controller": True}
        meta["ownerReferences"] = [reference]
    template = {"spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_a_job_concerns_its_own_controllers_and_its_owner(owner: tuple[str, str] | None) -> None:
    store, key = Store(), Key("Job.batch", "default", "j")
    store.create(_job(owner))
    store.patch(key, {"spec": {"suspend": True}})
    store.set_status(key, {"conditions": [{"type": "Complete", "status": "True"}]})
    if owner is not None:
        store.patch(key, {"metadata": {"ownerReferences": None}})
    store.delete(key)
    names = set()
    for change in store.log.since(0):
        asked = {(c.name, k) for c in WATCHERS["Job.batch"] for k in c.map_change(store, change)}
        found = {(c.name, k) for c, k in affected(store, change)}
        assert found == asked
        names |= {name for name, _ in found}
    assert "job" in names
    assert len([n for n in names if n in ("cronjob", "jobset", "mpi-operator", "rayjob")]) == (
        owner is not None
    )
