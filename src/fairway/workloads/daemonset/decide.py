"""The DaemonSet controller's decision.

Source: pkg/controller/daemon/daemon_controller.go syncDaemonSet, podsShouldBeOnNode, updateDaemonSetStatus
(v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Create,
    Delete,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, name_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.workloads import claims, history, pods
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, is_desire_changed, owner_key
from fairway.workloads.daemonset import rolling
from fairway.workloads.daemonset.daemonpods import (
    TEMPLATE_GENERATION_ANNOTATION,
    is_updated,
    new_pod,
    target_node,
)
from fairway.workloads.daemonset.placement import NO, Answer, ask, placement_of
from fairway.workloads.history import DEFAULT_HISTORY_LIMIT, POD_HASH_LABEL, hash_of
from fairway.workloads.podchanges import is_relevant
from fairway.workloads.podtemplate import fresh_names, generate_name_prefix

DAEMON_SET = "DaemonSet.apps"
COMPONENT = "daemonset-controller"

# Source: BurstReplicas, pkg/controller/daemon/daemon_controller.go (v1.36).
BURST_REPLICAS = 250

# A failed pod is replaced at once if it lived this long, and not before it is this old otherwise.
# Unlike kube: upstream keeps a back-off per node in memory, doubling from 1 s to 15 min.
MIN_FAILED_AGE_US = 60 * SECOND_US


@dataclass(slots=True)
class Daemon:
    """One DaemonSet while it is decided about. Pods are grouped by the node they are on or meant for."""

    key: Key
    owner: Obj
    nodes: list[Obj]
    answers: dict[str, Answer]
    by_node: dict[str, list[Obj]]
    revision: rolling.Revision
    delete: list[Obj] = field(default_factory=list)
    create: list[str] = field(default_factory=list)
    events: list[Action] = field(default_factory=list)
    again_at_us: int | None = None

    @property
    def spec(self) -> dict[str, Any]:
        return self.owner.get("spec") or {}

    @property
    def desired(self) -> int:
        return sum(a.should_run for a in self.answers.values())


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one DaemonSet. O(nodes + its pods)."""
    owner = view.get(key)
    if owner is None or "deletionTimestamp" in owner["metadata"]:
        return NOTHING_TO_DO
    if not claims.selector_of(owner).requirements:
        message = "This daemon set is selecting all pods. A non-empty selector is required."
        return Reconciliation((event(key, "SelectingAll", message, COMPONENT, WARNING),))
    claimed = claims.claim(view, owner, "apps/v1", "DaemonSet")
    past = history.read(view, owner, "DaemonSet", hash_label=POD_HASH_LABEL)
    daemon = _gather(view, key, owner, claimed.objects, hash_of(past.update), now_us)
    for node in daemon.nodes:
        _on_node(daemon, name_of(node))
    _drop_stranded(daemon)
    strategy = (daemon.spec.get("updateStrategy") or {}).get("type", "RollingUpdate")
    if strategy == "RollingUpdate" and not daemon.delete and not daemon.create:
        _roll(daemon)
    actions: list[Action] = [*claimed.actions, *past.actions, *daemon.events]
    _carry_out(view, daemon, actions)
    live = [labels_of(p).get(POD_HASH_LABEL, "") for p in claimed.objects]
    limit = daemon.spec.get("revisionHistoryLimit")
    actions += history.truncated(past, live, DEFAULT_HISTORY_LIMIT if limit is None else limit)
    status = _next_status(daemon, past.collision_count)
    if status != (owner.get("status") or {}):
        actions.append(SetStatus(key, status))
    again = _next_look(daemon, claimed.objects, now_us)
    return Reconciliation(tuple(actions), again)


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After the creation of a pod was refused: say so, count what is there, try again later."""
    owner = view.get(key)
    if owner is None:
        return NOTHING_TO_DO
    actions: list[Action] = [event(key, "FailedCreate", f"Error creating: {message}", COMPONENT, WARNING)]
    past = history.read(view, owner, "DaemonSet", hash_label=POD_HASH_LABEL)
    found = claims.controlled(view, owner["metadata"]["uid"])
    daemon = _gather(view, key, owner, found, hash_of(past.update), now_us)
    status = _next_status(daemon, past.collision_count)
    if status != (owner.get("status") or {}):
        actions.append(SetStatus(key, status))
    return Reconciliation(tuple(actions), now_us + pods.RETRY_REFUSED_US)


def _gather(view: View, key: Key, owner: Obj, found: list[Obj], digest: str, now_us: int) -> Daemon:
    placement = placement_of(owner)
    nodes = view.objects("Node")
    by_node: dict[str, list[Obj]] = {}
    for pod in found:
        # One that has ended and is being removed concerns nobody any more.
        if pods.is_terminal(pod) and pods.is_deleting(pod):
            continue
        node = target_node(pod)
        if node:
            by_node.setdefault(node, []).append(pod)
    revision = rolling.Revision(
        digest,
        annotations_of(owner).get(TEMPLATE_GENERATION_ANNOTATION),
        (owner.get("spec") or {}).get("minReadySeconds") or 0,
        now_us,
    )
    answers = {name_of(n): ask(placement, n) for n in nodes}
    return Daemon(key, owner, nodes, answers, by_node, revision)


def _on_node(daemon: Daemon, node: str) -> None:
    """Create the pod that is missing, delete those that should not be there."""
    answer = daemon.answers.get(node, NO)
    present = daemon.by_node.get(node)
    if answer.should_run and not present:
        daemon.create.append(node)
    elif answer.may_continue:
        running = [p for p in present or () if not pods.is_deleting(p) and not _drop_ended(daemon, p, node)]
        if rolling.is_surging(daemon.spec):
            _prune_surging(daemon, running, node, answer)
        elif len(running) > 1:
            daemon.delete.extend(sorted(running, key=_oldest_first)[1:])
    elif present:
        daemon.delete.extend(p for p in present if not pods.is_deleting(p))


def _drop_ended(daemon: Daemon, pod: Obj, node: str) -> bool:
    """A daemon pod that ended is deleted, so that the next look creates another."""
    if not pods.is_terminal(pod):
        return False
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if pods.phase_of(pod) == pods.SUCCEEDED:
        message = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
        daemon.events.append(event(daemon.key, "SucceededDaemonPod", message, COMPONENT))
        daemon.delete.append(pod)
        return True
    ripe = parse_rfc3339(pod["metadata"]["creationTimestamp"]) + MIN_FAILED_AGE_US
    if ripe > daemon.revision.now_us:
        daemon.again_at_us = ripe if daemon.again_at_us is None else min(ripe, daemon.again_at_us)
        return True
    message = f"Found failed daemon pod {name} on node {node}, will try to kill it"
    daemon.events.append(event(daemon.key, "FailedDaemonPod", message, COMPONENT, WARNING))
    daemon.delete.append(pod)
    return True


def _prune_surging(daemon: Daemon, running: list[Obj], node: str, answer: Answer) -> None:
    """With surge a node may have two pods: the old one until the new one is available."""
    if not running:
        has_failed = any(pods.is_terminal(p) for p in daemon.by_node.get(node) or ())
        if answer.should_run and not has_failed:
            daemon.create.append(node)
        return
    if len(running) == 1:
        return
    new: Obj | None = None
    old: Obj | None = None
    for pod in sorted(running, key=_oldest_first):
        is_new = labels_of(pod).get(POD_HASH_LABEL) == daemon.revision.digest
        if is_new and new is None:
            new = pod
        elif not is_new and old is None:
            old = pod
        else:
            daemon.delete.append(pod)
    if new is not None and old is not None and (not pods.is_ready(old) or daemon.revision.is_available(new)):
        daemon.delete.append(old)


def _oldest_first(pod: Obj) -> tuple[bool, str, str]:
    """Scheduled ones first, then by age."""
    return (not pods.node_of(pod), pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])


def _drop_stranded(daemon: Daemon) -> None:
    """Pods meant for a node that is gone will never be scheduled."""
    for node in sorted(daemon.by_node):
        if node not in daemon.answers:
            stranded = daemon.by_node[node]
            daemon.delete.extend(p for p in stranded if not pods.node_of(p) and not pods.is_deleting(p))


def _roll(daemon: Daemon) -> None:
    """One step of a rolling update, once every node has what it should."""
    desired = daemon.desired
    limits = rolling.limits_of(daemon.spec, desired)
    if limits.max_surge == 0:
        turnover = rolling.replace(daemon.by_node, daemon.revision, limits)
    else:
        turnover = rolling.surge(daemon.by_node, daemon.answers, daemon.revision, limits, desired)
    daemon.delete.extend(turnover.delete)
    daemon.create.extend(turnover.surge)


def _carry_out(view: View, daemon: Daemon, actions: list[Action]) -> None:
    meta = daemon.owner["metadata"]
    prefix = generate_name_prefix(meta["name"])
    names = fresh_names(view, "Pod", meta["namespace"], prefix, meta["uid"])
    for node in daemon.create[:BURST_REPLICAS]:
        name = next(names)
        actions.append(Create(new_pod(daemon.owner, node, daemon.revision.digest, name)))
        actions.append(event(daemon.key, "SuccessfulCreate", f"Created pod: {name}", COMPONENT))
    for pod in daemon.delete[:BURST_REPLICAS]:
        pod_meta = pod["metadata"]
        actions.append(Delete(Key("Pod", pod_meta["namespace"], pod_meta["name"]), pod_meta["uid"]))
        message = f"Deleted pod: {pod_meta['name']}"
        actions.append(event(daemon.key, "SuccessfulDelete", message, COMPONENT))
    if max(len(daemon.create), len(daemon.delete)) > BURST_REPLICAS:
        daemon.again_at_us = daemon.revision.now_us


def _next_status(daemon: Daemon, collision_count: int) -> dict[str, Any]:
    """Counts of the pods that were there; each node counts by its oldest pod."""
    desired = current = misscheduled = ready = available = updated = 0
    for node, answer in daemon.answers.items():
        present = daemon.by_node.get(node)
        if not answer.should_run:
            misscheduled += bool(present)
            continue
        desired += 1
        if not present:
            continue
        current += 1
        oldest = min(present, key=_oldest_first)
        if pods.is_ready(oldest):
            ready += 1
            available += daemon.revision.is_available(oldest)
        updated += is_updated(oldest, daemon.revision.digest, daemon.revision.generation)
    status = {
        "currentNumberScheduled": current,
        "numberMisscheduled": misscheduled,
        "desiredNumberScheduled": desired,
        "numberReady": ready,
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": desired - available,
        "observedGeneration": daemon.owner["metadata"].get("generation", 0),
    }
    if collision_count:
        status["collisionCount"] = collision_count
    always = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    return {k: v for k, v in status.items() if v or k in always}


def _next_look(daemon: Daemon, found: list[Obj], now_us: int) -> int | None:
    ripens = pods.next_available_us(found, daemon.revision.min_ready_s, now_us)
    return min((t for t in (daemon.again_at_us, ripens) if t is not None), default=None)


def map_change(view: View, change: Change) -> Sequence[Key]:
    """Its own wishes, its pods, its revisions, and nodes whose labels or taints change the answer."""
    gk = change.key.gk
    if gk == DAEMON_SET:
        return (change.key,) if is_desire_changed(change) else NO_KEYS
    if gk == "Node":
        return _concerned_by_node(view, change)
    if gk == "Pod" and not is_relevant(change):
        return NO_KEYS
    now = owner_key(change.obj, "DaemonSet", "apps", DAEMON_SET)
    before = None if change.old is None else owner_key(change.old, "DaemonSet", "apps", DAEMON_SET)
    return tuple(k for k in dict.fromkeys((now, before)) if k is not None)


def _concerned_by_node(view: View, change: Change) -> list[Key]:
    old = change.old
    if change.type == MODIFIED and old is not None:
        old_taints = (old.get("spec") or {}).get("taints")
        if labels_of(old) == labels_of(change.obj) and old_taints == (change.obj.get("spec") or {}).get(
            "taints"
        ):
            return []
    concerned = []
    for owner in view.objects(DAEMON_SET):
        placement = placement_of(owner)
        before = NO if old is None else ask(placement, old)
        now = NO if change.type == DELETED else ask(placement, change.obj)
        if now != before:
            concerned.append(Key(DAEMON_SET, owner["metadata"]["namespace"], owner["metadata"]["name"]))
    return concerned


CONTROLLER = Controller(
    "daemonset",
    DAEMON_SET,
    (DAEMON_SET, "Pod", "Node", history.REVISION_KIND),
    map_change,
    reconcile,
    refused,
    slow_start=True,
)
