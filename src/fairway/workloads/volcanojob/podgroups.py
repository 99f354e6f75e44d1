"""PodGroups for pods that name Volcano as their scheduler and belong to none: one per controller, `minMember` 1.

A ReplicaSet, StatefulSet or Job asks for more with `scheduling.volcano.sh/group-min-member`.

Source: volcano-sh/volcano pkg/controllers/podgroup/pg_controller_handler.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.cluster.actions import NOTHING_TO_DO, Action, Create, Patch, Reconciliation, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, annotations_of, controller_of, labels_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import PODS, format_resources
from fairway.workloads.controller import NO_KEYS, Controller
from fairway.workloads.pods import is_deleting, is_terminal
from fairway.workloads.volcanojob.gang import GROUP_API_VERSION, POD_GROUP
from fairway.workloads.volcanojob.pods import GROUP_NAME

MIN_MEMBER, QUEUE = "scheduling.volcano.sh/group-min-member", "scheduling.volcano.sh/queue-name"
_PREFIX = "scheduling.volcano.sh/"
_SCHEDULER = "volcano"
_OWNER_KINDS = {
    "ReplicaSet": "ReplicaSet.apps",
    "DaemonSet": "DaemonSet.apps",
    "StatefulSet": "StatefulSet.apps",
    "Job": "Job.batch",
}
_PASSED_ON = ("volcano.sh/preemptable", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    pod = view.get(key)
    if pod is None or not _is_without_group(pod):
        return NOTHING_TO_DO
    owner = controller_of(pod)
    name = f"podgroup-{(owner or pod['metadata'])['uid']}"
    actions: list[Action] = []
    if view.get(Key(POD_GROUP, key.namespace, name)) is None:
        actions.append(Create(_group(view, pod, name)))
    actions.append(Patch(key, {"metadata": {"annotations": {GROUP_NAME: name}}}))
    return Reconciliation(tuple(actions))


def _is_without_group(pod: Obj) -> bool:
    if pod["spec"].get("schedulerName") != _SCHEDULER or is_deleting(pod) or is_terminal(pod):
        return False
    return not annotations_of(pod).get(GROUP_NAME)


def _group(view: View, pod: Obj, name: str) -> Obj:
    meta, owner = pod["metadata"], controller_of(pod)
    inherited = _owner_annotations(view, pod)
    said = natural(inherited.get(MIN_MEMBER))
    least = 1 if said is None else said
    annotations = {n: v for n, v in sorted(inherited.items()) if n.startswith(_PREFIX)}
    annotations.update({n: v for n in _PASSED_ON if (v := annotations_of(pod).get(n)) is not None})
    labels = {n: v for n in _PASSED_ON[:2] if (v := labels_of(pod).get(n)) is not None}
    needs = {**pod_requests(pod["spec"]), PODS: 1}
    spec = {"minMember": least, "minResources": format_resources({n: v * least for n, v in needs.items()})}
    if pod["spec"].get("priorityClassName"):
        spec["priorityClassName"] = pod["spec"]["priorityClassName"]
    if annotations_of(pod).get(QUEUE):
        spec["queue"] = annotations_of(pod)[QUEUE]
    by_itself = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    new_meta = {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner or by_itself]}
    if annotations:
        new_meta["annotations"] = annotations
    if labels:
        new_meta["labels"] = labels
    return {
        "apiVersion": GROUP_API_VERSION,
        "kind": "PodGroup",
        "metadata": new_meta,
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _owner_annotations(view: View, pod: Obj) -> dict[str, str]:
    owner = controller_of(pod)
    gk = _OWNER_KINDS.get(owner["kind"]) if owner else None
    if owner is None or gk is None:
        return {}
    found = view.get(Key(gk, pod["metadata"]["namespace"], owner["name"]))
    return {} if found is None else annotations_of(found)


def changed_keys(view: View, change: Change) -> Sequence[Key]:
    if change.type == DELETED or not _is_without_group(change.obj):
        return NO_KEYS
    return (change.key,)


CONTROLLER = Controller("vc-podgroup-controller", "Pod", ("Pod",), changed_keys, reconcile)
