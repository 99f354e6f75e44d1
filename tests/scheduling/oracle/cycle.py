"""One cycle: filter, score, or say why not."""

from __future__ import annotations

from oracle.filters import filters_with_nominated, prefilter
from oracle.matching import node_affinity
from oracle.preemption import fit_error, preempt
from oracle.scores import score_all
from oracle.settings import filters_with
from oracle.world import REQUIRED, Decision, NodeInfo, Obj, Status, World


def infos_of(world: World) -> list[NodeInfo]:
    return [
        NodeInfo(n, [p for p in world.pods if p["spec"].get("nodeName") == n["metadata"]["name"]])
        for n in world.nodes
    ]


def pinned(pod: Obj) -> set[str] | None:
    """NodeAffinity's PreFilter: the names the required terms allow, None for any."""
    terms = (node_affinity(pod).get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    allowed: set[str] = set()
    for term in terms:
        named = [
            set(f["values"])
            for f in term.get("matchFields") or []
            if f["key"] == "metadata.name" and f["operator"] == "In"
        ]
        if not named:
            return None
        allowed |= set.intersection(*named)
    return allowed if terms else None


def decide(world: World, pod: Obj) -> Decision:
    infos = infos_of(world)
    if not infos:
        return Decision([], message="no nodes available to schedule pods")
    names = pinned(pod) if filters_with(world, "NodeAffinity") else None
    if names is not None and not names:
        return Decision(
            [], message=f"0/{len(infos)} nodes are available: pod affinity terms conflict. not found"
        )
    state = prefilter(world, pod, infos)
    statuses: dict[str, Status] = {}
    feasible: list[NodeInfo] = []
    for info in infos:
        if names is not None and info.name not in names:
            continue
        refused = filters_with_nominated(world, state, pod, info)
        if refused:
            statuses[info.name] = refused
        else:
            feasible.append(info)
    if feasible:
        return Decision([i.name for i in feasible], score_all(world, pod, feasible, infos))
    absent = "" if names is None else "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    message = fit_error(len(infos), statuses, absent)
    decision = Decision([], message=message)
    preempt(world, state, pod, infos, statuses, decision)
    return decision
