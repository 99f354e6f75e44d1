"""One group: a leader brings its workers about, and a pod that restarts or leaves takes its group with it.

Source: lws pkg/controllers/pod_controller.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.cluster.actions import NOTHING_TO_DO, Action, Create, Delete, Reconciliation, View
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import FOREGROUND
from fairway.kube.objects import Key, Obj, annotations_of, controller_of, labels_of
from fairway.workloads.controller import NO_KEYS, Controller, event
from fairway.workloads.leaderworkerset.decide import (
    COMPONENT,
    LWS,
    STATEFUL_SET,
    headless,
    is_shared,
    marked,
    pod_annotations,
    revision_of,
    set_of,
    size_of,
)
from fairway.workloads.leaderworkerset.marks import (
    EXCLUSIVE,
    GROUP_INDEX,
    GROUP_KEY,
    LEADER_NAME,
    REVISION,
    SET_NAME,
    group_key,
    is_leader,
    is_member,
    parent_and_ordinal,
)
from fairway.workloads.pods import PENDING, is_deleting, is_ready, node_of, phase_of, restarts
from fairway.workloads.podtemplate import owned_by

_RECREATING = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart")


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one pod of a group."""
    pod = view.get(key)
    lws = None if pod is None else set_of(view, pod)
    if pod is None or lws is None or "deletionTimestamp" in lws["metadata"]:
        return NOTHING_TO_DO
    restarted = _recreated(view, lws, pod)
    if restarted is not None:
        return Reconciliation(tuple(restarted))
    if not is_leader(pod) or is_deleting(pod):
        return NOTHING_TO_DO
    actions = _followers(view, lws, pod)
    return Reconciliation(tuple(actions))


def _recreated(view: View, lws: Obj, pod: Obj) -> list[Action] | None:
    """Delete the leader, and its workers with it; None where the group goes on."""
    policy = lws["spec"]["leaderWorkerTemplate"].get("restartPolicy", _RECREATING[0])
    if policy not in _RECREATING or not (is_deleting(pod) or _has_restarted(pod)):
        return None
    if policy == _RECREATING[1] and _has_pending(view, lws, pod):
        return None
    leader: Obj | None = pod
    if not is_leader(pod):
        name, _ = parent_and_ordinal(pod["metadata"]["name"])
        leader = view.get(Key("Pod", pod["metadata"]["namespace"], name))
        if leader is None or not _leads(view, leader, pod):
            return None
    if leader is None or is_deleting(leader):
        return []
    meta = leader["metadata"]
    group = labels_of(leader).get(GROUP_INDEX, "")
    failed = f"Worker pod {pod['metadata']['name']} failed"
    message = f"{failed}, deleted leader pod {meta['name']} to recreate group {group}"
    about = Key(LWS, meta["namespace"], lws["metadata"]["name"])
    leader_key = Key("Pod", meta["namespace"], meta["name"])
    return [
        Delete(leader_key, meta["uid"], propagation=FOREGROUND),
        event(about, "RecreateGroup", message, COMPONENT),
    ]


def _has_restarted(pod: Obj) -> bool:
    if phase_of(pod) not in ("Running", PENDING):
        return False
    inits = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return restarts(pod)[0] > 0 or any(c.get("restartCount", 0) > 0 for c in inits)


def _has_pending(view: View, lws: Obj, pod: Obj) -> bool:
    group = labels_of(pod).get(GROUP_INDEX)
    found = [
        p
        for p in view.objects("Pod", pod["metadata"]["namespace"])
        if labels_of(p).get(SET_NAME) == lws["metadata"]["name"] and labels_of(p).get(GROUP_INDEX) == group
    ]
    return len(found) < size_of(lws) or any(phase_of(p) == PENDING for p in found)


def _leads(view: View, leader: Obj, pod: Obj) -> bool:
    """Whether this worker is of the leader's present group, not of one that is on its way out."""
    if labels_of(leader).get(REVISION) != labels_of(pod).get(REVISION):
        return False
    owner = controller_of(pod)
    workers = None if owner is None else view.by_uid(owner["uid"])
    above = None if workers is None else controller_of(workers)
    return above is not None and bool(above["uid"] == leader["metadata"]["uid"])


def _followers(view: View, lws: Obj, leader: Obj) -> list[Action]:
    """The leader's own service, and its workers once it may have them."""
    meta, name = leader["metadata"], leader["metadata"]["name"]
    actions: list[Action] = []
    owners = owned_by(leader, "v1", "Pod")
    group = labels_of(leader).get(GROUP_INDEX, str(parent_and_ordinal(name)[1]))
    selector = {SET_NAME: lws["metadata"]["name"], GROUP_INDEX: group}
    if not is_shared(lws) and view.get(Key("Service", meta["namespace"], name)) is None:
        actions.append(Create(headless(name, lws, selector, owners)))
    waits = lws["spec"].get("startupPolicy") == "LeaderReady" and not is_ready(leader)
    # A leader of an older revision is about to be replaced.
    is_old = labels_of(leader).get(REVISION) != revision_of(lws)
    if size_of(lws) == 1 or waits or is_old:
        return actions
    if view.get(Key(STATEFUL_SET, meta["namespace"], name)) is not None:
        return actions
    made = _worker_set(lws, leader, selector, owners)
    topology_key = annotations_of(lws).get(EXCLUSIVE)
    if topology_key:
        node = view.get(Key("Node", "", node_of(leader)))
        if node is None or topology_key not in labels_of(node):
            return actions
        pod = made["spec"]["template"]["spec"]
        chosen = {**(pod.get("nodeSelector") or {}), topology_key: labels_of(node)[topology_key]}
        made["spec"]["template"] = {**made["spec"]["template"], "spec": {**pod, "nodeSelector": chosen}}
    about = Key(LWS, meta["namespace"], lws["metadata"]["name"])
    message = f"Created worker statefulset for leader pod {name}"
    return [*actions, Create(made), event(about, "GroupsProgressing", message, COMPONENT)]


def _worker_set(lws: Obj, leader: Obj, selector: dict[str, str], owners: list[dict[str, object]]) -> Obj:
    meta = leader["metadata"]
    key = labels_of(leader).get(GROUP_KEY) or group_key(meta["namespace"], meta["name"])
    chosen = {**selector, GROUP_KEY: key}
    labels = {**chosen, REVISION: labels_of(leader).get(REVISION, "")}
    annotations = {**pod_annotations(lws), LEADER_NAME: meta["name"]}
    template = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": {**labels_of(lws), **labels},
            "annotations": dict(annotations_of(lws)),
            "ownerReferences": owners,
        },
        "spec": {
            "serviceName": lws["metadata"]["name"] if is_shared(lws) else meta["name"],
            "replicas": size_of(lws) - 1,
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {"matchLabels": chosen},
            "template": marked(template, labels, annotations),
        },
    }


def map_change(view: View, change: Change) -> Sequence[Key]:
    """A pod of a group; the leader whose workers went; all leaders of a set that changed."""
    if change.key.gk == "Pod":
        return (change.key,) if change.type != DELETED and is_member(change.obj) else NO_KEYS
    owner = controller_of(change.obj)
    if change.type == DELETED and owner is not None and owner["kind"] == "Pod":
        return (Key("Pod", change.key.namespace, owner["name"]),)
    return NO_KEYS


CONTROLLER = Controller("leaderworkerset-pod", "Pod", ("Pod", STATEFUL_SET), map_change, reconcile)
