"""Which pods does nobody need any more? Ended ones beyond a threshold, and those whose node is gone.

Looks every 20 s (`podGCPeriod`), and here only when there is something to look at. A pod whose node does not
exist is given 40 s (`podGCQuarantine`) in case the node comes back; then it is failed and deleted by force.

Source: pkg/controller/podgc/gc_controller.go (v1.36).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.kube.objects import Key, Obj
from fairway.twin.components import Host
from fairway.twin.loop import HOUSEKEEPING
from fairway.twin.nodelifecycle import pods_on, ready_status
from fairway.twin.tainteviction import mark_disrupted

NAME: Final = "pod-garbage-collector"
TERMINAL: Final = ("Succeeded", "Failed")
OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"


Turn = tuple[bool, str, Key]
"""Evicted pods (False) go first, then the oldest by creation, then by name. Source: byEvictionAndCreationTimestamp."""


class PodGarbageCollector:
    """The pod garbage collector."""

    name = NAME
    kinds: tuple[str, ...] = ("Pod", "Node")

    def __init__(self) -> None:
        self.ended: dict[Key, Turn] = {}
        """Pods that have ended, and when it is their turn to go."""
        self._turns: list[Turn] = []
        """The same as a heap, with those that went by other ways."""
        self.homeless: dict[Key, int] = {}
        """Pods bound to a node that does not exist, and since when that is known."""
        self.out_of_service: dict[str, None] = {}
        """Nodes that were declared dead."""
        self._ticks_from_us = 0
        self._armed_us = -1

    def attach(self, host: Host) -> None:
        self.host = host
        self._sweep = host.loop.register("podgc.sweep", self._on_sweep)

    def start(self) -> None:
        self._ticks_from_us = self.host.loop.now_us

    def fork(self) -> PodGarbageCollector:
        twin = PodGarbageCollector()
        twin.ended, twin._turns = dict(self.ended), list(self._turns)
        twin.homeless = dict(self.homeless)
        twin.out_of_service = dict(self.out_of_service)
        twin._ticks_from_us = self._ticks_from_us
        twin._armed_us = self._armed_us
        return twin

    def observe(self, change: Change) -> None:
        key = change.key
        if key[0] == "Node":
            self._observe_node(change)
            return
        pod = change.obj
        if change.type == DELETED:
            self.ended.pop(key, None)
            self.homeless.pop(key, None)
            return
        if (pod.get("status") or {}).get("phase") in TERMINAL:
            is_new = key not in self.ended
            self._await_turn(key, pod)
            if is_new:
                threshold = self.host.latency.terminated_pod_gc_threshold
                if 0 < threshold < len(self.ended):
                    self._arm(self.host.loop.now_us)
            return
        node = pod["spec"].get("nodeName")
        if node and node not in self.host.store.accounts.row_of:
            self._orphan(key)

    def _observe_node(self, change: Change) -> None:
        if change.type == DELETED:
            for key in self.host.store.accounts.bound_to(change.key.name):
                self._orphan(key)
        elif _is_out_of_service(change.obj):
            self.out_of_service[change.key.name] = None
            self._arm(self.host.loop.now_us)

    def _orphan(self, key: Key) -> None:
        now_us = self.host.loop.now_us
        if self.homeless.setdefault(key, now_us) == now_us:
            self._arm(now_us + self.host.latency.pod_gc_quarantine_us)

    def _arm(self, from_us: int) -> None:
        """Sweep at the first tick from a time on; an earlier one that is planned already re-arms itself."""
        period_us = max(self.host.latency.pod_gc_period_us, 1)
        tick_us = self._ticks_from_us + -(-(from_us - self._ticks_from_us) // period_us) * period_us
        if self._armed_us < 0 or tick_us < self._armed_us:
            self._armed_us = tick_us
            self.host.loop.at(tick_us, self._sweep, tick_us, HOUSEKEEPING)

    def _on_sweep(self, tick_us: int) -> None:
        if tick_us != self._armed_us:
            return
        self._armed_us = -1
        self._collect_ended()
        self._collect_out_of_service()
        self._collect_homeless()

    def _collect_ended(self) -> None:
        """The oldest of the ended pods, down to the threshold; evicted ones first. Source: gcTerminated."""
        threshold = self.host.latency.terminated_pod_gc_threshold
        surplus = len(self.ended) - threshold
        if threshold <= 0 or surplus <= 0:
            return
        while surplus > 0:
            turn = heappop(self._turns)
            if self.ended.get(turn[2]) == turn:
                del self.ended[turn[2]]
                self._delete(turn[2])
                surplus -= 1

    def _await_turn(self, key: Key, pod: Obj) -> None:
        was_evicted = (pod.get("status") or {}).get("reason") == "Evicted"
        turn = (not was_evicted, pod["metadata"]["creationTimestamp"], key)
        if self.ended.get(key) != turn:
            self.ended[key] = turn
            heappush(self._turns, turn)

    def _collect_out_of_service(self) -> None:
        """Terminating pods on nodes declared dead. Source: gcTerminating."""
        store = self.host.store
        for name in sorted(self.out_of_service):
            node = store.get(Key("Node", "", name))
            if node is None or not _is_out_of_service(node):
                del self.out_of_service[name]
            elif ready_status(node) != "True":
                for key in pods_on(self.host, name):
                    pod = store.get(key)
                    if pod is not None and "deletionTimestamp" in pod["metadata"]:
                        self._fail_and_delete(key, pod, "PodGC: node is out-of-service")

    def _collect_homeless(self) -> None:
        """Source: gcOrphaned."""
        store, now_us = self.host.store, self.host.loop.now_us
        waiting_us: int | None = None
        for key, since_us in list(self.homeless.items()):
            pod = store.get(key)
            node = "" if pod is None else (pod.get("spec") or {}).get("nodeName") or ""
            if pod is None or store.get(Key("Node", "", node)) is not None:
                del self.homeless[key]
                continue
            due_us = since_us + self.host.latency.pod_gc_quarantine_us
            if due_us <= now_us:
                del self.homeless[key]
                self._fail_and_delete(key, pod, "PodGC: node no longer exists")
            else:
                waiting_us = due_us if waiting_us is None else min(waiting_us, due_us)
        if waiting_us is not None:
            self._arm(waiting_us)

    def _fail_and_delete(self, key: Key, pod: Obj, message: str) -> None:
        store = self.host.store
        status = pod.get("status") or {}
        if status.get("phase") not in TERMINAL:
            mark_disrupted(self.host, key, pod, "DeletionByPodGC", message)
            marked = store.get(key)
            if marked is not None:
                store.set_status(key, {**marked["status"], "phase": "Failed"})
        self.host.log.record(
            self.host.loop.now_us, NAME, "Pod", key.namespace, key.name, "DeletionByPodGC", message
        )
        self._delete(key)

    def _delete(self, key: Key) -> None:
        try:
            self.host.store.delete(key, grace_s=0)
        except ApiError as gone:
            if gone.code != 404:
                raise


def _is_out_of_service(node: Obj) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return any(t.get("key") == OUT_OF_SERVICE_TAINT for t in taints)
