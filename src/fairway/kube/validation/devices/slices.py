"""ResourceSlices: what drivers publish."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import fmod
from typing import Any, Final

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.objects import Obj, spec_of
from fairway.kube.problem import (
    Faults,
    Problem,
    forbidden,
    invalid,
    invalids,
    not_found,
    required,
    too_long,
)
from fairway.kube.resources import is_native
from fairway.kube.validation.devices import parts
from fairway.kube.validation.devices.gostructs import go_text
from fairway.kube.validation.kinds.metadata import object_meta
from fairway.kube.validation.kinds.selectors import node_selector_term

_MAX_DEVICES: Final = 128
# Of slices that use taints, counters or lists.
_MAX_DEVICES_ADVANCED: Final = 64
_MAX_COUNTER_SETS: Final = 8
_MAX_COUNTERS: Final = 32
_MAX_CONSUMED_SETS: Final = 2
_MAX_ATTRIBUTES: Final = 32
_MAX_ATTRIBUTE_VALUES: Final = 48
_MAX_VALUE: Final = 64
_MAX_TAINTS: Final = 16
_MAX_OPTIONS: Final = 10
_LISTS: Final = ("bools", "ints", "strings", "versions")

_NUMERIC = r"(0|[1-9]\d*)"
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMERIC}\.{_NUMERIC}\.{_NUMERIC}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def new_slice(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    check_slice(obj, out)


def check_slice(obj: Obj, out: list[Problem], old: Obj | None = None) -> None:
    spec, at = spec_of(obj), ("spec",)
    out += parts.driver(spec.get("driver"), (*at, "driver"))
    out += _pool(spec.get("pool") or {}, (*at, "pool"))
    if old is not None:
        out += _changed(spec, spec_of(old), at)
    out += _where(spec, at)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        out.append(invalid(at, "", "only one of `sharedCounters` or `devices` is allowed"))
    out += _devices(spec, None if old is None else spec_of(old), at)
    sets, where = spec.get("sharedCounters"), (*at, "sharedCounters")
    out += parts.unique(sets, _MAX_COUNTER_SETS, _counter_set, lambda s: s.get("name") or "", where)


def _pool(pool: Obj, at: Path) -> list[Problem]:
    found = parts.pool(pool.get("name"), (*at, "name"))
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        found.append(invalid((*at, "resourceSliceCount"), count, "must be greater than zero"))
    if generation < 0:
        found.append(invalid((*at, "generation"), generation, "must be greater than or equal to zero"))
    return found


def _changed(spec: Obj, old: Obj, at: Path) -> list[Problem]:
    found = []
    for path in (("pool", "name"), ("driver",), ("nodeName",)):
        new_value: Any = spec
        old_value: Any = old
        for step in path:
            new_value, old_value = (new_value or {}).get(step), (old_value or {}).get(step)
        if new_value != old_value:
            found.append(invalid((*at, *path), new_value, "field is immutable"))
    return found


_ONE_OF: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


def _where(spec: Obj, at: Path) -> list[Problem]:
    """Which nodes can use the devices: said in exactly one way."""
    found, said = _placement(spec, at, "must be either unset or set to a non-empty string")
    selector = spec.get("nodeSelector")
    if selector is not None and len(selector.get("nodeSelectorTerms") or ()) != 1:
        where = (*at, "nodeSelector", "nodeSelectorTerms")
        shown = go_text("[NodeSelectorTerm]", selector.get("nodeSelectorTerms"))
        found.append(invalid(where, shown, "must have exactly one node selector term"))
    found += _all_nodes(spec, at)
    per_device = spec.get("perDeviceNodeSelection")
    if per_device is not None:
        if per_device:
            said.append("`perDeviceNodeSelection`")
        else:
            where = (*at, "perDeviceNodeSelection")
            found.append(invalid(where, False, "must be either unset or set to true"))
    if not said:
        found.append(required(at, _ONE_OF))
    elif len(said) > 1:
        found.append(invalid(at, f"{{{', '.join(said)}}}", f"{_ONE_OF}, but multiple fields are set"))
    return found


def _placement(value: Obj, at: Path, empty: str) -> tuple[list[Problem], list[str]]:
    found: list[Problem] = []
    said = []
    name, selector = value.get("nodeName"), value.get("nodeSelector")
    if name is not None:
        if name:
            said.append("`nodeName`")
            found += invalids((*at, "nodeName"), name, names.dns_subdomain(name))
        else:
            found.append(invalid((*at, "nodeName"), "", empty))
    if selector is not None:
        said.append("`nodeSelector`")
        found += node_selector(selector, (*at, "nodeSelector"))
    if value.get("allNodes"):
        said.append("`allNodes`")
    return found, said


def _all_nodes(value: Obj, at: Path) -> list[Problem]:
    is_wrong = value.get("allNodes") is False
    return [invalid((*at, "allNodes"), False, "must be either unset or set to true")] if is_wrong else []


def node_selector(selector: Obj, at: Path) -> list[Problem]:
    terms, where = selector.get("nodeSelectorTerms") or (), (*at, "nodeSelectorTerms")
    if not terms:
        return [required(where, "must have at least one node selector term")]
    found = Faults()
    for index, term in enumerate(terms):
        node_selector_term(term, (*where, index), found)
    return found


# Devices


def _devices(spec: Obj, old: Obj | None, at: Path) -> list[Problem]:
    devices: Sequence[Obj] = spec.get("devices") or ()
    before = {d.get("name"): d for d in (old or {}).get("devices") or ()}
    most = _MAX_DEVICES_ADVANCED if any(map(_is_advanced, devices)) else _MAX_DEVICES
    per_device = bool(spec.get("perDeviceNodeSelection"))

    def check(device: Obj, where: Path) -> list[Problem]:
        return _device(device, before.get(device.get("name")), where, per_device)

    return parts.unique(devices, most, check, lambda d: d.get("name") or "", (*at, "devices"))


def _is_advanced(device: Obj) -> bool:
    if device.get("taints") or device.get("consumesCounters"):
        return True
    attributes = (device.get("attributes") or {}).values()
    return any(a.get(name) is not None for a in attributes for name in _LISTS)


def _device(device: Obj, old: Obj | None, at: Path, per_device: bool) -> list[Problem]:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    found = parts.label(device.get("name"), (*at, "name"))
    total = len(attributes) + len(capacity)
    if total > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        found.append(invalid(at, total, detail))
    values = sum(sum(len(a.get(n) or ()) for n in _LISTS) or 1 for a in attributes.values())
    if values > _MAX_ATTRIBUTE_VALUES:
        detail = f"the total number of attribute values must not exceed {_MAX_ATTRIBUTE_VALUES}"
        found.append(invalid(at, values, detail))
    found += parts.members(attributes, -1, parts.qualified, _attribute, (*at, "attributes"))
    check = _shared_capacity if device.get("allowMultipleAllocations") else _single_capacity
    found += parts.members(capacity, -1, parts.qualified, check, (*at, "capacity"))
    if old is None or (old.get("taints") or []) != (device.get("taints") or []):
        found += parts.items(device.get("taints"), _MAX_TAINTS, parts.taint, (*at, "taints"))
    consumed, where = device.get("consumesCounters"), (*at, "consumesCounters")
    found += parts.unique(
        consumed, _MAX_CONSUMED_SETS, _consumption, lambda c: c.get("counterSet") or "", where
    )
    found += _device_place(device, at) if per_device else _no_device_place(device, at)
    found += parts.binding_conditions(device, at)
    return [*found, *_mappings(device, (*at, "nodeAllocatableResourceMappings"))]


_DEVICE_ONE_OF: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)


def _device_place(device: Obj, at: Path) -> list[Problem]:
    found, said = _placement(device, at, "must not be empty")
    found += _all_nodes(device, at)
    if not said:
        found.append(required(at, _DEVICE_ONE_OF))
    elif len(said) > 1:
        found.append(invalid(at, f"{{{', '.join(said)}}}", _DEVICE_ONE_OF))
    return found


def _no_device_place(device: Obj, at: Path) -> list[Problem]:
    if all(device.get(name) is None for name in ("nodeName", "nodeSelector", "allNodes")):
        return []
    detail = (
        "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
        "ResourceSlice spec"
    )
    return [invalid(at, None, detail)]


def _attribute(value: Obj, at: Path) -> list[Problem]:
    found: list[Problem] = []
    given = [n for n in ("bool", "int", "string", "version", *_LISTS) if value.get(n) is not None]
    if "string" in given:
        found += _text(value["string"], (*at, "string"))
    if "version" in given:
        found += _version(value["version"], (*at, "version"))
    for name in _LISTS:
        if name not in given:
            continue
        if not value[name]:
            found.append(invalid((*at, name), [], "must not be empty if specified"))
        check = {"strings": _text, "versions": _version}.get(name)
        if check is not None:
            found += parts.items(value[name], -1, check, (*at, name))
    if len(given) != 1:
        shown = go_text("DeviceAttribute", value) if given else ""
        found.append(invalid(at, shown, "exactly one value must be specified"))
    return found


def _text(value: str, at: Path) -> list[Problem]:
    return [too_long(at, _MAX_VALUE)] if len(value.encode()) > _MAX_VALUE else []


def _version(value: str, at: Path) -> list[Problem]:
    found = []
    if not _SEMVER.fullmatch(value):
        found.append(invalid(at, value, "must be a string compatible with semver.org spec 2.0.0"))
    return [*found, *_text(value, at)]


# Counters


def _counter_set(value: Obj, at: Path) -> list[Problem]:
    return _named_counters(value, "name", _MAX_COUNTERS, at)


def _consumption(value: Obj, at: Path) -> list[Problem]:
    return _named_counters(value, "counterSet", _MAX_COUNTERS, at)


def _named_counters(value: Obj, name: str, most: int, at: Path) -> list[Problem]:
    found = parts.label(value[name], (*at, name)) if value.get(name) else [required((*at, name))]
    where = (*at, "counters")
    if not value.get("counters"):
        return [*found, required(where)]
    return [*found, *parts.members(value["counters"], most, parts.label, lambda _, __: [], where, 63)]


# Capacity


def _single_capacity(value: Obj, at: Path) -> list[Problem]:
    if value.get("requestPolicy") is None:
        return []
    return [forbidden((*at, "requestPolicy"), "allowMultipleAllocations must be true")]


def _shared_capacity(value: Obj, at: Path) -> list[Problem]:
    policy, where = value.get("requestPolicy"), (*at, "requestPolicy")
    if policy is None:
        return []
    values, span, default = policy.get("validValues"), policy.get("validRange"), policy.get("default")
    if values and span is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden(where, detail)]
    if values:
        if default is None:
            return [required((*where, "default"), "required when validValues is defined")]
        return _among(default, value["value"], values, (*where, "validValues"))
    if span is None:
        return []
    if default is None:
        return [required((*where, "default"), "required when validRange is defined")]
    return _within(default, value["value"], span, (*where, "validRange"))


def _among(default: Any, capacity: Any, values: Sequence[Any], at: Path) -> list[Problem]:
    found = [
        invalid((*at, index + 1), _said(b), "values must be sorted in ascending order")
        for index, (a, b) in enumerate(pairwise(values))
        if quantity.of(a) > quantity.of(b)
    ]

    def check(option: Any, where: Path) -> list[Problem]:
        if quantity.of(option) <= quantity.of(capacity):
            return []
        detail = f"option is larger than capacity value: {_said(capacity)}"
        return [invalid(where, _said(option), detail)]

    found += parts.unique(values, _MAX_OPTIONS, check, lambda v: str(quantity.whole_ceil(v)), at)
    is_tried = len(values) <= _MAX_OPTIONS
    if not (is_tried and any(quantity.of(v) == quantity.of(default) for v in values)):
        found.append(invalid(at, _said(default), "default value is not valid according to the requestPolicy"))
    return found


def _within(default: Any, capacity: Any, span: Obj, at: Path) -> list[Problem]:
    low, high, step = span.get("min"), span.get("max"), span.get("step")
    if low is None:
        return [required((*at, "min"), "required when validRange is defined")]
    of, found = quantity.of, []
    if of(low) > of(capacity):
        detail = f"min is larger than capacity value: {_said(capacity)}"
        found.append(invalid((*at, "min"), _said(low), detail))
    if of(default) < of(low):
        found.append(invalid((*at, "min"), _said(default), f"default is less than min: {_said(low)}"))
    if high is not None:
        if of(low) > of(high):
            found.append(invalid((*at, "max"), _said(low), f"min is larger than max: {_said(high)}"))
        if of(high) > of(capacity):
            detail = f"max is larger than capacity value: {_said(capacity)}"
            found.append(invalid((*at, "max"), _said(high), detail))
        if of(default) > of(high):
            found.append(invalid((*at, "max"), _said(default), f"default is more than max: {_said(high)}"))
    if step is not None:
        once = of(low) + of(step)
        if once > of(capacity):
            total = quantity.canonical(_sum_text(low, once))
            detail = f"one step {total} is larger than capacity value: {_said(capacity)}"
            found.append(invalid((*at, "step"), _said(step), detail))
        found += _steps(default, low, step, (*at, "step"))
        if high is not None:
            found += _steps(high, low, step, (*at, "step"))
    return found


def _sum_text(like: Any, amount: Fraction) -> str:
    """A sum in the notation of its first term, as Go's Quantity.Add keeps it."""
    text = str(like)
    is_binary = text.endswith("i")
    if is_binary and amount.denominator == 1:
        return quantity.format_binary(int(amount))
    return str(int(amount)) if amount.denominator == 1 else str(float(amount))


