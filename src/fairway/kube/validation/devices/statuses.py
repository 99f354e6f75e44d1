"""The status of ResourceClaims: what schedulers, controllers and drivers write."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final

from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)
from fairway.kube.validation.devices import parts
from fairway.kube.validation.devices.gostructs import go_text
from fairway.kube.validation.devices.requests import admin_refusal
from fairway.kube.validation.devices.slices import node_selector

MAX_RESERVED: Final = 256
_MAX_RESULTS: Final = 32
_MAX_CONDITIONS: Final = 8
_MAX_DATA: Final = 10 * 1024
_MAX_ADDRESSES: Final = 16
_SOURCES: Final = ("FromClaim", "FromClass")
_STATUSES: Final = ("False", "True", "Unknown")
_MAX_REASON, _MAX_MESSAGE = 1024, 32 * 1024
_REASON: Final = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '"
    + _REASON.pattern
    + "')"
)


def status_problems(new: Obj, old: Obj, namespace: Obj | None) -> list[Problem]:
    """What is wrong with a claim's new status."""
    status, before, at = status_of(new), status_of(old), ("status",)
    found = _admin(status, before, namespace)
    named = parts.Requests(spec_of(new).get("devices") or {})
    reserved, where = status.get("reservedFor"), (*at, "reservedFor")
    found += parts.unique(reserved, MAX_RESERVED, _consumer, lambda r: r.get("uid") or "", where)
    found += _devices(status, (*at, "devices"))
    if reserved and status.get("allocation") is None:
        found.append(forbidden(where, "may not be specified when `allocated` is not set"))
    elif reserved and "deletionTimestamp" in meta_of(new):
        kept = before.get("reservedFor") or ()
        if any(r not in kept for r in reserved):
            detail = (
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            )
            found.append(forbidden(where, detail))
    allocation, was = status.get("allocation"), before.get("allocation")
    where = (*at, "allocation")
    if allocation is not None and was is not None:
        if allocation != was:
            found.append(invalid(where, go_text("AllocationResult", allocation), "field is immutable"))
    elif allocation is not None:
        found += _allocation(allocation, named, where)
    return found


def _admin(status: Obj, before: Obj, namespace: Obj | None) -> list[Problem]:
    if _admin_results(before):
        return []
    at: Path = ("status", "allocation", "devices", "results")
    granted = _admin_results(status)
    return admin_refusal((*at, granted[0], "adminAccess"), namespace) if granted else []


def _admin_results(status: Obj) -> list[int]:
    return [index for index, result in enumerate(results_of(status)) if result.get("adminAccess")]


def results_of(status: Obj) -> list[Obj]:
    """The devices a claim's status says it has."""
    found: list[Obj] = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return found


def without_deallocated(status: Obj, before: Obj) -> Obj:
    """The status without what drivers said of devices that were given back. Source: dropDeallocatedStatusDevices."""
    gone = {_shared_id(r) for r in results_of(before)} - {_shared_id(r) for r in results_of(status)}
    devices = status.get("devices") or []
    kept = [d for d in devices if _shared_id(d) not in gone]
    if len(kept) == len(devices):
        return status
    rest = {k: v for k, v in status.items() if k != "devices"}
    return {**rest, "devices": kept} if kept else rest


def _shared_id(value: Obj) -> tuple[str, str, str, str]:
    return (
        value.get("driver") or "",
        value.get("pool") or "",
        value.get("device") or "",
        value.get("shareID") or "",
    )


def _consumer(value: Obj, at: Path) -> list[Problem]:
    return [required((*at, name)) for name in ("resource", "name", "uid") if not value.get(name)]


# The allocation


def _allocation(value: Obj, named: parts.Requests, at: Path) -> list[Problem]:
    devices, where = value.get("devices") or {}, (*at, "devices")

    def result(value: Obj, at: Path) -> list[Problem]:
        found = named.reference(value.get("request") or "", (*at, "request"))
        found += parts.driver(value.get("driver"), (*at, "driver"))
        found += parts.pool(value.get("pool"), (*at, "pool"))
        found += parts.label(value.get("device"), (*at, "device"))
        found += parts.binding_conditions(value, at)
        share = value.get("shareID")
        return found if share is None else [*found, *parts.uid(share, (*at, "shareID"))]

    def config(value: Obj, at: Path) -> list[Problem]:
        source = value.get("source") or ""
        found: list[Problem] = []
        if not source:
            found.append(required((*at, "source")))
        elif source not in _SOURCES:
            found.append(unsupported((*at, "source"), source, _SOURCES))
        found += named.references(value.get("requests"), (*at, "requests"))
        return [*found, *parts.configuration(value, at)]

    found = parts.items(devices.get("results"), _MAX_RESULTS, result, (*where, "results"))
    found += parts.items(devices.get("config"), 2 * parts.MAX_CONFIGS, config, (*where, "config"))
    selector = value.get("nodeSelector")
    return found if selector is None else [*found, *node_selector(selector, (*at, "nodeSelector"))]


