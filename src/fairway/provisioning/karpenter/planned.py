"""What a batch decided to open: the claim as data, ready to be written or compared.

Source: Results.TruncateInstanceTypes, InstanceTypes.Truncate, RemoveInstanceTypeOptionsByPriceAndMinValues.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from fairway.kube.resources import Resources
from fairway.provisioning.karpenter.claims import Claim
from fairway.provisioning.karpenter.fleet import (
    NO_PRICE,
    Fleet,
    available,
    unsatisfied_min_values,
)
from fairway.provisioning.karpenter.instancetypes import InstanceType
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.podfacts import PodFacts
from fairway.provisioning.karpenter.requirements import Requirements

# How many types a launch may name. Source: MaxInstanceTypes.
MAX_INSTANCE_TYPES: Final = 600


@dataclass(frozen=True, slots=True, eq=False)
class PlannedClaim:
    """A NodeClaim to be: `mask` are the types of the fleet that would do."""

    pool: NodePool
    fleet: Fleet = field(repr=False)
    requirements: Requirements
    mask: int
    requests: Resources
    pods: tuple[PodFacts, ...]
    min_values_relaxed: bool = False
    min_values_used: bool = False

    def types(self) -> list[InstanceType]:
        """The types that would do, cheapest first."""
        return [self.fleet.types[i] for i in self.fleet.by_price(self.mask, self.requirements)]

    @property
    def type_names(self) -> list[str]:
        return [t.name for t in self.types()]

    def cheapest(self) -> int:
        """µ$ an hour of the cheapest available offering; NO_PRICE where there is none."""
        prices = [o.price for t in self.types()[:1] for o in available(t, self.requirements)]
        return min(prices, default=NO_PRICE)

    def asking(self, requirements: Requirements) -> PlannedClaim:
        return replace(self, requirements=requirements)

    def of_types(self, types: list[InstanceType]) -> PlannedClaim:
        return replace(self, mask=self.fleet.mask_of(types))

    def cheaper_than(self, price: int) -> PlannedClaim | str:
        """Only the types whose launch cannot cost so much; why not where `minValues` then falls short."""
        fleet, wanted = self.fleet, self.requirements
        by_price = fleet.by_price(self.mask, wanted)
        kept = [fleet.types[i] for i in by_price if fleet.worst_price(i, wanted) < price]
        _, short = unsatisfied_min_values(kept, self.requirements)
        if short:
            return min_values_text(short)
        return self.of_types(kept)

    def offered(self) -> PlannedClaim:
        """Only the types with an available offering that suits."""
        return replace(self, mask=self.mask & self.fleet.offered(self.requirements))

    def truncated(self, most: int, *, best_effort: bool) -> PlannedClaim | str:
        """The cheapest `most` types; why not where `minValues` then falls short."""
        if self.mask.bit_count() <= most:
            return self
        kept = self.types()[:most]
        _, short = unsatisfied_min_values(kept, self.requirements)
        if short and not best_effort:
            return f"validating minValues, {min_values_text(short)}"
        return self.of_types(kept)

    def allows(self, key: str, value: str) -> bool:
        return self.requirements.get(key).has(value)


def min_values_text(short: dict[str, int]) -> str:
    return f"minValues requirement is not met for label(s) (label(s)=[{' '.join(sorted(short))}])"


def planned(claim: Claim) -> PlannedClaim:
    """The packed claim, with the least that DaemonSets will ask on any of its types. Source: FinalizeScheduling."""
    requests = dict(claim.requests)
    overheads = [g.overhead for g in claim.template.groups if g.mask & claim.mask and g.overhead]
    shared = set.intersection(*(set(o) for o in overheads)) if overheads else set()
    for name in sorted(shared):
        requests[name] = requests.get(name, 0) + min(o[name] for o in overheads)
    template = claim.template
    return PlannedClaim(
        pool=template.pool,
        fleet=template.fleet,
        requirements=claim.requirements,
        mask=claim.mask,
        requests=requests,
        pods=tuple(claim.pods),
        min_values_relaxed=claim.min_values_relaxed,
        min_values_used=template.requirements.has_min_values,
    )