def _steps(value: Any, low: Any, step: Any, at: Path) -> list[Problem]:
    whole = quantity.whole_ceil
    if not whole(step) or not fmod(whole(value) - whole(low), whole(step)):
        return []
    detail = f"value is not a multiple of a given step ({_said(step)}) from ({_said(low)})"
    return [invalid(at, _said(value), detail)]


def _said(value: Any) -> str:
    return quantity.canonical(value)


def _mappings(device: Obj, at: Path) -> list[Problem]:
    """Of a feature that is off: only what an earlier version stored can have them."""
    found = []
    for name, mapping in sorted((device.get("nodeAllocatableResourceMappings") or {}).items()):
        where = (*at, MapKey(name))
        if not is_native(name):
            found.append(invalid(where, name, "must be a node allocatable resource name"))
        multiplier, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
        if multiplier is None and key is None:
            detail = "at least one of allocationMultiplier or capacityKey must be set"
            found.append(invalid(where, "", detail))
            continue
        if multiplier is not None and quantity.of(multiplier) <= 0:
            found.append(invalid((*where, "allocationMultiplier"), _said(multiplier), "must be positive"))
        if key == "":
            found.append(invalid((*where, "capacityKey"), "", "capacityKey must not be an empty string"))
        elif key is not None and key not in (device.get("capacity") or {}):
            found.append(not_found((*where, "capacityKey"), key))
    return found
