"""The store as Karpenter's cluster state: nodes, claims, pods and what they take.

It follows the store change by change and notes which nodes are not what they were; when a decision is due, those are
made anew and the others kept. O(what changed) per decision.

Source: pkg/controllers/state/cluster.go, statenode.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.records import PodRecord
from fairway.cluster.store import Store
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of, namespace_of, spec_of, status_of
from fairway.kube.resources import PODS, Resources, add_into, parse_resources
from fairway.kube.taints import Taint, parse_taints
from fairway.kube.timestamps import SECOND_US
from fairway.kube.volumes import CLAIM
from fairway.provisioning.karpenter.claimfacts import NO_CLAIM, ClaimFacts
from fairway.provisioning.karpenter.disruption.evictions import budgets_of, is_currently_reschedulable
from fairway.provisioning.karpenter.disruption.marks import drift_reason, rests_until_us
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.labels import NODEPOOL, REGISTERED
from fairway.provisioning.karpenter.nodeclaims import INITIALIZED_CONDITION, LAUNCHED
from fairway.provisioning.karpenter.nodepools import NodePool, node_pool
from fairway.provisioning.karpenter.nodes import Nodes
from fairway.provisioning.karpenter.podfacts import HostPort, claims_devices, host_ports, is_owned_by
from fairway.provisioning.karpenter.statenode import StateNode, effective_taints
from fairway.provisioning.karpenter.volumetopology import (
    Alternatives,
    claim_problem,
    volume_alternatives,
)
from fairway.provisioning.karpenter.world import World

NODE_CLAIM: Final = "NodeClaim.karpenter.sh"
NODE_POOL: Final = "NodePool.karpenter.sh"
DAEMON_SET: Final = "DaemonSet.apps"
POLL_US: Final = 10 * SECOND_US
"""How often Karpenter looks at its cluster. Source: disruption/controller.go pollingPeriod."""


def claim_key(name: str) -> Key:
    # A tuple made directly: half the cost of the named constructor, a dozen times a job. So with nodes.
    return tuple.__new__(Key, (NODE_CLAIM, "", name))


def node_key(name: str) -> Key:
    return tuple.__new__(Key, ("Node", "", name))


def _raised(_pool: Obj, failed: Exception) -> None:
    raise failed


class ClusterState:
    """What Karpenter knows of a store, one per twin. A store's follower; forks begin anew."""

    def __init__(self, store: Store, left_out: Callable[[Obj, Exception], None] = _raised) -> None:
        """`left_out` is told of pools that cannot be read."""
        self._store = store
        self._left_out = left_out
        self._nodes = Nodes()
        self._stale: dict[str, None] = {}
        self._restated: dict[str, None] = {}
        """Nodes of which nothing is another that a pod to be placed would ask."""
        self._claims: dict[str, ClaimFacts] = {}
        """By their own names."""
        self._claim_of: dict[str, str] = {}
        """Claims by the name of their node, or by their own while that has not come."""
        self._objects: dict[str, Obj] = {}
        self._facts: dict[str, _NodeFacts] = {}
        """Of the nodes that are there."""
        self._turns: list[tuple[int, str]] = []
        """Until when nodes are promised."""
        self._going: dict[str, None] = {}
        self._left: dict[str, _Left] = {}
        self._pools: tuple[NodePool, ...] | None = None
        self._pool_named: dict[str, NodePool] = {}
        self._daemons: tuple[Obj, ...] | None = None
        self._namespaces: dict[str, Mapping[str, str]] | None = None
        self._drifts: dict[str, tuple[object, object, object, NodePool, str]] = {}
        for claim in store.objects(NODE_CLAIM):
            self._note_claim(claim)
        for node in store.objects("Node"):
            self._note_node(node)
        store.followers.append(self)

    # Following

    def apply(self, change: Change) -> None:
        gk = change.key[0]
        if gk == "Pod":
            node = spec_of(change.obj).get("nodeName")
            if node and node not in self._stale:
                stale = self._restated if _is_restated(change) else self._stale
                stale[node] = None
        elif gk == "Node":
            if change.type == DELETED:
                name = change.key[2]
                self._stale[name] = None
                self._objects.pop(name, None)
                self._facts.pop(name, None)
            else:
                self._note_node(change.obj)
        elif gk == NODE_CLAIM:
            if change.type == DELETED:
                self._forget_claim(change.obj)
            else:
                self._note_claim(change.obj)
        elif gk == NODE_POOL:
            self._pools = None
            self._stale.update(dict.fromkeys(n.name for n in self._nodes))
        elif gk == DAEMON_SET:
            self._daemons = None
        elif gk == "Namespace":
            self._namespaces = None

    def _note_node(self, node: Obj) -> None:
        name = name_of(node)
        self._objects[name] = node
        self._stale[name] = None

    def _note_claim(self, claim: Obj) -> None:
        name, node = name_of(claim), _node_name(claim)
        former = self._claims.get(name)
        facts = self._claims[name] = ClaimFacts(claim, former)
        if former is not None and self._claim_of.get(node) == name and node in self._objects:
            stale = self._restated if facts.is_restated(former) else self._stale
            stale[node] = None
            return
        before = node if former is None else _node_name(former.object)
        if before != node and self._claim_of.get(before) == name:
            del self._claim_of[before]
            self._stale[before] = None
        self._claim_of[node] = name
        self._stale[node] = None

    def _forget_claim(self, claim: Obj) -> None:
        name, node = name_of(claim), _node_name(claim)
        self._stale[node] = None
        self._claim_of.pop(node, None)
        self._claims.pop(name, None)
        self._drifts.pop(name, None)

    def touch(self, node: str) -> None:
        """It was promised to a pod."""
        self._stale[node] = None

    # What a decision sees

    def world(
        self,
        fleet: Fleet,
        *,
        going: Mapping[str, object],
        nominated: Mapping[str, int],
        now_us: int,
        is_to_place: bool = False,
    ) -> World:
        """Everything. `going`: nodes under a command; `nominated`: until when, by node name; `is_to_place`: pods are to
        be placed, no more, so that what is asked of nodes to disrupt them need not be of now.
        """
        for name in self._going.keys() ^ going.keys():
            self._stale[name] = None
        self._going = dict.fromkeys(going)
        while self._turns and self._turns[0][0] <= now_us:
            self._stale[heappop(self._turns)[1]] = None
        if not is_to_place:
            self._stale.update(self._restated)
        stale, self._stale = self._stale, {}
        pools = self.pools()
        for name in stale:
            self._restated.pop(name, None)
            self._renew(name, nominated.get(name, 0), now_us)
        if self._namespaces is None:
            self._namespaces = {name_of(n): labels_of(n) for n in self._store.objects("Namespace")}
        return World(
            pools=pools,
            fleets=dict.fromkeys(self._pool_named, fleet),
            nodes=self._nodes,
            daemons=self._daemon_pods(),
            namespaces=self._namespaces,
            volumes=_volumes(self._store),
            now_us=now_us,
        )

    def _renew(self, name: str, nominated_us: int, now_us: int) -> None:
        node, own = self._facts_of(name), self._claim_of.get(name)
        claim = None if own is None else self._claims.get(own)
        if node is not None:
            if nominated_us > now_us:
                heappush(self._turns, (nominated_us, name))
            self._nodes.put(self._state(node, claim, nominated_us > now_us))
        elif claim is not None:
            self._nodes.put(_coming(name, claim, name in self._going))
        else:
            self._nodes.drop(name)
            self._left.pop(name, None)

    def _facts_of(self, name: str) -> _NodeFacts | None:
        node = self._objects.get(name)
        if node is None:
            return None
        found = self._facts.get(name)
        if found is None or found.object is not node:
            found = self._facts[name] = _NodeFacts(name, node, found)
        return found

    def _state(self, node: _NodeFacts, claim: ClaimFacts | None, is_nominated: bool) -> StateNode:
        name = node.name
        labels, taints = node.labels, node.taints
        capacity, allocatable = node.capacity, node.allocatable
        is_initialized, rests_us = True, 0
        if claim is not None:
            is_registered = node.labels.get(REGISTERED) == "true"
            if not is_registered:
                labels = labels_of(claim.object)
            is_initialized = claim.is_true(INITIALIZED_CONDITION)
            if not is_initialized:
                capacity, allocatable = node.resources_before(claim)
                taints = node.taints_before(claim, is_registered)
            pool = self._pool_named.get(node.pool)
            rests_us = 0 if pool is None else rests_until_us(claim, pool)
        left = self._left_of(name, allocatable)
        former = self._nodes.get(name)
        pods = tuple([p for key in left.keys if (p := self._store.get(key)) is not None])
        return StateNode(
            name,
            labels,
            taints,
            capacity,
            left.available,
            daemon_requests=left.of_daemons,
            ports=left.ports,
            claim_facts=NO_CLAIM if claim is None else claim,
            node_object=node.object,
            pods=pods,
            is_initialized=is_initialized,
            is_ready=node.is_ready,
            is_marked_for_deletion=name in self._going
            or node.is_going
            or (claim is not None and claim.is_going),
            is_nominated=is_nominated,
            rests_until_us=rests_us,
            former=former,
        )

    def _left_of(self, name: str, allocatable: Resources) -> _Left:
        """What its pods leave of a node; the same object as long as nothing of that is another."""
        accounts = self._store.accounts
        row = accounts.row_of.get(name)
        records = accounts.pods[row] if row is not None else {}
        left = self._left.get(name)
        if left is None or left.allocatable is not allocatable or not left.is_of(records):
            left = self._left[name] = _Left(allocatable, records, self._store, left)
        return left

    def forget_pools(self) -> None:
        self._pools = None

    def pools(self) -> tuple[NodePool, ...]:
        if self._pools is None:
            read: list[NodePool] = []
            for obj in self._store.objects(NODE_POOL):
                try:
                    if not _is_going(obj):
                        read.append(node_pool(obj))
                except Exception as failed:
                    self._left_out(obj, failed)
            self._pools = tuple(read)
            self._pool_named = {p.name: p for p in self._pools}
        return self._pools

    def pool_named(self, name: str) -> NodePool | None:
        self.pools()
        return self._pool_named.get(name)

    def _daemon_pods(self) -> tuple[Obj, ...]:
        if self._daemons is None:
            pods = [_daemon_pod(d) for d in self._store.objects(DAEMON_SET)]
            # Those that claim devices are not counted on. Source: shouldSkipDaemonPod.
            self._daemons = tuple([p for p in pods if not claims_devices(spec_of(p))])
        return self._daemons

    # Of one claim

    def claim(self, name: str) -> ClaimFacts | None:
        """As it is in the store now."""
        return self._claims.get(name)

    def drift(self, claim: ClaimFacts, pool: NodePool, fleet: Fleet, now_us: int) -> str:
        """Why the claim drifted. A twin's types do not vanish: it depends on labels, annotations and the pool."""
        meta, name = meta_of(claim.object), claim.name
        labels, annotations, is_launched = (
            meta.get("labels"),
            meta.get("annotations"),
            claim.is_true(LAUNCHED),
        )
        found = self._drifts.get(name)
        if (
            found is None
            or found[0] is not labels
            or found[1] is not annotations
            or found[2] != is_launched
            or found[3] is not pool
        ):
            why = drift_reason(claim.object, pool, fleet, now_us)
            found = self._drifts[name] = (labels, annotations, is_launched, pool, why)
        return found[4]


