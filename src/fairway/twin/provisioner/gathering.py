"""The store as Karpenter's cluster state: nodes, claims, pods and what they take.

It follows the store change by change and notes which nodes are not what they were; when a decision is due, those are
made anew and the others kept. O(what changed) per decision.

Source: pkg/controllers/state/cluster.go, statenode.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.records import PodRecord
from fairway.cluster.store import Store
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of, namespace_of
from fairway.kube.resources import PODS, Resources, add_into, parse_resources
from fairway.provisioning.karpenter.disruption.marks import consolidatable_at_us, drift_reason
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.labels import NODEPOOL
from fairway.provisioning.karpenter.nodeclaims import INITIALIZED_CONDITION, LAUNCHED, is_true
from fairway.provisioning.karpenter.nodepools import NodePool, node_pool
from fairway.provisioning.karpenter.nodes import Nodes
from fairway.provisioning.karpenter.podfacts import HostPort, host_ports, is_owned_by
from fairway.provisioning.karpenter.statenode import StateNode, effective_taints
from fairway.provisioning.karpenter.volumetopology import CLAIM, claim_problem, volume_alternatives
from fairway.provisioning.karpenter.world import World

NODE_CLAIM, NODE_POOL, DAEMON_SET = "NodeClaim.karpenter.sh", "NodePool.karpenter.sh", "DaemonSet.apps"


def claim_key(name: str) -> Key:
    return Key(NODE_CLAIM, "", name)


def node_key(name: str) -> Key:
    return Key("Node", "", name)


class ClusterState:
    """What Karpenter knows of a store, one per twin. A store's follower; forks begin anew."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._nodes = Nodes()
        self._stale: dict[str, None] = {}
        self._claim_of: dict[str, str] = {}
        """Claims by the name of their node, or by their own while that has not come."""
        self._turns: list[tuple[int, str]] = []
        """Until when nodes are promised or rest."""
        self._going: dict[str, None] = {}
        self._resources: dict[str, tuple[object, Resources]] = {}
        self._left: dict[str, _Left] = {}
        self._pools_from: list[Obj] = []
        self._pools: tuple[NodePool, ...] = ()
        self._daemons_from: list[Obj] = []
        self._daemons: tuple[Obj, ...] = ()
        self._drifts: dict[str, tuple[object, object, object, NodePool, str]] = {}
        self._due: dict[str, tuple[Obj, NodePool, int | None]] = {}
        for gk in (NODE_CLAIM, "Node"):
            for obj in store.objects(gk):
                self._note(gk, obj)
        store.followers.append(self)

    # Following

    def apply(self, change: Change) -> None:
        gk = change.key[0]
        if gk == "Pod":
            node = (change.obj.get("spec") or {}).get("nodeName")
            if node:
                self._stale[node] = None
        elif gk == "Node":
            self._stale[change.key[2]] = None
        elif gk == NODE_CLAIM:
            if change.old is not None:
                self._note(gk, change.old)
            if change.type == DELETED:
                self._claim_of.pop(_node_name(change.obj), None)
                self._drifts.pop(change.key[2], None)
                self._due.pop(change.key[2], None)
            else:
                self._note(gk, change.obj)
        elif gk == NODE_POOL:
            self._stale.update(dict.fromkeys(n.name for n in self._nodes))

    def _note(self, gk: str, obj: Obj) -> None:
        name = name_of(obj)
        if gk == NODE_CLAIM:
            node = _node_name(obj)
            if node != name and self._claim_of.get(name) == name:
                del self._claim_of[name]
                self._stale[name] = None
            self._claim_of[node] = name
            name = node
        self._stale[name] = None

    def touch(self, node: str) -> None:
        """It was promised to a pod."""
        self._stale[node] = None

    # What a decision sees

    def world(
        self, fleet: Fleet, *, going: Mapping[str, object], nominated: Mapping[str, int], now_us: int
    ) -> World:
        """Everything. `going`: nodes under a command; `nominated`: until when, by node name."""
        for name in self._going.keys() ^ going.keys():
            self._stale[name] = None
        self._going = dict.fromkeys(going)
        while self._turns and self._turns[0][0] <= now_us:
            self._stale[heappop(self._turns)[1]] = None
        stale, self._stale = self._stale, {}
        pools = self.pools()
        by_name = {p.name: p for p in pools}
        for name in stale:
            self._renew(name, by_name, nominated.get(name, 0), now_us)
        return World(
            pools=pools,
            fleets=dict.fromkeys(by_name, fleet),
            nodes=self._nodes,
            daemons=self._daemon_pods(),
            namespaces={name_of(n): labels_of(n) for n in self._store.objects("Namespace")},
        )

    def _renew(self, name: str, pools: Mapping[str, NodePool], nominated_us: int, now_us: int) -> None:
        node, own = self._store.get(node_key(name)), self._claim_of.get(name)
        claim = None if own is None else self._store.get(claim_key(own))
        if node is not None:
            due_us = self._resting_until_us(node, claim, pools)
            for until_us in (due_us, nominated_us):
                if until_us > now_us:
                    heappush(self._turns, (until_us, name))
            self._nodes.put(self._state(node, claim, nominated_us > now_us, due_us > now_us))
        elif claim is not None:
            self._nodes.put(_coming(name, claim, name in self._going))
        else:
            self._nodes.drop(name)
            for what in (name, _capacity(name)):
                self._resources.pop(what, None)
            self._left.pop(name, None)

    def _resting_until_us(self, node: Obj, claim: Obj | None, pools: Mapping[str, NodePool]) -> int:
        """While its consolidateAfter runs no pod that could stay is moved onto it; 0: it does not rest."""
        pool = pools.get(labels_of(node).get(NODEPOOL) or "")
        if claim is None or pool is None or not pool.consolidate_after_us:
            return 0
        return self.due_us(claim, pool) or 0

    def _state(self, node: Obj, claim: Obj | None, is_nominated: bool, is_resting: bool) -> StateNode:
        name, status, spec = name_of(node), node.get("status") or {}, node.get("spec") or {}
        records = self._records(name)
        pods = [p for r in records if (p := self._store.get(r.key)) is not None]
        allocatable = self._parsed(name, status.get("allocatable") or status.get("capacity"))
        left = self._left.get(name)
        if left is None or left.allocatable is not allocatable or not _same(left.records, records):
            left = self._left[name] = _left(allocatable, records, pods)
        initialized = claim is None or is_true(claim, INITIALIZED_CONDITION)
        startup = ((claim or {}).get("spec") or {}).get("startupTaints")
        return StateNode(
            name=name,
            labels=labels_of(node),
            taints=effective_taints(spec.get("taints"), startup, initialized=initialized),
            capacity=self._parsed(_capacity(name), status.get("capacity")),
            available=left.available,
            daemon_requests=left.of_daemons,
            ports=left.ports,
            claim=name_of(claim) if claim is not None else "",
            is_initialized=initialized,
            is_ready=is_condition_true(status.get("conditions"), "Ready"),
            is_marked_for_deletion=name in self._going
            or _is_going(node)
            or (claim is not None and _is_going(claim)),
            is_nominated=is_nominated,
            is_under_consolidate_after=is_resting,
            claim_object=claim or {},
            node_object=node,
            pods=tuple(pods),
            former=self._nodes.get(name),
        )

    def _records(self, node: str) -> list[PodRecord]:
        """The pods that hold something of a node, however many there have ended; by name."""
        accounts = self._store.accounts
        row = accounts.row_of.get(node)
        if row is None:
            return []
        records = accounts.pods[row]
        return [records[key] for key in sorted(records)]

    def _parsed(self, what: str, raw: Mapping[str, object] | None) -> Resources:
        """A node's resources; they are the same object as long as nobody writes others."""
        found = self._resources.get(what)
        if found is None or found[0] is not raw:
            found = self._resources[what] = (raw, parse_resources(raw))
        return found[1]

    def pools(self) -> tuple[NodePool, ...]:
        objects = self._store.objects(NODE_POOL)
        if not _same(objects, self._pools_from):
            self._pools_from = objects
            self._pools = tuple(node_pool(o) for o in objects if not _is_going(o))
        return self._pools

    def _daemon_pods(self) -> tuple[Obj, ...]:
        objects = self._store.objects(DAEMON_SET)
        if not _same(objects, self._daemons_from):
            self._daemons_from, self._daemons = objects, tuple(_daemon_pod(d) for d in objects)
        return self._daemons

    # Of one claim

    def due_us(self, claim: Obj, pool: NodePool) -> int | None:
        """When the claim may be consolidated."""
        found = self._due.get(name_of(claim))
        if found is None or found[0] is not claim or found[1] is not pool:
            found = self._due[name_of(claim)] = (claim, pool, consolidatable_at_us(claim, pool))
        return found[2]

    def drift(self, claim: Obj, pool: NodePool, fleet: Fleet, now_us: int) -> str:
        """Why the claim drifted. A twin's types do not vanish: it depends on labels, annotations and the pool."""
        meta, name = meta_of(claim), name_of(claim)
        parts = (meta.get("labels"), meta.get("annotations"), is_true(claim, LAUNCHED))
        found = self._drifts.get(name)
        if (
            found is None
            or found[0] is not parts[0]
            or found[1] is not parts[1]
            or found[2] != parts[2]
            or found[3] is not pool
        ):
            found = self._drifts[name] = (*parts, pool, drift_reason(claim, pool, fleet, now_us))
        return found[4]


