"""Defaults of resource.k8s.io/v1: claims ask for one device of a class unless they say otherwise.

Source: pkg/apis/resource/v1/defaults.go, pkg/registry/resource/resourceslice/strategy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairway.kube.memos import memo
from fairway.kube.objects import Obj

# Fields of features that are off in 1.36: whoever sends them finds them dropped.
_LISTS: Final = ("bools", "ints", "strings", "versions")
_MAPPINGS: Final = "nodeAllocatableResourceMappings"


_MEMO_SIZE: Final = 4096
_specs: dict[int, tuple[Obj, Obj]] = memo()
"""By the id of a claim's spec (kept, so that the id stays taken): its defaulted form, one for a template's claims."""


def claim_defaults(claim: Obj) -> Obj:
    return _with(claim, "spec", _remembered)


def _remembered(spec: Obj) -> Obj:
    known = _specs.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    filled = claim_spec_defaults(spec)
    if len(_specs) >= _MEMO_SIZE:
        _specs.clear()
    _specs[id(spec)] = (spec, filled)
    return filled


def claim_template_defaults(template: Obj) -> Obj:
    return _with(template, "spec", claim_defaults)


def claim_spec_defaults(spec: Obj) -> Obj:
    return _with(spec, "devices", lambda devices: _with_each(devices, "requests", _request))


def _request(request: Obj) -> Obj:
    return _with_each(_with(request, "exactly", _exact), "firstAvailable", _exact)


def _exact(request: Obj) -> Obj:
    mode = request.get("allocationMode") or "ExactCount"
    missing: Obj = {} if request.get("allocationMode") else {"allocationMode": mode}
    if mode == "ExactCount" and not request.get("count"):
        missing["count"] = 1
    filled = {**request, **missing} if missing else request
    return _with_each(filled, "tolerations", _toleration)


def _toleration(toleration: Obj) -> Obj:
    return toleration if toleration.get("operator") else {**toleration, "operator": "Equal"}


def slice_defaults(obj: Obj) -> Obj:
    """A slice without what features that are off would have added."""
    return _with(obj, "spec", lambda spec: _with_each(spec, "devices", _device))


def _device(device: Obj) -> Obj:
    device = {k: v for k, v in device.items() if k != _MAPPINGS} if _MAPPINGS in device else device
    attributes = device.get("attributes") or {}
    if not any(name in value for value in attributes.values() if value for name in _LISTS):
        return device
    kept = {k: {n: v for n, v in a.items() if n not in _LISTS} for k, a in attributes.items()}
    return {**device, "attributes": kept}


def with_taint_times(obj: Obj, now: str) -> Obj:
    """A slice whose taints all say since when they are there."""

    def timed(taint: Obj) -> Obj:
        return taint if taint.get("timeAdded") else {**taint, "timeAdded": now}

    return _with(
        obj,
        "spec",
        lambda spec: _with_each(spec, "devices", lambda device: _with_each(device, "taints", timed)),
    )


def _with(value: Obj, name: str, change: Callable[[Obj], Obj]) -> Obj:
    """The mapping with one member changed; the same where nothing does."""
    member = value.get(name)
    if not isinstance(member, dict):
        return value
    changed = change(member)
    return value if changed is member else {**value, name: changed}


def _with_each(value: Obj, name: str, change: Callable[[Obj], Obj]) -> Obj:
    members = value.get(name)
    if not isinstance(members, list) or not all(isinstance(m, dict) for m in members):
        return value
    changed = [change(m) for m in members]
    return value if all(a is b for a, b in zip(changed, members, strict=True)) else {**value, name: changed}