class _NodeFacts:
    """What one version of a Node says; its resources are the same objects as long as nobody writes others."""

    __slots__ = (
        "_promised",
        "_raw",
        "allocatable",
        "capacity",
        "is_going",
        "is_ready",
        "labels",
        "name",
        "object",
        "pool",
        "taints",
    )

    def __init__(self, name: str, node: Obj, former: _NodeFacts | None) -> None:
        status = status_of(node)
        self.name = name
        self.object = node
        self.labels: Mapping[str, str] = labels_of(node)
        self.pool = self.labels.get(NODEPOOL) or ""
        self.taints = parse_taints(spec_of(node).get("taints"))
        self.is_ready = is_condition_true(status.get("conditions"), "Ready")
        self.is_going = _is_going(node)
        capacity, allocatable = status.get("capacity"), status.get("allocatable") or status.get("capacity")
        self._raw = (capacity, allocatable)
        self._promised: tuple[tuple[object, object], tuple[Resources, Resources]] | None = None
        if former is not None and former._raw[0] is capacity and former._raw[1] is allocatable:
            self.capacity: Resources = former.capacity
            self.allocatable: Resources = former.allocatable
        else:
            self.capacity, self.allocatable = parse_resources(capacity), parse_resources(allocatable)

    def resources_before(self, claim: ClaimFacts) -> tuple[Resources, Resources]:
        """Capacity and allocatable while its claim is not initialized: what the node does not say, or says is none,
        the claim promises (GPUs, until the device plugin is up). Source: StateNode.Capacity, Allocatable.
        """
        status = status_of(claim.object)
        raw = (status.get("capacity"), status.get("allocatable"))
        found = self._promised
        if found is None or found[0][0] is not raw[0] or found[0][1] is not raw[1]:
            both = (_with_promised(self.capacity, raw[0]), _with_promised(self.allocatable, raw[1]))
            found = self._promised = (raw, both)
        return found[1]

    def taints_before(self, claim: ClaimFacts, is_registered: bool) -> tuple[Taint, ...]:
        """Those that count while its claim is not initialized; until it is registered, of those the claim names."""
        spec = spec_of(claim.object)
        raw = spec_of(self.object).get("taints") if is_registered else spec.get("taints")
        return effective_taints(raw, spec.get("startupTaints"), initialized=False)


