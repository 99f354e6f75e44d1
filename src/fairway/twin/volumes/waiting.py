"""Pods that have a node and wait there until their claims are bound: kube-scheduler's Reserve and PreBind.

A waiting pod is in no queue and not bound; while the scheduler decides, it counts on its node.

Unlike kube: nobody waits in vain. A simulated provisioner does not fail, and bindTimeoutSeconds does not run out; who
waits for a volume that others took, or whose node vanishes, is queued again.

Source: plugins/volumebinding/binder.go AssumePodVolumes, BindPodVolumes (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.records import PodRecord
from fairway.kube.objects import Key, annotations_of, meta_of, spec_of
from fairway.kube.volumes import CLAIM, VOLUME, is_fully_bound
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.verdict import Scheduled
from fairway.scheduling.volumefacts import BOUND_BY_US, SELECTED_NODE, is_of
from fairway.scheduling.volumes import VolumePlan
from fairway.twin.volumes.binding import with_annotations
from fairway.twin.volumes.making import reference_to

if TYPE_CHECKING:
    from fairway.twin.scheduler import SchedulerComponent


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that waits for its claims on the node of `verdict`; `bindings` are the volumes chosen for claims."""

    record: PodRecord
    verdict: Scheduled
    claims: tuple[Key, ...]
    bindings: tuple[tuple[Key, str], ...]


class VolumeWaits:
    """Data only, beside its scheduler."""

    def __init__(self) -> None:
        self.waiting: dict[Key, Waiting] = {}
        self._are_assumed = False

    def attach(self, scheduler: SchedulerComponent) -> None:
        self._its = scheduler
        self._store = scheduler.host.store

    def fork(self) -> VolumeWaits:
        twin = VolumeWaits()
        twin.waiting = {k: replace(w, record=w.record.copy()) for k, w in self.waiting.items()}
        return twin

    def reserve(self, scheduler: Scheduler, record: PodRecord, verdict: Scheduled) -> bool:
        """Ask for what the pod's claims need on its node; whether it has to wait for that."""
        plan = scheduler.volume_plan(record, verdict.node)
        if not plan.bindings and not plan.provisions:
            return False
        self._carry_out(plan, verdict.node)
        scheduler.nominated.pop(record.key, None)
        claims = (*(claim for claim, _ in plan.bindings), *plan.provisions)
        waiting = self.waiting[record.key] = Waiting(record, verdict, claims, plan.bindings)
        if self._are_assumed:
            self._place(waiting)
        return True

    def _carry_out(self, plan: VolumePlan, node: str) -> None:
        """Bind each chosen volume to its claim beforehand, and name the node to provisioners."""
        store = self._store
        for claim, name in plan.bindings:
            volume = store.require(Key(VOLUME, "", name))
            spec = {**spec_of(volume), "claimRef": reference_to(store.require(claim))}
            store.replace(with_annotations({**volume, "spec": spec}, {BOUND_BY_US: "yes"}))
        for claim in plan.provisions:
            found = store.require(claim)
            if annotations_of(found).get(SELECTED_NODE) != node:
                store.replace(with_annotations(found, {SELECTED_NODE: node}))

    # What it sees

    def observe(self, change: Change, now_us: int) -> None:
        gk = change.key.gk
        if gk == "Pod":
            is_leaving = change.type == DELETED or "deletionTimestamp" in meta_of(change.obj)
            if is_leaving and self.waiting.pop(change.key, None) is not None:
                self._wake(now_us)
        elif gk == "Node" and change.type == DELETED:
            for key, waiting in list(self.waiting.items()):
                if waiting.verdict.node == change.key.name:
                    self._again(key, now_us)
        elif gk in (CLAIM, VOLUME):
            for key, waiting in list(self.waiting.items()):
                self._look(key, waiting, now_us)

    def _look(self, key: Key, waiting: Waiting, now_us: int) -> None:
        store = self._store
        pod, claims = store.get(key), [store.get(claim) for claim in waiting.claims]
        if pod is None or any(claim is None for claim in claims) or self._lost_a_volume(waiting):
            self._again(key, now_us)
        elif all(claim is not None and is_fully_bound(claim) for claim in claims):
            del self.waiting[key]
            scheduler = self._its.schedulers[waiting.record.shape.scheduler_name]
            self._its.bind_waiting(scheduler, waiting.record, pod, waiting.verdict, now_us)

    def _lost_a_volume(self, waiting: Waiting) -> bool:
        """A volume that was chosen is gone, or another claim's."""
        for claim, name in waiting.bindings:
            found, volume = self._store.get(claim), self._store.get(Key(VOLUME, "", name))
            if found is None or volume is None or not is_of(spec_of(volume).get("claimRef") or {}, found):
                return True
        return False

    def _again(self, key: Key, now_us: int) -> None:
        del self.waiting[key]
        pod = self._store.get(key)
        if pod is not None and self._its.is_to_queue(pod):
            self._its.enqueue(key, pod, now_us)
        self._wake(now_us)

    def _wake(self, now_us: int) -> None:
        """Its place is free again."""
        for line in self._its.queue.parked():
            self._its.queue.unpark(line.key, now_us)

    # Who counts on a node without being bound

    def assume(self) -> None:
        """Every `assume` has its `forget` within the same event."""
        self._are_assumed = True
        for waiting in self.waiting.values():
            self._place(waiting)

    def _place(self, waiting: Waiting) -> None:
        row = self._its.accounts.row_of.get(waiting.verdict.node)
        if row is not None and waiting.record.row < 0:
            self._its.accounts.place(waiting.record, row)

    def forget(self) -> None:
        self._are_assumed = False
        for waiting in self.waiting.values():
            if waiting.record.row >= 0:
                self._its.accounts.displace(waiting.record)
