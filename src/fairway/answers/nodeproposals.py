"""More nodes: like those there are, or of a type of the catalog where none there offers what a pod asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairway.answers.proposal import Proposal
from fairway.answers.steps import LIKE, Open, another_node
from fairway.catalog.catalog import Catalog, load_catalog
from fairway.catalog.featurelabels import feature_labels
from fairway.ground import Moment
from fairway.kube.objects import Obj, annotations_of, key_of, labels_of, name_of, spec_of, status_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import PODS, Resources, format_resources, parse_resources
from fairway.kube.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated, parse_taints, parse_tolerations
from fairway.provisioning.karpenter.instancetypes import InstanceType, types_of_catalog

_GPU, _NVIDIA_GPU = "gpu", "nvidia.com/gpu"
_TYPE, _ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
_ON_DEMAND = "on-demand"
_TYPES, _MOST_NODES = 3, 8
_NO_PRICE = 2**62
_KEEP_AWAY = (NO_SCHEDULE, NO_EXECUTE)


def more_nodes(moment: Moment, pod: Obj, pods: int, also: dict[str, str] | None = None) -> Iterator[Proposal]:
    """One more node of each kind, the roomiest in devices first; then as many as there are pods. `also`: labels that
    are wanted beside the pod's own."""
    wanted: dict[str, str] = {**(also or {}), **(spec_of(pod).get("nodeSelector") or {})}
    for kind, node in _kinds(moment, pod, wanted):
        missing = {k: v for k, v in wanted.items() if labels_of(node).get(k) != v}
        like = name_of(node) if moment.store.get(key_of(node)) is node else ""
        for labels in ({}, missing) if missing else ({},):
            for count in (1, pods) if 1 < pods <= _MOST_NODES else (1,):
                what = f"{count} more node{'s' if count > 1 else ''}" + (f" of type {kind}" if kind else "")
                said = [f"like {like}"] if like else []
                said += [f"labelled {', '.join(f'{k}={v}' for k, v in labels.items())}"] if labels else []
                steps = tuple(
                    Open(another_node(node, n, labels, like), kind or "a node") for n in range(1, count + 1)
                )
                told = f" ({', '.join(said)})" if said else ""
                yield Proposal(
                    f"{what}{told}", steps, f"nodes/{'/'.join([kind or like, *(also or {}).values()])}"
                )


def _kinds(moment: Moment, pod: Obj, wanted: Mapping[str, str]) -> list[tuple[str, Obj]]:
    """Nodes that more may be like: those there are, each kind once; and of the catalog, where none of them would do."""
    kinds: dict[tuple[Any, ...], Obj] = {}
    for node in moment.store.objects("Node"):
        if LIKE in annotations_of(node):
            # A step before this one opened it.
            continue
        kind = labels_of(node).get(_TYPE) or ""
        kinds.setdefault((kind, tuple(sorted(_offers(node).items()))), node)
    ranked = sorted(kinds.items(), key=lambda k: (-sum(v for r, v in k[0][1] if _GPU in r), k[0]))
    found = [(kind, node) for (kind, _), node in ranked[:_TYPES]]
    asked = {r: v for r, v in pod_requests(spec_of(pod)).items() if v and r != PODS}
    if any(_has_room(_offers(node), asked) and _is_open(node, pod) for node in kinds.values()):
        return found
    return [*_of_catalog(list(kinds.values()), asked, wanted), *found]


def _is_open(node: Obj, pod: Obj) -> bool:
    tolerations = parse_tolerations(spec_of(pod).get("tolerations") or [])
    return first_untolerated(parse_taints(spec_of(node).get("taints") or []), tolerations, _KEEP_AWAY) is None


def _offers(node: Obj) -> Resources:
    return parse_resources(status_of(node).get("allocatable") or status_of(node).get("capacity") or {})


def _has_room(offers: Resources, asked: Resources) -> bool:
    return all(offers.get(r, 0) >= v for r, v in asked.items())


# The catalog


def _of_catalog(nodes: list[Obj], asked: Resources, wanted: Mapping[str, str]) -> list[tuple[str, Obj]]:
    """The cheapest types that have room for it, one of each model of GPU; of the cluster's cloud, if any."""
    catalog = load_catalog()
    known = [catalog.instance_type(labels_of(node).get(_TYPE) or "") for node in nodes]
    providers = {kind.provider for kind in known if kind is not None}
    zones = {labels_of(node).get(_ZONE, "") for node in nodes} | {wanted.get(_ZONE, "")}
    regions = {region for zone in zones if (region := catalog.region_of(zone))}
    ranked: list[tuple[int, str, Obj]] = []
    for kind in types_of_catalog(catalog, regions=sorted(regions)):
        sold = catalog.instance_type(kind.name)
        assert sold is not None
        offers = _with_partitions(catalog, sold.gpu, kind, asked)
        if (not providers or sold.provider in providers) and _has_room(offers, asked):
            zone = next((o.zone for o in kind.offerings if o.zone in zones), "")
            zone = zone or next((o.zone for o in kind.offerings), "")
            price = kind.price_of(zone, _ON_DEMAND)
            ranked.append((_NO_PRICE if price is None else price, sold.gpu, _node(kind, offers, zone)))
    best: dict[str, Obj] = {}
    for _, gpu, node in sorted(ranked, key=lambda r: (r[0], name_of(r[2]))):
        best.setdefault(gpu, node)
    return [(labels_of(node)[_TYPE], node) for node in list(best.values())[: _TYPES - 1]]


def _with_partitions(catalog: Catalog, gpu: str, kind: InstanceType, asked: Resources) -> Resources:
    """What it offers; all its GPUs in parts of one profile where such parts are asked for."""
    offers, model = kind.allocatable, catalog.gpu(gpu)
    profile = next((p for p in (model.mig if model else ()) if p.resource in asked), None)
    if profile is None:
        return offers
    parts = offers.get(_NVIDIA_GPU, 0) * profile.instances_most
    return {**offers, _NVIDIA_GPU: 0, profile.resource: parts}


def _node(kind: InstanceType, offers: Resources, zone: str) -> Obj:
    labels = {"kubernetes.io/os": "linux", _TYPE: kind.name, **feature_labels(kind.name)}
    if zone:
        region = load_catalog().region_of(zone)
        labels |= {_ZONE: zone, "topology.kubernetes.io/region": region}
    for resource in offers:
        if resource.startswith("nvidia.com/mig-"):
            labels["nvidia.com/mig.config"] = f"all-{resource.removeprefix('nvidia.com/mig-')}"
    status = {part: format_resources(offers) for part in ("capacity", "allocatable")}
    meta = {"name": kind.name.replace(".", "-"), "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}
