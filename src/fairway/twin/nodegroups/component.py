"""The Cluster Autoscaler on the loop: scans, grows groups, waits for machines, removes nodes.

Unlike kube: the loop rests while nothing changes and nothing falls due, so that a twin comes to an end; and what a scan
decides is carried out at once, where upstream's calls take a moment.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.cluster.actions import perform
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.kube.objects import Key, Obj, meta_of
from fairway.kube.timestamps import SECOND_US, format_duration
from fairway.provisioning.clusterautoscaler import statustext
from fairway.provisioning.clusterautoscaler.expanders import CONFIG_MAP, Priorities, read_priorities
from fairway.provisioning.clusterautoscaler.groups import PRIORITY, NodeGroup, NodeView
from fairway.provisioning.clusterautoscaler.scaledown import TO_BE_DELETED, Removable, due, unneeded
from fairway.provisioning.clusterautoscaler.scaleup import BACKOFF_REASON, ScaleUp, scale_up, still_waiting
from fairway.provisioning.karpenter.disruption.evictions import budgets_of
from fairway.provisioning.karpenter.podfacts import PodFacts, Shapes, facts_of, is_provisionable
from fairway.twin.components import Host
from fairway.twin.kubeevents import NORMAL, WARNING
from fairway.twin.loop import CONTROLLERS, HOUSEKEEPING, NODES
from fairway.twin.nodegroups.grouping import (
    GROUP_LABELS,
    AutoscalerPlan,
    GroupSpec,
    group_view,
    node_object,
    template_of,
    views_of,
)
from fairway.twin.nodelifecycle import pods_on
from fairway.workloads.disruption.eviction import evict

NAME = "cluster-autoscaler"
DRAIN_EVERY_US = 10 * SECOND_US
_STATUS = Key("ConfigMap", statustext.NAMESPACE, statustext.NAME)
_PRIORITIES = Key("ConfigMap", statustext.NAMESPACE, CONFIG_MAP)


class Backoff(NamedTuple):
    """A group that may not grow until then; `lasts_us` doubles when it fails again."""

    until_us: int
    lasts_us: int
    why: str


class ClusterAutoscaler:
    """Grows and shrinks node groups."""

    name = NAME
    kinds: tuple[str, ...] = ("Pod", "Node")

    def __init__(self, plan: AutoscalerPlan) -> None:
        self.plan = plan
        self.targets: dict[str, int] = {g.name: g.size for g in plan.groups}
        """The size asked of the cloud, by group."""
        self.coming: dict[str, tuple[str, int]] = {}
        """Machines asked for and not there yet: their group, and since when."""
        self.backoffs: dict[str, Backoff] = {}
        self.since_us: dict[str, int] = {}
        """Since when a node is unneeded."""
        self.going: dict[str, int] = {}
        """Nodes that are drained, since when."""
        self.pending: dict[Key, None] = {}
        self._added_us = self._deleted_us = self._failed_us = -(2**61)
        self._tick_at_us = -1
        self._serial = 0

    def attach(self, host: Host) -> None:
        self.host = host
        register = host.loop.register
        self._h_scan = register("cluster-autoscaler.scan", self._on_scan)
        self._h_boot = register("cluster-autoscaler.boot", self._on_boot)
        self._h_fail = register("cluster-autoscaler.fail", self._on_fail)
        self._h_drain = register("cluster-autoscaler.drain", self._on_drain)
        self._groups = {g.name: g for g in self.plan.groups}

    def start(self) -> None:
        """The groups have their first size already; the first scan is an interval away."""
        for group in self.plan.groups:
            for _ in range(group.size):
                self._serial += 1
                name = f"{group.name}-{self._serial:04d}"
                self.coming[name] = (group.name, self.host.loop.now_us)
                self.host.loop.at(self.host.loop.now_us, self._h_boot, name, NODES)

    def fork(self) -> ClusterAutoscaler:
        twin = ClusterAutoscaler(self.plan)
        twin.targets, twin.coming, twin.backoffs = dict(self.targets), dict(self.coming), dict(self.backoffs)
        twin.since_us, twin.going, twin.pending = dict(self.since_us), dict(self.going), dict(self.pending)
        twin._added_us, twin._deleted_us = self._added_us, self._deleted_us
        twin._failed_us, twin._tick_at_us, twin._serial = self._failed_us, self._tick_at_us, self._serial
        return twin

    def observe(self, change: Change) -> None:
        key = change.key
        if key.gk == "Pod":
            was = key in self.pending
            if change.type != DELETED and is_provisionable(change.obj):
                self.pending[key] = None
                self._wake()
            else:
                self.pending.pop(key, None)
                if was or _frees(change):
                    self._wake()
        else:
            if change.type == DELETED:
                self._lost(change.obj)
            self._wake()

    def _lost(self, node: Obj) -> None:
        """A machine that went by itself is replaced by nobody: its group shrank, as the cloud counts."""
        name = str(meta_of(node).get("name"))
        self.since_us.pop(name, None)
        group = (meta_of(node).get("labels") or {}).get(GROUP_LABELS[self.plan.provider])
        if self.going.pop(name, None) is None and group in self.targets:
            self.targets[group] = max(self.targets[group] - 1, 0)
            self._refill(self._groups[group])

    def _refill(self, group: GroupSpec) -> None:
        """What keeps a group at its minimum is the cloud's own, as an Auto Scaling group does."""
        if self.targets[group.name] < group.least:
            self._grow(group, group.least)

    # The scan

    def _wake(self) -> None:
        interval_us = self.plan.options.scan_interval_us
        self._arm((self.host.loop.now_us // interval_us + 1) * interval_us)

    def _arm(self, at_us: int) -> None:
        if self._tick_at_us < 0 or at_us < self._tick_at_us:
            self._tick_at_us = at_us
            self.host.loop.at(at_us, self._h_scan, at_us, HOUSEKEEPING)

    def _on_scan(self, at_us: int) -> None:
        """One loop: grow if somebody waits, else see who is not needed."""
        if at_us != self._tick_at_us:
            return
        self._tick_at_us = -1
        self._give_up_late()
        nodes = views_of(self.host.store, self.plan.provider, frozenset(self._groups))
        groups = self._views()
        grew = self._scale_up(nodes, groups)
        candidates: tuple[Removable, ...] = ()
        if self.plan.options.scale_down:
            candidates = self._scale_down(nodes, groups, may_act=not grew)
        self._write_status(self._views(), nodes, candidates)

    def _views(self) -> list[NodeGroup]:
        shapes, daemons = Shapes(), self.host.store.objects("DaemonSet.apps")
        now_us = self.host.loop.now_us
        out = []
        for spec in self.plan.groups:
            backoff = self.backoffs.get(spec.name)
            unsafe = BACKOFF_REASON if backoff is not None and backoff.until_us >= now_us else ""
            template = template_of(spec, self.plan.provider, daemons, shapes)
            out.append(group_view(spec, self.targets[spec.name], template, unsafe))
        return out

    # Growing

    def _scale_up(self, nodes: tuple[NodeView, ...], groups: list[NodeGroup]) -> bool:
        shapes = Shapes(respects_preferences=False)
        found = [p for key in sorted(self.pending) if (p := self.host.store.get(key)) is not None]
        waiting = [facts_of(p, shapes.of(p)) for p in found if is_provisionable(p)]
        if not waiting:
            return False
        templates = {g.name: g.template for g in groups}
        upcoming = [templates[group] for group, _ in self.coming.values()]
        waiting = still_waiting(waiting, nodes, upcoming)
        decided = scale_up(
            waiting,
            groups,
            self.plan.options,
            self.host.streams.draw_for("cluster-autoscaler.expander", str(self._serial)),
            nodes_total=len(nodes) + len(self.coming),
            priorities=self._priorities(),
        )
        self._tell_pods(decided)
        for resize in decided.resizes:
            grown = resize.new_size - resize.size
            text = (
                f"Scale-up: setting group {resize.group} size to {resize.new_size} instead of {resize.size}"
            )
            self._tell(_STATUS, NORMAL, "ScaledUpGroup", f"{text} (max: {resize.most})")
            self._tell(
                _STATUS,
                NORMAL,
                "ScaledUpGroup",
                f"Scale-up: group {resize.group} size set to {resize.new_size}",
            )
            self._grow(self._groups[resize.group], self.targets[resize.group] + grown)
        if decided.resizes:
            self._added_us = self.host.loop.now_us
        if decided.resizes or decided.awaiting:
            self._wake()
        return bool(decided.resizes)

    def _priorities(self) -> Priorities | None:
        if PRIORITY not in self.plan.options.expanders:
            return None
        config = self.host.store.get(_PRIORITIES)
        if config is None:
            return None
        found = read_priorities(config.get("data") or {})
        if isinstance(found, str):
            self._tell(_PRIORITIES, WARNING, "PriorityConfigMapInvalid", found)
            return None
        return found

    def _tell_pods(self, decided: ScaleUp) -> None:
        if not decided.resizes:
            for pod, message in decided.unhelped:
                self._tell_pod(pod, "NotTriggerScaleUp", message)
            return
        for pod in decided.triggered:
            self._tell_pod(pod, "TriggeredScaleUp", decided.text())

    def _grow(self, group: GroupSpec, size: int) -> None:
        """Ask the cloud for machines; each boots by itself, or cannot be had."""
        loop, cloud = self.host.loop, self.plan.cloud
        for _ in range(size - self.targets[group.name]):
            self._serial += 1
            name = f"{group.name}-{self._serial:04d}"
            self.coming[name] = (group.name, loop.now_us)
            offered = (group.kind.name, group.zone, group.capacity_type)
            if cloud.has(offered, lambda: self.host.store.objects("Node"), loop.now_us):
                luck = self.host.streams.draw_for("cluster-autoscaler.boot", str(self._serial))
                boot_us = cloud.boot_of(group.kind.name).at_quantile(luck)
                loop.at(loop.now_us + max(boot_us, 0), self._h_boot, name, NODES)
            else:
                loop.at(loop.now_us + self.plan.options.scan_interval_us, self._h_fail, name, NODES)
        self.targets[group.name] = size
        # Machines that do not come are given up one loop after their time.
        self._arm(loop.now_us + self.plan.options.max_node_provision_us + self.plan.options.scan_interval_us)

    def _on_boot(self, name: str) -> None:
        found = self.coming.pop(name, None)
        if found is None:
            return
        group = self._groups[found[0]]
        self.host.store.create(node_object(group, self.plan.provider, name))
        backoff = self.backoffs.get(group.name)
        if backoff is not None and backoff.until_us < self.host.loop.now_us:
            del self.backoffs[group.name]

    def _on_fail(self, name: str) -> None:
        """The cloud has none: the instance is given back, its group in backoff."""
        found = self.coming.pop(name, None)
        if found is None:
            return
        group = found[0]
        self.targets[group] -= 1
        text = f"Failed adding 1 nodes to group {group} due to OutOfResource.InsufficientCapacity"
        self._tell(_STATUS, WARNING, "ScaleUpFailed", text)
        self._back_off(group, "OutOfResource")

    def _give_up_late(self) -> None:
        """Machines that did not register in time. Source: clusterstate.go updateScaleRequests."""
        now_us, limit_us = self.host.loop.now_us, self.plan.options.max_node_provision_us
        late = [name for name, (_, since_us) in self.coming.items() if now_us - since_us > limit_us]
        for name in late:
            group, _ = self.coming.pop(name)
            self.targets[group] -= 1
            waited = format_duration(limit_us)
            text = f"Nodes added to group {group} failed to register within {waited}"
            self._tell(_STATUS, WARNING, "ScaleUpTimedOut", text)
            self._back_off(group, "timeout")

    def _back_off(self, group: str, why: str) -> None:
        now_us, options = self.host.loop.now_us, self.plan.options
        before = self.backoffs.get(group)
        lasts_us = options.backoff_us
        if before is not None:
            again = before.until_us < now_us
            lasts_us = min(2 * before.lasts_us, options.most_backoff_us) if again else before.lasts_us
        self.backoffs[group] = Backoff(now_us + lasts_us, lasts_us, why)
        self._arm(now_us + lasts_us + options.scan_interval_us)
        self._wake()

    # Shrinking

    def _scale_down(
        self, nodes: tuple[NodeView, ...], groups: list[NodeGroup], *, may_act: bool
    ) -> tuple[Removable, ...]:
        """Note who is unneeded, and remove those that have been for long enough."""
        now_us, options = self.host.loop.now_us, self.plan.options
        budgets = budgets_of(self.host.store.objects("PodDisruptionBudget.policy"))
        found = unneeded(nodes, budgets, options, now_us).removable
        self.since_us = {r.node: self.since_us.get(r.node, now_us) for r in found}
        ready = {n.name: n.is_ready for n in nodes}
        rests_until_us = max(
            self._added_us + options.delay_after_add_us,
            self._deleted_us + max(options.delay_after_delete_us, options.scan_interval_us),
            self._failed_us + options.delay_after_failure_us,
        )
        if found and may_act and now_us >= rests_until_us and not self.going:
            removed = due(found, self.since_us, groups, ready, options, now_us)
            for node in removed:
                self._remove(node)
            if removed:
                self._deleted_us = now_us
        self._arm_for(found, groups, ready, rests_until_us)
        return found

    def _arm_for(
        self,
        found: tuple[Removable, ...],
        groups: list[NodeGroup],
        ready: dict[str, bool],
        rests_until_us: int,
    ) -> None:
        """Look again when the next of them may go."""
        options, interval_us = self.plan.options, self.plan.options.scan_interval_us
        shrinkable = {g.name for g in groups if self.targets[g.name] > g.least}
        times = [
            self.since_us[r.node] + (options.unneeded_us if ready.get(r.node, True) else options.unready_us)
            for r in found
            if r.group in shrinkable and r.node not in self.going
        ]
        if times:
            at_us = max(min(times), rests_until_us, self.host.loop.now_us + 1)
            self._arm(-(-at_us // interval_us) * interval_us)

    def _remove(self, node: Removable) -> None:
        """Taint it, then drain it."""
        name, now_us = node.node, self.host.loop.now_us
        key = Key("Node", "", name)
        obj = self.host.store.require(key)
        taints = [*((obj.get("spec") or {}).get("taints") or ())]
        taints.append({"key": TO_BE_DELETED, "value": str(now_us // SECOND_US), "effect": "NoSchedule"})
        self.host.store.patch(key, {"spec": {"taints": taints}})
        self._tell(key, NORMAL, "ScaleDown", "marked the node as toBeDeleted/unschedulable")
        if node.pods:
            names = ", ".join(f"{meta_of(p)['namespace']}/{meta_of(p)['name']}" for p in node.pods)
            text = f"Scale-down: removing node {name}, utilization: {node.utilization:g}, pods to reschedule: {names}"
            self._tell(_STATUS, NORMAL, "ScaleDown", text)
        else:
            self._tell(_STATUS, NORMAL, "ScaleDownEmpty", f'Scale-down: removing empty node "{name}"')
        self.going[name] = now_us
        self.host.loop.at(now_us, self._h_drain, name, CONTROLLERS)

    def _on_drain(self, name: str) -> None:
        """Evict until nobody is left, then delete the machine; after the longest grace give the node back."""
        loop, store = self.host.loop, self.host.store
        key = Key("Node", "", name)
        node = store.get(key)
        if node is None or name not in self.going:
            return
        left = [p for k in pods_on(self.host, name) if (p := store.get(k)) is not None and _must_leave(p)]
        if not left:
            group = (meta_of(node).get("labels") or {})[GROUP_LABELS[self.plan.provider]]
            self.targets[group] -= 1
            self._tell(key, NORMAL, "ScaleDown", "nodes removed by cluster autoscaler")
            self._delete(key)
            self._wake()
            return
        if loop.now_us - self.going[name] > self.plan.options.most_graceful_s * SECOND_US:
            self._give_back(key, node)
            return
        for pod in left:
            if "deletionTimestamp" not in meta_of(pod):
                pod_key = Key("Pod", meta_of(pod)["namespace"], meta_of(pod)["name"])
                decided = evict(store, pod_key, loop.now_us)
                if decided.is_allowed:
                    self._tell(pod_key, NORMAL, "ScaleDown", "deleting pod for node scale down")
                for action in decided.actions:
                    perform(store, action)
        loop.at(loop.now_us + DRAIN_EVERY_US, self._h_drain, name, CONTROLLERS)

    def _give_back(self, key: Key, node: Obj) -> None:
        taints = [t for t in (node.get("spec") or {}).get("taints") or () if t["key"] != TO_BE_DELETED]
        self.host.store.patch(key, {"spec": {"taints": taints or None}})
        self._tell(key, WARNING, "ScaleDownFailed", "failed to drain the node, aborting ScaleDown")
        self.going.pop(key.name, None)
        self.since_us.pop(key.name, None)
        self._failed_us = self.host.loop.now_us
        self._wake()

    def _delete(self, key: Key) -> None:
        try:
            self.host.store.delete(key)
        except ApiError as gone:
            if gone.code != 404:
                raise

    # Words

    def _write_status(
        self, groups: list[NodeGroup], nodes: tuple[NodeView, ...], candidates: tuple[Removable, ...]
    ) -> None:
        now_us = self.host.loop.now_us
        why = {name: b.why for name, b in self.backoffs.items() if b.until_us >= now_us}
        text = statustext.status_text(groups, nodes, [c.node for c in candidates], why, now_us)
        store = self.host.store
        if store.get(_STATUS) is None:
            meta = {"name": _STATUS.name, "namespace": _STATUS.namespace}
            store.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"status": text}}
            )
        else:
            store.patch(_STATUS, {"data": {"status": text}})

    def _tell_pod(self, pod: PodFacts, reason: str, message: str) -> None:
        self._tell(Key("Pod", pod.namespace, pod.name), NORMAL, reason, message)

    def _tell(self, about: Key, type_: str, reason: str, message: str) -> None:
        obj = self.host.store.get(about)
        uid = "" if obj is None else str(meta_of(obj).get("uid") or "")
        now_us = self.host.loop.now_us
        self.host.events.emit(now_us, about, uid, type_, reason, message, NAME)
        self.host.log.record(now_us, NAME, about.gk, about.namespace, about.name, reason, message)


def _frees(change: Change) -> bool:
    """Whether a pod came to a node, or left what it held there."""
    now, old = change.obj, change.old
    if change.type == DELETED or old is None:
        return bool((now.get("spec") or {}).get("nodeName"))
    placed = (now.get("spec") or {}).get("nodeName") != (old.get("spec") or {}).get("nodeName")
    ended = _phase(now) != _phase(old) and _phase(now) in ("Succeeded", "Failed")
    return placed or ended


def _phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _must_leave(pod: Obj) -> bool:
    """Source: core/scaledown/actuation/drain.go: DaemonSets' pods are not waited for."""
    owners = meta_of(pod).get("ownerReferences") or ()
    if any(o.get("kind") in ("DaemonSet", "Node") for o in owners):
        return False
    return _phase(pod) not in ("Succeeded", "Failed")
