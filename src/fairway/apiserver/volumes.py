"""Which volume does a claim get? The binding of claims to volumes that are there, and what guards both from deletion.

A claim gets the smallest free volume of its class that is large enough, has its access modes and mode, and matches its
selector. Nobody provisions new ones here: a claim that finds none says what it waits for. A claim in use by a pod, and
a volume bound to a claim, stay until they are not.

Unlike kube: pods whose claims are not bound are scheduled all the same.

Source: pkg/controller/volume/persistentvolume/{pv_controller,index}.go, pvcprotection, pvprotection (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.volumeprotection import FINALIZERS
from fairway.cluster.changes import Change
from fairway.kube import quantity
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import rfc3339
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass.storage.k8s.io"
CLAIM_FINALIZER = FINALIZERS["persistentvolumeclaims"]
VOLUME_FINALIZER = FINALIZERS["persistentvolumes"]
_BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_ENDED = ("Succeeded", "Failed")
_LATER = "WaitForFirstConsumer"


class VolumeBinder:
    """Binds, releases, and lets go."""

    name = "persistentvolume-controller"
    kinds: tuple[str, ...] = (CLAIM, VOLUME, CLASS, "Pod")

    def attach(self, host: Host) -> None:
        self.host = host
        self._look = host.loop.register("volumes.look", self._on_look)

    def start(self) -> None:
        """Objects come as changes."""

    def fork(self) -> VolumeBinder:
        return VolumeBinder()

    def observe(self, change: Change) -> None:
        if change.key.gk != "Pod" or _claims_of(change.obj):
            self.host.loop.at(self.host.loop.now_us, self._look, None, CONTROLLERS)

    def _on_look(self, _data: None) -> None:
        """All claims, then all volumes: there are few, and each may concern every other."""
        store = self.host.store
        for claim in store.objects(CLAIM):
            if "deletionTimestamp" in claim["metadata"]:
                self._release_claim(claim)
            elif status_of(claim).get("phase") != "Bound":
                self._bind(claim)
            elif store.get(Key(VOLUME, "", spec_of(claim).get("volumeName") or "")) is None:
                store.set_status(_key(claim), {**status_of(claim), "phase": "Lost"})
                why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._tell(claim, "Warning", "ClaimLost", why)
        for volume in store.objects(VOLUME):
            self._look_at_volume(volume)

    # Claims

    def _bind(self, claim: Obj) -> None:
        storage_class = self._class_of(claim)
        waits = storage_class is not None and storage_class.get("volumeBindingMode") == _LATER
        if waits and not self._has_consumer(claim):
            why = "waiting for first consumer to be created before binding"
            self._tell_once(claim, "Normal", "WaitForFirstConsumer", why)
            return
        volume = self._best(claim)
        if volume is None:
            self._explain(claim, storage_class)
            return
        self._join(claim, volume)

    def _class_of(self, claim: Obj) -> Obj | None:
        name = spec_of(claim).get("storageClassName")
        return self.host.store.get(Key(CLASS, "", name)) if name else None

    def _has_consumer(self, claim: Obj) -> bool:
        return any(spec_of(pod).get("nodeName") for pod in self._users(claim))

    def _users(self, claim: Obj) -> list[Obj]:
        """Pods that use the claim and have not ended."""
        meta = claim["metadata"]
        return [
            pod
            for pod in self.host.store.objects("Pod", meta["namespace"])
            if meta["name"] in _claims_of(pod) and status_of(pod).get("phase") not in _ENDED
        ]

    def _best(self, claim: Obj) -> Obj | None:
        named = spec_of(claim).get("volumeName")
        fitting = []
        for volume in self.host.store.objects(VOLUME):
            if "deletionTimestamp" in volume["metadata"] or (named and named != volume["metadata"]["name"]):
                continue
            reference = spec_of(volume).get("claimRef")
            if reference is not None:
                if _refers_to(reference, claim):
                    return volume
                continue
            if _fits(volume, claim):
                fitting.append(volume)
        return min(fitting, key=lambda v: (_capacity(v), v["metadata"]["name"]), default=None)

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
        elif storage_class.get("provisioner") == _NO_PROVISIONER:
            why = f"no volume plugin matched name: {_NO_PROVISIONER}"
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
        reference = {
            "kind": CLAIM,
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": "v1",
            "resourceVersion": meta["resourceVersion"],
        }
        spec = spec_of(volume)
        by_us = {} if spec.get("claimRef") else {_BOUND_BY_US: "yes"}
        if (spec.get("claimRef") or {}).get("uid") != meta["uid"]:
            volume = store.replace(_noted({**volume, "spec": {**spec, "claimRef": reference}}, by_us))
        self._set_phase(volume, "Bound")
        wanted = {**spec_of(claim), "volumeName": volume["metadata"]["name"]}
        notes = {_BIND_COMPLETED: "yes", **by_us}
        claim = store.replace(_noted({**claim, "spec": wanted}, notes))
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
        elif not reference.get("uid") and (phase == "Pending" or (not reference and phase != "Available")):
            self._set_phase(volume, "Available")
        finalizers = meta.get("finalizers") or []
        is_bound = status_of(store.get(_key(volume)) or {}).get("phase") == "Bound"
        if "deletionTimestamp" in meta and VOLUME_FINALIZER in finalizers and not is_bound:
            store.set_finalizers(_key(volume), [f for f in finalizers if f != VOLUME_FINALIZER])

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
        for event in self.host.store.objects("Event", claim["metadata"]["namespace"]):
            about = event.get("involvedObject") or {}
            if about.get("uid") == claim["metadata"]["uid"] and event.get("message") == message:
                return
        self._tell(claim, type_, reason, message)


def _key(obj: Obj) -> Key:
    return Key(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _claims_of(pod: Obj) -> list[str]:
    """The claims a pod uses; those of its ephemeral volumes are named after both."""
    found = []
    for volume in spec_of(pod).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append(volume["persistentVolumeClaim"].get("claimName") or "")
        elif volume.get("ephemeral"):
            found.append(f"{pod['metadata']['name']}-{volume['name']}")
    return found


def _refers_to(reference: dict[str, Any], claim: Obj) -> bool:
    meta = claim["metadata"]
    if (reference.get("namespace"), reference.get("name")) != (meta["namespace"], meta["name"]):
        return False
    return reference.get("uid") in (None, "", meta["uid"])


def _fits(volume: Obj, claim: Obj) -> bool:
    wanted, has = spec_of(claim), spec_of(volume)
    if (wanted.get("storageClassName") or "") != (has.get("storageClassName") or ""):
        return False
    if (wanted.get("volumeMode") or "Filesystem") != (has.get("volumeMode") or "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(has.get("accessModes") or ()):
        return False
    selector = wanted.get("selector")
    if selector and not label_selector(selector).matches(labels_of(volume)):
        return False
    asked = ((wanted.get("resources") or {}).get("requests") or {}).get("storage") or "0"
    return _capacity(volume) >= quantity.whole_ceil(asked)


def _capacity(volume: Obj) -> int:
    return quantity.whole_ceil((spec_of(volume).get("capacity") or {}).get("storage") or "0")


def _noted(obj: Obj, notes: dict[str, str]) -> Obj:
    if not notes:
        return obj
    return {**obj, "metadata": {**meta_of(obj), "annotations": {**annotations_of(obj), **notes}}}
