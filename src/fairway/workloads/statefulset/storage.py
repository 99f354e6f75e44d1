"""Volume claims of a StatefulSet's pods: one per template and ordinal, kept or deleted with set or pod.

Source: pkg/controller/statefulset/stateful_set_utils.go, stateful_pod_control.go (v1.36); KEP-1847.
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import Action, Create, Patch, View
from fairway.kube.objects import Key, Obj
from fairway.workloads.controller import event
from fairway.workloads.podtemplate import owned_by

CLAIM = "PersistentVolumeClaim"
COMPONENT = "statefulset-controller"

DELETE = "Delete"


def _templates(owner: Obj) -> list[dict[str, Any]]:
    return (owner.get("spec") or {}).get("volumeClaimTemplates") or []


def claim_name(template: dict[str, Any], set_name: str, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{set_name}-{ordinal}"


def volumes_for(owner: Obj, ordinal: int, volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pod's volumes: a claim's takes the place of the template's volume of the same name."""
    set_name = owner["metadata"]["name"]
    claimed = {
        t["metadata"]["name"]: {
            "name": t["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(t, set_name, ordinal)},
        }
        for t in _templates(owner)
    }
    return [*claimed.values(), *(v for v in volumes if v.get("name") not in claimed)]


def missing_claims(view: View, key: Key, owner: Obj, pod: Obj, ordinal: int) -> list[Action]:
    """Create the claims this pod lacks."""
    actions: list[Action] = []
    meta = owner["metadata"]
    for template in _templates(owner):
        name = claim_name(template, meta["name"], ordinal)
        if view.get(Key(CLAIM, meta["namespace"], name)) is not None:
            continue
        given = template.get("metadata") or {}
        selector = ((owner.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
        claim_meta: dict[str, Any] = {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {**(given.get("labels") or {}), **selector},
        }
        if given.get("annotations"):
            claim_meta["annotations"] = given["annotations"]
        claim: Obj = {
            "apiVersion": "v1",
            "kind": CLAIM,
            "metadata": claim_meta,
            "spec": template.get("spec") or {},
        }
        actions.append(Create(claim))
        pod_name = pod["metadata"]["name"]
        message = f"create Claim {name} Pod {pod_name} in StatefulSet {meta['name']} success"
        actions.append(event(key, "SuccessfulCreate", message, COMPONENT))
    return actions


def retained(view: View, owner: Obj, pod: Obj, ordinal: int, *, is_condemned: bool) -> list[Action]:
    """Owner references of this pod's claims as persistentVolumeClaimRetentionPolicy wants them."""
    policy = (owner.get("spec") or {}).get("persistentVolumeClaimRetentionPolicy") or {}
    with_set = policy.get("whenDeleted") == DELETE
    with_pod = policy.get("whenScaled") == DELETE and is_condemned
    wanted: list[dict[str, Any]] = []
    if with_pod and "uid" in pod["metadata"]:
        wanted = owned_by(pod, "v1", "Pod")
    elif with_set:
        wanted = owned_by(owner, "apps/v1", "StatefulSet")
    ours = (owner["metadata"]["uid"], pod["metadata"].get("uid"))
    actions: list[Action] = []
    for template in _templates(owner):
        name = claim_name(template, owner["metadata"]["name"], ordinal)
        claim_key = Key(CLAIM, owner["metadata"]["namespace"], name)
        claim = view.get(claim_key)
        if claim is None:
            continue
        present = claim["metadata"].get("ownerReferences") or []
        references = [r for r in present if r.get("uid") not in ours] + wanted
        if references != present:
            actions.append(Patch(claim_key, {"metadata": {"ownerReferences": references or None}}))
    return actions


def has_stale_claim(view: View, owner: Obj, ordinal: int) -> bool:
    """Whether a claim still belongs to this ordinal's earlier pod: it goes first, then the pod comes."""
    meta = owner["metadata"]
    for template in _templates(owner):
        claim = view.get(Key(CLAIM, meta["namespace"], claim_name(template, meta["name"], ordinal)))
        if claim is None:
            continue
        for ref in claim["metadata"].get("ownerReferences") or ():
            if ref.get("kind") == "Pod" and view.by_uid(ref.get("uid", "")) is None:
                return True
    return False
