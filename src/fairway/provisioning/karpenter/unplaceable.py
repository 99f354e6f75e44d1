"""Need pods that found no place be tried again, or could nothing hold them now either?

At the limits of its NodePools a fleet has pods that wait, and whatever happens to a pod that runs has them looked at
again. A simulation that placed nothing judged each of them by itself: by the nodes with room for it, and by the node
that each NodePool could open. It would judge them so again while nothing but the pods on the nodes is another
(`Nodes.supply`) and no node has room for any of their sizes. Pods that came since are tried alone, and all of them
only where that places one.

Pods that look at other pods (spreads, affinities), at volumes or at host ports are always tried.

Measured: of a fleet at its limits nine batches in ten find nothing, and were half of what Karpenter took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fairway.kube.objects import Obj, meta_of
from fairway.kube.resources import Resources
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.packing import PodRefusal, Results, largest_first
from fairway.provisioning.karpenter.podfacts import PodFacts, host_ports
from fairway.provisioning.karpenter.world import World

_Refused = tuple[PodFacts, PodRefusal]
Simulate = Callable[[Sequence[Obj]], Results]


class Unplaceable:
    """Pods that were tried in vain, in the order they are tried, and what the nodes were then."""

    __slots__ = ("_daemons", "_fleets", "_pools", "_refused", "_sizes", "_supply", "_unusable")

    def __init__(self) -> None:
        self._refused: dict[str, tuple[Obj, _Refused]] = {}
        """By uid, with the pod's spec."""
        self._sizes: list[Resources] = []
        self._supply = -1
        self._pools: tuple[NodePool, ...] = ()
        self._fleets: Mapping[str, Fleet] = {}
        self._daemons: tuple[Obj, ...] = ()
        self._unusable = Results((), (), ()).unusable_pools

    def results(self, world: World, pods: Sequence[Obj], simulate: Simulate) -> Results:
        """What `simulate` says of these pods in this world; asked only of those whose answer is not known."""
        if world.nodes.apart:
            return simulate(pods)
        untried = self._untried(world, pods)
        if any(not _is_by_itself(p, world) for p in untried):
            return simulate(pods)
        if untried:
            results = simulate(untried)
            if not results.is_in_vain:
                return results if len(untried) == len(pods) else simulate(pods)
            self._remember(world, pods, untried, results)
        asked = {meta_of(p)["uid"] for p in pods}
        refused = [why for uid, (_, why) in self._refused.items() if uid in asked]
        return Results((), (), tuple(refused), self._unusable, is_in_vain=True)

    def _untried(self, world: World, pods: Sequence[Obj]) -> list[Obj]:
        if not self._is_as_it_was(world):
            self._refused = {}
        known = self._refused
        return [
            p for p in pods if (found := known.get(meta_of(p)["uid"])) is None or found[0] is not p["spec"]
        ]

    def _is_as_it_was(self, world: World) -> bool:
        if (
            world.nodes.supply != self._supply
            or world.pools is not self._pools
            or world.daemons is not self._daemons
            or world.fleets != self._fleets
        ):
            return False
        return all(n.name in world.gone for n in world.nodes.with_room(self._sizes))

    def _remember(self, world: World, pods: Sequence[Obj], untried: Sequence[Obj], results: Results) -> None:
        specs = {meta_of(p)["uid"]: p["spec"] for p in untried}
        found = {facts.uid: (specs[facts.uid], (facts, why)) for facts, why in results.refused}
        for pod in pods:
            uid = meta_of(pod)["uid"]
            if uid not in found:
                found[uid] = self._refused[uid]
        self._refused = dict(sorted(found.items(), key=lambda item: largest_first(item[1][1][0])))
        shapes = [facts.shape for _, (facts, _) in self._refused.values()]
        self._sizes = list({tuple(sorted(s.requests.items())): s.requests for s in shapes}.values())
        self._supply, self._unusable = world.nodes.supply, results.unusable_pools
        self._pools, self._fleets, self._daemons = world.pools, world.fleets, world.daemons


def _is_by_itself(pod: Obj, world: World) -> bool:
    """Whether no other pod, volume or port has a say in where it may go."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    return not (
        spec.get("topologySpreadConstraints")
        or affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
        or host_ports(spec)
        or meta_of(pod)["uid"] in world.volumes
    )
