"""The simulated kubelet as a component: what it watches, its timers, and the state it carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.computedomains import CLIQUE, DOMAIN
from fairway.kube.objects import Key, Obj, spec_of
from fairway.twin.behaviour import ALIASES
from fairway.twin.components import Host
from fairway.twin.kubeevents import Said
from fairway.twin.kubelet import adopting, machines, preparing, probing, pulling, resizing, starting, stopping
from fairway.twin.kubelet.collectives import Members
from fairway.twin.kubelet.phases import TERMINAL, has_ended, phase_of
from fairway.twin.kubelet.plans import Plans
from fairway.twin.kubelet.states import NodeState, PodState
from fairway.twin.kubelet.status import pod_status
from fairway.twin.kubelet.stores import Store, Stores
from fairway.twin.loop import NODES
from fairway.twin.progress import Progress

NAME: Final = "kubelet"


class Kubelet:
    """All kubelets of the simulated nodes in one component.

    `nodes` by name and `pods` by UID hold what runs; pods whose end has been written are forgotten.
    """

    name = NAME
    kinds: tuple[str, ...] = ("Pod", "Node", CLIQUE, DOMAIN)
    skips_pod_status = True

    def __init__(self, aliases: Mapping[str, str] = ALIASES, stores: tuple[Store, ...] = ()) -> None:
        self.nodes: dict[str, NodeState] = {}
        self.pods: dict[str, PodState] = {}
        self.homeless: dict[str, dict[str, Key]] = {}
        """Pods bound to nodes that do not exist (yet), by node name and UID."""
        self.plans = Plans(aliases)
        self.progress = Progress()
        self.gangs: dict[str, Members] = {}
        """Members of distributed jobs, by the UID of the job."""
        self.preparing: dict[str, None] = {}
        """Pods that wait for a channel of a ComputeDomain, by uid."""
        self.node_count = 0
        self.stores = Stores(stores) if stores else None
        """Where init containers fetch models from; None: as long as they say themselves."""
        self.pull_slowdown_milli = 1000
        """How slow the registry is, against the model: 1000 is as modelled."""
        self.drawn_us: Callable[[Key], int | None] | None = None
        """In a forecast: how long a pod's main containers run, whatever they say themselves. Not forked."""

    def attach(self, host: Host) -> None:
        self.host = host
        self.loop = loop = host.loop
        self.store = host.store
        self._record = host.log.record
        self._emit = host.events.emit
        self._emit_all = host.events.emit_all
        self.h_start = loop.register("kubelet.start", partial(starting.on_start, self))
        self.h_report = loop.register("kubelet.report", partial(starting.on_report, self))
        self.h_mount = loop.register("kubelet.mount", partial(starting.on_mount, self))
        self.h_prepare = loop.register("kubelet.prepare", partial(starting.on_prepare, self))
        self.h_sandbox = loop.register("kubelet.sandbox", partial(starting.on_sandbox, self))
        self.h_exit = loop.register("kubelet.exit", partial(starting.on_exit, self))
        self.h_restart = loop.register("kubelet.restart", partial(starting.on_restart, self))
        self.h_pull_failed = loop.register("kubelet.pullFailed", partial(pulling.on_pull_failed, self))
        self.h_probe = loop.register("kubelet.probe", partial(probing.on_probe, self))
        self.h_deadline = loop.register("kubelet.deadline", self._on_deadline)
        self.h_resize = loop.register("kubelet.resize", partial(resizing.on_resize, self))
        self.h_resizes = loop.register("kubelet.resizes", partial(resizing.on_retry, self))
        self.h_remove = loop.register("kubelet.remove", partial(stopping.on_remove, self))
        self.h_stop_critical = loop.register("kubelet.stopCritical", partial(machines.on_stop_critical, self))
        if self.stores is not None:
            self.h_fetched = loop.register("kubelet.fetched", partial(self.stores.on_fetched, self))
        self._take_latency(host)

    def _take_latency(self, host: Host) -> None:
        latency, streams = host.latency, host.streams
        self.sandbox_start = latency.sandbox_start
        self.container_start = latency.container_start
        self.image_pull = latency.image_pull
        self.image_check = latency.image_check
        self._relist = latency.container_relist
        self.sync_delay = latency.kubelet_sync.sampler(streams.stream("kubelet.sync"))
        self.start_delay = latency.container_start.sampler(streams.stream("kubelet.start"))
        self.teardown_delay = latency.pod_teardown.sampler(streams.stream("kubelet.teardown"))
        self.pulls_take_time = not (latency.image_pull.is_zero and latency.image_check.is_zero)
        varying = (latency.sandbox_start, latency.container_start, latency.container_relist)
        self.needs_luck = any(d.form != "constant" for d in varying)

    def start(self) -> None:
        """Nothing happens on a node before there is one; what ended before this began is kept in mind."""
        adopting.count_ended(self)

    def fork(self) -> Kubelet:
        twin = Kubelet()
        twin.nodes = {name: node.copy() for name, node in self.nodes.items()}
        twin.pods = {uid: pod.copy() for uid, pod in self.pods.items()}
        twin.homeless = {name: dict(pods) for name, pods in self.homeless.items()}
        twin.plans = self.plans
        twin.progress = self.progress.fork()
        twin.gangs = {job: members.copy() for job, members in self.gangs.items()}
        twin.preparing = dict(self.preparing)
        twin.node_count = self.node_count
        twin.pull_slowdown_milli = self.pull_slowdown_milli
        twin.stores = None if self.stores is None else self.stores.copy()
        return twin

    # Watching

    def observe(self, change: Change) -> None:
        key = change.key
        if key[0] != "Pod":
            if key[0] == "Node":
                self._observe_node(change)
            else:
                preparing.on_domain(self, change)
            return
        obj = change.obj
        meta: Obj = obj["metadata"]
        pod = self.pods.get(meta["uid"])
        if pod is not None:
            if change.type == DELETED:
                stopping.drop(self, pod)
            elif "deletionTimestamp" in meta:
                stopping.delete(self, pod, obj)
            elif change.old is not None and _asks_for_else(change.old, obj):
                resizing.observe(self, pod, obj)
            return
        if change.type == DELETED:
            self._forget_waiting(obj)
            return
        if "nodeName" not in obj["spec"] or has_ended(obj):
            return
        # Delivered late, the change may be history: what counts is what the pod is now.
        now = self.store.get(key)
        if now is None or now["metadata"]["uid"] != meta["uid"] or has_ended(now):
            return
        if now["spec"].get("nodeName"):
            adopting.take_on(self, key, now)

    def _forget_waiting(self, obj: Obj) -> None:
        """A pod that we only kept in mind is gone."""
        uid, name = obj["metadata"]["uid"], spec_of(obj).get("nodeName") or ""
        node = self.nodes.get(name)
        if node is not None:
            node.unseen.pop(uid, None)
            node.owed.pop(uid, None)
        waiting = self.homeless.get(name)
        if waiting is not None:
            waiting.pop(uid, None)
            if not waiting:
                del self.homeless[name]

    def _observe_node(self, change: Change) -> None:
        name = change.key.name
        if change.type == DELETED:
            machines.vanish(self, name)
            return
        node = self.nodes.get(name)
        if node is None or (change.type == ADDED and node.uid != change.obj["metadata"]["uid"]):
            if node is not None:
                machines.vanish(self, name)
            current = self.store.get(change.key)
            if current is not None:
                machines.register(self, current)
            return
        machines.learn(self, node, change.obj)

    # Timers

    def _on_deadline(self, uid: str) -> None:
        pod = self.pods[uid]
        pod.deadline_ticket = 0
        ending = stopping.DEADLINE_EXCEEDED
        self.tell(pod.key, uid, "Normal", ending.reason, ending.message)
        stopping.begin(self, pod, pod.plan.grace_us, ending)

    # What the acting modules need

    def start_next(self, pod: PodState) -> None:
        starting.start_next(self, pod, self.nodes[pod.node], self.loop.now_us)

    def start_container(self, pod: PodState, i: int) -> None:
        starting.schedule_start(self, pod, self.nodes[pod.node], i, self.loop.now_us)

    def report(self, pod: PodState) -> None:
        """Write the pod's status as it is now; not while the API server cannot be reached."""
        node = self.nodes[pod.node]
        if not (node.is_up and node.is_reachable):
            return
        key = pod.key
        obj = self.store.get(key)
        if obj is None or obj["metadata"]["uid"] != pod.uid:
            return
        if has_ended(obj):
            # Somebody else declared it over: what still runs is stopped, and the verdict stands.
            stopping.begin(self, pod, pod.plan.grace_us)
            return
        phase = phase_of(pod.plan, pod.containers, is_terminal=False)
        if phase in TERMINAL:
            # A pod with anything left to stop is not terminal yet; its last status comes from `finish`.
            phase = "Running"
        now_us = self.loop.now_us
        self.store.set_status(key, pod_status(obj, pod, node, phase, now_us))
        self._record(now_us, NAME, "Pod", key[1], key[2], phase, node.name)

    def tell(self, about: Key, uid: str, type_: str, reason: str, message: str) -> None:
        self._emit(self.loop.now_us, about, uid, type_, reason, message, NAME)

    def tell_of(self, pod: PodState, i: int, type_: str, reason: str, message: str, times: int = 1) -> None:
        """About one of a pod's containers."""
        part = pod.plan.containers[i].part
        self._emit(self.loop.now_us, pod.key, pod.uid, type_, reason, message, NAME, times, part)

    def tell_all(self, pod: PodState, i: int, words: tuple[Said, ...]) -> None:
        """Several events at once about a container, in order."""
        self._emit_all(self.loop.now_us, pod.key, pod.uid, words, NAME, pod.plan.containers[i].part)

    def record(self, about: Key, reason: str, message: str = "") -> None:
        self._record(self.loop.now_us, NAME, about.gk, about.namespace, about.name, reason, message)

    def relist_delay(self, pod: PodState) -> int:
        """How long until the end of a container is noticed."""
        relist = self._relist
        if relist.form == "constant":
            return relist.a_us
        return relist.at_quantile(pod.luck[3])

    def luck_of(self, pod: PodState) -> tuple[float, ...]:
        """The numbers that belong to this pod, whichever run it is."""
        if not pod.luck:
            pod.luck = self.host.streams.draws_for("pod", pod.key.namespace, pod.key.name)
        return pod.luck


def _asks_for_else(old: Obj, new: Obj) -> bool:
    """Whether the pod's containers are others than before: of a pod that is bound, only resources and images can be."""
    was, now = spec_of(old), spec_of(new)
    if was is now:
        return False
    return any(was.get(field) is not now.get(field) for field in ("containers", "initContainers"))


PRIORITY: Final = NODES
"""The kubelet's place among events of one microsecond."""
