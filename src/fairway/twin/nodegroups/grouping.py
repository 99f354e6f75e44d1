"""Groups of one cloud, and the store as the Cluster Autoscaler sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairway.cluster.store import Store
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Obj, annotations_of, labels_of, meta_of, name_of
from fairway.kube.resources import Resources, add_into, format_resources, parse_resources
from fairway.kube.taints import Taint, parse_taints
from fairway.provisioning.clusterautoscaler.fitting import static_refusal
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, NodeView, Options, Seat
from fairway.provisioning.clusterautoscaler.scaledown import DISABLED_ANNOTATION, TO_BE_DELETED
from fairway.provisioning.karpenter.instancetypes import InstanceType
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from fairway.provisioning.karpenter.podfacts import Shapes, host_ports, requests_of
from fairway.provisioning.karpenter.requirement import IN
from fairway.twin.provisioner.cloud import Cloud

# What each cloud calls a node's group, and how its group says that it is spot.
GROUP_LABELS = {
    "aws": "eks.amazonaws.com/nodegroup",
    "gcp": "cloud.google.com/gke-nodepool",
    "azure": "kubernetes.azure.com/agentpool",
}
_SPOT_LABELS = {
    "aws": ("eks.amazonaws.com/capacityType", "SPOT", "ON_DEMAND"),
    "gcp": ("cloud.google.com/gke-spot", "true", ""),
    "azure": ("kubernetes.azure.com/scalesetpriority", "spot", ""),
}
# Taints that a node loses by itself; the autoscaler looks through them.
_STARTUP = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as a scenario declares it. `kind` is offered in `zone` under `capacity_type`."""

    name: str
    kind: InstanceType
    zone: str
    capacity_type: str
    least: int
    most: int
    size: int
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class AutoscalerPlan:
    """What a cluster autoscaler is run with."""

    groups: tuple[GroupSpec, ...]
    cloud: Cloud
    provider: str = "aws"
    options: Options = field(default_factory=Options)


def node_object(spec: GroupSpec, provider: str, name: str) -> Obj:
    """The Node that registers for a new machine of the group."""
    single = {
        r.key: next(iter(r.values)) for r in spec.kind.requirements if r.operator == IN and len(r.values) == 1
    }
    labels = {
        **single,
        ZONE: spec.zone,
        INSTANCE_TYPE: spec.kind.name,
        GROUP_LABELS[provider]: spec.name,
        **_capacity_label(spec, provider),
        "kubernetes.io/hostname": name,
        **spec.labels,
    }
    labels.pop(CAPACITY_TYPE, None)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "providerID": f"twin:///{spec.zone}/{name}",
            **({"taints": [_taint(t) for t in spec.taints]} if spec.taints else {}),
        },
        "status": {
            "capacity": format_resources(spec.kind.capacity),
            "allocatable": format_resources(spec.kind.allocatable),
        },
    }


def _capacity_label(spec: GroupSpec, provider: str) -> dict[str, str]:
    key, spot, other = _SPOT_LABELS[provider]
    value = spot if spec.capacity_type == SPOT else other
    return {key: value} if value else {}


def _taint(taint: Taint) -> dict[str, str]:
    named = {"key": taint.key, "effect": taint.effect}
    return {**named, "value": taint.value} if taint.value else named


def template_of(spec: GroupSpec, provider: str, daemons: Sequence[Obj], shapes: Shapes) -> Seat:
    """A fresh node of the group, with the pods its DaemonSets would put there."""
    node = node_object(spec, provider, f"template-node-for-{spec.name}")
    bare = seat_of(node, ())
    used: Resources = {}
    for daemon in daemons:
        pod = _pod_of(daemon)
        if not static_refusal(shapes.of(pod), bare):
            add_into(used, requests_of(pod["spec"]))
    return Seat(bare.name, bare.labels, bare.taints, bare.capacity, bare.allocatable, used)


def _pod_of(daemon_set: Obj) -> Obj:
    template = (daemon_set.get("spec") or {}).get("template") or {}
    return {"metadata": {**(template.get("metadata") or {})}, "spec": template.get("spec") or {}}


def seat_of(node: Obj, pods: Sequence[Obj]) -> Seat:
    status = node.get("status") or {}
    used: Resources = {}
    for pod in pods:
        add_into(used, requests_of(pod["spec"]))
    taints = parse_taints((node.get("spec") or {}).get("taints"))
    return Seat(
        name=name_of(node),
        labels=labels_of(node),
        taints=tuple(t for t in taints if t.key not in _STARTUP),
        capacity=parse_resources(status.get("capacity")),
        allocatable=parse_resources(status.get("allocatable") or status.get("capacity")),
        used=used,
        ports=tuple(p for pod in pods for p in host_ports(pod["spec"])),
    )


def views_of(store: Store, provider: str, names: frozenset[str]) -> tuple[NodeView, ...]:
    """Every node, with the pods that hold something of it. `names`: the groups that are managed."""
    accounts = store.accounts
    out = []
    for node in store.objects("Node"):
        row = accounts.row_of.get(name_of(node))
        keys = sorted(accounts.pods[row]) if row is not None else ()
        pods = tuple(p for key in keys if (p := store.get(key)) is not None)
        group = labels_of(node).get(GROUP_LABELS[provider]) or ""
        taints = (node.get("spec") or {}).get("taints") or ()
        out.append(
            NodeView(
                seat=seat_of(node, pods),
                group=group if group in names else "",
                pods=pods,
                is_ready=is_condition_true((node.get("status") or {}).get("conditions"), "Ready"),
                is_going="deletionTimestamp" in meta_of(node)
                or any(t["key"] == TO_BE_DELETED for t in taints),
                no_scale_down=annotations_of(node).get(DISABLED_ANNOTATION) == "true",
            )
        )
    return tuple(out)


def group_view(spec: GroupSpec, target: int, template: Seat, unsafe: str) -> NodeGroup:
    price = spec.kind.price_of(spec.zone, spec.capacity_type)
    return NodeGroup(spec.name, spec.least, spec.most, target, template, price, unsafe)
