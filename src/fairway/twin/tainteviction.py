"""Which pods must leave a tainted node, and when? NoExecute taints against tolerations with deadlines.

Source: pkg/controller/tainteviction/taint_eviction.go; the tolerations that admission adds:
plugin/pkg/admission/defaulttolerationseconds (v1.36).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.cluster.actions import Delete, perform
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, spec_of, status_of
from fairway.kube.taints import (
    NO_EXECUTE,
    NOT_READY_TAINT,
    UNREACHABLE_TAINT,
    Taint,
    Toleration,
    parse_taints,
    parse_tolerations,
)
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.components import Host
from fairway.twin.kubeevents import NORMAL
from fairway.twin.loop import CONTROLLERS
from fairway.twin.nodelifecycle import pods_on

NAME: Final = "taint-eviction-controller"
NOT_AT_ALL: Final = -1
"""A taint that nothing tolerates, not even for no time: planned evictions are brought forward for it alone."""


class Eviction(NamedTuple):
    """A planned eviction: its event, and since when it counts."""

    ticket: int
    since_us: int


class TaintEviction:
    """The taint eviction controller."""

    name = NAME
    kinds: tuple[str, ...] = ("Node", "Pod")
    skips_pod_status = True

    def __init__(self) -> None:
        self.tainted: dict[str, tuple[Taint, ...]] = {}
        self.planned: dict[str, Eviction] = {}
        """By pod UID."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._evict = host.loop.register("tainteviction.evict", self._on_evict)

    def start(self) -> None:
        """Taints come with nodes."""

    def fork(self) -> TaintEviction:
        twin = TaintEviction()
        twin.tainted = dict(self.tainted)
        twin.planned = dict(self.planned)
        return twin

    def observe(self, change: Change) -> None:
        if change.key[0] == "Node":
            self._observe_node(change)
            return
        if not self.tainted and not self.planned:
            return
        pod = change.obj
        uid = pod["metadata"]["uid"]
        if change.type == DELETED:
            self._cancel(change.key, uid, tell=False)
            return
        taints = self.tainted.get(spec_of(pod).get("nodeName") or "")
        was_bound = change.old is not None and spec_of(change.old).get("nodeName")
        if taints and not was_bound:
            self._consider(change.key, taints)

    def _observe_node(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            self.tainted.pop(name, None)
            return
        raw = spec_of(change.obj).get("taints")
        taints = tuple(t for t in parse_taints(raw) if t.effect == NO_EXECUTE) if raw else ()
        if taints == self.tainted.get(name, ()):
            return
        if taints:
            self.tainted[name] = taints
        else:
            del self.tainted[name]
        for key in pods_on(self.host, name):
            if taints:
                self._consider(key, taints)
            else:
                pod = self.host.store.get(key)
                if pod is not None:
                    self._cancel(key, pod["metadata"]["uid"], tell=True)

    def _consider(self, key: Key, taints: tuple[Taint, ...]) -> None:
        """Plan the eviction of a pod, or call it off. Source: processPodOnNode."""
        pod = self.host.store.get(key)
        if pod is None:
            return
        uid, now_us = pod["metadata"]["uid"], self.host.loop.now_us
        tolerated_us = tolerated_for_us(pod, taints, self.host.latency.default_toleration_us)
        if tolerated_us is None:
            self._cancel(key, uid, tell=True)
            return
        planned = self.planned.get(uid)
        if planned is not None and planned.since_us < now_us and tolerated_us != NOT_AT_ALL:
            # What is planned stands, also where another taint is put up with for a shorter time.
            return
        self._cancel(key, uid, tell=tolerated_us == NOT_AT_ALL)
        at_us = now_us + max(tolerated_us, 0)
        ticket = self.host.loop.at(at_us, self._evict, (key, uid), CONTROLLERS)
        self.planned[uid] = Eviction(ticket, now_us)

    def _cancel(self, key: Key, uid: str, *, tell: bool) -> None:
        planned = self.planned.pop(uid, None)
        if planned is None:
            return
        self.host.loop.cancel(planned.ticket)
        if tell:
            message = f"Cancelling deletion of Pod {key.namespace}/{key.name}"
            self._tell(key, uid, message)

    def _on_evict(self, data: tuple[Key, str]) -> None:
        key, uid = data
        self.planned.pop(uid, None)
        pod = self.host.store.get(key)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        self._tell(key, uid, f"Marking for deletion Pod {key.namespace}/{key.name}")
        mark_disrupted(
            self.host, key, pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        )
        self.host.log.record(
            self.host.loop.now_us, NAME, "Pod", key.namespace, key.name, "TaintManagerEviction"
        )
        perform(self.host.store, Delete(key, uid))

    def _tell(self, key: Key, uid: str, message: str) -> None:
        now_us = self.host.loop.now_us
        self.host.events.emit(now_us, key, uid, NORMAL, "TaintManagerEviction", message, NAME)


def tolerated_for_us(pod: Obj, taints: tuple[Taint, ...], default_us: int) -> int | None:
    """How long the pod may stay under these taints: None for ever, or NOT_AT_ALL.

    Pods that say nothing about not-ready and unreachable nodes put up with them for the default.
    """
    said = parse_tolerations(spec_of(pod).get("tolerations"))
    tolerations = [*said, *_added_by_admission(said, default_us)]
    shortest_us: int | None = None
    for taint in taints:
        matching = [t for t in tolerations if t.tolerates(taint)]
        if not matching:
            return NOT_AT_ALL
        for toleration in matching:
            if toleration.seconds is not None:
                limit_us = max(toleration.seconds, 0) * SECOND_US
                shortest_us = limit_us if shortest_us is None else min(shortest_us, limit_us)
    return shortest_us


def _added_by_admission(said: tuple[Toleration, ...], default_us: int) -> list[Toleration]:
    return [
        Toleration(key, "Exists", "", NO_EXECUTE, default_us // SECOND_US)
        for key in (NOT_READY_TAINT, UNREACHABLE_TAINT)
        if not any(t.key in (key, "") and t.effect in (NO_EXECUTE, "") for t in said)
    ]


def mark_disrupted(host: Host, key: Key, pod: Obj, reason: str, message: str) -> None:
    """Write the DisruptionTarget condition that says why a pod is about to go."""
    status = status_of(pod)
    condition: dict[str, Any] = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(host.loop.now_us),
        "reason": reason,
        "message": message,
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
    host.store.set_status(key, {**status, "conditions": [*others, condition]})
