"""The store as Karpenter's cluster state: nodes, claims, pods and what they take.

Source: pkg/controllers/state/statenode.go, cluster.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairway.cluster.store import Store
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of, namespace_of
from fairway.kube.resources import Resources, add_into, parse_resources
from fairway.provisioning.karpenter.disruption.marks import consolidatable_at_us, drift_reason
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.nodeclaims import INITIALIZED_CONDITION, LAUNCHED, is_true
from fairway.provisioning.karpenter.nodepools import NodePool, node_pool
from fairway.provisioning.karpenter.podfacts import host_ports, is_active, is_owned_by, requests_of
from fairway.provisioning.karpenter.volumetopology import CLAIM, claim_problem, volume_alternatives
from fairway.provisioning.karpenter.world import BoundPod, StateNode, World, effective_taints

NODE_CLAIM, NODE_POOL = "NodeClaim.karpenter.sh", "NodePool.karpenter.sh"


def claim_key(name: str) -> Key:
    return Key(NODE_CLAIM, "", name)


def node_key(name: str) -> Key:
    return Key("Node", "", name)


class Remembered:
    """What was made of nodes and pools before, as long as they are the same objects. Forks begin anew."""

    __slots__ = ("drifts", "due", "nodes", "pools", "pools_from")

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[tuple[object, ...], list[Obj], StateNode, tuple[BoundPod, ...]]] = {}
        self.pools_from: list[Obj] = []
        self.pools: tuple[NodePool, ...] = ()
        self.drifts: dict[str, tuple[object, object, object, NodePool, str]] = {}
        self.due: dict[str, tuple[Obj, NodePool, int | None]] = {}

    def pools_of(self, store: Store) -> tuple[NodePool, ...]:
        objects = store.objects(NODE_POOL)
        if not _same(objects, self.pools_from):
            self.pools_from, self.pools = list(objects), pools_of(store)
        return self.pools

    def due_us(self, claim: Obj, pool: NodePool) -> int | None:
        """When the claim may be consolidated."""
        found = self.due.get(name_of(claim))
        if found is None or found[0] is not claim or found[1] is not pool:
            found = self.due[name_of(claim)] = (claim, pool, consolidatable_at_us(claim, pool))
        return found[2]

    def drift(self, claim: Obj, pool: NodePool, fleet: Fleet, now_us: int) -> str:
        """Why the claim drifted. A twin's types do not vanish: it depends on labels, annotations and the pool."""
        meta, name = meta_of(claim), name_of(claim)
        parts = (meta.get("labels"), meta.get("annotations"), is_true(claim, LAUNCHED))
        found = self.drifts.get(name)
        if (
            found is None
            or found[0] is not parts[0]
            or found[1] is not parts[1]
            or found[2] != parts[2]
            or found[3] is not pool
        ):
            found = self.drifts[name] = (*parts, pool, drift_reason(claim, pool, fleet, now_us))
        return found[4]

    def forget(self, name: str) -> None:
        self.drifts.pop(name, None)
        self.nodes.pop(name, None)
        self.due.pop(name, None)