# What drivers say of their devices


def _devices(status: Obj, at: Path) -> list[Problem]:
    allocated = {_shared_id(r) for r in results_of(status)}

    def check(device: Obj, where: Path) -> list[Problem]:
        return _device(device, where, allocated)

    found = parts.items(status.get("devices"), -1, check, at)
    seen = set()
    for index, device in enumerate(status.get("devices") or ()):
        own = _shared_id(device)
        if own in seen:
            found.append(duplicate((*at, index), go_text("SharedDeviceID", device)))
        seen.add(own)
    return found


def _device(device: Obj, at: Path, allocated: set[tuple[str, str, str, str]]) -> list[Problem]:
    found = parts.driver(device.get("driver"), (*at, "driver"))
    found += parts.pool(device.get("pool"), (*at, "pool"))
    found += parts.label(device.get("device"), (*at, "device"))
    if device.get("shareID") is not None:
        found += parts.uid(device["shareID"], (*at, "shareID"))
    if _shared_id(device) not in allocated:
        found.append(
            invalid(at, go_text("SharedDeviceID", device), "must be an allocated device in the claim")
        )
    conditions, where = device.get("conditions") or (), (*at, "conditions")
    if len(conditions) > _MAX_CONDITIONS:
        found.append(too_many(where, len(conditions), _MAX_CONDITIONS))
    found += _conditions(conditions, where)
    if device.get("data") is not None:
        found += parts.raw(device["data"], (*at, "data"), _MAX_DATA)
    return [*found, *_network(device.get("networkData"), (*at, "networkData"))]


def _conditions(conditions: Any, at: Path) -> list[Problem]:
    """Source: apimachinery pkg/apis/meta/v1/validation ValidateConditions."""
    found: list[Problem] = []
    seen = set()
    for index, condition in enumerate(conditions):
        where, kind = (*at, index), condition.get("type") or ""
        if kind in seen:
            found.append(duplicate((*where, "type"), kind))
        seen.add(kind)
        found += parts.label_name(kind, (*where, "type"))
        if condition.get("status") not in _STATUSES:
            found.append(unsupported((*where, "status"), condition.get("status") or "", _STATUSES))
        generation = condition.get("observedGeneration") or 0
        if generation < 0:
            detail = "must be greater than or equal to zero"
            found.append(invalid((*where, "observedGeneration"), generation, detail))
        if not condition.get("lastTransitionTime"):
            found.append(required((*where, "lastTransitionTime")))
        found += _reason(condition.get("reason") or "", (*where, "reason"))
        if len((condition.get("message") or "").encode()) > _MAX_MESSAGE:
            found.append(too_long((*where, "message"), _MAX_MESSAGE))
    return found


def _reason(reason: str, at: Path) -> list[Problem]:
    if not reason:
        return [required(at)]
    found = [] if _REASON.fullmatch(reason) else [invalid(at, reason, _REASON_TEXT)]
    return [*found, too_long(at, _MAX_REASON)] if len(reason) > _MAX_REASON else found


def _network(value: Obj | None, at: Path) -> list[Problem]:
    if value is None:
        return []
    found = [
        too_long((*at, name), most)
        for name, most in (("interfaceName", 256), ("hardwareAddress", 128))
        if len((value.get(name) or "").encode()) > most
    ]
    return [*found, *parts.unique(value.get("ips"), _MAX_ADDRESSES, _address, str, (*at, "ips"))]


def _address(value: str, at: Path) -> list[Problem]:
    """Source: apimachinery pkg/util/validation IsValidInterfaceAddress."""
    try:
        interface = ipaddress.ip_interface(value) if "/" in value else None
    except ValueError:
        interface = None
    if interface is None:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [invalid(at, value, detail)]
    plain = f"{interface.ip.compressed}/{interface.network.prefixlen}"
    return [] if plain == value else [invalid(at, value, f'must be in canonical form ("{plain}")')]
