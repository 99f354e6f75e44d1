"""The store as Karpenter's cluster state: nodes, claims, pods and what they take.

Source: pkg/controllers/state/statenode.go, cluster.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairway.cluster.store import Store
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of, namespace_of
from fairway.kube.resources import Resources, add_into, parse_resources
from fairway.provisioning.karpenter.disruption.marks import is_under_consolidate_after
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.nodeclaims import INITIALIZED_CONDITION, is_true
from fairway.provisioning.karpenter.nodepools import NodePool, node_pool
from fairway.provisioning.karpenter.podfacts import host_ports, is_active, is_owned_by, requests_of
from fairway.provisioning.karpenter.world import BoundPod, StateNode, World, effective_taints

NODE_CLAIM, NODE_POOL = "NodeClaim.karpenter.sh", "NodePool.karpenter.sh"


def claim_key(name: str) -> Key:
    return Key(NODE_CLAIM, "", name)


def node_key(name: str) -> Key:
    return Key("Node", "", name)


def pools_of(store: Store) -> tuple[NodePool, ...]:
    return tuple(node_pool(o) for o in store.objects(NODE_POOL) if "deletionTimestamp" not in meta_of(o))


def world_of(
    store: Store, fleet: Fleet, *, going: Mapping[str, object], nominated: Mapping[str, int], now_us: int
) -> World:
    """Everything one decision sees. `going`: nodes under a command; `nominated`: until when, by node name."""
    pools = pools_of(store)
    by_node = _pods_by_node(store)
    by_name = {p.name: p for p in pools}
    claims = {(c.get("status") or {}).get("nodeName") or name_of(c): c for c in store.objects(NODE_CLAIM)}
    nodes = [
        _node(
            node,
            claims.pop(name_of(node), None),
            by_node.get(name_of(node), []),
            by_name,
            going,
            nominated,
            now_us,
        )
        for node in store.objects("Node")
    ]
    nodes += [_coming(name, claim, going) for name, claim in claims.items()]
    bound = tuple(
        BoundPod(meta_of(p)["uid"], namespace_of(p), labels_of(p), node, p["spec"])
        for node, pods in sorted(by_node.items())
        for p in pods
        if is_active(p)
    )
    return World(
        pools=pools,
        fleets={p.name: fleet for p in pools},
        nodes=tuple(nodes),
        daemons=tuple(_daemon_pod(d) for d in store.objects("DaemonSet.apps")),
        bound=bound,
        namespaces={name_of(n): labels_of(n) for n in store.objects("Namespace")},
    )


def _pods_by_node(store: Store) -> dict[str, list[Obj]]:
    """The pods that hold something of a node: O(nodes and those), however many pods have ended."""
    accounts = store.accounts
    found: dict[str, list[Obj]] = {}
    for node, row in accounts.row_of.items():
        pods = (store.get(key) for key in sorted(accounts.pods[row]))
        found[node] = [p for p in pods if p is not None]
    return found


def _node(
    node: Obj,
    claim: Obj | None,
    pods: list[Obj],
    pools: Mapping[str, NodePool],
    going: Mapping[str, object],
    nominated: Mapping[str, int],
    now_us: int,
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
    pool = pools.get(labels_of(node).get("karpenter.sh/nodepool") or "")
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
        is_marked_for_deletion=name in going or _is_going(node) or (claim is not None and _is_going(claim)),
        is_nominated=nominated.get(name, 0) > now_us,
        is_under_consolidate_after=(
            claim is not None and pool is not None and is_under_consolidate_after(claim, pool, now_us)
        ),
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
