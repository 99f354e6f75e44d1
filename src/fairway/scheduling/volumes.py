"""Which nodes may a pod go to for the sake of its volumes, and what must be done about its claims there?

`look` is what PreFilter finds of the pod's claims; `VolumeFilter` judges every node; `plan` says which claims are bound
to which volumes, and which are provisioned, once a node is chosen. Only pods with claims come here.

Unlike kube: of a node that fails for bound and for unbound claims the first is told. In-tree volumes named in a pod
itself (disks, iSCSI, RBD) and CSIStorageCapacity are not looked at.

Source: pkg/scheduler/framework/plugins/{volumerestrictions,nodevolumelimits,volumebinding,volumezone} (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.actions import View
from fairway.cluster.records import PodRecord
from fairway.kube.labels import IN, Requirement
from fairway.kube.nodeselection import Term, node_selector_terms
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, meta_of, name_of, spec_of
from fairway.kube.volumes import CLAIM, VOLUME, is_fully_bound, is_lost, name_for
from fairway.scheduling.nodelocal import NodeLocal
from fairway.scheduling.podspread import Move
from fairway.scheduling.profile import Profile
from fairway.scheduling.verdict import Refusal
from fairway.scheduling.volumefacts import (
    CSI_NODE,
    NO_PROVISIONER,
    SELECTED_NODE,
    asked,
    candidates,
    class_of,
    waits_for_consumer,
)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PLUGINS: Final = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_EXCLUSIVE: Final = "ReadWriteOncePod"
# Labels that a volume may bear instead of a node affinity, and what a node may call the same.
_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


class VolumeLook(NamedTuple):
    """What PreFilter found. `why`: what refuses the pod everywhere (empty: nothing), said by `plugin`.

    `bound`: volumes of bound claims; `is_gone`: one of them is not there; `delayed`: claims to be bound with the pod,
    the smallest first; `holders`: pods on nodes that have one of its claims to themselves.
    """

    why: str = ""
    plugin: str = ""
    bound: tuple[Obj, ...] = ()
    is_gone: bool = False
    delayed: tuple[Obj, ...] = ()
    holders: tuple[PodRecord, ...] = ()


class VolumePlan(NamedTuple):
    """What a node means for the claims: (claim, volume) to bind, and claims to provision for that node."""

    bindings: tuple[tuple[Key, str], ...] = ()
    provisions: tuple[Key, ...] = ()


def look(view: View, accounts: NodeAccounts, pod: PodRecord, profile: Profile) -> VolumeLook:
    """PreFilter of all four plugins."""
    claims: list[Obj] = []
    for name, is_ephemeral in pod.shape.claims:
        said = name_for(pod.key.name, name, is_ephemeral)
        claim = view.get(Key(CLAIM, pod.key.namespace, said))
        problem = _problem(claim, said, pod if is_ephemeral else None)
        if problem:
            plugin = next((p for p in PLUGINS if profile.filters_with(p)), "")
            is_binders = claim is not None or is_ephemeral
            return VolumeLook(problem, "VolumeBinding" if is_binders else plugin) if plugin else VolumeLook()
        if claim is not None:
            claims.append(claim)
    bound = [c for c in claims if is_fully_bound(c)]
    delayed = [c for c in claims if not is_fully_bound(c) and _is_delayed(view, c)]
    if profile.filters_with("VolumeBinding") and len(bound) + len(delayed) < len(claims):
        return VolumeLook(_UNBOUND, "VolumeBinding")
    volumes = [view.get(Key(VOLUME, "", spec_of(c)["volumeName"])) for c in bound]
    return VolumeLook(
        bound=tuple(v for v in volumes if v is not None),
        is_gone=None in volumes,
        delayed=tuple(sorted(delayed, key=lambda c: (asked(c), name_of(c)))),
        holders=_holders(accounts, pod, claims) if profile.filters_with("VolumeRestrictions") else (),
    )


def _problem(claim: Obj | None, name: str, owner: PodRecord | None) -> str:
    """`owner`: the pod, where the claim has to be its own. Source: podHasPVCs, ephemeral.VolumeIsForPod."""
    if claim is None:
        if owner is not None:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if is_lost(claim):
        volume = spec_of(claim).get("volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if "deletionTimestamp" in meta_of(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    owners = meta_of(claim).get("ownerReferences") or ()
    if owner is not None and not any(o.get("uid") == owner.uid for o in owners):
        where = meta_of(claim)["namespace"]
        return f"PVC {where}/{name} was not created for pod {where}/{owner.key.name} (pod is not owner)"
    return ""


def _is_delayed(view: View, claim: Obj) -> bool:
    return not spec_of(claim).get("volumeName") and waits_for_consumer(class_of(view, claim))


def _holders(accounts: NodeAccounts, pod: PodRecord, claims: Sequence[Obj]) -> tuple[PodRecord, ...]:
    """Pods that use one of its ReadWriteOncePod claims. O(pods), where it has any."""
    alone = {name_of(c) for c in claims if _EXCLUSIVE in (spec_of(c).get("accessModes") or ())}
    if not alone:
        return ()
    return tuple(
        other
        for key, other in sorted(accounts.records.items())
        if other.row >= 0
        and key.namespace == pod.key.namespace
        and key != pod.key
        and any(not own and name in alone for name, own in other.shape.claims)
    )


# Node by node


class VolumeFilter:
    """The four filters of one cycle. `codes`: int64[row] of `Refusal`, what the first of them says."""

    def __init__(
        self,
        view: View,
        accounts: NodeAccounts,
        pod: PodRecord,
        local: NodeLocal,
        profile: Profile,
        found: VolumeLook,
    ) -> None:
        self._view, self._accounts, self._pod = view, accounts, pod
        self._holders = found.holders
        self._limits = profile.filters_with("NodeVolumeLimits")
        self._static = _static(view, local, profile, found)
        self.codes = self._static.copy()
        if self._limits:
            for row in _crowded(view, accounts, pod):
                self.codes[row] = Refusal.VOLUME_LIMIT
        if found.holders:
            self.codes[:] = Refusal.VOLUME_HELD

    def at(self, row: int, moved: Sequence[Move]) -> int:
        """One node after a what-if, whose pods the accounts have already."""
        gone = {move.pod.key for move in moved if move.sign < 0}
        if any(holder.key not in gone for holder in self._holders):
            return Refusal.VOLUME_HELD
        if self._limits and row in _crowded(self._view, self._accounts, self._pod):
            return Refusal.VOLUME_LIMIT
        return int(self._static[row])


def _static(view: View, local: NodeLocal, profile: Profile, found: VolumeLook) -> Ints:
    """What no eviction changes. Written last to first: the earliest refusal stands."""
    codes = np.zeros(local.refusal.shape[0], np.int64)
    if profile.filters_with("VolumeZone"):
        codes[~_in_zone(local, found.bound)] = Refusal.VOLUME_ZONE
    if profile.filters_with("VolumeBinding"):
        satisfied, _, _ = _found_for(view, local, found.delayed)
        codes[~satisfied] = Refusal.VOLUME_BIND
        for volume in found.bound:
            codes[~_reaches(local, volume)] = Refusal.VOLUME_AFFINITY
        if found.is_gone:
            codes[:] = Refusal.VOLUME_GONE
    return codes


def plan(view: View, local: NodeLocal, row: int, found: VolumeLook) -> VolumePlan:
    """What is to be done about the claims if the pod goes to this row."""
    _, chosen, provisioned = _found_for(view, local, found.delayed)
    bindings = [(_key(c), volumes[at]) for c, (at, volumes) in _at_row(chosen, row) if at >= 0]
    provisions = [_key(c) for c, where in provisioned if where[row]]
    return VolumePlan(tuple(bindings), tuple(provisions))


_Chosen = list[tuple[Obj, Ints, list[str]]]
"""Per claim: by row the number of the volume it would get (-1: none), and the volumes' names."""


