"""Can the pods of a pod set run in a flavor at all? Taints, node affinity and topology.

Of a pod's node selector and required affinity only the keys a flavor sets itself are asked of the flavor.

Source: pkg/scheduler/flavorassigner/flavorassigner.go checkFlavorForPodSets, flavorSelector;
tas_flavorassigner.go checkPodSetAndFlavorMatchForTAS.
"""

from __future__ import annotations

from typing import Final

from fairway.kube.nodeselection import NodeSelection, Term
from fairway.kube.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated
from fairway.queueing.facts.objects import ResourceFlavor, ResourceGroup
from fairway.queueing.facts.podsets import PodSet
from fairway.queueing.quota.accounts import QueueAccount

_SCHEDULING_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)


def mismatch(
    queue: QueueAccount, pod_set: PodSet, flavor: ResourceFlavor, group: ResourceGroup, *, with_topology: bool
) -> str:
    """Why the flavor cannot take the pod set; empty where it can."""
    if with_topology:
        reason = _topology_mismatch(queue, pod_set, flavor, group)
        if reason:
            return reason
    tolerations = (*pod_set.tolerations, *flavor.tolerations)
    taint = first_untolerated(flavor.taints, tolerations, _SCHEDULING_EFFECTS)
    if taint is not None:
        shown = f"{{{taint.key} {taint.value} {taint.effect} <nil>}}"
        return f"untolerated taint {shown} in flavor {flavor.name}"
    if not _affinity_allows(pod_set.selection, flavor):
        return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def is_topology_implied(pod_set: PodSet, queue: QueueAccount) -> bool:
    """The pod set does not ask for a topology, and the queue has topology flavors only."""
    return not _asks_topology(pod_set) and queue.is_topology_only


def is_topology_requested(pod_set: PodSet, queue: QueueAccount) -> bool:
    return _asks_topology(pod_set) or queue.is_topology_only


def _asks_topology(pod_set: PodSet) -> bool:
    return pod_set.topology is not None and pod_set.topology.is_explicit


def _topology_mismatch(
    queue: QueueAccount, pod_set: PodSet, flavor: ResourceFlavor, group: ResourceGroup
) -> str:
    if not _asks_topology(pod_set):
        if queue.is_topology_only:
            return ""
        if flavor.topology:
            return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
        return ""
    if not flavor.topology:
        if not any(resource in group.covered for resource in pod_set.per_pod_on_node):
            return ""
        return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
    topology = queue.topologies.get(flavor.name)
    if topology is None:
        return f'Flavor "{flavor.name}" information missing in TAS cache'
    if pod_set.topology is None or not topology.has_level(pod_set.topology):
        return f'Flavor "{flavor.name}" does not contain the requested level'
    return ""


def _affinity_allows(selection: NodeSelection, flavor: ResourceFlavor) -> bool:
    labels = flavor.node_labels
    for requirement in selection.node_selector.requirements:
        if requirement.key in labels and not requirement.matches(labels):
            return False
    if selection.required is None:
        return True
    terms = []
    for term in selection.required:
        expressions = tuple(e for e in term.expressions if e.key in labels)
        if not expressions:
            # One alternative asks nothing of the flavor: any flavor will do.
            return True
        terms.append(Term(expressions, ()))
    return not terms or any(term.matches(labels, "") for term in terms)
