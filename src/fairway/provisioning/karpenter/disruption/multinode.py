"""How many nodes can go at once? The most promising first n, by halving.

Source: disruption/multinodeconsolidation.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fairway.provisioning.karpenter.disruption.balanced import is_worth_it
from fairway.provisioning.karpenter.disruption.candidates import Candidate
from fairway.provisioning.karpenter.disruption.commands import REPLACE, Command
from fairway.provisioning.karpenter.disruption.consolidation import consolidate
from fairway.provisioning.karpenter.disruption.context import DisruptionContext
from fairway.provisioning.karpenter.fleet import NO_PRICE
from fairway.provisioning.karpenter.labels import WELL_KNOWN
from fairway.provisioning.karpenter.planned import PlannedClaim
from fairway.provisioning.karpenter.requirements import label_requirements

MULTI: Final = "multi"
MOST_AT_ONCE: Final = 100


def first_n(context: DisruptionContext, candidates: Sequence[Candidate]) -> Command | None:
    """The command for the most of these, in their order, that can be consolidated together."""
    low, high = 1, min(len(candidates) - 1, MOST_AT_ONCE)
    best = None
    while low <= high:
        middle = (low + high) // 2
        command = _worth_it(context, candidates[: middle + 1])
        if command is not None:
            best, low = command, middle + 1
        else:
            high = middle - 1
    return best


def _worth_it(context: DisruptionContext, gone: Sequence[Candidate]) -> Command | None:
    command = consolidate(context, gone, MULTI).command
    if command is not None and command.decision == REPLACE:
        plan = without_same_types(command.replacements[0], gone)
        command = replace(command, replacements=(plan,)) if plan is not None else None
    return command if command is not None and is_worth_it(context, command) else None


def without_same_types(plan: PlannedClaim, gone: Sequence[Candidate]) -> PlannedClaim | None:
    """Without types as dear as the cheapest node that goes and could be its own replacement.

    Three nodes replaced by one of the same type as one of them: that one had better stay. Source:
    filterOutSameInstanceType.
    """
    prices: dict[str, int] = {}
    for candidate in gone:
        if candidate.kind is None:
            continue
        labels = label_requirements(candidate.node.labels)
        suited = [
            o.price for o in candidate.kind.offerings if labels.is_compatible(o.requirements(), WELL_KNOWN)
        ]
        if suited:
            name = candidate.kind.name
            prices[name] = min(prices.get(name, NO_PRICE), *suited)
    limit = min((prices.get(t.name, NO_PRICE) for t in plan.types()), default=NO_PRICE)
    cheaper = plan.cheaper_than(limit)
    return cheaper if not isinstance(cheaper, str) and cheaper.mask else None
