"""Where do these pods go: onto nodes that are there, onto nodes already being asked for, or onto which new ones?

First fit, the largest first. Each pod tries the nodes that are there (initialized ones first, by name), then the
claims of this batch (those with the fewest pods first), then a new claim of the heaviest NodePool that can hold it.
A pod that fits nowhere gives up one wish after another; if that does not help it waits for the others and tries
again with all its wishes, until a whole round brings nothing.

Pods of one shape share what is known: which nodes and claims can never hold them is found out once. Claims that ask
the same of a node's labels form a class, and whether a pod's spreads and affinities let it go there is asked per
class, not per claim (`claimline`). So the work grows with pods plus shapes x claims instead of pods x claims x types.

Source: pkg/controllers/provisioning/scheduling/scheduler.go, queue.go.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairway.kube.resources import CPU, MEMORY, Resources
from fairway.provisioning.karpenter.claimline import ClaimLine, Tried
from fairway.provisioning.karpenter.claims import Claim, Filtered, Template, filter_types, template_of
from fairway.provisioning.karpenter.existing import ExistingNode
from fairway.provisioning.karpenter.labels import HOSTNAME, WELL_KNOWN
from fairway.provisioning.karpenter.nodepools import by_weight
from fairway.provisioning.karpenter.nodes import NODES
from fairway.provisioning.karpenter.planned import MAX_INSTANCE_TYPES, PlannedClaim, planned
from fairway.provisioning.karpenter.podfacts import PodFacts, Shape, Shapes, untolerated
from fairway.provisioning.karpenter.relaxing import relaxed
from fairway.provisioning.karpenter.requirement import Requirement
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.provisioning.karpenter.topology import Topology
from fairway.provisioning.karpenter.topologygroups import AFFINITY
from fairway.provisioning.karpenter.why import TypeRefusal, wrapped
from fairway.provisioning.karpenter.world import World

_MIN_VALUES_LOST: Final = "pod didn’t schedule because NodePool couldn’t meet minValues requirements"
Domains = tuple[tuple[str, frozenset[str]], ...]
_NO_ALTERNATIVE: Final[tuple[Requirements | None, ...]] = (None,)


@dataclass(frozen=True, slots=True)
class Options:
    """Karpenter's settings: `preference_policy` Respect or Ignore, `min_values_policy` Strict or BestEffort."""

    preference_policy: str = "Respect"
    min_values_policy: str = "Strict"
    is_consolidation: bool = False
    max_instance_types: int = MAX_INSTANCE_TYPES

    @property
    def respects_preferences(self) -> bool:
        return self.preference_policy != "Ignore"

    @property
    def best_effort(self) -> bool:
        return self.min_values_policy == "BestEffort"


@dataclass(frozen=True, slots=True)
class PodRefusal:
    """Why a pod fits nowhere: per NodePool, the heaviest first."""

    reasons: tuple[str | TypeRefusal, ...]

    def __str__(self) -> str:
        return "; ".join(str(r) for r in self.reasons)


# Unlike kube: always; upstream has the beginnings of an allocator behind --ignore-dra-requests=false.
_CLAIMS: Final = PodRefusal(
    ("pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter",)
)


@dataclass(frozen=True, slots=True)
class Results:
    """What a batch comes to. `pods_on`: existing nodes that were given pods; `is_in_vain`: no pod found a place, not
    even on a claim that came to nothing.
    """

    claims: tuple[PlannedClaim, ...]
    pods_on: tuple[tuple[StateNode, tuple[PodFacts, ...]], ...]
    refused: tuple[tuple[PodFacts, PodRefusal], ...]
    unusable_pools: tuple[tuple[str, TypeRefusal], ...] = ()
    is_in_vain: bool = False


@dataclass(slots=True)
class _Waiting:
    """What a shape has still to try: nodes by index, and what it knows of the claims."""

    nodes: list[int]
    claims: Tried = field(default_factory=Tried)
    refused_at: int = -1
    refusal: PodRefusal | None = None


