"""What a decision is made from: NodePools, types, nodes, and the pods that are bound.

Facts only, gathered by whoever watches the cluster. A `StateNode` is a Node, or a NodeClaim whose Node has not come
yet; while it is not initialized its claim speaks for it (labels, taints, what it will hold).

Source: pkg/controllers/state/statenode.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairway.kube.objects import Obj
from fairway.kube.resources import Resources
from fairway.kube.taints import Taint, parse_taints
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.labels import HOSTNAME, NODEPOOL, UNREGISTERED_TAINT
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.podfacts import HostPort
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements, label_requirements

# Taints that a node has while it comes up and loses by itself: (key, effect); the value does not matter here.
# Source: scheduling.KnownEphemeralTaints.
EPHEMERAL_TAINTS = frozenset(
    {
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        (UNREGISTERED_TAINT, "NoExecute"),
    }
)
_EPHEMERAL_PREFIX = "readiness.k8s.io/"


def is_ephemeral(taint: Taint) -> bool:
    return (taint.key, taint.effect) in EPHEMERAL_TAINTS or taint.key.startswith(_EPHEMERAL_PREFIX)


@dataclass(frozen=True, slots=True)
class StateNode:
    """A node as Karpenter's cluster state has it. `available`: allocatable less what its pods ask."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Resources
    available: Resources
    daemon_requests: Resources = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    claim: str = ""
    has_node: bool = True
    is_initialized: bool = True
    is_ready: bool = True
    is_marked_for_deletion: bool = False
    is_nominated: bool = False
    is_under_consolidate_after: bool = False
    claim_object: Obj = field(default_factory=dict)
    node_object: Obj = field(default_factory=dict)
    pods: tuple[Obj, ...] = ()
    # What the labels are as requirements, without and with the hostname; one decision asks many times.
    plain_labels: Requirements = field(init=False, repr=False, compare=False)
    host_labels: Requirements = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        labels = label_requirements(self.labels)
        object.__setattr__(self, "plain_labels", labels.without(HOSTNAME))
        object.__setattr__(self, "host_labels", labels.replacing(one_of(HOSTNAME, (self.hostname,))))

    @property
    def hostname(self) -> str:
        return self.labels.get(HOSTNAME) or self.name

    @property
    def pool(self) -> str:
        return self.labels.get(NODEPOOL) or ""

    @property
    def is_managed(self) -> bool:
        return bool(self.claim)


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node, as spreads and affinities count it; ended and ending ones are left out by the caller."""

    uid: str
    namespace: str
    labels: Mapping[str, str]
    node: str
    spec: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """Everything one simulation sees. `fleets`: the instance types of each NodePool, by its name."""

    pools: tuple[NodePool, ...]
    fleets: Mapping[str, Fleet]
    nodes: tuple[StateNode, ...] = ()
    daemons: tuple[Obj, ...] = ()
    bound: tuple[BoundPod, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Mapping[str, tuple[Requirements, ...]] = field(default_factory=dict)
    """Where the volumes of pods may be, by uid: one of the alternatives has to hold."""


def effective_taints(
    raw: Iterable[dict[str, object]] | None, startup: Iterable[dict[str, object]] | None, *, initialized: bool
) -> tuple[Taint, ...]:
    """The taints that count: until it is initialized, not those a managed node will lose."""
    taints = parse_taints(raw)
    if initialized:
        return taints
    starting = {(t.key, t.effect) for t in parse_taints(startup)}
    return tuple(t for t in taints if not is_ephemeral(t) and (t.key, t.effect) not in starting)
