"""Which machine does a cloud launch for a NodeClaim?

Where nothing is in stock the claim is deleted, the offering counts as unavailable for a while, and its pods are
looked at again.

Source: karpenter-provider-aws pkg/providers/instance: the capacity type by precedence, spot dearer than on-demand
left out, the lowest price first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.kube.objects import Obj, spec_of
from fairway.kube.timestamps import MINUTE_US
from fairway.provisioning.karpenter.fleet import available
from fairway.provisioning.karpenter.instancetypes import InstanceType, Offering
from fairway.provisioning.karpenter.labels import INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT
from fairway.provisioning.karpenter.requirements import selector_requirements

# How long an offering that was out of stock is left out. Source: karpenter-provider-aws UnavailableOfferingsTTL.
UNAVAILABLE_US: Final = 3 * MINUTE_US


@dataclass(frozen=True, slots=True)
class Launch:
    """What to try, in order: (type, offering). All of one capacity type."""

    choices: tuple[tuple[InstanceType, Offering], ...]

    @property
    def is_empty(self) -> bool:
        return not self.choices


def launch_choices(claim: Obj, types: Mapping[str, InstanceType]) -> Launch:
    """What a cloud would launch for a NodeClaim: of the first capacity type there is among reserved, spot and
    on-demand, the cheapest offering first.

    Spot dearer than the cheapest on-demand offering is left out where both are allowed.
    """
    wanted = selector_requirements(spec_of(claim).get("requirements"))
    names = wanted.get(INSTANCE_TYPE)
    offers = [
        (kind, offering)
        for kind in types.values()
        if names.has(kind.name)
        for offering in available(kind, wanted)
    ]
    by_type = {
        capacity_type: [pair for pair in offers if pair[1].capacity_type == capacity_type]
        for capacity_type in (RESERVED, SPOT, ON_DEMAND)
    }
    cheapest = min((o.price for _, o in by_type[ON_DEMAND]), default=None)
    if cheapest is not None:
        by_type[SPOT] = [pair for pair in by_type[SPOT] if pair[1].price <= cheapest]
    chosen = next((pairs for pairs in by_type.values() if pairs), [])
    return Launch(tuple(sorted(chosen, key=lambda p: (p[1].price, p[0].name, p[1].zone))))


def no_capacity_text() -> str:
    """Source: InsufficientCapacityError; all requested instance types were unavailable during launch."""
    return "insufficient capacity, all requested instance types were unavailable during launch"
