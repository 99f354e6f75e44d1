"""Going back: the history of a Deployment's rollouts, and the patch that returns to one of them.

Source: kubectl pkg/polymorphichelpers/rollback.go, history.go (v1.34).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Obj, annotations_of
from fairway.workloads import claims
from fairway.workloads.deployment.revisions import NOT_COPIED, find_new, revision_of, without_hash
from fairway.workloads.deployment.sets import REPLICA_SET

CHANGE_CAUSE = "kubernetes.io/change-cause"


@dataclass(frozen=True, slots=True)
class Undo:
    """A JSON patch of the Deployment, or none and the reason why nothing is done.

    `is_error`: kubectl fails with the message; otherwise it prints it.
    """

    patch: tuple[dict[str, Any], ...] = ()
    message: str = "rolled back"
    is_error: bool = False


def history(view: View, deployment: Obj) -> list[tuple[int, str]]:
    """(revision, change cause or `<none>`) of every ReplicaSet kept, oldest revision first."""
    sets = claims.controlled(view, deployment["metadata"]["uid"], REPLICA_SET)
    rows = {revision_of(s): annotations_of(s).get(CHANGE_CAUSE) or "<none>" for s in sets}
    return sorted(rows.items())


def undo(view: View, deployment: Obj, to_revision: int = 0) -> Undo:
    """The way back to a revision; 0: to the one before the latest."""
    if (deployment.get("spec") or {}).get("paused"):
        name = deployment["metadata"]["name"]
        message = (
            "you cannot rollback a paused deployment; resume it first with "
            f"'kubectl rollout resume deployment/{name}' and try again"
        )
        return Undo(message=message, is_error=True)
    sets = claims.controlled(view, deployment["metadata"]["uid"], REPLICA_SET)
    target = _revision(deployment, sets, to_revision)
    if target is None:
        if to_revision > 0:
            message = f"unable to find specified revision {to_revision} in history"
        else:
            message = "no rollout history found for deployment " + f'"{deployment["metadata"]["name"]}"'
        return Undo(message=message, is_error=True)
    template = without_hash(target["spec"]["template"])
    if template == without_hash(deployment["spec"].get("template") or {}):
        number = revision_of(target)
        return Undo(message=f"skipped rollback (current template already matches revision {number})")
    own, others = annotations_of(deployment), annotations_of(target)
    annotations = {k: own[k] for k in NOT_COPIED if k in own}
    annotations.update({k: v for k, v in others.items() if k not in NOT_COPIED})
    return Undo(
        (
            {"op": "replace", "path": "/spec/template", "value": template},
            {"op": "replace", "path": "/metadata/annotations", "value": annotations},
        )
    )


def _revision(deployment: Obj, sets: list[Obj], to_revision: int) -> Obj | None:
    if to_revision > 0:
        return next((s for s in sets if revision_of(s) == to_revision), None)
    latest = find_new(deployment, sets)
    earlier = [s for s in sets if latest is None or s["metadata"]["uid"] != latest["metadata"]["uid"]]
    return max(earlier, key=revision_of, default=None)