def _with_promised(own: Resources, promised: Mapping[str, Any] | None) -> Resources:
    """The same object where the node has everything."""
    more = {
        name: amount for name, amount in parse_resources(promised).items() if amount and not own.get(name)
    }
    return {**own, **more} if more else own


class _Left:
    """What the pods on a node leave of it. The accounts make a new record where a pod asks for something else."""

    __slots__ = ("_records", "allocatable", "available", "keys", "of_daemons", "ports")

    def __init__(
        self,
        allocatable: Resources,
        records: Mapping[Key, PodRecord],
        store: Store,
        former: _Left | None,
    ) -> None:
        self.allocatable = allocatable
        self._records = dict(records)
        self.keys = sorted(records)
        """The pods that hold something of the node, however many there have ended."""
        self.of_daemons: Resources = {}
        self.ports: tuple[HostPort, ...] = ()
        if former is None or former.allocatable is not allocatable or former.of_daemons or former.ports:
            self.available = dict(allocatable)
            came = self.keys
        else:
            self.available = dict(former.available)
            before = former._records
            came = [key for key in self.keys if before.get(key) is not records[key]]
            for key, record in before.items():
                if records.get(key) is not record:
                    self._take(record, -1)
        for key in came:
            self._take(records[key], 1)
            self._see(store.get(key), records[key])

    def _take(self, record: PodRecord, times: int) -> None:
        available = self.available
        # Compiled, a product of large integers costs ten times what a sum of them does.
        for name, amount in record.shape.requests.items():
            if name in available:
                available[name] += -amount if times > 0 else amount
        if PODS in available:
            available[PODS] -= times

    def _see(self, pod: Obj | None, record: PodRecord) -> None:
        """What is asked for by few: a pod of a DaemonSet, or one with host ports."""
        if pod is None:
            return
        if is_owned_by(pod, "DaemonSet"):
            add_into(self.of_daemons, {**record.shape.requests, PODS: 1})
        if record.shape.host_ports:
            self.ports += host_ports(pod["spec"])

    def is_of(self, records: Mapping[Key, PodRecord]) -> bool:
        """Whether these are the pods it was made of. Few nodes have many."""
        if len(records) != len(self._records):
            return False
        for key, record in records.items():  # noqa: SIM110 (a generator costs more than the few pods of a node)
            if self._records.get(key) is not record:
                return False
        return True


