"""What is wrong with the topology annotations of a pod template?

Source: pkg/controller/jobframework/tas_validation.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path, path_text
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import OMITTED, Fault
from fairway.queueing.webhooks.settings import Settings

REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_REQUIRED = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
SLICE_CONSTRAINTS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
GROUP_NAME = "kueue.x-k8s.io/podset-group-name"

_BOOLEANS = frozenset(["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"])
_INT32 = 2**31
_MAX_LAYERS = 3
_GROUP_SIZE = 2


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template of a job: the pod set it becomes, where its metadata stands, how many pods."""

    name: str
    path: Path
    annotations: Mapping[str, Any]
    count: int


def topology_faults(template: Template, settings: Settings) -> list[Fault]:
    annotations = template.annotations
    path: Path = (*template.path, "annotations")
    out: list[Fault] = []
    if sum(key in annotations for key in (REQUIRED, PREFERRED, UNCONSTRAINED)) > 1:
        listed = ", ".join(f'"{key}"' for key in (REQUIRED, PREFERRED, UNCONSTRAINED))
        why = f"must not contain more than one topology annotation: [{listed}]"
        out.append(f.invalid(path, OMITTED, why))
    for key in (REQUIRED, PREFERRED, SLICE_REQUIRED):
        if key in annotations:
            out += f.invalids(f.at_key(path, key), annotations[key], names.label_key(annotations[key]))
    out += _group_faults(annotations, path)
    unconstrained = annotations.get(UNCONSTRAINED)
    if unconstrained is not None and unconstrained not in _BOOLEANS:
        out.append(f.invalid(f.at_key(path, UNCONSTRAINED), unconstrained, "must be a boolean value"))
    out += _size_faults(annotations, path)
    return out + _constraint_faults(annotations, path, settings)


def _group_faults(annotations: Mapping[str, Any], path: Path) -> list[Fault]:
    group = annotations.get(GROUP_NAME)
    if group is None:
        return []
    at = f.at_key(path, GROUP_NAME)
    out = []
    if re.fullmatch(r"[0-9]+", group) and int(group) < 2**64:
        out.append(f.invalid(at, group, "must not be a number"))
    out += [
        f.forbidden(at, f"may not be set when '{key}' is specified")
        for key in (SLICE_SIZE, SLICE_REQUIRED)
        if key in annotations
    ]
    if PREFERRED not in annotations and REQUIRED not in annotations:
        why = f"may not be set when neither '{PREFERRED}' nor '{REQUIRED}' is specified"
        out.append(f.forbidden(at, why))
    return out


def _size_faults(annotations: Mapping[str, Any], path: Path) -> list[Fault]:
    size, topology = annotations.get(SLICE_SIZE), annotations.get(SLICE_REQUIRED)
    at = f.at_key(path, SLICE_SIZE)
    out = []
    if size is not None:
        number = _int32(size)
        if number is None:
            out.append(f.invalid(at, size, "must be a numeric value"))
        elif number < 1:
            out.append(f.invalid(at, size, "must be greater than or equal to 1"))
    if topology is not None and size is None:
        out.append(f.required(at, f"must be set when '{SLICE_REQUIRED}' is specified"))
    if topology is None and size is not None:
        out.append(f.forbidden(at, f"may not be set when '{SLICE_REQUIRED}' is not specified"))
    return out


def _int32(text: str) -> int | None:
    """As strconv.ParseInt(text, 10, 32) reads it."""
    if not re.fullmatch(r"[+-]?[0-9]{1,4000}", text, re.ASCII):
        return None
    number = int(text)
    return number if -_INT32 <= number < _INT32 else None