def _at_row(chosen: _Chosen, row: int) -> list[tuple[Obj, tuple[int, list[str]]]]:
    return [(claim, (int(best[row]), names)) for claim, best, names in chosen]


def _found_for(
    view: View, local: NodeLocal, delayed: Sequence[Obj]
) -> tuple[Bools, _Chosen, list[tuple[Obj, Bools]]]:
    """bool[row]: all these claims find a volume there or can be provisioned; and how.

    Source: binder.go findMatchingVolumes, checkVolumeProvisions. O(claims × volumes × rows), in arrays.
    """
    rows = local.refusal.shape[0]
    satisfied = np.ones(rows, np.bool_)
    chosen: _Chosen = []
    provisioned: list[tuple[Obj, Bools]] = []
    taken: dict[str, Bools] = {}
    for claim in delayed:
        best = np.full(rows, -1, np.int64)
        names: list[str] = []
        node = annotations_of(claim).get(SELECTED_NODE)
        for volume in candidates(view, claim) if node is None else ():
            name = name_of(volume)
            gets = (best < 0) & _reaches(local, volume)
            if name in taken:
                gets &= ~taken[name]
            best[gets] = len(names)
            names.append(name)
            taken[name] = taken[name] | gets if name in taken else gets
        missing = best < 0
        may = missing & _provisionable(view, local, claim)
        if node is not None:
            may &= local.named(node)
        satisfied &= ~missing | may
        chosen.append((claim, best, names))
        provisioned.append((claim, may))
    return satisfied, chosen, provisioned


