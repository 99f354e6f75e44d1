"""What does the control plane do about nodes it does not hear from? Conditions, taints, and how fast.

Every `nodeMonitorPeriod` the node lifecycle controller looks at heartbeats. A node silent for longer than the
grace period gets Unknown conditions at once, the NoSchedule taint as soon as that is seen, and one look later
queues for the NoExecute taint, which is handed out at a limited rate per zone: slower where most of a large
zone is down, not at all where most of a small zone or everything is. Looks at which nothing could have
changed are left out.

Source: pkg/controller/nodelifecycle/node_lifecycle_controller.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key, Obj, labels_of, spec_of, status_of
from fairway.kube.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NOT_READY_TAINT,
    UNREACHABLE_TAINT,
    UNSCHEDULABLE_TAINT,
)
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.twin.components import Host
from fairway.twin.kubeevents import NORMAL, WARNING
from fairway.twin.loop import CONTROLLERS, NO_TIME

NAME: Final = "node-controller"

# Which condition, at which status, is which taint.
_TAINT_OF: Final = {
    ("Ready", "False"): NOT_READY_TAINT,
    ("Ready", "Unknown"): UNREACHABLE_TAINT,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED: Final = (*_TAINT_OF.values(), UNSCHEDULABLE_TAINT)
_POSTED_BY_KUBELET: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_ZONE_LABELS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")

NORMAL_ZONE: Final = "Normal"
PARTIAL: Final = "PartialDisruption"
FULL: Final = "FullDisruption"


@dataclass(slots=True)
class Zone:
    """One failure domain: how its nodes are, who waits for a NoExecute taint, and when the next may go."""

    state: str = NORMAL_ZONE
    rate_milli: int = 0
    next_us: int = 0
    waiting: dict[str, None] = field(default_factory=dict)
    armed_us: int = NO_TIME


class NodeLifecycle:
    """The node lifecycle controller."""

    name = NAME
    kinds: tuple[str, ...] = ("Node",)

    def __init__(self) -> None:
        self.zones: dict[str, Zone] = {}
        self._status: dict[str, tuple[str, str]] = {}
        """Zone and Ready status of every node."""
        self._counts: dict[str, list[int]] = {}
        """By zone: how many of its nodes are ready, and how many are not."""
        self._looks: dict[int, dict[str, None]] = {}
        """Which nodes to look at, by the tick at which to do it."""
        self._ticks_from_us: int

    def attach(self, host: Host) -> None:
        self.host = host
        self._look = host.loop.register("nodelifecycle.look", self._on_look)
        self._taint = host.loop.register("nodelifecycle.taint", self._on_taint)
        host.heartbeats.listen(self._on_heartbeat)

    def start(self) -> None:
        self._ticks_from_us = self.host.loop.now_us

    def fork(self) -> NodeLifecycle:
        twin = NodeLifecycle()
        twin.zones = {name: replace(zone, waiting=dict(zone.waiting)) for name, zone in self.zones.items()}
        twin._status = dict(self._status)
        twin._counts = {zone: list(count) for zone, count in self._counts.items()}
        twin._looks = {tick: dict(names) for tick, names in self._looks.items()}
        twin._ticks_from_us = self._ticks_from_us
        return twin

    # What is heard

    def _on_heartbeat(self, node: str, last_us: int | None) -> None:
        grace_us = self.host.latency.node_monitor_grace_period_us
        due_us = self.host.loop.now_us if last_us is None else last_us + grace_us
        self._plan_look(node, due_us + 1)

    def _plan_look(self, node: str, from_us: int) -> None:
        """Look at a node at the first tick from a time on."""
        period_us = max(self.host.latency.node_monitor_period_us, 1)
        since_us = max(from_us, self.host.loop.now_us) - self._ticks_from_us
        tick_us = self._ticks_from_us + -(-since_us // period_us) * period_us
        names = self._looks.get(tick_us)
        if names is None:
            names = self._looks[tick_us] = {}
            self.host.loop.at(tick_us, self._look, tick_us, CONTROLLERS)
        names[node] = None

    def observe(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            known = self._status.pop(name, None)
            if known is not None:
                self._count(known, -1)
                self._plan_look(name, self.host.loop.now_us)
            return
        node = self.host.store.get(change.key)
        if node is None:
            return
        if change.type == ADDED:
            message = f"Registered Node {name} in Controller"
            self._tell(change.key, node, NORMAL, "RegisteredNode", message)
        zone, ready = zone_of(node), ready_status(node)
        before = self._status.get(name)
        self._put_status(name, (zone, ready))
        if zone not in self.zones:
            rate = self.host.latency.node_eviction_rate_milli
            self.zones[zone] = Zone(rate_milli=rate)
        if ready == "":
            born_us = parse_rfc3339(node["metadata"]["creationTimestamp"])
            self._plan_look(name, born_us + self.host.latency.node_startup_grace_period_us + 1)
        elif before != (zone, ready):
            self._plan_look(name, self.host.loop.now_us)
        self._taint_no_schedule(change.key, node)

    def _taint_no_schedule(self, key: Key, node: Obj) -> None:
        """Keep the NoSchedule taints as conditions and `unschedulable` say. Source: doNoScheduleTaintingPass."""
        spec = spec_of(node)
        wanted = [
            _TAINT_OF[(c.get("type"), c.get("status"))]
            for c in status_of(node).get("conditions") or ()
            if (c.get("type"), c.get("status")) in _TAINT_OF
        ]
        if spec.get("unschedulable"):
            wanted.append(UNSCHEDULABLE_TAINT)
        taints = spec.get("taints") or ()
        present = [t["key"] for t in taints if t.get("effect") == NO_SCHEDULE and t["key"] in _MANAGED]
        add = tuple((k, NO_SCHEDULE) for k in wanted if k not in present)
        remove = tuple((k, NO_SCHEDULE) for k in present if k not in wanted)
        if add or remove:
            self._swap(node, add, remove)

    def _swap(self, node: Obj, add: tuple[tuple[str, str], ...], remove: tuple[tuple[str, str], ...]) -> None:
        spec = spec_of(node)
        taints = [t for t in spec.get("taints") or () if (t.get("key"), t.get("effect")) not in remove]
        have = [(t.get("key"), t.get("effect")) for t in taints]
        at = rfc3339(self.host.loop.now_us)
        taints += [{"key": k, "effect": e, "timeAdded": at} for k, e in add if (k, e) not in have]
        new_spec = {f: v for f, v in spec.items() if f != "taints"}
        if taints:
            new_spec["taints"] = taints
        self.host.store.replace({**node, "spec": new_spec})

    # Looking

    def _on_look(self, tick_us: int) -> None:
        """One pass of monitorNodeHealth over the nodes that need it."""
        for name in self._looks.pop(tick_us):
            self._look_at(name, tick_us)
        self._judge_zones()
        for zone in self.zones:
            self._arm_taint(zone)

    def _look_at(self, name: str, now_us: int) -> None:
        key = Key("Node", "", name)
        node = self.host.store.get(key)
        if node is None or name not in self._status:
            return
        zone, _ = self._status[name]
        observed = ready_status(node)
        if self._is_overdue(name, node, observed, now_us) and observed != "Unknown":
            self._mark_unknown(key, node)
            self._put_status(name, (zone, "Unknown"))
            if observed == "True":
                self._tell(key, node, NORMAL, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
                self._mark_pods(name)
            if observed:
                # The taint follows at the next look: it goes by what this one found.
                self._plan_look(name, now_us + self.host.latency.node_monitor_period_us)
                return
            # Who never said anything counted as unknown before.
            node, observed = self.host.store.require(key), "Unknown"
        if observed == "True":
            self.zones[zone].waiting.pop(name, None)
            self._untaint(node)
        elif observed:
            self._ask_for_taint(name, zone, node, observed)

    def _ask_for_taint(self, name: str, zone: str, node: Obj, observed: str) -> None:
        """A node that is not ready is tainted in its turn; at once where it has the other taint. Source:
        processTaintBaseEviction."""
        wanted, other = _no_execute_for(observed)
        if _has_taint(node, wanted):
            return
        if _has_taint(node, other):
            self._swap(node, ((wanted, NO_EXECUTE),), ((other, NO_EXECUTE),))
        else:
            self.zones[zone].waiting.setdefault(name)

    def _is_overdue(self, name: str, node: Obj, observed: str, now_us: int) -> bool:
        latency = self.host.latency
        last_us = self.host.heartbeats.silent.get(name)
        if observed == "":
            born_us = parse_rfc3339(node["metadata"]["creationTimestamp"])
            return now_us > born_us + latency.node_startup_grace_period_us
        return last_us is not None and now_us > last_us + latency.node_monitor_grace_period_us

    def _untaint(self, node: Obj) -> None:
        """Source: markNodeAsReachable."""
        if _has_taint(node, UNREACHABLE_TAINT) or _has_taint(node, NOT_READY_TAINT):
            self._swap(node, (), ((UNREACHABLE_TAINT, NO_EXECUTE), (NOT_READY_TAINT, NO_EXECUTE)))

    def _mark_unknown(self, key: Key, node: Obj) -> None:
        """Source: tryUpdateNodeHealth."""
        now = rfc3339(self.host.loop.now_us)
        status = status_of(node)
        conditions: list[dict[str, Any]] = list(status.get("conditions") or ())
        there = {c.get("type") for c in conditions}
        for i, c in enumerate(conditions):
            if c.get("type") in _POSTED_BY_KUBELET and c.get("status") != "Unknown":
                conditions[i] = {
                    **c,
                    "status": "Unknown",
                    "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastTransitionTime": now,
                }
        conditions += [
            {
                "type": type_,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": node["metadata"]["creationTimestamp"],
                "lastTransitionTime": now,
            }
            for type_ in _POSTED_BY_KUBELET
            if type_ not in there
        ]
        self.host.store.set_status(key, {**status, "conditions": conditions})
        self.host.log.record(self.host.loop.now_us, NAME, "Node", "", key.name, "NodeNotReady")

    def _mark_pods(self, name: str) -> None:
        """Its pods are not ready any more, whatever they last said. Source: MarkPodsNotReady."""
        store, now_us = self.host.store, self.host.loop.now_us
        for key in pods_on(self.host, name):
            pod = store.get(key)
            status = (pod or {}).get("status") or {}
            conditions = status.get("conditions") or ()
            if pod is None or not any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                continue
            changed = [
                {**c, "status": "False", "lastTransitionTime": rfc3339(now_us)} if c["type"] == "Ready" else c
                for c in conditions
            ]
            store.set_status(key, {**status, "conditions": changed})
            self._tell(key, pod, WARNING, "NodeNotReady", "Node is not ready")

    # Zones and the rate of NoExecute taints

    def _judge_zones(self) -> None:
        """Source: handleDisruption, ComputeZoneState."""
        states = {zone: self._state_of(ready, down) for zone, (ready, down) in self._counts.items()}
        all_down = bool(states) and all(state == FULL for state in states.values())
        was_down = all(self.zones[name].state == FULL for name in states)
        if all_down and not was_down:
            self._stop_evictions()
        elif not all_down:
            for name, state in states.items():
                domain = self.zones[name]
                if state != domain.state or was_down:
                    domain.state = state
                    domain.rate_milli = self._rate_of(state, sum(self._counts[name]))

    def _put_status(self, name: str, status: tuple[str, str]) -> None:
        before = self._status.get(name)
        if before is not None:
            self._count(before, -1)
        self._status[name] = status
        self._count(status, 1)

    def _count(self, status: tuple[str, str], by: int) -> None:
        zone, ready = status
        count = self._counts.setdefault(zone, [0, 0])
        count[0 if ready == "True" else 1] += by
        if not any(count):
            del self._counts[zone]

    def _state_of(self, ready: int, down: int) -> str:
        if ready == 0:
            return FULL
        threshold_milli = self.host.latency.unhealthy_zone_threshold_milli
        if down > 2 and down * 1000 >= threshold_milli * (down + ready):
            return PARTIAL
        return NORMAL_ZONE

    def _rate_of(self, state: str, size: int) -> int:
        latency = self.host.latency
        if state != PARTIAL:
            return latency.node_eviction_rate_milli
        large = size > latency.large_cluster_size_threshold
        return latency.secondary_node_eviction_rate_milli if large else 0

    def _stop_evictions(self) -> None:
        """Nothing is ready anywhere: the fault is rather ours. Take the taints back; whoever is still not ready when
        something is has its turn then."""
        for zone in self.zones.values():
            zone.state, zone.rate_milli = FULL, 0
        for name, (in_zone, ready) in self._status.items():
            node = self.host.store.get(Key("Node", "", name))
            if node is not None:
                self._untaint(node)
            if ready:
                self.zones[in_zone].waiting.setdefault(name)

    def _arm_taint(self, name: str) -> None:
        zone = self.zones[name]
        if zone.waiting and zone.rate_milli and zone.armed_us == NO_TIME:
            zone.armed_us = max(zone.next_us, self.host.loop.now_us)
            self.host.loop.at(zone.armed_us, self._taint, name, CONTROLLERS)

    def _on_taint(self, name: str) -> None:
        """Hand out one NoExecute taint and wait for the next token. Source: doNoExecuteTaintingPass."""
        zone = self.zones[name]
        zone.armed_us = NO_TIME
        if not zone.waiting or not zone.rate_milli:
            return
        node_name = next(iter(zone.waiting))
        del zone.waiting[node_name]
        node = self.host.store.get(Key("Node", "", node_name))
        if node is not None and ready_status(node) in ("False", "Unknown"):
            wanted, other = _no_execute_for(ready_status(node))
            self._swap(node, ((wanted, NO_EXECUTE),), ((other, NO_EXECUTE),))
            zone.next_us = self.host.loop.now_us + 1000 * SECOND_US // zone.rate_milli
        self._arm_taint(name)

    def _tell(self, key: Key, obj: Obj, type_: str, reason: str, message: str) -> None:
        now_us = self.host.loop.now_us
        self.host.events.emit(now_us, key, obj["metadata"]["uid"], type_, reason, message, NAME)


def ready_status(node: Obj) -> str:
    """`True`, `False`, `Unknown`, or empty where its kubelet has not said yet."""
    for c in status_of(node).get("conditions") or ():
        if c.get("type") == "Ready":
            return str(c.get("status"))
    return ""


def zone_of(node: Obj) -> str:
    """The failure domain evictions are rated by: region and zone labels. Source: GetZoneKey."""
    labels = labels_of(node)
    return ":".join(labels.get(name, "") for name in _ZONE_LABELS)


def pods_on(host: Host, node: str) -> list[Key]:
    """Keys of the pods bound to a node that have not ended, sorted."""
    accounts = host.store.accounts
    row = accounts.row_of.get(node)
    return [] if row is None else sorted(accounts.pods[row])


def _no_execute_for(status: str) -> tuple[str, str]:
    """The NoExecute taint for a Ready status, and the one it excludes."""
    if status == "False":
        return NOT_READY_TAINT, UNREACHABLE_TAINT
    return UNREACHABLE_TAINT, NOT_READY_TAINT


def _has_taint(node: Obj, key: str) -> bool:
    return any(
        t.get("key") == key and t.get("effect") == NO_EXECUTE for t in spec_of(node).get("taints") or ()
    )
