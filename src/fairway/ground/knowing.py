"""What of a cluster could not be known? Sentences for the reader, from what is there and what is not."""

from __future__ import annotations

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, labels_of, meta_of, spec_of
from fairway.queueing.control.kinds import WATCHED
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.traces.arrival import QUEUE_LABEL

_QUEUE, _LOCAL = "ClusterQueue.kueue.x-k8s.io", "LocalQueue.kueue.x-k8s.io"
# Kueue makes a Workload for each of their pods, not for them.
_QUEUED_BY_POD = ("Pod", "Deployment.apps", "ReplicaSet.apps")
_NAMED = 3
_JOBS_NAMED = 10


def notes_on(store: Store, place: str, unseen: frozenset[str], *, knows_all: bool) -> list[str]:
    """`place`: what messages call it. `unseen`: kinds of which nothing was read. `knows_all`: nothing is missing."""
    if knows_all:
        return _without_workload(store)
    notes = []
    if "Node" in unseen:
        notes.append(f"{place} holds no nodes: where pods fit is not known")
    if "Pod" in unseen and store.count("Node"):
        notes.append(f"{place} holds no pods: what of each node is free is not known")
    waits = _without_workload(store)
    if (store.count(WORKLOAD) or waits) and _QUEUE in unseen:
        notes.append(f"{place} holds no ClusterQueues: add clusterqueues,localqueues,cohorts,resourceflavors")
    notes += _absent_namespaces(store, place)
    if "PersistentVolumeClaim" in unseen and any(map(_has_claims, store.objects("Pod"))):
        notes.append(
            f"{place} holds no PersistentVolumeClaims, and pods name some: add pvc,pv,storageclasses"
        )
    return notes + waits


def _absent_namespaces(store: Store, place: str) -> list[str]:
    there = {meta_of(o)["name"] for o in store.objects("Namespace")}
    absent = sorted({meta_of(o).get("namespace") or "" for o in store.objects(WORKLOAD)} - there)
    if not absent or not store.count(_QUEUE):
        return []
    named = ", ".join(absent[:_NAMED]) + (" …" if len(absent) > _NAMED else "")
    return [f"{place} holds no Namespace {named}: selectors see only kubernetes.io/metadata.name"]


def _has_claims(pod: Obj) -> bool:
    return any("persistentVolumeClaim" in volume for volume in spec_of(pod).get("volumes") or ())


def _without_workload(store: Store) -> list[str]:
    """Jobs that name a queue and have no Workload, because the queue is not there or nobody looks after their kind."""
    owned = {
        ref.get("uid") for w in store.objects(WORKLOAD) for ref in meta_of(w).get("ownerReferences") or ()
    }
    notes = []
    for gk in store.kinds():
        for obj in store.objects(gk) if gk not in (*_QUEUED_BY_POD, *WATCHED) else ():
            queue, meta = labels_of(obj).get(QUEUE_LABEL), meta_of(obj)
            if not queue or meta.get("uid") in owned or meta.get("ownerReferences"):
                continue
            home = meta.get("namespace") or "default"
            is_there = store.get(Key(_LOCAL, home, queue)) is not None
            why = "has no Workload" if is_there else f"no LocalQueue {queue} is there"
            notes.append(f"{obj.get('kind')} {home}/{meta.get('name')} waits in queue {queue}: {why}")
    more = (
        [f"… and {len(notes) - _JOBS_NAMED} more jobs without a Workload"] if len(notes) > _JOBS_NAMED else []
    )
    return notes[:_JOBS_NAMED] + more
