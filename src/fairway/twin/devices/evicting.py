"""Which pods must leave tainted devices, and when?

Only tolerations that say NoExecute count here: a pod that tolerates everything is scheduled onto a device with such a
taint, and leaves at once. Claims for extended resources are not looked at, upstream neither.

Source: pkg/controller/devicetainteviction/device_taint_eviction.go (v1.36, without DeviceTaintRules).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fairway.cluster.changes import DELETED, Change
from fairway.kube.conditions import set_condition
from fairway.kube.objects import Key, Obj, meta_of, spec_of, status_of
from fairway.kube.resourceclaims import CLAIM, SLICE, is_for_pod, is_reserved_for, pod_claims
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.scheduling.devices.facts import Taint, Toleration
from fairway.scheduling.devices.usage import results_of
from fairway.twin.components import Host
from fairway.twin.kubeevents import NORMAL
from fairway.twin.loop import CONTROLLERS

NAME: Final = "device-taint-eviction"
_NO_EXECUTE: Final = "NoExecute"
_Pool = tuple[str, str]


class Planned(NamedTuple):
    """An eviction to come: its event and its time."""

    ticket: int
    at_us: int


class DeviceTaintEviction:
    """The device taint eviction controller."""

    name = NAME
    kinds: tuple[str, ...] = (SLICE, CLAIM, "Pod")
    skips_pod_status = True

    def __init__(self) -> None:
        self._slices: dict[_Pool, dict[str, Obj]] = {}
        """Slices with NoExecute taints, and others of their pools, by name."""
        self._planned: dict[Key, Planned] = {}

    def attach(self, host: Host) -> None:
        self.host = host
        self._evict = host.loop.register("devicetainteviction.evict", self._on_evict)

    def start(self) -> None:
        """Taints come with slices."""

    def fork(self) -> DeviceTaintEviction:
        twin = DeviceTaintEviction()
        twin._slices = {pool: dict(slices) for pool, slices in self._slices.items()}
        twin._planned = dict(self._planned)
        return twin

    def observe(self, change: Change) -> None:
        gk = change.key.gk
        if gk == SLICE:
            self._observe_slice(change)
        elif not self._has_taints and not self._planned:
            return
        elif gk == CLAIM:
            for user in status_of(change.obj).get("reservedFor") or ():
                self._consider(Key("Pod", change.key.namespace, user.get("name") or ""))
        elif change.type == DELETED:
            self._cancel(change.key, tell=False)
        elif spec_of(change.obj).get("resourceClaims"):
            self._consider(change.key)

    @property
    def _has_taints(self) -> bool:
        return bool(self._slices)

    def _observe_slice(self, change: Change) -> None:
        spec = spec_of(change.obj)
        pool: _Pool = (spec.get("driver") or "", (spec.get("pool") or {}).get("name") or "")
        had = pool in self._slices
        slices = {s["metadata"]["name"]: s for s in self.host.store.objects(SLICE) if _pool_of(s) == pool}
        devices = (d for s in slices.values() for d in spec_of(s).get("devices") or ())
        if [taint for device in devices for taint in _evicting(device)]:
            self._slices[pool] = slices
        elif had:
            del self._slices[pool]
        else:
            return
        for claim in self.host.store.objects(CLAIM):
            if any((r["driver"], r["pool"]) == pool for r in results_of(claim)):
                for user in status_of(claim).get("reservedFor") or ():
                    self._consider(Key("Pod", claim["metadata"]["namespace"], user.get("name") or ""))

    def _device(self, result: Obj) -> Obj | None:
        """The device as the newest generation of its pool has it."""
        slices = self._slices.get((result["driver"], result["pool"]), {})
        newest = max((_generation(s) for s in slices.values()), default=0)
        for name in sorted(slices):
            if _generation(slices[name]) == newest:
                for device in spec_of(slices[name]).get("devices") or ():
                    if device.get("name") == result["device"]:
                        found: Obj = device
                        return found
        return None

    # When

    def _consider(self, key: Key) -> None:
        """Plan the eviction of a pod, move it, or call it off."""
        pod = self.host.store.get(key)
        at_us = None if pod is None or not spec_of(pod).get("nodeName") else self._time_us(pod)
        planned = self._planned.get(key)
        if at_us is None:
            self._cancel(key, tell=True)
            return
        if planned is not None:
            if planned.at_us == at_us:
                return
            self.host.loop.cancel(planned.ticket)
        due_us = max(at_us, self.host.loop.now_us)
        self._planned[key] = Planned(self.host.loop.at(due_us, self._evict, key, CONTROLLERS), at_us)

    def _time_us(self, pod: Obj) -> int | None:
        times: list[int] = []
        namespace = meta_of(pod)["namespace"]
        for entry in pod_claims(pod):
            claim = self.host.store.get(Key(CLAIM, namespace, entry.claim or ""))
            if (
                claim is None
                or (entry.is_made and not is_for_pod(pod, claim))
                or not is_reserved_for(pod, claim)
            ):
                continue
            for result in results_of(claim):
                device = self._device(result)
                times += [] if device is None else _times_us(device, result, self.host.loop.now_us)
        return min(times, default=None)

    def _on_evict(self, key: Key) -> None:
        planned = self._planned.pop(key, None)
        pod = self.host.store.get(key)
        if planned is None or pod is None or "deletionTimestamp" in meta_of(pod):
            return
        now_us, store = self.host.loop.now_us, self.host.store
        self._say(key, pod, "Marking for deletion")
        conditions = set_condition(
            status_of(pod).get("conditions"),
            "DisruptionTarget",
            "True",
            "DeletionByDeviceTaintManager",
            "Device Taint manager: deleting due to NoExecute taint",
            rfc3339(now_us),
        )
        store.set_status(key, {**status_of(pod), "conditions": conditions})
        store.delete(key)

    def _cancel(self, key: Key, *, tell: bool) -> None:
        planned = self._planned.pop(key, None)
        if planned is None:
            return
        self.host.loop.cancel(planned.ticket)
        pod = self.host.store.get(key)
        if tell and pod is not None:
            self._say(key, pod, "Cancelling deletion")

    def _say(self, key: Key, pod: Obj, words: str) -> None:
        uid = meta_of(pod)["uid"]
        self.host.events.emit(
            self.host.loop.now_us, key, uid, NORMAL, "DeviceTaintManagerEviction", words, NAME
        )


def _pool_of(obj: Obj) -> _Pool:
    spec = spec_of(obj)
    return (spec.get("driver") or "", (spec.get("pool") or {}).get("name") or "")


def _generation(obj: Obj) -> int:
    return int((spec_of(obj).get("pool") or {}).get("generation") or 0)


def _evicting(device: Obj) -> Iterator[Obj]:
    return (t for t in device.get("taints") or () if t.get("effect") == _NO_EXECUTE)


def _times_us(device: Obj, result: Obj, now_us: int) -> Iterable[int]:
    """For each of the device's taints when the pod has to go; never for one it tolerates for ever."""
    for raw in _evicting(device):
        taint = Taint(raw.get("key") or "", raw.get("value") or "", raw["effect"])
        added = raw.get("timeAdded")
        since_us = now_us if added is None else parse_rfc3339(added)
        seconds = [
            t.get("tolerationSeconds")
            for t in result.get("tolerations") or ()
            if t.get("effect") == _NO_EXECUTE and _toleration(t).tolerates(taint)
        ]
        if None in seconds:
            continue
        yield since_us + min((max(int(s), 0) for s in seconds if s is not None), default=0) * SECOND_US


def _toleration(raw: Obj) -> Toleration:
    return Toleration(
        raw.get("key") or "", raw.get("operator") or "", raw.get("value") or "", raw.get("effect") or ""
    )
