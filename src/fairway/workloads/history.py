"""ControllerRevisions: the templates a StatefulSet or DaemonSet had, numbered.

Source: pkg/controller/history/controller_history.go (v1.36). The data is what a patch back to that template
would be: `{"spec": {"template": …, "$patch": "replace"}}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.cluster.actions import Action, Create, Delete, Patch, View
from fairway.kube.objects import Key, Obj
from fairway.workloads.claims import controlled
from fairway.workloads.podtemplate import owned_by, stable_hash

REVISION_KIND = "ControllerRevision.apps"
HASH_LABEL = "controller.kubernetes.io/hash"
POD_HASH_LABEL = "controller-revision-hash"

# API default. Source: pkg/apis/apps/v1/defaults.go.
DEFAULT_HISTORY_LIMIT = 10

# Room for `-` and the hash in a name. Source: controller_history.go ControllerRevisionName.
_MAX_PREFIX_LENGTH = 223


@dataclass(frozen=True, slots=True)
class History:
    """All revisions, oldest first; the one that matches the owner's template; what to write for it.

    `update` may be among the `actions` only: created by this decision.
    """

    revisions: tuple[Obj, ...]
    update: Obj
    collision_count: int
    actions: tuple[Action, ...] = ()


def data_of(owner: Obj) -> dict[str, Any]:
    template = (owner.get("spec") or {}).get("template") or {}
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def hash_of(revision: Obj) -> str:
    labels = revision["metadata"].get("labels") or {}
    return str(labels.get(HASH_LABEL) or labels.get(POD_HASH_LABEL) or "")


def template_of(revision: Obj) -> dict[str, Any]:
    template = revision["data"]["spec"]["template"]
    return {k: v for k, v in template.items() if k != "$patch"}


def read(view: View, owner: Obj, kind: str, *, hash_label: str) -> History:
    """The owner's history, with a revision for what it wants now: found, renumbered, or new."""
    revisions = sorted(
        controlled(view, owner["metadata"]["uid"], REVISION_KIND),
        key=lambda r: (r["revision"], r["metadata"]["creationTimestamp"], r["metadata"]["name"]),
    )
    data = data_of(owner)
    collisions = int((owner.get("status") or {}).get("collisionCount") or 0)
    equal = [r for r in revisions if r["data"] == data]
    if equal and equal[-1] is revisions[-1]:
        return History(tuple(revisions), equal[-1], collisions)
    number = revisions[-1]["revision"] + 1 if revisions else 1
    if equal:
        back = equal[-1]
        meta = back["metadata"]
        renumbered = {**back, "revision": number}
        patch = Patch(Key(REVISION_KIND, meta["namespace"], meta["name"]), {"revision": number})
        kept = [r for r in revisions if r is not back]
        return History((*kept, renumbered), renumbered, collisions, (patch,))
    made, collisions = _new(view, owner, kind, data, number, collisions, hash_label)
    return History((*revisions, made), made, collisions, (Create(made),))


def _new(
    view: View,
    owner: Obj,
    kind: str,
    data: dict[str, Any],
    number: int,
    collisions: int,
    hash_label: str,
) -> tuple[Obj, int]:
    meta = owner["metadata"]
    while True:
        digest = stable_hash(data, collisions)
        name = f"{meta['name'][:_MAX_PREFIX_LENGTH]}-{digest}"
        if view.get(Key(REVISION_KIND, meta["namespace"], name)) is None:
            break
        collisions += 1
    template_meta = ((owner.get("spec") or {}).get("template") or {}).get("metadata") or {}
    made: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {**(template_meta.get("labels") or {}), hash_label: digest},
            "ownerReferences": owned_by(owner, "apps/v1", kind),
        },
        "data": data,
        "revision": number,
    }
    if meta.get("annotations"):
        made["metadata"]["annotations"] = meta["annotations"]
    return made, collisions


def truncated(history: History, live: list[str], limit: int) -> list[Action]:
    """Deletions of the oldest revisions beyond the limit that neither owner nor pods still use.

    `live` holds names or hashes.
    """
    past = [
        r
        for r in history.revisions
        if r["metadata"]["name"] != history.update["metadata"]["name"]
        and r["metadata"]["name"] not in live
        and hash_of(r) not in live
    ]
    surplus = len(past) - limit
    if surplus <= 0:
        return []
    return [
        Delete(Key(REVISION_KIND, r["metadata"]["namespace"], r["metadata"]["name"]), r["metadata"]["uid"])
        for r in past[:surplus]
    ]