def _provisionable(view: View, local: NodeLocal, claim: Obj) -> Bools:
    """bool[row]: the claim's class makes volumes for such nodes."""
    storage_class = class_of(view, claim)
    rows = local.refusal.shape[0]
    if storage_class is None or storage_class.get("provisioner") in (None, "", NO_PROVISIONER):
        return np.zeros(rows, np.bool_)
    topologies = storage_class.get("allowedTopologies") or ()
    terms = tuple(
        Term(tuple(Requirement(e["key"], IN, tuple(e.get("values") or ())) for e in expressions), ())
        for topology in topologies
        if (expressions := topology.get("matchLabelExpressions") or ())
    )
    # An empty term matches every node, unlike one of a node selector.
    if not topologies or len(terms) < len(topologies):
        return np.ones(rows, np.bool_)
    return local.matching(terms)


def _reaches(local: NodeLocal, volume: Obj) -> Bools:
    """bool[row]: the volume can be used there. Source: CheckNodeAffinity."""
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required")
    if required is None:
        return np.ones(local.refusal.shape[0], np.bool_)
    return local.matching(node_selector_terms(required))


def _in_zone(local: NodeLocal, bound: Sequence[Obj]) -> Bools:
    """bool[row]: the node is where the volumes' zone labels say, or says of no zone."""
    ok = np.ones(local.refusal.shape[0], np.bool_)
    wanted: list[tuple[str, tuple[str, ...]]] = []
    for volume in bound:
        labels = labels_of(volume)
        wanted += [(key, tuple(sorted(labels[key].split("__")))) for key in _ZONES if key in labels]
    for key, zones in wanted:
        requirement = Requirement(key, IN, zones)
        same = local.matching((Term((requirement,), ()),))
        if _ZONES[key] != key:
            same |= local.lacking(key) & local.matching((Term((Requirement(_ZONES[key], IN, zones),), ()),))
        ok &= same
    if wanted:
        bare = np.ones(ok.shape, np.bool_)
        for key in _ZONES:
            bare &= local.lacking(key)
        ok |= bare
    return ok


# How many volumes a node can take


def _crowded(view: View, accounts: NodeAccounts, pod: PodRecord) -> list[int]:
    """Rows whose CSINode allows fewer volumes of a driver than there would be. O(pods of nodes with limits)."""
    wanted = _handles(view, pod)
    if not wanted:
        return []
    found = []
    for node in view.objects(CSI_NODE):
        row = accounts.row_of.get(name_of(node))
        limits = _limits(node)
        if row is None or not any(driver in limits for driver, _ in wanted):
            continue
        there = {h for other in accounts.pods[row].values() for h in _handles(view, other)}
        for driver, most in limits.items():
            new = {h for h in wanted if h[0] == driver} - there
            if new and len(new) + sum(h[0] == driver for h in there) > most:
                found.append(row)
                break
    return found


def _limits(node: Obj) -> dict[str, int]:
    drivers: list[dict[str, Any]] = spec_of(node).get("drivers") or []
    return {
        d["name"]: int(count)
        for d in drivers
        if (count := (d.get("allocatable") or {}).get("count")) is not None
    }


def _handles(view: View, pod: PodRecord) -> set[tuple[str, str]]:
    """(driver, volume) of each claim a pod uses; of an unbound one what its class' driver will make."""
    found = set()
    for name, is_ephemeral in pod.shape.claims:
        said = name_for(pod.key.name, name, is_ephemeral)
        claim = view.get(Key(CLAIM, pod.key.namespace, said))
        if claim is None:
            continue
        volume = view.get(Key(VOLUME, "", spec_of(claim).get("volumeName") or ""))
        csi = {} if volume is None else spec_of(volume).get("csi") or {}
        storage_class = class_of(view, claim)
        if csi:
            found.add((str(csi.get("driver")), str(csi.get("volumeHandle"))))
        elif volume is None and storage_class is not None:
            found.add((str(storage_class.get("provisioner")), f"{pod.key.namespace}/{said}"))
    return found


def _key(claim: Obj) -> Key:
    return Key(CLAIM, claim["metadata"]["namespace"], claim["metadata"]["name"])