def _volumes(store: Store) -> dict[str, Alternatives]:
    """Where pods' volumes may be, by uid. O(pods), where there are any claims."""
    if not store.count(CLAIM):
        return {}
    found = ((meta_of(p)["uid"], volume_alternatives(store, p)) for p in store.objects("Pod"))
    return {uid: terms for uid, terms in found if terms}


def by_claims(store: Store, pods: Sequence[Obj]) -> tuple[list[Obj], list[tuple[Obj, str]]]:
    """Pods whose PersistentVolumeClaims are in order, and the others with what is wrong."""
    problems = [(p, claim_problem(store, p)) for p in pods]
    return [p for p, why in problems if not why], [(p, why) for p, why in problems if why]


def moving_pods(store: Store, world: World) -> list[Obj]:
    """Pods of nodes that are going, as far as they can be moved now. Source: StateNode.CurrentlyReschedulablePods."""
    going = world.nodes.named(world.nodes.marked)
    if not going:
        return []
    budgets = budgets_of(store.objects("PodDisruptionBudget.policy"))
    return [
        p for n in going for p in n.pod_facts.movable if is_currently_reschedulable(p, budgets, world.now_us)
    ]


def is_pod_event(change: Change) -> bool:
    """Whether a pod was bound to its node, ended there, or begins to go; one that ended and then goes counts twice.

    Source: nodeclaim/podevents/controller.go.
    """
    pod, old = change.obj, change.old
    if change.type == DELETED:
        return False
    came = old is None or not spec_of(old).get("nodeName")
    if not came and old is not None:
        ended = _is_over(pod) and not _is_over(old)
        came = ended or (_is_going(pod) and not _is_going(old))
    return came and not is_owned_by(pod, "DaemonSet")


