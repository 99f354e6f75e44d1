"""What is taken: devices for one claim alone, and parts of shared ones.

Source: plugins/dynamicresources/allocateddevices.go, structured/internal/allocatedstate.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from fairway.kube import quantity
from fairway.kube.objects import Obj, status_of
from fairway.scheduling.devices.facts import DeviceId


@dataclass(slots=True)
class Usage:
    """`whole`: devices nobody else may have → how many claims say so (one, unless something went wrong). `parts`: of
    shared devices, how much of each capacity; `shares`: how many allocations."""

    whole: dict[DeviceId, int] = field(default_factory=dict)
    parts: dict[DeviceId, dict[str, Fraction]] = field(default_factory=dict)
    shares: dict[DeviceId, int] = field(default_factory=dict)

    def is_taken(self, device: DeviceId) -> bool:
        """Whether anybody has any of it: it takes its counters then."""
        return device in self.whole or device in self.shares or device in self.parts

    def add(self, results: Iterable[Obj]) -> list[DeviceId]:
        """Count an allocation. Returns the devices it concerns."""
        return [self._move(result, 1) for result in _taking(results)]

    def remove(self, results: Iterable[Obj]) -> list[DeviceId]:
        return [self._move(result, -1) for result in _taking(results)]

    def _move(self, result: Obj, sign: int) -> DeviceId:
        device = DeviceId(result["driver"], result["pool"], result["device"])
        if result.get("shareID") is None:
            _count(self.whole, device, sign)
            return device
        _count(self.shares, device, sign)
        consumed = result.get("consumedCapacity")
        if consumed is not None:
            parts = self.parts.setdefault(device, {})
            for name, text in consumed.items():
                parts[name] = parts.get(name, Fraction(0)) + sign * quantity.of(text)
            if sign < 0 and not any(parts.values()):
                del self.parts[device]
        return device

    def copy(self) -> Usage:
        parts = {device: dict(of) for device, of in self.parts.items()}
        return Usage(dict(self.whole), parts, dict(self.shares))


def results_of(claim: Obj) -> list[Obj]:
    """The devices a claim has."""
    return results_in(status_of(claim).get("allocation") or {})


def results_in(allocation: Obj) -> list[Obj]:
    found: list[Obj] = (allocation.get("devices") or {}).get("results") or []
    return found


def _taking(results: Iterable[Obj]) -> Iterator[Obj]:
    """Admin access takes nothing from anybody."""
    return (r for r in results if not r.get("adminAccess"))


def _count(counts: dict[DeviceId, int], device: DeviceId, sign: int) -> None:
    left = counts.get(device, 0) + sign
    if left > 0:
        counts[device] = left
    else:
        counts.pop(device, None)
