"""What the scheduler writes for a pod with devices: its claims' allocations and reservations.

A claim gets its finalizer, then its allocation and the pod in `reservedFor`. A pod whose devices have binding
conditions waits on its node until their drivers say they are ready, or that they failed.

Unlike kube: the writes of PreBind happen in the moment of the choice, not in a goroutine after it.

Source: plugins/dynamicresources/dynamicresources.go Reserve, bindClaim, PreBind, PostFilter (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.claimusers import claim_users
from fairway.cluster.records import PodRecord
from fairway.kube.objects import Key, Obj, meta_of, status_of
from fairway.kube.resourceclaims import (
    CLAIM,
    EXTENDED_ANNOTATION,
    FINALIZER,
    allocation_of,
    consumer,
    is_reserved_for,
    pod_claims,
)
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.devices.book import KINDS, DeviceBook
from fairway.scheduling.devices.selecting import AllocationError
from fairway.scheduling.dynamicresources import (
    PLUGIN,
    Binding,
    DynamicResources,
    Plan,
    has_binding_conditions,
    is_late,
    readiness,
    waits_for,
)
from fairway.scheduling.verdict import Release, Scheduled
from fairway.twin.kubeevents import NORMAL
from fairway.twin.loop import SCHEDULER

if TYPE_CHECKING:
    from fairway.twin.scheduler import SchedulerComponent

_POLL_US: Final = 5 * SECOND_US


class BindingError(Exception):
    """PreBind failed: the pod is tried again. The text is upstream's."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that waits on the node of `verdict` for its devices to be ready."""

    record: PodRecord
    verdict: Scheduled


