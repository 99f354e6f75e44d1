"""What is injected into the pods of one pod set when its Workload is admitted, and taken out again.

Source: pkg/podset/podset.go; pkg/controller/jobframework/reconciler.go getPodSetsInfoFromStatus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.names import dns_label
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, name_of, spec_of, status_of
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.workloadstate import is_elastic

Toleration = dict[str, Any]

RESOURCE_FLAVOR: Final = "ResourceFlavor.kueue.x-k8s.io"

TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
SLICE_NAME_ANNOTATION: Final = "kueue.x-k8s.io/workload-slice-name"
UNCONSTRAINED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
POD_SET_LABEL: Final = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_LABEL: Final = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_LABEL: Final = "kueue.x-k8s.io/cluster-queue-name"

_FIELDS: Final = ("annotations", "labels", "nodeSelector")


class BadPodSets(ValueError):
    """What was admitted cannot be put into the job's templates, now or ever. The message is Kueue's."""


class FlavorMissing(Exception):
    """A flavor that was assigned is not there (any more): try again when it is."""


@dataclass(frozen=True, slots=True)
class PodSetInfo:
    """Of one pod set. `count`: how many pods were admitted."""

    name: str
    count: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Toleration] = ()
    gates: Sequence[Mapping[str, Any]] = ()


def admitted_infos(view: View, workload: Obj, gates: FeatureGates) -> list[PodSetInfo]:
    """One per pod set assignment of an admitted Workload.

    Raises: BadPodSets, FlavorMissing.
    """
    of_spec = {ps.get("name") or "main": ps for ps in spec_of(workload).get("podSets") or ()}
    assignments = (status_of(workload).get("admission") or {}).get("podSetAssignments") or ()
    return [
        _admitted(view, workload, raw, of_spec.get(raw.get("name") or "main") or {}, gates)
        for raw in assignments
    ]


def _admitted(
    view: View, workload: Obj, raw: Mapping[str, Any], pod_set: Mapping[str, Any], gates: FeatureGates
) -> PodSetInfo:
    info = assigned_info(view, raw, pod_set, gates)
    annotations = dict(info.annotations)
    if gates.topology_aware_scheduling:
        annotations[WORKLOAD_ANNOTATION] = name_of(workload)
    if is_elastic(workload):
        annotations[SLICE_NAME_ANNOTATION] = slice_name(workload)
    name = info.name
    info = replace(info, annotations=annotations, labels=_queue_labels(workload, name))
    for check in status_of(workload).get("admissionChecks") or ():
        update = next((u for u in check.get("podSetUpdates") or () if u.get("name") == name), None)
        if update is not None:
            try:
                info = merged(info, _update(info, update))
            except BadPodSets as conflict:
                raise BadPodSets(f'in admission check "{check.get("name")}": {conflict}') from conflict
    return info


def assigned_info(
    view: View, raw: Mapping[str, Any], pod_set: Mapping[str, Any], gates: FeatureGates
) -> PodSetInfo:
    """What follows from the assignment alone: flavors and topology. Source: podset.go FromAssignment.

    Raises: FlavorMissing.
    """
    annotations: dict[str, str] = {}
    scheduling_gates: list[dict[str, Any]] = []
    if gates.topology_aware_scheduling and raw.get("topologyAssignment") is not None:
        request = pod_set.get("topologyRequest") or {}
        if not any(request.get(k) is not None for k in ("required", "preferred", "unconstrained")):
            annotations[UNCONSTRAINED_TOPOLOGY] = "true"
        scheduling_gates.append({"name": TOPOLOGY_GATE})
    node_selector, tolerations = _of_flavors(view, raw.get("flavors") or {})
    return PodSetInfo(
        name=raw.get("name") or "main",
        count=int(raw["count"]) if raw.get("count") is not None else int(pod_set.get("count", 1)),
        annotations=annotations,
        node_selector=node_selector,
        tolerations=tolerations,
        gates=scheduling_gates,
    )


def slice_name(workload: Obj) -> str:
    """Under which name the pods of all slices of an elastic job are found."""
    return annotations_of(workload).get(SLICE_NAME_ANNOTATION) or name_of(workload)


def _of_flavors(view: View, flavors: Mapping[str, str]) -> tuple[dict[str, str], list[Toleration]]:
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for name in dict.fromkeys(flavors.values()):
        flavor = view.get(Key(RESOURCE_FLAVOR, "", name))
        if flavor is None:
            raise FlavorMissing(f'resourceflavors.kueue.x-k8s.io "{name}" not found')
        spec = spec_of(flavor)
        node_selector.update(spec.get("nodeLabels") or {})
        tolerations.extend(spec.get("tolerations") or ())
    return node_selector, tolerations


def _queue_labels(workload: Obj, pod_set: str) -> dict[str, str]:
    labels = {POD_SET_LABEL: pod_set, LOCAL_QUEUE_LABEL: spec_of(workload).get("queueName") or ""}
    queue = (status_of(workload).get("admission") or {}).get("clusterQueue") or ""
    if queue and not dns_label(queue):
        labels[CLUSTER_QUEUE_LABEL] = queue
    return labels


def _update(info: PodSetInfo, raw: Mapping[str, Any]) -> PodSetInfo:
    """What an admission check adds."""
    return replace(
        info,
        annotations=raw.get("annotations") or {},
        labels=raw.get("labels") or {},
        node_selector=raw.get("nodeSelector") or {},
        tolerations=raw.get("tolerations") or (),
        gates=(),
    )


def spec_infos(workload: Obj | None) -> list[PodSetInfo] | None:
    """What the Workload's own templates say: to restore a stopped job from."""
    if workload is None:
        return None
    return [_of_spec(raw) for raw in spec_of(workload).get("podSets") or ()]


