"""Constraints between the devices of one claim: the same value of an attribute, or another one each.

Source: structured/internal/incubating/{allocator_incubating,constraint}.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj
from fairway.scheduling.devices.facts import Constraint, Device, Request

_KINDS = ("string", "int", "bool", "version")


class Matching:
    """All devices share the value of the first. A device without the attribute never fits."""

    def __init__(self, constraint: Constraint) -> None:
        self._requests, self._name = constraint.requests, constraint.match
        self._value: tuple[str, Any] | None = None
        self._count = 0

    def add(self, request: Request, device: Device) -> bool:
        if not _concerns(self._requests, request):
            return True
        value = _value_of(device.attribute(self._name))
        if value is None:
            return False
        if self._count and (value != self._value or not value[0]):
            return False
        if not self._count:
            self._value = value
        self._count += 1
        return True

    def remove(self, request: Request) -> None:
        if _concerns(self._requests, request):
            self._count -= 1


class Distinct:
    """No two requests have the same value.

    As upstream: one value is kept for each request, that of its latest device, and it goes with any of them.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._requests, self._name = constraint.requests, constraint.distinct
        self._values: dict[str, tuple[str, Any]] = {}

    def add(self, request: Request, device: Device) -> bool:
        if not _concerns(self._requests, request):
            return True
        value = _value_of(device.attribute(self._name))
        if value is None:
            return False
        if any(not value[0] or value == other for other in self._values.values()):
            return False
        self._values[request.parent or request.name] = value
        return True

    def remove(self, request: Request) -> None:
        if _concerns(self._requests, request):
            self._values.pop(request.parent or request.name, None)


def _concerns(requests: frozenset[str], request: Request) -> bool:
    if not requests:
        return True
    return (request.parent or request.name) in requests or (
        bool(request.parent) and request.full_name in requests
    )


def _value_of(attribute: Obj | None) -> tuple[str, Any] | None:
    """Type and value: values of different types never equal. No type: of a kind nobody knows."""
    if attribute is None:
        return None
    return next(((k, attribute[k]) for k in _KINDS if attribute.get(k) is not None), ("", None))
