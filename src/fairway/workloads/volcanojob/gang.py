"""The PodGroup of a job: how many of its pods must start together, and what they need.

Unlike kube: `minResources` names resources alone, not the `requests.…`, `limits.…` and `count/pods` beside them
that no scheduler reads.

Source: volcano-sh/volcano pkg/controllers/job/job_controller_actions.go createOrUpdatePodGroup,
calcPGMinResources; job_controller_util.go TasksPriority.
"""

from __future__ import annotations

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import PODS, Resources, add_into, format_resources
from fairway.workloads.podtemplate import owned_by
from fairway.workloads.volcanojob.spec import API_VERSION, KIND, TaskSpec, VolcanoJob

POD_GROUP = "PodGroup.scheduling.volcano.sh"
GROUP_API_VERSION = "scheduling.volcano.sh/v1beta1"
PRIORITY_CLASS = "PriorityClass.scheduling.k8s.io"


def group_of(view: View, job: VolcanoJob) -> Obj | None:
    return view.get(Key(POD_GROUP, job.namespace, job.group_name))


def new_group(view: View, job: VolcanoJob) -> Obj:
    meta = {
        "name": job.group_name,
        "namespace": job.namespace,
        "ownerReferences": owned_by(job.obj, API_VERSION, KIND),
    }
    for field in ("labels", "annotations"):
        if job.obj["metadata"].get(field):
            meta[field] = job.obj["metadata"][field]
    spec = {
        "minMember": job.min_available,
        "minTaskMember": {t.name: t.min_available for t in job.tasks},
        "queue": job.queue,
        "minResources": format_resources(min_resources(view, job)),
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    return {"apiVersion": GROUP_API_VERSION, "kind": "PodGroup", "metadata": meta, "spec": spec}


def min_resources(view: View, job: VolcanoJob) -> Resources:
    """Of the `minAvailable` most important pods: first what every task needs at least, then the rest of it."""
    tasks = sorted(job.tasks, key=lambda t: -_priority(view, t))
    total: Resources = {}
    left = job.min_available
    if job.min_available >= job.min_of_tasks:
        for task in tasks:
            left -= _add(total, task, min(task.min_available, left))
        for task in tasks:
            left -= _add(total, task, min(task.replicas - task.min_available, left))
        return total
    for task in tasks:
        left -= _add(total, task, min(task.replicas, left))
    return total


def _add(total: Resources, task: TaskSpec, count: int) -> int:
    count = max(count, 0)
    if count:
        each = {**pod_requests(task.pod_spec), PODS: 1}
        add_into(total, {name: amount * count for name, amount in each.items()})
    return count


def _priority(view: View, task: TaskSpec) -> int:
    name = task.pod_spec.get("priorityClassName")
    found = view.get(Key(PRIORITY_CLASS, "", name)) if name else None
    return 0 if found is None else int(found.get("value") or 0)
