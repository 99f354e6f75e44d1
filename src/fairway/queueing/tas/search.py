"""Where do the pods of a workload go within the topology of one flavor?

Pod sets of one group are placed together, the smallest as the leader of the others. What earlier groups take
is assumed taken for the later ones.

Source: pkg/cache/scheduler/tas_flavor_snapshot.go FindTopologyAssignmentsForFlavor, findTopologyAssignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairway.kube.resources import PODS, Resources
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.podsets import TopologyRequest
from fairway.queueing.facts.topologyassignments import DomainCount, TopologyAssignment, domain_id
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.facts.workloadstate import is_owned_by_single_pod
from fairway.queueing.tas.balanced import place_balanced
from fairway.queueing.tas.capacity import Needs, Plan, fill
from fairway.queueing.tas.distribution import distribute
from fairway.queueing.tas.elastic import place_elastic
from fairway.queueing.tas.levels import LevelFit, fit_level
from fairway.queueing.tas.matching import matching_leaves, requirements_of
from fairway.queueing.tas.merging import Assumed, assume, merged
from fairway.queueing.tas.ranking import sorted_without_leader
from fairway.queueing.tas.replacement import replacement_domain, replacement_request, without_node
from fairway.queueing.tas.requests import PodSetRequest, SearchOptions, TopologyResult, TopologyResults
from fairway.queueing.tas.tree import Domain, FlavorTopology

Placement = dict[str, TopologyAssignment]


def find_for_flavor(
    topology: FlavorTopology,
    requests: Sequence[PodSetRequest],
    workload: Workload,
    options: SearchOptions,
    assumed: Assumed,
    gates: FeatureGates,
) -> TopologyResults:
    """Up to and including the first pod set without a place. `assumed` grows by what is placed."""
    results: TopologyResults = {}
    groups: dict[str, list[PodSetRequest]] = {}
    for index, request in enumerate(requests):
        groups.setdefault(request.group or str(index), []).append(request)
    for members in groups.values():
        if workload.unhealthy_nodes:
            if not _replace(topology, members, workload, assumed, gates, results):
                return results
            continue
        leader, workers = _leader_and_workers(members)
        if gates.elastic_jobs_via_workload_slices_with_tas and workers.previous is not None:
            find = partial(_find, topology, assumed=assumed, gates=gates, as_if_empty=options.simulate_empty)
            elastic = place_elastic(topology, workers, leader, assumed, find)
            if elastic is not None:
                results |= elastic
                if elastic[workers.pod_set.name].failure:
                    return results
                continue
        found = _find(topology, workers, leader, assumed, gates, as_if_empty=options.simulate_empty)
        for member in members:
            name = member.pod_set.name
            if isinstance(found, str):
                results[name] = TopologyResult(None, found)
            else:
                results[name] = TopologyResult(found.get(name))
        if isinstance(found, str):
            return results
        for member in members:
            placed = found.get(member.pod_set.name)
            if placed is not None:
                assume(assumed, placed, member)
    return results


def _leader_and_workers(members: Sequence[PodSetRequest]) -> tuple[PodSetRequest | None, PodSetRequest]:
    if len(members) == 1:
        return None, members[0]
    first, second = members[0], members[1]
    return (first, second) if second.count > first.count else (second, first)


def _replace(
    topology: FlavorTopology,
    members: Sequence[PodSetRequest],
    workload: Workload,
    assumed: Assumed,
    gates: FeatureGates,
    results: TopologyResults,
) -> bool:
    """Find other nodes for the pods on an unhealthy one. False where there are none."""
    for request in members:
        name = request.pod_set.name
        total = workload.total(name)
        if total is None or total.topology is None:
            continue
        if gates.skip_reassignment_for_pod_owned_workloads and is_owned_by_single_pod(workload.obj):
            results[name] = TopologyResult(total.topology)
            continue
        found = _replacement(topology, request, total.topology, workload, assumed, gates)
        if isinstance(found, str):
            results[name] = TopologyResult(None, found)
            return False
        merged, moved = found
        results[name] = TopologyResult(merged)
        assume(assumed, moved, request)
    return True


def _replacement(
    topology: FlavorTopology,
    request: PodSetRequest,
    existing: TopologyAssignment,
    workload: Workload,
    assumed: Assumed,
    gates: FeatureGates,
) -> tuple[TopologyAssignment, TopologyAssignment] | str:
    node = workload.unhealthy_nodes[0]
    kept, missing = without_node(existing, node)
    for domain in kept.domains:
        if domain_id(domain.values) not in topology.leaves:
            return (
                "Cannot replace the node, because the existing topologyAssignment is invalid, "
                f"as it contains the stale domain {domain.values[0]}"
            )
    request = PodSetRequest(request.pod_set, missing, request.flavor, request.is_implied, request.updates)
    within = replacement_domain(topology, request, kept)
    size, reason = _slice_size(request.pod_set.topology)
    if reason:
        return reason
    trial = request
    slices = request.pod_set.topology.slices if request.pod_set.topology is not None else ()
    if slices and within and missing % size != 0:
        trial = replacement_request(request, missing)
    found = _find(topology, trial, None, assumed, gates, within=within)
    if isinstance(found, str):
        return found
    moved = found.get(request.pod_set.name)
    if moved is None or not moved.domains:
        return f"cannot find replacement assignment for unhealthy node: {node}"
    return merged(topology, moved, kept), moved


def _find(
    topology: FlavorTopology,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    assumed: Assumed,
    gates: FeatureGates,
    *,
    as_if_empty: bool = False,
    within: str = "",
) -> Placement | str:
    """Domains for the pods of one group, or why there are none."""
    requirements = requirements_of(workers)
    if isinstance(requirements, str):
        return requirements
    plan = _plan(topology, workers, leader, gates)
    if isinstance(plan, str):
        return plan
    matching = matching_leaves(
        topology, requirements, scores_preferences=gates.tas_respect_node_affinity_preferred
    )
    needs = Needs(
        worker=_with_pod(workers.pod_set.per_pod_on_node),
        leader=None if leader is None else _with_pod(leader.pod_set.per_pod_on_node),
        assumed=assumed,
        as_if_empty=as_if_empty,
        within=within,
    )
    fill(topology, matching, needs, plan)
    balanced: LevelFit | None = None
    if gates.tas_balanced_placement and not plan.is_required and not plan.is_unconstrained:
        balanced = place_balanced(topology, plan)
    fit = balanced if balanced is not None else fit_level(topology, plan, plan.requested_level)
    if isinstance(fit, str):
        return fit
    domains = _descend(topology, plan, fit, is_balanced=balanced is not None)
    placement: Placement = {}
    if leader is not None:
        placement[leader.pod_set.name] = _built(topology, [(d, d.leaders) for d in domains if d.leaders > 0])
    placement[workers.pod_set.name] = _built(topology, [(d, d.pods) for d in domains])
    return placement


def _with_pod(per_pod: Resources) -> Resources:
    return per_pod | {PODS: per_pod.get(PODS, 0) + 1}


def _plan(
    topology: FlavorTopology, workers: PodSetRequest, leader: PodSetRequest | None, gates: FeatureGates
) -> Plan | str:
    request = workers.pod_set.topology
    size, reason = _slice_size(request)
    if reason:
        return reason
    key = topology.level_key(request) or (topology.levels[-1] if workers.is_implied else "")
    if not key:
        return "topology level not specified"
    level = topology.level_index(key)
    if level < 0:
        return f"no requested topology level: {key}"
    slice_key = topology.slice_level_key(request)
    slice_level = topology.level_index(slice_key)
    if slice_level < 0:
        return f"no requested topology level for slices: {slice_key}"
    if level > slice_level:
        return f"podset slice topology {slice_key} is above the podset topology {key}"
    inner = _inner_sizes(topology, request, size, slice_level)
    if isinstance(inner, str):
        return inner
    is_unconstrained = workers.is_implied or (
        request is not None
        and (
            request.unconstrained or (not request.required and not request.preferred and bool(request.slices))
        )
    )
    return Plan(
        count=workers.count,
        slice_size=size,
        leaders=0 if leader is None else 1,
        requested_level=level,
        slice_level=slice_level,
        is_required=request is not None and bool(request.required),
        is_unconstrained=is_unconstrained,
        inner_sizes=inner,
        layers=request.slices if request is not None and inner else (),
        uses_least_free=is_unconstrained and gates.tas_profile_mixed,
        respects_preferences=gates.tas_respect_node_affinity_preferred,
    )


def _slice_size(request: TopologyRequest | None) -> tuple[int, str]:
    if request is None or not request.slices:
        return 1, ""
    if request.slices[0].size <= 0:
        return 0, "slice topology requested, but slice size not provided"
    return request.slices[0].size, ""


def _inner_sizes(
    topology: FlavorTopology, request: TopologyRequest | None, size: int, level: int
) -> dict[int, int] | str:
    """Per level below the outer slices, the size of the slices that stay together there."""
    sizes: dict[int, int] = {}
    for layer in request.slices[1:] if request is not None else ():
        at = topology.level_index(layer.topology)
        if at < 0:
            return f"no requested topology level for additional slice layer: {layer.topology}"
        if at <= level:
            return (
                f"additional slice layer topology {layer.topology} must be at a lower level than "
                f"{topology.levels[level]}"
            )
        if size % layer.size != 0:
            return f"additional slice layer size {layer.size} must evenly divide parent layer size {size}"
        for between in range(level + 1, at + 1):
            sizes[between] = layer.size
        size, level = layer.size, at
    return sizes


def _descend(topology: FlavorTopology, plan: Plan, fit: LevelFit, *, is_balanced: bool) -> list[Domain]:
    """From the level that fits down to leaves: first over all domains at once, below slices each for itself."""
    last = len(topology.levels) - 1
    level = fit.level
    domains = distribute(
        fit.domains,
        plan,
        pods=plan.count,
        leaders=plan.leaders,
        slice_size=plan.slice_size,
        by_slices=True,
    )
    while level < min(last, plan.slice_level) and not is_balanced:
        lower = sorted_without_leader([c for d in domains for c in d.children], plan)
        domains = distribute(
            lower,
            plan,
            pods=plan.count,
            leaders=plan.leaders,
            slice_size=plan.slice_size,
            by_slices=True,
        )
        level += 1
    while level < last:
        size = plan.slice_size if level < plan.slice_level else plan.inner_sizes.get(level + 1, 1)
        below: list[Domain] = []
        for domain in domains:
            lower = sorted_without_leader(domain.children, plan)
            if size > 1:
                for child in lower:
                    child.slices = child.pods // size
                    child.slices_with_leader = child.pods_with_leader // size
            below.extend(
                distribute(
                    lower,
                    plan,
                    pods=domain.pods,
                    leaders=domain.leaders,
                    slice_size=size,
                    by_slices=size > 1,
                )
            )
        domains = below
        level += 1
    return domains


def _built(topology: FlavorTopology, counts: Sequence[tuple[Domain, int]]) -> TopologyAssignment:
    at = len(topology.levels) - 1 if topology.is_lowest_level_node else 0
    ordered = sorted(counts, key=lambda item: item[0].values)
    return TopologyAssignment(
        topology.levels[at:],
        tuple(DomainCount(domain.values[at:], pods) for domain, pods in ordered if pods > 0),
    )
