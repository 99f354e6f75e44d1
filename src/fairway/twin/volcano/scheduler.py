"""Volcano's scheduler on the loop: a session every second while anything new may change its outcome.

The decisions are `fairway.volcano`'s; this reads the cluster, carries decisions out against the store,
and writes the conditions and events Volcano writes.

Unlike kube: seconds in which nothing changed have no session (it would decide the same), and an event that would
repeat the last one about its object is left out.

Source: volcano-sh/volcano pkg/scheduler/scheduler.go Run, runOnce; cache/cache.go Evict, Bind, taskUnschedulable,
UpdateJobStatus, newDefaultAndRootQueue; cmd/scheduler/app/options (schedule-period 1 s).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from fairway.cluster.changes import DELETED, MODIFIED, Change
from fairway.cluster.devices import GPU_INDEX_ANNOTATION, annotation_of
from fairway.errors import InvalidInput
from fairway.kube.conditions import set_condition
from fairway.kube.objects import Key, Obj, annotations_of, meta_of
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.components import Host
from fairway.twin.kubeevents import NORMAL, WARNING
from fairway.twin.loop import SCHEDULER
from fairway.twin.owners import DefaultSelectors
from fairway.twin.volcano.feasibility import KubeFeasibility
from fairway.volcano.configuration import (
    CONFIG_MAP,
    CONFIG_NAMESPACE,
    DEFAULT_CONFIGURATION,
    VolcanoConfiguration,
    configuration_of,
)
from fairway.volcano.cycle import PodWaits, SessionResult, run_session
from fairway.volcano.facts import DEFAULT_QUEUE, ROOT_QUEUE
from fairway.volcano.reading import (
    GROUP_NAME,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    SCHEDULER_NAME,
    read_cluster,
)
from fairway.volcano.statement import Binding, Eviction

SCHEDULE_PERIOD_US: Final = SECOND_US
CONFIG: Final = "ConfigMap"
_NOTE_LENGTH: Final = 1024


class VolcanoScheduler:
    """Asleep until the first object or pod of Volcano's appears."""

    name = SCHEDULER_NAME
    kinds = (POD, NODE, QUEUE, POD_GROUP, PRIORITY_CLASS, CONFIG)

    def __init__(self, configuration: VolcanoConfiguration = DEFAULT_CONFIGURATION) -> None:
        self.configuration = configuration
        self.is_awake = False
        self._armed = False
        self._sessions = 0
        self._search_from = 0
        self._told: dict[str, str] = {}
        """By PodGroup, the last event about it."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._selectors = DefaultSelectors(host.store)
        self._session = host.loop.register(f"{self.name}.session", self._on_session)
        self._stream = host.streams.stream(f"{self.name}/ties")

    def start(self) -> None:
        """Nothing to schedule yet."""

    def fork(self) -> VolcanoScheduler:
        twin = VolcanoScheduler(self.configuration)
        twin.is_awake, twin._armed = self.is_awake, self._armed
        twin._sessions, twin._search_from = self._sessions, self._search_from
        twin._told = dict(self._told)
        return twin

    # What it sees

    def observe(self, change: Change) -> None:
        gk = change.key.gk
        if not self.is_awake:
            if gk == POD:
                if change.obj["spec"].get("schedulerName") != self.name:
                    return
            elif gk not in (QUEUE, POD_GROUP, CONFIG) or (gk == CONFIG and not _is_configuration(change.key)):
                return
            self._wake_up()
        if gk == CONFIG:
            if not _is_configuration(change.key):
                return
            self._configure(change)
        if _matters(change):
            self._arm()

    def _wake_up(self) -> None:
        self.is_awake = True
        for name in (ROOT_QUEUE, DEFAULT_QUEUE):
            if self.host.store.get(Key(QUEUE, "", name)) is None:
                spec: dict[str, Any] = {"weight": 1, "reclaimable": name != ROOT_QUEUE}
                if name != ROOT_QUEUE:
                    spec["parent"] = ROOT_QUEUE
                self.host.store.create(
                    {
                        "apiVersion": "scheduling.volcano.sh/v1beta1",
                        "kind": "Queue",
                        "metadata": {"name": name},
                        "spec": spec,
                    }
                )

    def _configure(self, change: Change) -> None:
        """A configuration that will not do leaves the old one in force, as upstream does."""
        try:
            if change.type == DELETED:
                self.configuration = DEFAULT_CONFIGURATION
            else:
                self.configuration = configuration_of(change.obj)
        except InvalidInput as wrong:
            key = change.key
            why = "; ".join(str(p) for p in wrong.problems)
            self._say(key, WARNING, "InvalidConfiguration", why)

    def _arm(self) -> None:
        """A session at the next full period."""
        if not self._armed:
            self._armed = True
            now_us = self.host.loop.now_us
            due_us = (now_us // SCHEDULE_PERIOD_US + 1) * SCHEDULE_PERIOD_US
            self.host.loop.at(due_us, self._session, None, SCHEDULER)

    # A session

    def _on_session(self, _data: None) -> None:
        self._armed = False
        self._sessions += 1
        host = self.host
        containment = host.containment
        unread = None if containment is None else containment.skipping(self.name, "reading it")
        facts = read_cluster(host.store.objects, self.name, unread)
        if unread is not None:
            unread.done()
        feasibility = KubeFeasibility(
            host.store.accounts, [n.name for n in facts.nodes], host.store.get, self._selectors.of
        )
        result = run_session(
            facts,
            self.configuration,
            feasibility,
            draw=lambda below: self._stream.getrandbits(30) % below,
            now=rfc3339(host.loop.now_us),
            uid=str(UUID(int=self._sessions)),
            search_from=self._search_from,
        )
        devices = {
            f"{b.namespace}/{b.pod}": feasibility.devices(f"{b.namespace}/{b.pod}") for b in result.bindings
        }
        feasibility.close()
        self._search_from = result.search_from
        self._carry_out(result, devices)

    def _carry_out(self, result: SessionResult, devices: Mapping[str, int]) -> None:
        for eviction in result.evictions:
            self._evict(eviction)
        for binding in result.bindings:
            self._bind(binding, devices.get(f"{binding.namespace}/{binding.pod}", 0))
        for group in result.groups:
            key = _group_key(group.group)
            if self.host.store.get(key) is not None:
                self.host.store.set_status(key, dict(group.status))
        for told in result.events:
            text = f"{told.type} {told.reason} {told.message}"
            if self._told.get(told.group) != text:
                self._told[told.group] = text
                self._say(_group_key(told.group), told.type, told.reason, told.message)
        for waits in result.pods:
            self._write_condition(waits)
        for queue in result.queues:
            key = Key(QUEUE, "", queue.queue)
            obj = self.host.store.get(key)
            if obj is not None:
                status = {**(obj.get("status") or {}), "allocated": dict(queue.allocated)}
                self.host.store.set_status(key, status)

    def _living(self, namespace: str, name: str, uid: str) -> Obj | None:
        obj = self.host.store.get(Key(POD, namespace, name))
        if obj is None or obj["metadata"]["uid"] != uid or "deletionTimestamp" in obj["metadata"]:
            return None
        return obj

    def _bind(self, binding: Binding, devices: int) -> None:
        pod = self._living(binding.namespace, binding.pod, binding.uid)
        if pod is None or pod["spec"].get("nodeName"):
            return
        key = Key(POD, binding.namespace, binding.pod)
        status = {k: v for k, v in (pod.get("status") or {}).items() if k != "nominatedNodeName"}
        now = rfc3339(self.host.loop.now_us)
        status["conditions"] = set_condition(
            status.get("conditions"), "PodScheduled", "True", now_text=now, lastProbeTime=None
        )
        annotations = {GPU_INDEX_ANNOTATION: annotation_of(devices)} if devices else None
        self.host.store.bind(key, binding.node, status, annotations)
        self._say(
            key, NORMAL, "Scheduled", f"Successfully assigned {key.namespace}/{key.name} to {binding.node}"
        )

    def _evict(self, eviction: Eviction) -> None:
        pod = self._living(eviction.namespace, eviction.pod, eviction.uid)
        if pod is None:
            return
        key = Key(POD, eviction.namespace, eviction.pod)
        self._say(_group_key(eviction.group), NORMAL, "Evict", eviction.reason)
        message = f"Pod is evicted, because of {eviction.reason}"
        self._say(key, WARNING, "Evict", message)
        now = rfc3339(self.host.loop.now_us)
        status = dict(pod.get("status") or {})
        conditions = set_condition(status.get("conditions"), "Ready", "False", "Evict", message, now)
        why = f"{self.name}: preempting to accommodate a higher priority pod"
        status["conditions"] = set_condition(
            conditions, "DisruptionTarget", "True", "PreemptionByScheduler", why, now
        )
        self.host.store.set_status(key, status)
        self.host.store.delete(key)

    def _write_condition(self, waits: PodWaits) -> None:
        """Only what changes: reason, message, or the node it is nominated to."""
        pod = self._living(waits.namespace, waits.pod, waits.uid)
        if pod is None or pod["spec"].get("nodeName"):
            return
        status = dict(pod.get("status") or {})
        conditions = status.get("conditions") or ()
        old: Obj = next((c for c in conditions if c["type"] == "PodScheduled"), {})
        is_told = (old.get("status"), old.get("reason"), old.get("message")) == (
            "False",
            waits.reason,
            waits.message,
        )
        if is_told and waits.nominate in ("", status.get("nominatedNodeName")):
            return
        status["conditions"] = set_condition(
            status.get("conditions"),
            "PodScheduled",
            "False",
            waits.reason,
            waits.message,
            rfc3339(self.host.loop.now_us),
        )
        if waits.nominate:
            status["nominatedNodeName"] = waits.nominate
        key = Key(POD, waits.namespace, waits.pod)
        self.host.store.set_status(key, status)
        self._say(key, WARNING, "FailedScheduling", waits.message)

    def _say(self, key: Key, type_: str, reason: str, message: str) -> None:
        host, now_us = self.host, self.host.loop.now_us
        obj = host.store.get(key)
        uid = "" if obj is None else obj["metadata"]["uid"]
        note = message if len(message) <= _NOTE_LENGTH else message[: _NOTE_LENGTH - 4] + " ..."
        host.events.emit(now_us, key, uid, type_, reason, note, self.name)
        host.log.record(now_us, self.name, key.gk, key.namespace, key.name, reason, note)


def _group_key(group: str) -> Key:
    namespace, _, name = group.partition("/")
    return Key(POD_GROUP, namespace, name)


def _is_configuration(key: Key) -> bool:
    return key.name == CONFIG_MAP and key.namespace == CONFIG_NAMESPACE


def _matters(change: Change) -> bool:
    """Whether a session now could decide something else: conditions alone, its own words mostly, cannot."""
    old, new = change.old, change.obj
    if change.type != MODIFIED or old is None:
        return True
    if old.get("spec") is not new.get("spec") and old.get("spec") != new.get("spec"):
        return True
    gk, a, b = change.key.gk, old.get("status") or {}, new.get("status") or {}
    if gk == POD:
        return (
            a.get("phase") != b.get("phase")
            or ("deletionTimestamp" in old["metadata"]) != ("deletionTimestamp" in new["metadata"])
            or annotations_of(old).get(GROUP_NAME) != annotations_of(new).get(GROUP_NAME)
        )
    if gk == POD_GROUP:
        return bool(a.get("phase") != b.get("phase"))
    if gk == QUEUE:
        return bool(a.get("state") != b.get("state"))
    if gk == NODE:
        return _node_essence(old) != _node_essence(new)
    return old != new


def _node_essence(node: Obj) -> tuple[Any, ...]:
    status = node.get("status") or {}
    ready = [c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"]
    return (status.get("allocatable"), ready, meta_of(node).get("labels"))
