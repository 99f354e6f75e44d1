"""What does a forecast start from? The objects that run and that wait, with what they ask for and since when.

Found in a cluster's objects alone: pods by their topmost owner, Kueue's Workloads by their job, so that a suspended
job without pods is there too. Services (what restarts Always) keep their room and are not forecast.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from fairway.answers.forecasting.history import LIMIT_LABEL, declared_us
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, controller_of, key_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import CPU, GPU_MILLI, MEMORY, NVIDIA_GPU
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.queueing.facts import conditions as conds
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.traces.arrival import QUEUE_LABEL, USER_LABEL
from fairway.traces.jobs import TraceJob

NEVER: Final = -1
_ENDED: Final = ("Succeeded", "Failed")
_MOST_OWNERS: Final = 8


@dataclass(slots=True)
class Item:
    """One object. `since_us`: when its first pod that still runs started; None: it waits. `pods` are those it has."""

    object: str
    key: Key
    uid: str
    ask: TraceJob
    limit_us: int = 0
    since_us: int | None = None
    pods: list[Key] = field(default_factory=list)
    is_queued: bool = False
    """Whether a Workload of Kueue stands for it."""
    priority: int = 0

    def elapsed_us(self, now_us: int) -> int:
        return max(now_us - self.since_us, 0) if self.since_us is not None else 0


@dataclass(frozen=True, slots=True)
class Situation:
    """`items` by creation: what runs and what waits."""

    now_us: int
    items: tuple[Item, ...]

    @property
    def pending(self) -> list[Item]:
        return [item for item in self.items if item.since_us is None]


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it in one future. start_us, finish_us: of every item, µs from its beginning, `NEVER` where it did
    not happen. At the grid's times: `queued` objects, and `held` GPUs. `evictions`: how often running work was
    stopped."""

    start_us: list[int]
    finish_us: list[int]
    queued: list[int]
    held: list[int]
    evictions: int = 0


def situation_of(store: Store, now_us: int) -> Situation:
    """O(pods + workloads)."""
    found: dict[str, Item] = {}
    for workload in store.objects(WORKLOAD):
        # One that was deactivated waits for nothing: it starts when somebody says so.
        if not conds.is_true(status_of(workload), conds.FINISHED) and spec_of(workload).get("active", True):
            _add_workload(store, workload, found)
    for pod in store.objects("Pod"):
        if status_of(pod).get("phase") in _ENDED or spec_of(pod).get("restartPolicy", "Always") == "Always":
            continue
        _add_pod(store, pod, found)
    items = sorted(found.values(), key=lambda item: (item.ask.submit_us, item.object))
    return Situation(now_us, tuple(items))


def root_of(store: Store, obj: Obj) -> Obj:
    """Its topmost controller that is there; itself without one."""
    for _ in range(_MOST_OWNERS):
        owner = controller_of(obj)
        above = store.by_uid(owner["uid"]) if owner and owner.get("uid") else None
        if above is None:
            return obj
        obj = above
    return obj


def name_of(obj: Obj) -> str:
    """`Job/team/train-1`"""
    meta = meta_of(obj)
    return f"{obj.get('kind', '')}/{meta.get('namespace', '')}/{meta.get('name', '')}"


def _add_workload(store: Store, workload: Obj, found: dict[str, Item]) -> None:
    root = root_of(store, workload)
    sets = spec_of(workload).get("podSets") or ()
    if not sets or root.get("kind") in ("Deployment", "StatefulSet"):
        return
    replicas = sum(int(s.get("count") or 1) for s in sets)
    template = (sets[0].get("template") or {}).get("spec") or {}
    item = _item(root, template, replicas)
    item.is_queued = True
    item.priority = int(spec_of(workload).get("priority") or 0)
    queue = spec_of(workload).get("queueName") or ""
    item.ask = replace(item.ask, queue=queue)
    if root is workload and conds.is_true(status_of(workload), conds.ADMITTED):
        admitted = conds.find(status_of(workload), conds.ADMITTED)
        item.since_us = None if admitted is None else conds.since_us(admitted)
    found[item.object] = item


def _add_pod(store: Store, pod: Obj, found: dict[str, Item]) -> None:
    root = root_of(store, pod)
    name = name_of(root)
    item = found.get(name)
    if item is None:
        replicas = int(spec_of(root).get("parallelism") or 1) if root.get("kind") == "Job" else 1
        item = found[name] = _item(root, spec_of(pod), replicas)
        item.priority = int(spec_of(pod).get("priority") or 0)
        if not item.ask.queue:
            item.ask = replace(item.ask, queue=labels_of(pod).get(QUEUE_LABEL, ""))
    item.pods.append(key_of(pod))
    if not item.is_queued and root.get("kind") != "Job":
        item.ask = replace(item.ask, replicas=len(item.pods))
    started_us = _started_us(pod)
    if started_us is not None:
        item.since_us = started_us if item.since_us is None else min(item.since_us, started_us)


def _started_us(pod: Obj) -> int | None:
    """When its containers began to run; by the pod's start where they do not say."""
    status = status_of(pod)
    if status.get("phase") != "Running":
        return None
    stamps = [
        running["startedAt"]
        for container in status.get("containerStatuses") or ()
        if (running := (container.get("state") or {}).get("running")) and running.get("startedAt")
    ]
    stamp = min(stamps) if stamps else status.get("startTime")
    try:
        return parse_rfc3339(stamp) if stamp else None
    except ValueError:
        return None


def _item(root: Obj, template: Obj, replicas: int) -> Item:
    meta, labels = meta_of(root), labels_of(root)
    requests = pod_requests(template)
    kept = tuple((k, labels[k]) for k in (LIMIT_LABEL, "kueue.x-k8s.io/priority-class") if k in labels)
    deadline = spec_of(root).get("activeDeadlineSeconds")
    limit_us = declared_us(dict(kept)) or (deadline * SECOND_US if isinstance(deadline, int) else 0)
    ask = TraceJob(
        name_of(root),
        parse_rfc3339(meta["creationTimestamp"]) if meta.get("creationTimestamp") else 0,
        gpu_milli=1000 * requests.get(NVIDIA_GPU, 0) + requests.get(GPU_MILLI, 0),
        cpu_milli=requests.get(CPU, 0),
        memory_bytes=requests.get(MEMORY, 0),
        replicas=replicas,
        user=labels.get(USER_LABEL, ""),
        namespace=meta.get("namespace", ""),
        priority_class=template.get("priorityClassName") or "",
        queue=labels.get(QUEUE_LABEL, ""),
        labels=kept,
    )
    return Item(ask.job_id, key_of(root), meta.get("uid", ""), ask, limit_us)
