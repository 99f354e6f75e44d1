"""The Cluster Autoscaler on the loop: scans, grows groups, waits for machines, removes nodes.

Unlike kube: the loop rests while nothing changes or falls due, so that a twin comes to an end; a scan's decisions are
carried out at once; and a loop that something starts comes a second after the last one, however long that one took.
"""

from __future__ import annotations

from fairway.catalog.featurelabels import feature_labels
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, labels_of, meta_of
from fairway.kube.provisioningrequests import POD_TEMPLATE, REQUEST
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.clusterautoscaler import events, statustext
from fairway.provisioning.clusterautoscaler.events import WARNING, Told
from fairway.provisioning.clusterautoscaler.expanders import CONFIG_MAP, Priorities, read_priorities
from fairway.provisioning.clusterautoscaler.groups import PRIORITY, NodeGroup, NodeView
from fairway.provisioning.clusterautoscaler.requests import FOUND, NOT_FOUND, REQUESTED, consumed_request
from fairway.provisioning.clusterautoscaler.scaledown import Removable, due, unneeded
from fairway.provisioning.clusterautoscaler.scaleup import (
    BACKOFF_REASON,
    MAX_NODES_TOTAL,
    ScaleUp,
    are_new,
    scale_up,
)
from fairway.provisioning.clusterautoscaler.snapshot import Snapshot
from fairway.provisioning.karpenter.disruption.evictions import budgets_of
from fairway.provisioning.karpenter.podfacts import PodFacts, Shapes, facts_of, is_provisionable
from fairway.twin.components import Host
from fairway.twin.kubelet.nodestatus import with_machine
from fairway.twin.loop import HOUSEKEEPING, NO_TIME, NODES
from fairway.twin.nodegroups import metrics
from fairway.twin.nodegroups.backoffs import Backoff, backed_off
from fairway.twin.nodegroups.claiming import Claiming, claiming
from fairway.twin.nodegroups.grouping import (
    GROUP_LABELS,
    AutoscalerPlan,
    GroupSpec,
    group_view,
    node_object,
    template_of,
    views_of,
)
from fairway.twin.nodegroups.removals import STATUS, Removals
from fairway.twin.nodegroups.requests import MOST_EVENTS, Asked, CapacityRequests, is_check
from fairway.twin.provisioner.cloud import Offered, offered_of

NAME = "cluster-autoscaler"
# A loop takes some time, whatever starts it: an estimate for a middling cluster.
LOOP_US = SECOND_US
_BUDGET = "PodDisruptionBudget.policy"
_PRIORITIES = Key("ConfigMap", statustext.NAMESPACE, CONFIG_MAP)


def _offered(group: GroupSpec) -> Offered:
    return group.kind.name, group.zone, group.capacity_type


