"""A node as Karpenter's cluster state has it.

A `StateNode` is a Node, or a NodeClaim whose Node has not come yet; while it is not initialized its claim speaks for
it (labels, taints, what it will hold). Facts only; what they come to over all nodes: `nodes`.

Source: pkg/controllers/state/statenode.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field

from fairway.kube.objects import Obj, meta_of
from fairway.kube.resources import Resources
from fairway.kube.taints import Taint, parse_taints
from fairway.provisioning.karpenter.labels import DO_NOT_DISRUPT, HOSTNAME, NODEPOOL, UNREGISTERED_TAINT
from fairway.provisioning.karpenter.podfacts import (
    HostPort,
    anti_affinity_terms,
    eviction_cost,
    is_active,
    is_reschedulable,
)
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
# The inherent cost of draining a node. Source: PerNodeBaseDisruptionCost.
BASE_COST = 1.0


def is_ephemeral(taint: Taint) -> bool:
    return (taint.key, taint.effect) in EPHEMERAL_TAINTS or taint.key.startswith(_EPHEMERAL_PREFIX)


class NodeLabels:
    """A node's labels as requirements, `plain` without and `host` with its hostname; worked out when asked for.

    Most nodes of a large fleet are full and never asked; the others are asked by every batch.
    """

    __slots__ = ("_host", "_name", "_plain", "labels")

    def __init__(self, name: str, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self._name = name
        self._plain: Requirements | None = None
        self._host: Requirements | None = None

    @property
    def hostname(self) -> str:
        return self.labels.get(HOSTNAME) or self._name

    @property
    def plain(self) -> Requirements:
        if self._plain is None:
            self._plain = label_requirements(self.labels).without(HOSTNAME)
        return self._plain

    @property
    def host(self) -> Requirements:
        if self._host is None:
            self._host = self.plain.replacing(one_of(HOSTNAME, (self.hostname,)))
        return self._host


class NodePods:
    """What the pods of a node come to: who would have to move, at what cost, and who must not be disturbed.

    `cost`: of emptying the node; `active`: pods that count for others' spreads and affinities; of those, `held` ask
    not to be disrupted, for ever or for a time, and `apart` keep others off by a required anti-affinity.
    """

    __slots__ = ("active", "apart", "cost", "held", "movable")

    def __init__(self, pods: tuple[Obj, ...]) -> None:
        self.active = [p for p in pods if is_active(p)]
        self.movable = tuple([p for p in pods if is_reschedulable(p)])
        self.cost = BASE_COST
        for pod in self.movable:
            self.cost += max(0.0, eviction_cost(pod))
        self.held = [p for p in self.active if _asks_for_peace(p)]
        self.apart = [p for p in self.active if anti_affinity_terms(p["spec"])]


def _asks_for_peace(pod: Obj) -> bool:
    return DO_NOT_DISRUPT in (meta_of(pod).get("annotations") or ())


@dataclass(frozen=True, slots=True)
class StateNode:
    """One node. `available`: allocatable less what its pods ask.

    `former`: the node as it was; what is known of its labels and pods is kept while those are the same objects.
    """

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
    former: InitVar[StateNode | None] = None
    label_facts: NodeLabels = field(init=False, repr=False, compare=False)
    pod_facts: NodePods = field(init=False, repr=False, compare=False)

    def __post_init__(self, former: StateNode | None) -> None:
        labels = former.label_facts if former is not None and former.labels is self.labels else None
        pods = former.pod_facts if former is not None and _same(former.pods, self.pods) else None
        object.__setattr__(self, "label_facts", labels or NodeLabels(self.name, self.labels))
        object.__setattr__(self, "pod_facts", pods or NodePods(self.pods))

    @property
    def plain_labels(self) -> Requirements:
        return self.label_facts.plain

    @property
    def host_labels(self) -> Requirements:
        return self.label_facts.host

    @property
    def hostname(self) -> str:
        return self.label_facts.hostname

    @property
    def pool(self) -> str:
        return self.labels.get(NODEPOOL) or ""

    @property
    def is_managed(self) -> bool:
        return bool(self.claim)

    @property
    def is_empty(self) -> bool:
        """Moving its pods costs nothing."""
        return self.pod_facts.cost <= BASE_COST

    @property
    def why_not_disruptable(self) -> str | None:
        """What keeps it from being disrupted, its pods aside. Source: ValidateNodeDisruptable."""
        if not self.is_managed:
            return "node isn't managed by karpenter"
        if not self.has_node:
            return "nodeclaim does not have an associated node"
        if not self.is_initialized:
            return "node isn't initialized"
        if self.is_marked_for_deletion:
            return "node is deleting or marked for deletion"
        if self.is_nominated:
            return "node is nominated for a pending pod"
        if (meta_of(self.node_object).get("annotations") or {}).get(DO_NOT_DISRUPT) == "true":
            return f'disruption is blocked through the "{DO_NOT_DISRUPT}" annotation'
        if not self.pool:
            return f"node doesn't have required label (label={NODEPOOL})"
        return None


def _same(a: tuple[Obj, ...], b: tuple[Obj, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def effective_taints(
    raw: Iterable[dict[str, object]] | None, startup: Iterable[dict[str, object]] | None, *, initialized: bool
) -> tuple[Taint, ...]:
    """The taints that count: until it is initialized, not those a managed node will lose."""
    taints = parse_taints(raw)
    if initialized:
        return taints
    starting = {(t.key, t.effect) for t in parse_taints(startup)}
    return tuple(t for t in taints if not is_ephemeral(t) and (t.key, t.effect) not in starting)
