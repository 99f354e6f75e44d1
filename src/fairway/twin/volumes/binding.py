"""Which volume does a claim get? The binding of claims to volumes, the making of new ones, and what guards both.

A claim gets the smallest free volume of its class that is large enough, has its access modes and mode, and matches its
selector. Where there is none its class' provisioner makes one, a while later. A claim of a class that waits for its
first consumer is left to the scheduler, which binds a volume to it beforehand or names the pod's node. Claims of
ephemeral volumes are written for their pods. A claim in use by a pod, and a volume bound to a claim, stay until they
are not; what was provisioned goes with its claim unless its class retains it.

Unlike kube: every class but those of kubernetes.io/no-provisioner has a provisioner, which never fails, and a driver
that runs on every node.

Source: pkg/controller/volume/persistentvolume/{pv_controller,index}.go, volume/ephemeral, pvcprotection, pvprotection
(v1.36).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fairway.admission.volumeprotection import FINALIZERS
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    labels_of,
    meta_of,
    name_of,
    owner_reference,
    spec_of,
    status_of,
)
from fairway.kube.timestamps import rfc3339
from fairway.kube.volumes import BIND_COMPLETED, CLAIM, CLASS, VOLUME, claims_of
from fairway.scheduling.volumefacts import (
    BOUND_BY_US,
    NO_PROVISIONER,
    SELECTED_NODE,
    class_of,
    free_volumes,
    is_of,
    waits_for_consumer,
)
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS
from fairway.twin.volumes import making

CLAIM_FINALIZER: Final = FINALIZERS["persistentvolumeclaims"]
VOLUME_FINALIZER: Final = FINALIZERS["persistentvolumes"]
_PROVISIONERS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
_ENDED: Final = ("Succeeded", "Failed")


class VolumeBinder:
    """Binds, releases, and lets go."""

    name = "persistentvolume-controller"
    kinds: tuple[str, ...] = (CLAIM, VOLUME, CLASS, "Pod")

    def __init__(self) -> None:
        self._making: dict[Key, str] = {}
        """Claims a volume is being made for, by uid."""
        self._looks_at_us = -1
        self._said: dict[str, str] = {}
        """What each claim was told last that it waits for, by UID."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._look = host.loop.register("volumes.look", self._on_look)
        self._look_at = host.loop.register("volumes.one", self._on_one)
        self._made = host.loop.register("volumes.made", self._on_made)
        self._make_us = host.latency.volume_provision.sampler(host.streams.stream("volumes"))

    def start(self) -> None:
        """Objects come as changes."""

    def fork(self) -> VolumeBinder:
        twin = VolumeBinder()
        twin._making, twin._looks_at_us = dict(self._making), self._looks_at_us
        twin._said = dict(self._said)
        return twin

    def observe(self, change: Change) -> None:
        if change.key[0] == "Pod":
            # Of most pods there is nothing to say, and they change most.
            if not change.obj["spec"].get("volumes") or not claims_of(change.obj):
                return
            if change.type != DELETED:
                self._write_ephemeral(change.obj)
        elif change.type == DELETED:
            self._said.pop(change.obj["metadata"]["uid"], None)
        now_us = self.host.loop.now_us
        if self._looks_at_us != now_us:
            self._looks_at_us = now_us
            self.host.loop.at(now_us, self._look, None, CONTROLLERS)

    def _write_ephemeral(self, pod: Obj) -> None:
        """The claims of its ephemeral volumes. Source: volume/ephemeral/controller.go."""
        meta = meta_of(pod)
        for volume in spec_of(pod).get("volumes") or () if "deletionTimestamp" not in meta else ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            key = Key(CLAIM, meta["namespace"], f"{meta['name']}-{volume['name']}")
            if template is None or self.host.store.get(key) is not None:
                continue
            given = template.get("metadata") or {}
            claim = {
                "apiVersion": "v1",
                "kind": CLAIM,
                "metadata": {
                    "name": key.name,
                    "namespace": key.namespace,
                    **{part: given[part] for part in ("labels", "annotations") if given.get(part)},
                    "ownerReferences": [owner_reference(pod)],
                },
                "spec": template.get("spec") or {},
            }
            self.host.create(claim, partial(self._write_ephemeral, pod))

    def _on_look(self, _data: None) -> None:
        """All claims, then all volumes: there are few, and each may concern every other."""
        self._looks_at_us = -1
        for kind in (CLAIM, VOLUME):
            for obj in self.host.store.objects(kind):
                self.host.attempt(self._look_at, _key(obj))

    def _on_one(self, key: Key) -> None:
        """One claim or volume, where it is still there."""
        store = self.host.store
        obj = store.get(key)
        if obj is None:
            return
        if key.gk == VOLUME:
            self._look_at_volume(obj)
        elif "deletionTimestamp" in obj["metadata"]:
            self._release_claim(obj)
        elif status_of(obj).get("phase") != "Bound":
            self._bind(obj)
        else:
            self._check_bound(obj)

    # Claims

    def _check_bound(self, claim: Obj) -> None:
        """Whether its volume is there, and its own. Source: syncBoundClaim."""
        volume = self.host.store.get(Key(VOLUME, "", spec_of(claim).get("volumeName") or ""))
        reason, why = "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        if volume is not None:
            reference = spec_of(volume).get("claimRef")
            if reference is None:
                self._join(claim, volume)
            if reference is None or is_of(reference, claim):
                return
            reason = "ClaimMisbound"
            why = "Two claims are bound to the same volume, this one is bound incorrectly"
        self.host.store.set_status(_key(claim), {**status_of(claim), "phase": "Lost"})
        self._tell(claim, "Warning", reason, why)

    def _bind(self, claim: Obj) -> None:
        storage_class = class_of(self.host.store, claim)
        is_chosen = SELECTED_NODE in annotations_of(claim)
        waits = waits_for_consumer(storage_class) and not is_chosen and not spec_of(claim).get("volumeName")
        volume = self._best(claim, only_its_own=waits)
        if volume is not None:
            self._join(claim, volume)
        elif waits:
            self._await_consumer(claim)
        else:
            self._explain(claim, storage_class)
            self._provision(claim, storage_class)

    def _await_consumer(self, claim: Obj) -> None:
        """Source: emitEventForUnboundDelayBindingClaim."""
        pods = [name_of(p) for p in self._users(claim) if not spec_of(p).get("nodeName")]
        if pods:
            which = f"pods {','.join(pods)}" if len(pods) > 1 else f"pod {pods[0]}"
            self._tell_once(claim, "Normal", "WaitForPodScheduled", f"waiting for {which} to be scheduled")
        else:
            why = "waiting for first consumer to be created before binding"
            self._tell_once(claim, "Normal", "WaitForFirstConsumer", why)

    def _provision(self, claim: Obj, storage_class: Obj | None) -> None:
        """Have a volume made, where the class makes any."""
        key, uid = _key(claim), claim["metadata"]["uid"]
        driver = (storage_class or {}).get("provisioner")
        is_wanted = driver not in (None, "", NO_PROVISIONER) and not spec_of(claim).get("volumeName")
        if not is_wanted or self._making.get(key) == uid:
            return
        self._making[key] = uid
        self.host.store.replace(with_annotations(claim, dict.fromkeys(_PROVISIONERS, str(driver))))
        why = f'External provisioner is provisioning volume for claim "{key.namespace}/{key.name}"'
        self._tell(claim, "Normal", "Provisioning", why)
        self.host.loop.at(self.host.loop.now_us + self._make_us(), self._made, (key, uid), CONTROLLERS)

    def _on_made(self, asked: tuple[Key, str]) -> None:
        """The volume is there, meant for its claim; binding them is the next look's."""
        key, uid = asked
        store = self.host.store
        claim = store.get(key)
        if self._making.get(key) == uid:
            del self._making[key]
        storage_class = None if claim is None else class_of(store, claim)
        if claim is None or storage_class is None or claim["metadata"]["uid"] != uid:
            return
        if (
            spec_of(claim).get("volumeName")
            or store.get(Key(VOLUME, "", making.volume_name(claim))) is not None
        ):
            return
        chosen = annotations_of(claim).get(SELECTED_NODE)
        node = store.get(Key("Node", "", chosen)) if chosen else None
        if chosen and node is None:
            # The scheduler chooses anew. Source: sig-storage-lib-external-provisioner, rescheduling.
            store.replace(without_annotation(claim, SELECTED_NODE))
            return
        volume = making.volume_for(claim, storage_class, None if node is None else labels_of(node))
        if not self.host.create(volume, partial(self._on_made, asked)):
            return
        why = f"Successfully provisioned volume {name_of(volume)}"
        self._tell(claim, "Normal", "ProvisioningSucceeded", why)

    def _users(self, claim: Obj) -> list[Obj]:
        """Pods that use the claim and have not ended."""
        meta = claim["metadata"]
        return [
            pod
            for pod in self.host.store.objects("Pod", meta["namespace"])
            if meta["name"] in claims_of(pod) and status_of(pod).get("phase") not in _ENDED
        ]

    def _best(self, claim: Obj, *, only_its_own: bool) -> Obj | None:
        """The volume bound to it beforehand, or the smallest that is free. Source: index.go findBestMatchForClaim."""
        named = spec_of(claim).get("volumeName")
        for volume in self.host.store.objects(VOLUME):
            if "deletionTimestamp" in meta_of(volume) or named not in (None, "", name_of(volume)):
                continue
            reference = spec_of(volume).get("claimRef")
            if reference is not None and is_of(reference, claim):
                return volume
        if only_its_own:
            return None
        free = (v for v in free_volumes(self.host.store, claim) if named in (None, "", name_of(v)))
        return next(free, None)

    def _explain(self, claim: Obj, storage_class: Obj | None) -> None:
        name = spec_of(claim).get("storageClassName")
        if spec_of(claim).get("volumeName"):
            return
        if not name:
            why = "no persistent volumes available for this claim and no storage class is set"
            self._tell_once(claim, "Normal", "FailedBinding", why)
        elif storage_class is None:
            why = f'storageclass.storage.k8s.io "{name}" not found'
            self._tell_once(claim, "Warning", "ProvisioningFailed", why)
        elif storage_class.get("provisioner") == NO_PROVISIONER:
            why = f"no volume plugin matched name: {NO_PROVISIONER}"
            self._tell_once(claim, "Warning", "ProvisioningFailed", why)
        else:
            why = (
                "Waiting for a volume to be created either by the external provisioner "
                f"'{storage_class.get('provisioner')}' or manually by the system administrator. If volume "
                "creation is delayed, please verify that the provisioner is running and correctly registered."
            )
            self._tell_once(claim, "Normal", "ExternalProvisioning", why)

    def _join(self, claim: Obj, volume: Obj) -> None:
        """First the volume, then the claim, as upstream: a half-done binding is finished, not undone."""
        store, meta = self.host.store, claim["metadata"]
        spec = spec_of(volume)
        by_us = {} if spec.get("claimRef") else {BOUND_BY_US: "yes"}
        if (spec.get("claimRef") or {}).get("uid") != meta["uid"]:
            bound = {**volume, "spec": {**spec, "claimRef": making.reference_to(claim)}}
            volume = store.replace(with_annotations(bound, by_us))
        self._set_phase(volume, "Bound")
        wanted = {**spec_of(claim), "volumeName": volume["metadata"]["name"]}
        notes = {BIND_COMPLETED: "yes", **({} if spec_of(claim).get("volumeName") else {BOUND_BY_US: "yes"})}
        claim = store.replace(with_annotations({**claim, "spec": wanted}, notes))
        status = {
            **status_of(claim),
            "phase": "Bound",
            "accessModes": list(spec.get("accessModes") or ()),
            "capacity": dict(spec.get("capacity") or {}),
        }
        store.set_status(_key(claim), status)

    def _release_claim(self, claim: Obj) -> None:
        finalizers = claim["metadata"].get("finalizers") or []
        if CLAIM_FINALIZER in finalizers and not self._users(claim):
            self.host.store.set_finalizers(_key(claim), [f for f in finalizers if f != CLAIM_FINALIZER])

    # Volumes

    def _look_at_volume(self, volume: Obj) -> None:
        store, meta = self.host.store, volume["metadata"]
        reference = spec_of(volume).get("claimRef") or {}
        claim = store.get(Key(CLAIM, reference.get("namespace") or "", reference.get("name") or ""))
        phase = status_of(volume).get("phase")
        if reference.get("uid") and (claim is None or claim["metadata"]["uid"] != reference["uid"]):
            self._set_phase(volume, "Released")
            self._reclaim(volume)
        elif not reference.get("uid") and (phase == "Pending" or (not reference and phase != "Available")):
            self._set_phase(volume, "Available")
        finalizers = meta.get("finalizers") or []
        is_bound = status_of(store.get(_key(volume)) or {}).get("phase") == "Bound"
        if "deletionTimestamp" in meta and VOLUME_FINALIZER in finalizers and not is_bound:
            store.set_finalizers(_key(volume), [f for f in finalizers if f != VOLUME_FINALIZER])

    def _reclaim(self, volume: Obj) -> None:
        """What was provisioned goes with its claim, unless it is retained."""
        is_made = making.PROVISIONED_BY in annotations_of(volume)
        policy = spec_of(volume).get("persistentVolumeReclaimPolicy")
        if is_made and policy == "Delete" and "deletionTimestamp" not in meta_of(volume):
            self.host.store.delete(_key(volume))

    def _set_phase(self, volume: Obj, phase: str) -> None:
        status = status_of(volume)
        if status.get("phase") != phase:
            now = rfc3339(self.host.loop.now_us)
            status = {**status, "phase": phase, "lastPhaseTransitionTime": now}
            self.host.store.set_status(_key(volume), status)

    # Words

    def _tell(self, about: Obj, type_: str, reason: str, message: str) -> None:
        uid, now_us = about["metadata"]["uid"], self.host.loop.now_us
        self.host.events.emit(now_us, _key(about), uid, type_, reason, message, self.name)

    def _tell_once(self, claim: Obj, type_: str, reason: str, message: str) -> None:
        """What a claim waits for, when that is new: looking again is no news."""
        uid = claim["metadata"]["uid"]
        if self._said.get(uid) != message:
            self._said[uid] = message
            self._tell(claim, type_, reason, message)


def _key(obj: Obj) -> Key:
    return Key(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def with_annotations(obj: Obj, notes: dict[str, str]) -> Obj:
    if not notes:
        return obj
    return {**obj, "metadata": {**meta_of(obj), "annotations": {**annotations_of(obj), **notes}}}


def without_annotation(obj: Obj, name: str) -> Obj:
    left = {k: v for k, v in annotations_of(obj).items() if k != name}
    return {**obj, "metadata": {**meta_of(obj), "annotations": left}}
