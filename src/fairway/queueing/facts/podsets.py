"""What do the pod sets of a Workload ask for? Facts that follow from `spec.podSets` alone.

Source: apis/kueue/v1beta2/workload_types.go; pkg/workload/workload.go (totalRequestsFromPodSets); pkg/util/pod
(SpecShape); pkg/util/tas (PodSetSliceRequiredTopologyConstraints).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import msgspec

from fairway.kube.nodeselection import NodeSelection, node_selection
from fairway.kube.podrequests import pod_requests
from fairway.kube.quantity import canonical
from fairway.kube.resources import Resources
from fairway.kube.taints import Toleration, parse_tolerations
from fairway.queueing.facts.amounts import in_rank_order
from fairway.queueing.facts.limits import over_limits
from fairway.queueing.facts.transformations import Transformations

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
# The fields of a pod's spec that decide how it schedules, beside its containers' requests.
_FORM_FIELDS: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "resourceClaims",
)


class SliceConstraint(NamedTuple):
    """Pods of one slice of this size stay within one domain of this level."""

    topology: str
    size: int


class TopologyRequest(NamedTuple):
    """`slices`: outermost constraint first. At most one of the first three is set; `is_explicit`: any at all."""

    required: str
    preferred: str
    unconstrained: bool
    slices: tuple[SliceConstraint, ...]
    group: str
    is_explicit: bool


class PodSetCharge(NamedTuple):
    """What claims for devices add to one pod of a pod set, in quota; `replaced`: requests that this stands for."""

    name: str
    added: tuple[tuple[str, int], ...]
    replaced: tuple[str, ...]


Charge = tuple[PodSetCharge, ...]


@dataclass(frozen=True, slots=True)
class PodSet:
    """One pod set of the spec. `per_pod`: what quota counts; `per_pod_on_node`: what a node must have free."""

    name: str
    count: int
    min_count: int
    per_pod: Resources
    per_pod_on_node: Resources
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str]
    selection: NodeSelection
    topology: TopologyRequest | None
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything that follows from `spec.podSets` alone.

    `limit_problems`: requests above their own limits. `form_text`: what decides how it schedules; `form`: a
    number for it, given by the reader (-1: none yet).
    """

    pod_sets: tuple[PodSet, ...]
    form_text: bytes
    can_be_partially_admitted: bool
    is_explicitly_topology_aware: bool
    limit_problems: tuple[str, ...]
    form: int = -1


def shape_key(pod_sets: Sequence[Mapping[str, Any]]) -> bytes:
    """Equal keys, equal shapes."""
    return _ENCODER.encode([_key(raw) for raw in pod_sets])


def new_shape(pod_sets: Sequence[Mapping[str, Any]], transformations: Transformations) -> Shape:
    read = tuple(_pod_set(raw, transformations) for raw in pod_sets)
    return Shape(
        pod_sets=read,
        form_text=_ENCODER.encode([_form(raw) for raw in pod_sets]),
        can_be_partially_admitted=any(ps.count > ps.min_count for ps in read),
        is_explicitly_topology_aware=any(ps.topology is not None and ps.topology.is_explicit for ps in read),
        limit_problems=tuple(
            problem
            for index, ps in enumerate(read)
            for problem in over_limits(f"spec.podSets[{index}].template.spec", ps.spec)
        ),
    )


def charged(shape: Shape, charge: Charge) -> Shape:
    """The same pods, with what their devices count as in quota."""
    by_name = {c.name: c for c in charge}
    return replace(
        shape,
        pod_sets=tuple(_charged(ps, by_name[ps.name]) if ps.name in by_name else ps for ps in shape.pod_sets),
        form_text=shape.form_text + _ENCODER.encode(charge),
    )


def _charged(pod_set: PodSet, charge: PodSetCharge) -> PodSet:
    per_pod = {n: v for n, v in pod_set.per_pod.items() if n not in charge.replaced}
    for name, amount in charge.added:
        per_pod[name] = per_pod.get(name, 0) + amount
    return replace(pod_set, per_pod=in_rank_order(per_pod))


def _pod_set(raw: Mapping[str, Any], transformations: Transformations) -> PodSet:
    spec = (raw.get("template") or {}).get("spec") or {}
    count = int(raw.get("count", 1))
    on_node = in_rank_order(pod_requests(spec))
    per_pod = transformations.apply(on_node)
    minimum = raw.get("minCount")
    return PodSet(
        name=raw.get("name") or "main",
        count=count,
        min_count=count if minimum is None else int(minimum),
        per_pod=in_rank_order({n: max(v, 0) for n, v in per_pod.items()}),
        per_pod_on_node=on_node,
        tolerations=parse_tolerations(spec.get("tolerations")),
        node_selector=spec.get("nodeSelector") or {},
        selection=node_selection(spec),
        topology=_topology_request(raw.get("topologyRequest")),
        spec=spec,
    )


def _key(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    template = raw.get("template") or {}
    return (
        raw.get("name"),
        raw.get("count"),
        raw.get("minCount"),
        raw.get("topologyRequest"),
        template.get("spec"),
    )


def _form(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a pod set that decide how it schedules; workloads of one form fail alike."""
    spec = (raw.get("template") or {}).get("spec") or {}
    return {
        "name": raw.get("name"),
        "minCount": raw.get("minCount"),
        "topologyRequest": raw.get("topologyRequest"),
        "containers": [_container_form(c) for c in spec.get("containers") or ()],
        "initContainers": [_container_form(c) for c in spec.get("initContainers") or ()],
        "overhead": _amounts_form(spec.get("overhead")),
        "resources": _requests_form(spec.get("resources")),
        **{field: spec.get(field) for field in _FORM_FIELDS if spec.get(field)},
    }


def _container_form(raw: Mapping[str, Any]) -> tuple[Any, Any]:
    return _requests_form(raw.get("resources")), raw.get("ports")


def _requests_form(resources: Mapping[str, Any] | None) -> dict[str, str]:
    """A limit stands in for a request that is not there."""
    resources = resources or {}
    return _amounts_form({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts_form(amounts: Mapping[str, Any] | None) -> dict[str, str]:
    """As the API server prints them: `1000m` is `1`."""
    return {name: canonical(value) for name, value in (amounts or {}).items()}


def _topology_request(raw: Mapping[str, Any] | None) -> TopologyRequest | None:
    if raw is None:
        return None
    layers = raw.get("podsetSliceRequiredTopologyConstraints") or ()
    slices = tuple(SliceConstraint(c["topology"], int(c.get("size") or 0)) for c in layers)
    outer = raw.get("podSetSliceRequiredTopology")
    if not slices and outer is not None:
        slices = (SliceConstraint(outer, int(raw.get("podSetSliceSize") or 0)),)
    asks = ("unconstrained", "required", "preferred", "podSetSliceRequiredTopology", "podSetSliceSize")
    return TopologyRequest(
        required=raw.get("required") or "",
        preferred=raw.get("preferred") or "",
        unconstrained=bool(raw.get("unconstrained")),
        slices=slices,
        group=raw.get("podSetGroupName") or "",
        is_explicit=bool(layers) or any(raw.get(field) is not None for field in asks),
    )
