"""What will the pods of a Workload ask for once the API server has filled in their templates?

Kueue counts what pods will have, not what their template says: defaults of the namespace's LimitRanges and the
overhead of their RuntimeClass.

Source: pkg/workload/resources.go AdjustResources; pkg/util/limitrange Summarize.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairway.kube.objects import Obj, spec_of

_CONTAINERS: Final = ("containers", "initContainers")


class Defaults:
    """Of the LimitRanges of one namespace; of several the first that says something."""

    def __init__(self, ranges: Sequence[Obj]) -> None:
        self.limits: dict[str, Any] = {}
        self.requests: dict[str, Any] = {}
        for limit_range in ranges:
            for item in spec_of(limit_range).get("limits") or ():
                if item.get("type") == "Container":
                    self.limits = {**(item.get("default") or {}), **self.limits}
                    self.requests = {**(item.get("defaultRequest") or {}), **self.requests}

    @property
    def is_empty(self) -> bool:
        return not self.limits and not self.requests


def adjusted(obj: Obj, defaults: Defaults | None, overheads: Mapping[str, Mapping[str, Any]]) -> Obj:
    """The Workload with the pod sets quota is counted by. `overheads`: by RuntimeClass. The same if nothing changes."""
    pod_sets = spec_of(obj).get("podSets") or ()
    changed = [_pod_set(ps, defaults, overheads) for ps in pod_sets]
    if all(new is old for new, old in zip(changed, pod_sets, strict=True)):
        return obj
    return {**obj, "spec": {**spec_of(obj), "podSets": changed}}


def _pod_set(
    raw: dict[str, Any], defaults: Defaults | None, overheads: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    template = raw.get("template") or {}
    spec = dict(template.get("spec") or {})
    before = dict(spec)
    overhead = overheads.get(spec.get("runtimeClassName") or "")
    if overhead and not spec.get("overhead"):
        spec["overhead"] = dict(overhead)
    if defaults is not None and not defaults.is_empty:
        for field in _CONTAINERS:
            if spec.get(field):
                spec[field] = [_container(c, defaults) for c in spec[field]]
    if spec == before:
        return raw
    return {**raw, "template": {**template, "spec": spec}}


def _container(raw: dict[str, Any], defaults: Defaults) -> dict[str, Any]:
    resources = raw.get("resources") or {}
    limits = {**defaults.limits, **(resources.get("limits") or {})}
    requests = {**defaults.requests, **(resources.get("requests") or {})}
    return {**raw, "resources": {**resources, "limits": limits, "requests": requests}}
