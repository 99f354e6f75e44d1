"""Groups that differ by zone only grow together, the smallest first.

Source: processors/nodegroupset/compare_nodegroups.go, balancing_processor.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairway.kube.resources import MEMORY
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, Seat

IGNORED_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
        # What each cloud names its groups by, and where storage sees a node. Source: *_nodegroups.go of the clouds.
        "eks.amazonaws.com/nodegroup",
        "topology.ebs.csi.aws.com/zone",
        "cloud.google.com/gke-nodepool",
        "topology.gke.io/zone",
        "kubernetes.azure.com/agentpool",
        "agentpool",
        "topology.disk.csi.azure.com/zone",
    }
)
_MEMORY_RATIO, _ALLOCATABLE_RATIO, _FREE_RATIO = 0.015, 0.05, 0.05


def are_similar(a: Seat, b: Seat) -> bool:
    """Whether two templates could be of one group."""
    if set(a.capacity) != set(b.capacity) or set(a.allocatable) != set(b.allocatable):
        return False
    for name, value in a.capacity.items():
        if name == MEMORY:
            if not _near(value, b.capacity[name], _MEMORY_RATIO):
                return False
        elif value != b.capacity[name]:
            return False
    if not all(_near(v, b.allocatable[n], _ALLOCATABLE_RATIO) for n, v in a.allocatable.items()):
        return False
    for name in sorted({*a.used, *b.used}):
        of_a, of_b = (s.allocatable.get(name, 0) - s.used.get(name, 0) for s in (a, b))
        if not _near(of_a, of_b, _FREE_RATIO):
            return False
    return _own_labels(a) == _own_labels(b)


def _near(a: int, b: int, ratio: float) -> bool:
    return max(a, b) - min(a, b) <= max(a, b) * ratio


def _own_labels(seat: Seat) -> dict[str, str]:
    return {k: v for k, v in seat.labels.items() if k not in IGNORED_LABELS}


def balanced(groups: Sequence[NodeGroup], nodes: int) -> list[tuple[NodeGroup, int]]:
    """New sizes that make them as even as can be; those that stay are left out. Unlike kube: ties by name."""
    open_ = [g for g in groups if g.target != g.most]
    sizes = {g.name: g.target for g in open_}
    left = min(nodes, sum(max(g.most - g.target, 0) for g in open_))
    while left > 0:
        smallest = min((g for g in open_ if sizes[g.name] < g.most), key=lambda g: (sizes[g.name], g.name))
        sizes[smallest.name] += 1
        left -= 1
    return [(g, sizes[g.name]) for g in open_ if sizes[g.name] != g.target]
