"""Facts from API objects: nodes, Queues, PodGroups and pods as a session sees them.

Source: volcano-sh/volcano pkg/scheduler/cache/event_handlers.go, api/job_info.go NewTaskInfo, api/helpers.go
getTaskStatus, api/pod_info.go GetPodPreemptable; pkg/webhooks/admission/{queues,podgroups}/mutate (defaults).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from fairway.kube.integers import natural
from fairway.kube.objects import Obj, annotations_of, labels_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import PODS, Resources, parse_resources
from fairway.volcano.facts import (
    DEFAULT_QUEUE,
    OPEN,
    ClusterFacts,
    GroupFacts,
    NodeFacts,
    PodFacts,
    QueueFacts,
    TaskStatus,
)

NODE, POD, PRIORITY_CLASS = "Node", "Pod", "PriorityClass.scheduling.k8s.io"
QUEUE, POD_GROUP = "Queue.scheduling.volcano.sh", "PodGroup.scheduling.volcano.sh"
GROUP_NAME = "scheduling.k8s.io/group-name"
TASK_SPEC, TASK_INDEX = "volcano.sh/task-spec", "volcano.sh/task-index"
TASK_PRIORITY, PREEMPTABLE = "volcano.sh/task-priority", "volcano.sh/preemptable"
SCHEDULER_NAME = "volcano"
_OF_QUOTAS = ("requests.", "limits.", "count/")

ObjectsOf = Callable[[str], list[Obj]]
"""All objects of a group kind, ordered by namespace and name."""
Unread = Callable[[Obj, Exception], None]
Facts = TypeVar("Facts")


def read_cluster(
    objects: ObjectsOf, scheduler_name: str = SCHEDULER_NAME, unread: Unread | None = None
) -> ClusterFacts:
    """What a session sees. O(objects). Objects that cannot be read are left out and told to `unread`; without it
    they raise."""
    classes = objects(PRIORITY_CLASS)
    pods = [pod for pod in objects(POD) if concerns(pod, scheduler_name)]
    return ClusterFacts(
        tuple(_each(read_node, [n for n in objects(NODE) if is_ready(n)], unread)),
        tuple(_each(read_queue, objects(QUEUE), unread)),
        tuple(_each(partial(read_group, classes=classes), objects(POD_GROUP), unread)),
        tuple(_each(read_pod, pods, unread)),
    )


def _each(read: Callable[[Obj], Facts], objects: list[Obj], unread: Unread | None) -> Iterator[Facts]:
    for obj in objects:
        try:
            yield read(obj)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            if unread is None:
                raise
            unread(obj, error)


def concerns(pod: Obj, scheduler_name: str) -> bool:
    """Its own pods, and whoever holds a node."""
    spec, phase = pod["spec"], (pod.get("status") or {}).get("phase")
    if spec.get("schedulerName") == scheduler_name:
        return True
    return bool(spec.get("nodeName")) and phase not in ("Succeeded", "Failed")


def is_ready(node: Obj) -> bool:
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True


def read_node(node: Obj) -> NodeFacts:
    status = node.get("status") or {}
    return NodeFacts(
        node["metadata"]["name"], parse_resources(status.get("allocatable") or status.get("capacity"))
    )


def read_queue(queue: Obj) -> QueueFacts:
    meta, spec, status = queue["metadata"], queue.get("spec") or {}, queue.get("status") or {}
    reclaimable = spec.get("reclaimable")
    return QueueFacts(
        name=meta["name"],
        weight=int(spec.get("weight") or 1),
        capability=_resources(spec.get("capability")),
        guarantee=_resources((spec.get("guarantee") or {}).get("resource")),
        is_reclaimable=True if reclaimable is None else bool(reclaimable),
        priority=int(spec.get("priority") or 0),
        state=status.get("state") or OPEN,
        parent=spec.get("parent") or "",
        created=meta.get("creationTimestamp") or "",
        status=status,
    )


def _resources(given: Mapping[str, Any] | None) -> Resources | None:
    return _counted(given) if given else None


def _counted(given: Mapping[str, Any]) -> Resources:
    """Less the names that only quotas know: `requests.cpu`, `limits.memory`, `count/pods`."""
    return parse_resources({n: v for n, v in given.items() if not n.startswith(_OF_QUOTAS)})


def read_group(group: Obj, classes: list[Obj]) -> GroupFacts:
    meta, spec = group["metadata"], group.get("spec") or {}
    minimum = spec.get("minResources")
    return GroupFacts(
        namespace=meta.get("namespace") or "",
        name=meta["name"],
        min_member=int(spec.get("minMember") or 0),
        queue=spec.get("queue") or DEFAULT_QUEUE,
        min_resources=None if minimum is None else _counted(minimum),
        min_task_member=dict(sorted((spec.get("minTaskMember") or {}).items())),
        priority=_class_priority(spec.get("priorityClassName") or "", classes),
        created=meta.get("creationTimestamp") or "",
        uid=meta.get("uid") or "",
        status=group.get("status") or {},
    )


def _class_priority(name: str, classes: list[Obj]) -> int:
    """Of the class, else of the cluster's default class, else 0."""
    by_default = 0
    for found in classes:
        if found["metadata"]["name"] == name:
            return int(found.get("value") or 0)
        if found.get("globalDefault"):
            by_default = int(found.get("value") or 0)
    return by_default


def read_pod(pod: Obj) -> PodFacts:
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    labels, annotations = labels_of(pod), annotations_of(pod)
    namespace, group = meta.get("namespace") or "", annotations.get(GROUP_NAME) or ""
    index = labels.get(TASK_INDEX, "")
    priority = annotations.get(TASK_PRIORITY, spec.get("priority"))
    return PodFacts(
        namespace=namespace,
        name=meta["name"],
        group=f"{namespace}/{group}" if group else "",
        requests={**pod_requests(spec), PODS: 1},
        status=task_status(pod),
        node=spec.get("nodeName") or "",
        role=annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or "",
        priority=1 if priority is None else _number(priority),
        index=natural(index),
        is_preemptable=_is_true(annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE))),
        is_gated=bool(spec.get("schedulingGates")),
        never_preempts=spec.get("preemptionPolicy") == "Never",
        class_name=spec.get("priorityClassName") or "",
        nominated=status.get("nominatedNodeName") or "",
        created=meta.get("creationTimestamp") or "",
        uid=meta.get("uid") or "",
    )


def _number(value: Any) -> int:
    try:
        return int(value)
    except ValueError:
        return 1


def _is_true(value: str | None) -> bool:
    """Pods may be evicted unless they say otherwise. Source: strconv.ParseBool."""
    return value is None or value in ("1", "t", "T", "true", "TRUE", "True")


def task_status(pod: Obj) -> TaskStatus:
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase in ("Running", "Pending") and "deletionTimestamp" in pod["metadata"]:
        return TaskStatus.RELEASING
    if phase == "Pending":
        return TaskStatus.BOUND if pod["spec"].get("nodeName") else TaskStatus.PENDING
    return TaskStatus(phase) if phase in ("Running", "Succeeded", "Failed") else TaskStatus.UNKNOWN