def _same(a: Sequence[object], b: Sequence[object]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def pools_of(store: Store) -> tuple[NodePool, ...]:
    return tuple(node_pool(o) for o in store.objects(NODE_POOL) if "deletionTimestamp" not in meta_of(o))


def world_of(
    store: Store,
    fleet: Fleet,
    known: Remembered,
    *,
    going: Mapping[str, object],
    nominated: Mapping[str, int],
    now_us: int,
) -> World:
    """Everything one decision sees. `going`: nodes under a command; `nominated`: until when, by node name.

    O(nodes) where little changed since the last one.
    """
    pools = known.pools_of(store)
    by_name = {p.name: p for p in pools}
    claims = {(c.get("status") or {}).get("nodeName") or name_of(c): c for c in store.objects(NODE_CLAIM)}
    nodes: list[StateNode] = []
    bound: list[BoundPod] = []
    for obj in store.objects("Node"):
        name = name_of(obj)
        claim, pods = claims.pop(name, None), _pods_of(store, name)
        pool = by_name.get(labels_of(obj).get("karpenter.sh/nodepool") or "")
        due_us = known.due_us(claim, pool) if claim is not None and pool is not None else None
        is_resting = (
            due_us is not None and pool is not None and bool(pool.consolidate_after_us) and now_us < due_us
        )
        flags = (name in going, nominated.get(name, 0) > now_us, is_resting)
        found = known.nodes.get(name)
        if (
            found is None
            or found[0][0] is not obj
            or found[0][1] is not claim
            or found[0][2:] != flags
            or not _same(pods, found[1])
        ):
            state = _node(obj, claim, pods, *flags)
            on_it = tuple(
                BoundPod(meta_of(p)["uid"], namespace_of(p), labels_of(p), name, p["spec"])
                for p in pods
                if is_active(p)
            )
            found = known.nodes[name] = ((obj, claim, *flags), pods, state, on_it)
        nodes.append(found[2])
        bound += found[3]
    nodes += [_coming(name, claim, going) for name, claim in claims.items()]
    return World(
        pools=pools,
        fleets={p.name: fleet for p in pools},
        nodes=tuple(nodes),
        daemons=tuple(_daemon_pod(d) for d in store.objects("DaemonSet.apps")),
        bound=tuple(bound),
        namespaces={name_of(n): labels_of(n) for n in store.objects("Namespace")},
    )


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


def names_expiry(pool: Obj) -> bool:
    """Whether the NodePool itself says when its nodes expire."""
    template = (pool.get("spec") or {}).get("template") or {}
    return "expireAfter" in (template.get("spec") or {})


Usage = dict[str, dict[str, int]]
"""What the nodes of each NodePool come to; `nodes` counts them."""


def usage_of(world: World) -> Usage:
    used: Usage = {}
    for node in world.nodes:
        if node.pool:
            add_usage(used, node.pool, node.capacity)
    return used


def add_usage(used: Usage, pool: str, capacity: Mapping[str, int]) -> None:
    """One more node of the pool."""
    of_pool = used.setdefault(pool, {})
    of_pool["nodes"] = of_pool.get("nodes", 0) + 1
    for resource, amount in capacity.items():
        of_pool[resource] = of_pool.get(resource, 0) + amount


def _pods_of(store: Store, node: str) -> list[Obj]:
    """The pods that hold something of a node, however many there have ended."""
    accounts = store.accounts
    row = accounts.row_of.get(node)
    if row is None:
        return []
    return [p for key in sorted(accounts.pods[row]) if (p := store.get(key)) is not None]


def _node(
    node: Obj, claim: Obj | None, pods: list[Obj], is_leaving: bool, is_nominated: bool, is_resting: bool
) -> StateNode:
    name, status, spec = name_of(node), node.get("status") or {}, node.get("spec") or {}
    taken: Resources = {}
    of_daemons: Resources = {}
    for pod in pods:
        requests = requests_of(pod["spec"])
        add_into(taken, requests)
        if is_owned_by(pod, "DaemonSet"):
            add_into(of_daemons, requests)
    allocatable = parse_resources(status.get("allocatable") or status.get("capacity"))
    initialized = claim is None or is_true(claim, INITIALIZED_CONDITION)
    startup = ((claim or {}).get("spec") or {}).get("startupTaints")
    return StateNode(
        name=name,
        labels=labels_of(node),
        taints=effective_taints(spec.get("taints"), startup, initialized=initialized),
        capacity=parse_resources(status.get("capacity")),
        available={n: v - taken.get(n, 0) for n, v in allocatable.items()},
        daemon_requests=of_daemons,
        ports=tuple(p for pod in pods for p in host_ports(pod["spec"])),
        claim=name_of(claim) if claim is not None else "",
        is_initialized=initialized,
        is_ready=is_condition_true(status.get("conditions"), "Ready"),
        is_marked_for_deletion=is_leaving or _is_going(node) or (claim is not None and _is_going(claim)),
        is_nominated=is_nominated,
        is_under_consolidate_after=is_resting,
        claim_object=claim or {},
        node_object=node,
        pods=tuple(pods),
    )


def _is_going(obj: Obj) -> bool:
    return "deletionTimestamp" in meta_of(obj)


def _coming(name: str, claim: Obj, going: Mapping[str, object]) -> StateNode:
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
        is_marked_for_deletion=name in going or _is_going(claim),
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
