"""Where may a pod be for the sake of its volumes? The zones of PersistentVolumes, and of StorageClasses without one.

Each volume allows alternatives (terms are OR'd); those of several volumes are combined. They bind the node, not the
pod's own affinity, so that spreads count as before.

Source: pkg/controllers/provisioning/scheduling/volumetopology.go; pkg/utils/volume/volume.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, annotations_of, meta_of, name_of, namespace_of, spec_of
from fairway.kube.volumes import BIND_COMPLETED, CLAIM, CLASS, VOLUME, claims_of, is_lost
from fairway.provisioning.karpenter.labels import HOSTNAME
from fairway.provisioning.karpenter.requirements import Requirements, selector_requirements
from fairway.provisioning.karpenter.why import wrapped

WATCHED: Final = (CLAIM, VOLUME, CLASS)

Alternatives = tuple[Requirements, ...]


def volume_alternatives(view: View, pod: Obj) -> Alternatives:
    """Requirements of which one has to hold; none: the volumes have no say."""
    found: list[Requirements] = []
    for claim in _claims(view, pod):
        terms = _of_claim(view, claim)
        if terms:
            found = _combined(found, terms) if found else list(terms)
    return tuple(found)


def _claims(view: View, pod: Obj) -> Iterator[Obj]:
    for name in claims_of(pod):
        claim = view.get(Key(CLAIM, namespace_of(pod), name))
        if claim is not None:
            yield claim


def _combined(found: Sequence[Requirements], terms: Sequence[Requirements]) -> list[Requirements]:
    """Both wishes, wherever they go together; where none do all combinations, of which none will be met."""
    pairs = [(a, b) for a in found for b in terms]
    together = [(a, b) for a, b in pairs if a.conflict(b) is None]
    return [a.plus(b) for a, b in together or pairs]


def _of_claim(view: View, claim: Obj) -> list[Requirements]:
    spec = spec_of(claim)
    if spec.get("volumeName"):
        volume = view.get(Key(VOLUME, "", spec["volumeName"]))
        return [] if volume is None else _of_volume(volume)
    storage = view.get(Key(CLASS, "", spec.get("storageClassName") or ""))
    if storage is None:
        return []
    terms = (t.get("matchLabelExpressions") or () for t in storage.get("allowedTopologies") or ())
    return [selector_requirements([{**e, "operator": "In"} for e in term]) for term in terms if term]


def _of_volume(volume: Obj) -> list[Requirements]:
    """A disk of one machine binds no pod to that machine's name: on another it will be another disk."""
    spec = spec_of(volume)
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    is_of_node = spec.get("local") is not None or spec.get("hostPath") is not None
    found = []
    for term in required.get("nodeSelectorTerms") or ():
        asked = list(term.get("matchExpressions") or ())
        if not asked:
            continue
        kept = [e for e in asked if not (is_of_node and e.get("key") == HOSTNAME)]
        found.append(selector_requirements(kept))
    return found


def claim_problem(view: View, pod: Obj) -> str:
    """Why nothing is opened for a pod because of its claims, in Karpenter's words; empty: they are in order.

    Source: ValidatePersistentVolumeClaims.
    """
    for name in claims_of(pod):
        claim = view.get(Key(CLAIM, namespace_of(pod), name))
        problem = _missing(name) if claim is None else _problem(view, claim)
        if problem:
            return problem
    return ""


def _missing(name: str) -> str:
    missing = f'getting persistent volume claim, persistentvolumeclaims "{name}" not found'
    return wrapped(missing, PersistentVolumeClaim=name)


def _problem(view: View, claim: Obj) -> str:
    spec, about = spec_of(claim), f"{namespace_of(claim)}/{name_of(claim)}"
    volume, storage = spec.get("volumeName") or "", spec.get("storageClassName") or ""
    if "deletionTimestamp" in meta_of(claim):
        return wrapped("persistentvolumeclaim is being deleted", PersistentVolumeClaim=about)
    if is_lost(claim):
        return wrapped(
            "persistentvolumeclaim bound to non-existent persistentvolume",
            PersistentVolumeClaim=about,
            PersistentVolume=volume,
        )
    if volume:
        why = _volume_problem(view, volume)
        if why:
            return wrapped(
                f"failed to validate pvc, {why}",
                PersistentVolumeClaim=about,
                PersistentVolume=volume,
                StorageClass=storage,
            )
        if BIND_COMPLETED not in annotations_of(claim):
            return wrapped(
                "pvc is considered unbound because it does not contain annotation",
                annotation=BIND_COMPLETED,
                PersistentVolumeClaim=name_of(claim),
                PersistentVolume=volume,
            )
        return ""
    if not storage:
        return wrapped(
            "unbound pvc must define a storage class", PersistentVolumeClaim=about, StorageClass=storage
        )
    found = view.get(Key(CLASS, "", storage))
    if found is None:
        missing = f'storageclasses.storage.k8s.io "{storage}" not found'
        return wrapped(
            f"failed to validate pvc, failed to get storage class, {missing}",
            PersistentVolumeClaim=about,
            StorageClass=storage,
        )
    if found.get("volumeBindingMode") in (None, "Immediate"):
        return wrapped(
            "failed to validate pvc, pvc with immediate volume binding mode must be bound",
            PersistentVolumeClaim=about,
            StorageClass=storage,
        )
    return ""


def _volume_problem(view: View, name: str) -> str:
    volume = view.get(Key(VOLUME, "", name))
    if volume is None:
        return f'persistentvolumes "{name}" not found'
    return "persistentvolume is being deleted" if "deletionTimestamp" in meta_of(volume) else ""
