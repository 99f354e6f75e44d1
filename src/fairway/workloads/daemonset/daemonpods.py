"""The pods of a DaemonSet: bound to their node by affinity, tolerating what befalls nodes.

Source: pkg/controller/daemon/util/daemonset_util.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj, dig
from fairway.kube.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NOT_READY_TAINT,
    UNREACHABLE_TAINT,
    UNSCHEDULABLE_TAINT,
)
from fairway.workloads.history import POD_HASH_LABEL
from fairway.workloads.podtemplate import generate_name_prefix, owned_by, pod_from_template

NAME_FIELD = "metadata.name"

# Deprecated by revisions, still written on pods of sets that carry it.
TEMPLATE_GENERATION = "pod-template-generation"
TEMPLATE_GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"

_TOLERATED: tuple[tuple[str, str], ...] = (
    (NOT_READY_TAINT, NO_EXECUTE),
    (UNREACHABLE_TAINT, NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    (UNSCHEDULABLE_TAINT, NO_SCHEDULE),
)
_NETWORK_UNAVAILABLE = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def tolerations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The template's tolerations and those every daemon pod gets."""
    found = list(spec.get("tolerations") or ())
    added = (*_TOLERATED, _NETWORK_UNAVAILABLE) if spec.get("hostNetwork") else _TOLERATED
    for key, effect in added:
        made = {"key": key, "operator": "Exists", "effect": effect}
        same = [t for t in found if t.get("key") == key and t.get("effect") == effect]
        if made not in same:
            found = [t for t in found if t not in same] + [made]
    return found


def new_pod(owner: Obj, node: str, digest: str, name: str) -> Obj:
    meta, spec = owner["metadata"], owner.get("spec") or {}
    template = spec.get("template") or {}
    given, pod_spec = template.get("metadata") or {}, template.get("spec") or {}
    labels = {**(given.get("labels") or {}), POD_HASH_LABEL: digest}
    generation = (meta.get("annotations") or {}).get(TEMPLATE_GENERATION_ANNOTATION)
    if generation is not None:
        labels[TEMPLATE_GENERATION] = generation
    daemon_spec = {
        **pod_spec,
        "affinity": affinity_to(pod_spec.get("affinity"), node),
        "tolerations": tolerations(pod_spec),
    }
    return pod_from_template(
        {"metadata": {**given, "labels": labels}, "spec": daemon_spec},
        namespace=meta["namespace"],
        owner_references=owned_by(owner, "apps/v1", "DaemonSet"),
        name=name,
        generate_name=generate_name_prefix(meta["name"]),
    )


def affinity_to(affinity: dict[str, Any] | None, node: str) -> dict[str, Any]:
    """The affinity with its required node terms replaced by this one node."""
    term = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}
    given = affinity or {}
    node_affinity = {
        **(given.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }
    return {**given, "nodeAffinity": node_affinity}


def target_node(pod: Obj) -> str:
    """The node it runs on or is meant for; empty: it says neither."""
    node = (pod.get("spec") or {}).get("nodeName")
    if node:
        return str(node)
    required = dig(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in (required or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            values: list[str] = field.get("values") or []
            if field.get("key") == NAME_FIELD and field.get("operator") == "In" and len(values) == 1:
                return str(values[0])
    return ""


def is_updated(pod: Obj, digest: str, generation: str | None) -> bool:
    labels = pod["metadata"].get("labels") or {}
    if generation is not None and labels.get(TEMPLATE_GENERATION) == generation:
        return True
    return bool(digest) and labels.get(POD_HASH_LABEL) == digest