class _Left:
    """What the pods on a node leave of it. The accounts make a new record where a pod asks for something else."""

    __slots__ = ("allocatable", "available", "of_daemons", "ports", "records")

    def __init__(self, allocatable: Resources, records: list[PodRecord]) -> None:
        self.allocatable = allocatable
        self.records = records
        self.available: Resources = {}
        self.of_daemons: Resources = {}
        self.ports: tuple[HostPort, ...] = ()


def _left(allocatable: Resources, records: list[PodRecord], pods: Sequence[Obj]) -> _Left:
    made = _Left(allocatable, records)
    taken: Resources = {PODS: len(records)}
    for record, pod in zip(records, pods, strict=True):
        add_into(taken, record.shape.requests)
        if is_owned_by(pod, "DaemonSet"):
            add_into(made.of_daemons, {**record.shape.requests, PODS: 1})
        if record.shape.host_ports:
            made.ports += host_ports(pod["spec"])
    made.available = {n: v - taken.get(n, 0) for n, v in allocatable.items()}
    return made


def _capacity(node: str) -> str:
    """Where its capacity is remembered, beside what is allocatable."""
    return f"{node}/capacity"


def with_volumes(world: World, store: Store) -> World:
    """The world with where pods' volumes may be. O(pods), where there are any claims."""
    if not store.count(CLAIM):
        return world
    found = ((meta_of(p)["uid"], volume_alternatives(store, p)) for p in store.objects("Pod"))
    return replace(world, volumes={uid: terms for uid, terms in found if terms})


