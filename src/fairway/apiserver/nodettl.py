"""How long may a kubelet keep secrets and config maps before it looks again? The annotation on every node.

Larger clusters look less often. A node's annotation follows the size of the cluster with some slack, so that one node
more or less does not rewrite them all.

Source: pkg/controller/ttl/ttl_controller.go (v1.36).
"""

from __future__ import annotations

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS

ANNOTATION = "node.alpha.kubernetes.io/ttl"
_MANY = 2**31 - 1
# (from this many nodes, up to this many, seconds)
_SIZES = (
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, 10000, 300),
    (9000, _MANY, 600),
)


class NodeTtl:
    """Keeps the annotation."""

    name = "ttl-controller"
    kinds: tuple[str, ...] = ("Node",)

    def __init__(self, step: int = 0) -> None:
        self._step = step

    def attach(self, host: Host) -> None:
        self.host = host
        self._mark = host.loop.register("ttl.mark", self._on_mark)

    def start(self) -> None:
        """Nodes come as changes."""

    def fork(self) -> NodeTtl:
        return NodeTtl(self._step)

    def observe(self, change: Change) -> None:
        if change.type in (ADDED, DELETED):
            self._resize()
        if change.type == ADDED:
            self._plan(change.key.name)

    def _resize(self) -> None:
        count, step = self.host.store.count("Node"), self._step
        while count > _SIZES[step][1]:
            step += 1
        while count < _SIZES[step][0]:
            step -= 1
        if step != self._step:
            self._step = step
            for node in self.host.store.objects("Node"):
                self._plan(node["metadata"]["name"])

    def _plan(self, name: str) -> None:
        self.host.loop.at(self.host.loop.now_us, self._mark, name, CONTROLLERS)

    def _on_mark(self, name: str) -> None:
        node = self.host.store.get(Key("Node", "", name))
        seconds = str(_SIZES[self._step][2])
        if node is None or (node["metadata"].get("annotations") or {}).get(ANNOTATION) == seconds:
            return
        annotations = {**(node["metadata"].get("annotations") or {}), ANNOTATION: seconds}
        self.host.store.replace({**node, "metadata": {**node["metadata"], "annotations": annotations}})