class Solver:
    """One simulation. Make one per batch: it changes while it solves."""

    def __init__(
        self,
        world: World,
        shapes: Shapes,
        options: Options | None = None,
        moving: Iterable[str] = (),
    ) -> None:
        self.options = options or Options()
        self._shapes = shapes
        self._pools = by_weight([p for p in world.pools if not p.is_static and p.is_ready])
        self._tolerates = any(p.has_preferred_taint for p in self._pools)
        self._templates: list[Template] = []
        self._daemons = world.daemons
        self.unusable: list[tuple[str, TypeRefusal]] = []
        for pool in self._pools:
            self._open(pool.name, world, pool)
        self._limits = self._remaining_limits(world)
        self.topology = Topology(world, moving, respects_preferences=self.options.respects_preferences)
        self._world = world
        self._existing: list[ExistingNode] = []
        self._line = ClaimLine()
        self._waiting: dict[Shape, _Waiting] = {}
        self._merged: dict[tuple[int, int], Requirements | None] = {}
        self._restricted: dict[tuple[int, Domains], Requirements | None] = {}
        self._kept: dict[Requirements, Requirements] = {}
        self._largest: dict[tuple[int, int], Resources] = {}
        self._relaxed: dict[str, bool] = {}
        """Whether the last claim of a NodePool had to relax `minValues`."""
        self._version = 0
        """How often a pod was placed."""

    def _open(self, name: str, world: World, pool: object) -> None:
        fleet = world.fleets.get(name)
        if fleet is None or not fleet.types:
            return
        best_effort = self.options.best_effort
        found, self._daemons = template_of(pool, fleet, self._daemons, best_effort=best_effort)  # type: ignore[arg-type]
        if isinstance(found, Template):
            self._templates.append(found)
        else:
            self.unusable.append((name, found))

    def _remaining_limits(self, world: World) -> dict[str, Resources]:
        limits = {p.name: dict(p.limits) for p in self._pools if p.limits is not None}
        for pool, left in limits.items():
            used = world.used(pool)
            for name in left:
                left[name] -= used.get(name, 0)
        return limits

    # The queue

    def solve(self, pods: Sequence[PodFacts]) -> Results:
        """Place them all, or say why not."""
        for pod in pods:
            self.topology.follow(pod.shape)
        self.topology.begin()
        self._look_at_nodes({id(pod.shape): pod.shape for pod in pods}.values())
        queue = deque(sorted(pods, key=largest_first))
        last_length: dict[str, int] = {}
        refused: dict[str, tuple[PodFacts, PodRefusal]] = {}
        while queue and last_length.get(queue[0].uid) != len(queue):
            pod = queue.popleft()
            refusal = self._schedule(pod)
            if refusal is None:
                refused.pop(pod.uid, None)
                continue
            refused[pod.uid] = (pod, refusal)
            queue.append(pod)
            last_length[pod.uid] = len(queue)
        return self._results(refused.values())

    def _look_at_nodes(self, shapes: Iterable[Shape]) -> None:
        """The nodes with room for any of these; of a large fleet most are full."""
        sizes = list({tuple(sorted(s.requests.items())): s.requests for s in shapes}.values())
        gone = self._world.gone
        nodes = [n for n in self._world.nodes.with_room(sizes) if n.name not in gone]
        nodes.sort(key=lambda n: (not n.is_initialized, n.name))
        self._existing = [ExistingNode(n, self._daemons) for n in nodes]

    def _results(self, refused: Iterable[tuple[PodFacts, PodRefusal]]) -> Results:
        out, claims = list(refused), []
        for claim in self._line.claims:
            # Upstream the claims of a NodePool share one map of annotations: the last one opened speaks for all.
            claim.min_values_relaxed = self._relaxed[claim.template.pool.name]
            plan = planned(claim)
            short = plan.truncated(self.options.max_instance_types, best_effort=self.options.best_effort)
            if isinstance(short, PlannedClaim):
                claims.append(short)
            else:
                why = wrapped(f"{_MIN_VALUES_LOST}, {short}", NodePool=plan.pool.name)
                out += [(pod, PodRefusal((why,))) for pod in plan.pods]
        return Results(
            claims=tuple(claims),
            pods_on=tuple((e.node, tuple(e.pods)) for e in self._existing if e.pods),
            refused=tuple(out),
            unusable_pools=tuple(self.unusable),
            is_in_vain=self._version == 0,
        )

    def _schedule(self, pod: PodFacts) -> PodRefusal | None:
        """Place a pod, with fewer wishes if it must be; the refusal is that of its last attempt."""
        shape: Shape = pod.shape
        if shape.claims_devices:
            return _CLAIMS
        while True:
            refusal = self._add(pod, shape)
            if refusal is None:
                return None
            fewer = relaxed(shape.spec, tolerates_preferred_taints=self._tolerates)
            if fewer is None:
                return refusal
            shape = self._shapes.with_spec(shape, fewer)

    def _add(self, pod: PodFacts, shape: Shape) -> PodRefusal | None:
        waiting = self._waiting.get(shape)
        if waiting is None:
            waiting = self._waiting[shape] = _Waiting(list(range(len(self._existing))))
        if waiting.refused_at == self._version and waiting.refusal is not None:
            return waiting.refusal
        if self._to_existing(pod, shape, waiting) or self._to_claim(pod, shape, waiting):
            self._version += 1
            return None
        refusal = self._to_new_claim(pod, shape)
        if refusal is None:
            self._version += 1
            return None
        waiting.refused_at, waiting.refusal = self._version, refusal
        return refusal

    # Nodes that are there

    def _to_existing(self, pod: PodFacts, shape: Shape, waiting: _Waiting) -> bool:
        kept = []
        for at, index in enumerate(waiting.nodes):
            node = self._existing[index]
            if node.never_holds(shape):
                continue
            kept.append(index)
            if self._is_waiting_to_close(node.node, pod):
                continue
            labels = self._labels_on(node, shape)
            if labels is not None:
                node.add(replace_shape(pod, shape))
                waiting.nodes = [*kept, *waiting.nodes[at + 1 :]]
                if labels is not node.host_labels:
                    node.narrow(labels)
                    self._open_to_all(index)
                self.topology.record(shape, node.node.taints, node.labels, node.node.hostname)
                return True
        waiting.nodes = kept
        return False

    def _open_to_all(self, index: int) -> None:
        """A node says something of another label now: kinds of pods that it could not hold may be let in."""
        for waiting in self._waiting.values():
            if index not in waiting.nodes:
                insort(waiting.nodes, index)

    def _is_waiting_to_close(self, node: StateNode, pod: PodFacts) -> bool:
        """A pod that could stay is not moved to a node whose consolidateAfter still runs."""
        rests = self.options.is_consolidation and node.rests_until_us > self._world.now_us
        return rests and not pod.is_pending

    def _labels_on(self, node: ExistingNode, shape: Shape) -> Requirements | None:
        """What the node's labels are with the pod on it; None where it may not go there.

        What pods ask of labels that the node lacks (to be another, or absent) holds for it from then on, as upstream
        narrows the node's requirements: who asks for that label later finds it known.
        """
        base = _with_unknown(node.host_labels, shape.requirements)
        for alternative in shape.volumes or _NO_ALTERNATIVE:
            labels = base
            if alternative is not None:
                if not base.is_compatible(alternative):
                    continue
                labels = _with_unknown(base, alternative)
            bearing = self.topology.bearing(shape)
            groups = [*bearing.by_host, *bearing.by_label]
            asked = self.topology.restrict(shape, groups, labels, shape.strict)
            if isinstance(asked, str):
                continue
            within = _within(labels, asked)
            if labels.is_compatible(within):
                return labels if labels is node.host_labels else labels.plus(within)
        return None

    # Claims of this batch

    def _to_claim(self, pod: PodFacts, shape: Shape, waiting: _Waiting) -> bool:
        tried = waiting.claims
        self._line.settle()
        narrowed = self._open_classes(shape, tried)
        walk = self._line.walk(narrowed, tried)
        placed = False
        for index in walk:
            claim = self._line.claims[index]
            fate = self._try(pod, shape, claim, index, narrowed[claim.requirements])
            placed = fate is _PLACED
            if placed:
                break
            if fate is _NEVER:
                tried.never.add(index)
        walk.close()  # type: ignore[attr-defined]
        return placed

    def _open_classes(self, shape: Shape, tried: Tried) -> dict[Requirements, list[Requirements]]:
        """Classes of claims whose labels let the pod in, and what they would ask with it."""
        found = {}
        for labels in self._line.classes():
            if labels in tried.closed:
                continue
            if not shape.volumes and self._merge(labels, self._keep(shape.requirements)) is None:
                tried.closed.add(labels)  # for good: claims only narrow
                continue
            narrowed = self._narrowed(labels, shape)
            if narrowed:
                found[labels] = narrowed
        return found

    def _try(
        self, pod: PodFacts, shape: Shape, claim: Claim, index: int, narrowed: list[Requirements]
    ) -> object:
        if not claim.allows_host(shape) or not claim.allows_ports(shape):
            return _NEVER
        if (
            claim.template.pool.taints
            and untolerated(claim.template.pool.taints, shape.tolerations) is not None
        ):
            return _NEVER
        fate = self._host_fate(shape, claim)
        if fate is not None:
            return fate
        for labels in narrowed:
            found = self._types_for(claim, shape, labels, best_effort=False)
            if isinstance(found, Filtered):
                self._put(replace_shape(pod, shape), claim, index, labels, found)
                return _PLACED
        # Without spreads over labels the same types are asked for every time, and there will be fewer.
        may_change = self.topology.bearing(shape).by_label or shape.volumes
        return _NOT_NOW if may_change and claim.fits(shape) else _NEVER

    def _host_fate(self, shape: Shape, claim: Claim) -> object | None:
        """Spreads and affinities over hosts. A host only fills up, but an affinity may yet find its pod there."""
        for group, selects_itself in self.topology.bearing(shape).by_host:
            if not group.has_room(selects_itself, shape.strict.get(HOSTNAME), claim.hostname):
                return _NOT_NOW if group.key.type == AFFINITY else _NEVER
        return None

    def _types_for(
        self, claim: Claim, shape: Shape, labels: Requirements, *, best_effort: bool
    ) -> Filtered | TypeRefusal:
        total = dict(claim.requests)
        for name, amount in shape.requests.items():
            total[name] = total.get(name, 0) + amount
        return filter_types(
            claim.template,
            claim.mask,
            labels,
            total,
            shape.requests,
            shape.ports,
            taken=claim.ports,
            best_effort=best_effort,
        )

    def _put(self, pod: PodFacts, claim: Claim, index: int, labels: Requirements, found: Filtered) -> None:
        """Onto a claim; a new one (index below 0) joins the line."""
        shape, was = pod.shape, claim.requirements
        claim.pods.append(pod)
        claim.mask = found.mask
        claim.ports = (*claim.ports, *shape.ports)
        for name, amount in shape.requests.items():
            claim.requests[name] = claim.requests.get(name, 0) + amount
        if found.relaxed:
            claim.min_values_relaxed = True
            labels = _with_min_values(labels, found.relaxed)
        claim.requirements = self._keep(labels)
        self.topology.opened(claim.hostname)
        if index < 0:
            self._relaxed[claim.template.pool.name] = claim.min_values_relaxed
            self._line.append(claim)
        else:
            self._line.moved(index, was)
        self.topology.record(shape, claim.template.pool.taints, claim.requirements, claim.hostname)

    # New claims

    def _to_new_claim(self, pod: PodFacts, shape: Shape) -> PodRefusal | None:
        if not self._templates:
            return PodRefusal(("nodepool requirements filtered out all available instance types",))
        reasons: list[str | TypeRefusal] = []
        for template in self._templates:
            refusal = self._open_claim(pod, shape, template)
            if refusal is None:
                return None
            reasons.append(refusal)
        return PodRefusal(tuple(reasons))

    def _open_claim(self, pod: PodFacts, shape: Shape, template: Template) -> str | TypeRefusal | None:
        name = template.pool.name
        mask = template.mask
        left = self._limits.get(name)
        if left is not None:
            if left.get(NODES) == 0:
                return wrapped("node limits have been exhausted for nodepool", NodePool=name)
            mask &= template.fleet.within(left)
            if not mask:
                return wrapped("all available instance types exceed limits for nodepool", NodePool=name)
        hostname = f"hostname-placeholder-{len(self._line.claims) + 1:04d}"
        claim = Claim(template, hostname, self._keep(template.requirements), mask, (0, 0))
        found = self._judge_new(claim, shape)
        if not isinstance(found, tuple):
            return found
        labels, filtered = found
        self._put(replace_shape(pod, shape), claim, -1, labels, filtered)
        if left is not None:
            self._take_limits(left, template, claim.mask)
        return None

    def _judge_new(self, claim: Claim, shape: Shape) -> tuple[Requirements, Filtered] | str | TypeRefusal:
        taint = untolerated(claim.template.pool.taints, shape.tolerations)
        if taint is not None:
            return taint
        base = self._keep(claim.host_labels(claim.requirements))
        asked = shape.requirements if shape.host is None else shape.requirements.plus((shape.host,))
        why = base.incompatible(asked, WELL_KNOWN)
        if why is not None:
            return f"incompatible requirements, {why}"
        refusal: str | TypeRefusal = ""
        for alternative in shape.volumes or _NO_ALTERNATIVE:
            found = self._judge_alternative(claim, shape, base.plus(asked), alternative)
            if isinstance(found, tuple):
                return found
            refusal = found
        return refusal

    def _judge_alternative(
        self, claim: Claim, shape: Shape, labels: Requirements, alternative: Requirements | None
    ) -> tuple[Requirements, Filtered] | str | TypeRefusal:
        if alternative is not None:
            why = labels.incompatible(alternative, WELL_KNOWN)
            if why is not None:
                return f"incompatible volume requirements, {why}"
            labels = labels.plus(alternative)
        bearing = self.topology.bearing(shape)
        groups = [*bearing.by_host, *bearing.by_label]
        asked = self.topology.restrict(shape, groups, labels, shape.strict)
        if isinstance(asked, str):
            return asked
        why = labels.incompatible(_within(labels, asked), WELL_KNOWN)
        if why is not None:
            return why
        labels = self._keep(labels.plus(asked).without(HOSTNAME))
        found = self._types_for(claim, shape, labels, best_effort=self.options.best_effort)
        return (labels, found) if isinstance(found, Filtered) else found

    def _take_limits(self, left: Resources, template: Template, mask: int) -> None:
        """As if the largest of its types were launched, so limits hold whichever is. Source: subtractMax."""
        key = (id(template.fleet), mask)
        largest = self._largest.get(key)
        if largest is None:
            largest = self._largest[key] = template.fleet.largest(mask)
        for name in left:
            left[name] -= largest.get(name, 0)

    # Requirements, remembered

    def _keep(self, labels: Requirements) -> Requirements:
        return self._kept.setdefault(labels, labels)

    def _merge(self, labels: Requirements, asked: Requirements) -> Requirements | None:
        """Both wishes where they go together. Both are kept, so their identity stands for them."""
        key = (id(labels), id(asked))
        if key not in self._merged:
            fits = labels.is_compatible(asked, WELL_KNOWN)
            self._merged[key] = self._keep(labels.plus(asked)) if fits else None
        return self._merged[key]

    def _among(self, labels: Requirements, domains: list[Requirement]) -> Requirements | None:
        """Within the domains that spreads and affinities leave."""
        key = (id(labels), tuple([(d.key, d.values) for d in domains]))
        if key not in self._restricted:
            asked = _within(labels, domains)
            fits = labels.is_compatible(asked, WELL_KNOWN)
            self._restricted[key] = self._keep(labels.plus(asked)) if fits else None
        return self._restricted[key]

    def _narrowed(self, labels: Requirements, shape: Shape) -> list[Requirements]:
        """What a claim with these labels would ask with the pod on it, in the order to be tried: one wish, or one per
        alternative of its volumes; none where the pod may not go there now.
        """
        merged = self._merge(labels, self._keep(shape.requirements))
        if merged is None:
            return []
        found = []
        for alternative in shape.volumes or _NO_ALTERNATIVE:
            base = merged if alternative is None else self._merge(merged, self._keep(alternative))
            if base is None:
                continue
            groups = self.topology.bearing(shape).by_label
            asked = self.topology.restrict(shape, groups, base, shape.strict) if groups else []
            if isinstance(asked, str):
                continue
            within = self._among(base, asked) if groups else base
            if within is not None:
                found.append(within)
        return found


