"""What goes wrong, and when: nodes fail and return, spot capacity is taken back, pods die, registries crawl.

Every function plans an event on a twin; `at_us` in the past means now. They need the `Faults` component,
which every standard twin has.

    fail_node(twin, "gpu-7", at_us=start + 2 * HOUR_US, for_us=30 * MINUTE_US)
    preempt_node(twin, "spot-3", at_us=start + HOUR_US, notice_us=2 * MINUTE_US)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairway.cluster.actions import Delete, perform
from fairway.cluster.changes import Change
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import Host
from fairway.twin.kubeevents import WARNING
from fairway.twin.kubelet import machines, stopping
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.states import RUNNING, Ended, Ending, PodState
from fairway.twin.loop import INPUT

if TYPE_CHECKING:
    from fairway.twin.twin import Twin

NAME = "faults"
_PULL_AS_MODELLED_MILLI = 1000

Fault = tuple[str, tuple[Any, ...]]


def fail_node(twin: Twin, node: str, at_us: int, for_us: int | None = None) -> None:
    """The machine crashes: everything on it dies. After `for_us` it has booted again; None: never."""
    _plan(twin, at_us, "crash", node)
    if for_us is not None:
        _plan(twin, at_us + for_us, "recover", node)


def partition_node(twin: Twin, node: str, at_us: int, for_us: int | None = None) -> None:
    """The node loses the API server; its containers go on."""
    _plan(twin, at_us, "partition", node)
    if for_us is not None:
        _plan(twin, at_us + for_us, "recover", node)


def recover_node(twin: Twin, node: str, at_us: int) -> None:
    """The machine is up again, or the connection is back."""
    _plan(twin, at_us, "recover", node)


def shut_down_node(
    twin: Twin, node: str, at_us: int, *, grace_us: int = 60 * SECOND_US, critical_us: int = 10 * SECOND_US
) -> None:
    """A graceful shutdown: pods are stopped within the grace, then the machine is off."""
    _plan(twin, at_us, "shutDown", node, grace_us, critical_us)
    _plan(twin, at_us + grace_us, "crash", node)


def preempt_node(
    twin: Twin, node: str, at_us: int, *, notice_us: int = 120 * SECOND_US, is_graceful: bool = True
) -> None:
    """Spot capacity is taken back: with notice (two minutes at AWS, 30 s at GCP and Azure), then it is gone.

    `is_graceful`: the kubelet shuts down within the notice, as managed node pools configure it. When the
    notice is over the Node object is deleted, as a cloud controller does for an instance that is gone.
    """
    if is_graceful:
        _plan(twin, at_us, "shutDown", node, notice_us, min(notice_us // 4, 15 * SECOND_US))
    _plan(twin, at_us + notice_us, "remove", node)


def kill_container(twin: Twin, pod: Key, at_us: int, *, container: str = "", exit_code: int = 137) -> None:
    """The container's process dies (the first container's, unless named)."""
    _plan(twin, at_us, "kill", pod, container, exit_code)


def delete_pod(twin: Twin, pod: Key, at_us: int, *, grace_s: int | None = None) -> None:
    _plan(twin, at_us, "delete", pod, grace_s)


def evict_pod(twin: Twin, pod: Key, at_us: int, message: str = "") -> None:
    """The kubelet evicts it for lack of a node resource: phase Failed, reason Evicted."""
    text = message or "The node was low on resource: memory. "
    _plan(twin, at_us, "evict", pod, text)


def slow_registry(twin: Twin, at_us: int, factor: float, for_us: int | None = None) -> None:
    """Image pulls that begin from then on take `factor` times as long."""
    _plan(twin, at_us, "registry", round(factor * _PULL_AS_MODELLED_MILLI))
    if for_us is not None:
        _plan(twin, at_us + for_us, "registry", _PULL_AS_MODELLED_MILLI)


def plan_fault(host: Host, verb: str, *arguments: Any, after_us: int = 0) -> None:
    """Have the twin's `Faults` do it, now or later."""
    faults = host.parts[NAME]
    if not isinstance(faults, Faults):
        raise KeyError(NAME)
    host.loop.at(host.loop.now_us + after_us, faults.happens, (verb, arguments), INPUT)


