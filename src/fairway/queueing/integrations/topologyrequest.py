"""Which topology does a pod template ask for, by its annotations?

Source: pkg/controller/jobframework/tas.go.
"""

from __future__ import annotations

import json
from typing import Any, Final

from fairway.kube.integers import natural
from fairway.kube.objects import Obj, annotations_of

REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_REQUIRED: Final = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
SLICE_CONSTRAINTS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
GROUP_NAME: Final = "kueue.x-k8s.io/podset-group-name"

_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


def topology_request(
    template: Obj, *, pod_index_label: str = "", sub_group_label: str = "", sub_group_count: int | None = None
) -> dict[str, Any] | None:
    """`podSets[].topologyRequest`, or None where nothing is asked for.

    `pod_index_label`: by which pods say their rank; `sub_group_…`: where a pod set is several jobs of one size.
    """
    annotations = annotations_of(template)
    request: dict[str, Any] = {}
    has_slices = (SLICE_REQUIRED in annotations and SLICE_SIZE in annotations) or (
        SLICE_CONSTRAINTS in annotations
    )
    if REQUIRED in annotations:
        request["required"] = annotations[REQUIRED]
    elif PREFERRED in annotations:
        request["preferred"] = annotations[PREFERRED]
    elif UNCONSTRAINED in annotations:
        value = as_bool(annotations[UNCONSTRAINED])
        if value is not None:
            request["unconstrained"] = value
    elif not has_slices and not pod_index_label and not sub_group_label and sub_group_count is None:
        return None
    _add_slices(request, annotations)
    if pod_index_label:
        request["podIndexLabel"] = pod_index_label
    if sub_group_label:
        request["subGroupIndexLabel"] = sub_group_label
    if sub_group_count is not None:
        request["subGroupCount"] = sub_group_count
    if GROUP_NAME in annotations and (REQUIRED in annotations or PREFERRED in annotations):
        request["podSetGroupName"] = annotations[GROUP_NAME]
    return request


def _add_slices(request: dict[str, Any], annotations: dict[str, str]) -> None:
    if SLICE_CONSTRAINTS in annotations:
        try:
            constraints = json.loads(annotations[SLICE_CONSTRAINTS])
        except ValueError:
            return
        if isinstance(constraints, list) and 1 <= len(constraints) <= 3:
            request["podsetSliceRequiredTopologyConstraints"] = constraints
    elif SLICE_REQUIRED in annotations and (size := natural(annotations.get(SLICE_SIZE))) is not None:
        request["podSetSliceRequiredTopology"] = annotations[SLICE_REQUIRED]
        request["podSetSliceSize"] = size


def as_bool(text: str) -> bool | None:
    """As Go's strconv.ParseBool reads it; None for anything else."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None
