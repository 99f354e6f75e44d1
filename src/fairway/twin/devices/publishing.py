"""ResourceSlices of simulated nodes, as NVIDIA's DRA driver publishes them.

Its Helm chart brings the DeviceClass `gpu.nvidia.com`: where that is, the driver runs on every node with GPUs that no
device plugin hands out. With `compute-domain-daemon.nvidia.com` its other plugin runs on every node with GPUs, and
publishes a daemon and a channel of ComputeDomains. Where a class goes, its slices go. A node for which somebody else
published is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fairway.catalog.drivers import DRA_DRIVER, published_domain_slices, published_slices
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.metadata import generated_name
from fairway.kube import computedomains
from fairway.kube.objects import Key, Obj, meta_of, spec_of
from fairway.kube.resourceclaims import CLASS, SLICE
from fairway.twin.components import Host
from fairway.twin.loop import NODES

NAME: Final = "nvidia-dra-driver"
_CONTENT: Final = ("devices", "sharedCounters")


class Plugin(NamedTuple):
    """One of the driver's kubelet plugins: `class_name` says that it is installed."""

    driver: str
    class_name: str
    parts: Callable[[Obj], list[Obj]]


PLUGINS: Final = (
    Plugin(DRA_DRIVER, DRA_DRIVER, published_slices),
    Plugin(computedomains.DRIVER, computedomains.DAEMON_CLASS, published_domain_slices),
)
_DRIVERS: Final = tuple(plugin.driver for plugin in PLUGINS)
_CLASSES: Final = tuple(Key(CLASS, "", plugin.class_name) for plugin in PLUGINS)


class DevicePublishing:
    """The kubelet plugins of NVIDIA's DRA driver."""

    name = NAME
    kinds: tuple[str, ...] = ("Node", CLASS, SLICE)

    def __init__(self) -> None:
        self._due: dict[str, None] = {}
        """Nodes to look at."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._publish = host.loop.register("devices.publish", self._on_publish)

    def start(self) -> None:
        """Nodes and the class come as changes."""

    def fork(self) -> DevicePublishing:
        twin = DevicePublishing()
        twin._due = dict(self._due)
        return twin

    def observe(self, change: Change) -> None:
        key, store = change.key, self.host.store
        if key.gk == CLASS:
            if key in _CLASSES:
                self._look_at(*(meta_of(node)["name"] for node in store.objects("Node")))
        elif all(store.get(known) is None for known in _CLASSES):
            return
        elif key.gk == "Node" and change.type != DELETED:
            self._look_at(key.name)
        elif key.gk == SLICE and spec_of(change.obj).get("driver") in _DRIVERS:
            self._look_at(spec_of(change.obj)["pool"]["name"])

    def _look_at(self, *nodes: str) -> None:
        if nodes and not self._due:
            self.host.loop.at(self.host.loop.now_us, self._publish, None, NODES)
        self._due.update(dict.fromkeys(nodes))

    def _on_publish(self, _data: None) -> None:
        store, due = self.host.store, self._due
        self._due = {}
        published: dict[tuple[str, str], list[Obj]] = {}
        for found in store.objects(SLICE):
            spec = spec_of(found)
            if spec["driver"] in _DRIVERS and spec["pool"]["name"] in due:
                published.setdefault((spec["driver"], spec["pool"]["name"]), []).append(found)
        for name in due:
            node = store.get(Key("Node", "", name))
            if node is None:
                continue
            for plugin in PLUGINS:
                self._settle(node, plugin, published.get((plugin.driver, name), []))

    def _settle(self, node: Obj, plugin: Plugin, published: list[Obj]) -> None:
        """Make, renew or take away the slices of one node: all of them of one generation."""
        is_installed = self.host.store.get(Key(CLASS, "", plugin.class_name)) is not None
        parts = plugin.parts(node) if is_installed else []
        names = [self._name(node, plugin, number) for number in range(max(len(parts), len(published)))]
        if any(meta_of(found)["name"] not in names for found in published):
            parts = []
        store, mine = self.host.store, [self.host.store.get(Key(SLICE, "", name)) for name in names]
        there = [found for found in mine if found is not None]
        if [{k: v for k, v in spec_of(s).items() if k in _CONTENT} for s in there] == parts:
            return
        generation = 1 + max((spec_of(s)["pool"]["generation"] for s in there), default=0)
        for number, found in enumerate(mine):
            wanted = None
            if number < len(parts):
                wanted = _slice(node, plugin, names[number], parts, number, generation)
            if found is not None and wanted is not None:
                store.replace({**found, "spec": wanted["spec"]})
            elif found is not None:
                store.delete(Key(SLICE, "", names[number]))
            elif wanted is not None:
                store.create(wanted)

    def _name(self, node: Obj, plugin: Plugin, number: int) -> str:
        name, uid = meta_of(node)["name"], meta_of(node)["uid"]
        serial = int.from_bytes(uid.encode(), "big") + number
        return generated_name(f"{name}-{plugin.driver}-", self.host.store.seed, serial)


def _slice(node: Obj, plugin: Plugin, name: str, parts: list[Obj], number: int, generation: int) -> Obj:
    of, uid = meta_of(node)["name"], meta_of(node)["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": of, "uid": uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "generateName": f"{of}-{plugin.driver}-", "ownerReferences": [owner]},
        "spec": {
            "driver": plugin.driver,
            "nodeName": of,
            "pool": {"name": of, "generation": generation, "resourceSliceCount": len(parts)},
            **parts[number],
        },
    }
