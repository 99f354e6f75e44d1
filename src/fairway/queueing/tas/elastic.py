"""Pods of an elastic job stay where they are: the next slice places only what it has more.

Source: pkg/cache/scheduler/tas_elastic_workloads.go (gate ElasticJobsViaWorkloadSlicesWithTAS, alpha).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fairway.queueing.facts.topologyassignments import DomainCount, TopologyAssignment, domain_id
from fairway.queueing.tas.merging import Assumed, assume, merged
from fairway.queueing.tas.requests import PodSetRequest, TopologyResult, TopologyResults
from fairway.queueing.tas.tree import FlavorTopology

Find = Callable[[PodSetRequest, PodSetRequest | None], dict[str, TopologyAssignment] | str]


def place_elastic(
    topology: FlavorTopology,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    assumed: Assumed,
    find: Find,
) -> TopologyResults | None:
    """None: the previous assignment is of no use, place everything afresh."""
    previous = workers.previous
    of_leader = None if leader is None else leader.previous
    if previous is None or _is_stale(topology, previous):
        return None
    if of_leader is not None and _is_stale(topology, of_leader):
        return None
    if workers.count > previous.pod_count():
        return _scale_up(topology, workers, leader, assumed, find)
    kept = _first(previous, workers.count)
    results: TopologyResults = {workers.pod_set.name: TopologyResult(kept)}
    assume(assumed, kept, workers)
    if leader is not None and of_leader is not None:
        results[leader.pod_set.name] = TopologyResult(of_leader)
        assume(assumed, of_leader, leader)
    return results


def _scale_up(
    topology: FlavorTopology,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    assumed: Assumed,
    find: Find,
) -> TopologyResults:
    previous = workers.previous
    assert previous is not None
    name = workers.pod_set.name
    assume(assumed, previous, workers)
    to_place = leader
    if leader is not None and leader.previous is not None:
        assume(assumed, leader.previous, leader)
        to_place = None
    more = replace(workers, count=workers.count - previous.pod_count(), previous=None)
    found = find(more, to_place)
    if isinstance(found, str):
        return {name: TopologyResult(None, found)}
    results: TopologyResults = {name: TopologyResult(merged(topology, found[name], previous))}
    if leader is not None:
        placed = leader.previous if leader.previous is not None else found[leader.pod_set.name]
        results[leader.pod_set.name] = TopologyResult(placed)
        if leader.previous is None:
            assume(assumed, placed, leader)
    assume(assumed, found[name], workers)
    return results


def _is_stale(topology: FlavorTopology, assignment: TopologyAssignment) -> bool:
    """Whether one of its domains is gone."""
    return any(domain_id(d.values) not in topology.leaves for d in assignment.domains)


def _first(assignment: TopologyAssignment, pods: int) -> TopologyAssignment:
    """The assignment cut to so many pods."""
    kept: list[DomainCount] = []
    for domain in assignment.domains:
        if pods <= 0:
            break
        kept.append(DomainCount(domain.values, min(domain.pods, pods)))
        pods -= domain.pods
    return TopologyAssignment(assignment.levels, tuple(kept))
