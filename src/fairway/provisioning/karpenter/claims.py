"""A node that is about to be asked for: what it must still satisfy, and which types could.

A `Template` is what a NodePool allows; a `Claim` starts as one and narrows with every pod it takes. Pods only ever
narrow it, so a pod that a claim cannot hold for its size or its requirements it can never hold.

Source: pkg/controllers/provisioning/scheduling/nodeclaim.go, nodeclaimtemplate.go, scheduler.go (daemon groups).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj, spec_of
from fairway.kube.resources import Resources, add_into
from fairway.kube.taints import parse_tolerations
from fairway.provisioning.karpenter.fleet import Fleet, unsatisfied_min_values
from fairway.provisioning.karpenter.labels import HOSTNAME, INITIALIZED, REGISTERED, WELL_KNOWN
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.podfacts import (
    HostPort,
    PodFacts,
    Shape,
    host_ports,
    port_conflict,
    requests_of,
    untolerated,
)
from fairway.provisioning.karpenter.relaxing import tolerating_preferred_taints, without_required_term
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements, affinity_requirements
from fairway.provisioning.karpenter.why import TypeRefusal

# Labels a claim's node will have once it is up, so that DaemonSets which wait for them are counted.
SIMULATED: Final = (REGISTERED, INITIALIZED)


class DaemonGroup(NamedTuple):
    """Types on which the same DaemonSets would run, what those ask together, and their host ports."""

    mask: int
    overhead: Resources
    ports: tuple[HostPort, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """What a NodePool allows: its requirements and the types that suit them."""

    pool: NodePool
    fleet: Fleet
    requirements: Requirements
    mask: int
    groups: tuple[DaemonGroup, ...]


def template_of(
    pool: NodePool, fleet: Fleet, daemons: tuple[Obj, ...], *, best_effort: bool
) -> tuple[Template | TypeRefusal, tuple[Obj, ...]]:
    """The template, or why no type suits the NodePool; and the DaemonSets as the next who asks finds them.

    The fleet keeps it: every batch and simulation asks.
    """
    asked = (id(pool), id(daemons), best_effort)
    found = fleet.templates.get(asked)
    if found is None or found[0] is not pool or found[1] is not daemons:
        found = fleet.templates[asked] = (pool, daemons, _template(pool, fleet, daemons, best_effort))
    made: tuple[Template | TypeRefusal, tuple[Obj, ...]] = found[2]
    return made


def _template(
    pool: NodePool, fleet: Fleet, daemons: tuple[Obj, ...], best_effort: bool
) -> tuple[Template | TypeRefusal, tuple[Obj, ...]]:
    simulated = [one_of(label, ("true",)) for label in SIMULATED]
    wanted = pool.requirements.plus(simulated)
    bare = Template(pool, fleet, wanted, fleet.all, (DaemonGroup(fleet.all, {}, ()),))
    found = filter_types(bare, bare.mask, wanted, {}, {}, (), best_effort=best_effort)
    if isinstance(found, TypeRefusal):
        return found, daemons
    running = [_types_of_daemon(bare, found.mask, d) for d in daemons]
    groups = _daemon_groups(fleet, found.mask, daemons, [mask for mask, _ in running])
    return Template(pool, fleet, wanted, found.mask, groups), _as_left(daemons, [d for _, d in running])


def _as_left(daemons: tuple[Obj, ...], left: list[Obj]) -> tuple[Obj, ...]:
    """The same tuple where nothing is another: what is kept goes by its identity."""
    return daemons if all(a is b for a, b in zip(daemons, left, strict=True)) else tuple(left)


def _daemon_groups(
    fleet: Fleet, mask: int, daemons: tuple[Obj, ...], masks: list[int]
) -> tuple[DaemonGroup, ...]:
    by_set: dict[tuple[int, ...], int] = {}
    for i in fleet.indexes(mask):
        running = tuple(d for d, there in enumerate(masks) if there >> i & 1)
        by_set[running] = by_set.get(running, 0) | 1 << i
    groups = []
    for running, types in by_set.items():
        overhead: Resources = {}
        for d in running:
            add_into(overhead, requests_of(daemons[d].get("spec") or {}))
        ports = tuple(p for d in running for p in host_ports(daemons[d].get("spec") or {}))
        groups.append(DaemonGroup(types, overhead, ports))
    return tuple(groups)


def _types_of_daemon(template: Template, mask: int, daemon: Obj) -> tuple[int, Obj]:
    """The types on which a DaemonSet's pod would run, and the DaemonSet as it is from then on.

    The types are asked in their order. An alternative of its affinity that does not do for one of them is dropped for
    good, for the types after it, the NodePools after it and the nodes that are there; and from then on it tolerates
    `PreferNoSchedule`. Upstream changes the one pod it made of the DaemonSet. Source: isDaemonPodCompatible.
    """
    spec: Mapping[str, Any] = spec_of(daemon)
    spec = tolerating_preferred_taints(spec) or spec
    found = 0
    if untolerated(template.pool.taints, parse_tolerations(spec.get("tolerations"))) is None:
        suited = _suiting_daemon(template, spec)
        for i in template.fleet.indexes(mask):
            while not suited >> i & 1 and (fewer := without_required_term(spec)) is not None:
                spec = fewer
                suited = _suiting_daemon(template, spec)
            found |= suited & 1 << i
    return found, daemon if spec is daemon.get("spec") else {**daemon, "spec": spec}


def _suiting_daemon(template: Template, spec: Mapping[str, Any]) -> int:
    """The types that do for the first alternative."""
    wanted = affinity_requirements(spec, with_preferred=False)
    return template.fleet.compatible(wanted) if template.requirements.is_compatible(wanted, WELL_KNOWN) else 0


class Filtered(NamedTuple):
    """Types that remain, and `minValues` that had to give way (best effort)."""

    mask: int
    relaxed: dict[str, int]


def filter_types(
    template: Template,
    mask: int,
    wanted: Requirements,
    total: Resources,
    requests: Resources,
    ports: tuple[HostPort, ...],
    *,
    taken: tuple[HostPort, ...] = (),
    best_effort: bool = False,
) -> Filtered | TypeRefusal:
    """Which of these types suit requirements, resources with the daemons' overhead, and offerings.

    Source: filterInstanceTypesByRequirements. A type `fits` only where it is also offered, as upstream has it.
    """
    fleet = template.fleet
    suited, offered = fleet.compatible(wanted), fleet.offered(wanted)
    remaining = any_fits = eligible = 0
    open_groups = []
    for group in template.groups:
        if ports and port_conflict(ports, (*group.ports, *taken)):
            continue
        open_groups.append(group)
        types = group.mask & mask
        if not types:
            continue
        fits = types & offered & fleet.fitting(_sum(total, group.overhead) if group.overhead else total)
        eligible |= types
        any_fits |= fits
        remaining |= fits & suited
    short = ""
    relaxed: dict[str, int] = {}
    if wanted.has_min_values:
        _, relaxed = unsatisfied_min_values(fleet.of(remaining), wanted)
        if relaxed and not best_effort:
            short = f"minValues requirement is not met for label(s) (label(s)=[{' '.join(sorted(relaxed))}])"
            remaining = 0
    if remaining:
        return Filtered(remaining, relaxed)
    return TypeRefusal(
        requirements=wanted,
        requests=requests,
        overheads=tuple(g.overhead for g in open_groups),
        met=bool(suited & eligible),
        fits=bool(any_fits),
        offered=bool(offered & eligible),
        min_values=short,
    )


def _sum(a: Resources, b: Resources) -> Resources:
    total = dict(a)
    add_into(total, b)
    return total


@dataclass(slots=True, eq=False)
class Claim:
    """A node being packed. `requirements` leave the hostname out; `rank` orders claims, the emptiest first."""

    template: Template
    hostname: str
    requirements: Requirements
    mask: int
    rank: tuple[int, int]
    requests: Resources = field(default_factory=dict)
    pods: list[PodFacts] = field(default_factory=list)
    ports: tuple[HostPort, ...] = ()
    min_values_relaxed: bool = False

    def fits(self, shape: Shape) -> int:
        """The types that could hold this pod too, for size alone."""
        total = dict(self.requests)
        add_into(total, shape.requests)
        fleet = self.template.fleet
        found = 0
        for group in self.template.groups:
            types = group.mask & self.mask
            if types:
                found |= types & fleet.fitting(_sum(total, group.overhead) if group.overhead else total)
        return found

    def allows_host(self, shape: Shape) -> bool:
        return shape.host is None or shape.host.has(self.hostname)

    def allows_ports(self, shape: Shape) -> bool:
        return not shape.ports or not port_conflict(shape.ports, self.ports)

    def host_labels(self, labels: Requirements) -> Requirements:
        return labels.replacing(one_of(HOSTNAME, (self.hostname,)))
