"""Parts of shared devices: how much of each capacity a request takes, and whether that much is left.

Source: structured/internal/incubating/consumable_capacity.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from fairway.kube import quantity
from fairway.scheduling.devices.facts import Amount, Capacity, Policy

Consumed = Mapping[str, Fraction]


def is_enough(
    asked: Mapping[str, Amount], has: Mapping[str, Capacity], taken: Consumed, taking: Consumed
) -> bool:
    """Whether a device with these capacities has room for a request, besides what is taken and being taken."""
    if any(name not in has for name in asked):
        return False
    for name, capacity in has.items():
        takes = consumption(asked.get(name), capacity)
        if _breaks(takes, capacity.policy):
            return False
        if takes.value + taken.get(name, 0) + taking.get(name, 0) > capacity.total.value:
            return False
    return True


def consumptions(asked: Mapping[str, Amount], has: Mapping[str, Capacity]) -> dict[str, Amount]:
    return {name: consumption(asked.get(name), capacity) for name, capacity in has.items()}


def consumption(asked: Amount | None, capacity: Capacity) -> Amount:
    """What a request takes: rounded up to what the policy allows; all of it where nothing says otherwise."""
    policy = capacity.policy
    if asked is None:
        return policy.default if policy is not None and policy.default is not None else capacity.total
    if policy is None:
        return asked
    if policy.low is not None:
        return _in_range(asked, policy)
    return next((v for v in policy.values if asked.value <= v.value), asked)


def _in_range(asked: Amount, policy: Policy) -> Amount:
    assert policy.low is not None
    if asked.value < policy.low.value:
        return policy.low
    if policy.step is None:
        return asked
    low, step = quantity.whole_ceil(policy.low.text), quantity.whole_ceil(policy.step.text)
    steps = -(-(quantity.whole_ceil(asked.text) - low) // step) if step else 0
    value = low + step * steps
    return Amount(Fraction(value), quantity.format_binary(value))


def _breaks(takes: Amount, policy: Policy | None) -> bool:
    if policy is None or (policy.default is not None and takes.value == policy.default.value):
        return False
    if policy.low is not None or policy.high is not None or policy.step is not None:
        if policy.high is not None and takes.value > policy.high.value:
            return True
        if policy.step is None or policy.low is None:
            return False
        low, step = quantity.whole_ceil(policy.low.text), quantity.whole_ceil(policy.step.text)
        return bool(step and (quantity.whole_ceil(takes.text) - low) % step)
    return bool(policy.values) and all(takes.value != v.value for v in policy.values)
