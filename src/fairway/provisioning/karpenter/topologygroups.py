"""Where may the next pod of a spread, an affinity or an anti-affinity go?

A group counts, per domain of one label, the pods its selector chooses. Pods with equal constraints share a group.
Hostnames are special: a new node is a new domain, so the fewest per host is always zero.

Unlike kube: among equally good domains the first by name is taken; Karpenter takes whichever its map yields.

Source: pkg/controllers/provisioning/scheduling/topologygroup.go, topologynodefilter.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from fairway.kube.labels import Selector
from fairway.kube.taints import Taint, Toleration
from fairway.provisioning.karpenter.labels import HOSTNAME
from fairway.provisioning.karpenter.podfacts import untolerated
from fairway.provisioning.karpenter.requirement import EXISTS, IN, Requirement, one_of
from fairway.provisioning.karpenter.requirements import Requirements

SPREAD: Final = "topology spread"
AFFINITY: Final = "pod affinity"
ANTI_AFFINITY: Final = "pod anti-affinity"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"
_UNBOUNDED: Final = 2**31 - 1
_DOMAINS_SHOWN: Final = 25


class NodeFilter(NamedTuple):
    """Which nodes take part in a spread."""

    alternatives: tuple[Requirements, ...]
    taint_policy: str
    affinity_policy: str
    tolerations: tuple[Toleration, ...]

    def matches(self, taints: Iterable[Taint], labels: Requirements) -> bool:
        honored = self.alternatives if self.affinity_policy == HONOR else ()
        if honored and not any(labels.is_compatible(wanted) for wanted in honored):
            return False
        return self.taint_policy != HONOR or untolerated(taints, self.tolerations) is None

    @property
    def identity(self) -> FilterIdentity:
        """What two filters share that upstream takes for one: of their alternatives it hashes which labels they name,
        not what they ask of them, and of two alike none is left. Source: TopologyGroup.Hash (hashstructure skips
        the fields of a Requirement that are not exported; SlicesAsSets is an exclusive or).
        """
        labels = _odd(frozenset(wanted.keys()) for wanted in self.alternatives)
        return labels, self.taint_policy, self.affinity_policy, _odd(self.tolerations)


FilterIdentity = tuple[frozenset[frozenset[str]], str, str, frozenset[Toleration]]
_Item = TypeVar("_Item", bound=Hashable)


def _odd(items: Iterable[_Item]) -> frozenset[_Item]:
    """Those that occur an odd number of times."""
    found: set[_Item] = set()
    for item in items:
        found ^= {item}
    return frozenset(found)


class GroupKey(NamedTuple):
    """What makes a group. Two are one that differ only in what their node filters ask of the labels they name: the
    first to come is kept, with its filter. Source: TopologyGroup.Hash, which leaves minDomains out.
    """

    topology_key: str
    type: str
    namespaces: frozenset[str]
    selector: Selector
    max_skew: int
    node_filter: NodeFilter | None

    @property
    def identity(self) -> GroupIdentity:
        own = None if self.node_filter is None else self.node_filter.identity
        return self.topology_key, self.type, self.namespaces, self.selector, self.max_skew, own


GroupIdentity = tuple[str, str, frozenset[str], Selector, int, FilterIdentity | None]


class TopologyGroup:
    """Counts per domain; `counts` holds every known domain, empty ones with 0.

    `since`: how many pods were on new nodes when it was made; -1: before any was placed.
    """

    __slots__ = ("counts", "empty", "key", "min_domains", "since")

    def __init__(
        self, key: GroupKey, domains: Iterable[str], min_domains: int | None = None, since: int = -1
    ) -> None:
        self.key = key
        self.since = since
        self.counts: dict[str, int] = dict.fromkeys(sorted(domains), 0)
        self.empty = len(self.counts)
        self.min_domains = min_domains

    @property
    def topology_key(self) -> str:
        return self.key.topology_key

    def register(self, domain: str) -> None:
        if domain not in self.counts:
            self.counts[domain] = 0
            self.empty += 1

    def record(self, domain: str) -> None:
        before = self.counts.get(domain)
        if before == 0:
            self.empty -= 1
        self.counts[domain] = (before or 0) + 1

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.key.namespaces and self.key.selector.matches(labels)

    def takes_part(self, taints: tuple[Taint, ...], labels: Requirements) -> bool:
        """Whether pods on a node like this count."""
        return self.key.node_filter is None or self.key.node_filter.matches(taints, labels)

    def next_domains(self, selects_itself: bool, of_pod: Requirement, of_node: Requirement) -> Requirement:
        """The domains this pod may go to on this node; none: `DoesNotExist`."""
        if self.topology_key == HOSTNAME and len(of_node.values) == 1:
            (host,) = of_node.values
            return one_of(HOSTNAME, (host,) if self.has_room(selects_itself, of_pod, host) else ())
        if self.key.type == SPREAD:
            return self._next_spread(selects_itself, of_pod, of_node)
        if self.key.type == AFFINITY:
            return self._next_affinity(selects_itself, of_pod, of_node)
        return self._next_anti_affinity(of_pod, of_node)

    def has_room(self, selects_itself: bool, of_pod: Requirement, host: str) -> bool:
        """Whether a group over hostnames lets the pod onto this one. A host nobody counted yet has none."""
        count = self.counts.get(host, 0)
        if self.key.type == SPREAD:
            return count + (1 if selects_itself else 0) <= self.key.max_skew
        if self.key.type == ANTI_AFFINITY:
            return count == 0
        return of_pod.has(host) and (count > 0 or (selects_itself and self._may_start(of_pod)))

    # Spread

    def _next_spread(self, selects_itself: bool, of_pod: Requirement, of_node: Requirement) -> Requirement:
        more = 1 if selects_itself else 0
        fewest = self._fewest(of_pod)
        best, best_count = "", _UNBOUNDED
        for domain in self._reachable(of_node):
            count = self.counts[domain] + more
            if count - fewest <= self.key.max_skew and count < best_count:
                best, best_count = domain, count
        return one_of(self.topology_key, (best,) if best else ())

    def _fewest(self, of_pod: Requirement) -> int:
        if self.topology_key == HOSTNAME:
            return 0
        counts = [count for domain, count in self.counts.items() if of_pod.has(domain)]
        if self.min_domains is not None and len(counts) < self.min_domains:
            return 0
        return min(counts, default=_UNBOUNDED)

    def _reachable(self, of_node: Requirement) -> list[str]:
        if of_node.operator == IN:
            return [d for d in of_node.sorted_values() if d in self.counts]
        return sorted(d for d in self.counts if of_node.has(d))

    # Affinity

    def _next_affinity(self, selects_itself: bool, of_pod: Requirement, of_node: Requirement) -> Requirement:
        found = [d for d in self._reachable(of_node) if self.counts[d] > 0 and of_pod.has(d)]
        if not found and selects_itself and self._may_start(of_pod):
            found = self._starting_domains(of_pod, of_node)
        return one_of(self.topology_key, found)

    def _may_start(self, of_pod: Requirement) -> bool:
        """The first pod of a group that wants its own kind may open a domain."""
        if len(self.counts) == self.empty:
            return True
        if of_pod.operator == EXISTS and of_pod.gte is None and of_pod.lte is None:
            return False
        return not any(count > 0 and of_pod.has(domain) for domain, count in self.counts.items())

    def _starting_domains(self, of_pod: Requirement, of_node: Requirement) -> list[str]:
        """One that suits pod and node, and one that suits the pod, as upstream inserts both."""
        both = of_pod.intersection(of_node)
        ordered = sorted(self.counts)
        first = next((d for d in ordered if both.has(d)), None)
        if first is not None:
            return [first]
        return [d for d in ordered if of_pod.has(d)][:1]

    # Anti-affinity

    def _next_anti_affinity(self, of_pod: Requirement, of_node: Requirement) -> Requirement:
        empty = (d for d in self._reachable(of_node) if self.counts[d] == 0)
        return one_of(self.topology_key, (d for d in empty if of_pod.has(d)))

    def refusal(self, of_pod: Requirement, of_node: Requirement, empty: Iterable[str] = ()) -> str:
        """Karpenter's words, the missing bracket included. `empty`: domains that it knows besides those counted.

        Source: topologyError.
        """
        known = {**dict.fromkeys(empty, 0), **self.counts}
        shown = [f"{d}: {known[d]}" for d in sorted(known)[:_DOMAINS_SHOWN]]
        more = len(known) - len(shown)
        counts = ", ".join(shown) + (f" and {more} other(s)" if more > 0 else "")
        return (
            f"unsatisfiable topology constraint for {self.key.type}, key={self.topology_key} "
            f"(counts = {counts}, podDomains = {of_pod}, nodeDomains = {of_node}"
        )