class ClusterAutoscaler:
    """Grows and shrinks node groups."""

    name = NAME
    kinds: tuple[str, ...] = ("Pod", "Node", _BUDGET, REQUEST, POD_TEMPLATE)

    def __init__(self, plan: AutoscalerPlan) -> None:
        self.plan = plan
        self.targets: dict[str, int] = {g.name: g.size for g in plan.groups}
        """The size asked of the cloud, by group."""
        self.coming: dict[str, tuple[str, int]] = {}
        """Machines asked for and not there yet: their group, and since when."""
        self._refused: dict[str, None] = {}
        """Those of them that the cloud has not got, until it has said so."""
        self.backoffs: dict[str, Backoff] = {}
        self.since_us: dict[str, int] = {}
        """Since when a node is unneeded."""
        self.removals = Removals()
        self.tally = metrics.new_tally()
        self.kept: dict[str, int] = {}
        """How many nodes stay, by why, as of the last loop."""
        self.pending: dict[Key, None] = {}
        self.requests = CapacityRequests(plan.options)
        self._added_us = self._deleted_us = self.failed_us = -(2**61)
        self._tick_at_us = NO_TIME
        self._in_backoff: tuple[str, ...] = ()
        self._said: statustext.Status | None = None
        """The status written last; never changed, only replaced."""
        self._serial = 0

    def attach(self, host: Host) -> None:
        self.host = host
        register = host.loop.register
        self._h_scan = register("cluster-autoscaler.scan", self._on_scan)
        self._h_boot = register("cluster-autoscaler.boot", self._on_boot)
        self._h_fail = register("cluster-autoscaler.fail", self._on_fail)
        self.removals.attach(self)
        self._groups = {g.name: g for g in self.plan.groups}

    def start(self) -> None:
        """The groups have their first size already, or the nodes they had in a cluster that was there before; the
        first scan is an interval away."""
        self._scanned_us = self.host.loop.now_us
        there = self.removals.resume()
        for group in self.plan.groups:
            held = there.get(group.name, 0)
            self.targets[group.name] = held or group.size
            for _ in range(0 if held else group.size):
                name = self._new_name(group)
                self.coming[name] = (group.name, self.host.loop.now_us)
                self.host.loop.at(self.host.loop.now_us, self._h_boot, name, NODES)

    def fork(self) -> ClusterAutoscaler:
        twin = ClusterAutoscaler(self.plan)
        twin.targets, twin.coming, twin.backoffs = dict(self.targets), dict(self.coming), dict(self.backoffs)
        twin.requests, twin._refused = self.requests.copy(), dict(self._refused)
        twin.since_us, twin.pending = dict(self.since_us), dict(self.pending)
        twin.removals, twin.tally, twin.kept = self.removals.copy(), self.tally.copy(), dict(self.kept)
        twin._added_us, twin._deleted_us = self._added_us, self._deleted_us
        twin.failed_us, twin._tick_at_us, twin._serial = self.failed_us, self._tick_at_us, self._serial
        twin._scanned_us, twin._in_backoff, twin._said = self._scanned_us, self._in_backoff, self._said
        return twin

    def observe(self, change: Change) -> None:
        key = change.key
        if key.gk == _BUDGET:
            if _lets_others_go(change):
                self.wake()
            return
        if key.gk == "Pod":
            was = key in self.pending
            if change.type != DELETED and is_provisionable(change.obj):
                self.pending[key] = None
                # A pod that finds no place starts a loop. Source: loop/trigger.go.
                if was:
                    self.wake()
                else:
                    self._scan_soon()
            else:
                self.pending.pop(key, None)
                if was or _frees(change):
                    self.wake()
        elif key.gk in (REQUEST, POD_TEMPLATE):
            if self.requests.is_on:
                self.wake()
        else:
            if change.type == DELETED:
                self._lost(change.obj)
            self.wake()
        if key.gk not in (REQUEST, POD_TEMPLATE) or change.type == DELETED:
            self.requests.changed()

    def _lost(self, node: Obj) -> None:
        """A machine that went by itself is replaced by nobody: its group shrank, as the cloud counts."""
        name = str(meta_of(node).get("name"))
        group = (meta_of(node).get("labels") or {}).get(GROUP_LABELS[self.plan.provider])
        if self.removals.going.pop(name, None) is None and group in self.targets:
            self.targets[group] = max(self.targets[group] - 1, 0)
            # Said by the cloud's controller, not by the autoscaler, which only counts.
            about, uid = Key("Node", "", name), str(meta_of(node).get("uid") or "")
            told = events.gone(name)
            now_us = self.host.loop.now_us
            self.host.events.emit(now_us, about, uid, told.type, told.reason, told.message, events.CLOUD)
            self.host.log.record(now_us, events.CLOUD, "Node", "", name, told.reason, told.message)
            self._refill(self._groups[group])

    def _refill(self, group: GroupSpec) -> None:
        """What keeps a group at its minimum is the cloud's own, as an Auto Scaling group does."""
        if self.targets[group.name] < group.least:
            self._grow(group, group.least)

    # The scan

    def wake(self) -> None:
        """The next loop of those that come at intervals."""
        interval_us = self.plan.options.scan_interval_us
        passed = (self.host.loop.now_us - self._scanned_us) // interval_us
        self._arm(self._scanned_us + (passed + 1) * interval_us)

    def _scan_soon(self) -> None:
        self._arm(max(self.host.loop.now_us, self._scanned_us + LOOP_US))

    def _arm(self, at_us: int) -> None:
        if self._tick_at_us < 0 or at_us < self._tick_at_us:
            self._tick_at_us = at_us
            self.host.loop.at(at_us, self._h_scan, at_us, HOUSEKEEPING)

    def _on_scan(self, at_us: int) -> None:
        """One loop: grow if somebody waits, else see who is not needed."""
        if at_us != self._tick_at_us:
            return
        self._tick_at_us = NO_TIME
        self._scanned_us = at_us
        self.requests.refresh(self.host)
        self._give_up_late()
        nodes = self.nodes()
        groups = self._views()
        if not statustext.is_healthy(nodes):
            self.since_us.clear()
            self.tell(STATUS, events.unhealthy())
            self._write_status(groups, nodes, ())
            return
        self._note_backoffs(groups)
        grew, seen = self._scale_up(nodes, groups)
        candidates: tuple[Removable, ...] = ()
        if self.plan.options.scale_down:
            candidates = self._scale_down(seen, groups, may_act=not grew)
        self._write_status(self._views(), nodes, candidates)
        for due_us in self._deadlines():
            self._arm(max(due_us, at_us + LOOP_US))

    def looked_us(self) -> int:
        """When the last loop was: those are counted that were left out because nothing changed."""
        interval_us = self.plan.options.scan_interval_us
        return self.host.loop.now_us - (self.host.loop.now_us - self._scanned_us) % interval_us

    def nodes(self) -> tuple[NodeView, ...]:
        return views_of(self.host.store, self.plan.provider, frozenset(self._groups))

    def _deadlines(self) -> list[int]:
        """When time alone makes a difference: one loop after a backoff, or a machine's time, is over."""
        interval_us, now_us = self.plan.options.scan_interval_us, self.host.loop.now_us
        late_us = self.plan.options.max_node_provision_us + interval_us
        due = [since_us + late_us for _, since_us in self.coming.values()]
        # While nobody waits nothing would grow.
        if self.pending or (self.requests.is_on and self.host.store.count(REQUEST)):
            due += [b.until_us + interval_us for b in self.backoffs.values() if b.until_us >= now_us]
        again_us = self.requests.next_look_us(self.host)
        return due if again_us is None else [*due, again_us]

    def _note_backoffs(self, groups: list[NodeGroup]) -> None:
        """A group that may grow again, or may not, is a change to whoever waits."""
        unsafe = tuple(g.name for g in groups if g.unsafe)
        if unsafe != self._in_backoff:
            self._in_backoff = unsafe
            self.requests.changed()

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

    def _scale_up(
        self, nodes: tuple[NodeView, ...], groups: list[NodeGroup]
    ) -> tuple[bool, tuple[NodeView, ...]]:
        """Whether something grew, and the nodes with the pods that are put there in thought."""
        shapes = Shapes()
        found = [p for key in sorted(self.pending) if (p := self.host.store.get(key)) is not None]
        waiting = [p for p in found if is_provisionable(p) and not self._is_expendable(p)]
        objects = {meta_of(p)["uid"]: p for p in waiting}
        waiting.sort(key=lambda p: -_priority(p))
        claims = claiming(self.host.store, waiting)
        if claims is not None:
            groups, nodes = claims.groups(groups, nodes), claims.nodes(nodes)
        templates = {g.name: g.template for g in groups}
        snapshot = Snapshot(nodes, [templates[group] for group, _ in self.coming.values()])
        left = snapshot.place(_facts(waiting, shapes, claims))
        asked = None
        if self.requests.is_on:
            left = self._without_consumers(left, objects)
            asked = self.requests.next(self.host, shapes, objects)
            self.requests.book(self.host, snapshot, shapes, objects)
        grew = self._serve(left, asked, snapshot, groups, len(nodes))
        return grew, snapshot.seen(nodes, objects)

    def asked(self, pods: list[Obj]) -> ScaleUp:
        """Which groups would grow for these pods, had they been waiting alone; nothing is changed."""
        shapes = Shapes()
        claims, groups = claiming(self.host.store, pods), self._views()
        if claims is not None:
            groups = claims.groups(groups, self.nodes())
        return scale_up(
            _facts(pods, shapes, claims),
            groups,
            self.plan.options,
            self.host.streams.draw_for("cluster-autoscaler.expander", str(self._serial)),
            nodes_total=len(self.nodes()) + len(self.coming),
        )

    def _is_expendable(self, pod: Obj) -> bool:
        return _priority(pod) < self.plan.options.expendable_below

    def _without_consumers(self, pods: list[PodFacts], objects: dict[str, Obj]) -> list[PodFacts]:
        """Pods whose capacity was asked for already make nothing grow; they are told, under no reason at all."""
        using = [(p, name) for p in pods if (name := consumed_request(objects[p.uid]))]
        for pod, name in using[:MOST_EVENTS]:
            self.tell(_pod_key(pod), events.consumes_request(pod.namespace, name))
        users = {p.uid for p, _ in using}
        return [p for p in pods if p.uid not in users]

    def _serve(
        self,
        pods: list[PodFacts],
        asked: Asked | None,
        snapshot: Snapshot,
        groups: list[NodeGroup],
        nodes_there: int,
    ) -> bool:
        """Those that wait, or the request: in turn where there are both. Source: wrapper_orchestrator.go."""
        if asked is None:
            return bool(pods) and self._grow_for_pods(pods, groups, nodes_there)
        is_theirs = self.requests.has_turn or not pods
        self.requests.has_turn = not is_theirs
        # A request that was looked at calls for the next loop at once. Source: loop/trigger.go.
        self._scan_soon()
        if not is_theirs:
            return self._grow_for(pods, groups, nodes_there)
        if is_check(asked.request):
            return self.requests.check(self.host, asked, snapshot)
        return self._grow_for_all(asked, snapshot, groups, nodes_there)

    def _grow_for_pods(self, pods: list[PodFacts], groups: list[NodeGroup], nodes_there: int) -> bool:
        """Unless more are to be expected, or there are nodes enough; nothing shrinks while they are new."""
        most = self.plan.options.max_nodes_total
        if most and nodes_there >= most:
            self.tell(STATUS, events.max_nodes_reached(most))
            for pod in pods:
                self.tell(_pod_key(pod), events.not_triggered(MAX_NODES_TOTAL))
            return False
        if are_new(pods, self.host.loop.now_us):
            self.wake()
            return True
        self.requests.has_turn = True
        return self._grow_for(pods, groups, nodes_there)

    def _grow_for_all(
        self, asked: Asked, snapshot: Snapshot, groups: list[NodeGroup], nodes_there: int
    ) -> bool:
        """One group for all pods that find no room, or nothing."""
        left = snapshot.copy().place(asked.pods)
        if not left:
            self.requests.say(self.host, asked.request, FOUND)
            return False
        grew = self._grow_for(left, groups, nodes_there, all_or_nothing=True)
        self.requests.say(self.host, asked.request, REQUESTED if grew else NOT_FOUND)
        return grew

    def _grow_for(
        self, pods: list[PodFacts], groups: list[NodeGroup], nodes_there: int, *, all_or_nothing: bool = False
    ) -> bool:
        decided = scale_up(
            pods,
            groups,
            self.plan.options,
            self.host.streams.draw_for("cluster-autoscaler.expander", str(self._serial)),
            nodes_total=nodes_there + len(self.coming),
            priorities=self._priorities(),
            all_or_nothing=all_or_nothing,
        )
        self._tell_pods(decided)
        for resize in decided.resizes:
            for told in events.growing(resize):
                self.tell(STATUS, told)
            self._grow(self._groups[resize.group], self.targets[resize.group] + resize.new_size - resize.size)
        if decided.resizes:
            self._added_us = self.host.loop.now_us
            self._scan_soon()
        return bool(decided.resizes)

    def _priorities(self) -> Priorities | None:
        if PRIORITY not in self.plan.options.expanders:
            return None
        config = self.host.store.get(_PRIORITIES)
        if config is None:
            return None
        found = read_priorities(config.get("data") or {})
        if isinstance(found, str):
            self.tell(_PRIORITIES, Told(WARNING, "PriorityConfigMapInvalid", found))
            return None
        return found

    def _tell_pods(self, decided: ScaleUp) -> None:
        if not decided.resizes:
            for pod, why in decided.unhelped:
                self.tell(_pod_key(pod), events.not_triggered(why))
            return
        for pod in decided.triggered:
            self.tell(_pod_key(pod), events.triggered(decided.resizes))

    def _grow(self, group: GroupSpec, size: int) -> None:
        """Ask the cloud for machines; each boots by itself, or cannot be had."""
        loop, cloud = self.host.loop, self.plan.cloud
        failing: list[str] = []
        for _ in range(size - self.targets[group.name]):
            name = self._new_name(group)
            is_there = cloud.has(_offered(group), self._running, loop.now_us)
            self.coming[name] = (group.name, loop.now_us)
            if is_there:
                luck = self.host.streams.draw_for("cluster-autoscaler.boot", str(self._serial))
                boot_us = cloud.boot_of(group.kind.name).at_quantile(luck)
                loop.at(loop.now_us + boot_us, self._h_boot, name, NODES)
                labels = labels_of(node_object(group, self.plan.provider, name))
                self.host.launches.begin(name, loop.now_us, labels, group.kind.capacity)
            else:
                failing.append(name)
                self._refused[name] = None
        metrics.grew(self.tally, group, size - self.targets[group.name])
        if failing:
            at_us = loop.now_us + self.plan.options.scan_interval_us
            loop.at(at_us, self._h_fail, (group.name, tuple(failing)), NODES)
        self.targets[group.name] = size

    def _running(self) -> list[Offered]:
        """The machines that the cloud has given out, whether their nodes are there yet or not."""
        label, nodes = GROUP_LABELS[self.plan.provider], self.host.store.objects("Node")
        others = [n for n in nodes if labels_of(n).get(label) not in self._groups]
        own = [g for n in nodes if (g := labels_of(n).get(label)) in self._groups]
        booting = [g for name, (g, _) in self.coming.items() if name not in self._refused]
        return [*map(offered_of, others), *(_offered(self._groups[g]) for g in (*own, *booting) if g)]

    def _new_name(self, group: GroupSpec) -> str:
        """Of its next machine; a node of a cluster that was there before keeps its own."""
        self._serial += 1
        while self.host.store.get(Key("Node", "", f"{group.name}-{self._serial:04d}")) is not None:
            self._serial += 1
        return f"{group.name}-{self._serial:04d}"

    def _on_boot(self, name: str) -> None:
        found = self.coming.pop(name, None)
        if found is None:
            return
        group = self._groups[found[0]]
        node = node_object(group, self.plan.provider, name)
        meta = node["metadata"]
        meta["labels"] = {**feature_labels(group.kind.name), **meta["labels"]}
        self.host.store.create(with_machine(node))
        self.host.launches.join(name)
        backoff = self.backoffs.get(group.name)
        if backoff is not None and backoff.until_us < self.host.loop.now_us:
            del self.backoffs[group.name]

    def _on_fail(self, failed: tuple[str, tuple[str, ...]]) -> None:
        """The cloud has none: the instances are given back, their group in backoff."""
        group, names = failed
        for name in names:
            self._refused.pop(name, None)
        gone = [name for name in names if self.coming.pop(name, None) is not None]
        if not gone:
            return
        self.targets[group] -= len(gone)
        self.tell(STATUS, events.not_to_be_had(self.plan.provider, group, len(gone)))
        self._back_off(group, events.OUT_OF_RESOURCE, len(gone))

    def _give_up_late(self) -> None:
        """Machines that did not register in time. Source: clusterstate.go updateScaleRequests."""
        now_us, limit_us = self.host.loop.now_us, self.plan.options.max_node_provision_us
        late: dict[str, list[int]] = {}
        for name, (group, since_us) in [*self.coming.items()]:
            if now_us - since_us > limit_us:
                del self.coming[name]
                self.host.launches.lose(name, now_us)
                self.targets[group] -= 1
                late.setdefault(group, []).append(since_us)
        for group, times in late.items():
            self.tell(STATUS, events.timed_out(group, now_us - times[0]))
            self._back_off(group, "timeout", len(times))
            metrics.gave_up(self.tally, len(times))

    def _back_off(self, group: str, why: str, nodes: int) -> None:
        """So many nodes of it did not come."""
        metrics.failed(self.tally, self._groups[group], why, nodes)
        before, now_us = self.backoffs.get(group), self.host.loop.now_us
        self.backoffs[group] = backed_off(before, why, now_us, self.plan.options)
        self.wake()

    # Shrinking

    def _scale_down(
        self, nodes: tuple[NodeView, ...], groups: list[NodeGroup], *, may_act: bool
    ) -> tuple[Removable, ...]:
        """Note who is unneeded, and remove those that have been for long enough."""
        now_us, options = self.host.loop.now_us, self.plan.options
        budgets = budgets_of(self.host.store.objects(_BUDGET))
        judged = unneeded(nodes, budgets, options, now_us)
        found, self.kept = judged.removable, metrics.counted(dict(judged.kept), judged.removable)
        self.since_us = {r.node: self.since_us.get(r.node, now_us) for r in found}
        ready = {n.name: n.is_ready for n in nodes}
        rests_until_us = self.rests_until_us()
        if found and may_act and now_us >= rests_until_us:
            going, draining = self.removals.counted()
            removed = due(
                found, self.since_us, groups, ready, options, now_us, going=going, draining=draining
            )
            for node in removed:
                self.removals.remove(node)
            if removed:
                self._deleted_us = now_us
                self._scan_soon()
        self._arm_for(found, groups, ready, rests_until_us)
        return found

    def group(self, name: str) -> GroupSpec:
        return self._groups[name]

    def rests_until_us(self) -> int:
        """Until when nothing may be removed, after what was done last."""
        options = self.plan.options
        return max(
            self._added_us + options.delay_after_add_us,
            self._deleted_us + options.delay_after_delete_us,
            self.failed_us + options.delay_after_failure_us,
        )

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
            self.since_us[r.node] + (options.unneeded_us if ready[r.node] else options.unready_us)
            for r in found
            if r.group in shrinkable and r.node not in self.removals.going
        ]
        if times:
            wait_us = max(min(times), rests_until_us) - self._scanned_us
            self._arm(self._scanned_us + max(-(-wait_us // interval_us), 1) * interval_us)

    # Words

    def _write_status(
        self, groups: list[NodeGroup], nodes: tuple[NodeView, ...], candidates: tuple[Removable, ...]
    ) -> None:
        now_us = self.host.loop.now_us
        failed = {
            name: events.failure(self.plan.provider, b.why)
            for name, b in self.backoffs.items()
            if b.until_us >= now_us
        }
        names = [c.node for c in candidates]
        self._said = statustext.status_of(groups, nodes, names, failed, now_us, self._said)
        marks = {statustext.LAST_UPDATED: statustext.time_text(now_us)}
        data = {"status": statustext.text(self._said)}
        if self.host.store.get(STATUS) is None:
            meta = {"name": STATUS.name, "namespace": STATUS.namespace, "annotations": marks}
            self.host.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
        else:
            self.host.store.patch(STATUS, {"metadata": {"annotations": marks}, "data": data})

    def tell(self, about: Key, told: Told) -> None:
        obj = self.host.store.get(about)
        uid = "" if obj is None else str(meta_of(obj).get("uid") or "")
        now_us = self.host.loop.now_us
        self.host.events.emit(now_us, about, uid, told.type, told.reason, told.message, NAME)
        self.host.log.record(now_us, NAME, about.gk, about.namespace, about.name, told.reason, told.message)


def _pod_key(pod: PodFacts) -> Key:
    return Key("Pod", pod.namespace, pod.name)


def _frees(change: Change) -> bool:
    """Whether a pod came to a node, or left what it held there."""
    now, old = change.obj, change.old
    if change.type == DELETED or old is None:
        return bool((now.get("spec") or {}).get("nodeName"))
    placed = (now.get("spec") or {}).get("nodeName") != (old.get("spec") or {}).get("nodeName")
    ended = _phase(now) != _phase(old) and _phase(now) in ("Succeeded", "Failed")
    return placed or ended


def _lets_others_go(change: Change) -> bool:
    """Whether a budget says something else of who may be evicted."""
    if change.type == DELETED or change.old is None:
        return True
    return budgets_of((change.obj,)) != budgets_of((change.old,))


def _facts(pods: list[Obj], shapes: Shapes, claims: Claiming | None) -> list[PodFacts]:
    return [facts_of(p, shapes.of(p if claims is None else claims.asking(p))) for p in pods]


def _priority(pod: Obj) -> int:
    return int((pod.get("spec") or {}).get("priority") or 0)


def _phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase") or "")
