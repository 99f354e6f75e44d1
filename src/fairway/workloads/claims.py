"""Whose pods are these? Adopting what matches a selector and has no owner, letting go of what no longer matches.

Owners look for orphans when they are new or their wishes changed; an orphan that turns up later is brought to them by
`adoption`.

Source: pkg/controller/controller_ref_manager.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.cluster.actions import Action, Patch, View
from fairway.kube.labels import Selector, label_selector
from fairway.kube.objects import Key, Obj, controller_of, labels_of, spec_of, status_of
from fairway.workloads.podtemplate import owned_by


class Claim(NamedTuple):
    """`objects`: what the owner has once `actions` (adoptions and releases) are carried out, by name."""

    objects: list[Obj]
    actions: list[Action]


def controlled(view: View, uid: str, gk: str = "Pod") -> list[Obj]:
    """The objects of a kind whose controller this is, ordered by name. O(dependents)."""
    found = []
    for key in view.dependents(uid):
        if key[0] != gk:
            continue
        obj = view.get(key)
        if obj is None:
            continue
        owner = controller_of(obj)
        if owner is not None and owner.get("uid") == uid:
            found.append(obj)
    return found


def selector_of(owner: Obj) -> Selector:
    return label_selector(spec_of(owner).get("selector"))


def claim(view: View, owner: Obj, api_version: str, kind: str, gk: str = "Pod") -> Claim:
    """What this owner controls, adopting orphans where its wishes are new to its controller."""
    meta: Obj = owner["metadata"]
    selector = selector_of(owner)
    mine = controlled(view, meta["uid"], gk)
    if "deletionTimestamp" in meta:
        return Claim(mine, [])
    kept: list[Obj] = []
    actions: list[Action] = []
    for obj in mine:
        if selector.matches(labels_of(obj)):
            kept.append(obj)
        else:
            actions.append(release(obj, gk, meta["uid"]))
    if status_of(owner).get("observedGeneration") != meta.get("generation"):
        adopted = [o for o in view.orphans(gk, meta["namespace"]) if is_adoptable(o, selector)]
        actions.extend(adopt(o, gk, owner, api_version, kind) for o in adopted)
        if adopted:
            kept = sorted([*kept, *adopted], key=lambda o: o["metadata"]["name"])
    return Claim(kept, actions)


def is_adoptable(obj: Obj, selector: Selector) -> bool:
    """No controller, not being deleted, and the labels match. A selector without terms adopts nothing."""
    if not selector.requirements or selector.nothing or "deletionTimestamp" in obj["metadata"]:
        return False
    return controller_of(obj) is None and selector.matches(labels_of(obj))


def adopt(obj: Obj, gk: str, owner: Obj, api_version: str, kind: str) -> Patch:
    meta: Obj = obj["metadata"]
    references = [*(meta.get("ownerReferences") or ()), *owned_by(owner, api_version, kind)]
    return Patch(Key(gk, meta["namespace"], meta["name"]), {"metadata": {"ownerReferences": references}})


def release(obj: Obj, gk: str, owner_uid: str) -> Patch:
    meta: Obj = obj["metadata"]
    references = [r for r in meta.get("ownerReferences") or () if r.get("uid") != owner_uid]
    patch = {"metadata": {"ownerReferences": references or None}}
    return Patch(Key(gk, meta["namespace"], meta["name"]), patch)
