"""The leases by which kubelets say that they live, in kube-node-lease.

A real kubelet renews its lease every ten seconds, for ever. Here it is written when a node comes, falls silent or is
back; in between whoever reads it is shown the last renewal there would have been (`renewed`).

Source: pkg/kubelet/kubelet.go NewKubelet (nodelease), component-helpers apimachinery/lease/controller.go (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.cluster.changes import ADDED, Change
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.loop import CONTROLLERS

if TYPE_CHECKING:
    from fairway.twin.components import Host

LEASE = "Lease.coordination.k8s.io"
NAMESPACE = "kube-node-lease"
_DURATION_S = 40
_RENEWED_US = 10 * SECOND_US


class NodeLeases:
    """Keeps one for every node; they go with their nodes, which own them."""

    name = "node-lease"
    kinds: tuple[str, ...] = ("Node",)

    def attach(self, host: Host) -> None:
        self.host = host
        self._write = host.loop.register("nodelease.write", self._on_write)
        host.heartbeats.listen(self._heard)

    def start(self) -> None:
        """Nodes come as changes."""

    def fork(self) -> NodeLeases:
        return NodeLeases()

    def observe(self, change: Change) -> None:
        if change.type == ADDED:
            self._heard(change.key.name, None)

    def _heard(self, node: str, last_us: int | None) -> None:
        self.host.loop.at(self.host.loop.now_us, self._write, (node, last_us), CONTROLLERS)

    def _on_write(self, data: tuple[str, int | None]) -> None:
        name, last_us = data
        store = self.host.store
        node, old = store.get(Key("Node", "", name)), store.get(Key(LEASE, NAMESPACE, name))
        if node is None:
            return
        spec: Obj = {"holderIdentity": name, "leaseDurationSeconds": _DURATION_S}
        if last_us is not None:
            spec["renewTime"] = _micro(last_us)
        uid = node["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        meta = {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
        if old is None:
            store.create(lease)
        else:
            store.replace(lease)


def renewed(lease: Obj, now_us: int) -> Obj:
    """As it is read: of a node that is heard of, renewed lately."""
    spec = lease.get("spec") or {}
    if lease["metadata"].get("namespace") != NAMESPACE or spec.get("renewTime"):
        return lease
    return {**lease, "spec": {**spec, "renewTime": _micro(now_us // _RENEWED_US * _RENEWED_US)}}


def _micro(at_us: int) -> str:
    """A MicroTime."""
    return rfc3339(at_us).replace("Z", f".{at_us % SECOND_US:06d}Z")
