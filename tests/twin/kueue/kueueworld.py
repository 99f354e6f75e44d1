"""A cluster with Kueue in few words: queues, jobs, time, and what came of them.

    world = World()
    world.apply(queue("a", 4, cohort="all"), local_queue("a"), node("n1", 8))
    world.apply(job("train", "a", gpus=2)).run(5)
    world.condition("train", "QuotaReserved") == ("True", "QuotaReserved")

A job of queue `a` lives in namespace `a`; the resource is `nvidia.com/gpu` in flavor `default`.
"""

from __future__ import annotations

from typing import Any, Self

from fairway.kube.objects import Key, Obj, controller_of, key_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings
from fairway.queueing.facts.amounts import quota_amount
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.scenario.entering import create_or_replace
from fairway.twin.kueue.component import Kueue
from fairway.twin.kueue.reconciling import reconcile
from fairway.twin.latency import NONE, Latency
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


class World:
    def __init__(
        self, settings: KueueSettings = DEFAULT_KUEUE, latency: Latency = NONE, seed: int = 0
    ) -> None:
        self.twin = Twin(seed=seed, latency=latency, components=standard_components(kueue=settings))
        self.apply(flavor("default"))

    @property
    def kueue(self) -> Kueue:
        found = self.twin.component("kueue")
        assert isinstance(found, Kueue)
        return found

    def apply(self, *objects: Obj) -> Self:
        for obj in objects:
            create_or_replace(self.twin.host, obj)
        self.twin.wake()
        return self

    def delete(self, gk: str, name: str, namespace: str = "") -> Self:
        self.twin.store.delete(Key(gk, namespace, name))
        self.twin.wake()
        return self

    def patch(self, gk: str, name: str, patch: Obj, namespace: str = "") -> Self:
        self.twin.store.patch(Key(gk, namespace, name), patch)
        self.twin.wake()
        return self

    def run(self, seconds: float) -> Self:
        self.twin.run_for(round(seconds * SECOND_US))
        return self

    def objects(self, gk: str) -> list[Obj]:
        return self.twin.store.objects(gk)

    def workload(self, job: str) -> Obj:
        """The Workload of a job."""
        found = [w for w in self.objects(WORKLOAD) if (controller_of(w) or {}).get("name") == job]
        assert len(found) == 1, f"{job} has {len(found)} Workloads"
        return found[0]

    def conditions(self, job: str) -> dict[str, Obj]:
        return {c["type"]: c for c in status_of(self.workload(job)).get("conditions") or ()}

    def condition(self, job: str, kind: str) -> tuple[str, str] | None:
        """(status, reason)."""
        found = self.conditions(job).get(kind)
        return None if found is None else (found["status"], found["reason"])

    def admitted(self) -> list[str]:
        """Jobs whose Workload is admitted, by name."""
        return sorted(
            str((controller_of(w) or {}).get("name"))
            for w in self.objects(WORKLOAD)
            if _is_true(w, "Admitted") and not _is_true(w, "Finished")
        )

    def events(self, reason: str) -> list[str]:
        return [t.message for t in self.twin.host.events.told() if t.reason == reason]

    def job(self, name: str, queue: str) -> Obj:
        return self.twin.store.require(Key("Job.batch", queue, name))

    def queue_status(self, name: str) -> Obj:
        return status_of(self.twin.store.require(Key("ClusterQueue.kueue.x-k8s.io", "", name)))

    # What must hold

    def check_settled(self) -> None:
        """Nobody has to look again: whatever a look would write was written."""
        for tag, gk in (("job", "Job.batch"), ("look", WORKLOAD), ("look", "ClusterQueue.kueue.x-k8s.io")):
            for obj in self.objects(gk):
                decided = reconcile(self.kueue, (tag, key_of(obj)))
                assert not decided.actions, f"{key_of(obj)}: {decided.actions}"

    def check_books(self) -> None:
        """Usage is what admissions say; nobody uses more than nominal and borrowing allow; gangs are whole."""
        backlog = self.kueue.backlog
        backlog.accounts.settle()
        wanted: dict[tuple[str, str, str], int] = {}
        for workload in self.objects(WORKLOAD):
            admission = status_of(workload).get("admission")
            gone = _is_true(workload, "Finished") or spec_of(workload).get("active") is False
            if admission is None or gone:
                continue
            counts = {ps["name"]: ps for ps in spec_of(workload)["podSets"]}
            for assigned in admission["podSetAssignments"]:
                whole = counts[assigned["name"]]
                assert whole.get("minCount", whole["count"]) <= assigned["count"] <= whole["count"]
                for resource, flavor_name in assigned["flavors"].items():
                    at = (admission["clusterQueue"], flavor_name, resource)
                    used = quota_amount(resource, assigned["resourceUsage"][resource])
                    wanted[at] = wanted.get(at, 0) + used
        had = {
            (name, fr.flavor, fr.resource): used
            for name, account in backlog.accounts.queues.items()
            for fr, used in account.usage.items()
            if used
        }
        assert had == wanted
        for cohort in backlog.accounts.cohorts.values():
            if cohort.parent is None:
                for fr, used in cohort.usage.items():
                    assert used <= cohort.subtree.get(fr, 0), f"{cohort.name} uses {used} of {fr}"
        for name, account in backlog.accounts.queues.items():
            for fr, used in account.usage.items():
                quota = account.spec.quotas[fr]
                if quota.borrowing_limit is not None:
                    assert used <= quota.nominal + quota.borrowing_limit, f"{name} borrows beyond its limit"


def _is_true(obj: Obj, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in status_of(obj).get("conditions") or ())


def flavor(name: str, **spec: Any) -> Obj:
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def queue(name: str, nominal: int, *, cohort: str = "", quota: Obj | None = None, **spec: Any) -> Obj:
    entry = {"name": GPU, "nominalQuota": str(nominal), **(quota or {})}
    flavors = [{"name": "default", "resources": [entry]}]
    body: Obj = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
        **spec,
    }
    if cohort:
        body["cohortName"] = cohort
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": body}


def local_queue(name: str, **spec: Any) -> Obj:
    """`lq` in the namespace of the ClusterQueue's name."""
    body = {"clusterQueue": name, **spec}
    meta = {"name": "lq", "namespace": name}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": meta, "spec": body}


def node(name: str, gpus: int, **labels: str) -> Obj:
    offers = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": {},
        "status": {"allocatable": offers, "capacity": offers},
    }


def job(
    name: str,
    queue_name: str,
    *,
    gpus: int = 1,
    pods: int = 1,
    runs: str = "forever",
    priority: str = "",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    template_annotations: dict[str, str] | None = None,
) -> Obj:
    amount = {GPU: str(gpus)}
    container = {"name": "c", "image": "i", "resources": {"requests": amount, "limits": amount}}
    template = {
        "metadata": {"annotations": {"fairway.dev/run-time": runs, **(template_annotations or {})}},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
    }
    all_labels = {"kueue.x-k8s.io/queue-name": "lq", **(labels or {})}
    if priority:
        all_labels["kueue.x-k8s.io/priority-class"] = priority
    meta = {"name": name, "namespace": queue_name, "labels": all_labels, "annotations": annotations or {}}
    spec = {"backoffLimit": 0, "parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def priority_class(name: str, value: int) -> Obj:
    return {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


__all__ = ["World", "flavor", "job", "local_queue", "node", "priority_class", "queue"]
