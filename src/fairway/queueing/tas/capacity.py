"""How many pods, slices and leaders fit into every domain?

Source: pkg/cache/scheduler/tas_flavor_snapshot.go fillInCounts, fillLeafCounts, fillInCountsHelper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway.kube.resources import Resources
from fairway.queueing.facts.podsets import SliceConstraint
from fairway.queueing.tas.matching import Matching
from fairway.queueing.tas.requests import Exclusions
from fairway.queueing.tas.tree import MANY_PODS, Domain, FlavorTopology, Leaf


@dataclass(slots=True)
class Plan:
    """What one search is after. Levels are indexes, 0 the widest.

    `inner_sizes`: level → size of the slices that must stay together there (inner layers of constraints).
    """

    count: int
    slice_size: int
    leaders: int
    requested_level: int
    slice_level: int
    is_required: bool
    is_unconstrained: bool
    inner_sizes: Mapping[int, int]
    layers: tuple[SliceConstraint, ...]
    uses_least_free: bool
    respects_preferences: bool
    exclusions: Exclusions = field(default_factory=Exclusions)

    @property
    def slices(self) -> int:
        return self.count // self.slice_size


@dataclass(frozen=True, slots=True)
class Needs:
    """Requests per pod with the pod itself counted; `leader` None: there is none.

    `assumed`: domain → what earlier pod sets of the workload take. `within`: only below this domain.
    """

    worker: Resources
    leader: Resources | None
    assumed: Mapping[str, Resources]
    as_if_empty: bool
    within: str


def fill(topology: FlavorTopology, matching: Matching, needs: Needs, plan: Plan) -> None:
    """Set the counts of every domain. O(leaves × resources)."""
    for level in topology.per_level:
        for domain in level.values():
            domain.clear()
    plan.exclusions = _copy(matching.exclusions)
    for leaf, score in matching.leaves:
        leaf.affinity += score
        _fill_leaf(leaf, needs, plan.exclusions)
    for root in topology.roots:
        fill_up(root, plan, 0, plan.inner_sizes)


def _fill_leaf(leaf: Leaf, needs: Needs, exclusions: Exclusions) -> None:
    within = needs.within
    if within:
        path = ",".join(leaf.values)
        if path != within and not path.startswith(within + ","):
            exclusions.topology_domain += 1
            return
    assumed = needs.assumed.get(leaf.id)
    used = None if needs.as_if_empty else leaf.used
    leaf.pods, limiting = _room(needs.worker, leaf.capacity, used, assumed, None)
    if leaf.pods == 0 and limiting:
        exclusions.resources[limiting] = exclusions.resources.get(limiting, 0) + 1
    if needs.leader is not None and _room(needs.leader, leaf.capacity, used, assumed, None)[0] > 0:
        leaf.leaders = 1
        leaf.pods_with_leader = _room(needs.worker, leaf.capacity, used, assumed, needs.leader)[0]
    else:
        leaf.leaders = 0
        leaf.pods_with_leader = leaf.pods


def _room(
    per_pod: Resources,
    capacity: Resources,
    used: Resources | None,
    assumed: Resources | None,
    leader: Resources | None,
) -> tuple[int, str]:
    """How many pods fit beside all that, and the resource that limits them. The pod itself counts in `per_pod`."""
    fewest, limiting = MANY_PODS + 1, ""
    for name, value in per_pod.items():
        if value == 0:
            pods = MANY_PODS
        else:
            free = capacity.get(name, 0)
            if used:
                free -= used.get(name, 0)
            if assumed:
                free -= assumed.get(name, 0)
            if leader:
                free -= leader.get(name, 0)
            pods = min(free // value, MANY_PODS) if free > 0 else 0
        if pods < fewest or (pods == fewest and name < limiting):
            fewest, limiting = pods, name
    return fewest, limiting


def fill_up(domain: Domain, plan: Plan, level: int, inner_sizes: Mapping[int, int]) -> None:
    """The counts of a domain from those of its children."""
    if not domain.children:
        if level == plan.slice_level:
            domain.slices = domain.pods // plan.slice_size
            domain.slices_with_leader = domain.pods_with_leader // plan.slice_size
        return
    pods = slices = leaders = affinity = 0
    least_pods_lost = least_slices_lost = MANY_PODS
    may_take_leader = False
    inner = inner_sizes.get(level + 1, 1)
    for child in domain.children:
        fill_up(child, plan, level + 1, inner_sizes)
        of_child = child.pods // inner * inner
        with_leader = child.pods_with_leader // inner * inner
        pods += of_child
        slices += child.slices
        if plan.leaders == 0 or child.leaders > 0:
            may_take_leader = True
            least_pods_lost = min(of_child - with_leader, least_pods_lost)
            least_slices_lost = min(child.slices - child.slices_with_leader, least_slices_lost)
        leaders = max(child.leaders, leaders)
        affinity += child.affinity
    domain.pods = pods
    domain.pods_with_leader = pods - least_pods_lost if may_take_leader else 0
    domain.leaders = leaders
    domain.affinity = affinity
    if level == plan.slice_level:
        domain.slices = domain.pods // plan.slice_size
        domain.slices_with_leader = domain.pods_with_leader // plan.slice_size
    else:
        domain.slices = slices
        domain.slices_with_leader = slices - least_slices_lost if may_take_leader else 0


def _copy(exclusions: Exclusions) -> Exclusions:
    return Exclusions(
        exclusions.total_nodes,
        exclusions.node_selector,
        exclusions.affinity,
        exclusions.topology_domain,
        dict(exclusions.taints),
        dict(exclusions.resources),
    )
