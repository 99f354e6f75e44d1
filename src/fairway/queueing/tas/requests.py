"""What a pod set asks of the topology, and what the search answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fairway.queueing.facts.podsets import PodSet
from fairway.queueing.facts.topologyassignments import TopologyAssignment


@dataclass(slots=True)
class PodSetRequest:
    """`is_implied`: the queue has topology flavors only, the pod set does not ask itself.

    `updates`: what admission checks add to the pods (node selectors, tolerations).
    """

    pod_set: PodSet
    count: int
    flavor: str
    is_implied: bool
    updates: tuple[Mapping[str, Any], ...] = ()
    previous: TopologyAssignment | None = None

    @property
    def group(self) -> str:
        return self.pod_set.topology.group if self.pod_set.topology is not None else ""


class TopologyResult(NamedTuple):
    """Either an assignment, or the reason there is none."""

    assignment: TopologyAssignment | None
    failure: str = ""
    flavor: str = ""


RequestsByFlavor = dict[str, list[PodSetRequest]]
TopologyResults = dict[str, TopologyResult]


def failure_of(results: TopologyResults) -> tuple[str, TopologyResult] | None:
    """The first pod set, by name, that found no place."""
    for name in sorted(results):
        if results[name].failure:
            return name, results[name]
    return None


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """`simulate_empty`: as if no topology-aware workload held anything."""

    simulate_empty: bool = False


DEFAULT_SEARCH: Final = SearchOptions()
EMPTY_SEARCH: Final = SearchOptions(simulate_empty=True)


@dataclass(slots=True)
class Exclusions:
    """How many nodes dropped out, and why."""

    total_nodes: int = 0
    node_selector: int = 0
    affinity: int = 0
    topology_domain: int = 0
    taints: dict[str, int] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """`taint "…": 2, resource "cpu": 1`; empty where no node dropped out."""
        reasons = []
        if self.node_selector:
            reasons.append(f"nodeSelector: {self.node_selector}")
        if self.affinity:
            reasons.append(f"affinity: {self.affinity}")
        if self.topology_domain:
            reasons.append(f"topologyDomain: {self.topology_domain}")
        reasons.extend(f'taint "{taint}": {count}' for taint, count in self.taints.items())
        reasons.extend(f'resource "{name}": {count}' for name, count in self.resources.items())
        return ", ".join(sorted(reasons))
