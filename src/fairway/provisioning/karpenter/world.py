"""What a decision is made from: NodePools, types, nodes, and the pods that are bound.

Facts only, gathered by whoever watches the cluster.

Source: pkg/controllers/state/cluster.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairway.kube.objects import Obj
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.nodes import Nodes, add_usage
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.provisioning.karpenter.statenode import StateNode


class World:
    """Everything one simulation sees. `fleets`: the instance types of each NodePool, by its name.

    `gone`: names of nodes that this simulation is to do without; their pods stay what others keep away from.
    `now_us`: what nodes that rest until a time are compared with.
    """

    __slots__ = ("daemons", "fleets", "gone", "namespaces", "nodes", "now_us", "pools", "volumes")

    def __init__(
        self,
        pools: tuple[NodePool, ...],
        fleets: Mapping[str, Fleet],
        nodes: Nodes | None = None,
        daemons: tuple[Obj, ...] = (),
        *,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        volumes: Mapping[str, tuple[Requirements, ...]] | None = None,
        gone: frozenset[str] = frozenset(),
        now_us: int = 0,
    ) -> None:
        self.pools = pools
        self.fleets = fleets
        self.nodes = Nodes() if nodes is None else nodes
        self.daemons = daemons
        self.namespaces: Mapping[str, Mapping[str, str]] = {} if namespaces is None else namespaces
        self.volumes: Mapping[str, tuple[Requirements, ...]] = {} if volumes is None else volumes
        """Where the volumes of pods may be, by uid: one of the alternatives has to hold."""
        self.gone = gone
        self.now_us = now_us

    def without_going(self, names: Iterable[str] = ()) -> World:
        """The world without the nodes that are going already, and without these."""
        return World(
            self.pools,
            self.fleets,
            self.nodes,
            self.daemons,
            namespaces=self.namespaces,
            volumes=self.volumes,
            gone=self.gone.union(self.nodes.marked, names),
            now_us=self.now_us,
        )

    def staying(self) -> list[StateNode]:
        """The nodes there are without those that are gone, in order. O(nodes)."""
        return [n for n in self.nodes if n.name not in self.gone]

    def used(self, pool: str) -> dict[str, int]:
        """What a NodePool's nodes that stay come to; `nodes` counts them. O(gone)."""
        used = {pool: dict(self.nodes.used.get(pool, {}))}
        for node in self.nodes.named(self.gone):
            if node.pool == pool:
                add_usage(used, pool, node.capacity, -1)
        return used[pool]
