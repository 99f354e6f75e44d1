"""Who bears what belongs to all: shared namespaces, the system, idle?

A bill by some column has debtors; shares of a common cost are laid on them by a stated rule, to the micro-dollar:

- `even`: the same for each debtor;
- `proportional`: in the ratio of what each owes already (OpenCost's `shareIdle`/`shareSplit=weighted`);
- `weighted`: in the ratio of given weights; a debtor without a weight bears nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from fairway.errors import UserError
from fairway.metering.apportion import apportion


class SharingRule(StrEnum):
    EVEN = "even"
    PROPORTIONAL = "proportional"
    WEIGHTED = "weighted"


def distribute(
    common_micros: int, owed: Mapping[str, int], rule: SharingRule, weights: Mapping[str, float] | None = None
) -> dict[str, int]:
    """Each debtor's share of a common cost, by name; they add up to it.

    Raises: UserError if there is nobody to bear it, or a weight is negative or names nobody.
    """
    if not common_micros:
        return dict.fromkeys(sorted(owed), 0)
    if not owed:
        raise UserError(
            f"{common_micros} µ$ of shared cost have nobody to bear them: expected at least one debtor"
        )
    names = sorted(owed)
    shares = apportion(
        np.array([common_micros], np.int64),
        np.zeros(len(names), np.int64),
        _weights(names, owed, rule, weights or {}),
    )
    return dict(zip(names, shares.tolist(), strict=True))


def _weights(
    names: list[str], owed: Mapping[str, int], rule: SharingRule, weights: Mapping[str, float]
) -> np.ndarray:
    if rule == SharingRule.EVEN:
        return np.ones(len(names))
    if rule == SharingRule.PROPORTIONAL:
        return np.array([float(owed[name]) for name in names])
    strangers = sorted(set(weights) - set(names))
    if strangers:
        raise UserError(
            f"a weight is given to {strangers[0]}, which owes nothing: expected one of {', '.join(names)}"
        )
    wrong = [name for name in names if weights.get(name, 0.0) < 0]
    if wrong:
        raise UserError(f"the weight of {wrong[0]} is {weights[wrong[0]]:g}: expected 0 or more")
    if not any(weights.values()):
        raise UserError("all weights are 0: expected at least one above 0")
    return np.array([float(weights.get(name, 0.0)) for name in names])
