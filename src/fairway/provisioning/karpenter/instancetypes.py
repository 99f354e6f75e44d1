"""What could be launched: instance types with what they hold, and where and for how much each is offered.

Source: pkg/cloudprovider/types.go. Overhead follows EKS: kube-reserved CPU and memory by size and number of pods,
and the kubelet's hard eviction threshold. Source: karpenter-provider-aws pkg/providers/instancetype/types.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from fairway.catalog.catalog import Catalog
from fairway.catalog.instances import InstanceType as CatalogType
from fairway.catalog.prices import Price
from fairway.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, NVIDIA_GPU, PODS, Resources
from fairway.provisioning.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    ON_DEMAND,
    OS,
    OWN_PREFIX,
    PROVIDER_LABELS,
    PROVIDER_PREFIXES,
    REGION,
    SPOT,
    ZONE,
)
from fairway.provisioning.karpenter.requirement import Requirement, one_of
from fairway.provisioning.karpenter.requirements import Requirements

GIB, MIB = 2**30, 2**20
# kubelet's default root disk in the providers' default NodeClass.
_DISK_BYTES = 20 * GIB
_EVICTION_BYTES = 100 * MIB
_EVICTION_DISK_PERCENT = 10
# Category and generation in a family's name: p5, g4dn.
_FAMILY = re.compile(r"([a-z]+)([0-9]+)")


@dataclass(frozen=True, slots=True)
class Offering:
    """A type in one zone under one capacity type. `price`: µ$ an hour."""

    zone: str
    capacity_type: str
    price: int
    available: bool = True
    labels: tuple[tuple[str, str], ...] = ()

    def requirements(self) -> Requirements:
        return _asked(self.zone, self.capacity_type, self.labels)


@lru_cache(maxsize=4096)
def _asked(zone: str, capacity_type: str, labels: tuple[tuple[str, str], ...]) -> Requirements:
    more = [one_of(k, (v,)) for k, v in labels]
    return Requirements([one_of(ZONE, (zone,)), one_of(CAPACITY_TYPE, (capacity_type,)), *more])


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A type. `capacity` is what limits count; `overhead` what the system keeps of it."""

    name: str
    requirements: Requirements
    offerings: tuple[Offering, ...]
    capacity: Resources = field(hash=False)
    overhead: Resources = field(hash=False, default_factory=dict)

    @property
    def allocatable(self) -> Resources:
        return {name: max(value - self.overhead.get(name, 0), 0) for name, value in self.capacity.items()}

    def price_of(self, zone: str, capacity_type: str) -> int | None:
        """µ$ an hour of a running node, available or not; None where there is no such offering."""
        return next(
            (o.price for o in self.offerings if (o.zone, o.capacity_type) == (zone, capacity_type)), None
        )


def types_of_catalog(
    catalog: Catalog,
    *,
    provider: str = "",
    regions: Iterable[str] = (),
    at_us: int | None = None,
    unavailable: frozenset[tuple[str, str, str]] = frozenset(),
) -> tuple[InstanceType, ...]:
    """The catalog's types with an offering per zone and priced capacity type; those without a price have none.

    `unavailable`: (type, zone, capacity type) that are out of stock now.
    """
    wanted = tuple(regions)
    return tuple(
        _of_catalog(catalog, t, wanted, at_us, unavailable)
        for t in catalog.instance_types()
        if (not provider or t.provider == provider) and (not wanted or set(wanted) & set(t.regions))
    )


def _of_catalog(
    catalog: Catalog,
    kind: CatalogType,
    regions: tuple[str, ...],
    at_us: int | None,
    unavailable: frozenset[tuple[str, str, str]],
) -> InstanceType:
    zones = [z for z in kind.zones if not regions or catalog.region_of(z) in regions]
    offerings = []
    for zone in zones:
        for capacity_type in (ON_DEMAND, SPOT):
            price = catalog.price(kind.name, capacity_type, zone=zone, at_us=at_us)
            if isinstance(price, Price):
                out = (kind.name, zone, capacity_type) in unavailable
                offerings.append(Offering(zone, capacity_type, price.micros_per_hour, not out))
    capacity = {
        CPU: kind.cpu_milli,
        MEMORY: kind.memory_bytes,
        EPHEMERAL_STORAGE: _DISK_BYTES,
        PODS: kind.pods,
        **({NVIDIA_GPU: kind.gpus} if kind.gpus else {}),
    }
    labels = {INSTANCE_TYPE: kind.name, ARCH: kind.arch, OS: "linux"}
    places = {
        ZONE: sorted({o.zone for o in offerings}),
        REGION: sorted({catalog.region_of(o.zone) for o in offerings}),
        CAPACITY_TYPE: sorted({o.capacity_type for o in offerings}),
    }
    wanted = [one_of(k, (v,)) for k, v in labels.items()] + [one_of(k, v) for k, v in places.items()]
    own = _own_labels(catalog, kind)
    return InstanceType(
        kind.name, Requirements([*wanted, *own]), tuple(offerings), capacity, overhead_of(capacity)
    )


def _own_labels(catalog: Catalog, kind: CatalogType) -> list[Requirement]:
    """What the cloud's provider says about the machine; of what it lacks: `DoesNotExist`."""
    prefix = PROVIDER_PREFIXES.get(kind.provider, OWN_PREFIX)
    model = catalog.gpu(kind.gpu)
    parts = _FAMILY.match(kind.family)
    values = {
        "family": kind.family,
        "size": kind.name.partition(".")[2],
        "category": parts[1] if parts else "",
        "generation": parts[2] if parts else "",
        "cpu": str(kind.cpu_milli // 1000),
        "memory": str(kind.memory_bytes // MIB),
        "gpu-count": str(kind.gpus) if kind.gpus else "",
        "gpu-manufacturer": "nvidia" if kind.gpus else "",
        "gpu-name": model.name.partition("-")[0].lower() if model else "",
        "gpu-memory": str(model.memory_bytes // MIB) if model else "",
    }
    return [
        one_of(prefix + name, (values[name],)) if values[name] else one_of(prefix + name, ())
        for name in PROVIDER_LABELS
    ]


def overhead_of(capacity: Mapping[str, int]) -> Resources:
    """What kubelet and system keep: kube-reserved by size, and the hard eviction threshold."""
    memory = 255 * MIB + 11 * MIB * capacity.get(PODS, 0) + _EVICTION_BYTES
    disk = GIB + capacity.get(EPHEMERAL_STORAGE, 0) * _EVICTION_DISK_PERCENT // 100
    return {CPU: _reserved_cpu(capacity.get(CPU, 0)), MEMORY: memory, EPHEMERAL_STORAGE: disk}


# (from, until) in milli-CPU, and the share of it that is kept, in thousandths.
_CPU_STEPS = ((0, 1000, 60), (1000, 2000, 10), (2000, 4000, 5))
_CPU_REST_PER_10000 = 25


def _reserved_cpu(cpu_milli: int) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest."""
    kept = sum((min(cpu_milli, end) - start) * share for start, end, share in _CPU_STEPS if cpu_milli > start)
    rest = max(cpu_milli - 4000, 0) * _CPU_REST_PER_10000 // 10
    return (kept + rest) // 1000