def _constraint_faults(annotations: Mapping[str, Any], path: Path, settings: Settings) -> list[Fault]:
    text = annotations.get(SLICE_CONSTRAINTS)
    if text is None:
        return []
    at = f.at_key(path, SLICE_CONSTRAINTS)
    if not settings.is_on("TASMultiLayerTopology"):
        why = "the TASMultiLayerTopology feature gate must be enabled to use this annotation"
        return [f.forbidden(at, why)]
    out = [
        f.forbidden(at, f"may not be set when '{key}' is specified")
        for key in (SLICE_REQUIRED, SLICE_SIZE)
        if key in annotations
    ]
    if GROUP_NAME in annotations:
        why = f"may not be set when '{SLICE_CONSTRAINTS}' is specified"
        out.append(f.forbidden(f.at_key(path, GROUP_NAME), why))
    layers = _layers(text)
    if isinstance(layers, str):
        return [*out, f.invalid(at, text, f"must be a valid JSON array: {layers}")]
    if not 1 <= len(layers) <= _MAX_LAYERS:
        return [*out, f.invalid(at, text, "topology constraints must contain between 1 and 3 entries")]
    return out + _layer_faults(layers, at)


def _layers(text: str) -> list[tuple[str, int]] | str:
    """Topology and size of every layer, or why it is none.

    Unlike kube: the reason is Python's, whose parser words it differently.
    """
    try:
        found = json.loads(text)
        return [(str(entry.get("topology", "")), int(entry.get("size", 0))) for entry in found or ()]
    except (ValueError, TypeError, AttributeError) as wrong:
        return str(wrong)


def _layer_faults(layers: Sequence[tuple[str, int]], path: Path) -> list[Fault]:
    out: list[Fault] = []
    for i, (topology, size) in enumerate(layers):
        out += f.invalids((*path, i, "topology"), topology, names.label_key(topology))
        if size < 1:
            out.append(f.invalid((*path, i, "size"), size, "must be greater than or equal to 1"))
    seen: dict[str, int] = {}
    for i, (topology, _) in enumerate(layers):
        if topology in seen:
            shown = f"{topology} (also at index {seen[topology]})"
            out.append(f.duplicate((*path, i, "topology"), shown))
        seen.setdefault(topology, i)
    for i, ((_, outer), (_, inner)) in enumerate(pairwise(layers)):
        if outer % max(inner, 1):
            why = f"must evenly divide the parent layer size {outer}"
            out.append(f.invalid((*path, i + 1, "size"), inner, why))
    return out


def bound_faults(template: Template) -> list[Fault]:
    """No slice larger than the pod set. Annotations that say no number were refused already."""
    annotations = template.annotations
    why = f"must not be greater than pod set count {template.count}"
    path: Path = (*template.path, "annotations")
    out = []
    size = annotations.get(SLICE_SIZE)
    number = None if size is None else _int32(size)
    if number is not None and number > template.count:
        out.append(f.invalid(f.at_key(path, SLICE_SIZE), size, why))
    layers = _layers(annotations.get(SLICE_CONSTRAINTS) or "[]")
    if not isinstance(layers, str) and layers and layers[0][1] > template.count:
        out.append(f.invalid(f.at_key(path, SLICE_CONSTRAINTS), layers[0][1], why))
    return out


def grouping_faults(templates: Sequence[Template]) -> list[Fault]:
    """Pod sets that must share a topology come in twos, one of them a single pod, and want the same."""
    groups: dict[str, list[Template]] = {}
    for template in templates:
        if GROUP_NAME in template.annotations:
            groups.setdefault(template.annotations[GROUP_NAME], []).append(template)
    return [fault for name, members in groups.items() for fault in _one_group(name, members)]


def _one_group(name: str, members: Sequence[Template]) -> list[Fault]:
    paths: list[Path] = [(*m.path, "annotations") for m in members]
    if len(members) != _GROUP_SIZE:
        why = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
        return [f.invalid(f.at_key(path, GROUP_NAME), name, why) for path in paths]
    out = []
    first, second = members
    if first.count != 1 and second.count != 1:
        why = (
            "can only define groups where at least one pod set has only 1 replica, got: "
            f"{first.count} replica(s) and {second.count} replica(s) in the group"
        )
        out += [f.invalid(f.at_key(path, GROUP_NAME), name, why) for path in paths]
    wants = {(m.annotations.get(REQUIRED), m.annotations.get(PREFERRED)) for m in members}
    if len(wants) > 1 or (None, None) in wants:
        for here, there in ((paths[0], paths[1]), (paths[1], paths[0])):
            why = (
                f"must specify '{REQUIRED}' or '{PREFERRED}' topology consistent with "
                f"'{path_text(there)}' in group '{name}'"
            )
            out.append(f.invalid(here, OMITTED, why))
    return out
