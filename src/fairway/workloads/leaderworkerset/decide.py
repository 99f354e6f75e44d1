"""The LeaderWorkerSet controller's decision: a StatefulSet of leaders, a headless service, the status.

Source: lws pkg/controllers/leaderworkerset_controller.go.

Unlike kube: revisions are told apart by a hash of the template alone, and a rolling update is the StatefulSet's
(from the last group down, `maxUnavailable` at a time); surging groups, scaling by an autoscaler and claims of
volumes are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.cluster.actions import NOTHING_TO_DO, Action, Create, Patch, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, annotations_of, controller_of, labels_of
from fairway.kube.timestamps import rfc3339
from fairway.workloads.controller import NO_KEYS, Controller, event
from fairway.workloads.leaderworkerset.marks import (
    EXCLUSIVE,
    REPLICAS,
    REVISION,
    SET_NAME,
    SIZE,
    SUBDOMAIN_POLICY,
    SUBGROUP_SIZE,
    WORKER_INDEX,
    is_leader,
    is_member,
)
from fairway.workloads.pods import RUNNING, is_ready, phase_of
from fairway.workloads.podtemplate import owned_by, stable_hash

LWS = "LeaderWorkerSet.leaderworkerset.x-k8s.io"
KIND = "LeaderWorkerSet"

STATEFUL_SET = "StatefulSet.apps"
COMPONENT = "leaderworkerset"
_PROGRESS = {
    "Available": ("AllGroupsReady", "All replicas are ready"),
    "UpdateInProgress": ("GroupsUpdating", "Rolling Upgrade is in progress"),
    "Progressing": ("GroupsProgressing", "Replicas are progressing"),
}


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one LeaderWorkerSet. O(its leaders)."""
    lws = view.get(key)
    if lws is None or "deletionTimestamp" in lws["metadata"]:
        return NOTHING_TO_DO
    revision = revision_of(lws)
    actions: list[Action] = [*_service(view, lws, key), *_leaders(view, lws, key, revision)]
    before = lws.get("status") or {}
    status, told = _status(view, lws, key, revision, rfc3339(now_us))
    if status != before:
        actions.append(SetStatus(key, status))
        actions.extend(told)
    return Reconciliation(tuple(actions))


def revision_of(lws: Obj) -> str:
    """Which revision of the templates it is."""
    return stable_hash(lws["spec"]["leaderWorkerTemplate"])


def size_of(lws: Obj) -> int:
    size = lws["spec"]["leaderWorkerTemplate"].get("size")
    return 1 if size is None else int(size)


def replicas_of(lws: Obj) -> int:
    given = lws["spec"].get("replicas")
    return 1 if given is None else int(given)


def is_shared(lws: Obj) -> bool:
    """Whether all groups share one headless service."""
    return bool((lws["spec"].get("networkConfig") or {}).get("subdomainPolicy", "Shared") == "Shared")


def headless(name: str, lws: Obj, selector: dict[str, str], owners: list[dict[str, Any]]) -> Obj:
    meta = {"name": name, "namespace": lws["metadata"]["namespace"], "ownerReferences": owners}
    spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _service(view: View, lws: Obj, key: Key) -> list[Action]:
    if not is_shared(lws) or view.get(Key("Service", key.namespace, key.name)) is not None:
        return []
    owners = owned_by(lws, lws["apiVersion"], KIND)
    return [Create(headless(key.name, lws, {SET_NAME: key.name}, owners))]


def _leaders(view: View, lws: Obj, key: Key, revision: str) -> list[Action]:
    """The StatefulSet of leaders, brought up to the set's wishes."""
    wanted = _leader_set(lws, key, revision)
    present = view.get(Key(STATEFUL_SET, key.namespace, key.name))
    if present is None:
        told = event(key, "GroupsProgressing", f"Created leader statefulset {key.name}", COMPONENT)
        return [Create(wanted), told]
    changes: dict[str, Any] = {}
    if present["spec"].get("replicas") != wanted["spec"]["replicas"]:
        changes["replicas"] = wanted["spec"]["replicas"]
    if labels_of(present).get(REVISION) != revision:
        changes["template"] = wanted["spec"]["template"]
    if not changes:
        return []
    meta = {"labels": wanted["metadata"]["labels"], "annotations": wanted["metadata"]["annotations"]}
    return [Patch(Key(STATEFUL_SET, key.namespace, key.name), {"metadata": meta, "spec": changes})]


def _leader_set(lws: Obj, key: Key, revision: str) -> Obj:
    template = lws["spec"]["leaderWorkerTemplate"]
    pod = template.get("leaderTemplate") or template["workerTemplate"]
    marks = {WORKER_INDEX: "0", SET_NAME: key.name, REVISION: revision}
    annotations = pod_annotations(lws)
    if not is_shared(lws):
        annotations[SUBDOMAIN_POLICY] = "UniquePerReplica"
    rollout = (lws["spec"].get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    rolling = {"partition": rollout.get("partition", 0), "maxUnavailable": rollout.get("maxUnavailable", 1)}
    labels = {**labels_of(lws), SET_NAME: key.name, REVISION: revision}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": labels,
            "annotations": {**annotations_of(lws), REPLICAS: str(replicas_of(lws))},
            "ownerReferences": owned_by(lws, lws["apiVersion"], KIND),
        },
        "spec": {
            "serviceName": key.name,
            "replicas": replicas_of(lws),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {SET_NAME: key.name, WORKER_INDEX: "0"}},
            "template": marked(pod, marks, annotations),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
    }


