"""Cutting cards anew for pods that wait for MIG instances: the policy of `devices.partitioning` on the loop.

It wakes with a ClusterPolicy whose annotation `fairway.dev/gpu-partitioning` says `mig`, and whose
`migManager.config.name` names a ConfigMap. Everything goes MIG Manager's way: a configuration of the cards to change
is written into that file, the node is cordoned, its label `nvidia.com/mig.config` set, and the node opened again with
the verdict. What was decided is decided again once the kubelet has the file, and once the node is closed: pods that
came meanwhile keep their cards. Where MIG Manager fails, its pod is replaced, so that the device plugin comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import yaml

from fairway.catalog.nodegpus import INSTANCES, gpus_of_node
from fairway.cluster.actions import Create, Delete, Patch, perform
from fairway.cluster.changes import DELETED
from fairway.cluster.changes import Change as Observed
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.devices.migconfig import MigConfigError, read_mig_configs
from fairway.devices.migmanager import RUN, TRIED
from fairway.devices.nodeview import MIG_CONFIG, MIG_STATE
from fairway.devices.partitioning import Card, Cards, Change, Cut, Lacking, Options, decide
from fairway.devices.policy import NAMESPACE, POLICY
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_rfc3339
from fairway.kube.yamltext import first_value
from fairway.twin.components import Host
from fairway.twin.kubeevents import NORMAL, WARNING
from fairway.twin.loop import CONTROLLERS

NAME: Final = "gpu-partitioner"
SETTING: Final = "fairway.dev/gpu-partitioning"
_WHOLE_FIRST: Final = 0
# The kubelet brings a changed ConfigMap to a pod within its sync period of a minute, and what its cache is behind.
_MOUNTED_US: Final = 90 * SECOND_US
# Between cordon and label: what the scheduler has decided by then is bound.
_CLOSED_US: Final = 5 * SECOND_US
# So long after the cordon a node is opened, whether or not the device plugin has told of its instances.
_PLUGIN_US: Final = 5 * MINUTE_US
# Configurations kept in the file; the oldest go. 1 MiB holds thousands.
_KEPT: Final = 200
_OPTIONS: Final = Options()
_ASLEEP: Final = (POLICY,)
_AWAKE: Final = (POLICY, "Node", "Pod")


class GpuPartitioner:
    """Watches pods that wait for instances, and the nodes that could have them."""

    name = NAME

    def __init__(self) -> None:
        self.kinds: tuple[str, ...] = _ASLEEP
        self._is_due = False
        self._planned_us = 0
        """When it looks next without a change, if later than now."""
        self._written: dict[str, int] = {}
        """When a configuration was written into the file."""
        self._closed: dict[str, int] = {}
        """Nodes that it has cordoned, since when."""
        self._coming: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Nodes that change: the configuration, and what will be free."""
        self._changed: dict[tuple[str, int], int] = {}

    def attach(self, host: Host) -> None:
        self.host, self.store = host, host.store
        self._look = host.loop.register("gpupartitioner.look", self._on_look)

    def start(self) -> None:
        """A policy comes as a change."""

    def fork(self) -> GpuPartitioner:
        twin = GpuPartitioner()
        twin.kinds, twin._is_due, twin._planned_us = self.kinds, self._is_due, self._planned_us
        twin._written, twin._closed = dict(self._written), dict(self._closed)
        twin._coming, twin._changed = dict(self._coming), dict(self._changed)
        return twin

    def observe(self, change: Observed) -> None:
        if self.kinds is _ASLEEP:
            if annotations_of(change.obj).get(SETTING) == "mig":
                self.kinds = _AWAKE
                if self.host.rewatch is not None:
                    self.host.rewatch()
                self._soon(0)
            return
        if change.key.gk == "Node" and change.type == DELETED:
            self._forget(change.key.name)
        if change.key.gk != "Pod" or _is_of_cards(change.obj):
            self._soon(SECOND_US)

    def _forget(self, node: str) -> None:
        """Another one may come by its name."""
        self._closed.pop(node, None)
        self._coming.pop(node, None)
        self._changed = {card: at_us for card, at_us in self._changed.items() if card[0] != node}

    def _soon(self, after_us: int) -> None:
        """Many changes are one look."""
        if not self._is_due:
            self._is_due = True
            self.host.loop.at(self.host.loop.now_us + after_us, self._look, True, CONTROLLERS)

    def _plan(self, at_us: int) -> None:
        now_us = self.host.loop.now_us
        if not now_us < self._planned_us <= at_us:
            self._planned_us = at_us
            self.host.loop.at(at_us, self._look, False, CONTROLLERS)

    def _on_look(self, is_first: bool) -> None:
        if is_first:
            self._is_due = False
        policy = next(
            (p for p in self.store.objects(POLICY) if annotations_of(p).get(SETTING) == "mig"), None
        )
        if policy is None:
            return
        file = ((spec_of(policy).get("migManager") or {}).get("config") or {}).get("name")
        if not file:
            why = "migManager.config.name: expected a ConfigMap to write configurations to"
            self._say(POLICY, policy, WARNING, "NoConfigMap", why)
            return
        now_us = self.host.loop.now_us
        waiting, pods = self._pods()
        nodes = [
            found for node in self.store.objects("Node") if (found := self._cards(node, pods)) is not None
        ]
        decision = decide(nodes, waiting, now_us, _OPTIONS)
        wanted = {change.node: change for change in decision.changes}
        for name in [n for n in self._closed if n not in wanted and n not in self._coming]:
            self._open(name)
        key = Key("ConfigMap", status_of(policy).get("namespace") or NAMESPACE, file)
        if decision.changes and (why := _unreadable(_text(self.store.get(key)))):
            self._say(POLICY, policy, WARNING, "UnreadableConfigMap", f"{key.name}: {why}")
            return
        for change in decision.changes:
            self._go_on(change, key)
        if decision.look_us is not None and decision.look_us > now_us:
            self._plan(decision.look_us)

    # What there is

    def _pods(self) -> tuple[list[Lacking], dict[str, list[Obj]]]:
        """What unschedulable pods ask for, and who has cards by node."""
        waiting: list[Lacking] = []
        by_node: dict[str, list[Obj]] = {}
        for pod in self.store.objects("Pod"):
            if not _is_of_cards(pod) or status_of(pod).get("phase") in ("Succeeded", "Failed"):
                continue
            node = spec_of(pod).get("nodeName")
            if node:
                by_node.setdefault(node, []).append(pod)
            elif (since := _unschedulable_since(pod)) is not None:
                waiting += [Lacking(name, since, n) for name, n in _asks(pod).items()]
        return waiting, by_node

    def _cards(self, node: Obj, pods: Mapping[str, list[Obj]]) -> Cards | None:
        """None for nodes that the policy leaves alone: not ready for it, or closed by somebody else."""
        name, labels, notes = meta_of(node)["name"], labels_of(node), annotations_of(node)
        gpus = gpus_of_node(node)
        if gpus.model is None or not gpus.model.mig or labels.get("nvidia.com/mig.strategy") != "mixed":
            return None
        self._finish(node)
        if spec_of(node).get("unschedulable") and name not in self._closed:
            return None
        used: list[set[int]] = [set() for _ in range(gpus.count)]
        for pod in pods.get(name, ()):
            for i, start in _has(pod, gpus.count):
                used[i].add(start)
        cards = tuple(
            [
                Card(layout, frozenset(used[i]), self._changed.get((name, i)))
                for i, layout in enumerate(gpus.layouts)
            ]
        )
        coming = self._coming.get(name)
        is_settled = coming is None and RUN not in notes and labels.get(MIG_STATE) == "success"
        return Cards(name, gpus.model, cards, is_settled, coming[1] if coming else ())

    # What is done about it

    def _go_on(self, change: Change, file: Key) -> None:
        """The next step of a change: the file, the cordon, the label."""
        now_us = self.host.loop.now_us
        entries = [_entry(i, cut) for i, cut in change.cuts]
        name = "fairway-" + blake2b(repr(entries).encode(), digest_size=6).hexdigest()
        if name not in self._written or _configs(self.store.get(file)).get(name) != entries:
            self._write(file, name, entries)
        if now_us < self._written[name] + _MOUNTED_US:
            self._plan(self._written[name] + _MOUNTED_US)
            return
        node = Key("Node", "", change.node)
        if change.node not in self._closed:
            self._closed[change.node] = now_us
            perform(self.store, Patch(node, {"spec": {"unschedulable": True}}))
        if now_us < self._closed[change.node] + _CLOSED_US:
            self._plan(self._closed[change.node] + _CLOSED_US)
            return
        coming: list[str] = []
        for i, cut in change.cuts:
            self._changed[change.node, i] = now_us
            coming += (
                [NVIDIA_GPU]
                if cut is None
                else [f"nvidia.com/mig-{p}" for p, n in cut.items() for _ in range(n)]
            )
        self._coming[change.node] = (name, tuple(coming))
        words = f"{change.serves} instances wait, {change.waited_us // SECOND_US} s in all: {len(change.cuts)} cards"
        self._say(
            "Node",
            self.store.require(node),
            NORMAL,
            "Repartitioning",
            f"{words}; the change costs {change.costs_us // SECOND_US} s",
        )
        # MIG Manager looks at changes alone: the same configuration again is set after it was away.
        perform(
            self.store,
            Patch(node, {"metadata": {"labels": {MIG_CONFIG: None}, "annotations": {TRIED: None}}}),
        )
        perform(self.store, Patch(node, {"metadata": {"labels": {MIG_CONFIG: name}}}))

    def _write(self, key: Key, name: str, entries: list[dict[str, Any]]) -> None:
        there = self.store.get(key)
        configs = _configs(there)
        ours = [c for c in configs if str(c).startswith("fairway-")]
        for old in ours[: max(0, len(ours) + 1 - _KEPT)]:
            del configs[old]
            self._written.pop(old, None)
        configs.setdefault("all-disabled", [{"devices": "all", "mig-enabled": False}])
        data = yaml.safe_dump({"version": "v1", "mig-configs": {**configs, name: entries}}, sort_keys=False)
        if there is None:
            meta = {"name": key.name, "namespace": key.namespace}
            perform(
                self.store,
                Create(
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"config.yaml": data}}
                ),
            )
        else:
            perform(self.store, Patch(key, {"data": {"config.yaml": data}}))
        self._written[name] = self.host.loop.now_us

    def _finish(self, node: Obj) -> None:
        """MIG Manager's verdict opens the node; after `failed` its pod is replaced."""
        name, labels = meta_of(node)["name"], labels_of(node)
        if name not in self._coming or labels.get(MIG_STATE) not in ("success", "failed"):
            return
        if not annotations_of(node).get(TRIED, "").startswith(f"{self._coming[name][0]} "):
            return
        waits = self.host.loop.now_us < self._closed[name] + _PLUGIN_US
        if labels.get(MIG_STATE) == "success" and waits and not _has_plugin(node):
            self._soon(5 * SECOND_US)
            return
        del self._coming[name]
        self._open(name)
        if labels.get(MIG_STATE) == "failed":
            self._say(
                "Node", node, WARNING, "RepartitioningFailed", "MIG Manager failed; its pod is replaced"
            )
            for pod in self.store.objects("Pod"):
                if labels_of(pod).get("app") == "nvidia-mig-manager" and spec_of(pod).get("nodeName") == name:
                    perform(self.store, Delete(Key("Pod", meta_of(pod)["namespace"], meta_of(pod)["name"])))

    def _open(self, name: str) -> None:
        del self._closed[name]
        perform(self.store, Patch(Key("Node", "", name), {"spec": {"unschedulable": None}}))

    def _say(self, gk: str, obj: Obj, kind: str, reason: str, message: str) -> None:
        meta = meta_of(obj)
        key = Key(gk, "", meta["name"])
        self.host.events.emit(self.host.loop.now_us, key, meta.get("uid") or "", kind, reason, message, NAME)


