"""HAMi where its chart is installed: cards registered on nodes, and its scheduler's extender.

It is there once the DaemonSet `hami-device-plugin` is in `kube-system`, as `helm install hami hami-charts/hami -n
kube-system` makes it. Nodes that its node selector chooses (`gpu: "on"`) register their cards and offer each of them
`--device-split-count` times; pods that ask for HAMi's resources go to `hami-scheduler`.

Source: HAMi (master, 2026-08) pkg/device-plugin/nvidiadevice register, pkg/scheduler Filter and Bind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fairway.catalog.drivers import gpu_uuid
from fairway.catalog.nodegpus import HARDWARE, gpus_of_node
from fairway.cluster.actions import View
from fairway.cluster.changes import Change
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, name_of, spec_of, status_of
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.scheduling.extenders import Extender
from fairway.scheduling.hami import cards
from fairway.scheduling.hami.fitting import answer, asks
from fairway.scheduling.hami.requests import SCHEDULER
from fairway.twin.components import Host
from fairway.twin.kubeevents import WARNING
from fairway.twin.loop import NODES
from fairway.twin.operators import HAMI

if TYPE_CHECKING:
    from fairway.twin.scheduler import SchedulerComponent

HANDSHAKE: Final = "hami.io/node-handshake"
_SPLIT: Final = "--device-split-count"
_DEFAULT_SPLIT: Final = 10
_MOST_SPLIT: Final = 1000
_FAILED: Final = "FilteringFailed"


def is_installed(view: View) -> bool:
    return view.get(HAMI) is not None


class HamiDevicePlugin:
    """Registers the cards of nodes."""

    name = "hami-device-plugin"
    kinds: tuple[str, ...] = ("Node", HAMI.gk)

    def __init__(self) -> None:
        self._due: dict[str, None] = {}

    def attach(self, host: Host) -> None:
        self.host = host
        self._register = host.loop.register("hami.register", self._on_register)

    def start(self) -> None:
        """Nodes and the DaemonSet come as changes."""

    def fork(self) -> HamiDevicePlugin:
        twin = HamiDevicePlugin()
        twin._due = dict(self._due)
        return twin

    def observe(self, change: Change) -> None:
        key, store = change.key, self.host.store
        if key == HAMI:
            self._look_at(*(name_of(node) for node in store.objects("Node")))
        elif key.gk == "Node" and is_installed(store):
            self._look_at(key.name)

    def _look_at(self, *nodes: str) -> None:
        if nodes and not self._due:
            self.host.loop.at(self.host.loop.now_us, self._register, None, NODES)
        self._due.update(dict.fromkeys(nodes))

    def _on_register(self, _data: None) -> None:
        due, self._due = self._due, {}
        plugin = self.host.store.get(HAMI)
        for name in due:
            node = self.host.store.get(Key("Node", "", name))
            if node is not None:
                self._settle(node, plugin)

    def _settle(self, node: Obj, plugin: Obj | None) -> None:
        """What the node says of its cards, and how many parts of them it offers."""
        said = annotations_of(node)
        found = gpus_of_node(node)
        if plugin is None or not found.count or found.model is None or not _is_chosen(node, plugin):
            if cards.REGISTER in said:
                self._write(node, {cards.REGISTER: None, HANDSHAKE: None}, found.count)
            return
        split = _split(plugin)
        registered = cards.registration(
            {
                "id": gpu_uuid(name_of(node), slot),
                "index": slot,
                "count": split,
                "devmem": found.model.memory_bytes >> 20,
                "devcore": 100,
                "type": f"{cards.VENDOR}-{found.product}",
                "numa": 0,
                "mode": "hami-core",
                "health": slot not in found.unhealthy,
            }
            for slot in range(found.count)
        )
        if said.get(cards.REGISTER) != registered:
            now = rfc3339(self.host.loop.now_us)
            # What the hardware is, must not be read off the parts of it.
            annotations = {
                cards.REGISTER: registered,
                HANDSHAKE: f"Reported {now}",
                HARDWARE: found.hardware,
            }
            self._write(node, annotations, found.count * split)

    def _write(self, node: Obj, annotations: Mapping[str, str | None], offered: int) -> None:
        store, key = self.host.store, Key("Node", "", name_of(node))
        store.patch(key, {"metadata": {"annotations": annotations}})
        status = status_of(store.require(key))
        count = {NVIDIA_GPU: str(offered)}
        amounts = {n: {**(status.get(n) or {}), **count} for n in ("capacity", "allocatable")}
        store.set_status(key, {**status, **amounts})


def _is_chosen(node: Obj, plugin: Obj) -> bool:
    spec = (spec_of(plugin).get("template") or {}).get("spec") or {}
    labels = labels_of(node)
    return all(labels.get(k) == v for k, v in (spec.get("nodeSelector") or {}).items())


def _split(plugin: Obj) -> int:
    """`--device-split-count=5`, in an argument or in a command."""
    spec = (spec_of(plugin).get("template") or {}).get("spec") or {}
    for container in spec.get("containers") or ():
        for part in (*(container.get("command") or ()), *(container.get("args") or ())):
            name, _, value = str(part).partition("=")
            count = natural(value) if name == _SPLIT else None
            if count:
                return min(count, _MOST_SPLIT)
    return _DEFAULT_SPLIT


class HamiExtender:
    """What hami-scheduler's extender answers. It writes what it decided on the pod, before the pod is bound."""

    def __init__(self, scheduler: SchedulerComponent) -> None:
        self._scheduler = scheduler

    def __call__(self, extender: Extender, verb: str, args: Any) -> Any:
        return self._bind(args) if verb == extender.bind_verb else self._filter(args)

    def _filter(self, args: Any) -> Any:
        pod, names = args["pod"], args["nodenames"]
        if not asks(pod):
            return {"nodenames": names}
        store = self._scheduler.host.store
        nodes = [(name, node) for name in names if (node := store.get(Key("Node", "", name))) is not None]
        uid = pod["metadata"]["uid"]
        found = answer(pod, nodes, cards.card_holders(store).on(names, but=uid))
        if found.chosen is None:
            self._tell(pod, len(names), found.refused)
            return {"failedNodes": dict(found.refused)}
        held = cards.encoded(found.chosen.containers)
        seconds = str(self._scheduler.host.loop.now_us // SECOND_US)
        self._patch(
            pod,
            {
                cards.NODE: found.chosen.node,
                cards.TIME: seconds,
                cards.TO_ALLOCATE: held,
                cards.ALLOCATED: held,
            },
        )
        return {"nodenames": [found.chosen.node]}

    def _bind(self, args: Any) -> Any:
        key = Key("Pod", args["podNamespace"], args["podName"])
        seconds = str(self._scheduler.host.loop.now_us // SECOND_US)
        # The device plugin ends at once what binding begins: nothing holds it up here.
        annotations = {cards.BIND_PHASE: "success", cards.BIND_TIME: seconds}
        self._scheduler.host.store.patch(key, {"metadata": {"annotations": annotations}})
        return {}

    def _patch(self, pod: Obj, annotations: dict[str, str]) -> None:
        if not self._scheduler.is_asked:
            key = Key("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
            self._scheduler.host.store.patch(key, {"metadata": {"annotations": annotations}})

    def _tell(self, pod: Obj, nodes: int, refused: dict[str, str] | Any) -> None:
        """By reason the nodes that gave it, and that none is left."""
        if self._scheduler.is_asked:
            return
        by_reason: dict[str, list[str]] = {}
        for node, words in sorted(refused.items()):
            for part in words.split(", "):
                count, _, reason = part.partition(" ")
                if "/" in count:
                    by_reason.setdefault(reason, []).append(node)
        said = [f"{len(of)} nodes {reason}({','.join(of)})" for reason, of in sorted(by_reason.items())]
        key = Key("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
        host = self._scheduler.host
        for message in (*said, f"no available node, {nodes} nodes do not meet"):
            host.events.emit(
                host.loop.now_us, key, pod["metadata"]["uid"], WARNING, _FAILED, message, SCHEDULER
            )
