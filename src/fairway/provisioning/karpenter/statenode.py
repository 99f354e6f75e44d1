"""A node as Karpenter's cluster state has it.

A `StateNode` is a Node, or a NodeClaim whose Node has not come yet; while it is not initialized its claim speaks for
it (labels, taints, what it will hold). Facts only; what they come to over all nodes: `nodes`.

Source: pkg/controllers/state/statenode.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairway.kube.objects import Obj, meta_of, status_of
from fairway.kube.resources import Resources
from fairway.kube.taints import Taint, parse_taints
from fairway.provisioning.karpenter.claimfacts import NO_CLAIM, ClaimFacts
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
EPHEMERAL_TAINTS: Final = frozenset(
    {
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        (UNREGISTERED_TAINT, "NoExecute"),
    }
)
_EPHEMERAL_PREFIX: Final = "readiness.k8s.io/"
# The inherent cost of draining a node. Source: PerNodeBaseDisruptionCost.
BASE_COST: Final = 1.0
# Of most nodes; nobody writes into them.
_NOTHING: Final[Resources] = {}
_NO_OBJECT: Final[Obj] = {}


def is_ephemeral(taint: Taint) -> bool:
    return (taint.key, taint.effect) in EPHEMERAL_TAINTS or taint.key.startswith(_EPHEMERAL_PREFIX)


class NodeLabels:
    """A node's labels as requirements, `plain` without and `host` with its hostname; worked out when asked for.

    Most nodes of a large fleet are full and never asked; the others are asked by every batch.
    """

    __slots__ = ("_host", "_name", "_plain", "labels", "pool")

    def __init__(self, name: str, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.pool = labels.get(NODEPOOL) or ""
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


class _BoundPod:
    """What one version of a pod on a node counts for."""

    __slots__ = ("cost", "is_active", "is_held", "is_movable", "keeps_off", "pod")

    def __init__(self, pod: Obj) -> None:
        self.pod = pod
        self.is_active = is_active(pod)
        self.is_movable = is_reschedulable(pod)
        self.cost = max(0.0, eviction_cost(pod)) if self.is_movable else 0.0
        self.is_held = self.is_active and DO_NOT_DISRUPT in (meta_of(pod).get("annotations") or ())
        is_over = status_of(pod).get("phase") in ("Failed", "Succeeded")
        self.keeps_off = not is_over and bool(anti_affinity_terms(pod["spec"]))


class NodePods:
    """What the pods of a node come to: who would have to move, at what cost, and who must not be disturbed.

    `cost`: of emptying the node; `active`: pods that count for others' spreads and affinities; of those, `held` ask
    not to be disrupted, for ever or for a time. `apart` keep others off by a required anti-affinity, until they ended.
    `former`: what the pods came to before; what is known of those that are the same objects is kept.
    """

    __slots__ = ("_bound", "active", "apart", "cost", "held", "movable")

    def __init__(self, pods: tuple[Obj, ...], former: NodePods | None = None) -> None:
        known: dict[int, _BoundPod] = {} if former is None else former._bound
        bound = [known.get(id(p)) or _BoundPod(p) for p in pods]
        self._bound: dict[int, _BoundPod] = {id(b.pod): b for b in bound}
        """By the pod's identity, which is its own while it is held here."""
        self.active = [b.pod for b in bound if b.is_active]
        self.movable = tuple([b.pod for b in bound if b.is_movable])
        self.cost = BASE_COST
        for one in bound:
            self.cost += one.cost
        self.held = [b.pod for b in bound if b.is_held]
        self.apart = [b.pod for b in bound if b.keeps_off]


class StateNode:
    """One node, as it is now. `available`: allocatable less what its pods ask; `rests_until_us`: while its
    consolidateAfter runs, no pod that could stay is moved onto it.

    `former`: the node as it was; what is known of its labels and pods is kept while those are the same objects.
    A plain class: one is made for every change of a node, and the interpreter runs what a dataclass generates.
    """

    __slots__ = (
        "available",
        "capacity",
        "claim",
        "claim_facts",
        "daemon_requests",
        "has_node",
        "is_initialized",
        "is_marked_for_deletion",
        "is_nominated",
        "is_ready",
        "label_facts",
        "labels",
        "name",
        "node_object",
        "pod_facts",
        "pods",
        "pool",
        "ports",
        "rests_until_us",
        "taints",
    )

    def __init__(
        self,
        name: str,
        labels: Mapping[str, str],
        taints: tuple[Taint, ...],
        capacity: Resources,
        available: Resources,
        *,
        daemon_requests: Resources = _NOTHING,
        ports: tuple[HostPort, ...] = (),
        claim_facts: ClaimFacts = NO_CLAIM,
        node_object: Obj = _NO_OBJECT,
        pods: tuple[Obj, ...] = (),
        has_node: bool = True,
        is_initialized: bool = True,
        is_ready: bool = True,
        is_marked_for_deletion: bool = False,
        is_nominated: bool = False,
        rests_until_us: int = 0,
        former: StateNode | None = None,
    ) -> None:
        self.name = name
        self.labels = labels
        self.taints = taints
        self.capacity = capacity
        self.available = available
        self.daemon_requests = daemon_requests
        self.ports = ports
        self.claim_facts = claim_facts
        self.claim = claim_facts.name
        self.node_object = node_object
        self.pods = pods
        self.has_node = has_node
        self.is_initialized = is_initialized
        self.is_ready = is_ready
        self.is_marked_for_deletion = is_marked_for_deletion
        self.is_nominated = is_nominated
        self.rests_until_us = rests_until_us
        self.label_facts: NodeLabels = _label_facts(name, labels, former)
        self.pool = self.label_facts.pool
        self.pod_facts: NodePods = _pod_facts(pods, former)

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


def _label_facts(name: str, labels: Mapping[str, str], former: StateNode | None) -> NodeLabels:
    return NodeLabels(name, labels) if former is None or former.labels is not labels else former.label_facts


def _pod_facts(pods: tuple[Obj, ...], former: StateNode | None) -> NodePods:
    if former is None:
        return NodePods(pods)
    return former.pod_facts if _same(former.pods, pods) else NodePods(pods, former.pod_facts)


def _same(a: tuple[Obj, ...], b: tuple[Obj, ...]) -> bool:
    if len(a) != len(b):
        return False
    for i in range(len(a)):  # noqa: SIM110 (a generator costs more than the few pods of a node)
        if a[i] is not b[i]:
            return False
    return True


def effective_taints(
    raw: Iterable[dict[str, object]] | None, startup: Iterable[dict[str, object]] | None, *, initialized: bool
) -> tuple[Taint, ...]:
    """The taints that count: until it is initialized, not those a managed node will lose."""
    taints = parse_taints(raw)
    if initialized:
        return taints
    starting = {(t.key, t.effect) for t in parse_taints(startup)}
    return tuple(t for t in taints if not is_ephemeral(t) and (t.key, t.effect) not in starting)
