"""The cloud of a twin: which machines there are, what is out of stock, how long a machine takes to come."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.instancetypes import InstanceType, Offering
from fairway.twin.distributions import Distribution, constant

Offered = tuple[str, str, str]
"""(type, zone, capacity type)."""

# From launch until the node is ready: what providers report for GPU images on warm capacity.
DEFAULT_BOOT = constant(60 * SECOND_US)


@dataclass(frozen=True, slots=True)
class Cloud:
    """What can be launched. `out_of_stock`: offerings whose launch fails, though Karpenter does not know yet."""

    types: tuple[InstanceType, ...]
    boot: Distribution = DEFAULT_BOOT
    out_of_stock: frozenset[Offered] = frozenset()
    spot_to_spot: bool = False


def fleet_without(types: tuple[InstanceType, ...], unavailable: frozenset[Offered]) -> Fleet:
    """The fleet as Karpenter sees it after launches that failed."""
    if not unavailable:
        return Fleet(types)
    return Fleet(replace(t, offerings=tuple(_seen(t, o, unavailable) for o in t.offerings)) for t in types)


def _seen(kind: InstanceType, offering: Offering, unavailable: frozenset[Offered]) -> Offering:
    is_out = (kind.name, offering.zone, offering.capacity_type) in unavailable
    return replace(offering, available=offering.available and not is_out)