def pod_annotations(lws: Obj) -> dict[str, str]:
    annotations = {SIZE: str(size_of(lws))}
    if annotations_of(lws).get(EXCLUSIVE):
        annotations[EXCLUSIVE] = annotations_of(lws)[EXCLUSIVE]
    policy = lws["spec"]["leaderWorkerTemplate"].get("subGroupPolicy")
    if policy is not None:
        annotations[SUBGROUP_SIZE] = str(policy["subGroupSize"])
    return annotations


def marked(template: Obj, labels: dict[str, str], annotations: dict[str, str]) -> Obj:
    meta = template.get("metadata") or {}
    return {
        **template,
        "metadata": {
            **meta,
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {**(meta.get("annotations") or {}), **annotations},
        },
    }


def _status(view: View, lws: Obj, key: Key, revision: str, now: str) -> tuple[dict[str, Any], list[Action]]:
    """Groups that are there, ready (leader and all workers), and of the newest revision."""
    leaders_set = view.get(Key(STATEFUL_SET, key.namespace, key.name))
    leaders = [] if leaders_set is None else _pods(view, leaders_set)
    ready = updated = both = 0
    for leader in leaders:
        workers = view.get(Key(STATEFUL_SET, key.namespace, leader["metadata"]["name"]))
        is_alone = size_of(lws) == 1
        if workers is None and not is_alone:
            continue
        is_up = (is_alone or _is_complete(workers)) and phase_of(leader) == RUNNING and is_ready(leader)
        is_new = labels_of(leader).get(REVISION) == revision
        ready, updated, both = ready + is_up, updated + is_new, both + (is_up and is_new)
    wanted = replicas_of(lws)
    if updated < min(len(leaders), wanted):
        state = "UpdateInProgress"
    else:
        state = "Available" if ready >= wanted and both >= wanted else "Progressing"
    before = lws.get("status") or {}
    conditions, is_news = _conditions(lws, before.get("conditions") or [], state, now)
    status = {
        **before,
        "replicas": len(leaders),
        "readyReplicas": ready,
        "updatedReplicas": updated,
        "hpaPodSelector": f"{SET_NAME}={key.name},{WORKER_INDEX}=0",
        "conditions": conditions,
    }
    if not is_news:
        return status, []
    reason, message = _PROGRESS[state]
    about = f"{message}, with {ready} groups ready of total {wanted} groups"
    return status, [event(key, reason, about, COMPONENT)]


def _pods(view: View, owner: Obj) -> list[Obj]:
    keys = [k for k in view.dependents(owner["metadata"]["uid"]) if k.gk == "Pod"]
    return [p for k in keys if (p := view.get(k)) is not None]


def _is_complete(workers: Obj | None) -> bool:
    if workers is None:
        return False
    status = workers.get("status") or {}
    return bool((status.get("readyReplicas") or 0) == workers["spec"]["replicas"])


def _conditions(
    lws: Obj, conditions: list[dict[str, Any]], state: str, now: str
) -> tuple[list[dict[str, Any]], bool]:
    """The conditions with this state's true and those it excludes false, and whether it was not so before."""
    wanted = [state] if state != "UpdateInProgress" else ["UpdateInProgress", "Progressing"]
    excluded = ["Available"] if state != "Available" else ["Progressing", "UpdateInProgress"]
    after = [
        {**c, "status": "False", "lastTransitionTime": now}
        if c["type"] in excluded and c["status"] == "True"
        else c
        for c in conditions
    ]
    is_news = False
    for type_ in wanted:
        present = next((c for c in after if c["type"] == type_), None)
        if present is not None and present["status"] == "True":
            continue
        reason, message = _PROGRESS[type_]
        made = {
            "type": type_,
            "status": "True",
            "reason": reason,
            "message": message,
            "observedGeneration": lws["metadata"].get("generation", 1),
            "lastTransitionTime": now,
        }
        after = [made if c is present else c for c in after] if present is not None else [*after, made]
        is_news = True
    return after, is_news


def map_change(view: View, change: Change) -> Sequence[Key]:
    """The set that changed; that of a StatefulSet or leader that bears its name."""
    if change.key.gk == LWS:
        return NO_KEYS if change.type == DELETED else (change.key,)
    name = labels_of(change.obj).get(SET_NAME)
    if name is None or (change.key.gk == "Pod" and not is_leader(change.obj)):
        return NO_KEYS
    return (Key(LWS, change.key.namespace, name),)


def set_of(view: View, pod: Obj) -> Obj | None:
    """The LeaderWorkerSet of one of its pods."""
    if not is_member(pod) or controller_of(pod) is None:
        return None
    return view.get(Key(LWS, pod["metadata"]["namespace"], labels_of(pod)[SET_NAME]))


CONTROLLER = Controller("leaderworkerset", LWS, (LWS, STATEFUL_SET, "Pod"), map_change, reconcile)