def by_claims(store: Store, pods: Sequence[Obj]) -> tuple[list[Obj], list[tuple[Obj, str]]]:
    """Pods whose PersistentVolumeClaims are in order, and the others with what is wrong."""
    problems = [(p, claim_problem(store, p)) for p in pods]
    return [p for p, why in problems if not why], [(p, why) for p, why in problems if why]


def is_pod_event(change: Change) -> bool:
    """Whether a pod was bound to its node, ended there, or begins to go; one that ended and then goes counts twice.

    Source: nodeclaim/podevents/controller.go.
    """
    pod, old = change.obj, change.old
    if is_owned_by(pod, "DaemonSet") or change.type == DELETED:
        return False
    if old is None or not (old.get("spec") or {}).get("nodeName"):
        return True
    ended = _is_over(pod) and not _is_over(old)
    return ended or (_is_going(pod) and not _is_going(old))


def _is_over(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def machines_of(store: Store) -> list[Obj]:
    """The machines the cloud has given out: launched claims, and whatever else is a node."""
    claims = store.objects(NODE_CLAIM)
    named = {name_of(c) for c in claims}
    return [*claims, *(n for n in store.objects("Node") if name_of(n) not in named)]


def names_expiry(pool: Obj) -> bool:
    """Whether the NodePool itself says when its nodes expire."""
    template = (pool.get("spec") or {}).get("template") or {}
    return "expireAfter" in (template.get("spec") or {})


def _node_name(claim: Obj) -> str:
    return (claim.get("status") or {}).get("nodeName") or name_of(claim)


def _same(a: Sequence[object], b: Sequence[object]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _is_going(obj: Obj) -> bool:
    return "deletionTimestamp" in meta_of(obj)


def _coming(name: str, claim: Obj, is_leaving: bool) -> StateNode:
    """A claim whose node has not come: what it will be."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    return StateNode(
        name=name,
        labels=labels_of(claim),
        taints=effective_taints(spec.get("taints"), (), initialized=False),
        capacity=parse_resources(status.get("capacity")),
        available=parse_resources(status.get("allocatable")),
        claim=name_of(claim),
        has_node=False,
        is_initialized=False,
        is_ready=False,
        is_marked_for_deletion=is_leaving or _is_going(claim),
        claim_object=claim,
    )


def _daemon_pod(daemon_set: Obj) -> Obj:
    template = (daemon_set.get("spec") or {}).get("template") or {}
    meta = {
        **(template.get("metadata") or {}),
        "name": name_of(daemon_set),
        "namespace": namespace_of(daemon_set),
    }
    return {"metadata": meta, "spec": template.get("spec") or {}}
