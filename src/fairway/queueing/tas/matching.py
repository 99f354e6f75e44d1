"""Which nodes may the pods of a pod set run on, resources aside?

Source: pkg/cache/scheduler/scheduling_simulator_default.go, tas_flavor_snapshot.go getMatchingLeaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairway.kube.nodeselection import NodeSelection
from fairway.kube.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Taint,
    Toleration,
    first_untolerated,
    parse_tolerations,
)
from fairway.queueing.tas.requests import Exclusions, PodSetRequest
from fairway.queueing.tas.tree import FlavorTopology, Leaf

_SCHEDULING_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)


@dataclass(frozen=True, slots=True)
class NodeRequirements:
    """Node selector and tolerations with what admission checks added."""

    selection: NodeSelection
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]


@dataclass(slots=True)
class Matching:
    """The leaves that may be used with their affinity scores, and how many nodes dropped out."""

    leaves: list[tuple[Leaf, int]] = field(default_factory=list)
    exclusions: Exclusions = field(default_factory=Exclusions)


def requirements_of(request: PodSetRequest) -> NodeRequirements | str:
    """Or the reason the updates of an admission check cannot be applied."""
    pod_set = request.pod_set
    selector = dict(pod_set.node_selector)
    tolerations = list(pod_set.tolerations)
    for update in request.updates:
        for key, value in (update.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                return (
                    f"invalid podSetUpdate for PodSet {pod_set.name}, error: invalid admission check "
                    f"PodSetUpdate: conflict for nodeSelector: conflict for key={key}, "
                    f"value1={selector[key]}, value2={value}"
                )
            selector[key] = value
        for toleration in parse_tolerations(update.get("tolerations")):
            if toleration not in tolerations:
                tolerations.append(toleration)
    return NodeRequirements(pod_set.selection, selector, tuple(tolerations))


def matching_leaves(
    topology: FlavorTopology, requirements: NodeRequirements, *, scores_preferences: bool
) -> Matching:
    """Remembered per node selection: nodes do not change while the topology lives. O(leaves) the first time."""
    key = (
        requirements.selection,
        tuple(sorted(requirements.node_selector.items())),
        requirements.tolerations,
        scores_preferences,
    )
    found = topology.matches.get(key)
    if found is None:
        found = topology.matches[key] = _match(topology, requirements, scores_preferences)
    matching: Matching = found
    return matching


def _match(topology: FlavorTopology, requirements: NodeRequirements, scores_preferences: bool) -> Matching:
    matching = Matching()
    stats = matching.exclusions
    stats.total_nodes = len(topology.leaves)
    if not topology.is_lowest_level_node:
        matching.leaves = [(leaf, 0) for leaf in topology.leaves.values()]
        return matching
    tolerations = (*requirements.tolerations, *topology.tolerations)
    for leaf in topology.leaves.values():
        node = leaf.node
        assert node is not None
        taint = first_untolerated(node.taints, tolerations, _SCHEDULING_EFFECTS)
        if taint is not None:
            text = _taint_text(taint)
            stats.taints[text] = stats.taints.get(text, 0) + 1
        elif not _has_labels(node.labels, requirements.node_selector):
            stats.node_selector += 1
        elif not _affinity_allows(requirements.selection, node.labels, node.name):
            stats.affinity += 1
        else:
            score = requirements.selection.preference(node.labels, node.name) if scores_preferences else 0
            matching.leaves.append((leaf, score))
    return matching


def _has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def _affinity_allows(selection: NodeSelection, labels: Mapping[str, str], name: str) -> bool:
    return selection.required is None or any(t.matches(labels, name) for t in selection.required)


def _taint_text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
