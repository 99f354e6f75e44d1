"""Which spreads, affinities and anti-affinities bear on a pod, and what do they leave of a node's labels?

Every pod of the batch brings its groups; groups count the pods that are bound, then those that are placed. A pod's
own groups restrict it; so do the *inverse* groups: required anti-affinities of others that select it.

Source: pkg/controllers/provisioning/scheduling/topology.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairway.kube.labels import IN as SELECTS_IN
from fairway.kube.labels import Requirement as LabelRequirement
from fairway.kube.labels import Selector, label_selector
from fairway.kube.objects import meta_of, spec_of
from fairway.kube.taints import Taint, Toleration, parse_taints, parse_tolerations
from fairway.provisioning.karpenter.labels import HOSTNAME
from fairway.provisioning.karpenter.podfacts import Shape, anti_affinity_terms, untolerated
from fairway.provisioning.karpenter.relaxing import PREFERRED, REQUIRED
from fairway.provisioning.karpenter.requirement import Requirement
from fairway.provisioning.karpenter.requirements import (
    Requirements,
    label_requirements,
    selector_requirements,
)
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.provisioning.karpenter.topologygroups import (
    AFFINITY,
    ANTI_AFFINITY,
    HONOR,
    IGNORE,
    SPREAD,
    GroupIdentity,
    GroupKey,
    NodeFilter,
    TopologyGroup,
)
from fairway.provisioning.karpenter.world import World

_ANY_SKEW: Final = 2**31 - 1
_NO_LABELS: Final = Requirements()
Peers = tuple[str, tuple[tuple[str, str], ...]]
_Domains = dict[str, list[tuple[Taint, ...]]]


class Bearing:
    """The groups that bear on a shape: by hostname, and by other labels; each with whether it selects itself."""

    __slots__ = ("by_host", "by_label", "inverse", "recorded", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.by_host: list[tuple[TopologyGroup, bool]] = []
        self.by_label: list[tuple[TopologyGroup, bool]] = []
        self.inverse: list[TopologyGroup] = []
        self.recorded: list[TopologyGroup] = []


class Topology:
    """All groups of one simulation."""

    def __init__(
        self, world: World, moving: Iterable[str] = (), *, respects_preferences: bool = True
    ) -> None:
        self._world = world
        self._respects = respects_preferences
        self._moving = frozenset(moving)
        self._groups: dict[GroupIdentity, TopologyGroup] = {}
        self._inverse: dict[GroupKey, TopologyGroup] = {}
        self._owned: dict[Shape, tuple[list[TopologyGroup], list[TopologyGroup]]] = {}
        self._bearings: dict[Shape, Bearing] = {}
        self._chosen: dict[Peers, tuple[int, list[TopologyGroup], list[TopologyGroup]]] = {}
        self._domains: dict[str, _Domains] = {}
        self._nodes: list[StateNode] | None = None
        self._version = 0
        self._takes_part: dict[tuple[int, Requirements], bool] = {}
        self._since = -1
        self._last_on: dict[str, int] = {}
        """Of each new node, by hostname: which of the pods on new nodes was its last."""
        self._follow_bound_anti_affinity()

    # Groups

    def follow(self, shape: Shape) -> None:
        """Make the groups that a shape brings."""
        if shape not in self._owned:
            inverse = [
                self._inverse_of(shape.namespace, t, shape.tolerations)
                for t in anti_affinity_terms(shape.spec)
            ]
            owned = [*self._spread_groups(shape), *self._affinity_groups(shape)]
            self._owned[shape] = (owned, inverse)
            self._version += 1

    def bearing(self, shape: Shape) -> Bearing:
        """What bears on a shape, up to date with the groups there are."""
        found = self._bearings.get(shape)
        if found is not None and found.version == self._version:
            return found
        self.follow(shape)
        found = Bearing(self._version)
        owned, found.inverse = self._owned[shape]
        for group in owned:
            self._put(found, group, group.selects(shape.namespace, shape.labels))
        found.recorded, inverse = self._choosing(shape)
        for group in inverse:
            self._put(found, group, True)
        self._bearings[shape] = found
        return found

    def _choosing(self, shape: Shape) -> tuple[list[TopologyGroup], list[TopologyGroup]]:
        """The groups and the inverse groups that select pods like this, as of this version."""
        found = self._chosen.get(shape.peers)
        if found is None or found[0] != self._version:
            chosen, inverse = (
                [g for g in groups.values() if g.selects(shape.namespace, shape.labels)]
                for groups in (self._groups, self._inverse)
            )
            found = self._chosen[shape.peers] = (self._version, chosen, inverse)
        return found[1], found[2]

    @staticmethod
    def _put(bearing: Bearing, group: TopologyGroup, selects_itself: bool) -> None:
        to = bearing.by_host if group.topology_key == HOSTNAME else bearing.by_label
        to.append((group, selects_itself))

    # Decisions

    def restrict(
        self,
        shape: Shape,
        groups: list[tuple[TopologyGroup, bool]],
        labels: Requirements,
        wanted: Requirements,
    ) -> list[Requirement] | str:
        """What these groups ask of a node with these labels; the refusal where one has no domain left.

        `wanted`: what the pod strictly asks; `labels`: the node's, the pod's wishes in.
        """
        asked = []
        for group, selects_itself in groups:
            key = group.topology_key
            of_pod, of_node = wanted.get(key), labels.get(key)
            domains = group.next_domains(selects_itself, of_pod, of_node)
            if not domains.values:
                return group.refusal(of_pod, of_node, self._empty_hosts(group))
            asked.append(domains)
        return asked

    def _empty_hosts(self, group: TopologyGroup) -> list[str]:
        """Hostnames a group has heard of: of the nodes there when it was made, and of new ones that got a pod since.

        Source: Topology.Register.
        """
        if group.topology_key != HOSTNAME:
            return []
        new = [host for host, at in self._last_on.items() if at > group.since]
        return new if group.since >= 0 else [*new, *(n.hostname for n in self._staying())]

    def begin(self) -> None:
        """The pods of the batch are followed, and the nodes known."""
        self._since = 0

    def opened(self, host: str) -> None:
        """A new node got a pod."""
        self._since += 1
        self._last_on[host] = self._since

    def record(self, shape: Shape, taints: tuple[Taint, ...], labels: Requirements, host: str) -> None:
        """A pod of this shape was put on a node with these labels."""
        bearing = self.bearing(shape)
        for group in bearing.recorded:
            if not self._node_takes_part(group, taints, labels, host):
                continue
            if group.topology_key == HOSTNAME:
                group.record(host)
                continue
            domains = labels.get(group.topology_key)
            if group.key.type == ANTI_AFFINITY:
                for domain in domains.sorted_values():
                    group.record(domain)
            elif not domains.complement and len(domains.values) == 1:
                group.record(next(iter(domains.values)))
        for group in bearing.inverse:
            own = group.topology_key == HOSTNAME
            for domain in [host] if own else labels.get(group.topology_key).sorted_values():
                group.record(domain)

    def _node_takes_part(
        self, group: TopologyGroup, taints: tuple[Taint, ...], labels: Requirements, host: str
    ) -> bool:
        node_filter = group.key.node_filter
        if node_filter is None:
            return True
        if any(HOSTNAME in wanted for wanted in node_filter.alternatives):
            own = Requirement(HOSTNAME, False, frozenset((host,)))
            return group.takes_part(taints, labels.replacing(own))
        key = (id(group), labels)
        found = self._takes_part.get(key)
        if found is None:
            found = self._takes_part[key] = group.takes_part(taints, labels)
        return found

    # Making groups

    def _spread_groups(self, shape: Shape) -> list[TopologyGroup]:
        return [
            self._spread_group(shape, spread)
            for spread in shape.spec.get("topologySpreadConstraints") or ()
            if self._respects or spread.get("whenUnsatisfiable") == "DoNotSchedule"
        ]

    def _spread_group(self, shape: Shape, spread: Mapping[str, Any]) -> TopologyGroup:
        selector = label_selector(spread.get("labelSelector"))
        own = [k for k in spread.get("matchLabelKeys") or () if k in shape.labels]
        more = [LabelRequirement(k, SELECTS_IN, (shape.labels[k],)) for k in own]
        selector = Selector(tuple(sorted({*selector.requirements, *more})), selector.nothing and not more)
        key = GroupKey(
            spread.get("topologyKey") or "",
            SPREAD,
            frozenset((shape.namespace,)),
            selector,
            int(spread.get("maxSkew") or 1),
            _node_filter(shape, spread),
        )
        return self._group(key, shape, spread.get("minDomains"))

    def _affinity_groups(self, shape: Shape) -> list[TopologyGroup]:
        affinity = shape.spec.get("affinity") or {}
        found = []
        for kind, type_ in (("podAffinity", AFFINITY), ("podAntiAffinity", ANTI_AFFINITY)):
            part = affinity.get(kind) or {}
            terms = list(part.get(REQUIRED) or ())
            if self._respects:
                terms += [t.get("podAffinityTerm") or {} for t in part.get(PREFERRED) or ()]
            found += [self._group(self._term_key(shape.namespace, t, type_), shape) for t in terms]
        return found

    def _term_key(self, namespace: str, term: Mapping[str, Any], type_: str) -> GroupKey:
        return GroupKey(
            term.get("topologyKey") or "",
            type_,
            self._namespaces(namespace, term),
            label_selector(term.get("labelSelector")),
            _ANY_SKEW,
            None,
        )

    def _namespaces(self, own: str, term: Mapping[str, Any]) -> frozenset[str]:
        named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
        if not named and selector is None:
            return frozenset((own,))
        chosen = set(named)
        if selector is not None:
            compiled = label_selector(selector)
            chosen |= {n for n, labels in self._world.namespaces.items() if compiled.matches(labels)}
        return frozenset(chosen)

    def _group(self, key: GroupKey, shape: Shape, min_domains: int | None = None) -> TopologyGroup:
        identity = key.identity
        found = self._groups.get(identity)
        if found is None:
            found = TopologyGroup(key, self._domains_for(key, shape.tolerations), min_domains, self._since)
            self._count_bound(found)
            self._groups[identity] = found
        return found

    def _domains_for(self, key: GroupKey, tolerations: tuple[Toleration, ...]) -> list[str]:
        """The domains a group begins with. Of affinities only those of NodePools that the first pod of the group
        tolerates: upstream they have no taint policy, which is not `Ignore`. Source: ForEachDomain.
        """
        by_domain = self._domains_of(key.topology_key)
        if key.node_filter is not None and key.node_filter.taint_policy == IGNORE:
            return list(by_domain)
        return [
            domain
            for domain, taints in by_domain.items()
            if any(untolerated(t, tolerations) is None for t in taints)
        ]

    def _domains_of(self, label: str) -> _Domains:
        """The domains new nodes could have, with the taints one must tolerate to be there."""
        found = self._domains.get(label)
        if found is None:
            found = self._domains[label] = {}
            for pool in self._world.pools:
                fleet = self._world.fleets.get(pool.name)
                if fleet is not None:
                    for domain in fleet.label_values(pool.label_requirements).get(label, ()):
                        _insert(found, domain, pool.taints)
        return found

    def _count_bound(self, group: TopologyGroup) -> None:
        """The domains of nodes that stay, and the pods on all of them: also those of nodes that are to go, unless they
        move themselves. Source: countDomains.
        """
        key = group.topology_key
        takes_part = group.key.node_filter is None
        for node in self._staying():
            domain = node.labels.get(key)
            if (
                node.has_node
                and domain
                and (takes_part or group.takes_part(_own_taints(node), node.host_labels))
            ):
                group.register(domain)
        for node in self._world.nodes:
            active = node.pod_facts.active
            domain = node.labels.get(key) or (node.name if key == HOSTNAME else "")
            if not active or not domain:
                continue
            if takes_part or group.takes_part(_own_taints(node), node.host_labels):
                for pod in active:
                    if self._counts(group, meta_of(pod)):
                        group.record(domain)

    def _staying(self) -> list[StateNode]:
        if self._nodes is None:
            self._nodes = self._world.staying()
        return self._nodes

    def _counts(self, group: TopologyGroup, meta: Mapping[str, Any]) -> bool:
        """Whether a bound pod is one of the group's, and stays."""
        return meta["uid"] not in self._moving and group.selects(
            meta.get("namespace") or "", meta.get("labels") or {}
        )

    # Inverse anti-affinity

    def _inverse_of(
        self, namespace: str, term: Mapping[str, Any], tolerations: tuple[Toleration, ...]
    ) -> TopologyGroup:
        key = self._term_key(namespace, term, ANTI_AFFINITY)
        found = self._inverse.get(key)
        if found is None:
            found = TopologyGroup(key, self._domains_for(key, tolerations), since=self._since)
            self._inverse[key] = found
            self._version += 1
        return found

    def _follow_bound_anti_affinity(self) -> None:
        nodes = self._world.nodes
        for node in nodes.named(nodes.apart):
            labels = node.labels
            for pod in node.pod_facts.apart:
                meta = meta_of(pod)
                if meta["uid"] in self._moving:
                    continue
                tolerations = parse_tolerations(pod["spec"].get("tolerations"))
                for term in anti_affinity_terms(pod["spec"]):
                    group = self._inverse_of(meta.get("namespace") or "", term, tolerations)
                    domain = labels.get(group.topology_key)
                    if domain:
                        group.record(domain)


def _node_filter(shape: Shape, spread: Mapping[str, Any]) -> NodeFilter:
    own = label_requirements(shape.spec.get("nodeSelector"))
    affinity = (shape.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(REQUIRED)
    alternatives = [own]
    if required is not None:
        terms = required.get("nodeSelectorTerms") or ()
        alternatives = [own.plus(selector_requirements(t.get("matchExpressions"))) for t in terms]
    return NodeFilter(
        tuple(alternatives),
        spread.get("nodeTaintsPolicy") or IGNORE,
        spread.get("nodeAffinityPolicy") or HONOR,
        parse_tolerations(shape.spec.get("tolerations")),
    )


def _own_taints(node: StateNode) -> tuple[Taint, ...]:
    """As the Node has them, those it will lose included."""
    if node.is_initialized or not node.has_node:
        return node.taints
    return parse_taints(spec_of(node.node_object).get("taints"))


def _insert(domains: _Domains, domain: str, taints: tuple[Taint, ...]) -> None:
    """Once reachable without taints, always reachable. Source: TopologyDomainGroup.Insert."""
    held = domains.get(domain)
    if held is None or not taints:
        domains[domain] = [taints]
    elif held[0]:
        held.append(taints)
