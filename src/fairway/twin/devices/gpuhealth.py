"""GPUs that break on the loop: what ends, who notices, what is given to nobody any more, and when it is back.

It watches nothing until the first slow card. Work on a broken card ends with exit code 1; members of its job wait for a
new one. A slow card slows every member of a job that has one of its pods on it.
"""

from __future__ import annotations

from typing import Final

from fairway.catalog.nodegpus import HARDWARE, INSTANCES, UNHEALTHY, gpus_of_node
from fairway.cluster.actions import Patch, perform
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.devices.breaking import Cause, cause_named
from fairway.devices.nodeview import RESOURCES
from fairway.kube.conditions import set_condition
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, annotations_of, meta_of, spec_of, status_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.resources import GPU_MILLI, NVIDIA_GPU
from fairway.kube.timestamps import MINUTE_US, rfc3339
from fairway.twin.components import Host
from fairway.twin.faults import plan_fault
from fairway.twin.kubelet import slowing
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.loop import NODES

NAME: Final = "gpu-health"
_MOST_TOLD: Final = 100_000


class GpuHealth:
    """Which cards are broken how, and since when."""

    name = NAME
    skips_pod_status = False

    def __init__(self) -> None:
        self.kinds: tuple[str, ...] = ()
        self.broken: dict[tuple[str, int], dict[str, None]] = {}
        """Causes by node and card."""
        self.history: dict[tuple[str, int, str, int], int | None] = {}
        """Node, card, cause and since when; until when. The latest `_MOST_TOLD`."""
        self._stretched: dict[str, int] = {}
        """By how much pods are slowed, in thousandths, by UID."""

    def attach(self, host: Host) -> None:
        self.host, self.store = host, host.store
        self.h_break = host.loop.register("gpuhealth.break", self._on_break)
        self.h_mend = host.loop.register("gpuhealth.mend", self._on_mend)

    def start(self) -> None:
        """Cards break when somebody says so."""

    def fork(self) -> GpuHealth:
        twin = GpuHealth()
        twin.kinds = self.kinds
        twin.broken = {at: dict(causes) for at, causes in self.broken.items()}
        twin.history = dict(self.history)
        twin._stretched = dict(self._stretched)
        return twin

    def observe(self, change: Change) -> None:
        """Only while a card is slow: pods that start on it."""
        uid = meta_of(change.obj)["uid"]
        if change.type == DELETED:
            self._stretched.pop(uid, None)
        elif uid not in self._stretched and status_of(change.obj).get("phase") == "Running":
            self._pace(change.obj)

    # Breaking

    def _on_break(self, data: tuple[str, int, str, int, bool]) -> None:
        """`data`: node, card, cause, µs until it is mended (0: by the cause; negative: never), whether to drain."""
        name, card, named, repair_us, drains = data
        cause = cause_named(named)
        node = self.store.get(Key("Node", "", name))
        count = 0 if node is None else gpus_of_node(node).count
        if node is None or card >= count or named in self.broken.get((name, card), ()):
            return
        self.broken.setdefault((name, card), {})[named] = None
        self.history[name, card, named, self.host.loop.now_us] = None
        if len(self.history) > _MOST_TOLD:
            del self.history[next(iter(self.history))]
        key = Key("Node", "", name)
        line = cause.log_line(card)
        if cause.xid or cause.condition:
            self._say(key, node, "Warning", cause.condition or "XID", line)
        self.host.log.record(self.host.loop.now_us, NAME, "Node", "", name, named, str(card))
        if cause.ends == "card":
            for pod in self._on_card(node, card):
                meta = meta_of(pod)
                where = Key("Pod", meta["namespace"], meta["name"])
                self.host.events.emit(
                    self.host.loop.now_us, where, meta["uid"], "Warning", "GPUFailed", line, "kernel-monitor"
                )
                plan_fault(self.host, "kill", where, "", 1)
        self._write(key, cause, card, is_broken=True)
        if cause.slow_milli != 1000:
            self._repace()
        if drains:
            self._drain(key, on=True)
        after_us = repair_us or round(cause.repair * MINUTE_US)
        if after_us > 0 and cause.repair:
            self.host.loop.at(
                self.host.loop.now_us + after_us, self.h_mend, (name, card, named, drains), NODES
            )
        elif not cause.repair:
            # The application's own error: the card is well.
            del self.broken[(name, card)][named]

    def _on_mend(self, data: tuple[str, int, str, bool]) -> None:
        name, card, named, drained = data
        del self.broken[name, card][named]
        cause = cause_named(named)
        since = next(
            (s for n, c, was, s in reversed(self.history) if (n, c, was) == (name, card, named)), None
        )
        if since is not None:
            self.history[name, card, named, since] = self.host.loop.now_us
        key = Key("Node", "", name)
        if self.store.get(key) is None:
            return
        self._write(key, cause, card, is_broken=False)
        if cause.slow_milli != 1000:
            self._repace()
        if drained:
            self._drain(key, on=False)
        self.host.log.record(self.host.loop.now_us, NAME, "Node", "", name, f"{named}Mended", str(card))

    def _write(self, key: Key, cause: Cause, card: int, *, is_broken: bool) -> None:
        """The node's condition; its devices where the plugin gave one up."""
        node = self.store.get(key)
        if node is None:
            return
        if cause.unhealthy:
            self._mark(key, node, card, is_broken=is_broken)
            node = self.store.get(key) or node
        if not cause.condition:
            return
        left = [
            cause_named(c).log_line(slot)
            for (name, slot), named in self.broken.items()
            for c in named
            if name == key.name and cause_named(c).condition == cause.condition
        ]
        now = rfc3339(self.host.loop.now_us)
        reason = cause.condition if left else f"No{cause.condition}"
        message = cause.log_line(card) if is_broken else "".join(left[-1:])
        value = "True" if left else "False"
        conditions = set_condition(
            status_of(node).get("conditions"), cause.condition, value, reason, message, now
        )
        self.store.set_status(key, {**status_of(node), "conditions": conditions})

    def _mark(self, key: Key, node: Obj, card: int, *, is_broken: bool) -> None:
        gpus = gpus_of_node(node)
        others = any(cause_named(c).unhealthy for c in self.broken.get((key.name, card), ()))
        unhealthy = gpus.unhealthy | {card} if is_broken or others else gpus.unhealthy - {card}
        if unhealthy == gpus.unhealthy:
            return
        notes = {UNHEALTHY: ",".join(map(str, sorted(unhealthy))) or None, HARDWARE: gpus.hardware}
        perform(self.store, Patch(key, {"metadata": {"annotations": notes}}))
        if RESOURCES in annotations_of(node):
            # The Operator's device plugin tells the kubelet.
            return
        status = status_of(self.store.get(key) or node)
        capacity, free = status.get("capacity") or {}, dict(status.get("allocatable") or {})
        for resource, each in ((NVIDIA_GPU, 1), (GPU_MILLI, 1000)):
            if resource in capacity:
                free[resource] = str(max(whole_ceil(capacity[resource]) - each * len(unhealthy), 0))
        self.store.set_status(key, {**status, "allocatable": free})

    def _drain(self, key: Key, *, on: bool) -> None:
        """Cordoned, and its GPU pods deleted; open again once the card is mended."""
        perform(self.store, Patch(key, {"spec": {"unschedulable": True if on else None}}))
        if not on:
            return
        for pod in self._holders(key.name):
            owner = (meta_of(pod).get("ownerReferences") or [{}])[0]
            if owner.get("kind") != "DaemonSet":
                plan_fault(
                    self.host, "delete", Key("Pod", meta_of(pod)["namespace"], meta_of(pod)["name"]), None
                )

    # Who is on which card

    def _holders(self, node: str) -> list[Obj]:
        """Pods that have GPUs of a node, in the order in which they came."""
        state = self._kubelet().nodes.get(node)
        pods = (self.store.by_uid(uid) for uid in (() if state is None else state.pods))
        found = [pod for pod in pods if pod is not None and _gpus_wanted(pod)]
        return sorted(found, key=_came)

    def _kubelet(self) -> Kubelet:
        kubelet = self.host.parts["kubelet"]
        if not isinstance(kubelet, Kubelet):
            raise KeyError("kubelet")
        return kubelet

    def _on_card(self, node: Obj, card: int) -> list[Obj]:
        """Those that have this card: by what is said on them, else in the order in which they came."""
        found, next_card = [], 0
        for pod in self._holders(meta_of(node)["name"]):
            said = _cards_said(pod)
            if not said:
                count = _gpus_wanted(pod)
                said = set(range(next_card, next_card + count))
                next_card += count
            if card in said:
                found.append(pod)
        return found

    # Slow cards

    def _repace(self) -> None:
        """After a card became slow or well: everybody on one, and the members of their jobs."""
        if self.kinds != ("Pod",):
            self.kinds = ("Pod",)
            if self.host.rewatch is not None:
                self.host.rewatch()
        kubelet = self._kubelet()
        for uid in list(kubelet.pods):
            pod = self.store.by_uid(uid)
            if pod is not None and (_gpus_wanted(pod) or uid in self._stretched):
                self._pace(pod)

    def _pace(self, pod: Obj) -> None:
        kubelet, uid = self._kubelet(), meta_of(pod)["uid"]
        state = kubelet.pods.get(uid)
        if state is None:
            return
        members = kubelet.gangs.get(state.gang.key) if state.gang is not None else None
        wanted = max(
            (self._slowness(one) for one in (uid, *(members.running if members else ()))), default=1000
        )
        had = self._stretched.get(uid, 1000)
        if wanted != had and slowing.stretch(kubelet, state, wanted * 1000 // had):
            self._stretched[uid] = wanted

    def _slowness(self, uid: str) -> int:
        """Of the slowest card that a pod has, in thousandths."""
        state = self._kubelet().pods.get(uid)
        node = None if state is None else self.store.get(Key("Node", "", state.node))
        worst = 1000
        for (name, card), named in self.broken.items() if node is not None else ():
            slow = max((cause_named(c).slow_milli for c in named), default=1000)
            if state is not None and node is not None and name == state.node and slow > worst:
                worst = slow if any(meta_of(p)["uid"] == uid for p in self._on_card(node, card)) else worst
        return worst

    def _say(self, key: Key, obj: Obj, kind: str, reason: str, message: str) -> None:
        now_us = self.host.loop.now_us
        self.host.events.emit(now_us, key, meta_of(obj)["uid"], kind, reason, message, "kernel-monitor")


def _came(pod: Obj) -> tuple[str, str, str]:
    meta = meta_of(pod)
    return status_of(pod).get("startTime") or "", meta["namespace"], meta["name"]


def break_gpu(
    host: Host,
    node: str,
    card: int,
    cause: str,
    *,
    repair_us: int = 0,
    drains: bool = False,
    after_us: int = 0,
) -> None:
    """Have a card break, now or later. `repair_us` 0: as long as the cause takes; negative: it stays broken."""
    health = host.parts[NAME]
    if not isinstance(health, GpuHealth):
        raise KeyError(NAME)
    host.loop.at(host.loop.now_us + after_us, health.h_break, (node, card, cause, repair_us, drains), NODES)


def _gpus_wanted(pod: Obj) -> int:
    """Devices of NVIDIA's that it asks for; parts count as one."""
    count = 0
    for container in spec_of(pod).get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name.startswith("nvidia.com/"):
                count += whole_ceil(amount)
            elif name == GPU_MILLI:
                count += max(whole_ceil(amount) // 1000, 1)
    return count


def _cards_said(pod: Obj) -> set[int]:
    notes = annotations_of(pod)
    parts = [part.partition("/")[0] for part in notes.get(INSTANCES, "").split(",")]
    parts += notes.get(GPU_INDEX_ANNOTATION, "").replace("-", ",").split(",")
    return {n for part in parts if (n := natural(part.strip())) is not None}
