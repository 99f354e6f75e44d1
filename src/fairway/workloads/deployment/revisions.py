"""Which ReplicaSet is the new one, what is it called, and which revision is it?

Source: pkg/controller/deployment/sync.go getNewReplicaSet; util SetNewReplicaSetAnnotations,
EqualIgnoreHash, FindNewReplicaSet (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import View
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, annotations_of, labels_of
from fairway.workloads.deployment.sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REPLICA_SET,
    REVISION,
    REVISION_HISTORY,
    TEMPLATE_HASH,
    Rollout,
    Sized,
    remember_size,
)
from fairway.workloads.podtemplate import owned_by, stable_hash

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
DEPRECATED_ROLLBACK_TO = "deprecated.deployment.rollback.to"

# Annotations of a Deployment that its ReplicaSets do not get, nor give back on undo.
NOT_COPIED = (
    LAST_APPLIED,
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    DEPRECATED_ROLLBACK_TO,
)

# Source: maxRevHistoryLengthInChars, pkg/controller/deployment/sync.go (v1.36).
MAX_REVISION_HISTORY_CHARS = 2000


def revision_of(obj: Obj) -> int:
    """0: none, or not a number."""
    return revision_number(annotations_of(obj).get(REVISION, ""))


def revision_number(text: str) -> int:
    return natural(text) or 0


def without_hash(template: dict[str, Any]) -> dict[str, Any]:
    """A pod template without the label that tells ReplicaSets apart."""
    meta = template.get("metadata") or {}
    labels = meta.get("labels") or {}
    if TEMPLATE_HASH not in labels:
        return template
    kept = {k: v for k, v in labels.items() if k != TEMPLATE_HASH}
    return {**template, "metadata": {**meta, "labels": kept}}


def collision_count(deployment: Obj) -> int:
    return int((deployment.get("status") or {}).get("collisionCount") or 0)


def find_new(deployment: Obj, sets: list[Obj]) -> Obj | None:
    """The oldest ReplicaSet with the Deployment's template, or the one made for it.

    Unlike kube: one that bears the template's hash counts too. Its own template may have gained the API's
    defaults on its way in where the Deployment's did not.
    """
    template = (deployment.get("spec") or {}).get("template") or {}
    wanted = without_hash(template)
    for one in sorted(sets, key=lambda s: (s["metadata"]["creationTimestamp"], s["metadata"]["name"])):
        if without_hash((one.get("spec") or {}).get("template") or {}) == wanted:
            return one
    made_for = stable_hash(template, collision_count(deployment))
    return next((s for s in sets if labels_of(s).get(TEMPLATE_HASH) == made_for), None)


def new_born(view: View, rollout: Rollout) -> tuple[Sized, int]:
    """The ReplicaSet to create, with no replicas yet, and the collision count its name took."""
    deployment = rollout.deployment
    meta, spec = deployment["metadata"], deployment["spec"]
    template = spec.get("template") or {}
    collisions = collision_count(deployment)
    while True:
        digest = stable_hash(template, collisions)
        key = Key(REPLICA_SET, meta["namespace"], f"{meta['name']}-{digest}")
        if not _is_taken(view, key):
            break
        collisions += 1
    template_meta = template.get("metadata") or {}
    labels = {**(template_meta.get("labels") or {}), TEMPLATE_HASH: digest}
    selector = spec.get("selector") or {}
    match_labels = {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: digest}
    obj: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": key.name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": owned_by(deployment, "apps/v1", "Deployment"),
        },
        "spec": {
            "replicas": 0,
            "selector": {**selector, "matchLabels": match_labels},
            "template": {**template, "metadata": {**template_meta, "labels": labels}},
        },
    }
    if rollout.wishes.min_ready_s:
        obj["spec"]["minReadySeconds"] = rollout.wishes.min_ready_s
    born = Sized(obj, 0, {}, rollout.wishes.min_ready_s, is_new_born=True)
    return born, collisions


def _is_taken(view: View, key: Key) -> bool:
    return view.get(key) is not None


def annotate_new(rollout: Rollout, new: Sized) -> None:
    """The Deployment's annotations, and the next revision number if its own is not the highest already."""
    for name, value in annotations_of(rollout.deployment).items():
        if name not in NOT_COPIED:
            new.annotations[name] = value
    number = max((revision_number(s.annotations.get(REVISION, "")) for s in rollout.old), default=0) + 1
    before = new.annotations.get(REVISION)
    if revision_number(before or "") < number:
        new.annotations[REVISION] = str(number)
        if before is not None:
            _keep_history(new, before)
    if new.is_new_born:
        remember_size(rollout, new)


def _keep_history(new: Sized, before: str) -> None:
    """A ReplicaSet rolled back to keeps the numbers it had; the oldest go when there are too many."""
    history = [r for r in new.annotations.get(REVISION_HISTORY, "").split(",") if r]
    length = len(",".join(history)) + len(before) + 1
    while history and length > MAX_REVISION_HISTORY_CHARS:
        length -= len(history.pop(0)) + 1
    new.annotations[REVISION_HISTORY] = ",".join([*history, before])
