"""Assignments put together: what pods placed earlier take, and two assignments of one pod set as one.

Source: pkg/cache/scheduler/tas_flavor_snapshot.go addAssumedUsage, mergeTopologyAssignments.
"""

from __future__ import annotations

from fairway.kube.resources import PODS, Resources
from fairway.queueing.facts.topologyassignments import DomainCount, TopologyAssignment, domain_id
from fairway.queueing.tas.requests import PodSetRequest
from fairway.queueing.tas.tree import FlavorTopology

# Domain → what pod sets placed earlier in the same workload take there.
Assumed = dict[str, Resources]


def assume(assumed: Assumed, placed: TopologyAssignment, request: PodSetRequest) -> None:
    """Count what was placed as taken."""
    for domain in placed.domains:
        taken = assumed.setdefault(domain_id(domain.values), {})
        for name, value in request.pod_set.per_pod_on_node.items():
            taken[name] = taken.get(name, 0) + value * domain.pods
        taken[PODS] = taken.get(PODS, 0) + domain.pods


def merged(topology: FlavorTopology, a: TopologyAssignment, b: TopologyAssignment) -> TopologyAssignment:
    """Both in one, domains in the order of the topology."""

    def rank(domain: DomainCount) -> str:
        return domain_id(topology.leaves[domain_id(domain.values)].values)

    both: list[DomainCount] = []
    for domain in sorted((*a.domains, *b.domains), key=rank):
        if both and both[-1].values == domain.values:
            both[-1] = DomainCount(domain.values, both[-1].pods + domain.pods)
        else:
            both.append(domain)
    return TopologyAssignment(a.levels, tuple(both))
