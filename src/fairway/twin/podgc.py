"""Which pods does nobody need any more? Ended ones beyond a threshold, those whose node is gone, those told to go that
no kubelet will let go: without a node, or on one declared dead.

Looks every 20 s (`podGCPeriod`), and here only when there is something to look at. A node that does not exist is given
40 s (`podGCQuarantine`) to come back; then its pods, ended or not, are failed and deleted by force.

Source: pkg/controller/podgc/gc_controller.go (v1.36).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from fairway.cluster.actions import Delete, perform
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, spec_of, status_of
from fairway.twin.components import Host
from fairway.twin.loop import HOUSEKEEPING, NO_TIME
from fairway.twin.nodelifecycle import ready_status
from fairway.twin.tainteviction import mark_disrupted

NAME: Final = "pod-garbage-collector"
TERMINAL: Final = ("Succeeded", "Failed")
OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"
# Turns of pods that went by other ways are dropped once they are as many as the others and these.
_TURNS_LEFT: Final = 1_024
_GONE: Final = "PodGC: node no longer exists"


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
        self._ended_on: dict[str, dict[Key, None]] = {}
        """The same by their nodes, which keep no account of them."""
        self.missing: dict[str, int] = {}
        """Nodes that do not exist and have pods, and since when that is known."""
        self.unscheduled: dict[Key, None] = {}
        """Pods that were told to go before they had a node, and that a finalizer holds."""
        self.out_of_service: dict[str, None] = {}
        """Nodes that were declared dead."""
        self._ticks_from_us: int
        self._armed_us = NO_TIME

    def attach(self, host: Host) -> None:
        self.host = host
        self._sweep = host.loop.register("podgc.sweep", self._on_sweep)

    def start(self) -> None:
        self._ticks_from_us = self.host.loop.now_us

    def fork(self) -> PodGarbageCollector:
        twin = PodGarbageCollector()
        twin.ended, twin._turns = dict(self.ended), list(self._turns)
        twin._ended_on = {node: dict(keys) for node, keys in self._ended_on.items()}
        twin.missing, twin.unscheduled = dict(self.missing), dict(self.unscheduled)
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
        node = pod["spec"].get("nodeName") or ""
        if change.type == DELETED:
            self.ended.pop(key, None)
            self._forget_ended(key, node)
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._observe_leaving(key, node)
        if status_of(pod).get("phase") in TERMINAL:
            is_new = key not in self.ended
            self._await_turn(key, pod)
            if is_new:
                if node:
                    self._ended_on.setdefault(node, {})[key] = None
                threshold = self.host.latency.terminated_pod_gc_threshold
                if 0 < threshold < len(self.ended):
                    self._arm(self.host.loop.now_us)
        if node and node not in self.host.store.accounts.row_of:
            self._miss(node)

    def _observe_leaving(self, key: Key, node: str) -> None:
        """A pod was told to go; where it has a node, that is its kubelet's business unless the node is dead."""
        if not node:
            self.unscheduled[key] = None
        if not node or node in self.out_of_service:
            self._arm(self.host.loop.now_us)

    def _observe_node(self, change: Change) -> None:
        if change.type == DELETED:
            name = change.key.name
            if name in self._ended_on or self.host.store.accounts.bound_to(name):
                self._miss(name)
        elif _is_out_of_service(change.obj):
            self.out_of_service[change.key.name] = None
            self._arm(self.host.loop.now_us)

    def _miss(self, node: str) -> None:
        now_us = self.host.loop.now_us
        if self.missing.setdefault(node, now_us) == now_us:
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
        self._armed_us = NO_TIME
        self._collect_ended()
        self._collect_out_of_service()
        self._collect_orphans()
        self._collect_unscheduled()

    def _collect_ended(self) -> None:
        """The oldest of the ended pods, down to the threshold; evicted ones first. Source: gcTerminated."""
        threshold = self.host.latency.terminated_pod_gc_threshold
        surplus = len(self.ended) - threshold if threshold > 0 else 0
        while surplus > 0:
            turn = heappop(self._turns)
            if self.ended.get(turn[2]) == turn:
                del self.ended[turn[2]]
                self._delete(turn[2])
                surplus -= 1

    def _await_turn(self, key: Key, pod: Obj) -> None:
        turn = _turn(key, pod)
        if self.ended.get(key) != turn:
            self.ended[key] = turn
            heappush(self._turns, turn)
            if len(self._turns) > 2 * len(self.ended) + _TURNS_LEFT:
                self._turns = sorted(self.ended.values())

    def _forget_ended(self, key: Key, node: str) -> None:
        there = self._ended_on.get(node)
        if there is not None:
            there.pop(key, None)
            if not there:
                del self._ended_on[node]

    def _collect_out_of_service(self) -> None:
        """Terminating pods on nodes declared dead. Source: gcTerminating."""
        store = self.host.store
        for name in sorted(self.out_of_service):
            node = store.get(Key("Node", "", name))
            if node is None or not _is_out_of_service(node):
                del self.out_of_service[name]
            elif ready_status(node) != "True":
                for key, pod in self._pods_of(name):
                    if "deletionTimestamp" in pod["metadata"]:
                        self._fail_and_delete(key, pod, "PodGC: node is out-of-service")

    def _collect_orphans(self) -> None:
        """Pods of nodes that are still not there after their quarantine. Source: gcOrphaned."""
        store, now_us = self.host.store, self.host.loop.now_us
        waiting_us: int | None = None
        for name, since_us in list(self.missing.items()):
            due_us = since_us + self.host.latency.pod_gc_quarantine_us
            if store.get(Key("Node", "", name)) is not None:
                del self.missing[name]
            elif due_us > now_us:
                waiting_us = due_us if waiting_us is None else min(waiting_us, due_us)
            else:
                del self.missing[name]
                for key, pod in self._pods_of(name):
                    if status_of(pod).get("phase") not in TERMINAL:
                        mark_disrupted(self.host, key, pod, "DeletionByPodGC", _GONE)
                    self._fail_and_delete(key, pod, _GONE)
        if waiting_us is not None:
            self._arm(waiting_us)

    def _collect_unscheduled(self) -> None:
        """Source: gcUnscheduledTerminating."""
        waiting, self.unscheduled = self.unscheduled, {}
        for key in waiting:
            pod = self.host.store.get(key)
            if pod is not None and not pod["spec"].get("nodeName") and "deletionTimestamp" in pod["metadata"]:
                self._fail_and_delete(key, pod, "PodGC: pod was never scheduled")

    def _pods_of(self, node: str) -> list[tuple[Key, Obj]]:
        """All pods bound to this name, ended ones too: evicted ones first, then the oldest, then by name."""
        keys = [*self.host.store.accounts.bound_to(node), *self._ended_on.get(node, ())]
        found = [(key, pod) for key in keys if (pod := self.host.store.get(key)) is not None]
        return sorted(found, key=lambda item: _turn(*item))

    def _fail_and_delete(self, key: Key, pod: Obj, why: str) -> None:
        """Source: markFailedAndDeletePodWithCondition. `why` is for the log."""
        store = self.host.store
        if status_of(pod).get("phase") not in TERMINAL:
            marked = store.get(key)
            if marked is not None:
                store.set_status(key, {**(marked.get("status") or {}), "phase": "Failed"})
        self.host.log.record(
            self.host.loop.now_us, NAME, "Pod", key.namespace, key.name, "DeletionByPodGC", why
        )
        self._delete(key)

    def _delete(self, key: Key) -> None:
        perform(self.host.store, Delete(key, grace_s=0))


def _turn(key: Key, pod: Obj) -> Turn:
    was_evicted = status_of(pod).get("reason") == "Evicted"
    return (not was_evicted, pod["metadata"]["creationTimestamp"], key)


def _is_out_of_service(node: Obj) -> bool:
    taints = spec_of(node).get("taints") or ()
    return any(t.get("key") == OUT_OF_SERVICE_TAINT for t in taints)
