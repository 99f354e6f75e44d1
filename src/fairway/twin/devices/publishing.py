"""ResourceSlices of simulated nodes, as NVIDIA's DRA driver publishes them.

Its Helm chart brings the DeviceClass `gpu.nvidia.com`: where that is, the driver runs on every node with GPUs that no
device plugin hands out. Where it goes, its slices go. A node for which somebody else published is left alone.
"""

from __future__ import annotations

from typing import Final

from fairway.catalog.drivers import DRA_DRIVER, published_slices
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.metadata import generated_name
from fairway.kube.objects import Key, Obj, meta_of, spec_of
from fairway.kube.resourceclaims import CLASS, SLICE
from fairway.twin.components import Host
from fairway.twin.loop import NODES

NAME: Final = "nvidia-dra-driver"
_CONTENT: Final = ("devices", "sharedCounters")
_CLASS_KEY: Final = Key(CLASS, "", DRA_DRIVER)


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
            if key == _CLASS_KEY:
                self._look_at(*(meta_of(node)["name"] for node in store.objects("Node")))
        elif store.get(_CLASS_KEY) is None:
            return
        elif key.gk == "Node" and change.type != DELETED:
            self._look_at(key.name)
        elif key.gk == SLICE and spec_of(change.obj).get("driver") == DRA_DRIVER:
            self._look_at(spec_of(change.obj)["pool"]["name"])

    def _look_at(self, *nodes: str) -> None:
        if nodes and not self._due:
            self.host.loop.at(self.host.loop.now_us, self._publish, None, NODES)
        self._due.update(dict.fromkeys(nodes))

    def _on_publish(self, _data: None) -> None:
        store, due = self.host.store, self._due
        self._due = {}
        is_installed = store.get(_CLASS_KEY) is not None
        published: dict[str, list[Obj]] = {}
        for found in store.objects(SLICE):
            spec = spec_of(found)
            if spec["driver"] == DRA_DRIVER and spec["pool"]["name"] in due:
                published.setdefault(spec["pool"]["name"], []).append(found)
        for name in due:
            node = store.get(Key("Node", "", name))
            if node is not None:
                self._settle(node, published.get(name, []), is_installed=is_installed)

    def _settle(self, node: Obj, published: list[Obj], *, is_installed: bool) -> None:
        """Make, renew or take away the slices of one node: all of them of one generation."""
        parts = published_slices(node) if is_installed else []
        names = [self._name(node, number) for number in range(max(len(parts), len(published)))]
        if any(meta_of(found)["name"] not in names for found in published):
            parts = []
        store, mine = self.host.store, [self.host.store.get(Key(SLICE, "", name)) for name in names]
        there = [found for found in mine if found is not None]
        if [{k: v for k, v in spec_of(s).items() if k in _CONTENT} for s in there] == parts:
            return
        generation = 1 + max((spec_of(s)["pool"]["generation"] for s in there), default=0)
        for number, found in enumerate(mine):
            wanted = None if number >= len(parts) else _slice(node, names[number], parts, number, generation)
            if found is not None and wanted is not None:
                store.replace({**found, "spec": wanted["spec"]})
            elif found is not None:
                store.delete(Key(SLICE, "", names[number]))
            elif wanted is not None:
                store.create(wanted)

    def _name(self, node: Obj, number: int) -> str:
        name, uid = meta_of(node)["name"], meta_of(node)["uid"]
        serial = int.from_bytes(uid.encode(), "big") + number
        return generated_name(f"{name}-{DRA_DRIVER}-", self.host.store.seed, serial)


def _slice(node: Obj, name: str, parts: list[Obj], number: int, generation: int) -> Obj:
    of, uid = meta_of(node)["name"], meta_of(node)["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": of, "uid": uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "generateName": f"{of}-{DRA_DRIVER}-", "ownerReferences": [owner]},
        "spec": {
            "driver": DRA_DRIVER,
            "nodeName": of,
            "pool": {"name": of, "generation": generation, "resourceSliceCount": len(parts)},
            **parts[number],
        },
    }