class Reservations:
    """Data only, beside its scheduler. Without devices in the cluster it does nothing."""

    def __init__(self) -> None:
        self.waiting: dict[Key, Waiting] = {}
        self.held: dict[Key, None] = {}
        """Pods that are not worth a try before their claims are there."""
        self._promised: dict[Key, Plan] = {}
        """What pods are to get that have a node, and wait there for others of their group."""
        self._holding: dict[Key, None] = {}
        """Whose promises count at the moment: within one event, as places on nodes do."""
        self._book: DeviceBook | None = None
        self._are_assumed = False

    def attach(self, scheduler: SchedulerComponent) -> None:
        self._its = scheduler
        self._store = scheduler.host.store
        self._poll = scheduler.host.loop.register(f"{scheduler.name}.devices", self._on_poll)
        if any(self._store.count(gk) for gk in KINDS):
            self._begin()

    def fork(self) -> Reservations:
        twin = Reservations()
        twin.waiting = {k: replace(w, record=w.record.copy()) for k, w in self.waiting.items()}
        twin.held = dict(self.held)
        twin._promised = dict(self._promised)
        return twin

    def _begin(self) -> None:
        """From now on somebody has devices, or asks for some."""
        if self._book is not None:
            return
        self._book = DeviceBook(self._store)
        for scheduler in self._its.schedulers.values():
            self.share_with(scheduler)

    def share_with(self, scheduler: Scheduler) -> None:
        """It knows of devices, once anybody has some."""
        if self._book is not None:
            scheduler.give_devices(DynamicResources(self._store, self._its.accounts, self._book))

    # PreEnqueue

    def holds(self, key: Key, pod: Obj) -> bool:
        """Whether the pod waits for a claim before it is tried at all."""
        if not pod["spec"].get("resourceClaims"):
            return False
        self._begin()
        if waits_for(self._store, pod):
            self.held[key] = None
            return True
        self.held.pop(key, None)
        return False

    def takes_out(self, key: Key, pod: Obj, refused_by: str) -> bool:
        """Whether a pod that was just refused has lost a claim: it leaves the queue, and is told nothing new."""
        if refused_by != PLUGIN or not self.holds(key, pod):
            return False
        self._its.queue.remove(key)
        return True

    def uses(self, pod: Key, claim: Key) -> bool:
        found = self._store.get(pod)
        if found is None or pod.namespace != claim.namespace:
            return False
        return any(entry.claim == claim.name for entry in pod_claims(found))

    def observe(self, change: Change, now_us: int) -> None:
        gk = change.key.gk
        if gk in KINDS:
            self._begin()
            if gk == CLAIM and self.held and _is_news_to_held(change):
                users = claim_users(self._store).of(change.key)
                # In the order in which they came.
                waiting = users if len(users) < 2 else _in_order(self.held, users)
                self._release_held(waiting, now_us)
        elif gk == "Pod":
            is_leaving = change.type == DELETED or "deletionTimestamp" in meta_of(change.obj)
            if is_leaving:
                self.held.pop(change.key, None)
                if self.waiting.pop(change.key, None) is not None:
                    self._its.wake_all(now_us)
            else:
                self._release_held((change.key,), now_us)

    def _release_held(self, keys: Sequence[Key], now_us: int) -> None:
        for key in keys:
            if key not in self.held:
                continue
            pod = self._store.get(key)
            if pod is None:
                del self.held[key]
            elif self._its.is_to_queue(pod) and not self.holds(key, pod):
                self._its.enqueue(key, pod, now_us)

    # Reserve

    def promise(self, scheduler: Scheduler, record: PodRecord, node: str) -> None:
        """The pod has a node, and is not bound yet: nobody else is given its devices."""
        devices = scheduler.devices
        if devices is None or not devices.concerns(record):
            return
        plan = scheduler.device_plan(record, node)
        if any(b.allocation is not None for b in plan.bindings):
            self._promised[record.key] = plan
            self.hold(record.key)

    def hold(self, key: Key) -> None:
        plan = self._promised.get(key)
        if plan is None or key in self._holding or self._book is None:
            return
        self._holding[key] = None
        for binding in plan.bindings:
            if binding.allocation is not None:
                self._book.hold(binding.key, binding.allocation)

    def let_go(self, key: Key) -> None:
        plan = self._promised.get(key)
        if plan is None or key not in self._holding or self._book is None:
            return
        del self._holding[key]
        for binding in plan.bindings:
            if binding.allocation is not None:
                self._book.let_go(binding.key, binding.allocation)

    def forgo(self, key: Key) -> None:
        """The pod gets nothing of what it was promised."""
        self.let_go(key)
        self._promised.pop(key, None)

    # PreBind

    def reserve(
        self, scheduler: Scheduler, record: PodRecord, pod: Obj, verdict: Scheduled, now_us: int
    ) -> bool:
        """Bind the pod's claims; whether it has to wait for its devices.

        Raises: BindingError.
        """
        devices = scheduler.devices
        if devices is None or not devices.concerns(record):
            return False
        self.let_go(record.key)
        plan = self._promised.pop(record.key, None)
        try:
            plan = plan or scheduler.device_plan(record, verdict.node)
        except AllocationError as failed:
            raise BindingError(f'running PreBind plugin "{PLUGIN}": {failed}') from failed
        is_pending = False
        for binding in plan.bindings:
            claim = self._bound(binding, pod, now_us, plan.mappings)
            allocation = allocation_of(claim)
            is_pending = is_pending or (allocation is not None and has_binding_conditions(allocation))
        if not is_pending:
            return False
        words = f"waiting for binding conditions for device on node {verdict.node}"
        self._its.say(record.key, record.uid, NORMAL, "BindingConditionsPending", words)
        scheduler.nominated.pop(record.key, None)
        self._its.nominate(record.key, verdict.node)
        waiting = self.waiting[record.key] = Waiting(record, verdict)
        if self._are_assumed:
            self._place(waiting)
        if not self._look(record.key, now_us):
            self._its.host.loop.at(now_us + _POLL_US, self._poll, record.key, SCHEDULER)
        return True

    def _bound(self, binding: Binding, pod: Obj, now_us: int, mappings: tuple[Obj, ...]) -> Obj:
        """Raises: BindingError."""
        key = self._made(binding, pod) if binding.key is None else binding.key
        claim = self._store.get(key)
        if claim is not None and is_reserved_for(pod, claim):
            return claim
        problem = overtaken(binding, key, claim)
        if claim is None or problem:
            raise BindingError(f'running PreBind plugin "{PLUGIN}": {problem}')
        status = {**status_of(claim)}
        if binding.allocation is not None:
            if FINALIZER not in (meta_of(claim).get("finalizers") or ()):
                finalizers = [*(meta_of(claim).get("finalizers") or ()), FINALIZER]
                self._store.set_finalizers(key, finalizers)
            status["allocation"] = binding.allocation
        if "allocationTimestamp" not in status["allocation"]:
            status["allocation"] = {**status["allocation"], "allocationTimestamp": rfc3339(now_us)}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer(pod)]
        refused = self._refusal({**claim, "status": status}, claim)
        if refused:
            what = "allocation and reservation" if binding.allocation is not None else "reservation"
            why = f"add {what} to claim {key.namespace}/{key.name}: {refused}"
            raise BindingError(f'running PreBind plugin "{PLUGIN}": {why}')
        bound = self._store.set_status(key, status)
        if binding.key is None:
            said = {"requestMappings": list(mappings), "resourceClaimName": key.name}
            self._its.patch_status(_key_of(pod), {"extendedResourceClaimStatus": said})
        return bound

    def _refusal(self, new: Obj, old: Obj) -> str:
        """What the API server would say to this status: only admin access can be refused since it was asked for."""
        results: list[Any] = ((new["status"]["allocation"].get("devices") or {}).get("results")) or []
        if not any(r.get("adminAccess") for r in results):
            return ""
        from fairway.kube.validation.devices.statuses import status_problems

        meta = meta_of(new)
        found = status_problems(new, old, self._store.get(Key("Namespace", "", meta["namespace"])))
        said = ", ".join(str(problem) for problem in found)
        return (
            f'{CLAIM} "{meta["name"]}" is invalid: {said if len(found) < 2 else f"[{said}]"}' if found else ""
        )

    def _made(self, binding: Binding, pod: Obj) -> Key:
        """Create the claim for a pod's extended resources."""
        meta = meta_of(pod)
        prefix = f"{meta['name']}-extended-resources-"
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        made = self._store.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "generateName": prefix,
                    "namespace": meta["namespace"],
                    "ownerReferences": [owner],
                    "annotations": {EXTENDED_ANNOTATION: "true"},
                },
                **binding.obj,
            }
        )
        return Key(CLAIM, meta["namespace"], meta_of(made)["name"])

    # Waiting for devices

    def _on_poll(self, key: Key) -> None:
        now_us = self._its.host.loop.now_us
        if key in self.waiting and not self._look(key, now_us):
            self._its.host.loop.at(now_us + _POLL_US, self._poll, key, SCHEDULER)
        self._its.arm()

    def _look(self, key: Key, now_us: int) -> bool:
        """Bind the pod, give it up, or leave it waiting; whether it waits no more."""
        waiting, pod = self.waiting[key], self._store.get(key)
        if pod is None or self._its.accounts.row_of.get(waiting.verdict.node) is None:
            self._end(key)
            self._again(key, now_us)
            return True
        problem = ""
        for claim_key in self._claims_of(pod):
            claim = self._store.get(claim_key)
            if claim is None:
                continue
            failed, is_ready = readiness(claim)
            if failed or (not is_ready and is_late(claim, now_us)):
                problem = failed or f"device binding timeout: claim={meta_of(claim)['name']}"
                break
            if not is_ready:
                return False
        self._end(key)
        if problem:
            self._its.fail_binding(waiting.record, f'running PreBind plugin "{PLUGIN}": {problem}', now_us)
        else:
            scheduler = self._its.schedulers[waiting.record.shape.scheduler_name]
            self._its.bind_ready(scheduler, waiting.record, pod, waiting.verdict, now_us)
        return True

    def _claims_of(self, pod: Obj) -> list[Key]:
        """Those it names, and the one made for its extended resources."""
        namespace, made = meta_of(pod)["namespace"], self._made_for(pod)
        named = [Key(CLAIM, namespace, entry.claim) for entry in pod_claims(pod) if entry.claim]
        return named if made is None else [*named, made]

    def _made_for(self, pod: Obj) -> Key | None:
        return None if self._book is None else self._book.of_pod.get(meta_of(pod).get("uid") or "")

    def _end(self, key: Key) -> None:
        waiting = self.waiting.pop(key)
        if waiting.record.row >= 0:
            self._its.accounts.displace(waiting.record)

    def _again(self, key: Key, now_us: int) -> None:
        pod = self._store.get(key)
        if pod is not None and self._its.is_to_queue(pod):
            self._its.enqueue(key, pod, now_us)

    def unreserve(self, pod: Obj) -> None:
        """Take the pod out of its claims again; one made for its extended resources goes. Source: Unreserve."""
        uid = meta_of(pod).get("uid")
        made = self._made_for(pod)
        if made is not None:
            self.release(Release("", deletes=made))
        for key in self._claims_of(pod):
            claim = self._store.get(key)
            if claim is not None and allocation_of(claim) is not None and is_reserved_for(pod, claim):
                status = status_of(claim)
                kept = [r for r in status["reservedFor"] if r.get("uid") != uid]
                self._store.set_status(key, _without(status, "reservedFor", kept))

    # PostFilter

    def release(self, release: Release) -> None:
        """Take an allocation back that keeps a pod from being scheduled."""
        for key, is_deleted in ((release.deallocates, False), (release.deletes, True)):
            claim = None if key is None else self._store.get(key)
            if key is None or claim is None:
                continue
            if is_deleted:
                self._store.set_finalizers(
                    key, [f for f in meta_of(claim).get("finalizers") or () if f != FINALIZER]
                )
                self._store.delete(key)
            else:
                gone = ("allocation", "reservedFor", "devices")
                self._store.set_status(key, {k: v for k, v in status_of(claim).items() if k not in gone})

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