def _of_spec(raw: Mapping[str, Any]) -> PodSetInfo:
    template = raw.get("template") or {}
    spec = spec_of(template)
    return PodSetInfo(
        name=raw.get("name") or "main",
        count=int(raw.get("count", 1)),
        annotations=annotations_of(template),
        labels=labels_of(template),
        node_selector=spec.get("nodeSelector") or {},
        tolerations=spec.get("tolerations") or (),
        gates=spec.get("schedulingGates") or (),
    )


def merged(a: PodSetInfo, b: PodSetInfo) -> PodSetInfo:
    """Both together.

    Raises: BadPodSets, where they disagree about a key.
    """
    return PodSetInfo(
        name=a.name,
        count=a.count,
        annotations=_union("annotations", a.annotations, b.annotations),
        labels=_union("labels", a.labels, b.labels),
        node_selector=_union("nodeSelector", a.node_selector, b.node_selector),
        tolerations=_without_duplicates(a.tolerations, b.tolerations),
        gates=_without_duplicates(a.gates, b.gates),
    )


def _union(what: str, a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, str]:
    for key, value in b.items():
        if a.get(key, value) != value:
            raise BadPodSets(
                f"invalid admission check PodSetUpdate: conflict for {what}: "
                f"conflict for key={key}, value1={a[key]}, value2={value}"
            )
    return {**a, **b}


def _without_duplicates(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    together = list(a)
    together.extend(item for item in b if item not in a)
    return together


def into_template(template: Obj, info: PodSetInfo) -> Obj:
    """The pod template with the info added.

    Raises: BadPodSets.
    """
    annotations = dict(annotations_of(template))
    if SLICE_NAME_ANNOTATION in info.annotations:
        # Left over from an earlier slice of the same elastic job: this one's counts.
        annotations.pop(WORKLOAD_ANNOTATION, None)
    annotations.pop(SLICE_NAME_ANNOTATION, None)
    spec = spec_of(template)
    own = PodSetInfo(
        name=info.name,
        count=info.count,
        annotations=annotations,
        labels=labels_of(template),
        node_selector=spec.get("nodeSelector") or {},
        tolerations=spec.get("tolerations") or (),
        gates=spec.get("schedulingGates") or (),
    )
    return with_info(template, merged(own, info))


def with_info(template: Obj, info: PodSetInfo) -> Obj:
    """The pod template with exactly these annotations, labels, node selector, tolerations and gates."""
    meta = dict(template.get("metadata") or {})
    spec = dict(template.get("spec") or {})
    _put(meta, "annotations", dict(info.annotations))
    _put(meta, "labels", dict(info.labels))
    _put(spec, "nodeSelector", dict(info.node_selector))
    _put(spec, "tolerations", list(info.tolerations))
    _put(spec, "schedulingGates", list(info.gates))
    changed = {**template, "spec": spec}
    if meta or "metadata" in template:
        changed["metadata"] = meta
    return changed


def _put(where: dict[str, Any], field_: str, value: Any) -> None:
    if value or where.get(field_):
        where[field_] = value
    if not value:
        where.pop(field_, None)


def wrong_number(wanted: int, got: int) -> BadPodSets:
    return BadPodSets(f"invalid podset infos: expecting {wanted} podset, got {got}")
