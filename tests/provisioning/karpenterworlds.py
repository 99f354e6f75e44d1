"""Small worlds for Karpenter's engine: types, NodePools, pods and nodes, one line each."""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj
from fairway.kube.resources import Resources, parse_resources
from fairway.kube.taints import parse_taints
from fairway.kube.timestamps import rfc3339
from fairway.provisioning.karpenter.claimfacts import ClaimFacts
from fairway.provisioning.karpenter.disruption.context import DisruptionContext
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.instancetypes import GIB, InstanceType, Offering
from fairway.provisioning.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    OS,
    SPOT,
    ZONE,
)
from fairway.provisioning.karpenter.nodepools import NodePool, node_pool
from fairway.provisioning.karpenter.nodes import Nodes
from fairway.provisioning.karpenter.packing import Options, Results, Solver
from fairway.provisioning.karpenter.podfacts import Shapes, facts_of
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.provisioning.karpenter.world import World

NOW_US = 1_800_000_000_000_000
ZONES = ("zone-1", "zone-2", "zone-3")
FAMILY = "fairway.dev/instance-family"
GPU = "nvidia.com/gpu"


def kind(
    name: str,
    cpu: int,
    memory_gib: int | None = None,
    *,
    gpu: int = 0,
    price: int | None = None,
    spot: int | None = None,
    zones: tuple[str, ...] = ZONES,
    pods: int = 110,
    arch: str = "amd64",
    overhead: Resources | None = None,
    sold_out: tuple[tuple[str, str], ...] = (),
) -> InstanceType:
    """A type; `price` and `spot` in µ$ an hour (spot None: not offered)."""
    on_demand = cpu * 50_000 + gpu * 1_000_000 if price is None else price
    offered = [(zone, ON_DEMAND, on_demand) for zone in zones if on_demand >= 0]
    offered += [(zone, SPOT, spot) for zone in zones] if spot is not None else []  # type: ignore[misc]
    offerings = tuple(Offering(z, c, p, (z, c) not in sold_out) for z, c, p in offered)
    labels = [
        one_of(INSTANCE_TYPE, (name,)),
        one_of(ARCH, (arch,)),
        one_of(OS, ("linux",)),
        one_of(FAMILY, (name.partition(".")[0],)),
        one_of("fairway.dev/instance-cpu", (str(cpu),)),
        one_of("fairway.dev/instance-gpu-count", (str(gpu),) if gpu else ()),
        one_of(ZONE, {o.zone for o in offerings}),
        one_of(CAPACITY_TYPE, {o.capacity_type for o in offerings}),
    ]
    memory = (memory_gib if memory_gib is not None else 4 * cpu) * GIB
    capacity = {"cpu": cpu * 1000, "memory": memory, "pods": pods, **({GPU: gpu} if gpu else {})}
    return InstanceType(name, Requirements(labels), offerings, capacity, overhead or {})


def pool(name: str = "default", **spec: Any) -> NodePool:
    return node_pool(pool_object(name, **spec))


def pool_object(
    name: str = "default",
    *,
    requirements: list[dict[str, Any]] | None = None,
    taints: list[dict[str, str]] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Obj:
    of_node = {
        "requirements": requirements or [],
        "taints": taints or [],
        "nodeClassRef": {"group": "example.com", "kind": "NodeClass", "name": "default"},
    }
    template = {"metadata": {"labels": labels or {}}, "spec": of_node}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def wants(key: str, operator: str, *values: str, least: int | None = None) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values), "minValues": least}


def pod(
    name: str, cpu: str = "1", memory: str = "1Gi", *, gpu: int = 0, labels: dict[str, str] | None = None,
    node: str = "", **spec: Any
) -> Obj:  # fmt: skip
    requests = {"cpu": cpu, "memory": memory, **({GPU: str(gpu)} if gpu else {})}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}, **spec.pop("container", {})}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    metadata["annotations"] = spec.pop("annotations", {})
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    made = {"containers": [container], **spec, **({"nodeName": node} if node else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": made,
        "status": {"phase": "Running"} if node else status,
    }


def state_node(
    name: str,
    of: InstanceType,
    pods: tuple[Obj, ...] = (),
    *,
    owner: str = "default",
    zone: str = ZONES[0],
    capacity_type: str = ON_DEMAND,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    consolidatable: bool = True,
    drifted_s: int | None = None,
    **state: Any,
) -> StateNode:
    """A node of this type that runs these pods."""
    asked: Resources = {}
    for p in pods:
        for resource, amount in {**_requests(p), "pods": 1}.items():
            asked[resource] = asked.get(resource, 0) + amount
    own = {
        NODEPOOL: owner,
        INSTANCE_TYPE: of.name,
        ZONE: zone,
        CAPACITY_TYPE: capacity_type,
        HOSTNAME: name,
        ARCH: "amd64",
        **(labels or {}),
    }
    now = rfc3339(NOW_US - 3600 * 10**6)
    conditions = [
        {"type": t, "status": "True", "lastTransitionTime": now}
        for t in ("Launched", "Registered", "Initialized", *(["Consolidatable"] if consolidatable else []))
    ]
    if drifted_s is not None:
        at = rfc3339(NOW_US - drifted_s * 10**6)
        conditions.append({"type": "Drifted", "status": "True", "lastTransitionTime": at})
    claim_spec = state.pop("claim_spec", {})
    return StateNode(
        name=name,
        labels=own,
        taints=parse_taints(taints),
        capacity=of.capacity,
        available={n: v - asked.get(n, 0) for n, v in of.allocatable.items()},
        claim_facts=ClaimFacts(
            {
                "metadata": {"name": f"{name}-claim", "labels": own},
                "spec": claim_spec,
                "status": {"conditions": conditions},
            }
        ),
        node_object={"metadata": {"name": name, "annotations": state.pop("annotations", {})}},
        pods=pods,
        **state,
    )


def _requests(p: Obj) -> Resources:
    return parse_resources(p["spec"]["containers"][0]["resources"]["requests"])


def world(
    types: list[InstanceType],
    pools: list[NodePool] | None = None,
    nodes: tuple[StateNode, ...] = (),
    daemons: tuple[Obj, ...] = (),
) -> World:
    own = tuple(pools or [pool()])
    fleet = Fleet(types)
    return World(own, {p.name: fleet for p in own}, Nodes(nodes), daemons)


def solve(made: World, pods: list[Obj], options: Options | None = None) -> Results:
    chosen = options or Options()
    shapes = Shapes(respects_preferences=chosen.respects_preferences)
    facts = [facts_of(p, shapes.of(p, made.volumes.get(p["metadata"]["uid"], ()))) for p in pods]
    return Solver(made, shapes, chosen).solve(facts)


def context(made: World, **more: Any) -> DisruptionContext:
    return DisruptionContext(made, NOW_US, **more)


def names(results: Results) -> list[list[str]]:
    """The pods of each claim."""
    return [[p.name for p in c.pods] for c in results.claims]
