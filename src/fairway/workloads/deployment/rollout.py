"""The Deployment controller's decision.

Source: pkg/controller/deployment/deployment_controller.go syncDeployment, sync.go, recreate.go (v1.36).

Unlike kube: where upstream writes, returns and is woken by its own write, this goes on with what it has
decided; the same writes happen, in fewer steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Delete,
    Patch,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj, annotations_of
from fairway.workloads import claims, pods
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, is_desire_changed, owner_key
from fairway.workloads.deployment import revisions, rolling, scaling, status
from fairway.workloads.deployment.sets import (
    COMPONENT,
    DEPLOYMENT,
    NO_LIMIT,
    REPLICA_SET,
    REVISION,
    Rollout,
    sized,
    wishes_of,
    writes,
)
from fairway.workloads.deployment.status import Status


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one Deployment. O(its ReplicaSets)."""
    deployment = view.get(key)
    if deployment is None:
        return NOTHING_TO_DO
    if not claims.selector_of(deployment).requirements:
        message = "This deployment is selecting all pods. A non-empty selector is required."
        return Reconciliation((event(key, "SelectingAll", message, COMPONENT, WARNING),))
    claimed = claims.claim(view, deployment, "apps/v1", "Deployment", REPLICA_SET)
    found = revisions.find_new(deployment, claimed.objects)
    rollout = Rollout(
        key,
        deployment,
        wishes_of(deployment),
        old=[sized(s) for s in claimed.objects if s is not found],
        new=None if found is None else sized(found),
    )
    before: Status = deployment.get("status") or {}
    now: Status = dict(before)
    actions: list[Action] = list(claimed.actions)
    if "deletionTimestamp" in deployment["metadata"]:
        return _status_only(rollout, before, now, actions, now_us)
    status.pause_or_resume(rollout, now, now_us)
    if rollout.new is not None:
        _take_over(rollout, now, now_us)
    if rollout.wishes.is_paused or scaling.is_scaling_event(rollout):
        scaling.share_out(rollout)
        now = status.counted(rollout, now, now_us)
        cleaned = _surplus_history(rollout) if rollout.wishes.is_paused else []
    else:
        _roll(view, rollout, now, now_us)
        now = status.counted(rollout, now, now_us)
        status.estimate_progress(rollout, before, now, now_us)
        status.carry_failures(rollout, now, now_us)
        cleaned = _surplus_history(rollout) if status.is_complete(rollout, now) else []
    actions += writes(rollout)
    actions += rollout.events
    actions += cleaned
    actions += _revision_patch(rollout)
    if now != before:
        actions.append(SetStatus(key, now))
    again = status.next_check_us(rollout, now)
    return Reconciliation(tuple(actions), again)


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After the creation of a ReplicaSet was refused."""
    deployment = view.get(key)
    if deployment is None:
        return NOTHING_TO_DO
    rollout = Rollout(key, deployment, wishes_of(deployment), old=[])
    born, _ = revisions.new_born(view, rollout)
    why = f'Failed to create new replica set "{born.name}": {message}'
    actions: list[Action] = [event(key, "ReplicaSetCreateError", why, COMPONENT, WARNING)]
    now: Status = dict(deployment.get("status") or {})
    if rollout.wishes.has_deadline:
        status.put(now, status.made("Progressing", "False", "ReplicaSetCreateError", why, now_us))
    if now != (deployment.get("status") or {}):
        actions.append(SetStatus(key, now))
    return Reconciliation(tuple(actions), now_us + pods.RETRY_REFUSED_US)


def _status_only(
    rollout: Rollout, before: Status, now: Status, actions: list[Action], now_us: int
) -> Reconciliation:
    now = status.counted(rollout, now, now_us)
    if now != before:
        actions.append(SetStatus(rollout.key, now))
    return Reconciliation(tuple(actions))


def _take_over(rollout: Rollout, now: Status, now_us: int) -> None:
    """Keep the existing new ReplicaSet's annotations and minReadySeconds in step."""
    new = rollout.new
    if new is None:
        return
    revisions.annotate_new(rollout, new)
    new.min_ready_s = rollout.wishes.min_ready_s
    if rollout.wishes.has_deadline and status.condition_of(now, "Progressing") is None:
        message = f'Found new replica set "{new.name}"'
        status.put(now, status.made("Progressing", "True", "FoundNewReplicaSet", message, now_us))


