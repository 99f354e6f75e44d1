"""Which instance types suit a wish? Sets of types as bits of one integer.

A few hundred types fit into an integer of as many bits, and `&` on those costs tens of nanoseconds: less than one
NumPy call. Per requirement, per pair of zone and capacity type, and per amount of a resource the set is computed
once; a wish is then a handful of `&`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fairway.kube.resources import Resources
from fairway.provisioning.karpenter.instancetypes import InstanceType, Offering
from fairway.provisioning.karpenter.labels import ON_DEMAND, RESERVED, SPOT, WELL_KNOWN
from fairway.provisioning.karpenter.requirement import IN, Requirement
from fairway.provisioning.karpenter.requirements import Requirements

NO_PRICE: Final = 2**62


class Amounts:
    """The types that have at least so much of a resource: one `bisect` a question."""

    __slots__ = ("_at_least", "_values")

    def __init__(self, amounts: Sequence[int]) -> None:
        order = sorted(range(len(amounts)), key=lambda i: amounts[i])
        self._values = [amounts[i] for i in order]
        self._at_least = [0] * (len(order) + 1)
        for at in range(len(order) - 1, -1, -1):
            self._at_least[at] = self._at_least[at + 1] | 1 << order[at]

    def at_least(self, amount: int) -> int:
        return self._at_least[bisect_left(self._values, amount)]

    def at_most(self, amount: int) -> int:
        return self._at_least[0] & ~self.at_least(amount + 1)


class Fleet:
    """The instance types of one or more NodePools, as bits in the order given."""

    __slots__ = (
        "_allocatable",
        "_by_offering",
        "_by_price",
        "_by_requirement",
        "_by_requirements",
        "_capacity",
        "_label_values",
        "_named",
        "_offered",
        "_prices",
        "_worst_prices",
        "all",
        "templates",
        "types",
    )

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self.types = tuple(types)
        self.all = (1 << len(self.types)) - 1
        allocatable = [t.allocatable for t in self.types]
        self._allocatable = _by_resource(allocatable)
        self._capacity = _by_resource([t.capacity for t in self.types])
        self._by_requirement: dict[Requirement, int] = {}
        self._by_requirements: dict[Requirements, int] = {}
        self._offered: dict[Requirements, int] = {}
        self._prices: dict[Requirements, dict[int, int]] = {}
        self._worst_prices: dict[Requirements, dict[int, int]] = {}
        self._by_price: dict[Requirements, list[int]] = {}
        self.templates: dict[tuple[int, int, bool], tuple[object, object, Any]] = {}
        """What `claims` made of it for a NodePool and DaemonSets, with those: an id alone may be another's by now."""
        self._label_values: dict[Requirements, dict[str, list[str]]] = {}
        self._named: dict[str, InstanceType] | None = None
        self._by_offering = self._grouped_offerings()

    def _grouped_offerings(self) -> list[tuple[Requirements, int]]:
        """What available offerings ask, and which types have one that asks just that."""
        groups: dict[Requirements, int] = {}
        for i, kind in enumerate(self.types):
            for offering in kind.offerings:
                if offering.available:
                    key = offering.requirements()
                    groups[key] = groups.get(key, 0) | 1 << i
        return list(groups.items())

    def named(self, name: str) -> InstanceType | None:
        if self._named is None:
            self._named = {}
            for kind in self.types:
                self._named.setdefault(kind.name, kind)
        return self._named.get(name)

    def label_values(self, wanted: Requirements) -> dict[str, list[str]]:
        """The values each label of a new node could have where the wish holds, sorted."""
        found = self._label_values.get(wanted)
        if found is None:
            values: dict[str, set[str]] = {}
            for kind in self.types:
                for both in wanted.plus(kind.requirements):
                    values.setdefault(both.key, set()).update(both.values)
            for own in wanted:
                if own.operator == IN:
                    values.setdefault(own.key, set()).update(own.values)
            found = self._label_values[wanted] = {key: sorted(values[key]) for key in values}
        return found

    def indexes(self, mask: int) -> Iterator[int]:
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def of(self, mask: int) -> list[InstanceType]:
        return [self.types[i] for i in self.indexes(mask)]

    def mask_of(self, types: Iterable[InstanceType]) -> int:
        at = {id(t): i for i, t in enumerate(self.types)}
        mask = 0
        for kind in types:
            mask |= 1 << at[id(kind)]
        return mask

    def compatible(self, wanted: Requirements) -> int:
        """Types none of whose labels contradicts the wish."""
        found = self._by_requirements.get(wanted)
        if found is None:
            found = self.all
            for requirement in wanted:
                found &= self._compatible_with(requirement)
            self._by_requirements[wanted] = found
        return found

    def _compatible_with(self, wanted: Requirement) -> int:
        found = self._by_requirement.get(wanted)
        if found is None:
            single = Requirements((wanted,))
            found = 0
            for i, kind in enumerate(self.types):
                if wanted.key not in kind.requirements or kind.requirements.conflict(single) is None:
                    found |= 1 << i
            self._by_requirement[wanted] = found
        return found

    def offered(self, wanted: Requirements) -> int:
        """Types with an available offering that suits the wish."""
        found = self._offered.get(wanted)
        if found is None:
            found = 0
            for asked, mask in self._by_offering:
                if wanted.is_compatible(asked, WELL_KNOWN):
                    found |= mask
            self._offered[wanted] = found
        return found

    def fitting(self, amounts: Mapping[str, int]) -> int:
        """Types that can hold so much."""
        found = self.all
        for name, amount in amounts.items():
            if amount > 0:
                by_amount = self._allocatable.get(name)
                found &= by_amount.at_least(amount) if by_amount is not None else 0
        return found

    def within(self, limits: Mapping[str, int]) -> int:
        """Types whose capacity stays within each of these."""
        found = self.all
        for name, limit in limits.items():
            by_amount = self._capacity.get(name)
            if by_amount is not None:
                found &= by_amount.at_most(limit)
            elif limit < 0:
                return 0
        return found

    def largest(self, mask: int) -> Resources:
        """The most of each resource any of these types has."""
        found: Resources = {}
        for i in self.indexes(mask):
            for name, value in self.types[i].capacity.items():
                if value > found.get(name, 0):
                    found[name] = value
        return found

    def price(self, index: int, wanted: Requirements) -> int:
        """The cheapest available offering of a type that suits the wish; NO_PRICE where none does."""
        known = self._prices.setdefault(wanted, {})
        found = known.get(index)
        if found is None:
            suited = (o.price for o in available(self.types[index], wanted))
            found = known[index] = min(suited, default=NO_PRICE)
        return found

    def by_price(self, mask: int, wanted: Requirements) -> list[int]:
        """Indexes of these types, cheapest first. Unlike kube: ties by name, Karpenter's sort leaves them open."""
        order = self._by_price.get(wanted)
        if order is None:
            every = range(len(self.types))
            order = self._by_price[wanted] = sorted(
                every, key=lambda i: (self.price(i, wanted), self.types[i].name)
            )
        return [i for i in order if mask >> i & 1]

    def worst_price(self, index: int, wanted: Requirements) -> int:
        """What a launch of this type may cost at most."""
        known = self._worst_prices.setdefault(wanted, {})
        found = known.get(index)
        if found is None:
            found = known[index] = worst_launch_price(self.types[index], wanted)
        return found