def _plan(twin: Twin, at_us: int, verb: str, *arguments: Any) -> None:
    faults = twin.component(NAME)
    if not isinstance(faults, Faults):
        raise KeyError(NAME)
    twin.loop.at(at_us, faults.happens, (verb, arguments), INPUT)


class Faults:
    """Makes planned faults happen."""

    name = NAME
    kinds: tuple[str, ...] = ()

    def attach(self, host: Host) -> None:
        self.host = host
        self.happens = host.loop.register("faults.happen", self._on_happen)

    def start(self) -> None:
        """Faults are planned by whoever wants them."""

    def observe(self, change: Change) -> None:
        """Faults watch nothing."""

    def fork(self) -> Faults:
        return Faults()

    def _kubelet(self) -> Kubelet:
        kubelet = self.host.parts["kubelet"]
        if not isinstance(kubelet, Kubelet):
            raise KeyError("kubelet")
        return kubelet

    def _on_happen(self, fault: Fault) -> None:
        verb, arguments = fault
        _VERBS[verb](self, *arguments)

    def _crash(self, node: str) -> None:
        machines.crash(self._kubelet(), node)

    def _partition(self, node: str) -> None:
        machines.partition(self._kubelet(), node)

    def _recover(self, node: str) -> None:
        machines.recover(self._kubelet(), node)

    def _shut_down(self, node: str, grace_us: int, critical_us: int) -> None:
        machines.shut_down(self._kubelet(), node, grace_us, critical_us)

    def _remove(self, node: str) -> None:
        """The instance is gone, and its Node object with it."""
        machines.crash(self._kubelet(), node)
        self._record(Key("Node", "", node), "InstanceGone")
        self._try_delete(Key("Node", "", node), None)

    def _reclaim(self, node: str, uid: str) -> None:
        """As `_remove`, unless another machine bears the name by now."""
        obj = self.host.store.get(Key("Node", "", node))
        if obj is not None and obj["metadata"]["uid"] == uid:
            self._remove(node)

    def _kill(self, pod: Key, container: str, exit_code: int) -> None:
        kubelet = self._kubelet()
        state = self._running(pod)
        if state is None:
            return
        names = [c.name for c in state.plan.containers]
        i = names.index(container) if container in names else state.plan.init_count
        run = state.containers[i]
        if run.state != RUNNING:
            return
        self._record(pod, "ContainerDied", names[i])
        if run.exit_ticket:
            kubelet.loop.cancel(run.exit_ticket)
        now_us = kubelet.loop.now_us
        run.exit_at = Ended(exit_code, "Error" if exit_code else "Completed", "", run.started_us, now_us)
        run.exit_ticket = kubelet.loop.at(now_us, kubelet.h_exit, (state.uid, i))

    def _delete(self, pod: Key, grace_s: int | None) -> None:
        self._try_delete(pod, grace_s)

    def _evict(self, pod: Key, message: str) -> None:
        """Source: pkg/kubelet/eviction: hard evictions give no grace."""
        state = self._running(pod)
        if state is not None:
            ending = Ending("Evicted", message, "TerminationByKubelet")
            kubelet = self._kubelet()
            kubelet.tell(pod, state.uid, WARNING, "Evicted", message)
            stopping.begin(kubelet, state, 0, ending)

    def _running(self, pod: Key) -> PodState | None:
        obj = self.host.store.get(pod)
        return None if obj is None else self._kubelet().pods.get(obj["metadata"]["uid"])

    def _registry(self, slowdown_milli: int) -> None:
        self._kubelet().pull_slowdown_milli = slowdown_milli

    def _try_delete(self, key: Key, grace_s: int | None) -> None:
        perform(self.host.store, Delete(key, grace_s=grace_s))

    def _record(self, key: Key, reason: str, message: str = "") -> None:
        now_us = self.host.loop.now_us
        self.host.log.record(now_us, NAME, key.gk, key.namespace, key.name, reason, message)


_VERBS: dict[str, Callable[..., None]] = {
    "crash": Faults._crash,
    "partition": Faults._partition,
    "recover": Faults._recover,
    "shutDown": Faults._shut_down,
    "remove": Faults._remove,
    "reclaim": Faults._reclaim,
    "kill": Faults._kill,
    "delete": Faults._delete,
    "evict": Faults._evict,
    "registry": Faults._registry,
}