def _roll(view: View, rollout: Rollout, now: Status, now_us: int) -> None:
    """One step of the rollout: up, else down. Recreate waits for the last old pod in between."""
    if rollout.wishes.is_rolling:
        if rollout.new is None:
            _give_birth(view, rollout, now, now_us)
        elif not rolling.scale_new(rollout, rollout.new):
            rolling.scale_old(rollout, rollout.new)
        return
    if rolling.stop_old(rollout) or _has_old_pods(view, rollout):
        return
    if rollout.new is None:
        _give_birth(view, rollout, now, now_us)
    else:
        rolling.scale_new(rollout, rollout.new)


def _has_old_pods(view: View, rollout: Rollout) -> bool:
    for old in rollout.old:
        for pod in claims.controlled(view, old.obj["metadata"]["uid"]):
            if not pods.is_terminal(pod):
                return True
    return False


def _give_birth(view: View, rollout: Rollout, now: Status, now_us: int) -> None:
    """Create the new ReplicaSet, at the size maxSurge leaves room for at once."""
    born, collisions = revisions.new_born(view, rollout)
    if collisions:
        now["collisionCount"] = collisions
    size = rolling.new_size(rollout.wishes, rollout.old, born)
    revisions.annotate_new(rollout, born)
    rollout.new = born
    if size > 0:
        message = f"Scaled up replica set {born.name} from 0 to {size}"
        rollout.events.append(event(rollout.key, "ScalingReplicaSet", message, COMPONENT))
        born.replicas = size
    if rollout.wishes.has_deadline:
        message = f'Created new replica set "{born.name}"'
        status.put(now, status.made("Progressing", "True", "NewReplicaSetCreated", message, now_us))


def _revision_patch(rollout: Rollout) -> list[Action]:
    """The Deployment carries its new ReplicaSet's revision."""
    if rollout.new is None:
        return []
    number = rollout.new.annotations.get(REVISION)
    if number is None or annotations_of(rollout.deployment).get(REVISION) == number:
        return []
    return [Patch(rollout.key, {"metadata": {"annotations": {REVISION: number}}})]


def _surplus_history(rollout: Rollout) -> list[Action]:
    """Delete the oldest revisions beyond revisionHistoryLimit that have no pods left."""
    limit = rollout.wishes.history_limit
    alive = [s for s in rollout.old if "deletionTimestamp" not in s.obj["metadata"]]
    surplus = len(alive) - limit
    if limit == NO_LIMIT or surplus <= 0:
        return []
    alive.sort(key=lambda s: (revisions.revision_number(s.annotations.get(REVISION, "")), s.age_order))
    actions: list[Action] = []
    for one in alive[:surplus]:
        meta = one.obj["metadata"]
        is_seen = one.status.get("observedGeneration", 0) >= meta.get("generation", 0)
        if one.status.get("replicas", 0) == 0 and one.replicas == 0 and is_seen:
            actions.append(Delete(Key(REPLICA_SET, meta["namespace"], meta["name"]), meta["uid"]))
    return actions


def map_change(view: View, change: Change) -> Sequence[Key]:
    """A Deployment whose wishes changed; the Deployment of a ReplicaSet that changed in any way."""
    if change.key.gk == DEPLOYMENT:
        return (change.key,) if is_desire_changed(change) else NO_KEYS
    owner = _owner(change.obj)
    before = None if change.old is None else _owner(change.old)
    return tuple(k for k in dict.fromkeys((owner, before)) if k is not None)


def _owner(replica_set: Obj) -> Key | None:
    return owner_key(replica_set, "Deployment", "apps", DEPLOYMENT)


CONTROLLER = Controller("deployment", DEPLOYMENT, (DEPLOYMENT, REPLICA_SET), map_change, reconcile, refused)