def _is_over(pod: Obj) -> bool:
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def _is_restated(change: Change) -> bool:
    """Whether all that a pod on a node did is to say how it fares: not that it ended, nor that it goes."""
    pod, old = change.obj, change.old
    if old is None or change.type == DELETED:
        return False
    meta, before = meta_of(pod), meta_of(old)
    return (
        pod.get("spec") is old.get("spec")
        and meta.get("labels") is before.get("labels")
        and meta.get("annotations") is before.get("annotations")
        and meta.get("ownerReferences") is before.get("ownerReferences")
        and _is_over(pod) == _is_over(old)
        and _is_going(pod) == _is_going(old)
    )


def machines_of(store: Store) -> list[Obj]:
    """The machines the cloud has given out: launched claims, and whatever else is a node."""
    claims = store.objects(NODE_CLAIM)
    named = {name_of(c) for c in claims}
    return [*claims, *(n for n in store.objects("Node") if name_of(n) not in named)]


def names_expiry(pool: Obj) -> bool:
    """Whether the NodePool itself says when its nodes expire."""
    template = spec_of(pool).get("template") or {}
    return "expireAfter" in (template.get("spec") or {})


def _node_name(claim: Obj) -> str:
    return status_of(claim).get("nodeName") or name_of(claim)


def _is_going(obj: Obj) -> bool:
    return "deletionTimestamp" in meta_of(obj)


def _coming(name: str, claim: ClaimFacts, is_leaving: bool) -> StateNode:
    """A claim whose node has not come: what it will be."""
    spec, status = claim.object.get("spec") or {}, claim.object.get("status") or {}
    return StateNode(
        name,
        labels_of(claim.object),
        effective_taints(spec.get("taints"), (), initialized=False),
        parse_resources(status.get("capacity")),
        parse_resources(status.get("allocatable")),
        claim_facts=claim,
        has_node=False,
        is_initialized=False,
        is_ready=False,
        is_marked_for_deletion=is_leaving or claim.is_going,
    )


def _daemon_pod(daemon_set: Obj) -> Obj:
    template = spec_of(daemon_set).get("template") or {}
    meta = {
        **(template.get("metadata") or {}),
        "name": name_of(daemon_set),
        "namespace": namespace_of(daemon_set),
    }
    return {"metadata": meta, "spec": template.get("spec") or {}}