_PLACED: Final = object()
_NOT_NOW: Final = object()
_NEVER: Final = object()


def replace_shape(pod: PodFacts, shape: Shape) -> PodFacts:
    """The pod as it was placed: with the wishes it had left."""
    return pod if pod.shape is shape else pod._replace(shape=shape)


def largest_first(pod: PodFacts) -> tuple[int, int, str, str]:
    """The order in which pods are tried."""
    requests = pod.shape.requests
    return (-requests.get(CPU, 0), -requests.get(MEMORY, 0), pod.created, pod.uid)


def _with_unknown(labels: Requirements, asked: Requirements) -> Requirements:
    """With what is asked of labels that a node lacks, or that only pods on it said something of; the others have one
    value, which suits. The same object where there are none.
    """
    for wanted in asked:
        have = labels.find(wanted.key)
        if have is None or have.complement or not have.values:
            return labels.plus(asked)
    return labels


def _within(labels: Requirements, domains: list[Requirement]) -> Requirements:
    """The domains, as far as the labels have them. Where none is left that is `DoesNotExist`, which goes with labels
    that only exclude values. Source: Topology.AddRequirements, which starts from the node's requirements.
    """
    have = [found for d in domains if (found := labels.find(d.key)) is not None]
    return Requirements([*have, *domains])


def _with_min_values(labels: Requirements, least: dict[str, int]) -> Requirements:
    for key, count in least.items():
        labels = labels.replacing(labels.get(key).with_min_values(count))
    return labels
