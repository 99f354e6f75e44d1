"""A node of an assignment is gone: which pods have to move, and how far may they?

Source: pkg/cache/scheduler/tas_flavor_snapshot.go findReplacementAssignment, requiredReplacementDomain,
findIncompleteSliceDomain; KEP-2724.
"""

from __future__ import annotations

from dataclasses import replace

from fairway.queueing.facts.podsets import SliceConstraint
from fairway.queueing.facts.topologyassignments import TopologyAssignment, domain_id
from fairway.queueing.tas.requests import PodSetRequest
from fairway.queueing.tas.tree import Domain, FlavorTopology


def without_node(assignment: TopologyAssignment, node: str) -> tuple[TopologyAssignment, int]:
    """The assignment without the domain of the node, and how many pods were there."""
    missing = 0
    kept = []
    for domain in assignment.domains:
        if domain.values[-1] == node:
            missing = domain.pods
        else:
            kept.append(domain)
    return TopologyAssignment(assignment.levels, tuple(kept)), missing


def replacement_domain(topology: FlavorTopology, request: PodSetRequest, kept: TopologyAssignment) -> str:
    """The domain the missing pods must stay in; empty: anywhere. `kept`: in domains that are there."""
    asked = request.pod_set.topology
    level = topology.level_index(topology.level_key(asked))
    if asked is None or level < 0 or not kept.domains:
        return ""
    slices = asked.slices
    if slices and slices[0].size <= 0:
        return ""
    if slices and request.count % slices[0].size != 0:
        broken = next(layer for layer in reversed(slices) if request.count % layer.size != 0)
        return _incomplete_slice(topology, kept, request.count, broken)
    return _at_level(topology, kept.domains[0].values, level).id if asked.required else ""


def replacement_request(request: PodSetRequest, missing: int) -> PodSetRequest:
    """The request with the innermost slices that the missing pods fill whole, or none."""
    asked = request.pod_set.topology
    assert asked is not None
    whole = next((layer for layer in reversed(asked.slices) if missing % layer.size == 0), None)
    topology = asked._replace(slices=() if whole is None else (SliceConstraint(whole.topology, whole.size),))
    return PodSetRequest(
        replace(request.pod_set, topology=topology),
        request.count,
        request.flavor,
        request.is_implied,
        request.updates,
    )


def _incomplete_slice(
    topology: FlavorTopology, kept: TopologyAssignment, missing: int, layer: SliceConstraint
) -> str:
    level = topology.level_index(layer.topology)
    if level < 0:
        return ""
    pods: dict[str, int] = {}
    for domain in kept.domains:
        at = _at_level(topology, domain.values, level)
        pods[at.id] = pods.get(at.id, 0) + domain.pods
    for identity in sorted(pods):
        if (pods[identity] + missing) % layer.size == 0:
            return identity
    return ""


def _at_level(topology: FlavorTopology, values: tuple[str, ...], level: int) -> Domain:
    domain: Domain = topology.leaves[domain_id(values)]
    for _ in topology.levels[level + 1 :]:
        assert domain.parent is not None
        domain = domain.parent
    return domain