def _by_resource(vectors: Sequence[Resources]) -> dict[str, Amounts]:
    names = sorted({name for vector in vectors for name in vector})
    return {name: Amounts([v.get(name, 0) for v in vectors]) for name in names}


def available(kind: InstanceType, wanted: Requirements) -> list[Offering]:
    """Offerings of a type that can be launched and suit the wish."""
    return [o for o in kind.offerings if o.available and wanted.is_compatible(o.requirements(), WELL_KNOWN)]


def worst_launch_price(kind: InstanceType, wanted: Requirements) -> int:
    """What a launch may cost at most, under the capacity type it would use: reserved, else spot, else on-demand.

    Source: Offerings.WorstLaunchPrice.
    """
    suited = available(kind, wanted)
    for capacity_type in (RESERVED, SPOT, ON_DEMAND):
        prices = [o.price for o in suited if o.capacity_type == capacity_type]
        if prices:
            return max(prices)
    return NO_PRICE


def unsatisfied_min_values(types: Sequence[InstanceType], wanted: Requirements) -> tuple[int, dict[str, int]]:
    """How many of these types (in their order) it takes for every `minValues`, and the labels that fall short.

    Source: InstanceTypes.SatisfiesMinValues.
    """
    asked = {r.key: r.min_values for r in wanted if r.min_values is not None}
    if not asked:
        return 0, {}
    seen: dict[str, set[str]] = {key: set() for key in asked}
    short: dict[str, int] = {}
    for count, kind in enumerate(types, 1):
        for key in asked:
            seen[key] |= kind.requirements.get(key).values
        short = {key: len(seen[key]) for key, least in asked.items() if len(seen[key]) < least}
        if not short:
            return count, {}
    return len(types), short if types else {}