def _is_news_to_held(change: Change) -> bool:
    """Whether a pod that waits for the claim may go on: it came, or is somebody else's now."""
    if change.old is None or change.type == DELETED:
        return True
    before, after = meta_of(change.old), meta_of(change.obj)
    return before.get("ownerReferences") is not after.get("ownerReferences")


def overtaken(binding: Binding, key: Key, claim: Obj | None) -> str:
    """What became of a claim since the pod's node was chosen. Source: bindClaim."""
    name = f"{key.namespace}/{key.name}"
    if claim is None:
        what = "add reservation" if binding.allocation is None else "add finalizer"
        return f'{what} to claim {name}: resourceclaims.resource.k8s.io "{key.name}" not found'
    if "deletionTimestamp" in meta_of(claim):
        return f"claim {name} got deleted in the meantime"
    if (binding.allocation is None) == (allocation_of(claim) is None):
        what = "deallocated" if binding.allocation is None else "allocated"
        return f"claim {name} got {what} elsewhere in the meantime"
    return ""


def _in_order(held: dict[Key, None], users: list[Key]) -> list[Key]:
    wanted = {*users}
    return [key for key in held if key in wanted]


def _key_of(pod: Obj) -> Key:
    meta = meta_of(pod)
    return Key("Pod", meta["namespace"], meta["name"])


def _without(status: Obj, name: str, left: list[Any]) -> Obj:
    rest = {k: v for k, v in status.items() if k != name}
    return {**rest, name: left} if left else rest
