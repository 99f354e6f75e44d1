"""Does a pod fit a node that is there, or on its way?

Source: pkg/controllers/provisioning/scheduling/existingnode.go.
"""

from __future__ import annotations

from fairway.kube.objects import Obj, spec_of
from fairway.kube.resources import PODS, Resources, add_into
from fairway.kube.taints import parse_tolerations
from fairway.provisioning.karpenter.labels import HOSTNAME
from fairway.provisioning.karpenter.podfacts import (
    PodFacts,
    Shape,
    port_conflict,
    requests_of,
    untolerated,
)
from fairway.provisioning.karpenter.requirements import (
    Requirements,
    affinity_requirements,
)
from fairway.provisioning.karpenter.statenode import StateNode


class ExistingNode:
    """A node with what is left of it, DaemonSets that have not come yet set aside.

    `host_labels`: what is known of its labels, narrowed by what pods put on it ask of labels that it lacks; `labels`:
    the same without its hostname.
    """

    __slots__ = ("host_labels", "labels", "node", "pods", "ports", "remaining")

    def __init__(self, node: StateNode, daemons: tuple[Obj, ...]) -> None:
        self.node = node
        self.host_labels = node.host_labels
        self.labels = node.plain_labels
        self.remaining = _remaining(node, self.host_labels, daemons)
        self.pods: list[PodFacts] = []
        self.ports = node.ports

    def never_holds(self, shape: Shape) -> bool:
        """What will not change while pods are only added: taints, labels that it has, size, ports."""
        return (
            not self._fits(shape.requests)
            or not self.labels.is_compatible(shape.requirements)
            or (shape.host is not None and not shape.host.has(self.node.hostname))
            or untolerated(self.node.taints, shape.tolerations) is not None
            or (bool(shape.ports) and port_conflict(shape.ports, self.ports))
        )

    def _fits(self, requests: Resources) -> bool:
        if any(left < 0 for left in self.remaining.values()):
            return False
        return all(self.remaining.get(name, 0) >= amount for name, amount in requests.items())

    def narrow(self, labels: Requirements) -> None:
        self.host_labels = labels
        self.labels = labels.without(HOSTNAME)

    def add(self, pod: PodFacts) -> None:
        self.pods.append(pod)
        self.ports = (*self.ports, *pod.shape.ports)
        for name, amount in pod.shape.requests.items():
            self.remaining[name] = self.remaining.get(name, 0) - amount


def _remaining(node: StateNode, labels: Requirements, daemons: tuple[Obj, ...]) -> Resources:
    expected: Resources = {}
    for daemon in daemons:
        spec = spec_of(daemon)
        if untolerated(node.taints, parse_tolerations(spec.get("tolerations"))) is None and (
            labels.is_compatible(affinity_requirements(spec, with_preferred=False))
        ):
            add_into(expected, requests_of(spec))
    still_to_come = {
        name: max(amount - node.daemon_requests.get(name, 0), 0) for name, amount in expected.items()
    }
    remaining = {n: v - still_to_come.get(n, 0) for n, v in node.available.items()}
    remaining.setdefault(PODS, 0)
    return remaining
