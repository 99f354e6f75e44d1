"""Nodes of a site by kind: which are alike in everything a job can ask for, and how they look on Kubernetes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from fairway.catalog.catalog import load_catalog
from fairway.kube.objects import Obj
from fairway.slurm.cluster import Cluster
from fairway.slurm.converting.jobs import object_name
from fairway.slurm.converting.layouts import GPU, MIB
from fairway.slurm.converting.notes import CHANGED, LABELS, LOST, Note
from fairway.slurm.converting.placement import (
    HOSTNAME,
    feature_label,
    gres_label,
    partition_label,
    switch_label,
)
from fairway.slurm.model.node import Node

KIND_LABEL = LABELS + "nodes"
PRODUCT = "nvidia.com/gpu.product"
TOPOLOGY = "slurm-switches"
MAX_FLAVOR_LABELS = 8
"""Kueue's limit of a ResourceFlavor's nodeLabels."""
_PODS = "110"


@dataclass(slots=True)
class Kind:
    """Nodes that are alike. `capacity`: of one node, in base units (CPUs, bytes, devices)."""

    name: str
    nodes: list[Node]
    labels: dict[str, str]
    capacity: dict[str, int]
    partitions: tuple[str, ...]
    weight: int
    is_cloud: bool
    left_out: tuple[str, ...] = ()
    """Labels that its flavor has no room for."""


@dataclass(slots=True)
class Switches:
    """node → names of its switches, lowest first; equally many for every node."""

    of: dict[str, list[str]] = field(default_factory=dict)
    levels: int = 0


def switches_of(cluster: Cluster, notes: list[Note]) -> Switches:
    """The tree of topology.conf. A node at another depth than the rest stands under its own switches once more."""
    above: dict[str, str] = {}
    leaf: dict[str, str] = {}
    for switch in cluster.conf.topology:
        above |= dict.fromkeys(switch.switches, switch.name)
        leaf |= dict.fromkeys(switch.nodes, switch.name)
    lines: dict[str, list[str]] = {}
    for node in cluster.nodes:
        line, at = [], leaf.get(node.name, "")
        while at and at not in line:
            line.append(at)
            at = above.get(at, "")
        lines[node.name] = line
    levels = max((len(line) for line in lines.values()), default=0)
    short = [name for name, line in lines.items() if len(line) < levels]
    if short and levels:
        why = f"{len(short)} nodes ({short[0]} …) are under fewer switches than others: they get one of their own"
        notes.append(Note("topology.conf", 0, CHANGED, "SwitchName", why, ""))
    for name in short:
        lines[name] += [lines[name][-1] if lines[name] else "none"] * (levels - len(lines[name]))
    return Switches(lines, levels)


def kinds_of(
    cluster: Cluster, switches: Switches, notes: list[Note], moved: frozenset[str] | None = None
) -> list[Kind]:
    """By weight, as Slurm fills nodes."""
    partitions: dict[int, list[str]] = {}
    for partition in cluster.partitions.values():
        for at in partition.nodes:
            partitions.setdefault(at, []).append(partition.name)
    groups: dict[Any, list[Node]] = {}
    for node in cluster.nodes:
        if moved is not None and node.name not in moved:
            continue
        conf = node.conf
        gres = tuple((one.name, one.types) for one in conf.gres)
        inside = tuple(partitions.get(node.index, ()))
        size = (conf.cpus - conf.core_spec * conf.threads, conf.real_memory - conf.mem_spec, conf.tmp_disk)
        key = (size, gres, conf.features, conf.weight, inside, "CLOUD" in conf.state)
        groups.setdefault(key, []).append(node)
    names: set[str] = set()
    found = [_kind(key, nodes, names, notes) for key, nodes in groups.items()]
    return sorted(found, key=lambda kind: (kind.weight, kind.name))


def _kind(key: Any, nodes: list[Node], names: set[str], notes: list[Note]) -> Kind:
    (cpus, memory, disk), _, features, weight, partitions, is_cloud = key
    stem = object_name(re.sub(r"[\d-]+$", "", nodes[0].name)) or "nodes"
    name, number = stem, 1
    while name in names:
        number += 1
        name = f"{stem}-{number}"
    names.add(name)
    capacity = {"cpu": cpus, "memory": memory * MIB}
    if disk:
        capacity["ephemeral-storage"] = disk * MIB
    labels = {KIND_LABEL: name} | {partition_label(p): "true" for p in partitions}
    for gres in nodes[0].conf.gres:
        if gres.name == "gpu":
            _gpus(gres.types, capacity, labels, nodes[0], notes)
        elif gres.name in ("shard", "mps"):
            why = f"{gres.name} counts parts of GPUs in a unit of its own"
            do = "Use the GPU Operator's time-slicing, MPS or MIG"
            notes.append(Note("slurm.conf", 0, LOST, f"NodeName={nodes[0].name} {gres.name}", why, do))
        else:
            kind = f"-{gres.types[0]}" if gres.types and gres.types[0] else ""
            capacity[f"{LABELS}gres-{gres.name}{kind}"] = gres.count
    labels |= {feature_label(word): "true" for word in features}
    kept = dict(list(labels.items())[:MAX_FLAVOR_LABELS])
    return Kind(
        name, nodes, labels, capacity, partitions, weight, is_cloud, tuple(k for k in labels if k not in kept)
    )


def _gpus(
    types: tuple[str, ...], capacity: dict[str, int], labels: dict[str, str], node: Node, notes: list[Note]
) -> None:
    catalog = load_catalog()
    for kind in dict.fromkeys(types):
        count = types.count(kind)
        if "g." in kind:
            resource = f"nvidia.com/mig-{kind}"
        else:
            resource = GPU
            model = catalog.gpu(kind) if kind else None
            if model is not None and PRODUCT not in labels:
                labels[PRODUCT] = model.product
            elif kind and model is None:
                why = f"no GPU model is called {kind}: no {PRODUCT} and no price is known"
                notes.append(Note("gres.conf", 0, CHANGED, f"Type={kind}", why, "Label the nodes yourself"))
            if resource in capacity:
                why = "two models in one node are one resource: pods cannot choose between them"
                text = f"NodeName={node.name} Gres={node.conf.gres_text}"
                notes.append(Note("slurm.conf", 0, LOST, text, why, "Use DRA: a DeviceClass for each model"))
        capacity[resource] = capacity.get(resource, 0) + count
        if kind:
            labels[gres_label(kind)] = "true"


def amount_text(resource: str, count: int) -> str:
    if resource in ("memory", "ephemeral-storage"):
        return f"{count // MIB // 1024}Gi" if count % (1024 * MIB) == 0 else f"{count // MIB}Mi"
    return str(count)


def flavor_of(kind: Kind, switches: Switches) -> Obj:
    labels = {key: value for key, value in kind.labels.items() if key not in kind.left_out}
    spec: dict[str, Any] = {"nodeLabels": labels}
    if switches.levels:
        spec["topologyName"] = TOPOLOGY
    meta = {"name": kind.name}
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": meta, "spec": spec}


def topology_of(switches: Switches) -> Obj:
    levels = [{"nodeLabel": switch_label(n)} for n in reversed(range(switches.levels))]
    spec = {"levels": [*levels, {"nodeLabel": HOSTNAME}]}
    meta = {"name": TOPOLOGY}
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": meta, "spec": spec}


def node_objects(kind: Kind, switches: Switches) -> list[Obj]:
    """The machines that are there; those of a cloud come from a NodePool."""
    found: list[Obj] = []
    for node in kind.nodes:
        line = switches.of.get(node.name, [])
        labels = {HOSTNAME: node.name, **kind.labels}
        labels |= {switch_label(at): switch for at, switch in enumerate(line)}
        capacity = {name: amount_text(name, count) for name, count in kind.capacity.items()} | {"pods": _PODS}
        meta = {"name": node.name, "labels": labels}
        status = {"capacity": capacity, "allocatable": capacity}
        made: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        if not node.available and "CLOUD" not in node.flags:
            made["spec"] = {"unschedulable": True}
        found.append({**made, "status": status})
    return found


def node_pool(kind: Kind) -> Obj:
    """Nodes with State=CLOUD: at most as many as there are names."""
    count = len(kind.nodes)
    limits = {name: amount_text(name, each * count) for name, each in kind.capacity.items()}
    requirements: list[dict[str, Any]] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    ]
    if GPU in kind.capacity:
        wanted = [str(kind.capacity[GPU])]
        requirements.append(
            {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": wanted}
        )
    labels = {key: value for key, value in kind.labels.items() if not key.startswith("nvidia.com/")}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"nodeClassRef": reference, "requirements": requirements},
    }
    spec = {
        "template": template,
        "limits": limits,
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"},
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": kind.name},
        "spec": spec,
    }
