"""What is wrong with `resources.deviceClassMappings`?

Source: pkg/config/validation.go validateDeviceClassMappings, validateDeviceClassSource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault

Raw = Mapping[str, Any]

_MAX_MAPPINGS, _MAX_CLASSES, _MAX_NAME = 16, 8, 253
# Source: api/resource/v1 DriverNameMaxLength.
_MAX_DRIVER = 63
_GATES = {
    "counter": "KueueDRAIntegrationPartitionableDevices",
    "capacity": "KueueDRAIntegrationConsumableCapacity",
}


def device_class_faults(mappings: Sequence[Raw], gates: Mapping[str, bool]) -> list[Fault]:
    root: Path = ("resources", "deviceClassMappings")
    out = [f.too_many(root, len(mappings), _MAX_MAPPINGS)] if len(mappings) > _MAX_MAPPINGS else []
    resources: set[str] = set()
    taken: dict[str, tuple[str, set[str]]] = {}
    for i, mapping in enumerate(mappings):
        at: Path = (*root, i)
        name, classes = mapping.get("name", ""), mapping.get("deviceClassNames") or []
        out += _key_faults(name, (*at, "name"))
        if name in resources:
            out.append(f.duplicate((*at, "name"), name))
        resources.add(name)
        if not classes:
            out.append(f.required((*at, "deviceClassNames"), "at least one device class name is required"))
        if len(classes) > _MAX_CLASSES:
            out.append(f.too_many((*at, "deviceClassNames"), len(classes), _MAX_CLASSES))
        for j, device_class in enumerate(classes):
            here: Path = (*at, "deviceClassNames", j)
            out += _key_faults(device_class, here)
            if device_class in classes[:j]:
                out.append(f.duplicate(here, device_class))
            out += _claimed_faults(device_class, mapping, taken, here)
        out += _source_faults(mapping, at, gates)
    return out


def _key_faults(name: str, path: Path) -> list[Fault]:
    complaints = names.label_key(name)
    out = [f.invalid(path, name, "; ".join(complaints))] if complaints else []
    if len(name) > _MAX_NAME:
        out.append(f.invalid(path, name, f"must not exceed {_MAX_NAME} characters"))
    return out


def _claimed_faults(
    device_class: str, mapping: Raw, taken: dict[str, tuple[str, set[str]]], path: Path
) -> list[Fault]:
    """One device class serves several resources only where each counts another counter."""
    sources = mapping.get("sources") or ()
    counter = ((sources[0].get("counter") or {}).get("name") or "") if sources else ""
    if device_class not in taken:
        taken[device_class] = (mapping.get("name", ""), {counter} if counter else set())
        return []
    resource, counters = taken[device_class]
    if resource == mapping.get("name", ""):
        return []
    if not counter or not counters:
        return [f.invalid(path, device_class, f"device class already mapped to resource {resource}")]
    if counter in counters:
        why = f'device class already has a counter source for counter "{counter}"'
        return [f.invalid(path, device_class, why)]
    counters.add(counter)
    return []


def _source_faults(mapping: Raw, at: Path, gates: Mapping[str, bool]) -> list[Fault]:
    out: list[Fault] = []
    sources = mapping.get("sources") or ()
    kinds = set()
    for i, source in enumerate(sources):
        here: Path = (*at, "sources", i)
        given = [name for name in ("counter", "capacity") if source.get(name) is not None]
        why = "exactly one source type must be set per entry"
        if not given:
            out.append(f.required(here, why))
        elif len(given) > 1:
            out.append(f.invalid(here, "counter+capacity", why))
        else:
            kind = given[0]
            kinds.add(kind)
            if gates.get(_GATES[kind]):
                out += _one_source(source[kind], kind, (*here, kind))
            else:
                why = f"{kind} sources require {_GATES[kind]} to be enabled"
                out.append(f.invalid((*here, kind), True, why))
    if len(kinds) > 1:
        why = "cannot mix counter and capacity sources in the same mapping"
        out.append(f.invalid((*at, "sources"), len(sources), why))
    return out


def _one_source(source: Raw, kind: str, at: Path) -> list[Fault]:
    # CEL comes with the first selector.
    from fairway.kube.cel.devices import selector

    name, driver = source.get("name") or "", source.get("driver") or ""
    out = [] if name else [f.required((*at, "name"))]
    complaints = names.dns_label(name) if kind == "counter" else names.label_key(name)
    if name and complaints:
        out.append(f.invalid((*at, "name"), name, ",".join(complaints)))
    if not driver:
        out.append(f.required((*at, "driver")))
    elif len(driver) > _MAX_DRIVER:
        out.append(f.invalid((*at, "driver"), driver, f"must not exceed {_MAX_DRIVER} characters"))
    elif names.dns_subdomain(driver):
        out.append(f.invalid((*at, "driver"), driver, ",".join(names.dns_subdomain(driver))))
    expression = ((source.get("deviceSelector") or {}).get("cel") or {}).get("expression") or ""
    path: Path = (*at, "deviceSelector", "cel", "expression")
    if not expression:
        out.append(f.required(path))
    elif selector(expression).error:
        out.append(f.invalid(path, expression, f"CEL compilation failed: {selector(expression).error}"))
    return out
