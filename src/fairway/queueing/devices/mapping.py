"""Which DeviceClass counts as which resource of a ClusterQueue? `deviceClassMappings` of the Configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple


class Source(NamedTuple):
    """Counted by a counter of partitions, or by a capacity of shared devices, of one driver's devices that the
    selector chooses (empty: all)."""

    driver: str
    name: str
    selector: str


class DeviceClassMapping(NamedTuple):
    """Devices of these classes count as this resource: each as one, or as much as the sources say."""

    resource: str
    device_classes: tuple[str, ...]
    counters: tuple[Source, ...] = ()
    capacities: tuple[Source, ...] = ()


class DeviceClassMappings(NamedTuple):
    """All of a Configuration, in its order."""

    entries: tuple[DeviceClassMapping, ...] = ()

    def resource_of(self, device_class: str) -> str | None:
        """Of several mappings the first."""
        return next((m.resource for m in self.entries if device_class in m.device_classes), None)

    def counters_of(self, device_class: str) -> Iterator[tuple[str, Source]]:
        """(resource, counter): partitions of one class may count as several resources."""
        for mapping in self.entries:
            if device_class in mapping.device_classes:
                for source in mapping.counters:
                    yield mapping.resource, source

    def capacities_of(self, device_class: str) -> Iterator[Source]:
        for mapping in self.entries:
            if device_class in mapping.device_classes:
                yield from mapping.capacities


NO_MAPPINGS: Final = DeviceClassMappings()


def device_class_mappings(raw: Sequence[Mapping[str, Any]]) -> DeviceClassMappings:
    """From a valid `deviceClassMappings`."""
    return DeviceClassMappings(tuple(_mapping(m) for m in raw))


def _mapping(raw: Mapping[str, Any]) -> DeviceClassMapping:
    sources = raw.get("sources") or ()
    return DeviceClassMapping(
        raw["name"],
        tuple(raw.get("deviceClassNames") or ()),
        tuple(_source(s["counter"]) for s in sources if s.get("counter")),
        tuple(_source(s["capacity"]) for s in sources if s.get("capacity")),
    )


def _source(raw: Mapping[str, Any]) -> Source:
    selector = ((raw.get("deviceSelector") or {}).get("cel") or {}).get("expression") or ""
    return Source(raw["driver"], raw.get("name") or "", selector)