def _text(file: Obj | None) -> str:
    return str(((file or {}).get("data") or {}).get("config.yaml") or "")


def _configs(file: Obj | None) -> dict[Any, Any]:
    text = _text(file)
    return dict(first_value(text).get("mig-configs") or {}) if text else {}


def _unreadable(text: str) -> str:
    """Why MIG Manager would refuse a file: it is somebody's to mend, and not ours to write over."""
    try:
        if text:
            read_mig_configs(text)
    except MigConfigError as wrong:
        return str(wrong)
    return ""


def _has_plugin(node: Obj) -> bool:
    """Whether the device plugin has told the kubelet of the instances that are there."""
    gpus = gpus_of_node(node)
    wanted: dict[str, int] = {}
    for layout in gpus.layouts:
        for resource in Card(layout).free():
            wanted[resource] = wanted.get(resource, 0) + 1
    free = status_of(node).get("allocatable") or {}
    return all(whole_ceil(free.get(r) or 0) == n for r, n in wanted.items())


def _entry(card: int, cut: Cut) -> dict[str, Any]:
    if cut is None:
        return {"devices": [card], "mig-enabled": False}
    return {"devices": [card], "mig-enabled": True, "mig-devices": dict(cut)}


def _is_of_cards(pod: Obj) -> bool:
    return bool(_asks(pod))


def _asks(pod: Obj) -> dict[str, int]:
    asked: dict[str, int] = {}
    for container in spec_of(pod).get("containers") or ():
        resources = container.get("resources") or {}
        for name, n in {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.items():
            if name == NVIDIA_GPU or name.startswith("nvidia.com/mig-"):
                asked[name] = asked.get(name, 0) + min(whole_ceil(n), 1000)
    return {name: n for name, n in asked.items() if n}


def _unschedulable_since(pod: Obj) -> int | None:
    for condition in status_of(pod).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return parse_rfc3339(meta_of(pod).get("creationTimestamp") or "")
    return None


def _has(pod: Obj, cards: int) -> list[tuple[int, int]]:
    """Cards and starts that a pod has; all cards, while nobody has written down which."""
    notes = annotations_of(pod)
    devices = [d for name in (INSTANCES, GPU_INDEX_ANNOTATION) for d in notes.get(name, "").split(",") if d]
    found = []
    for device in devices or [str(i) for i in range(cards)]:
        i, _, instance = device.partition("/")
        start = instance.rpartition("@")[2]
        if i.isdecimal() and int(i) < cards:
            found.append((int(i), int(start) if start.isdecimal() else _WHOLE_FIRST))
    return found
